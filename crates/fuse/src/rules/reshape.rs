//! Reshapes: moved towards the results, and merged into broadcasts.

use super::shapes::{broadcast, permutation, reshaped_broadcast, unreshaped};
use crate::change::Class::Exact;
use crate::rule::{Edit, Right, Rule};
use egg::Id;
use ir::reshape::groups;
use ir::{Dims, Op};

pub(super) static RULES: &[Rule] = &[
    Rule {
        name: "identity-reshape",
        class: Exact,
        why: "changes nothing",
        left: "(reshape ?x ?r)",
        right: Right::Build("?x, where it has these extents", |e| {
            (e.shape(e.var("x"))? == e.shape(e.root())?).then(|| e.var("x"))
        }),
    },
    Rule {
        name: "unary-of-reshape",
        class: Exact,
        why: "the elements keep their order: reshapes meet further down",
        left: "(unary (reshape ?x ?r))",
        right: Right::Build("(reshape (unary ?x))", |e| lift(e, &["x"], "x")),
    },
    Rule {
        name: "binary-of-reshapes",
        class: Exact,
        why: "the elements keep their order: reshapes meet further down",
        left: "(binary (reshape ?x ?r) (reshape ?y ?r))",
        right: Right::Build("(reshape (binary ?x ?y)), where ?x and ?y have the same extents", |e| {
            if e.shape(e.var("x"))? == e.shape(e.var("y"))? { lift(e, &["x", "y"], "xy") } else { None }
        }),
    },
    Rule {
        name: "binary-of-reshape-and-broadcast",
        class: Exact,
        why: "the elements keep their order: reshapes meet further down",
        left: "(binary (reshape ?x ?r) ?y)",
        right: Right::Build("(reshape (binary ?x ?y[?r])), where ?y is a splat or a broadcast", |e| {
            lift(e, &["x", "y"], "x")
        }),
    },
    Rule {
        name: "binary-of-broadcast-and-reshape",
        class: Exact,
        why: "the elements keep their order: reshapes meet further down",
        left: "(binary ?x (reshape ?y ?r))",
        right: Right::Build("(reshape (binary ?x[?r] ?y)), where ?x is a splat or a broadcast", |e| {
            lift(e, &["x", "y"], "y")
        }),
    },
    Rule {
        name: "select-of-reshapes",
        class: Exact,
        why: "the elements keep their order: reshapes meet further down",
        left: "(select ?c (reshape ?x ?r) ?y)",
        right: Right::Build(
            "(reshape (select ?c[?r] ?x ?y[?r])), where ?c and ?y are reshaped alike, splats or broadcasts",
            |e| lift(e, &["c", "x", "y"], "x"),
        ),
    },
    Rule {
        name: "select-of-other-reshape",
        class: Exact,
        why: "the elements keep their order: reshapes meet further down",
        left: "(select ?c ?x (reshape ?y ?r))",
        right: Right::Build(
            "(reshape (select ?c[?r] ?x[?r] ?y)), where ?c and ?x are reshaped alike, splats or broadcasts",
            |e| lift(e, &["c", "x", "y"], "y"),
        ),
    },
    Rule {
        name: "reduce-of-reshape",
        class: Exact,
        why: "the elements keep their order: reshapes meet further down",
        left: "(reduce (reshape ?x ?r) ?a)",
        right: Right::Build("(reshape (reduce ?x)), where no run of dimensions is reduced in part", |e| {
            let Op::Reduce { reducer, dims } = &*e.op("a")? else { return None };
            let mut over = Dims::new();
            for (left, mut right) in groups(&e.shape(e.var("x"))?, &e.shape_of("r")?)? {
                let all = right.clone().all(|d| dims.contains(&d));
                if !all && right.any(|d| dims.contains(&d)) {
                    return None;
                }
                over.extend(left.filter(|_| all));
            }
            let (made, shape) = (e.reduce(e.var("x"), *reducer, over)?, e.shape(e.root())?);
            e.reshape(made, &shape)
        }),
    },
    Rule {
        name: "transpose-of-reshape",
        class: Exact,
        why: "fewer or more dimensions are moved, in the same pass",
        left: "(transpose (reshape ?x ?r) ?p)",
        right: Right::Build("(reshape (transpose ?x)), where runs of dimensions stay together", |e| {
            let (p, mut at) = (permutation(e, "p")?, Dims::new());
            let groups = groups(&e.shape(e.var("x"))?, &e.shape_of("r")?)?;
            let mut i = 0;
            while i < p.len() {
                let (left, right) = groups.iter().find(|(_, right)| right.start == p[i] && !right.is_empty())?;
                let stays = right.clone().eq(p[i..].iter().copied().take(right.len()));
                at.extend(stays.then(|| left.clone())?);
                i += right.len();
            }
            at.extend(groups.iter().filter(|(_, right)| right.is_empty()).flat_map(|(left, _)| left.clone()));
            let (made, shape) = (e.transpose(e.var("x"), &at)?, e.shape(e.root())?);
            e.reshape(made, &shape)
        }),
    },
    Rule {
        name: "reshape-of-broadcast",
        class: Exact,
        why: "less to reshape, and a broadcast that others see",
        left: "(reshape (broadcast_in_dim ?x ?b) ?r)",
        right: Right::Build("(broadcast_in_dim (reshape ?x)), where no run of dimensions is broadcast in part", |e| {
            let ((from, dims), to) = (broadcast(e, "b")?, e.shape(e.root())?);
            let (shape, along) = reshaped_broadcast(&e.shape(e.var("x"))?, &dims, &from, &to)?;
            let small = e.reshape(e.var("x"), &shape)?;
            e.broadcast_in_dim(small, &to, &along)
        }),
    },
    Rule {
        name: "broadcast-of-reshape",
        class: Exact,
        why: "one op instead of two",
        left: "(broadcast_in_dim (reshape ?x ?r) ?b)",
        right: Right::Build("(broadcast_in_dim ?x), where ?r only adds or drops dimensions of extent 1", |e| {
            let ((to, dims), from) = (broadcast(e, "b")?, e.shape(e.var("x"))?);
            let mut wide = (0..dims.len()).filter(|&i| e.shape_of("r").is_some_and(|s| s[i] != 1));
            let (mut along, mut least) = (Dims::new(), 0);
            for &n in &from {
                // A dimension of extent 1 goes to the next place: it fits if the ones behind it still do.
                let d = if n == 1 { least } else { wide.next().map(|i| dims[i])? };
                if d < least || d >= to.len() || (n != 1 && to[d] != n) {
                    return None;
                }
                along.push(d);
                least = d + 1;
            }
            if wide.next().is_some() { None } else { e.broadcast_in_dim(e.var("x"), &to, &along) }
        }),
    },
];

/// The elementwise op over what is under the reshape in its operands: that of `known` has its extents, the others are
/// reshaped alike, or splats, or broadcasts.
fn lift(e: &mut Edit<'_>, operands: &[&str], known: &str) -> Option<Id> {
    let (op, shape) = (e.family().unwrap_or(Op::Select), e.shape(e.root())?);
    let from = e.shape(e.var(&known[..1]))?;
    let mut under: smallvec::SmallVec<[Id; 3]> = operands.iter().map(|name| e.var(name)).collect();
    for (id, _) in under.iter_mut().zip(operands).filter(|(_, name)| !known.contains(*name)) {
        *id = unreshaped(e, *id, &from)?;
    }
    let made = e.push(&op, &under)?;
    e.reshape(made, &shape)
}
