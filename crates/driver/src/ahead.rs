//! Programs for TPUs that are not there: compiled, looked into, and put where a TPU host finds them.

use crate::cache::DiskCache;
use crate::error::{Error, Result};
use crate::partitioned::{Partitioned, Partitioning};
use crate::program::{DimValues, Program};
use crate::session;
use crate::training;
use crate::variant::Prepared;
use aot::{Compiled, Job, Machine, Outcome, Pool};
use fuse::Platform;
use hlo::primitive;
use hlo::proto::{HloModuleProto, ShapeProto};
use ir::{Graph, InputKind, OutputKind};
use report::{Rewrites, Training};
use runtime::CompileOptions;
use serde::Serialize;
use target::Target;

/// What became of a program on one target.
pub struct Ahead {
    /// The target.
    pub target: Target,
    /// What libtpu said.
    pub outcome: Outcome,
    /// What the program takes and gives.
    pub interface: Interface,
    /// How many devices share the program.
    pub num_partitions: usize,
    /// What the program trains, if that is known.
    pub training: Option<Training>,
    /// What our optimizer changed, if it ran.
    pub rewrites: Option<Rewrites>,
    /// The program's hash: of its StableHLO without locations.
    pub hash: String,
    /// Its key in a cache of executables.
    key: String,
}

/// Arguments and results of an executable, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Interface {
    /// What it takes.
    pub inputs: Vec<Slot>,
    /// What it gives.
    pub outputs: Vec<Slot>,
}

/// One argument or result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Slot {
    /// Its name in the trace; a parameter's or buffer's qualified name.
    pub name: String,
    /// `user`, `parameter`, `buffer`, `constant`, `symbol`, `rng`; of results `user` or `mutation`.
    pub kind: &'static str,
    /// Its element type.
    pub dtype: String,
    /// Its extents.
    pub shape: Vec<usize>,
    /// Of an argument: the result that takes its memory. Of a result: the argument whose memory it takes.
    pub shares_memory_with: Option<usize>,
}

impl Program {
    /// Compiles the program, for these sizes, for one device of `target`, or for as many as `by` spreads it over.
    ///
    /// # Errors
    /// As [`Program::partitioned`]; `Argument` if the target has too few devices; `Ahead` when libtpu cannot be used. Its
    /// refusal of the program is in the result.
    pub fn compile_ahead(
        &self,
        dims: &DimValues,
        by: Option<&Partitioning>,
        target: &Target,
        pool: &Pool,
    ) -> Result<Ahead> {
        let input = match by {
            Some(by) => Written::partitioned(&self.partitioned(dims, by)?)?,
            None => Written::whole(self, Prepared::unoptimized(self, dims, Some(Platform::Tpu))?.graph)?,
        };
        let devices = target.num_chips() as usize * target.chip().devices as usize;
        let num_partitions = input.options.num_partitions;
        if num_partitions > devices {
            return Err(Error::Argument(format!("the mesh has {num_partitions} devices, {target} has {devices}")));
        }
        let job = Job { target, program: &input.located, options: &input.options };
        let outcome = pool.compile(&job)?;
        let key = key(&outcome.machine, &input.options, &input.canonical);
        let hash = blake3::hash(&input.canonical).to_hex().to_string();
        let (interface, rewrites, training) = (input.interface, input.rewrites, Some(input.training));
        Ok(Ahead { target: target.clone(), outcome, interface, num_partitions, training, rewrites, hash, key })
    }
}

/// How a program that nothing spreads is compiled.
fn for_one_device() -> CompileOptions {
    session::with_flags(CompileOptions::default())
}

/// A program as compilers get it.
struct Written {
    /// Without locations: what decides its key.
    canonical: Vec<u8>,
    located: Vec<u8>,
    interface: Interface,
    options: CompileOptions,
    training: Training,
    rewrites: Option<Rewrites>,
}

impl Written {
    fn whole(program: &Program, graph: Graph) -> Result<Written> {
        let rewritten = program.rewritten_graph(graph, Platform::Tpu)?;
        let canonical = program.lower(&rewritten.after, None)?.into_bytecode();
        let located = program.lower(&rewritten.after, Some(Platform::Tpu))?.into_bytecode();
        let training = training::of(&rewritten.after, None);
        let interface = Interface::of(&rewritten.after);
        let rewrites = program.options().optimize.then(|| rewritten.report());
        Ok(Written { canonical, located, interface, options: for_one_device(), training, rewrites })
    }

    fn partitioned(program: &Partitioned) -> Result<Written> {
        Ok(Written {
            canonical: program.bytecode(false)?,
            located: program.bytecode(true)?,
            interface: Interface::of(program.graph()),
            options: program.compile_options(),
            training: training::of(program.graph(), Some(program.partition())),
            rewrites: None,
        })
    }
}

/// Puts what is in the text that MLIR was given, which it calls `-`, into `file`.
fn place_in(module: &mut HloModuleProto, file: &str) {
    let instructions = module.computations.iter_mut().flat_map(|computation| &mut computation.instructions);
    let in_instructions = instructions.filter_map(|it| it.metadata.as_mut()).map(|metadata| &mut metadata.source_file);
    let in_frames = module.stack_frame_index.iter_mut().flat_map(|index| &mut index.file_names);
    in_instructions.chain(in_frames).filter(|name| *name == "-").for_each(|name| file.clone_into(name));
}

impl Ahead {
    /// Compiles StableHLO, as text or bytecode, for one device of `target`. The places of a text's ops are lines
    /// of `file`.
    ///
    /// # Errors
    /// `Ahead` when libtpu cannot be used. Its refusal of the program is in the result.
    pub fn of_stablehlo(program: &[u8], file: &str, target: &Target, pool: &Pool) -> Result<Ahead> {
        let options = for_one_device();
        let job = Job { target, program, options: &options };
        let mut outcome = pool.compile(&job)?;
        let made = outcome.result.as_mut().ok().and_then(|compiled| compiled.optimized.as_mut());
        let dumped = outcome.dump.as_mut().and_then(|dump| dump.hlo_module.as_mut());
        made.into_iter().chain(dumped).for_each(|module| place_in(module, file));
        let module = outcome.dump.as_ref().and_then(|dump| dump.hlo_module.as_ref());
        let interface = module.map(Interface::of_module).unwrap_or_default();
        let key = key(&outcome.machine, &options, program);
        let hash = blake3::hash(program).to_hex().to_string();
        Ok(Ahead {
            target: target.clone(),
            outcome,
            interface,
            num_partitions: 1,
            training: None,
            rewrites: None,
            hash,
            key,
        })
    }

    /// What was compiled.
    ///
    /// # Errors
    /// `Refused`, if the compiler refused the program.
    pub fn compiled(&self) -> Result<&Compiled> {
        self.outcome
            .result
            .as_ref()
            .map_err(|message| Error::Refused { target: self.target.to_string(), message: message.clone() })
    }

    /// What libtpu made of the program, as text.
    ///
    /// # Errors
    /// `Refused`; `Ahead`, if libtpu does not tell.
    pub fn optimized_text(&self) -> Result<String> {
        let optimized = self.compiled()?.optimized.as_ref();
        let silent = || aot::Error::Libtpu("it does not tell what it made of the program".to_owned());
        Ok(hlo::print(optimized.ok_or_else(silent)?))
    }

    /// Puts the executable where a process on the target finds it that has `cache` for its cache of executables.
    ///
    /// # Errors
    /// `Refused`; `Io`, if the folder cannot be written.
    pub fn put(&self, cache: &DiskCache) -> Result<()> {
        cache.put(&self.key, &self.compiled()?.executable).map_err(Error::io(cache.folder()))
    }

    /// What goes with the executable's file, as JSON.
    ///
    /// # Errors
    /// `Refused`.
    pub fn manifest(&self) -> Result<serde_json::Value> {
        let compiled = self.compiled()?;
        let machine = &self.outcome.machine;
        let memory = &compiled.memory;
        Ok(serde_json::json!({
            "format": "torchtpu-executable", "version": 1,
            "target": self.target.to_string(),
            "device_kind": machine.device_kind,
            "num_devices": machine.num_devices,
            "num_partitions": self.num_partitions,
            "libtpu": machine.platform_version,
            "libtpu_build": machine.fingerprint,
            "emitter": lower::EMITTER_VERSION,
            "program": self.hash,
            "cache_key": self.key,
            "executable": blake3::hash(&compiled.executable).to_hex().to_string(),
            "executable_bytes": compiled.executable.len(),
            "memory": {
                "arguments": memory.arguments, "outputs": memory.outputs, "aliased": memory.aliased,
                "temporaries": memory.temporaries, "code": memory.generated_code,
            },
            "inputs": self.interface.inputs,
            "outputs": self.interface.outputs,
        }))
    }
}

impl Interface {
    /// That of a compiled module, which has no names.
    fn of_module(module: &HloModuleProto) -> Interface {
        let shape = module.host_program_shape.clone().unwrap_or_default();
        let result = shape.result.unwrap_or_default();
        let outputs = if result.element_type == primitive::TUPLE { result.tuple_shapes } else { vec![result] };
        let slot = |(prefix, index): (&str, usize), shape: &ShapeProto, shares_memory_with| Slot {
            name: format!("{prefix}{index}"),
            kind: "user",
            dtype: primitive::name(shape.element_type).unwrap_or("?").to_owned(),
            shape: shape.dimensions.iter().map(|&size| usize::try_from(size).unwrap_or(0)).collect(),
            shares_memory_with,
        };
        let aliases = module.input_output_alias.iter().flat_map(|aliases| &aliases.entries);
        let index = |number: i64| usize::try_from(number).ok();
        let aliases: Vec<(Option<usize>, Option<usize>)> = aliases
            .map(|it| (index(it.parameter_number), index(it.output_shape_index.first().copied().unwrap_or(0))))
            .collect();
        let output_of = |input| aliases.iter().find(|it| it.0 == Some(input)).and_then(|it| it.1);
        let input_of = |output| aliases.iter().find(|it| it.1 == Some(output)).and_then(|it| it.0);
        let inputs = shape.parameters.iter().enumerate();
        let outputs = outputs.iter().enumerate();
        Interface {
            inputs: inputs.map(|(i, shape)| slot(("arg", i), shape, output_of(i))).collect(),
            outputs: outputs.map(|(i, shape)| slot(("out", i), shape, input_of(i))).collect(),
        }
    }

    fn of(graph: &ir::Graph) -> Interface {
        let slot = |name: &str, kind, value, shares_memory_with| {
            let ty = graph.tensor_type(value);
            Slot {
                name: name.to_owned(),
                kind,
                dtype: ty.map(|ty| ty.dtype.to_string()).unwrap_or_default(),
                shape: ty.map(|ty| ty.shape.to_vec()).unwrap_or_default(),
                shares_memory_with,
            }
        };
        let next = |input| graph.outputs.iter().position(|output| output.kind == OutputKind::Mutation(input));
        let inputs = graph.inputs.iter().enumerate();
        let outputs = graph.outputs.iter();
        Interface {
            inputs: inputs.map(|(i, it)| slot(&it.name, input_kind(&it.kind), it.value, next(i))).collect(),
            outputs: outputs
                .map(|it| match it.kind {
                    OutputKind::User => slot(&it.name, "user", it.value, None),
                    OutputKind::Mutation(input) => slot(&it.name, "mutation", it.value, Some(input)),
                })
                .collect(),
        }
    }
}

fn input_kind(kind: &InputKind) -> &'static str {
    match kind {
        InputKind::User => "user",
        InputKind::Parameter => "parameter",
        InputKind::Buffer => "buffer",
        InputKind::Constant => "constant",
        InputKind::Symbol(_) | InputKind::Position(_) => "symbol",
        InputKind::RngState => "rng",
    }
}

/// The key under which a session on `machine` looks for the program.
fn key(machine: &Machine, options: &CompileOptions, canonical: &[u8]) -> String {
    let platform = ("tpu", machine.platform_version.as_str());
    let identity = session::identity_of(&machine.fingerprint, platform, &machine.device_kind, machine.num_devices);
    session::key(&identity, &machine.options(options), canonical)
}
