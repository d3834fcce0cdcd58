//! How samples of gamma and Dirichlet distributions move with the distribution's parameters, at the same quantile.
//!
//! PyTorch's approximations, piece by piece, in `f64` as its kernels compute them.

use super::super::expr::{Expr, formula};
use super::super::support::{broadcast_shapes, broadcast_to};
use super::super::{OpDef, err, ok, one};
use super::rejection::{same_type, single_or_double};
use crate::DType;

pub(in super::super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::_standard_gamma_grad(Tensor self, Tensor output) -> Tensor",
        |c, b| {
            let (alpha, x) = (c.tensor(b, "self")?, c.tensor(b, "output")?);
            single_or_double(b, alpha, "_standard_gamma_grad_cpu")?;
            same_type(b, alpha, x)?;
            let shape = broadcast_shapes(&[b.shape(alpha), b.shape(x)])?;
            let operand = |v| b.convert(broadcast_to(b, v, &shape)?, DType::F64);
            let gradient = formula(b, [operand(alpha)?, operand(x)?], |[alpha, x]| gamma(alpha, x))?;
            one(b.convert(gradient, b.dtype(alpha))?)
        },
        &[
            ok("f32[40]{0.01,0.3,0.9,2,5,7.9}, f32[40]{0.001,0.05,0.3,0.79,0.81,2,6}"),
            ok("f64[3]{2,9,3}, f64[3]{0.5,9.2,2}"),
            ok("f32[40]{8.5,20,100}, f32[40]{0.9,6,8.4,9.9,21,22,90,108,130}"),
            ok("f32[2,1]{1,3}, f32[3]{0.5,2,7}"),
            err("bf16[3]{1}, bf16[3]{1}", "\"_standard_gamma_grad_cpu\" not implemented for 'BFloat16'"),
        ],
    )
    .variants(&["_standard_gamma_grad.out"]),
    OpDef::new(
        "aten::_dirichlet_grad(Tensor x, Tensor alpha, Tensor total) -> Tensor",
        |c, b| {
            let given = [c.tensor(b, "x")?, c.tensor(b, "alpha")?, c.tensor(b, "total")?];
            let [x, alpha, total] = given;
            single_or_double(b, x, "_dirichlet_grad_cpu")?;
            same_type(b, x, alpha)?;
            same_type(b, x, total)?;
            let shape = broadcast_shapes(&given.map(|v| b.shape(v)))?;
            let operand = |v| b.convert(broadcast_to(b, v, &shape)?, DType::F64);
            let operands = [operand(x)?, operand(alpha)?, operand(total)?];
            let gradient = formula(b, operands, |[x, alpha, total]| dirichlet(x, alpha, total))?;
            one(b.convert(gradient, b.dtype(x))?)
        },
        &[
            // Near either end, near the mean, far from it, and between all of these.
            ok("f32[7]{0.01,0.3,0.99,0.5,0.4,0.7,0.2}, f32[7]{0.5,2,3,50,7,0.1,4}, f32[7]{1.5,5,3.5,100,30,0.4,60}"),
            err("bf16[3], bf16[3], bf16[3]", "\"_dirichlet_grad_cpu\" not implemented for 'BFloat16'"),
        ],
    )
    .variants(&["_dirichlet_grad.out"]),
];

/// Zero where it is NaN.
fn defined(v: Expr<'_>) -> Expr<'_> {
    v.is_nan().select(v.constant(0.0), v)
}

/// The derivative of a gamma variable `x` by its shape: a Taylor series for small `x`, Rice's saddle point expansion for
/// large shapes, and else a rational approximation.
fn gamma<'e>(alpha: Expr<'e>, x: Expr<'e>) -> Expr<'e> {
    let rest = alpha.greater(8.0).select(gamma_far(alpha, x), gamma_between(alpha, x));
    x.less(0.8).select(gamma_small(alpha, x), rest)
}

fn gamma_small<'e>(alpha: Expr<'e>, x: Expr<'e>) -> Expr<'e> {
    let mut term = x.constant(1.0);
    let (mut first, mut second) = (term / alpha, term / (alpha * alpha));
    for i in 1..=5 {
        term = term * (-x / f64::from(i));
        let denominator = alpha + f64::from(i);
        first = first + term / denominator;
        second = second + term / (denominator * denominator);
    }
    let power = x.pow(alpha);
    let density = x.pow(alpha - 1.0) * (-x).exp();
    let by_alpha = (x.ln() - alpha.digamma()) * (power * first) - power * second;
    defined(-by_alpha / density)
}

fn gamma_far<'e>(alpha: Expr<'e>, x: Expr<'e>) -> Expr<'e> {
    let square = alpha * alpha;
    let near = {
        let first = alpha * 24.0 * (alpha * 12.0 + 1.0) + 1.0;
        let second =
            square * 1440.0 + x * 6.0 * (53.0 - x * 120.0) - x * x * 65.0 / alpha + alpha * (x * 3600.0 + 107.0);
        first * second / (square * square * 1244160.0)
    };
    let root = (alpha * 8.0).sqrt();
    let ratio = (x / alpha).ln();
    let (straight, bent) = (root / (alpha - x), (x - alpha - alpha * ratio).pow(x.constant(-1.5)));
    let both = x.less(alpha).select(straight - bent, straight + bent);
    let gap = alpha - x;
    let term = ratio * both - (2.0 / alpha).sqrt() * (alpha + x) / (gap * gap);
    let stirling = 1.0 + 1.0 / (alpha * 12.0) * (1.0 + 1.0 / (alpha * 24.0));
    let far = -stirling * (x * term) / root;
    (x.at_least(alpha * 0.9) & x.at_most(alpha * 1.1)).select(near, far)
}

/// Coefficients of [`gamma_between`], by powers of `ln(x / alpha)` and, four above and four below, of `ln(alpha)`.
const GAMMA_GRADIENT: [[f64; 8]; 3] = [
    [0.16009398, -0.094634809, 0.025146376, -0.0030648343, 1.0, 0.32668115, 0.10406089, 0.0014179084],
    [0.53487893, 0.1298071, 0.065735949, -0.0015649758, 0.16639465, 0.020070113, -0.0035938915, -0.00058392623],
    [
        0.040121004,
        -0.0065914022,
        -0.0026286047,
        -0.0013441777,
        0.017050642,
        -0.0021309326,
        0.00085092367,
        -1.5247877e-07,
    ],
];

fn gamma_between<'e>(alpha: Expr<'e>, x: Expr<'e>) -> Expr<'e> {
    let (u, v) = ((x / alpha).ln(), alpha.ln());
    let in_u = |i: usize| (u * GAMMA_GRADIENT[2][i] + GAMMA_GRADIENT[1][i]) * u + GAMMA_GRADIENT[0][i];
    let in_v = |from: usize| ((in_u(from + 3) * v + in_u(from + 2)) * v + in_u(from + 1)) * v + in_u(from);
    (in_v(0) / in_v(4)).exp()
}

/// The derivative of an element `x` of a Dirichlet variable by its parameter, as a beta variable of `alpha` and the rest.
fn dirichlet<'e>(x: Expr<'e>, alpha: Expr<'e>, total: Expr<'e>) -> Expr<'e> {
    let beta = total - alpha;
    let room = total * x * (1.0 - x);
    let large = alpha.greater(6.0) & beta.greater(6.0);
    let inner = large.select(beta_far(x, alpha, beta), beta_between(x, alpha, total));
    let right = (x.at_least(0.5) & room.less(0.75)).select(-beta_by_other(1.0 - x, beta, alpha), inner);
    (x.at_most(0.5) & room.less(2.5)).select(beta_small(x, alpha, beta), right)
}

/// By `alpha`, a Taylor series at `x = 0`.
fn beta_small<'e>(x: Expr<'e>, alpha: Expr<'e>, beta: Expr<'e>) -> Expr<'e> {
    let factor = alpha.digamma() - (alpha + beta).digamma() - x.ln();
    let mut term = x.constant(1.0);
    let mut series = term / alpha * (factor + 1.0 / alpha);
    for i in 1..=10 {
        let i = f64::from(i);
        term = term * (i - beta) * x / i;
        series = series + term / (alpha + i) * (factor + 1.0 / (alpha + i));
    }
    defined(x * (1.0 - x).pow(-beta) * series)
}

/// By `beta`, a Taylor series at `x = 0`.
fn beta_by_other<'e>(x: Expr<'e>, alpha: Expr<'e>, beta: Expr<'e>) -> Expr<'e> {
    let factor = (alpha + beta).digamma() - beta.digamma();
    let (mut term, mut product, mut slope) = (x.constant(1.0), x.constant(1.0), x.constant(0.0));
    let mut series = factor / alpha;
    for i in 1..=8 {
        let i = f64::from(i);
        term = -term * x / i;
        slope = slope * (beta - i) + product;
        product = product * (beta - i);
        series = series + term / (alpha + i) * (slope + factor * product);
    }
    defined(-(1.0 - x).pow(1.0 - beta) * series)
}

/// By `alpha`, where both parameters are large: a saddle point expansion, and what it tends to at the mean.
fn beta_far<'e>(x: Expr<'e>, alpha: Expr<'e>, beta: Expr<'e>) -> Expr<'e> {
    let (total, y) = (alpha + beta, 1.0 - x);
    let mean = alpha / total;
    let reach = (alpha * beta / (total + 1.0)).sqrt() / total * 0.1;
    let near = {
        let square = beta * beta;
        let third = (beta * y * 1620.0 - x * 455.0 + 453.0) * beta + alpha * (y * 8.0 * (beta * 135.0 - 11.0));
        let second = (beta * 180.0 - x * 90.0 + 59.0) * 3.0 * square + alpha * third;
        let first = ((beta * 27.0 + 16.0) * 20.0 * x + 43.0) * square * beta + alpha * second;
        let polynomial = x * 47.0 * square * square + alpha * first;
        let above = (alpha * 12.0 + 1.0) * (beta * 12.0 + 1.0) / (total * total);
        let below = alpha * alpha * alpha * square * (total * 12.0 + 1.0) * 12960.0;
        above / y * polynomial / below
    };
    let stirling = |v: Expr<'e>| 1.0 + 1.0 / (v * 12.0) + 1.0 / (v * v * 288.0);
    let gap = beta * x - alpha * y;
    let first = (-(alpha * alpha * y * 2.0) - alpha * beta * y - x * beta * beta)
        / ((alpha * 2.0 / beta).sqrt() * total.pow(total.constant(1.5)) * gap * gap);
    let (over, under) = ((beta / (total * y)).ln(), (alpha / (total * x)).ln());
    let straight = (alpha * beta * 8.0 / total).sqrt() / gap;
    let bent = (beta * over + alpha * under).pow(x.constant(-1.5));
    let both = straight + x.less(mean).select(bent, -bent);
    let scale = -x / (alpha * beta * 2.0 / total).sqrt() * (stirling(alpha) * stirling(beta) / stirling(total));
    let far = scale * (first + under * 0.5 * both);
    (x.at_least(mean - reach) & x.at_most(mean + reach)).select(near, far)
}

/// Coefficients of [`beta_between`], above and below: by powers of `u`, then of `a`, then of `b`.
const BETA: [[[[f64; 4]; 3]; 3]; 2] = [
    [
        [
            [1.003668233, -0.01061107488, -0.0657888334, 0.01201642863],
            [0.6336835991, -0.3557432599, 0.05486251648, -0.001465281033],
            [-0.03276231906, 0.004474107445, 0.002429354597, -0.0001557569013],
        ],
        [
            [0.221950385, -0.3187676331, 0.01799915743, 0.01074823814],
            [-0.2951249643, 0.06219954479, 0.01535556598, 0.001550077057],
            [0.02155310298, 0.004170831599, 0.001292462449, 6.976601077e-05],
        ],
        [
            [-0.05980841433, 0.008441916499, 0.01085618172, 0.002319392565],
            [0.02911413504, 0.01400243777, -0.002721828457, 0.000751041181],
            [0.005900514878, -0.001936558688, -9.495446725e-06, 5.385558597e-05],
        ],
    ],
    [
        [
            [1.0, -0.02924021934, -0.04438342661, 0.007285809825],
            [0.6357567472, -0.3473456711, 0.05454656494, -0.002407477521],
            [-0.03301322327, 0.004845219414, 0.00231480583, -0.0002307248149],
        ],
        [
            [0.5925320577, -0.1757678135, 0.01505928619, 0.000564515273],
            [0.1014815858, -0.06589186703, 0.01272886114, -0.0007316646956],
            [-0.007258481865, 0.001096195486, 0.0003934994223, -4.12701925e-05],
        ],
        [
            [0.06469649321, -0.0236701437, 0.002902096474, -5.896963079e-05],
            [0.001925008108, -0.002869809258, 0.0008000589141, -6.063713228e-05],
            [-0.0003477407336, 6.959756487e-05, 1.097287507e-05, -1.650964693e-06],
        ],
    ],
];

/// By `alpha`: a rational correction of the derivative of the mean's logarithm.
fn beta_between<'e>(x: Expr<'e>, alpha: Expr<'e>, total: Expr<'e>) -> Expr<'e> {
    let u = x.ln();
    let a = alpha.ln() - u;
    let b = total.ln() - a;
    let horner = |terms: [Expr<'e>; 3], v: Expr<'e>| (terms[2] * v + terms[1]) * v + terms[0];
    let in_b = |c: [f64; 4]| ((b * c[3] + c[2]) * b + c[1]) * b + c[0];
    let side = |part: [[[f64; 4]; 3]; 3]| horner(part.map(|by_a| horner(by_a.map(in_b), a)), u);
    let estimate = x * (total.digamma() - alpha.digamma()) / (total - alpha);
    side(BETA[0]) / side(BETA[1]) * estimate
}
