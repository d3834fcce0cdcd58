//! Greatest and least elements whose positions nobody reads, found without them.
//!
//! PyTorch's pooling gives positions, which only a gradient needs, and XLA carries them along. Of 2x64x112x112 by 3x3 at stride 2,
//! ResNet-50's, the CPU finds the greatest in 8.5 ms with them and in 3.6 ms without.

use super::rebuild::Rebuild;
use crate::{Change, Changes, Class, Head};
use ir::{Graph, LocId, Node, Op, Reducer, Result};

/// Name, class and reason. Of zeros of both signs the first is taken with positions, and 0 without.
pub(super) const TOLD: (&str, Class, &str) =
    ("unread-positions", Class::Reassociating, "positions of greatest elements are dear, and XLA computes unread ones");

/// `graph` without positions that nobody reads.
pub(super) fn dropped(graph: &Graph, changes: &mut Changes, within: Option<LocId>) -> Result<Graph> {
    let mut read = vec![false; graph.nodes().len()];
    for node in graph.nodes() {
        let is_value = matches!(node.op, Op::GetTupleElement { index: 0 });
        node.operands.iter().for_each(|v| read[v.index()] |= !is_value);
    }
    let mut dropped = vec![false; graph.nodes().len()];
    let mut to = Rebuild::of(graph);
    for (i, node) in graph.nodes().iter().enumerate() {
        match (&node.op, without(node).filter(|_| !read[i])) {
            (Op::GetTupleElement { .. }, _) if dropped[node.operands[0].index()] => {
                let value = to.place(node.operands[0]);
                to.stand_for(value);
            }
            (_, Some(op)) if changes.allows(TOLD.1) => {
                let (before, after) = (Head::of(&node.op), vec![Head::of(&op)]);
                let (locs, values) = (vec![within.unwrap_or(node.loc)], to.place(node.operands[0]));
                to.set_loc(node.loc);
                let value = to.push(op, &[values])?;
                to.stand_for(value);
                changes.push(Change { rule: TOLD.0, class: TOLD.1, locs, before, after });
                dropped[i] = true;
            }
            _ => to.keep(node),
        }
    }
    Ok(to.finish(graph))
}

/// The same without positions; `None` if it has none.
fn without(node: &Node) -> Option<Op> {
    let alone = |reducer| match reducer {
        Reducer::ArgMax => Some(Reducer::Maximum),
        Reducer::ArgMin => Some(Reducer::Minimum),
        _ => None,
    };
    match &node.op {
        Op::Reduce { reducer, dims } => Some(Op::Reduce { reducer: alone(*reducer)?, dims: dims.clone() }),
        Op::ReduceWindow { reducer, window } => {
            Some(Op::ReduceWindow { reducer: alone(*reducer)?, window: window.clone() })
        }
        _ => None,
    }
}
