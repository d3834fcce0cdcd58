//! Rows left to the host, with what is done to their elements before and after: it passes over each row once, while the row is in the
//! nearest cache, and divides the rows among threads.
//!
//! Compiled, on 2 cores of a Zen 3, f32: XLA's loops, the host, and eager PyTorch beside each (two processes in turns, noisy).
//!
//! |                           | loops | eager | host  | eager | ms to compile: loops | host |
//! |---------------------------|------:|------:|------:|------:|---------------------:|-----:|
//! | softmax of 64x64, us      | 86    | 6     | 55    | 6     | 172                  | 7    |
//! | layer norm of 64x128      | 171   | 15    | 65    | 8     | 217                  | 7    |
//! | sums of 128x256           | 106   | 8     | 49    | 5     | 82                   | 9    |
//! | 12 layer norms of 128x256 | 1302  | 721   | 764   | 467   | 1431                 | 31   |
//! | softmax of 8192x768, ms   | 5.8   | 4.2   | 4.3   | 4.1   |                      |      |
//! | layer norm                | 5.6   | 2.1   | 4.4   | 2.2   |                      |      |
//! | log-softmax               | 8.3   | 5.1   | 4.7   | 4.1   |                      |      |
//! | sums                      | 1.71  | 0.31  | 1.10  | 0.42  |                      |      |
//! | sums of 64x50000          | 0.69  | 0.13  | 0.39  | 0.26  |                      |      |
//!
//! Calls of 1,024 elements take as long either way.

mod region;

use self::region::{Item, Region, Regions};
use crate::measure::numel;
use crate::{Change, Changes, Class, Head};
use ir::{Error, Graph, Input, LocId, Node, Op, Operands, Output, Result, Type, ValueId};
use std::sync::Arc;

/// Name, class and reason.
pub(super) const TOLD: (&str, Class, &str) = (
    "rows-by-the-host",
    Class::Reassociating,
    "XLA's CPU reduces rows on one thread, and passes over them again for what is done with the sums",
);

/// Elements of the smallest tensor, and of its shortest row, that are worth a call.
const FEWEST: u64 = 1 << 8;
const SHORTEST: usize = 16;

/// `graph`, for a platform where the host takes calls, with reductions of rows and what they are part of left to it.
pub(super) fn left_to_the_host(graph: &Graph, changes: &mut Changes, within: Option<LocId>) -> Result<Graph> {
    if !graph.nodes().iter().any(|node| is_of_rows(graph, node)) || !changes.allows_alone(TOLD.1) {
        return Ok(graph.clone());
    }
    // A function may round otherwise than XLA's own, and an op's result is not to hang on those around it.
    let with_functions = changes.allows(TOLD.1);
    let mut regions = Regions::of(graph, with_functions);
    let mut at = 0;
    while let Some(node) = regions.at(at) {
        let is_seed = node.is_some_and(|node| is_of_rows(graph, &graph.nodes()[node]));
        let found = node.filter(|_| is_seed && changes.allows_alone(TOLD.1)).and_then(|node| regions.grow(node));
        if let Some(region) = found {
            changes.push(told(graph, &region, within));
            regions.settle(region, at);
        } else {
            at += 1;
        }
    }
    rebuilt(graph, regions)
}

/// Whether `node` combines the elements of rows that are worth it.
fn is_of_rows(graph: &Graph, node: &Node) -> bool {
    let (Op::Reduce { reducer, dims }, &[of]) = (&node.op, &node.operands[..]) else { return false };
    let Some(ty) = graph.tensor_type(of) else { return false };
    let outer = ty.rank() - dims.len();
    let are_last = dims.iter().copied().eq(outer..ty.rank());
    let length: usize = ty.shape[outer..].iter().product();
    let is_float = matches!(ty.dtype, ir::DType::F32 | ir::DType::F64);
    is_float && are_last && reducer.hosted().is_some() && length >= SHORTEST && numel(graph.ty(of)) >= FEWEST
}

fn told(graph: &Graph, region: &Region, within: Option<LocId>) -> Change {
    let mut locs: Vec<LocId> = Vec::new();
    for &node in &region.nodes {
        let loc = within.unwrap_or(graph.nodes()[node].loc);
        if !locs.contains(&loc) {
            locs.push(loc);
        }
    }
    let before = Head::of(&graph.nodes()[region.seed].op);
    Change { rule: TOLD.0, class: TOLD.1, locs, before, after: vec![Head::of(&Op::HostRows)] }
}

/// `graph` in the order, and with the calls, of `regions`.
fn rebuilt(graph: &Graph, regions: Regions<'_>) -> Result<Graph> {
    let mut to = Graph::new(graph.name.clone());
    to.locs = graph.locs.clone();
    let mut places: Vec<Option<ValueId>> = vec![None; graph.nodes().len()];
    let place = |places: &[Option<ValueId>], v: ValueId| {
        places[v.index()].ok_or_else(|| Error::internal("a value that is read before it is made"))
    };
    for item in regions.into_items() {
        match item {
            Item::Node(i) => {
                let node = &graph.nodes()[i];
                let operands = node.operands.iter().map(|&v| place(&places, v)).collect::<Result<Operands>>()?;
                places[i] = Some(to.push(Node { operands, ..node.clone() }));
            }
            Item::Region(region) => {
                let region = *region;
                let operands = region.given.iter().map(|&v| place(&places, v)).collect::<Result<Operands>>()?;
                let types = region.body.output_types().filter_map(Type::tensor).cloned().collect();
                let (loc, bodies) = (graph.nodes()[region.seed].loc, vec![Arc::new(region.body)]);
                let call = to.push(Node { op: Op::HostRows, operands, bodies, ty: Type::Tuple(types), loc });
                for (index, value) in region.gives.into_iter().enumerate() {
                    let (op, node) = (Op::GetTupleElement { index }, &graph.nodes()[value]);
                    let operands = Operands::from_slice(&[call]);
                    let made = Node { op, operands, bodies: vec![], ty: node.ty.clone(), loc: node.loc };
                    places[value] = Some(to.push(made));
                }
            }
        }
    }
    let inputs = graph.inputs.iter().map(|i| Ok(Input { value: place(&places, i.value)?, ..i.clone() }));
    to.inputs = inputs.collect::<Result<_>>()?;
    let outputs = graph.outputs.iter().map(|o| Ok(Output { value: place(&places, o.value)?, ..o.clone() }));
    to.outputs = outputs.collect::<Result<_>>()?;
    Ok(to.without_dead_nodes())
}

#[cfg(test)]
mod tests;
