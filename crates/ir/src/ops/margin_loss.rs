//! Losses that want the right classes ahead of the others by a margin.
//!
//! Every pair of a right class and another one is compared: `[batch, classes]` for one right class, `[batch, right
//! classes, classes]` for several.

use super::expr::{Expr, formula};
use super::loss::{Reduction, reduced, reduction};
use super::support::{not_implemented, torch_name};
use super::{Call, OpDef, Outs, err, many, ok, one};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::op::{Binary, Comparison, Reducer};
use crate::types::Dims;
use crate::{DType, Number, ensure};

pub(super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::multi_margin_loss(Tensor self, Tensor target, Scalar p=1, Scalar margin=1, Tensor? weight=None, \
         int reduction=1) -> Tensor",
        multi_margin,
        &[
            ok("f32[3,4], i64[3]{0..4}"),
            ok("f32[3,4], i64[3]{0..4}, 2, 0.5, f32[4], 0"),
            ok("f64[4], i64[]{0..4}, 1, 1, none, 0"),
            ok("f32[4], i64[1]{0..4}, 1, 1, none, 2"),
            err("f32[2,3,4], i64[2]{0}", "Expected non-empty vector or matrix with optional 0-dim batch size"),
            err("f32[2,3], i64[3]{0}", "target tensor should be 1-D with size equal to the number of input samples"),
            err("f32[2,3], i64[2]{0}, 3", "only p == 1 and p == 2 supported"),
            err("f32[2,3], i64[2]{0}, 1, 1, f32[2]", "inconsistent weight size, expected 3 but got [2]"),
            err("bf16[2,3], i64[2]{0}", "\"multi_margin_loss_cpu_kernel\" not implemented for 'BFloat16'"),
        ],
    )
    .variants(&["multi_margin_loss.out"]),
    OpDef::new(
        "aten::multi_margin_loss_backward(Tensor grad_output, Tensor self, Tensor target, Scalar p, Scalar margin, \
         Tensor? weight=None, int reduction=1) -> Tensor",
        multi_margin_backward,
        &[
            ok("f32[], f32[3,4], i64[3]{0..4}, 1, 1"),
            ok("f32[3], f32[3,4], i64[3]{0..4}, 2, 0.5, f32[4], 0"),
            ok("f64[], f64[4], i64[]{0..4}, 2, 1, none, 2"),
        ],
    )
    .variants(&["multi_margin_loss_backward.grad_input"]),
    OpDef::new(
        "aten::multilabel_margin_loss_forward(Tensor self, Tensor target, int reduction) -> (Tensor output, Tensor is_target)",
        multilabel,
        &[
            ok("f32[2,3], i64[2,3]{0,-1,1,1,0,-1}, 0"),
            ok("f32[2,4], i64[2,4]{3,0,-1,1,-1,0,1,2}, 1"),
            ok("f64[4], i64[4]{3,0,-1,1}, 2"),
            ok("f32[], i64[]{0}, 1"),
            err("f32[2,3], i64[2,2]{0,-1}, 1", "inconsistent target size: [2, 2] for input of size: [2, 3]"),
        ],
    )
    .variants(&["multilabel_margin_loss_forward.output"]),
    OpDef::new(
        "aten::multilabel_margin_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction, \
         Tensor is_target) -> Tensor",
        multilabel_backward,
        &[
            ok("f32[2], f32[2,3], i64[2,3]{0,-1,1,1,0,-1}, 0, f32[2,3]{1,0,0,1,1,0}"),
            ok("f32[], f32[2,3], i64[2,3]{0,-1,1,1,0,-1}, 1, f32[2,3]{1,0,0,1,1,0}"),
            ok("f64[], f64[3], i64[3]{2,1,-1}, 2, f64[3]{0,1,1}"),
        ],
    )
    .variants(&["multilabel_margin_loss_backward.grad_input"]),
];

/// Scores `[batch, classes]` beside their right classes.
struct Margins {
    x: ValueId,
    /// `[batch]`, or `[batch, classes]` for several.
    target: ValueId,
    batch: usize,
    classes: usize,
}

impl Margins {
    fn new(c: &Call<'_>, b: &Builder, kernel: &str) -> Result<Margins> {
        let (x, target) = (c.tensor(b, "self")?, c.tensor(b, "target")?);
        let s = b.shape(x);
        let sized = s.last() != Some(&0);
        ensure!(
            s.len() <= 2 && sized,
            "Expected non-empty vector or matrix with optional 0-dim batch size, but got: {s:?}"
        );
        let (dtype, labels) = (b.dtype(x), b.dtype(target));
        if !matches!(dtype, DType::F32 | DType::F64) {
            return not_implemented(kernel, dtype);
        }
        ensure!(labels == DType::I64, "expected scalar type Long but found {}", torch_name(labels));
        let classes = s.last().copied().unwrap_or(1);
        let batch = if s.len() == 2 { s[0] } else { 1 };
        Ok(Margins { x: b.reshape(x, &[batch, classes])?, target, batch, classes })
    }

    /// The gradient of each sample's loss, a share of it where the loss was averaged.
    fn share(&self, c: &Call<'_>, b: &Builder, shape: &[usize]) -> Result<ValueId> {
        let grad = b.convert(c.tensor(b, "grad_output")?, b.dtype(self.x))?;
        let average = if reduction(c)? == Reduction::Mean { self.batch as f64 } else { 1.0 };
        let share = formula(b, [grad], |[g]| g / (average * self.classes as f64))?;
        let dims: Dims = if b.rank(share) == 0 { Dims::new() } else { [0].into_iter().collect() };
        b.broadcast_in_dim(share, shape, &dims)
    }
}

/// Where `index`, with `-1` for none, names each of `classes` classes: one more dimension.
fn named(b: &Builder, index: ValueId, classes: usize) -> Result<ValueId> {
    let mut shape = b.shape(index);
    let last = shape.len();
    shape.push(classes);
    let index = b.broadcast_in_dim(index, &shape, &(0..last).collect::<Dims>())?;
    b.compare(Comparison::Eq, b.iota(DType::I64, &shape, last)?, index)
}

/// `v` without what lies outside `mask`.
fn masked(b: &Builder, v: ValueId, mask: ValueId) -> Result<ValueId> {
    b.select(mask, v, super::support::like(b, v, 0.0)?)
}

/// `x` where it is positive, else zero: NaN too.
fn above_zero(x: Expr<'_>) -> Expr<'_> {
    x.greater(0.0).select(x, 0.0)
}

/// How far each class of `[batch, classes]` intrudes on the margin before the right one, zero for the right one; where
/// the right one is; and the power and weights that go with it.
fn intrusions(c: &Call<'_>, b: &Builder, m: &Margins) -> Result<(ValueId, ValueId, bool, Option<ValueId>)> {
    let t = b.shape(m.target);
    ensure!(
        t.len() <= 1 && t.iter().product::<usize>() == m.batch,
        "multi_margin_loss: target tensor should be 1-D with size equal to the number of input samples (batch size). \
         Expected target size [{}], but got {t:?}. Input has shape {:?}.",
        m.batch,
        b.shape(m.x)
    );
    let p = c.float("p")?;
    ensure!(p == 1.0 || p == 2.0, "only p == 1 and p == 2 supported");
    let right = named(b, b.reshape(m.target, &[m.batch])?, m.classes)?;
    let weight = match c.optional_tensor(b, "weight")? {
        Some(w) => {
            let s = b.shape(w);
            ensure!(s[..] == [m.classes], "inconsistent weight size, expected {} but got {s:?}", m.classes);
            let each = b.broadcast_in_dim(w, &[m.batch, m.classes], &[1])?;
            Some(b.reduce(masked(b, each, right)?, Reducer::Add, &[1])?)
        }
        None => None,
    };
    let score = b.reduce(masked(b, m.x, right)?, Reducer::Add, &[1])?;
    let score = b.broadcast_in_dim(score, &[m.batch, m.classes], &[0])?;
    let margin = c.float("margin")?;
    let over = formula(b, [m.x, score], |[x, score]| above_zero(margin - score + x))?;
    Ok((b.select(right, super::support::like(b, over, 0.0)?, over)?, right, p == 2.0, weight))
}

fn multi_margin(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let m = Margins::new(c, b, "multi_margin_loss_cpu_kernel")?;
    let (over, _, square, weight) = intrusions(c, b, &m)?;
    let losses = if square { b.multiply(over, over)? } else { over };
    let mut losses = b.reduce(losses, Reducer::Add, &[1])?;
    if let Some(w) = weight {
        losses = b.multiply(losses, w)?;
    }
    let losses = formula(b, [losses], |[x]| x / m.classes as f64)?;
    one(match reduction(c)? {
        Reduction::None => b.reshape(losses, &b.shape(m.target))?,
        other => reduced(b, losses, other)?,
    })
}

fn multi_margin_backward(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let m = Margins::new(c, b, "multi_margin_loss_backward_cpu_kernel")?;
    let (over, right, square, weight) = intrusions(c, b, &m)?;
    let shape = [m.batch, m.classes];
    let slope = formula(b, [over], |[x]| if square { x * 2.0 } else { x.greater(0.0).convert(x.dtype()) })?;
    let mut grad = b.multiply(slope, m.share(c, b, &shape)?)?;
    if let Some(w) = weight {
        grad = b.multiply(grad, b.broadcast_in_dim(w, &shape, &[0])?)?;
    }
    let against = b.broadcast_in_dim(b.negate(b.reduce(grad, Reducer::Add, &[1])?)?, &shape, &[0])?;
    one(b.reshape(b.select(right, against, grad)?, &b.shape(c.tensor(b, "self")?))?)
}

/// The labels `[batch, labels]` up to the first negative one, which ends them; `-1` from there on.
fn labels(b: &Builder, m: &Margins, input: &[usize]) -> Result<ValueId> {
    let given = b.shape(m.target);
    ensure!(given[..] == *input, "inconsistent target size: {given:?} for input of size: {input:?}");
    let labels = b.reshape(m.target, &[m.batch, m.classes])?;
    let places = b.iota(DType::I64, &[m.batch, m.classes], 1)?;
    let negative = b.compare(Comparison::Lt, labels, b.full_like(labels, Number::Int(0))?)?;
    let far = b.full_like(labels, Number::Int(m.classes as i64))?;
    let end = b.reduce(b.select(negative, places, far)?, Reducer::Minimum, &[1])?;
    let before = b.compare(Comparison::Lt, places, b.broadcast_in_dim(end, &[m.batch, m.classes], &[0])?)?;
    b.select(before, labels, b.full_like(labels, Number::Int(-1))?)
}

/// How far each other class intrudes on each right one, `[batch, labels, classes]`, given which are right; and the
/// classes that the labels name.
fn pairs(b: &Builder, m: &Margins, labels: ValueId, right: ValueId) -> Result<(ValueId, ValueId)> {
    let shape = [m.batch, m.classes, m.classes];
    let named = named(b, labels, m.classes)?;
    let x = b.broadcast_in_dim(m.x, &shape, &[0, 2])?;
    let score = b.reduce(masked(b, x, named)?, Reducer::Add, &[2])?;
    let score = b.broadcast_in_dim(score, &shape, &[0, 1])?;
    let is_label = b.compare(Comparison::Ge, labels, b.full_like(labels, Number::Int(0))?)?;
    let is_label = b.broadcast_in_dim(is_label, &shape, &[0, 1])?;
    let other = b.unary(crate::Unary::Not, b.broadcast_in_dim(right, &shape, &[0, 2])?)?;
    let over = formula(b, [x, score], |[x, score]| above_zero(1.0 - score + x))?;
    Ok((masked(b, over, b.binary(Binary::And, is_label, other)?)?, named))
}

fn multilabel(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let m = Margins::new(c, b, "multilabel_margin_loss_forward_out_frame")?;
    let input = b.shape(c.tensor(b, "self")?);
    let labels = labels(b, &m, &input)?;
    let right = b.reduce(named(b, labels, m.classes)?, Reducer::Or, &[1])?;
    let (over, _) = pairs(b, &m, labels, right)?;
    let losses = formula(b, [b.reduce(over, Reducer::Add, &[1, 2])?], |[x]| x / m.classes as f64)?;
    let output = match reduction(c)? {
        Reduction::None if input.len() == 2 => losses,
        Reduction::None => b.reshape(losses, &[])?,
        other => reduced(b, losses, other)?,
    };
    many([output, b.reshape(b.convert(right, b.dtype(m.x))?, &input)?])
}

fn multilabel_backward(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let m = Margins::new(c, b, "multilabel_margin_loss_backward_out_frame")?;
    let input = b.shape(c.tensor(b, "self")?);
    let labels = labels(b, &m, &input)?;
    let given = b.reshape(c.tensor(b, "is_target")?, &[m.batch, m.classes])?;
    let right = b.compare(Comparison::Ne, given, b.full_like(given, Number::Int(0))?)?;
    let (over, named) = pairs(b, &m, labels, right)?;
    let shape = [m.batch, m.classes, m.classes];
    let share = m.share(c, b, &shape)?;
    let grad = masked(b, share, b.compare(Comparison::Gt, over, super::support::like(b, over, 0.0)?)?)?;
    let intruding = b.reduce(grad, Reducer::Add, &[1])?;
    let per_label = b.broadcast_in_dim(b.reduce(grad, Reducer::Add, &[2])?, &shape, &[0, 1])?;
    let intruded = b.reduce(masked(b, per_label, named)?, Reducer::Add, &[1])?;
    one(b.reshape(b.subtract(intruding, intruded)?, &input)?)
}
