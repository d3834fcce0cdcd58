//! A long trace takes no stack. How long it takes, `cargo run --release --example import_speed` prints: a test that
//! compares times fails on a busy machine.

mod synthetic;

use torchtpu_ir::import::{ImportOptions, import};
use torchtpu_ir::{trace, verify};

#[test]
fn a_long_trace_imports_on_a_small_stack() {
    const NODES: usize = 10_000;
    let run = || {
        let trace = trace::read_bytes(synthetic::chain(NODES).into_bytes()).expect("reads");
        let graph = import(&trace, &ImportOptions::default()).expect("imports").graph;
        verify(&graph).expect("verifies");
        assert!(graph.nodes().len() > NODES);
    };
    let thread = std::thread::Builder::new().stack_size(256 << 10).spawn(run).expect("a thread");
    thread.join().expect("no overflow");
}
