//! Normalisation over trailing dimensions or groups of channels: layer, group and RMS norm.
//!
//! Statistics are computed in the accumulation type; what is saved for the backward pass has the type that PyTorch's CPU
//! kernels give it.

use super::expr::{formula, wide_formula};
use super::support::{broadcast_to, not_implemented, scalar_like, unsqueeze};
use super::{Call, OpDef, Outs, Scalar, err, many, ok, one};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::types::{Dims, Shape};
use crate::{DType, Number, Reducer, ensure};

pub(super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> (Tensor, Tensor, Tensor)",
        |c, b| many(layer_norm(c, b)?),
        &[
            ok("f32[2,3,4], [3,4], f32[3,4], f32[3,4], 1e-5"),
            ok("f64[2,3,4], [4], none, none, 1e-5"),
            ok("bf16[2,3,8], [8], bf16[8], bf16[8], 1e-5"),
            ok("bf16[2,8], [8], f32[8], none, 1e-5"),
            ok("f16[2,8], [8], none, f16[8], 0.1"),
            ok("f32[0,4], [4], f32[4], f32[4], 1e-5"),
            ok("f32[2,0], [0], f32[0], f32[0], 1e-5"),
            err("f32[2,4], [3], none, none, 1e-5", "Given normalized_shape=[3], expected input with shape [*, 3]"),
            err("f32[2,4], [], none, none, 1e-5", "Expected normalized_shape to be at least 1-dimensional"),
            err("f32[2,4], [4], f32[3], none, 1e-5", "Expected weight to be of same shape as normalized_shape, but got weight of shape [3]"),
            err("i64[2,4], [4], none, none, 1e-5", "\"LayerNormKernelImpl\" not implemented for 'Long'"),
        ],
    )
    .variants(&["native_layer_norm.out"]),
    OpDef::new(
        "aten::layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1.0000000000000001e-05, bool cudnn_enable=True) -> Tensor",
        |c, b| one(layer_norm(c, b)?[0]),
        &[
            ok("f32[2,3,4], [4], f32[4], f32[4]"),
            ok("bf16[2,4], [4]"),
            err("f32[2,4], [4], f32[4], f32[3]", "Expected bias to be of same shape as normalized_shape, but got bias of shape [3]"),
        ],
    ),
    OpDef::new(
        "aten::native_layer_norm_backward(Tensor grad_out, Tensor input, SymInt[] normalized_shape, Tensor mean, Tensor rstd, Tensor? weight, Tensor? bias, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
        layer_norm_backward,
        &[
            ok("f32[2,3,4], f32[2,3,4], [4], f32[2,3,1], f32[2,3,1], f32[4], f32[4], [true,true,true]"),
            ok("f32[2,3,4], f32[2,3,4], [3,4], f32[2,1,1], f32[2,1,1], none, none, [true,false,false]"),
            ok("bf16[2,8], bf16[2,8], [8], f32[2,1], f32[2,1], f32[8], f32[8], [true,false,true]"),
            ok("bf16[2,8], bf16[2,8], [8], bf16[2,1], bf16[2,1], bf16[8], bf16[8], [false,true,true]"),
            ok("f32[0,4], f32[0,4], [4], f32[0,1], f32[0,1], f32[4], f32[4], [true,true,true]"),
            err("f32[2,4], f32[2,4], [3], f32[2,1], f32[2,1], none, none, [true,false,false]", "Given normalized_shape=[3]"),
        ],
    )
    .variants(&["native_layer_norm_backward.out"]),
    OpDef::new(
        "aten::native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt HxW, int group, float eps) -> (Tensor, Tensor, Tensor)",
        |c, b| {
            let x = c.tensor(b, "input")?;
            let sizes = Groups::read(c)?;
            many(group_norm(c, b, x, &sizes)?)
        },
        &[
            ok("f32[2,6,4], f32[6], f32[6], 2, 6, 4, 3, 1e-5"),
            ok("f32[2,6,2,3], none, none, 2, 6, 6, 2, 1e-5"),
            ok("bf16[2,6,4], bf16[6], bf16[6], 2, 6, 4, 3, 1e-5"),
            ok("bf16[2,6,4], f32[6], f32[6], 2, 6, 4, 6, 1e-5"),
            err("f32[2,6,4], none, none, 2, 6, 4, 4, 1e-5", "Expected number of channels in input to be divisible by num_groups"),
        ],
    )
    .variants(&["native_group_norm.out"]),
    OpDef::new(
        "aten::group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1.0000000000000001e-05, bool cudnn_enabled=True) -> Tensor",
        |c, b| {
            let x = c.tensor(b, "input")?;
            let s = b.shape(x);
            super::support::dim(1, s.len())?;
            let groups = c.int("num_groups")?;
            ensure!(groups > 0, "Expected num groups to be greater than 0, got {groups}");
            let sizes = Groups { n: s[0], c: s[1], inner: s[2..].iter().product(), groups: groups as usize };
            one(group_norm(c, b, x, &sizes)?[0])
        },
        &[
            ok("f32[2,6,4], 3, f32[6], f32[6]"),
            ok("f32[2,6], 2"),
            ok("f16[2,6,2,2], 1, f16[6], f16[6]"),
            ok("f32[0,6,4], 3, f32[6], f32[6]"),
            err("f32[2,6,4], 4", "divisible by num_groups, but got input of shape [2, 6, 4] and num_groups=4"),
            err("f32[2,6,4], 3, f32[5]", "Expected weight to be a vector of size equal to the number of channels in input"),
        ],
    ),
    OpDef::new(
        "aten::native_group_norm_backward(Tensor grad_out, Tensor input, Tensor mean, Tensor rstd, Tensor? weight, SymInt N, SymInt C, SymInt HxW, int group, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
        group_norm_backward,
        &[
            ok("f32[2,6,4], f32[2,6,4], f32[2,3], f32[2,3], f32[6], 2, 6, 4, 3, [true,true,true]"),
            ok("f32[2,6,2,3], f32[2,6,2,3], f32[2,2], f32[2,2], none, 2, 6, 6, 2, [true,true,true]"),
            ok("bf16[2,6,4], bf16[2,6,4], f32[2,3], f32[2,3], f32[6], 2, 6, 4, 3, [true,true,true]"),
            ok("f32[2,6,4], f32[2,6,4], f32[2,3], f32[2,3], f32[6], 2, 6, 4, 3, [true,false,false]"),
        ],
    )
    .variants(&["native_group_norm_backward.out"]),
    OpDef::new(
        "aten::rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor",
        |c, b| one(rms_norm(c, b)?.0),
        &[
            ok("f32[2,3,4], [4], f32[4]"),
            ok("f32[2,3,4], [3,4], none, 0.1"),
            ok("bf16[2,8], [8], bf16[8]"),
            ok("f64[2,4], [4]"),
            ok("f32[0,4], [4]"),
            err("f32[2,4], [3]", "Given normalized_shape=[3], expected input with shape [*, 3]"),
        ],
    ),
    OpDef::new(
        "aten::_fused_rms_norm(Tensor input, int[] normalized_shape, Tensor? weight, float? eps) -> (Tensor, Tensor)",
        |c, b| {
            let (y, rstd) = rms_norm(c, b)?;
            many([y, rstd])
        },
        &[ok("f32[2,3,4], [4], f32[4], 1e-5"), ok("bf16[2,8], [8], bf16[8], none"), ok("f32[2,3,4], [3,4], none, none")],
    ),
    OpDef::new(
        "aten::_fused_rms_norm_backward(Tensor grad_out, Tensor input, int[] normalized_shape, Tensor rstd, Tensor? weight, bool[2] output_mask) -> (Tensor, Tensor)",
        rms_norm_backward,
        // PyTorch has no CPU kernel to compare with.
        &[err("f32[2,4], f32[2,4], [3], f32[2,1], none, [true,true]", "Given normalized_shape=[3]")],
    ),
];

/// Mean and biased variance of `x` over `dims`. A sum in `f32` leaves the mean a few roundings off, which shifts every
/// normalised value; what remains of it after the subtraction corrects both, in the same pass as the variance.
pub(super) fn moments(b: &Builder, x: ValueId, dims: &[usize]) -> Result<(ValueId, ValueId)> {
    let first = mean(b, x, dims)?;
    let centred = b.subtract(x, back_over(b, first, x, dims)?)?;
    let square = mean(b, b.multiply(centred, centred)?, dims)?;
    if b.shape(x).contains(&0) {
        return Ok((first, square)); // NaN, which XLA's folding of `max` would lose
    }
    let rest = mean(b, centred, dims)?;
    Ok((b.add(first, rest)?, formula(b, [square, rest], |[square, rest]| (square - rest * rest).max(0.0))?))
}

/// The mean of `x` over `dims`; NaN over nothing.
pub(super) fn mean(b: &Builder, x: ValueId, dims: &[usize]) -> Result<ValueId> {
    let shape = b.shape(x);
    let count: usize = dims.iter().map(|&d| shape[d]).product();
    let sum = b.reduce(x, Reducer::Add, dims)?;
    formula(b, [sum], |[sum]| sum / count as f64)
}

/// A reduction of `like` over `dims`, repeated along them.
pub(super) fn back_over(b: &Builder, v: ValueId, like: ValueId, dims: &[usize]) -> Result<ValueId> {
    let kept: Dims = (0..b.rank(like)).filter(|d| !dims.contains(d)).collect();
    b.broadcast_in_dim(v, &b.shape(like), &kept)
}

/// `1 / sqrt(var + eps)`.
pub(super) fn inverse_deviation(c: &Call<'_>, b: &Builder, var: ValueId, eps: &Scalar) -> Result<ValueId> {
    formula(b, [var, scalar_like(c, b, eps, var)?], |[var, eps]| (var + eps).rsqrt())
}

/// The gradient of an input that was normalised over `dims`, from that of the result: `rstd * (g - mean(g) - xhat *
/// mean(g * xhat))`. All of one shape.
pub(super) fn normalised_gradient(
    b: &Builder,
    grad: ValueId,
    xhat: ValueId,
    rstd: ValueId,
    dims: &[usize],
) -> Result<ValueId> {
    let average = |v| back_over(b, mean(b, v, dims)?, xhat, dims);
    let (first, second) = (average(grad)?, average(b.multiply(grad, xhat)?)?);
    formula(b, [grad, xhat, rstd, first, second], |[g, x, r, m, n]| r * (g - m - x * n))
}

/// The type of saved statistics and of the gradients of `params`: `f32` if a half-precision input meets `f32` ones.
pub(super) fn statistics_type(b: &Builder, input: ValueId, params: &[Option<ValueId>]) -> DType {
    let dtype = b.dtype(input);
    let mixed = dtype.accumulator() != dtype && params.iter().flatten().any(|&p| b.dtype(p) == DType::F32);
    if mixed { DType::F32 } else { dtype }
}

/// `v` times `weight`, plus `bias`, each spread over the dimensions `dims` of `v`.
pub(super) fn affine(
    b: &Builder,
    v: ValueId,
    weight: Option<ValueId>,
    bias: Option<ValueId>,
    dims: &[usize],
) -> Result<ValueId> {
    let over = |p| b.broadcast_in_dim(b.convert(p, b.dtype(v))?, &b.shape(v), dims);
    let v = weight.map_or(Ok(v), |w| b.multiply(v, over(w)?))?;
    bias.map_or(Ok(v), |bias| b.add(v, over(bias)?))
}

/// The dimensions that `normalized_shape` names, the last ones of `input`.
fn normalised_dims(c: &Call<'_>, b: &Builder, input: ValueId, params: &[&str]) -> Result<Dims> {
    let (shape, normal) = (b.shape(input), c.sizes("normalized_shape")?);
    ensure!(
        !normal.is_empty(),
        "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got normalized_shape = []"
    );
    for name in params {
        let Some(p) = c.optional_tensor(b, name)? else { continue };
        let s = b.shape(p);
        ensure!(
            s == normal,
            "Expected {name} to be of same shape as normalized_shape, but got {name} of shape {s:?} and normalized_shape = {normal:?}"
        );
    }
    let listed = normal.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    ensure!(
        shape.ends_with(&normal),
        "Given normalized_shape={normal:?}, expected input with shape [*, {listed}], but got input of size{shape:?}"
    );
    Ok((shape.len() - normal.len()..shape.len()).collect())
}

fn layer_norm(c: &Call<'_>, b: &Builder) -> Result<[ValueId; 3]> {
    let input = c.tensor(b, "input")?;
    let (weight, bias) = (c.optional_tensor(b, "weight")?, c.optional_tensor(b, "bias")?);
    let dims = normalised_dims(c, b, input, &["weight", "bias"])?;
    let dtype = b.dtype(input);
    if !dtype.is_float() {
        return not_implemented("LayerNormKernelImpl", dtype);
    }
    let saved = statistics_type(b, input, &[weight, bias]);
    for p in [weight, bias].into_iter().flatten() {
        let name = super::support::torch_name(saved);
        ensure!(b.dtype(p) == saved, "mixed dtype (CPU): expect parameter to have scalar type of {name}");
    }
    let x = b.convert(input, dtype.accumulator())?;
    let (mut mean, var) = moments(b, x, &dims)?;
    if dims.iter().any(|&d| b.shape(x)[d] == 0) {
        mean = super::support::like(b, mean, 0.0)?; // PyTorch's mean of nothing here; the deviation is NaN
    }
    let rstd = inverse_deviation(c, b, var, &c.scalar("eps")?)?;
    let over = |v| back_over(b, v, x, &dims);
    let xhat = formula(b, [x, over(mean)?, over(rstd)?], |[x, m, r]| (x - m) * r)?;
    let y = b.convert(affine(b, xhat, weight, bias, &dims)?, dtype)?;
    Ok([y, unsqueeze(b, mean, &dims)?, unsqueeze(b, rstd, &dims)?])
}

fn layer_norm_backward(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (grad, input) = (c.tensor(b, "grad_out")?, c.tensor(b, "input")?);
    let weight = c.optional_tensor(b, "weight")?;
    let dims = normalised_dims(c, b, input, &["weight"])?;
    let mask = c.flags("output_mask")?;
    let (dtype, wide) = (b.dtype(input), b.dtype(input).accumulator());
    let shape = b.shape(input);
    let stat = |name| broadcast_to(b, b.convert(c.tensor(b, name)?, wide)?, &shape);
    let (grad, x, rstd) = (b.convert(grad, wide)?, b.convert(input, wide)?, stat("rstd")?);
    let xhat = formula(b, [x, stat("mean")?, rstd], |[x, m, r]| (x - m) * r)?;
    let scaled = affine(b, grad, weight, None, &dims)?;
    let grad_input = normalised_gradient(b, scaled, xhat, rstd, &dims)?;
    let rows: Dims = (0..shape.len() - dims.len()).collect();
    let per_weight = |v| b.convert(b.reduce(v, Reducer::Add, &rows)?, weight.map_or(dtype, |w| b.dtype(w)));
    Ok(vec![
        mask[0].then_some(b.convert(grad_input, dtype)?),
        mask[1].then_some(per_weight(b.multiply(grad, xhat)?)?),
        mask[2].then_some(per_weight(grad)?),
    ])
}

/// Extents of a group norm: batch, channels, everything behind them, groups.
struct Groups {
    n: usize,
    c: usize,
    inner: usize,
    groups: usize,
}

impl Groups {
    fn read(c: &Call<'_>) -> Result<Groups> {
        let size = |name| -> Result<usize> {
            let size = c.int(name)?;
            ensure!(size >= 0, "{name} must not be negative, but is {size}");
            Ok(size as usize)
        };
        Ok(Groups { n: size("N")?, c: size("C")?, inner: size("HxW")?, groups: size("group")? })
    }
    fn check(&self, b: &Builder, x: ValueId, params: &[(&str, Option<ValueId>)]) -> Result<()> {
        let shape = b.shape(x);
        ensure!(
            self.groups > 0 && self.c.is_multiple_of(self.groups),
            "Expected number of channels in input to be divisible by num_groups, but got input of shape {shape:?} and num_groups={}",
            self.groups
        );
        let count = self.n.checked_mul(self.c).and_then(|n| n.checked_mul(self.inner));
        ensure!(count == Some(shape.iter().product()), "input of shape {shape:?} has not N * C * HxW elements");
        for (name, p) in params {
            let Some(p) = *p else { continue };
            ensure!(
                b.shape(p)[..] == [self.c],
                "Expected {name} to be a vector of size equal to the number of channels in input, but got {name} of shape {:?} and input of shape {shape:?}",
                b.shape(p)
            );
        }
        Ok(())
    }
    /// Group by group.
    fn grouped(&self) -> [usize; 4] {
        [self.n, self.groups, self.c / self.groups, self.inner]
    }
    /// Channel by channel.
    fn channels(&self) -> [usize; 3] {
        [self.n, self.c, self.inner]
    }
}

fn group_norm(c: &Call<'_>, b: &Builder, input: ValueId, sizes: &Groups) -> Result<[ValueId; 3]> {
    let (weight, bias) = (c.optional_tensor(b, "weight")?, c.optional_tensor(b, "bias")?);
    sizes.check(b, input, &[("weight", weight), ("bias", bias)])?;
    let dtype = b.dtype(input);
    if !dtype.is_float() {
        return not_implemented("GroupNormKernelImpl", dtype);
    }
    let saved = statistics_type(b, input, &[weight, bias]);
    let x = b.reshape(b.convert(input, dtype.accumulator())?, &sizes.grouped())?;
    let (mean, var) = moments(b, x, &[2, 3])?;
    let rstd = inverse_deviation(c, b, var, &c.scalar("eps")?)?;
    let over = |v| back_over(b, v, x, &[2, 3]);
    let xhat = formula(b, [x, over(mean)?, over(rstd)?], |[x, m, r]| (x - m) * r)?;
    let y = affine(b, b.reshape(xhat, &sizes.channels())?, weight, bias, &[1])?;
    let y = b.convert(b.reshape(y, &b.shape(input))?, dtype)?;
    Ok([y, b.convert(mean, saved)?, b.convert(rstd, saved)?])
}

fn group_norm_backward(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (grad, input, mean) = (c.tensor(b, "grad_out")?, c.tensor(b, "input")?, c.tensor(b, "mean")?);
    let (weight, sizes) = (c.optional_tensor(b, "weight")?, Groups::read(c)?);
    sizes.check(b, input, &[("weight", weight)])?;
    let mask = c.flags("output_mask")?;
    let (dtype, wide) = (b.dtype(input), b.dtype(input).accumulator());
    let shaped = |v, shape: &[usize]| b.reshape(b.convert(v, wide)?, shape);
    let x = shaped(input, &sizes.grouped())?;
    let stat = |v| back_over(b, shaped(v, &[sizes.n, sizes.groups])?, x, &[2, 3]);
    let rstd = stat(c.tensor(b, "rstd")?)?;
    let xhat = formula(b, [x, stat(mean)?, rstd], |[x, m, r]| (x - m) * r)?;
    let grad = shaped(grad, &sizes.channels())?;
    let scaled = b.reshape(affine(b, grad, weight, None, &[1])?, &sizes.grouped())?;
    let grad_input = normalised_gradient(b, scaled, xhat, rstd, &[2, 3])?;
    let params = weight.map_or(b.dtype(mean), |w| b.dtype(w));
    let per_channel = |v| b.convert(b.reduce(v, Reducer::Add, &[0, 2])?, params);
    let xhat = b.reshape(xhat, &sizes.channels())?;
    Ok(vec![
        mask[0].then_some(b.convert(b.reshape(grad_input, &b.shape(input))?, dtype)?),
        mask[1].then_some(per_channel(b.multiply(grad, xhat)?)?),
        mask[2].then_some(per_channel(grad)?),
    ])
}

/// The result and the saved `1 / rms`.
fn rms_norm(c: &Call<'_>, b: &Builder) -> Result<(ValueId, ValueId)> {
    let (input, weight) = (c.tensor(b, "input")?, c.optional_tensor(b, "weight")?);
    let dims = normalised_dims(c, b, input, &["weight"])?;
    let dtype = b.dtype(input);
    if !(dtype.is_float() || dtype.is_complex()) {
        return not_implemented("rms_norm", dtype);
    }
    let wide = dtype.accumulator();
    let epsilon = if wide == DType::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) };
    let eps = c.optional_scalar("eps")?.unwrap_or(Scalar::Known(Number::Float(epsilon)));
    let x = b.convert(input, wide)?;
    let rstd = inverse_deviation(c, b, mean(b, b.multiply(x, x)?, &dims)?, &eps)?;
    let y = b.multiply(x, back_over(b, rstd, x, &dims)?)?;
    let y = b.convert(affine(b, y, weight, None, &dims)?, dtype)?;
    Ok((y, unsqueeze(b, rstd, &dims)?))
}

fn rms_norm_backward(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (grad, input) = (c.tensor(b, "grad_out")?, c.tensor(b, "input")?);
    let weight = c.optional_tensor(b, "weight")?;
    let dims = normalised_dims(c, b, input, &["weight"])?;
    let mask = c.flags("output_mask")?;
    let (dtype, wide) = (b.dtype(input), b.dtype(input).accumulator());
    let shape: Shape = b.shape(input);
    let rstd = broadcast_to(b, b.convert(c.tensor(b, "rstd")?, wide)?, &shape)?;
    let (grad, x) = (b.convert(grad, wide)?, b.convert(input, wide)?);
    let xhat = b.multiply(x, rstd)?;
    let scaled = affine(b, grad, weight, None, &dims)?;
    let along = back_over(b, mean(b, b.multiply(scaled, xhat)?, &dims)?, x, &dims)?;
    let grad_input = wide_formula(b, [scaled, xhat, rstd, along], |[g, x, r, m]| r * (g - x * m))?;
    let rows: Dims = (0..shape.len() - dims.len()).collect();
    let grad_weight = |w: ValueId| b.convert(b.reduce(b.multiply(grad, xhat)?, Reducer::Add, &rows)?, b.dtype(w));
    Ok(vec![mask[0].then_some(b.convert(grad_input, dtype)?), weight.filter(|_| mask[1]).map(grad_weight).transpose()?])
}

/// Zero elements of `dtype`.
pub(super) fn nothing(b: &Builder, dtype: DType) -> Result<ValueId> {
    b.full(Number::Int(0), dtype, &[0])
}
