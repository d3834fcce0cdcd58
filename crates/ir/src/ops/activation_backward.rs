//! Gradients of activation functions.

use super::activation::{GELU_BETA, GELU_KAPPA, halves, is_tanh, on_floats, on_rounded_floats, operands, within};
use super::expr::{Expr, wide_formula};
use super::support::{elementwise, not_implemented};
use super::{Call, OpDef, Outs, Sample, Strides, err, many, ok, one};
use crate::builder::Builder;
use crate::error::Result;
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

/// `aten::NAME(Tensor grad_output, Tensor self) -> Tensor`.
macro_rules! backward {
    ($name:literal, [$($variant:literal),*], |$g:ident, $x:ident| $formula:expr) => {
        OpDef::new(
            concat!("aten::", $name, "(Tensor grad_output, Tensor self) -> Tensor"),
            |c, b| one(on_floats(c, b, $name, ["grad_output", "self"], |[$g, $x]| $formula)?),
            PAIRS,
        )
        .variants(&[$($variant),*])
    };
}

pub(super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::threshold_backward(Tensor grad_output, Tensor self, Scalar threshold) -> Tensor",
        |c, b| {
            let [g, x, threshold] = operands(c, b, ["grad_output", "self", "threshold"])?;
            let dtype = super::support::result_type(c, b, &[g.clone(), x.clone()])?;
            one(elementwise(c, b, [g, x, threshold], dtype, |[g, x, t]| x.at_most(t).select(g.constant(0.0), g))?)
        },
        &[
            ok("f32[3,4], f32[3,4], 0"),
            ok("f32[3], f32[3]{nan,0,1}, 0"),
            ok("bf16[9], bf16[9], 0.1"),
            ok("i64[9], i64[9], 1"),
        ],
    )
    .variants(&["threshold_backward.grad_input"]),
    OpDef::new(
        "aten::gelu_backward(Tensor grad_output, Tensor self, *, str approximate=\"none\") -> Tensor",
        |c, b| {
            let tanh = is_tanh(c)?;
            one(on_floats(c, b, "gelu_backward", ["grad_output", "self"], |[g, x]| {
                g * if tanh { gelu_tanh_slope(x) } else { gelu_slope(x) }
            })?)
        },
        &[
            ok("f32[3,4], f32[3,4]"),
            ok("f32[3,4], f32[3,4], approximate='tanh'"),
            ok("bf16[9], bf16[9]"),
            ok("f64[9], f64[9], approximate='tanh'"),
            err("i64[3], i64[3]", "not implemented for 'Long'"),
        ],
    )
    .variants(&["gelu_backward.grad_input"]),
    backward!("silu_backward", ["silu_backward.grad_input"], |g, x| {
        let s = x.logistic();
        g * s * (x * (1.0 - s) + 1.0)
    }),
    backward!("mish_backward", [], |g, x| {
        let t = x.exp().ln_1p().tanh();
        g * (t + x * x.logistic() * (1.0 - t * t))
    }),
    backward!("hardsigmoid_backward", ["hardsigmoid_backward.grad_input"], |g, x| {
        (x.greater(-3.0) & x.less(3.0)).select(g / 6.0, 0.0)
    }),
    backward!("hardswish_backward", ["hardswish_backward.out"], |g, x| {
        let inner = x.less(3.0).select(g * (x / 3.0 + 0.5), g);
        x.at_most(-3.0).select(g.constant(0.0), inner)
    }),
    OpDef::new(
        "aten::hardtanh_backward(Tensor grad_output, Tensor self, Scalar min_val, Scalar max_val) -> Tensor",
        |c, b| {
            let names = ["grad_output", "self", "min_val", "max_val"];
            one(on_floats(c, b, "hardtanh_backward", names, |[g, x, low, high]| {
                (x.at_most(low) | x.at_least(high)).select(g.constant(0.0), g)
            })?)
        },
        &[ok("f32[9], f32[9], -1, 1"), ok("bf16[9], bf16[9], 0, 6"), ok("f32[3], f32[3]{nan,-1,1}, -1, 1")],
    )
    .variants(&["hardtanh_backward.grad_input"]),
    OpDef::new(
        "aten::hardshrink_backward(Tensor grad_out, Tensor self, Scalar lambd) -> Tensor",
        |c, b| {
            one(on_rounded_floats(c, b, "hardshrink_backward", ["grad_out", "self", "lambd"], |[g, x, lambd]| {
                within(x, lambd).select(g.constant(0.0), g)
            })?)
        },
        &[ok("f32[9], f32[9], 0.5"), ok("bf16[9], bf16[9], 1")],
    )
    .variants(&["hardshrink_backward.grad_input"]),
    OpDef::new(
        "aten::softshrink_backward(Tensor grad_output, Tensor self, Scalar lambd) -> Tensor",
        |c, b| {
            one(on_rounded_floats(c, b, "softshrink_backward", ["grad_output", "self", "lambd"], |[g, x, lambd]| {
                within(x, lambd).select(g.constant(0.0), g)
            })?)
        },
        &[ok("f32[9], f32[9], 0.5"), ok("bf16[9], bf16[9], 1")],
    )
    .variants(&["softshrink_backward.grad_input"]),
    OpDef::new(
        "aten::leaky_relu_backward(Tensor grad_output, Tensor self, Scalar negative_slope, bool self_is_result) -> Tensor",
        |c, b| {
            let names = ["grad_output", "self", "negative_slope"];
            one(on_floats(c, b, "leaky_relu_backward", names, |[g, x, slope]| x.greater(0.0).select(g, g * slope))?)
        },
        &[ok("f32[9], f32[9], 0.1, false"), ok("bf16[9], bf16[9], 0.1, true")],
    )
    .variants(&["leaky_relu_backward.grad_input"]),
    OpDef::new(
        "aten::elu_backward(Tensor grad_output, Scalar alpha, Scalar scale, Scalar input_scale, bool is_result, Tensor self_or_result) -> Tensor",
        elu_backward,
        &[
            ok("f32[9], 1, 1, 1, false, f32[9]"),
            ok("f32[9], 1.5, 0.5, 2, false, f32[9]"),
            ok("f32[9], 1.5, 0.5, 2, true, f32[9]"),
            ok("bf16[9], 1, 1, 1, true, bf16[9]"),
        ],
    )
    .variants(&["elu_backward.grad_input"]),
    OpDef::new(
        "aten::softplus_backward(Tensor grad_output, Tensor self, Scalar beta, Scalar threshold) -> Tensor",
        |c, b| {
            let names = ["grad_output", "self", "beta", "threshold"];
            one(on_floats(c, b, "softplus_backward", names, |[g, x, beta, threshold]| {
                let scaled = x * beta;
                scaled.greater(threshold).select(g, g * scaled.logistic())
            })?)
        },
        &[ok("f32[9], f32[9], 1, 20"), ok("f32[9], f32[9]{-100..100}, 2, 3"), ok("bf16[9], bf16[9], 1, 20")],
    )
    .variants(&["softplus_backward.grad_input"]),
    OpDef::new(
        "aten::sigmoid_backward(Tensor grad_output, Tensor output) -> Tensor",
        |c, b| from_output(c, b, |g, y| g * conj((1.0 - y) * y)),
        OUTPUTS,
    )
    .variants(&["sigmoid_backward.grad_input"]),
    OpDef::new(
        "aten::tanh_backward(Tensor grad_output, Tensor output) -> Tensor",
        |c, b| from_output(c, b, |g, y| g * conj(1.0 - y * y)),
        OUTPUTS,
    )
    .variants(&["tanh_backward.grad_input"]),
    OpDef::new(
        "aten::log_sigmoid_backward(Tensor grad_output, Tensor self, Tensor buffer) -> Tensor",
        |c, b| one(on_floats(c, b, "log_sigmoid_backward", ["grad_output", "self"], |[g, x]| g * (-x).logistic())?),
        &[ok("f32[3], f32[3]{0.6931471805599453,-0.6931471805599453,0}, f32[3]{0.5,0.5,1}")],
    )
    .variants(&["log_sigmoid_backward.grad_input"]),
    OpDef::new(
        "aten::logit_backward(Tensor grad_output, Tensor self, float? eps=None) -> Tensor",
        logit_backward,
        &[
            ok("f32[9], f32[9]{0..1}"),
            ok("f32[4]{1}, f32[4]{0,1,-1,nan}"),
            ok("f32[9], f32[9], 0.1"),
            ok("bf16[9], bf16[9]{0..1}, 0.01"),
        ],
    )
    .variants(&["logit_backward.grad_input"]),
    OpDef::new("aten::glu_backward(Tensor grad_output, Tensor self, int dim) -> Tensor", glu_backward, &[
        ok("f32[3,2], f32[3,4], -1"),
        ok("f32[2,3], f32[4,3], 0"),
        ok("f64[3,2], f64[3,4], 1"),
    ])
    .variants(&["glu_backward.grad_input"])
    .laid_out(Strides::Rows),
    OpDef::new("aten::glu_jvp(Tensor glu, Tensor x, Tensor dx, int dim) -> Tensor", glu_jvp, &[
        ok("f32[3,2], f32[3,4], f32[3,4], 1"),
        ok("f64[2,3], f64[4,3], f64[4,3], 0"),
    ])
    .variants(&["glu_jvp.out"]),
    OpDef::new(
        "aten::glu_backward_jvp(Tensor grad_x, Tensor grad_glu, Tensor x, Tensor dgrad_glu, Tensor dx, int dim) -> Tensor",
        glu_backward_jvp,
        &[ok("f32[3,4], f32[3,2], f32[3,4], f32[3,2], f32[3,4], 1")],
    )
    .variants(&["glu_backward_jvp.out"]),
    OpDef::new(
        "aten::_prelu_kernel_backward(Tensor grad_output, Tensor self, Tensor weight) -> (Tensor, Tensor)",
        |c, b| {
            let names = ["grad_output", "self", "weight"];
            let of_self = on_floats(c, b, "prelu_backward", names, |[g, x, w]| x.greater(0.0).select(g, w * g))?;
            let of_weight =
                on_floats(c, b, "prelu_backward", names, |[g, x, _]| x.greater(0.0).select(g.constant(0.0), x * g))?;
            many([of_self, of_weight])
        },
        &[ok("f32[2,3], f32[2,3], f32[1,3]"), ok("bf16[9], bf16[9], bf16[1]")],
    ),
    OpDef::new(
        "aten::rrelu_with_noise_backward(Tensor grad_output, Tensor self, Tensor noise, Scalar lower, Scalar upper, bool training, bool self_is_result) -> Tensor",
        rrelu_backward,
        &[
            ok("f32[9], f32[9], f32[9], 0.1, 0.3, true, false"),
            ok("f32[9], f32[9], f32[9], 0.1, 0.3, false, false"),
        ],
    )
    .variants(&["rrelu_with_noise_backward.out"]),
];

const PAIRS: &[Sample] = &[
    ok("f32[3,4]{-5..5}, f32[3,4]{-5..5}"),
    ok("f32[6]{1,2,3,4,5,6}, f32[6]{nan,50,-50,-0.0,3,-3}"),
    ok("f64[], f64[]"),
    ok("bf16[9], bf16[9]"),
    ok("f16[0], f16[0]"),
    err("i64[3], i64[3]", "not implemented for 'Long'"),
];
const OUTPUTS: &[Sample] =
    &[ok("f32[3,4], f32[3,4]{-1..1}"), ok("bf16[9], bf16[9]{-1..1}"), ok("f64[], f64[]"), ok("c64[4], c64[4]")];

/// The derivative of GELU: the normal distribution plus `x` times its density.
fn gelu_slope(x: Expr<'_>) -> Expr<'_> {
    let distribution = ((x * FRAC_1_SQRT_2).erf() + 1.0) * 0.5;
    let density = (x * x * -0.5).exp() * (FRAC_2_SQRT_PI * FRAC_1_SQRT_2 * 0.5);
    distribution + x * density
}

fn gelu_tanh_slope(x: Expr<'_>) -> Expr<'_> {
    let squared = x * x;
    let t = ((x + x * squared * GELU_KAPPA) * GELU_BETA).tanh();
    let inner_slope = (squared * (3.0 * GELU_KAPPA) + 1.0) * GELU_BETA;
    (t + 1.0) * 0.5 + x * 0.5 * (1.0 - t * t) * inner_slope
}

fn elu_backward(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let is_result = c.flag("is_result")?;
    let names = ["grad_output", "self_or_result", "alpha", "scale", "input_scale"];
    one(on_floats(c, b, "elu_backward", names, |[g, x, alpha, scale, input_scale]| {
        let negative = alpha * scale;
        let below = if is_result {
            g * input_scale * (x + negative)
        } else {
            g * input_scale * negative * (x * input_scale).exp()
        };
        x.at_most(0.0).select(below, g * scale)
    })?)
}

/// The conjugate; a real number is its own.
fn conj(x: Expr<'_>) -> Expr<'_> {
    if x.dtype().is_complex() { x.real().complex(-x.imag()) } else { x }
}

/// A gradient computed from the function's result.
fn from_output(c: &Call<'_>, b: &Builder, f: impl for<'e> FnOnce(Expr<'e>, Expr<'e>) -> Expr<'e>) -> Result<Outs> {
    let operands = operands(c, b, ["grad_output", "output"])?;
    let dtype = super::support::result_type(c, b, &operands)?;
    if !dtype.is_float() && !dtype.is_complex() {
        return not_implemented(&c.schema.name, dtype);
    }
    one(elementwise(c, b, operands, dtype, |[g, y]| f(g, y))?)
}

/// Without `eps` NaN outside of 0..1, with it 0 outside of `eps..1 - eps`.
fn logit_backward(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    if !c.has("eps") {
        return one(on_floats(c, b, "logit_backward", ["grad_output", "self"], |[g, x]| {
            let outside = x.less(0.0) | x.greater(1.0);
            // As the CPU has it: of a negative zero, too, the way is upwards.
            let steep = (x.equals(0.0) | x.equals(1.0)).select(g * f64::INFINITY, g / (x * (1.0 - x)));
            outside.select(x.constant(f64::NAN), steep)
        })?);
    }
    one(on_floats(c, b, "logit_backward", ["grad_output", "self", "eps"], |[g, x, eps]| {
        let outside = x.less(eps) | x.greater(1.0 - eps);
        outside.select(x.constant(0.0), g / (x * (1.0 - x)))
    })?)
}

fn glu_backward(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let grad = c.tensor(b, "grad_output")?;
    let (x, gate, d) = halves(c, b, "self")?;
    let of_x = wide_formula(b, [grad, gate], |[g, gate]| g * gate.logistic())?;
    let of_gate = wide_formula(b, [grad, x, gate], |[g, x, gate]| {
        let s = gate.logistic();
        (1.0 - s) * s * g * x
    })?;
    one(b.concatenate(&[of_x, of_gate], d)?)
}

/// The derivative of `glu` along `dx`, of which it gave `glu`.
fn glu_jvp(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let result = c.tensor(b, "glu")?;
    let ((_, gate, _), (dx, dgate, _)) = (halves(c, b, "x")?, halves(c, b, "dx")?);
    one(wide_formula(b, [result, gate, dx, dgate], |[result, gate, dx, dgate]| {
        let s = gate.logistic();
        dx * s + result * (dgate - s * dgate)
    })?)
}

/// The derivative of `glu_backward` along `dgrad_glu` and `dx`, of which it gave `grad_x`.
fn glu_backward_jvp(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let dgrad = c.tensor(b, "dgrad_glu")?;
    let ((x, gate, d), (dx, dgate, _), (of_x, _, _)) =
        (halves(c, b, "x")?, halves(c, b, "dx")?, halves(c, b, "grad_x")?);
    let along_x = wide_formula(b, [of_x, gate, dgrad, dgate], |[of_x, gate, dgrad, dgate]| {
        let s = gate.logistic();
        s * dgrad + of_x * (1.0 - s) * dgate
    })?;
    let along_gate = wide_formula(b, [x, gate, dx, dgate, of_x, dgrad], |[x, gate, dx, dgate, of_x, dgrad]| {
        let s = gate.logistic();
        (1.0 - s) * (s * x * dgrad + of_x * dx + of_x * x * (1.0 - 2.0 * s) * dgate)
    })?;
    one(b.concatenate(&[along_x, along_gate], d)?)
}

fn rrelu_backward(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    if c.flag("training")? && c.float("upper")? - c.float("lower")? > 1e-6 {
        return one(on_floats(c, b, "rrelu_backward", ["grad_output", "noise"], |[g, noise]| g * noise)?);
    }
    let names = ["grad_output", "self", "lower", "upper"];
    one(on_floats(c, b, "rrelu_backward", names, |[g, x, low, high]| {
        x.greater(0.0).select(g, g * ((low + high) * 0.5))
    })?)
}
