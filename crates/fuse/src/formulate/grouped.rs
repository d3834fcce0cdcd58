//! Grouped convolutions as one convolution a group.
//!
//! XLA's CPU computes a grouped convolution element by element, and one with batch groups (the gradient of a grouped kernel)
//! as a dense one over all groups, of whose result it keeps a part. One convolution a group is a matrix product each:
//!
//! | 3x3, f32, ms                            | grouped | one a group |
//! |-----------------------------------------|---------|-------------|
//! | 4 groups of 64 on 8x256x28x28            | 34      | 23          |
//! | 32 groups of 4 on 8x128x56x56            | 144     | 49          |
//! | the former's gradient of the kernel      | 2,800   | 130         |
//! | the latter's, in processor time          | 12,400  | 50          |
//!
//! A block-diagonal kernel was slower (71 for 32 groups), a batched product over the windows much slower (450).

use super::rebuild::{Range, Rebuild};
use super::{Rewrite, Rule, Site};
use crate::Class;
use ir::op::Convolution;
use ir::{Op, Result, ValueId};

/// Groups that are told apart at most: compiling takes about 40 ms a group.
const MOST_FEATURE_GROUPS: usize = 32;
/// As above for batch groups, which gain more.
const MOST_BATCH_GROUPS: usize = 256;

pub(super) const RULE: Rule = Rule {
    name: "groups-apart",
    class: Class::Exact,
    alone: true,
    why: "XLA's CPU computes grouped convolutions element by element, and others as matrix products",
    rewrite: Rewrite::Convolution(rewrite),
};

fn rewrite(to: &mut Rebuild, site: &Site<'_>) -> Result<Option<ValueId>> {
    let c = site.attributes;
    let input = to.ty(site.input)?.clone();
    if input.shape.contains(&0) || to.ty(site.kernel)?.shape.contains(&0) {
        return Ok(None);
    }
    let (groups, split, most) = if c.feature_group_count > 1 {
        (c.feature_group_count, c.input_feature, MOST_FEATURE_GROUPS)
    } else {
        (c.batch_group_count, c.input_batch, MOST_BATCH_GROUPS)
    };
    let one_each = input.shape[split] == groups;
    if groups == 1 || groups > most || one_each {
        return Ok(None);
    }
    let alone = Convolution { feature_group_count: 1, batch_group_count: 1, ..c.clone() };
    let mut parts = vec![];
    for group in 0..groups {
        let input = part(to, site.input, split, groups, group)?;
        let kernel = part(to, site.kernel, c.kernel_output_feature, groups, group)?;
        parts.push(to.push(Op::Convolution(alone.clone()), &[input, kernel])?);
    }
    to.push(Op::Concatenate { dim: c.output_feature }, &parts).map(Some)
}

fn part(to: &mut Rebuild, a: ValueId, dim: usize, groups: usize, group: usize) -> Result<ValueId> {
    let size = to.ty(a)?.shape[dim] / groups;
    to.slice(a, &[(dim, Range::part(group, size))])
}
