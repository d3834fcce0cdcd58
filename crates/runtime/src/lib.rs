//! A thin, safe layer over PJRT, the C interface through which XLA's compilers for CPUs, GPUs and TPUs are driven.
//!
//! A [`Plugin`] is a shared library with a compiler and a runtime in it. It is loaded once and stays. A [`Client`] is
//! one use of a plugin: it has [`Device`]s, compiles StableHLO programs to [`Executable`]s, and holds tensors in
//! [`Buffer`]s. Executing is asynchronous: outputs are buffers at once, whoever reads them waits, and an [`Event`] says
//! when a device is done.
//!
//! ```no_run
//! use torchtpu_runtime::*;
//!
//! # fn main() -> Result<()> {
//! let plugin = Plugin::discover(Some("cpu"))?;
//! let client = Client::new(plugin, &[])?;
//! let program = "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
//!     %0 = stablehlo.add %x, %x : tensor<2xf32>
//!     return %0 : tensor<2xf32>
//! }";
//! let double = client.compile(program.as_bytes(), &CompileOptions::default(), None)?;
//! let ty = TensorType::new(ElementType::F32, [2]);
//! let x = Buffer::from_host(&client.device(0)?, &[1.5f32, 2.0].map(f32::to_ne_bytes).concat(), ty)?;
//! let run = double.execute(&[x], &ExecuteOptions::default())?;
//! assert_eq!(run.outputs[0].to_host()?[..], [3.0f32, 4.0].map(f32::to_ne_bytes).concat());
//! # Ok(())
//! # }
//! ```
//!
//! # What it promises
//! - A plugin is foreign code. Whatever it returns, the answer is an [`Error`]; only what it does inside its own calls
//!   is out of reach. A function that a plugin lacks is an error that names it.
//! - `execute` checks number, types, devices and state of its arguments before the plugin sees them, because plugins
//!   answer some of these mistakes with a hang.
//! - A donated buffer is gone: using it again is an error, also from another thread.
//! - Host memory lent to a plugin is owned by it until the plugin says that it is done.
//! - Everything is `Send + Sync`, and no `Drop` panics or waits, save that of a [`HostTransfer`].
//!
//! # What it does not do
//! It knows nothing of the graphs and programs that it runs, keeps no device state per process, and caches nothing
//! but loaded plugins. All `unsafe` is in the private module `ffi`, which declares the C API by hand
//! (`docs/decisions/0001-own-pjrt-bindings.md` says why).

mod buffer;
mod client;
mod compile_options;
mod error;
mod executable;
mod ffi;
mod machine;
mod optimized;
mod plugin;
mod topology;
mod types;

pub use buffer::{Buffer, SharedMemory};
pub use client::{CPU_DEVICE_COUNT, Client, Device};
pub use compile_options::{CompileOptions, FlagValue};
pub use error::{ApiVersion, Error, ErrorCode, PluginError, Result};
pub use executable::{Executable, ExecuteOptions, Execution, Signature};
pub use ffi::{
    AlignedBytes, DeviceMemoryStats, Event, HOST_ALIGNMENT, HostAccess, HostMemory, HostTransfer, MemoryAnalysis,
    MemoryPool, Value, give_back_memory, host_calls, memory_pool,
};
pub use machine::{MachineMemory, machine_memory};
pub use optimized::OptimizedProgram;
pub use plugin::{PLUGIN_ENV, Plugin, find_plugin};
pub use topology::{Compiled, Topology};
pub use types::{ElementType, TensorType};

/// Everything public may be shared between threads.
const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<Plugin>();
    shared::<Client>();
    shared::<Device>();
    shared::<Buffer>();
    shared::<SharedMemory>();
    shared::<Executable>();
    shared::<Topology>();
    shared::<Compiled>();
    shared::<Event>();
    shared::<HostMemory>();
    shared::<HostTransfer>();
    shared::<Error>();
};
