//! Programs of regions, made on a thread of their own.

use crate::fused::compose::{Composed, Part, compose};
use crate::fused::memory::one_by_one;
use crate::plan::Kernel;
use driver::{Numerics, Options, Session};
use ir::Loc;
use runtime::Executable;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How a region's program is called.
pub(crate) struct Fused {
    pub(crate) executable: Arc<Executable>,
    /// What goes into it, in order.
    pub(crate) inputs: Vec<Input>,
    pub(crate) took: Duration,
}

/// An input of a region's program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Input {
    /// What goes into the region, of this number.
    Outer(usize),
    /// All its floats, in the order of the stream: `f64[n]`.
    Floats,
    /// All its integers: `i64[n]`.
    Ints,
    /// All its seeds: `u64[n,2]`.
    Seeds,
}

/// The work of making one.
#[derive(Default)]
pub(crate) struct Job {
    /// The program, or why there is none.
    pub(crate) done: OnceLock<Result<Fused, String>>,
}

/// What is needed for it.
pub(crate) struct Order {
    pub(crate) job: Arc<Job>,
    pub(crate) name: String,
    pub(crate) stream: Vec<u64>,
    pub(crate) live: Vec<bool>,
    pub(crate) calls: Vec<(Arc<Kernel>, Loc)>,
}

/// The thread; it starts with the first order.
pub(crate) struct Compiler {
    session: Arc<Session>,
    worker: Mutex<Option<(Sender<Order>, JoinHandle<()>)>>,
    closed: Arc<AtomicBool>,
}

impl Compiler {
    pub(crate) fn new(session: Arc<Session>) -> Compiler {
        Compiler { session, worker: Mutex::default(), closed: Arc::default() }
    }

    pub(crate) fn order(&self, order: Order) {
        let mut worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner);
        if self.closed.load(Ordering::SeqCst) {
            return fail(&order.job, "the process ends");
        }
        let (sender, _) = match &mut *worker {
            Some(worker) => worker,
            none => match self.employ() {
                Some(new) => none.insert(new),
                None => return fail(&order.job, "there is no thread to compile on"),
            },
        };
        if let Err(unsent) = sender.send(order) {
            fail(&unsent.0.job, "the thread that compiles has ended");
        }
    }

    fn employ(&self) -> Option<(Sender<Order>, JoinHandle<()>)> {
        let (sender, orders) = channel();
        let (session, closed) = (self.session.clone(), self.closed.clone());
        let builder = thread::Builder::new().name("torchtpu-compile".to_owned());
        let handle = builder.spawn(move || work(&session, &closed, &orders)).ok()?;
        Some((sender, handle))
    }

    /// Lets the order at hand be finished, and drops the others.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        let worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some((sender, handle)) = worker else { return };
        drop(sender);
        let _ = handle.join();
    }
}

impl Drop for Compiler {
    fn drop(&mut self) {
        self.close();
    }
}

fn work(session: &Session, closed: &AtomicBool, orders: &Receiver<Order>) {
    yield_to_others();
    while let Some(order) = next(orders) {
        if closed.load(Ordering::SeqCst) {
            fail(&order.job, "the process ends");
            continue;
        }
        let made = catch_unwind(AssertUnwindSafe(|| make(session, &order)));
        let _ = order.job.done.set(made.unwrap_or_else(|_| Err("compiling it panicked".to_owned())));
    }
}

/// Waits for an order, with no more memory than programs need: a compile leaves some hundred megabytes to the allocator.
fn next(orders: &Receiver<Order>) -> Option<Order> {
    match orders.try_recv() {
        Ok(order) => Some(order),
        Err(TryRecvError::Disconnected) => None,
        Err(TryRecvError::Empty) => {
            give_back_memory();
            orders.recv().ok()
        }
    }
}

/// Lets the system have what the allocator keeps of freed memory.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code)]
fn give_back_memory() {
    // SAFETY: it takes a number only, and frees nothing that is used.
    unsafe { libc::malloc_trim(0) };
}
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn give_back_memory() {}

/// Threads that compute go before this one, however little the process asks for itself.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
fn yield_to_others() {
    // SAFETY: it takes a number only. On Linux it is the calling thread that becomes nicer.
    unsafe { libc::nice(10) };
}
#[cfg(not(target_os = "linux"))]
fn yield_to_others() {}

fn fail(job: &Job, why: &str) {
    let _ = job.done.set(Err(why.to_owned()));
}

fn make(session: &Session, order: &Order) -> Result<Fused, String> {
    let start = Instant::now();
    let parts: Vec<_> = order.calls.iter().map(|(kernel, loc)| Part { graph: &kernel.graph, loc }).collect();
    let composed = compose(&order.name, &parts, &order.stream, &order.live).map_err(|e| e.to_string())?;
    let Composed { graph, inputs } = composed;
    // Roundings are those of the ops one by one: a result must not hang on what was recorded around it.
    let options = Options { numerics: Numerics::Exact, ..Options::from_env() };
    let kernels: Vec<_> = order.calls.iter().map(|(kernel, _)| kernel).collect();
    let apart = one_by_one(&kernels, &parts, &order.stream, &order.live).map_err(|e| e.to_string())?;
    let executable = session.bundle(&graph, &options, Some(apart)).map_err(|e| e.to_string())?;
    Ok(Fused { executable, inputs, took: start.elapsed() })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    #[allow(unsafe_code)]
    fn a_thread_yields_to_its_own_process_whatever_that_one_asks_for() {
        let niceness = || {
            yield_to_others();
            // SAFETY: it takes numbers only.
            unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
        };
        let before = std::thread::spawn(niceness).join().unwrap();
        let twice = std::thread::spawn(move || (niceness(), niceness())).join().unwrap();
        assert_eq!(twice, (before, (before + 10).min(19)), "nicer than it was, not as nice as a constant says");
    }
}
