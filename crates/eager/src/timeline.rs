//! What ran on the devices, and when, for `torch.profiler`: nothing is noted unless somebody profiles.

use crate::cells::Origin;
use crate::core::{Core, op_name};
use runtime::Event;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long the plugin's word that an execution has ended may come behind its end.
const LATE: Duration = Duration::from_secs(5);

/// An execution.
#[derive(Debug, Clone)]
pub struct Span {
    /// The op, or the region as `function:line to function:line`.
    pub name: String,
    /// The user's line, as `file:line`; empty if that is not known.
    pub line: String,
    /// The device.
    pub device: usize,
    /// When it was started, and when it had ended, in nanoseconds since 1970.
    pub begin: i64,
    /// As `begin`.
    pub end: i64,
}

/// What is noted.
#[derive(Default)]
pub(crate) struct Timeline {
    on: AtomicBool,
    notes: Arc<Notes>,
}

#[derive(Default)]
struct Notes {
    /// Of what has ended.
    spans: Mutex<Vec<Span>>,
    /// How many have not.
    open: Mutex<usize>,
    closed: Condvar,
}

impl Timeline {
    /// The time now; `None` if nobody profiles.
    pub(crate) fn begin(&self) -> Option<i64> {
        self.on.load(Ordering::Relaxed).then(now)
    }

    /// Notes `span` once `done` is.
    fn add(&self, span: Span, done: &Event) {
        let notes = self.notes.clone();
        *lock(&notes.open) += 1;
        let told = done.on_ready(move |_| {
            lock(&notes.spans).push(Span { end: now(), ..span });
            let mut open = lock(&notes.open);
            *open = open.saturating_sub(1);
            notes.closed.notify_all();
        });
        if told.is_err() {
            *lock(&self.notes.open) -= 1; // the execution itself tells what is wrong
        }
    }

    /// Notes `span`, which ends now.
    fn add_ended(&self, span: Span) {
        lock(&self.notes.spans).push(Span { end: now(), ..span });
    }

    /// Those that have ended, which all are that were waited for.
    fn take(&self) -> Vec<Span> {
        let waited = self.notes.closed.wait_timeout_while(lock(&self.notes.open), LATE, |open| *open > 0);
        let (mut open, _) = waited.unwrap_or_else(PoisonError::into_inner);
        *open = 0; // of what the plugin never told about
        drop(open);
        std::mem::take(&mut *lock(&self.notes.spans))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64)
}

impl Core {
    /// Notes an execution that began at `begin`, once it has ended. `name` names a region; a call is named by its op.
    pub(crate) fn note_span(
        &self,
        begin: Option<i64>,
        done: &Event,
        device: usize,
        origin: Origin,
        name: Option<&str>,
    ) {
        let Some(begin) = begin else { return };
        self.timeline.add(self.span(begin, device, origin, name), done);
    }

    /// As [`Core::note_span`], of a call that has ended.
    pub(crate) fn note_ended(&self, begin: Option<i64>, device: usize, origin: Origin) {
        let Some(begin) = begin else { return };
        self.timeline.add_ended(self.span(begin, device, origin, None));
    }

    fn span(&self, begin: i64, device: usize, origin: Origin, name: Option<&str>) -> Span {
        let name = name.unwrap_or_else(|| op_name(origin.op)).to_owned();
        Span { name, line: self.lock().line(origin.location), device, begin, end: begin }
    }

    /// From now on notes what runs, but for what was called before.
    pub fn start_profile(&self) {
        self.end_all();
        self.timeline.take();
        self.timeline.on.store(true, Ordering::Relaxed);
    }

    /// Waits for what was called, and gives what ran since [`Core::start_profile`]; on each device, nothing begins before
    /// what was started earlier has ended.
    pub fn stop_profile(&self) -> Vec<Span> {
        self.end_all();
        self.timeline.on.store(false, Ordering::Relaxed);
        let mut spans = self.timeline.take();
        spans.sort_by_key(|span| (span.device, span.begin, span.end));
        for i in 1..spans.len() {
            let before = &spans[i - 1];
            if before.device == spans[i].device {
                let begin = spans[i].begin.max(before.end);
                (spans[i].begin, spans[i].end) = (begin, spans[i].end.max(begin));
            }
        }
        spans
    }

    /// Waits for what was called. Failures are kept for whoever waits next.
    fn end_all(&self) {
        for device in 0..self.device_count() {
            if let Err(error) = self.synchronize(device) {
                self.note_failure(device, error);
            }
        }
    }
}
