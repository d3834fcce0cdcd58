//! Products of groups of rows.

use serde::{Deserialize, Serialize};

use crate::product::{Product, Strides, Tile};
use crate::share::{parts, size};

/// Products of groups of rows: group `g` is the rows `ends[g - 1]..ends[g]` of `x: [n, k]`, from 0 on. One that would end before it
/// begins has none, and all end with the last row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grouped {
    /// Each row times the matrix of its group, of `[groups, k, m]`, or turned: of `[groups, m, k]`. `[n, m]`, 0 in rows of no group.
    Rows {
        /// Whether the matrices are turned.
        turned: bool,
    },
    /// For each group the product of its rows, turned, and the same rows of `[n, m]`: `[groups, k, m]`.
    Matrices,
}

/// The extents of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extents {
    /// Rows of the first operand.
    pub n: usize,
    /// Its columns.
    pub k: usize,
    /// Columns of the result.
    pub m: usize,
    /// How many groups there are.
    pub groups: usize,
}

/// The product of one group, and where in the operands and the result it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfGroup {
    /// What is multiplied.
    pub product: Product,
    /// Elements before its part of the first operand.
    pub lhs: usize,
    /// The same of the second.
    pub rhs: usize,
    /// The same of the result.
    pub out: usize,
}

impl Grouped {
    /// What programs call: `stablehlo.custom_call @torchtpu.grouped(x, other, ends)`.
    pub const TARGET: &str = "torchtpu.grouped";

    /// As [`Grouped::decode`] reads it.
    pub fn encode(self) -> [i64; 1] {
        [match self {
            Grouped::Rows { turned } => i64::from(turned),
            Grouped::Matrices => 2,
        }]
    }

    /// What [`Grouped::encode`] wrote; `None` if it did not write this.
    pub fn decode(numbers: &[i64]) -> Option<Grouped> {
        match numbers {
            [0] => Some(Grouped::Rows { turned: false }),
            [1] => Some(Grouped::Rows { turned: true }),
            [2] => Some(Grouped::Matrices),
            _ => None,
        }
    }

    /// The extents of a call with these operands; `None` if it takes no such operands, or one has no elements.
    pub fn extents(self, x: &[usize], other: &[usize], ends: &[usize]) -> Option<Extents> {
        let (&[n, k], &[groups]) = (x, ends) else { return None };
        let extents = match (self, other) {
            (Grouped::Rows { turned: false }, &[g, inner, m]) if (g, inner) == (groups, k) => {
                Extents { n, k, m, groups }
            }
            (Grouped::Rows { turned: true }, &[g, m, inner]) if (g, inner) == (groups, k) => {
                Extents { n, k, m, groups }
            }
            (Grouped::Matrices, &[rows, m]) if rows == n => Extents { n, k, m, groups },
            _ => return None,
        };
        let Extents { n, k, m, groups } = extents;
        [n, k, m, groups].iter().all(|&extent| extent > 0).then_some(extents)
    }

    /// The extents of the result.
    pub fn result(self, Extents { n, k, m, groups }: Extents) -> Vec<usize> {
        match self {
            Grouped::Rows { .. } => vec![n, m],
            Grouped::Matrices => vec![groups, k, m],
        }
    }

    /// What is to be multiplied where the groups end so; groups without rows have no product.
    pub fn products(self, extents: Extents, ends: &[usize]) -> Vec<OfGroup> {
        let mut made = vec![];
        let mut begin = 0;
        for (group, &end) in ends.iter().enumerate() {
            let end = end.clamp(begin, extents.n);
            if end > begin {
                made.push(self.of_group(extents, group, begin, end - begin));
            }
            begin = end;
        }
        made
    }

    /// The tiles of `products`, each with the number of its product, in parts that `threads` may take.
    pub fn shares(products: &[OfGroup], threads: usize) -> Vec<Vec<(usize, Tile)>> {
        let work = |it: &OfGroup| size([it.product.m, it.product.n, it.product.k]).unwrap_or(usize::MAX);
        let all = products.iter().map(work).fold(0, usize::saturating_add);
        // So few multiplications are not worth another thread's attention, however many groups they are of.
        let is_little = parts(all, threads) == 1;
        let tiles = products.iter().enumerate().flat_map(|(i, it)| {
            let tiles = it.product.tiles(if is_little { 1 } else { threads });
            tiles.into_iter().map(move |tile| (i, tile))
        });
        if is_little { vec![tiles.collect()] } else { tiles.map(|tile| vec![tile]).collect() }
    }

    fn of_group(self, Extents { k, m, .. }: Extents, group: usize, begin: usize, rows: usize) -> OfGroup {
        let in_rows = |columns| Strides { row: columns, column: 1 };
        let in_columns = |rows| Strides { row: 1, column: rows };
        let product = |m, n, k, lhs, rhs| Product { m, n, k, lhs, rhs, batch: vec![] };
        let (lhs, of_group) = (begin * k, group * k * m);
        match self {
            Grouped::Rows { turned } => {
                let rhs = if turned { in_columns(k) } else { in_rows(m) };
                OfGroup { product: product(rows, m, k, in_rows(k), rhs), lhs, rhs: of_group, out: begin * m }
            }
            Grouped::Matrices => {
                let product = product(k, m, rows, in_columns(k), in_rows(m));
                OfGroup { product, lhs, rhs: begin * m, out: of_group }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Grouped; 3] = [Grouped::Rows { turned: false }, Grouped::Rows { turned: true }, Grouped::Matrices];

    #[test]
    fn numbers_come_back() {
        for of in ALL {
            assert_eq!(Grouped::decode(&of.encode()), Some(of));
        }
        for wrong in [&[3][..], &[-1], &[], &[0, 0]] {
            assert_eq!(Grouped::decode(wrong), None);
        }
    }

    #[test]
    fn operands_must_fit() {
        let extents = Some(Extents { n: 6, k: 3, m: 5, groups: 4 });
        assert_eq!(ALL[0].extents(&[6, 3], &[4, 3, 5], &[4]), extents);
        assert_eq!(ALL[1].extents(&[6, 3], &[4, 5, 3], &[4]), extents);
        assert_eq!(ALL[2].extents(&[6, 3], &[6, 5], &[4]), extents);
        for (of, x, other, ends) in [
            (ALL[0], &[6, 3][..], &[4, 5, 3][..], &[4][..]),
            (ALL[0], &[6, 3], &[4, 3, 5], &[3]),
            (ALL[0], &[6, 3], &[4, 3], &[4]),
            (ALL[1], &[6, 3], &[3, 5, 3], &[4]),
            (ALL[2], &[6, 3], &[5, 5], &[4]),
            (ALL[2], &[6, 3], &[6, 0], &[4]),
            (ALL[0], &[6, 3], &[4, 3, 5], &[4, 1]),
        ] {
            assert_eq!(of.extents(x, other, ends), None, "{of:?} {x:?} {other:?} {ends:?}");
        }
    }

    #[test]
    fn every_group_has_its_own_rows_within_the_operands() {
        let extents = Extents { n: 6, k: 3, m: 5, groups: 4 };
        for of in ALL {
            let made = of.products(extents, &[1, 1, 4, 6]);
            assert_eq!(made.len(), 3, "one has no rows");
            let (whole, result) = (if of == Grouped::Matrices { 6 * 5 } else { 4 * 3 * 5 }, of.result(extents));
            for it in &made {
                let parts = (it.product.m, it.product.n);
                let fits = it.product.fits(6 * 3 - it.lhs, whole - it.rhs, parts.0 * parts.1);
                assert!(fits && it.out + parts.0 * parts.1 <= result.iter().product(), "{of:?} {it:?}");
            }
            let last = made.last().expect("three");
            assert_eq!(last.lhs, 4 * 3);
            assert_eq!(last.out, if of == Grouped::Matrices { 3 * 15 } else { 4 * 5 });
        }
    }

    #[test]
    fn little_work_is_one_threads_and_much_of_it_shared() {
        let of = |columns: usize| {
            let extents = Extents { n: 64, k: 16, m: columns, groups: 4 };
            Grouped::shares(&ALL[0].products(extents, &[16, 32, 48, 64]), 2)
        };
        let (little, much) = (of(16), of(4096));
        assert_eq!((little.len(), little[0].len()), (1, 4));
        assert!(much.len() >= 8 && much.iter().all(|share| share.len() == 1));
        let columns = much.iter().flatten().filter(|(i, _)| *i == 2).map(|(_, tile)| tile.columns.len());
        assert_eq!(columns.sum::<usize>(), 4096);
        assert_eq!(Grouped::shares(&[], 2), [vec![]]);
    }

    #[test]
    fn no_row_is_in_two_groups_or_behind_the_last() {
        let extents = Extents { n: 6, k: 3, m: 5, groups: 3 };
        for (ends, rows) in [([2, 6, 6], &[2, 4][..]), ([0, 0, 0], &[]), ([3, 2, 4], &[3, 1]), ([7, 2, 9], &[6])] {
            let made = ALL[0].products(extents, &ends);
            assert_eq!(made.iter().map(|it| it.product.m).collect::<Vec<_>>(), rows, "{ends:?}");
        }
    }
}
