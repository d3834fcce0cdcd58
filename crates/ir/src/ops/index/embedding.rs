//! Rows of a table, and what flows back into it.

use super::super::positions::with_part;
use super::super::reduce::norms::shortened;
use super::super::support::{dim, torch_name, unsqueeze};
use super::super::views::layout::{select_index, slice_bounds};
use super::super::{Call, OpDef, Outs, err, ok, one};
use super::{index_dtype, put_points, take_slices};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::literal::Number;
use crate::op::{Combiner, Comparison};
use crate::types::Dims;
use crate::{DType, ensure, invalid};

pub(in super::super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, \
         bool sparse=False) -> Tensor",
        |c, b| {
            let (weight, indices) = (c.tensor(b, "weight")?, c.tensor(b, "indices")?);
            ensure!(b.rank(weight) == 2, "'weight' must be 2-D");
            check_indices(b, indices, "embedding")?;
            one(take_slices(b, weight, 0, indices)?)
        },
        &[
            ok("f32[10,3], i64[2,4]{0..10}"),
            ok("bf16[10,3], i32[5]{0..10}, 0"),
            ok("f32[10,3], i64[]{0..10}"),
            ok("f32[10,3], i64[0]{0..10}"),
            err("f32[10], i64[2]{0..10}", "'weight' must be 2-D"),
            err("f32[10,3], f32[2]", "Expected tensor for argument #1 'indices'"),
        ],
    )
    .variants(&["embedding.out"]),
    OpDef::new(
        "aten::embedding_dense_backward(Tensor grad_output, Tensor indices, SymInt num_weights, SymInt padding_idx, \
         bool scale_grad_by_freq) -> Tensor",
        |c, b| backward(c, b, "grad_output"),
        &[
            ok("f32[2,4,3], i64[2,4]{0..10}, 10, -1, false"),
            ok("bf16[20,3], i64[20]{0..5}, 5, 2, false"),
            ok("f32[20,3], i64[20]{0..5}, 5, 0, true"),
            ok("f32[3], i64[]{0..5}, 5, -1, false"),
            ok("f32[0,3], i64[0]{0..5}, 5, -1, false"),
        ],
    )
    .variants(&["embedding_dense_backward.out"]),
    OpDef::new(
        "aten::embedding_backward(Tensor grad, Tensor indices, SymInt num_weights, SymInt padding_idx, \
         bool scale_grad_by_freq, bool sparse) -> Tensor",
        |c, b| {
            if c.flag("sparse")? {
                crate::unsupported!("embedding_backward: sparse gradients have no lowering; use sparse=False");
            }
            backward(c, b, "grad")
        },
        &[ok("f32[2,4,3], i64[2,4]{0..10}, 10, -1, false, false")],
    ),
    OpDef::new(
        "aten::embedding_renorm(Tensor self, Tensor indices, float max_norm, float norm_type) -> Tensor",
        renorm,
        &[
            ok("f32[5,3], i64[2,2]{0,3,3,1}, 1.0, 2.0"),
            ok("f32[5,3], i64[4]{0..5}, 2.0, 1.0"),
            ok("f32[5,3], i64[0], 2.0, 1.0"),
            err("f32[5,3], f32[2], 1.0, 2.0", "Expected tensor for argument #1 'indices'"),
        ],
    )
    .variants(&["embedding_renorm_", "embedding_renorm.out"]),
    OpDef::new(
        "aten::one_hot(Tensor self, int num_classes=-1) -> Tensor",
        one_hot,
        &[
            ok("i64[2,3]{0..5}, 5"),
            ok("i64[]{0..5}, 5"),
            ok("i64[0]{0..5}, 5"),
            err("f32[2], 5", "one_hot is only applicable to index tensor"),
            err("i64[2]{0..5}", "one_hot: the shape of its result depends on the data"),
        ],
    ),
    OpDef::new(
        "aten::select_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt index) -> Tensor",
        select_backward,
        &[ok("f32[3], [3,5], 1, -1"), ok("bf16[5], [3,5], 0, 1")],
    )
    .variants(&["select_backward.out"]),
    OpDef::new(
        "aten::slice_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt start, SymInt end, SymInt step) \
         -> Tensor",
        slice_backward,
        &[
            ok("f32[3,3], [3,7], 1, 1, 7, 2"),
            ok("f32[2], [5], 0, -2, 9223372036854775807, 1"),
            ok("f32[0], [5], 0, 3, 2, 1"),
        ],
    )
    .variants(&["slice_backward.out"]),
];

pub(super) fn check_indices(b: &Builder, indices: ValueId, op: &str) -> Result<()> {
    let dtype = b.dtype(indices);
    ensure!(
        matches!(dtype, DType::I32 | DType::I64),
        "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got \
         torch.{}Tensor instead (while checking arguments for {op})",
        torch_name(dtype)
    );
    Ok(())
}

fn backward(c: &Call<'_>, b: &Builder, grad: &str) -> Result<Outs> {
    let (grad, indices) = (c.tensor(b, grad)?, c.tensor(b, "indices")?);
    check_indices(b, indices, "embedding")?;
    let (rows, padding) = (c.int("num_weights")?, c.int("padding_idx")?);
    let (Ok(rows), Some(&width)) = (usize::try_from(rows), b.shape(grad).last()) else {
        invalid!("embedding_dense_backward: num_weights {rows} or gradient {:?} is ill-formed", b.shape(grad))
    };
    let n = b.ty(indices)?.numel();
    let dtype = b.dtype(grad);
    let zeros = b.full(Number::Int(0), dtype, &[rows, width])?;
    if n == 0 || width == 0 || rows == 0 {
        return one(zeros);
    }
    let index = b.reshape(b.convert(indices, index_dtype(rows))?, &[n])?;
    let mut grad = b.reshape(grad, &[n, width])?;
    if c.flag("scale_grad_by_freq")? {
        grad = by_frequency(b, grad, index, rows)?;
    }
    // A row that takes no gradient is one out of range: a scatter leaves it out.
    let is_padding = b.compare(Comparison::Eq, index, b.full_like(index, Number::Int(padding))?)?;
    let index = match padding >= 0 {
        true => b.select(is_padding, b.full_like(index, Number::Int(rows as i64))?, index)?,
        false => index,
    };
    one(put_points(b, zeros, &[index], &[0], grad, Combiner::Add)?)
}

/// Each row of `grad` divided by how often its index occurs.
pub(super) fn by_frequency(b: &Builder, grad: ValueId, index: ValueId, rows: usize) -> Result<ValueId> {
    let wide = b.dtype(grad).accumulator();
    let ones = b.full(Number::Int(1), wide, &b.shape(index))?;
    let counts = b.full(Number::Int(0), wide, &[rows])?;
    let counts = put_points(b, counts, &[index], &[0], ones, Combiner::Add)?;
    let count = b.broadcast_in_dim(take_slices(b, counts, 0, index)?, &b.shape(grad), &[0])?;
    b.convert(b.divide(b.convert(grad, wide)?, count)?, b.dtype(grad))
}

/// The rows that `indices` name, shortened where they are longer than `max_norm`.
fn renorm(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (v, indices) = (c.tensor(b, "self")?, c.tensor(b, "indices")?);
    check_indices(b, indices, "embedding_renorm_")?;
    ensure!(b.rank(v) == 2, "'weight' must be 2-D");
    let (rows, n) = (b.shape(v)[0], b.ty(indices)?.numel());
    if n == 0 || rows == 0 {
        return one(v);
    }
    let named = b.full(Number::Bool(false), DType::Bool, &[rows])?;
    let places = b.reshape(b.convert(indices, index_dtype(rows))?, &[n])?;
    let named = put_points(b, named, &[places], &[0], b.full(Number::Bool(true), DType::Bool, &[n])?, Combiner::Set)?;
    let shorter = shortened(b, v, 0, c.float("norm_type")?, c.float("max_norm")?)?;
    one(b.select(b.broadcast_in_dim(named, &b.shape(v), &[0])?, shorter, v)?)
}

fn one_hot(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (v, classes) = (c.tensor(b, "self")?, c.int("num_classes")?);
    ensure!(b.dtype(v) == DType::I64, "one_hot is only applicable to index tensor of type LongTensor.");
    if classes < 0 {
        let help = "give num_classes";
        return Err(super::super::bounded::data_dependent("one_hot").with_help(help));
    }
    let mut shape = b.shape(v);
    let last = shape.len();
    shape.push(classes as usize);
    if classes == 0 {
        return one(b.full(Number::Int(0), DType::I64, &shape)?);
    }
    let each = b.iota(DType::I64, &shape, last)?;
    let index = b.broadcast_in_dim(v, &shape, &(0..last).collect::<Dims>())?;
    one(b.convert(b.compare(Comparison::Eq, each, index)?, DType::I64)?)
}

fn select_backward(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (grad, sizes) = (c.tensor(b, "grad_output")?, c.sizes("input_sizes")?);
    let (d, index) = select_index(&sizes, c.int("dim")?, c.int_now("index")?)?;
    let grad = unsqueeze(b, grad, &[d])?;
    match c.brought("index")? {
        Some(index) => one(placed_at(b, grad, d, c.place(b, &index, sizes[d])?, sizes[d])?),
        None => one(placed(c, b, grad, d, index, sizes[d], 1)?),
    }
}

fn slice_backward(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (grad, sizes) = (c.tensor(b, "grad_output")?, c.sizes("input_sizes")?);
    let d = dim(c.int("dim")?, sizes.len())?;
    ensure!(d < sizes.len(), "slice() cannot be applied to a 0-dim tensor.");
    let step = c.int("step")?;
    if let (Some(start), Ok(step @ 1..)) = (c.brought("start")?, usize::try_from(step)) {
        let start = c.place(b, &start, sizes[d])?;
        return one(placed_at(b, spread(b, grad, d, step)?, d, start, sizes[d])?);
    }
    let (start, _, step) = slice_bounds(sizes[d], Some(c.int("start")?), Some(c.int("end")?), step)?;
    one(placed(c, b, grad, d, start, sizes[d], step)?)
}

/// `v` with zeros for the places that `step` leaves out along `dim`.
fn spread(b: &Builder, v: ValueId, dim: usize, step: usize) -> Result<ValueId> {
    let rank = b.rank(v);
    let interior: Dims = (0..rank).map(|d| if d == dim { step - 1 } else { 0 }).collect();
    b.pad(v, b.scalar(Number::Int(0), b.dtype(v))?, &vec![0; rank], &vec![0; rank], &interior)
}

/// `v` at `start`, which is known when the program runs, of an otherwise zero dimension `dim` of `extent` elements.
fn placed_at(b: &Builder, v: ValueId, dim: usize, start: ValueId, extent: usize) -> Result<ValueId> {
    let mut shape = b.shape(v);
    shape[dim] = extent;
    with_part(b, b.full(Number::Int(0), b.dtype(v), &shape)?, v, dim, start)
}

/// `v` at `start, start + step, ...` of an otherwise zero dimension `dim` of `extent` elements.
fn placed(
    c: &Call<'_>,
    b: &Builder,
    v: ValueId,
    dim: usize,
    start: usize,
    extent: usize,
    step: usize,
) -> Result<ValueId> {
    let shape = b.shape(v);
    if c.context.relaying && step == 1 && shape[dim] < extent {
        return placed_at(b, v, dim, c.relayed(b, start as i64)?, extent);
    }
    let zero = b.scalar(Number::Int(0), b.dtype(v))?;
    if shape[dim] == 0 {
        let mut out = shape;
        out[dim] = extent;
        return b.full(Number::Int(0), b.dtype(v), &out);
    }
    let end = start + (shape[dim] - 1) * step + 1;
    let at = |value: i64| shape.iter().enumerate().map(|(i, _)| if i == dim { value } else { 0 }).collect::<Vec<i64>>();
    let interior: Dims = (0..shape.len()).map(|i| if i == dim { step - 1 } else { 0 }).collect();
    b.pad(v, zero, &at(start as i64), &at(extent as i64 - end as i64), &interior)
}
