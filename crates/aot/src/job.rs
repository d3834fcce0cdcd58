//! What is asked of a worker, and what it answers.

use hlo::proto::{HloModuleProto, HloProto};
use runtime::{CompileOptions, FlagValue, MemoryAnalysis};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use target::Target;

/// One program for one slice.
#[derive(Debug, Clone)]
pub struct Job<'a> {
    /// The slice.
    pub target: &'a Target,
    /// StableHLO, as MLIR text or bytecode.
    pub program: &'a [u8],
    /// How it is compiled, but for the devices: see [`Machine::options`].
    pub options: &'a CompileOptions,
}

/// What became of a job.
#[derive(Debug)]
pub struct Outcome {
    /// The machine as libtpu describes it.
    pub machine: Machine,
    /// What was compiled, or the compiler's words of refusal.
    pub result: std::result::Result<Compiled, String>,
    /// The scheduled program with the place of each value, if the compiler got so far.
    pub dump: Option<HloProto>,
}

/// A machine as libtpu describes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// How many devices it has.
    pub num_devices: usize,
    /// Id of the first, on which a program for one device runs.
    pub first_device: i32,
    /// What they call themselves, such as `TPU v5 lite`.
    pub device_kind: String,
    /// HBM that a program may use on one device, in bytes.
    pub hbm_bytes: u64,
    /// libtpu's platform version, which names its build.
    pub platform_version: String,
    /// Identifies libtpu's build; part of the keys of compiled programs.
    pub fingerprint: String,
}

impl Machine {
    /// The options with which a job is compiled for this machine: what a cache's keys hold. Several devices are the
    /// plugin's to choose; for one there is no choice, and sessions name it.
    pub fn options(&self, of_job: &CompileOptions) -> CompileOptions {
        let mut options = of_job.clone();
        if options.num_partitions == 1 {
            options.device_assignment = Some(vec![self.first_device]);
        }
        options
    }
}

/// A compiled program.
#[derive(Debug, Clone)]
pub struct Compiled {
    /// libtpu's own form, which a client of the same libtpu loads on the target.
    pub executable: Vec<u8>,
    /// Device memory that it needs.
    pub memory: MemoryAnalysis,
    /// The program as the compiler left it, with its estimates of cycles; `None` if it did not keep it.
    pub optimized: Option<HloModuleProto>,
    /// The compiler's estimates, such as `flops`. Not to be believed for time (`docs/tpu-cost-model.md`).
    pub estimates: BTreeMap<String, f64>,
}

/// Where the compiler dumps its result, in the job's folder.
const DUMP: &str = "dump";

/// A job as it goes over the pipe; programs and executables lie in its folder.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) folder: PathBuf,
    pub(crate) target: String,
    pub(crate) options: CompileOptions,
}

/// An answer as it comes over the pipe.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// libtpu is loaded.
    Ready,
    /// It cannot be.
    Unusable(String),
    /// It knows no such slice.
    NoTarget(String),
    /// The compiler refused the program.
    Refused { machine: Machine, message: String },
    /// It compiled it.
    Compiled { machine: Machine, memory: Memory, format: Option<String>, estimates: BTreeMap<String, f64> },
    /// A file of the job could not be read or written.
    Io(String),
}

/// [`MemoryAnalysis`] as it goes over the pipe.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Memory {
    generated_code: i64,
    arguments: i64,
    outputs: i64,
    aliased: i64,
    temporaries: i64,
    peak: i64,
}

impl From<MemoryAnalysis> for Memory {
    fn from(found: MemoryAnalysis) -> Memory {
        let MemoryAnalysis { generated_code, arguments, outputs, aliased, temporaries, peak } = found;
        Memory { generated_code, arguments, outputs, aliased, temporaries, peak }
    }
}

impl From<Memory> for MemoryAnalysis {
    fn from(found: Memory) -> MemoryAnalysis {
        let Memory { generated_code, arguments, outputs, aliased, temporaries, peak } = found;
        MemoryAnalysis { generated_code, arguments, outputs, aliased, temporaries, peak }
    }
}

impl Request {
    pub(crate) fn of(job: &Job<'_>, folder: PathBuf) -> Request {
        Request { folder, target: job.target.to_string(), options: job.options.clone() }
    }

    pub(crate) fn program(&self) -> PathBuf {
        self.folder.join("program.mlir")
    }
    pub(crate) fn executable(&self) -> PathBuf {
        self.folder.join("executable")
    }
    pub(crate) fn optimized(&self) -> PathBuf {
        self.folder.join("optimized")
    }
    pub(crate) fn dump(&self) -> PathBuf {
        self.folder.join(DUMP)
    }

    /// How the program is compiled, on a machine with these devices, and that the compiler dumps its result. The folder is
    /// relative to the job's, since the executable holds its name: the same program, the same bytes.
    pub(crate) fn options(&self, machine: &Machine) -> CompileOptions {
        let mut options = machine.options(&self.options);
        options.flags.insert("xla_dump_to".to_owned(), FlagValue::String(DUMP.to_owned()));
        options.flags.insert("xla_dump_hlo_as_proto".to_owned(), FlagValue::Bool(true));
        options.flags.insert("xla_dump_hlo_as_text".to_owned(), FlagValue::Bool(false));
        options
    }
}
