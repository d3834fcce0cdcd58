//! Why nothing was compiled.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// The result of every fallible function of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// The compiler could not do its work. That it refuses a program is not among these: see [`crate::Outcome`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no libtpu, or it is none.
    #[error("{0}\n  libtpu compiles for TPUs; install it with: pip install libtpu==0.0.51 (Google's licence)")]
    Libtpu(String),
    /// libtpu knows no such slice.
    #[error("libtpu has no {target}: {message}")]
    Target {
        /// What was asked for.
        target: String,
        /// What it said.
        message: String,
    },
    /// The worker died.
    #[error("libtpu's process {how} while {task}{}", last_words(words))]
    Crashed {
        /// What it was doing: `compiling for v5e:2x2`.
        task: String,
        /// How it ended: `was killed by signal 6 (SIGABRT)`.
        how: String,
        /// The end of what it wrote to standard error.
        words: String,
    },
    /// The worker took too long and was killed.
    #[error("libtpu took longer than {} s {task} and was stopped; give it more time (--timeout, or timeout= in Python)", limit.as_secs())]
    TimedOut {
        /// What it was doing: `compiling for v5e:2x2`.
        task: String,
        /// The limit.
        limit: Duration,
    },
    /// The worker answered something that it cannot have meant.
    #[error("libtpu's process broke off the talk: {0}")]
    Protocol(String),
    /// A file or process of ours could not be had.
    #[error("{}: {error}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

impl Error {
    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Error {
        let path = path.into();
        move |error| Error::Io { path, error }
    }
}

fn last_words(words: &str) -> String {
    if words.is_empty() {
        return String::new();
    }
    let quoted: String = words.lines().map(|line| format!("\n  | {line}")).collect();
    format!("; its last words:{quoted}")
}
