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
//!
//! As many parts as leave 32 elements to compare one after the other are best. Microseconds of a call (Intel Xeon), 40 of them for
//! being called:
//!
//! | f32, parts        | none | 4   | 8   | 16  | 32  | 64  |
//! |-------------------|------|-----|-----|-----|-----|-----|
//! | 2048 rows of 128  | 721  | 104 | 109 | 173 | 232 | 691 |
//! | 1182 rows of 192  | 645  | 321 | 87  | 177 | 199 | 258 |
//! | 512 rows of 512   | 776  | 436 | 308 | 91  | 108 | 182 |
//! | 256 rows of 1024  | 758  | 455 | 337 | 246 | 100 | 133 |

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
/// Elements of a part, for maxima; and the most parts, of which each takes the ops of its operand, so many in all.
const COMPARED: usize = 32;
const MOST_PARTS: usize = 32;
const MOST_OPS_IN_PARTS: usize = 64;
/// Rows that are long enough for several threads are so many rows instead, if there are fewer.
const FEW: usize = 16;
const SHARED: usize = 1 << 16;

/// The reduction in parts, if it is one by `reducer`, of rows that are worth it.
fn in_parts(to: &mut Rebuild, site: &Reduction<'_>, reducer: Reducer) -> Result<Option<ValueId>> {
    let ty = to.ty(site.input)?.clone();
    let kept = (0..ty.rank()).rev().find(|d| !site.dims.contains(d)).map_or(0, |d| d + 1);
    let length: usize = ty.shape[kept..].iter().product();
    let fits = site.reducer == reducer && matches!(ty.dtype, DType::F32 | DType::F64);
    if !fits || length < SHORTEST || ty.numel() < SMALLEST {
        return Ok(None);
    }
    let Some(ops) = to.ops_on_memory(site.input, MOST_OPS) else { return Ok(None) };
    let finest = (MOST_OPS_IN_PARTS / (ops + 1)).min(MOST_PARTS);
    let b = Builder::new("rows");
    let rows: Shape = ty.shape[..kept].iter().copied().chain([length]).collect();
    let further: Dims = site.dims.iter().copied().filter(|&d| d < kept).collect();
    let x = b.input("x", InputKind::User, ty);
    let reduced = reduce_rows(&b, b.reshape(x, &rows)?, reducer, finest)?;
    b.output("y", OutputKind::User, b.reduce(reduced, reducer, &further)?);
    to.splice(&b.finish(), &[site.input]).map(Some)
}

/// Reduces the last dimension; maxima in up to so many parts.
fn reduce_rows(b: &Builder, x: ValueId, reducer: Reducer, finest: usize) -> Result<ValueId> {
    let shape = b.shape(x);
    let (last, length) = (shape.len() - 1, shape[shape.len() - 1]);
    let rows: usize = shape[..last].iter().product();
    let in_fine_parts = finest * COMPARED;
    let several = if rows < FEW && length >= SHARED && length.is_multiple_of(FEW) {
        Some(FEW)
    } else if reducer == Reducer::Maximum && length > in_fine_parts {
        let shorter = (in_fine_parts / 2..=in_fine_parts).rev().find(|&each| length.is_multiple_of(each));
        shorter.map(|each| length / each)
    } else {
        None
    };
    if let Some(several) = several {
        let split: Shape = shape[..last].iter().copied().chain([several, length / several]).collect();
        let reduced = reduce_rows(b, b.reshape(x, &split)?, reducer, finest)?;
        return b.reduce(reduced, reducer, &[last]);
    }
    if reducer == Reducer::Maximum && length <= in_fine_parts {
        return compared(b, x, last, length);
    }
    let parts = if reducer == Reducer::Add && length < LONG { 4 } else { 8 };
    let width = length / parts;
    let starts = (0..parts).map(|i| i * width);
    let reduced = b.reduce(combined(b, x, reducer, starts, width)?, reducer, &[last])?;
    if parts * width == length {
        return Ok(reduced);
    }
    let rest = b.slice_dim(x, last, parts * width, length, 1)?;
    combine(b, reducer, reduced, b.reduce(rest, reducer, &[last])?)
}

/// The maxima of rows that are short enough for parts of few elements. The last part also has some of the one before, which makes
/// no difference to a maximum, and all are as wide as vectors are.
fn compared(b: &Builder, x: ValueId, last: usize, length: usize) -> Result<ValueId> {
    let width = if length < 4 * COMPARED { COMPARED / 2 } else { COMPARED };
    let starts = (0..length.div_ceil(width)).map(|i| (i * width).min(length - width));
    b.reduce(combined(b, x, Reducer::Maximum, starts, width)?, Reducer::Maximum, &[last])
}

/// Parts of the last dimension, combined element by element.
fn combined(
    b: &Builder,
    x: ValueId,
    reducer: Reducer,
    mut starts: impl Iterator<Item = usize>,
    width: usize,
) -> Result<ValueId> {
    let last = b.rank(x) - 1;
    let part = |start: usize| b.slice_dim(x, last, start, start + width, 1);
    let first = part(starts.next().unwrap_or(0))?;
    starts.try_fold(first, |all, start| combine(b, reducer, all, part(start)?))
}

fn combine(b: &Builder, reducer: Reducer, one: ValueId, other: ValueId) -> Result<ValueId> {
    if reducer == Reducer::Add { b.add(one, other) } else { b.maximum(one, other) }
}
