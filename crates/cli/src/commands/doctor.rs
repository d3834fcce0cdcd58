//! `tputc doctor`: what is there, and what is missing.

use crate::output::{Failure, Outcome, print};
use driver::{DiskCache, Session};
use std::fmt::Write;

pub(crate) fn run() -> Outcome {
    let mut out = format!("tputc {}\n", env!("CARGO_PKG_VERSION"));
    let _ = writeln!(out, "ops with a lowering: {}", ir::ops::names().len());
    let cpu = cpu(&mut out);
    tpu(&mut out);
    cache(&mut out);
    print(&out)?;
    match cpu {
        true => Ok(()),
        false => Err(Failure::tool("the CPU plugin does not work; see above")),
    }
}

/// The plugin everything runs on by default; it is loaded and asked.
fn cpu(out: &mut String) -> bool {
    let session = match Session::new(None, None) {
        Ok(session) => session,
        Err(error) => {
            let _ = writeln!(out, "default plugin: {error}\n  install it with: pip install xla-cpu-pjrt==0.0.1");
            return false;
        }
    };
    let plugin = session.plugin();
    let _ = writeln!(out, "default plugin: {}, PJRT C API {}", plugin.path().display(), plugin.api_version());
    let _ = writeln!(out, "  platform: {}", session.client().platform_name());
    for device in session.client().devices() {
        let _ = writeln!(out, "  device {}: {}", device.id(), device.kind());
    }
    true
}

/// Only looked for: loading libtpu takes the machine's lock on its TPUs.
fn tpu(out: &mut String) {
    let _ = match runtime::find_plugin(Some("tpu")) {
        Ok(path) => writeln!(out, "TPU plugin: {}", path.display()),
        Err(_) => writeln!(out, "TPU plugin: not installed (pip install libtpu, under Google's licence)"),
    };
}

fn cache(out: &mut String) {
    let _ = match DiskCache::from_env() {
        None => writeln!(out, "executable cache: off (TORCHTPU_CACHE_DIR is empty)"),
        Some(cache) => {
            let (entries, bytes) = cache.size();
            let size = bytes as f64 / (1u64 << 20) as f64;
            writeln!(out, "executable cache: {}, {entries} entries, {size:.1} MiB", cache.folder().display())
        }
    };
}
