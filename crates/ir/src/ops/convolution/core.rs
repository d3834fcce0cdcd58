//! The three convolutions as core ops, in the accumulation type. Operands have passed [`Attributes::check`].

use super::attributes::Attributes;
use super::spatial;
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::op::{Convolution, Precision};
use crate::ops::Call;
use crate::types::{Dims, Shape};
use crate::{DType, Number};

/// `input` convolved with `weight`.
pub(super) fn forward(c: &Call<'_>, b: &Builder, input: ValueId, weight: ValueId, a: &Attributes) -> Result<ValueId> {
    let out = a.output_shape(&b.shape(input), &b.shape(weight))?;
    if a.transposed { spread(c, b, input, weight, &out, a) } else { gather(c, b, input, weight, &out, a) }
}

/// The gradient of the input, of extents `shape`.
pub(super) fn input_gradient(
    c: &Call<'_>,
    b: &Builder,
    grad: ValueId,
    weight: ValueId,
    shape: &[usize],
    a: &Attributes,
) -> Result<ValueId> {
    if a.transposed { gather(c, b, grad, weight, shape, a) } else { spread(c, b, grad, weight, shape, a) }
}

/// A convolution: windows of `x` at multiples of the stride meet `weight[out, in / groups, ...]`.
fn gather(c: &Call<'_>, b: &Builder, x: ValueId, weight: ValueId, out: &[usize], a: &Attributes) -> Result<ValueId> {
    let (ins, kernel, outs) = (spatial(&b.shape(x)), spatial(&b.shape(weight)), spatial(out));
    let mut attributes = plain_numbers(c, b.dtype(x), ins.len());
    for i in 0..ins.len() {
        let (stride, dilation, low) = (a.stride[i], a.dilation[i], a.padding[i].0);
        let reach = (outs[i] as i64 - 1) * stride + dilation * (kernel[i] as i64 - 1) + 1;
        attributes.padding[i] = (low, reach - ins[i] as i64 - low);
        attributes.strides[i] = stride as usize;
        attributes.rhs_dilation[i] = dilation as usize;
    }
    attributes.feature_group_count = a.groups as usize;
    convolution(b, x, weight, attributes, out)
}

/// The adjoint of [`gather`] on its input: every element of `x` spreads over the places its window covers.
fn spread(c: &Call<'_>, b: &Builder, x: ValueId, weight: ValueId, out: &[usize], a: &Attributes) -> Result<ValueId> {
    let (ins, kernel, outs) = (spatial(&b.shape(x)), spatial(&b.shape(weight)), spatial(out));
    let n = ins.len();
    let mut attributes = plain_numbers(c, b.dtype(x), n);
    for i in 0..n {
        let stride = a.stride[i];
        let reach = a.dilation[i] * (kernel[i] as i64 - 1);
        let low = reach - a.padding[i].0;
        attributes.padding[i] = (low, outs[i] as i64 + reach - low - (ins[i] as i64 - 1) * stride - 1);
        attributes.lhs_dilation[i] = stride as usize;
        attributes.rhs_dilation[i] = a.dilation[i] as usize;
    }
    attributes.feature_group_count = a.groups as usize;
    (attributes.kernel_input_feature, attributes.kernel_output_feature) = (0, 1);
    let dims: Dims = (2..n + 2).collect();
    let flipped = b.reverse(weight, &dims)?;
    convolution(b, x, exchange_groups(b, flipped, a.groups as usize)?, attributes, out)
}

/// `[groups * in, out, ...]` as `[in, groups * out, ...]`.
fn exchange_groups(b: &Builder, weight: ValueId, groups: usize) -> Result<ValueId> {
    if groups == 1 {
        return Ok(weight);
    }
    let shape = b.shape(weight);
    let (ins, outs, tail) = (shape[0] / groups, shape[1], &shape[2..]);
    let split: Shape = [groups, ins, outs].iter().chain(tail).copied().collect();
    let order: Dims = [1, 0, 2].into_iter().chain(3..split.len()).collect();
    let joined: Shape = [ins, groups * outs].iter().chain(tail).copied().collect();
    b.reshape(b.transpose(b.reshape(weight, &split)?, &order)?, &joined)
}

/// The gradient of the weight, of extents `shape`: input and gradient convolved over the batch, which becomes the
/// feature dimension, while the input's channels become the batch.
pub(super) fn weight_gradient(
    c: &Call<'_>,
    b: &Builder,
    grad: ValueId,
    input: ValueId,
    shape: &[usize],
    a: &Attributes,
) -> Result<ValueId> {
    // The weight of a transposed convolution is that of its adjoint, whose input is what was its result.
    let (x, g) = if a.transposed { (grad, input) } else { (input, grad) };
    let (ins, windows, kernel) = (spatial(&b.shape(x)), spatial(&b.shape(g)), spatial(shape));
    let mut attributes = plain_numbers(c, b.dtype(x), ins.len());
    for i in 0..ins.len() {
        let low = a.padding[i].0;
        let reach = a.dilation[i] * (kernel[i] as i64 - 1) + a.stride[i] * (windows[i] as i64 - 1) + 1;
        attributes.padding[i] = (low, reach - ins[i] as i64 - low);
        attributes.strides[i] = a.dilation[i] as usize;
        attributes.rhs_dilation[i] = a.stride[i] as usize;
    }
    attributes.batch_group_count = a.groups as usize;
    (attributes.input_batch, attributes.input_feature) = (1, 0);
    (attributes.kernel_input_feature, attributes.kernel_output_feature) = (0, 1);
    (attributes.output_batch, attributes.output_feature) = (1, 0);
    convolution(b, x, g, attributes, shape)
}

/// Batch, features, space; kernels are out, in, space. No strides, no padding.
fn plain_numbers(c: &Call<'_>, dtype: DType, n: usize) -> Convolution {
    let ones: Dims = std::iter::repeat_n(1, n).collect();
    let space: Dims = (2..n + 2).collect();
    Convolution {
        strides: ones.clone(),
        padding: std::iter::repeat_n((0, 0), n).collect(),
        lhs_dilation: ones.clone(),
        rhs_dilation: ones,
        input_batch: 0,
        input_feature: 1,
        input_spatial: space.clone(),
        kernel_input_feature: 1,
        kernel_output_feature: 0,
        kernel_spatial: space.clone(),
        output_batch: 0,
        output_feature: 1,
        output_spatial: space,
        feature_group_count: 1,
        batch_group_count: 1,
        reversed: false,
        // One bf16 pass is exact for bf16 operands.
        precision: if dtype == DType::BF16 { Precision::Default } else { c.precision() },
        out: dtype.accumulator(),
        host: false,
    }
}

/// The core op, or zeros where an operand or the result has no elements.
fn convolution(b: &Builder, x: ValueId, kernel: ValueId, attributes: Convolution, out: &[usize]) -> Result<ValueId> {
    let empty = |v| b.shape(v).contains(&0);
    if empty(x) || empty(kernel) || out.contains(&0) {
        return b.full(Number::Int(0), attributes.out, out);
    }
    b.convolution(x, kernel, attributes)
}
