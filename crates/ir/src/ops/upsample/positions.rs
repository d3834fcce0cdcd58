//! Which source positions a resized position reads, and with which weights.

use crate::ops::resample::Taps;
use std::f64::consts::PI;

/// How an image is resized.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Mode {
    /// The position at or below.
    Nearest,
    /// The position whose middle is nearest.
    NearestExact,
    /// Between two positions.
    Linear,
    /// Keys' cubic convolution over four positions, with a = -0.75.
    Cubic,
    /// As `Linear`, but where positions are left out all of those between are averaged.
    SmoothLinear,
    /// Keys' convolution, with a = -0.5 and widened likewise.
    SmoothCubic,
    /// Lanczos' windowed sinc over six positions, widened likewise.
    SmoothLanczos,
}

impl Mode {
    /// Whether weights are involved.
    pub(super) fn interpolates(self) -> bool {
        !matches!(self, Mode::Nearest | Mode::NearestExact)
    }

    /// The taps of one dimension. With `single`, positions are rounded to `f32` at every step.
    pub(super) fn taps(self, extent: usize, out: usize, align: bool, scale: Option<f64>, single: bool) -> Taps {
        let axis = Axis { extent, out, align, scale, single: single || !self.interpolates() };
        let one = |i: usize| vec![(i.min(extent - 1), 1.0)];
        match self {
            Mode::Nearest if out == extent => (0..out).map(one).collect(),
            Mode::Nearest if out == 2 * extent => (0..out).map(|i| one(i / 2)).collect(),
            Mode::Nearest => (0..out).map(|i| one(axis.round(i as f64 * axis.step()) as usize)).collect(),
            Mode::NearestExact => (0..out).map(|i| one(axis.round((i as f64 + 0.5) * axis.step()) as usize)).collect(),
            Mode::Linear => (0..out).map(|i| axis.linear(i)).collect(),
            Mode::Cubic => (0..out).map(|i| axis.cubic(i)).collect(),
            Mode::SmoothLinear => (0..out).map(|i| axis.smooth(i, 2.0, |x| (1.0 - x.abs()).max(0.0))).collect(),
            Mode::SmoothCubic => (0..out).map(|i| axis.smooth(i, 4.0, |x| keys(x, -0.5))).collect(),
            Mode::SmoothLanczos => (0..out).map(|i| axis.smooth(i, 6.0, lanczos)).collect(),
        }
    }
}

/// Keys' cubic convolution kernel, zero from 2 on.
fn keys(x: f64, a: f64) -> f64 {
    match x.abs() {
        x if x < 1.0 => ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0,
        x if x < 2.0 => ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a,
        _ => 0.0,
    }
}

/// The sinc function in a window of itself, zero from 3 on.
fn lanczos(x: f64) -> f64 {
    let sinc = |x: f64| if x == 0.0 { 1.0 } else { (PI * x).sin() / (PI * x) };
    if x.abs() < 3.0 { sinc(x) * sinc(x / 3.0) } else { 0.0 }
}

/// One dimension being resized.
struct Axis {
    extent: usize,
    out: usize,
    align: bool,
    scale: Option<f64>,
    single: bool,
}

impl Axis {
    fn round(&self, x: f64) -> f64 {
        if self.single { f64::from(x as f32) } else { x }
    }

    /// Source positions a result position moves by.
    fn step(&self) -> f64 {
        let (extent, out) = (self.extent as f64, self.out as f64);
        self.round(match self.scale {
            _ if self.align && self.out > 1 => (extent - 1.0) / (out - 1.0),
            _ if self.align => 0.0,
            Some(scale) if scale > 0.0 => scale.recip(),
            _ => extent / out,
        })
    }

    /// Where in the source result position `i` lies.
    fn source(&self, i: usize) -> f64 {
        if self.align {
            return self.round(i as f64 * self.step());
        }
        self.round(self.round(self.step() * (i as f64 + 0.5)) - 0.5)
    }

    fn linear(&self, i: usize) -> Vec<(usize, f64)> {
        if self.extent == self.out {
            return vec![(i, 1.0), (i, 0.0)]; // as PyTorch: infinity times zero is NaN
        }
        let source = self.source(i).max(0.0);
        let low = (source as usize).min(self.extent - 1);
        let weight = self.round(source - low as f64).clamp(0.0, 1.0);
        vec![(low, self.round(1.0 - weight)), ((low + 1).min(self.extent - 1), weight)]
    }

    fn cubic(&self, i: usize) -> Vec<(usize, f64)> {
        let source = self.source(i);
        let base = source.floor();
        let t = self.round(source - base).clamp(0.0, 1.0);
        let weights = [t + 1.0, t, 1.0 - t, 2.0 - t].map(|x| keys(x, -0.75));
        let position = |k: usize| (base as i64 - 1 + k as i64).clamp(0, self.extent as i64 - 1) as usize;
        (0..4).map(|k| (position(k), self.round(weights[k]))).collect()
    }

    /// The positions within half of `reach` steps of the middle of result position `i`, a step being no less than a
    /// position, weighted by `filter` of their distance in steps; the weights add up to 1.
    fn smooth(&self, i: usize, reach: f64, filter: impl Fn(f64) -> f64) -> Vec<(usize, f64)> {
        let step = self.step().max(1.0);
        let middle = self.round(self.step() * (i as f64 + 0.5));
        let reach = self.round(reach / 2.0 * step);
        let first = self.round(middle - reach + 0.5).max(0.0) as usize;
        let end = (self.round(middle + reach + 0.5) as usize).min(self.extent);
        let weight = |k: usize| filter((k as f64 - middle + 0.5) / step);
        let total: f64 = (first..end).map(weight).sum();
        (first..end).map(|k| (k, self.round(weight(k) / total))).collect()
    }
}
