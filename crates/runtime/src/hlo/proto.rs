//! The parts of XLA's `hlo.proto` and `xla_data.proto` that are read here, declared by hand. Unknown fields are skipped.

use std::collections::HashMap;

use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(super) struct HloModuleProtoWithConfig {
    #[prost(message, optional, tag = "1")]
    pub(super) hlo_module: Option<HloModuleProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct HloModuleProto {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(message, repeated, tag = "3")]
    pub(super) computations: Vec<HloComputationProto>,
    #[prost(message, optional, tag = "4")]
    pub(super) host_program_shape: Option<ProgramShapeProto>,
    #[prost(int64, tag = "6")]
    pub(super) entry_computation_id: i64,
    #[prost(message, optional, tag = "8")]
    pub(super) input_output_alias: Option<HloInputOutputAliasProto>,
    #[prost(message, optional, tag = "18")]
    pub(super) buffer_donor: Option<HloBufferDonorProto>,
    #[prost(message, optional, tag = "17")]
    pub(super) stack_frame_index: Option<StackFrameIndexProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ProgramShapeProto {
    #[prost(message, repeated, tag = "1")]
    pub(super) parameters: Vec<ShapeProto>,
    #[prost(message, optional, tag = "2")]
    pub(super) result: Option<ShapeProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ShapeProto {
    #[prost(int32, tag = "2")]
    pub(super) element_type: i32,
    #[prost(int64, repeated, tag = "3")]
    pub(super) dimensions: Vec<i64>,
    #[prost(message, repeated, tag = "4")]
    pub(super) tuple_shapes: Vec<ShapeProto>,
    #[prost(message, optional, tag = "5")]
    pub(super) layout: Option<LayoutProto>,
    #[prost(bool, repeated, tag = "6")]
    pub(super) is_dynamic_dimension: Vec<bool>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct LayoutProto {
    #[prost(int64, repeated, tag = "1")]
    pub(super) minor_to_major: Vec<i64>,
    #[prost(message, repeated, tag = "6")]
    pub(super) tiles: Vec<TileProto>,
    #[prost(int64, tag = "8")]
    pub(super) memory_space: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TileProto {
    #[prost(int64, repeated, tag = "1")]
    pub(super) dimensions: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct HloInputOutputAliasProto {
    #[prost(message, repeated, tag = "1")]
    pub(super) entries: Vec<AliasEntryProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct AliasEntryProto {
    #[prost(int64, repeated, tag = "1")]
    pub(super) output_shape_index: Vec<i64>,
    #[prost(int64, tag = "2")]
    pub(super) parameter_number: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct HloBufferDonorProto {
    #[prost(message, repeated, tag = "1")]
    pub(super) entries: Vec<BufferDonorEntryProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct BufferDonorEntryProto {
    #[prost(int64, tag = "1")]
    pub(super) parameter_number: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct StackFrameIndexProto {
    #[prost(string, repeated, tag = "1")]
    pub(super) file_names: Vec<String>,
    #[prost(message, repeated, tag = "3")]
    pub(super) file_locations: Vec<FileLocation>,
    #[prost(message, repeated, tag = "4")]
    pub(super) stack_frames: Vec<StackFrame>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct FileLocation {
    #[prost(int32, tag = "1")]
    pub(super) file_name_id: i32,
    #[prost(int32, tag = "3")]
    pub(super) line: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct StackFrame {
    #[prost(int32, tag = "1")]
    pub(super) file_location_id: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct HloComputationProto {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(message, repeated, tag = "2")]
    pub(super) instructions: Vec<HloInstructionProto>,
    #[prost(message, optional, tag = "4")]
    pub(super) program_shape: Option<ProgramShapeProto>,
    #[prost(int64, tag = "5")]
    pub(super) id: i64,
    #[prost(int64, tag = "6")]
    pub(super) root_id: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct HloInstructionProto {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) opcode: String,
    #[prost(message, optional, tag = "3")]
    pub(super) shape: Option<ShapeProto>,
    #[prost(message, optional, tag = "7")]
    pub(super) metadata: Option<OpMetadata>,
    #[prost(message, optional, tag = "8")]
    pub(super) literal: Option<LiteralProto>,
    #[prost(int64, tag = "9")]
    pub(super) parameter_number: i64,
    #[prost(string, tag = "11")]
    pub(super) fusion_kind: String,
    #[prost(int64, tag = "13")]
    pub(super) tuple_index: i64,
    #[prost(int64, repeated, tag = "14")]
    pub(super) dimensions: Vec<i64>,
    #[prost(message, optional, tag = "15")]
    pub(super) window: Option<Window>,
    #[prost(message, optional, tag = "16")]
    pub(super) convolution_dimension_numbers: Option<ConvolutionDimensionNumbers>,
    #[prost(message, repeated, tag = "17")]
    pub(super) slice_dimensions: Vec<SliceDimensions>,
    #[prost(int64, repeated, tag = "20")]
    pub(super) dynamic_slice_sizes: Vec<i64>,
    #[prost(message, optional, tag = "21")]
    pub(super) padding_config: Option<PaddingConfig>,
    #[prost(int64, tag = "26")]
    pub(super) channel_id: i64,
    #[prost(string, tag = "28")]
    pub(super) custom_call_target: String,
    #[prost(message, optional, tag = "30")]
    pub(super) dot_dimension_numbers: Option<DotDimensionNumbers>,
    #[prost(int32, tag = "31")]
    pub(super) fft_type: i32,
    #[prost(int64, repeated, tag = "32")]
    pub(super) fft_length: Vec<i64>,
    #[prost(message, optional, tag = "33")]
    pub(super) gather_dimension_numbers: Option<GatherDimensionNumbers>,
    #[prost(int64, repeated, tag = "34")]
    pub(super) gather_slice_sizes: Vec<i64>,
    #[prost(int64, tag = "35")]
    pub(super) id: i64,
    #[prost(int64, repeated, tag = "36")]
    pub(super) operand_ids: Vec<i64>,
    #[prost(int64, repeated, tag = "37")]
    pub(super) control_predecessor_ids: Vec<i64>,
    #[prost(int64, repeated, tag = "38")]
    pub(super) called_computation_ids: Vec<i64>,
    #[prost(bytes = "vec", tag = "43")]
    pub(super) backend_config: Vec<u8>,
    #[prost(message, optional, tag = "48")]
    pub(super) scatter_dimension_numbers: Option<ScatterDimensionNumbers>,
    #[prost(message, repeated, tag = "49")]
    pub(super) replica_groups: Vec<ReplicaGroup>,
    #[prost(int64, tag = "50")]
    pub(super) feature_group_count: i64,
    #[prost(int64, tag = "58")]
    pub(super) batch_group_count: i64,
    #[prost(bool, tag = "60")]
    pub(super) is_stable: bool,
    #[prost(string, tag = "63")]
    pub(super) comparison_direction: String,
    #[prost(message, optional, tag = "68")]
    pub(super) frontend_attributes: Option<FrontendAttributes>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct FrontendAttributes {
    #[prost(map = "string, string", tag = "1")]
    pub(super) map: HashMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct OpMetadata {
    #[prost(string, tag = "2")]
    pub(super) op_name: String,
    #[prost(string, tag = "3")]
    pub(super) source_file: String,
    #[prost(int32, tag = "4")]
    pub(super) source_line: i32,
    #[prost(int32, tag = "15")]
    pub(super) stack_frame_id: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ReplicaGroup {
    #[prost(int64, repeated, tag = "1")]
    pub(super) replica_ids: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SliceDimensions {
    #[prost(int64, tag = "1")]
    pub(super) start: i64,
    #[prost(int64, tag = "2")]
    pub(super) limit: i64,
    #[prost(int64, tag = "3")]
    pub(super) stride: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PaddingConfig {
    #[prost(message, repeated, tag = "1")]
    pub(super) dimensions: Vec<PaddingDimension>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PaddingDimension {
    #[prost(int64, tag = "1")]
    pub(super) edge_padding_low: i64,
    #[prost(int64, tag = "2")]
    pub(super) edge_padding_high: i64,
    #[prost(int64, tag = "3")]
    pub(super) interior_padding: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Window {
    #[prost(message, repeated, tag = "1")]
    pub(super) dimensions: Vec<WindowDimension>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WindowDimension {
    #[prost(int64, tag = "1")]
    pub(super) size: i64,
    #[prost(int64, tag = "2")]
    pub(super) stride: i64,
    #[prost(int64, tag = "3")]
    pub(super) padding_low: i64,
    #[prost(int64, tag = "4")]
    pub(super) padding_high: i64,
    #[prost(int64, tag = "5")]
    pub(super) window_dilation: i64,
    #[prost(int64, tag = "6")]
    pub(super) base_dilation: i64,
    #[prost(bool, tag = "7")]
    pub(super) window_reversal: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct DotDimensionNumbers {
    #[prost(int64, repeated, tag = "1")]
    pub(super) lhs_contracting_dimensions: Vec<i64>,
    #[prost(int64, repeated, tag = "2")]
    pub(super) rhs_contracting_dimensions: Vec<i64>,
    #[prost(int64, repeated, tag = "3")]
    pub(super) lhs_batch_dimensions: Vec<i64>,
    #[prost(int64, repeated, tag = "4")]
    pub(super) rhs_batch_dimensions: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct GatherDimensionNumbers {
    #[prost(int64, repeated, tag = "1")]
    pub(super) offset_dims: Vec<i64>,
    #[prost(int64, repeated, tag = "2")]
    pub(super) collapsed_slice_dims: Vec<i64>,
    #[prost(int64, repeated, tag = "3")]
    pub(super) start_index_map: Vec<i64>,
    #[prost(int64, tag = "4")]
    pub(super) index_vector_dim: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ScatterDimensionNumbers {
    #[prost(int64, repeated, tag = "1")]
    pub(super) update_window_dims: Vec<i64>,
    #[prost(int64, repeated, tag = "2")]
    pub(super) inserted_window_dims: Vec<i64>,
    #[prost(int64, repeated, tag = "3")]
    pub(super) scatter_dims_to_operand_dims: Vec<i64>,
    #[prost(int64, tag = "4")]
    pub(super) index_vector_dim: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ConvolutionDimensionNumbers {
    #[prost(int64, tag = "3")]
    pub(super) kernel_input_feature_dimension: i64,
    #[prost(int64, tag = "4")]
    pub(super) kernel_output_feature_dimension: i64,
    #[prost(int64, repeated, tag = "6")]
    pub(super) kernel_spatial_dimensions: Vec<i64>,
    #[prost(int64, tag = "7")]
    pub(super) input_batch_dimension: i64,
    #[prost(int64, tag = "8")]
    pub(super) input_feature_dimension: i64,
    #[prost(int64, tag = "9")]
    pub(super) output_batch_dimension: i64,
    #[prost(int64, tag = "10")]
    pub(super) output_feature_dimension: i64,
    #[prost(int64, repeated, tag = "11")]
    pub(super) input_spatial_dimensions: Vec<i64>,
    #[prost(int64, repeated, tag = "12")]
    pub(super) output_spatial_dimensions: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct LiteralProto {
    #[prost(bool, repeated, tag = "2")]
    pub(super) preds: Vec<bool>,
    #[prost(bytes = "vec", tag = "3")]
    pub(super) u8s: Vec<u8>,
    #[prost(int32, repeated, tag = "4")]
    pub(super) s32s: Vec<i32>,
    #[prost(int64, repeated, tag = "5")]
    pub(super) s64s: Vec<i64>,
    #[prost(uint32, repeated, tag = "6")]
    pub(super) u32s: Vec<u32>,
    #[prost(uint64, repeated, tag = "7")]
    pub(super) u64s: Vec<u64>,
    #[prost(float, repeated, tag = "8")]
    pub(super) f32s: Vec<f32>,
    #[prost(double, repeated, tag = "9")]
    pub(super) f64s: Vec<f64>,
    #[prost(bytes = "vec", tag = "15")]
    pub(super) s8s: Vec<u8>,
}
