//! Matrix products.
//!
//! Every contraction goes through [`contract`]: 8- and 16-bit floats accumulate in `f32`, and what is added to a product
//! (bias, `beta * self`) is added there too, before the one rounding to the result's type.

use super::support::{self, expand_to, in_accumulator, promote_types, torch_name};
use super::{Call, OpDef, Outs, err, ok, one};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::op::{DotGeneral, Precision};
use crate::types::Shape;
use crate::{DType, Unary, ensure};

pub(super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::mm(Tensor self, Tensor mat2) -> Tensor",
        |c, b| rounded(b, b.dtype(c.tensor(b, "self")?), mm(c, b, "mm", c.tensor(b, "self")?, c.tensor(b, "mat2")?)?),
        &[
            ok("f32[3,4], f32[4,2]"),
            ok("bf16[3,4], bf16[4,2]"),
            ok("i64[3,4], i64[4,2]"),
            ok("c64[3,4], c64[4,2]"),
            ok("f64[3,0], f64[0,2]"),
            ok("f16[0,3], f16[3,2]"),
            err("f32[3], f32[3,4]", "mm: self must be a matrix, got 1-D tensor"),
            err("f32[3,4], f32[3,4]", "mm: mat1 and mat2 shapes cannot be multiplied (3x4 and 3x4)"),
            err("f32[3,4], f64[4,4]", "expected m1 and m2 to have the same dtype, but got: float != double"),
            err("bool[3,4], bool[4,4]", "not implemented for 'Bool'"),
        ],
    )
    .variants(&["mm.out"]),
    OpDef::new(
        "aten::mm.dtype(Tensor self, Tensor mat2, ScalarType out_dtype) -> Tensor",
        |c, b| rounded(b, out_dtype(c)?, mm(c, b, "mm", c.tensor(b, "self")?, c.tensor(b, "mat2")?)?),
        // PyTorch has no CPU kernel to compare with.
        &[err("bf16[3,4], bf16[3,4], f32", "mat1 and mat2 shapes cannot be multiplied (3x4 and 3x4)")],
    )
    .variants(&["mm.dtype_out"]),
    OpDef::new(
        "aten::bmm(Tensor self, Tensor mat2) -> Tensor",
        |c, b| rounded(b, b.dtype(c.tensor(b, "self")?), bmm(c, b, c.tensor(b, "self")?, c.tensor(b, "mat2")?)?),
        &[
            ok("f32[2,3,4], f32[2,4,5]"),
            ok("f16[2,3,4], f16[2,4,5]"),
            ok("i32[2,3,4], i32[2,4,5]"),
            ok("f32[0,3,4], f32[0,4,5]"),
            ok("f32[2,3,0], f32[2,0,5]"),
            err("f32[3,4], f32[3,4,4]", "batch1 must be a 3D tensor"),
            err("f32[2,3,4], f32[4,4]", "batch2 must be a 3D tensor"),
            err(
                "f32[2,3,4], f32[2,3,4]",
                "Expected size for first two dimensions of batch2 tensor to be: [2, 4] but got: [2, 3].",
            ),
            err("f32[2,3,4], f64[2,4,4]", "expected scalar type Float but found Double"),
        ],
    )
    .variants(&["bmm.out"]),
    OpDef::new(
        "aten::bmm.dtype(Tensor self, Tensor mat2, ScalarType out_dtype) -> Tensor",
        |c, b| rounded(b, out_dtype(c)?, bmm(c, b, c.tensor(b, "self")?, c.tensor(b, "mat2")?)?),
        &[err("bf16[3,4], bf16[3,4,4], f32", "batch1 must be a 3D tensor")],
    )
    .variants(&["bmm.dtype_out"]),
    OpDef::new(
        "aten::mv(Tensor self, Tensor vec) -> Tensor",
        |c, b| {
            let (m, v) = (c.tensor(b, "self")?, c.tensor(b, "vec")?);
            let same = b.dtype(m) == b.dtype(v);
            let [d, e] = [b.dtype(v), b.dtype(m)].map(torch_name);
            ensure!(same, "addmv input tensors must have the same dtype, but got {d}, {e}, and {d}");
            rounded(b, b.dtype(m), mv(c, b, m, v, b.shape(m).first().copied().unwrap_or(1))?)
        },
        &[
            ok("f32[3,4], f32[4]"),
            ok("bf16[3,4], bf16[4]"),
            ok("i64[3,0], i64[0]"),
            err("f32[3], f32[3]", "vector + matrix @ vector expected, got 1, 1, 1"),
            err("f32[3,4], f32[3]", "size mismatch, got input (3), mat (3x4), vec (3)"),
            err("f32[3,4], f64[4]", "addmv input tensors must have the same dtype, but got Double, Float, and Double"),
        ],
    )
    .variants(&["mv.out"]),
    OpDef::new(
        "aten::dot(Tensor self, Tensor tensor) -> Tensor",
        |c, b| dot(c, b, c.tensor(b, "self")?, c.tensor(b, "tensor")?),
        &[
            ok("f32[5], f32[5]"),
            ok("bf16[5], bf16[5]"),
            ok("c64[5], c64[5]"),
            ok("i64[0], i64[0]"),
            err("f32[3,4], f32[4]", "1D tensors expected, but got 2D and 1D tensors"),
            err("f32[3], f32[4]", "inconsistent tensor size, expected tensor [3] and src [4]"),
            err("f32[3], f64[3]", "dot : expected both vectors to have same dtype, but found Float and Double"),
        ],
    )
    .variants(&["dot.out"]),
    OpDef::new(
        "aten::vdot(Tensor self, Tensor other) -> Tensor",
        |c, b| dot(c, b, conjugate(b, c.tensor(b, "self")?)?, c.tensor(b, "other")?),
        &[ok("f32[5], f32[5]"), ok("c64[5], c64[5]"), err("c64[3], c64[4]", "inconsistent tensor size")],
    )
    .variants(&["vdot.out"]),
    OpDef::new(
        "aten::outer(Tensor self, Tensor vec2) -> Tensor",
        |c, b| one(outer(b, "outer", "self", c.tensor(b, "self")?, c.tensor(b, "vec2")?)?),
        &[
            ok("f32[3], f32[4]"),
            ok("f32[3], i64[4]"),
            ok("bool[2], bool[0]"),
            err("f32[3,3], f32[4]", "outer: Expected 1-D argument self, but got 2-D"),
        ],
    )
    .variants(&["outer.out"]),
    OpDef::new(
        "aten::ger(Tensor self, Tensor vec2) -> Tensor",
        |c, b| one(outer(b, "outer", "self", c.tensor(b, "self")?, c.tensor(b, "vec2")?)?),
        &[ok("f32[3], f32[4]"), err("f32[3], f32[4,1]", "Expected 1-D argument vec2, but got 2-D")],
    )
    .variants(&["ger.out"]),
    OpDef::new(
        "aten::addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
        |c, b| addmm(c, b, b.dtype(c.tensor(b, "mat1")?)),
        &[
            ok("f32[4], f32[3,2], f32[2,4]"),
            ok("f32[3,4], f32[3,2], f32[2,4], beta=0.5, alpha=2"),
            ok("f32[4]{nan}, f32[3,2], f32[2,4], beta=0"),
            ok("bf16[1,4], bf16[3,2], bf16[2,4], alpha=0.5"),
            ok("i64[4], i64[3,2], i64[2,4], beta=2, alpha=1.5"),
            ok("f64[], f64[3,0], f64[0,4], beta=3"),
            err("f32[3], f32[3,2], f32[2,4]", "The expanded size of the tensor (4) must match the existing size (3)"),
            err("f32[3,4], f32[3,2], f32[3,4]", "addmm: mat1 and mat2 shapes cannot be multiplied (3x2 and 3x4)"),
            err("f64[4], f32[3,2], f32[2,4]", "self and mat2 must have the same dtype, but got Double and Float"),
            err("f32[4], f64[3,2], f32[2,4]", "mat1 and mat2 must have the same dtype, but got Double and Float"),
        ],
    )
    .variants(&["addmm_", "addmm.out"]),
    OpDef::new(
        "aten::addmm.dtype(Tensor self, Tensor mat1, Tensor mat2, ScalarType out_dtype, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
        |c, b| addmm(c, b, out_dtype(c)?),
        &[err("bf16[4], bf16[3,2], bf16[3,4], f32", "shapes cannot be multiplied (3x2 and 3x4)")],
    )
    .variants(&["addmm.dtype_out"]),
    OpDef::new(
        "aten::addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
        addbmm,
        &[
            ok("f32[4], f32[2,3,2], f32[2,2,4]"),
            ok("f16[3,4]{0..1}, f16[2,3,2]{0..1}, f16[2,2,4]{0..1}, beta=0.5, alpha=2"),
            ok("f32[3,4]{nan}, f32[0,3,2], f32[0,2,4], beta=0"),
            err("f32[4], f32[2,3,2], f32[3,2,4]", "must have same number of batches, got 2 and 3"),
            err("f32[4], f32[2,3,2], f32[2,3,4]", "Incompatible matrix sizes for bmm (3x2 and 3x4)"),
        ],
    )
    .variants(&["addbmm_", "addbmm.out"]),
    OpDef::new(
        "aten::baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
        |c, b| baddbmm(c, b, b.dtype(c.tensor(b, "batch1")?)),
        &[
            ok("f32[4], f32[2,3,2], f32[2,2,4]"),
            ok("bf16[2,3,4], bf16[2,3,2], bf16[2,2,4], beta=0.5, alpha=2"),
            ok("f32[2,1,4]{nan}, f32[2,3,2], f32[2,2,4], beta=0"),
            err("f32[3], f32[2,3,2], f32[2,2,4]", "The expanded size of the tensor (4) must match the existing size (3)"),
            err("f64[4], f32[2,3,2], f32[2,2,4]", "Input dtypes must be the same, got: input double, batch1: float, batch2: float"),
        ],
    )
    .variants(&["baddbmm_", "baddbmm.out"]),
    OpDef::new(
        "aten::baddbmm.dtype(Tensor self, Tensor batch1, Tensor batch2, ScalarType out_dtype, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
        |c, b| baddbmm(c, b, out_dtype(c)?),
        &[err("bf16[4], bf16[2,3,2], bf16[3,2,4], f32", "Expected size for first two dimensions of batch2")],
    )
    .variants(&["baddbmm.dtype_out"]),
    OpDef::new(
        "aten::addmv(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
        addmv,
        &[
            ok("f32[3], f32[3,2], f32[2]"),
            ok("f32[], f32[3,2], f32[2], beta=0.5, alpha=2"),
            ok("f32[3]{nan}, f32[3,2], f32[2], beta=0"),
            ok("bf16[3], bf16[3,2], bf16[2]"),
            err("f32[4], f32[3,2], f32[2]", "size mismatch, got input (4), mat (3x2), vec (2)"),
            err("f64[3], f32[3,2], f32[2]", "addmv input tensors must have the same dtype, but got Double, Float, and Float"),
        ],
    )
    .variants(&["addmv_", "addmv.out"]),
    OpDef::new(
        "aten::addr(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
        addr,
        &[
            ok("f32[4], f32[3], f32[4]"),
            ok("i64[4], f32[3], f32[4], beta=2, alpha=0.5"),
            ok("f32[3,4]{nan}, f32[3], f32[4], beta=0"),
            ok("bool[4], bool[3], bool[4]"),
            ok("bool[4], bool[3], bool[4], beta=0, alpha=false"),
            err("f32[5], f32[3], f32[4]", "The expanded size of the tensor (4) must match the existing size (5)"),
            err("f32[4], f32[3,3], f32[4]", "addr: Expected 1-D argument vec1, but got 2-D"),
            err("i64[4], i64[3], i64[4], alpha=1.5", "For integral input tensors, argument alpha must not be"),
        ],
    )
    .variants(&["addr_", "addr.out"]),
    OpDef::new(
        "aten::matmul(Tensor self, Tensor other) -> Tensor",
        |c, b| {
            let (x, y) = (c.tensor(b, "self")?, c.tensor(b, "other")?);
            rounded(b, b.dtype(x), matmul(c, b, x, y)?)
        },
        &[
            ok("f32[3], f32[3]"),
            ok("f32[2,3], f32[3]"),
            ok("f32[3], f32[3,4]"),
            ok("f32[2,3], f32[3,4]"),
            ok("f32[5,2,3], f32[3]"),
            ok("f32[5,2,3], f32[3,4]"),
            ok("f32[3], f32[5,3,2]"),
            ok("f32[2,3], f32[5,3,4]"),
            ok("bf16[5,1,2,3], bf16[6,3,4]"),
            ok("i64[0,2,3], i64[1,3,4]"),
            ok("f64[2,2,0], f64[0,4]"),
            err("f32[], f32[3]", "both arguments to matmul need to be at least 1D, but they are 0D and 1D"),
            err("f32[2,3,4], f32[2,3,4]", "Expected size for first two dimensions of batch2 tensor to be: [2, 4] but got: [2, 3]."),
            err("f32[2,3,4], f32[3,4,5]", "The size of tensor a (2) must match the size of tensor b (3)"),
            err("f32[2,3,4], f32[3,4]", "mm: mat1 and mat2 shapes cannot be multiplied (6x4 and 3x4)"),
            err("f32[3], f32[4]", "inconsistent tensor size"),
        ],
    )
    .variants(&["matmul.out"]),
    OpDef::new(
        "aten::linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor",
        |c, b| {
            let (x, w) = (c.tensor(b, "input")?, c.tensor(b, "weight")?);
            rounded(b, b.dtype(x), linear(c, b, x, w, c.optional_tensor(b, "bias")?)?)
        },
        &[
            ok("f32[2,3], f32[4,3], f32[4]"),
            ok("f32[3], f32[4,3], f32[4]"),
            ok("f32[2,5,3], f32[4,3]"),
            ok("bf16[2,5,3], bf16[4,3], bf16[4]"),
            ok("f32[2,3], f32[3]"),
            ok("i64[2,3], i64[4,3], i64[4]"),
            ok("f32[0,3], f32[4,3], f32[4]"),
            ok("f32[2,0], f32[4,0], f32[4]"),
            err("f32[2,3], f32[4,4]", "mat1 and mat2 shapes cannot be multiplied (2x3 and 4x4)"),
            err("f32[2,3], f32[4,3], f32[3]", "The expanded size of the tensor (4) must match the existing size (3)"),
            err("f32[2,3], f64[4,3]", "expected m1 and m2 to have the same dtype, but got: float != double"),
        ],
    )
    .variants(&["linear.out"]),
    OpDef::new(
        "aten::bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor",
        bilinear,
        &[
            ok("f32[2,3], f32[2,4], f32[5,3,4], f32[5]"),
            ok("f32[6,2,3], f32[6,2,4], f32[5,3,4]"),
            ok("f32[3], f32[4], f32[5,3,4]"),
            err("f32[2,3], f32[3,4], f32[5,3,4]", "input batch dimensions do not match at dim 0: got 2 and 3"),
            err("f32[2,3], f32[2,4], f32[5,4,4]", "input1 size does not match weight size: got 3 but expected 4"),
            err("f32[2,3], f32[2,4], f32[5,3,4], f32[4]", "bias size does not match weight size: got 4 but expected 5"),
        ],
    ),
    OpDef::new(
        "aten::tensordot(Tensor self, Tensor other, int[] dims_self, int[] dims_other) -> Tensor",
        tensordot,
        &[
            ok("f32[2,3,4], f32[4,3], [1,2], [1,0]"),
            ok("f32[2,1,4], f32[4,3], [1,2], [1,0]"),
            ok("f32[2,3], f32[3,5], [-1], [0]"),
            ok("f32[2], f32[3], [], []"),
            ok("bf16[2,3], bf16[2,3], [0,1], [0,1]"),
            err("f32[2,3,4], f32[4,3], [1,2], [0,1]", "first has size 3 in dim 1 and second has size 4 in dim 0"),
            err("f32[2,3,4], f32[4,3], [1], [0,1]", "both dimension lists should have same length"),
            err("f32[2,3], f64[3], [1], [0]", "both inputs should have same dtype"),
        ],
    )
    .variants(&["tensordot.out"]),
    OpDef::new(
        "aten::inner(Tensor self, Tensor other) -> Tensor",
        inner,
        &[
            ok("f32[2,3], f32[4,3]"),
            ok("f32[3], f32[3]"),
            ok("f32[2,3], f32[]"),
            err("f32[2,3], f32[4,2]", "the last dimension must match on both input tensors but got shapes [2, 3] and [4, 2]"),
            err("f32[2,3], f64[3]", "both inputs should have same dtype"),
        ],
    )
    .variants(&["inner.out"]),
    OpDef::new(
        "aten::kron(Tensor self, Tensor other) -> Tensor",
        kron,
        &[ok("f32[2,3], f32[2,2]"), ok("f32[2,3], i64[4]"), ok("f32[], f32[2]"), ok("f32[0,2], f32[2]")],
    )
    .variants(&["kron.out"]),
    OpDef::new(
        "aten::_int_mm(Tensor self, Tensor mat2) -> Tensor",
        int_mm,
        &[
            ok("i8[32,16], i8[16,8]"),
            err("f32[32,16], i8[16,8]", "Expected self dtype to be int8 or uint8 but got float"),
            err("i8[32,16], i8[8,8]", "mat1 and mat2 shapes cannot be multiplied (32x16 and 8x8)"),
        ],
    )
    .variants(&["_int_mm.out"]),
];

/// Pairs of dimension numbers, of the left and of the right operand.
type Pairs<'a> = &'a [(usize, usize)];

/// `lhs` and `rhs` contracted, in their accumulation type. Result dimensions: batch, then the rest of each.
pub(super) fn contract(
    c: &Call<'_>,
    b: &Builder,
    lhs: ValueId,
    rhs: ValueId,
    batch: Pairs<'_>,
    over: Pairs<'_>,
) -> Result<ValueId> {
    let dtype = b.dtype(lhs);
    ensure!(dtype != DType::Bool, "\"addmm_impl_cpu_\" not implemented for 'Bool'");
    // One bf16 pass is exact for bf16 operands.
    let precision = if dtype == DType::BF16 { Precision::Default } else { c.precision() };
    let numbers = DotGeneral {
        lhs_batch: batch.iter().map(|p| p.0).collect(),
        rhs_batch: batch.iter().map(|p| p.1).collect(),
        lhs_contract: over.iter().map(|p| p.0).collect(),
        rhs_contract: over.iter().map(|p| p.1).collect(),
        precision,
        out: dtype.accumulator(),
    };
    b.dot_general(lhs, rhs, numbers)
}

fn rounded(b: &Builder, dtype: DType, product: ValueId) -> Result<Outs> {
    one(b.convert(product, dtype)?)
}

fn out_dtype(c: &Call<'_>) -> Result<DType> {
    Ok(c.optional_dtype("out_dtype")?.unwrap_or(DType::F32))
}

fn same_dtype(b: &Builder, x: ValueId, y: ValueId) -> Result<()> {
    let [p, q] = [b.dtype(x), b.dtype(y)];
    let [s, t] = [p, q].map(support::cpp_type);
    ensure!(p == q, "expected m1 and m2 to have the same dtype, but got: {s} != {t}");
    Ok(())
}

/// The product of two matrices, in their accumulation type; messages name `op`.
pub(super) fn mm(c: &Call<'_>, b: &Builder, op: &str, x: ValueId, y: ValueId) -> Result<ValueId> {
    let (s, t) = (b.shape(x), b.shape(y));
    ensure!(s.len() == 2, "{op}: self must be a matrix, got {}-D tensor", s.len());
    ensure!(t.len() == 2, "{op}: mat2 must be a matrix, got {}-D tensor", t.len());
    multipliable(op, (s[0], s[1]), (t[0], t[1]))?;
    same_dtype(b, x, y)?;
    contract(c, b, x, y, &[], &[(1, 0)])
}

fn multipliable(op: &str, (n, k): (usize, usize), (l, m): (usize, usize)) -> Result<()> {
    ensure!(k == l, "{op}: mat1 and mat2 shapes cannot be multiplied ({n}x{k} and {l}x{m})");
    Ok(())
}

/// The products of two stacks of matrices, in their accumulation type.
fn bmm(c: &Call<'_>, b: &Builder, x: ValueId, y: ValueId) -> Result<ValueId> {
    let (s, t) = (b.shape(x), b.shape(y));
    ensure!(s.len() == 3, "batch1 must be a 3D tensor");
    ensure!(t.len() == 3, "batch2 must be a 3D tensor");
    ensure!(
        s[0] == t[0] && s[2] == t[1],
        "Expected size for first two dimensions of batch2 tensor to be: [{}, {}] but got: [{}, {}].",
        s[0],
        s[2],
        t[0],
        t[1]
    );
    let [p, q] = [b.dtype(x), b.dtype(y)];
    ensure!(p == q, "expected scalar type {} but found {}", torch_name(p), torch_name(q));
    contract(c, b, x, y, &[(0, 0)], &[(2, 1)])
}

/// `matrix @ vector` in their accumulation type, to be added to a vector of extent `input`.
fn mv(c: &Call<'_>, b: &Builder, matrix: ValueId, vector: ValueId, input: usize) -> Result<ValueId> {
    let (m, v) = (b.shape(matrix), b.shape(vector));
    ensure!(m.len() == 2 && v.len() == 1, "vector + matrix @ vector expected, got 1, {}, {}", m.len(), v.len());
    ensure!(
        m[1] == v[0] && (input == m[0] || input == 1),
        "size mismatch, got input ({input}), mat ({}x{}), vec ({})",
        m[0],
        m[1],
        v[0]
    );
    contract(c, b, matrix, vector, &[], &[(1, 0)])
}

fn dot(c: &Call<'_>, b: &Builder, x: ValueId, y: ValueId) -> Result<Outs> {
    rounded(b, b.dtype(x), inner_product(c, b, x, y)?)
}

fn inner_product(c: &Call<'_>, b: &Builder, x: ValueId, y: ValueId) -> Result<ValueId> {
    let (s, t) = (b.shape(x), b.shape(y));
    let flat = s.len() == 1 && t.len() == 1;
    ensure!(flat, "1D tensors expected, but got {}D and {}D tensors", s.len(), t.len());
    let [p, q] = [b.dtype(x), b.dtype(y)];
    ensure!(
        p == q,
        "dot : expected both vectors to have same dtype, but found {} and {}",
        torch_name(p),
        torch_name(q)
    );
    let (m, n) = (s[0], t[0]);
    ensure!(
        m == n,
        "inconsistent tensor size, expected tensor [{m}] and src [{n}] to have the same number of elements, but got {m} and {n} elements respectively"
    );
    contract(c, b, x, y, &[], &[(0, 0)])
}

fn conjugate(b: &Builder, v: ValueId) -> Result<ValueId> {
    if !b.dtype(v).is_complex() {
        return Ok(v);
    }
    let imaginary = b.negate(b.unary(Unary::Imag, v)?)?;
    b.binary(crate::Binary::Complex, b.unary(Unary::Real, v)?, imaginary)
}

/// Products of all pairs, promoted; messages name `op` and call the first vector `first`.
fn outer(b: &Builder, op: &str, first: &str, x: ValueId, y: ValueId) -> Result<ValueId> {
    for (v, name) in [(x, first), (y, "vec2")] {
        ensure!(b.rank(v) == 1, "{op}: Expected 1-D argument {name}, but got {}-D", b.rank(v));
    }
    let dtype = promote_types(b.dtype(x), b.dtype(y));
    let shape = [b.shape(x)[0], b.shape(y)[0]];
    let spread = |v, dim: usize| b.broadcast_in_dim(b.convert(v, dtype)?, &shape, &[dim]);
    times(b, spread(x, 0)?, spread(y, 1)?)
}

/// The product of two tensors of one type; `and` for `bool`.
fn times(b: &Builder, x: ValueId, y: ValueId) -> Result<ValueId> {
    if b.dtype(x) == DType::Bool { b.binary(crate::Binary::And, x, y) } else { b.multiply(x, y) }
}

/// `v` times the number `name`, converted to `v`'s type.
fn scaled(c: &Call<'_>, b: &Builder, v: ValueId, name: &str) -> Result<ValueId> {
    let factor = c.scalar(name)?;
    if factor.is_one() {
        return Ok(v);
    }
    let factor = c.scalar_value(b, &factor, b.dtype(v))?;
    times(b, v, support::broadcast_to(b, factor, &b.shape(v))?)
}

/// `beta * self + alpha * product` as `dtype`, with `self` expanded to the product's shape; a literal zero `beta`
/// ignores `self`, even NaN.
fn add_product(c: &Call<'_>, b: &Builder, product: ValueId, dtype: DType) -> Result<Outs> {
    let addend = expand_to(b, c.tensor(b, "self")?, &b.shape(product))?;
    let product = scaled(c, b, product, "alpha")?;
    if c.scalar("beta")?.is_zero() {
        return rounded(b, dtype, product);
    }
    let addend = scaled(c, b, b.convert(addend, b.dtype(product))?, "beta")?;
    rounded(b, dtype, b.add(addend, product)?)
}

fn addmm(c: &Call<'_>, b: &Builder, dtype: DType) -> Result<Outs> {
    let (x, y) = (c.tensor(b, "mat1")?, c.tensor(b, "mat2")?);
    let target = b.dtype(y);
    for (name, v) in [("self", c.tensor(b, "self")?), ("mat1", x)] {
        let d = b.dtype(v);
        ensure!(
            d == target,
            "{name} and mat2 must have the same dtype, but got {} and {}",
            torch_name(d),
            torch_name(target)
        );
    }
    add_product(c, b, mm(c, b, "addmm", x, y)?, dtype)
}

fn addbmm(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (x, y) = (c.tensor(b, "batch1")?, c.tensor(b, "batch2")?);
    let (s, t) = (b.shape(x), b.shape(y));
    ensure!(s.len() == 3, "batch1 must be a 3D tensor");
    ensure!(t.len() == 3, "batch2 must be a 3D tensor");
    ensure!(s[0] == t[0], "batch1 and batch2 must have same number of batches, got {} and {}", s[0], t[0]);
    ensure!(s[2] == t[1], "Incompatible matrix sizes for bmm ({}x{} and {}x{})", s[1], s[2], t[1], t[2]);
    same_dtype(b, x, y)?;
    add_product(c, b, contract(c, b, x, y, &[], &[(0, 0), (2, 1)])?, b.dtype(x))
}

fn baddbmm(c: &Call<'_>, b: &Builder, dtype: DType) -> Result<Outs> {
    let [v, x, y] = ["self", "batch1", "batch2"].map(|n| c.tensor(b, n));
    let (v, x, y) = (v?, x?, y?);
    let [p, q, r] = [v, x, y].map(|v| b.dtype(v));
    let names = [p, q, r].map(support::cpp_type);
    let [s, t, u] = names;
    ensure!(p == q && q == r, "Input dtypes must be the same, got: input {s}, batch1: {t}, batch2: {u}");
    add_product(c, b, bmm(c, b, x, y)?, dtype)
}

fn addmv(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let [v, m, x] = ["self", "mat", "vec"].map(|n| c.tensor(b, n));
    let (v, m, x) = (v?, m?, x?);
    let [p, q, r] = [v, m, x].map(|v| b.dtype(v));
    ensure!(
        p == q && q == r,
        "addmv input tensors must have the same dtype, but got {}, {}, and {}",
        torch_name(p),
        torch_name(q),
        torch_name(r)
    );
    let input = b.shape(v).iter().product();
    add_product(c, b, mv(c, b, m, x, input)?, q)
}

fn addr(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (v, x, y) = (c.tensor(b, "self")?, c.tensor(b, "vec1")?, c.tensor(b, "vec2")?);
    let dtype = promote_types(b.dtype(v), promote_types(b.dtype(x), b.dtype(y)));
    for name in ["beta", "alpha"] {
        let float = c.scalar(name)?.dtype().is_float();
        let whole = dtype.is_int() || dtype == DType::Bool;
        ensure!(!(float && whole), "For integral input tensors, argument {name} must not be a floating point number.");
    }
    let product = outer(b, "addr", "vec1", x, y)?;
    let product = scaled(c, b, b.convert(product, dtype)?, "alpha")?;
    let addend = expand_to(b, v, &b.shape(product))?;
    if c.scalar("beta")?.is_zero() {
        return one(product);
    }
    let addend = scaled(c, b, b.convert(addend, dtype)?, "beta")?;
    one(if dtype == DType::Bool { b.binary(crate::Binary::Or, addend, product)? } else { b.add(addend, product)? })
}

/// `torch.matmul` of any ranks, in the operands' accumulation type.
pub(super) fn matmul(c: &Call<'_>, b: &Builder, x: ValueId, y: ValueId) -> Result<ValueId> {
    let (s, t) = (b.shape(x), b.shape(y));
    let (m, n) = (s.len(), t.len());
    ensure!(m > 0 && n > 0, "both arguments to matmul need to be at least 1D, but they are {m}D and {n}D");
    match (m, n) {
        (1, 1) => inner_product(c, b, x, y),
        (2, 1) => {
            same_dtype(b, x, y)?;
            mv(c, b, x, y, s[0])
        }
        (_, 1 | 2) => {
            let rows = s[..m - 1].iter().product();
            multipliable("mm", (rows, s[m - 1]), (t[0], t.get(1).copied().unwrap_or(1)))?;
            same_dtype(b, x, y)?;
            contract(c, b, x, y, &[], &[(m - 1, 0)])
        }
        (1, _) => {
            let row = b.reshape(x, &[1, s[0]])?;
            let product = batched(c, b, row, y)?;
            let mut shape = b.shape(product);
            shape.remove(n - 2);
            b.reshape(product, &shape)
        }
        _ => batched(c, b, x, y),
    }
}

/// Products of stacks of matrices whose leading dimensions broadcast.
fn batched(c: &Call<'_>, b: &Builder, x: ValueId, y: ValueId) -> Result<ValueId> {
    let (s, t) = (b.shape(x), b.shape(y));
    let (m, n) = (s.len(), t.len());
    let lead = support::broadcast_shapes([&Shape::from(&s[..m - 2]), &Shape::from(&t[..n - 2])])?;
    let stack: usize = lead.iter().product();
    ensure!(
        s[m - 1] == t[n - 2],
        "Expected size for first two dimensions of batch2 tensor to be: [{stack}, {}] but got: [{stack}, {}].",
        s[m - 1],
        t[n - 2]
    );
    same_dtype(b, x, y)?;
    let spread = |v, tail: &[usize]| {
        let shape: Shape = lead.iter().chain(tail).copied().collect();
        support::broadcast_to(b, v, &shape)
    };
    let (x, y) = (spread(x, &s[m - 2..])?, spread(y, &t[n - 2..])?);
    let l = lead.len();
    let batch: Vec<(usize, usize)> = (0..l).map(|i| (i, i)).collect();
    contract(c, b, x, y, &batch, &[(l + 1, l)])
}

/// `input @ weight.T + bias` in the accumulation type.
pub(super) fn linear(
    c: &Call<'_>,
    b: &Builder,
    input: ValueId,
    weight: ValueId,
    bias: Option<ValueId>,
) -> Result<ValueId> {
    let (s, t) = (b.shape(input), b.shape(weight));
    let m = s.len();
    ensure!(m > 0, "both arguments to linear need to be at least 1D, but they are 0D and {}D", t.len());
    let outs = if t.len() == 1 { 1 } else { t[0] };
    let inner = t.last().copied().unwrap_or(1);
    let op = if bias.is_some() && m < 3 { "addmm" } else { "mm" };
    multipliable(op, (s[..m - 1].iter().product(), s[m - 1]), (inner, outs))?;
    ensure!(t.len() == 2 || (t.len() == 1 && bias.is_none()), "{op}: mat2 must be a matrix, got {}-D tensor", t.len());
    same_dtype(b, input, weight)?;
    let product = contract(c, b, input, weight, &[], &[(m - 1, t.len() - 1)])?;
    let Some(bias) = bias else { return Ok(product) };
    let [p, q] = [b.dtype(bias), b.dtype(weight)];
    ensure!(p == q, "self and mat2 must have the same dtype, but got {} and {}", torch_name(p), torch_name(q));
    let bias = b.convert(expand_to(b, bias, &b.shape(product))?, b.dtype(product))?;
    b.add(product, bias)
}

fn bilinear(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (x, y, w) = (c.tensor(b, "input1")?, c.tensor(b, "input2")?, c.tensor(b, "weight")?);
    let (s, t, u) = (b.shape(x), b.shape(y), b.shape(w));
    let n = s.len();
    ensure!(n == t.len(), "bilinear(): input dimensions do not match: got {n} and {}", t.len());
    ensure!(n > 0 && u.len() == 3, "bilinear(): weight must be 3-D and inputs at least 1-D");
    for i in 0..n - 1 {
        ensure!(s[i] == t[i], "bilinear(): input batch dimensions do not match at dim {i}: got {} and {}", s[i], t[i]);
    }
    for (name, got, expected) in [("input1", s[n - 1], u[1]), ("input2", t[n - 1], u[2])] {
        ensure!(
            got == expected,
            "bilinear(): {name} size does not match weight size: got {got} but expected {expected}"
        );
    }
    same_dtype(b, x, w)?;
    same_dtype(b, y, w)?;
    let left = b.convert(contract(c, b, x, w, &[], &[(n - 1, 1)])?, b.dtype(x))?;
    let batch: Vec<(usize, usize)> = (0..n - 1).map(|i| (i, i)).collect();
    let product = contract(c, b, left, y, &batch, &[(n, n - 1)])?;
    let Some(bias) = c.optional_tensor(b, "bias")? else { return rounded(b, b.dtype(x), product) };
    let got = b.shape(bias).iter().product::<usize>();
    ensure!(got == u[0], "bilinear(): bias size does not match weight size: got {got} but expected {}", u[0]);
    let bias = b.convert(expand_to(b, bias, &b.shape(product))?, b.dtype(product))?;
    rounded(b, b.dtype(x), b.add(product, bias)?)
}

fn tensordot(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (mut x, mut y) = (c.tensor(b, "self")?, c.tensor(b, "other")?);
    let (p, q) = (c.ints("dims_self")?, c.ints("dims_other")?);
    ensure!(p.len() == q.len(), "both dimension lists should have same length");
    ensure!(b.dtype(x) == b.dtype(y), "both inputs should have same dtype");
    let mut over = vec![];
    for (&i, &j) in p.iter().zip(&q) {
        let (i, j) = (support::dim(i, b.rank(x))?, support::dim(j, b.rank(y))?);
        // An extent of 1 on one side only: the other side is summed.
        match (b.shape(x)[i], b.shape(y)[j]) {
            (m, n) if m == n => {}
            (1, _) => y = sum_keeping(b, y, j)?,
            (_, 1) => x = sum_keeping(b, x, i)?,
            (m, n) => crate::invalid!(
                "contracted dimensions need to match, but first has size {m} in dim {i} and second has size {n} in dim {j}"
            ),
        }
        over.push((i, j));
    }
    rounded(b, b.dtype(x), contract(c, b, x, y, &[], &over)?)
}

/// The sum along `dim`, which stays with extent 1.
fn sum_keeping(b: &Builder, v: ValueId, dim: usize) -> Result<ValueId> {
    let sum = in_accumulator(b, v, |v| b.reduce(v, crate::Reducer::Add, &[dim]))?;
    support::unsqueeze(b, sum, &[dim])
}

fn inner(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (x, y) = (c.tensor(b, "self")?, c.tensor(b, "other")?);
    ensure!(b.dtype(x) == b.dtype(y), "both inputs should have same dtype");
    let (s, t) = (b.shape(x), b.shape(y));
    let (Some(m), Some(n)) = (s.last(), t.last()) else {
        let shape = if s.is_empty() { &t } else { &s };
        return one(times(b, support::broadcast_to(b, x, shape)?, support::broadcast_to(b, y, shape)?)?);
    };
    ensure!(m == n, "inner() the last dimension must match on both input tensors but got shapes {s:?} and {t:?}");
    rounded(b, b.dtype(x), contract(c, b, x, y, &[], &[(s.len() - 1, t.len() - 1)])?)
}

fn kron(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (x, y) = (c.tensor(b, "self")?, c.tensor(b, "other")?);
    let dtype = support::result_type(c, b, &[x.into(), y.into()]);
    let rank = b.rank(x).max(b.rank(y));
    let padded = |v| -> Shape { std::iter::repeat_n(1, rank - b.rank(v)).chain(b.shape(v)).collect() };
    let (s, t) = (padded(x), padded(y));
    let pairs: Shape = s.iter().zip(&t).flat_map(|(&m, &n)| [m, n]).collect();
    let spread = |v, shape: &Shape, offset: usize| {
        let dims: Shape = (0..rank).map(|i| 2 * i + offset).collect();
        b.broadcast_in_dim(b.reshape(b.convert(v, dtype)?, shape)?, &pairs, &dims)
    };
    let product = times(b, spread(x, &s, 0)?, spread(y, &t, 1)?)?;
    let shape: Shape = s.iter().zip(&t).map(|(m, n)| m * n).collect();
    one(b.reshape(product, &shape)?)
}

fn int_mm(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (x, y) = (c.tensor(b, "self")?, c.tensor(b, "mat2")?);
    let (s, t) = (b.shape(x), b.shape(y));
    for (v, name) in [(x, "self"), (y, "mat2")] {
        let d = b.dtype(v);
        let fits = matches!(d, DType::I8 | DType::U8);
        ensure!(fits, "int_mm_out_cpu: Expected {name} dtype to be int8 or uint8 but got {}", support::cpp_type(d));
        ensure!(b.rank(v) == 2, "_int_mm: Expected {name} to be of dimension 2 but got {}", b.rank(v));
    }
    multipliable("_int_mm", (s[0], s[1]), (t[0], t[1]))?;
    let numbers = DotGeneral {
        lhs_batch: [].into_iter().collect(),
        rhs_batch: [].into_iter().collect(),
        lhs_contract: [1].into_iter().collect(),
        rhs_contract: [0].into_iter().collect(),
        precision: Precision::Default,
        out: DType::I32,
    };
    let (x, y) = if b.dtype(x) == b.dtype(y) { (x, y) } else { (b.convert(x, DType::I32)?, b.convert(y, DType::I32)?) };
    one(b.dot_general(x, y, numbers)?)
}
