//! Memory that a thread keeps for its next call: fresh memory costs as much as filling it.

use std::cell::RefCell;
use std::slice;

/// Bytes beyond which memory is not kept.
const MOST: usize = 64 << 20;

/// Numbers that any bytes are.
///
/// # Safety
/// They are, and need no alignment beyond a line's.
pub(super) unsafe trait Plain: Copy {}

macro_rules! plain {
    ($($T:ty)*) => {$(
        // SAFETY: as for all of Rust's numbers.
        unsafe impl Plain for $T {}
    )*};
}

plain!(u8 u16 u32 u64 u128 f32 f64);

/// Memory that lies as vector instructions like it.
#[derive(Clone, Copy)]
#[repr(align(64))]
#[allow(dead_code)] // read through pointers
struct Line([u8; 64]);

thread_local! {
    /// What is not in use now.
    static KEPT: RefCell<Vec<Vec<Line>>> = const { RefCell::new(Vec::new()) };
}

/// Calls `f` with memory for `sizes` elements each, which holds anything.
pub(super) fn with_scratch<T: Plain, const N: usize>(sizes: [usize; N], f: impl FnOnce([&mut [T]; N])) {
    let lines = sizes.map(|size| (size * size_of::<T>()).div_ceil(size_of::<Line>()));
    let all: usize = lines.iter().sum();
    let mut taken = KEPT.with_borrow_mut(Vec::pop).unwrap_or_default();
    if taken.len() < all {
        taken.resize(all, Line([0; 64]));
    }
    let mut rest = &mut taken[..];
    f(std::array::from_fn(|i| {
        let (own, others) = std::mem::take(&mut rest).split_at_mut(lines[i]);
        rest = others;
        // SAFETY: so many elements fit, aligned for any, and any bytes are numbers.
        unsafe { slice::from_raw_parts_mut(own.as_mut_ptr().cast::<T>(), sizes[i]) }
    }));
    if taken.len() * size_of::<Line>() <= MOST {
        KEPT.with_borrow_mut(|kept| kept.push(taken));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_kept_and_never_handed_out_twice_at_once() {
        let mut first = std::ptr::null();
        with_scratch([3, 100], |[a, b]: [&mut [f32]; 2]| {
            first = a.as_ptr();
            assert_eq!((a.len(), b.len()), (3, 100));
            a.fill(1.0);
            b.fill(2.0);
            with_scratch([50], |[c]: [&mut [f64]; 1]| c.fill(3.0));
            assert!(a.iter().all(|&x| x == 1.0) && b.iter().all(|&x| x == 2.0));
            assert!([a.as_ptr(), b.as_ptr()].iter().all(|at| at.addr() % 64 == 0));
        });
        with_scratch([3], |[inner]: [&mut [f32]; 1]| {
            with_scratch([3], |[outer]: [&mut [f32]; 1]| {
                assert!([inner.as_ptr(), outer.as_ptr()].contains(&first), "fresh memory");
            });
        });
    }
}
