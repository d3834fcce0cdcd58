//! Errors as a compiler shows them: the user's source line underlined, the module it ran in, what to do.

use crate::error::{Error, ErrorKind};
use crate::loc::Loc;
use serde_json::{Value, json};
use std::fmt::Write;
use std::io::Read;

/// Source files larger than this (in bytes) are not quoted from.
const MAX_SOURCE: u64 = 4 << 20;
/// Source lines are cut after this many characters.
const MAX_COLUMNS: usize = 160;

const RED: &str = "\x1b[1;31m";
const BLUE: &str = "\x1b[1;34m";
const BOLD: &str = "\x1b[1m";

/// `error` in several lines, without a last line break. Reads the source file if it is there. Without `color` the
/// frame is plain ASCII.
pub fn render(error: &Error, color: bool) -> String {
    let source = error.loc().and_then(source_line);
    render_with(error, source.as_deref(), color)
}

/// `error` as data: `severity` (`error`), `kind` (`invalid`, `unsupported`, `internal`) and `message`; `op`, `help`,
/// `file`, `line`, `function`, `module`, each null where unknown.
pub fn to_json(error: &Error) -> Value {
    let loc = error.loc().cloned().unwrap_or_default();
    let known = |s: &str| if s.is_empty() { Value::Null } else { s.into() };
    json!({
        "severity": "error",
        "kind": match error.kind() {
            ErrorKind::Invalid | ErrorKind::Index | ErrorKind::Type | ErrorKind::NoKernel => "invalid",
            ErrorKind::Unsupported => "unsupported",
            ErrorKind::DataDependent => "data-dependent",
            ErrorKind::Internal => "internal",
        },
        "message": error.message(),
        "op": error.op().map_or(Value::Null, known),
        "help": error.help(),
        "file": known(&loc.file),
        "line": if loc.line == 0 { Value::Null } else { loc.line.into() },
        "function": known(&loc.function),
        "module": known(&loc.module),
    })
}

/// As [`render`], with the source line given.
fn render_with(error: &Error, source: Option<&str>, color: bool) -> String {
    let paint = |style: &str, text: &str| match color {
        true => format!("{style}{text}\x1b[0m"),
        false => text.to_owned(),
    };
    let title = match error.kind() {
        ErrorKind::Invalid | ErrorKind::Index | ErrorKind::Type | ErrorKind::NoKernel => "error",
        ErrorKind::Unsupported | ErrorKind::DataDependent => "error: not supported",
        ErrorKind::Internal => "internal error",
    };
    let op = error.op().filter(|op| !op.is_empty()).map(|op| format!("{}: ", clean(op))).unwrap_or_default();
    let mut out = format!("{}: {}", paint(RED, title), paint(BOLD, &format!("{op}{}", clean(error.message()))));
    let place = error.loc().filter(|l| !l.file.is_empty());
    let number = place.map_or(String::new(), |l| l.line.to_string());
    let gutter = " ".repeat(number.len());
    // Writing to a string does not fail.
    if let Some(loc) = place {
        let within = if loc.function.is_empty() { String::new() } else { format!(", in {}", clean(&loc.function)) };
        let _ = write!(out, "\n{gutter}{} {}:{number}{within}", paint(BLUE, "-->"), clean(&loc.file));
    }
    if let Some(line) = source.map(clean) {
        let text = line.trim_start();
        let (bar, indent) = (paint(BLUE, "|"), line.chars().count() - text.chars().count());
        let carets = paint(RED, &"^".repeat(text.trim_end().chars().count().max(1)));
        let _ = write!(out, "\n{gutter} {bar}\n{} {bar} {line}", paint(BLUE, &number));
        let _ = write!(out, "\n{gutter} {bar} {}{carets}", " ".repeat(indent));
    }
    for (word, text) in notes(error) {
        let _ = write!(out, "\n{gutter} {} {}: {}", paint(BLUE, "="), paint(BOLD, word), clean(&text));
    }
    out
}

fn notes(error: &Error) -> Vec<(&'static str, String)> {
    let module = error.loc().map(|l| l.module.to_string()).filter(|m| !m.is_empty()).map(|m| ("module", m));
    let bug = "this is a bug in TorchTPU; please report it with the program".to_owned();
    let bug = (error.kind() == ErrorKind::Internal).then_some(("help", bug));
    let help = error.help().map(|h| ("help", h.to_owned()));
    module.into_iter().chain(help).chain(bug).collect()
}

/// `text` without what would move a terminal's cursor or colour it; tabs become blanks.
fn clean(text: &str) -> String {
    let blank = text.replace('\t', "    ");
    blank.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// The line `loc` points at; `None` if it cannot be had cheaply.
fn source_line(loc: &Loc) -> Option<String> {
    let small = |m: &std::fs::Metadata| m.is_file() && m.len() <= MAX_SOURCE;
    std::fs::metadata(&*loc.file).ok().filter(small)?;
    let mut bytes = vec![];
    std::fs::File::open(&*loc.file).ok()?.take(MAX_SOURCE).read_to_end(&mut bytes).ok()?;
    let line = bytes.split(|&b| b == b'\n').nth((loc.line as usize).checked_sub(1)?)?;
    let line: String = String::from_utf8_lossy(line).trim_end().chars().take(MAX_COLUMNS).collect();
    (!line.trim().is_empty()).then_some(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use insta::assert_snapshot;

    fn loc(file: &str, line: u32) -> Loc {
        Loc {
            file: file.into(),
            line,
            function: "forward".into(),
            module: "layers.0.mlp".into(),
            op: "aten.addmm.default".into(),
        }
    }

    fn mismatch() -> Error {
        Error::invalid("inner sizes differ: 2 and 3")
            .with_help("transpose the second matrix")
            .at("aten.addmm.default", &loc("model.py", 12))
    }

    #[test]
    fn the_source_line_is_underlined() {
        assert_snapshot!(render_with(&mismatch(), Some("\treturn torch.addmm(b, x, w)"), false), @r"
        error: aten.addmm.default: inner sizes differ: 2 and 3
          --> model.py:12, in forward
           |
        12 |     return torch.addmm(b, x, w)
           |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^
           = module: layers.0.mlp
           = help: transpose the second matrix
        ");
    }

    #[test]
    fn a_missing_file_is_left_out() {
        let missing = Error::unsupported("no lowering for `dilation=2`").at("aten.f.default", &loc("/no/such/m.py", 3));
        assert_snapshot!(render(&missing, false), @r"
        error: not supported: aten.f.default: no lowering for `dilation=2`
         --> /no/such/m.py:3, in forward
          = module: layers.0.mlp
        ");
    }

    #[test]
    fn without_a_place() {
        assert_snapshot!(render(&Error::internal("%3 is no tuple"), false), @r"
        internal error: %3 is no tuple
         = help: this is a bug in TorchTPU; please report it with the program
        ");
    }

    #[test]
    fn colors_only_on_demand() {
        let colored = render_with(&mismatch(), Some("x = y"), true);
        assert!(colored.starts_with("\x1b[1;31merror\x1b[0m: \x1b[1maten.addmm.default: inner"));
        assert!(!render_with(&mismatch(), Some("x\x1b[31m = y"), false).contains('\x1b'));
    }

    #[test]
    fn source_is_read_from_disk() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("m.py");
        std::fs::write(&path, "import torch\n\n  y = x @ x  \n").unwrap();
        let at = |line| source_line(&loc(path.to_str().unwrap(), line));
        assert_eq!(at(3).as_deref(), Some("  y = x @ x"));
        assert_eq!((at(2), at(0), at(99)), (None, None, None));
        assert_eq!(source_line(&loc(dir.path().to_str().unwrap(), 1)), None);
    }

    #[test]
    fn as_data() {
        assert_snapshot!(to_json(&mismatch()), @r#"{"file":"model.py","function":"forward","help":"transpose the second matrix","kind":"invalid","line":12,"message":"inner sizes differ: 2 and 3","module":"layers.0.mlp","op":"aten.addmm.default","severity":"error"}"#);
    }
}
