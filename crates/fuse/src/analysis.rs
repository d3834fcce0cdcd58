//! What is known of an e-class: its type, its value if all elements are the same, and the line it came from.

mod finite;
mod range;

use crate::change::Platform;
use crate::language::{Attributes, Head, Kind, Node};
use egg::{Analysis, DidMerge, Id};
use ir::eval::{Value, eval_node};
use ir::{Graph, Literal, LocId, Number, Op, Type, ValueId, infer};
pub(crate) use range::{Range, decides, integers, range_of};
use smallvec::SmallVec;
use std::sync::Arc;

/// The e-graph of a window.
pub(crate) type EGraph = egg::EGraph<Node, Facts>;

/// What stands beside the e-graph.
#[derive(Default)]
pub(crate) struct Facts {
    pub(crate) attributes: Attributes,
    pub(crate) platform: Platform,
    /// Where what is added now comes from.
    pub(crate) loc: LocId,
    /// The type of what is added now.
    pending: Option<Type>,
}

/// What is known of an e-class.
#[derive(Clone, Debug)]
pub(crate) struct Data {
    /// The type of its value; an empty tuple for attributes.
    pub ty: Type,
    /// One element, as a 0-d literal, if all elements are known to be this one.
    pub splat: Option<Literal>,
    /// Of integers and `bool`: least and greatest value that an element may have.
    pub range: Option<Range>,
    /// Whether every element is a number, in exact arithmetic on finite numbers.
    pub finite: bool,
    /// The first op of the program that computes it, or that it was made for.
    pub loc: LocId,
}

impl Analysis<Node> for Facts {
    type Data = Data;

    fn make(egraph: &mut EGraph, node: &Node, _: Id) -> Data {
        let pending = egraph.analysis.pending.take();
        let ty = pending.unwrap_or_else(|| Type::Tuple(Vec::new()));
        let splat = splat(egraph, node);
        let finite = finite::of(egraph, node, &ty, splat.as_ref());
        Data { range: range::of(egraph, node, &ty, splat.as_ref()), finite, splat, ty, loc: egraph.analysis.loc }
    }

    fn remake(egraph: &mut EGraph, node: &Node, id: Id) -> Data {
        let (splat, known) = (splat(egraph, node), egraph[id].data.clone());
        let finite = finite::of(egraph, node, &known.ty, splat.as_ref());
        Data { range: range::of(egraph, node, &known.ty, splat.as_ref()), finite, splat, ..known }
    }

    fn merge(&mut self, to: &mut Data, from: Data) -> DidMerge {
        let gained = to.splat.is_none() && from.splat.is_some();
        let lacked = to.splat.is_some() && from.splat.is_none();
        let (first, own) = (to.loc.min(from.loc), to.loc);
        if gained {
            to.splat = from.splat;
        }
        to.loc = first;
        let (before, both) = (to.range, range::both(to.range, from.range));
        to.range = both;
        let finite = to.finite || from.finite;
        let (found, told) = (finite != to.finite, finite != from.finite);
        to.finite = finite;
        DidMerge(
            gained || first != own || both != before || found,
            lacked || first != from.loc || both != from.range || told,
        )
    }
}

/// The element that fills the value of a node, if one does: of constants, of what only moves elements about, and of
/// elementwise ops of such.
fn splat(egraph: &EGraph, node: &Node) -> Option<Literal> {
    let Head::With(kind) = node.head else { return elementwise(egraph, node, &node.head.op()?) };
    match kind {
        Kind::Constant => match &*attributes(egraph, *node.children.last()?)?.0 {
            Op::Constant(l) => l.with_shape(ir::Shape::new()),
            _ => None,
        },
        Kind::BroadcastInDim | Kind::Reshape | Kind::Transpose | Kind::Slice | Kind::Reverse => {
            egraph[*node.children.first()?].data.splat.clone()
        }
        Kind::Convert => elementwise(egraph, node, &attributes(egraph, *node.children.last()?)?.0),
        _ => None,
    }
}

/// An elementwise op of values that one element fills each.
fn elementwise(egraph: &EGraph, node: &Node, op: &Op) -> Option<Literal> {
    let splats: Option<SmallVec<[&Literal; 3]>> =
        node.operands().iter().map(|&c| egraph[c].data.splat.as_ref()).collect();
    computed(op, &splats?)
}

/// What the reference evaluator makes of `op` without bodies over constants.
pub(crate) fn computed(op: &Op, operands: &[&Literal]) -> Option<Literal> {
    let types: SmallVec<[Type; 3]> = operands.iter().map(|l| l.ty.clone().into()).collect();
    let ty = infer(op, &types.iter().collect::<SmallVec<[&Type; 3]>>(), &[]).ok()?;
    let places = (0..operands.len()).map(ValueId::new).collect();
    let node = ir::Node { op: op.clone(), operands: places, bodies: vec![], ty, loc: LocId::UNKNOWN };
    let values: Vec<Value> = operands.iter().map(|&l| Value::Tensor(l.clone())).collect();
    match eval_node(&node, &values.iter().collect::<Vec<_>>()).ok()? {
        Value::Tensor(l) => Some(l),
        Value::Tuple(_) => None,
    }
}

/// The op and bodies of an e-class of attributes.
pub(crate) fn attributes(egraph: &EGraph, id: Id) -> Option<&(Arc<Op>, Vec<Arc<Graph>>)> {
    match egraph[id].nodes.first()?.head {
        Head::Attributes(number) => Some(egraph.analysis.attributes.get(number)),
        _ => None,
    }
}

/// Adds `op` over `operands`, whose types are inferred. `None` if they do not fit.
pub(crate) fn add(egraph: &mut EGraph, op: &Op, bodies: &[Arc<Graph>], operands: &[Id]) -> Option<Id> {
    let ty = {
        let types: SmallVec<[&Type; 4]> = operands.iter().map(|&id| &egraph[id].data.ty).collect();
        infer(op, &types, bodies).ok()?
    };
    Some(add_typed(egraph, op, bodies, operands, ty))
}

/// Adds `op` of type `ty`.
pub(crate) fn add_typed(egraph: &mut EGraph, op: &Op, bodies: &[Arc<Graph>], operands: &[Id], ty: Type) -> Id {
    let head = Head::of(op);
    let mut children = SmallVec::from_slice(operands);
    if matches!(head, Head::With(_)) {
        let number = egraph.analysis.attributes.intern(op, bodies);
        children.push(egraph.add(Node { head: Head::Attributes(number), children: SmallVec::new() }));
    }
    egraph.analysis.pending = Some(ty);
    let id = egraph.add(Node { head, children });
    egraph.analysis.pending = None; // it was there
    id
}

/// Whether the element is `number` in its own type, bit by bit: `0.0` is not `-0.0`.
pub(crate) fn is_number(splat: &Literal, number: Number) -> bool {
    splat.bytes[..] == number.to_bytes(splat.ty.dtype)[..]
}

/// The values of a graph's nodes as e-classes, in order; inputs are leaves.
pub(crate) fn encode(graph: &Graph, platform: Platform) -> (EGraph, Vec<Id>) {
    let mut egraph = EGraph::new(Facts { platform, ..Facts::default() });
    let mut ids: Vec<Id> = Vec::with_capacity(graph.nodes().len());
    for node in graph.nodes() {
        let operands: SmallVec<[Id; 4]> = node.operands.iter().map(|v: &ValueId| ids[v.index()]).collect();
        egraph.analysis.loc = node.loc;
        ids.push(add_typed(&mut egraph, &node.op, &node.bodies, &operands, node.ty.clone()));
    }
    egraph.rebuild();
    (egraph, ids)
}
