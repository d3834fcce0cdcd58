//! What is cheap to make, made when it is needed.
//!
//! A padded activation, or a weight in another order, that the backward pass reads can be made as soon as its operand is there:
//! XLA's schedule does so at once, and what the forward pass has made alike it keeps. Either way it is in memory from there to
//! the backward pass: MobileNet's padded activations beside the activations, 35 of the 182 MB of its step's temporaries. An
//! exponential, or its like, that several loops read it makes once, and keeps as well: GELU's `erf` beside GELU's operand. So
//! what moves elements only, and a dear op of an element, is made again of what stays in memory anyway, behind a value that is
//! needed beside it: a truth value that the host gives when that is there chooses between the operand and nothing.

use super::rebuild::Rebuild;
use crate::measure::{Effort, bytes, is_elementwise};
use crate::{Change, Changes, Class, Head};
use ir::op::Convolution;
use ir::{DType, Graph, Literal, LocId, Node, Number, Op, Operands, Result, ValueId};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// Name, class and reason.
pub(super) const TOLD: (&str, Class, &str) =
    ("made-late", Class::Exact, "XLA's CPU makes at once what is needed much later, and keeps it in memory");

/// The part of a program's inputs and outputs that is worth a call of the host and another pass over memory.
const LEAST_OF: u64 = 2048;
/// Bytes, likewise.
const LEAST: u64 = 1 << 11;
/// Nodes between that something could be made and that it is needed, from which on it is late: a part of all of them,
/// but so many at least.
const FAR_OF: usize = 16;
const FAR: usize = 32;
/// Nodes looked at for a value to wait for.
const FARTHEST: usize = 64;
/// Elementwise ops that are cheap enough to be done again, besides one that is dear: that takes what reading memory takes.
const MOST_OPS: usize = 3;
/// Readers from which on XLA makes a loop's operand, instead of computing it in each.
const MANY: usize = 8;
/// The same, for an operand that something dear has to be computed for.
const SEVERAL: usize = 2;
/// A reader and those behind it in its loop, as far as they are looked at.
const MOST_BEHIND: usize = 4;

/// `graph`, for a platform where the host takes calls, with what only moves elements made when it is needed.
pub(super) fn made_late(graph: &Graph, changes: &mut Changes, within: Option<LocId>) -> Result<Graph> {
    let late = if changes.allows(TOLD.1) { late(graph) } else { Late::default() };
    if late.is_empty() {
        return Ok(graph.clone());
    }
    let mut making = Making { graph, to: Rebuild::of(graph), made: FxHashMap::default() };
    for (i, node) in graph.nodes().iter().enumerate() {
        let again = late.get(&ValueId::new(i)).map(Vec::as_slice).unwrap_or_default();
        let mut operands = Operands::new();
        for &operand in &node.operands {
            operands.push(match again.iter().find(|(v, _)| *v == operand) {
                Some(&(_, waited)) => making.again(operand, waited)?,
                None => making.to.place(operand),
            });
        }
        let value = making.to.push_node(Node { operands, ..node.clone() });
        making.to.stand_for(value);
        for (operand, _) in again {
            let of = graph.node(*operand);
            let (locs, before) = (vec![within.unwrap_or(of.loc)], Head::of(&of.op));
            let after = vec![Head::of(&Op::HostBarrier), Head::of(&Op::Select), before];
            changes.push(Change { rule: TOLD.0, class: TOLD.1, locs, before, after });
        }
    }
    Ok(making.to.finish(graph))
}

/// By reader, those of its operands that are made again for it, each with what that waits for.
type Late = FxHashMap<ValueId, Vec<(ValueId, ValueId)>>;

fn late(graph: &Graph) -> Late {
    let (ready, readers) = (ready(graph), Readers::of(graph));
    let far = FAR.max(graph.nodes().len() / FAR_OF);
    let ends = graph.inputs.iter().map(|i| i.value).chain(graph.outputs.iter().map(|o| o.value));
    let least = LEAST.max(ends.map(|v| bytes(&graph.node(v).ty)).sum::<u64>() / LEAST_OF);
    // By what is made, what that waited for last.
    let mut waits: FxHashMap<ValueId, ValueId> = FxHashMap::default();
    let mut late = Late::default();
    for (i, node) in graph.nodes().iter().enumerate().filter(|(_, n)| !moves(&n.op)) {
        let needed = needed(graph, &readers, &ready, i);
        for (n, &operand) in node.operands.iter().enumerate().filter(|(_, v)| ready[v.index()] + far <= needed) {
            let Some(chain) = Chain::of(graph, i, n, &readers).filter(|chain| chain.bytes >= least) else { continue };
            let last = waits.get(&chain.largest).copied().filter(|waited| waited.index() + far > needed);
            let after = ready[operand.index()] + far / 2;
            if let Some(waited) = last.or_else(|| in_memory(graph, &readers, i, operand, after)) {
                waits.insert(chain.largest, waited);
                late.entry(ValueId::new(i)).or_default().push((operand, waited));
            }
        }
    }
    late
}

/// After which of the nodes what node `i` is computed of is there: all of it, and what else its loop reads, if that stands
/// before it.
fn needed(graph: &Graph, readers: &Readers, ready: &[usize], i: usize) -> usize {
    let of = |at: usize| graph.nodes()[at].operands.iter().map(|v| ready[v.index()]).filter(|&at| at < i).max();
    readers.in_loop(graph, i).filter_map(of).max().unwrap_or(0)
}

/// Who reads the values of a graph.
struct Readers {
    uses: Vec<usize>,
    /// By value, the last node that reads it.
    last: Vec<usize>,
    /// The same, or that reads what is cheaply computed of it, in each loop again; beyond all if it is an output.
    last_in_loops: Vec<usize>,
}

impl Readers {
    fn of(graph: &Graph) -> Readers {
        let count = graph.nodes().len();
        let (mut last, mut last_in_loops) = (vec![0; count], vec![0; count]);
        graph.outputs.iter().for_each(|o| last_in_loops[o.value.index()] = count);
        for (i, node) in graph.nodes().iter().enumerate().rev() {
            let is_cheap = matches!(effort(node), Some(Effort::Bit | Effort::Cheap));
            let read = if is_cheap || matches!(node.op, Op::Reshape { .. }) { last_in_loops[i] } else { i };
            for v in &node.operands {
                last[v.index()] = last[v.index()].max(i);
                last_in_loops[v.index()] = last_in_loops[v.index()].max(read);
            }
        }
        Readers { uses: crate::measure::uses(graph), last, last_in_loops }
    }

    /// Node `i`, and those behind it that are in one loop with it, if they are elementwise.
    fn in_loop<'a>(&'a self, graph: &'a Graph, i: usize) -> impl Iterator<Item = usize> + 'a {
        std::iter::successors(Some(i), |&at| self.only(graph, at)).take(MOST_BEHIND)
    }

    /// The only node that reads the value of node `i`, if both are elementwise.
    fn only(&self, graph: &Graph, i: usize) -> Option<usize> {
        let is_one = |at: usize| is_elementwise(&graph.nodes()[at].op);
        let next = self.last[i];
        (self.uses[i] == 1 && next > i && is_one(i) && is_one(next)).then_some(next)
    }
}

/// By node, after which of the nodes it can be made: an op that computes stands for its own place.
fn ready(graph: &Graph) -> Vec<usize> {
    let mut ready: Vec<usize> = Vec::with_capacity(graph.nodes().len());
    for (i, node) in graph.nodes().iter().enumerate() {
        let operands = node.operands.iter().map(|v| ready[v.index()]).max().unwrap_or(0);
        ready.push(match node.op {
            Op::Input { .. } | Op::Constant(_) => 0,
            ref op if moves(op) => operands,
            _ => i,
        });
    }
    ready
}

/// Whether an op of one tensor only puts its elements elsewhere.
fn moves(op: &Op) -> bool {
    matches!(
        op,
        Op::Pad { .. }
            | Op::Transpose { .. }
            | Op::Reverse { .. }
            | Op::Slice { .. }
            | Op::Reshape { .. }
            | Op::BroadcastInDim { .. }
    )
}

/// Whether an op's result, a tensor, is made in memory, whatever reads it.
fn is_made(node: &Node) -> bool {
    let by_itself = matches!(
        node.op,
        Op::DotGeneral(_)
            | Op::Convolution(_)
            | Op::Finished(_)
            | Op::HostBarrier
            | Op::HostUnary(_)
            | Op::HostBinary(_)
            | Op::HostScan(_)
            | Op::HostScatter(_)
            | Op::HostSort(_)
            | Op::Scatter(_)
            | Op::ReduceWindow { .. }
    );
    by_itself && node.ty.tensor().is_some()
}

/// Whether a value is in memory.
fn is_there(node: &Node) -> bool {
    is_made(node) || matches!(node.op, Op::Input { .. } | Op::Constant(_))
}

/// What an element of an op takes, if the op may be made again.
fn effort(node: &Node) -> Option<Effort> {
    match node.op {
        Op::Unary(op) => Some(Effort::of_unary(op)),
        Op::Binary(op) => Some(Effort::of_binary(op, &node.ty)).filter(|&effort| effort != Effort::Dear),
        _ => None,
    }
}

/// The operand that an op, whatever else it reads, is made of: the only one that is not spread over it.
fn spine(graph: &Graph, node: &Node) -> Option<ValueId> {
    if moves(&node.op) {
        return node.operands.first().copied();
    }
    let is_spread = |v: &ValueId| matches!(graph.node(*v).op, Op::BroadcastInDim { .. } | Op::Constant(_));
    let mut whole = node.operands.iter().copied().filter(|v| !is_spread(v));
    whole.next().filter(|_| effort(node).is_some() && whole.next().is_none())
}

/// Ops that may be made again, one behind the other, that begin with what is in memory.
struct Chain {
    /// The largest tensor that one of them makes, or the reader of what they make.
    largest: ValueId,
    bytes: u64,
}

impl Chain {
    /// What the `n`-th operand of node `reader` is made by, if it is made in memory and more than what would be kept instead.
    fn of(graph: &Graph, reader: usize, n: usize, readers: &Readers) -> Option<Chain> {
        let (at_reader, uses) = (&graph.nodes()[reader], |v: ValueId| readers.uses[v.index()]);
        let (mut at, mut cheap, mut dear, mut most_uses, mut is_shared) = (at_reader.operands[n], 0, 0, 0, false);
        let mut chain = Chain { largest: at, bytes: 0 };
        if matches!(&at_reader.op, Op::Convolution(c) if reorders(c, n)) {
            chain.bytes = bytes(&graph.node(at).ty);
        }
        while !is_there(graph.node(at)) {
            let node = graph.node(at);
            if !matches!(node.op, Op::Reshape { .. }) && bytes(&node.ty) > chain.bytes {
                chain = Chain { largest: at, bytes: bytes(&node.ty) };
            }
            let is_dear = effort(node) == Some(Effort::Dear);
            *if is_dear { &mut dear } else { &mut cheap } += usize::from(is_elementwise(&node.op));
            most_uses = most_uses.max(uses(at));
            is_shared |= most_uses >= if is_dear { SEVERAL } else { MANY };
            at = spine(graph, node).filter(|_| cheap <= MOST_OPS && dear <= 1)?;
        }
        let in_loops = is_elementwise(&at_reader.op) || matches!(at_reader.op, Op::Reduce { .. });
        let root = graph.node(at);
        let is_input = matches!(root.op, Op::Input { .. });
        let stays =
            is_input || dear > 0 && readers.last_in_loops[at.index()] >= reader || chain.bytes > bytes(&root.ty);
        (stays && (!in_loops || is_shared)).then_some(chain)
    }
}

/// Whether XLA's CPU puts the `n`-th operand of a convolution in another order first: it takes inputs with their batch first
/// and their features last, and kernels with their features last.
fn reorders(c: &Convolution, n: usize) -> bool {
    let in_order = match n {
        0 => std::iter::once(c.input_batch).chain(c.input_spatial.iter().copied()).chain([c.input_feature]).is_sorted(),
        _ => {
            let features = [c.kernel_input_feature, c.kernel_output_feature];
            c.kernel_spatial.iter().copied().chain(features).is_sorted()
        }
    };
    !c.host && !in_order
}

/// The last value in memory that stands behind `after` and before node `reader`, and is needed for that beside `operand`, or
/// in one loop with it.
fn in_memory(graph: &Graph, readers: &Readers, reader: usize, operand: ValueId, after: usize) -> Option<ValueId> {
    let beside = |at: usize| beside(graph, &graph.nodes()[at], operand, after..reader);
    readers.in_loop(graph, reader).find_map(beside)
}

/// The last value in memory that stands at one of `places` and that `reader` needs besides `operand`.
fn beside(graph: &Graph, reader: &Node, operand: ValueId, places: Range<usize>) -> Option<ValueId> {
    let (mut open, mut seen, mut best) = (vec![], vec![], None);
    open.extend(reader.operands.iter().copied().filter(|&v| v != operand));
    while let Some(v) = open.pop() {
        if seen.len() >= FARTHEST || v.index() < places.start || seen.contains(&v) {
            continue;
        }
        seen.push(v);
        if is_made(graph.node(v)) {
            best = best.max(Some(v).filter(|v| v.index() < places.end));
        } else {
            open.extend(&graph.node(v).operands);
        }
    }
    best
}

/// A graph being built in which values are made again.
struct Making<'a> {
    graph: &'a Graph,
    to: Rebuild,
    /// By value and what it waited for, where it stands.
    made: FxHashMap<(ValueId, ValueId), ValueId>,
}

impl Making<'_> {
    /// `v` of the old graph, made when `waited` is there.
    fn again(&mut self, v: ValueId, waited: ValueId) -> Result<ValueId> {
        if let Some(&made) = self.made.get(&(v, waited)) {
            return Ok(made);
        }
        let node = self.graph.node(v);
        self.to.set_loc(node.loc);
        let made = match spine(self.graph, node).filter(|_| !is_there(node)) {
            None => self.behind(v, waited)?,
            Some(of) => {
                let first = self.again(of, waited)?;
                let operand = |&v: &ValueId| if v == of { first } else { self.to.place(v) };
                let operands = node.operands.iter().map(operand).collect();
                self.to.push_node(Node { operands, ..node.clone() })
            }
        };
        self.made.insert((v, waited), made);
        Ok(made)
    }

    /// `v`, which is there, behind `waited`.
    fn behind(&mut self, v: ValueId, waited: ValueId) -> Result<ValueId> {
        let (value, waited) = (self.to.place(v), self.to.place(waited));
        let ty = self.to.ty(value)?.clone();
        if ty.shape.is_empty() {
            return self.to.push(Op::HostBarrier, &[value, waited]);
        }
        let yes = self.to.push(Op::Constant(Literal::splat(Number::Int(1), DType::Bool, [])), &[])?;
        let yes = self.to.push(Op::HostBarrier, &[yes, waited])?;
        let nothing = self.to.push(Op::Constant(Literal::splat(Number::Int(0), ty.dtype, [])), &[])?;
        let (yes, nothing) = (self.to.broadcast(yes, ty.shape.clone())?, self.to.broadcast(nothing, ty.shape)?);
        self.to.push(Op::Select, &[yes, value, nothing])
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Random, assert_same_bits, at, dot, formulated_for};
    use super::super::tests::{ROUNDS, behind, rules};
    use crate::{Class, Platform};
    use ir::{Builder, DType, Graph, InputKind, Number, Op, OutputKind, TensorType, Unary, ValueId};

    /// A padded input of `rows` rows, multiplied at once and again after so many ops, with what a product gave in their middle.
    fn read_early_and_late(rows: usize, ops: usize) -> Graph {
        let b = Builder::new("padded");
        at(&b, 3);
        let x = b.input("x", InputKind::User, TensorType::new(DType::F32, [rows, 16]));
        let w = b.input("w", InputKind::User, TensorType::new(DType::F32, [16, 32]));
        let zero = b.scalar(Number::Int(0), DType::F32).unwrap();
        let padded = b.pad(x, zero, &[0, 0], &[0, 16], &[0, 0]).unwrap();
        let deep = |v| (0..ops).try_fold(v, |v, _| b.unary(Unary::Tanh, v)).unwrap();
        let early = deep(dot(&b, padded, w, &[1], &[1]));
        let middle = deep(dot(&b, early, w, &[1], &[0]));
        b.output("late", OutputKind::User, dot(&b, middle, padded, &[0], &[0]));
        b.finish()
    }

    #[test]
    fn what_is_moved_and_needed_late_is_made_late() {
        let made = |platform, graph: &Graph| {
            let (after, changes) = formulated_for(platform, graph, Class::Exact, None);
            assert_same_bits(graph, &after, &Random(1).inputs(graph, false)); // NaN would be all there is behind sums
            let late = after.outputs[0].value;
            // Of the last product, what its second operand waits for: nothing, or the two others.
            let waited = products_behind(&after, unpadded(&after, late));
            (waited, rules(&changes).iter().filter(|&&r| r == "made-late").count())
        };
        assert_eq!(made(Platform::CpuWithBlas, &read_early_and_late(32, 40)), (2, 1));
        assert_eq!(made(Platform::CpuWithBlas, &read_early_and_late(32, 8)), (0, 0), "it is needed soon");
        assert_eq!(made(Platform::CpuWithBlas, &read_early_and_late(8, 40)), (0, 0), "too small");
        assert_eq!(made(Platform::Cpu, &read_early_and_late(32, 40)), (0, 0), "there is nobody to ask");
    }

    /// An activation of a product, as GELU is, and its gradient behind so many ops.
    fn activated_and_back(rows: usize, ops: usize) -> Graph {
        let b = Builder::new("activated");
        let input = |name: &str, shape| b.input(name, InputKind::User, TensorType::new(DType::F32, shape));
        let (x, w) = (input("x", [rows, 16]), input("w", [16, 16]));
        let deep = |v| (0..ops).try_fold(v, |v, _| b.unary(Unary::Negate, v)).unwrap();
        let product = dot(&b, x, w, &[1], &[1]);
        let erf = b.unary(Unary::Erf, product).unwrap();
        let activation = b.multiply(product, erf).unwrap();
        let gradient = deep(dot(&b, deep(dot(&b, activation, w, &[1], &[1])), w, &[1], &[0]));
        // The loop of which XLA's would need the first `erf`: of what was there before, and of the gradient.
        let slope = b.add(erf, b.multiply(product, product).unwrap()).unwrap();
        b.output("late", OutputKind::User, b.multiply(gradient, slope).unwrap());
        b.finish()
    }

    #[test]
    fn what_is_dear_and_needed_late_is_made_again() {
        let made = |graph: &Graph| {
            let (after, changes) = formulated_for(Platform::CpuWithBlas, graph, Class::Exact, None);
            assert_same_bits(graph, &after, &Random(1).inputs(graph, false));
            let erfs: Vec<_> =
                (0..after.nodes().len()).filter(|&i| after.nodes()[i].op == Op::Unary(Unary::Erf)).collect();
            let waited = products_behind(&after, ValueId::new(*erfs.last().unwrap()));
            (erfs.len(), waited, rules(&changes).iter().filter(|&&r| r == "made-late").count())
        };
        assert_eq!(made(&activated_and_back(32, 40)), (2, 3, 1));
        assert_eq!(made(&activated_and_back(32, 8)), (1, 1, 0), "it is needed soon");
        assert_eq!(made(&activated_and_back(8, 40)), (1, 1, 0), "too small");
    }

    fn products_behind(graph: &Graph, v: ValueId) -> usize {
        behind(graph, v).iter().zip(graph.nodes()).filter(|(b, n)| **b && is_product(&n.op)).count()
    }

    /// An input or a product, moved about at random, multiplied early and, some ops later, late.
    fn moved_about(r: &mut Random) -> Graph {
        let b = Builder::new("moved");
        let (rows, columns) = (r.within(1, 6), r.within(1, 6));
        let input = |name: &str, shape: [usize; 2]| b.input(name, InputKind::User, TensorType::new(DType::F32, shape));
        let mut v = input("x", [rows, columns]);
        if r.below(2) == 0 {
            let inner = r.within(1, 5);
            v = dot(&b, v, input("by", [inner, columns]), &[1], &[1]);
        }
        if r.below(2) == 0 {
            let bias = b.input("bias", InputKind::User, TensorType::new(DType::F32, [b.shape(v)[1]]));
            v = b.add(v, b.broadcast_in_dim(bias, &b.shape(v), &[1]).unwrap()).unwrap();
        }
        for _ in 0..r.within(1, 3) {
            let shape = b.shape(v);
            v = match r.below(4) {
                0 => b.transpose(v, &[1, 0]).unwrap(),
                1 => b.reverse(v, &[r.below(2)]).unwrap(),
                2 => b.slice(v, &[0, 0], &[r.within(1, shape[0]), r.within(1, shape[1])], &[1, 1]).unwrap(),
                _ => {
                    let zero = b.scalar(Number::Int(0), DType::F32).unwrap();
                    let mut edge = || [r.below(24) as i64, r.below(24) as i64];
                    let (low, high) = (edge(), edge());
                    b.pad(v, zero, &low, &high, &[r.below(2), 0]).unwrap()
                }
            };
        }
        let width = r.within(1, 5);
        let w = input("w", [width, b.shape(v)[1]]);
        let count = r.below(60);
        let deep = |v| (0..count).try_fold(v, |v, i| b.unary([Unary::Tanh, Unary::Negate][i % 2], v)).unwrap();
        let made = dot(&b, v, w, &[1], &[1]);
        let dear = b.unary([Unary::Erf, Unary::Exponential, Unary::Logistic][r.below(3)], made).unwrap();
        let middle = dot(&b, deep(b.multiply(made, dear).unwrap()), input("turn", [width, width]), &[1], &[0]);
        let late = deep(middle);
        b.output("late", OutputKind::User, dot(&b, late, v, &[0], &[0]));
        b.output("sloped", OutputKind::User, b.multiply(late, b.add(dear, made).unwrap()).unwrap());
        b.output("middle", OutputKind::User, middle);
        b.finish()
    }

    #[test]
    fn random_moves_made_late_keep_their_bits() {
        let mut made = 0;
        for seed in 0..2 * ROUNDS {
            let mut r = Random(seed);
            let graph = moved_about(&mut r);
            let (after, changes) = formulated_for(Platform::CpuWithBlas, &graph, Class::Exact, None);
            assert_same_bits(&graph, &after, &r.inputs(&graph, seed % 8 == 0)); // NaN often is all there is behind sums
            made += usize::from(rules(&changes).contains(&"made-late"));
        }
        assert!(made as u64 > ROUNDS / 10, "{made}");
    }

    fn is_product(op: &Op) -> bool {
        matches!(op, Op::DotGeneral(_) | Op::Finished(_))
    }

    /// What the second operand of the last product before `v` is computed of.
    fn unpadded(graph: &Graph, v: ValueId) -> ValueId {
        let node = graph.node(v);
        if is_product(&node.op) { node.operands[1] } else { unpadded(graph, node.operands[0]) }
    }
}
