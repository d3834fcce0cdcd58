//! Calls on their way to the plugin, in order.
//!
//! A call is put in line and returns; a thread of the device's own starts it. Whoever needs a value does not wait for that
//! thread's turn but starts what is in line itself ([`Core::drain`]). So the thread decides nothing: it only lets the
//! caller get on, where calls come so fast that it is awake anyway. A call that finds it asleep starts itself, which costs
//! less than waking it.

use crate::core::Core;
use crate::fused::Why;
use crate::fused::bundle::Bundle;
use crate::run::{Starter, Task};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError, Weak};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// Calls in line beyond which a caller starts them itself.
const MOST_WAITING: usize = 4096;
/// Regions in line beyond which a caller starts them itself: each keeps what goes into it alive.
const MOST_REGIONS_WAITING: usize = 4;
/// Calls that come closer than this are worth a thread of their own.
const BURST: Duration = Duration::from_micros(5);
/// How long that thread looks for the next before it sleeps. Longer, and it takes a processor from the plugin's threads
/// for nothing.
const LINGER: Duration = Duration::from_micros(10);
/// How long a caller looks for its turn before it sleeps: most turns are shorter than to sleep and be woken.
const PATIENCE: Duration = Duration::from_micros(50);

/// What stands in line.
pub(crate) enum Work {
    Call(Task),
    Bundle(Box<Bundle>),
}

/// The line.
pub(crate) struct Queue {
    waiting: Mutex<VecDeque<Work>>,
    turn: Mutex<Turn>,
    signal: Arc<Signal>,
    thread: OnceLock<Thread>,
    /// When a call last started itself.
    last: Mutex<Option<Instant>>,
}

/// Held by whoever starts calls.
#[derive(Default)]
struct Turn {
    starter: Starter,
    /// Empty between turns, kept for its memory.
    tasks: VecDeque<Work>,
}

/// While it lives, calls stay in line.
pub(crate) struct Stopped<'a> {
    _turn: MutexGuard<'a, Turn>,
    signal: &'a Signal,
}

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        self.signal.stopped.fetch_sub(1, Ordering::SeqCst);
    }
}

/// What the thread watches.
#[derive(Default)]
struct Signal {
    /// Calls that were put in line so far.
    came: AtomicUsize,
    /// Calls that were started so far: the first of those.
    started: AtomicUsize,
    /// Regions among those that are waiting.
    regions: AtomicUsize,
    /// Those who let no call be started: they may have made promises that nothing in line keeps.
    stopped: AtomicUsize,
    asleep: AtomicBool,
    closed: AtomicBool,
}

impl Signal {
    /// Calls in line or being started.
    fn waiting(&self) -> usize {
        // In this order, so that there are never fewer than none.
        let started = self.started.load(Ordering::SeqCst);
        self.came.load(Ordering::SeqCst) - started
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Queue {
    pub(crate) fn new() -> Queue {
        Queue {
            waiting: Mutex::default(),
            turn: Mutex::default(),
            signal: Arc::default(),
            thread: OnceLock::new(),
            last: Mutex::default(),
        }
    }

    /// Puts a call in line. To be followed by [`Core::nudge`], without locks.
    pub(crate) fn push(&self, task: Work) {
        let mut waiting = lock(&self.waiting);
        self.signal.regions.fetch_add(usize::from(matches!(task, Work::Bundle(_))), Ordering::SeqCst);
        waiting.push_back(task);
        self.signal.came.fetch_add(1, Ordering::SeqCst);
    }

    /// Wakes the thread, if there is one: more is in line than its caller should start.
    pub(crate) fn wake(&self) {
        if let Some(thread) = self.thread.get()
            && self.signal.asleep.swap(false, Ordering::SeqCst)
        {
            thread.unpark();
        }
    }

    /// Whether nothing is in line or being started.
    pub(crate) fn is_empty(&self) -> bool {
        self.signal.waiting() == 0
    }

    /// Starts the thread, if there is a processor for it.
    pub(crate) fn employ(&self, core: Weak<Core>) {
        if thread::available_parallelism().is_ok_and(|n| n.get() < 2) {
            return;
        }
        let signal = self.signal.clone();
        let work = move || {
            while !signal.closed.load(Ordering::SeqCst) {
                let Some(core) = core.upgrade() else { return };
                core.start_waiting();
                drop(core);
                signal.rest();
            }
        };
        // Without it, calls start themselves.
        if let Ok(handle) = thread::Builder::new().name("torchtpu".to_owned()).spawn(work) {
            let _ = self.thread.set(handle.thread().clone());
        }
    }

    /// Whether the first `count` calls were started.
    fn has_started(&self, count: usize) -> bool {
        self.signal.started.load(Ordering::SeqCst) >= count
    }

    /// The turn to start calls; `None` if somebody else has started the first `count` before it came.
    fn turn(&self, count: usize) -> Option<MutexGuard<'_, Turn>> {
        let since = Instant::now();
        while since.elapsed() < PATIENCE {
            match self.turn.try_lock() {
                Ok(turn) => return Some(turn),
                Err(TryLockError::Poisoned(turn)) => return Some(turn.into_inner()),
                Err(TryLockError::WouldBlock) if self.has_started(count) => return None,
                Err(TryLockError::WouldBlock) => std::hint::spin_loop(),
            }
        }
        Some(lock(&self.turn))
    }

    /// Lets no call be started while the result lives. To be called without locks, and to be dropped before anything drains.
    pub(crate) fn stop(&self) -> Stopped<'_> {
        let turn = lock(&self.turn);
        self.signal.stopped.fetch_add(1, Ordering::SeqCst);
        Stopped { _turn: turn, signal: &self.signal }
    }

    /// Whether the caller is to start what is in line itself; else the thread does. So it does while programs are being
    /// compiled, which the caller need not wait for.
    fn is_callers(&self, all_are_made: bool) -> bool {
        let Some(thread) = self.thread.get() else { return true };
        if self.signal.waiting() > MOST_WAITING {
            return true;
        }
        if !all_are_made {
            self.wake();
            return false;
        }
        if !self.signal.asleep.load(Ordering::SeqCst) {
            return false;
        }
        let now = Instant::now();
        let burst = lock(&self.last).replace(now).is_some_and(|last| now - last < BURST);
        if burst && self.signal.asleep.swap(false, Ordering::SeqCst) {
            thread.unpark();
        }
        !burst
    }
}

impl Signal {
    /// Looks for more for a while, then sleeps until there is some.
    fn rest(&self) {
        let since = Instant::now();
        while since.elapsed() < LINGER {
            if self.waiting() > 0 {
                return;
            }
            std::hint::spin_loop();
        }
        self.asleep.store(true, Ordering::SeqCst);
        // A call that came before it could see that nobody is awake.
        while self.waiting() == 0 && self.asleep.load(Ordering::SeqCst) {
            thread::park();
            if self.closed.load(Ordering::SeqCst) {
                return;
            }
        }
        self.asleep.store(false, Ordering::SeqCst);
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.signal.closed.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}

impl Core {
    /// Sees to it that what is in line is started, now or soon.
    pub(crate) fn nudge(&self) {
        if self.queue.is_callers(self.makers.is_done()) {
            self.start_waiting();
        }
    }

    /// After a call was recorded: sees to what that has put in line, if anything.
    pub(crate) fn pass_on(&self) {
        if self.queue.signal.regions.load(Ordering::SeqCst) > MOST_REGIONS_WAITING {
            self.start_waiting();
        } else if !self.queue.is_empty() {
            self.nudge();
        }
    }

    /// Starts what was recorded and what is in line, but not what comes meanwhile. Afterwards every value that was promised
    /// before is there, or has failed. To be called without locks.
    pub fn drain(&self) {
        self.drain_for(Why::Waited, 0);
    }

    /// As [`Core::drain`], for that reason and the line behind it.
    pub(crate) fn drain_for(&self, why: Why, location: u64) {
        self.flush(why, location);
        self.start_waiting();
    }

    /// Starts what is in line, but not what comes meanwhile.
    fn start_waiting(&self) {
        let signal = &self.queue.signal;
        let count = signal.came.load(Ordering::SeqCst);
        while !self.queue.has_started(count) {
            let Some(mut turn) = self.queue.turn(count) else { return };
            let Turn { starter, tasks } = &mut *turn;
            std::mem::swap(tasks, &mut *lock(&self.queue.waiting));
            for work in tasks.drain(..) {
                match work {
                    Work::Call(call) => self.start_queued(starter, call),
                    Work::Bundle(bundle) => {
                        self.start_bundle(starter, *bundle);
                        signal.regions.fetch_sub(1, Ordering::SeqCst);
                    }
                }
                signal.started.fetch_add(1, Ordering::SeqCst);
            }
        }
        if signal.stopped.load(Ordering::SeqCst) > 0 {
            drop(lock(&self.queue.turn));
        }
    }
}
