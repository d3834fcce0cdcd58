//! The device as one object: storages, plans, what is under way.

use crate::build::{Draft, Parsed, Seen, trace};
use crate::cells::{Cell, Cells, Gauge, Held, Ledger, Origin, TypeId};
use crate::error::{Error, Result};
use crate::form::{Forms, Shortened};
use crate::fused::compile::Compiler;
use crate::fused::cut::Rhythm;
use crate::fused::known::Known;
use crate::fused::open::Open;
use crate::fused::{Cuts, Place, Why};
use crate::interpret::Families;
use crate::make::Makers;
use crate::plan::{Extents, Kernel, New, Plan};
use crate::queue::Queue;
use crate::registry::{self, Op};
use crate::timeline::Timeline;
use crate::words::Header;
use driver::Session;
use ir::eager::CellType;
use ir::ops::bounded::loose;
use ir::ops::{Rule, Strides, Variant};
use ir::{Graph, Loc};
use runtime::{Device, Event, machine_memory};
use rustc_hash::{FxHashMap, FxHasher};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::hash::Hasher;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

/// Executions under way beyond which a call waits for the oldest.
const MOST_PENDING: usize = 4096;
/// Executions under way beyond which finished ones are looked for.
const SOME_PENDING: usize = 64;
/// The op number of values that come from the host or another device.
pub(crate) const TRANSFER: u32 = u32::MAX;
/// The op number of values that a compiled program made.
pub(crate) const PROGRAM: u32 = u32::MAX - 1;
/// The op number of what a region of calls made.
pub(crate) const REGION: u32 = u32::MAX - 2;
/// Of a location: the call computes gradients of what that line computed.
pub(crate) const BACKWARD: u64 = 1 << 63;
/// Plans without a program that are kept: where sizes never come again, there is no end of them.
pub(crate) const MOST_PASSING: usize = 2048;
/// Turns after which a call whose cells will not settle is given up.
const MOST_TURNS: usize = 16;

/// Gives seed and offset for a draw from a generator (null: the device's own).
pub type SeedSource = fn(device: usize, generator: usize) -> Result<[u64; 2]>;

/// A call, as the shim gives it.
pub struct Request<'a> {
    /// Op and arguments, see csrc/abi.h.
    pub words: &'a [u64],
    /// The storages of its tensors, each once.
    pub cells: &'a [u64],
    /// Bits of lifted numbers.
    pub scalars: &'a [u64],
    /// A generator of the shim's, or 0.
    pub generator: usize,
    /// The device.
    pub device: usize,
    /// The user's line, as [`Core::locate`] numbers it.
    pub location: u64,
    /// How the calling thread wants it run.
    pub mode: Mode,
    /// What PyTorch says of the results; `None` if it was not asked yet.
    pub expected: Option<Expected>,
}

/// How calls run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Mode {
    /// Each call waits for its execution, so that errors come at their line.
    pub debug: bool,
    /// Results that hold NaN are errors.
    pub check_nan: bool,
    /// Calls are recorded, and run together.
    pub fused: bool,
    /// Results hang on the call alone, which a program computes, and on those it runs together with: a region's program is waited for.
    pub deterministic: bool,
    /// Each region is compiled, and waited for, the first time it comes. For tests.
    pub at_once: bool,
}

/// What PyTorch's meta kernel says.
pub enum Expected {
    /// It gives tensors of these types.
    Types(Vec<Option<CellType>>),
    /// There is none.
    Unknown,
}

/// A new tensor of a call.
pub struct Made {
    pub(crate) cell: u64,
    pub(crate) address: usize,
    pub(crate) plan: Arc<Plan>,
    pub(crate) index: usize,
    /// What it was cut to, where the plan's result is padded.
    pub(crate) cut: Option<New>,
}

impl Made {
    pub(crate) fn described(&self) -> Option<&New> {
        self.cut.as_ref().or_else(|| self.plan.results.get(self.index)?.as_ref().map(|(new, _)| new))
    }
}

/// What a call came to.
pub enum Outcome {
    /// Its new tensors; `None` for an undefined one.
    Done(Vec<Option<Made>>),
    /// It was not seen before: see whether what it writes may overlap what it reads, and ask PyTorch what it gives.
    NeedsResults,
    /// Likewise, but what it gives is known.
    NeedsChecks,
}

/// What is missing before a call that was not seen before is traced.
enum Missing {
    Nothing,
    Checks,
    Results,
}

/// Counters.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stats {
    /// Executions of single ops.
    pub executions: u64,
    /// Calls that ran without an execution, by sharing values.
    pub shared: u64,
    /// Calls not seen before.
    pub traced: u64,
    /// Executions of single ops that were evaluated, since their sizes never come again.
    pub interpreted: u64,
    /// Times that a call waited for sizes that are data.
    pub sizes_read: u64,
    /// Storages made, for results and for `empty`.
    pub storages: u64,
}

/// Counters of an op at a line.
#[derive(Debug, Clone, Copy, Default)]
pub struct OpStats {
    /// Calls that ran.
    pub calls: u64,
    /// Calls not seen before.
    pub traced: u64,
    /// Times that one waited for the size of its result.
    pub sizes_read: u64,
}

/// All devices of a session.
pub struct Core {
    session: Arc<Session>,
    devices: Vec<Device>,
    ledgers: Vec<Arc<Ledger>>,
    state: Mutex<State>,
    flights: Vec<Mutex<Flight>>,
    pub(crate) queue: Queue,
    pub(crate) makers: Makers,
    pub(crate) compiler: Compiler,
    pub(crate) timeline: Timeline,
    /// Whether there may be an open region with calls.
    pub(crate) recording: AtomicBool,
    seeds: OnceLock<SeedSource>,
    counters: Counters,
}

#[derive(Default)]
struct Counters {
    executions: AtomicU64,
    shared: AtomicU64,
    traced: AtomicU64,
    interpreted: AtomicU64,
    sizes_read: AtomicU64,
    storages: AtomicU64,
}

/// What is under way on a device.
#[derive(Default)]
pub(crate) struct Flight {
    pending: VecDeque<(Arc<Event>, Origin)>,
    failure: Option<Error>,
}

/// What calls change.
pub(crate) struct State {
    pub(crate) cells: Cells,
    plans: FxHashMap<u64, Vec<Arc<Plan>>>,
    /// Plans without a program, oldest first, and their places in `plans`.
    passing: VecDeque<(u64, Arc<Plan>)>,
    pub(crate) forms: Forms,
    places: Vec<Loc>,
    place_ids: FxHashMap<Loc, u64>,
    counts: FxHashMap<(u32, u64), OpStats>,
    kernels: FxHashMap<u64, Weak<Kernel>>,
    pub(crate) families: Families,
    pub(crate) shortened: Shortened,
    /// By device, what was recorded since the last cut.
    pub(crate) opens: Vec<Open>,
    pub(crate) rhythms: Vec<Rhythm>,
    /// Regions begun.
    pub(crate) serials: u64,
    /// Calls recorded.
    pub(crate) recorded: u64,
    pub(crate) known: Known,
    pub(crate) cuts: FxHashMap<Place, Cuts>,
}

impl Core {
    /// The devices of `session`.
    ///
    /// # Errors
    /// When the plugin has none, or the system lends no addresses.
    pub fn new(session: Arc<Session>) -> Result<Arc<Core>> {
        registry::bind_copies()?;
        let devices = session.client().devices();
        let state = State {
            cells: Cells::new()?,
            plans: FxHashMap::default(),
            passing: VecDeque::new(),
            forms: Forms::default(),
            places: vec![],
            place_ids: FxHashMap::default(),
            counts: FxHashMap::default(),
            kernels: FxHashMap::default(),
            families: Families::new(session.is_on_cpu())?,
            shortened: Shortened::default(),
            opens: devices.iter().map(|_| Open::default()).collect(),
            rhythms: devices.iter().map(|_| Rhythm::default()).collect(),
            serials: 0,
            recorded: 0,
            known: Known::default(),
            cuts: FxHashMap::default(),
        };
        let core = Arc::new(Core {
            ledgers: devices.iter().map(|_| Arc::default()).collect(),
            flights: devices.iter().map(|_| Mutex::default()).collect(),
            makers: Makers::new(session.clone()),
            compiler: Compiler::new(session.clone()),
            timeline: Timeline::default(),
            recording: AtomicBool::new(false),
            session,
            devices,
            state: Mutex::new(state),
            queue: Queue::new(),
            seeds: OnceLock::new(),
            counters: Counters::default(),
        });
        core.queue.employ(Arc::downgrade(&core));
        Ok(core)
    }

    /// Waits until all programs of calls so far are there, so that they are counted.
    pub fn wait_for_programs(&self) {
        self.makers.wait();
    }

    /// The session behind the devices.
    pub fn session(&self) -> &Session {
        &self.session
    }
    /// How many devices there are.
    pub fn device_count(&self) -> usize {
        self.devices.len()
    }
    /// Where random seeds come from.
    pub fn set_seeds(&self, source: SeedSource) {
        let _ = self.seeds.set(source);
    }
    /// What it did so far.
    pub fn stats(&self) -> Stats {
        let read = |c: &AtomicU64| c.load(Ordering::Relaxed);
        let c = &self.counters;
        Stats {
            executions: read(&c.executions),
            shared: read(&c.shared),
            traced: read(&c.traced),
            interpreted: read(&c.interpreted),
            sizes_read: read(&c.sizes_read),
            storages: read(&c.storages),
        }
    }
    /// What each op did so far at each line, as `file:line`.
    pub fn stats_by_op(&self) -> Vec<(&'static str, String, OpStats)> {
        let state = self.lock();
        let place = |&(op, location): &(u32, u64)| (op_name(op), state.line(location));
        state.counts.iter().map(|(key, &counts)| (place(key).0, place(key).1, counts)).collect()
    }
    /// The bytes and the number of values on a device.
    pub fn memory(&self, device: usize) -> (Gauge, Gauge) {
        self.drain(); // calls in line hold what they read
        self.ledgers.get(device).map(|l| (l.bytes.read(), l.values.read())).unwrap_or_default()
    }
    /// Forgets the most memory that a device has used, or else what came and went.
    pub fn reset_memory(&self, device: usize, peak: bool) {
        if let Some(ledger) = self.ledgers.get(device) {
            ledger.bytes.reset(peak);
            ledger.values.reset(peak);
        }
    }
    /// The bytes that a device has and those that are free: the machine's for its own processor, else zeros where the plugin
    /// does not say.
    ///
    /// # Errors
    /// When there is no such device.
    pub fn capacity(&self, device: usize) -> Result<(u64, u64)> {
        let stats = self.device(device)?.memory_stats().ok();
        if let Some(memory) = machine_memory().filter(|_| stats.is_none() && self.session.is_on_cpu()) {
            return Ok((memory.total, memory.available));
        }
        let total = stats.as_ref().and_then(|s| s.bytes_limit).unwrap_or(0).max(0) as u64;
        let used = stats.map_or(0, |s| s.bytes_in_use).max(0) as u64;
        Ok((total, total.saturating_sub(used)))
    }
    /// Whether all that was started on a device has ended.
    pub fn idle(&self, device: usize) -> bool {
        self.flush(Why::Waited, 0);
        self.nudge();
        let ended = |(event, _): &(Arc<Event>, Origin)| event.is_ready().unwrap_or(true);
        self.queue.is_empty() && (device >= self.flights.len() || self.flight(device).pending.iter().rev().all(ended))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn flight(&self, device: usize) -> MutexGuard<'_, Flight> {
        self.flights[device].lock().unwrap_or_else(PoisonError::into_inner)
    }
    pub(crate) fn count_run(&self, executes: bool) {
        let counter = if executes { &self.counters.executions } else { &self.counters.shared };
        counter.fetch_add(1, Ordering::Relaxed);
    }
    pub(crate) fn count_interpreted(&self) {
        self.counters.interpreted.fetch_add(1, Ordering::Relaxed);
    }
    pub(crate) fn count_storage(&self) {
        self.counters.storages.fetch_add(1, Ordering::Relaxed);
    }
    pub(crate) fn count_sizes_read(&self, origin: Origin) {
        self.counters.sizes_read.fetch_add(1, Ordering::Relaxed);
        let mut state = self.lock();
        state.families.turn();
        state.counts.entry((origin.op, origin.location)).or_default().sizes_read += 1;
    }
    pub(crate) fn device(&self, index: usize) -> Result<&Device> {
        let count = self.devices.len();
        self.devices.get(index).ok_or_else(|| Error::new(format!("there is no device tpu:{index}, only {count}")))
    }
    pub(crate) fn ledger(&self, index: usize) -> &Arc<Ledger> {
        &self.ledgers[index]
    }

    /// The number of a user's line.
    pub fn locate(&self, file: &str, line: u32, function: &str) -> u64 {
        let loc = Loc { file: file.into(), line, function: function.into(), ..Loc::default() };
        let mut state = self.lock();
        if let Some(&id) = state.place_ids.get(&loc) {
            return id;
        }
        state.places.push(loc.clone());
        let id = state.places.len() as u64;
        state.place_ids.insert(loc, id);
        id
    }

    /// Runs a call, or says what is missing to run it.
    ///
    /// # Errors
    /// In PyTorch's words, for what PyTorch refuses; `NotImplemented` for what has no lowering; what the plugin reports.
    pub fn dispatch(&self, request: &Request<'_>) -> Result<Outcome> {
        let mut bound = None;
        for _ in 0..MOST_TURNS {
            let mut state = self.lock();
            let types = state.types_of(request.cells)?;
            let hash = hash(request.words, &types);
            if let Some(plan) = state.plan(hash, request, &types, bound) {
                let (made, counts) = self.run(state, &plan, request)?;
                match &plan.extents {
                    Extents::Fixed => return Ok(Outcome::Done(made)),
                    Extents::Cut { cuts, .. } => {
                        return self.cut(made, cuts, &counts, request.device).map(Outcome::Done);
                    }
                    Extents::Prepared => {}
                    Extents::Bound(_) => bound = counts.first().map(|&n| loose(n)),
                }
                continue;
            }
            if state.is_to_lie_flat(request, &types, hash) {
                drop(state);
                self.lay_flat(request)?;
                continue;
            }
            let seen = state.seen(request.cells, &types);
            let loc = state.place(request.location);
            drop(state);
            if request.expected.is_none() {
                match self.validate(request, &seen, bound, loc.clone())? {
                    Missing::Nothing => {}
                    Missing::Checks => return Ok(Outcome::NeedsChecks),
                    Missing::Results => return Ok(Outcome::NeedsResults),
                }
            }
            let plan = self.build(request, types, &seen, bound, loc)?;
            let mut state = self.lock();
            let origin = (request.words[0] as u32, request.location);
            state.counts.entry(origin).or_default().traced += u64::from(plan.is_last());
            if plan.is_last() && !state.plans.contains_key(&hash) {
                state.forms.count(request);
            }
            state.keep(hash, plan);
        }
        Err(Error::internal("a call's storages do not come to rest"))
    }

    /// Finds what is wrong with a call before PyTorch's meta kernels do, whose words are not those of its real ones. Says
    /// whether these are to be asked, which know no extents that are data: not of calls whose results lie in rows, as their
    /// operands do. What is written is looked at in any case.
    fn validate(&self, request: &Request<'_>, seen: &Seen, bound: Option<i64>, loc: Loc) -> Result<Missing> {
        let (op, parsed) = parse(request, bound)?;
        let bounded = matches!(op.entry.def.rule, Rule::Bounded(_));
        // The outputs may be about to be resized.
        let variant = if op.entry.variant == Variant::Out { Variant::Functional } else { op.entry.variant };
        if variant != op.entry.variant && !bounded {
            return Ok(Missing::Results);
        }
        // Another library's meta kernel of such an op runs in a trace only, which lets it invent the extent.
        let foreign = bounded && !op.entry.schema.name.starts_with("aten::");
        let only_rows = op.entry.strides().0 == Strides::Rows && op.entry.schema.returns.len() == 1;
        let gives_rows = only_rows || parsed.lies_in_rows();
        // Which size an output gets is asked in any case.
        let is_known = gives_rows && !op.entry.def.asked && op.entry.variant != Variant::Out;
        let writes = variant == Variant::InPlace || op.entry.schema.args.iter().any(|arg| arg.written);
        let is_fixed = match parsed.cells(seen)? {
            Ok(cells) => {
                trace(op, variant, parsed, &cells, None, loc)?.extents == ir::eager::Extents::Fixed && !foreign
            }
            Err(_) => !bounded,
        };
        Ok(match (is_fixed, is_known, writes) {
            (true, false, _) => Missing::Results,
            (true, true, true) => Missing::Checks,
            _ => Missing::Nothing,
        })
    }

    /// The plan of a call, or the one by which cells come into the form that it takes.
    fn build(
        &self,
        request: &Request<'_>,
        types: SmallVec<[TypeId; 8]>,
        seen: &Seen,
        bound: Option<i64>,
        loc: Loc,
    ) -> Result<Plan> {
        let (op, parsed) = parse(request, bound)?;
        let cells = match parsed.cells(seen)? {
            Ok(cells) => cells,
            Err(reforms) => return self.reforming(request, types, seen, bound, &reforms),
        };
        let expected = match &request.expected {
            Some(Expected::Types(types)) if op.entry.variant == Variant::Functional => Some(types.as_slice()),
            _ => None,
        };
        let traced = trace(op, op.entry.variant, parsed, &cells, expected, loc)?;
        self.counters.traced.fetch_add(1, Ordering::Relaxed);
        Draft::new(traced).finish(self, request, types, bound, &cells)
    }

    /// The program of a call, shared with all that compute the same.
    pub(crate) fn kernel(&self, graph: Graph) -> Arc<Kernel> {
        let fingerprint = driver::fingerprint(&graph);
        let mut state = self.lock();
        if let Some(known) = state.kernels.get(&fingerprint).and_then(Weak::upgrade) {
            self.session.count_hit();
            return known;
        }
        let rent = state.families.meet(&graph);
        let kernel = Arc::new(self.makers.kernel(graph, fingerprint, rent));
        state.kernels.insert(fingerprint, Arc::downgrade(&kernel));
        drop(state);
        if kernel.rent.is_none() {
            self.makers.order(kernel.clone());
        }
        kernel
    }

    /// Seed and offset for a draw from a generator, 0 for the device's own.
    pub(crate) fn seed(&self, device: usize, generator: usize) -> Result<[u64; 2]> {
        self.seeds.get().map_or(Ok([0, 0]), |seeds| seeds(device, generator))
    }

    /// `error` with the op and the line, and with who holds memory if it has run out.
    pub(crate) fn explain(&self, state: &State, error: Error, origin: Origin) -> Error {
        state.with_holders(error.during(op_name(origin.op), &state.line(origin.location)), Some(origin))
    }

    /// Keeps an execution in view until it has ended.
    pub(crate) fn watch(&self, device: usize, done: Arc<Event>, origin: Origin) {
        self.watch_at_most(device, done, origin, MOST_PENDING);
    }

    /// As [`Core::watch`]; waits for the oldest if there are more than `most`.
    pub(crate) fn watch_at_most(&self, device: usize, done: Arc<Event>, origin: Origin, most: usize) {
        let mut flight = self.flight(device);
        flight.pending.push_back((done, origin));
        while flight.pending.len() > SOME_PENDING.min(most) {
            let Some((event, _)) = flight.pending.front() else { return };
            if !event.is_ready().unwrap_or(true) && flight.pending.len() <= most {
                return;
            }
            let Some((event, origin)) = flight.pending.pop_front() else { return };
            if let Err(error) = event.wait() {
                let error = self.explain(&self.lock(), error.into(), origin);
                flight.failure.get_or_insert(error);
            }
        }
    }

    /// Keeps the first failure for the next synchronisation.
    pub(crate) fn note_failure(&self, device: usize, error: Error) {
        self.flight(device).failure.get_or_insert(error);
    }

    /// Starts what is in line, and raises what failed since the last time.
    ///
    /// # Errors
    /// The first failure, with the op and the line that issued it.
    pub(crate) fn settle(&self, device: usize) -> Result<()> {
        self.drain();
        self.flight(device).failure.take().map_or(Ok(()), Err)
    }

    /// Waits for all that was started on `device`.
    ///
    /// # Errors
    /// The first failure since the last time, with the op and the line that issued it.
    pub fn synchronize(&self, device: usize) -> Result<()> {
        self.device(device)?;
        self.lock().families.turn();
        self.drain();
        let pending = std::mem::take(&mut self.flight(device).pending);
        let mut first = None;
        for (event, origin) in pending {
            if let Err(error) = event.wait() {
                first.get_or_insert((error, origin));
            }
        }
        self.settle(device)?;
        match first {
            Some((error, origin)) => Err(self.explain(&self.lock(), error.into(), origin)),
            None => Ok(()),
        }
    }
}

impl State {
    pub(crate) fn types_of(&self, cells: &[u64]) -> Result<SmallVec<[TypeId; 8]>> {
        cells.iter().map(|&id| self.cells.get(id).map(|c| if c.value.is_some() { c.ty } else { 0 })).collect()
    }

    fn plan(&self, hash: u64, request: &Request<'_>, types: &[TypeId], bound: Option<i64>) -> Option<Arc<Plan>> {
        let plans = self.plans.get(&hash)?;
        plans.iter().find(|p| p.serves(request.words, types, request.scalars, bound)).cloned()
    }

    fn keep(&mut self, hash: u64, plan: Plan) {
        let plan = Arc::new(plan);
        if plan.is_passing() {
            self.passing.push_back((hash, plan.clone()));
        }
        self.plans.entry(hash).or_default().push(plan);
        if self.passing.len() > MOST_PASSING
            && let Some((hash, oldest)) = self.passing.pop_front()
            && oldest.is_passing()
        {
            self.forget(hash, &oldest);
        }
    }

    /// How many plans and programs are known.
    #[cfg(test)]
    pub(crate) fn known_plans(&self) -> (usize, usize) {
        (self.plans.len(), self.kernels.len())
    }

    fn forget(&mut self, hash: u64, plan: &Arc<Plan>) {
        if let Some(plans) = self.plans.get_mut(&hash) {
            plans.retain(|known| !Arc::ptr_eq(known, plan));
            if plans.is_empty() {
                self.plans.remove(&hash);
            }
        }
        // Held by this plan alone.
        if let Some(kernel) = plan.kernel.as_ref().filter(|kernel| Arc::strong_count(kernel) == 1) {
            self.kernels.remove(&kernel.fingerprint);
        }
    }

    pub(crate) fn seen(&self, cells: &[u64], types: &[TypeId]) -> Seen {
        let nbytes = cells.iter().map(|&id| self.cells.get(id).map_or(0, |c| c.nbytes)).collect();
        Seen { types: types.iter().map(|&t| self.cells.ty(t).cloned()).collect(), nbytes }
    }

    pub(crate) fn place(&self, location: u64) -> Loc {
        let index = ((location & !BACKWARD) as usize).checked_sub(1);
        index.and_then(|i| self.places.get(i)).cloned().unwrap_or_default()
    }

    pub(crate) fn count(&mut self, origin: Origin) {
        self.counts.entry((origin.op, origin.location)).or_default().calls += 1;
    }

    /// `file:line`, with a note if gradients of that line were computed; nothing where it is not known.
    pub(crate) fn line(&self, location: u64) -> String {
        let loc = self.place(location);
        let note = if location & BACKWARD == 0 { "" } else { " (backward)" };
        if loc.line == 0 { String::new() } else { format!("{}:{}{note}", loc.file, loc.line) }
    }

    /// `error` with who holds memory, or is about to, if that has run out; `failed` is the call that did not get any.
    pub(crate) fn with_holders(&self, mut error: Error, failed: Option<Origin>) -> Error {
        if error.kind == crate::Kind::OutOfMemory {
            error.message.push_str(&self.holders(failed));
        }
        error
    }

    /// The largest values and the lines that made them.
    fn holders(&self, failed: Option<Origin>) -> String {
        let mut by_line: FxHashMap<(u64, u32), (u64, usize)> = FxHashMap::default();
        let failed = failed.map(|origin| (origin.location, origin.op));
        let made = |c: &Cell, v: &Held| {
            v.buffer().is_ok() || v.is_promised() && Some((c.origin.location, c.origin.op)) != failed
        };
        for cell in self.cells.iter().filter(|c| c.value.as_ref().is_some_and(|v| made(c, v))) {
            let entry = by_line.entry((cell.origin.location, cell.origin.op)).or_default();
            *entry = (entry.0 + cell.nbytes, entry.1 + 1);
        }
        let mut lines: Vec<_> = by_line.into_iter().collect();
        lines.sort_by_key(|&(key, (bytes, _))| (std::cmp::Reverse(bytes), key));
        if lines.is_empty() {
            return String::new();
        }
        let mut text = String::from("\nThe largest holders of device memory:");
        for ((location, op), (bytes, count)) in lines.into_iter().take(5) {
            let place = Some(self.line(location)).filter(|p| !p.is_empty()).unwrap_or_else(|| "?".to_owned());
            text.push_str(&format!("\n  {:>12} bytes in {count} tensors, {} at {place}", bytes, op_name(op)));
        }
        text
    }
}

fn parse(request: &Request<'_>, bound: Option<i64>) -> Result<(&'static Op, Parsed)> {
    let op = registry::op(Header::of(request.words)?.op).ok_or_else(|| Error::internal("no such op"))?;
    Ok((op, Parsed::read(request, op.places()?.len(), bound)?))
}

/// The overload's name, for messages.
pub(crate) fn op_name(number: u32) -> &'static str {
    match number {
        TRANSFER => "a transfer",
        PROGRAM => "a compiled program",
        REGION => "a region of calls",
        _ => registry::op(number).map_or("an unknown op", |op| op.name),
    }
}

pub(crate) fn hash(words: &[u64], types: &[TypeId]) -> u64 {
    let mut hasher = FxHasher::default();
    words.iter().for_each(|&w| hasher.write_u64(w));
    types.iter().for_each(|&t| hasher.write_u32(t));
    hasher.finish()
}
