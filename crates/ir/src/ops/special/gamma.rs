//! Incomplete gamma functions `P(a, x)` and `Q(a, x) = 1 - P(a, x)`.
//!
//! P by its power series where `x` is small beside `a`, Q by its continued fraction where it is large; both loops run as
//! long as an element needs them. They would run long for a large `a` close to `x`: there both follow from the error
//! function and a correction (DLMF 8.12).

use super::horner;
use super::tables::{ATANH_TAIL, STIRLING, UNIFORM};
use crate::DType;
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::literal::Number;
use crate::ops::expr::{Expr, formula};
use crate::ops::loops::{anywhere, repeat_while};
use crate::ops::support::{Operand, align, not_implemented, result_type};
use crate::ops::{Call, OpDef, Outs, Sample, err, ok, one};
use std::f64::consts::{PI, TAU};

pub(super) static OPS: &[OpDef] = &[
    OpDef::new("aten::igamma(Tensor self, Tensor other) -> Tensor", |c, b| incomplete_gamma(c, b, "igamma"), SAMPLES)
        .variants(&["igamma_", "igamma.out"]),
    OpDef::new("aten::igammac(Tensor self, Tensor other) -> Tensor", |c, b| incomplete_gamma(c, b, "igammac"), SAMPLES)
        .variants(&["igammac_", "igammac.out"]),
];

const SAMPLES: &[Sample] = &[
    ok("f32[3,4]{0..6}, f32[4]{0..6}"),
    ok("f32[60]{0..60}, f32[60]{0..60}"),
    ok("f64[60]{0..4}, f64[60]{0..4}"),
    ok("f64[60]{0..60}, f64[60]{0..60}"),
    ok("f64[7]{190,210,9900,9999,10001,1e6,1e6}, f64[7]{200,200,10000,10000,10000,999000,1001000}"),
    ok("f64[5]{1e-9,1e-9,1e9,1e9,3}, f64[5]{1e-9,2,2e9,1e9,1e300}"),
    ok("f64[12,1]{nan,inf,-inf,-1,-0.0,0,0.5,2,5,30,1000,1e6}, f64[12]{nan,inf,-inf,-1,-0.0,0,0.001,2,5,30,1000,1e6}"),
    ok("f32[10,1]{nan,inf,-inf,-1,0,0.5,2,5,30,1000}, f32[10]{nan,inf,-inf,-1,0,0.001,2,5,30,1000}"),
    ok("bf16[9]{0..6}, bf16[9]{0..6}"),
    ok("f16[0], f16[]{1}"),
    err("i64[2], i64[2]", "not implemented for 'Long'"),
    err("c64[2], c64[2]", "not implemented for 'ComplexFloat'"),
];

fn incomplete_gamma(c: &Call<'_>, b: &Builder, name: &str) -> Result<Outs> {
    let operands: [Operand; 2] = [c.operand(b, "self")?, c.operand(b, "other")?];
    let dtype = result_type(c, b, &operands)?;
    if !dtype.is_float() {
        return not_implemented(name, dtype);
    }
    let aligned = align(c, b, &operands, dtype)?;
    let (a, x) = (b.convert(aligned[0], dtype.accumulator())?, b.convert(aligned[1], dtype.accumulator())?);
    let (lower, upper) = (power_series(b, a, x)?, continued_fraction(b, a, x)?);
    let upper_wanted = name == "igammac";
    let value = formula(b, [a, x, lower, upper], |[a, x, lower, upper]| {
        let way = Way::of(a, x);
        let density = density(a, x);
        let (lower, upper) = (density * lower, density * a * upper);
        if upper_wanted {
            let inside = way.uniform.select(uniform(a, x, true), way.fraction.select(upper, 1.0 - lower));
            at_edges(a, x, inside, 1.0)
        } else {
            let inside = way.uniform.select(uniform(a, x, false), way.fraction.select(1.0 - upper, lower));
            at_edges(a, x, inside, 0.0)
        }
    })?;
    one(b.convert(value, dtype)?)
}

/// `inside`, or what PyTorch gives at the ends of the domain and beyond; `at_zero` for `x = 0`.
fn at_edges<'e>(a: Expr<'e>, x: Expr<'e>, inside: Expr<'e>, at_zero: f64) -> Expr<'e> {
    let nan = a.constant(f64::NAN);
    let at_infinity = 1.0 - at_zero;
    let value = x.is_inf().select(a.constant(at_infinity), inside);
    let value = a.is_inf().select(x.is_inf().select(nan, at_zero), value);
    let value = x.equals(0.0).select(a.constant(at_zero), value);
    let value = a.equals(0.0).select(x.greater(0.0).select(a.constant(at_infinity), nan), value);
    (x.less(0.0) | a.less(0.0)).select(nan, value)
}

/// How an element is computed: by neither where it is P's series.
struct Way<'e> {
    uniform: Expr<'e>,
    fraction: Expr<'e>,
}

impl<'e> Way<'e> {
    fn of(a: Expr<'e>, x: Expr<'e>) -> Way<'e> {
        let uniform = a.at_least(1e4) & ((x - a) / a).abs().less(0.15);
        Way { uniform, fraction: x.greater(a.max(1.1)) & !uniform }
    }

    fn series(self, a: Expr<'e>, x: Expr<'e>) -> Expr<'e> {
        let inside = a.greater(0.0) & x.at_least(0.0) & x.at_most(a.max(1.1));
        inside & !self.uniform & !self.fraction
    }
}

/// `x^a exp(-x) / gamma(a + 1)`. From 10 on by Stirling's series, since the logarithms of its factors are much greater than
/// what is left of them.
fn density<'e>(a: Expr<'e>, x: Expr<'e>) -> Expr<'e> {
    let small = (a * x.ln() - x - (a + 1.0).lgamma()).exp();
    let distance = (x - a) / a;
    let stirling = horner(1.0 / (a * a), STIRLING) / a;
    let large = (a * log_beyond_linear(distance, x / a) - stirling).exp() / (a * TAU).sqrt();
    a.less(10.0).select(small, large)
}

/// `log(1 + m) - m`, where `ratio` is `1 + m`.
fn log_beyond_linear<'e>(m: Expr<'e>, ratio: Expr<'e>) -> Expr<'e> {
    let r = m / (m + 2.0);
    let close = r * r * r * ATANH_TAIL.at(r * r * 9.0) * 2.0 - m * r;
    m.abs().less(0.5).select(close, ratio.ln() - m)
}

/// P or Q by the series that is uniform in `x / a`.
fn uniform<'e>(a: Expr<'e>, x: Expr<'e>, upper: bool) -> Expr<'e> {
    let m = (x - a) / a;
    let half_square = -log_beyond_linear(m, x / a);
    let eta = (half_square * 2.0).sqrt().copysign(m);
    let rows = UNIFORM.iter().rev();
    let sum = rows.fold(a.constant(0.0), |sum, row| sum / a + horner(eta, row));
    let correction = (-a * half_square).exp() / (a * (2.0 * PI)).sqrt() * sum;
    let tail = eta * (a * 0.5).sqrt();
    if upper { tail.erfc() * 0.5 + correction } else { (-tail).erfc() * 0.5 - correction }
}

/// Steps of a loop at most: more than an element needs whose value is neither 0 nor 1.
const MOST_STEPS: f64 = 2000.0;

/// `1 + x / (a + 1) + x^2 / ((a + 1) (a + 2)) + ...` where that is needed.
fn power_series(b: &Builder, a: ValueId, x: ValueId) -> Result<ValueId> {
    let chosen = |f: for<'e> fn([Expr<'e>; 2], Expr<'e>) -> Expr<'e>| {
        formula(b, [a, x], |[a, x]| f([a, x], Way::of(a, x).series(a, x)))
    };
    let a = chosen(|[a, _], needed| needed.select(a, 1.0))?;
    let x = chosen(|[_, x], needed| needed.select(x, 0.0))?;
    let ones = b.full_like(a, Number::Int(1))?;
    let least = epsilon(b.dtype(a));
    let more = |b: &Builder, given: &[ValueId]| {
        going_on(b, given[0], formula(b, [given[3], given[4]], |[term, sum]| term.greater(sum * least))?)
    };
    let step = |b: &Builder, given: &[ValueId]| {
        let [x, term, sum] = [given[2], given[3], given[4]];
        let next_a = formula(b, [given[1]], |[a]| a + 1.0)?;
        let term = formula(b, [x, term, next_a], |[x, term, a]| term * (x / a))?;
        Ok(vec![counted(b, given[0])?, next_a, x, term, b.add(sum, term)?])
    };
    let start = [b.scalar(Number::Int(0), DType::I32)?, a, x, ones, ones];
    Ok(repeat_while(b, &start, more, step)?[4])
}

/// `Q(a, x)` over `x^a exp(-x) / gamma(a)` where that is needed, by Lentz's method: the quotient of two sequences, one
/// from the front (`c`) and one from the back (`1 / d`). The fraction's n-th divisor is at least `2 n + 1` and its n-th
/// numerator at least `-n^2`, so that `c` and `1 / d` are at least `n + 1`, and need no guards.
fn continued_fraction(b: &Builder, a: ValueId, x: ValueId) -> Result<ValueId> {
    let chosen = |f: for<'e> fn([Expr<'e>; 2], Expr<'e>) -> Expr<'e>| {
        formula(b, [a, x], |[a, x]| f([a, x], Way::of(a, x).fraction))
    };
    let a = chosen(|[a, _], needed| needed.select(a, 1.0))?;
    let divisor = chosen(|[a, x], needed| needed.select(x - a + 1.0, 1.0))?;
    let inverse = formula(b, [divisor], |[divisor]| 1.0 / divisor)?;
    let infinite = b.full_like(a, Number::Float(f64::INFINITY))?;
    let least = epsilon(b.dtype(a));
    let more = |b: &Builder, given: &[ValueId]| {
        going_on(b, given[0], formula(b, [given[6]], |[factor]| (factor - 1.0).abs().greater(least))?)
    };
    let step = |b: &Builder, given: &[ValueId]| {
        let [a, divisor, c, d, value, factor] = [given[1], given[2], given[3], given[4], given[5], given[6]];
        let k = counted(b, given[0])?;
        let n = b.broadcast_in_dim(b.convert(k, b.dtype(a))?, &b.shape(a), &[])?;
        let numerator = formula(b, [n, a], |[n, a]| n * (a - n))?;
        let divisor = formula(b, [divisor], |[divisor]| divisor + 2.0)?;
        let c = formula(b, [divisor, numerator, c], |[divisor, numerator, c]| divisor + numerator / c)?;
        let d = formula(b, [divisor, numerator, d], |[divisor, numerator, d]| 1.0 / (divisor + numerator * d))?;
        // What has settled stays: further factors would only add their roundings.
        let next = formula(b, [factor, c, d], |[factor, c, d]| (factor - 1.0).abs().greater(least).select(c * d, 1.0))?;
        Ok(vec![k, a, divisor, c, d, b.multiply(value, next)?, next])
    };
    let start = [b.scalar(Number::Int(0), DType::I32)?, a, divisor, infinite, inverse, inverse, infinite];
    Ok(repeat_while(b, &start, more, step)?[5])
}

/// What a loop no longer cares for, beside 1.
fn epsilon(dtype: DType) -> f64 {
    if dtype == DType::F64 { 4.0 * f64::EPSILON } else { 4.0 * f64::from(f32::EPSILON) }
}

/// Whether `needed` holds anywhere and there are steps left.
fn going_on(b: &Builder, k: ValueId, needed: ValueId) -> Result<ValueId> {
    let needed = anywhere(b, needed)?;
    formula(b, [needed, k], |[needed, k]| needed & k.less(MOST_STEPS))
}

/// The next value of a loop's counter.
fn counted(b: &Builder, k: ValueId) -> Result<ValueId> {
    b.add(k, b.scalar(Number::Int(1), DType::I32)?)
}
