//! Rounding to the steps of a quantised type, in floats: what training for quantisation does.
//!
//! As PyTorch documents it, `(clamp(round(x / scale) + zero_point, quant_min, quant_max) - zero_point) * scale`, and a mask of what
//! was within the range, which gradients pass. Quotients are products with `f32` reciprocals of scales, as in PyTorch.
//!
//! What is beyond 64-bit integers is clamped, infinities too. Of channels and in gradients PyTorch's CPU kernels convert it first, which C++
//! leaves undefined, and x86 makes the least integer of.

use super::expr::{Expr, formula};
use super::support::{self, broadcast_to, not_implemented, torch_name};
use super::{Call, OpDef, Outs, Sample, Strides, err, ok};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::literal::Number;
use crate::op::Reducer;
use crate::{DType, ensure, no_index, unsupported};

pub(super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::fake_quantize_per_tensor_affine_cachemask(Tensor self, float scale, int zero_point, int quant_min, int quant_max) -> (Tensor output, Tensor mask)",
        per_tensor,
        &[
            ok("f32[3,4]{-9..9}, 0.1, 3, -20, 40"),
            ok("f32[8]{nan,inf,-inf,1e30,0.05,0.15,-0.25,-12.85}, 0.1, 3, -128, 127"),
            ok("bf16[9]{-9..9}, 0.25, 0, 0, 15"),
            ok("f16[9]{-9..9}, 0.1, 0, -8, 7"),
            ok("f64[9]{-9..9}, 0.1, 3, -128, 127"),
            ok("f32[]{0.7}, 0.25, 1, -128, 127"),
            ok("f32[0,2], 0.25, 1, -128, 127"),
            ok("f32[3], 0.0, 0, -1, 1"),
            err("f32[3], 0.1, 300, -128, 127", "`zero_point` must be between `quant_min` and `quant_max`"),
            err("f32[3], 0.1, 0, 3, 2", "`quant_min` should be less than or equal to `quant_max`"),
            err("i64[3], 0.1, 0, 0, 2", "not implemented for 'Long'"),
        ],
    )
    .variants(&["fake_quantize_per_tensor_affine_cachemask.out"])
    .laid_out(Strides::ByElement),
    OpDef::new(
        "aten::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams(Tensor self, Tensor scale, Tensor zero_point, Tensor fake_quant_enabled, int quant_min, int quant_max) -> (Tensor output, Tensor mask)",
        per_tensor_of_tensors,
        &[
            ok("f32[3,4]{-9..9}, f32[1]{0.1}, i64[1]{3}, i64[1]{1}, -20, 40"),
            ok("f32[4]{nan,inf,-inf,7}, f32[]{0.1}, i32[]{3}, u8[]{0}, -20, 40"),
            ok("bf16[9]{-9..9}, f64[]{0.1}, f32[]{3.7}, i64[1]{1}, -20, 40"),
            ok("f64[9]{-9..9}, f32[]{0.1}, i64[1]{300}, i64[1]{1}, -128, 127"),
            err("f32[3], f32[2], i64[1], i64[1], -20, 40", "a Tensor with 2 elements cannot be converted to Scalar"),
            err("f32[3], f32[1], i64[1], i64[1], 20, -40", "`quant_min` should be less than or equal to `quant_max`"),
            err("i32[3], f32[1], i64[1], i64[1], 0, 2", "not implemented for 'Int'"),
        ],
    )
    .variants(&["_fake_quantize_per_tensor_affine_cachemask_tensor_qparams.out"])
    .laid_out(Strides::Suggested("self")),
    OpDef::new(
        "aten::fake_quantize_per_channel_affine_cachemask(Tensor self, Tensor scale, Tensor zero_point, int axis, int quant_min, int quant_max) -> (Tensor output, Tensor mask)",
        |c, b| {
            let (scale, zero_point) = (c.tensor(b, "scale")?, c.tensor(b, "zero_point")?);
            per_channel(c, b, scale, zero_point).map(Quantized::outs)
        },
        &[
            ok("f32[3,4]{-9..9}, f32[3]{0.1,0.2,0.3}, i32[3]{3,0,-7}, 0, -20, 40"),
            ok("f32[3,2,4]{-9..9}, f32[2]{0.1,0.2}, i32[2]{3,0}, 1, -20, 40"),
            ok("f32[2,3]{nan,0.05,0.15,nan,-0.25,9}, f32[2]{0.1,0.2}, f32[2]{3.3,1.5}, 0, -20, 40"),
            ok("f64[2,3]{-9..9}, f32[2]{0.1,0.2}, i32[2]{3,1}, 0, -20, 40"),
            ok("bf16[2,3]{-9..9}, f32[2]{0.125,0.25}, f32[2]{300,1.5}, 0, -20, 40"),
            ok("f16[2,3]{-9..9}, f32[2]{0.125,0.25}, f16[2]{3.5,1.5}, 0, -20, 40"),
            ok("f32[2,0], f32[2], i32[2]{0}, 0, -20, 40"),
            err("f32[2,3], f32[2], i64[2], 0, -20, 40", "Zero-point must be Int32, Float or Half, found Long"),
            err("f32[2,3], f16[2], i32[2], 0, -20, 40", "Scale must be Float or BFloat16, found Half"),
            err("f32[2,3], f32[1,2], i32[2], 0, -20, 40", "scale should be a 1-D tensor"),
            err("f32[2,3], f32[2], i32[2,1], 0, -20, 40", "zero point should be a 1-D tensor"),
            err("f32[2,3], f32[2], i32[3], 0, -20, 40", "scale and zero-point need to have the same dimensions"),
            err("f32[2,3], f32[2], i32[2], 1, -20, 40", "not consistent with input tensor"),
            err("f32[2,3], f32[2], i32[2], -2, -20, 40", "`axis` must be between 0 and number of dimensions"),
            err("f32[2,3], f32[2], i32[2], 2, -20, 40", "Dimension out of range"),
            err("f32[2,3], f32[2], i32[2], 0, 20, -40", "`quant_min` should be less than or equal to `quant_max`"),
            err("f32[0,3], f32[0], i32[0], 0, -20, 40", "min(): Expected reduction dim to be specified"),
            err("i64[2,3], f32[2], i32[2]{0}, 0, -20, 40", "not implemented for 'Long'"),
        ],
    )
    .variants(&["fake_quantize_per_channel_affine_cachemask.out"])
    .laid_out(Strides::Suggested("self")),
    OpDef::new(
        "aten::_fake_quantize_learnable_per_tensor_affine(Tensor self, Tensor scale, Tensor zero_point, int quant_min, int quant_max, float grad_factor=1.) -> Tensor",
        |c, b| {
            let zero_point = first(b, c.tensor(b, "zero_point")?)?;
            let zero_point = clamped(Levels::of(c)?, b, b.convert(zero_point, DType::F32)?, round)?;
            let quantized = quantized_by(c, b, first(b, c.tensor(b, "scale")?)?, zero_point)?;
            Ok(vec![Some(quantized.output)])
        },
        &[
            ok("f32[3,4]{-9..9}, f32[1]{0.1}, f32[1]{3.5}, -20, 40"),
            ok("f32[4]{-9..9}, f32[2]{0.1,5}, f32[2]{-2.5,9}, -20, 40, 0.5"),
            ok("f32[4]{-9..9}, f32[1]{0.1}, f32[1]{1000}, -20, 40, 0.5"),
            ok("f64[4]{-9..9}, f64[1]{0.1}, i64[1]{3}, -20, 40, 0.5"),
            ok("bf16[4]{-9..9}, bf16[1]{0.125}, f32[1]{3}, -20, 40, 0.5"),
            err("f32[4], f32[], f32[], -20, 40", "select() cannot be applied to a 0-dim tensor"),
            err("f32[4], f32[1], f32[1], 20, -40", "quant_m"),
        ],
    )
    .variants(&["_fake_quantize_learnable_per_tensor_affine.out"])
    .laid_out(Strides::Suggested("self")),
    OpDef::new(
        "aten::_fake_quantize_learnable_per_tensor_affine_backward(Tensor grad, Tensor self, Tensor scale, Tensor zero_point, int quant_min, int quant_max, float grad_factor=1.) -> (Tensor, Tensor, Tensor)",
        per_tensor_backward,
        &[
            ok("f32[3,4], f32[3,4]{-9..9}, f32[1]{0.1}, f32[1]{3.5}, -20, 40"),
            ok("f32[3,4], f32[3,4]{-9..9}, f32[1]{0.1}, f32[1]{-3.7}, -20, 40, 0.5"),
            ok("f32[3,4], f32[3,4]{-9..9}, f32[2]{0.1,3}, f32[2]{1000,2}, -20, 40, 0.5"),
            ok("f32[0], f32[0], f32[1]{0.1}, f32[1]{3.5}, -20, 40"),
            err("f32[3], f32[3], f64[1], f32[1], -20, 40", "scale.scalar_type() == ScalarType::Float"),
            err("f32[3], f32[3], f32[1], i64[1], -20, 40", "zero_point.scalar_type() == ScalarType::Float"),
            err("f64[3], f32[3], f32[1], f32[1], -20, 40", "dY.scalar_type() == ScalarType::Float"),
            err("f32[3], f16[3], f32[1], f32[1], -20, 40", "X.scalar_type() == ScalarType::Float"),
            err("f32[3], f32[4], f32[1], f32[1], -20, 40", "`X` and `dY` are not the same size"),
            err("f32[3], f32[3], f32[1], f32[1], 1, 40", "the quantization range should include 0"),
            err("f32[3], f32[3], f32[], f32[], -20, 40", "select() cannot be applied to a 0-dim tensor"),
        ],
    ),
    OpDef::new(
        "aten::_fake_quantize_learnable_per_channel_affine(Tensor self, Tensor scale, Tensor zero_point, int axis, int quant_min, int quant_max, float grad_factor=1.) -> Tensor",
        |c, b| {
            let zero_point = clamped(Levels::of(c)?, b, c.tensor(b, "zero_point")?, round)?;
            let zero_point = b.convert(zero_point, DType::I32)?;
            Ok(vec![Some(per_channel(c, b, c.tensor(b, "scale")?, zero_point)?.output)])
        },
        &[
            ok("f32[2,4]{-9..9}, f32[2]{0.1,0.2}, f32[2]{3.5,-2.5}, 0, -20, 40"),
            ok("f32[3,2]{-9..9}, f32[2]{0.1,0.2}, f32[2]{300,-2.5}, 1, -20, 40, 0.5"),
            ok("f64[2,4]{-9..9}, f32[2]{0.1,0.2}, i64[2]{3,1}, 0, -20, 40"),
            err("f32[2,4], f64[2], f32[2], 0, -20, 40", "Scale must be Float or BFloat16, found Double"),
            err("f32[2,4], f32[2], f32[3], 0, -20, 40", "scale and zero-point need to have the same dimensions"),
        ],
    )
    .variants(&["_fake_quantize_learnable_per_channel_affine.out"])
    .laid_out(Strides::Suggested("self")),
    OpDef::new(
        "aten::_fake_quantize_learnable_per_channel_affine_backward(Tensor grad, Tensor self, Tensor scale, Tensor zero_point, int axis, int quant_min, int quant_max, float grad_factor=1.) -> (Tensor, Tensor, Tensor)",
        per_channel_backward,
        &[
            ok("f32[2,4], f32[2,4]{-9..9}, f32[2]{0.1,0.2}, f32[2]{3.5,-2.5}, 0, -20, 40"),
            ok("f32[3,2,2], f32[3,2,2]{-9..9}, f32[2]{0.1,0.2}, f32[2]{300,-2.5}, 1, -20, 40, 0.5"),
            ok("bf16[2,4], bf16[2,4]{-9..9}, bf16[2]{0.125,0.25}, i64[2]{3,-2}, 0, -20, 40"),
            ok("f32[2,0], f32[2,0], f32[2]{0.1,0.2}, f32[2]{3.5,-2.5}, 0, -20, 40"),
            err("f32[2,4], f32[2,4], f32[2], i64[2], 0, -20, 40", "zero_point_.scalar_type() == ScalarType::Float"),
            err("f64[2,4], f64[2,4], f32[2], f32[2], 0, -20, 40", "dY_.scalar_type() == ScalarType::Float"),
            err("f32[4,2], f32[2,4], f32[2], f32[2], 0, -20, 40", "`X` and `dY` are not the same size"),
            err("f32[2,4], f32[2,4], f32[2], f32[2], 0, 2, 40", "Expecting `quant_min` <= 0 and `quant_max` >= 0"),
            err("f32[2,4], f32[2,4], f32[2], f32[2], 1, -2, 40", "not consistent with input tensor"),
            err("f32[2,4], f32[2,4], f32[2], f32[2], -2, -2, 40", "`axis` must be between 0 and number of dimensions"),
        ],
    ),
    OpDef::new(
        "aten::_fused_moving_avg_obs_fq_helper(Tensor self, Tensor observer_on, Tensor fake_quant_on, Tensor(a!) running_min, Tensor(b!) running_max, Tensor(c!) scale, Tensor(d!) zero_point, float averaging_const, int quant_min, int quant_max, int ch_axis, bool per_row_fake_quant=False, bool symmetric_quant=False) -> (Tensor output, Tensor mask)",
        observed,
        OBSERVED,
    )
    .laid_out(Strides::Suggested("self")),
    OpDef::new(
        "aten::_fused_moving_avg_obs_fq_helper_functional(Tensor self, Tensor observer_on, Tensor fake_quant_on, Tensor running_min, Tensor running_max, Tensor scale, Tensor zero_point, float averaging_const, int quant_min, int quant_max, int ch_axis, bool per_row_fake_quant=False, bool symmetric_quant=False) -> (Tensor output, Tensor mask, Tensor running_min_out, Tensor running_max_out, Tensor scale_out, Tensor zero_point_out)",
        observed,
        OBSERVED,
    )
    .laid_out(Strides::Suggested("self")),
];

const OBSERVED: &[Sample] = &[
    ok("f32[6]{-9..9}, i64[1]{1}, i64[1]{1}, f32[1]{inf}, f32[1]{-inf}, f32[1]{1}, i32[1]{0}, 0.1, 0, 255, -1"),
    ok("f32[6]{-9..9}, u8[]{1}, u8[]{1}, f32[]{-1}, f32[]{2}, f32[1]{1}, i64[1]{0}, 0.1, -128, 127, -1, false, true"),
    ok("f32[6]{-9..9}, i64[1]{0}, i64[1]{1}, f32[1]{-1}, f32[1]{2}, f32[1]{1}, i32[1]{0}, 0.1, 0, 255, -1"),
    ok("f32[6]{-9..9}, i64[1]{1}, i64[1]{0}, f32[1]{-1}, f32[1]{2}, f32[1]{1}, i32[1]{7}, 0.1, 0, 255, -1"),
    ok("f32[6]{-9..9}, i64[1]{0}, i64[1]{0}, f32[1]{-1}, f32[1]{2}, f32[1]{1}, i32[1]{7}, 0.1, 0, 255, -1"),
    ok("f32[2,3]{0}, i64[1]{1}, i64[1]{1}, f32[1]{inf}, f32[1]{-inf}, f32[1]{1}, i32[1]{0}, 0.1, -128, 127, -1"),
    ok(
        "f32[3]{1e-5,2e-5,0}, i64[1]{1}, i64[1]{1}, f32[1]{inf}, f32[1]{-inf}, f32[1]{1}, i32[1]{0}, 0.1, -128, 127, -1",
    ),
    ok(
        "f32[3]{-1e-5,-2e-5,0}, i64[1]{1}, i64[1]{1}, f32[1]{inf}, f32[1]{-inf}, f32[1]{1}, i32[1]{0}, 0.1, -128, 127, -1",
    ),
    ok(
        "f32[3]{-1e-5,2e-5,0}, i64[1]{1}, i64[1]{1}, f32[1]{inf}, f32[1]{-inf}, f32[1]{1}, i32[1]{0}, 0.1, -128, 127, -1",
    ),
    ok(
        "f32[2,2,2]{-9..9}, i64[1]{1}, i64[1]{1}, f32[2]{-1,inf}, f32[2]{1,-inf}, f32[2]{1}, i32[2]{0}, 0.1, -128, 127, 0, true, true",
    ),
    err(
        "f32[2,3], i64[1], i64[1], f32[3], f32[3], f32[3], i32[3], 0.1, -128, 127, 1, true",
        "Per-channel FakeQuant in fused_moving_avg_obs_fake_quant is only supported on axis == 0",
    ),
    err(
        "bf16[3], i64[1]{1}, i64[1], f32[1], f32[1], f32[1], i32[1], 0.1, -128, 127, 0",
        "expected scalar type Float but found BFloat16",
    ),
    err(
        "f32[0], i64[1]{1}, i64[1], f32[1], f32[1], f32[1], i32[1], 0.1, -128, 127, 0",
        "cannot compute aminmax over an empty dimension as the operation has no identity",
    ),
    err("f32[3], i64[1]{0}, i64[1]{1}, f32[1]{-1}, f32[1]{1}, f32[1], i32[1], 0.1, 127, -128, 0", "quant_m"),
];

// --- quantising -------------------------------------------------------------------------------------------------------

/// What an op of this family gives.
struct Quantized {
    output: ValueId,
    /// What was within the range.
    mask: ValueId,
}

impl Quantized {
    fn outs(self) -> Outs {
        vec![Some(self.output), Some(self.mask)]
    }
}

/// The greatest and least level.
#[derive(Clone, Copy)]
struct Levels {
    min: i64,
    max: i64,
}

impl Levels {
    fn of(c: &Call<'_>) -> Result<Levels> {
        let levels = Levels { min: c.int("quant_min")?, max: c.int("quant_max")? };
        ensure!(levels.min <= levels.max, "`quant_min` should be less than or equal to `quant_max`.");
        Ok(levels)
    }

    fn hold(self, level: Expr<'_>) -> Expr<'_> {
        level.at_least(self.min as f64) & level.at_most(self.max as f64)
    }

    /// NaN is the least level, as to C's `fmax`.
    fn clamp(self, level: Expr<'_>) -> Expr<'_> {
        let raised = level.at_least(self.min as f64).select(level, self.min as f64);
        raised.min(self.max as f64)
    }
}

/// The scale and the zero point of each element of the input. The first is `f32`; the second, if it is an integer, is added to
/// a level that is rounded already.
struct Steps {
    scale: ValueId,
    zero_point: ValueId,
}

impl Steps {
    /// The level of each element, not yet clamped, in the accumulation type of `x`.
    fn level(&self, b: &Builder, x: ValueId) -> Result<ValueId> {
        let wide = b.dtype(x).accumulator();
        let inverse = formula(b, [self.scale], |[scale]| scale.constant(1.0) / scale)?;
        let operands = [x, inverse, self.zero_point].map(|v| b.convert(v, wide));
        let [x, inverse, zero_point] = all(operands)?;
        let whole = !b.dtype(self.zero_point).is_float();
        formula(b, [x, inverse, zero_point], |[x, inverse, zero_point]| match whole {
            true => (x * inverse).round_nearest_even() + zero_point,
            false => (x * inverse + zero_point).round_nearest_even(),
        })
    }

    /// What `x` becomes; products with the scale are made in `product`.
    fn quantize(&self, b: &Builder, x: ValueId, levels: Levels, product: DType) -> Result<Quantized> {
        let level = self.level(b, x)?;
        let zero_point = b.convert(self.zero_point, b.dtype(level))?;
        let steps = formula(b, [level, zero_point], |[level, zero_point]| levels.clamp(level) - zero_point)?;
        let output = b.multiply(b.convert(steps, product)?, b.convert(self.scale, product)?)?;
        let mask = formula(b, [level], |[level]| levels.hold(level))?;
        Ok(Quantized { output: b.convert(output, b.dtype(x))?, mask })
    }
}

fn all<const N: usize>(values: [Result<ValueId>; N]) -> Result<[ValueId; N]> {
    let values = values.into_iter().collect::<Result<Vec<_>>>()?;
    values.try_into().map_err(|_| crate::Error::internal("as many values as there were"))
}

/// The 0-d `scale` and whole `zero_point` for each element of `x`.
fn steps_of(b: &Builder, x: ValueId, scale: ValueId, zero_point: ValueId) -> Result<Steps> {
    let shape = b.shape(x);
    let scale = broadcast_to(b, b.convert(scale, DType::F32)?, &shape)?;
    Ok(Steps { scale, zero_point: broadcast_to(b, b.convert(zero_point, DType::I64)?, &shape)? })
}

fn quantized_by(c: &Call<'_>, b: &Builder, scale: ValueId, zero_point: ValueId) -> Result<Quantized> {
    let x = c.tensor(b, "self")?;
    let levels = Levels::of(c)?;
    check_float(b.dtype(x), "fake_quantize_tensor_cachemask_kernel_type_handling")?;
    steps_of(b, x, scale, zero_point)?.quantize(b, x, levels, DType::F32)
}

fn check_float(dtype: DType, kernel: &str) -> Result<()> {
    match dtype {
        DType::F16 | DType::BF16 | DType::F32 | DType::F64 => Ok(()),
        _ => not_implemented(kernel, dtype),
    }
}

fn per_tensor(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let levels = Levels::of(c)?;
    let (scale, zero_point) = (c.scalar("scale")?, c.scalar("zero_point")?);
    ensure!(
        c.requires(&zero_point, move |it| (levels.min as f64..=levels.max as f64).contains(&it)),
        "`zero_point` must be between `quant_min` and `quant_max`."
    );
    let (scale, zero_point) = (c.scalar_value(b, &scale, DType::F32)?, c.scalar_value(b, &zero_point, DType::I64)?);
    quantized_by(c, b, scale, zero_point).map(Quantized::outs)
}

fn per_tensor_of_tensors(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let quantized = quantized_by(c, b, only(b, c.tensor(b, "scale")?)?, only(b, c.tensor(b, "zero_point")?)?)?;
    let enabled = is_on(c, b, "fake_quant_enabled")?;
    quantized.where_on(b, enabled, c.tensor(b, "self")?).map(Quantized::outs)
}

impl Quantized {
    /// Of `x` that is only quantised where the 0-d `enabled` holds.
    fn where_on(self, b: &Builder, enabled: ValueId, x: ValueId) -> Result<Quantized> {
        let enabled = broadcast_to(b, enabled, &b.shape(x))?;
        let passed = b.full_like(self.mask, Number::Bool(true))?;
        Ok(Quantized { output: b.select(enabled, self.output, x)?, mask: b.select(enabled, self.mask, passed)? })
    }
}

/// Whether the integer that the one element of tensor `name` is cut to is not 0.
fn is_on(c: &Call<'_>, b: &Builder, name: &str) -> Result<ValueId> {
    let whole = b.convert(only(b, c.tensor(b, name)?)?, DType::I64)?;
    formula(b, [whole], |[whole]| whole.differs(0.0))
}

/// The one element, 0-d.
fn only(b: &Builder, v: ValueId) -> Result<ValueId> {
    let elements: usize = b.shape(v).iter().product();
    ensure!(elements == 1, "a Tensor with {elements} elements cannot be converted to Scalar");
    b.reshape(v, &[])
}

/// The first element, 0-d, as `tensor[0].item()` is.
fn first(b: &Builder, v: ValueId) -> Result<ValueId> {
    let shape = b.shape(v);
    let Some(&extent) = shape.first() else { no_index!("select() cannot be applied to a 0-dim tensor.") };
    if extent == 0 {
        no_index!("select(): index 0 out of range for tensor of size {shape:?} at dimension 0");
    }
    only(b, b.slice_dim(v, 0, 0, 1, 1)?)
}

fn round(v: Expr<'_>) -> Expr<'_> {
    if v.dtype().is_float() { v.round_nearest_even() } else { v }
}

/// `zero_point` made whole by `whole`, within the levels.
fn clamped(
    levels: Levels,
    b: &Builder,
    zero_point: ValueId,
    whole: impl for<'e> FnOnce(Expr<'e>) -> Expr<'e>,
) -> Result<ValueId> {
    formula(b, [zero_point], |[it]| whole(it).max(levels.min as f64).min(levels.max as f64))
}

// --- channels ---------------------------------------------------------------------------------------------------------

fn per_channel(c: &Call<'_>, b: &Builder, scale: ValueId, zero_point: ValueId) -> Result<Quantized> {
    let x = c.tensor(b, "self")?;
    let (scales, points) = (b.dtype(scale), b.dtype(zero_point));
    ensure!(
        matches!(scales, DType::F32 | DType::BF16),
        "Scale must be Float or BFloat16, found {}",
        torch_name(scales)
    );
    ensure!(
        matches!(points, DType::I32 | DType::F32 | DType::F16),
        "Zero-point must be Int32, Float or Half, found {}",
        torch_name(points)
    );
    let axis = channels(c, b, x, [scale, zero_point])?;
    let levels = Levels::of(c)?;
    ensure!(
        points.is_float() || b.shape(zero_point)[0] > 0,
        "min(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' argument."
    );
    check_float(b.dtype(x), "fake_quantize_channel_cachemask_cpu_type_handling")?;
    // The check above lets `bf16` pass, the kernel behind it does not.
    ensure!(scales == DType::F32, "Scale must be Float, found {}", torch_name(scales));
    let [scale, zero_point] = along(b, x, axis, [scale, zero_point])?;
    Steps { scale, zero_point }.quantize(b, x, levels, b.dtype(x).accumulator())
}

/// The dimension of `x` that the scales and zero points are along.
fn channels(c: &Call<'_>, b: &Builder, x: ValueId, [scale, zero_point]: [ValueId; 2]) -> Result<usize> {
    let (scales, points, shape) = (b.shape(scale), b.shape(zero_point), b.shape(x));
    ensure!(scales.len() == 1, "scale should be a 1-D tensor");
    ensure!(points.len() == 1, "zero point should be a 1-D tensor");
    ensure!(scales == points, "scale and zero-point need to have the same dimensions");
    let axis = c.int("axis")?;
    let dim = support::dim(axis, shape.len())?;
    ensure!(
        shape.get(dim) == scales.first(),
        "dimensions of scale and zero-point are not consistent with input tensor"
    );
    ensure!(axis >= 0, "`axis` must be between 0 and number of dimensions of input");
    Ok(dim)
}

/// Vectors along dimension `axis` of `x`, in its shape.
fn along<const N: usize>(b: &Builder, x: ValueId, axis: usize, vectors: [ValueId; N]) -> Result<[ValueId; N]> {
    all(vectors.map(|v| b.broadcast_in_dim(v, &b.shape(x), &[axis])))
}

// --- gradients of steps -----------------------------------------------------------------------------------------------

/// What the gradients are made of, all `f32` and of the input's shape.
struct Backward {
    grad: ValueId,
    x: ValueId,
    scale: ValueId,
    zero_point: ValueId,
    levels: Levels,
    factor: ValueId,
}

impl Backward {
    /// The gradient of the input, and what each element adds to those of its scale and its zero point.
    fn gradients(&self, b: &Builder) -> Result<[ValueId; 3]> {
        let levels = self.levels;
        let operands = [self.grad, self.x, self.scale, self.zero_point];
        let level = formula(b, operands, |[_, x, scale, zero_point]| {
            (zero_point + x * (scale.constant(1.0) / scale)).round_nearest_even()
        })?;
        let inside = formula(b, [level], |[level]| levels.hold(level))?;
        let passed = b.multiply(self.grad, b.convert(inside, DType::F32)?)?;
        let of_scale = formula(b, operands, |[grad, x, scale, zero_point]| {
            let (level, inside) = (Expr::of(level, grad), Expr::of(inside, grad));
            let factor = Expr::of(self.factor, grad);
            let bound = levels.clamp(level) - zero_point;
            let error = (bound * scale - x) * (scale.constant(1.0) / scale);
            grad * inside.select(error, bound) * factor
        })?;
        let of_zero_point = formula(b, [self.grad, self.scale, self.factor], |[grad, scale, factor]| {
            let inside = Expr::of(inside, grad);
            inside.select(grad.constant(0.0), -grad * scale * factor)
        })?;
        Ok([passed, of_scale, of_zero_point])
    }
}

/// Refuses all but `f32`, in the words of PyTorch's check of `name`.
fn check_single(b: &Builder, v: ValueId, name: &str) -> Result<()> {
    let is_single = b.dtype(v) == DType::F32;
    ensure!(is_single, "Expected {name}.scalar_type() == ScalarType::Float to be true, but got false.");
    Ok(())
}

fn per_tensor_backward(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let [grad, x] = all(["grad", "self"].map(|name| c.tensor(b, name)))?;
    let given = all(["scale", "zero_point"].map(|name| c.tensor(b, name)))?;
    let [scale, zero_point] = all(given.map(|v| first(b, v)))?;
    for (v, name) in [(grad, "dY"), (x, "X"), (scale, "scale"), (zero_point, "zero_point")] {
        check_single(b, v, name)?;
    }
    let shape = b.shape(x);
    ensure!(shape == b.shape(grad), "`X` and `dY` are not the same size");
    let levels = Levels { min: c.int("quant_min")?, max: c.int("quant_max")? };
    ensure!(
        levels.min <= 0 && levels.max >= 0,
        "`quant_min` should be less than or equal to `quant_max`, and the quantization range should include 0."
    );
    if shape.contains(&0) {
        return Ok([x].into_iter().chain(given).map(Some).collect());
    }
    // Cut, not rounded: as the kernel has it.
    let zero_point = clamped(levels, b, zero_point, |it| it + 0.5)?;
    let zero_point = formula(b, [zero_point], |[it]| it.trunc())?;
    let factor = c.scalar_value(b, &c.scalar("grad_factor")?, DType::F32)?;
    let [scale, zero_point, factor] = all([scale, zero_point, factor].map(|v| broadcast_to(b, v, &shape)))?;
    let [passed, of_scale, of_zero_point] = Backward { grad, x, scale, zero_point, levels, factor }.gradients(b)?;
    let dims: Vec<usize> = (0..shape.len()).collect();
    let sum = |v| b.reshape(b.reduce(v, Reducer::Add, &dims)?, &[1]);
    Ok(vec![Some(passed), Some(sum(of_scale)?), Some(sum(of_zero_point)?)])
}

fn per_channel_backward(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let given = all(["self", "scale", "zero_point", "grad"].map(|name| c.tensor(b, name)))?;
    // Of `bf16` all is `f32`, the results too.
    let widened = b.dtype(given[0]) == DType::BF16;
    let [x, scale, zero_point, grad] = all(given.map(|v| if widened { b.convert(v, DType::F32) } else { Ok(v) }))?;
    for (v, name) in [(grad, "dY_"), (x, "X_"), (scale, "scale_"), (zero_point, "zero_point_")] {
        check_single(b, v, name)?;
    }
    let shape = b.shape(x);
    ensure!(shape == b.shape(grad), "`X` and `dY` are not the same size");
    let levels = Levels { min: c.int("quant_min")?, max: c.int("quant_max")? };
    ensure!(levels.min <= 0 && levels.max >= 0, "Expecting `quant_min` <= 0 and `quant_max` >= 0");
    let axis = channels(c, b, x, [scale, zero_point])?;
    if shape.contains(&0) {
        return Ok(given[..3].iter().map(|&v| Some(v)).collect());
    }
    let zero_point = clamped(levels, b, zero_point, round)?;
    let [scale, zero_point] = along(b, x, axis, [scale, zero_point])?;
    let factor = broadcast_to(b, c.scalar_value(b, &c.scalar("grad_factor")?, DType::F32)?, &shape)?;
    let [passed, of_scale, of_zero_point] = Backward { grad, x, scale, zero_point, levels, factor }.gradients(b)?;
    let dims: Vec<usize> = (0..shape.len()).filter(|&dim| dim != axis).collect();
    let sum = |v| b.reduce(v, Reducer::Add, &dims);
    Ok(vec![Some(passed), Some(sum(of_scale)?), Some(sum(of_zero_point)?)])
}

// --- observing --------------------------------------------------------------------------------------------------------

/// The input quantised by what an observer of its range chooses, the mask, and the observer's new state.
fn observed(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let x = c.tensor(b, "self")?;
    let by_row = c.flag("per_row_fake_quant")?;
    let names = ["running_min", "running_max", "scale", "zero_point"];
    let [min, max, scale, zero_point] = all(names.map(|name| c.tensor(b, name)))?;
    let shape = b.shape(x);
    ensure!(
        !by_row || c.int("ch_axis")? == 0,
        "Per-channel FakeQuant in fused_moving_avg_obs_fake_quant is only supported on axis == 0"
    );
    if by_row && b.shape(min).contains(&0) {
        unsupported!("an observer of rows that has seen none resizes its state");
    }
    let dtype = b.dtype(x);
    ensure!(dtype == DType::F32, "expected scalar type Float but found {}", torch_name(dtype));
    ensure!(
        !shape.contains(&0),
        "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity."
    );
    let observes = is_on(c, b, "observer_on")?;
    let rate = c.scalar_value(b, &c.scalar("averaging_const")?, DType::F32)?;
    let seen = |running, reducer| seen(b, x, by_row, running, reducer, [observes, rate]);
    let (min, max) = (seen(min, Reducer::Minimum)?, seen(max, Reducer::Maximum)?);

    let levels = Levels::of(c)?;
    let enabled = is_on(c, b, "fake_quant_on")?;
    let chosen = choose(b, [min, max], levels, c.flag("symmetric_quant")?)?;
    let [scale, zero_point] = all([0, 1].map(|i| {
        let old = [scale, zero_point][i];
        let new = b.reshape(b.convert(chosen[i], b.dtype(old))?, &b.shape(old))?;
        b.select(broadcast_to(b, enabled, &b.shape(old))?, new, old)
    }))?;
    let steps = if by_row {
        let [scale, zero_point] = along(b, x, 0, [b.convert(scale, DType::F32)?, zero_point])?;
        Steps { scale, zero_point }
    } else {
        steps_of(b, x, only(b, scale)?, only(b, zero_point)?)?
    };
    let quantized = steps.quantize(b, x, levels, DType::F32)?.where_on(b, enabled, x)?;
    Ok(vec![Some(quantized.output), Some(quantized.mask), Some(min), Some(max), Some(scale), Some(zero_point)])
}

/// The running extreme `running` behind a look at `x`: the extreme itself the first time, as infinities tell.
fn seen(
    b: &Builder,
    x: ValueId,
    by_row: bool,
    running: ValueId,
    reducer: Reducer,
    [observes, rate]: [ValueId; 2],
) -> Result<ValueId> {
    let dims: Vec<usize> = (usize::from(by_row)..b.rank(x)).collect();
    let shape = b.shape(running);
    let now = b.reduce(x, reducer, &dims)?;
    ensure!(
        b.shape(now).iter().product::<usize>() == shape.iter().product::<usize>(),
        "as many running extremes as there are rows"
    );
    let now = b.reshape(now, &shape)?;
    let [observes, rate] = all([observes, rate].map(|v| broadcast_to(b, v, &shape)))?;
    let next = formula(b, [running, now, rate], |[running, now, rate]| {
        running.is_inf().select(now, running + rate * (now - running))
    })?;
    b.select(observes, next, running)
}

/// Scales below this would have subnormal `f16` reciprocals.
const LEAST_SCALE: f32 = 6.1e-5;

/// Scale (`f64`) and zero point (`f64`, whole) that fit ranges of `f32`, which are widened to hold 0: what FBGEMM's
/// `ChooseQuantizationParams` gives. A `symmetric` range has its zero in the middle.
fn choose(b: &Builder, [min, max]: [ValueId; 2], levels: Levels, symmetric: bool) -> Result<[ValueId; 2]> {
    ensure!(levels.min < levels.max, "In ChooseQuantizationParams, qmin should be less than qmax");
    let width = (levels.max - levels.min) as f64;
    let signed = formula(b, [min, max], |[min, max]| min.less(0.0) & max.greater(0.0))?;
    let [min, max] = if symmetric { mirrored(b, [min, max], signed, levels)? } else { [min, max] };
    let min = formula(b, [min], |[min]| min.min(0.0))?;
    let max = formula(b, [max], |[max]| max.max(0.0))?;
    let scale = formula(b, [min, max], |[min, max]| {
        let scale = (max.convert(DType::F64) - min.convert(DType::F64)) / width;
        let single = scale.convert(DType::F32);
        let useless = single.equals(0.0) | (single.constant(1.0) / single).is_inf();
        useless.select(scale.constant(0.1), scale)
    })?;
    let small = formula(b, [scale], |[scale]| scale.less(f64::from(LEAST_SCALE)))?;
    let [min, max] = all([(min, max, -1.0), (max, min, 1.0)].map(|(bound, other, sign)| {
        formula(b, [bound, other], |[bound, other]| {
            let amplified =
                bound * (bound.constant(f64::from(LEAST_SCALE)) / Expr::of(scale, bound).convert(DType::F32));
            let whole = bound.constant(sign * f64::from(LEAST_SCALE * width as f32));
            let raised = other.equals(0.0).select(whole, amplified);
            (Expr::of(small, bound) & bound.differs(0.0)).select(raised, bound)
        })
    }))?;
    let scale = formula(b, [scale], |[scale]| scale.max(f64::from(LEAST_SCALE)))?;
    let zero_point = formula(b, [scale], |[scale]| {
        let min = Expr::of(min, scale).convert(DType::F64) / scale;
        let max = Expr::of(max, scale).convert(DType::F64) / scale;
        let [from_min, from_max] =
            [(levels.min, min), (levels.max, max)].map(|(level, of)| of.constant(level as f64) - of);
        let [error_min, error_max] =
            [(levels.min, min), (levels.max, max)].map(|(level, of)| of.abs() + level.unsigned_abs() as f64);
        let nearer = error_min.less(error_max).select(from_min, from_max);
        let middle = nearer.constant((levels.min + levels.max) as f64 / 2.0);
        let chosen = if symmetric { Expr::of(signed, nearer).select(middle, nearer) } else { nearer };
        levels.clamp(chosen).round_nearest_even()
    })?;
    Ok([scale, zero_point])
}

/// A range with 0 within it, made as wide below 0 as above, by the levels that there are.
fn mirrored(b: &Builder, [min, max]: [ValueId; 2], signed: ValueId, levels: Levels) -> Result<[ValueId; 2]> {
    let half = (levels.max - levels.min) / 2;
    let (below, above) = (-(half + 1) as f64, half as f64);
    let scale = formula(b, [min, max], |[min, max]| (min / below).abs().max((max / above).abs()))?;
    all([(min, below), (max, above)].map(|(bound, level)| {
        formula(b, [bound, scale], |[bound, scale]| Expr::of(signed, bound).select(scale * level, bound))
    }))
}
