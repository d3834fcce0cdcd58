//! One window of a graph: encoded, saturated, and the cheapest equal program taken out again.

use crate::analysis::{EGraph, encode};
use crate::change::{Change, Options};
use crate::extract::{Choice, Extractor, op_of};
use crate::language::{self, Head};
use crate::rule::Ready;
use crate::saturate::{Makers, Step, saturate};
use egg::{Id, Language};
use ir::{Graph, Node, Operands, Output, Result, ValueId};
use rustc_hash::{FxHashMap, FxHashSet};

/// What a window became.
#[derive(Clone)]
pub(crate) struct Optimized {
    /// The same inputs and outputs; locations are those of the window's nodes.
    pub(crate) graph: Graph,
    /// Rules of which something is in the graph, in order, with locations of the window's nodes.
    pub(crate) used: Vec<Change>,
    /// Steps that were taken on the way.
    pub(crate) steps: usize,
}

/// The cheapest program that the rules find to be equal to `graph` in at most so many steps.
///
/// # Errors
/// `Internal` if what comes out is not well-typed.
pub(crate) fn optimize(graph: &Graph, rules: &[Ready], options: Options, most: usize) -> Result<Optimized> {
    let (mut egraph, ids) = encode(graph, options.platform);
    let program = egraph.nodes().len();
    let steps = saturate(&mut egraph, rules, options.most, most);
    let unchanged = Optimized { graph: graph.clone(), used: vec![], steps: steps.len() };
    if steps.is_empty() {
        return Ok(unchanged);
    }
    let roots: Vec<Id> = graph.outputs.iter().map(|o| egraph.find(ids[o.value.index()])).collect();
    let places = Places::new(&egraph);
    let first = original(&places, &ids);
    let makers = Makers::new(&egraph, &steps);
    let extractor = Extractor::new(&egraph, &roots, options.platform);
    let choice = extractor.best(&first, &moves(&places, &steps));
    let Some(order) = extractor.order(&choice) else { return Ok(unchanged) };
    let quiet = quiet(&places, &choice, &order, &steps, program);
    let made = order.iter().filter_map(|id| makers.of(&egraph[*id].nodes[choice[id]]));
    let used = used(&egraph, &choice, made.chain(quiet), &steps, rules);
    Ok(Optimized { graph: decode(&egraph, graph, &choice, &order, &ids), used, steps: steps.len() })
}

/// The program's own e-nodes.
pub(crate) fn original(places: &Places<'_>, ids: &[Id]) -> Choice {
    let mut choice = Choice::default();
    for &id in ids {
        // Of two nodes that turned out equal, the earlier: it cannot need the later.
        choice.entry(places.egraph.find(id)).or_insert_with(|| places.of(usize::from(id)).unwrap_or(0));
    }
    choice
}

/// Where each e-node stands in its e-class.
pub(crate) struct Places<'e> {
    egraph: &'e EGraph,
    known: FxHashMap<&'e language::Node, usize>,
}

impl<'e> Places<'e> {
    /// Linear in the e-nodes: classes can be large, and every step asks.
    pub(crate) fn new(egraph: &'e EGraph) -> Places<'e> {
        let placed = egraph.classes().flat_map(|class| class.nodes.iter().enumerate());
        Places { egraph, known: placed.map(|(place, node)| (node, place)).collect() }
    }

    /// Of the e-node that was added under this number.
    fn of(&self, id: usize) -> Option<usize> {
        let now = self.egraph.nodes()[id].clone().map_children(|c| self.egraph.find(c));
        self.known.get(&now).copied()
    }
}

/// What each step would change: the e-node that it made for the e-class it rewrote, and those that this one needs.
pub(crate) fn moves(places: &Places<'_>, steps: &[Step]) -> Vec<Vec<(Id, usize)>> {
    let place = |id: usize| Some((places.egraph.find(Id::from(id)), places.of(id)?));
    steps.iter().map(|step| (step.nodes.0..step.nodes.1).filter_map(place).collect()).collect()
}

/// Steps that made nothing new, such as `x * 1` to `x`: they show in an op of the program being gone.
fn quiet(places: &Places<'_>, choice: &Choice, order: &[Id], steps: &[Step], program: usize) -> Vec<usize> {
    let needed: FxHashSet<Id> = order.iter().copied().collect();
    let gone = |s: &Step| {
        let (class, op) = (places.egraph.find(s.root), usize::from(s.root));
        op < program && needed.contains(&class) && places.of(op) != choice.get(&class).copied()
    };
    steps.iter().enumerate().filter(|(_, s)| s.nodes.0 == s.nodes.1 && gone(s)).map(|(n, _)| n).collect()
}

/// The rules behind these steps, in the order in which they were used.
fn used(
    egraph: &EGraph,
    choice: &Choice,
    numbers: impl Iterator<Item = usize>,
    steps: &[Step],
    rules: &[Ready],
) -> Vec<Change> {
    let mut numbers: Vec<usize> = numbers.collect::<FxHashSet<_>>().into_iter().collect();
    numbers.sort_unstable();
    let of = |n: usize| {
        let (step, rule) = (&steps[n], rules[steps[n].rule].rule);
        let class = &egraph[egraph.find(step.root)];
        let made = egraph.nodes()[step.nodes.0..step.nodes.1].iter();
        let mut after: Vec<Head> = made.map(|n| n.head).filter(|h| !matches!(h, Head::Attributes(_))).collect();
        if after.is_empty() {
            after.extend(choice.get(&class.id).map(|&n| class.nodes[n].head));
        }
        let before = egraph.nodes()[usize::from(step.root)].head;
        Change { rule: rule.name, class: rule.class, locs: vec![class.data.loc], before, after }
    };
    numbers.into_iter().map(of).collect()
}

fn decode(egraph: &EGraph, graph: &Graph, choice: &Choice, order: &[Id], ids: &[Id]) -> Graph {
    let mut made = Graph::new(graph.name.clone());
    let mut values: FxHashMap<Id, ValueId> = FxHashMap::default();
    for input in &graph.inputs {
        let value = made.push(graph.node(input.value).clone());
        made.inputs.push(ir::Input { value, ..input.clone() });
        values.insert(egraph.find(ids[input.value.index()]), value);
    }
    for id in order {
        if values.contains_key(id) {
            continue;
        }
        let class = &egraph[*id];
        let node = &class.nodes[choice[id]];
        let Some((op, bodies)) = op_of(egraph, node) else { continue };
        let operands: Operands = node.operands().iter().map(|c| values[c]).collect();
        let node = Node { op: (*op).clone(), operands, bodies, ty: class.data.ty.clone(), loc: class.data.loc };
        values.insert(*id, made.push(node));
    }
    let place = |o: &Output| Output { value: values[&egraph.find(ids[o.value.index()])], ..o.clone() };
    made.outputs = graph.outputs.iter().map(place).collect();
    made
}
