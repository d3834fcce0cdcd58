//! Tensors in and out by DLPack's C exchange interface, without a Python call or a copy.
//!
//! `torch.Tensor.__dlpack_c_exchange_api__` holds a table of C functions. One fills a `DLTensor` that borrows a tensor's
//! memory, another makes a tensor that owns memory of ours. Layouts are those of DLPack 1.x (`dlpack.h`); the table's
//! major version is checked before use.

#![allow(unsafe_code)] // foreign memory and function pointers; every block says why it is sound

use driver::{Argument, HostTensor, OutputTensor, Strides};
use eager::Operand;
use ir::alias::Layout;
use ir::eager::CellType;
use ir::{DType, Shape};
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyCapsule;
use runtime::{HostAccess, HostMemory, SharedMemory};
use smallvec::SmallVec;
use std::any::Any;
use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::{Arc, LazyLock};

const MAJOR: u32 = 1;
const CPU: i32 = 1;

#[repr(C)]
#[derive(Clone, Copy)]
struct Version {
    major: u32,
    minor: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct DlDevice {
    kind: i32,
    index: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct DlType {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
struct DlTensor {
    data: *mut c_void,
    device: DlDevice,
    rank: i32,
    dtype: DlType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
struct Managed {
    version: Version,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
    flags: u64,
    tensor: DlTensor,
}

/// `DLPackExchangeAPI`.
#[repr(C)]
struct Table {
    version: Version,
    previous: *const Table,
    _allocator: Option<unsafe extern "C" fn()>,
    _managed_from_object: Option<unsafe extern "C" fn(*mut c_void, *mut *mut Managed) -> c_int>,
    managed_to_object: Option<unsafe extern "C" fn(*mut Managed, *mut *mut c_void) -> c_int>,
    borrow: Option<unsafe extern "C" fn(*mut c_void, *mut DlTensor) -> c_int>,
    _stream: Option<unsafe extern "C" fn()>,
}

/// PyTorch's exchange table.
pub(crate) struct Exchange {
    tensor_type: Py<PyAny>,
    managed_to_object: unsafe extern "C" fn(*mut Managed, *mut *mut c_void) -> c_int,
    borrow: unsafe extern "C" fn(*mut c_void, *mut DlTensor) -> c_int,
}

static EXCHANGE: PyOnceLock<Exchange> = PyOnceLock::new();

impl Exchange {
    /// The table, looked up once.
    pub(crate) fn get(py: Python<'_>) -> PyResult<&'static Exchange> {
        EXCHANGE.get_or_try_init(py, || Exchange::load(py))
    }

    fn load(py: Python<'_>) -> PyResult<Exchange> {
        let tensor_type = py.import("torch")?.getattr("Tensor")?;
        let capsule = tensor_type.getattr("__dlpack_c_exchange_api__")?;
        let capsule = capsule.cast::<PyCapsule>().map_err(|_| unusable("is no capsule"))?;
        let name: *const c_char = c"dlpack_exchange_api".as_ptr();
        // SAFETY: a live capsule; a wrong name gives null and an exception.
        let table = unsafe { ffi::PyCapsule_GetPointer(capsule.as_ptr(), name) }.cast::<Table>();
        if table.is_null() {
            return Err(PyErr::fetch(py));
        }
        // SAFETY: PyTorch's table is static, and its header is the same in all versions.
        let table = unsafe { &*table };
        if table.version.major != MAJOR {
            return Err(unusable(&format!("has version {}.{}", table.version.major, table.version.minor)));
        }
        match (table.managed_to_object, table.borrow) {
            (Some(managed_to_object), Some(borrow)) => {
                Ok(Exchange { tensor_type: tensor_type.unbind(), managed_to_object, borrow })
            }
            _ => Err(unusable("lacks a function")),
        }
    }

    /// `object` as an argument: a tensor on the CPU, borrowed for as long as the caller holds it.
    pub(crate) fn argument(&self, object: &Bound<'_, PyAny>) -> PyResult<Argument> {
        if self.is_tensor(object) {
            return self.tensor(object).map(Argument::Tensor);
        }
        if object.is_none() {
            return Ok(Argument::None);
        }
        if let Ok(n) = object.cast::<pyo3::types::PyInt>() {
            return Ok(Argument::Int(n.extract()?));
        }
        if let Ok(x) = object.cast::<pyo3::types::PyFloat>() {
            return Ok(Argument::Float(x.extract()?));
        }
        let name = object.get_type().name()?;
        Err(PyTypeError::new_err(format!("expected a tensor or a number, got {name}")))
    }

    /// By the type's own bases: cheaper than `isinstance`, which asks the metaclass.
    fn is_tensor(&self, object: &Bound<'_, PyAny>) -> bool {
        // SAFETY: both are live objects, and `Tensor` is a type.
        unsafe { ffi::PyObject_TypeCheck(object.as_ptr(), self.tensor_type.as_ptr().cast()) != 0 }
    }

    /// `object` as an argument of a program that runs on device "tpu".
    pub(crate) fn operand(&self, object: &Bound<'_, PyAny>) -> PyResult<Operand> {
        if !self.is_tensor(object) {
            return Ok(match self.argument(object)? {
                Argument::Int(n) => Operand::Int(n),
                Argument::Float(x) => Operand::Float(x),
                Argument::Tensor(_) | Argument::None => Operand::None,
            });
        }
        let raw = self.lend(object)?;
        if raw.device.kind == CPU {
            return host_tensor(&raw).map(Operand::Host);
        }
        let (sizes, strides) = (extents(raw.shape, raw.rank), extents(raw.strides, raw.rank));
        let ty = CellType { dtype: dtype(raw.dtype)?, layout: Layout { sizes, strides, offset: 0 } };
        Ok(Operand::Tensor { address: raw.data as usize + raw.byte_offset as usize, ty })
    }

    fn tensor(&self, object: &Bound<'_, PyAny>) -> PyResult<HostTensor> {
        host_tensor(&self.lend(object)?)
    }

    /// PyTorch's function takes the caller's word that the object is a tensor.
    fn lend(&self, object: &Bound<'_, PyAny>) -> PyResult<DlTensor> {
        let py = object.py();
        let mut raw = DlTensor {
            data: ptr::null_mut(),
            device: DlDevice { kind: 0, index: 0 },
            rank: 0,
            dtype: DlType { code: 0, bits: 0, lanes: 0 },
            shape: ptr::null_mut(),
            strides: ptr::null_mut(),
            byte_offset: 0,
        };
        // SAFETY: a live tensor and a place for the answer.
        if unsafe { (self.borrow)(object.as_ptr().cast(), &mut raw) } != 0 {
            // PyTorch's own message is a C++ trace.
            drop(PyErr::fetch(py));
            return Err(foreign(object));
        }
        Ok(raw)
    }

    /// A new tensor object over memory of the plugin's, freed with the tensor or when that is resized.
    pub(crate) fn object<'py>(&self, py: Python<'py>, output: OutputTensor) -> PyResult<Bound<'py, PyAny>> {
        let owner = Owner::new(output);
        let raw = Box::into_raw(owner);
        let mut object: *mut c_void = ptr::null_mut();
        // SAFETY: `raw` is a valid managed tensor, whose ownership passes over. On failure PyTorch has not taken it.
        unsafe {
            (*raw).managed.context = raw.cast();
            if (self.managed_to_object)(&mut (*raw).managed, &mut object) != 0 {
                drop(Box::from_raw(raw));
                return Err(PyErr::fetch(py));
            }
            eager::abi::let_grow(object);
            Ok(Bound::from_owned_ptr(py, object.cast()))
        }
    }
}

/// The error for a tensor whose memory cannot be borrowed.
fn foreign(object: &Bound<'_, PyAny>) -> PyErr {
    let text = |name: &str| object.getattr(name).and_then(|a| a.str()).map(|s| s.to_string()).unwrap_or_default();
    let (device, layout) = (text("device"), text("layout"));
    PyTypeError::new_err(format!("expected a strided tensor on the CPU, got one on `{device}` of layout {layout}"))
}

fn unusable(what: &str) -> PyErr {
    PyRuntimeError::new_err(format!(
        "torch.Tensor.__dlpack_c_exchange_api__ {what}; torchtpu needs torch 2.15, with DLPack {MAJOR}.x"
    ))
}

static NOBODY: LazyLock<Arc<dyn Any + Send + Sync>> = LazyLock::new(|| Arc::new(()));

fn host_tensor(raw: &DlTensor) -> PyResult<HostTensor> {
    if raw.device.kind != CPU {
        return Err(PyTypeError::new_err("expected a tensor on the CPU; move it with .cpu() first"));
    }
    let dtype = dtype(raw.dtype)?;
    let shape: Shape = extents(raw.shape, raw.rank);
    let strides: Strides = extents(raw.strides, raw.rank);
    let len = driver::span_in_bytes(dtype, &shape, &strides);
    let data = raw.data.cast::<u8>().wrapping_add(raw.byte_offset as usize);
    // SAFETY: the tensor's memory spans its elements. The caller keeps the tensor alive during the call, and the call
    // returns only when the execution is over; later calls use the memory only for a live tensor at this address. It is
    // written only for arguments that the program mutates.
    let memory = unsafe { HostMemory::from_raw(data, len, HostAccess::ReadWrite, NOBODY.clone()) };
    Ok(HostTensor { memory, dtype, shape, strides })
}

fn extents(from: *const i64, rank: i32) -> SmallVec<[usize; 6]> {
    if rank <= 0 || from.is_null() {
        return SmallVec::new();
    }
    // SAFETY: DLPack's contract: `rank` numbers.
    let numbers = unsafe { std::slice::from_raw_parts(from, rank as usize) };
    numbers.iter().map(|&n| n.max(0) as usize).collect()
}

/// DLPack's type codes and widths, beside ours.
const TYPES: [(u8, u8, DType); 17] = [
    (6, 8, DType::Bool),
    (0, 8, DType::I8),
    (0, 16, DType::I16),
    (0, 32, DType::I32),
    (0, 64, DType::I64),
    (1, 8, DType::U8),
    (1, 16, DType::U16),
    (1, 32, DType::U32),
    (1, 64, DType::U64),
    (10, 8, DType::F8E4M3FN),
    (12, 8, DType::F8E5M2),
    (4, 16, DType::BF16),
    (2, 16, DType::F16),
    (2, 32, DType::F32),
    (2, 64, DType::F64),
    (5, 64, DType::C64),
    (5, 128, DType::C128),
];

fn dtype(ty: DlType) -> PyResult<DType> {
    let known = TYPES.iter().find(|(code, bits, _)| *code == ty.code && *bits == ty.bits && ty.lanes == 1);
    known.map(|t| t.2).ok_or_else(|| {
        PyTypeError::new_err(format!("tensors of DLPack type code {} with {} bits are not supported", ty.code, ty.bits))
    })
}

fn dl_type(dtype: DType) -> DlType {
    let (code, bits, _) = TYPES[TYPES.iter().position(|t| t.2 == dtype).unwrap_or(0)];
    DlType { code, bits, lanes: 1 }
}

/// A managed tensor with all it points to.
#[repr(C)]
struct Owner {
    managed: Managed,
    shape: SmallVec<[i64; 6]>,
    strides: SmallVec<[i64; 6]>,
    _memory: SharedMemory,
}

impl Owner {
    fn new(output: OutputTensor) -> Box<Owner> {
        let signed = |v: &[usize]| v.iter().map(|&n| n as i64).collect::<SmallVec<[i64; 6]>>();
        let (shape, strides) = (signed(&output.shape), signed(&output.strides));
        let tensor = DlTensor {
            data: output.memory.address() as *mut c_void,
            device: DlDevice { kind: CPU, index: 0 },
            rank: shape.len() as i32,
            dtype: dl_type(output.dtype),
            shape: ptr::null_mut(),
            strides: ptr::null_mut(),
            byte_offset: 0,
        };
        let version = Version { major: MAJOR, minor: 1 };
        let managed = Managed { version, context: ptr::null_mut(), deleter: Some(delete), flags: 0, tensor };
        let mut owner = Box::new(Owner { managed, shape, strides, _memory: output.memory });
        owner.managed.tensor.shape = owner.shape.as_mut_ptr();
        owner.managed.tensor.strides = owner.strides.as_mut_ptr();
        owner
    }
}

unsafe extern "C" fn delete(managed: *mut Managed) {
    // SAFETY: DLPack calls it once, with what `Exchange::object` handed over.
    unsafe { drop(Box::from_raw((*managed).context.cast::<Owner>())) }
}
