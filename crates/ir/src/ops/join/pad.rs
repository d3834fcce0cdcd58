//! Padding: constant, reflected, replicated, circular; and the gradients of the middle two.

use super::super::{Call, OpDef, Outs, Scalar, Strides, err, ok, one};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::literal::Number;
use crate::op::Reducer;
use crate::{Binary, ensure, invalid};

/// What stands beyond the edge.
#[derive(Clone, Copy, PartialEq)]
enum Edge {
    /// The elements inside, mirrored about the edge element.
    Reflect,
    /// The edge element again and again.
    Replicate,
    /// The elements from the other end.
    Circular,
}

macro_rules! edge_ops {
    ($(($forward:literal, $out:literal, $backward:literal, $grad:literal, $edge:ident, $rank:literal, $fs:expr, $bs:expr)),* $(,)?) => {
        &[$(
            OpDef::new($forward, |c, b| padded_call(c, b, Edge::$edge, $rank), $fs)
                .variants(&[$out])
                .laid_out(Strides::Suggested("self")),
            OpDef::new($backward, |c, b| backward_call(c, b, Edge::$edge, $rank), $bs)
                .variants(&[$grad])
                .laid_out(Strides::Suggested("self")),
        )*]
    };
}

pub(in super::super) static EDGE_OPS: &[OpDef] = edge_ops![
    (
        "aten::reflection_pad1d(Tensor self, SymInt[2] padding) -> Tensor",
        "reflection_pad1d.out",
        "aten::reflection_pad1d_backward(Tensor grad_output, Tensor self, SymInt[2] padding) -> Tensor",
        "reflection_pad1d_backward.grad_input",
        Reflect,
        1,
        &[
            ok("f32[2,5], [3,1]"),
            ok("f32[1,2,5], [0,4]"),
            ok("f32[2,5], [-1,2]"),
            err("f32[2,3], [3,1]", "Padding size should be less than the corresponding input dimension"),
            err("f32[3], [1,1]", "Expected 2D or 3D (batch mode) tensor with possibly 0 batch size"),
        ],
        &[ok("f32[2,9], f32[2,5], [3,1]"), ok("f32[2,6], f32[2,5], [-1,2]")]
    ),
    (
        "aten::reflection_pad2d(Tensor self, SymInt[4] padding) -> Tensor",
        "reflection_pad2d.out",
        "aten::reflection_pad2d_backward(Tensor grad_output, Tensor self, SymInt[4] padding) -> Tensor",
        "reflection_pad2d_backward.grad_input",
        Reflect,
        2,
        &[ok("f32[2,3,4], [1,2,0,2]"), ok("f32[1,2,3,4], [3,0,1,1]")],
        &[ok("f32[2,5,7], f32[2,3,4], [1,2,0,2]")]
    ),
    (
        "aten::reflection_pad3d(Tensor self, SymInt[6] padding) -> Tensor",
        "reflection_pad3d.out",
        "aten::reflection_pad3d_backward(Tensor grad_output, Tensor self, SymInt[6] padding) -> Tensor",
        "reflection_pad3d_backward.grad_input",
        Reflect,
        3,
        &[ok("f32[1,2,3,4], [1,2,0,2,1,1]")],
        &[ok("f32[1,4,5,7], f32[1,2,3,4], [1,2,0,2,1,1]")]
    ),
    (
        "aten::replication_pad1d(Tensor self, SymInt[2] padding) -> Tensor",
        "replication_pad1d.out",
        "aten::replication_pad1d_backward(Tensor grad_output, Tensor self, SymInt[2] padding) -> Tensor",
        "replication_pad1d_backward.grad_input",
        Replicate,
        1,
        &[ok("f32[2,3], [4,1]"), ok("f32[1,2,5], [-2,1]"), err("f32[2,3], [-2,-2]", "is too small. Calculated output"),],
        &[ok("f32[2,8], f32[2,3], [4,1]"), ok("f32[1,2,4], f32[1,2,5], [-2,1]")]
    ),
    (
        "aten::replication_pad2d(Tensor self, SymInt[4] padding) -> Tensor",
        "replication_pad2d.out",
        "aten::replication_pad2d_backward(Tensor grad_output, Tensor self, SymInt[4] padding) -> Tensor",
        "replication_pad2d_backward.grad_input",
        Replicate,
        2,
        &[ok("f32[2,3,4], [1,2,0,2]")],
        &[ok("f32[2,5,7], f32[2,3,4], [1,2,0,2]")]
    ),
    (
        "aten::replication_pad3d(Tensor self, SymInt[6] padding) -> Tensor",
        "replication_pad3d.out",
        "aten::replication_pad3d_backward(Tensor grad_output, Tensor self, SymInt[6] padding) -> Tensor",
        "replication_pad3d_backward.grad_input",
        Replicate,
        3,
        &[ok("f32[1,2,3,4], [1,2,0,2,1,1]")],
        &[ok("f32[1,4,5,7], f32[1,2,3,4], [1,2,0,2,1,1]")]
    ),
];

pub(in super::super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::constant_pad_nd(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor",
        |c, b| constant(c, b, Some(c.scalar("value")?)),
        &[
            ok("f32[2,3], [1,2]"),
            ok("i64[2,3], [0,1,-1,2], 7"),
            ok("bool[3], [1,0], true"),
            ok("f32[0,2], [1,1]"),
            ok("f32[2], []"),
            err("f32[2,3], [1]", "Length of pad must be even but instead it equals 1"),
            err(
                "f32[2], [1,1,1,1]",
                "Length of pad should be no more than twice the number of dimensions of the input.",
            ),
            err("f32[2], [-2,-1]", "resulted in a negative output size"),
        ],
    )
    .asked()
    .variants(&["constant_pad_nd.out"]),
    OpDef::new(
        "aten::pad(Tensor self, SymInt[] pad, str mode=\"constant\", float? value=None) -> Tensor",
        pad,
        &[
            ok("f32[2,3], [1,2]"),
            ok("f32[2,3], [1,2], 'constant', 1.5"),
            ok("f32[1,2,5], [2,1], 'reflect'"),
            ok("f32[1,2,3,4], [1,2,0,2], 'replicate'"),
            ok("f32[1,2,5], [3,5], 'circular'"),
            err("f32[1,1,4], [5,0], 'circular'", "Padding value causes wrapping around more than once."),
            err("f32[2,3], [1,1], 'foo'", "Unrecognised padding mode foo"),
            err("f32[2,3], [1,1], 'reflect', 2.0", "Padding mode \"reflect\" doesn't take in value argument"),
        ],
    ),
    OpDef::new(
        "aten::_pad_circular(Tensor self, SymInt[] pad) -> Tensor",
        |c, b| {
            let padding = c.ints("pad")?;
            edges(b, c.tensor(b, "self")?, &padding, Edge::Circular)
        },
        &[ok("f32[1,2,5], [3,5]"), ok("f32[1,1,3,4], [1,2,-1,2]")],
    ),
    OpDef::new(
        "aten::_pad_enum(Tensor self, SymInt[] pad, int mode, float? value=None) -> Tensor",
        pad_enum,
        &[ok("f32[1,2,5], [2,1], 1"), ok("f32[1,2,5], [2,1], 0"), ok("f32[1,2,5], [2,1], 3")],
    ),
];

/// `pad` names the last dimension first: (low, high) each.
fn constant(c: &Call<'_>, b: &Builder, value: Option<Scalar>) -> Result<Outs> {
    let (v, pad) = (c.tensor(b, "self")?, c.ints("pad")?);
    let t = b.ty(v)?;
    ensure!(pad.len().is_multiple_of(2), "Length of pad must be even but instead it equals {}", pad.len());
    ensure!(
        pad.len() <= 2 * t.rank(),
        "Length of pad should be no more than twice the number of dimensions of the input. Pad length is {} while the \
         input has {} dimensions.",
        pad.len(),
        t.rank()
    );
    let (mut low, mut high) = (vec![0; t.rank()], vec![0; t.rank()]);
    for (i, pair) in pad.chunks_exact(2).enumerate() {
        let d = t.rank() - 1 - i;
        (low[d], high[d]) = (pair[0], pair[1]);
        let size = (t.shape[d] as i64).saturating_add(pair[0]).saturating_add(pair[1]);
        ensure!(
            size >= 0,
            "The input size {}, plus negative padding {} and {} resulted in a negative output size, which is invalid.",
            t.shape[d],
            pair[0],
            pair[1]
        );
    }
    let value = match value {
        Some(s) => c.scalar_value(b, &s, t.dtype)?,
        None => b.scalar(Number::Int(0), t.dtype)?,
    };
    one(b.pad(v, value, &low, &high, &vec![0; t.rank()])?)
}

fn pad(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let mode = c.string("mode")?.unwrap_or("constant");
    if mode == "constant" {
        return constant(c, b, c.optional_scalar("value")?);
    }
    ensure!(!c.has("value"), "Padding mode \"{mode}\" doesn't take in value argument");
    let edge = match mode {
        "reflect" => Edge::Reflect,
        "replicate" => Edge::Replicate,
        "circular" => Edge::Circular,
        other => invalid!("Unrecognised padding mode {other}"),
    };
    pad_edges(c, b, edge)
}

fn pad_enum(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    // at::padding_mode
    let edge = match c.int("mode")? {
        0 => Edge::Reflect,
        1 => Edge::Replicate,
        2 => Edge::Circular,
        3 => return constant(c, b, c.optional_scalar("value")?),
        other => invalid!("Unrecognised padding mode {other}"),
    };
    pad_edges(c, b, edge)
}

fn pad_edges(c: &Call<'_>, b: &Builder, edge: Edge) -> Result<Outs> {
    let (v, pad) = (c.tensor(b, "self")?, c.ints("pad")?);
    let rank = b.rank(v);
    let spatial = pad.len() / 2;
    let fits = (1..=3).contains(&spatial) && (rank == spatial + 1 || rank == spatial + 2);
    ensure!(
        fits && pad.len().is_multiple_of(2),
        "Only 2D, 3D, 4D, 5D padding with non-constant padding are supported for now"
    );
    edges(b, v, &pad, edge)
}

fn padded_call(c: &Call<'_>, b: &Builder, edge: Edge, spatial: usize) -> Result<Outs> {
    let (v, padding) = (c.tensor(b, "self")?, c.ints("padding")?);
    let shape = b.shape(v);
    let rank = shape.len();
    let filled = (rank == spatial + 1 && !shape.contains(&0)) || (rank == spatial + 2 && !shape[1..].contains(&0));
    ensure!(
        filled,
        "Expected {}D or {}D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, but \
         got: {shape:?}",
        spatial + 1,
        spatial + 2
    );
    ensure!(padding.len() == 2 * spatial, "padding size is expected to be {}", 2 * spatial);
    edges(b, v, &padding, edge)
}

/// `v` with (low, high) per dimension of `padding`, the last dimension first.
fn edges(b: &Builder, v: ValueId, padding: &[i64], edge: Edge) -> Result<Outs> {
    let (shape, rank) = (b.shape(v), b.rank(v));
    ensure!(padding.len() <= 2 * rank, "padding {padding:?} names more dimensions than {shape:?} has");
    let mut out = v;
    for (i, pair) in padding.chunks_exact(2).enumerate() {
        let d = rank - 1 - i;
        check(edge, d, &shape, pair[0], pair[1])?;
        out = edge_one(b, out, d, pair[0], pair[1], edge)?;
    }
    one(out)
}

fn check(edge: Edge, d: usize, shape: &[usize], low: i64, high: i64) -> Result<()> {
    let n = shape[d] as i64;
    let size = n.saturating_add(low).saturating_add(high);
    ensure!(size >= 1, "input {shape:?} is too small. Calculated output size {size} of dimension {d}");
    match edge {
        Edge::Reflect => ensure!(
            low < n && high < n,
            "Padding size should be less than the corresponding input dimension, but got: padding ({low}, {high}) at \
             dimension {d} of input {shape:?}"
        ),
        Edge::Circular => ensure!(low <= n && high <= n, "Padding value causes wrapping around more than once."),
        Edge::Replicate => ensure!(n > 0, "replication of dimension {d} of {shape:?}, which has no elements"),
    }
    Ok(())
}

/// How many elements a padding adds, and how many it crops.
fn grow_and_crop(pad: i64) -> (usize, usize) {
    (pad.max(0) as usize, pad.min(0).unsigned_abs() as usize)
}

fn edge_one(b: &Builder, v: ValueId, d: usize, low: i64, high: i64, edge: Edge) -> Result<ValueId> {
    let n = b.shape(v)[d];
    let ((low, crop_low), (high, crop_high)) = (grow_and_crop(low), grow_and_crop(high));
    let mut parts = vec![];
    let slice = |from, to| b.slice_dim(v, d, from, to, 1);
    let middle = slice(crop_low, n - crop_high)?;
    let kept = n - crop_low - crop_high;
    if edge == Edge::Circular {
        ensure!(low <= kept && high <= kept, "Padding value causes wrapping around more than once.");
    }
    if low > 0 {
        parts.push(match edge {
            Edge::Reflect => b.reverse(slice(1, low + 1)?, &[d])?,
            Edge::Replicate => spread(b, slice(0, 1)?, d, low)?,
            Edge::Circular => b.slice_dim(middle, d, kept - low, kept, 1)?,
        });
    }
    parts.push(middle);
    if high > 0 {
        parts.push(match edge {
            Edge::Reflect => b.reverse(slice(n - 1 - high, n - 1)?, &[d])?,
            Edge::Replicate => spread(b, slice(n - 1, n)?, d, high)?,
            Edge::Circular => b.slice_dim(middle, d, 0, high, 1)?,
        });
    }
    b.concatenate(&parts, d)
}

/// One slice repeated along `d`.
fn spread(b: &Builder, v: ValueId, d: usize, count: usize) -> Result<ValueId> {
    let mut shape = b.shape(v);
    shape[d] = count;
    b.broadcast_in_dim(v, &shape, &(0..shape.len()).collect::<Vec<_>>())
}

fn backward_call(c: &Call<'_>, b: &Builder, edge: Edge, spatial: usize) -> Result<Outs> {
    let (grad, padding) = (c.tensor(b, "grad_output")?, c.ints("padding")?);
    let shape = c.layout("self")?.sizes;
    let rank = shape.len();
    ensure!(
        b.rank(grad) == rank && rank > spatial && padding.len() == 2 * spatial,
        "gradient {:?} and padding {padding:?} do not fit input {shape:?}",
        b.shape(grad)
    );
    let dtype = b.dtype(grad);
    let mut out = b.convert(grad, dtype.accumulator())?;
    for (i, pair) in padding.chunks_exact(2).enumerate() {
        let d = rank - 1 - i;
        check(edge, d, &shape, pair[0], pair[1])?;
        let expected = shape[d] as i64 + pair[0] + pair[1];
        let got = b.shape(grad)[d];
        ensure!(
            expected == got as i64,
            "gradOutput size of dimension {d} unexpected. Expected: {expected}, Got: {got}"
        );
        out = edge_one_backward(b, out, d, shape[d], (pair[0], pair[1]), edge)?;
    }
    one(b.convert(out, dtype)?)
}

/// Each element of the padded `grad` added to the element it was copied from, of `n` along `d`.
fn edge_one_backward(
    b: &Builder,
    grad: ValueId,
    d: usize,
    n: usize,
    (low, high): (i64, i64),
    edge: Edge,
) -> Result<ValueId> {
    let size = b.shape(grad)[d];
    let ((low, crop_low), (high, _)) = (grow_and_crop(low), grow_and_crop(high));
    let slice = |from, to| b.slice_dim(grad, d, from, to, 1);
    let mut sum = into_extent(b, slice(low, size - high)?, d, crop_low, n)?;
    let mut add = |part: ValueId, at: usize| -> Result<()> {
        sum = b.binary(Binary::Add, sum, into_extent(b, part, d, at, n)?)?;
        Ok(())
    };
    if low > 0 {
        let part = slice(0, low)?;
        match edge {
            Edge::Reflect => add(b.reverse(part, &[d])?, 1)?,
            Edge::Replicate => add(total(b, part, d)?, 0)?,
            Edge::Circular => add(part, n - low)?,
        }
    }
    if high > 0 {
        let part = slice(size - high, size)?;
        match edge {
            Edge::Reflect => add(b.reverse(part, &[d])?, n - 1 - high)?,
            Edge::Replicate => add(total(b, part, d)?, n - 1)?,
            Edge::Circular => add(part, 0)?,
        }
    }
    Ok(sum)
}

/// The sum along `d`, which stays with extent 1.
fn total(b: &Builder, v: ValueId, d: usize) -> Result<ValueId> {
    let mut shape = b.shape(v);
    shape[d] = 1;
    b.reshape(b.reduce(v, Reducer::Add, &[d])?, &shape)
}

/// `v` from position `at` of an otherwise zero dimension of `n` elements.
fn into_extent(b: &Builder, v: ValueId, d: usize, at: usize, n: usize) -> Result<ValueId> {
    let shape = b.shape(v);
    let (mut low, mut high) = (vec![0; shape.len()], vec![0; shape.len()]);
    (low[d], high[d]) = (at as i64, n as i64 - (at + shape[d]) as i64);
    b.pad(v, b.scalar(Number::Int(0), b.dtype(v))?, &low, &high, &vec![0; shape.len()])
}
