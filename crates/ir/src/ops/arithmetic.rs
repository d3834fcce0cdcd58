//! Sums, differences, products and quotients.

use super::support::{
    Operand, cpp_type, elementwise, elementwise_once, elementwise_rounded, not_implemented, numbers_rounded, pair,
    result_type, to_float,
};
use super::{Call, OpDef, Outs, Scalar, Strides, err, ok, one};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::{Binary, DType, ensure, ensure_kernel};

pub(super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
        add_op,
        &[
            ok("f32[3,4], f32[4]"),
            ok("i64[3], f32[]"),
            ok("bf16[2,1], f32[3], alpha=2"),
            ok("f16[5], f16[5], alpha=0.1"),
            ok("bool[4], bool[4]"),
            ok("bool[4], bool[4], alpha=0"),
            ok("bool[4], i8[4], alpha=3"),
            ok("u8[4], i8[4]"),
            ok("c64[3], f64[3]"),
            ok("f32[0,3], f32[1,3]"),
            ok("u16[], i64[3]"),
            ok("u32[3], f16[3]"),
            err(
                "u16[3], i64[3]",
                "uint16, uint32, uint64 types is not supported, attempted to promote UInt16 and Long",
            ),
            err("bool[3], u32[3]", "types is not supported, attempted to promote Bool and UInt32"),
            err("u64[3], c64[3]", "types is not supported, attempted to promote UInt64 and ComplexFloat"),
            err(
                "f8e5m2[3], f32[3]",
                "Promotion for Float8 Types is not supported, attempted to promote Float8_e5m2 and Float",
            ),
            err("f32[3], f32[4]", "must match the size of tensor b (4)"),
            err("i64[3], i64[3], alpha=1.5", "argument alpha must not be a floating point number"),
            err("i64[3], i64[3], alpha=true", "Boolean alpha only supported for Boolean results"),
            err("f32[3], f32[3], alpha=2j", "argument alpha must not be a complex number"),
            err("f16[3], f16[3], alpha=100000.0", "value cannot be converted to type c10::Half without overflow"),
        ],
    )
    .variants(&["add_.Tensor", "add.out"]),
    OpDef::new(
        "aten::add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor",
        add_op,
        &[
            ok("f32[3], 2"),
            ok("i32[3], 2.5"),
            ok("f16[], 1, alpha=3"),
            ok("bf16[2]{-0.333,-0.335}, 0.33333333"),
            ok("bool[2], 1"),
        ],
    )
    .variants(&["add_.Scalar", "add.Scalar_out"]),
    OpDef::new(
        "aten::sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
        |c, b| subtract_op(c, b, c.operand(b, "self")?, c.operand(b, "other")?),
        &[
            ok("f32[3,4], f32[4]"),
            ok("i64[2], i32[2], alpha=3"),
            ok("u8[5], u8[5]"),
            err("bool[2], bool[2]", "Subtraction, the `-` operator, with two bool tensors"),
            err("i64[2], bool[2]", "with a bool tensor is not supported"),
        ],
    )
    .variants(&["sub_.Tensor", "sub.out"]),
    OpDef::new(
        "aten::sub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor",
        |c, b| subtract_op(c, b, c.operand(b, "self")?, c.operand(b, "other")?),
        &[
            ok("f32[3], 2"),
            ok("i64[3], 1.5"),
            ok("f16[2]{0.333,0.335}, 0.33333333"),
            err("i64[2], true", "with a bool tensor is not supported"),
        ],
    )
    .variants(&["sub_.Scalar", "sub.Scalar_out"]),
    OpDef::new(
        "aten::rsub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
        |c, b| subtract_op(c, b, c.operand(b, "other")?, c.operand(b, "self")?),
        &[ok("f32[3,4], f32[4]"), ok("i64[2], i32[2], alpha=3"), err("bool[2], bool[2]", "with two bool tensors")],
    )
    .variants(&["rsub.Tensor_out"]),
    OpDef::new(
        "aten::rsub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor",
        |c, b| subtract_op(c, b, c.operand(b, "other")?, c.operand(b, "self")?),
        &[ok("f32[3], 1"), ok("bf16[3], 1.1, 2"), ok("i64[3], 1.5"), ok("i32[3], 1")],
    )
    .variants(&["rsub.Scalar_out"]),
    OpDef::new(
        "aten::mul.Tensor(Tensor self, Tensor other) -> Tensor",
        |c, b| one(multiply(c, b, c.operand(b, "self")?, c.operand(b, "other")?)?),
        &[
            ok("f32[3,4], f32[4]"),
            ok("bool[3], bool[3]"),
            ok("bool[3], i8[]"),
            ok("c64[2], f64[]"),
            ok("bf16[3], f32[]"),
            ok("bf16[3], f16[3]"),
            ok("f32[0], f32[1]"),
        ],
    )
    .variants(&["mul_.Tensor", "mul.out"]),
    OpDef::new(
        "aten::mul.Scalar(Tensor self, Scalar other) -> Tensor",
        |c, b| one(multiply(c, b, c.operand(b, "self")?, c.operand(b, "other")?)?),
        &[ok("f32[3], 2"), ok("i64[0], 0.5"), ok("bf16[5], 0.1"), ok("bool[3], true"), ok("f32[3], 1j")],
    )
    .variants(&["mul_.Scalar", "mul.Scalar_out"]),
    OpDef::new(
        "aten::div.Tensor(Tensor self, Tensor other) -> Tensor",
        |c, b| one(divide(c, b, c.operand(b, "self")?, c.operand(b, "other")?)?),
        &[
            ok("f32[3,4], f32[4]"),
            ok("i64[3], i32[3]"),
            ok("bool[2], bool[2]"),
            ok("bf16[3], bf16[3]"),
            ok("c64[3], c64[3]"),
            ok("f32[4]{1,-1,0,nan}, f32[4]{0,0,0,1}"),
        ],
    )
    .variants(&["div_.Tensor", "div.out"])
    .laid_out(Strides::ByElement),
    OpDef::new(
        "aten::div.Scalar(Tensor self, Scalar other) -> Tensor",
        |c, b| one(divide(c, b, c.operand(b, "self")?, c.operand(b, "other")?)?),
        &[ok("f32[3], 2"), ok("i64[3], 2"), ok("bf16[5], 0.3"), ok("f32[3], 0")],
    )
    .variants(&["div_.Scalar", "div.Scalar_out"]),
    OpDef::new(
        "aten::addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
        |c, b| {
            let operands = [c.operand(b, "self")?, c.operand(b, "tensor1")?, c.operand(b, "tensor2")?];
            one(addcmul(c, b, operands, c.operand(b, "value")?)?)
        },
        &[
            ok("f32[3,4], f32[4], f32[3,1]"),
            ok("bf16[5], bf16[5], bf16[5], value=0.1"),
            ok("i64[3], i64[3], i32[3], value=2"),
            ok("f32[3], f64[], bf16[3]"),
            err("bool[2], bool[2], bool[2]", "not implemented for 'Bool'"),
        ],
    )
    .variants(&["addcmul_", "addcmul.out"]),
    OpDef::new(
        "aten::addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
        |c, b| {
            let operands = [c.operand(b, "self")?, c.operand(b, "tensor1")?, c.operand(b, "tensor2")?];
            one(addcdiv(c, b, operands, c.operand(b, "value")?)?)
        },
        &[
            ok("f32[3,4], f32[4], f32[3,1]"),
            ok("bf16[5], bf16[5], bf16[5], value=-0.1"),
            ok("f32[3], i64[3], f32[3], value=2"),
            err("f32[3], i64[3], i64[3]", "Integer division with addcdiv is no longer supported"),
        ],
    )
    .variants(&["addcdiv_", "addcdiv.out"]),
    OpDef::new(
        "aten::lerp.Scalar(Tensor self, Tensor end, Scalar weight) -> Tensor",
        |c, b| one(lerp(c, b, c.tensor(b, "self")?, c.tensor(b, "end")?, c.operand(b, "weight")?)?),
        &[
            ok("f32[3,4], f32[4], 0.25"),
            ok("f32[3], f32[3], 0.75"),
            ok("bf16[5], bf16[5], 0.1"),
            ok("f64[3], f64[], 1"),
            err("i64[3], i64[3], 0.5", "not implemented for 'Long'"),
            err("f32[3], f64[3], 0.5", "expected dtype float for `end` but got dtype double"),
        ],
    )
    .variants(&["lerp_.Scalar", "lerp.Scalar_out"]),
    OpDef::new(
        "aten::lerp.Tensor(Tensor self, Tensor end, Tensor weight) -> Tensor",
        |c, b| one(lerp(c, b, c.tensor(b, "self")?, c.tensor(b, "end")?, c.operand(b, "weight")?)?),
        &[
            ok("f32[3,4], f32[4], f32[3,1]"),
            ok("bf16[5], bf16[5], f32[]"),
            err("f32[3], f32[3], f64[3]", "expected dtype float for `weight` but got dtype double"),
        ],
    )
    .variants(&["lerp_.Tensor", "lerp.Tensor_out"]),
    OpDef::new(
        "prims::fma(Tensor a, Tensor b, Tensor c) -> Tensor",
        |c, b| {
            let operands = [c.operand(b, "a")?, c.operand(b, "b")?, c.operand(b, "c")?];
            let dtype = result_type(c, b, &operands)?;
            one(elementwise(c, b, operands, dtype, |[x, y, z]| x * y + z)?)
        },
        &[ok("f32[3], f32[3], f32[3]"), ok("bf16[3], bf16[3], bf16[3]")],
    ),
];

fn add_op(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    one(add(c, b, c.operand(b, "self")?, c.operand(b, "other")?, &c.scalar("alpha")?)?)
}

fn subtract_op(c: &Call<'_>, b: &Builder, x: Operand, y: Operand) -> Result<Outs> {
    one(subtract(c, b, x, y, &c.scalar("alpha")?)?)
}

/// `x + alpha * y`; "or" for `bool`.
pub(super) fn add(c: &Call<'_>, b: &Builder, x: Operand, y: Operand, alpha: &Scalar) -> Result<ValueId> {
    let dtype = result_type(c, b, &[x.clone(), y.clone()])?;
    check_alpha(c, alpha, dtype)?;
    if dtype == DType::Bool {
        let y = multiply(c, b, y, bool_scalar(c, b, alpha)?)?;
        let (x, y, _) = pair(c, b, x, y)?;
        return b.binary(Binary::Or, x, y);
    }
    if alpha.is_one() {
        return elementwise_once(c, b, numbers_rounded(c, b, [x, y], dtype)?, dtype, Binary::Add);
    }
    elementwise_rounded(c, b, [x, y, alpha.clone().into()], dtype, |[x, y, alpha]| x + alpha * y)
}

/// `x - alpha * y`.
pub(super) fn subtract(c: &Call<'_>, b: &Builder, x: Operand, y: Operand, alpha: &Scalar) -> Result<ValueId> {
    let is_bool = |o: &Operand| result_type(c, b, std::slice::from_ref(o)).is_ok_and(|d| d == DType::Bool);
    let bools = usize::from(is_bool(&x)) + usize::from(is_bool(&y));
    ensure_kernel!(
        bools < 2,
        "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` operator instead."
    );
    ensure_kernel!(
        bools < 1,
        "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask, use the `~` or `logical_not()` operator instead."
    );
    let dtype = result_type(c, b, &[x.clone(), y.clone()])?;
    check_alpha(c, alpha, dtype)?;
    if alpha.is_one() {
        return elementwise_once(c, b, numbers_rounded(c, b, [x, y], dtype)?, dtype, Binary::Subtract);
    }
    elementwise_rounded(c, b, [x, y, alpha.clone().into()], dtype, |[x, y, alpha]| x - alpha * y)
}

/// A number as an operand of a `bool` op.
fn bool_scalar(c: &Call<'_>, b: &Builder, s: &Scalar) -> Result<Operand> {
    Ok(c.scalar_value(b, s, DType::Bool)?.into())
}

fn check_alpha(c: &Call<'_>, alpha: &Scalar, dtype: DType) -> Result<()> {
    let kind = alpha.dtype();
    ensure!(kind != DType::Bool || dtype == DType::Bool, "Boolean alpha only supported for Boolean results.");
    let float_on_int = (kind.is_float() || kind.is_complex()) && !dtype.is_float() && !dtype.is_complex();
    ensure!(!float_on_int, "For integral input tensors, argument alpha must not be a floating point number.");
    let complex_on_real = kind.is_complex() && !dtype.is_complex();
    ensure!(!complex_on_real, "For non-complex input tensors, argument alpha must not be a complex number.");
    c.require_fit(alpha, dtype)
}

/// `x * y`; "and" for `bool`.
pub(super) fn multiply(c: &Call<'_>, b: &Builder, x: Operand, y: Operand) -> Result<ValueId> {
    let dtype = result_type(c, b, &[x.clone(), y.clone()])?;
    let op = if dtype == DType::Bool { Binary::And } else { Binary::Multiply };
    elementwise_once(c, b, [x, y], dtype, op)
}

/// True division: integers become floats first.
pub(super) fn divide(c: &Call<'_>, b: &Builder, x: Operand, y: Operand) -> Result<ValueId> {
    let dtype = to_float(c, result_type(c, b, &[x.clone(), y.clone()])?);
    elementwise_once(c, b, [x, y], dtype, Binary::Divide)
}

/// `x + value * y * z` of operands `[x, y, z]`.
pub(super) fn addcmul(c: &Call<'_>, b: &Builder, operands: [Operand; 3], value: Operand) -> Result<ValueId> {
    let dtype = result_type(c, b, &operands)?;
    if dtype == DType::Bool {
        return not_implemented("addcmul", dtype);
    }
    let [x, y, z] = operands;
    elementwise(c, b, [x, y, z, value], dtype, |[x, y, z, value]| x + value * y * z)
}

/// `x + value * y / z` of operands `[x, y, z]`.
pub(super) fn addcdiv(c: &Call<'_>, b: &Builder, operands: [Operand; 3], value: Operand) -> Result<ValueId> {
    let quotient = result_type(c, b, &operands[1..])?;
    ensure!(
        quotient.is_float() || quotient.is_complex(),
        "Integer division with addcdiv is no longer supported, and in a future  release addcdiv will perform a true division of tensor1 and tensor2."
    );
    let dtype = result_type(c, b, &operands)?;
    let [x, y, z] = operands;
    elementwise(c, b, [x, y, z, value], dtype, |[x, y, z, value]| x + value * y / z)
}

/// `x + weight * (end - x)`, from the nearer end so that weights 0 and 1 are exact.
pub(super) fn lerp(c: &Call<'_>, b: &Builder, x: ValueId, end: ValueId, weight: Operand) -> Result<ValueId> {
    let dtype = b.dtype(x);
    if !dtype.is_float() && !dtype.is_complex() {
        return not_implemented("lerp_kernel_scalar", dtype);
    }
    same_dtype(dtype, b.dtype(end), "end")?;
    if let Operand::Tensor(w) = &weight
        && b.rank(*w) > 0
    {
        same_dtype(dtype, b.dtype(*w), "weight")?;
    }
    let is_low = |w: f64| w.abs() < 0.5;
    let known = match &weight {
        Operand::Scalar(s) => s.known().map(|n| is_low(n.as_f64())),
        Operand::Tensor(_) => None,
    };
    elementwise(c, b, [x.into(), end.into(), weight], dtype, |[x, end, weight]| {
        let low = x + weight * (end - x);
        let high = end - (end - x) * (1.0 - weight);
        match known {
            Some(true) => low,
            Some(false) => high,
            None => weight.abs().less(0.5).select(low, high),
        }
    })
}

fn same_dtype(wanted: DType, got: DType, name: &str) -> Result<()> {
    ensure!(wanted == got, "expected dtype {} for `{name}` but got dtype {}", cpp_type(wanted), cpp_type(got));
    Ok(())
}
