//! The matrix products of a BLAS that is in the process, such as the one in PyTorch's library, and those that are not left to it.

use std::ffi::{c_char, c_int};
use std::ops::{AddAssign, MulAssign};
use std::path::Path;

use libloading::os::unix::Library;

use super::api::loader_message;
use super::finishing::{Features, Finishing};
use super::functions::Functions;
use super::idle;
use super::lapack::Table;
use super::scratch::Plain;
use super::turn::{Turned, turn};
use super::wide;
use crate::error::{Error, Result};
use hostcall::{Product, Strides, Tile};

/// Elements that fill a vector, or a line of the cache.
pub(super) const VECTOR: usize = 16;
/// A result of fewer columns than this is made by way of its transpose: they fill no vector of AVX-512.
const FEW: usize = VECTOR;
/// Rows of such a result at a time, which stay in the cache.
const BLOCK: usize = 256;

/// Rows and columns of a result that one call makes, so that it stays in the cache while what is summed over goes by. On an EPYC
/// MKL took up to 1.5 times as long for 16 to 256 rows of 7,000 columns or more, each the sum of 256 to 768 products.
const AT_ONCE: [usize; 2] = [512, 1024];

/// BLAS's `?gemm`: everything by address, matrices in columns.
type Gemm<T> = unsafe extern "C" fn(
    *const c_char,
    *const c_char,
    *const c_int,
    *const c_int,
    *const c_int,
    *const T,
    *const T,
    *const c_int,
    *const T,
    *const c_int,
    *const T,
    *mut T,
    *const c_int,
);

/// Sets how many threads the calling thread's products use, 0 for what the process says. Returns what it was.
type ThreadsOfThread = unsafe extern "C" fn(c_int) -> c_int;

/// The functions of one library.
#[derive(Clone, Copy)]
pub(crate) struct Blas {
    pub(super) f32: Gemm<f32>,
    pub(super) f64: Gemm<f64>,
    threads: ThreadsOfThread,
    /// Of the OpenMP that the library runs on, if it runs on one.
    pub(super) openmp: Option<idle::OpenMp>,
    /// Of each element.
    pub(super) functions: Functions,
    /// Factorisations.
    pub(super) lapack: Table,
    /// Whether the processor has vectors that it leaves half empty ([`wide`]).
    narrow: bool,
}

/// A type that BLAS multiplies.
pub(super) trait Element: Plain + AddAssign + MulAssign + PartialOrd + Turned + Send + Sync + 'static {
    const ZERO: Self;
    const ONE: Self;
    fn gemm(blas: &Blas) -> Gemm<Self>;
}

impl Element for f32 {
    const ZERO: f32 = 0.0;
    const ONE: f32 = 1.0;
    fn gemm(blas: &Blas) -> Gemm<f32> {
        blas.f32
    }
}

impl Element for f64 {
    const ZERO: f64 = 0.0;
    const ONE: f64 = 1.0;
    fn gemm(blas: &Blas) -> Gemm<f64> {
        blas.f64
    }
}

/// An operand in memory.
#[derive(Clone, Copy)]
pub(super) struct Matrix<T> {
    pub(super) at: *const T,
    pub(super) strides: Strides,
}

impl<T> Matrix<T> {
    /// The transpose.
    pub(super) fn turned(self) -> Matrix<T> {
        let Strides { row, column } = self.strides;
        Matrix { at: self.at, strides: Strides { row: column, column: row } }
    }
}

/// A result in memory, in rows that are so many elements apart, which is added to or written.
#[derive(Clone, Copy)]
pub(super) struct Out<T> {
    pub(super) at: *mut T,
    pub(super) row: usize,
    pub(super) add: bool,
}

/// Where a product's operands and its result are, and what is done to the result.
#[derive(Clone, Copy)]
pub(super) struct Operands<T> {
    pub(super) lhs: *const T,
    pub(super) rhs: *const T,
    pub(super) out: *mut T,
    pub(super) finish: Finishing<T>,
}

// SAFETY: whoever makes one vouches that the operands are only read and tiles of the result are written by one thread each.
unsafe impl<T> Sync for Operands<T> {}

impl<T: Copy> Operands<T> {
    /// The same whose result begins so many elements later.
    ///
    /// # Safety
    /// There are so many.
    pub(super) unsafe fn later(&self, elements: usize) -> Operands<T> {
        // SAFETY: forwarded to the caller.
        Operands { out: unsafe { self.out.add(elements) }, ..*self }
    }
}

impl Blas {
    /// The one in the library at `path`. Only MKL's, whose threads can be told apart from the caller's.
    ///
    /// # Errors
    /// `NotABlas` if the library cannot be loaded, has no such functions, or errs.
    pub(crate) fn find(path: &Path) -> Result<Blas> {
        let not_a_blas = |reason: String| Error::NotABlas { path: path.to_owned(), reason };
        // SAFETY: running a library's initialisers is what loading one means; the caller chose the file.
        let library = unsafe { Library::new(path) }.map_err(|error| not_a_blas(loader_message(&error)))?;
        let lacks = |name: &str| not_a_blas(format!("it is no MKL, which has a function {name}"));
        // SAFETY: these names have these signatures in every MKL.
        let blas = unsafe {
            Blas {
                f32: *library.get(b"sgemm_\0").map_err(|_| lacks("sgemm_"))?,
                f64: *library.get(b"dgemm_\0").map_err(|_| lacks("dgemm_"))?,
                threads: *library
                    .get(b"MKL_Set_Num_Threads_Local\0")
                    .map_err(|_| lacks("MKL_Set_Num_Threads_Local"))?,
                openmp: idle::OpenMp::of(&library),
                functions: Functions::of(&library),
                lapack: Table::of(&library).ok_or_else(|| lacks("for each of LAPACK's that programs call"))?,
                narrow: wide::is_for_this_processor(),
            }
        };
        std::mem::forget(library); // its functions are kept
        if blas.multiplies() { Ok(blas) } else { Err(not_a_blas("its product of two small matrices is wrong".into())) }
    }

    /// Whether a small product is right: a BLAS with other integers would not read these.
    fn multiplies(&self) -> bool {
        let product = Product::decode(&[2, 2, 3, 3, 1, 2, 1]).expect("seven numbers");
        let (lhs, rhs, mut out) = ([1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], [1.0f32, 0.0, 0.0, 1.0, 2.0, 2.0], [f32::NAN; 4]);
        let (lhs, rhs, finish) = (lhs.as_ptr(), rhs.as_ptr(), Finishing::NOTHING);
        let operands = Operands { lhs, rhs, out: out.as_mut_ptr(), finish };
        // SAFETY: the arrays have the sizes that the product says.
        self.alone(|| unsafe { self.tile(&product, &operands, &Tile { rows: 0..2, columns: 0..2, products: 0..1 }) });
        out == [7.0, 8.0, 16.0, 17.0]
    }

    /// Runs `f`, whose products use this thread and no other.
    pub(super) fn alone<R>(&self, f: impl FnOnce() -> R) -> R {
        // SAFETY: takes a number, and changes what this thread alone reads.
        let before = unsafe { (self.threads)(1) };
        let result = f();
        // SAFETY: as above.
        unsafe { (self.threads)(before) };
        result
    }

    /// Computes a part of `product`'s result.
    ///
    /// # Safety
    /// `product` fits the memory that `operands` points to, and nobody else touches the tile meanwhile.
    pub(super) unsafe fn tile<T: Element>(&self, product: &Product, operands: &Operands<T>, tile: &Tile) {
        let Product { n, k, lhs, rhs, .. } = *product;
        for index in tile.products.clone() {
            let (at_lhs, at_rhs) = product.offsets(index);
            // SAFETY: within the operands and the result, as the caller promised.
            unsafe {
                let lhs = Matrix { at: operands.lhs.add(at_lhs + tile.rows.start * lhs.row), strides: lhs };
                let rhs = Matrix { at: operands.rhs.add(at_rhs + tile.columns.start * rhs.column), strides: rhs };
                let first = (index * product.m + tile.rows.start) * n + tile.columns.start;
                let out = Out { at: operands.out.add(first), row: n, add: false };
                self.multiply([tile.rows.len(), tile.columns.len(), k], lhs, rhs, out);
                for row in 0..tile.rows.len() {
                    let features = Features::From(tile.columns.start);
                    operands.finish.apply(operands.out, first + row * n, tile.columns.len(), features);
                }
            }
        }
    }

    /// The product of an `m` by `k` and a `k` by `n` matrix.
    ///
    /// # Safety
    /// The matrices have these extents, which fit BLAS's integers, as do their strides, of which one is 1; nobody else touches
    /// the result meanwhile.
    pub(super) unsafe fn multiply<T: Element>(
        &self,
        [m, n, k]: [usize; 3],
        lhs: Matrix<T>,
        rhs: Matrix<T>,
        out: Out<T>,
    ) {
        // SAFETY: forwarded to the caller.
        unsafe {
            match wide::way([m, n, k], lhs, rhs).filter(|_| self.narrow) {
                Some(way) => wide::multiply(way, [m, n, k], lhs, rhs, out),
                None if (2..FEW).contains(&n) && m > n => self.turned([m, n, k], lhs, rhs, out),
                None => self.in_parts([m, n, k], lhs, rhs, out),
            }
        }
    }

    /// The same, so much of it [at once](AT_ONCE).
    ///
    /// # Safety
    /// As above.
    unsafe fn in_parts<T: Element>(&self, [m, n, k]: [usize; 3], lhs: Matrix<T>, rhs: Matrix<T>, out: Out<T>) {
        let [rows, columns] = AT_ONCE;
        for row in (0..m).step_by(rows) {
            for column in (0..n).step_by(columns) {
                // SAFETY: as above; the part is the result's.
                unsafe {
                    let lhs = Matrix { at: lhs.at.add(row * lhs.strides.row), ..lhs };
                    let rhs = Matrix { at: rhs.at.add(column * rhs.strides.column), ..rhs };
                    let out = Out { at: out.at.add(row * out.row + column), ..out };
                    self.straight([rows.min(m - row), columns.min(n - column), k], lhs, rhs, out);
                }
            }
        }
    }

    /// The same where the result has few columns, by way of its transpose: BLAS's vectors go along columns of a row. MKL took
    /// up to 25 times as long on an EPYC (8 by 1024 by 2048: 0.7 ms instead of 3.0, or of 9.7 by a matrix that lies in columns).
    ///
    /// # Safety
    /// As above; `n` is below [`FEW`].
    unsafe fn turned<T: Element>(&self, [m, n, k]: [usize; 3], lhs: Matrix<T>, rhs: Matrix<T>, out: Out<T>) {
        let mut scratch = [T::ZERO; (FEW - 1) * BLOCK];
        for first in (0..m).step_by(BLOCK) {
            let rows = BLOCK.min(m - first);
            let made = &mut scratch[..n * rows];
            // SAFETY: as above; the rows are the matrix's.
            unsafe {
                let lhs = Matrix { at: lhs.at.add(first * lhs.strides.row), ..lhs };
                let turned_out = Out { at: made.as_mut_ptr(), row: rows, add: false };
                self.straight([n, rows, k], rhs.turned(), lhs.turned(), turned_out);
                turn([n, rows], made.as_ptr(), rows, Out { at: out.at.add(first * out.row), ..out });
            }
        }
    }

    /// The same by one call.
    ///
    /// # Safety
    /// As above.
    unsafe fn straight<T: Element>(&self, [m, n, k]: [usize; 3], lhs: Matrix<T>, rhs: Matrix<T>, out: Out<T>) {
        let int = |x: usize| x as c_int; // the caller saw that they do
        // BLAS wants a stride as long as a line even where there is one line.
        let stored = |strides: Strides, rows: usize, columns: usize| match strides.column {
            1 => (b'N' as c_char, int(strides.row.max(columns))),
            _ => (b'T' as c_char, int(strides.column.max(rows))),
        };
        // In columns, the transposed result is the product of the transposed operands in the other order.
        let ((second, second_stride), (first, first_stride)) = (stored(rhs.strides, k, n), stored(lhs.strides, m, k));
        let beta = if out.add { T::ONE } else { T::ZERO };
        // SAFETY: forwarded to the caller.
        unsafe {
            T::gemm(self)(
                &second,
                &first,
                &int(n),
                &int(m),
                &int(k),
                &T::ONE,
                rhs.at,
                &second_stride,
                lhs.at,
                &first_stride,
                &beta,
                out.at,
                &int(out.row),
            );
        }
    }
}
