//! The two 8-bit floats PyTorch and StableHLO share.

use crate::dtype::DType;

/// (exponent bits, mantissa bits, bias) and whether there is an infinity.
fn format(dtype: DType) -> (u32, u32, i32, bool) {
    match dtype {
        DType::F8E4M3FN => (4, 3, 7, false),
        _ => (5, 2, 15, true),
    }
}

/// The value of the bit pattern `bits` of `dtype` (`f8e4m3fn` or `f8e5m2`).
pub fn to_f32(bits: u8, dtype: DType) -> f32 {
    let (e_bits, m_bits, bias, has_inf) = format(dtype);
    let sign = if bits & 0x80 != 0 { -1.0 } else { 1.0 };
    let e = i32::from((bits >> m_bits) & ((1 << e_bits) - 1));
    let m = u32::from(bits) & ((1 << m_bits) - 1);
    let top = (1 << e_bits) - 1;
    if e == top && has_inf {
        return if m == 0 { sign * f32::INFINITY } else { f32::NAN };
    }
    if e == top && m == (1 << m_bits) - 1 {
        return f32::NAN;
    }
    let unit = (m_bits as i32) + bias;
    let (mantissa, exponent) = if e == 0 { (m, 1) } else { (m | (1 << m_bits), e) };
    sign * (mantissa as f32) * ((exponent - unit) as f32).exp2()
}

/// `x` as it is converted to `dtype`: `f8e4m3fn` has no infinity, and PyTorch makes its largest number of what lies beyond.
pub fn saturated(x: f64, dtype: DType) -> f64 {
    if dtype == DType::F8E4M3FN { x.clamp(-dtype.largest(), dtype.largest()) } else { x }
}

/// The bit pattern of `dtype` nearest to `x`, ties to even. Beyond the range: NaN for `f8e4m3fn`, infinity for
/// `f8e5m2`, as StableHLO computes.
pub fn from_f32(x: f32, dtype: DType) -> u8 {
    let sign = if x.is_sign_negative() { 0x80u8 } else { 0 };
    let magnitude = x.abs();
    // Positive patterns are ordered as their values are, so the nearest is found by bisection.
    let (greatest, overflow, nan) = match dtype {
        DType::F8E4M3FN => (0x7eu8, 0x7fu8, 0x7fu8),
        _ => (0x7b, 0x7c, 0x7e),
    };
    if x.is_nan() {
        return sign | nan;
    }
    let (mut low, mut high) = (0u8, greatest);
    while low < high {
        let mid = low + (high - low).div_ceil(2);
        if to_f32(mid, dtype) <= magnitude { low = mid } else { high = mid - 1 }
    }
    let below = to_f32(low, dtype);
    let step = if low == greatest { below - to_f32(low - 1, dtype) } else { to_f32(low + 1, dtype) - below };
    let rest = magnitude - below;
    let up = rest * 2.0 > step || (rest * 2.0 == step && low & 1 == 1);
    match (up, low == greatest) {
        (true, true) => sign | overflow,
        (true, false) => sign | (low + 1),
        (false, _) => sign | low,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_survives_the_round_trip() {
        for dtype in [DType::F8E4M3FN, DType::F8E5M2] {
            for bits in 0..=255u8 {
                let x = to_f32(bits, dtype);
                if !x.is_nan() {
                    assert_eq!(from_f32(x, dtype), bits, "{dtype} {bits:#x} is {x}");
                }
            }
        }
    }

    #[test]
    fn known_values() {
        assert_eq!(to_f32(0x7e, DType::F8E4M3FN), 448.0);
        assert_eq!(to_f32(0x7b, DType::F8E5M2), 57344.0);
        assert_eq!(from_f32(1e9, DType::F8E5M2), 0x7c);
        assert!(to_f32(from_f32(1e9, DType::F8E4M3FN), DType::F8E4M3FN).is_nan());
        assert_eq!([1e9, f64::INFINITY, -465.0].map(|x| saturated(x, DType::F8E4M3FN)), [448.0, 448.0, -448.0]);
        assert!(saturated(f64::NAN, DType::F8E4M3FN).is_nan());
    }
}
