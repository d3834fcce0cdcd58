//! What a value takes in a TPU's memory, whose tiles are 128 lanes wide and up to 8 rows high.
//!
//! Any dimension may lie along the lanes, and any other along the rows. XLA chooses the two for programs' arguments and
//! results, and for most of what lies between, so that little is padding: 32 features of 56 by 56 pixels lie with a row of
//! pixels along the lanes, 64 features of them along the lanes themselves.

use crate::measure::SUBLANES;
use ir::TensorType;

const LANES: usize = 128;

/// Bytes of `ty` where it pads least. A scalar is taken as dense: it is no transfer.
pub(super) fn padded_bytes(ty: &TensorType) -> u64 {
    let dense = ty.size_in_bytes() as u64;
    let extents = &ty.shape[..];
    if extents.is_empty() || dense == 0 {
        return dense;
    }
    let packed = packed(ty);
    if let [extent] = *extents {
        return dense / extent as u64 * padded(extent, vector_tile(extent, packed)) as u64;
    }
    let growths = extents.iter().enumerate().flat_map(|(lane, &along)| {
        let rows = extents.iter().enumerate().filter(move |&(row, _)| row != lane);
        rows.map(move |(_, &across)| (padded(along, LANES) * padded(across, rows_of(across, packed)), along * across))
    });
    // Of two quotients the smaller one: a/b < c/d where ad < cb.
    let least = growths.reduce(|a, b| {
        let is_less = a.0 as u128 * b.1 as u128 <= b.0 as u128 * a.1 as u128;
        if is_less { a } else { b }
    });
    least.map_or(dense, |(padded, plain)| dense / plain as u64 * padded as u64)
}

/// Narrow elements that share 32 bits of a lane.
fn packed(ty: &TensorType) -> usize {
    (4 / ty.dtype.size()).max(1)
}

/// Rows of a tile: a few rows have lower tiles, but none lower than elements are packed.
fn rows_of(extent: usize, packed: usize) -> usize {
    extent.next_power_of_two().clamp(packed, SUBLANES)
}

/// Elements of a vector's tile: up to a register of 32-bit elements.
fn vector_tile(extent: usize, packed: usize) -> usize {
    extent.next_power_of_two().clamp(LANES * packed, LANES * SUBLANES)
}

fn padded(extent: usize, tile: usize) -> usize {
    extent.div_ceil(tile).saturating_mul(tile)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ir::DType;

    fn bytes(dtype: DType, shape: &[usize]) -> usize {
        padded_bytes(&TensorType::new(dtype, shape.iter().copied())) as usize
    }

    /// As libtpu lays out the arguments and results of the patterns `conv_bn`, `layouts` and `adapter`.
    #[test]
    fn arguments_lie_so_that_they_pad_least() {
        assert_eq!(bytes(DType::F32, &[4, 32, 56, 56]), 4 * 32 * 56 * 128 * 4);
        assert_eq!(bytes(DType::F32, &[4, 64, 56, 56]), 4 * 56 * 56 * 128 * 4);
        assert_eq!(bytes(DType::F32, &[64, 32, 3, 3]), 3 * 3 * 32 * 128 * 4);
        assert_eq!(bytes(DType::F32, &[8, 512, 64]), 8 * 512 * 64 * 4, "rows along the lanes");
    }

    #[test]
    fn whole_tiles_scalars_and_nothing_pad_nothing() {
        assert_eq!(bytes(DType::F32, &[512, 1]), 512 * 4);
        assert_eq!(bytes(DType::F32, &[2, 384, 256]), 2 * 384 * 256 * 4);
        assert_eq!(bytes(DType::F32, &[2048]), 2048 * 4);
        assert_eq!(bytes(DType::F32, &[]), 4);
        assert_eq!(bytes(DType::F32, &[0, 7]), 0);
        assert_eq!(bytes(DType::F32, &[3, 5]), 4 * 128 * 4);
    }
    /// As libtpu 0.0.51 lays out programs' arguments.
    #[test]
    fn vectors_have_tiles_and_narrow_elements_higher_ones() {
        assert_eq!(bytes(DType::F32, &[16]), 128 * 4, "T(128)");
        assert_eq!(bytes(DType::F32, &[300]), 512 * 4, "T(512)");
        assert_eq!(bytes(DType::F32, &[3000]), 3 * 1024 * 4, "T(1024)");
        assert_eq!(bytes(DType::BF16, &[100]), 256 * 2, "T(256)(128)(2,1)");
        assert_eq!(bytes(DType::Bool, &[600]), 1024, "T(1024)(128)(4,1)");
        assert_eq!(bytes(DType::BF16, &[512, 1]), 2 * 512 * 2, "T(2,128)(2,1)");
        assert_eq!(bytes(DType::Bool, &[1, 512]), 4 * 512, "T(4,128)(4,1)");
    }
}
