//! Norms and condition numbers of matrices.

use super::super::support::{dim, torch_name};
use super::super::{OpDef, Sample, Scalar, err, ok};
use super::linalg::singular_values;
use super::{Torch, call, call_all, composite};
use crate::error::Result;
use crate::graph::ValueId;
use crate::{DType, Number, ensure, ensure_kernel, invalid};

pub(in super::super) static OPS: &[OpDef] = &[
    composite!(
        "linalg_norm(Tensor self, Scalar? ord=None, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
        norm,
        NORMS
    )
    .variants(&["linalg_norm.out"]),
    composite!(
        "linalg_norm.ord_str(Tensor self, str ord, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
        |t| {
            let dims = norm_dims(t, true)?.unwrap_or_else(|| vec![0, 1]);
            named_norm(t, t.c.string("ord")?.unwrap_or_default(), &dims)
        },
        &[
            ok("f64[3,3]{1,5,3,4,1,2,2,3,6}, 'nuc'"),
            ok("f32[2,3,4], 'fro', [0,2], true"),
            err("f32[2,3], 'x'", "linalg.matrix_norm: Order x not supported."),
            err("f32[2,3,4], 'fro'", "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got 3D."),
        ]
    )
    .variants(&["linalg_norm.ord_str_out"]),
    composite!(
        "linalg_matrix_norm(Tensor self, Scalar ord, int[] dim=[-2, -1], bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
        |t| matrix_norm(t, t.c.tensor(t.b, "self")?, t.c.float("ord")?, &t.c.ints("dim")?, t.c.flag("keepdim")?),
        MATRIX_NORMS
    )
    .variants(&["linalg_matrix_norm.out"]),
    composite!(
        "linalg_matrix_norm.str_ord(Tensor self, str ord='fro', int[] dim=[-2, -1], bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
        |t| named_norm(t, t.c.string("ord")?.unwrap_or_default(), &t.c.ints("dim")?),
        &[
            ok("f32[2,3,4]"),
            ok("f64[2,4,3]{1,5,3,4,1,2,2,3,6,7,9,1,-5}, 'nuc', [1,2], true"),
            ok("f64[3,4,2], 'nuc', [0,2]"),
            ok("bf16[3,4], dtype=f32"),
            err("f32[2,3], 'x'", "linalg.matrix_norm: Order x not supported."),
            err("f32[2,3], 'fro', [1]", "linalg.matrix_norm: dim must be a 2-tuple."),
        ]
    )
    .variants(&["linalg_matrix_norm.str_ord_out"]),
    composite!(
        "nuclear_norm(Tensor self, bool keepdim=False) -> Tensor",
        |t| nuclear(t, t.c.tensor(t.b, "self")?, &[-2, -1], t.c.flag("keepdim")?),
        &[ok("f64[3,4]"), ok("f32[3,3]{1,5,3,4,1,2,2,3,6}, true")]
    )
    .variants(&["nuclear_norm.out"]),
    composite!(
        "nuclear_norm.dim(Tensor self, int[2] dim, bool keepdim=False) -> Tensor",
        |t| nuclear(t, t.c.tensor(t.b, "self")?, &t.c.ints("dim")?, t.c.flag("keepdim")?),
        &[ok("f64[3,2,4], [0,2], true")]
    )
    .variants(&["nuclear_norm.dim_out"]),
    composite!(
        "frobenius_norm.dim(Tensor self, int[1] dim, bool keepdim=False) -> Tensor",
        |t| {
            let (v, dims) = (t.c.tensor(t.b, "self")?, t.c.ints("dim")?);
            call!(t, "linalg_vector_norm", v, 2, dims, t.c.flag("keepdim")?)
        },
        &[ok("f32[2,3], [0,1]"), ok("c64[2,3,4], [1], true"), ok("f32[2,3], []")]
    )
    .variants(&["frobenius_norm.out"]),
    composite!("linalg_cond(Tensor self, Scalar? p=None) -> Tensor", cond, COND).variants(&["linalg_cond.out"]),
    composite!(
        "linalg_cond.p_str(Tensor self, str p) -> Tensor",
        |t| named_cond(t, t.c.string("p")?.unwrap_or_default()),
        &[ok("f64[3,3]{1,5,3,4,1,2,2,3,6}, 'fro'"), ok("f64[2,3,3]{1,5,3,4,1,2,2,3,6}, 'nuc'"), err("f32[2,2], 'x'", "linalg.cond got an invalid norm type: x")]
    )
    .variants(&["linalg_cond.p_str_out"]),
];

const NORMS: &[Sample] = &[
    ok("f32[2,3]"),
    ok("f32[2,3,4]"),
    ok("f32[4], 3"),
    ok("f64[3,3]{1,5,3,4,1,2,2,3,6}, 2"),
    ok("f32[3,4], 1, none, true"),
    ok("f32[2,3,4], inf, [0,2]"),
    ok("f32[2,3,4], 1, [1], true"),
    ok("f16[3], dtype=f32"),
    ok("c64[2,3]"),
    err("i64[3]", "linalg.vector_norm: Expected a floating point or complex tensor as input. Got Long"),
    err("f32[2,3,4], 2", "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got 3D."),
    err("f32[2,3,4], 2, [0,1,2]", "linalg.norm: If dim is specified, it must be of length 1 or 2."),
    err("f32[2,3], 3", "linalg.matrix_norm: Order 3 not supported."),
];
const MATRIX_NORMS: &[Sample] = &[
    ok("f64[2,4,3]{1,5,3,4,1,2,2,3,6,7,9,1,-5}, 2"),
    ok("f64[2,4,3]{1,5,3,4,1,2,2,3,6,7,9,1,-5}, -2, [0,2], true"),
    ok("f32[2,3,4], 1"),
    ok("f32[2,3,4], -1, [2,0]"),
    ok("f32[2,3,4], inf, [0,2], true"),
    ok("c64[3,4], -inf"),
    ok("f32[3,3]{1,5,3,4,1,2,2,3,6}, 2, dtype=f64"),
    ok("bf16[3,4], 1"),
    err("f32[2,3], 3", "linalg.matrix_norm: Order 3 not supported."),
    err("f32[2,3], 2, [1]", "linalg.matrix_norm: dim must be a 2-tuple."),
    err("f32[3], 2", "linalg.matrix_norm: The input tensor A must have at least 2 dimensions."),
    err("i64[2,3], 2", "linalg.matrix_norm: Expected a floating point or complex tensor as input. Got Long"),
];
const COND: &[Sample] = &[
    ok("f64[3,3]{1,5,3,4,1,2,2,3,6}"),
    ok("f64[2,4,3]{1,5,3,4,1,2,2,3,6,7,9,1,-5}, -2"),
    ok("f64[3,3]{1,5,3,4,1,2,2,3,6}, 1"),
    ok("f64[3,3]{1,5,3,4,1,2,2,3,6}, -inf"),
    // A singular matrix has no finite one.
    ok("f64[2,2]{1,0,0,0}, 1"),
    ok("f32[0,3,3]"),
    err("f32[3]", "linalg.cond: The input tensor must have at least 2 dimensions."),
    err("f32[3,3], 3", "linalg.cond got an invalid norm type: 3"),
];

/// The dimensions that `linalg.norm` is given; nothing where it takes them all.
fn norm_dims(t: Torch<'_>, has_ord: bool) -> Result<Option<Vec<i64>>> {
    let (dims, rank) = (t.c.optional_ints("dim")?, t.b.rank(t.c.tensor(t.b, "self")?));
    match &dims {
        Some(dims) => {
            ensure!(
                matches!(dims.len(), 1 | 2),
                "linalg.norm: If dim is specified, it must be of length 1 or 2. Got {dims:?}"
            );
        }
        None => {
            ensure!(
                !has_ord || matches!(rank, 1 | 2),
                "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {rank}D."
            );
        }
    }
    Ok(dims)
}

fn norm(t: Torch<'_>) -> Result<ValueId> {
    let (c, v) = (t.c, t.c.tensor(t.b, "self")?);
    let ord = c.optional_scalar("ord")?;
    let dims = norm_dims(t, ord.is_some())?;
    let matrix = match &dims {
        Some(dims) => dims.len() == 2,
        None => t.b.rank(v) == 2,
    };
    let keep = c.flag("keepdim")?;
    if ord.is_some() && matrix {
        let dims = dims.unwrap_or_else(|| vec![0, 1]);
        return matrix_norm(t, v, c.float("ord")?, &dims, keep);
    }
    let ord = ord.unwrap_or(Scalar::Known(Number::Int(2)));
    call!(t, "linalg_vector_norm", v, ord, dims, keep, c.optional_dtype("dtype")?)
}

/// What the matrices of a norm must be, and their dimensions.
fn matrix_dims(t: Torch<'_>, v: ValueId, dims: &[i64]) -> Result<[usize; 2]> {
    let (rank, dtype, op) = (t.b.rank(v), t.b.dtype(v), "linalg.matrix_norm");
    ensure!(rank >= 2, "{op}: The input tensor A must have at least 2 dimensions.");
    let [first, second] = dims else { invalid!("{op}: dim must be a 2-tuple. Got {dims:?}") };
    ensure_kernel!(
        dtype.is_float() || dtype.is_complex(),
        "{op}: Expected a floating point or complex tensor as input. Got {}",
        torch_name(dtype)
    );
    let (first, second) = (dim(*first, rank)?, dim(*second, rank)?);
    ensure!(first != second, "{op}: dims must be different. Got ({first}, {second})");
    Ok([first, second])
}

/// The singular values of matrices along two dimensions, in a dimension behind all others.
fn singular(t: Torch<'_>, v: ValueId, dims: [usize; 2]) -> Result<ValueId> {
    let others = (0..t.b.rank(v)).filter(|d| !dims.contains(d));
    let order: Vec<usize> = others.chain(dims).collect();
    let v = t.b.transpose(v, &order)?;
    let v = match asked_dtype(t)? {
        Some(dtype) => t.b.convert(v, dtype)?,
        None => v,
    };
    singular_values(t, v, None)
}

fn asked_dtype(t: Torch<'_>) -> Result<Option<DType>> {
    if t.c.schema.position("dtype").is_some() { t.c.optional_dtype("dtype") } else { Ok(None) }
}

/// `v` with the two dimensions put back that its matrices had.
fn kept(t: Torch<'_>, v: ValueId, mut dims: [usize; 2], keep: bool) -> Result<ValueId> {
    dims.sort_unstable();
    if keep { super::super::support::unsqueeze(t.b, v, &dims) } else { Ok(v) }
}

fn matrix_norm(t: Torch<'_>, v: ValueId, ord: f64, dims: &[i64], keep: bool) -> Result<ValueId> {
    let dims = matrix_dims(t, v, dims)?;
    let size = ord.abs();
    ensure!(size == 1.0 || size == 2.0 || size == f64::INFINITY, "linalg.matrix_norm: Order {ord} not supported.");
    let extreme = |v: ValueId, d: usize, keep: bool| match ord > 0.0 {
        true => call!(t, "amax", v, [d as i64], keep),
        false => call!(t, "amin", v, [d as i64], keep),
    };
    if size == 2.0 {
        let values = singular(t, v, dims)?;
        return kept(t, extreme(values, t.b.rank(values) - 1, false)?, dims, keep);
    }
    let [summed, other] = if size == 1.0 { dims } else { [dims[1], dims[0]] };
    let sums = call!(t, "linalg_vector_norm", v, 1, [summed as i64], keep, asked_dtype(t)?)?;
    extreme(sums, other - usize::from(!keep && summed < other), keep)
}

fn nuclear(t: Torch<'_>, v: ValueId, dims: &[i64], keep: bool) -> Result<ValueId> {
    let dims = matrix_dims(t, v, dims)?;
    kept(t, call!(t, "sum.dim_IntList", singular(t, v, dims)?, [-1i64])?, dims, keep)
}

fn named_norm(t: Torch<'_>, ord: &str, dims: &[i64]) -> Result<ValueId> {
    let (v, keep) = (t.c.tensor(t.b, "self")?, t.c.flag("keepdim")?);
    norm_by_name(t, v, ord, dims, keep)
}

fn norm_by_name(t: Torch<'_>, v: ValueId, ord: &str, dims: &[i64], keep: bool) -> Result<ValueId> {
    let wrapped = matrix_dims(t, v, dims)?;
    match ord {
        "fro" => call!(t, "linalg_vector_norm", v, 2, &wrapped[..], keep, asked_dtype(t)?),
        "nuc" => nuclear(t, v, dims, keep),
        _ => invalid!("linalg.matrix_norm: Order {ord} not supported."),
    }
}

/// `self`, unless there is nothing in it: then condition numbers of nothing.
fn cond_operand(t: Torch<'_>) -> Result<std::result::Result<ValueId, ValueId>> {
    let v = t.c.tensor(t.b, "self")?;
    let shape = t.b.shape(v);
    ensure!(shape.len() >= 2, "linalg.cond: The input tensor must have at least 2 dimensions.");
    if !shape.contains(&0) {
        return Ok(Ok(v));
    }
    t.b.full(Number::Int(0), t.b.dtype(v).real(), &shape[..shape.len() - 2]).map(Err)
}

fn cond(t: Torch<'_>) -> Result<ValueId> {
    let p = t.c.optional_float("p")?.unwrap_or(2.0);
    let v = match cond_operand(t)? {
        Ok(v) => v,
        Err(nothing) => return Ok(nothing),
    };
    let size = p.abs();
    ensure!(size == 1.0 || size == 2.0 || size == f64::INFINITY, "linalg.cond got an invalid norm type: {p}");
    if size != 2.0 {
        return cond_by_inverse(t, v, |v| matrix_norm(t, v, p, &[-2, -1], false));
    }
    let values = singular_values(t, v, None)?;
    let (largest, least) = (call!(t, "select_copy.int", values, -1, 0)?, call!(t, "select_copy.int", values, -1, -1)?);
    if p > 0.0 { call!(t, "div.Tensor", largest, least) } else { call!(t, "div.Tensor", least, largest) }
}

fn named_cond(t: Torch<'_>, p: &str) -> Result<ValueId> {
    let v = match cond_operand(t)? {
        Ok(v) => v,
        Err(nothing) => return Ok(nothing),
    };
    ensure!(p == "fro" || p == "nuc", "linalg.cond got an invalid norm type: {p}");
    if p == "nuc" {
        let inverse = call!(t, "linalg_inv_ex", v)?;
        let norm = |v| norm_by_name(t, v, p, &[-2, -1], false);
        return call!(t, "mul.Tensor", norm(v)?, norm(inverse)?);
    }
    cond_by_inverse(t, v, |v| norm_by_name(t, v, p, &[-2, -1], false))
}

/// The norm times that of the inverse, infinite where there is none.
fn cond_by_inverse(t: Torch<'_>, v: ValueId, norm: impl Fn(ValueId) -> Result<ValueId>) -> Result<ValueId> {
    let parts = call_all!(t, "linalg_inv_ex", v)?;
    let mut singular = call!(t, "gt.Scalar", parts[1], 0)?;
    for _ in 0..2 {
        singular = call!(t, "unsqueeze_copy", singular, -1)?;
    }
    let inverse = call!(t, "masked_fill.Scalar", parts[0], singular, f64::INFINITY)?;
    let product = call!(t, "mul.Tensor", norm(v)?, norm(inverse)?)?;
    // Where zero meets infinity NumPy has infinity.
    call!(t, "nan_to_num", product, f64::INFINITY, f64::INFINITY, f64::NEG_INFINITY)
}
