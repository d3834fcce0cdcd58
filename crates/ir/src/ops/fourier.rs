//! Discrete Fourier transforms. PyTorch's transform any dimensions, and scale or not; [`crate::Op::Fft`] transforms up to three
//! last ones, and divides inverses.

use super::expr::formula;
use super::support::{dim, not_implemented, torch_name};
use super::{Call, OpDef, Outs, err, ok, one};
use crate::builder::Builder;
use crate::error::{Error, Result};
use crate::graph::ValueId;
use crate::op::FftKind;
use crate::types::{Dims, Shape};
use crate::{DType, ensure, ensure_type, invalid};

pub(super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::_fft_c2c(Tensor self, SymInt[] dim, int normalization, bool forward) -> Tensor",
        complex_to_complex,
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
    .asked()
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
    .asked()
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
    .asked()
    .variants(&["_fft_c2r.out"]),
];

/// Dimensions that one op transforms at most.
const MOST_DIMS: usize = 3;

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

/// `v`, of a transform that mixes so many values and `divided` by them or not, divided by nothing, the root, or all of them.
fn normalised(c: &Call<'_>, b: &Builder, v: ValueId, extents: &[usize], divided: bool) -> Result<ValueId> {
    let count = extents.iter().product::<usize>() as f64;
    let scale = match (c.int("normalization")?, divided) {
        (0, false) | (2, true) => return Ok(v),
        (0, true) => count,
        (1, false) => count.sqrt().recip(),
        (1, true) => count.sqrt(),
        _ => count.recip(),
    };
    formula(b, [v], |[x]| x * scale)
}

fn complex_to_complex(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (v, dims) = operand(c, b)?;
    is_complex(b, v)?;
    let (n, forward) = (extents(b, v, &dims), c.flag("forward")?);
    let transformed = all(b, v, &dims, if forward { FftKind::Fft } else { FftKind::Ifft })?;
    one(normalised(c, b, transformed, &n, !forward)?)
}

fn real_to_complex(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (v, dims) = operand(c, b)?;
    let dtype = b.dtype(v);
    ensure_type!(dtype.is_float(), "Only supports floating-point dtypes, but found: {}", torch_name(dtype));
    let wide = complex(dtype)?;
    let n = extents(b, v, &dims);
    let v = match dims.split_last() {
        Some((&last, others)) if c.flag("onesided")? => {
            let half = transform(b, v, &[last], FftKind::Rfft, n[n.len() - 1])?;
            all(b, half, others, FftKind::Fft)?
        }
        _ => all(b, b.convert(v, wide)?, &dims, FftKind::Fft)?,
    };
    one(normalised(c, b, v, &n, false)?)
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
    let mut n = extents(b, v, others);
    n.push(count);
    let (half, given) = (count / 2 + 1, b.shape(v)[last]);
    ensure!(count > 0 && given >= half, "_fft_c2r: {count} values need {half} of a spectrum, not {given}");
    let v = b.slice_dim(all(b, v, others, FftKind::Ifft)?, last, 0, half, 1)?;
    one(normalised(c, b, transform(b, v, &[last], FftKind::Irfft, count)?, &n, true)?)
}

/// The transforms of `v` along `dims`, all of one kind from complex to complex.
fn all(b: &Builder, v: ValueId, dims: &[usize], kind: FftKind) -> Result<ValueId> {
    dims.chunks(MOST_DIMS).try_fold(v, |v, dims| transform(b, v, dims, kind, b.shape(v)[dims[dims.len() - 1]]))
}

/// The transform of `v` along `dims`, of which the last has `n` values.
fn transform(b: &Builder, v: ValueId, dims: &[usize], kind: FftKind, n: usize) -> Result<ValueId> {
    let shape = b.shape(v);
    let mut lengths: Shape = dims.iter().map(|&d| shape.get(d).copied().unwrap_or(1)).collect();
    let last = lengths.len() - 1;
    lengths[last] = n;
    if let Some(none) = lengths.iter().find(|&&n| n == 0) {
        invalid!("Invalid number of data points ({none}) specified");
    }
    if shape.is_empty() {
        // Of a single value, the value.
        return Ok(v);
    }
    // These dimensions last, in their order.
    let order: Dims = (0..shape.len()).filter(|d| !dims.contains(d)).chain(dims.iter().copied()).collect();
    let back: Dims = (0..shape.len()).map(|i| order.iter().position(|&o| o == i).unwrap_or(i)).collect();
    let moved = b.transpose(v, &order)?;
    b.transpose(b.fft(moved, kind, &lengths)?, &back)
}
