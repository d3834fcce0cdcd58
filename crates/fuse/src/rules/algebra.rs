//! Arithmetic that changes nothing: neutral operands, signs, bounds.

use crate::change::Class::{Exact, Reassociating};
use crate::rule::{Edit, Right, Rule};
use egg::Id;
use ir::op::{Binary, Unary};
use ir::{Number, Op};

pub(super) static RULES: &[Rule] = &[
    Rule {
        name: "binary-of-constants",
        class: Exact,
        why: "the result is known, and one element fills it",
        left: "(binary ?x ?y)",
        right: Right::Build(
            "a constant, where both are, of an op whose result IEEE 754 or whole numbers define",
            |e| {
                let element = e.splat(e.root())?;
                let is_float = e.dtype(e.var("x"))?.is_float();
                is_defined(&e.family()?, is_float).then(|| e.fill(&element))?
            },
        ),
    },
    Rule {
        name: "constant-last-in-sum",
        class: Exact,
        why: "one order of operands, so that other rules see the constant",
        left: "(add ?c ?x)",
        right: Right::Build("(add ?x ?c), where ?c is a constant and ?x is not", |e| constant_last(e, Binary::Add)),
    },
    Rule {
        name: "constant-last-in-product",
        class: Exact,
        why: "one order of operands, so that other rules see the constant",
        left: "(multiply ?c ?x)",
        right: Right::Build("(multiply ?x ?c), where ?c is a constant and ?x is not", |e| {
            constant_last(e, Binary::Multiply)
        }),
    },
    Rule {
        name: "constant-last-in-maximum",
        class: Exact,
        why: "one order of operands, so that other rules see the constant",
        left: "(maximum ?c ?x)",
        right: Right::Build("(maximum ?x ?c), where ?c is a constant and ?x is not", |e| {
            constant_last(e, Binary::Maximum)
        }),
    },
    Rule {
        name: "constant-last-in-minimum",
        class: Exact,
        why: "one order of operands, so that other rules see the constant",
        left: "(minimum ?c ?x)",
        right: Right::Build("(minimum ?x ?c), where ?c is a constant and ?x is not", |e| {
            constant_last(e, Binary::Minimum)
        }),
    },
    Rule {
        name: "constant-last-in-and",
        class: Exact,
        why: "one order of operands, so that other rules see the constant",
        left: "(and ?c ?x)",
        right: Right::Build("(and ?x ?c), where ?c is a constant and ?x is not", |e| constant_last(e, Binary::And)),
    },
    Rule {
        name: "constant-last-in-or",
        class: Exact,
        why: "one order of operands, so that other rules see the constant",
        left: "(or ?c ?x)",
        right: Right::Build("(or ?x ?c), where ?c is a constant and ?x is not", |e| constant_last(e, Binary::Or)),
    },
    Rule {
        name: "multiply-by-one",
        class: Exact,
        why: "the product is the other operand, NaN and signed zero included",
        left: "(multiply ?x ?one)",
        right: Right::Build("?x, where ?one is 1", |e| operand_beside(e, "x", "one", 1.0)),
    },
    Rule {
        name: "divide-by-one",
        class: Exact,
        why: "the quotient is the dividend",
        left: "(divide ?x ?one)",
        right: Right::Build("?x, where ?one is 1", |e| operand_beside(e, "x", "one", 1.0)),
    },
    Rule {
        name: "subtract-zero",
        class: Exact,
        why: "x - 0 is x, -0 included",
        left: "(subtract ?x ?zero)",
        right: Right::Build("?x, where ?zero is +0", |e| operand_beside(e, "x", "zero", 0.0)),
    },
    Rule {
        name: "add-negative-zero",
        class: Exact,
        why: "x + -0 is x, -0 included; integers have one zero",
        left: "(add ?x ?zero)",
        right: Right::Build("?x, where ?zero is -0, or the integer 0", |e| operand_beside(e, "x", "zero", -0.0)),
    },
    Rule {
        name: "add-zero",
        class: Reassociating,
        why: "x + 0 is x but for the sign of zero",
        left: "(add ?x ?zero)",
        right: Right::Build("?x, where ?zero is +0", |e| operand_beside(e, "x", "zero", 0.0)),
    },
    Rule {
        name: "multiply-integer-by-zero",
        class: Exact,
        why: "integers have no NaN",
        left: "(multiply ?x ?zero)",
        right: Right::Build("?zero, where ?zero is the integer 0", |e| {
            e.integer(e.var("zero")).filter(|&n| n == 0).map(|_| e.var("zero"))
        }),
    },
    Rule {
        name: "negate-twice",
        class: Exact,
        why: "flips the sign back",
        left: "(negate (negate ?x))",
        right: Right::Pattern("?x"),
    },
    Rule {
        name: "not-twice",
        class: Exact,
        why: "flips the bits back",
        left: "(not (not ?x))",
        right: Right::Pattern("?x"),
    },
    Rule {
        name: "add-negated",
        class: Exact,
        why: "one op instead of two; IEEE defines subtraction so",
        left: "(add ?x (negate ?y))",
        right: Right::Pattern("(subtract ?x ?y)"),
    },
    Rule {
        name: "negated-plus",
        class: Exact,
        why: "one op instead of two; IEEE defines subtraction so",
        left: "(add (negate ?x) ?y)",
        right: Right::Pattern("(subtract ?y ?x)"),
    },
    Rule {
        name: "subtract-negated",
        class: Exact,
        why: "one op instead of two; IEEE defines subtraction so",
        left: "(subtract ?x (negate ?y))",
        right: Right::Pattern("(add ?x ?y)"),
    },
    Rule {
        name: "product-of-negated",
        class: Exact,
        why: "two signs flipped are none",
        left: "(multiply (negate ?x) (negate ?y))",
        right: Right::Pattern("(multiply ?x ?y)"),
    },
    Rule {
        name: "quotient-of-negated",
        class: Exact,
        why: "two signs flipped are none",
        left: "(divide (negate ?x) (negate ?y))",
        right: Right::Build("(divide ?x ?y), of floats", |e| {
            if e.dtype(e.root())?.is_float() { e.binary(Binary::Divide, e.var("x"), e.var("y")) } else { None }
        }),
    },
    Rule {
        name: "negated-times-constant",
        class: Exact,
        why: "the constant takes the sign",
        left: "(multiply (negate ?x) ?c)",
        right: Right::Build("(multiply ?x -?c)", |e| with_negated(e, Binary::Multiply)),
    },
    Rule {
        name: "negate-of-product-with-constant",
        class: Exact,
        why: "the constant takes the sign",
        left: "(negate (multiply ?x ?c))",
        right: Right::Build("(multiply ?x -?c)", |e| with_negated(e, Binary::Multiply)),
    },
    Rule {
        name: "negated-over-constant",
        class: Exact,
        why: "the constant takes the sign",
        left: "(divide (negate ?x) ?c)",
        right: Right::Build("(divide ?x -?c), of floats", |e| {
            if e.dtype(e.root())?.is_float() { with_negated(e, Binary::Divide) } else { None }
        }),
    },
    Rule {
        name: "multiply-by-minus-one",
        class: Exact,
        why: "flips the sign, which takes no multiplier",
        left: "(multiply ?x ?c)",
        right: Right::Build("(negate ?x), where ?c is -1", |e| {
            e.is(e.var("c"), Number::Float(-1.0)).then(|| e.unary(Unary::Negate, e.var("x")))?
        }),
    },
    Rule {
        name: "negate-of-difference",
        class: Reassociating,
        why: "the operands swapped; only the sign of zero may differ",
        left: "(negate (subtract ?x ?y))",
        right: Right::Pattern("(subtract ?y ?x)"),
    },
    Rule {
        name: "zero-minus",
        class: Reassociating,
        why: "0 - x is -x but for the sign of zero",
        left: "(subtract ?zero ?x)",
        right: Right::Build("(negate ?x), where ?zero is +0", |e| {
            e.is(e.var("zero"), Number::Float(0.0)).then(|| e.unary(Unary::Negate, e.var("x")))?
        }),
    },
    Rule {
        name: "abs-of-negated",
        class: Exact,
        why: "the sign goes anyway",
        left: "(abs (negate ?x))",
        right: Right::Pattern("(abs ?x)"),
    },
    Rule {
        name: "abs-of-abs",
        class: Exact,
        why: "there is no sign left",
        left: "(abs (abs ?x))",
        right: Right::Pattern("(abs ?x)"),
    },
    Rule {
        name: "square-of-abs",
        class: Exact,
        why: "the signs cancel",
        left: "(multiply (abs ?x) (abs ?x))",
        right: Right::Build("(multiply ?x ?x), of real numbers", |e| {
            if e.dtype(e.var("x"))?.is_complex() { None } else { e.binary(Binary::Multiply, e.var("x"), e.var("x")) }
        }),
    },
    Rule {
        name: "maximum-of-same",
        class: Exact,
        why: "x is as great as x; NaN stays NaN",
        left: "(maximum ?x ?x)",
        right: Right::Pattern("?x"),
    },
    Rule {
        name: "maximum-again",
        class: Exact,
        why: "the second time changes nothing: relu of relu",
        left: "(maximum (maximum ?x ?y) ?y)",
        right: Right::Pattern("(maximum ?x ?y)"),
    },
    Rule {
        name: "maximum-with-constants",
        class: Exact,
        why: "one bound instead of two",
        left: "(maximum (maximum ?x ?a) ?b)",
        right: Right::Build("(maximum ?x maximum(?a, ?b)), where ?a and ?b are constants", |e| {
            gathered(e, Binary::Maximum, Binary::Maximum)
        }),
    },
    Rule {
        name: "maximum-with-limit",
        class: Exact,
        why: "nothing is beyond infinity",
        left: "(maximum ?x ?limit)",
        right: Right::Build("?x, where ?limit is minus infinity", |e| {
            beyond_all(e, f64::NEG_INFINITY).map(|()| e.var("x"))
        }),
    },
    Rule {
        name: "minimum-of-same",
        class: Exact,
        why: "x is as great as x; NaN stays NaN",
        left: "(minimum ?x ?x)",
        right: Right::Pattern("?x"),
    },
    Rule {
        name: "minimum-again",
        class: Exact,
        why: "the second time changes nothing: relu of relu",
        left: "(minimum (minimum ?x ?y) ?y)",
        right: Right::Pattern("(minimum ?x ?y)"),
    },
    Rule {
        name: "minimum-with-constants",
        class: Exact,
        why: "one bound instead of two",
        left: "(minimum (minimum ?x ?a) ?b)",
        right: Right::Build("(minimum ?x minimum(?a, ?b)), where ?a and ?b are constants", |e| {
            gathered(e, Binary::Minimum, Binary::Minimum)
        }),
    },
    Rule {
        name: "minimum-with-limit",
        class: Exact,
        why: "nothing is beyond infinity",
        left: "(minimum ?x ?limit)",
        right: Right::Build("?x, where ?limit is infinity", |e| beyond_all(e, f64::INFINITY).map(|()| e.var("x"))),
    },
    Rule {
        name: "clamp-of-clamp-below",
        class: Exact,
        why: "what is clamped is above the second bound already: relu of relu6, clamp of clamp",
        left: "(maximum (minimum (maximum ?x ?a) ?b) ?c)",
        right: Right::Build("(minimum (maximum ?x ?a) ?b), where ?c <= ?a and ?c <= ?b", |e| {
            let [a, b, c] = ["a", "b", "c"].map(|n| e.number(e.var(n)));
            // Of zeros only the same one is no greater.
            let covers = |x: f64, c: f64| c < x || c.to_bits() == x.to_bits();
            (covers(a?, c?) && c? < b?)
                .then(|| e.binary(Binary::Maximum, e.var("x"), e.var("a")))?
                .and_then(|m| e.binary(Binary::Minimum, m, e.var("b")))
        }),
    },
    Rule {
        name: "and-all-ones",
        class: Exact,
        why: "every bit stays",
        left: "(and ?x ?ones)",
        right: Right::Build("?x, where ?ones is true or -1", |e| {
            e.is(e.var("ones"), Number::Int(-1)).then(|| e.var("x"))
        }),
    },
    Rule {
        name: "and-zero",
        class: Exact,
        why: "no bit stays",
        left: "(and ?x ?zero)",
        right: Right::Build("?zero, where ?zero is false or 0", |e| {
            e.is(e.var("zero"), Number::Int(0)).then(|| e.var("zero"))
        }),
    },
    Rule {
        name: "or-zero",
        class: Exact,
        why: "every bit stays",
        left: "(or ?x ?zero)",
        right: Right::Build("?x, where ?zero is false or 0", |e| {
            e.is(e.var("zero"), Number::Int(0)).then(|| e.var("x"))
        }),
    },
    Rule {
        name: "or-all-ones",
        class: Exact,
        why: "every bit is set",
        left: "(or ?x ?ones)",
        right: Right::Build("?ones, where ?ones is true or -1", |e| {
            e.is(e.var("ones"), Number::Int(-1)).then(|| e.var("ones"))
        }),
    },
];

/// `?operand`, if `?number` is this number everywhere and the two are of one type.
fn operand_beside(e: &mut Edit<'_>, operand: &str, number: &str, value: f64) -> Option<Id> {
    e.is(e.var(number), Number::Float(value)).then(|| e.var(operand))
}

fn constant_last(e: &mut Edit<'_>, op: Binary) -> Option<Id> {
    let (c, x) = (e.var("c"), e.var("x"));
    (e.splat(c).is_some() && e.splat(x).is_none()).then(|| e.binary(op, x, c))?
}

/// `op` of `?x` and `-?c`.
fn with_negated(e: &mut Edit<'_>, op: Binary) -> Option<Id> {
    let c = e.element(&Op::Unary(Unary::Negate), &[e.var("c")])?;
    let negated = e.fill(&c)?;
    e.binary(op, e.var("x"), negated)
}

/// `op` of `?x` and what `inner` makes of the constants `?a` and `?b`.
pub(super) fn gathered(e: &mut Edit<'_>, op: Binary, inner: Binary) -> Option<Id> {
    let both = e.element(&Op::Binary(inner), &[e.var("a"), e.var("b")])?;
    let c = e.fill(&both)?;
    e.binary(op, e.var("x"), c)
}

/// Whether `?limit` is this infinity.
fn beyond_all(e: &Edit<'_>, infinity: f64) -> Option<()> {
    let limit = e.var("limit");
    (e.dtype(limit)?.is_float() && e.is(limit, Number::Float(infinity))).then_some(())
}

/// Whether a result is defined to the bit, by IEEE 754 or as a whole number, so that what is folded here is what XLA, which folds
/// constants too, would make of it.
fn is_defined(op: &Op, is_float: bool) -> bool {
    match op {
        Op::Compare(_) => true,
        Op::Binary(b) => match b {
            Binary::Add | Binary::Subtract | Binary::Multiply | Binary::Maximum | Binary::Minimum => true,
            Binary::And | Binary::Or | Binary::Xor => true,
            Binary::Divide => is_float,
            _ => false,
        },
        _ => false,
    }
}
