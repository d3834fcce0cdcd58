//! Evaluating expressions: exact rationals while all is exact, `f64` from the first float on.

use super::expr::{Expr, Func};
use crate::error::{Error, Result};
use crate::literal::Number;
use crate::{ensure, invalid};

/// A value on the way.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Value {
    Bool(bool),
    /// Numerator and positive denominator in lowest terms.
    Exact(i128, i128),
    Float(f64),
}
use Value::{Exact, Float};

pub(super) fn evaluate(expr: &Expr, symbol: &dyn Fn(&str) -> Option<i64>) -> Result<Number> {
    match value(expr, symbol)? {
        Value::Bool(b) => Ok(Number::Bool(b)),
        Float(x) => Ok(Number::Float(x)),
        Exact(n, 1) => i64::try_from(n).map(Number::Int).map_err(|_| overflow(expr)),
        Exact(n, d) => Ok(Number::Float(n as f64 / d as f64)),
    }
}

fn overflow(what: &impl std::fmt::Display) -> Error {
    Error::invalid(format!("`{what}` does not fit 64 bits"))
}

fn value(expr: &Expr, symbol: &dyn Fn(&str) -> Option<i64>) -> Result<Value> {
    match expr {
        Expr::Number(Number::Bool(b)) => Ok(Value::Bool(*b)),
        Expr::Number(Number::Int(i)) => Ok(Exact(i128::from(*i), 1)),
        Expr::Number(Number::Float(x) | Number::Complex(x, _)) => Ok(Float(*x)),
        Expr::Symbol(s) => match symbol(s) {
            Some(i) => Ok(Exact(i128::from(i), 1)),
            None => invalid!("symbol `{s}` has no value"),
        },
        Expr::Call(func @ (Func::Where | Func::Piecewise), args) => choice(*func, args, symbol),
        Expr::Call(func, args) => {
            let values = args.iter().map(|a| value(a, symbol)).collect::<Result<Vec<_>>>()?;
            call(*func, &values)
        }
    }
}

/// Only the branch taken is evaluated.
fn choice(func: Func, args: &[Expr], symbol: &dyn Fn(&str) -> Option<i64>) -> Result<Value> {
    if let (Func::Where, [cond, yes, no]) = (func, args) {
        return value(if truth(value(cond, symbol)?) { yes } else { no }, symbol);
    }
    for pair in args {
        let Expr::Call(Func::ExprCondPair, parts) = pair else { invalid!("{} takes pairs", func.name()) };
        let [then, cond] = &parts[..] else { invalid!("{} takes pairs", func.name()) };
        if truth(value(cond, symbol)?) {
            return value(then, symbol);
        }
    }
    invalid!("no case of {} applies", func.name())
}

fn call(func: Func, args: &[Value]) -> Result<Value> {
    use Func::*;
    let fault = || Error::invalid(format!("{} does not take {} arguments", func.name(), args.len()));
    let all = |f: fn(Value, Value) -> Result<Value>| -> Result<Value> {
        let (first, rest) = args.split_first().ok_or_else(fault)?;
        rest.iter().try_fold(*first, |a, &b| f(a, b))
    };
    let one = || match args {
        [a] => Ok(*a),
        _ => Err(fault()),
    };
    let two = || match args {
        [a, b] => Ok((*a, *b)),
        _ => Err(fault()),
    };
    Ok(match func {
        Add => all(add)?,
        Mul => all(multiply)?,
        Max => all(|a, b| Ok(if real(b) > real(a) { b } else { a }))?,
        Min => all(|a, b| Ok(if real(b) < real(a) { b } else { a }))?,
        And => Value::Bool(args.iter().all(|&a| truth(a))),
        Or => Value::Bool(args.iter().any(|&a| truth(a))),
        Not => Value::Bool(!truth(one()?)),
        Identity => one()?,
        Abs => match one()? {
            Exact(n, d) => Exact(n.abs(), d),
            other => Float(real(other).abs()),
        },
        ToFloat => Float(real(one()?)),
        Sqrt => Float(real(one()?).sqrt()),
        Exp => Float(real(one()?).exp()),
        Log => Float(real(one()?).ln()),
        Log2 => Float(real(one()?).log2()),
        Sin => Float(real(one()?).sin()),
        Cos => Float(real(one()?).cos()),
        Tan => Float(real(one()?).tan()),
        Sinh => Float(real(one()?).sinh()),
        Cosh => Float(real(one()?).cosh()),
        Tanh => Float(real(one()?).tanh()),
        Asin => Float(real(one()?).asin()),
        Acos => Float(real(one()?).acos()),
        Atan => Float(real(one()?).atan()),
        Asinh => Float(real(one()?).asinh()),
        TruncToFloat => Float(real(one()?).trunc()),
        TruncToInt => whole(one()?, f64::trunc, |n, d| n / d)?,
        FloorToInt => whole(one()?, f64::floor, i128::div_euclid)?,
        CeilToInt => whole(one()?, f64::ceil, |n, d| -(-n).div_euclid(d))?,
        RoundToInt => whole(Float(real(one()?)), f64::round_ties_even, i128::div_euclid)?,
        Pow | PowByNatural => two().and_then(|(a, b)| power(a, b))?,
        FloatPow => two().map(|(a, b)| Float(real(a).powf(real(b))))?,
        Rational => two().and_then(|(a, b)| divide(a, b))?,
        FloatTrueDiv | IntTrueDiv => two().and_then(|(a, b)| {
            ensure!(real(b) != 0.0, "division by zero");
            Ok(Float(real(a) / real(b)))
        })?,
        FloorDiv | CleanDiv => two().and_then(|(a, b)| floor_div(a, b))?,
        CeilDiv => two().and_then(|(a, b)| negate(floor_div(negate(a)?, b)?))?,
        Mod | PythonMod => two().and_then(|(a, b)| modulo(a, b))?,
        ModularIndexing => match args {
            [base, divisor, modulus] => modulo(floor_div(*base, *divisor)?, *modulus)?,
            _ => return Err(fault()),
        },
        LShift => two().and_then(|(a, b)| multiply(a, power(Exact(2, 1), b)?))?,
        RShift => two().and_then(|(a, b)| floor_div(a, power(Exact(2, 1), b)?))?,
        RoundDecimal => two().and_then(|(a, digits)| Ok(Float(rounded(real(a), integer(digits)?))))?,
        BitAnd => two().and_then(|(a, b)| bits(a, b, |a, b| a & b))?,
        BitOr => two().and_then(|(a, b)| bits(a, b, |a, b| a | b))?,
        BitXor => two().and_then(|(a, b)| bits(a, b, |a, b| a ^ b))?,
        GreaterThan => two().map(|(a, b)| Value::Bool(real(a) >= real(b)))?,
        LessThan => two().map(|(a, b)| Value::Bool(real(a) <= real(b)))?,
        StrictGreaterThan => two().map(|(a, b)| Value::Bool(real(a) > real(b)))?,
        StrictLessThan => two().map(|(a, b)| Value::Bool(real(a) < real(b)))?,
        Equality => two().map(|(a, b)| Value::Bool(real(a) == real(b)))?,
        Unequality => two().map(|(a, b)| Value::Bool(real(a) != real(b)))?,
        Where | Piecewise | ExprCondPair => return Err(fault()),
    })
}

fn truth(v: Value) -> bool {
    match v {
        Value::Bool(b) => b,
        other => real(other) != 0.0,
    }
}

fn real(v: Value) -> f64 {
    match v {
        Value::Bool(b) => f64::from(u8::from(b)),
        Exact(n, d) => n as f64 / d as f64,
        Float(x) => x,
    }
}

fn integer(v: Value) -> Result<i128> {
    match v {
        Value::Bool(b) => Ok(i128::from(b)),
        Exact(n, 1) => Ok(n),
        other => invalid!("{} is not an integer", real(other)),
    }
}

/// Of two truth values a truth value, as Python has it.
fn bits(a: Value, b: Value, of: fn(i128, i128) -> i128) -> Result<Value> {
    let both = of(integer(a)?, integer(b)?);
    Ok(if matches!((a, b), (Value::Bool(_), Value::Bool(_))) { Value::Bool(both != 0) } else { Exact(both, 1) })
}

/// Python's `round(x, digits)`: the nearest number with so many decimals, of two the even one, by the exact value of `x`.
fn rounded(x: f64, digits: i128) -> f64 {
    /// Decimals beyond which a float has none that is not 0.
    const MOST: i128 = 1074;
    if digits < 0 {
        let unit = 10f64.powi(digits.unsigned_abs().min(400) as i32);
        return if unit.is_finite() { (x / unit).round_ties_even() * unit } else { 0.0 * x };
    }
    format!("{x:.*}", digits.min(MOST) as usize).parse().unwrap_or(x)
}

/// An exact fraction in lowest terms whose parts fit 64 bits: products of two then fit 128.
fn exact(n: i128, d: i128) -> Result<Value> {
    ensure!(d != 0, "division by zero");
    let (mut a, mut b) = (n.unsigned_abs(), d.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    let g = (a.max(1) as i128) * d.signum();
    let (n, d) = (n / g, d / g);
    let fits = |x: i128| i64::try_from(x).is_ok();
    ensure!(fits(n) && fits(d), "a number in an expression does not fit 64 bits");
    Ok(Exact(n, d))
}

/// Both as fractions, unless one is a float.
fn fractions(a: Value, b: Value) -> Option<[(i128, i128); 2]> {
    let fraction = |v| match v {
        Value::Bool(b) => Some((i128::from(b), 1)),
        Exact(n, d) => Some((n, d)),
        Float(_) => None,
    };
    Some([fraction(a)?, fraction(b)?])
}

fn add(a: Value, b: Value) -> Result<Value> {
    match fractions(a, b) {
        Some([(n, d), (m, e)]) => exact(n * e + m * d, d * e),
        None => Ok(Float(real(a) + real(b))),
    }
}

fn negate(a: Value) -> Result<Value> {
    multiply(Exact(-1, 1), a)
}

fn multiply(a: Value, b: Value) -> Result<Value> {
    match fractions(a, b) {
        Some([(n, d), (m, e)]) => exact(n * m, d * e),
        None => Ok(Float(real(a) * real(b))),
    }
}

fn divide(a: Value, b: Value) -> Result<Value> {
    match fractions(a, b) {
        Some([(n, d), (m, e)]) => exact(n * e, d * m),
        None => Ok(Float(real(a) / real(b))),
    }
}

fn floor_div(a: Value, b: Value) -> Result<Value> {
    match divide(a, b)? {
        Exact(n, d) => Ok(Exact(n.div_euclid(d), 1)),
        other => Ok(Float(real(other).floor())),
    }
}

/// Python's: the sign of the divisor.
fn modulo(a: Value, b: Value) -> Result<Value> {
    add(a, negate(multiply(floor_div(a, b)?, b)?)?)
}

fn power(a: Value, b: Value) -> Result<Value> {
    let (Some(_), Exact(exponent, 1)) = (fractions(a, b), b) else { return Ok(Float(real(a).powf(real(b)))) };
    let base = if exponent < 0 { divide(Exact(1, 1), a)? } else { a };
    let trivial = matches!(base, Exact(-1..=1, 1) | Value::Bool(_));
    ensure!(trivial || exponent.abs() <= 64, "a power in an expression does not fit 64 bits");
    // Beyond 64, only the parity matters.
    let times = if exponent.abs() > 64 { 2 + (exponent & 1) } else { exponent.abs() };
    (0..times).try_fold(Exact(1, 1), |p, _| multiply(p, base))
}

fn whole(v: Value, float: fn(f64) -> f64, fraction: fn(i128, i128) -> i128) -> Result<Value> {
    match v {
        Exact(n, d) => Ok(Exact(fraction(n, d), 1)),
        other => {
            let x = float(real(other));
            ensure!(x.abs() < 9.3e18, "{x} does not fit 64 bits");
            exact(x as i128, 1)
        }
    }
}
