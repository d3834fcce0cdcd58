//! Reading and importing take linear time, and no stack, in the length of a trace.

mod synthetic;

use std::time::{Duration, Instant};
use torchtpu_ir::import::{ImportOptions, import};
use torchtpu_ir::trace;

/// The lesser of two times that a trace of this length takes.
fn time(nodes: usize) -> Duration {
    let json = synthetic::chain(nodes).into_bytes();
    let once = |_| {
        let start = Instant::now();
        let trace = trace::read_bytes(json.clone()).expect("reads");
        let imported = import(&trace, &ImportOptions::default()).expect("imports");
        assert!(imported.graph.nodes().len() > nodes);
        start.elapsed()
    };
    (0..2).map(once).fold(Duration::MAX, Duration::min)
}

#[test]
fn ten_times_the_nodes_take_about_ten_times_as_long() {
    let (short, long) = (time(2_000), time(20_000));
    // Quadratic time would make it a hundred.
    assert!(long < short * 40, "{short:?} for 2,000 nodes, {long:?} for 20,000");
}
