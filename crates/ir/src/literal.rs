//! Constant data.

use crate::dtype::DType;
use crate::float8;
use crate::types::{Shape, TensorType};
use half::{bf16, f16};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A dense constant: row-major, native (little-endian) bytes. A splat holds the bytes of one element only.
///
/// Large data (weights) never becomes a literal; it is passed as an input.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Literal {
    /// Element type and extents.
    pub ty: TensorType,
    /// All elements, or one (`size_in_bytes` of one element) that stands for all.
    pub bytes: Arc<[u8]>,
}

/// A number as PyTorch's `Scalar` holds it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Number {
    Bool(bool),
    Int(i64),
    Float(f64),
    Complex(f64, f64),
}

impl Number {
    /// The greatest number of `dtype`: infinity, where it has one.
    pub fn greatest(dtype: DType) -> Number {
        let bits = dtype.size() as u32 * 8;
        match dtype {
            DType::Bool => Number::Bool(true),
            DType::F8E4M3FN => Number::Float(dtype.largest()), // it has no infinity
            d if d.is_unsigned() => Number::Int(-1),           // wraps to all ones
            d if d.is_int() => Number::Int(i64::MAX >> (64 - bits)),
            _ => Number::Float(f64::INFINITY),
        }
    }
    /// The least number of `dtype`: minus infinity, where it has one.
    pub fn least(dtype: DType) -> Number {
        let bits = dtype.size() as u32 * 8;
        match dtype {
            DType::Bool => Number::Bool(false),
            DType::F8E4M3FN => Number::Float(-dtype.largest()),
            d if d.is_unsigned() => Number::Int(0),
            d if d.is_int() => Number::Int(i64::MIN >> (64 - bits)),
            _ => Number::Float(f64::NEG_INFINITY),
        }
    }
    /// The default element type PyTorch gives a wrapped number.
    pub fn dtype(self) -> DType {
        match self {
            Number::Bool(_) => DType::Bool,
            Number::Int(_) => DType::I64,
            Number::Float(_) => DType::F32,
            Number::Complex(..) => DType::C64,
        }
    }
    /// As a real number (a complex one loses its imaginary part).
    pub fn as_f64(self) -> f64 {
        match self {
            Number::Bool(b) => f64::from(b),
            Number::Int(i) => i as f64,
            Number::Float(f) | Number::Complex(f, _) => f,
        }
    }
    /// As an integer, truncated towards zero.
    pub fn as_i64(self) -> i64 {
        match self {
            Number::Bool(b) => i64::from(b),
            Number::Int(i) => i,
            Number::Float(f) | Number::Complex(f, _) => f as i64,
        }
    }
    /// Exactly zero (or `false`).
    pub fn is_zero(self) -> bool {
        self.equals(0.0)
    }
    /// Exactly one (or `true`).
    pub fn is_one(self) -> bool {
        self.equals(1.0)
    }
    fn equals(self, x: f64) -> bool {
        match self {
            Number::Complex(re, im) => re == x && im == 0.0,
            other => other.as_f64() == x,
        }
    }
    /// The bytes of this number as one element of `dtype`. Integers wrap, as `static_cast` does.
    pub fn to_bytes(self, dtype: DType) -> Vec<u8> {
        use DType::*;
        let (f, i) = (self.as_f64(), self.as_i64());
        match dtype {
            Bool => vec![u8::from(!self.is_zero())],
            I8 | U8 => (i as u8).to_le_bytes().to_vec(),
            I16 | U16 => (i as u16).to_le_bytes().to_vec(),
            I32 | U32 => (i as u32).to_le_bytes().to_vec(),
            I64 | U64 => i.to_le_bytes().to_vec(),
            F8E4M3FN | F8E5M2 => vec![float8::from_f32(float8::saturated(f, dtype) as f32, dtype)],
            BF16 => bf16::from_f64(f).to_le_bytes().to_vec(),
            F16 => f16::from_f64(f).to_le_bytes().to_vec(),
            F32 => (f as f32).to_le_bytes().to_vec(),
            F64 => f.to_le_bytes().to_vec(),
            C64 => [(f as f32).to_le_bytes(), (self.imaginary() as f32).to_le_bytes()].concat(),
            C128 => [f.to_le_bytes(), self.imaginary().to_le_bytes()].concat(),
        }
    }
    fn imaginary(self) -> f64 {
        match self {
            Number::Complex(_, im) => im,
            _ => 0.0,
        }
    }
}

impl Literal {
    /// `number`, converted to `dtype`, in every element of `shape`.
    pub fn splat(number: Number, dtype: DType, shape: impl IntoIterator<Item = usize>) -> Literal {
        Literal { ty: TensorType::new(dtype, shape), bytes: number.to_bytes(dtype).into() }
    }

    /// Dense data. `None` unless `bytes` holds exactly the elements of the type.
    pub fn dense(ty: TensorType, bytes: impl Into<Arc<[u8]>>) -> Option<Literal> {
        let bytes = bytes.into();
        let size = ty.checked_numel()?.checked_mul(ty.dtype.size())?;
        (bytes.len() == size).then_some(Literal { ty, bytes })
    }

    /// A 1-d `i64` tensor.
    pub fn i64s(values: &[i64]) -> Literal {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        Literal { ty: TensorType::new(DType::I64, [values.len()]), bytes: bytes.into() }
    }

    /// Whether one element's bytes stand for all. A one-element literal is a splat too.
    pub fn is_splat(&self) -> bool {
        self.bytes.len() == self.ty.dtype.size()
    }

    /// The float of 16 bits or more that fills it. `None` for other types, and unless this is a splat.
    pub fn float(&self) -> Option<f64> {
        match (self.ty.dtype, &*self.bytes) {
            (DType::BF16, &[a, b]) => Some(bf16::from_le_bytes([a, b]).to_f64()),
            (DType::F16, &[a, b]) => Some(f16::from_le_bytes([a, b]).to_f64()),
            (DType::F32, bytes) => Some(f32::from_le_bytes(bytes.try_into().ok()?).into()),
            (DType::F64, bytes) => Some(f64::from_le_bytes(bytes.try_into().ok()?)),
            _ => None,
        }
    }

    /// The signed integer of 32 bits or more that fills it. `None` for other types, and unless this is a splat.
    pub fn integer(&self) -> Option<i64> {
        match self.ty.dtype {
            DType::I32 => Some(i32::from_le_bytes((*self.bytes).try_into().ok()?).into()),
            DType::I64 => Some(i64::from_le_bytes((*self.bytes).try_into().ok()?)),
            _ => None,
        }
    }

    /// The same element in another shape. `None` unless this is a splat.
    pub fn with_shape(&self, shape: Shape) -> Option<Literal> {
        let ty = TensorType { dtype: self.ty.dtype, shape };
        self.is_splat().then(|| Literal { ty, bytes: self.bytes.clone() })
    }

    /// All elements, splats spelled out.
    pub fn dense_bytes(&self) -> Vec<u8> {
        let n = self.ty.numel();
        if self.is_splat() { self.bytes.repeat(n) } else { self.bytes.to_vec() }
    }
}
