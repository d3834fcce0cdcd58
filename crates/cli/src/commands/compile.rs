//! `tputc compile`: executables for TPUs that are not there.

use crate::ahead;
use crate::args::{Compile, ReportFormat};
use crate::output::{Failure, Outcome, Printer, print, write};
use driver::{Ahead, DiskCache};
use std::path::{Path, PathBuf};
use target::Target;

pub(crate) fn run(args: &Compile, printer: &Printer) -> Outcome {
    ahead::mention_backward(&args.source, printer);
    let source = printer.timed("read", || ahead::Source::read(&args.source, &args.ahead))?;
    let pool = ahead::pool(&args.ahead)?;
    let compiled = ahead::each(&args.targets, args.ahead.jobs.into(), printer, |target| source.compile(target, &pool))?;
    // The report is of most use when something was refused.
    if let Some(path) = &args.report {
        let reports = compiled.iter().map(|ahead| source.report(ahead)).collect::<Result<Vec<_>, _>>()?;
        write(Some(path), super::check::as_file(&reports, path)?.as_bytes())?;
    }
    let mut done = vec![];
    for one in &compiled {
        one.compiled()?;
        done.push(keep(args, one)?);
    }
    tell(args, printer, &done)
}

/// Where an executable went.
struct Kept {
    target: String,
    file: Option<PathBuf>,
    bytes: usize,
}

fn keep(args: &Compile, ahead: &Ahead) -> Result<Kept, Failure> {
    let executable = &ahead.compiled()?.executable;
    if let Some(folder) = &args.cache {
        ahead.put(&DiskCache::new(folder, driver::DEFAULT_LIMIT))?;
    }
    let file = args.output.as_deref().map(|path| file(path, args.targets.len() > 1, &ahead.target));
    if let Some(file) = &file {
        if let Some(folder) = file.parent().filter(|_| args.targets.len() > 1) {
            std::fs::create_dir_all(folder).map_err(|e| Failure::tool(format!("{}: {e}", folder.display())))?;
        }
        // The manifest comes last: where it is, the executable is whole.
        write(Some(file), executable)?;
        let manifest = format!("{:#}\n", ahead.manifest()?);
        write(Some(&beside(file)), manifest.as_bytes())?;
    }
    Ok(Kept { target: ahead.target.to_string(), file, bytes: executable.len() })
}

/// `FILE`, or `FILE/v5e-2x2.tpu` if there are several.
fn file(path: &Path, several: bool, target: &Target) -> PathBuf {
    match several {
        true => path.join(format!("{}.tpu", target.to_string().replace(':', "-"))),
        false => path.to_owned(),
    }
}

/// `FILE.json`.
fn beside(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".json");
    name.into()
}

fn tell(args: &Compile, printer: &Printer, done: &[Kept]) -> Outcome {
    if args.format == ReportFormat::Json {
        let entry = |kept: &Kept| serde_json::json!({ "target": kept.target, "file": kept.file, "bytes": kept.bytes, "cache": args.cache });
        let entries: Vec<_> = done.iter().map(entry).collect();
        return print(&format!("{:#}\n", serde_json::Value::from(entries)));
    }
    for kept in done {
        let size = kept.bytes as f64 / f64::from(1 << 20);
        let places = [kept.file.as_ref(), args.cache.as_ref()].into_iter().flatten();
        let places: Vec<String> = places.map(|path| path.display().to_string()).collect();
        printer.say(format_args!("{}: {size:.1} MiB in {}", kept.target, places.join(" and ")));
    }
    Ok(())
}
