//! Programs and tensors from files.

use crate::args::{Numerics, Precision, Source};
use crate::output::{Failure, Outcome};
use driver::{Argument, DimValues, HostTensor, Options, OutputTensor, Program, Value};
use ir::ops::sample::data::SplitMix;
use ir::trace::schema::{Argument as TraceArgument, InputSpec, SymBoolArgument, SymIntArgument};
use ir::{DType, TensorType};
use runtime::{AlignedBytes, HostMemory, machine_memory};
use safetensors::tensor::{Dtype, SafeTensors, View};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

/// Whether the source is StableHLO text rather than a trace.
pub(crate) fn is_mlir(source: &Source) -> bool {
    source.trace.extension().is_some_and(|e| e == "mlir")
}

/// All of a file, or of standard input for `-`.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let failed = |e: std::io::Error| Failure::tool(format!("{}: {e}", path.display()));
    if path != Path::new("-") {
        return std::fs::read(path).map_err(failed);
    }
    let mut bytes = vec![];
    std::io::stdin().read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

/// The sizes given on the command line, of symbols that the program has.
pub(crate) fn dims(source: &Source, program: &Program) -> Result<DimValues, Failure> {
    let symbols = program.symbols();
    let mut dims = DimValues::new();
    for (name, size) in &source.dims {
        if !symbols.contains(name) {
            let has: Vec<String> = symbols.iter().map(|symbol| program.placed(symbol)).collect();
            let has = if has.is_empty() { "all its sizes are fixed".to_owned() } else { has.join(", ") };
            return Err(Failure::tool(format!("--dim {name}={size}: the program has no symbol `{name}`: {has}")));
        }
        if dims.insert(name.clone(), *size).is_some() {
            return Err(Failure::tool(format!("--dim {name}={size}: `{name}` is given twice")));
        }
    }
    Ok(dims)
}

/// The program of a trace or an archive.
pub(crate) fn program(source: &Source) -> Result<Program, Failure> {
    program_of(source, read(&source.trace)?)
}

/// The program of a trace or an archive that was [`read`].
pub(crate) fn program_of(source: &Source, bytes: Vec<u8>) -> Result<Program, Failure> {
    let precision = match source.precision {
        Precision::Default => ir::Precision::Default,
        Precision::High => ir::Precision::High,
        Precision::Highest => ir::Precision::Highest,
    };
    let numerics = match source.numerics {
        Numerics::Exact => driver::Numerics::Exact,
        Numerics::Reassociate => driver::Numerics::Reassociate,
        Numerics::Fast => driver::Numerics::Fast,
    };
    let (optimize, limit) = (!source.no_optimize, source.limit);
    let options = Options { precision, optimize, numerics, limit, ..Options::from_env() };
    Program::from_bytes(bytes, options).map_err(|e| match e {
        driver::Error::Program(e) => Failure::Rejected(e.in_file(&source.trace).into()),
        other => other.into(),
    })
}

/// The inputs that a trace knows of.
#[derive(Default)]
pub(crate) struct Known {
    /// By position the qualified names of parameters, buffers and constants.
    qualified: Vec<Option<String>>,
    /// Those that no tensor is given for, by name, and what they are.
    fixed: BTreeMap<String, String>,
}

impl Known {
    /// Of the trace in `bytes`, which [`read`] took from `path`.
    pub(crate) fn read(path: &Path, bytes: &[u8]) -> Result<Known, Failure> {
        // What is in an archive besides the trace stays in its file.
        let trace = match path == Path::new("-") {
            true => ir::trace::read_bytes(bytes.to_vec()),
            false => ir::trace::read(path),
        };
        let trace = trace.map_err(|e| Failure::Rejected(e.in_file(path).into()))?;
        let specs = &trace.signature.input_specs;
        let numbers = trace.graph.inputs.iter().filter_map(number);
        let constants = specs.iter().filter_map(constant);
        Ok(Known { qualified: specs.iter().map(qualified).collect(), fixed: numbers.chain(constants).collect() })
    }
}

fn qualified(spec: &InputSpec) -> Option<String> {
    match spec {
        InputSpec::Parameter { parameter_name: name, .. }
        | InputSpec::Buffer { buffer_name: name, .. }
        | InputSpec::TensorConstant { tensor_constant_name: name, .. } => Some(name.clone()),
        _ => None,
    }
}

fn number(input: &TraceArgument) -> Option<(String, String)> {
    match input {
        TraceArgument::AsSymInt(SymIntArgument::AsName(name))
        | TraceArgument::AsSymBool(SymBoolArgument::AsName(name)) => {
            Some((name.clone(), "a number, which --dim gives".to_owned()))
        }
        _ => None,
    }
}

fn constant(spec: &InputSpec) -> Option<(String, String)> {
    let InputSpec::ConstantInput { name, value } = spec else { return None };
    let value = match value {
        TraceArgument::AsNone(_) => "None".to_owned(),
        TraceArgument::AsInt(i) => i.to_string(),
        TraceArgument::AsFloat(x) => format!("{:?}", x.0),
        TraceArgument::AsBool(true) => "True".to_owned(),
        TraceArgument::AsBool(false) => "False".to_owned(),
        TraceArgument::AsString(text) => format!("{text:?}"),
        _ => "a constant".to_owned(),
    };
    Some((name.clone(), format!("fixed to {value}, which it was exported with")))
}

/// How many names are told in the place of one that nothing has.
const NEAREST: usize = 3;

/// Zeros for the input `name`. An allocation that fails would end the process, and one beyond the memory that is there may
/// succeed and end it when it is written to: both are refused.
fn room_for(name: &str, ty: &TensorType) -> Result<AlignedBytes, Failure> {
    let bytes = ty.size_in_bytes();
    let refused = |why: String| Failure::tool(format!("input `{name}`, {ty}, takes {}: {why}", shown(bytes)));
    if let Some(free) = machine_memory().map(|m| m.available as usize).filter(|&free| bytes > free) {
        return Err(refused(format!("{} of memory are free; fix a smaller size with --dim", shown(free))));
    }
    if Vec::<u8>::new().try_reserve_exact(bytes).is_err() {
        return Err(refused("so much cannot be allocated; fix a smaller size with --dim".to_owned()));
    }
    AlignedBytes::zeroed(bytes).map_err(Failure::tool)
}

fn shown(bytes: usize) -> String {
    report::bytes(bytes as f64)
}

/// Named tensors in memory that a CPU plugin can use in place.
#[derive(Default)]
pub(crate) struct Tensors(BTreeMap<String, (TensorType, Arc<AlignedBytes>)>);

impl Tensors {
    pub(crate) fn load(path: &Path) -> Result<Tensors, Failure> {
        let bytes = read(path)?;
        let bad = |e: &dyn std::fmt::Display| Failure::tool(format!("{}: {e}", path.display()));
        let file = SafeTensors::deserialize(&bytes).map_err(|e| bad(&format!("no safetensors: {e}")))?;
        let mut tensors = BTreeMap::new();
        for (name, view) in file.tensors() {
            let dtype = dtype(view.dtype()).ok_or_else(|| bad(&format!("`{name}` is of {:?}", view.dtype())))?;
            let ty = TensorType::new(dtype, view.shape().iter().copied());
            let data = AlignedBytes::copy_of(view.data()).map_err(Failure::tool)?;
            tensors.insert(name.clone(), (ty, Arc::new(data)));
        }
        Ok(Tensors(tensors))
    }

    /// Adds what the program takes and is not here, of values that suit most programs: floats around zero, small non-negative
    /// integers.
    pub(crate) fn draw_missing(&mut self, program: &Program, dims: &DimValues, seed: u64) -> Outcome {
        let mut random = SplitMix(seed);
        for (name, ty) in program.user_tensors(dims)? {
            if self.0.contains_key(&name) {
                continue;
            }
            let mut data = room_for(&name, &ty)?;
            for element in data.chunks_exact_mut(ty.dtype.size()) {
                element.copy_from_slice(&random_element(&mut random, ty.dtype));
            }
            self.0.insert(name, (ty, Arc::new(data)));
        }
        Ok(())
    }

    /// What the program takes and is not here.
    pub(crate) fn missing<'p>(&self, program: &'p Program) -> Vec<&'p str> {
        program.user_names().into_iter().filter(|&name| !self.0.contains_key(name)).collect()
    }

    /// The sizes given on the command line, and those that follow from tensors here.
    pub(crate) fn dims(&self, source: &Source, program: &Program) -> Result<DimValues, Failure> {
        let given = dims(source, program)?;
        if !program.is_symbolic() {
            return Ok(given);
        }
        let mut all = self.bound(program, |_| true)?;
        for (symbol, size) in given {
            match all.get(&symbol) {
                Some(&bound) if bound != size => return Err(self.contradiction(program, &symbol, size, bound)),
                _ => all.insert(symbol, size),
            };
        }
        Ok(all)
    }

    /// The sizes that follow from the tensors of these names.
    fn bound(&self, program: &Program, of: impl Fn(&str) -> bool) -> Result<DimValues, Failure> {
        let shape = |name: &str| self.0.get(name).filter(|_| of(name)).map(|(ty, _)| ty.shape.as_slice());
        Ok(program.bind_named(shape)?)
    }

    /// The refusal of `--dim symbol=size` where a tensor makes it `bound`.
    fn contradiction(&self, program: &Program, symbol: &str, size: i64, bound: i64) -> Failure {
        let binds = |name: &&String| {
            let alone = self.bound(program, |other| other == *name);
            alone.is_ok_and(|dims| dims.get(symbol) == Some(&bound))
        };
        let by = self.0.iter().find(|(name, _)| binds(name)).map(|(name, (ty, _))| format!(" by input `{name}`, {ty}"));
        Failure::tool(format!("--dim {symbol}={size}: `{symbol}` is {bound}{}", by.unwrap_or_default()))
    }

    /// The program's arguments: tensors from here, parameters that are not here from its archive.
    pub(crate) fn arguments(
        &self,
        program: &Program,
        dims: &DimValues,
        known: &Known,
    ) -> Result<Vec<Argument>, Failure> {
        let tensor = |name: &str| {
            let (ty, data) = self.0.get(name)?;
            Some(HostTensor::contiguous(ty, HostMemory::shared(data.clone())))
        };
        let mut arguments = program.arguments(dims, tensor)?;
        for (argument, name) in arguments.iter_mut().zip(&known.qualified) {
            if let Some(given) = name.as_deref().and_then(tensor) {
                *argument = Argument::Tensor(given);
            }
        }
        Ok(arguments)
    }

    /// Refuses what the program does not take: a misspelt name would leave another value in use.
    pub(crate) fn refuse_strangers(&self, program: &Program, known: &Known) -> Outcome {
        let mut names = program.user_names();
        let lacking: BTreeSet<&str> = names.iter().copied().collect();
        names.extend(known.qualified.iter().flatten().map(String::as_str).filter(|name| !lacking.contains(name)));
        let Some(stranger) = self.0.keys().find(|name| !names.contains(&name.as_str())) else { return Ok(()) };
        if let Some(why) = known.fixed.get(stranger) {
            return Err(driver::Error::Argument(format!("input `{stranger}` takes no value: it is {why}")).into());
        }
        let near: Vec<String> =
            ir::sharding::nearest(stranger, &names, NEAREST).iter().map(|name| format!("`{name}`")).collect();
        let near =
            if near.is_empty() { "it has none".to_owned() } else { format!("the nearest are {}", near.join(", ")) };
        Err(driver::Error::Argument(format!("the program has no input `{stranger}`: {near}")).into())
    }

    /// Writes `results` to a safetensors file, as `out.0`, `out.1` and so on. Results that are no tensors leave a gap.
    pub(crate) fn save(path: &Path, results: &[Value], arguments: &[Argument]) -> Outcome {
        let mut named = vec![];
        for (i, value) in results.iter().enumerate() {
            let value = match value {
                Value::Result(n) => &results[*n],
                other => other,
            };
            let saved = match value {
                Value::Tensor(t) => Saved::of_output(t)?,
                Value::Argument(n) => match arguments.get(*n) {
                    Some(Argument::Tensor(t)) => Saved::of_input(t)?,
                    _ => continue,
                },
                _ => continue,
            };
            named.push((format!("out.{i}"), saved));
        }
        write_tensors(path, named)
    }
}

/// Positions and names of inputs that a program updates in place.
pub(crate) type Updated = Vec<(usize, String)>;

/// Writes the `updated` ones of `arguments` to a safetensors file, by their names.
pub(crate) fn save_updated(path: &Path, arguments: &[Argument], updated: &[(usize, String)]) -> Outcome {
    let mut named = vec![];
    for (position, name) in updated {
        if let Some(Argument::Tensor(t)) = arguments.get(*position) {
            named.push((name.clone(), Saved::of_input(t)?));
        }
    }
    write_tensors(path, named)
}

fn write_tensors(path: &Path, named: Vec<(String, Saved)>) -> Outcome {
    let bytes = safetensors::serialize(named, None).map_err(Failure::tool)?;
    crate::output::write(Some(path), &bytes)
}

/// The arguments of a run after which there are others: those that it updates in memory of their own.
pub(crate) fn with_own(given: &[Argument], updated: &[(usize, String)]) -> Result<Vec<Argument>, Failure> {
    let updated: BTreeSet<usize> = updated.iter().map(|(position, _)| *position).collect();
    let own = |t: &HostTensor| {
        let data = AlignedBytes::copy_of(&t.dense_bytes()).map_err(Failure::tool)?;
        let ty = TensorType { dtype: t.dtype, shape: t.shape.clone() };
        Ok::<_, Failure>(HostTensor::contiguous(&ty, HostMemory::shared(Arc::new(data))))
    };
    let argument = |(position, argument): (usize, &Argument)| match argument {
        Argument::Tensor(t) if updated.contains(&position) => Ok(Argument::Tensor(own(t)?)),
        Argument::Tensor(t) => Ok(Argument::Tensor(t.share())),
        Argument::Int(n) => Ok(Argument::Int(*n)),
        Argument::Float(x) => Ok(Argument::Float(*x)),
        Argument::None => Ok(Argument::None),
    };
    given.iter().enumerate().map(argument).collect()
}

fn random_element(random: &mut SplitMix, dtype: DType) -> Vec<u8> {
    let number = match dtype {
        DType::Bool => ir::Number::Bool(random.bits() & 1 == 1),
        d if d.is_int() => ir::Number::Int((random.bits() % 8) as i64),
        _ => ir::Number::Float(random.unit() * 2.0 - 1.0),
    };
    number.to_bytes(dtype)
}

/// A dense tensor to be written.
struct Saved {
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl Saved {
    fn of_output(t: &OutputTensor) -> Result<Saved, Failure> {
        Saved::new(t.dtype, &t.shape, t.dense_bytes()?)
    }

    fn of_input(t: &HostTensor) -> Result<Saved, Failure> {
        Saved::new(t.dtype, &t.shape, t.dense_bytes())
    }

    fn new(dtype: DType, shape: &[usize], bytes: Vec<u8>) -> Result<Saved, Failure> {
        let named = TYPES.iter().find(|(_, d)| *d == dtype).map(|(s, _)| *s);
        let dtype = named.ok_or_else(|| Failure::tool(format!("safetensors cannot hold {dtype}")))?;
        Ok(Saved { dtype, shape: shape.to_vec(), bytes })
    }
}

impl View for Saved {
    fn dtype(&self) -> Dtype {
        self.dtype
    }
    fn shape(&self) -> &[usize] {
        &self.shape
    }
    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.bytes)
    }
    fn data_len(&self) -> usize {
        self.bytes.len()
    }
}

const TYPES: [(Dtype, DType); 16] = [
    (Dtype::BOOL, DType::Bool),
    (Dtype::I8, DType::I8),
    (Dtype::I16, DType::I16),
    (Dtype::I32, DType::I32),
    (Dtype::I64, DType::I64),
    (Dtype::U8, DType::U8),
    (Dtype::U16, DType::U16),
    (Dtype::U32, DType::U32),
    (Dtype::U64, DType::U64),
    (Dtype::F8_E4M3, DType::F8E4M3FN),
    (Dtype::F8_E5M2, DType::F8E5M2),
    (Dtype::BF16, DType::BF16),
    (Dtype::F16, DType::F16),
    (Dtype::F32, DType::F32),
    (Dtype::F64, DType::F64),
    (Dtype::C64, DType::C64),
];

fn dtype(named: Dtype) -> Option<DType> {
    TYPES.iter().find(|(s, _)| *s == named).map(|(_, d)| *d)
}
