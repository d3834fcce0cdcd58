//! Products in vectors of 512 bits, on processors where MKL takes half of that.
//!
//! MKL uses AVX-512 on Intel's processors only; the `gemm` crate uses it wherever it is. On a Zen 4, one thread, `f32`, in GFLOP/s:
//!
//! | `[m, k] x [k, n]`   | MKL | crate | crate, `w.T` for a second operand |
//! |---------------------|-----|-------|-----------------------------------|
//! | 2x512 by 2048       | 34  | 50    | 5 (MKL 37)                        |
//! | 16x2048 by 512      | 70  | 213   | 18 (84)                           |
//! | 64x768 by 768       | 97  | 208   | 162 (93)                          |
//! | 128x512 by 2048     | 89  | 209   | 133 (97)                          |
//! | 128x1024 by 4096    | 87  | 150   | 87 (89)                           |
//! | 394x768 by 3072     |     |       | 191 (100)                         |
//! | 256x2304 by 196     | 102 | 213   |                                   |
//! | 2048x512 by 32      | 95  | 244   | 233 (95)                          |
//!
//! A second operand that lies in columns is turned while it is packed, which few rows do not make up for.

use super::blas::{Element, Matrix, Out};

/// Rows from which a second operand that lies in columns is worth turning.
const ENOUGH: usize = 128;
/// Columns that fill a vector.
const VECTOR: usize = 16;

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

/// Whether a result of `m` by `n` elements is made faster here than by MKL on such a processor.
pub(super) fn is_faster<T>([m, n]: [usize; 2], rhs: Matrix<T>) -> bool {
    n >= VECTOR && (rhs.strides.column == 1 || m >= ENOUGH)
}

/// The product of an `m` by `k` and a `k` by `n` matrix, by this thread.
///
/// # Safety
/// The matrices have these extents, and nobody else touches the result meanwhile.
pub(super) unsafe fn multiply<T: Element>([m, n, k]: [usize; 3], lhs: Matrix<T>, rhs: Matrix<T>, out: Out<T>) {
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
    use hostcall::Strides;

    /// A matrix of small whole numbers, whose products are exact, that lies in rows or in columns.
    fn matrix(rows: usize, columns: usize, turned: bool) -> (Vec<f64>, Strides) {
        let strides = if turned { Strides { row: 1, column: rows } } else { Strides { row: columns, column: 1 } };
        ((0..rows * columns).map(|i| ((i * 7 + rows) % 11) as f64 - 5.0).collect(), strides)
    }

    fn check([m, n, k]: [usize; 3], turned: [bool; 2], add: bool) {
        let ((l, ls), (r, rs)) = (matrix(m, k, turned[0]), matrix(k, n, turned[1]));
        let row = n + 3;
        let mut out = vec![if add { 2.0 } else { f64::NAN }; m * row];
        let before = out.clone();
        let [lhs, rhs] = [(&l, ls), (&r, rs)].map(|(v, strides)| Matrix { at: v.as_ptr(), strides });
        // SAFETY: the vectors have these extents.
        unsafe { multiply([m, n, k], lhs, rhs, Out { at: out.as_mut_ptr(), row, add }) };
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
        for extents in [[1, 16, 1], [3, 17, 0], [33, 16, 5], [64, 100, 70], [130, 31, 300], [0, 16, 4]] {
            for turned in [[false, false], [false, true], [true, false], [true, true]] {
                check(extents, turned, false);
                check(extents, turned, true);
            }
        }
    }
}
