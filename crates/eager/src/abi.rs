//! The C border to the shim; csrc/abi.h holds the other half and says what everything means.

use crate::cells::Gauge;
use crate::core::{Core, Expected, Made, Mode, Outcome, Request};
use crate::error::{Error, Kind, Result};
use crate::timeline::Span;
use crate::words;
use ir::alias::Layout;
use ir::eager::CellType;
use ir::ops::{Manner, Strides};
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// The version of the border.
pub const ABI: u32 = 8;

/// The core that the shim of this process calls: PyTorch knows one device type "tpu".
static CORE: OnceLock<Arc<Core>> = OnceLock::new();
/// Makes it when it is first needed.
static MAKE: OnceLock<fn() -> Result<Arc<Core>>> = OnceLock::new();

/// Says how the core is made, when the first tensor asks for it.
pub fn provide(make: fn() -> Result<Arc<Core>>) {
    let _ = MAKE.set(make);
}

/// The core, made now if it was not.
///
/// # Errors
/// When there is no plugin, or it has no devices.
pub fn core() -> Result<&'static Arc<Core>> {
    if let Some(core) = CORE.get() {
        return if forked() { Err(Error::new(FORK)) } else { Ok(core) };
    }
    let make = MAKE.get().ok_or_else(|| Error::internal("nobody said how to make a device"))?;
    let core = make()?;
    Ok(CORE.get_or_init(|| {
        note_forks();
        core
    }))
}

const FORK: &str = "Cannot re-initialize \"tpu\" in a forked subprocess: its devices stay with the process that first used \
                    them. To use \"tpu\" with multiprocessing, use the 'spawn' start method";

/// Whether this process is a fork of the one whose devices these are: the plugin's threads are not here.
static FORKED: AtomicBool = AtomicBool::new(false);

/// Whether the devices belong to another process, of which this one is a fork.
pub fn forked() -> bool {
    FORKED.load(Ordering::Relaxed)
}

#[allow(unsafe_code)]
fn note_forks() {
    extern "C" fn in_child() {
        FORKED.store(true, Ordering::Relaxed);
    }
    // SAFETY: the handler only stores a flag. Without it, which happens when memory is gone, forks are not noticed.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
}

/// The core, if it was made.
pub fn core_if_made() -> Option<&'static Arc<Core>> {
    CORE.get()
}

/// `TpuTensorType`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TensorType {
    dtype: i32,
    rank: u32,
    sizes: *const i64,
    strides: *const i64,
}

/// `TpuResult`.
#[repr(C)]
pub struct Fresh {
    cell: u64,
    address: *mut c_void,
    nbytes: u64,
    ty: TensorType,
}

/// `TpuCall`.
#[repr(C)]
pub struct Call {
    words: *const u64,
    num_words: u64,
    cells: *const u64,
    num_cells: u64,
    scalars: *const u64,
    num_scalars: u64,
    generator: *mut c_void,
    expected: *const TensorType,
    num_expected: u64,
    location: u64,
    device: i32,
    has_expected: i32,
    mode: u32,
    results: *const Fresh,
    num_results: u64,
}

/// `TpuShim`.
#[repr(C)]
pub struct Shim {
    abi: u32,
    size: u32,
    next_seed: extern "C" fn(i32, *mut c_void, *mut u64) -> i32,
    let_grow: extern "C" fn(*mut c_void),
}

/// `TpuMemory`.
#[repr(C)]
pub struct Memory {
    bytes: Gauge,
    values: Gauge,
    total: u64,
    free: u64,
}

/// `TpuSpan`.
#[repr(C)]
pub struct Noted {
    name: *const c_char,
    line: *const c_char,
    device: i32,
    begin: i64,
    end: i64,
}

/// `TpuCore`.
#[repr(C)]
pub struct Table {
    abi: u32,
    size: u32,
    made: extern "C" fn() -> i32,
    device_count: extern "C" fn() -> i32,
    cell_new: extern "C" fn(i32, u64, *mut *mut c_void) -> u64,
    cell_drop: extern "C" fn(u64),
    cell_resize: extern "C" fn(u64, u64) -> *mut c_void,
    cell_at: extern "C" fn(*const c_void) -> u64,
    cell_device: extern "C" fn(u64) -> i32,
    op_count: extern "C" fn() -> u32,
    op_name: extern "C" fn(u32) -> *const c_char,
    op_functional: extern "C" fn(u32) -> *const c_char,
    op_strides: extern "C" fn(u32) -> u32,
    op_manner: extern "C" fn(u32) -> u32,
    op_bind: extern "C" fn(u32, *const *const c_char, u64) -> i32,
    dispatch: extern "C" fn(*mut Call) -> i32,
    upload: extern "C" fn(u64, *const TensorType, *const c_void, u64, u64) -> i32,
    download: extern "C" fn(u64, *const TensorType, *mut c_void, u64, u64) -> i32,
    send: extern "C" fn(u64, u64) -> i32,
    synchronize: extern "C" fn(i32) -> i32,
    idle: extern "C" fn(i32) -> i32,
    memory: extern "C" fn(i32, *mut Memory) -> i32,
    reset_memory: extern "C" fn(i32, i32),
    locate: extern "C" fn(*const c_char, i32, *const c_char) -> u64,
    start_profile: extern "C" fn() -> i32,
    stop_profile: extern "C" fn(*mut *const Noted, *mut u64) -> i32,
    last_error: extern "C" fn(*mut i32) -> *const c_char,
}

/// What the shim calls.
pub static TABLE: Table = Table {
    abi: ABI,
    size: size_of::<Table>() as u32,
    made,
    device_count,
    cell_new,
    cell_drop,
    cell_resize,
    cell_at,
    cell_device,
    op_count,
    op_name,
    op_functional,
    op_strides,
    op_manner,
    op_bind,
    dispatch,
    upload,
    download,
    send,
    synchronize,
    idle,
    memory,
    reset_memory,
    locate,
    start_profile,
    stop_profile,
    last_error,
};

const OK: i32 = 0;
const NEEDS_RESULTS: i32 = 1;
const NO_LOWERING: i32 = 2;
const FAILED: i32 = 3;
const NEEDS_CHECKS: i32 = 4;

thread_local! {
    static ERROR: RefCell<(CString, Kind)> = RefCell::new((CString::default(), Kind::Runtime));
    /// What this thread's last `stop_profile` gave.
    static NOTED: RefCell<(Vec<Noted>, Vec<[CString; 2]>)> = const { RefCell::new((vec![], vec![])) };
    /// The results of this thread's last call: what `Call::results` points to.
    static RESULTS: RefCell<(Vec<Fresh>, Vec<Option<Made>>)> = const { RefCell::new((vec![], vec![])) };
}

/// Runs `f`; its error, or panic, becomes this thread's last error and `failed`.
fn guard<T>(failed: T, f: impl FnOnce() -> Result<T>) -> T {
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f));
    let result = caught.unwrap_or_else(|_| Err(Error::internal("a panic; the message is on stderr")));
    result.unwrap_or_else(|error| {
        let text = CString::new(error.message.replace('\0', " ")).unwrap_or_default();
        ERROR.with_borrow_mut(|slot| *slot = (text, error.kind));
        failed
    })
}

/// Joins the shim to the core, which from now on draws its seeds from it.
///
/// # Safety
/// `shim` points to a table that lives as long as the process.
///
/// # Errors
/// When the shim was made for another version of the border.
#[allow(unsafe_code)]
pub unsafe fn join(shim: *const Shim) -> Result<()> {
    // SAFETY: as the caller promises; the first two fields are the same in all versions.
    let (abi, size) = unsafe { ((*shim).abi, (*shim).size) };
    if abi != ABI || size as usize != size_of::<Shim>() {
        return Err(Error::new(format!(
            "the shim speaks version {abi} of the border, this build {ABI}; reinstall torchtpu"
        )));
    }
    // SAFETY: it is of this version.
    let _ = NEXT_SEED.set(unsafe { (*shim).next_seed });
    let _ = LET_GROW.set(unsafe { (*shim).let_grow });
    Ok(())
}

/// Lets `tensor` be resized, as tensors in PyTorch's own memory may be. Without the shim it may not.
///
/// # Safety
/// `tensor` is a live `torch.Tensor` on the host, and the interpreter's lock is held.
#[allow(unsafe_code)]
pub unsafe fn let_grow(tensor: *mut c_void) {
    if let Some(let_grow) = LET_GROW.get() {
        let_grow(tensor);
    }
}

static LET_GROW: OnceLock<extern "C" fn(*mut c_void)> = OnceLock::new();
static NEXT_SEED: OnceLock<extern "C" fn(i32, *mut c_void, *mut u64) -> i32> = OnceLock::new();

/// Seeds from the shim's generators.
///
/// # Errors
/// If the device has none.
pub fn seeds(device: usize, generator: usize) -> Result<[u64; 2]> {
    let mut seed = [0; 2];
    let failed =
        NEXT_SEED.get().is_some_and(|next| next(device as i32, generator as *mut c_void, seed.as_mut_ptr()) != 0);
    if failed { Err(Error::new(format!("tpu:{device} has no random generator"))) } else { Ok(seed) }
}

extern "C" fn made() -> i32 {
    i32::from(CORE.get().is_some() && !forked())
}

extern "C" fn device_count() -> i32 {
    guard(-1, || Ok(core()?.device_count() as i32))
}

#[allow(unsafe_code)]
extern "C" fn cell_new(device: i32, nbytes: u64, address: *mut *mut c_void) -> u64 {
    guard(0, || {
        let (cell, at) = core()?.cell_new(index(device)?, nbytes)?;
        // SAFETY: the shim passes a place for the address.
        unsafe { *address = at as *mut c_void };
        Ok(cell)
    })
}

extern "C" fn cell_drop(cell: u64) {
    if forked() {
        return; // the value is the other process's
    }
    guard((), || {
        core()?.cell_drop(cell);
        Ok(())
    });
}

extern "C" fn cell_resize(cell: u64, nbytes: u64) -> *mut c_void {
    guard(std::ptr::null_mut(), || Ok(core()?.cell_resize(cell, nbytes)? as *mut c_void))
}

extern "C" fn cell_at(address: *const c_void) -> u64 {
    guard(0, || Ok(core()?.cell_at(address as usize).unwrap_or(0)))
}

extern "C" fn cell_device(cell: u64) -> i32 {
    guard(-1, || Ok(core()?.cell_device(cell).map_or(-1, |device| device as i32)))
}

/// By number, the name of each overload and that of the one that gives new tensors.
fn names() -> &'static [[CString; 2]] {
    static NAMES: OnceLock<Vec<[CString; 2]>> = OnceLock::new();
    let pair = |names: [&str; 2]| names.map(|name| CString::new(name).unwrap_or_default());
    NAMES.get_or_init(|| crate::registry::names().map(pair).collect())
}

fn name(op: u32, which: usize) -> *const c_char {
    guard(std::ptr::null(), || Ok(names().get(op as usize).map_or(std::ptr::null(), |pair| pair[which].as_ptr())))
}

extern "C" fn op_count() -> u32 {
    guard(0, || Ok(names().len() as u32))
}

extern "C" fn op_name(op: u32) -> *const c_char {
    name(op, 0)
}

extern "C" fn op_functional(op: u32) -> *const c_char {
    name(op, 1)
}

/// `TpuStrides`, and the place of the argument that decides.
extern "C" fn op_strides(op: u32) -> u32 {
    let (strides, place) = crate::registry::strides(op);
    let code = match strides {
        Strides::Meta => 0,
        Strides::Rows => 1,
        Strides::Suggested(_) => 2,
        Strides::RowsOrSuggested(_) => 3,
        Strides::ByElement => 4,
        Strides::Rolled => 5,
        Strides::Convolved => 6,
    };
    code | (place as u32) << 8
}

/// `TpuManner`.
extern "C" fn op_manner(op: u32) -> u32 {
    match crate::registry::manner(op) {
        Manner::Plain => 0,
        Manner::Fill => 1,
        Manner::Choice => 2,
        Manner::Range => 3,
        Manner::Convolution => 4,
    }
}

#[allow(unsafe_code)]
extern "C" fn op_bind(op: u32, argument_names: *const *const c_char, count: u64) -> i32 {
    guard(FAILED, || {
        // SAFETY: the shim passes so many strings, which live during the call.
        let names = unsafe { slice(argument_names, count) };
        let names = names.iter().map(|&n| unsafe { CStr::from_ptr(n) }.to_str().unwrap_or_default());
        crate::registry::bind(op, &names.collect::<Vec<_>>())?;
        Ok(OK)
    })
}

/// # Safety
/// `start` points to `count` elements, or `count` is 0.
#[allow(unsafe_code)]
unsafe fn slice<'a, T>(start: *const T, count: u64) -> &'a [T] {
    if count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(start, count as usize) } }
}

#[allow(unsafe_code)]
fn cell_type(ty: &TensorType) -> Result<Option<CellType>> {
    let Ok(code) = u8::try_from(ty.dtype) else { return Ok(None) };
    // SAFETY: the shim gives `rank` sizes and strides.
    let (sizes, strides) = unsafe { (slice(ty.sizes, ty.rank.into()), slice(ty.strides, ty.rank.into())) };
    let unsigned = |ns: &[i64]| ns.iter().map(|&n| n as usize).collect::<smallvec::SmallVec<[usize; 6]>>();
    let layout = Layout { sizes: unsigned(sizes), strides: unsigned(strides), offset: 0 };
    Ok(Some(CellType { dtype: words::dtype(code)?, layout }))
}

fn index(device: i32) -> Result<usize> {
    usize::try_from(device).map_err(|_| Error::new(format!("there is no device tpu:{device}")))
}

#[allow(unsafe_code)]
extern "C" fn dispatch(call: *mut Call) -> i32 {
    guard(FAILED, || {
        // SAFETY: the shim passes a call that lives during it, with the counts it names.
        let call = unsafe { &mut *call };
        let request = unsafe { request(call)? };
        match core()?.dispatch(&request) {
            Ok(Outcome::NeedsResults) => Ok(NEEDS_RESULTS),
            Ok(Outcome::NeedsChecks) => Ok(NEEDS_CHECKS),
            Ok(Outcome::Done(made)) => {
                publish(call, made);
                Ok(OK)
            }
            Err(error) if error.kind == Kind::NotImplemented => {
                guard((), || Err(error));
                Ok(NO_LOWERING)
            }
            Err(error) => Err(error),
        }
    })
}

/// # Safety
/// As csrc/abi.h says of `TpuCall`.
#[allow(unsafe_code)]
unsafe fn request<'a>(call: &Call) -> Result<Request<'a>> {
    // SAFETY: the counts are the shim's.
    unsafe {
        let expected = match call.has_expected {
            0 => None,
            1 => {
                let types = slice(call.expected, call.num_expected).iter().map(cell_type);
                Some(Expected::Types(types.collect::<Result<_>>()?))
            }
            _ => Some(Expected::Unknown),
        };
        Ok(Request {
            words: slice(call.words, call.num_words),
            cells: slice(call.cells, call.num_cells),
            scalars: slice(call.scalars, call.num_scalars),
            generator: call.generator as usize,
            device: index(call.device)?,
            location: call.location,
            mode: mode(call.mode),
            expected,
        })
    }
}

/// `TpuMode`.
fn mode(bits: u32) -> Mode {
    let has = |bit: u32| bits & bit != 0;
    Mode { debug: has(1), check_nan: has(2), fused: has(4), deterministic: has(8), at_once: has(16) }
}

/// Leaves the results where the shim finds them.
fn publish(call: &mut Call, made: Vec<Option<Made>>) {
    RESULTS.with_borrow_mut(|(fresh, kept)| {
        *kept = made;
        fresh.clear();
        fresh.extend(kept.iter().map(|m| m.as_ref().map_or(UNDEFINED, describe)));
        (call.results, call.num_results) = (fresh.as_ptr(), fresh.len() as u64);
    });
}

const UNDEFINED: Fresh = Fresh {
    cell: 0,
    address: std::ptr::null_mut(),
    nbytes: 0,
    ty: TensorType { dtype: -1, rank: 0, sizes: std::ptr::null(), strides: std::ptr::null() },
};

fn describe(made: &Made) -> Fresh {
    let Some(new) = made.described() else { return UNDEFINED };
    let ty = TensorType {
        dtype: new.dtype,
        rank: new.sizes.len() as u32,
        sizes: new.sizes.as_ptr(),
        strides: new.strides.as_ptr(),
    };
    Fresh { cell: made.cell, address: made.address as *mut c_void, nbytes: new.nbytes, ty }
}

#[allow(unsafe_code)]
extern "C" fn upload(cell: u64, ty: *const TensorType, bytes: *const c_void, size: u64, location: u64) -> i32 {
    guard(FAILED, || {
        // SAFETY: the shim passes a type and so many bytes.
        let (ty, bytes) = unsafe { (&*ty, slice(bytes.cast::<u8>(), size)) };
        let ty = cell_type(ty)?.ok_or_else(|| Error::internal("an upload of an undefined tensor"))?;
        core()?.upload(cell, ty, bytes, location)?;
        Ok(OK)
    })
}

#[allow(unsafe_code)]
extern "C" fn download(cell: u64, ty: *const TensorType, bytes: *mut c_void, size: u64, location: u64) -> i32 {
    guard(FAILED, || {
        // SAFETY: the shim passes a type and room for so many bytes.
        let ty = cell_type(unsafe { &*ty })?.ok_or_else(|| Error::internal("a download of an undefined tensor"))?;
        let bytes = match size {
            0 => &mut [][..],
            n => unsafe { std::slice::from_raw_parts_mut(bytes.cast::<u8>(), n as usize) },
        };
        Ok(if core()?.download(cell, &ty, bytes, location)? { OK } else { NEEDS_RESULTS })
    })
}

extern "C" fn send(from: u64, to: u64) -> i32 {
    guard(FAILED, || core()?.send(from, to).map(|()| OK))
}

extern "C" fn synchronize(device: i32) -> i32 {
    guard(FAILED, || match core_if_made() {
        Some(_) => core()?.synchronize(index(device)?).map(|()| OK),
        None => Ok(OK),
    })
}

extern "C" fn idle(device: i32) -> i32 {
    guard(1, || Ok(i32::from(core_if_made().is_none_or(|core| forked() || core.idle(device.max(0) as usize)))))
}

#[allow(unsafe_code)]
extern "C" fn memory(device: i32, out: *mut Memory) -> i32 {
    guard(FAILED, || {
        let (core, device) = (core()?, index(device)?);
        let ((bytes, values), (total, free)) = (core.memory(device), core.capacity(device)?);
        // SAFETY: the shim passes a place for it.
        unsafe { *out = Memory { bytes, values, total, free } };
        Ok(OK)
    })
}

extern "C" fn reset_memory(device: i32, peak: i32) {
    guard((), || {
        core()?.reset_memory(index(device)?, peak != 0);
        Ok(())
    });
}

#[allow(unsafe_code)]
extern "C" fn locate(file: *const c_char, line: i32, function: *const c_char) -> u64 {
    guard(0, || {
        // SAFETY: the shim passes strings.
        let (file, function) = unsafe { (CStr::from_ptr(file), CStr::from_ptr(function)) };
        let line = u32::try_from(line).unwrap_or(0);
        Ok(core()?.locate(&file.to_string_lossy(), line, &function.to_string_lossy()))
    })
}

extern "C" fn start_profile() -> i32 {
    guard(FAILED, || core().map(|core| core.start_profile()).map(|()| OK))
}

#[allow(unsafe_code)]
extern "C" fn stop_profile(spans: *mut *const Noted, count: *mut u64) -> i32 {
    guard(FAILED, || {
        let found = core()?.stop_profile();
        let text = |s: &str| CString::new(s.replace('\0', " ")).unwrap_or_default();
        NOTED.with_borrow_mut(|(noted, texts)| {
            *texts = found.iter().map(|span| [text(&span.name), text(&span.line)]).collect();
            let note = |(span, [name, line]): (&Span, &[CString; 2])| Noted {
                name: name.as_ptr(),
                line: line.as_ptr(),
                device: span.device as i32,
                begin: span.begin,
                end: span.end,
            };
            *noted = found.iter().zip(texts.iter()).map(note).collect();
            // SAFETY: the shim passes places for both.
            unsafe { (*spans, *count) = (noted.as_ptr(), noted.len() as u64) };
        });
        Ok(OK)
    })
}

#[allow(unsafe_code)]
extern "C" fn last_error(kind: *mut i32) -> *const c_char {
    ERROR.with_borrow(|(text, k)| {
        // SAFETY: the shim passes a place for the kind; the text lives until this thread's next error.
        unsafe { *kind = *k as i32 };
        text.as_ptr()
    })
}
