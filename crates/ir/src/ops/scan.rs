//! Running sums, products and extremes along a dimension.
//!
//! A scan by a reducer is a reduction over windows that reach back to the start. XLA recognises that form on every target
//! and runs it in linear work: measured on the CPU, it beats a scan of `log2 n` shifted copies from 1,000 elements on.

use super::binary::logaddexp;
use super::expr::formula;
use super::index::index_dtype;
use super::reduce::sum_dtype;
use super::support::{dim, not_implemented};
use super::{Call, OpDef, Outs, err, many, ok, one, outs};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::literal::Number;
use crate::op::{Binary, Comparison, Op, Reducer, Window};
use crate::{DType, ensure};

pub(super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
        |c, b| accumulated(c, b, Reducer::Add),
        &[
            ok("f32[2,9], 1"),
            ok("bf16[7,2], 0"),
            ok("i32[5], -1"),
            ok("bool[5], 0"),
            ok("i64[5], 0, dtype=f32"),
            ok("f32[], 0"),
            ok("f32[2,0], 1"),
            ok("f32[5]{1,inf,-inf,2}, 0"),
            err("f32[3], 1", "Dimension out of range"),
        ],
    )
    .variants(&["cumsum_", "cumsum.out"])
    .typed_by_out(),
    OpDef::new(
        "aten::cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
        |c, b| accumulated(c, b, Reducer::Multiply),
        &[ok("f32[2,9], 1"), ok("i32[5], 0"), ok("f32[5]{1,2,nan}, 0")],
    )
    .variants(&["cumprod_", "cumprod.out"])
    .typed_by_out(),
    OpDef::new(
        "aten::cummax(Tensor self, int dim) -> (Tensor values, Tensor indices)",
        |c, b| extremes(c, b, Reducer::Maximum),
        &[
            ok("f32[2,9], 1"),
            ok("i64[7]{0..3}, 0"),
            ok("bool[5], 0"),
            ok("f32[], 0"),
            ok("f32[0], 0"),
            ok("f32[6]{1,nan,2,nan,3}, 0"),
            ok("f32[4]{-inf,-inf,0}, 0"),
            ok("f32[2,40], 1"),
            ok("i64[1200]{0..3}, 0"),
            ok("bool[17], 0"),
        ],
    )
    .variants(&["cummax.out"])
    .typed_outs(outs::scalar_type),
    OpDef::new(
        "aten::cummin(Tensor self, int dim) -> (Tensor values, Tensor indices)",
        |c, b| extremes(c, b, Reducer::Minimum),
        &[
            ok("f32[2,9], 1"),
            ok("i64[7]{0..3}, 0"),
            ok("f32[6]{1,nan,2,nan,3}, 0"),
            ok("bf16[40,2], 0"),
            ok("i64[40]{0..3}, 0"),
        ],
    )
    .variants(&["cummin.out"])
    .typed_outs(outs::scalar_type),
    OpDef::new(
        "aten::logcumsumexp(Tensor self, int dim) -> Tensor",
        logcumsumexp,
        &[
            ok("f32[2,9], 1"),
            ok("f32[5]{-inf,1,inf,2}, 0"),
            ok("f32[4]{-inf,-inf,nan,1}, 0"),
            ok("f32[], 0"),
            ok("c64[2,9], 1"),
            err("i64[3], 0", "\"logcumsumexp_out_cpu\" not implemented for 'Long'"),
        ],
    )
    .variants(&["logcumsumexp.out"])
    .typed_outs(outs::scalar_type),
    OpDef::new("aten::_logcumsumexp(Tensor self, int dim) -> Tensor", logcumsumexp, &[ok("f32[2,9], 1")])
        .variants(&["_logcumsumexp.out"])
        .typed_outs(outs::scalar_type),
    OpDef::new(
        "aten::diff(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor",
        diff,
        &[
            ok("f32[2,5]"),
            ok("bool[4]"),
            ok("i64[5,2], 2, 0"),
            ok("f32[3], 7"),
            ok("f32[2,3], 1, -1, f32[2,1], f32[2,2]"),
            err("f32[]", "diff expects input to be at least one-dimensional"),
        ],
    )
    .variants(&["diff.out"]),
];

/// Each element of `v` reduced with those before it along `d`.
fn scan(b: &Builder, v: ValueId, d: usize, reducer: Reducer) -> Result<ValueId> {
    let shape = b.shape(v);
    let mut window = Window::trivial(shape.len());
    window.size[d] = shape[d];
    window.padding[d] = (shape[d] as i64 - 1, 0);
    b.push(Op::ReduceWindow { reducer, window }, &[v], vec![])
}

/// One operand scanned along `d`; a 0-d tensor, and one without elements, is its own scan.
fn scan_one(b: &Builder, v: ValueId, d: usize, reducer: Reducer) -> Result<ValueId> {
    let shape = b.shape(v);
    if shape.is_empty() || shape.contains(&0) { Ok(v) } else { scan(b, v, d, reducer) }
}

/// `v` moved `by` places towards the end of `d`; `fill` moves in.
fn shifted(b: &Builder, v: ValueId, d: usize, by: usize, fill: Number) -> Result<ValueId> {
    let rank = b.rank(v);
    let at = |n: i64| (0..rank).map(|i| if i == d { n } else { 0 }).collect::<Vec<i64>>();
    let fill = b.scalar(fill, b.dtype(v))?;
    b.pad(v, fill, &at(by as i64), &at(-(by as i64)), &vec![0; rank])
}

/// The running sum of `v` along `d`, in its own type.
pub(super) fn cumulative_sum(b: &Builder, v: ValueId, d: usize) -> Result<ValueId> {
    scan_one(b, v, d, Reducer::Add)
}

/// The running maximum of `v` along `d`.
pub(super) fn cumulative_max(b: &Builder, v: ValueId, d: usize) -> Result<ValueId> {
    scan_one(b, v, d, Reducer::Maximum)
}

fn accumulated(c: &Call<'_>, b: &Builder, reducer: Reducer) -> Result<Outs> {
    let v = c.tensor(b, "self")?;
    let d = dim(c.int("dim")?, b.rank(v))?;
    let dtype = sum_dtype(c, b.dtype(v))?;
    if dtype == DType::Bool {
        return not_implemented(if reducer == Reducer::Add { "cumsum_out_cpu" } else { "cumprod_out_cpu" }, dtype);
    }
    let wide = b.convert(b.convert(v, dtype)?, dtype.accumulator())?;
    one(b.convert(scan_one(b, wide, d, reducer)?, dtype)?)
}

/// The later of equals counts, and the latest NaN once there is one: the greatest place so far at which an element is the
/// running extreme. Two scans of one operand each, since XLA's CPU refuses, or crashes on, one of two operands of different
/// types from 17 elements on (jaxlib 0.10.2, `ReduceWindowRewriter`).
fn extremes(c: &Call<'_>, b: &Builder, reducer: Reducer) -> Result<Outs> {
    let v = c.tensor(b, "self")?;
    let (shape, dtype) = (b.shape(v), b.dtype(v));
    let d = dim(c.int("dim")?, shape.len())?;
    if dtype.is_complex() {
        return not_implemented("cummax_cummin_helper_cpu", dtype);
    }
    if shape.is_empty() || shape.contains(&0) {
        return many([v, b.full(Number::Int(0), DType::I64, &shape)?]);
    }
    let values = scan(b, v, d, reducer)?;
    let places = b.iota(index_dtype(shape[d]), &shape, d)?;
    let mut is_extreme = b.compare(Comparison::Eq, v, values)?;
    if dtype.is_float() {
        is_extreme = b.binary(Binary::Or, is_extreme, b.compare(Comparison::Ne, v, v)?)?;
    }
    let places = b.select(is_extreme, places, b.full_like(places, Number::Int(0))?)?;
    let places = cumulative_max(b, places, d)?;
    many([values, b.convert(places, DType::I64)?])
}

fn logcumsumexp(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let v = c.tensor(b, "self")?;
    let (d, dtype) = (dim(c.int("dim")?, b.rank(v))?, b.dtype(v));
    if !dtype.is_float() && !dtype.is_complex() {
        return not_implemented("logcumsumexp_out_cpu", dtype);
    }
    let mut sums = b.convert(v, dtype.accumulator())?;
    let n = b.shape(v).get(d).copied().unwrap_or(1);
    // No reducer adds logarithms: in round `k` each element meets the sum of the `2^k` before it.
    let mut reach = 1;
    while reach < n {
        let before = shifted(b, sums, d, reach, Number::Float(f64::NEG_INFINITY))?;
        sums = formula(b, [before, sums], |[x, y]| logaddexp(x, y))?;
        reach *= 2;
    }
    one(b.convert(sums, dtype)?)
}

fn diff(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let mut v = c.tensor(b, "self")?;
    let rank = b.rank(v);
    ensure!(rank >= 1, "diff expects input to be at least one-dimensional");
    let (n, d) = (c.int("n")?, dim(c.int("dim")?, rank)?);
    ensure!(n >= 0, "order must be non-negative but got {n}");
    let (before, after) = (c.optional_tensor(b, "prepend")?, c.optional_tensor(b, "append")?);
    if before.is_some() || after.is_some() {
        let parts: Vec<ValueId> = before.into_iter().chain([v]).chain(after).collect();
        let same = parts.iter().all(|&p| b.dtype(p) == b.dtype(v) && b.rank(p) == rank);
        ensure!(same, "diff expects prepend or append to be of the input's dtype and number of dimensions");
        v = b.concatenate(&parts, d)?;
    }
    let op = if b.dtype(v) == DType::Bool { Binary::Xor } else { Binary::Subtract };
    for _ in 0..n.min(b.shape(v)[d] as i64) {
        let extent = b.shape(v)[d];
        v = b.binary(op, b.slice_dim(v, d, 1, extent, 1)?, b.slice_dim(v, d, 0, extent - 1, 1)?)?;
    }
    one(v)
}
