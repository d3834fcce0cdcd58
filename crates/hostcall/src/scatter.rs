//! Scatters: updates combined with the elements that indices name.

use crate::scan::Combines;
use crate::share::{cut, parts, size, sizes};
use std::ops::Range;

/// What an update takes, in multiplications.
const WORK: usize = 32;

/// A dimension of the updates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Places {
    /// How many.
    pub size: usize,
    /// Elements from one update to the next.
    pub updates: usize,
    /// Elements from one index to the next.
    pub indices: usize,
    /// Elements of the operand from one to the next, if the dimension is one of its, too: a batch. Else 0.
    pub operand: usize,
}

/// Updates combined one after the other, the last dimension fastest, with elements of the operand, which the call overwrites: each with
/// the one of its batch that its index counts to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scatter {
    /// `None` if an update takes the element's place.
    pub of: Option<Combines>,
    /// Elements of the operand that an index counts.
    pub stride: usize,
    /// How many it counts to. Updates with other indices are skipped.
    pub count: usize,
    /// The slowest first.
    pub places: Vec<Places>,
}

/// Elements of the three operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Lengths {
    pub operand: usize,
    pub indices: usize,
    pub updates: usize,
}

impl Scatter {
    /// What programs call: `stablehlo.custom_call @torchtpu.scatter(operand, indices, updates)`, whose result is the operand's memory.
    pub const TARGET: &str = "torchtpu.scatter";

    /// As [`Scatter::decode`] reads it.
    pub fn encode(&self) -> Vec<i64> {
        let head = [self.of.map_or(0, |of| of as usize + 1), self.stride, self.count];
        let places = self.places.iter().flat_map(|p| [p.size, p.updates, p.indices, p.operand]);
        head.into_iter().chain(places).map(|x| x as i64).collect()
    }

    /// What [`Scatter::encode`] wrote; `None` if it did not write this.
    pub fn decode(numbers: &[i64]) -> Option<Scatter> {
        let (head, rest) = numbers.split_first_chunk()?;
        let [of, stride, count] = sizes(head)?;
        let of = match of {
            0 => None,
            of => Some(*Combines::ALL.get(of - 1)?),
        };
        let (places, rest) = rest.as_chunks();
        let place = |p| sizes(p).map(|[size, updates, indices, operand]| Places { size, updates, indices, operand });
        let places = places.iter().map(place).collect::<Option<_>>()?;
        rest.is_empty().then_some(Scatter { of, stride, count, places })
    }

    /// Whether operands of so many elements hold all that is read and written.
    pub fn fits(&self, lengths: Lengths) -> bool {
        self.is_empty()
            || self.last().is_some_and(|last| {
                last.operand < lengths.operand && last.indices < lengths.indices && last.updates < lengths.updates
            })
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.count == 0 || self.places.iter().any(|p| p.size == 0)
    }

    /// The greatest offsets that may be read or written, where some are; `None` beyond what can be counted.
    fn last(&self) -> Option<Lengths> {
        let last = |start: usize, stride: fn(&Places) -> usize| {
            let ends = self.places.iter().map(|p| (p.size - 1).checked_mul(stride(p)));
            ends.into_iter().try_fold(start, |sum, end| sum.checked_add(end?))
        };
        let operand = last((self.count - 1).checked_mul(self.stride)?, |p| p.operand)?;
        Some(Lengths { operand, indices: last(0, |p| p.indices)?, updates: last(0, |p| p.updates)? })
    }

    /// The longest batch, as the number of its dimension; `None` if there is none.
    pub fn batch(&self) -> Option<usize> {
        (0..self.places.len()).filter(|&i| self.places[i].operand > 0).max_by_key(|&i| self.places[i].size)
    }

    /// Ranges of the longest batch that `threads` may take, who share no element then; none if there is no batch.
    pub fn shares(&self, threads: usize) -> impl Iterator<Item = Range<usize>> {
        let updates = size(self.places.iter().map(|p| p.size)).unwrap_or(usize::MAX);
        let longest = self.batch().map_or(0, |batch| self.places[batch].size);
        cut(longest, parts(updates.saturating_mul(WORK), threads), 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Into each of three rows of nine, five.
    fn rows(of: Option<Combines>) -> Scatter {
        let places = vec![
            Places { size: 3, updates: 5, indices: 5, operand: 9 },
            Places { size: 5, updates: 1, indices: 1, operand: 0 },
        ];
        Scatter { of, stride: 1, count: 9, places }
    }

    const LENGTHS: Lengths = Lengths { operand: 27, indices: 15, updates: 15 };

    #[test]
    fn numbers_come_back() {
        for of in [None].into_iter().chain(Combines::ALL.map(Some)) {
            let scatter = rows(of);
            assert_eq!(Scatter::decode(&scatter.encode()), Some(scatter));
        }
        let right = rows(None).encode();
        for (at, wrong) in [(0, 5), (0, -1), (1, -1), (2, i64::MIN), (3, -1)] {
            let mut numbers = right.clone();
            numbers[at] = wrong;
            assert_eq!(Scatter::decode(&numbers), None, "{wrong} at {at}");
        }
        assert_eq!(Scatter::decode(&right[..right.len() - 1]), None);
        assert_eq!(Scatter::decode(&right[..2]), None);
    }

    #[test]
    fn what_is_read_and_written_is_there() {
        let scatter = rows(Some(Combines::Sum));
        assert!(scatter.fits(LENGTHS));
        assert!(!scatter.fits(Lengths { operand: 26, ..LENGTHS }));
        assert!(!scatter.fits(Lengths { indices: 14, ..LENGTHS }));
        assert!(!scatter.fits(Lengths { updates: 14, ..LENGTHS }));
        let mut huge = scatter.clone();
        (huge.stride, huge.count) = (usize::MAX, 3);
        assert!(!huge.fits(LENGTHS), "cannot be counted");
        huge.places[0].size = 0;
        assert!(huge.fits(Lengths { operand: 0, indices: 0, updates: 0 }));
    }

    #[test]
    fn shares_cover_the_batch_once() {
        let mut scatter = rows(None);
        assert_eq!((scatter.shares(2).count(), scatter.shares(2).next()), (1, Some(0..3)), "few");
        scatter.places[1].size = 1 << 20;
        for threads in [1, 2, 16] {
            let ends = scatter.shares(threads).try_fold(0, |at, part| (part.start == at).then_some(part.end));
            assert_eq!(ends, Some(3));
        }
        assert!(scatter.shares(2).count() > 1);
        scatter.places[0].operand = 0;
        assert_eq!(scatter.shares(2).count(), 0);
    }
}
