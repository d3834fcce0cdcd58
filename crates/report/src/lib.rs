//! What a compiled TPU program costs, and which lines of Python pay for it.
//!
//! The compiler's own result is read: its optimized, scheduled HLO with padded layouts, and where it put each value.
//! Nothing here loads a compiler, and nothing relies on ids to lead somewhere or on sizes to make sense: what is read
//! was written by a foreign library.
//!
//! [`analyse`] makes the [`Memory`] and the [`Cost`] of a program, [`Slices::plan`] a plan for several slices, [`text()`] a
//! report for a terminal.

mod cost;
mod html;
mod index;
mod memory;
mod model;
mod shape;
mod slices;
mod source;
mod sources;
#[cfg(test)]
mod testing;
mod text;
mod timeline;

pub use html::{html, rewrites_html};
pub use memory::compiler_peak;
pub use model::*;
pub use slices::Training;
pub use text::{COLUMNS, bytes, text};

use hlo::proto::{HloModuleProto, HloProto};
use target::Chip;

/// What the program's dump does not say.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// The program's arguments, in the order of its entry's parameters.
    pub arguments: &'a [Argument],
    /// The compiler's own statistics; `None` where it refused the program.
    pub stats: Option<Stats>,
    /// The module of the finished executable, which has the compiler's estimates of cycles: its dump lacks them.
    pub optimized: Option<&'a HloModuleProto>,
    /// What the program runs on.
    pub chip: &'static Chip,
    /// On how many devices: those that a collective without groups spans.
    pub devices: u32,
}

/// An argument of the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Argument {
    /// As the user knows it, such as `model.layers.0.mlp.up_proj.weight`.
    pub name: String,
    /// The module whose parameter it is, or where it comes from; empty if nothing is known.
    pub source: Source,
}

/// A compiler's statistics of one program, in bytes of one device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// All arguments.
    pub arguments: u64,
    /// All results, those that reuse arguments included.
    pub outputs: u64,
    /// Results that reuse arguments.
    pub aliased: u64,
    /// The heap.
    pub temporaries: u64,
    /// Machine code and constants.
    pub code: u64,
}

/// Who holds a program's memory, `None` if the dump does not say where values lie, and what the program costs.
pub fn analyse(dump: &HloProto, input: &Input<'_>) -> (Option<Memory>, Cost) {
    let empty = HloModuleProto::default();
    let index = index::Index::new(dump.hlo_module.as_ref().unwrap_or(&empty));
    let sources = source::Sources::new(&index);
    (memory::memory(dump, &index, &sources, input), cost::cost(&index, &sources, input))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An input that knows nothing.
    pub(crate) fn input() -> Input<'static> {
        Input { arguments: &[], stats: None, optimized: None, chip: target::Generation::V5e.chip(), devices: 1 }
    }

    /// The memory of a program whose dump has it.
    pub(crate) fn analyse_memory(dump: &HloProto, input: &Input<'_>) -> Memory {
        analyse(dump, input).0.expect("a dump with its buffers")
    }
}
