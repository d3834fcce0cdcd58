//! Factorisations and systems of linear equations.
//!
//! A factorisation is a loop over columns that carries the whole batch `[batch, rows, columns]`. A step finds its column
//! and row by comparing indices with the counter, and updates the whole matrix: as many operations as a step on what is
//! left, and no slices whose extents would depend on the counter. The conventions (which row is the pivot, the signs of
//! reflections) are LAPACK's, so that factors agree with PyTorch's on the CPU; and where the host has a LAPACK, it is asked
//! ([`by_lapack`]).

mod eig;
mod eigh;
mod exponential;
mod jacobi;
mod ldl;
mod least_squares;
mod lu;
mod qr;
mod svd;
mod triangular;

use super::OpDef;
use super::loops::{self, repeat, repeat_at_most};
use super::support::{broadcast_shapes, broadcast_to, not_implemented, torch_name};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::op::{Binary, Comparison, DotGeneral, Op, Precision, Reducer};
use crate::ops::expr::formula;
use crate::types::{Dims, Shape};
use crate::{DType, Number, Unary, ensure, ensure_kernel};
use hostcall::Lapack;

pub use self::eigh::eigenvectors;
pub use self::lu::swapped;
pub use self::qr::orthogonal;

pub(super) static EIG: &[OpDef] = eig::OPS;
pub(super) static EIGH: &[OpDef] = eigh::OPS;
pub(super) static EXPONENTIAL: &[OpDef] = exponential::OPS;
pub(super) static LDL: &[OpDef] = ldl::OPS;
pub(super) static LEAST_SQUARES: &[OpDef] = least_squares::OPS;
pub(super) static LU: &[OpDef] = lu::OPS;
pub(super) static QR: &[OpDef] = qr::OPS;
pub(super) static SVD: &[OpDef] = svd::OPS;
pub(super) static TRIANGULAR: &[OpDef] = triangular::OPS;

/// Matrices `[batch, n, m]`, and the dimensions that `batch` stands for.
struct Matrices {
    v: ValueId,
    lead: Shape,
    n: usize,
    m: usize,
}

impl Matrices {
    fn new(b: &Builder, v: ValueId) -> Result<Matrices> {
        let s = b.shape(v);
        ensure!(s.len() >= 2, "a matrix has at least 2 dimensions, not {s:?}");
        let (lead, n, m) = (Shape::from(&s[..s.len() - 2]), s[s.len() - 2], s[s.len() - 1]);
        Ok(Matrices { v: b.reshape(v, &[lead.iter().product(), n, m])?, lead, n, m })
    }

    /// The matrices of a call to `op`, of a type that LAPACK has and we lower.
    fn of(b: &Builder, v: ValueId, op: &str, kernel: &str) -> Result<Matrices> {
        let dtype = b.dtype(v);
        ensure!(b.rank(v) >= 2, "{op}: The input tensor A must have at least 2 dimensions.");
        ensure_kernel!(
            dtype.is_float() || dtype.is_complex(),
            "{op}: Expected a floating point or complex tensor as input. Got {}",
            torch_name(dtype)
        );
        match dtype {
            DType::F32 | DType::F64 | DType::C64 | DType::C128 => Matrices::new(b, v),
            low => not_implemented(kernel, low),
        }
    }

    fn square(b: &Builder, v: ValueId, op: &str, kernel: &str) -> Result<Matrices> {
        let s = b.shape(v);
        if let [.., n, m] = s[..] {
            ensure!(n == m, "{op}: A must be batches of square matrices, but they are {n} by {m} matrices");
        }
        Matrices::of(b, v, op, kernel)
    }

    /// Others of the same extents.
    fn with(&self, v: ValueId) -> Matrices {
        Matrices { v, lead: self.lead.clone(), n: self.n, m: self.m }
    }

    fn batch(&self) -> usize {
        self.lead.iter().product()
    }

    fn shape(&self) -> [usize; 3] {
        [self.batch(), self.n, self.m]
    }

    /// `v`, whose first dimension is the batch, with the dimensions that this stands for.
    fn unbatched(&self, b: &Builder, v: ValueId) -> Result<ValueId> {
        let shape: Shape = self.lead.iter().copied().chain(b.shape(v)[1..].iter().copied()).collect();
        b.reshape(v, &shape)
    }

    /// `v`, whose first dimension is the batch, with a batch that stands for `lead`, to which these dimensions broadcast.
    fn spread(&self, b: &Builder, v: ValueId, lead: &Shape) -> Result<ValueId> {
        let tail = &b.shape(v)[1..];
        let full: Shape = lead.iter().chain(tail).copied().collect();
        let batch: Shape = std::iter::once(lead.iter().product()).chain(tail.iter().copied()).collect();
        b.reshape(broadcast_to(b, self.unbatched(b, v)?, &full)?, &batch)
    }

    fn transposed(&self, b: &Builder) -> Result<Matrices> {
        Ok(Matrices { v: transposed(b, self.v)?, lead: self.lead.clone(), n: self.m, m: self.n })
    }

    fn adjoint(&self, b: &Builder) -> Result<Matrices> {
        Ok(Matrices { v: adjoint(b, self.v)?, ..self.transposed(b)? })
    }
}

/// What LAPACK computes of `operands`, or what `body` does, which says the same.
fn by_lapack(
    b: &Builder,
    of: Lapack,
    operands: &[ValueId],
    body: impl FnOnce(&Builder, &[ValueId]) -> Result<Vec<ValueId>>,
) -> Result<Vec<ValueId>> {
    if operands.iter().any(|&v| b.shape(v).contains(&0)) {
        return body(b, operands);
    }
    b.said_by(Op::Lapack { of, host: false }, operands, body)
}

fn transposed(b: &Builder, v: ValueId) -> Result<ValueId> {
    b.transpose(v, &[0, 2, 1])
}

fn conjugate(b: &Builder, v: ValueId) -> Result<ValueId> {
    if !b.dtype(v).is_complex() {
        return Ok(v);
    }
    formula(b, [v], |[z]| z.real().complex(-z.imag()))
}

/// The conjugate transpose.
fn adjoint(b: &Builder, v: ValueId) -> Result<ValueId> {
    conjugate(b, transposed(b, v)?)
}

/// The real part.
fn real(b: &Builder, v: ValueId) -> Result<ValueId> {
    if b.dtype(v).is_complex() { b.unary(Unary::Real, v) } else { Ok(v) }
}

/// Where `mask` holds the real part, in the type that `v` has.
fn made_real(b: &Builder, v: ValueId, mask: ValueId) -> Result<ValueId> {
    if b.dtype(v).is_complex() { b.select(mask, in_type_of(b, real(b, v)?, v)?, v) } else { Ok(v) }
}

/// `|v|^2`, which is real.
fn squared(b: &Builder, v: ValueId) -> Result<ValueId> {
    if b.dtype(v).is_complex() {
        return formula(b, [v], |[z]| z.real() * z.real() + z.imag() * z.imag());
    }
    b.multiply(v, v)
}

/// The real `factor` in the type of `like`.
fn in_type_of(b: &Builder, factor: ValueId, like: ValueId) -> Result<ValueId> {
    b.convert(factor, b.dtype(like))
}

/// `x y`, for `[batch, n, k]` and `[batch, k, m]`.
fn product(b: &Builder, x: ValueId, y: ValueId) -> Result<ValueId> {
    let dims = |d: usize| Dims::from_slice(&[d]);
    let numbers = DotGeneral {
        lhs_batch: dims(0),
        rhs_batch: dims(0),
        lhs_contract: dims(2),
        rhs_contract: dims(1),
        precision: Precision::Highest,
        out: b.dtype(x),
        host: false,
    };
    b.dot_general(x, y, numbers)
}

/// The distance from 1 to the next number of the real part of `dtype`.
fn epsilon(dtype: DType) -> f64 {
    if dtype.real() == DType::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) }
}

/// Two operands of a system, with common dimensions before the matrices.
fn common_batch(b: &Builder, x: ValueId, y: ValueId) -> Result<[ValueId; 2]> {
    let (s, t) = (b.shape(x), b.shape(y));
    let (m, n) = (s.len() - 2, t.len() - 2);
    let lead = broadcast_shapes([&Shape::from(&s[..m]), &Shape::from(&t[..n])])?;
    let full = |tail: &[usize]| lead.iter().chain(tail).copied().collect::<Shape>();
    Ok([broadcast_to(b, x, &full(&s[m..]))?, broadcast_to(b, y, &full(&t[n..]))?])
}

/// Whether the index along `dim` of `shape` compares so with `k`, a 0-d `i32` or one per batch.
fn index_is(b: &Builder, shape: &[usize], dim: usize, comparison: Comparison, k: ValueId) -> Result<ValueId> {
    let dims: Dims = (0..b.rank(k)).collect();
    b.compare(comparison, b.iota(DType::I32, shape, dim)?, b.broadcast_in_dim(k, shape, &dims)?)
}

fn and(b: &Builder, x: ValueId, y: ValueId) -> Result<ValueId> {
    b.binary(Binary::And, x, y)
}

fn zeros_like(b: &Builder, v: ValueId) -> Result<ValueId> {
    b.full_like(v, Number::Int(0))
}

/// The only element along `dim` where `mask` holds: that dimension goes away.
fn picked(b: &Builder, v: ValueId, mask: ValueId, dim: usize) -> Result<ValueId> {
    b.reduce(b.select(mask, v, zeros_like(b, v)?)?, Reducer::Add, &[dim])
}

/// Column `k` of `[batch, n, m]`, as `[batch, n]`.
fn column(b: &Builder, v: ValueId, k: ValueId) -> Result<ValueId> {
    picked(b, v, index_is(b, &b.shape(v), 2, Comparison::Eq, k)?, 2)
}

/// Row `k` (one per batch if it is not 0-d) of `[batch, n, m]`, as `[batch, m]`.
fn row(b: &Builder, v: ValueId, k: ValueId) -> Result<ValueId> {
    picked(b, v, index_is(b, &b.shape(v), 1, Comparison::Eq, k)?, 1)
}

/// A value per row (`[batch, n]`), in every column.
fn down(b: &Builder, v: ValueId, shape: &[usize]) -> Result<ValueId> {
    b.broadcast_in_dim(v, shape, &[0, 1])
}

/// A value per column (`[batch, m]`), in every row.
fn across(b: &Builder, v: ValueId, shape: &[usize]) -> Result<ValueId> {
    b.broadcast_in_dim(v, shape, &[0, 2])
}

/// The part of `[batch, n, m]` on one side of the diagonal, that included; zero elsewhere.
fn triangle(b: &Builder, v: ValueId, upper: bool) -> Result<ValueId> {
    let shape = b.shape(v);
    let (rows, columns) = (b.iota(DType::I32, &shape, 1)?, b.iota(DType::I32, &shape, 2)?);
    let comparison = if upper { Comparison::Le } else { Comparison::Ge };
    b.select(b.compare(comparison, rows, columns)?, v, zeros_like(b, v)?)
}

/// Whether an element of `shape` lies on the diagonal.
fn on_diagonal(b: &Builder, shape: &[usize]) -> Result<ValueId> {
    b.compare(Comparison::Eq, b.iota(DType::I32, shape, 1)?, b.iota(DType::I32, shape, 2)?)
}

fn identity(b: &Builder, dtype: DType, shape: &[usize]) -> Result<ValueId> {
    b.convert(on_diagonal(b, shape)?, dtype)
}

/// `[batch, min(n, m)]` of `[batch, n, m]`.
fn diagonal(b: &Builder, v: ValueId) -> Result<ValueId> {
    let s = b.shape(v);
    let r = s[1].min(s[2]);
    let square = b.slice(v, &[0, 0, 0], &[s[0], r, r], &[1, 1, 1])?;
    picked(b, square, on_diagonal(b, &[s[0], r, r])?, 2)
}
