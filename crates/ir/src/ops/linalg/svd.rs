//! Singular values and vectors.

use super::super::{Call, OpDef, Outs, err, many, ok};
use super::jacobi::Rotated;
use super::qr::{orthogonal, reflections, times_orthogonal};
use super::*;

/// Matrices with three distinct singular values.
macro_rules! matrix {
    ($dtype:literal) => {
        concat!($dtype, "[3,3]{1,5,3,4,1,2,2,3,6}")
    };
}

pub(super) const OPS: &[OpDef] = &[
    OpDef::new(
    "aten::_linalg_svd(Tensor A, bool full_matrices=False, bool compute_uv=True, *, str? driver=None) -> (Tensor U, Tensor S, Tensor Vh)",
    svd,
    &[
        ok(matrix!("f32")),
        ok(concat!(matrix!("f64"), ", false, false")),
        ok("f64[2,4,3]{1,5,3,4,1,2,2,3,6,7,9,1,-5}"),
        ok("f64[2,3]{1,5,3,4,1,2}, true"),
        ok("f64[5,2]{1,5,3,4,1,2,7}, true"),
        // Singular values of 0, and very large and very small ones.
        ok("f32[3,3]{1,2,3}"),
        ok("f32[3,2]{0}, true"),
        ok("f32[2,2]{1e30,2e30,-3e30,1e30}"),
        ok("f64[2,2]{1e-200,2e-200,-3e-200,1e-200}"),
        ok("f32[1,4]"),
        ok("c64[3,3]"),
        ok("c128[2,3,2], true"),
        ok("c128[2,3], true"),
        ok("f32[2,0,3], true"),
        ok("f32[3,0], true"),
        ok("f32[0,3], false, false"),
        err("f32[3]", "linalg.svd: The input tensor A must have at least 2 dimensions."),
        err("f16[3,3]", "\"linalg_svd_cpu\" not implemented for 'Half'"),
        err("f32[3,3], driver='gesvd'", "keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend"),
    ],
).asked()
.variants(&["_linalg_svd.U"]),
    OpDef::new(
        "aten::linalg_polar(Tensor A) -> (Tensor U, Tensor H)",
        polar,
        &[
            ok(matrix!("f32")),
            ok("f64[2,4,3]{1,5,3,4,1,2,2,3,6,7,9,1,-5}"),
            ok("f64[3,3]{0}"),
            ok("c128[3,2]"),
            ok("f32[0,3,3]"),
            ok("f32[2,3,0]"),
            err("f32[3,4]", "linalg.polar: input must have at least as many rows as columns, but got 3 by 4 matrices"),
            err("f32[3]", "linalg.polar: The input tensor A must have at least 2 dimensions."),
        ],
    ).asked()
    .variants(&["linalg_polar.out"]),
];

fn svd(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let v = c.tensor(b, "A")?;
    let a = Matrices::of(b, v, "linalg.svd", "linalg_svd_cpu")?;
    ensure!(
        c.string("driver")?.is_none(),
        "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend."
    );
    if !c.flag("compute_uv")? {
        let none = || b.full(Number::Int(0), b.dtype(v), &[0]);
        return many([none()?, a.unbatched(b, singular_values(b, &a)?)?, none()?]);
    }
    let [u, s, vh] = singular(b, &a, c.flag("full_matrices")?)?;
    many([a.unbatched(b, u)?, a.unbatched(b, s)?, a.unbatched(b, vh)?])
}

/// The factors `A = U H`: orthonormal columns, and a positive matrix.
fn polar(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let a = Matrices::of(b, c.tensor(b, "A")?, "linalg.polar", "linalg_svd_cpu")?;
    ensure!(
        a.n >= a.m,
        "linalg.polar: input must have at least as many rows as columns, but got {} by {} matrices",
        a.n,
        a.m
    );
    if a.shape().contains(&0) {
        let h = b.full(Number::Int(0), b.dtype(a.v), &[a.batch(), a.m, a.m])?;
        return many([a.unbatched(b, a.v)?, a.unbatched(b, h)?]);
    }
    let [u, s, vh] = singular(b, &a, false)?;
    let v = adjoint(b, vh)?;
    let scaled = b.multiply(v, across(b, in_type_of(b, s, v)?, &b.shape(v))?)?;
    many([a.unbatched(b, product(b, u, vh)?)?, a.unbatched(b, product(b, scaled, vh)?)?])
}

/// Singular values, descending: `[batch, min(n, m)]`.
fn singular_values(b: &Builder, a: &Matrices) -> Result<ValueId> {
    let done = by_lapack(b, Lapack::SingularValues, &[a.v], |b, v| {
        let a = a.with(v[0]);
        let t = Tall::new(b, &if a.n < a.m { a.transposed(b)? } else { a })?;
        Ok(vec![t.rescaled(b, Rotated::new(b, t.square, false)?.longest_first(b)?.lengths)?])
    })?;
    Ok(done[0])
}

/// U, the singular values, descending, and V^H.
pub(super) fn singular(b: &Builder, a: &Matrices, full: bool) -> Result<[ValueId; 3]> {
    let done = by_lapack(b, Lapack::Svd { full }, &[a.v], |b, v| {
        let a = a.with(v[0]);
        if a.n >= a.m {
            return tall(b, &a, full).map(Vec::from);
        }
        let [u, s, vh] = tall(b, &a.adjoint(b)?, full)?;
        Ok(vec![adjoint(b, vh)?, s, adjoint(b, u)?])
    })?;
    Ok([done[0], done[1], done[2]])
}

/// Matrices `[batch, n, m]`, `n >= m`, as a scale, reflections if `n > m`, and square matrices.
struct Tall {
    scale: ValueId,
    reflections: Option<[ValueId; 2]>,
    square: ValueId,
}

impl Tall {
    fn new(b: &Builder, a: &Matrices) -> Result<Tall> {
        // Squares shall neither overflow nor vanish.
        let largest = b.reduce(b.unary(Unary::Abs, a.v)?, Reducer::Maximum, &[1, 2])?;
        let scale = formula(b, [largest], |[l]| l.greater(0.0).select(l, 1.0))?;
        let divisor = b.broadcast_in_dim(in_type_of(b, scale, a.v)?, &a.shape(), &[0])?;
        let v = b.divide(a.v, divisor)?;
        if a.n == a.m {
            return Ok(Tall { scale, reflections: None, square: v });
        }
        let [packed, tau] = reflections(b, &a.with(v))?;
        let square = triangle(b, b.slice_dim(packed, 1, 0, a.m, 1)?, true)?;
        Ok(Tall { scale, reflections: Some([packed, tau]), square })
    }

    /// Singular values of the square matrices as those of the matrices.
    fn rescaled(&self, b: &Builder, values: ValueId) -> Result<ValueId> {
        b.multiply(values, b.broadcast_in_dim(self.scale, &b.shape(values), &[0])?)
    }

    /// What is in the space of the square matrices' columns in that of the matrices' ones: `columns` of them.
    fn lifted(&self, b: &Builder, u: ValueId, columns: usize) -> Result<ValueId> {
        let Some([packed, tau]) = self.reflections else { return Ok(u) };
        let (s, n) = (b.shape(u), b.shape(packed)[1]);
        let zero = b.scalar(Number::Int(0), b.dtype(u))?;
        let high = [0, (n - s[1]) as i64, (columns - s[2]) as i64];
        let own = b.pad(u, zero, &[0, 0, 0], &high, &[0, 0, 0])?;
        let shape = [s[0], n, columns];
        let new = b.compare(
            Comparison::Ge,
            b.iota(DType::I32, &shape, 2)?,
            b.full(Number::Int(s[2] as i64), DType::I32, &shape)?,
        )?;
        let start = b.select(new, identity(b, b.dtype(u), &shape)?, own)?;
        times_orthogonal(b, packed, tau, start, false)
    }
}

fn tall(b: &Builder, a: &Matrices, full: bool) -> Result<[ValueId; 3]> {
    let t = Tall::new(b, a)?;
    let r = Rotated::new(b, t.square, true)?.longest_first(b)?;
    let Some(turned) = r.turned else { crate::invalid!("no rotation was kept") };
    let u = t.lifted(b, adjoint(b, turned)?, if full { a.n } else { a.m })?;
    Ok([u, t.rescaled(b, r.lengths)?, directions(b, r.rows, r.lengths)?])
}

/// Orthonormal rows: those of `rows`, which are orthogonal and get shorter, and others where they have no length.
fn directions(b: &Builder, rows: ValueId, lengths: ValueId) -> Result<ValueId> {
    let shape = b.shape(rows);
    // Shorter rows are rounding only, and may point anywhere.
    let least = f64::from(f32::MIN_POSITIVE).sqrt();
    let scale = formula(b, [lengths], |[l]| l.at_most(least).select(l.constant(0.0), 1.0 / l))?;
    let unit = b.multiply(rows, down(b, in_type_of(b, scale, rows)?, &shape)?)?;
    let (n, m) = (shape[2], shape[1]);
    let columns = Matrices { v: adjoint(b, unit)?, lead: Shape::from(&shape[..1]), n, m };
    let [packed, tau] = reflections(b, &columns)?;
    let q = adjoint(b, orthogonal(b, packed, tau, m)?)?;
    // A reflection may turn a row round; where there was nothing, either way serves.
    let turns = b.compare(Comparison::Lt, real(b, diagonal(b, packed)?)?, zeros_like(b, lengths)?)?;
    b.select(down(b, turns, &shape)?, b.negate(q)?, q)
}
