//! Boxes in pictures, as torchvision's `nms` takes them: which ones to keep.
//!
//! A box is `(x1, y1, x2, y2)`.

use super::bounded::Bounded;
use super::expr::formula;
use super::index::take_slices;
use super::loops::repeat;
use super::regions::column;
use super::sort::sorted;
use super::support::not_implemented;
use super::{Call, OpDef, err, ok};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::literal::Number;
use crate::op::{Binary, Comparison, Reducer, Unary};
use crate::{DType, ensure};

pub(super) static OPS: &[OpDef] = &[OpDef::bounded(
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
)];

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
