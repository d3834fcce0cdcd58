//! What calls of every kind share: how work is cut for threads, and how sizes are counted and read.

use std::ops::Range;

/// Multiplications below which a part is not worth another thread's attention: a few microseconds.
const LEAST_PART: usize = 1 << 18;

/// How many parts `work` multiplications are for `threads`: twice as many as threads where they are large, for threads that
/// come late.
pub(crate) fn parts(work: usize, threads: usize) -> usize {
    let wanted = if work / LEAST_PART >= 64 * threads { 2 * threads } else { threads };
    if threads < 2 { 1 } else { wanted.min(work / LEAST_PART).max(1) }
}

/// `0..length` in about `parts` ranges, whose lengths are multiples of `step` save the last.
pub(crate) fn cut(length: usize, parts: usize, step: usize) -> impl Iterator<Item = Range<usize>> {
    let each = length.div_ceil(parts.max(1)).next_multiple_of(step).max(1);
    (0..length).step_by(each).map(move |start| start..length.min(start + each))
}

/// The product of all extents; `None` beyond what can be counted.
pub(crate) fn size(extents: impl IntoIterator<Item = usize>) -> Option<usize> {
    extents.into_iter().try_fold(1usize, usize::checked_mul)
}

/// Numbers as sizes; `None` if one is negative.
pub(crate) fn sizes<const N: usize>(numbers: &[i64; N]) -> Option<[usize; N]> {
    let all = numbers.iter().all(|&x| usize::try_from(x).is_ok());
    all.then(|| numbers.map(|x| x as usize))
}
