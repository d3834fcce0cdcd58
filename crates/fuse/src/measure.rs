//! What an op has to do, whatever does it: elements, bytes, multiply-adds. Both prices are made of these, the clock's
//! ([`crate::cost`]) and that of regions ([`crate::regions::Machine`]).

use ir::op::{Binary, Convolution, DotGeneral, Unary};
use ir::{Graph, Node, Op, TensorType, Type, ValueId};

/// What an element of an elementwise op takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effort {
    /// A bit changed, with no other operand to read.
    Bit,
    /// An instruction or two.
    Cheap,
    /// The quotient of floats: a few cycles a vector. Integers are divided one by one.
    Quotient,
    /// A square root.
    Root,
    /// An exponential, or its like.
    Dear,
}

impl Effort {
    pub(crate) fn of_unary(op: Unary) -> Effort {
        use Unary::{
            Abs, Ceil, CountLeadingZeros, Floor, Imag, IsFinite, Negate, Not, Popcnt, Real, RoundNearestEven, Rsqrt,
            Sign, Sqrt,
        };
        match op {
            Abs | Negate | Not | Real | Imag => Effort::Bit,
            Ceil | CountLeadingZeros | Floor | IsFinite | Popcnt | RoundNearestEven | Sign => Effort::Cheap,
            Rsqrt | Sqrt => Effort::Root,
            _ => Effort::Dear,
        }
    }

    /// For a result of type `ty`.
    pub(crate) fn of_binary(op: Binary, ty: &Type) -> Effort {
        use Binary::{Atan2, Divide, NextAfter, Power, Remainder, Zeta};
        let is_int = ty.tensor().is_some_and(|t| t.dtype.is_int());
        match op {
            Divide if !is_int => Effort::Quotient,
            Divide | Atan2 | NextAfter | Power | Remainder | Zeta => Effort::Dear,
            _ => Effort::Cheap,
        }
    }
}

/// Rows of a tile of a TPU's memory.
pub(crate) const SUBLANES: usize = 8;

/// Whether each element of the result is computed of the operands' elements at its place.
pub(crate) fn is_elementwise(op: &Op) -> bool {
    matches!(op, Op::Unary(_) | Op::Binary(_) | Op::Compare(_) | Op::Select | Op::Convert { .. })
}

/// Whether a value is part of a tensor, or the tensor in another order: loops read those where they are.
pub(crate) fn is_moved(op: &Op) -> bool {
    matches!(op, Op::Slice { .. } | Op::Pad { .. } | Op::Reverse { .. } | Op::Transpose { .. } | Op::Concatenate { .. })
}

/// How many elementwise ops `v` takes on what is in memory already and read as it lies, if they are so many at most.
pub(crate) fn ops_on_memory(graph: &Graph, v: ValueId, most: usize) -> Option<usize> {
    let (mut open, mut ops) = (vec![v], 0);
    while let Some(v) = open.pop() {
        let node = graph.node(v);
        match &node.op {
            op if is_moved(op) => return None,
            op if is_elementwise(op) => ops += 1,
            Op::Reshape { .. } | Op::BroadcastInDim { .. } => {}
            _ => continue,
        }
        if ops > most {
            return None;
        }
        open.extend(&node.operands);
    }
    Some(ops)
}

/// For each node those that read it, in order, once for each operand.
pub(crate) fn readers(graph: &Graph) -> Vec<Vec<usize>> {
    let mut readers = vec![vec![]; graph.nodes().len()];
    for (i, node) in graph.nodes().iter().enumerate() {
        node.operands.iter().for_each(|v| readers[v.index()].push(i));
    }
    readers
}

/// How often each value is an operand or an output.
pub(crate) fn uses(graph: &Graph) -> Vec<usize> {
    let mut uses = vec![0; graph.nodes().len()];
    let operands = graph.nodes().iter().flat_map(|n| &n.operands);
    operands.chain(graph.outputs.iter().map(|o| &o.value)).for_each(|v| uses[v.index()] += 1);
    uses
}

/// What `value` is a reshape of, or itself.
pub(crate) fn unshaped(graph: &Graph, value: ValueId) -> ValueId {
    match graph.node(value).op {
        Op::Reshape { .. } => unshaped(graph, graph.node(value).operands[0]),
        _ => value,
    }
}

/// The types of a node's operands.
pub(crate) fn types<'g>(graph: &'g Graph, node: &Node) -> Vec<&'g Type> {
    node.operands.iter().map(|&v| graph.ty(v)).collect()
}

/// Elements of all tensors of a type.
pub(crate) fn numel(ty: &Type) -> u64 {
    ty.tensors().iter().map(|t| t.numel() as u64).sum()
}

/// Arithmetic ops for each value of a Fourier transform of so many: five for each time that they are halved.
pub(crate) fn butterflies(lengths: &[usize]) -> u64 {
    lengths.iter().map(|&n| 5 * u64::from(n.max(2).ilog2())).sum()
}

/// Bytes of all tensors of a type, dense.
pub(crate) fn bytes(ty: &Type) -> u64 {
    ty.tensors().iter().map(|t| t.size_in_bytes() as u64).sum()
}

/// Extents of `dims` of an operand, multiplied.
pub(crate) fn extent(operand: &Type, dims: &[usize]) -> u64 {
    operand.tensor().map_or(1, |t| dims.iter().map(|&i| t.shape[i] as u64).product())
}

/// Multiply-adds of a matrix product with so many results.
pub(crate) fn dot(d: &DotGeneral, args: &[&Type], results: u64) -> u64 {
    results.saturating_mul(extent(args[0], &d.lhs_contract))
}

/// Multiply-adds of a convolution with so many results.
pub(crate) fn convolution(c: &Convolution, args: &[&Type], results: u64) -> u64 {
    let taps = |t: &TensorType| t.numel() as u64 / (t.shape[c.kernel_output_feature].max(1) as u64);
    results.saturating_mul(args[1].tensor().map_or(1, taps))
}
