//! Orthogonal polynomials, whose degrees are tensors too.
//!
//! Each family is a recurrence over the degree, `P[k + 1]` from `P[k]` and `P[k - 1]`: a loop up to the greatest degree
//! there is, in which every element stops at its own. Where PyTorch has a shortcut, so have we.

use super::expr::{Expr, formula};
use super::loops::{anywhere, repeat_while};
use super::support::{align, not_implemented, result_type, to_float};
use super::{Call, OpDef, Outs, err, ok, one};
use crate::DType;
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::literal::Number;

macro_rules! polynomials {
    ($($name:literal: $family:expr, [$($more:expr),*];)*) => {
        pub(super) static OPS: &[OpDef] = &[$(
            OpDef::new(
                concat!("aten::special_", $name, "(Tensor x, Tensor n) -> Tensor"),
                |c, b| polynomial(c, b, $name, $family),
                &[
                    ok("f32[3,4]{-2..2}, f32[4]{-1..6}"),
                    ok("f32[60]{-1..1}, f32[60]{-2..10}"),
                    ok("f64[60]{-2..2}, f64[60]{-2..14}"),
                    ok("f64[9]{-1.5,-1,-0.5,0,0.5,1,1.5}, f64[5,1]{0,1,7,9,40}"),
                    ok("i64[9]{-2..3}, i64[9]{-1..9}"),
                    ok("bool[2], i32[2]{0..9}"),
                    ok("f32[2,0], f32[]{7}"),
                    ok("f32[4]{0.5}, f32[4]{nan,inf,-inf,-0.5}"),
                    $($more,)*
                    err("bf16[2], bf16[2]", "not implemented for 'BFloat16'"),
                    err("c64[2], f32[2]", "not implemented for 'ComplexFloat'"),
                ],
            )
            .variants(&[concat!("special_", $name, ".out")]),
            OpDef::new(
                concat!("aten::special_", $name, ".x_scalar(Scalar x, Tensor n) -> Tensor"),
                |c, b| polynomial(c, b, $name, $family),
                &[ok("0.5, f32[9]{-1..9}"), ok("2, i64[9]{-1..6}")],
            )
            .variants(&[concat!("special_", $name, ".x_scalar_out")]),
            OpDef::new(
                concat!("aten::special_", $name, ".n_scalar(Tensor x, Scalar n) -> Tensor"),
                |c, b| polynomial(c, b, $name, $family),
                &[ok("f32[9], 5"), ok("f64[]{0.3}, 8.5"), ok("i64[3], 2"), ok("f32[2], -1")],
            )
            .variants(&[concat!("special_", $name, ".n_scalar_out")]),
        )*];
    };
}

polynomials! {
    "chebyshev_polynomial_t": Family::Chebyshev(Kind::T, 6.0), [];
    "chebyshev_polynomial_u": Family::Chebyshev(Kind::U, 8.0), [];
    "chebyshev_polynomial_v": Family::Chebyshev(Kind::V, 8.0), [ok(NEAR_ENDS)];
    "chebyshev_polynomial_w": Family::Chebyshev(Kind::W, 8.0), [ok(NEAR_ENDS)];
    "shifted_chebyshev_polynomial_t": Family::Shifted(Kind::T, 6.0), [];
    "shifted_chebyshev_polynomial_u": Family::Shifted(Kind::U, 6.0), [];
    "shifted_chebyshev_polynomial_v": Family::Shifted(Kind::V, 6.0), [];
    "shifted_chebyshev_polynomial_w": Family::Shifted(Kind::W, 4.0), [];
    "hermite_polynomial_h": Family::Hermite, [ok("f32[3], f32[]{129}"), ok("f64[3]{0.5}, f64[]{300}"), ok("f64[3], f64[]{513}")];
    "hermite_polynomial_he": Family::HermiteOfProbability, [ok("f32[3], f32[]{129}"), ok("f64[3]{0.5}, f64[]{200}")];
    "laguerre_polynomial_l": Family::Laguerre, [ok("f64[4]{0,1,100,400}, f64[]{60}")];
    "legendre_polynomial_p": Family::Legendre, [ok("f64[4]{0,1,-1,0.9}, f64[]{300}")];
}

/// Where an angle's half rounds to 0 or a quarter turn.
const NEAR_ENDS: &str = "f32[4]{-0.99999994,0.99999994,-0.9999999,0.9999999}, f32[4]{9,9,12,12}";

#[derive(Clone, Copy)]
enum Family {
    /// By the angle whose cosine is `x` for degrees above this number, where there is one.
    Chebyshev(Kind, f64),
    /// The same of `2 x - 1`.
    Shifted(Kind, f64),
    Hermite,
    HermiteOfProbability,
    Laguerre,
    Legendre,
}

#[derive(Clone, Copy)]
enum Kind {
    T,
    U,
    V,
    W,
}

/// An element's value where the recurrence is not needed.
struct Shortcut<'e> {
    holds: Expr<'e>,
    value: Expr<'e>,
}

impl Family {
    /// What the recurrence is over.
    fn argument<'e>(self, x: Expr<'e>) -> Expr<'e> {
        if let Family::Shifted(..) = self { x + x - 1.0 } else { x }
    }

    /// The polynomial of degree 1; that of degree 0 is 1.
    fn first<'e>(self, x: Expr<'e>) -> Expr<'e> {
        match self {
            Family::Chebyshev(kind, _) | Family::Shifted(kind, _) => match kind {
                Kind::T => x,
                Kind::U => x + x,
                Kind::V => x + x - 1.0,
                Kind::W => x + x + 1.0,
            },
            Family::Hermite => x + x,
            Family::HermiteOfProbability | Family::Legendre => x,
            Family::Laguerre => 1.0 - x,
        }
    }

    /// The polynomial of degree `k + 1`, after those of degrees `k` and `k - 1`.
    fn next<'e>(self, x: Expr<'e>, k: Expr<'e>, last: Expr<'e>, before: Expr<'e>) -> Expr<'e> {
        match self {
            Family::Chebyshev(..) | Family::Shifted(..) => (x + x) * last - before,
            Family::Hermite => (x + x) * last - (k + k) * before,
            Family::HermiteOfProbability => x * last - k * before,
            Family::Laguerre => ((k + k + (1.0 - x)) * last - k * before) / (k + 1.0),
            Family::Legendre => ((k + k + 1.0) * x * last - k * before) / (k + 1.0),
        }
    }

    fn shortcut<'e>(self, x: Expr<'e>, n: Expr<'e>) -> Shortcut<'e> {
        match self {
            Family::Chebyshev(kind, above) | Family::Shifted(kind, above) => by_angle(kind, above, x, n),
            Family::Hermite | Family::HermiteOfProbability => {
                let most = if n.dtype() == DType::F64 { 512.0 } else { 128.0 };
                Shortcut { holds: n.greater(most), value: n.constant(f64::NAN) }
            }
            Family::Laguerre => Shortcut { holds: x.equals(0.0), value: n.constant(1.0) },
            Family::Legendre => {
                let value = x.less(0.0).select(alternating(n), 1.0);
                Shortcut { holds: x.abs().equals(1.0), value }
            }
        }
    }
}

/// `(-1)^n`.
fn alternating(n: Expr<'_>) -> Expr<'_> {
    1.0 - (n - (n / 2.0).floor() * 2.0) * 2.0
}

/// Chebyshev polynomials of the cosine of an angle: quotients of the angle's multiples, and their limits where `x` is 1
/// or -1, or too close for the quotient.
fn by_angle<'e>(kind: Kind, above: f64, x: Expr<'e>, n: Expr<'e>) -> Shortcut<'e> {
    let angle = x.acos();
    let (half, one, sign) = (angle / 2.0, n.constant(1.0), alternating(n));
    let (odd, halves) = (n + n + 1.0, (n + 0.5) * angle);
    let (right, left, quotient, too_close) = match kind {
        Kind::T => (one, sign, (n * angle).cos(), None),
        Kind::U => (n + 1.0, sign * (n + 1.0), ((n + 1.0) * angle).sin() / angle.sin(), None),
        Kind::V => (one, sign * odd, halves.cos() / half.cos(), Some(half.sin().equals(1.0))),
        Kind::W => (odd, sign, halves.sin() / half.sin(), Some(half.cos().equals(1.0))),
    };
    let at_end = x.abs().equals(1.0);
    let inside = x.abs().less(1.0) & n.greater(above);
    let end = x.less(0.0).select(left, right);
    let limit = too_close.map_or(at_end, |too_close| at_end | too_close);
    Shortcut { holds: at_end | inside, value: limit.select(end, quotient) }
}

fn polynomial(c: &Call<'_>, b: &Builder, name: &str, family: Family) -> Result<Outs> {
    let operands = [c.operand(b, "x")?, c.operand(b, "n")?];
    let dtype = to_float(c, result_type(c, b, &operands)?);
    if !matches!(dtype, DType::F32 | DType::F64) {
        return not_implemented(name, dtype);
    }
    let aligned = align(c, b, &operands, dtype)?;
    let x = formula(b, [aligned[0]], |[x]| family.argument(x))?;
    let n = formula(b, [aligned[1]], |[n]| degree(n))?;
    let steps = formula(b, [x, n], |[x, n]| {
        let steps = family.shortcut(x, n).holds.select(n.constant(0.0), n);
        steps.min(MOST_STEPS).convert(DType::I32)
    })?;
    let last = by_recurrence(b, family, x, steps)?;
    one(formula(b, [x, n, last], |[x, n, last]| {
        let shortcut = family.shortcut(x, n);
        let value = shortcut.holds.select(shortcut.value, n.equals(0.0).select(n.constant(1.0), last));
        n.less(0.0).select(n.constant(0.0), value)
    })?)
}

/// The greatest `f32` that is an `i32`.
const MOST_STEPS: f64 = 2_147_483_520.0;

/// The degree as PyTorch takes it: rounded towards zero, and -1 for what is no `int64`.
fn degree(n: Expr<'_>) -> Expr<'_> {
    let whole = n.trunc();
    (whole.at_least(0.0) & whole.less(2f64.powi(63))).select(whole, -1.0)
}

/// The polynomials of degrees `steps` (`i32`), where they are 1 or more.
fn by_recurrence(b: &Builder, family: Family, x: ValueId, steps: ValueId) -> Result<ValueId> {
    let shape = b.shape(x);
    let going = |b: &Builder, k: ValueId, steps: ValueId| {
        formula(b, [b.broadcast_in_dim(k, &shape, &[])?, steps], |[k, steps]| k.less(steps))
    };
    // A NaN stays one.
    let more = |b: &Builder, given: &[ValueId]| {
        let going = going(b, given[0], given[1])?;
        anywhere(b, formula(b, [going, given[3]], |[going, last]| going & last.equals(last))?)
    };
    let step = |b: &Builder, given: &[ValueId]| {
        let [k, steps, x, last, before] = [given[0], given[1], given[2], given[3], given[4]];
        let going = going(b, k, steps)?;
        let degree = b.broadcast_in_dim(b.convert(k, b.dtype(x))?, &shape, &[])?;
        let next = formula(b, [x, degree, last, before], |[x, k, last, before]| family.next(x, k, last, before))?;
        let k = b.add(k, b.scalar(Number::Int(1), DType::I32)?)?;
        Ok(vec![k, steps, x, b.select(going, next, last)?, b.select(going, last, before)?])
    };
    let first = formula(b, [x], |[x]| family.first(x))?;
    let (one, ones) = (b.scalar(Number::Int(1), DType::I32)?, b.full_like(x, Number::Int(1))?);
    Ok(repeat_while(b, &[one, steps, x, first, ones], more, step)?[3])
}
