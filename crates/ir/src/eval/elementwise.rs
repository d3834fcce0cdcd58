//! Elementwise ops.

use super::complex;
use super::element::{C, Domain, int_range, moved, numbers, of_width, stored, words, wrap};
use super::special;
use crate::dtype::{Category, DType};
use crate::error::{Error, Result};
use crate::float8::saturated;
use crate::literal::Literal;
use crate::op::{Binary, Comparison, Unary};
use ndarray::{ArrayD, Zip};
use std::cmp::Ordering;

fn undefined<T>(op: impl std::fmt::Debug, dtype: DType) -> Result<T> {
    Err(Error::internal(format!("{op:?} is not defined on {dtype}")))
}

/// `f` on every element, which may fail for all or none.
fn map<T: Domain, U: Domain>(a: &Literal, out: DType, f: impl Fn(T) -> Option<U>) -> Result<Literal> {
    let a = numbers::<T>(a)?;
    let mapped: Option<Vec<U>> = a.iter().map(|&x| f(x)).collect();
    let Some(mapped) = mapped else { return Err(Error::internal("an elementwise op met a type it is not for")) };
    Ok(stored(super::element::shaped(a.shape(), mapped)?.view(), out))
}

fn map2<T: Domain, U: Domain>(a: &Literal, b: &Literal, out: DType, f: impl Fn(T, T) -> Option<U>) -> Result<Literal> {
    let (a, b) = (numbers::<T>(a)?, numbers::<T>(b)?);
    let mapped: Option<Vec<U>> = a.iter().zip(&b).map(|(&x, &y)| f(x, y)).collect();
    let Some(mapped) = mapped else { return Err(Error::internal("an elementwise op met a type it is not for")) };
    Ok(stored(super::element::shaped(a.shape(), mapped)?.view(), out))
}

/// One operand; `out` is the element type of the result.
pub(super) fn unary(u: Unary, a: &Literal, out: DType) -> Result<Literal> {
    let dtype = a.ty.dtype;
    match (dtype.category(), u) {
        (Category::Bool | Category::Int, _) => map(a, out, |x: i128| int_unary(u, x, dtype)),
        (Category::Float, Unary::IsFinite) => map(a, out, |x: f64| Some(i128::from(x.is_finite()))),
        (Category::Float, _) => map(a, out, |x: f64| float_unary(u, x)),
        (Category::Complex, Unary::Abs) => map(a, out, |z: C| Some(complex::abs(z))),
        (Category::Complex, Unary::Real) => map(a, out, |z: C| Some(z.re)),
        (Category::Complex, Unary::Imag) => map(a, out, |z: C| Some(z.im)),
        (Category::Complex, _) => map(a, out, |z: C| complex_unary(u, z)),
    }
}

fn int_unary(u: Unary, x: i128, dtype: DType) -> Option<i128> {
    let bits = 8 * dtype.size() as u32;
    let pattern = x as u128 & (u128::MAX >> (128 - bits));
    Some(match u {
        Unary::Abs => x.abs(),
        Unary::Negate => -x,
        Unary::Sign => x.signum(),
        Unary::Not if dtype == DType::Bool => i128::from(x == 0),
        Unary::Not => !x,
        Unary::Popcnt => pattern.count_ones().into(),
        Unary::CountLeadingZeros => (pattern.leading_zeros() - (128 - bits)).into(),
        _ => return None,
    })
}

fn float_unary(u: Unary, x: f64) -> Option<f64> {
    Some(match u {
        Unary::Abs => x.abs(),
        Unary::Acos => libm::acos(x),
        Unary::Acosh => libm::acosh(x),
        Unary::Asin => libm::asin(x),
        Unary::Asinh => libm::asinh(x),
        Unary::Atanh => libm::atanh(x),
        Unary::BesselI1e => special::bessel_i1e(x),
        Unary::Cbrt => libm::cbrt(x),
        Unary::Ceil => x.ceil(),
        Unary::Cosh => libm::cosh(x),
        Unary::Cosine => libm::cos(x),
        Unary::Digamma => special::digamma(x),
        Unary::Erf => libm::erf(x),
        Unary::ErfInv => special::erf_inv(x),
        Unary::Erfc => libm::erfc(x),
        Unary::Exponential => libm::exp(x),
        Unary::ExponentialMinusOne => libm::expm1(x),
        Unary::Floor => x.floor(),
        Unary::Lgamma => libm::lgamma(x),
        Unary::Log => libm::log(x),
        Unary::LogPlusOne => libm::log1p(x),
        Unary::Logistic => 1.0 / (1.0 + libm::exp(-x)),
        Unary::Negate => -x,
        Unary::RoundNearestEven => x.round_ties_even(),
        Unary::Rsqrt => 1.0 / x.sqrt(),
        Unary::Sign if x == 0.0 || x.is_nan() => x,
        Unary::Sign => 1f64.copysign(x),
        Unary::Sine => libm::sin(x),
        Unary::Sinh => libm::sinh(x),
        Unary::Sqrt => x.sqrt(),
        Unary::Tan => libm::tan(x),
        Unary::Tanh => libm::tanh(x),
        Unary::CountLeadingZeros | Unary::Imag | Unary::IsFinite | Unary::Not | Unary::Popcnt | Unary::Real => {
            return None;
        }
    })
}

fn complex_unary(u: Unary, z: C) -> Option<C> {
    Some(match u {
        Unary::Acos => complex::acos(z),
        Unary::Acosh => complex::acosh(z),
        Unary::Asin => complex::asin(z),
        Unary::Asinh => complex::asinh(z),
        Unary::Atanh => complex::atanh(z),
        Unary::Cosh => complex::cosh(z),
        Unary::Cosine => complex::cos(z),
        Unary::Exponential => complex::exp(z),
        Unary::ExponentialMinusOne => complex::expm1(z),
        Unary::Log => complex::log(z),
        Unary::LogPlusOne => complex::log1p(z),
        Unary::Logistic => C::ONE / (C::ONE + complex::exp(-z)),
        Unary::Negate => -z,
        Unary::Rsqrt => C::ONE / complex::sqrt(z),
        Unary::Sign => complex::sign(z),
        Unary::Sine => complex::sin(z),
        Unary::Sinh => complex::sinh(z),
        Unary::Sqrt => complex::sqrt(z),
        Unary::Tan => complex::tan(z),
        Unary::Tanh => complex::tanh(z),
        _ => return None,
    })
}

/// Two operands of one type; `out` is the element type of the result.
pub(super) fn binary(op: Binary, a: &Literal, b: &Literal, out: DType) -> Result<Literal> {
    let dtype = a.ty.dtype;
    match (dtype.category(), op) {
        (Category::Bool | Category::Int, _) => map2(a, b, out, |x: i128, y| int_binary(op, x, y, dtype)),
        (Category::Float, Binary::Complex) => map2(a, b, out, |x: f64, y| Some(C::new(x, y))),
        (Category::Float, Binary::NextAfter) => map2(a, b, out, |x: f64, y| Some(next_after(x, y, dtype))),
        (Category::Float, _) => map2(a, b, out, |x: f64, y| float_binary(op, x, y)),
        (Category::Complex, _) => map2(a, b, out, |x: C, y| complex_binary(op, x, y)),
    }
}

pub(super) fn int_binary(op: Binary, x: i128, y: i128, dtype: DType) -> Option<i128> {
    let bits = 8 * dtype.size() as u32;
    // A negative amount counts as a large one.
    let amount = u32::try_from(y).ok().filter(|&n| n < bits);
    let pattern = x as u128 & (u128::MAX >> (128 - bits));
    Some(match op {
        Binary::Add => x.plus(y),
        Binary::Subtract => x.wrapping_sub(y),
        Binary::Multiply => x.times(y),
        // As XLA: all ones, and the dividend. The least value over -1 wraps back to itself.
        Binary::Divide => x.checked_div(y).unwrap_or(-1),
        Binary::Remainder => x.checked_rem(y).unwrap_or(x),
        Binary::Power => int_power(x, y, dtype),
        Binary::Maximum => x.max(y),
        Binary::Minimum => x.min(y),
        Binary::And => x & y,
        Binary::Or => x | y,
        Binary::Xor => x ^ y,
        Binary::ShiftLeft => amount.map_or(0, |n| x << n),
        Binary::ShiftRightLogical => amount.map_or(0, |n| (pattern >> n) as i128),
        // Of an unsigned number too, the top bit is the sign.
        Binary::ShiftRightArithmetic => {
            let signed = (pattern << (128 - bits)) as i128 >> (128 - bits);
            signed >> amount.unwrap_or(bits - 1)
        }
        Binary::Atan2 | Binary::Complex | Binary::NextAfter | Binary::Zeta => return None,
    })
}

/// Wraps. A negative exponent leaves 0, but for the bases 1 and -1.
fn int_power(base: i128, exponent: i128, dtype: DType) -> i128 {
    if exponent < 0 {
        return match base {
            1 => 1,
            -1 => 1 - 2 * (exponent & 1),
            _ => 0,
        };
    }
    let (mut power, mut square, mut rest) = (1, base, exponent);
    while rest > 0 {
        if rest & 1 == 1 {
            power = wrap(square.times(power), dtype);
        }
        square = wrap(square.times(square), dtype);
        rest >>= 1;
    }
    power
}

pub(super) fn float_binary(op: Binary, x: f64, y: f64) -> Option<f64> {
    Some(match op {
        Binary::Add => x + y,
        Binary::Subtract => x - y,
        Binary::Multiply => x * y,
        Binary::Divide => x / y,
        Binary::Remainder => x % y,
        Binary::Power => libm::pow(x, y),
        Binary::Atan2 => libm::atan2(x, y),
        Binary::Maximum => larger(x, y),
        Binary::Minimum if x.is_nan() || y.is_nan() => f64::NAN,
        Binary::Minimum => -larger(-x, -y),
        Binary::Zeta => special::zeta(x, y),
        _ => return None,
    })
}

/// NaN if either is; `0` is larger than `-0`.
fn larger(x: f64, y: f64) -> f64 {
    match x.partial_cmp(&y) {
        None => f64::NAN,
        Some(Ordering::Greater) => x,
        Some(Ordering::Less) => y,
        Some(Ordering::Equal) => {
            if x.is_sign_positive() {
                x
            } else {
                y
            }
        }
    }
}

fn complex_binary(op: Binary, x: C, y: C) -> Option<C> {
    Some(match op {
        Binary::Add => x + y,
        Binary::Subtract => x - y,
        Binary::Multiply => x * y,
        Binary::Divide => x / y,
        Binary::Power => complex::pow(x, y),
        Binary::Atan2 => complex::atan2(x, y),
        _ => return None,
    })
}

/// The neighbour of `x` in `dtype` towards `y`.
fn next_after(x: f64, y: f64, dtype: DType) -> f64 {
    if x.is_nan() || y.is_nan() {
        return f64::NAN;
    }
    if x == y {
        return y;
    }
    // Patterns of one sign are ordered as magnitudes are.
    let mut bytes = vec![];
    x.abs().put(dtype, &mut bytes);
    let magnitude = i128::get(&bytes, unsigned(dtype));
    let sign = if x == 0.0 { y } else { x };
    let outward = x == 0.0 || (y > x) == (x > 0.0);
    let mut next = vec![];
    (if outward { magnitude + 1 } else { magnitude - 1 }).put(unsigned(dtype), &mut next);
    f64::get(&next, dtype).copysign(sign)
}

fn unsigned(dtype: DType) -> DType {
    match dtype.size() {
        1 => DType::U8,
        2 => DType::U16,
        4 => DType::U32,
        _ => DType::U64,
    }
}

/// Comparison to `bool`.
pub(super) fn compare(c: Comparison, a: &Literal, b: &Literal) -> Result<Literal> {
    let holds = |order: Option<Ordering>| match c {
        Comparison::Eq => order == Some(Ordering::Equal),
        Comparison::Ne => order != Some(Ordering::Equal),
        Comparison::Lt => order == Some(Ordering::Less),
        Comparison::Le => matches!(order, Some(Ordering::Less | Ordering::Equal)),
        Comparison::Gt => order == Some(Ordering::Greater),
        Comparison::Ge => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
    };
    let bit = |order| Some(i128::from(holds(order)));
    match a.ty.dtype.category() {
        Category::Bool | Category::Int => map2(a, b, DType::Bool, |x: i128, y| bit(Some(x.cmp(&y)))),
        Category::Float => map2(a, b, DType::Bool, |x: f64, y| bit(x.partial_cmp(&y))),
        Category::Complex if matches!(c, Comparison::Eq | Comparison::Ne) => {
            map2(a, b, DType::Bool, |x: C, y| bit((x == y).then_some(Ordering::Equal)))
        }
        Category::Complex => undefined(c, a.ty.dtype),
    }
}

/// Elementwise choice.
pub(super) fn select(pred: &Literal, on_true: &Literal, on_false: &Literal) -> Result<Literal> {
    let dtype = on_true.ty.dtype;
    of_width!(dtype, N => {
        let (p, t, f) = (words::<1>(pred)?, words::<N>(on_true)?, words::<N>(on_false)?);
        let chosen: ArrayD<[u8; N]> = Zip::from(&p).and(&t).and(&f).map_collect(|p, t, f| if p[0] != 0 { *t } else { *f });
        Ok(moved(chosen.view(), dtype))
    })
}

/// Value conversion.
pub(super) fn convert(a: &Literal, to: DType) -> Result<Literal> {
    let (low, high) = if to.category() <= Category::Int { int_range(to) } else { (0, 0) };
    match (a.ty.dtype.category(), to.category()) {
        (Category::Bool | Category::Int, Category::Bool | Category::Int) => map(a, to, |x: i128| Some(x)),
        // Rounded once: a detour over `f64` could round twice.
        (Category::Bool | Category::Int, Category::Float) => map(a, to, |x: i128| Some(int_to_float(x, to))),
        (Category::Bool | Category::Int, Category::Complex) => {
            map(a, to, |x: i128| Some(C::new(int_to_float(x, to.real()), 0.0)))
        }
        (Category::Float, Category::Bool) => map(a, to, |x: f64| Some(i128::from(x != 0.0))),
        // The cast gives 0 for NaN.
        (Category::Float, Category::Int) => map(a, to, |x: f64| Some((x as i128).clamp(low, high))),
        (Category::Float, Category::Float) => map(a, to, |x: f64| Some(saturated(x, to))),
        (Category::Float, Category::Complex) => map(a, to, |x: f64| Some(C::new(x, 0.0))),
        (Category::Complex, Category::Bool) => map(a, to, |z: C| Some(i128::from(z != C::ZERO))),
        (Category::Complex, Category::Int) => map(a, to, |z: C| Some((z.re as i128).clamp(low, high))),
        (Category::Complex, Category::Float) => map(a, to, |z: C| Some(saturated(z.re, to))),
        (Category::Complex, Category::Complex) => map(a, to, |z: C| Some(z)),
    }
}

fn int_to_float(x: i128, to: DType) -> f64 {
    if to == DType::F64 { x as f64 } else { saturated((x as f32).into(), to) }
}

/// Counts along `dim`.
pub(super) fn iota(dtype: DType, shape: &[usize], dim: usize) -> Result<Literal> {
    let count = |i: usize| match dtype.category() {
        Category::Bool | Category::Int => (i as i128, 0.0),
        Category::Float | Category::Complex => (0, int_to_float(i as i128, dtype.real())),
    };
    let inner: usize = shape[dim + 1..].iter().product();
    let n: usize = shape.iter().product();
    let mut bytes = Vec::with_capacity(n * dtype.size());
    for i in 0..n {
        let (int, float) = count(i / inner % shape[dim]);
        match dtype.category() {
            Category::Bool | Category::Int => int.put(dtype, &mut bytes),
            Category::Float => float.put(dtype, &mut bytes),
            Category::Complex => C::new(float, 0.0).put(dtype, &mut bytes),
        }
    }
    let ty = crate::types::TensorType::new(dtype, shape.iter().copied());
    Literal::dense(ty, bytes).ok_or_else(|| Error::internal("iota of a wrong size"))
}
