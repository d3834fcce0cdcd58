//! Types of values: tensors of a static shape, and tuples of them.

use crate::dtype::DType;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::fmt;

/// The extents of a tensor, outermost dimension first. Empty for a 0-d tensor.
pub type Shape = SmallVec<[usize; 6]>;
/// Dimension numbers, as attributes of core ops hold them.
pub type Dims = SmallVec<[usize; 6]>;

/// A tensor's element type and extents.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TensorType {
    /// Element type.
    pub dtype: DType,
    /// Extents, outermost first.
    pub shape: Shape,
}

/// The type of a node's value.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Type {
    /// One tensor.
    Tensor(TensorType),
    /// The results of a multi-result op; `get_tuple_element` projects them.
    Tuple(Vec<TensorType>),
}

impl TensorType {
    /// A type of `dtype` and `shape`.
    pub fn new(dtype: DType, shape: impl IntoIterator<Item = usize>) -> TensorType {
        TensorType { dtype, shape: shape.into_iter().collect() }
    }
    /// The number of dimensions.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }
    /// The number of elements; `None` if it does not fit `usize`.
    pub fn checked_numel(&self) -> Option<usize> {
        if self.shape.contains(&0) {
            return Some(0);
        }
        self.shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d))
    }
    /// The number of elements. Inference has refused any type for which this overflows.
    pub fn numel(&self) -> usize {
        self.checked_numel().unwrap_or(usize::MAX)
    }
    /// Bytes in host memory, dense.
    pub fn size_in_bytes(&self) -> usize {
        self.numel().saturating_mul(self.dtype.size())
    }
}

impl Type {
    /// All its tensors.
    pub fn tensors(&self) -> &[TensorType] {
        match self {
            Type::Tensor(t) => std::slice::from_ref(t),
            Type::Tuple(ts) => ts,
        }
    }
    /// The tensor type, if this is one tensor.
    pub fn tensor(&self) -> Option<&TensorType> {
        match self {
            Type::Tensor(t) => Some(t),
            Type::Tuple(_) => None,
        }
    }
}

impl From<TensorType> for Type {
    fn from(t: TensorType) -> Type {
        Type::Tensor(t)
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[", self.dtype)?;
        for (i, d) in self.shape.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            write!(f, "{comma}{d}")?;
        }
        f.write_str("]")
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Tensor(t) => t.fmt(f),
            Type::Tuple(ts) => {
                f.write_str("(")?;
                for (i, t) in ts.iter().enumerate() {
                    let comma = if i == 0 { "" } else { ", " };
                    write!(f, "{comma}{t}")?;
                }
                f.write_str(")")
            }
        }
    }
}
