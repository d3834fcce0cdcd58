//! Convolutions with one window are matrix products.
//!
//! The gradient of the kernel of a 1x1 convolution is one: over 8x256x56x56 to 64 features, f32, it takes 24 ms as a
//! convolution, 97 ms with features last, and 14 ms as `dot_general` with features last, where it needs no transpose.

use super::rebuild::{Range, Rebuild};
use super::{Rewrite, Rule, Site};
use crate::Class;
use ir::op::{Convolution, DotGeneral};
use ir::{Dims, Op, Result, ValueId};

/// Sums run over space, then features, as those of a convolution do.
pub(super) const RULE: Rule = Rule {
    name: "single-window-as-product",
    class: Class::Exact,
    alone: true,
    why: "a matrix product takes its operands as they lie",
    rewrite: Rewrite::Convolution(rewrite),
};

fn rewrite(to: &mut Rebuild, site: &Site<'_>) -> Result<Option<ValueId>> {
    let c = site.attributes;
    let (input, kernel) = (to.shape(site.input)?, to.shape(site.kernel)?);
    let window: Dims = c.kernel_spatial.iter().map(|&d| kernel[d]).collect();
    let extents: Dims = c.input_spatial.iter().map(|&d| input[d]).collect();
    // A window of one element is that of a 1x1 convolution over no space: nothing is gained.
    let several = window.iter().product::<usize>() > 1;
    if !several
        || c.reversed
        || c.feature_group_count != 1
        || c.batch_group_count != 1
        || !one_window(c, &extents, &window)
    {
        return Ok(None);
    }
    let space = c.input_spatial.iter().enumerate();
    let ranges: Vec<(usize, Range)> =
        space.map(|(i, &d)| (d, Range::strided(0, window[i], c.rhs_dilation[i]))).collect();
    let seen = to.slice(site.input, &ranges)?;
    // In the type that sums are kept in: the CPU plugin fails to run 16-bit products of this form.
    let sums = c.out.accumulator();
    let (seen, kernel) = (to.convert(seen, sums)?, to.convert(site.kernel, sums)?);
    let product = DotGeneral {
        lhs_batch: Dims::new(),
        rhs_batch: Dims::new(),
        lhs_contract: c.input_spatial.iter().copied().chain([c.input_feature]).collect(),
        rhs_contract: c.kernel_spatial.iter().copied().chain([c.kernel_input_feature]).collect(),
        precision: c.precision,
        out: sums,
        host: false,
    };
    // Batch, then features; the result has space of extent 1 besides.
    let product = to.push(Op::DotGeneral(product), &[seen, kernel])?;
    let mut product = to.convert(product, c.out)?;
    let mut shape = to.shape(product)?;
    if c.output_feature < c.output_batch {
        product = to.transpose(product, [1, 0].into_iter().collect())?;
        shape.swap(0, 1);
    }
    let mut space: Dims = c.output_spatial.clone();
    space.sort_unstable();
    space.into_iter().for_each(|d| shape.insert(d, 1));
    to.reshape(product, shape).map(Some)
}

/// Whether the result is one element in space, whose window lies on the input without padding.
fn one_window(c: &Convolution, extents: &[usize], window: &[usize]) -> bool {
    (0..window.len()).all(|i| {
        let (low, high) = c.padding[i];
        let Some(reach) = window[i].checked_sub(1).map(|w| w * c.rhs_dilation[i] + 1) else { return false };
        let left = extents[i] as i128 + i128::from(low) + i128::from(high) - reach as i128;
        low == 0 && c.lhs_dilation[i] == 1 && reach <= extents[i] && (0..c.strides[i] as i128).contains(&left)
    })
}
