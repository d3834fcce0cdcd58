//! A graph compiled by itself, for whoever holds buffers: the eager device.

use crate::division::is_short;
use crate::dump::Dump;
use crate::error::Result;
use crate::host;
use crate::optimize::{Numerics, platform, region_names};
use crate::program::{Options, path_prefixes};
use crate::session::{Effort, Session, hlo_text};
use fuse::Class;
use ir::Graph;
use lower::LowerOptions;
use runtime::{Executable, Signature};
use std::path::Path;
use std::sync::Arc;

/// Elements in the largest tensor of a graph up to which its compile time matters more than its speed.
const SMALL: usize = 1 << 11;

/// The part of what goes into a program and comes out of it that its temporaries may take more than its ops take apart.
const TOLERATED: u64 = 32;

/// What saying an op otherwise may do to its results, where that hangs on nothing but the op, so that it is the same alone
/// and in a bundle: the sums of a convolution have no order of their own.
const OF_AN_OP: Class = Class::Reassociating;

/// A graph's program before the plugin has compiled it.
pub struct Draft {
    graph: Graph,
    named: LowerOptions,
    effort: Effort,
    undivided: bool,
    canonical: Vec<u8>,
    signature: Signature,
    fingerprint: u64,
}

impl Draft {
    /// Inputs whose memory the program takes over, in order.
    pub fn donated(&self) -> &[usize] {
        &self.signature.donated
    }
    /// As [`Kernel::fingerprint`].
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }
}

/// A graph's executable.
pub struct Kernel {
    /// For any device of the session.
    pub executable: Arc<Executable>,
    /// Tells programs apart, alike on every host and whatever their locations are.
    pub fingerprint: u64,
}

impl Session {
    /// The executable of `graph`, for any device of the session. Inputs with a mutation of theirs among the outputs are
    /// donated to it. Its ops are said in the way that is fastest on the platform.
    ///
    /// # Errors
    /// When the plugin refuses the program.
    pub fn kernel(&self, graph: &Graph) -> Result<Kernel> {
        self.compiled(self.draft(graph)?)
    }

    /// The first half of [`Session::kernel`], which is the shorter one.
    ///
    /// # Errors
    /// When the graph cannot be lowered.
    pub fn draft(&self, graph: &Graph) -> Result<Draft> {
        let named = LowerOptions { path_prefixes: path_prefixes(), ..LowerOptions::default() };
        let effort = if largest(graph) <= SMALL && !has_float8(graph) { Effort::Least } else { Effort::Full };
        let said = fuse::formulate::alone(graph, OF_AN_OP, platform(Some(self)))?;
        self.draft_of(said, effort, named)
    }

    /// The second half: compiles it, or finds it compiled.
    ///
    /// # Errors
    /// When the plugin refuses the program.
    pub fn compiled(&self, draft: Draft) -> Result<Kernel> {
        let Draft { graph, named, effort, undivided, canonical, signature, fingerprint } = draft;
        let located = || Ok(lower::lower(&graph, &named)?.into_bytecode());
        let executable = self.portable_executable(&canonical, located, signature, effort, undivided)?;
        Ok(Kernel { executable, fingerprint })
    }

    /// As [`Session::kernel`], for many calls as one program: it is optimized first, its regions are named, and its stages
    /// are dumped if `options` say so. Where the calls take at most `apart` bytes at once, besides what goes into them, the
    /// program is to take hardly more: of XLA's schedules it gets the one that takes less, then.
    ///
    /// # Errors
    /// When the plugin refuses the program.
    pub fn bundle(&self, graph: &Graph, options: &Options, apart: Option<u64>) -> Result<Kernel> {
        let platform = platform(Some(self));
        let most = options.numerics.class();
        let rules = fuse::Options { most, alone: OF_AN_OP.max(most), platform, limit: options.limit };
        let optimized = if options.optimize { fuse::optimize(graph, rules)?.0 } else { graph.clone() };
        let (regions, path_prefixes) = (region_names(&optimized, platform), path_prefixes());
        let named = LowerOptions { regions, path_prefixes, ..LowerOptions::default() };
        let exact = options.numerics == Numerics::Exact;
        let compiled = |effort| self.compiled(self.draft_of(optimized.clone(), effort, named.clone())?);
        let mut kernel = compiled(if exact { Effort::Exact } else { Effort::Full })?;
        if exact && apart.is_some_and(|apart| takes_more(&kernel, graph, apart)) && self.is_on_cpu() {
            let other = compiled(Effort::OneByOne)?;
            kernel = if other.executable.temporaries() < kernel.executable.temporaries() { other } else { kernel };
        }
        if let Some(root) = &options.dump {
            // What cannot be dumped runs all the same.
            let _ = dump(root, graph, &optimized, &named, &kernel);
        }
        Ok(kernel)
    }

    fn draft_of(&self, graph: Graph, effort: Effort, named: LowerOptions) -> Result<Draft> {
        let inputs = graph.inputs.iter().map(|input| {
            let ty = graph.tensor_type(input.value).ok_or_else(|| ir::Error::internal("an input is a tuple"))?;
            Ok(Arc::new(host::runtime_type(ty)))
        });
        let inputs = inputs.collect::<Result<Vec<_>>>()?;
        let mut donated: Vec<usize> = graph.outputs.iter().filter_map(|o| o.kind.mutated()).collect();
        donated.sort_unstable();
        let signature = Signature { inputs, donated };
        let unnamed = LowerOptions { locations: false, ..LowerOptions::default() };
        let canonical = lower::lower(&graph, &unnamed)?.into_bytecode();
        let fingerprint = fingerprint(&canonical);
        let undivided = is_short(&graph, platform(Some(self)));
        Ok(Draft { graph, named, effort, undivided, canonical, signature, fingerprint })
    }
}

/// Whether the program of `graph` takes more than `apart`, by more than its results and what goes into it let pass.
fn takes_more(kernel: &Kernel, graph: &Graph, apart: u64) -> bool {
    let bytes = |v| graph.tensor_type(v).map_or(0, |t| t.size_in_bytes() as u64);
    let made = graph.outputs.iter().filter(|o| o.kind.mutated().is_none()).map(|o| bytes(o.value)).sum::<u64>();
    let there: u64 = graph.inputs.iter().map(|i| bytes(i.value)).sum();
    made + kernel.executable.temporaries() > apart + (there + made) / TOLERATED
}

fn dump(root: &Path, graph: &Graph, optimized: &Graph, named: &LowerOptions, kernel: &Kernel) -> Result<()> {
    let dump = Dump::new(root, &graph.name, &kernel.fingerprint.to_le_bytes())?;
    dump.write("core.txt", ir::text::print(graph))?;
    dump.write("fused.txt", ir::text::print(optimized))?;
    dump.write("stablehlo.mlir", lower::lower(optimized, named)?.text()?)?;
    dump.write("hlo.txt", hlo_text(&kernel.executable)?)
}

fn fingerprint(canonical: &[u8]) -> u64 {
    let hash = blake3::hash(canonical);
    let (words, _) = hash.as_bytes().as_chunks();
    u64::from_le_bytes(words[0])
}

/// Whether there are 8-bit floats, which the CPU plugin rounds twice, by way of `f16`, where it takes the least effort.
fn has_float8(graph: &Graph) -> bool {
    graph.nodes().iter().filter_map(|node| node.ty.tensor()).any(|t| t.dtype.is_float8())
}

/// Elements of the largest tensor: a function of the program, so that every host compiles it alike.
fn largest(graph: &Graph) -> usize {
    let sizes = graph.nodes().iter().filter_map(|node| node.ty.tensor()).map(|t| t.numel());
    sizes.max().unwrap_or(0)
}
