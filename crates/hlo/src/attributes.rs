//! The attributes of an HLO instruction, as name and value.

use super::proto::{ConvolutionDimensionNumbers, HloInstructionProto, WindowDimension};
use super::text::{Names, braces};

type Attribute = (&'static str, String);

/// Every attribute that is set, in the order in which XLA's own text has them.
pub(super) fn attributes(instruction: &HloInstructionProto, names: &Names<'_>) -> Vec<Attribute> {
    let mut found = Vec::new();
    shape_attributes(instruction, &mut found);
    contraction_attributes(instruction, &mut found);
    indexing_attributes(instruction, &mut found);
    called_computations(instruction, names, &mut found);
    collective_attributes(instruction, &mut found);
    if !instruction.fusion_kind.is_empty() {
        found.push(("kind", instruction.fusion_kind.clone()));
    }
    if !instruction.custom_call_target.is_empty() {
        found.push(("custom_call_target", format!("{:?}", instruction.custom_call_target)));
    }
    if !instruction.comparison_direction.is_empty() {
        found.push(("direction", instruction.comparison_direction.clone()));
    }
    if let Some(attributes) = instruction.frontend_attributes.as_ref().filter(|found| !found.map.is_empty()) {
        let mut pairs: Vec<String> = attributes.map.iter().map(|(name, value)| format!("{name}={value:?}")).collect();
        pairs.sort_unstable();
        found.push(("frontend_attributes", format!("{{{}}}", pairs.join(","))));
    }
    found
}

fn shape_attributes(instruction: &HloInstructionProto, found: &mut Vec<Attribute>) {
    let opcode = instruction.opcode.as_str();
    match (opcode, instruction.dimensions.as_slice()) {
        ("iota", [dimension]) => found.push(("iota_dimension", dimension.to_string())),
        ("broadcast", dimensions) => found.push(("dimensions", braces(dimensions))),
        (_, []) => {}
        (_, dimensions) => found.push(("dimensions", braces(dimensions))),
    }
    if opcode == "get-tuple-element" {
        found.push(("index", instruction.tuple_index.to_string()));
    }
    if instruction.is_stable {
        found.push(("is_stable", "true".to_owned()));
    }
    if !instruction.slice_dimensions.is_empty() {
        let slices = instruction.slice_dimensions.iter();
        let slices: Vec<String> = slices.map(|it| format!("[{}:{}:{}]", it.start, it.limit, it.stride)).collect();
        found.push(("slice", format!("{{{}}}", slices.join(", "))));
    }
    if let Some(padding) = &instruction.padding_config {
        let dimensions = padding.dimensions.iter();
        let dimensions: Vec<String> = dimensions
            .map(|it| format!("{}_{}_{}", it.edge_padding_low, it.edge_padding_high, it.interior_padding))
            .collect();
        found.push(("padding", dimensions.join("x")));
    }
}

fn contraction_attributes(instruction: &HloInstructionProto, found: &mut Vec<Attribute>) {
    if let Some(window) = instruction.window.as_ref().filter(|window| !window.dimensions.is_empty()) {
        found.push(("window", format!("{{{}}}", print_window(&window.dimensions))));
    }
    if let Some(numbers) = &instruction.convolution_dimension_numbers {
        found.push(("dim_labels", convolution_labels(numbers)));
        for (name, count) in [
            ("feature_group_count", instruction.feature_group_count),
            ("batch_group_count", instruction.batch_group_count),
        ] {
            if count > 1 {
                found.push((name, count.to_string()));
            }
        }
    }
    if let Some(numbers) = &instruction.dot_dimension_numbers {
        let batch =
            [("lhs_batch_dims", &numbers.lhs_batch_dimensions), ("rhs_batch_dims", &numbers.rhs_batch_dimensions)];
        found.extend(batch.into_iter().filter(|(_, dims)| !dims.is_empty()).map(|(name, dims)| (name, braces(dims))));
        found.push(("lhs_contracting_dims", braces(&numbers.lhs_contracting_dimensions)));
        found.push(("rhs_contracting_dims", braces(&numbers.rhs_contracting_dimensions)));
    }
    if !instruction.fft_length.is_empty() {
        let kind = ["FFT", "IFFT", "RFFT", "IRFFT"];
        let kind = usize::try_from(instruction.fft_type).ok().and_then(|index| kind.get(index));
        found.push(("fft_type", kind.unwrap_or(&"?").to_string()));
        found.push(("fft_length", braces(&instruction.fft_length)));
    }
}

fn indexing_attributes(instruction: &HloInstructionProto, found: &mut Vec<Attribute>) {
    if !instruction.dynamic_slice_sizes.is_empty() {
        found.push(("dynamic_slice_sizes", braces(&instruction.dynamic_slice_sizes)));
    }
    if let Some(numbers) = &instruction.gather_dimension_numbers {
        found.push(("offset_dims", braces(&numbers.offset_dims)));
        found.push(("collapsed_slice_dims", braces(&numbers.collapsed_slice_dims)));
        found.push(("start_index_map", braces(&numbers.start_index_map)));
        found.push(("index_vector_dim", numbers.index_vector_dim.to_string()));
        found.push(("slice_sizes", braces(&instruction.gather_slice_sizes)));
    }
    if let Some(numbers) = &instruction.scatter_dimension_numbers {
        found.push(("update_window_dims", braces(&numbers.update_window_dims)));
        found.push(("inserted_window_dims", braces(&numbers.inserted_window_dims)));
        found.push(("scatter_dims_to_operand_dims", braces(&numbers.scatter_dims_to_operand_dims)));
        found.push(("index_vector_dim", numbers.index_vector_dim.to_string()));
    }
}

fn called_computations(instruction: &HloInstructionProto, names: &Names<'_>, found: &mut Vec<Attribute>) {
    let called: Vec<String> = instruction.called_computation_ids.iter().map(|&id| names.computation(id)).collect();
    match (instruction.opcode.as_str(), called.as_slice()) {
        (_, []) => {}
        ("while", [body, condition]) => {
            found.push(("condition", condition.clone()));
            found.push(("body", body.clone()));
        }
        ("select-and-scatter", [select, scatter]) => {
            found.push(("select", select.clone()));
            found.push(("scatter", scatter.clone()));
        }
        ("conditional", branches) => found.push(("branch_computations", format!("{{{}}}", branches.join(", ")))),
        ("fusion", [body]) => found.push(("calls", body.clone())),
        (_, [applied]) => found.push(("to_apply", applied.clone())),
        (_, many) => found.push(("called_computations", format!("{{{}}}", many.join(", ")))),
    }
}

fn collective_attributes(instruction: &HloInstructionProto, found: &mut Vec<Attribute>) {
    if instruction.channel_id > 0 {
        found.push(("channel_id", instruction.channel_id.to_string()));
    }
    if !instruction.replica_groups.is_empty() {
        let groups: Vec<String> = instruction.replica_groups.iter().map(|it| braces(&it.replica_ids)).collect();
        found.push(("replica_groups", format!("{{{}}}", groups.join(","))));
    }
}

/// `size=3x3 stride=2x2 pad=1_1x1_1`; what has its neutral value throughout is left out.
fn print_window(dimensions: &[WindowDimension]) -> String {
    let join = |value: &dyn Fn(&WindowDimension) -> String| {
        let values: Vec<String> = dimensions.iter().map(value).collect();
        values.join("x")
    };
    let mut parts = vec![format!("size={}", join(&|it| it.size.to_string()))];
    let mut part =
        |name: &str, neutral: &dyn Fn(&WindowDimension) -> bool, value: &dyn Fn(&WindowDimension) -> String| {
            if !dimensions.iter().all(neutral) {
                parts.push(format!("{name}={}", join(value)));
            }
        };
    part("stride", &|it| it.stride == 1, &|it| it.stride.to_string());
    part("pad", &|it| it.padding_low == 0 && it.padding_high == 0, &|it| {
        format!("{}_{}", it.padding_low, it.padding_high)
    });
    part("lhs_dilate", &|it| it.base_dilation == 1, &|it| it.base_dilation.to_string());
    part("rhs_dilate", &|it| it.window_dilation == 1, &|it| it.window_dilation.to_string());
    part("rhs_reversal", &|it| !it.window_reversal, &|it| i32::from(it.window_reversal).to_string());
    parts.join(" ")
}

/// `b01f_01io->b01f`: which dimension is which, in input, kernel and output.
fn convolution_labels(numbers: &ConvolutionDimensionNumbers) -> String {
    let input = labels(
        [('b', numbers.input_batch_dimension), ('f', numbers.input_feature_dimension)],
        &numbers.input_spatial_dimensions,
    );
    let kernel = labels(
        [('i', numbers.kernel_input_feature_dimension), ('o', numbers.kernel_output_feature_dimension)],
        &numbers.kernel_spatial_dimensions,
    );
    let output = labels(
        [('b', numbers.output_batch_dimension), ('f', numbers.output_feature_dimension)],
        &numbers.output_spatial_dimensions,
    );
    format!("{input}_{kernel}->{output}")
}

fn labels(named: [(char, i64); 2], spatial: &[i64]) -> String {
    let mut places: Vec<(i64, String)> = named.iter().map(|(label, place)| (*place, label.to_string())).collect();
    places.extend(spatial.iter().enumerate().map(|(number, place)| (*place, number.to_string())));
    places.sort();
    places.into_iter().map(|(_, label)| label).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_and_labels_read_as_in_xla() {
        let dimension = WindowDimension {
            size: 3,
            stride: 2,
            padding_low: 1,
            padding_high: 0,
            window_dilation: 1,
            base_dilation: 1,
            window_reversal: false,
        };
        assert_eq!(print_window(&[dimension.clone(), dimension]), "size=3x3 stride=2x2 pad=1_0x1_0");
        let numbers = ConvolutionDimensionNumbers {
            input_batch_dimension: 0,
            input_feature_dimension: 1,
            input_spatial_dimensions: vec![2, 3],
            kernel_output_feature_dimension: 0,
            kernel_input_feature_dimension: 1,
            kernel_spatial_dimensions: vec![2, 3],
            output_batch_dimension: 0,
            output_feature_dimension: 1,
            output_spatial_dimensions: vec![2, 3],
        };
        assert_eq!(convolution_labels(&numbers), "bf01_oi01->bf01");
        assert_eq!(braces(&[]), "{}");
    }
}
