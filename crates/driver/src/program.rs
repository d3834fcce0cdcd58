//! A traced program: what it takes, and what it becomes for given sizes.

use crate::error::{Error, Result};
use crate::host::{Argument, HostTensor};
use crate::optimize::{Numerics, platform, region_names, wide_tables};
use crate::session::Session;
use fuse::Platform;
use ir::import::{ImportOptions, Imported, InputType, bind, import, unsupported_ops};
use ir::sharding::Partition;
use ir::symbol::Expr;
use ir::trace::schema::{Argument as TraceArgument, InputSpec, SymInt};
use ir::trace::{Trace, read_bytes};
use ir::{DType, Graph, Loc, Precision, TensorType};
use lower::{LowerOptions, Module, PathPrefixes};
use runtime::{AlignedBytes, HostMemory};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

/// Values of symbolic dimensions, by symbol.
pub type DimValues = BTreeMap<String, i64>;

/// What decides how a program is compiled, besides the program.
#[derive(Debug, Clone)]
pub struct Options {
    /// Precision of `f32` contractions.
    pub precision: Precision,
    /// What integers promote to in float ops; `None` stands for `f32`.
    pub default_dtype: Option<DType>,
    /// Whether to run our own optimizer. Without it, `numerics` is exact.
    pub optimize: bool,
    /// What the optimizer may do to results.
    pub numerics: Numerics,
    /// Rewrites that the optimizer makes at most, to find a wrong one.
    pub limit: Option<usize>,
    /// A folder that receives every stage of every compile.
    pub dump: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Options {
        let (precision, numerics) = (Precision::default(), Numerics::default());
        Options { precision, default_dtype: None, optimize: true, numerics, limit: None, dump: None }
    }
}

impl Options {
    /// The defaults, with a dump folder from `TORCHTPU_DUMP`.
    pub fn from_env() -> Options {
        let dump = std::env::var_os("TORCHTPU_DUMP").filter(|v| !v.is_empty()).map(PathBuf::from);
        Options { dump, ..Options::default() }
    }
}

/// A stage of the compile that can be shown as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Our graph of core ops.
    Core,
    /// The same after our own optimizer.
    Fused,
    /// What the plugin is given.
    Stablehlo,
    /// What the plugin's optimizer made of it.
    Hlo,
}

impl FromStr for Stage {
    type Err = Error;
    fn from_str(name: &str) -> Result<Stage> {
        match name {
            "core" => Ok(Stage::Core),
            "fused" => Ok(Stage::Fused),
            "stablehlo" => Ok(Stage::Stablehlo),
            "hlo" => Ok(Stage::Hlo),
            _ => Err(Error::Argument(format!(
                "there is no stage `{name}`; the stages are core, fused, stablehlo and hlo"
            ))),
        }
    }
}

/// An op of a program that has no lowering.
#[derive(Debug, Clone)]
pub struct Unsupported {
    /// The node's name in the trace.
    pub node: String,
    /// The overload, such as `aten::nonzero.default`.
    pub op: String,
    /// Why, in a few words.
    pub reason: String,
    /// The user's line.
    pub loc: Loc,
}

/// A program and the options it is compiled with.
pub struct Program {
    trace: Trace,
    options: Options,
    symbolic: bool,
    /// The trace as it came, if it is to be dumped.
    source: Vec<u8>,
}

impl Program {
    /// The program in `bytes`: a `.pt2` archive, or a trace as JSON.
    ///
    /// # Errors
    /// `Program`, if the trace is not well-formed.
    pub fn from_bytes(bytes: Vec<u8>, options: Options) -> Result<Program> {
        let source = if options.dump.is_some() { bytes.clone() } else { vec![] };
        let trace = read_bytes(bytes)?;
        let symbolic = is_symbolic(&trace);
        Ok(Program { trace, options, symbolic, source })
    }

    pub(crate) fn trace(&self) -> &Trace {
        &self.trace
    }
    pub(crate) fn options(&self) -> &Options {
        &self.options
    }
    pub(crate) fn source(&self) -> &[u8] {
        &self.source
    }
    /// Whether its inputs have sizes or numbers that only a call gives.
    pub fn is_symbolic(&self) -> bool {
        self.symbolic
    }
    /// The symbols that stand for sizes and numbers in it, sorted.
    pub fn symbols(&self) -> Vec<String> {
        let found = RefCell::new(self.trace.range_constraints.keys().cloned().collect::<BTreeSet<String>>());
        let note = |symbol: &str| {
            found.borrow_mut().insert(symbol.to_owned());
            Some(1)
        };
        let graph = &self.trace.graph;
        let sizes = graph.tensor_values.0.values().flat_map(|meta| &meta.sizes);
        for number in sizes.chain(graph.sym_int_values.0.values()) {
            if let SymInt::AsExpr(size) = number
                && let Ok(size) = Expr::parse(&size.expr_str)
            {
                let _ = size.evaluate(&note);
            }
        }
        found.into_inner().into_iter().collect()
    }
    /// `symbol`, and in words which dimension of an input it is, if it is one. What a dimension was called when the
    /// program was exported, traces do not keep.
    pub fn placed(&self, symbol: &str) -> String {
        match self.place_of(symbol) {
            Some((input, dim)) => format!("{symbol} (dimension {dim} of `{input}`)"),
            None => symbol.to_owned(),
        }
    }
    /// The input and its dimension that `symbol` is the size of, if there is one.
    fn place_of(&self, symbol: &str) -> Option<(&str, usize)> {
        let mut names = self.trace.graph.inputs.iter().filter_map(|input| match input {
            TraceArgument::AsTensor(tensor) => Some(tensor.name.as_str()),
            _ => None,
        });
        let is_it = |size: &SymInt| {
            matches!(size, SymInt::AsExpr(size)
                if matches!(Expr::parse(&size.expr_str), Ok(Expr::Symbol(name)) if *name == *symbol))
        };
        names.find_map(|name| {
            let meta = self.trace.graph.tensor_values.get(name)?;
            Some((name, meta.sizes.iter().position(is_it)?))
        })
    }
    /// Number of traced ops.
    pub fn num_nodes(&self) -> usize {
        self.trace.graph.nodes.len()
    }

    /// Ops without an entry in the table, in order; several may belong to one node.
    pub fn unsupported(&self) -> Vec<Unsupported> {
        let describe = |(position, op, loc): (usize, String, Loc)| {
            let node = self.trace.graph.nodes[position].name.clone().unwrap_or_default();
            Unsupported { node, op, reason: "it is not in the op table".to_owned(), loc }
        };
        unsupported_ops(&self.trace).into_iter().map(describe).collect()
    }

    /// The graph for these sizes, with constants folded.
    ///
    /// # Errors
    /// `Program`: the trace is wrong, a symbol has no value, or an op has no lowering.
    pub fn import(&self, dims: &DimValues) -> Result<Imported> {
        self.import_for(dims, None)
    }

    /// The graph for these sizes, expanded as suits `platform`.
    pub(crate) fn import_for(&self, dims: &DimValues, platform: Option<Platform>) -> Result<Imported> {
        let Options { precision, default_dtype, optimize, numerics, .. } = self.options;
        let excess_precision = optimize && numerics != Numerics::Exact;
        let wide_tables = platform.filter(|_| optimize).and_then(wide_tables);
        let options = ImportOptions { dims: dims.clone(), precision, default_dtype, excess_precision, wide_tables };
        let imported = import(&self.trace, &options)?;
        let graph = ir::fold::fold(&imported.graph, ir::fold::DEFAULT_LIMIT)?;
        Ok(Imported { graph, ..imported })
    }

    /// Values of symbols that follow from the arguments of a call.
    ///
    /// # Errors
    /// `Program`, naming the input, if an argument contradicts the trace.
    pub fn bind(&self, arguments: &[Argument]) -> Result<DimValues> {
        fn given(a: &Argument) -> InputType<'_> {
            match a {
                Argument::Tensor(t) => InputType::Shape(t.shape.as_slice()),
                Argument::Int(n) => InputType::Int(*n),
                Argument::Float(_) | Argument::None => InputType::Other,
            }
        }
        self.bind_types(&arguments.iter().map(given).collect::<Vec<_>>())
    }

    /// Values of symbols that follow from some of the tensors that a caller gives, whose extents `shape` knows by name.
    ///
    /// # Errors
    /// As [`Program::bind`].
    pub fn bind_named<'a>(&self, shape: impl Fn(&str) -> Option<&'a [usize]>) -> Result<DimValues> {
        let mut given = vec![InputType::Other; self.trace.graph.inputs.len()];
        for (position, name) in self.wanted() {
            given[position] = shape(name).map_or(InputType::Other, InputType::Shape);
        }
        self.bind_types(&given)
    }

    pub(crate) fn bind_types(&self, given: &[InputType<'_>]) -> Result<DimValues> {
        Ok(bind(&self.trace, given)?)
    }

    /// The text of `stage`. The last one needs a session, whose plugin compiles the program.
    ///
    /// # Errors
    /// As [`Program::import`]; `Compile` if the plugin refuses the program.
    pub fn text(&self, stage: Stage, dims: &DimValues, session: Option<&Session>) -> Result<String> {
        match (stage, session) {
            (Stage::Hlo, Some(session)) => session.optimized_text(&self.bytecode_for(dims, platform(Some(session)))?),
            _ => self.text_for(stage, dims, platform(session)),
        }
    }

    /// The text of a stage before the plugin's own, for `platform`.
    ///
    /// # Errors
    /// As [`Program::import`]; `Argument` for the plugin's own.
    pub fn text_for(&self, stage: Stage, dims: &DimValues, platform: Platform) -> Result<String> {
        match stage {
            Stage::Core => Ok(ir::text::print(&self.import_for(dims, Some(platform))?.graph)),
            Stage::Fused => Ok(ir::text::print(&self.optimized_for(dims, platform)?)),
            Stage::Stablehlo => Ok(self.lower(&self.optimized_for(dims, platform)?, Some(platform))?.text()?),
            Stage::Hlo => Err(Error::Argument("the hlo stage needs a plugin".to_owned())),
        }
    }

    /// StableHLO as the plugin gets it.
    ///
    /// # Errors
    /// As [`Program::import`].
    pub fn bytecode(&self, dims: &DimValues) -> Result<Vec<u8>> {
        self.bytecode_for(dims, platform(None))
    }

    /// StableHLO for `platform`.
    ///
    /// # Errors
    /// As [`Program::import`].
    pub fn bytecode_for(&self, dims: &DimValues, platform: Platform) -> Result<Vec<u8>> {
        Ok(self.lower(&self.optimized_for(dims, platform)?, Some(platform))?.into_bytecode())
    }

    fn optimized_for(&self, dims: &DimValues, platform: Platform) -> Result<Graph> {
        Ok(self.optimized(&self.import_for(dims, Some(platform))?.graph, platform)?.0)
    }

    /// `graph` as StableHLO; located for a platform, with the names of its regions there.
    pub(crate) fn lower(&self, graph: &Graph, located: Option<Platform>) -> Result<Module> {
        let regions = located.filter(|_| self.options().optimize).map(|platform| region_names(graph, platform));
        lower_with(graph, located.is_some(), None, regions.unwrap_or_default())
    }

    /// Where each source file of the trace lies on the machine that traced it, by its name in what is written.
    pub(crate) fn source_files(&self) -> BTreeMap<String, String> {
        let prefixes = path_prefixes();
        let mut locator = ir::trace::Locator::default();
        let locs = self.trace.graph.nodes.iter().map(|node| locator.loc(node));
        locs.map(|loc| (prefixes.relative(&loc.file).to_owned(), loc.file.to_string())).collect()
    }

    /// Names of the tensors that a caller must give: a user's inputs, and by their qualified names the parameters, buffers and
    /// constants whose values the trace has come without.
    pub fn user_names(&self) -> Vec<&str> {
        self.wanted().into_iter().map(|(_, name)| name).collect()
    }

    /// [`Program::user_names`] with their types, for these sizes.
    ///
    /// # Errors
    /// As [`Program::import`].
    pub fn user_tensors(&self, dims: &DimValues) -> Result<Vec<(String, TensorType)>> {
        let inputs = self.import(dims)?.inputs;
        let typed = |(position, name): (usize, &str)| match &inputs.get(position)?.value {
            ir::import::InputValue::Tensor { ty, .. } => Some((name.to_owned(), ty.clone())),
            _ => None,
        };
        Ok(self.wanted().into_iter().filter_map(typed).collect())
    }

    /// Positions and names of the inputs that a call updates in place, for these sizes.
    ///
    /// # Errors
    /// As [`Program::import`].
    pub fn updated(&self, dims: &DimValues) -> Result<Vec<(usize, String)>> {
        let graph = self.import(dims)?.graph;
        let named = |position: usize| Some((position, self.tensor_name(position)?.to_owned()));
        Ok(graph.mutated_inputs().into_iter().filter_map(named).collect())
    }

    /// Positions and names of the tensors that a caller must give.
    fn wanted(&self) -> Vec<(usize, &str)> {
        let held = |name: &str| self.trace.weights.as_ref().is_some_and(|weights| weights.get(name).is_some());
        let named = |position: usize| Some((position, self.tensor_name(position)?));
        let given = |position: usize| self.qualified_name(position).is_some_and(held);
        (0..self.trace.graph.inputs.len()).filter(|&position| !given(position)).filter_map(named).collect()
    }

    /// The name of the tensor at `position`, if one is there: the qualified one where it has such.
    fn tensor_name(&self, position: usize) -> Option<&str> {
        self.qualified_name(position).or_else(|| match self.trace.graph.inputs.get(position)? {
            TraceArgument::AsTensor(tensor) => Some(tensor.name.as_str()),
            _ => None,
        })
    }

    /// The qualified name of the parameter, buffer or constant at `position`, if one is there.
    fn qualified_name(&self, position: usize) -> Option<&str> {
        use InputSpec::{Buffer, Parameter, TensorConstant};
        match self.trace.signature.input_specs.get(position)? {
            Parameter { parameter_name: name, .. }
            | Buffer { buffer_name: name, .. }
            | TensorConstant { tensor_constant_name: name, .. } => Some(name),
            _ => None,
        }
    }

    /// The arguments of a call: parameters, buffers and constants from the archive, the rest, also of those, from `user`, by
    /// the names of [`Program::user_names`].
    ///
    /// # Errors
    /// `Argument`, naming the input that neither has.
    pub fn arguments(&self, dims: &DimValues, user: impl Fn(&str) -> Option<HostTensor>) -> Result<Vec<Argument>> {
        let inputs = self.trace.graph.inputs.iter().enumerate();
        inputs.map(|(i, arg)| self.argument(i, arg, dims, &user)).collect()
    }

    fn argument(
        &self,
        position: usize,
        arg: &TraceArgument,
        dims: &DimValues,
        user: &impl Fn(&str) -> Option<HostTensor>,
    ) -> Result<Argument> {
        let given = |name: &str| {
            let missing = || Error::Argument(format!("input `{name}` is missing"));
            user(name).map(Argument::Tensor).ok_or_else(missing)
        };
        match (self.qualified_name(position), arg) {
            (Some(name), _) => self.weight(name)?.map_or_else(|| given(name), |held| Ok(Argument::Tensor(held))),
            (_, TraceArgument::AsTensor(t)) => given(&t.name),
            (_, TraceArgument::AsSymInt(_) | TraceArgument::AsSymBool(_)) => {
                let value = self.import(dims)?.inputs.into_iter().nth(position);
                match value.map(|i| i.value) {
                    Some(ir::import::InputValue::Symbol(expr)) => Ok(Argument::Int(evaluate(&expr, dims)?)),
                    _ => Ok(Argument::None),
                }
            }
            _ => Ok(Argument::None),
        }
    }

    fn weight(&self, name: &str) -> Result<Option<HostTensor>> {
        let Some(weights) = &self.trace.weights else { return Ok(None) };
        let Some(weight) = weights.get(name) else { return Ok(None) };
        let bytes = AlignedBytes::copy_of(&weights.read(name)?).map_err(Error::Execute)?;
        Ok(Some(HostTensor::contiguous(&weight.ty, HostMemory::shared(Arc::new(bytes)))))
    }
}

/// `graph` as StableHLO, spread over devices as `partition` says.
pub(crate) fn lower_partitioned(graph: &Graph, locations: bool, partition: Option<&Partition>) -> Result<Module> {
    lower_with(graph, locations, partition, vec![])
}

fn lower_with(graph: &Graph, locations: bool, partition: Option<&Partition>, regions: Vec<Arc<str>>) -> Result<Module> {
    let path_prefixes = path_prefixes();
    let partition = partition.cloned();
    Ok(lower::lower(graph, &LowerOptions { locations, path_prefixes, partition, regions, ..LowerOptions::default() })?)
}

/// Whether an input's size, or an input itself, is a symbol.
fn is_symbolic(trace: &Trace) -> bool {
    trace.graph.inputs.iter().any(|input| match input {
        TraceArgument::AsTensor(t) => {
            let meta = trace.graph.tensor_values.get(&t.name);
            meta.is_some_and(|m| m.sizes.iter().any(|s| matches!(s, SymInt::AsExpr(_))))
        }
        TraceArgument::AsSymInt(_) | TraceArgument::AsSymFloat(_) | TraceArgument::AsSymBool(_) => true,
        _ => false,
    })
}

fn evaluate(expr: &str, dims: &DimValues) -> Result<i64> {
    let value = Expr::parse(expr)?.evaluate(&|s| dims.get(s).copied())?;
    Ok(value.as_i64())
}

/// Where source paths may start, so that they are written relative and equal on every host.
pub(crate) fn path_prefixes() -> PathPrefixes {
    let here = std::env::current_dir().ok().map(|p| p.display().to_string());
    PathPrefixes::new(here)
}
