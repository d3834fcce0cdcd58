//! Transposes: moved towards the results, where they meet others that undo them.

use super::shapes::{below, broadcast, inverse, permutation, permuted, rise, untransposed};
use crate::change::Class::{Exact, Reassociating};
use crate::rule::{Edit, Right, Rule};
use egg::Id;
use ir::op::Window;
use ir::{Dims, Op};

pub(super) static RULES: &[Rule] = &[
    Rule {
        name: "identity-transpose",
        class: Exact,
        why: "moves nothing",
        left: "(transpose ?x ?p)",
        right: Right::Build("?x, where ?p rises", |e| rise(&permutation(e, "p")?).then(|| e.var("x"))),
    },
    Rule {
        name: "transpose-of-ones",
        class: Exact,
        why: "the elements keep their order: no pass over memory",
        left: "(transpose ?x ?p)",
        right: Right::Build("(reshape ?x), where ?p moves only dimensions of extent 1", |e| {
            let (p, shape) = (permutation(e, "p")?, e.shape(e.var("x"))?);
            let moved: Dims = p.iter().copied().filter(|&d| shape[d] != 1).collect();
            let to = e.shape(e.root())?;
            if rise(&moved) && !rise(&p) { e.push(&Op::Reshape { shape: to }, &[e.var("x")]) } else { None }
        }),
    },
    Rule {
        name: "unary-of-transpose",
        class: Exact,
        why: "meets the transposes that undo it further down, or a product that reads any order",
        left: "(unary (transpose ?x ?p))",
        right: Right::Build("(transpose (unary ?x) ?p)", |e| lift(e, &["x"], &[])),
    },
    Rule {
        name: "convert-of-transpose",
        class: Exact,
        why: "meets the transposes that undo it further down, or a product that reads any order",
        left: "(convert (transpose ?x ?p) ?c)",
        right: Right::Build("(transpose (convert ?x ?c) ?p)", |e| {
            let (p, to) = (permutation(e, "p")?, e.dtype(e.root())?);
            let converted = e.convert(e.var("x"), to)?;
            e.transpose(converted, &p)
        }),
    },
    Rule {
        name: "binary-of-transposes",
        class: Exact,
        why: "one pass over memory instead of two",
        left: "(binary (transpose ?x ?p) (transpose ?y ?p))",
        right: Right::Build("(transpose (binary ?x ?y) ?p)", |e| lift(e, &["x", "y"], &[])),
    },
    Rule {
        name: "binary-of-transpose-and-broadcast",
        class: Exact,
        why: "meets the transposes that undo it further down, or a product that reads any order",
        left: "(binary (transpose ?x ?p) ?y)",
        right: Right::Build("(transpose (binary ?x ?y[?p]) ?p), where ?y is a splat or a broadcast", |e| {
            lift(e, &["x", "y"], &["y"])
        }),
    },
    Rule {
        name: "binary-of-broadcast-and-transpose",
        class: Exact,
        why: "meets the transposes that undo it further down, or a product that reads any order",
        left: "(binary ?x (transpose ?y ?p))",
        right: Right::Build("(transpose (binary ?x[?p] ?y) ?p), where ?x is a splat or a broadcast", |e| {
            lift(e, &["x", "y"], &["x"])
        }),
    },
    Rule {
        name: "select-of-transposes",
        class: Exact,
        why: "meets the transposes that undo it further down, or a product that reads any order",
        left: "(select ?c (transpose ?x ?p) ?y)",
        right: Right::Build(
            "(transpose (select ?c[?p] ?x ?y[?p]) ?p), where ?c and ?y are transposed by ?p, splats or broadcasts",
            |e| lift(e, &["c", "x", "y"], &["c", "y"]),
        ),
    },
    Rule {
        name: "select-of-other-transpose",
        class: Exact,
        why: "meets the transposes that undo it further down, or a product that reads any order",
        left: "(select ?c ?x (transpose ?y ?p))",
        right: Right::Build(
            "(transpose (select ?c[?p] ?x[?p] ?y) ?p), where ?c and ?x are transposed by ?p, splats or broadcasts",
            |e| lift(e, &["c", "x", "y"], &["c", "x"]),
        ),
    },
    Rule {
        name: "reduce-of-transpose",
        class: Exact,
        why: "a reduction reads its operand in any order",
        left: "(reduce (transpose ?x ?p) ?r)",
        right: Right::Build("(transpose (reduce ?x ?p[?r])), where what is reduced keeps its order", |e| {
            reduced(e, true)
        }),
    },
    Rule {
        name: "reduce-of-reordering-transpose",
        class: Reassociating,
        why: "a reduction reads its operand in any order",
        left: "(reduce (transpose ?x ?p) ?r)",
        right: Right::Build("(transpose (reduce ?x ?p[?r])), where what is reduced changes its order", |e| {
            reduced(e, false)
        }),
    },
    Rule {
        name: "transpose-of-broadcast",
        class: Exact,
        why: "less to move",
        left: "(transpose (broadcast_in_dim ?x ?b) ?p)",
        right: Right::Build("(broadcast_in_dim (transpose ?x))", |e| {
            let ((_, dims), p) = (broadcast(e, "b")?, permutation(e, "p")?);
            let at: Dims = inverse(&p);
            let along = permuted(&at, &dims);
            let mut order: Dims = (0..dims.len()).collect();
            order.sort_by_key(|&i| along[i]);
            let (x, to) = (e.transpose(e.var("x"), &order)?, e.shape(e.root())?);
            e.broadcast_in_dim(x, &to, &permuted(&along, &order))
        }),
    },
    Rule {
        name: "concatenate-of-transposes",
        class: Exact,
        why: "one pass over memory instead of several",
        left: "(concatenate (transpose ?x* ?p)... ?a)",
        right: Right::Build("(transpose (concatenate ?x* ?p[?a]) ?p)", |e| {
            let (Op::Concatenate { dim }, p) = (&*e.op("a")?, permutation(e, "p")?) else { return None };
            let joined = e.concatenate(&e.vars("x"), p[*dim])?;
            e.transpose(joined, &p)
        }),
    },
    Rule {
        name: "slice-of-transpose",
        class: Exact,
        why: "less to move",
        left: "(slice (transpose ?x ?p) ?s)",
        right: Right::Build("(transpose (slice ?x) ?p)", |e| {
            let Op::Slice { start, limit, stride } = &*e.op("s")? else { return None };
            let (p, to) = (permutation(e, "p")?, |dims: &[usize], p: &[usize]| permuted(dims, &inverse(p)));
            let slice = Op::Slice { start: to(start, &p), limit: to(limit, &p), stride: to(stride, &p) };
            let part = e.push(&slice, &[e.var("x")])?;
            e.transpose(part, &p)
        }),
    },
    Rule {
        name: "pad-of-transpose",
        class: Exact,
        why: "meets the transposes that undo it further down, or a product that reads any order",
        left: "(pad (transpose ?x ?p) ?v ?a)",
        right: Right::Build("(transpose (pad ?x ?v) ?p)", |e| {
            let Op::Pad { low, high, interior } = &*e.op("a")? else { return None };
            let p = permutation(e, "p")?;
            let at = inverse(&p);
            let pad = Op::Pad { low: permuted(low, &at), high: permuted(high, &at), interior: permuted(interior, &at) };
            let padded = e.push(&pad, &[e.var("x"), e.var("v")])?;
            e.transpose(padded, &p)
        }),
    },
    Rule {
        name: "reverse-of-transpose",
        class: Exact,
        why: "meets the transposes that undo it further down, or a product that reads any order",
        left: "(reverse (transpose ?x ?p) ?a)",
        right: Right::Build("(transpose (reverse ?x) ?p)", |e| {
            let (Op::Reverse { dims }, p) = (&*e.op("a")?, permutation(e, "p")?) else { return None };
            let mut dims = permuted(&p, dims);
            dims.sort_unstable();
            let reversed = e.push(&Op::Reverse { dims }, &[e.var("x")])?;
            e.transpose(reversed, &p)
        }),
    },
    Rule {
        name: "reduce-window-of-transpose",
        class: Exact,
        why: "pooling in the layout that the neighbours use",
        left: "(reduce_window (transpose ?x ?p) ?w)",
        right: Right::Build(
            "(transpose (reduce_window ?x) ?p), where dimensions that windows extend over keep their order",
            |e| {
                let (Op::ReduceWindow { reducer, window }, p) = (&*e.op("w")?, permutation(e, "p")?) else {
                    return None;
                };
                let wide: Dims = (0..p.len()).filter(|&i| window.size[i] != 1).map(|i| p[i]).collect();
                let at = inverse(&p);
                let window = Window {
                    size: permuted(&window.size, &at),
                    strides: permuted(&window.strides, &at),
                    padding: permuted(&window.padding, &at),
                    base_dilation: permuted(&window.base_dilation, &at),
                    dilation: permuted(&window.dilation, &at),
                };
                let made =
                    rise(&wide).then(|| e.push(&Op::ReduceWindow { reducer: *reducer, window }, &[e.var("x")]))??;
                e.transpose(made, &p)
            },
        ),
    },
];

/// The elementwise op over what is under `?p` in its operands; `free` are those that may be splats or broadcasts instead.
fn lift(e: &mut Edit<'_>, operands: &[&str], free: &[&str]) -> Option<Id> {
    let (p, op) = (permutation(e, "p")?, e.family().unwrap_or(Op::Select));
    let mut under: smallvec::SmallVec<[Id; 3]> = operands.iter().map(|name| e.var(name)).collect();
    for (id, _) in under.iter_mut().zip(operands).filter(|(_, name)| free.contains(name)) {
        *id = untransposed(e, *id, &p)?;
    }
    let made = e.push(&op, &under)?;
    e.transpose(made, &p)
}

/// `(reduce (transpose ?x ?p) ?r)` over `?x`, if that keeps the order of the sum or not, as asked.
fn reduced(e: &mut Edit<'_>, keeps: bool) -> Option<Id> {
    let (Op::Reduce { reducer, dims }, p) = (&*e.op("r")?, permutation(e, "p")?) else { return None };
    let mut sorted = dims.clone();
    sorted.sort_unstable();
    let mut over = permuted(&p, &sorted);
    if rise(&over) != keeps {
        return None;
    }
    over.sort_unstable();
    let kept = p.iter().copied().filter(|d| !over.contains(d));
    let order: Dims = kept.map(|d| d - below(&over, d)).collect();
    let made = e.reduce(e.var("x"), *reducer, over)?;
    e.transpose(made, &order)
}
