//! Which values of a trace are read more than once.

use super::{Importer, call};
use crate::ops::Rule;
use crate::trace::schema::Graph;
use rustc_hash::{FxHashMap, FxHashSet};

impl<'t> Importer<'t> {
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
