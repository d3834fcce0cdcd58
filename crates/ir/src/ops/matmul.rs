//! Matrix products.
//!
//! Every contraction goes through [`contract`]: 8- and 16-bit floats accumulate in `f32`, and what is added to a product
//! (bias, `beta * self`) is added there too, before the one rounding to the result's type.

use super::support::{self, expand_to, promote_types, torch_name};
use super::{Call, OpDef, Outs, Strides, err, ok, one};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::op::{DotGeneral, Precision};
use crate::types::{Dims, Shape};
use crate::{DType, Unary, ensure, ensure_kernel};

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
    .laid_out(Strides::Rows)
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
            ok("bf16[1,3,4], bf16[1,4,5]"),
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
    .laid_out(Strides::Rows)
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
    .laid_out(Strides::Rows)
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
            err(
                "f32[2,3,4], f32[2,3,4]",
                "Expected size for first two dimensions of batch2 tensor to be: [2, 4] but got: [2, 3].",
            ),
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
    .laid_out(Strides::Rows)
    .variants(&["linear.out"]),
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

/// How exactly factors of this type are multiplied: one `bf16` pass is exact for `bf16`.
pub(super) fn precision(c: &Call<'_>, dtype: DType) -> Precision {
    if dtype == DType::BF16 { Precision::Default } else { c.precision() }
}

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
    ensure_kernel!(dtype != DType::Bool, "\"addmm_impl_cpu_\" not implemented for 'Bool'");
    let precision = precision(c, dtype);
    let single = |(l, r): &(usize, usize)| b.shape(lhs)[*l] == 1 && b.shape(rhs)[*r] == 1;
    if !batch.is_empty() && batch.iter().all(single) {
        return contract_one(c, b, lhs, rhs, batch, over);
    }
    let numbers = DotGeneral {
        lhs_batch: batch.iter().map(|p| p.0).collect(),
        rhs_batch: batch.iter().map(|p| p.1).collect(),
        lhs_contract: over.iter().map(|p| p.0).collect(),
        rhs_contract: over.iter().map(|p| p.1).collect(),
        precision,
        out: dtype.accumulator(),
        host: false,
    };
    b.dot_general(lhs, rhs, numbers)
}

/// A stack of one is contracted without its batch dimensions: XLA's CPU lacks some 16-bit products that have them.
fn contract_one(
    c: &Call<'_>,
    b: &Builder,
    lhs: ValueId,
    rhs: ValueId,
    batch: Pairs<'_>,
    over: Pairs<'_>,
) -> Result<ValueId> {
    let drop = |v: ValueId, dropped: Vec<usize>| {
        let kept: Dims = (0..b.rank(v)).filter(|d| !dropped.contains(d)).collect();
        let shape: Shape = kept.iter().map(|&d| b.shape(v)[d]).collect();
        Ok::<_, crate::Error>((b.reshape(v, &shape)?, kept))
    };
    let (x, left) = drop(lhs, batch.iter().map(|p| p.0).collect())?;
    let (y, right) = drop(rhs, batch.iter().map(|p| p.1).collect())?;
    let place = |kept: &Dims, d: usize| kept.iter().filter(|&&k| k < d).count();
    let over: Vec<_> = over.iter().map(|&(l, r)| (place(&left, l), place(&right, r))).collect();
    let product = contract(c, b, x, y, &[], &over)?;
    let shape: Shape = batch.iter().map(|_| 1).chain(b.shape(product)).collect();
    b.reshape(product, &shape)
}

pub(super) fn rounded(b: &Builder, dtype: DType, product: ValueId) -> Result<Outs> {
    one(b.convert(product, dtype)?)
}

pub(super) fn out_dtype(c: &Call<'_>) -> Result<DType> {
    Ok(c.optional_dtype("out_dtype")?.unwrap_or(DType::F32))
}

pub(super) fn same_dtype(b: &Builder, x: ValueId, y: ValueId) -> Result<()> {
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
pub(super) fn bmm(c: &Call<'_>, b: &Builder, x: ValueId, y: ValueId) -> Result<ValueId> {
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
pub(super) fn mv(c: &Call<'_>, b: &Builder, matrix: ValueId, vector: ValueId, input: usize) -> Result<ValueId> {
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
pub(super) fn outer(b: &Builder, op: &str, first: &str, x: ValueId, y: ValueId) -> Result<ValueId> {
    for (v, name) in [(x, first), (y, "vec2")] {
        ensure!(b.rank(v) == 1, "{op}: Expected 1-D argument {name}, but got {}-D", b.rank(v));
    }
    let dtype = promote_types(b.dtype(x), b.dtype(y))?;
    let shape = [b.shape(x)[0], b.shape(y)[0]];
    let spread = |v, dim: usize| b.broadcast_in_dim(b.convert(v, dtype)?, &shape, &[dim]);
    times(b, spread(x, 0)?, spread(y, 1)?)
}

/// The product of two tensors of one type; `and` for `bool`.
pub(super) fn times(b: &Builder, x: ValueId, y: ValueId) -> Result<ValueId> {
    if b.dtype(x) == DType::Bool { b.binary(crate::Binary::And, x, y) } else { b.multiply(x, y) }
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
        host: false,
    };
    let (x, y) = if b.dtype(x) == b.dtype(y) { (x, y) } else { (b.convert(x, DType::I32)?, b.convert(y, DType::I32)?) };
    one(b.dot_general(x, y, numbers)?)
}
