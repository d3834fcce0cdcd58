//! Discrete Fourier transforms, in `f64` and rounded once.

use super::element::{C, numbers, stored};
use crate::dtype::DType;
use crate::error::Result;
use crate::literal::Literal;
use crate::op::FftKind;
use ndarray::{ArrayD, Axis, IxDyn};
use num_complex::ComplexFloat;
use std::f64::consts::TAU;

/// See [`crate::Op::Fft`]; gives elements of `out`.
pub(super) fn fft(a: &Literal, kind: FftKind, lengths: &[usize], out: DType) -> Result<Literal> {
    let outer = a.ty.rank() - lengths.len();
    let last = a.ty.rank() - 1;
    let all: Vec<(usize, usize)> = lengths.iter().enumerate().map(|(i, &n)| (outer + i, n)).collect();
    let but_last = &all[..all.len() - 1];
    let n = lengths[lengths.len() - 1];
    match kind {
        FftKind::Fft => Ok(stored(along(numbers(a)?, &all, -1.0).view(), out)),
        FftKind::Ifft => Ok(stored(along(numbers(a)?, &all, 1.0).view(), out)),
        FftKind::Rfft => {
            let whole = along(numbers::<f64>(a)?.mapv(C::from), &[(last, n)], -1.0);
            let half = whole.slice_axis(Axis(last), (..=n / 2).into()).to_owned();
            Ok(stored(along(half, but_last, -1.0).view(), out))
        }
        FftKind::Irfft => {
            let half = along(numbers::<C>(a)?, but_last, 1.0);
            let mut shape = half.shape().to_vec();
            shape[last] = n;
            let whole = ArrayD::from_shape_fn(IxDyn(&shape), |mut at| match at[last] {
                k if k <= n / 2 => half[at],
                k => {
                    at[last] = n - k;
                    half[at].conj()
                }
            });
            Ok(stored(along(whole, &[(last, n)], 1.0).mapv(|c| c.re()).view(), out))
        }
    }
}

/// Transforms along dimensions of so many values; inverse ones, of positive `sign`, divide by that.
fn along(mut a: ArrayD<C>, dims: &[(usize, usize)], sign: f64) -> ArrayD<C> {
    for &(d, n) in dims {
        let scale = if sign > 0.0 { (n as f64).recip() } else { 1.0 };
        for mut line in a.lanes_mut(Axis(d)) {
            let transformed = transformed(&line.to_vec(), sign);
            line.iter_mut().zip(transformed).for_each(|(to, x)| *to = x * scale);
        }
    }
    a
}

/// `sum(x[j] exp(sign 2 pi i j k / n))` for each `k`: of as many parts as the least prime factor has, each first.
fn transformed(x: &[C], sign: f64) -> Vec<C> {
    let n = x.len();
    let Some(p) = (2..=n).find(|&p| n.is_multiple_of(p)) else { return x.to_vec() };
    let q = n / p;
    let parts: Vec<Vec<C>> =
        (0..p).map(|r| transformed(&x.iter().skip(r).step_by(p).copied().collect::<Vec<_>>(), sign)).collect();
    let root = |i: usize| C::from_polar(1.0, sign * TAU * (i % n) as f64 / n as f64);
    (0..n).map(|k| parts.iter().enumerate().map(|(r, part)| part[k % q] * root(r * k)).sum()).collect()
}
