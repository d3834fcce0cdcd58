//! Discrete Fourier transforms, as products with small matrices.
//!
//! A transform of `n = p * q` values is `q` transforms of `p`, a factor per value, and `p` transforms of `q`: Cooley and
//! Tukey's step with the largest `p` up to [`RADIX`]. Contractions are what the hardware is best at. A length whose
//! factors are all larger is one product with its whole matrix.

use super::expr::formula;
use super::support::{dim, not_implemented, torch_name};
use super::{Call, OpDef, Outs, err, ok, one};
use crate::builder::Builder;
use crate::error::{Error, Result};
use crate::graph::ValueId;
use crate::literal::Literal;
use crate::op::{Binary, DotGeneral, Precision, Unary};
use crate::types::{Dims, Shape, TensorType};
use crate::{DType, Number, ensure, ensure_type, unsupported};
use std::f64::consts::TAU;

pub(super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::_fft_c2c(Tensor self, SymInt[] dim, int normalization, bool forward) -> Tensor",
        |c, b| {
            let (v, dims) = operand(c, b)?;
            is_complex(b, v)?;
            let n = extents(b, v, &dims);
            one(normalised(c, b, transform_all(b, v, &dims, c.flag("forward")?)?, &n)?)
        },
        &[
            ok("c64[8], [0], 0, true"),
            ok("c64[3,12], [1], 2, false"),
            ok("c128[4,3,5], [0,2], 1, true"),
            ok("c128[2,66], [1], 0, true"),
            ok("c128[67], [0], 0, false"),
            ok("c128[2,192], [1], 0, true"),
            ok("c64[3], [], 0, true"),
            err("f32[4], [0], 0, true", "Only supports complex dtypes, but found: Float"),
        ],
    )
    .variants(&["_fft_c2c.out"]),
    OpDef::new(
        "aten::_fft_r2c(Tensor self, int[] dim, int normalization, bool onesided) -> Tensor",
        real_to_complex,
        &[
            ok("f32[8], [0], 0, true"),
            ok("f64[3,9], [0,1], 1, true"),
            ok("f64[3,10], [1,0], 2, false"),
            ok("f64[2,130], [1], 0, true"),
            err("i64[4], [0], 0, true", "Only supports floating-point dtypes, but found: Long"),
            err("bf16[4], [0], 0, true", "MKL FFT doesn't support tensors of type: BFloat16"),
        ],
    )
    .variants(&["_fft_r2c.out"]),
    OpDef::new(
        "aten::_fft_c2r(Tensor self, int[] dim, int normalization, SymInt last_dim_size) -> Tensor",
        complex_to_real,
        &[
            ok("c64[5], [0], 2, 8"),
            ok("c64[5], [0], 0, 9"),
            ok("c128[3,5], [0,1], 1, 8"),
            ok("c128[5,4], [0], 2, 9"),
            err("f32[4], [0], 0, 6", "Only supports complex dtypes, but found: Float"),
        ],
    )
    .variants(&["_fft_c2r.out"]),
];

/// Transforms up to this length are one product.
const RADIX: usize = 64;
/// The greatest extent of a matrix that a length without small factors may need.
const GREATEST: usize = 2048;

/// `self` and the dimensions to transform, in order.
fn operand(c: &Call<'_>, b: &Builder) -> Result<(ValueId, Vec<usize>)> {
    let v = c.tensor(b, "self")?;
    let dims = c.ints("dim")?.iter().map(|&d| dim(d, b.rank(v))).collect::<Result<_>>()?;
    Ok((v, dims))
}

fn extents(b: &Builder, v: ValueId, dims: &[usize]) -> Vec<usize> {
    let shape = b.shape(v);
    dims.iter().map(|&d| shape[d]).collect()
}

/// `v` divided by nothing, the root, or all of the number of values that a transform mixes.
fn normalised(c: &Call<'_>, b: &Builder, v: ValueId, extents: &[usize]) -> Result<ValueId> {
    let count = extents.iter().product::<usize>() as f64;
    let scale = match c.int("normalization")? {
        0 => return Ok(v),
        1 => count.sqrt().recip(),
        _ => count.recip(),
    };
    formula(b, [v], |[x]| x * scale)
}

fn real_to_complex(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (v, dims) = operand(c, b)?;
    let dtype = b.dtype(v);
    ensure_type!(dtype.is_float(), "Only supports floating-point dtypes, but found: {}", torch_name(dtype));
    let wide = complex(dtype)?;
    let n = extents(b, v, &dims);
    let mut v = b.convert(v, wide)?;
    if let Some((&last, others)) = dims.split_last() {
        v = transform(b, v, last, true)?;
        if c.flag("onesided")? {
            v = b.slice_dim(v, last, 0, b.shape(v)[last] / 2 + 1, 1)?;
        }
        v = transform_all(b, v, others, true)?;
    }
    one(normalised(c, b, v, &n)?)
}

fn is_complex(b: &Builder, v: ValueId) -> Result<()> {
    let dtype = b.dtype(v);
    ensure_type!(dtype.is_complex(), "Only supports complex dtypes, but found: {}", torch_name(dtype));
    Ok(())
}

fn complex(dtype: DType) -> Result<DType> {
    match dtype {
        DType::F32 => Ok(DType::C64),
        DType::F64 => Ok(DType::C128),
        low => Err(Error::invalid(format!("MKL FFT doesn't support tensors of type: {}", torch_name(low)))),
    }
}

/// Half a spectrum, whose other half is its mirror image conjugated, to the real numbers behind it.
fn complex_to_real(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (v, dims) = operand(c, b)?;
    is_complex(b, v)?;
    let count = usize::try_from(c.int("last_dim_size")?).unwrap_or(0);
    let Some((&last, others)) = dims.split_last() else {
        return not_implemented("_fft_c2r over no dimension", b.dtype(v));
    };
    let mut v = transform_all(b, v, others, false)?;
    let (half, given) = (count / 2 + 1, b.shape(v)[last]);
    ensure!(count > 0 && given >= half, "_fft_c2r: {count} values need {half} of a spectrum, not {given}");
    v = b.slice_dim(v, last, 0, half, 1)?;
    // The mirror image of 1, 2, ... below the middle.
    let mirrored = b.reverse(b.slice_dim(v, last, 1, count - half + 1, 1)?, &[last])?;
    let mirrored =
        b.binary(Binary::Complex, b.unary(Unary::Real, mirrored)?, b.negate(b.unary(Unary::Imag, mirrored)?)?)?;
    v = transform(b, b.concatenate(&[v, mirrored], last)?, last, false)?;
    let mut n = extents(b, v, others);
    n.push(count);
    one(normalised(c, b, b.unary(Unary::Real, v)?, &n)?)
}

fn transform_all(b: &Builder, v: ValueId, dims: &[usize], forward: bool) -> Result<ValueId> {
    dims.iter().try_fold(v, |v, &d| transform(b, v, d, forward))
}

/// The transform along dimension `d` of complex `v`.
fn transform(b: &Builder, v: ValueId, d: usize, forward: bool) -> Result<ValueId> {
    let shape = b.shape(v);
    let n = shape.get(d).copied().unwrap_or(1);
    ensure!(n > 0, "Invalid number of data points ({n}) specified");
    if shape.contains(&0) || n == 1 {
        return Ok(v);
    }
    // The dimension last, and all others one.
    let order: Dims = (0..shape.len()).filter(|&i| i != d).chain([d]).collect();
    let moved: Shape = order.iter().map(|&i| shape[i]).collect();
    let rows = shape.iter().product::<usize>() / n;
    let v = lines(b, b.reshape(b.transpose(v, &order)?, &[rows, n])?, forward)?;
    let back: Dims = (0..shape.len()).map(|i| order.iter().position(|&o| o == i).unwrap_or(i)).collect();
    b.transpose(b.reshape(v, &moved)?, &back)
}

/// The transform of each row of `[rows, n]`.
fn lines(b: &Builder, v: ValueId, forward: bool) -> Result<ValueId> {
    let s = b.shape(v);
    let (rows, n) = (s[0], s[1]);
    let p = if n <= RADIX { n } else { (2..=RADIX).rev().find(|&p| n.is_multiple_of(p)).unwrap_or(n) };
    if p == n {
        if n > GREATEST {
            unsupported!("a Fourier transform of {n} values, which has no factor up to {RADIX}");
        }
        return contract(b, v, roots(b, b.dtype(v), [n, n], n, forward)?, 1);
    }
    let q = n / p;
    // [rows, p, q] to [rows, q, p], transformed along p.
    let firsts = contract(b, b.reshape(v, &[rows, p, q])?, roots(b, b.dtype(v), [p, p], p, forward)?, 1)?;
    let factors = b.broadcast_in_dim(roots(b, b.dtype(v), [q, p], n, forward)?, &[rows, q, p], &[1, 2])?;
    let turned = b.transpose(b.multiply(firsts, factors)?, &[0, 2, 1])?;
    let seconds = lines(b, b.reshape(turned, &[rows * p, q])?, forward)?;
    b.reshape(b.transpose(b.reshape(seconds, &[rows, p, q])?, &[0, 2, 1])?, &[rows, n])
}

/// `v`, contracted along `d` with the first dimension of `matrix`, whose second one comes last.
fn contract(b: &Builder, v: ValueId, matrix: ValueId, d: usize) -> Result<ValueId> {
    let dims = DotGeneral {
        lhs_batch: Dims::new(),
        rhs_batch: Dims::new(),
        lhs_contract: Dims::from_slice(&[d]),
        rhs_contract: Dims::from_slice(&[0]),
        // Errors of a transform spread over all of its results.
        precision: Precision::Highest,
        out: b.dtype(v),
        host: false,
    };
    b.dot_general(v, matrix, dims)
}

/// `exp(-2 pi i j k / n)` at `[j, k]`, or the conjugate.
fn roots(b: &Builder, dtype: DType, shape: [usize; 2], n: usize, forward: bool) -> Result<ValueId> {
    let sign = if forward { -1.0 } else { 1.0 };
    let root = |j: usize, k: usize| {
        // Small angles keep their digits.
        let angle = sign * TAU * ((j * k) % n) as f64 / n as f64;
        Number::Complex(angle.cos(), angle.sin()).to_bytes(dtype)
    };
    let bytes: Vec<u8> = (0..shape[0]).flat_map(|j| (0..shape[1]).flat_map(move |k| root(j, k))).collect();
    let literal = Literal::dense(TensorType::new(dtype, shape), bytes);
    b.constant(literal.ok_or_else(|| Error::internal("a matrix of roots does not fill its shape"))?)
}
