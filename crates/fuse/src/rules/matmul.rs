//! Contractions: operands as they lie, products that share an operand as one.

use super::shapes::{others, permutation};
use crate::change::Class::Exact;
use crate::rule::{Edit, Right, Rule};
use ir::op::DotGeneral;
use ir::{Dims, Op};

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
];

/// The contraction that `?d` names.
fn dot(e: &Edit<'_>) -> Option<DotGeneral> {
    match &*e.op("d")? {
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
