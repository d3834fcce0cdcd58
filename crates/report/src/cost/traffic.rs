//! Bytes between HBM and the cores.
//!
//! An instruction reads its operands and writes its results, with the padding of their layouts, as far as they lie in
//! HBM. What slices or gathers an operand reads only what it takes of it, and what updates a part of an operand in place
//! writes only that part; both hold within fusions too, if nothing else in the fusion uses the operand.

use std::collections::{HashMap, HashSet};

use hlo::proto::{HloInstructionProto, ShapeProto};

use crate::index::Index;
use crate::shape::{self, HBM};

/// What an instruction reads of each operand and what it writes.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Bytes {
    pub(crate) read: Vec<f64>,
    pub(crate) written: f64,
}

impl Bytes {
    pub(crate) fn total(&self) -> f64 {
        self.read.iter().sum::<f64>() + self.written
    }
}

/// Users of every instruction within its computation, and what is known of fused parameters.
pub(crate) struct Traffic<'a> {
    index: &'a Index<'a>,
    users: HashMap<i64, Vec<&'a HloInstructionProto>>,
    parameters: Vec<HashMap<i64, &'a HloInstructionProto>>,
    taken: HashMap<i64, Option<f64>>,
}

impl<'a> Traffic<'a> {
    pub(crate) fn new(index: &'a Index<'a>) -> Traffic<'a> {
        let mut users: HashMap<i64, Vec<&HloInstructionProto>> = HashMap::new();
        let mut parameters = Vec::new();
        for computation in &index.computations {
            for instruction in &computation.instructions {
                for &operand in &instruction.operand_ids {
                    let users = users.entry(operand).or_default();
                    if users.last().is_none_or(|last| last.id != instruction.id) {
                        users.push(instruction);
                    }
                }
            }
            let found = computation.instructions.iter().filter(|it| it.opcode == "parameter");
            parameters.push(found.map(|it| (it.parameter_number, *it)).collect());
        }
        let mut traffic = Traffic { index, users, parameters, taken: HashMap::new() };
        // Computations come after those that they call, and users after what they use: backwards within each.
        for computation in &index.computations {
            for instruction in computation.instructions.iter().rev() {
                let taken = traffic.taken_by_users(instruction);
                traffic.taken.insert(instruction.id, taken);
            }
        }
        traffic
    }

    /// The parameter of a called computation that an operand becomes.
    pub(crate) fn parameter(&self, caller: &HloInstructionProto, operand: usize) -> Option<&'a HloInstructionProto> {
        let called = self.index.computation(*caller.called_computation_ids.first()?)?;
        self.parameters[called].get(&i64::try_from(operand).ok()?).copied()
    }

    /// The instructions that use a value.
    pub(crate) fn users(&self, instruction: i64) -> &[&'a HloInstructionProto] {
        self.users.get(&instruction).map_or(&[], |it| it)
    }

    /// What one run of an instruction moves.
    pub(crate) fn of(&self, instruction: &HloInstructionProto) -> Bytes {
        if instruction.opcode == "copy-start" {
            return self.copy(instruction);
        }
        if instruction.opcode == "async-start" {
            return self.wrapped(instruction);
        }
        let read = instruction.operand_ids.iter().enumerate().map(|(number, &id)| {
            let Some(operand) = self.index.instruction(id) else { return 0.0 };
            let whole = operand.shape.as_ref().map_or(0.0, in_hbm);
            self.of_operand(instruction, number).map_or(whole, |taken| taken.min(whole))
        });
        Bytes { read: read.collect(), written: self.written(instruction) }
    }

    /// Both ends of a copy between memories: its result is a tuple of destination, source and context.
    fn copy(&self, instruction: &HloInstructionProto) -> Bytes {
        let parts = instruction.shape.as_ref().map_or(&[][..], |shape| &shape.tuple_shapes);
        let end = |number: usize| parts.get(number).map_or(0.0, in_hbm);
        Bytes { read: vec![end(1)], written: end(0) }
    }

    /// What an asynchronous instruction wraps: its result is a tuple of operands, results and contexts.
    fn wrapped(&self, instruction: &HloInstructionProto) -> Bytes {
        let root = self.index.called(instruction).next().and_then(|called| self.index.root(called));
        let Some(root) = root else { return Bytes::default() };
        let mut bytes = self.of(root);
        // The result's layout says where it goes; a wrapper that gets its operands later has no results yet.
        let result = instruction.shape.as_ref().and_then(|shape| shape.tuple_shapes.get(1));
        let result =
            result.filter(|shape| shape.element_type != hlo::primitive::TUPLE || !shape.tuple_shapes.is_empty());
        bytes.written = result.map_or(bytes.written, |shape| in_hbm(shape).min(bytes.written));
        bytes
    }

    fn written(&self, instruction: &HloInstructionProto) -> f64 {
        match instruction.opcode.as_str() {
            "dynamic-update-slice" => self.update(instruction, 1),
            "scatter" => self.update(instruction, instruction.operand_ids.len().saturating_sub(1)),
            "fusion" => {
                let root = self.index.called(instruction).next().and_then(|called| self.index.root(called));
                let Some(root) = root else { return instruction.shape.as_ref().map_or(0.0, in_hbm) };
                let whole = instruction.shape.as_ref();
                if root.opcode != "tuple" {
                    return self.written_by(root, whole);
                }
                let parts = whole.map_or(&[][..], |shape| &shape.tuple_shapes);
                let roots = root.operand_ids.iter().map(|&id| self.index.instruction(id));
                let written = parts.iter().zip(roots).map(|(part, root)| match root {
                    Some(root) => self.written_by(root, Some(part)),
                    None => in_hbm(part),
                });
                written.sum()
            }
            _ => instruction.shape.as_ref().map_or(0.0, in_hbm),
        }
    }

    /// What a fusion writes for one of its roots: the update alone if the rest is there already.
    fn written_by(&self, root: &HloInstructionProto, result: Option<&ShapeProto>) -> f64 {
        let whole = result.map_or(0.0, in_hbm);
        let mut root = root;
        for _ in 0..8 {
            match (root.opcode.as_str(), root.operand_ids.first().and_then(|&id| self.index.instruction(id))) {
                ("bitcast" | "reshape" | "copy" | "convert", Some(operand)) => root = operand,
                _ => break,
            }
        }
        let update = match root.opcode.as_str() {
            "dynamic-update-slice" => 1,
            "scatter" => root.operand_ids.len().saturating_sub(1),
            _ => return whole,
        };
        let update = root.operand_ids.get(update).and_then(|&id| self.index.instruction(id));
        update.and_then(|it| it.shape.as_ref()).map_or(whole, |shape| padded(shape).min(whole))
    }

    fn update(&self, instruction: &HloInstructionProto, number: usize) -> f64 {
        let whole = instruction.shape.as_ref().map_or(0.0, in_hbm);
        let update = instruction.operand_ids.get(number).and_then(|&id| self.index.instruction(id));
        update.and_then(|it| it.shape.as_ref()).map_or(whole, |shape| padded(shape).min(whole))
    }

    /// Bytes that an instruction takes of one operand; `None` if all of it.
    fn of_operand(&self, user: &HloInstructionProto, operand: usize) -> Option<f64> {
        match (user.opcode.as_str(), operand) {
            ("slice" | "dynamic-slice" | "gather", 0) => user.shape.as_ref().map(padded),
            ("dynamic-update-slice", 0) => Some(0.0),
            // What is accumulated into is read before it is written.
            ("scatter", 0) => Some(self.update(user, user.operand_ids.len().saturating_sub(1))),
            ("fusion", _) => self.taken.get(&self.parameter(user, operand)?.id).copied().flatten(),
            _ => None,
        }
    }

    /// Bytes that all users of a value together take of it; `None` if one of them takes all.
    fn taken_by_users(&self, instruction: &HloInstructionProto) -> Option<f64> {
        let users = self.users(instruction.id);
        let mut sum = 0.0;
        let mut seen = HashSet::new();
        for user in users.iter().filter(|user| seen.insert(user.id)) {
            let uses = user.operand_ids.iter().enumerate().filter(|(_, id)| **id == instruction.id);
            for (number, _) in uses {
                sum += match user.opcode.as_str() {
                    "bitcast" => self.taken.get(&user.id).copied().flatten()?,
                    _ => self.of_operand(user, number)?,
                };
            }
        }
        // A root without users is a result.
        (!users.is_empty()).then_some(sum)
    }
}

fn padded(shape: &ShapeProto) -> f64 {
    let mut sum = 0.0;
    shape::arrays(shape, &mut |array| sum += shape::padded_bytes(array) as f64);
    sum
}

/// Bytes of the arrays in a shape that lie in HBM.
fn in_hbm(shape: &ShapeProto) -> f64 {
    let mut sum = 0.0;
    shape::arrays(shape, &mut |array| {
        if shape::space(array) == HBM {
            sum += shape::padded_bytes(array) as f64;
        }
    });
    sum
}
