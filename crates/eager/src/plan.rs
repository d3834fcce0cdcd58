//! What a call that was seen before does.

use crate::cells::TypeId;
use runtime::Executable;
use smallvec::SmallVec;
use std::sync::Arc;

/// A call's program, and what calls it serves: those with the same words, cells of the same types, and the same values of
/// the scalars it was specialised for.
pub(crate) struct Plan {
    pub(crate) words: Box<[u64]>,
    pub(crate) types: SmallVec<[TypeId; 8]>,
    /// Scalars, and the bits they must have.
    pub(crate) guards: Vec<(usize, u64)>,
    /// Types that cells without a value are taken to have, by slot.
    pub(crate) assumed: Vec<(usize, TypeId)>,
    /// `None` if all results are inputs.
    pub(crate) executable: Option<Arc<Executable>>,
    pub(crate) inputs: Vec<Source>,
    /// Inputs that the executable takes over, if nobody else holds them.
    pub(crate) donated: Vec<usize>,
    pub(crate) outputs: Vec<Output>,
    pub(crate) results: Vec<Option<New>>,
    pub(crate) written: Vec<(usize, TypeId, Value)>,
}

/// What feeds an input.
#[derive(Clone, Copy)]
pub(crate) enum Source {
    Cell(usize),
    /// A scalar, and whether it is a float.
    Scalar(usize, bool),
    /// An integer of this plan's own.
    Position(usize),
    Rng,
}

/// An output of the executable.
pub(crate) struct Output {
    pub(crate) bytes: u64,
    /// The input whose cell it is written to, if that has its type: what the cell goes back to when the call fails.
    pub(crate) replaces: Option<usize>,
}

/// Where a value comes from.
#[derive(Clone, Copy)]
pub(crate) enum Value {
    Output(usize),
    /// The value of an input, shared: values do not change.
    Input(usize),
}

/// A new tensor.
pub(crate) struct New {
    pub(crate) from: Value,
    pub(crate) ty: TypeId,
    pub(crate) nbytes: u64,
    pub(crate) dtype: i32,
    pub(crate) sizes: Vec<i64>,
    pub(crate) strides: Vec<i64>,
}

impl Plan {
    pub(crate) fn serves(&self, words: &[u64], types: &[TypeId], scalars: &[u64]) -> bool {
        *self.words == *words
            && self.types[..] == *types
            && self.guards.iter().all(|&(i, bits)| scalars.get(i) == Some(&bits))
    }
}
