//! Special functions without a core op, by Chebyshev series. `scripts/chebyshev.py` prints the coefficients.

use super::expr::Expr;
use super::pointwise::{functions, real_function, unary, unary_without_in_place};
use super::{Call, OpDef, Sample, err, ok};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::ValueId;
use std::f64::consts::{FRAC_1_SQRT_2, SQRT_2};

pub(super) static OPS: &[OpDef] = &[
    unary!(i0, BESSEL),
    unary_without_in_place!(special_i0, i0, BESSEL),
    unary_without_in_place!(special_i0e, i0e, BESSEL),
    unary_without_in_place!(special_erfcx, erfcx, ERFCX_SAMPLES),
    unary_without_in_place!(special_ndtri, ndtri, NDTRI),
    unary_without_in_place!(special_log_ndtr, log_ndtr, LOG_NDTR),
];

const BESSEL: &[Sample] = &[
    ok("f32[3,4]"),
    ok("f32[40]{-60..60}"),
    ok("f64[40]{-60..60}"),
    ok("f64[40]{-8..8}"),
    ok("f32[8]{nan,inf,-inf,-0.0,0,8,-8,20}"),
    ok("f64[]"),
    ok("bf16[9]"),
    ok("f16[0]"),
    ok("i64[5]"),
    ok("bool[2]"),
    err("c64[2]", "not implemented for 'ComplexFloat'"),
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
    i0 real |x| scaled_i0(x) * x.abs().exp();
    i0e real |x| scaled_i0(x);
    erfcx single |x| scaled_erfc(x);
    ndtri single |p| normal_quantile(p);
    log_ndtr single |x| log_normal_cdf(x);
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

/// `exp(-|x|) I0(x)`.
fn scaled_i0(x: Expr<'_>) -> Expr<'_> {
    let x = x.abs();
    let near = chebyshev(x / 4.0 - 1.0, &I0E_NEAR);
    let far = chebyshev(16.0 / x - 1.0, &I0E_FAR) / x.sqrt();
    x.at_most(8.0).select(near, far)
}

/// `exp(x^2) erfc(x)`. The series is that of `(1 + 2x) erfcx(x)` for positive x, as `x = 3.75 (1 + t) / (1 - t)`.
fn scaled_erfc(x: Expr<'_>) -> Expr<'_> {
    let size = x.abs();
    let positive = chebyshev(1.0 - 7.5 / (size + 3.75), &ERFCX) / (size * 2.0 + 1.0);
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
    let far = bound - chebyshev(t, &NDTRI_TAIL);
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

/// `exp(-x) I0(x)` for x in 0..8, over `x / 4 - 1`.
const I0E_NEAR: [f64; 30] = [
    0.33839763720473803,
    -0.3046826723431984,
    0.17162090152220877,
    -0.09490109704804764,
    0.04930528423967071,
    -0.02373741480589947,
    0.010546460394594998,
    -0.004324309995050576,
    0.0016394756169413357,
    -0.0005763755745385824,
    0.00018850288509584165,
    -5.754195010082104e-05,
    1.6448448070728896e-05,
    -4.4167383584587505e-06,
    1.1173875391201037e-06,
    -2.670793853940612e-07,
    6.046995022541919e-08,
    -1.300025009986248e-08,
    2.6598237246823866e-09,
    -5.189795601635263e-10,
    9.675809035373237e-11,
    -1.726826291441556e-11,
    2.95505266312964e-12,
    -4.856446783111929e-13,
    7.676185498604936e-14,
    -1.1685332877993451e-14,
    1.715391285555133e-15,
    -2.431279846547955e-16,
    3.3307945188222384e-17,
    -4.4153416464793395e-18,
];
/// `sqrt(x) exp(-x) I0(x)` for x from 8 on, over `16 / x - 1`.
const I0E_FAR: [f64; 25] = [
    0.4022452055070544,
    0.0033691164782556943,
    6.889758346916825e-05,
    2.8913705208347567e-06,
    2.0489185894690638e-07,
    2.266668990498178e-08,
    3.3962320257083865e-09,
    4.94060238822497e-10,
    1.1889147107846439e-11,
    -3.1499165279632416e-11,
    -1.3215811840447713e-11,
    -1.7941785315068062e-12,
    7.180124451383666e-13,
    3.8527783827421426e-13,
    1.54008621752141e-14,
    -4.150569347287222e-14,
    -9.554846698828307e-15,
    3.8116806693526224e-15,
    1.7725601330565263e-15,
    -3.425485619677219e-16,
    -2.8276239805165836e-16,
    3.461222867697461e-17,
    4.46562142029676e-17,
    -4.830504485944182e-18,
    -7.233180487874754e-18,
];
/// `(1 + 2x) exp(x^2) erfc(x)` for positive x, over `(x - 3.75) / (x + 3.75)`.
const ERFCX: [f64; 25] = [
    1.1775789345674017,
    -0.004590054580646478,
    -0.08424913336651792,
    0.05920993999819189,
    -0.026658668435305753,
    0.009074997670705265,
    -0.002413163540417608,
    0.0004907758365258086,
    -6.916973302501207e-05,
    4.13902798607301e-06,
    7.74038306619849e-07,
    -2.1886401049234397e-07,
    1.076499946567091e-08,
    4.521959811218287e-09,
    -7.754400208831351e-10,
    -6.318088340886684e-11,
    2.86879501093067e-11,
    1.9455868545777347e-13,
    -9.65469674843344e-13,
    3.25254814814874e-14,
    3.3478119482868056e-14,
    -1.864562880419313e-15,
    -1.2507950530688648e-15,
    7.418235256624044e-17,
    5.068148904796111e-17,
];
/// `s - x` for the x below whose opposite a normal number falls with probability `exp(-s^2 / 2)`, over `log s`.
const NDTRI_TAIL: [f64; 30] = [
    0.46711137973674927,
    -0.43049856680848075,
    0.08812822518830342,
    -0.006323993147630551,
    -0.0011034125103459662,
    0.00032921368659007664,
    -2.0509232306316852e-05,
    -7.771839214208761e-06,
    2.5709671235995086e-06,
    -2.309948038455276e-07,
    -9.233849004476948e-08,
    3.850353091308327e-08,
    -3.0484945370139756e-09,
    -2.0989868055477145e-09,
    7.22378855573134e-10,
    -1.633284166738132e-12,
    -5.6978227070235186e-11,
    1.2672055388763962e-11,
    1.9252830550195438e-12,
    -1.4656346391924464e-12,
    1.4749000944700292e-13,
    9.402594111800167e-14,
    -3.2079214635841633e-14,
    -1.6237439182931045e-15,
    3.135171120458074e-15,
    -4.813506024413245e-16,
    -1.8349820749197724e-16,
    7.870555190996754e-17,
    1.3213785184839257e-18,
    -7.3491029569472e-18,
];
