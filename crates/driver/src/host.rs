//! Host tensors on the way into a program and out of it.

use crate::error::{Error, Result};
use ir::{DType, Shape, TensorType};
use runtime::{ElementType, HostMemory, SharedMemory};
use smallvec::SmallVec;

/// Steps in elements, one per dimension.
pub type Strides = SmallVec<[usize; 6]>;

/// A tensor in the caller's memory, from its first element to its last.
pub struct HostTensor {
    /// The memory that spans all elements. Its address is that of the first one.
    pub memory: HostMemory,
    /// Element type.
    pub dtype: DType,
    /// Extents.
    pub shape: Shape,
    /// Steps in elements.
    pub strides: Strides,
}

impl HostTensor {
    /// The same tensor once more, in the same memory.
    #[must_use]
    pub fn share(&self) -> HostTensor {
        HostTensor {
            memory: self.memory.share(),
            dtype: self.dtype,
            shape: self.shape.clone(),
            strides: self.strides.clone(),
        }
    }

    /// A row-major tensor of type `ty` in `memory`.
    pub fn contiguous(ty: &TensorType, memory: HostMemory) -> HostTensor {
        let strides = ir::alias::Layout::contiguous(ty.shape.clone()).strides;
        HostTensor { memory, dtype: ty.dtype, shape: ty.shape.clone(), strides }
    }

    /// Dense and row-major. Extents of 1 may have any stride; an empty tensor too.
    pub fn is_contiguous(&self) -> bool {
        let mut expected = 1usize;
        let dense = self.shape.iter().zip(&self.strides).rev().all(|(&extent, &stride)| {
            let fits = extent == 1 || stride == expected;
            expected = expected.saturating_mul(extent);
            fits
        });
        dense || self.shape.contains(&0)
    }

    /// All elements, row-major.
    pub fn dense_bytes(&self) -> Vec<u8> {
        dense(self.memory.bytes(), self.dtype, &self.shape, &self.strides)
    }

    pub(crate) fn byte_strides(&self) -> SmallVec<[i64; 6]> {
        self.strides.iter().map(|&s| (s * self.dtype.size()) as i64).collect()
    }
}

/// Bytes from the first element of a tensor to the end of its last.
pub fn span_in_bytes(dtype: DType, shape: &[usize], strides: &[usize]) -> usize {
    if shape.contains(&0) {
        return 0;
    }
    let last: usize = shape.iter().zip(strides).map(|(&extent, &stride)| (extent - 1).saturating_mul(stride)).sum();
    last.saturating_add(1).saturating_mul(dtype.size())
}

/// An argument of a call.
pub enum Argument {
    /// A tensor.
    Tensor(HostTensor),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// Nothing: an input that is `None`.
    None,
}

/// A result of a call.
pub enum Value {
    /// A new tensor in the plugin's memory.
    Tensor(OutputTensor),
    /// The argument at this position itself.
    Argument(usize),
    /// The same tensor as the result at this earlier position.
    Result(usize),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// Nothing.
    None,
}

/// A tensor that the plugin owns until this is dropped.
pub struct OutputTensor {
    /// Its memory, ready to be read. Row-major in the order of rising strides.
    pub memory: SharedMemory,
    /// Element type.
    pub dtype: DType,
    /// Extents, as the user sees them.
    pub shape: Shape,
    /// Steps in elements.
    pub strides: Strides,
}

impl OutputTensor {
    /// All elements, row-major.
    ///
    /// # Errors
    /// When the plugin cannot copy them to the host.
    pub fn dense_bytes(&self) -> Result<Vec<u8>> {
        let bytes = self.memory.buffer().to_host().map_err(Error::Execute)?;
        Ok(dense(&bytes, self.dtype, &self.shape, &self.strides))
    }
}

/// Positions of a tensor's elements, in row-major order of its indices.
fn positions<'a>(shape: &'a [usize], strides: &'a [usize]) -> impl Iterator<Item = usize> + 'a {
    let count: usize = shape.iter().product();
    let mut index: SmallVec<[usize; 6]> = shape.iter().map(|_| 0).collect();
    (0..count).map(move |_| {
        let position = index.iter().zip(strides).map(|(i, s)| i * s).sum();
        for d in (0..shape.len()).rev() {
            index[d] += 1;
            if index[d] < shape[d] {
                break;
            }
            index[d] = 0;
        }
        position
    })
}

fn dense(bytes: &[u8], dtype: DType, shape: &[usize], strides: &[usize]) -> Vec<u8> {
    let width = dtype.size();
    let element = |p: usize| bytes.get(p * width..(p + 1) * width).unwrap_or_default();
    positions(shape, strides).flat_map(|p| element(p).iter().copied()).collect()
}

/// The plugin's name for an element type.
fn element_type(dtype: DType) -> ElementType {
    match dtype {
        DType::Bool => ElementType::Pred,
        DType::I8 => ElementType::S8,
        DType::I16 => ElementType::S16,
        DType::I32 => ElementType::S32,
        DType::I64 => ElementType::S64,
        DType::U8 => ElementType::U8,
        DType::U16 => ElementType::U16,
        DType::U32 => ElementType::U32,
        DType::U64 => ElementType::U64,
        DType::F8E4M3FN => ElementType::F8E4M3Fn,
        DType::F8E5M2 => ElementType::F8E5M2,
        DType::BF16 => ElementType::Bf16,
        DType::F16 => ElementType::F16,
        DType::F32 => ElementType::F32,
        DType::F64 => ElementType::F64,
        DType::C64 => ElementType::C64,
        DType::C128 => ElementType::C128,
    }
}

/// The plugin's form of a tensor type.
pub fn runtime_type(ty: &TensorType) -> runtime::TensorType {
    let dims: Vec<i64> = ty.shape.iter().map(|&d| d as i64).collect();
    runtime::TensorType::new(element_type(ty.dtype), dims)
}

/// Copies dense row-major `source` into the caller's tensor.
pub(crate) fn write_back(source: &[u8], target: &HostTensor) -> Result<()> {
    let width = target.dtype.size();
    let count: usize = target.shape.iter().product();
    let span = span_in_bytes(target.dtype, &target.shape, &target.strides);
    if source.len() != count * width || target.memory.len() < span {
        return Err(Error::Argument("a mutated argument does not fit the value written to it".to_owned()));
    }
    if target.is_contiguous() {
        copy_to(source, target.memory.address());
        return Ok(());
    }
    for (element, position) in source.chunks_exact(width).zip(positions(&target.shape, &target.strides)) {
        copy_to(element, target.memory.address() + position * width);
    }
    Ok(())
}

/// The only write into memory that the caller lent: [`write_back`] has checked that it lies inside.
#[allow(unsafe_code)]
fn copy_to(source: &[u8], address: usize) {
    // SAFETY: whoever made the `HostMemory` promised that it is valid and, for an argument the program mutates, that
    // nobody else touches it during the call; `write_back` keeps within its length.
    unsafe { std::ptr::copy_nonoverlapping(source.as_ptr(), address as *mut u8, source.len()) }
}
