//! Programs of calls, compiled by threads of their own while their caller goes on to the next call: a first step compiles on all
//! processors. Whoever needs a program that nobody has begun compiles it itself, so the threads decide nothing.

use crate::error::{Error, Result};
use crate::interpret::Rent;
use crate::plan::Kernel;
use driver::Session;
use ir::Graph;
use runtime::Executable;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};

/// Threads at most: each holds what one compile takes.
const MOST_THREADS: usize = 16;
/// Bytes of a thread's stack, as the main thread has by default: compilers recurse.
const STACK: usize = 8 << 20;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A program that is there, or will be.
pub(crate) struct Making {
    session: Arc<Session>,
    line: Arc<Line>,
    /// Whether somebody compiles it, or has.
    begun: Mutex<bool>,
    /// Whether the line counts it.
    ordered: AtomicBool,
    made: OnceLock<Result<Arc<Executable>>>,
}

impl Making {
    /// The program of `graph`, compiled here if nobody has begun, else waited for.
    ///
    /// # Errors
    /// When the plugin has refused it.
    pub(crate) fn executable(&self, graph: &Graph) -> Result<&Arc<Executable>> {
        if let Some(made) = self.made.get() {
            return made.as_ref().map_err(Error::clone);
        }
        if !std::mem::replace(&mut *lock(&self.begun), true) {
            let compile = || self.session.kernel(graph).map_err(Error::from);
            let made = catch_unwind(AssertUnwindSafe(compile));
            let _ = self.made.set(made.unwrap_or_else(|_| Err(Error::internal("compiling a call's program panicked"))));
            self.end();
        }
        self.made.wait().as_ref().map_err(Error::clone)
    }

    fn end(&self) {
        if self.ordered.load(Ordering::SeqCst) {
            self.line.end_one();
        }
    }
}

impl Drop for Making {
    fn drop(&mut self) {
        if !*lock(&self.begun) {
            self.end();
        }
    }
}

/// What is to be compiled.
#[derive(Default)]
struct Line {
    orders: Mutex<VecDeque<Arc<Kernel>>>,
    came: Condvar,
    /// Programs that are not there yet.
    unmade: AtomicUsize,
    /// For those who wait until there are none.
    ended: Condvar,
    closed: AtomicBool,
}

impl Line {
    fn end_one(&self) {
        let _orders = lock(&self.orders); // so that nobody looks, and sleeps after this
        if self.unmade.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.ended.notify_all();
        }
    }

    /// The next to be compiled; `None` when no more are to be.
    fn next(&self) -> Option<Arc<Kernel>> {
        let mut orders = lock(&self.orders);
        while !self.closed.load(Ordering::SeqCst) {
            if let Some(kernel) = orders.pop_front() {
                return Some(kernel);
            }
            orders = self.came.wait(orders).unwrap_or_else(PoisonError::into_inner);
        }
        None
    }
}

/// The threads, one more for each program until there are enough.
pub(crate) struct Makers {
    session: Arc<Session>,
    line: Arc<Line>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    most: usize,
}

impl Makers {
    pub(crate) fn new(session: Arc<Session>) -> Makers {
        // Where there is one processor, callers do it.
        let processors = thread::available_parallelism().map_or(1, |n| n.get());
        Makers::with_threads(session, if processors < 2 { 0 } else { processors.min(MOST_THREADS) })
    }

    fn with_threads(session: Arc<Session>, most: usize) -> Makers {
        Makers { session, line: Arc::default(), threads: Mutex::default(), most }
    }

    /// One whose program is compiled once [`Makers::order`] has been called for it or somebody needs it.
    pub(crate) fn kernel(&self, graph: Graph, fingerprint: u64, rent: Option<Rent>) -> Kernel {
        let (session, line) = (self.session.clone(), self.line.clone());
        let making =
            Making { session, line, begun: Mutex::default(), ordered: AtomicBool::default(), made: OnceLock::new() };
        Kernel { donated: graph.mutated_inputs(), graph, fingerprint, came: AtomicBool::default(), rent, making }
    }

    /// Has a thread compile it, if nobody has begun.
    pub(crate) fn order(&self, kernel: Arc<Kernel>) {
        let begun = lock(&kernel.making.begun);
        if *begun || kernel.making.ordered.swap(true, Ordering::SeqCst) {
            return;
        }
        self.line.unmade.fetch_add(1, Ordering::SeqCst);
        drop(begun);
        if self.most == 0 || self.line.closed.load(Ordering::SeqCst) {
            return; // whoever needs it does
        }
        lock(&self.line.orders).push_back(kernel);
        self.line.came.notify_one();
        let mut threads = lock(&self.threads);
        if threads.len() < self.most {
            let line = self.line.clone();
            let builder = thread::Builder::new().name("torchtpu-make".to_owned()).stack_size(STACK);
            threads.extend(builder.spawn(move || work(&line)).ok());
        }
    }

    /// Whether all programs are there.
    pub(crate) fn is_done(&self) -> bool {
        self.line.unmade.load(Ordering::SeqCst) == 0
    }

    /// Waits until all programs that were ordered are there, and helps.
    pub(crate) fn wait(&self) {
        let mut orders = lock(&self.line.orders);
        while let Some(kernel) = orders.pop_front() {
            drop(orders);
            let _ = kernel.executable(); // who needs it sees why there is none
            drop(kernel);
            orders = lock(&self.line.orders);
        }
        // Where there are no threads, those that are not there are compiled when they are needed.
        while self.most > 0 && !self.is_done() && !self.line.closed.load(Ordering::SeqCst) {
            orders = self.line.ended.wait(orders).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Lets what is being compiled be finished, and leaves the others to those who need them.
    pub(crate) fn close(&self) {
        let mut orders = lock(&self.line.orders);
        self.line.closed.store(true, Ordering::SeqCst);
        let dropped = std::mem::take(&mut *orders);
        drop(orders);
        drop(dropped);
        self.line.came.notify_all();
        self.line.ended.notify_all();
        lock(&self.threads).drain(..).for_each(|thread| drop(thread.join()));
    }
}

impl Drop for Makers {
    fn drop(&mut self) {
        self.close();
    }
}

fn work(line: &Line) {
    while let Some(kernel) = line.next() {
        let _ = kernel.executable(); // who needs it sees why there is none
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::tests::plugin;
    use ir::op::{DotGeneral, Precision};
    use ir::{Builder, DType, InputKind, OutputKind, TensorType};
    use smallvec::smallvec;

    fn makers(most: usize) -> Makers {
        let session = Session::new(plugin::path().to_str(), None).unwrap();
        Makers::with_threads(Arc::new(session), most)
    }

    /// The sum of `n` floats with themselves.
    fn sum(n: usize) -> Graph {
        let b = Builder::new("sum");
        let x = b.input("x", InputKind::User, TensorType::new(DType::F32, [n]));
        b.output("y", OutputKind::User, b.add(x, x).unwrap());
        b.finish()
    }

    /// A product by the host, which is offered none here: the plugin refuses it.
    fn refused() -> Graph {
        let b = Builder::new("refused");
        let x = b.input("x", InputKind::User, TensorType::new(DType::F32, [8, 8]));
        let (lhs_contract, rhs_contract) = (smallvec![1], smallvec![0]);
        let (lhs_batch, rhs_batch, precision) = (smallvec![], smallvec![], Precision::Highest);
        let dot =
            DotGeneral { lhs_batch, rhs_batch, lhs_contract, rhs_contract, precision, out: DType::F32, host: true };
        b.output("y", OutputKind::User, b.dot_general(x, x, dot).unwrap());
        b.finish()
    }

    fn kernel(makers: &Makers, graph: Graph) -> Arc<Kernel> {
        Arc::new(makers.kernel(graph, 0, None))
    }

    fn compiles(makers: &Makers) -> u64 {
        makers.session.stats().compiles
    }

    #[test]
    fn each_program_is_compiled_once_whoever_needs_it() {
        let makers = makers(2);
        let kernels: Vec<_> = (1..9).map(|n| kernel(&makers, sum(n))).collect();
        kernels.iter().for_each(|k| makers.order(k.clone()));
        thread::scope(|scope| {
            (0..3).for_each(|_| drop(scope.spawn(|| kernels.iter().all(|k| k.executable().is_ok()))))
        });
        makers.wait();
        assert!(makers.is_done());
        assert_eq!(compiles(&makers), 8);
        let first = kernels[0].executable().unwrap();
        assert!(Arc::ptr_eq(first, kernels[0].executable().unwrap()));
    }

    #[test]
    fn a_program_that_is_refused_holds_nothing_up() {
        let makers = makers(2);
        let kernels = [kernel(&makers, refused()), kernel(&makers, sum(3))];
        kernels.iter().for_each(|k| makers.order(k.clone()));
        makers.wait();
        assert!(makers.is_done());
        assert!(kernels[0].executable().is_err() && kernels[1].executable().is_ok());
    }

    #[test]
    fn without_threads_whoever_needs_a_program_compiles_it() {
        let makers = makers(0);
        let (needed, dropped) = (kernel(&makers, sum(3)), kernel(&makers, sum(4)));
        makers.order(needed.clone());
        makers.order(dropped.clone());
        makers.wait();
        assert_eq!(compiles(&makers), 0);
        assert!(needed.executable().is_ok() && !makers.is_done());
        drop(dropped);
        assert!(makers.is_done(), "nobody will ever need it");
        assert_eq!(compiles(&makers), 1);
    }

    #[test]
    fn those_that_are_left_when_the_threads_end_are_still_compiled_for_who_needs_them() {
        let makers = makers(2);
        let kernels: Vec<_> = (1..9).map(|n| kernel(&makers, sum(n))).collect();
        kernels.iter().for_each(|k| makers.order(k.clone()));
        makers.close();
        makers.order(kernels[0].clone());
        makers.wait();
        assert!(kernels.iter().all(|k| k.executable().is_ok()));
        assert!(makers.is_done());
        assert_eq!(compiles(&makers), 8);
    }
}
