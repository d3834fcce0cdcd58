//! How much memory a shape takes: what its elements need, and what its tiled layout makes of it.

use hlo::primitive;
use hlo::proto::{LayoutProto, ShapeProto};

/// The memory space of high-bandwidth memory, in layouts and as a buffer's color.
pub(crate) const HBM: i64 = 0;
/// That of vector memory.
pub(crate) const VMEM: i64 = 1;

/// The part of a shape at a path into its tuples.
pub(crate) fn at<'a>(shape: &'a ShapeProto, path: &[i64]) -> Option<&'a ShapeProto> {
    path.iter().try_fold(shape, |shape, &index| shape.tuple_shapes.get(usize::try_from(index).ok()?))
}

/// Every array in a shape.
pub(crate) fn arrays<'a>(shape: &'a ShapeProto, visit: &mut dyn FnMut(&'a ShapeProto)) {
    if shape.element_type == primitive::TUPLE {
        shape.tuple_shapes.iter().for_each(|shape| arrays(shape, visit));
    } else {
        visit(shape);
    }
}

/// An array's elements.
pub(crate) fn elements(shape: &ShapeProto) -> u64 {
    extents(shape).fold(1, u64::saturating_mul)
}

/// Bytes of an array's elements, side by side.
pub(crate) fn bytes(shape: &ShapeProto) -> u64 {
    in_bytes(elements(shape), shape.element_type)
}

/// Bytes of an array as laid out.
pub(crate) fn padded_bytes(shape: &ShapeProto) -> u64 {
    let Some(layout) = &shape.layout else { return bytes(shape) };
    in_bytes(padded_elements(shape, layout), shape.element_type)
}

/// Where an array lies.
pub(crate) fn space(shape: &ShapeProto) -> i64 {
    shape.layout.as_ref().map_or(HBM, |layout| layout.memory_space)
}

fn extents(shape: &ShapeProto) -> impl Iterator<Item = u64> {
    shape.dimensions.iter().map(|&extent| u64::try_from(extent).unwrap_or(0))
}

fn in_bytes(elements: u64, ty: i32) -> u64 {
    elements.saturating_mul(u64::from(primitive::bits(ty))).div_ceil(8)
}

/// Elements including padding. Each tile covers the most minor dimensions that the tiles before it left, and makes them
/// dimensions of tiles and dimensions within a tile; an extent that does not fill its tiles is padded.
fn padded_elements(shape: &ShapeProto, layout: &LayoutProto) -> u64 {
    let extent = |&dimension: &i64| {
        let dimension = usize::try_from(dimension).ok()?;
        u64::try_from(*shape.dimensions.get(dimension)?).ok()
    };
    let major_to_minor: Option<Vec<u64>> = layout.minor_to_major.iter().rev().map(extent).collect();
    let Some(mut extents) = major_to_minor.filter(|found| found.len() == shape.dimensions.len()) else {
        return elements(shape);
    };
    for tile in &layout.tiles {
        let sizes: Vec<u64> = tile.dimensions.iter().map(|&size| u64::try_from(size).unwrap_or(1).max(1)).collect();
        // A tile of a higher rank than the array has it as the array's most minor part.
        let missing = sizes.len().saturating_sub(extents.len());
        extents.splice(0..0, std::iter::repeat_n(1, missing));
        let first = extents.len() - sizes.len();
        let tiles: Vec<u64> =
            extents[first..].iter().zip(&sizes).map(|(extent, size)| extent.div_ceil(*size)).collect();
        extents.truncate(first);
        extents.extend(tiles);
        extents.extend(sizes);
    }
    extents.into_iter().fold(1, u64::saturating_mul)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{array, laid_out};

    #[test]
    fn tiles_pad_the_most_minor_dimensions() {
        let f32 = |dimensions: &[i64], tiles: &[&[i64]]| padded_bytes(&laid_out("f32", dimensions, tiles, HBM));
        assert_eq!(f32(&[50, 200], &[&[8, 128]]), 56 * 256 * 4);
        assert_eq!(f32(&[3, 50, 200], &[&[8, 128]]), 3 * 56 * 256 * 4);
        assert_eq!(f32(&[100], &[&[128]]), 128 * 4);
        assert_eq!(f32(&[100], &[&[8, 128]]), 8 * 128 * 4, "one row of a tile");
        assert_eq!(f32(&[], &[&[128]]), 128 * 4);
    }

    #[test]
    fn tiles_of_tiles_pack_narrow_elements() {
        let bf16 = |dimensions: &[i64]| padded_bytes(&laid_out("bf16", dimensions, &[&[8, 128], &[2, 1]], HBM));
        assert_eq!(bf16(&[64, 768]), 64 * 768 * 2);
        assert_eq!(bf16(&[50257, 768]), 50264 * 768 * 2, "8 rows, packed in pairs");
        let packed = laid_out("bf16", &[1, 64], &[&[1, 128], &[2, 1]], HBM);
        assert_eq!(padded_bytes(&packed), 256 * 2, "a single row is packed with a row of padding");
    }

    #[test]
    fn what_makes_no_sense_is_taken_without_padding() {
        let mut shape = array("f32", &[4, 4]);
        shape.layout = Some(LayoutProto { minor_to_major: vec![7, -1], ..LayoutProto::default() });
        assert_eq!(padded_bytes(&shape), 64);
        assert_eq!(bytes(&array("f32", &[-3, 4])), 0);
        assert_eq!(bytes(&array("f32", &[i64::MAX, i64::MAX])), u64::MAX.div_ceil(8));
    }
}
