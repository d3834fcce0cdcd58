//! The region that is being recorded.

use crate::cells::{Held, Home};
use crate::fused::cut::{Mark, Place};
use crate::run::{Feed, Task};
use rustc_hash::FxHasher;
use std::hash::Hasher;
use std::sync::Arc;

/// A word of a stream that is no program: an input of one. Values and what goes into a region are numbered above these bits.
pub(crate) mod wire {
    pub(crate) const BITS: u32 = 3;
    pub(crate) const INNER: u64 = 0;
    pub(crate) const OUTER: u64 = 1;
    pub(crate) const FLOAT: u64 = 2;
    pub(crate) const INT: u64 = 3;
    pub(crate) const SEED: u64 = 4;
}

/// Bytes from the host beyond which a region is cut, since it keeps what it reads.
const MOST_BROUGHT: u64 = 256 << 20;

/// Calls that were recorded since the last cut, on one device.
#[derive(Default)]
pub(crate) struct Open {
    /// Of this region among all; 0 before the first.
    serial: u64,
    calls: Vec<Task>,
    /// Where each call's words end in `stream`.
    ends: Vec<usize>,
    /// Of each call the fingerprint of its program, then a word for each of its inputs.
    stream: Vec<u64>,
    /// By value of the region: how many inputs of its calls it is.
    uses: Vec<u32>,
    outer: Vec<Arc<Held>>,
    /// Core ops of all programs together.
    nodes: usize,
    /// Bytes that came from the host since the last cut.
    brought: u64,
    /// Bytes of what goes into the region and no storage has any more.
    kept: u64,
    /// By call, how good it is to cut before it, where that is known.
    marks: Vec<Option<Mark>>,
    /// The serial number of the region before, and where that ended.
    before: Option<(u64, Place)>,
    /// Bytes that it reads of what that one made.
    read_back: u64,
}

/// A region that was cut.
pub(crate) struct Piece {
    pub(crate) calls: Vec<Task>,
    pub(crate) stream: Vec<u64>,
    /// By value: whether somebody holds it, or a later call reads it.
    pub(crate) live: Vec<bool>,
    pub(crate) outer: Vec<Arc<Held>>,
    pub(crate) hash: u64,
    /// Where the region before ended, and the bytes that this one reads of what that one made.
    pub(crate) read_back: Option<(Place, u64)>,
}

impl Piece {
    /// Whether it runs as one program the first time it comes.
    pub(crate) fn at_once(&self) -> bool {
        self.calls.iter().any(|call| call.mode.at_once)
    }
    /// Whether its program is waited for.
    pub(crate) fn waits(&self) -> bool {
        self.calls.iter().any(|call| call.mode.deterministic || call.mode.at_once)
    }
}

impl Open {
    pub(crate) fn len(&self) -> usize {
        self.calls.len()
    }
    pub(crate) fn nodes(&self) -> usize {
        self.nodes
    }
    pub(crate) fn kept(&self) -> u64 {
        self.kept
    }
    pub(crate) fn marks(&self) -> &[Option<Mark>] {
        &self.marks
    }

    /// Appends a call, before which it is as good to cut as `mark` says. `serials` numbers regions.
    pub(crate) fn record(&mut self, call: Task, mark: Option<Mark>, serials: &mut u64) {
        if self.calls.is_empty() {
            *serials += 1;
            self.serial = *serials;
        }
        self.marks.push(mark);
        let (fingerprint, nodes) = call.program();
        self.stream.push(fingerprint);
        for feed in &call.inputs {
            let word = self.wire(feed);
            self.stream.push(word);
        }
        for output in &call.outputs {
            output.set_home(self.serial, Home::Inner(self.uses.len()));
            self.uses.push(0);
        }
        self.nodes += nodes;
        self.ends.push(self.stream.len());
        self.calls.push(call);
    }

    /// Notes that so many bytes came from the host. Whether that makes it time for a cut.
    pub(crate) fn bring(&mut self, bytes: u64) -> bool {
        self.brought += bytes;
        self.brought >= MOST_BROUGHT && !self.calls.is_empty()
    }

    /// Notes that the storage of `held` is gone.
    pub(crate) fn outlive(&mut self, held: &Held) {
        if matches!(held.home(self.serial), Some(Home::Outer(_))) {
            self.kept += held.bytes();
        }
    }

    fn wire(&mut self, feed: &Feed) -> u64 {
        let held = match feed {
            Feed::Value(held) => held,
            Feed::Number { float: true, .. } => return wire::FLOAT,
            Feed::Number { float: false, .. } => return wire::INT,
            Feed::Seed(_) => return wire::SEED,
        };
        match held.home(self.serial) {
            Some(Home::Inner(i)) => {
                self.uses[i] += 1;
                (i as u64) << wire::BITS | wire::INNER
            }
            Some(Home::Outer(i)) => (i as u64) << wire::BITS | wire::OUTER,
            None => {
                let i = self.outer.len();
                if let Some((before, _)) = self.before
                    && matches!(held.home(before), Some(Home::Inner(_)))
                {
                    self.read_back += held.bytes();
                }
                held.set_home(self.serial, Home::Outer(i));
                self.outer.push(held.clone());
                (i as u64) << wire::BITS | wire::OUTER
            }
        }
    }

    /// The bytes of what the last `count` calls made that somebody besides this region holds.
    pub(crate) fn held_bytes(&self, count: usize) -> u64 {
        let recent = self.calls.iter().rev().take(count).flat_map(|call| &call.outputs);
        recent.filter(|held| self.is_held(held)).map(|held| held.bytes()).sum()
    }

    fn is_held(&self, held: &Arc<Held>) -> bool {
        let Some(Home::Inner(i)) = held.home(self.serial) else { return true };
        Arc::strong_count(held) > 1 + self.uses[i] as usize
    }

    /// Takes the first `count` calls out, since a region ends at `place`. What stays is a region of its own.
    pub(crate) fn take(&mut self, count: usize, place: Place, serials: &mut u64) -> Piece {
        let mut open = std::mem::take(self);
        let (rest, marks) = (open.calls.split_off(count), open.marks.split_off(count));
        // Whatever later calls read counts as held: only the inputs of the piece's own calls do not.
        for feed in rest.iter().flat_map(|call| &call.inputs) {
            if let Feed::Value(held) = feed
                && let Some(Home::Inner(i)) = held.home(open.serial)
            {
                open.uses[i] -= 1;
            }
        }
        open.stream.truncate(count.checked_sub(1).map_or(0, |last| open.ends[last]));
        let live: Vec<bool> = open.calls.iter().flat_map(|call| &call.outputs).map(|held| open.is_held(held)).collect();
        let Open { serial, calls, stream, mut outer, before, read_back, .. } = open;
        self.before = Some((serial, place));
        outer.truncate(outer_count(&stream, &calls));
        let hash = hash(&stream, &live);
        for (call, mark) in rest.into_iter().zip(marks) {
            self.record(call, mark, serials);
        }
        Piece { calls, stream, live, outer, hash, read_back: before.map(|(_, place)| (place, read_back)) }
    }
}

/// How many values the calls of `stream` take from outside: they are numbered as they come.
fn outer_count(stream: &[u64], calls: &[Task]) -> usize {
    let mut at = 0;
    let mut count = 0;
    for call in calls {
        let words = &stream[at + 1..=at + call.inputs.len()];
        let outer = words.iter().filter(|&&w| w & ((1 << wire::BITS) - 1) == wire::OUTER);
        count = outer.map(|w| (w >> wire::BITS) as usize + 1).max().unwrap_or(0).max(count);
        at += 1 + call.inputs.len();
    }
    count
}

fn hash(stream: &[u64], live: &[bool]) -> u64 {
    let mut hasher = FxHasher::default();
    stream.iter().for_each(|&word| hasher.write_u64(word));
    live.iter().for_each(|&live| hasher.write_u8(live.into()));
    hasher.finish()
}
