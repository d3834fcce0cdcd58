//! Gradients of depthwise kernels as sums of products, a tap after the other.
//!
//! Such a gradient is a convolution of as many batch groups as there are features. XLA's CPU computes it element by element or,
//! where a feature has several outputs, densely, to keep a part. In a loop over the kernel's taps, each is the sum of what lies
//! under it times what comes back: elementwise ops on parts of the rows, added up, and then a sum along one dimension, both in
//! vectors.
//!
//! | f32, ms                               | convolution | loop |
//! |---------------------------------------|-------------|------|
//! | 3x3 on 4x96x56x56                      | 14          | 3    |
//! | 7x7 on 4x96x56x56                      | 59          | 12   |
//! | 5x5 on 8x480x14x14                     | 82          | 4    |
//! | 5x5 on 8x576x7x7                       | 43          | 1.5  |
//! | 3x3 on 2x64x28x28, 2 outputs a feature | 480         | 1.1  |
//!
//! Without the loop it runs as fast, but compiling takes up to two seconds a convolution; without parts, each tap
//! writes all its products to memory (7x7: 72 ms).

use super::depthwise::padded;
use super::rebuild::Rebuild;
use super::{Rewrite, Rule, Site, joined_dims};
use crate::Class;
use ir::op::{Convolution, Reducer};
use ir::ops::loops;
use ir::{Binary, Builder, DType, Dims, InputKind, Number, Op, OutputKind, Result, Shape, TensorType, ValueId};

/// Parts that are added up at most before their sum is written.
const MOST_PARTS: usize = 16;
/// Pairs of a group's channels and features at most: the input is repeated for each feature, and what comes back for each
/// channel.
const MOST_PAIRS: usize = 8;

pub(super) const RULE: Rule = Rule {
    name: "depthwise-kernel-by-taps",
    class: Class::Reassociating,
    alone: true,
    why: "XLA's CPU computes convolutions of batch groups element by element, and products in vectors",
    rewrite: Rewrite::Convolution(rewrite),
};

fn rewrite(to: &mut Rebuild, site: &Site<'_>) -> Result<Option<ValueId>> {
    let (c, input, kernel) = (site.attributes, to.ty(site.input)?, to.ty(site.kernel)?.clone());
    if !takes(c, input, &kernel) {
        return Ok(None);
    }
    let of_group = Group::new(c, &input.shape, &kernel.shape);
    let seen = to.convert(site.input, c.out.accumulator())?;
    let seen = padded(to, seen, c)?;
    let b = Builder::new("depthwise_kernel");
    let input = b.input("x", InputKind::User, to.ty(seen)?.clone());
    let weights = b.input("k", InputKind::User, kernel);
    let Some(by_taps) = ByTaps::new(&b, c, of_group, input, weights)? else { return Ok(None) };
    b.output("y", OutputKind::User, by_taps.all(&b)?);
    to.splice(&b.finish(), &[seen, site.kernel]).map(Some)
}

/// Whether a convolution is one of batch groups of few channels and features.
pub(super) fn takes(c: &Convolution, input: &TensorType, kernel: &TensorType) -> bool {
    let pairs = Group::new(c, &input.shape, &kernel.shape).pairs();
    let empty = input.shape.contains(&0) || kernel.shape.contains(&0);
    c.batch_group_count > 1 && pairs <= MOST_PAIRS && !c.reversed && !empty && input.dtype != DType::Bool
}

/// What a batch group takes from the input, and from the kernel: the channels and features of the group whose gradient it is.
struct Group {
    groups: usize,
    channels: usize,
    features: usize,
}

impl Group {
    fn new(c: &Convolution, input: &[usize], kernel: &[usize]) -> Group {
        let groups = c.batch_group_count;
        let (channels, features) = (input[c.input_batch] / groups, kernel[c.kernel_output_feature] / groups);
        Group { groups, channels, features }
    }

    /// The result has one element for each pair, tap and group.
    fn pairs(&self) -> usize {
        self.channels * self.features
    }

    /// `v` with each group's channels, or features, along `dim` repeated for its pairs, whose features run fastest.
    fn paired(&self, b: &Builder, v: ValueId, dim: usize, of: Of) -> Result<ValueId> {
        let (own, at) = match of {
            Of::Channels => (self.channels, dim + 1),
            Of::Features => (self.features, dim + 2),
        };
        if own == self.pairs() {
            return Ok(v);
        }
        let shape = b.shape(v);
        let with = |extents: &[usize]| -> Shape {
            shape[..dim].iter().chain(extents).chain(&shape[dim + 1..]).copied().collect()
        };
        let split = b.reshape(v, &with(&[self.groups, own]))?;
        let dims: Dims = (0..=dim).chain([at]).chain(dim + 3..shape.len() + 2).collect();
        let repeated = b.broadcast_in_dim(split, &with(&[self.groups, self.channels, self.features]), &dims)?;
        b.reshape(repeated, &with(&[self.groups * self.pairs()]))
    }
}

enum Of {
    Channels,
    Features,
}

/// A convolution of batch groups, in the order of its input's dimensions, and in the type that sums are kept in. Each pair of a
/// group's channels and features is a group of one and one.
struct ByTaps<'a> {
    c: &'a Convolution,
    of_group: Group,
    /// Padded and dilated.
    seen: ValueId,
    /// The convolution's kernel: what came back for each place of the output, so about as large as the input.
    weights: ValueId,
    /// Extents of the result in space: those of the kernel whose gradient it is.
    taps: Dims,
    /// Extents of what lies under one tap.
    window: Shape,
}

impl<'a> ByTaps<'a> {
    /// Of a padded input; `None` if the result is empty.
    fn new(
        b: &Builder,
        c: &'a Convolution,
        of_group: Group,
        seen: ValueId,
        weights: ValueId,
    ) -> Result<Option<ByTaps<'a>>> {
        let mut order: Dims = b.shape(seen).iter().map(|_| 0).collect();
        order[c.input_batch] = c.kernel_output_feature;
        order[c.input_feature] = c.kernel_input_feature;
        c.input_spatial.iter().zip(&c.kernel_spatial).for_each(|(&to, &from)| order[to] = from);
        let weights = b.transpose(b.convert(weights, c.out.accumulator())?, &order)?;
        let seen = of_group.paired(b, seen, c.input_batch, Of::Channels)?;
        let weights = of_group.paired(b, weights, c.input_batch, Of::Features)?;
        let (mut window, extents) = (b.shape(seen), b.shape(weights));
        let mut taps = Dims::new();
        for (i, &d) in c.input_spatial.iter().enumerate() {
            let reach = (extents[d] - 1) * c.rhs_dilation[i] + 1;
            let Some(left) = window[d].checked_sub(reach) else { return Ok(None) };
            taps.push(left / c.strides[i] + 1);
            window[d] = reach;
        }
        Ok(Some(ByTaps { c, of_group, seen, weights, taps, window }))
    }

    fn all(&self, b: &Builder) -> Result<ValueId> {
        let (c, dtype) = (self.c, b.dtype(self.seen));
        let Group { groups, channels, features } = self.of_group;
        let count = self.taps.iter().product();
        let none = b.full(Number::Int(0), dtype, &[count, groups * channels * features])?;
        let carried = [none, self.seen, self.weights];
        let done = loops::repeat(b, count, &carried, |b, tap, carried| {
            let &[sums, seen, weights] = carried else { return Err(ir::Error::internal("a loop carries three")) };
            let sum = self.tap(b, seen, weights, tap)?;
            Ok(vec![loops::put_row(b, sums, sum, tap)?, seen, weights])
        })?;
        let n = self.taps.len();
        let with = |extents: &[usize]| -> Shape { self.taps.iter().chain(extents).copied().collect() };
        let by_pair = b.reshape(done[0], &with(&[groups, channels, features]))?;
        let by_channel: Dims = (0..n).chain([n + 1, n, n + 2]).collect();
        let sums = b.reshape(b.transpose(by_pair, &by_channel)?, &with(&[channels, groups * features]))?;
        let mut order: Dims = (0..n + 2).collect();
        (order[c.output_batch], order[c.output_feature]) = (n, n + 1);
        c.output_spatial.iter().enumerate().for_each(|(i, &d)| order[d] = i);
        b.convert(b.transpose(sums, &order)?, c.out)
    }

    /// The sums of one tap, numbered in row-major order, by feature.
    fn tap(&self, b: &Builder, seen: ValueId, weights: ValueId, tap: ValueId) -> Result<ValueId> {
        let number = |n: usize| b.scalar(Number::Int(n as i64), DType::I32);
        let mut starts = vec![number(0)?; self.window.len()];
        let mut rest = tap;
        for (i, &d) in self.c.input_spatial.iter().enumerate().rev() {
            let taps = number(self.taps[i])?;
            let place = b.binary(Binary::Remainder, rest, taps)?;
            starts[d] = b.multiply(place, number(self.c.strides[i])?)?;
            rest = b.divide(rest, taps)?;
        }
        let sum = self.parts(b, seen, weights, &starts)?;
        let over: Dims = (0..starts.len()).filter(|&d| d != self.c.input_batch).collect();
        joined_dims::reduce(b, sum, Reducer::Add, &over)
    }

    /// What is `seen` from `starts` on times `weights`, added up in parts along the longest dimension.
    fn parts(&self, b: &Builder, seen: ValueId, weights: ValueId, starts: &[ValueId]) -> Result<ValueId> {
        let shape = b.shape(weights);
        let summed = (0..shape.len()).filter(|&d| d != self.c.input_batch);
        // The first of the longest: the further out, the more lies together.
        let along = summed.max_by_key(|&d| (shape[d], std::cmp::Reverse(d))).unwrap_or(0);
        let size = shape[along].div_ceil(MOST_PARTS);
        let product = |start: usize| -> Result<ValueId> {
            let end = shape[along].min(start + size);
            let weights = b.slice_dim(weights, along, start, end, 1)?;
            let product = b.multiply(self.under(b, seen, starts, along, start, end)?, weights)?;
            let (none, mut short) = (vec![0; shape.len()], vec![0; shape.len()]);
            short[along] = (start + size - end) as i64;
            b.pad(product, b.scalar(Number::Int(0), b.dtype(product))?, &none, &short, &vec![0; shape.len()])
        };
        let first = product(0)?;
        (size..shape[along]).step_by(size).try_fold(first, |sum, start| b.add(sum, product(start)?))
    }

    /// What lies in `seen`, from `starts` on, under the weights `start..end` along one dimension and all in the others.
    fn under(
        &self,
        b: &Builder,
        seen: ValueId,
        starts: &[ValueId],
        along: usize,
        start: usize,
        end: usize,
    ) -> Result<ValueId> {
        let step = |d: usize| self.c.input_spatial.iter().position(|&s| s == d).map_or(1, |i| self.c.rhs_dilation[i]);
        let mut sizes = self.window.clone();
        sizes[along] = (end - start - 1) * step(along) + 1;
        let mut operands: Vec<ValueId> = std::iter::once(seen).chain(starts.iter().copied()).collect();
        let skipped = b.scalar(Number::Int((start * step(along)) as i64), DType::I32)?;
        operands[1 + along] = b.add(starts[along], skipped)?;
        let part = b.push(Op::DynamicSlice { sizes: sizes.clone() }, &operands, vec![])?;
        (0..sizes.len()).try_fold(part, |v, d| b.slice_dim(v, d, 0, sizes[d], step(d)))
    }
}
