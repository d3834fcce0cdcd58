//! The driver's errors as the Python classes of `torchtpu._errors`.

use driver::Error;
use ir::{ErrorKind, Precision};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// The Python exception for `error`, with the op and the user's line as attributes.
pub(crate) fn raise(error: Error) -> PyErr {
    Python::attach(|py| exception(py, &error).unwrap_or_else(|e| e))
}

fn exception(py: Python<'_>, error: &Error) -> PyResult<PyErr> {
    let class = py.import("torchtpu._errors")?.getattr(class(error))?;
    let exception = class.call1((error.describe(),))?;
    if let Error::Program(program) = error {
        exception.setattr("op", program.op())?;
        exception.setattr("reason", program.message())?;
        exception.setattr("node", program.node())?;
        if let Some(loc) = program.loc().filter(|l| !l.file.is_empty()) {
            exception.setattr("file", &*loc.file)?;
            exception.setattr("line", loc.line)?;
        }
    }
    Ok(PyErr::from_value(exception))
}

fn class(error: &Error) -> &'static str {
    match error {
        Error::Program(e) if e.kind() == ErrorKind::Unsupported => "UnsupportedOp",
        Error::Program(e) if e.kind() == ErrorKind::DataDependent => "DataDependentOp",
        Error::Program(e) if e.kind() == ErrorKind::Index => "NoSuchIndex",
        Error::Program(e) if e.kind() == ErrorKind::Type => "WrongType",
        Error::Program(e) if e.kind() == ErrorKind::NoKernel => "NoKernel",
        Error::Program(_) | Error::Compile(_) => "CompileError",
        Error::Execute(_) | Error::Argument(_) => "ExecutionError",
        _ => "Error",
    }
}

/// A precision by its StableHLO name.
pub(crate) fn precision(name: &str) -> PyResult<Precision> {
    match name {
        "default" => Ok(Precision::Default),
        "high" => Ok(Precision::High),
        "highest" => Ok(Precision::Highest),
        _ => Err(PyValueError::new_err(format!("precision is {name:?}, not 'default', 'high' or 'highest'"))),
    }
}
