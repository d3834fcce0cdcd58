//! Pooling to a given extent: window `i` of `out` over `in` elements holds `floor(i in / out)..ceil((i + 1) in / out)`.
//!
//! Windows are products of ranges, so each dimension is pooled by itself.

use super::expr::formula;
use super::pool::{as_positions, nans_backwards, positions, scatter_planes};
use super::resample::{Taps, adjoint, resample, rows};
use super::{Call, OpDef, Outs, err, many, ok, one};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::types::Dims;
use crate::{Number, Reducer, ensure};

pub(super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::adaptive_avg_pool1d(Tensor self, int[1] output_size) -> Tensor",
        average::<1>,
        &[
            ok("f32[2,3,6], 4"),
            ok("f32[3,6], 3"),
            err("f32[6], 4", "Expected 2 to 3 dimensions, but got 1-dimensional tensor for argument #1 'self' (while checking arguments for adaptive_avg_pool1d)"),
        ],
    )
    .variants(&["adaptive_avg_pool1d.out"]),
    OpDef::new(
        "aten::adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor",
        average::<2>,
        &[
            ok("f32[2,3,6,6], [4,3]"),
            ok("f32[2,3,6,6], [1,1]"),
            ok("bf16[3,7,5], [7,8]"),
            ok("f32[2,3,6,6], [0,3]"),
            ok("f32[0,3,6,6], [4,3]"),
            ok("f32[1,1,5,5]{nan,1,2,3}, [2,2]"),
            err("f32[2,3,6,6], [-1,3]", "adaptive_avg_pool2d: elements of output_size must be greater than or equal to 0 but received {-1, 3}"),
            err("f32[6,6], [4,3]", "adaptive_avg_pool2d(): Expected 3D or 4D tensor, but got [6, 6]"),
            err("f32[2,3,0,6], [4,3]", "Expected input to have non-zero size for non-batch dimensions, but input has sizes [2, 3, 0, 6] with dimension 2 being empty"),
            err("i64[2,3,6,6], [4,3]", "\"adaptive_avg_pool2d\" not implemented for 'Long'"),
        ],
    )
    .variants(&["adaptive_avg_pool2d.out"]),
    OpDef::new(
        "aten::adaptive_avg_pool3d(Tensor self, SymInt[3] output_size) -> Tensor",
        average::<3>,
        &[ok("f32[2,3,4,6,5], [3,4,2]"), ok("f32[3,4,6,5], [2,3,1]")],
    )
    .variants(&["adaptive_avg_pool3d.out"]),
    OpDef::new(
        "aten::_adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor",
        average::<2>,
        &[ok("f32[2,3,6,6], [4,3]"), ok("f32[2,3,6,6], [1,1]"), ok("bf16[2,3,6,6], [2,2]")],
    )
    .variants(&["_adaptive_avg_pool2d.out"]),
    OpDef::new(
        "aten::_adaptive_avg_pool3d(Tensor self, SymInt[3] output_size) -> Tensor",
        average::<3>,
        &[ok("f32[2,3,4,6,5], [3,4,2]")],
    )
    .variants(&["_adaptive_avg_pool3d.out"]),
    OpDef::new(
        "aten::_adaptive_avg_pool2d_backward(Tensor grad_output, Tensor self) -> Tensor",
        average_backward::<2>,
        &[ok("f32[2,3,4,3], f32[2,3,6,6]"), ok("bf16[3,1,1], bf16[3,6,5]"), ok("f32[2,3,7,8], f32[2,3,6,5]")],
    )
    .variants(&["_adaptive_avg_pool2d_backward.out"]),
    OpDef::new(
        "aten::_adaptive_avg_pool3d_backward(Tensor grad_output, Tensor self) -> Tensor",
        average_backward::<3>,
        &[ok("f32[2,3,3,4,2], f32[2,3,4,6,5]")],
    )
    .variants(&["_adaptive_avg_pool3d_backward.out", "adaptive_avg_pool3d_backward.grad_input"]),
    OpDef::new(
        "aten::adaptive_max_pool1d(Tensor self, int[1] output_size) -> (Tensor, Tensor)",
        maximum::<1>,
        &[ok("f32[2,3,6], 4"), ok("f32[3,7], 3")],
    ),
    OpDef::new(
        "aten::adaptive_max_pool2d(Tensor self, int[2] output_size) -> (Tensor, Tensor)",
        maximum::<2>,
        &[
            ok("f32[2,3,6,6], [4,3]"),
            ok("f32[3,7,5]{1,1,0,-inf,2}, [3,2]"),
            ok("bf16[2,3,6,6], [1,1]"),
            err("f32[6,6], [4,3]", "adaptive_max_pool2d(): Expected 3D or 4D tensor, but got: [6, 6]"),
        ],
    )
    .variants(&["adaptive_max_pool2d.out"]),
    OpDef::new(
        "aten::adaptive_max_pool3d(Tensor self, int[3] output_size) -> (Tensor, Tensor)",
        maximum::<3>,
        &[ok("f32[2,3,4,6,5], [3,4,2]")],
    )
    .variants(&["adaptive_max_pool3d.out"]),
    OpDef::new(
        "aten::adaptive_max_pool2d_backward(Tensor grad_output, Tensor self, Tensor indices) -> Tensor",
        |c, b| maximum_backward(c, b, 2),
        &[ok("f32[2,3,4,3], f32[2,3,6,6], i64[2,3,4,3]{0..36}")],
    )
    .variants(&["adaptive_max_pool2d_backward.grad_input"]),
    OpDef::new(
        "aten::adaptive_max_pool3d_backward(Tensor grad_output, Tensor self, Tensor indices) -> Tensor",
        |c, b| maximum_backward(c, b, 3),
        &[ok("f32[2,3,3,4,2], f32[2,3,4,6,5], i64[2,3,3,4,2]{0..120}")],
    )
    .variants(&["adaptive_max_pool3d_backward.grad_input"]),
];

/// The elements of each of `out` windows over `extent` elements.
fn windows(extent: usize, out: usize) -> Vec<Vec<usize>> {
    let window = |i: usize| (i * extent / out..((i + 1) * extent).div_ceil(out)).collect();
    (0..out).map(window).collect()
}

/// Sums over windows.
fn taps(extent: usize, out: usize) -> Taps {
    windows(extent, out).into_iter().map(|w| w.into_iter().map(|i| (i, 1.0)).collect()).collect()
}

/// The extents asked for.
fn output_size<const N: usize>(c: &Call<'_>, op: &str) -> Result<Vec<usize>> {
    let given = c.ints("output_size")?;
    ensure!(given.len() == N, "{op}: output_size must be {N}");
    let listed = given.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
    let fits = given.iter().all(|&d| d >= 0);
    ensure!(fits, "{op}: elements of output_size must be greater than or equal to 0 but received {{{listed}}}");
    Ok(given.into_iter().map(|d| d as usize).collect())
}

fn check<const N: usize>(shape: &[usize], op: &str, colon: &str) -> Result<()> {
    let n = shape.len();
    if N == 1 {
        ensure!(
            n == 2 || n == 3,
            "Expected 2 to 3 dimensions, but got {n}-dimensional tensor for argument #1 'self' (while checking arguments for {op})"
        );
    }
    ensure!(n == N + 1 || n == N + 2, "{op}(): Expected {}D or {}D tensor, but got{colon} {shape:?}", N + 1, N + 2);
    Ok(())
}

fn filled<const N: usize>(shape: &[usize], op: &str) -> Result<()> {
    let first = shape.len() - N;
    let empty = (first..shape.len()).find(|&d| shape[d] == 0);
    let d = empty.unwrap_or(0);
    ensure!(
        empty.is_none(),
        "{op}(): Expected input to have non-zero size for non-batch dimensions, but input has sizes {shape:?} with dimension {d} being empty"
    );
    Ok(())
}

fn average<const N: usize>(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let x = c.tensor(b, "self")?;
    let (shape, dtype) = (b.shape(x), b.dtype(x));
    let op = format!("adaptive_avg_pool{N}d");
    let outs = output_size::<N>(c, &op)?;
    check::<N>(&shape, &op, "")?;
    let first = shape.len() - N;
    let wide = b.convert(x, dtype.accumulator())?;
    if N > 1 && outs.iter().all(|&o| o == 1) && dtype.is_float() {
        // PyTorch takes a mean then, of nothing too.
        let dims: Dims = (first..shape.len()).collect();
        let mean = super::support::unsqueeze(b, super::normalization::mean(b, wide, &dims)?, &dims)?;
        return one(b.convert(mean, dtype)?);
    }
    filled::<N>(&shape, &op)?;
    if !dtype.is_float() {
        return super::support::not_implemented(&format!("adaptive_avg_pool{}d", N.max(2)), dtype);
    }
    let mut sums = wide;
    for (i, &out) in outs.iter().enumerate() {
        sums = resample(b, sums, first + i, &taps(shape[first + i], out))?;
    }
    one(b.convert(b.divide(sums, sizes(b, sums, &shape[first..])?)?, dtype)?)
}

/// The number of elements in each window, in the type and shape of `like`.
fn sizes(b: &Builder, like: ValueId, ins: &[usize]) -> Result<ValueId> {
    let shape = b.shape(like);
    let first = shape.len() - ins.len();
    let mut product = b.full_like(like, Number::Int(1))?;
    for (i, &extent) in ins.iter().enumerate() {
        let ones = b.full(Number::Int(1), b.dtype(like), &[extent])?;
        let counts = resample(b, ones, 0, &taps(extent, shape[first + i]))?;
        product = b.multiply(product, b.broadcast_in_dim(counts, &shape, &[first + i])?)?;
    }
    Ok(product)
}

fn average_backward<const N: usize>(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (grad, x) = (c.tensor(b, "grad_output")?, c.tensor(b, "self")?);
    let (shape, outs, dtype) = (b.shape(x), b.shape(grad), b.dtype(x));
    let op = format!("adaptive_avg_pool{N}d_backward");
    check::<N>(&shape, &op, "")?;
    let first = shape.len() - N;
    ensure!(outs.len() == shape.len() && outs[..first] == shape[..first], "{op}(): grad_output does not fit self");
    let wide = b.convert(grad, dtype.accumulator())?;
    let divisors = sizes(b, wide, &shape[first..])?;
    let mut sums = formula(b, [wide, divisors], |[g, n]| g / n)?;
    for d in first..shape.len() {
        sums = resample(b, sums, d, &adjoint(&taps(shape[d], outs[d]), shape[d]))?;
    }
    one(b.convert(sums, dtype)?)
}

/// Maxima with their positions in the flattened plane: the first of equals, but the last NaN.
fn maximum<const N: usize>(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let x = c.tensor(b, "self")?;
    let (shape, dtype) = (b.shape(x), b.dtype(x));
    let op = format!("adaptive_max_pool{N}d");
    let outs = output_size::<N>(c, &op)?;
    check::<N>(&shape, &op, ":")?;
    filled::<N>(&shape, &op)?;
    if !dtype.is_float() {
        return super::support::not_implemented(&format!("adaptive_max_pool{}d", N.max(2)), dtype);
    }
    let first = shape.len() - N;
    let plane = &shape[first..];
    let (mut values, mut places) = (x, nans_backwards(b, x, positions(b, &shape, N)?)?);
    let beyond = Number::greatest(b.dtype(places));
    // Rows first: the earliest of equal elements of a row, then of a column, is the earliest of the window.
    for i in (0..N).rev() {
        let (d, windows) = (first + i, windows(plane[i], outs[i]));
        let v = rows(b, values, d, &windows, Number::Float(f64::NEG_INFINITY))?;
        let p = rows(b, places, d, &windows, beyond)?;
        (values, places) = b.reduce_arg(v, p, Reducer::ArgMax, &[d + 1])?;
    }
    many([values, as_positions(b, places, dtype)?])
}

fn maximum_backward(c: &Call<'_>, b: &Builder, n: usize) -> Result<Outs> {
    let (grad, x, indices) = (c.tensor(b, "grad_output")?, c.tensor(b, "self")?, c.tensor(b, "indices")?);
    ensure!(b.shape(grad) == b.shape(indices), "expected the gradient's shape to match that of the indices");
    one(scatter_planes(b, grad, indices, &b.shape(x), n)?)
}
