//! Finding and counting values among boundaries; and what has as many results as the data says.

use super::bounded::Bounded;
use super::index::{index_dtype, put_points, take_along};
use super::support::{broadcast_to, not_implemented, pair, torch_name};
use super::{Call, OpDef, Outs, Scalar, err, ok, one, outs};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::literal::Number;
use crate::op::{Binary, Combiner, Comparison, Reducer, Unary};
use crate::types::{Dims, Shape};
use crate::{DType, ensure, invalid};

pub(super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::searchsorted.Tensor(Tensor sorted_sequence, Tensor self, *, bool out_int32=False, bool right=False, \
         str? side=None, Tensor? sorter=None) -> Tensor",
        searchsorted,
        &[
            ok("f32[4]{1,2,2,5}, f32[2,3]{2,0,9,5,1,2}"),
            ok("f32[4]{1,2,2,5}, f32[3]{2,5,nan}, right=true"),
            ok("f32[2,3]{1,2,3,4,5,6}, f32[2,4]{1..6}, side='right', out_int32=true"),
            ok("i64[3]{1,2,3}, f32[2]{1.5,4}"),
            ok("f32[3]{3,1,2}, f32[2]{1.5,4}, sorter=i64[3]{1,2,0}"),
            ok("f32[4]{-1,0,1,nan}, f32[6]{-1,0,1,0.5,-inf,nan}"),
            ok("f32[5]{-1,0,1,nan,nan}, f32[4]{-1,0,1,0.5}, right=true"),
            ok("i32[7]{3,1,2,9,0,4,5}, i32[5]{3,9,0,5,2}"),
            ok("f32[0], f32[2]"),
            err("f32[2,3], f32[3,2]", "boundaries tensor should be 1 dimension or the first N-1 dimensions of"),
            err("f32[3], f32[2], right=true, side='left'", "side and right can't be set to opposites"),
            err("f32[3], f32[3], sorter=f32[3]", "sorter must be a tensor of long dtype but got dtype Float"),
            err("f32[3], f32[3], sorter=i64[2]{0..3}", "boundary tensor [3]and got sorter tensor [2]"),
            err("f32[3], f32[2], side='foo'", "side can only be 'left' or 'right' but got foo"),
        ],
    )
    .variants(&["searchsorted.Tensor_out"])
    .typed_outs(outs::searchsorted),
    OpDef::new(
        "aten::searchsorted.Scalar(Tensor sorted_sequence, Scalar self, *, bool out_int32=False, bool right=False, \
         str? side=None, Tensor? sorter=None) -> Tensor",
        searchsorted_scalar,
        &[
            ok("f32[4]{1,2,2,5}, 2"),
            ok("f32[4]{1,2,2,5}, 2.0, right=true"),
            err("f32[3], 1.0, sorter=i64[2]{0..3}", "boundary tensor [3]and got sorter tensor [2]"),
        ],
    )
    .variants(&["searchsorted.Scalar_out"])
    .typed_outs(outs::searchsorted),
    OpDef::new(
        "aten::bucketize.Tensor(Tensor self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor",
        |c, b| {
            let (boundaries, v) = (c.tensor(b, "boundaries")?, c.tensor(b, "self")?);
            bucketize(c, b, boundaries, v)
        },
        &[
            ok("f32[2,3], f32[4]{-1,0,1,2}"),
            ok("f32[3]{-1,0,nan}, f32[4]{-1,0,1,2}, right=true, out_int32=true"),
            err("f32[2], f32[3,1]", "boundaries tensor must be 1 dimension, but got dim(2)"),
        ],
    )
    .variants(&["bucketize.Tensor_out"])
    .typed_outs(outs::searchsorted),
    OpDef::new(
        "aten::bucketize.Scalar(Scalar self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor",
        |c, b| {
            let (boundaries, v, _) = pair(c, b, c.tensor(b, "boundaries")?, c.scalar("self")?)?;
            bucketize(c, b, boundaries, b.reshape(b.slice_dim(v, 0, 0, 1, 1)?, &[])?)
        },
        &[ok("1, f32[4]{-1,0,1,2}")],
    )
    .variants(&["bucketize.Scalar_out"])
    .typed_outs(outs::searchsorted),
    OpDef::new(
        "aten::histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor",
        histc,
        &[
            ok("f32[20], 4, -2, 2"),
            ok("f32[4]{1,2,3,4}, 3"),
            ok("f32[2]{1,1}, 3"),
            ok("f32[3]{nan,0.5,7}, 2, 0, 1"),
            ok("f32[50], 100, -3, 3"),
            ok("f32[0], 2"),
            err("bool[3]", "\"histogram_cpu\" not implemented for 'Bool'"),
            err("f32[3], 0", "bins must be > 0, but got 0"),
            err("f32[3], 2, 2, 1", "torch.histc: max must be larger than min"),
        ],
    )
    .variants(&["histc.out"]),
    OpDef::bounded(
        "aten::bincount(Tensor self, Tensor? weights=None, SymInt minlength=0) -> Tensor",
        bincount,
        &[
            ok("i64[9]{0..5}"),
            ok("i32[9]{0..100}, none, 3"),
            ok("u8[3]{0..5}, none, 7"),
            ok("i64[9]{0..5}, f32[9]"),
            ok("i64[9]{0..5}, bf16[9]"),
            ok("i64[0], f32[0], 3"),
            ok("i64[0]"),
            err("i64[2,2]{0..3}", "bincount only supports 1-d non-negative integral inputs."),
            err("i64[2]{1,-1}", "bincount only supports 1-d non-negative integral inputs."),
            err("i64[2]{0..3}, f32[1]", "weights should be 1-d and have the same length as input"),
            err("i64[2]{0..3}, none, -1", "minlength should be >= 0"),
            err("f32[2]", "\"bincount_cpu\" not implemented for 'Float'"),
        ],
    ),
];

/// Whether equal boundaries count as passed.
fn right(c: &Call<'_>) -> Result<bool> {
    let right = c.flag("right")?;
    match c.string("side")? {
        None => Ok(right),
        Some("left") if right => {
            invalid!(
                "torch.searchsorted(): side and right can't be set to opposites, got side of left while right was True"
            )
        }
        Some("left") => Ok(false),
        Some("right") => Ok(true),
        Some(side) => invalid!("torch.searchsorted(): side can only be 'left' or 'right' but got {side}"),
    }
}

fn searchsorted(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (boundaries, v) = (c.tensor(b, "sorted_sequence")?, c.tensor(b, "self")?);
    let right = right(c)?;
    let (limits, shape) = (b.shape(boundaries), b.shape(v));
    let n = limits.len();
    ensure!(n > 0, "torch.searchsorted(): boundaries tensor should have positive dimension, but got 0 dimension");
    ensure!(
        n == 1 || (shape.len() == n && limits[..n - 1] == shape[..n - 1]),
        "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor \
         and input value tensor must match, but we got boundaries tensor {limits:?} and input value tensor {shape:?}"
    );
    passed(c, b, in_order(c, b, boundaries)?, v, right)
}

/// `boundaries` in the order that the call's `sorter` puts them in.
fn in_order(c: &Call<'_>, b: &Builder, boundaries: ValueId) -> Result<ValueId> {
    let Some(sorter) = c.optional_tensor(b, "sorter")? else { return Ok(boundaries) };
    let (limits, order, dtype) = (b.shape(boundaries), b.shape(sorter), b.dtype(sorter));
    ensure!(
        limits == order,
        "torch.searchsorted(): boundary and sorter must have the same size, but got boundary tensor {limits:?}and got \
         sorter tensor {order:?}"
    );
    ensure!(
        dtype == DType::I64,
        "torch.searchsorted(): sorter must be a tensor of long dtype but got dtype {}",
        torch_name(dtype)
    );
    take_along(b, boundaries, limits.len() - 1, sorter)
}

fn searchsorted_scalar(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let right = right(c)?;
    let boundaries = c.tensor(b, "sorted_sequence")?;
    ensure!(
        b.rank(boundaries) == 1,
        "torch.searchsorted(): input value can be a scalar only when boundaries tensor dimension is 1, but we got \
         boundaries tensor dim({}) and input value's dim(0) numel(1)",
        b.rank(boundaries)
    );
    let boundaries = in_order(c, b, boundaries)?;
    let dtype = super::support::result_type(c, b, &[boundaries.into(), c.scalar("self")?.into()])?;
    let v = c.scalar_value(b, &c.scalar("self")?, dtype)?;
    passed(c, b, boundaries, v, right)
}

fn bucketize(c: &Call<'_>, b: &Builder, boundaries: ValueId, v: ValueId) -> Result<Outs> {
    let rank = b.rank(boundaries);
    ensure!(rank == 1, "boundaries tensor must be 1 dimension, but got dim({rank})");
    passed(c, b, boundaries, v, c.flag("right")?)
}

/// For each element of `v` the number of boundaries it has passed, halving what is left of them as the CPU's kernel does: with
/// NaN among them, or in no order, where that ends hangs on which of them are looked at.
/// <https://docs.pytorch.org/docs/stable/generated/torch.searchsorted.html>
fn passed(c: &Call<'_>, b: &Builder, boundaries: ValueId, v: ValueId, right: bool) -> Result<Outs> {
    let out = if c.flag("out_int32")? { DType::I32 } else { DType::I64 };
    let dtype = super::support::promote_types(b.dtype(boundaries), b.dtype(v))?;
    if dtype == DType::Bool || dtype.is_complex() {
        return not_implemented("searchsorted_out_cpu", dtype);
    }
    let (limits, shape) = (b.shape(boundaries), b.shape(v));
    let (last, n) = (limits.len() - 1, limits[limits.len() - 1]);
    if n == 0 {
        return one(b.full(Number::Int(0), out, &shape)?);
    }
    // One row of boundaries is for all of `v`, more for a row each.
    let rows: Dims = if last == 0 { Dims::from_slice(&[b.ty(v)?.numel()]) } else { shape.clone() };
    let (value, boundaries) = (b.reshape(b.convert(v, dtype)?, &rows)?, b.convert(boundaries, dtype)?);
    let index = |i: usize| b.full(Number::Int(i as i64), DType::I32, &rows);
    let (mut start, mut end) = (index(0)?, index(n)?);
    for _ in 0..=n.ilog2() {
        let middle = b.binary(Binary::ShiftRightLogical, b.add(start, end)?, index(1)?)?;
        let boundary = take_along(b, boundaries, last, b.minimum(middle, index(n - 1)?)?)?;
        let stops = b.compare(if right { Comparison::Gt } else { Comparison::Ge }, boundary, value)?;
        let open = b.compare(Comparison::Lt, start, end)?;
        let passes = b.binary(Binary::And, open, b.unary(Unary::Not, stops)?)?;
        start = b.select(passes, b.add(middle, index(1)?)?, start)?;
        end = b.select(b.binary(Binary::And, open, stops)?, middle, end)?;
    }
    one(b.convert(b.reshape(start, &shape)?, out)?)
}

fn histc(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (v, bins) = (c.tensor(b, "self")?, c.int("bins")?);
    let (dtype, n) = (b.dtype(v), b.ty(v)?.numel());
    // Of integers too, which PyTorch has on CUDA only: mixtures of experts count their tokens so.
    if dtype.is_complex() || dtype == DType::Bool {
        return not_implemented("histogram_cpu", dtype);
    }
    ensure!(bins > 0, "torch.histogram(): bins must be > 0, but got {bins} for dimension 0");
    let bins = bins as usize;
    if n == 0 {
        return one(b.full(Number::Int(0), dtype, &[bins])?);
    }
    let wide = if dtype.is_float() { dtype.accumulator() } else { DType::F64 };
    let flat = b.convert(b.reshape(v, &[n])?, wide)?;
    let (low, high) = bounds(c, b, flat)?;
    let inside =
        b.binary(Binary::And, b.compare(Comparison::Ge, flat, low)?, b.compare(Comparison::Le, flat, high)?)?;
    let count = b.full_like(flat, Number::Int(bins as i64))?;
    // Zeros of the elements make the width no constant, by which XLA would multiply in place of a division.
    let width = b.add(b.subtract(high, low)?, b.multiply(flat, b.full_like(flat, Number::Int(0))?)?)?;
    let bin = b.divide(b.multiply(b.subtract(flat, low)?, count)?, width)?;
    let bin = b.select(inside, bin, count)?;
    let bin = b.convert(b.unary(Unary::Floor, bin)?, DType::I32)?;
    // The last bin holds its right edge too. What is outside belongs to a bin that does not exist.
    let last = b.full_like(bin, Number::Int(bins as i64 - 1))?;
    let bin = b.select(inside, b.minimum(bin, last)?, b.full_like(bin, Number::Int(bins as i64))?)?;
    one(b.convert(counted(b, bin, bins)?, dtype)?)
}

/// The first and last edge, in the shape of `flat`: those of the call, or if they are equal those of the data.
fn bounds(c: &Call<'_>, b: &Builder, flat: ValueId) -> Result<(ValueId, ValueId)> {
    let (low, high) = (c.scalar("min")?, c.scalar("max")?);
    let is_finite = c.require(&[&low, &high], |n| n.iter().all(|n| n.as_f64().is_finite()));
    ensure!(is_finite, "torch.histc: range of [{}, {}] is not finite", low.now().as_f64(), high.now().as_f64());
    if c.require(&[&low, &high], |n| n[0].as_f64() < n[1].as_f64()) {
        let edge = |of: &Scalar| broadcast_to(b, c.scalar_value(b, of, b.dtype(flat))?, &b.shape(flat));
        return Ok((edge(&low)?, edge(&high)?));
    }
    ensure!(c.float("min")? == c.float("max")?, "torch.histc: max must be larger than min");
    let (least, greatest) = (b.reduce(flat, Reducer::Minimum, &[0])?, b.reduce(flat, Reducer::Maximum, &[0])?);
    let flat_line = b.compare(Comparison::Eq, least, greatest)?;
    let one = b.full_like(least, Number::Int(1))?;
    let low = b.select(flat_line, b.subtract(least, one)?, least)?;
    let high = b.select(flat_line, b.add(greatest, one)?, greatest)?;
    let shape = b.shape(flat);
    Ok((broadcast_to(b, low, &shape)?, broadcast_to(b, high, &shape)?))
}

/// Few bins are counted by comparing every element with each, which needs no scatter.
const BINS_TO_COMPARE: usize = 64;

/// How often each of `0..bins` occurs in a 1-d `bin`, as `i32`.
pub(super) fn counted(b: &Builder, bin: ValueId, bins: usize) -> Result<ValueId> {
    let n = b.ty(bin)?.numel();
    if bins > BINS_TO_COMPARE {
        let zeros = b.full(Number::Int(0), DType::I32, &[bins])?;
        return put_points(b, zeros, &[bin], &[0], b.full(Number::Int(1), DType::I32, &[n])?, Combiner::Add);
    }
    let grid = Shape::from_slice(&[bins, n]);
    let hits = b.compare(Comparison::Eq, b.iota(b.dtype(bin), &grid, 0)?, b.broadcast_in_dim(bin, &grid, &[1])?)?;
    b.reduce(b.convert(hits, DType::I32)?, Reducer::Add, &[1])
}

/// One element more than the greatest says, or `minlength`. A negative element makes it negative.
fn bincount(c: &Call<'_>, b: &Builder) -> Result<Bounded> {
    let (v, least) = (c.tensor(b, "self")?, c.int("minlength")?);
    let (dtype, n) = (b.dtype(v), b.ty(v)?.numel());
    let refusal = "bincount only supports 1-d non-negative integral inputs.";
    if !dtype.is_int() {
        return not_implemented("bincount_cpu", dtype);
    }
    ensure!(least >= 0, "minlength should be >= 0");
    ensure!(b.rank(v) == 1, "{refusal}");
    let weights = c.optional_tensor(b, "weights")?;
    let fits = weights.is_none_or(|w| b.shape(w) == b.shape(v));
    ensure!(fits, "weights should be 1-d and have the same length as input");
    if n == 0 {
        return Bounded::fixed(vec![Some(b.full(Number::Int(0), DType::I64, &[least as usize])?)]);
    }
    let wide = b.convert(v, DType::I64)?;
    let (low, high) = (b.reduce(wide, Reducer::Minimum, &[0])?, b.reduce(wide, Reducer::Maximum, &[0])?);
    let number = |n| b.scalar(Number::Int(n), DType::I64);
    let count = b.maximum(b.add(high, number(1)?)?, number(least)?)?;
    let negative = b.compare(Comparison::Lt, low, number(0)?)?;
    let Some(bound) = c.bound() else { return Ok(Bounded::Bound(b.select(negative, low, count)?)) };
    ensure!(bound >= 0, "{refusal}");
    let places = b.convert(v, index_dtype(bound as usize))?;
    let totals = match weights {
        None => b.convert(counted(b, places, bound as usize)?, DType::I64)?,
        Some(w) => {
            let sums = if b.dtype(w) == DType::F32 { DType::F32 } else { DType::F64 };
            let zeros = b.full(Number::Int(0), sums, &[bound as usize])?;
            put_points(b, zeros, &[places], &[0], b.convert(w, sums)?, Combiner::Add)?
        }
    };
    Bounded::rows(totals, count)
}
