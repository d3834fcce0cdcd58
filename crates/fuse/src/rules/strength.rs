//! Strength: cheaper ops in place of dear ones, and constants computed now.

use super::algebra::gathered;
use crate::change::Class::{Exact, PrecisionChanging, Reassociating};
use crate::rule::{Edit, Right, Rule};
use egg::Id;
use ir::op::{Binary, Unary};
use ir::{DType, Number};

pub(super) static RULES: &[Rule] = &[
    Rule {
        name: "power-of-constant",
        class: Reassociating,
        why: "a few products, a root or a quotient instead of a logarithm and an exponential",
        left: "(power ?x ?c)",
        right: Right::Build(
            "(multiply ?x ?x), (sqrt ?x), (divide 1 ?x) and the like, where ?c is 2, 3, 4, 1/2, -1/2, -1 or -2",
            |e| {
                let x = e.var("x");
                let exponent = e.number(e.var("c")).filter(|_| e.dtype(x).is_some_and(ir::DType::is_float))?;
                power(e, x, exponent)
            },
        ),
    },
    Rule {
        name: "power-of-one",
        class: Exact,
        why: "x to the first is x",
        left: "(power ?x ?one)",
        right: Right::Build("?x, where ?one is 1", |e| {
            (!e.dtype(e.root())?.is_complex() && e.is(e.var("one"), Number::Float(1.0))).then(|| e.var("x"))
        }),
    },
    Rule {
        name: "divide-by-power-of-two",
        class: Exact,
        why: "the reciprocal is exact, and products are faster",
        left: "(divide ?x ?c)",
        right: Right::Build("(multiply ?x 1/?c), where ?c is a power of two", |e| {
            by_reciprocal(e, |c| c.to_bits() << 12 == 0)
        }),
    },
    Rule {
        name: "divide-by-constant",
        // 49 / 49 is 1, and 49 * (1 / 49) is less: whoever rounds down next gets another number.
        class: PrecisionChanging,
        why: "products are faster than quotients",
        left: "(divide ?x ?c)",
        right: Right::Build("(multiply ?x 1/?c)", |e| by_reciprocal(e, |_| true)),
    },
    Rule {
        name: "divide-by-broadcast",
        class: PrecisionChanging, // as above
        why: "one quotient a row, and products for the rest: softmax, norms",
        left: "(divide ?x (broadcast_in_dim ?y ?b))",
        right: Right::Build("(multiply ?x (broadcast_in_dim (divide 1 ?y) ?b))", |e| {
            let y = e.var("y");
            // Narrow types would round the reciprocal, and of small numbers it would overflow in f16.
            let wide = matches!(e.dtype(y)?, DType::F32 | DType::F64);
            let worth = wide && e.splat(y).is_none() && e.numel(y)? < e.numel(e.root())?;
            let reciprocal = worth.then(|| reciprocal(e, y))??;
            let scale = e.broadcast_again(reciprocal, "b")?;
            e.binary(Binary::Multiply, e.var("x"), scale)
        }),
    },
    Rule {
        name: "divide-by-root",
        class: Reassociating,
        why: "one op for the root and the quotient",
        left: "(divide ?x (sqrt ?y))",
        right: Right::Build("(multiply ?x (rsqrt ?y)), where ?y is no constant", |e| {
            let y = e.var("y");
            let root = e.splat(y).is_none().then(|| e.unary(Unary::Rsqrt, y))??;
            e.binary(Binary::Multiply, e.var("x"), root)
        }),
    },
    Rule {
        name: "constant-factors-gathered",
        class: Reassociating,
        why: "one op instead of two",
        left: "(multiply (multiply ?x ?a) ?b)",
        right: Right::Build("(multiply ?x multiply(?a, ?b)), where ?a and ?b are constants", |e| {
            of_finite(e, Binary::Multiply)
        }),
    },
    Rule {
        name: "integer-factors-gathered",
        class: Exact,
        why: "integers wrap alike in any order",
        left: "(multiply (multiply ?x ?a) ?b)",
        right: Right::Build("(multiply ?x multiply(?a, ?b)), where ?a and ?b are integer constants", |e| {
            if e.integer(e.var("a")).is_some() { gathered(e, Binary::Multiply, Binary::Multiply) } else { None }
        }),
    },
    Rule {
        name: "constant-summands-gathered",
        class: Reassociating,
        why: "one op instead of two",
        left: "(add (add ?x ?a) ?b)",
        right: Right::Build("(add ?x add(?a, ?b)), where ?a and ?b are constants", |e| of_finite(e, Binary::Add)),
    },
    Rule {
        name: "integer-summands-gathered",
        class: Exact,
        why: "integers wrap alike in any order",
        left: "(add (add ?x ?a) ?b)",
        right: Right::Build("(add ?x add(?a, ?b)), where ?a and ?b are integer constants", |e| {
            if e.integer(e.var("a")).is_some() { gathered(e, Binary::Add, Binary::Add) } else { None }
        }),
    },
    Rule {
        name: "common-factor",
        class: Reassociating,
        why: "one product instead of two",
        left: "(add (multiply ?x ?c) (multiply ?y ?c))",
        right: Right::Build("(multiply (add ?x ?y) ?c)", |e| {
            let sum = e.is_tame("c").then(|| e.binary(Binary::Add, e.var("x"), e.var("y")))??;
            e.binary(Binary::Multiply, sum, e.var("c"))
        }),
    },
    Rule {
        name: "product-of-exponentials",
        class: Reassociating,
        why: "one exponential instead of two",
        left: "(multiply (exponential ?x) (exponential ?y))",
        right: Right::Pattern("(exponential (add ?x ?y))"),
    },
    Rule {
        name: "quotient-of-exponentials",
        class: Reassociating,
        why: "one exponential instead of two, and no quotient",
        left: "(divide (exponential ?x) (exponential ?y))",
        right: Right::Pattern("(exponential (subtract ?x ?y))"),
    },
    Rule {
        name: "log-of-exponential",
        class: Reassociating,
        why: "the one undoes the other",
        left: "(log (exponential ?x))",
        right: Right::Build("?x, of real numbers", |e| e.dtype(e.root())?.is_float().then(|| e.var("x"))),
    },
    Rule {
        name: "log-of-quotient-of-exponential",
        class: Reassociating,
        why: "no exponential, no quotient, and no loss where it underflows: the logarithm of a softmax",
        left: "(log (divide (exponential ?x) (broadcast_in_dim ?y ?b)))",
        right: Right::Build("(subtract ?x (broadcast_in_dim (log ?y) ?b)), of real numbers", |e| {
            let real = e.dtype(e.root())?.is_float();
            let log = (real && e.is_tame("x") && e.is_tame("y")).then(|| e.unary(Unary::Log, e.var("y")))??;
            let wide = e.broadcast_again(log, "b")?;
            e.binary(Binary::Subtract, e.var("x"), wide)
        }),
    },
    Rule {
        name: "logistic",
        class: Reassociating,
        why: "one op, which the backend knows how to compute well",
        left: "(divide ?one (add (exponential (negate ?x)) ?also))",
        right: Right::Build("(logistic ?x), where ?one and ?also are 1", |e| {
            let ones = ["one", "also"].iter().all(|n| e.is(e.var(n), Number::Float(1.0)));
            ones.then(|| e.unary(Unary::Logistic, e.var("x")))?
        }),
    },
    Rule {
        name: "times-logistic",
        class: Reassociating,
        why: "a product instead of a quotient: silu",
        left: "(divide ?y (add (exponential (negate ?x)) ?one))",
        right: Right::Build("(multiply ?y (logistic ?x)), where ?one is 1", |e| {
            let gate = e.is(e.var("one"), Number::Float(1.0)).then(|| e.unary(Unary::Logistic, e.var("x")))??;
            e.binary(Binary::Multiply, e.var("y"), gate)
        }),
    },
    Rule {
        name: "integer-quotient-by-power-of-two",
        class: Exact,
        why: "a shift instead of a division, which processors do one by one",
        left: "(divide ?x ?c)",
        right: Right::Build("(shift_right_logical ?x log2(?c)), where ?x is not negative", |e| {
            let c = power_of_two(e)?;
            let shift = e.full_like(Number::Int(i64::from(c.trailing_zeros())), e.var("x"))?;
            e.binary(Binary::ShiftRightLogical, e.var("x"), shift)
        }),
    },
    Rule {
        name: "integer-remainder-by-power-of-two",
        class: Exact,
        why: "a mask instead of a division, which processors do one by one",
        left: "(remainder ?x ?c)",
        right: Right::Build("(and ?x ?c - 1), where ?x is not negative", |e| {
            let mask = e.full_like(Number::Int(i64::try_from(power_of_two(e)? - 1).ok()?), e.var("x"))?;
            e.binary(Binary::And, e.var("x"), mask)
        }),
    },
];

/// `x` to the power of a small number.
fn power(e: &mut Edit<'_>, x: Id, exponent: f64) -> Option<Id> {
    let square = |e: &mut Edit<'_>, x: Id| e.binary(Binary::Multiply, x, x);
    // Of minus infinity the root is NaN, but the power is not.
    let rooted = |e: &Edit<'_>| e.splat(x).is_none();
    match exponent {
        2.0 => square(e, x),
        3.0 => {
            let two = square(e, x)?;
            e.binary(Binary::Multiply, two, x)
        }
        4.0 => {
            let two = square(e, x)?;
            square(e, two)
        }
        0.5 if rooted(e) => e.unary(Unary::Sqrt, x),
        -0.5 if rooted(e) => e.unary(Unary::Rsqrt, x),
        -1.0 => reciprocal(e, x),
        -2.0 => {
            let two = square(e, x)?;
            reciprocal(e, two)
        }
        _ => None,
    }
}

fn reciprocal(e: &mut Edit<'_>, x: Id) -> Option<Id> {
    let one = e.full_like(Number::Float(1.0), x)?;
    e.binary(Binary::Divide, one, x)
}

/// `?x` times what one over the constant `?c` is, unless that is too small or large for the type.
fn by_reciprocal(e: &mut Edit<'_>, allowed: fn(f64) -> bool) -> Option<Id> {
    let c = e.number(e.var("c")).filter(|&c| c.is_normal() && allowed(c))?;
    let dtype = e.dtype(e.root()).filter(|d| d.is_float())?;
    let inverse = Number::Float(1.0 / c);
    dtype.is_normal(1.0 / c).then(|| e.full_like(inverse, e.root()))?.and_then(|r| {
        let x = e.var("x");
        e.binary(Binary::Multiply, x, r)
    })
}

/// `op` of `?x` and both constants in one, which has to be finite and no denormal.
fn of_finite(e: &mut Edit<'_>, op: Binary) -> Option<Id> {
    let (a, b) = (e.number(e.var("a"))?, e.number(e.var("b"))?);
    let both = if op == Binary::Add { a + b } else { a * b };
    let dtype = e.dtype(e.root())?;
    let fine = |x: f64| dtype.is_normal(x) || (x == 0.0 && op == Binary::Add);
    [a, b, both].into_iter().all(fine).then(|| gathered(e, op, op))?
}

/// The constant `?c`, a power of two, if `?x` is an integer that is not negative.
fn power_of_two(e: &Edit<'_>) -> Option<u128> {
    let c = u128::try_from(e.integer(e.var("c"))?).ok()?;
    let is_bool = e.dtype(e.root())? == DType::Bool;
    (!is_bool && c.is_power_of_two() && e.range(e.var("x"))?.0 >= 0).then_some(c)
}
