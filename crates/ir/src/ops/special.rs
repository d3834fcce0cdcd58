//! Special functions without a core op, by series and quotients of polynomials, whose coefficients
//! `scripts/approximations.py` prints.

mod bessel;
mod gamma;
mod tables;

use super::expr::Expr;
use super::pointwise::{functions, real_function, unary_without_in_place};
use super::{Call, OpDef, Sample, err, ok};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::ValueId;
use std::f64::consts::{FRAC_1_SQRT_2, SQRT_2};

pub(super) static BESSEL: &[OpDef] = bessel::OPS;
pub(super) static GAMMA: &[OpDef] = gamma::OPS;
pub(super) static OPS: &[OpDef] = &[
    unary_without_in_place!(special_erfcx, erfcx, ERFCX_SAMPLES),
    unary_without_in_place!(special_ndtri, ndtri, NDTRI),
    unary_without_in_place!(special_log_ndtr, log_ndtr, LOG_NDTR),
];

const ERFCX_SAMPLES: &[Sample] = &[
    ok("f32[40]{-2..9}"),
    ok("f32[40]{0..100}"),
    ok("f64[40]{-5..2}"),
    ok("f64[40]{0..9}"),
    ok("f64[6]{0,-0.0,1e-300,3.75,1e10,1e300}"),
    ok("f32[8]{nan,inf,-inf,-0.0,0,-10,50,1e38}"),
    ok("i64[5]"),
    ok("bool[2]"),
    err("bf16[2]", "not implemented for 'BFloat16'"),
    err("c64[2]", "not implemented for 'ComplexFloat'"),
];

const NDTRI: &[Sample] = &[
    ok("f32[40]{0..1}"),
    ok("f64[40]{0..1}"),
    ok("f64[9]{1e-300,1e-100,1e-17,1e-8,0.24,0.25,0.26,0.75,0.7500001}"),
    ok("f32[9]{nan,inf,-inf,-0.0,0,1,1.5,-0.5,1e-30}"),
    ok("i64[3]{0..2}"),
    err("bf16[2]", "not implemented for 'BFloat16'"),
];

const LOG_NDTR: &[Sample] = &[
    ok("f32[40]{-30..10}"),
    ok("f64[40]{-30..10}"),
    ok("f32[8]{nan,inf,-inf,-0.0,0,-1000,20,-1}"),
    ok("i64[5]"),
    err("bf16[2]", "not implemented for 'BFloat16'"),
];

functions! {
    erfcx single |x| scaled_erfc(x);
    ndtri single |p| normal_quantile(p);
    log_ndtr single |x| log_normal_cdf(x);
}

/// A quotient of polynomials, whose coefficients begin with that of the lowest degree.
struct Ratio {
    over: &'static [f64],
    under: &'static [f64],
}

impl Ratio {
    fn at<'e>(&self, u: Expr<'e>) -> Expr<'e> {
        horner(u, self.over) / horner(u, self.under)
    }
}

/// The polynomial at `u` whose coefficients begin with that of the lowest degree.
fn horner<'e>(u: Expr<'e>, coefficients: &[f64]) -> Expr<'e> {
    let Some((&last, rest)) = coefficients.split_last() else { return u.constant(0.0) };
    rest.iter().rev().fold(u.constant(last), |sum, &c| sum * u + c)
}

/// The series `terms` at `t` in -1..1, by Clenshaw's recurrence. What `f32` cannot hold is left out for it.
fn chebyshev<'e>(t: Expr<'e>, terms: &[f64]) -> Expr<'e> {
    let least = if t.dtype() == DType::F64 { 0.0 } else { 1e-9 };
    let len = terms.iter().rposition(|c| c.abs() > least).map_or(0, |last| last + 1);
    let twice = t * 2.0;
    let (mut next, mut after) = (t.constant(0.0), t.constant(0.0));
    for &term in terms[1..len].iter().rev() {
        (next, after) = (twice * next - after + term, next);
    }
    t * next - after + terms[0]
}

/// `exp(x^2) erfc(x)`. The series is that of `(1 + 2x) erfcx(x)` for positive x, as `x = 3.75 (1 + t) / (1 - t)`.
fn scaled_erfc(x: Expr<'_>) -> Expr<'_> {
    let size = x.abs();
    let positive = chebyshev(1.0 - 7.5 / (size + 3.75), &tables::ERFCX) / (size * 2.0 + 1.0);
    x.less(0.0).select(exp_of_square(size.min(1e3)) * 2.0 - positive, positive)
}

/// `exp(x^2)` of positive numbers. A square rounded before the exponential would cost all digits but a few, so that its
/// leading part, which is exact, goes apart.
fn exp_of_square(x: Expr<'_>) -> Expr<'_> {
    let head = (x * 64.0).floor() / 64.0;
    (head * head).exp() * ((x - head) * (x + head)).exp()
}

/// The number below which a standard normal one falls with probability `p`. In the tails the series gives how far it
/// stays behind `sqrt(-2 log p)`, over the logarithm of that.
fn normal_quantile(p: Expr<'_>) -> Expr<'_> {
    let tail = p.min(1.0 - p);
    let bound = (tail.ln() * -2.0).sqrt();
    let (low, high) = (TAIL_START.ln(), TAIL_END.ln());
    let t = (bound.ln() * 2.0 - (low + high)) / (high - low);
    let far = bound - chebyshev(t, &tables::NDTRI_TAIL);
    let far = tail.equals(0.0).select(p.constant(f64::INFINITY), far);
    let middle = (p * 2.0 - 1.0).erf_inv() * SQRT_2;
    let inside = tail.less(0.25).select(p.less(0.5).select(-far, far), middle);
    (p.less(0.0) | p.greater(1.0)).select(p.constant(f64::NAN), inside)
}

/// The logarithm of the probability that a standard normal number falls below `x`.
fn log_normal_cdf(x: Expr<'_>) -> Expr<'_> {
    let t = x * FRAC_1_SQRT_2;
    let below = (scaled_erfc(-t) * 0.5).ln() - t * t;
    x.less(-1.0).select(below, (t.erfc() * -0.5).ln_1p())
}

/// `sqrt(2 log 4)`: where a quarter lies.
const TAIL_START: f64 = 1.665_109_222_315_395_5;
/// Beyond the least subnormal number.
const TAIL_END: f64 = 39.0;

#[cfg(test)]
mod tests {
    use crate::eval::eval;
    use crate::ops::find;
    use crate::ops::sample::{bind, data, expand};

    /// The first result of `op` for the arguments `text`, all `f64`.
    fn values(op: &str, text: &str) -> Vec<f64> {
        let entry = find(&format!("aten::{op}.default")).expect("an entry");
        let args = bind(entry.schema, text).expect("arguments");
        let graph = expand(&entry, &args).expect("an expansion").graph;
        let results = eval(&graph, &data::literals(&args, 0, false)).expect("results");
        results[0].dense_bytes().chunks(8).map(|c| f64::from_le_bytes(c.try_into().expect("8 bytes"))).collect()
    }

    /// Where PyTorch's own functions are too far off to compare with. By mpmath.
    #[test]
    fn bessel_functions_are_good_to_double_precision() {
        let near_and_far = "f64[4]{4.9375,5.0625,7.5,30.25}";
        let cases: [(&str, &str, &[f64]); 5] = [
            (
                "special_bessel_j0",
                near_and_far,
                &[-0.1978378795985959, -0.15691789894737626, 0.2663396578803784, -0.05443267228961778],
            ),
            (
                "special_bessel_j1",
                near_and_far,
                &[-0.3199179456636228, -0.33392472902494025, 0.1352484275797055, -0.135377822725874],
            ),
            (
                "special_bessel_y0",
                near_and_far,
                &[-0.2986190763124927, -0.3170959204910404, 0.11731328614820863, -0.1344600176566395],
            ),
            (
                "special_bessel_y1",
                near_and_far,
                &[0.16883545627193985, 0.126600500066479, -0.25912851048611624, 0.05221822074062348],
            ),
            (
                "special_airy_ai",
                "f64[5]{1.9375,2.0625,-2.125,-4.0625,-7.5}",
                &[
                    0.03838162203263807,
                    0.03173952616423258,
                    0.14692191656424264,
                    -0.020429748057538777,
                    0.3217757163806479,
                ],
            ),
        ];
        for (op, text, wanted) in cases {
            for (got, wanted) in values(op, text).iter().zip(wanted) {
                assert!((got - wanted).abs() < 2e-15, "{op}: {got}, not {wanted}");
            }
        }
    }
}
