//! Writes a report's page: JSON on standard input, HTML on standard output.

use std::io::{self, Read, Write};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut json = String::new();
    io::stdin().read_to_string(&mut json)?;
    let report: torchtpu_report::Report = serde_json::from_str(&json)?;
    io::stdout().write_all(torchtpu_report::html(&report).as_bytes())?;
    Ok(())
}
