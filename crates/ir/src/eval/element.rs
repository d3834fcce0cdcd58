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
    /// The elements of `dtype` in `bytes`: where there are many, the type is asked for once.
    fn get_all(bytes: &[u8], dtype: DType) -> Vec<Self> {
        one_by_one(bytes, dtype)
    }
    /// Appends the bytes of `numbers` as elements of `dtype`.
    fn put_all(numbers: impl Iterator<Item = Self>, dtype: DType, out: &mut Vec<u8>) {
        numbers.for_each(|x| x.put(dtype, out));
    }
    /// As storing and loading it leaves it.
    fn rounded(self, dtype: DType) -> Self {
        let mut bytes = Vec::with_capacity(16);
        self.put(dtype, &mut bytes);
        Self::get(&bytes, dtype)
    }
    /// Sum; integers wrap.
    fn plus(self, other: Self) -> Self;
    /// Product; integers wrap.
    fn times(self, other: Self) -> Self;
}

fn one_by_one<T: Domain>(bytes: &[u8], dtype: DType) -> Vec<T> {
    bytes.chunks_exact(dtype.size()).map(|b| T::get(b, dtype)).collect()
}

/// `f` of every `N` bytes.
fn each<const N: usize, T>(bytes: &[u8], f: impl Fn([u8; N]) -> T) -> Vec<T> {
    bytes.as_chunks().0.iter().map(|&b| f(b)).collect()
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
    fn get_all(bytes: &[u8], dtype: DType) -> Vec<i128> {
        match dtype {
            DType::I64 => each(bytes, |b| i64::from_le_bytes(b).into()),
            DType::I32 => each(bytes, |b| i32::from_le_bytes(b).into()),
            _ => one_by_one(bytes, dtype),
        }
    }
    fn put_all(numbers: impl Iterator<Item = i128>, dtype: DType, out: &mut Vec<u8>) {
        match dtype {
            DType::I64 => numbers.for_each(|x| out.extend((x as i64).to_le_bytes())),
            DType::I32 => numbers.for_each(|x| out.extend((x as i32).to_le_bytes())),
            _ => numbers.for_each(|x| x.put(dtype, out)),
        }
    }
    fn rounded(self, dtype: DType) -> i128 {
        wrap(self, dtype)
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
    fn get_all(bytes: &[u8], dtype: DType) -> Vec<f64> {
        match dtype {
            DType::F64 => each(bytes, f64::from_le_bytes),
            DType::F32 => each(bytes, |b| f32::from_le_bytes(b).into()),
            _ => one_by_one(bytes, dtype),
        }
    }
    fn put_all(numbers: impl Iterator<Item = f64>, dtype: DType, out: &mut Vec<u8>) {
        match dtype {
            DType::F64 => numbers.for_each(|x| out.extend(x.to_le_bytes())),
            DType::F32 => numbers.for_each(|x| out.extend((x as f32).to_le_bytes())),
            _ => numbers.for_each(|x| x.put(dtype, out)),
        }
    }
    fn rounded(self, dtype: DType) -> f64 {
        match dtype {
            DType::F64 => self,
            DType::F32 => (self as f32).into(),
            DType::F16 => f16::from_f32(self as f32).into(),
            DType::BF16 => bf16::from_f32(self as f32).into(),
            other => float8::to_f32(float8::from_f32(self as f32, other), other).into(),
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

/// The elements of `l` as numbers.
pub(super) fn numbers<T: Domain>(l: &Literal) -> Result<ArrayD<T>> {
    let dtype = l.ty.dtype;
    let data = if l.is_splat() { vec![T::get(&l.bytes, dtype); l.ty.numel()] } else { T::get_all(&l.bytes, dtype) };
    shaped(&l.ty.shape, data)
}

/// Numbers stored as elements of `dtype`.
pub(super) fn stored<T: Domain>(a: ArrayViewD<'_, T>, dtype: DType) -> Literal {
    let mut bytes = Vec::with_capacity(a.len() * dtype.size());
    match a.as_slice() {
        Some(all) => T::put_all(all.iter().copied(), dtype, &mut bytes),
        None => T::put_all(a.iter().copied(), dtype, &mut bytes),
    }
    Literal { ty: TensorType::new(dtype, a.shape().iter().copied()), bytes: bytes.into() }
}

/// The elements of `l` as they are, for ops that only move them. `N` is their width.
pub(super) fn words<const N: usize>(l: &Literal) -> Result<ArrayD<[u8; N]>> {
    let (elements, []) = l.bytes.as_chunks::<N>() else { return Err(Error::internal("an element of another width")) };
    let data = match elements {
        &[one] if l.is_splat() => vec![one; l.ty.numel()],
        all => all.to_vec(),
    };
    shaped(&l.ty.shape, data)
}

/// Elements as they are, in row-major order.
pub(super) fn moved<const N: usize>(a: ArrayViewD<'_, [u8; N]>, dtype: DType) -> Literal {
    let mut bytes = Vec::with_capacity(a.len() * N);
    match a.as_slice() {
        Some(all) => bytes.extend(all.as_flattened()),
        None => a.iter().for_each(|element| bytes.extend(element)),
    }
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
