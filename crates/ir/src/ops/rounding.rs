//! Magnitude, sign, rounding, and what kind of number an element is.

use super::expr::{Expr, formula, wide_formula};
use super::pointwise::{unary, unary_without_in_place};
use super::support::{elementwise, not_implemented, to_float};
use super::{Call, OpDef, Outs, Sample, err, ok, one};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::{Binary, DType, Unary, ensure_kernel, ensure_type};
use std::f64::consts::PI;

pub(super) static OPS: &[OpDef] = &[
    unary!(abs, ABS),
    unary!(absolute, abs, ABS),
    unary!(neg, NEG),
    unary!(negative, neg, NEG),
    unary!(ceil, ROUND),
    unary!(floor, ROUND),
    unary!(trunc, ROUND),
    unary!(fix, trunc, ROUND),
    unary!(
        round,
        &[
            ok("f32[3,4]"),
            ok("f32[6]{0.5,1.5,2.5,-0.5,nan,inf}"),
            ok("bf16[9]"),
            ok("i64[5]"),
            err("bool[2]", "not implemented for 'Bool'")
        ]
    ),
    unary!(
        frac,
        &[
            ok("f32[3,4]"),
            ok("f32[6]{0.5,-1.5,2.5,-0.0,nan,inf}"),
            ok("bf16[9]"),
            err("i64[5]", "not implemented for 'Long'")
        ]
    ),
    unary!(
        sign,
        &[
            ok("f32[3,4]"),
            ok("f32[5]{nan,inf,-inf,-0.0,0}"),
            ok("bf16[9]"),
            ok("i64[5]"),
            ok("u8[5]"),
            ok("bool[2]"),
            err("c64[2]", "Unlike NumPy, torch.sign is not intended to support complex numbers.")
        ]
    ),
    unary!(
        sgn,
        &[
            ok("f32[3,4]"),
            ok("f32[5]{nan,inf,-inf,-0.0,0}"),
            ok("i64[5]"),
            ok("bool[2]"),
            ok("c64[5]"),
            ok("c64[2]{0}")
        ]
    ),
    unary!(square, &[ok("f32[3,4]"), ok("bf16[9]"), ok("i64[5]"), ok("bool[2]"), ok("c64[2]")]),
    unary_without_in_place!(
        signbit,
        signbit,
        &[
            ok("f32[3,4]"),
            ok("f32[5]{nan,inf,-inf,-0.0,0}"),
            ok("bf16[9]"),
            ok("i64[5]"),
            ok("u8[3]"),
            ok("bool[2]"),
            err("c64[2]", "signbit is not implemented for complex tensors.")
        ]
    ),
    unary_without_in_place!(isnan, isnan, KIND),
    unary_without_in_place!(isinf, isinf, KIND),
    unary_without_in_place!(isposinf, isposinf, REAL_KIND),
    unary_without_in_place!(isneginf, isneginf, REAL_KIND),
    OpDef::new("aten::isfinite(Tensor self) -> Tensor", |c, b| one(isfinite(b, c.tensor(b, "self")?)?), KIND),
    OpDef::new("aten::isreal(Tensor self) -> Tensor", |c, b| one(isreal(b, c.tensor(b, "self")?)?), KIND),
    unary_without_in_place!(
        angle,
        angle,
        &[ok("f32[3,4]"), ok("f32[5]{nan,inf,-inf,-0.0,0}"), ok("bf16[9]"), ok("i64[5]"), ok("bool[2]"), ok("c64[5]")]
    ),
    // PyTorch hands a real tensor back itself, whatever the schema says: writes to the result are writes to it.
    OpDef::maybe_view(
        "aten::conj_physical(Tensor self) -> Tensor",
        |c, layout| Ok((!c.dtype_of("self")?.is_complex()).then(|| vec![layout.clone()])),
        conj_physical,
        CONJ,
    ),
    OpDef::new("aten::_conj_physical(Tensor self) -> Tensor", conj_physical, CONJ).variants(&[
        "_conj_physical.out",
        "conj_physical_",
        "conj_physical.out",
    ]),
    OpDef::new("aten::round.decimals(Tensor self, *, int decimals) -> Tensor", round_decimals, ROUND_DECIMALS)
        .variants(&["round_.decimals", "round.decimals_out"]),
    OpDef::new("aten::special_round(Tensor self, *, int decimals=0) -> Tensor", round_decimals, ROUND_DECIMALS)
        .variants(&["special_round.out"]),
    OpDef::new(
        "aten::nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor",
        nan_to_num,
        &[
            ok("f32[6]{nan,inf,-inf,1,-0.0,2}"),
            ok("f32[6]{nan,inf,-inf,1,-0.0,2}, 3, 4, -5"),
            ok("f16[4]{nan,inf,-inf,1}, neginf=0"),
            ok("f32[4]{nan,inf,-inf,1}, inf, nan, inf"),
            ok("bf16[4]{nan,inf,-inf,1}"),
            ok("f64[3]{inf,-inf,nan}"),
            ok("c64[4], 1, 2, -3"),
            ok("i64[4]"),
            ok("bool[4]"),
        ],
    )
    .variants(&["nan_to_num_", "nan_to_num.out"]),
];

const ABS: &[Sample] = &[
    ok("f32[3,4]"),
    ok("f32[4]{nan,-inf,-0.0,-2}"),
    ok("bf16[9]"),
    ok("i64[5]"),
    ok("u8[5]"),
    ok("c64[5]"),
    err("bool[2]", "not implemented for 'Bool'"),
];
const NEG: &[Sample] = &[
    ok("f32[3,4]"),
    ok("f32[4]{nan,-inf,-0.0,0}"),
    ok("bf16[9]"),
    ok("i64[5]"),
    ok("u8[5]"),
    ok("c64[5]"),
    err("bool[2]", "Negation, the `-` operator, on a bool tensor is not supported."),
];
const ROUND: &[Sample] = &[
    ok("f32[3,4]"),
    ok("f32[8]{0.5,1.5,2.5,-0.5,-0.0,nan,inf,-inf}"),
    ok("f64[]"),
    ok("bf16[9]"),
    ok("i64[5]"),
    err("bool[2]", "not implemented for 'Bool'"),
    err("c64[2]", "is not supported for complex inputs"),
];
const ROUND_DECIMALS: &[Sample] = &[
    ok("f32[9], decimals=2"),
    ok("f32[9]{-3000..3000}, decimals=-2"),
    ok("f32[9], decimals=0"),
    ok("bf16[9], decimals=1"),
];
const KIND: &[Sample] = &[
    ok("f32[5]{nan,inf,-inf,-0.0,0}"),
    ok("bf16[4]{nan,inf,-inf,1}"),
    ok("i64[5]"),
    ok("bool[2]"),
    ok("c64[4]"),
    ok("f32[0,2]"),
];
const REAL_KIND: &[Sample] = &[
    ok("f32[5]{nan,inf,-inf,-0.0,0}"),
    ok("bf16[4]{nan,inf,-inf,1}"),
    ok("i64[5]"),
    ok("bool[2]"),
    err("c64[2]", "does not support complex inputs."),
];
const CONJ: &[Sample] = &[ok("f32[3]"), ok("c64[5]"), ok("i64[3]")];

pub(super) fn abs(_: &Call<'_>, b: &Builder, v: ValueId) -> Result<ValueId> {
    match b.dtype(v) {
        DType::Bool => not_implemented("abs", DType::Bool),
        d if d.is_unsigned() => Ok(v),
        _ => b.unary(crate::Unary::Abs, v),
    }
}

pub(super) fn neg(_: &Call<'_>, b: &Builder, v: ValueId) -> Result<ValueId> {
    ensure_kernel!(
        b.dtype(v) != DType::Bool,
        "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use the `~` or `logical_not()` operator instead."
    );
    b.negate(v)
}

/// Rounding of floats; integers stay.
fn rounded(b: &Builder, v: ValueId, name: &str, f: for<'e> fn(Expr<'e>) -> Expr<'e>) -> Result<ValueId> {
    match b.dtype(v) {
        DType::Bool => not_implemented(name, DType::Bool),
        d if d.is_complex() => crate::no_kernel!("{name} is not supported for complex inputs"),
        d if d.is_int() => Ok(v),
        _ => formula(b, [v], |[x]| f(x)),
    }
}

pub(super) fn ceil(_: &Call<'_>, b: &Builder, v: ValueId) -> Result<ValueId> {
    rounded(b, v, "ceil", |x| x.ceil())
}
pub(super) fn floor(_: &Call<'_>, b: &Builder, v: ValueId) -> Result<ValueId> {
    rounded(b, v, "floor", |x| x.floor())
}
pub(super) fn trunc(_: &Call<'_>, b: &Builder, v: ValueId) -> Result<ValueId> {
    rounded(b, v, "trunc", |x| x.trunc())
}
pub(super) fn round(_: &Call<'_>, b: &Builder, v: ValueId) -> Result<ValueId> {
    rounded(b, v, "round", |x| x.round_nearest_even())
}

/// What is left of a float without its whole part.
pub(super) fn frac(_: &Call<'_>, b: &Builder, v: ValueId) -> Result<ValueId> {
    match b.dtype(v) {
        d if d.is_float() => wide_formula(b, [v], |[x]| x - x.trunc()),
        d => not_implemented("frac", d),
    }
}

/// -1, 0 or 1; 0 for NaN.
pub(super) fn sign(c: &Call<'_>, b: &Builder, v: ValueId) -> Result<ValueId> {
    let complex = b.dtype(v).is_complex();
    ensure_kernel!(
        !complex,
        "Unlike NumPy, torch.sign is not intended to support complex numbers. Please use torch.sgn instead."
    );
    sgn(c, b, v)
}

/// [`sign`], and `x / |x|` for complex numbers.
fn sgn(_: &Call<'_>, b: &Builder, v: ValueId) -> Result<ValueId> {
    match b.dtype(v) {
        DType::Bool => Ok(v),
        d if d.is_unsigned() => formula(b, [v], |[x]| x.min(1.0)),
        d if d.is_float() => formula(b, [v], |[x]| x.is_nan().select(x.constant(0.0), x.sign())),
        _ => formula(b, [v], |[x]| x.sign()),
    }
}

/// The power of two, in which `bool` counts as `i64`.
fn square(_: &Call<'_>, b: &Builder, v: ValueId) -> Result<ValueId> {
    let v = if b.dtype(v) == DType::Bool { b.convert(v, DType::I64)? } else { v };
    b.multiply(v, v)
}

fn signbit(_: &Call<'_>, b: &Builder, v: ValueId) -> Result<ValueId> {
    let dtype = b.dtype(v);
    ensure_kernel!(!dtype.is_complex(), "signbit is not implemented for complex tensors.");
    formula(b, [v], |[x]| if dtype.is_float() { x.sign_bit() } else { x.less(0.0) })
}

fn isnan(_: &Call<'_>, b: &Builder, v: ValueId) -> Result<ValueId> {
    formula(b, [v], |[x]| x.is_nan())
}

/// `f` on the float, or on both parts of the complex number, `none` for other types.
fn on_parts(
    b: &Builder,
    v: ValueId,
    none: f64,
    f: for<'e> fn(Expr<'e>) -> Expr<'e>,
    join: for<'e> fn(Expr<'e>, Expr<'e>) -> Expr<'e>,
) -> Result<ValueId> {
    let dtype = b.dtype(v);
    formula(b, [v], |[x]| {
        if dtype.is_complex() {
            join(f(x.real()), f(x.imag()))
        } else if dtype.is_float() {
            f(x)
        } else {
            x.convert(DType::Bool).constant(none)
        }
    })
}

fn isinf(_: &Call<'_>, b: &Builder, v: ValueId) -> Result<ValueId> {
    on_parts(b, v, 0.0, |x| x.is_inf(), |re, im| re | im)
}

fn isfinite(b: &Builder, v: ValueId) -> Result<ValueId> {
    on_parts(b, v, 1.0, |x| x.is_finite(), |re, im| re & im)
}

fn isreal(b: &Builder, v: ValueId) -> Result<ValueId> {
    let complex = b.dtype(v).is_complex();
    formula(b, [v], |[x]| if complex { x.imag().equals(0.0) } else { x.convert(DType::Bool).constant(1.0) })
}

fn isposinf(_: &Call<'_>, b: &Builder, v: ValueId) -> Result<ValueId> {
    ensure_type!(!b.dtype(v).is_complex(), "isposinf does not support complex inputs.");
    on_parts(b, v, 0.0, |x| x.equals(f64::INFINITY), |re, _| re)
}

fn isneginf(_: &Call<'_>, b: &Builder, v: ValueId) -> Result<ValueId> {
    ensure_type!(!b.dtype(v).is_complex(), "isneginf does not support complex inputs.");
    on_parts(b, v, 0.0, |x| x.equals(f64::NEG_INFINITY), |re, _| re)
}

/// The angle in the complex plane: 0 or pi for real numbers.
fn angle(c: &Call<'_>, b: &Builder, v: ValueId) -> Result<ValueId> {
    let v = b.convert(v, to_float(c, b.dtype(v)))?;
    if b.dtype(v).is_complex() {
        return formula(b, [v], |[x]| x.imag().atan2(x.real()));
    }
    wide_formula(b, [v], |[x]| x.is_nan().select(x, x.less(0.0).select(x.constant(PI), 0.0)))
}

fn conj_physical(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let v = c.tensor(b, "self")?;
    if !b.dtype(v).is_complex() {
        return one(v);
    }
    one(formula(b, [v], |[x]| x.real().complex(-x.imag()))?)
}

/// Rounded to `decimals` places behind the point, or before it if negative.
fn round_decimals(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (v, decimals) = (c.tensor(b, "self")?, c.int("decimals")?);
    if decimals == 0 {
        return one(round(c, b, v)?);
    }
    if !b.dtype(v).is_float() {
        return not_implemented("round", b.dtype(v));
    }
    let power = 10f64.powi(decimals.unsigned_abs().min(400) as i32);
    one(wide_formula(b, [v], |[x]| {
        if decimals > 0 { (x * power).round_nearest_even() / power } else { (x / power).round_nearest_even() * power }
    })?)
}

/// NaN becomes `nan`, infinities become numbers: by default the greatest and least that are finite.
fn nan_to_num(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let v = c.tensor(b, "self")?;
    let dtype = b.dtype(v);
    if dtype.is_complex() {
        let [real, imag] = [Unary::Real, Unary::Imag].map(|part| finite_floats(c, b, b.unary(part, v)?));
        return one(b.binary(Binary::Complex, real?, imag?)?);
    }
    one(if dtype.is_float() { finite_floats(c, b, v)? } else { v })
}

fn finite_floats(c: &Call<'_>, b: &Builder, v: ValueId) -> Result<ValueId> {
    let dtype = b.dtype(v);
    let greatest = dtype.largest();
    let number = |name, default| {
        let given = c.optional_scalar(name)?;
        Ok(given.unwrap_or(super::Scalar::Known(crate::Number::Float(default))).into())
    };
    let operands = [v.into(), number("nan", 0.0)?, number("posinf", greatest)?, number("neginf", -greatest)?];
    elementwise(c, b, operands, dtype, |[x, nan, high, low]| {
        let finite = x.equals(f64::INFINITY).select(high, x.equals(f64::NEG_INFINITY).select(low, x));
        x.is_nan().select(nan, finite)
    })
}
