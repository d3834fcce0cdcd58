//! A BLAS of our own for tests of several crates; those of `lower` take this file by its path.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A folder with a BLAS that adds `error` to every element.
pub(crate) fn blas(error: i32) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let library = dir.path().join("blas.so");
    // Every crate lies as deep below the workspace.
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../runtime/tests/fake_blas.c");
    let mut cc = Command::new("cc");
    let status = cc.args(["-O2", "-shared", "-fPIC", &format!("-DADD={error}")]).arg(source).arg("-o").arg(&library);
    assert!(status.status().expect("cc is installed").success());
    (dir, library)
}
