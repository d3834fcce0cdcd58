//! Reductions over neighbouring dimensions as over one.
//!
//! XLA's CPU reduces whole dimensions in vectors where one dimension is reduced at a time; over several it goes element by
//! element, whatever it computes on the way. Joined into one dimension, which a barrier keeps it from taking apart again, the
//! operand is written first and then summed up:
//!
//! | f32, ms, reduced as it stands and joined | an input     | a product of two |
//! |------------------------------------------|--------------|------------------|
//! | 8x128x768 over 0, 1                       | 1.1 and 0.2  | 1.3 and 0.6      |
//! | 4x56x56x96 over 0, 1, 2                   | 1.4 and 0.3  | 1.8 and 0.8      |
//! | 8x1024x2048 over 0, 1                     | 10.8 and 2.6 | 30.6 and 20.6    |
//! | 64x16x768 over 1, 2                       | 0.5 and 0.25 | 0.9 and 0.65     |
//! | 8x480x14x14 over 0, 2, 3                  | 0.6 and 0.4  | 1.1 and 0.7      |
//! | 8x64x56x56 over 0, 2, 3                   | 1.2 and 0.85 | 1.5 and 1.6      |
//!
//! Over one dimension, whichever it is, nothing is gained.

use super::rebuild::Rebuild;
use super::{Reduction, Rewrite, Rule};
use crate::Class;
use ir::op::Reducer;
use ir::{Builder, Dims, InputKind, Op, OutputKind, Result, Shape, ValueId};

/// Elements are taken in the order in which they were.
pub(super) const RULE: Rule = Rule {
    name: "neighbouring-dimensions-joined",
    class: Class::Exact,
    alone: true,
    why: "XLA's CPU reduces several dimensions element by element, and one in vectors",
    rewrite: Rewrite::Reduction(rewrite),
};

/// Elements of the smallest operand that is worth it.
const SMALLEST: usize = 4096;

fn rewrite(to: &mut Rebuild, site: &Reduction<'_>) -> Result<Option<ValueId>> {
    let ty = to.ty(site.input)?.clone();
    if ty.numel() < SMALLEST || joined(&ty.shape, site.dims).is_none() {
        return Ok(None);
    }
    let b = Builder::new("reduction");
    let input = b.input("x", InputKind::User, ty);
    b.output("y", OutputKind::User, reduce(&b, input, site.reducer, site.dims)?);
    to.splice(&b.finish(), &[site.input]).map(Some)
}

/// The reduction of `a` over `dims`, which rise, with neighbours among them joined.
pub(super) fn reduce(b: &Builder, a: ValueId, reducer: Reducer, dims: &Dims) -> Result<ValueId> {
    let shape = b.shape(a);
    let Some((joined, reduced)) = joined(&shape, dims) else { return b.reduce(a, reducer, dims) };
    let a = b.push(Op::OptimizationBarrier, &[b.reshape(a, &joined)?], vec![])?;
    let kept: Shape = (0..shape.len()).filter(|d| !dims.contains(d)).map(|d| shape[d]).collect();
    b.reshape(b.reduce(a, reducer, &reduced)?, &kept)
}

/// Extents with neighbours joined that are both reduced or both kept, and which of them are reduced; `None` if no two
/// that are reduced hold more than one element each.
fn joined(shape: &Shape, dims: &Dims) -> Option<(Shape, Dims)> {
    let (mut extents, mut reduced, mut gains) = (Shape::new(), vec![], false);
    for (d, &extent) in shape.iter().enumerate().filter(|&(_, &extent)| extent != 1) {
        let is_reduced = dims.contains(&d);
        match extents.last_mut() {
            Some(last) if reduced.last() == Some(&is_reduced) => {
                *last *= extent;
                gains |= is_reduced;
            }
            _ => {
                extents.push(extent);
                reduced.push(is_reduced);
            }
        }
    }
    gains.then(|| (extents, (0..reduced.len()).filter(|&d| reduced[d]).collect()))
}
