//! Integrals, quantiles, combinations, grids, and other names of special functions.

use super::super::support::{dim, torch_name};
use super::super::{OpDef, Sample, err, ok};
use super::{Torch, call, composite, renamed};
use crate::builder::Builder;
use crate::error::{Error, Result};
use crate::graph::ValueId;
use crate::literal::Literal;
use crate::types::TensorType;
use crate::{DType, Number, ensure, ensure_kernel, invalid};
use std::f64::consts::PI;

pub(in super::super) static OPS: &[OpDef] = &[
    composite!(
        "trapezoid.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor",
        |t| by_places(t, "trapezoid", sum_between),
        BY_PLACES
    ),
    composite!("trapezoid.dx(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor", by_step, BY_STEP),
    composite!(
        "trapz.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor",
        |t| by_places(t, "trapezoid", sum_between),
        BY_PLACES
    ),
    composite!("trapz.dx(Tensor y, *, float dx=1., int dim=-1) -> Tensor", by_step, BY_STEP),
    composite!(
        "cumulative_trapezoid.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor",
        |t| by_places(t, "cumulative_trapezoid", running_sum),
        BY_PLACES
    ),
    composite!(
        "cumulative_trapezoid.dx(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor",
        |t| {
            let (y, d) = ordinates(t, "cumulative_trapezoid")?;
            let half = call!(t, "mul.Scalar", neighbours(t, y, d)?, step(t)? / 2.0)?;
            call!(t, "cumsum", half, d)
        },
        BY_STEP
    ),
    composite!(
        "combinations(Tensor self, int r=2, bool with_replacement=False) -> Tensor",
        combinations,
        &[
            ok("f32[4]"),
            ok("i64[4], 3"),
            ok("f32[3], 3, true"),
            ok("f32[2], 3"),
            ok("f32[3], 0"),
            ok("f32[0]"),
            err("f32[2,2]", "Expect a 1D vector, but got shape [2, 2]"),
            err("f32[2], -1", "Expect a non-negative number, but got -1"),
        ]
    ),
    composite!(
        "diagflat(Tensor self, int offset=0) -> Tensor",
        |t| {
            let v = t.c.tensor(t.b, "self")?;
            let flat = t.b.reshape(v, &[t.b.shape(v).iter().product()])?;
            call!(t, "diag_embed", flat, t.c.int("offset")?)
        },
        &[ok("f32[2,2], -1"), ok("i64[]"), ok("f32[3], 2")]
    ),
    composite!(
        "affine_grid_generator(Tensor theta, SymInt[] size, bool align_corners) -> Tensor",
        affine_grid,
        &[
            ok("f32[1,2,3], [1,3,1,2], false"),
            ok("f64[2,2,3], [2,1,4,3], true"),
            ok("f32[1,3,4], [1,3,2,1,2], true"),
            err("f32[1,2,3], [1,3,2], true", "AffineGridGenerator needs 4d (spatial) or 5d (volumetric) inputs."),
            err(
                "f32[1,2,2], [1,3,2,2], true",
                "Expected size for first two dimensions of batch2 tensor to be: [1, 3] but got: [1, 2]"
            ),
        ]
    ),
    composite!(
        "quantile(Tensor self, Tensor q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> Tensor",
        |t| quantile(t, false, t.c.tensor(t.b, "q")?),
        QUANTILES
    ),
    composite!(
        "quantile.scalar(Tensor self, float q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> Tensor",
        |t| quantile(t, false, only_quantile(t, "quantile")?),
        QUANTILE
    ),
    composite!(
        "nanquantile(Tensor self, Tensor q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> Tensor",
        |t| quantile(t, true, t.c.tensor(t.b, "q")?),
        &[
            ok("f32[2,5]{1,nan,3,7,20,nan,nan,2}, f32[3]{0.3,0.5,0.875}, 1"),
            ok("f32[4]{nan}, f32[2]{0.3,0.5}"),
            ok("f64[5]{1,nan,3,7,20}, f64[]{0.4}, interpolation='lower'"),
        ]
    ),
    composite!(
        "nanquantile.scalar(Tensor self, float q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> Tensor",
        |t| quantile(t, true, only_quantile(t, "nanquantile")?),
        &[ok("f32[5]{1,nan,3,7,20}, 0.4"), err("f32[0], 0.4", "nanquantile() input tensor must be non-empty")]
    ),
    composite!("mvlgamma(Tensor self, int p) -> Tensor", mvlgamma, MVLGAMMA).variants(&["mvlgamma_", "mvlgamma.out"]),
    composite!("special_multigammaln(Tensor self, int p) -> Tensor", mvlgamma, MVLGAMMA)
        .variants(&["special_multigammaln.out"]),
    renamed!("special_gammainc(Tensor self, Tensor other) -> Tensor", "igamma", GAMMA)
        .variants(&["special_gammainc.out"]),
    renamed!("special_gammaincc(Tensor self, Tensor other) -> Tensor", "igammac", GAMMA)
        .variants(&["special_gammaincc.out"]),
    renamed!(
        "special_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
        "softmax.int",
        &[ok("f32[2,3], 1"), ok("bf16[2,3], 0, f32")]
    ),
    renamed!(
        "special_log_softmax(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
        "log_softmax.int",
        &[ok("f32[2,3], 1"), ok("bf16[2,3], 0, dtype=f32")]
    ),
    renamed!(
        "special_logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor",
        "logsumexp",
        &[ok("f32[2,3], [1]"), ok("bf16[2,3], [0,1], true")]
    )
    .variants(&["special_logsumexp.out"]),
];

const BY_PLACES: &[Sample] = &[
    ok("f32[2,3], f32[3]"),
    ok("f64[2,3], f64[2], dim=0"),
    ok("f32[3,2,4], f32[2,4], dim=1"),
    ok("i64[2,3], i64[2,3]"),
    ok("i64[2,0], i64[0]"),
    err("f32[2,3], f32[4]", "There must be one `x` value for each sample point"),
    err("f32[2,3], bool[3]", "bool is not supported"),
];
const BY_STEP: &[Sample] = &[
    ok("f32[2,3]"),
    ok("f64[2,3], dx=0.5, dim=0"),
    ok("i64[3]"),
    ok("f32[2,1]"),
    ok("f32[2,0]"),
    err("bool[3]", "bool is not supported"),
    err("f32[]", "Dimension specified as -1 but tensor has no dimensions"),
];
const QUANTILES: &[Sample] = &[
    ok("f32[2,3], f32[2]{0.1,0.5}, 1, true"),
    ok("f32[5], f32[]{0.3}"),
    ok("f64[2,3,4], f64[3]{0.1,0.5,1}, 1"),
    ok("f32[2,3], f32[2]{0.1,0.5}, none, true"),
    ok("f32[5], f32[3]{0.3,0.5,0.875}, interpolation='lower'"),
    ok("f32[5], f32[3]{0.3,0.5,0.875}, interpolation='higher'"),
    ok("f32[5], f32[3]{0.3,0.5,0.875}, interpolation='midpoint'"),
    ok("f32[5], f32[3]{0.3,0.5,0.875}, interpolation='nearest'"),
    ok("f32[5]{1,nan,3}, f32[2]{0.3,1}"),
    ok("f32[], f32[2]{0.3,1}, 0, true"),
    err("f32[3], f32[1,2]", "quantile() q must be a scalar or 1D tensor"),
    err("f32[3], f64[2]", "quantile() q tensor must be same dtype as the input tensor"),
    err("f16[3], f16[2]", "quantile() input tensor must be either float or double dtype"),
    err("f32[0], f32[2]", "quantile() input tensor must be non-empty"),
    err(
        "f32[3], f32[2], interpolation='x'",
        "quantile() interpolation must be one of linear, lower, higher, midpoint or nearest, but got x",
    ),
];
const QUANTILE: &[Sample] = &[
    ok("f32[9], 0.3"),
    ok("f64[2,3], 0.75, 0"),
    ok("f64[2,3], 1, -1, true"),
    err("f32[3], 1.5", "quantile() q must be in the range [0, 1] but got 1.5"),
    err("i64[3], 0.5", "quantile() input tensor must be either float or double dtype"),
];
const MVLGAMMA: &[Sample] = &[
    ok("f32[3]{3,4,2.5}, 2"),
    ok("i64[2]{3,4}, 3"),
    ok("f64[2,2]{5..9}, 4"),
    err("f32[2], 0", "p has to be greater than or equal to 1"),
];
const GAMMA: &[Sample] = &[ok("f32[4]{0.5..4}, f32[4]{0.5..4}"), err("i64[2], i64[2]", "not implemented for 'Long'")];

/// `y` and the dimension to integrate along.
fn ordinates(t: Torch<'_>, op: &str) -> Result<(ValueId, i64)> {
    let (y, d) = (t.c.tensor(t.b, "y")?, t.c.int("dim")?);
    if t.b.rank(y) == 0 {
        return Err(Error::index(format!("Dimension specified as {d} but tensor has no dimensions")));
    }
    ensure_kernel!(t.b.dtype(y) != DType::Bool, "{op}: received a bool input for `y`, but bool is not supported");
    Ok((y, dim(d, t.b.rank(y))? as i64))
}

fn step(t: Torch<'_>) -> Result<f64> {
    let dx = t.c.scalar("dx")?;
    let real = !dx.dtype().is_complex() && dx.dtype() != DType::Bool;
    ensure!(real, "Currently, we only support dx as a real number.");
    t.c.float("dx")
}

/// Sums of neighbours along `d`.
fn neighbours(t: Torch<'_>, y: ValueId, d: i64) -> Result<ValueId> {
    call!(t, "add.Tensor", call!(t, "slice_copy.Tensor", y, d, 0i64, -1)?, call!(t, "slice_copy.Tensor", y, d, 1)?)
}

fn sum_between(t: Torch<'_>, areas: ValueId, d: i64) -> Result<ValueId> {
    call!(t, "div.Scalar", call!(t, "sum.dim_IntList", areas, [d])?, 2)
}

fn running_sum(t: Torch<'_>, areas: ValueId, d: i64) -> Result<ValueId> {
    call!(t, "div.Scalar", call!(t, "cumsum", areas, d)?, 2)
}

/// What `total` makes of twice the areas between places `x`.
fn by_places(t: Torch<'_>, op: &str, total: fn(Torch<'_>, ValueId, i64) -> Result<ValueId>) -> Result<ValueId> {
    let (c, b) = (t.c, t.b);
    let ((y, d), mut x) = (ordinates(t, op)?, c.tensor(b, "x")?);
    ensure_kernel!(b.dtype(x) != DType::Bool, "{op}: received a bool input for `x` or `y`, but bool is not supported");
    let (shape, places) = (b.shape(y), b.shape(x));
    let own = d as usize;
    if shape[own] == 0 && op == "trapezoid" {
        return nothing(b, y, own);
    }
    if places.len() == 1 {
        ensure!(places[0] == shape[own], "{op}: There must be one `x` value for each sample point");
        let mut lined = vec![1; shape.len()];
        lined[own] = places[0];
        x = b.reshape(x, &lined)?;
    } else if places.len() < shape.len() {
        let lined: Vec<usize> = vec![1; shape.len() - places.len()].into_iter().chain(places.iter().copied()).collect();
        x = b.reshape(x, &lined)?;
    }
    let right = call!(t, "slice_copy.Tensor", x, d, 1)?;
    let widths = call!(t, "sub.Tensor", right, call!(t, "slice_copy.Tensor", x, d, 0i64, -1)?)?;
    total(t, call!(t, "mul.Tensor", neighbours(t, y, d)?, widths)?, d)
}

/// Zeros where nothing is summed along `d`.
fn nothing(b: &Builder, y: ValueId, d: usize) -> Result<ValueId> {
    let mut shape = b.shape(y);
    shape.remove(d);
    b.full(Number::Int(0), b.dtype(y), &shape)
}

fn by_step(t: Torch<'_>) -> Result<ValueId> {
    let (y, d) = ordinates(t, "trapezoid")?;
    if t.b.shape(y)[d as usize] == 0 {
        return nothing(t.b, y, d as usize);
    }
    let end = |i: i64| call!(t, "select_copy.int", y, d, i);
    let half = call!(t, "mul.Scalar", call!(t, "add.Tensor", end(0)?, end(-1)?)?, 0.5)?;
    let inner = call!(t, "sub.Tensor", call!(t, "sum.dim_IntList", y, [d])?, half)?;
    call!(t, "mul.Scalar", inner, step(t)?)
}

/// Rows of elements whose positions rise.
fn combinations(t: Torch<'_>) -> Result<ValueId> {
    let (b, v, r) = (t.b, t.c.tensor(t.b, "self")?, t.c.int("r")?);
    let shape = b.shape(v);
    ensure!(shape.len() == 1, "Expect a 1D vector, but got shape {shape:?}");
    ensure!(r >= 0, "Expect a non-negative number, but got {r}");
    if r == 0 {
        return b.full(Number::Int(0), b.dtype(v), &[0]);
    }
    let gap = usize::from(!t.c.flag("with_replacement")?);
    let mut rows: Vec<Vec<usize>> = vec![vec![]];
    for _ in 0..r {
        let longer = rows.iter().flat_map(|row| {
            let from = row.last().map_or(0, |last| last + gap);
            (from..shape[0]).map(|next| row.iter().copied().chain([next]).collect())
        });
        rows = longer.collect();
    }
    let bytes: Vec<u8> = rows.iter().flatten().flat_map(|&i| (i as i64).to_ne_bytes()).collect();
    let places = Literal::dense(TensorType::new(DType::I64, [rows.len() * r as usize]), bytes);
    let places = b.constant(places.ok_or_else(|| Error::internal("a list of positions does not fill its shape"))?)?;
    b.reshape(call!(t, "index_select", v, 0, places)?, &[rows.len(), r as usize])
}

/// Where an affine map of the plane or of space takes the places of a picture.
fn affine_grid(t: Torch<'_>) -> Result<ValueId> {
    let (b, theta, size) = (t.b, t.c.tensor(t.b, "theta")?, t.c.sizes("size")?);
    let space = size.len().wrapping_sub(2);
    ensure!(matches!(space, 2 | 3), "AffineGridGenerator needs 4d (spatial) or 5d (volumetric) inputs.");
    let (n, extents, dtype) = (size[0], &size[2..], b.dtype(theta));
    let line = |steps: usize| -> Result<ValueId> {
        if steps <= 1 {
            return b.full(Number::Int(0), dtype, &[steps]);
        }
        let line = call!(t, "linspace", -1, 1, steps, dtype)?;
        if t.c.flag("align_corners")? {
            return Ok(line);
        }
        call!(t, "div.Scalar", call!(t, "mul.Scalar", line, steps - 1)?, steps)
    };
    let full: Vec<usize> = extents.iter().copied().chain([1]).collect();
    // The last dimension comes first.
    let mut parts =
        (0..space).rev().map(|d| b.broadcast_in_dim(line(extents[d])?, &full, &[d])).collect::<Result<Vec<_>>>()?;
    parts.push(b.full(Number::Int(1), dtype, &full)?);
    let places: usize = extents.iter().product();
    let flat = b.reshape(b.concatenate(&parts, space)?, &[places, space + 1])?;
    let each = b.broadcast_in_dim(flat, &[n, places, space + 1], &[1, 2])?;
    let moved = call!(t, "bmm", each, call!(t, "transpose_copy.int", theta, 1, 2)?)?;
    let shape: Vec<usize> = [n].into_iter().chain(extents.iter().copied()).chain([space]).collect();
    b.reshape(moved, &shape)
}

/// The number `q`, as `self` has them.
fn only_quantile(t: Torch<'_>, op: &str) -> Result<ValueId> {
    let q = t.c.float("q")?;
    ensure!((0.0..=1.0).contains(&q), "{op}() q must be in the range [0, 1] but got {q}");
    t.b.scalar(Number::Float(q), t.c.dtype_of("self")?)
}

/// The values that the parts `q` of all of them, in order, do not exceed.
fn quantile(t: Torch<'_>, skips_nan: bool, q: ValueId) -> Result<ValueId> {
    let (b, v) = (t.b, t.c.tensor(t.b, "self")?);
    let op = if skips_nan { "nanquantile" } else { "quantile" };
    let (shape, dtype) = (b.shape(v), b.dtype(v));
    let given = t.c.optional_int("dim")?;
    let d = dim(given.unwrap_or(0), shape.len())?;
    ensure!(!shape.contains(&0), "{op}() input tensor must be non-empty");
    ensure!(b.rank(q) <= 1, "{op}() q must be a scalar or 1D tensor, but got dimension: {}.", b.rank(q));
    ensure!(matches!(dtype, DType::F32 | DType::F64), "{op}() input tensor must be either float or double dtype");
    ensure!(dtype == b.dtype(q), "{op}() q tensor must be same dtype as the input tensor");
    let how = t.c.string("interpolation")?.unwrap_or("linear");
    if !matches!(how, "linear" | "lower" | "higher" | "midpoint" | "nearest") {
        invalid!("{op}() interpolation must be one of linear, lower, higher, midpoint or nearest, but got {how}");
    }
    // Lines of values, in order; the last of the lines' dimensions goes.
    let others: Vec<usize> = (0..shape.len()).filter(|&i| given.is_some() && i != d).collect();
    let order: Vec<usize> = others.iter().copied().chain((0..shape.len()).filter(|i| !others.contains(i))).collect();
    let count = order[others.len()..].iter().map(|&i| shape[i]).product::<usize>();
    let rows = others.iter().map(|&i| shape[i]).product::<usize>();
    let sorted = call!(t, "sort", b.reshape(b.transpose(v, &order)?, &[rows, count])?)?;
    let wanted = b.shape(q).iter().product::<usize>();
    let picked = interpolated(t, sorted, b.reshape(q, &[wanted])?, how, skips_nan)?;
    let mut result: Vec<usize> =
        shape.iter().enumerate().map(|(i, &n)| if others.contains(&i) { n } else { 1 }).collect();
    if !t.c.flag("keepdim")? {
        result = others.iter().map(|&i| shape[i]).collect();
    }
    if b.rank(q) == 1 {
        result.insert(0, wanted);
    }
    b.reshape(b.transpose(picked, &[1, 0])?, &result)
}

/// The values of rows, in order, at the parts `q` of their lengths: a row of these for each.
fn interpolated(t: Torch<'_>, sorted: ValueId, q: ValueId, how: &str, skips_nan: bool) -> Result<ValueId> {
    let b = t.b;
    let nan = call!(t, "isnan", sorted)?;
    let last = b.shape(sorted)[1] - 1;
    let ranks = if skips_nan {
        let left = call!(t, "sum.dim_IntList", call!(t, "logical_not", nan)?, [-1i64], true)?;
        // There may be no number at all.
        call!(t, "clamp_min", call!(t, "mul.Tensor", q, call!(t, "sub.Scalar", left, 1)?)?, 0)?
    } else {
        // NaN comes last.
        let ranks = b.broadcast_in_dim(call!(t, "mul.Scalar", q, last)?, &[b.shape(sorted)[0], b.shape(q)[0]], &[1])?;
        call!(t, "masked_fill.Scalar", ranks, call!(t, "any.dim", nan, -1, true)?, last)?
    };
    let ranks = match how {
        "lower" => call!(t, "floor", ranks)?,
        "higher" => call!(t, "ceil", ranks)?,
        "nearest" => call!(t, "round", ranks)?,
        _ => ranks,
    };
    let at = |ranks: ValueId| call!(t, "gather", sorted, -1, b.convert(ranks, DType::I64)?);
    let below = at(ranks)?;
    if !matches!(how, "linear" | "midpoint") {
        return Ok(below);
    }
    let weight = match how {
        "midpoint" => b.full_like(ranks, Number::Float(0.5))?,
        _ => call!(t, "sub.Tensor", ranks, call!(t, "floor", ranks)?)?,
    };
    call!(t, "lerp.Tensor", below, at(call!(t, "ceil", ranks)?)?, weight)
}

/// The logarithm of the gamma function of `p` variables.
fn mvlgamma(t: Torch<'_>) -> Result<ValueId> {
    let (v, p) = (t.c.tensor(t.b, "self")?, t.c.int("p")?);
    ensure!(p >= 1, "p has to be greater than or equal to 1");
    ensure!(t.b.dtype(v) != DType::Bool, "The input tensor may not be a boolean tensor.");
    let dtype = super::super::support::to_float(t.c, t.b.dtype(v));
    ensure!(!dtype.is_complex(), "mvlgamma: not implemented for '{}'", torch_name(dtype));
    let shifts = call!(t, "arange.start_step", (1 - p) as f64 * 0.5, 0.5, 0.5, dtype)?;
    let each = call!(t, "add.Tensor", shifts, call!(t, "unsqueeze_copy", v, -1)?)?;
    let sum = call!(t, "sum.dim_IntList", call!(t, "lgamma", each)?, [-1i64])?;
    call!(t, "add.Scalar", sum, (p * (p - 1)) as f64 * PI.ln() * 0.25)
}
