//! Scatters of single elements in batches left to the host, a part of the batch to each of its threads.
//!
//! Milliseconds on 2 cores of a Zen 4, XLA, the host, and eager PyTorch: `scatter_add` of 64x4096 `f32` along the last dimension 1.21,
//! 0.63 and 0.32 to 0.55; `scatter` 1.02, 0.58 and 0.30 to 0.48; maxima of 8x64x112x112 by 3x3 at 2, both passes, 57, 46 and 47. XLA is
//! as fast where there is no batch to share, and twice as fast where whole rows are updated.

use super::rebuild::Rebuild;
use crate::{Change, Changes, Class, Head};
use ir::{Graph, LocId, Node, Op, Result, TensorType};

/// Name, class and reason.
pub(super) const TOLD: (&str, Class, &str) = ("scatter-by-the-host", Class::Exact, "XLA's CPU scatters on one thread");

/// Updates from which it is worth a call.
const FEWEST: usize = 1 << 10;

/// `graph`, for a platform where the host takes calls, with the scatters that it is faster at left to it.
pub(super) fn left_to_the_host(graph: &Graph, changes: &mut Changes, within: Option<LocId>) -> Result<Graph> {
    let mut to = Rebuild::of(graph);
    for node in graph.nodes() {
        let Some(op) = hosted(graph, node).filter(|_| changes.allows(TOLD.1)) else {
            to.keep(node);
            continue;
        };
        let (locs, before) = (vec![within.unwrap_or(node.loc)], Head::of(&node.op));
        let change = Change { rule: TOLD.0, class: TOLD.1, locs, before, after: vec![Head::of(&op)] };
        to.keep(&Node { op, ..node.clone() });
        changes.push(change);
    }
    Ok(to.finish(graph))
}

fn hosted(graph: &Graph, node: &Node) -> Option<Op> {
    let Op::Scatter(scatter) = &node.op else { return None };
    let types = node.operands.iter().map(|&v| graph.tensor_type(v)).collect::<Option<Vec<&TensorType>>>()?;
    let &[a, indices, updates] = &types[..] else { return None };
    let is_known = scatter.hosted(a, indices, updates).is_some();
    (is_known && updates.numel() >= FEWEST).then(|| Op::HostScatter(scatter.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Platform;
    use crate::formulate::testing::{Random, assert_same_bits, formulated_for};
    use ir::op::Scatter;
    use ir::ops::pool::sums_in_planes;
    use ir::{Builder, Combiner, DType, InputKind, OutputKind, Shape};

    /// A scatter of `updates` into each of so many rows of nine.
    fn graph(scatter: Scatter, dtype: DType, rows: usize, updates: usize) -> Graph {
        let b = Builder::new("scatter");
        let input =
            |name, dtype, shape: &[usize]| b.input(name, InputKind::User, TensorType::new(dtype, shape.to_vec()));
        let (a, u) = (input("a", dtype, &[rows, 9]), input("u", dtype, &[rows, updates]));
        let i = input("i", DType::I64, &[rows, updates, 1]);
        b.output("y", OutputKind::User, b.scatter(a, i, u, scatter).unwrap());
        b.finish()
    }

    /// Whether the host is asked for the scatter of `graph`, which means the same then.
    fn asks(platform: Platform, graph: &Graph) -> bool {
        let (after, changes) = formulated_for(platform, graph, Class::Exact, None);
        assert_same_bits(graph, &after, &Random(9).inputs(graph, true));
        let made = after.nodes().iter().any(|n| matches!(n.op, Op::HostScatter(_)));
        assert_eq!(changes.iter().any(|change| change.rule == TOLD.0), made);
        made
    }

    #[test]
    fn batches_are_the_hosts_and_mean_the_same() {
        let combiners = [Combiner::Set, Combiner::Add, Combiner::Multiply, Combiner::Maximum, Combiner::Minimum];
        for combiner in combiners {
            for dtype in [DType::F32, DType::F64, DType::I32, DType::I64, DType::BF16] {
                let scatter = Scatter { combiner, ..sums_in_planes() };
                let before = graph(scatter, dtype, 64, 16);
                let has = dtype != DType::BF16 || combiner == Combiner::Set;
                assert_eq!(asks(Platform::CpuWithBlas, &before), has, "{combiner:?} of {dtype:?}");
                assert!(!asks(Platform::Cpu, &before), "there is nobody to ask");
            }
        }
        assert!(!asks(Platform::CpuWithBlas, &graph(sums_in_planes(), DType::F32, 63, 16)), "few");
    }

    #[test]
    fn rows_stay() {
        let b = Builder::new("rows");
        let input =
            |name, dtype, shape: &[usize]| b.input(name, InputKind::User, TensorType::new(dtype, shape.to_vec()));
        let (a, u) = (input("a", DType::F32, &[9, 64]), input("u", DType::F32, &[16, 64]));
        let rows = Scatter {
            update_window_dims: [1].into_iter().collect(),
            inserted_window_dims: [0].into_iter().collect(),
            input_batching_dims: Shape::new(),
            scatter_indices_batching_dims: Shape::new(),
            scatter_dims_to_operand_dims: [0].into_iter().collect(),
            index_vector_dim: 1,
            ..sums_in_planes()
        };
        let i = input("i", DType::I64, &[16, 1]);
        b.output("y", OutputKind::User, b.scatter(a, i, u, rows).unwrap());
        assert!(!asks(Platform::CpuWithBlas, &b.finish()));
    }
}
