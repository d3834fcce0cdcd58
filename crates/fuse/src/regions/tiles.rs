//! What a value takes in a TPU's memory, whose tiles are 128 lanes wide and up to 8 rows high.
//!
//! Any dimension may lie along the lanes, and any other along the rows. XLA chooses the two for programs' arguments and
//! results, and for most of what lies between, so that little is padding: 32 features of 56 by 56 pixels lie with a row of
//! pixels along the lanes, 64 features of them along the lanes themselves.

use crate::measure::SUBLANES;
use ir::TensorType;

const LANES: usize = 128;

/// Bytes of `ty` where it pads least. Vectors are taken as dense: a tile of theirs is no more than a register.
pub(super) fn padded_bytes(ty: &TensorType) -> u64 {
    let dense = ty.size_in_bytes() as u64;
    let extents = &ty.shape[..];
    if extents.len() < 2 || dense == 0 {
        return dense;
    }
    let growths = extents.iter().enumerate().flat_map(|(lane, &along)| {
        let rows = extents.iter().enumerate().filter(move |&(row, _)| row != lane);
        rows.map(move |(_, &across)| (padded(along, LANES) * padded(across, rows_of(across)), along * across))
    });
    // Of two quotients the smaller one: a/b < c/d where ad < cb.
    let least = growths.reduce(|a, b| {
        let is_less = a.0 as u128 * b.1 as u128 <= b.0 as u128 * a.1 as u128;
        if is_less { a } else { b }
    });
    least.map_or(dense, |(padded, plain)| dense / plain as u64 * padded as u64)
}

/// Rows of a tile: a few rows have lower tiles.
fn rows_of(extent: usize) -> usize {
    extent.next_power_of_two().min(SUBLANES)
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
    fn whole_tiles_vectors_and_nothing_pad_nothing() {
        assert_eq!(bytes(DType::BF16, &[512, 1]), 512 * 2);
        assert_eq!(bytes(DType::F32, &[2, 384, 256]), 2 * 384 * 256 * 4);
        assert_eq!(bytes(DType::F32, &[100]), 400);
        assert_eq!(bytes(DType::F32, &[]), 4);
        assert_eq!(bytes(DType::F32, &[0, 7]), 0);
        assert_eq!(bytes(DType::F32, &[3, 5]), 4 * 128 * 4);
    }
}
