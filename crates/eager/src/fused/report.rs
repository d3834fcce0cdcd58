//! What fused mode did, and why.

use crate::cells::Origin;
use crate::core::{BACKWARD, Core, State, op_name};
use crate::fused::cut::{Cuts, Place};
use crate::fused::known::Region;
use std::collections::BTreeMap;

/// Lines of a region that are named.
const MOST_LINES: usize = 8;

/// All of it.
#[derive(Debug, Clone, Default)]
pub struct Explanation {
    /// Calls that were recorded.
    pub recorded: u64,
    /// Different regions met so far.
    pub met: u64,
    /// A hash of all regions' keys in the order they came, the same wherever the same script runs.
    pub sequence: u64,
    /// The regions that are remembered, the most frequent first.
    pub regions: Vec<RegionReport>,
    /// Cuts by cause and line, the most frequent first.
    pub cuts: Vec<CutReport>,
}

/// A region.
#[derive(Debug, Clone)]
pub struct RegionReport {
    /// Its number.
    pub number: u64,
    /// The functions and lines it came from.
    pub name: String,
    /// How many calls it bundles.
    pub calls: usize,
    /// How often it came.
    pub occurrences: u64,
    /// How often it ran as one program.
    pub runs: u64,
    /// `seen`, `compiling`, `compiled`, or why it could not be compiled.
    pub state: String,
    /// Seconds that composing, optimizing and compiling it took.
    pub seconds: f64,
    /// The lines with the most calls, as `(file:line, calls)`.
    pub lines: Vec<(String, usize)>,
    /// What it has in place of a region seen before: `(number, op, file:line)`. The op is `end` if it only ends before that
    /// one, and empty if the calls are the same, and others of their results are held.
    pub instead_of: Option<(u64, &'static str, String)>,
}

/// Cuts.
#[derive(Debug, Clone)]
pub struct CutReport {
    /// The cause.
    pub why: &'static str,
    /// The line that asked; empty if that is not known.
    pub line: String,
    /// How many.
    pub count: u64,
    /// Bytes that the regions behind read of what those before had made.
    pub read_back: u64,
}

/// Its counters alone.
#[derive(Debug, Clone, Copy, Default)]
pub struct RegionCounts {
    /// Calls that were recorded.
    pub recorded: u64,
    /// Different regions met so far.
    pub met: u64,
    /// Regions that have a program.
    pub compiled: u64,
    /// Regions whose program is being made, in the background.
    pub compiling: u64,
    /// How often one ran as that.
    pub runs: u64,
    /// How often a region was cut.
    pub cuts: u64,
}

impl Core {
    /// How much of what fused mode did so far, on all devices.
    pub fn region_counts(&self) -> RegionCounts {
        let state = self.lock();
        let (compiled, compiling) = state.known.programs();
        RegionCounts {
            recorded: state.recorded,
            met: state.known.count(),
            compiled,
            compiling,
            runs: state.known.runs(),
            cuts: state.cuts.values().map(|cuts| cuts.count).sum(),
        }
    }

    /// What fused mode did so far, on all devices.
    pub fn explanation(&self) -> Explanation {
        let state = self.lock();
        let mut regions: Vec<_> = state.known.iter().map(|region| state.report(region)).collect();
        regions.sort_by_key(|r| (std::cmp::Reverse(r.occurrences * r.calls as u64), r.number));
        let cut = |(&(why, location), cuts): (&Place, &Cuts)| CutReport {
            why: why.text(),
            line: state.line(location),
            count: cuts.count,
            read_back: cuts.read_back,
        };
        let mut cuts: Vec<_> = state.cuts.iter().map(cut).collect();
        cuts.sort_by(|a, b| {
            (std::cmp::Reverse(a.count), a.why, &a.line).cmp(&(std::cmp::Reverse(b.count), b.why, &b.line))
        });
        Explanation {
            recorded: state.recorded,
            met: state.known.count(),
            sequence: state.known.sequence(),
            regions,
            cuts,
        }
    }

    /// Finishes what is being compiled and compiles no more, so that no thread is at work when the process ends.
    pub fn close(&self) {
        self.compiler.close();
        self.makers.close();
    }
}

impl State {
    fn report(&self, region: &Region) -> RegionReport {
        let done = region.job.as_ref().map(|job| job.done.get());
        let (state, seconds) = match done {
            None => ("seen".to_owned(), 0.0),
            Some(None) => ("compiling".to_owned(), 0.0),
            Some(Some(Ok(fused))) => ("compiled".to_owned(), fused.took.as_secs_f64()),
            Some(Some(Err(why))) => (format!("not compiled: {why}"), 0.0),
        };
        let instead_of = region.instead_of.map(|nearest| {
            let (op, line) = match nearest.differs_at.map(|call| region.origins.get(call)) {
                None => ("", String::new()),
                Some(None) => ("end", String::new()),
                Some(Some(origin)) => (op_name(origin.op), self.line(origin.location)),
            };
            (nearest.number, op, line)
        });
        RegionReport {
            number: region.number,
            name: self.region_name(region.origins.iter().copied()),
            calls: region.origins.len(),
            occurrences: region.occurrences,
            runs: region.runs,
            state,
            seconds,
            lines: self.lines(&region.origins),
            instead_of,
        }
    }

    fn lines(&self, origins: &[Origin]) -> Vec<(String, usize)> {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        origins.iter().for_each(|origin| *counts.entry(self.line(origin.location)).or_default() += 1);
        let mut lines: Vec<_> = counts.into_iter().collect();
        lines.sort_by_key(|(line, count)| (std::cmp::Reverse(*count), line.clone()));
        lines.truncate(MOST_LINES);
        lines
    }

    /// The first and the last line of calls, as people say it: `forward:12 to step:40`. Gradients, which go back through the
    /// lines, do not count if there is anything else.
    pub(crate) fn region_name(&self, origins: impl Iterator<Item = Origin>) -> String {
        let (gradients, others): (Vec<u64>, Vec<u64>) =
            origins.map(|origin| origin.location).filter(|&at| at != 0).partition(|at| at & BACKWARD != 0);
        let named = if others.is_empty() { gradients } else { others };
        let places = named.into_iter().map(|at| self.place(at)).filter(|place| place.line != 0);
        let mut named = places.map(|place| format!("{}:{}", place.function, place.line));
        let Some(first) = named.next() else { return "region".to_owned() };
        match named.next_back() {
            Some(last) if last != first => format!("{first} to {last}"),
            _ => first,
        }
    }
}
