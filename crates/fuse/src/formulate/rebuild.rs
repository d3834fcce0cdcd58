//! A graph being built after another.

use crate::Head;
use crate::measure::ops_on_memory;
use ir::op::SignedDims;
use ir::{
    Binary, DType, Dims, Error, Graph, Input, Literal, LocId, Node, Number, Op, Operands, Output, Result, Shape,
    TensorType, Type, ValueId, infer,
};
use smallvec::SmallVec;

/// A graph being built, node by node after another one, and where each node of that one stands in it.
///
/// The methods that append ops infer their types and give the operand itself where nothing would change.
pub(super) struct Rebuild {
    to: Graph,
    places: Vec<ValueId>,
    loc: LocId,
}

impl Rebuild {
    /// An empty graph with the name and locations of `from`.
    pub(super) fn of(from: &Graph) -> Rebuild {
        let mut to = Graph::new(from.name.clone());
        to.locs = from.locs.clone();
        Rebuild { to, places: Vec::with_capacity(from.nodes().len()), loc: LocId::UNKNOWN }
    }
    /// Nodes appended from here on stand for what came from `loc`.
    pub(super) fn set_loc(&mut self, loc: LocId) {
        self.loc = loc;
    }
    /// How many nodes there are.
    pub(super) fn len(&self) -> usize {
        self.to.nodes().len()
    }
    /// What the nodes from the `start`-th on compute.
    pub(super) fn heads_from(&self, start: usize) -> Vec<Head> {
        self.to.nodes()[start..].iter().map(|node| Head::of(&node.op)).collect()
    }
    /// Where `v` of the old graph stands.
    pub(super) fn place(&self, v: ValueId) -> ValueId {
        self.places[v.index()]
    }
    /// The next node of the old graph stands as it is.
    pub(super) fn keep(&mut self, node: &Node) {
        let kept = self.keep_apart(node);
        self.places.push(kept);
    }
    /// The next node of the old graph is appended as it is, and may be stood for by what is made of it.
    pub(super) fn keep_apart(&mut self, node: &Node) -> ValueId {
        let operands = node.operands.iter().map(|&v| self.place(v)).collect();
        self.to.push(Node { operands, ..node.clone() })
    }
    /// The next node of the old graph is `value`.
    pub(super) fn stand_for(&mut self, value: ValueId) {
        self.places.push(value);
    }
    /// The graph, with the inputs and outputs of `from`.
    pub(super) fn finish(mut self, from: &Graph) -> Graph {
        let places = std::mem::take(&mut self.places);
        self.finish_with(from, |v| places[v.index()])
    }
    /// The graph, with the inputs and outputs of `from` where `place` says.
    pub(super) fn finish_with(mut self, from: &Graph, place: impl Fn(ValueId) -> ValueId) -> Graph {
        self.to.inputs = from.inputs.iter().map(|i| Input { value: place(i.value), ..i.clone() }).collect();
        self.to.outputs = from.outputs.iter().map(|o| Output { value: place(o.value), ..o.clone() }).collect();
        self.to.without_dead_nodes()
    }

    /// The type of `v`, which is a tensor.
    pub(super) fn ty(&self, v: ValueId) -> Result<&TensorType> {
        self.to.tensor_type(v).ok_or_else(|| Error::internal(format!("{v} is a tuple")))
    }
    /// Extents of `v`.
    pub(super) fn shape(&self, v: ValueId) -> Result<Shape> {
        self.ty(v).map(|t| t.shape.clone())
    }
    /// Whether `v` is an input.
    pub(super) fn is_input(&self, v: ValueId) -> bool {
        matches!(self.to.node(v).op, Op::Input { .. })
    }
    /// What `v` is a transpose of, and the permutation.
    pub(super) fn as_transpose(&self, v: ValueId) -> Option<(ValueId, &Dims)> {
        let node = self.to.node(v);
        match &node.op {
            Op::Transpose { permutation } => node.operands.first().map(|&of| (of, permutation)),
            _ => None,
        }
    }
    /// What `v` is a reshape of.
    pub(super) fn as_reshape(&self, v: ValueId) -> Option<ValueId> {
        let node = self.to.node(v);
        matches!(node.op, Op::Reshape { .. }).then(|| node.operands[0])
    }
    /// What `v` is a broadcast of, and along which dimensions.
    pub(super) fn as_broadcast(&self, v: ValueId) -> Option<(ValueId, &Dims)> {
        let node = self.to.node(v);
        match &node.op {
            Op::BroadcastInDim { dims, .. } => node.operands.first().map(|&of| (of, dims)),
            _ => None,
        }
    }
    /// The tensor and the 0-d scale that `v` is the product of.
    pub(super) fn as_scaled(&self, v: ValueId) -> Option<(ValueId, ValueId)> {
        let node = self.to.node(v);
        let (Op::Binary(Binary::Multiply), &[a, b]) = (&node.op, &node.operands[..]) else { return None };
        let scale = |v| self.as_broadcast(v).filter(|(_, dims)| dims.is_empty()).map(|(scale, _)| scale);
        [(a, b), (b, a)].into_iter().find_map(|(x, s)| Some((x, scale(s)?)))
    }
    /// What `v` is the reverse of, and along which dimensions.
    pub(super) fn as_reverse(&self, v: ValueId) -> Option<(ValueId, &Dims)> {
        let node = self.to.node(v);
        match &node.op {
            Op::Reverse { dims } => node.operands.first().map(|&of| (of, dims)),
            _ => None,
        }
    }
    /// The dimension that `v` counts along, if it is a counter.
    pub(super) fn as_iota(&self, v: ValueId) -> Option<usize> {
        match self.to.node(v).op {
            Op::Iota { dim, .. } => Some(dim),
            _ => None,
        }
    }
    /// As [`crate::measure::ops_on_memory`].
    pub(super) fn ops_on_memory(&self, v: ValueId, most: usize) -> Option<usize> {
        ops_on_memory(&self.to, v, most)
    }
    /// Appends what `of`, a graph of one output, computes of `inputs`.
    pub(super) fn splice(&mut self, of: &Graph, inputs: &[ValueId]) -> Result<ValueId> {
        let outputs = self.splice_all(of, inputs)?;
        outputs.first().copied().ok_or_else(|| Error::internal("a part without a result"))
    }
    /// Appends what `of` computes of `inputs`: all its outputs.
    pub(super) fn splice_all(&mut self, of: &Graph, inputs: &[ValueId]) -> Result<Vec<ValueId>> {
        let mut values: Vec<ValueId> = Vec::with_capacity(of.nodes().len());
        for node in of.nodes() {
            values.push(match node.op {
                Op::Input { index } => inputs[index],
                _ => {
                    let operands = node.operands.iter().map(|v| values[v.index()]).collect();
                    self.to.push(Node { operands, loc: self.loc, ..node.clone() })
                }
            });
        }
        Ok(of.outputs.iter().map(|output| values[output.value.index()]).collect())
    }
    /// Appends a node as it stands.
    pub(super) fn push_node(&mut self, node: Node) -> ValueId {
        self.to.push(node)
    }
    /// Appends `op`.
    pub(super) fn push(&mut self, op: Op, operands: &[ValueId]) -> Result<ValueId> {
        let inferred = |to: &Graph| -> Result<Type> {
            let types: SmallVec<[&Type; 4]> = operands.iter().map(|&v| to.ty(v)).collect();
            infer(&op, &types, &[])
        };
        let ty = inferred(&self.to)?;
        let operands = Operands::from_slice(operands);
        Ok(self.to.push(Node { op, operands, bodies: vec![], ty, loc: self.loc }))
    }
    pub(super) fn binary(&mut self, op: Binary, a: ValueId, b: ValueId) -> Result<ValueId> {
        self.push(Op::Binary(op), &[a, b])
    }
    pub(super) fn convert(&mut self, a: ValueId, dtype: DType) -> Result<ValueId> {
        if self.ty(a)?.dtype == dtype { Ok(a) } else { self.push(Op::Convert { dtype }, &[a]) }
    }
    pub(super) fn reshape(&mut self, a: ValueId, shape: Shape) -> Result<ValueId> {
        if self.ty(a)?.shape == shape { Ok(a) } else { self.push(Op::Reshape { shape }, &[a]) }
    }
    /// The 0-d `a` in every place of `shape`.
    pub(super) fn broadcast(&mut self, a: ValueId, shape: Shape) -> Result<ValueId> {
        self.push(Op::BroadcastInDim { shape, dims: Dims::new() }, &[a])
    }
    pub(super) fn transpose(&mut self, a: ValueId, permutation: Dims) -> Result<ValueId> {
        let identity = permutation.iter().enumerate().all(|(i, &d)| i == d);
        if identity { Ok(a) } else { self.push(Op::Transpose { permutation }, &[a]) }
    }
    /// Every `stride`-th element from `start` below `limit`, in each of the dimensions of `ranges`.
    pub(super) fn slice(&mut self, a: ValueId, ranges: &[(usize, Range)]) -> Result<ValueId> {
        let shape = self.shape(a)?;
        let mut start: Dims = shape.iter().map(|_| 0).collect();
        let mut limit: Dims = shape.iter().copied().collect();
        let mut stride: Dims = shape.iter().map(|_| 1).collect();
        for &(d, range) in ranges {
            (start[d], limit[d], stride[d]) = (range.start, range.limit, range.stride);
        }
        let all = start.iter().all(|&s| s == 0) && stride.iter().all(|&s| s == 1) && limit[..] == shape[..];
        if all { Ok(a) } else { self.push(Op::Slice { start, limit, stride }, &[a]) }
    }
    /// `a` with zeros around and between its elements; a negative number of them crops.
    pub(super) fn pad(&mut self, a: ValueId, low: SignedDims, high: SignedDims, interior: Dims) -> Result<ValueId> {
        if low.iter().chain(&high).all(|&p| p == 0) && interior.iter().all(|&p| p == 0) {
            return Ok(a);
        }
        let zero = Op::Constant(Literal::splat(Number::Int(0), self.ty(a)?.dtype, []));
        let zero = self.push(zero, &[])?;
        self.push(Op::Pad { low, high, interior }, &[a, zero])
    }
}

/// Indices `start, start + stride, ...` below `limit`.
#[derive(Clone, Copy)]
pub(super) struct Range {
    pub(super) start: usize,
    pub(super) limit: usize,
    pub(super) stride: usize,
}

impl Range {
    /// The `index`-th of equal parts of `size` elements.
    pub(super) fn part(index: usize, size: usize) -> Range {
        Range { start: index * size, limit: (index + 1) * size, stride: 1 }
    }
    /// `count` elements from `start` on, `stride` apart.
    pub(super) fn strided(start: usize, count: usize, stride: usize) -> Range {
        Range { start, limit: start + (count - 1) * stride + 1, stride }
    }
}
