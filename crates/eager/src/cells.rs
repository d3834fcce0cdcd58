//! Storages, their values, and what is known of them.

use crate::error::{Error, Kind, Result};
use crate::space::Space;
use ir::eager::CellType;
use runtime::Buffer;
use rustc_hash::FxHashMap;
use slab::Slab;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// The type of a cell's value, interned; 0 for a cell that was never written.
pub(crate) type TypeId = u32;

/// A storage.
pub(crate) struct Cell {
    pub(crate) device: usize,
    pub(crate) nbytes: u64,
    pub(crate) address: usize,
    pub(crate) ty: TypeId,
    pub(crate) value: Option<Arc<Held>>,
    pub(crate) origin: Origin,
}

/// What made a value: for errors that come later, and for naming the holders of memory.
#[derive(Clone, Copy, Default)]
pub(crate) struct Origin {
    pub(crate) op: u32,
    pub(crate) location: u64,
}

/// A value: a buffer that is there, or will be once the call that makes it has started, or the error it failed with. Its
/// bytes are counted while it lives, but for one that is only recorded: from when it is made.
pub(crate) struct Held {
    buffer: OnceLock<Result<Buffer>>,
    bytes: u64,
    ledger: Arc<Ledger>,
    counted: AtomicBool,
    /// Its [`Home`], written down.
    home: AtomicU64,
}

/// What a value is to the region that is being recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Home {
    /// The region's value of this number.
    Inner(usize),
    /// What goes into it, of this number.
    Outer(usize),
}

/// Bits of a home that are not the region's serial number.
const HOME_BITS: u32 = 24;

/// Bytes in use on one device.
#[derive(Default)]
pub(crate) struct Ledger {
    pub(crate) bytes: Meter,
    pub(crate) values: Meter,
}

/// Something that comes and goes.
#[derive(Default)]
pub(crate) struct Meter {
    now: AtomicU64,
    peak: AtomicU64,
    allocated: AtomicU64,
    freed: AtomicU64,
}

/// A reading of a meter: how much there is, the most there was, and what came and went since the last reset.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Gauge {
    /// In use.
    pub now: u64,
    /// The most since the peak was reset.
    pub peak: u64,
    /// What came since the counts were reset.
    pub allocated: u64,
    /// What went since then.
    pub freed: u64,
}

impl Meter {
    fn add(&self, amount: u64) {
        let now = self.now.fetch_add(amount, Ordering::Relaxed) + amount;
        self.peak.fetch_max(now, Ordering::Relaxed);
        self.allocated.fetch_add(amount, Ordering::Relaxed);
    }
    fn remove(&self, amount: u64) {
        self.now.fetch_sub(amount, Ordering::Relaxed);
        self.freed.fetch_add(amount, Ordering::Relaxed);
    }
    /// There is so much more for as long as a program runs.
    pub(crate) fn meanwhile(&self, amount: u64) {
        self.peak.fetch_max(self.now.load(Ordering::Relaxed) + amount, Ordering::Relaxed);
    }
    pub(crate) fn read(&self) -> Gauge {
        let read = |a: &AtomicU64| a.load(Ordering::Relaxed);
        Gauge {
            now: read(&self.now),
            peak: read(&self.peak),
            allocated: read(&self.allocated),
            freed: read(&self.freed),
        }
    }
    /// Forgets the peak, or else the counts.
    pub(crate) fn reset(&self, peak: bool) {
        if peak {
            self.peak.store(self.now.load(Ordering::Relaxed), Ordering::Relaxed);
        } else {
            self.allocated.store(0, Ordering::Relaxed);
            self.freed.store(0, Ordering::Relaxed);
        }
    }
}

impl Held {
    /// A value that is there.
    pub(crate) fn new(buffer: Buffer, ledger: &Arc<Ledger>) -> Arc<Held> {
        let bytes = buffer.tensor_type().host_size_in_bytes().unwrap_or(0) as u64;
        let held = Held::promised(bytes, ledger);
        held.fill(Ok(buffer));
        held
    }
    /// A value of so many bytes that a call will make.
    pub(crate) fn promised(bytes: u64, ledger: &Arc<Ledger>) -> Arc<Held> {
        let held = Held::recorded(bytes, ledger);
        held.count();
        held
    }
    /// A value that a call may make, or that dies before: it takes no memory yet.
    pub(crate) fn recorded(bytes: u64, ledger: &Arc<Ledger>) -> Arc<Held> {
        let (counted, home) = (AtomicBool::new(false), AtomicU64::new(0));
        Arc::new(Held { buffer: OnceLock::new(), bytes, ledger: ledger.clone(), counted, home })
    }
    /// Counts its bytes from now on.
    pub(crate) fn count(&self) {
        if !self.counted.swap(true, Ordering::Relaxed) {
            self.ledger.bytes.add(self.bytes);
            self.ledger.values.add(1);
        }
    }
    /// Counts its bytes no longer: it is gone, or another value has its memory.
    pub(crate) fn uncount(&self) {
        if self.counted.swap(false, Ordering::Relaxed) {
            self.ledger.bytes.remove(self.bytes);
            self.ledger.values.remove(1);
        }
    }
    /// What it is to the region `serial`; nothing yet, perhaps.
    pub(crate) fn home(&self, serial: u64) -> Option<Home> {
        let home = self.home.load(Ordering::Relaxed);
        let index = (home & ((1 << HOME_BITS) - 1)) as usize;
        match home >> HOME_BITS {
            s if s != serial => None,
            _ if index & 1 == 0 => Some(Home::Inner(index >> 1)),
            _ => Some(Home::Outer(index >> 1)),
        }
    }
    /// Says what it is to the region `serial`, which is not 0.
    pub(crate) fn set_home(&self, serial: u64, home: Home) {
        let index = match home {
            Home::Inner(i) => i << 1,
            Home::Outer(i) => i << 1 | 1,
        };
        self.home.store(serial << HOME_BITS | index as u64, Ordering::Relaxed);
    }
    /// How many bytes it is counted with.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
    /// Keeps the promise, or says why not. Only the first time counts.
    pub(crate) fn fill(&self, buffer: Result<Buffer>) {
        let _ = self.buffer.set(buffer);
    }
    /// The buffer, which has to be there: see `Queue::drain`.
    ///
    /// # Errors
    /// What the call that should have made it failed with.
    pub(crate) fn buffer(&self) -> Result<&Buffer> {
        match self.buffer.get() {
            Some(Ok(buffer)) => Ok(buffer),
            Some(Err(error)) => Err(error.clone()),
            None => Err(Error::internal("a value is used before the call that makes it has started")),
        }
    }
    /// Whether the call that makes it has not started yet.
    pub(crate) fn is_promised(&self) -> bool {
        self.buffer.get().is_none()
    }
    /// The buffer itself, if it is there.
    pub(crate) fn into_buffer(mut self) -> Option<Buffer> {
        self.buffer.take()?.ok()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.uncount();
    }
}

/// All storages of all devices.
pub(crate) struct Cells {
    slab: Slab<Cell>,
    space: Space,
    by_address: FxHashMap<usize, u64>,
    /// By device, of all its storages together.
    bytes: Vec<u64>,
    types: Vec<Arc<CellType>>,
    ids: FxHashMap<Arc<CellType>, TypeId>,
}

impl Cells {
    pub(crate) fn new() -> Result<Cells> {
        let space = Space::reserve().ok_or_else(|| Error::new("the system lends no addresses for \"tpu\" storages"))?;
        let (by_address, ids) = (FxHashMap::default(), FxHashMap::default());
        Ok(Cells { slab: Slab::new(), space, by_address, bytes: vec![], types: vec![], ids })
    }

    /// A storage of `nbytes` with no value, and its address.
    pub(crate) fn add(&mut self, device: usize, nbytes: u64) -> Result<(u64, usize)> {
        let address = self.space.take(nbytes).ok_or_else(|| no_addresses(nbytes))?;
        let cell = Cell { device, nbytes, address, ty: 0, value: None, origin: Origin::default() };
        let id = self.slab.insert(cell) as u64 + 1;
        self.by_address.insert(address, id);
        self.bytes.resize(self.bytes.len().max(device + 1), 0);
        self.bytes[device] += nbytes;
        Ok((id, address))
    }

    /// Forgets a storage and gives its value back, to be dropped outside of locks.
    pub(crate) fn remove(&mut self, id: u64) -> Option<Arc<Held>> {
        let cell = self.slab.try_remove((id as usize).checked_sub(1)?)?;
        self.by_address.remove(&cell.address);
        self.space.give(cell.address);
        self.bytes[cell.device] -= cell.nbytes;
        cell.value
    }

    pub(crate) fn resize(&mut self, id: u64, nbytes: u64) -> Result<usize> {
        let address = self.space.take(nbytes).ok_or_else(|| no_addresses(nbytes))?;
        let cell = self.get_mut(id)?;
        let old = std::mem::replace(&mut cell.address, address);
        let (device, before) = (cell.device, std::mem::replace(&mut cell.nbytes, nbytes));
        self.bytes[device] = self.bytes[device] - before + nbytes;
        self.by_address.remove(&old);
        self.by_address.insert(address, id);
        self.space.give(old);
        Ok(address)
    }

    /// How large a device's storages are together, whatever of that was written.
    pub(crate) fn bytes(&self, device: usize) -> u64 {
        self.bytes.get(device).copied().unwrap_or(0)
    }

    /// The storage whose range holds `address`.
    pub(crate) fn at(&self, address: usize) -> Option<u64> {
        self.by_address.get(&self.space.start(address)?).copied()
    }

    pub(crate) fn get(&self, id: u64) -> Result<&Cell> {
        self.slab.get((id as usize).wrapping_sub(1)).ok_or_else(gone)
    }
    pub(crate) fn get_mut(&mut self, id: u64) -> Result<&mut Cell> {
        self.slab.get_mut((id as usize).wrapping_sub(1)).ok_or_else(gone)
    }
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Cell> {
        self.slab.iter().map(|(_, cell)| cell)
    }

    /// The number of a type.
    pub(crate) fn intern(&mut self, ty: CellType) -> TypeId {
        if let Some(&id) = self.ids.get(&ty) {
            return id;
        }
        let ty = Arc::new(ty);
        self.types.push(ty.clone());
        let id = self.types.len() as TypeId;
        self.ids.insert(ty, id);
        id
    }
    /// The type of a number.
    pub(crate) fn ty(&self, id: TypeId) -> Option<&Arc<CellType>> {
        self.types.get((id as usize).checked_sub(1)?)
    }
}

fn gone() -> Error {
    Error::internal("a tensor's storage is gone, or is none of this device's")
}

fn no_addresses(nbytes: u64) -> Error {
    let message = format!("Tried to allocate {nbytes} bytes on \"tpu\", more than there are addresses for");
    Error { kind: Kind::OutOfMemory, message }
}
