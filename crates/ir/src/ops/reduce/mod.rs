//! Sums, products, extremes and their kin over dimensions.

pub(super) mod extremes;
pub(super) mod moments;
pub(in crate::ops) mod norms;

use super::support::{self, dims_or_all, torch_name, unsqueeze};
use super::{Call, OpDef, Outs, err, ok, one};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::literal::Number;
use crate::op::{Comparison, Reducer, Unary};
use crate::types::Dims;
use crate::{DType, ensure, ensure_kernel, invalid, no_index};

pub(super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::sum(Tensor self, *, ScalarType? dtype=None) -> Tensor",
        |c, b| sum(c, b, &Over::everything(c, b)?),
        &[
            ok("f32[2,3]"),
            ok("bool[4]"),
            ok("i32[]"),
            ok("bf16[300]"),
            ok("u8[3], dtype=f32"),
            ok("f32[3]{0,1,-2}, dtype=bool"),
            ok("f32[0]"),
            ok("c64[3]"),
        ],
    )
    .variants(&["sum.out"])
    .typed_by_out(),
    OpDef::new(
        "aten::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
        |c, b| sum(c, b, &Over::dims(c, b)?),
        &[
            ok("f32[2,3,4], [0,-1]"),
            ok("f32[2,3], [], true"),
            ok("f32[2,3], none"),
            ok("i8[2,3], [1], true"),
            ok("f32[], [0], true"),
            ok("f16[2,0], [1]"),
            err("f32[2,3], [0,0]", "dim 0 appears multiple times in the list of dims"),
            err("f32[2,3], [2]", "Dimension out of range (expected to be in range of [-2, 1], but got 2)"),
        ],
    )
    .variants(&["sum.IntList_out"])
    .typed_by_out(),
    OpDef::new(
        "aten::nansum(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
        |c, b| {
            let mut over = Over::dims(c, b)?;
            ensure!(!b.dtype(over.v).is_complex(), "nansum does not support complex inputs");
            over.v = without_nan(b, over.v)?;
            sum(c, b, &over)
        },
        &[ok("f32[4]{1,nan,2}"), ok("f32[2,2]{nan,1,2}, [1], true"), ok("i64[3]")],
    )
    .variants(&["nansum.out"])
    .typed_by_out(),
    OpDef::new(
        "aten::sum_to_size(Tensor self, SymInt[] size) -> Tensor",
        sum_to_size,
        &[ok("f32[2,3], [1,3]"), ok("f32[4,2,3], [3]"), err("f32[2,3], [2]", "is not expandable to size")],
    ),
    OpDef::new(
        "aten::mean(Tensor self, *, ScalarType? dtype=None) -> Tensor",
        |c, b| mean(c, b, &Over::everything(c, b)?),
        &[
            ok("f32[2,3]"),
            ok("i64[3], dtype=f64"),
            ok("f32[0]"),
            ok("c64[3]"),
            err(
                "i64[3]",
                "mean(): could not infer output dtype. Input dtype must be either a floating point or complex",
            ),
        ],
    )
    .variants(&["mean.dtype_out"]),
    OpDef::new(
        "aten::mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
        |c, b| mean(c, b, &Over::dims(c, b)?),
        &[ok("f32[2,3,4], [1,2], true"), ok("bf16[2,300], [-1]"), ok("f32[2,3], none"), ok("f32[2,0], [1]")],
    )
    .variants(&["mean.out"]),
    OpDef::new(
        "aten::nanmean(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
        nanmean,
        &[
            ok("f32[4]{1,nan,2}"),
            ok("f32[2,2]{nan,nan,1,2}, [1]"),
            err("i64[3]", "nanmean(): expected input to have floating point or complex dtype but got Long"),
        ],
    )
    .variants(&["nanmean.out"]),
    OpDef::new(
        "aten::prod(Tensor self, *, ScalarType? dtype=None) -> Tensor",
        |c, b| prod(c, b, &Over::everything(c, b)?),
        &[ok("f32[2,3]"), ok("bool[3]"), ok("i32[3], dtype=f32"), ok("f32[0]")],
    )
    .variants(&["prod.out"])
    .typed_by_out(),
    OpDef::new(
        "aten::prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
        |c, b| prod(c, b, &Over::dims(c, b)?),
        &[ok("f32[2,3], -1, true"), ok("bf16[2,3], 0"), ok("f32[2,0], 1")],
    )
    .variants(&["prod.int_out"])
    .typed_by_out(),
    OpDef::new(
        "aten::any(Tensor self) -> Tensor",
        |c, b| truth(b, &Over::everything(c, b)?, Reducer::Or),
        &[ok("bool[3]"), ok("f32[2]{nan,0}"), ok("u8[3]"), ok("f32[0]"), ok("i64[]")],
    )
    .variants(&["any.all_out"]),
    OpDef::new(
        "aten::any.dim(Tensor self, int dim, bool keepdim=False) -> Tensor",
        |c, b| truth(b, &Over::dims(c, b)?, Reducer::Or),
        &[ok("bool[2,3], -1, true"), ok("f32[2,0], 1"), ok("f32[], 0")],
    )
    .variants(&["any.out"]),
    OpDef::new(
        "aten::any.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor",
        |c, b| truth(b, &Over::listed(c, b)?, Reducer::Or),
        &[ok("bool[2,3], [0,1], true"), ok("f32[2,3], []"), ok("f32[2,3]")],
    )
    .variants(&["any.dims_out"]),
    OpDef::new(
        "aten::all(Tensor self) -> Tensor",
        |c, b| truth(b, &Over::everything(c, b)?, Reducer::And),
        &[ok("bool[3]"), ok("f32[2]{nan,0}"), ok("u8[3]"), ok("f32[0]")],
    )
    .variants(&["all.all_out"]),
    OpDef::new(
        "aten::all.dim(Tensor self, int dim, bool keepdim=False) -> Tensor",
        |c, b| truth(b, &Over::dims(c, b)?, Reducer::And),
        &[ok("bool[2,3], -1, true"), ok("f32[2,0], 1"), ok("u8[2,3], 0")],
    )
    .variants(&["all.out"]),
    OpDef::new(
        "aten::all.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor",
        |c, b| truth(b, &Over::listed(c, b)?, Reducer::And),
        &[ok("bool[2,3], [0,1], true"), ok("f32[2,3], []"), ok("f32[2,3]")],
    )
    .variants(&["all.dims_out"]),
    OpDef::new(
        "aten::_is_all_true(Tensor self) -> Tensor",
        |c, b| truth_of_flags(c, b, Reducer::And),
        &[ok("bool[3]"), ok("bool[0]"), ok("bool[]"), err("f32[2]", "self.scalar_type() == at::kBool")],
    ),
    OpDef::new(
        "aten::_is_any_true(Tensor self) -> Tensor",
        |c, b| truth_of_flags(c, b, Reducer::Or),
        &[ok("bool[3]"), ok("bool[0]"), ok("bool[]"), err("f32[2]", "self.scalar_type() == at::kBool")],
    ),
    OpDef::new(
        "aten::count_nonzero(Tensor self, int? dim=None) -> Tensor",
        |c, b| count_nonzero(b, &Over::of_self(c, b, &c.optional_ints("dim")?.unwrap_or_default(), false)?),
        &[ok("f32[2,3]"), ok("bool[2,3], 1"), ok("c64[2]")],
    )
    .variants(&["count_nonzero.out"]),
    OpDef::new(
        "aten::count_nonzero.dim_IntList(Tensor self, int[] dim) -> Tensor",
        |c, b| count_nonzero(b, &Over::of_self(c, b, &c.ints("dim")?, false)?),
        &[ok("f32[2,3], [0]"), ok("i64[2,3], []")],
    )
    .variants(&["count_nonzero.dim_IntList_out"]),
    OpDef::new(
        "aten::trace(Tensor self) -> Tensor",
        trace,
        &[
            ok("f32[2,3]"),
            ok("i32[3,3]"),
            ok("f32[0,3]"),
            err("f32[2]", "trace: expected a matrix, but got tensor with dim 1"),
        ],
    )
    .variants(&["trace.out"]),
];

/// What a reduction runs over.
pub(super) struct Over {
    pub(super) v: ValueId,
    /// Sorted, distinct.
    pub(super) dims: Dims,
    /// Whether the dimensions stay, with extent 1.
    pub(super) keep: bool,
}

impl Over {
    /// All of `self`.
    pub(super) fn everything(c: &Call<'_>, b: &Builder) -> Result<Over> {
        Over::of_self(c, b, &[], false)
    }

    /// The dimensions `dim` of `self` (none or no list: all), with `keepdim`.
    pub(super) fn dims(c: &Call<'_>, b: &Builder) -> Result<Over> {
        Over::of_self(c, b, &c.optional_ints("dim")?.unwrap_or_default(), c.flag("keepdim")?)
    }

    /// As [`Over::dims`], but an empty list means no dimension.
    fn listed(c: &Call<'_>, b: &Builder) -> Result<Over> {
        let mut over = Over::dims(c, b)?;
        if c.optional_ints("dim")?.is_some_and(|d| d.is_empty()) {
            over.dims.clear();
        }
        Ok(over)
    }

    pub(super) fn of_self(c: &Call<'_>, b: &Builder, dims: &[i64], keep: bool) -> Result<Over> {
        let v = c.tensor(b, "self")?;
        Ok(Over { v, dims: dims_or_all(dims, b.rank(v))?, keep })
    }

    /// The same dimensions of another value of this shape.
    pub(super) fn with(&self, v: ValueId) -> Over {
        Over { v, dims: self.dims.clone(), keep: self.keep }
    }

    /// How many elements fall into one.
    pub(super) fn count(&self, b: &Builder) -> usize {
        let shape = b.shape(self.v);
        self.dims.iter().map(|&d| shape[d]).product()
    }

    pub(super) fn reduce(&self, b: &Builder, reducer: Reducer) -> Result<ValueId> {
        self.kept(b, b.reduce(self.v, reducer, &self.dims)?)
    }

    /// A reduced value broadcast back over the reduced dimensions.
    pub(super) fn spread(&self, b: &Builder, reduced: ValueId) -> Result<ValueId> {
        let shape = b.shape(self.v);
        let left: Dims = (0..shape.len()).filter(|d| !self.dims.contains(d)).collect();
        b.broadcast_in_dim(reduced, &shape, &left)
    }

    /// A reduced value with the dimensions back in if they stay.
    pub(super) fn kept(&self, b: &Builder, reduced: ValueId) -> Result<ValueId> {
        if self.keep { unsqueeze(b, reduced, &self.dims) } else { Ok(reduced) }
    }

    /// Refuses to reduce nothing where there is no identity.
    pub(super) fn some(&self, b: &Builder, name: &str) -> Result<()> {
        let shape = b.shape(self.v);
        if let Some(d) = self.dims.iter().find(|&&d| shape[d] == 0) {
            no_index!("{name}(): Expected reduction dim {d} to have non-zero size.");
        }
        Ok(())
    }
}

/// The sum of `over.v` in `dtype`, 16-bit floats added up in `f32`.
pub(super) fn sum_as(b: &Builder, over: &Over, dtype: DType) -> Result<ValueId> {
    if dtype == DType::Bool {
        return over.with(b.convert(over.v, DType::Bool)?).reduce(b, Reducer::Or);
    }
    let v = b.convert(b.convert(over.v, dtype)?, dtype.accumulator())?;
    b.convert(over.with(v).reduce(b, Reducer::Add)?, dtype)
}

/// The type that sums and products of `dtype` come in: integers become `i64`.
pub(super) fn sum_dtype(c: &Call<'_>, dtype: DType) -> Result<DType> {
    let whole = dtype.is_int() || dtype == DType::Bool;
    Ok(c.optional_dtype("dtype")?.unwrap_or(if whole { DType::I64 } else { dtype }))
}

fn sum(c: &Call<'_>, b: &Builder, over: &Over) -> Result<Outs> {
    one(sum_as(b, over, sum_dtype(c, b.dtype(over.v))?)?)
}

fn prod(c: &Call<'_>, b: &Builder, over: &Over) -> Result<Outs> {
    let dtype = sum_dtype(c, b.dtype(over.v))?;
    if dtype == DType::Bool {
        return one(over.with(b.convert(over.v, DType::Bool)?).reduce(b, Reducer::And)?);
    }
    let v = b.convert(b.convert(over.v, dtype)?, dtype.accumulator())?;
    one(b.convert(over.with(v).reduce(b, Reducer::Multiply)?, dtype)?)
}

fn mean_dtype(c: &Call<'_>, dtype: DType) -> Result<DType> {
    let asked = c.optional_dtype("dtype")?;
    let to = asked.unwrap_or(dtype);
    let whose = if asked.is_some() { "Optional" } else { "Input" };
    ensure_kernel!(
        to.is_float() || to.is_complex(),
        "mean(): could not infer output dtype. {whose} dtype must be either a floating point or complex dtype. Got: {}",
        torch_name(to)
    );
    Ok(to)
}

fn mean(c: &Call<'_>, b: &Builder, over: &Over) -> Result<Outs> {
    let dtype = mean_dtype(c, b.dtype(over.v))?;
    let wide = dtype.accumulator();
    let sum = sum_as(b, &over.with(b.convert(over.v, dtype)?), wide)?;
    let count = b.full_like(sum, Number::Int(over.count(b) as i64))?;
    one(b.convert(b.divide(sum, count)?, dtype)?)
}

fn is_nan(b: &Builder, v: ValueId) -> Result<ValueId> {
    b.compare(Comparison::Ne, v, v)
}

fn without_nan(b: &Builder, v: ValueId) -> Result<ValueId> {
    b.select(is_nan(b, v)?, b.full_like(v, Number::Int(0))?, v)
}

fn nanmean(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let over = Over::dims(c, b)?;
    let from = b.dtype(over.v);
    ensure!(
        from.is_float() || from.is_complex(),
        "nanmean(): expected input to have floating point or complex dtype but got {}",
        torch_name(from)
    );
    let dtype = c.optional_dtype("dtype")?.unwrap_or(from);
    let wide = dtype.accumulator();
    let present = b.unary(Unary::Not, is_nan(b, over.v)?)?;
    let count = sum_as(b, &over.with(b.convert(present, DType::I64)?), DType::I64)?;
    let sum = sum_as(b, &over.with(without_nan(b, over.v)?), wide)?;
    one(b.convert(b.divide(sum, b.convert(count, wide)?)?, dtype)?)
}

/// [`truth`] of all elements, which have to be flags.
fn truth_of_flags(c: &Call<'_>, b: &Builder, reducer: Reducer) -> Result<Outs> {
    ensure!(c.dtype_of("self")? == DType::Bool, "self.scalar_type() == at::kBool INTERNAL ASSERT FAILED");
    truth(b, &Over::everything(c, b)?, reducer)
}

/// `any` and `all`: bytes stay bytes, everything else becomes `bool`.
fn truth(b: &Builder, over: &Over, reducer: Reducer) -> Result<Outs> {
    let dtype = if b.dtype(over.v) == DType::U8 { DType::U8 } else { DType::Bool };
    let flags = over.with(b.convert(over.v, DType::Bool)?);
    one(b.convert(flags.reduce(b, reducer)?, dtype)?)
}

fn count_nonzero(b: &Builder, over: &Over) -> Result<Outs> {
    let zero = b.full_like(over.v, Number::Int(0))?;
    let counted = b.convert(b.compare(Comparison::Ne, over.v, zero)?, DType::I64)?;
    one(over.with(counted).reduce(b, Reducer::Add)?)
}

fn sum_to_size(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (v, size) = (c.tensor(b, "self")?, c.sizes("size")?);
    let shape = b.shape(v);
    let lead = shape.len().checked_sub(size.len());
    let fits = |lead: usize| size.iter().zip(&shape[lead..]).all(|(&s, &d)| s == d || s == 1);
    let Some(lead) = lead.filter(|&l| fits(l)) else {
        invalid!("size {{{size:?}}} is not expandable to size {{{shape:?}}}.")
    };
    let summed = (0..shape.len()).filter(|&d| d < lead || (size[d - lead] == 1 && shape[d] != 1)).collect();
    let over = Over { v, dims: summed, keep: false };
    let dtype = b.dtype(v);
    one(b.reshape(sum_as(b, &over, dtype)?, &size)?)
}

fn trace(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let v = c.tensor(b, "self")?;
    let shape = b.shape(v);
    ensure!(shape.len() == 2, "trace: expected a matrix, but got tensor with dim {}", shape.len());
    let dtype = b.dtype(v);
    let to = if dtype.is_int() || dtype == DType::Bool { DType::I64 } else { dtype };
    let (row, column) = (b.iota(DType::I32, &shape, 0)?, b.iota(DType::I32, &shape, 1)?);
    let on = b.compare(Comparison::Eq, row, column)?;
    let kept = b.select(on, v, b.full_like(v, Number::Int(0))?)?;
    one(sum_as(b, &Over { v: kept, dims: Dims::from_slice(&[0, 1]), keep: false }, to)?)
}

/// Dimension `name`, or `None` for all.
pub(super) fn optional_dim(c: &Call<'_>, name: &str, rank: usize) -> Result<Option<usize>> {
    c.optional_int(name)?.map(|d| support::dim(d, rank)).transpose()
}
