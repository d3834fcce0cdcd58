//! Fourier transforms as users call them: trimmed or padded, normalised by name, over one dimension, two, or any.

use super::super::support::{dim, to_float, torch_name};
use super::super::{Call, OpDef, Outs, Sample, err, ok, one};
use super::{Torch, call};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::{DType, ensure, ensure_type, invalid};

/// `aten::fft_NAME` over one dimension.
macro_rules! over_one {
    ($name:literal, |$t:ident| $value:expr, $samples:expr) => {
        OpDef::new(
            concat!("aten::fft_", $name, "(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor"),
            |c, b| {
                let $t = Torch::new(c, b);
                one($value?)
            },
            $samples,
        )
        .variants(&[concat!("fft_", $name, ".out")])
    };
}

/// `aten::fft_NAME2` over the last two dimensions and `aten::fft_NAMEn` over any.
macro_rules! over_two {
    ($name:literal, $expand:expr, $samples:expr) => {
        OpDef::new(
            concat!(
                "aten::fft_",
                $name,
                "(Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None) -> Tensor"
            ),
            $expand,
            $samples,
        )
        .variants(&[concat!("fft_", $name, ".out")])
    };
}

macro_rules! over_any {
    ($name:literal, $expand:expr, $samples:expr) => {
        OpDef::new(
            concat!(
                "aten::fft_",
                $name,
                "(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor"
            ),
            $expand,
            $samples,
        )
        .variants(&[concat!("fft_", $name, ".out")])
    };
}

macro_rules! shift {
    ($name:literal, $up:literal, $samples:expr) => {
        OpDef::new(
            concat!("aten::fft_", $name, "(Tensor self, int[1]? dim=None) -> Tensor"),
            |c, b| shifted(c, b, $up),
            $samples,
        )
    };
}

pub(in super::super) static OPS: &[OpDef] = &[
    over_one!("fft", |t| full(t, "fft", true), COMPLEX_OR_REAL),
    over_one!("ifft", |t| full(t, "ifft", false), COMPLEX_OR_REAL),
    over_one!("rfft", |t| from_real(t, "rfft", true, true), REAL),
    over_one!("irfft", |t| to_real(t, false), HALF),
    over_one!("hfft", |t| to_real(t, true), HALF),
    over_one!("ihfft", |t| from_real(t, "ihfft", false, true), REAL),
    over_two!("fft2", |c, b| full_nd(c, b, true), TWO),
    over_two!("ifft2", |c, b| full_nd(c, b, false), TWO),
    over_two!("rfft2", rfftn, TWO_REAL),
    over_two!("irfft2", |c, b| to_real_nd(c, b, "irfftn", false), TWO),
    over_two!("hfft2", |c, b| to_real_nd(c, b, "hfftn", true), TWO),
    over_two!("ihfft2", ihfftn, TWO_REAL),
    over_any!("fftn", |c, b| full_nd(c, b, true), ANY),
    over_any!("ifftn", |c, b| full_nd(c, b, false), ANY),
    over_any!("rfftn", rfftn, ANY_REAL),
    over_any!("irfftn", |c, b| to_real_nd(c, b, "irfftn", false), ANY_HALF),
    over_any!("hfftn", |c, b| to_real_nd(c, b, "hfftn", true), ANY_HALF),
    over_any!("ihfftn", ihfftn, ANY_REAL),
    shift!("fftshift", false, SHIFTS),
    shift!("ifftshift", true, SHIFTS),
];

const COMPLEX_OR_REAL: &[Sample] = &[
    ok("c64[2,6]"),
    ok("c128[6,2], 8, 0, 'ortho'"),
    ok("f32[2,5]"),
    ok("f64[2,6], 4, -1, 'forward'"),
    ok("i64[5], none, 0, 'backward'"),
    ok("bool[4]"),
    err("f32[4], none, 0, 'x'", "Invalid normalization mode: \"x\""),
    err("f32[4], 0", "Invalid number of data points (0) specified"),
    err("f32[4], none, 1", "Dimension out of range"),
    err("f16[4]", "Unsupported dtype Half"),
    err("f32[]", "Dimension specified as -1 but tensor has no dimensions"),
];
const REAL: &[Sample] = &[
    ok("f32[2,5]"),
    ok("f64[6,2], 8, 0, 'ortho'"),
    ok("i64[6], 4, -1, 'forward'"),
    err("c64[4]", "fft expects a real input tensor, but got ComplexFloat"),
];
const HALF: &[Sample] = &[
    ok("c64[2,5]"),
    ok("c128[6,2], 7, 0, 'ortho'"),
    ok("f32[4], 10, -1, 'forward'"),
    ok("i64[4]"),
    err("c64[1]", "Invalid number of data points (0) specified"),
];
const TWO: &[Sample] = &[
    ok("c64[2,4,3]"),
    ok("f32[4,3], [5,2]"),
    ok("c128[3,4,2], none, [0,1], 'ortho'"),
    ok("i64[4,3], [-1,4], [-1,0], 'forward'"),
    err("c64[2,4,3], none, [0,0]", "FFT dims must be unique"),
    err("c64[2,4,3], [2]", "When given, dim and shape arguments must have the same length"),
];
const TWO_REAL: &[Sample] = &[
    ok("f32[4,3], [5,2]"),
    ok("f64[3,4,2], none, [0,1], 'ortho'"),
    ok("i64[4,3], [-1,4], [-1,0], 'forward'"),
    err("c64[4,3]", "expects a real-valued input tensor, but got ComplexFloat"),
];
const ANY: &[Sample] = &[
    ok("c64[2,4,3]"),
    ok("f64[2,4,3], [3,5]"),
    ok("c64[2,4,3], none, [2], 'ortho'"),
    ok("c64[3], none, []"),
    err("c64[3], [3,4]", "Got shape with 2 values but input tensor only has 1 dimensions"),
    err("c64[3], [0]", "Invalid number of data points (0) specified"),
];
const ANY_REAL: &[Sample] = &[
    ok("f32[2,4,3]"),
    ok("f64[2,4,3], [3,5], none, 'forward'"),
    ok("f64[2,4,3], none, [2], 'ortho'"),
    err("f32[3], none, []", "must transform at least one axis"),
];
const ANY_HALF: &[Sample] = &[
    ok("c128[2,4,3]"),
    ok("c64[2,4,3], [3,5]"),
    ok("c128[2,4,3], none, [2], 'ortho'"),
    ok("c128[2,4,3], [3,-1], [0,1], 'forward'"),
    err("c64[3], none, []", "must transform at least one axis"),
];
const SHIFTS: &[Sample] = &[ok("f32[5]"), ok("i64[4,3]"), ok("c64[4,3,5], [0,-1]")];

/// The type that a transform of `dtype` computes in.
fn promoted(t: Torch<'_>, v: ValueId, complex: bool) -> Result<ValueId> {
    let dtype = t.b.dtype(v);
    if dtype.is_complex() {
        return Ok(v);
    }
    let float = to_float(t.c, dtype);
    let wide = match float {
        DType::F32 => DType::C64,
        DType::F64 => DType::C128,
        low => invalid!("Unsupported dtype {}", torch_name(low)),
    };
    t.b.convert(v, if complex { wide } else { float })
}

/// The number of `norm`, for a transform from values to a spectrum or back.
fn normalization(c: &Call<'_>, forward: bool) -> Result<i64> {
    Ok(match c.string("norm")? {
        None | Some("backward") => i64::from(!forward) * 2,
        Some("forward") => i64::from(forward) * 2,
        Some("ortho") => 1,
        Some(other) => invalid!("Invalid normalization mode: \"{other}\""),
    })
}

/// `v` with the extent `n` along `d`: the first values, or zeros after the last.
fn resized(b: &Builder, v: ValueId, d: usize, n: usize) -> Result<ValueId> {
    let own = b.shape(v)[d];
    if n <= own {
        return b.slice_dim(v, d, 0, n, 1);
    }
    let (none, mut high) = (vec![0; b.rank(v)], vec![0; b.rank(v)]);
    high[d] = (n - own) as i64;
    b.pad(v, b.scalar(crate::Number::Int(0), b.dtype(v))?, &none, &high, &vec![0; b.rank(v)])
}

fn points(n: i64) -> Result<usize> {
    ensure!(n >= 1, "Invalid number of data points ({n}) specified");
    Ok(n as usize)
}

/// The dimension of a transform over one.
fn only_dim(t: Torch<'_>, v: ValueId) -> Result<usize> {
    let (d, rank) = (t.c.int("dim")?, t.b.rank(v));
    if rank == 0 {
        return Err(crate::Error::index(format!("Dimension specified as {d} but tensor has no dimensions")));
    }
    dim(d, rank)
}

/// `self`, promoted and resized, and the dimension to transform.
fn only(t: Torch<'_>, complex: bool) -> Result<(ValueId, usize)> {
    let v = promoted(t, t.c.tensor(t.b, "self")?, complex)?;
    let d = only_dim(t, v)?;
    let n = points(t.c.optional_int("n")?.unwrap_or(t.b.shape(v)[d] as i64))?;
    Ok((resized(t.b, v, d, n)?, d))
}

fn full(t: Torch<'_>, name: &str, forward: bool) -> Result<ValueId> {
    if !t.b.dtype(t.c.tensor(t.b, "self")?).is_complex() {
        return from_real(t, name, forward, false);
    }
    let (v, d) = only(t, true)?;
    call!(t, "_fft_c2c", v, [d as i64], normalization(t.c, forward)?, forward)
}

fn from_real(t: Torch<'_>, name: &str, forward: bool, onesided: bool) -> Result<ValueId> {
    is_real(t, &format!("{name} expects a real input tensor"))?;
    let (v, d) = only(t, false)?;
    let spectrum = call!(t, "_fft_r2c", v, [d as i64], normalization(t.c, forward)?, onesided)?;
    if forward { Ok(spectrum) } else { call!(t, "_conj", spectrum) }
}

fn is_real(t: Torch<'_>, what: &str) -> Result<()> {
    let dtype = t.c.dtype_of("self")?;
    ensure_type!(!dtype.is_complex(), "{what}, but got {}", torch_name(dtype));
    Ok(())
}

fn to_real(t: Torch<'_>, forward: bool) -> Result<ValueId> {
    let mut v = promoted(t, t.c.tensor(t.b, "self")?, true)?;
    let d = only_dim(t, v)?;
    let given = t.c.optional_int("n")?;
    let n = points(given.unwrap_or(2 * (t.b.shape(v)[d] as i64 - 1)))?;
    if given.is_some() {
        v = resized(t.b, v, d, n / 2 + 1)?;
    }
    if forward {
        v = call!(t, "_conj", v)?;
    }
    call!(t, "_fft_c2r", v, [d as i64], normalization(t.c, forward)?, n)
}

/// The dimensions that a transform over several takes, and their extents.
fn extents(t: Torch<'_>) -> Result<(Vec<i64>, Vec<i64>)> {
    let shape = t.b.shape(t.c.tensor(t.b, "self")?);
    let rank = shape.len();
    let (s, dims) = (t.c.optional_ints("s")?, t.c.optional_ints("dim")?);
    let dims: Vec<usize> = match (&dims, &s) {
        (Some(dims), _) => dims.iter().map(|&d| dim(d, rank)).collect::<Result<_>>()?,
        (None, Some(s)) => {
            ensure!(s.len() <= rank, "Got shape with {} values but input tensor only has {rank} dimensions.", s.len());
            (rank - s.len()..rank).collect()
        }
        (None, None) => (0..rank).collect(),
    };
    let distinct = dims.iter().enumerate().all(|(i, d)| !dims[..i].contains(d));
    ensure!(distinct, "FFT dims must be unique");
    let own = |i: usize| shape[dims[i]] as i64;
    let mut n: Vec<i64> = (0..dims.len()).map(own).collect();
    if let Some(s) = s {
        ensure!(s.len() == dims.len(), "When given, dim and shape arguments must have the same length");
        n = s.iter().enumerate().map(|(i, &s)| if s == -1 { own(i) } else { s }).collect();
    }
    for &n in &n {
        points(n)?;
    }
    Ok((dims.iter().map(|&d| d as i64).collect(), n))
}

fn resized_all(b: &Builder, v: ValueId, dims: &[i64], n: &[i64]) -> Result<ValueId> {
    dims.iter().zip(n).try_fold(v, |v, (&d, &n)| resized(b, v, d as usize, n as usize))
}

fn full_nd(c: &Call<'_>, b: &Builder, forward: bool) -> Result<Outs> {
    let t = Torch::new(c, b);
    let v = promoted(t, c.tensor(b, "self")?, true)?;
    let (dims, n) = extents(t)?;
    one(call!(t, "_fft_c2c", resized_all(b, v, &dims, &n)?, dims, normalization(c, forward)?, forward)?)
}

/// Real `self`, promoted and resized, and the dimensions to transform.
fn real_nd(t: Torch<'_>, name: &str) -> Result<(ValueId, Vec<i64>)> {
    is_real(t, &format!("{name} expects a real-valued input tensor"))?;
    let v = promoted(t, t.c.tensor(t.b, "self")?, false)?;
    let (dims, n) = extents(t)?;
    ensure!(!dims.is_empty(), "{name} must transform at least one axis");
    Ok((resized_all(t.b, v, &dims, &n)?, dims))
}

fn rfftn(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let t = Torch::new(c, b);
    let (v, dims) = real_nd(t, "rfftn")?;
    one(call!(t, "_fft_r2c", v, dims, normalization(c, true)?, true)?)
}

fn ihfftn(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let t = Torch::new(c, b);
    let (v, mut dims) = real_nd(t, "ihfftn")?;
    let norm = normalization(c, false)?;
    let last = dims.split_off(dims.len() - 1);
    let v = call!(t, "_conj", call!(t, "_fft_r2c", v, last, norm, true)?)?;
    one(if dims.is_empty() { v } else { call!(t, "_fft_c2c", v, dims, norm, false)? })
}

/// From half a spectrum along the last of the dimensions.
fn to_real_nd(c: &Call<'_>, b: &Builder, name: &str, forward: bool) -> Result<Outs> {
    let t = Torch::new(c, b);
    let v = promoted(t, c.tensor(b, "self")?, true)?;
    let (mut dims, mut n) = extents(t)?;
    let (Some(&last), Some(half)) = (dims.last(), n.last_mut()) else {
        invalid!("{name} must transform at least one axis")
    };
    let asked = c.optional_ints("s")?.and_then(|s| s.last().copied()).filter(|&n| n != -1);
    let count = points(asked.unwrap_or(2 * (b.shape(v)[last as usize] as i64 - 1)))?;
    *half = count as i64 / 2 + 1;
    let v = resized_all(b, v, &dims, &n)?;
    let norm = normalization(c, forward)?;
    if !forward {
        return one(call!(t, "_fft_c2r", v, dims, norm, count)?);
    }
    dims.pop();
    let v = if dims.is_empty() { v } else { call!(t, "_fft_c2c", v, dims, norm, true)? };
    one(call!(t, "_fft_c2r", call!(t, "_conj", v)?, [last], norm, count)?)
}

/// Half a turn of each dimension, up or down where that is none.
fn shifted(c: &Call<'_>, b: &Builder, up: bool) -> Result<Outs> {
    let t = Torch::new(c, b);
    let v = c.tensor(b, "self")?;
    let shape = b.shape(v);
    let dims = match c.optional_ints("dim")? {
        Some(dims) => dims,
        None => (0..shape.len() as i64).collect(),
    };
    let half = |&d: &i64| Ok((shape[dim(d, shape.len())?] + usize::from(up)) as i64 / 2);
    let shifts = dims.iter().map(half).collect::<Result<Vec<i64>>>()?;
    one(call!(t, "roll", v, shifts, dims)?)
}
