//! Comparisons.

use super::expr::Expr;
use super::support::{Operand, align, elementwise, not_implemented, pair, result_type, torch_name};
use super::{Call, OpDef, Outs, Sample, err, ok, one};
use crate::builder::Builder;
use crate::error::Result;
use crate::{Comparison, DType, Reducer, Unary, ensure, ensure_kernel};

/// A comparison's overload with a tensor, under both of its names.
macro_rules! with_tensor {
    ($name:ident, $op:ident, $samples:expr) => {
        OpDef::new(
            concat!("aten::", stringify!($name), ".Tensor(Tensor self, Tensor other) -> Tensor"),
            |c, b| compare(c, b, Comparison::$op),
            $samples,
        )
        .variants(&[concat!(stringify!($name), "_.Tensor"), concat!(stringify!($name), ".Tensor_out")])
    };
}

/// A comparison's overload with a number.
macro_rules! with_scalar {
    ($name:ident, $op:ident, $samples:expr) => {
        OpDef::new(
            concat!("aten::", stringify!($name), ".Scalar(Tensor self, Scalar other) -> Tensor"),
            |c, b| compare(c, b, Comparison::$op),
            $samples,
        )
        .variants(&[concat!(stringify!($name), "_.Scalar"), concat!(stringify!($name), ".Scalar_out")])
    };
}

pub(super) static OPS: &[OpDef] = &[
    with_tensor!(eq, Eq, EQUALITY),
    with_scalar!(eq, Eq, WITH_NUMBER),
    with_tensor!(ne, Ne, EQUALITY),
    with_scalar!(ne, Ne, WITH_NUMBER),
    with_tensor!(not_equal, Ne, EQUALITY),
    with_scalar!(not_equal, Ne, WITH_NUMBER),
    with_tensor!(lt, Lt, ORDER),
    with_scalar!(lt, Lt, WITH_NUMBER),
    with_tensor!(less, Lt, ORDER),
    with_scalar!(less, Lt, WITH_NUMBER),
    with_tensor!(le, Le, ORDER),
    with_scalar!(le, Le, WITH_NUMBER),
    with_tensor!(less_equal, Le, ORDER),
    with_scalar!(less_equal, Le, WITH_NUMBER),
    with_tensor!(gt, Gt, ORDER),
    with_scalar!(gt, Gt, WITH_NUMBER),
    with_tensor!(greater, Gt, ORDER),
    with_scalar!(greater, Gt, WITH_NUMBER),
    with_tensor!(ge, Ge, ORDER),
    with_scalar!(ge, Ge, WITH_NUMBER),
    with_tensor!(greater_equal, Ge, ORDER),
    with_scalar!(greater_equal, Ge, WITH_NUMBER),
    OpDef::new(
        "aten::isclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> Tensor",
        isclose,
        &[
            ok("f32[3,4], f32[4]"),
            ok("f32[6]{nan,inf,-inf,1,inf,2}, f32[6]{nan,inf,inf,1.000001,1,2.1}"),
            ok("f32[6]{nan,inf,-inf,1,inf,2}, f32[6]{nan,inf,inf,1.000001,1,2.1}, equal_nan=true"),
            ok("i64[9], i64[9], 0.5, 1"),
            ok("f32[9], f32[9], 0, 0"),
            ok("bool[4], bool[4]"),
            err("f32[2], f64[2]", "Float did not match Double"),
            err("f32[2], f32[2], -1", "rtol must be greater than or equal to zero, but got -1"),
        ],
    ),
    OpDef::new(
        "aten::isin.Tensor_Tensor(Tensor elements, Tensor test_elements, *, bool assume_unique=False, bool invert=False) -> Tensor",
        |c, b| isin(c, b, "elements", "test_elements"),
        &[
            ok("i64[3,4], i64[5]"),
            ok("i64[9], i64[2,2], invert=true"),
            ok("f32[4]{nan,1,2,-0.0}, f32[3]{nan,0,2}"),
            ok("i64[3], i64[0]"),
            ok("i64[], f32[3]"),
            err("c64[3], i64[3]", "Unsupported input type encountered for isin(): ComplexFloat"),
            err("i64[3], bool[3]", "Unsupported input type encountered for isin(): Bool"),
        ],
    )
    .variants(&["isin.Tensor_Tensor_out"]),
    OpDef::new(
        "aten::isin.Tensor_Scalar(Tensor elements, Scalar test_element, *, bool assume_unique=False, bool invert=False) -> Tensor",
        |c, b| isin(c, b, "elements", "test_element"),
        &[ok("i64[9], 2"), ok("f32[9], 0, invert=true")],
    )
    .variants(&["isin.Tensor_Scalar_out"]),
    OpDef::new(
        "aten::isin.Scalar_Tensor(Scalar element, Tensor test_elements, *, bool assume_unique=False, bool invert=False) -> Tensor",
        |c, b| isin(c, b, "element", "test_elements"),
        &[ok("2, i64[9]")],
    )
    .variants(&["isin.Scalar_Tensor_out"]),
];

const EQUALITY: &[Sample] = &[
    ok("f32[3,4]{0..2}, f32[4]{0..2}"),
    ok("f32[5]{nan,inf,-0.0,1,2}, f32[5]{nan,inf,0,1,3}"),
    ok("i64[9]{0..3}, i32[9]{0..3}"),
    ok("i64[9]{0..3}, f32[]{1}"),
    ok("bool[4], bool[4]"),
    ok("c64[2]{1}, c64[2]{1}"),
    ok("bf16[9]{0..2}, bf16[]{1}"),
    err("f32[3], f32[4]", "must match the size of tensor b (4)"),
];
const ORDER: &[Sample] = &[
    ok("f32[3,4], f32[4]"),
    ok("f32[5]{nan,inf,-0.0,1,2}, f32[5]{1,inf,0,nan,3}"),
    ok("i64[9]{0..3}, i32[9]{0..3}"),
    ok("u8[9], i8[9]"),
    ok("bool[4], bool[4]"),
    ok("f32[0], f32[1]"),
    err("c64[2], c64[2]", "not implemented for 'ComplexFloat'"),
];
const WITH_NUMBER: &[Sample] =
    &[ok("f32[3,4], 0"), ok("i64[9]{0..3}, 1"), ok("i64[9]{0..3}, 0.5"), ok("bool[4], true"), ok("bf16[9], 0.1")];

fn compare(c: &Call<'_>, b: &Builder, op: Comparison) -> Result<Outs> {
    let (x, y, dtype) = pair(c, b, c.operand(b, "self")?, c.operand(b, "other")?)?;
    let ordered = !matches!(op, Comparison::Eq | Comparison::Ne);
    if ordered && dtype.is_complex() {
        return not_implemented(&format!("{op:?}").to_lowercase(), dtype);
    }
    one(b.compare(op, x, y)?)
}

/// Equal, or finite and no further apart than `atol + rtol * |other|`.
fn isclose(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (x, y) = (c.tensor(b, "self")?, c.tensor(b, "other")?);
    let (dx, dy) = (b.dtype(x), b.dtype(y));
    ensure!(dx == dy, "{} did not match {}", torch_name(dx), torch_name(dy));
    let (rtol, atol) = (c.float("rtol")?, c.float("atol")?);
    ensure!(rtol >= 0.0, "rtol must be greater than or equal to zero, but got {rtol}");
    ensure!(atol >= 0.0, "atol must be greater than or equal to zero, but got {atol}");
    let equal_nan = c.flag("equal_nan")?;
    let operands = [x.into(), y.into()];
    let aligned = align(c, b, &operands, result_type(c, b, &operands)?)?;
    let [x, y] = [aligned[0], aligned[1]];
    let wide = if dx.is_float() || dx.is_complex() { dx } else { DType::F64 };
    let near = elementwise(c, b, [x.into(), y.into()], wide, |[x, y]| {
        let (apart, allowed) = ((x - y).abs(), y.abs() * rtol + atol);
        apart.is_finite() & apart.at_most(allowed)
    })?;
    one(super::expr::formula(b, [x, y], |[x, y]| {
        let same = x.equals(y);
        let same = if equal_nan { same | (x.is_nan() & y.is_nan()) } else { same };
        if rtol == 0.0 && atol == 0.0 { same } else { same | Expr::of(near, x) }
    })?)
}

/// Whether each element equals any of the others.
fn isin(c: &Call<'_>, b: &Builder, elements: &str, others: &str) -> Result<Outs> {
    let operands = [c.operand(b, elements)?, c.operand(b, others)?];
    for operand in &operands {
        let dtype = result_type(c, b, std::slice::from_ref(operand))?;
        let ordered = dtype != DType::Bool && !dtype.is_complex();
        ensure_kernel!(ordered, "Unsupported input type encountered for isin(): {}", torch_name(dtype));
    }
    let dtype = result_type(c, b, &operands)?;
    let value = |o: &Operand| Ok::<_, crate::Error>(align(c, b, std::slice::from_ref(o), dtype)?[0]);
    let (x, y) = (value(&operands[0])?, value(&operands[1])?);
    let (shape, count) = (b.shape(x), b.ty(y)?.numel());
    let mut table = shape.clone();
    table.push(count);
    let dims: Vec<usize> = (0..shape.len()).collect();
    let rows = b.broadcast_in_dim(x, &table, &dims)?;
    let columns = b.broadcast_in_dim(b.reshape(y, &[count])?, &table, &[shape.len()])?;
    let any = b.reduce(b.compare(Comparison::Eq, rows, columns)?, Reducer::Or, &[shape.len()])?;
    one(if c.flag("invert")? { b.unary(Unary::Not, any)? } else { any })
}
