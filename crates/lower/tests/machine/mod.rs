//! Runs graphs on the CPU plugin: `TORCHTPU_PLUGIN`, or the one in the workspace's virtual environment.
#![allow(dead_code, unreachable_pub)] // each test file has its own copy and uses its own part
#![allow(clippy::unwrap_used)]

use ir::{DType, Graph, Literal, TensorType, Type};
use runtime::{
    Buffer, Client, CompileOptions, Device, ElementType, Executable, ExecuteOptions, FlagValue, Plugin, Signature,
};
use std::path::{Path, PathBuf};
use torchtpu_lower::{LowerOptions, Module, XLA_FLAGS, lower};

pub struct Machine {
    client: Client,
    device: Device,
}

impl Machine {
    pub fn new() -> Machine {
        let plugin = Plugin::load(plugin_path()).unwrap();
        let client = Client::new(plugin, &[("cpu_device_count", runtime::Value::I64(1))]).unwrap();
        let device = client.device(0).unwrap();
        Machine { client, device }
    }

    /// Compiles a program that stands alone; its signature is read from the plugin's answer.
    pub fn compile(&self, program: &[u8]) -> runtime::Result<Executable> {
        self.client.compile(program, &self.options(), None)
    }

    pub fn compile_module(&self, graph: &Graph, module: &Module) -> runtime::Result<Executable> {
        let inputs = graph.input_types().map(|t| plugin_type(tensor(t)));
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
        Buffer::from_host(&self.device, &x.dense_bytes(), plugin_type(&x.ty)).unwrap()
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

fn plugin_type(ty: &TensorType) -> runtime::TensorType {
    let element = match ty.dtype {
        DType::Bool => ElementType::Pred,
        DType::I8 => ElementType::S8,
        DType::I16 => ElementType::S16,
        DType::I32 => ElementType::S32,
        DType::I64 => ElementType::S64,
        DType::U8 => ElementType::U8,
        DType::U16 => ElementType::U16,
        DType::U32 => ElementType::U32,
        DType::U64 => ElementType::U64,
        DType::F8E4M3FN => ElementType::F8E4M3Fn,
        DType::F8E5M2 => ElementType::F8E5M2,
        DType::BF16 => ElementType::Bf16,
        DType::F16 => ElementType::F16,
        DType::F32 => ElementType::F32,
        DType::F64 => ElementType::F64,
        DType::C64 => ElementType::C64,
        DType::C128 => ElementType::C128,
    };
    runtime::TensorType::new(element, ty.shape.iter().map(|&d| d as i64).collect::<Vec<_>>())
}

fn plugin_path() -> PathBuf {
    if let Some(path) = std::env::var_os(runtime::PLUGIN_ENV) {
        return path.into();
    }
    let venv = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.venv/lib");
    let pythons = std::fs::read_dir(&venv).into_iter().flatten().flatten();
    let libraries = pythons.map(|python| python.path().join("site-packages/xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so"));
    let found = libraries.into_iter().find(|library| library.exists());
    found.unwrap_or_else(|| panic!("no CPU plugin below {}: run `make setup`", venv.display()))
}
