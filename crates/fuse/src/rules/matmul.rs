//! Contractions: operands as they lie, products that share an operand as one.

use super::contract::Seen;
use super::shapes::{operand, others, permutation, rise, splat};
use crate::change::Class::{Exact, Reassociating};
use crate::change::Platform;
use crate::language::{Head, Kind};
use crate::rule::{Edit, Right, Rule};
use egg::Id;
use ir::op::{Binary, DotGeneral};
use ir::{DType, Dims, Number, Op, Shape};

pub(super) static RULES: &[Rule] = &[
    Rule {
        name: "dot-of-transposed-lhs",
        class: Exact,
        why: "a contraction reads its operand in any order: the transpose is a pass over memory for nothing",
        left: "(dot_general (transpose ?x ?p) ?y ?d)",
        right: Right::Build("(dot_general ?x ?y ?d[?p])", |e| {
            let (p, mut d) = (permutation(e, "p")?, dot(e)?);
            keeps_order(&p, &others(p.len(), &[&d.lhs_batch, &d.lhs_contract]))?;
            d.lhs_contract = renumbered(&d.lhs_contract, &p);
            d.lhs_batch = renumbered(&d.lhs_batch, &p);
            e.dot_general(e.var("x"), e.var("y"), d)
        }),
    },
    Rule {
        name: "dot-of-transposed-rhs",
        class: Exact,
        why: "a contraction reads its operand in any order: the transpose is a pass over memory for nothing",
        left: "(dot_general ?x (transpose ?y ?p) ?d)",
        right: Right::Build("(dot_general ?x ?y ?d[?p])", |e| {
            let (p, mut d) = (permutation(e, "p")?, dot(e)?);
            keeps_order(&p, &others(p.len(), &[&d.rhs_batch, &d.rhs_contract]))?;
            d.rhs_contract = renumbered(&d.rhs_contract, &p);
            d.rhs_batch = renumbered(&d.rhs_batch, &p);
            e.dot_general(e.var("x"), e.var("y"), d)
        }),
    },
    Rule {
        name: "transpose-of-dot",
        class: Exact,
        why: "the operands swapped give the transposed product at once",
        left: "(transpose (dot_general ?x ?y ?d) ?p)",
        right: Right::Build("(dot_general ?y ?x ?d[swapped])", |e| {
            let (p, d) = (permutation(e, "p")?, dot(e)?);
            let batch = d.lhs_batch.len();
            let of_x = e.shape(e.var("x"))?.len() - batch - d.lhs_contract.len();
            let swaps: Dims = (0..batch).chain(batch + of_x..p.len()).chain(batch..batch + of_x).collect();
            if p != swaps {
                return None;
            }
            let swapped = DotGeneral {
                lhs_batch: d.rhs_batch,
                rhs_batch: d.lhs_batch,
                lhs_contract: d.rhs_contract,
                rhs_contract: d.lhs_contract,
                ..d
            };
            e.dot_general(e.var("y"), e.var("x"), swapped)
        }),
    },
    Rule {
        name: "dots-of-one-lhs",
        class: Exact,
        why: "one product reads the shared operand once, and is larger",
        left: "(dot_general ?x ?y ?d)",
        right: Right::Build(
            "(slice (dot_general ?x (concatenate ?y ..) ?d)), for all products of ?x with the same numbers at once",
            |e| merged(e, true),
        ),
    },
    Rule {
        name: "dots-of-one-rhs",
        class: Exact,
        why: "one product reads the shared operand once, and is larger",
        left: "(dot_general ?x ?y ?d)",
        right: Right::Build(
            "(slice (dot_general (concatenate ?x ..) ?y ?d)), for all products of ?y with the same numbers at once",
            |e| merged(e, false),
        ),
    },
    Rule {
        name: "sum-of-dots",
        class: Reassociating,
        why: "one product over all that is summed",
        left: "(add (dot_general ?a ?b ?d) (dot_general ?c ?f ?d))",
        right: Right::Build("(dot_general (concatenate ?a ?c) (concatenate ?b ?f) ?d)", summed),
    },
    Rule {
        name: "longer-sum-of-dots",
        class: Reassociating,
        why: "one product over all that is summed",
        left: "(add (add ?s (dot_general ?a ?b ?d)) (dot_general ?c ?f ?d))",
        right: Right::Build("(add ?s (dot_general (concatenate ?a ?c) (concatenate ?b ?f) ?d))", |e| {
            let made = summed(e)?;
            e.binary(Binary::Add, e.var("s"), made)
        }),
    },
    Rule {
        name: "dot-of-dot-lhs",
        class: Reassociating,
        why: "the order of a chain of products decides how many multiplications it takes",
        left: "(dot_general (dot_general ?a ?b ?g) ?c ?d)",
        right: Right::Build("(dot_general ?a (dot_general ?b ?c)), where that takes fewer multiplications", |e| {
            let (inner, outer) = (dot_named(e, "g")?, dot(e)?);
            let (a, b, c) = (e.var("a"), e.var("b"), e.var("c"));
            let batch = inner.lhs_batch.len();
            let free_a = others(e.shape(a)?.len(), &[&inner.lhs_batch, &inner.lhs_contract]);
            let free_b = others(e.shape(b)?.len(), &[&inner.rhs_batch, &inner.rhs_contract]);
            let first = batch + free_a.len();
            let of_b: Option<Dims> =
                outer.lhs_contract.iter().map(|&k| free_b.get(k.checked_sub(first)?).copied()).collect();
            let of_b = of_b.filter(|_| rise(&outer.lhs_batch) && outer.lhs_batch.len() == batch)?;
            if outer.lhs_batch.iter().any(|&k| k >= batch) || !associates(e, &[a, b, c], &inner, &outer) {
                return None;
            }
            // The result of b and c has the batch, what is left of b, then of c.
            let left = others(e.shape(b)?.len(), &[&inner.rhs_batch, &of_b]);
            let place = |d: &usize| left.iter().position(|l| l == d).map(|i| batch + i);
            let contract: Option<Dims> = inner.rhs_contract.iter().map(place).collect();
            let near = DotGeneral {
                lhs_batch: inner.rhs_batch.clone(),
                lhs_contract: of_b,
                rhs_batch: outer.rhs_batch.clone(),
                rhs_contract: outer.rhs_contract.clone(),
                ..outer
            };
            let far = DotGeneral { rhs_batch: (0..batch).collect(), rhs_contract: contract?, ..inner.clone() };
            let bc = e.dot_general(b, c, near.clone())?;
            let made = e.dot_general(a, bc, far.clone())?;
            let was = inner_flops(e, a, b, &inner)? + flops_over(e, c, e.root(), &outer.rhs_contract)?;
            (flops_over(e, b, bc, &near.lhs_contract)? + flops_over(e, a, made, &far.lhs_contract)? < was)
                .then_some(made)
        }),
    },
    Rule {
        name: "dot-of-dot-rhs",
        class: Reassociating,
        why: "the order of a chain of products decides how many multiplications it takes",
        left: "(dot_general ?a (dot_general ?b ?c ?g) ?d)",
        right: Right::Build("(dot_general (dot_general ?a ?b) ?c), where that takes fewer multiplications", |e| {
            let (inner, outer) = (dot_named(e, "g")?, dot(e)?);
            let (a, b, c) = (e.var("a"), e.var("b"), e.var("c"));
            let batch = inner.lhs_batch.len();
            let free_b = others(e.shape(b)?.len(), &[&inner.lhs_batch, &inner.lhs_contract]);
            let of_b: Option<Dims> =
                outer.rhs_contract.iter().map(|&k| free_b.get(k.checked_sub(batch)?).copied()).collect();
            let of_b = of_b.filter(|_| rise(&outer.rhs_batch) && outer.rhs_batch.len() == batch)?;
            if outer.rhs_batch.iter().any(|&k| k >= batch) || !associates(e, &[a, b, c], &inner, &outer) {
                return None;
            }
            // The result of a and b has the batch, what is left of a, then of b.
            let first = e.shape(a)?.len() - outer.lhs_contract.len();
            let left = others(e.shape(b)?.len(), &[&inner.lhs_batch, &of_b]);
            let place = |d: &usize| left.iter().position(|l| l == d).map(|i| first + i);
            let contract: Option<Dims> = inner.lhs_contract.iter().map(place).collect();
            let near = DotGeneral { rhs_batch: inner.lhs_batch.clone(), rhs_contract: of_b, ..outer.clone() };
            let far = DotGeneral { lhs_batch: (0..batch).collect(), lhs_contract: contract?, ..inner.clone() };
            let ab = e.dot_general(a, b, near.clone())?;
            let made = e.dot_general(ab, c, far.clone())?;
            let was = inner_flops(e, b, c, &inner)? + flops_over(e, a, e.root(), &outer.lhs_contract)?;
            (flops_over(e, a, ab, &near.lhs_contract)? + flops_over(e, ab, made, &far.lhs_contract)? < was)
                .then_some(made)
        }),
    },
    Rule {
        name: "dot-of-columns",
        class: Reassociating,
        why: "an outer product is a multiplication",
        left: "(dot_general ?x ?y ?d)",
        right: Right::Build(
            "(multiply (broadcast_in_dim ?x) (broadcast_in_dim ?y)), where one element is contracted",
            outer,
        ),
    },
    Rule {
        name: "dot-of-scaled-lhs",
        class: Reassociating,
        why: "fewer elements to multiply",
        left: "(dot_general (multiply ?o ?s) ?other ?d)",
        right: Right::Build(
            "(multiply (dot_general ..) ?s), or ?s to the other operand, where that is smaller and ?s a splat or a broadcast",
            |e| scaled(e, true, Binary::Multiply),
        ),
    },
    Rule {
        name: "dot-of-lhs-that-scales",
        class: Reassociating,
        why: "fewer elements to multiply",
        left: "(dot_general (multiply ?s ?o) ?other ?d)",
        right: Right::Build(
            "(multiply (dot_general ..) ?s), or ?s to the other operand, where that is smaller and ?s a splat or a broadcast",
            |e| scaled(e, true, Binary::Multiply),
        ),
    },
    Rule {
        name: "dot-of-scaled-rhs",
        class: Reassociating,
        why: "fewer elements to multiply",
        left: "(dot_general ?other (multiply ?o ?s) ?d)",
        right: Right::Build(
            "(multiply (dot_general ..) ?s), or ?s to the other operand, where that is smaller and ?s a splat or a broadcast",
            |e| scaled(e, false, Binary::Multiply),
        ),
    },
    Rule {
        name: "dot-of-rhs-that-scales",
        class: Reassociating,
        why: "fewer elements to multiply",
        left: "(dot_general ?other (multiply ?s ?o) ?d)",
        right: Right::Build(
            "(multiply (dot_general ..) ?s), or ?s to the other operand, where that is smaller and ?s a splat or a broadcast",
            |e| scaled(e, false, Binary::Multiply),
        ),
    },
    Rule {
        name: "dot-of-divided-lhs",
        class: Reassociating,
        why: "fewer elements to divide",
        left: "(dot_general (divide ?o ?s) ?other ?d)",
        right: Right::Build(
            "(divide (dot_general ..) ?s), where that is smaller and ?s a splat or, but on a TPU, a broadcast",
            |e| scaled(e, true, Binary::Divide),
        ),
    },
    Rule {
        name: "dot-of-divided-rhs",
        class: Reassociating,
        why: "fewer elements to divide",
        left: "(dot_general ?other (divide ?o ?s) ?d)",
        right: Right::Build(
            "(divide (dot_general ..) ?s), where that is smaller and ?s a splat or, but on a TPU, a broadcast",
            |e| scaled(e, false, Binary::Divide),
        ),
    },
    Rule {
        name: "scaled-dot",
        class: Reassociating,
        why: "fewer elements to multiply",
        left: "(multiply (dot_general ?x ?y ?d) ?s)",
        right: Right::Build(
            "(dot_general (multiply ?x ?s) ?y ?d), or with ?y scaled, where that is smaller and ?s a splat",
            scaled_result,
        ),
    },
    Rule {
        name: "dot-that-is-scaled",
        class: Reassociating,
        why: "fewer elements to multiply",
        left: "(multiply ?s (dot_general ?x ?y ?d))",
        right: Right::Build(
            "(dot_general (multiply ?x ?s) ?y ?d), or with ?y scaled, where that is smaller and ?s a splat",
            scaled_result,
        ),
    },
];

/// The contraction that `?d` names.
fn dot(e: &Edit<'_>) -> Option<DotGeneral> {
    dot_named(e, "d")
}

fn dot_named(e: &Edit<'_>, name: &str) -> Option<DotGeneral> {
    match &*e.op(name)? {
        Op::DotGeneral(d) => Some(d.clone()),
        _ => None,
    }
}

/// The same dimensions before the transpose.
fn renumbered(dims: &[usize], permutation: &[usize]) -> Dims {
    dims.iter().map(|&d| permutation[d]).collect()
}

/// Whether free dimensions stand in the same order before the transpose: the result has them in that order.
fn keeps_order(permutation: &[usize], free: &[usize]) -> Option<()> {
    free.windows(2).all(|w| permutation[w[0]] < permutation[w[1]]).then_some(())
}

/// All products of the shared operand that have the numbers `?d`, as slices of one; the first of them does it for all.
fn merged(e: &mut Edit<'_>, lhs: bool) -> Option<Id> {
    let (seen, d) = (Seen::new(e, !lhs)?, e.op("d")?);
    let (shared, own) = if lhs { (e.var("x"), e.var("y")) } else { (e.var("y"), e.var("x")) };
    let shape = e.shape(own)?;
    let free = seen.own_free(shape.len());
    let dim = *free.first()?;
    let beside = |s: &[usize]| s.len() == shape.len() && (0..s.len()).all(|i| i == dim || s[i] == shape[i]);
    let mut parts: Vec<(Id, Id)> = vec![];
    for user in e.users(shared, Head::With(Kind::DotGeneral)) {
        let mut dots = e.nodes(user, Head::With(Kind::DotGeneral));
        let part = dots.find_map(|n| {
            let (with, part) = if lhs { (n.children[0], n.children[1]) } else { (n.children[1], n.children[0]) };
            (with == shared && e.attributes(n.children[2]).as_deref() == Some(&*d)).then_some(part)
        });
        let fits = |part: &Id| e.shape(*part).is_some_and(|s| beside(&s)) && !is_joined(e, *part, dim);
        parts.extend(part.filter(fits).filter(|p| parts.iter().all(|(_, known)| known != p)).map(|p| (user, p)));
    }
    if parts.len() < 2 || parts[0].0 != e.root() {
        return None;
    }
    let all: Vec<Id> = parts.iter().map(|(_, part)| *part).collect();
    let joined = e.concatenate(&all, dim)?;
    let made = seen.push(e, joined, shared)?;
    // The first free dimension of the operand, among those of the result.
    let rank = e.shape(shared)?.len();
    let at = seen.own_batch.len() + if lhs { seen.other_free(rank).len() } else { 0 };
    let whole = e.shape(made)?;
    let (mut start, mut limit): (Dims, Dims) = (whole.iter().map(|_| 0).collect(), whole.iter().copied().collect());
    let mut slices = vec![];
    for (user, part) in parts {
        limit[at] = start[at] + e.shape(part)?[dim];
        slices.push((user, e.slice(made, &start, &limit)?));
        start[at] = limit[at];
    }
    slices[1..].iter().for_each(|&(user, slice)| e.also(user, slice));
    Some(slices[0].1)
}

/// Whether `x` is made by joining others along `dim`: merging it again would never end.
fn is_joined(e: &Edit<'_>, x: Id, dim: usize) -> bool {
    operand(e, x, Kind::Concatenate, |op| matches!(op, Op::Concatenate { dim: d } if *d == dim)).is_some()
}

/// `?a ?b + ?c ?f` as one product.
fn summed(e: &mut Edit<'_>) -> Option<Id> {
    let d = dot(e)?;
    let (&l, &r) = (d.lhs_contract.first()?, d.rhs_contract.first()?);
    let like = |x: &str, y: &str, dim: usize| -> Option<bool> {
        let (x, y) = (e.shape(e.var(x))?, e.shape(e.var(y))?);
        Some(x.len() == y.len() && (0..x.len()).all(|i| i == dim || x[i] == y[i]))
    };
    if !like("a", "c", l)? || !like("b", "f", r)? || !is_wide(&d, e.dtype(e.var("a"))?) {
        return None;
    }
    let lhs = e.concatenate(&[e.var("a"), e.var("c")], l)?;
    let rhs = e.concatenate(&[e.var("b"), e.var("f")], r)?;
    e.dot_general(lhs, rhs, d)
}

/// Whether sums may be taken in another order without new infinities.
fn is_wide(d: &DotGeneral, of: DType) -> bool {
    of == d.out && matches!(of, DType::F32 | DType::F64 | DType::BF16)
}

fn associates(e: &Edit<'_>, ids: &[Id], inner: &DotGeneral, outer: &DotGeneral) -> bool {
    let wide = |&id: &Id| e.dtype(id).is_some_and(|t| is_wide(inner, t) && is_wide(outer, t)) && !e.is_infinite(id);
    inner.precision == outer.precision && ids.iter().all(wide)
}

/// Multiplications of a product that contracts these dimensions of `operand`.
fn flops_over(e: &Edit<'_>, operand: Id, result: Id, contract: &[usize]) -> Option<usize> {
    let shape = e.shape(operand)?;
    Some(contract.iter().map(|&k| shape[k]).product::<usize>().saturating_mul(e.ty(result)?.numel()))
}

/// Multiplications of `lhs` with `rhs`.
fn inner_flops(e: &Edit<'_>, lhs: Id, rhs: Id, d: &DotGeneral) -> Option<usize> {
    let (lhs, rhs) = (e.ty(lhs)?, e.shape(rhs)?);
    Some(others(rhs.len(), &[&d.rhs_batch, &d.rhs_contract]).iter().map(|&k| rhs[k]).product::<usize>() * lhs.numel())
}

/// The product as a multiplication of what is broadcast, if only one element is contracted.
fn outer(e: &mut Edit<'_>) -> Option<Id> {
    let (d, x, y) = (dot(e)?, e.var("x"), e.var("y"));
    let (from, beside, to) = (e.shape(x)?, e.shape(y)?, e.ty(e.root())?);
    let one = d.lhs_contract.iter().all(|&k| from[k] == 1);
    if !one || to.dtype != e.dtype(x)? || !(to.dtype.is_float() || to.dtype.is_int()) {
        return None;
    }
    let batch = d.lhs_batch.len();
    let of_x = others(from.len(), &[&d.lhs_batch, &d.lhs_contract]);
    let of_y = others(beside.len(), &[&d.rhs_batch, &d.rhs_contract]);
    let x = spread(e, x, &d.lhs_batch, &of_x, batch, &to.shape)?;
    let y = spread(e, y, &d.rhs_batch, &of_y, batch + of_x.len(), &to.shape)?;
    e.binary(Binary::Multiply, x, y)
}

/// `x` without contracted dimensions, broadcast to the result, in which its free dimensions start at `first`.
fn spread(e: &mut Edit<'_>, x: Id, batch: &[usize], free: &[usize], first: usize, to: &[usize]) -> Option<Id> {
    let shape = e.shape(x)?;
    let order: Dims = batch.iter().chain(free).copied().collect();
    let kept = {
        let mut kept = order.clone();
        kept.sort_unstable();
        kept
    };
    let extents: Dims = kept.iter().map(|&d| shape[d]).collect();
    let p: Option<Dims> = order.iter().map(|d| kept.iter().position(|k| k == d)).collect();
    let bare = e.reshape(x, &extents)?;
    let turned = e.transpose(bare, &p?)?;
    let dims: Dims = (0..batch.len()).chain(first..first + free.len()).collect();
    e.broadcast_in_dim(turned, to, &dims)
}

/// A product of `?o` and the factor `?s`: the factor where it meets fewer elements.
fn scaled(e: &mut Edit<'_>, lhs: bool, op: Binary) -> Option<Id> {
    let (seen, o, s, other) = (Seen::new(e, lhs)?, e.var("o"), e.var("s"), e.var("other"));
    let zero = op == Binary::Divide && [0.0, -0.0].iter().any(|&n| e.is(s, Number::Float(n)));
    if zero || !seen.reorders(e, o) || [o, s, other].iter().any(|&id| e.is_infinite(id)) {
        return None;
    }
    let (own, beside, result) = (e.ty(o)?, e.ty(other)?, e.ty(e.root())?);
    let (small, along) = factor(e, s)?;
    // Softmax in front of its product: libtpu has kernels for both, which it finds by this form alone.
    if op == Binary::Divide && !along.is_empty() && e.platform() == Platform::Tpu {
        return None;
    }
    let free = seen.own_free(own.rank());
    let first = seen.own_batch.len() + if lhs { 0 } else { seen.other_free(beside.rank()).len() };
    let behind = |d: &usize| {
        let batch = seen.own_batch.iter().position(|k| k == d);
        batch.or_else(|| free.iter().position(|k| k == d).map(|i| first + i))
    };
    let across = |d: &usize| seen.own_contract.iter().position(|k| k == d).map(|k| seen.other_contract[k]);
    let to_result: Option<Dims> = along.iter().map(behind).collect();
    let to_other: Option<Dims> = along.iter().map(across).collect();
    let moved = to_other.filter(|dims| rise(dims) && op == Binary::Multiply && beside.numel() < own.numel());
    let applied = to_result.filter(|dims| rise(dims) && result.numel() < own.numel());
    match (moved, applied) {
        (Some(dims), applied) if applied.is_none() || beside.numel() < result.numel() => {
            let factor = e.broadcast_in_dim(small, &beside.shape, &dims)?;
            let other = e.binary(op, other, factor)?;
            seen.push(e, o, other)
        }
        (_, Some(dims)) => {
            let product = seen.push(e, o, other)?;
            let factor = e.broadcast_in_dim(small, &result.shape, &dims)?;
            e.binary(op, product, factor)
        }
        _ => None,
    }
}

/// A factor as what is broadcast, and along which dimensions: one element along none.
fn factor(e: &mut Edit<'_>, s: Id) -> Option<(Id, Dims)> {
    if let Some(element) = e.splat(s) {
        return Some((e.filled(&element, &Shape::new())?, Dims::new()));
    }
    let (full, (small, op)) = (e.shape(s)?, operand(e, s, Kind::BroadcastInDim, |_| true)?);
    let Op::BroadcastInDim { dims, .. } = op else { return None };
    let extents = e.shape(small)?;
    let kept: Vec<usize> = (0..dims.len()).filter(|&i| extents[i] == full[dims[i]]).collect();
    let shape: Shape = kept.iter().map(|&i| extents[i]).collect();
    Some((e.reshape(small, &shape)?, kept.iter().map(|&i| dims[i]).collect()))
}

/// A scaled product with the scale on the smaller operand, if that is smaller than the result.
fn scaled_result(e: &mut Edit<'_>) -> Option<Id> {
    let (seen, x, y, s) = (Seen::new(e, true)?, e.var("x"), e.var("y"), e.var("s"));
    let element = e.splat(s).filter(|_| !e.is_infinite(s) && seen.reorders(e, x))?;
    let (of_x, of_y, result) = (e.ty(x)?, e.ty(y)?, e.ty(e.root())?);
    let (small, first) = if of_x.numel() <= of_y.numel() { (of_x, true) } else { (of_y, false) };
    if small.numel() >= result.numel() || e.is_infinite(x) || e.is_infinite(y) {
        return None;
    }
    let scale = splat(e, &element, &small.shape)?;
    let made = e.binary(Binary::Multiply, if first { x } else { y }, scale)?;
    if first { seen.push(e, made, y) } else { seen.push(e, x, made) }
}
