//! Factorisations by a LAPACK that is in the process, such as the one in PyTorch's library: a matrix a call, on one thread.
//!
//! Programs have matrices in rows, LAPACK in columns. They are turned on the way in and out, but where a transpose serves as well:
//! that of a Hermitian matrix is its conjugate, and that of a system the same system from the other side.

mod matrix;
mod routines;

use std::ffi::c_int;
use std::ops::Range;

use hostcall::Lapack;
use smallvec::SmallVec;

use super::blas::Blas;
use super::functions::Denormals;
use super::team::{self, Threads};
use matrix::{Reflected, Scratch, cholesky, eig, eigh, lu, order, qr, svd, triangular};
use routines::Routines;
pub(super) use routines::{Complex, Scalar, Table};

/// Types as a program names them, of what a call is given and gives.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// That of the matrices.
    Own,
    /// Of its parts.
    Real,
    /// The complex one of such parts.
    Complex,
    /// `i32`.
    Integer,
}

/// A tensor of a call.
pub(super) struct Tensor {
    pub(super) at: *mut u8,
    pub(super) dims: SmallVec<[usize; 3]>,
}

// SAFETY: whoever makes one vouches that operands are only read, and a matrix's part of a result is written by one thread.
unsafe impl Sync for Tensor {}

impl Tensor {
    /// Elements of one matrix of the batch.
    fn each(&self) -> usize {
        self.dims[1..].iter().product()
    }

    /// The `i`-th of an operand.
    ///
    /// # Safety
    /// It holds elements of this type, and there are so many matrices.
    unsafe fn given<T>(&self, i: usize) -> &[T] {
        // SAFETY: forwarded to the caller.
        unsafe { std::slice::from_raw_parts(self.at.cast::<T>().add(i * self.each()), self.each()) }
    }

    /// The `i`-th of a result.
    ///
    /// # Safety
    /// As above, and nobody else has it.
    #[allow(clippy::mut_from_ref)]
    unsafe fn made<T>(&self, i: usize) -> &mut [T] {
        // SAFETY: forwarded to the caller.
        unsafe { std::slice::from_raw_parts_mut(self.at.cast::<T>().add(i * self.each()), self.each()) }
    }
}

/// Types and extents of tensors.
pub(super) type Types = SmallVec<[(Kind, SmallVec<[usize; 3]>); 3]>;

/// Extents and types of what `of` gives for operands of these extents; `None` if it takes no such operands, or LAPACK could not
/// count them.
pub(super) fn results(of: Lapack, operands: &[Tensor], out: &[Tensor]) -> Option<Types> {
    let fits = |tensor: &Tensor, rank: usize| tensor.dims.len() == rank && Lapack::takes(&tensor.dims);
    let all = |ranks: &[usize]| ranks.len() == operands.len() && operands.iter().zip(ranks).all(|(t, &r)| fits(t, r));
    let ranks: &[usize] = match of {
        Lapack::Order => &[2],
        Lapack::Reflected { .. } => &[3, 2, 3],
        Lapack::Triangular { .. } => &[3, 3],
        _ => &[3],
    };
    if !all(ranks) || operands.iter().any(|t| t.dims[0] != operands[0].dims[0]) {
        return None;
    }
    let first = &operands[0].dims;
    let (batch, n) = (first[0], first[1]);
    let m = first.get(2).copied().unwrap_or(n);
    let r = n.min(m);
    let list = |types: &[(Kind, &[usize])]| {
        let with_batch = |dims: &[usize]| std::iter::once(batch).chain(dims.iter().copied()).collect();
        types.iter().map(|&(kind, dims)| (kind, with_batch(dims))).collect()
    };
    let square = (n == m).then_some(());
    Some(match of {
        Lapack::Lu => list(&[(Kind::Own, &[n, m]), (Kind::Integer, &[r]), (Kind::Integer, &[])]),
        Lapack::Order => {
            // As many rows as are asked for, which no pivot tells.
            let rows = *out.first()?.dims.get(1)?;
            (rows >= n).then(|| list(&[(Kind::Integer, &[rows])]))?
        }
        Lapack::Qr => list(&[(Kind::Own, &[n, m]), (Kind::Own, &[r])]),
        Lapack::Reflected { .. } => {
            let (count, to) = (operands[1].dims[1], &operands[2].dims);
            (count <= r && to[1] == n).then(|| list(&[(Kind::Own, &[n, to[2]])]))?
        }
        Lapack::Cholesky => square.map(|()| list(&[(Kind::Own, &[n, n]), (Kind::Integer, &[])]))?,
        Lapack::Triangular { .. } => {
            let to = &operands[1].dims;
            (n == m && to[1] == n).then(|| list(&[(Kind::Own, &[n, to[2]])]))?
        }
        Lapack::Eigh => square.map(|()| list(&[(Kind::Real, &[n]), (Kind::Own, &[n, n])]))?,
        Lapack::EighValues => square.map(|()| list(&[(Kind::Real, &[n])]))?,
        Lapack::Svd { full } => {
            let (rows, columns) = if full { (n, m) } else { (r, r) };
            list(&[(Kind::Own, &[n, rows]), (Kind::Real, &[r]), (Kind::Own, &[columns, m])])
        }
        Lapack::SingularValues => list(&[(Kind::Real, &[r])]),
        Lapack::Eig => square.map(|()| list(&[(Kind::Complex, &[n]), (Kind::Complex, &[n, n])]))?,
        Lapack::Eigenvalues => square.map(|()| list(&[(Kind::Complex, &[n])]))?,
    })
}

/// What a call of LAPACK's takes at least, in multiplications.
const LEAST_WORK: usize = 1 << 10;

/// A call: operands and results that [`results`] found to fit.
pub(super) struct Call<'a> {
    pub(super) of: Lapack,
    pub(super) operands: &'a [Tensor],
    pub(super) results: &'a [Tensor],
}

impl Call<'_> {
    /// Computes all matrices of the batch.
    ///
    /// # Safety
    /// The tensors are of `T`, or of what belongs to it, and as large as they say; nobody else touches the results meanwhile.
    pub(super) unsafe fn compute<T: Scalar>(&self, blas: &Blas, pool: &dyn Threads, threads: usize) {
        let routines = T::routines(&blas.lapack);
        let count = self.operands[0].dims[0];
        let longest = self.operands.iter().chain(self.results).flat_map(|t| &t.dims[1..]).copied().max().unwrap_or(0);
        let shortest = self.operands[0].dims[1..].iter().copied().min().unwrap_or(0);
        let products = longest.saturating_mul(shortest).saturating_mul(shortest);
        let work = products.max(LEAST_WORK).saturating_mul(self.effort());
        let parts: SmallVec<[Range<usize>; 8]> = Lapack::parts(count, work, threads).collect();

        team::run(pool, threads, parts.len(), &|i| {
            let _kept = Denormals::kept();
            let mut own = Scratch::default();
            // SAFETY: parts are of different matrices, and the rest is forwarded to the caller.
            blas.alone(|| parts[i].clone().for_each(|i| unsafe { self.one::<T>(routines, i, &mut own) }));
        });
    }

    /// About how many times as much as a product.
    fn effort(&self) -> usize {
        match self.of {
            Lapack::Eigh | Lapack::EighValues | Lapack::SingularValues => 8,
            Lapack::Svd { .. } => 20,
            Lapack::Eig | Lapack::Eigenvalues => 40,
            _ => 1,
        }
    }

    /// Computes the `i`-th matrix.
    ///
    /// # Safety
    /// As above.
    unsafe fn one<T: Scalar>(&self, routines: &Routines<T, T::Real>, i: usize, own: &mut Scratch<T>) {
        let (operands, results) = (self.operands, self.results);
        // SAFETY: forwarded to the caller; all are of these types by `results`.
        unsafe {
            match self.of {
                Lapack::Lu => {
                    let (to, pivots, info) = (results[0].made(i), results[1].made(i), results[2].made(i));
                    lu(routines, self.extents(), operands[0].given(i), to, pivots, &mut info[0], own);
                }
                Lapack::Order => order(operands[0].given(i), results[0].made(i)),
                Lapack::Qr => {
                    qr(routines, self.extents(), operands[0].given(i), results[0].made(i), results[1].made(i), own);
                }
                Lapack::Reflected { adjoint } => {
                    let (packed, tau) = (operands[0].given(i), operands[1].given(i));
                    let columns = operands[2].dims[2];
                    let task = Reflected { extents: self.extents(), columns, packed, tau, adjoint };
                    task.apply(routines, operands[2].given(i), results[0].made(i), own);
                }
                Lapack::Cholesky => {
                    let info: &mut [c_int] = results[1].made(i);
                    cholesky(routines, operands[0].given(i), results[0].made(i), &mut info[0]);
                }
                Lapack::Triangular { upper, unit } => {
                    triangular(routines, operands[0].given(i), [upper, unit], operands[1].given(i), results[0].made(i));
                }
                Lapack::Eigh => eigh(routines, operands[0].given(i), results[0].made(i), Some(results[1].made(i)), own),
                Lapack::EighValues => eigh(routines, operands[0].given(i), results[0].made(i), None, own),
                Lapack::Svd { full } => {
                    let vectors = Some((results[0].made(i), results[2].made(i), full));
                    svd(routines, self.extents(), operands[0].given(i), results[1].made(i), vectors, own);
                }
                Lapack::SingularValues => {
                    svd(routines, self.extents(), operands[0].given(i), results[0].made(i), None, own);
                }
                Lapack::Eig => {
                    let vectors = Some(results[1].made(i));
                    eig(routines, operands[0].given(i), results[0].made(i), vectors, own);
                }
                Lapack::Eigenvalues => eig(routines, operands[0].given(i), results[0].made(i), None, own),
            }
        }
    }

    /// Rows and columns of the first operand's matrices.
    fn extents(&self) -> [usize; 2] {
        let dims = &self.operands[0].dims;
        [dims[1], dims.get(2).copied().unwrap_or(1)]
    }
}
