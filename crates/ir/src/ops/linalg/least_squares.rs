//! Pseudo-inverses and least squares: what is left of an inverse where singular values are next to nothing.

use super::super::bounded::{Bounded, Cut};
use super::super::{Call, OpDef, Outs, Scalar, err, ok, one};
use super::qr::{reflections, times_orthogonal};
use super::svd::singular;
use super::triangular::{Side, solve_triangular};
use super::*;
use crate::ops::support::unsqueeze;

/// Matrices of full rank.
macro_rules! matrix {
    ($shape:literal) => {
        concat!("f64", $shape, "{1,5,3,4,1,2,2,3,6,7,9,1,-5}")
    };
}

pub(super) const OPS: &[OpDef] = &[
    OpDef::new(
        "aten::linalg_pinv.atol_rtol_tensor(Tensor self, *, Tensor? atol=None, Tensor? rtol=None, bool hermitian=False) -> Tensor",
        pinv,
        &[
            ok("f32[3,3]{1,5,3,4,1,2,2,3,6}"),
            ok(matrix!("[2,4,3]")),
            ok("f64[3,4]{1,2,3,4}"),
            ok("f64[2,3,3]{1,5,3,5,1,2,3,2,-6}, hermitian=true"),
            ok("f64[3,3]{1,2,0,2,4,0,0,0,1}, hermitian=true"),
            ok("f64[2,2,2]{1,0,0,0.25,5,0,0,1}, rtol=f64[3,1]{0.1,0.22,0.5}"),
            ok("f64[2,2]{1,0,0,0.25}, atol=f64[]{0.5}"),
            ok("f64[2,2]{1,0,0,0.25}, atol=f64[]{0.5}, rtol=f32[2]{0.125,0.75}"),
            ok("c128[3,2]"),
            ok("c128[3,3], hermitian=true"),
            ok("f32[2,0,3]"),
            err("f32[3]", "expected a tensor with 2 or more dimensions of float, double, cfloat or cdouble types"),
            err("f16[3,3]", "expected a tensor with 2 or more dimensions of float, double, cfloat or cdouble types"),
        ],
    ).asked()
    .variants(&["linalg_pinv.atol_rtol_tensor_out"]),
    OpDef::bounded(
        "aten::linalg_lstsq(Tensor self, Tensor b, float? rcond=None, *, str? driver=None) -> (Tensor solution, Tensor residuals, Tensor rank, Tensor singular_values)",
        lstsq,
        &[
            ok(concat!(matrix!("[4,3]"), ", f64[4,2]")),
            ok("f32[3,4]{1,5,3,4,1,2,2,3,6,7,9,1}, f32[3]"),
            ok(concat!(matrix!("[2,4,3]"), ", f64[2,4]")),
            ok(concat!(matrix!("[1,3,3]"), ", f64[2,3,2], driver='gelsy'")),
            ok(concat!(matrix!("[1,4,3]"), ", f64[2,4,2], driver='gels'")),
            ok(concat!(matrix!("[1,4,3]"), ", f64[2,4,2], driver='gelss'")),
            ok("f64[4,3]{1,2,3}, f64[4,2]"),
            ok("f64[2,2]{1,0,0,0.25}, f64[2,2], 0.5"),
            ok(concat!(matrix!("[2,4,3]"), ", f64[2,4,2], driver='gels'")),
            ok(concat!(matrix!("[2,3,4]"), ", f64[2,3,2], driver='gels'")),
            ok(concat!(matrix!("[3,3]"), ", f64[3], driver='gels'")),
            ok(concat!(matrix!("[3,4]"), ", f64[3,2], driver='gelsd'")),
            ok(concat!(matrix!("[4,3]"), ", f64[4,2], driver='gelsd'")),
            ok("f64[4,3]{1,2,3}, f64[4,2], driver='gelss'"),
            ok("f64[2,3,0], f64[2,3,2], driver='gelsd'"),
            ok("c128[4,3], c128[4,2]"),
            ok("c128[3,4], c128[3,2], driver='gels'"),
            ok("c128[4,3], c128[4], driver='gelsd'"),
            ok("f32[0,3], f32[0,2]"),
            err("f32[3], f32[3]", "torch.linalg.lstsq: input must have at least 2 dimensions."),
            err("f32[3,3], f32[4,2]", "torch.linalg.lstsq: input.size(-2) should match other.size(-2)"),
            err("f32[3,3], f64[3,2]", "Expected input and other to have the same dtype"),
            err(
                "f32[3,3], f32[3,2], driver='x'",
                "torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)",
            ),
        ],
    ).asked()
    .variants(&["linalg_lstsq.out"]),
];

/// `1 / v`, and 0 where `size` is not above `least`: all three are `[batch, k]` and real.
fn inverted(b: &Builder, v: ValueId, size: ValueId, least: ValueId) -> Result<ValueId> {
    formula(b, [v, size, least], |[v, s, l]| s.greater(l).select(1.0 / v, 0.0))
}

/// `v diag(s) w`, for `s` of `[batch, k]`, real.
fn with_diagonal(b: &Builder, v: ValueId, s: ValueId, w: ValueId) -> Result<ValueId> {
    let scaled = b.multiply(v, across(b, in_type_of(b, s, v)?, &b.shape(v))?)?;
    product(b, scaled, w)
}

/// What singular values are next to nothing by, unless the caller says.
fn default_tolerance(dtype: DType, n: usize, m: usize) -> f64 {
    epsilon(dtype) * n.max(m) as f64
}

fn pinv(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let v = c.tensor(b, "self")?;
    let low = matches!(b.dtype(v), DType::F16 | DType::BF16);
    ensure!(
        b.rank(v) >= 2 && !low && (b.dtype(v).is_float() || b.dtype(v).is_complex()),
        "linalg.pinv: expected a tensor with 2 or more dimensions of float, double, cfloat or cdouble types"
    );
    let hermitian = c.flag("hermitian")?;
    let a = match hermitian {
        true => Matrices::square(b, v, "linalg.eigh", "linalg_eigh_cpu")?,
        false => Matrices::of(b, v, "linalg.svd", "linalg_svd_cpu")?,
    };
    if a.shape().contains(&0) {
        return one(a.unbatched(b, transposed(b, a.v)?)?);
    }
    // `left diag(1 / values) right` would be the inverse.
    let [left, values, right] = match hermitian {
        true => {
            let [values, vectors] = super::eigh::eigen_of_lower(b, &a)?;
            [vectors, values, adjoint(b, vectors)?]
        }
        false => {
            let [u, s, vh] = singular(b, &a, false)?;
            [adjoint(b, vh)?, s, adjoint(b, u)?]
        }
    };
    let size = b.unary(Unary::Abs, values)?;
    let tolerances = tolerances(c, b, &a)?;
    let lead = broadcast_shapes([&a.lead, &b.shape(tolerances[0])])?;
    let full = |v| a.spread(b, v, &lead);
    let [left, values, size, right] = [full(left)?, full(values)?, full(size)?, full(right)?];
    let batch: usize = lead.iter().product();
    let flat = |v| b.reshape(broadcast_to(b, v, &lead)?, &[batch]);
    let largest = b.reduce(size, Reducer::Maximum, &[1])?;
    let least = b.maximum(flat(tolerances[0])?, b.multiply(flat(tolerances[1])?, largest)?)?;
    let inverses = inverted(b, values, size, b.broadcast_in_dim(least, &b.shape(size), &[0])?)?;
    let inverse = Matrices { v: with_diagonal(b, left, inverses, right)?, lead, n: a.m, m: a.n };
    one(inverse.unbatched(b, inverse.v)?)
}

/// The absolute and the relative tolerance of a pseudo-inverse, of one shape.
fn tolerances(c: &Call<'_>, b: &Builder, a: &Matrices) -> Result<[ValueId; 2]> {
    let dtype = b.dtype(a.v).real();
    let given = |name: &str| -> Result<Option<ValueId>> {
        let Some(v) = c.optional_tensor(b, name)? else { return Ok(None) };
        let own = b.dtype(v);
        ensure!(
            !own.is_complex(),
            "torch.linalg.pinv: {name} tensor of complex type is not supported. Got {}",
            torch_name(own)
        );
        Ok(Some(b.convert(v, dtype)?))
    };
    let (atol, rtol) = (given("atol")?, given("rtol")?);
    let zero = b.scalar(Number::Int(0), dtype)?;
    let usual = b.scalar(Number::Float(default_tolerance(dtype, a.n, a.m)), dtype)?;
    let rtol = match (rtol, atol) {
        (Some(rtol), _) => rtol,
        (None, None) => usual,
        // An absolute tolerance makes do without a relative one.
        (None, Some(atol)) => {
            let usual = b.broadcast_in_dim(usual, &b.shape(atol), &[])?;
            formula(b, [atol, usual], |[a, u]| a.greater(0.0).select(u.constant(0.0), u))?
        }
    };
    let atol = atol.unwrap_or(zero);
    let shape = broadcast_shapes([&b.shape(atol), &b.shape(rtol)])?;
    Ok([broadcast_to(b, atol, &shape)?, broadcast_to(b, rtol, &shape)?])
}

/// A system of which the squares of what is left are to be least.
struct System {
    a: Matrices,
    /// `[_, n, k]`; the batch is that of `a` broadcast.
    y: Matrices,
    /// Whether the caller's `y` had no `k`.
    vector: bool,
}

impl System {
    fn new(c: &Call<'_>, b: &Builder) -> Result<System> {
        let op = "torch.linalg.lstsq";
        let (v, mut y) = (c.tensor(b, "self")?, c.tensor(b, "b")?);
        let (d, e, s, t) = (b.dtype(v), b.dtype(y), b.shape(v), b.shape(y));
        ensure!(s.len() >= 2, "{op}: input must have at least 2 dimensions.");
        ensure!(!t.is_empty(), "{op}: other must have at least 1 dimension.");
        ensure!(
            d == e,
            "{op}: Expected input and other to have the same dtype, but got input's dtype {} and other's dtype {}",
            torch_name(d),
            torch_name(e)
        );
        ensure!(
            s.len() == t.len() || s.len() == t.len() + 1,
            "{op}: input.dim() must be greater or equal to other.dim() and (input.dim() - other.dim()) <= 1"
        );
        let vector = t.len() == 1 || (s.len() == t.len() + 1 && s[..s.len() - 1] == t[..]);
        if vector {
            y = unsqueeze(b, y, &[t.len()])?;
        }
        let shape = b.shape(y);
        ensure!(
            s[s.len() - 2] == shape[shape.len() - 2],
            "{op}: input.size(-2) should match other.size({})",
            if vector { -1 } else { -2 }
        );
        let [_, y] = common_batch(b, v, y)?;
        Ok(System { a: Matrices::of(b, v, op, "linalg_lstsq_cpu")?, y: Matrices::new(b, y)?, vector })
    }

    /// What there is of each matrix, for each of the `y`.
    fn full(&self, b: &Builder, v: ValueId) -> Result<ValueId> {
        self.a.spread(b, v, &self.y.lead)
    }

    /// `x` (`[_, m, k]`) as the caller has `y`.
    fn solution(&self, b: &Builder, x: ValueId) -> Result<ValueId> {
        let x = self.y.unbatched(b, x)?;
        let mut shape = b.shape(x);
        if self.vector {
            shape.pop();
        }
        b.reshape(x, &shape)
    }

    /// The sums of the squares of `rest` (`[_, _, k]`).
    fn residuals(&self, b: &Builder, rest: ValueId) -> Result<ValueId> {
        self.y.unbatched(b, b.reduce(squared(b, rest)?, Reducer::Add, &[1])?)
    }

    /// The solution of a system of full rank, and what is left, rotated.
    fn by_reflections(&self, b: &Builder) -> Result<[ValueId; 2]> {
        let (n, m, y) = (self.a.n, self.a.m, self.y.v);
        if n >= m {
            let [packed, tau] = reflections(b, &self.a)?;
            let [packed, tau] = [self.full(b, packed)?, self.full(b, tau)?];
            let turned = times_orthogonal(b, packed, tau, y, true)?;
            let (own, rest) = (b.slice_dim(turned, 1, 0, m, 1)?, b.slice_dim(turned, 1, m, n, 1)?);
            let r = b.slice_dim(packed, 1, 0, m, 1)?;
            return Ok([solve_triangular(b, r, own, Side { upper: true, unit: false })?, rest]);
        }
        let [packed, tau] = reflections(b, &self.a.adjoint(b)?)?;
        let [packed, tau] = [self.full(b, packed)?, self.full(b, tau)?];
        let l = adjoint(b, b.slice_dim(packed, 1, 0, n, 1)?)?;
        let own = solve_triangular(b, l, y, Side { upper: false, unit: false })?;
        let zero = b.scalar(Number::Int(0), b.dtype(own))?;
        let x = b.pad(own, zero, &[0, 0, 0], &[0, (m - n) as i64, 0], &[0, 0, 0])?;
        Ok([times_orthogonal(b, packed, tau, x, false)?, b.slice_dim(y, 1, n, n, 1)?])
    }

    /// The shortest solution, the rank (`i64[batch]`) and the singular values.
    fn by_singular_values(&self, b: &Builder, rcond: ValueId) -> Result<[ValueId; 3]> {
        let a = &self.a;
        let counts = |v| b.reduce(b.convert(v, DType::I64)?, Reducer::Add, &[1]);
        if a.n.min(a.m) == 0 {
            let none = b.full(Number::Int(0), b.dtype(a.v).real(), &[a.batch(), 0])?;
            let x = b.full(Number::Int(0), b.dtype(a.v), &[self.y.batch(), a.m, self.y.m])?;
            return Ok([x, counts(none)?, none]);
        }
        let [u, s, vh] = singular(b, a, false)?;
        let shape = b.shape(s);
        let largest = b.reduce(s, Reducer::Maximum, &[1])?;
        let least = b.multiply(largest, b.broadcast_in_dim(rcond, &shape[..1], &[])?)?;
        let least = b.broadcast_in_dim(least, &shape, &[0])?;
        let along = product(b, self.full(b, adjoint(b, u)?)?, self.y.v)?;
        let inverses = self.full(b, inverted(b, s, s, least)?)?;
        let x = with_diagonal(b, self.full(b, adjoint(b, vh)?)?, inverses, along)?;
        Ok([x, counts(b.compare(Comparison::Gt, s, least)?)?, s])
    }
}

fn lstsq(c: &Call<'_>, b: &Builder) -> Result<Bounded> {
    let driver = c.string("driver")?.unwrap_or("gelsy");
    ensure!(
        matches!(driver, "gels" | "gelsy" | "gelsd" | "gelss"),
        "torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)"
    );
    let system = System::new(c, b)?;
    let a = &system.a;
    let real = b.dtype(a.v).real();
    let none = |dtype| b.full(Number::Int(0), dtype, &[0]);
    if driver == "gels" {
        let [x, rest] = system.by_reflections(b)?;
        let residuals = if a.n > a.m { system.residuals(b, rest)? } else { none(real)? };
        let results = [system.solution(b, x)?, residuals, none(DType::I64)?, none(real)?];
        return Bounded::fixed(results.map(Some).to_vec());
    }
    let rcond = match c.optional_scalar("rcond")? {
        Some(given) => given,
        None => Scalar::Known(Number::Float(default_tolerance(real, a.n, a.m))),
    };
    let [x, rank, values] = system.by_singular_values(b, c.scalar_value(b, &rcond, real)?)?;
    let values = if driver == "gelsy" { none(real)? } else { a.unbatched(b, values)? };
    let has_residuals = driver != "gelsy" && a.n > a.m;
    let residuals = match has_residuals {
        true => system.residuals(b, b.subtract(system.y.v, product(b, system.full(b, a.v)?, x)?)?)?,
        false => none(real)?,
    };
    let results = [system.solution(b, x)?, residuals, a.unbatched(b, rank)?, values];
    let mut cuts = vec![];
    if has_residuals && a.m > 0 {
        // There are none unless all matrices have full rank. (In PyTorch those of a batch then lose a dimension too.)
        let full = b.compare(Comparison::Eq, rank, b.full_like(rank, Number::Int(a.m as i64))?)?;
        let all = b.convert(b.reduce(full, Reducer::And, &[0])?, DType::I64)?;
        let extent = b.scalar(Number::Int(b.shape(residuals)[0] as i64), DType::I64)?;
        cuts.push(Cut { result: 1, dim: 0, count: b.multiply(all, extent)? });
    }
    Ok(Bounded::Results { padded: results.map(Some).to_vec(), cuts, order: None })
}
