//! Runs graphs on the CPU plugin: `TORCHTPU_PLUGIN`, or the one in the workspace's virtual environment.
#![allow(dead_code, unreachable_pub)] // each test file has its own copy and uses its own part
#![allow(clippy::unwrap_used)]

use ir::{Graph, Literal, TensorType, Type};
use runtime::{Buffer, Client, CompileOptions, Device, Executable, ExecuteOptions, FlagValue, Plugin, Signature};
use torchtpu_lower::{LowerOptions, Module, XLA_FLAGS, lower};

#[path = "../../../runtime/tests/common/plugin.rs"]
mod plugin;

pub struct Machine {
    client: Client,
    device: Device,
}

impl Machine {
    pub fn new() -> Machine {
        let plugin = Plugin::load(plugin::path()).unwrap();
        let client = Client::new(plugin, &[("cpu_device_count", runtime::Value::I64(1))]).unwrap();
        let device = client.device(0).unwrap();
        Machine { client, device }
    }

    pub fn plugin(&self) -> Plugin {
        Plugin::load(plugin::path()).unwrap()
    }

    /// Compiles a program that stands alone; its signature is read from the plugin's answer.
    pub fn compile(&self, program: &[u8]) -> runtime::Result<Executable> {
        self.client.compile(program, &self.options(), None)
    }

    pub fn compile_module(&self, graph: &Graph, module: &Module) -> runtime::Result<Executable> {
        let inputs = graph.input_types().map(|t| driver::runtime_type(tensor(t)));
        let signature = Signature::new(inputs).donating(module.donated().iter().copied());
        self.client.compile(module.bytecode(), &self.options(), Some(signature))
    }

    fn options(&self) -> CompileOptions {
        let mut options = CompileOptions::for_device(&self.device).fast_compile();
        let flags = XLA_FLAGS.iter().map(|&(name, value)| (name.to_owned(), FlagValue::Bool(value)));
        options.flags.extend(flags);
        options
    }

    pub fn upload(&self, x: &Literal) -> Buffer {
        Buffer::from_host(&self.device, &x.dense_bytes(), driver::runtime_type(&x.ty)).unwrap()
    }

    /// The outputs of `graph`, or what the plugin says against it.
    pub fn run(&self, graph: &Graph, inputs: &[Literal]) -> Result<Vec<Literal>, String> {
        let module = lower(graph, &LowerOptions::default()).map_err(|e| e.to_string())?;
        let executable = self.compile_module(graph, &module).map_err(|e| e.to_string())?;
        let buffers: Vec<Buffer> = inputs.iter().map(|x| self.upload(x)).collect();
        let run = executable.execute(&buffers, &ExecuteOptions::default()).map_err(|e| e.to_string())?;
        let types = graph.output_types().map(tensor);
        run.outputs.iter().zip(types).map(|(buffer, ty)| download(buffer, ty)).collect()
    }
}

pub fn download(buffer: &Buffer, ty: &TensorType) -> Result<Literal, String> {
    let bytes = buffer.to_host().map_err(|e| e.to_string())?.to_vec();
    let n = bytes.len();
    Literal::dense(ty.clone(), bytes).ok_or_else(|| format!("{n} bytes are no {ty}"))
}

fn tensor(ty: &Type) -> &TensorType {
    ty.tensor().unwrap()
}
