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
use ir::{DType, Graph, InputKind, Literal, Node, Number, Op, Precision, Routine};
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
    let asked = compare_said(&mut j, FACTORISATIONS, |op| match *op {
        Op::Lapack { of, .. } => Some(has(of).then_some(Op::Lapack { of, host: true })),
        _ => None,
    });
    let triangles = |upper, unit| Lapack::Triangular { upper, unit };
    let mut wanted =
        vec![triangles(false, false), triangles(true, false), triangles(false, true), triangles(true, true)];
    wanted.extend([Lapack::Lu, Lapack::Order, Lapack::Cholesky]);
    let wanted = wanted.into_iter().map(|of| format!("{:?}", Op::Lapack { of, host: true }));
    assert!(wanted.into_iter().all(|op| asked.contains(&op)), "{asked:?}");
}

#[test]
fn every_sample_of_the_hosts_products_of_groups() {
    let mut j = Judge::new();
    let (_dir, library) = blas::blas(0);
    j.machine().plugin().offer_products(&library).unwrap();
    let asked = compare_said(&mut j, &["grouped_mm"], |op| match *op {
        // What is no float of 32 bits or more is multiplied otherwise.
        Op::Grouped { precision: Precision::Default, .. } => Some(None),
        Op::Grouped { of, precision, .. } => Some(Some(Op::Grouped { of, precision, host: true })),
        _ => None,
    });
    assert_eq!(asked.len(), 3, "{asked:?}");
}

/// What StableHLO has of a TPU's routines, XLA's CPU has, too.
#[test]
fn every_sample_of_triangular_systems_by_the_routine() {
    let asked = compare_said(&mut Judge::new(), FACTORISATIONS, |op| match *op {
        Op::Lapack { of: Lapack::Triangular { upper, unit }, .. } => {
            Some(Some(Op::Routine(Routine::TriangularSolve { upper, unit })))
        }
        Op::Lapack { .. } => Some(None),
        _ => None,
    });
    assert_eq!(asked.len(), 4, "{asked:?}");
}

const FACTORISATIONS: &[&str] = &["lu", "solve", "cholesky", "triangular", "inv", "det"];

/// Compares the samples of ops named by `words` of which all that `said` knows is said otherwise. How that is.
fn compare_said(j: &mut Judge, words: &[&str], said: impl Fn(&Op) -> Option<Option<Op>>) -> BTreeSet<String> {
    let mut asked = BTreeSet::new();
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

/// `graph` with the ops that are `said` otherwise, which are added to those `asked` for; `None` if there are none, or one that should be
/// and is not.
fn otherwise(graph: &Graph, asked: &mut BTreeSet<String>, said: &impl Fn(&Op) -> Option<Option<Op>>) -> Option<Graph> {
    let (mut made, mut any) = (Graph::new(graph.name.clone()), false);
    (made.inputs, made.outputs, made.locs) = (graph.inputs.clone(), graph.outputs.clone(), graph.locs.clone());
    for node in graph.nodes() {
        let op = match said(&node.op) {
            Some(said) => {
                let op = said?;
                asked.insert(format!("{op:?}"));
                any = true;
                op
            }
            None => node.op.clone(),
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
