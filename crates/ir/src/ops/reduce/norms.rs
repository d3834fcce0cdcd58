//! Norms, distances and the logarithm of a sum of exponentials.

use super::super::complex_functions::exponential;
use super::super::expr::formula;
use super::super::support::{broadcast_to, common_shape, dim, promote_types, to_float, torch_name};
use super::super::{Call, OpDef, Outs, err, many, ok, one, outs};
use super::{Over, sum_as};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::literal::Number;
use crate::op::{Binary, Comparison, Reducer, Unary};
use crate::{DType, ensure, ensure_kernel, invalid};

pub(in super::super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, \
         ScalarType? dtype=None) -> Tensor",
        |c, b| {
            let (over, dtype) = (Over::dims(c, b)?, c.optional_dtype("dtype")?);
            check_dtype(b.dtype(over.v), dtype)?;
            one(vector_norm(b, &over, c.float("ord")?, dtype)?)
        },
        &[
            ok("f32[2,3]"),
            ok("f32[2,3], 1, [1], true"),
            ok("bf16[40], 2"),
            ok("f32[4], inf"),
            ok("f32[4], -inf"),
            ok("f32[4]{0,1,2}, 0"),
            ok("f32[4], 3"),
            ok("f32[4]{1..2}, -1.5"),
            ok("c64[3]"),
            ok("f32[], 2"),
            ok("f32[0], 2"),
            ok("f16[3], dtype=f32"),
            ok("f32[3]{1,nan,2}, inf"),
            err("i64[3]", "linalg.vector_norm: Expected a floating point or complex tensor as input. Got Long"),
            err("f32[0], inf", "linalg.vector_norm cannot compute the inf norm on an empty tensor"),
            err("f32[0], -1", "linalg.vector_norm cannot compute the -1 norm on an empty tensor"),
            err("f32[0,2], inf, [0]", "linalg.vector_norm cannot compute the inf norm on the dimension 0"),
        ],
    )
    .variants(&["linalg_vector_norm.out"]),
    OpDef::new(
        "aten::norm.Scalar(Tensor self, Scalar p=2) -> Tensor",
        |c, b| norm(c, b, &Over::everything(c, b)?),
        &[ok("f32[2,3]"), ok("f32[3], 1"), err("i64[3]", "norm(): input dtype should be either floating point or complex.")],
    )
    .variants(&["norm.Scalar_out"]),
    OpDef::new(
        "aten::norm.ScalarOpt_dim(Tensor self, Scalar? p, int[1] dim, bool keepdim=False) -> Tensor",
        |c, b| norm(c, b, &Over::dims(c, b)?),
        &[ok("f32[2,3], none, [1]"), ok("f32[2,3], 3, [0], true"), ok("f32[2,3], 2, []")],
    )
    .variants(&["norm.out"]),
    OpDef::new(
        "aten::norm.ScalarOpt_dim_dtype(Tensor self, Scalar? p, int[1] dim, bool keepdim, *, ScalarType dtype) -> Tensor",
        |c, b| norm(c, b, &Over::dims(c, b)?),
        &[ok("f16[2,3], 2, [0], false, dtype=f32")],
    )
    .variants(&["norm.dtype_out"]),
    OpDef::new(
        "aten::norm.ScalarOpt_dtype(Tensor self, Scalar? p, *, ScalarType dtype) -> Tensor",
        |c, b| norm(c, b, &Over::everything(c, b)?),
        &[ok("f16[2,3], 2, dtype=f32")],
    )
    .variants(&["norm.ScalarOpt_dtype_out"]),
    OpDef::new(
        "aten::dist(Tensor self, Tensor other, Scalar p=2) -> Tensor",
        dist,
        &[
            ok("f32[2], f32[2,1]"),
            ok("f32[3], f64[3], 1"),
            ok("f32[0], f32[0]"),
            err("f32[0], f32[0], inf", "cannot compute the inf norm on an empty tensor"),
            err("i64[2], i64[2]", "norm(): input dtype should be either floating point or complex."),
        ],
    )
    .variants(&["dist.out"]),
    OpDef::new(
        "aten::renorm(Tensor self, Scalar p, int dim, Scalar maxnorm) -> Tensor",
        renorm,
        &[
            ok("f32[4,3], 2, 0, 1.5"),
            ok("f64[2,3,4], 1, -1, 5"),
            ok("f32[2,3], inf, 1, 1.0"),
            ok("bf16[4,3], 2, 0, 1.5"),
            err("f32[2,3], 2, 0, -1.0", "renorm: expected maxnorm to be >= 0 but got -1"),
            err("f32[2,3], -2, 0, 1.0", "renorm: non-positive-norm not supported"),
            err("f32[3], 2, 0, 1.0", "renorm: input needs at least 2 dimensions, got 1 dimensions"),
            err("i64[2,3], 2, 0, 1.0", "Expected a floating point or complex tensor as input. Got Long"),
        ],
    )
    .variants(&["renorm_", "renorm.out"])
    .typed_outs(outs::typed),
    OpDef::new(
        "aten::_weight_norm_interface(Tensor v, Tensor g, int dim=0) -> (Tensor, Tensor)",
        weight_norm,
        &[
            ok("f32[2,3], f32[2,1]"),
            ok("f32[2,3,4], f32[1,1,4], 2"),
            ok("bf16[4,8], bf16[4,1]"),
            err("f32[2,3,4], f32[1,3,1], 1", "fused kernels can only be applied for first or last dim"),
        ],
    )
    .variants(&["_weight_norm_interface.out"]),
    OpDef::new(
        "aten::_weight_norm_interface_backward(Tensor grad_w, Tensor saved_v, Tensor saved_g, Tensor saved_norms, \
         int dim) -> (Tensor, Tensor)",
        weight_norm_backward,
        &[
            ok("f32[2,3], f32[2,3], f32[2,1], f32[2,1]{1..2}, 0"),
            ok("f64[2,3,4], f64[2,3,4], f64[1,1,4], f64[1,1,4]{1..2}, 2"),
            err("f32[2,3,4], f32[2,3,4], f32[1,3,1], f32[1,3,1], 1", "fused kernels can only be applied for first"),
        ],
    )
    .variants(&["_weight_norm_interface_backward.out"]),
    OpDef::new(
        "aten::logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor",
        logsumexp,
        &[
            ok("f32[2,3], [1]"),
            ok("bf16[2,3], [0,1], true"),
            ok("i64[3], [0]"),
            ok("f32[0], [0]"),
            ok("f32[2,2]{-inf,-inf,inf,1}, [1]"),
            ok("f32[], [0]"),
            ok("c64[2,3], [1]"),
            ok("c128[3], [0], true"),
        ],
    )
    .variants(&["logsumexp.out"]),
];

fn check_dtype(from: DType, to: Option<DType>) -> Result<()> {
    ensure_kernel!(
        from.is_float() || from.is_complex(),
        "linalg.vector_norm: Expected a floating point or complex tensor as input. Got {}",
        torch_name(from)
    );
    let Some(to) = to else { return Ok(()) };
    ensure!(
        from.is_complex() == to.is_complex(),
        "linalg.vector_norm: dtype should be {0} for {0} inputs, but got {1}",
        if from.is_complex() { "complex" } else { "real" },
        torch_name(to)
    );
    ensure!(
        promote_types(from, to)? == to,
        "linalg.vector_norm: the dtype of the input ({}) should be convertible without narrowing to the specified dtype \
         ({})",
        torch_name(from),
        torch_name(to)
    );
    Ok(())
}

/// The `ord`-norm of `over.v`, computed in `dtype` (its own type if `None`) and at least in `f32`.
fn vector_norm(b: &Builder, over: &Over, ord: f64, dtype: Option<DType>) -> Result<ValueId> {
    let shape = b.shape(over.v);
    if ord < 0.0 || ord == f64::INFINITY {
        has_elements(&shape, &over.dims, ord)?;
    }
    let dtype = dtype.unwrap_or(b.dtype(over.v));
    let v = b.convert(b.convert(over.v, dtype)?, dtype.accumulator())?;
    let size = over.with(b.unary(Unary::Abs, v)?);
    let norm = if ord == f64::INFINITY {
        size.reduce(b, Reducer::Maximum)?
    } else if ord == f64::NEG_INFINITY {
        size.reduce(b, Reducer::Minimum)?
    } else {
        finite_norm(b, &size, ord)?
    };
    b.convert(norm, dtype.real())
}

/// [`vector_norm`] of all of `v`.
pub(in crate::ops) fn norm_of_all(b: &Builder, v: ValueId, ord: f64, dtype: Option<DType>) -> Result<ValueId> {
    check_dtype(b.dtype(v), dtype)?;
    vector_norm(b, &Over { v, dims: (0..b.rank(v)).collect(), keep: false }, ord, dtype)
}

/// Refuses a norm without identity where there is nothing to take it of.
fn has_elements(shape: &[usize], dims: &[usize], ord: f64) -> Result<()> {
    let Some(d) = dims.iter().find(|&&d| shape[d] == 0) else { return Ok(()) };
    let where_ = match dims.len() == shape.len() {
        true => "an empty tensor because".to_owned(),
        false => format!("the dimension {d} because this dimension is empty and"),
    };
    invalid!("linalg.vector_norm cannot compute the {ord} norm on {where_} the operation does not have an identity")
}

fn finite_norm(b: &Builder, size: &Over, ord: f64) -> Result<ValueId> {
    let dtype = b.dtype(size.v);
    let sum = |v| sum_as(b, &size.with(v), dtype);
    if ord == 0.0 {
        let zero = b.full_like(size.v, Number::Int(0))?;
        return sum(b.convert(b.compare(Comparison::Ne, size.v, zero)?, dtype)?);
    }
    if ord == 1.0 {
        return sum(size.v);
    }
    if ord == 2.0 {
        return b.unary(Unary::Sqrt, sum(b.multiply(size.v, size.v)?)?);
    }
    let power = |v: ValueId, p: f64| b.binary(Binary::Power, v, b.full_like(v, Number::Float(p))?);
    power(sum(power(size.v, ord)?)?, 1.0 / ord)
}

fn norm(c: &Call<'_>, b: &Builder, over: &Over) -> Result<Outs> {
    let given = c.schema.position("dtype").is_some();
    let dtype = if given { c.optional_dtype("dtype")? } else { None };
    one(norm_of(b, over, c.optional_float("p")?.unwrap_or(2.0), dtype)?)
}

fn norm_of(b: &Builder, over: &Over, p: f64, dtype: Option<DType>) -> Result<ValueId> {
    let from = b.dtype(over.v);
    ensure!(
        from.is_float() || from.is_complex(),
        "norm(): input dtype should be either floating point or complex. Got {} instead.",
        torch_name(from)
    );
    vector_norm(b, over, p, dtype)
}

fn dist(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (x, y) = (c.tensor(b, "self")?, c.tensor(b, "other")?);
    let dtype = promote_types(b.dtype(x), b.dtype(y))?;
    let shape = common_shape(b, &[x.into(), y.into()])?;
    let whole = dtype.is_int() || dtype == DType::Bool;
    let wide = |v| broadcast_to(b, b.convert(v, if whole { DType::F32 } else { dtype })?, &shape);
    let apart = b.subtract(wide(x)?, wide(y)?)?;
    ensure!(
        !whole,
        "norm(): input dtype should be either floating point or complex. Got {} instead.",
        torch_name(dtype)
    );
    let over = Over { v: apart, dims: (0..shape.len()).collect(), keep: false };
    one(norm_of(b, &over, c.float("p")?, None)?)
}

/// `v` with each slice of `dim` whose `p`-norm is above `most` scaled down to it.
pub(in crate::ops) fn shortened(b: &Builder, v: ValueId, dim: usize, p: f64, most: f64) -> Result<ValueId> {
    let dtype = b.dtype(v);
    check_dtype(dtype, None)?;
    let wide = b.convert(v, dtype.accumulator())?;
    let over = Over { v: wide, dims: (0..b.rank(v)).filter(|&d| d != dim).collect(), keep: false };
    let norm = vector_norm(b, &over, p, None)?;
    let factor = formula(b, [norm], |[n]| n.greater(most).select(most / (n + 1e-7), 1.0))?;
    let factor = b.convert(over.spread(b, factor)?, b.dtype(wide))?;
    b.convert(b.multiply(wide, factor)?, dtype)
}

fn renorm(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (v, p, most) = (c.tensor(b, "self")?, c.float("p")?, c.float("maxnorm")?);
    ensure!(p > 0.0, "renorm: non-positive-norm not supported");
    ensure!(most >= 0.0, "renorm: expected maxnorm to be >= 0 but got {most}");
    let rank = b.rank(v);
    ensure!(rank > 1, "renorm: input needs at least 2 dimensions, got {rank} dimensions");
    one(shortened(b, v, dim(c.int("dim")?, rank)?, p, most)?)
}

/// What a weight norm reduces: all dimensions but `dim`, which is the first or the last.
fn all_but_dim(c: &Call<'_>, b: &Builder, v: ValueId) -> Result<Over> {
    let rank = b.rank(v);
    let kept = dim(c.int("dim")?, rank)?;
    ensure!(kept == 0 || kept + 1 == rank, "fused kernels can only be applied for first or last dim");
    Ok(Over { v, dims: (0..rank).filter(|&d| d != kept).collect(), keep: true })
}

/// `g * v / |v|`, and the lengths.
fn weight_norm(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (v, g) = (c.tensor(b, "v")?, c.tensor(b, "g")?);
    let (dtype, wide) = (b.dtype(v), b.dtype(v).accumulator());
    let over = all_but_dim(c, b, b.convert(v, wide)?)?;
    let norm = vector_norm(b, &over, 2.0, None)?;
    let factor = b.divide(b.convert(g, wide)?, norm)?;
    let w = b.multiply(over.v, broadcast_to(b, factor, &b.shape(v))?)?;
    many([b.convert(w, dtype)?, norm])
}

/// The gradients of `v` and `g` from that of `w = g * v / |v|`.
fn weight_norm_backward(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (v, g) = (c.tensor(b, "saved_v")?, c.tensor(b, "saved_g")?);
    let (shape, wide) = (b.shape(v), b.dtype(v).accumulator());
    let over = all_but_dim(c, b, b.convert(v, wide)?)?;
    let grad = b.convert(c.tensor(b, "grad_w")?, wide)?;
    let along = over.with(b.multiply(grad, over.v)?).reduce(b, Reducer::Add)?;
    let (norm, scale) = (b.convert(c.tensor(b, "saved_norms")?, wide)?, b.convert(g, wide)?);
    let grad_g = b.divide(along, norm)?;
    let pull = formula(b, [along, norm], |[a, n]| a / (n * n * n))?;
    let each = |x| broadcast_to(b, x, &shape);
    let operands = [grad, over.v, each(scale)?, each(norm)?, each(pull)?];
    let grad_v = formula(b, operands, |[d, v, g, n, pull]| g * (d / n - v * pull))?;
    many([b.convert(grad_v, b.dtype(v))?, b.convert(grad_g, b.dtype(g))?])
}

/// The greatest element, or real part, goes out of the exponentials; an infinite one stays in.
fn logsumexp(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let over = Over::dims(c, b)?;
    let dtype = to_float(c, b.dtype(over.v));
    let wide = over.with(b.convert(b.convert(over.v, dtype)?, dtype.accumulator())?);
    let real = if dtype.is_complex() { b.unary(Unary::Real, wide.v)? } else { wide.v };
    let max = b.reduce(real, Reducer::Maximum, &wide.dims)?;
    let infinite =
        b.compare(Comparison::Eq, b.unary(Unary::Abs, max)?, b.full_like(max, Number::Float(f64::INFINITY))?)?;
    let max = b.select(infinite, b.full_like(max, Number::Int(0))?, max)?;
    let max = b.convert(max, b.dtype(wide.v))?;
    let shifted = b.subtract(wide.v, wide.spread(b, max)?)?;
    let exponentials = formula(b, [shifted], |[x]| exponential(x))?;
    let sum = b.reduce(exponentials, Reducer::Add, &wide.dims)?;
    let log = b.add(b.unary(Unary::Log, sum)?, max)?;
    one(b.convert(wide.kept(b, log)?, dtype)?)
}
