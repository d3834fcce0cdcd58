//! Every line of `unsafe` in this crate: the C API's declarations, the dynamic library, and owned handles whose
//! methods are safe to call.
//!
//! What keeps the handles sound:
//! - A handle owns its C object and destroys it once; objects that belong to a client keep the client alive.
//! - A plugin is never unloaded, so a table entry stays callable for the life of the process.
//! - Devices are named by their index into the client's own list, never by a pointer from outside.
//! - Host memory that a plugin may still read or write is owned by something that lives until the plugin says so.
//! - Pointers and sizes that a plugin returns are checked for null and for absurd lengths, as far as can be told.
//!
//! PJRT objects are thread-safe by contract, which the `Send` and `Sync` implementations rely on.

#![allow(unsafe_code)] // the C border itself; nothing outside this module tree may use `unsafe`

mod api;
mod asked;
mod blas;
mod buffer;
mod client;
mod columns;
mod combining;
mod convolve;
mod environment;
mod event;
mod executable;
mod finishing;
mod functions;
mod grouped;
mod handler;
mod host;
mod idle;
mod imports;
mod lapack;
mod launch;
#[cfg(test)]
mod layout_test;
mod locked;
mod pool;
mod processors;
mod rows;
mod scan;
mod scatter;
mod scratch;
mod sort;
mod sys;
mod table;
mod team;
mod topology;
mod turn;
mod wide;

pub(crate) use api::Api;
pub(crate) use blas::Blas;
pub(crate) use buffer::RawBuffer;
pub(crate) use client::{DeviceInfo, RawClient};
pub(crate) use executable::{RawCompiled, RawExecutable};
pub(crate) use host::HostHold;
pub(crate) use idle::Habit;
pub(crate) use launch::{Launch, LaunchOptions, Launched};
pub(crate) use topology::RawTopology;

pub use api::Value;
pub use buffer::HostTransfer;
pub use client::DeviceMemoryStats;
pub use event::Event;
pub use executable::MemoryAnalysis;
pub use handler::host_calls;
pub use host::{AlignedBytes, HOST_ALIGNMENT, HostAccess, HostMemory};
pub use pool::{MemoryPool, give_back as give_back_memory, size as memory_pool};
