//! Sampling an image or a volume at the points of a grid, and the gradients.
//!
//! In each spatial dimension a point reads one, two or four whole positions, each with a weight that depends on the
//! point; a sample is the sum over all combinations. With the weights' derivatives the same combinations give the
//! gradients.

use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::op::Gather;
use crate::ops::expr::{Expr, formula};
use crate::ops::index::put_points;
use crate::ops::support::{like, not_implemented, torch_name};
use crate::ops::{Call, Outs, one};
use crate::types::{Dims, Shape};
use crate::{Binary, Combiner, DType, Number, Reducer, ensure};

/// The extents of an image beside those of a grid, of `spatial` dimensions.
fn check(c: &Call<'_>, b: &Builder, spatial: usize) -> Result<()> {
    let (x, grid) = (c.tensor(b, "input")?, c.tensor(b, "grid")?);
    let (s, t, rank) = (b.shape(x), b.shape(grid), spatial + 2);
    ensure!(
        s.len() == rank && t.len() == rank,
        "grid_sampler(): expected {rank}D input and grid with same number of dimensions, but got input with sizes {s:?} and grid with sizes {t:?}"
    );
    ensure!(
        s[0] == t[0],
        "grid_sampler(): expected grid and input to have same batch size, but got input with sizes {s:?} and grid with sizes {t:?}"
    );
    ensure!(
        t[rank - 1] == spatial,
        "grid_sampler(): expected grid to have size {spatial} in last dimension, but got grid with sizes {t:?}"
    );
    ensure!(
        s[2..].iter().all(|&d| d > 0),
        "grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes {s:?}"
    );
    let (d, e) = (b.dtype(x), b.dtype(grid));
    ensure!(d == e, "expected scalar type {} but found {}", torch_name(d), torch_name(e));
    if !d.is_float() {
        let kernel = if spatial == 2 { "grid_sampler_2d_cpu_kernel_impl" } else { "grid_sampler3d_cpu" };
        return not_implemented(kernel, d);
    }
    Ok(())
}

/// `input` sampled at `grid[..., (x, y)]` or `(x, y, z)`, whose coordinates run from -1 to 1.
pub(super) fn sample(c: &Call<'_>, b: &Builder, spatial: usize) -> Result<Outs> {
    check(c, b, spatial)?;
    let sampler = Sampler::new(c, b)?;
    let dtype = b.dtype(c.tensor(b, "input")?);
    let shape = sampler.sampled(b);
    let mut sum = b.full(Number::Int(0), b.dtype(sampler.image), &shape)?;
    if shape.contains(&0) {
        return one(b.convert(sum, dtype)?);
    }
    for taps in sampler.combinations() {
        let pixels = sampler.pixels(b, &taps)?;
        let weight = sampler.product(b, taps.iter().map(|t| t.weight))?;
        sum = b.add(sum, b.multiply(pixels, sampler.over_channels(b, weight)?)?)?;
    }
    one(b.convert(sum, dtype)?)
}

/// The gradients of the image and of the grid.
pub(super) fn backward(c: &Call<'_>, b: &Builder, spatial: usize) -> Result<Outs> {
    check(c, b, spatial)?;
    let sampler = Sampler::new(c, b)?;
    let (x, grid, grad) = (c.tensor(b, "input")?, c.tensor(b, "grid")?, c.tensor(b, "grad_output")?);
    let (shape, dtype) = (sampler.sampled(b), b.dtype(x));
    let given = b.shape(grad);
    ensure!(given == shape, "grid_sampler: the gradient is {given:?}, but the samples {shape:?}");
    let grad = b.convert(grad, b.dtype(sampler.image))?;
    let wanted = c.flags("output_mask")?;
    let into_image = match wanted.first() {
        Some(true) => Some(b.convert(sampler.image_gradient(b, grad)?, dtype)?),
        _ => None,
    };
    // PyTorch computes the grid's gradient whether it is asked for or not.
    Ok(vec![into_image, Some(b.convert(sampler.grid_gradient(b, grad, &b.shape(grid))?, dtype)?)])
}

/// A position that points read, per point `[n, ...]`.
#[derive(Clone, Copy)]
struct Tap {
    /// A whole number, in the type of the image.
    position: ValueId,
    weight: ValueId,
    /// The derivative of the weight by the coordinate on the grid.
    slope: ValueId,
}

/// From -1..1 to positions.
fn unnormalised(g: Expr<'_>, extent: f64, align: bool) -> Expr<'_> {
    if align { (g + 1.0) / 2.0 * (extent - 1.0) } else { ((g + 1.0) * extent - 1.0) / 2.0 }
}

/// Inside the image.
fn clipped(x: Expr<'_>, extent: f64) -> Expr<'_> {
    x.max(0.0).min(extent - 1.0)
}

/// Where a dimension of the image lies, and what is outside.
#[derive(Clone, Copy)]
struct Axis {
    extent: f64,
    /// `at::native::detail::GridSamplerPadding`'s number: 0 is zeros, 1 the border, 2 reflects.
    padding: i64,
    align: bool,
}

impl Axis {
    /// A position outside, moved as the padding mode says: 0 leaves it, 1 clips, 2 reflects.
    fn padded<'e>(self, x: Expr<'e>) -> Expr<'e> {
        match self.padding {
            1 => clipped(x, self.extent),
            2 => clipped(self.reflected(x).0, self.extent),
            _ => x,
        }
    }

    /// `x` reflected at the edges, and whether an odd number of times.
    fn reflected<'e>(self, x: Expr<'e>) -> (Expr<'e>, Expr<'e>) {
        let (low, span) = if self.align { (0.0, self.extent - 1.0) } else { (-0.5, self.extent) };
        if span == 0.0 {
            return (x.constant(0.0), x.differs(x));
        }
        let distance = (x - low).abs();
        let rest = distance.fmod(span);
        let even = (distance / span).floor().fmod(2.0).equals(0.0);
        (even.select(rest + low, (span - rest) + low), !even)
    }

    fn inside<'e>(self, x: Expr<'e>) -> Expr<'e> {
        x.greater(0.0) & x.less(self.extent - 1.0)
    }

    /// The derivative of [`Axis::padded`].
    fn slope<'e>(self, x: Expr<'e>) -> Expr<'e> {
        let (one, zero) = (x.constant(1.0), x.constant(0.0));
        match self.padding {
            1 => self.inside(x).select(one, zero),
            2 if self.align && self.extent == 1.0 => zero,
            2 => {
                let low = if self.align { 0.0 } else { -0.5 };
                let (reflected, odd) = self.reflected(x);
                let turned = odd ^ x.less(low);
                self.inside(reflected).select(turned.select(-one, one), zero)
            }
            _ => one,
        }
    }

    /// How far a position moves for one unit of the grid.
    fn step(self) -> f64 {
        if self.align { (self.extent - 1.0) / 2.0 } else { self.extent / 2.0 }
    }

    /// The taps of a coordinate `g` of the grid, by interpolation mode: 0 linear, 1 nearest, 2 cubic.
    fn taps(self, b: &Builder, g: ValueId, mode: i64) -> Result<Vec<Tap>> {
        let raw = formula(b, [g], |[g]| unnormalised(g, self.extent, self.align))?;
        if mode == 2 {
            return self.cubic(b, raw);
        }
        let x = formula(b, [raw], |[x]| self.padded(x))?;
        if mode == 1 {
            let position = formula(b, [x], |[x]| x.round_nearest_even())?;
            return Ok(vec![Tap { position, weight: like(b, x, 1.0)?, slope: like(b, x, 0.0)? }]);
        }
        let left = formula(b, [x], |[x]| x.floor())?;
        let slope = formula(b, [raw], |[x]| self.slope(x) * self.step())?;
        Ok(vec![
            Tap {
                position: left,
                weight: formula(b, [x, left], |[x, left]| (left + 1.0) - x)?,
                slope: b.negate(slope)?,
            },
            Tap { position: formula(b, [left], |[l]| l + 1.0)?, weight: formula(b, [x, left], |[x, l]| x - l)?, slope },
        ])
    }

    /// Keys' convolution over four positions, each of them padded. The weights are those of where the point lies before
    /// padding.
    fn cubic(self, b: &Builder, x: ValueId) -> Result<Vec<Tap>> {
        let tap = |k: i32| {
            let k = f64::from(k);
            Ok(Tap {
                position: formula(b, [x], |[x]| self.padded(x.floor() + k))?,
                weight: formula(b, [x], |[x]| keys(x - x.floor() - k))?,
                slope: formula(b, [x], |[x]| keys_slope(x - x.floor() - k) * self.step())?,
            })
        };
        (-1..3).map(tap).collect()
    }
}

/// The parameter of Keys' convolution kernel.
const A: f64 = -0.75;

/// Keys' convolution kernel at a distance below 2.
fn keys(x: Expr<'_>) -> Expr<'_> {
    let x = x.abs();
    let near = (x * (A + 2.0) - (A + 3.0)) * x * x + 1.0;
    let far = ((x * A - 5.0 * A) * x + 8.0 * A) * x - 4.0 * A;
    x.at_most(1.0).select(near, far)
}

/// The derivative of [`keys`].
fn keys_slope(x: Expr<'_>) -> Expr<'_> {
    let size = x.abs();
    let near = (size * (3.0 * (A + 2.0)) - 2.0 * (A + 3.0)) * size;
    let far = (size * (3.0 * A) - 10.0 * A) * size + 8.0 * A;
    let slope = size.at_most(1.0).select(near, far);
    x.less(0.0).select(-slope, slope)
}

/// An image `[n, channels, ...]` in its accumulation type, and what each spatial dimension, outermost first, reads.
struct Sampler {
    image: ValueId,
    axes: Vec<Vec<Tap>>,
}

impl Sampler {
    fn new(c: &Call<'_>, b: &Builder) -> Result<Sampler> {
        let (x, grid) = (c.tensor(b, "input")?, c.tensor(b, "grid")?);
        let (s, t, wide) = (b.shape(x), b.shape(grid), b.dtype(x).accumulator());
        let (mode, padding, align) = (c.int("interpolation_mode")?, c.int("padding_mode")?, c.flag("align_corners")?);
        let (grid, last) = (b.convert(grid, wide)?, t.len() - 1);
        let axis = |i: usize| {
            // Coordinates stand innermost first.
            let own = last - 2 - i;
            let g = b.reshape(b.slice_dim(grid, last, own, own + 1, 1)?, &t[..last])?;
            Axis { extent: s[i + 2] as f64, padding, align }.taps(b, g, mode)
        };
        Ok(Sampler { image: b.convert(x, wide)?, axes: (0..last - 1).map(axis).collect::<Result<_>>()? })
    }

    /// The extents of the points: `[n, ...]`.
    fn points(&self, b: &Builder) -> Shape {
        b.shape(self.axes[0][0].position)
    }

    /// The extents of the samples: `[n, channels, ...]`.
    fn sampled(&self, b: &Builder) -> Shape {
        let mut shape = self.points(b);
        shape.insert(1, b.shape(self.image)[1]);
        shape
    }

    /// One tap of each dimension, in every combination.
    fn combinations(&self) -> Vec<Vec<Tap>> {
        self.axes.iter().fold(vec![vec![]], |all, axis| {
            let longer = |begun: &Vec<Tap>| axis.iter().map(|&tap| [&begun[..], &[tap]].concat()).collect::<Vec<_>>();
            all.iter().flat_map(longer).collect()
        })
    }

    fn product(&self, b: &Builder, factors: impl IntoIterator<Item = ValueId>) -> Result<ValueId> {
        let mut factors = factors.into_iter();
        let first = match factors.next() {
            Some(first) => first,
            None => b.full(Number::Int(1), b.dtype(self.image), &self.points(b))?,
        };
        factors.try_fold(first, |product, factor| b.multiply(product, factor))
    }

    /// A value per point, for every channel.
    fn over_channels(&self, b: &Builder, v: ValueId) -> Result<ValueId> {
        let shape = self.sampled(b);
        let dims: Dims = (0..shape.len()).filter(|&d| d != 1).collect();
        b.broadcast_in_dim(v, &shape, &dims)
    }

    /// Whether each point's tap lies in the image, and its clipped positions as indices.
    fn places(&self, b: &Builder, taps: &[Tap]) -> Result<(ValueId, Vec<ValueId>)> {
        let s = b.shape(self.image);
        let mut inside = b.full(Number::Bool(true), DType::Bool, &self.points(b))?;
        let mut places = vec![];
        for (tap, &extent) in taps.iter().zip(&s[2..]) {
            let last = extent as f64 - 1.0;
            let here = formula(b, [tap.position], |[p]| p.at_least(0.0) & p.at_most(last))?;
            inside = b.binary(Binary::And, inside, here)?;
            let clipped = formula(b, [tap.position], |[p]| p.is_nan().select(p.constant(0.0), p.max(0.0).min(last)))?;
            places.push(b.convert(clipped, DType::I64)?);
        }
        Ok((inside, places))
    }

    /// The pixels at a tap of each dimension, zero outside: `[n, channels, ...]`.
    fn pixels(&self, b: &Builder, taps: &[Tap]) -> Result<ValueId> {
        let (s, mut column) = (b.shape(self.image), self.points(b));
        column.push(1);
        let last = column.len() - 1;
        let (inside, places) = self.places(b, taps)?;
        let columns: Vec<ValueId> = places.iter().map(|&p| b.reshape(p, &column)).collect::<Result<_>>()?;
        let spatial: Dims = (2..s.len()).collect();
        let mut slice_sizes: Shape = s.iter().map(|_| 1).collect();
        slice_sizes[1] = s[1];
        let gather = Gather {
            offset_dims: [1].into_iter().collect(),
            collapsed_slice_dims: spatial.clone(),
            operand_batching_dims: [0].into_iter().collect(),
            start_indices_batching_dims: [0].into_iter().collect(),
            start_index_map: spatial,
            index_vector_dim: last,
            slice_sizes,
        };
        let pixels = b.gather(self.image, b.concatenate(&columns, last)?, gather)?;
        b.select(self.over_channels(b, inside)?, pixels, like(b, pixels, 0.0)?)
    }

    /// Each sample's gradient, spread over the pixels it was made of.
    fn image_gradient(&self, b: &Builder, grad: ValueId) -> Result<ValueId> {
        let s = b.shape(self.image);
        let mut sum = b.full(Number::Int(0), b.dtype(self.image), &s)?;
        let shape = self.sampled(b);
        if shape.contains(&0) {
            return Ok(sum);
        }
        // Channels last, as a scatter over the other dimensions wants its updates.
        let order: Dims = (0..shape.len()).filter(|&d| d != 1).chain([1]).collect();
        let sites: Dims = (0..s.len()).filter(|&d| d != 1).collect();
        for taps in self.combinations() {
            let (inside, places) = self.places(b, &taps)?;
            let weight = self.product(b, taps.iter().map(|t| t.weight))?;
            let share = b.multiply(grad, self.over_channels(b, weight)?)?;
            let share = b.select(self.over_channels(b, inside)?, share, like(b, share, 0.0)?)?;
            let sample = b.iota(DType::I64, &self.points(b), 0)?;
            let places: Vec<ValueId> = std::iter::once(sample).chain(places).collect();
            sum = put_points(b, sum, &places, &sites, b.transpose(share, &order)?, Combiner::Add)?;
        }
        Ok(sum)
    }

    /// The gradient of the coordinates, `shape`.
    fn grid_gradient(&self, b: &Builder, grad: ValueId, shape: &[usize]) -> Result<ValueId> {
        let zero = b.full(Number::Int(0), b.dtype(self.image), &self.points(b))?;
        let mut sums = vec![zero; self.axes.len()];
        // A nearest pixel stays the same.
        if self.axes[0].len() > 1 && !self.sampled(b).contains(&0) {
            for taps in self.combinations() {
                let along = b.reduce(b.multiply(self.pixels(b, &taps)?, grad)?, Reducer::Add, &[1])?;
                for (d, sum) in sums.iter_mut().enumerate() {
                    let factors = taps.iter().enumerate().map(|(e, t)| if e == d { t.slope } else { t.weight });
                    *sum = b.add(*sum, self.product(b, std::iter::once(along).chain(factors))?)?;
                }
            }
        }
        let mut column = self.points(b);
        column.push(1);
        let columns = sums.iter().rev().map(|&v| b.reshape(v, &column)).collect::<Result<Vec<_>>>()?;
        b.reshape(b.concatenate(&columns, column.len() - 1)?, shape)
    }
}
