//! Distances and similarities of vectors.

use super::expr::formula;
use super::support::{self, broadcast_shapes, broadcast_to, torch_name, unsqueeze};
use super::{Call, OpDef, Outs, err, ok, one};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::types::Shape;
use crate::{DType, Reducer, ensure};

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
    let dtype = support::result_type(c, b, &[x.into(), y.into()]);
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
    ensure!(dtype.is_float(), "linalg.vector_norm: Expected a floating point or complex tensor as input");
    ensure!(b.rank(x) > 0, "Dimension specified as -1 but tensor has no dimensions");
    let difference = formula(b, [x, y], |[x, y]| x - y + eps)?;
    let dim = b.rank(x) - 1;
    let length = b.convert(norm(b, difference, p, dim)?, dtype)?;
    one(if c.flag("keepdim")? { unsqueeze(b, length, &[dim])? } else { length })
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
    ensure!(matches!(d, DType::F32 | DType::F64), "\"cdist\" not implemented for '{}'", torch_name(d));
    let lead = broadcast_shapes([&Shape::from(&s[..m - 2]), &Shape::from(&t[..n - 2])])?;
    let pairs: Shape = lead.iter().copied().chain([s[m - 2], t[n - 2], k]).collect();
    let left = broadcast_to(b, unsqueeze(b, x, &[m - 1])?, &pairs)?;
    let right = broadcast_to(b, unsqueeze(b, y, &[n - 2])?, &pairs)?;
    let (difference, dim) = (b.subtract(left, right)?, pairs.len() - 1);
    if p == 0.0 {
        // Unlike a vector's norm, NaN stays.
        let counted = formula(b, [difference], |[d]| d.abs().ceil().min(1.0))?;
        return one(b.reduce(counted, Reducer::Add, &[dim])?);
    }
    one(norm(b, difference, p, dim)?)
}
