//! Factorisations, inverses and determinants as users call them: without what only their gradients need.

use super::super::support::{dim, not_implemented, torch_name};
use super::super::{Call, OpDef, Outs, Sample, err, many, ok, one};
use super::{Torch, call, call_all, composite, renamed};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::{DType, Number, ensure};

/// Matrices that are not singular.
const SQUARE: &[Sample] = &[
    ok("f32[3,3]{1,5,3,4,1,2,2,3,6}"),
    ok("f64[2,2,2]{1,5,3,4,1,2,2}"),
    ok("c128[3,3]"),
    ok("f32[0,0]"),
    err("f32[2,3]", "A must be batches of square matrices, but they are 2 by 3 matrices"),
];
const SYSTEMS: &[Sample] = &[
    ok("f32[3,3]{1,5,3,4,1,2,2,3,6}, f32[3,2]"),
    ok("f32[3,3]{1,5,3,4,1,2,2,3,6}, f32[3]"),
    ok("f64[2,2,2]{1,5,3,4,1,2,2}, f64[2,3,2], left=false"),
    err("f32[3,3], f32[2,3]", "Incompatible shapes of A and B for the equation AX = B (3x3 and 2x3)"),
];
const HERMITIAN: &[Sample] = &[
    ok("f32[3,3]{1,5,3,5,1,2,3,2,-6}"),
    ok("f64[2,3,3]{1,9,9,5,1,9,3,2,-6,2,7,7,1,4,7,1,3,0}"),
    ok("c128[3,3], 'U'"),
    err("f32[2,2], 'x'", "Expected UPLO argument to be 'L' or 'U', but got x"),
];
const WIDE: &[Sample] =
    &[ok("f32[3,3]{1,5,3,4,1,2,2,3,6}"), ok("f64[2,4,3]{1,5,3,4,1,2,2,3,6,7,9,1,-5}"), ok("f64[2,3]{1,5,3,4,1,2}")];

pub(in super::super) static OPS: &[OpDef] = &[
    renamed!("linalg_inv(Tensor A) -> Tensor", "linalg_inv_ex", SQUARE).variants(&["linalg_inv.out"]),
    renamed!("inverse(Tensor self) -> Tensor", "linalg_inv_ex", SQUARE).variants(&["inverse.out"]),
    renamed!("linalg_det(Tensor A) -> Tensor", "_linalg_det", SQUARE).variants(&["linalg_det.out"]),
    renamed!("det(Tensor self) -> Tensor", "_linalg_det", SQUARE),
    renamed!("linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet)", "_linalg_slogdet", SQUARE)
        .variants(&["linalg_slogdet.out"]),
    renamed!("slogdet(Tensor self) -> (Tensor sign, Tensor logabsdet)", "_linalg_slogdet", SQUARE)
        .variants(&["slogdet.out"]),
    composite!("logdet(Tensor self) -> Tensor", logdet, LOGDET),
    renamed!("linalg_solve(Tensor A, Tensor B, *, bool left=True) -> Tensor", "_linalg_solve_ex", SYSTEMS)
        .variants(&["linalg_solve.out"]),
    OpDef::new(
        "aten::linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> (Tensor result, Tensor info)",
        |c, b| {
            let (x, y) = (c.tensor(b, "A")?, c.tensor(b, "B")?);
            let parts = call_all!(Torch::new(c, b), "_linalg_solve_ex", x, y, c.flag("left")?)?;
            many([parts[0], parts[3]])
        },
        SYSTEMS,
    )
    .variants(&["linalg_solve_ex.out"]),
    renamed!(
        "linalg_cholesky(Tensor self, *, bool upper=False) -> Tensor",
        "linalg_cholesky_ex",
        &[
            ok("f32[3,3]{4,1,2,1,5,3,2,3,6}"),
            ok("f64[2,2,2]{4,1,1,5,9,2,2,3}, upper=true"),
            err("f32[3]", "linalg.cholesky: The input tensor A must have at least 2 dimensions."),
        ]
    )
    .variants(&["linalg_cholesky.out"]),
    OpDef::new(
        "aten::linalg_svd(Tensor A, bool full_matrices=True, *, str? driver=None) -> (Tensor U, Tensor S, Tensor Vh)",
        |c, b| many(svd(Torch::new(c, b), "A", c.flag("full_matrices")?, c.string("driver")?)?),
        WIDE,
    )
    .variants(&["linalg_svd.U"]),
    OpDef::new("aten::svd(Tensor self, bool some=True, bool compute_uv=True) -> (Tensor U, Tensor S, Tensor V)", old_svd, SVD)
        .variants(&["svd.U"]),
    composite!(
        "linalg_svdvals(Tensor A, *, str? driver=None) -> Tensor",
        |t| singular_values(t, t.c.tensor(t.b, "A")?, t.c.string("driver")?),
        WIDE
    )
    .variants(&["linalg_svdvals.out"]),
    renamed!("linalg_eigh(Tensor self, str UPLO='L') -> (Tensor eigenvalues, Tensor eigenvectors)", "_linalg_eigh", HERMITIAN)
        .variants(&["linalg_eigh.eigvals"]),
    composite!(
        "linalg_eigvalsh(Tensor self, str UPLO='L') -> Tensor",
        |t| call!(t, "_linalg_eigh", t.c.tensor(t.b, "self")?, t.c.string("UPLO")?, false),
        HERMITIAN
    )
    .variants(&["linalg_eigvalsh.out"]),
    renamed!(
        "linalg_eigvals(Tensor self) -> Tensor",
        "_linalg_eigvals",
        &[ok("f64[2,4,4]{1,5,3,4,1,2,2,3,6,7,9,1,-5}"), ok("c64[3,3]")]
    )
    .variants(&["linalg_eigvals.out"]),
    renamed!("linalg_lu_factor(Tensor A, *, bool pivot=True) -> (Tensor LU, Tensor pivots)", "linalg_lu_factor_ex", WIDE)
        .variants(&["linalg_lu_factor.out"]),
    composite!(
        "lu_solve(Tensor self, Tensor LU_data, Tensor LU_pivots) -> Tensor",
        |t| {
            let (c, b) = (t.c, t.b);
            call!(t, "linalg_lu_solve", c.tensor(b, "LU_data")?, c.tensor(b, "LU_pivots")?, c.tensor(b, "self")?)
        },
        &[ok("f32[3,2], f32[3,3]{4,1,2,0.25,5,3,0.5,0.25,6}, i32[3]{2,3,3}")]
    )
    .variants(&["lu_solve.out"]),
    OpDef::new(
        "aten::linalg_ldl_factor(Tensor self, *, bool hermitian=False) -> (Tensor LD, Tensor pivots)",
        |c, b| Torch::new(c, b).renamed("aten::linalg_ldl_factor_ex"),
        &[ok("f64[3,3]{1,5,3,5,1,2,3,2,-6}"), ok("c128[3,3], hermitian=true")],
    )
    .variants(&["linalg_ldl_factor.out"]),
    renamed!("matrix_exp(Tensor self) -> Tensor", "linalg_matrix_exp", &[ok("f32[3,3]{-1,0.5,0.25,2,-1,0.125}")]),
    composite!(
        "linalg_pinv(Tensor self, float rcond, bool hermitian=False) -> Tensor",
        |t| pinv(t, None, tolerance(t, "rcond")?, t.c.flag("hermitian")?),
        PINV
    )
    .variants(&["linalg_pinv.out"]),
    composite!(
        "linalg_pinv.rcond_tensor(Tensor self, Tensor rcond, bool hermitian=False) -> Tensor",
        |t| pinv(t, Some(zero(t)?), t.c.optional_tensor(t.b, "rcond")?, t.c.flag("hermitian")?),
        &[ok("f64[2,2,2]{1,0,0,0.25,5,0,0,1}, f64[2]{0.1,0.22}")]
    )
    .variants(&["linalg_pinv.out_rcond_tensor"]),
    composite!(
        "linalg_pinv.atol_rtol_float(Tensor self, *, float? atol=None, float? rtol=None, bool hermitian=False) -> Tensor",
        |t| pinv(t, tolerance(t, "atol")?, tolerance(t, "rtol")?, t.c.flag("hermitian")?),
        &[
            ok("f64[2,4,3]{1,5,3,4,1,2,2,3,6,7,9,1,-5}"),
            ok("f64[2,2]{1,0,0,0.25}, atol=0.5"),
            ok("f64[3,3]{1,2,0,2,4,0,0,0,1}, rtol=0.1, hermitian=true"),
        ]
    )
    .variants(&["linalg_pinv.atol_rtol_float_out"]),
    composite!(
        "pinverse(Tensor self, float rcond=1.0000000000000001e-15) -> Tensor",
        |t| pinv(t, None, tolerance(t, "rcond")?, false),
        &[ok("f64[2,4,3]{1,5,3,4,1,2,2,3,6,7,9,1,-5}"), ok("f64[2,2]{1,0,0,0.25}, 0.5")]
    ),
    composite!(
        "linalg_matrix_rank(Tensor self, float tol, bool hermitian=False) -> Tensor",
        |t| rank(t, "self", tolerance(t, "tol")?, Some(zero(t)?)),
        &[ok("f64[3,3]{1,5,3,4,1,2,2,3,6}, 1.5"), ok("f64[2,2]{1,0,0,0.25}, 0.5, true")]
    )
    .variants(&["linalg_matrix_rank.out"]),
    composite!(
        "linalg_matrix_rank.tol_tensor(Tensor input, Tensor tol, bool hermitian=False) -> Tensor",
        |t| rank(t, "input", t.c.optional_tensor(t.b, "tol")?, Some(zero(t)?)),
        &[ok("f64[2,3,3]{1,5,3,4,1,2,2,3,6}, f64[2]{1.5,0.125}")]
    )
    .variants(&["linalg_matrix_rank.out_tol_tensor"]),
    composite!(
        "linalg_matrix_rank.atol_rtol_tensor(Tensor input, *, Tensor? atol=None, Tensor? rtol=None, bool hermitian=False) -> Tensor",
        |t| rank(t, "input", t.c.optional_tensor(t.b, "atol")?, t.c.optional_tensor(t.b, "rtol")?),
        RANK
    )
    .variants(&["linalg_matrix_rank.atol_rtol_tensor_out"]),
    composite!(
        "linalg_matrix_rank.atol_rtol_float(Tensor self, *, float? atol=None, float? rtol=None, bool hermitian=False) -> Tensor",
        |t| rank(t, "self", tolerance(t, "atol")?, tolerance(t, "rtol")?),
        &[ok("f32[3,3]{1,2,3}"), ok("f64[2,2]{1,0,0,0.25}, atol=0.5"), ok("f64[2,2]{1,0,0,0.25}, rtol=0.5")]
    )
    .variants(&["linalg_matrix_rank.atol_rtol_float_out"]),
    OpDef::new(
        "aten::linalg_tensorinv(Tensor self, int ind=2) -> Tensor",
        tensorinv,
        &[
            ok("f64[2,2,4]"),
            ok("f64[4,2,2], 1"),
            err("f32[4,4], 0", "Expected a strictly positive integer for 'ind', but got 0"),
            err("f32[2,3,4]", "Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind])"),
        ],
    )
    .variants(&["linalg_tensorinv.out"]),
    OpDef::new(
        "aten::linalg_tensorsolve(Tensor self, Tensor other, int[]? dims=None) -> Tensor",
        tensorsolve,
        &[
            ok("f64[2,2,4], f64[2,2]"),
            ok("f64[4,2,2], f64[2,2], [0]"),
            err("f32[2,3,4], f32[2,3]", "Expected self to satisfy the requirement prod(self.shape[other.ndim:])"),
        ],
    )
    .variants(&["linalg_tensorsolve.out"]),
];

const LOGDET: &[Sample] = &[
    ok("f32[3,3]{4,1,2,1,5,3,2,3,6}"),
    // A negative determinant has no logarithm.
    ok("f64[2,2,2]{1,5,3,4,1,2,2}"),
    ok("c128[3,3]"),
    err("f32[2,3]", "A must be batches of square matrices"),
];
const SVD: &[Sample] = &[
    ok("f64[2,4,3]{1,5,3,4,1,2,2,3,6,7,9,1,-5}"),
    ok("f64[2,3]{1,5,3,4,1,2}, false"),
    ok("c128[2,3]"),
    ok("f64[2,3]{1,5,3,4,1,2}, true, false"),
    err("f32[3]", "linalg.svd: input should have at least 2 dimensions, but has 1 dimensions instead"),
];
const PINV: &[Sample] = &[
    ok("f64[2,4,3]{1,5,3,4,1,2,2,3,6,7,9,1,-5}, 1e-6"),
    ok("f64[2,2]{1,0,0,0.25}, 0.5"),
    ok("f64[2,3,3]{1,5,3,5,1,2,3,2,-6}, 1e-6, true"),
];
const RANK: &[Sample] = &[
    ok("f32[3,3]{1,2,3}"),
    ok("f64[2,4,3]{1,5,3,4,1,2,2,3,6,7,9,1,-5}"),
    ok("f64[2,2]{1,0,0,0.25}, atol=f64[]{0.5}"),
    ok("f64[2,2]{1,0,0,0.25}, atol=f64[]{0.5}, rtol=f64[2]{0.125,0.75}"),
    ok("f64[3,3]{1,2,0,2,4,0,0,0,1}, hermitian=true"),
    ok("f32[2,0,3]"),
    err("f32[3]", "The input tensor input must have at least 2 dimensions."),
];

fn logdet(t: Torch<'_>) -> Result<ValueId> {
    let parts = call_all!(t, "_linalg_slogdet", t.c.tensor(t.b, "self")?)?;
    let (sign, log) = (parts[0], parts[1]);
    if t.b.dtype(sign).is_complex() {
        return call!(t, "add.Tensor", call!(t, "log", sign)?, log);
    }
    call!(t, "where.ScalarSelf", call!(t, "eq.Scalar", sign, -1)?, f64::NAN, log)
}

fn svd(t: Torch<'_>, name: &str, full: bool, driver: Option<&str>) -> Result<Vec<ValueId>> {
    call_all!(t, "_linalg_svd", t.c.tensor(t.b, name)?, full, true, driver)
}

pub(super) fn singular_values(t: Torch<'_>, v: ValueId, driver: Option<&str>) -> Result<ValueId> {
    Ok(call_all!(t, "_linalg_svd", v, false, false, driver)?[1])
}

/// Singular vectors as columns of both factors, zeros where they are not wanted.
fn old_svd(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (t, v) = (Torch::new(c, b), c.tensor(b, "self")?);
    let shape = b.shape(v);
    ensure!(
        shape.len() >= 2,
        "linalg.svd: input should have at least 2 dimensions, but has {} dimensions instead",
        shape.len()
    );
    if c.flag("compute_uv")? {
        let parts = svd(t, "self", !c.flag("some")?, None)?;
        let turned = call!(t, "transpose_copy.int", parts[2], -2, -1)?;
        return many([parts[0], parts[1], call!(t, "_conj_physical", turned)?]);
    }
    let none = |n: usize| {
        let mut square = shape.clone();
        square.truncate(shape.len() - 2);
        square.extend([n, n]);
        b.full(Number::Int(0), b.dtype(v), &square)
    };
    let [n, m] = [shape[shape.len() - 2], shape[shape.len() - 1]];
    many([none(n)?, singular_values(t, v, None)?, none(m)?])
}

/// The number `name` as a tensor.
fn tolerance(t: Torch<'_>, name: &str) -> Result<Option<ValueId>> {
    let dtype = t.c.dtype_of("self")?.real();
    t.c.optional_scalar(name)?.map(|s| t.c.scalar_value(t.b, &s, dtype)).transpose()
}

fn zero(t: Torch<'_>) -> Result<ValueId> {
    t.b.scalar(Number::Int(0), DType::F32)
}

fn pinv(t: Torch<'_>, atol: Option<ValueId>, rtol: Option<ValueId>, hermitian: bool) -> Result<ValueId> {
    call!(t, "linalg_pinv.atol_rtol_tensor", t.c.tensor(t.b, "self")?, atol, rtol, hermitian)
}

/// How many singular values of each matrix are above both tolerances.
fn rank(t: Torch<'_>, name: &str, atol: Option<ValueId>, rtol: Option<ValueId>) -> Result<ValueId> {
    let (c, b, op) = (t.c, t.b, "torch.linalg.matrix_rank");
    let v = c.tensor(b, name)?;
    let shape = b.shape(v);
    ensure!(shape.len() >= 2, "{op}: The input tensor input must have at least 2 dimensions.");
    for (tolerance, name) in [(atol, "atol"), (rtol, "rtol")] {
        let dtype = tolerance.map_or(DType::F64, |v| b.dtype(v));
        ensure!(!dtype.is_complex(), "{op}: {name} tensor of complex type is not supported. Got {}", torch_name(dtype));
    }
    let [lead @ .., n, m] = &shape[..] else { return not_implemented(op, b.dtype(v)) };
    if shape.contains(&0) {
        return b.full(Number::Int(0), DType::I64, lead);
    }
    let values = match c.flag("hermitian")? {
        true => call!(t, "abs", call!(t, "_linalg_eigh", v, "L", false)?)?,
        false => singular_values(t, v, None)?,
    };
    let real = b.dtype(v).real();
    let epsilon = if real == DType::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) };
    let usual = b.scalar(Number::Float(epsilon * *n.max(m) as f64), real)?;
    let rtol = match (rtol, atol) {
        (Some(rtol), _) => rtol,
        (None, None) => usual,
        // An absolute tolerance makes do without a relative one.
        (None, Some(atol)) => {
            let none = b.scalar(Number::Int(0), real)?;
            call!(t, "where.self", call!(t, "gt.Scalar", atol, 0)?, none, usual)?
        }
    };
    let atol = match atol {
        Some(atol) => atol,
        None => b.scalar(Number::Int(0), real)?,
    };
    let relative = call!(t, "mul.Tensor", rtol, call!(t, "amax", values, [-1i64])?)?;
    let least = call!(t, "unsqueeze_copy", call!(t, "maximum", atol, relative)?, -1)?;
    call!(t, "sum.dim_IntList", call!(t, "gt.Tensor", values, least)?, [-1i64])
}

fn product(shape: &[usize]) -> usize {
    shape.iter().product()
}

fn tensorinv(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (t, v, ind) = (Torch::new(c, b), c.tensor(b, "self")?, c.int("ind")?);
    ensure!(ind > 0, "Expected a strictly positive integer for 'ind', but got {ind}");
    let shape = b.shape(v);
    let (head, tail) = shape.split_at(shape.len().min(ind as usize));
    let (rows, columns) = (product(head), product(tail));
    ensure!(
        rows == columns,
        "Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), but got {columns} != {rows}"
    );
    let inverse = call!(t, "linalg_inv_ex", b.reshape(v, &[rows, rows])?)?;
    let turned: Vec<usize> = tail.iter().chain(head).copied().collect();
    one(b.reshape(inverse, &turned)?)
}

fn tensorsolve(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (t, mut v, y) = (Torch::new(c, b), c.tensor(b, "self")?, c.tensor(b, "other")?);
    let rank = b.rank(v);
    if let Some(dims) = c.optional_ints("dims")? {
        let last = dims.iter().map(|&d| dim(d, rank)).collect::<Result<Vec<_>>>()?;
        let order: Vec<usize> = (0..rank).filter(|d| !last.contains(d)).chain(last.iter().copied()).collect();
        v = b.transpose(v, &order)?;
    }
    let shape = b.shape(v);
    let unknowns = &shape[b.rank(y).min(rank)..];
    let (columns, rows) = (product(unknowns), product(&b.shape(y)));
    ensure!(
        columns == rows,
        "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == prod(self.shape[:other.ndim]), but got {columns} != {rows}"
    );
    let x = call!(t, "_linalg_solve_ex", b.reshape(v, &[rows, rows])?, b.reshape(y, &[rows])?)?;
    one(b.reshape(x, unknowns)?)
}
