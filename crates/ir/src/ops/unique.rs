//! Distinct elements, and distinct slices along a dimension.
//!
//! What is sorted falls into groups of equals, or what lies there unsorted into runs. The first of each group moves to the
//! front: their number is data.

use super::bounded::{Bounded, Cut};
use super::index::{index_dtype, take_flat, take_slices};
use super::loops::repeat;
use super::scan::cumulative_sum;
use super::sort::sorted;
use super::support::{dim, not_implemented};
use super::{Call, OpDef, err, ok};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::literal::Number;
use crate::op::{Comparison, Reducer, Unary};
use crate::types::{Dims, Shape};
use crate::{DType, ensure, no_index};

pub(super) static OPS: &[OpDef] = &[
    OpDef::bounded(
        "aten::_unique2(Tensor self, bool sorted=True, bool return_inverse=False, bool return_counts=False) -> (Tensor, \
         Tensor, Tensor)",
        unique,
        &[
            ok("i64[3,9]{0..5}, true, true, true"),
            ok("f32[6]{3,1,nan,1,nan,0}, true, true, true"),
            ok("f32[3]{-0.0,0,-0.0}, true, true, true"),
            ok("bf16[20]{0..3}, true, false, true"),
            ok("bool[5], true, true, true"),
            ok("i32[7]{0..3}"),
            ok("i64[]{5}, false, true, true"),
            ok("f32[0,3], true, true, true"),
            err("c64[2]", "\"unique\" not implemented for 'ComplexFloat'"),
        ],
    ),
    OpDef::bounded(
        "aten::_unique(Tensor self, bool sorted=True, bool return_inverse=False) -> (Tensor, Tensor)",
        unique,
        &[ok("i64[3,9]{0..5}, true, true"), ok("f32[6]{3,1,nan,1,nan,0}, false, false")],
    ),
    OpDef::bounded(
        "aten::unique_dim(Tensor self, int dim, bool sorted=True, bool return_inverse=False, bool return_counts=False) \
         -> (Tensor, Tensor, Tensor)",
        |c, b| {
            let v = c.tensor(b, "self")?;
            slices(b, v, c.int("dim")?, Order::Sorted)
        },
        &[
            ok("i64[9,2]{0..2}, 0"),
            ok("f32[2,9,2]{0..2}, 1, true, true, true"),
            ok("bool[9,3], -2"),
            ok("bf16[4]{2,1,2,0}, 0"),
            ok("f32[0,2], 0"),
            err("f32[], 0", "Dimension specified as 0 but tensor has no dimensions"),
            err("f32[0,2], 1", "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied"),
            err("f32[0,0], 1", "Number of zero sized dimensions is more than one, so unique cannot be applied"),
            err("c64[2], 0", "\"unique_dim\" not implemented for 'ComplexFloat'"),
        ],
    ),
    OpDef::bounded(
        "aten::unique_consecutive(Tensor self, bool return_inverse=False, bool return_counts=False, int? dim=None) -> \
         (Tensor, Tensor, Tensor)",
        |c, b| match (c.optional_int("dim")?, c.tensor(b, "self")?) {
            (Some(d), v) => slices(b, v, d, Order::AsGiven),
            (None, _) => unique_consecutive(c, b),
        },
        &[
            ok("i64[3,9]{0..2}, true, true"),
            ok("f32[5]{nan,nan,1,1,0}, true, true"),
            ok("bool[7], false, true"),
            ok("i32[7]{0..2}, true"),
            ok("f32[]{3}, true, true"),
            ok("f32[0], true, true"),
            ok("i64[2,9]{0..2}, false, false, 1"),
            ok("f32[0,2], true, true, 0"),
            err("c64[2]", "\"unique\" not implemented for 'ComplexFloat'"),
        ],
    ),
];

/// Neighbours that are equal, in groups.
struct Groups {
    /// Whether an element is the first of its group, `bool[n]`.
    first: ValueId,
    /// The group of each element, `i64[n]`.
    number: ValueId,
    /// How many groups there are, `i64[]`.
    count: ValueId,
    n: usize,
}

impl Groups {
    /// `rows` are `[n, k]`, and a row belongs to its neighbour's group if they are equal.
    fn new(b: &Builder, rows: ValueId) -> Result<Groups> {
        let shape = b.shape(rows);
        let n = shape[0];
        let (before, after) = (b.slice_dim(rows, 0, 0, n - 1, 1)?, b.slice_dim(rows, 0, 1, n, 1)?);
        let differs = b.convert(b.compare(Comparison::Ne, after, before)?, DType::I32)?;
        let changes = b.convert(b.reduce(differs, Reducer::Maximum, &[1])?, DType::Bool)?;
        let first = b.concatenate(&[b.full(Number::Bool(true), DType::Bool, &[1])?, changes], 0)?;
        let through = cumulative_sum(b, b.convert(first, DType::I64)?, 0)?;
        let number = b.subtract(through, b.full_like(through, Number::Int(1))?)?;
        let count = b.reshape(b.slice_dim(through, 0, n - 1, n, 1)?, &[])?;
        Ok(Groups { first, number, count, n })
    }

    /// The elements of `v`, `[n]`, at which groups begin, in front.
    fn starts(&self, b: &Builder, v: ValueId) -> Result<ValueId> {
        Ok(b.sort(&[b.unary(Unary::Not, self.first)?, v], 0, false, true)?[1])
    }

    /// How many elements each group has, padded.
    fn sizes(&self, b: &Builder) -> Result<ValueId> {
        let place = b.iota(DType::I64, &[self.n], 0)?;
        let real = b.compare(Comparison::Lt, place, b.broadcast_in_dim(self.count, &[self.n], &[])?)?;
        let end = b.full_like(place, Number::Int(self.n as i64))?;
        let starts = b.select(real, self.starts(b, place)?, end)?;
        let next = b.concatenate(&[b.slice_dim(starts, 0, 1, self.n, 1)?, b.slice_dim(end, 0, 0, 1, 1)?], 0)?;
        b.subtract(next, starts)
    }

    /// The group of each element as it lay before `order` was taken.
    fn inverse(&self, b: &Builder, order: Option<ValueId>) -> Result<ValueId> {
        match order {
            Some(order) => Ok(b.sort(&[order, self.number], 0, false, true)?[1]),
            None => Ok(self.number),
        }
    }
}

fn checked(dtype: DType, what: &str) -> Result<()> {
    if dtype.is_complex() { not_implemented(what, dtype) } else { Ok(()) }
}

fn nothing(b: &Builder) -> Result<ValueId> {
    b.full(Number::Int(0), DType::I64, &[0])
}

/// Values, where the call wants them the group of each element, in the shape of `self`, and the sizes of the groups.
fn elements(c: &Call<'_>, b: &Builder, flat: ValueId, shape: &Shape, order: Option<ValueId>) -> Result<Bounded> {
    let n = b.ty(flat)?.numel();
    let mut results = vec![Some(flat), Some(nothing(b)?), Some(nothing(b)?)];
    results.truncate(c.schema.returns.len());
    if n == 0 {
        if c.flag("return_inverse")? {
            results[1] = Some(b.full(Number::Int(0), DType::I64, shape)?);
        }
        return Bounded::fixed(results);
    }
    let groups = Groups::new(b, b.reshape(flat, &[n, 1])?)?;
    results[0] = Some(groups.starts(b, flat)?);
    if c.flag("return_inverse")? {
        results[1] = Some(b.reshape(groups.inverse(b, order)?, shape)?);
    }
    let mut cuts = vec![Cut { result: 0, dim: 0, count: groups.count }];
    if results.len() > 2 && c.flag("return_counts")? {
        results[2] = Some(groups.sizes(b)?);
        cuts.push(Cut { result: 2, dim: 0, count: groups.count });
    }
    Ok(Bounded::Results { padded: results, cuts, order: None })
}

/// In order also where the call does not ask for it, as PyTorch has them.
fn unique(c: &Call<'_>, b: &Builder) -> Result<Bounded> {
    let v = c.tensor(b, "self")?;
    checked(b.dtype(v), "unique")?;
    let (values, order) = sorted(b, b.reshape(v, &[b.ty(v)?.numel()])?, 0, false)?;
    elements(c, b, values, &b.shape(v), Some(order))
}

fn unique_consecutive(c: &Call<'_>, b: &Builder) -> Result<Bounded> {
    let v = c.tensor(b, "self")?;
    checked(b.dtype(v), "unique")?;
    let shape = b.shape(v);
    let n = b.ty(v)?.numel();
    if n == 0 {
        // Empty is empty, whatever was asked for.
        return Bounded::fixed(vec![Some(b.reshape(v, &[0])?), Some(nothing(b)?), Some(nothing(b)?)]);
    }
    elements(c, b, b.reshape(v, &[n])?, &shape, None)
}

#[derive(PartialEq)]
enum Order {
    Sorted,
    AsGiven,
}

/// Distinct slices along `d`, the group of each slice, and the sizes of the groups.
fn slices(b: &Builder, v: ValueId, d: i64, order: Order) -> Result<Bounded> {
    let shape = b.shape(v);
    if shape.is_empty() {
        no_index!("Dimension specified as {d} but tensor has no dimensions");
    }
    let d = dim(d, shape.len())?;
    checked(b.dtype(v), "unique_dim")?;
    let (n, empty) = (shape[d], shape.iter().filter(|&&s| s == 0).count());
    if n == 0 {
        ensure!(empty == 1, "Number of zero sized dimensions is more than one, so unique cannot be applied");
        return Bounded::fixed(vec![Some(v), Some(nothing(b)?), Some(nothing(b)?)]);
    }
    ensure!(empty == 0, "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied");
    let moved: Dims = std::iter::once(d).chain((0..shape.len()).filter(|&i| i != d)).collect();
    let in_front = b.transpose(v, &moved)?;
    let rows = b.reshape(in_front, &[n, b.ty(v)?.numel() / n])?;
    let order = if order == Order::Sorted { Some(rows_in_order(b, rows)?) } else { None };
    let place = b.iota(DType::I64, &[n], 0)?;
    let ordered = order.map_or(Ok(rows), |order| take_slices(b, rows, 0, order))?;
    let groups = Groups::new(b, ordered)?;
    let firsts = groups.starts(b, order.unwrap_or(place))?;
    let back: Dims = (0..shape.len()).map(|i| moved.iter().position(|&m| m == i).unwrap_or(i)).collect();
    let values = b.transpose(take_slices(b, in_front, 0, firsts)?, &back)?;
    let cut = |result, dim| Cut { result, dim, count: groups.count };
    Ok(Bounded::Results {
        padded: vec![Some(values), Some(groups.inverse(b, order)?), Some(groups.sizes(b)?)],
        cuts: vec![cut(0, d), cut(2, 0)],
        order: Some(moved),
    })
}

/// The lexicographic order of `[n, k]`: stable sorts by one column after the other, the first column last.
fn rows_in_order(b: &Builder, rows: ValueId) -> Result<ValueId> {
    let (n, k) = (b.shape(rows)[0], b.shape(rows)[1]);
    let order = b.iota(index_dtype(n), &[n], 0)?;
    let carried = repeat(b, k, &[order, rows], |b, counter, carried| {
        let (order, rows) = (carried[0], carried[1]);
        let last = b.full_like(counter, Number::Int(k as i64 - 1))?;
        let column = take_slices(b, rows, 1, b.subtract(last, counter)?)?;
        let sorted = b.sort(&[take_flat(b, column, order)?, order], 0, false, true)?;
        Ok(vec![sorted[1], rows])
    })?;
    b.convert(carried[0], DType::I64)
}
