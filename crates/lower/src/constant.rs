//! Literals as MLIR attributes, bit for bit.

use crate::session::Session;
use ir::{DType, Error, Literal, Number, Result, TensorType};
use melior::ir::Attribute;
use melior::ir::attribute::{AttributeLike, DenseElementsAttribute};
use std::borrow::Cow;

impl<'c> Session<'c> {
    /// The bytes of `literal`, which MLIR keeps as they are: NaNs keep their payload, zeros their sign.
    pub(crate) fn dense(&self, literal: &Literal) -> Result<Attribute<'c>> {
        let bytes = storage(literal)?;
        let attribute = DenseElementsAttribute::raw_buffer(self.tensor(&literal.ty)?, &bytes);
        // The C API answers a length that it does not like with null, which nothing downstream survives.
        match attribute.to_raw().ptr.is_null() {
            true => Err(Error::internal(format!("{} bytes are no constant of {}", bytes.len(), literal.ty))),
            false => Ok(attribute.into()),
        }
    }
}

/// The bytes as MLIR stores them: a `bool` takes one bit, and a lone `0xff` means all true; no elements, no bytes.
fn storage(literal: &Literal) -> Result<Cow<'_, [u8]>> {
    let (ty, bytes) = (&literal.ty, &literal.bytes[..]);
    let n = ty.checked_numel().ok_or_else(|| Error::internal(format!("a constant of {ty} is too large")))?;
    let fits = literal.is_splat() || Some(bytes.len()) == n.checked_mul(ty.dtype.size());
    if !fits {
        return Err(Error::internal(format!("{} bytes are no constant of {ty}", bytes.len())));
    }
    if n == 0 {
        return Ok(Cow::Borrowed(&[]));
    }
    if ty.dtype != DType::Bool {
        return Ok(Cow::Borrowed(bytes));
    }
    let all_equal = bytes.iter().all(|&b| (b != 0) == (bytes[0] != 0));
    if all_equal {
        return Ok(Cow::Borrowed(if bytes[0] != 0 { &[0xff] } else { &[0] }));
    }
    let octet = |bits: &[u8]| bits.iter().enumerate().fold(0, |byte, (i, &b)| byte | u8::from(b != 0) << i);
    Ok(bytes.chunks(8).map(octet).collect())
}

/// Zero in every element of `ty`.
pub(crate) fn zeros(ty: &TensorType) -> Literal {
    filled(Number::Int(0), ty)
}

/// `number` in every element of `ty`.
pub(crate) fn filled(number: Number, ty: &TensorType) -> Literal {
    Literal::splat(number, ty.dtype, ty.shape.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(dtype: DType, shape: &[usize], bytes: &[u8]) -> Vec<u8> {
        let ty = TensorType::new(dtype, shape.iter().copied());
        storage(&Literal { ty, bytes: bytes.into() }).unwrap().into_owned()
    }

    #[test]
    fn bools_are_packed_by_the_bit() {
        assert_eq!(stored(DType::Bool, &[3], &[1, 0, 1]), [0b101]);
        assert_eq!(stored(DType::Bool, &[9], &[1, 0, 0, 0, 0, 0, 0, 1, 1]), [0x81, 1]);
        assert_eq!(stored(DType::Bool, &[3], &[1, 1, 1]), [0xff]);
        assert_eq!(stored(DType::Bool, &[70], &[1]), [0xff]);
        assert_eq!(stored(DType::Bool, &[2], &[0, 0]), [0]);
    }

    #[test]
    fn nothing_is_stored_for_no_elements() {
        assert!(stored(DType::F32, &[0, 3], &[]).is_empty());
        assert!(stored(DType::F32, &[0], &[0, 0, 128, 63]).is_empty());
        assert!(stored(DType::Bool, &[0], &[1]).is_empty());
    }

    #[test]
    fn a_wrong_length_is_an_error() {
        let bad = Literal { ty: TensorType::new(DType::F32, [2]), bytes: [0u8; 7][..].into() };
        assert!(storage(&bad).is_err());
    }
}
