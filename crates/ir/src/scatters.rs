//! Scatters as loops over what lies in memory, which is how the host takes them.

use crate::alias::Layout;
use crate::dtype::DType;
use crate::op::{Reducer, Scatter};
use crate::types::{Shape, TensorType};
use hostcall::Places;

impl Scatter {
    /// What it is to the host, if the host has it: of single elements along one dimension, in batches, of a type that is combined there
    /// or moved. The operands fit each other, as inference asks.
    pub fn hosted(&self, a: &TensorType, indices: &TensorType, updates: &TensorType) -> Option<hostcall::Scatter> {
        let of = self.combiner.reducer().and_then(Reducer::hosted);
        let known = match a.dtype {
            DType::F32 | DType::F64 | DType::I32 | DType::I64 => true,
            DType::Bool | DType::F16 | DType::BF16 => of.is_none(),
            _ => false,
        };
        let &[dim] = &self.scatter_dims_to_operand_dims[..] else { return None };
        let fits = known
            && matches!(indices.dtype, DType::I32 | DType::I64)
            && self.update_window_dims.is_empty()
            && !self.input_batching_dims.is_empty();
        let places = self.places(a, indices, updates);
        fits.then(|| hostcall::Scatter { of, stride: strides(a)[dim], count: a.shape[dim], places })
    }

    fn places(&self, a: &TensorType, indices: &TensorType, updates: &TensorType) -> Vec<Places> {
        let [of_a, of_indices, of_updates] = [a, indices, updates].map(strides);
        let place = |(u, i): (usize, usize)| {
            let batch = self.scatter_indices_batching_dims.iter().position(|&d| d == i);
            let operand = batch.map_or(0, |k| of_a[self.input_batching_dims[k]]);
            Places { size: updates.shape[u], updates: of_updates[u], indices: of_indices[i], operand }
        };
        let of_index = (0..indices.rank()).filter(|&d| d != self.index_vector_dim);
        (0..updates.rank()).zip(of_index).map(place).collect()
    }
}

fn strides(ty: &TensorType) -> Shape {
    Layout::contiguous(ty.shape.clone()).strides
}
