//! Collectives: what one device sends.

use hlo::proto::{AxisRefProto, HloInstructionProto, MeshAxesReplicaGroupListProto};

use super::traffic::Traffic;
use crate::index::Index;
use crate::shape;

/// A value that is renamed more often than this is nobody's.
const MOST_NAMES: usize = 16;

/// The kind of collective that an instruction starts, without `-start`; `None` for all else.
pub(crate) fn kind(instruction: &HloInstructionProto) -> Option<&str> {
    let opcode = instruction.opcode.strip_suffix("-start").unwrap_or(&instruction.opcode);
    let kinds = [
        "all-reduce",
        "all-gather",
        "reduce-scatter",
        "all-to-all",
        "ragged-all-to-all",
        "collective-permute",
        "collective-broadcast",
    ];
    kinds.contains(&opcode).then_some(opcode)
}

/// The kind of a collective within a fusion. libtpu's reduce-scatter for v5e is one: an all-reduce, of which each device takes
/// nothing but its own part.
pub(crate) fn kind_in_fusion<'a>(instruction: &'a HloInstructionProto, traffic: &Traffic<'_>) -> Option<&'a str> {
    let kind = kind(instruction)?;
    Some(if kind == "all-reduce" && is_scattered(instruction.id, traffic) { "reduce-scatter" } else { kind })
}

/// Whether a part is all that is used of a value, by whatever name.
fn is_scattered(value: i64, traffic: &Traffic<'_>) -> bool {
    let mut value = value;
    for _ in 0..MOST_NAMES {
        let [user] = traffic.users(value) else { return false };
        match user.opcode.as_str() {
            "dynamic-slice" => return user.operand_ids.first() == Some(&value),
            "bitcast" | "reshape" | "copy" => value = user.id,
            _ => return false,
        }
    }
    false
}

/// Bytes that one device sends, by the algorithm that sends fewest: rings of the group's size.
pub(crate) fn bytes(index: &Index<'_>, kind: &str, instruction: &HloInstructionProto, devices: u32) -> f64 {
    let group = group_size(instruction).unwrap_or(f64::from(devices)).max(1.0);
    let share = (group - 1.0) / group;
    let operands: f64 = index.operands(instruction).filter_map(|it| it.shape.as_ref()).map(padded).sum();
    match kind {
        "all-reduce" => 2.0 * share * operands,
        "all-gather" => (group - 1.0) * operands,
        "collective-permute" | "collective-broadcast" => operands,
        _ => share * operands,
    }
}

/// Devices that take part in one exchange; `None` if all do.
fn group_size(instruction: &HloInstructionProto) -> Option<f64> {
    let list = instruction.collective_device_list.as_ref();
    let iota = list.and_then(|list| list.iota_replica_group_list.as_ref());
    let iota = instruction.iota_replica_group_list.as_ref().or(iota).map(|it| it.num_devices_per_group);
    let listed = list.map(|list| &list.replica_groups).filter(|groups| !groups.is_empty());
    let groups = listed.unwrap_or(&instruction.replica_groups);
    let largest = groups.iter().map(|group| group.replica_ids.len()).max().filter(|&size| size > 0);
    let of_mesh = instruction.mesh_axes_replica_group_list.as_ref().and_then(along_axes);
    let counted = iota.filter(|&size| size > 0).map(|size| size as f64);
    of_mesh.or(counted).or(largest.map(|size| size as f64))
}

/// Devices along the axes of a mesh, or along parts of them.
fn along_axes(groups: &MeshAxesReplicaGroupListProto) -> Option<f64> {
    let mesh = groups.mesh.as_ref()?;
    let size = |axis: &AxisRefProto| {
        let part = axis.sub_axis_info.as_ref().map(|part| part.size);
        let whole = usize::try_from(axis.mesh_axis_index).ok().and_then(|it| mesh.axes.get(it)).map(|it| it.size);
        part.or(whole).filter(|&size| size > 0)
    };
    let sizes: Option<Vec<i64>> = groups.axes.iter().map(size).collect();
    sizes.filter(|sizes| !sizes.is_empty()).map(|sizes| sizes.into_iter().map(|it| it as f64).product())
}

fn padded(shape: &hlo::proto::ShapeProto) -> f64 {
    let mut sum = 0.0;
    shape::arrays(shape, &mut |array| sum += shape::padded_bytes(array) as f64);
    sum
}
