//! What only a TPU's compiler computes.

use crate::op::Precision;
use hostcall::Grouped;
use serde::{Deserialize, Serialize};

/// What a TPU's compiler computes by a routine of its own, which JAX calls, too, and promises to keep: of each matrix of a batch,
/// `[batch, n, m]` of `f32`, but for the last. `r` is `min(n, m)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Routine {
    /// StableHLO's `cholesky`: the lower factor of a positive matrix, of which the lower triangle is read, and anything above it; NaN
    /// from the first column on whose minor is not positive.
    Cholesky,
    /// StableHLO's `triangular_solve`: the X in `A X = Y`, `[batch, n, n]` and `[batch, n, m]`.
    TriangularSolve {
        /// Whether the upper triangle is A, or the lower one.
        upper: bool,
        /// Whether its diagonal is taken for ones.
        unit: bool,
    },
    /// L, without the ones on its diagonal, and U as one matrix; the row, counted from 0, that each step swapped its own with,
    /// `i32[batch, r]`; and which row each came from: `i32[batch, n]`.
    Lu,
    /// R, and below it the vectors of reflections without their leading ones; the reflections' factors `[batch, r]`.
    Qr,
    /// The product of the reflections below the diagonal of `[batch, n, n]` with factors `[batch, k]`: `[batch, n, n]`.
    Reflections,
    /// Eigenvectors of a symmetric matrix, as columns, and its eigenvalues, ascending.
    Eigh,
    /// CHLO's `ragged_dot`: as [`Op::Grouped`](crate::Op::Grouped), but its third operand says how many rows each group has, and rows of no group have any
    /// values.
    Grouped {
        /// What is multiplied.
        of: Grouped,
        /// Of the factors.
        precision: Precision,
    },
}
