//! Loops of expansions: what changes from one step to the next is carried.

use super::positions::{part, with_part};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::graph::{Graph, InputKind, OutputKind, ValueId};
use crate::literal::Number;
use crate::op::{Binary, Comparison, Reducer};
use crate::types::{Dims, Shape};

/// `step` while `more` (to `bool[]`) holds. Both get the values carried, all that they may use; `step` gives their next
/// ones.
pub(super) fn repeat_while(
    b: &Builder,
    carried: &[ValueId],
    more: impl Fn(&Builder, &[ValueId]) -> Result<ValueId>,
    step: impl Fn(&Builder, &[ValueId]) -> Result<Vec<ValueId>>,
) -> Result<Vec<ValueId>> {
    let inputs = |inner: &Builder| -> Result<Vec<ValueId>> {
        let input = |(i, &v): (usize, &ValueId)| Ok(inner.input(format!("arg{i}"), InputKind::User, b.ty(v)?));
        carried.iter().enumerate().map(input).collect()
    };
    let condition = Builder::new("more");
    let given = inputs(&condition)?;
    condition.output("out0", OutputKind::User, more(&condition, &given)?);
    let body = Builder::new("step");
    let given = inputs(&body)?;
    for (i, v) in step(&body, &given)?.into_iter().enumerate() {
        body.output(format!("out{i}"), OutputKind::User, v);
    }
    b.while_loop(carried, condition.finish(), body.finish())
}

/// `count` times `step`, which gets the counter (`i32[]`) and the values carried, and gives their next ones.
///
/// # Errors
/// Those of `step`; `Internal` if it gives values of other types.
pub fn repeat(
    b: &Builder,
    count: usize,
    carried: &[ValueId],
    step: impl Fn(&Builder, ValueId, &[ValueId]) -> Result<Vec<ValueId>>,
) -> Result<Vec<ValueId>> {
    repeat_at_most(b, count, carried, |_, _| Ok(None), step)
}

/// As [`repeat`], but only for as long as what `needed` makes of the values carried (`bool[]`), if anything, holds.
pub(super) fn repeat_at_most(
    b: &Builder,
    count: usize,
    carried: &[ValueId],
    needed: impl Fn(&Builder, &[ValueId]) -> Result<Option<ValueId>>,
    step: impl Fn(&Builder, ValueId, &[ValueId]) -> Result<Vec<ValueId>>,
) -> Result<Vec<ValueId>> {
    let empty = carried.first().is_some_and(|&v| b.shape(v).contains(&0));
    if count == 0 || empty {
        return Ok(carried.to_vec());
    }
    let counter = b.scalar(Number::Int(0), DType::I32)?;
    let all: Vec<ValueId> = std::iter::once(counter).chain(carried.iter().copied()).collect();
    let more = |b: &Builder, given: &[ValueId]| {
        let limit = b.scalar(Number::Int(count as i64), DType::I32)?;
        let left = b.compare(Comparison::Lt, given[0], limit)?;
        let needed = needed(b, &given[1..])?;
        needed.map_or(Ok(left), |needed| b.binary(Binary::And, left, needed))
    };
    let counted = |b: &Builder, given: &[ValueId]| {
        let mut next = vec![b.add(given[0], b.scalar(Number::Int(1), DType::I32)?)?];
        next.extend(step(b, given[0], &given[1..])?);
        Ok(next)
    };
    Ok(repeat_while(b, &all, more, counted)?[1..].to_vec())
}

/// The condition of a loop whose first value is a counter: that it is below `count`.
pub(crate) fn fewer_than(b: &Builder, carried: &[ValueId], count: usize) -> Result<Graph> {
    let more = Builder::new("more");
    let input = |(i, &v): (usize, &ValueId)| Ok(more.input(format!("arg{i}"), InputKind::User, b.ty(v)?));
    let inputs = carried.iter().enumerate().map(input).collect::<Result<Vec<_>>>()?;
    let [counter, ..] = inputs[..] else { return Err(Error::internal("a loop without a counter")) };
    let limit = more.scalar(Number::Int(count as i64), more.dtype(counter))?;
    more.output("out0", OutputKind::User, more.compare(Comparison::Lt, counter, limit)?);
    Ok(more.finish())
}

/// Row `place` (a 0-d integer) of `v`, without the first dimension.
pub(crate) fn row(b: &Builder, v: ValueId, place: ValueId) -> Result<ValueId> {
    let shape = b.shape(v);
    b.reshape(part(b, v, 0, place, 1)?, &shape[1..])
}

/// `v` with `row` at `place`, a 0-d integer, of its first dimension.
///
/// # Errors
/// `Internal` if `row` is none of `v`.
pub fn put_row(b: &Builder, v: ValueId, row: ValueId, place: ValueId) -> Result<ValueId> {
    let shape: Shape = std::iter::once(1).chain(b.shape(row)).collect();
    with_part(b, v, b.reshape(row, &shape)?, 0, place)
}

/// Whether `mask` holds anywhere, as `bool[]`.
pub(super) fn anywhere(b: &Builder, mask: ValueId) -> Result<ValueId> {
    let dims: Dims = (0..b.rank(mask)).collect();
    b.reduce(mask, Reducer::Or, &dims)
}
