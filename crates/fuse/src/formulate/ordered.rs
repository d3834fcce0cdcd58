//! Keys as integers that are ordered as they are.

use ir::{Binary, Builder, Comparison, DType, Number, Result, ValueId};

/// For `f32`, `i32` in the same order: the bits, those behind the sign of negative ones turned. NaN is the largest, whatever
/// its sign. Zeros stay two.
pub(super) fn integers(b: &Builder, floats: ValueId) -> Result<ValueId> {
    let nan = b.full_like(floats, Number::Float(f64::NAN))?;
    let is_nan = b.compare(Comparison::Ne, floats, floats)?;
    let floats = b.select(is_nan, nan, floats)?;
    negative_turned(b, b.bitcast_convert(floats, DType::I32)?)
}

/// The floats of [`integers`].
pub(super) fn floats(b: &Builder, integers: ValueId) -> Result<ValueId> {
    b.bitcast_convert(negative_turned(b, integers)?, DType::F32)
}

/// `bits` with all but the sign turned where that is set: its own inverse.
fn negative_turned(b: &Builder, bits: ValueId) -> Result<ValueId> {
    let signs = b.binary(Binary::ShiftRightArithmetic, bits, b.full_like(bits, Number::Int(31))?)?;
    let turned = b.binary(Binary::And, signs, b.full_like(bits, Number::Int(i64::from(i32::MAX)))?)?;
    b.binary(Binary::Xor, bits, turned)
}

/// Whether there is an `i32` for each key of a type.
pub(super) fn fits(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F16 | DType::BF16 | DType::Bool)
        || (dtype.is_int() && (dtype.size() < 4 || dtype == DType::I32))
}

/// `i32` that rise as `keys` do, or as they fall; equal ones for equal ones.
pub(super) fn keys(b: &Builder, keys: ValueId, descending: bool) -> Result<ValueId> {
    let rising = match b.dtype(keys).is_float() {
        false => b.convert(keys, DType::I32)?,
        true => {
            let keys = b.convert(keys, DType::F32)?;
            let zero = b.full_like(keys, Number::Float(0.0))?;
            let is_zero = b.compare(Comparison::Eq, keys, zero)?;
            integers(b, b.select(is_zero, zero, keys)?)?
        }
    };
    if descending { reversed(b, rising) } else { Ok(rising) }
}

/// All bits turned, which turns the order of integers around: its own inverse.
pub(super) fn reversed(b: &Builder, integers: ValueId) -> Result<ValueId> {
    b.binary(Binary::Xor, integers, b.full_like(integers, Number::Int(-1))?)
}
