//! Writes to a part of a value that XLA must not do in the value's own memory.
//!
//! XLA computes what a `dynamic_update_slice` writes in the loop that writes it, and overwrites the operand where it may.
//! Its CPU compiler also does that where the new elements are computed from others of the operand, which the loop may have
//! overwritten by then: of `y[1:] = y[:-1]` it makes copies of the first row.

use crate::builder::Builder;
use crate::graph::ValueId;
use crate::op::Op;
use rustc_hash::FxHashSet;

/// Values looked at for one write. A write that takes more to tell is taken for one that reads.
const MOST: usize = 1000;

/// Whether `v`, to be written to `base[start..limit]`, may be computed in the same loop from other elements of `base`.
pub(super) fn reads_other_elements(b: &Builder, base: ValueId, v: ValueId, start: &[usize], limit: &[usize]) -> bool {
    let graph = b.graph();
    let mut source = base;
    while same_memory(&graph.node(source).op) {
        source = graph.node(source).operands[0];
    }
    let mut seen = FxHashSet::default();
    // With each value, whether each element of `v` is computed from its own element there alone.
    let mut todo = vec![(v, true)];
    while let Some((v, aligned)) = todo.pop() {
        if v < source || !seen.insert((v, aligned)) {
            continue;
        }
        if v == source || seen.len() > MOST {
            return true;
        }
        let node = graph.node(v);
        let own = matches!(&node.op, Op::Slice { start: s, limit: l, stride }
            if s[..] == *start && l[..] == *limit && stride.iter().all(|&n| n == 1) && node.operands[0] == base);
        if !(own && aligned) && is_fused(&node.op) {
            let aligned = aligned && is_elementwise(&node.op);
            todo.extend(node.operands.iter().map(|&operand| (operand, aligned)));
        }
    }
    false
}

fn same_memory(op: &Op) -> bool {
    matches!(op, Op::Reshape { .. } | Op::Transpose { .. } | Op::BitcastConvert { .. })
}

fn is_elementwise(op: &Op) -> bool {
    matches!(op, Op::Unary(_) | Op::Binary(_) | Op::Compare(_) | Op::Select | Op::Convert { .. })
}

/// Whether XLA computes the op within the loop of its user.
fn is_fused(op: &Op) -> bool {
    let moves = matches!(
        op,
        Op::BroadcastInDim { .. }
            | Op::Slice { .. }
            | Op::DynamicSlice { .. }
            | Op::DynamicUpdateSlice
            | Op::Concatenate { .. }
            | Op::Pad { .. }
            | Op::Reverse { .. }
            | Op::Gather(_)
            | Op::Reduce { .. }
            | Op::GetTupleElement { .. }
    );
    moves || is_elementwise(op) || same_memory(op)
}
