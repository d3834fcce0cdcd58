//! StableHLO files: what is in them, and whether it was made for the CPU plugin, and calls the process that runs it.

use crate::inputs;
use crate::output::Failure;
use ir::{Error, Loc};
use std::path::Path;

/// How MLIR bytecode begins.
const BYTECODE: &[u8] = b"ML\xEFR";

/// How a program is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Text,
    Bytecode,
}

/// The program in the `.mlir` at `path`. Whether it is a right one, plugins say.
pub(crate) fn read(path: &Path) -> Result<(Vec<u8>, Form), Failure> {
    let program = inputs::read(path)?;
    if program.starts_with(BYTECODE) {
        return Ok((program, Form::Bytecode));
    }
    // Programs are functions, in a module or alone.
    let is_text = std::str::from_utf8(&program).is_ok_and(|text| text.contains("func") || text.contains("module"));
    if is_text {
        return Ok((program, Form::Text));
    }
    let message = format!("{} holds no StableHLO: it is neither MLIR text nor MLIR bytecode", path.display());
    let error = Error::invalid(message).with_help("a trace.json or a .pt2 goes by its own ending");
    Err(Failure::Rejected(error.into()))
}

const HELP: &str = "compile the trace, from which each target gets its own: save it with \
                    `torchtpu.capture(model, x).save(\"trace.json\")`, or take the trace.json that TORCHTPU_DUMP wrote beside \
                    the text; `tputc lower trace.json --target v5e:1x1` shows what a TPU gets";

/// A call of ours, as `torchtpu.lower` and `TORCHTPU_DUMP` write them for the CPU plugin.
pub(crate) struct HostCall {
    target: &'static str,
    line: u32,
}

/// The first one in `program`.
pub(crate) fn host_call(program: &[u8]) -> Option<HostCall> {
    let text = String::from_utf8_lossy(program);
    let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    (1..).zip(code).find_map(|(line, code)| {
        let target = runtime::host_calls().find(|target| is_call(code, target))?;
        Some(HostCall { target, line })
    })
}

/// Whether a line calls `target`: in MLIR's generic form, which we write, or in StableHLO's own.
fn is_call(code: &str, target: &str) -> bool {
    code.contains(&format!("call_target_name = \"{target}\"")) || code.contains(&format!("custom_call @{target}("))
}

impl HostCall {
    /// The refusal of the program in `file` by what runs on no CPU.
    pub(crate) fn refused(&self, file: &Path) -> Failure {
        let file = file.display().to_string().into();
        let place = Loc { file, line: self.line, ..Loc::default() };
        let message =
            "a call of the process it runs in, which a TPU cannot make: this StableHLO was made for the CPU plugin";
        let error = Error::unsupported(message).with_help(HELP).at(self.target, &place);
        Failure::Rejected(error.into())
    }
}
