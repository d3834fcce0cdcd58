//! A graph as steps: what is computed once and may be stored, and what each reads of the others.
//!
//! Not every node is a step. Inputs and constants are given. What costs less to make again than to read back (views,
//! broadcasts, counters, cheap arithmetic on values of at most half its size) is *remade* by every step that reads it, as
//! XLA does: such a step reads what the remade nodes are made from.

use super::machine::{Machine, Work, is_dear};
use crate::measure::{types, unshaped};
use ir::op::Combiner;
use ir::{DType, Graph, Node, Op, OutputKind, TensorType, Type, ValueId};
use std::collections::BTreeMap;

/// Nodes that one operand may be remade from, at most.
const LONGEST: usize = 16;

/// What may stand beside a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A loop over the elements of its result.
    Loop,
    /// A loop over the elements of its operand.
    Reduce,
    /// A matrix product or convolution.
    Product,
    /// Runs by itself.
    Alone,
    /// Keeps others apart, and is nothing at run time.
    Barrier,
}

/// A value that a step reads: all of it, or the part that a slice or projection takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Read {
    /// The step or given node that makes it.
    pub(super) value: ValueId,
    /// What takes the part; the value itself if all is read.
    pub(super) part: ValueId,
    /// Bytes of the part.
    pub(super) bytes: u64,
}

impl Read {
    pub(super) fn is_whole(&self) -> bool {
        self.part == self.value
    }
}

/// A node that is computed once.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) node: ValueId,
    pub(super) kind: Kind,
    pub(super) reads: Vec<Read>,
    /// What is remade on the way from what it reads.
    pub(super) remakes: Vec<ValueId>,
    pub(super) work: Work,
    /// Bytes of its results that are used, as far as it writes them.
    pub(super) bytes: u64,
    /// How often the program gives it out, each time in memory of its own.
    pub(super) given_out: u32,
    /// Whether an element takes many cycles.
    pub(super) is_dear: bool,
}

/// All steps of a graph, in its order.
pub(super) struct Steps<'g> {
    pub(super) graph: &'g Graph,
    pub(super) machine: Machine,
    pub(super) all: Vec<Step>,
    /// By node: its step; that of its tuple for a projection.
    of: Vec<Option<u32>>,
    /// By node: the steps that read it, ascending.
    readers: Vec<Vec<u32>>,
    /// By node: what it computes.
    work: Vec<Work>,
    /// By node: bytes of its results, as far as it writes them.
    bytes: Vec<u64>,
    /// By tuple: its elements that are used.
    projections: BTreeMap<ValueId, Vec<ValueId>>,
}

impl<'g> Steps<'g> {
    /// Linear in the graph.
    pub(super) fn new(graph: &'g Graph, machine: Machine) -> Steps<'g> {
        let uses = Uses::new(graph, machine);
        let mut steps = Steps {
            graph,
            machine,
            all: vec![],
            of: vec![None; graph.nodes().len()],
            readers: vec![vec![]; graph.nodes().len()],
            work: graph.nodes().iter().map(|n| machine.work(&n.op, &n.ty, &types(graph, n))).collect(),
            bytes: graph.nodes().iter().map(|n| machine.bytes(&n.ty)).collect(),
            projections: BTreeMap::new(),
        };
        let mut sources: Vec<Sources> = Vec::with_capacity(graph.nodes().len());
        for (i, node) in graph.nodes().iter().enumerate() {
            let value = ValueId::new(i);
            let made = Sources::of_operands(node, &sources);
            let own = match node.op {
                Op::Input { .. } => Sources::whole(value, steps.bytes[i]),
                Op::Constant(ref l) if l.is_splat() => Sources::default(),
                Op::Constant(_) => Sources::whole(value, steps.bytes[i]),
                Op::GetTupleElement { .. } => {
                    steps.of[i] = steps.of[node.operands[0].index()];
                    steps.bytes[i] = steps.bytes[node.operands[0].index()];
                    steps.projections.entry(node.operands[0]).or_default().push(value);
                    Sources::part(node.operands[0], value, machine.bytes(&node.ty))
                }
                _ if uses.is_remade(&steps, value, &made) => made.remade(&steps, value),
                _ => {
                    steps.push(value, made, &uses);
                    Sources::whole(value, steps.machine.bytes(&node.ty))
                }
            };
            sources.push(own);
        }
        steps
    }

    fn push(&mut self, node: ValueId, made: Sources, uses: &Uses) {
        let number = self.all.len() as u32;
        let op = self.graph.node(node);
        let (reads, written) = moved(self, node, made.reads, uses);
        for read in &reads {
            let readers = &mut self.readers[read.value.index()];
            if readers.last() != Some(&number) {
                readers.push(number);
            }
        }
        self.of[node.index()] = Some(number);
        self.bytes[node.index()] = written;
        self.all.push(Step {
            node,
            kind: kind(&op.op),
            reads,
            remakes: made.remakes,
            work: self.work[node.index()],
            bytes: written,
            given_out: uses.outputs[node.index()],
            is_dear: is_dear(&op.op, &op.ty),
        });
    }

    /// The step that makes `value`; none for what is given or remade.
    pub(super) fn of(&self, value: ValueId) -> Option<u32> {
        self.of[value.index()]
    }
    /// The steps that read `value`, ascending.
    pub(super) fn readers(&self, value: ValueId) -> &[u32] {
        &self.readers[value.index()]
    }
    /// What `node` computes.
    pub(super) fn work_of(&self, node: ValueId) -> Work {
        self.work[node.index()]
    }
    /// The elements of tuple `value` that are used.
    pub(super) fn projections(&self, value: ValueId) -> &[ValueId] {
        self.projections.get(&value).map_or(&[], |all| all)
    }
    /// Bytes of all of `value`.
    pub(super) fn bytes_of(&self, value: ValueId) -> u64 {
        self.bytes[value.index()]
    }
}

/// What a node is made from, and what is remade on the way.
#[derive(Clone, Default)]
struct Sources {
    reads: Vec<Read>,
    remakes: Vec<ValueId>,
}

impl Sources {
    fn whole(value: ValueId, bytes: u64) -> Sources {
        Sources::part(value, value, bytes)
    }
    fn part(value: ValueId, part: ValueId, bytes: u64) -> Sources {
        Sources { reads: vec![Read { value, part, bytes }], remakes: vec![] }
    }
    fn of_operands(node: &Node, sources: &[Sources]) -> Sources {
        let mut all = Sources::default();
        for v in &node.operands {
            for read in &sources[v.index()].reads {
                if !all.reads.contains(read) {
                    all.reads.push(*read);
                }
            }
            for remade in &sources[v.index()].remakes {
                if !all.remakes.contains(remade) {
                    all.remakes.push(*remade);
                }
            }
        }
        all
    }
    /// What reads `node`, which is remade from these, reads.
    fn remade(mut self, steps: &Steps<'_>, node: ValueId) -> Sources {
        if matches!(steps.graph.node(node).op, Op::Slice { .. }) {
            let taken = steps.bytes_of(node);
            self.reads.iter_mut().for_each(|r| (r.part, r.bytes) = (node, r.bytes.min(taken)));
        }
        self.remakes.push(node);
        self
    }
}

/// How the nodes of a graph are used.
struct Uses {
    /// By node: how many of the program's outputs it is; of a tuple, that element's that is most.
    outputs: Vec<u32>,
    /// By node: how many nodes read it.
    count: Vec<u32>,
    /// By node: whether something that runs alone reads it, as it is or reshaped.
    by_alone: Vec<bool>,
    /// By node: whether only products read it.
    by_products: Vec<bool>,
    /// By node: whether the program's output of it is written over an input.
    mutates: Vec<Option<ValueId>>,
}

impl Uses {
    fn new(graph: &Graph, machine: Machine) -> Uses {
        let n = graph.nodes().len();
        let (outputs, mutates) = (vec![0; n], vec![None; n]);
        let mut uses =
            Uses { outputs, count: vec![0; n], by_alone: vec![false; n], by_products: vec![true; n], mutates };
        for output in &graph.outputs {
            uses.outputs[output.value.index()] += 1;
            let (maker, times) = (graph_value(graph, output.value).index(), uses.outputs[output.value.index()]);
            uses.outputs[maker] = uses.outputs[maker].max(times);
            if let OutputKind::Mutation(input) = output.kind {
                uses.mutates[output.value.index()] = graph.inputs.get(input).map(|i| i.value);
            }
        }
        for (i, node) in graph.nodes().iter().enumerate().rev() {
            let kind = kind(&node.op);
            let passes_on = matches!(node.op, Op::Reshape { .. }) && uses.by_alone[i];
            for v in &node.operands {
                uses.count[v.index()] += 1;
                let is_alone = passes_on || matches!(kind, Kind::Alone | Kind::Barrier);
                uses.by_alone[v.index()] |= is_alone && !(machine.is_tpu && is_counted(graph, node, *v));
                uses.by_products[v.index()] &= kind == Kind::Product;
            }
        }
        uses
    }

    /// Whether what reads `value` makes it again from `made`.
    fn is_remade(&self, steps: &Steps<'_>, value: ValueId, made: &Sources) -> bool {
        let (i, node) = (value.index(), steps.graph.node(value));
        if self.outputs[i] > 0 || self.count[i] == 0 || made.remakes.len() >= LONGEST {
            return false;
        }
        match &node.op {
            Op::Reshape { .. } => true,
            _ if self.by_alone[i] => false,
            Op::BroadcastInDim { .. } | Op::Iota { .. } | Op::Slice { .. } => true,
            Op::Transpose { .. } => self.by_products[i],
            Op::Unary(_) | Op::Binary(_) | Op::Compare(_) | Op::Select | Op::Convert { .. } => {
                let read: u64 = made.reads.iter().map(|r| r.bytes).sum();
                !is_dear(&node.op, &node.ty) && read.saturating_mul(2) <= steps.bytes_of(value)
            }
            _ => false,
        }
    }
}

/// Whether `value`, repeated or counted, is made inside of a reduction of windows, `node`, as libtpu does: the positions
/// among which pooling picks never are in memory.
fn is_counted(graph: &Graph, node: &Node, value: ValueId) -> bool {
    let is_made_anywhere = matches!(graph.node(value).op, Op::BroadcastInDim { .. } | Op::Iota { .. });
    is_made_anywhere && matches!(node.op, Op::ReduceWindow { .. })
}

/// The node that makes `value`: the tuple of a projection.
fn graph_value(graph: &Graph, value: ValueId) -> ValueId {
    match graph.node(value).op {
        Op::GetTupleElement { .. } => graph.node(value).operands[0],
        _ => value,
    }
}

/// `reads` as far as `node` takes them, and the bytes that it writes: what takes a window of its operand reads no more,
/// what updates its operand in place writes the update alone, and reads as much of it if it combines them, and a stable sort
/// writes positions, too.
fn moved(steps: &Steps<'_>, value: ValueId, mut reads: Vec<Read>, uses: &Uses) -> (Vec<Read>, u64) {
    let graph = steps.graph;
    let node = graph.node(value);
    let whole = steps.bytes_of(value);
    let update = match &node.op {
        Op::Sort { stable: true, .. } => return (reads, whole.saturating_add(positions(steps, node))),
        Op::Gather(_) | Op::DynamicSlice { .. } => None,
        Op::DynamicUpdateSlice => Some(node.operands[1]),
        Op::Scatter(_) => node.operands.last().copied(),
        _ => return (reads, whole),
    };
    let taken = update.map_or(whole, |v| steps.machine.bytes(graph.ty(v)));
    let operand = unshaped(graph, node.operands[0]);
    let in_place = uses.count[operand.index()] == 1 && uses.outputs[operand.index()] == 0;
    let is_given = matches!(graph.node(operand).op, Op::Input { .. } | Op::Constant(_));
    let in_place = if is_given { uses.mutates[value.index()] == Some(operand) } else { in_place };
    if update.is_some() && !in_place {
        return (reads, whole);
    }
    let replaces = match &node.op {
        Op::DynamicUpdateSlice => true,
        Op::Scatter(s) => s.combiner == Combiner::Set,
        _ => false,
    };
    let read = if replaces { 0 } else { taken };
    reads.iter_mut().filter(|r| r.value == operand).for_each(|r| (r.part, r.bytes) = (value, r.bytes.min(read)));
    (reads, whole.min(taken))
}

/// Bytes of the positions that libtpu sorts along, and writes, to keep the order of equal keys, where nothing else is sorted
/// along that would tell it.
fn positions(steps: &Steps<'_>, sort: &Node) -> u64 {
    match (&sort.ty, steps.machine.is_tpu) {
        (Type::Tensor(keys), true) => {
            steps.machine.bytes(&Type::Tensor(TensorType::new(DType::I32, keys.shape.iter().copied())))
        }
        _ => 0,
    }
}

fn kind(op: &Op) -> Kind {
    match op {
        Op::Reduce { .. } => Kind::Reduce,
        Op::DotGeneral(_) | Op::Convolution(_) | Op::Finished(_) => Kind::Product,
        Op::OptimizationBarrier | Op::HostBarrier => Kind::Barrier,
        Op::DynamicUpdateSlice
        | Op::Gather(_)
        | Op::Scatter(_)
        | Op::ReduceWindow { .. }
        | Op::SelectAndScatter { .. }
        | Op::Sort { .. }
        | Op::TopK { .. }
        | Op::Fft { .. }
        | Op::HostUnary(_)
        | Op::HostBinary(_)
        | Op::HostRows
        | Op::HostScan(_)
        | Op::HostScatter(_)
        | Op::HostSort(_)
        | Op::RngBitGenerator { .. }
        | Op::While
        | Op::If
        | Op::Lapack { .. }
        | Op::Grouped { .. }
        | Op::Routine(_) => Kind::Alone,
        Op::Input { .. }
        | Op::Constant(_)
        | Op::Iota { .. }
        | Op::Unary(_)
        | Op::Binary(_)
        | Op::Compare(_)
        | Op::Select
        | Op::Convert { .. }
        | Op::BitcastConvert { .. }
        | Op::BroadcastInDim { .. }
        | Op::Reshape { .. }
        | Op::Transpose { .. }
        | Op::Slice { .. }
        | Op::DynamicSlice { .. }
        | Op::Concatenate { .. }
        | Op::Pad { .. }
        | Op::Reverse { .. }
        | Op::GetTupleElement { .. } => Kind::Loop,
    }
}
