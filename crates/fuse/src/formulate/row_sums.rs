//! Sums of rows in a few parts that are added first.
//!
//! XLA's CPU adds the elements of a row one after the other, each waiting for the last. Cut into parts that are added element
//! by element, there are as many sums that wait for nothing; results are nearer to the exact sum, too.
//!
//! | f32, ms, as they stand and in parts | an input      | a product of two |
//! |-------------------------------------|---------------|------------------|
//! | 16384 rows of 64                     | 0.49 and 0.29 | 0.84 and 0.48    |
//! | 8192 rows of 128                     | 0.53 and 0.43 | 0.92 and 0.43    |
//! | 1576 rows of 768                     | 0.40 and 0.40 | 1.00 and 0.45    |
//! | 512 rows of 2048                     | 0.46 and 0.38 | 0.94 and 0.45    |
//!
//! Sixteen parts are slower than one, and so is a barrier before the sum.

use super::rebuild::Rebuild;
use super::{Reduction, Rewrite, Rule};
use crate::Class;
use ir::op::Reducer;
use ir::{Builder, DType, Dims, InputKind, OutputKind, Result, Shape, ValueId};

pub(super) const RULE: Rule = Rule {
    name: "row-sum-in-parts",
    class: Class::Reassociating,
    alone: false,
    why: "XLA's CPU adds the elements of a row one after the other",
    rewrite: Rewrite::Reduction(rewrite),
};

/// Elements of the shortest row, and of the smallest operand, that is worth it.
const SHORTEST: usize = 64;
const SMALLEST: usize = 4096;
/// Elementwise ops that an operand may take. XLA computes them once for each part, and for whatever else reads it: ConvNeXt's
/// depthwise convolutions, sums of 49 products, ran 2.6 times as long.
const MOST_OPS: usize = 8;
/// From this length on, a row has more parts.
const LONG: usize = 1024;
/// Rows that are long enough for several threads are so many rows instead, if there are fewer.
const FEW: usize = 16;
const SHARED: usize = 1 << 16;

fn rewrite(to: &mut Rebuild, site: &Reduction<'_>) -> Result<Option<ValueId>> {
    let ty = to.ty(site.input)?.clone();
    let kept = (0..ty.rank()).rev().find(|d| !site.dims.contains(d)).map_or(0, |d| d + 1);
    let length: usize = ty.shape[kept..].iter().product();
    let sum = site.reducer == Reducer::Add && matches!(ty.dtype, DType::F32 | DType::F64);
    if !sum || length < SHORTEST || ty.numel() < SMALLEST || !to.is_cheap(site.input, MOST_OPS) {
        return Ok(None);
    }
    let b = Builder::new("row_sum");
    let rows: Shape = ty.shape[..kept].iter().copied().chain([length]).collect();
    let further: Dims = site.dims.iter().copied().filter(|&d| d < kept).collect();
    let x = b.input("x", InputKind::User, ty);
    let sums = sum_rows(&b, b.reshape(x, &rows)?)?;
    b.output("y", OutputKind::User, b.reduce(sums, Reducer::Add, &further)?);
    to.splice(&b.finish(), &[site.input]).map(Some)
}

/// Sums over the last dimension.
fn sum_rows(b: &Builder, x: ValueId) -> Result<ValueId> {
    let shape = b.shape(x);
    let (last, length) = (shape.len() - 1, shape[shape.len() - 1]);
    let rows: usize = shape[..last].iter().product();
    if rows < FEW && length >= SHARED && length.is_multiple_of(FEW) {
        let split: Shape = shape[..last].iter().copied().chain([FEW, length / FEW]).collect();
        let sums = sum_rows(b, b.reshape(x, &split)?)?;
        return b.reduce(sums, Reducer::Add, &[last]);
    }
    let parts = if length < LONG { 4 } else { 8 };
    let width = length / parts;
    let part = |i: usize| b.slice_dim(x, last, i * width, (i + 1) * width, 1);
    let first = part(0)?;
    let added = (1..parts).try_fold(first, |sum, i| b.add(sum, part(i)?))?;
    let sums = b.reduce(added, Reducer::Add, &[last])?;
    if parts * width == length {
        return Ok(sums);
    }
    let rest = b.slice_dim(x, last, parts * width, length, 1)?;
    b.add(sums, b.reduce(rest, Reducer::Add, &[last])?)
}
