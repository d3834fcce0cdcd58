//! The transpose of a matrix: operands and results of products are turned where that is less work than to multiply them as
//! they lie.

use std::ops::Range;

use super::blas::{Element, Out};

/// Columns that are turned before the next rows are: they are the lines of the result that stay in the cache until full.
const STRIP: usize = 64;

/// Turns `rows` by `columns` elements from `from` on, in rows that are `stride` elements apart.
///
/// # Safety
/// `from` has so many rows and columns, and `to` as many columns and rows, which nobody else touches meanwhile.
pub(super) unsafe fn turn<T: Element>([rows, columns]: [usize; 2], from: *const T, stride: usize, to: Out<T>) {
    let mut whole = [0, 0];
    if T::is_turned_in_registers() {
        whole = [rows, columns].map(|extent| extent - extent % T::SIDE);
        for first in (0..whole[1]).step_by(STRIP) {
            let width = STRIP.min(whole[1] - first);
            for row in (0..whole[0]).step_by(T::SIDE) {
                // SAFETY: these rows and columns are within both, as the caller promised.
                unsafe {
                    let to = Out { at: to.at.add(first * to.row + row), ..to };
                    some_rows(width, from.add(row * stride + first), stride, to);
                }
            }
        }
    }
    // SAFETY: as above.
    unsafe {
        one_by_one([0..whole[0], whole[1]..columns], from, stride, to);
        one_by_one([whole[0]..rows, 0..columns], from, stride, to);
    }
}

/// The same for [`SIDE`](Turned::SIDE) rows and at most [`STRIP`] columns, in whole squares.
///
/// # Safety
/// As above.
unsafe fn some_rows<T: Element>(columns: usize, from: *const T, stride: usize, to: Out<T>) {
    if !to.add {
        // SAFETY: forwarded to the caller.
        return unsafe { T::turn_rows(columns, from, stride, to.at, to.row) };
    }
    let mut turned = [T::ZERO; STRIP * LONGEST];
    // SAFETY: as above, and there is room for so many columns.
    unsafe { T::turn_rows(columns, from, stride, turned.as_mut_ptr(), T::SIDE) };
    for (column, turned) in turned.chunks_exact(T::SIDE).take(columns).enumerate() {
        // SAFETY: as above.
        let line = unsafe { std::slice::from_raw_parts_mut(to.at.add(column * to.row), T::SIDE) };
        line.iter_mut().zip(turned).for_each(|(place, &x)| *place += x);
    }
}

/// The same for what is left beside the squares.
///
/// # Safety
/// As above.
unsafe fn one_by_one<T: Element>([rows, columns]: [Range<usize>; 2], from: *const T, stride: usize, to: Out<T>) {
    for column in columns {
        for row in rows.clone() {
            // SAFETY: within both, as the caller promised.
            unsafe {
                let (x, place) = (*from.add(row * stride + column), &mut *to.at.add(column * to.row + row));
                if to.add { *place += x } else { *place = x }
            }
        }
    }
}

/// The longest [`SIDE`](Turned::SIDE).
const LONGEST: usize = 8;

/// A type whose squares are turned in registers, on processors that can.
pub(super) trait Turned: Sized {
    /// Rows and columns of such a square.
    const SIDE: usize;

    fn is_turned_in_registers() -> bool {
        #[cfg(target_arch = "x86_64")]
        return is_x86_feature_detected!("avx2");
        #[cfg(not(target_arch = "x86_64"))]
        false
    }

    /// Turns [`SIDE`](Turned::SIDE) rows, `stride` elements apart, into rows that are `row` elements apart.
    ///
    /// # Safety
    /// The processor can; `from` has these rows and so many columns, a multiple of their number, and nobody else touches `to`,
    /// which has as many columns and rows.
    unsafe fn turn_rows(_columns: usize, _from: *const Self, _stride: usize, _to: *mut Self, _row: usize) {
        unreachable!("no processor of this kind can");
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    /// [`Turned::turn_rows`](super::Turned::turn_rows).
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn eight_of_f32(columns: usize, from: *const f32, stride: usize, to: *mut f32, row: usize) {
        for column in (0..columns).step_by(8) {
            // SAFETY: the caller has these rows and columns.
            unsafe {
                let line = |i: usize| _mm256_loadu_ps(from.add(i * stride + column));
                // Pairs of rows, then of pairs, then of halves.
                let pairs = |i: usize| {
                    let (x, y) = (line(i), line(i + 1));
                    (_mm256_unpacklo_ps(x, y), _mm256_unpackhi_ps(x, y))
                };
                let fours = |i: usize| {
                    let ((a, b), (c, d)) = (pairs(i), pairs(i + 2));
                    [
                        _mm256_shuffle_ps::<0x44>(a, c),
                        _mm256_shuffle_ps::<0xee>(a, c),
                        _mm256_shuffle_ps::<0x44>(b, d),
                        _mm256_shuffle_ps::<0xee>(b, d),
                    ]
                };
                let (upper, lower) = (fours(0), fours(4));
                for i in 0..4 {
                    let at = to.add((column + i) * row);
                    _mm256_storeu_ps(at, _mm256_permute2f128_ps::<0x20>(upper[i], lower[i]));
                    _mm256_storeu_ps(at.add(4 * row), _mm256_permute2f128_ps::<0x31>(upper[i], lower[i]));
                }
            }
        }
    }

    /// The same.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn four_of_f64(columns: usize, from: *const f64, stride: usize, to: *mut f64, row: usize) {
        for column in (0..columns).step_by(4) {
            // SAFETY: as above.
            unsafe {
                let line = |i: usize| _mm256_loadu_pd(from.add(i * stride + column));
                let pairs = |i: usize| {
                    let (x, y) = (line(i), line(i + 1));
                    [_mm256_unpacklo_pd(x, y), _mm256_unpackhi_pd(x, y)]
                };
                let (upper, lower) = (pairs(0), pairs(2));
                for i in 0..2 {
                    let at = to.add((column + i) * row);
                    _mm256_storeu_pd(at, _mm256_permute2f128_pd::<0x20>(upper[i], lower[i]));
                    _mm256_storeu_pd(at.add(2 * row), _mm256_permute2f128_pd::<0x31>(upper[i], lower[i]));
                }
            }
        }
    }
}

impl Turned for f32 {
    const SIDE: usize = 8;

    #[cfg(target_arch = "x86_64")]
    unsafe fn turn_rows(columns: usize, from: *const f32, stride: usize, to: *mut f32, row: usize) {
        // SAFETY: forwarded to the caller.
        unsafe { x86::eight_of_f32(columns, from, stride, to, row) }
    }
}

impl Turned for f64 {
    const SIDE: usize = 4;

    #[cfg(target_arch = "x86_64")]
    unsafe fn turn_rows(columns: usize, from: *const f64, stride: usize, to: *mut f64, row: usize) {
        // SAFETY: forwarded to the caller.
        unsafe { x86::four_of_f64(columns, from, stride, to, row) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: Element + From<f32> + std::fmt::Debug>([rows, columns]: [usize; 2], add: bool) {
        let (stride, row) = (columns + 3, rows + 5);
        let number = |i: usize| T::from(i as f32);
        let from: Vec<T> = (0..rows * stride).map(number).collect();
        let mut to: Vec<T> = (0..columns * row).map(|i| T::from(-(i as f32))).collect();
        let mut expected = to.clone();
        for (i, j) in (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j))) {
            let place = &mut expected[j * row + i];
            *place = from[i * stride + j];
            if add {
                *place += to[j * row + i];
            }
        }
        // SAFETY: the vectors have these extents.
        unsafe { turn([rows, columns], from.as_ptr(), stride, Out { at: to.as_mut_ptr(), row, add }) };
        assert_eq!(to, expected, "{rows} by {columns}, {add}");
    }

    #[test]
    fn every_element_comes_to_its_place() {
        for extents in [[0, 9], [9, 0], [1, 1], [7, 9], [8, 8], [16, 64], [17, 65], [24, 200], [130, 131]] {
            for add in [false, true] {
                check::<f32>(extents, add);
                check::<f64>(extents, add);
            }
        }
    }
}
