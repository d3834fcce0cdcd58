//! Compiling for TPUs that are not there.
//!
//! libtpu compiles for every TPU generation on any x86-64 Linux machine, but it may abort the process, hang while it
//! looks for hardware, or print what went wrong and nothing else. So it is loaded by workers: processes that a [`Pool`]
//! starts with the environment libtpu needs, asks one thing at a time, gives a time limit, and replaces when they die.
//! What a worker said last becomes the error.
//!
//! A [`Job`] goes in, an [`Outcome`] comes out: what the compiler made of the program, or its refusal, and in both cases,
//! if it got that far, its dump: the scheduled program with the place of each value in memory.
//!
//! A worker lives no longer than whoever started it, however that ends: it waits on a pipe and kills itself when the pipe
//! closes, also in the middle of a compile. Everything a job writes is in a folder of its own that goes with the job.
//!
//! A worker process is the same program as its parent, started so that it calls [`serve`] and nothing else.

mod error;
mod job;
mod pool;
mod process;
mod worker;

pub use error::{Error, Result};
pub use job::{Compiled, Job, Machine, Outcome};
pub use pool::{Launcher, Pool, libtpu};
pub use worker::serve;
