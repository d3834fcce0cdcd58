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
use super::{Reduction, Rewrite, Rule, ordered};
use crate::Class;
use ir::op::Reducer;
use ir::{Builder, DType, InputKind, OutputKind, Result, ValueId};

pub(super) const RULE: Rule = Rule {
    name: "row-maximum-of-integers",
    class: Class::Exact,
    alone: true,
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
    let b = Builder::new("row_maximum");
    let floats = b.input("x", InputKind::User, ty);
    let largest = b.reduce(ordered::integers(&b, floats)?, Reducer::Maximum, site.dims)?;
    b.output("y", OutputKind::User, ordered::floats(&b, largest)?);
    to.splice(&b.finish(), &[site.input]).map(Some)
}
