//! Where the tests of several crates find the CPU plugin; those of `lower` and `driver` take this file by its path.

use std::path::{Path, PathBuf};

/// The CPU plugin's library: `TORCHTPU_PLUGIN`, or the one in the workspace's virtual environment.
pub(crate) fn path() -> PathBuf {
    if let Some(path) = std::env::var_os("TORCHTPU_PLUGIN") {
        return path.into();
    }
    // Every crate lies as deep below the workspace.
    let venv = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.venv/lib");
    let pythons = std::fs::read_dir(&venv).into_iter().flatten().flatten();
    let libraries = pythons.map(|python| python.path().join("site-packages/xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so"));
    let found = libraries.into_iter().find(|library| library.exists());
    found.unwrap_or_else(|| panic!("no CPU plugin below {}: run `make setup`", venv.display()))
}
