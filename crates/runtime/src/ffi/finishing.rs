//! What is done to a result before it leaves the cache.

use std::ptr;
use std::slice;

use hostcall::Finish;

use super::blas::Element;

/// Where what is added is; null for nothing.
#[derive(Clone, Copy)]
pub(super) struct Finishing<T> {
    scale: *const T,
    bias: *const T,
    addend: *const T,
    relu: bool,
}

/// Which features some neighbouring elements are of.
#[derive(Clone, Copy)]
pub(super) enum Features {
    /// Each of its own, from this one on.
    From(usize),
    /// All of this one.
    All(usize),
}

impl<T: Element> Finishing<T> {
    pub(super) const NOTHING: Finishing<T> =
        Finishing { scale: ptr::null(), bias: ptr::null(), addend: ptr::null(), relu: false };

    /// What `finish` says, with its operands in order; `None` if there are others.
    pub(super) fn new(finish: Finish, operands: &[*const T]) -> Option<Finishing<T>> {
        let mut operands = operands.iter();
        let mut next = |is_there: bool| if is_there { operands.next().copied() } else { Some(ptr::null()) };
        let (scale, bias, addend) = (next(finish.scale)?, next(finish.bias)?, next(finish.addend)?);
        operands.next().is_none().then_some(Finishing { scale, bias, addend, relu: finish.relu })
    }

    /// Finishes `len` elements of a result from its `at`-th on.
    ///
    /// # Safety
    /// `out` and the addend have so many elements, scale and bias those that are named, and nobody else touches these of `out`.
    pub(super) unsafe fn apply(&self, out: *mut T, at: usize, len: usize, features: Features) {
        if self.scale.is_null() && self.bias.is_null() && self.addend.is_null() && !self.relu {
            return;
        }
        // SAFETY: the caller says so.
        unsafe {
            let out = slice::from_raw_parts_mut(out.add(at), len);
            each(out, self.scale, features, |x, y| *x *= y);
            each(out, self.bias, features, |x, y| *x += y);
            each(out, self.addend, Features::From(at), |x, y| *x += y);
            if self.relu {
                out.iter_mut().for_each(|x| *x = if *x <= T::ZERO { T::ZERO } else { *x });
            }
        }
    }
}

/// Calls `f` with each element of `out` and the one of `with`, which may be null, that is its feature's.
///
/// # Safety
/// `with` has the features, if it is not null.
unsafe fn each<T: Element>(out: &mut [T], with: *const T, features: Features, f: impl Fn(&mut T, T)) {
    match features {
        _ if with.is_null() => {}
        Features::From(first) => {
            // SAFETY: the caller says so.
            let with = unsafe { slice::from_raw_parts(with.add(first), out.len()) };
            out.iter_mut().zip(with).for_each(|(x, &y)| f(x, y));
        }
        Features::All(index) => {
            // SAFETY: as above.
            let y = unsafe { *with.add(index) };
            out.iter_mut().for_each(|x| f(x, y));
        }
    }
}
