//! Scans: each element combined with all that come before it.

use crate::share::{cut, parts, size, sizes};
use std::ops::Range;

/// What an element takes, in multiplications.
const WORK: usize = 8;

/// Lanes that parts begin at multiples of: elements of a line of the cache, of any type.
const STEP: usize = 16;

/// How two numbers are combined. Floats of 32 bits are combined as floats of 64 and rounded when they are written; integers wrap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Combines {
    /// Their sum.
    Sum,
    /// Their product.
    Product,
    /// The greater, or NaN if either is.
    Greatest,
    /// The lesser, likewise.
    Least,
}

impl Combines {
    /// All of them, by their number.
    pub const ALL: [Combines; 4] = [Combines::Sum, Combines::Product, Combines::Greatest, Combines::Least];
}

/// Each element of `[outer, length, inner]`, in rows, combined with all before it, or behind it, along `length`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Scan {
    pub of: Combines,
    /// From the last to the first.
    pub backwards: bool,
    pub outer: usize,
    pub length: usize,
    pub inner: usize,
}

impl Scan {
    /// What programs call: `stablehlo.custom_call @torchtpu.scan(x)`.
    pub const TARGET: &str = "torchtpu.scan";

    /// As [`Scan::decode`] reads it.
    pub fn encode(self) -> Vec<i64> {
        let extents = [self.outer, self.length, self.inner].map(|extent| extent as i64);
        [&[self.of as i64, self.backwards.into()][..], &extents].concat()
    }

    /// What [`Scan::encode`] wrote; `None` if it did not write this.
    pub fn decode(numbers: &[i64]) -> Option<Scan> {
        let [of, backwards, outer, length, inner] = sizes(numbers.as_array()?)?;
        let of = *Combines::ALL.get(of)?;
        let scan = Scan { of, backwards: backwards == 1, outer, length, inner };
        (backwards < 2 && scan.elements().is_some()).then_some(scan)
    }

    /// How many elements it is of; `None` if they cannot be counted.
    pub fn elements(&self) -> Option<usize> {
        size([self.outer, self.inner, self.length])
    }

    /// The lanes, of which there are `outer * inner`, in parts that `threads` may take.
    pub fn parts(&self, threads: usize) -> impl Iterator<Item = Range<usize>> {
        let lanes = self.outer * self.inner;
        let work = lanes.saturating_mul(self.length).saturating_mul(WORK);
        cut(lanes, parts(work, threads), if self.inner == 1 { 1 } else { STEP })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for of in Combines::ALL {
            for backwards in [false, true] {
                let scan = Scan { of, backwards, outer: 3, length: 5, inner: 7 };
                assert_eq!(Scan::decode(&scan.encode()), Some(scan));
            }
        }
        let most = i64::MAX;
        for wrong in [
            &[][..],
            &[4, 0, 1, 1, 1],
            &[0, 2, 1, 1, 1],
            &[0, 0, -1, 1, 1],
            &[0, 0, most, most, 1],
            &[0, 0, most, 0, 3],
            &[0, 0, 1, 1],
        ] {
            assert_eq!(Scan::decode(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn parts_cover_all_lanes_once() {
        for (outer, length, inner, threads) in [(0, 3, 2, 2), (1, 1 << 20, 1, 8), (7, 4096, 1, 2), (3, 999, 77, 4)] {
            let scan = Scan { of: Combines::Sum, backwards: false, outer, length, inner };
            let parts: Vec<Range<usize>> = scan.parts(threads).collect();
            let ends = parts.iter().try_fold(0, |at, part| (part.start == at).then_some(part.end));
            assert_eq!(ends, Some(outer * inner));
        }
    }
}
