//! What the op table knows of a trace's targets.

use super::barrier::BARRIER;
use super::control_flow::Control;
use super::draws::Draw;
use super::python_ops;
use crate::loc::Loc;
use crate::ops::{self, Entry};
use crate::trace::schema::{Argument, Graph, Node};
use crate::trace::{Locator, Trace};

/// The entry of a target such as `torch.ops.aten.add.Tensor`.
pub(super) fn find(target: &str) -> Option<Entry> {
    ops::find(&qualified(target)?)
}

/// `aten::add.Tensor` for `torch.ops.aten.add.Tensor`.
pub(super) fn qualified(target: &str) -> Option<String> {
    let (namespace, rest) = target.strip_prefix("torch.ops.")?.split_once('.')?;
    let overload = if rest.contains('.') { "" } else { ".default" };
    Some(format!("{namespace}::{rest}{overload}"))
}

/// The nodes that have no lowering: position, op and place of each, in order. Nodes of graphs in graphs count at the
/// position of the outermost node.
pub fn unsupported_ops(trace: &Trace) -> Vec<(usize, String, Loc)> {
    let mut locator = Locator::default();
    let mut found = vec![];
    for (i, node) in trace.graph.nodes.iter().enumerate() {
        let mut pending = vec![node];
        while let Some(node) = pending.pop() {
            if inlined(node).is_some() || Control::of(node).is_some() {
                pending.extend(graphs(node).flat_map(|inner| &inner.nodes));
            } else if !supported(node) {
                found.push((i, named(node).to_owned(), locator.loc(node)));
            }
        }
    }
    found
}

/// What may be done about an op of PyTorch's own without a lowering: `torch.export` keeps those whole that consist of others.
/// Empty for ops of other libraries. `op` is named as in a trace or as in a schema.
pub fn simpler_ops(op: &str) -> &'static str {
    let of_pytorch = op.starts_with("aten.") || op.starts_with("aten::");
    if of_pytorch { "an exported program may have it in simpler ops after `.run_decompositions()`; " } else { "" }
}

/// The nodes whose results have a shape, or are a number, that only the data tells: position, op and place of each, in order.
pub fn data_dependent_ops(trace: &Trace) -> Vec<(usize, String, Loc)> {
    let mut locator = Locator::default();
    let nodes = trace.graph.nodes.iter().enumerate();
    let found = nodes.filter(|(_, node)| find(&node.target).is_some_and(|entry| entry.gives_data()));
    found.map(|(i, node)| (i, node.op().to_owned(), locator.loc(node))).collect()
}

/// What to call a node: by the op that a higher-order op is given to run, if any.
fn named(node: &Node) -> &str {
    let operator = node.inputs.iter().find_map(|i| match &i.arg {
        Argument::AsOperator(name) => Some(name.strip_prefix("torch.ops.").unwrap_or(name)),
        _ => None,
    });
    operator.unwrap_or(node.op())
}

/// The graph that a transparent higher-order op wraps.
pub(super) fn inlined(node: &Node) -> Option<&Graph> {
    let name = node.target.strip_prefix("torch.ops.higher_order.")?;
    if !TRANSPARENT.contains(&name.split('.').next()?) {
        return None;
    }
    graphs(node).next()
}

/// The graphs that a node is given.
pub(super) fn graphs(node: &Node) -> impl Iterator<Item = &Graph> {
    node.inputs.iter().filter_map(|i| match &i.arg {
        Argument::AsGraph(inner) => Some(&inner.graph),
        _ => None,
    })
}

/// Higher-order ops that only run the graph they are given.
const TRANSPARENT: [&str; 9] = [
    "wrap_with_set_grad_enabled",
    "wrap_with_autocast",
    "wrap",
    "wrap_activation_checkpoint",
    "tag_activation_checkpoint",
    "invoke_subgraph",
    "invoke_quant",
    "foreach_map",
    "strict_mode",
];

fn supported(node: &Node) -> bool {
    let is_ours = Draw::of(node).is_some() || node.target == BARRIER;
    is_ours || python_ops::find(&node.target).is_some() || find(&node.target).is_some()
}
