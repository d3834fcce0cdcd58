//! The graph: nodes in an arena, operands before their users.

use crate::loc::{LocId, LocTable};
use crate::op::Op;
use crate::types::{TensorType, Type};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::collections::hash_map::Entry;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A node of a [`Graph`], which is also the value it computes. Prints as `%7`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(u32);

impl ValueId {
    /// The id of the `index`-th node.
    pub fn new(index: usize) -> ValueId {
        ValueId(index as u32)
    }
    /// Position in [`Graph::nodes`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for ValueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}", self.0)
    }
}

/// The operands of a node.
pub type Operands = SmallVec<[ValueId; 4]>;

/// One core op applied to operands.
#[derive(Clone, Debug)]
pub struct Node {
    /// What is computed.
    pub op: Op,
    /// From what, all earlier in the arena.
    pub operands: Operands,
    /// The bodies of `while` and `if`, and what says an op in others.
    pub bodies: Vec<Arc<Graph>>,
    /// The type of the value, as inference gives it.
    pub ty: Type,
    /// Where it came from.
    pub loc: LocId,
}

/// What an input of the graph is to the user.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum InputKind {
    /// An argument of the call.
    User,
    /// A trainable parameter, by its qualified name.
    Parameter,
    /// A module buffer, by its qualified name.
    Buffer,
    /// A tensor constant lifted out of the program.
    Constant,
    /// The value of a symbolic integer used as data: `i64[]`. Holds the expression over the trace's symbols.
    Symbol(String),
    /// Where a slice begins, `i64[]`: this number in the call at hand, another in the next.
    Position(usize),
    /// Key and counter of the random generator: `u64[2]`, fresh for every call.
    RngState,
}

/// An input of the graph.
#[derive(Clone, Debug)]
pub struct Input {
    /// The name in the trace, or the qualified name of a parameter.
    pub name: String,
    /// What it is.
    pub kind: InputKind,
    /// Its `Op::Input` node.
    pub value: ValueId,
}

/// What an output of the graph is to the user.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum OutputKind {
    /// A result of the call.
    User,
    /// The next value of the input at this position, which the call mutates: the two may share memory.
    Mutation(usize),
}

impl OutputKind {
    /// The position of the input whose next value it is.
    pub fn mutated(&self) -> Option<usize> {
        match self {
            OutputKind::Mutation(input) => Some(*input),
            OutputKind::User => None,
        }
    }
}

/// An output of the graph.
#[derive(Clone, Debug)]
pub struct Output {
    /// The name in the trace.
    pub name: String,
    /// What it is.
    pub kind: OutputKind,
    /// The value handed out.
    pub value: ValueId,
}

/// A functional program over core ops. See the [crate] documentation.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// Name, a Rust-like identifier.
    pub name: String,
    nodes: Vec<Node>,
    /// Arguments in order.
    pub inputs: Vec<Input>,
    /// Results in order.
    pub outputs: Vec<Output>,
    /// Interned locations.
    pub locs: LocTable,
}

/// What a graph computes, for telling it apart from others: neither its names nor its locations, nor what its inputs stand for.
impl Hash for Graph {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.nodes.len().hash(state);
        for Node { op, operands, bodies, ty, loc: _ } in &self.nodes {
            (op, operands, bodies, ty).hash(state);
        }
        self.inputs.len().hash(state);
        self.inputs.iter().for_each(|input| input.value.hash(state));
        self.outputs.len().hash(state);
        self.outputs.iter().for_each(|output| (output.value, &output.kind).hash(state));
    }
}

impl Graph {
    /// An empty graph.
    pub fn new(name: impl Into<String>) -> Graph {
        Graph { name: name.into(), ..Graph::default() }
    }
    /// All nodes; a node's operands come before it.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }
    /// The node behind `v`.
    ///
    /// # Panics
    /// If `v` is of another graph and out of range.
    pub fn node(&self, v: ValueId) -> &Node {
        &self.nodes[v.index()]
    }
    /// The type of `v`.
    pub fn ty(&self, v: ValueId) -> &Type {
        &self.node(v).ty
    }
    /// The tensor type of `v`; `None` for a tuple.
    pub fn tensor_type(&self, v: ValueId) -> Option<&TensorType> {
        self.ty(v).tensor()
    }
    /// Appends a node as it stands. Use [`Builder`](crate::Builder) to have its type inferred.
    pub fn push(&mut self, node: Node) -> ValueId {
        let id = ValueId::new(self.nodes.len());
        self.nodes.push(node);
        id
    }
    /// Says where node `v` came from.
    ///
    /// # Panics
    /// If `v` is of another graph and out of range.
    pub fn set_loc(&mut self, v: ValueId, loc: LocId) {
        self.nodes[v.index()].loc = loc;
    }
    /// Types of the inputs, in order.
    pub fn input_types(&self) -> impl Iterator<Item = &Type> {
        self.inputs.iter().map(|i| self.ty(i.value))
    }
    /// Types of the outputs, in order.
    pub fn output_types(&self) -> impl Iterator<Item = &Type> {
        self.outputs.iter().map(|o| self.ty(o.value))
    }

    /// Positions of the inputs whose next values are among the outputs, in order.
    pub fn mutated_inputs(&self) -> Vec<usize> {
        let mut mutated: Vec<usize> = self.outputs.iter().filter_map(|output| output.kind.mutated()).collect();
        mutated.sort_unstable();
        mutated
    }

    /// The graph without nodes that no output needs. Inputs stay, used or not: they are the calling convention.
    pub fn without_dead_nodes(&self) -> Graph {
        let live = self.live();
        let mut kept = Graph { name: self.name.clone(), locs: self.locs.clone(), ..Graph::default() };
        let mut map = vec![ValueId::new(0); self.nodes.len()];
        for (i, node) in self.nodes.iter().enumerate().filter(|(i, _)| live[*i]) {
            let mut node = node.clone();
            node.operands.iter_mut().for_each(|v| *v = map[v.index()]);
            map[i] = kept.push(node);
        }
        kept.inputs = self.inputs.iter().map(|i| Input { value: map[i.value.index()], ..i.clone() }).collect();
        kept.outputs = self.outputs.iter().map(|o| Output { value: map[o.value.index()], ..o.clone() }).collect();
        kept
    }

    /// This graph with each body as `each` makes it, which gets the location of the node that holds it; a body that several
    /// nodes share is made once. Bodies of what the host computes, or a TPU by a routine, stay as they are: nobody runs them.
    ///
    /// # Errors
    /// Those of `each`.
    pub fn map_bodies<E>(&self, mut each: impl FnMut(&Graph, LocId) -> Result<Graph, E>) -> Result<Graph, E> {
        let mut known: FxHashMap<*const Graph, Arc<Graph>> = FxHashMap::default();
        let mut graph = self.clone();
        let is_run = |node: &&mut Node| match node.op {
            Op::Lapack { host, .. } | Op::Grouped { host, .. } => !host,
            Op::Routine(_) | Op::HostRows => false,
            _ => true,
        };
        for node in graph.nodes.iter_mut().filter(is_run) {
            for body in &mut node.bodies {
                let made = match known.entry(Arc::as_ptr(body)) {
                    Entry::Occupied(made) => made.get().clone(),
                    Entry::Vacant(free) => free.insert(Arc::new(each(body, node.loc)?)).clone(),
                };
                *body = made;
            }
        }
        Ok(graph)
    }

    /// This graph without nodes that no output needs, inputs included; and the former positions of the inputs that stay.
    /// Mutations of inputs that are gone become plain outputs.
    pub fn without_unused_inputs(&self) -> (Graph, Vec<usize>) {
        let mut used = vec![false; self.nodes.len()];
        self.outputs.iter().for_each(|o| used[o.value.index()] = true);
        for i in (0..self.nodes.len()).rev() {
            if used[i] {
                self.nodes[i].operands.iter().for_each(|v| used[v.index()] = true);
            }
        }
        let kept: Vec<usize> = (0..self.inputs.len()).filter(|&i| used[self.inputs[i].value.index()]).collect();
        let mut graph = self.clone();
        graph.inputs = kept.iter().map(|&i| self.inputs[i].clone()).collect();
        for (index, input) in graph.inputs.iter().enumerate() {
            graph.nodes[input.value.index()].op = Op::Input { index };
        }
        for output in &mut graph.outputs {
            if let OutputKind::Mutation(input) = output.kind {
                let place = kept.iter().position(|&k| k == input);
                output.kind = place.map_or(OutputKind::User, OutputKind::Mutation);
            }
        }
        (graph.without_dead_nodes(), kept)
    }

    fn live(&self) -> Vec<bool> {
        let mut live = vec![false; self.nodes.len()];
        for v in self.inputs.iter().map(|i| i.value).chain(self.outputs.iter().map(|o| o.value)) {
            live[v.index()] = true;
        }
        for i in (0..self.nodes.len()).rev() {
            if live[i] {
                self.nodes[i].operands.iter().for_each(|v| live[v.index()] = true);
            }
        }
        live
    }
}

#[cfg(test)]
#[allow(clippy::expect_used)]
mod tests {
    use super::*;
    use crate::{Builder, DType, Result};

    fn body(name: &str) -> Graph {
        let b = Builder::new(name);
        let x = b.input("x", InputKind::User, TensorType::new(DType::F32, [2]));
        b.output("y", OutputKind::User, x);
        b.finish()
    }

    #[test]
    fn a_body_that_nodes_share_is_made_once() {
        let b = Builder::new("outer");
        let chosen = b.input("chosen", InputKind::User, TensorType::new(DType::Bool, []));
        let x = b.input("x", InputKind::User, TensorType::new(DType::F32, [2]));
        let (shared, other) = (Arc::new(body("shared")), Arc::new(body("other")));
        for bodies in [[&shared, &shared], [&other, &shared]] {
            let made = b.push(Op::If, &[chosen, x], bodies.map(Arc::clone).to_vec()).expect("a branch");
            b.output("y", OutputKind::User, made);
        }
        let mut asked = vec![];
        let mapped = b.finish().map_bodies(|body, _| -> Result<Graph> {
            asked.push(body.name.clone());
            Ok(Graph { name: format!("{} again", body.name), ..body.clone() })
        });
        assert_eq!(asked, ["shared", "other"]);
        let names: Vec<String> =
            mapped.expect("a graph").nodes().iter().flat_map(|n| &n.bodies).map(|b| b.name.clone()).collect();
        assert_eq!(names, ["shared again", "shared again", "other again", "shared again"]);
    }
}
