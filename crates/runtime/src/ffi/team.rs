//! Work that threads of a pool help with, without ever waiting for one that has not begun: all of them may be waiting
//! likewise.

use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// A pool of threads.
pub(super) trait Threads {
    /// Calls `task` with `data` on a thread, once, at some time, maybe after the caller is done. Whether it will.
    fn schedule(&self, task: unsafe extern "C" fn(*mut c_void), data: *mut c_void) -> bool;
}

/// How often the caller looks whether the last tasks are done before it sleeps: some microseconds.
const LOOKS: usize = 2000;

struct Shared {
    tasks: usize,
    next: AtomicUsize,
    done: AtomicUsize,
    last: Mutex<()>,
    all_done: Condvar,
    /// Outlives every task, not every thread that comes for one.
    task: *const (dyn Fn(usize) + Sync),
}

// SAFETY: the function may be called from any thread, and is only while `run` waits for it.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

/// Calls `task` with every number below `tasks` once, on this thread and on those of `threads` that come for it. So many
/// may work at once, this one among them: more are not asked for, as each that wakes to find nothing takes a core's time.
pub(super) fn run(threads: &dyn Threads, at_once: usize, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
    if tasks < 2 {
        return (0..tasks).for_each(task);
    }
    let task = ptr_of(task);
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let shared = Arc::new(Shared { tasks, next, done, last: Mutex::new(()), all_done: Condvar::new(), task });
    for _ in 1..tasks.min(at_once) {
        let data = Arc::into_raw(shared.clone());
        if !threads.schedule(help, data.cast_mut().cast()) {
            // SAFETY: nobody took it.
            drop(unsafe { Arc::from_raw(data) });
            break;
        }
    }
    shared.work();
    shared.wait();
}

/// A pointer that says nothing of how long the function lives.
fn ptr_of<'a>(task: &'a (dyn Fn(usize) + Sync + 'a)) -> *const (dyn Fn(usize) + Sync + 'static) {
    // SAFETY: only the lifetime changes; `Shared` follows the pointer while `run`, which has the reference, waits.
    unsafe { std::mem::transmute::<*const (dyn Fn(usize) + Sync + 'a), *const (dyn Fn(usize) + Sync + 'static)>(task) }
}

unsafe extern "C" fn help(data: *mut c_void) {
    // SAFETY: `run` made it of an `Arc`, for this call alone.
    unsafe { Arc::from_raw(data.cast::<Shared>()) }.work();
}

impl Shared {
    /// Takes tasks until there are no more.
    fn work(&self) {
        loop {
            let mine = self.next.fetch_add(1, Ordering::Relaxed);
            if mine >= self.tasks {
                return;
            }
            // SAFETY: this task is not done, so `run` still waits.
            unsafe { (*self.task)(mine) };
            if self.done.fetch_add(1, Ordering::AcqRel) + 1 == self.tasks {
                drop(self.last.lock().unwrap_or_else(PoisonError::into_inner));
                self.all_done.notify_all();
            }
        }
    }

    /// Waits for the tasks that other threads took.
    fn wait(&self) {
        let done = || self.done.load(Ordering::Acquire) == self.tasks;
        for _ in 0..LOOKS {
            if done() {
                return;
            }
            std::hint::spin_loop();
        }
        let mut guard = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        while !done() {
            guard = self.all_done.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;
    use std::thread;

    /// Starts a thread for each task, as many as it may; the rest is refused.
    struct Starting(AtomicUsize);

    impl Threads for Starting {
        fn schedule(&self, task: unsafe extern "C" fn(*mut c_void), data: *mut c_void) -> bool {
            if self.0.load(Ordering::Relaxed) == 0 {
                return false;
            }
            self.0.fetch_sub(1, Ordering::Relaxed);
            let data = data.expose_provenance();
            // SAFETY: the task is called once with its data.
            thread::spawn(move || unsafe { task(std::ptr::with_exposed_provenance_mut(data)) });
            true
        }
    }

    /// Never runs anything, as a pool all of whose threads wait.
    struct Stuck(Mutex<Vec<usize>>);

    impl Threads for Stuck {
        fn schedule(&self, _: unsafe extern "C" fn(*mut c_void), data: *mut c_void) -> bool {
            self.0.lock().expect("not poisoned").push(data.expose_provenance());
            true
        }
    }

    #[test]
    fn every_task_runs_once() {
        for (threads, tasks) in [(0, 5), (1, 5), (4, 100), (8, 1), (3, 0)] {
            let seen: Vec<AtomicU64> = (0..tasks).map(|_| AtomicU64::new(0)).collect();
            run(&Starting(AtomicUsize::new(threads)), 3, tasks, &|i| {
                thread::yield_now();
                seen[i].fetch_add(1, Ordering::Relaxed);
            });
            assert!(seen.iter().all(|times| times.load(Ordering::Relaxed) == 1), "{threads} {tasks}");
        }
    }

    #[test]
    fn no_more_are_asked_for_than_may_work() {
        for (at_once, tasks, asked) in [(2, 9, 1), (4, 3, 2), (1, 5, 0)] {
            let pool = Starting(AtomicUsize::new(100));
            run(&pool, at_once, tasks, &|_| {});
            assert_eq!(100 - pool.0.load(Ordering::Relaxed), asked, "{at_once} {tasks}");
        }
    }

    #[test]
    fn threads_that_never_come_are_not_waited_for() {
        let (pool, sum) = (Stuck(Mutex::default()), AtomicU64::new(0));
        run(&pool, 4, 4, &|i| {
            sum.fetch_add(i as u64, Ordering::Relaxed);
        });
        assert_eq!(sum.load(Ordering::Relaxed), 6);
        // Those that come when it is over find nothing to do.
        for data in pool.0.lock().expect("not poisoned").drain(..) {
            // SAFETY: each was scheduled once.
            unsafe { help(std::ptr::with_exposed_provenance_mut(data)) };
        }
        assert_eq!(sum.load(Ordering::Relaxed), 6);
    }
}
