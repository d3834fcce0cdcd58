//! Workers, as many as are asked for at once, started when needed and kept.

use crate::error::{Error, Result};
use crate::job::{Compiled, Job, Outcome, Reply, Request};
use crate::process::Process;
use hlo::proto::HloProto;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How to start a worker: a program and its arguments, to which libtpu's path is added, and a folder.
#[derive(Debug, Clone)]
pub struct Launcher {
    /// The program.
    pub program: PathBuf,
    /// Arguments before libtpu's path.
    pub arguments: Vec<OsString>,
}

/// Workers that load one libtpu. Compiling from several threads at once starts as many.
#[derive(Debug)]
pub struct Pool {
    launcher: Launcher,
    libtpu: PathBuf,
    limit: Duration,
    idle: Mutex<Vec<Process>>,
}

/// The libtpu that `spec`, a path, or the Python environment has; see [`runtime::find_plugin`].
///
/// # Errors
/// When there is none, with where it was looked for.
pub fn libtpu(spec: Option<&Path>) -> Result<PathBuf> {
    let named = spec.map(|path| path.display().to_string());
    let found = runtime::find_plugin(Some(named.as_deref().unwrap_or("tpu")));
    let found = found.map_err(|error| Error::Libtpu(error.to_string()))?;
    // Workers have folders of their own.
    found.canonicalize().map_err(Error::io(&found))
}

impl Pool {
    /// A pool whose workers load `libtpu` and may take `limit` for one program.
    pub fn new(launcher: Launcher, libtpu: PathBuf, limit: Duration) -> Pool {
        Pool { launcher, libtpu, limit, idle: Mutex::default() }
    }

    /// Compiles `job` in a worker. Whatever becomes of the worker, nothing is left behind.
    ///
    /// # Errors
    /// When libtpu cannot be used, knows no such slice, crashed or took too long.
    pub fn compile(&self, job: &Job<'_>) -> Result<Outcome> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut process = match idle {
            Some(process) => process,
            None => Process::start(self.command(), self.limit)?,
        };
        let folder = tempfile::tempdir_in(process.folder()).map_err(Error::io(process.folder()))?;
        let request = Request::of(job, folder.path().to_owned());
        std::fs::write(request.program(), job.program).map_err(Error::io(request.program()))?;
        let reply = process.ask(&request, self.limit)?;
        let outcome = outcome(reply, &request);
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(process);
        outcome
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.launcher.program);
        command.args(&self.launcher.arguments).arg(&self.libtpu);
        command
    }
}

fn outcome(reply: Reply, request: &Request) -> Result<Outcome> {
    match reply {
        Reply::Compiled { machine, memory, format, estimates } => {
            let executable = std::fs::read(request.executable()).map_err(Error::io(request.executable()))?;
            let read = |format: String| hlo::decode(&format, &std::fs::read(request.optimized()).ok()?).ok();
            let optimized = format.and_then(read);
            let compiled = Compiled { executable, memory: memory.into(), optimized, estimates };
            Ok(Outcome { machine, result: Ok(compiled), dump: dump(&request.dump()) })
        }
        Reply::Refused { machine, message } => {
            Ok(Outcome { machine, result: Err(message), dump: dump(&request.dump()) })
        }
        Reply::NoTarget(message) => Err(Error::Target { target: request.target.clone(), message }),
        Reply::Unusable(message) => Err(Error::Libtpu(message)),
        Reply::Io(message) => Err(Error::Protocol(message)),
        Reply::Ready => Err(Error::Protocol("it is ready twice".to_owned())),
    }
}

/// The last thing the compiler dumped that knows where values are; `None` if it did not come so far.
fn dump(folder: &Path) -> Option<HloProto> {
    let files = std::fs::read_dir(folder).ok()?.filter_map(|file| Some(file.ok()?.path()));
    let is_last = |path: &PathBuf| path.to_string_lossy().ends_with(".after_optimizations.hlo.pb");
    // The program comes first; on tpu7x, modules for the sparse cores follow.
    let first = files.filter(is_last).min()?;
    hlo::decode_dump(&std::fs::read(first).ok()?).ok()
}
