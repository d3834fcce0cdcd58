//! What a compiled TPU program costs, and which lines of Python pay for it.
//!
//! The compiler's own result is read: its optimized, scheduled HLO with padded layouts, and where it put each value.
//! Nothing here loads a compiler.

mod html;
mod model;
mod sources;

pub use html::html;
pub use model::*;
