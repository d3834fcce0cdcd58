//! What is written to a part of a value, computed before.
//!
//! XLA's CPU computes new elements in the loop that writes them, from such as the loop has overwritten already, where it does not
//! see that they are read (`ir::overwrite`). Without a host to ask, the write becomes a choice between all new and all old
//! elements. Where it sees that, it asks of each element of the whole which of both it is. Four steps of a stencil over 1024x1024, at positions that only a run knows, took 12.5 ms so, and 3.1 with the
//! host; eight shifted writes to 512x512 took 3.4 and 1.7.

use super::rebuild::Rebuild;
use crate::{Change, Changes, Class, Head};
use ir::overwrite::reads_what_it_overwrites;
use ir::{Graph, LocId, Op, Operands, Result};

/// Name, class and reason.
pub(super) const TOLD: (&str, Class, &str) =
    ("written-apart", Class::Exact, "XLA's CPU may compute what it writes from what it has overwritten");

/// `graph`, for a platform where the host takes calls, with barriers before writes of what is computed from what they overwrite.
pub(super) fn written_apart(graph: &Graph, changes: &mut Changes, within: Option<LocId>) -> Result<Graph> {
    let mut to = Rebuild::of(graph);
    for node in graph.nodes() {
        let apart = matches!(node.op, Op::DynamicUpdateSlice)
            && reads_what_it_overwrites(graph, &node.operands)
            && changes.allows(TOLD.1);
        if !apart {
            to.keep(node);
            continue;
        }
        to.set_loc(node.loc);
        let mut operands: Operands = node.operands.iter().map(|&v| to.place(v)).collect();
        operands[1] = to.push(Op::HostBarrier, &operands[1..2])?;
        let value = to.push(Op::DynamicUpdateSlice, &operands)?;
        to.stand_for(value);
        let (locs, before) = (vec![within.unwrap_or(node.loc)], Head::of(&node.op));
        let after = vec![Head::of(&Op::HostBarrier), Head::of(&node.op)];
        changes.push(Change { rule: TOLD.0, class: TOLD.1, locs, before, after });
    }
    Ok(to.finish(graph))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Platform;
    use crate::formulate::testing::{Random, assert_same_bits, formulated_for};
    use ir::{Builder, DType, InputKind, Number, OutputKind, TensorType, Unary};

    #[test]
    fn what_may_be_read_when_it_is_overwritten_is_computed_apart() {
        let written = |cast: bool| {
            let b = Builder::new("written");
            let x = b.input("x", InputKind::User, TensorType::new(DType::F32, [4, 3]));
            let at = b.input("at", InputKind::User, TensorType::new(DType::I64, []));
            let base = if cast { b.unary(Unary::Abs, x).unwrap() } else { x };
            let zero = b.scalar(Number::Int(0), DType::I64).unwrap();
            let above = b.slice_dim(base, 0, 0, 3, 1).and_then(|v| b.unary(Unary::Tanh, v)).unwrap();
            let y = b.push(Op::DynamicUpdateSlice, &[base, above, at, zero], vec![]).unwrap();
            b.output("y", OutputKind::User, y);
            b.finish()
        };
        for (platform, cast, made) in
            [(Platform::CpuWithBlas, true, 1), (Platform::CpuWithBlas, false, 1), (Platform::Cpu, true, 0)]
        {
            let graph = written(cast);
            let (after, changes) = formulated_for(platform, &graph, Class::Exact, None);
            let mut inputs = Random(1).inputs(&graph, true);
            inputs[1] = ir::Literal::splat(Number::Int(1), DType::I64, []);
            assert_same_bits(&graph, &after, &inputs);
            assert_eq!(after.nodes().iter().filter(|n| matches!(n.op, Op::HostBarrier)).count(), made);
            assert_eq!(changes.iter().map(|c| c.rule).collect::<Vec<_>>(), vec!["written-apart"; made]);
        }
    }
}
