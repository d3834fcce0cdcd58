//! Functions of complex numbers where XLA's formulas lose a part: at branch cuts, on the axes and at infinity. Of real
//! numbers they are what XLA says.

use super::expr::Expr;
use std::f64::consts::{FRAC_PI_2, LN_2};

/// `y`, if it is complex with the parts that `parts` makes of it. Functions with branch cuts are continuous on either side of
/// one, and the sign of a zero says which is meant: XLA does not look at it.
pub(super) fn on_its_side<'e>(y: Expr<'e>, parts: impl FnOnce(Expr<'e>) -> (Expr<'e>, Expr<'e>)) -> Expr<'e> {
    if !y.dtype().is_complex() {
        return y;
    }
    let (real, imag) = parts(y);
    real.complex(imag)
}

/// `f` of each part of complex numbers: a product with a real number is no complex product, which has `0 * inf` in it.
pub(super) fn by_parts<'e>(x: Expr<'e>, f: impl Fn(Expr<'e>) -> Expr<'e>) -> Expr<'e> {
    if x.dtype().is_complex() { f(x.real()).complex(f(x.imag())) } else { f(x) }
}

pub(super) fn power_of_two(x: Expr<'_>) -> Expr<'_> {
    if x.dtype().is_complex() { exponential(by_parts(x, |part| part * LN_2)) } else { x.constant(2.0).pow(x) }
}

pub(super) fn hyperbolic_arc_tangent(x: Expr<'_>) -> Expr<'_> {
    on_its_side(x.atanh(), |y| (y.real().copysign(x.real()), y.imag().copysign(x.imag())))
}

/// `atan x`; for complex numbers `-i atanh(i x)`.
pub(super) fn arc_tangent(x: Expr<'_>) -> Expr<'_> {
    if x.dtype().is_complex() {
        let y = hyperbolic_arc_tangent((-x.imag()).complex(x.real()));
        return y.imag().complex(-y.real());
    }
    let infinite = x.constant(FRAC_PI_2).copysign(x);
    x.is_inf().select(infinite, x.atan2(1.0))
}

/// `e^x`, which is 0 left of everything and infinite right of it, whatever the angle.
pub(super) fn exponential(x: Expr<'_>) -> Expr<'_> {
    let y = x.exp();
    if !x.dtype().is_complex() {
        return y;
    }
    let (real, imag) = (x.real(), x.imag());
    let zero = real.constant(0.0);
    let right = (real.equals(f64::INFINITY) & y.real().is_nan()).select(real, y.real());
    let left = real.equals(f64::NEG_INFINITY) & (imag.is_nan() | imag.is_inf());
    left.select(zero, right).complex(left.select(zero, y.imag()))
}

/// `y`, an odd function of `x` that is real on the real axis and imaginary on the other one, where `0 * inf` made NaN of
/// the part that is 0.
pub(super) fn odd_on_axes<'e>(x: Expr<'e>, y: Expr<'e>) -> Expr<'e> {
    on_its_side(y, |y| {
        let kept = |x: Expr<'e>, y: Expr<'e>| (x.equals(0.0) & y.is_nan()).select(x, y);
        (kept(x.real(), y.real()), kept(x.imag(), y.imag()))
    })
}

/// `y`, an even function of `x` that is real on both axes, where `0 * inf` made NaN of its imaginary part.
pub(super) fn even_on_axes<'e>(x: Expr<'e>, y: Expr<'e>) -> Expr<'e> {
    on_its_side(y, |y| {
        let on_axis = x.real().equals(0.0) | x.imag().equals(0.0);
        (y.real(), (on_axis & y.imag().is_nan()).select(y.imag().constant(0.0), y.imag()))
    })
}
