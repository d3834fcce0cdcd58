//! Programs spread over several devices.

use crate::error::{Error, Result};
use crate::host::{self, Argument, HostTensor, OutputTensor, Value};
use crate::program::{DimValues, Program, lower_partitioned};
use crate::session::{Session, with_flags};
use crate::shards;
use crate::variant::{Input, Output, Plan, Prepared, SeedSource, dense_order, donated, number, value};
use ir::sharding::{Mesh, Partition, Results, Rules, Sharding};
use ir::{Graph, TensorType};
use runtime::{Buffer, CompileOptions, Device, Executable, ExecuteOptions, Execution, Signature};
use rustc_hash::FxHashSet;
use std::sync::Arc;
use std::time::Instant;

/// A mesh of devices, and what is spread over it how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partitioning {
    /// The devices.
    pub mesh: Mesh,
    /// Shardings of inputs and results, by name.
    pub rules: Rules,
}

/// A program for some sizes, with a place for each of its arguments and results.
pub struct Partitioned {
    prepared: Prepared,
    partition: Partition,
    dims: DimValues,
}

impl Program {
    /// The program for these sizes, spread over devices.
    ///
    /// # Errors
    /// As [`Program::import`]; also `Program` for shardings that do not fit, naming the pattern or the tensor.
    pub fn partitioned(&self, dims: &DimValues, by: &Partitioning) -> Result<Partitioned> {
        // Our rules do not know shardings: joining two weights may cost more in communication than it saves.
        let prepared = Prepared::unoptimized(self, dims, None)?;
        let results = results(&prepared);
        let partition = by.rules.resolve(&prepared.graph, &results, &by.mesh)?;
        Ok(Partitioned { prepared, partition, dims: dims.clone() })
    }
}

/// What each output of the graph is to the caller. A result whose value is no permutation of it cannot be split.
fn results(prepared: &Prepared) -> Results {
    let of = |(i, output): (usize, &Output)| {
        let Output::Result { shape, strides, .. } = output else { return None };
        let position = prepared.results.iter().position(|plan| matches!(plan, Plan::Output(n) if *n == i))?;
        let order = dense_order(strides);
        let stored = &prepared.graph.tensor_type(prepared.graph.outputs[i].value)?.shape;
        let permuted = stored.len() == order.len() && order.iter().zip(stored).all(|(&d, &extent)| shape[d] == extent);
        permuted.then_some((position, order))
    };
    prepared.outputs.iter().enumerate().map(of).collect()
}

impl Partitioned {
    /// The program, still whole: every tensor has its full extents.
    pub fn graph(&self) -> &Graph {
        &self.prepared.graph
    }

    /// Where its arguments and results live.
    pub fn partition(&self) -> &Partition {
        &self.partition
    }

    /// Bytes of arguments that one device holds.
    pub fn argument_bytes(&self) -> usize {
        self.prepared
            .inputs
            .iter()
            .zip(self.partition.inputs())
            .map(|(i, s)| self.shard(s, &i.ty).size_in_bytes())
            .sum()
    }

    /// StableHLO with Shardy marks, as a compiler gets it. Without locations, the bytes depend on the program alone.
    ///
    /// # Errors
    /// `Program`, if the program cannot be written.
    pub fn bytecode(&self, locations: bool) -> Result<Vec<u8>> {
        Ok(lower_partitioned(&self.prepared.graph, locations, Some(&self.partition))?.into_bytecode())
    }

    /// The same as text.
    ///
    /// # Errors
    /// As [`Partitioned::bytecode`].
    pub fn stablehlo(&self) -> Result<String> {
        Ok(lower_partitioned(&self.prepared.graph, true, Some(&self.partition))?.text()?)
    }

    /// What makes a compiler partition it. Which devices is left open.
    pub fn compile_options(&self) -> CompileOptions {
        with_flags(CompileOptions {
            num_partitions: self.partition.mesh().num_devices(),
            use_spmd_partitioning: true,
            use_shardy_partitioner: true,
            ..CompileOptions::default()
        })
    }

    /// Compiles it for the session's first devices. Results that nothing was said about will be whole.
    ///
    /// # Errors
    /// `Argument`, if the mesh holds more devices than the session has; `Compile`, if the plugin refuses the program.
    pub fn compile(mut self, session: Arc<Session>) -> Result<Loaded> {
        self.partition = self.partition.with_whole_results(&self.prepared.graph);
        let mesh = self.partition.mesh();
        let mut devices = session.client().devices();
        if devices.len() < mesh.num_devices() {
            let (needed, present) = (mesh.num_devices(), devices.len());
            return Err(Error::Argument(format!("the mesh {mesh} needs {needed} devices, the plugin has {present}")));
        }
        devices.truncate(mesh.num_devices());
        let ids = devices.iter().map(Device::id).collect();
        let options = CompileOptions { device_assignment: Some(ids), ..self.compile_options() };
        let located = || self.bytecode(true);
        let (executable, _) = session.executable_with(&self.bytecode(false)?, located, self.signature(), &options)?;
        Ok(Loaded { program: self, executable, session })
    }

    /// One device's arguments.
    fn signature(&self) -> Signature {
        let shards = self.prepared.inputs.iter().zip(self.partition.inputs());
        let inputs = shards.map(|(input, sharding)| host::runtime_type(&self.shard(sharding, &input.ty)));
        Signature::new(inputs).donating(donated(&self.prepared.inputs))
    }

    /// The type of one device's part of a `ty`.
    fn shard(&self, sharding: &Sharding, ty: &TensorType) -> TensorType {
        TensorType { dtype: ty.dtype, shape: sharding.shard_shape(self.partition.mesh(), &ty.shape) }
    }
}

/// A partitioned program on its devices.
pub struct Loaded {
    program: Partitioned,
    executable: Arc<Executable>,
    session: Arc<Session>,
}

impl Loaded {
    /// The program.
    pub fn program(&self) -> &Partitioned {
        &self.program
    }

    /// What the plugin loaded: the program of one device.
    pub fn executable(&self) -> &Executable {
        &self.executable
    }

    /// Runs it on whole `arguments`, one per input of the trace: splits them, and puts the results together. What the
    /// program writes to its arguments is written back. `seed` is asked if it draws random numbers.
    ///
    /// # Errors
    /// `Argument` for arguments that do not fit, before anything runs; `Execute` when the plugin fails.
    pub fn run(&self, arguments: &[Argument], seed: SeedSource<'_>) -> Result<Vec<Value>> {
        let buffers = self.buffers(arguments, seed)?;
        let lists: Vec<&[Buffer]> = buffers.iter().map(Vec::as_slice).collect();
        let start = Instant::now();
        let runs = self.executable.execute_sharded(&lists, &ExecuteOptions::default()).map_err(Error::Execute)?;
        // All are waited for before a failure is reported: the others would still use the buffers.
        let ended: Vec<_> = runs.iter().map(|run| run.done.wait()).collect();
        ended.into_iter().collect::<runtime::Result<Vec<_>>>().map_err(Error::Execute)?;
        self.session.count_execution(start.elapsed());
        let prepared = &self.program.prepared;
        let mut tensors = vec![];
        for (i, output) in prepared.outputs.iter().enumerate() {
            tensors.push(self.take(i, output, &runs, arguments)?);
        }
        prepared.results.iter().map(|plan| value(plan, &mut tensors, &self.program.dims)).collect()
    }

    /// Each device's shards of all arguments.
    fn buffers(&self, arguments: &[Argument], seed: SeedSource<'_>) -> Result<Vec<Vec<Buffer>>> {
        let inputs = &self.program.prepared.inputs;
        let mut whole = vec![];
        for input in inputs {
            whole.push(input.dense_bytes(arguments, &self.program.dims, seed)?);
        }
        let on_device = |(device, target): (usize, Device)| {
            let shards = inputs.iter().zip(&whole).zip(self.program.partition.inputs());
            shards.map(|((input, bytes), sharding)| self.upload(&target, device, input, bytes, sharding)).collect()
        };
        self.executable.devices().into_iter().enumerate().map(on_device).collect()
    }

    /// The part of an argument that the mesh's `device` holds.
    fn upload(&self, on: &Device, device: usize, input: &Input, whole: &[u8], sharding: &Sharding) -> Result<Buffer> {
        let (mesh, shape) = (self.program.partition.mesh(), &input.ty.shape);
        let shard = self.program.shard(sharding, &input.ty);
        let start = sharding.shard_start(mesh, shape, device);
        let part = shards::take(whole, input.ty.dtype.size(), shape, &start, &shard.shape);
        Buffer::from_host(on, &part, host::runtime_type(&shard)).map_err(Error::Execute)
    }

    /// A tensor for the caller out of the devices' parts of output `i`, or nothing for a mutation, which is written back.
    fn take(
        &self,
        i: usize,
        output: &Output,
        runs: &[Execution],
        arguments: &[Argument],
    ) -> Result<Option<OutputTensor>> {
        let (ty, bytes) = self.join(i, runs)?;
        match output {
            Output::Result { shape, strides, dtype } => {
                let device = self.session.client().device(0).map_err(Error::Plugin)?;
                let buffer = Buffer::from_host(&device, &bytes, host::runtime_type(&ty)).map_err(Error::Execute)?;
                let memory = Arc::new(buffer).share().map_err(Error::Execute)?;
                Ok(Some(OutputTensor { memory, dtype: *dtype, shape: shape.clone(), strides: strides.clone() }))
            }
            Output::Mutation(argument) => {
                if let Some(Argument::Tensor(target)) = arguments.get(*argument) {
                    host::write_back(&bytes, target)?;
                }
                Ok(None)
            }
        }
    }

    /// The whole of output `i`, row-major.
    fn join(&self, i: usize, runs: &[Execution]) -> Result<(TensorType, Vec<u8>)> {
        let Partitioned { prepared, partition, .. } = &self.program;
        let broken = |what: &str| Error::Program(ir::Error::internal(format!("result {i} of the program {what}")));
        let ty = prepared.graph.tensor_type(prepared.graph.outputs[i].value).ok_or_else(|| broken("is a tuple"))?;
        let sharding = partition.outputs()[i].as_ref().ok_or_else(|| broken("is nowhere"))?;
        let (mesh, shard) = (partition.mesh(), self.program.shard(sharding, ty));
        let expected = host::runtime_type(&shard);
        let mut whole = vec![0; ty.size_in_bytes()];
        let mut seen = FxHashSet::default();
        for (device, run) in runs.iter().enumerate() {
            let start = sharding.shard_start(mesh, &ty.shape, device);
            if !seen.insert(start.clone()) {
                continue; // the same as another device's
            }
            let buffer = run.outputs.get(i).ok_or_else(|| broken("is missing"))?;
            if **buffer.tensor_type() != expected {
                let found = buffer.tensor_type();
                return Err(broken(&format!("is {found} on each device, not {expected}")));
            }
            let part = buffer.to_host().map_err(Error::Execute)?;
            shards::put(&part, &mut whole, ty.dtype.size(), &ty.shape, &start, &shard.shape);
        }
        Ok((ty.clone(), whole))
    }
}

impl Input {
    /// All elements of the input, row-major.
    fn dense_bytes(&self, arguments: &[Argument], dims: &DimValues, seed: SeedSource<'_>) -> Result<Vec<u8>> {
        use crate::variant::Source;
        match &self.source {
            Source::Argument(n) => self.tensor(*n, arguments.get(*n)).map(dense),
            Source::Symbol(expr) => Ok(number(expr, dims)?.to_bytes(self.ty.dtype)),
            Source::Rng => Ok(seed()?.map(u64::to_le_bytes).concat()),
        }
    }
}

fn dense(tensor: &HostTensor) -> Vec<u8> {
    if tensor.is_contiguous() { tensor.memory.bytes().to_vec() } else { tensor.dense_bytes() }
}
