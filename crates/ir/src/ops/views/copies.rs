//! Copies of views: the same elements in fresh storage.

use super::super::{Call, OpDef, Outs, ViewFn, many, ok};
use super::{as_strided, diagonal, expand, narrow, permute, reshaped, select, slice, squeeze_all, squeeze_dims};
use super::{t, transpose, unfold, unsqueeze};
use crate::alias::{Aliases, Layout};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;

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
    let copies: Vec<ValueId> = layouts.into_iter().map(|l| read(b, v, l)).collect::<Result<_>>()?;
    many(copies)
}

/// The elements of a dense `v` that `l` names.
pub(in super::super) fn read(b: &Builder, v: ValueId, l: Layout) -> Result<ValueId> {
    let aliases = Aliases::new();
    let whole = aliases.fresh_contiguous(b, v)?;
    aliases.read(b, aliases.view(whole, l)?)
}

/// A dense `v` with the elements that `l` names replaced by `source`, of the extents of `l`. Where slices begin decides nothing
/// if the call's context relays.
pub(in super::super) fn written(c: &Call<'_>, b: &Builder, v: ValueId, l: Layout, source: ValueId) -> Result<ValueId> {
    let aliases = if c.context.relaying { Aliases::relaying() } else { Aliases::new() };
    let whole = aliases.fresh_contiguous(b, v)?;
    aliases.write(b, aliases.view(whole, l)?, source)?;
    aliases.read(b, whole)
}
