//! What is done to the results of the host's products and convolutions, done by the host too.
//!
//! A bias, a residual and a relu after a product are a loop of XLA's over what the product wrote, which its threads wake up for: a
//! quarter of ResNet-50's inference went by between its products. The host does it to what is in the cache still.

use super::rebuild::Rebuild;
use crate::analysis::is_number;
use crate::measure::{is_elementwise, unshaped};
use crate::{Change, Changes, Class, Head};
use hostcall::Computes;
use ir::op::Finished;
use ir::{Binary, Dims, Graph, LocId, Node, Number, Op, Operands, Result, ValueId};

/// Name, class and reason.
pub(super) const TOLD: (&str, Class, &str) =
    ("finished-by-the-host", Class::Exact, "biases, residuals and relus cost nothing while a result is in the cache");

/// Name, class and reason.
pub(super) const SCALED: (&str, Class, &str) = (
    "scaled-by-the-host",
    Class::Reassociating,
    "a scaled weight is a copy, and a scaled result is in the cache still",
);

/// `graph`, for a platform where the host takes calls, with results finished where they are made.
pub(super) fn finished(graph: &Graph, changes: &mut Changes, within: Option<LocId>) -> Result<Graph> {
    let ends = ends(graph, changes.allows(SCALED.1));
    let mut to = Rebuild::of(graph);
    for (node, chain) in graph.nodes().iter().zip(ends) {
        let Some(chain) = chain.filter(|_| changes.allows_alone(Class::Exact)) else {
            to.keep(node);
            continue;
        };
        to.set_loc(node.loc);
        let made = to.len();
        let value = chain.rebuilt(&mut to, graph)?;
        to.stand_for(value);
        let (rule, class, _) = if chain.weight.is_some() { SCALED } else { TOLD };
        let (locs, before) = (vec![within.unwrap_or(node.loc)], Head::of(&node.op));
        let after = to.heads_from(made);
        changes.push(Change { rule, class, locs, before, after });
    }
    Ok(to.finish(graph))
}

/// For each node the chain that it ends, if it ends one that is worth it. Scales of weights may be the results'.
fn ends(graph: &Graph, moves_scales: bool) -> Vec<Option<Chain>> {
    let read = Readers::of(graph);
    let mut ends: Vec<Option<Chain>> = vec![None; graph.nodes().len()];
    for (i, node) in graph.nodes().iter().enumerate() {
        let Some(chain) = read.chain(node, ValueId::new(i), moves_scales, &ends) else { continue };
        // Of two products that are added, the first takes the other.
        let end = chain.end.index();
        ends[end].get_or_insert(chain);
    }
    let mut asked = vec![false; ends.len()];
    for i in (0..ends.len()).rev() {
        let is_asked = |c: &Chain| asked[i] || c.weight.is_some() || !read.are_in_loops(ValueId::new(i));
        ends[i] = ends[i].take().filter(is_asked);
        let added = ends[i].as_ref().and_then(|chain| chain.addend);
        added.into_iter().for_each(|v| asked[v.index()] = true);
    }
    ends
}

/// A result and what is done to it, one after the other.
#[derive(Clone)]
struct Chain {
    /// The product or the convolution.
    start: ValueId,
    /// The weight in the place of the second operand, which is that scaled.
    weight: Option<ValueId>,
    scale: Option<ValueId>,
    bias: Option<ValueId>,
    addend: Option<ValueId>,
    relu: bool,
    /// What is left in its place.
    end: ValueId,
}

impl Chain {
    /// The same in one op.
    fn rebuilt(&self, to: &mut Rebuild, graph: &Graph) -> Result<ValueId> {
        let start = graph.node(self.start);
        let mut operands: Operands = start.operands.iter().map(|&v| to.place(v)).collect();
        if let Some(weight) = self.weight {
            operands[1] = to.place(weight);
        }
        let [scale, bias, addend] = [self.scale, self.bias, self.addend].map(|v| v.is_some());
        let it = Finished { of: start.op.clone(), scale, bias, addend, relu: self.relu };
        let shape = start.ty.tensor().map(|t| t.shape.clone()).unwrap_or_default();
        let rhs = to.shape(operands[1])?.len();
        for of_features in self.scale.into_iter().chain(self.bias) {
            let features = shape[it.features(shape.len(), rhs)].iter().copied().collect();
            let of_features = to.place(of_features);
            operands.push(to.reshape(of_features, features)?);
        }
        if let Some(addend) = self.addend {
            let addend = to.place(addend);
            operands.push(to.reshape(addend, shape)?);
        }
        let value = to.push(Op::Finished(Box::new(it)), &operands)?;
        let end = graph.node(self.end).ty.tensor().map(|t| t.shape.clone()).unwrap_or_default();
        to.reshape(value, end)
    }
}

/// Who reads the values of a graph.
struct Readers<'a> {
    graph: &'a Graph,
    /// How many do.
    count: Vec<usize>,
    /// How many of them compute element by element.
    in_loops: Vec<usize>,
    /// The last of them.
    last: Vec<usize>,
}

impl<'a> Readers<'a> {
    fn of(graph: &'a Graph) -> Readers<'a> {
        let none = vec![0; graph.nodes().len()];
        let (mut count, mut in_loops, mut last) = (none.clone(), none.clone(), none);
        for (i, node) in graph.nodes().iter().enumerate() {
            for v in &node.operands {
                count[v.index()] += 1;
                in_loops[v.index()] += usize::from(is_in_a_loop(&node.op));
                last[v.index()] = i;
            }
        }
        // Whoever called reads outputs, and no node does alone.
        graph.outputs.iter().for_each(|o| count[o.value.index()] += 2);
        Readers { graph, count, in_loops, last }
    }

    /// The only node that reads `v`.
    fn only(&self, v: ValueId) -> Option<(ValueId, &'a Node)> {
        let reader = ValueId::new(self.last[v.index()]);
        (self.count[v.index()] == 1).then(|| (reader, self.graph.node(reader)))
    }

    /// What is done to `node`'s result, if it is the host's and something is. `ends` are those found before.
    fn chain(&self, node: &Node, start: ValueId, moves_scales: bool, ends: &[Option<Chain>]) -> Option<Chain> {
        if !self.is_finishable(node) {
            return None;
        }
        let (weight, scale) = self.scaled(node).filter(|_| moves_scales).unzip();
        let mut chain = Chain { start, weight, scale, bias: None, addend: None, relu: false, end: start };
        let (mut at, mut moved) = (start, false);
        while let Some((reader, next)) = self.only(at) {
            let taken = match next.op {
                Op::Reshape { .. } => {
                    (at, moved) = (reader, true);
                    continue;
                }
                Op::Binary(Binary::Multiply) => self.scale(&mut chain, next, at, moved),
                Op::Binary(Binary::Add) if !chain.relu => self.add(&mut chain, next, at, moved, ends),
                Op::Binary(Binary::Maximum) if !chain.relu => {
                    chain.relu = next.operands.iter().any(|&v| v != at && self.is_zero(v));
                    chain.relu
                }
                _ => false,
            };
            if !taken {
                break;
            }
            (at, chain.end) = (reader, reader);
        }
        (chain.end != start || chain.weight.is_some()).then_some(chain)
    }

    fn is_finishable(&self, node: &Node) -> bool {
        match &node.op {
            Op::DotGeneral(d) => d.host,
            Op::Convolution(c) if c.host => {
                let [x, kernel] = [0, 1].map(|i| self.graph.tensor_type(node.operands[i]));
                x.zip(kernel).and_then(|(x, k)| c.windows(x, k)).is_some_and(|w| w.computes == Computes::Map)
            }
            _ => false,
        }
    }

    /// The weight that `start`'s second operand is with a scale for each feature, and that scale.
    fn scaled(&self, start: &Node) -> Option<(ValueId, ValueId)> {
        let weight = start.operands[1];
        let scaled = self.graph.node(weight);
        let features: Dims = match &start.op {
            Op::Convolution(c) => Dims::from_slice(&[c.kernel_output_feature]),
            Op::DotGeneral(d) => {
                let rank = scaled.ty.tensor()?.rank();
                (0..rank).filter(|i| !d.rhs_batch.contains(i) && !d.rhs_contract.contains(i)).collect()
            }
            _ => return None,
        };
        let (Op::Binary(Binary::Multiply), &[a, b]) = (&scaled.op, &scaled.operands[..]) else { return None };
        let found = [(a, b), (b, a)].into_iter().find_map(|(w, scale)| Some((w, self.along(scale, &features)?)));
        found.filter(|_| self.count[weight.index()] == 1)
    }

    /// Takes what `product` multiplies `at` by into the chain, if nothing else was done before.
    fn scale(&self, chain: &mut Chain, product: &Node, at: ValueId, moved: bool) -> bool {
        let &[a, b] = &product.operands[..] else { return false };
        let other = if a == at { b } else { a };
        if chain.scale.is_some() || chain.bias.is_some() || chain.addend.is_some() || chain.relu || a == b {
            return false;
        }
        chain.scale = self.of_features(self.graph.node(chain.start), other, moved);
        chain.scale.is_some()
    }

    /// Takes what `sum` adds to `at`, whose dimensions were `moved` since the chain began, into it, if it can.
    fn add(&self, chain: &mut Chain, sum: &Node, at: ValueId, moved: bool, ends: &[Option<Chain>]) -> bool {
        let &[a, b] = &sum.operands[..] else { return false };
        let other = if a == at { b } else { a };
        if other == at || chain.addend.is_some() {
            return false;
        }
        let start = self.graph.node(chain.start);
        let bias = if chain.bias.is_none() { self.of_features(start, other, moved) } else { None };
        if let Some(bias) = bias {
            chain.bias = Some(bias);
            return true;
        }
        // What is computed for this sum alone is better computed by the loop that adds it, and so is what only repeats.
        let from = &self.graph.node(unshaped(self.graph, other)).op;
        let is_there = !matches!(from, Op::BroadcastInDim { .. } | Op::Iota { .. })
            && (self.count[other.index()] > 1 || ends[other.index()].is_some() || !is_in_a_loop(from));
        chain.addend = is_there.then_some(other);
        is_there
    }

    /// What `v` repeats along all but the features of `start`'s result.
    fn of_features(&self, start: &Node, v: ValueId, moved: bool) -> Option<ValueId> {
        let (shape, result) = (&self.graph.tensor_type(v)?.shape, start.ty.tensor()?);
        let features: Dims = match &start.op {
            Op::Convolution(c) if !moved => Dims::from_slice(&[c.output_feature]),
            Op::DotGeneral(d) => {
                let rhs = self.graph.tensor_type(start.operands[1])?.rank();
                let free = rhs - d.rhs_batch.len() - d.rhs_contract.len();
                trailing(shape, result.shape[result.rank() - free..].iter().product())?
            }
            _ => return None,
        };
        self.along(v, &features)
    }

    /// What `v` repeats along all dimensions but `dims`, in which it has more than one element.
    fn along(&self, v: ValueId, dims: &[usize]) -> Option<ValueId> {
        let node = self.graph.node(v);
        let (Op::BroadcastInDim { shape, dims: to }, &[of]) = (&node.op, &node.operands[..]) else { return None };
        let small = self.graph.tensor_type(of)?;
        let long = |size: &usize| *size > 1;
        let along = to.iter().zip(&small.shape).filter(|(_, size)| long(size)).map(|(&d, _)| d);
        let wanted: Dims = dims.iter().copied().filter(|&d| long(&shape[d])).collect();
        (along.eq(wanted.iter().copied()) && !wanted.is_empty()).then_some(of)
    }

    fn is_zero(&self, v: ValueId) -> bool {
        let node = self.graph.node(v);
        match &node.op {
            Op::Constant(l) => is_number(l, Number::Float(0.0)),
            Op::BroadcastInDim { .. } | Op::Reshape { .. } => node.operands.iter().all(|&v| self.is_zero(v)),
            _ => false,
        }
    }

    /// Whether only loops read `v`, which may as well compute it.
    fn are_in_loops(&self, v: ValueId) -> bool {
        match self.only(v) {
            Some((reader, Node { op: Op::Reshape { .. }, .. })) => self.are_in_loops(reader),
            _ => self.in_loops[v.index()] == self.count[v.index()],
        }
    }
}

/// Whether `op` is computed element by element where it is read.
fn is_in_a_loop(op: &Op) -> bool {
    let is_moved = matches!(
        op,
        Op::BroadcastInDim { .. }
            | Op::Constant(_)
            | Op::Iota { .. }
            | Op::Slice { .. }
            | Op::Pad { .. }
            | Op::Transpose { .. }
            | Op::Concatenate { .. }
            | Op::Reverse { .. }
    );
    is_moved || is_elementwise(op)
}

/// The last dimensions of more than one element that have so many together.
fn trailing(shape: &[usize], elements: usize) -> Option<Dims> {
    let (mut dims, mut found) = (Dims::new(), 1);
    for d in (0..shape.len()).rev().filter(|&d| shape[d] > 1) {
        if found >= elements {
            break;
        }
        found *= shape[d];
        dims.insert(0, d);
    }
    (found == elements).then_some(dims)
}
