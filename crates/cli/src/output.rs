//! What the tool says, and how it ends.

use crate::args::{Diagnostics, Global, When};
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

/// A command's end.
pub(crate) type Outcome = Result<(), Failure>;

/// Why a command did not do its work.
pub(crate) enum Failure {
    /// The program or its inputs were rejected: exit status 1.
    Rejected(driver::Error),
    /// The tool could not work: exit status 2.
    Tool(String),
    /// Whoever read our output went away; nothing to say.
    ClosedPipe,
}

impl Failure {
    pub(crate) fn tool(message: impl Display) -> Failure {
        Failure::Tool(message.to_string())
    }

    /// A failure to write output.
    pub(crate) fn output(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::ClosedPipe,
            _ => Failure::Tool(format!("cannot write the output: {error}")),
        }
    }
}

impl From<driver::Error> for Failure {
    fn from(error: driver::Error) -> Failure {
        match error {
            driver::Error::Io { .. } | driver::Error::Plugin(_) => Failure::tool(error),
            rejected => Failure::Rejected(rejected),
        }
    }
}

/// Writes `text` to standard output.
pub(crate) fn print(text: &str) -> Outcome {
    io::stdout().write_all(text.as_bytes()).map_err(Failure::output)
}

/// Writes `bytes` to `path`, or to standard output.
pub(crate) fn write(path: Option<&Path>, bytes: &[u8]) -> Outcome {
    match path {
        Some(path) => std::fs::write(path, bytes).map_err(|e| Failure::tool(format!("{}: {e}", path.display()))),
        None => io::stdout().write_all(bytes).map_err(Failure::output),
    }
}

/// Says things on standard error.
pub(crate) struct Printer {
    color: bool,
    quiet: bool,
    verbose: bool,
    json: bool,
}

impl Printer {
    pub(crate) fn new(global: &Global) -> Printer {
        let color = match global.color {
            When::Always => true,
            When::Never => false,
            When::Auto => io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none(),
        };
        let json = global.diagnostics == Diagnostics::Json;
        Printer { color, quiet: global.quiet, verbose: global.verbose, json }
    }

    /// A line for people, unless they asked for quiet.
    pub(crate) fn say(&self, line: impl Display) {
        if !self.quiet {
            eprintln!("{line}");
        }
    }

    /// A line for people who asked for more.
    pub(crate) fn detail(&self, line: impl Display) {
        if self.verbose && !self.quiet {
            eprintln!("{line}");
        }
    }

    /// Reports a failure and gives its exit status.
    pub(crate) fn fail(&self, failure: &Failure) -> ExitCode {
        match failure {
            Failure::ClosedPipe => ExitCode::SUCCESS,
            Failure::Rejected(error) => {
                eprint!("{}", self.render(error));
                ExitCode::from(1)
            }
            Failure::Tool(message) if self.json => {
                eprintln!("{}", serde_json::json!({ "severity": "error", "message": message }));
                ExitCode::from(2)
            }
            Failure::Tool(message) => {
                eprintln!("error: {message}");
                ExitCode::from(2)
            }
        }
    }

    fn render(&self, error: &driver::Error) -> String {
        match error {
            driver::Error::Program(e) if self.json => format!("{}\n", ir::diag::to_json(e)),
            driver::Error::Program(e) => format!("{}\n", ir::diag::render(e, self.color).trim_end()),
            other if self.json => {
                format!("{}\n", serde_json::json!({ "severity": "error", "message": other.to_string() }))
            }
            other => format!("error: {other}\n"),
        }
    }
}
