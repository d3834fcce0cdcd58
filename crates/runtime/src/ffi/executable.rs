//! A plugin's compiled program: as it is, and loaded on devices.

use std::ffi::c_int;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use super::api::{Api, Nested, Value, bytes, decode_named_values, list, text};
use super::client::{RawClient, not_null};
use super::sys::{self, PJRT_Executable, PJRT_LoadedExecutable, Zeroable};
use crate::error::{Error, Result};
use crate::types::{ElementType, TensorType};

/// An owned executable in its plain form, which answers questions.
pub(crate) struct RawCompiled {
    api: &'static Api,
    ptr: NonNull<PJRT_Executable>,
}

/// An owned executable in its loaded form, which runs.
pub(crate) struct RawExecutable {
    pub(super) client: Arc<RawClient>,
    pub(super) loaded: NonNull<PJRT_LoadedExecutable>,
    /// Its plain form. Goes before the client.
    pub(crate) plain: RawCompiled,
    /// Indices of the devices that it runs on, in launch order.
    pub(crate) devices: Vec<usize>,
    /// Outputs per device.
    pub(super) num_outputs: usize,
}

// SAFETY: PJRT executables may be used from any thread.
unsafe impl Send for RawCompiled {}
// SAFETY: PJRT executables are internally synchronised.
unsafe impl Sync for RawCompiled {}
// SAFETY: as above.
unsafe impl Send for RawExecutable {}
// SAFETY: as above.
unsafe impl Sync for RawExecutable {}

/// Calls a function that takes nothing but the plain executable, and returns its filled arguments.
macro_rules! query {
    ($plain:expr, $args:ident) => {
        // SAFETY: the executable is alive, and the function takes no other pointer.
        unsafe { $plain.api.call(sys::$args { executable: $plain.ptr.as_ptr(), ..Zeroable::zeroed() }) }
    };
}

impl RawExecutable {
    /// Takes ownership of a loaded executable.
    ///
    /// # Safety
    /// `loaded` is an owned executable of `client`.
    pub(super) unsafe fn from_raw(
        client: &Arc<RawClient>,
        loaded: NonNull<PJRT_LoadedExecutable>,
    ) -> Result<RawExecutable> {
        let owned = Loaded { client, loaded };
        // SAFETY: `loaded` is alive; the plain form is ours, the list of devices lives as long as `loaded`.
        let (plain, devices) = unsafe {
            let args = sys::PJRT_LoadedExecutable_GetExecutable_Args {
                loaded_executable: loaded.as_ptr(),
                ..Zeroable::zeroed()
            };
            let executable = client.api.call(args)?.executable;
            let ptr = not_null::<sys::PJRT_LoadedExecutable_GetExecutable_Args, _>(executable, "executable")?;
            let plain = RawCompiled::from_raw(client.api, ptr);
            let args = sys::PJRT_LoadedExecutable_AddressableDevices_Args {
                executable: loaded.as_ptr(),
                ..Zeroable::zeroed()
            };
            let args = client.api.call(args)?;
            (plain, list(args.addressable_devices, args.num_addressable_devices))
        };
        let devices = devices.iter().map(|&device| client.device_index(device)).collect::<Result<_>>()?;
        let num_outputs = plain.num_outputs()?;
        std::mem::forget(owned);
        Ok(RawExecutable { client: Arc::clone(client), loaded, plain, devices, num_outputs })
    }

    pub(crate) fn client(&self) -> &Arc<RawClient> {
        &self.client
    }
}

impl RawCompiled {
    /// Takes ownership of a plain executable.
    ///
    /// # Safety
    /// `ptr` is an owned executable of the plugin behind `api`.
    pub(super) unsafe fn from_raw(api: &'static Api, ptr: NonNull<PJRT_Executable>) -> RawCompiled {
        RawCompiled { api, ptr }
    }

    pub(super) fn num_outputs(&self) -> Result<usize> {
        Ok(query!(self, PJRT_Executable_NumOutputs_Args)?.num_outputs)
    }

    pub(crate) fn name(&self) -> Result<String> {
        let args = query!(self, PJRT_Executable_Name_Args)?;
        // SAFETY: the string lives as long as the executable, and is copied.
        Ok(unsafe { text(args.executable_name, args.executable_name_size) })
    }

    pub(crate) fn num_replicas(&self) -> Result<usize> {
        Ok(query!(self, PJRT_Executable_NumReplicas_Args)?.num_replicas)
    }

    pub(crate) fn num_partitions(&self) -> Result<usize> {
        Ok(query!(self, PJRT_Executable_NumPartitions_Args)?.num_partitions)
    }

    pub(crate) fn fingerprint(&self) -> Result<Vec<u8>> {
        let args = query!(self, PJRT_Executable_Fingerprint_Args)?;
        // SAFETY: the string lives as long as the executable, and is copied.
        Ok(unsafe { bytes(args.executable_fingerprint, args.executable_fingerprint_size) }.to_vec())
    }

    pub(crate) fn cost_analysis(&self) -> Result<Vec<(String, Value)>> {
        let args = query!(self, PJRT_Executable_GetCostAnalysis_Args)?;
        // SAFETY: the properties live as long as the executable, and are copied.
        Ok(unsafe { decode_named_values(args.properties, args.num_properties) })
    }

    pub(crate) fn memory_analysis(&self) -> Result<MemoryAnalysis> {
        let args = query!(self, PJRT_Executable_GetCompiledMemoryStats_Args)?;
        Ok(MemoryAnalysis {
            generated_code: args.generated_code_size_in_bytes,
            arguments: args.argument_size_in_bytes,
            outputs: args.output_size_in_bytes,
            aliased: args.alias_size_in_bytes,
            temporaries: args.temp_size_in_bytes,
            peak: args.peak_memory_in_bytes,
        })
    }

    /// Types of one device's outputs.
    pub(crate) fn output_types(&self) -> Result<Vec<TensorType>> {
        let count = self.num_outputs()?;
        let types = query!(self, PJRT_Executable_OutputElementTypes_Args)?;
        let shapes = query!(self, PJRT_Executable_OutputDimensions_Args)?;
        // SAFETY: the lists live as long as the executable; `dims` is as long as the sizes add up to.
        let (types, ranks, dims) = unsafe {
            let types: &[c_int] = list(types.output_types, types.num_output_types);
            let ranks: &[usize] = list(shapes.dim_sizes, shapes.num_outputs);
            let total = ranks.iter().fold(0usize, |sum, &rank| sum.saturating_add(rank));
            (types, ranks, list(shapes.dims, total))
        };
        let total: usize = ranks.iter().sum();
        if types.len() != count || ranks.len() != count || dims.len() != total {
            let what = format!("{count} outputs, but {} types and {} shapes", types.len(), ranks.len());
            return Err(Error::BadResult { function: "PJRT_Executable_OutputDimensions", what });
        }
        let mut rest = dims;
        let mut outputs = Vec::with_capacity(count);
        for (&ty, &rank) in types.iter().zip(ranks) {
            let (dims, tail) = rest.split_at(rank);
            rest = tail;
            outputs.push(TensorType::new(ElementType::from_raw(ty)?, dims));
        }
        Ok(outputs)
    }

    /// The plugin's own serialized form.
    pub(crate) fn serialize(&self) -> Result<Vec<u8>> {
        let args = query!(self, PJRT_Executable_Serialize_Args)?;
        // SAFETY: the bytes live until the deleter runs, which happens once, after the copy.
        unsafe {
            let serialized = bytes(args.serialized_bytes, args.serialized_bytes_size).to_vec();
            if let Some(delete) = args.serialized_executable_deleter {
                delete(args.serialized_executable);
            }
            Ok(serialized)
        }
    }

    /// Format and bytes of the optimized program.
    pub(crate) fn optimized_program(&self) -> Result<(String, Vec<u8>)> {
        let mut program = Nested::new(sys::PJRT_Program::zeroed());
        let args = |program: &mut Nested<sys::PJRT_Program>| sys::PJRT_Executable_OptimizedProgram_Args {
            executable: self.ptr.as_ptr(),
            program: program.as_mut_ptr(),
            ..Zeroable::zeroed()
        };
        // SAFETY: no memory is offered, so the plugin only says how much it needs.
        unsafe { self.api.call(args(&mut program)) }?;
        let mut code = vec![0u8; program.get().code_size];
        program.get().code = code.as_mut_ptr().cast();
        program.get().format = ptr::null();
        // SAFETY: the memory has the size that the plugin asked for.
        unsafe { self.api.call(args(&mut program)) }?;
        code.truncate(program.get().code_size);
        let (format, size) = (program.get().format, program.get().format_size);
        // SAFETY: the format is a string of the plugin's.
        Ok((unsafe { text(format, size) }, code))
    }
}

/// Destroys a loaded executable whose other half could not be had.
struct Loaded<'a> {
    client: &'a Arc<RawClient>,
    loaded: NonNull<PJRT_LoadedExecutable>,
}

impl Drop for Loaded<'_> {
    fn drop(&mut self) {
        // SAFETY: owned, and destroyed only here or in `RawExecutable`, which forgets this guard.
        unsafe { destroy_loaded(self.client, self.loaded) };
    }
}

impl Drop for RawExecutable {
    fn drop(&mut self) {
        // SAFETY: owned, and destroyed only here.
        unsafe { destroy_loaded(&self.client, self.loaded) };
    }
}

/// # Safety
/// `loaded` is owned by the caller, who gives it up.
unsafe fn destroy_loaded(client: &RawClient, loaded: NonNull<PJRT_LoadedExecutable>) {
    let args = sys::PJRT_LoadedExecutable_Destroy_Args { executable: loaded.as_ptr(), ..Zeroable::zeroed() };
    // SAFETY: forwarded to the caller.
    unsafe { client.api.call_quietly(args) };
}

impl Drop for RawCompiled {
    fn drop(&mut self) {
        let args = sys::PJRT_Executable_Destroy_Args { executable: self.ptr.as_ptr(), ..Zeroable::zeroed() };
        // SAFETY: owned, and destroyed only here.
        unsafe { self.api.call_quietly(args) };
    }
}

/// Device memory that an executable needs, in bytes, as its compiler counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryAnalysis {
    /// Machine code.
    pub generated_code: i64,
    /// Arguments.
    pub arguments: i64,
    /// Outputs, those that reuse arguments included.
    pub outputs: i64,
    /// Arguments that outputs reuse.
    pub aliased: i64,
    /// Memory used only while running.
    pub temporaries: i64,
    /// The most in use at once; 0 where the plugin does not say.
    pub peak: i64,
}
