//! Runs the rules on an e-graph until nothing new comes of it or a limit is reached.
//!
//! The limits are counts, never times, and rules run in the order of the table, so the same graph gives the same e-graph.

use crate::analysis::EGraph;
use crate::change::Class;
use crate::rule::{Member, Ready};
use egg::{Id, Language, Searcher};

/// Rounds over all rules at most.
const ITERATIONS: usize = 6;
/// E-nodes at most, as a multiple of those of the graph, and a few more.
const GROWTH: usize = 8;
const SLACK: usize = 2000;

/// One use of a rule.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// The position of the rule among those that were run.
    pub(crate) rule: usize,
    /// The e-class that was rewritten, one of them if it was several.
    pub(crate) root: Id,
    /// The first e-node that was added for it, and one past the last, as egg numbers them.
    pub(crate) nodes: (usize, usize),
}

/// Applies `rules` of at most class `class` to `egraph` until it took `most` steps; gives the steps, in order.
pub(crate) fn saturate(egraph: &mut EGraph, rules: &[Ready], class: Class, most: usize) -> Vec<Step> {
    let limit = egraph.total_size() * GROWTH + SLACK;
    let mut steps = vec![];
    for _ in 0..ITERATIONS {
        let before = steps.len();
        for (number, ready) in rules.iter().enumerate().filter(|(_, r)| r.rule.class <= class) {
            if egraph.total_size() > limit || steps.len() >= most {
                return steps;
            }
            run(egraph, number, ready, most, &mut steps);
        }
        if steps.len() == before {
            break;
        }
    }
    steps
}

fn run(egraph: &mut EGraph, number: usize, ready: &Ready, most: usize, steps: &mut Vec<Step>) {
    for member in &ready.members {
        run_member(egraph, number, ready, member, most, steps);
    }
}

fn run_member(egraph: &mut EGraph, number: usize, ready: &Ready, member: &Member, most: usize, steps: &mut Vec<Step>) {
    for found in member.left.search(egraph) {
        for subst in &found.substs {
            if steps.len() >= most {
                break;
            }
            let root = egraph.find(found.eclass);
            let start = egraph.nodes().len();
            egraph.analysis.loc = egraph[root].data.loc;
            let equal = ready.apply(member, egraph, root, subst);
            let nodes = (start, egraph.nodes().len());
            let mut news = false;
            for (left, right) in equal {
                let same = egraph[left].data.ty == egraph[right].data.ty;
                debug_assert!(same, "rule {} changes a type", ready.rule.name);
                news |= same && egraph.union(left, right);
            }
            if news {
                steps.push(Step { rule: number, root, nodes });
            }
        }
    }
    if !egraph.clean {
        egraph.rebuild(); // a match that was declined may have added nodes too
    }
}

/// The step that made each e-node, by what the e-node is now; `None` for those of the program.
pub(crate) struct Makers {
    known: rustc_hash::FxHashMap<crate::language::Node, Option<usize>>,
}

impl Makers {
    pub(crate) fn new(egraph: &EGraph, steps: &[Step]) -> Makers {
        let mut known = rustc_hash::FxHashMap::default();
        let mut next = 0;
        for (id, node) in egraph.nodes().iter().enumerate() {
            while next < steps.len() && steps[next].nodes.1 <= id {
                next += 1;
            }
            let maker = steps.get(next).filter(|s| s.nodes.0 <= id).map(|_| next);
            let now = node.clone().map_children(|c| egraph.find(c));
            known.entry(now).or_insert(maker);
        }
        Makers { known }
    }
    /// The step that first made `node`, whose children are canonical.
    pub(crate) fn of(&self, node: &crate::language::Node) -> Option<usize> {
        self.known.get(node).copied().flatten()
    }
}
