//! Eigenvalues and eigenvectors of symmetric matrices, or over complex numbers of Hermitian ones.
//!
//! With enough of the identity added a Hermitian matrix is positive, and a unitary J that makes its rows orthogonal has
//! its eigenvectors for rows.

use super::super::{Call, OpDef, Outs, err, many, ok, one};
use super::jacobi::{Rotated, in_order, order_of};
use super::*;

/// Symmetric, with eigenvalues of both signs.
macro_rules! matrix {
    ($dtype:literal) => {
        concat!($dtype, "[3,3]{1,5,3,5,1,2,3,2,-6}")
    };
}

pub(super) const OPS: &[OpDef] = &[
    OpDef::new(
        "aten::_linalg_eigh(Tensor A, str UPLO='L', bool compute_v=True) -> (Tensor eigenvalues, Tensor eigenvectors)",
        |c, b| {
            let v = c.tensor(b, "A")?;
            let a = Matrices::square(b, v, "linalg.eigh", "linalg_eigh_cpu")?;
            let side = c.string("UPLO")?.unwrap_or("L");
            ensure!(matches!(side, "L" | "l" | "U" | "u"), "Expected UPLO argument to be 'L' or 'U', but got {side}");
            let a = Matrices { v: mirrored(b, a.v, side.eq_ignore_ascii_case("u"))?, ..a };
            if !c.flag("compute_v")? {
                return many([a.unbatched(b, eigenvalues(b, &a)?)?, b.full(Number::Int(0), b.dtype(v), &[0])?]);
            }
            let [values, vectors] = eigen(b, &a)?;
            many([a.unbatched(b, values)?, a.unbatched(b, vectors)?])
        },
        &[
            ok(matrix!("f32")),
            // The other triangle does not count.
            ok("f64[2,3,3]{1,9,9,5,1,9,3,2,-6,2,7,7,1,4,7,1,3,0}"),
            ok("f64[2,2,2]{1,3,9,2,4,1,9,5}, 'U'"),
            ok(concat!(matrix!("f64"), ", 'u', false")),
            ok("f32[4,4]{1}"),
            ok("f32[3,3]{0}"),
            ok("f32[2,2]{1e30,2e30,2e30,-3e30}"),
            ok("c64[3,3]"),
            ok("c128[2,3,3], 'U'"),
            ok("f32[1,1]"),
            ok("f32[2,0,0]"),
            err("f32[2,2], 'x'", "Expected UPLO argument to be 'L' or 'U', but got x"),
            err("f32[2,3]", "linalg.eigh: A must be batches of square matrices, but they are 2 by 3 matrices"),
            err("f16[2,2]", "\"linalg_eigh_cpu\" not implemented for 'Half'"),
        ],
    )
    .asked()
    .variants(&["_linalg_eigh.eigenvalues"]),
    OpDef::new(
        "aten::linalg_matrix_sqrth(Tensor self) -> Tensor",
        sqrth,
        &[
            ok("f32[3,3]{4,1,2,1,5,3,2,3,6}"),
            ok("f64[2,2,2]{4,1,1,5,9,2,2,3}"),
            ok("f64[2,2]{4,9,1,3}"),
            // Eigenvalues below 0 are taken for 0.
            ok(matrix!("f64")),
            ok("c128[3,3]{4,1j,2,-1j,5,3,2,3,6}"),
            ok("f32[0,0]"),
            err("f16[2,2]", "linalg.matrix_sqrth: Low precision dtypes not supported. Got Half"),
            err("f32[2,3]", "linalg.matrix_sqrth: A must be batches of square matrices, but they are 2 by 3 matrices"),
        ],
    )
    .asked()
    .variants(&["linalg_matrix_sqrth.out"]),
];

/// The Hermitian matrices whose `upper` or lower triangle is that of `v`.
fn mirrored(b: &Builder, v: ValueId, upper: bool) -> Result<ValueId> {
    let shape = b.shape(v);
    let (rows, columns) = (b.iota(DType::I32, &shape, 1)?, b.iota(DType::I32, &shape, 2)?);
    let comparison = if upper { Comparison::Gt } else { Comparison::Lt };
    let other = b.compare(comparison, rows, columns)?;
    // The diagonal counts as real.
    made_real(b, b.select(other, adjoint(b, v)?, v)?, on_diagonal(b, &shape)?)
}

/// Those of the Hermitian matrices with the lower triangles of these.
pub(super) fn eigen_of_lower(b: &Builder, a: &Matrices) -> Result<[ValueId; 2]> {
    eigen(b, &a.with(mirrored(b, a.v, false)?))
}

/// Eigenvectors of Hermitian matrices, `[batch, n, n]`, as columns, and eigenvalues, ascending.
///
/// # Errors
/// `Internal`, if `v` is none.
pub fn eigenvectors(b: &Builder, v: ValueId) -> Result<[ValueId; 2]> {
    let [values, vectors] = eigen(b, &Matrices::new(b, v)?)?;
    Ok([vectors, values])
}

/// Eigenvalues of Hermitian matrices, ascending, and eigenvectors, as columns.
fn eigen(b: &Builder, a: &Matrices) -> Result<[ValueId; 2]> {
    let shape = a.shape();
    if shape.contains(&0) {
        return Ok([b.full(Number::Int(0), b.dtype(a.v).real(), &shape[..2])?, a.v]);
    }
    let done = by_lapack(b, Lapack::Eigh, &[a.v], |b, v| rotated(b, &a.with(v[0])).map(Vec::from))?;
    Ok([done[0], adjoint(b, done[1])?])
}

/// Eigenvalues of Hermitian matrices, ascending.
fn eigenvalues(b: &Builder, a: &Matrices) -> Result<ValueId> {
    let shape = a.shape();
    if shape.contains(&0) {
        return b.full(Number::Int(0), b.dtype(a.v).real(), &shape[..2]);
    }
    let done = by_lapack(b, Lapack::EighValues, &[a.v], |b, v| Ok(vec![rotated(b, &a.with(v[0]))?[0]]))?;
    Ok(done[0])
}

/// Eigenvalues, ascending, and the adjoints of eigenvectors, as rows.
fn rotated(b: &Builder, a: &Matrices) -> Result<[ValueId; 2]> {
    let shape = a.shape();
    // Squares shall neither overflow nor vanish.
    let largest = b.reduce(b.unary(Unary::Abs, a.v)?, Reducer::Maximum, &[1, 2])?;
    let scale = formula(b, [largest], |[l]| l.greater(0.0).select(l, 1.0))?;
    let own = b.divide(a.v, b.broadcast_in_dim(in_type_of(b, scale, a.v)?, &shape, &[0])?)?;
    // No eigenvalue is below minus the largest sum of a row.
    let sums = b.reduce(b.unary(Unary::Abs, own)?, Reducer::Add, &[2])?;
    let shift = b.broadcast_in_dim(b.reduce(sums, Reducer::Maximum, &[1])?, &shape, &[0])?;
    let shifted = b.select(on_diagonal(b, &shape)?, b.add(own, in_type_of(b, shift, own)?)?, own)?;
    let Some(turned) = Rotated::new(b, shifted, true)?.turned else { crate::invalid!("no rotation was kept") };
    // More exact than the lengths of the rotated rows.
    let images = b.multiply(product(b, turned, own)?, conjugate(b, turned)?)?;
    let quotients = b.reduce(real(b, images)?, Reducer::Add, &[2])?;
    let (values, order) = order_of(b, quotients, false)?;
    let values = b.multiply(values, b.broadcast_in_dim(scale, &shape[..2], &[0])?)?;
    Ok([values, in_order(b, turned, order)?])
}

fn sqrth(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let v = c.tensor(b, "self")?;
    let low = matches!(b.dtype(v), DType::F16 | DType::BF16);
    ensure!(!low, "linalg.matrix_sqrth: Low precision dtypes not supported. Got {}", torch_name(b.dtype(v)));
    let a = Matrices::square(b, v, "linalg.matrix_sqrth", "linalg_eigh_cpu")?;
    let [values, vectors] = eigen_of_lower(b, &a)?;
    let roots = formula(b, [values], |[v]| v.max(0.0).sqrt())?;
    let scaled = b.multiply(vectors, across(b, in_type_of(b, roots, vectors)?, &b.shape(vectors))?)?;
    one(a.unbatched(b, product(b, scaled, adjoint(b, vectors)?)?)?)
}
