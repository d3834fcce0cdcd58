//! Programs of ops with dimension numbers, windows or bodies, and whole small ones.

use super::{COMBINERS, Extents, Program, REDUCERS};
use ir::op::*;
use ir::{
    Builder, Combiner, Comparison, DType, Graph, InputKind, Loc, Number, OutputKind, Precision, Reducer, Result,
    Routine, Unary,
};
use smallvec::smallvec;
use std::sync::Arc;

/// Rows of a matrix, and single elements with batching dimensions and an index vector in the middle.
pub fn gathers() -> [(Gather, [Extents; 2]); 2] {
    let rows = Gather {
        offset_dims: smallvec![2],
        collapsed_slice_dims: smallvec![0],
        start_index_map: smallvec![0],
        index_vector_dim: 2,
        slice_sizes: smallvec![1, 3],
        ..Gather::default()
    };
    let batched = Gather {
        offset_dims: smallvec![1],
        collapsed_slice_dims: smallvec![2],
        operand_batching_dims: smallvec![0],
        start_indices_batching_dims: smallvec![2],
        start_index_map: smallvec![2, 1],
        index_vector_dim: 1,
        slice_sizes: smallvec![1, 2, 1],
    };
    [(rows, [&[5, 3], &[2, 2]]), (batched, [&[4, 3, 5], &[3, 2, 4]])]
}

pub(super) fn gather() -> Result<Graph> {
    let mut p = Program::new("gather");
    for (g, [operand, indices]) in gathers() {
        let (x, i) = (p.arg(DType::F32, operand), p.arg(DType::I64, indices));
        let y = p.b.gather(x, i, g)?;
        p.give(y);
    }
    Ok(p.done())
}

/// Rows into a matrix, and windows with batching dimensions. Extents of operand, indices, updates.
pub fn scatters(combiner: Combiner) -> [(Scatter, [Extents; 3]); 2] {
    let rows = Scatter {
        combiner,
        update_window_dims: smallvec![1],
        inserted_window_dims: smallvec![0],
        input_batching_dims: smallvec![],
        scatter_indices_batching_dims: smallvec![],
        scatter_dims_to_operand_dims: smallvec![0],
        index_vector_dim: 1,
        unique_indices: false,
    };
    let batched = Scatter {
        combiner,
        update_window_dims: smallvec![1],
        inserted_window_dims: smallvec![2],
        input_batching_dims: smallvec![0],
        scatter_indices_batching_dims: smallvec![2],
        scatter_dims_to_operand_dims: smallvec![2, 1],
        index_vector_dim: 1,
        unique_indices: true,
    };
    [(rows, [&[5, 3], &[4, 1], &[4, 3]]), (batched, [&[4, 3, 5], &[1, 2, 4], &[1, 2, 4]])]
}

pub(super) fn scatter() -> Result<Graph> {
    let mut p = Program::new("scatter");
    for combiner in COMBINERS {
        for (s, [operand, indices, updates]) in scatters(combiner) {
            let (x, i, u) = (p.arg(DType::F32, operand), p.arg(DType::I32, indices), p.arg(DType::F32, updates));
            let y = p.b.scatter(x, i, u, s)?;
            p.give(y);
        }
    }
    Ok(p.done())
}

pub(super) fn dot_general() -> Result<Graph> {
    let mut p = Program::new("dot_general");
    let precisions = [Precision::Default, Precision::High, Precision::Highest];
    for precision in precisions {
        let (x, y) = (p.arg(DType::F32, &[2, 5, 3, 4]), p.arg(DType::F32, &[3, 4, 2, 6]));
        let z = p.b.dot_general(x, y, batched_dot(precision, DType::F32))?;
        p.give(z);
    }
    let (x, y) = (p.arg(DType::BF16, &[2, 5, 3, 4]), p.arg(DType::BF16, &[3, 4, 2, 6]));
    let z = p.b.dot_general(x, y, batched_dot(Precision::Highest, DType::F32))?;
    p.give(z);
    let (x, y) = (p.arg(DType::I8, &[2, 5, 3, 4]), p.arg(DType::I8, &[3, 4, 2, 6]));
    let z = p.b.dot_general(x, y, batched_dot(Precision::Highest, DType::I32))?;
    p.give(z);
    Ok(p.done())
}

/// `[2, 5, 3, 4] x [3, 4, 2, 6] -> [2, 5, 6]`
pub fn batched_dot(precision: Precision, out: DType) -> DotGeneral {
    DotGeneral {
        lhs_batch: smallvec![0],
        rhs_batch: smallvec![2],
        lhs_contract: smallvec![2, 3],
        rhs_contract: smallvec![0, 1],
        precision,
        out,
        host: false,
    }
}

/// `[2, 7, 9, 4] (b01f) x [6, 4, 3, 2] (oi01) -> [b, f, 0, 1]`, everything asymmetric.
pub fn asymmetric_convolution(out: DType) -> Convolution {
    Convolution {
        strides: smallvec![2, 1],
        padding: smallvec![(1, 2), (-1, 3)],
        lhs_dilation: smallvec![1, 2],
        rhs_dilation: smallvec![2, 1],
        input_batch: 0,
        input_feature: 3,
        input_spatial: smallvec![1, 2],
        kernel_output_feature: 0,
        kernel_input_feature: 1,
        kernel_spatial: smallvec![3, 2],
        output_batch: 0,
        output_feature: 1,
        output_spatial: smallvec![2, 3],
        feature_group_count: 1,
        batch_group_count: 1,
        reversed: false,
        precision: Precision::High,
        out,
        host: false,
    }
}

pub(super) fn convolution() -> Result<Graph> {
    let mut p = Program::new("convolution");
    let (x, k) = (p.arg(DType::F32, &[2, 7, 9, 4]), p.arg(DType::F32, &[6, 4, 3, 2]));
    let y = p.b.convolution(x, k, asymmetric_convolution(DType::F32))?;
    p.give(y);
    let (x, k) = (p.arg(DType::BF16, &[2, 7, 9, 4]), p.arg(DType::BF16, &[6, 4, 3, 2]));
    let y = p.b.convolution(x, k, asymmetric_convolution(DType::F32))?;
    p.give(y);
    let zero_d = Convolution {
        strides: smallvec![],
        padding: smallvec![],
        lhs_dilation: smallvec![],
        rhs_dilation: smallvec![],
        input_spatial: smallvec![],
        input_feature: 1,
        kernel_spatial: smallvec![],
        output_spatial: smallvec![],
        ..asymmetric_convolution(DType::F32)
    };
    let (x, k) = (p.arg(DType::F32, &[2, 4]), p.arg(DType::F32, &[6, 4]));
    let y = p.b.convolution(x, k, zero_d)?;
    p.give(y);
    Ok(p.done())
}

/// One spatial dimension: feature groups, then batch groups.
pub fn grouped_convolutions() -> [(Convolution, [Extents; 2]); 2] {
    let line = Convolution {
        strides: smallvec![2],
        padding: smallvec![(0, 1)],
        lhs_dilation: smallvec![1],
        rhs_dilation: smallvec![1],
        input_batch: 0,
        input_feature: 1,
        input_spatial: smallvec![2],
        kernel_output_feature: 0,
        kernel_input_feature: 1,
        kernel_spatial: smallvec![2],
        output_batch: 0,
        output_feature: 1,
        output_spatial: smallvec![2],
        feature_group_count: 2,
        batch_group_count: 1,
        reversed: true,
        precision: Precision::Highest,
        out: DType::F32,
        host: false,
    };
    let batches = Convolution { feature_group_count: 1, batch_group_count: 2, reversed: false, ..line.clone() };
    [(line, [&[2, 4, 6], &[6, 2, 3]]), (batches, [&[4, 3, 6], &[6, 3, 3]])]
}

pub(super) fn convolution_grouped() -> Result<Graph> {
    let mut p = Program::new("convolution_grouped");
    for (c, [input, kernel]) in grouped_convolutions() {
        let (x, k) = (p.arg(DType::F32, input), p.arg(DType::F32, kernel));
        let y = p.b.convolution(x, k, c)?;
        p.give(y);
    }
    Ok(p.done())
}

pub(super) fn reduce() -> Result<Graph> {
    let mut p = Program::new("reduce");
    for dtype in [DType::F32, DType::I16, DType::U64, DType::Bool, DType::C64, DType::F8E4M3FN] {
        let x = p.arg(dtype, &[2, 3, 4]);
        for reducer in REDUCERS.into_iter().filter(|r| !r.is_arg()) {
            if let Ok(y) = p.b.reduce(x, reducer, &[0, 2]) {
                p.give(y);
            }
        }
    }
    Ok(p.done())
}

pub(super) fn reduce_arg() -> Result<Graph> {
    let mut p = Program::new("reduce_arg");
    for (dtype, index) in [(DType::F32, DType::I64), (DType::I32, DType::I32), (DType::Bool, DType::U8)] {
        let (x, i) = (p.arg(dtype, &[2, 3]), p.arg(index, &[2, 3]));
        for reducer in [Reducer::ArgMax, Reducer::ArgMin] {
            let (value, at) = p.b.reduce_arg(x, i, reducer, &[1])?;
            p.give(value);
            p.give(at);
        }
    }
    Ok(p.done())
}

/// Windows over `[2, 9, 7]`, everything asymmetric.
pub fn asymmetric_window() -> Window {
    Window {
        size: smallvec![1, 3, 2],
        strides: smallvec![1, 2, 3],
        padding: smallvec![(0, 0), (1, 2), (2, 0)],
        base_dilation: smallvec![1, 1, 2],
        dilation: smallvec![1, 2, 1],
    }
}

pub(super) fn reduce_window() -> Result<Graph> {
    let mut p = Program::new("reduce_window");
    let x = p.arg(DType::F32, &[2, 9, 7]);
    for reducer in [Reducer::Add, Reducer::Maximum, Reducer::Minimum] {
        let y = p.b.reduce_window(x, reducer, asymmetric_window())?;
        p.give(y);
    }
    let i = p.b.iota(DType::I32, &[2, 9, 7], 1)?;
    let both = p.b.push(Op::ReduceWindow { reducer: Reducer::ArgMax, window: asymmetric_window() }, &[x, i], vec![])?;
    for part in p.b.elements(both)? {
        p.give(part);
    }
    Ok(p.done())
}

/// Overlapping, padded windows over `[2, 7, 6]` give `[2, 4, 3]`.
pub fn overlapping_window() -> Window {
    Window {
        size: smallvec![1, 3, 2],
        strides: smallvec![1, 2, 2],
        padding: smallvec![(0, 0), (1, 1), (0, 1)],
        base_dilation: smallvec![1, 1, 1],
        dilation: smallvec![1, 1, 1],
    }
}

pub(super) fn select_and_scatter() -> Result<Graph> {
    let mut p = Program::new("select_and_scatter");
    for dtype in [DType::F32, DType::I32] {
        let (x, source) = (p.arg(dtype, &[2, 7, 6]), p.arg(dtype, &[2, 4, 3]));
        let y = p.b.push(Op::SelectAndScatter { window: overlapping_window() }, &[x, source], vec![])?;
        p.give(y);
    }
    Ok(p.done())
}

/// What StableHLO itself has of a TPU's routines; nobody looks at the bodies.
pub(super) fn routine() -> Result<Graph> {
    let mut p = Program::new("routine");
    let (a, y) = (p.arg(DType::F32, &[2, 3, 3]), p.arg(DType::F32, &[2, 3, 4]));
    let triangles = [(false, false), (true, true)].map(|(upper, unit)| Routine::TriangularSolve { upper, unit });
    for (of, operands) in [(Routine::Cholesky, &[a][..]), (triangles[0], &[a, y]), (triangles[1], &[a, y])] {
        let body = Builder::new("body");
        let types = operands.iter().map(|&v| p.b.ty(v)).collect::<Result<Vec<_>>>()?;
        let inputs: Vec<_> = types.into_iter().map(|ty| body.input("x", InputKind::User, ty)).collect();
        body.output("y", OutputKind::User, inputs[inputs.len() - 1]);
        let made = p.b.push(Op::Routine(of), operands, vec![Arc::new(body.finish())])?;
        for part in p.b.elements(made)? {
            p.give(part);
        }
    }
    Ok(p.done())
}

pub(super) fn sort() -> Result<Graph> {
    let mut p = Program::new("sort");
    let (x, i) = (p.arg(DType::F32, &[2, 5]), p.arg(DType::I64, &[2, 5]));
    for (descending, stable) in [(false, true), (true, false)] {
        for part in p.b.sort(&[x, i], 0, descending, stable)? {
            p.give(part);
        }
        for part in p.b.sort(&[i], 1, descending, stable)? {
            p.give(part);
        }
    }
    Ok(p.done())
}

pub(super) fn rng_bit_generator() -> Result<Graph> {
    let mut p = Program::new("rng_bit_generator");
    for (dtype, shape) in [(DType::U32, &[3, 5][..]), (DType::U64, &[7]), (DType::U32, &[])] {
        let bits = p.b.random_bits(dtype, shape)?;
        p.give(bits);
    }
    Ok(p.done())
}

/// A tanh that is computed a second time, from behind a barrier.
pub(super) fn optimization_barrier() -> Result<Graph> {
    let mut p = Program::new("optimization_barrier");
    let (x, y) = (p.arg(DType::F32, &[2]), p.arg(DType::I32, &[]));
    let again = p.b.behind_barrier(x, y)?;
    for value in [x, again] {
        let once = p.b.unary(Unary::Tanh, value)?;
        p.give(once);
    }
    Ok(p.done())
}

/// Doubles the second value until the first has counted down.
pub(super) fn while_loop() -> Result<Graph> {
    let mut p = Program::new("while");
    let (n, x) = (p.arg(DType::I32, &[]), p.arg(DType::F32, &[2]));
    let mut cond = Program::new("cond");
    let (i, _) = (cond.arg(DType::I32, &[]), cond.arg(DType::F32, &[2]));
    let zero = cond.b.scalar(Number::Int(0), DType::I32)?;
    let more = cond.b.compare(Comparison::Gt, i, zero)?;
    cond.give(more);
    let mut body = Program::new("body");
    let (i, y) = (body.arg(DType::I32, &[]), body.arg(DType::F32, &[2]));
    let one = body.b.scalar(Number::Int(1), DType::I32)?;
    let next = body.b.subtract(i, one)?;
    let twice = body.b.add(y, y)?;
    body.give(next);
    body.give(twice);
    for part in p.b.while_loop(&[n, x], cond.done(), body.done())? {
        p.give(part);
    }
    Ok(p.done())
}

/// Captured operands, a nested `if`, and a branch that hands an operand through.
pub(super) fn branch() -> Result<Graph> {
    let mut p = Program::new("if");
    let (c, d, x) = (p.arg(DType::Bool, &[]), p.arg(DType::Bool, &[]), p.arg(DType::F32, &[2]));
    let step = |op: Unary| -> Result<Graph> {
        let mut body = Program::new("step");
        let y = body.arg(DType::F32, &[2]);
        let z = body.b.unary(op, y)?;
        body.give(z);
        Ok(body.done())
    };
    let mut then = Program::new("then");
    let (inner, y) = (then.arg(DType::Bool, &[]), then.arg(DType::F32, &[2]));
    for z in then.b.if_then_else(inner, &[y], step(Unary::Negate)?, step(Unary::Tanh)?)? {
        then.give(z);
    }
    let mut otherwise = Program::new("otherwise");
    let (_, y) = (otherwise.arg(DType::Bool, &[]), otherwise.arg(DType::F32, &[2]));
    otherwise.give(y);
    for part in p.b.if_then_else(c, &[d, x], then.done(), otherwise.done())? {
        p.give(part);
    }
    Ok(p.done())
}

pub(super) fn donation() -> Result<Graph> {
    let mut p = Program::new("donation");
    let (x, w, m) = (p.arg(DType::F32, &[2]), p.arg(DType::F32, &[2]), p.arg(DType::F32, &[2]));
    let sum = p.b.add(x, w)?;
    let product = p.b.multiply(sum, m)?;
    p.give(sum);
    p.give_as(OutputKind::Mutation(2), product);
    p.give_as(OutputKind::Mutation(1), sum);
    Ok(p.done())
}

pub fn located() -> Result<Graph> {
    let mut p = Program::new("located");
    let x = p.arg(DType::F32, &[2, 3]);
    let at = |line, module: &str, op: &str| Loc {
        file: "/home/me/project/net.py".into(),
        line,
        module: module.into(),
        op: op.into(),
        ..Loc::default()
    };
    p.b.set_loc(&at(12, "layers.0.mlp", "aten.tanh.default"));
    let y = p.b.unary(Unary::Tanh, x)?;
    p.b.set_loc(&at(13, "", "aten.sum.default"));
    let z = p.b.reduce(y, Reducer::Add, &[1])?;
    p.b.set_loc(&Loc::default());
    let w = p.b.negate(z)?;
    p.give(w);
    Ok(p.done())
}

/// Two layers and a mean squared error, as a small model would arrive.
pub(super) fn mlp() -> Result<Graph> {
    let mut p = Program::new("mlp");
    let (x, w1, b1) = (p.arg(DType::F32, &[4, 3]), p.arg(DType::F32, &[3, 8]), p.arg(DType::F32, &[8]));
    let (w2, target) = (p.arg(DType::F32, &[8, 2]), p.arg(DType::F32, &[4, 2]));
    let matmul = || DotGeneral {
        lhs_batch: smallvec![],
        rhs_batch: smallvec![],
        lhs_contract: smallvec![1],
        rhs_contract: smallvec![0],
        precision: Precision::Highest,
        out: DType::F32,
        host: false,
    };
    let h = p.b.dot_general(x, w1, matmul())?;
    let bias = p.b.broadcast_in_dim(b1, &[4, 8], &[1])?;
    let h = p.b.add(h, bias)?;
    let zero = p.b.full_like(h, Number::Float(0.0))?;
    let h = p.b.maximum(h, zero)?;
    let y = p.b.dot_general(h, w2, matmul())?;
    let difference = p.b.subtract(y, target)?;
    let squares = p.b.multiply(difference, difference)?;
    let sum = p.b.reduce(squares, Reducer::Add, &[0, 1])?;
    let n = p.b.scalar(Number::Float(8.0), DType::F32)?;
    let loss = p.b.divide(sum, n)?;
    p.give(y);
    p.give(loss);
    Ok(p.done())
}
