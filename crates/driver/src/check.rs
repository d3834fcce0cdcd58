//! Whether a program would run on a TPU, and what it would cost: the report.

use crate::ahead::{Ahead, Slot};
use crate::error::{Error, Result};
use crate::findings;
use crate::optimize::Rewritten;
use crate::partitioned::Partitioning;
use crate::program::{DimValues, Program};
use crate::verdict::{is_out_of_memory, verdict};
use aot::{Machine, Pool};
use ir::ErrorKind;
use report::{Argument, Finding, Input, Report, Severity, Slices, Source, SourceText, Stats, Verdict};
use runtime::MemoryAnalysis;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use target::Target;

/// Lines shown before and after one that a report names.
const CONTEXT: u32 = 4;

impl Program {
    /// Compiles the program, called `name`, for these sizes and one device of `target`, or as many as
    /// `by` spreads it over, and reports on it; with a number of `slices`, also on as many that train together.
    ///
    /// # Errors
    /// As [`Program::compile_ahead`]. What keeps the program from running on the target is in the report.
    pub fn check(
        &self,
        name: &str,
        dims: &DimValues,
        by: Option<&Partitioning>,
        target: &Target,
        slices: Option<NonZeroU32>,
        pool: &Pool,
    ) -> Result<Report> {
        let obstacles = findings::obstacles(self);
        if !obstacles.is_empty() {
            return Ok(self.obstructed(name, target, obstacles));
        }
        match self.compile_ahead(dims, by, target, pool) {
            Ok(ahead) => {
                let mut report = self.report(name, dims, &ahead)?;
                report.slices = slices.and_then(|count| ahead.on_slices(count, &report));
                Ok(report)
            }
            Err(Error::Program(error)) if matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::DataDependent) => {
                let is_data = error.kind() == ErrorKind::DataDependent;
                let finding = Finding {
                    severity: Severity::Error,
                    kind: if is_data { "data-dependent-shape" } else { "unlowered" }.to_owned(),
                    message: error.message().to_owned(),
                    help: error.help().map(str::to_owned),
                    source: error.loc().map(findings::source).unwrap_or_default(),
                };
                Ok(self.obstructed(name, target, vec![finding]))
            }
            Err(error) => Err(error),
        }
    }

    /// What became of the program on a target, as a report.
    ///
    /// # Errors
    /// As [`Program::import`].
    pub fn report(&self, name: &str, dims: &DimValues, ahead: &Ahead) -> Result<Report> {
        let imported = self.import(dims)?;
        let consulted = imported.consulted.keys().map(|symbol| symbol.to_string()).collect();
        let mut report = ahead.report(name);
        report.program.num_ops = self.num_nodes();
        report.findings.extend(findings::dtypes(&imported.graph));
        report.findings.extend(findings::dynamic_shapes(self, &consulted));
        report.findings.sort_by_key(|finding| finding.severity);
        Ok(self.with_sources(report))
    }

    /// The report on a program that cannot be compiled as one.
    fn obstructed(&self, name: &str, target: &Target, findings: Vec<Finding>) -> Report {
        let count = findings.len();
        let places = if count == 1 { "one place".to_owned() } else { format!("{count} places") };
        let verdict = Verdict {
            runs: false,
            summary: format!("does not run as one program: {places} cannot be compiled"),
            advice: findings.first().and_then(|finding| finding.help.clone()).into_iter().collect(),
        };
        let report = Report {
            schema: report::SCHEMA,
            program: self.named(name, String::new()),
            target: unseen(target),
            verdict,
            findings,
            memory: None,
            cost: None,
            slices: None,
            rewrites: None,
            sources: vec![],
        };
        self.with_sources(report)
    }

    fn named(&self, name: &str, hash: String) -> report::Program {
        report::Program { name: name.to_owned(), num_ops: self.num_nodes(), hash }
    }

    /// `report` with the source that it names, as far as this machine has it.
    fn with_sources(&self, mut report: Report) -> Report {
        let sources = self.source_around(&report.named_lines());
        report.sources = sources;
        report
    }

    /// The source around these lines, as far as this machine has it.
    fn source_around(&self, named: &BTreeMap<&str, BTreeSet<u32>>) -> Vec<SourceText> {
        let paths: BTreeMap<String, String> = self.source_files();
        let read = |(file, lines): (&&str, _)| {
            let text = std::fs::read_to_string(paths.get(*file)?).ok()?;
            Some(SourceText::around(file, &text, lines, CONTEXT))
        };
        named.iter().filter_map(read).collect()
    }

    /// What the optimizer changed, and what it plans to run together, as a page.
    pub fn rewrites_page(&self, name: &str, rewritten: &Rewritten) -> String {
        let (rewrites, planned) = (rewritten.report(), rewritten.planned());
        let sources = self.source_around(&rewrites.named_lines(&planned));
        report::rewrites_html(name, &rewrites, &planned, &sources)
    }
}

impl Ahead {
    /// So many slices that train together, planned from the `report` on one; `None` if the program does not run on one, or
    /// if it is not known what it trains.
    fn on_slices(&self, count: NonZeroU32, report: &Report) -> Option<Slices> {
        Slices::plan(count.get(), report, &self.target, self.training.as_ref()?)
    }

    /// What is known of the compiled program, called `name`, without its trace.
    pub fn report(&self, name: &str) -> Report {
        let arguments: Vec<Argument> = self.interface.inputs.iter().map(argument).collect();
        let stats = self.outcome.result.as_ref().ok().map(|compiled| stats(&compiled.memory));
        let optimized = self.outcome.result.as_ref().ok().and_then(|compiled| compiled.optimized.as_ref());
        let chip = self.target.chip();
        let devices = u32::try_from(self.num_partitions).unwrap_or(u32::MAX);
        let input = Input { arguments: &arguments, stats, optimized, chip, devices };
        let analysed = self.outcome.dump.as_ref().map(|dump| report::analyse(dump, &input));
        let (memory, cost) = analysed.map_or((None, None), |(memory, cost)| (memory, Some(cost)));
        // What a refused program would have cost is of no use, and half of it is not known. Who holds its memory is of use
        // where that is why it was refused.
        let cost = cost.filter(|_| self.outcome.result.is_ok());
        let memory = memory.filter(|_| self.outcome.result.as_ref().err().is_none_or(|it| is_out_of_memory(it)));
        let target = seen(&self.target, &self.outcome.machine, self.num_partitions);
        let num_ops = 0;
        Report {
            schema: report::SCHEMA,
            program: report::Program { name: name.to_owned(), num_ops, hash: self.hash.clone() },
            verdict: verdict(self, memory.as_ref()),
            target,
            findings: refusal(self),
            memory,
            cost,
            slices: None,
            rewrites: self.rewrites.clone(),
            sources: vec![],
        }
    }
}

/// A target as libtpu describes it.
fn seen(target: &Target, machine: &Machine, devices_used: usize) -> report::Target {
    report::Target {
        devices_used,
        device_kind: machine.device_kind.clone(),
        num_devices: machine.num_devices,
        compiler: machine.platform_version.replace('\n', ", "),
        hbm_bytes: machine.hbm_bytes,
        ..unseen(target)
    }
}

/// A target that libtpu was not asked about.
fn unseen(target: &Target) -> report::Target {
    let chip = target.chip();
    report::Target {
        name: target.to_string(),
        device_kind: String::new(),
        num_devices: target.num_chips() as usize * chip.devices as usize,
        devices_used: 1,
        compiler: String::new(),
        peak_flops: chip.device_flops(),
        hbm_bandwidth: chip.device_hbm_bandwidth(),
        hbm_bytes: chip.device_hbm_bytes(),
        vmem_bytes: chip.vmem_bytes,
    }
}

/// An argument as a report names it: a parameter belongs to the module that its qualified name begins with. A captured
/// function's parameters are named likewise, its other arguments by position or without a dot.
fn argument(slot: &Slot) -> Argument {
    let is_position = |last: &str| last.bytes().all(|byte| byte.is_ascii_digit());
    let parts = slot.name.rsplit_once('.').filter(|(_, last)| !is_position(last));
    let module = parts.map_or("", |(module, _)| module);
    Argument { name: slot.name.clone(), source: Source { module: module.to_owned(), ..Source::default() } }
}

fn stats(memory: &MemoryAnalysis) -> Stats {
    let bytes = |count: i64| u64::try_from(count).unwrap_or(0);
    Stats {
        arguments: bytes(memory.arguments),
        outputs: bytes(memory.outputs),
        aliased: bytes(memory.aliased),
        temporaries: bytes(memory.temporaries),
        code: bytes(memory.generated_code),
    }
}

/// The compiler's refusal, as a finding.
fn refusal(ahead: &Ahead) -> Vec<Finding> {
    let Err(message) = &ahead.outcome.result else { return vec![] };
    let kind = if is_out_of_memory(message) { "memory" } else { "compiler" };
    vec![Finding {
        severity: Severity::Error,
        kind: kind.to_owned(),
        message: message.trim().to_owned(),
        help: None,
        source: Source::default(),
    }]
}
