//! Sampling an image at the points of a grid.

use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::op::Gather;
use crate::ops::expr::{Expr, formula};
use crate::ops::support::{like, torch_name};
use crate::ops::{Call, Outs, one};
use crate::{Binary, DType, Reducer, ensure, unsupported};

/// `[n, channels, h, w]` sampled at `grid[n, oh, ow, (x, y)]`, whose coordinates run from -1 to 1.
pub(super) fn sample(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (x, grid) = (c.tensor(b, "input")?, c.tensor(b, "grid")?);
    let (s, t) = (b.shape(x), b.shape(grid));
    if s.len() == 5 {
        unsupported!("grid_sampler of volumes");
    }
    ensure!(
        s.len() == 4 && t.len() == 4,
        "grid_sampler(): expected 4D input and grid with same number of dimensions, but got input with sizes {s:?} and grid with sizes {t:?}"
    );
    ensure!(
        s[0] == t[0],
        "grid_sampler(): expected grid and input to have same batch size, but got input with sizes {s:?} and grid with sizes {t:?}"
    );
    ensure!(t[3] == 2, "grid_sampler(): expected grid to have size 2 in last dimension, but got grid with sizes {t:?}");
    ensure!(
        s[2] > 0 && s[3] > 0,
        "grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes {s:?}"
    );
    let (d, e) = (b.dtype(x), b.dtype(grid));
    ensure!(d == e, "expected scalar type {} but found {}", torch_name(d), torch_name(e));
    let (mode, padding) = (c.int("interpolation_mode")?, c.int("padding_mode")?);
    if mode == 2 {
        unsupported!("grid_sampler with bicubic interpolation");
    }
    let align = c.flag("align_corners")?;
    let grid = b.convert(grid, d.accumulator())?;
    let coordinate = |i: usize, extent: usize| -> Result<ValueId> {
        let own = b.reshape(b.slice_dim(grid, 3, i, i + 1, 1)?, &t[..3])?;
        formula(b, [own], |[g]| padded(unnormalised(g, extent as f64, align), extent as f64, padding, align))
    };
    let image = Image { values: b.convert(x, d.accumulator())?, x: coordinate(0, s[3])?, y: coordinate(1, s[2])? };
    let sampled = if mode == 0 { image.bilinear(b)? } else { image.nearest(b)? };
    one(b.convert(sampled, d)?)
}

/// From -1..1 to positions.
fn unnormalised(g: Expr<'_>, extent: f64, align: bool) -> Expr<'_> {
    if align { (g + 1.0) / 2.0 * (extent - 1.0) } else { ((g + 1.0) * extent - 1.0) / 2.0 }
}

/// Inside the image.
fn clipped(x: Expr<'_>, extent: f64) -> Expr<'_> {
    x.max(0.0).min(extent - 1.0)
}

/// Positions outside, moved as the padding mode says: 0 leaves them, 1 clips, 2 reflects.
fn padded(x: Expr<'_>, extent: f64, padding: i64, align: bool) -> Expr<'_> {
    match padding {
        1 => clipped(x, extent),
        2 => {
            let (low, span) = if align { (0.0, extent - 1.0) } else { (-0.5, extent) };
            if span == 0.0 {
                return x.constant(0.0);
            }
            let distance = (x - low).abs();
            let rest = distance.fmod(span);
            let flips = (distance / span).floor();
            let even = flips.fmod(2.0).equals(0.0);
            clipped(even.select(rest + low, (span - rest) + low), extent)
        }
        _ => x,
    }
}

/// An image `[n, channels, h, w]` and where it is sampled, `[n, oh, ow]` each.
struct Image {
    values: ValueId,
    x: ValueId,
    y: ValueId,
}

impl Image {
    /// The pixels at whole positions, zero outside: `[n, channels, oh, ow]`.
    fn at(&self, b: &Builder, x: ValueId, y: ValueId) -> Result<ValueId> {
        let (s, t) = (b.shape(self.values), b.shape(x));
        let (w, h) = (s[3] as f64, s[2] as f64);
        let inside = |v, extent: f64| {
            let low = formula(b, [v], |[v]| v.at_least(0.0))?;
            b.binary(Binary::And, low, formula(b, [v], |[v]| v.at_most(extent - 1.0))?)
        };
        let inside = b.binary(Binary::And, inside(x, w)?, inside(y, h)?)?;
        let index = |v, extent: f64| {
            let clipped = formula(b, [v], |[v]| v.is_nan().select(v.constant(0.0), v.max(0.0).min(extent - 1.0)))?;
            b.reshape(b.convert(clipped, DType::I64)?, &[t[0], t[1], t[2], 1])
        };
        let indices = b.concatenate(&[index(y, h)?, index(x, w)?], 3)?;
        let shape = [s[0], s[1], t[1], t[2]];
        if shape.contains(&0) {
            return b.full(crate::Number::Int(0), b.dtype(self.values), &shape);
        }
        let gather = Gather {
            offset_dims: [1].into_iter().collect(),
            collapsed_slice_dims: [2, 3].into_iter().collect(),
            operand_batching_dims: [0].into_iter().collect(),
            start_indices_batching_dims: [0].into_iter().collect(),
            start_index_map: [2, 3].into_iter().collect(),
            index_vector_dim: 3,
            slice_sizes: [1, s[1], 1, 1].into_iter().collect(),
        };
        let pixels = b.gather(self.values, indices, gather)?;
        let inside = b.broadcast_in_dim(inside, &shape, &[0, 2, 3])?;
        b.select(inside, pixels, like(b, pixels, 0.0)?)
    }

    fn nearest(&self, b: &Builder) -> Result<ValueId> {
        let whole = |v| formula(b, [v], |[v]| v.round_nearest_even());
        self.at(b, whole(self.x)?, whole(self.y)?)
    }

    fn bilinear(&self, b: &Builder) -> Result<ValueId> {
        let floor = |v| formula(b, [v], |[v]| v.floor());
        let (left, top) = (floor(self.x)?, floor(self.y)?);
        let after = |v| formula(b, [v], |[v]| v + 1.0);
        let (right, bottom) = (after(left)?, after(top)?);
        let corner = |x, y, far_x, far_y| -> Result<ValueId> {
            // The weight is the area to the opposite corner.
            let operands = [self.x, self.y, far_x, far_y];
            let weight = formula(b, operands, |[x, y, fx, fy]| (fx - x).abs() * (fy - y).abs())?;
            let pixels = self.at(b, x, y)?;
            b.multiply(pixels, b.broadcast_in_dim(weight, &b.shape(pixels), &[0, 2, 3])?)
        };
        let corners = [
            corner(left, top, right, bottom)?,
            corner(right, top, left, bottom)?,
            corner(left, bottom, right, top)?,
            corner(right, bottom, left, top)?,
        ];
        let stacked: Result<Vec<ValueId>> =
            corners.iter().map(|&v| crate::ops::support::unsqueeze(b, v, &[0])).collect();
        b.reduce(b.concatenate(&stacked?, 0)?, Reducer::Add, &[0])
    }
}
