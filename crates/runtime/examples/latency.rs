//! Prints the median time that `execute` takes to return, for programs of 1 and of 300 arguments, and what lending
//! host memory costs: `cargo run --release -p torchtpu-runtime --example latency [PLUGIN]`.

use std::fmt::Write;
use std::time::{Duration, Instant};

use torchtpu_runtime::{AlignedBytes, Buffer, Client, CompileOptions, Device, ElementType, Executable, ExecuteOptions};
use torchtpu_runtime::{Plugin, Result, TensorType};

const ROUNDS: usize = 5000;

fn main() -> Result<()> {
    let plugin = Plugin::discover(std::env::args().nth(1).as_deref())?;
    let client = Client::new(plugin, &[])?;
    let device = client.device(0)?;
    println!("{plugin:?}, {:?}", device);
    for arguments in [1, 300] {
        for donate in [false, true] {
            let program = compile(&client, arguments, donate)?;
            let time = median_execute(&program, &device, arguments)?;
            let kind = if donate { "donated" } else { "kept" };
            println!("execute, {arguments:3} {kind:7} arguments: {:8.2} us", time.as_secs_f64() * 1e6);
        }
    }
    let lend = median(|| {
        let memory = AlignedBytes::zeroed(256)?;
        let start = Instant::now();
        let buffer = Buffer::from_host_memory(&device, memory.into(), ty())?;
        let time = start.elapsed();
        drop(buffer);
        Ok(time)
    })?;
    println!("lend 256 bytes of host memory:     {:8.2} us", lend.as_secs_f64() * 1e6);
    Ok(())
}

fn ty() -> TensorType {
    TensorType::new(ElementType::F32, [64])
}

/// A program that negates its first argument and ignores the others, which it may reuse if `donate`.
fn compile(client: &Client, arguments: usize, donate: bool) -> Result<Executable> {
    let mut text = "func.func @main(".to_owned();
    for index in 0..arguments {
        let comma = if index == 0 { "" } else { ", " };
        let mark = if donate { format!(" {{tf.aliasing_output = {index} : i32}}") } else { String::new() };
        let _ = write!(text, "{comma}%a{index}: tensor<64xf32>{mark}");
    }
    let results = if donate { arguments } else { 1 };
    let types = vec!["tensor<64xf32>"; results].join(", ");
    let values: Vec<String> = (0..results).map(|index| format!("%r{index}")).collect();
    let _ = writeln!(text, ") -> ({types}) {{");
    for index in 0..results {
        let _ = writeln!(text, "  %r{index} = stablehlo.negate %a{index} : tensor<64xf32>");
    }
    let _ = writeln!(text, "  return {} : {types}\n}}", values.join(", "));
    client.compile(text.as_bytes(), &CompileOptions::default(), None)
}

fn median_execute(program: &Executable, device: &Device, arguments: usize) -> Result<Duration> {
    let upload = |_| Buffer::from_host(device, &[0; 256], ty());
    let mut buffers = (0..arguments).map(upload).collect::<Result<Vec<Buffer>>>()?;
    median(|| {
        let start = Instant::now();
        let run = program.execute(&buffers, &ExecuteOptions::default())?;
        let time = start.elapsed();
        run.done.wait()?;
        if run.outputs.len() == buffers.len() {
            buffers = run.outputs;
        }
        Ok(time)
    })
}

fn median(mut sample: impl FnMut() -> Result<Duration>) -> Result<Duration> {
    let mut times = (0..ROUNDS).map(|_| sample()).collect::<Result<Vec<_>>>()?;
    times.sort_unstable();
    Ok(times[ROUNDS / 2])
}
