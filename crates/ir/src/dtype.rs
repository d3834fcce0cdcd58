//! Element types.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The element type of a tensor. Names print and parse as in StableHLO, with `u8` for `ui8` and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)] // the names say it
pub enum DType {
    Bool,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F8E4M3FN,
    F8E5M2,
    BF16,
    F16,
    F32,
    F64,
    C64,
    C128,
}

/// PyTorch's promotion categories, in rising order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Category {
    Bool,
    Int,
    Float,
    Complex,
}

impl DType {
    /// Every element type, in declaration order.
    pub const ALL: [DType; 17] = {
        use DType::*;
        [Bool, I8, I16, I32, I64, U8, U16, U32, U64, F8E4M3FN, F8E5M2, BF16, F16, F32, F64, C64, C128]
    };

    /// The name used in text: `f32`, `i64`, `bool`, `f8e4m3fn`, `c64`.
    pub fn name(self) -> &'static str {
        use DType::*;
        match self {
            Bool => "bool",
            I8 => "i8",
            I16 => "i16",
            I32 => "i32",
            I64 => "i64",
            U8 => "u8",
            U16 => "u16",
            U32 => "u32",
            U64 => "u64",
            F8E4M3FN => "f8e4m3fn",
            F8E5M2 => "f8e5m2",
            BF16 => "bf16",
            F16 => "f16",
            F32 => "f32",
            F64 => "f64",
            C64 => "c64",
            C128 => "c128",
        }
    }

    /// Bytes of one element in host memory (`bool` takes one).
    pub fn size(self) -> usize {
        use DType::*;
        match self {
            Bool | I8 | U8 | F8E4M3FN | F8E5M2 => 1,
            I16 | U16 | BF16 | F16 => 2,
            I32 | U32 | F32 => 4,
            I64 | U64 | F64 | C64 => 8,
            C128 => 16,
        }
    }

    /// The promotion category.
    pub fn category(self) -> Category {
        use DType::*;
        match self {
            Bool => Category::Bool,
            I8 | I16 | I32 | I64 | U8 | U16 | U32 | U64 => Category::Int,
            F8E4M3FN | F8E5M2 | BF16 | F16 | F32 | F64 => Category::Float,
            C64 | C128 => Category::Complex,
        }
    }

    /// A real floating-point type.
    pub fn is_float(self) -> bool {
        self.category() == Category::Float
    }
    /// A complex type.
    pub fn is_complex(self) -> bool {
        self.category() == Category::Complex
    }
    /// An integer type, `bool` not counted.
    pub fn is_int(self) -> bool {
        self.category() == Category::Int
    }
    /// The least and the greatest of an integer type.
    pub fn int_range(self) -> Option<(i128, i128)> {
        let bits = 8 * self.size() as u32;
        match self.category() {
            Category::Int if self.is_unsigned() => Some((0, (1 << bits) - 1)),
            Category::Int => Some((-(1 << (bits - 1)), (1 << (bits - 1)) - 1)),
            _ => None,
        }
    }
    /// An unsigned integer type.
    pub fn is_unsigned(self) -> bool {
        matches!(self, DType::U8 | DType::U16 | DType::U32 | DType::U64)
    }
    /// The real type of a complex number's parts; any other type is its own.
    pub fn real(self) -> DType {
        match self {
            DType::C64 => DType::F32,
            DType::C128 => DType::F64,
            other => other,
        }
    }
    /// The largest finite number of a float, or of a complex number's parts; of any other type that of `f64`.
    pub fn largest(self) -> f64 {
        match self {
            DType::F16 => f64::from(half::f16::MAX),
            DType::BF16 => f64::from(half::bf16::MAX),
            DType::F8E4M3FN => 448.0,
            DType::F8E5M2 => 57344.0,
            DType::F32 | DType::C64 => f64::from(f32::MAX),
            _ => f64::MAX,
        }
    }
    /// Whether a real number is in the range that a float of 16 bits or more holds with all its digits.
    pub fn is_normal(self, x: f64) -> bool {
        let least = match self {
            DType::F16 => f64::from(half::f16::MIN_POSITIVE),
            DType::F32 | DType::BF16 => f64::from(f32::MIN_POSITIVE),
            DType::F64 => f64::MIN_POSITIVE,
            _ => return false,
        };
        (least..=self.largest()).contains(&x.abs())
    }
    /// Whether it is one of the floats of 8 bits, which promote with nothing.
    pub fn is_float8(self) -> bool {
        self.is_float() && self.size() == 1
    }
    /// Whether it is an unsigned integer of 16 bits or more, for which PyTorch has few kernels.
    pub fn is_wide_unsigned(self) -> bool {
        self.is_unsigned() && self.size() > 1
    }
    /// The type PyTorch accumulates in: `f32` for the 8- and 16-bit floats, itself for the rest.
    pub fn accumulator(self) -> DType {
        match self {
            DType::F8E4M3FN | DType::F8E5M2 | DType::BF16 | DType::F16 => DType::F32,
            other => other,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for DType {
    type Err = String;
    fn from_str(s: &str) -> Result<DType, String> {
        DType::ALL.into_iter().find(|d| d.name() == s).ok_or_else(|| format!("`{s}` is not an element type"))
    }
}
