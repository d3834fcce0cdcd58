//! What an executable tells about itself, and that it can be kept and loaded again.

mod common;
#[path = "common/division.rs"]
mod division;

use common::*;
use division::{is_divided, may_be_divided};
use torchtpu_runtime::{CompileOptions, ElementType, ExecuteOptions, Plugin, Signature, TensorType, Value};

/// A softmax that reuses nothing, with a source position.
const SOFTMAX: &str = r#"
#line = loc("model.py":7:3)
#op = loc("encoder/softmax"(#line))
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %exp = stablehlo.exponential %x : tensor<4x8xf32> loc(#op)
  %sum = stablehlo.reduce(%exp init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  %all = stablehlo.broadcast_in_dim %sum, dims = [0] : (tensor<4xf32>) -> tensor<4x8xf32>
  %out = stablehlo.divide %exp, %all : tensor<4x8xf32> loc(#op)
  return %out : tensor<4x8xf32>
}"#;

#[test]
fn serialized_executables_load_and_run() {
    let client = client();
    let device = first_device(&client);
    let original = compile(&client, INCREMENT);
    let bytes = original.serialize().expect("serializes");
    let signature = Signature::new([f32s(&[64])]).donating([0]);
    assert_eq!(&signature, original.signature());
    for given in [Some(signature), None] {
        let loaded = client.deserialize_and_load(&bytes, given).expect("loads");
        assert_eq!(loaded.signature(), original.signature());
        assert_eq!(loaded.output_types(), original.output_types());
        let x = upload(&device, &[1.0; 64], &[64]);
        let run = loaded.execute(&[x], &ExecuteOptions::default()).expect("runs");
        assert_eq!(download(&run.outputs[0]), [2.0; 64]);
    }
    let error = client.deserialize_and_load(b"not an executable", None).expect_err("garbage");
    assert!(error.code().is_some(), "{error}");
}

#[test]
fn the_signature_is_read_from_the_program() {
    let client = client();
    let program = "
        func.func @main(%a: tensor<i64>, %b: tensor<2x3xbf16> {tf.aliasing_output = 1 : i32}, %c: tensor<0xi1>)
            -> (tensor<i64>, tensor<2x3xbf16>) {
          %0 = stablehlo.negate %a : tensor<i64>
          %1 = stablehlo.negate %b : tensor<2x3xbf16>
          return %0, %1 : tensor<i64>, tensor<2x3xbf16>
        }";
    let program = compile(&client, program);
    let inputs: Vec<String> = program.signature().inputs.iter().map(|ty| ty.to_string()).collect();
    assert_eq!(inputs, ["s64[]", "bf16[2,3]", "pred[0]"]);
    assert_eq!(program.signature().donated, [1]);
    let outputs: Vec<TensorType> = program.output_types().iter().map(|ty| TensorType::clone(ty)).collect();
    assert_eq!(outputs, [TensorType::new(ElementType::S64, []), TensorType::new(ElementType::Bf16, [2, 3])]);
}

#[test]
fn a_program_is_divided_unless_asked_not_to_be() {
    let client = client();
    let program = "func.func @main(%x: tensor<1048576xf32>) -> tensor<1048576xf32> {
      %out = stablehlo.exponential %x : tensor<1048576xf32>
      return %out : tensor<1048576xf32>
    }";
    let made = |undivided| {
        let options = CompileOptions { undivided, ..CompileOptions::default() };
        client.compile(program.as_bytes(), &options, None).and_then(|made| made.serialize()).expect("compiles")
    };
    for undivided in [false, true, false] {
        assert_eq!(is_divided(&made(undivided)), may_be_divided() && !undivided);
    }
}

#[test]
fn the_optimized_program_reads_as_hlo() {
    let client = client();
    let text = compile(&client, SOFTMAX).optimized_program().expect("kept").to_text().expect("decodes");
    for part in ["HloModule main", "ENTRY %main", "f32[4,8]{1,0}", "parameter(0)", "ROOT "] {
        assert!(text.contains(part), "no `{part}` in\n{text}");
    }
    assert!(text.contains("op_name=\"encoder/softmax\""), "{text}");
    assert!(text.contains("source_file=\"model.py\" source_line=7"), "{text}");
    let text = compile(&client, INCREMENT).optimized_program().expect("kept").to_text().expect("decodes");
    assert!(text.contains("input_output_alias={ {}: 0 }"), "{text}");
}

#[test]
fn the_text_shows_control_flow_windows_and_indices() {
    let program = r#"
        func.func @main(%x: tensor<1x3x8x8xf32>, %w: tensor<4x3x3x3xf32>, %t: tensor<10x4xf32>, %i: tensor<3xi32>)
            -> (tensor<1x4x4x4xf32>, tensor<i32>, tensor<3x4xf32>) {
          %conv = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],
            window = {stride = [2, 2], pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
            : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x4x4xf32>
          %zero = stablehlo.constant dense<0> : tensor<i32>
          %limit = stablehlo.constant dense<10> : tensor<i32>
          %one = stablehlo.constant dense<1> : tensor<i32>
          %loop = stablehlo.while(%n = %zero) : tensor<i32>
            cond {
              %less = stablehlo.compare LT, %n, %limit : (tensor<i32>, tensor<i32>) -> tensor<i1>
              stablehlo.return %less : tensor<i1>
            } do {
              %square = stablehlo.multiply %n, %n : tensor<i32>
              %next = stablehlo.add %square, %one : tensor<i32>
              stablehlo.return %next : tensor<i32>
            }
          %rows = "stablehlo.gather"(%t, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [1],
            collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>}
            : (tensor<10x4xf32>, tensor<3xi32>) -> tensor<3x4xf32>
          return %conv, %loop, %rows : tensor<1x4x4x4xf32>, tensor<i32>, tensor<3x4xf32>
        }"#;
    let text = compile(&client(), program).optimized_program().expect("kept").to_text().expect("decodes");
    let parts = ["window={size=3x3 stride=2x2 pad=1_1x1_1}, dim_labels=", " while(%", "condition=%", "body=%"];
    for part in parts.into_iter().chain(["slice_sizes={1,4}", "calls=%", "kind=kLoop", "direction=LT", "constant(10)"])
    {
        assert!(text.contains(part), "no `{part}` in\n{text}");
    }
}

#[test]
fn costs_and_memory_are_counted() {
    let client = client();
    let softmax = compile(&client, SOFTMAX);
    let costs = softmax.cost_analysis().expect("known");
    assert!(costs.iter().any(|(name, value)| name == "flops" && matches!(value, Value::F32(flops) if *flops > 0.0)));
    assert!(costs.is_sorted_by(|(left, _), (right, _)| left <= right));
    let memory = softmax.memory_analysis().expect("known");
    assert_eq!((memory.arguments, memory.outputs, memory.aliased), (128, 128, 0));
    let memory = compile(&client, INCREMENT).memory_analysis().expect("known");
    assert_eq!((memory.arguments, memory.outputs, memory.aliased), (256, 256, 256));
}

#[test]
fn flags_are_accepted_for_one_compile() {
    let client = client();
    let fast = CompileOptions::default().fast_compile();
    let program = client.compile(ADD.as_bytes(), &fast, None).expect("compiles");
    let x = upload(&first_device(&client), &[1.0; 4], &[4]);
    let run = program.execute(&[&x, &x], &ExecuteOptions::default()).expect("runs");
    assert_eq!(download(&run.outputs[0]), [2.0; 4]);
    assert!(program.name().expect("known").contains("main"));
    assert_eq!(program.num_partitions().expect("known"), 1);
}

#[test]
fn the_plugin_and_its_devices_describe_themselves() {
    let plugin = plugin();
    assert_eq!(plugin.api_version().major, 0);
    assert!(plugin.attributes().expect("known").iter().any(|(name, _)| name == "stablehlo_current_version"));
    let again = Plugin::discover(Some(&plugin_path().display().to_string())).expect("loads");
    assert_eq!(again.path(), plugin.path());
    let fingerprint = plugin.fingerprint().expect("reads");
    assert_eq!(fingerprint, again.fingerprint().expect("reads"));
    assert_eq!(fingerprint.len(), 64);

    let client = client_of(2);
    assert_eq!(client.platform_name(), "cpu");
    let devices = client.devices();
    assert_eq!(devices.iter().map(|device| device.id()).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(devices[0].kind(), "cpu");
    assert!(!devices[0].description().is_empty());
    assert!(client.device(2).is_err());
}

#[test]
fn the_compile_fingerprint_tells_programs_apart() {
    let client = client();
    let fingerprint = |program| compile(&client, program).fingerprint().expect("known");
    assert_eq!(fingerprint(ADD), fingerprint(ADD));
    assert_ne!(fingerprint(ADD), fingerprint(INCREMENT));
}
