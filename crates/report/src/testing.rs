//! Small programs, built by hand.

use hlo::primitive;
use hlo::proto::{
    AssignedBuffer, BufferAllocationProto, BufferLocation, HeapEvent, HloComputationProto, HloInstructionProto,
    HloModuleProto, LayoutProto, LogicalBufferProto, OpMetadata, ShapeProto, TileProto,
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
