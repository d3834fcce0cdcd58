//! A program compiled for particular sizes, and how a call's arguments and results map to the executable's.

use crate::division::is_short;
use crate::dump::Dump;
use crate::error::{Error, Result};
use crate::host::{self, Argument, HostTensor, OutputTensor, Strides, Value};
use crate::optimize::platform;
use crate::program::{DimValues, Program};
use crate::session::{Origin, Session, hlo_text};
use fuse::Platform;
use ir::alias::CellId;
use ir::import::{Imported, InputMeta, InputValue, OutputMeta, OutputTensor as ResultTensor};
use ir::ops::Scalar;
use ir::symbol::Expr;
use ir::{DType, Graph, InputKind, Number, Op, OutputKind, Shape, TensorType, ValueId};
use runtime::{Buffer, Device, Executable, ExecuteOptions, Signature};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, TryLockError};
use std::time::{Duration, Instant};

/// Gives key and counter for a program that draws random numbers.
pub type SeedSource<'a> = &'a mut dyn FnMut() -> Result<[u64; 2]>;

/// What making a program ready for some sizes took, for logs.
#[derive(Debug, Clone, PartialEq)]
pub struct CompileReport {
    /// The values of the symbols that the executable is good for.
    pub sizes: BTreeMap<Arc<str>, i64>,
    /// Number of core ops that the plugin got.
    pub core_ops: usize,
    /// Number of arguments that the executable takes.
    pub inputs: usize,
    /// Number of results that it gives.
    pub outputs: usize,
    /// Size of its StableHLO as bytecode, without locations.
    pub bytes: usize,
    /// Where the executable came from.
    pub origin: Origin,
    /// From the trace to StableHLO.
    pub lowering: Duration,
    /// From there to an executable: compiled, loaded from disk, or looked up.
    pub plugin: Duration,
}

/// An executable and its calling convention.
pub(crate) struct Variant {
    consulted: BTreeMap<Arc<str>, i64>,
    pub(crate) executable: Arc<Executable>,
    device: Device,
    pub(crate) inputs: Vec<Input>,
    pub(crate) outputs: Vec<Output>,
    pub(crate) results: Vec<Plan>,
    /// Buffers over the caller's memory, by input, kept from one call to the next.
    aliases: Mutex<Vec<Option<Alias>>>,
}

/// An input of the executable.
pub(crate) struct Input {
    pub(crate) name: String,
    pub(crate) source: Source,
    pub(crate) ty: TensorType,
    device_ty: Arc<runtime::TensorType>,
    pub(crate) donated: bool,
}

/// Where an input's data comes from.
pub(crate) enum Source {
    /// The caller's argument at this position.
    Argument(usize),
    /// The value of an expression over the program's symbols.
    Symbol(Expr),
    /// A fresh key for the random generator.
    Rng,
}

/// An output of the executable.
pub(crate) enum Output {
    /// A tensor for the caller.
    Result { shape: Shape, strides: Strides, dtype: DType },
    /// The next value of the caller's argument at this position.
    Mutation(usize),
}

/// A result of the call.
pub(crate) enum Plan {
    /// The executable's output at this position.
    Output(usize),
    /// The caller's argument at this position, itself.
    Argument(usize),
    /// The same tensor as an earlier result.
    Result(usize),
    Symbolic(Expr),
    Number(Number),
    None,
}

/// A buffer over memory of the caller's. It holds no data of its own, so it stays true whatever is written to the memory
/// or allocated there next; it is used only while the caller hands in a live tensor at the same address.
struct Alias {
    address: usize,
    buffer: Arc<Buffer>,
}

/// A program for some sizes, and how a call's arguments and results map to its graph's.
pub(crate) struct Prepared {
    pub(crate) graph: Graph,
    /// The values of the symbols that it is good for.
    pub(crate) consulted: BTreeMap<Arc<str>, i64>,
    pub(crate) inputs: Vec<Input>,
    pub(crate) outputs: Vec<Output>,
    pub(crate) results: Vec<Plan>,
}

impl Prepared {
    /// The program, optimized for a platform.
    pub(crate) fn new(program: &Program, dims: &DimValues, platform: Platform) -> Result<Prepared> {
        Prepared::with(program, dims, Some(platform), |graph| Ok(program.optimized(&graph, platform)?.0))
    }

    /// The program before the optimizer, for a platform if one is given.
    pub(crate) fn unoptimized(program: &Program, dims: &DimValues, platform: Option<Platform>) -> Result<Prepared> {
        Prepared::with(program, dims, platform, Ok)
    }

    fn with(
        program: &Program,
        dims: &DimValues,
        platform: Option<Platform>,
        optimize: impl Fn(Graph) -> Result<Graph>,
    ) -> Result<Prepared> {
        let Imported { mut graph, consulted, inputs: metas, outputs: results } = program.import_for(dims, platform)?;
        let arguments = argument_of(&metas, graph.inputs.len());
        let (results, kept) = plan(&graph, &results, &arguments)?;
        graph.outputs = kept.iter().map(|k| graph.outputs[k.0].clone()).collect();
        let outputs = kept.into_iter().map(|k| k.1).collect();
        let graph = optimize(graph.without_dead_nodes())?;
        let inputs = inputs(&graph, &arguments)?;
        Ok(Prepared { graph, consulted, inputs, outputs, results })
    }
}

/// Positions of the inputs whose memory the program takes over, ascending.
pub(crate) fn donated(inputs: &[Input]) -> impl Iterator<Item = usize> {
    inputs.iter().enumerate().filter(|(_, input)| input.donated).map(|(i, _)| i)
}

impl Variant {
    /// Compiles `program` for `dims`.
    pub(crate) fn compile(
        program: &Program,
        session: &Session,
        dims: &DimValues,
        device: usize,
    ) -> Result<(Variant, CompileReport)> {
        let start = Instant::now();
        let Prepared { graph, consulted, inputs, outputs, results } =
            Prepared::new(program, dims, platform(Some(session)))?;
        let signature = Signature {
            inputs: inputs.iter().map(|i| i.device_ty.clone()).collect(),
            donated: donated(&inputs).collect(),
        };
        let canonical = program.lower(&graph, None)?.into_bytecode();
        let lowering = start.elapsed();
        let located = || Ok(program.lower(&graph, Some(platform(Some(session))))?.into_bytecode());
        let undivided = is_short(&graph, platform(Some(session)));
        let (executable, origin) = session.executable(&canonical, located, signature, device, undivided)?;
        let plugin = start.elapsed() - lowering;
        if let Some(root) = &program.options().dump {
            let dump = Dump::new(root, &graph.name, &canonical)?;
            dump.write("trace.json", program.source())?;
            let before = program.rewritten(dims, platform(Some(session)))?.before;
            dump.write("core.txt", ir::text::print(&before))?;
            dump.write("fused.txt", ir::text::print(&graph))?;
            dump.write("stablehlo.mlir", program.lower(&graph, Some(platform(Some(session))))?.text()?)?;
            dump.write("hlo.txt", hlo_text(&executable)?)?;
        }
        let device = session.client().device(device).map_err(Error::Plugin)?;
        let aliases = Mutex::new(inputs.iter().map(|_| None).collect());
        let report = CompileReport {
            sizes: consulted.clone(),
            core_ops: graph.nodes().len() - inputs.len(),
            inputs: inputs.len(),
            outputs: graph.outputs.len(),
            bytes: canonical.len(),
            origin,
            lowering,
            plugin,
        };
        Ok((Variant { consulted, executable, device, inputs, outputs, results, aliases }, report))
    }

    /// Whether it was compiled for this device and these sizes, as far as they matter to it.
    pub(crate) fn serves(&self, dims: &DimValues, device: usize) -> bool {
        self.device.index() == device && self.consulted.iter().all(|(name, value)| dims.get(&**name) == Some(value))
    }

    /// Runs it. Returns when the results are ready and the arguments free.
    pub(crate) fn run(
        &self,
        session: &Session,
        arguments: &[Argument],
        dims: &DimValues,
        seed: SeedSource<'_>,
    ) -> Result<Vec<Value>> {
        let buffers = self.buffers(arguments, dims, seed)?;
        let (execution, time) = self.executable.run(&buffers, &ExecuteOptions::default()).map_err(Error::Execute)?;
        session.count_execution(time);
        let mut tensors = vec![];
        for (buffer, output) in execution.outputs.into_iter().zip(&self.outputs) {
            tensors.push(self.take(buffer, output, arguments)?);
        }
        self.results.iter().map(|plan| value(plan, &mut tensors, dims)).collect()
    }

    fn buffers(&self, arguments: &[Argument], dims: &DimValues, seed: SeedSource<'_>) -> Result<Vec<Arc<Buffer>>> {
        // Another thread in the same program leaves the aliases to it and makes its own.
        let mut aliases = match self.aliases.try_lock() {
            Ok(aliases) => Some(aliases),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        };
        let lendable = self.lendable(arguments);
        let mut buffers = Vec::with_capacity(self.inputs.len());
        for (i, input) in self.inputs.iter().enumerate() {
            let buffer = match &input.source {
                Source::Argument(n) => {
                    let tensor = input.tensor(*n, arguments.get(*n))?;
                    let slot = aliases.as_mut().map(|a| &mut a[i]);
                    self.lend(input, tensor, slot, lendable)?
                }
                Source::Symbol(expr) => self.copy(input, &number(expr, dims)?.to_bytes(input.ty.dtype))?,
                Source::Rng => self.copy(input, &seed()?.map(u64::to_le_bytes).concat())?,
            };
            buffers.push(buffer);
        }
        Ok(buffers)
    }

    fn copy(&self, input: &Input, bytes: &[u8]) -> Result<Arc<Buffer>> {
        self.upload(input, bytes).map(Arc::new)
    }

    pub(crate) fn upload(&self, input: &Input, bytes: &[u8]) -> Result<Buffer> {
        Buffer::from_host(&self.device, bytes, input.device_ty.clone()).map_err(Error::Execute)
    }

    /// A buffer over the caller's tensor, in place if its memory allows.
    fn lend(
        &self,
        input: &Input,
        tensor: &HostTensor,
        slot: Option<&mut Option<Alias>>,
        lendable: bool,
    ) -> Result<Arc<Buffer>> {
        if !tensor.is_contiguous() {
            let (bytes, strides) = (tensor.memory.bytes(), tensor.byte_strides());
            let copied = Buffer::from_host_strided(&self.device, bytes, input.device_ty.clone(), &strides);
            return copied.map(Arc::new).map_err(Error::Execute);
        }
        let address = tensor.memory.address();
        if !tensor.memory.is_aligned() || (input.donated && !lendable) {
            return self.copy(input, tensor.memory.bytes());
        }
        if let Some(Some(alias)) = slot.as_deref().filter(|_| !input.donated)
            && alias.address == address
        {
            return Ok(alias.buffer.clone());
        }
        let lent = Buffer::from_host_memory(&self.device, tensor.memory.share(), input.device_ty.clone());
        let buffer = Arc::new(lent.map_err(Error::Execute)?);
        if let Some(slot) = slot.filter(|_| !input.donated) {
            *slot = Some(Alias { address, buffer: buffer.clone() });
        }
        Ok(buffer)
    }

    /// Whether tensors that the program writes may be written in place: no two arguments share memory.
    fn lendable(&self, arguments: &[Argument]) -> bool {
        if !self.inputs.iter().any(|i| i.donated) {
            return true;
        }
        let span = |a: &Argument| match a {
            Argument::Tensor(t) => Some((t.memory.address(), t.memory.address() + t.memory.len())),
            _ => None,
        };
        let mut spans: Vec<(usize, usize)> = arguments.iter().filter_map(span).filter(|s| s.0 < s.1).collect();
        spans.sort_unstable();
        spans.windows(2).all(|w| w[0].1 <= w[1].0)
    }

    /// A tensor for the caller out of an output, or nothing for a mutation, which is written back where the plugin did
    /// not write it in place.
    fn take(&self, buffer: Buffer, output: &Output, arguments: &[Argument]) -> Result<Option<OutputTensor>> {
        let buffer = Arc::new(buffer);
        match output {
            Output::Result { shape, strides, dtype } => {
                let memory = buffer.share().map_err(Error::Execute)?;
                Ok(Some(OutputTensor { memory, dtype: *dtype, shape: shape.clone(), strides: strides.clone() }))
            }
            Output::Mutation(argument) => {
                let Some(Argument::Tensor(target)) = arguments.get(*argument) else { return Ok(None) };
                let in_place =
                    target.is_contiguous() && buffer.unsafe_pointer().is_ok_and(|p| p == target.memory.address());
                if !in_place && !target.memory.is_empty() {
                    host::write_back(&buffer.to_host().map_err(Error::Execute)?, target)?;
                }
                Ok(None)
            }
        }
    }
}

impl Input {
    /// The caller's tensor, which must be of this input's type.
    pub(crate) fn tensor<'a>(&self, position: usize, given: Option<&'a Argument>) -> Result<&'a HostTensor> {
        let wrong = |what: &str| {
            Error::Argument(format!(
                "argument {position} (`{}`) must be a tensor of {}, got {what}",
                self.name, self.ty
            ))
        };
        match given {
            Some(Argument::Tensor(t)) if t.dtype == self.ty.dtype && t.shape == self.ty.shape => Ok(t),
            Some(Argument::Tensor(t)) => Err(wrong(&TensorType { dtype: t.dtype, shape: t.shape.clone() }.to_string())),
            Some(Argument::Int(_) | Argument::Float(_)) => Err(wrong("a number")),
            Some(Argument::None) => Err(wrong("None")),
            None => Err(wrong("nothing")),
        }
    }
}

/// For each input of the graph the position of the call's argument behind it, if there is one.
fn argument_of(metas: &[InputMeta], inputs: usize) -> Vec<Option<usize>> {
    let mut arguments = vec![None; inputs];
    for (n, meta) in metas.iter().enumerate() {
        if let InputValue::Tensor { position, .. } = meta.value {
            arguments[position] = Some(n);
        }
    }
    arguments
}

/// Outputs of the graph that are computed, by their positions.
type Kept = Vec<(usize, Output)>;

/// How each result is made, and the outputs of the graph that are needed for that: their positions, and what they are.
fn plan(graph: &Graph, results: &[OutputMeta], arguments: &[Option<usize>]) -> Result<(Vec<Plan>, Kept)> {
    let mut kept: Kept = vec![];
    let mut known: FxHashMap<(ValueId, &Strides, CellId), usize> = FxHashMap::default();
    let mut plans = vec![];
    for (n, result) in results.iter().enumerate() {
        let t = match result {
            OutputMeta::Tensor(t) => t,
            OutputMeta::Number(Scalar::Known(number)) => {
                plans.push(Plan::Number(*number));
                continue;
            }
            OutputMeta::Number(Scalar::Symbolic(sym)) => {
                plans.push(Plan::Symbolic(Expr::parse(&sym.expr)?));
                continue;
            }
            OutputMeta::Str(_) | OutputMeta::None => {
                plans.push(Plan::None);
                continue;
            }
        };
        let value = graph.outputs[t.position].value;
        if let Some(argument) = unchanged(graph, t).and_then(|i| arguments[i]) {
            plans.push(Plan::Argument(argument));
        } else if let Some(&earlier) = known.get(&(value, &t.strides, t.storage)) {
            plans.push(Plan::Result(earlier));
        } else {
            known.insert((value, &t.strides, t.storage), n);
            plans.push(Plan::Output(kept.len()));
            let dtype = graph.tensor_type(value).map_or(DType::Bool, |t| t.dtype);
            kept.push((t.position, Output::Result { shape: t.shape.clone(), strides: t.strides.clone(), dtype }));
        }
    }
    for (position, output) in graph.outputs.iter().enumerate() {
        if let OutputKind::Mutation(input) = output.kind
            && let Some(argument) = arguments[input]
        {
            kept.push((position, Output::Mutation(argument)));
        }
    }
    Ok((plans, kept))
}

/// The input that a result is: the whole of it, as it stands when the call ends.
fn unchanged(graph: &Graph, result: &ResultTensor) -> Option<usize> {
    let input = result.alias?;
    let next = graph.outputs.iter().find(|o| o.kind == OutputKind::Mutation(input)).map(|o| o.value);
    let whole = next.unwrap_or(graph.inputs[input].value);
    let value = graph.outputs[result.position].value;
    let order = dense_order(&result.strides);
    let row_major = order.iter().enumerate().all(|(i, &d)| i == d);
    if value == whole {
        return row_major.then_some(input);
    }
    // The value of a transposed layout is the logical value in the order of its storage.
    match &graph.node(value).op {
        Op::Transpose { permutation } if graph.node(value).operands[0] == whole && permutation[..] == order[..] => {
            Some(input)
        }
        _ => None,
    }
}

/// Dimensions by falling stride.
pub(crate) fn dense_order(strides: &Strides) -> Vec<usize> {
    let mut order: Vec<usize> = (0..strides.len()).collect();
    order.sort_by_key(|&d| std::cmp::Reverse(strides[d]));
    order
}

fn inputs(graph: &Graph, arguments: &[Option<usize>]) -> Result<Vec<Input>> {
    let donated = |i: usize| graph.outputs.iter().any(|o| o.kind == OutputKind::Mutation(i));
    let mut inputs = vec![];
    for (i, input) in graph.inputs.iter().enumerate() {
        let source = match (&input.kind, arguments.get(i).copied().flatten()) {
            (InputKind::Symbol(expr), _) => Source::Symbol(Expr::parse(expr)?),
            (InputKind::RngState, _) => Source::Rng,
            (_, Some(argument)) => Source::Argument(argument),
            (_, None) => return Err(ir::Error::internal(format!("nothing feeds input `{}`", input.name)).into()),
        };
        let ty = graph.tensor_type(input.value).ok_or_else(|| ir::Error::internal("an input is a tuple"))?.clone();
        let device_ty = Arc::new(host::runtime_type(&ty));
        inputs.push(Input { name: input.name.clone(), source, ty, device_ty, donated: donated(i) });
    }
    Ok(inputs)
}

pub(crate) fn number(expr: &Expr, dims: &DimValues) -> Result<Number> {
    Ok(expr.evaluate(&|s| dims.get(s).copied())?)
}

pub(crate) fn value(plan: &Plan, tensors: &mut [Option<OutputTensor>], dims: &DimValues) -> Result<Value> {
    let number = match plan {
        Plan::Output(n) => return Ok(tensors[*n].take().map_or(Value::None, Value::Tensor)),
        Plan::Argument(n) => return Ok(Value::Argument(*n)),
        Plan::Result(n) => return Ok(Value::Result(*n)),
        Plan::None => return Ok(Value::None),
        Plan::Number(number) => *number,
        Plan::Symbolic(expr) => number(expr, dims)?,
    };
    Ok(match number {
        Number::Bool(b) => Value::Bool(b),
        Number::Int(n) => Value::Int(n),
        Number::Float(x) | Number::Complex(x, _) => Value::Float(x),
    })
}
