//! What a LAPACK has, by type: its routines, and the numbers that they take.

use std::ffi::{c_char, c_int};

use libloading::os::unix::Library;

use super::matrix::turn;

pub(in crate::ffi) type Int = *const c_int;
pub(in crate::ffi) type Letter = *const c_char;

/// Everything by address. `R` is the real type of `T`; real and complex matrices differ in what they need to work in.
pub(in crate::ffi) struct Routines<T, R> {
    pub(super) getrf: unsafe extern "C" fn(Int, Int, *mut T, Int, *mut c_int, *mut c_int),
    pub(super) geqrf: unsafe extern "C" fn(Int, Int, *mut T, Int, *mut T, *mut T, Int, *mut c_int),
    pub(super) mqr: unsafe extern "C" fn(
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
    pub(super) potrf: unsafe extern "C" fn(Letter, Int, *mut T, Int, *mut c_int),
    pub(super) trsm:
        unsafe extern "C" fn(Letter, Letter, Letter, Letter, Int, Int, *const T, *const T, Int, *mut T, Int),
    pub(super) evd: Evd<T, R>,
    pub(super) gesdd: Gesdd<T, R>,
    pub(super) geev: Geev<T, R>,
}

impl<T, R> Clone for Routines<T, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, R> Copy for Routines<T, R> {}

/// Of a real type, or of a complex one.
pub(in crate::ffi) enum Of<A, B> {
    Real(A),
    Complex(B),
}

impl<A: Copy, B: Copy> Clone for Of<A, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A: Copy, B: Copy> Copy for Of<A, B> {}

pub(in crate::ffi) type Evd<T, R> = Of<
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

pub(in crate::ffi) type Gesdd<T, R> = Of<
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

pub(in crate::ffi) type Geev<T, R> = Of<
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
pub(in crate::ffi) struct Complex<R>(pub(super) R, pub(super) R);

/// The routines of one library.
#[derive(Clone, Copy)]
pub(in crate::ffi) struct Table {
    f32: Routines<f32, f32>,
    f64: Routines<f64, f64>,
    c64: Routines<Complex<f32>, f32>,
    c128: Routines<Complex<f64>, f64>,
}

impl Table {
    /// Those of `library`; `None` if it lacks one.
    pub(in crate::ffi) fn of(library: &Library) -> Option<Table> {
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
pub(in crate::ffi) trait Scalar: Copy + Send + Sync + 'static {
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
pub(in crate::ffi) struct Eigen<'a, T: Scalar> {
    /// Real parts, then imaginary ones, of a real matrix.
    pub(super) parts: &'a [T::Real],
    /// Of a complex one.
    pub(super) values: &'a [T],
    /// In columns, if they were asked for.
    pub(super) vectors: &'a [T],
}
