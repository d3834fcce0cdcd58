//! What a report holds. Its JSON form is these types as they stand, documented in docs/report-schema.md; bytes, flops
//! and seconds are plain numbers in those units, for one device and one run of the program.

use serde::{Deserialize, Serialize};

/// The version of the JSON form. Fields may be added within a version; none is removed or changes its meaning.
pub const SCHEMA: u32 = 1;

/// Everything known about one program on one target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The program.
    pub program: Program,
    /// Where it would run.
    pub target: Target,
    /// Whether it would.
    pub verdict: Verdict,
    /// What a user should know, worst first, then in the program's order.
    pub findings: Vec<Finding>,
    /// Who holds the memory; `None` if the compiler did not get that far.
    pub memory: Option<Memory>,
    /// What takes the time; likewise.
    pub cost: Option<Cost>,
    /// Several slices at once, if that was asked and the program compiled for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slices: Option<Slices>,
    /// What our own optimizer made of the program before the compiler saw it; left out where it did not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rewrites: Option<Rewrites>,
    /// The source around the lines that the rest names, where it was at hand: see [`Report::named_lines`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<SourceText>,
}

/// A traced program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Its file or function.
    pub name: String,
    /// Traced ops.
    pub num_ops: usize,
    /// Identifies it, without locations.
    pub hash: String,
}

/// A slice and the compiler for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// As in `v5e:2x2`.
    pub name: String,
    /// What its devices call themselves.
    pub device_kind: String,
    /// Devices in the slice.
    pub num_devices: usize,
    /// Devices that the program runs on.
    pub devices_used: usize,
    /// libtpu's version.
    pub compiler: String,
    /// Peak bf16 flops per second of one device.
    pub peak_flops: f64,
    /// HBM bandwidth of one device, bytes per second.
    pub hbm_bandwidth: f64,
    /// HBM that a program may use on one device.
    pub hbm_bytes: u64,
    /// Vector memory of one device.
    pub vmem_bytes: u64,
}

/// Whether the program runs on the target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// All is well: it compiles, it fits, and nothing falls back.
    pub runs: bool,
    /// One sentence.
    pub summary: String,
    /// What would change a refusal, most useful first.
    pub advice: Vec<String>,
}

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The program does not run like this.
    Error,
    /// It runs worse than it need.
    Warning,
    /// Worth knowing.
    Note,
}

/// Something about the program at one place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// What kind it is: `unlowered`, `data-dependent-shape`, `dynamic-shape`, `dtype`, `padding`, `memory`, `compiler`.
    pub kind: String,
    /// What is the matter.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
    /// Where.
    pub source: Source,
}

/// A place in the user's program. Empty where nothing is known.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Source {
    /// The file, relative to its project or package.
    pub file: String,
    /// The line, from 1; 0 if unknown.
    pub line: u32,
    /// The module's path, such as `model.layers.0.mlp`.
    pub module: String,
    /// The aten op, such as `aten.mm.default`.
    pub op: String,
}

/// Lines of one source file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceText {
    /// The file, as in [`Source`].
    pub file: String,
    /// Numbers, from 1, and text, in the file's order; where numbers are left out, so are lines.
    pub lines: Vec<(u32, String)>,
}

/// Memory of one device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// HBM in use at the worst moment: what [`Memory::holders`] and [`Memory::unattributed`] add up to.
    pub peak: u64,
    /// All arguments, with the padding of their layouts.
    pub arguments: u64,
    /// All results, those that reuse arguments included.
    pub outputs: u64,
    /// Results that reuse arguments.
    pub aliased: u64,
    /// The heap of values that live only while the program runs.
    pub temporaries: u64,
    /// Machine code and constants, which lie in HBM beside the peak; of a refused program constants alone, since its code
    /// is not known.
    pub code: u64,
    /// Who holds the peak, most first.
    pub holders: Vec<Holder>,
    /// What no value holds: fragmentation of the heap, and [`Memory::reserved`].
    pub unattributed: u64,
    /// Of that, what the compiler takes beyond the allocations that it cuts up, such as the rest of a page.
    #[serde(default)]
    pub reserved: u64,
    /// The compiler's own peak, as far as it lies in HBM and is no constant: all arguments and results, and the heap's
    /// values at their worst moment, without the gaps between them.
    #[serde(default)]
    pub compiler_peak: u64,
    /// HBM in use during each step of the schedule, at every step that changes it. Results count from the step that
    /// first writes them, though their memory is set aside before.
    pub timeline: Vec<Moment>,
    /// The step at which temporaries take most: the moment that [`Memory::holders`] are of.
    #[serde(default)]
    pub peak_step: usize,
    /// Vector memory in use at its own worst moment.
    pub vmem_peak: u64,
}

/// Memory held at the peak by one place of the program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Holder {
    /// Bytes, with the padding of layouts.
    pub bytes: u64,
    /// Bytes that the values would take without padding.
    pub unpadded: u64,
    /// `argument`, `output` or `temporary`.
    pub kind: String,
    /// The argument's name, or the HLO values, largest first.
    pub values: Vec<String>,
    /// Where they are made.
    pub source: Source,
}

/// A step of the schedule and what is in use while it runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// The HLO instruction's position in the schedule.
    pub step: usize,
    /// Its name.
    pub instruction: String,
    /// HBM in use.
    pub bytes: u64,
}

/// What the program computes and moves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Multiplications and additions.
    pub flops: f64,
    /// Bytes to and from HBM.
    pub hbm_bytes: f64,
    /// Exponentials, logarithms and their like.
    pub transcendentals: f64,
    /// The roofline's time: for each region the greatest of its bounds, summed.
    pub seconds: f64,
    /// `flops` over what the device could do in `seconds`.
    pub peak_share: f64,
    /// What the compiler launches, in the order of the schedule.
    pub regions: Vec<Region>,
    /// The same by source line, most time first.
    pub lines: Vec<LineCost>,
    /// Matrix products and convolutions whose shapes waste the matrix unit, most waste first.
    pub padding: Vec<Padding>,
    /// Bytes over the interconnect, by kind of collective.
    pub collectives: Vec<Collective>,
}

/// A fusion, or an op that stands alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Region {
    /// The HLO instruction's name.
    pub name: String,
    /// Its opcode, or a fusion's kind.
    pub kind: String,
    /// Where its main op comes from.
    pub source: Source,
    /// How often it runs: trip counts of the loops around it.
    pub runs: f64,
    /// Per run of the program.
    pub flops: f64,
    /// Likewise.
    pub hbm_bytes: f64,
    /// Likewise.
    pub transcendentals: f64,
    /// Our roofline's time, likewise.
    pub seconds: f64,
    /// What the time is bound by: `matrix unit`, `vector unit`, `bandwidth`, `interconnect` or `overhead`.
    pub bound: String,
    /// The compiler's own estimate for one run, where it makes one.
    pub estimated_cycles: Option<f64>,
    /// Names of the regions whose results it reads.
    pub operands: Vec<String>,
}

/// The cost of one source line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LineCost {
    /// The line; `op` is empty where several ops are on it.
    pub source: Source,
    /// As in [`Region`].
    pub flops: f64,
    /// As in [`Region`].
    pub hbm_bytes: f64,
    /// As in [`Region`].
    pub transcendentals: f64,
    /// As in [`Region`].
    pub seconds: f64,
    /// Of the program's time.
    pub share: f64,
}

/// A matrix product whose shape wastes the matrix unit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Padding {
    /// Where.
    pub source: Source,
    /// The product's extents as the compiler has them: batch, rows, contracted, columns.
    pub shape: [u64; 4],
    /// The same, padded to what the hardware computes.
    pub padded: [u64; 4],
    /// Share of the matrix unit's work that is padding.
    pub waste: f64,
    /// The extents that would avoid it, in words.
    pub advice: String,
}

/// Collectives of one kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Collective {
    /// `all-reduce`, `all-gather`, ...
    pub kind: String,
    /// How many run.
    pub count: f64,
    /// Bytes that one device sends.
    pub bytes: f64,
}

/// Several slices that train together, each with the whole program and a batch of its own, and that exchange their
/// gradients over the data-center network: computed on paper from the report on one slice.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Slices {
    /// How many.
    pub count: u32,
    /// Chips in all of them.
    pub chips: u64,
    /// Hosts of all of them.
    pub hosts: u64,
    /// The batch of one slice, if the inputs agree on one.
    pub slice_batch: Option<u64>,
    /// The batch of all slices.
    pub batch: Option<u64>,
    /// Gradients that one device holds.
    pub gradient_bytes: u64,
    /// What one device sends to other slices in a step.
    pub device_bytes: f64,
    /// What one host sends to other slices in a step.
    pub host_bytes: f64,
    /// Bytes per second that one host can send to other slices.
    pub host_bandwidth: f64,
    /// How long the exchange takes.
    pub exchange_seconds: f64,
    /// A step of one slice alone: the roofline's time.
    pub slice_seconds: f64,
    /// A step in which the exchange comes after all computing.
    pub exposed: Pace,
    /// A step in which the exchange is hidden behind computing, as far as that is long enough.
    pub overlapped: Pace,
    /// HBM that one device needs for the exchange beside what the program needs, at most.
    pub extra_hbm_bytes: u64,
    /// Whether that much is left.
    pub fits: bool,
    /// What all of this takes for granted, in sentences.
    pub assumptions: Vec<String>,
}

/// How fast slices go together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Pace {
    /// One step.
    pub seconds: f64,
    /// Of what as many slices would do that exchange nothing.
    pub efficiency: f64,
}

/// What the optimizer changed in a program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rewrites {
    /// What it was optimized for: `cpu` or `tpu`.
    pub platform: String,
    /// Core ops.
    pub ops: Change,
    /// The optimizer's clock, in picoseconds: what decides between equal programs, no prediction.
    pub picoseconds: Change,
    /// Every rewrite that is in the program, in order.
    pub changes: Vec<Rewrite>,
}

/// A number before and after the optimizer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// As the program was traced.
    pub before: u64,
    /// As it is compiled.
    pub after: u64,
}

/// One rewrite.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rewrite {
    /// The rule's name, as in docs/rewrite-rules.md.
    pub rule: String,
    /// What it may do to values: `exact`, `reassociating` or `precision-changing`.
    pub class: String,
    /// Why it is right, in a sentence.
    pub why: String,
    /// Where the ops come from that it replaced.
    pub places: Vec<Source>,
    /// The op that it replaced.
    #[serde(default)]
    pub before: String,
    /// The ops that came for it.
    #[serde(default)]
    pub after: Vec<String>,
}

/// Ops that the optimizer plans to run together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Planned {
    /// What they do, in words that people know.
    pub name: String,
    /// Where the op comes from that they are about.
    pub source: Source,
    /// The optimizer's clock.
    pub picoseconds: u64,
    /// What bounds it: `memory`, `matrix unit`, `vector unit` or `start`.
    pub bound: String,
    /// Bytes read from memory.
    pub read: u64,
    /// Bytes written to memory.
    pub written: u64,
    /// Bytes of values that never reach memory.
    pub kept: u64,
    /// What is gained by their being together.
    pub gains: Vec<String>,
}
