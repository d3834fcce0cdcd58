//! Starting an execution. The lists that the C API wants are kept per thread and reused, so that a launch allocates
//! nothing per argument.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use super::api::Nested;
use super::buffer::RawBuffer;
use super::client::RawClient;
use super::event::Event;
use super::executable::RawExecutable;
use super::sys::{self, PJRT_Buffer, PJRT_Event, Zeroable};
use super::table::Args;
use crate::error::{Error, Result};

/// Lists of the C API; only their memory is reused, never what they point to.
#[derive(Default)]
struct Scratch {
    arguments: Vec<*mut PJRT_Buffer>,
    argument_lists: Vec<*const *mut PJRT_Buffer>,
    outputs: Vec<*mut PJRT_Buffer>,
    output_lists: Vec<*mut *mut PJRT_Buffer>,
    events: Vec<*mut PJRT_Event>,
    non_donatable: Vec<i64>,
}

impl Scratch {
    fn clear(&mut self) {
        self.arguments.clear();
        self.argument_lists.clear();
        self.outputs.clear();
        self.output_lists.clear();
        self.events.clear();
        self.non_donatable.clear();
    }
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// What may vary between launches.
#[derive(Default)]
pub(crate) struct LaunchOptions<'a> {
    /// Index of the one device to run on; by default those chosen at compile time.
    pub(crate) device: Option<usize>,
    /// Arguments that must survive although the program could reuse them.
    pub(crate) non_donatable: &'a [usize],
    /// Tells launches of several devices apart.
    pub(crate) launch_id: i32,
}

/// A launch being put together: arguments first, device after device, then [`Launch::run`].
pub(crate) struct Launch<'a> {
    scratch: Scratch,
    _arguments: PhantomData<&'a RawBuffer>,
}

impl<'a> Launch<'a> {
    pub(crate) fn new() -> Self {
        // Taken out while in use: a launch inside a launch finds an empty one, which only costs memory.
        let scratch = SCRATCH.try_with(|kept| kept.try_borrow_mut().map(|mut kept| std::mem::take(&mut *kept)));
        let scratch = scratch.ok().and_then(std::result::Result::ok).unwrap_or_default();
        Launch { scratch, _arguments: PhantomData }
    }

    pub(crate) fn argument(&mut self, buffer: &'a RawBuffer) {
        self.scratch.arguments.push(buffer.ptr.as_ptr());
    }

    /// Starts the program on `num_devices` devices, each with an equal share of the arguments.
    pub(crate) fn run(
        mut self,
        executable: &'a RawExecutable,
        num_devices: usize,
        options: &LaunchOptions<'_>,
    ) -> Result<Launched<'a>> {
        let num_args = self.scratch.arguments.len().checked_div(num_devices).unwrap_or(0);
        self.start(executable, num_devices, num_args, options)?;
        let scratch = std::mem::take(&mut self.scratch);
        let launched = Launched { scratch, client: &executable.client, next_output: 0, next_event: 0 };
        if launched.scratch.outputs.iter().any(|output| output.is_null()) {
            let what = "it left out an output".to_owned();
            return Err(Error::BadResult { function: sys::PJRT_LoadedExecutable_Execute_Args::FUNCTION, what });
        }
        Ok(launched)
    }

    fn start(
        &mut self,
        executable: &RawExecutable,
        num_devices: usize,
        num_args: usize,
        options: &LaunchOptions<'_>,
    ) -> Result<()> {
        let (scratch, num_outputs) = (&mut self.scratch, executable.num_outputs);
        scratch.outputs.resize(num_devices * num_outputs, ptr::null_mut());
        scratch.events.resize(num_devices, ptr::null_mut());
        let (arguments, outputs) = (scratch.arguments.as_ptr(), scratch.outputs.as_mut_ptr());
        scratch.argument_lists.extend((0..num_devices).map(|device| arguments.wrapping_add(device * num_args)));
        scratch.output_lists.extend((0..num_devices).map(|device| outputs.wrapping_add(device * num_outputs)));
        scratch.non_donatable.extend(options.non_donatable.iter().map(|&index| index as i64));
        let mut execute_options = Nested::new(sys::PJRT_ExecuteOptions {
            launch_id: options.launch_id,
            non_donatable_input_indices: scratch.non_donatable.as_ptr(),
            num_non_donatable_input_indices: scratch.non_donatable.len(),
            ..Zeroable::zeroed()
        });
        let execute_device = match options.device {
            Some(index) => executable.client.device(index)?.as_ptr(),
            None => ptr::null_mut(),
        };
        let args = sys::PJRT_LoadedExecutable_Execute_Args {
            executable: executable.loaded.as_ptr(),
            options: execute_options.as_mut_ptr(),
            argument_lists: scratch.argument_lists.as_ptr(),
            num_devices,
            num_args,
            output_lists: scratch.output_lists.as_ptr(),
            device_complete_events: scratch.events.as_mut_ptr(),
            execute_device,
            ..Zeroable::zeroed()
        };
        // SAFETY: every list has the length stated, outlives the call, and holds buffers that are alive; the plugin
        // writes as many outputs as it said that the executable has.
        unsafe { executable.client.api.call(args) }.map(drop)
    }
}

impl Drop for Launch<'_> {
    fn drop(&mut self) {
        give_back(std::mem::take(&mut self.scratch));
    }
}

/// A started execution whose outputs and events are still to be taken. What is not taken is destroyed.
pub(crate) struct Launched<'a> {
    scratch: Scratch,
    client: &'a Arc<RawClient>,
    next_output: usize,
    next_event: usize,
}

impl Launched<'_> {
    /// The next output, device after device.
    pub(crate) fn next_output(&mut self) -> Option<RawBuffer> {
        let output = *self.scratch.outputs.get(self.next_output)?;
        self.next_output += 1;
        // SAFETY: an owned buffer of this client; the cursor hands each out once.
        NonNull::new(output).map(|output| unsafe { RawBuffer::from_raw(self.client, output) })
    }

    /// The next device's completion.
    pub(crate) fn next_event(&mut self) -> Option<Result<Event>> {
        let event = *self.scratch.events.get(self.next_event)?;
        self.next_event += 1;
        // SAFETY: null or an owned event of this plugin; the cursor hands each out once.
        Some(unsafe { Event::from_raw(self.client.api, event, sys::PJRT_LoadedExecutable_Execute_Args::FUNCTION) })
    }
}

impl Drop for Launched<'_> {
    fn drop(&mut self) {
        while self.next_event < self.scratch.events.len() {
            drop(self.next_event());
        }
        while self.next_output < self.scratch.outputs.len() {
            drop(self.next_output());
        }
        give_back(std::mem::take(&mut self.scratch));
    }
}

/// Returns the lists' memory to the thread.
fn give_back(mut scratch: Scratch) {
    if scratch.events.capacity() == 0 && scratch.arguments.capacity() == 0 {
        return;
    }
    scratch.clear();
    // During a thread's end the slot may be gone; then the memory is simply freed.
    let _ = SCRATCH.try_with(|kept| {
        if let Ok(mut kept) = kept.try_borrow_mut() {
            *kept = scratch;
        }
    });
}
