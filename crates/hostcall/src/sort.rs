//! Sorts, whole or in part, along with the places that elements come from.

use crate::share::{cut, parts, size, sizes};
use std::ops::Range;

/// What an element takes, in multiplications.
const WORK: usize = 64;

/// How a lane is ordered. Equals keep their order, and zeros of both signs are equal, as are all NaNs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// From the least to the greatest, and then NaN.
    Rising,
    /// NaN, and then from the greatest to the least.
    Falling,
    /// NaN, and then from the least to the greatest.
    RisingFromNan,
}

impl Order {
    /// All of them, by their number.
    pub const ALL: [Order; 3] = [Order::Rising, Order::Falling, Order::RisingFromNan];
}

/// The elements from `start` to `limit` of each lane of `[outer, length, inner]`, in rows, once it is in order. What else is given goes
/// where its keys go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Sort {
    pub order: Order,
    /// Whether the second result is the place in its lane that each element comes from.
    pub places: bool,
    pub outer: usize,
    pub length: usize,
    pub inner: usize,
    pub start: usize,
    pub limit: usize,
}

impl Sort {
    /// What programs call: `stablehlo.custom_call @torchtpu.sort(keys, others...)`, which gives keys, places if they are asked for, and
    /// the others.
    pub const TARGET: &str = "torchtpu.sort";

    /// As [`Sort::decode`] reads it.
    pub fn encode(self) -> Vec<i64> {
        let sizes = [self.outer, self.length, self.inner, self.start, self.limit].map(|size| size as i64);
        [&[self.order as i64, self.places.into()][..], &sizes].concat()
    }

    /// What [`Sort::encode`] wrote; `None` if it did not write this, or a lane is longer than places can say.
    pub fn decode(numbers: &[i64]) -> Option<Sort> {
        let [order, places, outer, length, inner, start, limit] = sizes(numbers.as_array()?)?;
        let order = *Order::ALL.get(order)?;
        let sort = Sort { order, places: places == 1, outer, length, inner, start, limit };
        let is_part = start <= limit && limit <= length && i32::try_from(length).is_ok();
        (places < 2 && is_part && sort.elements().is_some()).then_some(sort)
    }

    /// How many elements are sorted; `None` if they cannot be counted.
    pub fn elements(&self) -> Option<usize> {
        size([self.outer, self.inner, self.length])
    }

    /// How many of them are asked for: no more than can be counted, since there are no more than elements.
    pub fn results(&self) -> usize {
        self.outer * self.asked_for() * self.inner
    }

    /// How many elements of a lane are asked for.
    pub fn asked_for(&self) -> usize {
        self.limit - self.start
    }

    /// The lanes, of which there are `outer * inner`, in parts that `threads` may take.
    pub fn parts(&self, threads: usize) -> impl Iterator<Item = Range<usize>> {
        let lanes = self.outer * self.inner;
        cut(lanes, parts(lanes.saturating_mul(self.length).saturating_mul(WORK), threads), 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for (order, places) in Order::ALL.into_iter().flat_map(|order| [(order, false), (order, true)]) {
            let sort = Sort { order, places, outer: 3, length: 5, inner: 7, start: 1, limit: 4 };
            assert_eq!(Sort::decode(&sort.encode()), Some(sort));
            assert_eq!((sort.elements(), sort.results()), (Some(105), 63));
        }
        let most = i64::MAX;
        for wrong in [
            &[][..],
            &[3, 0, 1, 1, 1, 0, 1],
            &[0, 2, 1, 1, 1, 0, 1],
            &[0, 0, -1, 1, 1, 0, 1],
            &[0, 0, 1, 1, 1, 1, 0],
            &[0, 0, 1, 1, 1, 0, 2],
            &[0, 0, 1, 1 << 31, 1, 0, 1],
            &[0, 0, most, 3, 1, 0, 1],
            &[0, 0, most, 0, 3, 0, 0],
            &[0, 0, 1, 1, 1, 0],
        ] {
            assert_eq!(Sort::decode(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn parts_cover_all_lanes_once() {
        for (outer, length, inner, threads) in [(0, 3, 2, 2), (1, 1 << 20, 1, 8), (7, 4096, 1, 2), (3, 999, 77, 4)] {
            let sort = Sort { order: Order::Rising, places: true, outer, length, inner, start: 0, limit: length };
            let ends = sort.parts(threads).try_fold(0, |at, part| (part.start == at).then_some(part.end));
            assert_eq!(ends, Some(outer * inner));
        }
    }
}
