//! Factors `L D L^T` of symmetric matrices, or `L D L^H` of Hermitian ones, with pivots of one or two rows as Bunch and
//! Kaufman choose them, and in LAPACK's storage: D on the diagonal and, for pivots of two rows, beside it; L below.
//!
//! The matrices of a batch may be at different rows in the same step.

use super::super::{Call, OpDef, Outs, err, many, ok, one};
use super::lu::pivot_size;
use super::*;
use crate::ops::loops::{anywhere, repeat_at_most};

/// Pivots of two rows limit the growth of elements best if smaller ones of one row are refused: `(1 + sqrt(17)) / 8`.
const LEAST_SHARE: f64 = 0.640_388_203_202_208_4;

pub(super) const OPS: &[OpDef] = &[
    OpDef::new(
        "aten::linalg_ldl_factor_ex(Tensor self, *, bool hermitian=False, bool check_errors=False) -> (Tensor LD, Tensor pivots, Tensor info)",
        factor,
        &[
            ok("f32[3,3]{4,9,9,1,5,9,2,3,6}"),
            // Pivots of two rows, and ones from further below.
            ok("f64[4,4]{0,9,9,9,1,0,9,9,2,3,0,9,4,-5,6,0}"),
            ok("f64[4,4]{1,9,9,9,5,1,9,9,0,2,7,9,1,3,0.5,9}"),
            ok("f64[2,3,3]{0.125,9,9,1,5,9,2,3,6,0,9,9,1,0,9,0,0,2}"),
            ok("f32[2,2]{0}"),
            ok("f64[3,3]{0,9,9,0,2,9,0,1,1}"),
            ok("c128[4,4]"),
            ok("c128[2,4,4], hermitian=true"),
            ok("f32[1,1]"),
            ok("f32[2,0,0]"),
            err("f32[2,3]", "torch.linalg.ldl_factor_ex: A must be batches of square matrices, but they are 2 by 3 matrices"),
            err("f16[2,2]", "\"ldl_factor_kernel_cpu\" not implemented for 'Half'"),
        ],
    ).asked()
    .variants(&["linalg_ldl_factor_ex.out"]),
    OpDef::new(
        "aten::linalg_ldl_solve(Tensor LD, Tensor pivots, Tensor B, *, bool hermitian=False) -> Tensor",
        solve,
        &[
            ok("f32[3,3]{4,9,9,0.5,5,9,2,0.25,6}, i32[3]{3,2,3}, f32[3,2]"),
            ok("f64[4,4]{0,9,9,9,2,1,9,9,0.5,0.25,5,9,2,1,-1,2}, i32[4]{-3,-3,4,4}, f64[4,2]"),
            ok("f64[2,3,3]{4,9,9,0.5,1,9,2,3,1,1,9,9,4,2,9,2,3,1}, i32[2,3]{1,-3,-3,-2,-2,3}, f64[2,3,1]{1,2,3}"),
            ok("c128[3,3]{4,9,9,1j,5,9,2,1j,6}, i32[3]{3,-3,-3}, c128[2,3,2]"),
            ok("c128[3,3]{4,9,9,1j,5,9,2,1j,6}, i32[3]{-3,-3,3}, c128[3,2], hermitian=true"),
            ok("f32[0,0], i32[0], f32[0,2]"),
            err("f32[3,3], i32[3]{1,2,3}, f32[4,2]", "Incompatible matrix sizes for torch.linalg.ldl_solve"),
            err("f32[3,3], i32[2]{1,2}, f32[3,2]", "Expected LD.shape[:-1] and pivots.shape to be the same"),
            err("f32[3,3], f32[3], f32[3,2]", "torch.linalg.ldl_solve: Expected pivots to be integers. Got Float"),
        ],
    ).asked()
    .variants(&["linalg_ldl_solve.out"]),
];

/// `v` turned over as the factors are: conjugated for Hermitian matrices.
fn turned(b: &Builder, v: ValueId, hermitian: bool) -> Result<ValueId> {
    if hermitian { conjugate(b, v) } else { Ok(v) }
}

fn factor(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let op = "torch.linalg.ldl_factor_ex";
    let (given, hermitian) = (c.tensor(b, "self")?, c.flag("hermitian")?);
    let a = Matrices::square(b, given, op, "ldl_factor_kernel_cpu")?;
    let shape = a.shape();
    let lower = triangle(b, a.v, false)?;
    let other = turned(b, transposed(b, lower)?, hermitian)?;
    let mut full = b.select(on_diagonal(b, &shape)?, lower, b.add(lower, other)?)?;
    if hermitian {
        full = made_real(b, full, on_diagonal(b, &shape)?)?;
    }
    let zeros = |shape: &[usize]| b.full(Number::Int(0), DType::I32, shape);
    let flat = &shape[..1];
    let start = [full, zeros(&shape[..2])?, zeros(flat)?, zeros(flat)?];
    let n = a.n as i64;
    let is_left = |b: &Builder, carried: &[ValueId]| {
        let k = carried[3];
        Ok(Some(anywhere(b, b.compare(Comparison::Lt, k, b.full_like(k, Number::Int(n))?)?)?))
    };
    let done = repeat_at_most(b, a.n, &start, is_left, |b, _, carried| step(b, carried, hermitian))?;
    let packed = triangle(b, done[0], false)?;
    many([a.unbatched(b, packed)?, a.unbatched(b, done[1])?, a.unbatched(b, done[2])?])
}

/// The pivot of a step, each `[batch]`.
struct Pivot {
    /// Whether it has two rows.
    double: ValueId,
    /// Whether there is nothing to divide by.
    nothing: ValueId,
    /// The row that comes to the pivot's only or second place.
    from: ValueId,
}

impl Pivot {
    /// The pivot for rows `k` and below of `a`.
    fn new(b: &Builder, a: ValueId, k: ValueId) -> Result<Pivot> {
        let size = pivot_size(b, column(b, a, k)?)?;
        let shape = b.shape(size);
        let at = |v, i| picked(b, v, index_is(b, &shape, 1, Comparison::Eq, i)?, 1);
        let largest = |v: ValueId, mask: ValueId| -> Result<[ValueId; 2]> {
            let v = b.select(mask, v, zeros_like(b, v)?)?;
            let (most, place) = b.reduce_arg(v, b.iota(DType::I32, &shape, 1)?, Reducer::ArgMax, &[1])?;
            Ok([most, place])
        };
        let own = at(size, k)?;
        let [below, place] = largest(size, index_is(b, &shape, 1, Comparison::Gt, k)?)?;
        let other = pivot_size(b, column(b, a, place)?)?;
        let is_other = index_is(b, &shape, 1, Comparison::Eq, place)?;
        let beside = and(b, index_is(b, &shape, 1, Comparison::Ge, k)?, b.unary(Unary::Not, is_other)?)?;
        let [beside, _] = largest(other, beside)?;
        let nothing = formula(b, [own, below], |[o, m]| o.max(m).equals(0.0))?;
        let or = |x, y| b.binary(Binary::Or, x, y);
        let large = formula(b, [own, below], |[o, m]| o.at_least(m * LEAST_SHARE))?;
        let larger = formula(b, [own, below, beside], |[o, m, s]| o.at_least(m * LEAST_SHARE * (m / s)))?;
        let stays = or(nothing, or(large, larger)?)?;
        let swaps = formula(b, [at(other, place)?, beside], |[o, s]| o.at_least(s * LEAST_SHARE))?;
        let double = b.unary(Unary::Not, or(stays, swaps)?)?;
        Ok(Pivot { double, nothing, from: b.select(stays, k, place)? })
    }
}

/// One step, from row `k` on; `[a, pivots, info, k]`.
fn step(b: &Builder, carried: &[ValueId], hermitian: bool) -> Result<Vec<ValueId>> {
    let [a, pivots, info, k] = carried[..] else { crate::invalid!("{} values carried", carried.len()) };
    let shape = b.shape(a);
    let one = b.full_like(k, Number::Int(1))?;
    let p = Pivot::new(b, a, k)?;
    let second = b.add(k, one)?;
    let last = b.select(p.double, second, k)?;
    let a = swapped(b, a, k, last, p.from)?;
    let a = eliminated(b, a, k, &p, hermitian)?;

    let place = b.add(p.from, one)?;
    let place = b.select(p.double, b.negate(place)?, place)?;
    let flat = b.shape(pivots);
    let own = and(b, index_is(b, &flat, 1, Comparison::Ge, k)?, index_is(b, &flat, 1, Comparison::Le, last)?)?;
    let pivots = b.select(own, b.broadcast_in_dim(place, &flat, &[0])?, pivots)?;
    let first = b.compare(Comparison::Eq, info, zeros_like(b, info)?)?;
    let is_left = b.compare(Comparison::Lt, k, b.full_like(k, Number::Int(shape[1] as i64))?)?;
    let fails = and(b, and(b, p.nothing, is_left)?, first)?;
    Ok(vec![a, pivots, b.select(fails, second, info)?, b.add(last, one)?])
}

/// Rows and columns `i` and `j` of the matrices in rows and columns from `k` on exchanged.
fn swapped(b: &Builder, a: ValueId, k: ValueId, i: ValueId, j: ValueId) -> Result<ValueId> {
    let shape = b.shape(a);
    let is = |dim, comparison, v| index_is(b, &shape, dim, comparison, v);
    let right = is(2, Comparison::Ge, k)?;
    let (x, y) = (across(b, row(b, a, i)?, &shape)?, across(b, row(b, a, j)?, &shape)?);
    let swapped = b.select(is(1, Comparison::Eq, i)?, y, b.select(is(1, Comparison::Eq, j)?, x, a)?)?;
    let a = b.select(right, swapped, a)?;
    let below = is(1, Comparison::Ge, k)?;
    let (x, y) = (down(b, column(b, a, i)?, &shape)?, down(b, column(b, a, j)?, &shape)?);
    let swapped = b.select(is(2, Comparison::Eq, i)?, y, b.select(is(2, Comparison::Eq, j)?, x, a)?)?;
    b.select(below, swapped, a)
}

/// The pivot at `k` taken out of the rows and columns behind it, its factors in its columns.
fn eliminated(b: &Builder, a: ValueId, k: ValueId, p: &Pivot, hermitian: bool) -> Result<ValueId> {
    let shape = b.shape(a);
    let second = b.add(k, b.full_like(k, Number::Int(1))?)?;
    let last = b.select(p.double, second, k)?;
    let (x, y) = (column(b, a, k)?, column(b, a, second)?);
    let flat = b.shape(x);
    let at = |v, i| picked(b, v, index_is(b, &flat, 1, Comparison::Eq, i)?, 1);
    let each = |v| b.broadcast_in_dim(v, &flat, &[0]);
    let (head, beside, other) = (at(x, k)?, at(x, second)?, at(y, second)?);
    let only = |v, mask: ValueId| b.select(mask, v, b.full_like(v, Number::Int(1))?);

    let single = b.unary(Unary::Not, b.binary(Binary::Or, p.double, p.nothing)?)?;
    let alone = b.divide(x, each(only(head, single)?)?)?;
    let beside = only(beside, p.double)?;
    let (low, high) = (beside, turned(b, beside, hermitian)?);
    let (r, s) = (b.divide(other, low)?, b.divide(head, high)?);
    let rest = only(formula(b, [r, s], |[r, s]| r * s - 1.0)?, p.double)?;
    let part = |u: ValueId, v: ValueId, factor: ValueId, divisor: ValueId| {
        let above = b.subtract(b.multiply(u, each(factor)?)?, v)?;
        b.divide(above, each(b.multiply(divisor, rest)?)?)
    };
    let behind = index_is(b, &flat, 1, Comparison::Gt, last)?;
    let double = each(p.double)?;
    let first = b.select(double, part(x, y, r, high)?, alone)?;
    let first = b.select(behind, first, zeros_like(b, x)?)?;
    let next = b.select(and(b, behind, double)?, part(y, x, s, low)?, zeros_like(b, x)?)?;

    let share = |l, v| b.multiply(down(b, l, &shape)?, across(b, turned(b, v, hermitian)?, &shape)?);
    let mut reduced = b.subtract(a, b.add(share(first, x)?, share(next, y)?)?)?;
    if hermitian {
        // A rounding that is left to itself grows from step to step.
        reduced = made_real(b, reduced, on_diagonal(b, &shape)?)?;
    }
    let is = |dim, comparison, v| index_is(b, &shape, dim, comparison, v);
    let (below, right) = (is(1, Comparison::Gt, last)?, is(2, Comparison::Gt, last)?);
    let a = b.select(and(b, below, right)?, reduced, a)?;
    let a = b.select(and(b, below, is(2, Comparison::Eq, k)?)?, down(b, first, &shape)?, a)?;
    let is_second = and(b, is(2, Comparison::Eq, second)?, down_flag(b, p.double, &shape)?)?;
    b.select(and(b, below, is_second)?, down(b, next, &shape)?, a)
}

/// A flag per matrix, for each of its elements.
fn down_flag(b: &Builder, flag: ValueId, shape: &[usize]) -> Result<ValueId> {
    b.broadcast_in_dim(flag, shape, &[0])
}

fn solve(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let op = "torch.linalg.ldl_solve";
    let (ld, pivots, y) = (c.tensor(b, "LD")?, c.tensor(b, "pivots")?, c.tensor(b, "B")?);
    let hermitian = c.flag("hermitian")?;
    Matrices::square(b, ld, op, "ldl_solve_kernel_cpu")?;
    ensure!(b.rank(y) >= 2, "{op}: B must have at least 2 dimensions");
    let (s, t) = (b.shape(ld), b.shape(y));
    let (n, [rows, columns]) = (s[s.len() - 1], [t[t.len() - 2], t[t.len() - 1]]);
    ensure!(
        n == rows,
        "Incompatible matrix sizes for {op}: each A matrix is {n} by {n} but each b matrix is {rows} by {columns}"
    );
    ensure!(
        b.shape(pivots)[..] == s[..s.len() - 1],
        "{op}: Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots with shape {:?} instead",
        b.shape(pivots)
    );
    let d = b.dtype(pivots);
    ensure!(d.is_int(), "{op}: Expected pivots to be integers. Got {}", torch_name(d));
    let [d, e] = [b.dtype(ld), b.dtype(y)];
    ensure!(
        d == e,
        "Expected b and A to have the same dtype, but found b of type {} and A of type {} instead.",
        torch_name(e),
        torch_name(d)
    );
    let [full, y] = common_batch(b, ld, y)?;
    let mut lead = b.shape(full);
    lead.pop();
    let pivots = b.convert(broadcast_to(b, pivots, &lead)?, DType::I32)?;
    let (full, y) = (Matrices::new(b, full)?, Matrices::new(b, y)?);
    if y.shape().contains(&0) {
        return one(y.unbatched(b, y.v)?);
    }
    let f = Factors::new(b, full.v, b.reshape(pivots, &[full.batch(), n])?, hermitian)?;
    let x = f.unpacked(b, y.v, false)?;
    let x = f.unpacked(b, f.divided(b, x)?, true)?;
    one(y.unbatched(b, x)?)
}

/// Factors to solve with.
struct Factors {
    ld: ValueId,
    /// `i32[batch, n]`: the row, counted from 0, that the row of a pivot, its second one if it has two, was swapped with.
    places: ValueId,
    /// `i32[batch, n]`: 0 for a pivot of one row, 1 and 2 for the rows of one of two.
    parts: ValueId,
    hermitian: bool,
}

impl Factors {
    fn new(b: &Builder, ld: ValueId, pivots: ValueId, hermitian: bool) -> Result<Factors> {
        let shape = b.shape(pivots);
        let none = b.full(Number::Int(0), DType::I32, &shape[..1])?;
        let start = [b.full(Number::Int(0), DType::I32, &shape)?, none, pivots];
        let parts = repeat(b, shape[1], &start, |b, k, carried| {
            let (parts, before, pivots) = (carried[0], carried[1], carried[2]);
            let own = index_is(b, &shape, 1, Comparison::Eq, k)?;
            let pivot = picked(b, pivots, own, 1)?;
            let part = formula(b, [before, pivot], |[before, p]| {
                let of_two = before.equals(1.0).select(p.constant(2.0), 1.0);
                p.less(0.0).select(of_two, 0.0)
            })?;
            Ok(vec![b.select(own, b.broadcast_in_dim(part, &shape, &[0])?, parts)?, part, pivots])
        })?;
        let places = formula(b, [pivots], |[p]| p.abs() - 1.0)?;
        Ok(Factors { ld, places, parts: parts[0], hermitian })
    }

    /// The X in `L X = y`, with L's exchanges of rows, or in its transpose or adjoint.
    fn unpacked(&self, b: &Builder, y: ValueId, transpose: bool) -> Result<ValueId> {
        let n = b.shape(self.ld)[1];
        let carried = [y, self.ld, self.places, self.parts];
        let hermitian = self.hermitian;
        let done = repeat(b, n, &carried, |b, step, carried| {
            let (mut x, ld, places, parts) = (carried[0], carried[1], carried[2], carried[3]);
            let shape = b.shape(x);
            let last = b.scalar(Number::Int(n as i64 - 1), DType::I32)?;
            let k = if transpose { b.subtract(last, step)? } else { step };
            let flat = b.shape(places);
            let own = index_is(b, &flat, 1, Comparison::Eq, k)?;
            let (place, part) = (picked(b, places, own, 1)?, picked(b, parts, own, 1)?);
            let k = b.broadcast_in_dim(k, &flat[..1], &[])?;
            // The last row of the pivot, unless `k` is its second: that was swapped with the first.
            let second = formula(b, [part], |[p]| p.equals(2.0))?;
            let end = formula(b, [k, part], |[k, p]| p.equals(1.0).select(k + 1.0, k))?;
            let place = b.select(second, k, place)?;
            let factors = column(b, ld, k)?;
            let behind = index_is(b, &flat, 1, Comparison::Gt, end)?;
            let factors = b.select(behind, factors, zeros_like(b, factors)?)?;
            if transpose {
                let factors = down(b, turned(b, factors, hermitian)?, &shape)?;
                let sums = b.reduce(b.multiply(factors, x)?, Reducer::Add, &[1])?;
                let here = index_is(b, &shape, 1, Comparison::Eq, k)?;
                x = b.select(here, b.subtract(x, across(b, sums, &shape)?)?, x)?;
                x = rows_swapped(b, x, end, place)?;
            } else {
                x = rows_swapped(b, x, end, place)?;
                let taken = b.multiply(down(b, factors, &shape)?, across(b, row(b, x, k)?, &shape)?)?;
                x = b.subtract(x, taken)?;
            }
            Ok(vec![x, ld, places, parts])
        })?;
        Ok(done[0])
    }

    /// The X in `D X = y`.
    fn divided(&self, b: &Builder, y: ValueId) -> Result<ValueId> {
        let shape = b.shape(y);
        let n = shape[1];
        let zero = b.scalar(Number::Int(0), b.dtype(y))?;
        // The row above or below each.
        let moved = |v: ValueId, by: i64| {
            let rank = b.rank(v);
            let along = |by: i64| (0..rank).map(|d| if d == 1 { by } else { 0 }).collect::<Vec<i64>>();
            b.pad(v, zero, &along(by), &along(-by), &vec![0; rank])
        };
        let on = diagonal(b, self.ld)?;
        let beside = diagonal(b, b.slice(self.ld, &[0, 1, 0], &[shape[0], n, n - 1], &[1, 1, 1])?)?;
        let low = b.pad(beside, zero, &[0, 0], &[0, 1], &[0, 0])?;
        let is_part = |part: i64| b.compare(Comparison::Eq, self.parts, b.full_like(self.parts, Number::Int(part))?);
        let (first, second) = (is_part(1)?, is_part(2)?);
        // For both rows of a pivot of two what stands beside their elements of the diagonal, each in its own row.
        let own = turned(b, low, self.hermitian)?;
        let beside = b.select(first, own, b.select(second, moved(low, 1)?, b.full_like(low, Number::Int(1))?)?)?;
        let other = b.select(first, low, b.select(second, moved(own, 1)?, b.full_like(low, Number::Int(1))?)?)?;
        let neighbour = b.select(first, moved(on, -1)?, moved(on, 1)?)?;
        let (ratio, other_ratio) = (b.divide(on, beside)?, b.divide(neighbour, other)?);
        let rest = formula(b, [ratio, other_ratio], |[p, q]| p * q - 1.0)?;
        let spread = |v| down(b, v, &shape);
        let across_rows = b.select(spread(first)?, moved(y, -1)?, moved(y, 1)?)?;
        let (scaled, neighbour) = (b.divide(y, spread(beside)?)?, b.divide(across_rows, spread(other)?)?);
        let double = b.divide(b.subtract(b.multiply(spread(other_ratio)?, scaled)?, neighbour)?, spread(rest)?)?;
        let is_single = spread(is_part(0)?)?;
        b.select(is_single, b.divide(y, spread(on)?)?, double)
    }
}

/// Rows `i` and `j`, one each a matrix, exchanged.
fn rows_swapped(b: &Builder, v: ValueId, i: ValueId, j: ValueId) -> Result<ValueId> {
    let shape = b.shape(v);
    let (x, y) = (across(b, row(b, v, i)?, &shape)?, across(b, row(b, v, j)?, &shape)?);
    let (is_i, is_j) = (index_is(b, &shape, 1, Comparison::Eq, i)?, index_is(b, &shape, 1, Comparison::Eq, j)?);
    b.select(is_i, y, b.select(is_j, x, v)?)
}
