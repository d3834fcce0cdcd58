//! Other names of arithmetic ops.

use super::arithmetic::{divide, multiply, subtract};
use super::division::divide_mode;
use super::{OpDef, Sample, ok, one};

/// An op of two operands under another name: schema up to the argument list, further arguments, expansion, variants.
macro_rules! alias {
    ($name:literal ($other:ident $more:literal), $expand:expr, [$($variant:literal),*], $samples:expr) => {
        OpDef::new(
            concat!("aten::", $name, "(Tensor self, ", stringify!($other), " other", $more, ") -> Tensor"),
            $expand,
            $samples,
        )
        .variants(&[$($variant),*])
    };
}

pub(super) static OPS: &[OpDef] = &[
    alias!("multiply.Tensor"(Tensor ""), |c, b| one(multiply(c, b, c.operand(b, "self")?, c.operand(b, "other")?)?), ["multiply_.Tensor", "multiply.out"], TENSORS),
    alias!("multiply.Scalar"(Scalar ""), |c, b| one(multiply(c, b, c.operand(b, "self")?, c.operand(b, "other")?)?), ["multiply_.Scalar"], NUMBERS),
    alias!("subtract.Tensor"(Tensor ", *, Scalar alpha=1"), |c, b| one(subtract(c, b, c.operand(b, "self")?, c.operand(b, "other")?, &c.scalar("alpha")?)?), ["subtract_.Tensor", "subtract.out"], TENSORS),
    alias!("subtract.Scalar"(Scalar ", Scalar alpha=1"), |c, b| one(subtract(c, b, c.operand(b, "self")?, c.operand(b, "other")?, &c.scalar("alpha")?)?), ["subtract_.Scalar"], NUMBERS),
    alias!("divide.Tensor"(Tensor ""), |c, b| one(divide(c, b, c.operand(b, "self")?, c.operand(b, "other")?)?), ["divide_.Tensor", "divide.out"], TENSORS),
    alias!("divide.Scalar"(Scalar ""), |c, b| one(divide(c, b, c.operand(b, "self")?, c.operand(b, "other")?)?), ["divide_.Scalar"], NUMBERS),
    alias!("true_divide.Tensor"(Tensor ""), |c, b| one(divide(c, b, c.operand(b, "self")?, c.operand(b, "other")?)?), ["true_divide_.Tensor", "true_divide.out"], TENSORS),
    alias!("true_divide.Scalar"(Scalar ""), |c, b| one(divide(c, b, c.operand(b, "self")?, c.operand(b, "other")?)?), ["true_divide_.Scalar"], NUMBERS),
    alias!("divide.Tensor_mode"(Tensor ", *, str? rounding_mode"), divide_mode, ["divide_.Tensor_mode", "divide.out_mode"], &[ok("f32[9], f32[9], rounding_mode='floor'")]),
    alias!("divide.Scalar_mode"(Scalar ", *, str? rounding_mode"), divide_mode, ["divide_.Scalar_mode"], &[ok("f32[9], 2, rounding_mode='trunc'")]),
];

const TENSORS: &[Sample] = &[ok("f32[3,4], f32[4]"), ok("i64[3], f32[]"), ok("bf16[9], bf16[9]")];
const NUMBERS: &[Sample] = &[ok("f32[3], 2"), ok("i64[3], 1.5"), ok("bf16[9], 0.1")];
