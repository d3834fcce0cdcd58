//! The eager device: what stands behind `device="tpu"`.
//!
//! A PyTorch storage is a [cell](cells): it holds an immutable value in the plugin, N-dimensional in the logical shape last
//! fully written. Tensors are strided views of cells, and PyTorch keeps them; this crate sees them in the [words](words) of
//! each call. A call that was seen before (same op, types, layouts, storages' layouts) runs its [plan](plan): an executable,
//! what feeds it, and where its outputs go. A new one is traced through the op table and the alias model, in `ir::eager`,
//! compiled, and kept; where sizes never come again, it is [evaluated](interpret). Numbers are arguments of the executable, so a changing learning rate compiles nothing.
//!
//! [`abi`] is the C border that the shim in csrc/ calls. Everything behind it is [`Core`], which is an object: nothing here
//! but the border is global.

pub mod abi;
mod build;
mod cells;
mod compiled;
mod core;
mod debug;
mod error;
mod extents;
mod form;
mod fused;
mod interpret;
mod make;
mod plan;
mod queue;
mod registry;
mod run;
mod space;
#[cfg(test)]
mod tests;
mod timeline;
mod transfer;
mod words;

pub use crate::cells::Gauge;
pub use crate::compiled::{Operand, Produced};
pub use crate::core::{Core, Expected, Made, Mode, OpStats, Outcome, Request, SeedSource, Stats};
pub use error::{Error, Kind, Result};
pub use fused::{CutReport, Explanation, RegionCounts, RegionReport};
pub use timeline::Span;
