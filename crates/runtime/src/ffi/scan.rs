//! Each element combined with all that come before it, lane by lane.

use std::ops::Range;

use hostcall::{Combines, Scan};

use super::combining::Number;
use super::functions::Denormals;
use super::team::{self, Threads};

/// Rows that are scanned at once, so that one need not wait for its own last sum. More of them would meet in one set of the cache
/// where they are as long as it.
const ROWS: usize = 2;

/// Lanes beside each other that are scanned at once: runs long enough to be read ahead.
const COLUMNS: usize = 256;

/// A type of elements.
pub(super) trait Scanned: Copy + 'static {
    /// What is combined.
    type Kept: Number;

    fn kept(self) -> Self::Kept;
    fn stored(kept: Self::Kept) -> Self;
}

macro_rules! scanned {
    ($T:ident, $Kept:ident) => {
        impl Scanned for $T {
            type Kept = $Kept;

            #[inline(always)]
            fn kept(self) -> $Kept {
                self.into()
            }
            #[inline(always)]
            fn stored(kept: $Kept) -> $T {
                kept as $T
            }
        }
    };
}

scanned!(f32, f64);
scanned!(f64, f64);
scanned!(i32, i32);
scanned!(i64, i64);

/// Where a scan reads and writes.
#[derive(Clone, Copy)]
pub(super) struct Places<T> {
    pub(super) from: *const T,
    pub(super) to: *mut T,
}

// SAFETY: whoever makes one vouches that what is read is only read, and lanes of the result are written by one thread each.
unsafe impl<T> Sync for Places<T> {}

/// Computes `scan` on the threads of `pool`, of which there are so many.
///
/// # Safety
/// Both places have its elements, and nobody else touches the result meanwhile.
pub(super) unsafe fn scanned<T: Scanned>(scan: &Scan, at: Places<T>, pool: &dyn Threads, threads: usize) {
    let parts: Vec<Range<usize>> = scan.parts(threads).collect();
    let at = &at; // whole, as it may be shared
    team::run(pool, threads, parts.len(), &|i| {
        let _kept = Denormals::kept();
        let lanes = parts[i].clone();
        // SAFETY: forwarded to the caller; each lane is one thread's.
        unsafe {
            match scan.of {
                Combines::Sum => scan_lanes(scan, *at, lanes, T::Kept::sum),
                Combines::Product => scan_lanes(scan, *at, lanes, T::Kept::product),
                Combines::Greatest => scan_lanes(scan, *at, lanes, T::Kept::greater),
                Combines::Least => scan_lanes(scan, *at, lanes, T::Kept::lesser),
            }
        }
    });
}

/// Scans some lanes, those that lie beside each other at once.
///
/// # Safety
/// As [`scanned`].
unsafe fn scan_lanes<T: Scanned>(
    scan: &Scan,
    at: Places<T>,
    mut lanes: Range<usize>,
    combine: impl Fn(T::Kept, T::Kept) -> T::Kept + Copy,
) {
    while !lanes.is_empty() {
        let (outer, column) = (lanes.start / scan.inner, lanes.start % scan.inner);
        let first = outer * scan.length * scan.inner + column;
        // SAFETY: these lanes are within both places.
        unsafe {
            let at = Places { from: at.from.add(first), to: at.to.add(first) };
            lanes.start += match lanes.len() {
                ROWS.. if scan.inner == 1 => rows::<T, ROWS>(scan, at, combine),
                _ if scan.inner == 1 => rows::<T, 1>(scan, at, combine),
                left => columns(scan, at, left.min(scan.inner - column).min(COLUMNS), combine),
            };
        }
    }
}

/// How far from its first each element of a lane is, in order.
fn steps(scan: &Scan) -> impl Iterator<Item = usize> {
    let (length, inner, backwards) = (scan.length, scan.inner, scan.backwards);
    (0..length).map(move |i| if backwards { length - 1 - i } else { i } * inner)
}

/// Scans so many rows at once; how many.
///
/// # Safety
/// As [`scanned`], of the first of them.
unsafe fn rows<T: Scanned, const N: usize>(
    scan: &Scan,
    at: Places<T>,
    combine: impl Fn(T::Kept, T::Kept) -> T::Kept,
) -> usize {
    let mut kept = [T::Kept::neutral(scan.of); N];
    let apart = scan.length;
    for step in steps(scan) {
        for (row, kept) in kept.iter_mut().enumerate() {
            // SAFETY: forwarded to the caller.
            unsafe {
                *kept = combine(*kept, (*at.from.add(row * apart + step)).kept());
                at.to.add(row * apart + step).write(T::stored(*kept));
            }
        }
    }
    N
}

/// Scans so many lanes that lie beside each other, of at most [`COLUMNS`]; how many.
///
/// # Safety
/// As [`scanned`], of the first of them.
unsafe fn columns<T: Scanned>(
    scan: &Scan,
    at: Places<T>,
    count: usize,
    combine: impl Fn(T::Kept, T::Kept) -> T::Kept,
) -> usize {
    let mut kept = [T::Kept::neutral(scan.of); COLUMNS];
    for step in steps(scan) {
        for (column, kept) in kept[..count].iter_mut().enumerate() {
            // SAFETY: forwarded to the caller.
            unsafe {
                *kept = combine(*kept, (*at.from.add(step + column)).kept());
                at.to.add(step + column).write(T::stored(*kept));
            }
        }
    }
    count
}
