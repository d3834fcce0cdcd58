//! What the tests share: the CPU plugin, and small programs.

#![allow(dead_code)] // each test binary uses its own part

use torchtpu_runtime::{Buffer, CPU_DEVICE_COUNT, Client, CompileOptions, Device, ElementType, Executable, Plugin};
use torchtpu_runtime::{TensorType, Value};

mod plugin;
pub(crate) use plugin::path as plugin_path;

pub(crate) fn plugin() -> Plugin {
    Plugin::load(plugin_path()).expect("the CPU plugin loads")
}

/// A client with one device.
pub(crate) fn client() -> Client {
    client_of(1)
}

pub(crate) fn client_of(devices: i64) -> Client {
    Client::new(plugin(), &[(CPU_DEVICE_COUNT, Value::I64(devices))]).expect("the CPU plugin has a client")
}

/// A client whose programs may ask for what the host does with `library`, which is as good as gone then.
pub(crate) fn client_asking((_dir, library): (tempfile::TempDir, std::path::PathBuf)) -> Client {
    plugin().offer_products(&library).expect("the plugin takes it");
    client()
}

/// What says that a call's result is its first operand.
pub(crate) const IN_PLACE: &str = "output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [], \
                                   operand_index = 0, operand_tuple_indices = []>]";

pub(crate) fn first_device(client: &Client) -> Device {
    client.device(0).expect("there is a device")
}

pub(crate) fn compile(client: &Client, program: &str) -> Executable {
    let compiled = client.compile(program.as_bytes(), &CompileOptions::default(), None);
    compiled.unwrap_or_else(|error| panic!("{error}"))
}

/// A program that calls the host's `target` with `numbers`, on operands of these types, for a result of type `out`.
pub(crate) fn calling(target: &str, numbers: &[i64], operands: &[impl AsRef<str>], out: &str) -> String {
    let list = |f: &dyn Fn(usize) -> String| (0..operands.len()).map(f).collect::<Vec<_>>().join(", ");
    let ty = |i: usize| operands[i].as_ref();
    let (arguments, names) = (list(&|i| format!("%arg{i}: {}", ty(i))), list(&|i| format!("%arg{i}")));
    let (types, numbers) = (list(&|i| ty(i).to_owned()), numbers.iter().map(i64::to_string).collect::<Vec<_>>());
    let numbers = numbers.join(", ");
    format!(
        "func.func @main({arguments}) -> {out} {{
           %0 = stablehlo.custom_call @{target}({names}) {{
             api_version = 4 : i32, backend_config = {{numbers = array<i64: {numbers}>}}
           }} : ({types}) -> {out}
           return %0 : {out}
         }}"
    )
}

pub(crate) fn f32s(dims: &[i64]) -> TensorType {
    TensorType::new(ElementType::F32, dims)
}

pub(crate) fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_ne_bytes()).collect()
}

pub(crate) fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|chunk| f32::from_ne_bytes(chunk.try_into().expect("four bytes"))).collect()
}

pub(crate) fn upload(device: &Device, values: &[f32], dims: &[i64]) -> Buffer {
    Buffer::from_host(device, &bytes(values), f32s(dims)).expect("uploads")
}

pub(crate) fn download(buffer: &Buffer) -> Vec<f32> {
    floats(&buffer.to_host().expect("downloads"))
}

/// `x + y` on vectors of four.
pub(crate) const ADD: &str = "
func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %x, %y : tensor<4xf32>
  return %0 : tensor<4xf32>
}";

/// `x + 1` on vectors of 64, in `x`'s own memory.
pub(crate) const INCREMENT: &str = "
func.func @main(%x: tensor<64xf32> {tf.aliasing_output = 0 : i32}) -> tensor<64xf32> {
  %c = stablehlo.constant dense<1.0> : tensor<64xf32>
  %0 = stablehlo.add %x, %c : tensor<64xf32>
  return %0 : tensor<64xf32>
}";
