//! Products of groups of rows, whose sizes only the data tells.

use hostcall::{Extents, Grouped, OfGroup, Tile};

use super::blas::{Blas, Element, Operands};
use super::team::{self, Threads};

/// A call whose operands have these extents.
pub(super) struct Call {
    pub(super) of: Grouped,
    pub(super) extents: Extents,
    /// One of each group that has rows.
    pub(super) products: Vec<OfGroup>,
}

impl Call {
    /// Computes it on the threads of `pool`, of which there are so many; `None` if BLAS cannot read an operand.
    ///
    /// # Safety
    /// The operands have the call's extents, and nobody else touches the result meanwhile.
    pub(super) unsafe fn compute<T: Element>(
        &self,
        blas: &Blas,
        operands: Operands<T>,
        pool: &dyn Threads,
        threads: usize,
    ) -> Option<()> {
        if !self.products.iter().all(|it| self.fits(it)) {
            return None;
        }
        // SAFETY: forwarded to the caller.
        unsafe { self.clear_others(operands.out) };
        let shares = Grouped::shares(&self.products, threads);
        let tile = |(i, tile): &(usize, Tile)| {
            let it = &self.products[*i];
            // SAFETY: the product fits there, and a tile is given to one thread.
            unsafe { blas.tile(&it.product, &operands.of_group(it), tile) }
        };
        let share = |i: usize| blas.alone(|| shares[i].iter().for_each(tile));
        team::run(pool, threads, shares.len(), &share);
        Some(())
    }

    /// Whether the product lies within the operands and the result.
    fn fits(&self, it: &OfGroup) -> bool {
        let Extents { n, k, m, groups } = self.extents;
        let rhs = if self.of == Grouped::Matrices { n * m } else { groups * k * m };
        let out: usize = self.of.result(self.extents).iter().product();
        let own = it.product.m * it.product.n;
        it.product.fits((n * k).saturating_sub(it.lhs), rhs.saturating_sub(it.rhs), own) && it.out + own <= out
    }

    /// Writes zeros where no product writes. Products follow one another in the result.
    ///
    /// # Safety
    /// The result has the call's extents, and nobody else touches it.
    unsafe fn clear_others<T: Element>(&self, out: *mut T) {
        let end = self.of.result(self.extents).iter().product();
        let mut from = 0;
        let starts = self.products.iter().map(|it| (it.out, it.out + it.product.m * it.product.n));
        for (to, next) in starts.chain([(end, end)]) {
            // SAFETY: within the result.
            unsafe { std::slice::from_raw_parts_mut(out.add(from), to - from) }.fill(T::ZERO);
            from = next;
        }
    }
}

impl<T: Copy> Operands<T> {
    /// Those of a group's product.
    ///
    /// # Safety
    /// There are so many elements.
    unsafe fn of_group(&self, it: &OfGroup) -> Operands<T> {
        // SAFETY: forwarded to the caller.
        unsafe { Operands { lhs: self.lhs.add(it.lhs), rhs: self.rhs.add(it.rhs), ..self.later(it.out) } }
    }
}
