//! Long sums of products, and sums that are gathered several times, computed once.
//!
//! XLA's CPU computes what is elementwise again in each loop that reads it, unless it is told not to: a depthwise convolution of
//! 7x7, which is a [sum of 49 products](super::depthwise), four times for the layer norm after it. Barriers of its own are gone
//! before it fuses loops, so the host is asked for the value. ConvNeXt's inference took 184 ms before, and 131 after.
//!
//! It also computes a sum anew for each element that is gathered from it: an image that is resized by rows and then by columns has each
//! row's sum computed as often as there are columns that it is part of. Twice as large by `bilinear`, 4x8x32x32 took 0.48 ms before, and
//! 0.24 after; forward and backward, 4x32x64x64 took 8.4 and 6.4.
//!
//! Of a chain whose every link is read by the side, too, each loop would hold all links before its own: a gated delta rule's 64 rows,
//! one after the other, took 114 s to compile backwards before, and 13 after. So would loops that have the forks of a chain in
//! common: 48 minima of Floyd and Warshall, with gradients, took 14 s before, and 4 after.
//!
//! And what says which rows are gathered, or is spread over them, for each element of a row, as if it were no matter how many ops that
//! takes: `grid_sample` of 8x32x96x96, where a point reads four rows and weighs them, took 15.6 ms before, and 6.3 after (eager 5.8).

use super::rebuild::Rebuild;
use crate::measure::{Effort, is_elementwise, numel};
use crate::{Change, Changes, Class, Head};
use ir::{Graph, LocId, Node, Op, Result, ValueId};

/// Name, class and reason.
pub(super) const TOLD: (&str, Class, &str) = (
    "computed-once",
    Class::Exact,
    "XLA's CPU computes what is elementwise again in each loop that reads it, and what is gathered or spread for each element",
);

/// Elementwise ops behind an element from which it is worth its place in memory, where something reads it there that is not
/// elementwise; and where only loops do, which would hold them all: many, since it is there to bound what is compiled, and fewer
/// were not measured.
const LEAST: usize = 16;
const LEAST_OF_LOOPS: usize = 64;
/// Elements from which it is worth a call of the host where each is computed several times by one loop.
const MANY: u64 = 1 << 10;
/// How many of them an exponential, or its like, is.
const DEAR: usize = 12;

/// `graph`, for a platform where the host takes calls, with barriers after what is to be computed once.
pub(super) fn computed_once(graph: &Graph, changes: &mut Changes, within: Option<LocId>) -> Result<Graph> {
    let uses = uses(graph);
    let mut work: Vec<usize> = Vec::with_capacity(graph.nodes().len());
    let mut to = Rebuild::of(graph);
    for (node, uses) in graph.nodes().iter().zip(&uses) {
        let behind = ops_behind(node, &work);
        let least = if uses.others { LEAST } else { LEAST_OF_LOOPS };
        let by_element = behind >= least && is_elementwise(&node.op) && uses.loops == Loops::Several;
        let by_sum =
            matches!(node.op, Op::Reduce { .. }) && numel(&node.ty) >= MANY && uses.gathered >= 2 * numel(&node.ty);
        let by_row = behind >= LEAST && is_elementwise(&node.op) && numel(&node.ty) >= MANY && uses.repeated >= 2;
        let once = (((by_element || by_sum) && is_float(node)) || by_row) && changes.allows(Class::Exact);
        if !once {
            work.push(behind);
            to.keep(node);
            continue;
        }
        work.push(0);
        let kept = to.keep_apart(node);
        to.set_loc(node.loc);
        let value = to.push(Op::HostBarrier, &[kept])?;
        to.stand_for(value);
        let (locs, before) = (vec![within.unwrap_or(node.loc)], Head::of(&node.op));
        let after = vec![before, Head::of(&Op::HostBarrier)];
        changes.push(Change { rule: TOLD.0, class: TOLD.1, locs, before, after });
    }
    Ok(to.finish(graph))
}

/// Who reads a value.
#[derive(Clone, Copy, Default)]
struct Uses {
    /// Whether one is not elementwise.
    others: bool,
    loops: Loops,
    /// Elements that are gathered from it.
    gathered: u64,
    /// For how many elements each of its own is computed, at most, where it is spread or says what is gathered.
    repeated: u64,
}

/// The loops that compute a value, each told by the last value it computes.
#[derive(Clone, Copy, Default, PartialEq)]
enum Loops {
    #[default]
    None,
    One(usize),
    Several,
}

impl Loops {
    fn and(self, other: Loops) -> Loops {
        match (self, other) {
            (Loops::None, one) | (one, Loops::None) => one,
            (one, other) if one == other => one,
            _ => Loops::Several,
        }
    }
}

fn uses(graph: &Graph) -> Vec<Uses> {
    let mut uses = vec![Uses::default(); graph.nodes().len()];
    for (i, output) in graph.outputs.iter().enumerate() {
        let of = &mut uses[output.value.index()];
        (of.others, of.loops) = (true, of.loops.and(Loops::One(graph.nodes().len() + i)));
    }
    for (i, node) in graph.nodes().iter().enumerate().rev() {
        let (others, loops) = match (&node.op, uses[i].loops) {
            // Whoever reads a reshape reads what is reshaped.
            (Op::Reshape { .. }, loops) => (uses[i].others, loops),
            (op, Loops::One(last)) if is_elementwise(op) => (false, Loops::One(last)),
            (op, _) => (!is_elementwise(op), Loops::One(i)),
        };
        for v in &node.operands {
            let of = &mut uses[v.index()];
            (of.others, of.loops) = (of.others || others, of.loops.and(loops));
        }
        if let (Op::Gather(_), Some(x)) = (&node.op, node.operands.first()) {
            uses[x.index()].gathered += numel(&node.ty);
        }
        let (spread, times) = match (&node.op, node.operands.split_first()) {
            (Op::Gather(_), Some((_, places))) => (places, times(graph, node, places)),
            (Op::BroadcastInDim { .. }, _) => (&node.operands[..], times(graph, node, &node.operands)),
            (Op::Reshape { .. } | Op::Concatenate { .. }, _) => (&node.operands[..], uses[i].repeated),
            _ => continue,
        };
        for v in spread {
            uses[v.index()].repeated = uses[v.index()].repeated.max(times);
        }
    }
    uses
}

/// For how many elements of `node` each of the first of `operands` is computed.
fn times(graph: &Graph, node: &Node, operands: &[ValueId]) -> u64 {
    operands.first().map_or(0, |&v| numel(&node.ty) / numel(graph.ty(v)).max(1))
}

/// A float, an integer's many ops being of the kind that count.
fn is_float(node: &Node) -> bool {
    node.ty.tensor().is_some_and(|t| t.dtype.is_float())
}

/// Elementwise ops that a loop over `node` would run for an element, shared ones counted for each use.
fn ops_behind(node: &Node, work: &[usize]) -> usize {
    let operands = node.operands.iter().map(|v| work[v.index()]).fold(0, usize::saturating_add);
    match node.op {
        Op::Unary(u) if Effort::of_unary(u) == Effort::Dear => operands.saturating_add(DEAR),
        _ if is_elementwise(&node.op) => operands.saturating_add(1),
        Op::Reshape { .. } | Op::BroadcastInDim { .. } | Op::Slice { .. } | Op::Pad { .. } | Op::Transpose { .. } => {
            operands
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Platform;
    use crate::formulate::testing::{Random, assert_same_bits, formulated_for};
    use ir::{Builder, DType, InputKind, Number, OutputKind, Reducer, TensorType};

    /// How many values of `graph` are computed once. It means the same then.
    fn barriers_in(graph: &Graph) -> usize {
        let (after, _) = formulated_for(Platform::CpuWithBlas, graph, Class::Exact, None);
        assert_same_bits(graph, &after, &Random(1).inputs(graph, true));
        after.nodes().iter().filter(|n| matches!(n.op, Op::HostBarrier)).count()
    }

    #[test]
    fn sums_that_are_gathered_several_times_are_computed_once() {
        let barriers = |rows: usize, gathered: usize| {
            let b = Builder::new("resized");
            let x = b.input("x", InputKind::User, TensorType::new(DType::F32, [rows, 2, 8]));
            let sums = b.reduce(x, Reducer::Add, &[1]).unwrap();
            let zero = b.scalar(Number::Int(0), DType::I64).unwrap();
            let places = b.broadcast_in_dim(zero, &[gathered, 1], &[]).unwrap();
            let gather = ir::op::Gather {
                offset_dims: [0].as_slice().into(),
                collapsed_slice_dims: [1].as_slice().into(),
                start_index_map: [1].as_slice().into(),
                index_vector_dim: 1,
                slice_sizes: [rows, 1].as_slice().into(),
                ..ir::op::Gather::default()
            };
            b.output("y", OutputKind::User, b.gather(sums, places, gather).unwrap());
            barriers_in(&b.finish())
        };
        assert_eq!(barriers(128, 16), 1);
        assert_eq!(barriers(128, 15), 0, "hardly more than there are");
        assert_eq!(barriers(127, 16), 0, "few");
    }

    #[test]
    fn links_of_a_chain_that_are_read_through_a_reshape_are_computed_once() {
        let b = Builder::new("chain");
        let x = b.input("x", InputKind::User, TensorType::new(DType::F32, [8, 8]));
        let mut link = x;
        for step in 0..64 {
            let lines = b.reshape(link, &[64]).unwrap();
            let line = b.slice_dim(lines, 0, step, step + 1, 1).unwrap();
            let sum = b.reduce(line, Reducer::Add, &[0]).unwrap();
            let spread = b.broadcast_in_dim(sum, &[64], &[]).unwrap();
            link = b.reshape(b.add(lines, spread).unwrap(), &[8, 8]).unwrap();
        }
        b.output("y", OutputKind::User, link);
        assert_eq!(barriers_in(&b.finish()), 64 / LEAST - 1, "the last is read by nothing else");
    }

    #[test]
    fn links_of_a_chain_that_several_loops_hold_are_computed_once() {
        let barriers = |steps: usize, apart: bool| {
            let b = Builder::new("forks");
            let x = b.input("x", InputKind::User, TensorType::new(DType::F32, [64]));
            let (mut link, mut sides) = (x, x);
            for _ in 0..steps {
                let side = b.multiply(link, x).unwrap();
                let sum = |v| b.broadcast_in_dim(b.reduce(v, Reducer::Add, &[0]).unwrap(), &[64], &[]);
                sides = b.add(sides, if apart { sum(side).unwrap() } else { side }).unwrap();
                link = b.add(link, x).unwrap();
            }
            b.output("y", OutputKind::User, b.add(link, sides).unwrap());
            barriers_in(&b.finish())
        };
        assert_eq!(barriers(LEAST_OF_LOOPS, true), 0, "the last is in one loop");
        assert_eq!(barriers(4 * LEAST_OF_LOOPS, true), 3);
        assert_eq!(barriers(4 * LEAST_OF_LOOPS, false), 0, "all are in one loop");
    }

    #[test]
    fn what_is_spread_is_computed_once() {
        let barriers = |rows: usize, ops: usize, columns: usize| {
            let b = Builder::new("spread");
            let x = b.input("x", InputKind::User, TensorType::new(DType::I32, [rows]));
            let one = b.full_like(x, Number::Int(3)).unwrap();
            let place = (0..ops).fold(x, |v, _| b.binary(ir::Binary::And, v, one).unwrap());
            let column = b.reshape(place, &[rows, 1]).unwrap();
            b.output("y", OutputKind::User, b.broadcast_in_dim(column, &[rows, columns], &[0, 1]).unwrap());
            barriers_in(&b.finish())
        };
        assert_eq!(barriers(1024, 16, 2), 1);
        assert_eq!(barriers(1024, 15, 2), 0, "soon computed again");
        assert_eq!(barriers(1024, 16, 1), 0, "each but once");
        assert_eq!(barriers(1023, 16, 2), 0, "few");
    }
}
