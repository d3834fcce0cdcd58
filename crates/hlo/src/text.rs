//! Prints an HLO module in the style of XLA's own text.

use std::collections::HashMap;
use std::fmt::Write;

use super::attributes::attributes;
use super::primitive;
use super::proto::{HloComputationProto, HloInstructionProto, HloModuleProto, LiteralProto, OpMetadata, ShapeProto};
use super::proto::{ProgramShapeProto, StackFrameIndexProto};

/// Literals longer than this are elided.
const LONGEST_LITERAL: usize = 16;

/// Names of instructions and computations by id, and where their sources are.
pub(super) struct Names<'a> {
    instructions: HashMap<i64, &'a str>,
    computations: HashMap<i64, &'a str>,
    frames: Option<&'a StackFrameIndexProto>,
}

impl<'a> Names<'a> {
    fn of(module: &'a HloModuleProto) -> Self {
        let computations = module.computations.iter();
        let instructions = computations.clone().flat_map(|computation| &computation.instructions);
        Names {
            instructions: instructions.map(|it| (it.id, it.name.as_str())).collect(),
            computations: computations.map(|it| (it.id, it.name.as_str())).collect(),
            frames: module.stack_frame_index.as_ref(),
        }
    }

    /// `%name` of an instruction.
    fn instruction(&self, id: i64) -> String {
        self.instructions.get(&id).map_or_else(|| format!("%#{id}"), |name| format!("%{name}"))
    }

    /// `%name` of a computation.
    pub(super) fn computation(&self, id: i64) -> String {
        self.computations.get(&id).map_or_else(|| format!("%#{id}"), |name| format!("%{name}"))
    }

    /// File and line of an instruction: its own, or those of its innermost stack frame.
    fn source(&self, metadata: &'a OpMetadata) -> Option<(&'a str, i32)> {
        if !metadata.source_file.is_empty() {
            return Some((&metadata.source_file, metadata.source_line));
        }
        let frames = self.frames?;
        let frame = frames.stack_frames.get(one_based(metadata.stack_frame_id)?)?;
        let location = frames.file_locations.get(one_based(frame.file_location_id)?)?;
        Some((frames.file_names.get(one_based(location.file_name_id)?)?, location.line))
    }
}

/// The index behind a reference that counts from one; zero means none.
fn one_based(reference: i32) -> Option<usize> {
    usize::try_from(reference).ok()?.checked_sub(1)
}

/// The module as text.
pub fn print(module: &HloModuleProto) -> String {
    let names = Names::of(module);
    let mut out = format!("HloModule {}", module.name);
    if let Some(aliases) = module.input_output_alias.as_ref().filter(|aliases| !aliases.entries.is_empty()) {
        let entry = |entry: &super::proto::AliasEntryProto| {
            format!("{}: {}", braces(&entry.output_shape_index), entry.parameter_number)
        };
        let entries: Vec<String> = aliases.entries.iter().map(entry).collect();
        push(&mut out, format_args!(", input_output_alias={{ {} }}", entries.join(", ")));
    }
    out.push('\n');
    for computation in &module.computations {
        out.push('\n');
        print_computation(&mut out, computation, computation.id == module.entry_computation_id, &names);
    }
    out
}

fn print_computation(out: &mut String, computation: &HloComputationProto, is_entry: bool, names: &Names<'_>) {
    let entry = if is_entry { "ENTRY " } else { "" };
    let empty = ProgramShapeProto::default();
    let signature = computation.program_shape.as_ref().unwrap_or(&empty);
    let parameters: Vec<String> = signature.parameters.iter().map(shape).collect();
    let result = signature.result.as_ref().map(shape).unwrap_or_default();
    push(out, format_args!("{entry}%{} ({}) -> {result} {{\n", computation.name, parameters.join(", ")));
    for instruction in &computation.instructions {
        let root = if instruction.id == computation.root_id { "ROOT " } else { "" };
        push(out, format_args!("  {root}{}\n", print_instruction(instruction, names)));
    }
    out.push_str("}\n");
}

fn print_instruction(instruction: &HloInstructionProto, names: &Names<'_>) -> String {
    let ty = instruction.shape.as_ref().map(shape_with_layout).unwrap_or_default();
    let mut out = format!("%{} = {ty} {}({})", instruction.name, instruction.opcode, operands(instruction, names));
    for (name, value) in attributes(instruction, names) {
        push(&mut out, format_args!(", {name}={value}"));
    }
    if let Some(metadata) = instruction.metadata.as_ref().and_then(|metadata| print_metadata(metadata, names)) {
        push(&mut out, format_args!(", metadata={{{metadata}}}"));
    }
    out
}

fn operands(instruction: &HloInstructionProto, names: &Names<'_>) -> String {
    match instruction.opcode.as_str() {
        "parameter" => instruction.parameter_number.to_string(),
        "constant" => instruction.literal.as_ref().map(print_literal).unwrap_or_default(),
        _ => {
            let operands: Vec<String> = instruction.operand_ids.iter().map(|&id| names.instruction(id)).collect();
            operands.join(", ")
        }
    }
}

fn print_metadata(metadata: &OpMetadata, names: &Names<'_>) -> Option<String> {
    let mut parts = Vec::new();
    if !metadata.op_name.is_empty() {
        parts.push(format!("op_name={:?}", metadata.op_name));
    }
    if let Some((file, line)) = names.source(metadata) {
        parts.push(format!("source_file={file:?} source_line={line}"));
    }
    (!parts.is_empty()).then(|| parts.join(" "))
}

/// A literal's elements in row-major order; those of narrow floats and complex numbers are not decoded.
fn print_literal(literal: &LiteralProto) -> String {
    fn join<T: std::fmt::Display>(values: &[T]) -> Option<String> {
        if values.is_empty() || values.len() > LONGEST_LITERAL {
            return None;
        }
        let values: Vec<String> = values.iter().map(T::to_string).collect();
        Some(values.join(", "))
    }
    let signed: Vec<i8> = literal.s8s.iter().take(LONGEST_LITERAL + 1).map(|&byte| byte.cast_signed()).collect();
    let text = join(&literal.preds)
        .or_else(|| join(&literal.f32s))
        .or_else(|| join(&literal.f64s))
        .or_else(|| join(&literal.s32s))
        .or_else(|| join(&literal.s64s))
        .or_else(|| join(&literal.u32s))
        .or_else(|| join(&literal.u64s))
        .or_else(|| join(&literal.u8s))
        .or_else(|| join(&signed));
    text.unwrap_or_else(|| "...".to_owned())
}

/// `f32[2,3]`, or a tuple of such.
fn shape(shape: &ShapeProto) -> String {
    if shape.element_type == primitive::TUPLE {
        let parts: Vec<String> = shape.tuple_shapes.iter().map(self::shape).collect();
        return format!("({})", parts.join(", "));
    }
    let name = primitive::name(shape.element_type).unwrap_or("opaque");
    let bound = |dimension: usize| {
        if shape.is_dynamic_dimension.get(dimension) == Some(&true) { "<=" } else { "" }
    };
    let sizes = shape.dimensions.iter().enumerate();
    let sizes: Vec<String> = sizes.map(|(dimension, size)| format!("{}{size}", bound(dimension))).collect();
    format!("{name}[{}]", sizes.join(","))
}

/// `f32[2,3]{1,0:T(8,128)}`.
fn shape_with_layout(shape: &ShapeProto) -> String {
    if shape.element_type == primitive::TUPLE {
        let parts: Vec<String> = shape.tuple_shapes.iter().map(shape_with_layout).collect();
        return format!("({})", parts.join(", "));
    }
    let Some(layout) = shape.layout.as_ref().filter(|_| !shape.dimensions.is_empty()) else {
        return self::shape(shape);
    };
    let order = list(&layout.minor_to_major);
    let tiles: String = layout.tiles.iter().map(|tile| format!("({})", list(&tile.dimensions))).collect();
    let tiles = if tiles.is_empty() { tiles } else { format!("T{tiles}") };
    let space = if layout.memory_space == 0 { String::new() } else { format!("S({})", layout.memory_space) };
    let colon = if tiles.is_empty() && space.is_empty() { "" } else { ":" };
    format!("{}{{{order}{colon}{tiles}{space}}}", self::shape(shape))
}

/// `1,0`.
pub(super) fn list(numbers: &[i64]) -> String {
    let numbers: Vec<String> = numbers.iter().map(i64::to_string).collect();
    numbers.join(",")
}

/// `{1,0}`.
pub(super) fn braces(numbers: &[i64]) -> String {
    format!("{{{}}}", list(numbers))
}

/// Writing to a string cannot fail.
fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(text);
}
