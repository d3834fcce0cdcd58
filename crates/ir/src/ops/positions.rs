//! Integers that say no more than where something begins. They need not decide the program: eager calls of other integers share
//! it, and symbolic ones are brought when it runs.

use super::Scalar;
use super::call::Call;
use crate::DType;
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::literal::Number;
use crate::op::{Comparison, Op};
use crate::types::Shape;

impl Call<'_> {
    /// The integer `name`, if it is symbolic and nothing else has made the program depend on it.
    pub(super) fn brought(&self, name: &str) -> Result<Option<Scalar>> {
        Ok(self.optional_scalar(name)?.filter(|s| self.is_brought(s)))
    }

    /// Whether `s` is symbolic, and nothing else has made the program depend on it.
    pub(super) fn is_brought(&self, s: &Scalar) -> bool {
        matches!(s, Scalar::Symbolic(sym) if !self.context.closed && !self.context.symbols.is_decided(sym))
    }

    /// The integer `name` of this call. It decides the program, unless it is [`Call::brought`].
    pub(super) fn int_now(&self, name: &str) -> Result<i64> {
        self.brought(name)?.map_or_else(|| self.int(name), |s| Ok(s.now().as_i64()))
    }

    /// As [`Call::brought`], and the extents of what it begins, where a view may be a copy of those.
    pub(super) fn brought_to_copy(&self, name: &str) -> Result<Option<(Scalar, &Shape)>> {
        match self.recorded.first() {
            Some(Some(shape)) => Ok(self.brought(name)?.map(|start| (start, shape))),
            _ => Ok(None),
        }
    }

    /// The index `s` of `extent` places, which counts from the last one where it is negative, as `i64[]`.
    pub(super) fn place(&self, b: &Builder, s: &Scalar, extent: usize) -> Result<ValueId> {
        from_behind(b, self.scalar_value(b, s, DType::I64)?, extent)
    }
}

/// `at`, with `extent` added where it is negative.
pub(super) fn from_behind(b: &Builder, at: ValueId, extent: usize) -> Result<ValueId> {
    let [zero, extent] = [0, extent as i64].map(|n| b.scalar(Number::Int(n), b.dtype(at)));
    let is_negative = b.compare(Comparison::Lt, at, zero?)?;
    b.select(is_negative, b.add(at, extent?)?, at)
}

/// `length` elements of `v` along dimension `d` from `start`, a 0-d integer, on.
pub(super) fn part(b: &Builder, v: ValueId, d: usize, start: ValueId, length: usize) -> Result<ValueId> {
    let mut sizes = b.shape(v);
    sizes[d] = length;
    b.push(Op::DynamicSlice { sizes }, &window(b, vec![v], d, start)?, vec![])
}

/// `v` with `part` along dimension `d` from `start`, a 0-d integer, on.
pub(super) fn with_part(b: &Builder, v: ValueId, part: ValueId, d: usize, start: ValueId) -> Result<ValueId> {
    b.push(Op::DynamicUpdateSlice, &window(b, vec![v, part], d, start)?, vec![])
}

/// `operands`, and where a window of the first begins, which is whole but for dimension `d`.
fn window(b: &Builder, mut operands: Vec<ValueId>, d: usize, start: ValueId) -> Result<Vec<ValueId>> {
    let zero = b.scalar(Number::Int(0), b.dtype(start))?;
    let rank = b.rank(operands[0]);
    operands.extend((0..rank).map(|at| if at == d { start } else { zero }));
    Ok(operands)
}
