//! Which line of Python each HLO instruction comes from.
//!
//! An instruction that carries metadata speaks for itself, and a fusion without any for its root, else for the last of
//! its instructions that has some. What the compiler made on its own account (copies, prefetches, index arithmetic) has
//! none: it takes, in this order,
//!
//! 1. that of its operand, if it only moves or renames that operand's value;
//! 2. that of the first instruction in the schedule which uses it, so that a prefetched weight belongs to the line
//!    that multiplies by it;
//! 3. that of its first operand which has one;
//! 4. that of the instruction which calls its computation.

use std::collections::HashMap;

use hlo::proto::{HloInstructionProto, OpMetadata, StackFrameIndexProto};

use crate::Source;
use crate::index::Index;

/// The sources of a module's instructions.
pub(crate) struct Sources {
    table: Vec<Source>,
    of: Vec<Vec<u32>>,
}

/// The entry of [`Sources::table`] that says nothing.
const UNKNOWN: u32 = 0;

impl Sources {
    /// Reads them all, in time linear in the module.
    pub(crate) fn new(index: &Index<'_>) -> Sources {
        let mut sources = own(index);
        sources.fusions_take_from_within(index);
        for computation in 0..index.computations.len() {
            sources.moves_take_from_operand(index, computation);
            sources.values_take_from_first_user(index, computation);
            sources.rest_takes_from_operands(index, computation);
        }
        sources.bodies_take_from_caller(index);
        sources
    }

    /// Where an instruction comes from; empty if nobody knows.
    pub(crate) fn of(&self, index: &Index<'_>, instruction: i64) -> &Source {
        &self.table[self.number(index, instruction) as usize]
    }

    fn number(&self, index: &Index<'_>, instruction: i64) -> u32 {
        index.place(instruction).map_or(UNKNOWN, |place| self.of[place.computation][place.step])
    }

    fn fusions_take_from_within(&mut self, index: &Index<'_>) {
        for (computation, found) in index.computations.iter().enumerate() {
            for (step, instruction) in found.instructions.iter().enumerate() {
                if self.of[computation][step] == UNKNOWN {
                    let within = index.called(instruction).map(|called| self.speaker(index, called));
                    self.of[computation][step] = within.into_iter().find(|&it| it != UNKNOWN).unwrap_or(UNKNOWN);
                }
            }
        }
    }

    /// The source of a computation's root, else of its last instruction that has one.
    fn speaker(&self, index: &Index<'_>, computation: usize) -> u32 {
        match index.root(computation).map(|root| self.number(index, root.id)) {
            Some(root) if root != UNKNOWN => root,
            _ => self.of[computation].iter().rev().find(|&&it| it != UNKNOWN).copied().unwrap_or(UNKNOWN),
        }
    }

    fn moves_take_from_operand(&mut self, index: &Index<'_>, computation: usize) {
        for (step, instruction) in index.computations[computation].instructions.iter().enumerate() {
            if self.of[computation][step] == UNKNOWN && only_moves(instruction) {
                let operand = instruction.operand_ids.first().map(|&id| self.number(index, id));
                self.of[computation][step] = operand.unwrap_or(UNKNOWN);
            }
        }
    }

    /// Backwards, so that a chain of instructions without source takes one from its far end, and the first user wins.
    fn values_take_from_first_user(&mut self, index: &Index<'_>, computation: usize) {
        let mut offered: HashMap<i64, u32> = HashMap::new();
        for (step, instruction) in index.computations[computation].instructions.iter().enumerate().rev() {
            let source = &mut self.of[computation][step];
            if *source == UNKNOWN {
                *source = offered.get(&instruction.id).copied().unwrap_or(UNKNOWN);
            }
            if *source != UNKNOWN {
                offered.extend(instruction.operand_ids.iter().map(|&operand| (operand, *source)));
            }
        }
    }

    fn rest_takes_from_operands(&mut self, index: &Index<'_>, computation: usize) {
        for (step, instruction) in index.computations[computation].instructions.iter().enumerate() {
            if self.of[computation][step] == UNKNOWN {
                let mut operands = instruction.operand_ids.iter().map(|&id| self.number(index, id));
                self.of[computation][step] = operands.find(|&it| it != UNKNOWN).unwrap_or(UNKNOWN);
            }
        }
    }

    /// Callers come after what they call, so that going backwards meets them first.
    fn bodies_take_from_caller(&mut self, index: &Index<'_>) {
        let callers = index.callers();
        for computation in (0..index.computations.len()).rev() {
            let Some(caller) = callers[computation] else { continue };
            let source = self.of[caller.computation][caller.step];
            self.of[computation].iter_mut().filter(|it| **it == UNKNOWN).for_each(|it| *it = source);
        }
    }
}

/// Whether an instruction's result is its first operand's value, elsewhere or under another shape.
fn only_moves(instruction: &HloInstructionProto) -> bool {
    const MOVES: [&str; 11] = [
        "bitcast",
        "convert",
        "copy",
        "copy-done",
        "copy-start",
        "async-start",
        "async-update",
        "async-done",
        "get-tuple-element",
        "reshape",
        "transpose",
    ];
    MOVES.contains(&instruction.opcode.as_str())
}

/// What the metadata says, and nothing else.
fn own(index: &Index<'_>) -> Sources {
    let mut table = vec![Source::default()];
    let mut numbers: HashMap<Source, u32> = HashMap::from([(Source::default(), UNKNOWN)]);
    let frames = index.module.stack_frame_index.as_ref();
    let lines = lines(index, frames);
    let mut number = |instruction: &HloInstructionProto| {
        let Some(metadata) = &instruction.metadata else { return UNKNOWN };
        let mut source = read(metadata, frames);
        if source.line == 0 {
            if !is_op(&source.op) {
                return UNKNOWN;
            }
            if let Some((file, line)) = lines.get(&source) {
                (source.file, source.line) = (file.clone(), *line);
            }
        }
        *numbers.entry(source).or_insert_with_key(|source| {
            table.push(source.clone());
            u32::try_from(table.len() - 1).unwrap_or(UNKNOWN)
        })
    };
    let computations = index.computations.iter();
    let of = computations.map(|it| it.instructions.iter().map(|it| number(it)).collect()).collect();
    Sources { table, of }
}

/// The file and the line of the ops that have one, and no other, by the source without it. What a compiler makes of an op keeps its
/// name, but not always its line.
fn lines(index: &Index<'_>, frames: Option<&StackFrameIndexProto>) -> HashMap<Source, (String, u32)> {
    let mut lines: HashMap<Source, Option<(String, u32)>> = HashMap::new();
    let instructions = index.computations.iter().flat_map(|it| it.instructions.iter());
    for metadata in instructions.filter_map(|it| it.metadata.as_ref()) {
        let source = read(metadata, frames);
        if source.line > 0 && is_op(&source.op) {
            let own = Some((source.file.clone(), source.line));
            lines
                .entry(Source { file: String::new(), line: 0, ..source })
                .and_modify(|known| *known = known.take().filter(|known| Some(known) == own.as_ref()))
                .or_insert(own);
        }
    }
    lines.into_iter().filter_map(|(name, line)| Some((name, line?))).collect()
}

/// Whether a program has an op of this name: the compiler's own names have no dot.
fn is_op(name: &str) -> bool {
    name.contains('.')
}

/// `module.path/aten.op.overload`, between them the fusion region if there is one, as in `3#softmax`; and the file and line or the innermost stack frame.
fn read(metadata: &OpMetadata, frames: Option<&StackFrameIndexProto>) -> Source {
    // What XLA merges it names after all, joined: the first speaks for them.
    let name = metadata.op_name.split(';').next().unwrap_or_default();
    // The compiler says behind the name what it makes of the op.
    let says_more = |(rest, own): &(&str, &str)| !is_op(own) && is_op(rest.rsplit('/').next().unwrap_or_default());
    let name = name.rsplit_once('/').filter(says_more).map_or(name, |(rest, _)| rest);
    let (module, op) = name.rsplit_once('/').unwrap_or(("", name));
    let (outer, last) = module.rsplit_once('/').unwrap_or(("", module));
    let module = if last.contains('#') { outer } else { module };
    let (file, line) = if metadata.source_file.is_empty() {
        frames.and_then(|frames| frame(frames, metadata.stack_frame_id)).unwrap_or(("", 0))
    } else {
        (metadata.source_file.as_str(), metadata.source_line)
    };
    Source {
        file: file.to_owned(),
        line: u32::try_from(line).unwrap_or(0),
        module: module.to_owned(),
        op: op.to_owned(),
    }
}

fn frame(frames: &StackFrameIndexProto, id: i32) -> Option<(&str, i32)> {
    let frame = frames.stack_frames.get(one_based(id)?)?;
    let location = frames.file_locations.get(one_based(frame.file_location_id)?)?;
    Some((frames.file_names.get(one_based(location.file_name_id)?)?, location.line))
}

/// The index behind a reference that counts from one; zero means none.
fn one_based(reference: i32) -> Option<usize> {
    usize::try_from(reference).ok()?.checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{array, at_line, computation, instruction, module};
    use hlo::proto::{FileLocation, StackFrame};

    #[test]
    fn what_has_no_source_takes_one_by_rule() {
        let plain = |id: i64, opcode: &str, operands: &[i64]| instruction(id, opcode, array("f32", &[4]), operands);
        let called = |id: i64, opcode: &str, operands: &[i64], computation: i64| HloInstructionProto {
            called_computation_ids: vec![computation],
            ..plain(id, opcode, operands)
        };
        let fused = vec![plain(11, "parameter", &[]), at_line(plain(12, "tanh", &[11]), "m/aten.tanh.default", 1)];
        let applied = vec![plain(21, "parameter", &[])];
        let entry = vec![
            plain(1, "parameter", &[]),
            plain(2, "copy-start", &[1]),
            plain(3, "copy-done", &[2]),
            called(4, "fusion", &[], 10),
            plain(5, "copy", &[4]),
            at_line(plain(6, "add", &[3, 5]), "m.a/aten.add.Tensor", 2),
            at_line(called(7, "reduce", &[6, 3], 20), "m.b/aten.sum.default", 3),
            plain(8, "pad", &[7]),
            plain(9, "iota", &[]),
        ];
        let module = module(vec![computation(10, fused), computation(20, applied), computation(1, entry)]);
        let index = Index::new(&module);
        let sources = Sources::new(&index);
        let line = |id: i64| sources.of(&index, id).line;
        assert_eq!(line(4), 1, "a fusion speaks with its root");
        assert_eq!(line(5), 1, "a copy is its operand's");
        assert_eq!((line(1), line(2), line(3)), (2, 2, 2), "a prefetch is its first user's, not its second's");
        assert_eq!(line(8), 3, "else an operand's");
        assert_eq!(line(21), 3, "else the caller's");
        assert_eq!(*sources.of(&index, 9), Source::default(), "else nobody's");
        assert_eq!(*sources.of(&index, 77), Source::default());
        assert_eq!(sources.of(&index, 6).module, "m.a");
        assert_eq!(sources.of(&index, 6).op, "aten.add.Tensor");
    }

    #[test]
    fn a_name_without_a_line_has_that_of_others_of_its_name() {
        let plain = |id: i64, operands: &[i64]| instruction(id, "add", array("f32", &[4]), operands);
        let named = |mut instruction: HloInstructionProto, name: &str| {
            instruction.metadata = Some(OpMetadata { op_name: name.to_owned(), ..OpMetadata::default() });
            instruction
        };
        let entry = vec![
            at_line(plain(1, &[]), "m/aten.mm.default", 5),
            named(plain(2, &[1]), "m/3#matmul/aten.mm.default/its-own"),
            at_line(plain(3, &[1]), "m/aten.add.Tensor", 6),
            at_line(plain(4, &[1]), "m/aten.add.Tensor", 7),
            named(plain(5, &[1]), "m/aten.add.Tensor"),
            named(plain(6, &[1]), "the-compilers-own"),
        ];
        let module = module(vec![computation(1, entry)]);
        let index = Index::new(&module);
        let sources = Sources::new(&index);
        let line = |id: i64| sources.of(&index, id).line;
        assert_eq!(line(2), 5);
        assert_eq!(line(5), 0, "two lines have the name");
        assert_eq!(line(6), 5, "as what has no name");
    }

    #[test]
    fn a_region_is_no_module() {
        let read = |op_name: &str| {
            let metadata = OpMetadata { op_name: op_name.to_owned(), ..OpMetadata::default() };
            let source = read(&metadata, None);
            (source.module, source.op)
        };
        let parts = |module: &str, op: &str| (module.to_owned(), op.to_owned());
        assert_eq!(read("m.a/3#softmax/aten.exp.default"), parts("m.a", "aten.exp.default"));
        assert_eq!(read("3#softmax/aten.exp.default"), parts("", "aten.exp.default"));
        assert_eq!(read("m.a/aten.exp.default"), parts("m.a", "aten.exp.default"));
        assert_eq!(read("aten.exp.default"), parts("", "aten.exp.default"));
        let merged = "m.a/16#matmul/aten.mul.Scalar;m.b/15#bias/aten.bmm.default";
        assert_eq!(read(merged), parts("m.a", "aten.mul.Scalar"));
        assert_eq!(read("71#scale/aten.add_.Tensor;aten.add_.Tensor"), parts("", "aten.add_.Tensor"));
    }

    #[test]
    fn stack_frames_count_from_one_and_may_dangle() {
        let frames = StackFrameIndexProto {
            file_names: vec!["model.py".to_owned()],
            file_locations: vec![FileLocation { file_name_id: 1, line: 7 }, FileLocation { file_name_id: -3, line: 8 }],
            stack_frames: vec![StackFrame { file_location_id: 1 }, StackFrame { file_location_id: 2 }],
        };
        let at = |stack_frame_id: i32| {
            let source = read(&OpMetadata { stack_frame_id, ..OpMetadata::default() }, Some(&frames));
            (source.file, source.line)
        };
        assert_eq!(at(1), ("model.py".to_owned(), 7));
        for nowhere in [0, 2, 3, -1] {
            assert_eq!(at(nowhere), (String::new(), 0));
        }
    }
}
