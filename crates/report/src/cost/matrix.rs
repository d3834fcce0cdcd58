//! Matrix products and convolutions: their extents, their work, and what of it is padding.

use hlo::primitive;
use hlo::proto::{ConvolutionDimensionNumbers, HloInstructionProto, ShapeProto, Window, WindowDimension};
use target::Chip;

use crate::index::Index;

/// Sublanes of a vector register: rows go through the matrix unit in multiples of it.
const SUBLANES: u64 = 8;
/// Kernels with more positions than this along one dimension are taken to lie within the input everywhere.
const LONGEST_KERNEL: u64 = 1 << 16;

/// A product's extents: how many products, rows, contracted elements, columns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Product {
    pub(crate) extents: [u64; 4],
    /// Multiplications and additions, without those by a convolution's padding.
    pub(crate) flops: f64,
    /// Passes through the matrix unit that the requested precision takes.
    passes: f64,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Wide,
    Integer8,
    Float8,
}

impl Product {
    /// The product that an instruction is, if it is one.
    pub(crate) fn of(index: &Index<'_>, instruction: &HloInstructionProto) -> Option<Product> {
        let shape = |number: usize| {
            let operand = index.instruction(*instruction.operand_ids.get(number)?)?;
            operand.shape.as_ref()
        };
        let (extents, flops) = match instruction.opcode.as_str() {
            "dot" => dot(instruction, shape(0)?, shape(1)?)?,
            "convolution" => convolution(instruction, shape(0)?, shape(1)?)?,
            _ => return None,
        };
        let kind = match (primitive::name(shape(0)?.element_type), primitive::name(shape(1)?.element_type)) {
            (Some("s8" | "u8" | "s4" | "u4"), Some("s8" | "u8" | "s4" | "u4")) => Kind::Integer8,
            (Some(lhs), Some(rhs)) if lhs.starts_with("f8") && rhs.starts_with("f8") => Kind::Float8,
            _ => Kind::Wide,
        };
        let precisions = instruction.precision_config.as_ref().map(|it| it.operand_precision.iter());
        // Only 32-bit floats are cut into pieces of bf16: one of each operand by default, or three or six products.
        let is_f32 = primitive::name(shape(0)?.element_type) == Some("f32");
        let passes = match precisions.and_then(|mut it| it.by_ref().max().copied()).filter(|_| is_f32) {
            Some(1) => 3.0,
            Some(2) => 6.0,
            _ => 1.0,
        };
        Some(Product { extents, flops, passes, kind })
    }

    /// The extents as the matrix unit computes them: the operand that stays in it is cut into squares of its size, the
    /// other goes through in groups of sublanes. The compiler may swap rows and columns; the cheaper way is taken.
    pub(crate) fn padded(&self, chip: &Chip) -> [u64; 4] {
        let unit = u64::from(chip.mxu_size);
        let [batch, rows, contracted, columns] = self.extents;
        let up = |extent: u64, to: u64| extent.div_ceil(to).saturating_mul(to);
        let straight = [batch, up(rows, SUBLANES), up(contracted, unit), up(columns, unit)];
        let swapped = [batch, up(rows, unit), up(contracted, unit), up(columns, SUBLANES)];
        if volume(swapped) < volume(straight) { swapped } else { straight }
    }

    /// Share of the matrix unit's work that is padding.
    pub(crate) fn waste(&self, chip: &Chip) -> f64 {
        let padded = volume(self.padded(chip));
        if padded > 0.0 { (1.0 - volume(self.extents) / padded).max(0.0) } else { 0.0 }
    }

    /// Seconds that the matrix unit of one device needs, padding included.
    pub(crate) fn seconds(&self, chip: &Chip) -> f64 {
        let rate = match self.kind {
            Kind::Wide => chip.device_flops(),
            Kind::Integer8 => chip.device_8bit_ops(false),
            Kind::Float8 => chip.device_8bit_ops(true),
        };
        let useful = volume(self.extents);
        let padding = if useful > 0.0 { volume(self.padded(chip)) / useful } else { 1.0 };
        self.flops * padding * self.passes / rate
    }

    /// The extents that would avoid the padding, in words; empty if there is none.
    pub(crate) fn advice(&self, chip: &Chip) -> String {
        let names = ["", "rows", "contracted", "columns"];
        let changes = self.extents.into_iter().zip(self.padded(chip)).zip(names).skip(1);
        let changes = changes.filter(|((extent, padded), _)| extent != padded);
        let changes: Vec<String> =
            changes.map(|((extent, padded), name)| format!("{name} {extent} -> {padded}")).collect();
        changes.join(", ")
    }
}

/// Multiply-adds of a product with these extents.
pub(crate) fn volume(extents: [u64; 4]) -> f64 {
    extents.into_iter().map(|it| it as f64).product()
}

/// An extent at a dimension; 0 where the dimension does not exist.
fn extent(shape: &ShapeProto, dimension: i64) -> u64 {
    let extent = usize::try_from(dimension).ok().and_then(|it| shape.dimensions.get(it));
    extent.and_then(|&it| u64::try_from(it).ok()).unwrap_or(0)
}

fn product_of(shape: &ShapeProto, dimensions: &[i64]) -> u64 {
    dimensions.iter().fold(1, |product, &it| product.saturating_mul(extent(shape, it)))
}

fn dot(instruction: &HloInstructionProto, lhs: &ShapeProto, rhs: &ShapeProto) -> Option<([u64; 4], f64)> {
    let numbers = instruction.dot_dimension_numbers.as_ref()?;
    let free = |shape: &ShapeProto, taken: [&[i64]; 2]| {
        let rank = i64::try_from(shape.dimensions.len()).unwrap_or(0);
        let free: Vec<i64> = (0..rank).filter(|it| !taken.iter().any(|taken| taken.contains(it))).collect();
        product_of(shape, &free)
    };
    let extents = [
        product_of(lhs, &numbers.lhs_batch_dimensions),
        free(lhs, [&numbers.lhs_batch_dimensions, &numbers.lhs_contracting_dimensions]),
        product_of(lhs, &numbers.lhs_contracting_dimensions),
        free(rhs, [&numbers.rhs_batch_dimensions, &numbers.rhs_contracting_dimensions]),
    ];
    Some((extents, 2.0 * volume(extents)))
}

/// TPU compilers write every product as a convolution: a batch dimension becomes one whose kernel is as large as the
/// output, dilated such that each output meets one position of the kernel.
fn convolution(instruction: &HloInstructionProto, input: &ShapeProto, kernel: &ShapeProto) -> Option<([u64; 4], f64)> {
    let numbers: &ConvolutionDimensionNumbers = instruction.convolution_dimension_numbers.as_ref()?;
    let output = instruction.shape.as_ref()?;
    let none = Window::default();
    let window = instruction.window.as_ref().unwrap_or(&none);
    let groups = u64::try_from(instruction.feature_group_count).unwrap_or(1).max(1);
    let batch_groups = u64::try_from(instruction.batch_group_count).unwrap_or(1).max(1);
    let columns = extent(output, numbers.output_feature_dimension);
    let batch = groups.saturating_mul(batch_groups);
    let mut extents = [
        batch,
        extent(output, numbers.output_batch_dimension),
        extent(kernel, numbers.kernel_input_feature_dimension),
        columns.div_ceil(batch),
    ];
    let mut multiplied = volume(extents);
    for (number, dimension) in window.dimensions.iter().enumerate() {
        let at = |dimensions: &[i64], shape: &ShapeProto| dimensions.get(number).map_or(1, |&it| extent(shape, it));
        let size = at(&numbers.kernel_spatial_dimensions, kernel);
        let positions = at(&numbers.output_spatial_dimensions, output);
        let met = met(dimension, at(&numbers.input_spatial_dimensions, input), size, positions);
        multiplied *= met;
        if size > 1 && size == positions && (met - size as f64).abs() < 0.5 {
            extents[0] = extents[0].saturating_mul(size);
        } else {
            extents[1] = extents[1].saturating_mul(positions);
            extents[2] = extents[2].saturating_mul(size);
        }
    }
    Some((extents, 2.0 * multiplied))
}

/// How many pairs of an output's and a kernel's position along one dimension meet an element of the input, rather than
/// its padding or a hole of its dilation.
fn met(window: &WindowDimension, input: u64, kernel: u64, output: u64) -> f64 {
    if kernel > LONGEST_KERNEL {
        return kernel as f64 * output as f64;
    }
    let (stride, dilation) = (i128::from(window.stride.max(1)), i128::from(window.base_dilation.max(1)));
    let (input, output) = (i128::from(input), i128::from(output));
    // The last place of the dilated input that holds an element.
    let last = (input - 1) * dilation;
    let (divisor, inverse) = extended_gcd(stride, dilation);
    let period = dilation / divisor;
    let mut pairs = 0i128;
    for position in 0..i128::from(kernel) {
        // Output `o` meets the place `o * stride + offset`.
        let offset = position * i128::from(window.window_dilation.max(1)) - i128::from(window.padding_low);
        if offset % divisor != 0 || input == 0 {
            continue;
        }
        let first = (-offset).div_euclid(stride) + i128::from((-offset).rem_euclid(stride) != 0);
        let (low, high) = (first.max(0), ((last - offset).div_euclid(stride)).min(output - 1));
        let residue = ((-offset / divisor) % period * inverse).rem_euclid(period);
        let start = low + (residue - low).rem_euclid(period);
        if start <= high {
            pairs += (high - start) / period + 1;
        }
    }
    pairs as f64
}

/// The greatest common divisor of two positive numbers, and the inverse of `a / divisor` modulo `b / divisor`.
fn extended_gcd(a: i128, b: i128) -> (i128, i128) {
    let (mut old, mut new) = ((a, 1i128), (b, 0i128));
    while new.0 != 0 {
        let quotient = old.0 / new.0;
        (old, new) = (new, (old.0 - quotient * new.0, old.1 - quotient * new.1));
    }
    (old.0, old.1.rem_euclid((b / old.0).max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use target::Generation;

    fn window(
        size: i64,
        stride: i64,
        padding: (i64, i64),
        base_dilation: i64,
        window_dilation: i64,
    ) -> WindowDimension {
        WindowDimension {
            size,
            stride,
            padding_low: padding.0,
            padding_high: padding.1,
            window_dilation,
            base_dilation,
            window_reversal: false,
        }
    }

    #[test]
    fn only_pairs_within_the_input_count() {
        for (input, size, stride, padding, base, dilation) in [
            (8, 3, 1, (1, 1), 1, 1),
            (9, 3, 2, (1, 1), 1, 1),
            (5, 3, 1, (2, 2), 2, 1),
            (12, 12, 11, (0, 0), 12, 1),
            (7, 3, 3, (4, 1), 2, 2),
            (6, 4, 2, (-1, 0), 3, 2),
        ] {
            let window = window(size, stride, padding, base, dilation);
            let places = (input - 1) * base + 1 + padding.0 + padding.1;
            let output = (places - ((size - 1) * dilation + 1)) / stride + 1;
            let mut expected = 0;
            for o in 0..output {
                for k in 0..size {
                    let place = o * stride + k * dilation - padding.0;
                    expected += i32::from(place >= 0 && place <= (input - 1) * base && place % base == 0);
                }
            }
            let met = met(&window, input.unsigned_abs(), size.unsigned_abs(), output.unsigned_abs());
            assert_eq!(met, f64::from(expected), "{window:?}");
        }
    }

    #[test]
    fn padding_goes_to_the_cheaper_side() {
        let product = |extents| Product { extents, flops: 2.0 * volume(extents), passes: 1.0, kind: Kind::Wide };
        let chip = Generation::V5e.chip();
        let head = product([1, 1024, 768, 50257]);
        assert_eq!(head.padded(chip), [1, 1024, 768, 50264], "the short side goes through in sublanes");
        let head = product([1, 1001, 768, 50257]);
        assert_eq!(head.padded(chip), [1, 1008, 768, 50304]);
        assert_eq!(head.advice(chip), "rows 1001 -> 1008, columns 50257 -> 50304");
        let single = product([12, 1, 64, 64]);
        assert_eq!(single.padded(chip), [12, 8, 128, 128]);
        assert!((single.waste(chip) - (1.0 - 1.0 / 32.0)).abs() < 1e-12);
        assert_eq!(single.padded(Generation::V6e.chip()), [12, 8, 256, 256]);
    }
}
