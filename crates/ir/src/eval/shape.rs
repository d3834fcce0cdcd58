//! Ops that move elements without looking at them.

use super::element::{moved, of_width, words};
use crate::error::{Error, Result};
use crate::literal::Literal;
use crate::op::SignedDims;
use crate::types::{Dims, Shape};
use ndarray::{ArrayD, ArrayViewD, Axis, IxDyn, Slice};

/// Result dimension `dims[i]` runs over operand dimension `i`.
pub(super) fn broadcast_in_dim(a: &Literal, shape: &Shape, dims: &Dims) -> Result<Literal> {
    if let Some(splat) = a.with_shape(shape.clone()) {
        return Ok(splat);
    }
    of_width!(a.ty.dtype, N => {
        let ones: Vec<usize> = (0..shape.len()).map(|d| dims.iter().position(|&x| x == d).map_or(1, |i| a.ty.shape[i])).collect();
        let a_words = words::<N>(a)?;
        let aligned = a_words.into_shape_with_order(IxDyn(&ones)).map_err(|e| Error::internal(e.to_string()))?;
        let wide = aligned.broadcast(IxDyn(shape)).ok_or_else(|| Error::internal("a broadcast of other extents"))?;
        Ok(moved(wide, a.ty.dtype))
    })
}

/// Result dimension `i` is operand dimension `permutation[i]`.
pub(super) fn transpose(a: &Literal, permutation: &Dims) -> Result<Literal> {
    of_width!(a.ty.dtype, N => Ok(moved(words::<N>(a)?.view().permuted_axes(IxDyn(permutation)), a.ty.dtype)))
}

/// A part of one dimension.
fn range(start: usize, limit: usize, step: usize) -> Slice {
    Slice::new(start as isize, Some(limit as isize), step as isize)
}

/// Elements `start, start + stride, ...` below `limit`.
pub(super) fn slice(a: &Literal, start: &[usize], limit: &[usize], stride: &[usize]) -> Result<Literal> {
    of_width!(a.ty.dtype, N => {
        let all = words::<N>(a)?;
        Ok(moved(part(all.view(), start, limit, stride), a.ty.dtype))
    })
}

fn part<'a, T>(mut a: ArrayViewD<'a, T>, start: &[usize], limit: &[usize], stride: &[usize]) -> ArrayViewD<'a, T> {
    for d in 0..a.ndim() {
        // An empty dimension has no place to step from.
        let step = if start[d] == limit[d] { 1 } else { stride[d] };
        a.slice_axis_inplace(Axis(d), range(start[d], limit[d], step));
    }
    a
}

/// Where a window of `size` starts, clamped so that it fits.
pub(super) fn clamped(start: i128, extent: usize, size: usize) -> usize {
    start.clamp(0, (extent - size) as i128) as usize
}

/// The window of extents `sizes` at the clamped `starts`.
pub(super) fn dynamic_slice(a: &Literal, starts: &[i128], sizes: &Shape) -> Result<Literal> {
    let start: Vec<usize> = (0..sizes.len()).map(|d| clamped(starts[d], a.ty.shape[d], sizes[d])).collect();
    let limit: Vec<usize> = start.iter().zip(sizes).map(|(s, n)| s + n).collect();
    slice(a, &start, &limit, &vec![1; sizes.len()])
}

/// `a` with `update` at the clamped `starts`.
pub(super) fn dynamic_update_slice(a: &Literal, update: &Literal, starts: &[i128]) -> Result<Literal> {
    of_width!(a.ty.dtype, N => {
        let (mut result, update) = (words::<N>(a)?, words::<N>(update)?);
        let mut window = result.view_mut();
        for (d, &size) in update.shape().iter().enumerate() {
            let start = clamped(starts[d], a.ty.shape[d], size);
            window.slice_axis_inplace(Axis(d), range(start, start + size, 1));
        }
        window.assign(&update);
        Ok(moved(result.view(), a.ty.dtype))
    })
}

/// All of `parts` along `dim`.
pub(super) fn concatenate(parts: &[&Literal], dim: usize) -> Result<Literal> {
    let dtype = parts[0].ty.dtype;
    of_width!(dtype, N => {
        let arrays = parts.iter().map(|p| words::<N>(p)).collect::<Result<Vec<_>>>()?;
        let views: Vec<ArrayViewD<'_, [u8; N]>> = arrays.iter().map(|a| a.view()).collect();
        let joined = ndarray::concatenate(Axis(dim), &views).map_err(|e| Error::internal(e.to_string()))?;
        Ok(moved(joined.view(), dtype))
    })
}

/// The order of the elements reversed along `dims`.
pub(super) fn reverse(a: &Literal, dims: &Dims) -> Result<Literal> {
    of_width!(a.ty.dtype, N => {
        let all = words::<N>(a)?;
        let mut view = all.view();
        dims.iter().for_each(|&d| view.invert_axis(Axis(d)));
        Ok(moved(view, a.ty.dtype))
    })
}

/// Elements of `value` around and between those of `a`; negative amounts crop. `shape` is the result's.
pub(super) fn pad(a: &Literal, value: &Literal, low: &SignedDims, interior: &Dims, shape: &[usize]) -> Result<Literal> {
    of_width!(a.ty.dtype, N => {
        let (a_words, fill) = (words::<N>(a)?, words::<N>(value)?);
        let first = fill.first().copied().ok_or_else(|| Error::internal("no padding value"))?;
        let mut result = ArrayD::from_elem(IxDyn(shape), first);
        let mut target = result.view_mut();
        let mut source = a_words.view();
        for d in 0..shape.len() {
            let kept = kept(a.ty.shape[d], low[d], interior[d], shape[d]);
            source.slice_axis_inplace(Axis(d), range(kept.first, kept.first + kept.count, 1));
            let (step, from) = (interior[d] + 1, kept.position);
            let limit = if kept.count == 0 { from } else { from + (kept.count - 1) * step + 1 };
            target.slice_axis_inplace(Axis(d), range(from, limit, if kept.count == 0 { 1 } else { step }));
        }
        target.assign(&source);
        Ok(moved(result.view(), a.ty.dtype))
    })
}

/// The elements of one dimension that padding leaves inside the result.
struct Kept {
    first: usize,
    count: usize,
    /// Where the first of them goes.
    position: usize,
}

fn kept(extent: usize, low: i64, interior: usize, result: usize) -> Kept {
    let (low, step) = (i128::from(low), interior as i128 + 1);
    let place = |i: usize| low + i as i128 * step;
    // The first element at a position of at least 0, the first at or beyond the result's end.
    let first = if low >= 0 { 0 } else { (-low + step - 1) / step };
    let end = if low >= result as i128 { 0 } else { (result as i128 - low + step - 1) / step };
    let (first, end) = ((first as usize).min(extent), (end.max(0) as usize).min(extent));
    let count = end.saturating_sub(first);
    Kept { first, count, position: if count == 0 { 0 } else { place(first) as usize } }
}
