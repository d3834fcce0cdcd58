//! A graph compiled by itself, for whoever holds buffers: the eager device.

use crate::error::Result;
use crate::host;
use crate::program::path_prefixes;
use crate::session::{Effort, Session};
use ir::{Graph, OutputKind};
use lower::LowerOptions;
use runtime::{Executable, Signature};
use std::sync::Arc;

/// Elements in the largest tensor of a graph up to which its compile time matters more than its speed.
const SMALL: usize = 1 << 11;

impl Session {
    /// The executable of `graph`, for any device of the session. Inputs with a mutation of theirs among the outputs are
    /// donated to it.
    ///
    /// # Errors
    /// When the plugin refuses the program.
    pub fn kernel(&self, graph: &Graph) -> Result<Arc<Executable>> {
        let lowered = |locations| -> Result<Vec<u8>> {
            let options = LowerOptions { locations, path_prefixes: path_prefixes(), ..LowerOptions::default() };
            Ok(lower::lower(graph, &options)?.into_bytecode())
        };
        let inputs = graph.inputs.iter().map(|input| {
            let ty = graph.tensor_type(input.value).ok_or_else(|| ir::Error::internal("an input is a tuple"))?;
            Ok(Arc::new(host::runtime_type(ty)))
        });
        let inputs = inputs.collect::<Result<Vec<_>>>()?;
        let mut donated: Vec<usize> = graph.outputs.iter().filter_map(|o| mutated(&o.kind)).collect();
        donated.sort_unstable();
        let signature = Signature { inputs, donated };
        let effort = if largest(graph) <= SMALL { Effort::Least } else { Effort::Full };
        self.portable_executable(&lowered(false)?, || lowered(true), signature, effort)
    }
}

fn mutated(kind: &OutputKind) -> Option<usize> {
    match kind {
        OutputKind::Mutation(input) => Some(*input),
        OutputKind::User => None,
    }
}

/// Elements of the largest tensor: a function of the program, so that every host compiles it alike.
fn largest(graph: &Graph) -> usize {
    let sizes = graph.nodes().iter().filter_map(|node| node.ty.tensor()).map(|t| t.numel());
    sizes.max().unwrap_or(0)
}
