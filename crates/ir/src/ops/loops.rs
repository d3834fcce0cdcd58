//! Loops of expansions: what changes from one step to the next is carried.

use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::{InputKind, OutputKind, ValueId};
use crate::literal::Number;
use crate::op::{Binary, Comparison, Reducer};
use crate::types::Dims;

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
pub(super) fn repeat(
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

/// Whether `mask` holds anywhere, as `bool[]`.
pub(super) fn anywhere(b: &Builder, mask: ValueId) -> Result<ValueId> {
    let dims: Dims = (0..b.rank(mask)).collect();
    b.reduce(mask, Reducer::Or, &dims)
}
