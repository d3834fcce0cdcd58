//! Pooling whose windows lie at random places, and the way back from pooling.

use super::index::{put_along, take_along};
use super::pool::{as_positions, nans_backwards, scatter_planes};
use super::support::{not_implemented, torch_name};
use super::{Call, OpDef, Outs, Strides, err, many, ok, one};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::op::{Combiner, Reducer};
use crate::{DType, Number, ensure};

pub(super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::max_unpool2d(Tensor self, Tensor indices, SymInt[2] output_size) -> Tensor",
        unpool::<2>,
        &[
            ok("f32[2,3,2,2], i64[2,3,2,2]{0,3,9,14}, [4,4]"),
            ok("bf16[3,2,2], i64[3,2,2]{1,3,0,5}, [2,3]"),
            ok("f32[0,3,2,2], i64[0,3,2,2], [4,4]"),
            err("f32[2,2], i64[2,2], [2,3]", "Input to max_unpooling2d should be a 3d or 4d Tensor, but got a tensor with 2 dimensions."),
            err("f32[1,2,2], i64[1,2,2], [2,3,3]", "There should be exactly two elements (height, width) in output_size, but got 3 elements."),
            err("f32[1,2,2], i64[1,2,3], [2,3]", "Expected shape of indices to be same as that of the input tensor ([1, 2, 2]) but got indices tensor with shape: [1, 2, 3]"),
            err("f32[1,2,2], i32[1,2,2], [2,3]", "elements in indices should be type int64 but got: Int"),
            err("f32[1,0,2], i64[1,0,2], [2,3]", "max_unpooling2d_forward_out_cpu(): Expected input to have non-zero size for non-batch dimensions, but input has sizes [1, 0, 2] with dimension 1 being empty"),
            err("i64[1,2,2], i64[1,2,2], [2,3]", "\"max_unpool2d\" not implemented for 'Long'"),
        ],
    )
    .variants(&["max_unpool2d.out"])
    .laid_out(Strides::Suggested("self")),
    OpDef::new(
        "aten::max_unpool3d(Tensor self, Tensor indices, SymInt[3] output_size, int[3] stride, int[3] padding) -> Tensor",
        |c, b| {
            for name in ["stride", "padding"] {
                let n = c.ints(name)?.len();
                ensure!(n == 3, "There should be exactly three elements (depth, height, width) in {name}, but got: {n} elements.");
            }
            let strides = c.ints("stride")?;
            ensure!(strides.iter().all(|&s| s > 0), "strides should be greater than zero, but got stride: {strides:?}");
            unpool::<3>(c, b)
        },
        &[
            ok("f32[2,3,2,2,1], i64[2,3,2,2,1]{0,3,9,14}, [4,2,3], [2,1,1], [0,0,0]"),
            err("f32[1,1,2,2], i64[1,1,2,2], [2,3], [1,1,1], [0,0,0]", "There should be exactly three elements (depth, height, width) in output_size, but got 2 elements."),
            err("f32[1,1,2,2], i64[1,1,2,2], [2,3,1], [1,0,1], [0,0,0]", "strides should be greater than zero, but got stride: [1, 0, 1]"),
        ],
    )
    .variants(&["max_unpool3d.out"]),
    OpDef::new(
        "aten::fractional_max_pool2d(Tensor self, int[2] kernel_size, int[2] output_size, Tensor random_samples) -> (Tensor, Tensor)",
        fractional::<2>,
        &[
            ok("f32[2,3,9,8], [2,3], [3,2], f32[2,3,2]{0..1}"),
            ok("f64[3,9,8], [2,2], [8,1], f64[1,3,2]{0..1}"),
            ok("bf16[2,3,9,8], [2,3], [4,3], bf16[2,3,2]{0..1}"),
            ok("f32[1,1,3,3]{-inf}, [2,2], [2,2], f32[1,1,2]{0..1}"),
            ok("f32[1,1,3,3]{1,nan,3,nan,2,1,0}, [2,2], [2,2], f32[1,1,2]{0..1}"),
            ok("f32[0,1,4,4], [2,2], [2,2], f32[0,1,2]"),
            err("f32[4,4], [2,2], [2,2], f32[1,1,2]", "fractional_max_pool2d(): Expected 3D or 4D tensor, but got: [4, 4]"),
            err("f32[1,4,4], [3,3], [3,3], f32[1,1,2]", "fractional_max_pool2d(): pool height 3 too large relative to input height 4"),
            err("f32[1,4,4], [2,2], [2,2], f32[1,1,3]", "Expect _random_samples.size(2) equals to 2; got 3."),
            err("f32[1,4,4], [2,2], [2,2], f32[1,2]", "Expect _random_samples to have 3 dimensions, got 2"),
            err("f32[2,4,4], [2,2], [2,2], f32[1,1,2]", "Expect _random_samples.size(1) equals to input channel size."),
            err("f32[1,4,4], [2,2], [2,2], f64[1,1,2]", "Expect _random_samples to have the same dtype as input"),
            err("i64[1,4,4], [2,2], [2,2], i64[1,1,2]", "\"fractional_max_pool2d_out_frame\" not implemented for 'Long'"),
        ],
    )
    .variants(&["fractional_max_pool2d.output"]),
    OpDef::new(
        "aten::fractional_max_pool3d(Tensor self, int[3] kernel_size, int[3] output_size, Tensor random_samples) -> (Tensor, Tensor)",
        fractional::<3>,
        &[
            ok("f32[2,3,5,7,6], [2,3,1], [3,2,4], f32[2,3,3]{0..1}"),
            ok("f32[3,5,7,6], 2, 2, f32[1,3,3]{0..1}"),
            err("f32[4,4,4], 2, 2, f32[1,1,3]", "Expected 4D or 5D tensor, but got: [4, 4, 4]"),
            err("f32[1,4,4,4], 3, 3, f32[1,1,3]", "pool time 3 too large relative to input time 4"),
        ],
    )
    .variants(&["fractional_max_pool3d.output"]),
    OpDef::new(
        "aten::fractional_max_pool2d_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] output_size, Tensor indices) -> Tensor",
        |c, b| fractional_backward(c, b, 2),
        &[
            ok("f32[2,3,2,2], f32[2,3,4,4], 2, 2, i64[2,3,2,2]{0..16}"),
            ok("bf16[3,2,2], bf16[3,4,4], 2, 2, i64[3,2,2]{0..16}"),
            err("f32[1,2,3], f32[1,4,4], 2, 2, i64[1,2,3]", "gradOutput sizes unexpected"),
        ],
    )
    .variants(&["fractional_max_pool2d_backward.grad_input"]),
    OpDef::new(
        "aten::fractional_max_pool3d_backward(Tensor grad_output, Tensor self, int[3] kernel_size, int[3] output_size, Tensor indices) -> Tensor",
        |c, b| fractional_backward(c, b, 3),
        &[ok("f32[2,3,2,2,2], f32[2,3,4,4,4], 2, 2, i64[2,3,2,2,2]{0..64}")],
    )
    .variants(&["fractional_max_pool3d_backward.grad_input"]),
];

fn filled(shape: &[usize], n: usize, what: &str) -> Result<()> {
    let empty = (shape.len() - n..shape.len()).find(|&d| shape[d] == 0);
    let d = empty.unwrap_or(0);
    ensure!(
        empty.is_none(),
        "{what}(): Expected input to have non-zero size for non-batch dimensions, but input has sizes {shape:?} with dimension {d} being empty"
    );
    Ok(())
}

/// Each element at its index in a plane of zeros.
fn unpool<const N: usize>(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (v, indices) = (c.tensor(b, "self")?, c.tensor(b, "indices")?);
    let (shape, dtype, op) = (b.shape(v), b.dtype(v), format!("max_unpooling{N}d"));
    let (outs, rank) = (c.sizes("output_size")?, shape.len());
    let kind = b.dtype(indices);
    ensure!(kind == DType::I64, "elements in indices should be type int64 but got: {}", torch_name(kind));
    let (count, axes) = if N == 2 { ("two", "height, width") } else { ("three", "depth, height, width") };
    let n = outs.len();
    ensure!(n == N, "There should be exactly {count} elements ({axes}) in output_size, but got {n} elements.");
    ensure!(
        rank == N + 1 || rank == N + 2,
        "Input to {op} should be a {}d or {}d Tensor, but got a tensor with {rank} dimensions.",
        N + 1,
        N + 2
    );
    let at = b.shape(indices);
    ensure!(
        at == shape,
        "Expected shape of indices to be same as that of the input tensor ({shape:?}) but got indices tensor with shape: {at:?}"
    );
    filled(&shape, rank - usize::from(rank == N + 2), &format!("{op}_forward_out_cpu"))?;
    if !dtype.is_float() {
        return not_implemented(&format!("max_unpool{N}d"), dtype);
    }
    let lead = &shape[..rank - N];
    let (planes, places) = (lead.iter().product::<usize>(), shape[rank - N..].iter().product::<usize>());
    let zeros = b.full(Number::Int(0), dtype, &[planes, outs.iter().product()])?;
    let flat = |v| b.reshape(v, &[planes, places]);
    let put = put_along(b, zeros, 1, flat(indices)?, flat(v)?, Combiner::Set)?;
    one(b.reshape(put, &[lead, &outs[..]].concat())?)
}

/// Maxima over windows of one size whose distances a random number per plane and dimension decides.
fn fractional<const N: usize>(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (v, samples) = (c.tensor(b, "self")?, c.tensor(b, "random_samples")?);
    let (shape, dtype) = (b.shape(v), b.dtype(v));
    let (kernel, outs) = (per_dimension::<N>(c, "kernel_size")?, per_dimension::<N>(c, "output_size")?);
    let rank = shape.len();
    let op = format!("fractional_max_pool{N}d{}", if N == 3 { "_out" } else { "" });
    ensure!(rank == N + 1 || rank == N + 2, "{op}(): Expected {}D or {}D tensor, but got: {shape:?}", N + 1, N + 2);
    filled(&shape, N + 1, &op)?;
    let plane = &shape[rank - N..];
    for (i, name) in ["time", "height", "width"][3 - N..].iter().enumerate() {
        let fits = outs[i] + kernel[i] <= plane[i] + 1;
        ensure!(fits, "{op}(): pool {name} {} too large relative to input {name} {}", kernel[i], plane[i]);
    }
    let planes: usize = shape[..rank - N].iter().product();
    let samples = checked_samples(b, samples, dtype, &shape, N)?;
    if !dtype.is_float() {
        return not_implemented(&format!("fractional_max_pool{N}d_out_frame"), dtype);
    }
    let result = [&shape[..rank - N], &outs[..]].concat();
    if planes == 0 || outs.contains(&0) {
        return many([b.full(Number::Int(0), dtype, &result)?, b.full(Number::Int(0), DType::I64, &result)?]);
    }
    let (windows, taps): (usize, usize) = (outs.iter().product(), kernel.iter().product());
    // Of each window, the positions of its elements in the plane.
    let grid = [&[planes], &outs[..], &kernel[..]].concat();
    let mut positions = b.full(Number::Int(0), DType::I64, &grid)?;
    for i in 0..N {
        let nth = if N == 2 { 1 - i } else { i };
        let sample = b.reshape(b.slice_dim(samples, 1, nth, nth + 1, 1)?, &[planes])?;
        let starts = starts(b, sample, plane[i], outs[i], kernel[i])?;
        let start = b.broadcast_in_dim(starts, &grid, &[0, 1 + i])?;
        let place = b.add(start, b.iota(DType::I64, &grid, 1 + N + i)?)?;
        let extent = b.full_like(positions, Number::Int(plane[i] as i64))?;
        positions = b.add(b.multiply(positions, extent)?, place)?;
    }
    let flat = b.reshape(v, &[planes, plane.iter().product()])?;
    let positions = b.reshape(positions, &[planes, windows * taps])?;
    let by_window = |v| b.reshape(v, &[planes, windows, taps]);
    let (values, positions) = (by_window(take_along(b, flat, 1, positions)?)?, by_window(positions)?);
    let places = nans_backwards(b, values, positions)?;
    let (maxima, places) = b.reduce_arg(values, places, Reducer::ArgMax, &[2])?;
    many([b.reshape(maxima, &result)?, b.reshape(as_positions(b, places, dtype)?, &result)?])
}

fn per_dimension<const N: usize>(c: &Call<'_>, name: &str) -> Result<Vec<usize>> {
    let given = c.sizes(name)?;
    ensure!(given.len() == N || given.len() == 1, "{}: {name} must either be a single Int or tuple of Ints", c.name());
    Ok((0..N).map(|i| given[i.min(given.len() - 1)]).collect())
}

/// The random numbers as `[planes, n]`.
fn checked_samples(b: &Builder, samples: ValueId, dtype: DType, shape: &[usize], n: usize) -> Result<ValueId> {
    let given = b.shape(samples);
    ensure!(b.dtype(samples) == dtype, "Expect _random_samples to have the same dtype as input");
    ensure!(given.len() == 3, "Expect _random_samples to have 3 dimensions, got {}", given.len());
    let (batch, channels) = if shape.len() == n + 2 { (shape[0], shape[1]) } else { (1, shape[0]) };
    ensure!(given[0] >= batch, "Expect _random_samples.size(0) no less then input batch size.");
    ensure!(given[1] == channels, "Expect _random_samples.size(1) equals to input channel size.");
    ensure!(given[2] == n, "Expect _random_samples.size(2) equals to {n}; got {}.", given[2]);
    b.reshape(b.slice_dim(samples, 0, 0, batch, 1)?, &[batch * channels, n])
}

/// Where `out` windows of `kernel` elements begin, `i64[planes, out]`: the last ends with the plane.
fn starts(b: &Builder, sample: ValueId, extent: usize, out: usize, kernel: usize) -> Result<ValueId> {
    let (planes, room) = (b.shape(sample)[0], (extent - kernel) as i64);
    let last = b.full(Number::Int(room), DType::I64, &[planes, 1])?;
    if out == 1 {
        return Ok(last);
    }
    let shape = [planes, out - 1];
    // In the type of the samples, as PyTorch counts: it decides where a window begins.
    let number = |n: i64| b.full(Number::Int(n), b.dtype(sample), &shape);
    let alpha = b.divide(number(room)?, number(out as i64 - 1)?)?;
    let sample = b.broadcast_in_dim(sample, &shape, &[0])?;
    let whole = |v| b.convert(b.multiply(v, alpha)?, DType::I64);
    let nth = b.iota(b.dtype(sample), &shape, 1)?;
    let starts = b.subtract(whole(b.add(nth, sample)?)?, whole(sample)?)?;
    b.concatenate(&[starts, last], 1)
}

fn fractional_backward(c: &Call<'_>, b: &Builder, n: usize) -> Result<Outs> {
    let (grad, v, indices) = (c.tensor(b, "grad_output")?, c.tensor(b, "self")?, c.tensor(b, "indices")?);
    let (shape, given) = (b.shape(v), b.shape(grad));
    let (outs, rank) = (c.sizes("output_size")?, shape.len());
    let fits = rank > n && given.len() == rank && (0..n).all(|i| given[rank - n + i] == outs[i.min(outs.len() - 1)]);
    ensure!(fits, "{}(): gradOutput sizes unexpected", c.name());
    ensure!(b.shape(indices) == given, "{}(): indices and gradOutput differ in shape", c.name());
    one(scatter_planes(b, grad, indices, &shape, n)?)
}
