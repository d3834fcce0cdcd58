//! Reads any text as a graph; what reads is printed and read again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use torchtpu_ir::text::{parse, print};

fuzz_target!(|text: &str| {
    let Ok(graph) = parse(text) else { return };
    let printed = print(&graph);
    assert_eq!(print(&parse(&printed).expect("what is printed reads")), printed);
});
