//! Regions in an order in which they can run, kept while regions join and come apart.

use rustc_hash::FxHashSet;
use std::collections::BTreeMap;

/// Regions looked at in one search for a way around, at most: beyond that two regions are left apart.
const FARTHEST: usize = 256;
/// Space left between neighbours: so much that it is hardly ever used up, and so little that all regions have room.
const GAP: u64 = 1 << 32;

/// Regions by rising labels.
pub(super) struct Order {
    labels: Vec<u64>,
    regions: BTreeMap<u64, u32>,
}

/// What a region needs, or what needs it.
pub(super) trait Neighbours {
    /// Regions that read what `region` makes.
    fn after(&self, region: u32) -> Vec<u32>;
    /// Regions that make what `region` reads.
    fn before(&self, region: u32) -> Vec<u32>;
}

impl Order {
    /// `count` regions, in this order.
    pub(super) fn new(count: usize) -> Order {
        let labels: Vec<u64> = (1..=count as u64).map(|i| i * GAP).collect();
        let regions = labels.iter().enumerate().map(|(i, &l)| (l, i as u32)).collect();
        Order { labels, regions }
    }

    /// All regions, in order.
    pub(super) fn regions(&self) -> impl Iterator<Item = u32> {
        self.regions.values().copied()
    }

    /// Whether `a` comes before `b`.
    pub(super) fn is_before(&self, a: u32, b: u32) -> bool {
        self.labels[a as usize] < self.labels[b as usize]
    }

    /// Makes room for one region out of `a` and `b`, which is called `a` from here on. Nothing happens, and the answer is no,
    /// if one needs the other by way of a third, or if that would take long to find out.
    pub(super) fn join(&mut self, a: u32, b: u32, graph: &impl Neighbours) -> bool {
        let (first, last) = if self.is_before(a, b) { (a, b) } else { (b, a) };
        let (low, high) = (self.labels[first as usize], self.labels[last as usize]);
        let found = self.search(first, last, |r| graph.after(r), low..=high);
        let (moved, at) = match found {
            Search::Meets => return false,
            Search::Ends(after) => (after, high),
            Search::TooFar => match self.search(last, first, |r| graph.before(r), low..=high) {
                Search::Ends(before) => (before, low),
                _ => return false,
            },
        };
        self.remove(first);
        self.remove(last);
        self.place(a, at);
        if at == high {
            // What needs the first came before the last: now it comes after both, in the order it had.
            moved.iter().for_each(|&r| self.remove(r));
            self.insert_after(a, &moved);
        } else {
            moved.iter().for_each(|&r| self.remove(r));
            self.insert_before(a, &moved);
        }
        true
    }

    /// Puts a new region right behind `a`, or right before it.
    pub(super) fn split(&mut self, a: u32, is_after: bool) -> u32 {
        let new = self.labels.len() as u32;
        self.labels.push(0);
        if is_after {
            self.insert_after(a, &[new]);
        } else {
            self.insert_before(a, &[new]);
        }
        new
    }

    /// Everything between `low` and `high` that `from` leads to; whether it leads to `to` other than directly.
    fn search(
        &self,
        from: u32,
        to: u32,
        next: impl Fn(u32) -> Vec<u32>,
        within: std::ops::RangeInclusive<u64>,
    ) -> Search {
        let mut pending: Vec<u32> = next(from);
        pending.retain(|&r| r != to && r != from);
        let mut seen: FxHashSet<u32> = FxHashSet::default();
        while let Some(r) = pending.pop() {
            if !within.contains(&self.labels[r as usize]) || !seen.insert(r) {
                continue;
            }
            if seen.len() > FARTHEST {
                return Search::TooFar;
            }
            let more = next(r);
            if more.contains(&to) {
                return Search::Meets;
            }
            pending.extend(more);
        }
        let mut seen: Vec<u32> = seen.into_iter().collect();
        seen.sort_unstable_by_key(|&r| self.labels[r as usize]);
        Search::Ends(seen)
    }

    fn remove(&mut self, region: u32) {
        self.regions.remove(&self.labels[region as usize]);
    }

    fn place(&mut self, region: u32, label: u64) {
        self.labels[region as usize] = label;
        self.regions.insert(label, region);
    }

    fn insert_after(&mut self, a: u32, new: &[u32]) {
        let low = self.labels[a as usize];
        let high = self.regions.range(low + 1..).next().map_or(low.saturating_add(2 * GAP), |(&l, _)| l);
        if !self.fill(low, high, new) {
            self.spread();
            self.insert_after(a, new);
        }
    }

    fn insert_before(&mut self, a: u32, new: &[u32]) {
        let high = self.labels[a as usize];
        let low = self.regions.range(..high).next_back().map_or(0, |(&l, _)| l);
        if !self.fill(low, high, new) {
            self.spread();
            self.insert_before(a, new);
        }
    }

    /// Places regions in this order, evenly, between two labels; whether there was room.
    fn fill(&mut self, low: u64, high: u64, new: &[u32]) -> bool {
        let gap = (high - low) / (new.len() as u64 + 1);
        if gap > 0 {
            new.iter().enumerate().for_each(|(i, &r)| self.place(r, low + (i as u64 + 1) * gap));
        }
        gap > 0
    }

    /// Labels all regions anew, evenly.
    fn spread(&mut self) {
        let regions: Vec<u32> = self.regions().collect();
        self.regions.clear();
        for (i, &r) in regions.iter().enumerate() {
            self.place(r, (i as u64 + 1) * GAP);
        }
    }
}

/// How a search ended.
enum Search {
    /// There is another way.
    Meets,
    /// There is none; what lies in between, in order.
    Ends(Vec<u32>),
    /// There were too many to look at.
    TooFar,
}
