//! Compiling for a machine that is not there.

use crate::compile_options::CompileOptions;
use crate::error::Result;
use crate::ffi::{DeviceInfo, MemoryAnalysis, RawCompiled, RawTopology, Value};
use crate::optimized::OptimizedProgram;
use crate::plugin::Plugin;
use crate::types::TensorType;

/// A machine as a plugin describes it, whether or not it is there.
pub struct Topology {
    raw: RawTopology,
    devices: Vec<DeviceInfo>,
}

impl Topology {
    /// The machine that the plugin knows under `name`, such as `v5e:2x2`.
    ///
    /// # Errors
    /// When the plugin knows no such machine, or describes none.
    pub fn new(plugin: Plugin, name: &str) -> Result<Topology> {
        let raw = RawTopology::create(plugin.api, name, &[])?;
        let devices = raw.devices()?;
        Ok(Topology { raw, devices })
    }

    /// How many devices it has. On chips with two cores that are not one device, twice the chips.
    pub fn num_devices(&self) -> usize {
        self.devices.len()
    }

    /// Ids of its devices, in the plugin's order.
    pub fn device_ids(&self) -> impl Iterator<Item = i32> {
        self.devices.iter().map(|device| device.id)
    }

    /// What kind of device it has, such as `TPU v5 lite`; empty if it has none.
    pub fn device_kind(&self) -> &str {
        self.devices.first().map_or("", |device| device.kind.as_str())
    }

    /// What the plugin tells about it, sorted by name.
    ///
    /// # Errors
    /// When the plugin tells nothing.
    pub fn attributes(&self) -> Result<Vec<(String, Value)>> {
        let mut attributes = self.raw.attributes()?;
        attributes.sort_by(|(left, _), (right, _)| left.cmp(right));
        Ok(attributes)
    }

    /// Build and version of the compiler.
    ///
    /// # Errors
    /// When the plugin does not say.
    pub fn platform_version(&self) -> Result<String> {
        self.raw.platform_version()
    }

    /// Compiles a StableHLO `program`, given as MLIR text or bytecode.
    ///
    /// # Errors
    /// For impossible options, and when the compiler refuses the program. Compilers are known to abort the process
    /// instead: whoever cannot afford that calls this in a process of its own.
    pub fn compile(&self, program: &[u8], options: &CompileOptions) -> Result<Compiled> {
        options.check()?;
        Ok(Compiled { raw: self.raw.compile(program, &options.to_bytes())? })
    }
}

/// A compiled program that no device of this process runs.
pub struct Compiled {
    raw: RawCompiled,
}

impl Compiled {
    /// The plugin's own form, which a client of the same plugin on the described machine loads.
    ///
    /// # Errors
    /// When the plugin cannot serialize.
    pub fn serialize(&self) -> Result<Vec<u8>> {
        self.raw.serialize()
    }

    /// Types of one device's results.
    ///
    /// # Errors
    /// When the plugin does not say.
    pub fn output_types(&self) -> Result<Vec<TensorType>> {
        self.raw.output_types()
    }

    /// The plugin's estimates, such as `flops` and `bytes accessed`, sorted by name.
    ///
    /// # Errors
    /// When the plugin makes none.
    pub fn cost_analysis(&self) -> Result<Vec<(String, Value)>> {
        let mut properties = self.raw.cost_analysis()?;
        properties.sort_by(|(left, _), (right, _)| left.cmp(right));
        Ok(properties)
    }

    /// Device memory that it needs.
    ///
    /// # Errors
    /// When the plugin does not say.
    pub fn memory_analysis(&self) -> Result<MemoryAnalysis> {
        self.raw.memory_analysis()
    }

    /// The program as the compiler left it.
    ///
    /// # Errors
    /// When the plugin does not keep it.
    pub fn optimized_program(&self) -> Result<OptimizedProgram> {
        OptimizedProgram::of(&self.raw)
    }
}
