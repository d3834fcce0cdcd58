//! Fusion regions: which ops of an optimized graph run together, without memory in between.
//!
//! A region reads its inputs once, writes what others need, and keeps the rest on the chip: chains of elementwise ops,
//! with reductions in them as long as what several passes need fits there, and around at most one matrix product or
//! convolution the arithmetic on its operands and results. What moves elements by indices, sorts, draws or branches runs by
//! itself. Regions are chosen by [`Machine::time`], the one price there is; each input, output and byte is told, and why
//! a region ends where it does.
//!
//! Every node but inputs and constants is a member of exactly one region, and regions stand in an order in which they can
//! run. What is cheaper to make again than to read (`steps`) is so wherever it is read, and a member of the first region
//! that does.

mod candidate;
mod choose;
mod machine;
mod name;
mod order;
mod set;
mod settled;
mod steps;
#[cfg(test)]
pub(crate) mod tests;
mod tiles;
mod why;

pub use machine::{Machine, Work};

use choose::Chooser;
use ir::{Graph, ValueId};
use steps::{Kind, Steps};

/// Ops that run together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// What it does, in words that people know, such as `rmsnorm+matmul`.
    pub name: String,
    /// The op that it is about: its product, else the last one that it writes.
    pub root: ValueId,
    /// The ops, in the order of the graph.
    pub members: Vec<ValueId>,
    /// Ops that are members of an earlier region and are computed here once more.
    pub remade: Vec<ValueId>,
    /// What is read, and how many bytes of it: values of earlier regions, inputs and constants.
    pub inputs: Vec<(ValueId, u64)>,
    /// What is written.
    pub outputs: Vec<ValueId>,
    /// Bytes of values that never reach memory.
    pub kept: u64,
    /// Bytes read, each input once; on a TPU an input of the program that several passes need twice.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
    /// Bytes on the chip at once: whole values that several passes need, and tiles of the others.
    pub working_set: u64,
    /// What the units take.
    pub work: Work,
    /// By [`Machine::time`].
    pub picoseconds: u64,
    /// What bounds it: `memory`, `matrix unit`, `vector unit` or `start`.
    pub bound: &'static str,
    /// What is gained by its ops being together.
    pub gains: Vec<String>,
    /// The regions that read what it writes, and why they are regions of their own.
    pub borders: Vec<Border>,
}

/// Where one region ends and another begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Border {
    /// The position of the other region.
    pub region: usize,
    /// What keeps the two apart.
    pub why: String,
}

impl Region {
    /// Bytes to and from memory.
    pub fn moved(&self) -> u64 {
        self.read.saturating_add(self.written)
    }
}

/// The regions of `graph` on `machine`, in an order in which they can run. Near linear in the graph.
pub fn regions(graph: &Graph, machine: &Machine) -> Vec<Region> {
    let steps = Steps::new(graph, *machine);
    let mut chooser = Chooser::new(&steps);
    let order: Vec<u32> = chooser.order.regions().collect();
    let mut position = vec![0; chooser.partition.members.len()];
    order.iter().enumerate().for_each(|(i, &r)| position[r as usize] = i);
    let mut is_member = vec![false; graph.nodes().len()];
    let told = |r: u32| {
        let borders = why::borders(&mut chooser, r, &position);
        Region { borders, ..region(&steps, &mut chooser, r, &mut is_member) }
    };
    order.into_iter().map(told).collect()
}

/// The region of number `number`; what no earlier one has of what it remakes is its own.
fn region(steps: &Steps<'_>, chooser: &mut Chooser<'_>, number: u32, is_member: &mut [bool]) -> Region {
    let own = chooser.partition.members[number as usize].steps.clone();
    let figures = chooser.candidates.figures(&own).unwrap_or_default();
    let inputs: Vec<(ValueId, u64)> = chooser.candidates.inputs().collect();
    let (mut members, mut remade, mut outputs): (Vec<ValueId>, Vec<ValueId>, Vec<ValueId>) = (vec![], vec![], vec![]);
    for &step in &own {
        let step = &steps.all[step as usize];
        let parts = steps.projections(step.node);
        for v in step.remakes.iter().chain([&step.node]).chain(parts) {
            let into = if std::mem::replace(&mut is_member[v.index()], true) { &mut remade } else { &mut members };
            into.push(*v);
        }
        if chooser.candidates.is_written(step) {
            outputs.extend(if parts.is_empty() { std::slice::from_ref(&step.node) } else { parts });
        }
    }
    remade.retain(|v| !members.contains(v));
    for list in [&mut members, &mut remade] {
        list.sort_unstable();
        list.dedup();
    }
    let moved = figures.read.saturating_add(figures.written);
    let is_product = |s: &&u32| steps.all[**s as usize].kind == Kind::Product;
    let root = own.iter().find(is_product).map(|&s| steps.all[s as usize].node);
    let root = root.or(outputs.last().copied()).unwrap_or(members[members.len() - 1]);
    let told = Region {
        name: name::name(steps.graph, &members),
        root,
        members,
        remade,
        inputs,
        outputs,
        kept: figures.kept,
        read: figures.read,
        written: figures.written,
        working_set: figures.working_set,
        work: figures.work,
        picoseconds: figures.time,
        bound: steps.machine.bound(moved, figures.work),
        gains: vec![],
        borders: vec![],
    };
    Region { gains: why::gains(steps, &own, &told), ..told }
}
