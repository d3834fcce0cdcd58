//! Rows reduced in a few parts that are combined first.
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
//!
//! For the largest of a row, XLA's CPU first compares 32 neighbours, each lane of a vector gathered from a place of its own.
//! Parts are compared as they lie. Of the time as it stands, and beside it what maxima of the integers take that are ordered
//! as the floats are, which had been the faster on an Intel Xeon:
//!
//! | f32, of the time as it stands (AMD EPYC) | in parts | integers |
//! |------------------------------------------|----------|----------|
//! | 4728 rows of 197                          | 0.26     | 1.2      |
//! | 1024 rows of 1024                         | 0.92     | 3.5      |
//! | 512 rows of 8192                          | 0.66     | 4.0      |
//! | log-softmax of 512 rows of 8192           | 0.64     | 1.1      |

use super::rebuild::Rebuild;
use super::{Reduction, Rewrite, Rule};
use crate::Class;
use ir::op::Reducer;
use ir::{Builder, DType, Dims, InputKind, OutputKind, Result, Shape, ValueId};

pub(super) const MAXIMA: Rule = Rule {
    name: "row-maximum-in-parts",
    class: Class::Exact,
    alone: false,
    why: "XLA's CPU compares neighbours first, which do not lie as its vectors do",
    rewrite: Rewrite::Reduction(|to, site| in_parts(to, site, Reducer::Maximum)),
};

pub(super) const SUMS: Rule = Rule {
    name: "row-sum-in-parts",
    class: Class::Reassociating,
    alone: false,
    why: "XLA's CPU adds the elements of a row one after the other",
    rewrite: Rewrite::Reduction(|to, site| in_parts(to, site, Reducer::Add)),
};

/// Elements of the shortest row, and of the smallest operand, that is worth it.
const SHORTEST: usize = 64;
const SMALLEST: usize = 4096;
/// Elementwise ops that an operand may take. XLA computes them once for each part, and for whatever else reads it: ConvNeXt's
/// depthwise convolutions, sums of 49 products, ran 2.6 times as long.
const MOST_OPS: usize = 8;
/// From this length on, a row has more parts.
const LONG: usize = 1024;
const LONG_FOR_MAXIMA: usize = 128;
/// Rows that are long enough for several threads are so many rows instead, if there are fewer.
const FEW: usize = 16;
const SHARED: usize = 1 << 16;

/// The reduction in parts, if it is one by `reducer`, of rows that are worth it.
fn in_parts(to: &mut Rebuild, site: &Reduction<'_>, reducer: Reducer) -> Result<Option<ValueId>> {
    let ty = to.ty(site.input)?.clone();
    let kept = (0..ty.rank()).rev().find(|d| !site.dims.contains(d)).map_or(0, |d| d + 1);
    let length: usize = ty.shape[kept..].iter().product();
    let fits = site.reducer == reducer && matches!(ty.dtype, DType::F32 | DType::F64);
    if !fits || length < SHORTEST || ty.numel() < SMALLEST || !to.is_cheap(site.input, MOST_OPS) {
        return Ok(None);
    }
    let b = Builder::new("rows");
    let rows: Shape = ty.shape[..kept].iter().copied().chain([length]).collect();
    let further: Dims = site.dims.iter().copied().filter(|&d| d < kept).collect();
    let x = b.input("x", InputKind::User, ty);
    let reduced = reduce_rows(&b, b.reshape(x, &rows)?, reducer)?;
    b.output("y", OutputKind::User, b.reduce(reduced, reducer, &further)?);
    to.splice(&b.finish(), &[site.input]).map(Some)
}

/// Reduces the last dimension.
fn reduce_rows(b: &Builder, x: ValueId, reducer: Reducer) -> Result<ValueId> {
    let shape = b.shape(x);
    let (last, length) = (shape.len() - 1, shape[shape.len() - 1]);
    let rows: usize = shape[..last].iter().product();
    if rows < FEW && length >= SHARED && length.is_multiple_of(FEW) {
        let split: Shape = shape[..last].iter().copied().chain([FEW, length / FEW]).collect();
        let reduced = reduce_rows(b, b.reshape(x, &split)?, reducer)?;
        return b.reduce(reduced, reducer, &[last]);
    }
    let combine = if reducer == Reducer::Add { Builder::add } else { Builder::maximum };
    let long = if reducer == Reducer::Add { LONG } else { LONG_FOR_MAXIMA };
    let parts = if length < long { 4 } else { 8 };
    let width = length / parts;
    let part = |i: usize| b.slice_dim(x, last, i * width, (i + 1) * width, 1);
    let first = part(0)?;
    let combined = (1..parts).try_fold(first, |all, i| combine(b, all, part(i)?))?;
    let reduced = b.reduce(combined, reducer, &[last])?;
    if parts * width == length {
        return Ok(reduced);
    }
    let rest = b.slice_dim(x, last, parts * width, length, 1)?;
    combine(b, reduced, b.reduce(rest, reducer, &[last])?)
}
