//! Who holds the memory at the worst moment, read from the compiler's own buffer assignment.
//!
//! Arguments and results have their memory for as long as the program runs. Temporaries share a heap, whose trace is
//! replayed to the moment at which most of it is in use. Values in the heap that the trace does not mention (the index
//! tables of tuples) are there from beginning to end.

mod heap;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};

use hlo::proto::{
    BufferAllocationProto, BufferAssignmentProto, HeapEvent, HeapSimulatorTrace, HloProto, LogicalBufferProto,
};

use crate::index::Index;
use crate::shape::{self, HBM, VMEM};
use crate::source::Sources;
use crate::timeline::{Timeline, Trace};
use crate::{Holder, Input, Memory, Source};
use heap::{Replay, changes, most_covered};

/// Heaps are cut at multiples of a power of two; a larger one than this is taken for an accident of few offsets.
const LARGEST_ALIGNMENT: u64 = 1 << 16;

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
    let unattributed = peak - held;
    let assigned = parts.arguments.saturating_add(parts.outputs - parts.aliased).saturating_add(heap.assigned);
    let reserved = peak.saturating_sub(assigned).min(unattributed);
    let timeline = Timeline::new(index, parts.arguments.saturating_add(heap.always));
    let (timeline, peak_step) = timeline.replay(&heap.traces, &reader.output_steps(&parts));
    Some(Memory {
        peak,
        arguments,
        outputs,
        aliased,
        temporaries: heap.bytes,
        code: stats.code.max(parts.constants),
        holders: merge(holders),
        unattributed,
        reserved,
        compiler_peak: in_use(assignment, |allocation| allocation.color == HBM && !allocation.is_constant),
        timeline,
        peak_step,
        vmem_peak: reader.most_in_use(VMEM),
    })
}

/// The peak as libtpu's own statistics have it, which is not that of any one memory: what lies outside the heaps, in
/// all memories, and the greatest of the heaps' peaks. For checking that a dump is read as its compiler reads it.
pub fn compiler_peak(dump: &HloProto) -> u64 {
    dump.buffer_assignment.as_ref().map_or(0, |assignment| in_use(assignment, |_| true))
}

/// As [`compiler_peak`], of those allocations that are `counted`.
fn in_use(assignment: &BufferAssignmentProto, counted: impl Fn(&BufferAllocationProto) -> bool) -> u64 {
    let counted: HashMap<i64, &BufferAllocationProto> = assignment
        .buffer_allocations
        .iter()
        .filter(|it| !it.is_thread_local && counted(it))
        .map(|it| (it.index, it))
        .collect();
    let traces = assignment.heap_simulator_traces.iter().filter(|it| counted.contains_key(&it.buffer_allocation_index));
    let traced: HashSet<i64> = traces.clone().map(|it| it.buffer_allocation_index).collect();
    let outside = counted.values().filter(|it| !traced.contains(&it.index)).copied();
    let sizes = sizes(assignment);
    let heaps = traces.map(|trace| Replay::of(trace, &sizes).most);
    size_of(outside).saturating_add(heaps.max().unwrap_or(0))
}

/// Allocations in HBM, by what they are for.
#[derive(Default)]
struct Parts<'a> {
    arguments: u64,
    outputs: u64,
    aliased: u64,
    constants: u64,
    argument: Vec<&'a BufferAllocationProto>,
    output: Vec<&'a BufferAllocationProto>,
    heap: Vec<&'a BufferAllocationProto>,
}

impl<'a> Parts<'a> {
    /// Constants come with the program's code. The scratch values of called computations, which live on the call's stack, are
    /// left out.
    fn of(assignment: &'a BufferAssignmentProto) -> Parts<'a> {
        let mut parts = Parts::default();
        let in_hbm = assignment.buffer_allocations.iter().filter(|it| it.color == HBM && !it.is_thread_local);
        for allocation in in_hbm {
            let size = bytes(allocation.size);
            if allocation.is_constant {
                parts.constants = parts.constants.saturating_add(size);
                continue;
            }
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
    /// Of these, what the buffer assignment cuts up; the compiler reserves the rest.
    assigned: u64,
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
        let assigned = size_of(parts.heap.iter().copied());
        let bytes = reserved.max(assigned).max(held);
        // Padding up to the next cut belongs to a value as long as the heap has room for it.
        let mut room = bytes - held;
        let mut padded = |size: u64, cut: u64| {
            let padding = (cut - size).min(room);
            room -= padding;
            size + padding
        };
        let holders = live.iter().map(|&(id, size, cut)| self.temporary(id, padded(size, cut))).collect();
        Heap { bytes, assigned, always: always.min(bytes), holders, traces }
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

    /// The most that values cover of one memory's allocations.
    fn most_in_use(&self, color: i64) -> u64 {
        let traces = traces_of(self.assignment);
        let here = self.assignment.buffer_allocations.iter().filter(|it| it.color == color && !it.is_thread_local);
        let most = here.map(|allocation| match traces.get(&allocation.index) {
            Some(traces) => traces.iter().map(|it| most_covered(allocation, it)).fold(0, u64::saturating_add),
            None => bytes(allocation.size),
        });
        most.fold(0, u64::saturating_add)
    }
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
