//! Factorisations by the routines of a TPU's compiler, and products of groups of rows ([`ragged`]).
//!
//! In loops, each column is a step of its own, of several launches; libtpu's routines keep a matrix in vector memory. 16x64x64
//! `f32`, v5e, as libtpu 0.0.51 compiles them, without what happens within a routine:
//!
//! |                  | launches in loops | at the least, us | launches | at the least, us |
//! |------------------|------------------:|-----------------:|---------:|-----------------:|
//! | eigh             | 22822             | 27621            | 17       | 21               |
//! | solve            | 1677              | 2033             | 21       | 27               |
//! | inv              | 1673              | 2032             | 19       | 26               |
//! | qr               | 966               | 1170             | 14       | 23               |
//! | det              | 778               | 942              | 8        | 10               |
//! | cholesky         | 452               | 549              | 6        | 9                |
//! | solve_triangular | 390               | 472              | 6        | 8                |
//!
//! Singular values and eigenvalues of matrices that are not symmetric have no routine; JAX iterates for the former, and has the latter
//! on CPUs alone.

use super::ragged;
use super::rebuild::Rebuild;
use crate::{Change, Changes, Class, Head};
use hostcall::Lapack;
use ir::op::{DotGeneral, SignedDims};
use ir::ops::linalg;
use ir::{
    Builder, Comparison, DType, Dims, Graph, InputKind, LocId, Node, Number, Op, OutputKind, Precision, Reducer,
    Result, Routine, ValueId,
};
use std::collections::HashMap;

/// Name, class and reason.
pub(super) const TOLD: (&str, Class, &str) = (
    "factorisation-by-a-routine",
    Class::Exact,
    "a TPU's compiler has routines for whole matrices, and launches each step of a loop on its own",
);

/// `graph`, for a TPU, with routines for the factorisations that have one; `None` if it has none. First of all, as on a host.
pub(super) fn called(graph: &Graph, changes: &mut Changes, within: Option<LocId>) -> Result<Option<Graph>> {
    let may_be = |node: &Node| matches!(node.op, Op::Lapack { .. } | Op::Grouped { .. });
    if !changes.allows(TOLD.1) || !graph.nodes().iter().any(may_be) {
        return Ok(None);
    }
    let mut to = Rebuild::of(graph);
    // By node, what stands for the elements of the tuple that it gave; and by pivots, the order of rows.
    let mut elements: HashMap<usize, Vec<ValueId>> = HashMap::new();
    let mut orders: HashMap<ValueId, ValueId> = HashMap::new();
    for (i, node) in graph.nodes().iter().enumerate() {
        if let Some(element) = element_of(node, &elements) {
            to.stand_for(element);
            continue;
        }
        let operands: Vec<ValueId> = node.operands.iter().map(|&v| to.place(v)).collect();
        let known = matches!(node.op, Op::Lapack { of: Lapack::Order, .. }).then(|| orders.get(&operands[0])).flatten();
        let made = to.len();
        to.set_loc(node.loc);
        let said = match node.op {
            Op::Grouped { .. } => ragged::said(graph, node)?.map(|said| (ragged::BY_A_ROUTINE, said)),
            _ => said(graph, node)?.map(|said| (TOLD, said)),
        };
        let (told, gives) = match (known, said) {
            (Some(&order), _) => (TOLD, vec![order]),
            (None, Some((told, said))) => (told, to.splice_all(&said, &operands)?),
            (None, None) => {
                to.keep(node);
                continue;
            }
        };
        if let Op::Lapack { of: Lapack::Lu, .. } = node.op {
            orders.insert(gives[1], gives[3]);
        }
        let (locs, before) = (vec![within.unwrap_or(node.loc)], Head::of(&node.op));
        changes.push(Change { rule: told.0, class: told.1, locs, before, after: to.heads_from(made) });
        to.stand_for(gives[0]); // nobody reads a tuple but for its elements
        elements.insert(i, gives);
    }
    Ok(Some(to.finish(graph)))
}

/// What stands for an element of a tuple that is no more.
fn element_of(node: &Node, elements: &HashMap<usize, Vec<ValueId>>) -> Option<ValueId> {
    match (&node.op, &node.operands[..]) {
        (&Op::GetTupleElement { index }, [of]) => elements.get(&of.index()).map(|gives| gives[index]),
        _ => None,
    }
}

/// What `node` computes by a routine: its operands are the inputs, its elements the outputs; of a factorisation into triangles the
/// order of rows is one more. `None` if there is no routine.
fn said(graph: &Graph, node: &Node) -> Result<Option<Graph>> {
    let Op::Lapack { of, host: false } = node.op else { return Ok(None) };
    let types: Option<Vec<_>> = node.operands.iter().map(|&v| graph.tensor_type(v)).collect();
    let Some(types) = types.filter(|types| types.iter().all(|t| t.dtype == DType::F32)) else { return Ok(None) };
    let b = Builder::new("routine");
    let input = |(i, ty): (usize, &&ir::TensorType)| b.input(format!("arg{i}"), InputKind::User, (*ty).clone());
    let operands: Vec<ValueId> = types.iter().enumerate().map(input).collect();
    let gives = match of {
        Lapack::Triangular { upper, unit } => {
            b.said_by(Op::Routine(Routine::TriangularSolve { upper, unit }), &operands, |own, v| {
                as_before(own, node, v)
            })?
        }
        Lapack::Qr => b.said_by(Op::Routine(Routine::Qr), &operands, |own, v| as_before(own, node, v))?,
        Lapack::Cholesky => cholesky(&b, node, operands[0])?,
        Lapack::Lu => lu(&b, node, operands[0])?,
        Lapack::Reflected { adjoint } => vec![reflected(&b, &operands, adjoint)?],
        Lapack::Eigh | Lapack::EighValues => eigh(&b, of, operands[0])?,
        _ => return Ok(None),
    };
    gives.into_iter().enumerate().for_each(|(i, v)| b.output(format!("out{i}"), OutputKind::User, v));
    Ok(Some(b.finish()))
}

/// The elements of what `node` gives.
fn as_before(b: &Builder, node: &Node, operands: &[ValueId]) -> Result<Vec<ValueId>> {
    b.elements(b.push(node.op.clone(), operands, node.bodies.clone())?)
}

fn cholesky(b: &Builder, node: &Node, a: ValueId) -> Result<Vec<ValueId>> {
    let factor = b.said_by(Op::Routine(Routine::Cholesky), &[a], |b, v| Ok(vec![as_before(b, node, v)?[0]]))?[0];
    let shape = b.shape(factor);
    let [row, column] = [1, 2].map(|d| b.iota(DType::I32, &shape, d));
    let is_below = b.compare(Comparison::Ge, row?, column?)?;
    let factor = b.select(is_below, factor, b.full_like(factor, Number::Int(0))?)?;
    let positive = |d| b.compare(Comparison::Gt, d, b.full_like(d, Number::Int(0))?);
    Ok(vec![factor, first_without(b, factor, positive)?])
}

fn lu(b: &Builder, node: &Node, a: ValueId) -> Result<Vec<ValueId>> {
    let rows = b.shape(a)[1];
    let made = b.said_by(Op::Routine(Routine::Lu), &[a], |b, v| {
        let before = as_before(b, node, v)?;
        let from_zero = b.subtract(before[1], b.full_like(before[1], Number::Int(1))?)?;
        Ok(vec![before[0], from_zero, linalg::swapped(b, before[1], rows)?])
    })?;
    let pivots = b.add(made[1], b.full_like(made[1], Number::Int(1))?)?;
    let is_any = |d| b.compare(Comparison::Ne, d, b.full_like(d, Number::Int(0))?);
    Ok(vec![made[0], pivots, first_without(b, made[0], is_any)?, made[2]])
}

/// The first place on the diagonals of `a`, counted from 1, where `holds` does not; 0 if there is none: `i32[batch]`.
fn first_without(b: &Builder, a: ValueId, holds: impl FnOnce(ValueId) -> Result<ValueId>) -> Result<ValueId> {
    let shape = b.shape(a);
    let r = shape[1].min(shape[2]);
    let square = b.slice(a, &[0, 0, 0], &[shape[0], r, r], &[1, 1, 1])?;
    let [row, column] = [1, 2].map(|d| b.iota(DType::I32, &[shape[0], r, r], d));
    let is_own = b.compare(Comparison::Eq, row?, column?)?;
    let zeros = b.full_like(square, Number::Int(0))?;
    let diagonal = b.reduce(b.select(is_own, square, zeros)?, Reducer::Add, &[2])?;
    let place = b.iota(DType::I32, &[shape[0], r], 1)?;
    let beyond = b.full_like(place, Number::Int(r as i64))?;
    let first = b.reduce(b.select(holds(diagonal)?, beyond, place)?, Reducer::Minimum, &[1])?;
    let is_one = b.compare(Comparison::Lt, first, b.full_like(first, Number::Int(r as i64))?)?;
    b.select(is_one, b.add(first, b.full_like(first, Number::Int(1))?)?, b.full_like(first, Number::Int(0))?)
}

/// The product of reflections, as a matrix, or its adjoint, times what is given.
fn reflected(b: &Builder, operands: &[ValueId], adjoint: bool) -> Result<ValueId> {
    let &[packed, tau, a] = operands else { return Err(ir::Error::internal("takes three operands")) };
    let (s, count) = (b.shape(packed), b.shape(tau)[1]);
    let vectors = b.slice(packed, &[0, 0, 0], &[s[0], s[1], count], &[1, 1, 1])?;
    let zero = b.scalar(Number::Int(0), DType::F32)?;
    let missing = (s[1] - count) as i64;
    let (none, beside): (SignedDims, SignedDims) =
        ([0; 3].into_iter().collect(), [0, 0, missing].into_iter().collect());
    let square = b.pad(vectors, zero, &none, &beside, &[0; 3])?;
    let product = b.said_by(Op::Routine(Routine::Reflections), &[square, tau], |b, v| {
        Ok(vec![linalg::orthogonal(b, v[0], v[1], s[1])?])
    })?[0];
    let numbers = DotGeneral {
        lhs_batch: [0].into_iter().collect(),
        rhs_batch: [0].into_iter().collect(),
        lhs_contract: [if adjoint { 1 } else { 2 }].into_iter().collect::<Dims>(),
        rhs_contract: [1].into_iter().collect(),
        precision: Precision::Highest,
        out: DType::F32,
        host: false,
    };
    b.dot_general(product, a, numbers)
}

fn eigh(b: &Builder, of: Lapack, a: ValueId) -> Result<Vec<ValueId>> {
    let made = b.said_by(Op::Routine(Routine::Eigh), &[a], |b, v| linalg::eigenvectors(b, v[0]).map(Vec::from))?;
    Ok(match of {
        Lapack::Eigh => vec![made[1], b.transpose(made[0], &[0, 2, 1])?],
        _ => vec![made[1]],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Platform;
    use crate::formulate::testing::formulated_for;
    use crate::rules::tests::same;
    use ir::ops::sample::{bind, data, expand_for};
    use ir::{Literal, TensorType, eval};
    use std::collections::BTreeSet;

    fn left(graph: &Graph) -> impl Iterator<Item = (Lapack, DType)> {
        let of = |node: &Node| match node.op {
            Op::Lapack { of, .. } => Some((of, graph.tensor_type(node.operands[0])?.dtype)),
            _ => None,
        };
        graph.nodes().iter().filter_map(of)
    }

    #[test]
    fn every_sample_of_a_factorisation_means_the_same() {
        let mut called = BTreeSet::new();
        for def in ir::ops::all() {
            let name = ir::ops::Schema::parse(def.schema).unwrap().name;
            let entry = ir::ops::find(&name).unwrap();
            for sample in def.samples.iter().filter(|s| s.error.is_none() && s.args.contains("f32")) {
                let args = bind(entry.schema, sample.args).unwrap();
                let inputs = data::literals(&args, 1, false);
                let before = expand_for(&entry, &args, &inputs).unwrap().graph;
                if left(&before).next().is_none() {
                    continue;
                }
                let (after, _) = formulated_for(Platform::Tpu, &before, Class::Exact, None);
                for (of, dtype) in left(&after) {
                    let without = [Lapack::SingularValues, Lapack::Eig, Lapack::Eigenvalues].contains(&of);
                    assert!(without || matches!(of, Lapack::Svd { .. }) || dtype != DType::F32, "{name}: {of:?}");
                }
                called.extend(after.nodes().iter().filter_map(|node| match node.op {
                    Op::Routine(of) => Some(of),
                    _ => None,
                }));
                let [wanted, given] = [&before, &after].map(|graph| eval(graph, &inputs).unwrap());
                for (wanted, given) in wanted.iter().zip(&given) {
                    let verdict = same(wanted, given, Class::Reassociating);
                    assert!(verdict.is_ok(), "{name}({}): {verdict:?}", sample.args);
                }
            }
        }
        let triangles = |upper, unit| Routine::TriangularSolve { upper, unit };
        let mut wanted = vec![triangles(false, false), triangles(true, false), triangles(false, true)];
        wanted.extend([Routine::Cholesky, Routine::Lu, Routine::Qr, Routine::Reflections, Routine::Eigh]);
        assert!(wanted.iter().all(|of| called.contains(of)), "{called:?}");
    }

    /// What tells where a factorisation fails is computed of what the routine gives then: NaN, and zeros in U.
    #[test]
    fn the_first_step_that_fails_is_counted() {
        let steps = |rows: [[f32; 3]; 3], positive: bool| {
            let b = Builder::new("g");
            let a = b.input("a", InputKind::User, TensorType::new(DType::F32, [1, 3, 3]));
            let zero = |d| b.full_like(d, Number::Int(0));
            let holds = |d| b.compare(if positive { Comparison::Gt } else { Comparison::Ne }, d, zero(d)?);
            b.output("at", OutputKind::User, first_without(&b, a, holds).unwrap());
            let bytes: Vec<u8> = rows.iter().flatten().flat_map(|x| x.to_le_bytes()).collect();
            let a = Literal::dense(TensorType::new(DType::F32, [1, 3, 3]), bytes).unwrap();
            eval(&b.finish(), &[a]).unwrap()[0].integer()
        };
        let on = |d: [f32; 3]| [[d[0], 5.0, f32::NAN], [0.0, d[1], 5.0], [0.0, 0.0, d[2]]];
        assert_eq!(steps(on([1.0, 2.0, 3.0]), true), Some(0));
        assert_eq!(steps(on([1.0, f32::NAN, f32::NAN]), true), Some(2));
        assert_eq!(steps(on([0.0, 1.0, 1.0]), true), Some(1));
        assert_eq!(steps(on([-1.0, 2.0, 0.0]), false), Some(3));
        assert_eq!(steps(on([-1.0, f32::NAN, 1.0]), false), Some(0));
    }
}
