//! Buffers: tensors on devices.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::client::{Client, Device};
use crate::error::{Error, Result};
use crate::ffi::{AlignedBytes, Event, HostHold, HostMemory, HostTransfer, RawBuffer};
use crate::types::{ElementType, TensorType};

/// A tensor on one device, possibly still being computed.
///
/// A buffer that was donated to an execution or deleted answers every further use with an error.
///
/// # In place on the CPU
/// Measured with the CPU plugin 0.81: memory from [`Buffer::from_host_memory`] is used where it lies. When such a
/// buffer is donated and its memory is writable, the output that reuses it (`tf.aliasing_output`) has the address of
/// the input, so the result appears in the caller's memory, and the memory's owner is released once that output is
/// dropped. Read-only memory is copied at donation and stays as it was.
pub struct Buffer {
    // Order matters: the plugin's buffer goes first, then what keeps its memory. One that was donated has none any more.
    raw: RawBuffer,
    _host: Option<Box<HostHold>>,
    ty: Arc<TensorType>,
    device: usize,
    /// Address of the host memory that was lent to the plugin; 0 for none.
    host_address: usize,
    state: State,
}

/// How many share the buffer's memory, or how it ended.
struct State(AtomicU32);

const DONATED: u32 = u32::MAX;
const DELETED: u32 = u32::MAX - 1;
const MOST_SHARES: u32 = u32::MAX - 2;

impl State {
    fn new() -> Self {
        State(AtomicU32::new(0))
    }

    /// The error for a use of the buffer in its present state, if it cannot be used.
    fn check(&self, what: impl FnOnce() -> String) -> Result<()> {
        match self.0.load(Ordering::Acquire) {
            DONATED => Err(Error::UseAfterDonation { what: what() }),
            DELETED => Err(Error::UseAfterDelete { what: what() }),
            _ => Ok(()),
        }
    }

    /// Ends the buffer's life, unless it has ended or is shared.
    fn end(&self, how: u32, what: impl FnOnce() -> String) -> Result<()> {
        match self.0.compare_exchange(0, how, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Ok(()),
            Err(DONATED) => Err(Error::UseAfterDonation { what: what() }),
            Err(DELETED) => Err(Error::UseAfterDelete { what: what() }),
            Err(_) => Err(Error::Shared { what: what() }),
        }
    }

    /// Takes back an end that did not happen.
    fn revive(&self) {
        self.0.store(0, Ordering::Release);
    }

    fn share(&self) -> Result<()> {
        let grow = |shares: u32| (shares < MOST_SHARES).then(|| shares + 1);
        match self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, grow) {
            Ok(_) => Ok(()),
            Err(_) => self.check(this_buffer).and(Err(Error::Shared { what: this_buffer() })),
        }
    }

    fn unshare(&self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

fn this_buffer() -> String {
    "the buffer".to_owned()
}

impl Buffer {
    /// Copies dense row-major `bytes` to `device`. They are free when this returns.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the length does not fit `ty`; what the plugin reports.
    pub fn from_host(device: &Device, bytes: &[u8], ty: impl Into<Arc<TensorType>>) -> Result<Buffer> {
        let ty = ty.into();
        let raw = device.client.raw.buffer_by_copy(device.index, bytes, &ty, None)?;
        Ok(Buffer::wrap(raw, ty, device.index))
    }

    /// Copies a tensor laid out by `byte_strides` (one per dimension, none negative) from the start of `bytes`.
    ///
    /// # Errors
    /// As [`Buffer::from_host`], and when the strides lead out of `bytes`.
    pub fn from_host_strided(
        device: &Device,
        bytes: &[u8],
        ty: impl Into<Arc<TensorType>>,
        byte_strides: &[i64],
    ) -> Result<Buffer> {
        let ty = ty.into();
        let raw = device.client.raw.buffer_by_copy(device.index, bytes, &ty, Some(byte_strides))?;
        Ok(Buffer::wrap(raw, ty, device.index))
    }

    /// Lends dense row-major `memory` to the plugin, which uses it in place if it can and copies it otherwise.
    /// Memory that is not [aligned](HostMemory::is_aligned) is copied before this returns. The memory's owner is held
    /// until the plugin no longer uses it, which can be later than the buffer's end.
    ///
    /// # Errors
    /// As [`Buffer::from_host`].
    pub fn from_host_memory(device: &Device, memory: HostMemory, ty: impl Into<Arc<TensorType>>) -> Result<Buffer> {
        if !memory.is_aligned() {
            return Buffer::from_host(device, memory.bytes(), ty);
        }
        let (ty, address) = (ty.into(), memory.address());
        let (raw, host) = device.client.raw.buffer_in_place(device.index, memory, &ty)?;
        let buffer = Buffer::wrap(raw, ty, device.index);
        Ok(Buffer { _host: Some(Box::new(host)), host_address: address, ..buffer })
    }

    /// Copies `memory` to `device` in the background, dense or by `byte_strides`. The owner is held until then.
    ///
    /// # Errors
    /// As [`Buffer::from_host_strided`].
    pub fn transfer_from_host(
        device: &Device,
        memory: HostMemory,
        ty: impl Into<Arc<TensorType>>,
        byte_strides: Option<&[i64]>,
    ) -> Result<Buffer> {
        let ty = ty.into();
        let (raw, host) = device.client.raw.buffer_by_transfer(device.index, memory, &ty, byte_strides)?;
        Ok(Buffer { _host: Some(Box::new(host)), ..Buffer::wrap(raw, ty, device.index) })
    }

    /// A buffer that the plugin made.
    pub(crate) fn wrap(raw: RawBuffer, ty: Arc<TensorType>, device: usize) -> Buffer {
        Buffer { raw, _host: None, ty, device, host_address: 0, state: State::new() }
    }

    /// Element type and dimensions.
    pub fn tensor_type(&self) -> &Arc<TensorType> {
        &self.ty
    }

    /// Dimensions, outermost first.
    pub fn dims(&self) -> &[i64] {
        &self.ty.dims
    }

    /// The element type.
    pub fn element_type(&self) -> ElementType {
        self.ty.element_type
    }

    /// The client that it belongs to.
    pub fn client(&self) -> Client {
        Client { raw: Arc::clone(self.raw.client()) }
    }

    /// The device that it is on.
    pub fn device(&self) -> Device {
        Device { client: self.client(), index: self.device }
    }

    pub(crate) fn device_index(&self) -> usize {
        self.device
    }

    /// Bytes that it takes on its device, padding included.
    ///
    /// # Errors
    /// After donation or deletion.
    pub fn size_in_bytes(&self) -> Result<usize> {
        self.state.check(this_buffer)?;
        self.raw.on_device_size_in_bytes()
    }

    /// Whether the contents lie in memory that the host can read.
    ///
    /// # Errors
    /// When the plugin cannot say.
    pub fn is_on_cpu(&self) -> Result<bool> {
        self.raw.is_on_cpu()
    }

    /// Whether it uses the very host memory that [`Buffer::from_host_memory`] was given.
    ///
    /// # Errors
    /// After donation or deletion.
    pub fn is_in_place(&self) -> Result<bool> {
        Ok(self.host_address != 0 && self.unsafe_pointer()? == self.host_address)
    }

    /// Ready once the contents are computed or their computation has failed.
    ///
    /// # Errors
    /// After donation or deletion.
    pub fn ready(&self) -> Result<Event> {
        self.state.check(this_buffer)?;
        self.raw.ready()
    }

    /// Waits for the contents and copies them, dense and row-major, to `dst`.
    ///
    /// # Errors
    /// When `dst` has the wrong length, the computation failed, or after donation or deletion.
    pub fn copy_to_host(&self, dst: &mut [u8]) -> Result<()> {
        self.state.check(this_buffer)?;
        self.raw.copy_to_host(&self.ty, dst)
    }

    /// Waits for the contents and returns a dense row-major copy.
    ///
    /// # Errors
    /// As [`Buffer::copy_to_host`].
    pub fn to_host(&self) -> Result<AlignedBytes> {
        let mut bytes = AlignedBytes::zeroed(self.ty.host_size_in_bytes()?)?;
        self.copy_to_host(&mut bytes)?;
        Ok(bytes)
    }

    /// Starts a dense row-major copy.
    ///
    /// # Errors
    /// As [`Buffer::copy_to_host`], except that the computation's own error comes with the transfer.
    pub fn to_host_async(&self) -> Result<HostTransfer> {
        self.state.check(this_buffer)?;
        self.raw.copy_to_host_async(&self.ty, AlignedBytes::zeroed(self.ty.host_size_in_bytes()?)?)
    }

    /// Copies it to another device of the same client.
    ///
    /// # Errors
    /// For a device of another client, after donation or deletion, or what the plugin reports.
    pub fn copy_to_device(&self, device: &Device) -> Result<Buffer> {
        self.state.check(this_buffer)?;
        if !Arc::ptr_eq(self.raw.client(), &device.client.raw) {
            return Err(Error::OtherClient { what: "the device".to_owned() });
        }
        let copy = self.raw.copy_to_device(device.index)?;
        Ok(Buffer::wrap(copy, Arc::clone(&self.ty), device.index))
    }

    /// Address of the contents as the plugin sees it, for comparing. To use the memory, take a [`SharedMemory`].
    ///
    /// # Errors
    /// After donation or deletion.
    pub fn unsafe_pointer(&self) -> Result<usize> {
        self.state.check(this_buffer)?;
        self.raw.unsafe_pointer()
    }

    /// The first `rows` along the first dimension, in memory of their own and without a program, once the contents are there. `None`
    /// where the host cannot read them.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there are fewer rows, or the contents are not dense; what computing them failed with; after donation
    /// or deletion.
    pub fn first_rows(&self, rows: usize) -> Result<Option<Buffer>> {
        self.state.check(this_buffer)?;
        if !self.is_on_cpu()? {
            return Ok(None);
        }
        let mut part = TensorType::clone(&self.ty);
        match part.dims.first_mut() {
            Some(extent) if i64::try_from(rows).is_ok_and(|rows| rows <= *extent) => *extent = rows as i64,
            _ => return Err(Error::Invalid(format!("{} has no {rows} rows", self.ty))),
        }
        self.state.share()?;
        let made = self.raw.beginning(self.device, &self.ty, &part);
        self.state.unshare();
        Ok(Some(Buffer::wrap(made?, Arc::new(part), self.device)))
    }

    /// Shares the contents with code outside the runtime. Until the result is dropped the buffer is not moved, and
    /// cannot be donated or deleted.
    ///
    /// # Errors
    /// After donation or deletion, or when the plugin cannot share.
    pub fn share(self: &Arc<Self>) -> Result<SharedMemory> {
        self.state.share()?;
        if let Err(error) = self.raw.retain_external() {
            self.state.unshare();
            return Err(error);
        }
        let shared = |address| SharedMemory { buffer: Arc::clone(self), address };
        match self.raw.opaque_pointer() {
            Ok(address) => Ok(shared(address)),
            Err(error) => {
                drop(shared(0));
                Err(error)
            }
        }
    }

    /// Frees the device memory as soon as running executions allow, though the buffer object lives on.
    ///
    /// # Errors
    /// After donation or deletion, or while the memory is shared.
    pub fn delete(&self) -> Result<()> {
        self.state.end(DELETED, this_buffer)?;
        self.raw.delete()
    }

    /// Whether it was donated or deleted.
    pub fn is_gone(&self) -> bool {
        self.state.check(this_buffer).is_err()
    }

    pub(crate) fn raw(&self) -> &RawBuffer {
        &self.raw
    }

    pub(crate) fn check_argument(&self, index: usize) -> Result<()> {
        self.state.check(|| argument(index))
    }

    /// Marks it as donated, before the execution that takes it.
    pub(crate) fn donate(&self, index: usize) -> Result<()> {
        self.state.end(DONATED, || argument(index))
    }

    /// Takes a donation back after the execution failed, if the plugin left the buffer alone.
    pub(crate) fn undo_donation(&self) {
        if matches!(self.raw.is_deleted(), Ok(false)) {
            self.state.revive();
        }
    }
}

fn argument(index: usize) -> String {
    format!("argument {index}")
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let gone = if self.is_gone() { ", gone" } else { "" };
        write!(f, "Buffer({} on device {}{gone})", self.ty, self.device)
    }
}

/// A buffer's memory, lent to code outside the runtime (a DLPack capsule, say) until this is dropped.
#[derive(Debug)]
pub struct SharedMemory {
    buffer: Arc<Buffer>,
    address: usize,
}

impl SharedMemory {
    /// The buffer.
    pub fn buffer(&self) -> &Arc<Buffer> {
        &self.buffer
    }

    /// Address of the contents in the device's address space. They are dense and row-major on the CPU. Wait for
    /// [`Buffer::ready`] before reading. Write only if nobody passes the buffer to an execution any more.
    pub fn address(&self) -> usize {
        self.address
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // A plugin that cannot count down keeps the memory: nothing to do about it here.
        drop(self.buffer.raw.release_external());
        self.buffer.state.unshare();
    }
}
