//! Prints how long reading and importing a trace takes: of the files given, or of synthetic traces of 10,000 to 100,000
//! nodes: the best of five. `--dim NAME=VALUE` gives a symbol its value.

#[path = "../tests/synthetic/mod.rs"]
#[allow(dead_code)] // each file uses its own part
mod synthetic;

use std::path::Path;
use std::time::{Duration, Instant};
use torchtpu_ir::import::{ImportOptions, import, unsupported_ops};
use torchtpu_ir::trace;

fn main() {
    let mut options = ImportOptions::default();
    let mut files = vec![];
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let dim = if arg == "--dim" { args.next() } else { None };
        match dim.as_deref().and_then(|d| d.split_once('=')).and_then(|(n, v)| Some((n, v.parse().ok()?))) {
            Some((name, value)) => drop(options.dims.insert(name.to_owned(), value)),
            None => files.push(arg),
        }
    }
    for file in &files {
        report(file, &|| trace::read(Path::new(file)), &options);
    }
    if files.is_empty() {
        for nodes in [10_000, 20_000, 50_000, 100_000] {
            let json = synthetic::chain(nodes).into_bytes();
            let what = format!("{nodes} nodes, {} MB", json.len() >> 20);
            report(&what, &|| trace::read_bytes(json.clone()), &options);
        }
    }
}

fn report(what: &str, read: &dyn Fn() -> torchtpu_ir::Result<trace::Trace>, options: &ImportOptions) {
    let (trace, reading) = best(read);
    let trace = match trace {
        Ok(trace) => trace,
        Err(e) => return println!("{what}: {}", torchtpu_ir::diag::render(&e, false)),
    };
    let (imported, importing) = best(&|| import(&trace, options));
    match imported {
        Ok(i) => println!("{what}: read {reading:.1?}, import {importing:.1?}, {} core ops", i.graph.nodes().len()),
        Err(e) => {
            println!("{what}: read {reading:.1?}; {}", torchtpu_ir::diag::render(&e, false));
            let mut missing: Vec<String> = unsupported_ops(&trace).into_iter().map(|(_, op, _)| op).collect();
            missing.sort();
            missing.dedup();
            println!("  not lowered: {}", missing.join(", "));
        }
    }
}

/// What `f` gives, and the least of five times it takes.
fn best<T>(f: &dyn Fn() -> T) -> (T, Duration) {
    let timed = || {
        let start = Instant::now();
        (f(), start.elapsed())
    };
    let (result, first) = timed();
    (result, (0..4).map(|_| timed().1).fold(first, Duration::min))
}
