//! The pipeline: a trace in, an executable out, and the calls in between.
//!
//! [`Program`] holds a trace and says what it becomes at each [`Stage`]. [`Session`] holds a plugin's client with the
//! executables it compiled, in memory and on disk. [`Runner`] joins the two: it compiles a program for the sizes of each
//! call's arguments, once per size, and runs it. Both faces, Python and the command line, go through here; nothing else
//! knows importer, emitter and runtime at once.

mod ahead;
mod cache;
mod check;
mod division;
mod dump;
mod error;
mod findings;
mod host;
mod kernel;
mod optimize;
mod partitioned;
mod program;
mod resident;
mod runner;
mod session;
mod shards;
mod training;
mod variant;
mod verdict;

pub use ahead::{Ahead, Interface, Slot};
pub use cache::{DEFAULT_LIMIT, DiskCache};
pub use error::{Error, Result};
pub use host::{Argument, HostTensor, OutputTensor, Strides, Value, runtime_type, span_in_bytes};
pub use kernel::fingerprint;
pub use optimize::{Numerics, Rewritten, machine};
pub use partitioned::{Loaded, Partitioned, Partitioning};
pub use program::{DimValues, Options, Program, Stage, Unsupported};
pub use resident::{Launched, Placed, ResidentValue};
pub use runner::{Observer, Runner};
pub use session::{Origin, Session, Stats};
pub use variant::{CompileReport, SeedSource};
