//! One error type for everything that can be wrong with a program.

use crate::loc::Loc;
use std::fmt;

/// What kind of wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The program is ill-formed: PyTorch would refuse it too, or the file is damaged.
    Invalid,
    /// As [`Invalid`](ErrorKind::Invalid), about a dimension or place that a tensor does not have: PyTorch's `IndexError`.
    Index,
    /// As [`Invalid`](ErrorKind::Invalid), about an element type that makes no sense there: PyTorch's `TypeError`.
    Type,
    /// As [`Invalid`](ErrorKind::Invalid), about an element type that PyTorch has no kernel for: PyTorch's
    /// `NotImplementedError`.
    NoKernel,
    /// The program is fine, but an op (or a mode of it) has no lowering.
    Unsupported,
    /// The program is fine, but what an op gives, or its extents, is data: whoever has the data runs the op by itself.
    DataDependent,
    /// An invariant of ours does not hold: a bug to report.
    Internal,
}

/// A program's fault, with the place it stands at as soon as that is known.
#[derive(Clone, Debug)]
pub struct Error(Box<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    kind: ErrorKind,
    message: String,
    help: Option<String>,
    op: Option<String>,
    node: Option<String>,
    loc: Option<Loc>,
}

/// Short for results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of `kind` that says `message`.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        let message = message.into();
        Error(Box::new(Inner { kind, message, help: None, op: None, node: None, loc: None }))
    }
    /// An ill-formed program.
    pub fn invalid(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Invalid, message)
    }
    /// A dimension or place that a tensor does not have, or something that can be no index.
    pub fn index(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Index, message)
    }
    /// An element type that makes no sense there.
    pub fn wrong_type(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Type, message)
    }
    /// An element type that PyTorch has no kernel for either.
    pub fn no_kernel(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::NoKernel, message)
    }
    /// Something that has no lowering.
    pub fn unsupported(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Unsupported, message)
    }
    /// A broken invariant.
    pub fn internal(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Internal, message)
    }
    /// What to do about it.
    pub fn with_help(mut self, help: impl Into<String>) -> Error {
        self.0.help = Some(help.into());
        self
    }
    /// The op and place, unless an inner frame already said so.
    pub fn at(mut self, op: &str, loc: &Loc) -> Error {
        self.0.op.get_or_insert_with(|| op.to_owned());
        self.0.loc.get_or_insert_with(|| loc.clone());
        self
    }
    /// The file that was read, unless the place in the user's program is known.
    pub fn in_file(mut self, file: &std::path::Path) -> Error {
        if self.0.loc.is_none() && self.0.node.is_none() {
            self.0.message = format!("{}: {}", file.display(), self.0.message);
        }
        self
    }
    /// The node of the trace, unless an inner frame already said so.
    pub fn in_node(mut self, name: &str) -> Error {
        self.0.node.get_or_insert_with(|| name.to_owned());
        self
    }
    /// The node of the trace that holds the graph in which it went wrong.
    pub fn in_outer_node(mut self, name: &str) -> Error {
        self.0.node = Some(name.to_owned());
        self
    }
    /// The node of the trace that was being treated, by its name there.
    pub fn node(&self) -> Option<&str> {
        self.0.node.as_deref()
    }
    /// What kind of wrong.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }
    /// What is wrong, in one line.
    pub fn message(&self) -> &str {
        &self.0.message
    }
    /// What to do about it.
    pub fn help(&self) -> Option<&str> {
        self.0.help.as_deref()
    }
    /// The op that was being treated, such as `aten.addmm.default`.
    pub fn op(&self) -> Option<&str> {
        self.0.op.as_deref()
    }
    /// The place in the user's program.
    pub fn loc(&self) -> Option<&Loc> {
        self.0.loc.as_ref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(op) = self.op() {
            write!(f, "{op}: ")?;
        }
        f.write_str(self.message())?;
        if let Some(loc) = self.loc().filter(|l| !l.file.is_empty()) {
            write!(f, " ({}:{})", loc.file, loc.line)?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

/// Returns an `Invalid` error with a formatted message.
#[macro_export]
macro_rules! invalid {
    ($($t:tt)*) => { return Err($crate::Error::invalid(format!($($t)*))) };
}

/// Returns an `Invalid` error unless the condition holds.
#[macro_export]
macro_rules! ensure {
    ($cond:expr, $($t:tt)*) => {
        match $cond {
            true => {}
            false => $crate::invalid!($($t)*),
        }
    };
}

/// Returns an `Index` error with a formatted message.
#[macro_export]
macro_rules! no_index {
    ($($t:tt)*) => { return Err($crate::Error::index(format!($($t)*))) };
}

/// Returns a `Type` error with a formatted message.
#[macro_export]
macro_rules! wrong_type {
    ($($t:tt)*) => { return Err($crate::Error::wrong_type(format!($($t)*))) };
}

/// Returns a `Type` error unless the condition holds.
#[macro_export]
macro_rules! ensure_type {
    ($cond:expr, $($t:tt)*) => {
        match $cond {
            true => {}
            false => $crate::wrong_type!($($t)*),
        }
    };
}

/// Returns a `NoKernel` error with a formatted message.
#[macro_export]
macro_rules! no_kernel {
    ($($t:tt)*) => { return Err($crate::Error::no_kernel(format!($($t)*))) };
}

/// Returns a `NoKernel` error unless the condition holds.
#[macro_export]
macro_rules! ensure_kernel {
    ($cond:expr, $($t:tt)*) => {
        match $cond {
            true => {}
            false => $crate::no_kernel!($($t)*),
        }
    };
}

/// Returns an `Unsupported` error with a formatted message.
#[macro_export]
macro_rules! unsupported {
    ($($t:tt)*) => { return Err($crate::Error::unsupported(format!($($t)*))) };
}
