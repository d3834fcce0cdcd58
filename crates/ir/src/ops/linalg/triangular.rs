//! Triangular systems, and the Cholesky factors that lead to them.

use super::super::{OpDef, err, many, ok, one};
use super::*;

/// Symmetric and positive definite.
macro_rules! matrix {
    ($dtype:literal) => {
        concat!($dtype, "[3,3]{4,1,2,1,5,3,2,3,6}")
    };
}

/// A lower factor of such a matrix.
macro_rules! factor {
    ($dtype:literal) => {
        concat!($dtype, "[3,3]{2,7,7,0.5,1.5,7,1,-0.5,2}")
    };
}

pub(super) const OPS: &[OpDef] = &[
    OpDef::new(
        "aten::linalg_cholesky_ex(Tensor self, *, bool upper=False, bool check_errors=False) -> (Tensor L, Tensor info)",
        |c, b| {
            let a = Matrices::square(b, c.tensor(b, "self")?, "linalg.cholesky", "cholesky_cpu")?;
            let upper = c.flag("upper")?;
            let own = if upper { adjoint(b, a.v)? } else { a.v };
            let done = by_lapack(b, Lapack::Cholesky, &[own], |b, own| {
                let info = b.full(Number::Int(0), DType::I32, &[a.batch()])?;
                repeat(b, a.n, &[triangle(b, own[0], false)?, info], root)
            })?;
            let factor = if upper { adjoint(b, done[0])? } else { done[0] };
            many([a.unbatched(b, factor)?, a.unbatched(b, done[1])?])
        },
        &[
            ok(matrix!("f32")),
            ok(concat!(matrix!("f64"), ", upper=true")),
            ok("f64[2,2,2]{4,1,1,5,9,2,2,3}"),
            ok("f32[0,0]"),
            ok("c128[2,2]{4,9,1j,5}"),
            ok("c64[3,3]{4,1j,2,9,5,3,9,9,6}, upper=true"),
            err("f32[2,3]", "linalg.cholesky: A must be batches of square matrices, but they are 2 by 3 matrices"),
            err("f32[3]", "linalg.cholesky: The input tensor A must have at least 2 dimensions."),
            err("i64[2,2]", "linalg.cholesky: Expected a floating point or complex tensor as input. Got Long"),
            err("f16[2,2]", "\"cholesky_cpu\" not implemented for 'Half'"),
        ],
    ).asked()
    .variants(&["linalg_cholesky_ex.L"]),
    OpDef::new(
        "aten::linalg_solve_triangular(Tensor self, Tensor B, *, bool upper, bool left=True, bool unitriangular=False) -> Tensor",
        |c, b| {
            let (a, y) = (c.tensor(b, "self")?, c.tensor(b, "B")?);
            let side = Side { upper: c.flag("upper")?, unit: c.flag("unitriangular")? };
            one(system(b, "linalg.solve_triangular", a, y, side, c.flag("left")?)?)
        },
        &[
            ok(concat!(factor!("f32"), ", f32[3,2], upper=false")),
            ok(concat!(factor!("f32"), ", f32[3,2], upper=true")),
            ok(concat!(factor!("f64"), ", f64[2,3], upper=true, left=false")),
            ok("f64[2,1,2,2]{2,7,7,5}, f64[3,2,4], upper=false, unitriangular=true"),
            ok("f32[0,0], f32[0,2], upper=true"),
            ok("c128[2,2]{2,7,7j,5}, c128[3,2], upper=true, left=false"),
            err("f32[3,3], f32[2,3], upper=true", "Incompatible shapes of A and B for the equation AX = B (3x3 and 2x3)"),
            err("f32[3,3], f32[3], upper=true", "The input tensor B must have at least 2 dimensions."),
        ],
    ).asked()
    .variants(&["linalg_solve_triangular.out"]),
    OpDef::new(
        "aten::triangular_solve(Tensor self, Tensor A, bool upper=True, bool transpose=False, bool unitriangular=False) -> (Tensor solution, Tensor cloned_coefficient)",
        |c, b| {
            let (y, mut a) = (c.tensor(b, "self")?, c.tensor(b, "A")?);
            let (mut upper, unit) = (c.flag("upper")?, c.flag("unitriangular")?);
            Matrices::square(b, a, "triangular_solve", "triangular_solve_cpu")?;
            ensure!(b.rank(y) >= 2, "torch.triangular_solve: Expected b to have at least 2 dimensions");
            let [given, y] = common_batch(b, a, y)?;
            a = given;
            if c.flag("transpose")? {
                let m = Matrices::new(b, a)?;
                a = m.unbatched(b, transposed(b, m.v)?)?;
                upper = !upper;
            }
            many([system(b, "triangular_solve", a, y, Side { upper, unit }, true)?, given])
        },
        &[
            ok(concat!("f32[3,2], ", factor!("f32"))),
            ok(concat!("f64[3,2], ", factor!("f64"), ", false, true, true")),
            ok("f64[3,2,4], f64[2,2]{2,7,7,5}, false"),
            ok("c128[2,3], c128[2,2]{2,7,7j,5}, false, true"),
        ],
    ).asked()
    .variants(&["triangular_solve.X"]),
    OpDef::new(
        "aten::cholesky_solve(Tensor self, Tensor input2, bool upper=False) -> Tensor",
        |c, b| {
            let (y, a) = (c.tensor(b, "self")?, c.tensor(b, "input2")?);
            for (v, name) in [(y, "b"), (a, "u")] {
                let rank = b.rank(v);
                ensure!(rank >= 2, "{name} should have at least 2 dimensions, but has {rank} dimensions instead");
            }
            one(with_factor(b, a, y, c.flag("upper")?)?)
        },
        &[
            ok(concat!("f32[3,2], ", factor!("f32"))),
            ok(concat!("f64[3,2], ", factor!("f64"), ", true")),
            ok("f64[3,2,4], f64[2,2]{2,7,7,5}"),
            ok("c128[2,3], c128[2,2]{2,7,7j,5}"),
            ok("c128[2,3], c128[2,2]{2,7j,7,5}, true"),
            err("f32[3], f32[3,3]", "b should have at least 2 dimensions, but has 1 dimensions instead"),
        ],
    ).asked()
    .variants(&["cholesky_solve.out"]),
    OpDef::new(
        "aten::_cholesky_solve_helper(Tensor self, Tensor A, bool upper) -> Tensor",
        |c, b| one(with_factor(b, c.tensor(b, "A")?, c.tensor(b, "self")?, c.flag("upper")?)?),
        &[ok(concat!("f32[3,2], ", factor!("f32"), ", false"))],
    ).asked()
    .variants(&["_cholesky_solve_helper.out"]),
    OpDef::new(
        "aten::cholesky_inverse(Tensor self, bool upper=False) -> Tensor",
        |c, b| {
            let v = c.tensor(b, "self")?;
            let a = Matrices::square(b, v, "cholesky_inverse", "cholesky_inverse_cpu")?;
            let own = a.unbatched(b, identity(b, b.dtype(v), &a.shape())?)?;
            one(with_factor(b, v, own, c.flag("upper")?)?)
        },
        &[ok(factor!("f32")), ok(concat!(factor!("f64"), ", true")), ok("f32[0,0]"), ok("c128[2,2]{2,7,7j,5}")],
    ).asked()
    .variants(&["cholesky_inverse.out"]),
];

/// Which triangle of a matrix counts, and whether its diagonal is taken to be ones.
#[derive(Clone, Copy)]
pub(super) struct Side {
    pub(super) upper: bool,
    pub(super) unit: bool,
}

/// The X in `A X = y`, for the triangle `side` of A: `[batch, n, n]` and `[batch, n, m]`.
pub(super) fn solve_triangular(b: &Builder, a: ValueId, y: ValueId, side: Side) -> Result<ValueId> {
    let Side { upper, unit } = side;
    let done = by_lapack(b, Lapack::Triangular { upper, unit }, &[a, y], |b, given| {
        Ok(vec![substituted(b, given[0], given[1], side)?])
    })?;
    Ok(done[0])
}

/// The same, row by row, each of them taken out of those that are left.
fn substituted(b: &Builder, a: ValueId, y: ValueId, side: Side) -> Result<ValueId> {
    let n = b.shape(a)[1];
    let steps = repeat(b, n, &[y, a], |b, k, carried| {
        let (x, a) = (carried[0], carried[1]);
        let shape = b.shape(x);
        let k = match side.upper {
            true => b.subtract(b.scalar(Number::Int(n as i64 - 1), DType::I32)?, k)?,
            false => k,
        };
        let mut own = row(b, x, k)?;
        let factors = column(b, a, k)?;
        if !side.unit {
            let here = index_is(b, &b.shape(factors), 1, Comparison::Eq, k)?;
            let divisor = picked(b, factors, here, 1)?;
            own = b.divide(own, b.broadcast_in_dim(divisor, &b.shape(own), &[0])?)?;
        }
        let rest = if side.upper { Comparison::Lt } else { Comparison::Gt };
        let taken = b.multiply(down(b, factors, &shape)?, across(b, own, &shape)?)?;
        let next = b.select(index_is(b, &shape, 1, rest, k)?, b.subtract(x, taken)?, x)?;
        let next = b.select(index_is(b, &shape, 1, Comparison::Eq, k)?, across(b, own, &shape)?, next)?;
        Ok(vec![next, a])
    })?;
    Ok(steps[0])
}

/// One step of a Cholesky factorisation of a lower triangle: column `k` is divided by the root of its head, and its
/// square taken from the columns to the right.
fn root(b: &Builder, k: ValueId, carried: &[ValueId]) -> Result<Vec<ValueId>> {
    let (a, info) = (carried[0], carried[1]);
    let shape = b.shape(a);
    let left = column(b, a, k)?;
    let here = index_is(b, &b.shape(left), 1, Comparison::Eq, k)?;
    let head = real(b, picked(b, left, here, 1)?)?;
    let divisor = in_type_of(b, b.unary(Unary::Sqrt, head)?, left)?;
    let left = made_real(b, left, here)?;
    let scaled = b.divide(left, b.broadcast_in_dim(divisor, &b.shape(left), &[0])?)?;
    let (is_column, right) = (index_is(b, &shape, 2, Comparison::Eq, k)?, index_is(b, &shape, 2, Comparison::Gt, k)?);
    let is_below = b.compare(Comparison::Ge, b.iota(DType::I32, &shape, 1)?, b.iota(DType::I32, &shape, 2)?)?;
    let reduced = b.subtract(a, b.multiply(down(b, scaled, &shape)?, across(b, conjugate(b, scaled)?, &shape)?)?)?;
    let next = b.select(and(b, is_column, is_below)?, down(b, scaled, &shape)?, a)?;
    let next = b.select(and(b, right, is_below)?, reduced, next)?;
    let positive = b.compare(Comparison::Gt, head, zeros_like(b, head)?)?;
    let fails = b.unary(Unary::Not, positive)?;
    let first = b.compare(Comparison::Eq, info, zeros_like(b, info)?)?;
    let step = b.add(b.broadcast_in_dim(k, &b.shape(info), &[])?, b.full_like(info, Number::Int(1))?)?;
    Ok(vec![next, b.select(and(b, fails, first)?, step, info)?])
}

/// The X in `A X = y` or, not `left`, `X A = y`, for the triangle `side` of A; batches broadcast.
fn system(b: &Builder, op: &str, a: ValueId, y: ValueId, side: Side, left: bool) -> Result<ValueId> {
    Matrices::square(b, a, op, "triangular_solve_cpu")?;
    ensure!(b.rank(y) >= 2, "{op}: The input tensor B must have at least 2 dimensions.");
    let [d, e] = [b.dtype(a), b.dtype(y)];
    ensure!(
        d == e,
        "{op}: Expected A and B to have the same dtype, but found A of type {} and B of type {} instead",
        torch_name(d),
        torch_name(e)
    );
    let [s, t] = [b.shape(a), b.shape(y)];
    let (n, [rows, columns]) = (s[s.len() - 1], [t[t.len() - 2], t[t.len() - 1]]);
    let equation = if left { "AX = B" } else { "XA = B" };
    ensure!(
        n == if left { rows } else { columns },
        "{op}: Incompatible shapes of A and B for the equation {equation} ({n}x{n} and {rows}x{columns})"
    );
    let [a, y] = common_batch(b, a, y)?;
    let (a, y) = (Matrices::new(b, a)?, Matrices::new(b, y)?);
    if left {
        return y.unbatched(b, solve_triangular(b, a.v, y.v, side)?);
    }
    let turned = Side { upper: !side.upper, ..side };
    let x = solve_triangular(b, transposed(b, a.v)?, transposed(b, y.v)?, turned)?;
    y.unbatched(b, transposed(b, x)?)
}

/// The X in `A X = y`, given the Cholesky factor of A that is `upper` or lower.
fn with_factor(b: &Builder, factor: ValueId, y: ValueId, upper: bool) -> Result<ValueId> {
    let op = "cholesky_solve";
    let m = Matrices::square(b, factor, op, "cholesky_solve_cpu")?;
    let lower = if upper { m.unbatched(b, adjoint(b, m.v)?)? } else { factor };
    let own = Matrices::new(b, lower)?;
    let half = system(b, op, lower, y, Side { upper: false, unit: false }, true)?;
    let turned = own.unbatched(b, adjoint(b, own.v)?)?;
    system(b, op, turned, half, Side { upper: true, unit: false }, true)
}
