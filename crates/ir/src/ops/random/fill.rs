//! Distributions in the shape and type of a given tensor, and in place of its elements.

use super::super::support::{broadcast_to, scalar_like};
use super::super::{Call, OpDef, Outs, err, ok, one};
use super::new::integers;
use super::{
    as_dtype, bernoulli, bits, continuous, countable, open_uniform, standard_exponential, standard_normal_as, uniform,
    wide,
};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::literal::Number;
use crate::op::Unary;
use crate::types::Shape;
use crate::{DType, ensure};

pub(in super::super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::bernoulli(Tensor self, *, Generator? generator=None) -> Tensor",
        |c, b| {
            let p = c.tensor(b, "self")?;
            countable(b.dtype(p), "bernoulli_tensor_cpu_self_")?;
            continuous(b.dtype(p), "bernoulli_tensor_cpu_p_")?;
            one(b.convert(bernoulli(b, p)?, b.dtype(p))?)
        },
        &[ok("f32[500]{0..1}"), ok("bf16[200]{0,1}"), err("i64[3]{0..2}", "not implemented for 'Long'")],
    )
    .variants(&["bernoulli.out"]),
    // `bernoulli_.float` and `bernoulli.float_out`, which share this entry, may leave `p` out.
    OpDef::new(
        "aten::bernoulli.p(Tensor self, float p=0.5, *, Generator? generator=None) -> Tensor",
        |c, b| {
            let (p, to) = (c.scalar("p")?, c.dtype_of("self")?);
            countable(to, "bernoulli_scalar_cpu_")?;
            let good = c.requires(&p, |p| (0.0..=1.0).contains(&p));
            ensure!(good, "bernoulli_ expects p to be in [0, 1], but got p={}", p.now().as_f64());
            let p = broadcast_to(b, c.scalar_value(b, &p, DType::F32)?, &c.layout("self")?.sizes)?;
            one(b.convert(bernoulli(b, p)?, to)?)
        },
        &[
            ok("f32[20,30], 0.25"),
            ok("i64[4], 1.0"),
            ok("f32[0], 0.0"),
            err("c64[3], 0.5", "not implemented for 'ComplexFloat'"),
            err("f32[3], 2.0", "bernoulli_ expects p to be in [0, 1], but got p=2"),
        ],
    )
    .variants(&["bernoulli_.float", "bernoulli.float_out"]),
    OpDef::new(
        "aten::bernoulli.Tensor(Tensor self, Tensor p, *, Generator? generator=None) -> Tensor",
        |c, b| {
            let p = c.tensor(b, "p")?;
            countable(c.dtype_of("self")?, "bernoulli_tensor_cpu_self_")?;
            continuous(b.dtype(p), "bernoulli_tensor_cpu_")?;
            let p = broadcast_to(b, p, &c.layout("self")?.sizes)?;
            one(b.convert(bernoulli(b, p)?, c.dtype_of("self")?)?)
        },
        &[ok("f32[200,3], f32[3]{0..1}"), ok("i64[2], f64[1]{0..1}")],
    )
    .variants(&["bernoulli_.Tensor", "bernoulli.Tensor_out"]),
    OpDef::new(
        "aten::uniform(Tensor self, float from=0., float to=1., *, Generator? generator=None) -> Tensor",
        |c, b| {
            let (from, to) = (c.scalar("from")?, c.scalar("to")?);
            ensure!(
                c.require(&[&from, &to], |n| n[0].as_f64() <= n[1].as_f64()),
                "uniform_ expects to return a [from, to) range, but found from={} > to={}",
                from.now().as_f64(),
                to.now().as_f64()
            );
            let (dtype, shape) = target(c)?;
            continuous(dtype, "check_uniform_bounds")?;
            one(as_dtype(b, dtype, |real| {
                let u = uniform(b, real, &shape)?;
                let (low, high) = (scalar_like(c, b, &from, u)?, scalar_like(c, b, &to, u)?);
                b.add(b.multiply(u, b.subtract(high, low)?)?, low)
            })?)
        },
        &[
            ok("f32[20,30], -1.0, 2.0"),
            ok("bf16[400]"),
            err("f32[3], 2.0, 1.0", "uniform_ expects to return a [from, to) range, but found from=2 > to=1"),
            err("i64[3]", "\"check_uniform_bounds\" not implemented for 'Long'"),
        ],
    )
    .variants(&["uniform_", "uniform.out"]),
    OpDef::new(
        "aten::normal_functional(Tensor self, float mean=0., float std=1., *, Generator? generator=None) -> Tensor",
        |c, b| {
            check_std(c)?;
            let (dtype, shape) = target(c)?;
            one(normal(c, b, dtype, &shape)?)
        },
        &[
            ok("f32[20,30], 1.0, 2.0"),
            ok("f16[300]"),
            ok("c64[300], 1.0, 2.0"),
            err("f32[3], 0.0, -1.0", "normal expects std >= 0.0"),
        ],
    )
    .variants(&["normal_", "normal.out"]),
    OpDef::new(
        "aten::log_normal(Tensor self, float mean=1., float std=2., *, Generator? generator=None) -> Tensor",
        |c, b| {
            positive(c, "std", "log_normal_ expects std > 0.0, but found std")?;
            let (dtype, shape) = target(c)?;
            let normal = normal(c, b, wide(dtype), &shape)?;
            one(b.convert(b.unary(Unary::Exponential, normal)?, dtype)?)
        },
        &[ok("f32[500], 0.5, 0.25"), err("f32[3], 0.0, -1.0", "log_normal_ expects std > 0.0, but found std=-1")],
    )
    .variants(&["log_normal_", "log_normal.out"]),
    OpDef::new(
        "aten::exponential(Tensor self, float lambd=1., *, Generator? generator=None) -> Tensor",
        |c, b| {
            positive(c, "lambd", "exponential_ expects lambda > 0.0, but found lambda")?;
            let (dtype, shape) = target(c)?;
            ensure!(
                dtype.is_float(),
                "Exponential distribution is a continuous probability distribution. dtype must be a floating point but you \
                 specified {}",
                super::super::support::torch_name(dtype)
            );
            let v = standard_exponential(b, wide(dtype), &shape)?;
            one(b.convert(b.divide(v, scalar_like(c, b, &c.scalar("lambd")?, v)?)?, dtype)?)
        },
        &[
            ok("f32[500], 2.0"),
            err("f32[3], -1.0", "exponential_ expects lambda > 0.0, but found lambda=-1"),
            err("i64[3]", "Exponential distribution is a continuous probability distribution."),
        ],
    )
    .variants(&["exponential_", "exponential.out"]),
    OpDef::new(
        "aten::geometric(Tensor self, float p, *, Generator? generator=None) -> Tensor",
        geometric,
        &[ok("f32[500], 0.5"), ok("i64[500], 0.25"), err("f32[3], 0.0", "geometric_ expects p to be in (0, 1), but got p=0")],
    )
    .variants(&["geometric_", "geometric.out"]),
    OpDef::new(
        "aten::cauchy(Tensor self, float median=0., float sigma=1., *, Generator? generator=None) -> Tensor",
        cauchy,
        &[ok("f32[3], 1.0, 2.0"), err("f32[3], 0.0, -1.0", "cauchy_ expects sigma > 0.0, but found sigma=-1")],
    )
    .variants(&["cauchy_", "cauchy.out"]),
    OpDef::new(
        "aten::random.from(Tensor self, int from, int? to, *, Generator? generator=None) -> Tensor",
        |c, b| {
            let (dtype, shape) = target(c)?;
            one(integers(c, b, Some(&c.scalar("from")?), c.optional_scalar("to")?.as_ref(), dtype, &shape)?)
        },
        &[
            ok("f32[500], -2, 5"),
            ok("i64[3], 0, none"),
            ok("u8[500], 250, none"),
            ok("f16[500], 2000, none"),
            err("u8[3], -1, none", "from is out of bounds for unsigned char"),
            err("f16[3], 0, 131072", "to - 1 is out of bounds for c10::Half"),
            err("f32[3], 3, 3", "random_ expects 'from' to be less than 'to', but got from=3 >= to=3"),
        ],
    )
    .variants(&["random_.from", "random.from_out"]),
    OpDef::new(
        "aten::random.to(Tensor self, int to, *, Generator? generator=None) -> Tensor",
        |c, b| {
            let (dtype, shape) = target(c)?;
            one(integers(c, b, None, Some(&c.scalar("to")?), dtype, &shape)?)
        },
        &[ok("i32[3], 5")],
    )
    .variants(&["random_.to", "random.to_out"]),
    OpDef::new(
        "aten::random(Tensor self, *, Generator? generator=None) -> Tensor",
        |c, b| {
            let (dtype, shape) = target(c)?;
            let word = bits(b, DType::U64, &shape)?;
            let unused = b.full_like(word, Number::Int(64 - i64::from(random_digits(dtype))))?;
            one(b.convert(b.binary(crate::Binary::ShiftRightLogical, word, unused)?, dtype)?)
        },
        &[ok("i64[300]"), ok("f32[300]"), ok("bool[300]"), ok("u8[300]"), ok("bf16[300]"), ok("i32[300]")],
    )
    .variants(&["random_", "random.out"]),
];

fn target(c: &Call<'_>) -> Result<(DType, Shape)> {
    Ok((c.dtype_of("self")?, c.layout("self")?.sizes))
}

/// Refuses a `name` that is not above zero.
fn positive(c: &Call<'_>, name: &str, message: &str) -> Result<()> {
    let value = c.scalar(name)?;
    ensure!(c.requires(&value, |n| n > 0.0), "{message}={}", value.now().as_f64());
    Ok(())
}

pub(super) fn check_std(c: &Call<'_>) -> Result<()> {
    let std = c.scalar("std")?;
    ensure!(c.requires(&std, |n| n >= 0.0), "normal expects std >= 0.0, but found std {}", std.now().as_f64());
    Ok(())
}

/// Normal numbers with the call's `mean` and `std`.
pub(super) fn normal(c: &Call<'_>, b: &Builder, dtype: DType, shape: &[usize]) -> Result<ValueId> {
    continuous(dtype, "normal_kernel_cpu")?;
    let (mean, std) = (c.scalar("mean")?, c.scalar("std")?);
    standard_normal_as(b, dtype, shape, |v| {
        let (mean, std) = (scalar_like(c, b, &mean, v)?, scalar_like(c, b, &std, v)?);
        b.add(b.multiply(v, std)?, mean)
    })
}

fn geometric(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let p = c.scalar("p")?;
    let good = c.requires(&p, |p| p > 0.0 && p < 1.0);
    ensure!(good, "geometric_ expects p to be in (0, 1), but got p={}", p.now().as_f64());
    let (dtype, shape) = target(c)?;
    let drawn = b.unary(Unary::Log, open_uniform(b, wide(dtype), &shape)?)?;
    let p = scalar_like(c, b, &p, drawn)?;
    let miss = b.unary(Unary::LogPlusOne, b.negate(p)?)?;
    one(b.convert(b.unary(Unary::Ceil, b.divide(drawn, miss)?)?, dtype)?)
}

fn cauchy(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    positive(c, "sigma", "cauchy_ expects sigma > 0.0, but found sigma")?;
    let (dtype, shape) = target(c)?;
    continuous(dtype, "cauchy")?;
    let u = open_uniform(b, wide(dtype), &shape)?;
    let half = b.full_like(u, Number::Float(0.5))?;
    let angle = b.multiply(b.subtract(u, half)?, b.full_like(u, Number::Float(std::f64::consts::PI))?)?;
    let (median, sigma) = (scalar_like(c, b, &c.scalar("median")?, u)?, scalar_like(c, b, &c.scalar("sigma")?, u)?);
    let v = b.add(b.multiply(b.unary(Unary::Tan, angle)?, sigma)?, median)?;
    one(b.convert(v, dtype)?)
}

/// How many random binary digits `random_` puts into an element: all that are not the sign, or as many as a float holds
/// exactly.
pub(super) fn random_digits(dtype: DType) -> u8 {
    match dtype {
        DType::Bool => 1,
        DType::F64 => 53,
        DType::F32 => 24,
        DType::F16 => 11,
        DType::BF16 => 8,
        d if d.is_unsigned() => (8 * d.size()) as u8,
        d => (8 * d.size()).saturating_sub(1).min(63) as u8,
    }
}
