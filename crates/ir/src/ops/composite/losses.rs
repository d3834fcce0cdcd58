//! Losses, normalised weights, bags of embeddings and padded sequences as users call them.

use super::super::loss::{reduced, reduction};
use super::super::support::dim;
use super::super::{Call, OpDef, Outs, err, ok, one};
use super::{Torch, call, composite, renamed};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::{DType, Number, ensure};

pub(in super::super) static OPS: &[OpDef] = &[
    composite!(
        "_weight_norm(Tensor v, Tensor g, int dim=0) -> Tensor",
        weight_norm,
        &[
            ok("f32[2,3], f32[2,1]"),
            ok("f32[2,3,4], f32[1,1,4], 2"),
            ok("f32[2,3,4], f32[1,3,1], 1"),
            ok("f64[2,3], f64[], -1"),
            ok("bf16[4,8], bf16[4,1]"),
        ]
    ),
    composite!(
        "norm_except_dim(Tensor v, int pow=2, int dim=0) -> Tensor",
        |t| norm_except(t, t.c.tensor(t.b, "v")?, t.c.int("pow")?, t.c.int("dim")?),
        &[ok("f32[2,3,4]"), ok("f32[2,3,4], 1, 2"), ok("f64[2,3,4], 2, 1"), ok("f32[4]"), ok("f32[2,3], 2, -1")]
    ),
    OpDef::new(
        "aten::embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, \
         bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False) -> \
         (Tensor, Tensor, Tensor, Tensor)",
        |c, b| Torch::new(c, b).renamed("aten::_embedding_bag"),
        &[
            ok("f32[10,3], i64[6]{0..10}, i64[3]{0,2,2}"),
            ok("f64[10,3], i64[6]{0..10}, i64[4]{0,2,2,6}, false, 1, include_last_offset=true"),
        ],
    ),
    OpDef::new(
        "aten::embedding_bag.padding_idx(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq, int mode, \
         bool sparse, Tensor? per_sample_weights, bool include_last_offset, int? padding_idx) -> \
         (Tensor, Tensor, Tensor, Tensor)",
        padded_bags,
        &[
            ok("f32[4,3], i64[6]{0..4}, i64[3]{0,2,4}, false, 1, false, none, false, -3"),
            ok("f32[4,3], i64[6]{0..4}, i64[3]{0,2,4}, false, 0, false, f32[6], false, none"),
            err(
                "f32[4,3], i64[6]{0..4}, i64[3]{0,2,4}, false, 0, false, none, false, 4",
                "padding_idx must be within the number of embeddings, -4 through 3, but got 4",
            ),
        ],
    ),
    composite!(
        "triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float margin=1., float p=2., \
         float eps=9.9999999999999995e-07, bool swap=False, int reduction=1) -> Tensor",
        triplet,
        &[
            ok("f32[3,4], f32[3,4], f32[3,4]"),
            ok("f64[3,4], f64[3,4], f64[3,4], 2, 1.5, 1e-6, true, 0"),
            ok("f32[4], f32[4], f32[4], 1, 2, 1e-6, false, 2"),
            err(
                "f32[3,4], f32[3,4], f32[4]",
                "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: \
                 anchor 2D, positive 2D, and negative 1D inputs",
            ),
        ]
    ),
    composite!(
        "cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin=0., int reduction=1) -> Tensor",
        cosine,
        &[
            ok("f32[3,4], f32[3,4], i64[3]{1,-1,1}"),
            ok("f64[3,4], f64[3,4], f64[3]{1,-1,0}, 0.25, 0"),
            ok("f32[4], f32[4], i64[]{-1}, 0.5, 2"),
            ok("bf16[3,4], bf16[3,4], i64[3]{1,-1,1}, 0, 0"),
            err("f32[3,4], f32[3,4], i64[1,3]", "0D or 1D target tensor expected, multi-target not supported"),
            err("f32[4], f32[4], i64[1]", "1D target tensor expects 2D input tensors"),
            err("f32[3,4], f32[3,4], i64[]", "0D target tensor expects 1D input tensors"),
        ]
    ),
    composite!(
        "margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0., int reduction=1) -> Tensor",
        ranking,
        &[
            ok("f32[3], f32[3], f32[3]{1,-1}"),
            ok("f64[3,1], f64[3], f64[3]{1,-1}, 0.5, 0"),
            err("f32[3], f32[4], f32[3]", "must match the size of tensor b (4)"),
        ]
    ),
    renamed!(
        "multilabel_margin_loss(Tensor self, Tensor target, int reduction=1) -> Tensor",
        "multilabel_margin_loss_forward",
        &[ok("f32[2,3], i64[2,3]{0,-1,1,1,0,-1}"), ok("f64[4], i64[4]{3,0,-1,1}, 2")]
    )
    .variants(&["multilabel_margin_loss.out"]),
    composite!(
        "pdist(Tensor self, float p=2.) -> Tensor",
        pdist,
        &[
            ok("f32[4,3]"),
            ok("f64[4,3], 1.5"),
            ok("f32[1,3]"),
            err("f32[3]", "pdist only supports 2D tensors, got: 1D"),
            err("f32[3,3], -1", "pdist only supports non-negative p values"),
            err("i64[3,3]", "pdist only supports floating-point dtypes"),
        ]
    ),
    OpDef::new(
        "aten::pad_sequence(Tensor[] sequences, bool batch_first=False, float padding_value=0., str padding_side='right') -> Tensor",
        pad_sequence,
        &[
            ok("[f32[3], f32[2]]"),
            ok("[f32[3,2], f32[1,2], f32[2,2]], true, -1.5"),
            ok("[i64[3,2], i64[1,2]], false, 2, 'left'"),
            err("[f32[3], f32[2]], false, 0, 'x'", "Expected padding_side to be one of left or right, but got x"),
            err("[f32[3,2], f32[2,3]]", "must match"),
        ],
    ),
];

fn weight_norm(t: Torch<'_>) -> Result<ValueId> {
    let (v, g, d) = (t.c.tensor(t.b, "v")?, t.c.tensor(t.b, "g")?, t.c.int("dim")?);
    let half = t.b.dtype(v) == DType::F16 || t.b.dtype(g) == DType::F16;
    if !half && (d == 0 || d + 1 == t.b.rank(v) as i64) {
        return call!(t, "_weight_norm_interface", v, g, d);
    }
    call!(t, "mul.Tensor", v, call!(t, "div.Tensor", g, norm_except(t, v, 2, d)?)?)
}

/// The norms of the slices along a dimension, or, for -1, that of everything.
fn norm_except(t: Torch<'_>, v: ValueId, pow: i64, d: i64) -> Result<ValueId> {
    if d == -1 {
        return call!(t, "norm.Scalar", v, pow);
    }
    let (b, shape) = (t.b, t.b.shape(v));
    let d = dim(d, shape.len())?;
    let n = shape.get(d).copied().unwrap_or(1);
    let order: Vec<usize> = (0..shape.len()).filter(|&i| i == d).chain((0..shape.len()).filter(|&i| i != d)).collect();
    let rest = shape.iter().enumerate().filter(|&(i, _)| i != d).map(|(_, &n)| n).product();
    let lines = b.reshape(b.transpose(v, &order)?, &[n, rest])?;
    let mut kept = vec![1; shape.len()];
    kept[d] = n;
    b.reshape(call!(t, "norm.ScalarOpt_dim", lines, pow, [1i64])?, &kept)
}

fn padded_bags(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let mut padding = -1;
    if let Some(given) = c.optional_int("padding_idx")? {
        let n = b.shape(c.tensor(b, "weight")?).first().copied().unwrap_or(0) as i64;
        ensure!(
            (-n..n).contains(&given),
            "padding_idx must be within the number of embeddings, -{n} through {}, but got {given}",
            n - 1
        );
        padding = if given < 0 { given + n } else { given };
    }
    Torch::new(c, b).renamed_with("aten::_embedding_bag", "padding_idx", Number::Int(padding))
}

fn triplet(t: Torch<'_>) -> Result<ValueId> {
    let (c, b) = (t.c, t.b);
    let [anchor, positive, negative] = [c.tensor(b, "anchor")?, c.tensor(b, "positive")?, c.tensor(b, "negative")?];
    let [a, p, n] = [b.rank(anchor), b.rank(positive), b.rank(negative)];
    ensure!(
        a == p && p == n,
        "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: anchor \
         {a}D, positive {p}D, and negative {n}D inputs"
    );
    let distance = |x, y| call!(t, "pairwise_distance", x, y, c.scalar("p")?, c.scalar("eps")?);
    let (near, mut far) = (distance(anchor, positive)?, distance(anchor, negative)?);
    if c.flag("swap")? {
        far = call!(t, "minimum", far, distance(positive, negative)?)?;
    }
    let apart = call!(t, "sub.Tensor", call!(t, "add.Scalar", near, c.scalar("margin")?)?, far)?;
    reduced(b, call!(t, "clamp_min", apart, 0)?, reduction(c)?)
}

fn cosine(t: Torch<'_>) -> Result<ValueId> {
    let (c, b) = (t.c, t.b);
    let [x, y, target] = [c.tensor(b, "input1")?, c.tensor(b, "input2")?, c.tensor(b, "target")?];
    let d = b.rank(target);
    ensure!(d <= 1, "0D or 1D target tensor expected, multi-target not supported");
    ensure!(
        b.rank(x) == d + 1 && b.rank(y) == d + 1,
        "{d}D target tensor expects {}D input tensors, but found inputs with sizes {:?} and {:?}.",
        d + 1,
        b.shape(x),
        b.shape(y)
    );
    let dot = |x, y| call!(t, "sum.dim_IntList", call!(t, "mul.Tensor", x, y)?, [d as i64]);
    let square = |x| call!(t, "add.Scalar", dot(x, x)?, 1e-12);
    let length = call!(t, "sqrt", call!(t, "mul.Tensor", square(x)?, square(y)?)?)?;
    let cos = call!(t, "div.Tensor", dot(x, y)?, length)?;
    let zeros = b.full_like(cos, Number::Int(0))?;
    let is = |label: i32| call!(t, "eq.Scalar", target, label);
    let alike = call!(t, "where.self", is(1)?, call!(t, "rsub.Scalar", cos, 1)?, zeros)?;
    let over = call!(t, "clamp_min", call!(t, "sub.Scalar", cos, c.scalar("margin")?)?, 0)?;
    let unlike = call!(t, "where.self", is(-1)?, over, zeros)?;
    reduced(b, call!(t, "add.Tensor", alike, unlike)?, reduction(c)?)
}

fn ranking(t: Torch<'_>) -> Result<ValueId> {
    let (c, b) = (t.c, t.b);
    let apart = call!(t, "sub.Tensor", c.tensor(b, "input1")?, c.tensor(b, "input2")?)?;
    let turned = call!(t, "neg", c.tensor(b, "target")?)?;
    let losses = call!(t, "add.Scalar", call!(t, "mul.Tensor", turned, apart)?, c.scalar("margin")?)?;
    reduced(b, call!(t, "clamp_min", losses, 0)?, reduction(c)?)
}

fn pdist(t: Torch<'_>) -> Result<ValueId> {
    let (v, p) = (t.c.tensor(t.b, "self")?, t.c.float("p")?);
    ensure!(t.b.rank(v) == 2, "pdist only supports 2D tensors, got: {}D", t.b.rank(v));
    ensure!(t.b.dtype(v).is_float(), "pdist only supports floating-point dtypes");
    ensure!(p >= 0.0, "pdist only supports non-negative p values");
    call!(t, "_pdist_forward", v, p)
}

fn pad_sequence(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (t, sequences, side) = (Torch::new(c, b), c.tensors(b, "sequences")?, c.string("padding_side")?);
    let side = side.unwrap_or("right");
    ensure!(!sequences.is_empty(), "received an empty list of sequences");
    ensure!(matches!(side, "left" | "right"), "Expected padding_side to be one of left or right, but got {side}.");
    let first = b.shape(sequences[0]);
    let longest = sequences.iter().filter_map(|&v| b.shape(v).first().copied()).max().unwrap_or(0);
    let padded = sequences.iter().map(|&v| {
        let shape = b.shape(v);
        let fits = !shape.is_empty() && shape[1..] == first[1..];
        ensure!(fits, "The sizes of sequences must match behind the first dimension: {first:?} and {shape:?}");
        let missing = (longest - shape[0]) as i64;
        // Pairs from the last dimension on.
        let mut pad = vec![0i64; 2 * shape.len()];
        let last = pad.len() - if side == "left" { 2 } else { 1 };
        pad[last] = missing;
        let v = call!(t, "constant_pad_nd", v, pad, c.scalar("padding_value")?)?;
        b.convert(v, b.dtype(sequences[0]))
    });
    let padded = padded.collect::<Result<Vec<_>>>()?;
    one(call!(t, "stack", padded, if c.flag("batch_first")? { 0 } else { 1 })?)
}
