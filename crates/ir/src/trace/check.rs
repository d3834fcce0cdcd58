//! Names: each defined once, before its use.

use super::locate::Locator;
use super::schema::{Argument, Graph, InputSpec, Node, Signature};
use crate::error::{Error, Result};
use crate::{ensure, invalid};
use rustc_hash::FxHashMap;

/// Checks `graph` and the graphs inside it, each of which has names of its own.
pub(super) fn graph(graph: &Graph) -> Result<()> {
    let mut pending = vec![graph];
    while let Some(graph) = pending.pop() {
        names(graph)?;
        let arguments = graph.nodes.iter().flat_map(|n| &n.inputs);
        pending.extend(arguments.filter_map(|a| match &a.arg {
            Argument::AsGraph(inner) => Some(&inner.graph),
            _ => None,
        }));
    }
    Ok(())
}

/// The node's fault, with its place.
pub(super) fn at(node: &Node, error: Error) -> Error {
    error.at(node.op(), &Locator::default().loc(node))
}

fn names(graph: &Graph) -> Result<()> {
    // By name, the number of the defining node, counted from 1; inputs have 0.
    let mut defined: FxHashMap<&str, usize> = FxHashMap::default();
    let mut twice = None;
    for input in &graph.inputs {
        input.for_each_name(&mut |n| twice = twice.or(defined.insert(n, 0).map(|_| n)));
    }
    if let Some(name) = twice {
        invalid!("the graph has two inputs called `{name}`");
    }
    for (i, node) in graph.nodes.iter().enumerate() {
        let mut twice = None;
        for output in &node.outputs {
            output.for_each_name(&mut |n| twice = twice.or(defined.insert(n, i + 1).map(|_| n)));
        }
        if let Some(name) = twice {
            return Err(at(node, Error::invalid(format!("value `{name}` is defined a second time"))));
        }
    }
    for (i, node) in graph.nodes.iter().enumerate() {
        uses(node, i + 1, &defined).map_err(|e| at(node, e))?;
    }
    let mut missing = None;
    graph.outputs.iter().for_each(|o| {
        o.for_each_name(&mut |n| missing = missing.or(if defined.contains_key(n) { None } else { Some(n) }));
    });
    match missing {
        Some(name) => invalid!("the graph gives `{name}`, which nothing defines"),
        None => Ok(()),
    }
}

fn uses(node: &Node, number: usize, defined: &FxHashMap<&str, usize>) -> Result<()> {
    let mut fault = None;
    for input in &node.inputs {
        input.arg.for_each_name(&mut |n| match defined.get(n) {
            Some(&d) if d < number => {}
            found => fault = fault.or(Some((n, found.is_some()))),
        });
    }
    match fault {
        Some((name, true)) => invalid!("value `{name}` is used before it is defined: the trace has a cycle"),
        Some((name, false)) => invalid!("value `{name}` is used, but nothing defines it"),
        None => Ok(()),
    }
}

/// Checks that the specs describe the inputs and outputs, position by position.
pub(super) fn signature(graph: &Graph, signature: &Signature) -> Result<()> {
    let counts = [
        ("inputs", graph.inputs.len(), signature.input_specs.len()),
        ("outputs", graph.outputs.len(), signature.output_specs.len()),
    ];
    for (what, have, specs) in counts {
        ensure!(specs == 0 || specs == have, "the graph has {have} {what}, but its signature describes {specs}");
    }
    for (input, spec) in graph.inputs.iter().zip(&signature.input_specs) {
        let described = match spec {
            InputSpec::Parameter { arg, .. }
            | InputSpec::Buffer { arg, .. }
            | InputSpec::TensorConstant { arg, .. } => arg.name.as_str(),
            _ => continue,
        };
        let same = matches!(input, Argument::AsTensor(t) if t.name == described);
        ensure!(same, "the signature's `{described}` is not the graph's input at that place");
    }
    Ok(())
}
