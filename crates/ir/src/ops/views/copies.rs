//! Copies of views: the same elements in fresh storage.

use super::super::index::take_flat;
use super::super::{Call, OpDef, Outs, ViewFn, many, ok};
use super::{
    as_strided, diagonal, expand, layout, narrow, permute, reshaped, select, slice, squeeze_all, squeeze_dims,
};
use super::{t, transpose, unfold, unsqueeze};
use crate::alias::Layout;
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::types::Shape;
use crate::{DType, Number};

pub(in super::super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::view_copy(Tensor self, SymInt[] size) -> Tensor",
        |c, b| reshaped(c, b, "size"),
        &[ok("f32[2,3], [-1,2]")],
    )
    .variants(&["view_copy.out"]),
    OpDef::new(
        "aten::permute_copy(Tensor self, int[] dims) -> Tensor",
        |c, b| copied(c, b, permute),
        &[ok("f32[2,3,4], [2,0,1]")],
    )
    .variants(&["permute_copy.out"]),
    OpDef::new(
        "aten::transpose_copy.int(Tensor self, int dim0, int dim1) -> Tensor",
        |c, b| copied(c, b, transpose),
        &[ok("f32[2,3,4], 0, -1"), ok("f32[], 0, 0")],
    )
    .variants(&["transpose_copy.int_out"]),
    OpDef::new("aten::t_copy(Tensor self) -> Tensor", |c, b| copied(c, b, t), &[ok("f32[2,3]"), ok("f32[3]")])
        .variants(&["t_copy.out"]),
    OpDef::new(
        "aten::expand_copy(Tensor self, SymInt[] size, *, bool implicit=False) -> Tensor",
        |c, b| copied(c, b, expand),
        &[ok("f32[3,1], [2,-1,4]"), ok("f32[1], [0]")],
    )
    .variants(&["expand_copy.out"]),
    OpDef::new(
        "aten::squeeze_copy(Tensor self) -> Tensor",
        |c, b| copied(c, b, squeeze_all),
        &[ok("f32[1,3,1]"), ok("f32[1]")],
    )
    .variants(&["squeeze_copy.out"]),
    OpDef::new(
        "aten::squeeze_copy.dim(Tensor self, int dim) -> Tensor",
        |c, b| copied(c, b, squeeze_dims),
        &[ok("f32[1,3], 0")],
    )
    .variants(&["squeeze_copy.dim_out"]),
    OpDef::new(
        "aten::squeeze_copy.dims(Tensor self, int[] dim) -> Tensor",
        |c, b| copied(c, b, squeeze_dims),
        &[ok("f32[1,3,1], [0,2]")],
    )
    .variants(&["squeeze_copy.dims_out"]),
    OpDef::new(
        "aten::unsqueeze_copy(Tensor self, int dim) -> Tensor",
        |c, b| copied(c, b, unsqueeze),
        &[ok("f32[3], -1")],
    )
    .variants(&["unsqueeze_copy.out"]),
    OpDef::new(
        "aten::slice_copy.Tensor(Tensor self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor",
        |c, b| copied(c, b, slice),
        &[ok("f32[2,7], 1, 1, 6, 2"), ok("f32[3,2], 0, -2"), ok("f32[5], 0, 4, 2")],
    )
    .variants(&["slice_copy.Tensor_out"]),
    OpDef::new(
        "aten::select_copy.int(Tensor self, int dim, SymInt index) -> Tensor",
        |c, b| copied(c, b, select),
        &[ok("f32[2,5], 1, -1"), ok("f32[2,5], 0, 1")],
    )
    .variants(&["select_copy.int_out"]),
    OpDef::new(
        "aten::narrow_copy(Tensor self, int dim, SymInt start, SymInt length) -> Tensor",
        |c, b| copied(c, b, narrow),
        &[ok("f32[5,2], 0, 1, 3")],
    )
    .variants(&["narrow_copy.out"]),
    OpDef::new(
        "aten::diagonal_copy(Tensor self, int offset=0, int dim1=0, int dim2=1) -> Tensor",
        |c, b| copied(c, b, diagonal),
        &[ok("f32[3,4], 1"), ok("f32[4,3,2], -1, 0, -2"), ok("f32[3,3], 5")],
    )
    .variants(&["diagonal_copy.out"]),
    OpDef::new(
        "aten::unfold_copy(Tensor self, int dimension, int size, int step) -> Tensor",
        |c, b| copied(c, b, unfold),
        &[ok("f32[7,2], 0, 3, 2"), ok("f32[], 0, 1, 1")],
    )
    .variants(&["unfold_copy.out"]),
    OpDef::new(
        "aten::as_strided_copy(Tensor self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor",
        |c, b| copied(c, b, as_strided),
        &[ok("f32[12], [3,2], [4,1], 1"), ok("f32[3,4], [2,2], [1,1]"), ok("f32[6], [], []")],
    )
    .variants(&["as_strided_copy.out"]),
];

/// The views of a dense `self`, each copied.
pub(super) fn copied(c: &Call<'_>, b: &Builder, view: ViewFn) -> Result<Outs> {
    let v = c.tensor(b, "self")?;
    let layouts = view(c, &Layout::contiguous(b.shape(v)))?.unwrap_or_default();
    let copies: Vec<ValueId> = layouts.iter().map(|l| read(b, v, l)).collect::<Result<_>>()?;
    many(copies)
}

/// The elements that `l` names of a dense `v`.
pub(in super::super) fn read(b: &Builder, v: ValueId, l: &Layout) -> Result<ValueId> {
    let n = b.ty(v)?.numel();
    let whole = l.offset == 0 && layout::numel(l) == n && layout::is_contiguous(l);
    if whole {
        return b.reshape(v, &l.sizes);
    }
    if layout::numel(l) == 0 {
        return b.full(Number::Int(0), b.dtype(v), &l.sizes);
    }
    within(l, n)?;
    if let Some(block) = block(&b.shape(v), l) {
        let read = b.slice(v, &block.start, &block.limit, &block.step)?;
        let read = b.transpose(b.reshape(read, &block.nonunit)?, &block.order)?;
        return b.broadcast_in_dim(read, &l.sizes, &block.dims);
    }
    take_flat(b, b.reshape(v, &[n])?, positions(b, l)?)
}

/// A read as slice, transpose and broadcast.
struct Block {
    start: Shape,
    limit: Shape,
    step: Shape,
    /// Extents above 1 of the slice.
    nonunit: Shape,
    /// Their order in the result.
    order: Shape,
    /// Their places in the result; the rest repeats.
    dims: Shape,
}

/// `l` as a [`Block`] of a dense tensor of `shape`, if each of its dimensions runs along a dimension of its own.
fn block(shape: &[usize], l: &Layout) -> Option<Block> {
    let dense = Layout::contiguous(Shape::from_slice(shape));
    let mut rest = l.offset;
    let (mut start, mut limit, mut step) = (Shape::new(), Shape::new(), Shape::new());
    for (&size, &stride) in shape.iter().zip(&dense.strides) {
        let first = (rest / stride).min(size - 1);
        rest -= first * stride;
        start.push(first);
        limit.push(first + 1);
        step.push(1);
    }
    // Which dimension of the source each stepping dimension of the result runs along.
    let mut along: Vec<(usize, usize)> = vec![];
    for (i, &stride) in l.strides.iter().enumerate().filter(|&(i, &s)| l.sizes[i] > 1 && s > 0) {
        let d = (0..shape.len()).find(|&d| shape[d] > 1 && stride.is_multiple_of(dense.strides[d]))?;
        let by = stride / dense.strides[d];
        limit[d] = start[d] + (l.sizes[i] - 1) * by + 1;
        step[d] = by;
        let free = along.iter().all(|&(other, _)| other != d);
        if !free || limit[d] > shape[d] {
            return None;
        }
        along.push((d, i));
    }
    if rest != 0 {
        return None;
    }
    let mut sorted = along.clone();
    sorted.sort_unstable();
    let place = |pair: &(usize, usize)| sorted.iter().position(|s| s == pair);
    Some(Block {
        nonunit: sorted.iter().map(|&(_, i)| l.sizes[i]).collect(),
        order: along.iter().map(place).collect::<Option<_>>()?,
        dims: along.iter().map(|&(_, i)| i).collect(),
        start,
        limit,
        step,
    })
}

/// Refuses a layout that reaches past `n` elements.
pub(in super::super) fn within(l: &Layout, n: usize) -> Result<()> {
    let steps = l.sizes.iter().zip(&l.strides).map(|(&size, &stride)| size.saturating_sub(1).saturating_mul(stride));
    let last = steps.fold(l.offset, usize::saturating_add);
    crate::ensure!(
        last < n || layout::numel(l) == 0,
        "setStorage: sizes {:?}, strides {:?}, storage offset {} are out of bounds for storage of {n} elements",
        l.sizes,
        l.strides,
        l.offset
    );
    Ok(())
}

/// For each element of `l` its place in the storage, as `i64`.
pub(in super::super) fn positions(b: &Builder, l: &Layout) -> Result<ValueId> {
    let mut at = b.full(Number::Int(l.offset as i64), DType::I64, &l.sizes)?;
    for (d, &stride) in l.strides.iter().enumerate().filter(|&(d, _)| l.sizes[d] > 1) {
        let step = b.full(Number::Int(stride as i64), DType::I64, &l.sizes)?;
        at = b.add(at, b.multiply(b.iota(DType::I64, &l.sizes, d)?, step)?)?;
    }
    Ok(at)
}
