//! Threads of OpenMP that look for work: those of PyTorch's CPU ops do for some milliseconds after each op, and take a processor
//! each from the plugin's threads meanwhile.
//!
//! Whoever waits for a program that takes long lets its threads go. The next CPU op of that thread starts others, which takes it some
//! 20 us each. `x @ w.T` of 1024x1024 after a CPU op took 17.5 ms on 2 cores, and 10.9 alone or with the threads gone; programs of up
//! to 1.5 ms took as long as alone, so they are left in peace.

use std::ffi::c_int;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long a program takes at least that is worth it.
pub(super) const WORTH: Duration = Duration::from_millis(1);

/// How many starts of a program are timed: clocks would cost small ones some percent for ever.
const TIMED: u32 = 8;

/// OpenMP's `omp_pause_soft`: the next op finds all as it was.
const SOFT: c_int = 1;

/// OpenMP's `omp_pause_resource_all`: 0, or why not, as within an op.
pub(super) type Pause = unsafe extern "C" fn(c_int) -> c_int;

static PAUSE: OnceLock<Pause> = OnceLock::new();

/// Has the threads let go by `pause`, or by the one given first.
pub(super) fn by(pause: Pause) {
    PAUSE.get_or_init(|| pause);
}

/// Whether there may be threads to let go.
pub(super) fn is_known() -> bool {
    PAUSE.get().is_some()
}

/// Lets go those that work for the calling thread.
pub(super) fn let_go() {
    if let Some(pause) = PAUSE.get() {
        // SAFETY: takes a number; refuses where the thread is in an op.
        unsafe { pause(SOFT) };
    }
}

/// Whether a program takes long: XLA's CPU runs many on the thread that starts them, which then never waits.
#[derive(Default)]
pub(crate) struct Habit {
    is_long: AtomicBool,
    timed: AtomicU32,
}

impl Habit {
    /// Runs `start`, which starts the program, without idle threads beside it if it takes long.
    pub(crate) fn start<R>(&self, start: impl FnOnce() -> R) -> R {
        if self.is_long.load(Ordering::Relaxed) {
            let_go();
        }
        if self.timed.load(Ordering::Relaxed) >= TIMED {
            return start();
        }
        let since = Instant::now();
        let started = start();
        self.timed.fetch_add(1, Ordering::Relaxed);
        self.took(since.elapsed());
        started
    }

    /// Learns what the last run took.
    pub(crate) fn took(&self, time: Duration) {
        self.is_long.store(time >= WORTH, Ordering::Relaxed);
    }
}
