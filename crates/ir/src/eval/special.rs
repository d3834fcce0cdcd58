//! Special functions of one and two real numbers, in `f64`. Transcendental functions come from `libm`, not from the
//! system, so that folding a constant gives the same bits on every machine.

use std::f64::consts::{FRAC_2_SQRT_PI, PI};

/// The inverse of `erf`; infinite at -1 and 1, NaN beyond.
pub(super) fn erf_inv(x: f64) -> f64 {
    let a = x.abs();
    if a == 0.0 || a.is_nan() {
        return x;
    }
    if a >= 1.0 {
        return if a == 1.0 { f64::INFINITY.copysign(x) } else { f64::NAN };
    }
    // Winitzki's approximation, then Newton's method on the complement, which keeps its digits near 1.
    let log = libm::log1p(-a * a);
    let half = 2.0 / (PI * 0.147) + log / 2.0;
    let mut y = ((half * half - log / 0.147).sqrt() - half).sqrt();
    for _ in 0..4 {
        let error = if a < 0.5 { a - libm::erf(y) } else { libm::erfc(y) - (1.0 - a) };
        let step = error / (FRAC_2_SQRT_PI * libm::exp(-y * y));
        y += step / (1.0 - y * step);
    }
    y.copysign(x)
}

/// The derivative of `lgamma`; NaN at 0 and the negative integers.
pub(super) fn digamma(x: f64) -> f64 {
    if x.is_nan() || x == f64::INFINITY {
        return x;
    }
    if x <= 0.0 && x == x.floor() {
        return f64::NAN;
    }
    if x < 0.0 {
        return digamma(1.0 - x) - PI / libm::tan(PI * (x - x.round()));
    }
    let (mut x, mut sum) = (x, 0.0);
    while x < 10.0 {
        sum -= 1.0 / x;
        x += 1.0;
    }
    // B(2k) / 2k
    const SERIES: [f64; 8] = [
        1.0 / 12.0,
        -1.0 / 120.0,
        1.0 / 252.0,
        -1.0 / 240.0,
        1.0 / 132.0,
        -691.0 / 32760.0,
        1.0 / 12.0,
        -3617.0 / 8160.0,
    ];
    let square = 1.0 / (x * x);
    let tail = SERIES.iter().rev().fold(0.0, |t, c| (t + c) * square);
    sum + libm::log(x) - 0.5 / x - tail
}

/// Hurwitz's zeta function, the sum of `(q + k)^-s` over k = 0, 1, ...; infinite at its poles, NaN where the sum is not
/// real or `s < 1`.
pub(super) fn zeta(s: f64, q: f64) -> f64 {
    if s.is_nan() || q.is_nan() || s < 1.0 {
        return f64::NAN;
    }
    if s == 1.0 || (q <= 0.0 && q == q.floor()) {
        return f64::INFINITY;
    }
    if q > 0.0 {
        return zeta_positive(s, q);
    }
    if s != s.floor() {
        return f64::NAN;
    }
    // The terms with a negative base, seen from the other side of 0.
    let m = (-q).ceil();
    let r = q + m;
    let sign = if s % 2.0 == 0.0 { 1.0 } else { -1.0 };
    zeta_positive(s, r) + sign * (zeta_positive(s, 1.0 - r) - zeta_positive(s, m + 1.0 - r))
}

/// Euler and Maclaurin's formula from the first term whose base exceeds `s` by enough.
fn zeta_positive(s: f64, q: f64) -> f64 {
    // B(2j) / (2j)!
    const SERIES: [f64; 10] = [
        1.0 / 12.0,
        -1.0 / 720.0,
        1.0 / 30240.0,
        -1.0 / 1209600.0,
        1.0 / 47900160.0,
        -691.0 / 1307674368000.0,
        1.0 / 74724249600.0,
        -3617.0 / 10670622842880000.0,
        43867.0 / 5109094217170944000.0,
        -174611.0 / 802857662698291200000.0,
    ];
    let (mut sum, mut base) = (0.0, q);
    // If 200 terms do not reach that base, `s` is so large that they are the whole sum.
    for _ in 0..(10.0 + s - q).clamp(0.0, 200.0) as usize + 1 {
        let term = libm::pow(base, -s);
        if term <= f64::EPSILON * 1e-3 * sum {
            return sum;
        }
        sum += term;
        base += 1.0;
    }
    let power = libm::pow(base, -s);
    sum += power * base / (s - 1.0) + 0.5 * power;
    let mut factor = s * power / base;
    for (j, c) in SERIES.iter().enumerate() {
        let term = c * factor;
        sum += term;
        if term.abs() <= f64::EPSILON * sum {
            break;
        }
        let k = 2.0 * j as f64;
        factor *= (s + k + 1.0) * (s + k + 2.0) / (base * base);
    }
    sum
}

/// The modified Bessel function of the first kind and order 1, times `exp(-|x|)`.
pub(super) fn bessel_i1e(x: f64) -> f64 {
    let a = x.abs();
    if a.is_infinite() || a.is_nan() {
        return if a.is_nan() { x } else { 0f64.copysign(x) };
    }
    let value = if a < 20.0 { i1_series(a) * libm::exp(-a) } else { i1e_asymptotic(a) };
    value.copysign(x)
}

/// All terms are positive, so nothing cancels.
fn i1_series(x: f64) -> f64 {
    let (mut term, mut sum, mut k) = (x / 2.0, 0.0, 0.0);
    while term > f64::EPSILON * 0.1 * sum {
        sum += term;
        k += 1.0;
        term *= x * x / (4.0 * k * (k + 1.0));
    }
    sum
}

fn i1e_asymptotic(x: f64) -> f64 {
    let (mut term, mut sum, mut k) = (1.0f64, 0.0, 0.0);
    while term.abs() > f64::EPSILON * 0.1 && k < 40.0 {
        sum += term;
        k += 1.0;
        let odd = 2.0 * k - 1.0;
        term *= -(4.0 - odd * odd) / (8.0 * k * x);
    }
    sum / (2.0 * PI * x).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(got: f64, want: f64) {
        let error = ((got - want) / want).abs();
        assert!(error < 1e-12 || got == want, "{got} is not {want}");
    }

    #[test]
    fn known_values() {
        // Closed forms and tables.
        close(erf_inv(0.5), 0.476_936_276_204_469_9);
        close(erf_inv(-1e-12), -8.862_269_254_527_58e-13);
        close(erf_inv(1.0 - 2f64.powi(-50)), 5.686_128_441_310_391);
        close(digamma(1.0), -0.577_215_664_901_532_9);
        close(digamma(-0.5), 0.036_489_973_978_576_52);
        close(zeta(2.0, 0.5), PI * PI / 2.0);
        close(zeta(4.0, 1.0), PI.powi(4) / 90.0);
        // (-1.5)^-3 + (-0.5)^-3 + zeta(3, 0.5)
        close(zeta(3.0, -1.5), -8.0 / 27.0 - 8.0 + 7.0 * 1.202_056_903_159_594_3);
        close(zeta(500.0, 1.0), 1.0);
        close(bessel_i1e(1.0), 0.207_910_415_349_708_5);
        close(bessel_i1e(-30.0), -0.071_916_330_598_647_55);
        assert!(digamma(0.0).is_nan() && digamma(-2.0).is_nan());
        assert_eq!((zeta(1.0, 2.0), zeta(2.0, -3.0)), (f64::INFINITY, f64::INFINITY));
    }

    #[test]
    fn erf_inv_inverts_erf() {
        for i in -99..=99 {
            let x = f64::from(i) / 100.0;
            assert!((libm::erf(erf_inv(x)) - x).abs() < 1e-15, "{x}");
        }
        assert_eq!(erf_inv(1.0), f64::INFINITY);
        assert!(erf_inv(1.1).is_nan());
    }

    #[test]
    fn the_two_ranges_of_bessel_i1e_meet() {
        close(i1_series(20.0) * libm::exp(-20.0), i1e_asymptotic(20.0));
    }
}
