//! Where a region ends.
//!
//! Where its values are asked for, of course. A stream that nobody asks is cut before it grows too large, and there the
//! place matters: a training loop has to be cut at the same places in every step, wherever the region began. So the places
//! are ranked by what stands around them alone, and the best of the later half of a region is taken: first where the
//! least has to be made that nobody would hold for long, then where the calls before it are like those of the fewest other
//! places, then by a hash of them.

use crate::fused::open::Open;
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::Hasher;

/// Calls in a region at most.
const MOST_CALLS: usize = 512;
/// Core ops in a region at most; one call may have more by itself.
const MOST_NODES: usize = 8192;
/// Calls before a place that rank it.
const CONTEXT: usize = 16;

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
    /// A storage was seen as another element type, or had grown.
    Reformed,
    /// Another mode took over.
    Mode,
    /// It was as large as regions get.
    Full,
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
            Why::Reformed => "a storage was seen as another element type",
            Why::Mode => "another eager mode took over",
            Why::Full => "the region was full",
        }
    }
}

/// What ranks a place to cut.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Mark {
    /// Of the bytes that would have to be made, the binary logarithm.
    bytes: u32,
    context: u64,
}

/// The mark of the place where `open` ends now; `None` in its first half.
pub(crate) fn mark(open: &Open) -> Option<Mark> {
    if open.len() < MOST_CALLS / 2 && open.nodes() < MOST_NODES / 2 {
        return None;
    }
    let mut hasher = FxHasher::default();
    open.recent(CONTEXT).for_each(|program| hasher.write_u64(program));
    Some(Mark { bytes: open.held_bytes(CONTEXT).checked_ilog2().map_or(0, |n| n + 1), context: hasher.finish() })
}

/// How many calls to cut off `open` if it is full.
pub(crate) fn place(open: &Open) -> Option<usize> {
    if open.len() < MOST_CALLS && open.nodes() < MOST_NODES {
        return None;
    }
    let marks = open.marks();
    let mut counts: FxHashMap<Mark, usize> = FxHashMap::default();
    marks.iter().for_each(|mark| *counts.entry(*mark).or_default() += 1);
    let rank = |mark: &Mark| (mark.bytes, counts[mark], mark.context);
    // Of equal ones the last: the larger region.
    let best = marks.iter().enumerate().rev().min_by_key(|(_, mark)| rank(mark))?;
    Some(open.len() - marks.len() + best.0)
}
