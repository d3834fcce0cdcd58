//! What a call that was seen before does.

use crate::cells::TypeId;
use crate::error::Result;
use crate::interpret::Rent;
use crate::make::Making;
use crate::words::dtype_code;
use ir::eager::CellType;
use ir::ops::Condition;
use ir::{Graph, Number};
use runtime::Executable;
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A call's program, alike for all plans that compute the same.
pub(crate) struct Kernel {
    pub(crate) graph: Graph,
    /// Inputs that it takes over, in order.
    pub(crate) donated: Vec<usize>,
    /// Tells programs apart, alike on every host.
    pub(crate) fingerprint: u64,
    /// Whether a call with it was put in line.
    pub(crate) came: AtomicBool,
    /// Where calls are evaluated instead of being executed.
    pub(crate) rent: Option<Rent>,
    pub(crate) making: Making,
}

impl Kernel {
    /// The program itself, waited for if it is being compiled. To be called without locks.
    ///
    /// # Errors
    /// When the plugin has refused it.
    pub(crate) fn executable(&self) -> Result<&Arc<Executable>> {
        self.making.executable(&self.graph)
    }

    /// Bytes that it takes while it runs; none, where there is no program.
    pub(crate) fn temporaries(&self) -> u64 {
        if self.is_rented() { 0 } else { self.executable().map_or(0, |executable| executable.temporaries()) }
    }

    /// Whether calls are evaluated, and there is no program yet.
    pub(crate) fn is_rented(&self) -> bool {
        self.rent.as_ref().is_some_and(|rent| !rent.is_over())
    }
}

/// A call's program, and what calls it serves: those with the same words, cells of the same types, and the same values of
/// the scalars it was specialised for.
pub(crate) struct Plan {
    pub(crate) words: Box<[u64]>,
    pub(crate) types: SmallVec<[TypeId; 8]>,
    /// The bound of the results' extents that it was made for.
    pub(crate) bound: Option<i64>,
    /// Scalars, and the bits they must have.
    pub(crate) guards: Vec<(usize, u64)>,
    /// What must hold of the others.
    pub(crate) conditions: Vec<Requirement>,
    /// Types that cells without a value are taken to have, by slot.
    pub(crate) assumed: Vec<(usize, TypeId)>,
    /// `None` if all results are inputs.
    pub(crate) kernel: Option<Arc<Kernel>>,
    pub(crate) inputs: Vec<Source>,
    /// Inputs that the executable takes over, if nobody else holds them.
    pub(crate) donated: Vec<usize>,
    pub(crate) outputs: Vec<Output>,
    pub(crate) results: Vec<Option<(New, Value)>>,
    pub(crate) written: Vec<(usize, TypeId, Value)>,
    pub(crate) extents: Extents,
}

/// A condition, and of each of its numbers the scalar that it is.
pub(crate) struct Requirement {
    pub(crate) condition: Condition,
    pub(crate) scalars: SmallVec<[usize; 2]>,
}

impl Requirement {
    fn holds(&self, scalars: &[u64]) -> bool {
        self.condition.holds(|place, sym| {
            let bits = self.scalars.get(place).and_then(|&i| scalars.get(i)).copied().unwrap_or_default();
            match sym.value {
                Number::Float(_) => Number::Float(f64::from_bits(bits)),
                _ => Number::Int(bits as i64),
            }
        })
    }
}

/// Which extents of its results are data.
pub(crate) enum Extents {
    Fixed,
    /// The results are padded; for each `(result, dimension)` there is an `i64` in the counts.
    Cut {
        cuts: Vec<(usize, usize)>,
        counts: Value,
    },
    /// It gives a bound of the extents, and no results.
    Bound(Value),
    /// It gives a cell the form that the call's own plan takes, and no results.
    Prepared,
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
    pub(crate) ty: TypeId,
    pub(crate) nbytes: u64,
    pub(crate) dtype: i32,
    pub(crate) sizes: Vec<i64>,
    pub(crate) strides: Vec<i64>,
}

impl New {
    /// One whose type has this number.
    pub(crate) fn of(ty: &CellType, id: TypeId) -> New {
        let signed = |ns: &[usize]| ns.iter().map(|&n| n as i64).collect();
        New {
            ty: id,
            nbytes: (ty.layout.numel().unwrap_or(0) * ty.dtype.size()) as u64,
            dtype: dtype_code(ty.dtype),
            sizes: signed(&ty.layout.sizes),
            strides: signed(&ty.layout.strides),
        }
    }
}

impl Extents {
    /// The value to read before the call's results are known, and how many `i64`s it holds.
    pub(crate) fn asked(&self) -> Option<(Value, usize)> {
        match self {
            Extents::Fixed | Extents::Prepared => None,
            Extents::Cut { cuts, counts } => Some((*counts, cuts.len())),
            Extents::Bound(bound) => Some((*bound, 1)),
        }
    }
}

impl Plan {
    /// Whether the call's results come of it; else another plan follows.
    pub(crate) fn is_last(&self) -> bool {
        matches!(self.extents, Extents::Fixed | Extents::Cut { .. })
    }

    /// Whether it may be forgotten: its calls are evaluated.
    pub(crate) fn is_passing(&self) -> bool {
        self.kernel.as_ref().is_some_and(|kernel| kernel.is_rented())
    }

    pub(crate) fn serves(&self, words: &[u64], types: &[TypeId], scalars: &[u64], bound: Option<i64>) -> bool {
        *self.words == *words
            && self.types[..] == *types
            && self.bound == bound
            && self.guards.iter().all(|&(i, bits)| scalars.get(i) == Some(&bits))
            && self.conditions.iter().all(|needed| needed.holds(scalars))
    }
}
