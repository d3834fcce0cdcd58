//! QR factors by Householder's reflections `1 - tau v v^T`, with LAPACK's signs.

use super::super::{Call, OpDef, Outs, err, many, ok, one, outs};
use super::*;

pub(super) const OPS: &[OpDef] = &[
    OpDef::new(
        "aten::geqrf(Tensor self) -> (Tensor a, Tensor tau)",
        |c, b| {
            let v = c.tensor(b, "self")?;
            ensure!(b.rank(v) >= 2, "torch.geqrf: input must have at least 2 dimensions.");
            let a = Matrices::of(b, v, "torch.geqrf", "geqrf_cpu")?;
            let [packed, tau] = reflections(b, &a)?;
            many([a.unbatched(b, packed)?, a.unbatched(b, tau)?])
        },
        &[
            ok("f32[3,3]{1,5,3,4,1,2,2,3,6}"),
            ok("f64[2,4,3]{1,5,3,4,1,2,2,3,6,7,9,1,-5}"),
            ok("f64[2,3]{1,5,3,4,1,2}"),
            ok("f32[3,2]{0}"),
            ok("c64[3,3]"),
            ok("c128[2,3]"),
            err("f32[3]", "torch.geqrf: input must have at least 2 dimensions."),
        ],
    )
    .asked()
    .variants(&["geqrf.a"]),
    OpDef::new(
        "aten::linalg_householder_product(Tensor input, Tensor tau) -> Tensor",
        |c, b| {
            let (v, tau) = (c.tensor(b, "input")?, c.tensor(b, "tau")?);
            let op = "torch.linalg.householder_product";
            ensure!(b.rank(v) >= 2, "{op}: input must have at least 2 dimensions.");
            let a = Matrices::of(b, v, op, "orgqr_cpu")?;
            ensure!(a.n >= a.m, "{op}: input.shape[-2] must be greater than or equal to input.shape[-1]");
            let t = b.shape(tau);
            let count = t.last().copied().unwrap_or(0);
            ensure!(count <= a.m, "{op}: input.shape[-1] must be greater than or equal to tau.shape[-1]");
            ensure!(
                t[..t.len().max(1) - 1] == a.lead[..],
                "{op}: Expected batch dimensions of tau to be equal to input.shape[:-2]"
            );
            let tau = b.reshape(tau, &[a.batch(), count])?;
            one(a.unbatched(b, orthogonal(b, a.v, tau, a.m)?)?)
        },
        &[
            ok("f32[3,2]{1,5,3,4,1,2}, f32[2]{0.5,1.5}"),
            ok("f64[2,3,3]{1,5,3,4,1,2}, f64[2,2]{0.5,1.5,0,1}"),
            ok("c128[3,2], c128[2]"),
            err("f32[2,3], f32[2]", "input.shape[-2] must be greater than or equal to input.shape[-1]"),
        ],
    )
    .asked()
    .variants(&["linalg_householder_product.out"]),
    OpDef::new(
        "aten::ormqr(Tensor self, Tensor input2, Tensor input3, bool left=True, bool transpose=False) -> Tensor",
        ormqr,
        &[
            ok("f32[4,3], f32[3], f32[4,2]"),
            ok("f64[2,4,3], f64[2,3], f64[2,4,2], true, true"),
            ok("f64[4,2], f64[2], f64[3,4], false"),
            ok("f64[4,4], f64[4], f64[3,4], false, true"),
            ok("f32[4,0], f32[0], f32[4,2]"),
            ok("c128[4,3], c128[3], c128[4,2], true, true"),
            ok("c128[4,3], c128[3], c128[2,4], false"),
            err("f32[4,3], f32[3], f32[5,2]", "torch.ormqr: other.shape[-2] must be equal to input.shape[-2]"),
            err("f32[4,3], f32[2], f32[4,2]", "tau.shape[-1] must be equal to min(other.shape[-2], input.shape[-1])"),
            err("f32[3], f32[2], f32[3,4]", "torch.ormqr: input must have at least 2 dimensions."),
        ],
    )
    .asked()
    .variants(&["ormqr.out"]),
    OpDef::new(
        "aten::linalg_qr(Tensor A, str mode='reduced') -> (Tensor Q, Tensor R)",
        qr,
        &[
            ok("f32[3,3]{1,5,3,4,1,2,2,3,6}"),
            ok("f64[2,4,3]{1,5,3,4,1,2,2,3,6,7,9,1,-5}"),
            ok("f64[2,4,3]{1,5,3,4,1,2,2,3,6,7,9,1,-5}, 'complete'"),
            ok("f64[2,3]{1,5,3,4,1,2}"),
            ok("c128[2,4,3], 'complete'"),
            ok("f64[4,3]{1,5,3,4,1,2,2,3,6,7,9,1,-5}, 'r'"),
            err(
                "f32[2,3], 'x'",
                "qr received unrecognized mode 'x' but expected one of 'reduced' (default), 'r', or 'complete'",
            ),
        ],
    )
    .asked()
    .variants(&["linalg_qr.out"])
    .typed_outs(outs::typed),
];

/// R on and above the diagonal, the reflections' vectors (without their leading ones) below; and their factors
/// `[batch, min(n, m)]`.
pub(super) fn reflections(b: &Builder, a: &Matrices) -> Result<[ValueId; 2]> {
    let steps = a.n.min(a.m);
    let done = by_lapack(b, Lapack::Qr, &[a.v], |b, v| {
        let tau = b.full(Number::Int(0), b.dtype(v[0]), &[a.batch(), steps])?;
        repeat(b, steps, &[v[0], tau], reflect)
    })?;
    Ok([done[0], done[1]])
}

/// One step: what is below the diagonal of column `k` is reflected away.
fn reflect(b: &Builder, k: ValueId, carried: &[ValueId]) -> Result<Vec<ValueId>> {
    let (a, taus) = (carried[0], carried[1]);
    let shape = b.shape(a);
    let left = column(b, a, k)?;
    let flat = b.shape(left);
    let (here, below) = (index_is(b, &flat, 1, Comparison::Eq, k)?, index_is(b, &flat, 1, Comparison::Gt, k)?);
    let head = picked(b, left, here, 1)?;
    let rest = b.select(below, left, zeros_like(b, left)?)?;
    let square = b.reduce(squared(b, rest)?, Reducer::Add, &[1])?;
    let [turned, tau, scale] = reflection(b, head, square)?;
    let vector = b.divide(rest, b.broadcast_in_dim(scale, &flat, &[0])?)?;
    let vector = b.select(here, b.full_like(vector, Number::Int(1))?, vector)?;
    let reflected = reflected(b, a, vector, conjugate(b, tau)?)?;
    let (is_column, right) = (index_is(b, &shape, 2, Comparison::Eq, k)?, index_is(b, &shape, 2, Comparison::Gt, k)?);
    let own = b.select(here, b.broadcast_in_dim(turned, &flat, &[0])?, b.select(below, vector, left)?)?;
    let next = b.select(right, reflected, b.select(is_column, down(b, own, &shape)?, a)?)?;
    let each = b.broadcast_in_dim(tau, &b.shape(taus), &[0])?;
    let is_own = index_is(b, &b.shape(taus), 1, Comparison::Eq, k)?;
    Ok(vec![next, b.select(is_own, each, taus)?])
}

/// What the reflection of a column makes of its `head`, given the sum of the squares below it; the reflection's factor;
/// and what the rest is divided by.
pub(super) fn reflection(b: &Builder, head: ValueId, square: ValueId) -> Result<[ValueId; 3]> {
    if b.dtype(head).is_complex() {
        return complex_reflection(b, head, square);
    }
    // Nothing to reflect leaves everything as it is.
    let turned = formula(b, [head, square], |[h, s]| {
        let length = (h * h + s).sqrt();
        s.equals(0.0).select(h, -length.copysign(h))
    })?;
    let tau = formula(b, [head, square, turned], |[h, s, t]| s.equals(0.0).select(h.constant(0.0), (t - h) / t))?;
    let scale = formula(b, [head, square, turned], |[h, s, t]| s.equals(0.0).select(h.constant(1.0), h - t))?;
    Ok([turned, tau, scale])
}

/// Complex heads become real.
fn complex_reflection(b: &Builder, head: ValueId, square: ValueId) -> Result<[ValueId; 3]> {
    let (re, im) = (b.unary(Unary::Real, head)?, b.unary(Unary::Imag, head)?);
    let off = formula(b, [im, square], |[i, s]| i * i + s)?;
    let turned = formula(b, [re, off], |[r, o]| o.equals(0.0).select(r, -(r * r + o).sqrt().copysign(r)))?;
    let tau = formula(b, [re, im, off, turned], |[r, i, o, t]| {
        let part = |v| o.equals(0.0).select(r.constant(0.0), v);
        part((t - r) / t).complex(part(-i / t))
    })?;
    let scale =
        formula(b, [re, im, off, turned], |[r, i, o, t]| o.equals(0.0).select(r.constant(1.0), r - t).complex(i))?;
    Ok([b.convert(turned, b.dtype(head))?, tau, scale])
}

/// `(1 - tau v v^H) a`.
pub(super) fn reflected(b: &Builder, a: ValueId, vector: ValueId, tau: ValueId) -> Result<ValueId> {
    let shape = b.shape(a);
    let v = down(b, vector, &shape)?;
    let along = b.reduce(b.multiply(conjugate(b, v)?, a)?, Reducer::Add, &[1])?;
    let share = b.multiply(along, b.broadcast_in_dim(tau, &b.shape(along), &[0])?)?;
    b.subtract(a, b.multiply(v, across(b, share, &shape)?)?)
}

/// The first `columns` columns of the product of the reflections below the diagonal of `packed`.
///
/// # Errors
/// `Internal`, if the operands do not fit each other.
pub fn orthogonal(b: &Builder, packed: ValueId, tau: ValueId, columns: usize) -> Result<ValueId> {
    let s = b.shape(packed);
    let start = identity(b, b.dtype(packed), &[s[0], s[1], columns])?;
    times_orthogonal(b, packed, tau, start, false)
}

/// The product of the reflections below the diagonal of `packed`, or its adjoint, times `a`.
pub(super) fn times_orthogonal(
    b: &Builder,
    packed: ValueId,
    tau: ValueId,
    a: ValueId,
    adjoint: bool,
) -> Result<ValueId> {
    let done = by_lapack(b, Lapack::Reflected { adjoint }, &[packed, tau, a], |b, given| {
        let [packed, tau, a] = given[..] else { crate::invalid!("takes three operands") };
        let count = b.shape(tau)[1];
        let done = repeat(b, count, &[a, packed, tau], |b, step, carried| {
            let (a, packed, taus) = (carried[0], carried[1], carried[2]);
            // The last one first.
            let last = b.scalar(Number::Int(count as i64 - 1), DType::I32)?;
            let k = if adjoint { step } else { b.subtract(last, step)? };
            Ok(vec![reflected_by(b, a, packed, taus, k, adjoint)?, packed, taus])
        })?;
        Ok(vec![done[0]])
    })?;
    Ok(done[0])
}

/// Reflection `k` of `packed`, or its adjoint, times `a`.
fn reflected_by(b: &Builder, a: ValueId, packed: ValueId, taus: ValueId, k: ValueId, adjoint: bool) -> Result<ValueId> {
    let left = column(b, packed, k)?;
    let flat = b.shape(left);
    let (here, below) = (index_is(b, &flat, 1, Comparison::Eq, k)?, index_is(b, &flat, 1, Comparison::Gt, k)?);
    let vector = b.select(below, left, zeros_like(b, left)?)?;
    let vector = b.select(here, b.full_like(vector, Number::Int(1))?, vector)?;
    let tau = picked(b, taus, index_is(b, &b.shape(taus), 1, Comparison::Eq, k)?, 1)?;
    let tau = if adjoint { conjugate(b, tau)? } else { tau };
    reflected(b, a, vector, tau)
}

fn qr(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let mode = c.string("mode")?.unwrap_or("reduced");
    ensure!(
        matches!(mode, "reduced" | "r" | "complete"),
        "qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'"
    );
    let a = Matrices::of(b, c.tensor(b, "A")?, "linalg.qr", "geqrf_cpu")?;
    let [packed, tau] = reflections(b, &a)?;
    let k = if mode == "complete" { a.n } else { a.n.min(a.m) };
    let r = triangle(b, b.slice(packed, &[0, 0, 0], &[a.batch(), k, a.m], &[1, 1, 1])?, true)?;
    let q = match mode {
        "r" => b.full(Number::Int(0), b.dtype(packed), &[0])?,
        _ => a.unbatched(b, orthogonal(b, packed, tau, k)?)?,
    };
    many([q, a.unbatched(b, r)?])
}

/// The product of reflections, all of its columns, or its adjoint, times a matrix, or that times it.
fn ormqr(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (v, tau, other) = (c.tensor(b, "self")?, c.tensor(b, "input2")?, c.tensor(b, "input3")?);
    let (left, turn) = (c.flag("left")?, c.flag("transpose")?);
    ensure!(b.rank(v) >= 2, "torch.ormqr: input must have at least 2 dimensions.");
    ensure!(b.rank(other) >= 2, "torch.ormqr: other must have at least 2 dimensions.");
    let (dim, s, t) = (if left { -2 } else { -1 }, b.shape(v), b.shape(other));
    let size = t[if left { t.len() - 2 } else { t.len() - 1 }];
    let (n, count) = (s[s.len() - 2], b.shape(tau).last().copied().unwrap_or(0));
    ensure!(size >= count, "torch.ormqr: other.shape[{dim}] must be greater than or equal to tau.shape[-1]");
    ensure!(
        count == size.min(s[s.len() - 1]),
        "torch.ormqr: tau.shape[-1] must be equal to min(other.shape[{dim}], input.shape[-1])"
    );
    ensure!(size == n, "torch.ormqr: other.shape[{dim}] must be equal to input.shape[-2]");
    for (v, name, rank) in [(tau, "tau", s.len() - 1), (other, "other", s.len())] {
        let shape = b.shape(v);
        let lead = &s[..s.len() - 2];
        ensure!(
            shape.len() == rank && shape[..lead.len()] == *lead,
            "torch.ormqr: batch dimensions of {name} to be equal to input.shape[:-2], but got {shape:?}"
        );
    }
    let packed = Matrices::of(b, v, "torch.ormqr", "ormqr_cpu")?;
    let a = Matrices::of(b, other, "torch.ormqr", "ormqr_cpu")?;
    let tau = b.reshape(tau, &[packed.batch(), count])?;
    if left {
        return one(a.unbatched(b, times_orthogonal(b, packed.v, tau, a.v, turn)?)?);
    }
    // `a q` is the adjoint of `q^H a^H`.
    let product = times_orthogonal(b, packed.v, tau, adjoint(b, a.v)?, !turn)?;
    one(a.unbatched(b, adjoint(b, product)?)?)
}
