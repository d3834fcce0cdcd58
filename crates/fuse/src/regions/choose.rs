//! Which steps go together: the pair of regions that gains most joins first, and then parts of regions move to neighbours
//! while that makes the program cheaper.

use super::candidate::Candidates;
use super::order::{Neighbours, Order};
use super::set::Set;
use super::settled::Settled;
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
    /// By region; empty for those that are gone.
    pub(super) members: Vec<Set>,
}

impl Neighbours for Partition<'_> {
    fn after(&self, region: u32) -> Vec<u32> {
        let readers = |&m: &u32| self.steps.readers(self.steps.all[m as usize].node).iter();
        self.others(region, self.members[region as usize].steps.iter().flat_map(readers).copied())
    }
    fn before(&self, region: u32) -> Vec<u32> {
        let sources = |&m: &u32| self.steps.all[m as usize].reads.iter().filter_map(|r| self.steps.of(r.value));
        self.others(region, self.members[region as usize].steps.iter().flat_map(sources))
    }
}

impl Partition<'_> {
    fn others(&self, region: u32, steps: impl Iterator<Item = u32>) -> Vec<u32> {
        sorted(steps.map(|s| self.region_of[s as usize]).filter(|&r| r != region).collect())
    }

    /// The region of `step` in two: what the step needs there, or what needs it, with itself; and the rest.
    fn cut(&self, step: u32, is_up: bool) -> (Set, Set) {
        let members = &self.members[self.region_of[step as usize] as usize].steps;
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
        (Set::of(near), Set::of(far))
    }

    /// Regions beside a step of `set`, other than that step's.
    pub(super) fn beside(&self, set: &Set) -> Vec<u32> {
        let mut regions = vec![];
        set.steps.iter().for_each(|&step| self.add_beside(step, &mut regions));
        sorted(regions)
    }

    /// Regions that make what a step reads, read what it makes, or read the same.
    fn add_beside(&self, step: u32, regions: &mut Vec<u32>) {
        let own = &self.steps.all[step as usize];
        let region = self.region_of[step as usize];
        let mut add = |s: u32| {
            let of = self.region_of[s as usize];
            if of != region {
                regions.push(of);
            }
        };
        own.reads.iter().filter_map(|r| self.steps.of(r.value)).for_each(&mut add);
        self.steps.readers(own.node).iter().take(MOST_READERS).for_each(|&r| add(r));
        for read in own.reads.iter().filter(|r| r.is_whole()) {
            let readers = self.steps.readers(read.value);
            let at = readers.partition_point(|&r| r < step);
            let is_other = |r: &&u32| self.region_of[**r as usize] != region;
            readers[..at].iter().rev().take(MOST_READERS).find(is_other).into_iter().for_each(|&r| add(r));
            readers[at..].iter().take(MOST_READERS).find(is_other).into_iter().for_each(|&r| add(r));
        }
    }
}

fn sorted(mut regions: Vec<u32>) -> Vec<u32> {
    regions.sort_unstable();
    regions.dedup();
    regions
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
    /// By region: picoseconds.
    pub(super) times: Vec<u64>,
    versions: Vec<u32>,
    pairs: BinaryHeap<Pair>,
    settled: Settled,
    /// Steps that would have moved, had regions not waited for each other then.
    refused: u32,
}

impl<'s> Chooser<'s> {
    /// The partition of `steps`, chosen.
    pub(super) fn new(steps: &'s Steps<'s>) -> Chooser<'s> {
        let mut chooser = Chooser::joined(steps);
        for _ in 0..SWEEPS {
            if !chooser.move_parts() {
                break;
            }
        }
        chooser
    }

    /// What joining alone leads to.
    fn joined(steps: &'s Steps<'s>) -> Chooser<'s> {
        let count = steps.all.len();
        let mut candidates = Candidates::new(steps);
        let members: Vec<Set> = (0..count as u32).map(|i| Set::of(vec![i])).collect();
        let times = members.iter().map(|m| candidates.time(m, &Set::default()).unwrap_or_default()).collect();
        let partition = Partition { steps, region_of: (0..count as u32).collect(), members };
        let (order, versions) = (Order::new(count), vec![0; count]);
        let (pairs, settled) = (BinaryHeap::new(), Settled::new(count));
        let mut chooser = Chooser { partition, candidates, order, times, versions, pairs, settled, refused: 0 };
        (0..count as u32).for_each(|r| chooser.offer(r, |other| other > r));
        chooser.join_all();
        chooser
    }

    /// Notes what joining `region` and its neighbours would gain, those that `which` picks.
    fn offer(&mut self, region: u32, which: impl Fn(u32) -> bool) {
        let others = self.partition.beside(&self.partition.members[region as usize]);
        for other in others.into_iter().filter(|&o| which(o)) {
            let [one, two] = [region, other].map(|r| &self.partition.members[r as usize]);
            let apart = self.times[region as usize] + self.times[other as usize];
            let Some(joined) = self.candidates.time(one, two) else { continue };
            if joined < apart {
                let regions = (region.min(other), region.max(other));
                let versions = (self.versions[regions.0 as usize], self.versions[regions.1 as usize]);
                self.pairs.push(Pair { gain: apart - joined, regions: std::cmp::Reverse(regions), versions });
            }
        }
    }

    /// Joins the best pair until none is left.
    fn join_all(&mut self) {
        while let Some(Pair { regions: std::cmp::Reverse((a, b)), versions, .. }) = self.pairs.pop() {
            let now = (self.versions[a as usize], self.versions[b as usize]);
            if versions == now && self.order.join(a, b, &self.partition) {
                let gone = std::mem::take(&mut self.partition.members[b as usize]);
                let together = self.partition.members[a as usize].and(&gone);
                self.versions[b as usize] += 1;
                self.set(a, together);
                self.settled.change(a);
                self.offer(a, |_| true);
            }
        }
    }

    fn set(&mut self, region: u32, members: Set) {
        members.steps.iter().for_each(|&m| self.partition.region_of[m as usize] = region);
        self.times[region as usize] = self.candidates.time(&members, &Set::default()).unwrap_or_default();
        self.partition.members[region as usize] = members;
        self.versions[region as usize] += 1;
    }

    /// Cuts each region behind and before each of its steps, and hands one side to a neighbour, where that makes the program
    /// cheaper; whether it did.
    fn move_parts(&mut self) -> bool {
        let mut any = false;
        for step in 0..self.partition.region_of.len() as u32 {
            if self.settled.holds(step, &self.partition) {
                continue;
            }
            let refused = self.refused;
            let moved = [true, false].map(|is_up| self.move_side(step, is_up)).contains(&true);
            if !moved && self.refused == refused {
                self.settled.settle(step);
            }
            any |= moved;
        }
        any
    }

    fn move_side(&mut self, step: u32, is_up: bool) -> bool {
        let region = self.partition.region_of[step as usize];
        let (near, far) = self.partition.cut(step, is_up);
        let cuts = [(&near, &far, is_up), (&far, &near, !is_up)];
        !far.steps.is_empty()
            && cuts.into_iter().any(|(moved, left, is_first)| self.hand_over(region, moved, left, is_first))
    }

    /// Hands `moved` of `region` to a neighbour, of which `left` stays, if that gains anything.
    fn hand_over(&mut self, region: u32, moved: &Set, left: &Set, is_first: bool) -> bool {
        let Some(rest) = self.candidates.time(left, &Set::default()) else { return false };
        for to in self.partition.beside(moved) {
            let into = &self.partition.members[to as usize];
            let Some(joined) = self.candidates.time(moved, into) else { continue };
            let before = self.times[region as usize] + self.times[to as usize];
            let after = rest + joined;
            let is_better = after < before
                || self.may_gain(left, rest, [region, to], after - before)
                || self.may_gain(
                    &moved.and(&self.partition.members[to as usize]),
                    joined,
                    [region, to],
                    after - before,
                );
            if is_better && self.transfer(region, to, moved, left, is_first) {
                return true;
            }
        }
        false
    }

    /// Whether a set, which takes `time`, would gain more than `loss` by joining a region other than these next.
    fn may_gain(&mut self, set: &Set, time: u64, not: [u32; 2], loss: u64) -> bool {
        let others = self.partition.beside(set);
        others.into_iter().filter(|o| !not.contains(o)).any(|other| {
            let apart = time + self.times[other as usize];
            // No region takes less than its start.
            apart.saturating_sub(self.candidates.steps.machine.start) > loss
                && self
                    .candidates
                    .time(set, &self.partition.members[other as usize])
                    .is_some_and(|joined| apart.saturating_sub(joined) > loss)
        })
    }

    /// Moves `moved` from one region to another, unless that makes regions wait for each other.
    fn transfer(&mut self, from: u32, to: u32, moved: &Set, left: &Set, is_first: bool) -> bool {
        let part = self.order.split(from, !is_first);
        self.partition.members.push(Set::default());
        self.times.push(0);
        self.versions.push(0);
        let grown = moved.and(&self.partition.members[to as usize]);
        self.set(from, left.clone());
        self.set(part, moved.clone());
        let is_done = self.order.join(to, part, &self.partition);
        let back = is_done || self.order.join(from, part, &self.partition);
        debug_assert!(back, "what came apart goes together");
        self.partition.members[part as usize] = Set::default();
        if !is_done {
            self.set(from, left.and(moved));
            self.refused += 1;
            return false;
        }
        self.set(to, grown);
        [from, to].into_iter().for_each(|r| self.settled.change(r));
        [from, to].into_iter().for_each(|r| self.offer(r, |_| true));
        self.join_all();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::random::{machine, program};
    use super::*;
    use crate::formulate::testing::Random;

    /// What is settled is what a second look would leave, too; and some is.
    #[test]
    fn settled_steps_need_no_second_look() {
        let mut left_out = 0;
        for seed in 0..60 {
            let mut r = Random(7000 + seed);
            let (machine, graph) = (machine(&mut r), program(&mut r, 60));
            let steps = Steps::new(&graph, machine);
            let [mut quick, mut thorough] = [(); 2].map(|()| Chooser::joined(&steps));
            for _ in 0..SWEEPS {
                let count = steps.all.len() as u32;
                left_out += (0..count).filter(|&s| quick.settled.holds(s, &quick.partition)).count();
                thorough.settled = Settled::new(count as usize);
                quick.move_parts();
                thorough.move_parts();
                assert_eq!(quick.partition.region_of, thorough.partition.region_of, "seed {seed}");
            }
        }
        assert!(left_out > 1000, "{left_out}");
    }
}
