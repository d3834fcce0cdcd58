//! Ops whose results have extents that are data.
//!
//! A program's tensors have fixed extents. Such an op computes results that are long enough for any data, and beside them
//! how much of each is real: cutting off the rest is up to whoever runs the program.

use super::{Call, Outs, Rule};
use crate::builder::Builder;
use crate::error::{Error, ErrorKind, Result};
use crate::graph::ValueId;
use crate::types::Dims;

/// What such an op comes to.
pub enum Bounded {
    /// Results that are padded, and where the padding begins. Without cuts the results are what they are.
    Results {
        /// As an expansion gives them.
        padded: Outs,
        /// What to cut off.
        cuts: Vec<Cut>,
        /// How the first result lies in its storage, outermost dimension first; row-major if that is not said.
        order: Option<Dims>,
    },
    /// No bound of the extents follows from the arguments' types. This `i64[]` is one for their values: whoever can read
    /// it calls the rule again, with that number or a larger one as [`Context::bound`](super::Context). A negative one says
    /// that the values are refused: the rule then says why.
    Bound(ValueId),
}

/// A dimension of which only a part is real.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Which result.
    pub result: usize,
    /// The dimension.
    pub dim: usize,
    /// How many of its elements are real, `i64[]`.
    pub count: ValueId,
}

/// Appends the core ops that compute a call's padded results and where to cut them.
pub type BoundedFn = fn(&Call<'_>, &Builder) -> Result<Bounded>;

impl Bounded {
    /// One result, of which `count` elements along the first dimension are real.
    pub fn rows(padded: ValueId, count: ValueId) -> Result<Bounded> {
        Ok(Bounded::Results { padded: vec![Some(padded)], cuts: vec![Cut { result: 0, dim: 0, count }], order: None })
    }

    /// Results that are not padded.
    pub fn fixed(results: Outs) -> Result<Bounded> {
        Ok(Bounded::Results { padded: results, cuts: vec![], order: None })
    }
}

impl Rule {
    /// The results of an op that computes tensors, where the extents of all follow from the arguments' types.
    ///
    /// # Errors
    /// The op's own; `Unsupported` where extents are data.
    pub fn expand(&self, c: &Call<'_>, b: &Builder) -> Result<Outs> {
        match self {
            Rule::Expand(expand) => expand(c, b),
            Rule::Bounded(expand) => match expand(c, b)? {
                Bounded::Results { padded, cuts, .. } if cuts.is_empty() => Ok(padded),
                _ => Err(data_dependent(c.name())),
            },
            _ => Err(Error::internal(format!("{} computes no tensors", c.schema.name))),
        }
    }

    /// Whether it computes tensors.
    pub fn computes(&self) -> bool {
        matches!(self, Rule::Expand(_) | Rule::Bounded(_))
    }
}

/// A bound that serves many counts, so that they share a program; of a negative one, that.
pub fn loose(count: i64) -> i64 {
    if count < 0 { count } else { (count as u64).next_power_of_two().min(i64::MAX as u64) as i64 }
}

/// The refusal of results with as many elements as the data says.
pub(super) fn data_dependent(what: &str) -> Error {
    Error::new(ErrorKind::DataDependent, format!("{what}: the shape of its result depends on the data"))
        .with_help("use a form whose result has a fixed shape, such as torch.where or torch.nonzero_static")
}
