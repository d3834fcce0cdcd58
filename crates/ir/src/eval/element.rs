//! Elements of literals as numbers to compute with.
//!
//! There are three domains: integers and `bool` as `i128`, floats as `f64`, complex numbers as pairs of `f64`. Storing a
//! number rounds it to its type (by way of `f32` for the 8- and 16-bit floats) or wraps it. Sums, products and
//! quotients of `f32` come out as if computed in `f32`: `f64` has more than twice its digits.

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::float8;
use crate::literal::Literal;
use crate::types::TensorType;
use half::{bf16, f16};
use ndarray::{ArrayD, ArrayViewD, Dimension, IxDyn};

/// A complex number.
pub(super) type C = num_complex::Complex<f64>;

/// A domain of numbers.
pub(super) trait Domain: Copy {
    /// Zero.
    const ZERO: Self;
    /// One.
    const ONE: Self;
    /// The element of `dtype` in `bytes`.
    fn get(bytes: &[u8], dtype: DType) -> Self;
    /// Appends the bytes of this number as an element of `dtype`.
    fn put(self, dtype: DType, out: &mut Vec<u8>);
    /// Sum; integers wrap.
    fn plus(self, other: Self) -> Self;
    /// Product; integers wrap.
    fn times(self, other: Self) -> Self;
}

impl Domain for i128 {
    const ZERO: i128 = 0;
    const ONE: i128 = 1;
    fn get(bytes: &[u8], dtype: DType) -> i128 {
        let bits = bytes.iter().rev().fold(0u128, |bits, &b| bits << 8 | u128::from(b));
        if dtype == DType::Bool { i128::from(bits != 0) } else { wrap(bits as i128, dtype) }
    }
    fn put(self, dtype: DType, out: &mut Vec<u8>) {
        match dtype {
            DType::Bool => out.push(u8::from(self != 0)),
            _ => out.extend(&self.to_le_bytes()[..dtype.size()]),
        }
    }
    fn plus(self, other: i128) -> i128 {
        self.wrapping_add(other)
    }
    fn times(self, other: i128) -> i128 {
        self.wrapping_mul(other)
    }
}

impl Domain for f64 {
    const ZERO: f64 = 0.0;
    const ONE: f64 = 1.0;
    fn get(bytes: &[u8], dtype: DType) -> f64 {
        let bits = bytes.iter().rev().fold(0u64, |bits, &b| bits << 8 | u64::from(b));
        match dtype {
            DType::F64 => f64::from_bits(bits),
            DType::F32 => f32::from_bits(bits as u32).into(),
            DType::F16 => f16::from_bits(bits as u16).into(),
            DType::BF16 => bf16::from_bits(bits as u16).into(),
            other => float8::to_f32(bits as u8, other).into(),
        }
    }
    fn put(self, dtype: DType, out: &mut Vec<u8>) {
        let narrow = self as f32;
        match dtype {
            DType::F64 => out.extend(self.to_le_bytes()),
            DType::F32 => out.extend(narrow.to_le_bytes()),
            DType::F16 => out.extend(f16::from_f32(narrow).to_le_bytes()),
            DType::BF16 => out.extend(bf16::from_f32(narrow).to_le_bytes()),
            other => out.push(float8::from_f32(narrow, other)),
        }
    }
    fn plus(self, other: f64) -> f64 {
        self + other
    }
    fn times(self, other: f64) -> f64 {
        self * other
    }
}

impl Domain for C {
    const ZERO: C = C::new(0.0, 0.0);
    const ONE: C = C::new(1.0, 0.0);
    fn get(bytes: &[u8], dtype: DType) -> C {
        let (re, im) = bytes.split_at(bytes.len() / 2);
        C::new(f64::get(re, dtype.real()), f64::get(im, dtype.real()))
    }
    fn put(self, dtype: DType, out: &mut Vec<u8>) {
        self.re.put(dtype.real(), out);
        self.im.put(dtype.real(), out);
    }
    fn plus(self, other: C) -> C {
        self + other
    }
    fn times(self, other: C) -> C {
        self * other
    }
}

/// Evaluates the body with `$t` standing for the domain of a dtype.
macro_rules! in_domain {
    ($dtype:expr, $t:ident => $body:expr) => {
        match $dtype.category() {
            $crate::Category::Bool | $crate::Category::Int => {
                type $t = i128;
                $body
            }
            $crate::Category::Float => {
                type $t = f64;
                $body
            }
            $crate::Category::Complex => {
                type $t = $crate::eval::element::C;
                $body
            }
        }
    };
}
pub(super) use in_domain;

/// Evaluates the body with `$n` standing for a dtype's width in bytes.
macro_rules! of_width {
    ($dtype:expr, $n:ident => $body:expr) => {
        match $dtype.size() {
            1 => {
                const $n: usize = 1;
                $body
            }
            2 => {
                const $n: usize = 2;
                $body
            }
            4 => {
                const $n: usize = 4;
                $body
            }
            8 => {
                const $n: usize = 8;
                $body
            }
            _ => {
                const $n: usize = 16;
                $body
            }
        }
    };
}
pub(super) use of_width;

/// `v` wrapped to the range of `dtype`.
pub(super) fn wrap(v: i128, dtype: DType) -> i128 {
    let unused = 128 - 8 * dtype.size() as u32;
    match dtype {
        DType::Bool => i128::from(v != 0),
        d if d.is_unsigned() => ((v as u128) << unused >> unused) as i128,
        _ => v << unused >> unused,
    }
}

/// Least and greatest value of an integer type or `bool`.
pub(super) fn int_range(dtype: DType) -> (i128, i128) {
    let bits = 8 * dtype.size() as u32;
    match dtype {
        DType::Bool => (0, 1),
        d if d.is_unsigned() => (0, (1 << bits) - 1),
        _ => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
    }
}

/// `x` rounded to `dtype`, as storing and loading it does.
pub(super) fn rounded<T: Domain>(x: T, dtype: DType) -> T {
    let mut bytes = Vec::with_capacity(16);
    x.put(dtype, &mut bytes);
    T::get(&bytes, dtype)
}

/// The elements of `l` as numbers.
pub(super) fn numbers<T: Domain>(l: &Literal) -> Result<ArrayD<T>> {
    let (dtype, size) = (l.ty.dtype, l.ty.dtype.size());
    let data = if l.is_splat() {
        vec![T::get(&l.bytes, dtype); l.ty.numel()]
    } else {
        l.bytes.chunks_exact(size).map(|b| T::get(b, dtype)).collect()
    };
    shaped(&l.ty.shape, data)
}

/// Numbers stored as elements of `dtype`.
pub(super) fn stored<T: Domain>(a: ArrayViewD<'_, T>, dtype: DType) -> Literal {
    let mut bytes = Vec::with_capacity(a.len() * dtype.size());
    a.iter().for_each(|x| x.put(dtype, &mut bytes));
    Literal { ty: TensorType::new(dtype, a.shape().iter().copied()), bytes: bytes.into() }
}

/// The elements of `l` as they are, for ops that only move them. `N` is their width.
pub(super) fn words<const N: usize>(l: &Literal) -> Result<ArrayD<[u8; N]>> {
    let word = |b: &[u8]| <[u8; N]>::try_from(b).map_err(|_| Error::internal("an element of another width"));
    let data = if l.is_splat() {
        vec![word(&l.bytes)?; l.ty.numel()]
    } else {
        l.bytes.chunks_exact(N).map(word).collect::<Result<_>>()?
    };
    shaped(&l.ty.shape, data)
}

/// Elements as they are, in row-major order.
pub(super) fn moved<const N: usize>(a: ArrayViewD<'_, [u8; N]>, dtype: DType) -> Literal {
    let bytes: Vec<u8> = a.iter().flatten().copied().collect();
    Literal { ty: TensorType::new(dtype, a.shape().iter().copied()), bytes: bytes.into() }
}

/// `data` in `shape`.
pub(super) fn shaped<T>(shape: &[usize], data: Vec<T>) -> Result<ArrayD<T>> {
    ArrayD::from_shape_vec(IxDyn(shape), data).map_err(|e| Error::internal(format!("a literal's data: {e}")))
}

/// The elements of `l`, an integer tensor, as indices.
pub(super) fn indices(l: &Literal) -> Result<ArrayD<i128>> {
    numbers::<i128>(l)
}

/// A position as a slice.
pub(super) fn coordinates(position: &IxDyn) -> &[usize] {
    position.as_array_view().to_slice().unwrap_or(&[])
}
