//! Numerical gradients: central differences, and one-sided ones at both ends.

use super::super::support::{dim, distinct_dims};
use super::super::{Call, OpDef, Outs, Sample, err, many, ok};
use super::{Torch, call};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::{DType, ensure};

/// An overload of `gradient`: its name, its arguments between `self` and `edge_order`, and how it is given spacings.
macro_rules! gradient {
    ($overload:literal, $args:literal, $spacing:path, $samples:expr) => {
        OpDef::new(
            concat!("aten::gradient.", $overload, "(Tensor self, *, ", $args, ", int edge_order=1) -> Tensor[]"),
            |c, b| gradients(c, b, $spacing(c, b)?),
            $samples,
        )
    };
}

pub(in super::super) static OPS: &[OpDef] = &[
    gradient!(
        "scalarint",
        "Scalar? spacing=None, int? dim=None",
        for_all,
        &[
            ok("f32[4,5]"),
            ok("i64[5]"),
            ok("f64[4,5], spacing=0.5, dim=-1, edge_order=2"),
            err("f32[1]", "torch.gradient expected each dimension size to be at least edge_order+1"),
            err("f32[4], edge_order=3", "torch.gradient only supports edge_order=1 and edge_order=2."),
            err("u8[4]", "torch.gradient does not support uint8 input."),
        ]
    ),
    gradient!("scalararray", "Scalar spacing, int[] dim", for_all, &[ok("f32[4,5], spacing=2, dim=[1,0]")]),
    gradient!(
        "array",
        "int[] dim",
        usual,
        &[ok("f32[4,5], dim=[1]"), err("f32[4,5], dim=[0,0]", "dim 0 appears multiple times in the list of dims")]
    ),
    gradient!("scalarrayint", "Scalar[] spacing, int? dim=None", numbers, BY_NUMBERS),
    gradient!("scalarrayarray", "Scalar[] spacing, int[] dim", numbers, &[ok("f64[4,5], spacing=[2,0.5], dim=[1,0]")]),
    gradient!(
        "tensorarrayint",
        "Tensor[] spacing, int? dim=None",
        places,
        &[
            ok("f32[4,5], spacing=[f32[4]{0,1,3,4}, f32[5]{0,2,3,5,9}]"),
            ok("f64[4,5], spacing=[f64[5]{0,2,3,5,9}], dim=1, edge_order=2"),
        ]
    ),
    gradient!(
        "tensorarray",
        "Tensor[] spacing, int[] dim",
        places,
        &[ok("f64[4,5], spacing=[f64[4]{0,1,3,4}], dim=[0]")]
    ),
];

const BY_NUMBERS: &[Sample] = &[
    ok("f32[4,5], spacing=[2,0.5]"),
    ok("f32[4,5], spacing=[2], dim=1"),
    err(
        "f32[4,5], spacing=[2]",
        "torch.gradient expected spacing to be unspecified, a scalar, or a list of length equal to 'self.dim() = 2', since \
         dim argument was not given, but got a list of length 1",
    ),
];

/// What lies between neighbours, dimension by dimension.
enum Spacing {
    Even(f64),
    Each(Vec<f64>),
    Places(Vec<ValueId>),
}

fn usual(_: &Call<'_>, _: &Builder) -> Result<Spacing> {
    Ok(Spacing::Even(1.0))
}

fn for_all(c: &Call<'_>, _: &Builder) -> Result<Spacing> {
    Ok(Spacing::Even(c.optional_float("spacing")?.unwrap_or(1.0)))
}

fn numbers(c: &Call<'_>, _: &Builder) -> Result<Spacing> {
    Ok(Spacing::Each(c.scalars("spacing")?.iter().map(|s| c.number(s).as_f64()).collect()))
}

fn places(c: &Call<'_>, b: &Builder) -> Result<Spacing> {
    c.tensors(b, "spacing").map(Spacing::Places)
}

/// The dimensions to differentiate along, in the order of the results.
fn directions(c: &Call<'_>, b: &Builder, v: ValueId, spacings: Option<usize>, order: i64) -> Result<Vec<usize>> {
    let shape = b.shape(v);
    ensure!(b.dtype(v) != DType::U8, "torch.gradient does not support uint8 input.");
    let given = c.optional_ints("dim")?;
    let what = "torch.gradient expected spacing to be unspecified, a scalar";
    match (&given, spacings) {
        (None, Some(n)) => {
            ensure!(
                n == shape.len(),
                "{what}, or a list of length equal to 'self.dim() = {}', since dim argument was not given, but got a list \
                 of length {n}",
                shape.len()
            );
        }
        (Some(dims), Some(n)) => {
            ensure!(
                n == dims.len(),
                "{what} or it's spacing and dim arguments to have the same length, but got a spacing argument of length \
                 {n} and a dim argument of length {}.",
                dims.len()
            );
        }
        _ => {}
    }
    ensure!(matches!(order, 1 | 2), "torch.gradient only supports edge_order=1 and edge_order=2.");
    let dims = match given {
        Some(dims) => {
            distinct_dims(&dims, shape.len())?;
            dims.iter().map(|&d| dim(d, shape.len())).collect::<Result<Vec<_>>>()?
        }
        None => (0..shape.len()).collect(),
    };
    let long = dims.iter().all(|&d| shape.get(d).is_some_and(|&n| n as i64 > order));
    ensure!(long, "torch.gradient expected each dimension size to be at least edge_order+1");
    Ok(dims)
}

fn gradients(c: &Call<'_>, b: &Builder, spacing: Spacing) -> Result<Outs> {
    let (v, order) = (c.tensor(b, "self")?, c.int("edge_order")?);
    let given = match &spacing {
        Spacing::Even(_) => None,
        Spacing::Each(all) => Some(all.len()),
        Spacing::Places(all) => Some(all.len()),
    };
    let dims = directions(c, b, v, given, order)?;
    let one = |(i, &d): (usize, &usize)| {
        let line = Line { t: Torch::new(c, b), d: d as i64 };
        match &spacing {
            Spacing::Even(step) => line.even(v, *step, order),
            Spacing::Each(steps) => line.even(v, steps[i], order),
            Spacing::Places(places) => line.uneven(v, places[i], order),
        }
    };
    many(dims.iter().enumerate().map(one).collect::<Result<Vec<_>>>()?)
}

/// Where the ends of a dimension are.
const FIRST: [[Option<i64>; 2]; 3] = [[Some(0), Some(1)], [Some(1), Some(2)], [Some(2), Some(3)]];
const LAST: [[Option<i64>; 2]; 3] = [[Some(-3), Some(-2)], [Some(-2), Some(-1)], [Some(-1), None]];
/// The neighbours of what has two, and that itself.
const INNER: [[Option<i64>; 2]; 3] = [[Some(0), Some(-2)], [Some(1), Some(-1)], [Some(2), None]];

#[derive(Clone, Copy)]
struct Line<'t> {
    t: Torch<'t>,
    d: i64,
}

impl Line<'_> {
    fn part(self, v: ValueId, [from, to]: [Option<i64>; 2]) -> Result<ValueId> {
        call!(self.t, "slice_copy.Tensor", v, self.d, from, to)
    }

    fn difference(self, v: ValueId, from: [Option<i64>; 2], to: [Option<i64>; 2]) -> Result<ValueId> {
        call!(self.t, "sub.Tensor", self.part(v, to)?, self.part(v, from)?)
    }

    fn even(self, v: ValueId, step: f64, order: i64) -> Result<ValueId> {
        let t = self.t;
        let over = |v: ValueId| call!(t, "div.Scalar", v, step);
        let weighted = |at: [[Option<i64>; 2]; 3], weights: [f64; 3]| -> Result<ValueId> {
            let part = |i: usize| call!(t, "mul.Scalar", self.part(v, at[i])?, weights[i]);
            call!(t, "add.Tensor", call!(t, "add.Tensor", part(0)?, part(1)?)?, part(2)?)
        };
        let center = call!(t, "div.Scalar", over(self.difference(v, INNER[0], INNER[2])?)?, 2)?;
        let (first, last) = match order {
            1 => (self.difference(v, FIRST[0], FIRST[1])?, self.difference(v, LAST[1], LAST[2])?),
            _ => (weighted(FIRST, [-1.5, 2.0, -0.5])?, weighted(LAST, [0.5, -2.0, 1.5])?),
        };
        call!(t, "cat", [over(first)?, center, over(last)?], self.d)
    }

    /// At `places`, which no step parts evenly.
    fn uneven(self, v: ValueId, places: ValueId, order: i64) -> Result<ValueId> {
        let (t, b) = (self.t, self.t.b);
        let (shape, own) = (b.shape(v), b.shape(places));
        // Other numbers of places broadcast, or do not.
        ensure!(
            own.len() == 1,
            "torch.gradient expected each element of spacing to have one dimension, but got {own:?}"
        );
        let mut lined = vec![1; shape.len()];
        lined[self.d as usize] = own[0].saturating_sub(1);
        let steps = b.reshape(call!(t, "diff", places, 1, 0)?, &lined)?;
        let [left, right] = [[Some(0), Some(-1)], [Some(1), None]];
        let center = self.three(v, INNER, self.part(steps, left)?, self.part(steps, right)?, 0)?;
        let (first, last) = match order {
            1 => {
                let quotient =
                    |from, to, step| call!(t, "div.Tensor", self.difference(v, from, to)?, self.part(steps, step)?);
                (quotient(FIRST[0], FIRST[1], FIRST[0])?, quotient(LAST[1], LAST[2], LAST[2])?)
            }
            _ => {
                let step = |at| self.part(steps, at);
                let first = self.three(v, FIRST, step(FIRST[0])?, step(FIRST[1])?, -1)?;
                (first, self.three(v, LAST, step(LAST[1])?, step(LAST[2])?, 1)?)
            }
        };
        call!(t, "cat", [first, center, last], self.d)
    }

    /// The slope of the parabola through three neighbours, `p` and `q` apart: at the first (-1), the middle or the last.
    fn three(self, v: ValueId, at: [[Option<i64>; 2]; 3], p: ValueId, q: ValueId, side: i64) -> Result<ValueId> {
        let t = self.t;
        let both = call!(t, "add.Tensor", p, q)?;
        let over = |x: ValueId, y: ValueId, z: ValueId| call!(t, "div.Tensor", x, call!(t, "mul.Tensor", y, z)?);
        let negative = |x: ValueId| call!(t, "neg", x);
        // Twice the one step and the other.
        let twice = |x: ValueId, y: ValueId| call!(t, "add.Tensor", y, x, 2);
        let [a, m, z] = match side {
            -1 => [negative(twice(p, q)?)?, both, negative(p)?],
            0 => [negative(q)?, call!(t, "sub.Tensor", q, p)?, p],
            _ => [q, negative(both)?, twice(q, p)?],
        };
        let weights = [over(a, p, both)?, over(m, p, q)?, over(z, q, both)?];
        let part = |i: usize| call!(t, "mul.Tensor", self.part(v, at[i])?, weights[i]);
        call!(t, "add.Tensor", call!(t, "add.Tensor", part(0)?, part(1)?)?, part(2)?)
    }
}
