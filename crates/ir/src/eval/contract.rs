//! Contractions. Sums are kept in the wide domain and rounded once.

use super::element::{Domain, coordinates, in_domain, numbers, stored};
use super::reduce::steps;
use super::window::{Tap, WindowDim, all_taps, offsets};
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
    let slide = Slide {
        convolution: c,
        group: Group::of(c, input, kernel),
        taps,
        of_x: steps(&input.ty.shape),
        of_k: steps(&kernel.ty.shape),
        of_y: steps(shape),
    };
    in_domain!(input.ty.dtype, T => {
        let x = numbers::<T>(input)?.into_raw_vec_and_offset().0;
        let k = numbers::<T>(kernel)?.into_raw_vec_and_offset().0;
        let mut sums = vec![T::ZERO; shape.iter().product()];
        for place in ndarray::indices(IxDyn(&results)) {
            slide.sum(coordinates(&place), shape, &x, &k, &mut sums);
        }
        Ok(stored(super::element::shaped(shape, sums)?.view(), c.out))
    })
}

/// A convolution under way.
struct Slide<'a> {
    convolution: &'a Convolution,
    group: Group,
    /// By spatial dimension and place in it.
    taps: Vec<Vec<Vec<Tap>>>,
    /// From element to element of the input, the kernel and the result, by dimension.
    of_x: Vec<usize>,
    of_k: Vec<usize>,
    of_y: Vec<usize>,
}

impl Slide<'_> {
    /// Writes all features of the result, all over the batch, at one place in space.
    fn sum<T: Domain>(&self, place: &[usize], shape: &[usize], x: &[T], k: &[T], sums: &mut [T]) {
        let (c, Slide { of_x, of_k, of_y, .. }) = (self.convolution, self);
        let along = |dims: &[usize], step: &[usize]| dims.iter().map(|&d| step[d]).collect::<Vec<usize>>();
        let here: Vec<&[Tap]> = place.iter().zip(&self.taps).map(|(&p, taps)| &taps[p][..]).collect();
        let window = offsets(&here, &along(&c.kernel_spatial, of_k), &along(&c.input_spatial, of_x));
        let by_feature = (of_x[c.input_feature], of_k[c.kernel_input_feature]);
        let start: usize = place.iter().zip(&c.output_spatial).map(|(p, &d)| p * of_y[d]).sum();
        for feature in 0..shape[c.output_feature] {
            for batch in 0..shape[c.output_batch] {
                let (in_batch, first) = self.group.seen_by(batch, feature);
                // Windows over nothing have no elements.
                let x = x.get(in_batch * of_x[c.input_batch] + first * of_x[c.input_feature]..).unwrap_or_default();
                let k = k.get(feature * of_k[c.kernel_output_feature]..).unwrap_or_default();
                let to = start + batch * of_y[c.output_batch] + feature * of_y[c.output_feature];
                sums[to] = window_sum(x, k, &window, self.group.features, by_feature);
            }
        }
    }
}

/// The sum over a window, and at each place in it over the features, which lie so far apart.
fn window_sum<T: Domain>(x: &[T], k: &[T], window: &[Tap], features: usize, apart: (usize, usize)) -> T {
    let at = |&(place, index): &Tap| (0..features).map(move |f| (index + f * apart.0, place + f * apart.1));
    window.iter().flat_map(at).fold(T::ZERO, |sum, (i, j)| sum.plus(x[i].times(k[j])))
}

/// Which part of the input a feature of the result sees.
struct Group {
    /// Features of the input in a group.
    features: usize,
    /// Features of the result in a group of features, and in one of batches; the batch in one of these.
    of_features: usize,
    of_batches: usize,
    batch: usize,
}

impl Group {
    fn of(c: &Convolution, input: &Literal, kernel: &Literal) -> Group {
        let outputs = kernel.ty.shape[c.kernel_output_feature];
        Group {
            features: kernel.ty.shape[c.kernel_input_feature],
            of_features: outputs / c.feature_group_count,
            of_batches: outputs / c.batch_group_count,
            batch: input.ty.shape[c.input_batch] / c.batch_group_count,
        }
    }

    /// The place in the batch, and the first feature. With batch groups, each group of features sees its own part of the batch.
    fn seen_by(&self, batch: usize, feature: usize) -> (usize, usize) {
        (batch + feature / self.of_batches * self.batch, feature / self.of_features * self.features)
    }
}
