//! Losses that compare numbers with numbers.

use super::expr::{Expr, formula};
use super::loss::{Reduction, reduced, reduction};
use super::support::{broadcast_shapes, broadcast_to, not_implemented, promote_types, scalar_like, torch_name};
use super::{Call, OpDef, Outs, err, ok, one};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::types::Shape;
use crate::{DType, ensure, ensure_kernel};

pub(super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::mse_loss(Tensor self, Tensor target, int reduction=1) -> Tensor",
        |c, b| compare(c, b, Some("mse_cpu"), |x, y| (x - y) * (x - y)),
        &[
            ok("f32[2,3], f32[2,3]"),
            ok("f32[2,3], f32[3], 0"),
            ok("f32[2,3], f64[2,3], 2"),
            ok("bf16[2,3], bf16[2,3], 0"),
            ok("f32[0], f32[0]"),
            err("f32[2,3], f32[2]", "The size of tensor a (3) must match the size of tensor b (2)"),
            err("i64[2,3], i64[2,3]", "\"mse_cpu\" not implemented for 'Long'"),
        ],
    )
    .variants(&["mse_loss.out"]),
    OpDef::new(
        "aten::mse_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction) -> Tensor",
        |c, b| gradient(c, b, |g, x, y| (x - y) * g * 2.0),
        &[
            ok("f32[], f32[2,3], f32[2,3], 1"),
            ok("f32[2,3], f32[2,3], f32[2,3], 0"),
            ok("bf16[], bf16[2,3], bf16[2,3], 2"),
        ],
    )
    .variants(&["mse_loss_backward.grad_input"]),
    OpDef::new(
        "aten::l1_loss(Tensor self, Tensor target, int reduction=1) -> Tensor",
        |c, b| compare(c, b, None, |x, y| (x - y).abs()),
        &[
            ok("f32[2,3], f32[3]"),
            ok("bf16[2,3], bf16[2,3], 0"),
            ok("i64[2,3], i64[2,3], 2"),
            err("i64[2,3], i64[2,3]", "could not infer output dtype"),
        ],
    ),
    OpDef::new(
        "aten::smooth_l1_loss(Tensor self, Tensor target, int reduction=1, float beta=1.) -> Tensor",
        |c, b| {
            let good = c.requires(&c.scalar("beta")?, |beta| beta >= 0.0 || beta.is_nan());
            ensure!(good, "smooth_l1_loss does not support negative values for beta.");
            compare_with(c, b, Some(("smooth_l1_cpu", DType::F16)), "beta", |x, y, beta| {
                let z = (x - y).abs();
                z.less(beta).select(z * z * 0.5 / beta, z - 0.5 * beta)
            })
        },
        &[
            ok("f32[2,3], f32[2,3]"),
            ok("f32[2,3], f32[3], 0, 0.0"),
            ok("bf16[2,3], bf16[2,3], 2, 0.5"),
            ok("f16[2,3], f16[2,3], 0, 0.3"),
            err("f32[2,3], f32[3], 0, -1.0", "smooth_l1_loss does not support negative values for beta."),
        ],
    )
    .variants(&["smooth_l1_loss.out"]),
    OpDef::new(
        "aten::smooth_l1_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction, float beta) -> Tensor",
        |c, b| {
            gradient_with(c, b, "beta", |[g, x, y, beta]| {
                let z = x - y;
                z.at_most(-beta).select(-g, z.at_least(beta).select(g, g * z / beta))
            })
        },
        &[
            ok("f32[], f32[2,3], f32[2,3], 1, 0.5"),
            ok("f32[2,3], f32[2,3], f32[2,3], 0, 1.0"),
            ok("f32[4], f32[4]{1,2,3,4}, f32[4]{1,3,2,4}, 0, 0.0"),
        ],
    )
    .variants(&["smooth_l1_loss_backward.grad_input"]),
    OpDef::new(
        "aten::huber_loss(Tensor self, Tensor target, int reduction=1, float delta=1.) -> Tensor",
        |c, b| {
            let good = c.requires(&c.scalar("delta")?, |delta| delta > 0.0);
            ensure!(good, "huber_loss does not support non-positive values for delta.");
            compare_with(c, b, Some(("huber_cpu", DType::BF16)), "delta", |x, y, delta| {
                let z = (x - y).abs();
                z.less(delta).select(z * z * 0.5, (z - 0.5 * delta) * delta)
            })
        },
        &[
            ok("f32[2,3], f32[2,3]"),
            ok("bf16[2,3], bf16[3], 0, 0.3"),
            err("f32[2,3], f32[3], 0, 0.0", "huber_loss does not support non-positive values for delta."),
        ],
    )
    .variants(&["huber_loss.out"]),
    OpDef::new(
        "aten::huber_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction, float delta) -> Tensor",
        |c, b| {
            gradient_with(c, b, "delta", |[g, x, y, delta]| {
                let z = x - y;
                z.at_most(-delta).select(g * -delta, z.at_least(delta).select(g * delta, g * z))
            })
        },
        &[ok("f32[], f32[2,3], f32[2,3], 1, 0.5"), ok("f32[2,3], f32[2,3], f32[2,3], 0, 1.0")],
    )
    .variants(&["huber_loss_backward.out"]),
    OpDef::new(
        "aten::binary_cross_entropy(Tensor self, Tensor target, Tensor? weight=None, int reduction=1) -> Tensor",
        |c, b| {
            let (x, target) = probabilities(c, b)?;
            let losses = formula(b, [x, target], |[x, t]| {
                (t - 1.0) * (-x).ln_1p().max(-100.0) - t * x.ln().max(-100.0)
            })?;
            finish(c, b, losses)
        },
        &[
            ok("f32[2,3]{0..1}, f32[2,3]{0..1}"),
            ok("f32[4]{0,1,0.5,1}, f32[4]{0,1,1,0}, none, 0"),
            ok("f32[2,3]{0..1}, f32[2,3]{0..1}, f32[3], 2"),
            ok("bf16[2,3]{0.25..0.5}, bf16[2,3]{0..1}, none, 0"),
            err("f32[2,3]{0..1}, f64[2,3]{0..1}", "Found dtype Double but expected Float"),
            err("i64[2,3]{0..1}, i64[2,3]{0..1}", "\"binary_cross_entropy\" not implemented for 'Long'"),
        ],
    )
    .variants(&["binary_cross_entropy.out"]),
    OpDef::new(
        "aten::binary_cross_entropy_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight=None, int reduction=1) -> Tensor",
        cross_entropy_gradient,
        &[
            ok("f32[], f32[2,3]{0..1}, f32[2,3]{0..1}"),
            ok("f32[2,3], f32[2,3]{0..1}, f32[2,3]{0..1}, f32[3], 0"),
            ok("f32[4], f32[4]{0,1,0.5,1}, f32[4]{0,1,1,0}, none, 0"),
        ],
    )
    .variants(&["binary_cross_entropy_backward.grad_input"]),
    OpDef::new(
        "aten::binary_cross_entropy_with_logits(Tensor self, Tensor target, Tensor? weight=None, Tensor? pos_weight=None, int reduction=1) -> Tensor",
        with_logits,
        &[
            ok("f32[2,3], f32[2,3]{0..1}"),
            ok("f32[2,3], f32[2,3]{0..1}, f32[3], f32[3]"),
            ok("bf16[2,3], bf16[2,3]{0..1}, none, none, 2"),
            ok("f32[2,3], f32[2,3]{0..1}, none, f32[3], 0"),
            err("f32[2,3], f32[3]{0..1}", "output with shape [3] doesn't match the broadcast shape [2, 3]"),
            err("i64[2], f32[2]{0..1}", "\"log_sigmoid_cpu\" not implemented for 'Long'"),
        ],
    )
    .variants(&["binary_cross_entropy_with_logits.out"]),
    OpDef::new(
        "aten::kl_div(Tensor self, Tensor target, int reduction=1, *, bool log_target=False) -> Tensor",
        |c, b| {
            for name in ["self", "target"] {
                let d = b.dtype(c.tensor(b, name)?);
                ensure!(d.is_float() || d.is_complex(), "kl_div: Integral inputs not supported.");
            }
            if c.flag("log_target")? {
                return compare(c, b, None, |x, t| t.exp() * (t - x));
            }
            compare(c, b, None, |x, t| xlogx(t) - t * x)
        },
        &[
            ok("f32[2,3], f32[2,3]{0..1}"),
            ok("f32[2,3], f32[3]{0,1,0.5}, 2"),
            ok("f32[2,3], f32[2,3]{-2..0}, 0, log_target=true"),
            err("i64[2,3], i64[2,3]", "kl_div: Integral inputs not supported."),
        ],
    ),
    OpDef::new(
        "aten::poisson_nll_loss(Tensor input, Tensor target, bool log_input, bool full, float eps, int reduction) -> Tensor",
        poisson,
        &[
            ok("f32[2,3], f32[2,3]{0..4}, true, false, 1e-8, 1"),
            ok("f32[2,3]{0..2}, f32[2,3]{0..4}, false, true, 1e-8, 0"),
        ],
    ),
    OpDef::new(
        "aten::soft_margin_loss(Tensor self, Tensor target, int reduction=1) -> Tensor",
        |c, b| compare(c, b, None, |x, y| (x * -y).exp().ln_1p()),
        &[ok("f32[2,3], f32[2,3]{1,-1}"), ok("f32[2,3], f32[2,3]{1,-1}, 0")],
    )
    .variants(&["soft_margin_loss.out"]),
    OpDef::new(
        "aten::soft_margin_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction) -> Tensor",
        |c, b| {
            gradient(c, b, |g, x, y| {
                let z = (y * -x).exp();
                -(y * g) * z / (z + 1.0)
            })
        },
        &[
            ok("f32[], f32[2,3], f32[2,3]{1,-1}, 1"),
            ok("f32[2,3], f32[2,3], f32[2,3]{1,-1}, 0"),
            ok("f32[], f32[3]{90,-90,0}, f32[3]{-1,1,1}, 2"),
        ],
    )
    .variants(&["soft_margin_loss_backward.grad_input"]),
    OpDef::new(
        "aten::hinge_embedding_loss(Tensor self, Tensor target, float margin=1., int reduction=1) -> Tensor",
        |c, b| {
            compare_with(c, b, None, "margin", |x, y, margin| {
                let zero = x.constant(0.0);
                let far = y.differs(1.0).select((margin - x).max(0.0), zero);
                far + y.differs(-1.0).select(x, zero)
            })
        },
        &[ok("f32[2,3], f32[2,3]{1,-1}"), ok("f32[2,3], f32[2,3]{1,-1,0}, 0.5, 0")],
    ),
];

/// `x log x`, zero at zero.
fn xlogx(x: Expr<'_>) -> Expr<'_> {
    x.equals(0.0).select(x.constant(0.0), x * x.ln())
}

/// `self` and `target`, promoted, broadcast, in the accumulation type, and the type they were promoted to.
fn operands(c: &Call<'_>, b: &Builder, input: &str) -> Result<(ValueId, ValueId, DType)> {
    let (x, y) = (c.tensor(b, input)?, c.tensor(b, "target")?);
    let dtype = super::support::result_type(c, b, &[x.into(), y.into()])?;
    let shape = broadcast_shapes([&b.shape(x), &b.shape(y)])?;
    let wide = |v| broadcast_to(b, b.convert(b.convert(v, dtype)?, dtype.accumulator())?, &shape);
    Ok((wide(x)?, wide(y)?, dtype))
}

/// The reduction of `f` on `self` and `target`; `floats` names the kernel that takes nothing else.
fn compare(
    c: &Call<'_>,
    b: &Builder,
    floats: Option<&str>,
    f: impl for<'e> FnOnce(Expr<'e>, Expr<'e>) -> Expr<'e>,
) -> Result<Outs> {
    let (x, y, dtype) = operands(c, b, "self")?;
    losses(c, b, floats, dtype, || formula(b, [x, y], |[x, y]| f(x, y)))
}

/// As [`compare`], with the number `name` beside them. The kernel `floats` rounds each step in the type that stands beside it.
fn compare_with(
    c: &Call<'_>,
    b: &Builder,
    floats: Option<(&str, DType)>,
    name: &str,
    f: impl for<'e> FnOnce(Expr<'e>, Expr<'e>, Expr<'e>) -> Expr<'e>,
) -> Result<Outs> {
    let (x, y, dtype) = operands(c, b, "self")?;
    let each = if floats.is_some_and(|(_, stepwise)| stepwise == dtype) { dtype } else { b.dtype(x) };
    let (x, y) = (b.convert(x, each)?, b.convert(y, each)?);
    let number = scalar_like(c, b, &c.scalar(name)?, x)?;
    losses(c, b, floats.map(|(kernel, _)| kernel), dtype, || formula(b, [x, y, number], |[x, y, n]| f(x, y, n)))
}

fn losses(
    c: &Call<'_>,
    b: &Builder,
    floats: Option<&str>,
    dtype: DType,
    each: impl FnOnce() -> Result<ValueId>,
) -> Result<Outs> {
    if let Some(name) = floats.filter(|_| !dtype.is_float()) {
        return not_implemented(name, dtype);
    }
    let reduction = reduction(c)?;
    ensure_kernel!(
        reduction != Reduction::Mean || dtype.is_float() || dtype.is_complex(),
        "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: {}",
        torch_name(dtype)
    );
    one(b.convert(reduced(b, each()?, reduction)?, dtype)?)
}

/// The share of the gradient of a reduced loss that each element has: all of it, or one of `shape`'s elements' worth.
fn share(c: &Call<'_>, b: &Builder, wide: DType, shape: &[usize]) -> Result<ValueId> {
    let grad = b.convert(c.tensor(b, "grad_output")?, wide)?;
    let grad = if reduction(c)? == Reduction::Mean {
        let count = shape.iter().product::<usize>() as f64;
        formula(b, [grad], |[g]| g / count)?
    } else {
        grad
    };
    broadcast_to(b, grad, shape)
}

/// The gradient of `self`: `f` on the gradient's share, `self` and `target`.
fn gradient(
    c: &Call<'_>,
    b: &Builder,
    f: impl for<'e> FnOnce(Expr<'e>, Expr<'e>, Expr<'e>) -> Expr<'e>,
) -> Result<Outs> {
    let (x, y, _) = operands(c, b, "self")?;
    let grad = share(c, b, b.dtype(x), &b.shape(x))?;
    let grad = formula(b, [grad, x, y], |[g, x, y]| f(g, x, y))?;
    one(b.convert(grad, b.dtype(c.tensor(b, "self")?))?)
}

/// As [`gradient`], with the number `name` beside them.
fn gradient_with(
    c: &Call<'_>,
    b: &Builder,
    name: &str,
    f: impl for<'e> FnOnce([Expr<'e>; 4]) -> Expr<'e>,
) -> Result<Outs> {
    let (x, y, _) = operands(c, b, "self")?;
    let grad = share(c, b, b.dtype(x), &b.shape(x))?;
    let grad = formula(b, [grad, x, y, scalar_like(c, b, &c.scalar(name)?, x)?], f)?;
    one(b.convert(grad, b.dtype(c.tensor(b, "self")?))?)
}

/// `self` and `target` of a cross entropy, in the accumulation type.
fn probabilities(c: &Call<'_>, b: &Builder) -> Result<(ValueId, ValueId)> {
    let (x, target) = (c.tensor(b, "self")?, c.tensor(b, "target")?);
    let [d, e] = [b.dtype(x), b.dtype(target)];
    ensure!(d == e, "Found dtype {} but expected {}", torch_name(e), torch_name(d));
    if !d.is_float() {
        return not_implemented("binary_cross_entropy", d);
    }
    let shape: Shape = broadcast_shapes([&b.shape(x), &b.shape(target)])?;
    let wide = |v| broadcast_to(b, b.convert(v, d.accumulator())?, &shape);
    Ok((wide(x)?, wide(target)?))
}

/// `losses` times the weight, reduced, in the type of `self`.
fn finish(c: &Call<'_>, b: &Builder, losses: ValueId) -> Result<Outs> {
    let weighted = weighted(c, b, losses)?;
    one(b.convert(reduced(b, weighted, reduction(c)?)?, b.dtype(c.tensor(b, "self")?))?)
}

fn weighted(c: &Call<'_>, b: &Builder, v: ValueId) -> Result<ValueId> {
    let Some(weight) = c.optional_tensor(b, "weight")? else { return Ok(v) };
    let weight = broadcast_to(b, b.convert(weight, b.dtype(v))?, &b.shape(v))?;
    b.multiply(v, weight)
}

fn cross_entropy_gradient(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (x, target) = probabilities(c, b)?;
    let grad = share(c, b, b.dtype(x), &b.shape(x))?;
    let grad = formula(b, [grad, x, target], |[g, x, t]| g * (x - t) / ((1.0 - x) * x).max(1e-12))?;
    one(b.convert(weighted(c, b, grad)?, b.dtype(c.tensor(b, "self")?))?)
}

fn with_logits(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (x, target, mut dtype) = operands(c, b, "self")?;
    let (given, shape) = (b.shape(c.tensor(b, "target")?), b.shape(x));
    ensure!(given == shape, "output with shape {given:?} doesn't match the broadcast shape {shape:?}");
    for name in ["weight", "pos_weight"] {
        if let Some(v) = c.optional_tensor(b, name)? {
            dtype = promote_types(dtype, b.dtype(v))?;
        }
    }
    let logits = b.dtype(c.tensor(b, "self")?);
    if !logits.is_float() {
        return not_implemented("log_sigmoid_cpu", logits);
    }
    let wide = dtype.accumulator();
    let (x, target) = (b.convert(x, wide)?, b.convert(target, wide)?);
    // `-log(sigmoid(x))` without overflow.
    let minus_log = formula(b, [x], |[x]| (-x.abs()).exp().ln_1p() - x.min(0.0))?;
    let losses = match c.optional_tensor(b, "pos_weight")? {
        Some(p) => {
            let p = broadcast_to(b, b.convert(p, wide)?, &shape)?;
            formula(b, [x, target, minus_log, p], |[x, t, m, p]| (1.0 - t) * x + ((p - 1.0) * t + 1.0) * m)?
        }
        None => formula(b, [x, target, minus_log], |[x, t, m]| (1.0 - t) * x + m)?,
    };
    one(b.convert(reduced(b, weighted(c, b, losses)?, reduction(c)?)?, dtype)?)
}

fn poisson(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (x, y, dtype) = operands(c, b, "input")?;
    let (log, full, eps) = (c.flag("log_input")?, c.flag("full")?, c.float("eps")?);
    let losses = formula(b, [x, y], |[x, t]| {
        let loss = if log { x.exp() - t * x } else { x - t * (x + eps).ln() };
        let stirling = t * t.ln() - t + 0.5 * (t * (2.0 * std::f64::consts::PI)).ln();
        if full { loss + t.at_most(1.0).select(t.constant(0.0), stirling) } else { loss }
    })?;
    one(b.convert(reduced(b, losses, reduction(c)?)?, dtype)?)
}
