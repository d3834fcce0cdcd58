//! `TORCHTPU_DUMP`: every stage of every compile, as files.

use crate::error::{Error, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// A folder for one compile, named by the program: the same program lands in the same place on every host.
pub(crate) struct Dump {
    folder: PathBuf,
}

impl Dump {
    /// A folder below `root` for the program with these canonical bytes.
    pub(crate) fn new(root: &Path, name: &str, canonical: &[u8]) -> Result<Dump> {
        let hash = blake3::hash(canonical).to_hex();
        let folder = root.join(format!("{name}-{}", &hash[..12]));
        fs::create_dir_all(&folder).map_err(Error::io(&folder))?;
        Ok(Dump { folder })
    }

    /// Writes one stage.
    pub(crate) fn write(&self, file: &str, contents: impl AsRef<[u8]>) -> Result<()> {
        let path = self.folder.join(file);
        fs::write(&path, contents).map_err(Error::io(path))
    }
}
