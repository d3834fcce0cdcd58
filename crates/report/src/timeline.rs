//! HBM in use over the schedule.

use std::collections::HashMap;

use hlo::proto::HloInstructionProto;

use crate::Moment;
use crate::index::Index;

/// A heap's changes in the order in which they happen.
pub(crate) struct Trace<'a> {
    /// For each: the name of the instruction that makes the buffer, the buffer, and by how many bytes the heap grows.
    pub(crate) events: Vec<(&'a str, i64, i128)>,
    /// Which instruction makes a buffer.
    pub(crate) defined: HashMap<i64, i64>,
}

/// Works out when changes happen: the compiler's traces order them, but name no times.
pub(crate) struct Timeline<'a> {
    index: &'a Index<'a>,
    /// In use from beginning to end.
    base: u64,
    /// For each computation, the step of the entry in which it runs.
    entry_steps: Vec<Option<usize>>,
    /// For each step of the entry, the last one that uses its result.
    last_uses: Vec<usize>,
    names: HashMap<&'a str, usize>,
}

impl<'a> Timeline<'a> {
    pub(crate) fn new(index: &'a Index<'a>, base: u64) -> Timeline<'a> {
        let entry_steps = index.entry_steps();
        let mut names = HashMap::new();
        for (computation, found) in index.computations.iter().enumerate() {
            let is_entry = Some(computation) == index.entry();
            for (step, instruction) in found.instructions.iter().enumerate() {
                let step = if is_entry { Some(step) } else { entry_steps[computation] };
                names.extend(step.map(|step| (instruction.name.as_str(), step)));
            }
        }
        let last_uses = index.entry().map(|entry| last_uses(index, entry)).unwrap_or_default();
        Timeline { index, base, entry_steps, last_uses, names }
    }

    /// The moments at which something changes, and the step at which the heaps hold most. `outputs` are the bytes of
    /// results, each with the instruction that first writes there.
    pub(crate) fn replay(&self, traces: &[Trace<'_>], outputs: &[(i64, u64)]) -> (Vec<Moment>, usize) {
        let mut changes: Vec<Change> = Vec::new();
        for trace in traces {
            self.time(trace, &mut changes);
        }
        let peak_step = worst_step(&mut changes.clone());
        let made = outputs.iter().map(|&(id, bytes)| Change { step: self.step(id), delta: i128::from(bytes) });
        changes.extend(made);
        (self.moments(changes), peak_step)
    }

    /// The step of the entry in which an instruction runs.
    fn step(&self, instruction: i64) -> usize {
        let Some(place) = self.index.place(instruction) else { return 0 };
        if Some(place.computation) == self.index.entry() {
            return place.step;
        }
        self.entry_steps[place.computation].unwrap_or(0)
    }

    /// Memory comes at the step that makes the value. It goes after the value's last use, which lies between the
    /// changes before and after it in the trace.
    fn time(&self, trace: &Trace<'_>, changes: &mut Vec<Change>) {
        let comes = |&(name, buffer, _): &(&str, i64, i128)| {
            self.names.get(name).copied().or_else(|| trace.defined.get(&buffer).map(|&id| self.step(id)))
        };
        let mut next = vec![usize::MAX; trace.events.len()];
        for number in (1..trace.events.len()).rev() {
            let event = &trace.events[number];
            next[number - 1] = if event.2 > 0 { comes(event).unwrap_or(next[number]) } else { next[number] };
        }
        let mut now = 0;
        for (event, next) in trace.events.iter().zip(next) {
            let step = comes(event).unwrap_or(now);
            now = if event.2 > 0 {
                step.max(now)
            } else {
                let after = self.last_uses.get(step).map_or(step, |last| last + 1);
                after.min(next.max(now)).max(now)
            };
            changes.push(Change { step: now, delta: event.2 });
        }
    }

    fn moments(&self, mut changes: Vec<Change>) -> Vec<Moment> {
        changes.sort_by_key(|change| change.step);
        let instructions: &[&HloInstructionProto] =
            self.index.entry().map_or(&[], |entry| &self.index.computations[entry].instructions);
        let mut moments: Vec<Moment> = Vec::new();
        let mut in_use = i128::from(self.base);
        for chunk in changes.chunk_by(|a, b| a.step == b.step) {
            let most = most_during(&mut in_use, chunk);
            let bytes = u64::try_from(most).unwrap_or(if most < 0 { 0 } else { u64::MAX });
            let Some(instruction) = instructions.get(chunk[0].step) else { break };
            if moments.last().is_none_or(|last| last.bytes != bytes) {
                moments.push(Moment { step: chunk[0].step, instruction: instruction.name.clone(), bytes });
            }
        }
        moments
    }
}

#[derive(Clone, Copy)]
struct Change {
    step: usize,
    delta: i128,
}

/// The most in use during one step. What goes before anything has come at this step was not there during it.
fn most_during(in_use: &mut i128, changes: &[Change]) -> i128 {
    let (mut most, mut came) = (None, false);
    for change in changes {
        came |= change.delta > 0;
        *in_use += change.delta;
        if came {
            most = most.max(Some(*in_use));
        }
    }
    most.unwrap_or(*in_use)
}

/// The step during which most is in use, the first such.
fn worst_step(changes: &mut [Change]) -> usize {
    changes.sort_by_key(|change| change.step);
    let (mut in_use, mut worst, mut step) = (0i128, 0i128, 0);
    for change in changes {
        in_use += change.delta;
        if in_use > worst {
            (worst, step) = (in_use, change.step);
        }
    }
    step
}

/// The last step that uses each instruction of a computation, through whatever only renames the value.
fn last_uses(index: &Index<'_>, computation: usize) -> Vec<usize> {
    let instructions = &index.computations[computation].instructions;
    let mut last: Vec<usize> = (0..instructions.len()).collect();
    for (step, instruction) in instructions.iter().enumerate().rev() {
        let renames = matches!(
            instruction.opcode.as_str(),
            "bitcast" | "tuple" | "get-tuple-element" | "copy-start" | "async-start" | "optimization-barrier"
        );
        let used = if renames { last[step].max(step) } else { step };
        for &operand in &instruction.operand_ids {
            if let Some(place) = index.place(operand).filter(|place| place.computation == computation) {
                last[place.step] = last[place.step].max(used);
            }
        }
    }
    last
}
