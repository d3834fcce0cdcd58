//! Random numbers, drawn from the program's hidden generator state. A call's own generator is not looked at: one state
//! serves the program, seeded from outside.
//!
//! PyTorch's distributions, not its streams: the same seed gives other numbers than PyTorch's CPU generator.

pub(super) mod dropout;
pub(super) mod fill;
pub(super) mod gradients;
pub(super) mod new;
pub(super) mod rejection;

use super::support::not_implemented;
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::ValueId;
use crate::literal::Number;
use crate::op::{Binary, Comparison, Unary};

/// Random bits of `dtype`; none for a tensor without elements.
fn bits(b: &Builder, dtype: DType, shape: &[usize]) -> Result<ValueId> {
    if shape.contains(&0) { b.full(Number::Int(0), dtype, shape) } else { b.random_bits(dtype, shape) }
}

/// The top `digits` of random bits as a whole number in `dtype`, `f32` (up to 24 digits) or `f64` (up to 53).
fn digits(b: &Builder, dtype: DType, digits: u32, shape: &[usize]) -> Result<ValueId> {
    let (word, width) = if dtype == DType::F64 { (DType::U64, 64) } else { (DType::U32, 32) };
    let random = bits(b, word, shape)?;
    let by = b.full_like(random, Number::Int(i64::from(width - digits)))?;
    b.convert(b.binary(Binary::ShiftRightLogical, random, by)?, dtype)
}

fn scaled(b: &Builder, v: ValueId, factor: f64, offset: f64) -> Result<ValueId> {
    let product = b.multiply(v, b.full_like(v, Number::Float(factor))?)?;
    if offset == 0.0 { Ok(product) } else { b.add(product, b.full_like(v, Number::Float(offset))?) }
}

/// Evenly spaced numbers in `[0, 1)`, as many as `dtype` has mantissas, in its accumulation type.
pub(super) fn uniform(b: &Builder, dtype: DType, shape: &[usize]) -> Result<ValueId> {
    let mantissa = match dtype {
        DType::F64 => 53,
        DType::F16 => 11,
        DType::BF16 => 8,
        _ => 24,
    };
    let wide = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
    scaled(b, digits(b, wide, mantissa, shape)?, (-f64::from(mantissa)).exp2(), 0.0)
}

/// Evenly spaced numbers in `(0, 1)`, both ends left out, in `f32` or `f64`.
fn open_uniform(b: &Builder, wide: DType, shape: &[usize]) -> Result<ValueId> {
    let count: u32 = if wide == DType::F64 { 52 } else { 23 };
    let step = (-f64::from(count)).exp2();
    scaled(b, digits(b, wide, count, shape)?, step, step / 2.0)
}

/// Standard normal numbers in `f32` or `f64`, by the inverse of the distribution function.
fn standard_normal(b: &Builder, wide: DType, shape: &[usize]) -> Result<ValueId> {
    let count: u32 = if wide == DType::F64 { 53 } else { 24 };
    let step = (-f64::from(count)).exp2();
    // In (-1, 1), exact, and symmetric about zero.
    let v = scaled(b, digits(b, wide, count, shape)?, 2.0 * step, step - 1.0)?;
    scaled(b, b.unary(Unary::ErfInv, v)?, std::f64::consts::SQRT_2, 0.0)
}

/// Standard normal numbers of `dtype`, `then` done to them where they are computed, in `f32` or `f64`. The parts of a complex
/// number share the variance of 1, and `then` is done to each, as PyTorch does.
fn standard_normal_as(
    b: &Builder,
    dtype: DType,
    shape: &[usize],
    then: impl Fn(ValueId) -> Result<ValueId>,
) -> Result<ValueId> {
    let share = if dtype.is_complex() { std::f64::consts::FRAC_1_SQRT_2 } else { 1.0 };
    as_dtype(b, dtype, |real| {
        let v = standard_normal(b, wide(real), shape)?;
        then(if share == 1.0 { v } else { scaled(b, v, share, 0.0)? })
    })
}

/// Numbers of the standard exponential distribution, none of them 0, in `f32` or `f64`.
fn standard_exponential(b: &Builder, wide: DType, shape: &[usize]) -> Result<ValueId> {
    b.negate(b.unary(Unary::Log, open_uniform(b, wide, shape)?)?)
}

/// True with probability `p`, a float of the result's shape. Exact for 0 and 1.
fn bernoulli(b: &Builder, p: ValueId) -> Result<ValueId> {
    let dtype = b.dtype(p);
    let wide = dtype.accumulator();
    // The comparison has the digits of `f32` even where the probabilities have fewer.
    let drawn = uniform(b, if dtype == DType::F64 { DType::F64 } else { DType::F32 }, &b.shape(p))?;
    b.compare(Comparison::Lt, drawn, b.convert(p, wide)?)
}

/// `real` numbers as `dtype`: for a complex type two independent ones make one.
fn as_dtype(b: &Builder, dtype: DType, real: impl Fn(DType) -> Result<ValueId>) -> Result<ValueId> {
    if dtype.is_complex() {
        return b.binary(Binary::Complex, real(dtype.real())?, real(dtype.real())?);
    }
    b.convert(real(dtype)?, dtype)
}

/// `f32` or `f64`: what a distribution of `dtype` is computed in.
fn wide(dtype: DType) -> DType {
    if dtype.real() == DType::F64 { DType::F64 } else { DType::F32 }
}

/// Refuses to round to a complex type.
fn countable(dtype: DType, kernel: &str) -> Result<()> {
    if dtype.is_complex() { not_implemented(kernel, dtype) } else { Ok(()) }
}

fn continuous(dtype: DType, kernel: &str) -> Result<()> {
    if dtype.is_float() || dtype.is_complex() { Ok(()) } else { not_implemented(kernel, dtype) }
}
