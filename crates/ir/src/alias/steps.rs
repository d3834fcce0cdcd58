//! Applying the steps of a plan: forwards to read a view, backwards to write through it.

use super::Layout;
use super::plan::{Step, steps_of};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::{Operands, ValueId};
use crate::literal::Number;
use crate::op::{Combiner, Gather, Op, Scatter, SignedDims};
use crate::overwrite::reads_other_elements;
use crate::types::{Dims, Shape};

/// How the start of a slice goes into the program.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Starts {
    /// As a constant.
    Constants,
    /// As a hidden input, so that one program serves all positions.
    Inputs,
}

/// The view's value, from the cell's.
pub(super) fn read(b: &Builder, steps: &[Step], base: ValueId, starts: Starts) -> Result<ValueId> {
    steps.iter().try_fold(base, |v, step| step.forwards(b, v, starts))
}

/// The cell's next value, when `value` is written through the view.
pub(super) fn write(b: &Builder, steps: &[Step], base: ValueId, value: ValueId, starts: Starts) -> Result<ValueId> {
    // What lies beside the view is needed up to the last step that leaves something out.
    let kept = steps.iter().rposition(Step::leaves_out).map_or(0, |i| i + 1);
    let mut before = vec![base];
    for step in &steps[..kept.saturating_sub(1)] {
        before.push(step.forwards(b, before[before.len() - 1], starts)?);
    }
    let mut value = value;
    for (i, step) in steps.iter().enumerate().rev() {
        value = step.backwards(b, before.get(i).copied(), value, starts)?;
    }
    Ok(value)
}

impl Step {
    /// Whether elements from before the step survive a write behind it.
    fn leaves_out(&self) -> bool {
        matches!(self, Step::Empty { .. } | Step::Slice { .. } | Step::Gather(_))
    }

    fn forwards(&self, b: &Builder, v: ValueId, starts: Starts) -> Result<ValueId> {
        match self {
            Step::Empty { shape, .. } => b.full(Number::Int(0), b.dtype(v), shape),
            Step::Transpose(permutation) => b.transpose(v, permutation),
            Step::Reshape { to, .. } => b.reshape(v, to),
            Step::Slice { from, start, limit, stride } => {
                if starts == Starts::Constants || stride.iter().any(|&s| s != 1) {
                    return b.slice(v, start, limit, stride);
                }
                let sizes: Shape = start.iter().zip(limit).map(|(s, l)| l - s).collect();
                let mut operands = Operands::from_slice(&[v]);
                for d in 0..from.len() {
                    operands.push(position(b, starts, start[d], sizes[d] == from[d])?);
                }
                b.push(Op::DynamicSlice { sizes }, &operands, vec![])
            }
            Step::Extend { by, .. } => {
                let zeros: SignedDims = by.iter().map(|_| 0).collect();
                let high: SignedDims = by.iter().map(|&n| n as i64).collect();
                b.pad(v, b.scalar(Number::Int(0), b.dtype(v))?, &zeros, &high, &none(by.len()))
            }
            Step::Broadcast { shape, dims } => b.broadcast_in_dim(v, shape, dims),
            Step::Gather(view) => {
                let pick = Gather {
                    collapsed_slice_dims: Dims::from_slice(&[0]),
                    start_index_map: Dims::from_slice(&[0]),
                    index_vector_dim: view.sizes.len(),
                    slice_sizes: Shape::from_slice(&[1]),
                    ..Gather::default()
                };
                b.gather(v, places(b, view)?, pick)
            }
        }
    }

    /// The value before the step, when the one behind it becomes `v`. `before` is what it was, for a step that leaves
    /// something out.
    fn backwards(&self, b: &Builder, before: Option<ValueId>, v: ValueId, starts: Starts) -> Result<ValueId> {
        let before = || before.ok_or_else(|| crate::Error::internal("a partial write without what it is part of"));
        match self {
            Step::Empty { .. } => before(),
            Step::Transpose(permutation) => {
                let mut inverse = permutation.clone();
                permutation.iter().enumerate().for_each(|(i, &d)| inverse[d] = i);
                b.transpose(v, &inverse)
            }
            Step::Reshape { from, .. } => b.reshape(v, from),
            Step::Slice { from, start, limit, stride } if starts == Starts::Constants => {
                put(b, before()?, v, &Part { from, start, limit, stride })
            }
            Step::Slice { from, start, limit, stride } if stride.iter().all(|&s| s == 1) => {
                // An eager op has a storage's old value as an input of its own: nothing is known of it.
                let mut operands = Operands::from_slice(&[before()?, v]);
                for d in 0..from.len() {
                    operands.push(position(b, starts, start[d], limit[d] - start[d] == from[d])?);
                }
                b.push(Op::DynamicUpdateSlice, &operands, vec![])
            }
            Step::Slice { from, start, limit, stride } => update(b, before()?, v, &Part { from, start, limit, stride }),
            Step::Extend { from, .. } => b.slice(v, &none(from.len()), from, &ones(from.len())),
            Step::Broadcast { dims, .. } => {
                // A repeated place is never written, so all other dimensions have extent 1.
                let shape = b.shape(v);
                b.reshape(v, &dims.iter().map(|&d| shape[d]).collect::<Shape>())
            }
            Step::Gather(view) => {
                let put = Scatter {
                    combiner: Combiner::Set,
                    update_window_dims: Dims::new(),
                    inserted_window_dims: Dims::from_slice(&[0]),
                    input_batching_dims: Dims::new(),
                    scatter_indices_batching_dims: Dims::new(),
                    scatter_dims_to_operand_dims: Dims::from_slice(&[0]),
                    index_vector_dim: view.sizes.len(),
                    unique_indices: true,
                };
                b.scatter(before()?, places(b, view)?, v, put)
            }
        }
    }
}

/// The start of a slice in one dimension. Where the slice is the whole dimension there is only one.
fn position(b: &Builder, starts: Starts, start: usize, whole: bool) -> Result<ValueId> {
    match starts {
        Starts::Inputs if !whole => Ok(b.position_input(start)),
        _ => b.scalar(Number::Int(start as i64), DType::I64),
    }
}

/// Where a slice lies in a tensor of the shape `from`.
struct Part<'a> {
    from: &'a Shape,
    start: &'a Dims,
    limit: &'a Dims,
    stride: &'a Dims,
}

impl Part<'_> {
    /// What to pad the slice by, for its elements to be where they come from.
    fn around(&self) -> (SignedDims, SignedDims, Dims) {
        let low = self.start.iter().map(|&s| s as i64).collect();
        let high = (0..self.from.len())
            .map(|d| {
                let n = (self.limit[d] - self.start[d]).div_ceil(self.stride[d]);
                (self.from[d] - self.start[d] - ((n - 1) * self.stride[d] + 1)) as i64
            })
            .collect();
        (low, high, self.stride.iter().map(|&s| s - 1).collect())
    }
}

/// `before` with `v` in the place of a part, in the way that simplifies best.
fn put(b: &Builder, before: ValueId, v: ValueId, part: &Part<'_>) -> Result<ValueId> {
    if let Some(number) = fill(b, before) {
        let (low, high, interior) = part.around();
        return b.pad(v, number, &low, &high, &interior);
    }
    if part.stride.iter().any(|&s| s != 1) {
        return update(b, before, v, part);
    }
    if reads_other_elements(&b.graph(), before, v, part.start, part.limit) {
        let joined = joined(b, before, v, part)?;
        return joined.map_or_else(|| update(b, before, v, part), Ok);
    }
    let mut operands = Operands::from_slice(&[before, v]);
    for &start in part.start {
        operands.push(b.scalar(Number::Int(start as i64), DType::I64)?);
    }
    b.push(Op::DynamicUpdateSlice, &operands, vec![]) // XLA does it in place
}

/// The one number that all elements of `v` are, if it was made by filling.
fn fill(b: &Builder, v: ValueId) -> Option<ValueId> {
    let graph = b.graph();
    let mut v = v;
    loop {
        let node = graph.node(v);
        match &node.op {
            Op::BroadcastInDim { dims, .. } if dims.is_empty() => return Some(node.operands[0]),
            Op::Slice { .. } | Op::Reshape { .. } | Op::Transpose { .. } => v = node.operands[0],
            _ => return None,
        }
    }
}

/// `before` with `v` in the place of a part, as what lies before, `v`, and what lies behind: where `v` is a part of something
/// as it is, and only one dimension is not written whole. Joined parts of joined parts are simplified, as choices are not.
fn joined(b: &Builder, before: ValueId, v: ValueId, part: &Part<'_>) -> Result<Option<ValueId>> {
    let &Part { from, start, limit, .. } = part;
    let mut partial = (0..from.len()).filter(|&d| limit[d] - start[d] < from[d]);
    let (Some(dim), None) = (partial.next(), partial.next()) else { return Ok(None) };
    if !matches!(b.graph().node(v).op, Op::Slice { .. }) {
        return Ok(None);
    }
    let outside = |low: usize, high: usize| (low < high).then(|| b.slice_dim(before, dim, low, high, 1)).transpose();
    let parts = [outside(0, start[dim])?, Some(v), outside(limit[dim], from[dim])?];
    b.concatenate(&parts.into_iter().flatten().collect::<Vec<_>>(), dim).map(Some)
}

/// `before` with `v` in the place of a part, as a choice between the two.
fn update(b: &Builder, before: ValueId, v: ValueId, part: &Part<'_>) -> Result<ValueId> {
    let (low, high, interior) = part.around();
    let spread = b.pad(v, b.scalar(Number::Int(0), b.dtype(v))?, &low, &high, &interior)?;
    let here = b.full(Number::Bool(true), DType::Bool, &b.shape(v))?;
    let mask = b.pad(here, b.scalar(Number::Bool(false), DType::Bool)?, &low, &high, &interior)?;
    b.select(mask, spread, before)
}

/// The place of every element of `view`, in its shape.
fn places(b: &Builder, view: &Layout) -> Result<ValueId> {
    let sizes = &view.sizes[..];
    let mut places = b.full(Number::Int(view.offset as i64), DType::I64, sizes)?;
    for (dim, stride) in steps_of(view) {
        let count = b.iota(DType::I64, sizes, dim)?;
        let step = b.full(Number::Int(stride as i64), DType::I64, sizes)?;
        places = b.add(places, b.multiply(count, step)?)?;
    }
    Ok(places)
}

fn none(rank: usize) -> Dims {
    std::iter::repeat_n(0, rank).collect()
}

fn ones(rank: usize) -> Dims {
    std::iter::repeat_n(1, rank).collect()
}
