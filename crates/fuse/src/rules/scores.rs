//! Rows of scores: PyTorch's attention gives nought for rows that a mask leaves nothing of, so it looks for them. Where
//! there are none, which a causal mask shows, what is left is a softmax as compilers know it.

use crate::analysis::{Range, decides};
use crate::change::Class::Reassociating;
use crate::language::{Head, Kind};
use crate::rule::{Edit, Right, Rule};
use egg::Id;
use ir::op::{Comparison, Reducer, Unary};
use ir::{Number, Op};

pub(super) static RULES: &[Rule] = &[Rule {
    name: "row-with-scores",
    class: Reassociating,
    why: "a row that no mask can be all of has a number in it: nothing need be compared and chosen for each row",
    left: "(compare_eq (reduce ?x ?r) ?c)",
    right: Right::Build("false, where ?c is -inf, ?r the maximum and each row has a number", |e| {
        let Op::Reduce { reducer: Reducer::Maximum, dims } = &*e.op("r")? else { return None };
        let floats = e.dtype(e.var("c"))?.is_float();
        let empty = floats && e.is(e.var("c"), Number::Float(f64::NEG_INFINITY));
        (empty && rows_hold_a_number(e, e.var("x"), dims)).then(|| e.full_like(Number::Bool(false), e.root()))?
    }),
}];

const COMPARISONS: [Comparison; 6] =
    [Comparison::Eq, Comparison::Ne, Comparison::Lt, Comparison::Le, Comparison::Gt, Comparison::Ge];

/// How far predicates are looked for behind broadcasts and other predicates.
const DEPTH: usize = 5;

/// Whether something along `dims` is a number, wherever one looks in the other dimensions.
fn rows_hold_a_number(e: &Edit<'_>, x: Id, dims: &[usize]) -> bool {
    let Some(shape) = e.shape(x).filter(|_| !dims.is_empty()) else { return false };
    if dims.iter().any(|&d| shape[d] == 0) {
        return false;
    }
    let kept =
        |p: Id, truth: bool| dims.iter().any(|&d| [false, true].into_iter().any(|end| is(e, p, truth, d, end, DEPTH)));
    e.is_finite(x)
        || e.nodes(x, Head::Select).any(|node| {
            let [p, chosen, other] = node.children[..] else { return false };
            (e.is_finite(chosen) && kept(p, true)) || (e.is_finite(other) && kept(p, false))
        })
}

/// Whether predicate `p` is `truth` at one end of dimension `d`, the first or the last, wherever one looks in the others.
fn is(e: &Edit<'_>, p: Id, truth: bool, d: usize, last: bool, depth: usize) -> bool {
    let Some(depth) = depth.checked_sub(1) else { return false };
    if let Some(known) = e.integer(p) {
        return (known != 0) == truth;
    }
    let of_compared = |&c: &Comparison| {
        e.nodes(p, Head::Compare(c)).any(|node| {
            let ends = (at_end(e, node.children[0], d, last), at_end(e, node.children[1], d, last));
            matches!(ends, (Some(x), Some(y)) if decides(c, x, y) == Some(truth))
        })
    };
    let of_not = || e.nodes(p, Head::Unary(Unary::Not)).any(|node| is(e, node.children[0], !truth, d, last, depth));
    let of_broadcast = || {
        e.nodes(p, Head::With(Kind::BroadcastInDim)).any(|node| {
            let Some(op) = e.attributes(node.children[1]) else { return false };
            let Op::BroadcastInDim { dims, .. } = &*op else { return false };
            dims.iter().position(|&to| to == d).is_some_and(|from| {
                let whole = e.shape(node.children[0]).zip(e.shape(p)).is_some_and(|(s, t)| s[from] == t[d]);
                whole && is(e, node.children[0], truth, from, last, depth)
            })
        })
    };
    COMPARISONS.iter().any(of_compared) || of_not() || of_broadcast()
}

/// Bounds of an integer where dimension `d` is at one end.
fn at_end(e: &Edit<'_>, id: Id, d: usize, last: bool) -> Option<Range> {
    let Some(counting) = e.counting(id).filter(|counting| counting.dim == d) else { return e.range(id) };
    let steps = if last { e.shape(id)?[d] as i128 - 1 } else { 0 };
    Some((counting.start + steps, counting.start + steps))
}
