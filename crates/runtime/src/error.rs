//! What can go wrong between this process and a plugin.

use std::fmt;
use std::path::PathBuf;

use crate::types::TensorType;

/// The result of every fallible function of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a call failed. A plugin's own failures are [`Error::Plugin`]; everything else was found on this side.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No plugin library where one was looked for.
    #[error("no PJRT plugin for `{spec}`{}", list_searched(searched))]
    PluginMissing {
        /// What was asked for: a name or a path.
        spec: String,
        /// Every path that was tried, in order.
        searched: Vec<PathBuf>,
    },
    /// The file exists, but is no PJRT plugin.
    #[error("{} is not a PJRT plugin: {reason}", path.display())]
    NotAPlugin {
        /// The file.
        path: PathBuf,
        /// What the dynamic loader said, or what is missing.
        reason: String,
    },
    /// A library that was to multiply cannot.
    #[error(
        "{} cannot multiply for programs on the CPU: {reason}\n  help: `TORCHTPU_CPU_BLAS` names a library with MKL, or, if \
         empty, none",
        path.display()
    )]
    NotABlas {
        /// The library.
        path: PathBuf,
        /// What the dynamic loader said, what is missing, or what it gets wrong.
        reason: String,
    },
    /// libtpu finds no TPU.
    #[error(
        "there is no TPU that libtpu could use: {0}\n  help: `tputc check` and `tputc compile` need none; programs run on the CPU \
         if no plugin is named"
    )]
    NoTpu(Box<PluginError>),
    /// The plugin speaks a version of the PJRT C API that this crate does not.
    #[error("{} speaks PJRT C API {found}; this build needs {needed}", path.display())]
    WrongVersion {
        /// The plugin library.
        path: PathBuf,
        /// The plugin's version.
        found: ApiVersion,
        /// The oldest version accepted; the major number must be equal.
        needed: ApiVersion,
    },
    /// The plugin's function table lacks an entry.
    #[error("the plugin does not implement {function}")]
    MissingFunction {
        /// The C name.
        function: &'static str,
    },
    /// The plugin reported success and returned something that cannot be.
    #[error("the plugin broke the contract of {function}: {what}")]
    BadResult {
        /// The C name.
        function: &'static str,
        /// What is wrong with the result.
        what: String,
    },
    /// The plugin reported a failure.
    #[error(transparent)]
    Plugin(Box<PluginError>),
    /// Arguments given to `execute` do not number as many as the program takes.
    #[error("the program takes {expected} arguments, got {found}")]
    ArgumentCount {
        /// How many the program takes.
        expected: usize,
        /// How many were given.
        found: usize,
    },
    /// An argument has the wrong element type or shape.
    #[error("argument {index} is {found}, the program takes {expected}")]
    ArgumentType {
        /// Position among the arguments.
        index: usize,
        /// What the program takes.
        expected: TensorType,
        /// What was given.
        found: TensorType,
    },
    /// An argument lives on another device than the one that executes.
    #[error("argument {index} is on device {found}, the program runs on device {expected}")]
    ArgumentDevice {
        /// Position among the arguments.
        index: usize,
        /// Id of the executing device.
        expected: i32,
        /// Id of the argument's device.
        found: i32,
    },
    /// A buffer, device or executable of one client was handed to another.
    #[error("{what} belongs to another client")]
    OtherClient {
        /// Which object.
        what: String,
    },
    /// The buffer was donated to an execution and its memory is gone.
    #[error("{what} was donated to an earlier execution and can no longer be used")]
    UseAfterDonation {
        /// Which buffer: `argument 3` or `the buffer`.
        what: String,
    },
    /// The buffer was deleted.
    #[error("{what} was deleted and can no longer be used")]
    UseAfterDelete {
        /// Which buffer: `argument 3` or `the buffer`.
        what: String,
    },
    /// The buffer's memory is shared with another framework, so it can be neither donated nor deleted.
    #[error("{what} is shared outside the runtime and cannot be donated or deleted")]
    Shared {
        /// Which buffer: `argument 3` or `the buffer`.
        what: String,
    },
    /// Something asked of this crate makes no sense: sizes that disagree, an unknown device, an index out of range.
    #[error("{0}")]
    Invalid(String),
    /// An element type that this crate does not know.
    #[error("unknown PJRT element type {0}")]
    UnknownElementType(i32),
    /// The optimized program could not be decoded.
    #[error("cannot decode the optimized program: {0}")]
    Decode(String),
}

impl Error {
    /// The plugin's status code, if the plugin reported this error.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Error::Plugin(error) => Some(error.code),
            _ => None,
        }
    }
}

/// A version of the PJRT C API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ApiVersion {
    /// Changes when the interface breaks.
    pub major: i32,
    /// Grows when something is added.
    pub minor: i32,
}

impl fmt::Display for ApiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// A failure reported by a plugin.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message} ({code}, from {function})")]
pub struct PluginError {
    /// The C function that failed, or in whose event the failure arrived.
    pub function: &'static str,
    /// The status code.
    pub code: ErrorCode,
    /// What went wrong, without C++ stack or source traces.
    pub message: String,
    /// The traces cut off from the message.
    pub trace: Option<String>,
}

impl PluginError {
    /// Splits the plugin's raw text into message and trace.
    pub(crate) fn new(function: &'static str, code: ErrorCode, raw: &str) -> Self {
        let cut = TRACE_MARKS.iter().filter_map(|mark| raw.find(mark)).min().unwrap_or(raw.len());
        let (message, trace) = raw.split_at(cut);
        let (message, trace) = (message.trim(), trace.trim());
        PluginError {
            function,
            code,
            message: if message.is_empty() { "no message".to_owned() } else { message.to_owned() },
            trace: (!trace.is_empty()).then(|| trace.to_owned()),
        }
    }
}

/// Where plugins begin to append C++ internals to a message.
const TRACE_MARKS: &[&str] =
    &["*** Begin stack trace ***", "=== Source Location Trace", "\n\nStack trace:", "\n\tRet-check failure stack"];

/// Status codes, numbered as in Abseil.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are Abseil's and say it all
pub enum ErrorCode {
    Cancelled,
    Unknown,
    InvalidArgument,
    DeadlineExceeded,
    NotFound,
    AlreadyExists,
    PermissionDenied,
    ResourceExhausted,
    FailedPrecondition,
    Aborted,
    OutOfRange,
    Unimplemented,
    Internal,
    Unavailable,
    DataLoss,
    Unauthenticated,
    /// A number that Abseil does not define.
    Other(i32),
}

/// Code and name of each status; the position is the number less one.
const CODES: [(ErrorCode, &str); 16] = [
    (ErrorCode::Cancelled, "cancelled"),
    (ErrorCode::Unknown, "unknown"),
    (ErrorCode::InvalidArgument, "invalid argument"),
    (ErrorCode::DeadlineExceeded, "deadline exceeded"),
    (ErrorCode::NotFound, "not found"),
    (ErrorCode::AlreadyExists, "already exists"),
    (ErrorCode::PermissionDenied, "permission denied"),
    (ErrorCode::ResourceExhausted, "resource exhausted"),
    (ErrorCode::FailedPrecondition, "failed precondition"),
    (ErrorCode::Aborted, "aborted"),
    (ErrorCode::OutOfRange, "out of range"),
    (ErrorCode::Unimplemented, "unimplemented"),
    (ErrorCode::Internal, "internal"),
    (ErrorCode::Unavailable, "unavailable"),
    (ErrorCode::DataLoss, "data loss"),
    (ErrorCode::Unauthenticated, "unauthenticated"),
];

impl ErrorCode {
    /// The code with Abseil's number `raw`.
    pub(crate) fn from_raw(raw: i32) -> Self {
        let known = usize::try_from(raw).ok().and_then(|raw| CODES.get(raw.checked_sub(1)?));
        known.map_or(ErrorCode::Other(raw), |(code, _)| *code)
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match CODES.iter().find(|(code, _)| code == self) {
            Some((_, name)) => f.write_str(name),
            None => write!(f, "{self:?}"),
        }
    }
}

fn list_searched(searched: &[PathBuf]) -> String {
    if searched.is_empty() {
        return String::new();
    }
    let lines: Vec<String> = searched.iter().map(|path| format!("\n  tried {}", path.display())).collect();
    lines.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_trace_is_cut_from_the_message_and_kept() {
        let raw = "bad shape\n*** Begin stack trace ***\n\txla::Foo()\n*** End stack trace ***";
        let error = PluginError::new("PJRT_Client_Compile", ErrorCode::from_raw(3), raw);
        assert_eq!(error.to_string(), "bad shape (invalid argument, from PJRT_Client_Compile)");
        assert!(error.trace.is_some_and(|trace| trace.contains("xla::Foo")));
    }

    #[test]
    fn codes_outside_the_table_are_kept_as_numbers() {
        assert_eq!(ErrorCode::from_raw(16), ErrorCode::Unauthenticated);
        for raw in [0, 17, -1, i32::MIN, i32::MAX] {
            assert_eq!(ErrorCode::from_raw(raw), ErrorCode::Other(raw));
        }
    }
}
