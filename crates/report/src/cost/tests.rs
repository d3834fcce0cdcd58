use super::*;
use crate::testing::{array, at_line, computation, instruction, laid_out, module, tuple};
use hlo::proto::{
    AxisRefProto, CollectiveDeviceListProto, DotDimensionNumbers, HloComputationProto, HloProto,
    IotaReplicaGroupListProto, LiteralProto, MeshAxesReplicaGroupListProto, MeshAxisProto, MeshProto, ReplicaGroup,
    ShapeProto, Window, WindowDimension,
};

const TILES: &[&[i64]] = &[&[8, 128]];

fn hbm(dimensions: &[i64]) -> ShapeProto {
    laid_out("f32", dimensions, TILES, 0)
}

fn vmem(dimensions: &[i64]) -> ShapeProto {
    laid_out("f32", dimensions, TILES, 1)
}

fn analysed(computations: Vec<HloComputationProto>, devices: u32) -> Cost {
    let dump = HloProto { hlo_module: Some(module(computations)), buffer_assignment: None };
    let cost = crate::analyse(&dump, &Input { devices, ..crate::tests::input() }).1;
    let lines: f64 = cost.lines.iter().map(|it| it.seconds).sum();
    assert!((lines - cost.seconds).abs() <= cost.seconds * 1e-9, "lines share all of the time");
    cost
}

fn fused(id: i64, shape: ShapeProto, operands: &[i64], called: i64) -> HloInstructionProto {
    HloInstructionProto {
        called_computation_ids: vec![called],
        fusion_kind: "kLoop".to_owned(),
        ..instruction(id, "fusion", shape, operands)
    }
}

fn close(a: f64, b: f64) {
    assert!((a - b).abs() <= b.abs() * 1e-9, "{a} is not {b}");
}

#[test]
fn a_product_is_bound_by_the_matrix_unit() {
    let numbers = DotDimensionNumbers {
        lhs_contracting_dimensions: vec![1],
        rhs_contracting_dimensions: vec![0],
        ..DotDimensionNumbers::default()
    };
    let dot = instruction(3, "dot", hbm(&[4096, 4000]), &[1, 2]);
    let dot = HloInstructionProto { dot_dimension_numbers: Some(numbers), ..at_line(dot, "m/aten.mm.default", 7) };
    let entry = vec![
        instruction(1, "parameter", hbm(&[4096, 4096]), &[]),
        instruction(2, "parameter", hbm(&[4096, 4000]), &[]),
        dot,
    ];
    let cost = analysed(vec![computation(1, entry)], 1);
    let region = &cost.regions[0];
    close(region.flops, 2.0 * 4096.0 * 4096.0 * 4000.0);
    close(region.hbm_bytes, 4.0 * 4096.0 * (4096.0 + 4096.0 + 4096.0) - 0.0);
    assert_eq!(region.bound, "matrix unit");
    // Rows pass in multiples of 8, so that the 4000 columns need no padding when they are the ones that pass.
    close(region.seconds, 2.0 * 4096.0 * 4096.0 * 4000.0 / 197e12 + LAUNCH);
    assert!(cost.padding.is_empty());
}

#[test]
fn fusions_share_their_work_among_their_lines() {
    let body = vec![
        instruction(11, "parameter", hbm(&[1024, 1024]), &[]),
        at_line(instruction(12, "exponential", hbm(&[1024, 1024]), &[11]), "m/aten.exp.default", 1),
        at_line(instruction(13, "add", hbm(&[1024, 1024]), &[12, 12]), "m/aten.add.Tensor", 2),
    ];
    let entry = vec![instruction(1, "parameter", hbm(&[1024, 1024]), &[]), fused(2, hbm(&[1024, 1024]), &[1], 10)];
    let cost = analysed(vec![computation(10, body), computation(1, entry)], 1);
    let elements = 1024.0 * 1024.0;
    assert_eq!((cost.flops, cost.transcendentals, cost.hbm_bytes), (elements, elements, 8.0 * elements));
    assert_eq!(cost.regions[0].bound, "bandwidth");
    close(cost.seconds, 8.0 * elements / 819e9 + LAUNCH);
    let line = |line: u32| cost.lines.iter().find(|it| it.source.line == line).expect("a line");
    assert_eq!((line(1).transcendentals, line(1).flops, line(1).hbm_bytes), (elements, 0.0, 4.0 * elements));
    assert_eq!((line(2).transcendentals, line(2).flops, line(2).hbm_bytes), (0.0, elements, 4.0 * elements));
    close(line(1).share, 0.5);
}

#[test]
fn slices_read_what_they_take_and_updates_write_what_they_change() {
    let body = vec![
        instruction(11, "parameter", hbm(&[1024, 1024]), &[]),
        HloInstructionProto { parameter_number: 1, ..instruction(12, "parameter", hbm(&[8, 1024]), &[]) },
        instruction(13, "slice", hbm(&[8, 1024]), &[11]),
        instruction(14, "add", hbm(&[8, 1024]), &[13, 12]),
        instruction(15, "dynamic-update-slice", hbm(&[1024, 1024]), &[11, 14]),
    ];
    let entry = vec![
        instruction(1, "parameter", hbm(&[1024, 1024]), &[]),
        instruction(2, "parameter", hbm(&[8, 1024]), &[]),
        fused(3, hbm(&[1024, 1024]), &[1, 2], 10),
        instruction(4, "dynamic-slice", vmem(&[8, 1024]), &[3]),
    ];
    let cost = analysed(vec![computation(10, body), computation(1, entry)], 1);
    let part = 8.0 * 1024.0 * 4.0;
    assert_eq!(cost.regions[0].hbm_bytes, 3.0 * part, "the slice, the other operand, the update");
    assert_eq!(cost.regions[1].hbm_bytes, part, "its result is in vector memory");
    assert_eq!(cost.regions[1].operands, ["fusion.3"]);
}

#[test]
fn prefetches_take_what_computing_does_not_hide() {
    let counted = |shape: ShapeProto| tuple(&[shape, hbm(&[8192, 1024]), array("u32", &[])]);
    let entry = |between: Vec<HloInstructionProto>| {
        let mut entry = vec![
            instruction(1, "parameter", hbm(&[8192, 1024]), &[]),
            at_line(instruction(2, "copy-start", counted(vmem(&[8192, 1024])), &[1]), "", 1),
        ];
        entry.extend(between);
        entry.push(instruction(9, "copy-done", vmem(&[8192, 1024]), &[2]));
        analysed(vec![computation(1, entry)], 1)
    };
    let transfer = 8192.0 * 1024.0 * 4.0 / 819e9;
    close(entry(Vec::new()).seconds, transfer);
    let exponential = |id| instruction(id, "exponential", vmem(&[1024, 1024]), &[1]);
    let one = entry(vec![exponential(3)]);
    let computing = 1024.0 * 1024.0 / (1024.0 * 1.5e9) + LAUNCH;
    let operand = 8192.0 * 1024.0 * 4.0 / 819e9 + LAUNCH;
    assert_eq!(one.regions[1].bound, "bandwidth", "the operand is in HBM");
    close(one.regions[1].seconds, operand.max(computing));
    // While it reads its own operand, HBM has only the launch to spare for the prefetch.
    close(one.regions[0].seconds, transfer - LAUNCH);
    let on_chip = HloInstructionProto { operand_ids: Vec::new(), ..exponential(3) };
    let hidden = entry(vec![on_chip]);
    close(hidden.regions[0].seconds, (transfer - computing).max(0.0));
    close(hidden.hbm_bytes, 8192.0 * 1024.0 * 4.0);
}

#[test]
fn loops_run_as_often_as_their_condition_says() {
    let state = || tuple(&[array("s32", &[]), vmem(&[1024, 1024])]);
    let get = |id: i64, of: i64, index: i64, shape: ShapeProto| HloInstructionProto {
        tuple_index: index,
        ..instruction(id, "get-tuple-element", shape, &[of])
    };
    let constant = |id: i64, value: i32| HloInstructionProto {
        literal: Some(LiteralProto { s32s: vec![value], ..LiteralProto::default() }),
        ..instruction(id, "constant", array("s32", &[]), &[])
    };
    let body = vec![
        instruction(11, "parameter", state(), &[]),
        get(12, 11, 1, vmem(&[1024, 1024])),
        instruction(13, "tanh", vmem(&[1024, 1024]), &[12]),
    ];
    let condition = vec![
        instruction(21, "parameter", state(), &[]),
        get(22, 21, 0, array("s32", &[])),
        constant(23, 12),
        instruction(24, "compare", array("pred", &[]), &[22, 23]),
    ];
    let entry = vec![
        instruction(1, "parameter", vmem(&[1024, 1024]), &[]),
        constant(2, 2),
        instruction(3, "tuple", state(), &[2, 1]),
        HloInstructionProto { called_computation_ids: vec![10, 20], ..instruction(4, "while", state(), &[3]) },
    ];
    let cost = analysed(vec![computation(10, body), computation(20, condition), computation(1, entry)], 1);
    let tanh = cost.regions.iter().find(|it| it.name == "tanh.13").expect("the body");
    assert_eq!((tanh.runs, tanh.transcendentals), (10.0, 10.0 * 1024.0 * 1024.0));
}

#[test]
fn the_dearest_branch_counts() {
    let branch = |id: i64, op: &str, rows: i64| {
        let parameter = instruction(id + 1, "parameter", vmem(&[1024, 1024]), &[]);
        computation(id, vec![parameter, instruction(id + 2, op, vmem(&[rows, 1024]), &[id + 1])])
    };
    let entry = vec![
        instruction(1, "parameter", vmem(&[1024, 1024]), &[]),
        HloInstructionProto {
            called_computation_ids: vec![10, 20],
            ..instruction(2, "conditional", vmem(&[8, 1024]), &[1])
        },
    ];
    let cost = analysed(vec![branch(10, "tanh", 8), branch(20, "tanh", 1024), computation(1, entry)], 1);
    assert_eq!(cost.regions.len(), 1);
    assert_eq!(cost.transcendentals, 1024.0 * 1024.0);
}

#[test]
fn collectives_send_what_rings_send() {
    let groups = vec![ReplicaGroup { replica_ids: vec![0, 1, 2, 3] }, ReplicaGroup { replica_ids: vec![4, 5, 6, 7] }];
    let iota = IotaReplicaGroupListProto { num_replica_groups: 1, num_devices_per_group: 8 };
    let axis = |size: i64| MeshAxisProto { size, ..MeshAxisProto::default() };
    let mesh = MeshAxesReplicaGroupListProto {
        mesh: Some(MeshProto { axes: vec![axis(8), axis(2)] }),
        axes: vec![AxisRefProto { mesh_axis_index: 1, sub_axis_info: None }],
    };
    let list = CollectiveDeviceListProto { iota_replica_group_list: Some(iota), ..Default::default() };
    let entry = vec![
        instruction(1, "parameter", hbm(&[1024, 1024]), &[]),
        HloInstructionProto { replica_groups: groups, ..instruction(2, "all-reduce", hbm(&[1024, 1024]), &[1]) },
        HloInstructionProto {
            collective_device_list: Some(list),
            ..instruction(3, "all-gather", hbm(&[8192, 1024]), &[1])
        },
        instruction(4, "reduce-scatter", hbm(&[64, 1024]), &[1]),
        HloInstructionProto {
            mesh_axes_replica_group_list: Some(mesh),
            ..instruction(5, "all-to-all", hbm(&[1024, 1024]), &[1])
        },
    ];
    let cost = analysed(vec![computation(1, entry)], 16);
    let size = 1024.0 * 1024.0 * 4.0;
    let sent: Vec<_> = cost.collectives.iter().map(|it| (it.kind.as_str(), it.count, it.bytes)).collect();
    let expected = [
        ("all-gather", 1.0, 7.0 * size),
        ("all-reduce", 1.0, 2.0 * 3.0 / 4.0 * size),
        ("all-to-all", 1.0, size / 2.0),
        ("reduce-scatter", 1.0, 15.0 / 16.0 * size),
    ];
    assert_eq!(sent, expected);
}

#[test]
fn a_fusion_that_takes_a_part_of_a_sum_is_a_reduce_scatter() {
    let (size, part) = (1024.0 * 1024.0 * 4.0, hbm(&[256, 1024]));
    let sent = |root: HloInstructionProto| {
        let fused = vec![
            instruction(11, "parameter", hbm(&[1024, 1024]), &[]),
            instruction(12, "all-reduce", hbm(&[1024, 1024]), &[11]),
            instruction(13, "partition-id", array("u32", &[]), &[]),
            instruction(14, "bitcast", hbm(&[1024, 1024]), &[12]),
            root,
        ];
        let fusion =
            HloInstructionProto { called_computation_ids: vec![10], ..instruction(2, "fusion", part.clone(), &[1]) };
        let entry = vec![instruction(1, "parameter", hbm(&[1024, 1024]), &[]), fusion];
        let cost = analysed(vec![computation(10, fused), computation(1, entry)], 4);
        cost.collectives.into_iter().map(|it| (it.kind, it.bytes)).collect::<Vec<_>>()
    };
    let scattered = instruction(15, "dynamic-slice", part.clone(), &[14, 13]);
    assert_eq!(sent(scattered), [("reduce-scatter".to_owned(), 0.75 * size)]);
    let whole = instruction(15, "tanh", hbm(&[1024, 1024]), &[14]);
    assert_eq!(sent(whole), [("all-reduce".to_owned(), 1.5 * size)]);
    let from_there = instruction(15, "dynamic-slice", part.clone(), &[11, 14]);
    assert_eq!(sent(from_there), [("all-reduce".to_owned(), 1.5 * size)]);
}

#[test]
fn kernels_count_what_they_say_of_themselves() {
    let called = |config: &str| {
        let call = instruction(2, "custom-call", hbm(&[8, 128]), &[1]);
        let call = HloInstructionProto { backend_config: config.as_bytes().to_vec(), ..call };
        let cost = analysed(vec![computation(1, vec![instruction(1, "parameter", hbm(&[8, 128]), &[]), call])], 1);
        (cost.flops, cost.transcendentals)
    };
    let estimate = r#"{"flops":"536870912","transcendentals":"262144","bytes_accessed":"3145728"}"#;
    let config = format!(r#"{{"custom_call_config":{{"body":"bW9k","cost_estimate":{estimate}}}}}"#);
    assert_eq!(called(&config), (536_870_912.0, 262_144.0));
    for silent in ["", "{}", "nonsense", r#"{"custom_call_config":{"cost_estimate":{"flops":"-1"}}}"#] {
        assert_eq!(called(silent), (0.0, 0.0), "{silent}");
    }
}

#[test]
fn a_window_over_all_of_a_dimension_is_reduced_once() {
    let window = |size: i64, padding: i64| {
        let dimension = |size: i64, padding: i64| WindowDimension {
            size,
            stride: 1,
            padding_low: padding,
            padding_high: padding,
            window_dilation: 1,
            base_dilation: 1,
            window_reversal: false,
        };
        let window = Window { dimensions: vec![dimension(1, 0), dimension(size, padding)] };
        let shape = hbm(&[8, 512]);
        let reduced = instruction(3, "reduce-window", shape.clone(), &[1, 2]);
        let entry = vec![
            instruction(1, "parameter", shape, &[]),
            instruction(2, "constant", hbm(&[]), &[]),
            HloInstructionProto { window: Some(window), ..reduced },
        ];
        analysed(vec![computation(1, entry)], 1).flops
    };
    close(window(1023, 511), 8.0 * 511.0);
    close(window(3, 1), 8.0 * 512.0 * 2.0);
    close(window(1021, 510), 8.0 * 512.0 * 1020.0);
}

#[test]
fn nonsense_is_survived() {
    let calls = |id: i64, opcode: &str, called: &[i64]| HloInstructionProto {
        called_computation_ids: called.to_vec(),
        ..instruction(id, opcode, tuple(&[]), &[id, -7])
    };
    let entry = vec![
        calls(1, "while", &[1, 1]),
        calls(2, "fusion", &[1, 99]),
        calls(3, "conditional", &[2]),
        calls(4, "call", &[2]),
        calls(5, "async-start", &[1]),
        calls(6, "copy-start", &[]),
        calls(7, "copy-done", &[]),
        instruction(8, "convolution", hbm(&[-1]), &[8, 8]),
        instruction(9, "sort", hbm(&[i64::MAX, i64::MAX]), &[]),
        HloInstructionProto { shape: None, ..instruction(10, "reduce", hbm(&[1]), &[1]) },
    ];
    let nested = computation(2, vec![calls(21, "while", &[2, 1]), calls(22, "fusion", &[2])]);
    analysed(vec![nested, computation(1, entry)], 0);
}
