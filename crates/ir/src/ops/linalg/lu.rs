//! LU factors with partial pivoting, and what is computed with them.

use super::super::index::{put_along, take_along};
use super::super::{Call, OpDef, Outs, err, many, ok, one};
use super::triangular::{Side, solve_triangular};
use super::*;
use crate::op::Combiner;
use crate::ops::views::layout::is_contiguous;

/// A matrix that needs pivots, and one whose neighbours need other ones.
macro_rules! matrix {
    ($dtype:literal) => {
        concat!($dtype, "[3,3]{1,5,3,4,1,2,2,3,6}")
    };
}

pub(super) const OPS: &[OpDef] = &[
    OpDef::new(
        "aten::linalg_lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False) -> (Tensor LU, Tensor pivots, Tensor info)",
        |c, b| {
            let a = Matrices::of(b, c.tensor(b, "A")?, "torch.lu_factor", "lu_factor_cpu")?;
            pivoting(c, "linalg.lu_factor")?;
            let f = Factors::new(b, &a)?;
            many([a.unbatched(b, f.lu)?, a.unbatched(b, f.pivots)?, a.unbatched(b, f.info)?])
        },
        &[
            ok(matrix!("f32")),
            ok("f64[2,4,3]{1,5,3,4,1,2,2,3,6,7,9,1,-5}"),
            ok("f64[2,3]{1,5,3,4,1,2}"),
            ok("f32[3,3]{0}"),
            ok("f32[0,3,3]"),
            ok("c64[3,3]"),
            ok("c128[2,3,4]"),
            err("f32[3,3], pivot=false", "linalg.lu_factor: LU without pivoting is not implemented on the CPU"),
            err("i64[3,3]", "Expected a floating point or complex tensor as input. Got Long"),
        ],
    ).asked()
    .variants(&["linalg_lu_factor_ex.out"]),
    OpDef::new(
        "aten::linalg_lu(Tensor A, *, bool pivot=True) -> (Tensor P, Tensor L, Tensor U)",
        |c, b| {
            let a = Matrices::of(b, c.tensor(b, "A")?, "linalg.lu", "lu_factor_cpu")?;
            pivoting(c, "linalg.lu")?;
            let f = Factors::new(b, &a)?;
            let [l, u] = f.unpacked(b)?;
            many([a.unbatched(b, f.permutation_matrix(b)?)?, a.unbatched(b, l)?, a.unbatched(b, u)?])
        },
        &[ok(matrix!("f32")), ok("f64[2,4,3]{1,5,3,4,1,2,2,3,6,7,9,1,-5}"), ok("f64[2,3]{1,5,3,4,1,2}")],
    ).asked()
    .variants(&["linalg_lu.out"]),
    OpDef::new(
        "aten::lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool unpack_pivots=True) -> (Tensor P, Tensor L, Tensor U)",
        lu_unpack,
        &[
            ok("f32[3,3], i32[3]{2,3,3}"),
            ok("f32[2,4,3], i32[2,3]{2,4,3,1,2,3}"),
            ok("f32[2,3], i32[2]{2,2}, true, false"),
            ok("f32[2,3], i32[2]{2,2}, false, true"),
            err("f32[2,3], i64[2]{2,2}", "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32"),
        ],
    ).asked()
    .variants(&["lu_unpack.out"]),
    OpDef::new(
        "aten::_linalg_det(Tensor A) -> (Tensor result, Tensor LU, Tensor pivots)",
        |c, b| {
            let (a, f) = factored(c, b, "linalg.det")?;
            let diagonal = diagonal(b, f.lu)?;
            let determinant = b.multiply(b.reduce(diagonal, Reducer::Multiply, &[1])?, f.parity(b)?)?;
            many([a.unbatched(b, determinant)?, a.unbatched(b, f.lu)?, a.unbatched(b, f.pivots)?])
        },
        &[
            ok(matrix!("f32")),
            ok("f64[2,2,2]{1,5,3,4,1,2,2}"),
            ok("f64[3,3]:[1,3]{1,5,3,4,1,2,2,3,6}"),
            ok("f32[0,0]"),
            ok("c128[3,3]"),
            err("f32[2,3]", "linalg.det: A must be batches of square matrices, but they are 2 by 3 matrices"),
        ],
    ).asked()
    .variants(&["_linalg_det.result"]),
    OpDef::new(
        "aten::_linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet, Tensor LU, Tensor pivots)",
        |c, b| {
            let (a, f) = factored(c, b, "linalg.slogdet")?;
            let diagonal = diagonal(b, f.lu)?;
            let signs = b.reduce(b.unary(Unary::Sign, diagonal)?, Reducer::Multiply, &[1])?;
            let logs = formula(b, [diagonal], |[d]| d.abs().ln())?;
            let (sign, log) = (b.multiply(signs, f.parity(b)?)?, b.reduce(logs, Reducer::Add, &[1])?);
            many([a.unbatched(b, sign)?, a.unbatched(b, log)?, a.unbatched(b, f.lu)?, a.unbatched(b, f.pivots)?])
        },
        &[ok(matrix!("f32")), ok("f64[2,2,2]{1,5,3,4,1,2,2}"), ok("f32[3,3]{0}"), ok("f32[2,0,0]"), ok("c128[2,3,3]")],
    ).asked()
    .variants(&["_linalg_slogdet.sign"]),
    OpDef::new(
        "aten::linalg_inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info)",
        |c, b| {
            let a = Matrices::square(b, c.tensor(b, "A")?, "linalg.inv", "inverse_cpu")?;
            let f = Factors::new(b, &a)?;
            let inverse = f.solve(b, identity(b, b.dtype(a.v), &a.shape())?, false)?;
            many([a.unbatched(b, inverse)?, a.unbatched(b, f.info)?])
        },
        &[
            ok(matrix!("f32")),
            ok("f64[2,2,2]{1,5,3,4,1,2,2}"),
            ok("f32[0,0]"),
            ok("c128[2,3,3]"),
            err("f32[2,3]", "linalg.inv: A must be batches of square matrices, but they are 2 by 3 matrices"),
            err("f32[3]", "linalg.inv: The input tensor A must have at least 2 dimensions."),
        ],
    ).asked()
    .variants(&["linalg_inv_ex.inverse"]),
    OpDef::new(
        "aten::_linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> (Tensor result, Tensor LU, Tensor pivots, Tensor info)",
        solve,
        &[
            ok(concat!(matrix!("f32"), ", f32[3,2]")),
            ok(concat!(matrix!("f32"), ", f32[3]")),
            ok(concat!(matrix!("f64"), ", f64[2,3], left=false")),
            ok("f64[2,2,2]{1,5,3,4,1,2,2}, f64[2,2]"),
            ok("f64[2,1,2,2]{1,5,3,4,1,2,2}, f64[3,2,1]"),
            ok("f64[3,3]:[1,3]{1,5,3,4,1,2,2,3,6}, f64[3,2]"),
            ok("c128[3,3], c128[3,2]"),
            ok("c128[3,3], c128[2,3], left=false"),
            err("f32[3,3], f32[2,3]", "linalg.solve: Incompatible shapes of A and B for the equation AX = B (3x3 and 2x3)"),
        ],
    ).asked()
    .variants(&["_linalg_solve_ex.result"]),
    OpDef::new(
        "aten::linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False) -> Tensor",
        lu_solve,
        &[
            ok("f32[3,3]{4,1,2,0.25,5,3,0.5,0.25,6}, i32[3]{2,3,3}, f32[3,2]"),
            ok("f32[3,3]{4,1,2,0.25,5,3,0.5,0.25,6}, i32[3]{2,3,3}, f32[3,2], adjoint=true"),
            ok("f64[2,3,3]{4,1,2,0.25,5,3,0.5,0.25,6}, i32[2,3]{3,3,3,1,3,3}, f64[2,3], left=false"),
            ok("f64[3,3]{4,1,2,0.25,5,3,0.5,0.25,6}, i32[3]{2,3,3}, f64[2,2,3], left=false, adjoint=true"),
            ok("c128[3,3], i32[3]{2,3,3}, c128[2,3], left=false, adjoint=true"),
            ok("c128[3,3], i32[3]{2,3,3}, c128[3,2], adjoint=true"),
        ],
    ).asked()
    .variants(&["linalg_lu_solve.out"]),
];

fn pivoting(c: &Call<'_>, op: &str) -> Result<()> {
    ensure!(c.flag("pivot")?, "{op}: LU without pivoting is not implemented on the CPU");
    Ok(())
}

/// Factors of matrices `[batch, n, m]`.
struct Factors {
    /// Those of U on and above the diagonal, those of L below.
    lu: ValueId,
    /// `i32[batch, min(n, m)]`: the row, counted from 1, that each step swapped its own with.
    pivots: ValueId,
    /// `i32[batch]`: the first step, counted from 1, that found nothing but zeros; 0 if none did.
    info: ValueId,
}

/// Which of `rows` became each row by swaps with `pivots`, `i32[batch, r]`, counted from 1: `i32[batch, rows]`.
///
/// # Errors
/// `Internal`, if the pivots are of another type.
pub fn swapped(b: &Builder, pivots: ValueId, rows: usize) -> Result<ValueId> {
    let s = b.shape(pivots);
    let order = b.iota(DType::I32, &[s[0], rows], 1)?;
    let done = repeat(b, s[1], &[order, pivots], |b, k, carried| {
        let (order, pivots) = (carried[0], carried[1]);
        let pivot = picked(b, pivots, index_is(b, &b.shape(pivots), 1, Comparison::Eq, k)?, 1)?;
        let pivot = b.subtract(pivot, b.full_like(pivot, Number::Int(1))?)?;
        let (here, there) = (index_at(b, order, k)?, index_at(b, order, pivot)?);
        let [own, other] = [picked(b, order, here, 1)?, picked(b, order, there, 1)?];
        let each = |v| b.broadcast_in_dim(v, &b.shape(order), &[0]);
        Ok(vec![b.select(here, each(other)?, b.select(there, each(own)?, order)?)?, pivots])
    })?;
    Ok(done[0])
}

impl Factors {
    fn new(b: &Builder, a: &Matrices) -> Result<Factors> {
        let (batch, steps) = (a.batch(), a.n.min(a.m));
        let done = by_lapack(b, Lapack::Lu, &[a.v], |b, a| {
            let filled = |number: i64, shape: &[usize]| b.full(Number::Int(number), DType::I32, shape);
            // Nothing swaps where there is nothing to do.
            let ones = b.add(b.iota(DType::I32, &[batch, steps], 1)?, filled(1, &[batch, steps])?)?;
            repeat(b, steps, &[a[0], ones, filled(0, &[batch])?], eliminate)
        })?;
        Ok(Factors { lu: done[0], pivots: done[1], info: done[2] })
    }

    /// -1 where the rows were swapped an odd number of times, else 1: `[batch]`.
    fn parity(&self, b: &Builder) -> Result<ValueId> {
        let place = b.iota(DType::I32, &b.shape(self.pivots), 1)?;
        let own = b.add(place, b.full_like(place, Number::Int(1))?)?;
        let swapped = b.convert(b.compare(Comparison::Ne, self.pivots, own)?, DType::I32)?;
        let swaps = b.reduce(swapped, Reducer::Add, &[1])?;
        let parity = formula(b, [swaps], |[n]| 1.0 - n.fmod(2.0) * 2.0)?;
        b.convert(parity, b.dtype(self.lu))
    }

    /// Which row of the matrix became each row of the product of the factors: `i32[batch, n]`.
    fn order(&self, b: &Builder) -> Result<ValueId> {
        let rows = b.shape(self.lu)[1];
        let swapped = by_lapack(b, Lapack::Order, &[self.pivots], |b, pivots| Ok(vec![swapped(b, pivots[0], rows)?]))?;
        Ok(swapped[0])
    }

    /// P in `A = P L U`: `[batch, n, n]`.
    fn permutation_matrix(&self, b: &Builder) -> Result<ValueId> {
        let order = self.order(b)?;
        let s = b.shape(order);
        let shape = [s[0], s[1], s[1]];
        let is_row = b.compare(Comparison::Eq, b.iota(DType::I32, &shape, 1)?, across(b, order, &shape)?)?;
        b.convert(is_row, b.dtype(self.lu))
    }

    /// L, with ones on its diagonal, and U.
    fn unpacked(&self, b: &Builder) -> Result<[ValueId; 2]> {
        let s = b.shape(self.lu);
        let r = s[1].min(s[2]);
        let below = b.slice(self.lu, &[0, 0, 0], &[s[0], s[1], r], &[1, 1, 1])?;
        let shape = b.shape(below);
        let ones = b.full_like(below, Number::Int(1))?;
        let l = b.select(on_diagonal(b, &shape)?, ones, triangle(b, below, false)?)?;
        let u = triangle(b, b.slice(self.lu, &[0, 0, 0], &[s[0], r, s[2]], &[1, 1, 1])?, true)?;
        Ok([l, u])
    }

    /// The X in `A X = y`, or in `A^H X = y`, for `y` of `[batch, n, k]`.
    fn solve(&self, b: &Builder, y: ValueId, adjoint: bool) -> Result<ValueId> {
        let shape = b.shape(y);
        if shape.contains(&0) {
            return Ok(y);
        }
        let order = down(b, self.order(b)?, &shape)?;
        let (lower, upper) = (Side { upper: false, unit: true }, Side { upper: true, unit: false });
        if !adjoint {
            let permuted = take_along(b, y, 1, order)?;
            return solve_triangular(b, self.lu, solve_triangular(b, self.lu, permuted, lower)?, upper);
        }
        let turned = super::adjoint(b, self.lu)?;
        let half = solve_triangular(b, turned, y, Side { upper: false, unit: false })?;
        let permuted = solve_triangular(b, turned, half, Side { upper: true, unit: true })?;
        put_along(b, zeros_like(b, y)?, 1, order, permuted, Combiner::Set)
    }
}

/// Where the index along dimension 1 of `[batch, n]` is `k`.
fn index_at(b: &Builder, v: ValueId, k: ValueId) -> Result<ValueId> {
    index_is(b, &b.shape(v), 1, Comparison::Eq, k)
}

/// What pivots are chosen by: for complex numbers LAPACK takes the sum of their parts' sizes.
pub(super) fn pivot_size(b: &Builder, v: ValueId) -> Result<ValueId> {
    match b.dtype(v).is_complex() {
        true => formula(b, [v], |[z]| z.real().abs() + z.imag().abs()),
        false => b.unary(Unary::Abs, v),
    }
}

/// One step: the largest element on or below the diagonal comes to it, and goes out of the rows below.
fn eliminate(b: &Builder, k: ValueId, carried: &[ValueId]) -> Result<Vec<ValueId>> {
    let (a, pivots, info) = (carried[0], carried[1], carried[2]);
    let shape = b.shape(a);
    let left = column(b, a, k)?;
    let below = index_is(b, &b.shape(left), 1, Comparison::Ge, k)?;
    let size = pivot_size(b, left)?;
    let size = b.select(below, size, b.full_like(size, Number::Float(-1.0))?)?;
    let (_, pivot) = b.reduce_arg(size, b.iota(DType::I32, &b.shape(size), 1)?, Reducer::ArgMax, &[1])?;
    let (own, found) = (row(b, a, k)?, row(b, a, pivot)?);
    let is_own = index_is(b, &shape, 1, Comparison::Eq, k)?;
    let is_found = index_is(b, &shape, 1, Comparison::Eq, pivot)?;
    let swapped = b.select(is_found, across(b, own, &shape)?, a)?;
    let swapped = b.select(is_own, across(b, found, &shape)?, swapped)?;

    let head = picked(b, found, index_at(b, found, k)?, 1)?;
    let nothing = b.compare(Comparison::Eq, head, zeros_like(b, head)?)?;
    let divisor = b.select(nothing, b.full_like(head, Number::Int(1))?, head)?;
    let factors = b.divide(column(b, swapped, k)?, b.broadcast_in_dim(divisor, &b.shape(left), &[0])?)?;
    let factors = down(b, factors, &shape)?;
    let rows_below = index_is(b, &shape, 1, Comparison::Gt, k)?;
    let is_column = index_is(b, &shape, 2, Comparison::Eq, k)?;
    let right = index_is(b, &shape, 2, Comparison::Gt, k)?;
    let reduced = b.subtract(swapped, b.multiply(factors, across(b, found, &shape)?)?)?;
    let next = b.select(and(b, rows_below, is_column)?, factors, swapped)?;
    let next = b.select(and(b, rows_below, right)?, reduced, next)?;

    let one = b.full_like(pivot, Number::Int(1))?;
    let counted = b.broadcast_in_dim(b.add(pivot, one)?, &b.shape(pivots), &[0])?;
    let pivots = b.select(index_at(b, pivots, k)?, counted, pivots)?;
    let step = b.add(b.broadcast_in_dim(k, &b.shape(info), &[])?, one)?;
    let first = b.compare(Comparison::Eq, info, zeros_like(b, info)?)?;
    Ok(vec![next, pivots, b.select(and(b, nothing, first)?, step, info)?])
}

/// The square matrices `A` and their factors. For a determinant, PyTorch factors the transpose of a real matrix whose rows
/// lie together.
fn factored(c: &Call<'_>, b: &Builder, op: &str) -> Result<(Matrices, Factors)> {
    let a = Matrices::square(b, c.tensor(b, "A")?, op, "lu_factor_cpu")?;
    let turns = is_contiguous(&c.layout("A")?) && !b.dtype(a.v).is_complex();
    let a = if turns { a.transposed(b)? } else { a };
    let f = Factors::new(b, &a)?;
    Ok((a, f))
}

fn solve(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (a, mut y, left) = (c.tensor(b, "A")?, c.tensor(b, "B")?, c.flag("left")?);
    let own = Matrices::square(b, a, "linalg.solve", "lu_factor_cpu")?;
    let (s, t) = (b.shape(a), b.shape(y));
    let vector = t.len() == 1 || (t.len() + 1 == s.len() && t[..] == s[..s.len() - 1]);
    if vector {
        y = super::super::support::unsqueeze(b, y, &[t.len()])?;
    }
    let shape = b.shape(y);
    let (n, [rows, columns]) = (s[s.len() - 1], [shape[shape.len() - 2], shape[shape.len() - 1]]);
    let equation = if left { "AX = B" } else { "XA = B" };
    ensure!(
        n == if left { rows } else { columns },
        "linalg.solve: Incompatible shapes of A and B for the equation {equation} ({n}x{n} and {rows}x{columns})"
    );
    let f = Factors::new(b, &own)?;
    let packed = [own.unbatched(b, f.lu)?, own.unbatched(b, f.pivots)?];
    let mut x = solved(b, packed, y, left, false)?;
    if vector {
        let mut shape = b.shape(x);
        shape.pop();
        x = b.reshape(x, &shape)?;
    }
    many([x, packed[0], packed[1], own.unbatched(b, f.info)?])
}

/// The X in `A X = y` or `X A = y`, or with the adjoint of A, from its factors `[..., n, n]` and pivots `[..., n]`.
fn solved(b: &Builder, [lu, pivots]: [ValueId; 2], y: ValueId, left: bool, adjoint: bool) -> Result<ValueId> {
    let [full, y] = common_batch(b, lu, y)?;
    let mut lead = b.shape(full);
    lead.pop();
    let pivots = broadcast_to(b, pivots, &lead)?;
    let (full, y) = (Matrices::new(b, full)?, Matrices::new(b, y)?);
    let y = if left { y } else { y.adjoint(b)? };
    let n = full.n;
    let info = b.full(Number::Int(0), DType::I32, &[full.batch()])?;
    let f = Factors { lu: full.v, pivots: b.reshape(pivots, &[full.batch(), n])?, info };
    // `X A = y` is `A^H X^H = y^H`.
    let x = f.solve(b, y.v, adjoint == left)?;
    y.unbatched(b, if left { x } else { super::adjoint(b, x)? })
}

fn check_pivots(b: &Builder, op: &str, pivots: ValueId) -> Result<()> {
    let d = b.dtype(pivots);
    ensure!(
        d == DType::I32,
        "{op}: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype, but got {}",
        torch_name(d)
    );
    Ok(())
}

fn lu_solve(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (lu, pivots, y) = (c.tensor(b, "LU")?, c.tensor(b, "pivots")?, c.tensor(b, "B")?);
    Matrices::square(b, lu, "torch.linalg.lu_solve", "lu_solve_cpu")?;
    check_pivots(b, "torch.linalg.lu_solve", pivots)?;
    ensure!(b.rank(y) >= 2, "torch.linalg.lu_solve: The input tensor B must have at least 2 dimensions.");
    one(solved(b, [lu, pivots], y, c.flag("left")?, c.flag("adjoint")?)?)
}

fn lu_unpack(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (lu, pivots) = (c.tensor(b, "LU_data")?, c.tensor(b, "LU_pivots")?);
    check_pivots(b, "torch.lu_unpack", pivots)?;
    let a = Matrices::of(b, lu, "torch.lu_unpack", "lu_unpack_cpu")?;
    let steps = a.n.min(a.m);
    let info = b.full(Number::Int(0), DType::I32, &[a.batch()])?;
    let f = Factors { lu: a.v, pivots: b.reshape(pivots, &[a.batch(), steps])?, info };
    let none = || b.full(Number::Int(0), b.dtype(lu), &[0]);
    let p = if c.flag("unpack_pivots")? { a.unbatched(b, f.permutation_matrix(b)?)? } else { none()? };
    if !c.flag("unpack_data")? {
        return many([p, none()?, none()?]);
    }
    let [l, u] = f.unpacked(b)?;
    many([p, a.unbatched(b, l)?, a.unbatched(b, u)?])
}
