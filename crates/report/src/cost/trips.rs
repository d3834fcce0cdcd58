//! How often a loop runs.

use hlo::primitive;
use hlo::proto::{HloInstructionProto, LiteralProto};

use crate::index::Index;

/// More trips than this are no number that a compiler worked out.
const MOST: f64 = 1e12;

/// The trip count that the compiler has noted or that follows from the loop's condition: its one integer constant, which
/// the counter is compared with, less the counter's first value. 1 if neither is known.
pub(crate) fn trips(index: &Index<'_>, instruction: &HloInstructionProto) -> f64 {
    let known = noted(instruction).or_else(|| derived(index, instruction));
    known.map_or(1.0, |trips| trips as f64).clamp(0.0, MOST)
}

fn noted(instruction: &HloInstructionProto) -> Option<i64> {
    let config: serde_json::Value = serde_json::from_slice(&instruction.backend_config).ok()?;
    let count = config.get("known_trip_count")?.get("n")?;
    count.as_i64().or_else(|| count.as_str()?.parse().ok())
}

fn derived(index: &Index<'_>, instruction: &HloInstructionProto) -> Option<i64> {
    let condition = index.called(instruction).nth(1)?;
    let mut limits = Vec::new();
    let fused = index.computations[condition].instructions.iter().flat_map(|it| index.called(it));
    for computation in std::iter::once(condition).chain(fused) {
        limits.extend(index.computations[computation].instructions.iter().filter_map(|it| integer(it)));
    }
    let [limit] = limits[..] else { return None };
    Some(limit - first_value(index, instruction, condition).unwrap_or(0))
}

/// The first value of the loop's element that its condition reads, if it reads only one.
fn first_value(index: &Index<'_>, instruction: &HloInstructionProto, condition: usize) -> Option<i64> {
    let reads = index.computations[condition].instructions.iter().filter(|it| it.opcode == "get-tuple-element");
    let reads: Vec<i64> = reads.map(|it| it.tuple_index).collect();
    let [element] = reads[..] else { return None };
    let initial = index.operands(instruction).next().filter(|it| it.opcode == "tuple")?;
    let mut value = index.instruction(*initial.operand_ids.get(usize::try_from(element).ok()?)?)?;
    while let ("copy" | "bitcast", Some(&operand)) = (value.opcode.as_str(), value.operand_ids.first()) {
        let operand = index.instruction(operand).filter(|it| it.id != value.id)?;
        if matches!(operand.opcode.as_str(), "copy" | "bitcast") {
            return None;
        }
        value = operand;
    }
    integer(value)
}

/// The value of a constant that is one integer.
fn integer(instruction: &HloInstructionProto) -> Option<i64> {
    let shape = instruction.shape.as_ref().filter(|_| instruction.opcode == "constant")?;
    let is_scalar = shape.dimensions.iter().all(|&extent| extent == 1);
    let literal: &LiteralProto = instruction.literal.as_ref().filter(|_| is_scalar)?;
    match primitive::name(shape.element_type)? {
        "s32" => literal.s32s.first().map(|&it| i64::from(it)),
        "u32" => literal.u32s.first().map(|&it| i64::from(it)),
        "s64" => literal.s64s.first().copied(),
        "u64" => literal.u64s.first().and_then(|&it| i64::try_from(it).ok()),
        _ => None,
    }
}
