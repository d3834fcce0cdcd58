//! The optimizer: a graph of core ops in, one that computes the same in less time out, and what was changed and why.
//!
//! Whatever it does is a [`Change`] by a named rule of a [`Class`], which the caller caps, and that is counted, so that
//! [`Options::limit`] can corner a wrong one. All decisions are functions of the graph and the [`Options`]: never of
//! time, addresses or hash seeds. Like [`ir`], it knows neither MLIR nor PJRT nor Python.

mod change;
pub mod formulate;

pub use change::{Change, Changes, Class, Options, Platform};
