//! One matrix after the other, in memory that is kept from one to the next.

use std::ffi::{c_char, c_int};
use std::ptr;

use super::routines::{Complex, Eigen, Of, Routines, Scalar};

/// What the matrices of a part are computed in, one after the other.
pub(super) struct Scratch<T: Scalar> {
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
pub(super) fn turn<T: Copy>([n, m]: [usize; 2], from: &[T], to: &mut [T]) {
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

pub(super) fn lu<T: Scalar>(
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
pub(super) fn order(pivots: &[c_int], rows: &mut [c_int]) {
    (0..).zip(rows.iter_mut()).for_each(|(i, row)| *row = i);
    for (step, &pivot) in pivots.iter().enumerate() {
        let there = usize::try_from(pivot).unwrap_or(0).wrapping_sub(1);
        if there < rows.len() {
            rows.swap(step, there);
        }
    }
}

pub(super) fn qr<T: Scalar>(
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
pub(super) struct Reflected<'a, T> {
    pub(super) extents: [usize; 2],
    pub(super) columns: usize,
    pub(super) packed: &'a [T],
    pub(super) tau: &'a [T],
    pub(super) adjoint: bool,
}

impl<T: Scalar> Reflected<'_, T> {
    pub(super) fn apply(&self, routines: &Routines<T, T::Real>, a: &[T], to: &mut [T], own: &mut Scratch<T>) {
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
pub(super) fn cholesky<T: Scalar>(routines: &Routines<T, T::Real>, a: &[T], to: &mut [T], info: &mut c_int) {
    let n = a.len().isqrt();
    to.copy_from_slice(a);
    // SAFETY: the slices have these extents.
    unsafe { (routines.potrf)(&letter(b'U'), &of_extent(n), to.as_mut_ptr(), &of_extent(n), info) };
    for (i, row) in to.chunks_exact_mut(n).enumerate() {
        row[i + 1..].fill(T::ZERO);
    }
}

/// In columns `A X = Y` is `X^T A^T = Y^T`, with the other triangle.
pub(super) fn triangular<T: Scalar>(
    routines: &Routines<T, T::Real>,
    a: &[T],
    [upper, unit]: [bool; 2],
    y: &[T],
    to: &mut [T],
) {
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
pub(super) fn eigh<T: Scalar>(
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
pub(super) type Vectors<'a, T> = (&'a mut [T], &'a mut [T], bool);

pub(super) fn svd<T: Scalar>(
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

pub(super) fn eig<T: Scalar>(
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
