//! Reshapes, transposes and broadcasts: composed, and moved to where they cost nothing.

use crate::change::Class::Exact;
use crate::rule::{Edit, Right, Rule};
use ir::{Dims, Op};

pub(super) static RULES: &[Rule] = &[
    Rule {
        name: "transpose-of-transpose",
        class: Exact,
        why: "one pass over memory instead of two, or none",
        left: "(transpose (transpose ?x ?inner) ?outer)",
        right: Right::Build("(transpose ?x ?inner[?outer])", |e| {
            let (inner, outer) = (permutation(e, "inner")?, permutation(e, "outer")?);
            let both: Dims = outer.iter().map(|&i| inner[i]).collect();
            e.transpose(e.var("x"), &both)
        }),
    },
    Rule {
        name: "reshape-of-reshape",
        class: Exact,
        why: "the elements keep their order either way",
        left: "(reshape (reshape ?x ?inner) ?outer)",
        right: Right::Build("(reshape ?x ?outer)", |e| {
            let shape = e.shape(e.root())?;
            e.reshape(e.var("x"), &shape)
        }),
    },
    Rule {
        name: "broadcast-of-broadcast",
        class: Exact,
        why: "one op instead of two",
        left: "(broadcast_in_dim (broadcast_in_dim ?x ?inner) ?outer)",
        right: Right::Build("(broadcast_in_dim ?x ?outer[?inner])", |e| {
            let (Op::BroadcastInDim { dims: inner, .. }, Op::BroadcastInDim { dims: outer, shape }) =
                (&*e.op("inner")?, &*e.op("outer")?)
            else {
                return None;
            };
            let both: Dims = inner.iter().map(|&i| outer[i]).collect();
            e.broadcast_in_dim(e.var("x"), shape, &both)
        }),
    },
];

fn permutation(e: &Edit<'_>, name: &str) -> Option<Dims> {
    match &*e.op(name)? {
        Op::Transpose { permutation } => Some(permutation.clone()),
        _ => None,
    }
}
