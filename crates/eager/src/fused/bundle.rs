//! Regions on their way: recorded, cut, and started as one program or call by call.

use crate::cells::{Held, Origin};
use crate::core::{Core, REGION, State};
use crate::error::{Error, Result};
use crate::fused::compile::{Fused, Input, Job, Order};
use crate::fused::cut::{self, Why};
use crate::fused::known::Verdict;
use crate::fused::open::{Piece, wire};
use crate::queue::Work;
use crate::run::{Feed, Starter, Task};
use ir::{DType, TensorType};
use runtime::{Buffer, ExecuteOptions, Execution};
use smallvec::SmallVec;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Executions under way beyond which a region waits for the oldest: each keeps what goes into it alive.
const MOST_UNDER_WAY: usize = 64;
/// Characters of a program's name.
const LONGEST_NAME: usize = 80;

/// A region that runs as one program.
pub(crate) struct Bundle {
    job: Arc<Job>,
    /// For when it cannot.
    calls: Vec<Task>,
    outer: Vec<Arc<Held>>,
    /// How often each of these is an input of the calls.
    uses: Vec<usize>,
    outputs: Vec<Arc<Held>>,
    device: usize,
    origin: Origin,
}

impl Core {
    /// Records a call in the open region of its device, which is cut before it where the stream repeats, and after it where
    /// it is full, or nothing of it had come before.
    pub(crate) fn record(&self, state: &mut State, call: Task) {
        let (device, location, program) = (call.device, call.origin.location, call.program().0);
        let at_once = call.mode.at_once;
        state.recorded += 1;
        self.recording.store(true, Ordering::SeqCst);
        let bytes = state.cells.bytes(device);
        let mark = state.rhythms[device].mark(&state.opens[device], bytes);
        if state.rhythms[device].ends(&state.opens[device]) {
            let count = state.opens[device].len();
            self.send_on(state, device, count, Why::Repeats, location);
        }
        let State { opens, rhythms, serials, .. } = state;
        opens[device].record(call, mark, serials);
        rhythms[device].step(program);
        if at_once {
            rhythms[device].trust();
        }
        if let Some(count) = cut::place(&opens[device], bytes) {
            self.send_on(state, device, count, Why::Full, location);
        }
        let count = state.opens[device].len();
        if state.rhythms[device].is_new() && count > 0 {
            self.send_on(state, device, count, Why::New, location);
        }
    }

    /// Sends on its way whatever was recorded. `location` is the line that wants it, if that is known.
    pub(crate) fn flush(&self, why: Why, location: u64) {
        if self.recording.load(Ordering::SeqCst) {
            self.flush_locked(&mut self.lock(), why, location);
        }
    }

    pub(crate) fn flush_locked(&self, state: &mut State, why: Why, location: u64) {
        if !self.recording.swap(false, Ordering::SeqCst) {
            return;
        }
        for device in 0..state.opens.len() {
            state.rhythms[device].interrupt();
            let count = state.opens[device].len();
            if count > 0 {
                self.send_on(state, device, count, why, location);
            }
        }
    }

    /// Puts the first `count` calls of a device's open region in line.
    fn send_on(&self, state: &mut State, device: usize, count: usize, why: Why, location: u64) {
        let State { opens, serials, .. } = state;
        let piece = opens[device].take(count, (why, location), serials);
        state.cuts.entry((why, location)).or_default().count += 1;
        if let Some((place, bytes)) = piece.read_back {
            state.cuts.entry(place).or_default().read_back += bytes;
        }
        if !piece.live.contains(&true) {
            return; // nobody will ever see what it computes
        }
        let mut known = std::mem::take(&mut state.known);
        let (verdict, order) = known.meet(&piece, |piece| state.order(piece));
        state.known = known;
        if let Some(order) = order {
            self.compiler.order(order);
        }
        match verdict {
            Verdict::Program(index, job) if self.is_there(&job, &piece) => {
                state.known.count_run(index);
                self.count_run(true);
                self.queue.push(Work::Bundle(Box::new(Bundle::new(piece, job))));
            }
            _ => {
                let Piece { calls, outer, .. } = piece;
                drop(outer); // or a call would see that somebody else holds what it could take over
                for call in calls {
                    self.count_run(true);
                    self.queue.push(Work::Call(call));
                }
            }
        }
        if matches!(why, Why::Repeats | Why::Full | Why::New) {
            self.queue.wake(); // the caller goes on recording
        }
    }

    /// Whether a region's program is there. Where results must not depend on time, it is waited for.
    fn is_there(&self, job: &Job, piece: &Piece) -> bool {
        let done = if piece.waits() { Some(job.done.wait()) } else { job.done.get() };
        done.is_some_and(|made| made.is_ok())
    }

    /// Starts a region as one program. If that fails, starts it call by call, which finds the call that fails and computes
    /// the others.
    pub(crate) fn start_bundle(&self, starter: &mut Starter, bundle: Bundle) {
        let begin = self.timeline.begin();
        let name = begin.map(|_| self.lock().region_name(bundle.calls.iter().map(|call| call.origin)));
        let run = catch_unwind(AssertUnwindSafe(|| self.execute_bundle(starter, &bundle)));
        let temporaries = bundle.temporaries();
        let run = run.unwrap_or_else(|_| Err(Error::internal("starting a region panicked")));
        let taken_over: Vec<usize> = bundle.taken_over().collect();
        let Bundle { calls, outer, outputs, device, origin, .. } = bundle;
        match run {
            Ok(run) => {
                taken_over.into_iter().for_each(|n| outer[n].uncount());
                for (output, buffer) in outputs.iter().zip(run.outputs) {
                    output.count();
                    output.fill(Ok(buffer));
                }
                self.ledger(device).bytes.meanwhile(temporaries);
                self.note_span(begin, &run.done, device, origin, name.as_deref());
                self.watch_at_most(device, run.done, origin, MOST_UNDER_WAY);
            }
            Err(error) if !taken_over.is_empty() => {
                let error = self.explain(&self.lock(), error, origin);
                outputs.iter().for_each(|output| output.fill(Err(error.clone())));
                self.note_failure(device, error);
            }
            Err(_) => {
                drop((outer, outputs)); // or the calls would see that somebody else holds their values
                calls.into_iter().for_each(|call| self.start_queued(starter, call));
            }
        }
    }

    fn execute_bundle(&self, starter: &mut Starter, bundle: &Bundle) -> Result<Execution> {
        let Some(fused) = bundle.program() else { return Err(Error::internal("a region without a program")) };
        let held = bundle.inputs(self, starter, fused)?;
        let buffers = held.iter().map(|held| held.buffer()).collect::<Result<SmallVec<[&Buffer; 32]>>>()?;
        let lent: SmallVec<[usize; 16]> = bundle.lent(fused).collect();
        let options = ExecuteOptions { device: Some(self.device(bundle.device)?), non_donatable: &lent, launch_id: 0 };
        Ok(fused.executable.execute(&buffers, &options)?)
    }
}

impl Bundle {
    fn new(piece: Piece, job: Arc<Job>) -> Bundle {
        let Piece { calls, stream, live, outer, .. } = piece;
        let mut uses = vec![0; outer.len()];
        let mut at = 0;
        for call in &calls {
            for word in &stream[at + 1..=at + call.inputs.len()] {
                if word & ((1 << wire::BITS) - 1) == wire::OUTER {
                    uses[(word >> wire::BITS) as usize] += 1;
                }
            }
            at += 1 + call.inputs.len();
        }
        let values = calls.iter().flat_map(|call| &call.outputs);
        let outputs = values.zip(&live).filter(|(_, live)| **live).map(|(held, _)| held.clone()).collect();
        let (device, location) = calls.first().map_or((0, 0), |call| (call.device, call.origin.location));
        Bundle { job, calls, outer, uses, outputs, device, origin: Origin { op: REGION, location } }
    }

    /// How it runs as one, if that is there.
    fn program(&self) -> Option<&Fused> {
        self.job.done.get()?.as_ref().ok()
    }

    /// Bytes that its program takes while it runs.
    fn temporaries(&self) -> u64 {
        self.program().map_or(0, |fused| fused.executable.temporaries())
    }

    /// What the plugin has taken over of what goes into the region.
    fn taken_over(&self) -> impl Iterator<Item = usize> {
        let donated = self
            .program()
            .into_iter()
            .flat_map(|fused| fused.executable.signature().donated.iter().map(|&i| fused.inputs[i]));
        donated.filter_map(|input| match input {
            Input::Outer(n) if self.outer[n].buffer().is_ok_and(Buffer::is_gone) => Some(n),
            _ => None,
        })
    }

    fn inputs(&self, core: &Core, starter: &mut Starter, fused: &Fused) -> Result<Vec<Arc<Held>>> {
        let of = Arc::as_ptr(&self.job).addr();
        let input = |input: &Input| match *input {
            Input::Outer(i) => self.outer.get(i).cloned().ok_or_else(|| Error::internal("a region's input is missing")),
            Input::Floats => starter.packed(core, (self.device, DType::F64, of), self.numbers(true)),
            Input::Ints => starter.packed(core, (self.device, DType::I64, of), self.numbers(false)),
            Input::Seeds => {
                let seeds: Vec<u8> = self.seeds().flatten().flat_map(u64::to_le_bytes).collect();
                core.send_bytes(self.device, &seeds, &TensorType::new(DType::U64, [seeds.len() / 16, 2]))
            }
        };
        fused.inputs.iter().map(input).collect()
    }

    fn feeds(&self) -> impl Iterator<Item = &Feed> {
        self.calls.iter().flat_map(|call| &call.inputs)
    }

    fn numbers(&self, floats: bool) -> Vec<u64> {
        let number = |feed: &Feed| match *feed {
            Feed::Number { float, bits } if float == floats => Some(bits),
            _ => None,
        };
        self.feeds().filter_map(number).collect()
    }

    fn seeds(&self) -> impl Iterator<Item = [u64; 2]> {
        self.feeds().filter_map(|feed| if let Feed::Seed(seed) = feed { Some(*seed) } else { None })
    }

    /// Donated inputs that somebody besides this region holds.
    fn lent(&self, fused: &Fused) -> impl Iterator<Item = usize> {
        let donated = &fused.executable.signature().donated;
        donated.iter().copied().filter(|&i| match fused.inputs[i] {
            // One for the region's list, one for the inputs at hand.
            Input::Outer(n) => Arc::strong_count(&self.outer[n]) > 2 + self.uses[n],
            _ => true,
        })
    }
}

impl State {
    /// What is needed to compile `piece`.
    fn order(&self, piece: &Piece) -> Order {
        let part = |call: &Task| (call.kernel().clone(), self.place(call.origin.location));
        Order {
            job: Arc::default(),
            name: identifier(&self.region_name(piece.calls.iter().map(|call| call.origin))),
            stream: piece.stream.clone(),
            live: piece.live.clone(),
            calls: piece.calls.iter().map(part).collect(),
        }
    }
}

/// A name that files and programs may have.
fn identifier(name: &str) -> String {
    name.chars().take(LONGEST_NAME).map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}
