//! Arithmetic that changes nothing.

use crate::change::Class::Exact;
use crate::rule::{Edit, Right, Rule};
use egg::Id;
use ir::Number;

pub(super) static RULES: &[Rule] = &[
    Rule {
        name: "multiply-by-one",
        class: Exact,
        why: "the product is the other operand, NaN and signed zero included",
        left: "(multiply ?x ?one)",
        right: Right::Build("?x, where ?one is 1", |e| operand_beside(e, "x", "one", 1.0)),
    },
    Rule {
        name: "one-multiplied",
        class: Exact,
        why: "the product is the other operand, NaN and signed zero included",
        left: "(multiply ?one ?x)",
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
        name: "subtract-negated",
        class: Exact,
        why: "one op instead of two; IEEE defines subtraction so",
        left: "(subtract ?x (negate ?y))",
        right: Right::Pattern("(add ?x ?y)"),
    },
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
];

/// `?operand`, if `?number` is this number everywhere and the two are of one type.
fn operand_beside(e: &mut Edit<'_>, operand: &str, number: &str, value: f64) -> Option<Id> {
    e.is(e.var(number), Number::Float(value)).then(|| e.var(operand))
}
