//! What the optimizer is worth on single patterns: `cargo run --release -p torchtpu-driver --example patterns ROUNDS
//! FILE...`
//!
//! Each FILE is a graph in the text form. It is compiled for the CPU, by the plugin that `TORCHTPU_PLUGIN` names, as it
//! stands and optimized, and both are run in turn, ROUNDS times; every pair of times goes to standard output, a line of
//! JSON a file.

use ir::ops::sample::data::SplitMix;
use ir::{DType, Graph, Number, TensorType};
use runtime::{Buffer, Device, Executable, ExecuteOptions};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use torchtpu_driver::{Options, Session, runtime_type};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<()> {
    let mut args = std::env::args().skip(1);
    let usage = "patterns ROUNDS FILE...";
    let rounds: usize = args.next().ok_or(usage)?.parse()?;
    let session = Session::fitting_the_host(None, None)?;
    for file in args {
        println!("{}", pattern(&session, Path::new(&file), rounds)?);
    }
    Ok(())
}

fn pattern(session: &Session, file: &Path, rounds: usize) -> Outcome<serde_json::Value> {
    let name = file.file_stem().ok_or("a file without a name")?.to_string_lossy().into_owned();
    let before = ir::text::parse(&std::fs::read_to_string(file)?)?;
    let (after, changes) = fuse::optimize(&before, fuse::Options::default())?;
    let as_it_stands = Options { optimize: false, ..Options::default() };
    let compiled = |graph: &Graph| session.bundle(graph, &as_it_stands, None);
    let programs = [compiled(&before)?, compiled(&after)?];
    let device = session.client().device(0)?;
    let arguments = arguments(&device, &before)?;
    let mut times = [vec![], vec![]];
    for round in 0..rounds + 3 {
        for side in [round % 2, 1 - round % 2] {
            let seconds = run(&programs[side], &arguments, &device)?;
            if round >= 3 {
                times[side].push(seconds);
            }
        }
    }
    let rules: Vec<&str> = changes.iter().map(|c| c.rule).collect();
    Ok(serde_json::json!({ "pattern": name, "rules": rules, "before": times[0], "after": times[1] }))
}

/// Seconds of one execution, results ready.
fn run(program: &Arc<Executable>, arguments: &[Buffer], device: &Device) -> Outcome<f64> {
    let arguments: Vec<&Buffer> = arguments.iter().collect();
    let start = Instant::now();
    let done = program.execute(&arguments, &ExecuteOptions { device: Some(device), ..ExecuteOptions::default() })?;
    for output in &done.outputs {
        output.ready()?.wait()?;
    }
    Ok(start.elapsed().as_secs_f64())
}

/// Small numbers without pattern, the same in every run.
fn arguments(device: &Device, graph: &Graph) -> Outcome<Vec<Buffer>> {
    let mut random = SplitMix(1);
    let mut buffers = vec![];
    for input in &graph.inputs {
        let ty = graph.tensor_type(input.value).ok_or("an input is a tuple")?;
        let bytes: Vec<u8> = (0..ty.numel()).flat_map(|_| element(ty, &mut random)).collect();
        buffers.push(Buffer::from_host(device, &bytes, runtime_type(ty))?);
    }
    Ok(buffers)
}

fn element(ty: &TensorType, random: &mut SplitMix) -> Vec<u8> {
    let n = (random.bits() >> 1) as i64;
    let number = match ty.dtype {
        DType::Bool => Number::Bool(n % 2 == 0),
        d if d.is_int() => Number::Int(n % 8),
        _ => Number::Float((n % 2001 - 1000) as f64 / 1000.0),
    };
    number.to_bytes(ty.dtype)
}
