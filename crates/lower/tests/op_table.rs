//! Every sample of the op table on the CPU plugin against the reference evaluator.
//!
//! The plugin adds up in another order, so that floats may differ by some units in the last place. Views are left out:
//! what they become depends on the alias model.

#![allow(clippy::unwrap_used)]

#[path = "../../runtime/tests/common/blas.rs"]
mod blas;
mod judge;
mod machine;
mod programs;

use hostcall::Lapack;
use ir::ops::sample::{Results, bind, data, expand_for};
use ir::ops::{Schema, all, find};
use ir::{DType, Graph, InputKind, Literal, Node, Number, Op, Routine};
use judge::*;
use std::collections::BTreeSet;

const SUMS: Tolerance = Tolerance { ulps: 64.0, floor: 4.0 };

/// Ops of which only this output is compared: a rounding may turn singular vectors and eigenvectors round.
/// `test_samples.py` compares what they make, and PyTorch's database the plugin with PyTorch.
const DETERMINED: [(&str, usize); 6] = [
    ("aten::_linalg_eigh.default", 0),
    ("aten::_linalg_svd.default", 1),
    ("aten::linalg_eig.default", 0),
    ("aten::linalg_eigh.default", 0),
    ("aten::linalg_svd.default", 1),
    ("aten::svd.default", 1),
];

// In quarters, for several processors.
#[test]
fn every_sample_of_the_first_quarter() {
    every_fourth(0);
}

#[test]
fn every_sample_of_the_second_quarter() {
    every_fourth(1);
}

#[test]
fn every_sample_of_the_third_quarter() {
    every_fourth(2);
}

#[test]
fn every_sample_of_the_last_quarter() {
    every_fourth(3);
}

/// Those factorisations that the tests' BLAS has; `test_factorisations.py` compares all with PyTorch's.
#[test]
fn every_sample_of_the_hosts_factorisations() {
    let mut j = Judge::new();
    let (_dir, library) = blas::blas(0);
    j.machine().plugin().offer_products(&library).unwrap();
    let has = |of| matches!(of, Lapack::Lu | Lapack::Order | Lapack::Cholesky | Lapack::Triangular { .. });
    let asked = compare_factorisations(&mut j, |of| has(of).then_some(Op::Lapack { of, host: true }));
    let triangles = |upper, unit| format!("{:?}", Lapack::Triangular { upper, unit });
    let mut wanted =
        vec![triangles(false, false), triangles(true, false), triangles(false, true), triangles(true, true)];
    wanted.extend([Lapack::Lu, Lapack::Order, Lapack::Cholesky].map(|of| format!("{of:?}")));
    assert!(wanted.iter().all(|of| asked.contains(of)), "{asked:?}");
}

/// What StableHLO has of a TPU's routines, XLA's CPU has, too.
#[test]
fn every_sample_of_triangular_systems_by_the_routine() {
    let asked = compare_factorisations(&mut Judge::new(), |of| match of {
        Lapack::Triangular { upper, unit } => Some(Op::Routine(Routine::TriangularSolve { upper, unit })),
        _ => None,
    });
    assert_eq!(asked.len(), 4, "{asked:?}");
}

/// Compares the samples of ops whose factorisations are all `said` otherwise. Which ones those are.
fn compare_factorisations(j: &mut Judge, said: impl Fn(Lapack) -> Option<Op>) -> BTreeSet<String> {
    let mut asked = BTreeSet::new();
    let words = ["lu", "solve", "cholesky", "triangular", "inv", "det"];
    for def in all().filter(|def| words.iter().any(|w| def.schema.contains(w))) {
        let name = Schema::parse(def.schema).unwrap().name;
        let entry = find(&name).unwrap();
        for sample in def.samples.iter().filter(|s| s.error.is_none()) {
            let args = bind(entry.schema, sample.args).unwrap();
            let inputs = data::literals(&args, 1, false);
            let expansion = expand_for(&entry, &args, &inputs).unwrap();
            let Some(graph) = otherwise(&expansion.graph, &mut asked, &said) else { continue };
            j.compare(&format!("{name}({}) otherwise", sample.args), &graph, &inputs, SUMS);
        }
    }
    asked
}

/// `graph` with its factorisations `said` otherwise, and added to those `asked` for; `None` if there are none, or some that are not.
fn otherwise(graph: &Graph, asked: &mut BTreeSet<String>, said: &impl Fn(Lapack) -> Option<Op>) -> Option<Graph> {
    let (mut made, mut any) = (Graph::new(graph.name.clone()), false);
    (made.inputs, made.outputs, made.locs) = (graph.inputs.clone(), graph.outputs.clone(), graph.locs.clone());
    for node in graph.nodes() {
        let op = match node.op {
            Op::Lapack { of, .. } => {
                let op = said(of)?;
                asked.insert(format!("{of:?}"));
                any = true;
                op
            }
            ref op => op.clone(),
        };
        made.push(Node { op, ..node.clone() });
    }
    any.then_some(made)
}

/// Compares the samples of every fourth op, from `first` on.
fn every_fourth(first: usize) {
    let mut j = Judge::new();
    for def in all().skip(first).step_by(4) {
        let name = Schema::parse(def.schema).unwrap().name;
        let entry = find(&name).unwrap();
        for sample in def.samples.iter().filter(|s| s.error.is_none()) {
            let args = bind(entry.schema, sample.args).unwrap();
            let mut inputs = data::literals(&args, 1, false);
            let mut expansion = expand_for(&entry, &args, &inputs).unwrap();
            if !matches!(expansion.results, Results::Outputs(_) | Results::Padded(..)) {
                continue;
            }
            if let Some((_, output)) = DETERMINED.iter().find(|(op, _)| *op == name) {
                expansion.graph.outputs = vec![expansion.graph.outputs[*output].clone()];
            }
            if expansion.graph.inputs.iter().any(|i| i.kind == InputKind::RngState) {
                inputs.push(Literal::splat(Number::Int(7), DType::U64, [2]));
            }
            j.compare(&format!("{name}({})", sample.args), &expansion.graph, &inputs, SUMS);
        }
    }
}
