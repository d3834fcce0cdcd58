//! Writes to a part of a value that XLA must not do in the value's own memory.
//!
//! XLA computes what a `dynamic_update_slice` writes in the loop that writes it, and overwrites the operand where it may.
//! Its CPU compiler also does that where the new elements are computed from others of the operand, which the loop may have
//! overwritten by then: of `y[1:] = y[:-1]` it makes copies of the first row. It looks for that, but not through `bitcast`s:
//! reshapes, and what it makes of gathers, windows and joined tensors.

use crate::graph::{Graph, Node, ValueId};
use crate::op::Op;
use rustc_hash::FxHashSet;

/// Values looked at for one write. A write that takes more to tell is taken for one that reads.
const MOST: usize = 1000;

/// Whether `v`, to be written to `base[start..limit]`, is computed from other elements of `base`. Then it is best said as a
/// choice between both, which becomes one loop with what computes `v`.
pub(crate) fn reads_other_elements(graph: &Graph, base: ValueId, v: ValueId, start: &[usize], limit: &[usize]) -> bool {
    let mut source = base;
    while same_memory(&graph.node(source).op) {
        source = graph.node(source).operands[0];
    }
    let own = |node: &Node| {
        matches!(&node.op, Op::Slice { start: s, limit: l, stride }
            if s[..] == *start && l[..] == *limit && stride.iter().all(|&n| n == 1) && node.operands[0] == base)
    };
    Loop { graph, v, first: source, own: &own }.reads(|v| v == source, Way::Elementwise)
}

/// Whether XLA may compute the new elements of a `dynamic_update_slice` of these operands from such as it has overwritten.
/// They are computed apart, then, or the write is a choice between new and old elements.
///
/// Of what a program is given, and of what was written to it, XLA sees that it is read, unless it is moved on the way.
pub fn may_read_overwritten(graph: &Graph, operands: &[ValueId]) -> bool {
    reads_overwritten(graph, operands, Way::Moved)
}

/// As [`may_read_overwritten`], also where XLA sees it: it keeps the operand, then, and looks at each of its elements whether that is
/// new.
pub fn reads_what_it_overwrites(graph: &Graph, operands: &[ValueId]) -> bool {
    reads_overwritten(graph, operands, Way::Elementwise)
}

/// Of what a program is given, from which way on it counts that it is read.
fn reads_overwritten(graph: &Graph, operands: &[ValueId], of_given: Way) -> bool {
    let &[base, v, ref starts @ ..] = operands else { return false };
    if graph.tensor_type(v).is_none_or(|ty| ty.numel() == 0) {
        return false;
    }
    // What may lie in the memory that is written, and whether any of it is seen in another shape.
    let (mut held, mut cast) = (FxHashSet::default(), false);
    let mut source = base;
    loop {
        if held.len() == MOST {
            return true;
        }
        held.insert(source);
        let op = &graph.node(source).op;
        cast |= same_memory(op);
        if !matches!(op, Op::DynamicUpdateSlice) && !same_memory(op) {
            break;
        }
        source = graph.node(source).operands[0];
    }
    let given = matches!(graph.node(source).op, Op::Input { .. });
    let from = if given && !cast { of_given } else { Way::Elementwise };
    if !given || cast {
        held.extend(moved_from(graph, base));
    }
    let first = held.iter().min().copied().unwrap_or(source);
    let own = |node: &Node| node.operands.first() == Some(&base) && is_at(graph, node, starts, v);
    Loop { graph, v, first, own: &own }.reads(|v| held.contains(&v), from)
}

/// Whether `node` takes the slice of its operand at `starts` that is as large as `v`.
fn is_at(graph: &Graph, node: &Node, starts: &[ValueId], v: ValueId) -> bool {
    if node.ty != *graph.ty(v) {
        return false;
    }
    let start = |v: ValueId| match &graph.node(v).op {
        Op::Constant(literal) => literal.integer(),
        _ => None,
    };
    match &node.op {
        Op::DynamicSlice { .. } => {
            let equal = |(&a, &b): (&ValueId, &ValueId)| a == b || start(a).is_some_and(|a| start(b) == Some(a));
            node.operands[1..].iter().zip(starts).all(equal)
        }
        Op::Slice { start: from, stride, .. } => {
            stride.iter().all(|&n| n == 1)
                && from.iter().zip(starts).all(|(&from, &v)| start(v).is_some_and(|v| usize::try_from(v) == Ok(from)))
        }
        _ => false,
    }
}

/// How a value is computed from another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Way {
    /// Each element from the one at its place.
    Elementwise,
    /// From elements that lie there in the same order.
    Sliced,
    Moved,
}

/// What XLA may compute in one loop with `v`.
struct Loop<'a> {
    graph: &'a Graph,
    v: ValueId,
    /// The first value that is of interest.
    first: ValueId,
    /// Whether a node reads what its element is written over, which is no harm.
    own: &'a dyn Fn(&Node) -> bool,
}

impl Loop<'_> {
    /// Whether the loop reads, in the way `from` or a worse one, a value that is `held`, or is too large to look at.
    fn reads(&self, held: impl Fn(ValueId) -> bool, from: Way) -> bool {
        let mut seen = FxHashSet::default();
        let mut todo = vec![(self.v, Way::Elementwise)];
        while let Some((v, way)) = todo.pop() {
            // What stands before the first one does not read it.
            if v < self.first || !seen.insert((v, way)) {
                continue;
            }
            let is_held = held(v);
            if (is_held && way >= from) || seen.len() > MOST {
                return true;
            }
            if is_held {
                continue;
            }
            let node = self.graph.node(v);
            let harmless = way == Way::Elementwise && (self.own)(node);
            if let Some(step) = of_a_loop(&node.op).filter(|_| !harmless) {
                todo.extend(node.operands.iter().map(|&operand| (operand, way.max(step))));
            }
        }
        false
    }
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

fn same_memory(op: &Op) -> bool {
    matches!(op, Op::Reshape { .. } | Op::Transpose { .. } | Op::BitcastConvert { .. })
}

/// How the op's elements come of its operands', if XLA computes it within the loop of its user.
fn of_a_loop(op: &Op) -> Option<Way> {
    match op {
        Op::Unary(_) | Op::Binary(_) | Op::Compare(_) | Op::Select | Op::Convert { .. } => Some(Way::Elementwise),
        Op::Slice { .. } | Op::DynamicSlice { .. } => Some(Way::Sliced),
        Op::BroadcastInDim { .. }
        | Op::DynamicUpdateSlice
        | Op::Concatenate { .. }
        | Op::Pad { .. }
        | Op::Reverse { .. }
        | Op::Gather(_)
        | Op::Reduce { .. }
        | Op::GetTupleElement { .. } => Some(Way::Moved),
        _ => same_memory(op).then_some(Way::Moved),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
