//! What is overwritten in place, read first.
//!
//! A training step that takes over its weights' memory overwrites a weight as soon as its gradient is there. The gradient of
//! what the weight was multiplied with reads it, too, and nothing says which of the two comes first: so XLA copies every weight
//! when the step begins, and keeps the copies. Where both gradients are products of the same tensor, the weight's waits for the
//! other: that has to be computed anyway, and the copy is gone.

use super::rebuild::Rebuild;
use crate::measure::{bytes, is_elementwise};
use crate::{Change, Changes, Class, Head};
use ir::{Graph, LocId, Node, Op, OutputKind, Result, ValueId};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::{BTreeMap, BTreeSet};

/// Name, class and reason.
pub(super) const TOLD: (&str, Class, &str) =
    ("read-before-overwritten", Class::Exact, "XLA copies a weight that may be overwritten before it was read");

/// Bytes of a weight from which a copy costs more than a call of the host.
const LEAST: u64 = 1 << 10;
/// Nodes between a weight's next value and its gradient, beyond which that is not looked for.
const FARTHEST: usize = 64;

/// `graph`, for a platform where the host takes calls, with gradients that wait for the last reader of what they change.
pub(super) fn ordered(graph: &Graph, changes: &mut Changes, within: Option<LocId>) -> Result<Graph> {
    let mut waits = if changes.allows(TOLD.1) { waits(graph) } else { BTreeMap::new() };
    if waits.is_empty() {
        return Ok(graph.clone());
    }
    let order = order(graph, &mut waits);
    let mut to = Rebuild::of(graph);
    let mut places: Vec<Option<ValueId>> = vec![None; graph.nodes().len()];
    for v in order {
        let node = graph.node(v);
        let place = |v: ValueId| places[v.index()].ok_or_else(|| ir::Error::internal("an operand is not there yet"));
        let operands = node.operands.iter().map(|&v| place(v)).collect::<Result<_>>()?;
        let mut made = to.push_node(Node { operands, ..node.clone() });
        if let Some(readers) = waits.get(&v) {
            let operands = readers.iter().map(|&v| place(v)).collect::<Result<Vec<_>>>()?;
            to.set_loc(node.loc);
            made = to.push(Op::HostBarrier, &[&[made][..], &operands].concat())?;
            let (locs, before) = (vec![within.unwrap_or(node.loc)], Head::of(&node.op));
            let after = vec![before, Head::of(&Op::HostBarrier)];
            changes.push(Change { rule: TOLD.0, class: TOLD.1, locs, before, after });
        }
        places[v.index()] = Some(made);
    }
    Ok(to.finish_with(graph, |v| places[v.index()].unwrap_or(v)))
}

/// By gradient, what it waits for.
type Waits = BTreeMap<ValueId, Vec<ValueId>>;

fn waits(graph: &Graph) -> Waits {
    let mut readers: FxHashMap<ValueId, Vec<Reader>> = FxHashMap::default();
    let mutated = graph.outputs.iter().filter_map(|o| match o.kind {
        OutputKind::Mutation(input) => Some((graph.inputs.get(input)?.value, o.value)),
        OutputKind::User => None,
    });
    let mutated: Vec<(ValueId, ValueId)> =
        mutated.filter(|(weight, _)| bytes(&graph.node(*weight).ty) >= LEAST).collect();
    mutated.iter().for_each(|(weight, _)| drop(readers.insert(*weight, vec![])));
    for (i, node) in graph.nodes().iter().enumerate().filter(|_| !mutated.is_empty()) {
        let Some(of) = factors(graph, node) else { continue };
        for (weight, with) in [(of[0], of[1]), (of[1], of[0])] {
            if let Some(readers) = readers.get_mut(&weight) {
                readers.push(Reader { value: ValueId::new(i), with });
            }
        }
    }
    let mut waits = Waits::new();
    for (weight, next) in mutated {
        let readers = readers.get(&weight).map(Vec::as_slice).unwrap_or_default();
        for gradient in if readers.is_empty() { vec![] } else { products_behind(graph, next) } {
            let late = readers.iter().filter(|reader| reader.comes_with(graph, gradient)).map(|reader| reader.value);
            waits.entry(gradient).or_default().extend(late);
        }
    }
    waits.retain(|_, readers| !readers.is_empty());
    waits
}

/// A product of a weight and something.
struct Reader {
    value: ValueId,
    with: ValueId,
}

impl Reader {
    /// Whether this and `gradient` are both gradients of one product. That product itself was multiplied with a factor of
    /// `gradient`, too, but before the other factor was there.
    fn comes_with(&self, graph: &Graph, gradient: ValueId) -> bool {
        let Some([a, b]) = factors(graph, graph.node(gradient)) else { return false };
        let added = graph.node(self.value).operands.iter().skip(2);
        let follows = |earlier: ValueId, of: ValueId| self.with == of && earlier < self.value;
        (follows(a, b) || follows(b, a)) && self.value != gradient && added.into_iter().all(|&v| v < gradient)
    }
}

/// What a product multiplies, whatever its layout and type there.
fn factors(graph: &Graph, node: &Node) -> Option<[ValueId; 2]> {
    let is_product = matches!(node.op, Op::DotGeneral(_) | Op::Convolution(_) | Op::Finished(_));
    is_product.then(|| [0, 1].map(|i| as_it_lies(graph, node.operands[i])))
}

fn as_it_lies(graph: &Graph, mut value: ValueId) -> ValueId {
    loop {
        let node = graph.node(value);
        match node.op {
            Op::Transpose { .. } | Op::Reshape { .. } | Op::Reverse { .. } | Op::Convert { .. } => {
                value = node.operands[0];
            }
            _ => return value,
        }
    }
}

/// The products that `next` is computed of, element by element.
fn products_behind(graph: &Graph, next: ValueId) -> Vec<ValueId> {
    let (mut open, mut seen, mut found) = (vec![next], FxHashSet::default(), vec![]);
    while let Some(v) = open.pop() {
        if seen.len() >= FARTHEST || !seen.insert(v) {
            continue;
        }
        let node = graph.node(v);
        match node.op {
            Op::DotGeneral(_) | Op::Convolution(_) | Op::Finished(_) => found.push(v),
            Op::Transpose { .. } | Op::Reshape { .. } | Op::Reverse { .. } => open.extend(&node.operands),
            ref op if is_elementwise(op) => open.extend(&node.operands),
            _ => {}
        }
    }
    found
}

/// The nodes of `graph`, each behind its operands and what these `waits` say, as they stood otherwise. Where two nodes wait
/// for each other, as the gradients of two weights that are multiplied do, the first waits no longer.
fn order(graph: &Graph, waits: &mut Waits) -> Vec<ValueId> {
    let count = graph.nodes().len();
    let (mut missing, mut behind) = (vec![0; count], vec![vec![]; count]);
    for v in (0..count).map(ValueId::new) {
        let waited = waits.get(&v).map(Vec::as_slice).unwrap_or_default();
        for before in graph.node(v).operands.iter().chain(waited) {
            missing[v.index()] += 1;
            behind[before.index()].push(v);
        }
    }
    let mut ready: BTreeSet<ValueId> = (0..count).filter(|&i| missing[i] == 0).map(ValueId::new).collect();
    let (mut order, mut done, mut first) = (Vec::with_capacity(count), vec![false; count], 0);
    while order.len() < count {
        let v = ready.pop_first().unwrap_or_else(|| {
            // The operands of the first that is left are all there.
            first += done[first..].iter().take_while(|&&done| done).count();
            waits.remove(&ValueId::new(first));
            ValueId::new(first)
        });
        done[v.index()] = true;
        order.push(v);
        for &next in &behind[v.index()] {
            missing[next.index()] -= 1;
            if missing[next.index()] == 0 && !done[next.index()] {
                ready.insert(next);
            }
        }
    }
    order
}
