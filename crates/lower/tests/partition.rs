//! Shardings as the plugin reads them: a partitioned program computes what the whole one does, on eight devices.

#![allow(clippy::unwrap_used)]

#[path = "../../runtime/tests/common/plugin.rs"]
mod plugin;

use ir::op::DotGeneral;
use ir::sharding::{Partition, Results, Rules};
use ir::{Builder, DType, Graph, InputKind, OutputKind, Precision, TensorType};
use runtime::{Buffer, Client, CompileOptions, Executable, ExecuteOptions, Plugin, Signature};
use torchtpu_lower::{LowerOptions, Module, lower};

fn f32s(shape: &[usize]) -> TensorType {
    TensorType::new(DType::F32, shape.iter().copied())
}

/// `y = x @ w`, and `w` becomes `2 w`.
fn graph() -> Graph {
    let b = Builder::new("step");
    let x = b.input("x", InputKind::User, f32s(&[8, 6]));
    let w = b.input("w", InputKind::Parameter, f32s(&[6, 16]));
    let contraction = DotGeneral {
        lhs_batch: Default::default(),
        rhs_batch: Default::default(),
        lhs_contract: [1].into_iter().collect(),
        rhs_contract: [0].into_iter().collect(),
        precision: Precision::Highest,
        out: DType::F32,
        host: false,
    };
    let y = b.dot_general(x, w, contraction).unwrap();
    b.output("y", OutputKind::User, y);
    let doubled = b.add(w, w).unwrap();
    b.output("w_next", OutputKind::Mutation(1), doubled);
    b.finish()
}

fn partition(rules: &str) -> Partition {
    let rules: Rules = serde_json::from_str(rules).unwrap();
    let results: Results = vec![Some((0, vec![0, 1])), None];
    rules.resolve(&graph(), &results, &"data=4,model=2".parse().unwrap()).unwrap()
}

fn module(partition: Option<Partition>) -> Module {
    lower(&graph(), &LowerOptions { partition, ..LowerOptions::default() }).unwrap()
}

fn compile(client: &Client, program: &[u8], signature: Signature) -> Executable {
    let options = CompileOptions {
        num_partitions: 8,
        device_assignment: Some(client.devices().iter().map(runtime::Device::id).collect()),
        use_spmd_partitioning: true,
        use_shardy_partitioner: true,
        ..CompileOptions::default()
    };
    client.compile(program, &options, Some(signature)).unwrap()
}

/// The part of a row-major `values` of `shape` that begins at `start`.
fn part(values: &[f32], shape: &[usize], start: &[usize], extents: &[usize]) -> Vec<u8> {
    let rows = (start[0]..start[0] + extents[0]).flat_map(|i| {
        let row = i * shape[1] + start[1];
        values[row..row + extents[1]].iter().flat_map(|x| x.to_ne_bytes())
    });
    rows.collect()
}

/// Runs the module; each output put together, and the HLO.
fn run(program: &[u8], partition: &Partition, arguments: [&[f32]; 2]) -> (Vec<Vec<f32>>, String) {
    let client = Client::new(Plugin::load(plugin::path()).unwrap(), &[("cpu_device_count", runtime::Value::I64(8))]);
    let (client, mesh, graph) = (client.unwrap(), partition.mesh(), graph());
    let shapes: Vec<_> = graph.input_types().map(|t| t.tensor().unwrap().shape.clone()).collect();
    let parts: Vec<_> = shapes.iter().zip(partition.inputs()).map(|(s, p)| p.shard_shape(mesh, s)).collect();
    let signature = Signature::new(parts.iter().map(|p| driver::runtime_type(&f32s(p)))).donating([1]);
    let executable = compile(&client, program, signature);
    let upload = |d: usize, i: usize| {
        let start = partition.inputs()[i].shard_start(mesh, &shapes[i], d);
        let bytes = part(arguments[i], &shapes[i], &start, &parts[i]);
        Buffer::from_host(&executable.devices()[d], &bytes, driver::runtime_type(&f32s(&parts[i]))).unwrap()
    };
    let buffers: Vec<Vec<Buffer>> = (0..8).map(|d| (0..2).map(|i| upload(d, i)).collect()).collect();
    let lists: Vec<&[Buffer]> = buffers.iter().map(Vec::as_slice).collect();
    let runs = executable.execute_sharded(&lists, &ExecuteOptions::default()).unwrap();
    let mut outputs: Vec<Vec<f32>> =
        graph.output_types().map(|t| vec![f32::NAN; t.tensor().unwrap().numel()]).collect();
    for (d, run) in runs.iter().enumerate() {
        for (i, buffer) in run.outputs.iter().enumerate() {
            let shape = &graph.tensor_type(graph.outputs[i].value).unwrap().shape;
            let extents: Vec<usize> = buffer.dims().iter().map(|&d| d as usize).collect();
            let start = partition.outputs()[i].as_ref().unwrap().shard_start(mesh, shape, d);
            let bytes = buffer.to_host().unwrap();
            for (n, x) in bytes.chunks_exact(4).enumerate() {
                let (row, column) = (start[0] + n / extents[1], start[1] + n % extents[1]);
                outputs[i][row * shape[1] + column] = f32::from_ne_bytes(x.try_into().unwrap());
            }
        }
    }
    (outputs, executable.optimized_program().unwrap().to_text().unwrap())
}

#[test]
fn shardings_are_written_as_shardy_has_them() {
    let rules = r#"{"x": [["model", "data"]], "w": [null, "model"]}"#;
    let text = module(Some(partition(rules))).text().unwrap();
    for line in [
        r#""sdy.mesh"() {mesh = #sdy.mesh<["data"=4, "model"=2]>, sym_name = "mesh"} : () -> ()"#,
        r#"%arg0: tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model", "data"}, {}]>}"#,
        r#"%arg1: tensor<6x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>, tf.aliasing_output = 1 : i32}"#,
        r#"-> (tensor<8x16xf32>, tensor<6x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>})"#,
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    assert!(!module(None).text().unwrap().contains("sdy"));
}

#[test]
fn a_partitioned_program_computes_what_the_whole_one_does() {
    let x: Vec<f32> = (0..48).map(|i| (i % 7) as f32 - 3.0).collect();
    let w: Vec<f32> = (0..96).map(|i| (i % 5) as f32 - 2.0).collect();
    let product = |i: usize, j: usize| (0..6).map(|k| x[i * 6 + k] * w[k * 16 + j]).sum::<f32>();
    let y: Vec<f32> = (0..128).map(|n| product(n / 16, n % 16)).collect();
    let doubled: Vec<f32> = w.iter().map(|w| 2.0 * w).collect();
    for (rules, collective) in [
        (r#"{"x": ["data"], "w": [], "output.0": []}"#, "all-gather"),
        (r#"{"x": ["data", "model"], "w": ["model"], "output.0": ["data"]}"#, "all-reduce"),
        (r#"{"w": [null, ["data", "model"]], "output.0": [["model", "data"]]}"#, "all-gather"),
        (r#"{"x": [["model", "data"]], "output.0": [["model", "data"]]}"#, ""),
        (r#"{"x": ["data"], "w": [null, "model"]}"#, "all-gather"),
    ] {
        let partition = partition(rules).with_whole_results(&graph());
        let module = module(Some(partition.clone()));
        let text = module.text().unwrap();
        for program in [module.bytecode(), text.as_bytes()] {
            let (outputs, hlo) = run(program, &partition, [&x, &w]);
            assert_eq!(outputs, [y.clone(), doubled.clone()], "{rules}");
            assert!(hlo.contains(collective), "{rules}: {hlo}");
        }
    }
}

/// Eight devices, in pairs along `model`: what the HLO declarations read of a collective is what the plugin wrote.
#[test]
fn a_collective_says_which_devices_take_part() {
    let rules = r#"{"x": ["data", "model"], "w": ["model"], "output.0": ["data"]}"#;
    let partition = partition(rules).with_whole_results(&graph());
    let module = module(Some(partition.clone()));
    let client = Client::new(Plugin::load(plugin::path()).unwrap(), &[("cpu_device_count", runtime::Value::I64(8))]);
    let shards = [f32s(&[2, 3]), f32s(&[3, 16])];
    let signature = Signature::new(shards.iter().map(driver::runtime_type)).donating([1]);
    let program = compile(&client.unwrap(), module.bytecode(), signature).optimized_program().unwrap();
    let module = program.module().unwrap();
    let instructions = module.computations.iter().flat_map(|c| &c.instructions);
    let reduce = instructions.filter(|i| i.opcode == "all-reduce").collect::<Vec<_>>();
    assert_eq!(reduce.len(), 1);
    let list = reduce[0].collective_device_list.as_ref().unwrap();
    let sizes: Vec<usize> = match &list.iota_replica_group_list {
        Some(iota) => vec![iota.num_devices_per_group as usize; iota.num_replica_groups as usize],
        None => list.replica_groups.iter().map(|group| group.replica_ids.len()).collect(),
    };
    assert_eq!(sizes, [2; 4]);
}
