//! Times programs of StableHLO on request: `cargo run --release -p torchtpu-runtime --example timed PLUGIN FILE...`.
//!
//! Each line of standard input is the number of a file; the answer is the seconds of one call with zeros for arguments, whose
//! types are read off `@main`'s: so written `%name: tensor<...xf32>`.

use std::io::BufRead;
use std::time::Instant;

use torchtpu_runtime::{Buffer, Client, CompileOptions, Device, ElementType, Executable, ExecuteOptions};
use torchtpu_runtime::{Error, Plugin, Result, TensorType};

fn main() -> Result<()> {
    let mut words = std::env::args().skip(1);
    let client = Client::new(Plugin::discover(words.next().as_deref())?, &[])?;
    let device = client.device(0)?;
    let programs = words.map(|file| load(&client, &device, &file)).collect::<Result<Vec<_>>>()?;
    for line in std::io::stdin().lock().lines() {
        let number: usize =
            line.ok().and_then(|line| line.trim().parse().ok()).ok_or_else(|| invalid("a number a line"))?;
        let (program, arguments) = programs.get(number).ok_or_else(|| invalid("no such file"))?;
        let start = Instant::now();
        let run = program.execute(arguments, &ExecuteOptions::default())?;
        run.done.wait()?;
        println!("{}", start.elapsed().as_secs_f64());
    }
    Ok(())
}

fn invalid(what: &str) -> Error {
    Error::Invalid(what.to_owned())
}

fn load(client: &Client, device: &Device, file: &str) -> Result<(Executable, Vec<Buffer>)> {
    let text = std::fs::read_to_string(file).map_err(|error| invalid(&format!("{file}: {error}")))?;
    let program = client.compile(text.as_bytes(), &CompileOptions::default(), None)?;
    let arguments = argument_sizes(&text).ok_or_else(|| invalid(&format!("{file}: unreadable arguments")))?;
    let upload = |sizes: Vec<i64>| {
        let bytes = vec![0; 4 * sizes.iter().product::<i64>() as usize];
        Buffer::from_host(device, &bytes, TensorType::new(ElementType::F32, sizes))
    };
    Ok((program, arguments.into_iter().map(upload).collect::<Result<_>>()?))
}

/// The sizes of `@main`'s arguments.
fn argument_sizes(text: &str) -> Option<Vec<Vec<i64>>> {
    let (arguments, _) = text.split_once("@main(")?.1.split_once(") ->")?;
    let tensors = arguments.split("tensor<").skip(1);
    tensors
        .map(|tensor| tensor.split_once("f32>")?.0.split_terminator('x').map(|size| size.parse().ok()).collect())
        .collect()
}
