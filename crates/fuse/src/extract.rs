//! Chooses an e-node for every e-class that is needed, so that together they cost least.
//!
//! What is shared is paid for once, which is why egg's extractor, which prices trees, is not used. From the program's own
//! choice, moves are tried one after the other and kept if the whole gets cheaper: what a bottom-up pass over sets of
//! e-classes chooses, every step that a rule made, every other e-node of an e-class that is needed, everything that could
//! read one e-class reading it, and everything that reads one doing without it. A step that needs several e-classes changed
//! at once, such as the merging of products, is one move, and so are its ways back: parts of a product, each cheaper than
//! the whole, given up for slices of it, or the whole for its parts. What a move newly needs is what a bottom-up pass finds
//! cheapest beside what is paid for already. The result never costs more than the program did.

use crate::analysis::{Data, EGraph, attributes};
use crate::change::Platform;
use crate::cost::cost;
use crate::language::{Head, Node};
use egg::{EClass, Id};
use ir::{Graph, Op, Type};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// The e-node chosen of each e-class, by its position in the e-class.
pub(crate) type Choice = FxHashMap<Id, usize>;

/// Rounds of moves at most.
const ROUNDS: usize = 4;
/// Rounds of the bottom-up pass at most.
const PASSES: usize = 12;
/// What is chosen of an e-class of which nothing is.
const NOTHING: usize = usize::MAX;

/// The e-classes of an e-graph by number, with what their e-nodes cost.
pub(crate) struct Extractor {
    ids: Vec<Id>,
    place: FxHashMap<Id, usize>,
    nodes: Vec<Vec<Candidate>>,
    /// By e-class: the e-nodes that read it, the first of each e-class.
    readers: Vec<Vec<(usize, usize)>>,
    roots: Vec<usize>,
}

/// An e-node that may be chosen.
struct Candidate {
    cost: u64,
    operands: SmallVec<[usize; 3]>,
}

impl Extractor {
    pub(crate) fn new(egraph: &EGraph, roots: &[Id], platform: Platform) -> Extractor {
        let valued = |class: &&EClass<Node, Data>| !matches!(class.nodes[0].head, Head::Attributes(_));
        let ids: Vec<Id> = egraph.classes().filter(valued).map(|c| c.id).collect();
        let place: FxHashMap<Id, usize> = ids.iter().enumerate().map(|(i, &id)| (id, i)).collect();
        let candidate = |node: &Node, ty: &Type| Candidate {
            cost: node_cost(egraph, node, ty, platform),
            operands: node.operands().iter().map(|id| place[id]).collect(),
        };
        let all = |&id: &Id| egraph[id].nodes.iter().map(|n| candidate(n, &egraph[id].data.ty)).collect();
        let nodes: Vec<Vec<Candidate>> = ids.iter().map(all).collect();
        let roots = roots.iter().map(|id| place[id]).collect();
        Extractor { readers: readers(&nodes), ids, place, nodes, roots }
    }

    /// The best choice found from `first`, which has to be acyclic; `moves` are tried in order.
    pub(crate) fn best(&self, first: &Choice, moves: &[Vec<(Id, usize)>]) -> Choice {
        let mut picks = self.picks(first);
        let moves: Vec<Vec<(usize, usize)>> =
            moves.iter().map(|m| m.iter().filter_map(|(id, n)| Some((*self.place.get(id)?, *n))).collect()).collect();
        if let Some(mut search) = Search::new(self, picks.clone()) {
            search.run(&moves);
            picks = search.picks;
        }
        let chosen = |(i, &node): (usize, &usize)| (node != NOTHING).then(|| (self.ids[i], node));
        picks.iter().enumerate().filter_map(chosen).collect()
    }

    /// The e-classes that the roots need, operands first; `None` if there is no such order.
    pub(crate) fn order(&self, choice: &Choice) -> Option<Vec<Id>> {
        let mut walk = Walk::new(self.ids.len());
        walk.run(self, &self.picks(choice))?;
        Some(walk.order.iter().map(|&i| self.ids[i]).collect())
    }

    fn picks(&self, choice: &Choice) -> Vec<usize> {
        self.ids.iter().map(|id| choice.get(id).copied().unwrap_or(NOTHING)).collect()
    }

    /// For each e-class the e-node with the cheapest set of e-classes below it, those left out that are `paid` for. Later
    /// choices may make earlier sums wrong and even close a circle: whoever takes them has to look.
    fn bottom_up(&self, paid: &[bool]) -> Vec<usize> {
        let mut below = Below { sets: vec![None; self.ids.len()], own: vec![0; self.ids.len()] };
        for _ in 0..PASSES {
            let mut better = false;
            for (class, nodes) in self.nodes.iter().enumerate() {
                for (n, node) in nodes.iter().enumerate() {
                    better |= below.improve(class, n, node, paid);
                }
            }
            if !better {
                break;
            }
        }
        below.sets.iter().map(|set| set.as_ref().map_or(NOTHING, |s| s.node)).collect()
    }
}

fn readers(nodes: &[Vec<Candidate>]) -> Vec<Vec<(usize, usize)>> {
    let mut readers: Vec<Vec<(usize, usize)>> = vec![vec![]; nodes.len()];
    for (class, candidates) in nodes.iter().enumerate() {
        for (n, candidate) in candidates.iter().enumerate() {
            for &operand in &candidate.operands {
                if readers[operand].last().is_none_or(|&(last, _)| last != class) {
                    readers[operand].push((class, n));
                }
            }
        }
    }
    readers
}

/// The search for a cheaper choice.
struct Search<'a> {
    of: &'a Extractor,
    /// What is chosen of each e-class; of those that nothing needs, what would be if something did.
    picks: Vec<usize>,
    /// What the e-classes cost that the roots need.
    least: u64,
    walk: Walk,
}

impl<'a> Search<'a> {
    /// `None` if `picks` is no choice.
    fn new(of: &'a Extractor, picks: Vec<usize>) -> Option<Search<'a>> {
        let mut walk = Walk::new(picks.len());
        let least = walk.run(of, &picks)?;
        Some(Search { of, picks, least, walk })
    }

    fn run(&mut self, moves: &[Vec<(usize, usize)>]) {
        let cheap = self.of.bottom_up(&vec![false; self.picks.len()]);
        self.try_all(&cheap);
        for _ in 0..ROUNDS {
            let before = self.least;
            self.prepare();
            for step in moves {
                self.try_move(step);
            }
            self.prepare();
            for class in std::mem::take(&mut self.walk.order) {
                for node in 0..self.of.nodes[class].len() {
                    self.try_move(&[(class, node)]);
                }
            }
            self.share();
            self.separate();
            if self.least == before {
                break;
            }
        }
    }

    /// Lets all that could read an e-class which nothing needs read it.
    fn share(&mut self) {
        let of = self.of;
        let needed = self.prepare();
        for (class, readers) in of.readers.iter().enumerate().filter(|&(class, _)| !needed[class]) {
            let together: SmallVec<[(usize, usize); 8]> = readers.iter().copied().filter(|&(c, _)| needed[c]).collect();
            if together.len() > 1 && self.picks[class] != NOTHING {
                self.try_move(&together);
            }
        }
    }

    /// Lets all that reads an e-class do without it.
    fn separate(&mut self) {
        let of = self.of;
        let mut needed = self.prepare();
        for (class, readers) in of.readers.iter().enumerate() {
            let reads = |&&(c, _): &&(usize, usize)| needed[c] && of.nodes[c][self.picks[c]].operands.contains(&class);
            let reading: SmallVec<[usize; 8]> = readers.iter().filter(reads).map(|&(c, _)| c).collect();
            if !needed[class] || reading.len() < 2 {
                continue;
            }
            let without: Option<Vec<_>> = reading.iter().map(|&c| self.without(c, class, &needed)).collect();
            let before = self.least;
            without.into_iter().for_each(|apart| self.try_move(&apart));
            if self.least < before {
                needed = self.prepare();
            }
        }
    }

    /// The e-node of an e-class that takes least, of those that do not read `operand`.
    fn without(&self, class: usize, operand: usize, needed: &[bool]) -> Option<(usize, usize)> {
        let newly = |&&o: &&usize| !needed[o];
        let price = |node: &Candidate| {
            let below = node.operands.iter().filter(newly).map(|&o| Some(self.of.nodes[o].get(self.picks[o])?.cost));
            below.sum::<Option<u64>>().map(|sum| sum + node.cost)
        };
        let others = self.of.nodes[class].iter().enumerate().filter(|(_, node)| !node.operands.contains(&operand));
        let (_, least) = others.filter_map(|(n, node)| Some((price(node)?, n))).min()?;
        Some((class, least))
    }

    /// Chooses what would be cheapest of the e-classes that nothing needs now; gives those that something needs.
    fn prepare(&mut self) -> Vec<bool> {
        let mut needed = vec![false; self.picks.len()];
        if self.walk.run(self.of, &self.picks).is_none() {
            return needed; // never: only choices are kept
        }
        self.walk.order.iter().for_each(|&class| needed[class] = true);
        let cheap = self.of.bottom_up(&needed);
        for (class, pick) in cheap.into_iter().enumerate().filter(|&(class, _)| !needed[class]) {
            self.picks[class] = pick;
        }
        needed
    }

    fn try_all(&mut self, picks: &[usize]) {
        let changed = |(class, &pick): (usize, &usize)| (pick != NOTHING).then_some((class, pick));
        let all: Vec<(usize, usize)> = picks.iter().enumerate().filter_map(changed).collect();
        self.try_move(&all);
    }

    /// Changes these if the whole gets cheaper.
    fn try_move(&mut self, changes: &[(usize, usize)]) {
        if changes.iter().all(|&(class, node)| self.picks[class] == node) {
            return;
        }
        let old: SmallVec<[(usize, usize); 8]> = changes.iter().map(|&(class, _)| (class, self.picks[class])).collect();
        changes.iter().for_each(|&(class, node)| self.picks[class] = node);
        match self.walk.run(self.of, &self.picks) {
            Some(total) if total < self.least => self.least = total,
            _ => old.into_iter().rev().for_each(|(class, node)| self.picks[class] = node),
        }
    }
}

/// A walk over the e-classes that the roots need.
struct Walk {
    /// Operands first.
    order: Vec<usize>,
    /// The walk in which an e-class was last entered and left.
    entered: Vec<u32>,
    left: Vec<u32>,
    number: u32,
    open: Vec<(usize, bool)>,
}

impl Walk {
    fn new(classes: usize) -> Walk {
        Walk { order: vec![], entered: vec![0; classes], left: vec![0; classes], number: 0, open: vec![] }
    }

    /// What all of them cost; `None` if they need themselves, or one has no choice.
    fn run(&mut self, of: &Extractor, picks: &[usize]) -> Option<u64> {
        self.number += 1;
        self.order.clear();
        self.open.clear();
        self.open.extend(of.roots.iter().rev().map(|&class| (class, false)));
        let mut total = 0;
        while let Some((class, done)) = self.open.pop() {
            if done {
                self.left[class] = self.number;
                self.order.push(class);
                continue;
            }
            if self.left[class] == self.number {
                continue;
            }
            if self.entered[class] == self.number {
                return None;
            }
            self.entered[class] = self.number;
            self.open.push((class, true));
            let node = of.nodes[class].get(picks[class])?;
            total += node.cost;
            for &operand in node.operands.iter().rev() {
                if self.left[operand] == self.number {
                    continue;
                }
                if self.entered[operand] == self.number {
                    return None;
                }
                self.open.push((operand, false));
            }
        }
        Some(total)
    }
}

/// The cheapest e-node found of an e-class, and the e-classes that it needs, itself included.
#[derive(Clone)]
struct Set {
    node: usize,
    total: u64,
    needs: Vec<u64>,
}

/// All of them, by the e-class, and what the chosen e-nodes cost alone.
struct Below {
    sets: Vec<Option<Set>>,
    own: Vec<u64>,
}

impl Below {
    fn improve(&mut self, class: usize, n: usize, node: &Candidate, paid: &[bool]) -> bool {
        let mut needs = vec![0u64; self.sets.len().div_ceil(64)];
        for &operand in node.operands.iter().filter(|&&o| !paid[o]) {
            let Some(set) = &self.sets[operand] else { return false };
            needs.iter_mut().zip(&set.needs).for_each(|(to, from)| *to |= from);
        }
        if needs[class / 64] >> (class % 64) & 1 == 1 {
            return false;
        }
        let total = node.cost.saturating_add(bits(&needs).map(|k| self.own[k]).sum());
        if self.sets[class].as_ref().is_some_and(|s| s.total <= total) {
            return false;
        }
        needs[class / 64] |= 1 << (class % 64);
        self.own[class] = node.cost;
        self.sets[class] = Some(Set { node: n, total, needs });
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
