//! Ops by mask: where it holds, what it picks, and what goes there.

use super::super::scan::cumulative_sum;
use super::super::support::{broadcast_shapes, broadcast_to, torch_name};
use super::super::{Bounded, Call, Cut, OpDef, Outs, err, ok, one};
use super::{index_dtype, take_flat};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::literal::Number;
use crate::op::{Binary, Comparison, Reducer, Unary};
use crate::types::Shape;
use crate::{DType, ensure};

pub(in super::super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor",
        masked_scatter,
        &[
            ok("f32[2,3], bool[2,3], f32[6]"),
            ok("f32[2,3], bool[3]{true,false,true}, f32[2,2]"),
            ok("i64[], bool[]{1}, i64[2]"),
            ok("f32[0], bool[0], f32[0]"),
            err("f32[3], bool[3], i64[3]", "masked_scatter: expected self and source to have same dtypes but got"),
            err("f32[3], i64[3], f32[3]", "masked_scatter_ only supports boolean masks"),
        ],
    )
    .variants(&["masked_scatter_", "masked_scatter.out"]),
    OpDef::new(
        "aten::masked_scatter_backward(Tensor grad_output, Tensor mask, SymInt[] sizes) -> Tensor",
        masked_scatter_backward,
        &[ok("f32[2,3], bool[2,3], [6]"), ok("f32[5], bool[5]{true,false}, [4,2]")],
    ),
    OpDef::new(
        "aten::nonzero_static(Tensor self, *, SymInt size, int fill_value=-1) -> Tensor",
        nonzero_static,
        &[
            ok("f32[2,3]{0,1,1,0,2,0}, size=2"),
            ok("bool[7], size=9"),
            ok("i64[2,2,2]{0,1,0}, size=5, fill_value=7"),
            ok("f32[]{1}, size=1"),
            ok("f32[3], size=0"),
        ],
    )
    .variants(&["nonzero_static.out"]),
    OpDef::bounded(
        "aten::nonzero(Tensor self) -> Tensor",
        nonzero,
        &[
            ok("f32[2,3]{0,1,1,0,2,nan}"),
            ok("bool[7]"),
            ok("i64[2,2,2]{0,1,0}"),
            ok("c64[3]{0,1,2}"),
            ok("f32[]{1}"),
            ok("f32[]{0}"),
            ok("f32[4]{0,-0.0}"),
            ok("f32[2,0]"),
        ],
    )
    .variants(&["nonzero.out"]),
    OpDef::bounded("aten::argwhere(Tensor self) -> Tensor", nonzero, &[ok("f32[2,3]{0,1,1,0,2,nan}"), ok("i64[]{1}")]),
    OpDef::bounded(
        "aten::masked_select(Tensor self, Tensor mask) -> Tensor",
        masked_select,
        &[
            ok("f32[2,3], bool[2,3]"),
            ok("bf16[2,1], bool[3]{true,false,true}"),
            ok("i64[3], bool[]{1}"),
            ok("c64[3], bool[3]"),
            ok("f32[], bool[]{0}"),
            ok("f32[0], bool[0]"),
            err("f32[3], i64[3]", "masked_select: expected BoolTensor for mask"),
            err("f32[3], bool[2]", "must match"),
        ],
    )
    .variants(&["masked_select.out"]),
];

/// Where `v` is not zero: row-major places, those found in front, and how many those are.
fn found(b: &Builder, v: ValueId) -> Result<(ValueId, ValueId)> {
    let n = b.ty(v)?.numel();
    let is_zero = b.compare(Comparison::Eq, v, b.full_like(v, Number::Int(0))?)?;
    let is_zero = b.reshape(is_zero, &[n])?;
    let places = b.sort(&[is_zero, b.iota(DType::I64, &[n], 0)?], 0, false, true)?[1];
    let found = b.convert(b.unary(Unary::Not, is_zero)?, DType::I64)?;
    Ok((places, b.reduce(found, Reducer::Add, &[0])?))
}

fn nonzero(c: &Call<'_>, b: &Builder) -> Result<Bounded> {
    let v = c.tensor(b, "self")?;
    let (shape, n) = (b.shape(v), b.ty(v)?.numel());
    let (places, count) = found(b, v)?;
    if n == 0 || shape.is_empty() {
        return Bounded::rows(b.full(Number::Int(0), DType::I64, &[n, shape.len()])?, count);
    }
    let columns = coordinates(b, places, &shape)?.into_iter().map(|column| b.reshape(column, &[n, 1]));
    Ok(Bounded::Results {
        padded: vec![Some(b.concatenate(&columns.collect::<Result<Vec<_>>>()?, 1)?)],
        cuts: vec![Cut { result: 0, dim: 0, count }],
        order: Some([1, 0].into_iter().collect()),
    })
}

fn masked_select(c: &Call<'_>, b: &Builder) -> Result<Bounded> {
    let (v, mask) = (c.tensor(b, "self")?, c.tensor(b, "mask")?);
    ensure!(b.dtype(mask) == DType::Bool, "masked_select: expected BoolTensor for mask");
    let shape = broadcast_shapes(&[b.shape(v), b.shape(mask)])?;
    let n = shape.iter().product();
    let flat = |v| b.reshape(broadcast_to(b, v, &shape)?, &[n]);
    let (v, mask) = (flat(v)?, flat(mask)?);
    let picked = b.sort(&[b.unary(Unary::Not, mask)?, v], 0, false, true)?[1];
    Bounded::rows(picked, b.reduce(b.convert(mask, DType::I64)?, Reducer::Add, &[0])?)
}

/// The `n`-th place that the mask picks takes the `n`-th element of `source`.
fn masked_scatter(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (v, mask, source) = (c.tensor(b, "self")?, c.tensor(b, "mask")?, c.tensor(b, "source")?);
    let (to, from) = (b.dtype(v), b.dtype(source));
    ensure!(
        to == from,
        "masked_scatter: expected self and source to have same dtypes but got {} and {}",
        torch_name(to),
        torch_name(from)
    );
    let kind = b.dtype(mask);
    ensure!(
        kind == DType::Bool,
        "masked_scatter_ only supports boolean masks, but got mask with dtype {}",
        torch_name(kind)
    );
    let shape = broadcast_shapes(&[b.shape(v), b.shape(mask)])?;
    let (v, mask) = (broadcast_to(b, v, &shape)?, broadcast_to(b, mask, &shape)?);
    let (n, given) = (b.ty(v)?.numel(), b.ty(source)?.numel());
    if n == 0 || given == 0 {
        return one(v);
    }
    let counted = b.convert(b.reshape(mask, &[n])?, index_dtype(n))?;
    let nth = cumulative_sum(b, counted, 0)?;
    let nth = b.reshape(b.subtract(nth, b.full_like(nth, Number::Int(1))?)?, &shape)?;
    let taken = take_flat(b, b.reshape(source, &[given])?, nth)?;
    one(b.select(mask, taken, v)?)
}

/// The elements that the mask picks, in order, then zeros.
fn masked_scatter_backward(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (grad, sizes) = (c.tensor(b, "grad_output")?, c.sizes("sizes")?);
    let shape = b.shape(grad);
    let mask = broadcast_to(b, c.tensor(b, "mask")?, &shape)?;
    let (n, wanted) = (b.ty(grad)?.numel(), sizes.iter().product::<usize>());
    if n == 0 || wanted == 0 {
        return one(b.full(Number::Int(0), b.dtype(grad), &sizes)?);
    }
    let zero = b.full_like(grad, Number::Int(0))?;
    let grad = b.reshape(b.select(mask, grad, zero)?, &[n])?;
    let left_out = b.unary(Unary::Not, b.reshape(mask, &[n])?)?;
    let picked = b.sort(&[left_out, grad], 0, false, true)?[1];
    one(b.reshape(sized(b, picked, wanted, Number::Int(0))?, &sizes)?)
}

/// A 1-d `v` cut to `size` elements, or filled up to as many.
fn sized(b: &Builder, v: ValueId, size: usize, fill: Number) -> Result<ValueId> {
    let n = b.ty(v)?.numel();
    b.pad(v, b.scalar(fill, b.dtype(v))?, &[0], &[size as i64 - n as i64], &[0])
}

fn nonzero_static(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (v, size, fill) = (c.tensor(b, "self")?, c.int("size")?, c.int("fill_value")?);
    ensure!(size >= 0, "nonzero_static: 'size' must be an non-negative integer");
    let (shape, size, n) = (b.shape(v), size as usize, b.ty(v)?.numel());
    let result = [size, shape.len()];
    if size == 0 || shape.is_empty() || n == 0 {
        return one(b.full(Number::Int(fill), DType::I64, &result)?);
    }
    let (places, count) = found(b, v)?;
    let places = sized(b, places, size, Number::Int(0))?;
    let found = broadcast_to(b, count, &[size])?;
    let present = b.compare(Comparison::Lt, b.iota(DType::I64, &[size], 0)?, found)?;
    let columns = coordinates(b, places, &shape)?.into_iter().map(|column| {
        let column = b.select(present, column, b.full_like(column, Number::Int(fill))?)?;
        b.reshape(column, &[size, 1])
    });
    one(b.concatenate(&columns.collect::<Result<Vec<_>>>()?, 1)?)
}

/// Row-major positions as one index per dimension.
fn coordinates(b: &Builder, places: ValueId, shape: &Shape) -> Result<Vec<ValueId>> {
    let mut rest = places;
    let mut columns = vec![];
    for &extent in shape.iter().rev() {
        let extent = b.full_like(rest, Number::Int(extent as i64))?;
        columns.push(b.binary(Binary::Remainder, rest, extent)?);
        rest = b.divide(rest, extent)?;
    }
    columns.reverse();
    Ok(columns)
}
