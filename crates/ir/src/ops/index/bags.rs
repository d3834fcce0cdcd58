//! Sums, means and maxima of bags of rows of a table, and what flows back.
//!
//! Beside the result stand, as in PyTorch's CPU kernels: each index's bag (left empty where their fast path for sums
//! does without), each bag's size (zeros for sums) and, for maxima, the row each came from (else the sizes again).

use super::super::scan::cumulative_sum;
use super::super::support::torch_name;
use super::super::{Call, OpDef, Outs, Sample, err, many, ok, one};
use super::embedding::{by_frequency, check_indices};
use super::{index_dtype, put_along, put_points, take_along, take_slices};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::literal::Number;
use crate::op::{Binary, Combiner, Comparison, Reducer};
use crate::{DType, ensure, unsupported};

const FORWARD: &[Sample] = &[
    ok("f32[10,3], i64[6]{0..10}, i64[3]{0,2,2}"),
    ok("f32[10,3], i64[6]{0..10}, i64[3]{0,2,2}, false, 1"),
    ok("f32[10,3], i64[6]{0..10}, i64[3]{0,2,2}, false, 2"),
    ok("f64[10,3], i64[6]{0..10}, i64[4]{0,2,2,6}, false, 0, include_last_offset=true"),
    ok("f32[10,3], i32[6]{0..10}, i32[4]{0,2,5,6}, false, 2, include_last_offset=true"),
    ok("f32[10,3]:[1,10], i64[6]{0..10}, i64[2]{0,4}"),
    ok("f32[10,3], i64[6]{0..10}, i64[3]{0,2,2}, false, 0, per_sample_weights=f32[6]"),
    ok("f32[4,3], i64[6]{0..4}, i64[3]{0,2,4}, false, 0, padding_idx=1"),
    ok("f32[4,3], i64[6]{0..4}, i64[3]{0,2,4}, false, 1, padding_idx=1"),
    ok("f32[4,3], i64[6]{1,1,0,2,3,1}, i64[3]{0,2,4}, false, 2, padding_idx=1"),
    ok("bf16[10,3], i64[6]{0..10}, i64[3]{0,2,2}, false, 1"),
    err("f32[10], i64[6]{0..10}, i64[1]{0}", "weight has to be a 2D Tensor, but got Tensor of dimension 1"),
    err("f32[10,3], f32[6], i64[1]{0}", "Expected tensor for argument #1 'indices'"),
    err("f32[10,3], i64[6]{0..10}, i64[1]{0}, false, 3", "`mode` must be sum, mean, or max."),
    err(
        "f32[10,3], i64[6]{0..10}, i64[1]{0}, false, 1, per_sample_weights=f32[6]",
        "embedding_bag: per_sample_weights only supported with mode='sum'",
    ),
    err(
        "f32[10,3], i64[6]{0..10}, i64[1]{0}, false, 0, per_sample_weights=f32[5]",
        "Expected per_sample_weights.value().numel() == indices.numel()",
    ),
];

pub(in super::super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::_embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, \
         bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False, int padding_idx=-1) -> \
         (Tensor, Tensor, Tensor, Tensor)",
        forward,
        FORWARD,
    )
    .variants(&["_embedding_bag.out"]),
    OpDef::new(
        "aten::_embedding_bag_forward_only(Tensor weight, Tensor indices, Tensor offsets, \
         bool scale_grad_by_freq=False, int mode=0, bool sparse=False, Tensor? per_sample_weights=None, \
         bool include_last_offset=False, int padding_idx=-1) -> (Tensor, Tensor, Tensor, Tensor)",
        forward,
        &[ok("f32[10,3], i64[6]{0..10}, i64[3]{0,2,2}"), ok("f64[10,3], i64[6]{0..10}, i64[3]{0,2,2}, false, 1")],
    )
    .variants(&["_embedding_bag_forward_only.out"]),
    OpDef::new(
        "aten::_embedding_bag_backward(Tensor grad, Tensor indices, Tensor offsets, Tensor offset2bag, Tensor bag_size, \
         Tensor maximum_indices, SymInt num_weights, bool scale_grad_by_freq, int mode, bool sparse, \
         Tensor? per_sample_weights, int padding_idx=-1) -> Tensor",
        |c, b| {
            if c.flag("sparse")? {
                unsupported!("_embedding_bag_backward: sparse gradients have no lowering; use sparse=False");
            }
            // What the forward pass hands over may be empty.
            let n = b.ty(c.tensor(b, "indices")?)?.numel();
            let bags = bags(b, c.tensor(b, "offsets")?, n)?;
            backward(c, b, bags)
        },
        &[
            ok("f32[3,2], i64[4]{1,2,3,1}, i64[3]{0,2,2}, i64[0], i64[3]{0}, i64[3]{0}, 5, false, 0, false, none"),
            ok("f32[2,2], i64[4]{1,2,3,1}, i64[2]{0,1}, i64[0], i64[2]{0}, i64[2]{0}, 5, false, 0, false, f32[4]"),
        ],
    ),
    OpDef::new(
        "aten::_embedding_bag_dense_backward(Tensor grad, Tensor indices, Tensor offset2bag, Tensor bag_size, \
         Tensor maximum_indices, SymInt num_weights, bool scale_grad_by_freq, int mode, Tensor? per_sample_weights, \
         int padding_idx=-1) -> Tensor",
        |c, b| backward(c, b, c.tensor(b, "offset2bag")?),
        &[
            ok("f32[3,2], i64[4]{1,2,3,1}, i64[4]{0,0,2,2}, i64[3]{0}, i64[3]{0}, 5, false, 0, none"),
            ok("f32[3,2], i64[4]{1,2,3,1}, i64[4]{0,0,2,2}, i64[3]{2,0,2}, i64[3]{0}, 5, false, 1, none"),
            ok("f32[3,2], i64[4]{1,2,3,1}, i64[4]{0,0,2,2}, i64[3]{2,0,2}, i64[3,2]{1,2,0,0,1,3}, 5, false, 2, none"),
            ok("f32[3,2], i64[4]{1,2,3,1}, i64[4]{0,0,2,2}, i64[3]{0}, i64[3]{0}, 5, true, 0, none"),
            ok("f32[3,2], i64[4]{1,2,3,1}, i64[4]{0,0,2,2}, i64[3]{0}, i64[3]{0}, 5, false, 0, f32[4], 1"),
        ],
    )
    .variants(&["_embedding_bag_dense_backward.out"]),
    OpDef::new(
        "aten::_embedding_bag_per_sample_weights_backward(Tensor grad, Tensor weight, Tensor indices, Tensor offsets, \
         Tensor offset2bag, int mode, int padding_idx=-1) -> Tensor",
        per_sample_weights_backward,
        &[
            ok("f32[3,2], f32[5,2], i64[4]{1,2,3,1}, i64[3]{0,2,2}, i64[4]{0,0,2,2}, 0"),
            ok("f32[3,2], f32[5,2], i64[4]{1,2,3,1}, i64[3]{0,2,2}, i64[0], 0, 1"),
        ],
    )
    .variants(&["_embedding_bag_per_sample_weights_backward.out"]),
];

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Sum,
    Mean,
    Max,
}

fn mode(c: &Call<'_>) -> Result<Mode> {
    Ok(match c.int("mode")? {
        0 => Mode::Sum,
        1 => Mode::Mean,
        2 => Mode::Max,
        _ => crate::invalid!("`mode` must be sum, mean, or max."),
    })
}

/// The bag of each of `n` indices, from where the bags start: how many starts lie at or before it, less one.
fn bags(b: &Builder, offsets: ValueId, n: usize) -> Result<ValueId> {
    let narrow = index_dtype(n);
    let zeros = b.full(Number::Int(0), narrow, &[n])?;
    if n == 0 {
        return b.convert(zeros, b.dtype(offsets));
    }
    let ones = b.full(Number::Int(1), narrow, &b.shape(offsets))?;
    let starts = put_points(b, zeros, &[offsets], &[0], ones, Combiner::Add)?;
    let before = cumulative_sum(b, starts, 0)?;
    b.convert(b.subtract(before, b.full_like(before, Number::Int(1))?)?, b.dtype(offsets))
}

/// `v`, whose rows belong to indices, with `fill` in those of the padding index.
fn without_padding(c: &Call<'_>, b: &Builder, v: ValueId, indices: ValueId, fill: f64) -> Result<ValueId> {
    let padding = c.int("padding_idx")?;
    if padding < 0 {
        return Ok(v);
    }
    let is_padding = b.compare(Comparison::Eq, indices, b.full_like(indices, Number::Int(padding))?)?;
    let is_padding = b.broadcast_in_dim(is_padding, &b.shape(v), &[0])?;
    b.select(is_padding, b.full_like(v, Number::Float(fill))?, v)
}

/// Whether PyTorch's CPU kernel adds the rows up without knowing their bags. In bf16 it does, but its meta kernel, by which
/// graphs are made, says that it does not.
fn is_fast_sum(c: &Call<'_>, dtype: DType) -> Result<bool> {
    let fits = matches!(dtype, DType::F32 | DType::F16);
    Ok(fits && c.layout("weight")?.strides[1] == 1 && c.int("padding_idx")? < 0)
}

fn check(c: &Call<'_>, b: &Builder, weight: ValueId, indices: ValueId, offsets: ValueId) -> Result<()> {
    for v in [indices, offsets] {
        check_indices(b, v, "embedding_bag")?;
    }
    ensure!(b.rank(weight) == 2, "weight has to be a 2D Tensor, but got Tensor of dimension {}", b.rank(weight));
    ensure!(b.rank(indices) == 1, "input has to be a 1D Tensor, but got Tensor of dimension {}", b.rank(indices));
    ensure!(b.rank(offsets) == 1, "offsets has to be a 1D Tensor, but got Tensor of dimension {}", b.rank(offsets));
    let Some(scale) = c.optional_tensor(b, "per_sample_weights")? else { return Ok(()) };
    ensure!(mode(c)? == Mode::Sum, "embedding_bag: per_sample_weights only supported with mode='sum'");
    ensure!(
        b.ty(scale)?.numel() == b.ty(indices)?.numel(),
        "Expected per_sample_weights.value().numel() == indices.numel() to be true, but got false."
    );
    let [d, e] = [b.dtype(weight), b.dtype(scale)];
    ensure!(
        d == e,
        "Expected tensor for argument #1 'weight' to have the same type as tensor for argument #1 'per_sample_weights'; \
         but type {} does not equal {}",
        torch_name(d),
        torch_name(e)
    );
    Ok(())
}

fn forward(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (weight, indices, mut offsets) = (c.tensor(b, "weight")?, c.tensor(b, "indices")?, c.tensor(b, "offsets")?);
    let mode = mode(c)?;
    check(c, b, weight, indices, offsets)?;
    if c.flag("include_last_offset")? {
        let given = b.shape(offsets)[0];
        ensure!(given >= 1, "include_last_offset: number of offsets should be at least 1");
        offsets = b.slice_dim(offsets, 0, 0, given - 1, 1)?;
    }
    let (n, count, width) = (b.shape(indices)[0], b.shape(offsets)[0], b.shape(weight)[1]);
    let (dtype, whole) = (b.dtype(weight), b.dtype(offsets));
    let bags = bags(b, offsets, n)?;
    let rows = b.convert(take_slices(b, weight, 0, indices)?, dtype.accumulator())?;
    let empty = |shape: &[usize], fill| b.full(Number::Float(fill), b.dtype(rows), shape);
    let sizes = match mode {
        Mode::Sum => b.full(Number::Int(0), whole, &[count])?,
        _ => {
            let ones = without_padding(c, b, b.full(Number::Int(1), whole, &[n])?, indices, 0.0)?;
            into_bags(b, b.full(Number::Int(0), whole, &[count])?, bags, ones, Combiner::Add)?
        }
    };
    let over_width = |v| b.broadcast_in_dim(v, &[count, width], &[0]);
    if mode == Mode::Max {
        let rows = without_padding(c, b, rows, indices, f64::NEG_INFINITY)?;
        let most = into_bags(b, empty(&[count, width], f64::NEG_INFINITY)?, bags, rows, Combiner::Maximum)?;
        let some = over_width(b.compare(Comparison::Gt, sizes, b.full_like(sizes, Number::Int(0))?)?)?;
        let output = b.select(some, most, empty(&[count, width], 0.0)?)?;
        let from = sources(b, rows, most, bags, indices)?;
        let from = b.select(some, b.convert(from, whole)?, b.full(Number::Int(0), whole, &[count, width])?)?;
        return many([b.convert(output, dtype)?, bags, counted(c, b, sizes)?, from]);
    }
    let rows = without_padding(c, b, scaled(c, b, rows)?, indices, 0.0)?;
    let mut output = into_bags(b, empty(&[count, width], 0.0)?, bags, rows, Combiner::Add)?;
    if mode == Mode::Mean {
        let size = b.maximum(sizes, b.full_like(sizes, Number::Int(1))?)?;
        output = b.divide(output, over_width(b.convert(size, b.dtype(output))?)?)?;
    }
    let nothing = || b.full(Number::Int(0), whole, &[0]);
    let is_left_out = mode == Mode::Sum && is_fast_sum(c, dtype)? && !c.is_recorded_full(1);
    let shown = if is_left_out { nothing()? } else { bags };
    let sizes = counted(c, b, sizes)?;
    let from = if c.recorded.get(3).is_some_and(|shape| shape.as_deref() == Some(&[0])) { nothing()? } else { sizes };
    many([b.convert(output, dtype)?, shown, sizes, from])
}

/// The `sizes` of bags, with a zero for the last offset where a trace of another device counts it as a bag, or one of the
/// forward pass alone.
fn counted(c: &Call<'_>, b: &Builder, sizes: ValueId) -> Result<ValueId> {
    let recorded = c.recorded.get(2).and_then(Option::as_ref);
    if recorded.is_none_or(|shape| shape[..] != [b.shape(sizes)[0] + 1]) {
        return Ok(sizes);
    }
    b.concatenate(&[sizes, b.full(Number::Int(0), b.dtype(sizes), &[1])?], 0)
}

/// `rows` times their samples' weights, if there are any.
fn scaled(c: &Call<'_>, b: &Builder, rows: ValueId) -> Result<ValueId> {
    let Some(scale) = c.optional_tensor(b, "per_sample_weights")? else { return Ok(rows) };
    b.multiply(rows, b.broadcast_in_dim(b.convert(scale, b.dtype(rows))?, &b.shape(rows), &[0])?)
}

fn into_bags(b: &Builder, into: ValueId, bags: ValueId, rows: ValueId, combiner: Combiner) -> Result<ValueId> {
    if b.shape(into).contains(&0) || b.shape(rows).contains(&0) {
        return Ok(into);
    }
    put_points(b, into, &[bags], &[0], rows, combiner)
}

/// Which row of the table each maximum came from: the first in its bag that is equal.
fn sources(b: &Builder, rows: ValueId, most: ValueId, bags: ValueId, indices: ValueId) -> Result<ValueId> {
    let (shape, out) = (b.shape(rows), b.shape(most));
    let n = shape[0];
    if shape.contains(&0) || out.contains(&0) {
        return b.full(Number::Int(0), b.dtype(indices), &out);
    }
    let places = b.iota(index_dtype(n), &shape, 0)?;
    let none = b.full_like(places, Number::Int(n as i64))?;
    let is_most = b.compare(Comparison::Eq, rows, take_slices(b, most, 0, bags)?)?;
    let nowhere = b.full(Number::Int(n as i64), b.dtype(places), &out)?;
    let first = into_bags(b, nowhere, bags, b.select(is_most, places, none)?, Combiner::Minimum)?;
    take_along(b, b.broadcast_in_dim(indices, &shape, &[0])?, 0, first)
}

/// The gradient of the table, given each index's bag.
fn backward(c: &Call<'_>, b: &Builder, bags: ValueId) -> Result<Outs> {
    let (grad, indices) = (c.tensor(b, "grad")?, c.tensor(b, "indices")?);
    let (count, shape, dtype) = (usize::try_from(c.int("num_weights")?).unwrap_or(0), b.shape(grad), b.dtype(grad));
    ensure!(shape.len() == 2, "the gradient of embedding_bag is {}-d, not 2-d", shape.len());
    let zeros = b.full(Number::Int(0), dtype, &[count, shape[1]])?;
    if shape.contains(&0) || count == 0 || b.ty(indices)?.numel() == 0 {
        return one(zeros);
    }
    let mode = mode(c)?;
    let index = b.convert(indices, index_dtype(count))?;
    if mode == Mode::Max {
        return max_backward(c, b, grad, zeros);
    }
    let mut rows = b.convert(take_slices(b, grad, 0, bags)?, dtype.accumulator())?;
    if mode == Mode::Mean {
        let sizes = b.convert(take_slices(b, c.tensor(b, "bag_size")?, 0, bags)?, b.dtype(rows))?;
        rows = b.divide(rows, b.broadcast_in_dim(sizes, &b.shape(rows), &[0])?)?;
    }
    rows = scaled(c, b, rows)?;
    if c.flag("scale_grad_by_freq")? {
        rows = by_frequency(b, rows, index, count)?;
    }
    // Padding takes no gradient; a bag of nothing but padding has size 0, so that it may not even be added as 0 / 0.
    let rows = without_padding(c, b, rows, indices, 0.0)?;
    let sum = put_points(b, b.convert(zeros, b.dtype(rows))?, &[index], &[0], rows, Combiner::Add)?;
    one(b.convert(sum, dtype)?)
}

/// Each gradient to the row its maximum came from; those of empty bags, out of range, to none.
fn max_backward(c: &Call<'_>, b: &Builder, grad: ValueId, zeros: ValueId) -> Result<Outs> {
    let (from, sizes) = (c.tensor(b, "maximum_indices")?, c.tensor(b, "bag_size")?);
    // Elsewhere than on the CPU the last offset has a size, too ([`counted`]).
    let sizes = b.slice_dim(sizes, 0, 0, b.shape(from)[0], 1)?;
    let empty = b.compare(Comparison::Eq, sizes, b.full_like(sizes, Number::Int(0))?)?;
    let empty = b.broadcast_in_dim(empty, &b.shape(from), &[0])?;
    let nowhere = b.full_like(from, Number::Int(b.shape(zeros)[0] as i64))?;
    one(put_along(b, zeros, 0, b.select(empty, nowhere, from)?, grad, Combiner::Add)?)
}

/// For each sample the product of its row with its bag's gradient.
fn per_sample_weights_backward(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (grad, weight, indices) = (c.tensor(b, "grad")?, c.tensor(b, "weight")?, c.tensor(b, "indices")?);
    ensure!(mode(c)? == Mode::Sum, "embedding_bag_backward: per_sample_weights only supported for mode='sum'");
    let n = b.ty(indices)?.numel();
    let bags = bags(b, c.tensor(b, "offsets")?, n)?;
    let wide = b.dtype(grad).accumulator();
    let rows = [take_slices(b, grad, 0, bags)?, take_slices(b, weight, 0, indices)?];
    let product = b.binary(Binary::Multiply, b.convert(rows[0], wide)?, b.convert(rows[1], wide)?)?;
    let sums = without_padding(c, b, b.reduce(product, Reducer::Add, &[1])?, indices, 0.0)?;
    one(b.convert(sums, b.dtype(grad))?)
}
