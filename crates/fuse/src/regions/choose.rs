//! Which steps go together: the pair of regions that gains most joins first, and then parts of regions move to neighbours
//! while that makes the program cheaper.

use super::candidate::{Candidates, Figures};
use super::order::{Neighbours, Order};
use super::steps::Steps;
use std::collections::BinaryHeap;

/// Readers of one value that are looked at as neighbours.
const MOST_READERS: usize = 32;
/// Times that all regions are cut everywhere.
const SWEEPS: usize = 3;

/// Steps by region.
pub(super) struct Partition<'s> {
    steps: &'s Steps<'s>,
    /// By step.
    pub(super) region_of: Vec<u32>,
    /// By region, ascending; empty for those that are gone.
    pub(super) members: Vec<Vec<u32>>,
}

impl Neighbours for Partition<'_> {
    fn after(&self, region: u32) -> Vec<u32> {
        let readers = |&m: &u32| self.steps.readers(self.steps.all[m as usize].node).iter();
        self.others(region, self.members[region as usize].iter().flat_map(readers).copied())
    }
    fn before(&self, region: u32) -> Vec<u32> {
        let sources = |&m: &u32| self.steps.all[m as usize].reads.iter().filter_map(|r| self.steps.of(r.value));
        self.others(region, self.members[region as usize].iter().flat_map(sources))
    }
}

impl Partition<'_> {
    fn others(&self, region: u32, steps: impl Iterator<Item = u32>) -> Vec<u32> {
        let mut regions: Vec<u32> = steps.map(|s| self.region_of[s as usize]).filter(|&r| r != region).collect();
        regions.sort_unstable();
        regions.dedup();
        regions
    }

    /// The region of `step` in two: what the step needs there, or what needs it, with itself; and the rest.
    fn cut(&self, step: u32, is_up: bool) -> (Vec<u32>, Vec<u32>) {
        let members = &self.members[self.region_of[step as usize] as usize];
        let mut near = vec![step];
        let reads = |s: u32, of: &[u32]| {
            let mut sources = self.steps.all[s as usize].reads.iter().filter_map(|r| self.steps.of(r.value));
            sources.any(|source| of.contains(&source))
        };
        if is_up {
            for &m in members.iter().rev().filter(|&&m| m < step) {
                let node = self.steps.all[m as usize].node;
                if self.steps.readers(node).iter().any(|r| near.contains(r)) {
                    near.push(m);
                }
            }
        } else {
            for &m in members.iter().filter(|&&m| m > step) {
                if reads(m, &near) {
                    near.push(m);
                }
            }
        }
        near.sort_unstable();
        let far = members.iter().copied().filter(|m| near.binary_search(m).is_err()).collect();
        (near, far)
    }

    /// Regions that make what a step reads, read what it makes, or read the same.
    fn beside(&self, step: u32) -> Vec<u32> {
        let own = &self.steps.all[step as usize];
        let region = self.region_of[step as usize];
        let mut found: Vec<u32> = own.reads.iter().filter_map(|r| self.steps.of(r.value)).collect();
        found.extend(self.steps.readers(own.node).iter().take(MOST_READERS));
        for read in own.reads.iter().filter(|r| r.is_whole()) {
            let readers = self.steps.readers(read.value);
            let at = readers.partition_point(|&r| r < step);
            let is_other = |r: &&u32| self.region_of[**r as usize] != region;
            found.extend(readers[..at].iter().rev().take(MOST_READERS).find(is_other));
            found.extend(readers[at..].iter().take(MOST_READERS).find(is_other));
        }
        self.others(region, found.into_iter())
    }
}

/// Two regions that would be cheaper as one; the best is the greatest.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Pair {
    gain: u64,
    /// Earlier ones first among equals.
    regions: std::cmp::Reverse<(u32, u32)>,
    versions: (u32, u32),
}

/// A partition on its way.
pub(super) struct Chooser<'s> {
    pub(super) partition: Partition<'s>,
    pub(super) candidates: Candidates<'s>,
    pub(super) order: Order,
    /// By region.
    pub(super) figures: Vec<Figures>,
    versions: Vec<u32>,
    pairs: BinaryHeap<Pair>,
}

impl<'s> Chooser<'s> {
    /// The partition of `steps`, chosen.
    pub(super) fn new(steps: &'s Steps<'s>) -> Chooser<'s> {
        let count = steps.all.len();
        let mut candidates = Candidates::new(steps);
        let members: Vec<Vec<u32>> = (0..count as u32).map(|i| vec![i]).collect();
        let figures = members.iter().map(|m| candidates.figures(m).unwrap_or_default()).collect();
        let partition = Partition { steps, region_of: (0..count as u32).collect(), members };
        let (order, versions) = (Order::new(count), vec![0; count]);
        let mut chooser = Chooser { partition, candidates, order, figures, versions, pairs: BinaryHeap::new() };
        (0..count as u32).for_each(|r| chooser.offer(r, |other| other > r));
        chooser.join_all();
        for _ in 0..SWEEPS {
            if !chooser.move_parts() {
                break;
            }
        }
        chooser
    }

    /// Notes what joining `region` and its neighbours would gain, those that `which` picks.
    fn offer(&mut self, region: u32, which: impl Fn(u32) -> bool) {
        let members = &self.partition.members[region as usize];
        let mut others: Vec<u32> = members.iter().flat_map(|&m| self.partition.beside(m)).collect();
        others.sort_unstable();
        others.dedup();
        for other in others.into_iter().filter(|&o| which(o)) {
            let together = self.union(region, other);
            let apart = self.figures[region as usize].time + self.figures[other as usize].time;
            let Ok(joined) = self.candidates.figures(&together) else { continue };
            if joined.time < apart {
                let regions = (region.min(other), region.max(other));
                let versions = (self.versions[regions.0 as usize], self.versions[regions.1 as usize]);
                self.pairs.push(Pair { gain: apart - joined.time, regions: std::cmp::Reverse(regions), versions });
            }
        }
    }

    fn union(&self, a: u32, b: u32) -> Vec<u32> {
        merged(&self.partition.members[a as usize], &self.partition.members[b as usize])
    }

    /// Joins the best pair until none is left.
    fn join_all(&mut self) {
        while let Some(Pair { regions: std::cmp::Reverse((a, b)), versions, .. }) = self.pairs.pop() {
            let now = (self.versions[a as usize], self.versions[b as usize]);
            if versions == now && self.order.join(a, b, &self.partition) {
                let together = self.union(a, b);
                self.partition.members[b as usize].clear();
                self.versions[b as usize] += 1;
                self.set(a, together);
                self.offer(a, |_| true);
            }
        }
    }

    fn set(&mut self, region: u32, members: Vec<u32>) {
        members.iter().for_each(|&m| self.partition.region_of[m as usize] = region);
        self.figures[region as usize] = self.candidates.figures(&members).unwrap_or_default();
        self.partition.members[region as usize] = members;
        self.versions[region as usize] += 1;
    }

    /// Cuts each region behind and before each of its steps, and hands one side to a neighbour, where that makes the program
    /// cheaper; whether it did.
    fn move_parts(&mut self) -> bool {
        let mut any = false;
        for step in 0..self.partition.region_of.len() as u32 {
            for is_up in [true, false] {
                let region = self.partition.region_of[step as usize];
                let (near, far) = self.partition.cut(step, is_up);
                if far.is_empty() {
                    continue;
                }
                let cuts = [(&near, &far, is_up), (&far, &near, !is_up)];
                any |= cuts.into_iter().any(|(moved, left, is_first)| self.hand_over(region, moved, left, is_first));
            }
        }
        any
    }

    /// Hands `moved` of `region` to a neighbour, of which `left` stays, if that gains anything.
    fn hand_over(&mut self, region: u32, moved: &[u32], left: &[u32], is_first: bool) -> bool {
        let Ok(rest) = self.candidates.figures(left) else { return false };
        let mut others: Vec<u32> = moved.iter().flat_map(|&m| self.partition.beside(m)).collect();
        others.sort_unstable();
        others.dedup();
        for to in others {
            let grown = merged(moved, &self.partition.members[to as usize]);
            let Ok(joined) = self.candidates.figures(&grown) else { continue };
            let before = self.figures[region as usize].time + self.figures[to as usize].time;
            let after = rest.time + joined.time;
            let is_better = after < before
                || after - before < self.ahead(&grown, joined.time, [region, to])
                || after - before < self.ahead(left, rest.time, [region, to]);
            if is_better && self.transfer(region, to, moved, left, is_first) {
                return true;
            }
        }
        false
    }

    /// What a set, which takes `time`, would gain next by joining a region other than these.
    fn ahead(&mut self, set: &[u32], time: u64, not: [u32; 2]) -> u64 {
        let mut others: Vec<u32> = set.iter().flat_map(|&m| self.partition.beside(m)).collect();
        others.sort_unstable();
        others.dedup();
        let mut most = 0;
        for other in others.into_iter().filter(|o| !not.contains(o)) {
            let all = merged(set, &self.partition.members[other as usize]);
            if let Ok(joined) = self.candidates.figures(&all) {
                most = most.max((time + self.figures[other as usize].time).saturating_sub(joined.time));
            }
        }
        most
    }

    /// Moves `moved` from one region to another, unless that makes regions wait for each other.
    fn transfer(&mut self, from: u32, to: u32, moved: &[u32], left: &[u32], is_first: bool) -> bool {
        let part = self.order.split(from, !is_first);
        self.partition.members.push(vec![]);
        self.figures.push(Figures::default());
        self.versions.push(0);
        let grown = merged(moved, &self.partition.members[to as usize]);
        self.set(from, left.to_vec());
        self.set(part, moved.to_vec());
        let is_done = self.order.join(to, part, &self.partition);
        let back = is_done || self.order.join(from, part, &self.partition);
        debug_assert!(back, "what came apart goes together");
        self.partition.members[part as usize].clear();
        if !is_done {
            self.set(from, merged(left, moved));
            return false;
        }
        self.set(to, grown);
        [from, to].into_iter().for_each(|r| self.offer(r, |_| true));
        self.join_all();
        true
    }
}

/// Two ascending lists as one.
fn merged(a: &[u32], b: &[u32]) -> Vec<u32> {
    let mut all = [a, b].concat();
    all.sort_unstable();
    all
}
