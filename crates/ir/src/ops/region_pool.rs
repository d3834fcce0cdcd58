//! Maxima and averages of pixels in the cells of regions, as torchvision's `roi_pool` and `ps_roi_pool` take them.
//!
//! A cell's window has whole pixels, as many as the data says: a loop goes through the pixels of all windows at once.

use super::expr::{Expr, formula};
use super::index::{index_dtype, put_points, take_slices};
use super::loops::repeat_while;
use super::regions::{
    apart, cell_numbers, channel_mapping, channels_apart, check_places, checked, column, extent, of_pixels, pixels,
    quotient,
};
use super::support::like;
use super::{Call, OpDef, Outs, err, ok, one};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::literal::Number;
use crate::op::{Binary, Combiner, Comparison, Reducer};
use crate::{DType, ensure};

pub(super) static OPS: &[OpDef] = &[
    OpDef::new(
        "torchvision::roi_pool(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt \
         pooled_width) -> (Tensor, Tensor)",
        roi_pool,
        &[
            ok("f32[2,3,6,7], f32[2,5]{0,1,2,9,8, 1,-2.5,0.5,3,14}, 0.5, 2, 3"),
            // Windows that overlap, that lie outside, and halves that are rounded away from zero.
            ok("f64[2,3,6,7], f64[4,5]{1,0,0,2,1, 0,9,9,12,12, 0,1,1,1,1, 1,-1,2.5,3,4.5}, 1.0, 4, 3"),
            // The first of equal maxima, and what no maximum exceeds.
            ok("f32[1,2,4,4]{1,1,2,2}, f32[1,5]{0,0,0,3,3}, 1.0, 1, 2"),
            ok("f64[1,1,2,2]{-1e300}, f64[1,5]{0,0,0,1,1}, 1.0, 1, 1"),
            ok("f32[1,1,2,2]{nan,-inf,1,nan}, f32[1,5]{0,0,0,1,1}, 1.0, 2, 1"),
            ok("f16[1,2,5,4], f16[2,5]{0,1,1,3,4, 0,0,0.5,3,1.5}, 1.0, 2, 3"),
            ok("f32[1,2,5,4], f32[0,5], 1.0, 2, 2"),
            ok("bf16[1,2,5,4], bf16[0,5], 1.0, 2, 2"),
            ok("f32[0,2,5,4], f32[0,5], 1.0, 2, 2"),
            ok("f32[1,2,0,4], f32[1,5]{0,0,0,1,1}, 1.0, 2, 2"),
            ok("f32[1,2,5,4], f32[1,5]{0,0,0,1,1}, 1.0, 0, 2"),
            err("f32[1,2,5,4], f32[2,4], 1.0, 2, 2", "rois must have shape as Tensor[K, 5]"),
            err("f32[1,2,5,4], f64[2,5], 1.0, 2, 2", "input should have the same type as rois"),
            err("bf16[1,2,5,4], bf16[2,5], 1.0, 2, 2", "\"roi_pool_forward_kernel\" not implemented for 'BFloat16'"),
        ],
    ),
    OpDef::new(
        "torchvision::_roi_pool_backward(Tensor grad, Tensor rois, Tensor argmax, float spatial_scale, SymInt \
         pooled_height, SymInt pooled_width, SymInt batch_size, SymInt channels, SymInt height, SymInt width) \
         -> Tensor",
        roi_pool_backward,
        &[
            ok("f32[2,3,2,2], f32[2,5]{1,1,2,9,8, 0,-2.5,0.5,3,14}, i32[2,3,2,2]{3,-1,3,41,0}, 0.5, 2, 2, 2, 3, 6, 7"),
            ok("f64[1,1,2,2], f64[1,5]{0,1,2,3,3}, i32[1,1,2,2]{-1}, 1.0, 2, 2, 1, 1, 4, 4"),
            ok("f16[2,1,2,2], f16[2,5]{0,1,2,3,3}, i32[2,1,2,2]{5,5,6,7}, 1.0, 2, 2, 1, 1, 4, 4"),
            ok("f32[0,2,2,2], f32[0,5], i32[0,2,2,2], 1.0, 2, 2, 1, 2, 5, 4"),
            err(
                "f32[1,1,2,2], f64[1,5], i32[1,1,2,2]{0}, 1.0, 2, 2, 1, 1, 4, 4",
                "grad should have the same type as rois",
            ),
            err(
                "f32[1,1,2,2], f32[1,4], i32[1,1,2,2]{0}, 1.0, 2, 2, 1, 1, 4, 4",
                "rois must have shape as Tensor[K, 5]",
            ),
            err(
                "f32[1,1,2,2], f32[1,5]{0}, i64[1,1,2,2]{0}, 1.0, 2, 2, 1, 1, 4, 4",
                "expected scalar type Int but found Long",
            ),
        ],
    ),
    OpDef::new(
        "torchvision::ps_roi_pool(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt \
         pooled_width) -> (Tensor, Tensor)",
        ps_roi_pool,
        &[
            ok("f32[2,12,6,7], f32[2,5]{0,1,2,9,8, 1,-2.5,0.5,3,14}, 0.5, 2, 3"),
            // The forward op leaves out the last row and column.
            ok("f64[2,4,6,7], f64[4,5]{1,0,0,2,1, 0,4,3,12,12, 0,1,1,1,1, 1,-1,2.5,3,4.5}, 1.0, 2, 2"),
            ok("f16[1,4,5,4], f16[2,5]{0,1,1,3,4, 0,0,0.5,3,1.5}, 1.0, 2, 1"),
            ok("f32[1,4,5,4], f32[0,5], 1.0, 2, 2"),
            ok("f32[1,4,0,4], f32[1,5]{0,0,0,1,1}, 1.0, 2, 2"),
            ok("f32[1,0,5,4], f32[1,5]{0,0,0,1,1}, 1.0, 2, 2"),
            err("f32[1,4,5,4], f32[2,4], 1.0, 2, 2", "rois must have shape as Tensor[K, 5]"),
            err("f32[1,4,5,4], f64[2,5], 1.0, 2, 2", "input should have the same type as rois"),
            err("f32[1,3,5,4], f32[2,5], 1.0, 2, 2", "multiple of pooling height * pooling width"),
            err("bf16[1,4,5,4], bf16[2,5], 1.0, 2, 2", "\"ps_roi_pool_forward_kernel\" not implemented for 'BFloat16'"),
        ],
    ),
    OpDef::new(
        "torchvision::_ps_roi_pool_backward(Tensor grad, Tensor rois, Tensor channel_mapping, float spatial_scale, \
         SymInt pooled_height, SymInt pooled_width, SymInt batch_size, SymInt channels, SymInt height, SymInt width) \
         -> Tensor",
        ps_roi_pool_backward,
        &[
            ok("f32[2,2,2,3], f32[2,5]{0,1,2,9,8, 1,-2.5,0.5,3,14}, i32[2,2,2,3]{0,1,2,3,4,5,6,7,8,9,10,11}, 0.5, 2, \
                3, 2, \
                12, 6, 7"),
            // Up to the last row and column; other channels than the forward op gives; halves as `float` has them.
            ok("f64[4,1,2,2], f64[4,5]{1,0,0,2,1, 0,4,3,12,12, 0,1,1,1,1, 1,-1,2.5,3,4.5}, i32[4,1,2,2]{1,1,0,3}, \
                1.0, 2, 2, \
                2, 4, 6, 7"),
            ok("f64[1,1,1,1], f64[1,5]{0,1,1,2.49999999999,3}, i32[1,1,1,1]{0}, 1.0, 1, 1, 1, 1, 6, 7"),
            ok("f16[1,1,2,1], f16[1,5]{0,1,1,3,4}, i32[1,1,2,1]{0,1}, 1.0, 2, 1, 1, 2, 5, 4"),
            ok("f32[0,1,2,2], f32[0,5], i32[0,1,2,2], 1.0, 2, 2, 1, 4, 5, 4"),
            err(
                "f32[1,1,2,2], f64[1,5], i32[1,1,2,2]{0}, 1.0, 2, 2, 1, 4, 5, 4",
                "grad should have the same type as rois",
            ),
            err(
                "f32[1,1,2,2], f32[1,5]{0}, i64[1,1,2,2]{0}, 1.0, 2, 2, 1, 4, 5, 4",
                "expected scalar type Int but found Long",
            ),
        ],
    ),
];

/// What `roi_pool` and `ps_roi_pool` do not have in common about windows.
struct Rules {
    /// Whether a region's last position is part of it.
    inclusive: bool,
    /// How many of the last rows and columns of pictures belong to no window.
    left_out: usize,
    /// Whether positions are rounded as numbers in `f32`.
    single: bool,
}

/// The windows of the cells of regions.
struct Windows {
    /// Of the pictures.
    extents: [usize; 2],
    /// `[regions, cells, cells]`.
    shape: [usize; 3],
    /// Which picture, `i32[regions, cells, cells]`.
    picture: ValueId,
    /// The first row and column, and how many, likewise.
    starts: [ValueId; 2],
    lengths: [ValueId; 2],
}

/// A pixel of each window.
struct Pixel {
    /// Its number in its picture, `i32[regions, cells, cells]`.
    place: ValueId,
    /// Whether the window has it.
    here: ValueId,
}

/// Where [`Windows`] begin among what is carried from one pixel to the next.
const FIRST_WINDOW: usize = 2;
/// Where what is read begins, and then what is summed up.
const FIRST_SOURCE: usize = FIRST_WINDOW + 5;

/// Halves are rounded away from zero, as C does.
fn round(x: Expr<'_>) -> Expr<'_> {
    let whole = x.trunc();
    (x - whole).abs().at_least(0.5).select(whole + x.sign(), whole)
}

impl Windows {
    fn new(c: &Call<'_>, b: &Builder, rois: ValueId, extents: [usize; 2], rules: &Rules) -> Result<Windows> {
        let cells = [extent(c, "pooled_height")?, extent(c, "pooled_width")?];
        let shape = [b.shape(rois)[0], cells[0], cells[1]];
        let picture = b.convert(column(b, rois, 0)?, DType::I32)?;
        let (mut starts, mut lengths) = (vec![], vec![]);
        for d in 0..2 {
            let [start, end] = side(c, b, rois, (d, cells[d], extents[d]), rules)?;
            starts.push(b.broadcast_in_dim(start, &shape, &[0, d + 1])?);
            let length = formula(b, [start, end], |[start, end]| (end - start).max(0.0))?;
            lengths.push(b.broadcast_in_dim(length, &shape, &[0, d + 1])?);
        }
        let picture = b.broadcast_in_dim(picture, &shape, &[0])?;
        Ok(Windows { extents, shape, picture, starts: [starts[0], starts[1]], lengths: [lengths[0], lengths[1]] })
    }

    /// As [`Windows::for_pixels`] carries them.
    fn of(&self, carried: &[ValueId]) -> Windows {
        Windows { picture: carried[0], starts: [carried[1], carried[2]], lengths: [carried[3], carried[4]], ..*self }
    }

    /// How many pixels each window has.
    fn count(&self, b: &Builder) -> Result<ValueId> {
        b.multiply(self.lengths[0], self.lengths[1])
    }

    /// `step` for each pixel of the windows, row by row. It gets what is read, `source`, and what it made of `sums`
    /// before.
    fn for_pixels(
        &self,
        b: &Builder,
        source: &[ValueId],
        sums: &[ValueId],
        step: impl Fn(&Builder, &Windows, &[ValueId], &[ValueId], Pixel) -> Result<Vec<ValueId>>,
    ) -> Result<Vec<ValueId>> {
        let first_sum = FIRST_SOURCE + source.len();
        let most = b.reduce(self.count(b)?, Reducer::Maximum, &[0, 1, 2])?;
        let carried = [b.scalar(Number::Int(0), DType::I32)?, most, self.picture];
        let carried = [&carried[..], &self.starts, &self.lengths, source, sums].concat();
        let more = |b: &Builder, given: &[ValueId]| b.compare(Comparison::Lt, given[0], given[1]);
        let next = |b: &Builder, given: &[ValueId]| {
            let windows = self.of(&given[FIRST_WINDOW..]);
            let pixel = windows.pixel(b, given[0])?;
            let mut next = given[..first_sum].to_vec();
            next[0] = b.add(given[0], b.scalar(Number::Int(1), DType::I32)?)?;
            next.extend(step(b, &windows, &given[FIRST_SOURCE..first_sum], &given[first_sum..], pixel)?);
            Ok(next)
        };
        Ok(repeat_while(b, &carried, more, next)?.split_off(first_sum))
    }

    fn pixel(&self, b: &Builder, number: ValueId) -> Result<Pixel> {
        let number = b.broadcast_in_dim(number, &self.shape, &[])?;
        let across = b.maximum(self.lengths[1], b.full_like(number, Number::Int(1))?)?;
        let down = b.binary(Binary::Divide, number, across)?;
        let along = b.subtract(number, b.multiply(down, across)?)?;
        let row = b.add(self.starts[0], down)?;
        let line = b.multiply(row, b.full_like(row, Number::Int(self.extents[1] as i64))?)?;
        let place = b.add(line, b.add(self.starts[1], along)?)?;
        Ok(Pixel { place, here: b.compare(Comparison::Lt, number, self.count(b)?)? })
    }

    /// A pixel's number among all of `pictures`, or among those that stand there for each cell.
    fn line(&self, b: &Builder, place: ValueId, pictures: usize, own: bool) -> Result<ValueId> {
        let each = self.extents[0] * self.extents[1];
        let dtype = index_dtype(pictures * each * if own { self.shape[1] * self.shape[2] } else { 1 });
        let mut picture = b.convert(self.picture, dtype)?;
        if own {
            let cell = cell_numbers(b, dtype, &self.shape)?;
            picture = b.add(picture, b.multiply(cell, b.full_like(cell, Number::Int(pictures as i64))?)?)?;
        }
        b.add(b.multiply(picture, b.full_like(picture, Number::Int(each as i64))?)?, b.convert(place, dtype)?)
    }
}

/// Where windows begin and end in dimension `d` of pictures, clipped to them: `i32[regions, cells]` each. The
/// arithmetic is that of the regions' type, as it decides which pixels there are.
fn side(
    c: &Call<'_>,
    b: &Builder,
    rois: ValueId,
    (d, cells, extent): (usize, usize, usize),
    rules: &Rules,
) -> Result<[ValueId; 2]> {
    let (scale, dtype) = (c.float("spatial_scale")?, b.dtype(rois));
    let wide = if rules.single { DType::F32 } else { dtype.accumulator() };
    let shape = [b.shape(rois)[0], cells];
    let whole = |place: usize| -> Result<ValueId> {
        let scaled = formula(b, [column(b, rois, place)?], |[x]| x * scale)?;
        b.convert(formula(b, [b.convert(scaled, wide)?], |[x]| round(x))?, DType::I32)
    };
    // x stands before y.
    let (low, high) = (whole(2 - d)?, whole(4 - d)?);
    let more = if rules.inclusive { 1.0 } else { 0.0 };
    let length = formula(b, [low, high], |[low, high]| (high - low + more).max(1.0))?;
    let cell = quotient(b, b.convert(length, dtype)?, cells)?;
    let (low, cell) = (b.broadcast_in_dim(low, &shape, &[0])?, b.broadcast_in_dim(cell, &shape, &[0])?);
    let number = b.convert(b.iota(DType::I32, &shape, 1)?, dtype)?;
    let limit = (extent as f64) - (rules.left_out as f64);
    let clipped = |edge: ValueId| {
        let edge = b.convert(edge, DType::I32)?;
        formula(b, [edge, low], |[edge, low]| (edge + low).max(0.0).min(limit))
    };
    Ok([
        clipped(formula(b, [number, cell], |[n, cell]| (n * cell).floor())?)?,
        clipped(formula(b, [number, cell], |[n, cell]| ((n + 1.0) * cell).ceil())?)?,
    ])
}

/// A value for each cell, for all of `channels`.
fn over_channels(b: &Builder, v: ValueId, channels: usize) -> Result<ValueId> {
    let s = b.shape(v);
    b.broadcast_in_dim(v, &[s[0], s[1], s[2], channels], &[0, 1, 2])
}

const LAST_CHANNELS: [usize; 4] = [0, 2, 3, 1];
const FIRST_CHANNELS: [usize; 4] = [0, 3, 1, 2];

const MAXIMA: Rules = Rules { inclusive: true, left_out: 0, single: false };
const AVERAGES: Rules = Rules { inclusive: false, left_out: 1, single: false };
const GRADIENT_OF_AVERAGES: Rules = Rules { inclusive: false, left_out: 0, single: true };

/// The maximum of each cell of each region, `[regions, channels, cells, cells]`, and the number of its pixel in its
/// picture.
fn roi_pool(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (pictures, rois) = (c.tensor(b, "input")?, c.tensor(b, "rois")?);
    checked(b, "input", "roi_pool_forward_kernel", pictures, rois)?;
    let (s, dtype) = (b.shape(pictures), b.dtype(pictures));
    let cells = [extent(c, "pooled_height")?, extent(c, "pooled_width")?];
    let pooled = [b.shape(rois)[0], cells[0], cells[1], s[1]];
    let mut maxima = [b.full(Number::Int(0), dtype, &pooled)?, b.full(Number::Int(-1), DType::I32, &pooled)?];
    if !pooled.contains(&0) && !s.contains(&0) {
        let windows = Windows::new(c, b, rois, [s[2], s[3]], &MAXIMA)?;
        let empty = over_channels(b, formula(b, [windows.count(b)?], |[n]| n.equals(0.0))?, s[1])?;
        maxima[0] = b.select(empty, maxima[0], like(b, maxima[0], -f64::from(f32::MAX))?)?;
        let found = windows.for_pixels(b, &[pixels(b, pictures)?], &maxima, |b, windows, rows, maxima, pixel| {
            let v = take_slices(b, rows[0], 0, windows.line(b, pixel.place, s[0], false)?)?;
            let here = over_channels(b, pixel.here, s[1])?;
            let better = b.binary(Binary::And, here, b.compare(Comparison::Gt, v, maxima[0])?)?;
            let place = over_channels(b, pixel.place, s[1])?;
            Ok(vec![b.select(better, v, maxima[0])?, b.select(better, place, maxima[1])?])
        })?;
        maxima = [found[0], found[1]];
    }
    Ok(vec![Some(b.transpose(maxima[0], &FIRST_CHANNELS)?), Some(b.transpose(maxima[1], &FIRST_CHANNELS)?)])
}

/// The gradient of the pictures.
fn roi_pool_backward(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (grad, rois, argmax) = (c.tensor(b, "grad")?, c.tensor(b, "rois")?, c.tensor(b, "argmax")?);
    checked(b, "grad", "roi_pool_backward_kernel", grad, rois)?;
    let s = b.shape(grad);
    check_places(b, "argmax", argmax, &s)?;
    let [pictures, channels] = [extent(c, "batch_size")?, extent(c, "channels")?];
    let [height, width] = [extent(c, "height")?, extent(c, "width")?];
    ensure!(s[1] == channels, "grad has {} channels, not {channels}", s[1]);
    let all = pictures * channels * height * width;
    let mut sum = b.full(Number::Int(0), b.dtype(grad), &[all])?;
    if !s.contains(&0) && all > 0 {
        let dtype = index_dtype(all + 1);
        let picture = b.broadcast_in_dim(b.convert(column(b, rois, 0)?, dtype)?, &s, &[0])?;
        let channel = b.iota(dtype, &s, 1)?;
        let plane = b.add(b.multiply(picture, b.full_like(picture, Number::Int(channels as i64))?)?, channel)?;
        let first = b.multiply(plane, b.full_like(plane, Number::Int((height * width) as i64))?)?;
        let place = b.add(first, b.convert(argmax, dtype)?)?;
        // Writes outside are left out.
        let none = b.compare(Comparison::Lt, argmax, b.full_like(argmax, Number::Int(0))?)?;
        let place = b.select(none, b.full_like(place, Number::Int(all as i64))?, place)?;
        sum = put_points(b, sum, &[place], &[0], grad, Combiner::Add)?;
    }
    one(b.reshape(sum, &[pictures, channels, height, width])?)
}

/// The average of each cell of each region in channels of its own, `[regions, channels, cells, cells]`; beside it those
/// channels.
fn ps_roi_pool(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (pictures, rois) = (c.tensor(b, "input")?, c.tensor(b, "rois")?);
    checked(b, "input", "ps_roi_pool_forward_kernel", pictures, rois)?;
    let (s, dtype) = (b.shape(pictures), b.dtype(pictures));
    let cells = [extent(c, "pooled_height")?, extent(c, "pooled_width")?];
    let channels = channels_apart(s[1], cells)?;
    let mut sum = b.full(Number::Int(0), dtype.accumulator(), &[b.shape(rois)[0], cells[0], cells[1], channels])?;
    if !b.shape(sum).contains(&0) && !s.contains(&0) {
        let windows = Windows::new(c, b, rois, [s[2], s[3]], &AVERAGES)?;
        let rows = apart(b, b.convert(pictures, dtype.accumulator())?, cells)?;
        let total = windows.for_pixels(b, &[rows], &[sum], |b, windows, rows, sums, pixel| {
            let v = take_slices(b, rows[0], 0, windows.line(b, pixel.place, s[0], true)?)?;
            let here = over_channels(b, pixel.here, channels)?;
            Ok(vec![b.add(sums[0], b.select(here, v, b.full_like(v, Number::Int(0))?)?)?])
        })?[0];
        sum = b.divide(total, area(b, &windows, total)?)?;
    }
    let average = b.convert(b.transpose(sum, &FIRST_CHANNELS)?, dtype)?;
    let mapping = channel_mapping(b, &b.shape(average))?;
    Ok(vec![Some(average), Some(mapping)])
}

/// How many pixels windows have, at least one, in the type and shape of `v`.
fn area(b: &Builder, windows: &Windows, v: ValueId) -> Result<ValueId> {
    let count = formula(b, [windows.count(b)?], |[n]| n.max(1.0))?;
    over_channels(b, b.convert(count, b.dtype(v))?, b.shape(v)[3])
}

/// The gradient of the pictures, in the channels that are given.
fn ps_roi_pool_backward(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (grad, rois, mapping) = (c.tensor(b, "grad")?, c.tensor(b, "rois")?, c.tensor(b, "channel_mapping")?);
    checked(b, "grad", "ps_roi_pool_backward_kernel", grad, rois)?;
    let (s, dtype) = (b.shape(grad), b.dtype(grad));
    check_places(b, "channel_mapping", mapping, &s)?;
    let [pictures, channels] = [extent(c, "batch_size")?, extent(c, "channels")?];
    let extents = [extent(c, "height")?, extent(c, "width")?];
    let mut sum = b.full(Number::Int(0), dtype.accumulator(), &[pictures * extents[0] * extents[1], channels])?;
    if !s.contains(&0) && !b.shape(sum).contains(&0) {
        let windows = Windows::new(c, b, rois, extents, &GRADIENT_OF_AVERAGES)?;
        let grad = b.transpose(b.convert(grad, dtype.accumulator())?, &LAST_CHANNELS)?;
        let share = b.divide(grad, area(b, &windows, grad)?)?;
        let source = [share, b.transpose(mapping, &LAST_CHANNELS)?];
        sum = windows.for_pixels(b, &source, &[sum], |b, windows, given, sums, pixel| {
            let here = over_channels(b, pixel.here, s[1])?;
            let part = b.select(here, given[0], b.full_like(given[0], Number::Int(0))?)?;
            let line = over_channels(b, windows.line(b, pixel.place, pictures, false)?, s[1])?;
            Ok(vec![put_points(b, sums[0], &[line, given[1]], &[0, 1], part, Combiner::Add)?])
        })?[0];
    }
    of_pixels(b, sum, [pictures, channels, extents[0], extents[1]], dtype)
}
