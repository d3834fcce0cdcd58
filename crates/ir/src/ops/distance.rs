//! Distances and similarities of vectors.

use super::expr::formula;
use super::resample::take;
use super::support::{self, broadcast_shapes, broadcast_to, not_implemented, torch_name, unsqueeze};
use super::{Call, OpDef, Outs, err, ok, one};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::types::{Dims, Shape};
use crate::{DType, Number, Reducer, ensure, ensure_kernel};

pub(super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor",
        cosine_similarity,
        &[
            ok("f32[2,3], f32[3]"),
            ok("f32[2,3,4], f32[2,3,4], -1"),
            ok("f32[2,3]{0}, f32[2,3]"),
            ok("bf16[2,8]{0..1}, bf16[2,8]{0..1}"),
            err("i64[2,3], i64[2,3]", "expected common dtype to be floating point, yet common dtype is Long"),
        ],
    ),
    OpDef::new(
        "aten::pairwise_distance(Tensor x1, Tensor x2, float p=2., float eps=9.9999999999999995e-07, bool keepdim=False) -> Tensor",
        pairwise_distance,
        &[
            ok("f32[2,3], f32[2,3]"),
            ok("f32[2,3], f32[3], 1.0, 1e-6, true"),
            ok("f32[3], f32[3], 3.0"),
            ok("f32[2,3], f32[2,3], inf"),
        ],
    ),
    OpDef::new(
        "aten::_cdist_forward(Tensor x1, Tensor x2, float p, int? compute_mode) -> Tensor",
        cdist,
        &[
            ok("f32[2,3], f32[4,3], 2.0, none"),
            ok("f32[5,1,2,3], f32[6,4,3], 1.0, none"),
            ok("f64[2,3], f64[4,3], 3.5, none"),
            ok("f32[2,3], f32[4,3], 0.0, 2"),
            ok("f32[2,3], f32[4,3], inf, none"),
            ok("f32[2,0], f32[4,0], 2.0, none"),
            err("f32[2,3], f32[4,2], 2.0, none", "X1 and X2 must have the same number of columns. X1: 3 X2: 2"),
            err("f32[3], f32[4,3], 2.0, none", "cdist only supports at least 2D tensors, X1 got: 1D"),
            err("f32[2,3], f32[4,3], -2.0, none", "cdist only supports non-negative p values"),
        ],
    )
    .variants(&["_cdist_forward.out"]),
    OpDef::new(
        "aten::cdist(Tensor x1, Tensor x2, float p=2., int? compute_mode=None) -> Tensor",
        cdist,
        &[
            ok("f32[2,3], f32[4,3]"),
            ok("f32[5,2,3], f32[5,4,3], 1.0"),
            err("f32[2,3], f32[4,3], 2.0, 3", "possible modes: 0, 1, 2, but was: 3"),
        ],
    ),
    OpDef::new(
        "aten::_cdist_backward(Tensor grad_output, Tensor x1, Tensor x2, float p, Tensor cdist) -> Tensor",
        cdist_backward,
        &[
            ok("f32[2,4], f32[2,3], f32[4,3], 2.0, f32[2,4]{0,1,2,3}"),
            ok("f32[5,2,4], f32[5,2,3], f32[5,4,3], 1.0, f32[5,2,4]{0..4}"),
            ok("f64[2,4], f64[2,3], f64[4,3], 3.5, f64[2,4]{1..4}"),
            ok("f64[2,2], f64[2,3], f64[2,3], 1.5, f64[2,2]{1..4}"),
            ok("f64[2,4], f64[2,3], f64[4,3], 0.5, f64[2,4]{1..4}"),
            ok("f32[2,2], f32[2,2]{1,2,3,4}, f32[2,2]{1,4,3,3}, inf, f32[2,2]{2,2,2,1}"),
            ok("f32[2,4], f32[2,3], f32[4,3], 0.0, f32[2,4]"),
            ok("f32[2,4], f32[2,0], f32[4,0], 2.0, f32[2,4]"),
            ok("f32[0,2,4], f32[2,3], f32[0,4,3], 3.0, f32[0,2,4]"),
            ok("f32[2,2,0], f32[2,3], f32[2,0,3], 3.0, f32[2,2,0]"),
        ],
    )
    .variants(&["_cdist_backward.out"]),
    OpDef::new(
        "aten::_pdist_forward(Tensor self, float p=2.) -> Tensor",
        pdist,
        &[
            ok("f32[4,3]"),
            ok("f64[4,3], 1.5"),
            ok("f32[4,3], inf"),
            ok("f32[4,3], 0.0"),
            ok("f32[1,3]"),
            ok("f32[3,0], 1.0"),
            err("bf16[3,2]", "\"pdist\" not implemented for 'BFloat16'"),
        ],
    )
    .variants(&["_pdist_forward.out"]),
    OpDef::new(
        "aten::_pdist_backward(Tensor grad_output, Tensor self, float p, Tensor pdist) -> Tensor",
        pdist_backward,
        &[
            ok("f32[6], f32[4,3], 2.0, f32[6]{1..3}"),
            ok("f64[6], f64[4,3], 1.5, f64[6]{1..3}"),
            ok("f32[3], f32[3,2]{1,2,3,4,1,4}, inf, f32[3]{2}"),
            ok("f32[0], f32[1,3], 2.0, f32[0]"),
        ],
    )
    .variants(&["_pdist_backward.out"]),
    OpDef::new(
        "aten::linalg_cross(Tensor self, Tensor other, *, int dim=-1) -> Tensor",
        cross,
        &[
            ok("f32[2,3], f32[2,3]"),
            ok("f32[3,4], f32[3,1], dim=0"),
            ok("i64[3], i64[3]"),
            ok("c64[2,3], c64[1,3]"),
            ok("bf16[8,3], bf16[8,3]"),
            err("f32[2,3], f32[3]", "linalg.cross: inputs must have the same number of dimensions."),
            err("f32[2,3], f32[1,2]", "linalg.cross: inputs dimension -1 must have length 3. Got 3 and 2"),
            err("bool[3], bool[3]", "\"cross\" not implemented for 'Bool'"),
        ],
    )
    .variants(&["linalg_cross.out"]),
];

/// The `p`-norm of `v` along `dim`, in `v`'s type.
fn norm(b: &Builder, v: ValueId, p: f64, dim: usize) -> Result<ValueId> {
    let reduce = |v, reducer| b.reduce(v, reducer, &[dim]);
    let magnitude = b.unary(crate::Unary::Abs, v)?;
    if p == f64::INFINITY {
        return formula(b, [reduce(magnitude, Reducer::Maximum)?], |[m]| m.max(0.0));
    }
    if p == 0.0 {
        let counted = formula(b, [magnitude], |[m]| m.differs(0.0).select(m.constant(1.0), 0.0))?;
        return reduce(counted, Reducer::Add);
    }
    if p == 1.0 {
        return reduce(magnitude, Reducer::Add);
    }
    if p == 2.0 {
        return formula(b, [reduce(b.multiply(v, v)?, Reducer::Add)?], |[s]| s.sqrt());
    }
    let powers = formula(b, [magnitude], |[m]| m.pow(p))?;
    formula(b, [reduce(powers, Reducer::Add)?], |[s]| s.pow(1.0 / p))
}

/// Both operands promoted, broadcast, in the accumulation type, with the type they were promoted to.
fn aligned(c: &Call<'_>, b: &Builder) -> Result<(ValueId, ValueId, DType)> {
    let (x, y) = (c.tensor(b, "x1")?, c.tensor(b, "x2")?);
    let dtype = support::result_type(c, b, &[x.into(), y.into()])?;
    let shape = broadcast_shapes([&b.shape(x), &b.shape(y)])?;
    let wide = |v| broadcast_to(b, b.convert(b.convert(v, dtype)?, dtype.accumulator())?, &shape);
    Ok((wide(x)?, wide(y)?, dtype))
}

fn cosine_similarity(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (x, y, dtype) = aligned(c, b)?;
    ensure!(dtype.is_float(), "expected common dtype to be floating point, yet common dtype is {}", torch_name(dtype));
    let dim = support::dim(c.int("dim")?, b.rank(x))?;
    let eps = c.float("eps")?;
    let unit = |v| {
        let length = super::softmax::over(b, norm(b, v, 2.0, dim)?, v, dim)?;
        formula(b, [v, length], |[v, n]| v / n.max(eps))
    };
    let product = b.multiply(unit(x)?, unit(y)?)?;
    one(b.convert(b.reduce(product, Reducer::Add, &[dim])?, dtype)?)
}

fn pairwise_distance(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (x, y, dtype) = aligned(c, b)?;
    let (eps, p) = (c.float("eps")?, c.float("p")?);
    ensure_kernel!(dtype.is_float(), "linalg.vector_norm: Expected a floating point or complex tensor as input");
    ensure!(b.rank(x) > 0, "Dimension specified as -1 but tensor has no dimensions");
    let difference = formula(b, [x, y], |[x, y]| x - y + eps)?;
    let dim = b.rank(x) - 1;
    let length = b.convert(norm(b, difference, p, dim)?, dtype)?;
    one(if c.flag("keepdim")? { unsqueeze(b, length, &[dim])? } else { length })
}

/// What flows into each first row of all pairs, summed over the second ones (dimension `dim - 1`, before the columns):
/// the derivative of the distances `length` of `difference`, times `grad`.
fn pulled(b: &Builder, p: f64, difference: ValueId, length: ValueId, grad: ValueId, dim: usize) -> Result<ValueId> {
    let shape = b.shape(difference);
    let lead: Dims = (0..dim).collect();
    let each = |v| b.broadcast_in_dim(v, &shape, &lead);
    let parts = formula(b, [difference, each(length)?, each(grad)?], |[d, length, g]| {
        let (zero, size) = (d.constant(0.0), d.abs());
        if p == 0.0 {
            zero
        } else if p == 1.0 {
            d.sign() * g
        } else if p == 2.0 {
            length.equals(0.0).select(zero, g * d / length)
        } else if p == f64::INFINITY {
            size.equals(length).select(d.sign() * g, 0.0)
        } else {
            let none = length.equals(0.0) | if p < 1.0 { d.equals(0.0) } else { length.equals(0.0) };
            none.select(zero, d.sign() * size.pow(p - 1.0) * g / length.pow(p - 1.0))
        }
    })?;
    b.reduce(parts, Reducer::Add, &[dim - 1])
}

fn cdist_backward(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (x, y, p) = (c.tensor(b, "x1")?, c.tensor(b, "x2")?, c.float("p")?);
    let (length, grad) = (c.tensor(b, "cdist")?, c.tensor(b, "grad_output")?);
    let difference = differences(b, x, y)?;
    let dim = b.rank(difference) - 1;
    let expected = &b.shape(difference)[..dim];
    for v in [length, grad] {
        ensure!(b.shape(v)[..] == *expected, "the distances are {expected:?}, but a tensor of them {:?}", b.shape(v));
    }
    if b.shape(difference).contains(&0) {
        return one(b.full_like(x, Number::Int(0))?); // PyTorch broadcasts batches only where there is something to add
    }
    one(pulled(b, p, difference, length, grad, dim)?)
}

/// `[..., n, k]` and `[..., m, k]` to the differences of all pairs of rows, `[..., n, m, k]`.
fn differences(b: &Builder, x: ValueId, y: ValueId) -> Result<ValueId> {
    let (s, t) = (b.shape(x), b.shape(y));
    let (m, n) = (s.len(), t.len());
    ensure!(m >= 2 && n >= 2, "distances of all pairs need matrices, not {s:?} and {t:?}");
    let lead = broadcast_shapes([&Shape::from(&s[..m - 2]), &Shape::from(&t[..n - 2])])?;
    let pairs: Shape = lead.iter().copied().chain([s[m - 2], t[n - 2], s[m - 1]]).collect();
    let left = broadcast_to(b, unsqueeze(b, x, &[m - 1])?, &pairs)?;
    b.subtract(left, broadcast_to(b, unsqueeze(b, y, &[n - 2])?, &pairs)?)
}

/// The rows of each pair of `n`, the first before the second, in order.
fn pairs(n: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..n).flat_map(move |i| (i + 1..n).map(move |j| (i, j)))
}

fn check_pdist(c: &Call<'_>, b: &Builder) -> Result<ValueId> {
    let (v, p) = (c.tensor(b, "self")?, c.float("p")?);
    ensure!(b.rank(v) == 2, "pdist only supports 2D tensors, got: {}D", b.rank(v));
    ensure!(p >= 0.0, "pdist only supports non-negative p values");
    match b.dtype(v) {
        DType::F32 | DType::F64 => Ok(v),
        other => not_implemented("pdist", other),
    }
}

/// The distance of each pair of rows, once.
fn pdist(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (v, p) = (check_pdist(c, b)?, c.float("p")?);
    let (firsts, seconds): (Vec<usize>, Vec<usize>) = pairs(b.shape(v)[0]).unzip();
    if firsts.is_empty() || b.shape(v)[1] == 0 {
        return one(b.full(Number::Int(0), b.dtype(v), &[firsts.len()])?);
    }
    one(distance(b, b.subtract(take(b, v, 0, &firsts)?, take(b, v, 0, &seconds)?)?, p, 1)?)
}

/// As for all pairs of rows, whose distances are those of the pairs in either order.
fn pdist_backward(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (v, p) = (check_pdist(c, b)?, c.float("p")?);
    let (length, grad, n) = (c.tensor(b, "pdist")?, c.tensor(b, "grad_output")?, b.shape(v)[0]);
    let count = pairs(n).count();
    if count == 0 || b.shape(v)[1] == 0 {
        return one(b.full_like(v, Number::Int(0))?);
    }
    let mut place = vec![count; n * n];
    for (at, (i, j)) in pairs(n).enumerate() {
        (place[i * n + j], place[j * n + i]) = (at, at);
    }
    let both_ways = |v| -> Result<ValueId> {
        let fits = b.shape(v)[..] == [count];
        ensure!(fits, "the distances of {n} rows are [{count}], but a tensor of them {:?}", b.shape(v));
        // What stands at `count` is for a row and itself.
        let v = b.pad(v, b.scalar(Number::Int(0), b.dtype(v))?, &[0], &[1], &[0])?;
        b.reshape(take(b, v, 0, &place)?, &[n, n])
    };
    one(pulled(b, p, differences(b, v, v)?, both_ways(length)?, both_ways(grad)?, 2)?)
}

fn cross(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (x, y) = (c.tensor(b, "self")?, c.tensor(b, "other")?);
    let (s, t, at) = (b.shape(x), b.shape(y), c.int("dim")?);
    ensure!(s.len() == t.len(), "linalg.cross: inputs must have the same number of dimensions.");
    let d = support::dim(at, s.len())?;
    let three = !s.is_empty() && s[d] == 3 && t[d] == 3;
    let (m, n) = (s.get(d).copied().unwrap_or(1), t.get(d).copied().unwrap_or(1));
    ensure!(three, "linalg.cross: inputs dimension {at} must have length 3. Got {m} and {n}");
    let [dtype, other] = [b.dtype(x), b.dtype(y)];
    ensure!(dtype == other, "expected scalar type {} but found {}", torch_name(dtype), torch_name(other));
    if dtype == DType::Bool {
        return not_implemented("cross", dtype);
    }
    let shape = broadcast_shapes([&s, &t])?;
    let wide = |v| broadcast_to(b, b.convert(v, dtype.accumulator())?, &shape);
    let (x, y) = (wide(x)?, wide(y)?);
    let [x1, x2, y1, y2] = [
        take(b, x, d, &[1, 2, 0])?,
        take(b, x, d, &[2, 0, 1])?,
        take(b, y, d, &[1, 2, 0])?,
        take(b, y, d, &[2, 0, 1])?,
    ];
    one(b.convert(b.subtract(b.multiply(x1, y2)?, b.multiply(x2, y1)?)?, dtype)?)
}

/// The `p`-norm of differences along `dim`; unlike a vector's 0-norm, one that counts keeps NaN.
fn distance(b: &Builder, difference: ValueId, p: f64, dim: usize) -> Result<ValueId> {
    if p == 0.0 {
        let counted = formula(b, [difference], |[d]| d.abs().ceil().min(1.0))?;
        return b.reduce(counted, Reducer::Add, &[dim]);
    }
    norm(b, difference, p, dim)
}

/// Distances of all pairs of rows.
fn cdist(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (x, y, p) = (c.tensor(b, "x1")?, c.tensor(b, "x2")?, c.float("p")?);
    let (s, t) = (b.shape(x), b.shape(y));
    for (shape, name) in [(&s, "X1"), (&t, "X2")] {
        ensure!(shape.len() >= 2, "cdist only supports at least 2D tensors, {name} got: {}D", shape.len());
    }
    let (m, n) = (s.len(), t.len());
    let (k, l) = (s[m - 1], t[n - 1]);
    ensure!(k == l, "X1 and X2 must have the same number of columns. X1: {k} X2: {l}");
    ensure!(p >= 0.0, "cdist only supports non-negative p values");
    if let Some(mode) = c.optional_int("compute_mode")? {
        ensure!((0..=2).contains(&mode), "possible modes: 0, 1, 2, but was: {mode}");
    }
    let [d, e] = [b.dtype(x), b.dtype(y)];
    ensure!(d == e, "expected scalar type {} but found {}", torch_name(d), torch_name(e));
    ensure_kernel!(matches!(d, DType::F32 | DType::F64), "\"cdist\" not implemented for '{}'", torch_name(d));
    let difference = differences(b, x, y)?;
    one(distance(b, difference, p, b.rank(difference) - 1)?)
}
