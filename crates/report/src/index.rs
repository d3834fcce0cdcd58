//! A module's computations and instructions by their ids, in the order in which they run.

use std::collections::HashMap;

use hlo::proto::{HloComputationProto, HloInstructionProto, HloModuleProto};

/// Where an instruction is: its computation's position in the module, its own in the order that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) computation: usize,
    pub(crate) step: usize,
}

/// A computation whose instructions are in the order of the schedule.
pub(crate) struct Computation<'a> {
    pub(crate) proto: &'a HloComputationProto,
    pub(crate) instructions: Vec<&'a HloInstructionProto>,
}

/// A module, indexed once. Ids that lead nowhere are met by `None`.
pub(crate) struct Index<'a> {
    pub(crate) module: &'a HloModuleProto,
    pub(crate) computations: Vec<Computation<'a>>,
    places: HashMap<i64, Place>,
    by_id: HashMap<i64, usize>,
}

impl<'a> Index<'a> {
    pub(crate) fn new(module: &'a HloModuleProto) -> Index<'a> {
        let computations: Vec<_> = module.computations.iter().map(|proto| in_order(module, proto)).collect();
        let mut places = HashMap::new();
        for (computation, found) in computations.iter().enumerate() {
            for (step, instruction) in found.instructions.iter().enumerate() {
                places.insert(instruction.id, Place { computation, step });
            }
        }
        let by_id = module.computations.iter().enumerate().map(|(index, proto)| (proto.id, index)).collect();
        Index { module, computations, places, by_id }
    }

    /// What runs first.
    pub(crate) fn entry(&self) -> Option<usize> {
        self.computation(self.module.entry_computation_id)
    }

    /// The computation with this id, by its position in the module.
    pub(crate) fn computation(&self, id: i64) -> Option<usize> {
        self.by_id.get(&id).copied()
    }

    pub(crate) fn place(&self, instruction: i64) -> Option<Place> {
        self.places.get(&instruction).copied()
    }

    pub(crate) fn instruction(&self, id: i64) -> Option<&'a HloInstructionProto> {
        self.place(id).and_then(|place| self.at(place))
    }

    pub(crate) fn at(&self, place: Place) -> Option<&'a HloInstructionProto> {
        self.computations.get(place.computation)?.instructions.get(place.step).copied()
    }

    /// The operands that exist.
    pub(crate) fn operands(
        &self,
        instruction: &'a HloInstructionProto,
    ) -> impl Iterator<Item = &'a HloInstructionProto> + use<'a, '_> {
        instruction.operand_ids.iter().filter_map(|&id| self.instruction(id))
    }

    /// The computations that an instruction calls, by position.
    pub(crate) fn called(&self, instruction: &'a HloInstructionProto) -> impl Iterator<Item = usize> + use<'a, '_> {
        instruction.called_computation_ids.iter().filter_map(|&id| self.computation(id))
    }

    /// What a computation returns: its root, or else its last instruction.
    pub(crate) fn root(&self, computation: usize) -> Option<&'a HloInstructionProto> {
        let computation = self.computations.get(computation)?;
        let root = self.place(computation.proto.root_id).and_then(|place| self.at(place));
        root.or_else(|| computation.instructions.last().copied())
    }

    /// For each computation, which instruction calls it: the first one found.
    pub(crate) fn callers(&self) -> Vec<Option<Place>> {
        let mut callers = vec![None; self.computations.len()];
        for (computation, found) in self.computations.iter().enumerate() {
            for (step, instruction) in found.instructions.iter().enumerate() {
                for called in self.called(instruction) {
                    callers[called].get_or_insert(Place { computation, step });
                }
            }
        }
        callers
    }

    /// For each computation, the step of the entry computation in which it runs; `None` if it does not.
    pub(crate) fn entry_steps(&self) -> Vec<Option<usize>> {
        let mut steps = vec![None; self.computations.len()];
        let Some(entry) = self.entry() else { return steps };
        let mut pending: Vec<(usize, usize)> = Vec::new();
        for (step, instruction) in self.computations[entry].instructions.iter().enumerate() {
            pending.extend(self.called(instruction).map(|called| (called, step)));
            while let Some((computation, step)) = pending.pop() {
                if computation == entry || steps[computation].is_some() {
                    continue;
                }
                steps[computation] = Some(step);
                let inner = self.computations[computation].instructions.iter();
                pending.extend(inner.flat_map(|instruction| self.called(instruction)).map(|called| (called, step)));
            }
        }
        steps
    }
}

/// The instructions of a computation as scheduled; those that the schedule leaves out come last.
fn in_order<'a>(module: &'a HloModuleProto, proto: &'a HloComputationProto) -> Computation<'a> {
    let sequence = module.schedule.as_ref().and_then(|schedule| schedule.sequences.get(&proto.id));
    let Some(sequence) = sequence else {
        return Computation { proto, instructions: proto.instructions.iter().collect() };
    };
    let mut left: HashMap<i64, &HloInstructionProto> = proto.instructions.iter().map(|it| (it.id, it)).collect();
    let mut instructions: Vec<_> = sequence.instruction_ids.iter().filter_map(|id| left.remove(id)).collect();
    instructions.extend(proto.instructions.iter().filter(|it| left.remove(&it.id).is_some()));
    Computation { proto, instructions }
}
