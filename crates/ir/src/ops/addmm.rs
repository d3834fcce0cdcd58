//! Matrix products added to something: `beta * self + alpha * product`.

use super::matmul::{bmm, contract, mm, mv, out_dtype, outer, rounded, same_dtype, times};
use super::support::{self, expand_to, promote_types, torch_name};
use super::{Call, OpDef, Outs, Strides, err, ok, one};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::{DType, ensure};

pub(super) static OPS: &[OpDef] = &[
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
    ).laid_out(Strides::Rows)
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
    ).laid_out(Strides::Rows)
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
    ).laid_out(Strides::Rows)
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
    ).laid_out(Strides::Rows)
    .variants(&["addmv_", "addmv.out"]),
    OpDef::new(
        "aten::addr(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
        addr,
        &[
            ok("f32[4], f32[3], f32[4]"),
            ok("i64[4], f32[3], f32[4], beta=2, alpha=0.5"),
            ok("f32[3,4]{nan}, f32[3], f32[4], beta=0"),
            ok("bf16[3,4], bf16[3], bf16[4], beta=0.3, alpha=0.3"),
            ok("bool[4], bool[3], bool[4]"),
            ok("bool[4], bool[3], bool[4], beta=0, alpha=false"),
            err("f32[5], f32[3], f32[4]", "The expanded size of the tensor (4) must match the existing size (5)"),
            err("f32[4], f32[3,3], f32[4]", "addr: Expected 1-D argument vec1, but got 2-D"),
            err("i64[4], i64[3], i64[4], alpha=1.5", "For integral input tensors, argument alpha must not be"),
        ],
    )
    .variants(&["addr_", "addr.out"]),
];

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
    let dtype = promote_types(promote_types(b.dtype(v), b.dtype(x))?, b.dtype(y))?;
    for name in ["beta", "alpha"] {
        let float = c.scalar(name)?.dtype().is_float();
        let whole = dtype.is_int() || dtype == DType::Bool;
        ensure!(!(float && whole), "For integral input tensors, argument {name} must not be a floating point number.");
    }
    let product = outer(b, "addr", "vec1", scaled(c, b, b.convert(x, dtype)?, "alpha")?, b.convert(y, dtype)?)?;
    let addend = expand_to(b, v, &b.shape(product))?;
    if c.scalar("beta")?.is_zero() {
        return one(product);
    }
    let addend = scaled(c, b, b.convert(addend, dtype)?, "beta")?;
    one(if dtype == DType::Bool { b.binary(crate::Binary::Or, addend, product)? } else { b.add(addend, product)? })
}
