//! Functions of complex numbers, on libm's real ones.

use super::element::C;

fn polar(r: f64, angle: f64) -> C {
    C::new(r * libm::cos(angle), r * libm::sin(angle))
}

fn times_i(z: C) -> C {
    C::new(-z.im, z.re)
}

fn over_i(z: C) -> C {
    C::new(z.im, -z.re)
}

pub(super) fn abs(z: C) -> f64 {
    libm::hypot(z.re, z.im)
}

pub(super) fn exp(z: C) -> C {
    if z.im == 0.0 { C::new(libm::exp(z.re), z.im) } else { polar(libm::exp(z.re), z.im) }
}

pub(super) fn expm1(z: C) -> C {
    let half = libm::sin(z.im / 2.0);
    let re = libm::expm1(z.re) * libm::cos(z.im) - 2.0 * half * half;
    C::new(re, libm::exp(z.re) * libm::sin(z.im))
}

pub(super) fn log(z: C) -> C {
    C::new(libm::log(abs(z)), libm::atan2(z.im, z.re))
}

pub(super) fn log1p(z: C) -> C {
    let re = if abs(z) < 0.5 { 0.5 * libm::log1p(z.re * (2.0 + z.re) + z.im * z.im) } else { libm::log(abs(z + 1.0)) };
    C::new(re, libm::atan2(z.im, 1.0 + z.re))
}

pub(super) fn sqrt(z: C) -> C {
    if z.re == 0.0 && z.im == 0.0 {
        return C::new(0.0, z.im);
    }
    if z.im.is_infinite() {
        return C::new(f64::INFINITY, z.im);
    }
    let t = ((abs(z) + z.re.abs()) / 2.0).sqrt();
    if z.re >= 0.0 { C::new(t, z.im / (2.0 * t)) } else { C::new(z.im.abs() / (2.0 * t), t.copysign(z.im)) }
}

pub(super) fn sinh(z: C) -> C {
    C::new(libm::sinh(z.re) * libm::cos(z.im), libm::cosh(z.re) * libm::sin(z.im))
}

pub(super) fn cosh(z: C) -> C {
    C::new(libm::cosh(z.re) * libm::cos(z.im), libm::sinh(z.re) * libm::sin(z.im))
}

pub(super) fn tanh(z: C) -> C {
    let sin = libm::sin(2.0 * z.im);
    if z.re.abs() > 20.0 {
        return C::new(1f64.copysign(z.re), 2.0 * sin * libm::exp(-2.0 * z.re.abs()));
    }
    let cos = libm::cos(z.im);
    let sinh = libm::sinh(z.re);
    let scale = 2.0 * (sinh * sinh + cos * cos); // cosh(2 re) + cos(2 im)
    C::new(libm::sinh(2.0 * z.re) / scale, sin / scale)
}

pub(super) fn sin(z: C) -> C {
    over_i(sinh(times_i(z)))
}

pub(super) fn cos(z: C) -> C {
    cosh(times_i(z))
}

pub(super) fn tan(z: C) -> C {
    over_i(tanh(times_i(z)))
}

pub(super) fn asinh(z: C) -> C {
    if z.re < 0.0 {
        return -asinh(-z);
    }
    log(z + sqrt(z * z + 1.0))
}

pub(super) fn asin(z: C) -> C {
    over_i(asinh(times_i(z)))
}

pub(super) fn acos(z: C) -> C {
    C::new(std::f64::consts::FRAC_PI_2, 0.0) - asin(z)
}

pub(super) fn acosh(z: C) -> C {
    log(z + sqrt(z + 1.0) * sqrt(z - 1.0))
}

pub(super) fn atanh(z: C) -> C {
    (log1p(z) - log1p(-z)) / 2.0
}

/// The angle of `x + iy` for complex `y` and `x`.
pub(super) fn atan2(y: C, x: C) -> C {
    over_i(log((x + times_i(y)) / sqrt(x * x + y * y)))
}

pub(super) fn pow(z: C, w: C) -> C {
    if w == C::new(0.0, 0.0) {
        return C::new(1.0, 0.0);
    }
    if z == C::new(0.0, 0.0) {
        return if w.re > 0.0 { z } else { C::new(f64::NAN, f64::NAN) };
    }
    exp(w * log(z))
}

/// `z / |z|`, 0 for 0.
pub(super) fn sign(z: C) -> C {
    let r = abs(z);
    if r == 0.0 { z } else { z / r }
}
