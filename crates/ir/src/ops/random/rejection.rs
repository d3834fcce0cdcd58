//! Distributions drawn by rejection: loops that go on until every element has been accepted.
//!
//! What an element asks for can be data, and wrong, which PyTorch's kernels report: here such an element is NaN, or what
//! those kernels give, and no loop waits for it.

use super::super::expr::{Expr, formula};
use super::super::loops::{anywhere, repeat_while};
use super::super::support::{broadcast_shapes, broadcast_to, not_implemented, torch_name};
use super::super::{OpDef, err, ok, one};
use super::{open_uniform, standard_normal, wide};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::op::{Binary, Reducer};
use crate::{DType, Number, ensure};

pub(in super::super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::_standard_gamma(Tensor self, Generator? generator=None) -> Tensor",
        |c, b| {
            let alpha = c.tensor(b, "self")?;
            single_or_double(b, alpha, "gamma_cpu")?;
            one(gamma(b, alpha)?)
        },
        &[
            ok("f32[500]{0.1,0.5,1,2.5,30}"),
            ok("f64[500]{0.7,3}"),
            ok("f32[]{2}"),
            ok("f32[2,0]"),
            err("bf16[3]{1}", "\"gamma_cpu\" not implemented for 'BFloat16'"),
        ],
    )
    .variants(&["_standard_gamma.out"]),
    OpDef::new(
        "aten::_sample_dirichlet(Tensor self, Generator? generator=None) -> Tensor",
        |c, b| {
            let alpha = c.tensor(b, "self")?;
            single_or_double(b, alpha, "dirichlet")?;
            one(dirichlet(b, alpha)?)
        },
        &[ok("f32[300,3]{1,2,5}"), ok("f64[200,2]{0.5,3}"), ok("f32[]{2}"), ok("f32[0,3]")],
    )
    .variants(&["_sample_dirichlet.out"]),
    OpDef::new(
        "aten::poisson(Tensor self, Generator? generator=None) -> Tensor",
        |c, b| {
            let rate = c.tensor(b, "self")?;
            let dtype = b.dtype(rate);
            if !dtype.is_float() {
                return not_implemented("poisson_cpu", dtype);
            }
            one(b.convert(poisson(b, b.convert(rate, wide(dtype))?)?, dtype)?)
        },
        &[
            ok("f32[600]{0,0.3,4,9.9,10,25,1000}"),
            ok("f64[400]{0.5,40}"),
            ok("bf16[400]{3}"),
            ok("f32[0]"),
            err("i64[3]{1}", "\"poisson_cpu\" not implemented for 'Long'"),
        ],
    )
    .variants(&["poisson.out"]),
    OpDef::new(
        "aten::binomial(Tensor count, Tensor prob, Generator? generator=None) -> Tensor",
        |c, b| {
            let (count, p) = (c.tensor(b, "count")?, c.tensor(b, "prob")?);
            let dtype = b.dtype(count);
            ensure!(
                dtype.is_float(),
                "binomial only supports floating-point dtypes for count, got: {}",
                torch_name(dtype)
            );
            single_or_double(b, count, "binomial_cpu")?;
            same_type(b, count, p)?;
            let shape = broadcast_shapes(&[b.shape(count), b.shape(p)])?;
            one(binomial(b, broadcast_to(b, count, &shape)?, broadcast_to(b, p, &shape)?)?)
        },
        &[
            ok("f32[600]{0,3,10,50,1000}, f32[600]{0.5,0.1,0.9,0,1,0.3,0.7}"),
            ok("f64[400,1]{40}, f64[1]{0.4}"),
            ok("f32[0], f32[0]"),
            err("i64[3]{1}, f32[3]", "binomial only supports floating-point dtypes for count, got: Long"),
            err("f64[3]{1}, f32[3]", "Found dtype Float but expected Double"),
        ],
    )
    .variants(&["binomial.out"]),
];

pub(super) fn single_or_double(b: &Builder, v: ValueId, kernel: &str) -> Result<()> {
    match b.dtype(v) {
        DType::F32 | DType::F64 => Ok(()),
        other => not_implemented(kernel, other),
    }
}

pub(super) fn same_type(b: &Builder, v: ValueId, other: ValueId) -> Result<()> {
    let [want, found] = [v, other].map(|v| torch_name(b.dtype(v)));
    ensure!(want == found, "Found dtype {found} but expected {want}");
    Ok(())
}

/// Goes on with `step` while anything is `pending`. A step gets what is pending and the values carried, gives their next
/// ones, and draws from its builder as expansions do.
fn draw(
    b: &Builder,
    pending: ValueId,
    carried: &[ValueId],
    step: impl Fn(&Builder, ValueId, &[ValueId]) -> Result<(ValueId, Vec<ValueId>)>,
) -> Result<Vec<ValueId>> {
    if b.shape(pending).contains(&0) {
        return Ok(carried.to_vec());
    }
    let all: Vec<ValueId> = [b.random_state(), pending].into_iter().chain(carried.iter().copied()).collect();
    let more = |b: &Builder, given: &[ValueId]| anywhere(b, given[1]);
    let next = |b: &Builder, given: &[ValueId]| {
        b.set_random_state(given[0]);
        let (pending, carried) = step(b, given[1], &given[2..])?;
        Ok([b.random_state(), pending].into_iter().chain(carried).collect())
    };
    let done = repeat_while(b, &all, more, next)?;
    b.set_random_state(done[0]);
    Ok(done[2..].to_vec())
}

/// Proposals until each pending element has accepted one. `propose` gets the parameters, and gives a proposal and whether it
/// is accepted.
fn reject<const N: usize>(
    b: &Builder,
    pending: ValueId,
    parameters: [ValueId; N],
    propose: impl Fn(&Builder, [ValueId; N]) -> Result<(ValueId, ValueId)>,
) -> Result<ValueId> {
    let start = b.full_like(parameters[0], Number::Int(0))?;
    let carried: Vec<ValueId> = std::iter::once(start).chain(parameters).collect();
    let done = draw(b, pending, &carried, |b, pending, carried| {
        let mut own = [carried[0]; N];
        own.copy_from_slice(&carried[1..]);
        let (proposal, accepted) = propose(b, own)?;
        let taken = b.binary(Binary::And, pending, accepted)?;
        let mut next = carried.to_vec();
        next[0] = b.select(taken, proposal, carried[0])?;
        Ok((b.binary(Binary::Xor, pending, taken)?, next))
    })?;
    Ok(done[0])
}

/// The smallest normal number, below which PyTorch lets no sample fall.
fn tiny(dtype: DType) -> f64 {
    if dtype == DType::F64 { f64::MIN_POSITIVE } else { f64::from(f32::MIN_POSITIVE) }
}

/// Gamma variables of shape `alpha`: Marsaglia and Tsang, "A simple method for generating gamma variables", 2000.
fn gamma(b: &Builder, alpha: ValueId) -> Result<ValueId> {
    let (dtype, shape) = (b.dtype(alpha), b.shape(alpha));
    let valid = formula(b, [alpha], |[a]| a.greater(0.0) & a.less(f64::INFINITY))?;
    // Shapes below 1 are drawn one larger, and scaled by a power of another number.
    let d = formula(b, [alpha], |[a]| a.less(1.0).select(a + 1.0, a) - 1.0 / 3.0)?;
    let drawn = reject(b, valid, [d], |b, [d]| {
        let (x, u) = (standard_normal(b, dtype, &shape)?, open_uniform(b, dtype, &shape)?);
        let v = formula(b, [x, d], |[x, d]| {
            let y = x * (d * 9.0).rsqrt() + 1.0;
            y * y * y
        })?;
        let accepted = formula(b, [x, u, v, d], |[x, u, v, d]| {
            let positive = v.greater(0.0);
            let v = positive.select(v, v.constant(1.0));
            positive & u.ln().less(x * x * 0.5 + d * (1.0 - v + v.ln()))
        })?;
        Ok((b.multiply(d, v)?, accepted))
    })?;
    let u = open_uniform(b, dtype, &shape)?;
    formula(b, [alpha, valid, drawn, u], |[alpha, valid, drawn, u]| {
        let scaled = alpha.less(1.0).select(drawn * (u.ln() / alpha).exp(), drawn);
        let least = alpha.constant(tiny(dtype));
        let other = alpha.equals(f64::INFINITY).select(alpha, least);
        valid.select(scaled.max(tiny(dtype)), other)
    })
}

fn dirichlet(b: &Builder, alpha: ValueId) -> Result<ValueId> {
    let drawn = gamma(b, alpha)?;
    let shape = b.shape(alpha);
    let dims: Vec<usize> = (0..shape.len()).collect();
    let Some((&last, kept)) = dims.split_last() else { return b.full_like(alpha, Number::Int(1)) };
    let sum = b.broadcast_in_dim(b.reduce(drawn, Reducer::Add, &[last])?, &shape, kept)?;
    formula(b, [drawn, sum], |[drawn, sum]| (drawn / sum).max(tiny(b.dtype(alpha))))
}

/// Below this mean, events are counted one by one.
const FEW: f64 = 10.0;

/// What Stirling's series leaves out of `ln k!`, taken at `k + 1`, where it holds from `k = 0` on.
fn stirling_tail(k: Expr<'_>) -> Expr<'_> {
    let n = k + 1.0;
    let square = n * n;
    (1.0 / 12.0 - (1.0 / 360.0 - (1.0 / 1260.0) / square) / square) / n
}

/// A proposal of Hörmann's transformed rejection: a whole number, and how far the uniform number that it came from lies from
/// the nearer end.
fn transformed<'e>(u: Expr<'e>, a: Expr<'e>, width: Expr<'e>, mode: Expr<'e>) -> [Expr<'e>; 2] {
    let u = u - 0.5;
    let edge = 0.5 - u.abs();
    [((a * 2.0 / edge + width) * u + mode).floor(), edge]
}

/// Poisson variables of a rate in `f32` or `f64`: products of uniform numbers where it is small, else W. Hörmann, "The
/// transformed rejection method for generating Poisson random variables", 1993.
fn poisson(b: &Builder, rate: ValueId) -> Result<ValueId> {
    let (dtype, shape) = (b.dtype(rate), b.shape(rate));
    let few = formula(b, [rate], |[rate]| rate.greater(0.0) & rate.less(FEW))?;
    let many = formula(b, [rate], |[rate]| rate.at_least(FEW) & rate.less(f64::INFINITY))?;
    let zero = b.full_like(rate, Number::Int(0))?;
    // The time that is left until `rate`, in exponential waits.
    let counted = draw(b, few, &[zero, rate], |b, pending, carried| {
        let wait = b.negate(b.unary(crate::Unary::Log, open_uniform(b, dtype, &shape)?)?)?;
        let left = b.subtract(carried[1], wait)?;
        let goes_on = formula(b, [pending, left], |[pending, left]| pending & left.at_least(0.0))?;
        let count = formula(b, [carried[0], goes_on], |[n, more]| more.select(n + 1.0, n))?;
        Ok((goes_on, vec![count, left]))
    })?[0];
    let transformed = reject(b, many, [rate], |b, [rate]| {
        let (u, v) = (open_uniform(b, dtype, &shape)?, open_uniform(b, dtype, &shape)?);
        let accept = |k: bool| {
            formula(b, [u, v, rate], |[u, v, rate]| {
                let width = rate.sqrt() * 2.53 + 0.931;
                let a = width * 0.02483 - 0.059;
                let [count, edge] = transformed(u, a, width, rate + 0.43);
                if k {
                    return count;
                }
                let at_once = edge.at_least(0.07) & v.at_most(0.9277 - 3.6224 / (width - 2.0));
                let hopeless = count.less(0.0) | (edge.less(0.013) & v.greater(edge));
                let n = count.max(0.0);
                // ln of the probability of n, by Stirling's series, in terms that stay small.
                let off = (rate - (n + 1.0)) / (n + 1.0);
                let target = n * off.ln_1p()
                    - (n + 1.0) * off
                    - (n + 1.0).ln() * 0.5
                    - 0.5 * std::f64::consts::TAU.ln()
                    - stirling_tail(n);
                let hat = (v * (1.1239 + 1.1328 / (width - 3.4)) / (a / (edge * edge) + width)).ln();
                at_once | (!hopeless & hat.at_most(target))
            })
        };
        Ok((accept(true)?, accept(false)?))
    })?;
    formula(b, [rate, few, many, counted, transformed], |[rate, few, many, counted, transformed]| {
        let nan = rate.constant(f64::NAN);
        let known = rate.equals(0.0) | rate.equals(f64::INFINITY);
        few.select(counted, many.select(transformed, known.select(rate, nan)))
    })
}

/// Binomial variables: waits for the next success where few are expected, else W. Hörmann, "The generation of binomial
/// random variates", 1993. Where successes are likelier than failures, failures are counted.
fn binomial(b: &Builder, count: ValueId, p: ValueId) -> Result<ValueId> {
    let (dtype, shape) = (b.dtype(count), b.shape(count));
    let rare = formula(b, [p], |[p]| p.greater(0.5).select(1.0 - p, p))?;
    let drawn = formula(b, [count, p], |[n, p]| n.greater(0.0) & n.less(f64::INFINITY) & p.greater(0.0) & p.less(1.0))?;
    let few = formula(b, [drawn, count, rare], |[drawn, n, p]| drawn & (n * p).less(FEW))?;
    let many = b.binary(Binary::Xor, drawn, few)?;
    let zero = b.full_like(count, Number::Int(0))?;
    let counted = draw(b, few, &[zero, count, rare], |b, pending, carried| {
        let u = open_uniform(b, dtype, &shape)?;
        let left = formula(b, [carried[1], u, carried[2]], |[left, u, p]| left - (u.ln() / (-p).ln_1p()).ceil())?;
        let goes_on = formula(b, [pending, left], |[pending, left]| pending & left.at_least(0.0))?;
        let next = formula(b, [carried[0], goes_on], |[n, more]| more.select(n + 1.0, n))?;
        Ok((goes_on, vec![next, left, carried[2]]))
    })?[0];
    let transformed = reject(b, many, [count, rare], |b, [count, rare]| {
        let (u, v) = (open_uniform(b, dtype, &shape)?, open_uniform(b, dtype, &shape)?);
        let proposal = |k: bool| {
            formula(b, [u, v, count, rare], |[u, v, n, p]| {
                let spread = (n * p * (1.0 - p)).sqrt();
                let width = spread * 2.53 + 1.15;
                let a = width * 0.0248 - 0.0873 + p * 0.01;
                let [x, edge] = transformed(u, a, width, n * p + 0.5);
                if k {
                    return x;
                }
                let at_once = edge.at_least(0.07) & v.at_most(0.92 - 4.2 / width);
                let outside = x.less(0.0) | x.greater(n);
                let x = x.max(0.0).min(n);
                let alpha = (2.83 + 5.1 / width) * spread;
                let hat = (v * alpha / (a / (edge * edge) + width)).ln();
                !outside & (at_once | hat.at_most(over_mode(n, p, x)))
            })
        };
        Ok((proposal(true)?, proposal(false)?))
    })?;
    formula(b, [count, p, few, many, counted, transformed], |[n, p, few, many, counted, transformed]| {
        let rare = few.select(counted, transformed);
        let either = p.greater(0.5).select(n - rare, rare);
        let certain = (n.at_most(0.0) | p.at_most(0.0)).select(n.constant(0.0), n);
        let undefined = n.is_nan() | p.is_nan();
        (few | many).select(either, undefined.select(n.constant(f64::NAN), certain))
    })
}

/// ln of the probability of `x` over that of the mode, in terms that stay small.
fn over_mode<'e>(n: Expr<'e>, p: Expr<'e>, x: Expr<'e>) -> Expr<'e> {
    let mode = ((n + 1.0) * p).floor();
    let off = x - mode;
    let odds = p / (1.0 - p) * (n - mode + 1.0) / (mode + 1.0);
    let near = -(x + 0.5) * (off / (mode + 1.0)).ln_1p() - (n - x + 0.5) * (-off / (n - mode + 1.0)).ln_1p();
    let tails = stirling_tail(mode) + stirling_tail(n - mode) - stirling_tail(x) - stirling_tail(n - x);
    near + off * odds.ln() + tails
}
