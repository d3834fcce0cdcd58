//! Which ops around a reduction of rows are computed in the same pass.

use super::{Asked, MOST_OPS};
use crate::measure::{is_elementwise, is_moved, ops_on_memory, readers};
use ir::op::Reducer;
use ir::{DType, Dims, Graph, Node, Op, Operands, OutputKind, TensorType, ValueId};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BinaryHeap;

/// How far from a reduction ops are looked for.
const NEAR: usize = 128;
/// The most ops of a region.
const MOST: usize = 40;

/// Ops that are computed in one pass over rows.
pub(super) struct Region {
    /// The reduction that it was found by.
    pub(super) seed: usize,
    /// In order; but for those that stay where they are, too, as others compute them again.
    pub(super) nodes: Vec<usize>,
    /// What is computed, of the values that are given.
    pub(super) body: Graph,
    pub(super) given: Vec<ValueId>,
    /// The nodes whose values the body gives.
    pub(super) gives: Vec<usize>,
}

/// What stands at a place of the graph's order.
pub(super) enum Item {
    Node(usize),
    Region(Box<Region>),
}

/// A graph whose ops become regions, one after the other.
pub(super) struct Regions<'a> {
    graph: &'a Graph,
    with_functions: bool,
    items: Vec<Option<Item>>,
    /// Of items, as they are to be computed.
    order: Vec<usize>,
    /// Where in the order each item is.
    position: Vec<usize>,
    /// The item that makes each node's value.
    item_of: Vec<usize>,
    readers: Vec<Vec<usize>>,
    is_output: Vec<bool>,
}

impl<'a> Regions<'a> {
    pub(super) fn of(graph: &'a Graph, with_functions: bool) -> Regions<'a> {
        let count = graph.nodes().len();
        let readers = readers(graph);
        let mut is_output = vec![false; count];
        graph.outputs.iter().for_each(|output| is_output[output.value.index()] = true);
        let all = || (0..count).collect::<Vec<usize>>();
        let items = (0..count).map(|i| Some(Item::Node(i))).collect();
        Regions { graph, with_functions, items, order: all(), position: all(), item_of: all(), readers, is_output }
    }

    /// What is at place `at`, if the order is so long: a node, or none.
    pub(super) fn at(&self, at: usize) -> Option<Option<usize>> {
        let item = self.order.get(at)?;
        Some(match self.items[*item] {
            Some(Item::Node(node)) => Some(node),
            _ => None,
        })
    }

    /// All items, in order.
    pub(super) fn into_items(mut self) -> impl Iterator<Item = Item> {
        self.order.into_iter().filter_map(move |item| self.items[item].take())
    }

    /// The region around the reduction `seed`.
    pub(super) fn grow(&self, seed: usize) -> Option<Region> {
        let node = &self.graph.nodes()[seed];
        let Op::Reduce { dims, .. } = &node.op else { return None };
        let rank = self.graph.tensor_type(node.operands[0])?.rank();
        let is_of_all = dims[0] < ir::rows::counting(dims, rank)?;
        // An eager op's operands are in memory, and what becomes of it hangs on it alone.
        if is_of_all && self.with_functions && !self.is_near_memory(node.operands[0]) {
            return None;
        }
        let largest = Growing::around(self, seed).and_then(|growing| growing.finish(seed));
        largest.or_else(|| Growing::alone(self, seed)?.finish(seed))
    }

    /// Whether few ops lie between `v` and what is in memory, which is read as it lies.
    fn is_near_memory(&self, v: ValueId) -> bool {
        ops_on_memory(self.graph, v, MOST_OPS).is_some()
    }

    /// `region`, which was found at place `at`, stands where its last op stood, before all that reads it.
    pub(super) fn settle(&mut self, region: Region, at: usize) {
        let (first, last) = region
            .nodes
            .iter()
            .map(|&node| self.position[self.item_of[node]])
            .fold((at, at), |(first, last), position| (first.min(position), last.max(position)));
        let own = self.items.len();
        self.position.push(last);
        for &node in &region.nodes {
            self.items[self.item_of[node]] = None;
            self.item_of[node] = own;
        }
        self.items.push(Some(Item::Region(Box::new(region))));
        let mut late: FxHashSet<usize> = [own].into_iter().collect();
        let (mut before, mut after) = (vec![], vec![]);
        for &item in &self.order[first..=last] {
            let reads_late = self.reads(item).any(|v| late.contains(&self.item_of[v.index()]));
            match (&self.items[item], reads_late) {
                (None, _) => {}
                (_, true) => {
                    late.insert(item);
                    after.push(item);
                }
                _ => before.push(item),
            }
        }
        let gone = last + 1 - first - before.len() - after.len();
        // What is gone leaves places behind, so that all others stay where they are.
        let empty = self.items.len();
        self.items.push(None);
        self.position.push(first);
        let all = std::iter::repeat_n(empty, gone - 1).chain(before).chain([own]).chain(after);
        for (place, item) in (first..=last).zip(all) {
            self.order[place] = item;
            self.position[item] = place;
        }
    }

    fn reads(&self, item: usize) -> impl Iterator<Item = ValueId> + '_ {
        let values = match &self.items[item] {
            Some(Item::Node(node)) => &self.graph.nodes()[*node].operands[..],
            Some(Item::Region(region)) => &region.given,
            None => &[],
        };
        values.iter().copied()
    }

    fn position_of(&self, node: usize) -> usize {
        self.position[self.item_of[node]]
    }

    /// Whether `node` is in no region yet.
    fn is_free(&self, node: usize) -> bool {
        matches!(self.items[self.item_of[node]], Some(Item::Node(_)))
    }
}

/// A region that grows.
struct Growing<'a, 'g> {
    regions: &'a Regions<'g>,
    /// The tensor whose rows they are, and how many of its dimensions count rows.
    whole: TensorType,
    outer: usize,
    own: FxHashSet<usize>,
    /// Whole tensors that it reads.
    reads: FxHashSet<usize>,
}

impl<'a, 'g> Growing<'a, 'g> {
    fn alone(regions: &'a Regions<'g>, seed: usize) -> Option<Growing<'a, 'g>> {
        let node = &regions.graph.nodes()[seed];
        let Op::Reduce { dims, .. } = &node.op else { return None };
        let whole = regions.graph.tensor_type(node.operands[0])?.clone();
        let outer = ir::rows::counting(dims, whole.rank())?;
        let own = [seed].into_iter().collect();
        let reads = [node.operands[0].index()].into_iter().collect();
        Some(Growing { regions, whole, outer, own, reads })
    }

    fn around(regions: &'a Regions<'g>, seed: usize) -> Option<Growing<'a, 'g>> {
        let mut growing = Growing::alone(regions, seed)?;
        growing.reads.clear();
        let at = regions.position_of(seed);
        growing.absorb(seed, at);
        growing.follow(at);
        Some(growing)
    }

    fn node(&self, i: usize) -> &'g Node {
        &self.regions.graph.nodes()[i]
    }

    /// Takes in what makes the operands of `node`, as far as nothing reads that which comes before place `at`.
    fn absorb(&mut self, node: usize, at: usize) {
        let mut open: BinaryHeap<(usize, usize)> = BinaryHeap::new();
        let push = |open: &mut BinaryHeap<_>, node: &Node| {
            open.extend(node.operands.iter().map(|v| (self.regions.position_of(v.index()), v.index())));
        };
        push(&mut open, self.node(node));
        while let Some((position, i)) = open.pop() {
            let made = &self.regions.graph.nodes()[i];
            if self.own.contains(&i) || made.ty.tensor().is_none_or(|ty| ty.shape != self.whole.shape) {
                continue;
            }
            let is_near = position + NEAR > at && self.own.len() < MOST && self.regions.is_free(i);
            let read_late = |&reader: &usize| self.own.contains(&reader) || self.regions.position_of(reader) > at;
            // What a depthwise convolution is, a sum of 9, 25 or 49 products with parts, took as many copies in front of a norm:
            // MobileNet's training, 1.4 times as long.
            let reads_moved = made.operands.iter().any(|v| is_moved(&self.node(v.index()).op));
            if is_near && !reads_moved && self.computes(i) && self.regions.readers[i].iter().all(read_late) {
                self.own.insert(i);
                open.extend(made.operands.iter().map(|v| (self.regions.position_of(v.index()), v.index())));
            } else if !matches!(made.op, Op::BroadcastInDim { .. } | Op::Constant(_)) {
                self.reads.insert(i);
            }
        }
    }

    /// Takes in what reads the region behind place `at`, unless it also reads what is computed of it elsewhere.
    fn follow(&mut self, at: usize) {
        let regions = self.regions;
        let mut elsewhere: FxHashSet<usize> = FxHashSet::default();
        for place in at + 1..regions.order.len().min(at + NEAR) {
            let item = regions.order[place];
            let makes = |v: &ValueId| regions.item_of[v.index()];
            let operands: Vec<ValueId> = regions.reads(item).collect();
            if operands.iter().any(|v| elsewhere.contains(&makes(v))) {
                elsewhere.insert(item);
                continue;
            }
            let reads_own = operands.iter().any(|v| self.own.contains(&v.index()));
            let Some(Item::Node(node)) = regions.items[item] else {
                if reads_own {
                    elsewhere.insert(item);
                }
                continue;
            };
            if self.own.contains(&node) {
                continue;
            }
            let joins = reads_own || self.reduces_the_same(node);
            if joins && self.own.len() < MOST && self.takes(node) {
                self.own.insert(node);
                self.absorb(node, place);
            } else if reads_own {
                elsewhere.insert(item);
            }
        }
    }

    /// Whether `node` reduces rows of what the region reads, too.
    fn reduces_the_same(&self, node: usize) -> bool {
        let is_one = matches!(&self.node(node).op, Op::Reduce { dims, .. } if self.is_of_rows(dims));
        is_one && self.shares(self.node(node).operands[0].index(), 3)
    }

    /// Whether these dimensions of the tensor are a row's, or count rows.
    fn is_of_rows(&self, dims: &Dims) -> bool {
        dims.iter().copied().eq(self.outer..self.whole.rank()) || self.counts(dims)
    }

    fn counts(&self, dims: &Dims) -> bool {
        self.outer > 0 && dims.iter().copied().eq(0..self.outer)
    }

    /// Whether a value is combined of all rows, which is not known before the last of them.
    fn is_gathered(&self, value: ValueId) -> bool {
        let node = self.regions.graph.node(value);
        self.own.contains(&value.index()) && matches!(&node.op, Op::Reduce { dims, .. } if self.counts(dims))
    }

    fn shares(&self, value: usize, steps: usize) -> bool {
        let node = self.node(value);
        self.reads.contains(&value)
            || (steps > 0
                && is_elementwise(&node.op)
                && node.operands.iter().any(|v| self.shares(v.index(), steps - 1)))
    }

    /// Whether `node` may be computed with the rows, given its operands.
    fn takes(&self, node: usize) -> bool {
        let of = self.node(node);
        let Some(ty) = of.ty.tensor() else { return false };
        if of.operands.iter().any(|&v| self.is_gathered(v)) {
            return false;
        }
        match &of.op {
            Op::Reduce { reducer, dims } => {
                let given = self.regions.graph.tensor_type(of.operands[0]);
                self.is_of_rows(dims) && given == Some(&self.whole) && reducer.hosted().is_some()
            }
            Op::BroadcastInDim { .. } => ty.shape == self.whole.shape && self.own.contains(&of.operands[0].index()),
            Op::Reshape { .. } => self.counts_rows(&ty.shape) && self.own.contains(&of.operands[0].index()),
            _ => self.computes(node),
        }
    }

    /// Whether `node` is elementwise, of whole rows or of numbers of them, and the host computes it.
    fn computes(&self, node: usize) -> bool {
        let of = self.node(node);
        let Some(ty) = of.ty.tensor() else { return false };
        let is_whole = ty.shape == self.whole.shape;
        let float = self.whole.dtype;
        is_computed(self.regions.graph, of, float, |f| {
            is_exact(f) || self.regions.with_functions && in_vectors(f, float, is_whole)
        }) && (is_whole || self.counts_rows(&ty.shape))
    }

    fn counts_rows(&self, shape: &[usize]) -> bool {
        ir::rows::count_alike(shape, &self.whole.shape[..self.outer])
    }

    /// Which of `nodes`, that are the region's, in order, are not given to those that read them elsewhere: such as are computed of one
    /// tensor that is there before, as fast as they are read, and need not be written so. Not those whose extremes are computed: they
    /// are compared with these, and another loop may round a sum of products otherwise.
    fn computed_again(&self, nodes: &[usize]) -> FxHashSet<usize> {
        let extremes = nodes.iter().filter(|&&i| is_extreme(&self.node(i).op));
        let compared: FxHashSet<usize> = extremes.map(|&i| self.node(i).operands[0].index()).collect();
        let is_whole = |v: usize| self.node(v).ty.tensor().is_some_and(|ty| ty.shape == self.whole.shape);
        let is_spread = |v: usize| matches!(self.node(v).op, Op::BroadcastInDim { .. } | Op::Constant(_));
        // Of what may be computed again the one tensor it is of.
        let mut of: FxHashMap<usize, usize> = FxHashMap::default();
        for &i in nodes.iter().filter(|&&i| is_whole(i) && is_cheap(&self.node(i).op)) {
            let operands = || self.node(i).operands.iter().map(|v| v.index());
            let is_there = |v: usize| !self.own.contains(&v) || of.contains_key(&v);
            let mut tensors: Vec<usize> =
                operands().filter(|&v| !is_spread(v)).map(|v| *of.get(&v).unwrap_or(&v)).collect();
            tensors.dedup();
            if let (true, &[tensor]) = (operands().all(is_there), &tensors[..]) {
                of.insert(i, tensor);
            }
        }
        let mut again = FxHashSet::default();
        let may_be = |&&i: &&usize| of.contains_key(&i) && !self.regions.is_output[i] && !compared.contains(&i);
        for &i in nodes.iter().rev().filter(may_be) {
            let stays = |reader: &usize| !self.own.contains(reader) || again.contains(reader);
            if self.regions.readers[i].iter().any(stays) {
                again.insert(i);
            }
        }
        again
    }

    /// The region, if the host computes it.
    fn finish(mut self, seed: usize) -> Option<Region> {
        let graph = self.regions.graph;
        let mut nodes: Vec<usize> = self.own.iter().copied().collect();
        nodes.sort_unstable_by_key(|&node| self.regions.position_of(node));
        let again = self.computed_again(&nodes);
        for &node in nodes.iter().rev().filter(|node| again.contains(node)) {
            // What only others read is theirs.
            if !self.regions.readers[node].iter().any(|reader| self.own.contains(reader)) {
                self.own.remove(&node);
            }
        }
        nodes.retain(|node| self.own.contains(node));
        let mut body = Body::named("rows", graph, &self.whole, &self.own);
        for &node in &nodes {
            body.copy(node);
        }
        let is_read = |&node: &usize| {
            let outside = |reader: &usize| !self.own.contains(reader);
            self.regions.is_output[node] || self.regions.readers[node].iter().any(outside)
        };
        nodes.retain(|node| !again.contains(node));
        let gives: Vec<usize> = nodes.iter().copied().filter(is_read).collect();
        let Asked { to, given } = body.giving(&gives)?;
        let body = to.without_dead_nodes();
        ir::rows::hosted(&body)?;
        let region = Region { seed, nodes, body, given, gives };
        (!self.moves_more(&region)).then_some(region)
    }

    /// Whether what is only reduced here would be written to memory for it, where XLA's loops read it as it lies.
    fn moves_more(&self, region: &Region) -> bool {
        let is_whole = |&v: &usize| self.node(v).ty.tensor().is_some_and(|ty| ty.shape == self.whole.shape);
        let is_written_for_it = |v: &ValueId| {
            let readers = &self.regions.readers[v.index()];
            is_moved(&self.node(v.index()).op) && readers.iter().all(|reader| self.own.contains(reader))
        };
        // An eager op's operands are in memory, and what becomes of it hangs on it alone.
        self.regions.with_functions && !region.gives.iter().any(is_whole) && region.given.iter().any(is_written_for_it)
    }
}

/// Whether an op gives some of the elements that it reads.
fn is_extreme(op: &Op) -> bool {
    matches!(op, Op::Reduce { reducer: Reducer::Maximum | Reducer::Minimum, .. })
}

/// Whether an op takes no longer than to read what it makes.
fn is_cheap(op: &Op) -> bool {
    use ir::Binary::{Add, Maximum, Minimum, Multiply, Subtract};
    match op {
        Op::Binary(b) => matches!(b, Add | Maximum | Minimum | Multiply | Subtract),
        Op::Unary(u) => matches!(u, ir::Unary::Abs | ir::Unary::Negate),
        _ => false,
    }
}

/// Whether `node` is elementwise, of a type of floats and of truths, and the host computes it, as it does such functions.
pub(in crate::formulate) fn is_computed(
    graph: &Graph,
    node: &Node,
    float: DType,
    has: impl Fn(hostcall::OfOne) -> bool,
) -> bool {
    let fits = |ty: &TensorType| ty.dtype == float || ty.dtype == DType::Bool;
    let Some(ty) = node.ty.tensor().filter(|ty| fits(ty)) else { return false };
    let is_computed = match &node.op {
        Op::Unary(ir::Unary::Not) => ty.dtype == DType::Bool,
        Op::Unary(u) => ir::rows::of_one(*u).is_some_and(has),
        Op::Binary(b) => ir::rows::of_two(*b, ty.dtype == DType::Bool).is_some(),
        Op::Compare(_) | Op::Select => true,
        Op::Convert { .. } => {
            ty.dtype == float && graph.tensor_type(node.operands[0]).is_some_and(|t| t.dtype == DType::Bool)
        }
        _ => false,
    };
    is_computed && node.operands.iter().all(|&v| graph.tensor_type(v).is_some_and(fits))
}

/// Whether a function gives the same as XLA's own.
pub(in crate::formulate) fn is_exact(of: hostcall::OfOne) -> bool {
    matches!(of, hostcall::OfOne::Abs | hostcall::OfOne::Negate | hostcall::OfOne::Sqrt)
}

/// Whether the host computes it in vectors; of a number of each row it need not.
pub(in crate::formulate) fn in_vectors(of: hostcall::OfOne, dtype: DType, is_whole: bool) -> bool {
    use hostcall::OfOne::{Erf, Exponential, Log, Logistic, Tanh};
    !is_whole || of != Log && (dtype == DType::F32 || !matches!(of, Erf | Exponential | Logistic | Tanh))
}

/// The body of a region being built.
pub(in crate::formulate) struct Body<'a> {
    graph: &'a Graph,
    whole: &'a TensorType,
    own: &'a FxHashSet<usize>,
    to: Asked,
    values: FxHashMap<usize, ValueId>,
}

impl<'a> Body<'a> {
    /// Of ops of the graph's over a tensor, which are to be copied.
    pub(in crate::formulate) fn named(
        name: &str,
        graph: &'a Graph,
        whole: &'a TensorType,
        own: &'a FxHashSet<usize>,
    ) -> Body<'a> {
        Body { graph, whole, own, to: Asked::named(name), values: FxHashMap::default() }
    }

    /// The body, which gives what it has of `nodes`; `None` if it lacks one.
    pub(in crate::formulate) fn giving(mut self, nodes: &[usize]) -> Option<Asked> {
        for node in nodes {
            self.to.give(OutputKind::User, *self.values.get(node)?);
        }
        Some(self.to)
    }

    /// Appends a node of the region.
    pub(in crate::formulate) fn copy(&mut self, node: usize) {
        let of = &self.graph.nodes()[node];
        let operands: Operands = of.operands.iter().map(|&v| self.value(v)).collect();
        let made = self.to.again(of, &operands);
        self.values.insert(node, made);
    }

    /// What stands for `v`: what is filled with a number is made anew, what is broadcast is given as it is before.
    fn value(&mut self, v: ValueId) -> ValueId {
        if let Some(&known) = self.values.get(&v.index()) {
            return known;
        }
        let node = self.graph.node(v);
        let made = match &node.op {
            Op::Constant(literal) if literal.is_splat() => self.to.again(node, &[]),
            Op::BroadcastInDim { .. } if !self.own.contains(&v.index()) && self.is_spread(node) => {
                let of = node.operands[0];
                let number = matches!(&self.graph.node(of).op, Op::Constant(literal) if literal.is_splat());
                let of = if number { self.value(of) } else { self.to.input(self.graph, of) };
                self.to.again(node, &[of])
            }
            _ => self.to.input(self.graph, v),
        };
        self.values.insert(v.index(), made);
        made
    }

    /// Whether a broadcast is over the whole rows, or of one number.
    fn is_spread(&self, node: &Node) -> bool {
        let numel = |ty: &TensorType| ty.numel();
        let is_number = self.graph.tensor_type(node.operands[0]).map(numel) == Some(1);
        is_number || node.ty.tensor().is_some_and(|ty| ty.shape == self.whole.shape)
    }
}
