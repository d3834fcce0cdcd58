//! Greatest and least elements, and where they stand.

use super::super::index::index_dtype;
use super::super::support::{dims_or_all, not_implemented, torch_name};
use super::super::{Call, OpDef, Outs, err, many, ok, one};
use super::{Over, optional_dim};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::op::Reducer;
use crate::types::Dims;
use crate::{DType, ensure, ensure_kernel, ensure_type, invalid, no_index};

pub(in super::super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor",
        |c, b| several(c, b, "amax", Reducer::Maximum),
        &[
            ok("f32[2,3]"),
            ok("bf16[2,3,4], [0,-1], true"),
            ok("bool[3]"),
            ok("i8[2,3], [1]"),
            ok("f32[2]{nan,1}"),
            ok("f32[0,2], [1]"),
            ok("f32[], [0]"),
            err("f32[0]", "amax(): Expected reduction dim to be specified for input.numel() == 0."),
            err("f32[0,2], [0]", "amax(): Expected reduction dim 0 to have non-zero size."),
            err("c64[2]", "not implemented for 'ComplexFloat'"),
        ],
    )
    .variants(&["amax.out"]),
    OpDef::new(
        "aten::amin(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor",
        |c, b| several(c, b, "amin", Reducer::Minimum),
        &[ok("f32[2,3]"), ok("u8[2,3], [0], true"), ok("f32[2]{nan,1}")],
    )
    .variants(&["amin.out"]),
    OpDef::new(
        "aten::max(Tensor self) -> Tensor",
        |c, b| everything(c, b, "max", Reducer::Maximum),
        &[
            ok("f32[2,3]"),
            ok("bool[3]"),
            ok("i64[]"),
            err("f32[0]", "max(): Expected reduction dim to be specified for input.numel() == 0."),
        ],
    )
    .variants(&["max.unary_out"]),
    OpDef::new(
        "aten::min(Tensor self) -> Tensor",
        |c, b| everything(c, b, "min", Reducer::Minimum),
        &[ok("f32[2,3]"), ok("f32[2]{1,nan}")],
    )
    .variants(&["min.unary_out"]),
    OpDef::new(
        "aten::max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
        |c, b| along(c, b, "max", Reducer::ArgMax),
        &[
            ok("f32[2,3], 1"),
            ok("i64[3,4]{0..2}, 0, true"),
            ok("bool[2,3], -1"),
            ok("f32[4]{1,nan,3,nan}, 0"),
            ok("f32[], 0"),
            ok("f32[0,2], 1"),
            err("f32[0,2], 0", "max(): Expected reduction dim 0 to have non-zero size."),
            err("c64[2,2], 0", "max(): does not support complex input"),
        ],
    )
    .variants(&["max.dim_max"]),
    OpDef::new(
        "aten::min.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
        |c, b| along(c, b, "min", Reducer::ArgMin),
        &[ok("f32[2,3], 1"), ok("bf16[3,4]{0..2}, 0, true"), ok("f32[4]{1,nan,3,nan}, 0")],
    )
    .variants(&["min.dim_min"]),
    OpDef::new(
        "aten::argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor",
        |c, b| index_of(c, b, "argmax", Reducer::ArgMax),
        &[
            ok("f32[2,3]"),
            ok("f32[2,3], 1, true"),
            ok("i64[5]{0..2}"),
            ok("f32[2,3], none, true"),
            ok("f32[], 0, true"),
            ok("f32[4]{1,nan,3,nan}"),
            err("f32[0]", "argmax(): Expected reduction dim to be specified for input.numel() == 0."),
            err("f32[2,0], 1", "argmax(): Expected reduction dim 1 to have non-zero size."),
            err("bool[2]", "argmax(): does not support bool input"),
        ],
    )
    .variants(&["argmax.out"]),
    OpDef::new(
        "aten::argmin(Tensor self, int? dim=None, bool keepdim=False) -> Tensor",
        |c, b| index_of(c, b, "argmin", Reducer::ArgMin),
        &[ok("f32[2,3]"), ok("f32[2,3], -2"), ok("u8[5]{0..2}")],
    )
    .variants(&["argmin.out"]),
    OpDef::new(
        "aten::aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)",
        |c, b| {
            let dim = c.optional_int("dim")?;
            aminmax(b, &Over::of_self(c, b, &dim.into_iter().collect::<Vec<_>>(), c.flag("keepdim")?)?, dim.is_some())
        },
        &[
            ok("f32[2,3]"),
            ok("f32[2,3], dim=0"),
            ok("f32[2,3], keepdim=true"),
            err("f32[0]", "cannot compute aminmax over an empty dimension as the operation has no identity."),
        ],
    )
    .variants(&["aminmax.out"]),
    OpDef::new(
        "aten::_aminmax(Tensor self) -> (Tensor, Tensor)",
        |c, b| aminmax(b, &Over::everything(c, b)?, false),
        &[ok("f32[2,3]")],
    )
    .variants(&["_aminmax.out"]),
    OpDef::new(
        "aten::_aminmax.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor, Tensor)",
        |c, b| aminmax(b, &Over::dims(c, b)?, true),
        &[ok("f32[2,3], 1, true")],
    )
    .variants(&["_aminmax.dim_out"]),
];

fn not_empty(b: &Builder, over: &Over, name: &str) -> Result<()> {
    let t = b.ty(over.v)?;
    ensure!(
        t.numel() > 0,
        "{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the \
         'dim' argument."
    );
    Ok(())
}

fn several(c: &Call<'_>, b: &Builder, name: &str, reducer: Reducer) -> Result<Outs> {
    let v = c.tensor(b, "self")?;
    let listed = c.optional_ints("dim")?.unwrap_or_default();
    let over = Over { v, dims: dims_or_all(&listed, b.rank(v))?, keep: c.flag("keepdim")? };
    ordered(b, v, name)?;
    match listed.is_empty() {
        true => not_empty(b, &over, name)?,
        false => over.some(b, name)?,
    }
    one(over.reduce(b, reducer)?)
}

fn ordered(b: &Builder, v: ValueId, name: &str) -> Result<()> {
    let dtype = b.dtype(v);
    if dtype.is_complex() { not_implemented(name, dtype) } else { Ok(()) }
}

/// As [`ordered`], of what also asks where the extreme is.
fn has_places(b: &Builder, v: ValueId, name: &str) -> Result<()> {
    ensure_type!(!b.dtype(v).is_complex(), "{name}(): does not support complex input");
    Ok(())
}

fn everything(c: &Call<'_>, b: &Builder, name: &str, reducer: Reducer) -> Result<Outs> {
    let over = Over::everything(c, b)?;
    ordered(b, over.v, name)?;
    not_empty(b, &over, name)?;
    one(over.reduce(b, reducer)?)
}

/// The extreme along one dimension of `v` and its position, both without that dimension.
pub(in super::super) fn reduce_arg(
    b: &Builder,
    v: ValueId,
    dim: usize,
    reducer: Reducer,
) -> Result<(ValueId, ValueId)> {
    let shape = b.shape(v);
    if shape.is_empty() {
        return Ok((v, b.full(crate::Number::Int(0), DType::I64, &[])?));
    }
    let positions = b.iota(index_dtype(shape[dim]), &shape, dim)?;
    let (values, indices) = b.reduce_arg(v, positions, reducer, &[dim])?;
    Ok((values, b.convert(indices, DType::I64)?))
}

fn along(c: &Call<'_>, b: &Builder, name: &str, reducer: Reducer) -> Result<Outs> {
    let over = Over::dims(c, b)?;
    has_places(b, over.v, name)?;
    over.some(b, name)?;
    let (values, indices) = reduce_arg(b, over.v, over.dims.first().copied().unwrap_or(0), reducer)?;
    many([over.kept(b, values)?, over.kept(b, indices)?])
}

fn index_of(c: &Call<'_>, b: &Builder, name: &str, reducer: Reducer) -> Result<Outs> {
    let (v, keep) = (c.tensor(b, "self")?, c.flag("keepdim")?);
    let (rank, dtype) = (b.rank(v), b.dtype(v));
    ensure_kernel!(dtype != DType::Bool, "{name}(): does not support bool input");
    has_places(b, v, name)?;
    let Some(d) = optional_dim(c, "dim", rank)? else {
        let over = Over { v, dims: (0..rank).collect(), keep };
        let n = b.ty(v)?.numel();
        if n == 0 {
            no_index!("{name}(): Expected reduction dim to be specified for input.numel() == 0.");
        }
        let (_, index) = reduce_arg(b, b.reshape(v, &[n])?, 0, reducer)?;
        return one(over.kept(b, index)?);
    };
    let dims = if rank == 0 { Dims::new() } else { Dims::from_slice(&[d]) };
    let over = Over { v, dims, keep };
    over.some(b, name)?;
    one(over.kept(b, reduce_arg(b, v, d, reducer)?.1)?)
}

fn aminmax(b: &Builder, over: &Over, along: bool) -> Result<Outs> {
    let dtype = b.dtype(over.v);
    ensure_type!(!dtype.is_complex(), "aminmax not implemented for {}", torch_name(dtype));
    match along {
        true => over.some(b, "aminmax")?,
        false if b.ty(over.v)?.numel() == 0 => {
            invalid!("aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity.")
        }
        false => {}
    }
    many([over.reduce(b, Reducer::Minimum)?, over.reduce(b, Reducer::Maximum)?])
}
