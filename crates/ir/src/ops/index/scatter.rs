//! `gather` and the `scatter` family: one position per element along a dimension.

use super::super::support::{broadcast_shapes, broadcast_to, dim, torch_name};
use super::super::{Call, OpDef, Outs, err, ok, one};
use super::{put_along, take_along};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::literal::Number;
use crate::op::{Binary, Combiner, Comparison};
use crate::types::{Dims, Shape};
use crate::{DType, ensure, invalid, unsupported};

pub(in super::super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor",
        |c, b| {
            let p = Place::new(c, b)?;
            one(b.reshape(take_along(b, p.v, p.dim, p.index)?, &p.index_shape)?)
        },
        &[
            ok("f32[4,5], 1, i64[4,2]{0..5}"),
            ok("f32[4,5], 0, i64[2,3]{0..4}"),
            ok("bf16[4,5,2], -2, i64[4,1,2]{0..5}"),
            ok("f32[], 0, i64[]{0..1}"),
            ok("f32[3], 0, i64[0]{0..3}"),
            ok("f32[3], 0, u8[0]"),
            err("f32[4,5], 1, i64[4]{0..4}", "Index tensor must have the same number of dimensions as input tensor"),
            err("f32[2,5], 1, i64[4,2]{0..2}", "Size does not match at dimension 0 expected index [4, 2] to be"),
            err("f32[4], 0, f32[4]", "gather(): Expected dtype int32/int64 for index"),
        ],
    )
    .variants(&["gather.out"]),
    OpDef::new(
        "aten::gather_backward(Tensor grad, Tensor self, int dim, Tensor index, bool sparse_grad) -> Tensor",
        |c, b| {
            let p = Place::new(c, b)?;
            let grad = c.tensor(b, "grad")?;
            let zeros = b.full(Number::Int(0), b.dtype(grad), &b.shape(p.v))?;
            let grad = b.reshape(grad, &b.shape(p.index))?;
            p.finish(b, put_along(b, zeros, p.dim, p.index, grad, Combiner::Add)?)
        },
        &[ok("f32[4,2], f32[4,5], 1, i64[4,2]{0..5}, false")],
    ),
    OpDef::new(
        "aten::take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor",
        take_along_dim,
        &[ok("f32[4,5], i64[1,2]{0..5}, 1"), ok("f32[1,5], i64[4,2]{0..5}, -1"), ok("f32[2,3], i64[4]{0..6}")],
    )
    .variants(&["take_along_dim.out"]),
    OpDef::new(
        "aten::scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor",
        |c, b| scatter_src(c, b, Combiner::Set),
        &[
            ok("f32[4,5], 1, i64[4,1]{0..5}, f32[4,1]"),
            ok("f32[6,3], 0, i64[1,2]{0..6}, f32[2,2]"),
            ok("f32[], 0, i64[]{0..1}, f32[]"),
            ok("f32[3], 0, i64[0]{0..3}, f32[2]"),
            err("f32[4], 0, i64[2]{0..4}, i64[2]", "scatter(): Expected self.dtype to be equal to src.dtype"),
            err("f32[4], 0, i64[2]{0..4}, f32[1]", "Expected index [2] to be no larger than src [1]"),
        ],
    )
    .variants(&["scatter_.src", "scatter.src_out"]),
    OpDef::new(
        "aten::scatter.value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor",
        |c, b| scatter_value(c, b, Combiner::Set),
        &[ok("f32[4,5], 1, i64[4,1]{0..5}, -1.0"), ok("i64[4,5], 0, i64[3,2]{0..4}, 7"), ok("f32[2,3], 1, i64[0]{0..3}, 1")],
    )
    .variants(&["scatter_.value", "scatter.value_out"]),
    OpDef::new(
        "aten::scatter.reduce(Tensor self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor",
        |c, b| scatter_src(c, b, combiner(c)?),
        &[
            ok("f32[4,5], 1, i64[4,3]{0..5}, f32[4,3], reduce='add'"),
            ok("f32[4,5], 0, i64[2,5]{0..4}, f32[2,5], reduce='multiply'"),
            err("f32[4], 0, i64[2]{0..4}, f32[2], reduce='max'", "reduce argument must be either add or multiply"),
        ],
    )
    .variants(&["scatter_.reduce", "scatter.reduce_out"]),
    OpDef::new(
        "aten::scatter.value_reduce(Tensor self, int dim, Tensor index, Scalar value, *, str reduce) -> Tensor",
        |c, b| scatter_value(c, b, combiner(c)?),
        &[ok("f32[4,5], 1, i64[4,3]{0..5}, 2.0, reduce='add'"), ok("f32[4], 0, i64[9]{0..4}, 2, reduce='multiply'")],
    )
    .variants(&["scatter_.value_reduce", "scatter.value_reduce_out"]),
    OpDef::new(
        "aten::scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor",
        |c, b| scatter_src(c, b, Combiner::Add),
        &[
            ok("f32[4,5], 1, i64[4,9]{0..5}, f32[4,9]"),
            ok("bf16[4,5], 0, i64[7,2]{0..4}, bf16[7,3]"),
            ok("i32[4,5], 1, i64[4,1]{0..5}, i32[4,1]"),
        ],
    )
    .variants(&["scatter_add_", "scatter_add.out"]),
    OpDef::new(
        "aten::scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True) \
         -> Tensor",
        |c, b| {
            let p = Place::new(c, b)?;
            let src = p.source(c, b)?;
            p.finish(b, reduce_into(c, b, p.v, src, |v, x, how| put_along(b, v, p.dim, p.index, x, how))?)
        },
        &[
            ok("f32[4,5], 1, i64[4,7]{0..5}, f32[4,7], 'sum'"),
            ok("f32[4,5], 0, i64[7,5]{0..4}, f32[7,5], 'prod', include_self=false"),
            ok("f32[4,5], 1, i64[4,7]{0..5}, f32[4,7], 'mean'"),
            ok("i64[4,5], 1, i64[4,7]{0..5}, i64[4,7], 'mean', include_self=false"),
            ok("f32[4,5], 1, i64[4,7]{0..5}, f32[4,7], 'amax', include_self=false"),
            ok("f32[4,5], 0, i64[3,5]{0..4}, f32[3,5], 'amin'"),
            err("f32[4], 0, i64[2]{0..4}, f32[2], 'foo'", "reduce argument must be either sum, prod, mean, amax or amin"),
        ],
    )
    .variants(&["scatter_reduce_.two", "scatter_reduce.two_out"]),
    OpDef::new(
        "aten::value_selecting_reduction_backward(Tensor grad, int dim, Tensor indices, SymInt[] sizes, bool keepdim) \
         -> Tensor",
        value_selecting_reduction_backward,
        &[ok("f32[4], 1, i64[4]{0..5}, [4,5], false"), ok("f32[1,5], 0, i64[1,5]{0..4}, [4,5], true")],
    ),
];

/// `self`, `dim` and `index` of a call, 0-d tensors made 1-d.
struct Place {
    v: ValueId,
    dim: usize,
    index: ValueId,
    shape: Shape,
    index_shape: Shape,
}

impl Place {
    fn new(c: &Call<'_>, b: &Builder) -> Result<Place> {
        let (v, index) = (c.tensor(b, "self")?, c.tensor(b, "index")?);
        let (shape, index_shape) = (b.shape(v), b.shape(index));
        let gathers = c.schema.name.starts_with("aten::gather");
        let name = if gathers { "gather" } else { "scatter" };
        let integers = matches!(b.dtype(index), DType::I32 | DType::I64) || index_shape.contains(&0);
        ensure!(integers, "{name}(): Expected dtype int32/int64 for index");
        let d = dim(c.int("dim")?, shape.len())?;
        let p = Place { v: at_least_1d(b, v)?, dim: d, index: at_least_1d(b, index)?, shape, index_shape };
        p.check(b)?;
        Ok(p)
    }

    fn check(&self, b: &Builder) -> Result<()> {
        let (shape, at) = (b.shape(self.v), b.shape(self.index));
        if at.contains(&0) {
            return Ok(());
        }
        ensure!(shape.len() == at.len(), "Index tensor must have the same number of dimensions as input tensor");
        for i in (0..at.len()).filter(|&i| i != self.dim) {
            ensure!(
                at[i] <= shape[i],
                "Size does not match at dimension {i} expected index {at:?} to be no larger than self {shape:?} apart \
                 from dimension {}",
                self.dim
            );
        }
        Ok(())
    }

    /// The part of `src` that `index` covers.
    fn source(&self, c: &Call<'_>, b: &Builder) -> Result<ValueId> {
        let src = c.tensor(b, "src")?;
        let (to, from) = (b.dtype(self.v), b.dtype(src));
        ensure!(to == from, "scatter(): Expected self.dtype to be equal to src.dtype");
        let (src, at) = (at_least_1d(b, src)?, b.shape(self.index));
        if at.contains(&0) {
            return b.full(Number::Int(0), to, &at);
        }
        let given = b.shape(src);
        let fits = given.len() == at.len() && at.iter().zip(&given).all(|(a, g)| a <= g);
        ensure!(fits, "Expected index {at:?} to be no larger than src {given:?}");
        let (zeros, ones): (Dims, Dims) = at.iter().map(|_| (0, 1)).unzip();
        b.slice(src, &zeros, &at, &ones)
    }

    fn finish(&self, b: &Builder, v: ValueId) -> Result<Outs> {
        one(b.reshape(v, &self.shape)?)
    }
}

fn at_least_1d(b: &Builder, v: ValueId) -> Result<ValueId> {
    if b.rank(v) == 0 { b.reshape(v, &[1]) } else { Ok(v) }
}

fn combiner(c: &Call<'_>) -> Result<Combiner> {
    match c.string("reduce")? {
        Some("add") => Ok(Combiner::Add),
        Some("multiply") => Ok(Combiner::Multiply),
        _ => invalid!("reduce argument must be either add or multiply."),
    }
}

fn scatter_src(c: &Call<'_>, b: &Builder, combiner: Combiner) -> Result<Outs> {
    let p = Place::new(c, b)?;
    let src = p.source(c, b)?;
    p.finish(b, put_along(b, p.v, p.dim, p.index, src, combiner)?)
}

fn scatter_value(c: &Call<'_>, b: &Builder, combiner: Combiner) -> Result<Outs> {
    let p = Place::new(c, b)?;
    let number = c.scalar("value")?;
    c.require_fit(&number, b.dtype(p.v))?;
    let value = c.scalar_value(b, &number, b.dtype(p.v))?;
    let value = broadcast_to(b, value, &b.shape(p.index))?;
    p.finish(b, put_along(b, p.v, p.dim, p.index, value, combiner)?)
}

fn take_along_dim(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (v, index) = (c.tensor(b, "self")?, c.tensor(b, "indices")?);
    ensure!(
        matches!(b.dtype(index), DType::I64 | DType::I32),
        "torch.take_along_dim(): dtype of indices should be Long but got {}",
        torch_name(b.dtype(index))
    );
    let Some(at) = c.optional_int("dim")? else {
        let (n, m) = (b.ty(v)?.numel(), b.ty(index)?.numel());
        return one(take_along(b, b.reshape(v, &[n])?, 0, b.reshape(index, &[m])?)?);
    };
    let (mut from, mut at_shape) = (b.shape(v), b.shape(index));
    ensure!(
        from.len() == at_shape.len(),
        "torch.take_along_dim(): input and indices should have the same number of dimensions, but got {} dimensions for \
         input, and {} dimensions for indices",
        from.len(),
        at_shape.len()
    );
    let d = dim(at, from.len())?;
    if from.is_empty() {
        return one(v);
    }
    let (extent, count) = (from[d], at_shape[d]);
    (from[d], at_shape[d]) = (1, 1);
    let common = broadcast_shapes(&[from.clone(), at_shape.clone()])?;
    (from, at_shape) = (common.clone(), common);
    (from[d], at_shape[d]) = (extent, count);
    one(take_along(b, broadcast_to(b, v, &from)?, d, broadcast_to(b, index, &at_shape)?)?)
}

/// Folds `src` into `v` as `reduce` says, by `put`, which combines values into `v` at the call's places.
pub(super) fn reduce_into(
    c: &Call<'_>,
    b: &Builder,
    v: ValueId,
    src: ValueId,
    put: impl Fn(ValueId, ValueId, Combiner) -> Result<ValueId>,
) -> Result<ValueId> {
    let reduce = c.string("reduce")?.unwrap_or_default();
    let (dtype, include_self) = (b.dtype(v), c.flag("include_self")?);
    let (how, identity) = match reduce {
        "sum" | "mean" => (Combiner::Add, Number::Int(0)),
        "prod" => (Combiner::Multiply, Number::Int(1)),
        "amax" | "max" => (Combiner::Maximum, Number::least(dtype)),
        "amin" | "min" => (Combiner::Minimum, Number::greatest(dtype)),
        other => invalid!("reduce argument must be either sum, prod, mean, amax or amin, got {other}"),
    };
    if dtype.is_complex() && matches!(how, Combiner::Maximum | Combiner::Minimum) {
        invalid!("{reduce} is not defined on complex numbers");
    }
    let start = if include_self { v } else { put(v, b.full_like(src, identity)?, Combiner::Set)? };
    if reduce != "mean" {
        return put(start, src, how);
    }
    // Sum and count in the accumulation type, so that the quotient is rounded once.
    if dtype == DType::Bool {
        unsupported!("scatter_reduce with mean of bool has no lowering");
    }
    let wide = dtype.accumulator();
    let sum = put(b.convert(start, wide)?, b.convert(src, wide)?, Combiner::Add)?;
    let ones = b.full(Number::Int(1), wide, &b.shape(src))?;
    let count = put(b.full_like(sum, Number::Int(i64::from(include_self)))?, ones, Combiner::Add)?;
    let one = b.full_like(count, Number::Int(1))?;
    let empty = b.compare(Comparison::Eq, count, b.full_like(count, Number::Int(0))?)?;
    let count = b.select(empty, one, count)?;
    let mean = if dtype.is_int() { floor_divide(b, sum, count)? } else { b.divide(sum, count)? };
    b.convert(mean, dtype)
}

/// Integer quotient towards minus infinity.
fn floor_divide(b: &Builder, x: ValueId, y: ValueId) -> Result<ValueId> {
    let (quotient, rest) = (b.divide(x, y)?, b.binary(Binary::Remainder, x, y)?);
    let zero = b.full_like(x, Number::Int(0))?;
    let below = b.compare(Comparison::Lt, rest, zero)?;
    b.select(below, b.subtract(quotient, b.full_like(x, Number::Int(1))?)?, quotient)
}

fn value_selecting_reduction_backward(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (mut grad, mut index) = (c.tensor(b, "grad")?, c.tensor(b, "indices")?);
    let sizes = c.sizes("sizes")?;
    let zeros = b.full(Number::Int(0), b.dtype(grad), &sizes)?;
    if sizes.is_empty() {
        return one(b.reshape(grad, &[])?);
    }
    let d = dim(c.int("dim")?, sizes.len())?;
    if !c.flag("keepdim")? {
        grad = super::super::support::unsqueeze(b, grad, &[d])?;
        index = super::super::support::unsqueeze(b, index, &[d])?;
    }
    one(put_along(b, zeros, d, index, grad, Combiner::Add)?)
}
