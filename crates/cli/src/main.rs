//! `tputc`: shows, checks, compiles and runs traced programs.

mod ahead;
mod args;
mod commands;
mod inputs;
mod output;
mod stablehlo;

use args::{Cli, Command};
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let printer = output::Printer::new(&cli);
    let outcome = match cli.command {
        Command::Lower(args) => commands::lower::run(&args, &printer),
        Command::Fuse(args) => commands::fuse::run(&args, &printer),
        Command::Run(args) => commands::run::run(&args, &printer),
        Command::Check(args) => commands::check::run(&args, &printer),
        Command::Compile(args) => commands::compile::run(&args, &printer),
        Command::Worker { libtpu, folder } => commands::worker::run(&libtpu, &folder),
        Command::Ops(args) => commands::ops::run(&args),
        Command::Doctor(args) => commands::doctor::run(&args),
        Command::Completions { shell } => commands::generate::completions(shell),
        Command::Man { command } => commands::generate::man(command.as_deref()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => printer.fail(&failure),
    }
}
