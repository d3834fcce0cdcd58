//! Clients and their devices.

use std::sync::Arc;

use crate::compile_options::CompileOptions;
use crate::error::{Error, Result};
use crate::executable::{Executable, Signature};
use crate::ffi::{DeviceMemoryStats, RawClient, Value};
use crate::plugin::Plugin;

/// The CPU plugin's option for its number of devices, an integer. It makes four by default.
pub const CPU_DEVICE_COUNT: &str = "cpu_device_count";

/// What libtpu says where it finds no TPU; a jellyfish is one.
const NO_TPU: &str = "No jellyfish device found";

/// A connection to a plugin's devices. Clones share it; it closes with the last buffer, executable and clone.
#[derive(Clone)]
pub struct Client {
    pub(crate) raw: Arc<RawClient>,
}

impl Client {
    /// Creates a client. Options are the plugin's own, such as [`CPU_DEVICE_COUNT`]; plugins ignore those that they do
    /// not know.
    ///
    /// # Errors
    /// [`Error::NoTpu`] where libtpu finds none; whatever else the plugin refuses.
    pub fn new(plugin: Plugin, options: &[(&str, Value)]) -> Result<Client> {
        options.iter().try_for_each(check_option)?;
        let raw = RawClient::create(plugin.api, options).map_err(|error| match error {
            Error::Plugin(e) if e.message.contains(NO_TPU) => Error::NoTpu(e),
            other => other,
        })?;
        Ok(Client { raw })
    }

    /// The platform: `cpu`, `tpu`.
    pub fn platform_name(&self) -> &str {
        &self.raw.platform_name
    }

    /// What the platform says about its version.
    pub fn platform_version(&self) -> &str {
        &self.raw.platform_version
    }

    /// The devices that this process can use, in the plugin's order.
    pub fn devices(&self) -> Vec<Device> {
        (0..self.raw.device_infos.len()).map(|index| Device { client: self.clone(), index }).collect()
    }

    /// The device at `index` in [`Client::devices`].
    ///
    /// # Errors
    /// When there are fewer.
    pub fn device(&self, index: usize) -> Result<Device> {
        let count = self.raw.device_infos.len();
        if index >= count {
            return Err(Error::Invalid(format!("there is no device {index} among {count}")));
        }
        Ok(Device { client: self.clone(), index })
    }

    /// Compiles a StableHLO `program`, given as MLIR text or bytecode.
    ///
    /// `signature` says what one device's arguments are; without it, it is read from the compiled program, which
    /// costs a copy of it.
    ///
    /// # Errors
    /// [`Error::Plugin`] with the compiler's message when the program does not parse, verify or compile.
    pub fn compile(
        &self,
        program: &[u8],
        options: &CompileOptions,
        signature: Option<Signature>,
    ) -> Result<Executable> {
        options.check()?;
        Executable::new(self.raw.compile(program, options)?, signature)
    }

    /// Loads what [`Executable::serialize`] wrote on the same plugin build and kind of machine. The bytes are trusted:
    /// keep a checksum with them.
    ///
    /// # Errors
    /// [`Error::Plugin`] when the plugin does not accept the bytes.
    pub fn deserialize_and_load(&self, serialized: &[u8], signature: Option<Signature>) -> Result<Executable> {
        Executable::new(self.raw.deserialize(serialized)?, signature)
    }
}

/// The CPU plugin throws a C++ exception, which ends the process, at a value of another type, and makes a client
/// without devices of a count that is out of range.
fn check_option((name, value): &(&str, Value)) -> Result<()> {
    match value {
        _ if *name != CPU_DEVICE_COUNT => Ok(()),
        Value::I64(count) if (1..=i64::from(i32::MAX)).contains(count) => Ok(()),
        other => Err(Error::Invalid(format!("{name} must be a positive integer, not {other:?}"))),
    }
}

impl PartialEq for Client {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.raw, &other.raw)
    }
}

impl Eq for Client {}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Client({}, {} devices)", self.platform_name(), self.raw.device_infos.len())
    }
}

/// One device of a client.
#[derive(Clone, PartialEq, Eq)]
pub struct Device {
    pub(crate) client: Client,
    pub(crate) index: usize,
}

impl Device {
    /// The client that it belongs to.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Position in [`Client::devices`].
    pub fn index(&self) -> usize {
        self.index
    }

    /// The plugin's id of it, unique over all hosts.
    pub fn id(&self) -> i32 {
        self.client.raw.device_infos[self.index].id
    }

    /// The kind of hardware: `cpu`, `TPU v5e`.
    pub fn kind(&self) -> &str {
        &self.client.raw.device_infos[self.index].kind
    }

    /// The plugin's own words for it.
    pub fn description(&self) -> &str {
        &self.client.raw.device_infos[self.index].description
    }

    /// Use of its memory.
    ///
    /// # Errors
    /// When the plugin does not count it, as on the CPU.
    pub fn memory_stats(&self) -> Result<DeviceMemoryStats> {
        self.client.raw.memory_stats(self.index)
    }
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Device({})", self.description())
    }
}
