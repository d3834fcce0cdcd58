//! Threads of OpenMP that look for work: those of PyTorch's CPU ops do for some milliseconds after each op, and take a processor
//! each from the plugin's threads meanwhile.
//!
//! While a program runs that takes long, they sleep within an OpenMP region of ours. To have them end (`omp_pause_resource_all`)
//! costs the next CPU op 5 to 8 ms where a new thread is put on its creator's processor, as that looks for it all the time
//! ([decision 21](../../../../docs/decisions/0021-idle-threads-sleep.md)).

use libloading::os::unix::Library;
use std::cell::Cell;
use std::ffi::{c_int, c_uint, c_void};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

/// How long a program takes at least that is worth it.
pub(super) const WORTH: Duration = Duration::from_millis(1);

/// How many starts of a program are timed: clocks would cost small ones some percent for ever.
const TIMED: u32 = 8;

/// Longer than threads look for work after an op or a region.
const LOOK: Duration = Duration::from_millis(30);

/// How many regions follow each other at most before it is asked again what the threads look for work after.
const MOST_TRUSTED: u32 = 256;

/// Functions of an OpenMP whose compiler is GNU's.
#[derive(Clone, Copy)]
pub(super) struct OpenMp {
    /// Calls a function with some data on each of so many threads, 0 for as many as usual, the caller among them, and returns when
    /// all have.
    parallel: unsafe extern "C" fn(unsafe extern "C" fn(*mut c_void), *mut c_void, c_uint, c_uint),
    /// Which thread of the region this is; 0 called for it.
    thread: unsafe extern "C" fn() -> c_int,
    /// How many threads the region has.
    threads: unsafe extern "C" fn() -> c_int,
    /// How many the next one will have.
    most: unsafe extern "C" fn() -> c_int,
}

impl OpenMp {
    /// The one that a library has or depends on.
    pub(super) fn of(library: &Library) -> Option<OpenMp> {
        // SAFETY: these names have these signatures in every OpenMP of GNU's.
        unsafe {
            Some(OpenMp {
                parallel: *library.get(b"GOMP_parallel\0").ok()?,
                thread: *library.get(b"omp_get_thread_num\0").ok()?,
                threads: *library.get(b"omp_get_num_threads\0").ok()?,
                most: *library.get(b"omp_get_max_threads\0").ok()?,
            })
        }
    }
}

/// Whose threads are sent to sleep: those of the thread that knew of them first, which runs CPU ops as a rule. A region of another
/// might start threads that it never had.
struct Known {
    openmp: OpenMp,
    of: ThreadId,
    process: u32,
}

static KNOWN: OnceLock<Known> = OnceLock::new();

/// Lets the calling thread's threads sleep from now on, unless another's do.
pub(super) fn by(openmp: OpenMp) {
    KNOWN.get_or_init(|| Known { openmp, of: thread::current().id(), process: std::process::id() });
}

fn known() -> Option<&'static Known> {
    KNOWN.get().filter(|known| known.of == thread::current().id())
}

/// Whether there may be threads that [`asleep`] sends to sleep. Each wait asks.
pub(super) fn are_there() -> bool {
    known().is_some()
}

/// One of the calling thread's OpenMP threads, of which there are so many with itself; 0 if there is no other.
#[derive(Clone, Copy)]
struct Seen {
    of: c_int,
    id: c_int,
}

thread_local! {
    static SEEN: Cell<Option<Seen>> = const { Cell::new(None) };
    static TRUST: Cell<Trust> = const { Cell::new(Trust::NONE) };
    /// Whether the thread is in a region of ours.
    static WITHIN: Cell<bool> = const { Cell::new(false) };
}

/// Does `work` while the OpenMP threads of the calling thread sleep, if they look for some.
pub(super) fn asleep<R>(work: impl FnOnce() -> R) -> R {
    let Some(&Known { openmp, process, .. }) = known() else { return work() };
    // SAFETY: takes and changes nothing.
    let most = unsafe { (openmp.most)() };
    // A process that was forked has none of the threads.
    if most < 2 || WITHIN.get() || process != std::process::id() {
        return work();
    }
    let is_asleep = |seen: Seen| seen.of == most && (seen.id == 0 || is_running(seen.id) == Some(false));
    let mut trust = TRUST.get();
    let is_worth_it = trust.after(Instant::now(), SEEN.get().is_some_and(is_asleep));
    TRUST.set(trust);
    if !is_worth_it {
        return work();
    }
    WITHIN.set(true);
    let done = catch_unwind(AssertUnwindSafe(|| within(openmp, most, work)));
    WITHIN.set(false);
    TRUST.set(Trust { ended: Some(Instant::now()), ..trust });
    done.unwrap_or_else(|panic| resume_unwind(panic))
}

/// What threads look for work after: a CPU op, or the last region of ours, whose end wakes them. A region each time would have them
/// look for ever, beside programs that no op comes between.
#[derive(Clone, Copy)]
struct Trust {
    /// When the last region ended, if they may not have slept since.
    ended: Option<Instant>,
    /// How many regions may follow before it is left to the threads whether they fall asleep.
    left: u32,
    /// How many the last time.
    most: u32,
}

impl Trust {
    const NONE: Trust = Trust { ended: None, left: 0, most: 1 };

    /// Learns whether the threads sleep. Whether it is worth a region.
    fn after(&mut self, now: Instant, are_asleep: bool) -> bool {
        if are_asleep {
            *self = Trust { most: self.most, ..Trust::NONE };
            return false;
        }
        let is_ours = self.ended.is_some_and(|ended| now.duration_since(ended) < LOOK);
        if !is_ours {
            self.most = (2 * self.most).min(MOST_TRUSTED);
            self.left = self.most;
        } else if self.left > 0 {
            self.left -= 1;
        } else {
            return false;
        }
        true
    }
}

/// Whether a thread of this process runs, or would if it had a processor; `None` where it is not there or nobody can tell.
fn is_running(thread: c_int) -> Option<bool> {
    let stat = fs::read(format!("/proc/self/task/{thread}/stat")).ok()?;
    let name = stat.iter().rposition(|&byte| byte == b')')?;
    Some(stat.get(name + 2)? == &b'R')
}

/// Does `work` within a region where all other threads sleep.
fn within<R>(openmp: OpenMp, most: c_int, work: impl FnOnce() -> R) -> R {
    let (work, done) = (Cell::new(Some(work)), Cell::new(None));
    let ours = || done.set(work.take().map(|work| catch_unwind(AssertUnwindSafe(work))));
    let region = Region { openmp, ours: &ours, gate: Gate::default(), other: AtomicI32::new(0) };
    // SAFETY: the region outlives the call, in which each thread takes its part as `on_each` says.
    unsafe { (openmp.parallel)(on_each, (&raw const region).cast_mut().cast(), 0, 0) };
    SEEN.set(Some(Seen { of: most, id: region.other.into_inner() }));
    match done.take() {
        Some(Ok(result)) => result,
        Some(Err(panic)) => resume_unwind(panic),
        None => unreachable!("a region has its first thread"),
    }
}

struct Region<'a> {
    openmp: OpenMp,
    /// What the thread does that asked for the region.
    ours: &'a dyn Fn(),
    gate: Gate,
    /// One of the other threads.
    other: AtomicI32,
}

/// # Safety
/// `region` is a [`Region`], of whose threads this is one.
unsafe extern "C" fn on_each(region: *mut c_void) {
    // SAFETY: forwarded to the caller. All but `ours`, which is for one thread, is for any.
    let region = unsafe { &*region.cast::<Region<'_>>() };
    // SAFETY: takes and changes nothing.
    let (thread, threads) = unsafe { ((region.openmp.thread)(), (region.openmp.threads)()) };
    if thread == 0 {
        (region.ours)();
        return region.gate.open(usize::try_from(threads - 1).unwrap_or(0));
    }
    // SAFETY: takes and changes nothing.
    region.other.store(unsafe { libc::gettid() }, Ordering::Relaxed);
    region.gate.pass();
}

/// Where threads sleep until it is opened.
#[derive(Default)]
struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
    passed: AtomicUsize,
}

impl Gate {
    fn pass(&self) {
        let mut is_open = self.is_open.lock().unwrap_or_else(PoisonError::into_inner);
        while !*is_open {
            is_open = self.opened.wait(is_open).unwrap_or_else(PoisonError::into_inner);
        }
        drop(is_open);
        self.passed.fetch_add(1, Ordering::Release);
    }

    /// Returns when so many threads have passed. OpenMP would look for them all the time, on a processor where they may have to run.
    fn open(&self, threads: usize) {
        *self.is_open.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.opened.notify_all();
        while self.passed.load(Ordering::Acquire) < threads {
            thread::yield_now();
        }
    }
}

/// How long a program takes to start, and to run: XLA's CPU runs many on the thread that starts them, which then never waits.
#[derive(Default)]
pub(crate) struct Habit {
    starts_long: AtomicBool,
    timed: AtomicU32,
    runs_long: AtomicBool,
}

impl Habit {
    /// Calls `start`, which starts the program, without idle threads beside it if that takes long.
    pub(crate) fn start<R>(&self, start: impl FnOnce() -> R) -> R {
        if self.timed.load(Ordering::Relaxed) >= TIMED {
            return if self.starts_long.load(Ordering::Relaxed) { asleep(start) } else { start() };
        }
        self.timed.fetch_add(1, Ordering::Relaxed);
        timed(&self.starts_long, start).0
    }

    /// Calls `run`, which starts the program and waits for it, likewise. Returns what it took, too.
    pub(crate) fn run<R>(&self, run: impl FnOnce() -> R) -> (R, Duration) {
        timed(&self.runs_long, run)
    }
}

/// Does `work`, which took long the last time or did not, and learns whether it does.
fn timed<R>(is_long: &AtomicBool, work: impl FnOnce() -> R) -> (R, Duration) {
    let since = Instant::now();
    let done = if is_long.load(Ordering::Relaxed) { asleep(work) } else { work() };
    let took = since.elapsed();
    is_long.store(took >= WORTH, Ordering::Relaxed);
    (done, took)
}

#[cfg(test)]
mod tests {
    use super::*;

    static REGIONS: AtomicU32 = AtomicU32::new(0);

    /// An OpenMP that has no other threads, but means to.
    const ALONE: OpenMp = {
        unsafe extern "C" fn parallel(f: unsafe extern "C" fn(*mut c_void), data: *mut c_void, _: c_uint, _: c_uint) {
            REGIONS.fetch_add(1, Ordering::Relaxed);
            // SAFETY: they belong together.
            unsafe { f(data) }
        }
        unsafe extern "C" fn first() -> c_int {
            0
        }
        unsafe extern "C" fn one() -> c_int {
            1
        }
        unsafe extern "C" fn two() -> c_int {
            2
        }
        OpenMp { parallel, thread: first, threads: one, most: two }
    };

    #[test]
    fn one_thread_has_regions_and_not_one_in_another() {
        by(ALONE);
        let answer = asleep(|| asleep(|| 42));
        assert_eq!((answer, REGIONS.load(Ordering::Relaxed)), (42, 1));
        assert_eq!(asleep(|| 43), 43, "it is known by now that there are no other threads");
        thread::spawn(|| {
            by(ALONE);
            assert!(!are_there());
            assert_eq!(asleep(|| 44), 44);
        })
        .join()
        .expect("no panic");
        assert_eq!(REGIONS.load(Ordering::Relaxed), 1);
        // A panic is passed on, and what comes next is done.
        for _ in 0..2 {
            SEEN.set(None);
            let panicked = catch_unwind(|| asleep(|| panic!("of the work")));
            assert_eq!(panicked.unwrap_err().downcast_ref(), Some(&"of the work"));
        }
        assert!(!WITHIN.get());
    }

    #[test]
    fn threads_are_let_fall_asleep_and_what_ops_wake_sleeps() {
        let mut trust = Trust::NONE;
        let start = Instant::now();
        // Programs of two milliseconds one after the other, the first behind an op: threads look for ten after it and each region.
        let (mut last_woken, mut regions) = (Duration::ZERO, 0);
        for now in (0..100).map(|i| Duration::from_millis(2 * i)) {
            if trust.after(start + now, now.saturating_sub(last_woken) > Duration::from_millis(10)) {
                last_woken = now + Duration::from_millis(2);
                trust.ended = Some(start + last_woken);
                regions += 1;
            }
        }
        assert_eq!(regions, 3);
        // The same with an op before each.
        let mut trust = Trust::NONE;
        let worth_it = |now: Duration| {
            let is_worth_it = trust.after(start + now, false);
            trust.ended = if is_worth_it { Some(start + now) } else { trust.ended };
            is_worth_it
        };
        let regions = (0..2000).map(|i| Duration::from_millis(2 * i)).map(worth_it).filter(|&is| is).count();
        assert!(regions > 1800, "{regions} of 2000");
    }
}
