//! Averages over the cells of regions of pictures, as torchvision's `roi_align` and `ps_roi_align` take them.
//!
//! A region is a box `(x1, y1, x2, y2)` with the number of its picture in front.

use super::expr::formula;
use super::index::{index_dtype, put_points, take_slices};
use super::loops::repeat_while;
use super::support::{like, not_implemented, torch_name};
use super::{Call, OpDef, Outs, err, ok, one};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::literal::Number;
use crate::op::{Binary, Combiner, Comparison, Reducer};
use crate::types::Shape;
use crate::{DType, ensure};

pub(super) static OPS: &[OpDef] = &[
    OpDef::new(
        "torchvision::roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt \
         pooled_width, int sampling_ratio, bool aligned) -> Tensor",
        roi_align,
        &[
            ok("f32[2,3,6,7], f32[2,5]{0,1,2,9,8, 1,-2.5,0.5,3,14}, 0.5, 2, 3, 2, true"),
            // As many samples as a cell is long, which differs from region to region.
            ok("f32[2,3,6,7], f32[3,5]{1,0,0,11,9, 0,3,3,3,3, 0,1,1,12,3}, 0.5, 2, 3, 0, false"),
            ok("f64[1,2,5,4], f64[2,5]{0,1,2,9,8, 0,4,4,2,2}, 1.0, 3, 2, -1, true"),
            ok("f16[1,2,5,4], f16[1,5]{0,1,1,3,4}, 1.0, 2, 2, 1, false"),
            ok("f32[1,2,5,4], f32[0,5], 1.0, 2, 2, 2, true"),
            err("f32[1,2,5,4], f32[2,4], 1.0, 2, 2, 2, true", "rois must have shape as Tensor[K, 5]"),
            err("f32[1,2,5,4], f64[2,5], 1.0, 2, 2, 2, true", "input should have the same type as rois"),
            err(
                "bf16[1,2,5,4], bf16[2,5], 1.0, 2, 2, 2, true",
                "\"roi_align_forward_kernel\" not implemented for 'BFloat16'",
            ),
        ],
    ),
    OpDef::new(
        "torchvision::_roi_align_backward(Tensor grad, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt \
         pooled_width, SymInt batch_size, SymInt channels, SymInt height, SymInt width, int sampling_ratio, bool aligned) \
         -> Tensor",
        roi_align_backward,
        &[
            ok("f32[2,3,2,3], f32[2,5]{0,1,2,9,8, 1,-2.5,0.5,3,14}, 0.5, 2, 3, 2, 3, 6, 7, 2, true"),
            ok("f32[3,3,2,3], f32[3,5]{1,0,0,11,9, 0,3,3,3,3, 0,1,1,12,3}, 0.5, 2, 3, 2, 3, 6, 7, 0, false"),
            ok("f64[2,2,3,2], f64[2,5]{0,1,2,9,8, 0,4,4,2,2}, 1.0, 3, 2, 1, 2, 5, 4, -1, true"),
            ok("f32[0,2,2,2], f32[0,5], 1.0, 2, 2, 1, 2, 5, 4, 2, true"),
            err("f32[1,2,2,2], f64[1,5], 1.0, 2, 2, 1, 2, 5, 4, 2, true", "grad should have the same type as rois"),
        ],
    ),
    OpDef::new(
        "torchvision::ps_roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt \
         pooled_width, int sampling_ratio) -> (Tensor, Tensor)",
        ps_roi_align,
        &[
            ok("f32[2,12,6,7], f32[2,5]{0,1,2,9,8, 1,-2.5,0.5,3,14}, 0.5, 2, 3, 2"),
            ok("f32[2,12,6,7], f32[3,5]{1,0,0,11,9, 0,1,2,4,8, 0,1,1,12,3}, 0.5, 3, 2, 0"),
            // Regions without samples in them, whose averages are NaN, or zero where both extents are negative.
            ok("f64[1,4,5,4], f64[4,5]{0,1,2,9,8, 0,2,2,2,2, 0,3,3,1,1, 0,3,1,1,3}, 1.0, 2, 2, -1"),
            ok("f16[1,4,5,4], f16[1,5]{0,1,1,3,4}, 1.0, 2, 1, 1"),
            ok("f32[1,4,5,4], f32[0,5], 1.0, 2, 2, 2"),
            ok("bf16[1,4,5,4], bf16[0,5], 1.0, 2, 2, 2"),
            ok("f32[1,0,5,4], f32[1,5]{0,1,1,3,4}, 1.0, 2, 2, 2"),
            err("f32[1,4,5,4], f32[2,4], 1.0, 2, 2, 2", "rois must have shape as Tensor[K, 5]"),
            err("f32[1,4,5,4], f64[2,5], 1.0, 2, 2, 2", "input should have the same type as rois"),
            err("f32[1,3,5,4], f32[2,5], 1.0, 2, 2, 2", "multiple of pooling height * pooling width"),
            err(
                "bf16[1,4,5,4], bf16[2,5], 1.0, 2, 2, 2",
                "\"ps_roi_align_forward_kernel\" not implemented for 'BFloat16'",
            ),
        ],
    ),
    OpDef::new(
        "torchvision::_ps_roi_align_backward(Tensor grad, Tensor rois, Tensor channel_mapping, float spatial_scale, \
         SymInt pooled_height, SymInt pooled_width, int sampling_ratio, SymInt batch_size, SymInt channels, \
         SymInt height, SymInt width) -> Tensor",
        ps_roi_align_backward,
        &[
            ok("f32[2,2,2,3], f32[2,5]{0,1,2,9,8, 1,-2.5,0.5,3,14}, i32[2,2,2,3]{0,1,2,3,4,5,6,7,8,9,10,11}, 0.5, 2, \
                3, 2, 2, \
                12, 6, 7"),
            // Other channels than the forward op gives.
            ok(
                "f32[3,1,2,1], f32[3,5]{1,0,0,11,9, 0,3,3,2,2, 0,1,1,12,3}, i32[3,1,2,1]{1,1,0,1}, 0.5, 2, 1, 0, 2, 2, \
                6, 7",
            ),
            ok("f64[2,1,1,2], f64[2,5]{0,1,2,9,8, 0,4,4,2,2}, i32[2,1,1,2]{0,1}, 1.0, 1, 2, -1, 1, 2, 5, 4"),
            ok("f32[0,1,2,2], f32[0,5], i32[0,1,2,2], 1.0, 2, 2, 2, 1, 4, 5, 4"),
            err(
                "f32[1,1,2,2], f64[1,5], i32[1,1,2,2]{0}, 1.0, 2, 2, 2, 1, 4, 5, 4",
                "grad should have the same type as rois",
            ),
            err(
                "f32[1,1,2,2], f32[1,5]{0}, i64[1,1,2,2]{0}, 1.0, 2, 2, 2, 1, 4, 5, 4",
                "expected scalar type Int but found Long",
            ),
        ],
    ),
];

/// `v[:, i]`.
pub(super) fn column(b: &Builder, v: ValueId, i: usize) -> Result<ValueId> {
    b.reshape(b.slice_dim(v, 1, i, i + 1, 1)?, &[b.shape(v)[0]])
}

/// `v` by `divisor`, rounded as a quotient is: by a constant, XLA multiplies with its reciprocal, and here the last bit
/// decides how many pixels there are.
pub(super) fn quotient(b: &Builder, v: ValueId, divisor: usize) -> Result<ValueId> {
    let divisor = b.behind_barrier(b.full_like(v, Number::Int(divisor as i64))?, v)?;
    b.divide(v, divisor)
}

/// How `roi_align` and `ps_roi_align` divide regions of pictures `[batch, channels, height, width]`.
struct Cells {
    /// Of the pictures.
    extents: [usize; 2],
    pictures: usize,
    /// Cells of a region, vertically and horizontally.
    cells: [usize; 2],
    regions: usize,
    /// Whether each cell reads pictures of its own: [`apart`].
    own: bool,
    dtype: DType,
}

/// Where the regions lie, each `[regions]`: the number of the picture, and for both dimensions the first position, the
/// length of a cell, and how many samples a cell has (`i32`).
struct Regions {
    picture: ValueId,
    starts: [ValueId; 2],
    lengths: [ValueId; 2],
    samples: [ValueId; 2],
}

/// A row among all pixels, and a weight, for each cell.
type Neighbour = (ValueId, ValueId);

/// Where [`Regions`] begin among what is carried from one sample to the next.
const FIRST_REGION: usize = 3;
/// Where what is read begins.
const FIRST_SOURCE: usize = FIRST_REGION + 7;

impl Cells {
    fn regions(&self, c: &Call<'_>, b: &Builder, rois: ValueId, aligned: bool) -> Result<Regions> {
        let (scale, ratio) = (c.float("spatial_scale")?, c.int("sampling_ratio")?);
        let rois = b.convert(rois, self.dtype)?;
        // Vertically first; x stands before y.
        let axis = |d: usize| -> Result<[ValueId; 3]> {
            let (low, high, cells) = (column(b, rois, 2 - d)?, column(b, rois, 4 - d)?, self.cells[d]);
            let shift = if aligned { 0.5 } else { 0.0 };
            let start = formula(b, [low], |[low]| low * scale - shift)?;
            let length = formula(b, [high, start], |[high, start]| {
                let length = high * scale - shift - start;
                if aligned { length } else { length.max(1.0) }
            })?;
            let cell = quotient(b, length, cells)?;
            let samples = match ratio {
                1.. => like(b, length, ratio as f64)?,
                _ => formula(b, [cell], |[cell]| cell.ceil())?,
            };
            Ok([start, cell, b.convert(samples, DType::I32)?])
        };
        let [y, x] = [axis(0)?, axis(1)?];
        let picture = b.convert(column(b, rois, 0)?, DType::I32)?;
        Ok(Regions { picture, starts: [y[0], x[0]], lengths: [y[1], x[1]], samples: [y[2], x[2]] })
    }

    /// `step` for each sample of the cells, with the sample's four neighbours: their rows among all pixels and their
    /// weights, `[regions, cells, cells]`. It gets what is read, `source`, and what it made of `sum` before.
    fn for_samples(
        &self,
        b: &Builder,
        r: &Regions,
        source: &[ValueId],
        sum: ValueId,
        step: impl Fn(&Builder, &[ValueId], ValueId, [Neighbour; 4], ValueId) -> Result<ValueId>,
    ) -> Result<ValueId> {
        let all = b.reduce(self.count(b, r.samples)?, Reducer::Maximum, &[0])?;
        let carried = [b.scalar(Number::Int(0), DType::I32)?, all, sum, r.picture];
        let carried = [&carried[..], &r.starts, &r.lengths, &r.samples, source].concat();
        let more = |b: &Builder, given: &[ValueId]| b.compare(Comparison::Lt, given[0], given[1]);
        let next = |b: &Builder, given: &[ValueId]| {
            let (neighbours, here) = self.neighbours(b, given[0], &Regions::of(&given[FIRST_REGION..]))?;
            let mut next = given.to_vec();
            next[0] = b.add(given[0], b.scalar(Number::Int(1), DType::I32)?)?;
            next[2] = step(b, &given[FIRST_SOURCE..], given[2], neighbours, here)?;
            Ok(next)
        };
        Ok(repeat_while(b, &carried, more, next)?[2])
    }

    /// How many samples a cell of each region has.
    fn count(&self, b: &Builder, samples: [ValueId; 2]) -> Result<ValueId> {
        let [y, x] = samples.map(|v| b.maximum(v, b.full_like(v, Number::Int(0))?));
        b.multiply(y?, x?)
    }

    /// The neighbours of the sample with number `sample` in each cell, and where there is such a sample in the picture.
    fn neighbours(&self, b: &Builder, sample: ValueId, r: &Regions) -> Result<([Neighbour; 4], ValueId)> {
        let sample = b.broadcast_in_dim(sample, &[self.regions], &[])?;
        let across = b.maximum(r.samples[1], b.full_like(sample, Number::Int(1))?)?;
        let row = b.binary(Binary::Divide, sample, across)?;
        let place = [row, b.subtract(sample, b.multiply(row, across)?)?];
        let shape: Shape = [self.regions, self.cells[0], self.cells[1]].into_iter().collect();
        let (mut low, mut high, mut share) = (vec![], vec![], vec![]);
        let there = b.compare(Comparison::Lt, sample, self.count(b, r.samples)?)?;
        let mut here = b.broadcast_in_dim(there, &shape, &[0])?;
        for (d, place) in place.into_iter().enumerate() {
            let position = self.position(b, d, place, r)?;
            let spread = |v| b.broadcast_in_dim(v, &shape, &[0, d + 1]);
            let extent = self.extents[d] as f64;
            let inside = formula(b, [position], |[p]| p.at_least(-1.0) & p.at_most(extent))?;
            here = b.binary(Binary::And, here, spread(inside)?)?;
            let p = formula(b, [position], |[p]| p.max(0.0).min(extent - 1.0))?;
            let floor = formula(b, [p], |[p]| p.floor())?;
            let above = formula(b, [floor], |[f]| (f + 1.0).min(extent - 1.0))?;
            low.push(b.convert(spread(floor)?, self.index_dtype())?);
            high.push(b.convert(spread(above)?, self.index_dtype())?);
            share.push(spread(formula(b, [p, floor], |[p, f]| p - f)?)?);
        }
        let mut picture = b.convert(b.broadcast_in_dim(r.picture, &shape, &[0])?, self.index_dtype())?;
        if self.own {
            let cell = cell_numbers(b, self.index_dtype(), &shape)?;
            let before = b.multiply(cell, b.full_like(cell, Number::Int(self.pictures as i64))?)?;
            picture = b.add(picture, before)?;
        }
        let pixel = |y, x| {
            let [height, width] = self.extents.map(|extent| b.full_like(picture, Number::Int(extent as i64)));
            let line = b.add(b.multiply(picture, height?)?, y)?;
            b.add(b.multiply(line, width?)?, x)
        };
        let [y, x] = [share[0], share[1]];
        let neighbours = [
            (pixel(low[0], low[1])?, formula(b, [y, x], |[y, x]| (-y + 1.0) * (-x + 1.0))?),
            (pixel(low[0], high[1])?, formula(b, [y, x], |[y, x]| (-y + 1.0) * x)?),
            (pixel(high[0], low[1])?, formula(b, [y, x], |[y, x]| y * (-x + 1.0))?),
            (pixel(high[0], high[1])?, formula(b, [y, x], |[y, x]| y * x)?),
        ];
        Ok((neighbours, here))
    }

    /// Positions of samples in a dimension of the picture, `[regions, cells]`.
    fn position(&self, b: &Builder, d: usize, place: ValueId, r: &Regions) -> Result<ValueId> {
        let shape = [self.regions, self.cells[d]];
        let spread = |v| b.broadcast_in_dim(b.convert(v, self.dtype)?, &shape, &[0]);
        let cell = b.convert(b.iota(DType::I32, &shape, 1)?, self.dtype)?;
        let operands = [spread(r.starts[d])?, cell, spread(r.lengths[d])?, spread(place)?, spread(r.samples[d])?];
        formula(b, operands, |[start, cell, length, place, samples]| {
            start + cell * length + (place + 0.5) * length / samples
        })
    }

    fn index_dtype(&self) -> DType {
        let each = if self.own { self.cells[0] * self.cells[1] } else { 1 };
        index_dtype(each * self.pictures * self.extents[0] * self.extents[1])
    }

    /// A value for each cell, for all of `channels`.
    fn over_channels(&self, b: &Builder, v: ValueId, channels: usize) -> Result<ValueId> {
        b.broadcast_in_dim(v, &[self.regions, self.cells[0], self.cells[1], channels], &[0, 1, 2])
    }

    /// The cells of a gradient, the shape of the pictures, and zeros for the sum over pixels.
    fn of_gradient(c: &Call<'_>, b: &Builder, grad: ValueId) -> Result<(Cells, [usize; 4], ValueId)> {
        let (s, dtype) = (b.shape(grad), b.dtype(grad).accumulator());
        let [pictures, channels] = [extent(c, "batch_size")?, extent(c, "channels")?];
        let extents = [extent(c, "height")?, extent(c, "width")?];
        let sum = b.full(Number::Int(0), dtype, &[pictures * extents[0] * extents[1], channels])?;
        let cells = Cells { extents, pictures, cells: [s[2], s[3]], regions: s[0], own: false, dtype };
        Ok((cells, [pictures, channels, extents[0], extents[1]], sum))
    }

    /// `sum` and the samples of each cell.
    fn sum(&self, b: &Builder, r: &Regions, rows: ValueId, sum: ValueId) -> Result<ValueId> {
        let channels = b.shape(sum)[3];
        self.for_samples(b, r, &[rows], sum, |b, rows, sum, neighbours, here| {
            let mut sample = b.full_like(sum, Number::Int(0))?;
            for (pixel, weight) in neighbours {
                let weight = self.over_channels(b, weight, channels)?;
                sample = b.add(sample, b.multiply(weight, take_slices(b, rows[0], 0, pixel)?)?)?;
            }
            let here = self.over_channels(b, here, channels)?;
            b.add(sum, b.select(here, sample, b.full_like(sum, Number::Int(0))?)?)
        })
    }

    /// A neighbour's part of `share`, if there is a sample.
    fn part(&self, b: &Builder, share: ValueId, weight: ValueId, here: ValueId) -> Result<ValueId> {
        let channels = b.shape(share)[3];
        let part = b.multiply(share, self.over_channels(b, weight, channels)?)?;
        b.select(self.over_channels(b, here, channels)?, part, b.full_like(part, Number::Int(0))?)
    }

    /// How many samples each cell has, none or less where regions are turned over, `[regions, cells, cells, channels]`.
    fn samples(&self, b: &Builder, r: &Regions, channels: usize) -> Result<ValueId> {
        let count = b.convert(b.multiply(r.samples[0], r.samples[1])?, self.dtype)?;
        b.broadcast_in_dim(count, &[self.regions, self.cells[0], self.cells[1], channels], &[0])
    }

    /// What sums over samples are divided by, `[regions, cells, cells, channels]`.
    fn divisor(&self, b: &Builder, r: &Regions, channels: usize) -> Result<ValueId> {
        let count = self.count(b, r.samples)?;
        let count = b.convert(b.maximum(count, b.full_like(count, Number::Int(1))?)?, self.dtype)?;
        let shape = [self.regions, self.cells[0], self.cells[1], channels];
        b.broadcast_in_dim(count, &shape, &[0])
    }
}

impl Regions {
    /// As [`Cells::for_samples`] carries them.
    fn of(carried: &[ValueId]) -> Regions {
        Regions {
            picture: carried[0],
            starts: [carried[1], carried[2]],
            lengths: [carried[3], carried[4]],
            samples: [carried[5], carried[6]],
        }
    }
}

/// The numbers of cells, `[regions, cells, cells]`.
pub(super) fn cell_numbers(b: &Builder, dtype: DType, shape: &[usize]) -> Result<ValueId> {
    let (row, place) = (b.iota(dtype, shape, 1)?, b.iota(dtype, shape, 2)?);
    b.add(b.multiply(row, b.full_like(row, Number::Int(shape[2] as i64))?)?, place)
}

/// Pictures with the channels that each of `cells` reads for itself, as lines of pixels:
/// `[cells * cells * batch * height * width, channels]`.
pub(super) fn apart(b: &Builder, pictures: ValueId, cells: [usize; 2]) -> Result<ValueId> {
    let s = b.shape(pictures);
    let each = cells[0] * cells[1];
    let split = b.reshape(pictures, &[s[0], s[1] / each, each, s[2], s[3]])?;
    b.reshape(b.transpose(split, &[2, 0, 3, 4, 1])?, &[each * s[0] * s[2] * s[3], s[1] / each])
}

/// The channels that cells of their own read, `i32[regions, channels, cells, cells]`.
pub(super) fn channel_mapping(b: &Builder, shape: &[usize]) -> Result<ValueId> {
    let count = shape[1..].iter().product();
    let channels = b.reshape(b.iota(DType::I32, &[count], 0)?, &shape[1..])?;
    b.broadcast_in_dim(channels, shape, &[1, 2, 3])
}

/// How many channels there are for each of `cells`.
pub(super) fn channels_apart(channels: usize, cells: [usize; 2]) -> Result<usize> {
    let each = cells[0] * cells[1];
    ensure!(
        each > 0 && channels.is_multiple_of(each),
        "input channels must be a multiple of pooling height * pooling width"
    );
    Ok(channels / each)
}

/// Fails unless places or channels among the arguments have the type and the shape that the forward op gave them.
pub(super) fn check_places(b: &Builder, name: &str, v: ValueId, shape: &[usize]) -> Result<()> {
    ensure!(b.dtype(v) == DType::I32, "expected scalar type Int but found {}", torch_name(b.dtype(v)));
    ensure!(&b.shape(v)[..] == shape, "{name} should have the gradient's shape {shape:?}, not {:?}", b.shape(v));
    Ok(())
}

/// Fails unless `rois` are regions of `v` and of its type, which the kernel, if anything is left for it to do, takes.
pub(super) fn checked(b: &Builder, what: &str, kernel: &str, v: ValueId, rois: ValueId) -> Result<()> {
    let s = b.shape(rois);
    ensure!(s.len() == 2 && s[1] == 5, "rois must have shape as Tensor[K, 5]");
    ensure!(b.rank(v) == 4, "{what} must have four dimensions, not {}", b.rank(v));
    ensure!(
        b.dtype(v) == b.dtype(rois),
        "{what} should have the same type as rois, but is {} beside {}",
        torch_name(b.dtype(v)),
        torch_name(b.dtype(rois))
    );
    let empty = s[0] == 0 || b.shape(v)[1] == 0;
    match b.dtype(v) {
        DType::F16 | DType::F32 | DType::F64 => Ok(()),
        _ if empty => Ok(()),
        dtype => not_implemented(kernel, dtype),
    }
}

/// The number `name`, as an extent.
pub(super) fn extent(c: &Call<'_>, name: &str) -> Result<usize> {
    let n = c.int(name)?;
    ensure!(n >= 0, "{name} must not be negative, but is {n}");
    Ok(n as usize)
}

/// Lines of pixels, `[batch * height * width, channels]`.
pub(super) fn pixels(b: &Builder, pictures: ValueId) -> Result<ValueId> {
    let s = b.shape(pictures);
    b.reshape(b.transpose(pictures, &[0, 2, 3, 1])?, &[s[0] * s[2] * s[3], s[1]])
}

/// The gradient of pictures, `[batch, channels, height, width]`, from that of [`pixels`].
pub(super) fn of_pixels(b: &Builder, pixels: ValueId, shape: [usize; 4], dtype: DType) -> Result<Outs> {
    let pictures = b.reshape(pixels, &[shape[0], shape[2], shape[3], shape[1]])?;
    one(b.convert(b.transpose(pictures, &[0, 3, 1, 2])?, dtype)?)
}

/// The average of samples in each cell of each region, `[regions, channels, cells, cells]`.
fn roi_align(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (pictures, rois) = (c.tensor(b, "input")?, c.tensor(b, "rois")?);
    checked(b, "input", "roi_align_forward_kernel", pictures, rois)?;
    let (s, dtype) = (b.shape(pictures), b.dtype(pictures));
    let cells = [extent(c, "pooled_height")?, extent(c, "pooled_width")?];
    let (extents, regions) = ([s[2], s[3]], b.shape(rois)[0]);
    let cells = Cells { extents, pictures: s[0], cells, regions, own: false, dtype: dtype.accumulator() };
    let mut sum = b.full(Number::Int(0), cells.dtype, &[regions, cells.cells[0], cells.cells[1], s[1]])?;
    if !b.shape(sum).contains(&0) && !s.contains(&0) {
        let regions = cells.regions(c, b, rois, c.flag("aligned")?)?;
        sum = cells.sum(b, &regions, pixels(b, b.convert(pictures, cells.dtype)?)?, sum)?;
        sum = b.divide(sum, cells.divisor(b, &regions, s[1])?)?;
    }
    one(b.convert(b.transpose(sum, &[0, 3, 1, 2])?, dtype)?)
}

/// The gradient of the pictures.
fn roi_align_backward(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (grad, rois) = (c.tensor(b, "grad")?, c.tensor(b, "rois")?);
    checked(b, "grad", "roi_align_backward_kernel", grad, rois)?;
    let (cells, shape, mut sum) = Cells::of_gradient(c, b, grad)?;
    let channels = shape[1];
    if !b.shape(grad).contains(&0) && !b.shape(sum).contains(&0) {
        let regions = cells.regions(c, b, rois, c.flag("aligned")?)?;
        let grad = b.transpose(b.convert(grad, cells.dtype)?, &[0, 2, 3, 1])?;
        let share = b.divide(grad, cells.divisor(b, &regions, channels)?)?;
        sum = cells.for_samples(b, &regions, &[share], sum, |b, given, mut sum, neighbours, here| {
            for (pixel, weight) in neighbours {
                let part = cells.part(b, given[0], weight, here)?;
                sum = put_points(b, sum, &[pixel], &[0], part, Combiner::Add)?;
            }
            Ok(sum)
        })?;
    }
    of_pixels(b, sum, shape, b.dtype(grad))
}

/// As [`roi_align`], with channels of its own for each cell; beside it those channels.
fn ps_roi_align(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (pictures, rois) = (c.tensor(b, "input")?, c.tensor(b, "rois")?);
    checked(b, "input", "ps_roi_align_forward_kernel", pictures, rois)?;
    let (s, dtype) = (b.shape(pictures), b.dtype(pictures));
    let cells = [extent(c, "pooled_height")?, extent(c, "pooled_width")?];
    let (channels, regions) = (channels_apart(s[1], cells)?, b.shape(rois)[0]);
    let cells = Cells { extents: [s[2], s[3]], pictures: s[0], cells, regions, own: true, dtype: dtype.accumulator() };
    let mut sum = b.full(Number::Int(0), cells.dtype, &[regions, cells.cells[0], cells.cells[1], channels])?;
    if !b.shape(sum).contains(&0) && !s.contains(&0) {
        let regions = cells.regions(c, b, rois, true)?;
        sum = cells.sum(b, &regions, apart(b, b.convert(pictures, cells.dtype)?, cells.cells)?, sum)?;
        sum = b.divide(sum, cells.samples(b, &regions, channels)?)?;
    }
    let average = b.convert(b.transpose(sum, &[0, 3, 1, 2])?, dtype)?;
    let mapping = channel_mapping(b, &b.shape(average))?;
    Ok(vec![Some(average), Some(mapping)])
}

/// The gradient of the pictures, in the channels that are given.
fn ps_roi_align_backward(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (grad, rois, mapping) = (c.tensor(b, "grad")?, c.tensor(b, "rois")?, c.tensor(b, "channel_mapping")?);
    checked(b, "grad", "ps_roi_align_backward_kernel", grad, rois)?;
    check_places(b, "channel_mapping", mapping, &b.shape(grad))?;
    let (cells, shape, mut sum) = Cells::of_gradient(c, b, grad)?;
    if !b.shape(grad).contains(&0) && !b.shape(sum).contains(&0) {
        let regions = cells.regions(c, b, rois, true)?;
        let last = [0, 2, 3, 1];
        let (grad, channel) = (b.transpose(b.convert(grad, cells.dtype)?, &last)?, b.transpose(mapping, &last)?);
        let channels = b.shape(grad)[3];
        let share = b.divide(grad, cells.samples(b, &regions, channels)?)?;
        sum = cells.for_samples(b, &regions, &[share, channel], sum, |b, given, mut sum, neighbours, here| {
            for (pixel, weight) in neighbours {
                let part = cells.part(b, given[0], weight, here)?;
                let places = [cells.over_channels(b, pixel, channels)?, given[1]];
                sum = put_points(b, sum, &places, &[0, 1], part, Combiner::Add)?;
            }
            Ok(sum)
        })?;
    }
    of_pixels(b, sum, shape, b.dtype(grad))
}
