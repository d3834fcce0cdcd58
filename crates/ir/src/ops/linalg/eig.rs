//! Eigenvalues and eigenvectors of any square matrices, in complex arithmetic.
//!
//! Reflections make a matrix one of Hessenberg's, with nothing below its first subdiagonal, and steps of shifted QR make
//! that triangular: each works on the lowest block that no zero of the subdiagonal parts. The matrices of a batch go
//! through the same steps, each within its own block.

use super::super::{OpDef, err, many, ok, one};
use super::qr::{reflected, reflection};
use super::*;
use crate::ops::loops::{anywhere, repeat_while};
use crate::ops::positions::{part, with_part};

/// Steps for each row after which a matrix stays as it is; three are usual.
const MOST_STEPS: usize = 30;

/// Steps without a new zero after which a step takes another shift than the usual one.
const PATIENCE: i64 = 10;

pub(super) const OPS: &[OpDef] = &[
    OpDef::new(
        "aten::linalg_eig(Tensor self) -> (Tensor eigenvalues, Tensor eigenvectors)",
        |c, b| {
            let a = Matrices::square(b, c.tensor(b, "self")?, "linalg.eig", "linalg_eig_out_cpu")?;
            let done = by_lapack(b, Lapack::Eig, &[a.v], |b, v| {
                let s = Schur::new(b, &a.with(v[0]), true)?;
                Ok(vec![s.values(b)?, s.vectors(b)?])
            })?;
            many([a.unbatched(b, done[0])?, a.unbatched(b, done[1])?])
        },
        &[
            ok("f32[3,3]{1,5,3,4,1,2,2,3,6}"),
            ok("f64[2,4,4]{1,5,3,4,1,2,2,3,6,7,9,1,-5}"),
            // A rotation, a matrix that only steps with another shift change, and one that is triangular.
            ok("f64[2,2]{0,1,-1,0}"),
            ok("f64[4,4]{0,0,0,1,1,0,0,0,0,1,0,0,0,0,1,0}"),
            ok("f64[3,3]{1,5,3,0,2,2,0,0,6}"),
            ok("f32[3,3]{0}"),
            ok("f32[2,2]{1e30,2e30,-3e30,1e30}"),
            ok("c64[3,3]"),
            ok("c128[2,4,4]"),
            ok("f32[1,1]"),
            ok("f32[2,0,0]"),
            err("f32[2,3]", "linalg.eig: A must be batches of square matrices, but they are 2 by 3 matrices"),
            err("f32[3]", "linalg.eig: The input tensor A must have at least 2 dimensions."),
        ],
    )
    .asked()
    .variants(&["linalg_eig.out"]),
    OpDef::new(
        "aten::_linalg_eigvals(Tensor self) -> Tensor",
        |c, b| {
            let a = Matrices::square(b, c.tensor(b, "self")?, "linalg.eigvals", "linalg_eig_out_cpu")?;
            let done = by_lapack(b, Lapack::Eigenvalues, &[a.v], |b, v| {
                Ok(vec![Schur::new(b, &a.with(v[0]), false)?.values(b)?])
            })?;
            one(a.unbatched(b, done[0])?)
        },
        &[
            ok("f64[2,4,4]{1,5,3,4,1,2,2,3,6,7,9,1,-5}"),
            ok("c64[3,3]"),
            ok("f32[0,0]"),
            err("f32[2,3]", "linalg.eigvals: A must be batches of square matrices, but they are 2 by 3 matrices"),
        ],
    )
    .asked(),
];

/// `A = scale Z T Z^H`, T triangular.
struct Schur {
    /// `[batch]`, real.
    scale: ValueId,
    t: ValueId,
    z: Option<ValueId>,
    /// Whether A is real, so that an eigenvalue without its conjugate is.
    real: bool,
}

impl Schur {
    fn new(b: &Builder, a: &Matrices, with_z: bool) -> Result<Schur> {
        let (real, shape) = (!b.dtype(a.v).is_complex(), a.shape());
        let dtype = if b.dtype(a.v).real() == DType::F64 { DType::C128 } else { DType::C64 };
        if shape.contains(&0) {
            let none = b.full(Number::Int(0), dtype, &shape)?;
            let scale = b.full(Number::Int(1), dtype.real(), &shape[..1])?;
            return Ok(Schur { scale, t: none, z: with_z.then_some(none), real });
        }
        let largest = b.reduce(b.unary(Unary::Abs, a.v)?, Reducer::Maximum, &[1, 2])?;
        let scale = formula(b, [largest], |[l]| l.greater(0.0).select(l, 1.0))?;
        let v = b.divide(a.v, b.broadcast_in_dim(in_type_of(b, scale, a.v)?, &shape, &[0])?)?;
        let mut carried = vec![b.convert(v, dtype)?];
        if with_z {
            carried.push(identity(b, dtype, &shape)?);
        }
        let carried = hessenberg(b, &carried)?;
        let done = if a.n > 1 { triangular(b, &carried, a.n)? } else { carried };
        Ok(Schur { scale, t: done[0], z: done.get(1).copied(), real })
    }

    fn values(&self, b: &Builder) -> Result<ValueId> {
        let values = diagonal(b, self.t)?;
        let shape = b.shape(values);
        let scale = b.broadcast_in_dim(self.scale, &shape, &[0])?;
        let (re, mut im) = (b.unary(Unary::Real, values)?, b.unary(Unary::Imag, values)?);
        if self.real {
            // Imaginary parts that are no more than rounding.
            let least = epsilon(b.dtype(values)) * shape[1] as f64;
            im = formula(b, [im], |[i]| i.abs().at_most(least).select(i.constant(0.0), i))?;
        }
        formula(b, [re, im, scale], |[r, i, s]| (r * s).complex(i * s))
    }

    /// Eigenvectors of length 1, the largest element of each real.
    fn vectors(&self, b: &Builder) -> Result<ValueId> {
        let Some(z) = self.z else { crate::invalid!("no vectors were kept") };
        let shape = b.shape(z);
        if shape.contains(&0) {
            return Ok(z);
        }
        let v = product(b, z, substituted(b, self.t)?)?;
        let size = b.unary(Unary::Abs, v)?;
        let (_, largest) = b.reduce_arg(size, b.iota(DType::I32, &shape, 1)?, Reducer::ArgMax, &[1])?;
        let is_largest = b.compare(Comparison::Eq, b.iota(DType::I32, &shape, 1)?, across(b, largest, &shape)?)?;
        let head = picked(b, v, is_largest, 1)?;
        let length = b.unary(Unary::Sqrt, b.reduce(squared(b, v)?, Reducer::Add, &[1])?)?;
        let divisor = b.multiply(b.unary(Unary::Sign, head)?, in_type_of(b, length, head)?)?;
        made_real(b, b.divide(v, across(b, divisor, &shape)?)?, is_largest)
    }
}

/// `a (1 - tau v v^H)`.
fn reflected_from_right(b: &Builder, a: ValueId, vector: ValueId, tau: ValueId) -> Result<ValueId> {
    adjoint(b, reflected(b, adjoint(b, a)?, vector, conjugate(b, tau)?)?)
}

/// Nothing below the first subdiagonal of the first of `carried`; the second, if there is one, takes the reflections from
/// the right.
fn hessenberg(b: &Builder, carried: &[ValueId]) -> Result<Vec<ValueId>> {
    let n = b.shape(carried[0])[1];
    repeat(b, n.saturating_sub(2), carried, |b, k, carried| {
        let (a, shape) = (carried[0], b.shape(carried[0]));
        let head_row = b.add(k, b.scalar(Number::Int(1), DType::I32)?)?;
        let left = column(b, a, k)?;
        let flat = b.shape(left);
        let here = index_is(b, &flat, 1, Comparison::Eq, head_row)?;
        let below = index_is(b, &flat, 1, Comparison::Gt, head_row)?;
        let rest = b.select(below, left, zeros_like(b, left)?)?;
        let square = b.reduce(squared(b, rest)?, Reducer::Add, &[1])?;
        let [_, tau, scale] = reflection(b, picked(b, left, here, 1)?, square)?;
        let vector = b.divide(rest, b.broadcast_in_dim(scale, &flat, &[0])?)?;
        let vector = b.select(here, b.full_like(vector, Number::Int(1))?, vector)?;
        let turned = reflected(b, a, vector, conjugate(b, tau)?)?;
        let turned = reflected_from_right(b, turned, vector, tau)?;
        let is_column = index_is(b, &shape, 2, Comparison::Eq, k)?;
        let done = and(b, is_column, index_is(b, &shape, 1, Comparison::Gt, head_row)?)?;
        let mut next = vec![b.select(done, zeros_like(b, turned)?, turned)?];
        if let Some(&z) = carried.get(1) {
            next.push(reflected_from_right(b, z, vector, tau)?);
        }
        Ok(next)
    })
}

/// Steps of QR until the first of `carried` is triangular; the second, if there is one, takes the rotations from the
/// right.
fn triangular(b: &Builder, carried: &[ValueId], n: usize) -> Result<Vec<ValueId>> {
    let batch = b.shape(carried[0])[0];
    let (h, last) = parted(b, carried[0])?;
    let steps = b.full(Number::Int(0), DType::I32, &[batch])?;
    let mut all = vec![h, last, steps];
    all.extend(&carried[1..]);
    let most = MOST_STEPS * n;
    let is_left = |b: &Builder, carried: &[ValueId]| {
        let left = b.compare(Comparison::Gt, carried[1], zeros_like(b, carried[1])?)?;
        Ok(Some(anywhere(b, left)?))
    };
    let done = loops::repeat_at_most(b, most, &all, is_left, |b, _, carried| {
        let (h, last, steps) = (carried[0], carried[1], carried[2]);
        let mut factors = vec![h];
        factors.extend(&carried[3..]);
        let factors = step(b, &factors, last, steps)?;
        let (h, next) = parted(b, factors[0])?;
        let more = b.add(steps, b.full_like(steps, Number::Int(1))?)?;
        let same = b.compare(Comparison::Eq, last, next)?;
        let mut all = vec![h, next, b.select(same, more, zeros_like(b, steps)?)?];
        all.extend(&factors[1..]);
        Ok(all)
    })?;
    let mut results = vec![done[0]];
    results.extend(&done[3..]);
    Ok(results)
}

/// The elements beside the diagonal: those below it, or those above.
fn beside_diagonal(b: &Builder, h: ValueId, below: bool) -> Result<ValueId> {
    let [batch, n, _] = b.shape(h)[..] else { crate::invalid!("no matrices: {:?}", b.shape(h)) };
    let (row, column) = (usize::from(below), usize::from(!below));
    diagonal(b, b.slice(h, &[0, row, column], &[batch, n - 1 + row, n - 1 + column], &[1, 1, 1])?)
}

/// `h` with zeros for the elements of the subdiagonal that are next to nothing, and the last row with an element there:
/// `i32[batch]`, 0 where there is none.
fn parted(b: &Builder, h: ValueId) -> Result<(ValueId, ValueId)> {
    let shape = b.shape(h);
    let n = shape[1];
    let below = b.unary(Unary::Abs, beside_diagonal(b, h, true)?)?;
    let size = b.unary(Unary::Abs, diagonal(b, h)?)?;
    let (first, second) = (b.slice_dim(size, 1, 0, n - 1, 1)?, b.slice_dim(size, 1, 1, n, 1)?);
    let least = epsilon(b.dtype(h));
    // NaN is next to nothing too: no step would make it less.
    let kept = formula(b, [below, first, second], |[s, x, y]| s.greater((x + y).max(least) * least))?;
    let rows = b.iota(DType::I32, &b.shape(kept), 1)?;
    let rows = b.add(rows, b.full_like(rows, Number::Int(1))?)?;
    let last = b.reduce(b.select(kept, rows, zeros_like(b, rows)?)?, Reducer::Maximum, &[1])?;
    let no = b.scalar(Number::Bool(false), DType::Bool)?;
    let kept = across(b, b.pad(kept, no, &[0, 0], &[0, 1], &[0, 0])?, &shape)?;
    let (i, j) = (b.iota(DType::I32, &shape, 1)?, b.iota(DType::I32, &shape, 2)?);
    let is_below = b.compare(Comparison::Eq, i, b.add(j, b.full_like(j, Number::Int(1))?)?)?;
    let dropped = and(b, is_below, b.unary(Unary::Not, kept)?)?;
    Ok((b.select(dropped, zeros_like(b, h)?, h)?, last))
}

/// The element of `v` (`[batch, m]`) at `k` less `back`, of which there is one a batch.
fn at(b: &Builder, v: ValueId, k: ValueId, back: i64) -> Result<ValueId> {
    let k = b.subtract(k, b.full_like(k, Number::Int(back))?)?;
    picked(b, v, index_is(b, &b.shape(v), 1, Comparison::Eq, k)?, 1)
}

/// The shift of a step (`[batch]`): the eigenvalue of the last two rows and columns of the block that is nearer to the
/// last element; now and then another number, for matrices that this one leaves as they are.
fn shift(b: &Builder, h: ValueId, last: ValueId, steps: ValueId) -> Result<ValueId> {
    let on = diagonal(b, h)?;
    let (above, below) = (beside_diagonal(b, h, false)?, beside_diagonal(b, h, true)?);
    let corner = [at(b, on, last, 1)?, at(b, above, last, 1)?, at(b, below, last, 1)?, at(b, on, last, 0)?];
    let usual = formula(b, corner, |[p, q, r, s]| {
        let half = (p - s) * 0.5;
        let root = (half * half + q * r).sqrt();
        let (plus, minus) = (half + root, half - root);
        let larger = plus.abs().at_least(minus.abs()).select(plus, minus);
        larger.equals(0.0).select(s, s - q * r / larger)
    })?;
    let other = formula(b, [corner[2], corner[3]], |[r, s]| {
        let size = r.abs() * 0.75;
        s + size.complex(size.constant(0.0))
    })?;
    let turn = b.binary(Binary::Remainder, steps, b.full_like(steps, Number::Int(PATIENCE))?)?;
    let unusual = b.compare(Comparison::Eq, turn, b.full_like(turn, Number::Int(PATIENCE - 1))?)?;
    b.select(unusual, other, usual)
}

/// The first row of the block whose last row is `last`: `i32[batch]`.
fn first_of_block(b: &Builder, h: ValueId, last: ValueId) -> Result<ValueId> {
    let below = beside_diagonal(b, h, true)?;
    let shape = b.shape(below);
    let rows = b.iota(DType::I32, &shape, 1)?;
    let rows = b.add(rows, b.full_like(rows, Number::Int(1))?)?;
    let parts = b.compare(Comparison::Eq, below, zeros_like(b, below)?)?;
    let parts = and(b, parts, b.compare(Comparison::Le, rows, b.broadcast_in_dim(last, &shape, &[0])?)?)?;
    b.reduce(b.select(parts, rows, zeros_like(b, rows)?)?, Reducer::Maximum, &[1])
}

/// One step of QR with a shift, on the block of each matrix: `H - s = Q R`, and `R Q + s`.
fn step(b: &Builder, factors: &[ValueId], last: ValueId, steps: ValueId) -> Result<Vec<ValueId>> {
    let h = factors[0];
    let shape = b.shape(h);
    let first = first_of_block(b, h, last)?;
    let within = |b: &Builder, shape: &[usize], dim: usize, comparison: Comparison| {
        let from = index_is(b, shape, dim, Comparison::Ge, first)?;
        and(b, from, index_is(b, shape, dim, comparison, last)?)
    };
    // Outside the block the rotations are the identity, and so is the shift: that keeps what was found as it is.
    let shifted = and(b, on_diagonal(b, &shape)?, within(b, &shape, 1, Comparison::Le)?)?;
    let by = b.broadcast_in_dim(shift(b, h, last, steps)?, &shape, &[0])?;
    let h = b.select(shifted, b.subtract(h, by)?, h)?;
    let pairs = within(b, &[shape[0], shape[1] - 1], 1, Comparison::Lt)?;
    let ends = [b.reduce(first, Reducer::Minimum, &[0])?, b.reduce(last, Reducer::Maximum, &[0])?];
    let [r, cosines, sines] = rows_rotated(b, h, pairs, ends)?;
    // What the rotations took away is exactly nothing.
    let lower = b.compare(Comparison::Gt, b.iota(DType::I32, &shape, 1)?, b.iota(DType::I32, &shape, 2)?)?;
    let gone = and(b, lower, within(b, &shape, 2, Comparison::Lt)?)?;
    let r = b.select(gone, zeros_like(b, r)?, r)?;
    let mut stacked = vec![r];
    stacked.extend(&factors[1..]);
    let turned = columns_rotated(b, b.concatenate(&stacked, 1)?, cosines, sines, ends)?;
    let part = |i: usize| b.slice_dim(turned, 1, i * shape[1], (i + 1) * shape[1], 1);
    let h = part(0)?;
    let mut next = vec![b.select(shifted, b.add(h, by)?, h)?];
    for i in 1..factors.len() {
        next.push(part(i)?);
    }
    Ok(next)
}

/// `step` for each `k` from the first to before the last of `ends`, with what is carried.
fn for_pairs(
    b: &Builder,
    [first, last]: [ValueId; 2],
    carried: &[ValueId],
    step: impl Fn(&Builder, ValueId, &[ValueId]) -> Result<Vec<ValueId>>,
) -> Result<Vec<ValueId>> {
    let mut all = vec![first, last];
    all.extend(carried);
    let done = repeat_while(
        b,
        &all,
        |b, given| b.compare(Comparison::Lt, given[0], given[1]),
        |b, given| {
            let mut next = vec![b.add(given[0], b.scalar(Number::Int(1), DType::I32)?)?, given[1]];
            next.extend(step(b, given[0], &given[2..])?);
            Ok(next)
        },
    )?;
    Ok(done[2..].to_vec())
}

/// Rotates rows `k` and `k + 1` so that the element below the diagonal goes, one `k` after the other, where `pairs`
/// (`bool[batch, n - 1]`) holds: gives the matrices and the rotations' cosines and sines.
fn rows_rotated(b: &Builder, h: ValueId, pairs: ValueId, ends: [ValueId; 2]) -> Result<[ValueId; 3]> {
    let dtype = b.dtype(h);
    let flat = b.shape(pairs);
    let (cosines, sines) = (b.full(Number::Int(1), dtype, &flat)?, b.full(Number::Int(0), dtype, &flat)?);
    let done = for_pairs(b, ends, &[h, cosines, sines, pairs], |b, k, carried| {
        let (h, pairs) = (carried[0], carried[3]);
        let rows = part(b, h, 1, k, 2)?;
        let heads = part(b, rows, 2, k, 1)?;
        let (batch, n) = (b.shape(rows)[0], b.shape(rows)[2]);
        let pair = |v: ValueId, i: usize| b.slice_dim(v, 1, i, i + 1, 1);
        let flat = |v| b.reshape(v, &[batch, 1]);
        let heads = [flat(pair(heads, 0)?)?, flat(pair(heads, 1)?)?];
        let [cosine, sine] = rotation(b, heads, part(b, pairs, 1, k, 1)?)?;
        let spread = |v| b.broadcast_in_dim(v, &[batch, 1, n], &[0, 1]);
        let (x, y) = (pair(rows, 0)?, pair(rows, 1)?);
        let upper =
            b.add(b.multiply(spread(conjugate(b, cosine)?)?, x)?, b.multiply(spread(conjugate(b, sine)?)?, y)?)?;
        let lower = b.subtract(b.multiply(spread(cosine)?, y)?, b.multiply(spread(sine)?, x)?)?;
        let h = with_part(b, h, b.concatenate(&[upper, lower], 1)?, 1, k)?;
        let [cosines, sines] = [with_part(b, carried[1], cosine, 1, k)?, with_part(b, carried[2], sine, 1, k)?];
        Ok(vec![h, cosines, sines, pairs])
    })?;
    Ok([done[0], done[1], done[2]])
}

/// The cosine and the sine, both complex, that turn two `heads` into a length and 0; 1 and 0 where that is not `wanted`.
fn rotation(b: &Builder, heads: [ValueId; 2], wanted: ValueId) -> Result<[ValueId; 2]> {
    let [x, y] = [squared(b, heads[0])?, squared(b, heads[1])?];
    let length = formula(b, [x, y], |[x, y]| (x + y).sqrt())?;
    let zero = b.compare(Comparison::Eq, length, zeros_like(b, length)?)?;
    let wanted = and(b, wanted, b.unary(Unary::Not, zero)?)?;
    let divisor = b.convert(b.select(wanted, length, b.full_like(length, Number::Int(1))?)?, b.dtype(heads[0]))?;
    let part = |head: ValueId, otherwise: i64| {
        b.select(wanted, b.divide(head, divisor)?, b.full_like(head, Number::Int(otherwise))?)
    };
    Ok([part(heads[0], 1)?, part(heads[1], 0)?])
}

/// The adjoints of the rotations that [`rows_rotated`] gives, applied to columns `k` and `k + 1` of `v`.
fn columns_rotated(b: &Builder, v: ValueId, cosines: ValueId, sines: ValueId, ends: [ValueId; 2]) -> Result<ValueId> {
    let done = for_pairs(b, ends, &[v, cosines, sines], |b, k, carried| {
        let pair = part(b, carried[0], 2, k, 2)?;
        let (x, y) = (b.slice_dim(pair, 2, 0, 1, 1)?, b.slice_dim(pair, 2, 1, 2, 1)?);
        let spread = |v| b.broadcast_in_dim(v, &b.shape(x), &[0, 2]);
        let (cosine, sine) = (part(b, carried[1], 1, k, 1)?, part(b, carried[2], 1, k, 1)?);
        let first = b.add(b.multiply(x, spread(cosine)?)?, b.multiply(y, spread(sine)?)?)?;
        let second =
            b.subtract(b.multiply(y, spread(conjugate(b, cosine)?)?)?, b.multiply(x, spread(conjugate(b, sine)?)?)?)?;
        let v = with_part(b, carried[0], b.concatenate(&[first, second], 2)?, 2, k)?;
        Ok(vec![v, carried[1], carried[2]])
    })?;
    Ok(done[0])
}

/// Eigenvectors of upper triangular matrices, as columns, of sizes up to about 1: row by row from below, for all
/// eigenvalues at once.
fn substituted(b: &Builder, t: ValueId) -> Result<ValueId> {
    let shape = b.shape(t);
    let n = shape[1];
    let done = repeat(b, n, &[identity(b, b.dtype(t), &shape)?, t], |b, step, carried| {
        let (x, t) = (carried[0], carried[1]);
        let k = b.subtract(b.scalar(Number::Int(n as i64 - 1), DType::I32)?, step)?;
        let on = diagonal(b, t)?;
        let flat = b.shape(on);
        let own = row(b, t, k)?;
        let right = index_is(b, &flat, 1, Comparison::Gt, k)?;
        let factors = b.select(right, own, zeros_like(b, own)?)?;
        let sums = b.reduce(b.multiply(down(b, factors, &shape)?, x)?, Reducer::Add, &[1])?;
        let head = picked(b, own, index_is(b, &flat, 1, Comparison::Eq, k)?, 1)?;
        let gap = gap(b, on, b.broadcast_in_dim(head, &flat, &[0])?)?;
        let found = b.divide(sums, gap)?;
        // The columns to the right get an element; each is made smaller if that is large.
        let shrink = formula(b, [found], |[v]| 1.0 / v.abs().max(1.0))?;
        let shrink = in_type_of(b, b.select(right, shrink, b.full_like(shrink, Number::Int(1))?)?, x)?;
        let is_new = and(b, index_is(b, &shape, 1, Comparison::Eq, k)?, index_is(b, &shape, 2, Comparison::Gt, k)?)?;
        let next = b.select(is_new, across(b, found, &shape)?, x)?;
        Ok(vec![b.multiply(next, across(b, shrink, &shape)?)?, t])
    })?;
    Ok(done[0])
}

/// How far `values` lie from `head`, at least by a rounding of matrices whose largest elements are about 1.
fn gap(b: &Builder, values: ValueId, head: ValueId) -> Result<ValueId> {
    let least = epsilon(b.dtype(values));
    formula(b, [values, head], |[v, h]| {
        let gap = v - h;
        gap.abs().less(least).select(gap.constant(least), gap)
    })
}
