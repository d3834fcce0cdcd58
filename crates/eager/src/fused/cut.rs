//! Where a region ends.
//!
//! Where its values are asked for, of course. A stream that nobody asks is cut where it [repeats](Rhythm), so that a step of
//! a loop is a region, or a few steps where they are small; and at the latest where it grows too large, or keeps too much.
//! There the place matters: a long step has to be cut at the same places each time, wherever the region began. So places are
//! ranked by what stands around them alone: first where the least has to be made that nobody would hold for long, then, in
//! the later half of a full region, where the calls before are like those of the fewest other places, then by a hash of these calls.

use crate::fused::open::Open;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// Calls in a region at most.
const MOST_CALLS: usize = 512;
/// Core ops in a region at most; one call may have more by itself.
const MOST_NODES: usize = 8192;
/// Bytes of inputs at most that nobody but the region has any more, since it keeps them until all of it ran.
const MOST_KEPT: u64 = 32 << 20;
/// The part of what its device's storages have that it may keep, if that is more.
const MOST_KEPT_OF: u64 = 12;
/// Calls before a place that rank it.
const CONTEXT: usize = 16;
/// Calls in a region at least, where it is cut only because its stream repeats.
const FEWEST_CALLS: usize = 96;
/// Contexts that are remembered at least.
const MOST_CONTEXTS: usize = 1 << 16;
/// Calls in contexts never seen before, from which on calls run by themselves. One odd call makes [`CONTEXT`] of them.
const MOST_NEW: usize = 64;
/// Farther apart than any repetition that is looked for.
const INTERRUPTION: u64 = 1 << 32;
/// Of the polynomial that hashes contexts; odd.
const BASE: u64 = 0x9e37_79b9_7f4a_7c15;

/// Why a region was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Why {
    /// A value went to the host, or to another device.
    Read,
    /// Somebody waited for the device, or asked how far it is.
    Waited,
    /// A call's result is as large as the data says.
    Sizes,
    /// A call makes so much that it runs by itself.
    Large,
    /// A compiled program takes its arguments.
    Program,
    /// Another mode took over.
    Mode,
    /// What came before comes again from here on.
    Repeats,
    /// It was as large as regions get.
    Full,
    /// Nothing of what came lately had come before.
    New,
}

impl Why {
    /// As reports say it.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Why::Read => "a value was read",
            Why::Waited => "the device was waited for",
            Why::Sizes => "a result is as large as the data says",
            Why::Large => "a call makes so much that it runs by itself",
            Why::Program => "a compiled program was called",
            Why::Mode => "another eager mode took over",
            Why::Repeats => "the stream repeats",
            Why::Full => "the region was full",
            Why::New => "the stream is new: until something comes again, ops run one at a time",
        }
    }
}

/// Where a region ended: why, and the line that asked for it.
pub(crate) type Place = (Why, u64);

/// What was counted of a place.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Cuts {
    pub(crate) count: u64,
    /// Bytes that the regions behind read of what those before had made.
    pub(crate) read_back: u64,
}

/// What ranks a place to cut.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Mark {
    /// Of the bytes that would have to be made, the binary logarithm.
    bytes: u32,
    context: u64,
}

/// Whether `open` is as large as a part of the largest region, where the storages have `bytes`.
fn is_full(open: &Open, bytes: u64, part: usize) -> bool {
    let most_kept = MOST_KEPT.max(bytes / MOST_KEPT_OF);
    open.len() >= MOST_CALLS / part || open.nodes() >= MOST_NODES / part || open.kept() >= most_kept / part as u64
}

/// How many calls to cut off `open` if it is full. Its device's storages have `bytes`.
pub(crate) fn place(open: &Open, bytes: u64) -> Option<usize> {
    if !is_full(open, bytes, 1) {
        return None;
    }
    let later = open.marks().iter().enumerate().skip((open.len() / 2).max(1));
    let marks = later.filter_map(|(at, mark)| Some((at, (*mark)?)));
    let mut counts: FxHashMap<Mark, usize> = FxHashMap::default();
    marks.clone().for_each(|(_, mark)| *counts.entry(mark).or_default() += 1);
    let rank = |mark: &Mark| (mark.bytes, counts[mark], mark.context);
    // Of equal ones the last: the larger region.
    let best = marks.rev().min_by_key(|(_, mark)| rank(mark));
    Some(best.map_or(open.len(), |(at, _)| at))
}

/// The recent past of a device's stream, across cuts: whether it repeats, and where a repetition is best cut.
///
/// A place is known by its context, the programs of the calls before it. A context that came three times, equally far apart,
/// repeats. The largest distance at which one does is the period: what repeats within it, such as the layers of a step, does
/// so at smaller ones.
#[derive(Default)]
pub(crate) struct Rhythm {
    /// The last programs, and a hash of them that rolls.
    recent: VecDeque<u64>,
    context: u64,
    /// Calls so far.
    position: u64,
    /// By context, where it was last, and how long before that: of late, and before that.
    seen: [FxHashMap<u64, (u64, u64)>; 2],
    /// Calls since the last whose context had come before.
    fresh: usize,
    /// How far apart the context at hand repeats; 0 if it does not.
    distance: u64,
    period: u64,
    /// For how many calls the best place to cut the period is still looked for, and the best so far.
    looking: u64,
    best: Option<Mark>,
    /// The context at which each repetition is cut, and where that was last.
    anchor: Option<u64>,
    anchored: u64,
}

impl Rhythm {
    /// The mark of the place where `open` ends now; `None` where nobody needs it. Its device's storages have `bytes`.
    pub(crate) fn mark(&mut self, open: &Open, bytes: u64) -> Option<Mark> {
        let late = is_full(open, bytes, 2);
        let candidate = self.looking > 0 && self.distance == self.period;
        let mark = (late || candidate).then(|| {
            let bytes = open.held_bytes(CONTEXT).checked_ilog2().map_or(0, |n| n + 1);
            Mark { bytes, context: self.context }
        });
        if candidate {
            self.best = self.best.min(mark).or(mark);
        }
        if self.looking == 1 {
            (self.anchor, self.anchored) = (self.best.map(|mark| mark.context), self.position);
        }
        self.looking = self.looking.saturating_sub(1);
        mark
    }

    /// Whether `open` is to be cut where it ends now.
    pub(crate) fn ends(&mut self, open: &Open) -> bool {
        let anchored = self.anchor == Some(self.context);
        if anchored {
            self.anchored = self.position;
        }
        anchored && open.len() >= FEWEST_CALLS
    }

    /// Whether a call of this program is to be recorded. If not, it counts from now on: a region of it would most likely
    /// never come again.
    pub(crate) fn admits(&mut self, program: u64) -> bool {
        let admits = !self.is_new() || self.find(self.context_behind(program)).is_some();
        if !admits {
            self.step(program);
        }
        admits
    }

    /// Takes what comes as known.
    pub(crate) fn trust(&mut self) {
        self.fresh = 0;
    }

    /// Whether nothing comes again.
    pub(crate) fn is_new(&self) -> bool {
        self.fresh >= MOST_NEW
    }

    /// Another call of this program.
    pub(crate) fn step(&mut self, program: u64) {
        self.context = self.context_behind(program);
        if self.recent.len() == CONTEXT {
            self.recent.pop_front();
        }
        self.recent.push_back(program);
        self.position += 1;
        let found = self.find(self.context);
        self.fresh = if found.is_some() { 0 } else { self.fresh + 1 };
        let (last, before) = found.unwrap_or_default();
        let distance = self.position - last;
        if self.seen[0].len() >= MOST_CONTEXTS {
            self.seen[1] = std::mem::take(&mut self.seen[0]);
        }
        self.seen[0].insert(self.context, (self.position, distance));
        self.distance = if distance == before && distance < INTERRUPTION { distance } else { 0 };
        if self.anchor.is_some() && self.position - self.anchored > 2 * self.period {
            self.forget();
        }
        if self.distance > self.period {
            self.forget();
            (self.period, self.looking) = (self.distance, self.distance);
        }
    }

    /// The context behind another call of this program.
    fn context_behind(&self, program: u64) -> u64 {
        let gone = if self.recent.len() == CONTEXT { self.recent.front().copied() } else { None };
        let oldest = gone.unwrap_or(0).wrapping_mul(BASE.wrapping_pow(CONTEXT as u32));
        self.context.wrapping_mul(BASE).wrapping_add(program).wrapping_sub(oldest)
    }

    fn find(&self, context: u64) -> Option<(u64, u64)> {
        self.seen.iter().find_map(|seen| seen.get(&context)).copied()
    }

    /// Something else cuts the stream. It does so again, if it repeats.
    pub(crate) fn interrupt(&mut self) {
        self.position += INTERRUPTION;
        self.forget();
    }

    fn forget(&mut self) {
        (self.period, self.looking, self.best, self.anchor) = (0, 0, None, None);
    }
}
