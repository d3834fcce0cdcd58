//! Ops over lists of tensors: the op of one tensor, for each.

use super::arithmetic::{add, addcdiv, addcmul, divide, lerp, multiply, subtract};
use super::choice::clamp;
use super::power::pow;
use super::reduce::norms::norm_of_all;
use super::support::{Operand, expand_to};
use super::{Call, OpDef, Outs, Sample, Scalar, err, many, ok, pointwise, rounding};
use crate::builder::Builder;
use crate::ensure;
use crate::error::{Error, Result};
use crate::graph::ValueId;
use crate::literal::Number;
use crate::op::Reducer;

/// `aten::NAME(Tensor[] self) -> Tensor[]` by the function of one tensor.
macro_rules! unary {
    ($name:literal, $f:expr) => {
        unary!($name, $f, FLOATS)
    };
    ($name:literal, $f:expr, $samples:expr) => {
        OpDef::new(
            concat!("aten::_foreach_", $name, "(Tensor[] self) -> Tensor[]"),
            |c, b| each(c, b, ["self"], |[x]| $f(c, b, tensor(x)?)),
            $samples,
        )
        .variants(&[concat!("_foreach_", $name, "_"), concat!("_foreach_", $name, ".out")])
    };
}

/// One overload with the arguments `names` behind `self`.
macro_rules! overload {
    ($name:literal, $overload:literal, $args:literal, $names:expr, |$c:ident, $b:ident, [$($x:ident),*]| $value:expr, $samples:expr) => {
        OpDef::new(
            concat!("aten::_foreach_", $name, ".", $overload, "(", $args, ") -> Tensor[]"),
            |$c, $b| each($c, $b, $names, |[$($x),*]| $value),
            $samples,
        )
        .variants(&[concat!("_foreach_", $name, "_.", $overload), concat!("_foreach_", $name, ".", $overload, "_out")])
    };
}

/// `aten::_foreach_NAME.List`.
macro_rules! list {
    ($name:literal, |$c:ident, $b:ident, [$($x:ident),*]| $value:expr) => {
        overload!($name, "List", "Tensor[] self, Tensor[] other", ["self", "other"], |$c, $b, [$($x),*]| $value, LISTS)
    };
}

/// `aten::_foreach_NAME.Scalar`.
macro_rules! scalar {
    ($name:literal, |$c:ident, $b:ident, [$($x:ident),*]| $value:expr) => {
        overload!($name, "Scalar", "Tensor[] self, Scalar scalar", ["self", "scalar"], |$c, $b, [$($x),*]| $value, NUMBER)
    };
}

/// `aten::_foreach_NAME.ScalarList`.
macro_rules! scalars {
    ($name:literal, |$c:ident, $b:ident, [$($x:ident),*]| $value:expr) => {
        overload!(
            $name, "ScalarList", "Tensor[] self, Scalar[] scalars", ["self", "scalars"],
            |$c, $b, [$($x),*]| $value, NUMBERS
        )
    };
}

pub(super) static OPS: &[OpDef] = &[
    unary!("abs", rounding::abs),
    unary!("acos", pointwise::acos),
    unary!("asin", pointwise::asin),
    unary!("atan", pointwise::atan),
    unary!("ceil", rounding::ceil),
    unary!("cos", pointwise::cos),
    unary!("cosh", pointwise::cosh),
    unary!("erf", pointwise::erf),
    unary!("erfc", pointwise::erfc),
    unary!("exp", pointwise::exp),
    unary!("expm1", pointwise::expm1),
    unary!("floor", rounding::floor),
    unary!("frac", rounding::frac),
    unary!("lgamma", pointwise::lgamma),
    unary!("log", pointwise::log),
    unary!("log10", pointwise::log10),
    unary!("log1p", pointwise::log1p),
    unary!("log2", pointwise::log2),
    unary!("neg", rounding::neg),
    unary!("reciprocal", pointwise::reciprocal),
    unary!("round", rounding::round),
    unary!("rsqrt", pointwise::rsqrt),
    unary!("sigmoid", pointwise::sigmoid),
    unary!("sign", rounding::sign),
    unary!("sin", pointwise::sin),
    unary!("sinh", pointwise::sinh),
    unary!("sqrt", pointwise::sqrt),
    unary!("tan", pointwise::tan),
    unary!("tanh", pointwise::tanh),
    unary!("trunc", rounding::trunc),
    OpDef::new(
        "aten::_foreach_zero(Tensor[] self) -> Tensor[]",
        |c, b| each(c, b, ["self"], |[x]| b.full_like(tensor(x)?, Number::Int(0))),
        &[ok("[f32[2,3], i64[2]]")],
    )
    .variants(&["_foreach_zero_", "_foreach_zero.out"]),
    OpDef::new(
        "aten::_foreach_clone(Tensor[] self, *, MemoryFormat? memory_format=None) -> Tensor[]",
        |c, b| each(c, b, ["self"], |[x]| tensor(x)),
        &[ok("[f32[2,3], i64[2]]")],
    )
    .variants(&["_foreach_clone.out"]),
    OpDef::new(
        "aten::_foreach_copy(Tensor[] self, Tensor[] src, bool non_blocking=False) -> Tensor[]",
        |c, b| {
            each(c, b, ["self", "src"], |[x, src]| {
                let (x, src) = (tensor(x)?, tensor(src)?);
                expand_to(b, b.cast(src, b.dtype(x))?, &b.shape(x))
            })
        },
        &[ok("[f32[2,3], i64[2]], [f32[3], f32[2]]")],
    )
    .variants(&["_foreach_copy_", "_foreach_copy.out"]),
    overload!(
        "add",
        "List",
        "Tensor[] self, Tensor[] other, *, Scalar alpha=1",
        ["self", "other"],
        |c, b, [x, y]| add(c, b, x, y, &c.scalar("alpha")?),
        LISTS
    ),
    scalar!("add", |c, b, [x, y]| add(c, b, x, y, &ONE)),
    scalars!("add", |c, b, [x, y]| add(c, b, x, y, &ONE)),
    overload!(
        "add",
        "Tensor",
        "Tensor[] self, Tensor other, *, Scalar alpha=1",
        ["self", "other"],
        |c, b, [x, y]| add(c, b, x, y, &c.scalar("alpha")?),
        ONE_TENSOR
    ),
    overload!(
        "sub",
        "List",
        "Tensor[] self, Tensor[] other, *, Scalar alpha=1",
        ["self", "other"],
        |c, b, [x, y]| subtract(c, b, x, y, &c.scalar("alpha")?),
        LISTS
    ),
    scalar!("sub", |c, b, [x, y]| subtract(c, b, x, y, &ONE)),
    scalars!("sub", |c, b, [x, y]| subtract(c, b, x, y, &ONE)),
    list!("mul", |c, b, [x, y]| multiply(c, b, x, y)),
    scalar!("mul", |c, b, [x, y]| multiply(c, b, x, y)),
    scalars!("mul", |c, b, [x, y]| multiply(c, b, x, y)),
    overload!(
        "mul",
        "Tensor",
        "Tensor[] self, Tensor other",
        ["self", "other"],
        |c, b, [x, y]| multiply(c, b, x, y),
        ONE_TENSOR
    ),
    list!("div", |c, b, [x, y]| divide(c, b, x, y)),
    scalar!("div", |c, b, [x, y]| divide(c, b, x, y)),
    scalars!("div", |c, b, [x, y]| divide(c, b, x, y)),
    overload!(
        "div",
        "Tensor",
        "Tensor[] self, Tensor other",
        ["self", "other"],
        |c, b, [x, y]| divide(c, b, x, y),
        ONE_TENSOR
    ),
    list!("maximum", |c, b, [x, low]| clamp(c, b, x, Some(low), None)),
    scalar!("maximum", |c, b, [x, low]| clamp(c, b, x, Some(low), None)),
    scalars!("maximum", |c, b, [x, low]| clamp(c, b, x, Some(low), None)),
    list!("clamp_min", |c, b, [x, low]| clamp(c, b, x, Some(low), None)),
    scalar!("clamp_min", |c, b, [x, low]| clamp(c, b, x, Some(low), None)),
    scalars!("clamp_min", |c, b, [x, low]| clamp(c, b, x, Some(low), None)),
    list!("minimum", |c, b, [x, high]| clamp(c, b, x, None, Some(high))),
    scalar!("minimum", |c, b, [x, high]| clamp(c, b, x, None, Some(high))),
    scalars!("minimum", |c, b, [x, high]| clamp(c, b, x, None, Some(high))),
    list!("clamp_max", |c, b, [x, high]| clamp(c, b, x, None, Some(high))),
    scalar!("clamp_max", |c, b, [x, high]| clamp(c, b, x, None, Some(high))),
    scalars!("clamp_max", |c, b, [x, high]| clamp(c, b, x, None, Some(high))),
    overload!(
        "pow",
        "List",
        "Tensor[] self, Tensor[] exponent",
        ["self", "exponent"],
        |c, b, [x, y]| pow(c, b, x, y),
        POSITIVE_LISTS
    ),
    overload!(
        "pow",
        "Scalar",
        "Tensor[] self, Scalar exponent",
        ["self", "exponent"],
        |c, b, [x, y]| pow(c, b, x, y),
        NUMBER
    ),
    overload!(
        "pow",
        "ScalarList",
        "Tensor[] self, Scalar[] exponent",
        ["self", "exponent"],
        |c, b, [x, y]| pow(c, b, x, y),
        NUMBERS
    ),
    OpDef::new(
        "aten::_foreach_pow.ScalarAndTensor(Scalar self, Tensor[] exponent) -> Tensor[]",
        |c, b| each(c, b, ["self", "exponent"], |[x, y]| pow(c, b, x, y)),
        &[ok("0.9, [f32[]{1..9}, f32[3]]"), ok("2, [i64[3]{0..5}]")],
    ),
    overload!(
        "lerp",
        "List",
        "Tensor[] self, Tensor[] tensors1, Tensor[] weights",
        ["self", "tensors1", "weights"],
        |c, b, [x, end, weight]| lerp(c, b, tensor(x)?, tensor(end)?, weight),
        &[ok("[f32[3], f32[2,2]], [f32[3], f32[2]], [f32[], f32[2]]")]
    ),
    overload!(
        "lerp",
        "Scalar",
        "Tensor[] self, Tensor[] tensors1, Scalar weight",
        ["self", "tensors1", "weight"],
        |c, b, [x, end, weight]| lerp(c, b, tensor(x)?, tensor(end)?, weight),
        &[ok("[f32[3], bf16[2,2]], [f32[3], bf16[2]], 0.1"), ok("[f32[3]], [f32[3]], 0.9")]
    ),
    overload!(
        "lerp",
        "ScalarList",
        "Tensor[] self, Tensor[] tensors1, Scalar[] weight",
        ["self", "tensors1", "weight"],
        |c, b, [x, end, weight]| lerp(c, b, tensor(x)?, tensor(end)?, weight),
        &[ok("[f32[3], f32[2]], [f32[3], f32[2]], [0.1, 0.7]")]
    ),
    overload!(
        "addcmul",
        "Scalar",
        "Tensor[] self, Tensor[] tensor1, Tensor[] tensor2, Scalar value=1",
        ["self", "tensor1", "tensor2", "value"],
        |c, b, [x, y, z, value]| addcmul(c, b, [x, y, z], value),
        TRIPLES_NUMBER
    ),
    overload!(
        "addcmul",
        "ScalarList",
        "Tensor[] self, Tensor[] tensor1, Tensor[] tensor2, Scalar[] scalars",
        ["self", "tensor1", "tensor2", "scalars"],
        |c, b, [x, y, z, value]| addcmul(c, b, [x, y, z], value),
        TRIPLES_NUMBERS
    ),
    overload!(
        "addcmul",
        "Tensor",
        "Tensor[] self, Tensor[] tensor1, Tensor[] tensor2, Tensor scalars",
        ["self", "tensor1", "tensor2", "scalars"],
        |c, b, [x, y, z, value]| addcmul(c, b, [x, y, z], value),
        TRIPLES_TENSOR
    ),
    overload!(
        "addcdiv",
        "Scalar",
        "Tensor[] self, Tensor[] tensor1, Tensor[] tensor2, Scalar value=1",
        ["self", "tensor1", "tensor2", "value"],
        |c, b, [x, y, z, value]| addcdiv(c, b, [x, y, z], value),
        TRIPLES_NUMBER
    ),
    overload!(
        "addcdiv",
        "ScalarList",
        "Tensor[] self, Tensor[] tensor1, Tensor[] tensor2, Scalar[] scalars",
        ["self", "tensor1", "tensor2", "scalars"],
        |c, b, [x, y, z, value]| addcdiv(c, b, [x, y, z], value),
        TRIPLES_NUMBERS
    ),
    overload!(
        "addcdiv",
        "Tensor",
        "Tensor[] self, Tensor[] tensor1, Tensor[] tensor2, Tensor scalars",
        ["self", "tensor1", "tensor2", "scalars"],
        |c, b, [x, y, z, value]| addcdiv(c, b, [x, y, z], value),
        TRIPLES_TENSOR
    ),
    OpDef::new(
        "aten::_foreach_norm.Scalar(Tensor[] self, Scalar ord=2, ScalarType? dtype=None) -> Tensor[]",
        |c, b| {
            let (ord, dtype) = (c.float("ord")?, c.optional_dtype("dtype")?);
            each(c, b, ["self"], |[x]| norm_of_all(b, tensor(x)?, ord, dtype))
        },
        &[
            ok("[f32[3,4], f32[5]]"),
            ok("[bf16[9], f32[]], 1"),
            ok("[f32[9], f64[3]], inf"),
            ok("[f32[9]], 3"),
            ok("[bf16[9]], 2, dtype=f32"),
            ok("[f32[0]], 2"),
            err("[f32[0]], inf", "the operation does not have an identity"),
        ],
    )
    .variants(&["_foreach_norm.Scalar_out"]),
    OpDef::new(
        "aten::_foreach_max(Tensor[] self) -> Tensor[]",
        |c, b| {
            each(c, b, ["self"], |[x]| {
                let x = tensor(x)?;
                ensure!(
                    b.ty(x)?.numel() > 0,
                    "_foreach_max cannot compute the maximum of an empty tensor; max over zero elements is undefined."
                );
                reduce_all(b, x, Reducer::Maximum)
            })
        },
        &[ok("[f32[3,4], f32[]]"), ok("[i64[3]]")],
    )
    .variants(&["_foreach_max.out"]),
];

const FLOATS: &[Sample] = &[
    ok("[f32[2,3]{-0.9..0.9}, f32[]{-0.9..0.9}]"),
    ok("[f32[2], bf16[3], f64[0]]"),
    err("[]", "Tensor list must have at least one tensor."),
];
const LISTS: &[Sample] = &[
    ok("[f32[2,3], bf16[3]], [f32[2,3], bf16[3]]"),
    ok("[f32[2,3], f32[]], [f32[3], f64[]]"),
    ok("[i64[3]], [i64[3]{1..4}]"),
    err("[f32[2]], [f32[2], f32[2]]", "Tensor lists must have the same number of tensors, got 1 and 2"),
];
const POSITIVE_LISTS: &[Sample] =
    &[ok("[f32[2,3]{0..3}, f32[3]{0..3}], [f32[2,3], f32[3]]"), ok("[i64[3]], [i64[3]{0..4}]")];
const NUMBER: &[Sample] = &[ok("[f32[2,3], bf16[3]], 2"), ok("[f32[], f32[0]], 0.5"), ok("[i64[3]], 3")];
const NUMBERS: &[Sample] = &[
    ok("[f32[2,3], f32[3]], [2, 0.5]"),
    ok("[bf16[3], f64[2]], [3, 1.5]"),
    err("[f32[2]], [1, 2]", "Tensor list must have same number of elements as scalar list."),
];
const ONE_TENSOR: &[Sample] = &[ok("[f32[2,3], bf16[3]], f32[]{0.5}"), ok("[f64[2]], f64[]{2}")];
const TRIPLES_NUMBER: &[Sample] = &[
    ok("[f32[2,3], f32[3]], [f32[2,3], f32[3]], [f32[2,3]{0.5..2}, f32[3]{0.5..2}], 0.5"),
    ok("[bf16[3]], [bf16[3]], [bf16[3]{0.5..2}]"),
    ok("[f32[3], f32[2]], [f32[3], f32[]], [f32[3]{0.5..2}, f32[2]{0.5..2}], -0.1"),
];
const TRIPLES_NUMBERS: &[Sample] =
    &[ok("[f32[2,3], f32[3]], [f32[2,3], f32[3]], [f32[2,3]{0.5..2}, f32[3]{0.5..2}], [0.5, -2]")];
const TRIPLES_TENSOR: &[Sample] =
    &[ok("[f32[2,3], f32[3]], [f32[2,3], f32[3]], [f32[2,3]{0.5..2}, f32[3]{0.5..2}], f32[2]{0.5,-2}")];

const ONE: Scalar = Scalar::Known(Number::Int(1));

/// `f` on the first tensors of the lists `names`, on the second, and so on; one number or tensor serves for all.
pub(super) fn each<const N: usize>(
    c: &Call<'_>,
    b: &Builder,
    names: [&str; N],
    f: impl Fn([Operand; N]) -> Result<ValueId>,
) -> Result<Outs> {
    let len = list_len(c, b, &names)?;
    let columns = names.iter().map(|name| column(c, b, name, len)).collect::<Result<Vec<_>>>()?;
    let row = |i: usize| {
        let mut row = names.map(|_| Operand::Scalar(ONE));
        row.iter_mut().zip(&columns).for_each(|(slot, column)| *slot = column[i].clone());
        f(row)
    };
    many((0..len).map(row).collect::<Result<Vec<_>>>()?)
}

fn is_tensor_list(c: &Call<'_>, name: &str) -> bool {
    c.schema.position(name).is_some_and(|i| c.schema.args[i].ty == "Tensor[]")
}

/// The number of tensors in each of the lists.
fn list_len(c: &Call<'_>, b: &Builder, names: &[&str]) -> Result<usize> {
    let lists = names.iter().filter(|name| is_tensor_list(c, name));
    let lens = lists.map(|name| c.tensors(b, name).map(|ts| ts.len())).collect::<Result<Vec<_>>>()?;
    let first = lens.first().copied().unwrap_or(0);
    ensure!(first > 0, "Tensor list must have at least one tensor.");
    for other in lens {
        ensure!(first == other, "Tensor lists must have the same number of tensors, got {first} and {other}");
    }
    Ok(first)
}

/// The argument `name` for each of `len` tensors.
fn column(c: &Call<'_>, b: &Builder, name: &str, len: usize) -> Result<Vec<Operand>> {
    let ty = c.schema.position(name).map_or("", |i| c.schema.args[i].ty.as_str());
    match (ty, name) {
        ("Tensor[]", _) => Ok(c.tensors(b, name)?.into_iter().map(Operand::Tensor).collect()),
        ("Scalar[]", _) => {
            let numbers = c.scalars(name)?;
            ensure!(numbers.len() == len, "Tensor list must have same number of elements as scalar list.");
            Ok(numbers.into_iter().map(Operand::Scalar).collect())
        }
        ("Tensor", "scalars") => packed(b, c.tensor(b, name)?, len),
        _ => Ok(vec![c.operand(b, name)?; len]),
    }
}

/// The elements of a 1-d tensor.
fn packed(b: &Builder, v: ValueId, len: usize) -> Result<Vec<Operand>> {
    ensure!(
        b.shape(v)[..] == [len],
        "Expected length of scalars to match input of length {len} but got {} instead.",
        b.shape(v).first().copied().unwrap_or(1)
    );
    (0..len).map(|i| b.reshape(b.slice_dim(v, 0, i, i + 1, 1)?, &[]).map(Operand::Tensor)).collect()
}

fn tensor(operand: Operand) -> Result<ValueId> {
    match operand {
        Operand::Tensor(v) => Ok(v),
        Operand::Scalar(_) => Err(Error::internal("a list of tensors holds a number")),
    }
}

fn reduce_all(b: &Builder, v: ValueId, reducer: Reducer) -> Result<ValueId> {
    let dims: Vec<usize> = (0..b.rank(v)).collect();
    b.reduce(v, reducer, &dims)
}
