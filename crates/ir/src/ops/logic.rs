//! Logical and bitwise functions.

use super::expr::{Expr, formula};
use super::pointwise::unary;
use super::support::{align, not_implemented, result_type};
use super::{Call, OpDef, Outs, Sample, err, ok, one};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::{Binary, DType, Unary};

/// An op of two operands: schema up to the argument list, operand types, expansion, variants, samples.
macro_rules! binary {
    ($name:literal ($x:ident, $y:ident), $expand:expr, [$($variant:literal),*], $samples:expr) => {
        OpDef::new(
            concat!("aten::", $name, "(", stringify!($x), " self, ", stringify!($y), " other) -> Tensor"),
            $expand,
            $samples,
        )
        .variants(&[$($variant),*])
    };
}

pub(super) static OPS: &[OpDef] = &[
    unary!(logical_not, KINDS),
    binary!(
        "logical_and"(Tensor, Tensor),
        |c, b| logical(c, b, Binary::And),
        ["logical_and_", "logical_and.out"],
        LOGICAL
    ),
    binary!("logical_or"(Tensor, Tensor), |c, b| logical(c, b, Binary::Or), ["logical_or_", "logical_or.out"], LOGICAL),
    binary!(
        "logical_xor"(Tensor, Tensor),
        |c, b| logical(c, b, Binary::Xor),
        ["logical_xor_", "logical_xor.out"],
        LOGICAL
    ),
    unary!(bitwise_not, &[ok("i64[5]"), ok("u8[5]"), ok("bool[4]"), err("f32[2]", "not implemented for 'Float'")]),
    binary!(
        "bitwise_and.Tensor"(Tensor, Tensor),
        |c, b| bitwise(c, b, Binary::And),
        ["bitwise_and_.Tensor", "bitwise_and.Tensor_out"],
        BITWISE
    ),
    binary!(
        "bitwise_and.Scalar"(Tensor, Scalar),
        |c, b| bitwise(c, b, Binary::And),
        ["bitwise_and_.Scalar", "bitwise_and.Scalar_out"],
        BITWISE_NUMBER
    ),
    binary!(
        "bitwise_and.Scalar_Tensor"(Scalar, Tensor),
        |c, b| bitwise(c, b, Binary::And),
        ["bitwise_and.Scalar_Tensor_out"],
        &[ok("6, i64[9]"), ok("true, bool[2]")]
    ),
    binary!("__and__.Tensor"(Tensor, Tensor), |c, b| bitwise(c, b, Binary::And), ["__iand__.Tensor"], BITWISE),
    binary!("__and__.Scalar"(Tensor, Scalar), |c, b| bitwise(c, b, Binary::And), ["__iand__.Scalar"], BITWISE_NUMBER),
    binary!(
        "bitwise_or.Tensor"(Tensor, Tensor),
        |c, b| bitwise(c, b, Binary::Or),
        ["bitwise_or_.Tensor", "bitwise_or.Tensor_out"],
        BITWISE
    ),
    binary!(
        "bitwise_or.Scalar"(Tensor, Scalar),
        |c, b| bitwise(c, b, Binary::Or),
        ["bitwise_or_.Scalar", "bitwise_or.Scalar_out"],
        BITWISE_NUMBER
    ),
    binary!(
        "bitwise_or.Scalar_Tensor"(Scalar, Tensor),
        |c, b| bitwise(c, b, Binary::Or),
        ["bitwise_or.Scalar_Tensor_out"],
        &[ok("6, i64[9]"), ok("true, bool[2]")]
    ),
    binary!("__or__.Tensor"(Tensor, Tensor), |c, b| bitwise(c, b, Binary::Or), ["__ior__.Tensor"], BITWISE),
    binary!("__or__.Scalar"(Tensor, Scalar), |c, b| bitwise(c, b, Binary::Or), ["__ior__.Scalar"], BITWISE_NUMBER),
    binary!(
        "bitwise_xor.Tensor"(Tensor, Tensor),
        |c, b| bitwise(c, b, Binary::Xor),
        ["bitwise_xor_.Tensor", "bitwise_xor.Tensor_out"],
        BITWISE
    ),
    binary!(
        "bitwise_xor.Scalar"(Tensor, Scalar),
        |c, b| bitwise(c, b, Binary::Xor),
        ["bitwise_xor_.Scalar", "bitwise_xor.Scalar_out"],
        BITWISE_NUMBER
    ),
    binary!(
        "bitwise_xor.Scalar_Tensor"(Scalar, Tensor),
        |c, b| bitwise(c, b, Binary::Xor),
        ["bitwise_xor.Scalar_Tensor_out"],
        &[ok("6, i64[9]"), ok("true, bool[2]")]
    ),
    binary!("__xor__.Tensor"(Tensor, Tensor), |c, b| bitwise(c, b, Binary::Xor), ["__ixor__.Tensor"], BITWISE),
    binary!("__xor__.Scalar"(Tensor, Scalar), |c, b| bitwise(c, b, Binary::Xor), ["__ixor__.Scalar"], BITWISE_NUMBER),
    binary!(
        "bitwise_left_shift.Tensor"(Tensor, Tensor),
        |c, b| shift(c, b, shift_left),
        ["bitwise_left_shift_.Tensor", "bitwise_left_shift.Tensor_out"],
        SHIFT
    ),
    binary!(
        "bitwise_left_shift.Tensor_Scalar"(Tensor, Scalar),
        |c, b| shift(c, b, shift_left),
        ["bitwise_left_shift_.Tensor_Scalar", "bitwise_left_shift.Tensor_Scalar_out"],
        SHIFT_NUMBER
    ),
    binary!(
        "bitwise_left_shift.Scalar_Tensor"(Scalar, Tensor),
        |c, b| shift(c, b, shift_left),
        ["bitwise_left_shift.Scalar_Tensor_out"],
        &[ok("6, i64[9]{0..4}")]
    ),
    binary!(
        "__lshift__.Tensor"(Tensor, Tensor),
        |c, b| shift(c, b, shift_left),
        ["__ilshift__.Tensor", "__lshift__.Tensor_out"],
        SHIFT
    ),
    binary!(
        "__lshift__.Scalar"(Tensor, Scalar),
        |c, b| shift(c, b, shift_left),
        ["__ilshift__.Scalar", "__lshift__.Scalar_out"],
        SHIFT_NUMBER
    ),
    binary!(
        "bitwise_right_shift.Tensor"(Tensor, Tensor),
        |c, b| shift(c, b, shift_right),
        ["bitwise_right_shift_.Tensor", "bitwise_right_shift.Tensor_out"],
        SHIFT
    ),
    binary!(
        "bitwise_right_shift.Tensor_Scalar"(Tensor, Scalar),
        |c, b| shift(c, b, shift_right),
        ["bitwise_right_shift_.Tensor_Scalar", "bitwise_right_shift.Tensor_Scalar_out"],
        SHIFT_NUMBER
    ),
    binary!(
        "bitwise_right_shift.Scalar_Tensor"(Scalar, Tensor),
        |c, b| shift(c, b, shift_right),
        ["bitwise_right_shift.Scalar_Tensor_out"],
        &[ok("6, i64[9]{0..4}")]
    ),
    binary!(
        "__rshift__.Tensor"(Tensor, Tensor),
        |c, b| shift(c, b, shift_right),
        ["__irshift__.Tensor", "__rshift__.Tensor_out"],
        SHIFT
    ),
    binary!(
        "__rshift__.Scalar"(Tensor, Scalar),
        |c, b| shift(c, b, shift_right),
        ["__irshift__.Scalar", "__rshift__.Scalar_out"],
        SHIFT_NUMBER
    ),
];

const KINDS: &[Sample] =
    &[ok("f32[5]{nan,0,-0.0,1,inf}"), ok("i64[9]{-1..2}"), ok("bool[4]"), ok("c64[2]{0}"), ok("bf16[0]")];
const LOGICAL: &[Sample] = &[
    ok("bool[3,4], bool[4]"),
    ok("f32[5]{nan,0,-0.0,1,inf}, i64[5]{0..2}"),
    ok("i64[9]{-1..2}, i64[9]{-1..2}"),
    ok("c64[3], bool[]"),
    err("bool[3], bool[4]", "must match the size of tensor b (4)"),
];
const BITWISE: &[Sample] = &[
    ok("i64[3,4], i64[4]"),
    ok("u8[9], i8[9]"),
    ok("bool[4], bool[4]"),
    ok("bool[4], i32[4]"),
    err("f32[2], f32[2]", "not implemented for 'Float'"),
];
const BITWISE_NUMBER: &[Sample] = &[
    ok("i64[9], 6"),
    ok("u8[9], 3"),
    ok("bool[4], true"),
    ok("bool[4], 3"),
    err("i64[2], 1.5", "not implemented for 'Float'"),
];
const SHIFT: &[Sample] = &[
    ok("i64[3,4], i64[4]{0..5}"),
    ok("i32[4], i32[4]{31,32,100,-1}"),
    ok("u8[9], u8[9]{0..10}"),
    err("bool[2], bool[2]", "not implemented for 'Bool'"),
    err("f32[2], f32[2]", "not implemented for 'Float'"),
];
const SHIFT_NUMBER: &[Sample] = &[ok("i64[9], 2"), ok("i32[9], 40"), err("i64[2], 1.5", "not implemented for 'Float'")];

fn logical_not(_: &Call<'_>, b: &Builder, v: ValueId) -> Result<ValueId> {
    b.unary(Unary::Not, b.convert(v, DType::Bool)?)
}

fn logical(c: &Call<'_>, b: &Builder, op: Binary) -> Result<Outs> {
    let aligned = align(c, b, &[c.operand(b, "self")?, c.operand(b, "other")?], DType::Bool)?;
    one(b.binary(op, aligned[0], aligned[1])?)
}

fn bitwise_not(_: &Call<'_>, b: &Builder, v: ValueId) -> Result<ValueId> {
    match b.dtype(v) {
        d if d.is_float() || d.is_complex() => not_implemented("bitwise_not", d),
        _ => b.unary(Unary::Not, v),
    }
}

fn bitwise(c: &Call<'_>, b: &Builder, op: Binary) -> Result<Outs> {
    let operands = [c.operand(b, "self")?, c.operand(b, "other")?];
    let dtype = result_type(c, b, &operands)?;
    if dtype.is_float() || dtype.is_complex() {
        return not_implemented(&format!("bitwise_{op:?}").to_lowercase(), dtype);
    }
    let aligned = align(c, b, &operands, dtype)?;
    one(b.binary(op, aligned[0], aligned[1])?)
}

fn shift(c: &Call<'_>, b: &Builder, f: for<'e> fn(Expr<'e>, Expr<'e>) -> Expr<'e>) -> Result<Outs> {
    let operands = [c.operand(b, "self")?, c.operand(b, "other")?];
    let dtype = result_type(c, b, &operands)?;
    if !dtype.is_int() {
        return not_implemented("shift", dtype);
    }
    let aligned = align(c, b, &operands, dtype)?;
    one(formula(b, [aligned[0], aligned[1]], |[x, n]| f(x, n))?)
}

/// Whether `n` shifts all bits out.
fn out_of_range<'e>(x: Expr<'e>, n: Expr<'e>) -> Expr<'e> {
    n.less(0.0) | n.at_least(bits(x))
}

fn bits(x: Expr<'_>) -> f64 {
    8.0 * x.dtype().size() as f64
}

fn shift_left<'e>(x: Expr<'e>, n: Expr<'e>) -> Expr<'e> {
    out_of_range(x, n).select(x.constant(0.0), x.binary(Binary::ShiftLeft, n))
}

/// Fills with the sign.
fn shift_right<'e>(x: Expr<'e>, n: Expr<'e>) -> Expr<'e> {
    if x.dtype().is_unsigned() {
        return out_of_range(x, n).select(x.constant(0.0), x.binary(Binary::ShiftRightLogical, n));
    }
    let n = out_of_range(x, n).select(n.constant(bits(x) - 1.0), n);
    x.binary(Binary::ShiftRightArithmetic, n)
}
