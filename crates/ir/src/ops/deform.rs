//! Convolution of pixels that lie where the data says, as torchvision's `deform_conv2d` has it.
//!
//! Each tap of the kernel reads the image beside its place, by an offset for each result. What all taps read makes
//! columns, of which the convolution is a product with the weights.

use super::expr::formula;
use super::index::{index_dtype, put_points, take_slices};
use super::matmul::contract;
use super::support::{like, not_implemented, promote_types, torch_name};
use super::{Call, OpDef, Outs, err, ok, one};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::literal::Number;
use crate::op::{Binary, Combiner, Reducer};
use crate::types::Shape;
use crate::{DType, ensure};

pub(super) static OPS: &[OpDef] = &[
    OpDef::new(
        "torchvision::deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, \
         SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, \
         SymInt groups, SymInt offset_groups, bool use_mask) -> Tensor",
        deform_conv2d,
        &[
            ok("f32[2,3,5,6], f32[4,3,3,2], f32[2,12,3,5], f32[2,6,3,5], f32[4], 1, 1, 0, 0, 1, 1, 1, 1, true"),
            ok("f32[2,4,5,6], f32[6,2,3,2], f32[2,24,4,3], f32[2,12,4,3], f32[6], 2, 2, 2, 1, 1, 2, 2, 2, true"),
            // Offset groups and weight groups that do not divide each other.
            ok("f64[1,6,5,5], f64[4,3,2,2], f64[1,24,4,4], f64[1,0], f64[4], 1, 1, 0, 0, 1, 1, 2, 3, false"),
            // Whole offsets, at the edges and beyond.
            ok("f32[1,2,3,3], f32[1,2,1,1], f32[1,2,3,3]{-1,0,1,2,-2,3}, f32[1,1], f32[1], 1, 1, 0, 0, 1, 1, 1, 1, \
                false"),
            ok("f16[1,2,4,4], f16[3,2,2,2], f16[1,8,3,3], f16[1,4,3,3], f16[3], 1, 1, 0, 0, 1, 1, 1, 1, true"),
            ok("f32[0,2,4,4], f32[3,2,2,2], f32[0,8,3,3], f32[0,4,3,3], f32[3], 1, 1, 0, 0, 1, 1, 1, 1, true"),
            ok("f32[1,0,4,4], f32[3,0,2,2], f32[1,8,3,3], f32[1,4,3,3], f32[3], 1, 1, 0, 0, 1, 1, 1, 1, true"),
            ok("f32[1,2,4,4], f32[0,2,2,2], f32[1,8,3,3], f32[1,4,3,3], f32[0], 1, 1, 0, 0, 1, 1, 1, 1, true"),
            err(
                "f32[2,4,4], f32[3,2,2,2], f32[1,8,3,3], f32[1,4,3,3], f32[3], 1, 1, 0, 0, 1, 1, 1, 1, true",
                "input should have 4 dimensions, got 3",
            ),
            err(
                "f32[1,2,4,4], f32[3,2,2,2], f32[1,8,3,3], f32[1,4,3,3], f32[3], 1, 1, -1, 0, 1, 1, 1, 1, true",
                "pad_h: -1 pad_w: 0",
            ),
            err(
                "f32[1,2,4,4], f32[3,2,2,2], f32[1,8,3,3], f32[1,4,3,3], f32[3], 1, 1, 0, 0, 0, 1, 1, 1, true",
                "dilation_h: 0 dilation_w: 1",
            ),
            err(
                "f32[1,2,4,4], f32[3,2,0,2], f32[1,8,3,3], f32[1,4,3,3], f32[3], 1, 1, 0, 0, 1, 1, 1, 1, true",
                "weight_h: 0 weight_w: 2",
            ),
            err(
                "f32[1,2,4,4], f32[3,2,2,2], f32[1,8,3,3], f32[1,4,3,3], f32[3], 1, 1, 0, 0, 1, 1, 2, 1, true",
                "expected weight to have 1 input channels, got 2",
            ),
            err(
                "f32[1,2,4,4], f32[3,2,2,2], f32[1,7,3,3], f32[1,4,3,3], f32[3], 1, 1, 0, 0, 1, 1, 1, 1, true",
                "offset.shape[1] is not valid: got: 7 expected: 8",
            ),
            err(
                "f32[1,2,4,4], f32[3,2,2,2], f32[1,8,3,3], f32[1,3,3,3], f32[3], 1, 1, 0, 0, 1, 1, 1, 1, true",
                "mask.shape[1] is not valid: got: 3 expected: 4",
            ),
            err(
                "f32[1,2,4,4], f32[3,2,2,2], f32[1,8,3,2], f32[1,4,3,3], f32[3], 1, 1, 0, 0, 1, 1, 1, 1, true",
                "offset output dims: (3, 2) - computed output dims: (3, 3)",
            ),
            err(
                "f32[1,2,4,4], f32[3,2,2,2], f32[1,8,3,3], f32[1,4,2,3], f32[3], 1, 1, 0, 0, 1, 1, 1, 1, true",
                "mask output dims: (2, 3) - computed output dims: (3, 3)",
            ),
            err(
                "f32[2,2,4,4], f32[3,2,2,2], f32[1,8,3,3], f32[2,4,3,3], f32[3], 1, 1, 0, 0, 1, 1, 1, 1, true",
                "invalid batch size of offset",
            ),
            err(
                "f32[1,2,4,4], f32[3,2,2,2], f32[1,8,3,3], f32[0], f32[3], 1, 1, 0, 0, 1, 1, 1, 1, false",
                "invalid batch size of mask",
            ),
            err(
                "f32[1,2,1,4], f32[3,2,2,2], f32[1,8,0,3], f32[1,4,0,3], f32[3], 1, 1, 0, 0, 1, 1, 1, 1, true",
                "Calculated output size too small",
            ),
            err(
                "f32[1,2,4,4], f32[3,2,2,2], f32[1,8,3,3], f32[1,4,3,3], f32[2], 1, 1, 0, 0, 1, 1, 1, 1, true",
                "shape '[1, 3, 1, 1]' is invalid for input of size 2",
            ),
            err(
                "f32[1,2,4,4], f32[3,2,2,2], f64[1,8,3,3], f32[1,4,3,3], f32[3], 1, 1, 0, 0, 1, 1, 1, 1, true",
                "expected scalar type Float but found Double",
            ),
            err(
                "bf16[1,2,4,4], bf16[3,2,2,2], bf16[1,8,3,3], bf16[1,4,3,3], bf16[3], 1, 1, 0, 0, 1, 1, 1, 1, true",
                "\"deformable_im2col\" not implemented for 'BFloat16'",
            ),
        ],
    ),
    OpDef::new(
        "torchvision::_deform_conv2d_backward(Tensor grad, Tensor input, Tensor weight, Tensor offset, Tensor mask, \
         Tensor bias, SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, \
         SymInt dilation_w, SymInt groups, SymInt offset_groups, bool use_mask) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
        deform_conv2d_backward,
        &[
            ok("f32[2,4,3,5], f32[2,3,5,6], f32[4,3,3,2], f32[2,12,3,5], f32[2,6,3,5], f32[4], 1, 1, 0, 0, 1, 1, 1, \
                1, true"),
            ok("f32[2,6,4,3], f32[2,4,5,6], f32[6,2,3,2], f32[2,24,4,3], f32[2,12,4,3], f32[6], 2, 2, 2, 1, 1, 2, 2, \
                2, true"),
            ok("f64[1,4,4,4], f64[1,6,5,5], f64[4,3,2,2], f64[1,24,4,4], f64[1,0], f64[4], 1, 1, 0, 0, 1, 1, 2, 3, \
                false"),
            ok("f32[1,1,3,3], f32[1,2,3,3], f32[1,2,1,1], f32[1,2,3,3]{-1,0,1,2,-2,3}, f32[1,1,3,3], f32[1], 1, 1, \
                0, 0, 1, 1, 1, 1, true"),
            ok("f16[1,3,3,3], f16[1,2,4,4], f16[3,2,2,2], f16[1,8,3,3], f16[1,4,3,3], f16[3], 1, 1, 0, 0, 1, 1, 1, \
                1, true"),
            ok("f32[0,3,3,3], f32[0,2,4,4], f32[3,2,2,2], f32[0,8,3,3], f32[0,4,3,3], f32[3], 1, 1, 0, 0, 1, 1, 1, \
                1, true"),
            err(
                "f64[1,3,3,3], f32[1,2,4,4], f32[3,2,2,2], f32[1,8,3,3], f32[1,4,3,3], f32[3], 1, 1, 0, 0, 1, 1, 1, \
                1, true",
                "expected scalar type Float but found Double",
            ),
        ],
    ),
];

/// The extents of a call, after its checks.
struct Extents {
    batch: usize,
    /// Channels of the image and of the result.
    channels: [usize; 2],
    image: [usize; 2],
    kernel: [usize; 2],
    out: [usize; 2],
    stride: [usize; 2],
    pad: [usize; 2],
    dilation: [usize; 2],
    /// Groups of the product.
    groups: usize,
    /// Groups of channels that share offsets.
    offset_groups: usize,
}

/// An argument for both dimensions, at least `least`.
fn pair(c: &Call<'_>, names: [&str; 2], least: i64) -> Result<[usize; 2]> {
    let [h, w] = [c.int(names[0])?, c.int(names[1])?];
    ensure!(h >= least && w >= least, "{}: {h} {}: {w}", names[0], names[1]);
    Ok([h as usize, w as usize])
}

/// A positive argument.
fn positive(c: &Call<'_>, name: &str) -> Result<usize> {
    let n = c.int(name)?;
    ensure!(n > 0, "{name} must be positive, but is {n}");
    Ok(n as usize)
}

impl Extents {
    fn new(c: &Call<'_>, b: &Builder) -> Result<Extents> {
        let (input, weight, offset) = (c.tensor(b, "input")?, c.tensor(b, "weight")?, c.tensor(b, "offset")?);
        for (name, v) in [("input", input), ("offset", offset), ("weight", weight)] {
            ensure!(b.rank(v) == 4, "{name} should have 4 dimensions, got {}", b.rank(v));
        }
        let (s, w) = (b.shape(input), b.shape(weight));
        let kernel = [w[2], w[3]];
        ensure!(w[2] > 0 && w[3] > 0, "weight_h: {} weight_w: {}", w[2], w[3]);
        let stride = pair(c, ["stride_h", "stride_w"], 1)?;
        let pad = pair(c, ["pad_h", "pad_w"], 0)?;
        let dilation = pair(c, ["dilation_h", "dilation_w"], 1)?;
        let (groups, offset_groups) = (positive(c, "groups")?, positive(c, "offset_groups")?);
        ensure!(w[1] * groups == s[1], "expected weight to have {} input channels, got {}", s[1] / groups, w[1]);
        ensure!(w[0].is_multiple_of(groups), "{} output channels do not divide into {groups} groups", w[0]);
        ensure!(s[1].is_multiple_of(offset_groups), "{} channels do not divide into {offset_groups} groups", s[1]);
        let out = [0, 1].map(|d| {
            let reach = dilation[d] * (kernel[d] - 1) + 1;
            (s[d + 2] + 2 * pad[d]).checked_sub(reach).map_or(0, |room| room / stride[d] + 1)
        });
        let (batch, channels, image) = (s[0], [s[1], w[0]], [s[2], s[3]]);
        let e = Extents { batch, channels, image, kernel, out, stride, pad, dilation, groups, offset_groups };
        e.check(b, "offset", offset, 2)?;
        let mask = c.tensor(b, "mask")?;
        if c.flag("use_mask")? {
            ensure!(b.rank(mask) == 4, "mask should have 4 dimensions, got {}", b.rank(mask));
            e.check(b, "mask", mask, 1)?;
        }
        ensure!(b.shape(mask).first() == Some(&batch), "invalid batch size of mask");
        ensure!(out[0] > 0 && out[1] > 0, "Calculated output size too small - out_h: {} out_w: {}", out[0], out[1]);
        Ok(e)
    }

    /// Fails unless `v` has `each` numbers for each tap, group and result.
    fn check(&self, b: &Builder, name: &str, v: ValueId, each: usize) -> Result<()> {
        let (s, [h, w]) = (b.shape(v), self.out);
        let expected = self.offset_groups * each * self.kernel[0] * self.kernel[1];
        ensure!(s[1] == expected, "{name}.shape[1] is not valid: got: {} expected: {expected}", s[1]);
        ensure!(s[0] == self.batch, "invalid batch size of {name}");
        ensure!(s[2] == h && s[3] == w, "{name} output dims: ({}, {}) - computed output dims: ({h}, {w})", s[2], s[3]);
        Ok(())
    }

    /// For each sample of the batch, group of offsets, tap and result.
    fn points(&self) -> [usize; 6] {
        [self.batch, self.offset_groups, self.kernel[0], self.kernel[1], self.out[0], self.out[1]]
    }

    /// Channels that share offsets.
    fn shared(&self) -> usize {
        self.channels[0] / self.offset_groups
    }

    /// Whether there is nothing to sum over, or for.
    fn is_empty(&self) -> bool {
        self.batch == 0 || self.channels.contains(&0)
    }

    /// Rows of a group's product: its channels' taps.
    fn rows(&self) -> usize {
        self.channels[0] / self.groups * self.kernel[0] * self.kernel[1]
    }

    /// The weights, `[groups, channels of the result, rows]`.
    fn weights(&self, b: &Builder, weight: ValueId) -> Result<ValueId> {
        b.reshape(weight, &[self.groups, self.channels[1] / self.groups, self.rows()])
    }

    /// What belongs to results, `[batch, groups, channels of the result, results]`.
    fn results(&self, b: &Builder, v: ValueId) -> Result<ValueId> {
        b.reshape(v, &[self.batch, self.groups, self.channels[1] / self.groups, self.out[0] * self.out[1]])
    }

    /// What belongs to points and channels, as `[batch, groups, rows, results]`.
    fn columns(&self, b: &Builder, v: ValueId) -> Result<ValueId> {
        let v = b.transpose(v, &[0, 1, 6, 2, 3, 4, 5])?;
        b.reshape(v, &[self.batch, self.groups, self.rows(), self.out[0] * self.out[1]])
    }

    /// The other way about.
    fn of_columns(&self, b: &Builder, v: ValueId) -> Result<ValueId> {
        let [batch, groups, kh, kw, h, w] = self.points();
        b.transpose(b.reshape(v, &[batch, groups, self.shared(), kh, kw, h, w])?, &[0, 1, 3, 4, 5, 6, 2])
    }

    /// Positions in dimension `d` of the image, for each point.
    fn position(&self, b: &Builder, offset: ValueId, d: usize) -> Result<ValueId> {
        let [batch, groups, kh, kw, h, w] = self.points();
        let both = b.reshape(offset, &[batch, groups, kh, kw, 2, h, w])?;
        let own = b.reshape(b.slice_dim(both, 4, d, d + 1, 1)?, &self.points())?;
        let result = b.iota(DType::I32, &self.points(), d + 4)?;
        let tap = b.iota(DType::I32, &self.points(), d + 2)?;
        let [stride, pad, dilation] = [self.stride[d], self.pad[d], self.dilation[d]].map(|n| n as f64);
        let place = formula(b, [result, tap], |[result, tap]| result * stride - pad + tap * dilation)?;
        formula(b, [b.convert(place, b.dtype(own))?, own], |[place, offset]| place + offset)
    }
}

/// One of the two whole positions beside each point in a dimension.
struct Side {
    position: ValueId,
    weight: ValueId,
    /// The derivative of the weight.
    slope: f64,
    /// Whether the image has it.
    inside: ValueId,
}

/// One of the four pixels around each point.
struct Corner {
    /// Its line among those of the image.
    line: ValueId,
    weights: [ValueId; 2],
    slopes: [f64; 2],
    inside: ValueId,
    /// Zero outside, `[points, channels]`.
    pixels: ValueId,
}

/// What the taps read.
struct Samples {
    corners: Vec<Corner>,
    /// Whether a point lies in the image, or less than a pixel beside it.
    near: ValueId,
}

impl Samples {
    fn new(c: &Call<'_>, b: &Builder, e: &Extents) -> Result<Samples> {
        let (input, offset) = (c.tensor(b, "input")?, c.tensor(b, "offset")?);
        let wide = b.dtype(input).accumulator();
        let mut near = b.full(Number::Bool(true), DType::Bool, &e.points())?;
        let mut sides = vec![];
        for d in 0..2 {
            let position = b.convert(e.position(b, offset, d)?, wide)?;
            let extent = e.image[d] as f64;
            let within = formula(b, [position], |[p]| p.greater(-1.0) & p.less(extent))?;
            near = b.binary(Binary::And, near, within)?;
            sides.push(Side::both(b, position, extent)?);
        }
        let lines = lines(b, b.convert(input, wide)?, e)?;
        let mut corners = vec![];
        for y in &sides[0] {
            for x in &sides[1] {
                corners.push(Corner::new(b, e, lines, y, x)?);
            }
        }
        Ok(Samples { corners, near })
    }

    /// The image at each point, `[points, channels]`.
    fn values(&self, b: &Builder, e: &Extents) -> Result<ValueId> {
        let mut sum = like(b, self.corners[0].pixels, 0.0)?;
        for corner in &self.corners {
            let weight = b.multiply(corner.weights[0], corner.weights[1])?;
            sum = b.add(sum, b.multiply(over_channels(b, e, weight)?, corner.pixels)?)?;
        }
        b.select(over_channels(b, e, self.near)?, sum, like(b, sum, 0.0)?)
    }

    /// The derivative of the image by the position in dimension `d`, at each point.
    fn slopes(&self, b: &Builder, e: &Extents, d: usize) -> Result<ValueId> {
        let mut sum = like(b, self.corners[0].pixels, 0.0)?;
        for corner in &self.corners {
            let slope = corner.slopes[d];
            let weight = formula(b, [corner.weights[1 - d]], |[w]| w * slope)?;
            sum = b.add(sum, b.multiply(over_channels(b, e, weight)?, corner.pixels)?)?;
        }
        Ok(sum)
    }

    /// The gradient of the image from that of its values at the points.
    fn image_gradient(&self, b: &Builder, e: &Extents, grad: ValueId) -> Result<ValueId> {
        let (lines, shared) = (e.batch * e.offset_groups * e.image[0] * e.image[1], e.shared());
        let mut sum = b.full(Number::Int(0), b.dtype(grad), &[lines, shared])?;
        for corner in &self.corners {
            let weight = b.multiply(corner.weights[0], corner.weights[1])?;
            let share = b.multiply(over_channels(b, e, weight)?, grad)?;
            let reached = formula(b, [weight], |[w]| w.greater(0.0))?;
            let reached = over_channels(b, e, b.binary(Binary::And, reached, corner.inside)?)?;
            let share = b.select(reached, share, like(b, share, 0.0)?)?;
            sum = put_points(b, sum, &[corner.line], &[0], share, Combiner::Add)?;
        }
        let image = b.reshape(sum, &[e.batch, e.offset_groups, e.image[0], e.image[1], shared])?;
        let image = b.transpose(image, &[0, 1, 4, 2, 3])?;
        b.reshape(image, &[e.batch, e.channels[0], e.image[0], e.image[1]])
    }
}

impl Side {
    /// The position before each point, or at it, and the one after that.
    fn both(b: &Builder, position: ValueId, extent: f64) -> Result<[Side; 2]> {
        let low = formula(b, [position], |[p]| p.floor())?;
        let high = formula(b, [low], |[low]| low + 1.0)?;
        let inside = |p: ValueId| formula(b, [p], |[p]| p.at_least(0.0) & p.less(extent));
        let share = formula(b, [position, low], |[p, low]| p - low)?;
        let rest = formula(b, [share], |[share]| 1.0 - share)?;
        Ok([
            Side { position: low, weight: rest, slope: -1.0, inside: inside(low)? },
            Side { position: high, weight: share, slope: 1.0, inside: inside(high)? },
        ])
    }
}

impl Corner {
    fn new(b: &Builder, e: &Extents, lines: ValueId, y: &Side, x: &Side) -> Result<Corner> {
        let inside = b.binary(Binary::And, y.inside, x.inside)?;
        let dtype = index_dtype(b.shape(lines)[0]);
        let place = |v: ValueId| b.convert(b.select(inside, v, like(b, v, 0.0)?)?, dtype);
        let number = |d: usize| b.iota(dtype, &e.points(), d);
        let [groups, height, width] = [e.offset_groups, e.image[0], e.image[1]].map(|n| n as f64);
        let operands = [number(0)?, number(1)?, place(y.position)?, place(x.position)?];
        let line = formula(b, operands, |[sample, group, y, x]| ((sample * groups + group) * height + y) * width + x)?;
        let pixels = take_slices(b, lines, 0, line)?;
        let pixels = b.select(over_channels(b, e, inside)?, pixels, like(b, pixels, 0.0)?)?;
        Ok(Corner { line, weights: [y.weight, x.weight], slopes: [y.slope, x.slope], inside, pixels })
    }
}

/// The pixels of an image with the channels that share offsets: `[batch * offset groups * height * width, channels]`.
fn lines(b: &Builder, image: ValueId, e: &Extents) -> Result<ValueId> {
    let [batch, groups, shared, height, width] = [e.batch, e.offset_groups, e.shared(), e.image[0], e.image[1]];
    let split = b.reshape(image, &[batch, groups, shared, height, width])?;
    b.reshape(b.transpose(split, &[0, 1, 3, 4, 2])?, &[batch * groups * height * width, shared])
}

/// A value for each point, for all channels that share it.
fn over_channels(b: &Builder, e: &Extents, v: ValueId) -> Result<ValueId> {
    let shape: Shape = e.points().into_iter().chain([e.shared()]).collect();
    b.broadcast_in_dim(v, &shape, &[0, 1, 2, 3, 4, 5])
}

/// Fails unless `names` have the type of the input, and the kernel takes that.
fn check_types(c: &Call<'_>, b: &Builder, names: &[&str], kernel: &str) -> Result<DType> {
    let dtype = b.dtype(c.tensor(b, "input")?);
    if !matches!(dtype, DType::F16 | DType::F32 | DType::F64) {
        return not_implemented(kernel, dtype);
    }
    for name in names {
        let own = b.dtype(c.tensor(b, name)?);
        ensure!(own == dtype, "{name}: expected scalar type {} but found {}", torch_name(dtype), torch_name(own));
    }
    Ok(dtype)
}

/// The mask, as factors for each point and its channels.
fn factors(c: &Call<'_>, b: &Builder, e: &Extents) -> Result<Option<ValueId>> {
    if !c.flag("use_mask")? {
        return Ok(None);
    }
    let mask = c.tensor(b, "mask")?;
    let mask = b.convert(mask, b.dtype(mask).accumulator())?;
    over_channels(b, e, b.reshape(mask, &e.points())?).map(Some)
}

fn masked(b: &Builder, v: ValueId, factors: Option<ValueId>) -> Result<ValueId> {
    factors.map_or(Ok(v), |factors| b.multiply(factors, v))
}

/// The products of weights with what the taps read, and the bias.
fn deform_conv2d(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let e = Extents::new(c, b)?;
    let (weight, bias) = (c.tensor(b, "weight")?, c.tensor(b, "bias")?);
    let (shape, given) = ([e.batch, e.channels[1], e.out[0], e.out[1]], b.ty(bias)?.numel());
    ensure!(given == shape[1], "shape '[1, {}, 1, 1]' is invalid for input of size {given}", shape[1]);
    if e.batch == 0 {
        return one(b.full(Number::Int(0), b.dtype(c.tensor(b, "input")?), &shape)?);
    }
    let dtype = check_types(c, b, &["weight", "offset", "mask"], "deformable_im2col")?;
    let mut sum = b.full(Number::Int(0), dtype, &shape)?;
    if !e.is_empty() {
        let values = Samples::new(c, b, &e)?.values(b, &e)?;
        let values = b.convert(masked(b, values, factors(c, b, &e)?)?, dtype)?;
        let product = contract(c, b, e.weights(b, weight)?, e.columns(b, values)?, &[(0, 1)], &[(2, 2)])?;
        sum = b.reshape(b.transpose(b.convert(product, dtype)?, &[2, 0, 1, 3])?, &shape)?;
    }
    let dtype = promote_types(dtype, b.dtype(bias))?;
    let bias = b.broadcast_in_dim(b.reshape(b.convert(bias, dtype)?, &[shape[1]])?, &shape, &[1])?;
    one(b.add(b.convert(sum, dtype)?, bias)?)
}

/// The gradients of input, weight, offset, mask and bias.
fn deform_conv2d_backward(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let e = Extents::new(c, b)?;
    let (grad, bias) = (c.tensor(b, "grad")?, c.tensor(b, "bias")?);
    let (shape, given) = ([e.batch, e.channels[1], e.out[0], e.out[1]], b.shape(grad));
    ensure!(given[..] == shape, "grad should have the result's shape {shape:?}, not {given:?}");
    ensure!(b.shape(bias)[..] == shape[1..2], "bias should have {} elements, not shape {:?}", shape[1], b.shape(bias));
    let gradients = if e.is_empty() {
        let zeros = |name| b.full_like(c.tensor(b, name)?, Number::Int(0));
        [zeros("input")?, zeros("weight")?, zeros("offset")?, zeros("mask")?]
    } else {
        check_types(c, b, &["grad", "weight", "offset", "mask"], "compute_grad_offset_and_mask")?;
        gradients(c, b, &e)?
    };
    let wide = b.convert(grad, b.dtype(grad).accumulator())?;
    let total = b.convert(b.reduce(wide, Reducer::Add, &[0, 2, 3])?, b.dtype(grad))?;
    let total = b.convert(total, promote_types(b.dtype(grad), b.dtype(bias))?)?;
    Ok(gradients.into_iter().chain([total]).map(Some).collect())
}

/// Those of input, weight, offset and mask.
fn gradients(c: &Call<'_>, b: &Builder, e: &Extents) -> Result<[ValueId; 4]> {
    let (weight, offset, mask) = (c.tensor(b, "weight")?, c.tensor(b, "offset")?, c.tensor(b, "mask")?);
    let (grad, dtype) = (e.results(b, c.tensor(b, "grad")?)?, b.dtype(weight));
    let (samples, factors) = (Samples::new(c, b, e)?, factors(c, b, e)?);
    let values = samples.values(b, e)?;
    let columns = e.columns(b, b.convert(masked(b, values, factors)?, dtype)?)?;
    let of_weight = contract(c, b, grad, columns, &[(1, 1)], &[(0, 0), (3, 3)])?;
    let of_weight = b.reshape(b.convert(of_weight, dtype)?, &b.shape(weight))?;
    let of_columns = b.convert(contract(c, b, e.weights(b, weight)?, grad, &[(0, 1)], &[(1, 2)])?, dtype)?;
    let of_columns = b.convert(b.transpose(of_columns, &[2, 0, 1, 3])?, dtype.accumulator())?;
    let of_columns = e.of_columns(b, of_columns)?;
    let of_values = masked(b, of_columns, factors)?;
    let over_points = |v: ValueId| b.reduce(v, Reducer::Add, &[6]);
    let mut of_offset = vec![];
    for d in 0..2 {
        let along = over_points(b.multiply(samples.slopes(b, e, d)?, of_values)?)?;
        let [batch, groups, kh, kw, h, w] = e.points();
        of_offset.push(b.reshape(along, &[batch, groups, kh, kw, 1, h, w])?);
    }
    let of_offset = b.reshape(b.concatenate(&of_offset, 4)?, &b.shape(offset))?;
    let of_mask = match factors {
        Some(_) => b.reshape(over_points(b.multiply(values, of_columns)?)?, &b.shape(mask))?,
        None => b.full_like(mask, Number::Int(0))?,
    };
    let of_image = samples.image_gradient(b, e, of_values)?;
    Ok([b.convert(of_image, dtype)?, of_weight, b.convert(of_offset, dtype)?, b.convert(of_mask, dtype)?])
}
