//! Chooses an e-node for every e-class that is needed, so that together they cost least.
//!
//! What is shared is paid for once, which is why egg's extractor, which prices trees, is not used. From the program's own
//! choice, moves are tried one after the other and kept if the whole gets cheaper: the choice that a bottom-up pass over
//! sets of e-classes gives, then every step that a rule made. A step that needs several e-classes changed at once, such as
//! the merging of products, is one move. The result never costs more than the program did.

use crate::analysis::{Data, EGraph, attributes};
use crate::change::Platform;
use crate::cost::cost;
use crate::language::{Head, Node};
use egg::{EClass, Id};
use ir::{Graph, Op, Type};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::Arc;

/// The e-node chosen of each e-class, by its position in the e-class.
pub(crate) type Choice = FxHashMap<Id, usize>;

/// Rounds of moves at most.
const ROUNDS: usize = 4;
/// Rounds of the bottom-up pass at most.
const PASSES: usize = 12;

/// Costs of the e-nodes of an e-graph.
pub(crate) struct Extractor<'a> {
    egraph: &'a EGraph,
    roots: Vec<Id>,
    costs: FxHashMap<Id, Vec<u64>>,
}

impl<'a> Extractor<'a> {
    pub(crate) fn new(egraph: &'a EGraph, roots: Vec<Id>, platform: Platform) -> Extractor<'a> {
        let price = |node: &Node, ty: &Type| node_cost(egraph, node, ty, platform);
        let prices = |class: &EClass<Node, Data>| class.nodes.iter().map(|n| price(n, &class.data.ty)).collect();
        let costs = egraph.classes().map(|class| (class.id, prices(class))).collect();
        Extractor { egraph, roots, costs }
    }

    /// The best choice found from `first`, which has to be acyclic; `moves` are tried in order.
    pub(crate) fn best(&self, first: Choice, moves: &[Vec<(Id, usize)>]) -> Choice {
        let Some(mut least) = self.total(&first) else { return first };
        let mut best = first;
        let consider = |least: &mut u64, best: &mut Choice, next: Choice| match self.total(&next) {
            Some(total) if total < *least => {
                (*least, *best) = (total, next);
                true
            }
            _ => false,
        };
        let cheap = self.bottom_up(&best);
        consider(&mut least, &mut best, cheap);
        for _ in 0..ROUNDS {
            let mut better = false;
            for step in moves.iter().filter(|m| !m.is_empty()) {
                if step.iter().all(|(class, node)| best.get(class) == Some(node)) {
                    continue;
                }
                let mut next = best.clone();
                next.extend(step.iter().copied());
                better |= consider(&mut least, &mut best, next);
            }
            if !better {
                break;
            }
        }
        best
    }

    /// What the chosen e-nodes cost that the roots need; `None` if they need themselves, or one has no choice.
    pub(crate) fn total(&self, choice: &Choice) -> Option<u64> {
        let order = self.order(choice)?;
        Some(order.iter().map(|id| self.costs[id][choice[id]]).sum())
    }

    /// The e-classes that the roots need, operands first; `None` if there is no such order.
    pub(crate) fn order(&self, choice: &Choice) -> Option<Vec<Id>> {
        let (mut order, mut state) = (vec![], FxHashMap::default());
        let mut open: Vec<(Id, bool)> = self.roots.iter().rev().map(|&id| (id, false)).collect();
        while let Some((id, done)) = open.pop() {
            if done {
                state.insert(id, true);
                order.push(id);
                continue;
            }
            match state.get(&id) {
                Some(true) => continue,
                Some(false) => return None,
                None => {}
            }
            state.insert(id, false);
            open.push((id, true));
            let node = &self.egraph[id].nodes[*choice.get(&id)?];
            for &child in node.operands().iter().rev() {
                match state.get(&child) {
                    Some(true) => {}
                    Some(false) => return None,
                    None => open.push((child, false)),
                }
            }
        }
        Some(order)
    }

    /// For each e-class the e-node with the cheapest set of e-classes below it. Later choices may make earlier sums wrong
    /// and even close a circle: `total` is the judge.
    fn bottom_up(&self, fallback: &Choice) -> Choice {
        let ids: Vec<Id> = self.egraph.classes().map(|c| c.id).collect();
        let place: FxHashMap<Id, usize> = ids.iter().enumerate().map(|(i, &id)| (id, i)).collect();
        let mut below = Below { sets: vec![None; ids.len()], own: vec![0; ids.len()] };
        for _ in 0..PASSES {
            let mut better = false;
            for (i, &id) in ids.iter().enumerate() {
                for (n, node) in self.egraph[id].nodes.iter().enumerate() {
                    if !matches!(node.head, Head::Attributes(_)) {
                        let operands = node.operands().iter().map(|child| place[child]);
                        better |= below.improve(i, n, self.costs[&id][n], operands);
                    }
                }
            }
            if !better {
                break;
            }
        }
        let mut choice = fallback.clone();
        let chosen = |(&id, set): (&Id, &Option<Set>)| set.as_ref().map(|s| (id, s.node));
        choice.extend(ids.iter().zip(&below.sets).filter_map(chosen));
        choice
    }
}

/// The cheapest e-node found of an e-class, and the e-classes that it needs, itself included.
#[derive(Clone)]
struct Set {
    node: usize,
    total: u64,
    needs: Vec<u64>,
}

/// All of them, by the position of the e-class, and what the chosen e-nodes cost alone.
struct Below {
    sets: Vec<Option<Set>>,
    own: Vec<u64>,
}

impl Below {
    fn improve(&mut self, class: usize, node: usize, cost: u64, operands: impl Iterator<Item = usize>) -> bool {
        let mut needs = vec![0u64; self.sets.len().div_ceil(64)];
        for operand in operands {
            let Some(set) = &self.sets[operand] else { return false };
            needs.iter_mut().zip(&set.needs).for_each(|(to, from)| *to |= from);
        }
        if needs[class / 64] >> (class % 64) & 1 == 1 {
            return false;
        }
        let total = cost.saturating_add(bits(&needs).map(|k| self.own[k]).sum());
        if self.sets[class].as_ref().is_some_and(|s| s.total <= total) {
            return false;
        }
        needs[class / 64] |= 1 << (class % 64);
        self.own[class] = cost;
        self.sets[class] = Some(Set { node, total, needs });
        true
    }
}

/// Positions of the ones.
fn bits(words: &[u64]) -> impl Iterator<Item = usize> + '_ {
    words.iter().enumerate().flat_map(|(w, &word)| {
        let mut rest = word;
        std::iter::from_fn(move || {
            let bit = (rest != 0).then(|| rest.trailing_zeros() as usize)?;
            rest &= rest - 1;
            Some(w * 64 + bit)
        })
    })
}

/// The op of an e-node, and its bodies.
pub(crate) fn op_of(egraph: &EGraph, node: &Node) -> Option<(Arc<Op>, Vec<Arc<Graph>>)> {
    match node.head {
        Head::With(_) => attributes(egraph, *node.children.last()?).cloned(),
        head => Some((Arc::new(head.op()?), vec![])),
    }
}

fn node_cost(egraph: &EGraph, node: &Node, ty: &Type, platform: Platform) -> u64 {
    let Some((op, _)) = op_of(egraph, node) else { return 0 };
    let class = |id: &Id| &egraph[*id].data.ty;
    let args: SmallVec<[&Type; 4]> = node.operands().iter().map(class).collect();
    cost(platform, &op, &args, ty)
}
