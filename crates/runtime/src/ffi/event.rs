//! Completion of asynchronous work.

use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use super::api::Api;
use super::idle;
use super::sys::{self, PJRT_Error, PJRT_Event, Zeroable};
use crate::error::{Error, PluginError, Result};

/// How long whoever waits looks for the end before it sleeps: to be woken takes tens of microseconds, more than many
/// programs do.
const PATIENCE: Duration = Duration::from_micros(100);

/// Asynchronous work of the plugin, which ends in success or an error. Dropping an event does not wait.
pub struct Event {
    api: &'static Api,
    ptr: NonNull<PJRT_Event>,
    /// The C function that started the work: errors name it.
    origin: &'static str,
}

// SAFETY: PJRT events may be used and destroyed on any thread.
unsafe impl Send for Event {}
// SAFETY: PJRT events are internally synchronised.
unsafe impl Sync for Event {}

type Callback = Box<dyn FnOnce(Result<()>) + Send>;

/// What a registered callback needs once it runs.
struct Registration {
    api: &'static Api,
    origin: &'static str,
    callback: Callback,
}

impl Event {
    /// Takes ownership of an event that `origin` returned.
    ///
    /// # Safety
    /// `event` is null or an owned event of this plugin.
    pub(super) unsafe fn from_raw(api: &'static Api, event: *mut PJRT_Event, origin: &'static str) -> Result<Event> {
        let ptr = NonNull::new(event)
            .ok_or_else(|| Error::BadResult { function: origin, what: "it returned no event".to_owned() })?;
        Ok(Event { api, ptr, origin })
    }

    /// Blocks until the work is done.
    ///
    /// # Errors
    /// The work's own error, or [`Error::MissingFunction`].
    pub fn wait(&self) -> Result<()> {
        self.look();
        let waited = match idle::are_there() && !self.ends_within(idle::WORTH) {
            true => idle::asleep(|| self.sleep()),
            false => self.sleep(),
        };
        waited.map_err(|error| named_after(self.origin, error))
    }

    fn sleep(&self) -> Result<()> {
        // SAFETY: the event is alive.
        let waited =
            unsafe { self.api.call(sys::PJRT_Event_Await_Args { event: self.ptr.as_ptr(), ..Zeroable::zeroed() }) };
        waited.map(drop)
    }

    /// Gives the work some time to end, and the processor to whoever has a use for it.
    fn look(&self) {
        let since = Instant::now();
        while matches!(self.is_ready(), Ok(false)) && since.elapsed() < PATIENCE {
            thread::yield_now();
        }
    }

    /// Whether the work ends in so much time, or nobody can tell.
    fn ends_within(&self, time: Duration) -> bool {
        if !matches!(self.is_ready(), Ok(false)) {
            return true;
        }
        let (tell, told) = mpsc::sync_channel(1);
        let asked = self.on_ready(move |_| {
            let _ = tell.try_send(()); // nobody waits any more
        });
        asked.is_err() || told.recv_timeout(time).is_ok()
    }

    /// Whether the work has ended, well or badly.
    ///
    /// # Errors
    /// [`Error::MissingFunction`] or a plugin error.
    pub fn is_ready(&self) -> Result<bool> {
        // SAFETY: the event is alive.
        let args =
            unsafe { self.api.call(sys::PJRT_Event_IsReady_Args { event: self.ptr.as_ptr(), ..Zeroable::zeroed() }) }?;
        Ok(args.is_ready != 0)
    }

    /// Runs `callback` once the work has ended: at once, or later on a thread of the plugin's, where it must not
    /// block. A panic in it is swallowed.
    ///
    /// # Errors
    /// When the plugin does not take the callback, which then never runs and is never freed.
    pub fn on_ready(&self, callback: impl FnOnce(Result<()>) + Send + 'static) -> Result<()> {
        self.api.require::<sys::PJRT_Event_OnReady_Args>()?;
        let registration = Registration { api: self.api, origin: self.origin, callback: Box::new(callback) };
        let args = sys::PJRT_Event_OnReady_Args {
            event: self.ptr.as_ptr(),
            callback: Some(run_callback),
            user_arg: Box::into_raw(Box::new(registration)).cast(),
            ..Zeroable::zeroed()
        };
        // On an error the registration leaks: whether the plugin kept the pointer cannot be known.
        // SAFETY: the event is alive, and `run_callback` takes what `user_arg` points to.
        unsafe { self.api.call(args) }.map(drop)
    }

    /// Drops `held` once the work has ended. If that cannot be arranged, `held` is leaked, which is safe.
    pub(super) fn release_when_ready(self, held: Box<dyn std::any::Any + Send>) {
        if self.is_ready().unwrap_or(false) {
            drop(held);
            return;
        }
        // The event itself travels along: it is destroyed by the callback, never before it.
        let event = std::sync::Arc::new(self);
        // A closure that is refused is dropped; what it holds must not be, hence the `ManuallyDrop`.
        let kept = ManuallyDrop::new((std::sync::Arc::clone(&event), held));
        drop(event.on_ready(move |_| drop(ManuallyDrop::into_inner(kept))));
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        let args = sys::PJRT_Event_Destroy_Args { event: self.ptr.as_ptr(), ..Zeroable::zeroed() };
        // SAFETY: owned, and destroyed only here.
        unsafe { self.api.call_quietly(args) };
    }
}

impl std::fmt::Debug for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Event").field("origin", &self.origin).field("ready", &self.is_ready().ok()).finish()
    }
}

/// Hands an event's outcome to the registered closure.
///
/// # Safety
/// `user_arg` is a `Registration` from [`Event::on_ready`], passed exactly once; `error` is null or owned.
unsafe extern "C" fn run_callback(error: *mut PJRT_Error, user_arg: *mut c_void) {
    // SAFETY: as documented above.
    let registration = unsafe { Box::from_raw(user_arg.cast::<Registration>()) };
    let Registration { api, origin, callback } = *registration;
    // SAFETY: as documented above.
    let outcome = unsafe { api.check(origin, error) };
    // A panic must not unwind into the plugin.
    drop(catch_unwind(AssertUnwindSafe(move || callback(outcome))));
}

/// An event's error is the error of the work behind it.
fn named_after(origin: &'static str, error: Error) -> Error {
    match error {
        Error::Plugin(error) => Error::Plugin(Box::new(PluginError { function: origin, ..*error })),
        other => other,
    }
}
