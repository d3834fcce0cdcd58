//! Long graphs take no stack on their way to StableHLO. How long they take, `cargo run --release --example emission`
//! prints.

#![allow(clippy::unwrap_used)]

use ir::{Builder, DType, InputKind, OutputKind, TensorType};
use torchtpu_lower::{LowerOptions, lower};

#[test]
fn a_long_chain_takes_no_stack() {
    let bytes = |nodes: usize| {
        let b = Builder::new("chain");
        let x = b.input("x", InputKind::User, TensorType::new(DType::F32, [2]));
        let y = (0..nodes).fold(x, |y, _| b.add(y, x).unwrap());
        b.output("y", OutputKind::User, y);
        lower(&b.finish(), &LowerOptions::default()).unwrap().bytecode().len()
    };
    let run = move || {
        let (short, long) = (bytes(10_000), bytes(100_000));
        assert!(long < 12 * short, "{short} bytes, and {long} for ten times the graph");
    };
    std::thread::Builder::new().stack_size(1 << 20).spawn(run).unwrap().join().unwrap();
}
