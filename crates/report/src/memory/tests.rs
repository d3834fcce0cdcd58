use super::heap::{ALLOCATE, FREE};
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
    let memory = crate::tests::analyse_memory(dump, &Input { arguments: &arguments, stats, ..crate::tests::input() });
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
    assert_eq!(memory.compiler_peak, 1024 + 2048 + 12288, "without the gap in the heap");
    assert_eq!(compiler_peak(&dump(events(), heap())), 1024 + 2048 + 999 + 12288, "in all memories");
}

#[test]
fn gaps_in_the_heap_are_told_from_what_is_reserved_beyond_it() {
    let apart = |stats: Option<Stats>| {
        let memory = read(&dump(events(), heap()), stats);
        (memory.unattributed - memory.reserved, memory.reserved)
    };
    assert_eq!(apart(None), (4096, 0));
    assert_eq!(apart(Some(Stats { temporaries: 20480, ..Stats::default() })), (4096, 4096));
    assert_eq!(apart(Some(Stats { temporaries: 16384, arguments: 1536, ..Stats::default() })), (4096, 512));
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
fn constants_are_with_the_code_where_its_size_is_not_known() {
    let mut dump = dump(events(), heap());
    let assignment = dump.buffer_assignment.as_mut().expect("an assignment");
    let constant = |index: i64| BufferAllocationProto { is_constant: true, ..allocation(index, 300, &[]) };
    assignment.buffer_allocations.extend([constant(4), constant(5)]);
    let known = Stats { code: 4096, ..Stats::default() };
    assert_eq!((read(&dump, None).code, read(&dump, Some(known)).code), (600, 4096));
    assert_eq!(read(&dump, None).peak, 1024 + 2048 + 16384, "they lie beside it");
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

/// The most in vector memory of a program whose second allocation is there, with these values and events.
fn vmem_peak(assigned: &[(i64, i64, i64)], events: Vec<HeapEvent>) -> u64 {
    let mut dump = dump(self::events(), heap());
    let assignment = dump.buffer_assignment.as_mut().expect("an assignment");
    assignment.buffer_allocations[3] = BufferAllocationProto { color: VMEM, ..allocation(3, 4096, assigned) };
    let trace = HeapSimulatorTrace { events, whole_module_simulation: true, buffer_allocation_index: 3 };
    assignment.heap_simulator_traces.push(trace);
    read(&dump, None).vmem_peak
}

#[test]
fn pieces_and_the_whole_that_they_make_share_vector_memory() {
    let assigned = [(20, 0, 1024), (21, 1024, 1024), (22, 0, 2048), (23, 2048, 512)];
    let come_and_go = |numbers: &[(i32, i64)]| {
        numbers.iter().map(|&(kind, buffer)| event(kind, buffer, "slice", 0)).collect::<Vec<_>>()
    };
    let pieces = [(ALLOCATE, 20), (ALLOCATE, 21), (ALLOCATE, 22), (FREE, 20), (FREE, 21), (ALLOCATE, 23), (FREE, 22)];
    assert_eq!(vmem_peak(&assigned, come_and_go(&pieces)), 2048 + 512);
    let apart = [(ALLOCATE, 20), (FREE, 20), (ALLOCATE, 23), (ALLOCATE, 21), (FREE, 99), (ALLOCATE, 98)];
    assert_eq!(vmem_peak(&assigned, come_and_go(&apart)), 1024 + 512);
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
