//! One-sided rotations (Jacobi's, in Hestenes' form): a unitary J such that the rows of `J A` are orthogonal.
//!
//! A round rotates all rows at once, in pairs; the rows then move on as in a round-robin tournament, so that after a
//! sweep of rounds each has met every other and is back in its place. Sweeps go on until no pair was far from orthogonal.

use super::super::index::take_along;
use super::*;

/// Sweeps after which rows that are still not orthogonal stay as they are; a dozen is many.
const MOST_SWEEPS: usize = 40;

/// Rows `J A`.
pub(super) struct Rotated {
    /// `[batch, n, m]`: orthogonal.
    pub(super) rows: ValueId,
    /// Their lengths: `[batch, n]`, real.
    pub(super) lengths: ValueId,
    /// J: `[batch, n, n]`, if it was asked for.
    pub(super) turned: Option<ValueId>,
}

impl Rotated {
    /// Rotates the rows of `a`, whose elements are at most about 1.
    pub(super) fn new(b: &Builder, a: ValueId, with_turned: bool) -> Result<Rotated> {
        let [batch, n, m] = b.shape(a)[..] else { crate::invalid!("no matrices: {:?}", b.shape(a)) };
        // Rows come in pairs: a row of zeros stays one.
        let even = n.next_multiple_of(2);
        let zero = b.scalar(Number::Int(0), b.dtype(a))?;
        let mut rows = b.pad(a, zero, &[0, 0, 0], &[0, (even - n) as i64, 0], &[0, 0, 0])?;
        if with_turned {
            rows = b.concatenate(&[rows, identity(b, b.dtype(a), &[batch, even, even])?], 2)?;
        }
        if n > 1 {
            rows = sweeps(b, rows, m)?;
        }
        let part = |from: usize, to: usize| b.slice(rows, &[0, 0, from], &[batch, n, to], &[1, 1, 1]);
        let turned = if with_turned { Some(part(m, m + n)?) } else { None };
        let own = part(0, m)?;
        let lengths = b.unary(Unary::Sqrt, b.reduce(squared(b, own)?, Reducer::Add, &[2])?)?;
        Ok(Rotated { rows: own, lengths, turned })
    }

    /// The longest row first.
    pub(super) fn longest_first(self, b: &Builder) -> Result<Rotated> {
        let (lengths, order) = order_of(b, self.lengths, true)?;
        let turned = self.turned.map(|v| in_order(b, v, order)).transpose()?;
        Ok(Rotated { rows: in_order(b, self.rows, order)?, lengths, turned })
    }
}

/// `keys` (`[batch, n]`) in order, and where each of them was.
pub(super) fn order_of(b: &Builder, keys: ValueId, descending: bool) -> Result<(ValueId, ValueId)> {
    let sorted = b.sort(&[keys, b.iota(DType::I32, &b.shape(keys), 1)?], 1, descending, true)?;
    Ok((sorted[0], sorted[1]))
}

/// The rows of `v` (`[batch, n, m]`) in an order that [`order_of`] gave.
pub(super) fn in_order(b: &Builder, v: ValueId, order: ValueId) -> Result<ValueId> {
    take_along(b, v, 1, down(b, order, &b.shape(v))?)
}

/// Rotates rows until their first `m` elements are orthogonal.
fn sweeps(b: &Builder, rows: ValueId, m: usize) -> Result<ValueId> {
    let s = b.shape(rows);
    let far = b.full(Number::Float(f64::INFINITY), b.dtype(rows).real(), &[s[0]])?;
    let close = epsilon(b.dtype(rows)) * m.max(10) as f64;
    let needed = |b: &Builder, carried: &[ValueId]| {
        // NaN counts as close: no rotation would help.
        let is_far = b.compare(Comparison::Gt, carried[1], b.full_like(carried[1], Number::Float(close))?)?;
        Ok(Some(b.reduce(is_far, Reducer::Or, &[0])?))
    };
    let done = repeat_at_most(b, MOST_SWEEPS, &[rows, far], needed, |b, _, carried| {
        let start = [carried[0], zeros_like(b, carried[1])?];
        repeat(b, s[1] - 1, &start, |b, _, carried| round(b, carried[0], carried[1], m))
    })?;
    Ok(done[0])
}

/// Rotates row `i` of the first half with row `i` of the second, and pairs the rows anew. `far` (`[batch]`) becomes the
/// largest cosine of an angle that was met, if it is larger.
fn round(b: &Builder, rows: ValueId, far: ValueId, m: usize) -> Result<Vec<ValueId>> {
    let s = b.shape(rows);
    let half = s[1] / 2;
    let (x, y) = (b.slice_dim(rows, 1, 0, half, 1)?, b.slice_dim(rows, 1, half, s[1], 1)?);
    let (p, q) = (b.slice_dim(x, 2, 0, m, 1)?, b.slice_dim(y, 2, 0, m, 1)?);
    let sum = |v| b.reduce(v, Reducer::Add, &[2]);
    let squares = [sum(squared(b, p)?)?, sum(squared(b, q)?)?];
    let inner = sum(b.multiply(p, conjugate(b, q)?)?)?;
    let size = b.unary(Unary::Abs, inner)?;
    let [cosine, sine] = rotation(b, squares, size)?;
    let met = b.reduce(angle_cosine(b, squares, size)?, Reducer::Maximum, &[1])?;

    let spread = |v| down(b, v, &b.shape(x));
    // What makes the inner product real and not negative.
    let phase = b.unary(Unary::Sign, inner)?;
    let none = b.compare(Comparison::Eq, size, zeros_like(b, size)?)?;
    let phase = b.select(none, b.full_like(phase, Number::Int(1))?, phase)?;
    let (cosine, sine) = (spread(in_type_of(b, cosine, x)?)?, spread(in_type_of(b, sine, x)?)?);
    let y = b.multiply(y, spread(phase)?)?;
    let first = b.subtract(b.multiply(cosine, x)?, b.multiply(sine, y)?)?;
    let second = b.add(b.multiply(sine, x)?, b.multiply(cosine, y)?)?;
    Ok(vec![paired_anew(b, first, second)?, b.maximum(far, met)?])
}

/// The cosine and the sine that make two rows orthogonal, given their squares and their inner product, which is not
/// negative: the smaller of the two angles.
fn rotation(b: &Builder, [x, y]: [ValueId; 2], inner: ValueId) -> Result<[ValueId; 2]> {
    let tangent = formula(b, [x, y, inner], |[x, y, g]| {
        let zeta = (y - x) / (g * 2.0);
        let size = 1.0 / (zeta.abs() + (zeta * zeta + 1.0).sqrt());
        g.equals(0.0).select(g.constant(0.0), zeta.less(0.0).select(-size, size))
    })?;
    let cosine = formula(b, [tangent], |[t]| 1.0 / (t * t + 1.0).sqrt())?;
    Ok([cosine, b.multiply(cosine, tangent)?])
}

/// The cosine of the angle between two rows; 0 where one of them is too short for its square to be exact.
fn angle_cosine(b: &Builder, [x, y]: [ValueId; 2], inner: ValueId) -> Result<ValueId> {
    let double = b.dtype(x) == DType::F64;
    let least = if double { f64::MIN_POSITIVE } else { f64::from(f32::MIN_POSITIVE) } / epsilon(b.dtype(x));
    formula(b, [x, y, inner], |[x, y, g]| {
        let cosine = g / (x.sqrt() * y.sqrt());
        x.min(y).less(least).select(g.constant(0.0), cosine)
    })
}

/// Both halves as one, all rows but the first moved on by one place in the circle that the halves form.
fn paired_anew(b: &Builder, first: ValueId, second: ValueId) -> Result<ValueId> {
    let half = b.shape(first)[1];
    let part = |v, from, to| b.slice_dim(v, 1, from, to, 1);
    if half == 1 {
        return b.concatenate(&[first, second], 1);
    }
    let parts = [
        part(first, 0, 1)?,
        part(second, 0, 1)?,
        part(first, 1, half - 1)?,
        part(second, 1, half)?,
        part(first, half - 1, half)?,
    ];
    b.concatenate(&parts, 1)
}
