//! What can go wrong on the way from a trace to a result.

use std::io;
use std::path::PathBuf;

/// The result of every fallible function of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure, by the stage it happened in.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The process is a fork of the one that loaded the plugin.
    #[error(
        "torchtpu cannot compile in a forked process whose parent has used it: the plugin's threads are not here. Start \
         workers with the \"spawn\" or \"forkserver\" context, such as DataLoader(..., multiprocessing_context=\"spawn\")"
    )]
    Forked,
    /// The program is ill-formed, or an op in it has no lowering.
    #[error(transparent)]
    Program(#[from] ir::Error),
    /// The plugin could not be loaded or made no client.
    #[error("{0}")]
    Plugin(runtime::Error),
    /// The plugin's compiler refused the program.
    #[error("the plugin's compiler refused the program: {0}")]
    Compile(runtime::Error),
    /// The program could not be run.
    #[error("{0}")]
    Execute(runtime::Error),
    /// An argument of a call does not fit the program.
    #[error("{0}")]
    Argument(String),
    /// libtpu refused the program for a target.
    #[error("libtpu refused the program for {target}: {message}")]
    Refused {
        /// The target.
        target: String,
        /// The compiler's words.
        message: String,
    },
    /// The compiler for TPUs that are not there could not do its work.
    #[error("{0}")]
    Ahead(#[from] aot::Error),
    /// A file could not be read or written.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

impl Error {
    /// The whole message for people, with the place and what to do about it.
    pub fn describe(&self) -> String {
        match self {
            Error::Program(error) => ir::diag::render(error, false).trim_end().to_owned(),
            other => other.to_string(),
        }
    }

    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Error {
        let path = path.into();
        move |error| Error::Io { path, error }
    }
}
