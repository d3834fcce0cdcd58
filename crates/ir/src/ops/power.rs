//! Powers.

use super::arithmetic::multiply;
use super::expr::Expr;
use super::support::{Operand, elementwise, elementwise_rounded, not_implemented, result_type, to_float};
use super::{Call, OpDef, Outs, Scalar, err, ok, one};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::literal::Number;
use crate::{DType, ensure};

pub(super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor",
        pow_op,
        &[
            ok("f32[3,4]{0..3}, f32[4]"),
            ok("f32[5]{-3,-2,0,2,-1}, f32[5]{2,3,0,-1,-3}"),
            ok("i64[40], i64[40]{-3..5}"),
            ok("i32[4], f32[4]{1,2,3,0}"),
            ok("bf16[9]{0..3}, bf16[9]"),
            ok("u8[9]{0..4}, u8[9]{0..4}"),
            ok("f32[6]{nan,1,inf,-inf,0,-0.0}, f32[6]{0,nan,-1,3,-1,-3}"),
            err("bool[2], bool[2]", "\"pow\" not implemented for 'Bool'"),
        ],
    )
    .variants(&["pow_.Tensor", "pow.Tensor_Tensor_out"]),
    OpDef::new(
        "aten::pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor",
        pow_op,
        &[
            ok("f32[9], 2"),
            ok("f32[9], 3"),
            ok("f32[9], 0"),
            ok("f32[9], 1"),
            ok("f32[9], -1"),
            ok("f32[9], -2"),
            ok("f32[9]{0..3}, 0.5"),
            ok("f32[9]{0..3}, -0.5"),
            ok("f32[9]{0..3}, 1.7"),
            ok("f32[3]{-inf,inf,nan}, 0.5"),
            ok("bf16[9], 3"),
            ok("i64[9], 5"),
            ok("i64[9]{0..5}, 0.5"),
            ok("bool[3], 2"),
            ok("bool[3], true"),
            ok("bool[3], false"),
            ok("c64[3], 2"),
            err("i64[3], -1", "Integers to negative integer powers are not allowed."),
        ],
    )
    .variants(&["pow_.Scalar", "pow.Tensor_Scalar_out"]),
    OpDef::new(
        "aten::pow.Scalar(Scalar self, Tensor exponent) -> Tensor",
        pow_op,
        &[ok("2, f32[9]"), ok("0.9, f32[]{1..20}"), ok("2, i64[9]"), ok("1, i64[3]"), ok("1, f32[2]{nan,inf}")],
    )
    .variants(&["pow.Scalar_out"]),
    OpDef::new(
        "aten::float_power.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor",
        float_power_op,
        &[ok("f32[3,4]{0..3}, f32[4]"), ok("i64[9], i64[9]{0..4}"), ok("bool[2], bool[2]")],
    )
    .variants(&["float_power_.Tensor", "float_power.Tensor_Tensor_out"]),
    OpDef::new(
        "aten::float_power.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor",
        float_power_op,
        &[ok("f32[9], 2"), ok("i64[9], -1")],
    )
    .variants(&["float_power_.Scalar", "float_power.Tensor_Scalar_out"]),
    OpDef::new(
        "aten::float_power.Scalar(Scalar self, Tensor exponent) -> Tensor",
        float_power_op,
        &[ok("2, f32[9]"), ok("2, i64[9]")],
    )
    .variants(&["float_power.Scalar_out"]),
    OpDef::new(
        "aten::ldexp.Tensor(Tensor self, Tensor other) -> Tensor",
        ldexp,
        &[
            ok("f32[9], i64[9]"),
            ok("i64[9], i32[9]{-3..4}"),
            ok("f32[3], f32[3]"),
            ok("f32[4]{1.5,-2,0,1}, f32[4]{inf,inf,inf,-inf}"),
            ok("f64[2], i64[2]{200,-3}"),
            ok("f32[2]{1e-30,1e30}, i64[2]{190,-190}"),
            ok("bf16[3], i32[3]{-2..3}"),
            ok("f16[2], f32[2]"),
            ok("i32[3], f16[]{2}"),
            ok("f16[3], bf16[]{2}"),
            ok("f32[3], f64[3]"),
            ok("c64[3], i64[3]"),
            ok("f32[3], c64[3]"),
        ],
    )
    .variants(&["ldexp_", "ldexp.out"]),
];

/// `self * 2^other`, in two steps: the power alone may be out of range.
fn ldexp(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let operands = [c.operand(b, "self")?, c.operand(b, "other")?];
    let [x, exponent] = operands.clone();
    // PyTorch multiplies with a power of 2: of a number, or of a 0-d tensor of the type of `self` where that has fractions.
    let base = result_type(c, b, std::slice::from_ref(&x))?;
    let two = match base.is_float() || base.is_complex() {
        true => b.full(Number::Int(2), base, &[])?.into(),
        false => Scalar::Known(Number::Float(2.0)).into(),
    };
    let powers = result_type(c, b, &[two, exponent.clone()])?;
    let like_power = match &exponent {
        Operand::Tensor(v) => b.convert(*v, powers)?.into(),
        number => number.clone(),
    };
    let dtype = to_float(c, result_type(c, b, &[x.clone(), like_power])?);
    if dtype.is_complex() {
        let power = elementwise(c, b, [exponent], powers, |[exponent]| exponent.constant(2.0).pow(exponent))?;
        return one(multiply(c, b, x, power.into())?);
    }
    let wide = if dtype.size() < 4 { DType::F32 } else { dtype };
    let scaled = elementwise(c, b, operands, wide, |[x, exponent]| {
        let (two, half) = (x.constant(2.0), (exponent * 0.5).floor());
        let rest = exponent.is_inf().select(x.constant(0.0), exponent - half);
        x * two.pow(half) * two.pow(rest)
    })?;
    one(b.convert(scaled, dtype)?)
}

/// How PyTorch computes a power of this exponent in other ways than by `pow`.
fn formula(exponent: f64, dtype: DType) -> Option<for<'e> fn(Expr<'e>) -> Expr<'e>> {
    let (real, number) = (dtype.is_float(), dtype != DType::Bool);
    match exponent {
        0.0 => Some(|x| x.constant(1.0)),
        1.0 => Some(|x| x),
        0.5 if real => Some(|x| x.sqrt()),
        -0.5 if real => Some(|x| x.rsqrt()),
        -1.0 if real => Some(|x| 1.0 / x),
        -2.0 if real => Some(|x| 1.0 / (x * x)),
        2.0 if number => Some(|x| x * x),
        3.0 if number => Some(|x| x * x * x),
        _ => None,
    }
}

fn pow_op(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    one(pow(c, b, c.operand(b, "self")?, c.operand(b, "exponent")?)?)
}

/// `base ** exponent`.
pub(super) fn pow(c: &Call<'_>, b: &Builder, base: Operand, exponent: Operand) -> Result<ValueId> {
    let dtype = result_type(c, b, &[base.clone(), exponent.clone()])?;
    let negative = move |n: f64| dtype.is_int() && n < 0.0;
    if let Operand::Scalar(scalar) = &exponent
        && let Some(n) = c.decisive(scalar, move |n| negative(n) || formula(n, dtype).is_some())
        && !matches!(n, Number::Complex(..))
    {
        ensure!(!negative(n.as_f64()), "Integers to negative integer powers are not allowed.");
        if let Some(formula) = formula(n.as_f64(), dtype) {
            return elementwise(c, b, [base], dtype, |[x]| formula(x));
        }
    }
    if dtype == DType::Bool {
        return not_implemented("pow", dtype);
    }
    elementwise_rounded(
        c,
        b,
        [base, exponent],
        dtype,
        |[x, y]| if dtype.is_int() { integer_power(x, y) } else { x.pow(y) },
    )
}

/// A negative exponent gives what rounds towards zero: 1, -1 or 0.
fn integer_power<'e>(x: Expr<'e>, y: Expr<'e>) -> Expr<'e> {
    if x.dtype().is_unsigned() {
        return x.pow(y);
    }
    let odd = (y & y.constant(1.0)).differs(0.0);
    let alternating = odd.select(x.constant(-1.0), 1.0);
    let fraction = x.equals(1.0).select(x.constant(1.0), x.equals(-1.0).select(alternating, 0.0));
    y.less(0.0).select(fraction, x.pow(y.max(0.0)))
}

/// In double precision.
fn float_power_op(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let operands = [c.operand(b, "self")?, c.operand(b, "exponent")?];
    let complex = result_type(c, b, &operands)?.is_complex();
    let dtype = if complex { DType::C128 } else { DType::F64 };
    one(elementwise(c, b, operands, dtype, |[x, y]| x.pow(y))?)
}
