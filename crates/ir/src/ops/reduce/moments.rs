//! Variance and standard deviation.

use super::super::support::torch_name;
use super::super::{Call, OpDef, Outs, err, many, ok, one};
use super::{Over, sum_as};
use crate::builder::Builder;
use crate::ensure_kernel;
use crate::error::Result;
use crate::graph::ValueId;
use crate::literal::Number;
use crate::op::{Reducer, Unary};

pub(in super::super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::var(Tensor self, bool unbiased=True) -> Tensor",
        |c, b| one(spread(b, &Over::everything(c, b)?, unbiased(c)?, Root::No)?.0),
        &[
            ok("f32[2,3]"),
            ok("f32[4], false"),
            ok("f32[1]"),
            ok("f32[0]"),
            ok("c64[3]"),
            err("i64[3]", "std and var only support floating point and complex dtypes"),
        ],
    ),
    OpDef::new(
        "aten::var.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor",
        |c, b| one(spread(b, &Over::dims(c, b)?, unbiased(c)?, Root::No)?.0),
        &[ok("f32[2,3], [1], false, true"), ok("bf16[2,30], [0]")],
    )
    .variants(&["var.out"]),
    OpDef::new(
        "aten::var.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor",
        |c, b| one(spread(b, &Over::dims(c, b)?, correction(c)?, Root::No)?.0),
        &[
            ok("f32[2,3]"),
            ok("f32[2,3], [1], correction=0, keepdim=true"),
            ok("f32[2,3], [1], correction=5"),
            ok("f32[2,3], [], correction=0.5"),
            ok("f32[2,0], [1]"),
            ok("f32[]"),
            ok("f32[3]{nan,1,2}"),
        ],
    )
    .variants(&["var.correction_out"]),
    OpDef::new(
        "aten::std(Tensor self, bool unbiased=True) -> Tensor",
        |c, b| one(spread(b, &Over::everything(c, b)?, unbiased(c)?, Root::Yes)?.0),
        &[ok("f32[2,3]"), ok("f16[4], false")],
    ),
    OpDef::new(
        "aten::std.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor",
        |c, b| one(spread(b, &Over::dims(c, b)?, unbiased(c)?, Root::Yes)?.0),
        &[ok("f32[2,3], [1], true, true")],
    )
    .variants(&["std.out"]),
    OpDef::new(
        "aten::std.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor",
        |c, b| one(spread(b, &Over::dims(c, b)?, correction(c)?, Root::Yes)?.0),
        &[ok("f32[2,3], [0], correction=0"), ok("c64[2,3], [1]")],
    )
    .variants(&["std.correction_out"]),
    OpDef::new(
        "aten::var_mean(Tensor self, bool unbiased=True) -> (Tensor, Tensor)",
        |c, b| both(b, &Over::everything(c, b)?, unbiased(c)?, Root::No),
        &[ok("f32[2,3]")],
    ),
    OpDef::new(
        "aten::var_mean.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> (Tensor, Tensor)",
        |c, b| both(b, &Over::dims(c, b)?, unbiased(c)?, Root::No),
        &[ok("f32[2,3], [1], false, true")],
    ),
    OpDef::new(
        "aten::var_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> \
         (Tensor, Tensor)",
        |c, b| both(b, &Over::dims(c, b)?, correction(c)?, Root::No),
        &[ok("f32[2,3,4], [0,2], correction=0, keepdim=true"), ok("bf16[2,30], [1]"), ok("c64[2,3], [1]")],
    )
    .variants(&["var_mean.correction_out"]),
    OpDef::new(
        "aten::std_mean(Tensor self, bool unbiased=True) -> (Tensor, Tensor)",
        |c, b| both(b, &Over::everything(c, b)?, unbiased(c)?, Root::Yes),
        &[ok("f32[2,3]")],
    ),
    OpDef::new(
        "aten::std_mean.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> (Tensor, Tensor)",
        |c, b| both(b, &Over::dims(c, b)?, unbiased(c)?, Root::Yes),
        &[ok("f32[2,3], [1]")],
    ),
    OpDef::new(
        "aten::std_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> \
         (Tensor, Tensor)",
        |c, b| both(b, &Over::dims(c, b)?, correction(c)?, Root::Yes),
        &[ok("f32[2,3], [1], correction=2, keepdim=true")],
    )
    .variants(&["std_mean.correction_out"]),
];

/// Whether the square root of the variance is asked for.
#[derive(Clone, Copy, PartialEq)]
enum Root {
    Yes,
    No,
}

fn unbiased(c: &Call<'_>) -> Result<f64> {
    Ok(f64::from(c.flag("unbiased")?))
}

fn correction(c: &Call<'_>) -> Result<f64> {
    Ok(c.optional_float("correction")?.unwrap_or(1.0))
}

fn both(b: &Builder, over: &Over, correction: f64, root: Root) -> Result<Outs> {
    let (spread, mean) = spread(b, over, correction, root)?;
    many([spread, mean])
}

/// Variance or standard deviation, and mean: the mean first, then the squares of what is left.
fn spread(b: &Builder, over: &Over, correction: f64, root: Root) -> Result<(ValueId, ValueId)> {
    let dtype = b.dtype(over.v);
    ensure_kernel!(
        dtype.is_float() || dtype.is_complex(),
        "std and var only support floating point and complex dtypes, got {}",
        torch_name(dtype)
    );
    let wide = over.with(b.convert(over.v, dtype.accumulator())?);
    let count = over.count(b) as f64;
    let sum = b.reduce(wide.v, Reducer::Add, &wide.dims)?;
    let mean = b.divide(sum, b.full_like(sum, Number::Float(count))?)?;
    let apart = b.subtract(wide.v, wide.spread(b, mean)?)?;
    let squares = wide.with(squared_size(b, apart)?);
    let sum = sum_as(b, &squares, b.dtype(squares.v))?;
    let divisor = b.full_like(sum, Number::Float((count - correction).max(0.0)))?;
    let variance = b.divide(sum, divisor)?;
    let variance = if root == Root::Yes { b.unary(Unary::Sqrt, variance)? } else { variance };
    Ok((b.convert(variance, dtype.real())?, b.convert(wide.kept(b, mean)?, dtype)?))
}

/// `|v|^2`.
fn squared_size(b: &Builder, v: ValueId) -> Result<ValueId> {
    if !b.dtype(v).is_complex() {
        return b.multiply(v, v);
    }
    let (re, im) = (b.unary(Unary::Real, v)?, b.unary(Unary::Imag, v)?);
    b.add(b.multiply(re, re)?, b.multiply(im, im)?)
}
