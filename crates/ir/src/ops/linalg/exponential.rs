//! The exponential of matrices: Taylor's polynomial of the matrix halved until it is small, squared as many times.

use super::super::{Call, OpDef, Outs, err, ok, one};
use super::*;
use crate::ops::loops::anywhere;
use crate::ops::support::in_accumulator;

pub(super) const OPS: &[OpDef] = &[OpDef::new(
    "aten::linalg_matrix_exp(Tensor self) -> Tensor",
    matrix_exp,
    &[
        ok("f32[3,3]{-1,0.5,0.25,2,-1,0.125}"),
        ok("f64[2,4,4]{1,5,3,4,-1,2,-2,3,-6}"),
        // Of other matrices PyTorch's 16-bit results are NaN, infinite or 1e30.
        ok("bf16[3,3]{0}"),
        ok("f16[2,2]{0}"),
        // One that needs many squarings beside one that needs none.
        ok("f64[2,2,2]{-100,50,30,-80,0.125,0.5,0.25,0.125}"),
        ok("f32[2,2]{100}"),
        ok("c128[3,3]"),
        ok("f32[1,1]{inf}"),
        ok("f32[2,2]{1,inf,2,nan}"),
        ok("f32[2,0,0]"),
        ok("f32[0,3,3]"),
        err("f32[3,4]", "linalg.matrix_exp: A must be batches of square matrices, but they are 3 by 4 matrices"),
        err("f32[3]", "linalg.matrix_exp: The input tensor A must have at least 2 dimensions."),
        err("i64[3,3]", "linalg.matrix_exp: Expected a floating point or complex tensor as input. Got Long"),
    ],
)
.asked()
.variants(&["linalg_matrix_exp.out"])];

fn matrix_exp(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let v = c.tensor(b, "self")?;
    let op = "linalg.matrix_exp";
    if !matches!(b.dtype(v), DType::F16 | DType::BF16) {
        Matrices::square(b, v, op, "linalg_matrix_exp")?;
    }
    let s = b.shape(v);
    if let [.., n, m] = s[..] {
        ensure!(n == m, "{op}: A must be batches of square matrices, but they are {n} by {m} matrices");
    }
    one(in_accumulator(b, v, |v| {
        let a = Matrices::new(b, v)?;
        // Numbers have an exponential where infinite matrices have none.
        let powers = if a.n == 1 { b.unary(Unary::Exponential, a.v)? } else { exponential(b, a.v)? };
        a.unbatched(b, powers)
    })?)
}

fn exponential(b: &Builder, a: ValueId) -> Result<ValueId> {
    let s = b.shape(a);
    if s.contains(&0) {
        return Ok(a);
    }
    // As many terms as leave an error below a rounding, for norms up to this one.
    let (small, triples) = if b.dtype(a).real() == DType::F64 { (1.09, 6) } else { (1.46, 4) };
    let (halved, squarings) = halved(b, a, small)?;
    let squared = loops::repeat_while(
        b,
        &[polynomial(b, halved, triples)?, squarings],
        |b, carried| left(b, carried[1]).and_then(|left| anywhere(b, left)),
        |b, carried| {
            let (x, squarings) = (carried[0], carried[1]);
            let more = b.broadcast_in_dim(left(b, squarings)?, &s, &[0])?;
            let next = b.select(more, product(b, x, x)?, x)?;
            Ok(vec![next, b.subtract(squarings, b.full_like(squarings, Number::Int(1))?)?])
        },
    )?;
    Ok(squared[0])
}

/// Whether a count is above 0.
fn left(b: &Builder, count: ValueId) -> Result<ValueId> {
    b.compare(Comparison::Gt, count, zeros_like(b, count)?)
}

/// Matrices halved until their norms are `small`, and how many times each was: `i32[batch]`.
fn halved(b: &Builder, a: ValueId, small: f64) -> Result<(ValueId, ValueId)> {
    let s = b.shape(a);
    let sums = b.reduce(b.unary(Unary::Abs, a)?, Reducer::Add, &[1])?;
    let norm = b.reduce(sums, Reducer::Maximum, &[1])?;
    // No number of halvings makes infinity small.
    let norm = formula(b, [norm], |[n]| n.is_inf().select(n.constant(f64::NAN), n))?;
    let large = |b: &Builder, norm: ValueId| b.compare(Comparison::Gt, norm, b.full_like(norm, Number::Float(small))?);
    let count = b.full(Number::Int(0), DType::I32, &s[..1])?;
    let done = loops::repeat_while(
        b,
        &[a, norm, count],
        |b, carried| large(b, carried[1]).and_then(|large| anywhere(b, large)),
        |b, carried| {
            let (a, norm, count) = (carried[0], carried[1], carried[2]);
            let large = large(b, norm)?;
            let half = |v| b.multiply(v, b.full_like(v, Number::Float(0.5))?);
            let halved = b.select(b.broadcast_in_dim(large, &s, &[0])?, half(a)?, a)?;
            let norm = b.select(large, half(norm)?, norm)?;
            Ok(vec![halved, norm, b.add(count, b.convert(large, DType::I32)?)?])
        },
    )?;
    Ok((done[0], done[2]))
}

/// Taylor's polynomial with three times `triples` terms after the first: three at a time, from the last ones,
/// `1 + (a + (a^2 + a^3 x / (k + 3)) / (k + 2)) / (k + 1)`.
fn polynomial(b: &Builder, a: ValueId, triples: usize) -> Result<ValueId> {
    let s = b.shape(a);
    let square = product(b, a, a)?;
    let one = identity(b, b.dtype(a), &s)?;
    let done = repeat(b, triples, &[one, a, square, product(b, square, a)?], |b, step, carried| {
        let (x, a, square, cube) = (carried[0], carried[1], carried[2], carried[3]);
        let number = |n: usize| b.scalar(Number::Int(n as i64), DType::I32);
        let k = b.multiply(b.subtract(number(triples - 1)?, step)?, number(3)?)?;
        let over = |v: ValueId, plus: usize| {
            let divisor = b.convert(b.add(k, number(plus)?)?, b.dtype(a))?;
            b.divide(v, b.broadcast_in_dim(divisor, &s, &[])?)
        };
        let inner = b.add(square, over(product(b, cube, x)?, 3)?)?;
        let inner = b.add(a, over(inner, 2)?)?;
        let x = b.add(identity(b, b.dtype(a), &s)?, over(inner, 1)?)?;
        Ok(vec![x, a, square, cube])
    })?;
    Ok(done[0])
}
