//! Reductions: of fewer elements, in one pass, and what is common to their elements taken out.

use super::convert::holds;
use crate::analysis::computed;
use crate::change::Class::{Exact, Reassociating};
use crate::rule::{Edit, Right, Rule};
use egg::Id;
use ir::op::{Binary, Reducer, Unary, Window};
use ir::{DType, Dims, Literal, Number, Op};
use std::ops::Range;

pub(super) static RULES: &[Rule] = &[
    Rule {
        name: "sum-of-broadcast",
        class: Reassociating,
        why: "a product instead of a sum of what is all the same",
        left: "(reduce (broadcast_in_dim ?x ?b) ?r)",
        right: Right::Build("?x reduced over its own dimensions, times how often it is repeated if ?r sums", |e| {
            of_broadcast(e, reduction(e, is_sum)?)
        }),
    },
    Rule {
        name: "extreme-of-broadcast",
        class: Exact,
        why: "the greatest of what is all the same is any",
        left: "(reduce (broadcast_in_dim ?x ?b) ?r)",
        right: Right::Build("?x reduced over its own dimensions, times how often it is repeated if ?r sums", |e| {
            of_broadcast(e, reduction(e, is_orderless)?)
        }),
    },
    Rule {
        name: "sum-of-sums",
        class: Reassociating,
        why: "one pass instead of two",
        left: "(reduce (reduce ?x ?inner) ?r)",
        right: Right::Build("(reduce ?x ?inner + ?r), where both reduce alike", |e| {
            of_reduction(e, reduction(e, is_sum)?)
        }),
    },
    Rule {
        name: "extreme-of-extremes",
        class: Exact,
        why: "one pass instead of two",
        left: "(reduce (reduce ?x ?inner) ?r)",
        right: Right::Build("(reduce ?x ?inner + ?r), where both reduce alike", |e| {
            of_reduction(e, reduction(e, is_orderless)?)
        }),
    },
    Rule {
        name: "sum-of-transpose",
        class: Reassociating,
        why: "the result is transposed, which is smaller",
        left: "(reduce (transpose ?x ?p) ?r)",
        right: Right::Build("(transpose (reduce ?x ?p[?r]))", |e| of_transpose(e, reduction(e, is_sum)?)),
    },
    Rule {
        name: "extreme-of-transpose",
        class: Exact,
        why: "the result is transposed, which is smaller",
        left: "(reduce (transpose ?x ?p) ?r)",
        right: Right::Build("(transpose (reduce ?x ?p[?r]))", |e| of_transpose(e, reduction(e, is_orderless)?)),
    },
    Rule {
        name: "reduction-of-reshape",
        class: Exact,
        why: "elements are reduced as they lie, in the same order",
        left: "(reduce (reshape ?x ?s) ?r)",
        right: Right::Build(
            "(reshape (reduce ?x)), where ?s splits or joins dimensions that ?r keeps or reduces together",
            of_reshape,
        ),
    },
    Rule {
        name: "sum-times-constant",
        class: Reassociating,
        why: "one product a sum instead of one an element",
        left: "(reduce (multiply ?x ?c) ?r)",
        right: Right::Build("(multiply (reduce ?x ?r) ?c), where ?c is a constant and ?r sums", |e| {
            let r = reduction(e, is_sum)?;
            let factor = e.splat(e.var("c")).filter(|_| e.is_tame("c") && is_wide(e))?;
            let (sum, factor) = (e.reduce(e.var("x"), r.0, r.1)?, e.fill(&factor)?);
            e.binary(Binary::Multiply, sum, factor)
        }),
    },
    Rule {
        name: "sum-times-repeated",
        class: Reassociating,
        why: "one op a sum instead of one an element: what is repeated along the sum comes out of it",
        left: "(reduce (multiply ?x (broadcast_in_dim ?y ?b)) ?r)",
        right: Right::Build(
            "(multiply (reduce ?x ?r) (broadcast_in_dim ?y)), where ?b repeats ?y along what ?r sums",
            |e| with_repeated(e, Binary::Multiply),
        ),
    },
    Rule {
        name: "sum-of-repeated-times",
        class: Reassociating,
        why: "one op a sum instead of one an element: what is repeated along the sum comes out of it",
        left: "(reduce (multiply (broadcast_in_dim ?y ?b) ?x) ?r)",
        right: Right::Build(
            "(multiply (reduce ?x ?r) (broadcast_in_dim ?y)), where ?b repeats ?y along what ?r sums",
            |e| with_repeated(e, Binary::Multiply),
        ),
    },
    Rule {
        name: "sum-over-repeated",
        class: Reassociating,
        why: "one op a sum instead of one an element: what is repeated along the sum comes out of it",
        left: "(reduce (divide ?x (broadcast_in_dim ?y ?b)) ?r)",
        right: Right::Build(
            "(divide (reduce ?x ?r) (broadcast_in_dim ?y)), where ?b repeats ?y along what ?r sums",
            |e| with_repeated(e, Binary::Divide),
        ),
    },
    Rule {
        name: "sum-of-negated",
        class: Reassociating,
        why: "one sign a sum instead of one an element",
        left: "(reduce (negate ?x) ?r)",
        right: Right::Build("(negate (reduce ?x ?r)), where ?r sums", |e| {
            let (reducer, dims) = reduction(e, is_sum)?;
            let sum = e.reduce(e.var("x"), reducer, dims)?;
            e.unary(Unary::Negate, sum)
        }),
    },
    Rule {
        name: "extreme-of-negated",
        class: Exact,
        why: "one sign a result instead of one an element",
        left: "(reduce (negate ?x) ?r)",
        right: Right::Build("(negate (reduce ?x)) by the opposite reducer, of floats", |e| {
            let (reducer, dims) = reduction(e, |r| matches!(r, Reducer::Maximum | Reducer::Minimum))?;
            let opposite = if reducer == Reducer::Maximum { Reducer::Minimum } else { Reducer::Maximum };
            let floats = e.dtype(e.root())?.is_float();
            let least = floats.then(|| e.reduce(e.var("x"), opposite, dims))??;
            e.unary(Unary::Negate, least)
        }),
    },
    Rule {
        name: "sum-of-one",
        class: Reassociating,
        why: "nothing to add but the sign of zero",
        left: "(reduce ?x ?r)",
        right: Right::Build("(reshape ?x), where ?r sums extents of 1", |e| {
            let r = reduction(e, is_sum)?;
            of_one(e, &r.1)
        }),
    },
    Rule {
        name: "reduction-of-one",
        class: Exact,
        why: "nothing to combine",
        left: "(reduce ?x ?r)",
        right: Right::Build("(reshape ?x), where ?r reduces extents of 1, not by a sum", |e| {
            let r = reduction(e, |r| !is_sum(r) && !r.is_arg())?;
            of_one(e, &r.1)
        }),
    },
    Rule {
        name: "sum-of-constant",
        class: Reassociating,
        why: "computed now",
        left: "(reduce ?x ?r)",
        right: Right::Build("a constant, where ?x is one and ?r sums", |e| {
            let (_, dims) = reduction(e, is_sum)?;
            let (x, shape) = (e.splat(e.var("x"))?, e.shape(e.var("x"))?);
            let count = dims.iter().map(|&d| shape[d] as i64).product();
            let times = Literal::splat(number(count, x.ty.dtype)?, x.ty.dtype, []);
            let sum = computed(&Op::Binary(Binary::Multiply), &[&x, &times])?;
            (count > 0).then(|| e.fill(&sum))?
        }),
    },
    Rule {
        name: "extreme-of-constant",
        class: Exact,
        why: "the greatest of what is all the same is any",
        left: "(reduce ?x ?r)",
        right: Right::Build("a constant, where ?x is one and there are elements", |e| {
            let (_, dims) = reduction(e, |r| is_orderless(r) && r != Reducer::Xor)?;
            let (element, shape) = (e.splat(e.var("x"))?, e.shape(e.var("x"))?);
            dims.iter().all(|&d| shape[d] > 0).then(|| e.fill(&element))?
        }),
    },
    Rule {
        name: "extreme-of-widened",
        class: Exact,
        why: "fewer elements are converted, fewer bytes read",
        left: "(reduce (convert ?x ?t) ?r)",
        right: Right::Build("(convert (reduce ?x ?r) ?t), where ?t holds every value", |e| {
            let (reducer, dims) = reduction(e, |r| matches!(r, Reducer::Maximum | Reducer::Minimum))?;
            let (from, to) = (e.dtype(e.var("x"))?, e.dtype(e.root())?);
            let alike = holds(to, from) && from != to && e.numel(e.var("x"))? > 0;
            let least = alike.then(|| e.reduce(e.var("x"), reducer, dims))??;
            e.convert(least, to)
        }),
    },
    Rule {
        name: "maximum-of-bounded",
        class: Exact,
        why: "one bound a result instead of one an element",
        left: "(reduce (maximum ?x ?c) ?r)",
        right: Right::Build("(maximum (reduce ?x ?r) ?c), where ?c is a constant and ?r reduces by maximum", |e| {
            of_bounded(e, Reducer::Maximum, Binary::Maximum)
        }),
    },
    Rule {
        name: "minimum-of-bounded",
        class: Exact,
        why: "one bound a result instead of one an element",
        left: "(reduce (minimum ?x ?c) ?r)",
        right: Right::Build("(minimum (reduce ?x ?r) ?c), where ?c is a constant and ?r reduces by minimum", |e| {
            of_bounded(e, Reducer::Minimum, Binary::Minimum)
        }),
    },
    Rule {
        name: "sum-window-of-one",
        class: Reassociating,
        why: "nothing to add but the sign of zero",
        left: "(reduce_window ?x ?w)",
        right: Right::Build("?x, where windows have one element and sum", |e| of_trivial_window(e, is_sum)),
    },
    Rule {
        name: "window-of-one",
        class: Exact,
        why: "nothing to combine",
        left: "(reduce_window ?x ?w)",
        right: Right::Build("?x, where windows have one element and do not sum", |e| {
            of_trivial_window(e, |r| !is_sum(r))
        }),
    },
    Rule {
        name: "sum-window-of-reversed",
        class: Reassociating,
        why: "windows are read the other way instead of all elements moved twice: the gradient of a running sum",
        left: "(reverse (reduce_window (reverse ?x ?d) ?w) ?d)",
        right: Right::Build(
            "(reduce_window ?x), with the padding of each side on the other, where windows sum or multiply",
            |e| of_reversed_windows(e, is_rounded),
        ),
    },
    Rule {
        name: "window-of-reversed",
        class: Exact,
        why: "windows are read the other way instead of all elements moved twice",
        left: "(reverse (reduce_window (reverse ?x ?d) ?w) ?d)",
        right: Right::Build(
            "(reduce_window ?x), with the padding of each side on the other, where windows neither sum nor multiply",
            |e| of_reversed_windows(e, |r| !is_rounded(r)),
        ),
    },
    Rule {
        name: "window-of-everything",
        class: Exact,
        why: "a reduction reads rows; windows are gathered element by element: global pooling",
        left: "(reduce_window ?x ?w)",
        right: Right::Build(
            "(reshape (reduce ?x)), where a window covers its dimension or one element of it",
            of_whole_window,
        ),
    },
];

/// A reducer and the dimensions it takes away.
type Reduction = (Reducer, Dims);

/// The reduction that `?r` names, if the reducer is one of these.
fn reduction(e: &Edit<'_>, of: fn(Reducer) -> bool) -> Option<Reduction> {
    match &*e.op("r")? {
        Op::Reduce { reducer, dims } if of(*reducer) => Some((*reducer, dims.clone())),
        _ => None,
    }
}

fn is_sum(r: Reducer) -> bool {
    r == Reducer::Add
}

/// Whether results of floats hang on the order of elements.
fn is_rounded(r: Reducer) -> bool {
    matches!(r, Reducer::Add | Reducer::Multiply)
}

/// Whether the order of elements and how often one comes do not matter; of `xor`, the order.
fn is_orderless(r: Reducer) -> bool {
    matches!(r, Reducer::Maximum | Reducer::Minimum | Reducer::And | Reducer::Or | Reducer::Xor)
}

/// Whether sums of elements that are made small later stay in range.
fn is_wide(e: &Edit<'_>) -> bool {
    e.dtype(e.root()).is_some_and(|d| matches!(d, DType::F32 | DType::F64) || d.is_int())
}

/// A count as a number of `dtype`, if that holds it.
fn number(count: i64, dtype: DType) -> Option<Number> {
    let fits = !dtype.is_float() || dtype != DType::F16 || count < 60_000;
    (fits && !matches!(dtype, DType::Bool | DType::F8E4M3FN | DType::F8E5M2)).then_some(Number::Int(count))
}

fn of_broadcast(e: &mut Edit<'_>, (reducer, dims): Reduction) -> Option<Id> {
    let (x, op) = (e.var("x"), e.op("b")?);
    let Op::BroadcastInDim { shape, dims: into } = &*op else { return None };
    let from = e.shape(x)?;
    let own: Dims = (0..from.len()).filter(|&i| dims.contains(&into[i])).collect();
    let varies = |d: &usize| into.iter().zip(&from).any(|(i, &n)| i == d && n == shape[*d]);
    let times: usize = dims.iter().filter(|d| !varies(d)).map(|&d| shape[d]).product();
    if times < 2 || reducer == Reducer::Xor {
        return None;
    }
    let mut reduced = if own.is_empty() { x } else { e.reduce(x, reducer, own.clone())? };
    if is_sum(reducer) {
        let count = number(times as i64, e.dtype(x)?)?;
        let factor = e.full_like(count, reduced)?;
        reduced = e.binary(Binary::Multiply, reduced, factor)?;
    }
    let place = |d: usize| d - dims.iter().filter(|&&r| r < d).count();
    let kept: Dims = (0..from.len()).filter(|i| !own.contains(i)).map(|i| place(into[i])).collect();
    let result = e.shape(e.root())?;
    e.broadcast_in_dim(reduced, &result, &kept)
}

fn of_reduction(e: &mut Edit<'_>, (reducer, outer): Reduction) -> Option<Id> {
    let Op::Reduce { reducer: first, dims: inner } = &*e.op("inner")? else { return None };
    let rank = e.shape(e.var("x"))?.len();
    let left: Dims = (0..rank).filter(|d| !inner.contains(d)).collect();
    let mut all: Dims = inner.iter().copied().chain(outer.iter().map(|&d| left[d])).collect();
    all.sort_unstable();
    (*first == reducer).then(|| e.reduce(e.var("x"), reducer, all))?
}

fn of_transpose(e: &mut Edit<'_>, (reducer, dims): Reduction) -> Option<Id> {
    let Op::Transpose { permutation } = &*e.op("p")? else { return None };
    let mut before: Dims = dims.iter().map(|&d| permutation[d]).collect();
    before.sort_unstable();
    let kept: Dims = (0..permutation.len()).filter(|d| !dims.contains(d)).map(|d| permutation[d]).collect();
    let order: Dims = kept.iter().map(|k| kept.iter().filter(|o| *o < k).count()).collect();
    let reduced = e.reduce(e.var("x"), reducer, before)?;
    e.transpose(reduced, &order)
}

fn of_reshape(e: &mut Edit<'_>) -> Option<Id> {
    let (reducer, dims) = reduction(e, |r| !r.is_arg())?;
    let Op::Reshape { shape: to } = &*e.op("s")? else { return None };
    let from = e.shape(e.var("x"))?;
    let mut own = Dims::new();
    for (of, into) in groups(&from, to)? {
        let reduced = into.clone().filter(|d| dims.contains(d)).count();
        match reduced {
            0 => {}
            n if n == into.len() => own.extend(of),
            _ => return None,
        }
    }
    let result = e.shape(e.root())?;
    let reduced = (!own.is_empty()).then(|| e.reduce(e.var("x"), reducer, own))??;
    e.reshape(reduced, &result)
}

/// Runs of dimensions, as few as can be, that a reshape makes of each other.
pub(super) fn groups(from: &[usize], to: &[usize]) -> Option<Vec<(Range<usize>, Range<usize>)>> {
    let (mut all, mut i, mut j) = (vec![], 0, 0);
    if from.contains(&0) {
        return None;
    }
    while i < from.len() || j < to.len() {
        let start = (i, j);
        let (mut left, mut right) = (1, 1);
        // A dimension of extent 1 is a group of its own.
        if from.get(i) == Some(&1) {
            i += 1;
        } else if to.get(j) == Some(&1) {
            j += 1;
        } else {
            (left, right, i, j) = (*from.get(i)?, *to.get(j)?, i + 1, j + 1);
        }
        while left != right {
            if left < right {
                (left, i) = (left * from.get(i)?, i + 1);
            } else {
                (right, j) = (right * to.get(j)?, j + 1);
            }
        }
        all.push((start.0..i, start.1..j));
    }
    Some(all)
}

/// `op` of the sum of `?x` and of `?y`, if no dimension that is summed is one of `?y`.
fn with_repeated(e: &mut Edit<'_>, op: Binary) -> Option<Id> {
    let (reducer, dims) = reduction(e, is_sum)?;
    let Op::BroadcastInDim { dims: into, .. } = &*e.op("b")? else { return None };
    let worth = is_wide(e) && e.dtype(e.root())?.is_float() && e.is_tame("y") && e.is_tame("x");
    if !worth || into.iter().any(|d| dims.contains(d)) {
        return None;
    }
    let place: Dims = into.iter().map(|&d| d - dims.iter().filter(|&&r| r < d).count()).collect();
    let result = e.shape(e.root())?;
    let (sum, other) = (e.reduce(e.var("x"), reducer, dims)?, e.broadcast_in_dim(e.var("y"), &result, &place)?);
    e.binary(op, sum, other)
}

fn of_one(e: &mut Edit<'_>, dims: &[usize]) -> Option<Id> {
    let (from, to) = (e.shape(e.var("x"))?, e.shape(e.root())?);
    dims.iter().all(|&d| from[d] == 1).then(|| e.reshape(e.var("x"), &to))?
}

fn of_bounded(e: &mut Edit<'_>, by: Reducer, bound: Binary) -> Option<Id> {
    let (reducer, dims) = reduction(e, |_| true)?;
    let element = e.splat(e.var("c")).filter(|_| reducer == by)?;
    let some = e.numel(e.var("x"))? > 0;
    let extreme = some.then(|| e.reduce(e.var("x"), reducer, dims))??;
    let c = e.fill(&element)?;
    e.binary(bound, extreme, c)
}

/// The windows that `?w` names.
fn windows(e: &Edit<'_>) -> Option<(Reducer, Window)> {
    match &*e.op("w")? {
        Op::ReduceWindow { reducer, window } if !reducer.is_arg() => Some((*reducer, window.clone())),
        _ => None,
    }
}

/// Whether windows along dimension `d` are its elements.
fn is_trivial(w: &Window, d: usize) -> bool {
    w.size[d] == 1 && w.strides[d] == 1 && w.padding[d] == (0, 0) && w.base_dilation[d] == 1
}

fn of_trivial_window(e: &Edit<'_>, of: fn(Reducer) -> bool) -> Option<Id> {
    let (reducer, window) = windows(e)?;
    let trivial = (0..window.size.len()).all(|d| is_trivial(&window, d));
    (of(reducer) && trivial).then(|| e.var("x"))
}

/// Windows that move by one element along what is reversed are as many from either side.
fn of_reversed_windows(e: &mut Edit<'_>, of: fn(Reducer) -> bool) -> Option<Id> {
    let (Op::Reverse { dims }, (reducer, mut window)) = (&*e.op("d")?, windows(e)?) else { return None };
    for &d in dims {
        let (low, high) = window.padding[d];
        window.padding[d] = (high, low);
    }
    let by_one = dims.iter().all(|&d| window.strides[d] == 1);
    (of(reducer) && by_one).then(|| e.push(&Op::ReduceWindow { reducer, window }, &[e.var("x")]))?
}

fn of_whole_window(e: &mut Edit<'_>) -> Option<Id> {
    let ((reducer, w), from, to) = (windows(e)?, e.shape(e.var("x"))?, e.shape(e.root())?);
    let covers =
        |d: usize| w.size[d] == from[d] && w.padding[d] == (0, 0) && w.base_dilation[d] == 1 && w.dilation[d] == 1;
    let whole: Dims = (0..from.len()).filter(|&d| covers(d) && !is_trivial(&w, d)).collect();
    let all = (0..from.len()).all(|d| whole.contains(&d) || is_trivial(&w, d));
    let reduced = (all && !whole.is_empty()).then(|| e.reduce(e.var("x"), reducer, whole))??;
    e.reshape(reduced, &to)
}
