//! One place for each element of an index, along one dimension.

use super::{all_but, index_type, put_points, rows, scattered, stack_places};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::literal::Number;
use crate::op::{Binary, Combiner, Comparison, Gather, Scatter};
use crate::types::Dims;
use crate::{DType, ensure};

/// `v[i, j, ..., index[i, j, ...], ...]`: per element of `index` one element of `v` along `dim`. In other dimensions
/// `index` may be shorter than `v`.
pub(in super::super) fn take_along(b: &Builder, v: ValueId, dim: usize, index: ValueId) -> Result<ValueId> {
    let (shape, wanted) = (b.shape(v), b.shape(index));
    if wanted.contains(&0) {
        return b.full(Number::Int(0), b.dtype(v), &wanted);
    }
    if shape.is_empty() {
        return b.broadcast_in_dim(v, &wanted, &[]);
    }
    ensure!(shape.len() == wanted.len(), "Index tensor must have the same number of dimensions as input tensor");
    let mut limit = wanted.clone();
    limit[dim] = shape[dim];
    let zeros: Dims = shape.iter().map(|_| 0).collect();
    let ones: Dims = shape.iter().map(|_| 1).collect();
    let v = b.slice(v, &zeros, &limit, &ones)?;
    let (index, rows) = rows::without_repeats(b, index, dim)?;
    let kept = (0..shape.len()).filter(|d| !rows.contains(d));
    let batching = |&(_, d): &(usize, usize)| d != dim;
    let (index_dims, dims): (Dims, Dims) = kept.enumerate().filter(batching).unzip();
    let gather = Gather {
        collapsed_slice_dims: Dims::from_slice(&[dim]),
        operand_batching_dims: dims,
        start_indices_batching_dims: index_dims,
        start_index_map: Dims::from_slice(&[dim]),
        index_vector_dim: b.rank(index),
        slice_sizes: (0..shape.len()).map(|d| if rows.contains(&d) { wanted[d] } else { 1 }).collect(),
        offset_dims: rows,
    };
    b.gather(v, index_type(b, index, shape[dim])?, gather)
}

/// Combines `updates`, of `index`'s shape, into `v` at `index` along `dim`; see [`take_along`].
pub(in super::super) fn put_along(
    b: &Builder,
    v: ValueId,
    dim: usize,
    index: ValueId,
    updates: ValueId,
    combiner: Combiner,
) -> Result<ValueId> {
    let (shape, at) = (b.shape(v), b.shape(index));
    if at.contains(&0) || shape.contains(&0) {
        return Ok(v);
    }
    let (rank, whole) = (shape.len(), |&d: &usize| at[d] == shape[d]);
    if at[dim] == 1 && all_but(rank, dim).iter().all(whole) {
        return put_one(b, v, dim, index, updates, combiner);
    }
    let (narrow, rows) = rows::without_repeats(b, index, dim)?;
    let index = index_type(b, narrow, shape.iter().copied().max().unwrap_or(0))?;
    let kept: Dims = (0..rank).filter(|d| !rows.contains(d)).collect();
    if kept.len() == 1 && rows.iter().all(whole) {
        return put_points(b, v, &[index], &kept, updates, combiner);
    }
    // Dimensions that are paired are as long in both. Where an index is shorter, its places are said.
    let paired = kept.iter().all(|&d| d == dim || whole(&d));
    let (index_dims, dims): (Dims, Dims) =
        kept.iter().copied().enumerate().filter(|&(_, d)| paired && d != dim).unzip();
    let said: Dims = kept.iter().copied().filter(|d| !dims.contains(d)).collect();
    let place = |&d: &usize| match kept.iter().position(|&k| k == d) {
        Some(counting) if d != dim => b.iota(b.dtype(index), &b.shape(index), counting),
        _ => Ok(index),
    };
    let places: Vec<ValueId> = said.iter().map(place).collect::<Result<_>>()?;
    let scatter = Scatter {
        combiner,
        update_window_dims: rows,
        inserted_window_dims: said.clone(),
        input_batching_dims: dims,
        scatter_indices_batching_dims: index_dims,
        scatter_dims_to_operand_dims: said,
        index_vector_dim: kept.len(),
        unique_indices: false,
    };
    scattered(b, v, stack_places(b, &places)?, updates, scatter)
}

/// [`put_along`] of one place per line: a choice per element, which fuses with what surrounds it.
fn put_one(
    b: &Builder,
    v: ValueId,
    dim: usize,
    index: ValueId,
    updates: ValueId,
    combiner: Combiner,
) -> Result<ValueId> {
    let shape = b.shape(v);
    let all: Dims = (0..shape.len()).collect();
    let index = b.broadcast_in_dim(index_type(b, index, shape[dim])?, &shape, &all)?;
    let updates = b.broadcast_in_dim(updates, &shape, &all)?;
    let here = b.compare(Comparison::Eq, b.iota(b.dtype(index), &shape, dim)?, index)?;
    b.select(here, combined(b, v, updates, combiner)?, v)
}

fn combined(b: &Builder, v: ValueId, update: ValueId, combiner: Combiner) -> Result<ValueId> {
    let op = match combiner {
        Combiner::Set => return Ok(update),
        Combiner::Add => Binary::Add,
        Combiner::Multiply => Binary::Multiply,
        Combiner::Maximum => Binary::Maximum,
        Combiner::Minimum => Binary::Minimum,
    };
    match (op, b.dtype(v)) {
        (Binary::Add, DType::Bool) => b.binary(Binary::Or, v, update),
        (Binary::Multiply, DType::Bool) => b.binary(Binary::And, v, update),
        _ => b.binary(op, v, update),
    }
}
