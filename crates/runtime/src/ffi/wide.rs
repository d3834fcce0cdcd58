//! Products in vectors of 512 bits, on processors where MKL takes half of that.
//!
//! MKL uses AVX-512 on Intel's processors only; the `gemm` crate uses it wherever it is. One thread of an AMD EPYC that multiplies 512
//! bits at once (taken for a Zen 4, which multiplies half of them), `f32`, in GFLOP/s:
//!
//! | `[m, k] x [k, n]` | MKL | crate | MKL, `w.T` for a second operand | crate, the same |
//! |-------------------|----:|------:|--------------------------------:|----------------:|
//! | 4x2048 by 512     | 36  | 100   | 47                              | 4               |
//! | 16x2048 by 512    | 70  | 213   | 84                              | 18              |
//! | 64x768 by 768     | 97  | 208   | 93                              | 162             |
//! | 128x1024 by 4096  | 87  | 150   | 89                              | 87              |
//! | 256x2304 by 196   | 102 | 213   |                                 |                 |
//! | 2048x512 by 32    | 95  | 244   | 95                              | 233             |
//!
//! A second operand that lies in columns, as in `x @ w.T`, every linear layer, the crate turns while it packs it, which takes 0.4 to
//! 2 ns an element; turned in registers before ([`super::turn`]) it takes 0.1 from the caches. Where the first operand and the result are
//! less to turn, the transpose is made instead, as the product of that operand, which lies in rows so. In GFLOP/s, likewise:
//!
//! | `[m, k] x [n, k]` | MKL | crate | second turned | others turned |
//! |-------------------|----:|------:|--------------:|--------------:|
//! | 20x32 by 32       | 75  | 77    | 145           | 63            |
//! | 34x32 by 96       | 95  | 133   | 200           | 111           |
//! | 4x1024 by 1024    | 43  | 5     | 68            | 31            |
//! | 8x1024 by 1024    | 60  | 9     | 105           | 62            |
//! | 16x1024 by 1024   | 86  | 19    | 150           | 132           |
//! | 20x512 by 512     | 93  | 48    | 165           | 151           |
//! | 32x1024 by 1024   | 95  | 35    | 183           | 229           |
//! | 64x1024 by 1024   | 105 | 62    | 198           | 231           |
//! | 394x3072 by 768   | 92  | 143   | 225           | 189           |
//! | 2048x256 by 64    | 102 | 256   | 244           | 90            |
//! | 16x768 by 16384   |     |       | 74            | 118           |
//!
//! A result of few columns is made by way of its transpose too: 64x64 by 8 in 0.49 us instead of MKL's 1.00, 2048x256 by 6 in 75
//! instead of 110, 512x512 by 3 in 28 instead of 33, or 124 where the second operand lies in rows.
//!
//! A Zen 4 (Genoa) makes 97 to 115 GFLOP/s a thread by the crate and 76 to 101 by MKL where no side is short: the crate takes 0.83 to 0.91 of
//! MKL's time, 0.31 to 0.75 where rows or columns are few, and 1.12 for a row of 1024 by 1024 in rows, the only case where it takes longer.
//!
//! `x @ w.T` on both cores, the whole program, and eager PyTorch's MKL (medians of 160, one after the other, warm):
//!
//! | `[m, k] x [n, k]` | ms    | MKL, ms |
//! |-------------------|------:|--------:|
//! | 8x1024 by 1024    | 0.107 | 0.203   |
//! | 16x1024 by 1024   | 0.140 | 0.279   |
//! | 64x1024 by 1024   | 0.348 | 0.761   |
//! | 64x3072 by 768    | 0.724 | 1.67    |
//! | 128x768 by 768    | 0.387 | 0.785   |
//! | 394x768 by 3072   | 4.35  | 9.35    |
//! | 2048x512 by 256   | 1.41  | 2.66    |
//! | 128x768 by 50257  | 26.1  | 76.3    |

use super::blas::{Element, Matrix, Out, VECTOR};
use super::scratch::with_scratch;
use super::turn::turn;
use hostcall::Strides;

/// Fewer rows than this do not repay that a second operand in columns is turned.
const FEW_ROWS: usize = 4;
/// Rows and columns of a result that are made at once by way of their transpose.
const BLOCK: usize = 512;
/// Elements of a second operand, or of a first one for few columns, that are turned at once: they stay in the cache until they are
/// multiplied.
const TURNED_AT_ONCE: usize = 1 << 14;
/// The same of a first operand for many columns: they are read again for every so many rows.
const FIRST_AT_ONCE: usize = 1 << 20;
/// What is turned at once is so many lines, or a multiple: the crate's kernels take up to three vectors.
const VECTORS: usize = 3 * VECTOR;
/// Elements of a result that the crate computes one by one, along both operands, without turning either.
const DOTS: usize = 256;

/// Multiplications and additions in the time that it takes to turn an element of a second operand, from the caches or not.
const TO_TURN_SECOND: usize = 12;
const TO_TURN_SECOND_FROM_MEMORY: usize = 30;
/// The same of the first operand and the result, which are turned where rows are few and so far apart.
const TO_TURN_OTHERS: usize = 18;
/// Products of an element that are summed at once where operands are turned: the memory for more would be worth nothing.
const DEPTH: usize = 1 << 13;
/// Elements that the caches hold.
const IN_CACHES: usize = 1 << 22;
/// Rows that take the crate's kernels as long as one vector of them does: the shortest kernel is the least busy.
const ROWS_OF_ONE_VECTOR: usize = 28;

/// Whether this processor has vectors of 512 bits that MKL does not use.
pub(super) fn is_for_this_processor() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        let vendor = std::arch::x86_64::__cpuid(0);
        let is_intel = [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes).concat() == b"GenuineIntel";
        is_x86_feature_detected!("avx512f") && !is_intel
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// How a product is made here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// As the operands lie.
    Straight,
    /// By way of its transpose: the first operand and the result are turned.
    Turned,
    /// The second operand is turned.
    SecondTurned,
}

/// How a product is made faster here than by MKL on such a processor, if it is.
pub(super) fn way<T>([m, n, k]: [usize; 3], lhs: Matrix<T>, rhs: Matrix<T>) -> Option<Way> {
    let sums_along_both = lhs.strides.column == 1 && rhs.strides.row == 1;
    match () {
        _ if m == 1 || n == 1 || (sums_along_both && m * n <= DOTS) => Some(Way::Straight),
        _ if n < VECTOR => (m > n).then_some(Way::Turned),
        _ if rhs.strides.column == 1 => Some(Way::Straight),
        _ if m < FEW_ROWS => None,
        _ if turns_others([m, n, k]) => Some(Way::Turned),
        _ => Some(Way::SecondTurned),
    }
}

/// Whether it takes longer to turn the second operand than the others. By way of the transpose, rows fill vectors.
fn turns_others([m, n, k]: [usize; 3]) -> bool {
    let rows = if m <= VECTOR { ROWS_OF_ONE_VECTOR } else { m.next_multiple_of(VECTOR) };
    let second = n.saturating_mul(k);
    let to_turn_second = if second > IN_CACHES { TO_TURN_SECOND_FROM_MEMORY } else { TO_TURN_SECOND };
    let others = TO_TURN_OTHERS.saturating_mul(m).saturating_mul(n + k);
    others.saturating_add((rows - m).saturating_mul(second)) < to_turn_second.saturating_mul(second)
}

/// The product of an `m` by `k` and a `k` by `n` matrix, by this thread.
///
/// # Safety
/// The matrices have these extents, and nobody else touches the result meanwhile.
pub(super) unsafe fn multiply<T: Element>(
    way: Way,
    [m, n, k]: [usize; 3],
    lhs: Matrix<T>,
    rhs: Matrix<T>,
    out: Out<T>,
) {
    if way == Way::Straight {
        // SAFETY: forwarded to the caller.
        return unsafe { straight([m, n, k], lhs, rhs, out) };
    }
    for first in (0..k.max(1)).step_by(DEPTH) {
        let depth = DEPTH.min(k - first);
        // SAFETY: as above; the part is the operands'.
        unsafe {
            let lhs = Matrix { at: lhs.at.add(first * lhs.strides.column), ..lhs };
            let rhs = Matrix { at: rhs.at.add(first * rhs.strides.row), ..rhs };
            let out = Out { add: out.add || first > 0, ..out };
            match way {
                Way::SecondTurned => second_turned([m, n, depth], lhs, rhs, out),
                _ => turned([m, n, depth], lhs, rhs, out),
            }
        }
    }
}

/// The same by way of its transpose, some rows at a time.
///
/// # Safety
/// As above.
unsafe fn turned<T: Element>([m, n, k]: [usize; 3], lhs: Matrix<T>, rhs: Matrix<T>, out: Out<T>) {
    let elements = if n < VECTOR { TURNED_AT_ONCE } else { FIRST_AT_ONCE };
    let most = lines_of(k, elements).min(BLOCK);
    for row in (0..m).step_by(most) {
        // SAFETY: as above; the rows are the matrix's.
        unsafe {
            let lhs = Matrix { at: lhs.at.add(row * lhs.strides.row), ..lhs };
            let out = Out { at: out.at.add(row * out.row), ..out };
            rows_turned([most.min(m - row), n, k], lhs, rhs, out);
        }
    }
}

/// The same for a few rows.
///
/// # Safety
/// As above.
unsafe fn rows_turned<T: Element>([m, n, k]: [usize; 3], lhs: Matrix<T>, rhs: Matrix<T>, out: Out<T>) {
    let (lies_in_columns, row) = (lhs.strides.row == 1, row_of(m));
    let sizes = [if lies_in_columns { 0 } else { k * row }, BLOCK.min(n) * row];
    with_scratch(sizes, |[few, made]| {
        let mut second = lhs.turned();
        if !lies_in_columns {
            // SAFETY: as above, and there is room for them.
            unsafe { turn([m, k], lhs.at, lhs.strides.row, Out { at: few.as_mut_ptr(), row, add: false }) };
            second = Matrix { at: few.as_ptr(), strides: Strides { row, column: 1 } };
        }
        for first in (0..n).step_by(BLOCK) {
            let width = BLOCK.min(n - first);
            // SAFETY: as above; the columns are the matrix's, and `made` has room for them.
            unsafe {
                let rhs = Matrix { at: rhs.at.add(first * rhs.strides.column), ..rhs };
                straight([width, m, k], rhs.turned(), second, Out { at: made.as_mut_ptr(), row, add: false });
                turn([width, m], made.as_ptr(), row, Out { at: out.at.add(first), ..out });
            }
        }
    });
}

/// The same, the second operand turned first, some columns of the result at a time.
///
/// # Safety
/// As above; the second operand lies in columns.
unsafe fn second_turned<T: Element>([m, n, k]: [usize; 3], lhs: Matrix<T>, rhs: Matrix<T>, out: Out<T>) {
    let most = lines_of(k, TURNED_AT_ONCE);
    let row = row_of(most.min(n));
    with_scratch([k * row], |[turned]| {
        let second = Matrix { at: turned.as_ptr(), strides: Strides { row, column: 1 } };
        for first in (0..n).step_by(most) {
            let width = most.min(n - first);
            // SAFETY: as above; the columns are the matrix's, and there is room for them.
            unsafe {
                let (from, stride) = (rhs.at.add(first * rhs.strides.column), rhs.strides.column);
                turn([width, k], from, stride, Out { at: turned.as_mut_ptr(), row, add: false });
                straight([m, width, k], lhs, second, Out { at: out.at.add(first), ..out });
            }
        }
    });
}

/// How many rows or columns of `k` are about so many elements.
fn lines_of(k: usize, elements: usize) -> usize {
    (elements / k.max(1)).max(1).next_multiple_of(VECTORS)
}

/// How far apart rows of so many elements are, in memory that we choose: an odd number of the cache's lines, as rows a power of two
/// apart share few places of it.
fn row_of(elements: usize) -> usize {
    (elements.div_ceil(VECTOR) | 1) * VECTOR
}

/// The same by one call.
///
/// # Safety
/// As above.
unsafe fn straight<T: Element>([m, n, k]: [usize; 3], lhs: Matrix<T>, rhs: Matrix<T>, out: Out<T>) {
    let stride = |s: usize| s as isize; // of elements in memory, so it fits
    // SAFETY: the strides are within matrices of these extents, as the caller promised; the result is read only if added to.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            out.at,
            1,
            stride(out.row),
            out.add,
            lhs.at,
            stride(lhs.strides.column),
            stride(lhs.strides.row),
            rhs.at,
            stride(rhs.strides.column),
            stride(rhs.strides.row),
            T::ONE,
            T::ONE,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A matrix of small whole numbers, whose products are exact, that lies in rows or in columns.
    fn matrix(rows: usize, columns: usize, turned: bool) -> (Vec<f64>, Strides) {
        let strides = if turned { Strides { row: 1, column: rows } } else { Strides { row: columns, column: 1 } };
        ((0..rows * columns).map(|i| ((i * 7 + rows) % 11) as f64 - 5.0).collect(), strides)
    }

    fn check(way: Way, [m, n, k]: [usize; 3], turned: [bool; 2], add: bool) {
        let ((l, ls), (r, rs)) = (matrix(m, k, turned[0]), matrix(k, n, turned[1]));
        let row = n + 3;
        let mut out = vec![if add { 2.0 } else { f64::NAN }; m * row];
        let before = out.clone();
        let [lhs, rhs] = [(&l, ls), (&r, rs)].map(|(v, strides)| Matrix { at: v.as_ptr(), strides });
        // SAFETY: the vectors have these extents.
        unsafe { multiply(way, [m, n, k], lhs, rhs, Out { at: out.as_mut_ptr(), row, add }) };
        for i in 0..m {
            for j in 0..row {
                let at = |p: usize| l[i * ls.row + p * ls.column] * r[p * rs.row + j * rs.column];
                let was = before[i * row + j];
                let expected = match j < n {
                    true => (0..k).map(at).sum::<f64>() + if add { was } else { 0.0 },
                    false => was,
                };
                let got = out[i * row + j];
                assert!(
                    got == expected || (got.is_nan() && expected.is_nan()),
                    "{m}x{n}x{k} at {i},{j}: {got}, not {expected}"
                );
            }
        }
    }

    #[test]
    fn products_are_right_however_operands_lie() {
        for extents in [
            [1, 16, 1],
            [3, 17, 0],
            [33, 16, 5],
            [64, 100, 70],
            [130, 31, 300],
            [0, 16, 4],
            [20, 1100, 9],
            [530, 17, 3],
            [5, 17, DEPTH + 8],
        ] {
            for turned in [[false, false], [false, true], [true, false], [true, true]] {
                for way in [Way::Straight, Way::Turned, Way::SecondTurned] {
                    if way == Way::SecondTurned && !turned[1] {
                        continue;
                    }
                    check(way, extents, turned, false);
                    check(way, extents, turned, true);
                }
            }
        }
    }
}
