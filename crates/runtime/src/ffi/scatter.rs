//! Updates combined with the elements that indices name, one after the other.

use hostcall::{Combines, Places, Scatter};

use super::combining::Number;
use super::functions::Denormals;
use super::team::{self, Threads};

/// A type of indices.
pub(super) trait Counts: Copy + 'static {
    /// Below 0, a number beyond all elements.
    fn counted(self) -> usize;
}

impl Counts for i32 {
    fn counted(self) -> usize {
        self as isize as usize
    }
}

impl Counts for i64 {
    fn counted(self) -> usize {
        self as usize
    }
}

/// Where the operands are. The first is overwritten.
pub(super) struct Tensors<T, I> {
    pub(super) operand: *mut T,
    pub(super) indices: *const I,
    pub(super) updates: *const T,
}

impl<T, I> Clone for Tensors<T, I> {
    fn clone(&self) -> Tensors<T, I> {
        *self
    }
}

impl<T, I> Copy for Tensors<T, I> {}

// SAFETY: whoever makes one vouches that nobody else touches the operand, whose batches are one thread's each; the others are read.
unsafe impl<T, I> Sync for Tensors<T, I> {}

/// Computes `scatter`, whose updates take the elements' places, on the threads of `pool`, of which there are so many.
///
/// # Safety
/// The operands are as long as it asks, and nobody else touches the first one meanwhile.
pub(super) unsafe fn replaced<T: Copy, I: Counts>(
    scatter: &Scatter,
    at: Tensors<T, I>,
    pool: &dyn Threads,
    threads: usize,
) {
    // SAFETY: forwarded to the caller.
    unsafe { scattered(scatter, at, pool, threads, |_, new| new) };
}

/// Likewise of one that combines them so.
///
/// # Safety
/// As [`replaced`].
pub(super) unsafe fn combined<T: Number, I: Counts>(
    scatter: &Scatter,
    of: Combines,
    at: Tensors<T, I>,
    pool: &dyn Threads,
    threads: usize,
) {
    // SAFETY: forwarded to the caller.
    unsafe {
        match of {
            Combines::Sum => scattered(scatter, at, pool, threads, T::sum),
            Combines::Product => scattered(scatter, at, pool, threads, T::product),
            Combines::Greatest => scattered(scatter, at, pool, threads, T::greater),
            Combines::Least => scattered(scatter, at, pool, threads, T::lesser),
        }
    }
}

/// # Safety
/// As [`replaced`].
unsafe fn scattered<T: Copy, I: Counts>(
    scatter: &Scatter,
    at: Tensors<T, I>,
    pool: &dyn Threads,
    threads: usize,
    combine: impl Fn(T, T) -> T + Copy + Sync,
) {
    let (Some(batch), false) = (scatter.batch(), scatter.is_empty()) else { return };
    let shares: Vec<_> = scatter.shares(threads).collect();
    let (at, count, stride) = (&at, scatter.count, scatter.stride); // places whole, as they may be shared
    team::run(pool, threads, shares.len(), &|i| {
        let _kept = Denormals::kept();
        let mut places = scatter.places.clone();
        places[batch].size = shares[i].len();
        // SAFETY: forwarded to the caller; this part of the batch is this thread's.
        unsafe {
            let at = moved(*at, &places[batch], shares[i].start);
            all(&places, at, move |at: Tensors<T, I>| {
                let counted = (*at.indices).counted();
                if counted < count {
                    let element = at.operand.add(counted * stride);
                    element.write(combine(*element, *at.updates));
                }
            });
        }
    });
}

/// Calls `one` at every place of these dimensions.
///
/// # Safety
/// The places are there.
unsafe fn all<T, I>(dims: &[Places], at: Tensors<T, I>, one: impl Fn(Tensors<T, I>) + Copy) {
    // SAFETY: forwarded to the caller.
    let further = |dim, i| unsafe { moved(at, dim, i) };
    match dims {
        [] => one(at),
        [last] => (0..last.size).for_each(|i| one(further(last, i))),
        // SAFETY: likewise.
        [first, rest @ ..] => (0..first.size).for_each(|i| unsafe { all(rest, further(first, i), one) }),
    }
}

/// `at`, `i` places further along `dim`.
///
/// # Safety
/// There are so many.
#[inline(always)]
unsafe fn moved<T, I>(at: Tensors<T, I>, dim: &Places, i: usize) -> Tensors<T, I> {
    // SAFETY: forwarded to the caller.
    unsafe {
        Tensors {
            operand: at.operand.add(i * dim.operand),
            indices: at.indices.add(i * dim.indices),
            updates: at.updates.add(i * dim.updates),
        }
    }
}
