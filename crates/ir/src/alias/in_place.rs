//! Writes to a part of a value that XLA must not do in the value's own memory.
//!
//! XLA computes what a `dynamic_update_slice` writes in the loop that writes it, and overwrites the operand where it may.
//! Its CPU compiler also does that where the new elements are computed from others of the operand, which the loop may have
//! overwritten by then: of `y[1:] = y[:-1]` it makes copies of the first row.

use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::graph::{Graph, ValueId};
use crate::literal::Number;
use crate::op::Op;
use rustc_hash::FxHashSet;

/// Values looked at for one write. A write that takes more to tell is taken for one that reads.
const MOST: usize = 1000;

/// Whether `v`, to be written to `base[start..limit]`, may be computed in the same loop from other elements of `base`, or
/// of what `base` is a part of: two slices of one value are one slice once programs are simplified.
pub(super) fn reads_other_elements(b: &Builder, base: ValueId, v: ValueId, start: &[usize], limit: &[usize]) -> bool {
    let graph = b.graph();
    let mut source = base;
    while same_memory(&graph.node(source).op) {
        source = graph.node(source).operands[0];
    }
    let mut held = moved_from(&graph, base);
    held.insert(source);
    let first = held.iter().min().copied().unwrap_or(source);
    let mut seen = FxHashSet::default();
    // With each value, whether each element of `v` is computed from its own element there alone.
    let mut todo = vec![(v, true)];
    while let Some((v, aligned)) = todo.pop() {
        if v < first || !seen.insert((v, aligned)) {
            continue;
        }
        if held.contains(&v) || seen.len() > MOST {
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

/// Values whose elements `v` has at other places, which simplifying may make it: down to what computes or writes them, without
/// what the program is given.
fn moved_from(graph: &Graph, v: ValueId) -> FxHashSet<ValueId> {
    let (mut from, mut todo) = (FxHashSet::default(), vec![v]);
    while let Some(v) = todo.pop() {
        let node = graph.node(v);
        if matches!(node.op, Op::Input { .. } | Op::Constant(_)) || from.len() > MOST || !from.insert(v) {
            continue;
        }
        match node.op {
            Op::Slice { .. } | Op::Pad { .. } => todo.push(node.operands[0]),
            Op::Select => todo.extend(&node.operands[1..]),
            _ if same_memory(&node.op) => todo.push(node.operands[0]),
            _ => {}
        }
    }
    from
}

/// `dynamic_update_slice` of these operands, at positions that only a run knows. Where its new elements may be computed in one
/// loop from those that it overwrites, it is said as a choice between both.
///
/// XLA looks for that itself, but not through the `bitcast`s that it makes of reshapes and, on the way, of gathers, windows and joined
/// tensors. An input is none, nor is what was written to one: they are left to it, unless they are read in another shape.
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
    // What may lie in the memory that is written, and whether any of it is seen in another shape.
    let (mut held, mut cast) = (vec![base], false);
    let source = loop {
        let source = held[held.len() - 1];
        let op = &graph.node(source).op;
        cast |= same_memory(op);
        if !matches!(op, Op::DynamicUpdateSlice) && !same_memory(op) {
            break source;
        }
        held.push(graph.node(source).operands[0]);
    };
    let given = matches!(graph.node(source).op, Op::Input { .. });
    let Some(fused) = fused(&graph, v) else { return true };
    let recast = |v: &ValueId| {
        let node = graph.node(*v);
        same_memory(&node.op) && held.contains(&node.operands[0])
    };
    if given && !cast {
        return fused.iter().any(recast);
    }
    held.iter().any(|v| fused.contains(v)) || !moved_from(&graph, base).is_disjoint(&fused)
}

/// What is computed in one loop with `v`; `None` if it is too much to look at.
fn fused(graph: &Graph, v: ValueId) -> Option<FxHashSet<ValueId>> {
    let (mut seen, mut todo) = (FxHashSet::default(), vec![v]);
    while let Some(v) = todo.pop() {
        if !seen.insert(v) {
            continue;
        }
        if seen.len() > MOST {
            return None;
        }
        let node = graph.node(v);
        if is_fused(&node.op) {
            todo.extend(&node.operands);
        }
    }
    Some(seen)
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
