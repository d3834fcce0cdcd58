//! Dropout and other noise of training.

use super::super::expr::formula;
use super::super::support::{broadcast_to, not_implemented, result_type, scalar_like, torch_name};
use super::super::{Call, OpDef, Outs, Scalar, Strides, err, many, ok, one};
use super::{bernoulli, uniform, wide};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::literal::Number;
use crate::op::{Binary, Comparison};
use crate::types::Shape;
use crate::{DType, ensure};

pub(in super::super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)",
        native_dropout,
        &[
            ok("f32[20,30]{-3..3}, 0.25, true"),
            ok("bf16[400]{-3..3}, 0.5, true"),
            ok("bf16[4], 0.0, none"),
            ok("f32[4], 1.0, true"),
            ok("f32[4], 0.5, false"),
            ok("f32[0], 0.5, true"),
            err("i64[3], 0.5, true", "result type Float can't be cast to the desired output type Long"),
            err("f32[3], 2.0, true", "bernoulli_ expects p to be in [0, 1], but got p=-1"),
        ],
    )
    .variants(&["native_dropout.out"]),
    OpDef::new(
        "aten::native_dropout_backward(Tensor grad_output, Tensor mask, float scale) -> Tensor",
        |c, b| {
            let (grad, mask) = (c.tensor(b, "grad_output")?, c.tensor(b, "mask")?);
            let dtype = result_type(c, b, &[grad.into(), mask.into(), c.scalar("scale")?.into()])?;
            let v = b.convert(grad, dtype.accumulator())?;
            let v = b.multiply(v, broadcast_to(b, b.convert(mask, b.dtype(v))?, &b.shape(v))?)?;
            let v = b.multiply(v, scalar_like(c, b, &c.scalar("scale")?, v)?)?;
            one(b.convert(v, dtype)?)
        },
        &[
            ok("f32[2,3], bool[2,3], 2.0"),
            ok("bf16[4], bool[4], 1.25"),
            ok("bool[4], bool[4], 1.5"),
            ok("i64[4], bool[4], 1.5"),
        ],
    )
    .variants(&["native_dropout_backward.out"])
    .laid_out(Strides::ByElement),
    OpDef::new(
        "aten::dropout(Tensor input, float p, bool train) -> Tensor",
        |c, b| dropout(c, b, Kind { feature: false, alpha: false }),
        &[
            ok("f32[20,30]{-3..3}, 0.75, true"),
            ok("f32[2,3], 0.5, false"),
            ok("f32[4], 0.0, true"),
            ok("f32[4], 1.0, true"),
            err("f32[3], 2.0, true", "dropout probability has to be between 0 and 1, but got 2"),
        ],
    )
    .variants(&["dropout_"]),
    OpDef::new(
        "aten::feature_dropout(Tensor input, float p, bool train) -> Tensor",
        |c, b| dropout(c, b, Kind { feature: true, alpha: false }),
        &[
            ok("f32[20,30,2]{-3..3}, 0.5, true"),
            ok("f32[2,3], 0.5, false"),
            err("f32[3], 0.5, true", "Feature dropout requires at least 2 dimensions in the input"),
        ],
    )
    .variants(&["feature_dropout_"]),
    OpDef::new(
        "aten::alpha_dropout(Tensor input, float p, bool train) -> Tensor",
        |c, b| dropout(c, b, Kind { feature: false, alpha: true }),
        &[ok("f32[20,30]{-3..3}, 0.5, true"), ok("f32[2,3], 0.5, false")],
    )
    .variants(&["alpha_dropout_"]),
    OpDef::new(
        "aten::feature_alpha_dropout(Tensor input, float p, bool train) -> Tensor",
        |c, b| dropout(c, b, Kind { feature: true, alpha: true }),
        &[ok("f32[2,3,4], 0.5, true")],
    )
    .variants(&["feature_alpha_dropout_"]),
    OpDef::new(
        "aten::rrelu(Tensor self, Scalar lower=0.125, Scalar upper=0.33333333333333331, bool training=False, \
         Generator? generator=None) -> Tensor",
        |c, b| one(rrelu(c, b)?.0),
        &[ok("f32[2,3]"), ok("f32[500]{-3..3}, 0.1, 0.3, true"), err("i64[3]", "not implemented for 'Long'")],
    )
    .variants(&["rrelu_"]),
    OpDef::new(
        "aten::rrelu_with_noise(Tensor self, Tensor(b!) noise, Scalar lower=0.125, Scalar upper=0.33333333333333331, \
         bool training=False, Generator? generator=None) -> Tensor",
        |c, b| {
            let (out, noise) = rrelu(c, b)?;
            Ok(vec![Some(out), noise])
        },
        &[ok("f32[2,3], f32[2,3]"), ok("f32[4], f32[4], 0.1, 0.3, true")],
    )
    .variants(&["rrelu_with_noise_", "rrelu_with_noise.out"]),
    OpDef::new(
        "aten::rrelu_with_noise_functional(Tensor self, Tensor noise, Scalar lower=0.125, \
         Scalar upper=0.33333333333333331, bool training=False, Generator? generator=None) -> (Tensor, Tensor noise_out)",
        |c, b| {
            let (out, noise) = rrelu(c, b)?;
            let given = c.tensor(b, "noise")?;
            many([out, noise.unwrap_or(given)])
        },
        &[ok("f32[2,3], f32[2,3]"), ok("f32[4], f32[4], 0.1, 0.3, true")],
    ),
];

/// `v` in its accumulation type.
fn widened(b: &Builder, v: ValueId) -> Result<ValueId> {
    b.convert(v, b.dtype(v).accumulator())
}

/// True where an element stays, which it does with probability `1 - p`.
fn keep_mask(c: &Call<'_>, b: &Builder, p: &Scalar, shape: &[usize]) -> Result<ValueId> {
    let p = c.scalar_value(b, p, DType::F32)?;
    let stay = b.subtract(b.full_like(p, Number::Int(1))?, p)?;
    bernoulli(b, broadcast_to(b, stay, shape)?)
}

/// `1 / (1 - p)`, or 0 where nothing stays.
fn keep_scale(c: &Call<'_>, b: &Builder, p: &Scalar) -> Result<ValueId> {
    if let Some(p) = p.known().map(Number::as_f64) {
        return b.scalar(Number::Float(if p == 1.0 { 0.0 } else { 1.0 / (1.0 - p) }), DType::F64);
    }
    let p = c.scalar_value(b, p, DType::F64)?;
    formula(b, [p], |[p]| p.equals(1.0).select(p.constant(0.0), 1.0 / (1.0 - p)))
}

fn native_dropout(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (v, p) = (c.tensor(b, "input")?, c.scalar("p")?);
    let t = b.ty(v)?;
    let train = !c.has("train") || c.flag("train")?;
    if t.numel() == 0 {
        // PyTorch's mask of nothing has the type of its input.
        return many([v, v]);
    }
    if !train {
        return many([v, b.full(Number::Bool(true), DType::Bool, &t.shape)?]);
    }
    floating(t.dtype)?;
    ensure!(
        c.requires(&p, |p| (0.0..=1.0).contains(&p)),
        "bernoulli_ expects p to be in [0, 1], but got p={}",
        1.0 - p.now().as_f64()
    );
    let mask = keep_mask(c, b, &p, &t.shape)?;
    let wide = widened(b, v)?;
    let kept = b.multiply(wide, b.convert(mask, b.dtype(wide))?)?;
    let out = b.multiply(kept, broadcast_to(b, b.convert(keep_scale(c, b, &p)?, b.dtype(wide))?, &t.shape)?)?;
    many([b.convert(out, t.dtype)?, mask])
}

fn floating(dtype: DType) -> Result<()> {
    ensure!(
        dtype.is_float() || dtype.is_complex(),
        "result type Float can't be cast to the desired output type {}",
        torch_name(dtype)
    );
    Ok(())
}

/// The slope and scale of SELU, whose statistics alpha dropout keeps.
const SELU_SATURATION: f64 = 1.7580993408473766;

/// Which dropout.
#[derive(Clone, Copy)]
struct Kind {
    /// Whole channels go, not single elements.
    feature: bool,
    /// What goes becomes SELU's saturation value, not zero.
    alpha: bool,
}

fn dropout(c: &Call<'_>, b: &Builder, kind: Kind) -> Result<Outs> {
    let (v, scalar) = (c.tensor(b, "input")?, c.scalar("p")?);
    let p = c.number(&scalar).as_f64();
    ensure!((0.0..=1.0).contains(&p), "dropout probability has to be between 0 and 1, but got {p}");
    let t = b.ty(v)?;
    if p == 0.0 || !c.flag("train")? || t.numel() == 0 {
        return one(v);
    }
    floating(t.dtype)?;
    if p == 1.0 {
        return one(b.multiply(v, b.full_like(v, Number::Int(0))?)?);
    }
    let shape = if kind.feature { feature_shape(&t.shape)? } else { t.shape.clone() };
    let mask = keep_mask(c, b, &scalar, &shape)?;
    let wide = widened(b, v)?;
    let mask = b.convert(mask, b.dtype(wide))?;
    let of_mask = |scale: f64, offset: f64| {
        let scaled = b.multiply(mask, b.full_like(mask, Number::Float(scale))?)?;
        let shifted = if offset == 0.0 { scaled } else { b.add(scaled, b.full_like(mask, Number::Float(offset))?)? };
        b.broadcast_in_dim(shifted, &t.shape, &(0..t.rank()).collect::<Vec<_>>())
    };
    let out = if kind.alpha {
        let a = 1.0 / ((SELU_SATURATION * SELU_SATURATION * p + 1.0) * (1.0 - p)).sqrt();
        let level = SELU_SATURATION * a;
        b.add(b.multiply(wide, of_mask(a, 0.0)?)?, of_mask(level, level * p - level)?)?
    } else {
        b.multiply(wide, of_mask(1.0 / (1.0 - p), 0.0)?)?
    };
    one(b.convert(out, t.dtype)?)
}

/// One element per sample and channel.
fn feature_shape(shape: &[usize]) -> Result<Shape> {
    ensure!(shape.len() >= 2, "Feature dropout requires at least 2 dimensions in the input");
    Ok(shape.iter().enumerate().map(|(i, &d)| if i < 2 { d } else { 1 }).collect())
}

/// The result, and in training the noise: a random slope where `self` is not above zero, else 1.
fn rrelu(c: &Call<'_>, b: &Builder) -> Result<(ValueId, Option<ValueId>)> {
    let v = c.tensor(b, "self")?;
    let t = b.ty(v)?;
    if !t.dtype.is_float() {
        return not_implemented("leaky_relu_cpu", t.dtype);
    }
    let x = widened(b, v)?;
    let (lower, upper) = (scalar_like(c, b, &c.scalar("lower")?, x)?, scalar_like(c, b, &c.scalar("upper")?, x)?);
    let above = b.compare(Comparison::Gt, x, b.full_like(x, Number::Int(0))?)?;
    if !c.flag("training")? {
        let slope = b.multiply(b.add(lower, upper)?, b.full_like(x, Number::Float(0.5))?)?;
        let out = b.select(above, x, b.multiply(x, slope)?)?;
        return Ok((b.convert(out, t.dtype)?, None));
    }
    let u = uniform(b, wide(t.dtype), &t.shape)?;
    let slope = b.add(b.multiply(u, b.subtract(upper, lower)?)?, lower)?;
    // NaN takes a slope of 1: only what is at or below zero is scaled.
    let below = b.compare(Comparison::Le, x, b.full_like(x, Number::Int(0))?)?;
    let noise = b.select(below, slope, b.full_like(x, Number::Int(1))?)?;
    let out = b.binary(Binary::Multiply, x, noise)?;
    Ok((b.convert(out, t.dtype)?, Some(b.convert(noise, t.dtype)?)))
}
