//! Regions that were seen before, and what became of them.

use crate::cells::Origin;
use crate::fused::compile::{Job, Order};
use crate::fused::open::Piece;
use rustc_hash::FxHashMap;
use slab::Slab;
use std::collections::VecDeque;
use std::sync::Arc;

/// The occurrence at which a region's program is ordered: the second, since what comes once may never come again.
const ORDER: u64 = 2;
/// The occurrence from which it runs as that program.
const SWAP: u64 = 4;
/// Programs that may be ordered before any has paid.
const ADVANCE: u64 = 32;
/// Occurrences of regions with a program that pay for one more. A stream that keeps changing earns none.
const PRICE: u64 = 4;
/// Regions with a program that are kept.
const MOST_PROGRAMS: usize = 512;
/// Regions without a program that are remembered.
const MOST_SEEN: usize = 4096;
/// Calls below which a region is not worth a program.
const FEWEST: usize = 2;

/// All regions of all devices.
#[derive(Default)]
pub(crate) struct Known {
    by_hash: FxHashMap<u64, Vec<usize>>,
    /// By the program of its first call, the region seen last.
    by_start: FxHashMap<u64, usize>,
    regions: Slab<Region>,
    /// Without a program, in the order they were first seen.
    seen: VecDeque<usize>,
    /// With one.
    programs: Vec<usize>,
    /// Pieces met so far.
    met: u64,
    /// Regions met so far.
    count: u64,
    ordered: u64,
    /// Occurrences that ran, or were to run, as one program; and those that did.
    paid: u64,
    runs: u64,
    /// All keys so far, hashed in order: the same on every host that runs the same script.
    sequence: u64,
}

/// A region that was seen.
pub(crate) struct Region {
    /// Of all regions ever met.
    pub(crate) number: u64,
    stream: Vec<u64>,
    live: Vec<bool>,
    hash: u64,
    pub(crate) origins: Vec<Origin>,
    pub(crate) occurrences: u64,
    /// When it came last, counted in pieces.
    last: u64,
    /// How often it ran as one program.
    pub(crate) runs: u64,
    pub(crate) job: Option<Arc<Job>>,
    pub(crate) instead_of: Option<Nearest>,
}

/// The region that began alike and was seen last.
#[derive(Clone, Copy)]
pub(crate) struct Nearest {
    pub(crate) number: u64,
    /// The first call that differs; `None` if only what is held of the results does.
    pub(crate) differs_at: Option<usize>,
}

/// How a piece is to run.
pub(crate) enum Verdict {
    /// Call by call.
    Calls,
    /// As the program of this region; call by call if that is not there yet, unless it is to be waited for.
    Program(usize, Arc<Job>),
}

impl Known {
    /// Counts an occurrence of `piece`, and says how it runs. An order that it gives is to be passed on.
    pub(crate) fn meet(&mut self, piece: &Piece, order: impl FnOnce(&Piece) -> Order) -> (Verdict, Option<Order>) {
        self.sequence = (self.sequence.rotate_left(5) ^ piece.hash).wrapping_mul(0x517c_c1b7_2722_0a95);
        if piece.calls.len() < FEWEST {
            return (Verdict::Calls, None);
        }
        let index = self.find(piece).unwrap_or_else(|| self.add(piece));
        let afford = self.ordered < ADVANCE + self.paid / PRICE;
        let at_once = piece.at_once();
        let region = &mut self.regions[index];
        region.occurrences += 1;
        self.met += 1;
        region.last = self.met;
        let mut ordered = None;
        if region.job.is_none() && (at_once || afford && region.occurrences >= ORDER) {
            let order = order(piece);
            region.job = Some(order.job.clone());
            ordered = Some(order);
            self.ordered += u64::from(!at_once);
            self.seen.retain(|&i| i != index);
            self.programs.push(index);
        }
        let (job, occurrences) = (region.job.clone(), region.occurrences);
        if self.programs.len() > MOST_PROGRAMS {
            self.forget_program();
        }
        match job {
            Some(job) if at_once || occurrences >= SWAP => {
                self.paid += u64::from(!at_once);
                (Verdict::Program(index, job), ordered)
            }
            _ => (Verdict::Calls, ordered),
        }
    }

    /// Counts a run of a region as one program.
    pub(crate) fn count_run(&mut self, index: usize) {
        self.runs += 1;
        if let Some(region) = self.regions.get_mut(index) {
            region.runs += 1;
        }
    }

    /// How often regions ran as one program.
    pub(crate) fn runs(&self) -> u64 {
        self.runs
    }

    /// How many regions have a program, and how many will have one that is being made.
    pub(crate) fn programs(&self) -> (u64, u64) {
        let jobs = self.programs.iter().filter_map(|&index| self.regions[index].job.as_ref());
        jobs.fold((0, 0), |(made, being_made), job| match job.done.get() {
            Some(result) => (made + u64::from(result.is_ok()), being_made),
            None => (made, being_made + 1),
        })
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Region> {
        self.regions.iter().map(|(_, region)| region)
    }
    /// How many different regions were met.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    fn find(&self, piece: &Piece) -> Option<usize> {
        let same = |&&i: &&usize| self.regions[i].stream == piece.stream && self.regions[i].live == piece.live;
        self.by_hash.get(&piece.hash)?.iter().find(same).copied()
    }

    fn add(&mut self, piece: &Piece) -> usize {
        self.count += 1;
        let region = Region {
            number: self.count,
            stream: piece.stream.clone(),
            live: piece.live.clone(),
            hash: piece.hash,
            origins: piece.calls.iter().map(|call| call.origin).collect(),
            occurrences: 0,
            last: 0,
            runs: 0,
            job: None,
            instead_of: self.nearest(piece),
        };
        let index = self.regions.insert(region);
        self.by_hash.entry(piece.hash).or_default().push(index);
        self.by_start.insert(piece.stream[0], index);
        self.seen.push_back(index);
        if self.seen.len() > MOST_SEEN {
            self.forget_oldest();
        }
        index
    }

    fn nearest(&self, piece: &Piece) -> Option<Nearest> {
        let region = &self.regions[*self.by_start.get(&piece.stream[0])?];
        let same = region.stream.iter().zip(&piece.stream).take_while(|(a, b)| a == b).count();
        let ends = piece.calls.iter().scan(0, |end, call| {
            *end += 1 + call.inputs.len();
            Some(*end)
        });
        let alike = ends.take_while(|&end| end <= same).count();
        let differs = region.stream.len() != piece.stream.len() || same < piece.stream.len();
        Some(Nearest { number: region.number, differs_at: differs.then_some(alike) })
    }

    fn forget_oldest(&mut self) {
        if let Some(index) = self.seen.pop_front() {
            self.forget(index);
        }
    }

    /// Forgets the region with a program that has not come for longest.
    fn forget_program(&mut self) {
        let oldest = (0..self.programs.len()).min_by_key(|&i| self.regions[self.programs[i]].last);
        if let Some(i) = oldest {
            let index = self.programs.swap_remove(i);
            self.forget(index);
        }
    }

    fn forget(&mut self, index: usize) {
        let region = self.regions.remove(index);
        if self.by_start.get(&region.stream[0]) == Some(&index) {
            self.by_start.remove(&region.stream[0]);
        }
        let Some(indices) = self.by_hash.get_mut(&region.hash) else { return };
        indices.retain(|&i| i != index);
        if indices.is_empty() {
            self.by_hash.remove(&region.hash);
        }
    }
}
