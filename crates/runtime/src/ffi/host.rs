//! Host memory that a plugin reads from or works in.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::any::Any;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use super::buffer::RawBuffer;
use super::client::{HostSource, RawClient};
use super::event::Event;
use super::sys;
use crate::error::{Error, Result};
use crate::types::TensorType;

/// Alignment, in bytes, at which XLA's CPU client uses host memory in place. Anything less is copied.
pub const HOST_ALIGNMENT: usize = 64;

/// Zero-initialised host memory, aligned so that a CPU plugin can use it in place.
pub struct AlignedBytes {
    ptr: NonNull<u8>,
    len: usize,
}

// SAFETY: owns plain bytes, like a `Box<[u8]>`.
unsafe impl Send for AlignedBytes {}
// SAFETY: as above.
unsafe impl Sync for AlignedBytes {}

impl AlignedBytes {
    /// `len` zero bytes. An allocation that fails aborts, as it does in `Vec`.
    ///
    /// # Errors
    /// When `len` exceeds what an allocation can hold.
    pub fn zeroed(len: usize) -> Result<Self> {
        let layout = Layout::from_size_align(len, HOST_ALIGNMENT)
            .map_err(|_| Error::Invalid(format!("{len} bytes are more than an allocation can hold")))?;
        if len == 0 {
            return Ok(AlignedBytes { ptr: dangling(), len });
        }
        // SAFETY: the layout is not empty.
        let ptr = NonNull::new(unsafe { alloc_zeroed(layout) }).unwrap_or_else(|| handle_alloc_error(layout));
        Ok(AlignedBytes { ptr, len })
    }

    /// A copy of `bytes`.
    ///
    /// # Errors
    /// As [`AlignedBytes::zeroed`].
    pub fn copy_of(bytes: &[u8]) -> Result<Self> {
        let mut copy = AlignedBytes::zeroed(bytes.len())?;
        copy.copy_from_slice(bytes);
        Ok(copy)
    }
}

/// An aligned address for memory of no size.
fn dangling() -> NonNull<u8> {
    #[repr(align(64))]
    struct Aligned;
    const { assert!(align_of::<Aligned>() == HOST_ALIGNMENT) };
    NonNull::<Aligned>::dangling().cast()
}

impl Deref for AlignedBytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `len` initialised bytes, owned.
        unsafe { std::slice::from_raw_parts(self.ptr.as_ptr(), self.len) }
    }
}

impl DerefMut for AlignedBytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: `len` initialised bytes, owned and borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.ptr.as_ptr(), self.len) }
    }
}

impl Drop for AlignedBytes {
    fn drop(&mut self) {
        if self.len == 0 {
            return;
        }
        if let Ok(layout) = Layout::from_size_align(self.len, HOST_ALIGNMENT) {
            // SAFETY: allocated with this layout in `zeroed`.
            unsafe { dealloc(self.ptr.as_ptr(), layout) };
        }
    }
}

impl std::fmt::Debug for AlignedBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AlignedBytes({} bytes)", self.len)
    }
}

/// What a plugin may do with host memory that it uses in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostAccess {
    /// Read it while the buffer lives. The buffer may be donated, and is then copied by the plugin first.
    ReadOnly,
    /// Also write to it, when the buffer is donated: an output may then appear in this very memory.
    ReadWrite,
}

/// A stretch of host memory with an owner that keeps it alive. The runtime holds the owner until the plugin no longer
/// uses the memory; the owner may then be dropped on any thread, a plugin's included.
pub struct HostMemory {
    ptr: NonNull<u8>,
    len: usize,
    access: HostAccess,
    owner: Arc<dyn Any + Send + Sync>,
}

// SAFETY: a promise of `from_raw`, and true of `AlignedBytes`.
unsafe impl Send for HostMemory {}
// SAFETY: as above.
unsafe impl Sync for HostMemory {}

impl HostMemory {
    /// Memory that somebody else manages.
    ///
    /// # Safety
    /// - `ptr` points to `len` initialised bytes that stay allocated while `owner` is held.
    /// - While a plugin may execute with the buffer, nobody writes to the bytes; with [`HostAccess::ReadWrite`] nobody
    ///   reads them either from the donation until its outputs are ready.
    pub unsafe fn from_raw(
        ptr: *mut u8,
        len: usize,
        access: HostAccess,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> HostMemory {
        let ptr = if len == 0 { dangling() } else { NonNull::new(ptr).unwrap_or(dangling()) };
        HostMemory { ptr, len, access, owner }
    }

    /// Memory shared with others, who only read it.
    pub fn shared(bytes: Arc<AlignedBytes>) -> HostMemory {
        HostMemory { ptr: bytes.ptr, len: bytes.len, access: HostAccess::ReadOnly, owner: bytes }
    }

    /// The same memory once more, under the same promises and the same owner.
    #[must_use]
    pub fn share(&self) -> HostMemory {
        HostMemory { ptr: self.ptr, len: self.len, access: self.access, owner: Arc::clone(&self.owner) }
    }

    /// Its size in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether a CPU plugin can use it in place: aligned to [`HOST_ALIGNMENT`] and not empty.
    pub fn is_aligned(&self) -> bool {
        self.len > 0 && self.ptr.as_ptr().addr().is_multiple_of(HOST_ALIGNMENT)
    }

    /// Address of its first byte.
    pub fn address(&self) -> usize {
        self.ptr.as_ptr().addr()
    }

    /// Its bytes, for a plugin that takes a copy.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the constructor's promise; nobody writes while the runtime reads.
        unsafe { std::slice::from_raw_parts(self.ptr.as_ptr(), self.len) }
    }
}

impl From<AlignedBytes> for HostMemory {
    /// Memory given up to the runtime, which may therefore also write to it.
    fn from(bytes: AlignedBytes) -> Self {
        let (ptr, len) = (bytes.ptr, bytes.len);
        HostMemory { ptr, len, access: HostAccess::ReadWrite, owner: Arc::new(bytes) }
    }
}

impl std::fmt::Debug for HostMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HostMemory({} bytes, {:?})", self.len, self.access)
    }
}

/// Keeps host memory alive for a plugin. Dropped after the buffer, it passes the owner on to the plugin's event if
/// something (an execution in flight, an output that took the memory over) still uses it.
pub(crate) struct HostHold(Option<(Event, Arc<dyn Any + Send + Sync>)>);

impl Drop for HostHold {
    fn drop(&mut self) {
        if let Some((event, owner)) = self.0.take() {
            event.release_when_ready(Box::new(owner));
        }
    }
}

impl RawClient {
    /// Copies `bytes` to a device; they are free when this returns.
    pub(crate) fn buffer_by_copy(
        self: &Arc<Self>,
        device: usize,
        bytes: &[u8],
        ty: &TensorType,
        byte_strides: Option<&[i64]>,
    ) -> Result<RawBuffer> {
        check_extent(bytes.len(), ty, byte_strides)?;
        let data = if bytes.is_empty() { dangling().as_ptr() } else { bytes.as_ptr().cast_mut() };
        let source =
            HostSource { data, ty, byte_strides, semantics: sys::PJRT_HostBufferSemantics_kImmutableOnlyDuringCall };
        // SAFETY: the strides stay within `bytes`, which is borrowed for the call, and the plugin keeps no reference.
        Ok(unsafe { self.buffer_from_host(device, &source) }?.0)
    }

    /// Lends `memory` to a device, in place where the plugin can; the hold must outlive the buffer.
    pub(crate) fn buffer_in_place(
        self: &Arc<Self>,
        device: usize,
        memory: HostMemory,
        ty: &TensorType,
    ) -> Result<(RawBuffer, HostHold)> {
        check_extent(memory.len, ty, None)?;
        let semantics = match memory.access {
            HostAccess::ReadOnly => sys::PJRT_HostBufferSemantics_kImmutableZeroCopy,
            HostAccess::ReadWrite => sys::PJRT_HostBufferSemantics_kMutableZeroCopy,
        };
        self.lend(device, memory, ty, None, semantics)
    }

    /// Copies `memory` to a device after this returns; the hold must outlive the buffer.
    pub(crate) fn buffer_by_transfer(
        self: &Arc<Self>,
        device: usize,
        memory: HostMemory,
        ty: &TensorType,
        byte_strides: Option<&[i64]>,
    ) -> Result<(RawBuffer, HostHold)> {
        check_extent(memory.len, ty, byte_strides)?;
        let semantics = sys::PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes;
        self.lend(device, memory, ty, byte_strides, semantics)
    }

    fn lend(
        self: &Arc<Self>,
        device: usize,
        memory: HostMemory,
        ty: &TensorType,
        byte_strides: Option<&[i64]>,
        semantics: i32,
    ) -> Result<(RawBuffer, HostHold)> {
        let source = HostSource { data: memory.ptr.as_ptr(), ty, byte_strides, semantics };
        // SAFETY: the caller checked the extent, and the owner is held until the event says that the plugin is done.
        let (buffer, event) = match unsafe { self.buffer_from_host(device, &source) } {
            Ok(made) => made,
            Err(error) => {
                if matches!(error, Error::BadResult { .. }) {
                    // Who uses the memory is then unknown: leaking it is the safe answer.
                    std::mem::forget(memory.owner);
                }
                return Err(error);
            }
        };
        Ok((buffer, HostHold(Some((event, memory.owner)))))
    }
}

/// Checks that a tensor of type `ty` laid out by `byte_strides` (dense if none) fits `len` bytes.
fn check_extent(len: usize, ty: &TensorType, byte_strides: Option<&[i64]>) -> Result<()> {
    let dense = ty.host_size_in_bytes()?;
    let Some(strides) = byte_strides else {
        if len != dense {
            return Err(Error::Invalid(format!("{ty} takes {dense} bytes, got {len}")));
        }
        return Ok(());
    };
    if strides.len() != ty.dims.len() {
        return Err(Error::Invalid(format!("{ty} takes {} strides, got {}", ty.dims.len(), strides.len())));
    }
    if dense == 0 {
        return Ok(());
    }
    let overflow = || Error::Invalid(format!("strides {strides:?} of {ty} overflow"));
    let mut end = ty.element_type.host_bytes();
    for (&dim, &stride) in ty.dims.iter().zip(strides) {
        let stride =
            usize::try_from(stride).map_err(|_| Error::Invalid(format!("strides {strides:?} of {ty} are negative")))?;
        let span = stride.checked_mul(dim as usize - 1).ok_or_else(overflow)?;
        end = end.checked_add(span).ok_or_else(overflow)?;
    }
    if end > len {
        return Err(Error::Invalid(format!("strides {strides:?} of {ty} reach {end} bytes far, got {len}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::ElementType;

    #[test]
    fn aligned_bytes_are_aligned_and_zero() {
        for len in [0, 1, 63, 64, 65, 4096] {
            let bytes = AlignedBytes::zeroed(len).expect("allocates");
            assert!(bytes.as_ptr().addr().is_multiple_of(HOST_ALIGNMENT));
            assert!(bytes.iter().all(|&byte| byte == 0) && bytes.len() == len);
        }
        assert!(AlignedBytes::zeroed(usize::MAX).is_err());
    }

    #[test]
    fn extents_outside_the_memory_are_refused() {
        let ty = TensorType::new(ElementType::F32, [2, 3]);
        let check = |len, strides: Option<&[i64]>| check_extent(len, &ty, strides).map_err(|error| error.to_string());
        assert_eq!(check(24, None), Ok(()));
        assert_eq!(check(23, None), Err("f32[2,3] takes 24 bytes, got 23".to_owned()));
        assert_eq!(check(24, Some(&[4, 8])), Ok(()));
        assert_eq!(check(4, Some(&[0, 0])), Ok(()));
        assert_eq!(check(24, Some(&[4])), Err("f32[2,3] takes 2 strides, got 1".to_owned()));
        assert_eq!(check(24, Some(&[8, 8])), Err("strides [8, 8] of f32[2,3] reach 28 bytes far, got 24".to_owned()));
        assert!(check(24, Some(&[-12, 4])).is_err());
        assert!(check(24, Some(&[i64::MAX, i64::MAX])).is_err());
        let empty = TensorType::new(ElementType::F32, [0, 3]);
        assert!(check_extent(0, &empty, Some(&[12, 4])).is_ok());
    }
}
