//! The numbers torch's export schema gives to element types, layouts and memory formats. They are not c10's.

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::ops::MemoryFormat;

/// The strided layout, the only one supported.
const STRIDED: i64 = 7;

/// The element type of a code.
///
/// # Errors
/// `Unsupported` for a type that TorchTPU has not, `Invalid` for an unknown code.
pub fn dtype(code: i64) -> Result<DType> {
    use DType::*;
    let name = match code {
        1 => return Ok(U8),
        2 => return Ok(I8),
        3 => return Ok(I16),
        4 => return Ok(I32),
        5 => return Ok(I64),
        6 => return Ok(F16),
        7 => return Ok(F32),
        8 => return Ok(F64),
        10 => return Ok(C64),
        11 => return Ok(C128),
        12 => return Ok(Bool),
        13 => return Ok(BF16),
        28 => return Ok(U16),
        29 => return Ok(F8E4M3FN),
        30 => return Ok(F8E5M2),
        34 => return Ok(U32),
        35 => return Ok(U64),
        9 => "complex32",
        31 => "float8_e4m3fnuz",
        32 => "float8_e5m2fnuz",
        33 => "float8_e8m0fnu",
        _ => return Err(Error::invalid(format!("{code} is not the code of an element type"))),
    };
    Err(Error::unsupported(format!("tensors of {name} are not supported")))
}

/// The memory format of a code.
///
/// # Errors
/// `Invalid` for an unknown code.
pub fn memory_format(code: i64) -> Result<MemoryFormat> {
    match code {
        1 => Ok(MemoryFormat::Contiguous),
        2 => Ok(MemoryFormat::ChannelsLast),
        3 => Ok(MemoryFormat::ChannelsLast3d),
        4 => Ok(MemoryFormat::Preserve),
        _ => Err(Error::invalid(format!("{code} is not the code of a memory format"))),
    }
}

/// Accepts the strided layout.
///
/// # Errors
/// `Unsupported` for sparse and other layouts.
pub fn layout(code: i64) -> Result<()> {
    match code {
        STRIDED => Ok(()),
        _ => Err(Error::unsupported(format!("tensors of layout {code} are not supported, only strided ones"))),
    }
}
