//! Elementwise functions of one tensor that give floats.

use super::complex_functions::{
    arc_tangent, by_parts, even_on_axes, exponential, hyperbolic_arc_tangent, odd_on_axes, on_its_side, power_of_two,
};
use super::expr::{Expr, formula, wide_formula};
use super::support::{not_implemented, scalar_like, to_float};
use super::{Call, OpDef, Sample, err, ok, one};
use crate::builder::Builder;
use crate::ensure;
use crate::error::Result;
use crate::graph::ValueId;
use std::f64::consts::{FRAC_1_SQRT_2, LN_2, LN_10, PI};

/// `aten::NAME(Tensor self) -> Tensor` with its in-place and `out=` overloads.
macro_rules! unary {
    ($name:ident, $samples:expr) => {
        unary!($name, $name, $samples)
    };
    ($name:ident, $value:expr, $samples:expr) => {
        crate::ops::OpDef::new(
            concat!("aten::", stringify!($name), "(Tensor self) -> Tensor"),
            |c, b| crate::ops::one($value(c, b, c.tensor(b, "self")?)?),
            $samples,
        )
        .variants(&[concat!(stringify!($name), "_"), concat!(stringify!($name), ".out")])
    };
}

/// `aten::NAME(Tensor self) -> Tensor` with its `out=` overload only.
macro_rules! unary_without_in_place {
    ($name:ident, $value:expr, $samples:expr) => {
        crate::ops::OpDef::new(
            concat!("aten::", stringify!($name), "(Tensor self) -> Tensor"),
            |c, b| crate::ops::one($value(c, b, c.tensor(b, "self")?)?),
            $samples,
        )
        .variants(&[concat!(stringify!($name), ".out")])
    };
}

pub(super) static OPS: &[OpDef] = &[
    unary!(acos, COMPLEX),
    unary!(arccos, acos, COMPLEX),
    unary!(acosh, COMPLEX),
    unary!(arccosh, acosh, COMPLEX),
    unary!(asin, COMPLEX),
    unary!(arcsin, asin, COMPLEX),
    unary!(asinh, COMPLEX),
    unary!(arcsinh, asinh, COMPLEX),
    unary!(atan, COMPLEX),
    unary!(arctan, atan, COMPLEX),
    unary!(atanh, COMPLEX),
    unary!(arctanh, atanh, COMPLEX),
    unary!(cos, COMPLEX),
    unary!(cosh, COMPLEX),
    unary!(deg2rad, REAL),
    unary!(digamma, REAL),
    unary_without_in_place!(special_digamma, digamma, REAL),
    unary_without_in_place!(special_psi, digamma, REAL),
    unary!(erf, REAL),
    unary_without_in_place!(special_erf, erf, REAL),
    unary!(erfc, REAL),
    unary_without_in_place!(special_erfc, erfc, REAL),
    unary!(erfinv, REAL),
    unary_without_in_place!(special_erfinv, erfinv, REAL),
    unary!(exp, COMPLEX),
    unary!(exp2, COMPLEX),
    unary_without_in_place!(special_exp2, exp2, COMPLEX),
    unary!(expm1, COMPLEX),
    unary_without_in_place!(special_expm1, expm1, COMPLEX),
    unary!(lgamma, REAL),
    unary_without_in_place!(special_gammaln, lgamma, REAL),
    unary!(log, COMPLEX),
    unary!(log10, COMPLEX),
    unary!(log1p, COMPLEX),
    unary_without_in_place!(special_log1p, log1p, COMPLEX),
    unary!(log2, COMPLEX),
    unary!(rad2deg, REAL),
    unary!(reciprocal, COMPLEX),
    unary!(rsqrt, COMPLEX),
    unary!(sigmoid, COMPLEX),
    unary_without_in_place!(special_expit, sigmoid, COMPLEX),
    unary!(sin, COMPLEX),
    unary!(sinc, COMPLEX),
    unary_without_in_place!(special_sinc, sinc, COMPLEX),
    unary!(sinh, COMPLEX),
    unary!(sqrt, COMPLEX),
    unary!(tan, COMPLEX),
    unary!(tanh, COMPLEX),
    unary_without_in_place!(special_entr, entr, REAL),
    unary_without_in_place!(special_ndtr, ndtr, NDTR),
    OpDef::new("aten::logit(Tensor self, float? eps=None) -> Tensor", |c, b| one(logit(c, b)?), LOGIT)
        .variants(&["logit_", "logit.out"]),
    OpDef::new("aten::special_logit(Tensor self, float? eps=None) -> Tensor", |c, b| one(logit(c, b)?), LOGIT)
        .variants(&["special_logit.out"]),
    OpDef::new("aten::polygamma(int n, Tensor self) -> Tensor", |c, b| one(polygamma(c, b)?), POLYGAMMA)
        .variants(&["polygamma.out"]),
    OpDef::new("aten::special_polygamma(int n, Tensor self) -> Tensor", |c, b| one(polygamma(c, b)?), POLYGAMMA)
        .variants(&["special_polygamma.out"]),
];

const REAL: &[Sample] = &[
    ok("f32[3,4]"),
    ok("f32[8]{nan,inf,-inf,-0.0,0,1,-1,20}"),
    ok("f64[]"),
    ok("bf16[9]"),
    ok("f16[0]"),
    ok("i64[5]"),
    ok("bool[2]"),
    err("c64[2]", "not implemented for 'ComplexFloat'"),
];

/// In one rounding; PyTorch takes several in 16 bits.
const NDTR: &[Sample] = &[ok("f32[3,4]"), ok("f32[6]{nan,inf,-inf,-0.0,-5,5}"), ok("f64[0]"), ok("i64[5]")];

const COMPLEX: &[Sample] = &[
    ok("f32[3,4]"),
    ok("f32[8]{nan,inf,-inf,-0.0,0,1,-1,20}"),
    ok("f64[]"),
    ok("bf16[9]"),
    ok("f16[0]"),
    ok("i64[5]"),
    ok("bool[2]"),
    ok("c64[5]"),
];

const LOGIT: &[Sample] = &[
    ok("f32[9]{0..1}"),
    ok("f32[9], 1e-3"),
    ok("bf16[9]{0..1}"),
    ok("bf16[3]{0.498,0.504,0.51}"),
    ok("i64[2]{0..2}"),
    ok("f32[4]{nan,0,1,inf}, 0.1"),
    ok("f32[4]{nan,0,1,inf}, 0.6"),
    err("c64[2]", "not implemented for 'ComplexFloat'"),
];

const POLYGAMMA: &[Sample] = &[
    ok("1, f32[9]{0.5..4}"),
    ok("2, f32[9]{0.5..4}"),
    ok("0, f32[9]{0.5..4}"),
    ok("1, i64[3]{1..5}"),
    err("-1, f32[2]", "polygamma(n, x) does not support negative n."),
];

/// Functions on floats (integers become floats first): `real` ones on all of them, `single` ones not on 16 bits, where
/// PyTorch has no kernel, `complex` ones on complex numbers too.
macro_rules! functions {
    ($($name:ident $kind:ident |$x:ident| $formula:expr;)*) => {$(
        pub(super) fn $name(c: &Call<'_>, b: &Builder, v: ValueId) -> Result<ValueId> {
            functions!(@ $kind c, b, v, stringify!($name), |[$x]| $formula)
        }
    )*};
    (@ real $c:expr, $b:expr, $v:expr, $name:expr, $f:expr) => {
        real_function($c, $b, $v, $name, $f)
    };
    (@ single $c:expr, $b:expr, $v:expr, $name:expr, $f:expr) => {
        match $b.dtype($v) {
            half @ ($crate::DType::BF16 | $crate::DType::F16) => $crate::ops::support::not_implemented($name, half),
            _ => real_function($c, $b, $v, $name, $f),
        }
    };
    (@ complex $c:expr, $b:expr, $v:expr, $name:expr, $f:expr) => {
        function($c, $b, $v, $f)
    };
}

functions! {
    acos complex |x| on_its_side(x.acos(), |y| (y.real(), y.imag().copysign(-x.imag())));
    acosh complex |x| on_its_side(x.acosh(), |y| (y.real(), y.imag().copysign(x.imag())));
    asin complex |x| on_its_side(x.asin(), |y| (y.real(), y.imag().copysign(x.imag())));
    asinh complex |x| on_its_side(x.asinh(), |y| (y.real().copysign(x.real()), y.imag()));
    atan complex |x| arc_tangent(x);
    atanh complex |x| hyperbolic_arc_tangent(x);
    cos complex |x| even_on_axes(x, x.cos());
    cosh complex |x| even_on_axes(x, x.cosh());
    deg2rad real |x| x * (PI / 180.0);
    digamma real |x| x.equals(0.0).select(x.constant(f64::INFINITY).copysign(-x), x.digamma());
    entr real |x| x.equals(0.0).select(x.constant(0.0), x.less(0.0).select(x.constant(f64::NEG_INFINITY), -x * x.ln()));
    erf real |x| x.erf();
    erfc real |x| x.erfc();
    erfinv real |x| x.erf_inv();
    exp complex |x| exponential(x);
    exp2 complex |x| power_of_two(x);
    expm1 complex |x| x.exp_m1();
    lgamma real |x| x.lgamma();
    log complex |x| x.ln();
    log10 complex |x| by_parts(x.ln(), |part| part / LN_10);
    log1p complex |x| x.ln_1p();
    log2 complex |x| by_parts(x.ln(), |part| part / LN_2);
    ndtr real |x| (-x * FRAC_1_SQRT_2).erfc() * 0.5;
    rad2deg real |x| x * (180.0 / PI);
    reciprocal complex |x| 1.0 / x;
    rsqrt complex |x| x.rsqrt();
    sigmoid complex |x| x.logistic();
    sin complex |x| odd_on_axes(x, x.sin());
    sinc complex |x| x.equals(0.0).select(x.constant(1.0), (x * PI).sin() / (x * PI));
    sinh complex |x| odd_on_axes(x, x.sinh());
    sqrt complex |x| on_its_side(x.sqrt(), |y| (y.real(), y.imag().copysign(x.imag())));
    tan complex |x| odd_on_axes(x, x.tan());
    tanh complex |x| odd_on_axes(x, x.tanh());
}

pub(super) use {functions, unary, unary_without_in_place};

fn function(
    c: &Call<'_>,
    b: &Builder,
    v: ValueId,
    f: impl for<'e> FnOnce([Expr<'e>; 1]) -> Expr<'e>,
) -> Result<ValueId> {
    let v = b.convert(v, to_float(c, b.dtype(v)))?;
    wide_formula(b, [v], f)
}

pub(super) fn real_function(
    c: &Call<'_>,
    b: &Builder,
    v: ValueId,
    name: &str,
    f: impl for<'e> FnOnce([Expr<'e>; 1]) -> Expr<'e>,
) -> Result<ValueId> {
    match b.dtype(v) {
        complex if complex.is_complex() => not_implemented(name, complex),
        _ => function(c, b, v, f),
    }
}

/// `log(x / (1 - x))` of `self`, first clamped to `eps..1 - eps`.
/// `ln(x / (1 - x))`, each step rounded, as the CPU's kernel has it: near 0.5 little else is left.
fn logit(c: &Call<'_>, b: &Builder) -> Result<ValueId> {
    let v = c.tensor(b, "self")?;
    let dtype = to_float(c, b.dtype(v));
    if dtype.is_complex() {
        return not_implemented("logit", dtype);
    }
    let v = b.convert(v, dtype)?;
    let Some(eps) = c.optional_scalar("eps")? else { return formula(b, [v], |[x]| log_odds(x)) };
    let eps = scalar_like(c, b, &eps, v)?;
    // Not `max` and `min`: beyond 0.5 the lower bound is the greater one, and wins.
    formula(b, [v, eps], |[x, eps]| log_odds(x.less(eps).select(eps, x.min(1.0 - eps))))
}

fn log_odds(x: Expr<'_>) -> Expr<'_> {
    (x / (1.0 - x)).ln()
}

/// The `n`-th derivative of digamma.
fn polygamma(c: &Call<'_>, b: &Builder) -> Result<ValueId> {
    let (n, v) = (c.int("n")?, c.tensor(b, "self")?);
    ensure!(n >= 0, "polygamma(n, x) does not support negative n.");
    match n {
        0 => digamma(c, b, v),
        _ => real_function(c, b, v, "polygamma", |[x]| {
            let factorial: f64 = (1..=n).map(|k| k as f64).product();
            let derivative = x.constant((n + 1) as f64).zeta(x) * if n % 2 == 0 { -factorial } else { factorial };
            // Zeta itself is NaN there, and the CPU's further derivatives are as well.
            if n == 1 { x.equals(f64::INFINITY).select(x.constant(0.0), derivative) } else { derivative }
        }),
    }
}
