//! Completion scripts and the manual page.

use crate::args::Cli;
use crate::output::{Failure, Outcome};
use clap::CommandFactory;
use clap_complete::Shell;

pub(crate) fn completions(shell: Shell) -> Outcome {
    clap_complete::generate(shell, &mut Cli::command(), "tputc", &mut std::io::stdout());
    Ok(())
}

pub(crate) fn man() -> Outcome {
    clap_mangen::Man::new(Cli::command()).render(&mut std::io::stdout()).map_err(Failure::output)
}
