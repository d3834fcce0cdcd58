//! Factorisations by a LAPACK that is in the process, such as the one in PyTorch's library: a matrix a call, on one thread.
//!
//! Programs have matrices in rows, LAPACK in columns. They are turned on the way in and out, but where a transpose serves as well:
//! that of a Hermitian matrix is its conjugate, and that of a system the same system from the other side.

use std::ffi::{c_char, c_int};
use std::ops::Range;
use std::ptr;

use hostcall::Lapack;
use libloading::os::unix::Library;
use smallvec::SmallVec;

use super::blas::Blas;
use super::functions::Denormals;
use super::team::{self, Threads};

type Int = *const c_int;
type Letter = *const c_char;

/// Everything by address. `R` is the real type of `T`; real and complex matrices differ in what they need to work in.
pub(super) struct Routines<T, R> {
    getrf: unsafe extern "C" fn(Int, Int, *mut T, Int, *mut c_int, *mut c_int),
    geqrf: unsafe extern "C" fn(Int, Int, *mut T, Int, *mut T, *mut T, Int, *mut c_int),
    mqr: unsafe extern "C" fn(
        Letter,
        Letter,
        Int,
        Int,
        Int,
        *const T,
        Int,
        *const T,
        *mut T,
        Int,
        *mut T,
        Int,
        *mut c_int,
    ),
    potrf: unsafe extern "C" fn(Letter, Int, *mut T, Int, *mut c_int),
    trsm: unsafe extern "C" fn(Letter, Letter, Letter, Letter, Int, Int, *const T, *const T, Int, *mut T, Int),
    evd: Evd<T, R>,
    gesdd: Gesdd<T, R>,
    geev: Geev<T, R>,
}

impl<T, R> Clone for Routines<T, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, R> Copy for Routines<T, R> {}

/// Of a real type, or of a complex one.
pub(super) enum Of<A, B> {
    Real(A),
    Complex(B),
}

impl<A: Copy, B: Copy> Clone for Of<A, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A: Copy, B: Copy> Copy for Of<A, B> {}

pub(super) type Evd<T, R> = Of<
    unsafe extern "C" fn(Letter, Letter, Int, *mut T, Int, *mut R, *mut T, Int, *mut c_int, Int, *mut c_int),
    unsafe extern "C" fn(
        Letter,
        Letter,
        Int,
        *mut T,
        Int,
        *mut R,
        *mut T,
        Int,
        *mut R,
        Int,
        *mut c_int,
        Int,
        *mut c_int,
    ),
>;

type Gesdd<T, R> = Of<
    unsafe extern "C" fn(
        Letter,
        Int,
        Int,
        *mut T,
        Int,
        *mut R,
        *mut T,
        Int,
        *mut T,
        Int,
        *mut T,
        Int,
        *mut c_int,
        *mut c_int,
    ),
    unsafe extern "C" fn(
        Letter,
        Int,
        Int,
        *mut T,
        Int,
        *mut R,
        *mut T,
        Int,
        *mut T,
        Int,
        *mut T,
        Int,
        *mut R,
        *mut c_int,
        *mut c_int,
    ),
>;

type Geev<T, R> = Of<
    unsafe extern "C" fn(
        Letter,
        Letter,
        Int,
        *mut T,
        Int,
        *mut R,
        *mut R,
        *mut T,
        Int,
        *mut T,
        Int,
        *mut T,
        Int,
        *mut c_int,
    ),
    unsafe extern "C" fn(
        Letter,
        Letter,
        Int,
        *mut T,
        Int,
        *mut T,
        *mut T,
        Int,
        *mut T,
        Int,
        *mut T,
        Int,
        *mut R,
        *mut c_int,
    ),
>;

/// Real and imaginary part, as in memory.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Complex<R>(R, R);

/// The routines of one library.
#[derive(Clone, Copy)]
pub(super) struct Table {
    f32: Routines<f32, f32>,
    f64: Routines<f64, f64>,
    c64: Routines<Complex<f32>, f32>,
    c128: Routines<Complex<f64>, f64>,
}

impl Table {
    /// Those of `library`; `None` if it lacks one.
    pub(super) fn of(library: &Library) -> Option<Table> {
        /// A routine by its name, without a letter for the type.
        macro_rules! routine {
            ($letter:literal, $name:literal) => {
                // SAFETY: in every LAPACK these names have these signatures.
                unsafe { *library.get(concat!($letter, $name, "_\0").as_bytes()).ok()? }
            };
        }
        macro_rules! routines {
            ($letter:literal, $mqr:literal, $evd:literal, $kind:path) => {
                Routines {
                    getrf: routine!($letter, "getrf"),
                    geqrf: routine!($letter, "geqrf"),
                    mqr: routine!($letter, $mqr),
                    potrf: routine!($letter, "potrf"),
                    trsm: routine!($letter, "trsm"),
                    evd: $kind(routine!($letter, $evd)),
                    gesdd: $kind(routine!($letter, "gesdd")),
                    geev: $kind(routine!($letter, "geev")),
                }
            };
        }
        Some(Table {
            f32: routines!("s", "ormqr", "syevd", Of::Real),
            f64: routines!("d", "ormqr", "syevd", Of::Real),
            c64: routines!("c", "unmqr", "heevd", Of::Complex),
            c128: routines!("z", "unmqr", "heevd", Of::Complex),
        })
    }
}

/// A type that LAPACK has.
pub(super) trait Scalar: Copy + Send + Sync + 'static {
    /// Of its parts.
    type Real: Scalar;
    const ZERO: Self;
    const ONE: Self;
    const NAN: Self;
    /// The adjoint, as LAPACK is asked for it.
    const ADJOINT: u8;
    fn routines(table: &Table) -> &Routines<Self, Self::Real>
    where
        Self: Sized;
    fn is_finite(self) -> bool;
    /// What a routine says of how much memory it works in.
    fn count(self) -> usize;
    /// Eigenvalues, and eigenvectors as columns, of what `geev` wrote: of a real matrix the values' parts, and where those are a
    /// conjugate pair, the parts of the first one's vector for both.
    fn eigen(of: &Eigen<'_, Self>, values: &mut [Complex<Self::Real>], vectors: Option<&mut [Complex<Self::Real>]>)
    where
        Self: Sized;
}

macro_rules! scalars {
    ($real:ident, $complex:ident) => {
        impl Scalar for $real {
            type Real = $real;
            const ZERO: $real = 0.0;
            const ONE: $real = 1.0;
            const NAN: $real = $real::NAN;
            const ADJOINT: u8 = b'T';
            fn routines(table: &Table) -> &Routines<$real, $real> {
                &table.$real
            }
            fn is_finite(self) -> bool {
                $real::is_finite(self)
            }
            fn count(self) -> usize {
                self as usize // saturates, and NaN is 0
            }
            fn eigen(of: &Eigen<'_, $real>, values: &mut [Complex<$real>], vectors: Option<&mut [Complex<$real>]>) {
                let n = values.len();
                let (re, im) = (&of.parts[..n], &of.parts[n..]);
                values.iter_mut().enumerate().for_each(|(i, value)| *value = Complex(re[i], im[i]));
                for (at, place) in vectors.into_iter().flatten().enumerate() {
                    let (row, column) = (at / n, at % n);
                    let v = |column: usize| of.vectors[column * n + row];
                    *place = match im[column] {
                        0.0 => Complex(v(column), 0.0),
                        positive if positive > 0.0 => Complex(v(column), v(column + 1)),
                        _ => Complex(v(column - 1), -v(column)),
                    };
                }
            }
        }

        impl Scalar for Complex<$real> {
            type Real = $real;
            const ZERO: Self = Complex(0.0, 0.0);
            const ONE: Self = Complex(1.0, 0.0);
            const NAN: Self = Complex($real::NAN, $real::NAN);
            const ADJOINT: u8 = b'C';
            fn routines(table: &Table) -> &Routines<Self, $real> {
                &table.$complex
            }
            fn is_finite(self) -> bool {
                self.0.is_finite() && self.1.is_finite()
            }
            fn count(self) -> usize {
                self.0 as usize
            }
            fn eigen(of: &Eigen<'_, Self>, values: &mut [Self], vectors: Option<&mut [Self]>) {
                values.copy_from_slice(of.values);
                vectors.into_iter().for_each(|v| turn([values.len(); 2], of.vectors, v));
            }
        }
    };
}

scalars!(f32, c64);
scalars!(f64, c128);

/// What `geev` writes.
pub(super) struct Eigen<'a, T: Scalar> {
    /// Real parts, then imaginary ones, of a real matrix.
    parts: &'a [T::Real],
    /// Of a complex one.
    values: &'a [T],
    /// In columns, if they were asked for.
    vectors: &'a [T],
}

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

/// What the matrices of a part are computed in, one after the other.
struct Scratch<T: Scalar> {
    matrix: Vec<T>,
    left: Vec<T>,
    right: Vec<T>,
    work: Work<T>,
    parts: Vec<T::Real>,
    integers: Vec<c_int>,
}

impl<T: Scalar> Default for Scratch<T> {
    fn default() -> Self {
        let none = Vec::new;
        let work = Work { memory: none(), wanted: None };
        Scratch { matrix: none(), left: none(), right: none(), work, parts: Vec::new(), integers: Vec::new() }
    }
}

/// The first `len` elements of `kept`, which hold anything.
fn sized<T: Copy>(kept: &mut Vec<T>, len: usize, zero: T) -> &mut [T] {
    if kept.len() < len {
        kept.resize(len, zero);
    }
    &mut kept[..len]
}

/// Rows and columns that are turned at once: both sides of such a square stay in the cache.
const SQUARE: usize = 32;

/// `to`, in columns, becomes the `n` by `m` matrix `from`, which is in rows.
fn turn<T: Copy>([n, m]: [usize; 2], from: &[T], to: &mut [T]) {
    for first_row in (0..n).step_by(SQUARE) {
        for first_column in (0..m).step_by(SQUARE) {
            for column in first_column..m.min(first_column + SQUARE) {
                for row in first_row..n.min(first_row + SQUARE) {
                    to[column * n + row] = from[row * m + column];
                }
            }
        }
    }
}

fn of_extent(n: usize) -> c_int {
    n as c_int // `Lapack::takes` no others
}

fn letter(c: u8) -> c_char {
    c as c_char
}

/// What a routine works in.
struct Work<T> {
    memory: Vec<T>,
    /// How many elements it asked for: as many for each matrix.
    wanted: Option<usize>,
}

impl<T: Scalar> Work<T> {
    /// Calls `routine` with the memory that it works in, after it was asked how much.
    fn call(&mut self, mut routine: impl FnMut(*mut T, c_int)) {
        let wanted = *self.wanted.get_or_insert_with(|| {
            let mut wanted = T::ZERO;
            routine(&mut wanted, -1);
            // Numbers of 32 bits are exact up to 2^24; beyond, they may be told too low.
            wanted.count() + wanted.count() / (1 << 20) + 1
        });
        let memory = sized(&mut self.memory, wanted, T::ZERO);
        routine(memory.as_mut_ptr(), c_int::try_from(wanted).unwrap_or(c_int::MAX));
    }
}

fn lu<T: Scalar>(
    routines: &Routines<T, T::Real>,
    [n, m]: [usize; 2],
    a: &[T],
    to: &mut [T],
    pivots: &mut [c_int],
    info: &mut c_int,
    own: &mut Scratch<T>,
) {
    let matrix = sized(&mut own.matrix, n * m, T::ZERO);
    turn([n, m], a, matrix);
    // SAFETY: the slices have these extents.
    unsafe {
        (routines.getrf)(&of_extent(n), &of_extent(m), matrix.as_mut_ptr(), &of_extent(n), pivots.as_mut_ptr(), info);
    }
    turn([m, n], matrix, to);
}

/// Which row is where, after each has been swapped with its pivot. A pivot that is no row swaps nothing.
fn order(pivots: &[c_int], rows: &mut [c_int]) {
    (0..).zip(rows.iter_mut()).for_each(|(i, row)| *row = i);
    for (step, &pivot) in pivots.iter().enumerate() {
        let there = usize::try_from(pivot).unwrap_or(0).wrapping_sub(1);
        if there < rows.len() {
            rows.swap(step, there);
        }
    }
}

fn qr<T: Scalar>(
    routines: &Routines<T, T::Real>,
    [n, m]: [usize; 2],
    a: &[T],
    to: &mut [T],
    tau: &mut [T],
    own: &mut Scratch<T>,
) {
    let matrix = sized(&mut own.matrix, n * m, T::ZERO);
    turn([n, m], a, matrix);
    let mut info = 0;
    own.work.call(|work, len| {
        // SAFETY: the slices have these extents, and there is so much to work in.
        unsafe {
            let (rows, columns) = (of_extent(n), of_extent(m));
            (routines.geqrf)(&rows, &columns, matrix.as_mut_ptr(), &rows, tau.as_mut_ptr(), work, &len, &mut info);
        }
    });
    turn([m, n], matrix, to);
}

/// Reflections, and the columns of what they are applied to.
struct Reflected<'a, T> {
    extents: [usize; 2],
    columns: usize,
    packed: &'a [T],
    tau: &'a [T],
    adjoint: bool,
}

impl<T: Scalar> Reflected<'_, T> {
    fn apply(&self, routines: &Routines<T, T::Real>, a: &[T], to: &mut [T], own: &mut Scratch<T>) {
        let ([n, m], columns) = (self.extents, self.columns);
        let packed = sized(&mut own.left, n * m, T::ZERO);
        turn([n, m], self.packed, packed);
        let matrix = sized(&mut own.matrix, n * columns, T::ZERO);
        turn([n, columns], a, matrix);
        let (side, way) = (letter(b'L'), letter(if self.adjoint { T::ADJOINT } else { b'N' }));
        let mut info = 0;
        own.work.call(|work, len| {
            let (rows, count) = (of_extent(n), of_extent(self.tau.len()));
            // SAFETY: the slices have these extents, and there is so much to work in.
            unsafe {
                (routines.mqr)(
                    &side,
                    &way,
                    &rows,
                    &of_extent(columns),
                    &count,
                    packed.as_ptr(),
                    &rows,
                    self.tau.as_ptr(),
                    matrix.as_mut_ptr(),
                    &rows,
                    work,
                    &len,
                    &mut info,
                );
            }
        });
        turn([columns, n], matrix, to);
    }
}

/// In columns these are the conjugate's upper factors, whose transposes are the lower ones.
fn cholesky<T: Scalar>(routines: &Routines<T, T::Real>, a: &[T], to: &mut [T], info: &mut c_int) {
    let n = a.len().isqrt();
    to.copy_from_slice(a);
    // SAFETY: the slices have these extents.
    unsafe { (routines.potrf)(&letter(b'U'), &of_extent(n), to.as_mut_ptr(), &of_extent(n), info) };
    for (i, row) in to.chunks_exact_mut(n).enumerate() {
        row[i + 1..].fill(T::ZERO);
    }
}

/// In columns `A X = Y` is `X^T A^T = Y^T`, with the other triangle.
fn triangular<T: Scalar>(routines: &Routines<T, T::Real>, a: &[T], [upper, unit]: [bool; 2], y: &[T], to: &mut [T]) {
    let n = a.len().isqrt();
    let m = y.len() / n;
    to.copy_from_slice(y);
    let (side, triangle) = (letter(b'R'), letter(if upper { b'L' } else { b'U' }));
    let (way, diagonal) = (letter(b'N'), letter(if unit { b'U' } else { b'N' }));
    let (rows, columns) = (of_extent(m), of_extent(n));
    // SAFETY: the slices have these extents.
    unsafe {
        (routines.trsm)(
            &side,
            &triangle,
            &way,
            &diagonal,
            &rows,
            &columns,
            &T::ONE,
            a.as_ptr(),
            &columns,
            to.as_mut_ptr(),
            &rows,
        );
    }
}

/// In columns this is the conjugate, and the conjugate's eigenvectors as columns are the adjoints of these as rows.
fn eigh<T: Scalar>(
    routines: &Routines<T, T::Real>,
    a: &[T],
    values: &mut [T::Real],
    vectors: Option<&mut [T]>,
    own: &mut Scratch<T>,
) {
    let n = values.len();
    let with = letter(if vectors.is_some() { b'V' } else { b'N' });
    let (triangle, size) = (letter(b'L'), of_extent(n));
    let to = vectors.unwrap_or_else(|| sized(&mut own.matrix, n * n, T::ZERO));
    to.copy_from_slice(a);
    // What LAPACK's documentation asks for.
    let integers = sized(&mut own.integers, 3 + 5 * n, 0);
    let is_real = matches!(routines.evd, Of::Real(_));
    let parts = sized(&mut own.parts, if is_real { 0 } else { 1 + 5 * n + 2 * n * n }, T::Real::ZERO);
    let (integers_len, parts_len) = (of_extent(integers.len()), of_extent(parts.len()));
    let mut info = -1;
    if is_finite(a) {
        own.work.call(|work, len| {
            let (a, w, integers) = (to.as_mut_ptr(), values.as_mut_ptr(), integers.as_mut_ptr());
            let (parts, info) = (parts.as_mut_ptr(), &mut info);
            // SAFETY: the slices have these extents, and there is so much to work in.
            unsafe {
                match routines.evd {
                    Of::Real(f) => {
                        f(&with, &triangle, &size, a, &size, w, work, &len, integers, &integers_len, info);
                    }
                    Of::Complex(f) => {
                        f(
                            &with,
                            &triangle,
                            &size,
                            a,
                            &size,
                            w,
                            work,
                            &len,
                            parts,
                            &parts_len,
                            integers,
                            &integers_len,
                            info,
                        );
                    }
                }
            }
        });
    }
    if info != 0 {
        values.fill(T::Real::NAN);
        to.fill(T::NAN);
    }
}

/// U and V's adjoint, and whether they are square.
type Vectors<'a, T> = (&'a mut [T], &'a mut [T], bool);

fn svd<T: Scalar>(
    routines: &Routines<T, T::Real>,
    [n, m]: [usize; 2],
    a: &[T],
    values: &mut [T::Real],
    vectors: Option<Vectors<'_, T>>,
    own: &mut Scratch<T>,
) {
    let r = n.min(m);
    let (what, [columns, rows]) = match &vectors {
        None => (b'N', [1, 1]),
        Some((.., true)) => (b'A', [n, m]),
        Some((.., false)) => (b'S', [r, r]),
    };
    let matrix = sized(&mut own.matrix, n * m, T::ZERO);
    turn([n, m], a, matrix);
    let left = sized(&mut own.left, n * columns, T::ZERO);
    let right = sized(&mut own.right, rows * m, T::ZERO);
    let integers = sized(&mut own.integers, 8 * r, 0);
    // What LAPACK's documentation asks for.
    let square = r * (5 * r + 7).max(2 * n.max(m) + 2 * r + 1);
    let parts = sized(&mut own.parts, if what == b'N' { 7 * r } else { square }, T::Real::ZERO);
    let mut info = -1;
    if is_finite(a) {
        own.work.call(|work, len| {
            let (what, n, m, rows) = (letter(what), of_extent(n), of_extent(m), of_extent(rows));
            let (a, s, integers) = (matrix.as_mut_ptr(), values.as_mut_ptr(), integers.as_mut_ptr());
            let (u, vh, parts, info) = (left.as_mut_ptr(), right.as_mut_ptr(), parts.as_mut_ptr(), &mut info);
            // SAFETY: the slices have these extents, and there is so much to work in.
            unsafe {
                match routines.gesdd {
                    Of::Real(f) => f(&what, &n, &m, a, &n, s, u, &n, vh, &rows, work, &len, integers, info),
                    Of::Complex(f) => f(&what, &n, &m, a, &n, s, u, &n, vh, &rows, work, &len, parts, integers, info),
                }
            }
        });
    }
    if info != 0 {
        values.fill(T::Real::NAN);
        left.fill(T::NAN);
        right.fill(T::NAN);
    }
    if let Some((u, vh, _)) = vectors {
        turn([columns, n], left, u);
        turn([m, rows], right, vh);
    }
}

fn eig<T: Scalar>(
    routines: &Routines<T, T::Real>,
    a: &[T],
    values: &mut [Complex<T::Real>],
    vectors: Option<&mut [Complex<T::Real>]>,
    own: &mut Scratch<T>,
) {
    let n = values.len();
    let matrix = sized(&mut own.matrix, n * n, T::ZERO);
    turn([n, n], a, matrix);
    let right = sized(&mut own.right, if vectors.is_some() { n * n } else { 1 }, T::ZERO);
    let own_values = sized(&mut own.left, n, T::ZERO);
    let parts = sized(&mut own.parts, 2 * n, T::Real::ZERO);
    let mut info = -1;
    if is_finite(a) {
        own.work.call(|work, len| {
            let (none, with) = (letter(b'N'), letter(if vectors.is_some() { b'V' } else { b'N' }));
            let (size, one) = (of_extent(n), 1);
            let (a, v, w) = (matrix.as_mut_ptr(), right.as_mut_ptr(), own_values.as_mut_ptr());
            let (re, im) = parts.split_at_mut(n);
            let (re, im, nobody, info) = (re.as_mut_ptr(), im.as_mut_ptr(), ptr::null_mut(), &mut info);
            // SAFETY: the slices have these extents, and there is so much to work in.
            unsafe {
                match routines.geev {
                    Of::Real(f) => f(&none, &with, &size, a, &size, re, im, nobody, &one, v, &size, work, &len, info),
                    Of::Complex(f) => f(&none, &with, &size, a, &size, w, nobody, &one, v, &size, work, &len, re, info),
                }
            }
        });
    }
    if info != 0 {
        values.fill(Complex(T::Real::NAN, T::Real::NAN));
        return vectors.into_iter().for_each(|v| v.fill(Complex(T::Real::NAN, T::Real::NAN)));
    }
    T::eigen(&Eigen { parts, values: own_values, vectors: right }, values, vectors);
}

fn is_finite<T: Scalar>(a: &[T]) -> bool {
    a.iter().all(|x| x.is_finite())
}
