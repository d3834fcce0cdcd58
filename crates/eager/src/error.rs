//! What can go wrong on the device, as the Python exception it becomes.

/// The result of every fallible function of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// The class of the exception.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum Kind {
    /// `RuntimeError`.
    Runtime = 0,
    /// `NotImplementedError`: there is no lowering.
    NotImplemented = 1,
    /// `torch.OutOfMemoryError`.
    OutOfMemory = 2,
    /// `IndexError`.
    Index = 3,
    /// `NotImplementedError`: PyTorch has no kernel for the element type either.
    NoKernel = 4,
    /// `TypeError`.
    Type = 5,
}

/// A failure.
#[derive(Debug, Clone)]
pub struct Error {
    /// The class of the exception.
    pub kind: Kind,
    /// The message for people.
    pub message: String,
}

impl Error {
    pub(crate) fn new(message: impl Into<String>) -> Error {
        Error { kind: Kind::Runtime, message: message.into() }
    }
    pub(crate) fn not_implemented(message: impl Into<String>) -> Error {
        Error { kind: Kind::NotImplemented, message: message.into() }
    }
    pub(crate) fn internal(message: impl Into<String>) -> Error {
        Error::new(format!("internal error of torchtpu: {}", message.into()))
    }
    /// With what was being done, and where the user asked for it.
    pub(crate) fn during(mut self, op: &str, place: &str) -> Error {
        self.message = match place {
            "" => format!("{} (in {op})", self.message),
            place => format!("{} (in {op}, called at {place})", self.message),
        };
        self
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl From<ir::Error> for Error {
    fn from(error: ir::Error) -> Error {
        match error.kind() {
            ir::ErrorKind::Unsupported | ir::ErrorKind::DataDependent => Error::not_implemented(error.message()),
            ir::ErrorKind::Index => Error { kind: Kind::Index, message: error.message().to_owned() },
            ir::ErrorKind::Type => Error { kind: Kind::Type, message: error.message().to_owned() },
            ir::ErrorKind::NoKernel => Error { kind: Kind::NoKernel, message: error.message().to_owned() },
            ir::ErrorKind::Internal => {
                Error::internal(format!("{} ({})", error.message(), error.op().unwrap_or_default()))
            }
            _ => Error::new(error.message()),
        }
    }
}

impl From<driver::Error> for Error {
    fn from(error: driver::Error) -> Error {
        match error {
            driver::Error::Program(error) => error.into(),
            other => runtime_error(other.to_string()),
        }
    }
}

impl From<runtime::Error> for Error {
    fn from(error: runtime::Error) -> Error {
        runtime_error(error.to_string())
    }
}

/// Plugins say that memory has run out in words only.
fn runtime_error(message: String) -> Error {
    let out_of_memory = message.contains("RESOURCE_EXHAUSTED") || message.contains("Out of memory");
    Error { kind: if out_of_memory { Kind::OutOfMemory } else { Kind::Runtime }, message }
}
