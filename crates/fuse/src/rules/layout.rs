//! Reshapes, transposes and broadcasts composed; broadcasts moved behind elementwise ops.

use super::shapes::{broadcast, permutation, splat};
use crate::change::Class::Exact;
use crate::rule::{Edit, Right, Rule};
use egg::Id;
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
    Rule {
        name: "unary-of-broadcast",
        class: Exact,
        why: "fewer elements to compute",
        left: "(unary (broadcast_in_dim ?x ?b))",
        right: Right::Build("(broadcast_in_dim (unary ?x) ?b)", |e| lift(e, &["x"])),
    },
    Rule {
        name: "binary-of-broadcasts",
        class: Exact,
        why: "fewer elements to compute",
        left: "(binary (broadcast_in_dim ?x ?b) (broadcast_in_dim ?y ?b))",
        right: Right::Build("(broadcast_in_dim (binary ?x ?y) ?b)", |e| lift(e, &["x", "y"])),
    },
    Rule {
        name: "binary-of-broadcast-and-splat",
        class: Exact,
        why: "fewer elements to compute",
        left: "(binary (broadcast_in_dim ?x ?b) ?s)",
        right: Right::Build("(broadcast_in_dim (binary ?x ?s) ?b), where ?s is a splat", |e| lift(e, &["x", "s"])),
    },
    Rule {
        name: "binary-of-splat-and-broadcast",
        class: Exact,
        why: "fewer elements to compute",
        left: "(binary ?s (broadcast_in_dim ?x ?b))",
        right: Right::Build("(broadcast_in_dim (binary ?s ?x) ?b), where ?s is a splat", |e| lift(e, &["s", "x"])),
    },
    Rule {
        name: "identity-broadcast",
        class: Exact,
        why: "changes nothing",
        left: "(broadcast_in_dim ?x ?b)",
        right: Right::Build("?x, where it has these extents", |e| {
            (e.shape(e.var("x"))? == e.shape(e.root())?).then(|| e.var("x"))
        }),
    },
    Rule {
        name: "identity-reverse",
        class: Exact,
        why: "one element has no order",
        left: "(reverse ?x ?a)",
        right: Right::Build("?x, where no reversed dimension is longer than 1", |e| {
            let (Op::Reverse { dims }, shape) = (&*e.op("a")?, e.shape(e.root())?) else { return None };
            dims.iter().all(|&d| shape[d] <= 1).then(|| e.var("x"))
        }),
    },
    Rule {
        name: "reverse-of-reverse",
        class: Exact,
        why: "one pass over memory, or none",
        left: "(reverse (reverse ?x ?a) ?b)",
        right: Right::Build("(reverse ?x), along what is in one of ?a and ?b", |e| {
            let (Op::Reverse { dims: a }, Op::Reverse { dims: b }) = (&*e.op("a")?, &*e.op("b")?) else { return None };
            let once = |d: &usize| a.contains(d) != b.contains(d);
            let dims: Dims = (0..e.shape(e.root())?.len()).filter(once).collect();
            if dims.is_empty() { Some(e.var("x")) } else { e.push(&Op::Reverse { dims }, &[e.var("x")]) }
        }),
    },
];

/// The elementwise op over what `?b` broadcasts in its operands, and splats. What one element fills is not taken apart: all
/// that is known of it is equal, and each of that would be broadcast and computed again.
fn lift(e: &mut Edit<'_>, operands: &[&str]) -> Option<Id> {
    if e.splat(e.root()).is_some() {
        return None;
    }
    let ((shape, dims), op) = (broadcast(e, "b")?, e.family()?);
    let small = e.shape(e.var("x"))?;
    let mut under: smallvec::SmallVec<[Id; 2]> = operands.iter().map(|name| e.var(name)).collect();
    for id in &mut under {
        if e.shape(*id)? != small {
            let element = e.splat(*id)?;
            *id = splat(e, &element, &small)?;
        }
    }
    let made = e.push(&op, &under)?;
    e.broadcast_in_dim(made, &shape, &dims)
}
