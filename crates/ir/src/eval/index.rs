//! Gather and scatter.

use super::element::{Domain, coordinates, in_domain, indices, moved, numbers, of_width, shaped, stored, words};
use super::reduce::{combine, steps};
use super::shape::clamped;
use crate::dtype::DType;
use crate::error::Result;
use crate::literal::Literal;
use crate::op::{Combiner, Gather, Scatter};
use ndarray::{ArrayD, IxDyn};

/// Where windows start in an operand: index vectors, and how positions of the batch map to dimensions.
struct Starts<'a> {
    indices: ArrayD<i128>,
    vector_dim: usize,
    /// Operand dimension of each component.
    map: &'a [usize],
    /// Operand dimensions that follow a dimension of the indices, and that dimension.
    batching: (&'a [usize], &'a [usize]),
}

impl Starts<'_> {
    /// Start of the window that `batch`, a position among the indices' dimensions but the vector's, asks for.
    fn at(&self, batch: &[usize], rank: usize) -> Vec<i128> {
        let mut position: Vec<usize> = batch.to_vec();
        let has_vector = self.vector_dim < self.indices.ndim();
        if has_vector {
            position.insert(self.vector_dim, 0);
        }
        let mut start = vec![0; rank];
        for (&d, &i) in self.batching.0.iter().zip(self.batching.1) {
            start[d] = position[i] as i128;
        }
        for (component, &d) in self.map.iter().enumerate() {
            if has_vector {
                position[self.vector_dim] = component;
            }
            start[d] = self.indices[IxDyn(&position)];
        }
        start
    }
}

/// Dimensions below `rank` in neither list.
fn others(rank: usize, a: &[usize], b: &[usize]) -> Vec<usize> {
    (0..rank).filter(|d| !a.contains(d) && !b.contains(d)).collect()
}

/// All positions in `shape`, in order.
fn positions(shape: &[usize]) -> impl Iterator<Item = Vec<usize>> + use<> {
    ndarray::indices(IxDyn(shape)).into_iter().map(|position| coordinates(&position).to_vec())
}

/// The row-major place of `position` along `dims`, whose steps are `steps`.
fn place(position: &[usize], dims: &[usize], steps: &[usize]) -> usize {
    position.iter().zip(dims).map(|(p, &d)| p * steps[d]).sum()
}

/// Windows of one tensor that lie on another: the places of their elements in both, from where they begin.
struct Windows {
    /// Where each batch begins in the tensor that holds all windows, and its position.
    batches: Vec<(usize, Vec<usize>)>,
    /// Of an element of a window, the places among the windows and in the tensor below.
    elements: Vec<(usize, usize)>,
}

impl Windows {
    /// Of `all`, whose dimensions `offset_dims` are the windows', on the dimensions `window_dims` of `below`.
    fn of(all: &[usize], offset_dims: &[usize], below: &[usize], window_dims: &[usize]) -> Windows {
        let (all_steps, below_steps) = (steps(all), steps(below));
        let batch_dims = others(all.len(), offset_dims, &[]);
        let extents = |dims: &[usize]| dims.iter().map(|&d| all[d]).collect::<Vec<_>>();
        let batches = positions(&extents(&batch_dims)).map(|b| (place(&b, &batch_dims, &all_steps), b));
        let elements = positions(&extents(offset_dims))
            .map(|o| (place(&o, offset_dims, &all_steps), place(&o, window_dims, &below_steps)));
        Windows { batches: batches.collect(), elements: elements.collect() }
    }
}

/// Windows of `a` at the clamped starts; `shape` is the result's.
pub(super) fn gather(g: &Gather, a: &Literal, start_indices: &Literal, shape: &[usize]) -> Result<Literal> {
    let starts = Starts {
        indices: indices(start_indices)?,
        vector_dim: g.index_vector_dim,
        map: &g.start_index_map,
        batching: (&g.operand_batching_dims, &g.start_indices_batching_dims),
    };
    let extents = &a.ty.shape;
    let window_dims = others(extents.len(), &g.collapsed_slice_dims, &g.operand_batching_dims);
    let windows = Windows::of(shape, &g.offset_dims, extents, &window_dims);
    let every: Vec<usize> = (0..extents.len()).collect();
    let step = steps(extents);
    of_width!(a.ty.dtype, N => {
        let operand = words::<N>(a)?.into_raw_vec_and_offset().0;
        let mut result = vec![[0; N]; shape.iter().product()];
        if result.is_empty() {
            return Ok(moved(shaped(shape, result)?.view(), a.ty.dtype));
        }
        for (to, batch) in &windows.batches {
            let start = starts.at(batch, extents.len());
            let start: Vec<usize> = every.iter().map(|&d| clamped(start[d], extents[d], g.slice_sizes[d])).collect();
            let from = place(&start, &every, &step);
            windows.elements.iter().for_each(|(there, here)| result[to + there] = operand[from + here]);
        }
        Ok(moved(shaped(shape, result)?.view(), a.ty.dtype))
    })
}

/// `a` with `updates` combined in at the starts, one window after the other; windows that do not fit are skipped.
pub(super) fn scatter(s: &Scatter, a: &Literal, scatter_indices: &Literal, updates: &Literal) -> Result<Literal> {
    let dtype = a.ty.dtype;
    if s.combiner == Combiner::Set {
        return of_width!(dtype, N => {
            let (mut result, updates) = (words::<N>(a)?, words::<N>(updates)?);
            for_each_place(s, &mut result, scatter_indices, &updates, |_, new| new)?;
            Ok(moved(result.view(), dtype))
        });
    }
    in_domain!(dtype, T => {
        let (mut result, updates) = (numbers::<T>(a)?, numbers::<T>(updates)?);
        for_each_place(s, &mut result, scatter_indices, &updates, |old, new| apply(s.combiner, old, new, dtype))?;
        Ok(stored(result.view(), dtype))
    })
}

fn apply<T: Domain + super::reduce::Ordered>(c: Combiner, old: T, new: T, dtype: DType) -> T {
    let Some(reducer) = c.reducer() else { return new };
    combine(reducer, old, new).rounded(dtype)
}

fn for_each_place<T: Copy>(
    s: &Scatter,
    result: &mut ArrayD<T>,
    scatter_indices: &Literal,
    updates: &ArrayD<T>,
    f: impl Fn(T, T) -> T,
) -> Result<()> {
    let starts = Starts {
        indices: indices(scatter_indices)?,
        vector_dim: s.index_vector_dim,
        map: &s.scatter_dims_to_operand_dims,
        batching: (&s.input_batching_dims, &s.scatter_indices_batching_dims),
    };
    let extents = result.shape().to_vec();
    let window_dims = others(extents.len(), &s.inserted_window_dims, &s.input_batching_dims);
    let mut update_windows: Vec<usize> = s.update_window_dims.to_vec();
    update_windows.sort_unstable();
    let mut sizes = vec![1; extents.len()];
    window_dims.iter().zip(&update_windows).for_each(|(&d, &u)| sizes[d] = updates.shape()[u]);
    let windows = Windows::of(updates.shape(), &update_windows, &extents, &window_dims);
    let every: Vec<usize> = (0..extents.len()).collect();
    let step = steps(&extents);
    let lost = || crate::error::Error::internal("elements that do not lie one after the other");
    let (result, updates) = (result.as_slice_mut().ok_or_else(lost)?, updates.as_slice().ok_or_else(lost)?);
    for (from, batch) in &windows.batches {
        let start = starts.at(batch, extents.len());
        let fits = |&d: &usize| start[d] >= 0 && start[d] + sizes[d] as i128 <= extents[d] as i128;
        if !every.iter().all(fits) {
            continue;
        }
        let start: Vec<usize> = start.iter().map(|&i| i as usize).collect();
        let to = place(&start, &every, &step);
        for (there, here) in &windows.elements {
            let old = &mut result[to + here];
            *old = f(*old, updates[from + there]);
        }
    }
    Ok(())
}
