//! Activation functions.

use super::choice::clamp;
use super::creation::int;
use super::expr::{Expr, Term, wide_formula};
use super::pointwise::unary;
use super::support::{Operand, dim, elementwise, elementwise_rounded, not_implemented, promote_all};
use super::{Call, OpDef, Outs, Sample, Scalar, err, ok, one};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::literal::Number;
use crate::{DType, ensure, ensure_kernel};
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, SQRT_2};

pub(super) static OPS: &[OpDef] = &[
    unary!(
        relu,
        &[
            ok("f32[3,4]"),
            ok("f32[5]{nan,inf,-inf,-0.0,0}"),
            ok("bf16[9]"),
            ok("i64[5]"),
            ok("u8[5]"),
            err("bool[2]", "Boolean inputs not supported for relu"),
            err("c64[2]", "clamp is not supported for complex types"),
        ]
    ),
    OpDef::new(
        "aten::relu6(Tensor self) -> Tensor",
        |c, b| one(hardtanh(c, b, int(0), int(6))?),
        &[ok("f32[9]{-2..9}"), ok("f32[3]{nan,inf,-inf}"), ok("i64[5]")],
    )
    .variants(&["relu6_"]),
    OpDef::new(
        "aten::hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor",
        |c, b| one(hardtanh(c, b, c.scalar("min_val")?, c.scalar("max_val")?)?),
        &[
            ok("f32[9]"),
            ok("f32[3]{nan,inf,-inf}"),
            ok("bf16[9], -0.1, 2"),
            ok("i64[5], 0, 6"),
            ok("i64[5], -0.5, 2.5"),
            err("bool[2]", "Bool inputs not supported for hardtanh"),
        ],
    )
    .variants(&["hardtanh_", "hardtanh.out"]),
    OpDef::new(
        "aten::leaky_relu(Tensor self, Scalar negative_slope=0.01) -> Tensor",
        |c, b| one(on_floats(c, b, "leaky_relu", ["self", "negative_slope"], |[x, slope]| leaky_relu(x, slope))?),
        SIMPLE,
    )
    .variants(&["leaky_relu_", "leaky_relu.out"]),
    OpDef::new(
        "aten::elu(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor",
        |c, b| {
            let names = ["self", "alpha", "scale", "input_scale"];
            one(on_floats(c, b, "elu", names, |[x, alpha, scale, input_scale]| {
                elu(x, alpha * scale, scale, input_scale)
            })?)
        },
        &[
            ok("f32[9]"),
            ok("f32[9], 1.5, 0.5, 2"),
            ok("f32[4]{nan,inf,-inf,-1e-8}"),
            ok("bf16[9]"),
            err("i64[3]", "not implemented for 'Long'"),
        ],
    )
    .variants(&["elu_", "elu.out"]),
    OpDef::new(
        "aten::celu(Tensor self, Scalar alpha=1.0) -> Tensor",
        |c, b| {
            ensure!(!c.scalar("alpha")?.is_zero(), "ZeroDivisionError: alpha cannot be 0 for CELU");
            one(on_floats(c, b, "celu", ["self", "alpha"], |[x, alpha]| elu(x, alpha, 1.0, 1.0 / alpha))?)
        },
        &[
            ok("f32[9]"),
            ok("f32[9], 2"),
            ok("bf16[9]"),
            err("f32[2], 0", "alpha cannot be 0 for CELU"),
            err("f32[2], 1e300", "value cannot be converted to type float without overflow"),
        ],
    )
    .variants(&["celu_", "celu.out"]),
    OpDef::new(
        "aten::selu(Tensor self) -> Tensor",
        |c, b| {
            one(on_floats(c, b, "selu", ["self"], |[x]| elu(x, x.constant(SELU_ALPHA * SELU_SCALE), SELU_SCALE, 1.0))?)
        },
        SIMPLE,
    )
    .variants(&["selu_"]),
    OpDef::new(
        "aten::gelu(Tensor self, *, str approximate=\"none\") -> Tensor",
        |c, b| {
            let tanh = is_tanh(c)?;
            one(on_floats(c, b, "gelu", ["self"], |[x]| if tanh { gelu_tanh(x) } else { gelu(x) })?)
        },
        &[
            ok("f32[3,4]{-4..4}"),
            ok("f32[3,4], approximate='tanh'"),
            ok("f64[9]{-9..9}"),
            ok("bf16[9]{-4..4}"),
            ok("bf16[9], approximate='tanh'"),
            ok("f32[4]{nan,-20,20,-0.0}"),
            err("f32[2], approximate='erf'", "approximate argument must be either none or tanh."),
            err("i64[3]", "not implemented for 'Long'"),
        ],
    )
    .variants(&["gelu_", "gelu.out"]),
    unary!(
        silu,
        &[
            ok("f32[3,4]"),
            ok("f32[3]{nan,inf,-200}"),
            ok("bf16[9]"),
            ok("c64[3]"),
            err("i64[3]", "not implemented for 'Long'")
        ]
    ),
    unary!(mish, SIMPLE),
    OpDef::new(
        "aten::softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor",
        |c, b| {
            one(on_floats(c, b, "softplus", ["self", "beta", "threshold"], |[x, beta, threshold]| {
                let scaled = x * beta;
                scaled.greater(threshold).select(x, scaled.exp().ln_1p() / beta)
            })?)
        },
        &[
            ok("f32[9]"),
            ok("f32[9], 2, 3"),
            ok("f32[5]{100,-100,nan,inf,-inf}"),
            ok("bf16[9]"),
            err("i64[3]", "not implemented for 'Long'"),
        ],
    )
    .variants(&["softplus.out"]),
    unary!(hardsigmoid, SIMPLE),
    unary!(hardswish, SIMPLE),
    OpDef::new(
        "aten::hardshrink(Tensor self, Scalar lambd=0.5) -> Tensor",
        |c, b| {
            one(on_rounded_floats(c, b, "hardshrink", ["self", "lambd"], |[x, lambd]| {
                within(x, lambd).select(x.constant(0.0), x)
            })?)
        },
        SIMPLE,
    )
    .variants(&["hardshrink.out"]),
    OpDef::new(
        "aten::softshrink(Tensor self, Scalar lambd=0.5) -> Tensor",
        softshrink,
        &[
            ok("f32[9]"),
            ok("f32[9], 0"),
            ok("f32[4]{nan,inf,-inf,0.5}"),
            ok("bf16[9]"),
            err("f32[2], -1", "lambda must be in range [0, "),
            err("i64[3]", "not implemented for 'Long'"),
        ],
    )
    .variants(&["softshrink.out"]),
    OpDef::new(
        "aten::threshold(Tensor self, Scalar threshold, Scalar value) -> Tensor",
        |c, b| {
            let v = c.tensor(b, "self")?;
            c.require_fit(&c.scalar("threshold")?, b.dtype(v).accumulator())?;
            c.require_fit(&c.scalar("value")?, b.dtype(v))?;
            let operands = [v.into(), c.operand(b, "threshold")?, c.operand(b, "value")?];
            one(elementwise(c, b, operands, b.dtype(v), |[x, threshold, value]| x.at_most(threshold).select(value, x))?)
        },
        &[
            ok("f32[9], 0.5, 20"),
            ok("f32[3]{nan,inf,0.5}, 0.5, 1"),
            ok("i64[9], 1, 7"),
            ok("bf16[9], 0.1, -1"),
            ok("f16[9], 100000.0, -1"),
            err("f16[9], 0.1, 100000.0", "value cannot be converted to type c10::Half without overflow"),
        ],
    )
    .variants(&["threshold_", "threshold.out"]),
    OpDef::new(
        "aten::_prelu_kernel(Tensor self, Tensor weight) -> Tensor",
        |c, b| one(on_floats(c, b, "prelu", ["self", "weight"], |[x, w]| x.greater(0.0).select(x, w * x))?),
        &[ok("f32[2,3], f32[1,3]"), ok("bf16[9], bf16[1]"), err("i64[3], i64[1]", "not implemented for 'Long'")],
    ),
    OpDef::new(
        "aten::prelu(Tensor self, Tensor weight) -> Tensor",
        prelu,
        &[
            ok("f32[2,3,4], f32[3]"),
            ok("f32[2,3,4], f32[1]"),
            ok("f32[2,3], f32[]"),
            ok("f32[], f32[1]"),
            err("f32[2,3], f32[4]", "Found parameter numbers = 4, and channel size = 3."),
        ],
    ),
    OpDef::new(
        "aten::glu(Tensor self, int dim=-1) -> Tensor",
        |c, b| one(glu(c, b)?),
        &[
            ok("f32[3,4]"),
            ok("f32[4,3], 0"),
            ok("bf16[2,6,3], 1"),
            err("f32[3,3]", "Halving dimension must be even, but dimension 1 is size 3"),
            err("f32[]", "glu does not support 0-dimensional tensors"),
        ],
    )
    .variants(&["glu.out"]),
    OpDef::new(
        "aten::log_sigmoid(Tensor self) -> Tensor",
        |c, b| one(on_floats(c, b, "log_sigmoid", ["self"], |[x]| log_sigmoid(x))?),
        SIMPLE,
    )
    .variants(&["log_sigmoid.out"]),
    OpDef::new(
        "aten::log_sigmoid_forward(Tensor self) -> (Tensor output, Tensor buffer)",
        |c, b| {
            let output = on_floats(c, b, "log_sigmoid", ["self"], |[x]| log_sigmoid(x))?;
            let buffer = on_floats(c, b, "log_sigmoid", ["self"], |[x]| (-x.abs()).exp())?;
            super::many([output, buffer])
        },
        SIMPLE,
    )
    .variants(&["log_sigmoid_forward.output"]),
];

const SELU_ALPHA: f64 = 1.673_263_242_354_377_2;
const SELU_SCALE: f64 = 1.050_700_987_355_480_5;

/// Samples that suit every activation of floats.
pub(super) const SIMPLE: &[Sample] = &[
    ok("f32[3,4]{-5..5}"),
    ok("f32[6]{nan,inf,-inf,-0.0,3,-3}"),
    ok("f64[]"),
    ok("bf16[9]"),
    ok("f16[0]"),
    err("i64[3]", "not implemented for 'Long'"),
];

/// `f` on the arguments `names`: tensors, promoted to their common float type, and numbers.
pub(super) fn on_floats<const N: usize>(
    c: &Call<'_>,
    b: &Builder,
    op: &str,
    names: [&str; N],
    f: impl for<'e> FnOnce([Expr<'e>; N]) -> Expr<'e>,
) -> Result<ValueId> {
    let (dtype, operands) = (real_type(c, b, op, &names)?, operands(c, b, names)?);
    require_fit(c, &operands, dtype.accumulator())?;
    elementwise(c, b, operands, dtype, f)
}

/// [`on_floats`] for kernels that round their numbers first.
pub(super) fn on_rounded_floats<const N: usize>(
    c: &Call<'_>,
    b: &Builder,
    op: &str,
    names: [&str; N],
    f: impl for<'e> FnOnce([Expr<'e>; N]) -> Expr<'e>,
) -> Result<ValueId> {
    let (dtype, operands) = (real_type(c, b, op, &names)?, operands(c, b, names)?);
    require_fit(c, &operands, dtype)?;
    elementwise_rounded(c, b, operands, dtype, f)
}

/// [`float_type`], which is to be a real one.
fn real_type(c: &Call<'_>, b: &Builder, op: &str, names: &[&str]) -> Result<DType> {
    match float_type(c, b, op, names)? {
        dtype if dtype.is_float() => Ok(dtype),
        dtype => not_implemented(op, dtype),
    }
}

/// Refuses numbers that the kernels, which compute in `dtype`, cannot take over.
fn require_fit(c: &Call<'_>, operands: &[Operand], dtype: DType) -> Result<()> {
    operands.iter().try_for_each(|operand| match operand {
        Operand::Scalar(number) => c.require_fit(number, dtype),
        Operand::Tensor(_) => Ok(()),
    })
}

/// The tensors and numbers `names`.
pub(super) fn operands<const N: usize>(c: &Call<'_>, b: &Builder, names: [&str; N]) -> Result<[Operand; N]> {
    let mut operands = names.map(|_| Operand::Scalar(Scalar::Known(Number::Int(0))));
    for (operand, name) in operands.iter_mut().zip(names) {
        *operand = c.operand(b, name)?;
    }
    Ok(operands)
}

/// The common type of the tensors among `names`.
fn float_type(c: &Call<'_>, b: &Builder, op: &str, names: &[&str]) -> Result<DType> {
    let mut common: Option<DType> = None;
    for name in names {
        if let Operand::Tensor(v) = c.operand(b, name)? {
            common = promote_all(common.into_iter().chain([b.dtype(v)]))?;
        }
    }
    common.ok_or_else(|| crate::Error::internal(format!("{op} without a tensor")))
}

fn relu(_: &Call<'_>, b: &Builder, v: ValueId) -> Result<ValueId> {
    let dtype = b.dtype(v);
    ensure_kernel!(dtype != DType::Bool, "Boolean inputs not supported for relu");
    ensure_kernel!(!dtype.is_complex(), "clamp is not supported for complex types");
    super::expr::formula(b, [v], |[x]| x.max(0.0))
}

fn hardtanh(c: &Call<'_>, b: &Builder, low: Scalar, high: Scalar) -> Result<ValueId> {
    let v = c.tensor(b, "self")?;
    ensure!(b.dtype(v) != DType::Bool, "Bool inputs not supported for hardtanh");
    let bound = |s: Scalar| match b.dtype(v).is_float() {
        true => Ok(s.into()),
        false => c.scalar_value(b, &s, b.dtype(v)).map(Into::into), // whole numbers stay what they are
    };
    clamp(c, b, v.into(), Some(bound(low)?), Some(bound(high)?))
}

pub(super) fn leaky_relu<'e>(x: Expr<'e>, slope: Expr<'e>) -> Expr<'e> {
    x.greater(0.0).select(x, x * slope)
}

/// `x * positive` above zero, else `negative * (exp(x * input_scale) - 1)`.
fn elu<'e>(x: Expr<'e>, negative: Expr<'e>, positive: impl Term<'e>, input_scale: impl Term<'e>) -> Expr<'e> {
    x.less(0.0).select((x * input_scale).exp_m1() * negative, x * positive)
}

/// Whether GELU is to be approximated by `tanh`.
pub(super) fn is_tanh(c: &Call<'_>) -> Result<bool> {
    match c.string("approximate")? {
        Some("none") => Ok(false),
        Some("tanh") => Ok(true),
        _ => crate::invalid!("approximate argument must be either none or tanh."),
    }
}

fn gelu(x: Expr<'_>) -> Expr<'_> {
    x * 0.5 * ((x * FRAC_1_SQRT_2).erf() + 1.0)
}

/// `sqrt(2 / pi)`.
pub(super) const GELU_BETA: f64 = SQRT_2 * FRAC_2_SQRT_PI * 0.5;
/// The cubic term's weight in GELU's approximation.
pub(super) const GELU_KAPPA: f64 = 0.044715;

fn gelu_tanh(x: Expr<'_>) -> Expr<'_> {
    let inner = (x + x * x * x * GELU_KAPPA) * GELU_BETA;
    x * 0.5 * (inner.tanh() + 1.0)
}

fn silu(_: &Call<'_>, b: &Builder, v: ValueId) -> Result<ValueId> {
    match b.dtype(v) {
        d if d.is_float() || d.is_complex() => wide_formula(b, [v], |[x]| x * x.logistic()),
        d => not_implemented("silu", d),
    }
}

fn mish(c: &Call<'_>, b: &Builder, _: ValueId) -> Result<ValueId> {
    on_floats(c, b, "mish", ["self"], |[x]| x * x.exp().ln_1p().tanh())
}

/// `relu6(x + 3)`.
fn ramp(x: Expr<'_>) -> Expr<'_> {
    (x + 3.0).max(0.0).min(6.0)
}

fn hardsigmoid(c: &Call<'_>, b: &Builder, _: ValueId) -> Result<ValueId> {
    on_floats(c, b, "hardsigmoid", ["self"], |[x]| ramp(x) / 6.0)
}

fn hardswish(c: &Call<'_>, b: &Builder, _: ValueId) -> Result<ValueId> {
    on_floats(c, b, "hardswish", ["self"], |[x]| x * ramp(x) / 6.0)
}

/// With six digits, as C++ prints a number by default.
fn as_printed(n: f64) -> String {
    if n < 1e6 { n.to_string() } else { format!("{n:.5e}").replace('e', "e+") }
}

/// Whether `-bound <= x <= bound`.
pub(super) fn within<'e>(x: Expr<'e>, bound: Expr<'e>) -> Expr<'e> {
    x.at_least(-bound) & x.at_most(bound)
}

fn softshrink(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let lambd = c.scalar("lambd")?;
    let dtype = c.dtype_of("self")?;
    ensure!(
        !dtype.is_float() || c.requires(&lambd, move |n| (0.0..=dtype.largest()).contains(&n)),
        "lambda must be in range [0, {}] for input dtype {}, but found {}",
        as_printed(dtype.largest()),
        super::support::torch_name(dtype),
        lambd.now().as_f64()
    );
    one(on_rounded_floats(c, b, "softshrink", ["self", "lambd"], |[x, lambd]| {
        let low = x.less(-lambd).select(x + lambd, x * 0.0);
        x.greater(lambd).select(x - lambd, low)
    })?)
}

/// One weight for all, or one per channel (dimension 1).
fn prelu(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (v, weight) = (c.tensor(b, "self")?, c.tensor(b, "weight")?);
    let shape = b.shape(v);
    let count = b.ty(weight)?.numel();
    let mut per_channel: crate::Shape = shape.iter().map(|_| 1).collect();
    if count != 1 {
        ensure!(!shape.is_empty(), "Not allow zero-dim input tensor.");
        let channels = shape.get(1).copied().unwrap_or(1);
        ensure!(
            channels == count,
            "Mismatch of parameter numbers and input channel size. Found parameter numbers = {count}, and channel size = {channels}."
        );
        per_channel[1] = count;
    }
    let weight = b.reshape(weight, &per_channel)?;
    let dtype = b.dtype(v);
    one(elementwise(c, b, [v.into(), weight.into()], dtype, |[x, w]| x.greater(0.0).select(x, w * x))?)
}

/// The two halves of the argument `name` along `dim`, with that dimension.
pub(super) fn halves(c: &Call<'_>, b: &Builder, name: &str) -> Result<(ValueId, ValueId, usize)> {
    let v = c.tensor(b, name)?;
    let shape = b.shape(v);
    ensure!(!shape.is_empty(), "glu does not support 0-dimensional tensors");
    let d = dim(c.int("dim")?, shape.len())?;
    let n = shape[d];
    ensure!(n.is_multiple_of(2), "Halving dimension must be even, but dimension {d} is size {n}");
    Ok((b.slice_dim(v, d, 0, n / 2, 1)?, b.slice_dim(v, d, n / 2, n, 1)?, d))
}

fn glu(c: &Call<'_>, b: &Builder) -> Result<ValueId> {
    let (x, gate, _) = halves(c, b, "self")?;
    if !b.dtype(x).is_float() {
        return not_implemented("glu", b.dtype(x));
    }
    wide_formula(b, [x, gate], |[x, gate]| x * gate.logistic())
}

fn log_sigmoid(x: Expr<'_>) -> Expr<'_> {
    x.min(0.0) - (-x.abs()).exp().ln_1p()
}
