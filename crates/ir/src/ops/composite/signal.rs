//! Windows, frequencies, short-time spectra and finite differences.

use super::super::support::torch_name;
use super::super::{OpDef, Sample, err, ok};
use super::{Torch, call, composite};
use crate::error::Result;
use crate::graph::ValueId;
use crate::{DType, Number, ensure, ensure_kernel, ensure_type, unsupported};
use std::f64::consts::PI;

/// A window: schema up to its options, the numbers of its shape, and the shape.
macro_rules! window {
    ($name:literal, $more:literal, [$($number:expr),*], $shape:ident, $samples:expr) => {
        composite!(
            concat!(
                $name,
                $more,
                ", *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"
            ),
            |t| window(t, |t, n, dtype| $shape(t, n, dtype, [$($number(t)?),*])),
            $samples
        )
    };
}

/// Frequencies of a spectrum.
macro_rules! frequencies {
    ($name:literal, $f:path) => {
        composite!(
            concat!(
                "fft_",
                $name,
                "(int n, float d=1., *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, \
                 bool? pin_memory=None) -> Tensor"
            ),
            $f,
            &[
                ok("5, 2"),
                ok("6, 0.1, dtype=f64"),
                ok("5, 0.3, dtype=bf16"),
                err("4, dtype=i64", "requires a floating point or complex dtype")
            ]
        )
    };
}

pub(in super::super) static OPS: &[OpDef] = &[
    window!("hann_window", "(int window_length", [half, half], raised_cosine, PLAIN),
    window!("hann_window.periodic", "(int window_length, bool periodic", [half, half], raised_cosine, PERIODIC),
    window!("hamming_window", "(int window_length", [usual_alpha, usual_beta], raised_cosine, PLAIN),
    window!(
        "hamming_window.periodic",
        "(int window_length, bool periodic",
        [usual_alpha, usual_beta],
        raised_cosine,
        PERIODIC
    ),
    window!(
        "hamming_window.periodic_alpha",
        "(int window_length, bool periodic, float alpha",
        [alpha, usual_beta],
        raised_cosine,
        &[ok("6, true, 0.6")]
    ),
    window!(
        "hamming_window.periodic_alpha_beta",
        "(int window_length, bool periodic, float alpha, float beta",
        [alpha, beta],
        raised_cosine,
        &[ok("6, true, 0.6, 0.4")]
    ),
    window!("blackman_window", "(int window_length", [], blackman, PLAIN),
    window!("blackman_window.periodic", "(int window_length, bool periodic", [], blackman, PERIODIC),
    window!("bartlett_window", "(int window_length", [], bartlett, PLAIN),
    window!("bartlett_window.periodic", "(int window_length, bool periodic", [], bartlett, PERIODIC),
    window!("kaiser_window", "(int window_length", [twelve], kaiser, PLAIN),
    window!("kaiser_window.periodic", "(int window_length, bool periodic", [twelve], kaiser, PERIODIC),
    window!(
        "kaiser_window.beta",
        "(int window_length, bool periodic, float beta",
        [beta],
        kaiser,
        &[ok("6, false, 3"), ok("5, true, 3")]
    ),
    frequencies!("fftfreq", fftfreq),
    frequencies!("rfftfreq", rfftfreq),
    composite!(
        "stft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, \
         bool normalized=False, bool? onesided=None, bool? return_complex=None, bool? align_to_window=None) -> Tensor",
        |t| stft(t, t.c.tensor(t.b, "self")?),
        STFT
    ),
    composite!(
        "stft.center(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, \
         bool center=True, str pad_mode='reflect', bool normalized=False, bool? onesided=None, \
         bool? return_complex=None, bool? align_to_window=None) -> Tensor",
        centred_stft,
        &[
            ok("f32[40], 8, return_complex=true"),
            ok("f64[2,40], 8, 4, 6, f64[6], true, 'constant', return_complex=true"),
            ok("f32[40], 8, center=false, return_complex=true"),
            err(
                "f32[40], 8, 4, return_complex=true, align_to_window=false",
                "stft align_to_window should only be set when center = false."
            ),
        ]
    ),
    composite!(
        "istft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, \
         bool center=True, bool normalized=False, bool? onesided=None, int? length=None, bool return_complex=False) -> Tensor",
        istft,
        ISTFT
    ),
];

const PLAIN: &[Sample] = &[
    ok("6"),
    ok("5, dtype=f64"),
    ok("1"),
    ok("0"),
    err("3, dtype=i64", "expects floating point dtypes"),
    err("-1", "requires non-negative window_length, got window_length=-1"),
];
const PERIODIC: &[Sample] = &[ok("6, true"), ok("6, false"), ok("7, false, dtype=f64")];
const STFT: &[Sample] = &[
    ok("f32[40], 8, return_complex=true"),
    ok("f32[2,40], 8, return_complex=false"),
    ok("f64[40], 8, 4, 6, f64[6], true, false, true"),
    ok("f64[40], 9, 4, 6, return_complex=true"),
    ok("c64[40], 8"),
    err("f32[40], 8", "stft requires the return_complex parameter be given for real inputs"),
    err("i64[40], 8, return_complex=true", "expected a tensor of floating point or complex values"),
    err("f32[2,3,40], 8, return_complex=true", "expected a 1D or 2D tensor"),
    err("f32[4], 8, return_complex=true", "expected 0 < n_fft < 4, but got n_fft=8"),
    err("f32[40], 8, 0, return_complex=true", "expected hop_length > 0, but got hop_length=0"),
    err("f32[40], 8, 4, 9, return_complex=true", "expected 0 < win_length <= n_fft, but got win_length=9"),
    err(
        "f32[40], 8, 4, 6, f32[8], return_complex=true",
        "expected a 1D window tensor of size equal to win_length=6, but got window with size [8]",
    ),
    err("c64[40], 8, onesided=true", "Cannot have onesided output if window or input is complex"),
];
const ISTFT: &[Sample] = &[
    ok("c64[5,9], 8"),
    ok("c128[2,5,9], 8, 2, 8, f64[8]{0.5,0.75,1}, true, true, true, 30"),
    ok("c128[5,9], 8, 2, 6, f64[6]{0.5,1,0.75}"),
    ok("c64[5,9], 8, center=false"),
    ok("c64[5,9], 8, length=10"),
    ok("c64[8,9], 8, onesided=false, return_complex=true"),
    ok("c64[8,9], 8, onesided=false"),
    err("f32[5,9], 8", "istft requires a complex-valued input tensor matching the output from stft"),
    err("c64[6,9], 8", "to match n_fft / 2 + 1 when onesided=True, but got 6"),
    err("c64[5,9], 8, 9", "expected 0 < hop_length <= win_length"),
    err("c64[5,9], 8, return_complex=true", "Cannot have onesided output if window or input is complex"),
];

fn half(_: Torch<'_>) -> Result<f64> {
    Ok(0.5)
}
fn usual_alpha(_: Torch<'_>) -> Result<f64> {
    Ok(0.54)
}
fn usual_beta(_: Torch<'_>) -> Result<f64> {
    Ok(0.46)
}
fn twelve(_: Torch<'_>) -> Result<f64> {
    Ok(12.0)
}
fn alpha(t: Torch<'_>) -> Result<f64> {
    t.c.float("alpha")
}
fn beta(t: Torch<'_>) -> Result<f64> {
    t.c.float("beta")
}

/// A window of the shape that `shape` gives for its length; a periodic one lacks the last of one longer.
fn window(t: Torch<'_>, shape: impl Fn(Torch<'_>, usize, DType) -> Result<ValueId>) -> Result<ValueId> {
    let (name, n) = (t.c.name(), t.c.int("window_length")?);
    let dtype = t.c.optional_dtype("dtype")?.unwrap_or(t.c.default_dtype());
    ensure!(dtype.is_float(), "{name} expects floating point dtypes, got: {}", torch_name(dtype));
    ensure!(n >= 0, "{name} requires non-negative window_length, got window_length={n}");
    let n = n as usize;
    if n <= 1 {
        return t.b.full(Number::Int(1), dtype, &[n]);
    }
    let periodic = t.c.schema.position("periodic").is_none() || t.c.flag("periodic")?;
    let whole = shape(t, n + usize::from(periodic), dtype)?;
    t.b.slice_dim(whole, 0, 0, n, 1)
}

/// The numbers from 0 on, times a factor.
fn ramp(t: Torch<'_>, n: usize, dtype: DType, factor: f64) -> Result<ValueId> {
    call!(t, "mul.Scalar", call!(t, "arange", n, dtype)?, factor)
}

fn raised_cosine(t: Torch<'_>, n: usize, dtype: DType, [alpha, beta]: [f64; 2]) -> Result<ValueId> {
    let wave = call!(t, "cos", ramp(t, n, dtype, PI * 2.0 / (n - 1) as f64)?)?;
    call!(t, "add.Scalar", call!(t, "mul.Scalar", wave, -beta)?, alpha)
}

fn blackman(t: Torch<'_>, n: usize, dtype: DType, []: [f64; 0]) -> Result<ValueId> {
    let angle = ramp(t, n, dtype, PI / (n - 1) as f64)?;
    let wave =
        |times: f64, size: f64| call!(t, "mul.Scalar", call!(t, "cos", call!(t, "mul.Scalar", angle, times)?)?, size);
    call!(t, "add.Scalar", call!(t, "sub.Tensor", wave(4.0, 0.08)?, wave(2.0, 0.5)?)?, 0.42)
}

fn bartlett(t: Torch<'_>, n: usize, dtype: DType, []: [f64; 0]) -> Result<ValueId> {
    let up = ramp(t, n, dtype, 2.0 / (n - 1) as f64)?;
    let down = call!(t, "rsub.Scalar", up, 2.0)?;
    let half = (n - 1) / 2 + 1;
    t.b.concatenate(&[t.b.slice_dim(up, 0, 0, half, 1)?, t.b.slice_dim(down, 0, half, n, 1)?], 0)
}

fn kaiser(t: Torch<'_>, n: usize, dtype: DType, [beta]: [f64; 1]) -> Result<ValueId> {
    let wide = dtype.accumulator();
    let place = call!(t, "sub.Scalar", ramp(t, n, wide, 2.0 / (n - 1) as f64)?, 1.0)?;
    // Rounding may leave the ends below 0.
    let square = call!(t, "clamp_min", call!(t, "rsub.Scalar", call!(t, "mul.Tensor", place, place)?, 1.0)?, 0.0)?;
    let size = call!(t, "i0", call!(t, "mul.Scalar", call!(t, "sqrt", square)?, beta)?)?;
    let most = call!(t, "i0", t.b.scalar(Number::Float(beta), wide)?)?;
    t.b.convert(call!(t, "div.Tensor", size, most)?, dtype)
}

/// `count` numbers from 0 on, those behind the first `positive` ones less `n`, as frequencies of a spectrum of `n`.
fn frequencies(t: Torch<'_>, count: i64, positive: i64) -> Result<ValueId> {
    let (n, dtype) = (t.c.int("n")?, t.c.optional_dtype("dtype")?.unwrap_or(t.c.default_dtype()));
    let name = t.c.name().trim_start_matches("fft_");
    ensure!(dtype.is_float() || dtype.is_complex(), "{name} requires a floating point or complex dtype");
    ensure!(n >= 0, "{name}: n must be non-negative, but got {n}");
    let mut places = call!(t, "arange", count, dtype)?;
    if positive < count {
        let (up, down) = (positive as usize, count as usize);
        let below = call!(t, "sub.Scalar", t.b.slice_dim(places, 0, up, down, 1)?, n)?;
        places = t.b.concatenate(&[t.b.slice_dim(places, 0, 0, up, 1)?, below], 0)?;
    }
    call!(t, "mul.Scalar", places, 1.0 / (n as f64 * t.c.float("d")?))
}

fn fftfreq(t: Torch<'_>) -> Result<ValueId> {
    let n = t.c.int("n")?;
    frequencies(t, n, (n + 1) / 2)
}

fn rfftfreq(t: Torch<'_>) -> Result<ValueId> {
    let count = t.c.int("n")? / 2 + 1;
    frequencies(t, count, count)
}

fn centred_stft(t: Torch<'_>) -> Result<ValueId> {
    let (c, b, v) = (t.c, t.b, t.c.tensor(t.b, "self")?);
    if !c.flag("center")? {
        return stft(t, v);
    }
    ensure!(!c.has("align_to_window"), "stft align_to_window should only be set when center = false.");
    check_signal(t, v)?;
    let shape = b.shape(v);
    let lead: Vec<usize> = vec![1; 3 - shape.len()].into_iter().chain(shape.iter().copied()).collect();
    let pad = c.int("n_fft")? / 2;
    let padded = call!(t, "pad", b.reshape(v, &lead)?, [pad, pad], c.string("pad_mode")?)?;
    let mut shape = shape;
    if let (Some(last), Some(&own)) = (shape.last_mut(), b.shape(padded).last()) {
        *last = own;
    }
    stft(t, b.reshape(padded, &shape)?)
}

fn check_signal(t: Torch<'_>, v: ValueId) -> Result<()> {
    let (dtype, rank) = (t.b.dtype(v), t.b.rank(v));
    ensure_kernel!(
        dtype.is_float() || dtype.is_complex(),
        "stft: expected a tensor of floating point or complex values"
    );
    ensure!(matches!(rank, 1 | 2), "stft: expected a 1D or 2D tensor");
    Ok(())
}

/// The steps between windows, and the length of each.
fn hop_and_length(t: Torch<'_>, n: i64) -> Result<[i64; 2]> {
    let hop = t.c.optional_int("hop_length")?.unwrap_or(n / 4);
    Ok([hop, t.c.optional_int("win_length")?.unwrap_or(n)])
}

/// The window of the call, or ones, with zeros on both sides.
fn padded_window(t: Torch<'_>, given: Option<ValueId>, dtype: DType, n: i64, length: i64) -> Result<ValueId> {
    let window = match given {
        Some(window) => window,
        None => t.b.full(Number::Int(1), dtype, &[length as usize])?,
    };
    let left = (n - length) / 2;
    call!(t, "constant_pad_nd", window, [left, n - length - left])
}

fn stft(t: Torch<'_>, v: ValueId) -> Result<ValueId> {
    let (c, b, n) = (t.c, t.b, t.c.int("n_fft")?);
    let window = c.optional_tensor(b, "window")?;
    let complex = |v: ValueId| b.dtype(v).is_complex();
    let [hop, length] = hop_and_length(t, n)?;
    let whole = complex(v) || window.is_some_and(complex);
    ensure!(
        whole || c.has("return_complex"),
        "stft requires the return_complex parameter be given for real inputs, and will further require that \
         return_complex=True in a future PyTorch release."
    );
    check_signal(t, v)?;
    let count = b.shape(v).last().copied().unwrap_or(1) as i64;
    ensure!(n > 0 && n <= count, "stft: expected 0 < n_fft < {count}, but got n_fft={n}");
    ensure!(hop > 0, "stft: expected hop_length > 0, but got hop_length={hop}");
    ensure!(length > 0 && length <= n, "stft: expected 0 < win_length <= n_fft, but got win_length={length}");
    let size = window.map_or_else(|| [length as usize].into_iter().collect(), |w| b.shape(w));
    ensure!(
        size[..] == [length as usize],
        "stft: expected a 1D window tensor of size equal to win_length={length}, but got window with size {size:?}"
    );
    if c.flag("align_to_window")? && length < n {
        unsupported!("stft with align_to_window and a window shorter than n_fft has no lowering");
    }
    let mut frames = call!(t, "unfold_copy", v, -1, n, hop)?;
    if window.is_some() || length < n {
        frames = call!(t, "mul.Tensor", frames, padded_window(t, window, b.dtype(v), n, length)?)?;
    }
    let onesided = if c.has("onesided") { c.flag("onesided")? } else { !complex(frames) };
    let norm = i64::from(c.flag("normalized")?);
    let spectra = if complex(frames) {
        ensure!(!onesided, "Cannot have onesided output if window or input is complex");
        call!(t, "_fft_c2c", frames, [-1i64], norm, true)?
    } else {
        call!(t, "_fft_r2c", frames, [-1i64], norm, onesided)?
    };
    let turned = call!(t, "transpose_copy.int", spectra, -2, -1)?;
    let stays = if c.has("return_complex") { c.flag("return_complex")? } else { whole };
    if stays { Ok(turned) } else { call!(t, "view_as_real_copy", turned) }
}

/// The extents and numbers that an inverse has, checked as PyTorch does.
fn check_istft(t: Torch<'_>, v: ValueId, n: i64) -> Result<([i64; 2], bool)> {
    let shape = t.b.shape(v);
    ensure_type!(
        t.b.dtype(v).is_complex(),
        "istft requires a complex-valued input tensor matching the output from stft with return_complex=True."
    );
    ensure!(!shape.contains(&0), "istft: input tensor cannot be empty.");
    ensure!(
        matches!(shape.len(), 2 | 3),
        "istft: expected a tensor with 3 or 4 dimensions, but got {}",
        shape.len() + 1
    );
    let rows = shape[shape.len() - 2] as i64;
    let onesided = if t.c.has("onesided") { t.c.flag("onesided")? } else { rows != n };
    let what = "expected the frequency dimension (3rd to the last) of the input tensor to match n_fft";
    ensure!(!onesided || rows == n / 2 + 1, "istft: {what} / 2 + 1 when onesided=True, but got {rows}");
    ensure!(onesided || rows == n, "istft: {what} when onesided=False, but got {rows}");
    let [hop, length] = hop_and_length(t, n)?;
    ensure!(hop > 0 && hop <= length, "istft: expected 0 < hop_length <= win_length");
    ensure!(length > 0 && length <= n, "istft: expected 0 < win_length <= n_fft");
    Ok(([hop, length], onesided))
}

/// The signal whose windows have these spectra. That windows overlap everywhere PyTorch checks; here what they miss is NaN.
fn istft(t: Torch<'_>) -> Result<ValueId> {
    let (c, b, v, n) = (t.c, t.b, t.c.tensor(t.b, "self")?, t.c.int("n_fft")?);
    let ([hop, length], onesided) = check_istft(t, v, n)?;
    let given = c.optional_tensor(b, "window")?;
    let size = given.map_or_else(|| [length as usize].into_iter().collect(), |w| b.shape(w));
    ensure!(
        size[..] == [length as usize],
        "istft: Invalid window shape. window has to be 1D and length of `win_length`"
    );
    let window = padded_window(t, given, b.dtype(v).real(), n, length)?;
    let norm = if c.flag("normalized")? { 1 } else { 2 };
    let shape = b.shape(v);
    let (frames, batch) = (shape[shape.len() - 1], if shape.len() == 3 { shape[0] } else { 1 });
    let turned = call!(t, "transpose_copy.int", b.reshape(v, &[batch, shape[shape.len() - 2], frames])?, 1, 2)?;
    let pieces = if c.flag("return_complex")? {
        ensure!(!onesided, "Cannot have onesided output if window or input is complex");
        call!(t, "_fft_c2c", turned, [-1i64], norm, false)?
    } else {
        let real = !b.dtype(window).is_complex();
        ensure!(real, "Complex windows are incompatible with return_complex=False");
        let half = b.slice_dim(turned, 2, 0, n as usize / 2 + 1, 1)?;
        call!(t, "_fft_c2r", half, [-1i64], norm, n)?
    };
    let whole = n + hop * (frames as i64 - 1);
    let laid = |pieces: ValueId| {
        let rows = b.shape(pieces)[0] as i64;
        call!(t, "unfold_backward", pieces, [rows, whole], 1, n, hop)
    };
    let sum = laid(call!(t, "mul.Tensor", pieces, window)?)?;
    let squares = call!(t, "mul.Tensor", window, window)?;
    let weight = laid(b.broadcast_in_dim(squares, &[1, frames, n as usize], &[2])?)?;
    let start = if c.flag("center")? { n / 2 } else { 0 };
    let end = c.optional_int("length")?.map_or(whole - start, |length| start + length);
    let cut = |v: ValueId| call!(t, "slice_copy.Tensor", v, 1, start, end);
    let signal = call!(t, "div.Tensor", cut(sum)?, cut(weight)?)?;
    let signal = call!(t, "constant_pad_nd", signal, [0, (end - whole).max(0)])?;
    if shape.len() == 3 { Ok(signal) } else { b.reshape(signal, &b.shape(signal)[1..]) }
}
