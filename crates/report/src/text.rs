//! A report for a terminal: at most so many columns, the same bytes for the same report.
//!
//! What differs only in the numbers of a module's path (the layers of a stack) is one row here, with `*` for the numbers
//! and how many rows it stands for.

mod slices;
mod units;

use std::collections::{BTreeMap, HashMap};

use crate::{Cost, Finding, Memory, Report, Severity, Source};
pub use units::bytes;
use units::{flops, rate, seconds, share};

/// Columns of a text that no terminal shows.
pub const COLUMNS: usize = 100;
/// Columns without which tables are no tables.
const LEAST_COLUMNS: usize = 80;
/// Rows of each table; what is left is summed up in one more.
const ROWS: usize = 12;

/// The report as text of so many `columns`, of which it takes at least 80.
pub fn text(report: &Report, columns: usize) -> String {
    let mut page = Page::new(columns);
    head(report, &mut page);
    if let Some(memory) = &report.memory {
        self::memory(memory, report.target.hbm_bytes, &mut page);
    }
    if let Some(cost) = &report.cost {
        time(cost, &mut page);
        regions(cost, &mut page);
        padding(cost, &mut page);
        collectives(cost, &mut page);
    }
    if let Some(plan) = &report.slices {
        slices::slices(plan, &report.target.name, &mut page);
    }
    findings(&report.findings, &mut page);
    page.text
}

struct Page {
    text: String,
    columns: usize,
}

impl Page {
    fn new(columns: usize) -> Page {
        Page { text: String::new(), columns: columns.max(LEAST_COLUMNS) }
    }

    /// One line, cut to the page's width.
    fn line(&mut self, line: &str) {
        self.text.push_str(head_of(line.trim_end(), self.columns).trim_end());
        self.text.push('\n');
    }

    /// A section's title, a line above it left free.
    fn title(&mut self, title: &str, says: &str) {
        self.line("");
        self.line(&format!("{title}  {says}"));
    }

    /// `file:line`, of a path longer than three tenths of a line the end.
    fn place(&self, source: &Source) -> String {
        place(source, self.columns * 3 / 10)
    }

    /// Prose, broken at spaces; lines after the first are indented.
    fn prose(&mut self, first: &str, text: &str, indent: usize) {
        let mut line = first.to_owned();
        let mut is_empty = true;
        for word in text.split_whitespace() {
            if !is_empty && columns(&line) + 1 + columns(word) > self.columns {
                self.line(&line);
                line = " ".repeat(indent);
                is_empty = true;
            }
            if !is_empty {
                line.push(' ');
            }
            line.push_str(word);
            is_empty = false;
        }
        self.line(&line);
    }

    /// Rows of cells, each column as wide as its widest cell: the first `numbers` to the right, others to the left. The
    /// last column has what is left of the page; of what is longer there, the beginning
    /// is shown, or the end if it is a path.
    fn table(&mut self, numbers: usize, titles: &[&str], rows: &[Vec<String>]) {
        let titles: Vec<String> = titles.iter().map(|it| (*it).to_owned()).collect();
        let mut widths = vec![0; titles.len()];
        for row in std::iter::once(&titles).chain(rows) {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = columns(cell).max(*width);
            }
        }
        let last = titles.len().saturating_sub(1);
        let left = self.columns.saturating_sub(widths[..last].iter().map(|width| width + 2).sum::<usize>() + 2);
        for row in std::iter::once(&titles).chain(rows) {
            let mut line = String::new();
            for (number, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                let shortened = if titles[last] == "what" { tail_of(cell, left) } else { head_of(cell, left) };
                let cell = if number == last { shortened.as_str() } else { cell };
                let padding = " ".repeat(width.saturating_sub(columns(cell)));
                line.push_str("  ");
                let (before, after) = if number < numbers { (padding.as_str(), "") } else { ("", padding.as_str()) };
                line.extend([before, cell, after]);
            }
            self.line(&line);
        }
    }
}

fn head(report: &Report, page: &mut Page) {
    let Report { program, target, verdict, .. } = report;
    page.line(&format!("{} on {}", program.name, target.name));
    page.prose(if verdict.runs { "RUNS   " } else { "FAILS  " }, &verdict.summary, 7);
    for advice in &verdict.advice {
        page.prose("       - ", advice, 9);
    }
    page.line("");
    let devices = match target.devices_used == target.num_devices {
        true => count_of(target.num_devices as u64, "device"),
        false => format!("{} of {}", target.devices_used, count_of(target.num_devices as u64, "device")),
    };
    // A program that is refused meets neither the devices nor their compiler.
    let meets = |what: String, met: &str| if met.is_empty() { String::new() } else { what };
    let kind = meets(format!("{}, ", target.device_kind), &target.device_kind);
    let compiler = meets(format!(", compiled by libtpu {}", target.compiler), &target.compiler);
    page.line(&format!("Target    {kind}{devices}{compiler}"));
    page.line(&format!(
        "          each {} bf16, {} HBM at {}, {} VMEM",
        rate(target.peak_flops, "FLOP/s"),
        bytes(target.hbm_bytes as f64),
        rate(target.hbm_bandwidth, "B/s"),
        bytes(target.vmem_bytes as f64),
    ));
    let hash = meets(format!(", {:.12}", program.hash), &program.hash);
    // Of a program that came as StableHLO, none were traced.
    let ops = if program.num_ops == 0 { "StableHLO".to_owned() } else { count_of(program.num_ops as u64, "traced op") };
    page.line(&format!("Program   {ops}{hash}"));
}

/// Rows that are shown as one.
#[derive(Default)]
struct Group {
    rows: usize,
    sums: [f64; 4],
}

/// A kind, a place and what is there, and the sums of what has them.
type Groups = Vec<((String, String, String), Group)>;

/// Groups in falling order of their first sum, then by name.
fn grouped(rows: impl Iterator<Item = ((String, String, String), [f64; 4])>) -> Groups {
    let mut groups: BTreeMap<(String, String, String), Group> = BTreeMap::new();
    for (key, values) in rows {
        let group = groups.entry(key).or_default();
        group.rows += 1;
        group.sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by(|a, b| b.1.sums[0].total_cmp(&a.1.sums[0]));
    groups
}

fn memory(memory: &Memory, limit: u64, page: &mut Page) {
    let peak = memory.peak as f64;
    let of_limit =
        if limit > 0 { format!(" of {} ({})", bytes(limit as f64), share(peak / limit as f64)) } else { String::new() };
    page.title("Memory", &format!("{} at the peak{of_limit}", bytes(peak)));
    let aliased = match memory.aliased {
        0 => String::new(),
        aliased => format!(" ({} in arguments' place)", bytes(aliased as f64)),
    };
    page.line(&format!(
        "  arguments {}, results {}{aliased}, temporaries {}",
        bytes(memory.arguments as f64),
        bytes(memory.outputs as f64),
        bytes(memory.temporaries as f64),
    ));
    page.line(&format!(
        "  code and constants {}, VMEM at most {}",
        bytes(memory.code as f64),
        bytes(memory.vmem_peak as f64)
    ));
    page.line("");
    let keyed = memory.holders.iter().map(|holder| {
        let what = match (holder.kind.as_str(), holder.values.first()) {
            ("argument", Some(name)) => starred(name),
            _ => what(&holder.source),
        };
        let padding = holder.bytes - holder.unpadded.min(holder.bytes);
        ((holder.kind.clone(), page.place(&holder.source), what), [holder.bytes as f64, padding as f64, 0.0, 0.0])
    });
    let groups = grouped(keyed);
    let mut rows: Vec<Vec<String>> = groups
        .iter()
        .take(ROWS)
        .map(|((kind, place, what), group)| {
            let [size, padding, ..] = group.sums;
            let padding = share_or_none(padding / size);
            vec![bytes(size), share(size / peak), padding, times(group.rows), kind.clone(), place.clone(), what.clone()]
        })
        .collect();
    let rest = |size: f64, what: String| {
        let none = String::new;
        vec![bytes(size), share(size / peak), none(), none(), none(), none(), what]
    };
    if groups.len() > ROWS {
        let size = groups[ROWS..].iter().map(|it| it.1.sums[0]).sum();
        rows.push(rest(size, format!("{} more", groups.len() - ROWS)));
    }
    let fragmentation = memory.unattributed.saturating_sub(memory.reserved);
    for (size, what) in [(fragmentation, "fragmentation"), (memory.reserved, "reserved by the compiler")] {
        if size > 0 {
            rows.push(rest(size as f64, what.to_owned()));
        }
    }
    page.table(4, &["held", "share", "padding", "", "kind", "line", "what"], &rows);
}

fn time(cost: &Cost, page: &mut Page) {
    page.title(
        "Time",
        &format!("{} a run at the least, {} of the peak's FLOPs", seconds(cost.seconds), share(cost.peak_share)),
    );
    page.line(&format!(
        "  {}, {} through HBM, {} transcendentals",
        flops(cost.flops),
        bytes(cost.hbm_bytes),
        units::count(cost.transcendentals),
    ));
    let mut bounds: BTreeMap<&str, f64> = BTreeMap::new();
    cost.regions.iter().for_each(|region| *bounds.entry(&region.bound).or_default() += region.seconds);
    let mut bounds: Vec<_> = bounds.into_iter().filter(|it| it.1 > 0.0).collect();
    bounds.sort_by(|a, b| b.1.total_cmp(&a.1));
    let bounds: Vec<String> =
        bounds.iter().map(|(bound, it)| format!("{bound} {}", share(it / cost.seconds))).collect();
    if !bounds.is_empty() {
        page.line(&format!("  bound by: {}", bounds.join(", ")));
    }
    page.line("");
    let keyed = cost.lines.iter().map(|line| {
        let key = (String::new(), page.place(&line.source), what(&line.source));
        (key, [line.seconds, line.flops, line.hbm_bytes, line.share])
    });
    let groups = grouped(keyed);
    let mut rows: Vec<Vec<String>> = groups
        .iter()
        .take(ROWS)
        .map(|((_, place, what), group)| {
            let [time, work, moved, part] = group.sums;
            vec![seconds(time), share(part), flops(work), bytes(moved), times(group.rows), place.clone(), what.clone()]
        })
        .collect();
    if groups.len() > ROWS {
        let sum = |number: usize| groups[ROWS..].iter().map(|it| it.1.sums[number]).sum::<f64>();
        let more = format!("{} more", groups.len() - ROWS);
        rows.push(vec![
            seconds(sum(0)),
            share(sum(3)),
            flops(sum(1)),
            bytes(sum(2)),
            String::new(),
            String::new(),
            more,
        ]);
    }
    page.table(5, &["time", "share", "work", "HBM", "", "line", "what"], &rows);
}

fn regions(cost: &Cost, page: &mut Page) {
    let mut slowest: Vec<_> = cost.regions.iter().collect();
    slowest.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    slowest.truncate(ROWS);
    if slowest.is_empty() {
        return;
    }
    page.title(
        "Regions",
        &format!("the slowest {} of the {} that the compiler launches", slowest.len(), cost.regions.len()),
    );
    page.line("");
    let rows: Vec<Vec<String>> = slowest
        .into_iter()
        .map(|region| {
            let runs = if region.runs == 1.0 { String::new() } else { format!("{}x", units::count(region.runs)) };
            vec![
                seconds(region.seconds),
                flops(region.flops),
                bytes(region.hbm_bytes),
                runs,
                region.bound.clone(),
                page.place(&region.source),
                region.name.clone(),
            ]
        })
        .collect();
    page.table(4, &["time", "work", "HBM", "", "bound by", "line", "region"], &rows);
}

fn padding(cost: &Cost, page: &mut Page) {
    if cost.padding.is_empty() {
        return;
    }
    page.title("Padding", "products whose shapes waste the matrix unit; rows x contracted x columns");
    page.line("");
    // Most waste first, as they come.
    let mut rows: Vec<(Vec<String>, usize)> = Vec::new();
    let mut seen: HashMap<(String, [u64; 4]), usize> = HashMap::new();
    for product in &cost.padding {
        let place = page.place(&product.source);
        if let Some(&row) = seen.get(&(place.clone(), product.shape)) {
            rows[row].1 += 1;
            continue;
        }
        seen.insert((place.clone(), product.shape), rows.len());
        let of = |[batch, rest @ ..]: [u64; 4]| {
            let extents = rest.map(|it| it.to_string()).join("x");
            if batch > 1 { format!("{batch} of {extents}") } else { extents }
        };
        rows.push((vec![share(product.waste), String::new(), of(product.shape), place, of(product.padded)], 1));
    }
    let more = rows.len().saturating_sub(ROWS);
    let rows = rows.into_iter().take(ROWS).map(|(mut row, count)| {
        row[1] = times(count);
        row
    });
    page.table(2, &["wasted", "", "shape", "line", "would fill it"], &rows.collect::<Vec<_>>());
    if more > 0 {
        page.line(&format!("  {more} more"));
    }
}

fn collectives(cost: &Cost, page: &mut Page) {
    if cost.collectives.is_empty() {
        return;
    }
    let sent: f64 = cost.collectives.iter().map(|it| it.bytes).sum();
    page.title("Collectives", &format!("each device sends {}", bytes(sent)));
    page.line("");
    let rows = cost.collectives.iter().map(|it| vec![bytes(it.bytes), units::count(it.count), it.kind.clone()]);
    page.table(2, &["sent", "runs", "kind"], &rows.collect::<Vec<_>>());
}

fn findings(findings: &[Finding], page: &mut Page) {
    if findings.is_empty() {
        return;
    }
    page.title("Findings", &findings.len().to_string());
    for finding in findings {
        let severity = match finding.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        };
        page.line("");
        page.prose(&format!("  {severity} [{}]: ", finding.kind), &finding.message, 4);
        if !finding.source.file.is_empty() {
            let within = [finding.source.module.as_str(), finding.source.op.as_str()];
            let within: Vec<&str> = within.into_iter().filter(|it| !it.is_empty()).collect();
            page.line(&format!("    at {}:{}  {}", finding.source.file, finding.source.line, within.join(" ")));
        }
        if let Some(help) = &finding.help {
            page.prose("    help: ", help, 10);
        }
    }
}

/// `file:line`, of a path of more than `most` columns the end.
fn place(source: &Source, most: usize) -> String {
    if source.file.is_empty() {
        return String::new();
    }
    let place = format!("{}:{}", source.file, source.line);
    if columns(&place) <= most {
        return place;
    }
    // Whole components, as long as one fits.
    let fits = place.match_indices('/').map(|(at, _)| &place[at + 1..]).find(|tail| columns(tail) + 2 <= most);
    let tail = fits.map(|tail| format!("…/{tail}"));
    tail.unwrap_or_else(|| place.chars().skip(columns(&place) - most).collect())
}

/// The module, or else the op.
fn what(source: &Source) -> String {
    match (source.module.as_str(), source.op.as_str()) {
        ("", "") => {
            if source.file.is_empty() {
                "made by the compiler".to_owned()
            } else {
                String::new()
            }
        }
        ("", op) => op.to_owned(),
        (module, _) => starred(module),
    }
}

/// A path with `*` for the components that are numbers.
fn starred(path: &str) -> String {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|it| it.is_ascii_digit());
    let parts: Vec<&str> = path.split('.').map(|part| if is_number(part) { "*" } else { part }).collect();
    parts.join(".")
}

/// How many there are, in words: `1 chip`, `4 chips`.
fn count_of(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// For how many a row stands, if for more than one.
fn times(count: usize) -> String {
    if count > 1 { format!("{count}x") } else { String::new() }
}

fn share_or_none(part: f64) -> String {
    if part > 0.0005 { share(part) } else { String::new() }
}

fn columns(text: &str) -> usize {
    text.chars().count()
}

/// The beginning of a text that is too long.
fn head_of(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    text.chars().take(width - 1).chain(['…']).collect()
}

/// The end of a text that is too long, from a component of a path on where there is one.
fn tail_of(text: &str, width: usize) -> String {
    let surplus = columns(text).saturating_sub(width);
    if surplus == 0 {
        return text.to_owned();
    }
    let tail: String = text.chars().skip(surplus + 1).collect();
    let component = tail.find('.').filter(|at| at + 1 < tail.len()).map_or(0, |at| at + 1);
    format!("…{}", &tail[component..])
}

#[cfg(test)]
mod tests;
