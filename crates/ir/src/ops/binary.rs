//! Elementwise functions of two tensors.

use super::expr::Expr;
use super::support::{Operand, align, elementwise, elementwise_rounded, not_implemented, result_type, to_float};
use super::{Call, OpDef, Outs, Strides, err, ok, one, outs};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::{Binary, DType, ensure, ensure_kernel, ensure_type};
use std::f64::consts::LN_2;

pub(super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::maximum(Tensor self, Tensor other) -> Tensor",
        |c, b| extremum(c, b, "maximum", |x, y| x.max(y)),
        EXTREMUM_SAMPLES,
    )
    .variants(&["maximum.out"]),
    OpDef::new(
        "aten::max.other(Tensor self, Tensor other) -> Tensor",
        |c, b| extremum(c, b, "maximum", |x, y| x.max(y)),
        EXTREMUM_SAMPLES,
    )
    .variants(&["max.out"]),
    OpDef::new(
        "aten::minimum(Tensor self, Tensor other) -> Tensor",
        |c, b| extremum(c, b, "minimum", |x, y| x.min(y)),
        EXTREMUM_SAMPLES,
    )
    .variants(&["minimum.out"]),
    OpDef::new(
        "aten::min.other(Tensor self, Tensor other) -> Tensor",
        |c, b| extremum(c, b, "minimum", |x, y| x.min(y)),
        EXTREMUM_SAMPLES,
    )
    .variants(&["min.out"]),
    OpDef::new(
        "aten::fmax(Tensor self, Tensor other) -> Tensor",
        |c, b| extremum(c, b, "fmax", |x, y| ignoring_nan(x, y, x.max(y))),
        EXTREMUM_SAMPLES,
    )
    .variants(&["fmax.out"]),
    OpDef::new(
        "aten::fmin(Tensor self, Tensor other) -> Tensor",
        |c, b| extremum(c, b, "fmin", |x, y| ignoring_nan(x, y, x.min(y))),
        EXTREMUM_SAMPLES,
    )
    .variants(&["fmin.out"]),
    OpDef::new("aten::atan2(Tensor self, Tensor other) -> Tensor", atan2_op, ATAN2_SAMPLES)
        .variants(&["atan2_", "atan2.out"]),
    OpDef::new("aten::arctan2(Tensor self, Tensor other) -> Tensor", atan2_op, ATAN2_SAMPLES)
        .variants(&["arctan2_", "arctan2.out"]),
    OpDef::new(
        "aten::hypot(Tensor self, Tensor other) -> Tensor",
        |c, b| one(on_floats(c, b, "hypot", result_type(c, b, &both(c, b)?)?, hypot)?),
        &[
            ok("f32[3,4], f32[4]"),
            ok("f32[5]{3e20,0,inf,nan,1e-30}, f32[5]{4e20,0,nan,1,1e-30}"),
            ok("bf16[9], bf16[9]"),
            err("i64[2], i64[2]", "not implemented for 'Long'"),
        ],
    )
    .variants(&["hypot_", "hypot.out"]),
    OpDef::new(
        "aten::copysign.Tensor(Tensor self, Tensor other) -> Tensor",
        copysign_op,
        &[
            ok("f32[3,4], f32[4]"),
            ok("i64[9], i64[9]"),
            ok("bf16[9], bf16[9]"),
            ok("f32[4]{1,2,nan,-inf}, f32[4]{-0.0,0,-1,1}"),
            err("c64[2], c64[2]", "not implemented for 'ComplexFloat'"),
        ],
    )
    .variants(&["copysign_.Tensor", "copysign.out"])
    .laid_out(Strides::ByElement),
    OpDef::new(
        "aten::copysign.Scalar(Tensor self, Scalar other) -> Tensor",
        copysign_op,
        &[ok("f32[9], -0.0"), ok("i64[3], -1")],
    )
    .variants(&["copysign_.Scalar", "copysign.Scalar_out"]),
    OpDef::new(
        "aten::logaddexp(Tensor self, Tensor other) -> Tensor",
        |c, b| {
            let dtype = result_type(c, b, &both(c, b)?)?;
            if dtype.is_complex() {
                return one(elementwise_rounded(c, b, both(c, b)?, dtype, |[x, y]| logaddexp(x, y))?);
            }
            one(on_floats(c, b, "logaddexp", dtype, logaddexp)?)
        },
        &[
            ok("f32[3,4], f32[4]"),
            ok("f32[5]{inf,-inf,nan,100,-inf}, f32[5]{inf,-inf,1,-100,inf}"),
            ok("bf16[9], bf16[9]"),
            ok("c64[3,4], c64[4]"),
            ok("c128[5], f32[5]{-inf,1,nan,100,inf}"),
            err("i64[2], i64[2]", "not implemented for 'Long'"),
        ],
    )
    .variants(&["logaddexp.out"]),
    OpDef::new(
        "aten::logaddexp2(Tensor self, Tensor other) -> Tensor",
        |c, b| {
            let dtype = result_type(c, b, &both(c, b)?)?;
            one(on_floats(c, b, "logaddexp2", dtype, |x, y| logaddexp(x * LN_2, y * LN_2) * (1.0 / LN_2))?)
        },
        &[
            ok("f32[3,4], f32[4]"),
            ok("f32[5]{inf,-inf,nan,100,-inf}, f32[5]{inf,-inf,1,-100,inf}"),
            err("c64[2], c64[2]", "not implemented for 'ComplexFloat'"),
        ],
    )
    .variants(&["logaddexp2.out"]),
    OpDef::new("aten::xlogy.Tensor(Tensor self, Tensor other) -> Tensor", xlogy_op, XLOGY_SAMPLES)
        .variants(&["xlogy_.Tensor", "xlogy.OutTensor"]),
    OpDef::new(
        "aten::xlogy.Scalar_Self(Scalar self, Tensor other) -> Tensor",
        xlogy_op,
        &[ok("2, f32[9]{0..3}"), ok("0, f32[3]{0,nan,inf}")],
    )
    .variants(&["xlogy.OutScalar_Self"]),
    OpDef::new(
        "aten::xlogy.Scalar_Other(Tensor self, Scalar other) -> Tensor",
        xlogy_op,
        &[ok("f32[9], 2"), ok("f32[9], 0"), ok("i64[9], 2")],
    )
    .variants(&["xlogy_.Scalar_Other", "xlogy.OutScalar_Other"]),
    OpDef::new("aten::special_xlogy(Tensor self, Tensor other) -> Tensor", xlogy_op, XLOGY_SAMPLES)
        .variants(&["special_xlogy.out"]),
    OpDef::new(
        "aten::special_xlogy.self_scalar(Scalar self, Tensor other) -> Tensor",
        xlogy_op,
        &[ok("2, f32[9]{0..3}")],
    )
    .variants(&["special_xlogy.self_scalar_out"]),
    OpDef::new("aten::special_xlogy.other_scalar(Tensor self, Scalar other) -> Tensor", xlogy_op, &[ok("f32[9], 2")])
        .variants(&["special_xlogy.other_scalar_out"]),
    OpDef::new(
        "aten::special_xlog1py(Tensor self, Tensor other) -> Tensor",
        xlog1py_op,
        &[ok("f32[3,4], f32[4]{0..3}"), ok("f32[3]{0,0,1}, f32[3]{nan,-1,-1}"), ok("i64[9], i64[9]{0..9}")],
    )
    .variants(&["special_xlog1py.out"]),
    OpDef::new(
        "aten::special_xlog1py.self_scalar(Scalar self, Tensor other) -> Tensor",
        xlog1py_op,
        &[ok("2, f32[9]{0..3}")],
    )
    .variants(&["special_xlog1py.self_scalar_out"]),
    OpDef::new(
        "aten::special_xlog1py.other_scalar(Tensor self, Scalar other) -> Tensor",
        xlog1py_op,
        &[ok("f32[9], 2")],
    )
    .variants(&["special_xlog1py.other_scalar_out"]),
    OpDef::new(
        "aten::special_zeta(Tensor self, Tensor other) -> Tensor",
        zeta_op,
        &[ok("f32[9]{1.5..4}, f32[9]{0.5..4}"), ok("i64[3]{2..4}, i64[3]{1..4}")],
    )
    .variants(&["special_zeta.out"]),
    OpDef::new(
        "aten::special_zeta.self_scalar(Scalar self, Tensor other) -> Tensor",
        zeta_op,
        &[ok("2, f32[9]{0.5..4}")],
    )
    .variants(&["special_zeta.self_scalar_out"]),
    OpDef::new(
        "aten::special_zeta.other_scalar(Tensor self, Scalar other) -> Tensor",
        zeta_op,
        &[ok("f32[9]{1.5..4}, 1")],
    )
    .variants(&["special_zeta.other_scalar_out"]),
    OpDef::new(
        "aten::nextafter(Tensor self, Tensor other) -> Tensor",
        |c, b| {
            let operands = both(c, b)?;
            let dtype = result_type(c, b, &operands)?;
            if !dtype.is_float() {
                return not_implemented("nextafter", dtype);
            }
            let aligned = align(c, b, &operands, dtype)?;
            one(b.binary(Binary::NextAfter, aligned[0], aligned[1])?)
        },
        &[ok("f32[3,4], f32[4]"), ok("f64[9], f64[9]"), err("i64[2], i64[2]", "not implemented for 'Long'")],
    )
    .variants(&["nextafter_", "nextafter.out"]),
    OpDef::new(
        "aten::heaviside(Tensor self, Tensor values) -> Tensor",
        |c, b| {
            let (x, values) = (c.tensor(b, "self")?, c.tensor(b, "values")?);
            let dtype = b.dtype(x);
            ensure_kernel!(!dtype.is_complex(), "heaviside is not yet implemented for complex tensors.");
            ensure!(dtype == b.dtype(values), "heaviside is not yet implemented for tensors with different dtypes.");
            one(elementwise(c, b, [x.into(), values.into()], dtype, |[x, v]| heaviside(x, v))?)
        },
        &[
            ok("f32[3,4], f32[4]"),
            ok("i64[9], i64[9]"),
            ok("bool[4], bool[4]"),
            ok("f32[3]{nan,0,-0.0}, f32[3]"),
            err("i64[2], f32[2]", "different dtypes"),
        ],
    )
    .variants(&["heaviside_", "heaviside.out"]),
    OpDef::new(
        "aten::complex(Tensor real, Tensor imag) -> Tensor",
        |c, b| one(complex_of(c, b, "real", "imag", |re, im| re.complex(im))?),
        &[
            ok("f32[3,4], f32[4]"),
            ok("f64[2], f64[2]"),
            err(
                "f32[2], f64[2]",
                "Expected object of scalar type Float but got scalar type Double for second argument",
            ),
        ],
    )
    .variants(&["complex.out"])
    .typed_outs(outs::complex),
    OpDef::new(
        "aten::polar(Tensor abs, Tensor angle) -> Tensor",
        |c, b| one(complex_of(c, b, "abs", "angle", |r, t| (r * t.cos()).complex(r * t.sin()))?),
        &[ok("f32[3,4], f32[4]"), ok("f64[2], f64[2]")],
    )
    .variants(&["polar.out"])
    .typed_outs(outs::complex),
];

const EXTREMUM_SAMPLES: &[super::Sample] = &[
    ok("f32[3,4], f32[4]"),
    ok("f32[5]{nan,1,nan,inf,-0.0}, f32[5]{1,nan,nan,-inf,0}"),
    ok("i64[9], i32[9]"),
    ok("bool[4], bool[4]"),
    ok("bf16[9], f32[]"),
    ok("u8[9], i64[9]"),
    err("c64[2], c64[2]", "not implemented for complex tensors."),
];

const ATAN2_SAMPLES: &[super::Sample] = &[
    ok("f32[3,4], f32[4]"),
    ok("i64[9], i64[9]"),
    ok("bf16[9], bf16[9]"),
    ok("f32[6]{0,-0.0,1,inf,inf,nan}, f32[6]{-1,-1,0,inf,-inf,1}"),
    err("c64[2], c64[2]", "not implemented for 'ComplexFloat'"),
];

const XLOGY_SAMPLES: &[super::Sample] = &[
    ok("f32[3,4], f32[4]{0..3}"),
    ok("f32[5]{0,0,0,1,nan}, f32[5]{nan,0,inf,0,2}"),
    ok("i64[9], i64[9]{0..9}"),
    err("c64[2], c64[2]", "not implemented for 'ComplexFloat'"),
];

fn both(c: &Call<'_>, b: &Builder) -> Result<[Operand; 2]> {
    Ok([c.operand(b, "self")?, c.operand(b, "other")?])
}

/// `f` of `self` and `other` taken to `dtype`, a real float type.
fn on_floats(
    c: &Call<'_>,
    b: &Builder,
    name: &str,
    dtype: DType,
    f: impl for<'e> FnOnce(Expr<'e>, Expr<'e>) -> Expr<'e>,
) -> Result<ValueId> {
    if !dtype.is_float() {
        return not_implemented(name, dtype);
    }
    elementwise_rounded(c, b, both(c, b)?, dtype, |[x, y]| f(x, y))
}

fn extremum(
    c: &Call<'_>,
    b: &Builder,
    name: &str,
    f: impl for<'e> FnOnce(Expr<'e>, Expr<'e>) -> Expr<'e>,
) -> Result<Outs> {
    let operands = both(c, b)?;
    let dtype = result_type(c, b, &operands)?;
    ensure_type!(!dtype.is_complex(), "{name} not implemented for complex tensors.");
    one(elementwise(c, b, operands, dtype, |[x, y]| f(x, y))?)
}

/// `extremum` unless one of the two is NaN: then the other.
fn ignoring_nan<'e>(x: Expr<'e>, y: Expr<'e>, extremum: Expr<'e>) -> Expr<'e> {
    x.is_nan().select(y, y.is_nan().select(x, extremum))
}

/// Scaled by the larger leg, so that squares neither overflow nor vanish. An infinite leg wins over NaN.
fn hypot<'e>(x: Expr<'e>, y: Expr<'e>) -> Expr<'e> {
    let (x, y) = (x.abs(), y.abs());
    let (long, short) = (x.max(y), x.min(y));
    let ratio = short / long;
    let length = long * (ratio * ratio + 1.0).sqrt();
    let infinite = x.is_inf() | y.is_inf();
    infinite.select(x.constant(f64::INFINITY), long.equals(0.0).select(long, length))
}

/// `ln(exp(x) + exp(y))`.
pub(super) fn logaddexp<'e>(x: Expr<'e>, y: Expr<'e>) -> Expr<'e> {
    if x.dtype().is_complex() {
        return complex_logaddexp(x, y);
    }
    let sum = x.max(y) + (-(x - y).abs()).exp().ln_1p();
    (x.is_inf() & x.equals(y)).select(x, sum)
}

/// The same of complex numbers, where the one of the greater real part is kept as it is, as PyTorch does: its imaginary part
/// may lie outside of what a logarithm gives.
fn complex_logaddexp<'e>(x: Expr<'e>, y: Expr<'e>) -> Expr<'e> {
    let is_low = x.real().less(y.real());
    let (low, high) = (is_low.select(x, y), is_low.select(y, x));
    // Not `exp` of the difference where that is nothing: the angle may be infinite there.
    let is_far = (low.real() - high.real()).equals(f64::NEG_INFINITY);
    let sum = is_far.select(high, high + (low - high).exp().ln_1p());
    let endless = low.real().is_inf() & low.real().equals(high.real());
    let of_endless = low.real().less(0.0).select(low, (low.exp() + high.exp()).ln());
    let nan = x.real().constant(f64::NAN);
    (x.is_nan() | y.is_nan()).select(nan.complex(nan), endless.select(of_endless, sum))
}

/// `x * log`, where `log` is of `y`: 0 for `x = 0` unless `y` is NaN.
fn times_log<'e>(x: Expr<'e>, y: Expr<'e>, log: Expr<'e>) -> Expr<'e> {
    let product = x.equals(0.0).select(x.constant(0.0), x * log);
    y.is_nan().select(y, product)
}

fn xlogy_op(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let dtype = to_float(c, result_type(c, b, &both(c, b)?)?);
    // The CPU's kernel rounds the logarithm.
    one(on_floats(c, b, "xlogy", dtype, |x, y| times_log(x, y, y.ln().convert(dtype).convert(x.dtype())))?)
}

fn xlog1py_op(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let dtype = to_float(c, result_type(c, b, &both(c, b)?)?);
    one(on_floats(c, b, "xlog1py", dtype, |x, y| times_log(x, y, y.ln_1p().convert(dtype).convert(x.dtype())))?)
}

fn zeta_op(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let dtype = to_float(c, result_type(c, b, &both(c, b)?)?);
    one(on_floats(c, b, "zeta", dtype, |x, q| x.zeta(q))?)
}

fn atan2_op(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let dtype = to_float(c, result_type(c, b, &both(c, b)?)?);
    one(on_floats(c, b, "atan2", dtype, |x, y| x.atan2(y))?)
}

fn copysign_op(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let dtype = to_float(c, result_type(c, b, &both(c, b)?)?);
    one(on_floats(c, b, "copysign", dtype, |x, y| x.copysign(y))?)
}

fn heaviside<'e>(x: Expr<'e>, at_zero: Expr<'e>) -> Expr<'e> {
    let step = x.constant(0.0).less(x).select(x.constant(1.0), 0.0);
    x.equals(0.0).select(at_zero, step)
}

/// A complex tensor from two real ones of the same type.
fn complex_of(
    c: &Call<'_>,
    b: &Builder,
    first: &str,
    second: &str,
    f: impl for<'e> FnOnce(Expr<'e>, Expr<'e>) -> Expr<'e>,
) -> Result<ValueId> {
    let (x, y) = (c.tensor(b, first)?, c.tensor(b, second)?);
    let (dx, dy) = (b.dtype(x), b.dtype(y));
    let name = super::support::torch_name;
    ensure_kernel!(
        matches!(dx, DType::F32 | DType::F64) && matches!(dy, DType::F16 | DType::F32 | DType::F64),
        "Expected both inputs to be Half, Float or Double tensors but got {} and {}",
        name(dx),
        name(dy)
    );
    ensure!(
        dx == dy,
        "Expected object of scalar type {} but got scalar type {} for second argument",
        name(dx),
        name(dy)
    );
    elementwise(c, b, [x.into(), y.into()], dx, |[x, y]| f(x, y))
}
