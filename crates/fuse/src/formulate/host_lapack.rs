//! Factorisations, left to the host's LAPACK.
//!
//! Compiled, on 2 cores of a Zen 4, in ms, f32:
//!
//! |                  | 16x64x64: loops | LAPACK | eager | 512x512: loops | LAPACK | eager |
//! |------------------|----------------:|-------:|------:|---------------:|-------:|------:|
//! | eigh             | 43              | 1.6    | 2.3   | 831            | 20     | 12    |
//! | svd              | 74              | 2.8    | 5.6   | 1003           | 52     | 30    |
//! | eigvals          | 101             | 6.0    | 5.2   | 3523           | 80     | 60    |
//! | solve            | 5.0             | 0.9    | 0.9   | 147            | 10     | 6.8   |
//! | qr               | 3.4             | 1.4    | 1.1   | 94             | 14     | 7.4   |
//! | solve_triangular | 1.3             | 0.5    | 0.3   | 30             | 2.8    | 1.9   |
//!
//! A single matrix keeps one thread, where eager's takes both: threads of LAPACK's own, beside the plugin's and those of CPU ops, took
//! three times as long. Of 1,000 matrices of 3x3 loops take half the time or less, but 0.2 to 1 s to compile, and calls 0.1 s.

use super::rebuild::Rebuild;
use crate::{Change, Changes, Class, Head};
use hostcall::Lapack;
use ir::{Error, Graph, LocId, Node, Op, Result, Type, ValueId};
use std::sync::Arc;

/// Name, class and reason.
pub(super) const TOLD: (&str, Class, &str) = (
    "factorisation-by-the-host",
    Class::Exact,
    "LAPACK works in blocks, a loop of XLA's on the whole matrix for each column",
);

/// `graph`, for a platform where the host takes calls, with its factorisations left to it; `None` if it has none. First of all, so
/// that nobody works at what they say in other ops.
pub(super) fn left_to_the_host(graph: &Graph, changes: &mut Changes, within: Option<LocId>) -> Result<Option<Graph>> {
    if !graph.nodes().iter().any(|node| matches!(node.op, Op::Lapack { host: false, .. })) {
        return Ok(None);
    }
    let graph = &graph.without_dead_nodes();
    let read = read_elements(graph);
    let mut to = Rebuild::of(graph);
    // For each node, the only element that is left of what it gave.
    let mut only = vec![None; graph.nodes().len()];
    for (i, node) in graph.nodes().iter().enumerate() {
        if let Op::GetTupleElement { .. } = node.op
            && let Some(of) = node.operands.first().filter(|v| only[v.index()].is_some())
        {
            to.set_loc(node.loc);
            let element = to.push(Op::GetTupleElement { index: 0 }, &[to.place(*of)])?;
            to.stand_for(element);
            continue;
        }
        let Op::Lapack { of, host: false } = node.op else {
            to.keep(node);
            continue;
        };
        let takes = |v: &ValueId| graph.tensor_type(*v).is_some_and(|t| Lapack::takes(&t.shape));
        if !changes.allows(TOLD.1) || !node.operands.iter().all(takes) {
            to.keep(node);
            continue;
        }
        let (locs, head) = (vec![within.unwrap_or(node.loc)], Head::of(&node.op));
        changes.push(Change { rule: TOLD.0, class: TOLD.1, locs, before: head, after: vec![head] });
        match values_alone(of).filter(|(element, _)| read[i] == 1 << element) {
            Some((element, of)) => {
                only[i] = Some(element);
                to.keep(&narrowed(node, of, element)?);
            }
            None => to.keep(&Node { op: Op::Lapack { of, host: true }, ..node.clone() }),
        }
    }
    Ok(Some(to.finish(graph)))
}

/// For each node, which elements of the tuple that it gives are read, as bits.
fn read_elements(graph: &Graph) -> Vec<u32> {
    let mut read = vec![0; graph.nodes().len()];
    for node in graph.nodes() {
        if let (&Op::GetTupleElement { index }, [of]) = (&node.op, &node.operands[..]) {
            read[of.index()] |= 1 << index.min(31);
        }
    }
    read
}

/// Which element of what `of` gives are the values, and what gives those alone: PyTorch asks for vectors in every traced program.
fn values_alone(of: Lapack) -> Option<(usize, Lapack)> {
    match of {
        Lapack::Eigh => Some((0, Lapack::EighValues)),
        Lapack::Svd { .. } => Some((1, Lapack::SingularValues)),
        Lapack::Eig => Some((0, Lapack::Eigenvalues)),
        _ => None,
    }
}

/// `node` as `of`, which gives one of its elements.
fn narrowed(node: &Node, of: Lapack, element: usize) -> Result<Node> {
    let (Type::Tuple(types), [body]) = (&node.ty, &node.bodies[..]) else {
        return Err(Error::internal("a factorisation gives a tuple, as its body does"));
    };
    let mut body = Graph::clone(body);
    body.outputs = vec![body.outputs[element].clone()];
    let ty = Type::Tuple(vec![types[element].clone()]);
    Ok(Node {
        op: Op::Lapack { of, host: true },
        bodies: vec![Arc::new(body.without_dead_nodes())],
        ty,
        ..node.clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Platform;
    use crate::formulate::testing::{Random, formulated_for};
    use ir::{Builder, DType, InputKind, OutputKind, TensorType, Unary, eval, verify};

    /// A graph that asks for `of` of `n` by `n` matrices, and gives the elements that are `read` of what a body that computes
    /// anything else gives, in a branch if `inner`.
    fn graph(of: Lapack, n: usize, read: &[usize], inner: bool) -> Graph {
        let ty = TensorType::new(DType::F32, [2, n, n]);
        let own = Builder::new("body");
        let x = own.input("x", InputKind::User, ty.clone());
        for (i, u) in [Unary::Abs, Unary::Negate, Unary::Floor].into_iter().enumerate() {
            own.output(format!("out{i}"), OutputKind::User, own.unary(u, x).unwrap());
        }
        let b = Builder::new("g");
        let x = b.input("x", InputKind::User, ty);
        let made =
            b.elements(b.push(Op::Lapack { of, host: false }, &[x], vec![Arc::new(own.finish())]).unwrap()).unwrap();
        read.iter().for_each(|&i| b.output(format!("out{i}"), OutputKind::User, made[i]));
        let graph = b.finish();
        if !inner {
            return graph;
        }
        let b = Builder::new("outer");
        let (x, pred) = (b.input("x", InputKind::User, graph.ty(graph.inputs[0].value).tensor().unwrap().clone()), {
            b.input("pred", InputKind::User, TensorType::new(DType::Bool, []))
        });
        for (i, v) in b.if_then_else(pred, &[x], graph.clone(), graph).unwrap().into_iter().enumerate() {
            b.output(format!("out{i}"), OutputKind::User, v);
        }
        b.finish()
    }

    /// What the host is asked for, in bodies too.
    fn asked(graph: &Graph) -> Vec<Lapack> {
        let mut all = vec![];
        for node in graph.nodes() {
            match node.op {
                Op::Lapack { of, host: true } => all.push(of),
                _ => node.bodies.iter().for_each(|body| all.extend(asked(body))),
            }
        }
        all
    }

    #[test]
    fn the_host_is_asked_for_what_is_read_and_it_means_the_same() {
        let svd = Lapack::Svd { full: true };
        let mut random = Random(3);
        for (of, read, wanted) in [
            (Lapack::Lu, &[0, 1, 2][..], Lapack::Lu),
            (Lapack::Lu, &[1], Lapack::Lu),
            (Lapack::Eigh, &[0, 1], Lapack::Eigh),
            (Lapack::Eigh, &[1], Lapack::Eigh),
            (Lapack::Eigh, &[0], Lapack::EighValues),
            (svd, &[0, 1], svd),
            (svd, &[1], Lapack::SingularValues),
            (Lapack::Eig, &[0], Lapack::Eigenvalues),
        ] {
            for inner in [false, true] {
                let before = graph(of, 3, read, inner);
                let (after, changes) = formulated_for(Platform::CpuWithBlas, &before, Class::Exact, None);
                verify(&after).unwrap();
                assert_eq!(asked(&after), vec![wanted; 1 + usize::from(inner)], "{of:?} {read:?}");
                assert!(changes.iter().all(|change| change.rule == TOLD.0), "{changes:?}");
                let inputs = random.inputs(&before, false);
                let (expected, given) = (eval(&before, &inputs).unwrap(), eval(&after, &inputs).unwrap());
                assert!(expected == given, "{of:?} {read:?}");
            }
        }
    }

    #[test]
    fn other_platforms_and_what_lapack_cannot_count_stay() {
        for platform in [Platform::Cpu, Platform::Tpu] {
            let (after, _) = formulated_for(platform, &graph(Lapack::Eig, 3, &[0], false), Class::Exact, None);
            assert_eq!(asked(&after), [], "{platform:?}");
        }
        for (n, is_asked) in [(30_000, true), (30_001, false)] {
            let (after, _) =
                formulated_for(Platform::CpuWithBlas, &graph(Lapack::Lu, n, &[0], false), Class::Exact, None);
            assert_eq!(!asked(&after).is_empty(), is_asked, "{n}");
        }
    }
}
