//! What programs may ask for: how each kind of call is read, checked, and shared among threads.

use hostcall::{Computes, Convolution, Product};

use super::blas::{Blas, Element, Operands};
use super::convolve::Call;
use super::team::{self, Threads};

/// A call of a program's.
pub(super) trait Asked: Sized {
    /// What its numbers say; `None` if they are not such a call's.
    fn decode(numbers: &[i64]) -> Option<Self>;

    /// How many features its result has; `None` if it cannot be finished, or beyond what can be counted.
    fn features(&self) -> Option<usize>;

    /// Whether it reads and writes exactly what operands and a result of so many elements hold.
    fn fits(&self, lhs: usize, rhs: usize, out: usize) -> bool;

    /// Computes it on the threads of `pool`, of which there are so many.
    ///
    /// # Safety
    /// It fits the memory that `operands` points to, and nobody else touches the result meanwhile.
    unsafe fn compute<T: Element>(&self, blas: &Blas, operands: Operands<T>, pool: &dyn Threads, threads: usize);
}

impl Asked for Product {
    fn decode(numbers: &[i64]) -> Option<Self> {
        Product::decode(numbers)
    }

    fn features(&self) -> Option<usize> {
        Some(self.n)
    }

    fn fits(&self, lhs: usize, rhs: usize, out: usize) -> bool {
        self.fits(lhs, rhs, out)
    }

    unsafe fn compute<T: Element>(&self, blas: &Blas, operands: Operands<T>, pool: &dyn Threads, threads: usize) {
        let tiles = self.tiles(threads);
        // SAFETY: the product fits, and a tile is given to one thread.
        let tile = |i: usize| blas.alone(|| unsafe { blas.tile(self, &operands, &tiles[i]) });
        team::run(pool, threads, tiles.len(), &tile);
    }
}

impl Asked for Convolution {
    fn decode(numbers: &[i64]) -> Option<Self> {
        Convolution::decode(numbers)
    }

    fn features(&self) -> Option<usize> {
        if self.computes == Computes::Map { self.groups.checked_mul(self.features) } else { None }
    }

    fn fits(&self, lhs: usize, rhs: usize, out: usize) -> bool {
        self.fits(lhs, rhs, out)
    }

    unsafe fn compute<T: Element>(&self, blas: &Blas, operands: Operands<T>, pool: &dyn Threads, threads: usize) {
        let tasks = self.tasks(threads);
        if !tasks.iter().any(|task| self.is_part_of_sum(task)) {
            let call = Call { blas, of: self, operands };
            // SAFETY: the convolution fits, and a task is given to one thread.
            let task = |i: usize| blas.alone(|| unsafe { call.run(&tasks[i]) });
            return team::run(pool, threads, tasks.len(), &task);
        }
        // The first part of the sum goes to the result, the others beside it.
        let len = self.kernel_len().unwrap_or_default();
        let mut others = vec![T::ZERO; len * (tasks.len() - 1)];
        let beside = Operands { out: others.as_mut_ptr(), ..operands };
        let part = |i: usize| {
            // SAFETY: each task has memory of its own, of the result's size.
            let operands = unsafe { if i == 0 { operands.later(0) } else { beside.later((i - 1) * len) } };
            let call = Call { blas, of: self, operands };
            // SAFETY: as above.
            blas.alone(|| unsafe { call.run(&tasks[i]) });
        };
        team::run(pool, threads, tasks.len(), &part);
        // SAFETY: the result has so many elements, and all tasks are done.
        let out = unsafe { std::slice::from_raw_parts_mut(operands.out, len) };
        for other in others.chunks_exact(len) {
            out.iter_mut().zip(other).for_each(|(sum, &x)| *sum += x);
        }
    }
}
