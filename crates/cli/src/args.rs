//! The command line.

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use ir::sharding::{Mesh, Rule};
use std::num::NonZeroU32;
use std::path::PathBuf;
use target::Target;

/// Shows, checks, compiles and runs traced PyTorch programs.
///
/// TRACE is a trace.json, a .pt2 from torch.export.save, or, where it makes sense, a .mlir; `-` is standard input.
///
/// Exit status: 0 done, 1 the program was rejected, 2 the tool could not do its work.
#[derive(Debug, Parser)]
#[command(name = "tputc", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) global: Global,
}

#[derive(Debug, Args)]
pub(crate) struct Global {
    /// Colour in diagnostics
    #[arg(long, global = true, value_enum, default_value_t = When::Auto)]
    pub(crate) color: When,
    /// Say nothing but errors
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// Say more: times of each step
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
    /// Diagnostics as text for people or, as with `--format json`, a JSON object a line
    #[arg(long, global = true, value_enum, default_value_t = Diagnostics::Text)]
    pub(crate) diagnostics: Diagnostics,
}

impl Cli {
    /// Whether what goes to standard error is asked for as data.
    pub(crate) fn wants_json(&self) -> bool {
        let format = match &self.command {
            Command::Lower(args) => args.format == LowerFormat::Json,
            Command::Fuse(args) => args.format == FuseFormat::Json,
            Command::Run(args) => args.format == ReportFormat::Json,
            Command::Ops(args) => args.format == OpsFormat::Json,
            Command::Doctor(args) => args.format == ReportFormat::Json,
            Command::Check(args) => args.format == CheckFormat::Json,
            Command::Compile(args) => args.format == ReportFormat::Json,
            Command::Completions { .. } | Command::Man { .. } | Command::Worker { .. } => false,
        };
        format || self.global.diagnostics == Diagnostics::Json
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum When {
    Auto,
    Always,
    Never,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Diagnostics {
    Text,
    Json,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show what a program becomes
    Lower(Lower),
    /// Show what the optimizer rewrites in a program, and why
    Fuse(Fuse),
    /// Run a program
    Run(Run),
    /// Tell whether a program would run on a TPU, what it would cost, and who pays; needs no TPU
    Check(Check),
    /// Compile a program for a TPU; needs no TPU
    Compile(Compile),
    /// List every aten overload that has a lowering
    Ops(Ops),
    /// Show plugins, versions, devices and caches, and what is missing
    Doctor(Doctor),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the manual page, of all or of one command
    Man {
        /// The command
        command: Option<String>,
    },
    /// Compile what a parent process asks for
    #[command(hide = true)]
    Worker {
        /// libtpu's library
        libtpu: PathBuf,
        /// Where its files go; removed in the end
        folder: PathBuf,
    },
}

/// The program, and what is fixed about it.
#[derive(Debug, Args)]
pub(crate) struct Source {
    /// The program
    #[arg(value_name = "TRACE")]
    pub(crate) trace: PathBuf,
    /// Fix a symbolic dimension; may be repeated
    #[arg(long = "dim", value_name = "SYMBOL=SIZE", value_parser = dim)]
    pub(crate) dims: Vec<(String, i64)>,
    /// Precision of f32 matrix products and convolutions on hardware that has several
    #[arg(long, value_enum, default_value_t = Precision::Highest)]
    pub(crate) precision: Precision,
    /// Leave the program as it was traced
    #[arg(long)]
    pub(crate) no_optimize: bool,
    /// What the optimizer may do to results
    #[arg(long, value_enum, default_value_t = Numerics::Reassociate)]
    pub(crate) numerics: Numerics,
    /// Make only the first N rewrites, to find a wrong one
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,
}

impl Source {
    /// What reports call the program: the name of its file.
    pub(crate) fn title(&self) -> String {
        let file = self.trace.file_name().filter(|&name| name != "-");
        file.map_or_else(|| "standard input".to_owned(), |name| name.to_string_lossy().into_owned())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Numerics {
    /// Round and sum as PyTorch does
    Exact,
    /// Also sum in another order; 16-bit floats stay in f32 between ops
    Reassociate,
    /// Also leave out roundings
    Fast,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Precision {
    Default,
    High,
    Highest,
}

#[derive(Debug, Args)]
pub(crate) struct Lower {
    #[command(flatten)]
    pub(crate) source: Source,
    /// The stage to show
    #[arg(long, value_enum, default_value_t = Stage::Stablehlo)]
    pub(crate) stage: Stage,
    /// How to write the program, and diagnostics
    #[arg(long, value_enum, default_value_t = LowerFormat::Text)]
    pub(crate) format: LowerFormat,
    /// The plugin whose optimizer `--stage hlo` shows: cpu, tpu or a path
    #[arg(long, conflicts_with = "target")]
    pub(crate) plugin: Option<String>,
    /// Show what it becomes for a TPU slice, such as v5e:2x2; the hlo stage is libtpu's then, and needs no TPU
    #[arg(long, value_name = "SLICE")]
    pub(crate) target: Option<Target>,
    #[command(flatten)]
    pub(crate) ahead: Ahead,
    /// Write to FILE instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Fuse {
    #[command(flatten)]
    pub(crate) source: Source,
    /// What to optimize for
    #[arg(long, value_enum, default_value_t = For::Cpu)]
    pub(crate) platform: For,
    /// How to tell it
    #[arg(long, value_enum, default_value_t = FuseFormat::Text)]
    pub(crate) format: FuseFormat,
    /// Write to FILE instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FuseFormat {
    /// For people
    Text,
    /// As JSON (docs/optimizer.md)
    Json,
    /// One page that needs nothing else
    Html,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum For {
    /// XLA's CPU plugin
    Cpu,
    /// A TPU
    Tpu,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Stage {
    /// Our graph of core ops
    Core,
    /// The same after our own optimizer
    Fused,
    /// What the plugin is given
    Stablehlo,
    /// What the plugin's optimizer made of it
    Hlo,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LowerFormat {
    /// As text
    Text,
    /// As the bytecode the plugin is given
    Bytecode,
    /// As text; diagnostics as JSON
    Json,
}

/// For commands that only tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportFormat {
    /// For people
    Text,
    /// As JSON
    Json,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) source: Source,
    /// The plugin: cpu, tpu or a path [default: TORCHTPU_PLUGIN, else cpu]
    #[arg(long)]
    pub(crate) plugin: Option<String>,
    /// Inputs by name; also parameters, buffers and optimizer state: where TRACE has come without their values, or instead
    /// of these
    #[arg(long, value_name = "IN.safetensors")]
    pub(crate) inputs: Option<PathBuf>,
    /// Draw what has no value otherwise from this seed
    #[arg(long, value_name = "SEED")]
    pub(crate) random: Option<u64>,
    /// Run N times, each on the same values, and report the times of all but the first, which compiles
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repeat: u32,
    /// How to tell results, times and diagnostics
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub(crate) format: ReportFormat,
    /// Write the results, named out.0, out.1, ...
    #[arg(short, long, value_name = "OUT.safetensors")]
    pub(crate) output: Option<PathBuf>,
    /// Write what the inputs that the program updates have become, by their names
    #[arg(long, value_name = "NEXT.safetensors")]
    pub(crate) updated: Option<PathBuf>,
}

/// TPUs that are not there, and the compiler for them.
#[derive(Debug, Args)]
pub(crate) struct Ahead {
    /// libtpu's library [default: the one that is installed beside tputc or in VIRTUAL_ENV]
    #[arg(long, value_name = "FILE")]
    pub(crate) libtpu: Option<PathBuf>,
    /// Compile for N targets at once
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) jobs: u16,
    /// Spread the program over the slice's devices, arranged along these axes
    #[arg(long, value_name = "AXIS=SIZE,...", requires = "shard")]
    pub(crate) mesh: Option<Mesh>,
    /// Split inputs and results whose names match PATTERN: for each dimension an axis, several joined by +, or None; may be
    /// repeated, and the first that matches decides
    #[arg(long, value_name = "PATTERN=AXIS,...", requires = "mesh")]
    pub(crate) shard: Vec<Rule>,
    /// Give up on a target after SECONDS
    #[arg(long, value_name = "SECONDS", default_value_t = 1800, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) timeout: u64,
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    #[command(flatten)]
    pub(crate) source: Source,
    /// The TPU slice, such as v5e:2x2 or v5p:2x2x1; may be repeated
    #[arg(long = "target", value_name = "SLICE", default_value = "v5e:1x1")]
    pub(crate) targets: Vec<Target>,
    /// Also plan N such slices that train together, each on a batch of its own: computed from the report on one
    #[arg(long, value_name = "N", requires = "targets", value_parser = slices)]
    pub(crate) slices: Option<NonZeroU32>,
    #[command(flatten)]
    pub(crate) ahead: Ahead,
    /// How to report
    #[arg(long, value_enum, default_value_t = CheckFormat::Text)]
    pub(crate) format: CheckFormat,
    /// Write to FILE instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CheckFormat {
    /// For people
    Text,
    /// As JSON: a list of reports, one a target (docs/report-schema.md)
    Json,
    /// One page that needs nothing else, with a sheet for each target
    Html,
}

#[derive(Debug, Args)]
pub(crate) struct Compile {
    #[command(flatten)]
    pub(crate) source: Source,
    /// The TPU slice, such as v5e:2x2 or v5p:2x2x1; may be repeated
    #[arg(long = "target", value_name = "SLICE", required = true)]
    pub(crate) targets: Vec<Target>,
    #[command(flatten)]
    pub(crate) ahead: Ahead,
    /// Write the executable to FILE and its manifest to FILE.json; with several targets, into the folder FILE
    #[arg(short, long, value_name = "FILE", required_unless_present = "cache")]
    pub(crate) output: Option<PathBuf>,
    /// Put the executable into DIR, which a TPU host then reads as its TORCHTPU_CACHE_DIR
    #[arg(long, value_name = "DIR")]
    pub(crate) cache: Option<PathBuf>,
    /// Write the report of `tputc check` to FILE: JSON, or a page if FILE ends in .html
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// How to tell what was done, and diagnostics
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub(crate) format: ReportFormat,
}

#[derive(Debug, Args)]
pub(crate) struct Ops {
    /// How to print the table
    #[arg(long, value_enum, default_value_t = OpsFormat::Text)]
    pub(crate) format: OpsFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OpsFormat {
    Text,
    Json,
    Markdown,
}

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// How to tell what was found
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub(crate) format: ReportFormat,
}

fn dim(text: &str) -> Result<(String, i64), String> {
    let (name, size) = text.split_once('=').ok_or("expected SYMBOL=SIZE, such as s0=8")?;
    let size = size.parse().map_err(|_| format!("`{size}` is not a whole number"))?;
    Ok((name.to_owned(), size))
}

fn slices(text: &str) -> Result<NonZeroU32, String> {
    let count = text.parse::<u32>().map_err(|_| format!("`{text}` is not a number of slices"))?;
    NonZeroU32::new(count).ok_or_else(|| "plan at least one".to_owned())
}
