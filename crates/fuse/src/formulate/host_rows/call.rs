//! A graph being built in which the host is called for some nodes of another.

use crate::Change;
use ir::{Error, Graph, Input, InputKind, LocId, Node, Op, Operands, Output, Result, Type, ValueId};
use rustc_hash::FxHashSet;
use std::sync::Arc;

/// What was done to `nodes`, in `within` if that is a body; the call stands for `first`.
pub(in crate::formulate) fn told(
    (rule, class, _): (&'static str, crate::Class, &'static str),
    graph: &Graph,
    nodes: &[usize],
    first: usize,
    within: Option<LocId>,
) -> Change {
    let mut known = FxHashSet::default();
    let locs = nodes.iter().map(|&node| within.unwrap_or(graph.nodes()[node].loc));
    let locs = locs.filter(|&loc| known.insert(loc)).collect();
    let before = crate::Head::of(&graph.nodes()[first].op);
    Change { rule, class, locs, before, after: vec![crate::Head::of(&Op::HostRows)] }
}

/// The graph, and where the nodes of the other one stand in it.
pub(in crate::formulate) struct Calling<'g> {
    graph: &'g Graph,
    to: Graph,
    places: Vec<Option<ValueId>>,
}

impl<'g> Calling<'g> {
    pub(in crate::formulate) fn of(graph: &'g Graph) -> Calling<'g> {
        let mut to = Graph::new(graph.name.clone());
        to.locs = graph.locs.clone();
        Calling { graph, to, places: vec![None; graph.nodes().len()] }
    }

    fn place(&self, v: ValueId) -> Result<ValueId> {
        self.places[v.index()].ok_or_else(|| Error::internal("a value that is read before it is made"))
    }

    /// Whether all is there that node `i` reads.
    pub(in crate::formulate) fn has_operands(&self, i: usize) -> bool {
        self.graph.nodes()[i].operands.iter().all(|v| self.places[v.index()].is_some())
    }

    /// Node `i` stands as it is.
    pub(in crate::formulate) fn keep(&mut self, i: usize) -> Result<()> {
        let node = &self.graph.nodes()[i];
        let operands = node.operands.iter().map(|&v| self.place(v)).collect::<Result<Operands>>()?;
        self.places[i] = Some(self.to.push(Node { operands, ..node.clone() }));
        Ok(())
    }

    /// The host is called for `body` of `given`, from where node `first` came, which stands for the nodes of `gives`.
    pub(in crate::formulate) fn call(
        &mut self,
        first: usize,
        body: Graph,
        given: &[ValueId],
        gives: &[usize],
    ) -> Result<()> {
        let operands = given.iter().map(|&v| self.place(v)).collect::<Result<Operands>>()?;
        let types = body.output_types().filter_map(Type::tensor).cloned().collect();
        let (loc, bodies) = (self.graph.nodes()[first].loc, vec![Arc::new(body)]);
        let call = self.to.push(Node { op: Op::HostRows, operands, bodies, ty: Type::Tuple(types), loc });
        for (index, &value) in gives.iter().enumerate() {
            let (op, node) = (Op::GetTupleElement { index }, &self.graph.nodes()[value]);
            let operands = Operands::from_slice(&[call]);
            let made = Node { op, operands, bodies: vec![], ty: node.ty.clone(), loc: node.loc };
            self.places[value] = Some(self.to.push(made));
        }
        Ok(())
    }

    /// The graph, with the inputs and outputs of the other one.
    pub(in crate::formulate) fn finish(mut self) -> Result<Graph> {
        let inputs = self.graph.inputs.iter().map(|i| Ok(Input { value: self.place(i.value)?, ..i.clone() }));
        let inputs = inputs.collect::<Result<_>>()?;
        let outputs = self.graph.outputs.iter().map(|o| Ok(Output { value: self.place(o.value)?, ..o.clone() }));
        let outputs = outputs.collect::<Result<_>>()?;
        (self.to.inputs, self.to.outputs) = (inputs, outputs);
        Ok(self.to.without_dead_nodes())
    }
}

/// The body of a call being built, and what it is given.
pub(in crate::formulate) struct Asked {
    pub(in crate::formulate) to: Graph,
    pub(in crate::formulate) given: Vec<ValueId>,
}

impl Asked {
    pub(in crate::formulate) fn named(name: &str) -> Asked {
        Asked { to: Graph::new(name), given: vec![] }
    }

    /// `node` again, of these operands.
    pub(in crate::formulate) fn again(&mut self, node: &Node, operands: &[ValueId]) -> ValueId {
        let operands = Operands::from_slice(operands);
        self.to.push(Node { operands, loc: LocId::UNKNOWN, ..node.clone() })
    }

    /// A new input, which is given `v` of `graph`.
    pub(in crate::formulate) fn input(&mut self, graph: &Graph, v: ValueId) -> ValueId {
        let index = self.given.len();
        self.given.push(v);
        let (op, ty) = (Op::Input { index }, graph.ty(v).clone());
        let node = Node { op, operands: Operands::new(), bodies: vec![], ty, loc: LocId::UNKNOWN };
        let value = self.to.push(node);
        self.to.inputs.push(Input { name: format!("given{index}"), kind: InputKind::User, value });
        value
    }

    /// A new output.
    pub(in crate::formulate) fn give(&mut self, kind: ir::OutputKind, value: ValueId) {
        let name = format!("made{}", self.to.outputs.len());
        self.to.outputs.push(Output { name, kind, value });
    }
}
