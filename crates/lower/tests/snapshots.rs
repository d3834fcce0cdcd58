//! The text of every program in `testdata/mlir`. `BLESS=1 cargo test` rewrites the files; read the diff.

#![allow(clippy::unwrap_used)]

mod programs;

use std::path::PathBuf;
use torchtpu_lower::{LowerOptions, PathPrefixes, TextOptions, lower};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/mlir")
}

/// As it goes to a plugin; only `located` shows its locations.
fn text(name: &str, graph: &ir::Graph) -> String {
    let path_prefixes = PathPrefixes::new(["/home/me/project"]);
    let module = lower(graph, &LowerOptions { path_prefixes, ..LowerOptions::default() }).unwrap();
    module.text_with(TextOptions { locations: name == "located", elide: None }).unwrap()
}

#[test]
fn every_program_is_written_as_blessed() {
    let bless = std::env::var_os("BLESS").is_some();
    let mut wrong = vec![];
    for (name, graph) in programs::all() {
        let path = folder().join(name).with_extension("mlir");
        let new = text(name, &graph);
        let old = std::fs::read_to_string(&path).unwrap_or_default();
        if bless {
            std::fs::write(&path, new).unwrap();
        } else if old != new {
            wrong.push(format!("{name}: expected\n{old}\nbut got\n{new}"));
        }
    }
    assert!(wrong.is_empty(), "{}\n`BLESS=1` accepts the new text", wrong.join("\n"));
}

#[test]
fn no_file_is_left_over() {
    let known: Vec<String> = programs::all().iter().map(|(name, _)| format!("{name}.mlir")).collect();
    for entry in std::fs::read_dir(folder()).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        assert!(known.contains(&file), "testdata/mlir/{file} belongs to no program");
    }
}
