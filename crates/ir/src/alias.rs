//! The alias model: what PyTorch's storages, views and in-place writes mean over immutable values.
//!
//! A *cell* stands for a storage. It holds the value last written, in the logical shape it was created with, and the
//! layout that value has in the storage. A tensor of the trace, [`TensorId`], is a strided [`Layout`] over a cell. Reading
//! a tensor turns its layout into slices, transposes, reshapes and broadcasts of the cell's value; writing one makes the
//! cell's next value. Nothing here is specific to traces: eager tensors use the same model.

use crate::types::Shape;
use smallvec::SmallVec;

/// Steps in elements, one per dimension. PyTorch has no negative ones.
pub type Strides = SmallVec<[usize; 6]>;

/// Where a tensor's elements lie in its storage, counted in elements.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    /// Extents.
    pub sizes: Shape,
    /// Step per dimension; 0 repeats (an expanded dimension).
    pub strides: Strides,
    /// Position of the first element.
    pub offset: usize,
}

/// A tensor of the traced program: a view of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TensorId(u32);

impl Layout {
    /// Row-major, from the start of the storage.
    pub fn contiguous(sizes: impl Into<Shape>) -> Layout {
        let sizes = sizes.into();
        let mut strides: Strides = sizes.iter().map(|_| 1).collect();
        for i in (1..sizes.len()).rev() {
            strides[i - 1] = strides[i].saturating_mul(sizes[i].max(1));
        }
        Layout { sizes, strides, offset: 0 }
    }
}
