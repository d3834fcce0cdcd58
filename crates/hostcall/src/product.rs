//! Products of strided matrices.

use crate::share::{cut, parts, size, sizes};
use std::ops::Range;

/// A matrix in memory: how many elements apart neighbours of a column and of a row are. One of the two is 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Strides {
    /// From a row to the next.
    pub row: usize,
    /// From a column to the next.
    pub column: usize,
}

/// A dimension of many products at once: how many, and how many elements apart their operands are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch {
    /// How many.
    pub size: usize,
    /// Elements from one first operand to the next.
    pub lhs: usize,
    /// Elements from one second operand to the next.
    pub rhs: usize,
}

/// `[m, k]` by `[k, n]`, for every index of the batch dimensions. The result lies in rows, batch dimensions first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Product {
    /// Rows of the result.
    pub m: usize,
    /// Columns of the result.
    pub n: usize,
    /// What is summed over.
    pub k: usize,
    /// The first operand, `[m, k]`.
    pub lhs: Strides,
    /// The second operand, `[k, n]`.
    pub rhs: Strides,
    /// The slowest dimension first.
    pub batch: Vec<Batch>,
}

/// A part of the result that is computed at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tile {
    /// Of each product.
    pub rows: Range<usize>,
    /// Of each product.
    pub columns: Range<usize>,
    /// Which products, counted in the order of the result.
    pub products: Range<usize>,
}

impl Product {
    /// What programs call: `stablehlo.custom_call @torchtpu.product(lhs, rhs)`.
    pub const TARGET: &str = "torchtpu.product";

    /// As [`Product::decode`] reads it.
    pub fn encode(&self) -> Vec<i64> {
        let own = [self.m, self.n, self.k, self.lhs.row, self.lhs.column, self.rhs.row, self.rhs.column];
        own.into_iter().chain(self.batch.iter().flat_map(|b| [b.size, b.lhs, b.rhs])).map(|x| x as i64).collect()
    }

    /// What [`Product::encode`] wrote; `None` if it did not write this.
    pub fn decode(numbers: &[i64]) -> Option<Product> {
        let (own, batch) = numbers.split_first_chunk()?;
        let [m, n, k, row, column, rhs_row, rhs_column] = sizes(own)?;
        let (batch, rest) = batch.as_chunks();
        let of = |dim| sizes(dim).map(|[size, lhs, rhs]| Batch { size, lhs, rhs });
        let batch = batch.iter().map(of).collect::<Option<_>>()?;
        let (lhs, rhs) = (Strides { row, column }, Strides { row: rhs_row, column: rhs_column });
        rest.is_empty().then_some(Product { m, n, k, lhs, rhs, batch })
    }

    /// How many products there are.
    pub fn count(&self) -> usize {
        self.batch.iter().map(|b| b.size).product()
    }

    /// Where the operands of product `index` begin.
    pub fn offsets(&self, mut index: usize) -> (usize, usize) {
        let (mut lhs, mut rhs) = (0, 0);
        for dim in self.batch.iter().rev() {
            let at = index % dim.size;
            index /= dim.size;
            lhs += at * dim.lhs;
            rhs += at * dim.rhs;
        }
        (lhs, rhs)
    }

    /// Whether operands of `lhs` and `rhs` elements hold all that is read, one of `out` elements is exactly what is written,
    /// and BLAS can say it: sizes fit its integers, and rows or columns lie side by side without overlapping.
    pub fn fits(&self, lhs: usize, rhs: usize, out: usize) -> bool {
        self.last_read().is_some_and(|(l, r)| l < lhs && r < rhs)
            && self.result_len() == Some(out)
            && side_by_side(self.lhs, self.m, self.k)
            && side_by_side(self.rhs, self.k, self.n)
            && [self.m, self.n, self.k].iter().all(|&size| i32::try_from(size).is_ok())
    }

    /// Elements of the result; `None` beyond what can be counted.
    pub fn result_len(&self) -> Option<usize> {
        size(self.batch.iter().map(|b| b.size).chain([self.m, self.n]))
    }

    /// The greatest offsets that are read; `None` for none, or beyond what can be counted.
    fn last_read(&self) -> Option<(usize, usize)> {
        let last = |own: [(usize, usize); 2], stride: fn(&Batch) -> usize| {
            let mut dims = own.into_iter().chain(self.batch.iter().map(|b| (b.size, stride(b))));
            dims.try_fold(0usize, |sum, (size, stride)| sum.checked_add(size.checked_sub(1)?.checked_mul(stride)?))
        };
        let lhs = last([(self.m, self.lhs.row), (self.k, self.lhs.column)], |b| b.lhs)?;
        Some((lhs, last([(self.k, self.rhs.row), (self.n, self.rhs.column)], |b| b.rhs)?))
    }

    /// The result in parts that `threads` may take: of many products each some, of few its longer side cut.
    pub fn tiles(&self, threads: usize) -> Vec<Tile> {
        let count = self.count();
        let parts = parts(size([count, self.m, self.n, self.k]).unwrap_or(usize::MAX), threads);
        let tile = |products, rows, columns| Tile { rows, columns, products };
        if count >= parts {
            return cut(count, parts, 1).map(|products| tile(products, 0..self.m, 0..self.n)).collect();
        }
        let (each, by_rows) = (parts.div_ceil(count), self.m > self.n);
        let sides = cut(if by_rows { self.m } else { self.n }, each, 16).collect::<Vec<_>>();
        let of = |i: usize| {
            sides.iter().cloned().map(move |side| match by_rows {
                true => tile(i..i + 1, side, 0..self.n),
                false => tile(i..i + 1, 0..self.m, side),
            })
        };
        (0..count).flat_map(of).collect()
    }
}

/// Whether BLAS can read a matrix of `rows` and `columns`: see [`Product::fits`].
fn side_by_side(of: Strides, rows: usize, columns: usize) -> bool {
    let far = |stride: usize, length: usize| stride >= length && i32::try_from(stride).is_ok();
    (of.column == 1 && far(of.row, columns)) || (of.row == 1 && far(of.column, rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn product(m: usize, n: usize, k: usize, batch: usize) -> Product {
        let batch = vec![Batch { size: batch, lhs: m * k, rhs: k * n }];
        Product { m, n, k, lhs: Strides { row: k, column: 1 }, rhs: Strides { row: n, column: 1 }, batch }
    }

    #[test]
    fn numbers_come_back() {
        let it = product(3, 4, 5, 6);
        let numbers = it.encode();
        assert_eq!(Product::decode(&numbers), Some(it));
        assert_eq!(Product::decode(&numbers[..numbers.len() - 1]), None);
        assert_eq!(Product::decode(&numbers[..5]), None);
        assert_eq!(Product::decode(&[-1, 1, 1, 1, 1, 1, 1]), None);
    }

    #[test]
    fn what_is_read_must_be_there() {
        let it = product(3, 4, 5, 6);
        assert!(it.fits(90, 120, 72));
        for (lhs, rhs, out) in [(89, 120, 72), (90, 119, 72), (90, 120, 71), (90, 120, 73)] {
            assert!(!it.fits(lhs, rhs, out), "{lhs} {rhs} {out}");
        }
        let wild = Product { lhs: Strides { row: usize::MAX, column: 1 }, ..it.clone() };
        assert!(!wild.fits(usize::MAX, 120, 72));
        let overlapping = Product { lhs: Strides { row: 4, column: 1 }, ..it.clone() };
        assert!(!overlapping.fits(90, 120, 72));
        let neither = Product { lhs: Strides { row: 2, column: 3 }, ..it };
        assert!(!neither.fits(900, 120, 72));
    }

    #[test]
    fn tiles_cover_the_result_once() {
        for (m, n, k, batch, threads) in [
            (1, 1, 1, 1, 8),
            (64, 3072, 768, 1, 2),
            (3072, 64, 768, 1, 4),
            (100, 100, 400, 3, 8),
            (64, 64, 64, 96, 2),
            (33, 1000, 999, 2, 16),
        ] {
            let it = product(m, n, k, batch);
            let mut seen = vec![0u8; m * n * batch];
            let tiles = it.tiles(threads);
            for tile in &tiles {
                for p in tile.products.clone() {
                    for row in tile.rows.clone() {
                        tile.columns.clone().for_each(|column| seen[(p * m + row) * n + column] += 1);
                    }
                }
            }
            assert!(seen.iter().all(|&times| times == 1), "{m} {n} {k} {batch}");
            assert!(tiles.len() <= 3 * threads.max(batch), "{} tiles", tiles.len());
        }
        assert_eq!(product(8, 8, 8, 1).tiles(8).len(), 1, "too small to share");
        assert_eq!(product(64, 3072, 768, 1).tiles(2).len(), 4);
    }
}
