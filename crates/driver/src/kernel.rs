//! A graph compiled by itself, for whoever holds buffers: the eager device.

use crate::division::is_short;
use crate::dump::Dump;
use crate::error::Result;
use crate::host;
use crate::optimize::{Numerics, platform, region_names};
use crate::program::{Options, path_prefixes};
use crate::session::{Effort, Session, hlo_text};
use fuse::Class;
use ir::{Graph, Op};
use lower::LowerOptions;
use runtime::{Executable, Signature};
use std::hash::{Hash, Hasher};
use std::path::Path;
use std::sync::Arc;

/// Elements in the largest tensor of a graph up to which its compile time matters more than its speed.
const SMALL: usize = 1 << 11;

/// Tensors beyond which joining them is compiled with the least effort: the CPU plugin's time is quadratic in them (512 rows of 32
/// take 1.8 s, else 0.2), and copies are no faster for it.
const MANY: usize = 64;

/// The part of what goes into a program and comes out of it that its temporaries may take more than its ops take apart.
const TOLERATED: u64 = 32;

/// What saying an op otherwise may do to its results, where that hangs on nothing but the op, so that it is the same alone
/// and in a bundle: the sums of a convolution have no order of their own.
const OF_AN_OP: Class = Class::Reassociating;

/// Tells what graphs compute apart ([`Graph`]'s `Hash`), alike on every host with this build.
pub fn fingerprint(graph: &Graph) -> u64 {
    let mut digest = Digest(blake3::Hasher::new());
    graph.hash(&mut digest);
    digest.finish()
}

/// A [`Hasher`] without collisions that anybody would see.
struct Digest(blake3::Hasher);

impl Hasher for Digest {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }
    fn finish(&self) -> u64 {
        let hash = self.0.finalize();
        let (words, _) = hash.as_bytes().as_chunks();
        u64::from_le_bytes(words[0])
    }
}

impl Session {
    /// The executable of `graph`, for any device of the session. Inputs with a mutation of theirs among the outputs are
    /// donated to it. Its ops are said in the way that is fastest on the platform.
    ///
    /// # Errors
    /// When the plugin refuses the program.
    pub fn kernel(&self, graph: &Graph) -> Result<Arc<Executable>> {
        let named = LowerOptions { path_prefixes: path_prefixes(), ..LowerOptions::default() };
        let is_small = largest(graph) <= SMALL && !has_float8(graph);
        let effort = if is_small || joins_many(graph) { Effort::Least } else { Effort::Full };
        let said = fuse::formulate::alone(graph, OF_AN_OP, platform(Some(self)))?;
        self.compiled(&said, effort, &named)
    }

    /// As [`Session::kernel`], for many calls as one program: it is optimized first, its regions are named, and its stages
    /// are dumped if `options` say so. Where the calls take at most `apart` bytes at once, besides what goes into them, the
    /// program is to take hardly more: of XLA's schedules it gets the one that takes less, then.
    ///
    /// # Errors
    /// When the plugin refuses the program.
    pub fn bundle(&self, graph: &Graph, options: &Options, apart: Option<u64>) -> Result<Arc<Executable>> {
        let platform = platform(Some(self));
        let most = options.numerics.class();
        let rules = fuse::Options { most, alone: OF_AN_OP.max(most), platform, limit: options.limit };
        let optimized = if options.optimize { fuse::optimize(graph, rules)?.0 } else { graph.clone() };
        let (regions, path_prefixes) = (region_names(&optimized, platform), path_prefixes());
        let named = LowerOptions { regions, path_prefixes, ..LowerOptions::default() };
        let exact = options.numerics == Numerics::Exact;
        let compiled = |effort| self.compiled(&optimized, effort, &named);
        let mut kernel = compiled(if exact { Effort::Exact } else { Effort::Full })?;
        if exact && apart.is_some_and(|apart| takes_more(&kernel, graph, apart)) && self.is_on_cpu() {
            let other = compiled(Effort::OneByOne)?;
            kernel = if other.temporaries() < kernel.temporaries() { other } else { kernel };
        }
        if let Some(root) = &options.dump {
            // What cannot be dumped runs all the same.
            let _ = dump(root, graph, &optimized, &named, &kernel);
        }
        Ok(kernel)
    }

    /// Compiles a graph as it is said, or finds it compiled.
    fn compiled(&self, graph: &Graph, effort: Effort, named: &LowerOptions) -> Result<Arc<Executable>> {
        let inputs = graph.inputs.iter().map(|input| {
            let ty = graph.tensor_type(input.value).ok_or_else(|| ir::Error::internal("an input is a tuple"))?;
            Ok(Arc::new(host::runtime_type(ty)))
        });
        let inputs = inputs.collect::<Result<Vec<_>>>()?;
        let signature = Signature { inputs, donated: graph.mutated_inputs() };
        let unnamed = LowerOptions { locations: false, ..LowerOptions::default() };
        let canonical = lower::lower(graph, &unnamed)?.into_bytecode();
        let located = || Ok(lower::lower(graph, named)?.into_bytecode());
        self.portable_executable(&canonical, located, signature, effort, is_short(graph, platform(Some(self))))
    }
}

/// Whether the program of `graph` takes more than `apart`, by more than its results and what goes into it let pass.
fn takes_more(kernel: &Executable, graph: &Graph, apart: u64) -> bool {
    let bytes = |v| graph.tensor_type(v).map_or(0, |t| t.size_in_bytes() as u64);
    let made = graph.outputs.iter().filter(|o| o.kind.mutated().is_none()).map(|o| bytes(o.value)).sum::<u64>();
    let there: u64 = graph.inputs.iter().map(|i| bytes(i.value)).sum();
    made + kernel.temporaries() > apart + (there + made) / TOLERATED
}

fn dump(root: &Path, graph: &Graph, optimized: &Graph, named: &LowerOptions, kernel: &Executable) -> Result<()> {
    let dump = Dump::new(root, &graph.name, &fingerprint(optimized).to_le_bytes())?;
    dump.write("core.txt", ir::text::print(graph))?;
    dump.write("fused.txt", ir::text::print(optimized))?;
    dump.write("stablehlo.mlir", lower::lower(optimized, named)?.text()?)?;
    dump.write("hlo.txt", hlo_text(kernel)?)
}

/// Whether there are 8-bit floats, which the CPU plugin rounds twice, by way of `f16`, where it takes the least effort.
fn has_float8(graph: &Graph) -> bool {
    graph.nodes().iter().filter_map(|node| node.ty.tensor()).any(|t| t.dtype.is_float8())
}

/// Whether all it does is to join more tensors than are compiled with full effort.
fn joins_many(graph: &Graph) -> bool {
    let moves = |op: &Op| matches!(op, Op::Input { .. } | Op::Reshape { .. } | Op::Concatenate { .. });
    graph.inputs.len() > MANY && graph.nodes().iter().all(|node| moves(&node.op))
}

/// Elements of the largest tensor: a function of the program, so that every host compiles it alike.
fn largest(graph: &Graph) -> usize {
    let sizes = graph.nodes().iter().filter_map(|node| node.ty.tensor()).map(|t| t.numel());
    sizes.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{MANY, fingerprint, joins_many};
    use ir::{Builder, DType, Graph, InputKind, OutputKind, TensorType};

    /// Rows one below the other, the last input twice if `twice`.
    fn joined(rows: usize, twice: bool) -> Graph {
        let b = Builder::new("joined");
        let ty = TensorType::new(DType::F32, [1, 3]);
        let mut all: Vec<_> = (0..rows).map(|i| b.input(format!("x{i}"), InputKind::User, ty.clone())).collect();
        all.extend(all.last().copied().filter(|_| twice));
        b.output("y", OutputKind::User, b.concatenate(&all, 0).expect("joins"));
        b.finish()
    }

    /// Twice an input, which is what it is named and stands for, and whose next value it is or is not.
    fn doubled(name: &str, kind: InputKind, output: OutputKind) -> Graph {
        let b = Builder::new(name);
        let x = b.input(name, kind, TensorType::new(DType::I64, []));
        b.output(name, output, b.add(x, x).expect("adds"));
        b.finish()
    }

    #[test]
    fn what_only_joins_many_tensors_is_known() {
        assert!(!joins_many(&joined(MANY, false)));
        assert!(joins_many(&joined(MANY + 1, false)));
        let (b, y) = (Builder::new("more"), TensorType::new(DType::F32, [1]));
        let all: Vec<_> = (0..=MANY).map(|i| b.input(format!("x{i}"), InputKind::User, y.clone())).collect();
        let sum = b.concatenate(&all, 0).and_then(|joined| b.add(joined, joined)).expect("adds");
        b.output("y", OutputKind::User, sum);
        assert!(!joins_many(&b.finish()), "it computes, too");
    }

    #[test]
    fn fingerprints_tell_apart_what_is_computed() {
        let plain = fingerprint(&doubled("a", InputKind::User, OutputKind::User));
        assert_eq!(plain, fingerprint(&doubled("b", InputKind::Position(7), OutputKind::User)), "names and numbers");
        assert_ne!(plain, fingerprint(&doubled("a", InputKind::User, OutputKind::Mutation(0))), "it is taken over");
        let graphs = [joined(3, false), joined(4, false), joined(3, true), joined(4, true)];
        let all: std::collections::BTreeSet<u64> = graphs.iter().map(fingerprint).collect();
        assert_eq!(all.len(), graphs.len());
    }
}
