//! What libtpu makes of graphs, beside what the optimizer's clock says of them: `cargo run -p torchtpu-driver --example
//! tpu_costs TPUTC TARGET FILE...`
//!
//! Each FILE is a graph in the text form. It is compiled for TARGET as it stands and, if the optimizer changes it,
//! optimized; of both, flops, bytes and the roofline's seconds of libtpu's own program go to standard output, a line of JSON a file.
//! TPUTC is the tool, which serves as the worker that loads libtpu.

use aot::{Launcher, Pool};
use fuse::{Options, Platform};
use ir::Graph;
use lower::LowerOptions;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;
use target::Target;
use torchtpu_driver::Ahead;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// For one program; those of a bench compile in seconds.
const LIMIT: Duration = Duration::from_secs(600);

fn main() -> Outcome<()> {
    let mut args = std::env::args().skip(1);
    let usage = "tpu_costs TPUTC TARGET FILE...";
    let program: PathBuf = args.next().ok_or(usage)?.into();
    let target: Target = args.next().ok_or(usage)?.parse()?;
    let launcher = Launcher { program, arguments: vec!["worker".into()] };
    let pool = Pool::new(launcher, aot::libtpu(None)?, LIMIT);
    for file in args {
        println!("{}", costs(Path::new(&file), &target, &pool)?);
    }
    Ok(())
}

fn costs(file: &Path, target: &Target, pool: &Pool) -> Outcome<Value> {
    let name = file.file_stem().ok_or("a file without a name")?.to_string_lossy().into_owned();
    let before = ir::text::parse(&std::fs::read_to_string(file)?).map_err(|e| format!("{}: {e}", file.display()))?;
    let (after, changes) = fuse::optimize(&before, Options { platform: Platform::Tpu, ..Options::default() })?;
    let rules: BTreeSet<&str> = changes.iter().map(|change| change.rule).collect();
    let plain = compiled(&before, target, pool)?;
    let optimized = if changes.is_empty() { plain.clone() } else { compiled(&after, target, pool)? };
    Ok(json!({ "name": name, "rules": rules, "before": plain, "after": optimized }))
}

fn compiled(graph: &Graph, target: &Target, pool: &Pool) -> Outcome<Value> {
    let options = LowerOptions { locations: false, ..LowerOptions::default() };
    let program = lower::lower(graph, &options)?.into_bytecode();
    let report = Ahead::of_stablehlo(&program, &graph.name, target, pool)?.report(&graph.name);
    let cost = report.cost.ok_or(report.verdict.summary)?;
    let ends = graph.inputs.iter().map(|it| it.value).chain(graph.outputs.iter().map(|it| it.value));
    let bytes: usize = ends.filter_map(|value| graph.tensor_type(value)).map(ir::TensorType::size_in_bytes).sum();
    Ok(json!({
        "picoseconds": fuse::cost(graph, Platform::Tpu),
        // What no choice of ops can avoid.
        "end_seconds": bytes as f64 / report.target.hbm_bandwidth,
        "flops": cost.flops, "hbm_bytes": cost.hbm_bytes, "transcendentals": cost.transcendentals,
        "seconds": cost.seconds, "regions": cost.regions.len(),
    }))
}
