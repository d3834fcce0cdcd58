//! `tputc check`: whether a program would run on a TPU, and what it would cost.

use crate::ahead;
use crate::args::{Check, CheckFormat};
use crate::output::{Failure, Outcome, Printer, columns, write};
use report::Report;
use std::path::Path;
use target::Target;

pub(crate) fn run(args: &Check, printer: &Printer) -> Outcome {
    ahead::mention_backward(&args.source, printer);
    let source = printer.timed("read", || ahead::Source::read(&args.source, &args.ahead))?;
    if args.slices.is_some() && matches!(source, ahead::Source::Stablehlo { .. }) {
        return Err(Failure::tool("a .mlir does not say which arguments are parameters: --slices is for traces"));
    }
    let pool = ahead::pool(&args.ahead)?;
    let check = |target: &Target| source.check(target, args.slices, &pool);
    let reports = ahead::each(&args.targets, args.ahead.jobs.into(), printer, check)?;
    let text = match args.format {
        CheckFormat::Text => text(&reports, columns(args.output.as_deref()).unwrap_or(report::COLUMNS)),
        CheckFormat::Json => json(&reports)?,
        CheckFormat::Html => report::html(&reports),
    };
    write(args.output.as_deref(), text.as_bytes())?;
    match reports.iter().all(|report| report.verdict.runs) {
        true => Ok(()),
        false => Err(Failure::Reported),
    }
}

fn text(reports: &[Report], columns: usize) -> String {
    reports.iter().map(|report| report::text(report, columns)).collect::<Vec<_>>().join("\n")
}

/// As JSON, or as a page if the file's name asks for one.
pub(crate) fn as_file(reports: &[Report], path: &Path) -> Result<String, Failure> {
    match path.extension().is_some_and(|extension| extension == "html") {
        true => Ok(report::html(reports)),
        false => json(reports),
    }
}

fn json(reports: &[Report]) -> Result<String, Failure> {
    let text = serde_json::to_string_pretty(reports).map_err(Failure::tool)?;
    Ok(text + "\n")
}
