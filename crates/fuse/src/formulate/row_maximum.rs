//! Largest elements of rows, among integers.
//!
//! XLA's CPU computes a maximum that lets NaN through one element after the other, and one of integers in vectors. Floats are
//! ordered as the integers of their bits are, once the bits behind the sign of negative ones are turned; NaN is the
//! largest if it is positive:
//!
//! | f32, processor ms          | floats | integers |
//! |----------------------------|--------|----------|
//! | rows of 197, 4728 of them   | 4.4    | 1.2      |
//! | rows of 1024, 1024 of them  | 5.4    | 1.2      |
//!
//! Down columns, XLA goes along rows and is fast as it is.

use super::rebuild::Rebuild;
use super::{Reduction, Rewrite, Rule};
use crate::Class;
use ir::op::Reducer;
use ir::{Binary, Comparison, DType, Literal, Number, Op, Result, ValueId};

pub(super) const RULE: Rule = Rule {
    name: "row-maximum-of-integers",
    class: Class::Exact,
    why: "XLA's CPU looks for the largest of floats one by one, and for that of integers in vectors",
    rewrite: Rewrite::Reduction(rewrite),
};

/// Elements of the shortest row that is worth it.
const SHORTEST: usize = 16;

fn rewrite(to: &mut Rebuild, site: &Reduction<'_>) -> Result<Option<ValueId>> {
    let ty = to.ty(site.input)?.clone();
    let kept = ty.rank() - site.dims.len();
    let rows = site.dims.iter().all(|&d| d >= kept);
    let length: usize = ty.shape[kept..].iter().product();
    if site.reducer != Reducer::Maximum || ty.dtype != DType::F32 || !rows || length < SHORTEST || ty.numel() == 0 {
        return Ok(None);
    }
    let nan = constant(to, site.input, Number::Float(f64::NAN))?;
    let is_nan = to.push(Op::Compare(Comparison::Ne), &[site.input, site.input])?;
    let input = to.push(Op::Select, &[is_nan, nan, site.input])?;
    let bits = to.push(Op::BitcastConvert { dtype: DType::I32 }, &[input])?;
    let ordered = negative_turned(to, bits)?;
    let reduce = Op::Reduce { reducer: Reducer::Maximum, dims: site.dims.clone() };
    let largest = to.push(reduce, &[ordered])?;
    let bits = negative_turned(to, largest)?;
    to.push(Op::BitcastConvert { dtype: DType::F32 }, &[bits]).map(Some)
}

/// `bits` with all but the sign turned where that is set: its own inverse.
fn negative_turned(to: &mut Rebuild, bits: ValueId) -> Result<ValueId> {
    let (last, rest) = (constant(to, bits, Number::Int(31))?, constant(to, bits, Number::Int(i64::from(i32::MAX)))?);
    let signs = to.binary(Binary::ShiftRightArithmetic, bits, last)?;
    let turned = to.binary(Binary::And, signs, rest)?;
    to.binary(Binary::Xor, bits, turned)
}

/// `number` in the type and the shape of `like`.
fn constant(to: &mut Rebuild, like: ValueId, number: Number) -> Result<ValueId> {
    let ty = to.ty(like)?.clone();
    to.push(Op::Constant(Literal::splat(number, ty.dtype, ty.shape)), &[])
}
