//! Joining, repeating and moving whole tensors about.

pub(super) mod pad;
pub(super) mod place;
pub(super) mod repeat;

use super::support::{broadcast_shapes, broadcast_to, dim, promote_all, unsqueeze};
use super::{Call, OpDef, Outs, err, many, ok, one};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::literal::Number;
use crate::types::{Dims, Shape};
use crate::{DType, ensure, invalid};

pub(super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::cat(Tensor[] tensors, int dim=0) -> Tensor",
        cat,
        &[
            ok("[f32[2,3], f32[1,3]]"),
            ok("[f32[2,3], i64[2,1]], -1"),
            ok("[bf16[2], f16[3]]"),
            ok("[f32[0], f32[2,3]], 1"),
            ok("[f32[2,0], f32[2,3]], 1"),
            ok("[bool[3]]"),
            err(
                "[f32[2,3], f32[3,2]]",
                "Sizes of tensors must match except in dimension 0. Expected size 3 but got size 2",
            ),
            err("[f32[2,3], f32[2]]", "Tensors must have same number of dimensions: got 2 and 1"),
            err("[u16[2], i64[2]]", "attempted to promote UInt16 and Long"),
            err("[]", "torch.cat(): expected a non-empty list of Tensors"),
            err("[f32[], f32[]]", "zero-dimensional tensor (at position 0) cannot be concatenated"),
        ],
    )
    .variants(&["cat.out"]),
    OpDef::new("aten::concat(Tensor[] tensors, int dim=0) -> Tensor", cat, &[ok("[f32[2,3], f32[1,3]]")])
        .variants(&["concat.out"]),
    OpDef::new("aten::concatenate(Tensor[] tensors, int dim=0) -> Tensor", cat, &[ok("[f32[2,3], f32[2,1]], 1")])
        .variants(&["concatenate.out"]),
    OpDef::new(
        "aten::stack(Tensor[] tensors, int dim=0) -> Tensor",
        stack,
        &[
            ok("[f32[2,3], f32[2,3]]"),
            ok("[f32[2], i32[2]], -1"),
            ok("[f32[], f32[]]"),
            err(
                "[f32[2], f32[3]]",
                "stack expects each tensor to be equal size, but got [2] at entry 0 and [3] at entry 1",
            ),
            err("[]", "stack expects a non-empty TensorList"),
        ],
    )
    .variants(&["stack.out"]),
    OpDef::new("aten::_stack(Tensor[] tensors, int dim=0) -> Tensor", stack, &[ok("[f32[2], f32[2]], 1")])
        .variants(&["_stack.out"]),
    OpDef::new(
        "aten::hstack(Tensor[] tensors) -> Tensor",
        |c, b| {
            let vs = each(c, b, |b, v| at_least(b, v, 1))?;
            joined(b, &vs, if vs.first().is_some_and(|&v| b.rank(v) > 1) { 1 } else { 0 })
        },
        &[ok("[f32[2], f32[3]]"), ok("[f32[2,3], f32[2,1]]"), ok("[f32[], f32[]]")],
    )
    .variants(&["hstack.out"]),
    OpDef::new(
        "aten::vstack(Tensor[] tensors) -> Tensor",
        |c, b| joined(b, &each(c, b, |b, v| at_least(b, v, 2))?, 0),
        &[ok("[f32[2], f32[2]]"), ok("[f32[2,3], f32[1,3]]")],
    )
    .variants(&["vstack.out"]),
    OpDef::new(
        "aten::row_stack(Tensor[] tensors) -> Tensor",
        |c, b| joined(b, &each(c, b, |b, v| at_least(b, v, 2))?, 0),
        &[ok("[f32[2], f32[2]]")],
    )
    .variants(&["row_stack.out"]),
    OpDef::new(
        "aten::dstack(Tensor[] tensors) -> Tensor",
        |c, b| joined(b, &each(c, b, |b, v| at_least(b, v, 3))?, 2),
        &[ok("[f32[2], f32[2]]"), ok("[f32[], f32[]]"), ok("[f32[2,3], f32[2,3]]")],
    )
    .variants(&["dstack.out"]),
    OpDef::new(
        "aten::column_stack(Tensor[] tensors) -> Tensor",
        |c, b| {
            let column = |b: &Builder, v: ValueId| match b.rank(v) {
                0 | 1 => b.reshape(v, &[b.ty(v)?.numel(), 1]),
                _ => Ok(v),
            };
            joined(b, &each(c, b, column)?, 1)
        },
        &[ok("[f32[2], f32[2,3]]"), ok("[f32[], f32[]]")],
    )
    .variants(&["column_stack.out"]),
    OpDef::new(
        "aten::block_diag(Tensor[] tensors) -> Tensor",
        block_diag,
        &[
            ok("[f32[2,3], f32[2], f32[]]"),
            ok("[f32[1,0], i64[2,1]]"),
            err(
                "[f32[2,3,4]]",
                "torch.block_diag: Input tensors must have 2 or fewer dimensions. Input 0 has 3 dimensions",
            ),
        ],
    )
    .variants(&["block_diag.out"]),
    OpDef::new(
        "aten::meshgrid(Tensor[] tensors) -> Tensor[]",
        |c, b| meshgrid(b, &c.tensors(b, "tensors")?),
        &[
            ok("[f32[2], f32[3]]"),
            ok("[f32[], f32[2]]"),
            err("[f32[2], f32[2,3]]", "torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got:"),
        ],
    ),
    OpDef::new(
        "aten::meshgrid.indexing(Tensor[] tensors, *, str indexing) -> Tensor[]",
        meshgrid_indexing,
        &[
            ok("[f32[2], f32[3]], indexing='ij'"),
            ok("[f32[2], f32[3], f32[4]], indexing='xy'"),
            err(
                "[f32[2]], indexing='foo'",
                "torch.meshgrid: indexing must be one of \"xy\" or \"ij\", but received: foo",
            ),
        ],
    ),
    OpDef::new(
        "aten::cartesian_prod(Tensor[] tensors) -> Tensor",
        cartesian_prod,
        &[ok("[f32[2], f32[3]]"), ok("[i64[3]]")],
    ),
    OpDef::new(
        "aten::broadcast_tensors(Tensor[] tensors) -> Tensor[]",
        |c, b| {
            let vs = c.tensors(b, "tensors")?;
            let shape = broadcast_shapes(&vs.iter().map(|&v| b.shape(v)).collect::<Vec<_>>())?;
            many(vs.into_iter().map(|v| broadcast_to(b, v, &shape)).collect::<Result<Vec<_>>>()?)
        },
        &[ok("[f32[2,1], i64[3]]"), err("[f32[2], f32[3]]", "must match the size")],
    ),
];

fn each(c: &Call<'_>, b: &Builder, f: impl Fn(&Builder, ValueId) -> Result<ValueId>) -> Result<Vec<ValueId>> {
    c.tensors(b, "tensors")?.into_iter().map(|v| f(b, v)).collect()
}

/// `v` with leading dimensions put before it (and, for three of them, one behind).
fn at_least(b: &Builder, v: ValueId, rank: usize) -> Result<ValueId> {
    let shape = b.shape(v);
    match (rank, shape[..].as_ref()) {
        (1, []) => b.reshape(v, &[1]),
        (2, []) => b.reshape(v, &[1, 1]),
        (2, [n]) => b.reshape(v, &[1, *n]),
        (3, []) => b.reshape(v, &[1, 1, 1]),
        (3, [n]) => b.reshape(v, &[1, *n, 1]),
        (3, [m, n]) => b.reshape(v, &[*m, *n, 1]),
        _ => Ok(v),
    }
}

fn common_dtype(b: &Builder, vs: &[ValueId]) -> Result<Option<DType>> {
    promote_all(vs.iter().map(|&v| b.dtype(v)))
}

fn cat(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    joined(b, &c.tensors(b, "tensors")?, c.int("dim")?)
}

/// `vs` promoted to one type and joined. A 1-d tensor without elements is left out, whatever the rank of the others.
fn joined(b: &Builder, vs: &[ValueId], at: i64) -> Result<Outs> {
    let Some(dtype) = common_dtype(b, vs)? else { invalid!("torch.cat(): expected a non-empty list of Tensors") };
    if let Some(i) = vs.iter().position(|&v| b.rank(v) == 0) {
        invalid!("zero-dimensional tensor (at position {i}) cannot be concatenated");
    }
    let parts: Vec<ValueId> = vs.iter().copied().filter(|&v| b.shape(v)[..] != [0]).collect();
    let Some(&first) = parts.first() else { return one(b.convert(vs[0], dtype)?) };
    let shape = b.shape(first);
    let d = dim(at, shape.len())?;
    for (i, &v) in vs.iter().enumerate().filter(|(_, v)| parts.contains(v)) {
        let other = b.shape(v);
        let (m, n) = (shape.len(), other.len());
        ensure!(m == n, "Tensors must have same number of dimensions: got {m} and {n}");
        if let Some(k) = (0..m).find(|&k| k != d && shape[k] != other[k]) {
            invalid!(
                "Sizes of tensors must match except in dimension {d}. Expected size {} but got size {} for tensor number \
                 {i} in the list.",
                shape[k],
                other[k]
            );
        }
    }
    let parts: Vec<ValueId> = parts.into_iter().map(|v| b.convert(v, dtype)).collect::<Result<_>>()?;
    one(b.concatenate(&parts, d)?)
}

fn stack(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let vs = c.tensors(b, "tensors")?;
    let Some(&first) = vs.first() else { invalid!("stack expects a non-empty TensorList") };
    let shape = b.shape(first);
    if let Some(i) = vs.iter().position(|&v| b.shape(v) != shape) {
        let other = b.shape(vs[i]);
        invalid!("stack expects each tensor to be equal size, but got {shape:?} at entry 0 and {other:?} at entry {i}");
    }
    let d = dim(c.int("dim")?, shape.len() + 1)?;
    let parts: Vec<ValueId> = vs.into_iter().map(|v| unsqueeze(b, v, &[d])).collect::<Result<_>>()?;
    joined(b, &parts, d as i64)
}

fn block_diag(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let vs = c.tensors(b, "tensors")?;
    if let Some(i) = vs.iter().position(|&v| b.rank(v) > 2) {
        let rank = b.rank(vs[i]);
        invalid!("torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {i} has {rank} dimensions");
    }
    let Some(dtype) = common_dtype(b, &vs)? else { return one(b.full(Number::Int(0), DType::F32, &[1, 0])?) };
    let blocks: Vec<ValueId> = vs.into_iter().map(|v| b.convert(at_least(b, v, 2)?, dtype)).collect::<Result<_>>()?;
    let width: usize = blocks.iter().map(|&v| b.shape(v)[1]).sum();
    let zero = b.scalar(Number::Int(0), dtype)?;
    let mut left = 0;
    let mut rows = vec![];
    for v in blocks {
        let own = b.shape(v)[1];
        rows.push(b.pad(v, zero, &[0, left as i64], &[0, (width - own - left) as i64], &[0, 0])?);
        left += own;
    }
    one(b.concatenate(&rows, 0)?)
}

fn meshgrid(b: &Builder, vs: &[ValueId]) -> Result<Outs> {
    let Some(&first) = vs.first() else { invalid!("meshgrid expects a non-empty TensorList") };
    if let Some(&v) = vs.iter().find(|&&v| b.rank(v) > 1) {
        invalid!("torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {:?}", b.shape(v));
    }
    let dtype = b.dtype(first);
    ensure!(vs.iter().all(|&v| b.dtype(v) == dtype), "torch.meshgrid expects all tensors to have the same dtype");
    let shape: Shape = vs.iter().map(|&v| b.ty(v).map(|t| t.numel())).collect::<Result<_>>()?;
    let grid = |(i, &v): (usize, &ValueId)| {
        let dims: Dims = (i..i + b.rank(v)).collect();
        b.broadcast_in_dim(v, &shape, &dims)
    };
    many(vs.iter().enumerate().map(grid).collect::<Result<Vec<_>>>()?)
}

fn meshgrid_indexing(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let mut vs = c.tensors(b, "tensors")?;
    let swap = match c.string("indexing")? {
        Some("ij") => false,
        Some("xy") => vs.len() >= 2,
        other => invalid!(
            "torch.meshgrid: indexing must be one of \"xy\" or \"ij\", but received: {}",
            other.unwrap_or_default()
        ),
    };
    if !swap {
        return meshgrid(b, &vs);
    }
    // The first two change places on the way in and on the way out.
    vs.swap(0, 1);
    let mut grids = meshgrid(b, &vs)?;
    grids.swap(0, 1);
    Ok(grids)
}

fn cartesian_prod(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let vs = c.tensors(b, "tensors")?;
    ensure!(vs.iter().all(|&v| b.rank(v) == 1), "Expect a 1D vector");
    if let [only] = vs[..] {
        return one(only);
    }
    let columns = meshgrid(b, &vs)?.into_iter().flatten().map(|v| b.reshape(v, &[b.ty(v)?.numel(), 1]));
    one(b.concatenate(&columns.collect::<Result<Vec<_>>>()?, 1)?)
}
