//! Sums, differences, products and quotients.

use super::support::{Operand, align, pair, result_type, to_float};
use super::{Call, OpDef, Outs, err, ok, one};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::{DType, ensure};

pub(super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
        |c, b| add_scaled(c, b, c.tensor(b, "other")?.into(), 1.0),
        &[
            ok("f32[3,4], f32[4]"),
            ok("i64[3], f32[]"),
            ok("bf16[2,1], f32[3], alpha=2"),
            ok("bool[2], bool[2]"),
            err("f32[3], f32[4]", "must match the size of tensor b (4)"),
        ],
    )
    .variants(&["add_.Tensor", "add.out"]),
    OpDef::new(
        "aten::add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor",
        |c, b| add_scaled(c, b, c.scalar("other")?.into(), 1.0),
        &[ok("f32[3], 2"), ok("i32[3], 2.5"), ok("f16[], 1, alpha=3")],
    )
    .variants(&["add_.Scalar", "add.Scalar_out"]),
    OpDef::new(
        "aten::sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
        |c, b| add_scaled(c, b, c.tensor(b, "other")?.into(), -1.0),
        &[
            ok("f32[3,4], f32[4]"),
            ok("i64[2], i32[2], alpha=3"),
            err("bool[2], bool[2]", "Subtraction, the `-` operator"),
        ],
    )
    .variants(&["sub_.Tensor", "sub.out"]),
    OpDef::new(
        "aten::sub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor",
        |c, b| add_scaled(c, b, c.scalar("other")?.into(), -1.0),
        &[ok("f32[3], 2"), ok("i64[3], 1.5")],
    )
    .variants(&["sub_.Scalar", "sub.Scalar_out"]),
    OpDef::new(
        "aten::mul.Tensor(Tensor self, Tensor other) -> Tensor",
        |c, b| multiply(c, b, c.tensor(b, "other")?.into()),
        &[ok("f32[3,4], f32[4]"), ok("bool[3], bool[3]"), ok("bool[3], i8[]"), ok("c64[2], f64[]")],
    )
    .variants(&["mul_.Tensor", "mul.out"]),
    OpDef::new(
        "aten::mul.Scalar(Tensor self, Scalar other) -> Tensor",
        |c, b| multiply(c, b, c.scalar("other")?.into()),
        &[ok("f32[3], 2"), ok("i64[0], 0.5")],
    )
    .variants(&["mul_.Scalar", "mul.Scalar_out"]),
    OpDef::new(
        "aten::div.Tensor(Tensor self, Tensor other) -> Tensor",
        |c, b| divide(c, b, c.tensor(b, "other")?.into()),
        &[ok("f32[3,4], f32[4]"), ok("i64[3], i32[3]"), ok("bool[2], bool[2]")],
    )
    .variants(&["div_.Tensor", "div.out"]),
    OpDef::new(
        "aten::div.Scalar(Tensor self, Scalar other) -> Tensor",
        |c, b| divide(c, b, c.scalar("other")?.into()),
        &[ok("f32[3], 2"), ok("i64[3], 2")],
    )
    .variants(&["div_.Scalar", "div.Scalar_out"]),
];

/// `self + sign * alpha * other`.
fn add_scaled(c: &Call<'_>, b: &Builder, other: Operand, sign: f64) -> Result<Outs> {
    let (x, y, dtype) = pair(c, b, c.tensor(b, "self")?, other)?;
    if dtype == DType::Bool {
        ensure!(
            sign > 0.0,
            "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` operator instead."
        );
        return one(b.binary(crate::Binary::Or, x, y)?);
    }
    let y = scaled(c, b, y, "alpha")?;
    one(if sign > 0.0 { b.add(x, y)? } else { b.subtract(x, y)? })
}

/// `v` times the number `name`, or `v` itself for a literal 1.
pub(super) fn scaled(c: &Call<'_>, b: &Builder, v: ValueId, name: &str) -> Result<ValueId> {
    let factor = c.scalar(name)?;
    if factor.is_one() {
        return Ok(v);
    }
    let t = b.ty(v)?;
    let float_on_int = factor.dtype().is_float() && !t.dtype.is_float() && !t.dtype.is_complex();
    ensure!(!float_on_int, "For integral input tensors, argument alpha must not be a floating point number.");
    let factor = c.scalar_value(b, &factor, t.dtype)?;
    b.multiply(v, super::support::broadcast_to(b, factor, &t.shape)?)
}

fn multiply(c: &Call<'_>, b: &Builder, other: Operand) -> Result<Outs> {
    let (x, y, dtype) = pair(c, b, c.tensor(b, "self")?, other)?;
    one(if dtype == DType::Bool { b.binary(crate::Binary::And, x, y)? } else { b.multiply(x, y)? })
}

/// True division: integers become floats first.
fn divide(c: &Call<'_>, b: &Builder, other: Operand) -> Result<Outs> {
    let operands = [c.tensor(b, "self")?.into(), other];
    let dtype = to_float(c, result_type(c, b, &operands));
    let aligned = align(c, b, &operands, dtype)?;
    one(b.divide(aligned[0], aligned[1])?)
}
