//! `tputc fuse`: what the optimizer did, where and why.

use crate::args::{For, Fuse, FuseFormat};
use crate::inputs;
use crate::output::{Failure, Outcome, Printer, write};
use driver::Rewritten;
use fuse::regions::Region;
use fuse::{Change, Class, Platform};
use ir::{Loc, LocId, ValueId};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The version of the JSON form, documented in docs/optimizer.md.
const SCHEMA: u32 = 1;
/// Regions that the text shows: those that take longest.
const SHOWN: usize = 40;

pub(crate) fn run(args: &Fuse, printer: &Printer) -> Outcome {
    if inputs::is_mlir(&args.source) {
        return Err(Failure::tool("tputc fuse takes a trace.json or a .pt2: a .mlir has been through the optimizer"));
    }
    let platform = match args.platform {
        For::Cpu => Platform::Cpu,
        For::Tpu => Platform::Tpu,
    };
    let program = printer.timed("read", || inputs::program(&args.source))?;
    let dims = inputs::dims(&args.source, &program)?;
    let rewritten = printer.timed("optimized", || program.rewritten(&dims, platform))?;
    let text = printer.timed("told", || match args.format {
        FuseFormat::Text => text(&rewritten),
        FuseFormat::Json => format!("{:#}\n", data(&rewritten)),
        FuseFormat::Html => program.rewrites_page(&args.source.title(), &rewritten),
    });
    write(args.output.as_deref(), text.as_bytes())
}

fn text(r: &Rewritten) -> String {
    let mut out = String::new();
    let counts: Vec<String> = counts(r).into_iter().map(|(class, n)| format!("{n} {class}")).collect();
    let _ = writeln!(out, "{}: {}", plural(r.changes.len(), "rewrite"), counts.join(", "));
    let (before, after) = (fuse::cost(&r.before, r.platform), fuse::cost(&r.after, r.platform));
    let _ = writeln!(
        out,
        "{} before, {} after; by the optimizer's clock for {} {} before, {} after{}",
        plural(ops(&r.before), "op"),
        ops(&r.after),
        r.platform.name(),
        time(before),
        time(after),
        if after > before { " (formulations go by what was measured, which it does not know)" } else { "" }
    );
    for (place, changes) in by_line(r) {
        let _ = writeln!(out, "\n{place}");
        let mut rules: BTreeMap<(&str, String), (usize, Class)> = BTreeMap::new();
        for change in changes {
            rules.entry((change.rule, became(change))).or_insert((0, change.class)).0 += 1;
        }
        for ((rule, became), (count, class)) in rules {
            let times = if count == 1 { String::new() } else { format!(" x{count}") };
            let _ = writeln!(out, "  {:<36} {:<19} {}", format!("{rule}{times}"), class.name(), fuse::why(rule));
            let _ = writeln!(out, "      {became}");
        }
    }
    regions_text(r, &mut out);
    out
}

/// The op before and those after, runs of one op told once.
fn became(change: &Change) -> String {
    let mut after: Vec<(String, usize)> = vec![];
    for op in change.after.iter().map(ToString::to_string) {
        match after.last_mut() {
            Some((last, count)) if *last == op => *count += 1,
            _ => after.push((op, 1)),
        }
    }
    let several = |(op, count): &(String, usize)| if *count == 1 { op.clone() } else { format!("{op} x{count}") };
    format!("{} -> {}", change.before, after.iter().map(several).collect::<Vec<_>>().join(", "))
}

/// What runs together: the regions that take longest, in the order of the program.
fn regions_text(r: &Rewritten, out: &mut String) {
    let regions = r.regions();
    let sum = |of: fn(&Region) -> u64| regions.iter().map(of).sum::<u64>();
    let _ = writeln!(
        out,
        "\n{} for {}: {} by what bounds each, {} moved, {} kept on the chip",
        plural(regions.len(), "region"),
        r.platform.name(),
        time(sum(|r| r.picoseconds)),
        bytes(sum(Region::moved)),
        bytes(sum(|r| r.kept))
    );
    let mut longest: Vec<usize> = (0..regions.len()).collect();
    longest.sort_by_key(|&i| std::cmp::Reverse(regions[i].picoseconds));
    longest.truncate(SHOWN);
    longest.sort_unstable();
    for i in longest {
        let region = &regions[i];
        let loc = r.after.locs.get(r.after.node(region.root).loc);
        let _ = writeln!(
            out,
            "{i:>4}  {:<28} {:>10} {:<11} {} in, {} out, {} kept   {}",
            region.name,
            time(region.picoseconds),
            region.bound,
            bytes(region.read),
            bytes(region.written),
            bytes(region.kept),
            place(loc)
        );
        for gain in &region.gains {
            let _ = writeln!(out, "        {gain}");
        }
        for border in &region.borders {
            let _ =
                writeln!(out, "        apart from {} {}: {}", border.region, regions[border.region].name, border.why);
        }
    }
    if regions.len() > SHOWN {
        let _ = writeln!(out, "{} more take less; --format json has them", regions.len() - SHOWN);
    }
}

fn bytes(count: u64) -> String {
    report::bytes(count as f64)
}

fn plural(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

fn time(picoseconds: u64) -> String {
    let ps = picoseconds as f64;
    match picoseconds {
        0..1_000_000 => format!("{:.1} ns", ps / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} us", ps / 1e6),
        _ => format!("{:.1} ms", ps / 1e9),
    }
}

fn ops(graph: &ir::Graph) -> usize {
    graph.nodes().len() - graph.inputs.len()
}

fn counts(r: &Rewritten) -> BTreeMap<&'static str, usize> {
    let classes = [Class::Exact, Class::Reassociating, Class::PrecisionChanging];
    classes.map(|c| (c.name(), r.changes.iter().filter(|change| change.class == c).count())).into_iter().collect()
}

/// The changes of each source line, in the order of the program.
fn by_line(r: &Rewritten) -> Vec<(String, Vec<&Change>)> {
    let mut lines: Vec<(String, Vec<&Change>)> = vec![];
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    for change in &r.changes {
        let loc = r.after.locs.get(change.locs.first().copied().unwrap_or(LocId::UNKNOWN));
        let at = *known.entry(place(loc)).or_insert(lines.len());
        if at == lines.len() {
            lines.push((place(loc), vec![]));
        }
        lines[at].1.push(change);
    }
    lines
}

fn place(loc: &Loc) -> String {
    let at = if loc.file.is_empty() { "unknown line".to_owned() } else { format!("{}:{}", loc.file, loc.line) };
    let function = if loc.function.is_empty() { String::new() } else { format!(" in {}", loc.function) };
    let module = if loc.module.is_empty() { String::new() } else { format!(" ({})", loc.module) };
    format!("{at}{function}{module}")
}

fn data(r: &Rewritten) -> Value {
    let line = |&id: &LocId| {
        let loc = r.after.locs.get(id);
        json!({ "file": &*loc.file, "line": loc.line, "function": &*loc.function, "module": &*loc.module, "op": &*loc.op })
    };
    let change = |c: &Change| {
        let places: Vec<Value> = c.locs.iter().map(line).collect();
        let after: Vec<String> = c.after.iter().map(ToString::to_string).collect();
        json!({
            "rule": c.rule,
            "class": c.class.name(),
            "why": fuse::why(c.rule),
            "places": places,
            "before": c.before.to_string(),
            "after": after,
        })
    };
    json!({
        "schema": SCHEMA,
        "program": r.before.name,
        "platform": r.platform.name(),
        "ops": { "before": ops(&r.before), "after": ops(&r.after) },
        "picoseconds": { "before": fuse::cost(&r.before, r.platform), "after": fuse::cost(&r.after, r.platform) },
        "counts": counts(r),
        "changes": r.changes.iter().map(change).collect::<Vec<_>>(),
        "regions": r.regions().iter().map(|region| region_data(r, region)).collect::<Vec<_>>(),
    })
}

/// A region; values are numbered as `--stage fused` prints them.
fn region_data(r: &Rewritten, region: &Region) -> Value {
    let numbers = |values: &[ValueId]| values.iter().map(|v| v.index()).collect::<Vec<_>>();
    let inputs = region.inputs.iter().map(|(v, bytes)| json!({ "value": v.index(), "bytes": bytes }));
    let borders = region.borders.iter().map(|b| json!({ "region": b.region, "why": b.why }));
    let loc = r.after.locs.get(r.after.node(region.root).loc);
    json!({
        "name": region.name,
        "place": { "file": &*loc.file, "line": loc.line, "function": &*loc.function, "module": &*loc.module, "op": &*loc.op },
        "members": numbers(&region.members),
        "remade": numbers(&region.remade),
        "inputs": inputs.collect::<Vec<_>>(),
        "outputs": numbers(&region.outputs),
        "bytes": { "read": region.read, "written": region.written, "kept": region.kept },
        "working_set": region.working_set,
        "picoseconds": region.picoseconds,
        "bound": region.bound,
        "gains": region.gains,
        "borders": borders.collect::<Vec<_>>(),
    })
}
