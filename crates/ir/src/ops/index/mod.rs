//! Reading and writing at computed positions.
//!
//! An index out of range, at which PyTorch raises an error, cannot raise one inside a compiled program: a read takes the
//! nearest element, a write is left out.

mod advanced;
mod along;
pub(super) mod bags;
mod compact;
pub(super) mod embedding;
pub(super) mod masked;
mod rows;
pub(super) mod scatter;
pub(super) mod slices;

pub(super) use advanced::OPS;
pub(super) use along::{put_along, take_along};

use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::literal::Number;
use crate::op::{Combiner, Comparison, Gather, Scatter};
use crate::types::{Dims, Shape};
use crate::{DType, ensure};

/// Every dimension of `rank` but `dim`.
pub(super) fn all_but(rank: usize, dim: usize) -> Dims {
    (0..rank).filter(|&d| d != dim).collect()
}

/// `index` in the narrowest of `i32` and `i64` that can hold `extent`. Hardware without 64-bit lanes is spared them.
pub(super) fn index_type(b: &Builder, index: ValueId, extent: usize) -> Result<ValueId> {
    b.convert(index, index_dtype(extent))
}

/// `i32` where it can hold `extent`, else `i64`.
pub(super) fn index_dtype(extent: usize) -> DType {
    if i32::try_from(extent).is_ok() { DType::I32 } else { DType::I64 }
}

/// Indices below zero counted from the end of `extent` elements.
pub(super) fn wrap(b: &Builder, index: ValueId, extent: usize) -> Result<ValueId> {
    if b.dtype(index).is_unsigned() {
        return Ok(index);
    }
    let negative = b.compare(Comparison::Lt, index, b.full_like(index, Number::Int(0))?)?;
    let wrapped = b.add(index, b.full_like(index, Number::Int(extent as i64))?)?;
    b.select(negative, wrapped, index)
}

/// Elements of a 1-d tensor, in the shape of `index`.
pub(super) fn take_flat(b: &Builder, flat: ValueId, index: ValueId) -> Result<ValueId> {
    let (extent, wanted) = (b.ty(flat)?.numel(), b.shape(index));
    if wanted.contains(&0) {
        return b.full(Number::Int(0), b.dtype(flat), &wanted);
    }
    let gather = Gather {
        collapsed_slice_dims: Dims::from_slice(&[0]),
        start_index_map: Dims::from_slice(&[0]),
        index_vector_dim: b.rank(index),
        slice_sizes: Shape::from_slice(&[1]),
        ..Gather::default()
    };
    b.gather(flat, index_type(b, index, extent)?, gather)
}

/// Whole slices of `v` at the places along `dim` that `index` names; its dimensions take the place of `dim`.
pub(super) fn take_slices(b: &Builder, v: ValueId, dim: usize, index: ValueId) -> Result<ValueId> {
    let (shape, n) = (b.shape(v), b.rank(index));
    ensure!(dim < shape.len(), "Dimension {dim} of a {}-d tensor", shape.len());
    let mut result = Shape::from_slice(&shape[..dim]);
    result.extend(b.shape(index));
    result.extend_from_slice(&shape[dim + 1..]);
    if result.contains(&0) {
        return b.full(Number::Int(0), b.dtype(v), &result);
    }
    let mut slice_sizes = shape.clone();
    slice_sizes[dim] = 1;
    let gather = Gather {
        offset_dims: (0..dim).chain(dim + n..shape.len() - 1 + n).collect(),
        collapsed_slice_dims: Dims::from_slice(&[dim]),
        start_index_map: Dims::from_slice(&[dim]),
        index_vector_dim: n,
        slice_sizes,
        ..Gather::default()
    };
    b.gather(v, index_type(b, index, shape[dim])?, gather)
}

/// Combines `updates` into `v` where `places`, all of one shape, name an index for each of `dims` (rising). The
/// dimensions of `places` stand in `updates` where the first of `dims` would if `dims` are neighbours, else in front.
pub(super) fn put_points(
    b: &Builder,
    v: ValueId,
    places: &[ValueId],
    dims: &[usize],
    updates: ValueId,
    combiner: Combiner,
) -> Result<ValueId> {
    let Some(&first) = places.first() else { return Ok(v) };
    let (rank, batch) = (b.rank(v), b.rank(first));
    if (dims, batch, combiner) == (&[0], 1, Combiner::Add) && compact::pays(b, v, b.shape(first)[0]) {
        return compact::add_rows(b, v, first, updates);
    }
    let scatter = Scatter {
        combiner,
        update_window_dims: window_dims(rank, dims, batch),
        inserted_window_dims: dims.into(),
        input_batching_dims: Dims::new(),
        scatter_indices_batching_dims: Dims::new(),
        scatter_dims_to_operand_dims: dims.into(),
        index_vector_dim: batch,
        unique_indices: false,
    };
    scattered(b, v, stack_places(b, places)?, updates, scatter)
}

/// Where the dimensions that stay whole stand in a result whose `batch` index dimensions replace `dims`.
pub(super) fn window_dims(rank: usize, dims: &[usize], batch: usize) -> Dims {
    let neighbours = dims.windows(2).all(|w| w[1] == w[0] + 1);
    let at = if neighbours { dims.first().copied().unwrap_or(0) } else { 0 };
    let kept = rank - dims.len();
    (0..at).chain(at + batch..kept + batch).collect()
}

/// Index vectors out of one tensor per component. A single component needs no dimension of its own.
pub(super) fn stack_places(b: &Builder, places: &[ValueId]) -> Result<ValueId> {
    if let [only] = places {
        return Ok(*only);
    }
    let wide = places.iter().any(|&p| b.dtype(p) == DType::I64);
    let dtype = if wide { DType::I64 } else { DType::I32 };
    let column = |&p: &ValueId| {
        let mut shape = b.shape(p);
        shape.push(1);
        b.reshape(b.convert(p, dtype)?, &shape)
    };
    let columns: Vec<ValueId> = places.iter().map(column).collect::<Result<_>>()?;
    b.concatenate(&columns, places.first().map_or(0, |&p| b.rank(p)))
}

/// A scatter that adds 16-bit floats up in `f32`, and flags by `or` and `and`.
fn scattered(b: &Builder, v: ValueId, index: ValueId, updates: ValueId, mut scatter: Scatter) -> Result<ValueId> {
    let dtype = b.dtype(v);
    let sums = matches!(scatter.combiner, Combiner::Add | Combiner::Multiply);
    if dtype == DType::Bool && sums {
        scatter.combiner = if scatter.combiner == Combiner::Add { Combiner::Maximum } else { Combiner::Minimum };
    }
    let wide = if sums { dtype.accumulator() } else { dtype };
    let out = b.scatter(b.convert(v, wide)?, index, b.convert(updates, wide)?, scatter)?;
    b.convert(out, dtype)
}
