//! Softmax and its kin, shifted by the maximum, in the accumulation type.

use super::expr::formula;
use super::support::{dim, not_implemented};
use super::{Call, OpDef, Outs, err, ok, one};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::types::Dims;
use crate::{DType, Reducer, ensure};

pub(super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::_softmax(Tensor self, int dim, bool half_to_float) -> Tensor",
        |c, b| forward(c, b, "softmax", half_to_float(c, b)?, softmax),
        &[
            ok("f32[3,4], 1, false"),
            ok("f32[3,4,2], -2, false"),
            ok("f32[2,3]{-inf,-inf,-inf,1,2,-inf}, 1, false"),
            ok("bf16[3,8], 1, false"),
            ok("f64[], 0, false"),
            ok("f32[2,0], 1, false"),
            err("f32[2,3], 2, false", "Dimension out of range (expected to be in range of [-2, 1], but got 2)"),
            err("i64[2,3], 1, false", "\"softmax_lastdim_kernel_impl\" not implemented for 'Long'"),
        ],
    )
    .variants(&["_softmax.out"]),
    OpDef::new(
        "aten::softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
        |c, b| forward(c, b, "softmax", c.optional_dtype("dtype")?, softmax),
        &[
            ok("f32[3,4], 1"),
            ok("i64[3,4], 0, f32"),
            ok("bf16[3,4], -1, f32"),
            ok("f32[3,4], 1, bf16"),
            err("i64[2,3], 1", "\"softmax_lastdim_kernel_impl\" not implemented for 'Long'"),
        ],
    )
    .variants(&["softmax.int_out"]),
    OpDef::new(
        "aten::_log_softmax(Tensor self, int dim, bool half_to_float) -> Tensor",
        |c, b| forward(c, b, "log_softmax", half_to_float(c, b)?, log_softmax),
        &[
            ok("f32[3,4], 1, false"),
            ok("f32[3,4,2], 0, false"),
            ok("f32[2,3]{-inf,-inf,-inf,1,2,-inf}, 1, false"),
            ok("f16[3,8], 1, false"),
            ok("f32[], -1, false"),
            ok("f32[0,3], 1, false"),
            err("i64[2,3], 1, false", "\"log_softmax_lastdim_kernel_impl\" not implemented for 'Long'"),
        ],
    )
    .variants(&["_log_softmax.out"]),
    OpDef::new(
        "aten::log_softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
        |c, b| forward(c, b, "log_softmax", c.optional_dtype("dtype")?, log_softmax),
        &[ok("f32[3,4], 1"), ok("i64[3,4], 0, f64"), ok("bf16[3,4], -1, f32")],
    )
    .variants(&["log_softmax.int_out"]),
    OpDef::new(
        "aten::_safe_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
        |c, b| forward(c, b, "softmax", c.optional_dtype("dtype")?, safe_softmax),
        &[ok("f32[3,4], 1"), ok("f32[2,3]{-inf,-inf,-inf,1,2,-inf}, 1"), ok("bf16[3,4], 0, f32")],
    ),
    OpDef::new(
        "aten::_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor",
        |c, b| {
            backward(c, b, "softmax_backward_lastdim_kernel_impl", |b, grad, output, d| {
                let dot = over(b, b.reduce(b.multiply(grad, output)?, Reducer::Add, &[d])?, grad, d)?;
                formula(b, [grad, output, dot], |[g, y, s]| (g - s) * y)
            })
        },
        &[
            ok("f32[3,4], f32[3,4]{0..1}, 1, f32"),
            ok("bf16[3,4], bf16[3,4]{0..1}, 0, bf16"),
            ok("f32[], f32[], 0, f32"),
            ok("f32[3,0], f32[3,0], 1, f32"),
            err("i64[3,4], i64[3,4], 1, i64", "not implemented for 'Long'"),
        ],
    )
    .variants(&["_softmax_backward_data.out"]),
    OpDef::new(
        "aten::_log_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor",
        |c, b| {
            backward(c, b, "log_softmax_backward_lastdim_kernel_impl", |b, grad, output, d| {
                let sum = over(b, b.reduce(grad, Reducer::Add, &[d])?, grad, d)?;
                formula(b, [grad, output, sum], |[g, y, s]| g - y.exp() * s)
            })
        },
        &[
            ok("f32[3,4], f32[3,4]{-3..0}, 1, f32"),
            ok("f16[3,4], f16[3,4]{-3..0}, 0, f16"),
            ok("f32[], f32[], 0, f32"),
        ],
    )
    .variants(&["_log_softmax_backward_data.out"]),
];

/// Softmax along one dimension of a value in its accumulation type.
pub(super) type Along = fn(&Builder, ValueId, usize) -> Result<ValueId>;

/// A reduction of `like` along `d`, repeated along it.
pub(super) fn over(b: &Builder, v: ValueId, like: ValueId, d: usize) -> Result<ValueId> {
    super::normalization::back_over(b, v, like, &[d])
}

/// `x - max(x)` along `d`.
fn shifted(b: &Builder, x: ValueId, d: usize) -> Result<ValueId> {
    b.subtract(x, over(b, b.reduce(x, Reducer::Maximum, &[d])?, x, d)?)
}

/// `exp(x) / sum(exp(x))` along `d`.
pub(super) fn softmax(b: &Builder, x: ValueId, d: usize) -> Result<ValueId> {
    let e = b.unary(crate::Unary::Exponential, shifted(b, x, d)?)?;
    b.divide(e, over(b, b.reduce(e, Reducer::Add, &[d])?, x, d)?)
}

/// `log(softmax(x))` along `d`.
pub(super) fn log_softmax(b: &Builder, x: ValueId, d: usize) -> Result<ValueId> {
    let x = shifted(b, x, d)?;
    let sum = b.reduce(b.unary(crate::Unary::Exponential, x)?, Reducer::Add, &[d])?;
    b.subtract(x, over(b, b.unary(crate::Unary::Log, sum)?, x, d)?)
}

/// Softmax, but zero for rows of nothing but `-inf`.
pub(super) fn safe_softmax(b: &Builder, x: ValueId, d: usize) -> Result<ValueId> {
    let Exponentials { of_each, sum, .. } = exponentials(b, x, d)?;
    b.divide(of_each, over(b, sum, x, d)?)
}

/// `log(sum(exp(x)))` along `d`, but zero for rows of nothing but `-inf`.
pub(super) fn safe_log_sum_exp(b: &Builder, x: ValueId, d: usize) -> Result<ValueId> {
    let Exponentials { base, sum, .. } = exponentials(b, x, d)?;
    formula(b, [base, sum], |[base, sum]| base + sum.ln())
}

/// `exp(x - base)`, and what they sum up to; of rows of nothing but `-inf`, zeros and one.
struct Exponentials {
    base: ValueId,
    of_each: ValueId,
    sum: ValueId,
}

/// Such rows are told apart in `base` and `sum`, so that nothing of `x`'s size is compared or chosen.
fn exponentials(b: &Builder, x: ValueId, d: usize) -> Result<Exponentials> {
    let max = b.reduce(x, Reducer::Maximum, &[d])?;
    let unless_empty =
        |v, other: f64| formula(b, [max, v], |[max, v]| max.equals(f64::NEG_INFINITY).select(v.constant(other), v));
    let base = unless_empty(max, 0.0)?;
    let of_each = b.unary(crate::Unary::Exponential, b.subtract(x, over(b, base, x, d)?)?)?;
    let sum = unless_empty(b.reduce(of_each, Reducer::Add, &[d])?, 1.0)?;
    Ok(Exponentials { base, of_each, sum })
}

/// The type that `half_to_float` asks for.
fn half_to_float(c: &Call<'_>, b: &Builder) -> Result<Option<DType>> {
    if !c.flag("half_to_float")? {
        return Ok(None);
    }
    let dtype = b.dtype(c.tensor(b, "self")?);
    ensure!(dtype == DType::F16 || dtype == DType::BF16, "conversion is supported for Half type only");
    Ok(Some(DType::F32))
}

/// `v` with its dimension numbered `name`; a 0-d tensor counts as one of extent 1.
fn with_dim(c: &Call<'_>, b: &Builder, v: ValueId) -> Result<(ValueId, usize)> {
    let rank = b.rank(v);
    let d = dim(c.int("dim")?, rank)?;
    Ok((if rank == 0 { b.reshape(v, &[1])? } else { v }, d))
}

fn forward(c: &Call<'_>, b: &Builder, name: &str, dtype: Option<DType>, f: Along) -> Result<Outs> {
    let x = c.tensor(b, "self")?;
    let dtype = dtype.unwrap_or(b.dtype(x));
    let (v, d) = with_dim(c, b, x)?;
    if !dtype.is_float() {
        let last = if d + 1 == b.rank(v) { "lastdim_" } else { "" };
        return not_implemented(&format!("{name}_{last}kernel_impl"), dtype);
    }
    let y = f(b, b.convert(b.convert(v, dtype)?, dtype.accumulator())?, d)?;
    one(b.convert(b.reshape(y, &b.shape(x))?, dtype)?)
}

fn backward(
    c: &Call<'_>,
    b: &Builder,
    kernel: &str,
    f: impl FnOnce(&Builder, ValueId, ValueId, usize) -> Result<ValueId>,
) -> Result<Outs> {
    let (grad, output) = (c.tensor(b, "grad_output")?, c.tensor(b, "output")?);
    let shape = b.shape(grad);
    ensure!(shape == b.shape(output), "the gradient is {shape:?}, but the output {:?}", b.shape(output));
    let dtype = c.optional_dtype("input_dtype")?.unwrap_or(b.dtype(grad));
    if !b.dtype(grad).is_float() {
        return not_implemented(kernel, b.dtype(grad));
    }
    let wide = b.dtype(grad).accumulator();
    let ((g, d), (y, _)) = (with_dim(c, b, grad)?, with_dim(c, b, output)?);
    let grad_input = f(b, b.convert(g, wide)?, b.convert(y, wide)?, d)?;
    let dims: Dims = shape.iter().copied().collect();
    one(b.convert(b.reshape(grad_input, &dims)?, dtype)?)
}
