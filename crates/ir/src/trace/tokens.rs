//! Effect tokens, taken out of a trace.
//!
//! `torch.export` threads a token through what checks or prints, so that it stays in order: a further input and result of
//! the program, and `with_effects(token, op, ...)` around the op. A program compiled ahead of time can neither fail nor print,
//! so ops without results are left out; others stand for themselves.

use super::schema::{Argument, Graph, InputSpec, Node, OutputSpec, Signature};

const WITH_EFFECTS: &str = "torch.ops.higher_order.with_effects";

/// Takes the tokens out of a program.
pub(super) fn take_out(graph: &mut Graph, signature: &mut Signature) {
    let is_input = |i: usize| !matches!(signature.input_specs.get(i), Some(InputSpec::Token { .. }));
    let is_output = |i: usize| !matches!(signature.output_specs.get(i), Some(OutputSpec::Token { .. }));
    keep(&mut graph.inputs, is_input);
    keep(&mut graph.outputs, is_output);
    signature.input_specs.retain(|spec| !matches!(spec, InputSpec::Token { .. }));
    signature.output_specs.retain(|spec| !matches!(spec, OutputSpec::Token { .. }));
    graph.nodes.retain_mut(|node| node.target != WITH_EFFECTS || unwrap(node));
}

fn keep<T>(all: &mut Vec<T>, is_kept: impl Fn(usize) -> bool) {
    let mut place = 0..;
    all.retain(|_| place.next().is_some_and(&is_kept));
}

/// Makes of `with_effects` the op that it runs; false if that has no results.
fn unwrap(node: &mut Node) -> bool {
    let is_nothing = |output: &Argument| matches!(output, Argument::AsNone(_));
    let target = node.inputs.get(1).and_then(|input| match &input.arg {
        Argument::AsOperator(target) => Some(target.clone()),
        _ => None,
    });
    let (Some(target), Some(results)) = (target, node.outputs.get(1..)) else { return true };
    if results.iter().all(is_nothing) {
        return false;
    }
    node.target = target;
    node.inputs.drain(..2);
    node.outputs.remove(0);
    true
}
