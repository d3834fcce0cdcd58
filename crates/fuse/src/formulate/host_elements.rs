//! Functions of elements between the host's calls, left to it, too, with what else is computed there place by place: an activation
//! between two products.
//!
//! What is computed has to be read of memory and to be written to it whoever computes it: XLA's loops fuse with nothing there. A
//! program of calls alone XLA runs on the thread that starts it, where another wakes a thread for it, and others for its loops.

use super::host_rows::{Body, Calling, in_vectors, is_computed, is_exact, told};
use super::rebuild::Rebuild;
use crate::measure::{Effort, is_elementwise, readers};
use crate::{Changes, Class};
use ir::{DType, Graph, LocId, Node, Op, Operands, Result, ValueId};
use rustc_hash::FxHashSet;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Name, class and reason.
pub(super) const TOLD: (&str, Class, &str) = (
    "elements-by-the-host",
    Class::Reassociating,
    "a loop of XLA's between the host's calls fuses with nothing, and wakes other threads",
);

/// Elements from which it is worth a call, and of the shortest row.
const FEWEST: usize = 1 << 8;
const SHORTEST: usize = 16;

/// What the host has functions of, in vectors.
const FLOAT: DType = DType::F32;

/// `graph`, for a platform where the host takes calls, with functions between calls left to it.
pub(super) fn left_to_the_host(graph: &Graph, changes: &mut Changes, within: Option<LocId>) -> Result<Graph> {
    // A function may round otherwise than XLA's own, and an op's result is not to hang on those around it.
    if !graph.nodes().iter().any(is_function) || !changes.allows(TOLD.1) {
        return Ok(graph.clone());
    }
    let mut regions = vec![];
    let late = reshaped_late(graph)?;
    let between = Between::of(&late);
    for nodes in between.parts() {
        if let Some(region) = changes.allows(TOLD.1).then(|| between.region(nodes)).flatten() {
            changes.push(told(TOLD, &late, &region.nodes, region.nodes[0], within));
            regions.push(region);
        }
    }
    if regions.is_empty() { Ok(graph.clone()) } else { rebuilt(&late, regions) }
}

/// `graph` with what is computed of reshapes computed before them: ops that read each other have one shape then, as far as can be.
fn reshaped_late(graph: &Graph) -> Result<Graph> {
    let mut to = Rebuild::of(graph);
    for node in graph.nodes() {
        match before_reshapes(&mut to, node)? {
            Some(value) => to.stand_for(value),
            None => to.keep(node),
        }
    }
    Ok(to.finish(graph))
}

/// What stands for `node`, if it is elementwise, and of reshapes of one shape, and of numbers.
fn before_reshapes(to: &mut Rebuild, node: &Node) -> Result<Option<ValueId>> {
    let Some(ty) = node.ty.tensor().filter(|_| is_elementwise(&node.op)) else { return Ok(None) };
    let number = |to: &Rebuild, v| to.as_broadcast(v).filter(|(_, dims)| dims.is_empty()).map(|(number, _)| number);
    let mut shape = None;
    for v in node.operands.iter().map(|&v| to.place(v)).filter(|&v| number(to, v).is_none()) {
        let Some(before) = to.as_reshape(v).map(|before| to.shape(before)).transpose()? else { return Ok(None) };
        if *shape.get_or_insert_with(|| before.clone()) != before {
            return Ok(None);
        }
    }
    let Some(shape) = shape else { return Ok(None) };
    to.set_loc(node.loc);
    let mut before = vec![];
    for v in node.operands.iter().map(|&v| to.place(v)).collect::<Operands>() {
        before.push(match (number(to, v), to.as_reshape(v)) {
            (Some(number), _) => to.broadcast(number, shape.clone())?,
            (None, before) => before.unwrap_or(v),
        });
    }
    let made = to.push(node.op.clone(), &before)?;
    to.reshape(made, ty.shape.clone()).map(Some)
}

/// What is computed in one call.
struct Region {
    nodes: Vec<usize>,
    body: Graph,
    given: Vec<ValueId>,
    /// The nodes whose values the body gives.
    gives: Vec<usize>,
}

/// The elementwise ops of a graph that stand between what is in memory and what reads it there.
struct Between<'g> {
    graph: &'g Graph,
    readers: Vec<Vec<usize>>,
    is_output: Vec<bool>,
    /// Whether a node is one of them.
    own: Vec<bool>,
    /// How many times it takes turns between them and others on the way to a node: what is one as deep as the other does not wait for what
    /// is made of it in between.
    depth: Vec<usize>,
}

impl<'g> Between<'g> {
    fn of(graph: &'g Graph) -> Between<'g> {
        let count = graph.nodes().len();
        let (readers, mut is_output) = (readers(graph), vec![false; count]);
        graph.outputs.iter().for_each(|output| is_output[output.value.index()] = true);
        let has = |f| is_exact(f) || in_vectors(f, FLOAT, true);
        let is_own = |node: &Node| {
            let is_large = node.ty.tensor().is_some_and(|ty| ty.numel() >= FEWEST);
            is_large && is_computed(graph, node, FLOAT, has)
        };
        let own: Vec<bool> = graph.nodes().iter().map(is_own).collect();
        let mut depth = vec![0; count];
        for (i, node) in graph.nodes().iter().enumerate() {
            let through = |v: &ValueId| depth[v.index()] + usize::from(own[v.index()] && !own[i]);
            depth[i] = node.operands.iter().map(through).max().unwrap_or(0);
        }
        let mut between = Between { graph, readers, is_output, own, depth };
        between.settle();
        between
    }

    /// Leaves out what reads, or is read by, what would have to be written to memory for it, and then what that leaves.
    fn settle(&mut self) {
        let mut open: Vec<usize> = (0..self.own.len()).rev().filter(|&i| self.own[i]).collect();
        while let Some(i) = open.pop() {
            if !self.own[i] || self.stays(i) {
                continue;
            }
            self.own[i] = false;
            open.extend(self.graph.nodes()[i].operands.iter().map(|v| v.index()));
            open.extend(self.readers_of(i));
        }
    }

    /// Who reads a node's value, by itself or spread.
    fn readers_of(&self, i: usize) -> Vec<usize> {
        let through = |&reader: &usize| match self.graph.nodes()[reader].op {
            Op::BroadcastInDim { .. } | Op::Reshape { .. } => self.readers[reader].clone(),
            _ => vec![reader],
        };
        self.readers[i].iter().flat_map(through).collect()
    }

    fn stays(&self, i: usize) -> bool {
        let joins = |other: usize| self.own[other] && self.depth[other] == self.depth[i];
        let is_there = |v: &ValueId| joins(v.index()) || self.is_given(*v);
        self.graph.nodes()[i].operands.iter().all(is_there)
            && (self.readers[i].iter().all(|&reader| joins(reader)) || self.is_written(i))
    }

    /// Whether a call is given `v` as it is, or makes it of a number, or spreads what is given.
    fn is_given(&self, v: ValueId) -> bool {
        let node = self.graph.node(v);
        match &node.op {
            Op::Constant(literal) => literal.is_splat(),
            Op::BroadcastInDim { .. } => self.is_in_memory(node.operands[0]) || self.is_number(node.operands[0]),
            _ => self.is_in_memory(v),
        }
    }

    fn is_number(&self, v: ValueId) -> bool {
        matches!(&self.graph.node(v).op, Op::Constant(literal) if literal.is_splat())
    }

    /// Whether `v` is in memory whoever reads it.
    fn is_in_memory(&self, v: ValueId) -> bool {
        let node = self.graph.node(v);
        match &node.op {
            Op::Reshape { .. } => self.is_in_memory(node.operands[0]),
            Op::Input { .. } | Op::GetTupleElement { .. } | Op::DotGeneral(_) | Op::Convolution(_) => true,
            op => is_call(op) || self.own[v.index()] && self.is_written(v.index()),
        }
    }

    /// Whether a node's value has to be in memory: a call reads it, or it is given.
    fn is_written(&self, i: usize) -> bool {
        let reads = |&reader: &usize| match &self.graph.nodes()[reader].op {
            Op::Reshape { .. } => self.is_written(reader),
            op => is_call(op),
        };
        self.is_output[i] || self.readers[i].iter().any(reads)
    }

    /// The ops that may be one call.
    fn parts(&self) -> Vec<Vec<usize>> {
        ir::parts::parts(self.graph, |i| self.own[i].then_some(self.depth[i]))
    }

    /// The call for `nodes`, if it is worth one and the host computes it.
    fn region(&self, nodes: Vec<usize>) -> Option<Region> {
        nodes.iter().any(|&i| is_function(&self.graph.nodes()[i])).then_some(())?;
        let own: FxHashSet<usize> = nodes.iter().copied().collect();
        let whole = self.graph.nodes()[nodes[0]].ty.tensor()?.clone();
        let mut body = Body::named("elements", self.graph, &whole, &own);
        nodes.iter().for_each(|&node| body.copy(node));
        let is_read = |i: &usize| self.is_output[*i] || self.readers[*i].iter().any(|reader| !own.contains(reader));
        let gives: Vec<usize> = nodes.iter().copied().filter(is_read).collect();
        let asked = body.giving(&gives)?;
        let rows = ir::rows::hosted(&asked.to)?;
        let is_worth_it = rows.iter().all(|rows| rows.length() >= SHORTEST);
        is_worth_it.then_some(Region { nodes, body: asked.to, given: asked.given, gives })
    }
}

/// Whether `node` is a function of each element that takes more than reading it.
fn is_function(node: &Node) -> bool {
    matches!(node.op, Op::Unary(u) if Effort::of_unary(u) == Effort::Dear)
}

/// Whether the host computes `op`, which reads and writes memory.
fn is_call(op: &Op) -> bool {
    match op {
        Op::DotGeneral(product) => product.host,
        Op::Convolution(convolution) => convolution.host,
        Op::Lapack { host, .. } | Op::Grouped { host, .. } => *host,
        Op::Finished(_) | Op::HostRows | Op::HostScan(_) | Op::HostScatter(_) | Op::HostSort(_) => true,
        Op::HostUnary(_) | Op::HostBinary(_) => true,
        _ => false,
    }
}

/// `graph` with the calls of `regions`, each where its last op stood, or as soon as all is there that it is given.
fn rebuilt(graph: &Graph, regions: Vec<Region>) -> Result<Graph> {
    // Regions are told by their last nodes.
    let count = graph.nodes().len();
    let mut item: Vec<usize> = (0..count).collect();
    let mut region_at: Vec<Option<&Region>> = vec![None; count];
    for region in &regions {
        let last = region.nodes[region.nodes.len() - 1];
        region.nodes.iter().for_each(|&node| item[node] = last);
        region_at[last] = Some(region);
    }
    let (mut waits_for, mut waiting) = (vec![0; count], vec![vec![]; count]);
    for (i, node) in graph.nodes().iter().enumerate() {
        for made in node.operands.iter().map(|v| item[v.index()]).filter(|&made| made != item[i]) {
            waits_for[item[i]] += 1;
            waiting[made].push(item[i]);
        }
    }
    let is_ready = |i: &usize| item[*i] == *i && waits_for[*i] == 0;
    let mut ready: BinaryHeap<Reverse<usize>> = (0..count).filter(is_ready).map(Reverse).collect();
    let mut to = Calling::of(graph);
    while let Some(Reverse(i)) = ready.pop() {
        match region_at[i] {
            Some(region) => to.call(region.nodes[0], region.body.clone(), &region.given, &region.gives)?,
            None => to.keep(i)?,
        }
        for &next in &waiting[i] {
            waits_for[next] -= 1;
            if waits_for[next] == 0 {
                ready.push(Reverse(next));
            }
        }
    }
    to.finish()
}

#[cfg(test)]
mod tests;
