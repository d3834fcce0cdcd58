//! Times emission of a chain of matmuls, biases and activations: `cargo run --release --example emission`.

use ir::op::DotGeneral;
use ir::{Builder, DType, Graph, InputKind, Loc, OutputKind, Precision, Reducer, Result, TensorType, Unary};
use std::time::{Duration, Instant};
use torchtpu_lower::{LowerOptions, lower};

/// A network of `nodes` core ops, each at a line of its own.
fn network(nodes: usize) -> Result<Graph> {
    let b = Builder::new("network");
    let weight = b.input("weight", InputKind::Parameter, TensorType::new(DType::F32, [16, 16]));
    let bias = b.input("bias", InputKind::Parameter, TensorType::new(DType::F32, [16]));
    let mut x = b.input("x", InputKind::User, TensorType::new(DType::F32, [8, 16]));
    for i in 0..nodes / 6 {
        let (file, line) = ("models/network.py".into(), i as u32 + 1);
        let (module, op) = (format!("layers.{i}.mlp").into(), "aten.linear.default".into());
        b.set_loc(&Loc { file, line, module, op, ..Loc::default() });
        let (one, zero) = ([1][..].into(), [0][..].into());
        let (precision, out) = (Precision::Highest, DType::F32);
        let none = || [][..].into();
        let d = DotGeneral {
            lhs_batch: none(),
            rhs_batch: none(),
            lhs_contract: one,
            rhs_contract: zero,
            precision,
            out,
            host: false,
        };
        let product = b.dot_general(x, weight, d)?;
        let sum = b.add(product, b.broadcast_in_dim(bias, &[8, 16], &[1])?)?;
        let total = b.reduce(sum, Reducer::Add, &[0])?;
        let hidden = b.unary(Unary::Tanh, sum)?;
        x = b.add(hidden, b.broadcast_in_dim(total, &[8, 16], &[1])?)?;
    }
    b.output("y", OutputKind::User, x);
    Ok(b.finish())
}

/// The least of a few runs.
fn best<T>(mut f: impl FnMut() -> Result<T>) -> Result<Duration> {
    let mut least = Duration::MAX;
    for _ in 0..10 {
        let start = Instant::now();
        f()?;
        least = least.min(start.elapsed());
    }
    Ok(least)
}

fn main() -> Result<()> {
    println!("{:>8} {:>12} {:>14} {:>12} {:>10}", "ops", "with locs", "without locs", "text", "bytes");
    for nodes in [1, 100, 1_000, 10_000, 100_000] {
        let graph = network(nodes)?;
        let options = LowerOptions::default();
        let bare = LowerOptions { locations: false, ..LowerOptions::default() };
        let module = lower(&graph, &options)?;
        let (located, unlocated) = (best(|| lower(&graph, &options))?, best(|| lower(&graph, &bare))?);
        let (text, n, bytes) = (best(|| module.text())?, graph.nodes().len(), module.bytecode().len());
        println!("{n:>8} {located:>12.2?} {unlocated:>14.2?} {text:>12.2?} {bytes:>10}");
    }
    Ok(())
}
