//! The matrix products of a BLAS that is in the process, such as the one in PyTorch's library.

use std::ffi::{c_char, c_int};
use std::path::Path;

use libloading::os::unix::Library;

use product::{Product, Tile};

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
}

/// A type that BLAS multiplies.
pub(super) trait Element: Copy {
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

/// Where a product's operands and its result are.
pub(super) struct Operands<T> {
    pub(super) lhs: *const T,
    pub(super) rhs: *const T,
    pub(super) out: *mut T,
}

// SAFETY: whoever makes one vouches that the operands are only read and tiles of the result are written by one thread each.
unsafe impl<T> Sync for Operands<T> {}

impl Blas {
    /// The one in the library at `path`, which the process has loaded. Only MKL's, whose threads can be told apart from the
    /// caller's; `None` also if it does not multiply.
    pub(crate) fn find(path: &Path) -> Option<Blas> {
        // SAFETY: running a library's initialisers is what loading one means; the caller chose the file.
        let library = unsafe { Library::new(path) }.ok()?;
        // SAFETY: these names have these signatures in every MKL.
        let blas = unsafe {
            Blas {
                f32: *library.get(b"sgemm_\0").ok()?,
                f64: *library.get(b"dgemm_\0").ok()?,
                threads: *library.get(b"MKL_Set_Num_Threads_Local\0").ok()?,
            }
        };
        std::mem::forget(library); // its functions are kept
        blas.multiplies().then_some(blas)
    }

    /// Whether a small product is right: a BLAS with other integers would not read these.
    fn multiplies(&self) -> bool {
        let product = Product::decode(&[2, 2, 3, 3, 1, 2, 1]).expect("seven numbers");
        let (lhs, rhs, mut out) = ([1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], [1.0f32, 0.0, 0.0, 1.0, 2.0, 2.0], [f32::NAN; 4]);
        let operands = Operands { lhs: lhs.as_ptr(), rhs: rhs.as_ptr(), out: out.as_mut_ptr() };
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
        let int = |x: usize| x as c_int; // `Product::fits` saw that they do
        // In columns, the transposed result is the product of the transposed operands in the other order.
        let (second, second_stride) = if rhs.column == 1 { (b'N', rhs.row) } else { (b'T', rhs.column) };
        let (first, first_stride) = if lhs.column == 1 { (b'N', lhs.row) } else { (b'T', lhs.column) };
        let (columns, rows) = (int(tile.columns.len()), int(tile.rows.len()));
        for index in tile.products.clone() {
            let (at_lhs, at_rhs) = product.offsets(index);
            // SAFETY: within the operands and the result, as the caller promised.
            unsafe {
                T::gemm(self)(
                    &(second as c_char),
                    &(first as c_char),
                    &columns,
                    &rows,
                    &int(k),
                    &T::ONE,
                    operands.rhs.add(at_rhs + tile.columns.start * rhs.column),
                    &int(second_stride),
                    operands.lhs.add(at_lhs + tile.rows.start * lhs.row),
                    &int(first_stride),
                    &T::ZERO,
                    operands.out.add((index * product.m + tile.rows.start) * n + tile.columns.start),
                    &int(n),
                );
            }
        }
    }
}
