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
//!
//! What is combined of all rows, medians of four processes each, in turns; the first call with all that PyTorch does for it, too:
//!
//! |                                              | loops | eager | host | eager | ms of the first call: loops | host |
//! |----------------------------------------------|------:|------:|-----:|------:|---------------------------:|-----:|
//! | sums of 64x128, us                           | 41    | 5     | 37   | 4     |                            |      |
//! | of 512x768                                   | 131   | 27    | 105  | 33    | 108                        | 67   |
//! | of 65536x32                                  | 349   | 155   | 221  | 152   | 159                        | 68   |
//! | of 128x30000                                 | 700   | 337   | 591  | 277   | 117                        | 64   |
//! | of 8192x768, ms                              | 1.49  | 0.79  | 0.94 | 0.96  | 130                        | 68   |
//! | means of 8x64x56x56 over all but channels    | 0.44  | 0.07  | 0.19 | 0.06  | 160                        | 86   |
//! | variances                                    | 0.76  | 5.2   | 0.55 | 5.2   | 201                        | 103  |
//! | layer norm of 2048x768 with gradients        | 6.7   | 2.5   | 4.7  | 2.5   | 900                        | 840  |
//! | batch norm of 256x512, likewise              | 1.25  | 1.05  | 1.21 | 1.05  | 488                        | 367  |
//! | of 8x64x56x56                                | 5.2   | 7.1   | 5.5  | 4.9   | 648                        | 430  |
//! | group norm of 8x64x32x32                     | 2.9   | 0.76  | 3.1  | 0.58  | 771                        | 698  |

mod call;
mod region;

pub(super) use self::call::{Asked, Calling, told};
pub(super) use self::region::{Body, in_vectors, is_computed, is_exact};
use self::region::{Item, Regions};
use super::rebuild::Rebuild;
use super::{Reduction, Rewrite, Rule};
use crate::{Changes, Class};
use ir::op::Reducer;
use ir::{Builder, Graph, InputKind, LocId, Node, Op, OutputKind, Result, TensorType, ValueId};

/// Name, class and reason.
pub(super) const TOLD: (&str, Class, &str) = (
    "rows-by-the-host",
    Class::Reassociating,
    "XLA's CPU reduces rows on one thread, and passes over them again for what is done with the sums",
);

/// Elements of the smallest tensor, and of its shortest row, that are worth a call, and of how many rows columns are.
const FEWEST: u64 = 1 << 8;
const SHORTEST: usize = 16;
const FEWEST_ROWS: usize = 16;

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
            changes.push(told(TOLD, graph, &region.nodes, region.seed, within));
            regions.settle(region, at);
        } else {
            at += 1;
        }
    }
    rebuilt(graph, regions)
}

/// The most elementwise ops between what is in memory and what is combined of all rows: XLA's loops do them again for whatever else
/// reads them, and parts of tensors and transposes, too.
const MOST_OPS: usize = 8;

/// Whether `node` combines the elements of rows that are worth it, or the rows.
fn is_of_rows(graph: &Graph, node: &Node) -> bool {
    let (&Op::Reduce { reducer, ref dims }, &[of]) = (&node.op, &node.operands[..]) else { return false };
    let Some(ty) = graph.tensor_type(of) else { return false };
    let Some(outer) = ir::rows::counting(dims, ty.rank()) else { return false };
    let (rows, length) = ty.shape.split_at(outer);
    let are_enough = dims[0] >= outer || rows.iter().product::<usize>() >= FEWEST_ROWS;
    are_enough && length.iter().product::<usize>() >= SHORTEST && is_hosted(reducer, ty)
}

/// Whether the host reduces such tensors, and it is worth a call.
fn is_hosted(reducer: Reducer, ty: &TensorType) -> bool {
    let is_float = matches!(ty.dtype, ir::DType::F32 | ir::DType::F64);
    is_float && reducer.hosted().is_some() && ty.numel() as u64 >= FEWEST
}

/// Reductions of the first dimensions and the last, but not of those in between, as two, of which one is of rows.
pub(super) const IN_TURN: Rule = Rule {
    name: "rows-before-what-they-are-of",
    class: Class::Reassociating,
    alone: true,
    why: "rows are the host's, and all that is left is small",
    rewrite: Rewrite::Reduction(in_turn),
};

fn in_turn(to: &mut Rebuild, site: &Reduction<'_>) -> Result<Option<ValueId>> {
    let ty = to.ty(site.input)?.clone();
    let ends = site.dims.iter().rev().zip((0..ty.rank()).rev());
    let last = ends.take_while(|(d, at)| *d == at).count();
    let length: usize = ty.shape[ty.rank() - last..].iter().product();
    let is_worth_it = last < site.dims.len() && length >= SHORTEST && is_hosted(site.reducer, &ty);
    if !is_worth_it || to.ops_on_memory(site.input, MOST_OPS).is_none() {
        return Ok(None);
    }
    let (first, last) = site.dims.split_at(site.dims.len() - last);
    let b = Builder::new("rows");
    let x = b.input("x", InputKind::User, ty);
    b.output("y", OutputKind::User, b.reduce(b.reduce(x, site.reducer, last)?, site.reducer, first)?);
    to.splice(&b.finish(), &[site.input]).map(Some)
}

/// `graph` in the order, and with the calls, of `regions`.
fn rebuilt(graph: &Graph, regions: Regions<'_>) -> Result<Graph> {
    let mut to = Calling::of(graph);
    for item in regions.into_items() {
        match item {
            Item::Node(i) => to.keep(i)?,
            Item::Region(region) => to.call(region.seed, region.body, &region.given, &region.gives)?,
        }
    }
    to.finish()
}

#[cfg(test)]
mod tests;
