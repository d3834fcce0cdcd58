//! Tensors from nothing but numbers. What PyTorch leaves uninitialised is zero here.

use super::expr::formula;
use super::support::{Operand, broadcast_to, elementwise};
use super::{Call, Manner, OpDef, Outs, Sample, Scalar, err, ok, one};
use crate::builder::Builder;
use crate::error::Result;
use crate::literal::Number;
use crate::{DType, ensure, invalid};

/// A schema whose arguments end with the options of a new tensor.
macro_rules! with_options {
    ($head:literal) => {
        with_options!($head, "ScalarType? dtype=None", "")
    };
    ($head:literal, $dtype:literal, $tail:literal) => {
        concat!(
            "aten::",
            $head,
            ", *, ",
            $dtype,
            ", Layout? layout=None, Device? device=None, bool? pin_memory=None",
            $tail,
            ") -> Tensor"
        )
    };
}

/// [`with_options`] with a memory format behind.
macro_rules! with_format {
    ($head:literal) => {
        with_options!($head, "ScalarType? dtype=None", ", MemoryFormat? memory_format=None")
    };
}

pub(super) use with_options;

pub(super) static OPS: &[OpDef] = &[
    OpDef::new(
        with_options!("full(SymInt[] size, Scalar fill_value"),
        full,
        &[
            ok("[2, 3], 1.5"),
            ok("[2], 3"),
            ok("[], true"),
            ok("[0, 3], 2, dtype=bf16"),
            ok("[2], 2.7, dtype=i32"),
            ok("[2], -inf"),
            ok("[2], 1j"),
            err("[-1], 0", "Trying to create tensor with negative dimension"),
        ],
    )
    .variants(&["full.out"]),
    OpDef::new(
        with_format!("full_like(Tensor self, Scalar fill_value"),
        |c, b| like(c, b, c.scalar("fill_value")?),
        &[ok("f32[2,3], 1.5"), ok("i64[2], 2.5"), ok("f32[], 1, dtype=bool")],
    )
    .variants(&["full_like.out"]),
    OpDef::new(with_options!("zeros(SymInt[] size"), |c, b| sized(c, b, 0), SIZES).variants(&["zeros.out"]),
    OpDef::new(with_options!("ones(SymInt[] size"), |c, b| sized(c, b, 1), SIZES).variants(&["ones.out"]),
    OpDef::new(with_options!("_efficientzerotensor(SymInt[] size"), |c, b| sized(c, b, 0), SIZES)
        .variants(&["_efficientzerotensor.out"]),
    OpDef::new(with_format!("empty.memory_format(SymInt[] size"), |c, b| sized(c, b, 0), SIZES)
        .variants(&["empty.out"]),
    OpDef::new(
        with_options!("empty_strided(SymInt[] size, SymInt[] stride"),
        |c, b| sized(c, b, 0),
        &[ok("[2, 3], [3, 1]"), ok("[2, 3], [1, 2], dtype=i64")],
    )
    .variants(&["empty_strided.out"]),
    OpDef::new(
        with_options!("empty_permuted(SymInt[] size, int[] physical_layout"),
        |c, b| sized(c, b, 0),
        &[ok("[2, 3], [1, 0]"), ok("[2, 3], [0, 1], dtype=bf16")],
    )
    .variants(&["empty_permuted.out"]),
    OpDef::new(with_format!("zeros_like(Tensor self"), |c, b| like(c, b, int(0)), LIKE).variants(&["zeros_like.out"]),
    OpDef::new(with_format!("ones_like(Tensor self"), |c, b| like(c, b, int(1)), LIKE).variants(&["ones_like.out"]),
    OpDef::new(with_format!("empty_like(Tensor self"), |c, b| like(c, b, int(0)), LIKE).variants(&["empty_like.out"]),
    OpDef::new(with_options!("new_zeros(Tensor self, SymInt[] size"), |c, b| new(c, b, int(0)), NEW)
        .variants(&["new_zeros.out"]),
    OpDef::new(
        "aten::_new_zeros_with_same_feature_meta(Tensor self, Tensor other, *, int self_num_batch_dims=0) -> Tensor",
        tangent,
        &[
            ok("f32[2,3], f64[4,5]"),
            ok("f64[2,3], bf16[4,5], self_num_batch_dims=1"),
            ok("f32[], f32[]"),
            ok("f32[2,3], i64[], self_num_batch_dims=2"),
        ],
    )
    .variants(&["_new_zeros_with_same_feature_meta.out"]),
    OpDef::new(with_options!("new_ones(Tensor self, SymInt[] size"), |c, b| new(c, b, int(1)), NEW)
        .variants(&["new_ones.out"]),
    OpDef::new(with_options!("new_empty(Tensor self, SymInt[] size"), |c, b| new(c, b, int(0)), NEW)
        .variants(&["new_empty.out"]),
    OpDef::new(
        with_options!("new_empty_strided(Tensor self, SymInt[] size, SymInt[] stride"),
        |c, b| new(c, b, int(0)),
        &[ok("f32[2], [2, 3], [3, 1]"), ok("i64[2], [2], [1], dtype=f32")],
    )
    .variants(&["new_empty_strided.out"]),
    OpDef::new(
        with_options!("new_full(Tensor self, SymInt[] size, Scalar fill_value"),
        |c, b| new(c, b, c.scalar("fill_value")?),
        &[ok("f32[2], [2, 3], 2"), ok("i64[2], [], 2.5"), ok("f32[2], [3], 1, dtype=bool")],
    )
    .variants(&["new_full.out"]),
    OpDef::new(
        with_options!("scalar_tensor(Scalar s"),
        |c, b| {
            let dtype = c.optional_dtype("dtype")?.unwrap_or(c.default_dtype());
            one(c.scalar_value(b, &c.scalar("s")?, dtype)?)
        },
        &[ok("2"), ok("2.5, dtype=i64"), ok("-inf, dtype=bf16"), ok("true, dtype=bool")],
    )
    .variants(&["scalar_tensor.out"]),
    OpDef::new(
        with_options!("eye(SymInt n"),
        |c, b| {
            let n = c.int("n")?;
            eye(c, b, n, n)
        },
        &[ok("3"), ok("0"), ok("2, dtype=i64"), err("-1", "n must be greater or equal to 0, got -1")],
    )
    .variants(&["eye.out"]),
    OpDef::new(
        with_options!("eye.m(SymInt n, SymInt m"),
        |c, b| eye(c, b, c.int("n")?, c.int("m")?),
        &[ok("3, 4"), ok("2, 0"), ok("3, 2, dtype=bool")],
    )
    .variants(&["eye.m_out"]),
    OpDef::new("aten::tril(Tensor self, SymInt diagonal=0) -> Tensor", |c, b| triangle(c, b, true), TRIANGLE)
        .variants(&["tril_", "tril.out"]),
    OpDef::new("aten::triu(Tensor self, SymInt diagonal=0) -> Tensor", |c, b| triangle(c, b, false), TRIANGLE)
        .variants(&["triu_", "triu.out"]),
    OpDef::new(
        with_options!("tril_indices(int row, int col, int offset=0", "ScalarType? dtype=long", ""),
        |c, b| triangle_indices(c, b, true),
        TRIANGLE_INDICES,
    )
    .variants(&["tril_indices.out"]),
    OpDef::new(
        with_options!("triu_indices(int row, int col, int offset=0", "ScalarType? dtype=long", ""),
        |c, b| triangle_indices(c, b, false),
        TRIANGLE_INDICES,
    )
    .variants(&["triu_indices.out"]),
    OpDef::new("aten::zero(Tensor self) -> Tensor", |c, b| fill(c, b, int(0).into()), &[ok("f32[2,3]"), ok("i64[]")])
        .variants(&["zero_", "zero.out"])
        .called(Manner::Fill),
    OpDef::new(
        "aten::fill.Scalar(Tensor self, Scalar value) -> Tensor",
        |c, b| fill(c, b, c.operand(b, "value")?),
        &[ok("f32[2,3], 1.5"), ok("i64[2], 2.5"), ok("bool[2], 2")],
    )
    .variants(&["fill_.Scalar", "fill.Scalar_out"])
    .called(Manner::Fill),
    OpDef::new(
        "aten::fill.Tensor(Tensor self, Tensor value) -> Tensor",
        |c, b| fill(c, b, c.operand(b, "value")?),
        &[
            ok("f32[2,3], i64[]"),
            ok("i64[2], f32[]{2.5}"),
            err("f32[2], f32[2]", "fill_ only supports 0-dimension value tensor but got tensor with 1 dimensions."),
        ],
    )
    .variants(&["fill_.Tensor", "fill.Tensor_out"])
    .called(Manner::Fill),
];

const SIZES: &[Sample] = &[
    ok("[2, 3]"),
    ok("[]"),
    ok("[0], dtype=i64"),
    ok("[2], dtype=bool"),
    err("[2, -1]", "Trying to create tensor with negative dimension"),
];
const LIKE: &[Sample] = &[ok("f32[2,3]"), ok("i64[0]"), ok("bf16[2], dtype=f32"), ok("f32[], dtype=bool")];
const NEW: &[Sample] = &[ok("f32[2], [0, 3]"), ok("i64[2], [2, 3]"), ok("f32[], [2], dtype=bool"), ok("bf16[2], []")];
const TRIANGLE: &[Sample] = &[
    ok("f32[4,4]"),
    ok("f32[2,3,5], 1"),
    ok("bool[3,4], -1"),
    ok("i64[3,3], 10"),
    ok("bf16[3,3], -10"),
    ok("f32[0,3]"),
    err("f32[3]", "must have at least 2 dimensions"),
];
const TRIANGLE_INDICES: &[Sample] =
    &[ok("3, 3"), ok("3, 4, 1"), ok("4, 3, -1"), ok("3, 3, 0, dtype=i32"), ok("0, 3"), ok("3, 3, 5"), ok("3, 3, -5")];

pub(super) fn int(n: i64) -> Scalar {
    Scalar::Known(Number::Int(n))
}

/// `number` in every element.
fn filled(c: &Call<'_>, b: &Builder, number: &Scalar, dtype: DType, shape: &[usize]) -> Result<Outs> {
    c.require_fit(number, dtype)?;
    one(broadcast_to(b, c.scalar_value(b, number, dtype)?, shape)?)
}

/// Takes its type from the number unless one is given.
fn full(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let value = c.scalar("fill_value")?;
    let implied = if value.dtype().is_float() { c.default_dtype() } else { value.dtype() };
    filled(c, b, &value, c.optional_dtype("dtype")?.unwrap_or(implied), &c.sizes("size")?)
}

fn sized(c: &Call<'_>, b: &Builder, number: i64) -> Result<Outs> {
    let dtype = c.optional_dtype("dtype")?.unwrap_or(c.default_dtype());
    filled(c, b, &int(number), dtype, &c.sizes("size")?)
}

/// Shape and, unless given, type of `self`, whose value is not read.
fn like(c: &Call<'_>, b: &Builder, number: Scalar) -> Result<Outs> {
    let dtype = c.optional_dtype("dtype")?.map_or_else(|| c.dtype_of("self"), Ok)?;
    filled(c, b, &number, dtype, &c.layout("self")?.sizes)
}

/// Type of `self` unless given.
fn new(c: &Call<'_>, b: &Builder, number: Scalar) -> Result<Outs> {
    let dtype = c.optional_dtype("dtype")?.map_or_else(|| c.dtype_of("self"), Ok)?;
    filled(c, b, &number, dtype, &c.sizes("size")?)
}

/// Zeros like `other`, with the first `self_num_batch_dims` dimensions of `self` in front.
fn tangent(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (batch, like) = (b.shape(c.tensor(b, "self")?), b.shape(c.tensor(b, "other")?));
    let count = c.int("self_num_batch_dims")?;
    let taken = usize::try_from(count).ok().filter(|&n| n <= batch.len());
    let Some(taken) = taken else { invalid!("{count} batch dimensions of a tensor that has {}", batch.len()) };
    let shape = [&batch[..taken], &like[..]].concat();
    filled(c, b, &Scalar::Known(Number::Int(0)), c.dtype_of("other")?, &shape)
}

fn fill(c: &Call<'_>, b: &Builder, value: Operand) -> Result<Outs> {
    let dtype = c.dtype_of("self")?;
    let value = match value {
        Operand::Scalar(s) => {
            c.require_fit(&s, dtype)?;
            c.scalar_value(b, &s, dtype)?
        }
        Operand::Tensor(v) => {
            let rank = b.rank(v);
            ensure!(rank == 0, "fill_ only supports 0-dimension value tensor but got tensor with {rank} dimensions.");
            b.convert(v, dtype)?
        }
    };
    one(broadcast_to(b, value, &c.layout("self")?.sizes)?)
}

fn eye(c: &Call<'_>, b: &Builder, n: i64, m: i64) -> Result<Outs> {
    ensure!(n >= 0, "n must be greater or equal to 0, got {n}");
    ensure!(m >= 0, "m must be greater or equal to 0, got {m}");
    let dtype = c.optional_dtype("dtype")?.unwrap_or(c.default_dtype());
    let shape = [n as usize, m as usize];
    let (row, column) = (b.iota(DType::I64, &shape, 0)?, b.iota(DType::I64, &shape, 1)?);
    one(b.convert(formula(b, [row, column], |[row, column]| row.equals(column))?, dtype)?)
}

/// `self` below (or above) a diagonal, which is kept too, and zero elsewhere.
fn triangle(c: &Call<'_>, b: &Builder, lower: bool) -> Result<Outs> {
    let v = c.tensor(b, "self")?;
    let shape = b.shape(v);
    let rank = shape.len();
    let name = if lower { "tril" } else { "triu" };
    ensure!(rank >= 2, "{name}: input tensor must have at least 2 dimensions");
    let matrix = &shape[rank - 2..];
    let (row, column) = (b.iota(DType::I64, matrix, 0)?, b.iota(DType::I64, matrix, 1)?);
    let diagonal = diagonal_of(c, b, matrix)?;
    let keep = elementwise(c, b, [row.into(), column.into(), diagonal], DType::I64, |[row, column, diagonal]| {
        let beyond = column - row;
        if lower { beyond.at_most(diagonal) } else { beyond.at_least(diagonal) }
    })?;
    let keep = broadcast_to(b, keep, &shape)?;
    one(b.select(keep, v, super::support::like(b, v, 0.0)?)?)
}

/// Which diagonal a triangle ends with. Of those beside the main one, which masks of attention have, programs know it.
fn diagonal_of(c: &Call<'_>, b: &Builder, matrix: &[usize]) -> Result<Operand> {
    let (rows, columns) = (matrix[0] as i64, matrix[1] as i64);
    match c.scalar("diagonal")? {
        Scalar::Known(n) if c.context.relaying && !(-1..=1).contains(&n.as_i64()) => {
            let from_first = c.relayed(b, n.as_i64().clamp(-rows, columns) + rows)?;
            b.subtract(from_first, b.scalar(Number::Int(rows), DType::I64)?).map(Operand::Tensor)
        }
        other => Ok(Operand::Scalar(other)),
    }
}

/// Rows and columns of the elements below (or above) a diagonal, in row-major order.
fn triangle_indices(c: &Call<'_>, b: &Builder, lower: bool) -> Result<Outs> {
    let (rows, columns, offset) = (c.int("row")?, c.int("col")?, c.int("offset")?);
    ensure!(rows >= 0, "row must be non-negative, got {rows}");
    ensure!(columns >= 0, "col must be non-negative, got {columns}");
    let total = rows.checked_mul(columns).is_some_and(|n| n <= 1 << 28);
    ensure!(total, "a triangle of {rows} by {columns} is too large for a constant");
    let kept = |r: i64| {
        let edge = r.saturating_add(offset);
        if lower { 0..edge.saturating_add(1).clamp(0, columns) } else { edge.clamp(0, columns)..columns }
    };
    let places = (0..rows).flat_map(|r| kept(r).map(move |k| (r, k)));
    let (mut indices, of_columns): (Vec<i64>, Vec<i64>) = places.unzip();
    let shape = [2, indices.len()];
    indices.extend(of_columns);
    let flat = b.constant(crate::Literal::i64s(&indices))?;
    let dtype = c.optional_dtype("dtype")?.unwrap_or(DType::I64);
    one(b.convert(b.reshape(flat, &shape)?, dtype)?)
}
