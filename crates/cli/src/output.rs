//! What the tool says, and how it ends.

use crate::args::{Cli, When};
use serde_json::{Value, json};
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

/// A command's end.
pub(crate) type Outcome = Result<(), Failure>;

/// Why a command did not do its work.
pub(crate) enum Failure {
    /// The program or its inputs were rejected: exit status 1.
    Rejected(driver::Error),
    /// The program was rejected, as a report says: exit status 1.
    Reported,
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
            driver::Error::Io { .. } | driver::Error::Plugin(_) | driver::Error::Ahead(_) => Failure::tool(error),
            rejected => Failure::Rejected(rejected),
        }
    }
}

/// Writes `text` to standard output.
pub(crate) fn print(text: &str) -> Outcome {
    io::stdout().write_all(text.as_bytes()).map_err(Failure::output)
}

/// Writes `bytes` to `path`, or to standard output. A file is there whole or not at all.
pub(crate) fn write(path: Option<&Path>, bytes: &[u8]) -> Outcome {
    match path {
        Some(path) => write_file(path, bytes).map_err(|e| Failure::tool(format!("{}: {e}", path.display()))),
        None => io::stdout().write_all(bytes).map_err(Failure::output),
    }
}

/// Columns of the terminal that shows what is written to `path`, or to standard output; `None` if none does.
pub(crate) fn columns(path: Option<&Path>) -> Option<usize> {
    let (_rows, columns) = path.is_none().then(|| console::Term::stdout().size_checked()).flatten()?;
    Some(columns.into())
}

fn write_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // A pipe or a device is written to as it stands.
    if path.exists() && !path.is_file() {
        return std::fs::write(path, bytes);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() {
        return Err(io::Error::new(io::ErrorKind::NotFound, format!("{} is no folder", folder.display())));
    }
    let mut builder = tempfile::Builder::new();
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o666); // less the umask, as for any new file
    let mut file = builder.prefix(".tputc-").permissions(permissions).tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.persist(path).map(drop).map_err(|e| e.error)
}

/// Says things on standard error.
pub(crate) struct Printer {
    color: bool,
    quiet: bool,
    verbose: bool,
    json: bool,
}

impl Printer {
    pub(crate) fn new(cli: &Cli) -> Printer {
        let global = &cli.global;
        let color = match global.color {
            When::Always => true,
            When::Never => false,
            When::Auto => io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none(),
        };
        Printer { color, quiet: global.quiet, verbose: global.verbose, json: cli.wants_json() }
    }

    /// A line for people, unless they asked for quiet.
    pub(crate) fn say(&self, line: impl Display) {
        match (self.quiet, self.json) {
            (true, _) => {}
            (false, true) => eprintln!("{}", data("info", "note", &line.to_string())),
            (false, false) => eprintln!("{line}"),
        }
    }

    /// Whether somebody looks at standard error and wants to be told what goes on.
    pub(crate) fn shows_progress(&self) -> bool {
        !self.quiet && !self.json && io::stderr().is_terminal()
    }

    /// A line for people who asked for more.
    pub(crate) fn detail(&self, line: impl Display) {
        if self.verbose {
            self.say(line);
        }
    }

    /// What `work` gives. How long that took is for people who asked for more.
    pub(crate) fn timed<T>(&self, step: impl Display, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let done = work();
        self.detail(format_args!("{step}: {:.1?}", start.elapsed()));
        done
    }

    /// Reports a failure and gives its exit status.
    pub(crate) fn fail(&self, failure: &Failure) -> ExitCode {
        let text = match self.json {
            true => Printer::as_data(failure).map(|d| d.to_string()),
            false => self.as_text(failure),
        };
        if let Some(text) = text {
            eprintln!("{text}");
        }
        match failure {
            Failure::ClosedPipe => ExitCode::SUCCESS,
            Failure::Rejected(_) | Failure::Reported => ExitCode::from(1),
            Failure::Tool(_) => ExitCode::from(2),
        }
    }

    fn as_text(&self, failure: &Failure) -> Option<String> {
        match failure {
            Failure::ClosedPipe | Failure::Reported => None,
            Failure::Rejected(driver::Error::Program(e)) => Some(ir::diag::render(e, self.color).trim_end().to_owned()),
            Failure::Rejected(error) => Some(format!("error: {error}")),
            Failure::Tool(message) => Some(format!("error: {message}")),
        }
    }

    fn as_data(failure: &Failure) -> Option<Value> {
        let (kind, message) = match failure {
            Failure::ClosedPipe | Failure::Reported => return None,
            Failure::Rejected(driver::Error::Program(e)) => return Some(ir::diag::to_json(e)),
            Failure::Rejected(error @ driver::Error::Compile(_)) => ("compile", error.to_string()),
            Failure::Rejected(error @ driver::Error::Execute(_)) => ("execute", error.to_string()),
            Failure::Rejected(error) => ("argument", error.to_string()),
            Failure::Tool(message) => ("tool", message.clone()),
        };
        Some(data("error", kind, &message))
    }
}

/// What has no place in the program, in the keys of [`ir::diag::to_json`].
fn data(severity: &str, kind: &str, message: &str) -> Value {
    json!({ "severity": severity, "kind": kind, "message": message })
}
