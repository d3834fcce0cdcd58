//! What may be changed, and what was.

use crate::language::Head;
use ir::LocId;

/// What a rewrite may do to values, least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// The reference evaluator gives the same bits.
    Exact,
    /// The same in exact arithmetic on finite numbers, such as sums in another order; roundings differ as between two
    /// right implementations, and an infinity may become NaN or the other way round.
    Reassociating,
    /// Roundings of narrow types are left out or put elsewhere, and quotients that were exact may not be.
    PrecisionChanging,
}

impl Class {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Class::Exact => "exact",
            Class::Reassociating => "reassociating",
            Class::PrecisionChanging => "precision-changing",
        }
    }
}

/// What the program will run on: decides what is worth it, never what is right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Platform {
    /// XLA's CPU plugin.
    #[default]
    Cpu,
    /// The same, in a process whose BLAS programs may call.
    CpuWithBlas,
    /// A TPU.
    Tpu,
}

impl Platform {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Platform::Cpu | Platform::CpuWithBlas => "cpu",
            Platform::Tpu => "tpu",
        }
    }
}

/// What bounds the optimizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// The most that a rewrite may do to values.
    pub most: Class,
    /// The most that saying one op otherwise may do ([`crate::formulate`]), where that hangs on nothing around the op.
    pub alone: Class,
    /// What it optimizes for.
    pub platform: Platform,
    /// Changes to make at most, to find the one that is wrong.
    pub limit: Option<usize>,
}

impl Default for Options {
    fn default() -> Options {
        Options::new(Class::Reassociating, Platform::default())
    }
}

impl Options {
    /// No rewrite of any kind does more than `most`; any number of them.
    pub fn new(most: Class, platform: Platform) -> Options {
        Options { most, alone: most, platform, limit: None }
    }
}

/// One rewrite that is in the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The rule's name.
    pub rule: &'static str,
    /// What it may do to values.
    pub class: Class,
    /// Where the rewritten ops came from.
    pub locs: Vec<LocId>,
    /// The op whose result is computed otherwise.
    pub before: Head,
    /// The ops that the rule computes it by, operands first, or the one that was there already. Later rules may have
    /// rewritten them again.
    pub after: Vec<Head>,
}

/// Changes as they are made, up to the limit.
#[derive(Debug)]
pub struct Changes {
    options: Options,
    made: Vec<Change>,
}

impl Changes {
    /// None yet.
    pub fn new(options: Options) -> Changes {
        Changes { options, made: vec![] }
    }
    /// What bounds them.
    pub fn options(&self) -> Options {
        self.options
    }
    /// Whether a rewrite of `class` may be made now.
    pub fn allows(&self, class: Class) -> bool {
        class <= self.options.most && self.room() > 0
    }
    /// As [`Changes::allows`], of what hangs on nothing but one op.
    pub(crate) fn allows_alone(&self, class: Class) -> bool {
        class <= self.options.alone && self.room() > 0
    }
    /// How many more may be made.
    pub fn room(&self) -> usize {
        self.options.limit.map_or(usize::MAX, |most| most.saturating_sub(self.made.len()))
    }
    /// Notes one that was made.
    pub fn push(&mut self, change: Change) {
        self.made.push(change);
    }
    /// All of them, in order.
    pub fn into_vec(self) -> Vec<Change> {
        self.made
    }
}
