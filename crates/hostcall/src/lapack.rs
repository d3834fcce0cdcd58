//! Factorisations, and what is solved by them.

use crate::share::{cut, parts, sizes};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Rows or columns, at most: what `heevd` works in, twice the square, is counted in 32 bits.
const MOST: usize = 30_000;

/// What is computed of each matrix of a batch, as LAPACK does: `[batch, n, m]` in rows, of 32 or 64 bit floats, real or complex.
/// `r` is `min(n, m)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lapack {
    /// `getrf`: L, without the ones on its diagonal, and U as one matrix; the row, counted from 1, that each step swapped its own
    /// with, `i32[batch, r]`; the first step, from 1, that found only zeros, or 0: `i32[batch]`.
    Lu,
    /// Which row each of `n` came from, `i32[batch, n]`, of those pivots.
    Order,
    /// `geqrf`: R, and below it the vectors of reflections without their leading ones; the reflections' factors `[batch, r]`.
    Qr,
    /// `ormqr`: the product of reflections `[batch, n, k]` with factors `[batch, k]`, or its adjoint, times `[batch, n, m]`.
    Reflected {
        /// Whether it is the adjoint.
        adjoint: bool,
    },
    /// `potrf`: the lower factor of a Hermitian matrix, of which the lower triangle is read, with zeros above the diagonal; the
    /// first step, from 1, whose minor is not positive, or 0: `i32[batch]`.
    Cholesky,
    /// `trsm`: the X in `A X = Y`, `[batch, n, n]` and `[batch, n, m]`.
    Triangular {
        /// Whether the upper triangle is A, or the lower one.
        upper: bool,
        /// Whether its diagonal is taken for ones.
        unit: bool,
    },
    /// `syevd`: the eigenvalues of a Hermitian matrix, ascending, `[batch, n]`, real; and the eigenvectors' adjoints as rows.
    Eigh,
    /// The eigenvalues alone.
    EighValues,
    /// `gesdd`: U, the singular values, descending, `[batch, r]`, and V's adjoint.
    Svd {
        /// Whether U and V are square.
        full: bool,
    },
    /// The singular values alone.
    SingularValues,
    /// `geev`: complex eigenvalues `[batch, n]`, and eigenvectors of length 1 as columns.
    Eig,
    /// The eigenvalues alone.
    Eigenvalues,
}

impl Lapack {
    /// Whether LAPACK can count what it needs for matrices of these extents, of which the first is the batch: squares of them, and
    /// nothing without elements.
    pub fn takes(extents: &[usize]) -> bool {
        !extents.contains(&0) && extents.iter().skip(1).all(|&extent| extent <= MOST)
    }

    /// What programs call: `stablehlo.custom_call @torchtpu.lapack(a, ..)`.
    pub const TARGET: &str = "torchtpu.lapack";

    /// As [`Lapack::decode`] reads it.
    pub fn encode(self) -> Vec<i64> {
        let (number, first, second) = match self {
            Lapack::Lu => (0, false, false),
            Lapack::Order => (1, false, false),
            Lapack::Qr => (2, false, false),
            Lapack::Reflected { adjoint } => (3, adjoint, false),
            Lapack::Cholesky => (4, false, false),
            Lapack::Triangular { upper, unit } => (5, upper, unit),
            Lapack::Eigh => (6, false, false),
            Lapack::Svd { full } => (7, full, false),
            Lapack::SingularValues => (8, false, false),
            Lapack::Eig => (9, false, false),
            Lapack::Eigenvalues => (10, false, false),
            Lapack::EighValues => (11, false, false),
        };
        vec![number, first.into(), second.into()]
    }

    /// What [`Lapack::encode`] wrote; `None` if it did not write this.
    pub fn decode(numbers: &[i64]) -> Option<Lapack> {
        let [number, first, second] = sizes(numbers.as_array()?)?;
        let (first, second) = (first == 1, second == 1);
        let decoded = match number {
            0 => Lapack::Lu,
            1 => Lapack::Order,
            2 => Lapack::Qr,
            3 => Lapack::Reflected { adjoint: first },
            4 => Lapack::Cholesky,
            5 => Lapack::Triangular { upper: first, unit: second },
            6 => Lapack::Eigh,
            7 => Lapack::Svd { full: first },
            8 => Lapack::SingularValues,
            9 => Lapack::Eig,
            10 => Lapack::Eigenvalues,
            11 => Lapack::EighValues,
            _ => return None,
        };
        (decoded.encode() == numbers).then_some(decoded)
    }

    /// The matrices of a batch of `count` in parts that `threads` may take, where one takes about `work` multiplications.
    pub fn parts(count: usize, work: usize, threads: usize) -> impl Iterator<Item = Range<usize>> {
        cut(count, parts(count.saturating_mul(work), threads), 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for number in 0..=11 {
            for flags in [[0, 0], [1, 0], [0, 1], [1, 1]] {
                let numbers = [number, flags[0], flags[1]];
                if let Some(lapack) = Lapack::decode(&numbers) {
                    assert_eq!(lapack.encode(), numbers);
                }
            }
            assert!(Lapack::decode(&[number, 0, 0]).is_some(), "{number}");
        }
        for wrong in [&[][..], &[12, 0, 0], &[-1, 0, 0], &[0, 1, 0], &[3, 2, 0], &[3, 0, 1], &[0, 0], &[0, 0, 0, 0]] {
            assert_eq!(Lapack::decode(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn parts_cover_all_matrices_once() {
        for (count, work, threads) in
            [(0, 1, 2), (1, 1 << 40, 8), (1000, 27, 2), (1000, 1 << 20, 4), (3, usize::MAX, 64)]
        {
            let parts: Vec<Range<usize>> = Lapack::parts(count, work, threads).collect();
            let ends = parts.iter().try_fold(0, |at, part| (part.start == at).then_some(part.end));
            assert_eq!(ends, Some(count));
        }
    }
}
