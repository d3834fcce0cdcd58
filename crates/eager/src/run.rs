//! How a call with a plan runs: its storages get values that are promised, and the execution that keeps the promise is put
//! in line, and started when its turn comes.

use crate::cells::{Held, Origin};
use crate::core::{Core, Made, Mode, Request, State};
use crate::debug;
use crate::error::{Error, Result};
use crate::fused::Why;
use crate::plan::{Kernel, New, Plan, Source, Value};
use crate::queue::Work;
use ir::{DType, TensorType};
use runtime::{Buffer, Executable, ExecuteOptions, Execution};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, OnceLock};

/// Numbers kept on a device.
const MOST_NUMBERS: usize = 1024;
/// Programs whose last numbers are kept on a device.
const MOST_PACKED: usize = 512;

/// Calls that make so many bytes are started by their caller: if memory has run out, the error comes at their line. They
/// take so long that it gains nothing to leave them to another thread, but for the first one of a program.
const AT_ONCE: u64 = 1 << 20;

/// Calls that make so many bytes run by themselves in fused mode, too, and are started by their caller even if they are a
/// program's first.
const BY_ITSELF: u64 = 1 << 30;

/// An execution in line.
pub(crate) struct Task {
    plan: Arc<Plan>,
    kernel: Arc<Kernel>,
    pub(crate) inputs: SmallVec<[Feed; 4]>,
    pub(crate) outputs: SmallVec<[Arc<Held>; 2]>,
    pub(crate) device: usize,
    pub(crate) origin: Origin,
    pub(crate) mode: Mode,
    /// Where the failure goes that the caller waits to see; else it waits for the next synchronisation.
    report: Option<Arc<OnceLock<Error>>>,
}

impl Task {
    /// The fingerprint of its program, and how many ops that has.
    pub(crate) fn program(&self) -> (u64, usize) {
        (self.kernel.fingerprint, self.kernel.graph.nodes().len())
    }
    pub(crate) fn kernel(&self) -> &Arc<Kernel> {
        &self.kernel
    }
}

/// What an input gets.
pub(crate) enum Feed {
    Value(Arc<Held>),
    Number { float: bool, bits: u64 },
    Seed([u64; 2]),
}

/// What whoever starts executions has at hand: numbers that are on a device already.
#[derive(Default)]
pub(crate) struct Starter {
    numbers: FxHashMap<(usize, bool, u64), Arc<Held>>,
    packed: FxHashMap<Takes, Packed>,
}

/// By device and type, the program that takes packed numbers.
type Takes = (usize, DType, usize);
/// Numbers, and where they are.
type Packed = (Vec<u64>, Arc<Held>);

impl Starter {
    /// Numbers of 64 bits as one tensor: what the program took last time, if these are the same. Older ones are not kept, since
    /// those of an optimizer's step never come again.
    pub(crate) fn packed(&mut self, core: &Core, takes: Takes, bits: Vec<u64>) -> Result<Arc<Held>> {
        if let Some((known, held)) = self.packed.get(&takes)
            && *known == bits
        {
            return Ok(held.clone());
        }
        let (device, dtype, _) = takes;
        let bytes: Vec<u8> = bits.iter().flat_map(|bits| bits.to_le_bytes()).collect();
        let held = core.send_bytes(device, &bytes, &TensorType::new(dtype, [bits.len()]))?;
        if self.packed.len() >= MOST_PACKED {
            self.packed.clear();
        }
        self.packed.insert(takes, (bits, held.clone()));
        Ok(held)
    }
}

/// Why an execution did not start.
enum Failure {
    /// The call that should have made an input has failed, and said so.
    Inherited(Error),
    Own(Error),
}

/// Counts the memory of a call's outputs, and no longer that of inputs which become it: nobody else holds them.
fn count(plan: &Plan, inputs: &[Feed], outputs: &[Arc<Held>]) {
    for &input in &plan.donated {
        match &inputs[input] {
            Feed::Value(value) if Arc::strong_count(value) == 1 => value.uncount(),
            _ => {}
        }
    }
    outputs.iter().for_each(|output| output.count());
}

impl Core {
    /// Puts a call in line. In debug mode, and where it is large, waits until it was started. Where extents of its results
    /// are data, waits for these too and gives them.
    pub(crate) fn run(
        &self,
        mut state: MutexGuard<'_, State>,
        plan: &Arc<Plan>,
        request: &Request<'_>,
    ) -> Result<(Vec<Option<Made>>, Vec<i64>)> {
        let origin = Origin { op: request.words[0] as u32, location: request.location };
        let inputs = self.feeds(&state, plan, request)?;
        let ledger = self.ledger(request.device);
        let bytes: u64 = plan.outputs.iter().map(|o| o.bytes).sum();
        let alone = bytes >= BY_ITSELF || plan.extents.asked().is_some();
        let recordable = plan.kernel.as_ref().filter(|_| request.mode.fused && !alone);
        let records = recordable
            .is_some_and(|kernel| request.mode.at_once || state.rhythms[request.device].admits(kernel.fingerprint));
        let outputs: SmallVec<[_; 2]> = plan.outputs.iter().map(|o| Held::recorded(o.bytes, ledger)).collect();
        let made = state.publish(plan, request, origin, &inputs, &outputs)?;
        if !records {
            count(plan, &inputs, &outputs);
        }
        if plan.is_last() {
            state.count(origin);
        }
        if !records {
            self.count_run(plan.kernel.is_some());
        }
        let asked = plan.extents.asked().and_then(|(from, count)| Some((value(from, &inputs, &outputs)?, count)));
        let Some(kernel) = plan.kernel.clone() else {
            drop(state);
            return self.with_counts(made, asked, origin, request.device);
        };
        let (device, mode) = (request.device, request.mode);
        let mut task = Task { plan: plan.clone(), kernel, inputs, outputs, device, origin, mode, report: None };
        if records {
            self.record(&mut state, task);
            drop(state);
            self.pass_on();
            return Ok((made, vec![]));
        }
        let why = match (asked.is_some(), request.mode.fused) {
            (true, _) => Why::Sizes,
            (false, true) => Why::Large,
            (false, false) => Why::Mode,
        };
        // While a stream is new, nothing of its device is recorded.
        if recordable.is_none() {
            self.flush_locked(&mut state, why, request.location);
        }
        // Who calls a program first goes on while it is compiled.
        let at_once = bytes >= if task.kernel.came.swap(true, Ordering::Relaxed) { AT_ONCE } else { BY_ITSELF };
        let report = (request.mode.debug || at_once).then(Arc::default);
        let kept = (request.mode.check_nan && plan.is_last()).then(|| (values(&task.inputs), task.outputs.clone()));
        task.report = report.clone();
        self.queue.push(Work::Call(task));
        drop(state);
        match report {
            Some(report) => {
                let checked = self.wait_for(&report).and_then(|()| match kept {
                    Some((inputs, outputs)) => {
                        debug::refuse_nan(&inputs, &outputs).map_err(|e| self.explain(&self.lock(), e, origin))
                    }
                    None => Ok(()),
                });
                checked.inspect_err(|_| made.iter().flatten().for_each(|m| self.cell_drop(m.cell)))?;
            }
            None => self.nudge(),
        }
        self.with_counts(made, asked, origin, request.device)
    }

    /// Waits until a call that reports has been started.
    fn wait_for(&self, report: &OnceLock<Error>) -> Result<()> {
        self.drain();
        report.get().cloned().map_or(Ok(()), Err)
    }

    fn feeds(&self, state: &State, plan: &Plan, request: &Request<'_>) -> Result<SmallVec<[Feed; 4]>> {
        let mut feeds = SmallVec::new();
        for source in &plan.inputs {
            feeds.push(match *source {
                Source::Cell(slot) => Feed::Value(match &state.cells.get(request.cells[slot])?.value {
                    Some(value) => value.clone(),
                    None => self.zeros(state, plan, slot, request.device)?,
                }),
                Source::Scalar(i, float) => {
                    Feed::Number { float, bits: request.scalars.get(i).copied().unwrap_or_default() }
                }
                Source::Position(position) => Feed::Number { float: false, bits: position as u64 },
                Source::Rng => Feed::Seed(self.seed(request.device, request.generator)?),
            });
        }
        Ok(feeds)
    }

    /// What a storage that was never written reads as.
    fn zeros(&self, state: &State, plan: &Plan, slot: usize, device: usize) -> Result<Arc<Held>> {
        let assumed = plan.assumed.iter().find(|(s, _)| *s == slot).and_then(|(_, ty)| state.cells.ty(*ty));
        let ty = assumed.ok_or_else(|| Error::internal("a storage without a value or a type"))?;
        let ty = TensorType { dtype: ty.dtype, shape: ty.layout.sizes.clone() };
        self.send_bytes(device, &vec![0; ty.size_in_bytes()], &ty)
    }

    pub(crate) fn send_bytes(&self, device: usize, bytes: &[u8], ty: &TensorType) -> Result<Arc<Held>> {
        let buffer = Buffer::from_host(self.device(device)?, bytes, driver::runtime_type(ty))?;
        Ok(Held::new(buffer, self.ledger(device)))
    }

    /// Starts a call whose turn has come; a failure waits for the next synchronisation.
    pub(crate) fn start_queued(&self, starter: &mut Starter, task: Task) {
        let (device, outputs, report) = (task.device, task.outputs.clone(), task.report.clone());
        let result = catch_unwind(AssertUnwindSafe(|| self.start(starter, task)));
        let result = result.unwrap_or_else(|_| Err(Error::internal("starting a call panicked")));
        if let Err(error) = result {
            outputs.iter().for_each(|o| o.fill(Err(error.clone())));
            match report {
                Some(report) => drop(report.set(error)),
                None => self.note_failure(device, error),
            }
        }
    }

    /// Starts an execution, and keeps the promises that were made for it.
    fn start(&self, starter: &mut Starter, task: Task) -> Result<()> {
        let Task { plan, kernel, inputs, outputs, device, origin, mode, .. } = task;
        count(&plan, &inputs, &outputs);
        let held = inputs.into_iter().map(|feed| self.materialize(starter, device, feed));
        let held: SmallVec<[Arc<Held>; 8]> = held.collect();
        let begin = self.timeline.begin();
        if let Some(results) = self.interpret(&kernel, &held, device, mode) {
            self.note_ended(begin, device, origin);
            outputs.iter().zip(results).for_each(|(output, buffer)| output.fill(Ok(buffer)));
            return Ok(());
        }
        let executable = kernel.executable();
        let begin = self.timeline.begin();
        let run = executable
            .map_err(Failure::Own)
            .and_then(|program| Ok((self.execute(&plan, program, &held, device)?, program)));
        let error = match run {
            Ok((run, program)) => {
                self.ledger(device).bytes.meanwhile(program.temporaries());
                self.note_span(begin, &run.done, device, origin, None);
                for (output, buffer) in outputs.iter().zip(run.outputs) {
                    output.fill(Ok(buffer));
                }
                if !mode.debug {
                    self.watch(device, run.done, origin);
                    return Ok(());
                }
                let Err(error) = run.done.wait() else { return Ok(()) };
                Failure::Own(error.into())
            }
            Err(failure) => failure,
        };
        let (error, inherited) = match error {
            Failure::Inherited(error) => (error, true),
            Failure::Own(error) if mode.debug => {
                let error = debug::with_inputs(error, &held);
                (self.explain(&self.lock(), error, origin), false)
            }
            Failure::Own(error) => (self.explain(&self.lock(), error, origin), false),
        };
        break_promises(&plan, held, &outputs, &error);
        if inherited && !mode.debug { Ok(()) } else { Err(error) }
    }

    fn execute<'a>(
        &self,
        plan: &Plan,
        program: &Executable,
        inputs: &'a [Arc<Held>],
        device: usize,
    ) -> std::result::Result<Execution, Failure> {
        let ready = |(held, source): (&'a Arc<Held>, &Source)| {
            let failure = if matches!(source, Source::Cell(_)) { Failure::Inherited } else { Failure::Own };
            held.buffer().map_err(failure)
        };
        let buffers = inputs.iter().zip(&plan.inputs).map(ready);
        let buffers = buffers.collect::<std::result::Result<SmallVec<[&Buffer; 8]>, Failure>>()?;
        // What only this call holds, nobody can get hold of any more.
        let lent = plan.donated.iter().copied().filter(|&i| Arc::strong_count(&inputs[i]) > 1);
        let lent: SmallVec<[usize; 4]> = lent.collect();
        let device = self.device(device).map_err(Failure::Own)?;
        let options = ExecuteOptions { device: Some(device), non_donatable: &lent, launch_id: 0 };
        program.execute(&buffers, &options).map_err(|e| Failure::Own(e.into()))
    }

    fn materialize(&self, starter: &mut Starter, device: usize, feed: Feed) -> Arc<Held> {
        let sent = match feed {
            Feed::Value(held) => return held,
            Feed::Seed(seed) => {
                self.send_bytes(device, &seed.map(u64::to_le_bytes).concat(), &TensorType::new(DType::U64, [2]))
            }
            Feed::Number { float, bits } => self.number(starter, device, float, bits),
        };
        sent.unwrap_or_else(|error| {
            let nothing = Held::promised(0, self.ledger(device));
            nothing.fill(Err(error));
            nothing
        })
    }

    fn number(&self, starter: &mut Starter, device: usize, float: bool, bits: u64) -> Result<Arc<Held>> {
        if let Some(known) = starter.numbers.get(&(device, float, bits)) {
            return Ok(known.clone());
        }
        let ty = TensorType::new(if float { DType::F64 } else { DType::I64 }, []);
        let held = self.send_bytes(device, &bits.to_le_bytes(), &ty)?;
        if starter.numbers.len() >= MOST_NUMBERS {
            starter.numbers.clear();
        }
        starter.numbers.insert((device, float, bits), held.clone());
        Ok(held)
    }
}

/// The value that comes from there.
fn value(from: Value, inputs: &[Feed], outputs: &[Arc<Held>]) -> Option<Arc<Held>> {
    match from {
        Value::Output(i) => outputs.get(i).cloned(),
        Value::Input(i) => inputs.get(i).and_then(|f| if let Feed::Value(v) = f { Some(v.clone()) } else { None }),
    }
}

/// The values of tensors among what inputs get.
fn values(inputs: &[Feed]) -> Vec<Arc<Held>> {
    let value = |feed: &Feed| if let Feed::Value(held) = feed { Some(held.clone()) } else { None };
    inputs.iter().filter_map(value).collect()
}

/// After a failure: storages that were to be written keep what they had, as far as the plugin left it alone; what was to
/// be made is the error.
fn break_promises(plan: &Plan, inputs: SmallVec<[Arc<Held>; 8]>, outputs: &[Arc<Held>], error: &Error) {
    let mut inputs: SmallVec<[Option<Arc<Held>>; 8]> = inputs.into_iter().map(Some).collect();
    for (output, promised) in outputs.iter().zip(&plan.outputs) {
        let before = promised.replaces.and_then(|i| inputs[i].take()).and_then(Arc::into_inner);
        let before = before.and_then(Held::into_buffer).filter(|buffer| !buffer.is_gone());
        output.fill(before.ok_or_else(|| error.clone()));
    }
}

impl State {
    /// Gives the storages of a call their next values, and makes those of its new tensors.
    fn publish(
        &mut self,
        plan: &Arc<Plan>,
        request: &Request<'_>,
        origin: Origin,
        inputs: &[Feed],
        outputs: &[Arc<Held>],
    ) -> Result<Vec<Option<Made>>> {
        let value = |from: Value| value(from, inputs, outputs);
        let mut made = Vec::with_capacity(plan.results.len());
        for (index, result) in plan.results.iter().enumerate() {
            made.push(match result {
                None => None,
                Some((New { nbytes, ty, .. }, from)) => {
                    let (id, address) = self.cells.add(request.device, *nbytes)?;
                    let cell = self.cells.get_mut(id)?;
                    (cell.ty, cell.origin, cell.value) = (*ty, origin, value(*from));
                    Some(Made { cell: id, address, plan: plan.clone(), index, cut: None })
                }
            });
        }
        for (slot, ty, from) in &plan.written {
            let cell = self.cells.get_mut(request.cells[*slot])?;
            (cell.ty, cell.origin) = (*ty, origin);
            cell.value = value(*from);
        }
        Ok(made)
    }
}
