//! Writes a page: on standard input a report's JSON, or a list of them, or what the optimizer changed and plans; on standard
//! output HTML.

use std::io::{self, Read, Write};

use serde::Deserialize;
use torchtpu_report::{Planned, Report, Rewrites, html, rewrites_html};

/// What may stand beside what the optimizer changed.
#[derive(Deserialize)]
struct Plan {
    #[serde(default)]
    planned: Vec<Planned>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut json = String::new();
    io::stdin().read_to_string(&mut json)?;
    let page = if let Ok(reports) = serde_json::from_str::<Vec<Report>>(&json) {
        html(&reports)
    } else if let Ok(rewrites) = serde_json::from_str::<Rewrites>(&json) {
        let Plan { planned } = serde_json::from_str(&json)?;
        rewrites_html("program", &rewrites, &planned, &[])
    } else {
        html(&[serde_json::from_str(&json)?])
    };
    io::stdout().write_all(page.as_bytes())?;
    Ok(())
}
