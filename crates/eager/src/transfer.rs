//! Bytes in and out of storages.

use crate::cells::{Held, Origin};
use crate::core::{Core, State, TRANSFER};
use crate::error::{Error, Kind, Result};
use crate::fused::Why;
use ir::TensorType;
use ir::alias::Layout;
use ir::eager::CellType;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};

impl Core {
    /// A storage of `nbytes` on `device`, with no value yet; and its address.
    ///
    /// # Errors
    /// When there is no such device or no address left.
    pub fn cell_new(&self, device: usize, nbytes: u64) -> Result<(u64, usize)> {
        self.device(device)?;
        self.count_storage();
        let mut state = self.lock();
        state.cells.add(device, nbytes).map_err(|e| state.with_holders(e, None))
    }

    /// Ends a storage.
    pub fn cell_drop(&self, cell: u64) {
        let mut state = self.lock();
        let device = state.cells.get(cell).map_or(0, |cell| cell.device);
        let value = state.cells.remove(cell);
        let_go(state, device, value);
    }

    /// Gives a storage another size and address. Its contents stay, unless nothing is left of it: whoever takes all bytes
    /// from a storage, as FSDP does between two uses of a weight, wants its memory back.
    ///
    /// # Errors
    /// When there is no address left.
    pub fn cell_resize(&self, cell: u64, nbytes: u64) -> Result<usize> {
        let mut state = self.lock();
        let address = state.cells.resize(cell, nbytes).map_err(|e| state.with_holders(e, None))?;
        if nbytes == 0 {
            let emptied = state.cells.get_mut(cell)?;
            let (device, value) = (emptied.device, emptied.value.take());
            let_go(state, device, value);
        }
        Ok(address)
    }

    /// The storage whose range begins at `address`. Whoever wraps an address inside of one would mean what lies there, and
    /// read what lies at the start.
    pub fn cell_at(&self, address: usize) -> Option<u64> {
        let state = self.lock();
        state.cells.at(address).filter(|&id| state.cells.get(id).is_ok_and(|cell| cell.address == address))
    }

    /// The device of a storage.
    pub fn cell_device(&self, cell: u64) -> Option<usize> {
        self.lock().cells.get(cell).ok().map(|cell| cell.device)
    }

    /// Makes `bytes`, dense and row-major in the logical shape, the whole value of a storage.
    ///
    /// # Errors
    /// When they do not fit, or what the plugin reports.
    pub fn upload(&self, cell: u64, ty: CellType, bytes: &[u8], location: u64) -> Result<()> {
        let device = self.lock().cells.get(cell)?.device;
        let tensor = TensorType { dtype: ty.dtype, shape: ty.layout.sizes.clone() };
        if tensor.size_in_bytes() != bytes.len() || ty.layout.dense_order().is_none() {
            return Err(Error::internal("an upload that is not the whole of a storage"));
        }
        let origin = Origin { op: TRANSFER, location };
        let mut held = self.send_bytes(device, bytes, &tensor);
        if held.as_ref().is_err_and(|error| error.kind == Kind::OutOfMemory) {
            self.drain_for(Why::Waited, location); // what was recorded keeps its arguments
            held = self.send_bytes(device, bytes, &tensor);
        }
        self.place_value(cell, ty, held, origin)?;
        self.bring(device, bytes.len() as u64, location);
        Ok(())
    }

    /// Notes that so much came from the host: what was recorded keeps what it reads, so it goes on its way after a while.
    fn bring(&self, device: usize, bytes: u64, location: u64) {
        if !self.recording.load(Ordering::SeqCst) {
            return;
        }
        let mut state = self.lock();
        if state.opens[device].bring(bytes) {
            self.flush_locked(&mut state, Why::Full, location);
            drop(state);
            self.pass_on();
        }
    }

    fn place_value(&self, cell: u64, ty: CellType, held: Result<Arc<Held>>, origin: Origin) -> Result<()> {
        let mut state = self.lock();
        state.families.turn();
        let held = held.map_err(|e| self.explain(&state, e, origin))?;
        let id = state.cells.intern(CellType { layout: Layout { offset: 0, ..ty.layout }, ..ty });
        let cell = state.cells.get_mut(cell)?;
        (cell.ty, cell.origin) = (id, origin);
        let _old = cell.value.replace(held);
        Ok(())
    }

    /// Waits for the value of a storage and copies it, dense and row-major, to `bytes`. `false` if the tensor of type
    /// `ty` is not the whole of it as it stands, and has to be copied on the device first.
    ///
    /// # Errors
    /// The failure of what computed it, with the op and the line; what the plugin reports.
    pub fn download(&self, cell: u64, ty: &CellType, bytes: &mut [u8], location: u64) -> Result<bool> {
        let (value, origin, device) = {
            let mut state = self.lock();
            state.families.turn();
            let cell = state.cells.get(cell)?;
            let Some(value) = cell.value.clone() else {
                bytes.fill(0);
                return Ok(true);
            };
            let fits = state.cells.ty(cell.ty).is_some_and(|t| t.dtype == ty.dtype && t.layout.same_places(&ty.layout));
            if !fits {
                return Ok(false);
            }
            (value, cell.origin, cell.device)
        };
        self.flush(Why::Read, location);
        self.read(&value, bytes, origin, device)?;
        Ok(true)
    }

    /// Waits for a value that was made at `origin`, and copies its bytes.
    pub(crate) fn read(&self, value: &Held, bytes: &mut [u8], origin: Origin, device: usize) -> Result<()> {
        self.settle(device)?;
        value.buffer()?.copy_to_host(bytes).map_err(|e| self.cause(e.into(), origin, device))
    }

    /// The first failure on a device, of which `error` about a value made at `origin` may be but the consequence.
    fn cause(&self, error: Error, origin: Origin, device: usize) -> Error {
        match self.synchronize(device) {
            Err(first) => first,
            Ok(()) => self.explain(&self.lock(), error, origin),
        }
    }

    /// Copies the value of a storage to one on another device.
    ///
    /// # Errors
    /// What the plugin reports.
    pub fn send(&self, from: u64, to: u64) -> Result<()> {
        let (value, ty, origin, device) = {
            let state = self.lock();
            let (source, target) = (state.cells.get(from)?, state.cells.get(to)?);
            (source.value.clone(), source.ty, source.origin, target.device)
        };
        self.drain_for(Why::Read, 0);
        let copy = match value {
            Some(value) => Some(Held::new(value.buffer()?.copy_to_device(self.device(device)?)?, self.ledger(device))),
            None => None,
        };
        let mut state = self.lock();
        let target = state.cells.get_mut(to)?;
        (target.ty, target.origin) = (ty, origin);
        target.value = copy;
        Ok(())
    }
}

/// Frees the value that a storage on `device` had. The region that is open there may still need it.
fn let_go(mut state: MutexGuard<'_, State>, device: usize, value: Option<Arc<Held>>) {
    if let (Some(value), Some(open)) = (&value, state.opens.get_mut(device)) {
        open.outlive(value);
    }
    // One that is only recorded has no memory to free: whether it is held shows at once.
    let value = value.filter(|value| !value.is_promised());
    drop(state);
    drop(value); // frees device memory, after the lock
}
