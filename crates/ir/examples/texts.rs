//! Writes the expansion of each sample of the op table, as text, into a file of its own: seeds for `fuzz run text`.
//!
//! Usage: `texts FOLDER`. Equal texts become one file.

use std::collections::BTreeSet;
use std::path::PathBuf;
use torchtpu_ir::ops::sample::expansions;
use torchtpu_ir::text::print;

fn main() -> std::io::Result<()> {
    let folder = PathBuf::from(std::env::args().nth(1).expect("usage: texts FOLDER"));
    std::fs::create_dir_all(&folder)?;
    let texts: BTreeSet<String> = expansions().map(|(_, expansion)| print(&expansion.graph)).collect();
    for (i, text) in texts.iter().enumerate() {
        std::fs::write(folder.join(format!("{i:05}.txt")), text)?;
    }
    Ok(())
}
