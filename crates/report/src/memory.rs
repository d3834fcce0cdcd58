//! Who holds the memory at the worst moment, read from the compiler's own buffer assignment.
//!
//! Arguments and results have their memory for as long as the program runs. Temporaries share a heap, whose trace is
//! replayed to the moment at which most of it is in use. Values in the heap that the trace does not mention (the index
//! tables of tuples) are there from beginning to end.

use std::collections::{HashMap, HashSet};

use hlo::proto::{
    BufferAllocationProto, BufferAssignmentProto, HeapEvent, HeapSimulatorTrace, HloProto, LogicalBufferProto,
};

use crate::index::Index;
use crate::shape::{self, HBM, VMEM};
use crate::source::Sources;
use crate::timeline::{Timeline, Trace};
use crate::{Holder, Input, Memory, Source};

/// Heaps are cut at multiples of a power of two; a larger one than this is taken for an accident of few offsets.
const LARGEST_ALIGNMENT: u64 = 1 << 16;

/// Kinds of events in a heap's trace.
const ALLOCATE: i32 = 0;
const FREE: i32 = 1;

/// Memory of one device, or `None` if the dump does not say where values lie.
pub(crate) fn memory(dump: &HloProto, index: &Index<'_>, sources: &Sources, input: &Input<'_>) -> Option<Memory> {
    let assignment = dump.buffer_assignment.as_ref()?;
    let reader = Reader::new(assignment, index, sources);
    let parts = Parts::of(assignment);
    let stats = input.stats.unwrap_or_default();
    let mut holders = reader.arguments(&parts, input);
    holders.extend(reader.outputs(&parts));
    let heap = reader.heap(&parts, stats.temporaries);
    holders.extend(heap.holders);
    let (arguments, outputs) = (stats.arguments.max(parts.arguments), stats.outputs.max(parts.outputs));
    let held = holders.iter().fold(0u64, |sum, holder| sum.saturating_add(holder.bytes));
    let aliased = stats.aliased.max(parts.aliased).min(arguments).min(outputs);
    let total = arguments.saturating_add(outputs - aliased).saturating_add(heap.bytes);
    let peak = total.max(held);
    let timeline = Timeline::new(index, parts.arguments.saturating_add(heap.always));
    let (timeline, peak_step) = timeline.replay(&heap.traces, &reader.output_steps(&parts));
    Some(Memory {
        peak,
        arguments,
        outputs,
        aliased,
        temporaries: heap.bytes,
        code: stats.code,
        holders: merge(holders),
        unattributed: peak - held,
        timeline,
        peak_step,
        vmem_peak: reader.most_in_use(VMEM),
    })
}

/// The peak as libtpu's own statistics have it, which is not that of any one memory: what lies outside the heaps, in
/// all memories, and the greatest of the heaps' peaks. For checking that a dump is read as its compiler reads it.
pub fn compiler_peak(dump: &HloProto) -> u64 {
    let Some(assignment) = &dump.buffer_assignment else { return 0 };
    let traced: HashSet<i64> = assignment.heap_simulator_traces.iter().map(|it| it.buffer_allocation_index).collect();
    let outside = assignment.buffer_allocations.iter().filter(|it| !it.is_thread_local && !traced.contains(&it.index));
    let sizes = sizes(assignment);
    let heaps = assignment.heap_simulator_traces.iter().map(|trace| Replay::of(trace, &sizes).most);
    size_of(outside).saturating_add(heaps.max().unwrap_or(0))
}

/// Allocations in HBM, by what they are for.
#[derive(Default)]
struct Parts<'a> {
    arguments: u64,
    outputs: u64,
    aliased: u64,
    argument: Vec<&'a BufferAllocationProto>,
    output: Vec<&'a BufferAllocationProto>,
    heap: Vec<&'a BufferAllocationProto>,
}

impl<'a> Parts<'a> {
    /// Constants are left out: they come with the program's code. So are the scratch values of called computations
    /// which live on the call's stack.
    fn of(assignment: &'a BufferAssignmentProto) -> Parts<'a> {
        let mut parts = Parts::default();
        let in_hbm = assignment.buffer_allocations.iter().filter(|it| it.color == HBM && !it.is_thread_local);
        for allocation in in_hbm.filter(|it| !it.is_constant) {
            let size = bytes(allocation.size);
            match (allocation.is_entry_computation_parameter, allocation.maybe_live_out) {
                (true, live_out) => {
                    parts.arguments = parts.arguments.saturating_add(size);
                    parts.argument.push(allocation);
                    if live_out {
                        parts.outputs = parts.outputs.saturating_add(size);
                        parts.aliased = parts.aliased.saturating_add(size);
                    }
                }
                (false, true) => {
                    parts.outputs = parts.outputs.saturating_add(size);
                    parts.output.push(allocation);
                }
                (false, false) => parts.heap.push(allocation),
            }
        }
        parts
    }
}

/// The heaps at their worst moment.
struct Heap<'a> {
    bytes: u64,
    /// What is in the heaps at every moment.
    always: u64,
    holders: Vec<Holder>,
    traces: Vec<Trace<'a>>,
}

struct Reader<'a> {
    assignment: &'a BufferAssignmentProto,
    index: &'a Index<'a>,
    sources: &'a Sources,
    buffers: HashMap<i64, &'a LogicalBufferProto>,
    sizes: HashMap<i64, u64>,
}

impl<'a> Reader<'a> {
    fn new(assignment: &'a BufferAssignmentProto, index: &'a Index<'a>, sources: &'a Sources) -> Reader<'a> {
        let buffers = assignment.logical_buffers.iter().map(|buffer| (buffer.id, buffer)).collect();
        Reader { assignment, index, sources, buffers, sizes: sizes(assignment) }
    }

    fn arguments(&self, parts: &Parts<'_>, input: &Input<'_>) -> Vec<Holder> {
        let holder = |allocation: &&BufferAllocationProto| {
            let known = usize::try_from(allocation.parameter_number).ok().and_then(|it| input.arguments.get(it));
            let unpadded = self.main_buffer(allocation).map_or(0, |buffer| self.unpadded(buffer));
            Holder {
                bytes: bytes(allocation.size),
                unpadded: unpadded.min(bytes(allocation.size)),
                kind: "argument".to_owned(),
                values: vec![
                    known.map_or_else(|| format!("argument {}", allocation.parameter_number), |it| it.name.clone()),
                ],
                source: known.map(|argument| argument.source.clone()).unwrap_or_default(),
            }
        };
        parts.argument.iter().map(holder).collect()
    }

    fn outputs(&self, parts: &Parts<'_>) -> Vec<Holder> {
        let holder = |allocation: &&BufferAllocationProto| match self.main_buffer(allocation) {
            Some(buffer) => self.holder("output", buffer, bytes(allocation.size)),
            None => nameless("output", bytes(allocation.size)),
        };
        parts.output.iter().map(holder).collect()
    }

    /// What the heaps hold, in `reserved` bytes if the compiler says how many it takes for them.
    fn heap(&self, parts: &Parts<'a>, reserved: u64) -> Heap<'a> {
        let mut live: Vec<(i64, u64, u64)> = Vec::new();
        let (mut always, mut traces) = (0u64, Vec::new());
        let all_traces = traces_of(self.assignment);
        for allocation in &parts.heap {
            let alignment = alignment(allocation);
            let mut hold = |id: i64, size: u64| live.push((id, size, size.next_multiple_of(alignment)));
            let of_this = all_traces.get(&allocation.index).map_or(&[][..], |it| it);
            let mentioned: HashSet<i64> = of_this.iter().flat_map(|it| &it.events).map(|it| it.buffer_id).collect();
            for assigned in allocation.assigned.iter().filter(|it| !mentioned.contains(&it.logical_buffer_id)) {
                let size = bytes(assigned.size);
                always = always.saturating_add(size.next_multiple_of(alignment));
                hold(assigned.logical_buffer_id, size);
            }
            for trace in of_this {
                Replay::of(trace, &self.sizes)
                    .live(trace, &self.sizes)
                    .into_iter()
                    .for_each(|(id, size)| hold(id, size));
                traces.push(self.timed(trace));
            }
        }
        let held = live.iter().fold(0u64, |sum, entry| sum.saturating_add(entry.1));
        let bytes = reserved.max(size_of(parts.heap.iter().copied())).max(held);
        // Padding up to the next cut belongs to a value as long as the heap has room for it.
        let mut room = bytes - held;
        let mut padded = |size: u64, cut: u64| {
            let padding = (cut - size).min(room);
            room -= padding;
            size + padding
        };
        let holders = live.iter().map(|&(id, size, cut)| self.temporary(id, padded(size, cut))).collect();
        Heap { bytes, always: always.min(bytes), holders, traces }
    }

    fn temporary(&self, buffer: i64, bytes: u64) -> Holder {
        match self.buffers.get(&buffer) {
            Some(buffer) => self.holder("temporary", buffer, bytes),
            None => nameless("temporary", bytes),
        }
    }

    fn holder(&self, kind: &str, buffer: &LogicalBufferProto, bytes: u64) -> Holder {
        let definition = buffer.defined_at.as_ref().map(|place| place.instruction_id);
        let instruction = definition.and_then(|id| self.index.instruction(id));
        Holder {
            bytes,
            unpadded: self.unpadded(buffer).min(bytes),
            kind: kind.to_owned(),
            values: instruction.map(|it| it.name.clone()).into_iter().collect(),
            source: instruction.map(|it| self.sources.of(self.index, it.id).clone()).unwrap_or_default(),
        }
    }

    /// Bytes of a value's elements; a tuple's are its elements' addresses, all of which the hardware needs.
    fn unpadded(&self, buffer: &LogicalBufferProto) -> u64 {
        let shape = buffer.defined_at.as_ref().and_then(|place| {
            let instruction = self.index.instruction(place.instruction_id)?;
            shape::at(instruction.shape.as_ref()?, &place.shape_index)
        });
        match shape {
            Some(shape) if shape.element_type != hlo::primitive::TUPLE => shape::bytes(shape),
            _ => bytes(buffer.size),
        }
    }

    /// Of the values that lie in an allocation one after the other, the largest; of several such, the last one made.
    fn main_buffer(&self, allocation: &BufferAllocationProto) -> Option<&'a LogicalBufferProto> {
        let buffers = allocation.assigned.iter().filter_map(|it| self.buffers.get(&it.logical_buffer_id).copied());
        buffers.max_by_key(|buffer| {
            let definition = buffer.defined_at.as_ref().map(|place| place.instruction_id);
            let place = definition.and_then(|id| self.index.place(id));
            (buffer.size, place.map(|place| (Some(place.computation) == self.index.entry(), place.step)))
        })
    }

    /// For each result that has memory of its own: its bytes, and the instruction that first writes there.
    fn output_steps(&self, parts: &Parts<'_>) -> Vec<(i64, u64)> {
        let steps = |allocation: &BufferAllocationProto| -> Option<i64> {
            let buffers = allocation.assigned.iter().filter_map(|it| self.buffers.get(&it.logical_buffer_id));
            let made = buffers.filter_map(|buffer| Some(buffer.defined_at.as_ref()?.instruction_id));
            made.min_by_key(|&id| {
                let place = self.index.place(id);
                place.map_or((true, usize::MAX), |it| (Some(it.computation) != self.index.entry(), it.step))
            })
        };
        parts.output.iter().filter_map(|it| Some((steps(it)?, bytes(it.size)))).collect()
    }

    fn timed(&self, trace: &'a HeapSimulatorTrace) -> Trace<'a> {
        let change = |event: &'a HeapEvent, delta: i128| (event.instruction_name.as_str(), event.buffer_id, delta);
        let events = changes(trace, &self.sizes).into_iter().map(|(event, delta)| change(event, delta)).collect();
        let buffers = trace.events.iter().filter_map(|it| self.buffers.get(&it.buffer_id));
        let defined = buffers.filter_map(|it| Some((it.id, it.defined_at.as_ref()?.instruction_id))).collect();
        Trace { events, defined }
    }

    /// The most that is in use of one memory's heaps, with what lies outside of them.
    fn most_in_use(&self, color: i64) -> u64 {
        let traces = traces_of(self.assignment);
        let here = self.assignment.buffer_allocations.iter().filter(|it| it.color == color && !it.is_thread_local);
        let most = here.map(|allocation| match traces.get(&allocation.index) {
            Some(traces) => traces.iter().map(|it| Replay::of(it, &self.sizes).most).fold(0, u64::saturating_add),
            None => bytes(allocation.size),
        });
        most.fold(0, u64::saturating_add)
    }
}

/// The worst moment of a heap.
struct Replay {
    /// Bytes in use then.
    most: u64,
    /// How many changes have happened by then.
    events: usize,
}

impl Replay {
    fn of(trace: &HeapSimulatorTrace, sizes: &HashMap<i64, u64>) -> Replay {
        let (mut in_use, mut worst) = (0i128, Replay { most: 0, events: 0 });
        for (number, (_, delta)) in changes(trace, sizes).into_iter().enumerate() {
            in_use += delta;
            let now = u64::try_from(in_use).unwrap_or(0);
            if now > worst.most {
                worst = Replay { most: now, events: number + 1 };
            }
        }
        worst
    }

    /// The values in use at that moment, in the order in which they came.
    fn live(&self, trace: &HeapSimulatorTrace, sizes: &HashMap<i64, u64>) -> Vec<(i64, u64)> {
        let mut came: Vec<(i64, u64)> = Vec::new();
        let mut places: HashMap<i64, usize> = HashMap::new();
        for (event, delta) in changes(trace, sizes).into_iter().take(self.events) {
            if let Ok(size) = u64::try_from(delta) {
                places.insert(event.buffer_id, came.len());
                came.push((event.buffer_id, size));
            } else if let Some(place) = places.remove(&event.buffer_id) {
                came[place].1 = 0;
            }
        }
        came.into_iter().filter(|&(_, size)| size > 0).collect()
    }
}

/// What each event of a trace changes: bytes come with the buffer that allocates them and go, under the same buffer's
/// id, when the last one is freed that shares them. Events that change nothing are left out.
fn changes<'a>(trace: &'a HeapSimulatorTrace, sizes: &HashMap<i64, u64>) -> Vec<(&'a HeapEvent, i128)> {
    let mut changes = Vec::new();
    let mut owners: HashMap<i64, &HeapEvent> = HashMap::new();
    let mut sharers: HashMap<i64, usize> = HashMap::new();
    let size = |id: i64| i128::from(sizes.get(&id).copied().unwrap_or(0));
    for event in &trace.events {
        match event.kind {
            ALLOCATE if !owners.contains_key(&event.buffer_id) => {
                owners.insert(event.buffer_id, event);
                sharers.insert(event.buffer_id, 1);
                changes.push((event, size(event.buffer_id)));
            }
            FREE => {
                let Some(owner) = owners.remove(&event.buffer_id) else { continue };
                let left = sharers.entry(owner.buffer_id).or_insert(1);
                *left = left.saturating_sub(1);
                if *left == 0 {
                    changes.push((owner, -size(owner.buffer_id)));
                }
            }
            ALLOCATE => {}
            _ => {
                let Some(&owner) = owners.get(&event.share_with_canonical_id) else { continue };
                if owners.insert(event.buffer_id, owner).is_none() {
                    *sharers.entry(owner.buffer_id).or_insert(0) += 1;
                }
            }
        }
    }
    changes.retain(|change| change.1 != 0);
    changes
}

/// Holders of one kind and place as one, most bytes first.
fn merge(holders: Vec<Holder>) -> Vec<Holder> {
    let mut merged: Vec<Holder> = Vec::new();
    let mut places: HashMap<(String, Source), usize> = HashMap::new();
    let mut holders = holders;
    holders.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.values.cmp(&b.values)));
    for holder in holders {
        // Every argument is shown under its own name.
        if holder.kind == "argument" {
            merged.push(holder);
            continue;
        }
        match places.get(&(holder.kind.clone(), holder.source.clone())) {
            Some(&place) => {
                let into: &mut Holder = &mut merged[place];
                into.bytes = into.bytes.saturating_add(holder.bytes);
                into.unpadded = into.unpadded.saturating_add(holder.unpadded);
                into.values.extend(holder.values);
            }
            None => {
                places.insert((holder.kind.clone(), holder.source.clone()), merged.len());
                merged.push(holder);
            }
        }
    }
    merged.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.source.cmp(&b.source)));
    merged
}

/// The power of two that all of an allocation's offsets are multiples of.
fn alignment(allocation: &BufferAllocationProto) -> u64 {
    let bits = allocation.assigned.iter().fold(0, |bits, assigned| bits | bytes(assigned.offset));
    if bits == 0 { 1 } else { (1 << bits.trailing_zeros()).min(LARGEST_ALIGNMENT) }
}

fn traces_of(assignment: &BufferAssignmentProto) -> HashMap<i64, Vec<&HeapSimulatorTrace>> {
    let mut traces: HashMap<i64, Vec<&HeapSimulatorTrace>> = HashMap::new();
    for trace in assignment.heap_simulator_traces.iter().filter(|it| !it.events.is_empty()) {
        traces.entry(trace.buffer_allocation_index).or_default().push(trace);
    }
    traces
}

fn sizes(assignment: &BufferAssignmentProto) -> HashMap<i64, u64> {
    assignment.logical_buffers.iter().map(|buffer| (buffer.id, bytes(buffer.size))).collect()
}

fn size_of<'a>(allocations: impl Iterator<Item = &'a BufferAllocationProto>) -> u64 {
    allocations.fold(0, |sum, allocation| sum.saturating_add(bytes(allocation.size)))
}

/// Sizes are signed in the protos; less than nothing is nothing, and more than memories will ever have is cut down, so
/// that sums and roundings stay within 64 bits.
fn bytes(size: i64) -> u64 {
    u64::try_from(size).unwrap_or(0).min(1 << 56)
}

fn nameless(kind: &str, bytes: u64) -> Holder {
    Holder { bytes, unpadded: bytes, kind: kind.to_owned(), values: Vec::new(), source: Source::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{allocation, array, at_line, buffer, computation, event, instruction, module};
    use crate::{Argument, Stats};
    use hlo::proto::HloInstructionProto;

    const SHARE: i32 = 2;

    /// `x` is exponentiated at line 1, `%negate` and `%tanh` follow at lines 2 and 3, `%add` is returned from line 4.
    fn dump(events: Vec<HeapEvent>, heap: BufferAllocationProto) -> HloProto {
        let f32 = |elements: i64| array("f32", &[elements]);
        let instructions: Vec<HloInstructionProto> = vec![
            instruction(1, "parameter", f32(250), &[]),
            at_line(instruction(2, "exponential", f32(1000), &[1]), "m.a/aten.exp.default", 1),
            at_line(instruction(3, "negate", f32(2000), &[2]), "m.b/aten.neg.default", 2),
            at_line(instruction(4, "tanh", f32(250), &[3]), "m.c/aten.tanh.default", 3),
            at_line(instruction(5, "add", f32(500), &[4]), "m/aten.add.Tensor", 4),
        ];
        let argument =
            BufferAllocationProto { is_entry_computation_parameter: true, ..allocation(0, 1024, &[(10, 0, 1024)]) };
        let output = BufferAllocationProto { maybe_live_out: true, ..allocation(1, 2048, &[(14, 0, 2048)]) };
        let elsewhere = BufferAllocationProto { color: VMEM, ..allocation(3, 999, &[]) };
        let assignment = BufferAssignmentProto {
            logical_buffers: vec![
                buffer(10, 1024, 1),
                buffer(11, 4096, 2),
                buffer(12, 8192, 3),
                buffer(13, 1024, 4),
                buffer(14, 2048, 5),
                buffer(15, 4096, 77),
            ],
            buffer_allocations: vec![argument, output, heap, elsewhere],
            heap_simulator_traces: vec![HeapSimulatorTrace {
                events,
                whole_module_simulation: true,
                buffer_allocation_index: 2,
            }],
        };
        HloProto { hlo_module: Some(module(vec![computation(1, instructions)])), buffer_assignment: Some(assignment) }
    }

    fn read(dump: &HloProto, stats: Option<Stats>) -> Memory {
        let arguments = [Argument { name: "x".to_owned(), source: Source::default() }];
        let memory =
            crate::tests::analyse_memory(dump, &Input { arguments: &arguments, stats, ..crate::tests::input() });
        let held: u64 = memory.holders.iter().map(|it| it.bytes).sum();
        assert_eq!(held + memory.unattributed, memory.peak);
        memory
    }

    fn heap() -> BufferAllocationProto {
        allocation(2, 16384, &[(11, 0, 4096), (12, 4096, 8192), (13, 0, 1024)])
    }

    fn events() -> Vec<HeapEvent> {
        vec![
            event(ALLOCATE, 11, "exponential.2", 0),
            event(ALLOCATE, 12, "negate.3", 0),
            event(FREE, 11, "exponential.2", 0),
            event(ALLOCATE, 13, "tanh.4", 0),
            event(FREE, 12, "negate.3", 0),
            event(FREE, 13, "tanh.4", 0),
        ]
    }

    #[test]
    fn the_peak_is_held_by_the_lines_whose_values_live_then() {
        let memory = read(&dump(events(), heap()), None);
        let held: Vec<_> = memory
            .holders
            .iter()
            .map(|it| (it.kind.as_str(), it.source.line, it.bytes, it.unpadded, it.values.join(" ")))
            .collect();
        let expected = [
            ("temporary", 2, 8192, 8000, "negate.3".to_owned()),
            ("temporary", 1, 4096, 4000, "exponential.2".to_owned()),
            ("output", 4, 2048, 2000, "add.5".to_owned()),
            ("argument", 0, 1024, 1000, "x".to_owned()),
        ];
        assert_eq!(held, expected);
        assert_eq!((memory.peak, memory.unattributed), (1024 + 2048 + 16384, 4096));
        assert_eq!((memory.vmem_peak, memory.peak_step), (999, 2));
        assert_eq!(memory.holders[0].source.module, "m.b");
        assert_eq!(memory.holders[0].source.op, "aten.neg.default");
        assert_eq!(compiler_peak(&dump(events(), heap())), 1024 + 2048 + 999 + 12288);
    }

    #[test]
    fn the_timeline_follows_the_schedule() {
        let memory = read(&dump(events(), heap()), None);
        let moments: Vec<_> = memory.timeline.iter().map(|it| (it.step, it.instruction.as_str(), it.bytes)).collect();
        let expected = [
            (1, "exponential.2", 1024 + 4096),
            (2, "negate.3", 1024 + 4096 + 8192),
            (3, "tanh.4", 1024 + 8192 + 1024),
            (4, "add.5", 1024 + 1024 + 2048),
        ];
        assert_eq!(moments, expected);
    }

    #[test]
    fn shared_memory_goes_with_its_last_user() {
        let shared = vec![
            event(ALLOCATE, 11, "exponential.2", 0),
            event(SHARE, 15, "negate.3", 11),
            event(FREE, 11, "exponential.2", 0),
            event(ALLOCATE, 12, "negate.3", 0),
            event(FREE, 15, "negate.3", 0),
            event(FREE, 12, "negate.3", 0),
        ];
        let heap = allocation(2, 16384, &[(11, 0, 4096), (12, 4096, 8192), (15, 0, 4096)]);
        let memory = read(&dump(shared, heap), None);
        assert_eq!(memory.unattributed, 16384 - 4096 - 8192);
    }

    #[test]
    fn values_without_events_are_always_there_with_their_padding() {
        let heap = allocation(2, 12288 + 512, &[(12, 0, 8192), (13, 8192, 512), (11, 12288, 512)]);
        let only = vec![event(ALLOCATE, 12, "negate.3", 0), event(FREE, 12, "negate.3", 0)];
        let memory = read(&dump(only, heap), Some(Stats { temporaries: 16384, ..Stats::default() }));
        assert_eq!((memory.temporaries, memory.unattributed), (16384, 0));
        let held = |line: u32| memory.holders.iter().find(|it| it.source.line == line).map(|it| it.bytes);
        assert_eq!((held(3), held(1)), (Some(4096), Some(4096)), "each fills the 4096 bytes it was given");
    }

    #[test]
    fn donated_arguments_count_once() {
        let mut dump = dump(events(), heap());
        let assignment = dump.buffer_assignment.as_mut().expect("an assignment");
        assignment.buffer_allocations[0].maybe_live_out = true;
        let memory = read(&dump, None);
        assert_eq!((memory.arguments, memory.outputs, memory.aliased), (1024, 3072, 1024));
        assert_eq!(memory.peak, 1024 + 2048 + 16384);
    }

    #[test]
    fn nonsense_is_survived() {
        let wild = vec![
            event(FREE, 99, "nowhere", 0),
            event(SHARE, 99, "nowhere", 98),
            event(77, 11, "nowhere", -5),
            event(ALLOCATE, 11, "nowhere", 0),
            event(ALLOCATE, 11, "nowhere", 0),
        ];
        let mut dump = dump(wild, allocation(2, -7, &[(99, -1, i64::MAX), (11, i64::MAX, i64::MIN)]));
        let assignment = dump.buffer_assignment.as_mut().expect("an assignment");
        assignment.logical_buffers[1].size = i64::MAX;
        assignment.logical_buffers[2].defined_at = None;
        assignment.buffer_allocations[0].parameter_number = -1;
        read(&dump, Some(Stats { outputs: 1, aliased: u64::MAX, arguments: u64::MAX, ..Stats::default() }));
        dump.hlo_module = None;
        crate::analyse(&dump, &crate::tests::input());
    }
}
