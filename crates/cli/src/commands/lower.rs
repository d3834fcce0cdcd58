//! `tputc lower`: a program at one stage.

use crate::args::{Lower, LowerFormat, Source, Stage};
use crate::inputs;
use crate::output::{Failure, Outcome, write};
use driver::{Program, Session};

pub(crate) fn run(args: &Lower) -> Outcome {
    let stage = match args.stage {
        Stage::Core => driver::Stage::Core,
        Stage::Fused => driver::Stage::Fused,
        Stage::Stablehlo => driver::Stage::Stablehlo,
        Stage::Hlo => driver::Stage::Hlo,
    };
    let session = (stage == driver::Stage::Hlo).then(|| session(args.plugin.as_deref())).transpose()?;
    if inputs::is_mlir(&args.source) {
        return mlir(args, session.as_ref());
    }
    let program = inputs::program(&args.source)?;
    let bytes = match args.format {
        LowerFormat::Text | LowerFormat::Json => {
            program.text(stage, &inputs::dims(&args.source), session.as_ref())?.into_bytes()
        }
        LowerFormat::Bytecode => bytecode(&program, stage, &args.source)?,
    };
    write(args.output.as_deref(), &bytes)
}

fn session(plugin: Option<&str>) -> Result<Session, Failure> {
    Ok(Session::new(plugin, driver::DiskCache::from_env())?)
}

fn bytecode(program: &Program, stage: driver::Stage, source: &Source) -> Result<Vec<u8>, Failure> {
    match stage {
        driver::Stage::Stablehlo => Ok(program.bytecode(&inputs::dims(source))?),
        _ => Err(Failure::tool("only the stablehlo stage has a bytecode form")),
    }
}

/// A StableHLO file already is the stablehlo stage; a plugin can show what comes after.
fn mlir(args: &Lower, session: Option<&Session>) -> Outcome {
    let program = inputs::read(&args.source.trace)?;
    match (args.stage, session) {
        (Stage::Hlo, Some(session)) => {
            let text = session.optimized_text(&program)?;
            write(args.output.as_deref(), text.as_bytes())
        }
        (Stage::Stablehlo, _) if args.format != LowerFormat::Bytecode => write(args.output.as_deref(), &program),
        _ => Err(Failure::tool("a .mlir file can only be shown as it is, or with --stage hlo")),
    }
}
