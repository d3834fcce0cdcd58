//! Gather and scatter.

use super::element::{Domain, coordinates, in_domain, indices, moved, numbers, of_width, rounded, stored, words};
use super::reduce::combine;
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

/// Splits a position by whether its dimensions are in `dims`.
fn split(position: &[usize], dims: &[usize]) -> (Vec<usize>, Vec<usize>) {
    let pairs = position.iter().enumerate();
    let (inside, outside): (Vec<_>, Vec<_>) = pairs.partition(|(d, _)| dims.contains(d));
    let values = |v: Vec<(usize, &usize)>| v.into_iter().map(|(_, &i)| i).collect();
    (values(inside), values(outside))
}

/// Dimensions below `rank` in neither list.
fn others(rank: usize, a: &[usize], b: &[usize]) -> Vec<usize> {
    (0..rank).filter(|d| !a.contains(d) && !b.contains(d)).collect()
}

/// Windows of `a` at the clamped starts; `shape` is the result's.
pub(super) fn gather(g: &Gather, a: &Literal, start_indices: &Literal, shape: &[usize]) -> Result<Literal> {
    let starts = Starts {
        indices: indices(start_indices)?,
        vector_dim: g.index_vector_dim,
        map: &g.start_index_map,
        batching: (&g.operand_batching_dims, &g.start_indices_batching_dims),
    };
    let window_dims = others(a.ty.rank(), &g.collapsed_slice_dims, &g.operand_batching_dims);
    of_width!(a.ty.dtype, N => {
        let operand = words::<N>(a)?;
        let result = ArrayD::from_shape_fn(IxDyn(shape), |position| {
            let (offset, batch) = split(coordinates(&position), &g.offset_dims);
            let start = starts.at(&batch, a.ty.rank());
            let clamp = |d: usize| clamped(start[d], a.ty.shape[d], g.slice_sizes[d]);
            let mut index: Vec<usize> = (0..start.len()).map(clamp).collect();
            window_dims.iter().zip(offset).for_each(|(&d, o)| index[d] += o);
            operand[IxDyn(&index)]
        });
        Ok(moved(result.view(), a.ty.dtype))
    })
}

/// `a` with `updates` combined in at the starts; windows that do not fit are skipped.
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
    rounded(combine(reducer, old, new), dtype)
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
    let mut sizes = vec![1; extents.len()];
    let mut update_windows: Vec<usize> = s.update_window_dims.to_vec();
    update_windows.sort_unstable();
    window_dims.iter().zip(&update_windows).for_each(|(&d, &u)| sizes[d] = updates.shape()[u]);
    for (position, &update) in updates.indexed_iter() {
        let (offset, batch) = split(coordinates(&position), &s.update_window_dims);
        let start = starts.at(&batch, extents.len());
        let fits = |d: usize| start[d] >= 0 && start[d] + sizes[d] as i128 <= extents[d] as i128;
        if !(0..extents.len()).all(fits) {
            continue;
        }
        let mut index: Vec<usize> = start.iter().map(|&i| i as usize).collect();
        window_dims.iter().zip(offset).for_each(|(&d, o)| index[d] += o);
        let place = &mut result[IxDyn(&index)];
        *place = f(*place, update);
    }
    Ok(())
}
