//! `tputc run`: runs a program on a plugin.

use crate::args::Run;
use crate::inputs::{self, Tensors};
use crate::output::{Failure, Outcome, Printer};
use driver::{DiskCache, Runner, Session, Value};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) fn run(args: &Run, printer: &Printer) -> Outcome {
    if inputs::is_mlir(&args.source) {
        return Err(Failure::tool(
            "tputc run takes a trace.json or a .pt2; a .mlir does not say what its inputs are called",
        ));
    }
    let program = Arc::new(inputs::program(&args.source)?);
    let session = Arc::new(Session::new(args.plugin.as_deref(), DiskCache::from_env())?);
    let tensors = tensors(args, &program)?;
    let runner = Runner::new(program.clone(), session);
    let arguments = tensors.arguments(&program, &inputs::dims(&args.source, &program)?)?;
    let seed = args.random.unwrap_or(0);
    let mut times = vec![];
    let mut results = vec![];
    for turn in 0..args.repeat {
        let start = Instant::now();
        results = runner.run(&arguments, &mut || Ok([seed, 0]))?;
        let time = start.elapsed();
        if turn == 0 {
            printer.detail(format_args!("first run, compiled: {time:.1?}"));
        } else {
            times.push(time);
        }
    }
    report_times(&mut times, printer);
    match &args.output {
        Some(path) => Tensors::save(path, &results, &arguments),
        None => {
            describe(&results, printer);
            Ok(())
        }
    }
}

fn tensors(args: &Run, program: &driver::Program) -> Result<Tensors, Failure> {
    let dims = inputs::dims(&args.source, program)?;
    match (&args.inputs, args.random) {
        (Some(path), _) => Tensors::load(path),
        (None, Some(seed)) => Tensors::random(program, &dims, seed),
        (None, None) if program.user_tensors(&dims)?.is_empty() => Ok(Tensors::default()),
        (None, None) => Err(Failure::tool("the program takes inputs: give --inputs IN.safetensors or --random SEED")),
    }
}

fn report_times(times: &mut [Duration], printer: &Printer) {
    times.sort_unstable();
    if let (Some(least), Some(median)) = (times.first(), times.get(times.len() / 2)) {
        printer.say(format_args!("{} runs: median {median:.1?}, least {least:.1?}", times.len()));
    }
}

fn describe(results: &[Value], printer: &Printer) {
    for (i, value) in results.iter().enumerate() {
        let what = match value {
            Value::Tensor(t) => format!("{}{:?}", t.dtype, t.shape.as_slice()),
            Value::Argument(n) => format!("input {n}"),
            Value::Result(n) => format!("out.{n}"),
            Value::Int(n) => n.to_string(),
            Value::Float(x) => x.to_string(),
            Value::Bool(b) => b.to_string(),
            Value::None => "none".to_owned(),
        };
        printer.say(format_args!("out.{i}: {what}"));
    }
}
