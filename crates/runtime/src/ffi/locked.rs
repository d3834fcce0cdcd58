//! A lock that a thread may hold across a fork, so that the child finds what it guards whole, and open: `std`'s may not be
//! opened by anything but its guard.

use std::cell::UnsafeCell;

/// A value for one thread at a time.
pub(super) struct Locked<T> {
    mutex: UnsafeCell<libc::pthread_mutex_t>,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached by one thread at a time.
unsafe impl<T: Send> Sync for Locked<T> {}

struct Open<'a, T>(&'a Locked<T>);

impl<T> Locked<T> {
    pub(super) const fn new(value: T) -> Locked<T> {
        Locked { mutex: UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER), value: UnsafeCell::new(value) }
    }

    /// Calls `f` with the value; not from within such a call.
    pub(super) fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        self.lock();
        let open = Open(self);
        // SAFETY: this thread has the lock until `open` goes.
        f(unsafe { &mut *open.0.value.get() })
    }

    /// Waits for the lock. To be followed by [`Locked::unlock`] on this thread, or on that which a fork made of it.
    pub(super) fn lock(&self) {
        // SAFETY: initialized, and statics do not move.
        let failed = unsafe { libc::pthread_mutex_lock(self.mutex.get()) };
        assert_eq!(failed, 0, "a lock that is held already");
    }

    pub(super) fn unlock(&self) {
        // SAFETY: as above, and this thread holds it.
        unsafe { libc::pthread_mutex_unlock(self.mutex.get()) };
    }
}

impl<T> Drop for Open<'_, T> {
    fn drop(&mut self) {
        self.0.unlock();
    }
}
