//! Core ops as egg's language: operands are children, and so are attributes, as an interned leaf behind the operands.
//!
//! So a pattern binds both: in `(transpose ?x ?a)` the variable `a` stands for the op with its permutation.

use egg::Id;
use ir::Graph;
use ir::op::{Binary, Comparison, Op, Unary};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::fmt;
use std::sync::Arc;

/// What an e-node computes, without attributes and operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Head {
    /// A leaf: attributes, by their number in [`Attributes`].
    Attributes(u32),
    /// One operand, elementwise.
    Unary(Unary),
    /// Two operands, elementwise.
    Binary(Binary),
    /// A comparison.
    Compare(Comparison),
    /// `select`, the only other op without attributes.
    Select,
    /// `dynamic_update_slice`, which has none either.
    DynamicUpdateSlice,
    /// An op with attributes, which are its last child.
    With(Kind),
}

/// Ops with attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)] // the names of `ir::Op`
pub enum Kind {
    Input,
    Constant,
    Iota,
    Convert,
    BitcastConvert,
    BroadcastInDim,
    Reshape,
    Transpose,
    Slice,
    DynamicSlice,
    Concatenate,
    Pad,
    Reverse,
    Gather,
    Scatter,
    DotGeneral,
    Convolution,
    Finished,
    Reduce,
    ReduceWindow,
    SelectAndScatter,
    Sort,
    TopK,
    Fft,
    RngBitGenerator,
    Lapack,
    Grouped,
    Routine,
    While,
    If,
    GetTupleElement,
    OptimizationBarrier,
    HostBarrier,
    HostUnary,
    HostBinary,
    HostRows,
    HostScan,
    HostScatter,
    HostSort,
}

const KINDS: [(&str, Kind); 39] = [
    ("input", Kind::Input),
    ("constant", Kind::Constant),
    ("iota", Kind::Iota),
    ("convert", Kind::Convert),
    ("bitcast_convert", Kind::BitcastConvert),
    ("broadcast_in_dim", Kind::BroadcastInDim),
    ("reshape", Kind::Reshape),
    ("transpose", Kind::Transpose),
    ("slice", Kind::Slice),
    ("dynamic_slice", Kind::DynamicSlice),
    ("concatenate", Kind::Concatenate),
    ("pad", Kind::Pad),
    ("reverse", Kind::Reverse),
    ("gather", Kind::Gather),
    ("scatter", Kind::Scatter),
    ("dot_general", Kind::DotGeneral),
    ("convolution", Kind::Convolution),
    ("finished", Kind::Finished),
    ("reduce", Kind::Reduce),
    ("reduce_window", Kind::ReduceWindow),
    ("select_and_scatter", Kind::SelectAndScatter),
    ("sort", Kind::Sort),
    ("top_k", Kind::TopK),
    ("fft", Kind::Fft),
    ("rng_bit_generator", Kind::RngBitGenerator),
    ("lapack", Kind::Lapack),
    ("grouped", Kind::Grouped),
    ("routine", Kind::Routine),
    ("while", Kind::While),
    ("if", Kind::If),
    ("get_tuple_element", Kind::GetTupleElement),
    ("optimization_barrier", Kind::OptimizationBarrier),
    ("host_barrier", Kind::HostBarrier),
    ("host_unary", Kind::HostUnary),
    ("host_binary", Kind::HostBinary),
    ("host_rows", Kind::HostRows),
    ("host_scan", Kind::HostScan),
    ("host_scatter", Kind::HostScatter),
    ("host_sort", Kind::HostSort),
];

impl Head {
    /// The head of `op`.
    pub fn of(op: &Op) -> Head {
        let kind = match op {
            Op::Unary(u) => return Head::Unary(*u),
            Op::Binary(b) => return Head::Binary(*b),
            Op::Compare(c) => return Head::Compare(*c),
            Op::Select => return Head::Select,
            Op::DynamicUpdateSlice => return Head::DynamicUpdateSlice,
            Op::Input { .. } => Kind::Input,
            Op::Constant(_) => Kind::Constant,
            Op::Iota { .. } => Kind::Iota,
            Op::Convert { .. } => Kind::Convert,
            Op::BitcastConvert { .. } => Kind::BitcastConvert,
            Op::BroadcastInDim { .. } => Kind::BroadcastInDim,
            Op::Reshape { .. } => Kind::Reshape,
            Op::Transpose { .. } => Kind::Transpose,
            Op::Slice { .. } => Kind::Slice,
            Op::DynamicSlice { .. } => Kind::DynamicSlice,
            Op::Concatenate { .. } => Kind::Concatenate,
            Op::Pad { .. } => Kind::Pad,
            Op::Reverse { .. } => Kind::Reverse,
            Op::Gather(_) => Kind::Gather,
            Op::Scatter(_) => Kind::Scatter,
            Op::DotGeneral(_) => Kind::DotGeneral,
            Op::Convolution(_) => Kind::Convolution,
            Op::Finished(_) => Kind::Finished,
            Op::Reduce { .. } => Kind::Reduce,
            Op::ReduceWindow { .. } => Kind::ReduceWindow,
            Op::SelectAndScatter { .. } => Kind::SelectAndScatter,
            Op::Sort { .. } => Kind::Sort,
            Op::TopK { .. } => Kind::TopK,
            Op::Fft { .. } => Kind::Fft,
            Op::RngBitGenerator { .. } => Kind::RngBitGenerator,
            Op::Lapack { .. } => Kind::Lapack,
            Op::Grouped { .. } => Kind::Grouped,
            Op::Routine(_) => Kind::Routine,
            Op::While => Kind::While,
            Op::If => Kind::If,
            Op::GetTupleElement { .. } => Kind::GetTupleElement,
            Op::OptimizationBarrier => Kind::OptimizationBarrier,
            Op::HostBarrier => Kind::HostBarrier,
            Op::HostUnary(_) => Kind::HostUnary,
            Op::HostBinary(_) => Kind::HostBinary,
            Op::HostRows => Kind::HostRows,
            Op::HostScan(_) => Kind::HostScan,
            Op::HostScatter(_) => Kind::HostScatter,
            Op::HostSort(_) => Kind::HostSort,
        };
        Head::With(kind)
    }

    /// The op, where the head is all of it.
    pub(crate) fn op(self) -> Option<Op> {
        match self {
            Head::Unary(u) => Some(Op::Unary(u)),
            Head::Binary(b) => Some(Op::Binary(b)),
            Head::Compare(c) => Some(Op::Compare(c)),
            Head::Select => Some(Op::Select),
            Head::DynamicUpdateSlice => Some(Op::DynamicUpdateSlice),
            Head::Attributes(_) | Head::With(_) => None,
        }
    }

    /// The head that a pattern calls `name`: as the text format does.
    fn named(name: &str) -> Option<Head> {
        let bare = match name {
            "select" => Some(Head::Select),
            "dynamic_update_slice" => Some(Head::DynamicUpdateSlice),
            _ => KINDS.iter().find(|(n, _)| *n == name).map(|&(_, kind)| Head::With(kind)),
        };
        bare.or_else(|| ir::text::elementwise(name).map(|op| Head::of(&op)))
    }
}

/// An e-node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Node {
    /// What is computed.
    pub head: Head,
    /// Operands, then attributes if it has any.
    pub children: SmallVec<[Id; 4]>,
}

impl Node {
    /// The operands.
    pub fn operands(&self) -> &[Id] {
        match self.head {
            Head::With(_) => &self.children[..self.children.len() - 1],
            _ => &self.children,
        }
    }
}

impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Head::Attributes(n) => write!(f, "#{n}"),
            Head::With(kind) => f.write_str(KINDS.iter().find(|(_, k)| *k == kind).map_or("?", |(n, _)| n)),
            head => f.write_str(&head.op().map(|op| ir::text::name(&op)).unwrap_or_default()),
        }
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.head.fmt(f)
    }
}

impl egg::Language for Node {
    type Discriminant = Head;

    fn discriminant(&self) -> Head {
        self.head
    }
    fn matches(&self, other: &Self) -> bool {
        self.head == other.head && self.children.len() == other.children.len()
    }
    fn children(&self) -> &[Id] {
        &self.children
    }
    fn children_mut(&mut self) -> &mut [Id] {
        &mut self.children
    }
}

impl egg::FromOp for Node {
    type Error = egg::FromOpError;

    fn from_op(op: &str, children: Vec<Id>) -> Result<Self, Self::Error> {
        match Head::named(op) {
            Some(head) => Ok(Node { head, children: children.into() }),
            None => Err(egg::FromOpError::new(op, children)),
        }
    }
}

/// Ops with attributes, interned. Those with bodies are each their own: nothing looks into a body.
#[derive(Default)]
pub(crate) struct Attributes {
    ops: Vec<(Arc<Op>, Vec<Arc<Graph>>)>,
    known: FxHashMap<Arc<Op>, u32>,
}

impl Attributes {
    /// The number of `op`.
    pub(crate) fn intern(&mut self, op: &Op, bodies: &[Arc<Graph>]) -> u32 {
        if let Some(&known) = self.known.get(op).filter(|_| bodies.is_empty()) {
            return known;
        }
        let (op, number) = (Arc::new(op.clone()), self.ops.len() as u32);
        if bodies.is_empty() {
            self.known.insert(op.clone(), number);
        }
        self.ops.push((op, bodies.to_vec()));
        number
    }

    /// The op and bodies behind a leaf's number.
    pub(crate) fn get(&self, number: u32) -> &(Arc<Op>, Vec<Arc<Graph>>) {
        &self.ops[number as usize]
    }
}
