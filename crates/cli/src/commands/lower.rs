//! `tputc lower`: a program at one stage.

use crate::args::{Lower, LowerFormat, Stage};
use crate::output::{Failure, Outcome, Printer, write};
use crate::stablehlo::{self, Form};
use crate::{ahead, inputs};
use driver::{Ahead, Program, Session};
use fuse::Platform;
use target::Target;

pub(crate) fn run(args: &Lower, printer: &Printer) -> Outcome {
    let stage = match args.stage {
        Stage::Core => driver::Stage::Core,
        Stage::Fused => driver::Stage::Fused,
        Stage::Stablehlo => driver::Stage::Stablehlo,
        Stage::Hlo => driver::Stage::Hlo,
    };
    if let (Some(target), driver::Stage::Hlo) = (&args.target, stage) {
        return write(args.output.as_deref(), made_for(args, target, printer)?.as_bytes());
    }
    let session = match stage {
        driver::Stage::Hlo => Some(printer.timed("plugin loaded", || session(args.plugin.as_deref()))?),
        _ => None,
    };
    if inputs::is_mlir(&args.source) {
        return mlir(args, session.as_ref(), printer);
    }
    let program = printer.timed("read", || inputs::program(&args.source))?;
    let bytes = printer.timed("lowered", || lowered(args, stage, &program, session.as_ref()))?;
    write(args.output.as_deref(), &bytes)
}

fn lowered(
    args: &Lower,
    stage: driver::Stage,
    program: &Program,
    session: Option<&Session>,
) -> Result<Vec<u8>, Failure> {
    let dims = inputs::dims(&args.source, program)?;
    Ok(match (args.format, &args.target) {
        (LowerFormat::Text | LowerFormat::Json, Some(_)) => program.text_for(stage, &dims, Platform::Tpu)?.into_bytes(),
        (LowerFormat::Text | LowerFormat::Json, None) => program.text(stage, &dims, session)?.into_bytes(),
        (LowerFormat::Bytecode, _) if stage != driver::Stage::Stablehlo => return Err(no_bytecode()),
        (LowerFormat::Bytecode, Some(_)) => program.bytecode_for(&dims, Platform::Tpu)?,
        (LowerFormat::Bytecode, None) => program.bytecode(&dims)?,
    })
}

fn no_bytecode() -> Failure {
    Failure::tool("only the stablehlo stage has a bytecode form")
}

/// What libtpu makes of the program.
fn made_for(args: &Lower, target: &Target, printer: &Printer) -> Result<String, Failure> {
    if args.format == LowerFormat::Bytecode {
        return Err(no_bytecode());
    }
    let source = printer.timed("read", || ahead::Source::read(&args.source, &args.ahead))?;
    let pool = ahead::pool(&args.ahead)?;
    let compile = |target: &Target| source.compile(target, &pool);
    let compiled = ahead::each(std::slice::from_ref(target), 1, printer, compile)?;
    Ok(compiled.iter().map(Ahead::optimized_text).collect::<Result<String, _>>()?)
}

fn session(plugin: Option<&str>) -> Result<Session, Failure> {
    Ok(Session::new(plugin, driver::DiskCache::from_env())?)
}

/// A StableHLO file already is the stablehlo stage; a plugin can show what comes after.
fn mlir(args: &Lower, session: Option<&Session>, printer: &Printer) -> Outcome {
    let (program, form) = printer.timed("read", || stablehlo::read(&args.source.trace))?;
    match (args.stage, session, form) {
        (Stage::Hlo, Some(session), _) => {
            if let Some(call) = stablehlo::host_call(&program)
                && !session.accept_calls()?
            {
                return Err(call.refused(&args.source.trace));
            }
            let text = printer.timed("optimized", || session.optimized_text(&program))?;
            write(args.output.as_deref(), text.as_bytes())
        }
        (Stage::Stablehlo, _, form) if (form == Form::Bytecode) == (args.format == LowerFormat::Bytecode) => {
            write(args.output.as_deref(), &program)
        }
        (Stage::Stablehlo, _, Form::Bytecode) => Err(Failure::tool(
            "this .mlir is bytecode: --format bytecode shows it as it is, --stage hlo what a plugin makes of it",
        )),
        _ => Err(Failure::tool("a .mlir file can only be shown as it is, or with --stage hlo")),
    }
}
