//! Parts of row-major arrays: taking a device's shard out of a tensor, and putting shards together.

/// Copies the block of `extents` that begins at `start` out of `whole`, a row-major array of `shape` whose elements take
/// `width` bytes.
pub(crate) fn take(whole: &[u8], width: usize, shape: &[usize], start: &[usize], extents: &[usize]) -> Vec<u8> {
    let mut part = Vec::with_capacity(extents.iter().product::<usize>() * width);
    for run in runs(shape, start, extents) {
        part.extend_from_slice(whole.get(run.start * width..run.end * width).unwrap_or_default());
    }
    part
}

/// Copies `part` back to where [`take`] would take it from. Sizes that do not fit are the caller's to refuse.
pub(crate) fn put(part: &[u8], whole: &mut [u8], width: usize, shape: &[usize], start: &[usize], extents: &[usize]) {
    let mut rest = part;
    for run in runs(shape, start, extents) {
        let (now, later) = rest.split_at_checked(run.len() * width).unwrap_or((rest, &[]));
        if let Some(target) = whole.get_mut(run.start * width..run.start * width + now.len()) {
            target.copy_from_slice(now);
        }
        rest = later;
    }
}

/// The contiguous runs of elements that make up a block, in row-major order.
fn runs<'a>(
    shape: &'a [usize],
    start: &'a [usize],
    extents: &'a [usize],
) -> impl Iterator<Item = std::ops::Range<usize>> + 'a {
    // Dimensions from `inner` on lie together: all but the first of them are taken whole.
    let whole = shape.iter().zip(extents).rev().take_while(|(size, extent)| size == extent).count();
    let inner = (shape.len() - whole).saturating_sub(1);
    let length: usize = extents[inner..].iter().product();
    let count: usize = if length == 0 { 0 } else { extents[..inner].iter().product() };
    (0..count).map(move |mut n| {
        let (mut step, mut offset) = (1, 0);
        for d in (0..shape.len()).rev() {
            let index = if d < inner { n % extents[d] } else { 0 };
            n = if d < inner { n / extents[d] } else { n };
            offset += (start[d] + index) * step;
            step *= shape[d];
        }
        offset..offset + length
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_come_out_and_go_back() {
        let shape = [2, 3, 4];
        let whole: Vec<u8> = (0..48).collect(); // two bytes an element
        let one = take(&whole, 2, &shape, &[1, 0, 2], &[1, 3, 2]);
        let bytes = [28..32, 36..40, 44..48].into_iter().flatten();
        assert_eq!(one, bytes.collect::<Vec<u8>>());
    }

    #[test]
    fn shards_of_any_split_make_up_the_whole() {
        let shape = [4, 6, 2];
        let whole: Vec<u8> = (0..48).collect();
        for extents in [[4, 6, 2], [2, 6, 2], [4, 3, 2], [4, 6, 1], [1, 2, 1], [4, 2, 2]] {
            let mut joined = vec![255; whole.len()];
            let starts = |d: usize| (0..shape[d]).step_by(extents[d]);
            for start in starts(0).flat_map(|i| starts(1).flat_map(move |j| starts(2).map(move |k| [i, j, k]))) {
                let part = take(&whole, 1, &shape, &start, &extents);
                assert_eq!(part.len(), extents.iter().product::<usize>());
                put(&part, &mut joined, 1, &shape, &start, &extents);
            }
            assert_eq!(joined, whole, "{extents:?}");
        }
        assert_eq!(take(&[7], 1, &[], &[], &[]), [7]);
        assert!(take(&[], 1, &[0, 3], &[0, 0], &[0, 3]).is_empty());
    }
}
