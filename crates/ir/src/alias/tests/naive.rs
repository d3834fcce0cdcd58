//! The least interpreter that the alias model's programs need: integers only.

use crate::graph::{Graph, Node};
use crate::op::{Binary, Op};

/// Row-major indices of a shape.
fn indices(shape: &[usize]) -> Vec<Vec<usize>> {
    let mut all = vec![vec![]];
    for &n in shape {
        all = all.into_iter().flat_map(|i: Vec<usize>| (0..n).map(move |k| [&i[..], &[k]].concat())).collect();
    }
    all
}

fn flat(index: impl IntoIterator<Item = usize>, shape: &[usize]) -> usize {
    index.into_iter().zip(shape).fold(0, |at, (i, n)| at * n + i)
}

/// The outputs of `g` on one input.
pub(super) fn run(g: &Graph, input: &[i64]) -> Vec<Vec<i64>> {
    let mut values: Vec<Vec<i64>> = vec![];
    for node in g.nodes() {
        let args: Vec<(&[i64], &[usize])> =
            node.operands.iter().map(|&v| (&values[v.index()][..], shape(g.node(v)))).collect();
        let value = evaluate(node, &args, input);
        assert_eq!(value.len(), shape(node).iter().product::<usize>());
        values.push(value);
    }
    g.outputs.iter().map(|o| values[o.value.index()].clone()).collect()
}

fn shape(node: &Node) -> &[usize] {
    &node.ty.tensor().expect("tensor").shape
}

fn evaluate(node: &Node, args: &[(&[i64], &[usize])], input: &[i64]) -> Vec<i64> {
    let out = indices(shape(node));
    let pick = |f: &dyn Fn(&[usize]) -> usize| out.iter().map(|i| args[0].0[f(i)]).collect::<Vec<i64>>();
    match &node.op {
        Op::Input { .. } => input.to_vec(),
        Op::Constant(l) => {
            let size = l.ty.dtype.size();
            let number = |c: &[u8]| c.iter().rev().fold(0, |n, &b| (n << 8) | i64::from(b));
            l.dense_bytes().chunks(size).map(number).collect()
        }
        Op::Iota { dim, .. } => out.iter().map(|i| i[*dim] as i64).collect(),
        Op::Binary(op) => {
            let both = args[0].0.iter().zip(args[1].0);
            both.map(|(a, b)| if *op == Binary::Add { a + b } else { a * b }).collect()
        }
        Op::Select => (0..out.len()).map(|i| args[if args[0].0[i] != 0 { 1 } else { 2 }].0[i]).collect(),
        Op::Reshape { .. } => args[0].0.to_vec(),
        Op::Transpose { permutation } => pick(&|i| {
            let mut from = vec![0; i.len()];
            permutation.iter().enumerate().for_each(|(k, &d)| from[d] = i[k]);
            flat(from, args[0].1)
        }),
        Op::BroadcastInDim { dims, .. } => {
            let at = |i: &[usize], k: usize, d: usize| if args[0].1[k] == 1 { 0 } else { i[d] };
            pick(&|i| flat(dims.iter().enumerate().map(|(k, &d)| at(i, k, d)), args[0].1))
        }
        Op::Slice { start, stride, .. } => {
            pick(&|i| flat(i.iter().enumerate().map(|(k, i)| start[k] + i * stride[k]), args[0].1))
        }
        Op::Pad { low, interior, .. } => {
            let mut padded = vec![args[1].0[0]; out.len()];
            for (n, i) in indices(args[0].1).iter().enumerate() {
                let at = i.iter().enumerate().map(|(k, i)| low[k] as usize + i * (interior[k] + 1));
                padded[flat(at, shape(node))] = args[0].0[n];
            }
            padded
        }
        Op::Gather(_) => args[1].0.iter().map(|&i| args[0].0[i as usize]).collect(),
        Op::Scatter(_) => {
            let mut all = args[0].0.to_vec();
            args[1].0.iter().zip(args[2].0).for_each(|(&i, &v)| all[i as usize] = v);
            all
        }
        Op::DynamicUpdateSlice => {
            let mut all = args[0].0.to_vec();
            for (n, i) in indices(args[1].1).iter().enumerate() {
                let at = i.iter().enumerate().map(|(k, i)| args[2 + k].0[0] as usize + i);
                all[flat(at, args[0].1)] = args[1].0[n];
            }
            all
        }
        other => panic!("{other:?} has no place in a view"),
    }
}
