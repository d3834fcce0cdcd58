//! Discrete Fourier transforms as products with small matrices, for a TPU.
//!
//! A transform of `n = p * q` values is `q` transforms of `p`, a factor per value, and `p` transforms of `q`: Cooley and
//! Tukey's step with the largest `p` up to [`RADIX`]. A length whose factors are all larger is one product with its whole matrix.
//! libtpu does likewise, with more products and with factors that it computes as it goes; 16x4096, complex: 64 MFLOP there, 52 here,
//! and 512x768 in both dimensions 637 and 359, with about as many bytes. XLA's CPU has a transform that is better than products
//! (0.5 and 1.5 ms a call for these, where products took 2.0 and 20).

use super::rebuild::Rebuild;
use crate::{Change, Changes, Class, Head};
use ir::op::DotGeneral;
use ir::{
    Binary, Builder, DType, Dims, Error, FftKind, Graph, InputKind, Literal, LocId, Number, Op, OutputKind, Precision,
    Result, Shape, TensorType, Unary, ValueId,
};
use std::f64::consts::TAU;

/// Name, class and reason.
pub(super) const TOLD: (&str, Class, &str) = (
    "fourier-as-products",
    Class::Reassociating,
    "a TPU multiplies fastest, and matrices of roots are small where lengths have factors",
);

/// Transforms up to this length are one product.
const RADIX: usize = 64;
/// The greatest extent of a matrix for a length without small factors; beyond it libtpu's own way takes less.
const GREATEST: usize = 2048;

/// `graph` with products for transforms.
pub(super) fn as_products(graph: &Graph, changes: &mut Changes, within: Option<LocId>) -> Result<Graph> {
    let mut to = Rebuild::of(graph);
    for node in graph.nodes() {
        let (Op::Fft { kind, lengths }, true) = (&node.op, changes.allows_alone(TOLD.1)) else {
            to.keep(node);
            continue;
        };
        let (operand, made) = (to.place(node.operands[0]), to.len());
        let ty = to.ty(operand)?.clone();
        if ty.shape.contains(&0) || lengths.iter().any(|&n| factor(n).is_none()) {
            to.keep(node);
            continue;
        }
        to.set_loc(node.loc);
        let b = Builder::new("transform");
        let v = b.input("x", InputKind::User, ty);
        b.output("y", OutputKind::User, transform(&b, v, *kind, lengths)?);
        let value = to.splice(&b.finish(), &[operand])?;
        let (locs, before) = (vec![within.unwrap_or(node.loc)], Head::of(&node.op));
        changes.push(Change { rule: TOLD.0, class: TOLD.1, locs, before, after: to.heads_from(made) });
        to.stand_for(value);
    }
    Ok(to.finish(graph))
}

/// How many values of `n` the first product transforms.
fn factor(n: usize) -> Option<usize> {
    if n <= RADIX {
        return Some(n);
    }
    (2..=RADIX)
        .rev()
        .find(|&p| n.is_multiple_of(p))
        .map_or_else(|| (n <= GREATEST).then_some(n), |p| factor(n / p).map(|_| p))
}

/// The transform of `v` over its last dimensions.
fn transform(b: &Builder, v: ValueId, kind: FftKind, lengths: &[usize]) -> Result<ValueId> {
    let (last, outer) = (b.rank(v) - 1, b.rank(v) - lengths.len());
    let n = lengths[lengths.len() - 1];
    let rest: Vec<usize> = (outer..last).collect();
    let all: Vec<usize> = (outer..=last).collect();
    let along = |v, dims: &[usize], forward| dims.iter().try_fold(v, |v, &d| along(b, v, d, forward));
    match kind {
        FftKind::Fft => along(v, &all, true),
        FftKind::Ifft => divided(b, along(v, &all, false)?, lengths),
        FftKind::Rfft => {
            let wide = if b.dtype(v) == DType::F32 { DType::C64 } else { DType::C128 };
            let whole = along(b.convert(v, wide)?, &[last], true)?;
            along(b.slice_dim(whole, last, 0, n / 2 + 1, 1)?, &rest, true)
        }
        FftKind::Irfft => {
            let half = along(v, &rest, false)?;
            // The mirror image of 1, 2, ... below the middle.
            let mirrored = b.reverse(b.slice_dim(half, last, 1, n - n / 2, 1)?, &[last])?;
            let (re, im) = (b.unary(Unary::Real, mirrored)?, b.unary(Unary::Imag, mirrored)?);
            let mirrored = b.binary(Binary::Complex, re, b.negate(im)?)?;
            let whole = along(b.concatenate(&[half, mirrored], last)?, &[last], false)?;
            divided(b, b.unary(Unary::Real, whole)?, lengths)
        }
    }
}

/// `v` divided by the number of values that the transform mixed.
fn divided(b: &Builder, v: ValueId, lengths: &[usize]) -> Result<ValueId> {
    let scale = lengths.iter().map(|&n| n as f64).product::<f64>().recip();
    b.multiply(v, b.full_like(v, Number::Float(scale))?)
}

/// The transform along dimension `d` of complex `v`.
fn along(b: &Builder, v: ValueId, d: usize, forward: bool) -> Result<ValueId> {
    let shape = b.shape(v);
    let n = shape[d];
    if n == 1 {
        return Ok(v);
    }
    // The dimension last, and all others one.
    let order: Dims = (0..shape.len()).filter(|&i| i != d).chain([d]).collect();
    let moved: Shape = order.iter().map(|&i| shape[i]).collect();
    let rows = shape.iter().product::<usize>() / n;
    let v = lines(b, b.reshape(b.transpose(v, &order)?, &[rows, n])?, forward)?;
    let back: Dims = (0..shape.len()).map(|i| order.iter().position(|&o| o == i).unwrap_or(i)).collect();
    b.transpose(b.reshape(v, &moved)?, &back)
}

/// The transform of each row of `[rows, n]`.
fn lines(b: &Builder, v: ValueId, forward: bool) -> Result<ValueId> {
    let s = b.shape(v);
    let (rows, n) = (s[0], s[1]);
    let p = factor(n).ok_or_else(|| Error::internal(format!("a matrix of {n} roots")))?;
    if p == n {
        return contract(b, v, roots(b, b.dtype(v), [n, n], n, forward)?, 1);
    }
    let q = n / p;
    // [rows, p, q] to [rows, q, p], transformed along p.
    let firsts = contract(b, b.reshape(v, &[rows, p, q])?, roots(b, b.dtype(v), [p, p], p, forward)?, 1)?;
    let factors = b.broadcast_in_dim(roots(b, b.dtype(v), [q, p], n, forward)?, &[rows, q, p], &[1, 2])?;
    let turned = b.transpose(b.multiply(firsts, factors)?, &[0, 2, 1])?;
    let seconds = lines(b, b.reshape(turned, &[rows * p, q])?, forward)?;
    b.reshape(b.transpose(b.reshape(seconds, &[rows, p, q])?, &[0, 2, 1])?, &[rows, n])
}

/// `v`, contracted along `d` with the first dimension of `matrix`, whose second one comes last.
fn contract(b: &Builder, v: ValueId, matrix: ValueId, d: usize) -> Result<ValueId> {
    let dims = DotGeneral {
        lhs_batch: Dims::new(),
        rhs_batch: Dims::new(),
        lhs_contract: Dims::from_slice(&[d]),
        rhs_contract: Dims::from_slice(&[0]),
        // Errors of a transform spread over all of its results.
        precision: Precision::Highest,
        out: b.dtype(v),
        host: false,
    };
    b.dot_general(v, matrix, dims)
}

/// `exp(-2 pi i j k / n)` at `[j, k]`, or the conjugate.
fn roots(b: &Builder, dtype: DType, shape: [usize; 2], n: usize, forward: bool) -> Result<ValueId> {
    let sign = if forward { -1.0 } else { 1.0 };
    let root = |j: usize, k: usize| {
        // Small angles keep their digits.
        let angle = sign * TAU * ((j * k) % n) as f64 / n as f64;
        Number::Complex(angle.cos(), angle.sin()).to_bytes(dtype)
    };
    let bytes: Vec<u8> = (0..shape[0]).flat_map(|j| (0..shape[1]).flat_map(move |k| root(j, k))).collect();
    let literal = Literal::dense(TensorType::new(dtype, shape), bytes);
    b.constant(literal.ok_or_else(|| Error::internal("a matrix of roots does not fill its shape"))?)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Random, assert_close, formulated_for};
    use super::TOLD;
    use crate::{Class, Platform};
    use ir::{Binary, Builder, DType, FftKind, Graph, InputKind, OutputKind, Shape, TensorType, Unary};

    /// A graph of one transform.
    fn transform(r: &mut Random) -> Graph {
        let b = Builder::new("transform");
        let lengths: Shape = match r.below(3) {
            0 => [r.one_of(&[66, 67, 130])].into_iter().collect(),
            _ => (0..r.within(1, 3)).map(|_| r.one_of(&[1, 2, 3, 8, 9])).collect(),
        };
        let kind = r.one_of(&[FftKind::Fft, FftKind::Ifft, FftKind::Rfft, FftKind::Irfft]);
        let mut shape: Shape = [r.within(1, 3)].into_iter().filter(|&n| n > 1).chain(lengths.iter().copied()).collect();
        if let (FftKind::Irfft, Some(last)) = (kind, shape.last_mut()) {
            *last = *last / 2 + 1;
        }
        let part = |name| b.input(name, InputKind::User, TensorType { dtype: DType::F32, shape: shape.clone() });
        let x = match kind {
            FftKind::Rfft => part("x"),
            _ => b.binary(Binary::Complex, part("re"), part("im")).unwrap(),
        };
        let y = b.fft(x, kind, &lengths).unwrap();
        for (name, part) in [("re", Unary::Real), ("im", Unary::Imag)] {
            let of = if kind == FftKind::Irfft { y } else { b.unary(part, y).unwrap() };
            b.output(name, OutputKind::User, of);
        }
        b.finish()
    }

    #[test]
    fn random_transforms_stay_within_rounding() {
        let mut made = 0;
        for seed in 0..500 {
            let mut r = Random(seed);
            let graph = transform(&mut r);
            let (after, changes) = formulated_for(Platform::Tpu, &graph, Class::Reassociating, None);
            made += usize::from(changes.iter().any(|change| change.rule == TOLD.0));
            assert_close(&graph, &after, &r.inputs(&graph, false));
        }
        assert!(made > 400, "{made}");
    }
}
