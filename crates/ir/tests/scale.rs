//! Long traces take no stack and work in proportion to their length. How long they take, `cargo run --release --example
//! import_speed` prints: a test that compares times fails on a busy machine.

mod synthetic;

use torchtpu_ir::import::{ImportOptions, import};
use torchtpu_ir::{Literal, Number, eval, fold, text, trace, verify};

const LONG: usize = 100_000;

/// Runs `body` on a stack on which nothing can recurse far.
fn on_a_small_stack(body: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(256 << 10).spawn(body).expect("a thread");
    thread.join().expect("no overflow");
}

/// Takes a trace through every stage; the number of core ops.
fn through_all_stages(json: String) -> usize {
    let trace = trace::read_bytes(json.into_bytes()).expect("reads");
    let graph = import(&trace, &ImportOptions::default()).expect("imports").graph;
    drop(trace);
    verify(&graph).expect("verifies");
    let printed = text::print(&graph);
    let parsed = text::parse(&printed).expect("parses");
    assert_eq!(parsed.nodes().len(), graph.nodes().len());
    assert_eq!(text::print(&parsed), printed);
    let folded = fold::fold(&graph, fold::DEFAULT_LIMIT).expect("folds");
    assert_eq!(folded.outputs.len(), graph.outputs.len());
    let inputs: Vec<Literal> = graph
        .input_types()
        .map(|t| match t {
            torchtpu_ir::Type::Tensor(t) => Literal::splat(Number::Float(0.5), t.dtype, t.shape.iter().copied()),
            torchtpu_ir::Type::Tuple(_) => unreachable!("inputs are tensors"),
        })
        .collect();
    assert_eq!(eval(&folded, &inputs).expect("evaluates").len(), folded.outputs.len());
    graph.nodes().len()
}

#[test]
fn a_long_chain_takes_no_stack() {
    on_a_small_stack(|| {
        let (short, long) =
            (through_all_stages(synthetic::chain(LONG / 10)), through_all_stages(synthetic::chain(LONG)));
        assert!((LONG..=11 * short).contains(&long), "{short} core ops, and {long} for ten times the trace");
    });
}

#[test]
fn long_chains_of_views_and_writes_take_no_stack() {
    on_a_small_stack(|| {
        let (short, long) =
            (through_all_stages(synthetic::writes(LONG / 10)), through_all_stages(synthetic::writes(LONG)));
        assert!((LONG / 2..=11 * short).contains(&long), "{short} core ops, and {long} for ten times the trace");
    });
}

#[test]
fn views_of_other_elements_on_top_of_each_other_are_refused_soon() {
    on_a_small_stack(|| {
        let trace = trace::read_bytes(synthetic::lenses(LONG).into_bytes()).expect("reads");
        let error = import(&trace, &ImportOptions::default()).expect_err("too deep");
        assert!(error.to_string().contains("on top of each other"), "{error}");
    });
}
