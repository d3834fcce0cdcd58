//! A plugin's client: its devices, and what is made on them.

use std::collections::VecDeque;
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex, PoisonError};

use super::api::{Api, Nested, Value, encode_named_values, list, text};
use super::buffer::RawBuffer;
use super::event::Event;
use super::executable::RawExecutable;
use super::host::AlignedBytes;
use super::sys::{self, PJRT_Buffer, PJRT_Client, PJRT_Device, PJRT_DeviceDescription, Zeroable};
use super::table::Args;
use crate::compile_options::CompileOptions;
use crate::error::{Error, Result};
use crate::types::TensorType;

/// What never changes about a device.
pub(crate) struct DeviceInfo {
    pub(crate) id: i32,
    pub(crate) kind: String,
    pub(crate) description: String,
}

impl DeviceInfo {
    /// # Safety
    /// `description` is alive, and of the plugin behind `api`.
    pub(super) unsafe fn read(api: &'static Api, description: NonNull<PJRT_DeviceDescription>) -> Result<DeviceInfo> {
        let device_description = description.as_ptr();
        // SAFETY: forwarded to the caller; strings live as long as the description, and are copied.
        unsafe {
            let args = sys::PJRT_DeviceDescription_Id_Args { device_description, ..Zeroable::zeroed() };
            let id = api.call(args)?.id;
            let args = sys::PJRT_DeviceDescription_Kind_Args { device_description, ..Zeroable::zeroed() };
            let args = api.call(args)?;
            let kind = text(args.device_kind, args.device_kind_size);
            let args = sys::PJRT_DeviceDescription_DebugString_Args { device_description, ..Zeroable::zeroed() };
            let args = api.call(args)?;
            Ok(DeviceInfo { id, kind, description: text(args.debug_string, args.debug_string_size) })
        }
    }
}

/// A program in MLIR text or bytecode, as plugins take it.
pub(super) struct Source {
    program: Nested<sys::PJRT_Program>,
    /// What `program` points to.
    _bytes: AlignedBytes,
}

impl Source {
    pub(super) fn new(program: &[u8]) -> Result<Source> {
        const FORMAT: &str = "mlir";
        // MLIR's lexer ignores the size and stops at a zero byte: without one it reads what lies behind the program.
        // Bytecode with large constants also wants the alignment.
        let mut bytes = AlignedBytes::zeroed(program.len().saturating_add(1))?;
        bytes[..program.len()].copy_from_slice(program);
        let program = Nested::new(sys::PJRT_Program {
            code: bytes.as_mut_ptr().cast(),
            code_size: program.len(),
            format: FORMAT.as_ptr().cast(),
            format_size: FORMAT.len(),
            ..Zeroable::zeroed()
        });
        Ok(Source { program, _bytes: bytes })
    }

    /// Valid for as long as `self` is neither moved nor dropped.
    pub(super) fn as_ptr(&mut self) -> *const sys::PJRT_Program {
        self.program.as_mut_ptr()
    }
}

/// An owned client.
pub(crate) struct RawClient {
    pub(super) api: &'static Api,
    pub(super) ptr: NonNull<PJRT_Client>,
    devices: Vec<NonNull<PJRT_Device>>,
    /// Facts about the addressable devices, in the plugin's order.
    pub(crate) device_infos: Vec<DeviceInfo>,
    pub(crate) platform_name: String,
    pub(crate) platform_version: String,
    /// The API does not promise that external references may be taken on several threads at once.
    pub(super) external_references: Mutex<()>,
    /// Buffers that nobody has any more, behind the executions that took them over.
    buried: Mutex<VecDeque<(Arc<Event>, NonNull<PJRT_Buffer>)>>,
}

// SAFETY: PJRT clients may be used from any thread.
unsafe impl Send for RawClient {}
// SAFETY: PJRT clients are internally synchronised.
unsafe impl Sync for RawClient {}

/// Where a buffer's contents come from.
pub(super) struct HostSource<'a> {
    pub(super) data: *mut u8,
    pub(super) ty: &'a TensorType,
    pub(super) byte_strides: Option<&'a [i64]>,
    pub(super) semantics: i32,
}

impl RawClient {
    /// Creates a client.
    pub(crate) fn create(api: &'static Api, options: &[(&str, Value)]) -> Result<Arc<RawClient>> {
        let named = encode_named_values(options);
        let args = sys::PJRT_Client_Create_Args {
            create_options: named.as_ptr(),
            num_options: named.len(),
            ..Zeroable::zeroed()
        };
        // SAFETY: the options outlive the call; no key-value store is offered.
        let client = unsafe { api.call(args) }?.client;
        let ptr = not_null::<sys::PJRT_Client_Create_Args, _>(client, "client")?;
        let mut client = RawClient {
            api,
            ptr,
            devices: Vec::new(),
            device_infos: Vec::new(),
            platform_name: String::new(),
            platform_version: String::new(),
            external_references: Mutex::new(()),
            buried: Mutex::default(),
        };
        client.platform_name = client.read_platform_name()?;
        client.platform_version = client.read_platform_version()?;
        client.devices = client.read_devices()?;
        let infos = client.devices.iter().map(|&device| client.read_device_info(device));
        client.device_infos = infos.collect::<Result<_>>()?;
        Ok(Arc::new(client))
    }

    fn read_platform_name(&self) -> Result<String> {
        // SAFETY: the client is alive, and so are its strings.
        unsafe {
            let args = self
                .api
                .call(sys::PJRT_Client_PlatformName_Args { client: self.ptr.as_ptr(), ..Zeroable::zeroed() })?;
            Ok(text(args.platform_name, args.platform_name_size))
        }
    }

    fn read_platform_version(&self) -> Result<String> {
        // SAFETY: the client is alive, and so are its strings.
        unsafe {
            let args = self
                .api
                .call(sys::PJRT_Client_PlatformVersion_Args { client: self.ptr.as_ptr(), ..Zeroable::zeroed() })?;
            Ok(text(args.platform_version, args.platform_version_size))
        }
    }

    fn read_devices(&self) -> Result<Vec<NonNull<PJRT_Device>>> {
        let args = sys::PJRT_Client_AddressableDevices_Args { client: self.ptr.as_ptr(), ..Zeroable::zeroed() };
        // SAFETY: the client is alive, and its list of devices lives as long.
        let devices = unsafe {
            let args = self.api.call(args)?;
            list(args.addressable_devices, args.num_addressable_devices)
        };
        let check = |&device| not_null::<sys::PJRT_Client_AddressableDevices_Args, _>(device, "device");
        devices.iter().map(check).collect()
    }

    fn read_device_info(&self, device: NonNull<PJRT_Device>) -> Result<DeviceInfo> {
        let args = sys::PJRT_Device_GetDescription_Args { device: device.as_ptr(), ..Zeroable::zeroed() };
        // SAFETY: devices and their descriptions live as long as the client.
        unsafe {
            let description = self.api.call(args)?.device_description;
            let description = not_null::<sys::PJRT_Device_GetDescription_Args, _>(description, "description")?;
            DeviceInfo::read(self.api, description)
        }
    }

    pub(super) fn device(&self, index: usize) -> Result<NonNull<PJRT_Device>> {
        let unknown = || Error::Invalid(format!("there is no device {index} among {}", self.devices.len()));
        self.devices.get(index).copied().ok_or_else(unknown)
    }

    pub(super) fn device_index(&self, device: *mut PJRT_Device) -> Result<usize> {
        let unknown = || Error::Invalid("the object is on a device that this process cannot address".to_owned());
        self.devices.iter().position(|known| known.as_ptr() == device).ok_or_else(unknown)
    }

    /// Use of a device's memory, where the plugin counts it.
    pub(crate) fn memory_stats(&self, device: usize) -> Result<DeviceMemoryStats> {
        let args = sys::PJRT_Device_MemoryStats_Args { device: self.device(device)?.as_ptr(), ..Zeroable::zeroed() };
        // SAFETY: the device lives as long as the client.
        let args = unsafe { self.api.call(args) }?;
        let set = |value: i64, is_set: u8| (is_set != 0).then_some(value);
        Ok(DeviceMemoryStats {
            bytes_in_use: args.bytes_in_use,
            peak_bytes_in_use: set(args.peak_bytes_in_use, args.peak_bytes_in_use_is_set),
            num_allocs: set(args.num_allocs, args.num_allocs_is_set),
            largest_alloc_size: set(args.largest_alloc_size, args.largest_alloc_size_is_set),
            bytes_limit: set(args.bytes_limit, args.bytes_limit_is_set),
            bytes_reserved: set(args.bytes_reserved, args.bytes_reserved_is_set),
        })
    }

    /// Compiles `program`, given in MLIR text or bytecode.
    pub(crate) fn compile(self: &Arc<Self>, program: &[u8], options: &CompileOptions) -> Result<RawExecutable> {
        let bytes = options.to_bytes();
        if options.undivided {
            return self.api.undivided(|| self.compile_with(program, &bytes));
        }
        self.compile_with(program, &bytes)
    }

    fn compile_with(self: &Arc<Self>, program: &[u8], options: &[u8]) -> Result<RawExecutable> {
        let mut program = Source::new(program)?;
        let args = sys::PJRT_Client_Compile_Args {
            client: self.ptr.as_ptr(),
            program: program.as_ptr(),
            compile_options: options.as_ptr().cast(),
            compile_options_size: options.len(),
            ..Zeroable::zeroed()
        };
        // SAFETY: everything pointed to outlives the call, and a program that is compiled is only read.
        unsafe {
            let executable = self.api.call(args)?.executable;
            let loaded = not_null::<sys::PJRT_Client_Compile_Args, _>(executable, "executable")?;
            RawExecutable::from_raw(self, loaded)
        }
    }

    /// Loads an executable that was serialized by the same plugin build.
    pub(crate) fn deserialize(self: &Arc<Self>, serialized: &[u8]) -> Result<RawExecutable> {
        let args = sys::PJRT_Executable_DeserializeAndLoad_Args {
            client: self.ptr.as_ptr(),
            serialized_executable: serialized.as_ptr().cast(),
            serialized_executable_size: serialized.len(),
            ..Zeroable::zeroed()
        };
        // SAFETY: the bytes outlive the call.
        unsafe {
            let executable = self.api.call(args)?.loaded_executable;
            let loaded = not_null::<sys::PJRT_Executable_DeserializeAndLoad_Args, _>(executable, "executable")?;
            RawExecutable::from_raw(self, loaded)
        }
    }

    /// Makes a buffer from host memory; the event says when the plugin no longer uses that memory.
    ///
    /// # Safety
    /// `source` describes readable memory (writable for mutable semantics), for as long as its semantics ask.
    pub(super) unsafe fn buffer_from_host(
        self: &Arc<Self>,
        device: usize,
        source: &HostSource<'_>,
    ) -> Result<(RawBuffer, Event)> {
        const ORIGIN: &str = sys::PJRT_Client_BufferFromHostBuffer_Args::FUNCTION;
        let (dims, strides) = (&source.ty.dims, source.byte_strides.unwrap_or_default());
        let args = sys::PJRT_Client_BufferFromHostBuffer_Args {
            client: self.ptr.as_ptr(),
            data: source.data.cast(),
            type_: source.ty.element_type.raw(),
            dims: dims.as_ptr(),
            num_dims: dims.len(),
            byte_strides: if strides.is_empty() { ptr::null() } else { strides.as_ptr() },
            num_byte_strides: strides.len(),
            host_buffer_semantics: source.semantics,
            device: self.device(device)?.as_ptr(),
            ..Zeroable::zeroed()
        };
        // SAFETY: dims and strides outlive the call; the caller vouches for the data.
        unsafe {
            let args = self.api.call(args)?;
            let event = Event::from_raw(self.api, args.done_with_host_buffer, ORIGIN);
            let buffer = not_null::<sys::PJRT_Client_BufferFromHostBuffer_Args, _>(args.buffer, "buffer")
                .map(|buffer| RawBuffer::from_raw(self, buffer));
            Ok((buffer?, event?))
        }
    }

    /// Destroys a buffer.
    ///
    /// # Safety
    /// `buffer` is one of this client's, and the caller's own.
    pub(super) unsafe fn destroy(&self, buffer: NonNull<PJRT_Buffer>) {
        // SAFETY: forwarded to the caller.
        unsafe {
            self.api.call_quietly(sys::PJRT_Buffer_Destroy_Args { buffer: buffer.as_ptr(), ..Zeroable::zeroed() });
        }
    }

    /// Destroys a donated buffer some time after `execution`, which took it over: XLA's CPU client makes whoever does so
    /// earlier wait for that. Its memory is no longer its own.
    ///
    /// # Safety
    /// As [`RawClient::destroy`].
    pub(super) unsafe fn bury(&self, buffer: NonNull<PJRT_Buffer>, execution: Arc<Event>) {
        let mut buried = self.buried.lock().unwrap_or_else(PoisonError::into_inner);
        buried.push_back((execution, buffer));
        while let Some((_, buffer)) = buried.pop_front_if(|(execution, _)| execution.is_ready().unwrap_or(true)) {
            // SAFETY: it was given away, and left the list.
            unsafe { self.destroy(buffer) };
        }
    }
}

impl Drop for RawClient {
    fn drop(&mut self) {
        let buried = self.buried.get_mut().unwrap_or_else(PoisonError::into_inner);
        for (_, buffer) in std::mem::take(buried) {
            // SAFETY: as in `bury`.
            unsafe { self.destroy(buffer) };
        }
        let args = sys::PJRT_Client_Destroy_Args { client: self.ptr.as_ptr(), ..Zeroable::zeroed() };
        // SAFETY: owned; everything made by it holds it, so nothing of it is left.
        unsafe { self.api.call_quietly(args) };
    }
}

/// Checks a pointer that a plugin returned with success.
pub(super) fn not_null<A: Args, T>(pointer: *mut T, what: &str) -> Result<NonNull<T>> {
    let missing = || Error::BadResult { function: A::FUNCTION, what: format!("it returned no {what}") };
    NonNull::new(pointer).ok_or_else(missing)
}

/// Use of one device's memory, in bytes. What the plugin does not count is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceMemoryStats {
    /// Bytes allocated now.
    pub bytes_in_use: i64,
    /// The most bytes ever allocated at once.
    pub peak_bytes_in_use: Option<i64>,
    /// Number of allocations.
    pub num_allocs: Option<i64>,
    /// Size of the largest allocation.
    pub largest_alloc_size: Option<i64>,
    /// Bytes that can be allocated in all.
    pub bytes_limit: Option<i64>,
    /// Bytes set aside by the plugin.
    pub bytes_reserved: Option<i64>,
}
