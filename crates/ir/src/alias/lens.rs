//! Storages seen as other elements than their own: parts of complex numbers, conjugates, bits.
//!
//! What is seen is a cell of its own that follows another one: it is computed anew once that has changed, and what is
//! written to it is put back there.

use super::{Aliases, Cell, Layout, TensorId};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::ValueId;
use crate::op::{Binary, Unary};
use crate::unsupported;

/// Views of other elements on top of each other beyond which a program is refused: reads and writes recurse by it.
const MAX_DEPTH: usize = 32;

/// How the elements of a storage are seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lens {
    /// Complex numbers as pairs in a new last dimension.
    Parts,
    /// Pairs in the last dimension as complex numbers.
    Pairs,
    /// The real part of complex numbers.
    Real,
    /// The imaginary part of complex numbers.
    Imag,
    /// The conjugate.
    Conjugate,
    /// The negative.
    Negative,
    /// The bits as another type of the same width.
    Bits(DType),
}

/// What a cell follows.
pub(super) struct Origin {
    base: TensorId,
    lens: Lens,
    /// The writes of the base's cell that it has seen.
    seen: usize,
    depth: usize,
    lazy: Lazy,
}

/// Whether a tensor's storage holds the conjugate or the negative of what the tensor stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lazy {
    /// The conjugate: `Tensor.is_conj`.
    pub conjugate: bool,
    /// The negative: `Tensor.is_neg`.
    pub negative: bool,
}

impl Lens {
    /// What is seen of `v`, whose type has such elements.
    ///
    /// # Errors
    /// Those of the builder.
    pub fn see(self, b: &Builder, v: ValueId) -> Result<ValueId> {
        match self {
            Lens::Parts => {
                let mut shape = b.shape(v);
                let last = shape.len();
                shape.push(1);
                let column = |part| b.reshape(b.unary(part, v)?, &shape);
                b.concatenate(&[column(Unary::Real)?, column(Unary::Imag)?], last)
            }
            Lens::Pairs => {
                let mut shape = b.shape(v);
                shape.pop();
                let part = |i| b.reshape(b.slice_dim(v, shape.len(), i, i + 1, 1)?, &shape);
                b.binary(Binary::Complex, part(0)?, part(1)?)
            }
            Lens::Real => b.unary(Unary::Real, v),
            Lens::Imag => b.unary(Unary::Imag, v),
            Lens::Conjugate => {
                let imag = b.negate(b.unary(Unary::Imag, v)?)?;
                b.binary(Binary::Complex, b.unary(Unary::Real, v)?, imag)
            }
            Lens::Negative => b.negate(v),
            Lens::Bits(dtype) => b.bitcast_convert(v, dtype),
        }
    }

    /// `base`, changed so that `seen` is seen of it.
    fn put(self, b: &Builder, base: ValueId, seen: ValueId) -> Result<ValueId> {
        match self {
            Lens::Parts => Lens::Pairs.see(b, seen),
            Lens::Pairs => Lens::Parts.see(b, seen),
            Lens::Real => b.binary(Binary::Complex, seen, b.unary(Unary::Imag, base)?),
            Lens::Imag => b.binary(Binary::Complex, b.unary(Unary::Real, base)?, seen),
            Lens::Conjugate | Lens::Negative => self.see(b, seen),
            Lens::Bits(_) => b.bitcast_convert(seen, b.dtype(base)),
        }
    }

    fn lazy(self, base: Lazy) -> Lazy {
        match self {
            Lens::Conjugate => Lazy { conjugate: !base.conjugate, ..base },
            Lens::Negative => Lazy { negative: !base.negative, ..base },
            Lens::Imag => Lazy { conjugate: false, negative: base.conjugate != base.negative },
            _ => Lazy { conjugate: false, ..base },
        }
    }
}

impl Aliases {
    /// A tensor that sees `base` through `lens`: `value` for now, laid out like `layout`.
    ///
    /// # Errors
    /// As [`Aliases::fresh`]; `Unsupported` for many of these on top of each other.
    pub fn seen(&self, b: &Builder, base: TensorId, lens: Lens, value: ValueId, layout: Layout) -> Result<TensorId> {
        let depth = self.origin(base, |o| o.depth).unwrap_or(0) + 1;
        if depth > MAX_DEPTH {
            unsupported!("views of other elements lie deeper than {MAX_DEPTH} on top of each other");
        }
        let (lazy, seen) = (lens.lazy(self.lazy(base)), self.writes(base));
        let tensor = self.fresh(b, value, layout)?;
        let cell = self.cell(tensor);
        self.state.borrow_mut().cells[cell.index()].origin = Some(Origin { base, lens, seen, depth, lazy });
        Ok(tensor)
    }

    /// Whether PyTorch would hold the conjugate or the negative of `t` in its storage.
    pub fn lazy(&self, t: TensorId) -> Lazy {
        self.origin(t, |o| o.lazy).unwrap_or_default()
    }

    fn origin<T>(&self, t: TensorId, get: impl FnOnce(&Origin) -> T) -> Option<T> {
        self.state.borrow().tensor(t).1.origin.as_ref().map(get)
    }

    /// Has the storage of `t` hold what it sees.
    pub(super) fn refresh(&self, b: &Builder, t: TensorId) -> Result<()> {
        let Some((base, lens, seen)) = self.origin(t, |o| (o.base, o.lens, o.seen)) else { return Ok(()) };
        self.refresh(b, base)?;
        let writes = self.writes(base);
        if writes == seen {
            return Ok(());
        }
        let value = lens.see(b, self.read(b, base)?)?;
        let mut s = self.state.borrow_mut();
        let cell = s.tensors[t.index()].cell;
        s.cells[cell.index()].follow(value, writes);
        Ok(())
    }

    /// Puts what was written to the storage of `t` where it is seen.
    pub(super) fn put_back(&self, b: &Builder, t: TensorId) -> Result<()> {
        let Some((base, lens)) = self.origin(t, |o| (o.base, o.lens)) else { return Ok(()) };
        let next = lens.put(b, self.read(b, base)?, self.whole(t).0)?;
        self.write(b, base, next)?;
        let writes = self.writes(base);
        let mut s = self.state.borrow_mut();
        let cell = s.tensors[t.index()].cell;
        if let Some(origin) = &mut s.cells[cell.index()].origin {
            origin.seen = writes;
        }
        Ok(())
    }
}

impl Cell {
    fn follow(&mut self, value: ValueId, writes: usize) {
        self.value = value;
        self.writes += 1;
        self.reads.clear();
        if let Some(origin) = &mut self.origin {
            origin.seen = writes;
        }
    }
}
