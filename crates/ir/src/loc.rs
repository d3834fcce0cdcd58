//! Where a node came from: the user's Python line, the module path, the aten op.

use rustc_hash::FxHashMap;
use std::sync::Arc;

/// A source location. Never part of a cache key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Loc {
    /// The user's file, as Python names it; empty if unknown.
    pub file: Arc<str>,
    /// 1-based line; 0 if unknown.
    pub line: u32,
    /// The function the line stands in; empty if unknown.
    pub function: Arc<str>,
    /// Path of the module in the model, such as `layers.0.mlp`; empty at the top.
    pub module: Arc<str>,
    /// The traced op and node, such as `aten.addmm.default`.
    pub op: Arc<str>,
}

/// A location interned in a graph's [`LocTable`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LocId(u32);

impl LocId {
    /// The unknown location, present in every table.
    pub const UNKNOWN: LocId = LocId(0);
    /// The id at a position of a table.
    pub fn new(index: usize) -> LocId {
        LocId(index as u32)
    }
    /// Position in the table.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Interned locations of one graph.
#[derive(Clone, Debug)]
pub struct LocTable {
    locs: Vec<Loc>,
    ids: FxHashMap<Loc, LocId>,
}

impl Default for LocTable {
    fn default() -> LocTable {
        LocTable { locs: vec![Loc::default()], ids: FxHashMap::from_iter([(Loc::default(), LocId::UNKNOWN)]) }
    }
}

impl LocTable {
    /// The id of `loc`, new or known.
    pub fn intern(&mut self, loc: &Loc) -> LocId {
        if let Some(&id) = self.ids.get(loc) {
            return id;
        }
        let id = LocId(self.locs.len() as u32);
        self.locs.push(loc.clone());
        self.ids.insert(loc.clone(), id);
        id
    }
    /// The location behind `id`; the unknown one if `id` is of another table and out of range.
    pub fn get(&self, id: LocId) -> &Loc {
        self.locs.get(id.index()).unwrap_or(&self.locs[0])
    }
    /// All locations in order of their ids, the unknown one first.
    pub fn iter(&self) -> impl Iterator<Item = &Loc> {
        self.locs.iter()
    }
}
