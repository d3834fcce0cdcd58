//! Complex numbers and their parts, which share a storage.

use super::views::copies::read;
use super::views::layout::transpose;
use super::{Call, OpDef, Outs, Sample, err, ok, one};
use crate::alias::{Layout, Lens};
use crate::builder::Builder;
use crate::error::Result;
use crate::{DType, ensure, ensure_type};

/// The conjugate transpose of matrices: a view of real ones. That of complex ones is a copy here.
macro_rules! adjoint {
    ($name:literal, $message:literal, $ranks:expr) => {
        OpDef::maybe_view(
            concat!("aten::", $name, "(Tensor(a) self) -> Tensor(a)"),
            |c, l| {
                let rank = l.sizes.len();
                ensure!(rank == 0 || ($ranks).contains(&rank), concat!($message, " Got {}-D tensor."), rank);
                Ok(if c.dtype_of("self")?.is_complex() { None } else { Some(vec![turned(l)?]) })
            },
            |c, b| {
                let v = conj(c, b)?;
                v.into_iter()
                    .map(|v| v.map(|v| read(b, v, turned(&Layout::contiguous(b.shape(v)))?)).transpose())
                    .collect()
            },
            ADJOINTS,
        )
    };
}

pub(super) static OPS: &[OpDef] = &[
    OpDef::maybe_view("aten::conj(Tensor self) -> Tensor", same_if_real, conj, PARTS)
        .seen_through(|_| Ok(Lens::Conjugate)),
    OpDef::new("aten::_conj(Tensor self) -> Tensor", conj, &[ok("c64[2,3]"), ok("c128[]")])
        .seen_through(|_| Ok(Lens::Conjugate)),
    OpDef::new("aten::_conj_copy(Tensor self) -> Tensor", conj, &[ok("c64[2,3]")]).variants(&["_conj_copy.out"]),
    OpDef::new("aten::_neg_view(Tensor self) -> Tensor", negated, &[ok("f32[2,3]"), ok("c64[2]"), ok("i64[]")])
        .seen_through(|_| Ok(Lens::Negative)),
    OpDef::new("aten::_neg_view_copy(Tensor self) -> Tensor", negated, &[ok("f32[2,3]")])
        .variants(&["_neg_view_copy.out"]),
    OpDef::maybe_view("aten::real(Tensor self) -> Tensor", same_if_real, real, PARTS).seen_through(|_| Ok(Lens::Real)),
    OpDef::new(
        "aten::imag(Tensor self) -> Tensor",
        imag,
        &[ok("c64[2,3]"), ok("c128[]"), err("f32[2]", "imag is not implemented for tensors with non-complex dtypes.")],
    )
    .seen_through(|_| Ok(Lens::Imag)),
    OpDef::new("aten::view_as_real(Tensor self) -> Tensor", parts, AS_REAL).seen_through(|_| Ok(Lens::Parts)),
    OpDef::new("aten::view_as_real_copy(Tensor self) -> Tensor", parts, AS_REAL).variants(&["view_as_real_copy.out"]),
    OpDef::new("aten::view_as_complex(Tensor self) -> Tensor", joined, AS_COMPLEX).seen_through(|_| Ok(Lens::Pairs)),
    OpDef::new("aten::view_as_complex_copy(Tensor self) -> Tensor", joined, AS_COMPLEX)
        .variants(&["view_as_complex_copy.out"]),
    adjoint!("mH", "tensor.mH is only supported on matrices or batches of matrices.", 2..),
    adjoint!("adjoint", "tensor.adjoint() is only supported on matrices or batches of matrices.", 2..),
    adjoint!("matrix_H", "tensor.H is only supported on matrices (2-D tensors).", 2..3),
];

const ADJOINTS: &[Sample] = &[ok("f32[2,3]"), ok("c64[2,3]"), ok("c128[]"), err("f32[3]", "Got 1-D tensor.")];

const PARTS: &[Sample] = &[ok("f32[3]"), ok("c64[2,3]"), ok("c128[]"), ok("i64[2]")];
const AS_REAL: &[Sample] =
    &[ok("c64[2,3]"), ok("c128[]"), err("f32[2]", "view_as_real is only supported for complex tensors")];
const AS_COMPLEX: &[Sample] = &[
    ok("f32[3,2]"),
    ok("f64[2]"),
    err("f32[3]", "Tensor must have a last dimension of size 2"),
    err("f32[]", "Input tensor must have one or more dimensions"),
    err("i64[2]", "view_as_complex is only supported for half, float and double tensors"),
];

/// With rows for columns.
fn turned(l: &Layout) -> Result<Layout> {
    if l.sizes.is_empty() { Ok(l.clone()) } else { transpose(l, -2, -1) }
}

fn same_if_real(c: &Call<'_>, layout: &Layout) -> Result<Option<Vec<Layout>>> {
    Ok((!c.dtype_of("self")?.is_complex()).then(|| vec![layout.clone()]))
}

fn conj(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let v = c.tensor(b, "self")?;
    if !b.dtype(v).is_complex() {
        return one(v);
    }
    one(Lens::Conjugate.see(b, v)?)
}

fn negated(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    one(Lens::Negative.see(b, c.tensor(b, "self")?)?)
}

fn real(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    one(Lens::Real.see(b, c.tensor(b, "self")?)?)
}

fn imag(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let v = c.tensor(b, "self")?;
    ensure_type!(b.dtype(v).is_complex(), "imag is not implemented for tensors with non-complex dtypes.");
    one(Lens::Imag.see(b, v)?)
}

/// Real and imaginary parts side by side in a new last dimension.
fn parts(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let v = c.tensor(b, "self")?;
    ensure_type!(b.dtype(v).is_complex(), "view_as_real is only supported for complex tensors");
    one(Lens::Parts.see(b, v)?)
}

/// Complex numbers from pairs in the last dimension, which goes away.
fn joined(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let v = c.tensor(b, "self")?;
    let dtype = b.dtype(v);
    ensure!(
        matches!(dtype, DType::F32 | DType::F64),
        "view_as_complex is only supported for half, float and double tensors, but got a tensor of scalar type: {}",
        super::support::torch_name(dtype)
    );
    let shape = b.shape(v);
    ensure!(!shape.is_empty(), "Input tensor must have one or more dimensions");
    ensure!(shape.last() == Some(&2), "Tensor must have a last dimension of size 2");
    one(Lens::Pairs.see(b, v)?)
}
