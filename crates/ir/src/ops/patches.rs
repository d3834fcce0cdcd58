//! Patches, shuffles and sampling grids of images.

mod grid;

use super::resample::{adjoint, resample};
use super::support::{broadcast_to, dim};
use super::{Call, OpDef, Outs, Strides, err, ok, one};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::types::{Dims, Shape};
use crate::{Number, Reducer, ensure};

pub(super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::pixel_shuffle(Tensor self, int upscale_factor) -> Tensor",
        pixel_shuffle,
        &[
            ok("f32[2,8,3,4], 2"),
            ok("i64[9,1,2], 3"),
            ok("f32[2,0,4,3,4], 2"),
            err("f32[2,7,3,4], 2", "'channel' dimension to be divisible by the square of upscale_factor, but input.size(-3)=7 is not divisible by 4"),
            err("f32[3,4], 2", "pixel_shuffle expects input to have at least 3 dimensions, but got input with 2 dimension(s)"),
            err("f32[2,8,3,4], -2", "pixel_shuffle expects a positive upscale_factor, but got -2"),
        ],
    )
    .variants(&["pixel_shuffle.out"])
    .laid_out(Strides::Suggested("self")),
    OpDef::new(
        "aten::pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor",
        pixel_unshuffle,
        &[
            ok("f32[2,3,4,6], 2"),
            ok("bf16[1,3,6], 3"),
            err("f32[2,7,3,4], 2", "pixel_unshuffle expects height to be divisible by downscale_factor, but input.size(-2)=3 is not divisible by 2"),
            err("f32[3,4], 2", "pixel_unshuffle expects input to have at least 3 dimensions"),
        ],
    )
    .variants(&["pixel_unshuffle.out"]),
    OpDef::new(
        "aten::channel_shuffle(Tensor self, SymInt groups) -> Tensor",
        channel_shuffle,
        &[
            ok("f32[2,6,3], 3"),
            ok("i64[1,4,2,2], 2"),
            err("f32[2,7,3,4], 2", "Number of channels must be divisible by groups. Got 7 channels and 2 groups."),
            err("f32[2,8], 2", "channel_shuffle expects input with > 2 dims, but got input with sizes [2, 8]"),
            err("f32[2,8,3,3], 0", "Number of groups to divide channels in must be positive. Value of groups:0"),
        ],
    )
    .variants(&["channel_shuffle.out"])
    .laid_out(Strides::Suggested("self")),
    OpDef::new(
        "aten::native_channel_shuffle(Tensor self, SymInt groups) -> Tensor",
        channel_shuffle,
        &[ok("f32[2,6,3,2], 3")],
    ),
    OpDef::new(
        "aten::im2col(Tensor self, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> Tensor",
        im2col,
        &[
            ok("f32[2,3,5,6], [2,3], [1,1], [0,0], [1,1]"),
            ok("f32[3,5,6], [2,3], [2,1], [1,2], [2,3]"),
            ok("bf16[0,3,5,6], 2, 1, 0, 1"),
            err("f32[2,3,1,6], [2,3], [1,1], [0,0], [1,1]", "calculated shape of the array of sliding blocks as (0, 4), but its components must be at least one"),
        ],
    )
    .variants(&["im2col.out"]),
    OpDef::new(
        "aten::col2im(Tensor self, SymInt[2] output_size, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> Tensor",
        col2im,
        &[
            ok("f32[2,18,16], [5,6], [2,3], [1,1], [0,0], [1,1]"),
            ok("f32[18,9], [5,6], [2,3], [2,1], [1,2], [2,3]"),
            err("f32[2,18,15], [5,6], [2,3], [1,1], [0,0], [1,1]", "expected size of input's dimension 2 to match the calculated number of sliding blocks 4 * 4 = 16, but got input.size(2)=15."),
            err("f32[2,17,16], [5,6], [2,3], [1,1], [0,0], [1,1]", "divisible by the product of kernel_size, but got input.size(1)=17 and kernel_size=(2, 3)."),
        ],
    )
    .variants(&["col2im.out"]),
    OpDef::new(
        "aten::unfold_backward(Tensor grad_in, SymInt[] input_sizes, int dim, int size, int step) -> Tensor",
        unfold_backward,
        &[
            ok("f32[3,4,2], [3,5], 1, 2, 1"),
            ok("f32[2,4,3], [7,4], 0, 3, 2"),
            ok("f64[2,2,2], [5,2], -2, 2, 3"),
            ok("bf16[4,2,3], [4,4], 1, 3, 1"),
            ok("f32[1,3,4], [2,8], 1, 4, 2"),
            ok("f32[1], [], 0, 1, 1"),
            err("f32[3,3,4], [2,8], 1, 4, 2", "does not come from windows"),
        ],
    )
    .variants(&["unfold_backward.out"]),
    OpDef::new(
        "aten::grid_sampler_2d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor",
        |c, b| grid::sample(c, b, 2),
        &[
            ok("f32[2,3,4,5], f32[2,6,7,2]{-1.2..1.2}, 0, 0, false"),
            ok("f32[2,3,4,5], f32[2,6,7,2]{-1.2..1.2}, 0, 0, true"),
            ok("f32[2,3,4,5], f32[2,6,7,2]{-2..2}, 0, 1, false"),
            ok("f32[2,3,4,5], f32[2,6,7,2]{-3..3}, 0, 2, false"),
            ok("f32[2,3,4,5], f32[2,6,7,2]{-3..3}, 0, 2, true"),
            ok("f32[2,3,4,5], f32[2,6,7,2]{-1.2..1.2}, 1, 0, false"),
            ok("f32[2,3,4,5], f32[2,6,7,2]{-3..3}, 1, 1, true"),
            ok("f32[2,3,4,5], f32[2,6,7,2]{-1.2..1.2}, 2, 0, false"),
            ok("f32[2,3,4,5], f32[2,6,7,2]{-2..2}, 2, 1, true"),
            ok("f64[2,3,4,5], f64[2,6,7,2]{-3..3}, 2, 2, false"),
            ok("f32[2,0,4,5], f32[2,6,7,2], 0, 0, false"),
            err("f32[2,3,4,5], f32[2,6,7,3], 0, 0, false", "expected grid to have size 2 in last dimension, but got grid with sizes [2, 6, 7, 3]"),
            err("f32[2,3,4,5], f32[1,6,7,2], 0, 0, false", "expected grid and input to have same batch size"),
        ],
    )
    .variants(&["grid_sampler_2d.out"]),
    OpDef::new(
        "aten::grid_sampler(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor",
        |c, b| grid::sample(c, b, b.rank(c.tensor(b, "input")?).clamp(4, 5) - 2),
        &[
            ok("f32[2,3,4,5], f32[2,6,7,2]{-1.2..1.2}, 0, 0, false"),
            ok("f32[2,3,4,5,3], f32[2,6,7,2,3]{-1.2..1.2}, 0, 0, false"),
        ],
    ),
    OpDef::new(
        "aten::grid_sampler_2d_backward(Tensor grad_output, Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners, bool[2] output_mask) -> (Tensor, Tensor)",
        |c, b| grid::backward(c, b, 2),
        &[
            ok("f32[2,3,6,7], f32[2,3,4,5], f32[2,6,7,2]{-1.2..1.2}, 0, 0, false, [true,true]"),
            ok("f32[2,3,6,7], f32[2,3,4,5], f32[2,6,7,2]{-2..2}, 0, 1, true, [true,true]"),
            ok("f64[2,3,6,7], f64[2,3,4,5], f64[2,6,7,2]{-3..3}, 0, 2, false, [true,true]"),
            ok("f64[2,3,6,7], f64[2,3,4,5], f64[2,6,7,2]{-3..3}, 0, 2, true, [false,true]"),
            ok("f32[2,3,6,7], f32[2,3,4,5], f32[2,6,7,2]{-1.2..1.2}, 1, 0, false, [true,true]"),
            ok("f64[2,3,6,7], f64[2,3,4,5], f64[2,6,7,2]{-1.2..1.2}, 2, 0, false, [true,true]"),
            ok("f64[2,3,6,7], f64[2,3,4,5], f64[2,6,7,2]{-2..2}, 2, 1, true, [true,false]"),
            ok("f32[2,0,6,7], f32[2,0,4,5], f32[2,6,7,2]{-2..2}, 0, 0, true, [true,true]"),
        ],
    )
    .variants(&["grid_sampler_2d_backward.out"]),
    OpDef::new(
        "aten::grid_sampler_3d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor",
        |c, b| grid::sample(c, b, 3),
        &[
            ok("f32[2,3,4,5,3], f32[2,6,7,2,3]{-1.2..1.2}, 0, 0, false"),
            ok("f32[2,3,4,5,3], f32[2,6,7,2,3]{-2..2}, 0, 1, true"),
            ok("f64[2,3,4,5,3], f64[2,6,7,2,3]{-3..3}, 0, 2, true"),
            ok("f32[2,3,4,5,3], f32[2,6,7,2,3]{-1.2..1.2}, 1, 0, false"),
            ok("f32[2,3,4,5,3], f32[2,3,2,2,3]{-1.2..1.2}, 2, 0, false"),
            ok("f64[1,2,4,5,3], f64[1,3,2,2,3]{-3..3}, 2, 2, true"),
            err("f32[2,3,4,5,3], f32[2,6,7,3], 0, 0, false", "expected 5D input and grid with same number of dimensions"),
        ],
    )
    .variants(&["grid_sampler_3d.out"]),
    OpDef::new(
        "aten::grid_sampler_3d_backward(Tensor grad_output, Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners, bool[2] output_mask) -> (Tensor, Tensor)",
        |c, b| grid::backward(c, b, 3),
        &[
            ok("f32[2,3,6,7,2], f32[2,3,4,5,3], f32[2,6,7,2,3]{-1.2..1.2}, 0, 0, false, [true,true]"),
            ok("f64[2,3,6,7,2], f64[2,3,4,5,3], f64[2,6,7,2,3]{-3..3}, 0, 2, true, [true,true]"),
            ok("f32[2,3,6,7,2], f32[2,3,4,5,3], f32[2,6,7,2,3]{-1.2..1.2}, 1, 1, false, [true,true]"),
            ok("f64[1,2,3,2,2], f64[1,2,4,5,3], f64[1,3,2,2,3]{-1.2..1.2}, 2, 1, true, [true,true]"),
        ],
    )
    .variants(&["grid_sampler_3d_backward.out"]),
];

/// `v` reshaped to `split`, transposed, and reshaped to `joined`.
fn shuffled(b: &Builder, v: ValueId, split: &[usize], order: &[usize], joined: &[usize]) -> Result<Outs> {
    one(b.reshape(b.transpose(b.reshape(v, split)?, order)?, joined)?)
}

/// The leading dimensions, then channels, height and width.
fn image<'s>(op: &str, shape: &'s [usize]) -> Result<(&'s [usize], [usize; 3])> {
    let n = shape.len();
    ensure!(n >= 3, "{op} expects input to have at least 3 dimensions, but got input with {n} dimension(s)");
    Ok((&shape[..n - 3], [shape[n - 3], shape[n - 2], shape[n - 1]]))
}

fn factor(c: &Call<'_>, op: &str, name: &str) -> Result<usize> {
    let factor = c.int(name)?;
    ensure!(factor > 0, "{op} expects a positive {name}, but got {factor}");
    Ok(factor as usize)
}

/// `lead` and then `tail`.
fn joined(lead: &[usize], tail: &[usize]) -> Shape {
    lead.iter().chain(tail).copied().collect()
}

/// The leading dimensions in place, those behind them as `tail` says.
fn order(lead: &[usize], tail: &[usize]) -> Dims {
    (0..lead.len()).chain(tail.iter().map(|d| d + lead.len())).collect()
}

/// Whether each extent is the wanted one, or 1: windows that all of a batch have in common are given once.
fn broadcasts(shape: &[usize], wanted: &[usize]) -> bool {
    shape.len() == wanted.len() && shape.iter().zip(wanted).all(|(&n, &w)| n == w || n == 1)
}

/// The windows of one dimension, whose elements stand last, added up where they overlap.
fn unfold_backward(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (grad, sizes) = (c.tensor(b, "grad_in")?, c.sizes("input_sizes")?);
    if sizes.is_empty() {
        // The windows of a 0-d tensor are its element, once or, for windows of size 0, not at all.
        return one(b.reduce(grad, Reducer::Add, &[0])?);
    }
    let (size, step) = (c.sizes("size")?[0], c.sizes("step")?[0]);
    let (shape, d) = (b.shape(grad), dim(c.int("dim")?, sizes.len())?);
    let windows = shape.get(d).copied().unwrap_or(0);
    let mut expected = sizes.clone();
    expected[d] = windows;
    expected.push(size);
    let fits = broadcasts(&shape, &expected)
        && shape.last() == Some(&size)
        && (windows == 0 || (windows - 1) * step + size <= sizes[d]);
    ensure!(fits, "unfold_backward: a gradient of {shape:?} does not come from windows of {sizes:?}");
    let whole = expected.clone();
    // One element after the other, window by window.
    let mut order: Dims = (0..sizes.len()).collect();
    order.insert(d + 1, sizes.len());
    expected.pop();
    expected[d] *= size;
    let wide = broadcast_to(b, b.convert(grad, b.dtype(grad).accumulator())?, &whole)?;
    let listed = b.reshape(b.transpose(wide, &order)?, &expected)?;
    let reads = (0..windows * size).map(|i| vec![(i / size * step + i % size, 1.0)]).collect();
    one(b.convert(resample(b, listed, d, &adjoint(&reads, sizes[d]))?, b.dtype(grad))?)
}

fn pixel_shuffle(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let v = c.tensor(b, "self")?;
    let shape = b.shape(v);
    let (lead, [ch, h, w]) = image("pixel_shuffle", &shape)?;
    let r = factor(c, "pixel_shuffle", "upscale_factor")?;
    ensure!(
        ch.is_multiple_of(r * r),
        "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, but input.size(-3)={ch} is not divisible by {}",
        r * r
    );
    let out = ch / (r * r);
    let split = joined(lead, &[out, r, r, h, w]);
    shuffled(b, v, &split, &order(lead, &[0, 3, 1, 4, 2]), &joined(lead, &[out, h * r, w * r]))
}

fn pixel_unshuffle(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let v = c.tensor(b, "self")?;
    let shape = b.shape(v);
    let (lead, [ch, h, w]) = image("pixel_unshuffle", &shape)?;
    let r = factor(c, "pixel_unshuffle", "downscale_factor")?;
    for (name, extent, dim) in [("height", h, -2), ("width", w, -1)] {
        ensure!(
            extent.is_multiple_of(r),
            "pixel_unshuffle expects {name} to be divisible by downscale_factor, but input.size({dim})={extent} is not divisible by {r}"
        );
    }
    let split = joined(lead, &[ch, h / r, r, w / r, r]);
    shuffled(b, v, &split, &order(lead, &[0, 2, 4, 1, 3]), &joined(lead, &[ch * r * r, h / r, w / r]))
}

fn channel_shuffle(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let v = c.tensor(b, "self")?;
    let shape = b.shape(v);
    ensure!(shape.len() > 2, "channel_shuffle expects input with > 2 dims, but got input with sizes {shape:?}");
    let (groups, ch) = (c.int("groups")?, shape[1]);
    ensure!(groups > 0, "Number of groups to divide channels in must be positive. Value of groups:{groups}");
    let g = groups as usize;
    ensure!(
        ch.is_multiple_of(g),
        "Number of channels must be divisible by groups. Got {ch} channels and {groups} groups."
    );
    let split: Shape = [shape[0], g, ch / g].iter().chain(&shape[2..]).copied().collect();
    let order: Dims = [0, 2, 1].into_iter().chain(3..split.len()).collect();
    shuffled(b, v, &split, &order, &shape)
}

/// Sliding blocks over an image.
struct Blocks {
    kernel: [usize; 2],
    dilation: [usize; 2],
    padding: [usize; 2],
    stride: [usize; 2],
    /// Blocks per dimension.
    count: [usize; 2],
}

impl Blocks {
    fn read(c: &Call<'_>, image: [usize; 2], name: &str) -> Result<Blocks> {
        let pair = |name: &str, least: i64| -> Result<[usize; 2]> {
            let given = c.ints(name)?;
            let [h, w] = match given[..] {
                [only] => [only, only],
                [h, w] => [h, w],
                _ => crate::invalid!("It is expected {name} equals to 2, but got size {}", given.len()),
            };
            ensure!(h >= least && w >= least, "{name} should be at least {least}, but got ({h}, {w})");
            Ok([h as usize, w as usize])
        };
        let (kernel, dilation) = (pair("kernel_size", 1)?, pair("dilation", 1)?);
        let (padding, stride) = (pair("padding", 0)?, pair("stride", 1)?);
        let reach = |i: usize| dilation[i] * (kernel[i] - 1) + 1;
        let blocks = |i: usize| match (image[i] + 2 * padding[i]).checked_sub(reach(i)) {
            Some(rest) => rest / stride[i] + 1,
            None => 0,
        };
        let count = [blocks(0), blocks(1)];
        let two = |p: [usize; 2]| format!("({}, {})", p[0], p[1]);
        ensure!(
            count[0] > 0 && count[1] > 0,
            "Given {name} {}, kernel_size={}, dilation={}, padding={}, calculated shape of the array of sliding blocks as {}, but its components must be at least one.",
            two(image),
            two(kernel),
            two(dilation),
            two(padding),
            two(count)
        );
        Ok(Blocks { kernel, dilation, padding, stride, count })
    }

    /// The positions inside a block, row by row.
    fn places(&self) -> impl Iterator<Item = [usize; 2]> {
        let [h, w] = self.kernel;
        (0..h).flat_map(move |i| (0..w).map(move |j| [i, j]))
    }
}

fn im2col(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let v = c.tensor(b, "self")?;
    let shape = b.shape(v);
    let (lead, [ch, h, w]) = image("im2col", &shape)?;
    ensure!(lead.len() <= 1, "Expected 3D or 4D (batch mode) tensor for input, but got: {shape:?}");
    let blocks = Blocks::read(c, [h, w], "input with spatial size")?;
    let n: usize = lead.iter().product();
    let v = b.reshape(v, &[n, ch, h, w])?;
    let edge = blocks.padding.map(|p| p as i64);
    let zero = b.scalar(Number::Int(0), b.dtype(v))?;
    let sides = [0, 0, edge[0], edge[1]];
    let padded = b.pad(v, zero, &sides, &sides, &[0; 4])?;
    let taken = blocks.places().map(|at| {
        let start: Dims = [0, 0].into_iter().chain((0..2).map(|i| at[i] * blocks.dilation[i])).collect();
        let limit = |i: usize| start[i + 2] + (blocks.count[i] - 1) * blocks.stride[i] + 1;
        let part =
            b.slice(padded, &start, &[n, ch, limit(0), limit(1)], &[1, 1, blocks.stride[0], blocks.stride[1]])?;
        b.reshape(part, &[n, ch, 1, blocks.count[0] * blocks.count[1]])
    });
    let columns = b.concatenate(&taken.collect::<Result<Vec<_>>>()?, 2)?;
    let rows = ch * blocks.kernel[0] * blocks.kernel[1];
    one(b.reshape(columns, &joined(lead, &[rows, blocks.count[0] * blocks.count[1]]))?)
}

fn col2im(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let v = c.tensor(b, "self")?;
    let shape = b.shape(v);
    let rank = shape.len();
    ensure!(rank == 2 || rank == 3, "Expected 2D or 3D (batch mode) tensor for input, but got: {shape:?}");
    let size = c.sizes("output_size")?;
    ensure!(size.len() == 2, "It is expected output_size equals to 2, but got size {}", size.len());
    let blocks = Blocks::read(c, [size[0], size[1]], "output with spatial size")?;
    let (lead, rows, columns) = (&shape[..rank - 2], shape[rank - 2], shape[rank - 1]);
    let [kh, kw] = blocks.kernel;
    ensure!(
        rows.is_multiple_of(kh * kw),
        "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got input.size(1)={rows} and kernel_size=({kh}, {kw})."
    );
    let [bh, bw] = blocks.count;
    ensure!(
        columns == bh * bw,
        "Given output_size=({}, {}), kernel_size=({kh}, {kw}), dilation=({}, {}), padding=({}, {}), stride=({}, {}), expected size of input's dimension 2 to match the calculated number of sliding blocks {bh} * {bw} = {}, but got input.size(2)={columns}.",
        size[0],
        size[1],
        blocks.dilation[0],
        blocks.dilation[1],
        blocks.padding[0],
        blocks.padding[1],
        blocks.stride[0],
        blocks.stride[1],
        bh * bw
    );
    let (n, ch) = (lead.iter().product::<usize>(), rows / (kh * kw));
    let dtype = b.dtype(v);
    let split = b.reshape(b.convert(v, dtype.accumulator())?, &[n, ch, kh * kw, bh, bw])?;
    let zero = b.scalar(Number::Int(0), b.dtype(split))?;
    let mut sum = b.full(Number::Int(0), b.dtype(split), &[n, ch, size[0], size[1]])?;
    for (k, at) in blocks.places().enumerate() {
        let part = b.reshape(b.slice_dim(split, 2, k, k + 1, 1)?, &[n, ch, bh, bw])?;
        let low = |i: usize| (at[i] * blocks.dilation[i]) as i64 - blocks.padding[i] as i64;
        let high = |i: usize| size[i] as i64 - low(i) - ((blocks.count[i] - 1) * blocks.stride[i] + 1) as i64;
        let gaps = [0, 0, blocks.stride[0] - 1, blocks.stride[1] - 1];
        let placed = b.pad(part, zero, &[0, 0, low(0), low(1)], &[0, 0, high(0), high(1)], &gaps)?;
        sum = b.add(sum, placed)?;
    }
    one(b.convert(b.reshape(sum, &joined(lead, &[ch, size[0], size[1]]))?, dtype)?)
}
