//! Values of a graph, each held in one or several orders of its dimensions.

use crate::formulate::rebuild::Rebuild;
use ir::{Dims, Error, Graph, LocId, Node, Op, Operands, Result, ValueId};
use smallvec::SmallVec;

/// An order of a value's dimensions: dimension `i` of what is held is dimension `order[i]` of the value.
pub(super) type Order = Dims;

/// What became of a node.
pub(super) enum Made {
    /// It is held in this order.
    Held(Order, ValueId),
    /// It costs nothing to make it in the order that is asked for, so it waits to be.
    Free,
}

/// A graph being laid out: every value of the old one in the orders in which it is held in the new one.
pub(super) struct Forms<'a> {
    pub(super) from: &'a Graph,
    pub(super) to: Rebuild,
    /// For each value that it is known of; the first order is the one in which it was computed.
    held: Vec<SmallVec<[(Order, ValueId); 2]>>,
}

impl<'a> Forms<'a> {
    pub(super) fn new(from: &'a Graph) -> Forms<'a> {
        Forms { from, to: Rebuild::of(from), held: Vec::with_capacity(from.nodes().len()) }
    }

    /// Notes what became of the next node.
    pub(super) fn push(&mut self, made: Made) {
        self.held.push(match made {
            Made::Held(order, v) => [(order, v)].into_iter().collect(),
            Made::Free => SmallVec::new(),
        });
    }

    /// The order in which `v` was computed; `None` while it is free.
    pub(super) fn order(&self, v: ValueId) -> Option<&Order> {
        self.held[v.index()].first().map(|(order, _)| order)
    }

    /// `v` as it was computed, in its own order if it is free.
    pub(super) fn as_held(&mut self, v: ValueId) -> Result<(Order, ValueId)> {
        match self.held[v.index()].first() {
            Some(first) => Ok(first.clone()),
            None => {
                let order = identity(self.rank(v));
                Ok((order.clone(), self.get(v, &order)?))
            }
        }
    }

    /// `v` in `order`, transposed if it is not held so.
    pub(super) fn get(&mut self, v: ValueId, order: &Order) -> Result<ValueId> {
        if let Some((_, held)) = self.held[v.index()].iter().find(|(o, _)| o == order) {
            return Ok(*held);
        }
        let loc = self.from.node(v).loc;
        let value = match self.held[v.index()].first().cloned() {
            None => self.free(v, order)?,
            Some((known, held)) => {
                let permutation = order.iter().map(|d| place(&known, *d)).collect::<Result<Dims>>()?;
                self.at(loc, |to| to.transpose(held, permutation))?
            }
        };
        self.held[v.index()].push((order.clone(), value));
        Ok(value)
    }

    /// `v` as the old graph has it.
    pub(super) fn plain(&mut self, v: ValueId) -> Result<ValueId> {
        // A tuple is held in one order, which is its parts'.
        if self.from.tensor_type(v).is_none() {
            return self.as_held(v).map(|(_, value)| value);
        }
        self.get(v, &identity(self.rank(v)))
    }

    pub(super) fn rank(&self, v: ValueId) -> usize {
        self.from.tensor_type(v).map_or(0, |t| t.rank())
    }

    /// Appends with `append` what stands for nodes from `loc`.
    pub(super) fn at<T>(&mut self, loc: LocId, append: impl FnOnce(&mut Rebuild) -> Result<T>) -> Result<T> {
        self.to.set_loc(loc);
        append(&mut self.to)
    }

    /// A constant, an `iota` or a broadcast, made in `order`.
    fn free(&mut self, v: ValueId, order: &Order) -> Result<ValueId> {
        let node = self.from.node(v);
        match &node.op {
            Op::Constant(literal) => {
                let shape = order.iter().map(|&d| literal.ty.shape[d]).collect();
                match literal.with_shape(shape) {
                    Some(splat) => self.at(node.loc, |to| to.push(Op::Constant(splat), &[])),
                    None => self.at(node.loc, |to| {
                        let plain = to.push(node.op.clone(), &[])?;
                        to.transpose(plain, order.clone())
                    }),
                }
            }
            Op::Iota { dtype, shape, dim } => {
                let op = Op::Iota {
                    dtype: *dtype,
                    shape: order.iter().map(|&d| shape[d]).collect(),
                    dim: place(order, *dim)?,
                };
                self.at(node.loc, |to| to.push(op, &[]))
            }
            Op::BroadcastInDim { shape, dims } => {
                let Some(&operand) = node.operands.first() else { return Err(Error::internal("a bare broadcast")) };
                // Operand dimensions in the order in which the result has them.
                let places = dims.iter().map(|&d| place(order, d)).collect::<Result<Dims>>()?;
                let mut operand_order = identity(dims.len());
                operand_order.sort_by_key(|&i| places[i]);
                let operand = self.get(operand, &operand_order)?;
                let shape = order.iter().map(|&d| shape[d]).collect();
                let dims = operand_order.iter().map(|&i| places[i]).collect();
                self.at(node.loc, |to| to.push(Op::BroadcastInDim { shape, dims }, &[operand]))
            }
            _ => Err(Error::internal(format!("{v} is held in no order"))),
        }
    }

    /// `node` as it is, on operands as the old graph has them.
    pub(super) fn keep(&mut self, node: &Node) -> Result<Made> {
        let operands = node.operands.iter().map(|&v| self.plain(v)).collect::<Result<Operands>>()?;
        let kept = self.to.push_node(Node { operands, ..node.clone() });
        Ok(Made::Held(identity(node.ty.tensor().map_or(0, |t| t.rank())), kept))
    }

    pub(super) fn finish(mut self) -> Result<Graph> {
        let from = self.from;
        for v in from.inputs.iter().map(|i| i.value).chain(from.outputs.iter().map(|o| o.value)) {
            self.plain(v)?;
        }
        let Forms { to, held, .. } = self;
        let plain = |v: ValueId| {
            let own = |(order, _): &&(Order, ValueId)| is_identity(order);
            held[v.index()].iter().find(own).map_or(v, |&(_, value)| value)
        };
        Ok(to.finish_with(from, plain))
    }
}

pub(super) fn identity(rank: usize) -> Order {
    (0..rank).collect()
}

pub(super) fn is_identity(order: &Order) -> bool {
    order.iter().enumerate().all(|(i, &d)| i == d)
}

/// Where dimension `d` is held.
pub(super) fn place(order: &Order, d: usize) -> Result<usize> {
    order.iter().position(|&x| x == d).ok_or_else(|| Error::internal(format!("no dimension {d} in {order:?}")))
}

/// Where each of `dims` is held.
pub(super) fn places(order: &Order, dims: &[usize]) -> Result<Dims> {
    dims.iter().map(|&d| place(order, d)).collect()
}
