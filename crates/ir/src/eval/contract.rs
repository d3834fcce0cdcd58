//! Contractions. Sums are kept in the wide domain and rounded once.

use super::element::{Domain, in_domain, numbers, stored};
use super::window::{Tap, WindowDim, all_taps, for_each_tap};
use crate::error::Result;
use crate::literal::Literal;
use crate::op::{Convolution, DotGeneral};
use ndarray::{ArrayD, IxDyn};

/// `dot_general`; `shape` is the result's.
pub(super) fn dot_general(d: &DotGeneral, lhs: &Literal, rhs: &Literal, shape: &[usize]) -> Result<Literal> {
    in_domain!(lhs.ty.dtype, T => {
        let l = grouped(numbers::<T>(lhs)?, &d.lhs_batch, &d.lhs_contract)?;
        let r = grouped(numbers::<T>(rhs)?, &d.rhs_batch, &d.rhs_contract)?;
        let mut sums = Vec::with_capacity(l.batch * l.free * r.free);
        for b in 0..l.batch {
            for m in 0..l.free {
                for n in 0..r.free {
                    let pairs = l.row(b, m).iter().zip(r.row(b, n));
                    sums.push(pairs.fold(T::ZERO, |sum, (&x, &y)| sum.plus(x.times(y))));
                }
            }
        }
        Ok(stored(super::element::shaped(shape, sums)?.view(), d.out))
    })
}

/// An operand as batch x free x contracted.
struct Grouped<T> {
    data: Vec<T>,
    batch: usize,
    free: usize,
    contracted: usize,
}

impl<T> Grouped<T> {
    fn row(&self, batch: usize, free: usize) -> &[T] {
        let start = (batch * self.free + free) * self.contracted;
        &self.data[start..start + self.contracted]
    }
}

fn grouped<T: Copy>(a: ArrayD<T>, batch: &[usize], contracted: &[usize]) -> Result<Grouped<T>> {
    let free: Vec<usize> = (0..a.ndim()).filter(|d| !batch.contains(d) && !contracted.contains(d)).collect();
    let size = |dims: &[usize]| dims.iter().map(|&d| a.shape()[d]).product();
    let (batches, frees, contractions) = (size(batch), size(&free), size(contracted));
    let order: Vec<usize> = batch.iter().chain(&free).chain(contracted).copied().collect();
    let data = a.view().permuted_axes(IxDyn(&order)).iter().copied().collect();
    Ok(Grouped { data, batch: batches, free: frees, contracted: contractions })
}

/// `convolution`; `shape` is the result's.
pub(super) fn convolution(c: &Convolution, input: &Literal, kernel: &Literal, shape: &[usize]) -> Result<Literal> {
    let dim = |i: usize| WindowDim {
        size: kernel.ty.shape[c.kernel_spatial[i]],
        stride: c.strides[i],
        low: c.padding[i].0,
        base_dilation: c.lhs_dilation[i],
        dilation: c.rhs_dilation[i],
    };
    let dims: Vec<WindowDim> = (0..c.strides.len()).map(dim).collect();
    let extents: Vec<usize> = c.input_spatial.iter().map(|&d| input.ty.shape[d]).collect();
    let results: Vec<usize> = c.output_spatial.iter().map(|&d| shape[d]).collect();
    let mut taps = all_taps(&dims, &extents, &results);
    if c.reversed {
        for (dim, taps) in dims.iter().zip(&mut taps) {
            taps.iter_mut().flatten().for_each(|(place, _)| *place = dim.size - 1 - *place);
        }
    }
    in_domain!(input.ty.dtype, T => {
        let (x, k) = (numbers::<T>(input)?, numbers::<T>(kernel)?);
        let sums = ArrayD::from_shape_fn(IxDyn(shape), |position| {
            let here: Vec<&[Tap]> = (0..dims.len()).map(|i| &taps[i][position[c.output_spatial[i]]][..]).collect();
            window_sum(c, &x, &k, position[c.output_batch], position[c.output_feature], &here)
        });
        Ok(stored(sums.view(), c.out))
    })
}

/// One element of the result: the sum over a window and the input features of a group.
fn window_sum<T: Domain>(
    c: &Convolution,
    x: &ArrayD<T>,
    k: &ArrayD<T>,
    batch: usize,
    feature: usize,
    taps: &[&[Tap]],
) -> T {
    let features = k.shape()[c.kernel_output_feature];
    let per_group = k.shape()[c.kernel_input_feature];
    // With batch groups, each group of output features sees its own part of the batch.
    let batch_group = feature / (features / c.batch_group_count);
    let batch = batch + batch_group * (x.shape()[c.input_batch] / c.batch_group_count);
    let first = feature / (features / c.feature_group_count) * per_group;
    let (mut xi, mut ki) = (vec![0; x.ndim()], vec![0; k.ndim()]);
    (xi[c.input_batch], ki[c.kernel_output_feature]) = (batch, feature);
    let mut sum = T::ZERO;
    for_each_tap(taps, |taps| {
        for (i, &(place, index)) in taps.iter().enumerate() {
            (xi[c.input_spatial[i]], ki[c.kernel_spatial[i]]) = (index, place);
        }
        for f in 0..per_group {
            (xi[c.input_feature], ki[c.kernel_input_feature]) = (first + f, f);
            sum = sum.plus(x[IxDyn(&xi)].times(k[IxDyn(&ki)]));
        }
    });
    sum
}
