//! New random tensors.

use super::super::support::{broadcast_shapes, broadcast_to, cpp_type, not_implemented, promote_all, torch_name};
use super::super::{Call, OpDef, Outs, Scalar, Strides, err, ok, one};
use super::fill::random_digits;
use super::{as_dtype, bits, continuous, standard_exponential, standard_normal_as, uniform, wide};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::literal::Number;
use crate::op::{Binary, Reducer};
use crate::types::{Dims, Shape};
use crate::{DType, ensure};

pub(in super::super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::rand(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, \
         bool? pin_memory=None) -> Tensor",
        |c, b| rand(b, new_dtype(c)?, &c.sizes("size")?),
        &[
            ok("[20,30]"),
            ok("[500], dtype=f64"),
            ok("[500], dtype=bf16"),
            ok("[], dtype=f64"),
            ok("[0,2], dtype=bf16"),
            ok("[2], dtype=c64"),
            err("[2], dtype=i64", "\"check_uniform_bounds\" not implemented for 'Long'"),
        ],
    )
    .variants(&["rand.out"]),
    OpDef::new(
        "aten::rand_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, \
         bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
        |c, b| rand(b, like_dtype(c)?, &c.layout("self")?.sizes),
        &[ok("f32[2,3]"), ok("i64[2], dtype=f16"), err("i64[2]", "not implemented for 'Long'")],
    )
    .variants(&["rand_like.out"]),
    OpDef::new(
        "aten::randn(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, \
         bool? pin_memory=None) -> Tensor",
        |c, b| randn(b, new_dtype(c)?, &c.sizes("size")?),
        &[
            ok("[20,30]"),
            ok("[500], dtype=f64"),
            ok("[500], dtype=f16"),
            ok("[], dtype=f64"),
            ok("[2], dtype=c64"),
            err("[2], dtype=i64", "\"normal_kernel_cpu\" not implemented for 'Long'"),
        ],
    )
    .variants(&["randn.out"]),
    OpDef::new(
        "aten::randn_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, \
         bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
        |c, b| randn(b, like_dtype(c)?, &c.layout("self")?.sizes),
        &[ok("f32[2,3]"), ok("bf16[0]")],
    )
    .variants(&["randn_like.out"]),
    OpDef::new(
        "aten::randint(SymInt high, SymInt[] size, *, ScalarType? dtype=long, Layout? layout=None, Device? device=None, \
         bool? pin_memory=None) -> Tensor",
        |c, b| {
            let dtype = c.optional_dtype("dtype")?.unwrap_or(DType::I64);
            one(integers(c, b, None, Some(&c.scalar("high")?), dtype, &c.sizes("size")?)?)
        },
        &[
            ok("5, [20,30]"),
            ok("5, [2], dtype=f32"),
            ok("2, [3], dtype=bool"),
            ok("256, [300], dtype=u8"),
            ok("65505, [300], dtype=f16"),
            err("3, [2], dtype=bool", "to - 1 is out of bounds for bool"),
            err("300, [2], dtype=u8", "to - 1 is out of bounds for unsigned char"),
            err("65506, [2], dtype=f16", "to - 1 is out of bounds for c10::Half"),
            err("3, [2], dtype=c64", "check_random_bounds handles only integral, floating-point and boolean types"),
            err("3, [2], dtype=f8e5m2", "\"random_update_from_to\" not implemented for 'Float8_e5m2'"),
            err("0, [2]", "random_ expects 'from' to be less than 'to', but got from=0 >= to=0"),
        ],
    )
    .variants(&["randint.out"]),
    OpDef::new(
        "aten::randint.low(SymInt low, SymInt high, SymInt[] size, *, ScalarType? dtype=long, Layout? layout=None, \
         Device? device=None, bool? pin_memory=None) -> Tensor",
        |c, b| {
            let dtype = c.optional_dtype("dtype")?.unwrap_or(DType::I64);
            one(integers(c, b, Some(&c.scalar("low")?), Some(&c.scalar("high")?), dtype, &c.sizes("size")?)?)
        },
        &[
            ok("-3, 4, [20,30]"),
            ok("0, 9223372036854775807, [4]"),
            err("-5, 3, [2], dtype=u8", "from is out of bounds for unsigned char"),
            err("3, 3, [2]", "random_ expects 'from' to be less than 'to', but got from=3 >= to=3"),
        ],
    )
    .variants(&["randint.low_out"]),
    OpDef::new(
        "aten::randint_like(Tensor self, SymInt high, *, ScalarType? dtype=None, Layout? layout=None, \
         Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
        |c, b| one(integers(c, b, None, Some(&c.scalar("high")?), like_dtype(c)?, &c.layout("self")?.sizes)?),
        &[ok("f32[2,3], 7"), ok("i32[4], 7, dtype=i64")],
    )
    .variants(&["randint_like.out"]),
    OpDef::new(
        "aten::randint_like.low_dtype(Tensor self, SymInt low, SymInt high, *, ScalarType? dtype=None, \
         Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
        |c, b| {
            let low = c.scalar("low")?;
            one(integers(c, b, Some(&low), Some(&c.scalar("high")?), like_dtype(c)?, &c.layout("self")?.sizes)?)
        },
        &[ok("f32[2,3], -2, 7")],
    )
    .variants(&["randint_like.low_dtype_out"]),
    OpDef::new(
        "aten::randperm(SymInt n, *, ScalarType? dtype=long, Layout? layout=None, Device? device=None, \
         bool? pin_memory=None) -> Tensor",
        randperm,
        &[ok("5"), ok("0"), ok("4, dtype=i32"), err("-1", "Trying to create tensor with negative dimension -1")],
    )
    .variants(&["randperm.out"]),
    OpDef::new(
        "aten::randperm.generator(SymInt n, *, Generator? generator, ScalarType? dtype=long, Layout? layout=None, \
         Device? device=None, bool? pin_memory=None) -> Tensor",
        randperm,
        &[
            ok("5, generator=none"),
            ok("4, generator=none, dtype=i32"),
            err("300, generator=none, dtype=u8", "value cannot be converted to type uint8_t without overflow"),
            err("2050, generator=none, dtype=f16", "n cannot be greater than 2049 for Half type."),
        ],
    )
    .variants(&["randperm.generator_out"]),
    OpDef::new(
        "aten::normal.float_float(float mean, float std, SymInt[] size, *, Generator? generator=None, \
         ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
        |c, b| {
            let (dtype, shape) = (new_dtype(c)?, c.sizes("size")?);
            super::fill::check_std(c)?;
            one(super::fill::normal(c, b, dtype, &shape)?)
        },
        &[ok("3.0, 0.5, [500]"), err("0.0, -1.0, [3]", "normal expects std >= 0.0, but found std -1")],
    )
    .variants(&["normal.float_float_out"]),
    OpDef::new(
        "aten::normal.Tensor_float(Tensor mean, float std=1., *, Generator? generator=None) -> Tensor",
        |c, b| {
            super::fill::check_std(c)?;
            normal_of(c, b, Some(c.tensor(b, "mean")?), None)
        },
        &[
            ok("f32[3], 2.0"),
            ok("bf16[2,3]"),
            ok("c64[300], 2.0"),
            err("f32[3], -1.0", "normal expects std >= 0.0, but found std -1"),
        ],
    )
    .variants(&["normal.Tensor_float_out"])
    .laid_out(Strides::Rows),
    OpDef::new(
        "aten::normal.float_Tensor(float mean, Tensor std, *, Generator? generator=None) -> Tensor",
        |c, b| normal_of(c, b, None, Some(c.tensor(b, "std")?)),
        &[ok("1.0, f32[300]{0..1}"), err("1.0, i64[3]{0..1}", "not implemented for 'Long'")],
    )
    .variants(&["normal.float_Tensor_out"])
    .laid_out(Strides::Rows),
    OpDef::new(
        "aten::normal.Tensor_Tensor(Tensor mean, Tensor std, *, Generator? generator=None) -> Tensor",
        |c, b| normal_of(c, b, Some(c.tensor(b, "mean")?), Some(c.tensor(b, "std")?)),
        &[ok("f32[3], f32[2,1]{0..1}")],
    )
    .variants(&["normal.Tensor_Tensor_out"])
    .laid_out(Strides::Rows),
    OpDef::new(
        "aten::multinomial(Tensor self, SymInt num_samples, bool replacement=False, *, Generator? generator=None) -> Tensor",
        multinomial,
        &[
            ok("f32[5]{0..1}, 3"),
            ok("f32[2,5]{0..1}, 200, true"),
            ok("f32[2,5]{0..1}, 1"),
            err("f32[3], 4", "cannot sample n_sample > prob_dist.size(-1) samples without replacement"),
            err("i64[3], 2", "multinomial only supports floating-point dtypes for input, got: Long"),
            err("f32[2,2,2], 1", "prob_dist must be 1 or 2 dim"),
            err("f32[3], 0", "cannot sample n_sample <= 0 samples"),
        ],
    )
    .variants(&["multinomial.out"]),
];

fn new_dtype(c: &Call<'_>) -> Result<DType> {
    Ok(c.optional_dtype("dtype")?.unwrap_or(c.default_dtype()))
}

fn like_dtype(c: &Call<'_>) -> Result<DType> {
    match c.optional_dtype("dtype")? {
        Some(dtype) => Ok(dtype),
        None => c.dtype_of("self"),
    }
}

fn rand(b: &Builder, dtype: DType, shape: &[usize]) -> Result<Outs> {
    continuous(dtype, "check_uniform_bounds")?;
    one(as_dtype(b, dtype, |real| uniform(b, real, shape))?)
}

fn randn(b: &Builder, dtype: DType, shape: &[usize]) -> Result<Outs> {
    continuous(dtype, "normal_kernel_cpu")?;
    one(standard_normal_as(b, dtype, shape, Ok)?)
}

/// Whole numbers of `low..high`, `low` 0 if not given, as `dtype`; without `high`, up to the greatest that `random_`
/// draws.
pub(super) fn integers(
    c: &Call<'_>,
    b: &Builder,
    low: Option<&Scalar>,
    high: Option<&Scalar>,
    dtype: DType,
    shape: &[usize],
) -> Result<ValueId> {
    let (zero, top) = (Scalar::Known(Number::Int(0)), Scalar::Known(Number::Int(top(dtype))));
    let low = low.unwrap_or(&zero);
    check_range(c, low, high, dtype)?;
    let high = high.unwrap_or(&top);
    let range = match (low.known(), high.known()) {
        (Some(l), Some(h)) => b.scalar(Number::Int(h.as_i64().wrapping_sub(l.as_i64())), DType::I64)?,
        _ => b.subtract(c.scalar_value(b, high, DType::I64)?, c.scalar_value(b, low, DType::I64)?)?,
    };
    let random = bits(b, DType::U64, shape)?;
    let range = broadcast_to(b, b.convert(range, DType::U64)?, shape)?;
    let drawn = b.convert(b.binary(Binary::Remainder, random, range)?, DType::I64)?;
    let low = broadcast_to(b, c.scalar_value(b, low, DType::I64)?, shape)?;
    b.convert(b.add(drawn, low)?, dtype)
}

/// Refuses ranges that are empty, or that leave the range of `dtype`.
fn check_range(c: &Call<'_>, low: &Scalar, high: Option<&Scalar>, dtype: DType) -> Result<()> {
    if dtype.is_float8() {
        return not_implemented("random_update_from_to", dtype);
    }
    ensure!(!dtype.is_complex(), "check_random_bounds handles only integral, floating-point and boolean types");
    if let Some(high) = high {
        ensure!(
            c.require(&[low, high], |n| n[0].as_i64() < n[1].as_i64()),
            "random_ expects 'from' to be less than 'to', but got from={} >= to={}",
            low.now().as_i64(),
            high.now().as_i64()
        );
    }
    let from_fits = c.require(&[low], move |n| holds(dtype, n[0].as_i64()));
    ensure!(from_fits, "from is out of bounds for {}", cpp_type(dtype));
    if let Some(high) = high {
        let to_fits = c.require(&[high], move |n| holds(dtype, n[0].as_i64().saturating_sub(1)));
        ensure!(to_fits, "to - 1 is out of bounds for {}", cpp_type(dtype));
    }
    Ok(())
}

/// Whether `n` is in the range of a real `dtype`.
fn holds(dtype: DType, n: i64) -> bool {
    match dtype.int_range() {
        _ if dtype == DType::Bool => matches!(n, 0 | 1),
        Some((least, greatest)) => (least..=greatest).contains(&i128::from(n)),
        None => (n as f64).abs() <= dtype.largest(),
    }
}

/// Above the greatest whole number that `random_` draws where it is given none, as far as that is an `i64`: the
/// greatest of an integer type, and what a float counts up to without gaps.
fn top(dtype: DType) -> i64 {
    let greatest = match dtype.int_range() {
        Some((_, greatest)) => greatest,
        None if dtype == DType::Bool => 1,
        None => 1 << random_digits(dtype),
    };
    i64::try_from(greatest + 1).unwrap_or(i64::MAX)
}

/// The order of random keys. Equal keys, of 64 bits, are too rare to matter.
fn randperm(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (n, dtype) = (c.int("n")?, c.optional_dtype("dtype")?.unwrap_or(DType::I64));
    ensure!(n >= 0, "Trying to create tensor with negative dimension {n}: [{n}]");
    if dtype == DType::Bool {
        return not_implemented("randperm", dtype);
    }
    // PyTorch leaves bf16 out, whose numbers repeat then.
    if dtype.is_float() && dtype != DType::BF16 {
        let most = (1_i64 << random_digits(dtype)) + 1;
        ensure!(n <= most, "n cannot be greater than {most} for {} type.", torch_name(dtype));
    }
    c.require_fit(&Scalar::Known(Number::Int(n)), dtype)?;
    let n = n as usize;
    let (_, order) = super::super::sort::sorted(b, bits(b, DType::U64, &[n])?, 0, false)?;
    one(b.convert(order, dtype)?)
}

fn normal_of(c: &Call<'_>, b: &Builder, mean: Option<ValueId>, std: Option<ValueId>) -> Result<Outs> {
    let is_complex = std.is_some_and(|v| b.dtype(v).is_complex());
    ensure!(!is_complex, "normal expects standard deviation to be non-complex");
    let given: Vec<ValueId> = [mean, std].into_iter().flatten().collect();
    let dtype = match (mean, std) {
        (Some(m), Some(_)) => b.dtype(m),
        _ => promote_all(given.iter().map(|&v| b.dtype(v)))?.unwrap_or(c.default_dtype()),
    };
    continuous(dtype, "normal_kernel_cpu")?;
    let shape = broadcast_shapes(&given.iter().map(|&v| b.shape(v)).collect::<Vec<Shape>>())?;
    let compute = if dtype.is_complex() { dtype } else { wide(dtype) };
    let part = |v: Option<ValueId>, name: &str| -> Result<ValueId> {
        let v = match v {
            Some(v) => b.convert(v, compute)?,
            None => c.scalar_value(b, &c.scalar(name)?, compute)?,
        };
        broadcast_to(b, v, &shape)
    };
    let (mean, std) = (part(mean, "mean")?, part(std, "std")?);
    let v = b.add(b.multiply(standard_normal_as(b, compute, &shape, Ok)?, std)?, mean)?;
    one(b.convert(v, dtype)?)
}

/// Each category races with an exponential clock that runs at its weight: the first to ring is drawn, and with
/// `k` draws and no replacement the first `k`.
fn multinomial(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (v, k, replacement) = (c.tensor(b, "self")?, c.int("num_samples")?, c.flag("replacement")?);
    let (shape, dtype) = (b.shape(v), b.dtype(v));
    ensure!(
        dtype.is_float(),
        "multinomial only supports floating-point dtypes for input, got: {}",
        super::super::support::torch_name(dtype)
    );
    ensure!(matches!(shape.len(), 1 | 2), "prob_dist must be 1 or 2 dim");
    ensure!(k > 0, "cannot sample n_sample <= 0 samples");
    let (k, last) = (k as usize, shape.len() - 1);
    ensure!(replacement || k <= shape[last], "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
    let weights = b.convert(v, wide(dtype))?;
    if !replacement {
        let speed = b.divide(weights, standard_exponential(b, wide(dtype), &shape)?)?;
        let (_, order) = super::super::sort::sorted(b, speed, last, true)?;
        return one(b.slice_dim(order, last, 0, k, 1)?);
    }
    let mut races = shape.clone();
    races.insert(last, k);
    let dims: Dims = (0..races.len()).filter(|&d| d != last).collect();
    let weights = b.broadcast_in_dim(weights, &races, &dims)?;
    let speed = b.divide(weights, standard_exponential(b, wide(dtype), &races)?)?;
    one(super::super::reduce::extremes::reduce_arg(b, speed, last + 1, Reducer::ArgMax)?.1)
}
