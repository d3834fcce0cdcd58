//! Which values of a trace are read more than once.

use super::{Importer, Views, call, survey};
use crate::ops::{Entry, Rule, Variant};
use crate::trace::schema::{Graph, Node};
use rustc_hash::{FxHashMap, FxHashSet};

impl<'t> Importer<'t> {
    /// Which views in `graph` must share the storage they are of: those whose place in it is asked for. Behind a last op that
    /// computes, a functional graph copies what it wrote to its inputs, and nothing reads them any more.
    pub(super) fn that_are_views(&self, graph: &'t Graph) -> Views<'t> {
        let is_copy = |target| self.entry(target).is_some_and(|entry| entry.is_copy());
        let computing = graph.nodes.iter().rposition(|node| !is_copy(&node.target)).map_or(0, |last| last + 1);
        if graph.nodes[..computing].iter().any(|node| self.writes(node)) {
            return Views::All;
        }
        let mut names = FxHashSet::default();
        for node in &graph.nodes {
            if self.entry(&node.target).is_some_and(|entry| matches!(entry.def.rule, Rule::Number(_))) {
                node.inputs.iter().for_each(|input| input.arg.for_each_name(&mut |name| _ = names.insert(name)));
            }
        }
        Views::Of(names)
    }

    /// Whether `node` writes to what it is given, by itself or by a graph within it.
    fn writes(&self, node: &'t Node) -> bool {
        let writes =
            |entry: Entry| entry.variant != Variant::Functional || entry.schema.args.iter().any(|arg| arg.written);
        self.entry(&node.target).is_some_and(writes)
            || survey::graphs(node).any(|graph| graph.nodes.iter().any(|node| self.writes(node)))
    }

    /// The names in `graph` whose values several ops or results read, by themselves or through views.
    ///
    /// Such a value is written to memory, in its own type: what reads it takes it rounded, or it would be written twice.
    pub(super) fn read_by_several(&self, graph: &'t Graph) -> FxHashSet<&'t str> {
        let mut readers: FxHashMap<&str, usize> = FxHashMap::default();
        let add = |to: &mut FxHashMap<&'t str, usize>, name, times| {
            let known = to.entry(name).or_default();
            *known = known.saturating_add(times);
        };
        graph.outputs.iter().for_each(|output| output.for_each_name(&mut |name| add(&mut readers, name, 1)));
        for node in graph.nodes.iter().rev() {
            let is_view = self.entry(&node.target).is_some_and(|e| matches!(e.def.rule, Rule::View(..)));
            let seen = call::results(node).unwrap_or_default();
            let of_views = || seen.iter().flatten().filter_map(|name| readers.get(name));
            let times = if is_view { of_views().fold(0, |sum: usize, times| sum.saturating_add(*times)) } else { 1 };
            node.inputs.iter().for_each(|input| input.arg.for_each_name(&mut |name| add(&mut readers, name, times)));
        }
        readers.into_iter().filter(|&(_, times)| times > 1).map(|(name, _)| name).collect()
    }
}
