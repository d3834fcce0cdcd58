//! Boxes in pictures, as torchvision's ops take them: which ones to keep, and averages over their cells.
//!
//! A box is `(x1, y1, x2, y2)`. A region is a box with the number of its picture in front.

use super::bounded::Bounded;
use super::expr::formula;
use super::index::{index_dtype, put_points, take_slices};
use super::loops::{repeat, repeat_while};
use super::sort::sorted;
use super::support::{like, not_implemented, torch_name};
use super::{Call, OpDef, Outs, err, ok, one};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::literal::Number;
use crate::op::{Binary, Combiner, Comparison, Reducer, Unary};
use crate::types::Shape;
use crate::{DType, ensure};

pub(super) static OPS: &[OpDef] = &[
    OpDef::bounded(
        "torchvision::nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
        nms,
        &[
            ok("f32[4,4]{0,0,4,4, 1,0,5,4, 6,6,9,9, 0,0,4,5}, f32[4]{0.1,0.9,0.5,0.3}, 0.5"),
            // An overlap of just 0.3, which in f32 lies above it.
            ok("f32[2,4]{0,0,10,1, 0,0,3,1}, f32[2]{2,1}, 0.3"),
            ok("f64[3,4]{0,0,4,4, 0,0,4,4, 2,2,2,2}, f64[3]{1,1,nan}, 0.9"),
            ok("f32[0,4], f32[0], 0.5"),
            err("f32[3], f32[3], 0.5", "boxes should be a 2d tensor, got 1D"),
            err("f32[3,5], f32[3], 0.5", "boxes should have 4 elements in dimension 1, got 5"),
            err("f32[3,4], f32[3,1], 0.5", "scores should be a 1d tensor, got 2D"),
            err(
                "f32[3,4], f32[2], 0.5",
                "boxes and scores should have same number of elements in dimension 0, got 3 and 2",
            ),
            err("f32[3,4], f64[3], 0.5", "dets should have the same type as scores"),
            err("bf16[3,4], bf16[3], 0.5", "\"nms_kernel\" not implemented for 'BFloat16'"),
        ],
    ),
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
];

/// The places of the boxes that no kept box with a higher score overlaps by more than a share of what both cover.
fn nms(c: &Call<'_>, b: &Builder) -> Result<Bounded> {
    let (boxes, scores, threshold) = (c.tensor(b, "dets")?, c.tensor(b, "scores")?, c.float("iou_threshold")?);
    let (s, t, dtype) = (b.shape(boxes), b.shape(scores), b.dtype(boxes));
    ensure!(s.len() == 2, "boxes should be a 2d tensor, got {}D", s.len());
    ensure!(s[1] == 4, "boxes should have 4 elements in dimension 1, got {}", s[1]);
    ensure!(t.len() == 1, "scores should be a 1d tensor, got {}D", t.len());
    ensure!(
        s[0] == t[0],
        "boxes and scores should have same number of elements in dimension 0, got {} and {}",
        s[0],
        t[0]
    );
    ensure!(dtype == b.dtype(scores), "dets should have the same type as scores");
    if !matches!(dtype, DType::F32 | DType::F64) {
        return not_implemented("nms_kernel", dtype);
    }
    let n = s[0];
    if n == 0 {
        return Bounded::fixed(vec![Some(b.full(Number::Int(0), DType::I64, &[0])?)]);
    }
    let (_, order) = sorted(b, scores, 0, true)?;
    let boxes = take_slices(b, boxes, 0, order)?;
    let dropped = b.full(Number::Bool(false), DType::Bool, &[n])?;
    let threshold = threshold_for(dtype, threshold);
    let dropped = repeat(b, n, &[boxes, dropped], |b, i, carried| {
        let (boxes, dropped) = (carried[0], carried[1]);
        let overlapped = overlaps(b, boxes, i, threshold)?;
        let later = b.compare(Comparison::Gt, b.iota(DType::I32, &[n], 0)?, b.broadcast_in_dim(i, &[n], &[])?)?;
        let kept = b.unary(Unary::Not, b.broadcast_in_dim(take_slices(b, dropped, 0, i)?, &[n], &[])?)?;
        let drops = b.binary(Binary::And, kept, b.binary(Binary::And, later, overlapped)?)?;
        Ok(vec![boxes, b.binary(Binary::Or, dropped, drops)?])
    })?[1];
    let kept = b.convert(b.unary(Unary::Not, dropped)?, DType::I64)?;
    Bounded::rows(b.sort(&[dropped, order], 0, false, true)?[1], b.reduce(kept, Reducer::Add, &[0])?)
}

/// The largest number of `dtype` up to `threshold`: PyTorch compares in `f64`.
fn threshold_for(dtype: DType, threshold: f64) -> f64 {
    if dtype == DType::F64 {
        return threshold;
    }
    let near = threshold as f32;
    f64::from(if f64::from(near) > threshold { near.next_down() } else { near })
}

/// Whether the `i`th of `boxes` and each of them have more in common than `threshold` of what both cover.
fn overlaps(b: &Builder, boxes: ValueId, i: ValueId, threshold: f64) -> Result<ValueId> {
    let n = b.shape(boxes)[0];
    let own = b.broadcast_in_dim(take_slices(b, boxes, 0, i)?, &[n, 4], &[1])?;
    let corner = |v, d| column(b, v, d);
    let [x1, y1, x2, y2] = [corner(boxes, 0)?, corner(boxes, 1)?, corner(boxes, 2)?, corner(boxes, 3)?];
    let [u1, v1, u2, v2] = [corner(own, 0)?, corner(own, 1)?, corner(own, 2)?, corner(own, 3)?];
    formula(b, [x1, y1, x2, y2, u1, v1, u2, v2], |[x1, y1, x2, y2, u1, v1, u2, v2]| {
        let common = (x2.min(u2) - x1.max(u1)).max(0.0) * (y2.min(v2) - y1.max(v1)).max(0.0);
        let covered = (u2 - u1) * (v2 - v1) + (x2 - x1) * (y2 - y1) - common;
        (common / covered).greater(threshold)
    })
}

/// `v[:, i]`.
fn column(b: &Builder, v: ValueId, i: usize) -> Result<ValueId> {
    b.reshape(b.slice_dim(v, 1, i, i + 1, 1)?, &[b.shape(v)[0]])
}

/// How `roi_align` divides regions of pictures `[batch, channels, height, width]`.
struct Cells {
    /// Of the pictures.
    extents: [usize; 2],
    pictures: usize,
    /// Cells of a region, vertically and horizontally.
    cells: [usize; 2],
    regions: usize,
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
const FIRST_REGION: usize = 4;

impl Cells {
    fn regions(&self, c: &Call<'_>, b: &Builder, rois: ValueId) -> Result<Regions> {
        let (scale, ratio, aligned) = (c.float("spatial_scale")?, c.int("sampling_ratio")?, c.flag("aligned")?);
        let rois = b.convert(rois, self.dtype)?;
        // Vertically first; x stands before y.
        let axis = |d: usize| -> Result<[ValueId; 3]> {
            let (low, high, cells) = (column(b, rois, 2 - d)?, column(b, rois, 4 - d)?, self.cells[d] as f64);
            let shift = if aligned { 0.5 } else { 0.0 };
            let start = formula(b, [low], |[low]| low * scale - shift)?;
            let length = formula(b, [high, start], |[high, start]| {
                let length = high * scale - shift - start;
                if aligned { length } else { length.max(1.0) }
            })?;
            let samples = match ratio {
                1.. => like(b, length, ratio as f64)?,
                _ => formula(b, [length], |[length]| (length / cells).ceil())?,
            };
            Ok([start, formula(b, [length], |[length]| length / cells)?, b.convert(samples, DType::I32)?])
        };
        let [y, x] = [axis(0)?, axis(1)?];
        let picture = b.convert(column(b, rois, 0)?, DType::I32)?;
        Ok(Regions { picture, starts: [y[0], x[0]], lengths: [y[1], x[1]], samples: [y[2], x[2]] })
    }

    /// `step` for each sample of the cells, with the sample's four neighbours: their rows among all pixels and their
    /// weights, `[regions, cells, cells]`. It gets `source` and what it made of `sum` before.
    fn for_samples(
        &self,
        b: &Builder,
        r: &Regions,
        source: ValueId,
        sum: ValueId,
        step: impl Fn(&Builder, ValueId, ValueId, [Neighbour; 4], ValueId) -> Result<ValueId>,
    ) -> Result<ValueId> {
        let all = b.reduce(self.count(b, r.samples)?, Reducer::Maximum, &[0])?;
        let carried = [b.scalar(Number::Int(0), DType::I32)?, all, source, sum, r.picture];
        let carried = [&carried[..], &r.starts, &r.lengths, &r.samples].concat();
        let more = |b: &Builder, given: &[ValueId]| b.compare(Comparison::Lt, given[0], given[1]);
        let next = |b: &Builder, given: &[ValueId]| {
            let (neighbours, here) = self.neighbours(b, given[0], &Regions::of(&given[FIRST_REGION..]))?;
            let mut next = given.to_vec();
            next[0] = b.add(given[0], b.scalar(Number::Int(1), DType::I32)?)?;
            next[3] = step(b, given[2], given[3], neighbours, here)?;
            Ok(next)
        };
        Ok(repeat_while(b, &carried, more, next)?[3])
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
        let picture = b.convert(b.broadcast_in_dim(r.picture, &shape, &[0])?, self.index_dtype())?;
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
        index_dtype(self.pictures * self.extents[0] * self.extents[1])
    }

    /// A value for each cell, for all of `channels`.
    fn over_channels(&self, b: &Builder, v: ValueId, channels: usize) -> Result<ValueId> {
        b.broadcast_in_dim(v, &[self.regions, self.cells[0], self.cells[1], channels], &[0, 1, 2])
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

fn checked(b: &Builder, what: &str, kernel: &str, v: ValueId, rois: ValueId) -> Result<()> {
    let s = b.shape(rois);
    ensure!(s.len() == 2 && s[1] == 5, "rois must have shape as Tensor[K, 5]");
    ensure!(b.rank(v) == 4, "{what} must have four dimensions, not {}", b.rank(v));
    ensure!(
        b.dtype(v) == b.dtype(rois),
        "{what} should have the same type as rois, but is {} beside {}",
        torch_name(b.dtype(v)),
        torch_name(b.dtype(rois))
    );
    match b.dtype(v) {
        DType::F16 | DType::F32 | DType::F64 => Ok(()),
        dtype => not_implemented(kernel, dtype),
    }
}

/// The number `name`, as an extent.
fn extent(c: &Call<'_>, name: &str) -> Result<usize> {
    let n = c.int(name)?;
    ensure!(n >= 0, "{name} must not be negative, but is {n}");
    Ok(n as usize)
}

/// The average of samples in each cell of each region, `[regions, channels, cells, cells]`.
fn roi_align(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (pictures, rois) = (c.tensor(b, "input")?, c.tensor(b, "rois")?);
    checked(b, "input", "roi_align_forward_kernel", pictures, rois)?;
    let (s, dtype) = (b.shape(pictures), b.dtype(pictures));
    let cells = [extent(c, "pooled_height")?, extent(c, "pooled_width")?];
    let pooled = [b.shape(rois)[0], cells[0], cells[1], s[1]];
    let cells = Cells { extents: [s[2], s[3]], pictures: s[0], cells, regions: pooled[0], dtype: dtype.accumulator() };
    let mut sum = b.full(Number::Int(0), cells.dtype, &pooled)?;
    if !pooled.contains(&0) && !s.contains(&0) {
        let rows = b.transpose(b.convert(pictures, cells.dtype)?, &[0, 2, 3, 1])?;
        let rows = b.reshape(rows, &[s[0] * s[2] * s[3], s[1]])?;
        let regions = cells.regions(c, b, rois)?;
        sum = cells.for_samples(b, &regions, rows, sum, |b, rows, sum, neighbours, here| {
            let mut sample = b.full_like(sum, Number::Int(0))?;
            for (pixel, weight) in neighbours {
                let weight = cells.over_channels(b, weight, s[1])?;
                sample = b.add(sample, b.multiply(weight, take_slices(b, rows, 0, pixel)?)?)?;
            }
            let here = cells.over_channels(b, here, s[1])?;
            b.add(sum, b.select(here, sample, b.full_like(sum, Number::Int(0))?)?)
        })?;
        sum = b.divide(sum, cells.divisor(b, &regions, s[1])?)?;
    }
    one(b.convert(b.transpose(sum, &[0, 3, 1, 2])?, dtype)?)
}

/// The gradient of the pictures.
fn roi_align_backward(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (grad, rois) = (c.tensor(b, "grad")?, c.tensor(b, "rois")?);
    checked(b, "grad", "roi_align_backward_kernel", grad, rois)?;
    let (s, dtype) = (b.shape(grad), b.dtype(grad));
    let [pictures, channels] = [extent(c, "batch_size")?, extent(c, "channels")?];
    let extents = [extent(c, "height")?, extent(c, "width")?];
    let cells = Cells { extents, pictures, cells: [s[2], s[3]], regions: s[0], dtype: dtype.accumulator() };
    let pixels = pictures * extents[0] * extents[1];
    let mut sum = b.full(Number::Int(0), cells.dtype, &[pixels, channels])?;
    if !s.contains(&0) && pixels * channels > 0 {
        let regions = cells.regions(c, b, rois)?;
        let grad = b.transpose(b.convert(grad, cells.dtype)?, &[0, 2, 3, 1])?;
        let share = b.divide(grad, cells.divisor(b, &regions, channels)?)?;
        sum = cells.for_samples(b, &regions, share, sum, |b, share, mut sum, neighbours, here| {
            let here = cells.over_channels(b, here, channels)?;
            for (pixel, weight) in neighbours {
                let part = b.multiply(share, cells.over_channels(b, weight, channels)?)?;
                let part = b.select(here, part, b.full_like(part, Number::Int(0))?)?;
                sum = put_points(b, sum, &[pixel], &[0], part, Combiner::Add)?;
            }
            Ok(sum)
        })?;
    }
    let sum = b.reshape(sum, &[pictures, extents[0], extents[1], channels])?;
    one(b.convert(b.transpose(sum, &[0, 3, 1, 2])?, dtype)?)
}
