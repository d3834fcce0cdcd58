//! Small programs and reports, built by hand.

use hlo::primitive;
use hlo::proto::{
    AssignedBuffer, BufferAllocationProto, BufferLocation, HeapEvent, HloComputationProto, HloInstructionProto,
    HloModuleProto, LayoutProto, LogicalBufferProto, OpMetadata, ShapeProto, TileProto,
};

use crate::{
    Collective, Cost, Finding, Holder, LineCost, Memory, Padding, Program, Region, Report, SCHEMA, Severity, Slices,
    Source, Target, Training, Verdict,
};

/// An array without layout.
pub(crate) fn array(ty: &str, dimensions: &[i64]) -> ShapeProto {
    let number = (0..64).find(|&number| primitive::name(number) == Some(ty)).expect("a type");
    ShapeProto { element_type: number, dimensions: dimensions.to_vec(), ..ShapeProto::default() }
}

/// An array in row-major tiles in one memory.
pub(crate) fn laid_out(ty: &str, dimensions: &[i64], tiles: &[&[i64]], space: i64) -> ShapeProto {
    let rank = i64::try_from(dimensions.len()).expect("a rank");
    let layout = LayoutProto {
        minor_to_major: (0..rank).rev().collect(),
        tiles: tiles.iter().map(|tile| TileProto { dimensions: tile.to_vec() }).collect(),
        memory_space: space,
    };
    ShapeProto { layout: Some(layout), ..array(ty, dimensions) }
}

/// A tuple of shapes.
pub(crate) fn tuple(shapes: &[ShapeProto]) -> ShapeProto {
    ShapeProto { element_type: primitive::TUPLE, tuple_shapes: shapes.to_vec(), ..ShapeProto::default() }
}

/// An instruction named after its opcode and id.
pub(crate) fn instruction(id: i64, opcode: &str, shape: ShapeProto, operands: &[i64]) -> HloInstructionProto {
    HloInstructionProto {
        id,
        name: format!("{opcode}.{id}"),
        opcode: opcode.to_owned(),
        shape: Some(shape),
        operand_ids: operands.to_vec(),
        ..HloInstructionProto::default()
    }
}

/// The instruction, from `module/op` at a line of `model.py`.
pub(crate) fn at_line(mut instruction: HloInstructionProto, op_name: &str, line: i32) -> HloInstructionProto {
    let (op_name, source_file) = (op_name.to_owned(), "model.py".to_owned());
    instruction.metadata = Some(OpMetadata { op_name, source_file, source_line: line, ..OpMetadata::default() });
    instruction
}

/// A computation whose root is its last instruction.
pub(crate) fn computation(id: i64, instructions: Vec<HloInstructionProto>) -> HloComputationProto {
    let root_id = instructions.last().map_or(0, |it| it.id);
    HloComputationProto {
        id,
        name: format!("computation.{id}"),
        instructions,
        root_id,
        ..HloComputationProto::default()
    }
}

/// A module whose entry is its last computation.
pub(crate) fn module(computations: Vec<HloComputationProto>) -> HloModuleProto {
    let entry_computation_id = computations.last().map_or(0, |it| it.id);
    HloModuleProto { name: "test".to_owned(), computations, entry_computation_id, ..HloModuleProto::default() }
}

/// A value of an instruction, in HBM.
pub(crate) fn buffer(id: i64, size: i64, instruction_id: i64) -> LogicalBufferProto {
    let defined_at = Some(BufferLocation { shape_index: Vec::new(), instruction_id });
    LogicalBufferProto { id, size, defined_at, color: 0 }
}

/// Memory in HBM, and for each value in it its offset and size.
pub(crate) fn allocation(index: i64, size: i64, assigned: &[(i64, i64, i64)]) -> BufferAllocationProto {
    let assigned = assigned.iter();
    let assigned =
        assigned.map(|&(logical_buffer_id, offset, size)| AssignedBuffer { logical_buffer_id, offset, size }).collect();
    BufferAllocationProto { index, size, assigned, ..BufferAllocationProto::default() }
}

/// An event of a heap's trace.
pub(crate) fn event(kind: i32, buffer_id: i64, instruction: &str, share_with_canonical_id: i64) -> HeapEvent {
    let instruction_name = instruction.to_owned();
    HeapEvent { kind, buffer_id, instruction_name, share_with_canonical_id, ..HeapEvent::default() }
}

fn source(line: u32, module: &str) -> Source {
    let (file, op) = ("transformers/models/llama/modeling_llama.py".to_owned(), "aten.mm.default".to_owned());
    Source { file, line, module: module.to_owned(), op }
}

fn holder(kind: &str, bytes: u64, unpadded: u64, value: &str, source: Source) -> Holder {
    Holder { bytes, unpadded, kind: kind.to_owned(), values: vec![value.to_owned()], source }
}

fn line(source: Source, seconds: f64, share: f64) -> LineCost {
    LineCost { source, flops: 2e12, hbm_bytes: 1e9, transcendentals: 0.0, seconds, share }
}

/// The report on a training step.
pub(crate) fn report() -> Report {
    let mib = 1u64 << 20;
    let up = |layer: usize| source(175, &format!("model.layers.{layer}.mlp.up_proj"));
    let memory = Memory {
        peak: 1000 * mib,
        arguments: 600 * mib,
        outputs: 200 * mib,
        aliased: 100 * mib,
        temporaries: 300 * mib,
        code: 3 * mib,
        holders: vec![
            holder("argument", 600 * mib, 600 * mib, "model.layers.0.mlp.up_proj.weight", Source::default()),
            holder("temporary", 150 * mib, 75 * mib, "fusion.1", up(0)),
            holder("temporary", 130 * mib, 65 * mib, "fusion.2", up(1)),
            holder("output", 100 * mib, 100 * mib, "copy.7", Source::default()),
        ],
        unattributed: 20 * mib,
        reserved: mib,
        compiler_peak: 970 * mib,
        timeline: Vec::new(),
        peak_step: 3,
        vmem_peak: 64 * mib,
    };
    let region = Region {
        name: "convolution_add_fusion.1".to_owned(),
        kind: "kOutput".to_owned(),
        source: up(0),
        runs: 12.0,
        flops: 4e12,
        hbm_bytes: 2e9,
        transcendentals: 0.0,
        seconds: 0.03,
        bound: "matrix unit".to_owned(),
        estimated_cycles: None,
        operands: Vec::new(),
    };
    let padding = |layer: usize| Padding {
        source: up(layer),
        shape: [1, 1001, 768, 50257],
        padded: [1, 1008, 768, 50304],
        waste: 0.0079,
        advice: "rows 1001 -> 1008, columns 50257 -> 50304".to_owned(),
    };
    let cost = Cost {
        flops: 4e12,
        hbm_bytes: 2e9,
        transcendentals: 5e6,
        seconds: 0.04,
        peak_share: 0.5,
        regions: vec![Region { bound: "bandwidth".to_owned(), seconds: 0.01, runs: 1.0, ..region.clone() }, region],
        lines: vec![line(up(0), 0.03, 0.75), line(up(1), 0.01, 0.25)],
        padding: vec![padding(0), padding(1)],
        collectives: vec![Collective { kind: "all-reduce".to_owned(), count: 24.0, bytes: 3e9 }],
    };
    let finding = Finding {
        severity: Severity::Warning,
        kind: "dtype".to_owned(),
        message: "this value is f64, which a TPU does not have: it is computed in pairs of f32, at a small part of \
                  their speed"
            .to_owned(),
        help: Some("cast it to float32".to_owned()),
        source: source(12, "model"),
    };
    Report {
        schema: SCHEMA,
        program: Program { name: "llama.step".to_owned(), num_ops: 1234, hash: "ab12cd34".to_owned() },
        target: Target {
            name: "v5e:2x2".to_owned(),
            device_kind: "TPU v5 lite".to_owned(),
            num_devices: 4,
            devices_used: 1,
            compiler: "0.0.51".to_owned(),
            peak_flops: 197e12,
            hbm_bandwidth: 819e9,
            hbm_bytes: 16_909_334_528,
            vmem_bytes: 128 * mib,
        },
        verdict: Verdict {
            runs: false,
            summary: "It does not fit.".to_owned(),
            advice: vec!["Take v5e:4x4.".to_owned()],
        },
        findings: vec![finding],
        memory: Some(memory),
        cost: Some(cost),
        slices: None,
        rewrites: None,
        sources: Vec::new(),
    }
}

/// Eight slices that run what [`report`] is about.
pub(crate) fn plan() -> Slices {
    let training = Training { parameters: 3, gradient_bytes: 1 << 30, device_gradient_bytes: 1 << 30, batch: Some(64) };
    Slices::plan(8, &report(), &"v5e:2x2".parse().expect("a slice"), &training).expect("the program runs")
}
