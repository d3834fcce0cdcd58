//! Whole slices along a dimension, at computed positions: `index_select` and its relatives.

use super::super::support::{broadcast_to, dim, scalar_like, torch_name};
use super::super::{Call, OpDef, Outs, err, ok, one};
use super::scatter::reduce_into;
use super::{index_dtype, put_points, take_slices, wrap};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::literal::Number;
use crate::op::{Binary, Combiner, Comparison};
use crate::types::{Dims, Shape};
use crate::{DType, ensure, invalid, no_index};

pub(in super::super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::index_select(Tensor self, int dim, Tensor index) -> Tensor",
        |c, b| {
            let p = Slices::new(c, b)?;
            let n = b.ty(p.index)?.numel();
            let scalar = p.shape.is_empty();
            ensure!(!scalar || n == 1, "index_select(): Index to scalar can have only 1 value, got {n} value(s)");
            let taken = take_slices(b, p.v, p.dim, p.index)?;
            one(if scalar { b.reshape(taken, &[])? } else { taken })
        },
        &[
            ok("f32[5,3], 0, i64[4]{0..5}"),
            ok("bf16[5,3], -1, i32[2]{0..3}"),
            ok("f32[5,3], 0, i64[]{0..5}"),
            ok("f32[], 0, i64[1]{0..1}"),
            ok("f32[5,0], 0, i64[2]{0..5}"),
            err("f32[5], 0, i64[2,2]{0..5}", "Index is supposed to be"),
            err("f32[5], 0, f32[2]", "index_select(): Expected dtype int32 or int64 for index"),
            err("f32[], 0, i64[2]{0..1}", "Index to scalar can have only 1 value, got 2 value(s)"),
        ],
    )
    .variants(&["index_select.out"]),
    OpDef::new(
        "aten::index_select_backward(Tensor grad, SymInt[] self_sizes, int dim, Tensor index) -> Tensor",
        |c, b| {
            let (grad, sizes) = (c.tensor(b, "grad")?, c.sizes("self_sizes")?);
            let p = Slices::over(c, b, b.full(Number::Int(0), b.dtype(grad), &sizes)?)?;
            let grad = p.source(b, grad, true)?;
            p.put(b, p.v, grad, Combiner::Add)
        },
        &[ok("f32[4,3], [5,3], 0, i64[4]{0..5}")],
    ),
    OpDef::new(
        "aten::index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor",
        index_add,
        &[
            ok("f32[5,3], 0, i64[4]{0..5}, f32[4,3]"),
            ok("bf16[2,5], 1, i64[4]{0..5}, bf16[2,4], alpha=2"),
            ok("f32[], 0, i64[1]{0..1}, f32[]"),
            ok("f32[3], 0, i64[]{0..3}, f32[1]"),
            ok("bool[5], 0, i64[3]{0..5}, bool[3], alpha=0"),
            err("f32[5], 0, i64[2]{0..5}, f32[3]", "Number of indices (2) should be equal to source.size(dim): (3)"),
            err("f32[5,2], 0, i64[2]{0..5}, f32[2,3]", "source tensor shape must match self tensor shape"),
            err("f32[5], 0, i64[1]{0..5}, i64[1]", "self (Float) and source (Long) must have the same scalar type"),
        ],
    )
    .variants(&["index_add_", "index_add.out"]),
    OpDef::new(
        "aten::index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor",
        |c, b| {
            let (p, source) = (Slices::new(c, b)?, c.tensor(b, "source")?);
            p.check_copied(b, source)?;
            p.put(b, p.v, p.source(b, source, true)?, Combiner::Set)
        },
        &[
            ok("f32[5,3], 0, i64[1]{0..5}, f32[1,3]"),
            ok("f32[], 0, i64[1]{0..1}, f32[1]"),
            ok("f32[3], 0, i64[]{0..3}, f32[]"),
            err("f32[5], 0, i64[3]{0..5}, f32[2]", "Number of indices (3) should be equal to source.size(dim) (2)"),
            err("f32[5,2], 0, i64[1]{0..5}, f32[2]", "Source dimensionality (1), destination dimensionality (2)"),
            err("f32[5], 0, i32[1]{0..5}, f32[1]", "index_copy_(): Expected a long tensor for index, but got Int"),
            err("f32[5], 0, i64[1]{0..5}, i64[1]", "same dtype, but got (self) Float and (source) Long"),
        ],
    )
    .variants(&["index_copy_", "index_copy.out"]),
    OpDef::new(
        "aten::index_fill.int_Scalar(Tensor self, int dim, Tensor index, Scalar value) -> Tensor",
        |c, b| {
            let p = Slices::new(c, b)?;
            c.require_fit(&c.scalar("value")?, b.dtype(p.v))?;
            let value = scalar_like(c, b, &c.scalar("value")?, p.v)?;
            p.fill(b, value)
        },
        &[
            ok("f32[5,3], 0, i64[2]{0..5}, 7"),
            ok("i64[2,5], -1, i64[3]{-5..5}, 2"),
            ok("f32[], 0, i64[1]{0..1}, 1.5"),
            ok("f32[3], 0, i64[0]{0..1}, 1"),
            err("f32[3], 0, i32[1]{0..3}, 1", "index_fill_(): Expected dtype int64 for index."),
            err("i8[3], 0, i64[1]{0..1}, 300", "value cannot be converted to type int8_t without overflow"),
        ],
    )
    .variants(&["index_fill_.int_Scalar", "index_fill.int_Scalar_out"]),
    OpDef::new(
        "aten::index_fill.int_Tensor(Tensor self, int dim, Tensor index, Tensor value) -> Tensor",
        |c, b| {
            let (p, value) = (Slices::new(c, b)?, c.tensor(b, "value")?);
            let rank = b.rank(value);
            ensure!(
                rank == 0,
                "index_fill_ only supports a 0-dimensional value tensor, but got tensor with {rank} dimension(s)."
            );
            let value = b.convert(value, b.dtype(p.v))?;
            p.fill(b, broadcast_to(b, value, &b.shape(p.v))?)
        },
        &[
            ok("f32[5,3], 0, i64[2]{0..5}, f32[]"),
            err("f32[5], 0, i64[2]{0..5}, f32[1]", "index_fill_ only supports a 0-dimensional value tensor"),
        ],
    )
    .variants(&["index_fill_.int_Tensor", "index_fill.int_Tensor_out"]),
    OpDef::new(
        "aten::index_reduce(Tensor self, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True) \
         -> Tensor",
        |c, b| {
            let reduce = c.string("reduce")?.unwrap_or_default();
            let known = matches!(reduce, "prod" | "mean" | "amax" | "amin");
            ensure!(known, "index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}.");
            let p = Slices::new(c, b)?;
            let source = p.source(b, c.tensor(b, "source")?, false)?;
            let out = reduce_into(c, b, p.v, source, |v, x, how| p.combine(b, v, x, how))?;
            one(b.reshape(out, &p.shape)?)
        },
        &[
            ok("f32[5,3], 0, i64[7]{0..5}, f32[7,3], 'prod'"),
            ok("f32[5,3], 1, i64[7]{0..3}, f32[5,7], 'mean', include_self=false"),
            ok("f32[5,3], 0, i64[2]{0..5}, f32[2,3], 'amax'"),
            err("f32[5], 0, i64[2]{0..5}, f32[2], 'sum'", "one of prod, mean, amax or amin but got sum."),
        ],
    )
    .variants(&["index_reduce_", "index_reduce.out"]),
];

/// `self`, `dim` and a 1-d `index`; a 0-d `self` made 1-d.
struct Slices {
    /// What PyTorch's messages call the op.
    name: String,
    v: ValueId,
    dim: usize,
    index: ValueId,
    shape: Shape,
}

impl Slices {
    fn new(c: &Call<'_>, b: &Builder) -> Result<Slices> {
        Slices::over(c, b, c.tensor(b, "self")?)
    }

    fn over(c: &Call<'_>, b: &Builder, v: ValueId) -> Result<Slices> {
        let (shape, index) = (b.shape(v), c.tensor(b, "index")?);
        let d = dim(c.int("dim")?, shape.len())?;
        let name = called(c);
        check_index(&name, b.dtype(index), &b.shape(index))?;
        let v = if shape.is_empty() { b.reshape(v, &[1])? } else { v };
        let n = b.ty(index)?.numel();
        Ok(Slices { name, v, dim: d, index: b.reshape(index, &[n])?, shape })
    }

    /// `source` as slices of `self`. A 0-d `source` may stand for one of a single element if `scalars`.
    fn source(&self, b: &Builder, source: ValueId, scalars: bool) -> Result<ValueId> {
        let (given, n) = (b.shape(source), b.ty(self.index)?.numel());
        let mut wanted = b.shape(self.v);
        wanted[self.dim] = n;
        let count = given.get(self.dim).copied().unwrap_or(1);
        ensure!(
            count == n,
            "{}(): Number of indices ({n}) should be equal to source.size(dim): ({count}), for dim: {}",
            self.name,
            self.dim
        );
        let single = given.is_empty() && (self.shape.is_empty() || (scalars && wanted[..] == [1]));
        let same = given == wanted && (scalars || !self.shape.is_empty());
        ensure!(
            same || single,
            "source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = {:?} \
             source.shape = {given:?}",
            self.shape
        );
        ensure!(
            b.dtype(source) == b.dtype(self.v),
            "{}(): self ({}) and source ({}) must have the same scalar type",
            self.name,
            torch_name(b.dtype(self.v)),
            torch_name(b.dtype(source))
        );
        b.reshape(source, &wanted)
    }

    /// What `index_copy` alone refuses, or in other words.
    fn check_copied(&self, b: &Builder, source: ValueId) -> Result<()> {
        let (given, n) = (b.shape(source), b.ty(self.index)?.numel());
        let (from, to) = (given.len(), self.shape.len());
        if from == 0 && n != 1 {
            no_index!("index_copy_(): When source is scalar, index should have one element (got {n})");
        }
        if from != to && from != 0 && to != 0 {
            no_index!(
                "index_copy_(): When source and destination are not scalars, their dimensionality must match. Source \
                 dimensionality ({from}), destination dimensionality ({to})"
            );
        }
        let dtypes = (b.dtype(self.v), b.dtype(source));
        ensure!(
            dtypes.0 == dtypes.1,
            "index_copy_(): self and source expected to have the same dtype, but got (self) {} and (source) {}",
            torch_name(dtypes.0),
            torch_name(dtypes.1)
        );
        match given.get(self.dim) {
            Some(&count) if count != n => {
                no_index!("index_copy_(): Number of indices ({n}) should be equal to source.size(dim) ({count})")
            }
            _ => Ok(()),
        }
    }

    fn combine(&self, b: &Builder, v: ValueId, source: ValueId, how: Combiner) -> Result<ValueId> {
        if b.shape(source).contains(&0) || b.shape(v).contains(&0) {
            return Ok(v);
        }
        let index = b.convert(self.index, index_dtype(b.shape(v)[self.dim]))?;
        put_points(b, v, &[index], &[self.dim], source, how)
    }

    fn put(&self, b: &Builder, v: ValueId, source: ValueId, how: Combiner) -> Result<Outs> {
        one(b.reshape(self.combine(b, v, source, how)?, &self.shape)?)
    }

    /// `value`, of `self`'s shape, in every slice that `index` names. Which those are is a flag per slice.
    fn fill(&self, b: &Builder, value: ValueId) -> Result<Outs> {
        let shape = b.shape(self.v);
        let (extent, n) = (shape[self.dim], b.ty(self.index)?.numel());
        let index = wrap(b, b.convert(self.index, index_dtype(extent))?, extent)?;
        let grid = [extent, n];
        let each = b.iota(b.dtype(index), &grid, 0)?;
        let hits = b.compare(Comparison::Eq, each, b.broadcast_in_dim(index, &grid, &[1])?)?;
        let hit = b.reduce(hits, crate::Reducer::Or, &[1])?;
        let hit = b.broadcast_in_dim(hit, &shape, &Dims::from_slice(&[self.dim]))?;
        one(b.reshape(b.select(hit, value, self.v)?, &self.shape)?)
    }
}

/// What PyTorch's messages call the op: those that write, as in place.
fn called(c: &Call<'_>) -> String {
    match c.schema.name.trim_start_matches("aten::").split('.').next().unwrap_or_default() {
        "index_select" => "index_select".to_owned(),
        "index_select_backward" => "index_add_".to_owned(),
        name => format!("{name}_"),
    }
}

/// Refuses indices that `op` does not take, in its words.
fn check_index(op: &str, dtype: DType, shape: &Shape) -> Result<()> {
    let rank = shape.len();
    if op == "index_fill_" && dtype != DType::I64 {
        no_index!("{op}(): Expected dtype int64 for index.");
    }
    match op {
        _ if rank < 2 => {}
        "index_fill_" => invalid!("Index has to be a vector/scalar"),
        "index_copy_" => no_index!("{op}(): Index should have dimension 1 or 0 (got {rank})"),
        "index_add_" | "index_reduce_" => no_index!(
            "{op}(): Index is supposed to be a vector, but got dim: {rank} with type: {} and size: {shape:?}",
            torch_name(dtype)
        ),
        _ => no_index!("{op}(): Index is supposed to be a vector"),
    }
    let narrow_too = matches!(dtype, DType::I32 | DType::I64);
    match op {
        "index_copy_" => {
            ensure!(dtype == DType::I64, "{op}(): Expected a long tensor for index, but got {}", torch_name(dtype));
        }
        "index_select" => ensure!(narrow_too, "{op}(): Expected dtype int32 or int64 for index"),
        _ => ensure!(narrow_too, "{op}(): Expected dtype int32/int64 for index but got: {}", torch_name(dtype)),
    }
    Ok(())
}

fn index_add(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let p = Slices::new(c, b)?;
    let source = p.source(b, c.tensor(b, "source")?, false)?;
    let alpha = c.scalar("alpha")?;
    let source = match alpha.is_one() {
        true => source,
        false if b.dtype(source) == DType::Bool => b.binary(Binary::And, source, scalar_like(c, b, &alpha, source)?)?,
        false => b.multiply(source, scalar_like(c, b, &alpha, source)?)?,
    };
    p.put(b, p.v, source, Combiner::Add)
}
