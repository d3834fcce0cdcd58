//! Devices that are not there: a plugin's description of a machine, and compiling for it.

use std::ptr::NonNull;

use super::api::{Api, Value, decode_named_values, encode_named_values, list, text};
use super::client::{DeviceInfo, Source, not_null};
use super::executable::RawCompiled;
use super::sys::{self, PJRT_TopologyDescription, Zeroable};
use crate::error::Result;

/// An owned description of a machine.
pub(crate) struct RawTopology {
    api: &'static Api,
    ptr: NonNull<PJRT_TopologyDescription>,
}

// SAFETY: descriptions never change, and may be used from any thread.
unsafe impl Send for RawTopology {}
// SAFETY: as above.
unsafe impl Sync for RawTopology {}

impl RawTopology {
    /// The machine that the plugin knows under `name`.
    pub(crate) fn create(api: &'static Api, name: &str, options: &[(&str, Value)]) -> Result<RawTopology> {
        let named = encode_named_values(options);
        let args = sys::PJRT_TopologyDescription_Create_Args {
            topology_name: name.as_ptr().cast(),
            topology_name_size: name.len(),
            create_options: named.as_ptr(),
            num_options: named.len(),
            ..Zeroable::zeroed()
        };
        // SAFETY: name and options outlive the call.
        let topology = unsafe { api.call(args) }?.topology;
        let ptr = not_null::<sys::PJRT_TopologyDescription_Create_Args, _>(topology, "topology")?;
        Ok(RawTopology { api, ptr })
    }

    /// Its devices, in the plugin's order.
    pub(crate) fn devices(&self) -> Result<Vec<DeviceInfo>> {
        let args = sys::PJRT_TopologyDescription_GetDeviceDescriptions_Args {
            topology: self.ptr.as_ptr(),
            ..Zeroable::zeroed()
        };
        // SAFETY: the descriptions live as long as the topology.
        let descriptions = unsafe {
            let args = self.api.call(args)?;
            list(args.descriptions, args.num_descriptions)
        };
        let read = |&description| {
            let description =
                not_null::<sys::PJRT_TopologyDescription_GetDeviceDescriptions_Args, _>(description, "description")?;
            // SAFETY: as above.
            unsafe { DeviceInfo::read(self.api, description) }
        };
        descriptions.iter().map(read).collect()
    }

    /// What the plugin tells about it.
    pub(crate) fn attributes(&self) -> Result<Vec<(String, Value)>> {
        let args = sys::PJRT_TopologyDescription_Attributes_Args { topology: self.ptr.as_ptr(), ..Zeroable::zeroed() };
        // SAFETY: the attributes live as long as the topology, and are copied.
        unsafe {
            let args = self.api.call(args)?;
            Ok(decode_named_values(args.attributes, args.num_attributes))
        }
    }

    /// Build and version of the compiler.
    pub(crate) fn platform_version(&self) -> Result<String> {
        let args =
            sys::PJRT_TopologyDescription_PlatformVersion_Args { topology: self.ptr.as_ptr(), ..Zeroable::zeroed() };
        // SAFETY: the string lives as long as the topology, and is copied.
        unsafe {
            let args = self.api.call(args)?;
            Ok(text(args.platform_version, args.platform_version_size))
        }
    }

    /// Compiles `program`, given in MLIR text or bytecode, with serialized `options`.
    pub(crate) fn compile(&self, program: &[u8], options: &[u8]) -> Result<RawCompiled> {
        let mut program = Source::new(program)?;
        let args = sys::PJRT_Compile_Args {
            topology: self.ptr.as_ptr(),
            program: program.as_ptr(),
            compile_options: options.as_ptr().cast(),
            compile_options_size: options.len(),
            ..Zeroable::zeroed()
        };
        // SAFETY: everything pointed to outlives the call, a program that is compiled is only read, and no client is given.
        unsafe {
            let executable = self.api.call(args)?.executable;
            let ptr = not_null::<sys::PJRT_Compile_Args, _>(executable, "executable")?;
            Ok(RawCompiled::from_raw(self.api, ptr))
        }
    }
}

impl Drop for RawTopology {
    fn drop(&mut self) {
        let args = sys::PJRT_TopologyDescription_Destroy_Args { topology: self.ptr.as_ptr(), ..Zeroable::zeroed() };
        // SAFETY: owned, and destroyed only here.
        unsafe { self.api.call_quietly(args) };
    }
}
