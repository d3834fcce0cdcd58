//! A graph in windows small enough for an e-graph each, so that time grows with the graph and not with its square.
//!
//! Windows are runs of nodes in program order, cut where few values are alive. Those that are alike, such as the layers
//! of a model, are optimized once. What a few ops make of constants, such as a causal mask, is made in every window that
//! reads it, so that rules see it; what two windows have in common is found at the end.

use crate::change::{Change, Changes};
use crate::measure::is_elementwise;
use crate::rule::Ready;
use crate::window::{self, Optimized};
use ir::{Graph, InputKind, LocId, Node, Op, Operands, Output, OutputKind, Result, ValueId};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Nodes of a window, at least and at most.
const LEAST: usize = 96;
const MOST: usize = 224;
/// Ops, at most, of what is made of constants in every window that reads it: a causal mask with the positions it compares
/// has 10 to 20.
const REMADE: usize = 24;

/// `graph` with every window optimized, bodies of loops and branches first. In a body, changes are told as made `within` the
/// node that holds it: locations of a body mean nothing outside.
///
/// # Errors
/// As [`window::optimize`].
pub(crate) fn optimize(graph: &Graph, rules: &[Ready], within: Option<LocId>, changes: &mut Changes) -> Result<Graph> {
    let graph = graph.map_bodies(|body, holder| optimize(body, rules, within.or(Some(holder)), changes))?;
    let mut joined = Joined::new(&graph, within);
    let mut seen: FxHashMap<String, Arc<Optimized>> = FxHashMap::default();
    let (reads, remade) = (last_reads(&graph), remade(&graph));
    for range in cut(&graph, &reads, &remade) {
        let window = Window::new(&graph, range, &reads, &remade);
        let key = ir::text::canonical(&window.graph);
        let mut optimized = match seen.get(&key) {
            Some(known) => known.clone(),
            None => Arc::new(window::optimize(&window.graph, rules, changes.options(), usize::MAX)?),
        };
        seen.insert(key, optimized.clone());
        // Only where the changes come to their limit: as many of the window's as there is room for.
        while optimized.used.len() > changes.room() {
            optimized = Arc::new(window::optimize(&window.graph, rules, changes.options(), optimized.steps - 1)?);
        }
        joined.add(&window, &optimized, changes);
    }
    Ok(joined.finish(&graph))
}

/// The position of the last node that reads each value; that of the end for outputs, of itself for what nothing reads.
fn last_reads(graph: &Graph) -> Vec<usize> {
    let mut last: Vec<usize> = (0..graph.nodes().len()).collect();
    for (i, node) in graph.nodes().iter().enumerate() {
        node.operands.iter().for_each(|v| last[v.index()] = i);
    }
    graph.outputs.iter().for_each(|o| last[o.value.index()] = graph.nodes().len());
    last
}

/// Whether each value is made again in every window that reads it: a few ops make it of nothing but constants.
fn remade(graph: &Graph) -> Vec<bool> {
    let mut sizes: Vec<Option<usize>> = Vec::with_capacity(graph.nodes().len());
    for node in graph.nodes() {
        let kind = matches!(
            node.op,
            Op::Constant(_) | Op::Iota { .. } | Op::BroadcastInDim { .. } | Op::Reshape { .. } | Op::Transpose { .. }
        );
        let below: Option<usize> = node.operands.iter().map(|v| sizes[v.index()]).sum();
        sizes.push(below.map(|n| n + 1).filter(|&n| n <= REMADE && (kind || is_elementwise(&node.op))));
    }
    sizes.into_iter().map(|size| size.is_some()).collect()
}

/// The windows, in order. Each ends where the fewest values are needed beyond, as far as its size allows.
fn cut(graph: &Graph, reads: &[usize], remade: &[bool]) -> Vec<std::ops::Range<usize>> {
    let count = graph.nodes().len();
    let mut alive = vec![0i64; count + 1];
    for (i, node) in graph.nodes().iter().enumerate() {
        if !remade[i] && !matches!(node.op, Op::Input { .. }) {
            alive[i] += 1;
            alive[reads[i].min(count)] -= 1;
        }
    }
    for i in 1..=count {
        alive[i] += alive[i - 1];
    }
    let (mut windows, mut start) = (vec![], 0);
    while count - start > MOST {
        let end = (start + LEAST..=start + MOST).min_by_key(|&end| alive[end - 1]).unwrap_or(start + MOST);
        windows.push(start..end);
        start = end;
    }
    windows.push(start..count);
    windows
}

/// A run of nodes as a graph of its own.
struct Window {
    graph: Graph,
    /// The value of the whole graph behind each input.
    inputs: Vec<ValueId>,
    /// The value of the whole graph that each output is.
    outputs: Vec<ValueId>,
    /// The location of each node, by the number that stands for it in the window: one more than its position.
    locs: Vec<LocId>,
}

impl Window {
    fn new(graph: &Graph, range: std::ops::Range<usize>, reads: &[usize], remade: &[bool]) -> Window {
        let mut window = Window { graph: Graph::new("window"), inputs: vec![], outputs: vec![], locs: vec![] };
        let mut known: FxHashMap<ValueId, ValueId> = FxHashMap::default();
        for i in range.clone() {
            let (value, node) = (ValueId::new(i), &graph.nodes()[i]);
            if matches!(node.op, Op::Input { .. }) {
                continue; // taken in by whoever reads it
            }
            let operands = node.operands.iter().map(|&v| window.value(graph, v, remade, &mut known)).collect();
            let made = window.push(node, operands);
            known.insert(value, made);
            if reads[i] >= range.end {
                window.outputs.push(value);
                let (name, kind) = (String::new(), OutputKind::User);
                window.graph.outputs.push(Output { name, kind, value: made });
            }
        }
        window
    }

    /// `v` in the window: a copy if it is made again, else an input, unless it was made here.
    fn value(
        &mut self,
        graph: &Graph,
        v: ValueId,
        remade: &[bool],
        known: &mut FxHashMap<ValueId, ValueId>,
    ) -> ValueId {
        if let Some(&there) = known.get(&v) {
            return there;
        }
        let node = graph.node(v);
        let made = if remade[v.index()] {
            let operands = node.operands.iter().map(|&o| self.value(graph, o, remade, known)).collect();
            self.push(node, operands)
        } else {
            self.input(node, v)
        };
        known.insert(v, made);
        made
    }

    fn push(&mut self, node: &Node, operands: Operands) -> ValueId {
        self.locs.push(node.loc);
        let loc = LocId::new(self.locs.len());
        self.graph.push(Node { operands, loc, ..node.clone() })
    }

    fn input(&mut self, node: &Node, v: ValueId) -> ValueId {
        let op = Op::Input { index: self.inputs.len() };
        let made = self.push(&Node { op, bodies: vec![], ..node.clone() }, Operands::new());
        self.inputs.push(v);
        self.graph.inputs.push(ir::Input { name: String::new(), kind: InputKind::User, value: made });
        made
    }
}

/// The optimized windows put together, equal nodes once.
struct Joined {
    graph: Graph,
    /// The value behind each value of the graph that was optimized.
    values: Vec<ValueId>,
    known: FxHashMap<(Op, Operands, Vec<usize>), ValueId>,
    within: Option<LocId>,
}

impl Joined {
    fn new(graph: &Graph, within: Option<LocId>) -> Joined {
        let mut made = Graph::new(graph.name.clone());
        made.locs = graph.locs.clone();
        let mut values = vec![ValueId::new(0); graph.nodes().len()];
        for input in &graph.inputs {
            let value = made.push(graph.node(input.value).clone());
            values[input.value.index()] = value;
            made.inputs.push(ir::Input { value, ..input.clone() });
        }
        Joined { graph: made, values, known: FxHashMap::default(), within }
    }

    fn add(&mut self, window: &Window, optimized: &Optimized, changes: &mut Changes) {
        let place = |loc: LocId| loc.index().checked_sub(1).map_or(LocId::UNKNOWN, |i| window.locs[i]);
        for change in &optimized.used {
            let locs = change.locs.iter().map(|&l| self.within.unwrap_or_else(|| place(l))).collect();
            changes.push(Change { locs, ..change.clone() });
        }
        let source = &optimized.graph;
        let mut values: Vec<ValueId> = Vec::with_capacity(source.nodes().len());
        for node in source.nodes() {
            values.push(match node.op {
                Op::Input { index } => self.values[window.inputs[index].index()],
                _ => self.push(node, place(node.loc), &values),
            });
        }
        for (output, &value) in source.outputs.iter().zip(&window.outputs) {
            self.values[value.index()] = values[output.value.index()];
        }
    }

    fn push(&mut self, node: &Node, loc: LocId, values: &[ValueId]) -> ValueId {
        let operands: Operands = node.operands.iter().map(|v| values[v.index()]).collect();
        let bodies = node.bodies.iter().map(|b| Arc::as_ptr(b) as usize).collect();
        let key = (node.op.clone(), operands.clone(), bodies);
        if let Some(&known) = self.known.get(&key) {
            return known;
        }
        let value = self.graph.push(Node { operands, loc, ..node.clone() });
        self.known.insert(key, value);
        value
    }

    fn finish(mut self, graph: &Graph) -> Graph {
        let place = |o: &Output| Output { value: self.values[o.value.index()], ..o.clone() };
        self.graph.outputs = graph.outputs.iter().map(place).collect();
        self.graph.without_dead_nodes()
    }
}
