//! What each view does to a layout: sizes, strides and offset as ATen computes them.

use super::super::support::dim;
use crate::alias::{Layout, Strides};
use crate::error::Result;
use crate::types::{Dims, Shape};
use crate::{ensure, invalid, no_index};

/// The extents that `sizes`, of which one may be -1, stand for in a tensor of `numel` elements.
pub(crate) fn infer_size(sizes: &[i64], numel: usize) -> Result<Shape> {
    let (mut known, mut inferred) = (1usize, None);
    for (i, &s) in sizes.iter().enumerate() {
        match s {
            -1 if inferred.is_some() => invalid!("only one dimension can be inferred"),
            -1 => inferred = Some(i),
            s if s < 0 => invalid!("invalid shape dimension {s} at index {i} of shape {sizes:?}"),
            s => known = known.saturating_mul(s as usize),
        }
    }
    let fits = numel == known || (inferred.is_some() && known > 0 && numel.is_multiple_of(known));
    ensure!(fits, "shape '{sizes:?}' is invalid for input of size {numel}");
    let mut shape: Shape = sizes.iter().map(|&s| s.max(0) as usize).collect();
    if let Some(i) = inferred {
        ensure!(
            known != 0,
            "cannot reshape tensor of 0 elements into shape {sizes:?} because the unspecified dimension size -1 can be \
             any value and is ambiguous"
        );
        shape[i] = numel / known;
    }
    Ok(shape)
}

/// The number of elements of `l`.
pub(crate) fn numel(l: &Layout) -> usize {
    l.sizes.iter().product()
}

/// Whether the elements follow one another in row-major order. Dimensions of extent 1 may have any stride.
pub(crate) fn is_contiguous(l: &Layout) -> bool {
    let row_major = Layout::contiguous(l.sizes.clone());
    let same = |i: usize| l.sizes[i] == 1 || l.strides[i] == row_major.strides[i];
    numel(l) == 0 || (0..l.sizes.len()).all(same)
}

/// `l` under other extents of the same number of elements; `None` where no strides give that.
///
/// Dimensions that step evenly form a chunk; each chunk is divided anew, and no result dimension may span two.
pub(crate) fn reshape(l: &Layout, shape: &Shape) -> Option<Layout> {
    let with = |strides| Layout { sizes: shape.clone(), strides, offset: l.offset };
    if numel(l) == 0 {
        let strides = if l.sizes == *shape { l.strides.clone() } else { Layout::contiguous(shape.clone()).strides };
        return Some(with(strides));
    }
    let mut strides: Strides = shape.iter().map(|_| 1).collect();
    let mut next = shape.len();
    let (mut base, mut held, mut given) = (l.strides.last().copied().unwrap_or(1), 1usize, 1usize);
    for d in (0..l.sizes.len()).rev() {
        held *= l.sizes[d];
        let chunk_ends = d == 0 || (l.sizes[d - 1] != 1 && l.strides[d - 1] != held * base);
        if !chunk_ends {
            continue;
        }
        while next > 0 && (given < held || shape[next - 1] == 1) {
            next -= 1;
            strides[next] = given * base;
            given *= shape[next];
        }
        if given != held {
            return None;
        }
        if d > 0 {
            (base, held, given) = (l.strides[d - 1], 1, 1);
        }
    }
    let rest_is_trivial = shape[..next].iter().all(|&s| s == 1);
    rest_is_trivial.then(|| with(strides))
}

/// Dimension `i` of the result is dimension `order[i]`.
pub(crate) fn permute(l: &Layout, order: &[usize]) -> Layout {
    Layout {
        sizes: order.iter().map(|&d| l.sizes[d]).collect(),
        strides: order.iter().map(|&d| l.strides[d]).collect(),
        offset: l.offset,
    }
}

/// Two dimensions exchanged.
pub(crate) fn transpose(l: &Layout, a: i64, b: i64) -> Result<Layout> {
    let rank = l.sizes.len();
    let (a, b) = (dim(a, rank)?, dim(b, rank)?);
    let mut out = l.clone();
    if rank > 0 {
        out.sizes.swap(a, b);
        out.strides.swap(a, b);
    }
    Ok(out)
}

/// The order of dimensions that moves each `source` to its `destination` and keeps the rest in order.
pub(crate) fn movedim(rank: usize, source: &[i64], destination: &[i64]) -> Result<Dims> {
    let (ns, nd) = (source.len(), destination.len());
    ensure!(
        ns == nd,
        "movedim: Invalid source or destination dims: source ({source:?} dims) should contain the same number of dims \
         as destination ({destination:?} dims)"
    );
    let wrapped = |dims: &[i64], what: &str| -> Result<Dims> {
        let out: Dims = dims.iter().map(|&d| dim(d, rank)).collect::<Result<_>>()?;
        let repeated = (1..out.len()).any(|i| out[..i].contains(&out[i]));
        ensure!(!repeated, "movedim: repeated dim in `{what}` ({dims:?})");
        Ok(out)
    };
    let (source, destination) = (wrapped(source, "source")?, wrapped(destination, "destination")?);
    let mut rest = (0..rank).filter(|d| !source.contains(d));
    let place = |i: usize| match destination.iter().position(|&d| d == i) {
        Some(k) => Some(source[k]),
        None => rest.next(),
    };
    Ok((0..rank).map(place).collect::<Option<_>>().unwrap_or_default())
}

/// Broadcast to `sizes`; -1 keeps an extent.
pub(crate) fn expand(l: &Layout, sizes: &[i64]) -> Result<Layout> {
    let rank = l.sizes.len();
    ensure!(
        sizes.len() >= rank,
        "expand: the number of sizes provided ({}) must be greater or equal to the number of dimensions in the tensor \
         ({rank})",
        sizes.len()
    );
    let lead = sizes.len() - rank;
    let (mut out, mut strides) = (Shape::new(), Strides::new());
    for (i, &target) in sizes.iter().enumerate() {
        let (size, stride) = if i < lead { (1, 0) } else { (l.sizes[i - lead], l.strides[i - lead]) };
        ensure!(
            target != -1 || i >= lead,
            "The expanded size of the tensor ({target}) isn't allowed in a leading, non-existing dimension {i}"
        );
        let target = if target == -1 { size as i64 } else { target };
        ensure!(target >= 0, "Trying to create tensor with negative dimension {target}: {sizes:?}");
        let target = target as usize;
        ensure!(
            target == size || size == 1,
            "The expanded size of the tensor ({target}) must match the existing size ({size}) at non-singleton \
             dimension {i}.  Target sizes: {sizes:?}.  Tensor sizes: {:?}",
            l.sizes
        );
        out.push(target);
        strides.push(if target == size && i >= lead { stride } else { 0 });
    }
    Ok(Layout { sizes: out, strides, offset: l.offset })
}

/// Without those of `dims` whose extent is 1.
pub(crate) fn squeeze(l: &Layout, dims: &[usize]) -> Layout {
    let kept = |i: &usize| l.sizes[*i] != 1 || !dims.contains(i);
    let kept: Dims = (0..l.sizes.len()).filter(kept).collect();
    permute(l, &kept)
}

/// With a new dimension of extent 1 at `at`, counted in the result.
pub(crate) fn unsqueeze(l: &Layout, at: i64) -> Result<Layout> {
    let d = dim(at, l.sizes.len() + 1)?;
    let stride = match l.sizes.get(d) {
        Some(&size) => size.saturating_mul(l.strides[d]),
        None => 1,
    };
    let mut out = l.clone();
    out.sizes.insert(d, 1);
    out.strides.insert(d, stride);
    Ok(out)
}

/// First index, one past the last, and step of a Python slice of `size` elements, clamped as PyTorch does.
pub(crate) fn slice_bounds(
    size: usize,
    start: Option<i64>,
    end: Option<i64>,
    step: i64,
) -> Result<(usize, usize, usize)> {
    ensure!(step > 0, "slice step must be positive");
    let n = size as i64;
    let wrap = |i: i64| if i < 0 { i.saturating_add(n) } else { i };
    let start = wrap(start.unwrap_or(0)).clamp(0, n);
    let end = wrap(end.unwrap_or(n)).clamp(start, n);
    Ok((start as usize, end as usize, step as usize))
}

/// Elements `start..end` by `step` of dimension `at`.
pub(crate) fn slice(l: &Layout, at: i64, start: Option<i64>, end: Option<i64>, step: i64) -> Result<Layout> {
    ensure!(!l.sizes.is_empty(), "slice() cannot be applied to a 0-dim tensor.");
    let d = dim(at, l.sizes.len())?;
    let (start, end, step) = slice_bounds(l.sizes[d], start, end, step)?;
    let mut out = l.clone();
    out.sizes[d] = (end - start).div_ceil(step);
    out.offset += start * l.strides[d];
    out.strides[d] = l.strides[d].saturating_mul(step);
    Ok(out)
}

/// The dimension and the wrapped index that `select` takes.
pub(crate) fn select_index(sizes: &[usize], at: i64, index: i64) -> Result<(usize, usize)> {
    ensure!(!sizes.is_empty(), "select() cannot be applied to a 0-dim tensor.");
    let d = dim(at, sizes.len())?;
    let n = sizes[d] as i64;
    ensure!(
        (-n..n).contains(&index),
        "select(): index {index} out of range for tensor of size {sizes:?} at dimension {d}"
    );
    Ok((d, if index < 0 { index + n } else { index } as usize))
}

/// Element `index` of dimension `at`, which goes away.
pub(crate) fn select(l: &Layout, at: i64, index: i64) -> Result<Layout> {
    let (d, index) = select_index(&l.sizes, at, index)?;
    let mut out = l.clone();
    out.offset += index * l.strides[d];
    out.sizes.remove(d);
    out.strides.remove(d);
    Ok(out)
}

/// `length` elements from `start` of dimension `at`.
pub(crate) fn narrow(l: &Layout, at: i64, start: i64, length: i64) -> Result<Layout> {
    ensure!(!l.sizes.is_empty(), "narrow() cannot be applied to a 0-dim tensor.");
    ensure!(length >= 0, "narrow(): length must be non-negative.");
    let n = l.sizes[dim(at, l.sizes.len())?] as i64;
    if !(-n..=n).contains(&start) {
        no_index!("start out of range (expected to be in range of [{}, {n}], but got {start})", -n);
    }
    let start = if start < 0 { start + n } else { start };
    ensure!(start <= n - length, "start ({start}) + length ({length}) exceeds dimension size ({n}).");
    slice(l, at, Some(start), Some(start + length), 1)
}

/// Pieces of `lengths` along `at`, which add up to its extent.
pub(crate) fn split_with_sizes(l: &Layout, at: i64, lengths: &[i64]) -> Result<Vec<Layout>> {
    ensure!(!l.sizes.is_empty(), "split expects at least a 1-dimensional tensor");
    let d = dim(at, l.sizes.len())?;
    ensure!(
        lengths.iter().all(|&s| s >= 0),
        "split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes={lengths:?}"
    );
    let total = lengths.iter().fold(0i64, |a, &s| a.saturating_add(s));
    ensure!(
        total == l.sizes[d] as i64,
        "split_with_sizes expects split_sizes to sum exactly to {} (input tensor's size at dimension {d}), but got \
         split_sizes={lengths:?}",
        l.sizes[d]
    );
    let mut start = 0;
    let piece = |&length: &i64| {
        let piece = slice(l, at, Some(start), Some(start + length), 1);
        start += length;
        piece
    };
    lengths.iter().map(piece).collect()
}

/// Pieces of `length` along `at`, the last perhaps shorter.
pub(crate) fn split(l: &Layout, at: i64, length: i64) -> Result<Vec<Layout>> {
    ensure!(!l.sizes.is_empty(), "split expects at least a 1-dimensional tensor");
    ensure!(length >= 0, "split expects split_size be non-negative, but got split_size={length}");
    let n = l.sizes[dim(at, l.sizes.len())?] as i64;
    ensure!(length > 0 || n == 0, "split_size can only be 0 if dimension size is 0, but got dimension size of {n}");
    let pieces = if length == 0 { 1 } else { (n as u64).div_ceil(length as u64).max(1) as i64 };
    countable(pieces)?;
    let lengths: Vec<i64> = (0..pieces).map(|i| length.min(n - i * length)).collect();
    split_with_sizes(l, at, &lengths)
}

/// At most `chunks` pieces of one length, the last perhaps shorter.
pub(crate) fn chunk(l: &Layout, at: i64, chunks: i64) -> Result<Vec<Layout>> {
    ensure!(!l.sizes.is_empty(), "chunk expects at least a 1-dimensional tensor");
    ensure!(chunks > 0, "chunk expects `chunks` to be greater than 0, got: {chunks}");
    countable(if l.sizes[dim(at, l.sizes.len())?] == 0 { chunks } else { 0 })?;
    let n = l.sizes[dim(at, l.sizes.len())?];
    match n.div_ceil(chunks as usize) {
        0 => split_with_sizes(l, at, &vec![0; chunks as usize]),
        length => split(l, at, length as i64),
    }
}

/// `sections` pieces whose lengths differ by one at most, the longer ones first.
pub(crate) fn tensor_split_sections(l: &Layout, at: i64, sections: i64) -> Result<Vec<Layout>> {
    let n = split_extent(l, at)?;
    ensure!(sections > 0, "number of sections must be larger than 0, got {sections}");
    countable(sections)?;
    let (length, longer) = (n / sections, n % sections);
    let lengths: Vec<i64> = (0..sections).map(|i| length + i64::from(i < longer)).collect();
    split_with_sizes(l, at, &lengths)
}

/// Pieces that start at each of `indices`, and the one before.
pub(crate) fn tensor_split_indices(l: &Layout, at: i64, indices: &[i64]) -> Result<Vec<Layout>> {
    let n = split_extent(l, at)?;
    let starts = std::iter::once(0).chain(indices.iter().copied());
    let ends = indices.iter().copied().chain([n]);
    starts.zip(ends).map(|(s, e)| slice(l, at, Some(s), Some(e), 1)).collect()
}

fn split_extent(l: &Layout, at: i64) -> Result<i64> {
    let rank = l.sizes.len();
    ensure!(rank > 0, "tensor_split expected at least a 1-dimensional tensor, but got a tensor with {rank} dims");
    Ok(l.sizes[dim(at, rank)?] as i64)
}

/// Every slice along `at`, without that dimension.
pub(crate) fn unbind(l: &Layout, at: i64) -> Result<Vec<Layout>> {
    ensure!(!l.sizes.is_empty(), "Dimension specified as {at} but tensor has no dimensions");
    let n = l.sizes[dim(at, l.sizes.len())?];
    countable(n as i64)?;
    (0..n as i64).map(|i| select(l, at, i)).collect()
}

/// Refuses to list more tensors than a program can have: sizes come from outside.
fn countable(tensors: i64) -> Result<()> {
    ensure!(tensors <= 1 << 20, "the op would give {tensors} tensors");
    Ok(())
}

/// The two dimensions of a diagonal, and its length where they have extents `size1` and `size2`.
pub(crate) fn diagonal_dims(rank: usize, dim1: i64, dim2: i64) -> Result<(usize, usize)> {
    let (d1, d2) = (dim(dim1, rank)?, dim(dim2, rank)?);
    ensure!(d1 != d2, "diagonal dimensions cannot be identical {dim1}, {dim2}");
    Ok((d1, d2))
}

/// Elements whose index in `dim2` exceeds that in `dim1` by `offset`, as a last dimension.
pub(crate) fn diagonal(l: &Layout, offset: i64, dim1: i64, dim2: i64) -> Result<Layout> {
    let (d1, d2) = diagonal_dims(l.sizes.len(), dim1, dim2)?;
    let (skip1, skip2) = (offset.min(0).unsigned_abs() as usize, offset.max(0) as usize);
    let length = l.sizes[d1].saturating_sub(skip1).min(l.sizes[d2].saturating_sub(skip2));
    let rest: Dims = (0..l.sizes.len()).filter(|&d| d != d1 && d != d2).collect();
    let mut out = permute(l, &rest);
    if length > 0 {
        out.offset += skip1 * l.strides[d1] + skip2 * l.strides[d2];
    }
    out.sizes.push(length);
    out.strides.push(l.strides[d1] + l.strides[d2]);
    Ok(out)
}

/// Windows of `size` every `step` elements of dimension `at`, as a last dimension.
pub(crate) fn unfold(l: &Layout, at: i64, size: i64, step: i64) -> Result<Layout> {
    let d = dim(at, l.sizes.len())?;
    let max = l.sizes.get(d).copied().unwrap_or(1);
    ensure!(size >= 0, "size is {size} but must be >= 0");
    ensure!(size <= max as i64, "maximum size for tensor at dimension {d} is {max} but size is {size}");
    ensure!(step > 0, "step is {step} but must be > 0");
    let (size, step) = (size as usize, step as usize);
    let mut out = l.clone();
    if let Some(extent) = out.sizes.get_mut(d) {
        *extent = (max - size) / step + 1;
        out.strides[d] = l.strides[d].saturating_mul(step);
    }
    out.sizes.push(size);
    out.strides.push(l.strides.get(d).copied().unwrap_or(1));
    Ok(out)
}

/// Any sizes and strides over the same storage.
pub(crate) fn as_strided(l: &Layout, sizes: &Shape, strides: &[i64], offset: Option<i64>) -> Result<Layout> {
    ensure!(sizes.len() == strides.len(), "mismatch in length of strides and shape");
    ensure!(
        strides.iter().all(|&s| s >= 0),
        "as_strided: Negative strides are not supported at the moment, got strides: {strides:?}"
    );
    let offset = offset.unwrap_or(l.offset as i64);
    ensure!(offset >= 0, "Tensor: invalid storage offset {offset}");
    let strides = strides.iter().map(|&s| s as usize).collect();
    Ok(Layout { sizes: sizes.clone(), strides, offset: offset as usize })
}
