//! Finding and loading plugins.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};

use crate::error::{ApiVersion, Error, Result};
use crate::ffi::{Api, Blas, Value};

/// Names a plugin or its path when a caller does not.
pub const PLUGIN_ENV: &str = "TORCHTPU_PLUGIN";

/// Where an installed Python package keeps each plugin, below `site-packages`.
const KNOWN: [(&str, &str); 2] = [("cpu", "xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so"), ("tpu", "libtpu/libtpu.so")];

/// Loaded plugins by canonical path. A plugin cannot be unloaded or loaded twice safely, so this outlives all clients.
static LOADED: LazyLock<Mutex<HashMap<PathBuf, Plugin>>> = LazyLock::new(Mutex::default);

/// A PJRT plugin library, loaded for the rest of the process. Cheap to copy.
#[derive(Clone, Copy)]
pub struct Plugin {
    pub(crate) api: &'static Api,
}

impl Plugin {
    /// Loads the plugin library at `path`, or returns the one loaded before.
    ///
    /// # Errors
    /// [`Error::PluginMissing`], [`Error::NotAPlugin`], [`Error::WrongVersion`], or what the plugin's own
    /// initialisation reports.
    pub fn load(path: impl AsRef<Path>) -> Result<Plugin> {
        let path = path.as_ref();
        let missing = |_| Error::PluginMissing { spec: path.display().to_string(), searched: vec![path.to_owned()] };
        let canonical = path.canonicalize().map_err(missing)?;
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(plugin) = loaded.get(&canonical) {
            return Ok(*plugin);
        }
        let plugin = Plugin { api: Box::leak(Box::new(Api::load(&canonical)?)) };
        loaded.insert(canonical, plugin);
        Ok(plugin)
    }

    /// Finds and loads a plugin; see [`find_plugin`] for what `spec` may be.
    ///
    /// # Errors
    /// As [`Plugin::load`].
    pub fn discover(spec: Option<&str>) -> Result<Plugin> {
        Plugin::load(find_plugin(spec)?)
    }

    /// The library's file.
    pub fn path(&self) -> &'static Path {
        &self.api.path
    }

    /// The version of the PJRT C API that the plugin speaks.
    pub fn api_version(&self) -> ApiVersion {
        self.api.version
    }

    /// Named facts that the plugin publishes, such as `stablehlo_current_version`, sorted by name.
    ///
    /// # Errors
    /// When the plugin publishes none.
    pub fn attributes(&self) -> Result<Vec<(String, Value)>> {
        let mut attributes = self.api.attributes()?;
        attributes.sort_by(|(left, _), (right, _)| left.cmp(right));
        Ok(attributes)
    }

    /// Lets programs that this plugin runs on the CPU ask for products, convolutions and their like (`hostcall`), which are computed
    /// with the BLAS in the library at `path`, MKL, and with SLEEF where it has that, too: a process that imports PyTorch has both.
    /// The library's idle threads are let go before long programs.
    ///
    /// # Errors
    /// If the library holds none, the plugin lets programs call nothing, and what it reports.
    pub fn offer_products(&self, path: &Path) -> Result<()> {
        self.api.offer_products(Blas::find(path)?)
    }

    /// Has this plugin, which runs programs on the CPU, keep blocks of memory of 1 MiB and more for its next call, instead of
    /// asking the system for them anew: as many as it had in use at once, and for some seconds
    /// ([`memory_pool`](crate::memory_pool), [`give_back_memory`](crate::give_back_memory)). Whether it does: not if it
    /// has no calls of `posix_memalign` and `free`, or on a processor for which nobody has written how to find them.
    pub fn keep_memory(&self) -> bool {
        self.api.keep_memory()
    }

    /// Has this plugin compile programs for the CPU that call what [`Plugin::offer_products`] offers, without a BLAS: to be
    /// looked at, not run. Until products are offered, such calls fail.
    ///
    /// # Errors
    /// If the plugin lets programs call nothing, and what it reports.
    pub fn accept_calls(&self) -> Result<()> {
        self.api.accept_calls()
    }

    /// Identifies the plugin's build, in hexadecimal, for keys of compiled programs.
    ///
    /// It hashes the API version, the published attributes, the file's size, and 128 pages of 4 KiB spread evenly over
    /// the file. It leaves out path and time stamps, which differ between hosts that hold the same build. Reading all
    /// of a 250 MB library would cost every start 0.1 s, and not every plugin carries a build id; a rebuild
    /// moves addresses throughout, so the samples see it.
    ///
    /// # Errors
    /// When the file can no longer be read.
    pub fn fingerprint(&self) -> Result<String> {
        let unreadable =
            |error: std::io::Error| Error::Invalid(format!("cannot read {}: {error}", self.path().display()));
        let mut hasher = blake3::Hasher::new();
        hasher.update(format!("{} {:?}", self.api.version, self.attributes().unwrap_or_default()).as_bytes());
        hash_samples(self.path(), &mut hasher).map_err(unreadable)?;
        Ok(hasher.finalize().to_hex().to_string())
    }
}

impl std::fmt::Debug for Plugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Plugin({}, API {})", self.path().display(), self.api_version())
    }
}

fn hash_samples(path: &Path, hasher: &mut blake3::Hasher) -> std::io::Result<()> {
    const SAMPLES: u64 = 128;
    const PAGE: u64 = 4096;
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    hasher.update(&size.to_le_bytes());
    let mut page = [0; PAGE as usize];
    for sample in 0..SAMPLES {
        let offset = size.saturating_sub(PAGE) / (SAMPLES - 1) * sample;
        let length = PAGE.min(size - offset) as usize;
        file.read_exact_at(&mut page[..length], offset)?;
        hasher.update(&page[..length]);
    }
    Ok(())
}

/// The path of the plugin that `spec` means: `cpu`, `tpu`, or a path. Without a spec the environment variable
/// `TORCHTPU_PLUGIN` decides, and without that it is `cpu`.
///
/// A named plugin is looked for in the `site-packages` of the prefix that holds this executable, then of
/// `VIRTUAL_ENV`. A Python process knows better: it asks the `xla_plugins` entry points and passes a path.
///
/// # Errors
/// [`Error::PluginMissing`], listing what was tried.
pub fn find_plugin(spec: Option<&str>) -> Result<PathBuf> {
    let from_env = std::env::var(PLUGIN_ENV).ok();
    let spec = choose(spec, from_env.as_deref());
    let mut prefixes = Vec::new();
    if let Ok(executable) = std::env::current_exe() {
        prefixes.extend(executable.ancestors().nth(2).map(Path::to_owned));
    }
    prefixes.extend(std::env::var_os("VIRTUAL_ENV").map(PathBuf::from));
    search(spec, &prefixes)
}

/// What to look for: what the caller says, else what the environment says, else the CPU plugin.
fn choose<'a>(spec: Option<&'a str>, from_env: Option<&'a str>) -> &'a str {
    spec.or(from_env.filter(|spec| !spec.is_empty())).unwrap_or("cpu")
}

/// [`find_plugin`] without the environment.
fn search(spec: &str, prefixes: &[PathBuf]) -> Result<PathBuf> {
    let candidates = match KNOWN.iter().find(|(name, _)| *name == spec) {
        Some((_, library)) => prefixes.iter().flat_map(|prefix| installed(prefix, library)).collect(),
        None => vec![PathBuf::from(spec)],
    };
    let found = candidates.iter().find(|path| path.exists()).cloned();
    found.ok_or_else(|| Error::PluginMissing { spec: spec.to_owned(), searched: candidates })
}

/// Where `library` would be in each Python below `prefix`, newest first; the pattern itself if there is no Python.
fn installed(prefix: &Path, library: &str) -> Vec<PathBuf> {
    let is_python = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python3"));
    let entries = std::fs::read_dir(prefix.join("lib")).into_iter().flatten();
    let mut pythons: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(is_python).collect();
    pythons.sort_by_key(|python| std::cmp::Reverse(minor_version(python)));
    if pythons.is_empty() {
        pythons.push(prefix.join("lib/python3*"));
    }
    pythons.iter().map(|python| python.join("site-packages").join(library)).collect()
}

/// 11 for `.../python3.11`.
fn minor_version(python: &Path) -> u32 {
    let name = python.file_name().unwrap_or_default().to_string_lossy();
    name.trim_start_matches("python3.").parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_python_of_the_first_prefix_wins() -> std::io::Result<()> {
        let root = tempfile::tempdir()?;
        let library = |python: &str| root.path().join("lib").join(python).join("site-packages").join(KNOWN[0].1);
        for python in ["python3.9", "python3.11"] {
            std::fs::create_dir_all(library(python).parent().expect("has a parent"))?;
            std::fs::write(library(python), "")?;
        }
        let prefixes = [PathBuf::from("/nonexistent"), root.path().to_owned()];
        assert_eq!(search("cpu", &prefixes).expect("finds it"), library("python3.11"));
        Ok(())
    }

    #[test]
    fn the_caller_is_asked_before_the_environment() {
        assert_eq!(choose(Some("tpu"), Some("/env.so")), "tpu");
        assert_eq!(choose(None, Some("/env.so")), "/env.so");
        assert_eq!(choose(None, Some("")), "cpu");
        assert_eq!(choose(None, None), "cpu");
    }

    #[test]
    fn a_missing_plugin_says_where_it_was_looked_for() {
        let error = search("tpu", &[PathBuf::from("/nonexistent")]).expect_err("nothing there");
        let expected = "no PJRT plugin for `tpu`\n  tried /nonexistent/lib/python3*/site-packages/libtpu/libtpu.so";
        assert_eq!(error.to_string(), expected);
        let error = search("/no/such.so", &[]).expect_err("nothing there");
        assert_eq!(error.to_string(), "no PJRT plugin for `/no/such.so`\n  tried /no/such.so");
    }
}
