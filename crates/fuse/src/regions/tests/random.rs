//! Random graphs, and what must hold for the regions of any.

use super::{TPU, check};
use crate::formulate::testing::Random;
use crate::regions::{Machine, regions};
use ir::{
    Binary, Builder, Comparison, DType, Graph, InputKind, Number, OutputKind, Reducer, TensorType, Unary, ValueId,
};

/// A machine on which little, or almost everything, stays on the chip.
pub(in crate::regions) fn machine(r: &mut Random) -> Machine {
    Machine { on_chip: r.one_of(&[1 << 18, 1 << 21, 128 << 20]), ..TPU }
}

/// A program of up to `most` computed nodes over matrices, their rows and columns: diamonds, values of many uses,
/// reductions, products, broadcasts, slices, masks, sorts.
pub(in crate::regions) fn program(r: &mut Random, most: usize) -> Graph {
    let b = Builder::new("random");
    let rows = r.one_of(&[1, 8, 64, 512]);
    let shape = [rows, r.one_of(&[16, 128, 1024])];
    let inputs = r.within(1, 3);
    let mut values: Vec<ValueId> =
        (0..inputs).map(|i| b.input(format!("x{i}"), InputKind::User, TensorType::new(DType::F32, shape))).collect();
    while count(&b, &values) < most {
        // Chains more than bushes: half of what is drawn is one of the last two.
        let x = match r.below(2) {
            0 => values[values.len() - 1 - r.below(values.len().min(2))],
            _ => values[r.below(values.len())],
        };
        let before = values.len();
        values.extend(step(r, &b, x, &values, &shape));
        if values.len() == before {
            break;
        }
    }
    for (i, &v) in values.iter().enumerate().skip(inputs) {
        if r.below(6) == 0 {
            b.output(format!("y{i}"), OutputKind::User, v);
        }
    }
    b.output("last", OutputKind::User, values[values.len() - 1]);
    b.finish()
}

/// Nodes so far that are not given; at most one step makes five more.
fn count(b: &Builder, values: &[ValueId]) -> usize {
    values.iter().map(|v| v.index() + 1).max().unwrap_or(0).saturating_sub(b.input_count()) + 5
}

fn step(r: &mut Random, b: &Builder, x: ValueId, values: &[ValueId], shape: &[usize]) -> Option<ValueId> {
    let t = b.ty(x).ok()?;
    let alike: Vec<ValueId> = values.iter().copied().filter(|&v| b.ty(v).is_ok_and(|other| other == t)).collect();
    let other = alike[r.below(alike.len())];
    if t.shape.len() == 1 {
        let dim = usize::from(t.shape[0] != shape[0]);
        return match r.below(3) {
            0 => b.unary(r.one_of(&[Unary::Rsqrt, Unary::Negate]), x),
            1 => b.binary(Binary::Add, x, other),
            _ => b.broadcast_in_dim(x, shape, &[dim]).and_then(|wide| {
                let whole: Vec<ValueId> = values.iter().copied().filter(|&v| b.shape(v)[..] == *shape).collect();
                b.binary(r.one_of(&[Binary::Subtract, Binary::Multiply]), whole[r.below(whole.len())], wide)
            }),
        }
        .ok();
    }
    let made = match r.below(12) {
        0 => b.unary(r.one_of(&[Unary::Exponential, Unary::Tanh]), x),
        1 => b.unary(r.one_of(&[Unary::Negate, Unary::Abs]), x),
        2..=4 => b.binary(r.one_of(&[Binary::Add, Binary::Multiply, Binary::Maximum]), x, other),
        5 | 6 => b.reduce(x, r.one_of(&[Reducer::Add, Reducer::Maximum]), &[r.one_of(&[0, 1, 1])]),
        7 => weight(b, t.shape[1]).and_then(|w| {
            let numbers = ir::op::DotGeneral {
                lhs_batch: ir::Dims::new(),
                rhs_batch: ir::Dims::new(),
                lhs_contract: [1].into_iter().collect(),
                rhs_contract: [0].into_iter().collect(),
                precision: r.one_of(&[ir::Precision::Default, ir::Precision::Highest]),
                out: DType::F32,
                host: false,
            };
            b.dot_general(x, w, numbers)
        }),
        8 => b.compare(Comparison::Lt, x, other).and_then(|p| b.select(p, x, other)),
        9 => b.full(Number::Float(0.5), DType::F32, &t.shape).and_then(|half| b.multiply(x, half)),
        10 => b.slice_dim(x, 1, 0, t.shape[1] / 2, 1).and_then(|half| b.concatenate(&[half, half], 1)),
        _ if r.below(3) == 0 => b.sort(&[x], 1, false, true).map(|all| all[0]),
        _ => b.convert(x, DType::BF16).and_then(|narrow| b.convert(narrow, DType::F32)),
    };
    made.ok()
}

fn weight(b: &Builder, n: usize) -> ir::Result<ValueId> {
    Ok(b.input(format!("w{}", b.input_count()), InputKind::Parameter, TensorType::new(DType::F32, [n, n])))
}

#[test]
fn regions_cover_a_graph_once_and_can_run_in_order() {
    for seed in 0..150 {
        let mut r = Random(seed);
        let machine = machine(&mut r);
        let graph = program(&mut r, 12 + 40 * (seed as usize % 4));
        check(&graph, &regions(&graph, &machine));
    }
}

#[test]
fn the_same_graph_gives_the_same_regions() {
    for seed in 0..20 {
        let graph = program(&mut Random(seed), 120);
        assert_eq!(format!("{:?}", regions(&graph, &TPU)), format!("{:?}", regions(&graph, &TPU)));
    }
}

/// A residual network of so many layers: a norm, a product with a bias and an activation, a product, a sum.
pub(super) fn layers(count: usize) -> Graph {
    let b = Builder::new("layers");
    let shape = [64, 256];
    let mut x = b.input("x", InputKind::User, TensorType::new(DType::F32, shape));
    for _ in 0..count {
        x = layer(&b, x, &shape).expect("a layer");
    }
    b.output("y", OutputKind::User, x);
    b.finish()
}

fn layer(b: &Builder, x: ValueId, shape: &[usize]) -> ir::Result<ValueId> {
    let squares = b.multiply(x, x)?;
    let sums = b.reduce(squares, Reducer::Add, &[1])?;
    let mean = b.multiply(sums, b.full(Number::Float(1.0 / 256.0), DType::F32, &shape[..1])?)?;
    let scale = b.unary(Unary::Rsqrt, b.add(mean, b.full(Number::Float(1e-6), DType::F32, &shape[..1])?)?)?;
    let normal = b.multiply(x, b.broadcast_in_dim(scale, shape, &[0])?)?;
    let gain = b.input(format!("g{}", b.input_count()), InputKind::Parameter, TensorType::new(DType::F32, [shape[1]]));
    let normal = b.multiply(normal, b.broadcast_in_dim(gain, shape, &[1])?)?;
    let up = product(b, normal, shape[1])?;
    let bias = b.input(format!("b{}", b.input_count()), InputKind::Parameter, TensorType::new(DType::F32, [shape[1]]));
    let up = b.add(up, b.broadcast_in_dim(bias, shape, &[1])?)?;
    let up = b.multiply(up, b.unary(Unary::Logistic, up)?)?;
    let down = product(b, up, shape[1])?;
    let kept = b.maximum(down, b.full(Number::Float(-9.0), DType::F32, shape)?)?;
    b.add(x, b.minimum(kept, b.full(Number::Float(9.0), DType::F32, shape)?)?)
}

fn product(b: &Builder, x: ValueId, n: usize) -> ir::Result<ValueId> {
    let numbers = ir::op::DotGeneral {
        lhs_batch: ir::Dims::new(),
        rhs_batch: ir::Dims::new(),
        lhs_contract: [1].into_iter().collect(),
        rhs_contract: [0].into_iter().collect(),
        precision: ir::Precision::Default,
        out: DType::F32,
        host: false,
    };
    b.dot_general(x, weight(b, n)?, numbers)
}
