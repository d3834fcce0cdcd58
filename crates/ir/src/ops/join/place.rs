//! Writing one tensor into a part of another, functionally.

use super::super::positions::with_part;
use super::super::support::dim;
use super::super::views::copies::{read, written};
use super::super::views::layout;
use super::super::{Call, OpDef, Outs, Scalar, err, ok, one};
use crate::alias::Layout;
use crate::builder::Builder;
use crate::ensure;
use crate::error::Result;
use crate::graph::ValueId;
use crate::literal::Number;
use crate::types::Shape;

pub(in super::super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::slice_scatter(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) \
         -> Tensor",
        |c, b| {
            if let (Some(start), 1) = (c.brought("start")?, c.int("step")?) {
                return with_slice(c, b, &start);
            }
            let bounds = (c.optional_int("start")?, c.optional_int("end")?);
            place(c, b, |l| layout::slice(l, c.int("dim")?, bounds.0, bounds.1, c.int("step")?))
        },
        &[
            ok("f32[5,3], f32[2,3], 0, 1, 3"),
            ok("f32[3,7], f32[3,3], -1, 1, 6, 2"),
            ok("bf16[4], bf16[4]"),
            ok("f32[4], f32[0], 0, 3, 2"),
            err("f32[5], f32[3], 0, 0, 2", "expected src to have a size equal to the slice of self. src size = [3]"),
        ],
    )
    .variants(&["slice_scatter.out"]),
    OpDef::new(
        "aten::select_scatter(Tensor self, Tensor src, int dim, SymInt index) -> Tensor",
        |c, b| match c.brought("index")? {
            Some(index) => with_place(c, b, &index),
            None => place(c, b, |l| layout::select(l, c.int("dim")?, c.int("index")?)),
        },
        &[
            ok("f32[5,2], f32[2], 0, -1"),
            ok("f32[5,2], f32[5], 1, 0"),
            err("f32[5,2], f32[3], 0, 0", "expected src to have a size equal to the slice of self. src size = [3]"),
        ],
    )
    .variants(&["select_scatter.out"]),
    OpDef::new(
        "aten::diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor",
        |c, b| place(c, b, |l| layout::diagonal(l, c.int("offset")?, c.int("dim1")?, c.int("dim2")?)),
        &[
            ok("f32[3,4], f32[3]"),
            ok("f32[4,3,2], f32[3,2], -1, 0, 2"),
            err("f32[5,2], f32[3]", "expected src to have a size equal to the slice of self. src size = [3]"),
        ],
    )
    .variants(&["diagonal_scatter.out"]),
    OpDef::new(
        "aten::diagonal_backward(Tensor grad_output, SymInt[] input_sizes, int offset, int dim1, int dim2) -> Tensor",
        |c, b| {
            let (grad, sizes) = (c.tensor(b, "grad_output")?, c.sizes("input_sizes")?);
            let l = Layout::contiguous(sizes.clone());
            let l = layout::diagonal(&l, c.int("offset")?, c.int("dim1")?, c.int("dim2")?)?;
            one(written(c, b, b.full(Number::Int(0), b.dtype(grad), &sizes)?, l, grad)?)
        },
        &[ok("f32[3], [3,4], 1, 0, 1")],
    )
    .variants(&["diagonal_backward.out"]),
    OpDef::new(
        "aten::as_strided_scatter(Tensor self, Tensor src, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) \
         -> Tensor",
        |c, b| {
            let (sizes, strides) = (c.sizes("size")?, c.ints("stride")?);
            place(c, b, |l| layout::as_strided(l, &sizes, &strides, c.optional_int("storage_offset")?))
        },
        &[
            ok("f32[12], f32[3,2], [3,2], [4,1], 1"),
            ok("f32[3,4], f32[3,4], [3,4], [4,1]"),
            err("f32[5], f32[2], [2], [2,1]", "mismatch in length of strides and shape"),
        ],
    )
    .variants(&["as_strided_scatter.out"]),
    OpDef::new(
        "aten::diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor",
        |c, b| one(diag_embed(c, b, c.tensor(b, "self")?, c.int("offset")?, c.int("dim1")?, c.int("dim2")?)?),
        &[
            ok("f32[3]"),
            ok("f32[2,3], 1"),
            ok("i64[2,3], -1, 0, 2"),
            ok("f32[0]"),
            err("f32[2], 0, 0, 0", "diagonal dimensions cannot be identical 0, 0"),
        ],
    )
    .variants(&["diag_embed.out"]),
    OpDef::new(
        "aten::diag(Tensor self, int diagonal=0) -> Tensor",
        |c, b| {
            let (v, offset) = (c.tensor(b, "self")?, c.int("diagonal")?);
            match b.rank(v) {
                1 => one(diag_embed(c, b, v, offset, 0, 1)?),
                2 => one(read(b, v, layout::diagonal(&Layout::contiguous(b.shape(v)), offset, 0, 1)?)?),
                rank => crate::invalid!("diag(): Supports 1D or 2D tensors. Got {rank}D"),
            }
        },
        &[ok("f32[3], 1"), ok("f32[3,4], -1"), err("f32[2,3,4]", "diag(): Supports 1D or 2D tensors. Got 3D")],
    )
    .variants(&["diag.out"]),
];

/// `self` with `src` from `start` on, which need not decide the program.
fn with_slice(c: &Call<'_>, b: &Builder, start: &Scalar) -> Result<Outs> {
    let (v, src) = (c.tensor(b, "self")?, c.tensor(b, "src")?);
    let (shape, given) = (b.shape(v), b.shape(src));
    ensure!(!shape.is_empty(), "slice() cannot be applied to a 0-dim tensor.");
    let d = dim(c.int("dim")?, shape.len())?;
    let mut fitting = given.clone();
    if let Some(extent) = fitting.get_mut(d) {
        *extent = shape[d].max(*extent);
    }
    ensure!(fitting == shape, "expected src to be a slice of self. src size = {given:?}, self size = {shape:?}");
    one(with_part(b, v, b.convert(src, b.dtype(v))?, d, c.place(b, start, shape[d])?)?)
}

/// `self` with `src` at `index`, which need not decide the program.
fn with_place(c: &Call<'_>, b: &Builder, index: &Scalar) -> Result<Outs> {
    let (v, src) = (c.tensor(b, "self")?, c.tensor(b, "src")?);
    let mut slice = b.shape(v);
    let (at, index_now) = (c.int("dim")?, index.now().as_i64());
    check_size(b, src, &layout::select(&Layout::contiguous(slice.clone()), at, index_now)?)?;
    let (d, _) = layout::select_index(&slice, at, index_now)?;
    let extent = std::mem::replace(&mut slice[d], 1);
    let src = b.reshape(b.convert(src, b.dtype(v))?, &slice)?;
    one(with_part(b, v, src, d, c.place(b, index, extent)?)?)
}

/// `self` with `src` written through the view that `view` makes of it.
fn place(c: &Call<'_>, b: &Builder, view: impl Fn(&Layout) -> Result<Layout>) -> Result<Outs> {
    let (v, src) = (c.tensor(b, "self")?, c.tensor(b, "src")?);
    let l = view(&Layout::contiguous(b.shape(v)))?;
    check_size(b, src, &l)?;
    one(written(c, b, v, l, b.convert(src, b.dtype(v))?)?)
}

/// Refuses a `src` of other extents than the part that it is to replace.
fn check_size(b: &Builder, src: ValueId, part: &Layout) -> Result<()> {
    let given = b.shape(src);
    ensure!(
        given == part.sizes,
        "expected src to have a size equal to the slice of self. src size = {given:?}, slice size = {:?}",
        part.sizes
    );
    Ok(())
}

/// Zeros with the last dimension of `v` on the diagonal of two new dimensions.
fn diag_embed(c: &Call<'_>, b: &Builder, v: ValueId, offset: i64, dim1: i64, dim2: i64) -> Result<ValueId> {
    let shape = b.shape(v);
    let Some(&length) = shape.last() else { crate::invalid!("diag_embed: the input has no dimensions") };
    let rank = shape.len() + 1;
    let (d1, d2) = layout::diagonal_dims(rank, dim1, dim2)?;
    let size = length + offset.unsigned_abs() as usize;
    let mut sizes = Shape::from_slice(&shape[..shape.len() - 1]);
    for d in [d1.min(d2), d1.max(d2)] {
        sizes.insert(d, size);
    }
    let zeros = b.full(Number::Int(0), b.dtype(v), &sizes)?;
    written(c, b, zeros, layout::diagonal(&Layout::contiguous(sizes), offset, dim1, dim2)?, v)
}
