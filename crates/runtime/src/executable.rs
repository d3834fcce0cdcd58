//! Executables: compiled programs, loaded on their devices.

use std::borrow::Borrow;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::buffer::Buffer;
use crate::client::{Client, Device};
use crate::error::{Error, Result};
use crate::ffi::{Event, Habit, Launch, LaunchOptions, Launched, MemoryAnalysis, RawExecutable, Value};
use crate::optimized::OptimizedProgram;
use crate::types::TensorType;

/// What one device's arguments must be. PJRT does not tell, so whoever compiles says it, or it is read back from the
/// compiled program.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Signature {
    /// The arguments' types, per device: shards, in a partitioned program.
    pub inputs: Vec<Arc<TensorType>>,
    /// Positions of the arguments whose memory the program reuses, ascending: those marked `tf.aliasing_output` or
    /// `jax.buffer_donor`. They are gone after the execution.
    pub donated: Vec<usize>,
}

impl Signature {
    /// A signature without donations.
    pub fn new(inputs: impl IntoIterator<Item = TensorType>) -> Self {
        Signature { inputs: inputs.into_iter().map(Arc::new).collect(), donated: Vec::new() }
    }

    /// The same arguments, those at `donated` given up.
    #[must_use]
    pub fn donating(mut self, donated: impl IntoIterator<Item = usize>) -> Self {
        self.donated = donated.into_iter().collect();
        self.donated.sort_unstable();
        self.donated.dedup();
        self
    }

    fn check(&self) -> Result<()> {
        let count = self.inputs.len();
        match self.donated.iter().find(|&&index| index >= count) {
            Some(index) => Err(Error::Invalid(format!("argument {index} is donated, but there are only {count}"))),
            None => Ok(()),
        }
    }
}

/// How to execute.
#[derive(Debug, Clone, Copy, Default)]
pub struct ExecuteOptions<'a> {
    /// Arguments that must survive although the signature donates them: the plugin copies them first.
    pub non_donatable: &'a [usize],
    /// The device to run on, for a program compiled as portable.
    pub device: Option<&'a Device>,
    /// The same number for all parts of one launch over several hosts; 0 otherwise.
    pub launch_id: i32,
}

/// A started execution on one device.
#[derive(Debug)]
pub struct Execution {
    /// The results, usable at once: whatever reads them waits.
    pub outputs: Vec<Buffer>,
    /// Ready when this device is done, or has failed.
    pub done: Arc<Event>,
}

/// A compiled program on its devices.
pub struct Executable {
    raw: RawExecutable,
    signature: Signature,
    outputs: Vec<Arc<TensorType>>,
    temporaries: OnceLock<u64>,
    habit: Habit,
}

impl Executable {
    pub(crate) fn new(raw: RawExecutable, signature: Option<Signature>) -> Result<Executable> {
        let signature = match signature {
            Some(signature) => signature,
            None => OptimizedProgram::of(&raw.plain)?.signature()?,
        };
        signature.check()?;
        let outputs = raw.plain.output_types()?.into_iter().map(Arc::new).collect();
        Ok(Executable { raw, signature, outputs, temporaries: OnceLock::new(), habit: Habit::default() })
    }

    /// The client that it belongs to.
    pub fn client(&self) -> Client {
        Client { raw: Arc::clone(self.raw.client()) }
    }

    /// The devices that it runs on, replica after replica. Empty for a portable program.
    pub fn devices(&self) -> Vec<Device> {
        self.raw.devices.iter().map(|&index| Device { client: self.client(), index }).collect()
    }

    /// What one device's arguments must be.
    pub fn signature(&self) -> &Signature {
        &self.signature
    }

    /// Types of one device's results.
    pub fn output_types(&self) -> &[Arc<TensorType>] {
        &self.outputs
    }

    /// The module's name.
    ///
    /// # Errors
    /// When the plugin does not say.
    pub fn name(&self) -> Result<String> {
        self.raw.plain.name()
    }

    /// Number of copies that run on different data.
    ///
    /// # Errors
    /// When the plugin does not say.
    pub fn num_replicas(&self) -> Result<usize> {
        self.raw.plain.num_replicas()
    }

    /// Number of devices that share one copy.
    ///
    /// # Errors
    /// When the plugin does not say.
    pub fn num_partitions(&self) -> Result<usize> {
        self.raw.plain.num_partitions()
    }

    /// Equal for equal programs, options and compilers.
    ///
    /// # Errors
    /// When the plugin does not say.
    pub fn fingerprint(&self) -> Result<Vec<u8>> {
        self.raw.plain.fingerprint()
    }

    /// The plugin's estimates, such as `flops` and `bytes accessed`, sorted by name.
    ///
    /// # Errors
    /// When the plugin makes none.
    pub fn cost_analysis(&self) -> Result<Vec<(String, Value)>> {
        let mut properties = self.raw.plain.cost_analysis()?;
        properties.sort_by(|(left, _), (right, _)| left.cmp(right));
        Ok(properties)
    }

    /// Device memory that it needs.
    ///
    /// # Errors
    /// When the plugin does not say.
    pub fn memory_analysis(&self) -> Result<MemoryAnalysis> {
        self.raw.plain.memory_analysis()
    }

    /// Bytes that it takes for as long as it runs, besides arguments and results; 0 where the plugin does not say.
    pub fn temporaries(&self) -> u64 {
        let asked = || self.memory_analysis().map_or(0, |memory| memory.temporaries.max(0) as u64);
        *self.temporaries.get_or_init(asked)
    }

    /// The program as the compiler left it.
    ///
    /// # Errors
    /// When the plugin does not keep it.
    pub fn optimized_program(&self) -> Result<OptimizedProgram> {
        OptimizedProgram::of(&self.raw.plain)
    }

    /// The plugin's own form, for [`Client::deserialize_and_load`].
    ///
    /// # Errors
    /// When the plugin cannot serialize.
    pub fn serialize(&self) -> Result<Vec<u8>> {
        self.raw.plain.serialize()
    }

    /// Starts the program on its one device and returns without waiting for it.
    ///
    /// # Errors
    /// Before anything runs: a wrong number of arguments, a wrong type, a wrong device, an argument that is gone,
    /// shared while donated, or donated twice. After any error, donated arguments that the plugin did not take live on.
    pub fn execute<B: Borrow<Buffer>>(&self, arguments: &[B], options: &ExecuteOptions<'_>) -> Result<Execution> {
        let device = self.single_device(options)?;
        let shards = [arguments];
        let (mut launched, taken) = self.launch(&shards, &[device], options)?;
        let execution = self.take_execution(&mut launched, device)?;
        taken.by(std::slice::from_ref(&execution));
        Ok(execution)
    }

    /// Starts the program on one device and waits for it; returns what that took, too. If it took long the last time, CPU ops' threads
    /// that look for more work sleep meanwhile: they would take the program's processors.
    ///
    /// # Errors
    /// As [`Executable::execute`] and [`Event::wait`].
    pub fn run<B: Borrow<Buffer>>(
        &self,
        arguments: &[B],
        options: &ExecuteOptions<'_>,
    ) -> Result<(Execution, Duration)> {
        let (execution, time) = self.habit.run(|| {
            let execution = self.execute(arguments, options)?;
            execution.done.wait()?;
            Ok(execution)
        });
        Ok((execution?, time))
    }

    /// Starts the program on all its devices, with one list of arguments per device in the order of
    /// [`Executable::devices`].
    ///
    /// # Errors
    /// As [`Executable::execute`].
    pub fn execute_sharded<B: Borrow<Buffer>>(
        &self,
        arguments: &[&[B]],
        options: &ExecuteOptions<'_>,
    ) -> Result<Vec<Execution>> {
        let devices = &self.raw.devices;
        if options.device.is_some() {
            return Err(Error::Invalid("a sharded execution runs on the devices it was compiled for".to_owned()));
        }
        if arguments.len() != devices.len() || devices.is_empty() {
            let (expected, found) = (devices.len(), arguments.len());
            return Err(Error::Invalid(format!("the program runs on {expected} devices, got arguments for {found}")));
        }
        let (mut launched, taken) = self.launch(arguments, devices, options)?;
        let executions = devices.iter().map(|&device| self.take_execution(&mut launched, device));
        let executions = executions.collect::<Result<Vec<_>>>()?;
        taken.by(&executions);
        Ok(executions)
    }

    /// The device that a single-device execution runs on.
    fn single_device(&self, options: &ExecuteOptions<'_>) -> Result<usize> {
        let compiled_for = &self.raw.devices;
        let Some(device) = options.device else {
            return match compiled_for.as_slice() {
                [device] => Ok(*device),
                [] => Err(Error::Invalid("the program is portable: say which device to run on".to_owned())),
                many => Err(Error::Invalid(format!("the program runs on {} devices, not on one", many.len()))),
            };
        };
        if !Arc::ptr_eq(&device.client.raw, self.raw.client()) {
            return Err(Error::OtherClient { what: "the device".to_owned() });
        }
        if compiled_for.is_empty() || compiled_for.contains(&device.index) {
            return Ok(device.index);
        }
        Err(Error::Invalid(format!("the program was not compiled for device {}", device.id())))
    }

    fn launch<'a, B: Borrow<Buffer>>(
        &'a self,
        arguments: &'a [&[B]],
        devices: &[usize],
        options: &ExecuteOptions<'_>,
    ) -> Result<(Launched<'a>, Taken<'a, B>)> {
        let mut launch = Launch::new();
        for (arguments, &device) in arguments.iter().zip(devices) {
            self.check_arguments(arguments, device)?;
            arguments.iter().for_each(|argument| launch.argument(argument.borrow().raw()));
        }
        let donations = self.donate(arguments, options)?;
        let launch_options = LaunchOptions {
            device: options.device.map(|device| device.index),
            non_donatable: options.non_donatable,
            launch_id: options.launch_id,
        };
        let launched = self.habit.start(|| launch.run(&self.raw, devices.len(), &launch_options))?;
        Ok((launched, donations.keep()))
    }

    /// Checks everything about one device's arguments that the plugin would answer with worse than an error.
    fn check_arguments<B: Borrow<Buffer>>(&self, arguments: &[B], device: usize) -> Result<()> {
        let inputs = &self.signature.inputs;
        if arguments.len() != inputs.len() {
            return Err(Error::ArgumentCount { expected: inputs.len(), found: arguments.len() });
        }
        for (index, (argument, expected)) in arguments.iter().zip(inputs).enumerate() {
            let argument = argument.borrow();
            let found = argument.tensor_type();
            if !Arc::ptr_eq(found, expected) && found != expected {
                let (expected, found) = (TensorType::clone(expected), TensorType::clone(found));
                return Err(Error::ArgumentType { index, expected, found });
            }
            if !Arc::ptr_eq(argument.raw().client(), self.raw.client()) {
                return Err(Error::OtherClient { what: format!("argument {index}") });
            }
            if argument.device_index() != device {
                let id = |device: usize| self.raw.client().device_infos[device].id;
                return Err(Error::ArgumentDevice { index, expected: id(device), found: id(argument.device_index()) });
            }
            argument.check_argument(index)?;
        }
        Ok(())
    }

    /// Marks the donated arguments as gone, until the execution fails.
    fn donate<'a, B: Borrow<Buffer>>(
        &'a self,
        arguments: &'a [&[B]],
        options: &ExecuteOptions<'_>,
    ) -> Result<Donations<'a, B>> {
        let mut donations = Donations {
            arguments,
            positions: &self.signature.donated,
            marked: Vec::with_capacity(arguments.len() * self.signature.donated.len()),
        };
        if self.signature.donated.is_empty() {
            return Ok(donations);
        }
        for (shard, arguments) in arguments.iter().enumerate() {
            for &index in self.signature.donated.iter().filter(|index| !options.non_donatable.contains(index)) {
                arguments[index].borrow().donate(index)?;
                donations.marked.push((shard, index));
            }
        }
        donations.check_others()?;
        Ok(donations)
    }

    fn take_execution(&self, launched: &mut Launched<'_>, device: usize) -> Result<Execution> {
        let broken = || Error::BadResult {
            function: "PJRT_LoadedExecutable_Execute",
            what: "it returned fewer outputs or events than there should be".to_owned(),
        };
        let done = launched.next_event().ok_or_else(broken)??;
        let mut outputs = Vec::with_capacity(self.outputs.len());
        for ty in &self.outputs {
            let raw = launched.next_output().ok_or_else(broken)?;
            outputs.push(Buffer::wrap(raw, Arc::clone(ty), device));
        }
        Ok(Execution { outputs, done: Arc::new(done) })
    }
}

impl std::fmt::Debug for Executable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Executable")
            .field("inputs", &self.signature.inputs.len())
            .field("outputs", &self.outputs.len())
            .field("devices", &self.raw.devices)
            .finish()
    }
}

/// Arguments marked as donated; the marks are taken back unless kept.
struct Donations<'a, B: Borrow<Buffer>> {
    arguments: &'a [&'a [B]],
    positions: &'a [usize],
    marked: Vec<(usize, usize)>,
}

impl<'a, B: Borrow<Buffer>> Donations<'a, B> {
    /// Finds a donated buffer that is also passed where it is not donated.
    fn check_others(&self) -> Result<()> {
        for arguments in self.arguments {
            let others = arguments.iter().enumerate().filter(|(index, _)| self.positions.binary_search(index).is_err());
            for (index, argument) in others {
                argument.borrow().check_argument(index)?;
            }
        }
        Ok(())
    }

    fn keep(mut self) -> Taken<'a, B> {
        Taken { arguments: self.arguments, marked: std::mem::take(&mut self.marked) }
    }
}

impl<B: Borrow<Buffer>> Drop for Donations<'_, B> {
    fn drop(&mut self) {
        for &(shard, index) in &self.marked {
            self.arguments[shard][index].borrow().undo_donation();
        }
    }
}

/// Arguments that executions have taken over, by shard and position.
struct Taken<'a, B: Borrow<Buffer>> {
    arguments: &'a [&'a [B]],
    marked: Vec<(usize, usize)>,
}

impl<B: Borrow<Buffer>> Taken<'_, B> {
    /// Notes by which of the executions, one per shard.
    fn by(self, executions: &[Execution]) {
        for (shard, index) in self.marked {
            self.arguments[shard][index].borrow().raw().taken_by(&executions[shard].done);
        }
    }
}
