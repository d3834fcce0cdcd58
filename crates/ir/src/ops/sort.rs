//! Order: sorts, and what is read off a sorted dimension.

use super::index::{index_dtype, take_along};
use super::positions::part;
use super::scan::cumulative_max;
use super::support::{dim, not_implemented, unsqueeze};
use super::{Call, OpDef, Outs, err, many, ok, one, outs};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::literal::Number;
use crate::op::{Binary, Comparison, Reducer};
use crate::types::Shape;
use crate::{DType, ensure, ensure_kernel, ensure_type, no_index};

pub(super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)",
        sort,
        &[
            ok("f32[3,5]"),
            ok("i64[5]{0..100}, 0, true"),
            ok("f32[4]{2,nan,1,inf}"),
            ok("f32[4]{2,nan,1,inf}, 0, true"),
            ok("f32[]"),
            ok("f32[2,0]"),
            err("c64[2]", "Sort does not support complex dtypes"),
        ],
    )
    .variants(&["sort.values"])
    .typed_outs(outs::typed),
    OpDef::new(
        "aten::sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor values, \
         Tensor indices)",
        sort,
        &[ok("i32[8]{0..3}, stable=true"), ok("f32[3,5]{0..2}, stable=true, dim=0, descending=true")],
    )
    .variants(&["sort.values_stable"])
    .typed_outs(outs::typed),
    OpDef::new(
        "aten::argsort(Tensor self, int dim=-1, bool descending=False) -> Tensor",
        argsort,
        &[ok("f32[3,5]"), ok("f32[]")],
    ),
    OpDef::new(
        "aten::argsort.stable(Tensor self, *, bool stable, int dim=-1, bool descending=False) -> Tensor",
        argsort,
        &[ok("i64[3,8]{0..3}, stable=true, dim=-1, descending=true")],
    )
    .variants(&["argsort.stable_out"]),
    OpDef::new(
        "aten::msort(Tensor self) -> Tensor",
        |c, b| one(sorted(b, c.tensor(b, "self")?, 0, false)?.0),
        &[ok("f32[5,2]"), ok("f32[]")],
    )
    .variants(&["msort.out"])
    .typed_outs(outs::typed),
    OpDef::new(
        "aten::topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, \
         Tensor indices)",
        topk,
        &[
            ok("f32[3,5], 2"),
            ok("f32[5,3], 3, 0, false"),
            ok("bf16[9], 1"),
            ok("f32[4]{2,nan,1,inf}, 2"),
            ok("f32[4]{2,nan,1,inf}, 1"),
            ok("f32[], 1"),
            ok("f32[3], 0"),
            err("f32[3], 4", "selected index k out of range"),
            err("bool[3], 1", "topk does not support bool dtypes on CPU"),
        ],
    )
    .variants(&["topk.values"]),
    OpDef::new(
        "aten::kthvalue(Tensor self, SymInt k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)",
        kthvalue,
        &[
            ok("f32[3,5], 2"),
            ok("i64[5]{0..100}, 5, 0, true"),
            ok("f32[], 1"),
            err("f32[3], 4", "kthvalue(): selected number k out of range for dimension 0"),
            err("f32[2,0], 1, 1", "kthvalue(): Expected reduction dim 1 to have non-zero size."),
        ],
    )
    .variants(&["kthvalue.values"])
    .typed_outs(outs::kthvalue),
    OpDef::new(
        "aten::median(Tensor self) -> Tensor",
        |c, b| median_of_all(c, b, Nan::Wins),
        &[ok("f32[2,5]"), ok("i64[6]"), ok("f32[3]{1,nan,2}"), ok("f32[0]"), ok("f32[]")],
    )
    .variants(&["median.out"]),
    OpDef::new(
        "aten::median.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
        |c, b| median(c, b, Nan::Wins),
        &[
            ok("f32[2,5], 1"),
            ok("f32[4,3], 0, true"),
            ok("f32[2,3]{1,nan,2,3,4,5}, 1"),
            ok("f32[], 0"),
            err("f32[2,0], 1", "median(): Expected reduction dim 1 to have non-zero size."),
        ],
    )
    .variants(&["median.dim_values"])
    .typed_outs(outs::median),
    OpDef::new(
        "aten::nanmedian(Tensor self) -> Tensor",
        |c, b| median_of_all(c, b, Nan::LeftOut),
        &[ok("f32[5]{1,nan,2,3,nan}"), ok("f32[2]{nan}"), ok("i32[5]")],
    )
    .variants(&["nanmedian.out"]),
    OpDef::new(
        "aten::nanmedian.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
        |c, b| median(c, b, Nan::LeftOut),
        &[ok("f32[2,3]{1,nan,2,3,4,5}, 1, true"), ok("f32[2,2]{nan,nan,1,2}, 1")],
    )
    .variants(&["nanmedian.dim_values"])
    .typed_outs(outs::median),
    OpDef::new(
        "aten::mode(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)",
        mode,
        &[
            ok("i64[3,9]{0..4}"),
            ok("f32[9,2]{0,1,1,2,0,2}, 0, true"),
            ok("f32[]"),
            err("f32[2,0], 1", "mode(): Expected reduction dim 1 to have non-zero size."),
        ],
    )
    .variants(&["mode.values"])
    .typed_outs(outs::mode),
];

/// Values in order along `d`, and where each came from; equals keep their order. A 0-d tensor is in order.
pub(super) fn sorted(b: &Builder, v: ValueId, d: usize, descending: bool) -> Result<(ValueId, ValueId)> {
    let shape = b.shape(v);
    ensure_type!(!b.dtype(v).is_complex(), " Sort does not support complex dtypes on CPU");
    if shape.is_empty() {
        return Ok((v, b.full(Number::Int(0), DType::I64, &[])?));
    }
    let places = b.iota(index_dtype(shape[d]), &shape, d)?;
    match b.sort(&[v, places], d, descending, true)?[..] {
        [values, places] => Ok((values, b.convert(places, DType::I64)?)),
        _ => Err(crate::Error::internal("a sort of two operands gives two")),
    }
}

fn sort(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let v = c.tensor(b, "self")?;
    let d = dim(c.int("dim")?, b.rank(v))?;
    let (values, places) = sorted(b, v, d, c.flag("descending")?)?;
    many([values, places])
}

fn argsort(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    one(sort(c, b)?.pop().flatten().ok_or_else(|| crate::Error::internal("a sort gives two values"))?)
}

fn topk(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (v, k, largest) = (c.tensor(b, "self")?, c.int("k")?, c.flag("largest")?);
    let shape = b.shape(v);
    let d = dim(c.int("dim")?, shape.len())?;
    let extent = shape.get(d).copied().unwrap_or(1);
    ensure!(k >= 0 && k as usize <= extent, "selected index k out of range");
    ensure_type!(!b.dtype(v).is_complex(), " topk does not support complex dtypes on CPU");
    ensure_kernel!(b.dtype(v) != DType::Bool, "topk does not support bool dtypes on CPU");
    if shape.is_empty() {
        return many([v, b.full(Number::Int(0), DType::I64, &[])?]);
    }
    if k == 1 && largest {
        let (value, place) = super::reduce::extremes::reduce_arg(b, v, d, Reducer::ArgMax)?;
        return many([unsqueeze(b, value, &[d])?, unsqueeze(b, place, &[d])?]);
    }
    let (values, places) = sorted(b, v, d, largest)?;
    let first = |v| b.slice_dim(v, d, 0, k as usize, 1);
    many([first(values)?, first(places)?])
}

/// What a rule that gives one element along a dimension is called with.
struct Line {
    v: ValueId,
    dim: usize,
    extent: usize,
    keep: bool,
}

impl Line {
    fn new(c: &Call<'_>, b: &Builder, name: &str) -> Result<Line> {
        let (v, keep) = (c.tensor(b, "self")?, c.flag("keepdim")?);
        let shape = b.shape(v);
        let dim = dim(c.int("dim")?, shape.len())?;
        let extent = shape.get(dim).copied().unwrap_or(1);
        if extent == 0 {
            no_index!("{name}(): Expected reduction dim {dim} to have non-zero size.");
        }
        Ok(Line { v, dim, extent, keep })
    }

    /// Refuses complex numbers, which have no order, and `bool` unless there are kernels for `flags`.
    fn check_ordered(&self, b: &Builder, kernel: &str, flags: bool) -> Result<()> {
        let dtype = b.dtype(self.v);
        let refused = dtype.is_complex() || (dtype == DType::Bool && !flags);
        if refused { not_implemented(kernel, dtype) } else { Ok(()) }
    }

    /// The element of each line of `sorted` at `place`, which has extent 1 in the line's dimension.
    fn pick(&self, b: &Builder, (values, places): (ValueId, ValueId), place: ValueId) -> Result<Outs> {
        let out = |v| self.kept(b, take_along(b, v, self.dim, place)?);
        many([out(values)?, out(places)?])
    }

    /// Of each line, which this is in order, the lower one of the two elements in the middle and its place, or the first NaN. Either has
    /// extent 1 in the line's dimension.
    fn middle(&self, b: &Builder, (values, places): (ValueId, ValueId)) -> Result<[ValueId; 2]> {
        let (shape, d, middle) = (b.shape(self.v), self.dim, (self.extent - 1) / 2);
        if shape.is_empty() {
            return Ok([values, places]);
        }
        let at = |v| b.slice_dim(v, d, middle, middle + 1, 1);
        let (value, place) = (at(values)?, at(places)?);
        if !b.dtype(self.v).is_float() {
            return Ok([value, place]);
        }
        let counted = b.iota(index_dtype(self.extent), &shape, d)?;
        let none = b.full_like(counted, Number::Int(self.extent as i64))?;
        let is_nan = b.compare(Comparison::Ne, self.v, self.v)?;
        let first = b.reduce(b.select(is_nan, counted, none)?, Reducer::Minimum, &[d])?;
        let first = b.convert(unsqueeze(b, first, &[d])?, DType::I64)?;
        let has_nan = b.compare(Comparison::Lt, first, b.full_like(first, Number::Int(self.extent as i64))?)?;
        let value = b.select(has_nan, b.full_like(value, Number::Float(f64::NAN))?, value)?;
        Ok([value, b.select(has_nan, first, place)?])
    }

    /// One element of each line, with the line's dimension or without it.
    fn kept(&self, b: &Builder, picked: ValueId) -> Result<ValueId> {
        let mut shape = b.shape(self.v);
        match shape.is_empty() {
            true => {}
            false if self.keep => shape[self.dim] = 1,
            false => drop(shape.remove(self.dim)),
        }
        b.reshape(picked, &shape)
    }

    /// The shape of one element per line, the dimension kept.
    fn reduced_shape(&self, b: &Builder) -> Shape {
        let mut shape = b.shape(self.v);
        if let Some(extent) = shape.get_mut(self.dim) {
            *extent = 1;
        }
        shape
    }
}

fn kthvalue(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (line, k) = (Line::new(c, b, "kthvalue")?, c.int_now("k")?);
    ensure!(
        k >= 1 && k as usize <= line.extent,
        "kthvalue(): selected number k out of range for dimension {}",
        line.dim
    );
    // The only element needs no kernel, here and in `mode`.
    if b.rank(line.v) == 0 {
        return many([line.v, b.full(Number::Int(0), DType::I64, &[])?]);
    }
    line.check_ordered(b, "kthvalue_cpu", false)?;
    let (values, places) = sorted(b, line.v, line.dim, false)?;
    let place = match c.brought("k")? {
        Some(k) => Some(b.subtract(c.scalar_value(b, &k, DType::I64)?, b.scalar(Number::Int(1), DType::I64)?)?),
        None if c.context.relaying => Some(c.relayed(b, k - 1)?),
        None => None,
    };
    let out = |v| match place {
        Some(place) => line.kept(b, part(b, v, line.dim, place, 1)?),
        None => line.kept(b, b.slice_dim(v, line.dim, k as usize - 1, k as usize, 1)?),
    };
    many([out(values)?, out(places)?])
}

/// What a median makes of NaN.
#[derive(Clone, Copy, PartialEq)]
enum Nan {
    /// The median is the first NaN.
    Wins,
    /// The median is that of the other elements, if there are any.
    LeftOut,
}

/// The lower one of the two in the middle.
fn median(c: &Call<'_>, b: &Builder, nan: Nan) -> Result<Outs> {
    let line = Line::new(c, b, "median")?;
    line.check_ordered(b, "median_out", false)?;
    let in_order = sorted(b, line.v, line.dim, false)?;
    if nan == Nan::LeftOut && b.dtype(line.v).is_float() {
        let place = median_place(b, line.v, line.dim, line.extent)?;
        return line.pick(b, in_order, b.reshape(place, &line.reduced_shape(b))?);
    }
    let [value, place] = line.middle(b, in_order)?;
    many([line.kept(b, value)?, line.kept(b, place)?])
}

/// Where the median of those that are not NaN stands in the sorted line. NaNs stand at the end.
fn median_place(b: &Builder, v: ValueId, d: usize, extent: usize) -> Result<ValueId> {
    let is_nan = b.convert(b.compare(Comparison::Ne, v, v)?, DType::I64)?;
    let dims = if b.rank(v) == 0 { vec![] } else { vec![d] };
    let nans = b.reduce(is_nan, Reducer::Add, &dims)?;
    let number = |n: i64| b.full_like(nans, Number::Int(n));
    let last = b.maximum(b.subtract(number(extent as i64 - 1)?, nans)?, number(0)?)?;
    b.divide(last, number(2)?)
}

fn median_of_all(c: &Call<'_>, b: &Builder, nan: Nan) -> Result<Outs> {
    let v = c.tensor(b, "self")?;
    let (n, dtype) = (b.ty(v)?.numel(), b.dtype(v));
    if dtype == DType::Bool || dtype.is_complex() {
        return not_implemented("median_cpu", dtype);
    }
    if n == 0 {
        let nothing = if dtype.is_float() { Number::Float(f64::NAN) } else { Number::Int(i64::MIN) };
        return one(b.full(nothing, dtype, &[])?);
    }
    let flat = b.reshape(v, &[n])?;
    let in_order = sorted(b, flat, 0, false)?;
    if nan == Nan::LeftOut && dtype.is_float() {
        let place = b.reshape(median_place(b, flat, 0, n)?, &[1])?;
        return one(b.reshape(take_along(b, in_order.0, 0, place)?, &[])?);
    }
    let line = Line { v: flat, dim: 0, extent: n, keep: false };
    one(line.kept(b, line.middle(b, in_order)?[0])?)
}

/// The most frequent value, the least of several; and the last place where it stands.
fn mode(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let line = Line::new(c, b, "mode")?;
    let (shape, d) = (b.shape(line.v), line.dim);
    if shape.is_empty() {
        return many([line.v, b.full(Number::Int(0), DType::I64, &[])?]);
    }
    line.check_ordered(b, "mode_cpu", true)?;
    let (values, places) = sorted(b, line.v, d, false)?;
    // A run starts where a value differs from the one before; its elements count up from there.
    let at = b.iota(DType::I64, &shape, d)?;
    let zeros = b.full_like(at, Number::Int(0))?;
    let start = match line.extent {
        1 => zeros,
        n => {
            let (before, after) = (b.slice_dim(values, d, 0, n - 1, 1)?, b.slice_dim(values, d, 1, n, 1)?);
            let changed = b.compare(Comparison::Ne, before, after)?;
            let first = b.full(Number::Bool(true), DType::Bool, &line.reduced_shape(b))?;
            let starts = b.concatenate(&[first, changed], d)?;
            cumulative_max(b, b.select(starts, at, zeros)?, d)?
        }
    };
    let nth = b.binary(Binary::Subtract, at, start)?;
    let (_, longest) = super::reduce::extremes::reduce_arg(b, nth, d, Reducer::ArgMax)?;
    line.pick(b, (values, places), unsqueeze(b, longest, &[d])?)
}
