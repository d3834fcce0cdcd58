//! Convolutions with windows of one element as matrix products of the host.
//!
//! With features last, such a convolution multiplies its input, a row a place, by its kernel.

use super::host_product;
use super::rebuild::{Range, Rebuild};
use super::side::Side;
use super::{Rewrite, Rule, Site};
use crate::Class;
use ir::op::{Convolution, SignedDims};
use ir::{Dims, Result, Shape, ValueId};

/// Zeros around and between the elements are put around the products: times an infinite kernel they would be NaN.
pub(super) const RULE: Rule = Rule {
    name: "pointwise-as-product",
    class: Class::Reassociating,
    alone: true,
    why: "the host multiplies faster than XLA's CPU convolves",
    rewrite: Rewrite::Convolution(rewrite),
};

fn rewrite(to: &mut Rebuild, site: &Site<'_>) -> Result<Option<ValueId>> {
    let c = site.attributes;
    let kernel = to.shape(site.kernel)?;
    let pointwise = c.kernel_spatial.iter().all(|&d| kernel[d] == 1);
    let whole = c.feature_group_count == 1 && c.batch_group_count == 1;
    let (steps, gaps) = (c.strides.iter().any(|&s| s > 1), zeros(c));
    let empty = to.ty(site.input)?.numel() == 0;
    if !pointwise || !whole || empty || (steps && gaps) || !in_order(c) {
        return Ok(None);
    }
    let input = if steps { stepped(to, site)? } else { site.input };
    let lhs = Side::new(input, &Dims::new(), &[c.input_feature].into_iter().collect());
    let rhs = Side::new(site.kernel, &Dims::new(), &[c.kernel_input_feature].into_iter().collect());
    let Some(product) = host_product::product(to, &lhs, &rhs, c.precision, c.out)? else { return Ok(None) };
    // The kernel's extents of one go.
    let mut shape: Shape = to.shape(input)?;
    shape.remove(c.input_feature);
    shape.push(kernel[c.kernel_output_feature]);
    let product = to.reshape(product, shape)?;
    if gaps { spread(to, c, product).map(Some) } else { Ok(Some(product)) }
}

/// Whether the dimensions of the result are the input's but for the features, which come last.
fn in_order(c: &Convolution) -> bool {
    let after = |d: usize| d - usize::from(d > c.input_feature);
    let spatial = c.input_spatial.iter().zip(&c.output_spatial).all(|(&i, &o)| after(i) == o);
    spatial && after(c.input_batch) == c.output_batch
}

/// Whether there are zeros around the input or between its elements.
fn zeros(c: &Convolution) -> bool {
    c.padding.iter().any(|&p| p != (0, 0)) || c.lhs_dilation.iter().any(|&d| d != 1)
}

/// The elements of the input that windows begin at.
fn stepped(to: &mut Rebuild, site: &Site<'_>) -> Result<ValueId> {
    let (c, shape) = (site.attributes, to.shape(site.input)?);
    let ranges: Vec<(usize, Range)> = c
        .input_spatial
        .iter()
        .zip(&c.strides)
        .map(|(&d, &stride)| (d, Range::strided(0, shape[d].div_ceil(stride), stride)))
        .collect();
    to.slice(site.input, &ranges)
}

/// `product` with the zeros of its input.
fn spread(to: &mut Rebuild, c: &Convolution, product: ValueId) -> Result<ValueId> {
    let rank = c.input_spatial.len() + 2;
    let (mut low, mut high): (SignedDims, SignedDims) =
        ((0..rank).map(|_| 0).collect(), (0..rank).map(|_| 0).collect());
    let mut interior: Dims = (0..rank).map(|_| 0).collect();
    for (i, &d) in c.output_spatial.iter().enumerate() {
        (low[d], high[d]) = c.padding[i];
        interior[d] = c.lhs_dilation[i] - 1;
    }
    to.pad(product, low, high, interior)
}
