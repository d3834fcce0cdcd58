//! How many processors the CPU plugin's compiler divides each op among.
//!
//! XLA fixes that when it compiles, op by op, for as many threads as the compiling thread may use processors, which it asks
//! the C library. No option says otherwise.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::slice;
use std::sync::OnceLock;

use super::imports;

thread_local! {
    /// Whether this thread compiles a program whose ops are not to be divided.
    static UNDIVIDED: Cell<bool> = const { Cell::new(false) };
}

/// What a plugin's compiler is told about processors.
#[derive(Debug, Default)]
pub(super) struct Processors {
    answered_here: OnceLock<bool>,
}

impl Processors {
    /// Has the library that `inside` points into ask here for its processors, and runs `compile`, for which there is one.
    pub(super) fn undivided<T>(&self, inside: *const c_void, compile: impl FnOnce() -> T) -> T {
        let affinity = affinity as unsafe extern "C" fn(libc::pid_t, usize, *mut libc::cpu_set_t) -> c_int;
        // SAFETY: the loader has loaded the library, and the function is what it replaces.
        let replace = || unsafe { imports::replace(inside, &[(c"sched_getaffinity", affinity as *const c_void)]) };
        let _answer = Answer::of_one(*self.answered_here.get_or_init(replace));
        compile()
    }
}

/// While it lives, this thread is told of one processor, if so `wanted`.
struct Answer;

impl Answer {
    fn of_one(wanted: bool) -> Answer {
        UNDIVIDED.set(wanted);
        Answer
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        UNDIVIDED.set(false);
    }
}

/// In place of `sched_getaffinity`.
unsafe extern "C" fn affinity(thread: libc::pid_t, bytes: usize, set: *mut libc::cpu_set_t) -> c_int {
    // SAFETY: the caller's arguments, to the function that it means.
    let answer = unsafe { libc::sched_getaffinity(thread, bytes, set) };
    if answer == 0 && UNDIVIDED.get() {
        // SAFETY: the function has filled so many bytes.
        leave_one(unsafe { slice::from_raw_parts_mut(set.cast(), bytes) });
    }
    answer
}

/// Leaves the lowest bit that is set.
fn leave_one(set: &mut [u8]) {
    let mut bytes = set.iter_mut().skip_while(|byte| **byte == 0);
    if let Some(first) = bytes.next() {
        *first &= first.wrapping_neg();
    }
    bytes.for_each(|byte| *byte = 0);
}

#[cfg(test)]
mod tests {
    use super::leave_one;

    #[test]
    fn one_processor_is_left() {
        let mut set = [0, 0b0110_1000, 0xff, 0];
        leave_one(&mut set);
        assert_eq!(set, [0, 0b0000_1000, 0, 0]);
        leave_one(&mut []);
    }
}
