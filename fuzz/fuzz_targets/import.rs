//! Reads any bytes as a trace and imports what reads.

#![no_main]

use libfuzzer_sys::fuzz_target;
use torchtpu_ir::import::{ImportOptions, import, unsupported_ops};
use torchtpu_ir::{trace, verify};

fuzz_target!(|data: &[u8]| {
    let Ok(trace) = trace::read_bytes(data.to_vec()) else { return };
    let _ = unsupported_ops(&trace);
    let dims = [("s77".to_owned(), 4), ("s17".to_owned(), 5)].into();
    if let Ok(imported) = import(&trace, &ImportOptions { dims, ..ImportOptions::default() }) {
        verify(&imported.graph).expect("what is imported verifies");
    }
});
