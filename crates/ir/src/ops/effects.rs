//! Assertions and what else a program does without a result.

use super::support::torch_name;
use super::{Call, OpDef, Outs, Sample, Scalar, err, ok, one};
use crate::builder::Builder;
use crate::ensure;
use crate::error::{Error, ErrorKind, Result};
use crate::literal::Number;

pub(super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::_assert_tensor_metadata(Tensor a, SymInt[]? size=None, SymInt[]? stride=None, ScalarType? dtype=None, *, Device? device=None, Layout? layout=None) -> ()",
        assert_metadata,
        &[
            ok("f32[2,3]"),
            ok("f32[2,3], [2, 3], none, f32, device=device(cpu), layout=strided"),
            err("f32[2,3], none, none, i64", "Tensor dtype mismatch"),
            err("f32[2,3], [2, 4]", "Tensor sizes mismatch"),
        ],
    ),
    OpDef::number("aten::_local_scalar_dense(Tensor self) -> Scalar", read, &[err("f32[]", "a number that is data")]),
    OpDef::new("aten::_assert_async(Tensor self) -> ()", nothing, &[ok("bool[]{1}")]),
    OpDef::new("aten::_assert_async.msg(Tensor self, str assert_msg) -> ()", nothing, &[ok("bool[]{1}, 'text'")]),
    OpDef::new(
        "aten::_assert_scalar(Scalar self, str assert_msg) -> ()",
        assert_scalar,
        &[ok("true, 'text'"), ok("3, 'text'"), err("false, 'must hold'", "must hold")],
    ),
    OpDef::new("aten::sym_constrain_range(Scalar size, *, int? min=None, int? max=None) -> ()", constrain_range, RANGE),
    OpDef::new(
        "aten::sym_constrain_range_for_size(Scalar size, *, int? min=None, int? max=None) -> ()",
        constrain_range,
        RANGE,
    ),
    OpDef::new(
        "aten::_make_dep_token(*, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
        |c, b| one(b.scalar(Number::Int(0), c.optional_dtype("dtype")?.unwrap_or(c.default_dtype()))?),
        &[ok("")],
    ),
    OpDef::new(
        "aten::_functional_assert_async.msg(Tensor self, str assert_msg, Tensor dep_token) -> Tensor",
        token,
        &[ok("bool[]{1}, 'text', f32[]")],
    ),
    OpDef::new(
        "aten::_functional_assert_scalar(Scalar self, str assert_msg, Tensor dep_token) -> Tensor",
        |c, b| assert_scalar(c, b).and_then(|_| token(c, b)),
        &[ok("true, 'text', f32[]"), err("false, 'must hold', f32[]", "must hold")],
    ),
    OpDef::new(
        "aten::_functional_sym_constrain_range(Scalar size, int? min, int? max, Tensor dep_token) -> Tensor",
        |c, b| constrain_range(c, b).and_then(|_| token(c, b)),
        &[ok("3, 0, 5, f32[]")],
    ),
    OpDef::new(
        "aten::_functional_sym_constrain_range_for_size(Scalar size, int? min, int? max, Tensor dep_token) -> Tensor",
        |c, b| constrain_range(c, b).and_then(|_| token(c, b)),
        &[ok("3, 0, 5, f32[]")],
    ),
];

const RANGE: &[Sample] =
    &[ok("3"), ok("3, min=0, max=5"), err("7, min=0, max=5", "Invalid value range for 7 between [0, 5]")];

/// What `item()` comes to.
fn read(_: &Call<'_>) -> Result<Scalar> {
    Err(Error::new(ErrorKind::DataDependent, "gives a number that is data")
        .with_help("compute with the tensor itself; under torch.compile the number is read while the program runs"))
}

/// An assertion that only the running program could make: plugins have no way to fail.
fn nothing(_: &Call<'_>, _: &Builder) -> Result<Outs> {
    Ok(vec![])
}

/// Sizes and type hold; strides and devices are not ours to check.
fn assert_metadata(c: &Call<'_>, _: &Builder) -> Result<Outs> {
    let got = c.dtype_of("a")?;
    if let Some(dtype) = c.optional_dtype("dtype")? {
        ensure!(dtype == got, "Tensor dtype mismatch! Expected: {}, Got: {}", torch_name(dtype), torch_name(got));
    }
    if let Some(sizes) = c.optional_ints("size")? {
        let got: Vec<i64> = c.layout("a")?.sizes.iter().map(|&n| n as i64).collect();
        ensure!(sizes == got, "Tensor sizes mismatch! Expected: {sizes:?}, Got: {got:?}");
    }
    Ok(vec![])
}

/// A number known now must hold; a symbolic one was checked by whoever bound it.
fn assert_scalar(c: &Call<'_>, _: &Builder) -> Result<Outs> {
    let holds = c.scalar("self")?.known().is_none_or(|n| !n.is_zero());
    ensure!(holds, "{}", c.string("assert_msg")?.unwrap_or("assertion failed"));
    Ok(vec![])
}

fn constrain_range(c: &Call<'_>, _: &Builder) -> Result<Outs> {
    let Scalar::Known(n) = c.scalar("size")? else { return Ok(vec![]) };
    let n = n.as_i64();
    let low = c.optional_int("min")?.unwrap_or(i64::MIN);
    let high = c.optional_int("max")?.unwrap_or(i64::MAX);
    ensure!((low..=high).contains(&n), "Invalid value range for {n} between [{low}, {high}].");
    Ok(vec![])
}

/// The token that orders effects in a functional program.
fn token(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    one(c.tensor(b, "dep_token")?)
}
