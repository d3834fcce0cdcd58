//! Elements of constants, exact to the bit.

use crate::dtype::DType;
use crate::float8;
use crate::literal::Literal;
use half::{bf16, f16};
use std::fmt::{self, Write};

/// One element, or the list of all.
pub(super) fn write_literal(f: &mut dyn Write, literal: &Literal) -> fmt::Result {
    let dtype = literal.ty.dtype;
    if literal.is_splat() {
        return write_element(f, &literal.bytes, dtype);
    }
    f.write_char('[')?;
    for (i, bytes) in literal.bytes.chunks(dtype.size()).enumerate() {
        f.write_str(if i == 0 { "" } else { ", " })?;
        write_element(f, bytes, dtype)?;
    }
    f.write_char(']')
}

fn write_element(f: &mut dyn Write, bytes: &[u8], dtype: DType) -> fmt::Result {
    if dtype.is_complex() {
        let (re, im) = bytes.split_at(bytes.len() / 2);
        f.write_char('(')?;
        write_element(f, re, dtype.real())?;
        f.write_str(", ")?;
        write_element(f, im, dtype.real())?;
        return f.write_char(')');
    }
    let bits = bytes.iter().rev().fold(0u64, |bits, &b| bits << 8 | u64::from(b));
    match dtype {
        DType::Bool if bits <= 1 => write!(f, "{}", bits == 1),
        // Shortest decimals that read back as the same number.
        DType::F64 if !f64::from_bits(bits).is_nan() => write!(f, "{:?}", f64::from_bits(bits)),
        DType::F32 | DType::F16 | DType::BF16 | DType::F8E4M3FN | DType::F8E5M2 if !narrow(bits, dtype).is_nan() => {
            write!(f, "{:?}", narrow(bits, dtype))
        }
        d if d.is_unsigned() => write!(f, "{bits}"),
        d if d.is_int() => write!(f, "{}", signed(bits, dtype)),
        _ => write!(f, "{bits:#x}"),
    }
}

/// The value of a float of at most 32 bits, exactly.
fn narrow(bits: u64, dtype: DType) -> f32 {
    match dtype {
        DType::F16 => f16::from_bits(bits as u16).to_f32(),
        DType::BF16 => bf16::from_bits(bits as u16).to_f32(),
        DType::F32 => f32::from_bits(bits as u32),
        d => float8::to_f32(bits as u8, d),
    }
}

fn signed(bits: u64, dtype: DType) -> i64 {
    let unused = 64 - 8 * dtype.size() as u32;
    ((bits << unused) as i64) >> unused
}

/// The bytes of the element that `text` spells. A complex one is given by its two parts.
pub(super) fn read_real(text: &str, dtype: DType, out: &mut Vec<u8>) -> Option<()> {
    let bits = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok()?,
        None => bits_of(text, dtype)?,
    };
    let (bytes, size) = (bits.to_le_bytes(), dtype.size());
    let fits = bytes[size..].iter().all(|&b| b == 0);
    out.extend(fits.then_some(&bytes[..size])?);
    Some(())
}

fn bits_of(text: &str, dtype: DType) -> Option<u64> {
    Some(match dtype {
        DType::Bool => u64::from(text.parse::<bool>().ok()?),
        DType::F64 => text.parse::<f64>().ok()?.to_bits(),
        DType::F32 => u64::from(text.parse::<f32>().ok()?.to_bits()),
        DType::F16 => u64::from(f16::from_f32(text.parse().ok()?).to_bits()),
        DType::BF16 => u64::from(bf16::from_f32(text.parse().ok()?).to_bits()),
        DType::F8E4M3FN | DType::F8E5M2 => u64::from(float8::from_f32(text.parse().ok()?, dtype)),
        d if d.is_unsigned() => text.parse().ok()?,
        d => {
            let value: i64 = text.parse().ok()?;
            let mask = u64::MAX >> (64 - 8 * d.size());
            let bits = value as u64 & mask;
            (signed(bits, d) == value).then_some(bits)?
        }
    })
}
