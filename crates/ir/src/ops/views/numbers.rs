//! Numbers read off a layout.

use super::super::{Call, OpDef, Scalar, err, ok, support};
use super::layout;
use crate::Number;
use crate::alias::Layout;
use crate::error::Result;

pub(in super::super) static OPS: &[OpDef] = &[
    OpDef::number(
        "aten::sym_size.int(Tensor self, int dim) -> SymInt",
        size,
        &[ok("f32[2,3], -1"), ok("f32[0], 0"), err("f32[2,3], 2", "Dimension out of range")],
    ),
    OpDef::number("aten::size.int(Tensor self, int dim) -> int", size, &[ok("f32[2,3], 0")]),
    OpDef::number("aten::sym_numel(Tensor self) -> SymInt", numel, &[ok("f32[2,3]"), ok("f32[]"), ok("f32[0,2]")]),
    OpDef::number("aten::numel(Tensor self) -> int", numel, &[ok("f32[2,3]")]),
    OpDef::number("aten::sym_stride.int(Tensor self, int dim) -> SymInt", stride, &[ok("f32[2,3], 0")]),
    OpDef::number("aten::stride.int(Tensor self, int dim) -> int", stride, &[ok("f32[2,3], -1")]),
    OpDef::number("aten::sym_storage_offset(Tensor self) -> SymInt", offset, &[ok("f32[2,3]")]),
    OpDef::number("aten::storage_offset(Tensor self) -> int", offset, &[ok("f32[2,3]")]),
    OpDef::number("aten::dim(Tensor self) -> int", |c| int(c.layout("self")?.sizes.len()), &[ok("f32[2,3]")]),
    OpDef::number("aten::is_contiguous(Tensor self) -> bool", contiguous, &[ok("f32[2,3]")]),
];

fn int(n: usize) -> Result<Scalar> {
    Ok(Scalar::Known(Number::Int(n as i64)))
}

fn at(c: &Call<'_>, l: &Layout, of: impl Fn(&Layout) -> &[usize]) -> Result<Scalar> {
    let d = support::dim(c.int("dim")?, l.sizes.len())?;
    match of(l).get(d) {
        Some(&n) => int(n),
        None => crate::invalid!("Dimension specified as {d} but tensor has no dimensions"),
    }
}

fn size(c: &Call<'_>) -> Result<Scalar> {
    at(c, &c.layout("self")?, |l| &l.sizes)
}

fn stride(c: &Call<'_>) -> Result<Scalar> {
    at(c, &c.layout("self")?, |l| &l.strides)
}

fn numel(c: &Call<'_>) -> Result<Scalar> {
    int(layout::numel(&c.layout("self")?))
}

fn offset(c: &Call<'_>) -> Result<Scalar> {
    int(c.layout("self")?.offset)
}

fn contiguous(c: &Call<'_>) -> Result<Scalar> {
    Ok(Scalar::Known(Number::Bool(layout::is_contiguous(&c.layout("self")?))))
}
