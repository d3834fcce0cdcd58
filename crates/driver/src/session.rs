//! A plugin's client with its caches and counters. Nothing here is global: a process may hold several sessions.

use crate::cache::DiskCache;
use crate::error::{Error, Result};
use runtime::{CPU_DEVICE_COUNT, Client, CompileOptions, Device, Executable, FlagValue, Plugin, Signature};
use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// The environment variable that says how many virtual devices the CPU plugin makes.
const CPU_DEVICES: &str = "TORCHTPU_CPU_DEVICES";

/// Who looks after the memory of the CPU plugin.
const CPU_MEMORY: &str = "TORCHTPU_CPU_MEMORY";

/// A client of one plugin, the executables it compiled, and where to keep them.
pub struct Session {
    plugin: Plugin,
    client: Client,
    identity: String,
    disk: Option<DiskCache>,
    memory: Mutex<HashMap<String, Weak<Executable>>>,
    counters: Counters,
    offers_products: bool,
}

#[derive(Default)]
struct Counters {
    compiles: AtomicU64,
    compile_nanos: AtomicU64,
    memory_hits: AtomicU64,
    disk_hits: AtomicU64,
    executions: AtomicU64,
    execute_nanos: AtomicU64,
}

/// Where an executable came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The plugin compiled it.
    Compiled,
    /// This process had it.
    Memory,
    /// It was on disk.
    Disk,
}

/// How much the plugin's compiler should do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effort {
    /// All it can.
    Full,
    /// As little as it can, for small programs.
    Least,
    /// All that leaves every rounding in place, also those of narrow floats.
    Exact,
    /// The same, scheduled op by op for the least memory: the CPU plugin's other schedule is for most at the same time.
    OneByOne,
}

/// What a session did so far.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Stats {
    /// Programs the plugin compiled.
    pub compiles: u64,
    /// Time it took, tracing and lowering not included.
    pub compile_time: Duration,
    /// Programs found compiled in this process.
    pub cache_hits: u64,
    /// Programs found compiled on disk.
    pub disk_hits: u64,
    /// Executions that ended well.
    pub executions: u64,
    /// Time the plugin had for them, from handing over the arguments until the results were ready, or promised.
    pub execute_time: Duration,
}

impl Session {
    /// Loads the plugin `spec` (`cpu`, `tpu` or a path; `None` for what the environment says) and makes a client.
    ///
    /// # Errors
    /// When there is no such plugin, or it makes no client, or `TORCHTPU_CPU_MEMORY` says neither `kept` nor `system`.
    pub fn new(spec: Option<&str>, disk: Option<DiskCache>) -> Result<Session> {
        Session::create(spec, &[], disk)
    }

    /// As [`Session::new`], for programs that run often. The CPU plugin makes four virtual devices, and at least a thread
    /// for each, which wait for each other where there are fewer processors: there are no more devices than those, or as
    /// many as `TORCHTPU_CPU_DEVICES` says.
    ///
    /// # Errors
    /// As [`Session::new`]; also if `TORCHTPU_CPU_DEVICES` is no number, or none.
    pub fn fitting_the_host(spec: Option<&str>, disk: Option<DiskCache>) -> Result<Session> {
        let session = Session::new(spec, disk)?;
        let made = session.client.devices().len();
        match wanted_cpu_devices(made)? {
            wanted if wanted == made || !session.is_on_cpu() => Ok(session),
            wanted => Session::with_cpu_devices(spec, wanted, session.disk),
        }
    }

    /// As [`Session::new`], on `devices` virtual devices that share the host's processor. For the CPU plugin.
    ///
    /// # Errors
    /// As [`Session::new`]; also if there are to be none.
    pub fn with_cpu_devices(spec: Option<&str>, devices: usize, disk: Option<DiskCache>) -> Result<Session> {
        let count = i64::try_from(devices).unwrap_or(i64::MAX);
        Session::create(spec, &[(CPU_DEVICE_COUNT, runtime::Value::I64(count))], disk)
    }

    fn create(spec: Option<&str>, options: &[(&str, runtime::Value)], disk: Option<DiskCache>) -> Result<Session> {
        let plugin = Plugin::discover(spec).map_err(Error::Plugin)?;
        let client = Client::new(plugin, options).map_err(Error::Plugin)?;
        let identity = identity(&plugin, &client)?;
        let (memory, counters) = (Mutex::default(), Counters::default());
        let session = Session { plugin, client, identity, disk, memory, counters, offers_products: false };
        if session.is_on_cpu() && keeps_memory()? {
            plugin.keep_memory();
        }
        Ok(session)
    }

    /// Lets programs on the CPU multiply with the BLAS in the library at `path` ([`Plugin::offer_products`]). Others do not.
    ///
    /// # Errors
    /// If there is none, and what the plugin reports.
    pub fn offer_products(&mut self, path: &Path) -> Result<()> {
        if self.is_on_cpu() {
            self.plugin.offer_products(path).map_err(Error::Plugin)?;
            self.offers_products = true;
        }
        Ok(())
    }

    /// Has the plugin compile programs that call what [`Session::offer_products`] offers, to be looked at: run, those calls
    /// fail. Says whether such programs are for this plugin, which those on the CPU alone are.
    ///
    /// # Errors
    /// What the plugin reports.
    pub fn accept_calls(&self) -> Result<bool> {
        if self.is_on_cpu() {
            self.plugin.accept_calls().map_err(Error::Plugin)?;
        }
        Ok(self.is_on_cpu())
    }

    /// Whether programs run on the host's own processor.
    pub fn is_on_cpu(&self) -> bool {
        self.client.platform_name().eq_ignore_ascii_case("cpu")
    }

    /// Whether programs may leave products to the host.
    pub fn offers_products(&self) -> bool {
        self.offers_products
    }

    /// The plugin.
    pub fn plugin(&self) -> &Plugin {
        &self.plugin
    }
    /// The plugin's client.
    pub fn client(&self) -> &Client {
        &self.client
    }
    /// What it did so far.
    pub fn stats(&self) -> Stats {
        let read = |c: &AtomicU64| c.load(Ordering::Relaxed);
        Stats {
            compiles: read(&self.counters.compiles),
            compile_time: Duration::from_nanos(read(&self.counters.compile_nanos)),
            cache_hits: read(&self.counters.memory_hits),
            disk_hits: read(&self.counters.disk_hits),
            executions: read(&self.counters.executions),
            execute_time: Duration::from_nanos(read(&self.counters.execute_nanos)),
        }
    }
    /// Counts a program that whoever keeps kernels had itself.
    pub fn count_hit(&self) {
        self.counters.memory_hits.fetch_add(1, Ordering::Relaxed);
    }
    /// Counts an execution that took `time`, as far as it was waited for.
    pub fn count_execution(&self, time: Duration) {
        self.counters.executions.fetch_add(1, Ordering::Relaxed);
        self.counters.execute_nanos.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }

    /// The executable for a program: from memory, from disk, or compiled now.
    ///
    /// `canonical` is the program without locations, which alone decides the key; `located` is what the plugin gets to
    /// compile, and is asked for only then. `undivided`: no op of it is divided among threads
    /// ([`CompileOptions::undivided`]).
    ///
    /// # Errors
    /// When the plugin refuses the program.
    pub fn executable(
        &self,
        canonical: &[u8],
        located: impl FnOnce() -> Result<Vec<u8>>,
        signature: Signature,
        device: usize,
        undivided: bool,
    ) -> Result<(Arc<Executable>, Origin)> {
        let device = self.client.device(device).map_err(Error::Plugin)?;
        let options = CompileOptions { undivided, ..compile_options(&device) };
        self.executable_with(canonical, located, signature, &options)
    }

    /// As [`Session::executable`], for a program whose device is chosen at each execution.
    ///
    /// # Errors
    /// When the plugin refuses the program.
    pub(crate) fn portable_executable(
        &self,
        canonical: &[u8],
        located: impl FnOnce() -> Result<Vec<u8>>,
        signature: Signature,
        effort: Effort,
        undivided: bool,
    ) -> Result<Arc<Executable>> {
        let options = with_flags(CompileOptions { portable: true, undivided, ..CompileOptions::default() });
        let options = match effort {
            Effort::Least if self.is_on_cpu() => options.fast_compile(),
            Effort::Exact => with_rounding(options),
            Effort::OneByOne => one_by_one(with_rounding(options)),
            Effort::Full | Effort::Least => options,
        };
        self.executable_with(canonical, located, signature, &options).map(|found| found.0)
    }

    pub(crate) fn executable_with(
        &self,
        canonical: &[u8],
        located: impl FnOnce() -> Result<Vec<u8>>,
        signature: Signature,
        options: &CompileOptions,
    ) -> Result<(Arc<Executable>, Origin)> {
        let key = key(&self.identity, options, canonical);
        if let Some(found) = self.in_memory(&key) {
            self.count_hit();
            return Ok((found, Origin::Memory));
        }
        let (executable, origin) = match self.on_disk(&key, &signature) {
            Some(found) => (found, Origin::Disk),
            None => (self.compile(&key, &located()?, options, signature)?, Origin::Compiled),
        };
        let executable = Arc::new(executable);
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        // At doubling sizes, so that the sweeps together cost no more than the insertions.
        if memory.len().is_power_of_two() {
            memory.retain(|_, e| e.strong_count() > 0);
        }
        memory.insert(key, Arc::downgrade(&executable));
        Ok((executable, origin))
    }

    /// What the plugin's optimizer makes of a StableHLO program (text or bytecode), as HLO text.
    ///
    /// # Errors
    /// When the plugin refuses the program.
    pub fn optimized_text(&self, program: &[u8]) -> Result<String> {
        let device = self.client.device(0).map_err(Error::Plugin)?;
        let executable = self.client.compile(program, &compile_options(&device), None).map_err(Error::Compile)?;
        hlo_text(&executable)
    }

    fn in_memory(&self, key: &str) -> Option<Arc<Executable>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner).get(key)?.upgrade()
    }

    fn on_disk(&self, key: &str, signature: &Signature) -> Option<Executable> {
        let disk = self.disk.as_ref()?;
        let bytes = disk.get(key)?;
        match self.client.deserialize_and_load(&bytes, Some(signature.clone())) {
            Ok(executable) => {
                self.counters.disk_hits.fetch_add(1, Ordering::Relaxed);
                Some(executable)
            }
            Err(_) => {
                disk.remove(key);
                None
            }
        }
    }

    fn compile(&self, key: &str, program: &[u8], options: &CompileOptions, signature: Signature) -> Result<Executable> {
        let start = Instant::now();
        let executable = self.client.compile(program, options, Some(signature)).map_err(Error::Compile)?;
        self.counters.compiles.fetch_add(1, Ordering::Relaxed);
        self.counters.compile_nanos.fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
        if let Some(disk) = &self.disk {
            // A plugin that cannot serialise, or a full disk, costs a later compile and nothing else.
            let _ = executable.serialize().map(|bytes| disk.put(key, &bytes));
        }
        Ok(executable)
    }
}

/// Whether the CPU plugin is to keep memory for its next call, unless `TORCHTPU_CPU_MEMORY` leaves it to the system.
fn keeps_memory() -> Result<bool> {
    match std::env::var_os(CPU_MEMORY) {
        None => Ok(true),
        Some(said) if said == "kept" => Ok(true),
        Some(said) if said == "system" => Ok(false),
        Some(said) => {
            let wrong = format!("{CPU_MEMORY} must be `kept` or `system`, not {:?}", said.to_string_lossy());
            Err(Error::Plugin(runtime::Error::Invalid(wrong)))
        }
    }
}

/// How many virtual devices the CPU plugin is to make, which makes `by_default`.
fn wanted_cpu_devices(by_default: usize) -> Result<usize> {
    let Some(said) = std::env::var_os(CPU_DEVICES) else {
        return Ok(std::thread::available_parallelism().map_or(by_default, |n| by_default.min(n.get())));
    };
    let said = said.to_string_lossy();
    let wrong = |_| runtime::Error::Invalid(format!("{CPU_DEVICES} must be a number of devices, not {said:?}"));
    let devices = said.parse::<NonZeroUsize>().map_err(wrong).map_err(Error::Plugin)?;
    Ok(devices.get())
}

fn compile_options(device: &Device) -> CompileOptions {
    with_flags(CompileOptions::for_device(device))
}

/// `options` for a program in which narrow floats are rounded wherever it says so.
fn with_rounding(mut options: CompileOptions) -> CompileOptions {
    options.flags.insert("xla_allow_excess_precision".to_owned(), FlagValue::Bool(false));
    options
}

/// `options` for a program whose ops do not begin before they are needed.
fn one_by_one(mut options: CompileOptions) -> CompileOptions {
    options.flags.insert("xla_cpu_enable_concurrency_optimized_scheduler".to_owned(), FlagValue::Bool(false));
    options
}

/// `options` with the flags that every compile needs.
pub(crate) fn with_flags(mut options: CompileOptions) -> CompileOptions {
    options.flags.extend(lower::XLA_FLAGS.iter().map(|&(name, on)| (name.to_owned(), FlagValue::Bool(on))));
    options
}

/// What the plugin made of a program, as HLO text.
pub(crate) fn hlo_text(executable: &Executable) -> Result<String> {
    executable.optimized_program().and_then(|p| p.to_text()).map_err(Error::Compile)
}

/// What keeps an executable apart from others in a cache: all that it depends on.
pub(crate) fn key(identity: &str, options: &CompileOptions, canonical: &[u8]) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in [identity.as_bytes(), &options.to_bytes(), &[u8::from(options.undivided)], canonical] {
        hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
    }
    hasher.finalize().to_hex().to_string()
}

fn identity(plugin: &Plugin, client: &Client) -> Result<String> {
    let device = client.device(0).map_err(Error::Plugin)?;
    let fingerprint = plugin.fingerprint().map_err(Error::Plugin)?;
    let platform = (client.platform_name(), client.platform_version());
    Ok(identity_of(&fingerprint, platform, device.kind(), client.devices().len()))
}

/// Everything besides the program and its options that an executable depends on. `platform` is name and version.
pub(crate) fn identity_of(fingerprint: &str, platform: (&str, &str), device_kind: &str, devices: usize) -> String {
    let (name, version) = platform;
    let parts = [
        format!("emitter {}", lower::EMITTER_VERSION),
        format!("plugin {fingerprint}"),
        format!("platform {name} {version}"),
        format!("device {device_kind} of {devices}"),
        format!("host {}", host_features(name)),
        format!("environment {:?}", COMPILERS_VARIABLES.map(compilers_flags)),
    ];
    parts.join("\n")
}

/// Where a plugin's compiler looks for flags besides those in a program's options.
const COMPILERS_VARIABLES: [&str; 2] = ["XLA_FLAGS", "LIBTPU_INIT_ARGS"];

/// What the environment's `variable` says. If it does not begin with a flag, XLA takes it for the name of a file of flags.
fn compilers_flags(variable: &str) -> String {
    let flags = std::env::var_os(variable).unwrap_or_default();
    let text = flags.to_string_lossy().into_owned();
    let is_file = !text.trim_start().is_empty() && !text.trim_start().starts_with('-');
    let file = is_file.then(|| std::fs::read(&flags).ok()).flatten();
    file.map_or(text, |bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// XLA compiles for the very processor it runs on, so an executable for the CPU must not travel to a lesser one.
fn host_features(platform: &str) -> String {
    if platform != "cpu" {
        return String::new();
    }
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = info.lines().find(|l| l.starts_with("flags") || l.starts_with("Features")).unwrap_or_default();
    let model = info.lines().find(|l| l.starts_with("model name")).unwrap_or_default();
    format!("{} {model} {flags}", std::env::consts::ARCH)
}
