//! Evenly spaced numbers.

use super::creation::{int, with_options};
use super::support::{common_shape, cpp_type, elementwise, not_implemented, number_type, result_type, torch_name};
use super::{Call, Manner, OpDef, Scalar, err, ok, one};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::literal::Number;
use crate::{DType, ensure};

pub(super) static OPS: &[OpDef] = &[
    OpDef::new(
        with_options!("arange(Scalar end"),
        |c, b| one(arange(c, b, int(0), c.scalar("end")?, int(1))?),
        &[
            ok("5"),
            ok("5.5"),
            ok("0"),
            ok("5, dtype=f32"),
            ok("3, dtype=bf16"),
            err("-1", "upper bound and lower bound inconsistent with step sign"),
            err("3, dtype=c64", "not implemented for 'ComplexFloat'"),
        ],
    )
    .variants(&["arange.out"])
    .called(Manner::Range),
    OpDef::new(
        with_options!("arange.start(Scalar start, Scalar end"),
        |c, b| one(arange(c, b, c.scalar("start")?, c.scalar("end")?, int(1))?),
        &[ok("1, 5"), ok("0.5, 4"), ok("-3, 3, dtype=i32"), err("5, 1", "upper bound and lower bound inconsistent")],
    ),
    OpDef::new(
        with_options!("arange.start_step(Scalar start, Scalar end, Scalar step=1"),
        |c, b| one(arange(c, b, c.scalar("start")?, c.scalar("end")?, c.scalar("step")?)?),
        &[
            ok("0, 10, 3"),
            ok("5, 0, -2"),
            ok("0, 1, 0.1"),
            ok("1, 2, 0.25, dtype=f16"),
            ok("0, 5, 2, dtype=f64"),
            ok("0, 0, 1"),
            err("0, 5, 0", "step must be nonzero"),
        ],
    )
    .variants(&["arange.start_out"])
    .called(Manner::Range),
    OpDef::new(
        with_options!("linspace(Scalar start, Scalar end, int steps"),
        |c, b| one(linspace(c, b)?),
        &[
            ok("0, 1, 5"),
            ok("-1, 3, 1"),
            ok("2, 2, 0"),
            ok("3, -7, 8, dtype=f64"),
            ok("0, 10, 4, dtype=i64"),
            ok("0, 1, 7, dtype=bf16"),
            ok("1, 3j, 4"),
            ok("0, 1, 5, dtype=c128"),
            err(
                "1j, 2, 3, dtype=f32",
                "torch.linspace(): inferred dtype c10::complex<float> can't be safely cast to passed dtype Float",
            ),
            err("0, 1, -1", "number of steps must be non-negative"),
        ],
    )
    .variants(&["linspace.out"]),
    OpDef::new(
        with_options!("range(Scalar start, Scalar end"),
        |c, b| one(closed_range(c, b, c.scalar("start")?, c.scalar("end")?, int(1))?),
        &[ok("1, 5"), ok("0.5, 4"), ok("0, 3, dtype=i64")],
    ),
    OpDef::new(
        with_options!("range.step(Scalar start, Scalar end, Scalar step=1"),
        |c, b| one(closed_range(c, b, c.scalar("start")?, c.scalar("end")?, c.scalar("step")?)?),
        &[ok("0, 10, 3"), ok("5, 0, -2"), err("0, 5, 0", "step must be nonzero")],
    )
    .variants(&["range.out"]),
    OpDef::new(
        with_options!("linspace.Tensor_Tensor(Tensor start, Tensor end, int steps"),
        |c, b| one(linspace(c, b)?),
        &[ok("f32[], f32[], 5"), err("f32[2], f32[], 5", "linspace only supports 0-dimensional start and end tensors")],
    )
    .variants(&["linspace.Tensor_Tensor_out"]),
    OpDef::new(
        with_options!("linspace.Tensor_Scalar(Tensor start, Scalar end, int steps"),
        |c, b| one(linspace(c, b)?),
        &[ok("f32[], 2, 5")],
    )
    .variants(&["linspace.Tensor_Scalar_out"]),
    OpDef::new(
        with_options!("linspace.Scalar_Tensor(Scalar start, Tensor end, int steps"),
        |c, b| one(linspace(c, b)?),
        &[ok("2, f32[], 5")],
    )
    .variants(&["linspace.Scalar_Tensor_out"]),
    OpDef::new(
        with_options!("logspace(Scalar start, Scalar end, int steps, float base=10.0"),
        |c, b| one(logspace(c, b)?),
        &[
            ok("0, 2, 5"),
            ok("0, 3, 4, 2, dtype=f64"),
            ok("0, 3, 1"),
            ok("0, 3, 0"),
            ok("0, 1j, 4"),
            ok("0, 1, 3, dtype=c64"),
        ],
    )
    .variants(&["logspace.out"]),
    OpDef::new(
        with_options!("logspace.Tensor_Tensor(Tensor start, Tensor end, int steps, float base=10.0"),
        |c, b| one(logspace(c, b)?),
        &[
            ok("f32[], f32[], 5"),
            ok("f64[], i64[], 3, 2, dtype=f64"),
            err("f32[2], f32[], 5", "logspace only supports 0-dimensional start and end tensors"),
        ],
    )
    .variants(&["logspace.Tensor_Tensor_out"]),
    OpDef::new(
        with_options!("logspace.Tensor_Scalar(Tensor start, Scalar end, int steps, float base=10.0"),
        |c, b| one(logspace(c, b)?),
        &[ok("f32[], 2, 5")],
    )
    .variants(&["logspace.Tensor_Scalar_out"]),
    OpDef::new(
        with_options!("logspace.Scalar_Tensor(Scalar start, Tensor end, int steps, float base=10.0"),
        |c, b| one(logspace(c, b)?),
        &[ok("2, f32[], 5")],
    )
    .variants(&["logspace.Scalar_Tensor_out"]),
];

/// `start, start + step, ...` below `end`. Only the number of steps decides the program.
fn arange(c: &Call<'_>, b: &Builder, start: Scalar, end: Scalar, step: Scalar) -> Result<ValueId> {
    let numbers = [&start, &end, &step];
    let floats = numbers.iter().any(|s| s.dtype().is_float());
    let implied = if floats { c.default_dtype() } else { DType::I64 };
    let dtype = c.optional_dtype("dtype")?.unwrap_or(implied);
    let len = arange_len(numbers.map(|s| c.number(s)), dtype)?;
    if dtype == DType::Bool {
        return not_implemented("arange", dtype);
    }
    if dtype.is_complex() {
        return not_implemented("arange_cpu", dtype);
    }
    counted(c, b, len, dtype, start, step)
}

/// `len` numbers from `start` by `step`.
fn counted(c: &Call<'_>, b: &Builder, len: usize, dtype: DType, start: Scalar, step: Scalar) -> Result<ValueId> {
    let wide = if dtype.is_int() { DType::I64 } else { dtype.accumulator() };
    let counts = b.iota(wide, &[len], 0)?;
    let v = elementwise(c, b, [counts.into(), start.into(), step.into()], wide, |[i, start, step]| start + i * step)?;
    b.convert(v, dtype)
}

/// How many steps, with a fraction, lead from start to end.
fn range_steps(numbers: [Number; 3]) -> Result<f64> {
    let [start, end, step] = numbers.map(Number::as_f64);
    ensure!(step != 0.0, "step must be nonzero");
    let finite = start.is_finite() && end.is_finite() && step.is_finite();
    ensure!(finite, "unsupported range: {start} -> {end}");
    let consistent = if step > 0.0 { end >= start } else { end <= start };
    ensure!(consistent, "upper bound and lower bound inconsistent with step sign");
    Ok((end - start) / step)
}

/// How many numbers lie before the end. Integers among themselves count exactly.
fn arange_len(numbers: [Number; 3], dtype: DType) -> Result<usize> {
    let steps = range_steps(numbers)?;
    if dtype != DType::I64 || numbers.iter().any(|n| matches!(n, Number::Float(_))) {
        return Ok(steps.ceil() as usize);
    }
    let [start, end, step] = numbers.map(Number::as_i64);
    ensure!(step != 0, "step must be nonzero");
    let span = (i128::from(end) - i128::from(start)).unsigned_abs();
    Ok(span.div_ceil(u128::from(step.unsigned_abs())) as usize)
}

/// [`arange`] with its end included.
fn closed_range(c: &Call<'_>, b: &Builder, start: Scalar, end: Scalar, step: Scalar) -> Result<ValueId> {
    let dtype = c.optional_dtype("dtype")?.unwrap_or(c.default_dtype());
    if dtype.is_complex() {
        return not_implemented("range_cpu", dtype);
    }
    let steps = range_steps([&start, &end, &step].map(|s| c.number(s)))?;
    counted(c, b, steps.floor() as usize + 1, dtype, start, step)
}

/// Counted from the nearer end, so that both ends are exact.
fn linspace(c: &Call<'_>, b: &Builder) -> Result<ValueId> {
    let dtype = spaced_dtype(c, b, "linspace")?;
    b.convert(spaced(c, b, "linspace", dtype)?, dtype)
}

/// `base` to the power of [`linspace`].
fn logspace(c: &Call<'_>, b: &Builder) -> Result<ValueId> {
    let dtype = spaced_dtype(c, b, "logspace")?;
    let exponents = spaced(c, b, "logspace", dtype)?;
    let wide = if dtype.is_int() { DType::F64 } else { b.dtype(exponents) };
    let v = elementwise(c, b, [exponents.into(), c.operand(b, "base")?], wide, |[x, base]| base.pow(x))?;
    b.convert(v, dtype)
}

/// What `dtype` says, but numbers between complex ends are complex.
fn spaced_dtype(c: &Call<'_>, b: &Builder, name: &str) -> Result<DType> {
    let given = c.optional_dtype("dtype")?;
    let is_complex = result_type(c, b, &[c.operand(b, "start")?, c.operand(b, "end")?])?.is_complex();
    let implied = if is_complex { number_type(c, DType::C64) } else { c.default_dtype() };
    let dtype = given.unwrap_or(implied);
    ensure!(
        dtype.is_complex() || !is_complex,
        "torch.{name}(): inferred dtype {} can't be safely cast to passed dtype {}",
        cpp_type(implied),
        torch_name(dtype)
    );
    Ok(dtype)
}

/// In a wider type, but between ends of type `dtype`: whole numbers are spaced in f32, as PyTorch does it.
fn spaced(c: &Call<'_>, b: &Builder, name: &str, dtype: DType) -> Result<ValueId> {
    let steps = c.int("steps")?;
    ensure!(steps >= 0, "number of steps must be non-negative");
    let wide = if dtype.is_int() { DType::F32 } else { dtype.accumulator() };
    let (start, end) = (c.operand(b, "start")?, c.operand(b, "end")?);
    let ends = common_shape(b, &[start.clone(), end.clone()])?;
    ensure!(ends.is_empty(), "{name} only supports 0-dimensional start and end tensors");
    let counts = b.convert(b.iota(wide.real(), &[steps as usize], 0)?, wide)?;
    let operands = [counts.into(), start, end];
    let last = (steps - 1) as f64;
    let half = (steps / 2) as f64;
    elementwise(c, b, operands, wide, |[i, start, end]| {
        if steps == 1 {
            return start.convert(dtype).convert(wide);
        }
        let (start, end) = (start.convert(dtype).convert(wide), end.convert(dtype).convert(wide));
        let step = (end - start) / last;
        let is_low = if wide.is_complex() { i.real() } else { i }.less(half);
        is_low.select(start + step * i, end - step * (last - i))
    })
}
