//! Choosing between values: `where`, `clamp`, `masked_fill`.

use super::expr::Expr;
use super::support::{
    Operand, align, broadcast_shapes, broadcast_to, elementwise, not_implemented, pair, result_type, torch_name,
};
use super::{Call, Manner, OpDef, Outs, Sample, err, ok, one, outs};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::{DType, ensure, ensure_kernel};
use std::cmp::Ordering;

pub(super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::where.self(Tensor condition, Tensor self, Tensor other) -> Tensor",
        where_op,
        &[
            ok("bool[3,4], f32[4], f32[3,1]"),
            ok("bool[4], i64[4], f32[]"),
            ok("bool[], bf16[4], f32[4]"),
            ok("u8[4]{0..2}, f32[4], f32[4]"),
            ok("bool[2,0], f32[1], f32[]"),
            err(
                "f32[2], f32[2], f32[2]",
                "where expected condition to be a boolean tensor, but got a tensor with dtype Float",
            ),
        ],
    )
    .variants(&["where.self_out"])
    .called(Manner::Choice),
    OpDef::new(
        "aten::where.ScalarOther(Tensor condition, Tensor self, Scalar other) -> Tensor",
        where_op,
        &[ok("bool[3,4], f32[4], -inf"), ok("bool[4], i64[4], 0.5"), ok("bool[4], bf16[4], 0")],
    )
    .called(Manner::Choice),
    OpDef::new(
        "aten::where.ScalarSelf(Tensor condition, Scalar self, Tensor other) -> Tensor",
        where_op,
        &[ok("bool[3,4], 2, f32[4]"), ok("bool[4], 1.5, i64[4]")],
    )
    .called(Manner::Choice),
    OpDef::new(
        "aten::where.Scalar(Tensor condition, Scalar self, Scalar other) -> Tensor",
        where_op,
        &[ok("bool[3,4], 2, 3"), ok("bool[4], 1.5, 0"), ok("bool[4], true, false")],
    )
    .called(Manner::Choice),
    OpDef::new("aten::clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor", clamp_op, CLAMP_NUMBER)
        .variants(&["clamp_", "clamp.out"])
        .typed_outs(outs::iterated),
    OpDef::new("aten::clip(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor", clamp_op, CLAMP_NUMBER)
        .variants(&["clip_", "clip.out"])
        .typed_outs(outs::iterated),
    OpDef::new("aten::clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor", clamp_op, CLAMP_TENSOR)
        .variants(&["clamp_.Tensor", "clamp.Tensor_out"]),
    OpDef::new("aten::clip.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor", clamp_op, CLAMP_TENSOR)
        .variants(&["clip_.Tensor", "clip.Tensor_out"]),
    OpDef::new(
        "aten::clamp_min(Tensor self, Scalar min) -> Tensor",
        |c, b| one(clamp(c, b, c.operand(b, "self")?, Some(c.operand(b, "min")?), None)?),
        &[ok("f32[9], 0"), ok("f32[3]{nan,inf,-inf}, 0.5"), ok("i64[9], 0.5"), ok("bf16[9], 0.1")],
    )
    .variants(&["clamp_min_", "clamp_min.out"])
    .typed_outs(outs::iterated),
    OpDef::new(
        "aten::clamp_min.Tensor(Tensor self, Tensor min) -> Tensor",
        |c, b| one(clamp(c, b, c.operand(b, "self")?, Some(c.operand(b, "min")?), None)?),
        &[ok("f32[3,4], f32[4]"), ok("i64[9], f32[]")],
    )
    .variants(&["clamp_min_.Tensor", "clamp_min.Tensor_out"]),
    OpDef::new(
        "aten::clamp_max(Tensor self, Scalar max) -> Tensor",
        |c, b| one(clamp(c, b, c.operand(b, "self")?, None, Some(c.operand(b, "max")?))?),
        &[ok("f32[9], 0"), ok("f32[3]{nan,inf,-inf}, 0.5"), ok("i64[9], 2")],
    )
    .variants(&["clamp_max_", "clamp_max.out"])
    .typed_outs(outs::iterated),
    OpDef::new(
        "aten::clamp_max.Tensor(Tensor self, Tensor max) -> Tensor",
        |c, b| one(clamp(c, b, c.operand(b, "self")?, None, Some(c.operand(b, "max")?))?),
        &[ok("f32[3,4], f32[4]"), ok("i64[9], i32[9]")],
    )
    .variants(&["clamp_max_.Tensor", "clamp_max.Tensor_out"]),
    OpDef::new(
        "aten::masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor",
        masked_fill,
        &[
            ok("f32[3,4], bool[4], -inf"),
            ok("f32[4], bool[3,1], 2"),
            ok("i64[4], bool[4], 1.5"),
            ok("bf16[4], bool[], 0.1"),
            err("f32[4], f32[4], 0", "masked_fill_ only supports boolean masks"),
            err("i64[4], bool[4], 1j", "value cannot be converted to type int64_t without overflow"),
        ],
    )
    .variants(&["masked_fill_.Scalar", "masked_fill.Scalar_out"]),
    OpDef::new(
        "aten::masked_fill.Tensor(Tensor self, Tensor mask, Tensor value) -> Tensor",
        masked_fill,
        &[
            ok("f32[3,4], bool[4], f64[]"),
            ok("i64[4], bool[4], f32[]{1.5}"),
            err(
                "f32[2], bool[2], f32[2]",
                "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with 1 dimension(s).",
            ),
        ],
    )
    .variants(&["masked_fill_.Tensor", "masked_fill.Tensor_out"]),
];

const CLAMP_NUMBER: &[Sample] = &[
    ok("f32[3,4], -1, 1"),
    ok("f32[4]{nan,inf,-inf,0}, 0.5"),
    ok("f32[9], max=0"),
    ok("f32[9], 1, -1"),
    ok("f32[2]{-0.0,0}, 0, 1"),
    ok("f32[2]{-0.0,0}, -1, 0"),
    ok("f32[2]{-0.0,0}, -0.0, -0.0"),
    ok("f32[3], nan, 1"),
    ok("i64[9], 0.5, 2"),
    ok("bf16[9], 0.1, 1"),
    ok("bool[4], 0, 1"),
    err("f32[2]", "torch.clamp: At least one of 'min' or 'max' must not be None"),
    err("f32[2], max=1e300", "value cannot be converted to type float without overflow"),
    err("c64[2], 0", "clamp is not supported for complex types"),
];
const CLAMP_TENSOR: &[Sample] = &[
    ok("f32[3,4], f32[4], f32[3,1]"),
    ok("f32[4]{nan,0,1,2}, f32[4]{0,nan,2,1}, f32[4]{1,1,nan,0}"),
    ok("i64[9], f32[]"),
    ok("f32[9], max=f64[]"),
    ok("bool[4], bool[4]"),
    err("f32[2]", "torch.clamp: At least one of 'min' or 'max' must not be None"),
];

fn where_op(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let condition = c.tensor(b, "condition")?;
    let dtype = b.dtype(condition);
    ensure!(
        matches!(dtype, DType::Bool | DType::U8),
        "where expected condition to be a boolean tensor, but got a tensor with dtype {}",
        super::support::torch_name(dtype)
    );
    let condition = b.convert(condition, DType::Bool)?;
    let (on_true, on_false, _) = pair(c, b, c.operand(b, "self")?, c.operand(b, "other")?)?;
    one(select(b, condition, on_true, on_false)?)
}

/// `select` with its operands broadcast to their common shape.
pub(super) fn select(b: &Builder, condition: ValueId, on_true: ValueId, on_false: ValueId) -> Result<ValueId> {
    let shape = broadcast_shapes(&[b.shape(condition), b.shape(on_true), b.shape(on_false)])?;
    let wide = |v| broadcast_to(b, v, &shape);
    b.select(wide(condition)?, wide(on_true)?, wide(on_false)?)
}

fn clamp_op(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let bound = |name| if c.has(name) { c.operand(b, name).map(Some) } else { Ok(None) };
    one(clamp(c, b, c.operand(b, "self")?, bound("min")?, bound("max")?)?)
}

/// `min(max(x, low), high)`; NaN anywhere wins, and `x` where it equals a bound that is a number: its zero keeps its sign.
/// Of a zero and a bounding tensor's zero, PyTorch takes the one or the other by the tensor's length.
pub(super) fn clamp(
    c: &Call<'_>,
    b: &Builder,
    x: Operand,
    low: Option<Operand>,
    high: Option<Operand>,
) -> Result<ValueId> {
    let operands: Vec<Operand> = [Some(x.clone()), low.clone(), high.clone()].into_iter().flatten().collect();
    let dtype = result_type(c, b, &operands)?;
    ensure_kernel!(!dtype.is_complex(), "clamp is not supported for complex types");
    let scalar_bound = operands[1..].iter().any(|o| matches!(o, Operand::Scalar(_)));
    if dtype == DType::Bool && scalar_bound {
        return not_implemented("clamp", dtype);
    }
    let keeps_sign = scalar_bound && dtype.is_float();
    let low = representable(c, low, dtype, Ordering::Less, "min")?;
    let high = representable(c, high, dtype, Ordering::Greater, "max")?;
    match (low, high) {
        (Some(low), Some(high)) => elementwise(c, b, [x, low, high], dtype, |[x, low, high]| {
            at_most(at_least(x, low, keeps_sign), high, keeps_sign)
        }),
        (Some(low), None) => elementwise(c, b, [x, low], dtype, |[x, low]| at_least(x, low, keeps_sign)),
        (None, Some(high)) => elementwise(c, b, [x, high], dtype, |[x, high]| at_most(x, high, keeps_sign)),
        (None, None) if operands.len() > 1 => elementwise(c, b, [x], dtype, |[x]| x),
        (None, None) => crate::invalid!("torch.clamp: At least one of 'min' or 'max' must not be None"),
    }
}

/// A bound; `None` for a number on the `free` side of all that the integers of `dtype` can be, where it bounds nothing. Floats
/// have to be in range.
fn representable(
    c: &Call<'_>,
    bound: Option<Operand>,
    dtype: DType,
    free: Ordering,
    name: &str,
) -> Result<Option<Operand>> {
    let Some(Operand::Scalar(number)) = &bound else { return Ok(bound) };
    let Some((least, greatest)) = dtype.int_range() else {
        c.require_fit(number, dtype)?;
        return Ok(bound);
    };
    let outside = move |n: f64| n < least as f64 || n > greatest as f64;
    let Some(number) = c.decisive(number, outside) else { return Ok(bound) };
    let n = i128::from(number.as_i64());
    let side = if n < least { Ordering::Less } else { n.cmp(&greatest).max(Ordering::Equal) };
    let outside = || format!("Clamp {name} value {n} is outside the representable range of {}", torch_name(dtype));
    match side {
        Ordering::Equal => Ok(bound),
        side if side == free => Ok(None),
        _ => Err(crate::Error::invalid(outside())),
    }
}

fn at_least<'e>(x: Expr<'e>, low: Expr<'e>, keeps_sign: bool) -> Expr<'e> {
    let greater = x.max(low);
    if keeps_sign { x.equals(low).select(x, greater) } else { greater }
}

fn at_most<'e>(x: Expr<'e>, high: Expr<'e>, keeps_sign: bool) -> Expr<'e> {
    let less = x.min(high);
    if keeps_sign { x.equals(high).select(x, less) } else { less }
}

fn masked_fill(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (v, mask, value) = (c.tensor(b, "self")?, c.tensor(b, "mask")?, c.operand(b, "value")?);
    let dtype = b.dtype(v);
    ensure!(
        b.dtype(mask) == DType::Bool,
        "masked_fill_ only supports boolean masks, but got mask with dtype {}",
        super::support::cpp_type(b.dtype(mask))
    );
    check_value(c, b, &value, dtype)?;
    let aligned = align(c, b, &[value], dtype)?;
    one(select(b, mask, aligned[0], v)?)
}

fn check_value(c: &Call<'_>, b: &Builder, value: &Operand, dtype: DType) -> Result<()> {
    match value {
        Operand::Tensor(t) => ensure!(
            b.rank(*t) == 0,
            "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {} dimension(s).",
            b.rank(*t)
        ),
        Operand::Scalar(s) => c.require_fit(s, dtype)?,
    }
    Ok(())
}
