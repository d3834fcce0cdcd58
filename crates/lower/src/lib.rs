//! Core ops to StableHLO.
//!
//! [`lower`] writes a concrete [`ir::Graph`] as one MLIR module with one public function, `@main`: its arguments are
//! the graph's inputs, its results the graph's outputs, both in order. Results that are the next value of an input
//! carry `tf.aliasing_output` on that argument, so that the two share memory.
//!
//! StableHLO is not part of LLVM's MLIR. The ops are built as *unregistered* ones: MLIR takes them as they come,
//! `#stablehlo` attributes stay opaque, and nothing is checked before a plugin parses the module, which silently
//! accepts an optional attribute that it does not know. So every attribute is spelled in one place, `attr`, from Rust
//! types; one exhaustive match over [`ir::Op`] uses them, in `emit`; and each op with other than default attributes is
//! compiled and compared with the reference evaluator in the tests. Only the `func` dialect is loaded, which keeps the
//! binary small.
//!
//! What a core op leaves implicit is written out here: the bodies of reductions, scatters and sorts (`body`), with
//! their rules for NaN and ties; `bool` conversions as comparisons with zero; tuples, which never surface, as the
//! results of their op. Special functions (`erf`, `lgamma`, ...) are CHLO ops, which plugins expand themselves; where their
//! answer is not the core op's, `function` writes another formula.
//!
//! With a [`Partition`], arguments and results carry `sdy.sharding` and the module holds the mesh they name: attributes and
//! an op of the Shardy dialect, which are as foreign to our MLIR as StableHLO's.
//!
//! A [`Module`] is bytecode: `Send`, free of any MLIR context, the same bytes on every host. Its text is for people
//! and is printed from the bytecode on demand. With [`LowerOptions::locations`] off, the bytes do not depend on where
//! the program came from: that form keys the compile cache.
//!
//! This crate alone names MLIR.

mod attr;
mod body;
mod chains;
mod constant;
mod emit;
mod function;
mod location;
mod module;
mod scope;
mod session;

use ir::sharding::Partition;
pub use ir::{Error, Result};
pub use location::PathPrefixes;
pub use module::{Module, TextOptions};

use std::sync::Arc;

/// Changes whenever the same graph would be written differently. Part of every compile-cache key.
pub const EMITTER_VERSION: u32 = 5;

/// XLA flags that every compile needs: without them a plugin computes something else than the module says. The CPU
/// plugin's maximum and minimum would lose NaNs.
pub const XLA_FLAGS: &[(&str, bool)] = &[("xla_cpu_enable_fast_min_max", false)];

/// What a module carries besides the program.
#[derive(Clone, Debug)]
pub struct LowerOptions {
    /// Write source locations and the graph's name, which plugins show in profiles and errors. Off: the bytes depend
    /// on the program alone.
    pub locations: bool,
    /// Let inputs that the program mutates share memory with their next value.
    pub donate: bool,
    /// What to cut off source paths.
    pub path_prefixes: PathPrefixes,
    /// How arguments and results are spread over devices, as Shardy marks. The module still says what is computed on the
    /// whole; who compiles it asks for as many partitions as the mesh has devices.
    pub partition: Option<Partition>,
    /// By node of the graph: the fusion region that it is in, such as `3#rmsnorm+matmul`, which goes before the op in its
    /// location's name. Empty for none.
    pub regions: Vec<Arc<str>>,
}

impl Default for LowerOptions {
    fn default() -> LowerOptions {
        LowerOptions {
            locations: true,
            donate: true,
            path_prefixes: PathPrefixes::default(),
            partition: None,
            regions: vec![],
        }
    }
}

/// Writes `graph` as a StableHLO module.
///
/// # Errors
/// `Internal`, if `graph` is not well-formed: operands that come later or are missing, tuples where tensors belong.
/// `Invalid`, if bodies nest deeper than 64 levels, or a sharding does not fit its tensor.
pub fn lower(graph: &ir::Graph, options: &LowerOptions) -> Result<Module> {
    let context = session::context();
    let session = session::Session::new(&context, options);
    if let Some(partition) = &options.partition {
        partition.check(graph)?;
    }
    let mut aliased = emit::next_values(graph)?;
    if !options.donate {
        aliased.fill(None);
    }
    let module = emit::module(&session, graph, &aliased)?;
    session.check(&module)?;
    let donated = (0..aliased.len()).filter(|&i| aliased[i].is_some()).collect();
    Ok(Module::new(&module, donated))
}
