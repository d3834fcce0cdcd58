//! Division that rounds, and what is left over.

use super::expr::{Expr, formula};
use super::loops::{anywhere, repeat_while};
use super::support::{Operand, align, elementwise, not_implemented, numbers_rounded, result_type};
use super::{Call, OpDef, Outs, Strides, err, ok, one};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::{DType, invalid};

pub(super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor",
        divide_mode,
        &[
            ok("f32[3,4], f32[4], rounding_mode='floor'"),
            ok("f32[3,4], f32[4], rounding_mode='trunc'"),
            ok("f32[3,4], f32[4], rounding_mode=none"),
            ok("i64[40], i64[40]{1..5}, rounding_mode='floor'"),
            ok("i64[40], i64[40]{-5..0}, rounding_mode='floor'"),
            ok("i64[40], i64[40]{-5..0}, rounding_mode='trunc'"),
            ok("u8[9], u8[9]{1..5}, rounding_mode='floor'"),
            ok("i64[3], f32[3], rounding_mode='floor'"),
            ok("bf16[9], bf16[9], rounding_mode='floor'"),
            ok("f32[8]{1,-1,0,-0.0,nan,inf,-inf,5}, f32[8]{0,0,0,3,1,2,-3,-inf}, rounding_mode='floor'"),
            err("bool[3], bool[3], rounding_mode='floor'", "not implemented for 'Bool'"),
            err(
                "f32[3], f32[3], rounding_mode='up'",
                "div expected rounding_mode to be one of None, 'trunc', or 'floor'",
            ),
        ],
    )
    .variants(&["div_.Tensor_mode", "div.out_mode"])
    .laid_out(Strides::ByElement),
    OpDef::new(
        "aten::div.Scalar_mode(Tensor self, Scalar other, *, str? rounding_mode) -> Tensor",
        divide_mode,
        &[
            ok("f32[9], 0.7, rounding_mode='floor'"),
            ok("i64[9], 3, rounding_mode='trunc'"),
            ok("i64[3], 2, rounding_mode=none"),
        ],
    )
    .variants(&["div_.Scalar_mode", "div.Scalar_mode_out"]),
    OpDef::new(
        "aten::floor_divide(Tensor self, Tensor other) -> Tensor",
        |c, b| one(floor_divide(c, b, c.operand(b, "self")?, c.operand(b, "other")?)?),
        &[
            ok("f32[3,4], f32[4]"),
            ok("i32[20], i32[20]{-4..0}"),
            ok("i64[9], i64[]{3}"),
            err("c64[3], c64[3]", "not implemented for 'ComplexFloat'"),
        ],
    )
    .variants(&["floor_divide_.Tensor", "floor_divide.out"])
    .laid_out(Strides::ByElement)
    .takes_numbers(),
    OpDef::new(
        "aten::floor_divide.Scalar(Tensor self, Scalar other) -> Tensor",
        |c, b| one(floor_divide(c, b, c.operand(b, "self")?, c.operand(b, "other")?)?),
        &[ok("f32[9], 0.7"), ok("i64[9], 2"), ok("i64[9], 2.5")],
    )
    .variants(&["floor_divide_.Scalar", "floor_divide.Scalar_out"]),
    OpDef::new(
        "aten::remainder.Tensor(Tensor self, Tensor other) -> Tensor",
        |c, b| one(remainder(c, b, c.operand(b, "self")?, c.operand(b, "other")?)?),
        &[
            ok("f32[3,4], f32[4]"),
            ok("i64[40], i64[40]{1..5}"),
            ok("i64[40], i64[40]{-5..0}"),
            ok("u8[9], u8[9]{1..4}"),
            ok("bf16[9], f32[]"),
            ok("f32[6]{1,-1,0,-0.0,inf,5}, f32[6]{inf,inf,-2,3,2,0}"),
            err("bool[3], bool[3]", "not implemented for 'Bool'"),
        ],
    )
    .variants(&["remainder_.Tensor", "remainder.Tensor_out"]),
    OpDef::new(
        "aten::remainder.Scalar(Tensor self, Scalar other) -> Tensor",
        |c, b| one(remainder(c, b, c.operand(b, "self")?, c.operand(b, "other")?)?),
        &[ok("f32[9], 0.7"), ok("i64[9], -3"), ok("i64[9], 1.5"), ok("bf16[3]{1.4,2,4.1}, 0.69")],
    )
    .variants(&["remainder_.Scalar", "remainder.Scalar_out"]),
    OpDef::new(
        "aten::remainder.Scalar_Tensor(Scalar self, Tensor other) -> Tensor",
        |c, b| one(remainder(c, b, c.operand(b, "self")?, c.operand(b, "other")?)?),
        &[ok("7, i64[9]{1..5}"), ok("7.5, f32[9]")],
    )
    .variants(&["remainder.Scalar_Tensor_out"]),
    OpDef::new(
        "aten::fmod.Tensor(Tensor self, Tensor other) -> Tensor",
        |c, b| one(fmod(c, b, c.operand(b, "self")?, c.operand(b, "other")?)?),
        &[
            ok("f32[3,4], f32[4]"),
            ok("i64[40], i64[40]{-5..0}"),
            ok("f32[5]{1,-1,0,inf,5}, f32[5]{inf,inf,-2,2,0}"),
            err("c64[3], c64[3]", "not implemented for 'ComplexFloat'"),
        ],
    )
    .variants(&["fmod_.Tensor", "fmod.Tensor_out"]),
    OpDef::new(
        "aten::fmod.Scalar(Tensor self, Scalar other) -> Tensor",
        |c, b| one(fmod(c, b, c.operand(b, "self")?, c.operand(b, "other")?)?),
        &[ok("f32[9], 0.7"), ok("i64[9], 3"), ok("bf16[9], 1.5")],
    )
    .variants(&["fmod_.Scalar", "fmod.Scalar_out"]),
    OpDef::new(
        "aten::gcd(Tensor self, Tensor other) -> Tensor",
        |c, b| one(gcd(c, b)?.0),
        &[
            ok("i64[40], i64[40]"),
            ok("i32[3,1]{0..50}, i32[4]{0..50}"),
            ok("u8[9], i64[]{6}"),
            ok("i64[0], i64[1]"),
            err("f32[2], f32[2]", "not implemented for 'Float'"),
        ],
    )
    .variants(&["gcd_", "gcd.out"]),
    OpDef::new(
        "aten::lcm(Tensor self, Tensor other) -> Tensor",
        lcm,
        &[
            ok("i64[40], i64[40]"),
            ok("i32[3,1]{0..50}, i32[4]{0..50}"),
            err("bool[2], bool[2]", "not implemented for 'Bool'"),
        ],
    )
    .variants(&["lcm_", "lcm.out"]),
];

pub(super) fn divide_mode(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (x, y) = (c.operand(b, "self")?, c.operand(b, "other")?);
    one(match c.string("rounding_mode")? {
        None => super::arithmetic::divide(c, b, x, y)?,
        Some("trunc") => on_numbers(c, b, "div_trunc", [x, y], |[x, y]| if_float(x / y, Expr::trunc))?,
        Some("floor") => floor_divide(c, b, x, y)?,
        Some(mode) => invalid!("div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{mode}'"),
    })
}

/// The quotient rounded down.
pub(super) fn floor_divide(c: &Call<'_>, b: &Builder, x: Operand, y: Operand) -> Result<ValueId> {
    on_numbers(c, b, "div_floor", [x, y], |[x, y]| {
        if x.dtype().is_float() { floor_divide_floats(x, y) } else { floor_divide_ints(x, y) }
    })
}

/// The remainder with the sign of the divisor.
fn remainder(c: &Call<'_>, b: &Builder, x: Operand, y: Operand) -> Result<ValueId> {
    on_numbers(c, b, "remainder", both_rounded(c, b, x, y)?, |[x, y]| {
        let r = x.fmod(y);
        signs_differ(r, y).select(r + y, r)
    })
}

/// The remainder with the sign of the dividend.
fn fmod(c: &Call<'_>, b: &Builder, x: Operand, y: Operand) -> Result<ValueId> {
    on_numbers(c, b, "fmod", both_rounded(c, b, x, y)?, |[x, y]| x.fmod(y))
}

/// Both as kernels see them that round numbers first; those of quotients do not.
fn both_rounded(c: &Call<'_>, b: &Builder, x: Operand, y: Operand) -> Result<[Operand; 2]> {
    let operands = [x, y];
    let dtype = result_type(c, b, &operands)?;
    numbers_rounded(c, b, operands, dtype)
}

/// `f` on promoted operands; refuses `bool` and complex numbers.
fn on_numbers(
    c: &Call<'_>,
    b: &Builder,
    name: &str,
    operands: [Operand; 2],
    f: impl for<'e> FnOnce([Expr<'e>; 2]) -> Expr<'e>,
) -> Result<ValueId> {
    let dtype = result_type(c, b, &operands)?;
    if dtype == DType::Bool || dtype.is_complex() {
        return not_implemented(name, dtype);
    }
    elementwise(c, b, operands, dtype, f)
}

fn if_float<'e>(x: Expr<'e>, f: impl FnOnce(Expr<'e>) -> Expr<'e>) -> Expr<'e> {
    if x.dtype().is_float() { f(x) } else { x }
}

/// Whether a non-zero remainder `r` has another sign than the divisor `y`.
fn signs_differ<'e>(r: Expr<'e>, y: Expr<'e>) -> Expr<'e> {
    r.differs(0.0) & (r.less(0.0) ^ y.less(0.0))
}

fn floor_divide_ints<'e>(x: Expr<'e>, y: Expr<'e>) -> Expr<'e> {
    let quotient = x / y;
    signs_differ(x.fmod(y), y).select(quotient - 1.0, quotient)
}

/// Python's way: the quotient of what `fmod` leaves is whole up to rounding, so that `floor` cannot slip by one.
fn floor_divide_floats<'e>(x: Expr<'e>, y: Expr<'e>) -> Expr<'e> {
    let r = x.fmod(y);
    let quotient = (x - r) / y;
    let quotient = signs_differ(r, y).select(quotient - 1.0, quotient);
    let floor = quotient.floor();
    let whole = (quotient - floor).greater(0.5).select(floor + 1.0, floor);
    let signed_zero = x.constant(0.0).copysign(x / y);
    y.equals(0.0).select(x / y, quotient.differs(0.0).select(whole, signed_zero))
}

/// The greatest common divisor by Euclid's algorithm, with both operands as they were compared.
fn gcd(c: &Call<'_>, b: &Builder) -> Result<(ValueId, ValueId, ValueId)> {
    let operands = [c.operand(b, "self")?, c.operand(b, "other")?];
    let dtype = result_type(c, b, &operands)?;
    if !dtype.is_int() {
        return not_implemented("gcd", dtype);
    }
    let magnitude = |v| if dtype.is_unsigned() { Ok(v) } else { b.unary(crate::Unary::Abs, v) };
    let aligned = align(c, b, &operands, dtype)?;
    let (x, y) = (magnitude(aligned[0])?, magnitude(aligned[1])?);
    let more = |b: &Builder, given: &[ValueId]| anywhere(b, formula(b, [given[1]], |[y]| y.differs(0.0))?);
    let euclid = |b: &Builder, given: &[ValueId]| {
        let pair = [given[0], given[1]];
        let rest = formula(b, pair, |[p, q]| {
            let done = q.equals(0.0);
            done.select(q, p.fmod(done.select(q.constant(1.0), q)))
        })?;
        Ok(vec![formula(b, pair, |[p, q]| q.equals(0.0).select(p, q))?, rest])
    };
    let found = repeat_while(b, &[x, y], more, euclid)?;
    Ok((found[0], x, y))
}

/// The least common multiple, 0 if either number is.
fn lcm(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (divisor, x, y) = gcd(c, b)?;
    one(formula(b, [divisor, x, y], |[divisor, x, y]| {
        let none = divisor.equals(0.0);
        let multiple = x / none.select(divisor.constant(1.0), divisor) * y;
        none.select(divisor, multiple)
    })?)
}
