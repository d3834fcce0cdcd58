//! Depthwise convolutions as sums of shifted products.
//!
//! XLA's CPU computes a convolution of as many groups as input features element by element. The same as elementwise ops, one
//! product a tap of the kernel, becomes one vectorised loop:
//!
//! | f32, ms                                   | convolution | products |
//! |-------------------------------------------|-------------|----------|
//! | 7x7 on 4x96x56x56                          | 266         | 4        |
//! | 3x3 on 4x96x56x56                          | 94          | 1.4      |
//! | 3x3 by stride 2 on 4x96x56x56              | 32          | 1.0      |
//! | 3x3 by dilation 2 on 4x96x56x56            | 130         | 1.7      |
//! | 5x5 on 4x480x14x14                         | 50          | 1.0      |
//! | 3x3 on 4x48x56x56, 2 outputs a feature     | 48          | 1.0      |
//! | 3x3 on 4x96x56x56, the input's gradient    | 110         | as above |
//! | 3x3 on 8x128x28x28, groups of 2 to 2       | 20          | 0.9      |
//! | 3x3 on 8x128x28x28, groups of 2 to 1       | 16          | 0.7      |
//!
//! The latter is the input's gradient where a feature has two outputs. Groups of few are as many depthwise convolutions as they
//! have channels, added up; larger ones are matrix products.
//!
//! The gradient of the kernel stays (`batch_group_count`): a reduction for each tap took as long for 3x3 (29 against 33)
//! and twice as long for 7x7 (243 against 139).

use super::rebuild::{Range, Rebuild};
use super::{Rewrite, Rule, Site};
use crate::Class;
use ir::op::{Convolution, SignedDims};
use ir::{Binary, DType, Dims, Graph, Node, Op, Result, Shape, TensorType, ValueId};

/// Taps of the largest kernel that is spelled out, for all channels of a group: the program grows with them.
const MOST_TAPS: usize = 128;
/// Channels of a group, where it has several, or its features: with more of both, it is worth a matrix product.
const MOST_OF_GROUP: usize = 3;

pub(super) const RULE: Rule = Rule {
    name: "depthwise-as-products",
    class: Class::Reassociating,
    alone: true,
    why: "XLA's CPU computes depthwise convolutions element by element, and products in vectors",
    rewrite: Rewrite::Convolution(rewrite),
};

/// Whether `node` of `graph` is a convolution of as many groups as input features.
pub(super) fn is_depthwise(node: &Node, graph: &Graph) -> bool {
    let (Op::Convolution(c), Some(&input)) = (&node.op, node.operands.first()) else { return false };
    c.feature_group_count > 1
        && graph.tensor_type(input).is_some_and(|t| t.shape[c.input_feature] == c.feature_group_count)
}

fn rewrite(to: &mut Rebuild, site: &Site<'_>) -> Result<Option<ValueId>> {
    if !takes(site.attributes, to.ty(site.input)?, to.ty(site.kernel)?) {
        return Ok(None);
    }
    let Some(depthwise) = Depthwise::new(to, site)? else { return Ok(None) };
    depthwise.sum(to).map(Some)
}

/// Whether a convolution is one of groups that are too small for a matrix product each.
pub(super) fn takes(c: &Convolution, input: &TensorType, kernel: &TensorType) -> bool {
    let (groups, channels) = (c.feature_group_count, kernel.shape[c.kernel_input_feature]);
    let taps = c.kernel_spatial.iter().map(|&d| kernel.shape[d]).fold(channels, usize::saturating_mul);
    let few = channels == 1 || channels.min(kernel.shape[c.kernel_output_feature] / groups) <= MOST_OF_GROUP;
    let empty = input.shape.contains(&0) || kernel.shape.contains(&0);
    groups > 1 && few && taps <= MOST_TAPS && !c.reversed && !empty && input.dtype != DType::Bool
}

/// A convolution of groups in the order of its input's dimensions, groups in place of features, with the outputs of a group as
/// one more dimension after the groups if there are several. A tap is one of the kernel for one channel of each group.
struct Depthwise<'a> {
    c: &'a Convolution,
    /// Padded and dilated, in the type that sums are kept in.
    padded: ValueId,
    /// `[taps, outputs]`.
    kernel: ValueId,
    extents: Dims,
    /// Of a group.
    channels: usize,
    taps: usize,
    /// Extents of the sum.
    shape: Shape,
    multiplier: usize,
}

impl<'a> Depthwise<'a> {
    /// `None` if the result is empty.
    fn new(to: &mut Rebuild, site: &Site<'a>) -> Result<Option<Depthwise<'a>>> {
        let c = site.attributes;
        let kernel_shape = to.shape(site.kernel)?;
        let extents: Dims = c.kernel_spatial.iter().map(|&d| kernel_shape[d]).collect();
        let outputs = kernel_shape[c.kernel_output_feature];
        let input = to.convert(site.input, c.out.accumulator())?;
        let padded = padded(to, input, c)?;
        let mut shape = to.shape(padded)?;
        let (groups, channels) = (c.feature_group_count, kernel_shape[c.kernel_input_feature]);
        shape[c.input_feature] = groups;
        for (i, &d) in c.input_spatial.iter().enumerate() {
            let reach = (extents[i] - 1) * c.rhs_dilation[i] + 1;
            if shape[d] < reach {
                return Ok(None);
            }
            shape[d] = (shape[d] - reach) / c.strides[i] + 1;
        }
        let multiplier = outputs / groups;
        if multiplier > 1 {
            shape.insert(c.input_feature + 1, multiplier);
        }
        let taps = extents.iter().product::<usize>() * channels;
        let kernel = by_taps(to, site.kernel, c, taps, outputs)?;
        Ok(Some(Depthwise { c, padded, kernel, extents, channels, taps, shape, multiplier }))
    }

    fn sum(&self, to: &mut Rebuild) -> Result<ValueId> {
        let mut sum = self.product(to, 0)?;
        for tap in 1..self.taps {
            let product = self.product(to, tap)?;
            sum = to.binary(Binary::Add, sum, product)?;
        }
        self.result(to, sum)
    }

    /// What one tap, numbered in row-major order with the channel last, adds everywhere.
    fn product(&self, to: &mut Rebuild, tap: usize) -> Result<ValueId> {
        let (c, mut rest) = (self.c, tap / self.channels);
        let groups = Range::strided(tap % self.channels, c.feature_group_count, self.channels);
        let mut ranges = vec![(c.input_feature, groups)];
        for (i, &d) in c.input_spatial.iter().enumerate().rev() {
            let count = self.shape[self.place(d)];
            ranges.push((d, Range::strided(rest % self.extents[i] * c.rhs_dilation[i], count, c.strides[i])));
            rest /= self.extents[i];
        }
        let shifted = to.slice(self.padded, &ranges)?;
        let dims: Dims = (0..self.shape.len() - usize::from(self.multiplier > 1)).map(|d| self.place(d)).collect();
        let shifted = self.spread(to, shifted, dims)?;
        let row = Range::strided(tap * APART, 1, 1);
        let row = to.slice(self.kernel, &[(0, row)])?;
        let (groups, f) = (c.feature_group_count, c.input_feature);
        let factors = if self.multiplier > 1 {
            let factors = to.reshape(row, [groups, self.multiplier].into_iter().collect())?;
            self.spread(to, factors, [f, f + 1].into_iter().collect())?
        } else {
            let factors = to.reshape(row, [groups].into_iter().collect())?;
            self.spread(to, factors, [f].into_iter().collect())?
        };
        to.binary(Binary::Multiply, shifted, factors)
    }

    /// Where dimension `d` of the input is in the sum.
    fn place(&self, d: usize) -> usize {
        d + usize::from(self.multiplier > 1 && d > self.c.input_feature)
    }

    fn spread(&self, to: &mut Rebuild, a: ValueId, dims: Dims) -> Result<ValueId> {
        if to.ty(a)?.shape == self.shape {
            return Ok(a);
        }
        to.push(Op::BroadcastInDim { shape: self.shape.clone(), dims }, &[a])
    }

    /// The sum with a group's outputs joined, in the order and the type of the convolution's result.
    fn result(&self, to: &mut Rebuild, sum: ValueId) -> Result<ValueId> {
        let (c, mut shape) = (self.c, self.shape.clone());
        if self.multiplier > 1 {
            shape.remove(c.input_feature + 1);
            shape[c.input_feature] *= self.multiplier;
        }
        let sum = to.reshape(sum, shape)?;
        let mut order: Dims = c.input_spatial.iter().map(|_| 0).chain([0, 0]).collect();
        order[c.output_batch] = c.input_batch;
        order[c.output_feature] = c.input_feature;
        c.output_spatial.iter().zip(&c.input_spatial).for_each(|(&o, &i)| order[o] = i);
        let sum = to.transpose(sum, order)?;
        to.convert(sum, c.out)
    }
}

/// The input with its dilation and its padding spelled out.
pub(super) fn padded(to: &mut Rebuild, input: ValueId, c: &Convolution) -> Result<ValueId> {
    let mut low: SignedDims = to.shape(input)?.iter().map(|_| 0).collect();
    let (mut high, mut interior): (SignedDims, Dims) = (low.clone(), low.iter().map(|_| 0).collect());
    for (i, &d) in c.input_spatial.iter().enumerate() {
        (low[d], high[d]) = c.padding[i];
        interior[d] = c.lhs_dilation[i] - 1;
    }
    to.pad(input, low, high, interior)
}

/// Rows of the kernel that hold a tap are this far apart.
///
/// With features last, a loop over features wants a tap's factors side by side. XLA fuses a bare transpose into that loop,
/// which then gathers them (7x7: 20 ms, not 4); zeros between the rows keep the transposed kernel a buffer of its own.
const APART: usize = 2;

/// The kernel as `[taps, outputs]`, in the type that sums are kept in, its rows [`APART`].
fn by_taps(to: &mut Rebuild, kernel: ValueId, c: &Convolution, taps: usize, outputs: usize) -> Result<ValueId> {
    let tail = [c.kernel_input_feature, c.kernel_output_feature];
    let order: Dims = c.kernel_spatial.iter().copied().chain(tail).collect();
    let kernel = to.transpose(kernel, order)?;
    let kernel = to.reshape(kernel, [taps, outputs].into_iter().collect())?;
    let kernel = to.convert(kernel, c.out.accumulator())?;
    let none: SignedDims = [0, 0].into_iter().collect();
    to.pad(kernel, none.clone(), none, [APART - 1, 0].into_iter().collect())
}
