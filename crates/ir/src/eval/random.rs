//! Random bits: Threefry 2x32 with 20 rounds (Salmon, Moraes, Dror, Shaw: Parallel Random Numbers: As Easy as 1, 2, 3),
//! counted and laid out as XLA does for StableHLO's `THREE_FRY`.

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::literal::Literal;
use crate::types::TensorType;

const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];

/// Enciphers `counter` under `key`.
fn threefry(key: u64, counter: u64) -> [u32; 2] {
    let halves = |x: u64| [x as u32, (x >> 32) as u32];
    let [k0, k1] = halves(key);
    let keys = [k0, k1, k0 ^ k1 ^ 0x1bd1_1bda];
    let [mut x, mut y] = halves(counter);
    (x, y) = (x.wrapping_add(keys[0]), y.wrapping_add(keys[1]));
    for round in 0..5u32 {
        for rotation in ROTATIONS[(round % 2) as usize] {
            x = x.wrapping_add(y);
            y = y.rotate_left(rotation) ^ x;
        }
        let key = |i: u32| keys[((round + i) % 3) as usize];
        (x, y) = (x.wrapping_add(key(1)), y.wrapping_add(key(2)).wrapping_add(round + 1));
    }
    [x, y]
}

/// The next state and the bits.
pub(super) fn rng_bit_generator(state: &Literal, dtype: DType, shape: &[usize]) -> Result<Vec<Literal>> {
    let words = super::element::indices(state)?;
    let [key, counter] = [0, 1].map(|i| words[[i].as_slice()] as u64);
    let (bits, drawn) = if dtype == DType::U64 { wide(key, counter, shape) } else { narrow(key, counter, shape) };
    let next = [key, counter.wrapping_add(drawn)].iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>();
    let next = Literal { ty: state.ty.clone(), bytes: next.into() };
    let ty = TensorType::new(dtype, shape.iter().copied());
    let bits = Literal::dense(ty, bits).ok_or_else(|| Error::internal("bits of a wrong size"))?;
    Ok(vec![next, bits])
}

/// One count an element.
fn wide(key: u64, counter: u64, shape: &[usize]) -> (Vec<u8>, u64) {
    let n = shape.iter().product::<usize>() as u64;
    let word = |i: u64| {
        let [low, high] = threefry(key, counter.wrapping_add(i));
        (u64::from(high) << 32 | u64::from(low)).to_le_bytes()
    };
    ((0..n).flat_map(word).collect(), n)
}

/// One count for two neighbours along one dimension: the first of even extent, or else the first of the greatest.
fn narrow(key: u64, counter: u64, shape: &[usize]) -> (Vec<u8>, u64) {
    let even = shape.iter().position(|d| d % 2 == 0);
    let greatest = shape.iter().max().and_then(|m| shape.iter().position(|d| d == m));
    let split = even.or(greatest);
    let extent = split.map_or(1, |d| shape[d]);
    let inner: usize = split.map_or(1, |d| shape[d + 1..].iter().product());
    let outer: usize = split.map_or(1, |d| shape[..d].iter().product());
    let half = extent.div_ceil(2);
    let mut bytes = Vec::with_capacity(outer * extent * inner * 4);
    for i in 0..outer * extent * inner {
        let (o, along, n) = (i / (extent * inner), i / inner % extent, i % inner);
        let count = (o * half + along / 2) * inner + n;
        bytes.extend(threefry(key, counter.wrapping_add(count as u64))[along % 2].to_le_bytes());
    }
    (bytes, (outer * half * inner) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_authors_vectors() {
        // Known answers that come with the paper's library, Random123.
        assert_eq!(threefry(0, 0), [0x6b20_0159, 0x99ba_4efe]);
        assert_eq!(threefry(u64::MAX, u64::MAX), [0x1cb9_96fc, 0xbb00_2be7]);
        let halves = |low: u64, high: u64| high << 32 | low;
        let (key, counter) = (halves(0x1319_8a2e, 0x0370_7344), halves(0x243f_6a88, 0x85a3_08d3));
        assert_eq!(threefry(key, counter), [0xc492_3a9c, 0x483d_f7a0]);
    }
}
