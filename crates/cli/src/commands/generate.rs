//! Completion scripts and manual pages.

use crate::args::Cli;
use crate::output::{Failure, Outcome};
use clap::CommandFactory;
use clap_complete::Shell;

pub(crate) fn completions(shell: Shell) -> Outcome {
    clap_complete::generate(shell, &mut Cli::command(), "tputc", &mut std::io::stdout());
    Ok(())
}

/// The page of `tputc`, or of one of its commands.
pub(crate) fn man(command: Option<&str>) -> Outcome {
    let mut tputc = Cli::command();
    tputc.build(); // commands know the options of all, and their own whole names, from here on
    let page = match command {
        None => tputc,
        Some(name) => subcommand(&tputc, name)?,
    };
    clap_mangen::Man::new(page).render(&mut std::io::stdout()).map_err(Failure::output)
}

fn subcommand(tputc: &clap::Command, name: &str) -> Result<clap::Command, Failure> {
    let shown: Vec<&clap::Command> = tputc.get_subcommands().filter(|it| !it.is_hide_set()).collect();
    // The page's foot has a program's name and version.
    let found = shown.iter().find(|it| it.get_name() == name);
    let found = found.map(|&it| it.clone().name("tputc").version(env!("CARGO_PKG_VERSION")));
    found.ok_or_else(|| {
        let names: Vec<&str> = shown.iter().map(|it| it.get_name()).collect();
        Failure::tool(format!("there is no command `{name}`; the commands are {}", names.join(", ")))
    })
}
