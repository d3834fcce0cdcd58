//! `tputc doctor`: what is there, and what is missing.

use crate::args::{Doctor, ReportFormat};
use crate::output::{Failure, Outcome, print};
use driver::{DiskCache, Session};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::PathBuf;

pub(crate) fn run(args: &Doctor) -> Outcome {
    let found = Found::look();
    print(&match args.format {
        ReportFormat::Text => found.text(),
        ReportFormat::Json => format!("{:#}\n", found.data()),
    })?;
    match found.plugin {
        Ok(_) => Ok(()),
        Err(_) => Err(Failure::tool("the default plugin does not work; see above")),
    }
}

struct Found {
    ops: usize,
    /// The plugin everything runs on by default; it is loaded and asked.
    plugin: driver::Result<DefaultPlugin>,
    /// Only looked for: loading libtpu takes the machine's lock on its TPUs.
    libtpu: Option<PathBuf>,
    cache: Option<Cache>,
}

struct DefaultPlugin {
    path: PathBuf,
    api_version: String,
    platform: String,
    /// Id and kind of each device.
    devices: Vec<(i64, String)>,
}

struct Cache {
    folder: PathBuf,
    entries: usize,
    bytes: u64,
    /// Why nothing can be stored.
    fault: Option<String>,
}

impl Found {
    fn look() -> Found {
        Found {
            ops: ir::ops::names().len(),
            plugin: Session::fitting_the_host(None, None).map(|s| DefaultPlugin::of(&s)),
            libtpu: runtime::find_plugin(Some("tpu")).ok(),
            cache: DiskCache::from_env().map(|c| Cache::of(&c)),
        }
    }

    fn text(&self) -> String {
        let mut out = format!("tputc {}\nops with a lowering: {}\n", env!("CARGO_PKG_VERSION"), self.ops);
        // Writing to a string does not fail.
        let _ = match &self.plugin {
            Ok(plugin) => write!(out, "{}", plugin.text()),
            Err(error) => {
                let help = if is_missing(error) { "\n  install it with: pip install xla-cpu-pjrt==0.0.1" } else { "" };
                writeln!(out, "default plugin: {error}{help}")
            }
        };
        let _ = match &self.libtpu {
            Some(path) => writeln!(out, "TPU plugin: {}", path.display()),
            None => writeln!(out, "TPU plugin: not installed (pip install libtpu, under Google's licence)"),
        };
        let _ = match &self.cache {
            None => writeln!(out, "executable cache: off (TORCHTPU_CACHE_DIR is empty)"),
            Some(Cache { folder, entries, bytes, fault }) => {
                let size = *bytes as f64 / (1u64 << 20) as f64;
                let fault = fault.as_ref().map_or(String::new(), |it| format!("\n  nothing can be stored there: {it}"));
                writeln!(out, "executable cache: {}, {entries} entries, {size:.1} MiB{fault}", folder.display())
            }
        };
        out
    }

    fn data(&self) -> Value {
        let plugin = match &self.plugin {
            Ok(plugin) => plugin.data(),
            Err(error) => json!({ "error": error.to_string() }),
        };
        let cache = |c: &Cache| json!({ "folder": c.folder, "entries": c.entries, "bytes": c.bytes, "fault": c.fault });
        json!({
            "version": env!("CARGO_PKG_VERSION"), "ops": self.ops, "plugin": plugin, "libtpu": self.libtpu,
            "cache": self.cache.as_ref().map(cache),
        })
    }
}

/// Whether it is the CPU's plugin that is not there, and nothing else was asked for.
fn is_missing(error: &driver::Error) -> bool {
    matches!(error, driver::Error::Plugin(runtime::Error::PluginMissing { spec, .. }) if spec == "cpu")
}

impl DefaultPlugin {
    fn of(session: &Session) -> DefaultPlugin {
        let (plugin, client) = (session.plugin(), session.client());
        DefaultPlugin {
            path: plugin.path().to_owned(),
            api_version: plugin.api_version().to_string(),
            platform: client.platform_name().to_owned(),
            devices: client.devices().iter().map(|d| (d.id().into(), d.kind().to_owned())).collect(),
        }
    }

    fn text(&self) -> String {
        let mut out = format!("default plugin: {}, PJRT C API {}\n", self.path.display(), self.api_version);
        let _ = writeln!(out, "  platform: {}", self.platform);
        for (id, kind) in &self.devices {
            let _ = writeln!(out, "  device {id}: {kind}");
        }
        out
    }

    fn data(&self) -> Value {
        let devices: Vec<Value> = self.devices.iter().map(|(id, kind)| json!({ "id": id, "kind": kind })).collect();
        json!({ "path": self.path, "api_version": self.api_version, "platform": self.platform, "devices": devices })
    }
}

impl Cache {
    fn of(cache: &DiskCache) -> Cache {
        let (entries, bytes) = cache.size();
        let fault = cache.fault().map(|error| error.to_string());
        Cache { folder: cache.folder().to_owned(), entries, bytes, fault }
    }
}
