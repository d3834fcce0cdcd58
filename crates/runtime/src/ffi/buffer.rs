//! A plugin's buffer: one tensor on one device.

use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::sync::{Arc, OnceLock};

use super::api::Nested;
use super::client::{RawClient, not_null};
use super::event::Event;
use super::host::AlignedBytes;
use super::sys::{self, PJRT_Buffer, PJRT_Buffer_MemoryLayout, Zeroable};
use super::table::Args;
use crate::error::{Error, Result};
use crate::types::TensorType;

/// An owned buffer.
pub(crate) struct RawBuffer {
    pub(super) ptr: NonNull<PJRT_Buffer>,
    pub(super) client: Arc<RawClient>,
    /// The execution that it was donated to.
    taken_by: OnceLock<Arc<Event>>,
}

// SAFETY: PJRT buffers may be used from any thread.
unsafe impl Send for RawBuffer {}
// SAFETY: PJRT buffers are internally synchronised; external references are taken under a lock of ours.
unsafe impl Sync for RawBuffer {}

/// Calls a function that takes nothing but the buffer, and returns its filled arguments.
macro_rules! query {
    ($buffer:expr, $args:ident) => {
        // SAFETY: the buffer is alive, and the function takes no other pointer.
        unsafe { $buffer.client.api.call(sys::$args { buffer: $buffer.ptr.as_ptr(), ..Zeroable::zeroed() }) }
    };
}

impl RawBuffer {
    /// Takes ownership of a buffer.
    ///
    /// # Safety
    /// `ptr` is an owned buffer of `client`.
    pub(super) unsafe fn from_raw(client: &Arc<RawClient>, ptr: NonNull<PJRT_Buffer>) -> RawBuffer {
        RawBuffer { ptr, client: Arc::clone(client), taken_by: OnceLock::new() }
    }

    pub(crate) fn client(&self) -> &Arc<RawClient> {
        &self.client
    }

    /// Notes the execution that it was donated to, which is over when the event is ready.
    pub(crate) fn taken_by(&self, execution: &Arc<Event>) {
        let _only_once = self.taken_by.set(Arc::clone(execution));
    }

    pub(crate) fn on_device_size_in_bytes(&self) -> Result<usize> {
        Ok(query!(self, PJRT_Buffer_OnDeviceSizeInBytes_Args)?.on_device_size_in_bytes)
    }

    pub(crate) fn is_on_cpu(&self) -> Result<bool> {
        Ok(query!(self, PJRT_Buffer_IsOnCpu_Args)?.is_on_cpu != 0)
    }

    pub(crate) fn is_deleted(&self) -> Result<bool> {
        Ok(query!(self, PJRT_Buffer_IsDeleted_Args)?.is_deleted != 0)
    }

    pub(crate) fn delete(&self) -> Result<()> {
        query!(self, PJRT_Buffer_Delete_Args).map(drop)
    }

    pub(crate) fn ready(&self) -> Result<Event> {
        let args = query!(self, PJRT_Buffer_ReadyEvent_Args)?;
        // SAFETY: an owned event of this plugin.
        unsafe { Event::from_raw(self.client.api, args.event, sys::PJRT_Buffer_ReadyEvent_Args::FUNCTION) }
    }

    /// Address of the contents as the plugin sees it.
    pub(crate) fn unsafe_pointer(&self) -> Result<usize> {
        Ok(query!(self, PJRT_Buffer_UnsafePointer_Args)?.buffer_pointer)
    }

    /// A copy of the contents' beginning, of type `part`, on the same device. Waits for the contents, which are of type `ty`, lie
    /// in memory that the host can read, and stay there for the call.
    pub(crate) fn beginning(&self, device: usize, ty: &TensorType, part: &TensorType) -> Result<RawBuffer> {
        self.client.api.require::<sys::PJRT_Event_Await_Args>()?;
        self.ready()?.wait()?;
        let (all, size) = (ty.host_size_in_bytes()?, part.host_size_in_bytes()?);
        if size > all || self.on_device_size_in_bytes()? != all {
            return Err(Error::Invalid(format!("{part} is no beginning of {ty}, dense in memory")));
        }
        let start = std::ptr::with_exposed_provenance::<u8>(self.unsafe_pointer()?);
        // SAFETY: so many bytes are there, computed, and stay: the caller keeps the buffer from being donated or deleted.
        let bytes = if size == 0 { &[] } else { unsafe { std::slice::from_raw_parts(start, size) } };
        self.client.buffer_by_copy(device, bytes, part, None)
    }

    /// Address of the contents as an accelerator's own libraries see it.
    pub(crate) fn opaque_pointer(&self) -> Result<usize> {
        Ok(query!(self, PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args)?.device_memory_ptr.addr())
    }

    /// Asks the plugin to keep the memory where it is until the matching release.
    pub(crate) fn retain_external(&self) -> Result<()> {
        let _one_at_a_time = self.client.external_references.lock();
        query!(self, PJRT_Buffer_IncreaseExternalReferenceCount_Args).map(drop)
    }

    /// Gives back one external reference.
    pub(crate) fn release_external(&self) -> Result<()> {
        let _one_at_a_time = self.client.external_references.lock();
        query!(self, PJRT_Buffer_DecreaseExternalReferenceCount_Args).map(drop)
    }

    pub(crate) fn copy_to_device(&self, device: usize) -> Result<RawBuffer> {
        let args = sys::PJRT_Buffer_CopyToDevice_Args {
            buffer: self.ptr.as_ptr(),
            dst_device: self.client.device(device)?.as_ptr(),
            ..Zeroable::zeroed()
        };
        // SAFETY: buffer and device belong to the same client, and the result is ours.
        unsafe {
            let copy = self.client.api.call(args)?.dst_buffer;
            let copy = not_null::<sys::PJRT_Buffer_CopyToDevice_Args, _>(copy, "buffer")?;
            Ok(RawBuffer::from_raw(&self.client, copy))
        }
    }

    /// Waits for the contents and copies them, dense and row-major, into `dst`, whose length must be exact.
    pub(crate) fn copy_to_host(&self, ty: &TensorType, dst: &mut [u8]) -> Result<()> {
        self.client.api.require::<sys::PJRT_Event_Await_Args>()?;
        // SAFETY: `dst` stays borrowed until the wait is over.
        unsafe { self.start_copy(ty, dst) }?.wait()
    }

    /// Starts copying into memory that is given up until the copy is done.
    pub(crate) fn copy_to_host_async(&self, ty: &TensorType, mut dst: AlignedBytes) -> Result<HostTransfer> {
        self.client.api.require::<sys::PJRT_Event_Await_Args>()?;
        // SAFETY: the transfer owns the memory until the event is ready.
        let event = unsafe { self.start_copy(ty, &mut dst) }?;
        Ok(HostTransfer { event, bytes: ManuallyDrop::new(dst) })
    }

    /// # Safety
    /// `dst` must stay valid and untouched until the event is ready.
    unsafe fn start_copy(&self, ty: &TensorType, dst: &mut [u8]) -> Result<Event> {
        let size = ty.host_size_in_bytes()?;
        if dst.len() != size {
            return Err(Error::Invalid(format!("{ty} takes {size} bytes, got {}", dst.len())));
        }
        let minor_to_major: Vec<i64> = (0..ty.dims.len() as i64).rev().collect();
        let mut layout = row_major(&minor_to_major);
        let args = sys::PJRT_Buffer_ToHostBuffer_Args {
            src: self.ptr.as_ptr(),
            host_layout: layout.as_mut_ptr(),
            dst: dst.as_mut_ptr().cast(),
            dst_size: dst.len(),
            ..Zeroable::zeroed()
        };
        // SAFETY: the layout outlives the call; the caller vouches for the destination.
        unsafe {
            let args = self.client.api.call(args)?;
            Event::from_raw(self.client.api, args.event, sys::PJRT_Buffer_ToHostBuffer_Args::FUNCTION)
        }
    }
}

/// The dense row-major layout. Stated always: by default a plugin hands out its own device layout.
fn row_major(minor_to_major: &[i64]) -> Nested<PJRT_Buffer_MemoryLayout> {
    let mut layout = PJRT_Buffer_MemoryLayout::zeroed();
    layout.type_ = sys::PJRT_Buffer_MemoryLayout_Type_Tiled;
    layout.tiled.struct_size = size_of::<sys::PJRT_Buffer_MemoryLayout_Tiled>();
    layout.tiled.minor_to_major = minor_to_major.as_ptr();
    layout.tiled.minor_to_major_size = minor_to_major.len();
    layout.tiled.tile_dims = ptr::null();
    Nested::new(layout)
}

impl Drop for RawBuffer {
    fn drop(&mut self) {
        match self.taken_by.take() {
            // SAFETY: owned, and given away only here.
            Some(execution) => unsafe { self.client.bury(self.ptr, execution) },
            // SAFETY: owned, and destroyed only here.
            None => unsafe { self.client.destroy(self.ptr) },
        }
    }
}

/// A copy to host memory that is under way. Dropping it waits for the copy.
#[derive(Debug)]
pub struct HostTransfer {
    event: Event,
    bytes: ManuallyDrop<AlignedBytes>,
}

impl HostTransfer {
    /// Whether [`HostTransfer::wait`] would return at once.
    ///
    /// # Errors
    /// When the plugin cannot say.
    pub fn is_ready(&self) -> Result<bool> {
        self.event.is_ready()
    }

    /// Waits, and returns the contents: dense, row-major.
    ///
    /// # Errors
    /// The error of whatever computed the buffer, or of the copy.
    pub fn wait(self) -> Result<AlignedBytes> {
        let mut this = ManuallyDrop::new(self);
        let outcome = this.event.wait();
        // SAFETY: `this` is never used or dropped again, so each field is taken once; the copy has ended.
        let bytes = unsafe {
            ptr::drop_in_place(&raw mut this.event);
            ManuallyDrop::take(&mut this.bytes)
        };
        outcome.map(|()| bytes)
    }
}

impl Drop for HostTransfer {
    fn drop(&mut self) {
        // The outcome has no taker; that `wait` exists was checked before the copy began.
        drop(self.event.wait());
        // SAFETY: the copy has ended, and the bytes are not used again.
        unsafe { ManuallyDrop::drop(&mut self.bytes) };
    }
}
