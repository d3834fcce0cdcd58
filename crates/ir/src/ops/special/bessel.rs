//! Bessel functions and their kin.

use super::tables::*;
use super::{Ratio, chebyshev};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::ops::expr::Expr;
use crate::ops::pointwise::{functions, real_function, unary, unary_without_in_place};
use crate::ops::{Call, OpDef, Sample, err, ok, one};
use std::f64::consts::{FRAC_2_PI, FRAC_PI_4};

/// An op that calls its argument `x`, and has an `out=` overload.
macro_rules! of_x {
    ($name:ident, $value:ident, $samples:expr) => {
        OpDef::new(
            concat!("aten::", stringify!($name), "(Tensor x) -> Tensor"),
            |c, b| one($value(c, b, c.tensor(b, "x")?)?),
            $samples,
        )
        .variants(&[concat!(stringify!($name), ".out")])
    };
}

pub(super) static OPS: &[OpDef] = &[
    unary!(i0, SCALED),
    unary_without_in_place!(special_i0, i0, SCALED),
    unary_without_in_place!(special_i0e, i0e, SCALED),
    unary_without_in_place!(special_i1, i1, SCALED),
    unary_without_in_place!(special_i1e, i1e, SCALED),
    unary_without_in_place!(special_modified_bessel_i0, modified_bessel_i0, GROWING),
    unary_without_in_place!(special_modified_bessel_i1, modified_bessel_i1, GROWING),
    unary_without_in_place!(special_modified_bessel_k0, modified_bessel_k0, FALLING),
    unary_without_in_place!(special_modified_bessel_k1, modified_bessel_k1, FALLING),
    of_x!(special_scaled_modified_bessel_k0, scaled_modified_bessel_k0, FALLING),
    of_x!(special_scaled_modified_bessel_k1, scaled_modified_bessel_k1, FALLING),
    unary_without_in_place!(special_bessel_j0, bessel_j0, WAVES),
    unary_without_in_place!(special_bessel_j1, bessel_j1, WAVES),
    unary_without_in_place!(special_bessel_y0, bessel_y0, WAVES),
    unary_without_in_place!(special_bessel_y1, bessel_y1, WAVES),
    of_x!(special_spherical_bessel_j0, spherical_bessel_j0, WAVES),
    of_x!(special_airy_ai, airy_ai, WAVES),
];

const SCALED: &[Sample] = &[
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
const GROWING: &[Sample] = &[
    ok("f32[3,4]"),
    ok("f32[40]{-60..60}"),
    ok("f64[40]{-60..60}"),
    ok("f32[8]{nan,inf,-inf,-0.0,0,8,-8,20}"),
    ok("f64[]"),
    ok("i64[5]"),
    ok("bool[2]"),
    err("bf16[2]", "not implemented for 'BFloat16'"),
    err("c64[2]", "not implemented for 'ComplexFloat'"),
];
const FALLING: &[Sample] = &[
    ok("f32[40]{0..4}"),
    ok("f64[40]{0..4}"),
    ok("f64[40]{0..60}"),
    ok("f32[9]{nan,inf,-inf,-0.0,0,-1,2,2.0000002,100}"),
    ok("f64[4]{1e-300,1e-9,600,800}"),
    ok("f32[0]"),
    ok("i64[5]{-2..9}"),
    ok("bool[2]"),
    err("bf16[2]", "not implemented for 'BFloat16'"),
    err("c64[2]", "not implemented for 'ComplexFloat'"),
];
/// In `f64` where PyTorch's are good to `f64`: between 5 and 60, and Ai's from -2 down, they are to six digits only.
const WAVES: &[Sample] = &[
    ok("f32[40]{-9..9}"),
    ok("f32[40]{-60..60}"),
    ok("f64[40]{-2..5}"),
    ok("f64[40]{60..120}"),
    ok("f32[9]{nan,inf,-inf,-0.0,0,-1,5,5.0000005,-5}"),
    ok("f64[6]{1e-300,1e-9,-1.5,2,-1e-9,0.4999}"),
    ok("f32[0]"),
    ok("i64[5]{-2..9}"),
    ok("bool[2]"),
    err("f16[2]", "not implemented for 'Half'"),
    err("c64[2]", "not implemented for 'ComplexFloat'"),
];

functions! {
    i0 real |x| scaled_i0(x) * x.abs().exp();
    i0e real |x| scaled_i0(x);
    i1 real |x| growing_i1(x);
    i1e real |x| x.bessel_i1e();
    modified_bessel_i0 single |x| scaled_i0(x) * x.abs().exp();
    modified_bessel_i1 single |x| growing_i1(x);
    modified_bessel_k0 single |x| x.at_most(2.0).select(k0_near(x), k_far(x, &K0_FAR) * (-x).exp());
    modified_bessel_k1 single |x| x.at_most(2.0).select(k1_near(x), k_far(x, &K1_FAR) * (-x).exp());
    scaled_modified_bessel_k0 single |x| x.at_most(2.0).select(k0_near(x) * x.exp(), k_far(x, &K0_FAR));
    scaled_modified_bessel_k1 single |x| x.at_most(2.0).select(k1_near(x) * x.exp(), k_far(x, &K1_FAR));
    bessel_j0 single |x| x.abs().at_most(5.0).select(j0_near(x), Wave::of_order_0(x.abs()).falling_cosine());
    bessel_j1 single |x| {
        let far = Wave::of_order_1(x.abs()).falling_cosine();
        x.abs().at_most(5.0).select(j1_near(x), x.less(0.0).select(-far, far))
    };
    bessel_y0 single |x| x.at_most(5.0).select(y0_near(x), Wave::of_order_0(x).falling_sine());
    bessel_y1 single |x| x.at_most(5.0).select(y1_near(x), Wave::of_order_1(x).falling_sine());
    spherical_bessel_j0 single |x| {
        let at_zero = x.equals(0.0).select(x.constant(1.0), x.sin() / x);
        x.is_inf().select(x.constant(0.0), at_zero)
    };
    airy_ai single |x| airy(x);
}

/// `exp(-|x|) I0(x)`.
fn scaled_i0(x: Expr<'_>) -> Expr<'_> {
    let x = x.abs();
    let far = chebyshev(16.0 / x - 1.0, &I0E_FAR) / x.sqrt();
    x.at_most(8.0).select(chebyshev(x / 4.0 - 1.0, &I0E_NEAR), far)
}

fn growing_i1(x: Expr<'_>) -> Expr<'_> {
    x.bessel_i1e() * x.abs().exp()
}

/// K0 up to 2, NaN for negative numbers.
fn k0_near(x: Expr<'_>) -> Expr<'_> {
    let i0 = chebyshev(x / 4.0 - 1.0, &I0E_NEAR) * x.exp();
    chebyshev(x * x * 0.5 - 1.0, &K0_NEAR) - (x * 0.5).ln() * i0
}

/// K1 up to 2, NaN for negative numbers.
fn k1_near(x: Expr<'_>) -> Expr<'_> {
    let value = (x * 0.5).ln() * growing_i1(x) + chebyshev(x * x * 0.5 - 1.0, &K1_NEAR) / x;
    x.equals(0.0).select(x.constant(f64::INFINITY), value)
}

/// `exp(x) K(x)` from 2 on.
fn k_far<'e>(x: Expr<'e>, ratio: &Ratio) -> Expr<'e> {
    ratio.at(2.0 / x) / x.sqrt()
}

/// A series over `2 (x / 5)^2 - 1`.
fn within_5<'e>(x: Expr<'e>, terms: &[f64]) -> Expr<'e> {
    chebyshev(x * x * 0.08 - 1.0, terms)
}

fn j0_near(x: Expr<'_>) -> Expr<'_> {
    within_5(x, &J0_NEAR)
}

fn j1_near(x: Expr<'_>) -> Expr<'_> {
    within_5(x, &J1_NEAR) * x
}

/// Y0 up to 5, NaN for negative numbers.
fn y0_near(x: Expr<'_>) -> Expr<'_> {
    within_5(x, &Y0_NEAR) + x.ln() * j0_near(x) * FRAC_2_PI
}

/// Y1 up to 5, NaN for negative numbers.
fn y1_near(x: Expr<'_>) -> Expr<'_> {
    let value = within_5(x, &Y1_NEAR) * x + (x.ln() * j1_near(x) - 1.0 / x) * FRAC_2_PI;
    x.equals(0.0).select(x.constant(f64::NEG_INFINITY), value)
}

/// A Bessel function from 5 on: a wave whose height falls with the root of `x`.
struct Wave<'e> {
    height: Expr<'e>,
    phase: Expr<'e>,
    in_phase: Expr<'e>,
    behind: Expr<'e>,
}

impl<'e> Wave<'e> {
    fn of_order_0(x: Expr<'e>) -> Wave<'e> {
        Wave::new(x, FRAC_PI_4, &BESSEL_0_IN_PHASE, &BESSEL_0_BEHIND)
    }

    fn of_order_1(x: Expr<'e>) -> Wave<'e> {
        Wave::new(x, 3.0 * FRAC_PI_4, &BESSEL_1_IN_PHASE, &BESSEL_1_BEHIND)
    }

    fn new(x: Expr<'e>, shift: f64, in_phase: &Ratio, behind: &Ratio) -> Wave<'e> {
        let near = 5.0 / x;
        let (in_phase, behind) = (in_phase.at(near * near), behind.at(near * near) * near);
        Wave { height: FRAC_2_PI.sqrt() / x.sqrt(), phase: x - shift, in_phase, behind }
    }

    /// The function of the first kind.
    fn falling_cosine(self) -> Expr<'e> {
        (self.in_phase * self.phase.cos() - self.behind * self.phase.sin()) * self.height
    }

    /// That of the second kind.
    fn falling_sine(self) -> Expr<'e> {
        (self.in_phase * self.phase.sin() + self.behind * self.phase.cos()) * self.height
    }
}

/// `Ai(x)`: falls for positive numbers, swings for negative ones. NaN for infinities, as in PyTorch.
fn airy(x: Expr<'_>) -> Expr<'_> {
    let size = x.abs();
    let (phase, height) = (size * 2.0 * size.sqrt() / 3.0, 1.0 / size.sqrt().sqrt());
    let falling = AIRY_FAR.at(airy_phase(2.0) / phase) * (-phase).exp();
    let near_4 = airy_phase(4.0) / phase;
    let (sine, cosine) = (AIRY_SINE.at(near_4 * near_4), AIRY_COSINE.at(near_4 * near_4) / phase);
    let angle = phase + FRAC_PI_4;
    let swinging = sine * angle.sin() - cosine * angle.cos();
    let far = x.greater(0.0).select(falling, swinging) * height;
    let value = (x.at_least(-4.0) & x.at_most(2.0)).select(chebyshev((x + 1.0) / 3.0, &AIRY_NEAR), far);
    x.is_inf().select(x.constant(f64::NAN), value)
}

/// `2 / 3 x^(3/2)`.
fn airy_phase(x: f64) -> f64 {
    2.0 * x * x.sqrt() / 3.0
}
