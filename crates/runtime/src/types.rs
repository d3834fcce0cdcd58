//! Element types and shapes of what crosses the plugin border.

use std::fmt;

use crate::error::{Error, Result};

macro_rules! element_types {
    ($( $variant:ident = $c_name:literal, $name:literal, $bits:literal; )*) => {
        /// The element type of a buffer. The discriminant is the C API's number.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(i32)]
        #[allow(missing_docs)] // the names are PJRT's
        pub enum ElementType { $($variant),* }

        impl ElementType {
            /// Every element type, in the order of its number.
            pub const ALL: &'static [ElementType] = &[$(ElementType::$variant),*];

            /// The name that HLO text uses: `f32`, `pred`, `bf16`.
            pub const fn name(self) -> &'static str {
                match self { $(ElementType::$variant => $name),* }
            }

            /// Width of one element in bits; 0 for the invalid type and tokens.
            pub const fn bits(self) -> usize {
                match self { $(ElementType::$variant => $bits),* }
            }

            /// The C constant's name, for the layout test.
            #[cfg(test)]
            pub(crate) const fn c_name(self) -> &'static str {
                match self { $(ElementType::$variant => concat!("PJRT_Buffer_Type_", $c_name)),* }
            }
        }
    };
}

element_types! {
    Invalid = "INVALID", "invalid", 0;
    Pred = "PRED", "pred", 8;
    S8 = "S8", "s8", 8;
    S16 = "S16", "s16", 16;
    S32 = "S32", "s32", 32;
    S64 = "S64", "s64", 64;
    U8 = "U8", "u8", 8;
    U16 = "U16", "u16", 16;
    U32 = "U32", "u32", 32;
    U64 = "U64", "u64", 64;
    F16 = "F16", "f16", 16;
    F32 = "F32", "f32", 32;
    F64 = "F64", "f64", 64;
    Bf16 = "BF16", "bf16", 16;
    C64 = "C64", "c64", 64;
    C128 = "C128", "c128", 128;
    F8E5M2 = "F8E5M2", "f8e5m2", 8;
    F8E4M3Fn = "F8E4M3FN", "f8e4m3fn", 8;
    F8E4M3B11Fnuz = "F8E4M3B11FNUZ", "f8e4m3b11fnuz", 8;
    F8E5M2Fnuz = "F8E5M2FNUZ", "f8e5m2fnuz", 8;
    F8E4M3Fnuz = "F8E4M3FNUZ", "f8e4m3fnuz", 8;
    S4 = "S4", "s4", 4;
    U4 = "U4", "u4", 4;
    Token = "TOKEN", "token", 0;
    S2 = "S2", "s2", 2;
    U2 = "U2", "u2", 2;
    F8E4M3 = "F8E4M3", "f8e4m3", 8;
    F8E3M4 = "F8E3M4", "f8e3m4", 8;
    F8E8M0Fnu = "F8E8M0FNU", "f8e8m0fnu", 8;
    F4E2M1Fn = "F4E2M1FN", "f4e2m1fn", 4;
}

impl ElementType {
    /// Bytes that one element takes in host memory: types narrower than a byte are unpacked, one to a byte.
    pub const fn host_bytes(self) -> usize {
        self.bits().div_ceil(8)
    }

    /// The type with the C API's number `raw`.
    pub(crate) fn from_raw(raw: i32) -> Result<Self> {
        let known = usize::try_from(raw).ok().and_then(|raw| ElementType::ALL.get(raw));
        known.copied().ok_or(Error::UnknownElementType(raw))
    }

    pub(crate) const fn raw(self) -> i32 {
        self as i32
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Element type and static dimensions of one argument or result. Displays as HLO does: `f32[2,3]`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TensorType {
    /// The element type.
    pub element_type: ElementType,
    /// The sizes, outermost first; empty for a scalar.
    pub dims: Vec<i64>,
}

impl TensorType {
    /// A type from its parts.
    pub fn new(element_type: ElementType, dims: impl Into<Vec<i64>>) -> Self {
        TensorType { element_type, dims: dims.into() }
    }

    /// Number of elements.
    ///
    /// # Errors
    /// When a dimension is negative or the product does not fit.
    pub fn num_elements(&self) -> Result<usize> {
        let mut elements = 1usize;
        for &dim in &self.dims {
            let dim = usize::try_from(dim).map_err(|_| Error::Invalid(format!("{self} has a negative dimension")))?;
            elements =
                elements.checked_mul(dim).ok_or_else(|| Error::Invalid(format!("{self} has too many elements")))?;
        }
        Ok(elements)
    }

    /// Bytes that a dense row-major copy takes in host memory.
    ///
    /// # Errors
    /// When a dimension is negative, the size does not fit, or the element type has no host form.
    pub fn host_size_in_bytes(&self) -> Result<usize> {
        if self.element_type.bits() == 0 {
            return Err(Error::Invalid(format!("{} values have no host form", self.element_type)));
        }
        let bytes = self.num_elements()?.checked_mul(self.element_type.host_bytes());
        bytes
            .filter(|&bytes| isize::try_from(bytes).is_ok())
            .ok_or_else(|| Error::Invalid(format!("{self} is too large for this machine")))
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dims: Vec<String> = self.dims.iter().map(i64::to_string).collect();
        write!(f, "{}[{}]", self.element_type, dims.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_types_correspond() {
        for (number, &ty) in ElementType::ALL.iter().enumerate() {
            assert_eq!(ty.raw(), number as i32);
            assert_eq!(ElementType::from_raw(number as i32).ok(), Some(ty));
        }
        assert!(matches!(ElementType::from_raw(-1), Err(Error::UnknownElementType(-1))));
        assert!(ElementType::from_raw(ElementType::ALL.len() as i32).is_err());
    }

    #[test]
    fn sizes_reject_what_cannot_be() {
        let ty = |dims: &[i64]| TensorType::new(ElementType::F64, dims);
        assert_eq!(ty(&[]).host_size_in_bytes().ok(), Some(8));
        assert_eq!(ty(&[3, 0, 2]).host_size_in_bytes().ok(), Some(0));
        assert!(ty(&[-1]).host_size_in_bytes().is_err());
        assert!(ty(&[i64::MAX]).host_size_in_bytes().is_err());
        assert!(ty(&[i64::MAX, 4]).host_size_in_bytes().is_err());
        assert!(TensorType::new(ElementType::Token, []).host_size_in_bytes().is_err());
        assert_eq!(TensorType::new(ElementType::S4, [5]).host_size_in_bytes().ok(), Some(5));
    }

    #[test]
    fn types_are_told_as_xla_does() {
        assert_eq!(TensorType::new(ElementType::F32, [2, 0, 4]).to_string(), "f32[2,0,4]");
    }
}
