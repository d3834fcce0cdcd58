//! Views that come in several: splits along a dimension.

use super::super::{Call, OpDef, err, ok};
use super::copies::copied;
use super::{Views, layout};
use crate::alias::Layout;
use crate::ensure;
use crate::error::Result;

pub(in super::super) static OPS: &[OpDef] = &[
    OpDef::view(
        "aten::split.Tensor(Tensor(a) self, SymInt split_size, int dim=0) -> Tensor(a)[]",
        split,
        &[
            ok("f32[5,2], 2"),
            ok("f32[2,4], 2, -1"),
            ok("f32[0], 0"),
            ok("f32[3], 7"),
            err("f32[5], -1", "split expects split_size be non-negative, but got split_size=-1"),
            err("f32[5], 0", "split_size can only be 0 if dimension size is 0, but got dimension size of 5"),
        ],
    ),
    OpDef::view(
        "aten::split.sizes(Tensor(a) self, SymInt[] split_size, int dim=0) -> Tensor(a)[]",
        |c, l| some(layout::split_with_sizes(l, c.int("dim")?, &c.ints("split_size")?)),
        &[ok("f32[5], [2,3]")],
    ),
    OpDef::view(
        "aten::split_with_sizes(Tensor(a) self, SymInt[] split_sizes, int dim=0) -> Tensor(a)[]",
        split_with_sizes,
        &[
            ok("f32[5], [2,0,3]"),
            ok("f32[2,4], [1,3], -1"),
            err("f32[5], [2,2]", "split_with_sizes expects split_sizes to sum exactly to 5"),
            err("f32[5], [6,-1]", "split_with_sizes expects split_sizes have only non-negative entries"),
        ],
    ),
    OpDef::view(
        "aten::chunk(Tensor(a) self, int chunks, int dim=0) -> Tensor(a)[]",
        chunk,
        &[
            ok("f32[5], 3"),
            ok("f32[2,6], 3, 1"),
            ok("f32[0,2], 3"),
            err("f32[5], 0", "chunk expects `chunks` to be greater than 0, got: 0"),
            err("f32[], 1", "chunk expects at least a 1-dimensional tensor"),
        ],
    ),
    OpDef::view(
        "aten::unbind.int(Tensor(a) self, int dim=0) -> Tensor(a)[]",
        unbind,
        &[ok("f32[3,2]"), ok("f32[2,3], -1"), err("f32[]", "Dimension specified as 0 but tensor has no dimensions")],
    ),
    OpDef::view(
        "aten::tensor_split.sections(Tensor(a) self, SymInt sections, int dim=0) -> Tensor(a)[]",
        |c, l| some(layout::tensor_split_sections(l, c.int("dim")?, c.int("sections")?)),
        &[ok("f32[7], 3"), ok("f32[2,3], 5, -1"), err("f32[5], 0", "number of sections must be larger than 0, got 0")],
    ),
    OpDef::view(
        "aten::tensor_split.indices(Tensor(a) self, SymInt[] indices, int dim=0) -> Tensor(a)[]",
        |c, l| some(layout::tensor_split_indices(l, c.int("dim")?, &c.ints("indices")?)),
        &[ok("f32[7], [2,5]"), ok("f32[7], [-2,9]"), ok("f32[3], []")],
    ),
    OpDef::view(
        "aten::hsplit.int(Tensor(a) self, int sections) -> Tensor(a)[]",
        |c, l| some(layout::tensor_split_sections(l, even(c, l, "hsplit", 1)?, c.int("sections")?)),
        &[ok("f32[4], 2"), ok("f32[2,6,2], 3"), err("f32[2,3], 2", "is not divisible by the split_size 2!")],
    ),
    OpDef::view(
        "aten::hsplit.array(Tensor(a) self, int[] indices) -> Tensor(a)[]",
        |c, l| some(layout::tensor_split_indices(l, along(l, "hsplit", 1)?, &c.ints("indices")?)),
        &[
            ok("f32[4], [1,3]"),
            ok("f32[2,6], [2]"),
            err("f32[], [1]", "torch.hsplit requires a tensor with at least 1"),
        ],
    ),
    OpDef::view(
        "aten::vsplit.int(Tensor(a) self, int sections) -> Tensor(a)[]",
        |c, l| some(layout::tensor_split_sections(l, even(c, l, "vsplit", 2)?, c.int("sections")?)),
        &[ok("f32[4,2], 2"), err("f32[4], 2", "torch.vsplit requires a tensor with at least 2 dimension")],
    ),
    OpDef::view(
        "aten::vsplit.array(Tensor(a) self, int[] indices) -> Tensor(a)[]",
        |c, l| some(layout::tensor_split_indices(l, along(l, "vsplit", 2)?, &c.ints("indices")?)),
        &[ok("f32[4,2], [1,3]")],
    ),
    OpDef::view(
        "aten::dsplit.int(Tensor(a) self, int sections) -> Tensor(a)[]",
        |c, l| some(layout::tensor_split_sections(l, even(c, l, "dsplit", 3)?, c.int("sections")?)),
        &[ok("f32[1,2,4], 2")],
    ),
    OpDef::view(
        "aten::dsplit.array(Tensor(a) self, int[] indices) -> Tensor(a)[]",
        |c, l| some(layout::tensor_split_indices(l, along(l, "dsplit", 3)?, &c.ints("indices")?)),
        &[ok("f32[1,2,4], [1,3]")],
    ),
    // Unsafe because autograd does not know that what PyTorch gives are views: kernels write through them.
    OpDef::view(
        "aten::unsafe_split.Tensor(Tensor self, SymInt split_size, int dim=0) -> Tensor[]",
        split,
        &[ok("f32[5,2], 2"), ok("f32[2,4], 3, -1")],
    ),
    OpDef::view(
        "aten::unsafe_split_with_sizes(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]",
        split_with_sizes,
        &[ok("f32[5], [2,0,3]")],
    ),
    OpDef::view(
        "aten::unsafe_chunk(Tensor self, int chunks, int dim=0) -> Tensor[]",
        chunk,
        &[ok("f32[5], 3"), ok("f32[0,2], 3")],
    ),
    OpDef::new(
        "aten::split_copy.Tensor(Tensor self, SymInt split_size, int dim=0) -> Tensor[]",
        |c, b| copied(c, b, split),
        &[ok("f32[5,2], 2")],
    ),
    OpDef::new(
        "aten::split_with_sizes_copy(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]",
        |c, b| copied(c, b, split_with_sizes),
        &[ok("f32[5], [2,0,3]")],
    ),
    OpDef::new(
        "aten::unbind_copy.int(Tensor self, int dim=0) -> Tensor[]",
        |c, b| copied(c, b, unbind),
        &[ok("f32[2,3], 1")],
    ),
];

fn some(ls: Result<Vec<Layout>>) -> Views {
    ls.map(Some)
}

/// The dimension that the split `name` runs along; it asks for `rank` dimensions.
fn along(l: &Layout, name: &str, rank: usize) -> Result<i64> {
    let n = l.sizes.len();
    ensure!(
        n >= rank,
        "torch.{name} requires a tensor with at least {rank} dimension, but got a tensor with {n} dimensions!"
    );
    Ok(match (name, n) {
        ("hsplit", 1) | ("vsplit", _) => 0,
        ("hsplit", _) => 1,
        _ => 2,
    })
}

/// As [`along`], where `sections` of one length must fill the dimension.
fn even(c: &Call<'_>, l: &Layout, name: &str, rank: usize) -> Result<i64> {
    let (d, sections) = (along(l, name, rank)?, c.int("sections")?);
    let size = l.sizes[d as usize];
    ensure!(
        sections != 0 && size as i64 % sections == 0,
        "torch.{name} attempted to split along dimension {d}, but the size of the dimension {size} is not divisible by the \
         split_size {sections}!"
    );
    Ok(d)
}

fn split(c: &Call<'_>, l: &Layout) -> Views {
    some(layout::split(l, c.int("dim")?, c.int("split_size")?))
}

fn split_with_sizes(c: &Call<'_>, l: &Layout) -> Views {
    some(layout::split_with_sizes(l, c.int("dim")?, &c.ints("split_sizes")?))
}

fn chunk(c: &Call<'_>, l: &Layout) -> Views {
    some(layout::chunk(l, c.int("dim")?, c.int("chunks")?))
}

fn unbind(c: &Call<'_>, l: &Layout) -> Views {
    some(layout::unbind(l, c.int("dim")?))
}
