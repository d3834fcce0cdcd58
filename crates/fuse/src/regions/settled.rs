//! Steps that need no second look: nothing was to be handed over at their cuts, and nothing around them has changed.

use super::choose::Partition;

/// Where nothing is to be gained until something changes. Every change is a moment.
pub(super) struct Settled {
    now: u64,
    /// By region: when its steps changed last.
    changed: Vec<u64>,
    /// By region: when a region changed last that a look at one of its steps asks about, and when that was found out.
    around: Vec<(u64, Option<u64>)>,
    /// By step: when it was looked at.
    looked: Vec<Option<u64>>,
}

impl Settled {
    /// Nothing, of so many steps.
    pub(super) fn new(steps: usize) -> Settled {
        Settled { now: 0, changed: vec![0; steps], around: vec![(0, None); steps], looked: vec![None; steps] }
    }

    /// Notes that the steps of `region` are others now.
    pub(super) fn change(&mut self, region: u32) {
        self.now += 1;
        self.changed[region as usize] = self.now;
    }

    /// Notes that nothing was to be gained by `step`.
    pub(super) fn settle(&mut self, step: u32) {
        self.looked[step as usize] = Some(self.now);
    }

    /// Whether that is so still.
    pub(super) fn holds(&mut self, step: u32, partition: &Partition<'_>) -> bool {
        let Some(looked) = self.looked[step as usize] else { return false };
        looked == self.now || looked >= self.last_around(partition.region_of[step as usize], partition)
    }

    /// When one of the regions changed last that decide what happens at the cuts of `region`: itself, those that may take
    /// a part of it, and those that these, or what is left of it, may join next.
    fn last_around(&mut self, region: u32, partition: &Partition<'_>) -> u64 {
        let (last, found) = self.around[region as usize];
        if found == Some(self.now) {
            return last;
        }
        let near = partition.beside(&partition.members[region as usize]);
        let far = near.iter().flat_map(|&r| partition.beside(&partition.members[r as usize]));
        let last = far.chain(near.iter().copied()).chain([region]).map(|r| self.changed[r as usize]).max();
        let last = last.unwrap_or(self.now);
        self.around[region as usize] = (last, Some(self.now));
        last
    }
}
