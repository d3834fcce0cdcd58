//! Fused mode: eager calls, run together as one program.
//!
//! A call is recorded instead of put in line: its results are promised as ever, and nothing runs. What was recorded since the
//! last cut is the [open](open) region. It is cut where its values are asked for, and where it grows too large ([`cut`]); then
//! it goes on its way as a whole. Its *stream*, which programs were called and how they were wired, together with which of its
//! values somebody still holds, is its key: it decides everything, and time, addresses and hash seeds nothing.
//!
//! A region that was not [known](known) runs call by call, as in strict mode. One that comes again is composed into one
//! graph, optimized and compiled on a thread of its own ([`compile`]), and from a fixed occurrence on runs as that
//! ([`bundle`]). Values that nobody holds when it is cut are never made.

pub(crate) mod bundle;
pub(crate) mod compile;
mod compose;
pub(crate) mod cut;
pub(crate) mod known;
mod memory;
pub(crate) mod open;
mod report;

pub(crate) use cut::{Cuts, Place, Why};
pub use report::{CutReport, Explanation, RegionCounts, RegionReport};
