//! Writes to a part of a value that XLA must not do in the value's own memory.
//!
//! XLA computes what a `dynamic_update_slice` writes in the loop that writes it, and overwrites the operand where it may.
//! Its CPU compiler also does that where the new elements are computed from others of the operand, which the loop may have
//! overwritten by then: of `y[1:] = y[:-1]` it makes copies of the first row.

use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::graph::{Graph, Node, ValueId};
use crate::literal::Number;
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
    reads(&graph, source, v, |node| {
        matches!(&node.op, Op::Slice { start: s, limit: l, stride }
            if s[..] == *start && l[..] == *limit && stride.iter().all(|&n| n == 1) && node.operands[0] == base)
    })
}

/// `dynamic_update_slice` of these operands, at positions that only a run knows. Where its new elements may be computed in one
/// loop from those that it overwrites, it is said as a choice between both.
///
/// XLA looks for that itself, but not through the `bitcast`s that it makes of reshapes and, on the way, of gathers, windows and joined
/// tensors. Such are never inputs, nor what was written to one.
///
/// # Errors
/// `Invalid`, if the operands are none of a `dynamic_update_slice`.
pub fn update_slice(b: &Builder, operands: &[ValueId]) -> Result<ValueId> {
    let &[base, v, ref starts @ ..] = operands else { return Err(Error::internal("an update without an operand")) };
    if !is_read_through_a_bitcast(b, base, v) {
        return b.push(Op::DynamicUpdateSlice, operands, vec![]);
    }
    let placed = |among: ValueId, v: ValueId| {
        let operands = [&[among, v], starts].concat();
        b.push(Op::DynamicUpdateSlice, &operands, vec![])
    };
    let new = placed(b.full_like(base, Number::Int(0))?, v)?;
    let here = b.full(Number::Bool(true), DType::Bool, &b.shape(v))?;
    let mask = placed(b.full(Number::Bool(false), DType::Bool, &b.shape(base))?, here)?;
    b.select(mask, new, base)
}

fn is_read_through_a_bitcast(b: &Builder, base: ValueId, v: ValueId) -> bool {
    let graph = b.graph();
    let (mut source, mut cast) = (base, false);
    loop {
        let node = graph.node(source);
        cast |= same_memory(&node.op);
        match node.op {
            Op::DynamicUpdateSlice => source = node.operands[0],
            _ if same_memory(&node.op) => source = node.operands[0],
            Op::Input { .. } if !cast => return false,
            _ => break,
        }
    }
    reads(&graph, source, v, |_| false)
}

/// Whether `v` is computed in the same loop from elements of `source`, besides those that `own` gives and that each meet
/// their own place.
fn reads(graph: &Graph, source: ValueId, v: ValueId, own: impl Fn(&Node) -> bool) -> bool {
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
        if !(aligned && own(node)) && is_fused(&node.op) {
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
