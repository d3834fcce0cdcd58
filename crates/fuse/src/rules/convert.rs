//! Conversions: left out, made of fewer bytes, and integers no wider than their bounds ask for.

use crate::Platform;
use crate::analysis::range_of;
use crate::change::Class::{Exact, PrecisionChanging};
use crate::language::{Head, Kind};
use crate::rule::{Edit, Right, Rule};
use egg::Id;
use ir::op::{Binary, Comparison, Unary};
use ir::{Category, DType, Number, Op};

pub(super) static RULES: &[Rule] = &[
    Rule {
        name: "convert-of-convert",
        class: Exact,
        why: "one conversion instead of two: the first one lost nothing",
        left: "(convert (convert ?x ?inner) ?outer)",
        right: Right::Build("(convert ?x ?outer), where the type between holds every value of the first", |e| {
            let (x, to) = (e.var("x"), e.dtype(e.root())?);
            let between = converted(e, "inner")?;
            keeps(e, x, between, to).then(|| e.convert(x, to))?
        }),
    },
    Rule {
        name: "narrow-there-and-back",
        class: PrecisionChanging,
        why: "no rounding to a narrower type and back",
        left: "(convert (convert ?x ?inner) ?outer)",
        right: Right::Build("?x, where ?outer is its type and the type between a float of 16 bits", |e| {
            let (from, between) = (e.dtype(e.var("x"))?, converted(e, "inner")?);
            let floats = from.is_float() && matches!(between, DType::BF16 | DType::F16) && !holds(between, from);
            (floats && e.dtype(e.root())? == from).then(|| e.var("x"))
        }),
    },
    Rule {
        name: "convert-of-constant",
        class: Exact,
        why: "computed now",
        left: "(convert ?x ?t)",
        right: Right::Build("a constant, where ?x is one", |e| {
            let c = e.splat(e.root())?;
            e.fill(&c)
        }),
    },
    Rule {
        name: "convert-of-iota",
        class: Exact,
        why: "counting in the type that is wanted",
        left: "(convert (iota ?i) ?t)",
        right: Right::Build("(iota ?t)", |e| {
            let (Op::Iota { dtype, shape, dim }, to) = (&*e.op("i")?, e.dtype(e.root())?) else { return None };
            let last = shape[*dim].saturating_sub(1) as i128;
            let counts = |d: DType| range_of(d).is_some_and(|r| last <= r.1);
            // Integers alone count without rounding, and both types alike.
            let alike = counts(*dtype) && to != DType::Bool && (to.is_float() || counts(to));
            alike.then(|| e.push(&Op::Iota { dtype: to, shape: shape.clone(), dim: *dim }, &[]))?
        }),
    },
    Rule {
        name: "convert-of-broadcast",
        class: Exact,
        why: "fewer elements are converted",
        left: "(convert (broadcast_in_dim ?x ?b) ?t)",
        right: Right::Build("(broadcast_in_dim (convert ?x ?t) ?b)", |e| {
            let small = e.convert(e.var("x"), e.dtype(e.root())?)?;
            e.broadcast_again(small, "b")
        }),
    },
    Rule {
        name: "convert-of-reshape",
        class: Exact,
        why: "conversions meet where no reshape stands between them",
        left: "(convert (reshape ?x ?s) ?t)",
        right: Right::Build("(reshape (convert ?x ?t) ?s)", |e| {
            let (inner, shape) = (e.convert(e.var("x"), e.dtype(e.root())?)?, e.shape(e.root())?);
            e.reshape(inner, &shape)
        }),
    },
    Rule {
        name: "narrow-before-transpose",
        class: Exact,
        why: "fewer bytes are moved",
        left: "(convert (transpose ?x ?p) ?t)",
        right: Right::Build("(transpose (convert ?x ?t) ?p), where ?t is narrower", |e| {
            let (x, to) = (e.var("x"), e.dtype(e.root())?);
            let Op::Transpose { permutation } = &*e.op("p")? else { return None };
            let inner = (to.size() < e.dtype(x)?.size()).then(|| e.convert(x, to))??;
            e.transpose(inner, permutation)
        }),
    },
    Rule {
        name: "transpose-before-widening",
        class: Exact,
        why: "fewer bytes are moved",
        left: "(transpose (convert ?x ?t) ?p)",
        right: Right::Build("(convert (transpose ?x ?p) ?t), where ?t is wider", |e| {
            let (x, to) = (e.var("x"), e.dtype(e.root())?);
            let Op::Transpose { permutation } = &*e.op("p")? else { return None };
            let inner = (to.size() > e.dtype(x)?.size()).then(|| e.transpose(x, permutation))??;
            e.convert(inner, to)
        }),
    },
    Rule {
        name: "slice-before-convert",
        class: Exact,
        why: "fewer elements are converted",
        left: "(slice (convert ?x ?t) ?s)",
        right: Right::Build("(convert (slice ?x ?s) ?t)", |e| before_convert(e, "s", &[])),
    },
    Rule {
        name: "gather-before-convert",
        class: Exact,
        why: "the rows that are read are converted, not the table",
        left: "(gather (convert ?x ?t) ?i ?g)",
        right: Right::Build("(convert (gather ?x ?i ?g) ?t)", |e| {
            let i = e.var("i");
            before_convert(e, "g", &[i])
        }),
    },
    Rule {
        name: "convert-of-choice-of-constants",
        class: Exact,
        why: "the constants are converted now",
        left: "(convert (select ?p ?x ?y) ?t)",
        right: Right::Build("(select ?p (convert ?x ?t) (convert ?y ?t)), where one of both is a constant", |e| {
            let (p, x, y, to) = (e.var("p"), e.var("x"), e.var("y"), e.dtype(e.root())?);
            let worth = e.splat(x).is_some() || e.splat(y).is_some();
            let (x, y) = worth.then(|| Some((e.convert(x, to)?, e.convert(y, to)?)))??;
            e.push(&Op::Select, &[p, x, y])
        }),
    },
    Rule {
        name: "convert-of-true-false",
        class: Exact,
        why: "a predicate as a number, not a choice among two",
        left: "(select ?p ?one ?zero)",
        right: Right::Build("(convert ?p), where ?one is 1 and ?zero is +0", |e| {
            let numbers = e.is(e.var("one"), Number::Float(1.0)) && e.is(e.var("zero"), Number::Float(0.0));
            let to = e.dtype(e.root()).filter(|&d| numbers && d != DType::Bool)?;
            e.convert(e.var("p"), to)
        }),
    },
    Rule {
        name: "eq-of-converted-predicate",
        class: Exact,
        why: "the predicate was there before it became a number",
        left: "(compare_eq (convert ?p ?t) ?c)",
        right: Right::Build("?p or (not ?p), where ?p is a predicate and ?c is 0 or 1", |e| {
            of_predicate(e, Comparison::Eq)
        }),
    },
    Rule {
        name: "ne-of-converted-predicate",
        class: Exact,
        why: "the predicate was there before it became a number",
        left: "(compare_ne (convert ?p ?t) ?c)",
        right: Right::Build("?p or (not ?p), where ?p is a predicate and ?c is 0 or 1", |e| {
            of_predicate(e, Comparison::Ne)
        }),
    },
    Rule {
        name: "eq-of-widened",
        class: Exact,
        why: "the narrower type orders its values alike",
        left: "(compare_eq (convert ?x ?t) ?y)",
        right: Right::Build(
            "(compare_eq ?x ?y), where ?y is a constant or converted likewise and the wider type holds every value",
            |e| of_widened(e, Comparison::Eq),
        ),
    },
    Rule {
        name: "ne-of-widened",
        class: Exact,
        why: "the narrower type orders its values alike",
        left: "(compare_ne (convert ?x ?t) ?y)",
        right: Right::Build(
            "(compare_ne ?x ?y), where ?y is a constant or converted likewise and the wider type holds every value",
            |e| of_widened(e, Comparison::Ne),
        ),
    },
    Rule {
        name: "lt-of-widened",
        class: Exact,
        why: "the narrower type orders its values alike",
        left: "(compare_lt (convert ?x ?t) ?y)",
        right: Right::Build(
            "(compare_lt ?x ?y), where ?y is a constant or converted likewise and the wider type holds every value",
            |e| of_widened(e, Comparison::Lt),
        ),
    },
    Rule {
        name: "le-of-widened",
        class: Exact,
        why: "the narrower type orders its values alike",
        left: "(compare_le (convert ?x ?t) ?y)",
        right: Right::Build(
            "(compare_le ?x ?y), where ?y is a constant or converted likewise and the wider type holds every value",
            |e| of_widened(e, Comparison::Le),
        ),
    },
    Rule {
        name: "gt-of-widened",
        class: Exact,
        why: "the narrower type orders its values alike",
        left: "(compare_gt (convert ?x ?t) ?y)",
        right: Right::Build(
            "(compare_gt ?x ?y), where ?y is a constant or converted likewise and the wider type holds every value",
            |e| of_widened(e, Comparison::Gt),
        ),
    },
    Rule {
        name: "ge-of-widened",
        class: Exact,
        why: "the narrower type orders its values alike",
        left: "(compare_ge (convert ?x ?t) ?y)",
        right: Right::Build(
            "(compare_ge ?x ?y), where ?y is a constant or converted likewise and the wider type holds every value",
            |e| of_widened(e, Comparison::Ge),
        ),
    },
    Rule {
        name: "eq-in-32-bits",
        class: Exact,
        why: "bounds are known, and 32 bits are twice as fast; a TPU has no 64",
        left: "(compare_eq ?x ?y)",
        right: Right::Build("(compare_eq (convert ?x i32) (convert ?y i32)), where i32 holds both", |e| {
            in_32_bits(e, Comparison::Eq)
        }),
    },
    Rule {
        name: "ne-in-32-bits",
        class: Exact,
        why: "bounds are known, and 32 bits are twice as fast; a TPU has no 64",
        left: "(compare_ne ?x ?y)",
        right: Right::Build("(compare_ne (convert ?x i32) (convert ?y i32)), where i32 holds both", |e| {
            in_32_bits(e, Comparison::Ne)
        }),
    },
    Rule {
        name: "lt-in-32-bits",
        class: Exact,
        why: "bounds are known, and 32 bits are twice as fast; a TPU has no 64",
        left: "(compare_lt ?x ?y)",
        right: Right::Build("(compare_lt (convert ?x i32) (convert ?y i32)), where i32 holds both", |e| {
            in_32_bits(e, Comparison::Lt)
        }),
    },
    Rule {
        name: "le-in-32-bits",
        class: Exact,
        why: "bounds are known, and 32 bits are twice as fast; a TPU has no 64",
        left: "(compare_le ?x ?y)",
        right: Right::Build("(compare_le (convert ?x i32) (convert ?y i32)), where i32 holds both", |e| {
            in_32_bits(e, Comparison::Le)
        }),
    },
    Rule {
        name: "gt-in-32-bits",
        class: Exact,
        why: "bounds are known, and 32 bits are twice as fast; a TPU has no 64",
        left: "(compare_gt ?x ?y)",
        right: Right::Build("(compare_gt (convert ?x i32) (convert ?y i32)), where i32 holds both", |e| {
            in_32_bits(e, Comparison::Gt)
        }),
    },
    Rule {
        name: "ge-in-32-bits",
        class: Exact,
        why: "bounds are known, and 32 bits are twice as fast; a TPU has no 64",
        left: "(compare_ge ?x ?y)",
        right: Right::Build("(compare_ge (convert ?x i32) (convert ?y i32)), where i32 holds both", |e| {
            in_32_bits(e, Comparison::Ge)
        }),
    },
    Rule {
        name: "narrow-sum",
        class: Exact,
        why: "integers wrap alike before and after, and index arithmetic needs no 64 bits",
        left: "(convert (add ?x ?y) ?t)",
        right: Right::Build(
            "(add (convert ?x ?t) (convert ?y ?t)), where ?t is a narrower integer that holds both",
            |e| narrow(e, Binary::Add),
        ),
    },
    Rule {
        name: "narrow-difference",
        class: Exact,
        why: "integers wrap alike before and after, and index arithmetic needs no 64 bits",
        left: "(convert (subtract ?x ?y) ?t)",
        right: Right::Build(
            "(subtract (convert ?x ?t) (convert ?y ?t)), where ?t is a narrower integer that holds both",
            |e| narrow(e, Binary::Subtract),
        ),
    },
    Rule {
        name: "narrow-product",
        class: Exact,
        why: "integers wrap alike before and after, and index arithmetic needs no 64 bits",
        left: "(convert (multiply ?x ?y) ?t)",
        right: Right::Build(
            "(multiply (convert ?x ?t) (convert ?y ?t)), where ?t is a narrower integer that holds both",
            |e| narrow(e, Binary::Multiply),
        ),
    },
    Rule {
        name: "gather-with-narrow-indices",
        class: Exact,
        why: "bounds are known: fewer bytes of indices, and a TPU has no 64 bits",
        left: "(gather ?x ?i ?g)",
        right: Right::Build(
            "(gather ?x (convert ?i i32) ?g), where i32 holds the indices, and on a CPU held them before",
            |e| {
                let (x, i) = (e.var("x"), e.var("i"));
                let i = (e.platform() == Platform::Tpu || was_narrow(e, i)).then(|| narrowed(e, i))??;
                let gather = e.op("g")?;
                e.push(&gather, &[x, i])
            },
        ),
    },
];

/// The type that the conversion `?name` names gives.
fn converted(e: &Edit<'_>, name: &str) -> Option<DType> {
    match &*e.op(name)? {
        Op::Convert { dtype } => Some(*dtype),
        _ => None,
    }
}

/// Whether `wide` holds every value of `narrow`.
pub(super) fn holds(wide: DType, narrow: DType) -> bool {
    if wide == narrow {
        return true;
    }
    let digits = |d: DType| match d {
        DType::F64 => 53,
        DType::F32 => 24,
        DType::F16 => 11,
        DType::BF16 => 8,
        _ => 0,
    };
    match (range_of(wide), range_of(narrow)) {
        (Some(w), Some(n)) => w.0 <= n.0 && n.1 <= w.1,
        (None, Some(n)) => wide.is_float() && n.1 < 1 << digits(wide) && n.1 < 1 << 15,
        (None, None) => {
            let floats = wide.is_float() && narrow.is_float();
            floats && matches!(wide, DType::F32 | DType::F64) && digits(narrow) > 0 && wide.size() > narrow.size()
        }
        (Some(_), None) => false,
    }
}

/// Whether `x` converted to `between` and then to `to` is `x` converted to `to`.
fn keeps(e: &Edit<'_>, x: Id, between: DType, to: DType) -> bool {
    let Some(from) = e.dtype(x) else { return false };
    let ints = [from, between, to].iter().all(|d| d.is_int());
    if ints && to.size() <= between.size() {
        return true; // cut twice or at once
    }
    let of_integer = matches!(from.category(), Category::Bool | Category::Int);
    // A float is clamped to an integer type, an integer is cut.
    let clamps = of_integer && between.is_float() && to.is_int() && !holds(to, from);
    !to.is_complex() && holds(between, from) && !clamps
}

/// The op that `?name` names over what was converted, and the conversion after it.
fn before_convert(e: &mut Edit<'_>, name: &str, others: &[Id]) -> Option<Id> {
    let (x, op) = (e.var("x"), e.op(name)?);
    let fewer = e.numel(e.root())? < e.numel(x)?;
    let operands: Vec<Id> = std::iter::once(x).chain(others.iter().copied()).collect();
    let inner = fewer.then(|| e.push(&op, &operands))??;
    e.convert(inner, e.dtype(e.root())?)
}

fn of_predicate(e: &mut Edit<'_>, c: Comparison) -> Option<Id> {
    let p = e.var("p");
    let number = e.number(e.var("c")).filter(|_| e.dtype(p) == Some(DType::Bool))?;
    let truth = match number {
        0.0 => false,
        1.0 => true,
        _ => return None,
    };
    if (c == Comparison::Eq) == truth { Some(p) } else { e.unary(Unary::Not, p) }
}

fn of_widened(e: &mut Edit<'_>, c: Comparison) -> Option<Id> {
    let (x, y) = (e.var("x"), e.var("y"));
    let (narrow, wide) = (e.dtype(x)?, e.dtype(y)?);
    let worth = holds(wide, narrow) && narrow != wide && narrow != DType::Bool;
    let other = worth.then(|| unconverted(e, y, narrow))??;
    e.compare(c, x, other)
}

/// What was converted to `y`, or the constant `y` itself, in the type `narrow`.
fn unconverted(e: &mut Edit<'_>, y: Id, narrow: DType) -> Option<Id> {
    if let Some(wide) = e.splat(y) {
        let back = e.element(&Op::Convert { dtype: narrow }, &[y])?;
        let again = crate::analysis::computed(&Op::Convert { dtype: wide.ty.dtype }, &[&back])?;
        return (again == wide).then(|| e.fill(&back))?;
    }
    e.nodes(y, Head::With(Kind::Convert)).map(|n| n.children[0]).find(|&x| e.dtype(x) == Some(narrow))
}

/// `id` as `i32`, if it is wider and that holds its values.
fn narrowed(e: &mut Edit<'_>, id: Id) -> Option<Id> {
    let worth = e.dtype(id)?.size() == 8 && e.fits(id, DType::I32);
    worth.then(|| e.convert(id, DType::I32))?
}

/// Whether `id` was converted from 32 bits or fewer. On a CPU nothing else is gained: of places that are computed from counters, its
/// compiler sees in 64 bits that they are neighbours, in 32 that they may wrap. Sums of overlapping windows took 0.5 ms so, not 0.1.
fn was_narrow(e: &Edit<'_>, id: Id) -> bool {
    e.nodes(id, Head::With(Kind::Convert)).any(|n| e.dtype(n.children[0]).is_some_and(|d| d.size() <= 4))
}

fn in_32_bits(e: &mut Edit<'_>, c: Comparison) -> Option<Id> {
    let (x, y) = (narrowed(e, e.var("x"))?, narrowed(e, e.var("y"))?);
    e.compare(c, x, y)
}

fn narrow(e: &mut Edit<'_>, op: Binary) -> Option<Id> {
    let (x, y, to) = (e.var("x"), e.var("y"), e.dtype(e.root())?);
    let narrower = to.is_int() && to.size() < e.dtype(x)?.size();
    let (x, y) =
        (narrower && e.fits(x, to) && e.fits(y, to)).then(|| Some((e.convert(x, to)?, e.convert(y, to)?)))??;
    e.binary(op, x, y)
}
