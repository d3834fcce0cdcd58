//! Losses over classes.
//!
//! Inputs are taken as `[batch, classes, places]`. The loss of a class is gathered; its gradient is a comparison with the
//! class numbers, which fuses with what follows it. A target out of range is an error in PyTorch; here it is clamped.

use super::expr::formula;
use super::softmax::log_softmax;
use super::support::torch_name;
use super::{Call, OpDef, Outs, err, many, ok, one};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::op::Gather;
use crate::types::{Dims, Shape};
use crate::{Binary, Comparison, DType, Number, Reducer, ensure};

pub(super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::nll_loss_forward(Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index) -> (Tensor output, Tensor total_weight)",
        |c, b| {
            let Nll { output, total_weight } = flat(c, b)?;
            many([output, total_weight])
        },
        &[
            ok("f32[4,3], i64[4]{0..3}, none, 1, -100"),
            ok("f32[4,3], i64[4]{0,1,2,1}, f32[3]{0.5..2}, 1, 1"),
            ok("f32[4,3], i64[4]{0..3}, f32[3], 0, 2"),
            ok("f32[4,3], i64[4]{0..3}, none, 2, 0"),
            ok("bf16[4,3], i64[4]{0..3}, bf16[3], 1, -100"),
            ok("f64[4,3], u8[4]{0..3}, none, 1, -100"),
            ok("f32[3], i64[]{2}, none, 1, 5"),
            ok("f32[3], i64[1]{1}, f32[3], 0, -100"),
            ok("f32[0,3], i64[0], none, 1, -100"),
            ok("f32[2,3], i64[2]{1}, none, 1, 1"),
            err("f32[2,3], i32[2], none, 1, -100", "expected target dtype to be Long or Byte, but got Int"),
            err("f32[2,3], i64[3], none, 1, -100", "size mismatch (got input: [2, 3], target: [3])"),
            err("f32[2,3], i64[2,1], none, 1, -100", "0D or 1D target tensor expected, multi-target not supported"),
            err("f32[2,3,4], i64[2], none, 1, -100", "input tensor should be 1D or 2D"),
            err("f32[2,3], i64[2], f32[4], 1, -100", "weight tensor should be defined either for all 3 classes or no classes but got weight tensor of shape: [4]"),
            err("f32[2,3], i64[2], f64[3], 1, -100", "expected scalar type Float but found Double"),
        ],
    )
    .variants(&["nll_loss_forward.output"]),
    OpDef::new(
        "aten::nll_loss_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index, Tensor total_weight) -> Tensor",
        |c, b| backward(c, b, false),
        &[
            ok("f32[], f32[4,3], i64[4]{0..3}, none, 1, -100, f32[]{4}"),
            ok("f32[], f32[4,3], i64[4]{0,1,2,1}, f32[3]{0.5..2}, 1, 1, f32[]{3}"),
            ok("f32[4], f32[4,3], i64[4]{0..3}, f32[3], 0, 2, f32[]{0}"),
            ok("bf16[], bf16[4,3], i64[4]{0..3}, none, 2, 0, bf16[]{4}"),
            ok("f32[], f32[3], i64[]{1}, none, 0, -100, f32[]{1}"),
            err("f32[2], f32[2,3], i64[2]{0..3}, none, 1, -100, f32[]{2}", "Expected a single element grad_output tensor, but got: [2]"),
        ],
    )
    .variants(&["nll_loss_backward.grad_input"]),
    OpDef::new(
        "aten::nll_loss2d_forward(Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index) -> (Tensor output, Tensor total_weight)",
        |c, b| {
            let Nll { output, total_weight } = spatial(c, b)?;
            many([output, total_weight])
        },
        &[
            ok("f32[2,3,4,5], i64[2,4,5]{0..3}, none, 1, -100"),
            ok("f32[2,3,4,5], i64[2,4,5]{0..3}, f32[3]{0.5..2}, 1, 1"),
            ok("f32[2,3,4,5], i64[2,4,5]{0..3}, none, 0, 2"),
            ok("f32[2,3,4,5], i64[2,4,5]{0..3}, f32[3], 2, -100"),
            err("f32[2,3,4,4], i64[2,4,5], none, 1, -100", "size mismatch (got input: [2, 3, 4, 4] , target: [2, 4, 5]"),
            err("f32[2,3,4], i64[2,4,5], none, 1, -100", "only batches of spatial inputs supported (4D tensors), but got input of dimension: 3"),
            err("f32[2,3,4,5], i64[2,4,5], f32[2], 1, -100", "weight tensor should be defined either for all or no classes"),
        ],
    )
    .variants(&["nll_loss2d_forward.output"]),
    OpDef::new(
        "aten::nll_loss2d_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index, Tensor total_weight) -> Tensor",
        |c, b| backward(c, b, true),
        &[
            ok("f32[], f32[2,3,4,5], i64[2,4,5]{0..3}, f32[3], 1, 1, f32[]{7}"),
            ok("f32[2,4,5], f32[2,3,4,5], i64[2,4,5]{0..3}, none, 0, -100, f32[]{0}"),
        ],
    )
    .variants(&["nll_loss2d_backward.grad_input"]),
    OpDef::new(
        "aten::nll_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100) -> Tensor",
        |c, b| one(flat(c, b)?.output),
        &[ok("f32[4,3], i64[4]{0..3}"), ok("f32[4,3], i64[4]{0..3}, f32[3], 2, 1")],
    )
    .variants(&["nll_loss.out"]),
    OpDef::new(
        "aten::nll_loss2d(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100) -> Tensor",
        |c, b| one(spatial(c, b)?.output),
        &[ok("f32[2,3,4,5], i64[2,4,5]{0..3}"), ok("f32[2,3,4,5], i64[2,4,5]{0..3}, f32[3], 0, 1")],
    )
    .variants(&["nll_loss2d.out"]),
    OpDef::new(
        "aten::nll_loss_nd(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100) -> Tensor",
        |c, b| one(nll_nd(c, b, c.tensor(b, "self")?)?),
        &[
            ok("f32[4,3], i64[4]{0..3}"),
            ok("f32[3], i64[]{1}, none, 0"),
            ok("f32[2,3,4], i64[2,4]{0..3}, f32[3], 1, 1"),
            ok("f32[2,3,4,5,2], i64[2,4,5,2]{0..3}, none, 0"),
            err("f32[2,3,4], i64[3,4]", "Expected input batch_size (2) to match target batch_size (3)."),
            err("f32[2,3,4], i64[2,5]", "Expected target size [2, 4], got [2, 5]"),
            err("f32[], i64[]", "Expected 1 or more dimensions (got 0)"),
        ],
    ),
    OpDef::new(
        "aten::cross_entropy_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100, float label_smoothing=0.) -> Tensor",
        cross_entropy,
        &[
            ok("f32[4,3], i64[4]{0..3}"),
            ok("f32[4,3], i64[4]{0..3}, f32[3]{0.5..2}, 1, 1"),
            ok("f32[4,3], i64[4]{0..3}, none, 0, 1"),
            ok("f32[4,3], i64[4]{0..3}, none, 1, 1, 0.1"),
            ok("f32[4,3], i64[4]{0,2,1,2}, f32[3]{0.5..2}, 1, 1, 0.1"),
            ok("f32[2,3,4], i64[2,4]{0..3}, f32[3]{0.5..2}, 0, 1, 0.3"),
            ok("f32[2,3,4], i64[2,4]{0..3}, none, 2, -100, 0.3"),
            ok("f32[4,3], f32[4,3]{0..1}"),
            ok("f32[2,3,4], f32[2,3,4]{0..1}, f32[3]{0.5..2}, 1, -100, 0.2"),
            ok("f32[2,3,4], f32[2,3,4]{0..1}, f32[3]{0.5..2}, 0"),
            ok("f32[3], i64[]{1}"),
            ok("f32[3], f32[3]{0..1}, none, 2"),
            ok("bf16[4,3], i64[4]{0..3}"),
            ok("f32[0,3], i64[0]"),
            err("f32[2,3], f32[2,3], none, 1, 2", "ignore_index is not supported for floating point target"),
            err("f32[2,3], i64[2,3]", "Expected floating point type for target with class probabilities, got Long"),
            err("f32[2,3], i64[2], f32[4]", "but got weight tensor of shape: [4]"),
            err("f32[2,3], i64[2], none, 1, -100, 1.5", "label_smoothing must be between 0.0 and 1.0. Got: 1.5"),
        ],
    ),
];

/// How a loss is reduced.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Reduction {
    None,
    Mean,
    Sum,
}

/// The argument `reduction`, `at::Reduction`'s number.
pub(super) fn reduction(c: &Call<'_>) -> Result<Reduction> {
    match c.int("reduction")? {
        0 => Ok(Reduction::None),
        1 => Ok(Reduction::Mean),
        _ => Ok(Reduction::Sum),
    }
}

/// `v` reduced over everything; the mean of nothing is NaN.
pub(super) fn reduced(b: &Builder, v: ValueId, reduction: Reduction) -> Result<ValueId> {
    let all: Dims = (0..b.rank(v)).collect();
    match reduction {
        Reduction::None => Ok(v),
        Reduction::Sum => b.reduce(v, Reducer::Add, &all),
        Reduction::Mean if all.is_empty() => Ok(v),
        Reduction::Mean => super::normalization::mean(b, v, &all),
    }
}

/// A loss and the weight of what it averages.
struct Nll {
    output: ValueId,
    total_weight: ValueId,
}

/// Log-probabilities with classes in the middle, targets beside them.
struct Classes {
    /// `[batch, classes, places]` in the accumulation type.
    x: ValueId,
    /// `i64[batch, places]`.
    target: ValueId,
    /// One per class, in the accumulation type.
    weight: Option<ValueId>,
    /// `bool[batch, places]`: not to be ignored.
    counted: ValueId,
}

/// `v`, whose dimension 1 (or only dimension) holds classes, as `[batch, classes, places]`.
fn with_classes_in_the_middle(b: &Builder, v: ValueId) -> Result<ValueId> {
    let shape = b.shape(v);
    match shape[..] {
        [classes] => b.reshape(v, &[1, classes, 1]),
        [batch, classes, ref rest @ ..] => b.reshape(v, &[batch, classes, rest.iter().product()]),
        [] => Err(crate::Error::invalid("Expected 1 or more dimensions (got 0)")),
    }
}

fn classes(c: &Call<'_>, b: &Builder, x: ValueId) -> Result<Classes> {
    let (target, weight) = (c.tensor(b, "target")?, c.optional_tensor(b, "weight")?);
    let dtype = b.dtype(x);
    let d = b.dtype(target);
    ensure!(matches!(d, DType::I64 | DType::U8), "expected target dtype to be Long or Byte, but got {}", torch_name(d));
    if let Some(w) = weight {
        let found = b.dtype(w);
        ensure!(found == dtype, "expected scalar type {} but found {}", torch_name(dtype), torch_name(found));
    }
    let wide = dtype.accumulator();
    let x = with_classes_in_the_middle(b, b.convert(x, wide)?)?;
    let s = b.shape(x);
    let target = b.reshape(b.convert(target, DType::I64)?, &[s[0], s[2]])?;
    let ignored = c.scalar_value(b, &c.scalar("ignore_index")?, DType::I64)?;
    let counted = b.compare(Comparison::Ne, target, b.broadcast_in_dim(ignored, &[s[0], s[2]], &[])?)?;
    let weight = weight.map(|w| b.convert(w, wide)).transpose()?;
    Ok(Classes { x, target, weight, counted })
}

impl Classes {
    /// `v[batch, places]` where it counts, else zero.
    fn counting(&self, b: &Builder, v: ValueId) -> Result<ValueId> {
        b.select(self.counted, v, super::support::like(b, v, 0.0)?)
    }

    /// For each target its weight, zero where it is ignored: `[batch, places]`.
    fn weights(&self, b: &Builder) -> Result<ValueId> {
        let s = b.shape(self.target);
        let weights = match self.weight {
            Some(w) if !s.contains(&0) => {
                let gather = Gather {
                    collapsed_slice_dims: [0].into_iter().collect(),
                    start_index_map: [0].into_iter().collect(),
                    index_vector_dim: 2,
                    slice_sizes: [1].into_iter().collect(),
                    ..Gather::default()
                };
                b.gather(w, b.reshape(self.target, &[s[0], s[1], 1])?, gather)?
            }
            _ => b.full(Number::Float(1.0), b.dtype(self.x), &s)?,
        };
        self.counting(b, weights)
    }

    /// For each target its log-probability: `[batch, places]`.
    fn picked(&self, b: &Builder) -> Result<ValueId> {
        let s = b.shape(self.target);
        if b.shape(self.x).contains(&0) {
            return b.full(Number::Float(0.0), b.dtype(self.x), &s);
        }
        let gather = Gather {
            collapsed_slice_dims: [1].into_iter().collect(),
            operand_batching_dims: [0, 2].into_iter().collect(),
            start_indices_batching_dims: [0, 1].into_iter().collect(),
            start_index_map: [1].into_iter().collect(),
            index_vector_dim: 2,
            slice_sizes: [1, 1, 1].into_iter().collect(),
            ..Gather::default()
        };
        b.gather(self.x, b.reshape(self.target, &[s[0], s[1], 1])?, gather)
    }

    /// The loss per target: `[batch, places]`.
    fn losses(&self, b: &Builder) -> Result<ValueId> {
        let weights = self.weights(b)?;
        let losses = formula(b, [self.picked(b)?, weights], |[x, w]| -x * w)?;
        self.counting(b, losses)
    }

    /// The loss in the accumulation type, of the extents `shape` if it is not reduced.
    fn nll(&self, b: &Builder, reduction: Reduction, shape: &[usize]) -> Result<Nll> {
        let losses = self.losses(b)?;
        if reduction == Reduction::None && !shape.is_empty() {
            let zero = b.scalar(Number::Float(0.0), b.dtype(losses))?;
            return Ok(Nll { output: b.reshape(losses, shape)?, total_weight: zero });
        }
        let total_weight = reduced(b, self.weights(b)?, Reduction::Sum)?;
        let sum = reduced(b, losses, Reduction::Sum)?;
        let output = if reduction == Reduction::Mean { b.divide(sum, total_weight)? } else { sum };
        Ok(Nll { output, total_weight })
    }
}

/// The shape of an unreduced loss of `x`: without the classes.
fn loss_shape(x: &[usize]) -> Shape {
    x.iter().enumerate().filter(|&(i, _)| i != 1 && x.len() > 1).map(|(_, &d)| d).collect()
}

fn nll(c: &Call<'_>, b: &Builder, x: ValueId) -> Result<Nll> {
    let Nll { output, total_weight } = classes(c, b, x)?.nll(b, reduction(c)?, &loss_shape(&b.shape(x)))?;
    let dtype = b.dtype(x);
    Ok(Nll { output: b.convert(output, dtype)?, total_weight: b.convert(total_weight, dtype)? })
}

fn check_flat(c: &Call<'_>, b: &Builder, x: ValueId) -> Result<()> {
    let (s, t) = (b.shape(x), b.shape(c.tensor(b, "target")?));
    ensure!(matches!(s.len(), 1 | 2), "input tensor should be 1D or 2D");
    ensure!(t.len() <= 1, "0D or 1D target tensor expected, multi-target not supported");
    let fits = if s.len() == 1 { t.iter().all(|&n| n == 1) } else { t[..] == s[..1] };
    ensure!(fits, "size mismatch (got input: {s:?}, target: {t:?})");
    let classes = s[s.len() - 1];
    let Some(weight) = c.optional_tensor(b, "weight")? else { return Ok(()) };
    let w = b.shape(weight);
    ensure!(
        w[..] == [classes],
        "weight tensor should be defined either for all {classes} classes or no classes but got weight tensor of shape: {w:?}"
    );
    Ok(())
}

fn check_spatial(c: &Call<'_>, b: &Builder, x: ValueId) -> Result<()> {
    let (s, t) = (b.shape(x), b.shape(c.tensor(b, "target")?));
    ensure!(
        t.len() == 3,
        "only batches of spatial targets supported (3D tensors) but got targets of dimension: {}",
        t.len()
    );
    ensure!(
        s.len() == 4,
        "only batches of spatial inputs supported (4D tensors), but got input of dimension: {}",
        s.len()
    );
    ensure!(t == loss_shape(&s), "size mismatch (got input: {s:?} , target: {t:?}");
    let Some(weight) = c.optional_tensor(b, "weight")? else { return Ok(()) };
    ensure!(b.shape(weight)[..] == [s[1]], "weight tensor should be defined either for all or no classes");
    Ok(())
}

fn flat(c: &Call<'_>, b: &Builder) -> Result<Nll> {
    let x = c.tensor(b, "self")?;
    check_flat(c, b, x)?;
    nll(c, b, x)
}

fn spatial(c: &Call<'_>, b: &Builder) -> Result<Nll> {
    let x = c.tensor(b, "self")?;
    check_spatial(c, b, x)?;
    nll(c, b, x)
}

/// The negative log-likelihood of `x` of any rank.
fn nll_nd(c: &Call<'_>, b: &Builder, x: ValueId) -> Result<ValueId> {
    let (s, t) = (b.shape(x), b.shape(c.tensor(b, "target")?));
    ensure!(!s.is_empty(), "Expected 1 or more dimensions (got 0)");
    if s.len() > 1 {
        let batch = t.first().copied().unwrap_or(1);
        ensure!(s[0] == batch, "Expected input batch_size ({}) to match target batch_size ({batch}).", s[0]);
    }
    match s.len() {
        1 | 2 => check_flat(c, b, x)?,
        4 => check_spatial(c, b, x)?,
        _ => {
            let expected = loss_shape(&s);
            ensure!(t == expected, "Expected target size {expected:?}, got {t:?}");
        }
    }
    Ok(nll(c, b, x)?.output)
}

fn backward(c: &Call<'_>, b: &Builder, is_spatial: bool) -> Result<Outs> {
    let x = c.tensor(b, "self")?;
    if is_spatial {
        check_spatial(c, b, x)?
    } else {
        check_flat(c, b, x)?
    }
    let parts = classes(c, b, x)?;
    let (shape, wide) = (b.shape(parts.x), b.dtype(parts.x));
    let grad = b.convert(c.tensor(b, "grad_output")?, wide)?;
    let reduction = reduction(c)?;
    let unreduced = reduction == Reduction::None && b.rank(x) > 1;
    let grad = if unreduced {
        ensure!(
            b.shape(grad) == loss_shape(&b.shape(x)),
            "Expected a tensor of dimension {} for grad_output, but got {:?}",
            b.rank(x) - 1,
            b.shape(grad)
        );
        let flat = b.reshape(grad, &[shape[0], shape[2]])?;
        b.broadcast_in_dim(flat, &shape, &[0, 2])?
    } else {
        let s = b.shape(grad);
        ensure!(s.iter().product::<usize>() == 1, "Expected a single element grad_output tensor, but got: {s:?}");
        let mut grad = b.reshape(grad, &[])?;
        if reduction == Reduction::Mean {
            let total = b.reshape(b.convert(c.tensor(b, "total_weight")?, wide)?, &[])?;
            grad = b.divide(grad, total)?;
        }
        b.broadcast_in_dim(grad, &shape, &[])?
    };
    let weighted = match parts.weight {
        Some(w) => b.multiply(grad, b.broadcast_in_dim(w, &shape, &[1])?)?,
        None => grad,
    };
    let over_classes = |v| b.broadcast_in_dim(v, &shape, &[0, 2]);
    let number = b.iota(DType::I64, &shape, 1)?;
    let own = b.compare(Comparison::Eq, number, over_classes(parts.target)?)?;
    let own = b.binary(Binary::And, own, over_classes(parts.counted)?)?;
    let grad_input = b.select(own, b.negate(weighted)?, super::support::like(b, weighted, 0.0)?)?;
    one(b.convert(b.reshape(grad_input, &b.shape(x))?, b.dtype(x))?)
}

fn cross_entropy(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (x, target) = (c.tensor(b, "self")?, c.tensor(b, "target")?);
    let dtype = b.dtype(x);
    if !dtype.is_float() {
        return super::support::not_implemented("log_softmax_lastdim_kernel_impl", dtype);
    }
    let s = b.shape(x);
    ensure!(!s.is_empty(), "Expected 1 or more dimensions (got 0)");
    let log = log_softmax(b, b.convert(x, dtype.accumulator())?, usize::from(s.len() > 1))?;
    let smoothing = c.float("label_smoothing")?;
    if s == b.shape(target) {
        let d = b.dtype(target);
        ensure!(
            d.is_float(),
            "Expected floating point type for target with class probabilities, got {}",
            torch_name(d)
        );
        ensure!(c.int("ignore_index")? < 0, "ignore_index is not supported for floating point target");
        return one(b.convert(with_probabilities(c, b, log, target, smoothing)?, dtype)?);
    }
    let loss = nll_nd(c, b, b.convert(log, dtype)?)?;
    if smoothing <= 0.0 {
        return one(loss);
    }
    ensure!(smoothing <= 1.0, "label_smoothing must be between 0.0 and 1.0. Got: {smoothing}");
    let parts = classes(c, b, b.convert(log, dtype)?)?;
    let wide = b.dtype(log);
    let smooth = smooth_loss(b, &parts, reduction(c)?, &loss_shape(&s))?;
    let classes = b.shape(parts.x)[1] as f64;
    let mixed = formula(b, [b.convert(loss, wide)?, smooth], |[loss, smooth]| {
        loss * (1.0 - smoothing) + smooth * (smoothing / classes)
    })?;
    one(b.convert(mixed, dtype)?)
}

/// The loss against a uniform distribution, not divided by the number of classes.
fn smooth_loss(b: &Builder, parts: &Classes, reduction: Reduction, shape: &[usize]) -> Result<ValueId> {
    let weighted = match parts.weight {
        Some(w) => b.multiply(parts.x, b.broadcast_in_dim(w, &b.shape(parts.x), &[1])?)?,
        None => parts.x,
    };
    let losses = parts.counting(b, b.negate(b.reduce(weighted, Reducer::Add, &[1])?)?)?;
    match reduction {
        Reduction::None => b.reshape(losses, shape),
        Reduction::Sum => reduced(b, losses, Reduction::Sum),
        Reduction::Mean => {
            let total = reduced(b, parts.weights(b)?, Reduction::Sum)?;
            b.divide(reduced(b, losses, Reduction::Sum)?, total)
        }
    }
}

/// Cross entropy with a distribution over classes as the target.
fn with_probabilities(c: &Call<'_>, b: &Builder, log: ValueId, target: ValueId, smoothing: f64) -> Result<ValueId> {
    let shape = b.shape(log);
    let log = with_classes_in_the_middle(b, log)?;
    let s = b.shape(log);
    let classes = s[1] as f64;
    let target = with_classes_in_the_middle(b, b.convert(target, b.dtype(log))?)?;
    let target = match smoothing > 0.0 {
        true => {
            ensure!(smoothing <= 1.0, "label_smoothing must be between 0.0 and 1.0. Got: {smoothing}");
            formula(b, [target], |[t]| t * (1.0 - smoothing) + smoothing / classes)?
        }
        false => target,
    };
    let mut losses = formula(b, [log, target], |[x, t]| -(x * t))?;
    if let Some(w) = c.optional_tensor(b, "weight")? {
        let fits = b.shape(w)[..] == [s[1]];
        ensure!(
            fits,
            "cross_entropy: weight tensor should be defined either for all {} classes or no classes but got weight tensor of shape: {:?}",
            s[1],
            b.shape(w)
        );
        losses = b.multiply(losses, b.broadcast_in_dim(b.convert(w, b.dtype(log))?, &s, &[1])?)?;
    }
    match reduction(c)? {
        Reduction::None => b.reshape(b.reduce(losses, Reducer::Add, &[1])?, &loss_shape(&shape)),
        Reduction::Sum => reduced(b, losses, Reduction::Sum),
        Reduction::Mean => {
            let places = (s[0] * s[2]) as f64;
            formula(b, [reduced(b, losses, Reduction::Sum)?], |[sum]| sum / places)
        }
    }
}
