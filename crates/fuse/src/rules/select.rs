//! Choices, predicates and masks. A product with a mask of 0 and 1 stays: of NaN and infinity it is no choice.

use crate::analysis::{Range, decides, range_of};
use crate::change::Class::{Exact, Reassociating};
use crate::rule::{Edit, Right, Rule};
use egg::Id;
use ir::op::{Binary, Comparison, Unary};
use ir::{DType, Number, Op};

pub(super) static RULES: &[Rule] = &[
    Rule {
        name: "select-same",
        class: Exact,
        why: "both branches are the same",
        left: "(select ?p ?x ?x)",
        right: Right::Pattern("?x"),
    },
    Rule {
        name: "select-not",
        class: Exact,
        why: "the branches swapped need no negation",
        left: "(select (not ?p) ?x ?y)",
        right: Right::Pattern("(select ?p ?y ?x)"),
    },
    Rule {
        name: "select-decided",
        class: Exact,
        why: "the predicate is known",
        left: "(select ?p ?x ?y)",
        right: Right::Build("?x or ?y, where ?p is a constant", |e| {
            let truth = e.integer(e.var("p"))?;
            Some(e.var(if truth != 0 { "x" } else { "y" }))
        }),
    },
    Rule {
        name: "select-true-false",
        class: Exact,
        why: "that is the predicate",
        left: "(select ?p ?t ?f)",
        right: Right::Build("?p, where ?t is true and ?f is false", |e| {
            of_predicate(e, true, false).then(|| e.var("p"))
        }),
    },
    Rule {
        name: "select-false-true",
        class: Exact,
        why: "that is the negated predicate",
        left: "(select ?p ?t ?f)",
        right: Right::Build("(not ?p), where ?t is false and ?f is true", |e| {
            of_predicate(e, false, true).then(|| e.unary(Unary::Not, e.var("p")))?
        }),
    },
    Rule {
        name: "select-of-select-on-true",
        class: Exact,
        why: "the inner choice is made already",
        left: "(select ?p (select ?p ?x ?y) ?z)",
        right: Right::Pattern("(select ?p ?x ?z)"),
    },
    Rule {
        name: "select-of-select-on-false",
        class: Exact,
        why: "the inner choice is made already",
        left: "(select ?p ?x (select ?p ?y ?z))",
        right: Right::Pattern("(select ?p ?x ?z)"),
    },
    Rule {
        name: "masks-joined-by-or",
        class: Exact,
        why: "predicates are small, values are not: a padding mask over a causal one",
        left: "(select ?p ?x (select ?q ?x ?y))",
        right: Right::Build("(select (or ?p ?q) ?x ?y), where that is neither ?x nor ?y", |e| {
            joined(e, |e, p, q| e.binary(Binary::Or, p, q))
        }),
    },
    Rule {
        name: "masks-joined-by-and",
        class: Exact,
        why: "predicates are small, values are not",
        left: "(select ?p (select ?q ?x ?y) ?y)",
        right: Right::Build("(select (and ?p ?q) ?x ?y), where that is neither ?x nor ?y", |e| {
            joined(e, |e, p, q| e.binary(Binary::And, p, q))
        }),
    },
    Rule {
        name: "masks-joined-by-and-not",
        class: Exact,
        why: "predicates are small, values are not: `masked_fill` of what another mask kept",
        left: "(select ?p ?x (select ?q ?y ?x))",
        right: Right::Build("(select (or ?p (not ?q)) ?x ?y), where that is neither ?x nor ?y", |e| {
            joined(e, |e, p, q| {
                let other = e.unary(Unary::Not, q)?;
                e.binary(Binary::Or, p, other)
            })
        }),
    },
    Rule {
        name: "additive-mask",
        class: Reassociating,
        why: "a choice instead of a sum, and no mask of floats: x + -inf is -inf",
        left: "(add ?x (select ?p ?y ?z))",
        right: Right::Build("(select ?p ?x -inf), or the other way round, where ?y is 0 and ?z is -inf", |e| {
            let chosen = mask(e)?;
            e.push(&Op::Select, &[e.var("p"), chosen.0, chosen.1])
        }),
    },
    Rule {
        name: "broadcast-additive-mask",
        class: Reassociating,
        why: "a choice instead of a sum, and the mask that is broadcast is one of bits",
        left: "(add ?x (broadcast_in_dim (select ?p ?y ?z) ?b))",
        right: Right::Build(
            "(select (broadcast_in_dim ?p ?b) ?x -inf), or the other way round, where ?y is 0 and ?z is -inf",
            |e| {
                let (kept, masked) = mask(e)?;
                let wide = e.broadcast_again(e.var("p"), "b")?;
                e.push(&Op::Select, &[wide, kept, masked])
            },
        ),
    },
    Rule {
        name: "and-of-same",
        class: Exact,
        why: "bits with themselves",
        left: "(and ?p ?p)",
        right: Right::Pattern("?p"),
    },
    Rule {
        name: "and-with-negation",
        class: Exact,
        why: "nothing holds together with its negation",
        left: "(and ?p (not ?p))",
        right: Right::Build("false, of bool", |e| opposites(e, false)),
    },
    Rule {
        name: "and-of-negation",
        class: Exact,
        why: "nothing holds together with its negation",
        left: "(and (not ?p) ?p)",
        right: Right::Build("false, of bool", |e| opposites(e, false)),
    },
    Rule {
        name: "and-absorbs",
        class: Exact,
        why: "what the inner op adds or takes does not matter",
        left: "(and ?p (or ?p ?q))",
        right: Right::Pattern("?p"),
    },
    Rule {
        name: "and-of-nots",
        class: Exact,
        why: "one negation instead of two",
        left: "(and (not ?p) (not ?q))",
        right: Right::Pattern("(not (or ?p ?q))"),
    },
    Rule {
        name: "or-of-same",
        class: Exact,
        why: "bits with themselves",
        left: "(or ?p ?p)",
        right: Right::Pattern("?p"),
    },
    Rule {
        name: "or-with-negation",
        class: Exact,
        why: "something holds or its negation does",
        left: "(or ?p (not ?p))",
        right: Right::Build("true, of bool", |e| opposites(e, true)),
    },
    Rule {
        name: "or-of-negation",
        class: Exact,
        why: "something holds or its negation does",
        left: "(or (not ?p) ?p)",
        right: Right::Build("true, of bool", |e| opposites(e, true)),
    },
    Rule {
        name: "or-absorbs",
        class: Exact,
        why: "what the inner op adds or takes does not matter",
        left: "(or ?p (and ?p ?q))",
        right: Right::Pattern("?p"),
    },
    Rule {
        name: "or-of-nots",
        class: Exact,
        why: "one negation instead of two",
        left: "(or (not ?p) (not ?q))",
        right: Right::Pattern("(not (and ?p ?q))"),
    },
    Rule {
        name: "not-of-eq",
        class: Exact,
        why: "the opposite comparison; of NaN too",
        left: "(not (compare_eq ?x ?y))",
        right: Right::Pattern("(compare_ne ?x ?y)"),
    },
    Rule {
        name: "not-of-ne",
        class: Exact,
        why: "the opposite comparison; of NaN too",
        left: "(not (compare_ne ?x ?y))",
        right: Right::Pattern("(compare_eq ?x ?y)"),
    },
    Rule {
        name: "not-of-lt",
        class: Exact,
        why: "the opposite comparison; with NaN neither would hold",
        left: "(not (compare_lt ?x ?y))",
        right: Right::Build("(compare_ge ?x ?y), of integers", |e| opposite(e, Comparison::Ge)),
    },
    Rule {
        name: "not-of-ge",
        class: Exact,
        why: "the opposite comparison; with NaN neither would hold",
        left: "(not (compare_ge ?x ?y))",
        right: Right::Build("(compare_lt ?x ?y), of integers", |e| opposite(e, Comparison::Lt)),
    },
    Rule {
        name: "not-of-le",
        class: Exact,
        why: "the opposite comparison; with NaN neither would hold",
        left: "(not (compare_le ?x ?y))",
        right: Right::Build("(compare_gt ?x ?y), of integers", |e| opposite(e, Comparison::Gt)),
    },
    Rule {
        name: "not-of-gt",
        class: Exact,
        why: "the opposite comparison; with NaN neither would hold",
        left: "(not (compare_gt ?x ?y))",
        right: Right::Build("(compare_le ?x ?y), of integers", |e| opposite(e, Comparison::Le)),
    },
    Rule {
        name: "eq-of-choice",
        class: Exact,
        why: "the choice among constants is undone: a mask made of a mask",
        left: "(compare_eq (select ?p ?x ?y) ?c)",
        right: Right::Build("?p, (not ?p), or a constant, where ?x, ?y and ?c are constants", |e| {
            of_choice(e, Comparison::Eq)
        }),
    },
    Rule {
        name: "ne-of-choice",
        class: Exact,
        why: "the choice among constants is undone: a mask made of a mask",
        left: "(compare_ne (select ?p ?x ?y) ?c)",
        right: Right::Build("?p, (not ?p), or a constant, where ?x, ?y and ?c are constants", |e| {
            of_choice(e, Comparison::Ne)
        }),
    },
    Rule {
        name: "eq-decided",
        class: Exact,
        why: "the bounds of integers decide it: of indices that count, whether they are negative",
        left: "(compare_eq ?x ?y)",
        right: Right::Build("true or false", |e| decided(e, Comparison::Eq)),
    },
    Rule {
        name: "ne-decided",
        class: Exact,
        why: "the bounds of integers decide it: of indices that count, whether they are negative",
        left: "(compare_ne ?x ?y)",
        right: Right::Build("true or false", |e| decided(e, Comparison::Ne)),
    },
    Rule {
        name: "lt-decided",
        class: Exact,
        why: "the bounds of integers decide it: of indices that count, whether they are negative",
        left: "(compare_lt ?x ?y)",
        right: Right::Build("true or false", |e| decided(e, Comparison::Lt)),
    },
    Rule {
        name: "ge-decided",
        class: Exact,
        why: "the bounds of integers decide it: of indices that count, whether they are negative",
        left: "(compare_ge ?x ?y)",
        right: Right::Build("true or false", |e| decided(e, Comparison::Ge)),
    },
    Rule {
        name: "le-decided",
        class: Exact,
        why: "the bounds of integers decide it: of indices that count, whether they are negative",
        left: "(compare_le ?x ?y)",
        right: Right::Build("true or false", |e| decided(e, Comparison::Le)),
    },
    Rule {
        name: "gt-decided",
        class: Exact,
        why: "the bounds of integers decide it: of indices that count, whether they are negative",
        left: "(compare_gt ?x ?y)",
        right: Right::Build("true or false", |e| decided(e, Comparison::Gt)),
    },
    Rule {
        name: "eq-of-difference",
        class: Exact,
        why: "no difference, and operands as they are: a causal mask",
        left: "(compare_eq (subtract ?x ?y) ?zero)",
        right: Right::Build("(compare_eq ?x ?y), where ?zero is 0 and the integers' difference does not wrap", |e| {
            of_difference(e, Comparison::Eq)
        }),
    },
    Rule {
        name: "ne-of-difference",
        class: Exact,
        why: "no difference, and operands as they are: a causal mask",
        left: "(compare_ne (subtract ?x ?y) ?zero)",
        right: Right::Build("(compare_ne ?x ?y), where ?zero is 0 and the integers' difference does not wrap", |e| {
            of_difference(e, Comparison::Ne)
        }),
    },
    Rule {
        name: "lt-of-difference",
        class: Exact,
        why: "no difference, and operands as they are: a causal mask",
        left: "(compare_lt (subtract ?x ?y) ?zero)",
        right: Right::Build("(compare_lt ?x ?y), where ?zero is 0 and the integers' difference does not wrap", |e| {
            of_difference(e, Comparison::Lt)
        }),
    },
    Rule {
        name: "ge-of-difference",
        class: Exact,
        why: "no difference, and operands as they are: a causal mask",
        left: "(compare_ge (subtract ?x ?y) ?zero)",
        right: Right::Build("(compare_ge ?x ?y), where ?zero is 0 and the integers' difference does not wrap", |e| {
            of_difference(e, Comparison::Ge)
        }),
    },
    Rule {
        name: "le-of-difference",
        class: Exact,
        why: "no difference, and operands as they are: a causal mask",
        left: "(compare_le (subtract ?x ?y) ?zero)",
        right: Right::Build("(compare_le ?x ?y), where ?zero is 0 and the integers' difference does not wrap", |e| {
            of_difference(e, Comparison::Le)
        }),
    },
    Rule {
        name: "gt-of-difference",
        class: Exact,
        why: "no difference, and operands as they are: a causal mask",
        left: "(compare_gt (subtract ?x ?y) ?zero)",
        right: Right::Build("(compare_gt ?x ?y), where ?zero is 0 and the integers' difference does not wrap", |e| {
            of_difference(e, Comparison::Gt)
        }),
    },
    Rule {
        name: "maximum-decided",
        class: Exact,
        why: "the bounds of integers decide it: an index that is in range is not clamped",
        left: "(maximum ?x ?y)",
        right: Right::Build("?x or ?y, where no value of one is beyond those of the other", |e| {
            extreme_decided(e, true)
        }),
    },
    Rule {
        name: "minimum-decided",
        class: Exact,
        why: "the bounds of integers decide it: an index that is in range is not clamped",
        left: "(minimum ?x ?y)",
        right: Right::Build("?x or ?y, where no value of one is beyond those of the other", |e| {
            extreme_decided(e, false)
        }),
    },
    Rule {
        name: "remainder-decided",
        class: Exact,
        why: "what is less than the divisor is its own remainder",
        left: "(remainder ?x ?y)",
        right: Right::Build("?x, where 0 <= ?x < ?y", |e| {
            let (x, y) = bounds(e)?;
            (x.0 >= 0 && x.1 < y.0).then(|| e.var("x"))
        }),
    },
    Rule {
        name: "quotient-decided",
        class: Exact,
        why: "what is less than the divisor goes into it zero times",
        left: "(divide ?x ?y)",
        right: Right::Build("0, where 0 <= ?x < ?y", |e| {
            let (x, y) = bounds(e)?;
            (x.0 >= 0 && x.1 < y.0).then(|| e.full_like(Number::Int(0), e.root()))?
        }),
    },
];

/// What a predicate and its negation come to; of integers neither nought nor one, but bits.
fn opposites(e: &mut Edit<'_>, truth: bool) -> Option<Id> {
    let p = e.var("p");
    (e.dtype(p) == Some(DType::Bool)).then(|| e.full_like(Number::Bool(truth), p))?
}

/// One choice by what `predicate` makes of two. Of what is one of its own branches every choice is a choice among itself,
/// and so predicates would be joined without end.
fn joined(e: &mut Edit<'_>, predicate: impl Fn(&mut Edit<'_>, Id, Id) -> Option<Id>) -> Option<Id> {
    let [p, q, x, y] = ["p", "q", "x", "y"].map(|name| e.var(name));
    if [x, y].contains(&e.root()) {
        return None;
    }
    let either = predicate(e, p, q)?;
    e.push(&Op::Select, &[either, x, y])
}

/// Whether `?t` and `?f` are these truths everywhere.
fn of_predicate(e: &Edit<'_>, t: bool, f: bool) -> bool {
    let is = |name: &str, truth| e.dtype(e.root()) == Some(DType::Bool) && e.is(e.var(name), Number::Bool(truth));
    is("t", t) && is("f", f)
}

/// What `?p` chooses between in `?x` plus a mask of 0 and minus infinity.
fn mask(e: &mut Edit<'_>) -> Option<(Id, Id)> {
    let x = e.var("x");
    // Infinity less infinity would be NaN.
    let tame = e.dtype(x)?.is_float() && e.number(x).is_none_or(f64::is_finite);
    let (y, z) = (e.number(e.var("y"))?, e.number(e.var("z"))?);
    let masked = e.full_like(Number::Float(f64::NEG_INFINITY), x)?;
    match (y, z) {
        _ if !tame => None,
        (0.0, f64::NEG_INFINITY) => Some((x, masked)),
        (f64::NEG_INFINITY, 0.0) => Some((masked, x)),
        _ => None,
    }
}

fn opposite(e: &mut Edit<'_>, c: Comparison) -> Option<Id> {
    let (x, y) = (e.var("x"), e.var("y"));
    e.range(x).and_then(|_| e.compare(c, x, y))
}

/// A comparison of a choice among constants with a constant.
fn of_choice(e: &mut Edit<'_>, c: Comparison) -> Option<Id> {
    let holds = |branch: &str| {
        let bit = e.element(&Op::Compare(c), &[e.var(branch), e.var("c")])?;
        Some(bit.bytes[..] != [0])
    };
    let p = e.var("p");
    match (holds("x")?, holds("y")?) {
        (true, false) => Some(p),
        (false, true) => e.unary(Unary::Not, p),
        (both, _) => e.full_like(Number::Bool(both), p),
    }
}

/// Bounds of `?x` and `?y`.
fn bounds(e: &Edit<'_>) -> Option<(Range, Range)> {
    Some((e.range(e.var("x"))?, e.range(e.var("y"))?))
}

fn decided(e: &mut Edit<'_>, c: Comparison) -> Option<Id> {
    let (x, y) = bounds(e)?;
    decides(c, x, y).and_then(|holds| e.full_like(Number::Bool(holds), e.root()))
}

fn of_difference(e: &mut Edit<'_>, c: Comparison) -> Option<Id> {
    let ((x, y), zero) = (bounds(e)?, e.var("zero"));
    let all = range_of(e.dtype(zero)?)?;
    let wraps = x.0 - y.1 < all.0 || x.1 - y.0 > all.1;
    (!wraps && e.integer(zero)? == 0).then(|| e.compare(c, e.var("x"), e.var("y")))?
}

fn extreme_decided(e: &Edit<'_>, greater: bool) -> Option<Id> {
    let (x, y) = bounds(e)?;
    match greater {
        _ if x.0 >= y.1 => Some(e.var(if greater { "x" } else { "y" })),
        _ if y.0 >= x.1 => Some(e.var(if greater { "y" } else { "x" })),
        _ => None,
    }
}
