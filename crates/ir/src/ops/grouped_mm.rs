//! Products of groups of rows with one matrix a group, as mixture-of-experts layers use them.
//!
//! Group `g` holds positions `offs[g - 1]..offs[g]` of the ragged dimension. Where the groups lie is known only when the
//! program runs, so every row meets every group's matrix and a mask keeps its own: the arithmetic of a dense product
//! times the number of groups. Masking results (not operands) keeps NaN and infinity in the groups they belong to.

use super::matmul::contract;
use super::{Call, OpDef, Outs, err, many, ok, one};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::{Binary, Comparison, DType, Reducer, ensure};

pub(super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::_grouped_mm(Tensor self, Tensor mat2, Tensor? offs=None, Tensor? bias=None, ScalarType? out_dtype=None) -> Tensor",
        grouped_mm,
        &[
            ok("bf16[16,16], bf16[3,16,8], i32[3]{4,8,16}"),
            ok("bf16[16,16], bf16[3,16,8], i32[3]{4,4,16}"),
            ok("f32[16,16], f32[3,16,8], i32[3]{4,8,16}"),
            ok("bf16[16,16], bf16[16,8], i32[3]{4,8,16}"),
            ok("bf16[3,8,16], bf16[16,16], i32[3]{4,8,16}"),
            ok("bf16[3,8,16], bf16[3,16,16]"),
            err("bf16[16,16], bf16[3,16,8]", "Have to provide offsets if there is a 2d matrix"),
            err("bf16[16,16], bf16[3,16,8], i32[2]{4,8}", "matrix batch sizes have to match"),
            err("bf16[16,16], bf16[3,8,8], i32[3]{4,8,16}", "contraction dimension of mat_a and mat_b must match"),
            err("bf16[16,16], bf16[3,16,8], i64[3]{4,8,16}", "Offsets have to be int32"),
        ],
    ),
    OpDef::new(
        "transformers::grouped_mm_fallback(Tensor input, Tensor weight, Tensor offs) -> Tensor",
        |c, b| {
            let (x, w, offs) = (c.tensor(b, "input")?, c.tensor(b, "weight")?, c.tensor(b, "offs")?);
            check(b, x, w, offs)?;
            one(b.convert(rows_by_group(c, b, x, w, 1, offs)?, b.dtype(x))?)
        },
        &[
            ok("f32[6,3], f32[4,3,5], i32[4]{1,1,4,6}"),
            ok("f32[6,3], f32[4,3,5], i64[4]{0,2,3,5}"),
            ok("bf16[6,3], bf16[2,3,5], i32[2]{0,6}"),
            ok("f32[0,3], f32[2,3,5], i32[2]{0,0}"),
            err("f32[6,3], f32[4,2,5], i32[4]{1,1,4,6}", "input_dim mismatch: input has 3, weight has 2"),
        ],
    ),
    OpDef::new(
        "transformers::grouped_mm_fallback_backward(Tensor input, Tensor weight, Tensor offs, Tensor grad_output) -> (Tensor, Tensor)",
        fallback_backward,
        &[
            ok("f32[6,3], f32[4,3,5], i32[4]{1,1,4,6}, f32[6,5]"),
            ok("f32[6,3], f32[4,3,5], i64[4]{0,2,3,5}, f32[6,5]"),
            ok("bf16[6,3], bf16[2,3,5], i32[2]{0,6}, bf16[6,5]"),
        ],
    ),
];

fn check(b: &Builder, x: ValueId, w: ValueId, offs: ValueId) -> Result<()> {
    let (s, t, u) = (b.shape(x), b.shape(w), b.shape(offs));
    ensure!(s.len() == 2, "input must be 2D (S, input_dim), got shape {s:?}");
    ensure!(t.len() == 3, "weight must be 3D (num_experts, input_dim, output_dim), got shape {t:?}");
    ensure!(u.len() == 1, "offs must be 1D (num_experts,), got shape {u:?}");
    ensure!(u[0] == t[0], "offs length {} must match number of experts {}", u[0], t[0]);
    ensure!(s[1] == t[1], "input_dim mismatch: input has {}, weight has {}", s[1], t[1]);
    ensure!(b.dtype(offs).is_int(), "offs must be an integer tensor, got {}", b.dtype(offs));
    Ok(())
}

/// `bool[n, groups]`: whether position `i` of the ragged dimension belongs to group `g`.
fn membership(b: &Builder, offs: ValueId, n: usize) -> Result<ValueId> {
    let (groups, dtype) = (b.shape(offs)[0], b.dtype(offs));
    let zero = b.full(crate::Number::Int(0), dtype, &[groups.min(1)])?;
    let before = b.slice_dim(offs, 0, 0, groups.saturating_sub(1), 1)?;
    let starts = b.concatenate(&[zero, before], 0)?;
    let shape = [n, groups];
    let position = b.iota(dtype, &shape, 0)?;
    let spread = |v| b.broadcast_in_dim(v, &shape, &[1]);
    let from = b.compare(Comparison::Ge, position, spread(starts)?)?;
    let to = b.compare(Comparison::Lt, position, spread(offs)?)?;
    b.binary(Binary::And, from, to)
}

/// `v` where `mask`, broadcast over `dims` of `v`, holds; zero elsewhere.
fn masked(b: &Builder, v: ValueId, mask: ValueId, dims: &[usize]) -> Result<ValueId> {
    let mask = b.broadcast_in_dim(mask, &b.shape(v), dims)?;
    b.select(mask, v, super::support::like(b, v, 0.0)?)
}

/// Row `i` of `x[n, k]` times the matrix of its group, whose dimension `over` is contracted; zero for a row of no
/// group. In the accumulation type.
fn rows_by_group(c: &Call<'_>, b: &Builder, x: ValueId, w: ValueId, over: usize, offs: ValueId) -> Result<ValueId> {
    let (n, t) = (b.shape(x)[0], b.shape(w));
    let (groups, k, m) = (t[0], t[over], t[3 - over]);
    // Groups and columns as one dimension: XLA's CPU multiplies 16-bit matrices only where each has one free dimension.
    let flat = b.reshape(b.transpose(w, &[over, 0, 3 - over])?, &[k, groups * m])?;
    let products = b.reshape(contract(c, b, x, flat, &[], &[(1, 0)])?, &[n, groups, m])?;
    let mask = membership(b, offs, b.shape(x)[0])?;
    b.reduce(masked(b, products, mask, &[0, 1])?, Reducer::Add, &[1])
}

/// `x[:, group].T @ y[group]` for each group: `[groups, k, m]` from `x[n, k]` and `y[n, m]`. In the accumulation type.
fn group_products(c: &Call<'_>, b: &Builder, x: ValueId, y: ValueId, offs: ValueId) -> Result<ValueId> {
    let n = b.shape(x)[0];
    let groups = b.shape(offs)[0];
    let mask = membership(b, offs, n)?;
    let own = |v: ValueId| {
        let spread = b.broadcast_in_dim(v, &[n, groups, b.shape(v)[1]], &[0, 2])?;
        masked(b, spread, mask, &[0, 1])
    };
    contract(c, b, own(x)?, own(y)?, &[(1, 1)], &[(0, 0)])
}

fn fallback_backward(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (x, w, offs) = (c.tensor(b, "input")?, c.tensor(b, "weight")?, c.tensor(b, "offs")?);
    let grad = c.tensor(b, "grad_output")?;
    check(b, x, w, offs)?;
    let grad_input = b.convert(rows_by_group(c, b, grad, w, 2, offs)?, b.dtype(x))?;
    let grad_weight = b.convert(group_products(c, b, x, grad, offs)?, b.dtype(w))?;
    many([grad_input, grad_weight])
}

fn grouped_mm(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (x, y, offs) = (c.tensor(b, "self")?, c.tensor(b, "mat2")?, c.optional_tensor(b, "offs")?);
    let (s, t) = (b.shape(x), b.shape(y));
    for (v, name) in [(&s, "mat_a"), (&t, "mat_b")] {
        ensure!(v.len() == 2 || v.len() == 3, "{name} has to be 2 or 3d");
    }
    let (m, n) = (s.len(), t.len());
    ensure!(s[m - 1] == t[n - 2], "contraction dimension of mat_a and mat_b must match");
    ensure!(
        offs.is_some() == (m == 2 || n == 2),
        "Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d"
    );
    ensure!(!c.has("bias"), "Bias not supported yet");
    let dtype = c.optional_dtype("out_dtype")?.unwrap_or(b.dtype(x));
    ensure!(dtype == b.dtype(x), "Grouped gemm output dtype must match `mat_a` dtype");
    let Some(offs) = offs else {
        ensure!(s[0] == t[0], "batched dimension has to match");
        return one(b.convert(contract(c, b, x, y, &[(0, 0)], &[(2, 1)])?, dtype)?);
    };
    ensure!(b.rank(offs) == 1, "offs has to be 1D");
    ensure!(b.dtype(offs) == DType::I32, "Offsets have to be int32");
    let groups = b.shape(offs)[0];
    let matches = (m == 2 || s[0] == groups) && (n == 2 || t[0] == groups);
    ensure!(matches, "matrix batch sizes have to match");
    let product = match (m, n) {
        (2, 3) => rows_by_group(c, b, x, y, 1, offs)?,
        (2, _) => group_products(c, b, b.transpose(x, &[1, 0])?, y, offs)?,
        // Columns by group: the rows of the transpose.
        _ => b.transpose(rows_by_group(c, b, b.transpose(y, &[1, 0])?, x, 2, offs)?, &[1, 0])?,
    };
    one(b.convert(product, dtype)?)
}
