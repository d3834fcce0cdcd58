//! A worker process as its parent sees it.

use crate::error::{Error, Result};
use crate::job::{Reply, Request};
use crate::worker::{FOLDER_PREFIX, MARK};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How much of what a worker says on standard error is kept, in bytes.
const LAST_WORDS: usize = 16 << 10;
/// How many lines of it are shown.
const LAST_LINES: usize = 12;

/// What libtpu needs in its environment before it is loaded: not to ask a metadata server for hardware, which takes
/// minutes where there is none; not to complain that there is none; and not to claim the machine for itself.
const ENVIRONMENT: [(&str, &str); 5] = [
    ("TPU_SKIP_MDS_QUERY", "1"),
    ("TPU_ACCELERATOR_TYPE", "v5litepod-4"),
    ("TPU_WORKER_HOSTNAMES", "localhost"),
    ("TPU_LOG_DIR", "disabled"),
    ("ALLOW_MULTIPLE_LIBTPU_LOAD", "1"),
];

/// A running worker. Dropping it ends the process.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    input: Option<ChildStdin>,
    replies: mpsc::Receiver<String>,
    /// Its jobs' files, and what libtpu itself leaves: it logs its crashes.
    folder: TempDir,
    words: Option<JoinHandle<String>>,
}

impl Process {
    /// Starts a worker and waits until it has loaded libtpu, no longer than `limit`.
    pub(crate) fn start(mut command: Command, limit: Duration) -> Result<Process> {
        let program = command.get_program().to_owned();
        let folder = tempfile::Builder::new().prefix(FOLDER_PREFIX).tempdir();
        let folder = folder.map_err(Error::io(std::env::temp_dir()))?;
        // In a group of its own, an interrupt from the terminal leaves it alive to clear up after its parent.
        command.arg(folder.path()).env("TMPDIR", folder.path()).process_group(0);
        command.envs(ENVIRONMENT).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(Error::io(&program))?;
        let (sender, replies) = mpsc::channel();
        if let Some(out) = child.stdout.take() {
            std::thread::spawn(move || forward_replies(out, &sender));
        }
        let words = child.stderr.take().map(|err| std::thread::spawn(move || keep_last(err)));
        let mut process = Process { input: child.stdin.take(), child, replies, folder, words };
        match process.wait("loading it", limit)? {
            Reply::Ready => Ok(process),
            Reply::Unusable(message) => Err(Error::Libtpu(message)),
            other => Err(Error::Protocol(format!("it started with {other:?}"))),
        }
    }

    /// Where its jobs' files go.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Asks for one thing and waits for the answer, no longer than `limit`. After an error the process is of no more use.
    pub(crate) fn ask(&mut self, request: &Request, limit: Duration) -> Result<Reply> {
        let line = serde_json::to_string(request).map_err(|error| Error::Protocol(error.to_string()))?;
        let task = format!("compiling for {}", request.target);
        let sent = self.input.as_mut().map(|input| writeln!(input, "{line}").and_then(|()| input.flush()));
        match sent {
            Some(Ok(())) => self.wait(&task, limit),
            _ => Err(self.post_mortem(&task)),
        }
    }

    fn wait(&mut self, task: &str, limit: Duration) -> Result<Reply> {
        match self.replies.recv_timeout(limit) {
            Ok(line) => serde_json::from_str(&line).map_err(|error| Error::Protocol(error.to_string())),
            Err(RecvTimeoutError::Timeout) => {
                self.kill();
                Err(Error::TimedOut { task: task.to_owned(), limit })
            }
            Err(RecvTimeoutError::Disconnected) => Err(self.post_mortem(task)),
        }
    }

    /// The worker has closed its output: how it ended, and what it said.
    fn post_mortem(&mut self, task: &str) -> Error {
        let how = match self.exit_status() {
            Some(status) => describe(status),
            None => "closed its output".to_owned(),
        };
        self.kill();
        let words = self.words.take().and_then(|words| words.join().ok()).unwrap_or_default();
        Error::Crashed { task: task.to_owned(), how, words }
    }

    /// The process's end, waited for a moment: its output closes slightly before.
    fn exit_status(&mut self) -> Option<ExitStatus> {
        let start = Instant::now();
        loop {
            match self.child.try_wait() {
                Ok(None) if start.elapsed() < Duration::from_secs(10) => std::thread::sleep(Duration::from_millis(5)),
                Ok(status) => return status,
                Err(_) => return None,
            }
        }
    }

    fn kill(&mut self) {
        self.input = None;
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Sends each reply on, without its mark. What libtpu itself prints is left out.
fn forward_replies(out: impl Read, replies: &mpsc::Sender<String>) {
    let mut reader = BufReader::new(out);
    let mut line = Vec::new();
    while matches!(reader.read_until(b'\n', &mut line), Ok(1..)) {
        if let Some(reply) = String::from_utf8_lossy(&line).trim_end().strip_prefix(MARK)
            && replies.send(reply.to_owned()).is_err()
        {
            return;
        }
        line.clear();
    }
}

/// The end of a stream, once it has ended: its last lines.
fn keep_last(mut stream: impl Read) -> String {
    let mut kept = VecDeque::new();
    let mut chunk = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut chunk) {
        kept.extend(&chunk[..count]);
        kept.drain(..kept.len().saturating_sub(LAST_WORDS));
    }
    let bytes: Vec<u8> = kept.into();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
}

fn describe(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("was killed by signal {signal}{}", signal_name(signal)),
        (None, Some(code)) => format!("ended with status {code}"),
        (None, None) => "ended".to_owned(),
    }
}

fn signal_name(signal: i32) -> String {
    let names = [(2, "SIGINT"), (4, "SIGILL"), (6, "SIGABRT"), (7, "SIGBUS"), (8, "SIGFPE"), (9, "SIGKILL")];
    let more = [(11, "SIGSEGV"), (15, "SIGTERM"), (25, "SIGXFSZ")];
    let known = names.iter().chain(&more).find(|(number, _)| *number == signal);
    known.map_or_else(String::new, |(_, name)| format!(" ({name})"))
}
