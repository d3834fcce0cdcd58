//! Slices, concatenations and pads: merged, and slices moved to where they save work.

use super::shapes::{broadcast, others};
use crate::change::Class::Exact;
use crate::language::{Head, Kind};
use crate::rule::{Edit, Right, Rule};
use egg::Id;
use ir::op::SignedDims;
use ir::reshape::groups;
use ir::{Dims, Op};
use std::ops::Range;

pub(super) static RULES: &[Rule] = &[
    Rule {
        name: "identity-slice",
        class: Exact,
        why: "takes all",
        left: "(slice ?x ?s)",
        right: Right::Build("?x, where it has these extents", |e| {
            (e.shape(e.var("x"))? == e.shape(e.root())?).then(|| e.var("x"))
        }),
    },
    Rule {
        name: "slice-of-slice",
        class: Exact,
        why: "one op instead of two",
        left: "(slice (slice ?x ?s) ?t)",
        right: Right::Build("(slice ?x ?s[?t])", |e| {
            let ((start, _, stride), outer) = (slice(e, "s")?, slice(e, "t")?);
            let made = e.shape(e.root())?;
            let place = |d: usize| start[d] + outer.0[d] * stride[d];
            let step: Dims = (0..made.len()).map(|d| stride[d] * outer.2[d]).collect();
            let end = |d: usize| if made[d] == 0 { place(d) } else { place(d) + (made[d] - 1) * step[d] + 1 };
            let (start, limit) = ((0..made.len()).map(place).collect(), (0..made.len()).map(end).collect());
            e.push(&Op::Slice { start, limit, stride: step }, &[e.var("x")])
        }),
    },
    Rule {
        name: "slice-of-concatenate",
        class: Exact,
        why: "reads only the parts that it needs",
        left: "(slice (concatenate ?x*... ?a) ?s)",
        right: Right::Build("(concatenate (slice ?x*)...), of the parts that the slice reaches into", |e| {
            let (dim, (start, limit, stride)) = (concatenated(e, "a")?, slice(e, "s")?);
            let (parts, mut taken, mut place) = (e.vars("x"), vec![], 0);
            for &part in &parts {
                let end = place + e.shape(part)?[dim];
                let (first, last) = (start[dim].max(place), limit[dim].min(end));
                if first < last {
                    let (mut start, mut limit) = (start.clone(), limit.clone());
                    (start[dim], limit[dim]) = (first - place, last - place);
                    taken.push((part, Op::Slice { start, limit, stride: stride.clone() }));
                }
                place = end;
            }
            if taken.is_empty() || taken.len() == parts.len() || (taken.len() > 1 && stride[dim] != 1) {
                return None;
            }
            let pieces: Option<Vec<Id>> = taken.iter().map(|(part, op)| e.push(op, &[*part])).collect();
            joined(e, &pieces?, dim)
        }),
    },
    Rule {
        name: "concatenate-of-slices",
        class: Exact,
        why: "what was cut is whole again",
        left: "(concatenate (slice ?x ?s) ?y*... ?a)",
        right: Right::Build(
            "(slice ?x), where each ?y* is a slice of ?x that starts where the one before it ends",
            |e| {
                let (dim, x, mut all) = (concatenated(e, "a")?, e.var("x"), slice(e, "s")?);
                for part in e.vars("y") {
                    all.1[dim] = next_to(e, part, x, &all, dim)?;
                }
                let (start, limit, stride) = all;
                e.push(&Op::Slice { start, limit, stride }, &[x])
            },
        ),
    },
    Rule {
        name: "concatenate-of-concatenates",
        class: Exact,
        why: "one pass over memory instead of several",
        left: "(concatenate ?x*... ?a)",
        right: Right::Build(
            "(concatenate ..), with the parts of those ?x* that are concatenated along the same dimension",
            |e| {
                let dim = concatenated(e, "a")?;
                let parts = e.vars("x");
                let flat: Vec<Id> = parts.iter().flat_map(|&x| parts_of(e, x, dim)).collect();
                if flat.len() > parts.len() { e.concatenate(&flat, dim) } else { None }
            },
        ),
    },
    Rule {
        name: "concatenate-with-nothing",
        class: Exact,
        why: "parts without elements add none",
        left: "(concatenate ?x*... ?a)",
        right: Right::Build("(concatenate ..), without parts of extent 0", |e| {
            let (dim, parts) = (concatenated(e, "a")?, e.vars("x"));
            let there: Vec<Id> = parts.iter().copied().filter(|&x| e.shape(x).is_some_and(|s| s[dim] > 0)).collect();
            if there.is_empty() || there.len() == parts.len() { None } else { joined(e, &there, dim) }
        }),
    },
    Rule {
        name: "concatenate-of-one",
        class: Exact,
        why: "one part is all of it",
        left: "(concatenate ?x ?a)",
        right: Right::Build("?x", |e| Some(e.var("x"))),
    },
    Rule {
        name: "identity-pad",
        class: Exact,
        why: "adds nothing",
        left: "(pad ?x ?v ?a)",
        right: Right::Build("?x, where nothing is added or cropped", |e| {
            let (low, high, interior) = pad(e, "a")?;
            let none = low.iter().chain(&high).all(|&n| n == 0) && interior.iter().all(|&n| n == 0);
            none.then(|| e.var("x"))
        }),
    },
    Rule {
        name: "pad-that-crops",
        class: Exact,
        why: "a slice, which meets other slices",
        left: "(pad ?x ?v ?a)",
        right: Right::Build("(slice ?x), where nothing is added", |e| {
            let ((low, high, interior), shape) = (pad(e, "a")?, e.shape(e.var("x"))?);
            let adds = low.iter().chain(&high).any(|&n| n > 0) || interior.iter().any(|&n| n > 0);
            let start: Dims = low.iter().map(|&n| n.unsigned_abs() as usize).collect();
            let limit: Dims =
                shape.iter().zip(&high).map(|(&n, &k)| n.saturating_sub(k.unsigned_abs() as usize)).collect();
            if adds || start.iter().zip(&limit).any(|(s, l)| s > l) {
                None
            } else {
                e.slice(e.var("x"), &start, &limit)
            }
        }),
    },
    Rule {
        name: "pad-of-pad",
        class: Exact,
        why: "one op instead of two",
        left: "(pad (pad ?x ?v ?a) ?v ?b)",
        right: Right::Build("(pad ?x ?v), where ?b does not add where ?a cropped", |e| {
            let ((low, high, interior), outer) = (pad(e, "a")?, pad(e, "b")?);
            let clash = |inner: &[i64], outer: &[i64]| inner.iter().zip(outer).any(|(&i, &o)| i < 0 && o > 0);
            if outer.2.iter().any(|&n| n > 0) || clash(&low, &outer.0) || clash(&high, &outer.1) {
                return None;
            }
            let sum = |a: &[i64], b: &[i64]| a.iter().zip(b).map(|(x, y)| x + y).collect();
            let op = Op::Pad { low: sum(&low, &outer.0), high: sum(&high, &outer.1), interior };
            e.push(&op, &[e.var("x"), e.var("v")])
        }),
    },
    Rule {
        name: "slice-of-pad",
        class: Exact,
        why: "what is sliced away is not padded first",
        left: "(slice (pad ?x ?v ?a) ?s)",
        right: Right::Build("(pad ?x ?v), with less or a crop on each side", |e| {
            let ((mut low, mut high, interior), (start, limit, stride)) = (pad(e, "a")?, slice(e, "s")?);
            let shape = e.shape(e.var("x"))?;
            for d in 0..shape.len() {
                let spread = shape[d] + shape[d].saturating_sub(1) * interior[d];
                let all = spread as i64 + low[d] + high[d];
                (low[d], high[d]) = (low[d] - start[d] as i64, high[d] - (all - limit[d] as i64));
            }
            if stride.iter().any(|&n| n != 1) {
                return None;
            }
            e.push(&Op::Pad { low, high, interior }, &[e.var("x"), e.var("v")])
        }),
    },
    Rule {
        name: "slice-of-broadcast",
        class: Exact,
        why: "fewer elements to compute",
        left: "(slice (broadcast_in_dim ?x ?b) ?s)",
        right: Right::Build("(broadcast_in_dim (slice ?x) ?b)", |e| {
            let ((from, dims), (start, limit, stride)) = (broadcast(e, "b")?, slice(e, "s")?);
            let shape = e.shape(e.var("x"))?;
            let of = |all: &[usize], whole: &dyn Fn(usize) -> usize| -> Dims {
                (0..dims.len()).map(|i| if shape[i] == from[dims[i]] { all[dims[i]] } else { whole(i) }).collect()
            };
            let (start, limit, stride) = (of(&start, &|_| 0), of(&limit, &|i| shape[i]), of(&stride, &|_| 1));
            let small = e.push(&Op::Slice { start, limit, stride }, &[e.var("x")])?;
            let to = e.shape(e.root())?;
            e.broadcast_in_dim(small, &to, &dims)
        }),
    },
    Rule {
        name: "slice-of-reshape",
        class: Exact,
        why: "meets what was concatenated or computed before the reshape",
        left: "(slice (reshape ?x ?r) ?s)",
        right: Right::Build("(reshape (slice ?x)), where the slice takes whole runs of the elements", |e| {
            let (s, from) = (slice(e, "s")?, e.shape(e.var("x"))?);
            let to = e.shape_of("r")?;
            let (mut start, mut limit, mut stride) = (Dims::new(), Dims::new(), Dims::new());
            for (left, right) in groups(&from, &to)? {
                let (first, last, step) = run(&s, &from[left.clone()], &to, right)?;
                start.extend(first);
                limit.extend(last);
                stride.extend(step);
            }
            let (part, shape) = (e.push(&Op::Slice { start, limit, stride }, &[e.var("x")])?, e.shape(e.root())?);
            e.reshape(part, &shape)
        }),
    },
    Rule {
        name: "slice-of-unary",
        class: Exact,
        why: "fewer elements to compute",
        left: "(slice (unary ?x) ?s)",
        right: Right::Build("(unary (slice ?x ?s)), where nothing else uses the unary", |e| inwards(e, &["x"])),
    },
    Rule {
        name: "slice-of-binary",
        class: Exact,
        why: "fewer elements to compute",
        left: "(slice (binary ?x ?y) ?s)",
        right: Right::Build("(binary (slice ?x ?s) (slice ?y ?s)), where nothing else uses the binary", |e| {
            inwards(e, &["x", "y"])
        }),
    },
    Rule {
        name: "slice-of-select",
        class: Exact,
        why: "fewer elements to compute",
        left: "(slice (select ?c ?x ?y) ?s)",
        right: Right::Build(
            "(select (slice ?c ?s) (slice ?x ?s) (slice ?y ?s)), where nothing else uses the select",
            |e| inwards(e, &["c", "x", "y"]),
        ),
    },
    Rule {
        name: "slice-of-convert",
        class: Exact,
        why: "fewer elements to compute",
        left: "(slice (convert ?x ?c) ?s)",
        right: Right::Build("(convert (slice ?x ?s) ?c)", |e| {
            let (part, to) = (e.push(&*e.op("s")?, &[e.var("x")])?, e.dtype(e.root())?);
            e.convert(part, to)
        }),
    },
    Rule {
        name: "slice-of-reduce",
        class: Exact,
        why: "fewer elements to reduce",
        left: "(slice (reduce ?x ?r) ?s)",
        right: Right::Build("(reduce (slice ?x) ?r)", |e| {
            let (Op::Reduce { reducer, dims }, (s, shape)) = (&*e.op("r")?, (slice(e, "s")?, e.shape(e.var("x"))?))
            else {
                return None;
            };
            let kept = others(shape.len(), &[dims]);
            let (mut start, mut limit, mut stride): (Dims, Dims, Dims) =
                (shape.iter().map(|_| 0).collect(), shape.iter().copied().collect(), shape.iter().map(|_| 1).collect());
            for (i, &d) in kept.iter().enumerate() {
                (start[d], limit[d], stride[d]) = (s.0[i], s.1[i], s.2[i]);
            }
            let part = e.push(&Op::Slice { start, limit, stride }, &[e.var("x")])?;
            e.reduce(part, *reducer, dims.clone())
        }),
    },
    Rule {
        name: "slice-of-dot",
        class: Exact,
        why: "only the part of the product that is read",
        left: "(slice (dot_general ?x ?y ?d) ?s)",
        right: Right::Build("(dot_general (slice ?x) (slice ?y) ?d)", |e| {
            let (Op::DotGeneral(d), s) = (&*e.op("d")?, slice(e, "s")?) else { return None };
            let (x, y) = (e.var("x"), e.var("y"));
            let batch = d.lhs_batch.len();
            let of_lhs = others(e.shape(x)?.len(), &[&d.lhs_batch, &d.lhs_contract]);
            let of_rhs = others(e.shape(y)?.len(), &[&d.rhs_batch, &d.rhs_contract]);
            let ends = batch + of_lhs.len();
            let lhs: Vec<(usize, usize)> = places(&d.lhs_batch, 0).chain(places(&of_lhs, batch)).collect();
            let rhs: Vec<(usize, usize)> = places(&d.rhs_batch, 0).chain(places(&of_rhs, ends)).collect();
            let (x, y) = (part(e, x, &s, &lhs)?, part(e, y, &s, &rhs)?);
            e.dot_general(x, y, d.clone())
        }),
    },
    Rule {
        name: "update-of-updated",
        class: Exact,
        why: "the second update hides the first",
        left: "(dynamic_update_slice (dynamic_update_slice ?x ?u ?i*...) ?w ?i*...)",
        right: Right::Build("(dynamic_update_slice ?x ?w ?i*), where ?u and ?w have the same extents", |e| {
            let same = e.shape(e.var("u"))? == e.shape(e.var("w"))?;
            let operands: Vec<Id> = [e.var("x"), e.var("w")].into_iter().chain(e.vars("i")).collect();
            if same { e.push(&Op::DynamicUpdateSlice, &operands) } else { None }
        }),
    },
    Rule {
        name: "slice-of-updated",
        class: Exact,
        why: "what was written is read back",
        left: "(dynamic_slice (dynamic_update_slice ?x ?u ?i*...) ?i*... ?a)",
        right: Right::Build("?u, where it has these extents", |e| {
            (e.shape(e.var("u"))? == e.shape(e.root())?).then(|| e.var("u"))
        }),
    },
    Rule {
        name: "update-of-all",
        class: Exact,
        why: "nothing of the operand is left",
        left: "(dynamic_update_slice ?x ?u ?i*...)",
        right: Right::Build("?u, where it has the extents of ?x", |e| {
            (e.shape(e.var("u"))? == e.shape(e.root())?).then(|| e.var("u"))
        }),
    },
    Rule {
        name: "dynamic-slice-at-constants",
        class: Exact,
        why: "a slice is fused with what reads it",
        left: "(dynamic_slice ?x ?i*... ?a)",
        right: Right::Build("(slice ?x), where all ?i* are constants", |e| {
            let (shape, sizes) = (e.shape(e.var("x"))?, e.shape(e.root())?);
            let mut start = Dims::new();
            for (d, i) in e.vars("i").into_iter().enumerate() {
                let index = e.integer(i)?;
                start.push(usize::try_from(index.max(0)).ok()?.min(shape[d] - sizes[d]));
            }
            let limit: Dims = start.iter().zip(&sizes).map(|(s, n)| s + n).collect();
            e.slice(e.var("x"), &start, &limit)
        }),
    },
];

/// Starts, limits and steps.
type Slice = (Dims, Dims, Dims);

/// The slice that `?name` names.
fn slice(e: &Edit<'_>, name: &str) -> Option<Slice> {
    slice_of(e, e.var(name))
}

fn slice_of(e: &Edit<'_>, attributes: Id) -> Option<Slice> {
    match &*e.attributes(attributes)? {
        Op::Slice { start, limit, stride } => Some((start.clone(), limit.clone(), stride.clone())),
        _ => None,
    }
}

/// Where `part` ends along `dim`, if it is a slice of `x` that goes on where `before` ends.
fn next_to(e: &Edit<'_>, part: Id, x: Id, before: &Slice, dim: usize) -> Option<usize> {
    let follows = |next: &Slice| {
        let same = |d: usize| (next.0[d], next.1[d], next.2[d]) == (before.0[d], before.1[d], before.2[d]);
        let on = next.0[dim] == before.1[dim] && next.2[dim] == 1 && before.2[dim] == 1;
        on && (0..next.0.len()).all(|d| d == dim || same(d))
    };
    let of_x = e.nodes(part, Head::With(Kind::Slice)).filter(|n| n.children[0] == x);
    of_x.filter_map(|n| slice_of(e, n.children[1])).find(follows).map(|next| next.1[dim])
}

/// The dimension of the concatenation that `?name` names.
fn concatenated(e: &Edit<'_>, name: &str) -> Option<usize> {
    match &*e.op(name)? {
        Op::Concatenate { dim } => Some(*dim),
        _ => None,
    }
}

/// The padding that `?name` names.
fn pad(e: &Edit<'_>, name: &str) -> Option<(SignedDims, SignedDims, Dims)> {
    match &*e.op(name)? {
        Op::Pad { low, high, interior } => Some((low.clone(), high.clone(), interior.clone())),
        _ => None,
    }
}

/// The parts that `x` is concatenated of along `dim`, or itself.
fn parts_of(e: &Edit<'_>, x: Id, dim: usize) -> Vec<Id> {
    let along =
        |attributes: Id| matches!(e.attributes(attributes).as_deref(), Some(Op::Concatenate { dim: d }) if *d == dim);
    let node = e.nodes(x, Head::With(Kind::Concatenate)).find(|n| n.children.last().is_some_and(|&a| along(a)));
    node.map_or_else(|| vec![x], |n| n.operands().to_vec())
}

fn joined(e: &mut Edit<'_>, parts: &[Id], dim: usize) -> Option<Id> {
    if let [one] = parts { Some(*one) } else { e.concatenate(parts, dim) }
}

/// The elementwise op of the left side over slices of its operands.
fn inwards(e: &mut Edit<'_>, operands: &[&str]) -> Option<Id> {
    let (op, slice) = (e.family().unwrap_or(Op::Select), e.op("s")?);
    let mut parts: smallvec::SmallVec<[Id; 3]> = operands.iter().map(|name| e.var(name)).collect();
    for id in &mut parts {
        *id = e.push(&slice, &[*id])?;
    }
    e.push(&op, &parts)
}

/// Dimensions of an operand with the places from `first` on that they have in the result.
fn places(dims: &[usize], first: usize) -> impl Iterator<Item = (usize, usize)> {
    dims.iter().enumerate().map(move |(i, &d)| (d, first + i))
}

/// `x` sliced along each of its dimensions as the slice does along the one it is in the result.
fn part(e: &mut Edit<'_>, x: Id, s: &Slice, places: &[(usize, usize)]) -> Option<Id> {
    let shape = e.shape(x)?;
    let mut cut = (Dims::new(), Dims::new(), Dims::new());
    for (d, &n) in shape.iter().enumerate() {
        let at = places.iter().find(|(dim, _)| *dim == d).map(|&(_, place)| place);
        let (start, limit, stride) = at.map_or((0, n, 1), |p| (s.0[p], s.1[p], s.2[p]));
        cut.0.push(start);
        cut.1.push(limit);
        cut.2.push(stride);
    }
    let (start, limit, stride) = cut;
    e.push(&Op::Slice { start, limit, stride }, &[x])
}

/// What a slice of the dimensions `right` of `to` takes of the dimensions `from` that were reshaped to them: all, or a run
/// of the first of them.
fn run(s: &Slice, from: &[usize], to: &[usize], right: Range<usize>) -> Option<Slice> {
    let cut: Vec<usize> = right.clone().filter(|&d| s.1[d] - s.0[d] != to[d]).collect();
    let whole: Slice = (from.iter().map(|_| 0).collect(), from.into(), from.iter().map(|_| 1).collect());
    let Some(&d) = cut.first() else { return right.clone().all(|d| s.2[d] == 1).then_some(whole) };
    let (start, limit, stride) = (s.0[d], s.1[d], s.2[d]);
    if from.len() == 1 && right.len() == 1 {
        return Some((Dims::from_slice(&[start]), Dims::from_slice(&[limit]), Dims::from_slice(&[stride])));
    }
    let leads = to[right.start..d].iter().all(|&n| n == 1);
    let (inner, below): (usize, usize) = (to[d + 1..right.end].iter().product(), from.get(1..)?.iter().product());
    let (first, last) = (start * inner, limit * inner);
    let runs = first.is_multiple_of(below) && last.is_multiple_of(below) && right.clone().all(|d| s.2[d] == 1);
    if cut.len() != 1 || !leads || !runs || start == limit {
        return None;
    }
    let mut taken = whole;
    (taken.0[0], taken.1[0]) = (first / below, last / below);
    Some(taken)
}
