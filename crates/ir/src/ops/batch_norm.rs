//! Normalisation over the batch, channel by channel.
//!
//! Where PyTorch updates running statistics in place, the schema marks them as written and their next values follow the
//! returns; PyTorch's own schemas of `batch_norm`, `native_batch_norm` and `instance_norm` leave the marks out.

use super::expr::formula;
use super::normalization::{
    affine, back_over, inverse_deviation, moments, normalised_gradient, nothing, statistics_type,
};
use super::support::{self, scalar_like};
use super::{Call, OpDef, Outs, Strides, err, ok, one};
use crate::builder::Builder;
use crate::error::{Error, Result};
use crate::graph::ValueId;
use crate::types::{Dims, Shape};
use crate::{DType, Reducer, ensure};

pub(super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor(a!)? running_mean, Tensor(b!)? running_var, bool training, float momentum, float eps, bool cudnn_enabled) -> Tensor",
        batch_norm,
        &[
            ok("f32[2,3,4], f32[3], f32[3], f32[3], f32[3]{0.5..2}, true, 0.1, 1e-5, true"),
            ok("f32[2,3,4], f32[3], f32[3], f32[3], f32[3]{0.5..2}, false, 0.1, 1e-5, true"),
            ok("f32[4,3], none, none, none, none, true, 0.1, 1e-5, true"),
            ok("bf16[2,3,4,2], f32[3], f32[3], f32[3], f32[3]{0.5..2}, true, 0.1, 1e-5, true"),
            ok("f32[0,3,4], f32[3], f32[3], f32[3], f32[3]{0.5..2}, true, 0.1, 1e-5, true"),
            err("f32[2,3,4], f32[4], f32[3], f32[3], f32[3], true, 0.1, 1e-5, true", "weight should contain 3 elements not 4"),
            err("f32[2,3,4], f32[3], f32[3], f32[4], f32[3], true, 0.1, 1e-5, true", "running_mean should contain 3 elements not 4"),
            err("f32[2,3,4], f32[3], f32[3], none, none, false, 0.1, 1e-5, true", "running_mean must be defined in evaluation mode"),
        ],
    ),
    OpDef::new(
        "aten::native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor(a!)? running_mean, Tensor(b!)? running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
        |c, b| normalise(c, b, c.flag("training")?).map(Normalised::with_updates),
        &[
            ok("f32[2,3,4], f32[3], f32[3], f32[3], f32[3]{0.5..2}, true, 0.1, 1e-5"),
            ok("f32[2,3,4], f32[3], f32[3], f32[3], f32[3]{0.5..2}, false, 0.1, 1e-5"),
            ok("bf16[2,3,4], none, none, none, none, true, 0.1, 1e-5"),
            ok("bf16[2,3,4], f32[3], f32[3], f32[3], f32[3]{0.5..2}, false, 0.1, 1e-5"),
            err("f32[0,3,4], none, none, none, none, true, 0.1, 1e-5", "input tensor must have at least one element, but got input_sizes = [0, 3, 4]"),
        ],
    )
    .variants(&["native_batch_norm.out"])
    .laid_out(Strides::RowsOrSuggested("input")),
    OpDef::new(
        "aten::_native_batch_norm_legit(Tensor input, Tensor? weight, Tensor? bias, Tensor(a!) running_mean, Tensor(b!) running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
        |c, b| normalise(c, b, c.flag("training")?).map(Normalised::with_updates),
        &[
            ok("f32[2,3,4], f32[3], f32[3], f32[3], f32[3]{0.5..2}, true, 0.1, 1e-5"),
            ok("f32[2,3,4], none, none, f32[3], f32[3]{0.5..2}, false, 0.1, 1e-5"),
        ],
    )
    .variants(&["_native_batch_norm_legit.out"])
    .laid_out(Strides::RowsOrSuggested("input")),
    OpDef::new(
        "aten::_native_batch_norm_legit.no_stats(Tensor input, Tensor? weight, Tensor? bias, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
        |c, b| normalise(c, b, c.flag("training")?).map(Normalised::alone),
        &[
            ok("f32[2,3,4], f32[3], f32[3], true, 0.1, 1e-5"),
            err("f32[2,3,4], f32[3], f32[3], false, 0.1, 1e-5", "running_mean must be defined in evaluation mode"),
        ],
    )
    .variants(&["_native_batch_norm_legit.no_stats_out"])
    .laid_out(Strides::RowsOrSuggested("input")),
    OpDef::new(
        "aten::_native_batch_norm_legit_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor running_mean_out, Tensor running_var_out)",
        |c, b| with_statistics(c, b, normalise(c, b, c.flag("training")?)?, false),
        &[
            ok("f32[2,3,4], f32[3], f32[3], f32[3], f32[3]{0.5..2}, true, 0.1, 1e-5"),
            ok("bf16[2,3,4], f32[3], f32[3], f32[3], f32[3]{0.5..2}, true, 0.2, 1e-5"),
            ok("f32[2,3,4], f32[3], f32[3], f32[3], f32[3]{0.5..2}, false, 0.1, 1e-5"),
        ],
    ),
    OpDef::new(
        "aten::_native_batch_norm_legit_no_training(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
        |c, b| normalise(c, b, false).map(Normalised::alone),
        &[
            ok("f32[2,3,4], f32[3], f32[3], f32[3], f32[3]{0.5..2}, 0.1, 1e-5"),
            ok("f16[2,3,4,2], f16[3], f16[3], f16[3], f16[3]{0.5..2}, 0.1, 1e-5"),
            ok("f32[0,3,4], f32[3], f32[3], f32[3], f32[3]{0.5..2}, 0.1, 1e-5"),
        ],
    )
    .variants(&["_native_batch_norm_legit_no_training.out"])
    .laid_out(Strides::RowsOrSuggested("input")),
    OpDef::new(
        "aten::_batch_norm_with_update(Tensor input, Tensor? weight, Tensor? bias, Tensor(a!) running_mean, Tensor(b!) running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor)",
        |c, b| {
            let n = normalise(c, b, true)?;
            Ok([n.returns(), vec![Some(nothing(b, DType::U8)?)], n.updates()].concat())
        },
        &[ok("f32[2,3,4], f32[3], f32[3], f32[3], f32[3]{0.5..2}, 0.1, 1e-5")],
    )
    .variants(&["_batch_norm_with_update.out"])
    .laid_out(Strides::RowsOrSuggested("input")),
    OpDef::new(
        "aten::_batch_norm_with_update_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor, Tensor running_mean_out, Tensor running_var_out)",
        |c, b| with_statistics(c, b, normalise(c, b, true)?, true),
        &[ok("f32[2,3,4], f32[3], f32[3], f32[3], f32[3]{0.5..2}, 0.1, 1e-5")],
    ),
    OpDef::new(
        "aten::_batch_norm_no_update(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor)",
        |c, b| {
            let n = normalise(c, b, false)?;
            Ok([n.returns(), vec![Some(nothing(b, DType::U8)?)]].concat())
        },
        &[ok("f32[2,3,4], f32[3], f32[3], f32[3], f32[3]{0.5..2}, 0.1, 1e-5")],
    )
    .variants(&["_batch_norm_no_update.out"]),
    OpDef::new(
        "aten::native_batch_norm_backward(Tensor grad_out, Tensor input, Tensor? weight, Tensor? running_mean, Tensor? running_var, Tensor? save_mean, Tensor? save_invstd, bool train, float eps, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
        |c, b| backward(c, b, c.flag("train")?, "save_invstd"),
        &[
            ok("f32[2,3,4], f32[2,3,4], f32[3], f32[3], f32[3]{0.5..2}, f32[3], f32[3]{0.5..2}, true, 1e-5, [true,true,true]"),
            ok("f32[2,3,4], f32[2,3,4], f32[3], f32[3], f32[3]{0.5..2}, f32[0], f32[0], false, 1e-5, [true,true,true]"),
            ok("f32[2,3,4], f32[2,3,4], none, f32[3], f32[3]{0.5..2}, f32[3], f32[3]{0.5..2}, true, 1e-5, [true,true,true]"),
            ok("bf16[2,3,4], bf16[2,3,4], f32[3], f32[3], f32[3]{0.5..2}, f32[3], f32[3]{0.5..2}, true, 1e-5, [true,true,true]"),
            ok("f32[4,3], f32[4,3], f32[3], none, none, f32[3], f32[3]{0.5..2}, true, 1e-5, [false,true,false]"),
        ],
    )
    .variants(&["native_batch_norm_backward.out"])
    .laid_out(Strides::RowsOrSuggested("input")),
    OpDef::new(
        "aten::batch_norm_backward(Tensor grad_out, Tensor input, Tensor weight, Tensor? running_mean, Tensor? running_var, Tensor? save_mean, Tensor? save_var, bool update, float eps, bool[3] output_mask, Tensor reserve) -> (Tensor, Tensor, Tensor)",
        |c, b| backward(c, b, c.flag("update")?, "save_var"),
        &[ok("f32[2,3,4], f32[2,3,4], f32[3], f32[3], f32[3]{0.5..2}, f32[3], f32[3]{0.5..2}, true, 1e-5, [true,true,true], u8[0]")],
    )
    .laid_out(Strides::RowsOrSuggested("input")),
    OpDef::new(
        "aten::instance_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor(a!)? running_mean, Tensor(b!)? running_var, bool use_input_stats, float momentum, float eps, bool cudnn_enabled) -> Tensor",
        instance_norm,
        &[
            ok("f32[2,3,4], f32[3], f32[3], f32[3], f32[3]{0.5..2}, true, 0.1, 1e-5, true"),
            ok("f32[2,3,4,2], none, none, none, none, true, 0.1, 1e-5, true"),
            ok("f32[2,3,4], f32[3], f32[3], f32[3], f32[3]{0.5..2}, false, 0.1, 1e-5, true"),
            ok("bf16[2,3,4], f32[3], f32[3], f32[3], f32[3]{0.5..2}, true, 0.1, 1e-5, true"),
            err("f32[2,3,4], f32[3], f32[3], none, none, false, 0.1, 1e-5, true", "Expected running_mean and running_var to be defined when use_input_stats is false"),
        ],
    ),
];

/// What a batch norm gives.
struct Normalised {
    /// The result and what is saved for the backward pass.
    values: [ValueId; 3],
    /// The next running mean and variance, where there are any to update.
    statistics: [Option<ValueId>; 2],
}

impl Normalised {
    fn returns(&self) -> Outs {
        self.values.map(Some).to_vec()
    }
    fn updates(&self) -> Outs {
        self.statistics.to_vec()
    }
    fn alone(self) -> Outs {
        self.returns()
    }
    fn with_updates(self) -> Outs {
        [self.returns(), self.updates()].concat()
    }
}

/// The returns of a functional overload: running statistics last, unchanged where nothing updates them.
fn with_statistics(c: &Call<'_>, b: &Builder, n: Normalised, reserve: bool) -> Result<Outs> {
    let mut outs = n.returns();
    if reserve {
        outs.push(Some(nothing(b, DType::U8)?));
    }
    for (next, name) in n.statistics.into_iter().zip(["running_mean", "running_var"]) {
        outs.push(Some(next.map_or_else(|| c.tensor(b, name), Ok)?));
    }
    Ok(outs)
}

/// All dimensions but the channels.
fn reduced(rank: usize) -> Dims {
    (0..rank).filter(|&d| d != 1).collect()
}

/// The argument `name`, `None` too where the schema has none of that name.
fn optional(c: &Call<'_>, b: &Builder, name: &str) -> Result<Option<ValueId>> {
    if c.has(name) { c.optional_tensor(b, name) } else { Ok(None) }
}

fn running(c: &Call<'_>, b: &Builder) -> Result<(ValueId, ValueId)> {
    let defined = |name| optional(c, b, name)?.ok_or_else(|| undefined(name));
    Ok((defined("running_mean")?, defined("running_var")?))
}

fn undefined(name: &str) -> Error {
    Error::invalid(format!("{name} must be defined in evaluation mode"))
}

/// `(1 - momentum) * old + momentum * new`, in the type of `old`.
fn moved(c: &Call<'_>, b: &Builder, old: ValueId, new: ValueId) -> Result<ValueId> {
    let momentum = scalar_like(c, b, &c.scalar("momentum")?, new)?;
    let operands = [b.convert(old, b.dtype(new))?, new, momentum];
    let next = formula(b, operands, |[old, new, momentum]| old * (1.0 - momentum) + new * momentum)?;
    b.convert(next, b.dtype(old))
}

/// `biased` over `count` elements, made unbiased.
fn unbiased(b: &Builder, biased: ValueId, count: usize) -> Result<ValueId> {
    let count = count as f64;
    formula(b, [biased], |[v]| v * count / (count - 1.0))
}

fn normalise(c: &Call<'_>, b: &Builder, training: bool) -> Result<Normalised> {
    let input = c.tensor(b, "input")?;
    let (weight, bias) = (optional(c, b, "weight")?, optional(c, b, "bias")?);
    let stats = [optional(c, b, "running_mean")?, optional(c, b, "running_var")?];
    let shape = b.shape(input);
    support::dim(1, shape.len())?;
    let dims = reduced(shape.len());
    let count: usize = dims.iter().map(|&d| shape[d]).product();
    let dtype = b.dtype(input);
    if !dtype.is_float() {
        return support::not_implemented("batch_norm", dtype);
    }
    let saved = statistics_type(b, input, &[weight, bias, stats[0], stats[1]]);
    let x = b.convert(input, dtype.accumulator())?;
    if !training {
        let (mean, var) = running(c, b)?;
        let invstd = inverse_deviation(c, b, b.convert(var, b.dtype(x))?, &c.scalar("eps")?)?;
        let y = scale(b, x, b.convert(mean, b.dtype(x))?, invstd, weight, bias)?;
        // The CPU's kernel leaves what was used empty; others give it, and fake tensors know which (`_decomp`).
        let used = |i, v| if c.is_recorded_full(i) { b.convert(v, saved) } else { nothing(b, saved) };
        let values = [b.convert(y, dtype)?, used(1, mean)?, used(2, invstd)?];
        return Ok(Normalised { values, statistics: [None, None] });
    }
    ensure!(count * shape[1] > 0, "input tensor must have at least one element, but got input_sizes = {shape:?}");
    let (mean, var) = moments(b, x, &dims)?;
    let invstd = inverse_deviation(c, b, var, &c.scalar("eps")?)?;
    let y = scale(b, x, mean, invstd, weight, bias)?;
    let next = |old: Option<ValueId>, new| old.map(|old| moved(c, b, old, new)).transpose();
    let statistics = [next(stats[0], mean)?, next(stats[1], unbiased(b, var, count)?)?];
    // As they are, as on other devices than the CPU, where they are `f32`: the gradient of few values cancels but for the rest.
    Ok(Normalised { values: [b.convert(y, dtype)?, mean, invstd], statistics })
}

/// `(x - mean) * invstd * weight + bias`, channel by channel.
fn scale(
    b: &Builder,
    x: ValueId,
    mean: ValueId,
    invstd: ValueId,
    weight: Option<ValueId>,
    bias: Option<ValueId>,
) -> Result<ValueId> {
    let over = |v| b.broadcast_in_dim(v, &b.shape(x), &[1]);
    let xhat = formula(b, [x, over(mean)?, over(invstd)?], |[x, m, r]| (x - m) * r)?;
    affine(b, xhat, weight, bias, &[1])
}

fn check(c: &Call<'_>, b: &Builder, features: usize) -> Result<()> {
    for name in ["running_mean", "running_var", "weight", "bias"] {
        let Some(v) = optional(c, b, name)? else { continue };
        let n: usize = b.shape(v).iter().product();
        ensure!(n == features, "{name} should contain {features} elements not {n}");
    }
    Ok(())
}

fn batch_norm(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let input = c.tensor(b, "input")?;
    let shape = b.shape(input);
    support::dim(1, shape.len())?;
    let training = c.flag("training")?;
    if !training {
        running(c, b)?;
    }
    check(c, b, shape[1])?;
    if shape.contains(&0) {
        return Ok(vec![Some(input), None, None]);
    }
    let n = normalise(c, b, training)?;
    Ok(vec![Some(n.values[0]), n.statistics[0], n.statistics[1]])
}

fn backward(c: &Call<'_>, b: &Builder, train: bool, save_invstd: &str) -> Result<Outs> {
    let (grad, input, weight) = (c.tensor(b, "grad_out")?, c.tensor(b, "input")?, optional(c, b, "weight")?);
    let stats = ["running_mean", "running_var", "save_mean", save_invstd].map(|n| optional(c, b, n));
    let [running_mean, running_var, save_mean, save_invstd] = stats;
    let (running_mean, running_var, save_mean) = (running_mean?, running_var?, save_mean?);
    let params = statistics_type(b, input, &[weight, running_mean, running_var, save_mean]);
    let mask = c.flags("output_mask")?;
    let (dtype, wide) = (b.dtype(input), b.dtype(input).accumulator());
    let missing = || Error::invalid("batch norm's backward pass needs the statistics of its forward pass");
    let (mean, invstd) = if train {
        (save_mean.ok_or_else(missing)?, b.convert(save_invstd?.ok_or_else(missing)?, wide)?)
    } else {
        let var = b.convert(running_var.ok_or_else(missing)?, wide)?;
        (running_mean.ok_or_else(missing)?, inverse_deviation(c, b, var, &c.scalar("eps")?)?)
    };
    let (g, x) = (b.convert(grad, wide)?, b.convert(input, wide)?);
    let dims = reduced(b.rank(x));
    let over = |v| back_over(b, v, x, &dims);
    let rstd = over(invstd)?;
    let xhat = formula(b, [x, over(b.convert(mean, wide)?)?, rstd], |[x, m, r]| (x - m) * r)?;
    let scaled = affine(b, g, weight, None, &[1])?;
    let grad_input = if train { normalised_gradient(b, scaled, xhat, rstd, &dims)? } else { b.multiply(scaled, rstd)? };
    let per_channel = |v| b.convert(b.reduce(v, Reducer::Add, &dims)?, params);
    Ok(vec![
        mask[0].then_some(b.convert(grad_input, dtype)?),
        mask[1].then_some(per_channel(b.multiply(g, xhat)?)?),
        mask[2].then_some(per_channel(g)?),
    ])
}

/// Every channel of every example by itself; running statistics average over the batch.
fn instance_norm(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let input = c.tensor(b, "input")?;
    let (weight, bias) = (c.optional_tensor(b, "weight")?, c.optional_tensor(b, "bias")?);
    let stats = [c.optional_tensor(b, "running_mean")?, c.optional_tensor(b, "running_var")?];
    let shape: Shape = b.shape(input);
    support::dim(1, shape.len())?;
    check(c, b, shape[1])?;
    let own = c.flag("use_input_stats")?;
    let dtype = b.dtype(input);
    let x = b.convert(input, dtype.accumulator())?;
    let wide = b.dtype(x);
    let eps = c.scalar("eps")?;
    if !own {
        let [Some(mean), Some(var)] = stats else {
            return Err(Error::invalid(
                "Expected running_mean and running_var to be defined when use_input_stats is false",
            ));
        };
        let invstd = inverse_deviation(c, b, b.convert(var, wide)?, &eps)?;
        let y = scale(b, x, b.convert(mean, wide)?, invstd, weight, bias)?;
        return Ok(vec![Some(b.convert(y, dtype)?), None, None]);
    }
    let dims: Dims = (2..shape.len()).collect();
    let (mean, var) = moments(b, x, &dims)?;
    let invstd = inverse_deviation(c, b, var, &eps)?;
    let over = |v| back_over(b, v, x, &dims);
    let xhat = formula(b, [x, over(mean)?, over(invstd)?], |[x, m, r]| (x - m) * r)?;
    let y = affine(b, xhat, weight, bias, &[1])?;
    let count = shape[2..].iter().product();
    let average = |v| super::normalization::mean(b, v, &[0]);
    let next = |old: Option<ValueId>, new| old.map(|old| moved(c, b, old, average(new)?)).transpose();
    let statistics = [next(stats[0], mean)?, next(stats[1], unbiased(b, var, count)?)?];
    Ok(vec![one(b.convert(y, dtype)?)?[0], statistics[0], statistics[1]])
}
