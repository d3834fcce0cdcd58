//! Weighted sums of chosen positions along one dimension: what adaptive pooling and resizing are made of.
//!
//! Which positions, and with which weights, is known while tracing. A position that is not chosen is never multiplied:
//! NaN and infinities reach exactly the results that PyTorch lets them reach.

use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::graph::ValueId;
use crate::literal::{Literal, Number};
use crate::op::Gather;
use crate::types::{Dims, Shape, TensorType};
use crate::{Reducer, ensure};

/// For every position of the result, the source positions it reads and their weights.
pub(super) type Taps = Vec<Vec<(usize, f64)>>;

/// The taps of the adjoint: what each of `extent` source positions gives to.
pub(super) fn adjoint(taps: &Taps, extent: usize) -> Taps {
    let mut back: Taps = vec![vec![]; extent];
    for (out, row) in taps.iter().enumerate() {
        for &(source, weight) in row {
            back[source].push((out, weight));
        }
    }
    back
}

/// A constant of `shape` from its elements.
fn constant(b: &Builder, dtype: DType, shape: &[usize], numbers: impl Iterator<Item = Number>) -> Result<ValueId> {
    let bytes: Vec<u8> = numbers.flat_map(|n| n.to_bytes(dtype)).collect();
    let literal = Literal::dense(TensorType::new(dtype, shape.iter().copied()), bytes);
    b.constant(literal.ok_or_else(|| Error::internal("a constant's elements do not fill its shape"))?)
}

/// Elements `indices` of dimension `dim`.
pub(super) fn take(b: &Builder, v: ValueId, dim: usize, indices: &[usize]) -> Result<ValueId> {
    let mut shape = b.shape(v);
    let run = indices.windows(2).all(|w| w[1] == w[0] + 1);
    if let (true, Some(&first)) = (run, indices.first()) {
        return b.slice_dim(v, dim, first, first + indices.len(), 1);
    }
    shape[dim] = 1;
    let gather = Gather {
        offset_dims: (0..shape.len()).filter(|&d| d != dim).collect(),
        collapsed_slice_dims: [dim].into_iter().collect(),
        start_index_map: [dim].into_iter().collect(),
        index_vector_dim: 1,
        slice_sizes: shape,
        ..Gather::default()
    };
    let at = constant(b, DType::I64, &[indices.len(), 1], indices.iter().map(|&i| Number::Int(i as i64)))?;
    b.gather(v, at, gather)
}

/// Dimension `dim` split in two: one row per result position, holding the elements it reads; `fill` where a row is
/// shorter than the longest.
pub(super) fn rows(b: &Builder, v: ValueId, dim: usize, positions: &[Vec<usize>], fill: Number) -> Result<ValueId> {
    let longest = positions.iter().map(Vec::len).max().unwrap_or(0);
    let mut shape = b.shape(v);
    ensure!(dim < shape.len(), "dimension {dim} of a {}-d tensor", shape.len());
    shape[dim] = positions.len();
    shape.insert(dim + 1, longest);
    if shape.contains(&0) {
        return b.full(fill, b.dtype(v), &shape);
    }
    let padded = |row: &Vec<usize>| -> Vec<usize> { (0..longest).map(|i| row.get(i).copied().unwrap_or(0)).collect() };
    let indices: Vec<usize> = positions.iter().flat_map(padded).collect();
    let taken = b.reshape(take(b, v, dim, &indices)?, &shape)?;
    if positions.iter().all(|row| row.len() == longest) {
        return Ok(taken);
    }
    let present = positions.iter().flat_map(|row| (0..longest).map(move |i| Number::Bool(i < row.len())));
    let present = constant(b, DType::Bool, &[positions.len(), longest], present)?;
    let present = b.broadcast_in_dim(present, &shape, &[dim, dim + 1])?;
    b.select(present, taken, b.full_like(taken, fill)?)
}

/// The weighted sums along `dim`; `v` is of its accumulation type.
pub(super) fn resample(b: &Builder, v: ValueId, dim: usize, taps: &Taps) -> Result<ValueId> {
    if let Some(repeats) = repeats(taps, b.shape(v)[dim]) {
        return repeat(b, v, dim, repeats);
    }
    let positions: Vec<Vec<usize>> = taps.iter().map(|row| row.iter().map(|t| t.0).collect()).collect();
    let rows = rows(b, v, dim, &positions, Number::Float(0.0))?;
    let longest = b.shape(rows)[dim + 1];
    let plain = taps.iter().flatten().all(|t| t.1 == 1.0);
    let weighted = match plain || longest == 0 {
        true => rows,
        false => {
            let weight = |row: &Vec<(usize, f64)>, i: usize| Number::Float(row.get(i).map_or(0.0, |t| t.1));
            let weights = taps.iter().flat_map(|row| (0..longest).map(move |i| weight(row, i)));
            let weights = constant(b, b.dtype(v), &[taps.len(), longest], weights)?;
            b.multiply(rows, b.broadcast_in_dim(weights, &b.shape(rows), &[dim, dim + 1])?)?
        }
    };
    b.reduce(weighted, Reducer::Add, &[dim + 1])
}

/// How often each source position is repeated, if that is all the taps do.
fn repeats(taps: &Taps, extent: usize) -> Option<usize> {
    let times = (extent > 0 && taps.len().is_multiple_of(extent)).then(|| taps.len() / extent)?;
    let plain = taps.iter().enumerate().all(|(i, row)| row[..] == [(i / times.max(1), 1.0)]);
    (times > 0 && plain).then_some(times)
}

fn repeat(b: &Builder, v: ValueId, dim: usize, times: usize) -> Result<ValueId> {
    let mut wide: Shape = b.shape(v);
    let mut joined = wide.clone();
    joined[dim] *= times;
    wide.insert(dim + 1, times);
    let dims: Dims = (0..wide.len()).filter(|&d| d != dim + 1).collect();
    b.reshape(b.broadcast_in_dim(v, &wide, &dims)?, &joined)
}
