//! What one HLO instruction computes.

use hlo::proto::HloInstructionProto;
use target::Chip;

use super::matrix::Product;
use crate::index::Index;
use crate::shape;

/// Work of one or several instructions, for one run.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Work {
    /// Multiplications, additions, comparisons and their like.
    pub(crate) flops: f64,
    /// Exponentials, logarithms and their like.
    pub(crate) transcendentals: f64,
    /// Seconds of the matrix unit.
    pub(crate) matrix: f64,
    /// Seconds of the vector unit.
    pub(crate) vector: f64,
}

impl Work {
    /// The work of one instruction by itself; what it calls is counted where it is.
    pub(crate) fn of(index: &Index<'_>, instruction: &HloInstructionProto, chip: &Chip) -> Work {
        if let Some(product) = Product::of(index, instruction) {
            return Work { flops: product.flops, matrix: product.seconds(chip), ..Work::default() };
        }
        if let Some(work) = kernel(instruction, chip) {
            return work;
        }
        let (flops, moves, transcendentals) = vector_work(index, instruction);
        let vector = (flops + moves) / chip.device_vector_ops() + transcendentals / chip.device_transcendentals();
        Work { flops, transcendentals, matrix: 0.0, vector }
    }

    pub(crate) fn add(&mut self, other: Work) {
        self.flops += other.flops;
        self.transcendentals += other.transcendentals;
        self.matrix += other.matrix;
        self.vector += other.vector;
    }

    /// Seconds of computing; both units work at the same time.
    pub(crate) fn seconds(&self) -> f64 {
        self.matrix.max(self.vector)
    }
}

/// What a kernel says of itself, such as those that libtpu puts in attention's place: its body is no HLO. Its flops are
/// taken for the matrix unit's.
fn kernel(instruction: &HloInstructionProto, chip: &Chip) -> Option<Work> {
    if instruction.opcode != "custom-call" || instruction.backend_config.is_empty() {
        return None;
    }
    let config: serde_json::Value = serde_json::from_slice(&instruction.backend_config).ok()?;
    let estimate = config.get("custom_call_config")?.get("cost_estimate")?;
    let count = |name: &str| estimate.get(name)?.as_str()?.parse::<u64>().ok().map(|it| it as f64);
    let (flops, transcendentals) = (count("flops")?, count("transcendentals")?);
    let vector = transcendentals / chip.device_transcendentals();
    Some(Work { flops, transcendentals, matrix: flops / chip.device_flops(), vector })
}

/// Arithmetic, moves of elements within registers, and transcendentals.
fn vector_work(index: &Index<'_>, instruction: &HloInstructionProto) -> (f64, f64, f64) {
    let elements = instruction.shape.as_ref().map_or(0.0, elements);
    let operand = |number: usize| {
        let operand = instruction.operand_ids.get(number).and_then(|&id| index.instruction(id));
        operand.and_then(|it| it.shape.as_ref()).map_or(0.0, self::elements)
    };
    match instruction.opcode.as_str() {
        "exponential"
        | "exponential-minus-one"
        | "log"
        | "log-plus-one"
        | "logistic"
        | "tanh"
        | "tan"
        | "sine"
        | "cosine"
        | "power"
        | "sqrt"
        | "rsqrt"
        | "cbrt"
        | "erf"
        | "atan2" => (0.0, 0.0, elements),
        "add"
        | "subtract"
        | "multiply"
        | "divide"
        | "remainder"
        | "maximum"
        | "minimum"
        | "and"
        | "or"
        | "xor"
        | "not"
        | "negate"
        | "abs"
        | "sign"
        | "floor"
        | "ceil"
        | "round-nearest-afz"
        | "round-nearest-even"
        | "compare"
        | "select"
        | "shift-left"
        | "shift-right-arithmetic"
        | "shift-right-logical"
        | "is-finite"
        | "popcnt"
        | "count-leading-zeros"
        | "reduce-precision"
        | "stochastic-convert" => (elements, 0.0, 0.0),
        "clamp" => (2.0 * elements, 0.0, 0.0),
        "convert" | "bitcast-convert" | "transpose" | "reverse" | "concatenate" | "pad" | "iota" | "gather" => {
            (0.0, elements, 0.0)
        }
        "reduce" => {
            let inputs = instruction.operand_ids.len() / 2;
            let reduced: f64 = (0..inputs).map(operand).sum();
            ((reduced - elements).max(0.0), 0.0, 0.0)
        }
        "reduce-window" => {
            let (positions, size) = distinct_windows(instruction);
            let results = positions * instruction.operand_ids.len().div_ceil(2) as f64;
            (results * (size - 1.0).max(0.0), (elements - results).max(0.0), 0.0)
        }
        "select-and-scatter" => (operand(1) * window(instruction), 0.0, 0.0),
        "scatter" => (operand(instruction.operand_ids.len().saturating_sub(1)), 0.0, 0.0),
        // A bitonic network compares each element log2(n) (log2(n) + 1) / 2 times.
        "sort" => {
            let along = instruction.dimensions.first().copied().unwrap_or(0);
            let stages = f64::max(extent(instruction, along), 2.0).log2();
            (elements * stages * (stages + 1.0) / 2.0, 0.0, 0.0)
        }
        "fft" => {
            let points: f64 = instruction.fft_length.iter().map(|&it| it.max(2) as f64).product();
            (5.0 * elements * points.log2(), 0.0, 0.0)
        }
        _ => (0.0, 0.0, 0.0),
    }
}

fn elements(shape: &hlo::proto::ShapeProto) -> f64 {
    let mut sum = 0.0;
    shape::arrays(shape, &mut |array| sum += shape::elements(array) as f64);
    sum
}

fn window(instruction: &HloInstructionProto) -> f64 {
    let window = instruction.window.as_ref();
    window.map_or(1.0, |it| it.dimensions.iter().map(|dimension| dimension.size.max(1) as f64).product())
}

/// How many windows of a reduction differ, and how many elements they have. A window that sees all of a dimension from
/// every position, which is how libtpu writes a reduction that is broadcast again, is computed once.
fn distinct_windows(instruction: &HloInstructionProto) -> (f64, f64) {
    let dimensions = instruction.window.iter().flat_map(|it| &it.dimensions);
    dimensions.zip(0..).fold((1.0, 1.0), |(positions, size), (window, dimension)| {
        let extent = extent(instruction, dimension);
        let (low, last) = (window.padding_low as f64, extent - 1.0);
        let plain = window.stride <= 1 && window.base_dilation <= 1 && window.window_dilation <= 1;
        let sees_all = plain
            && window.size as f64 == low + window.padding_high as f64 + 1.0
            && low >= last
            && window.padding_high as f64 >= last;
        if sees_all { (positions, size * extent) } else { (positions * extent, size * window.size.max(1) as f64) }
    })
}

fn extent(instruction: &HloInstructionProto, dimension: i64) -> f64 {
    let mut first = None;
    if let Some(shape) = &instruction.shape {
        shape::arrays(shape, &mut |array| {
            first.get_or_insert(array);
        });
    }
    let dimension = usize::try_from(dimension).ok();
    let extent = first.zip(dimension).and_then(|(array, dimension)| array.dimensions.get(dimension));
    extent.map_or(1.0, |&it| it as f64)
}
