//! `tputc run`: runs a program on a plugin.

use crate::args::{ReportFormat, Run};
use crate::inputs::{self, Known, Tensors, Updated};
use crate::output::{Failure, Outcome, Printer, print};
use driver::{Argument, DiskCache, Program, Runner, Session, Value};
use serde_json::{Value as Json, json};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Names of inputs that are told.
const SHOWN: usize = 3;

pub(crate) fn run(args: &Run, printer: &Printer) -> Outcome {
    if inputs::is_mlir(&args.source) {
        return Err(Failure::tool(
            "tputc run takes a trace.json or a .pt2; a .mlir does not say what its inputs are called",
        ));
    }
    let (program, known) = printer.timed("read", || read(args))?;
    let session =
        printer.timed("plugin loaded", || Session::fitting_the_host(args.plugin.as_deref(), DiskCache::from_env()))?;
    let (program, session) = (Arc::new(program), Arc::new(session));
    let runner = Runner::new(program.clone(), session);
    let (mut given, updated) = printer.timed("inputs there", || arguments(args, &program, &known))?;
    let seed = args.random.unwrap_or(0);
    let mut times = vec![];
    let (mut results, mut arguments) = (vec![], vec![]);
    for turn in 0..args.repeat {
        let is_last = turn + 1 == args.repeat;
        arguments = if is_last { std::mem::take(&mut given) } else { inputs::with_own(&given, &updated)? };
        let start = Instant::now();
        results = runner.run(&arguments, &mut || Ok([seed, 0]))?;
        let time = start.elapsed();
        if turn == 0 {
            printer.detail(format_args!("first run, compiled: {time:.1?}"));
        } else {
            times.push(time);
        }
    }
    times.sort_unstable();
    let (saved, kept) = (args.output.is_some(), args.updated.is_some());
    let told = Told { results: &results, updated: &updated, times: &times, saved, kept };
    print(&match args.format {
        ReportFormat::Text => told.text(),
        ReportFormat::Json => format!("{:#}\n", told.data()),
    })?;
    args.output.as_ref().map_or(Ok(()), |path| Tensors::save(path, &results, &arguments))?;
    args.updated.as_ref().map_or(Ok(()), |path| inputs::save_updated(path, &arguments, &updated))
}

/// The program, and which inputs a file may name.
fn read(args: &Run) -> Result<(Program, Known), Failure> {
    let path = &args.source.trace;
    let bytes = inputs::read(path)?;
    let known = if args.inputs.is_some() { Known::read(path, &bytes)? } else { Known::default() };
    Ok((inputs::program_of(&args.source, bytes)?, known))
}

/// From the file, and drawn where it has none; and positions and names of those that the program updates.
fn arguments(args: &Run, program: &Program, known: &Known) -> Result<(Vec<Argument>, Updated), Failure> {
    let mut tensors = args.inputs.as_deref().map(Tensors::load).transpose()?.unwrap_or_default();
    tensors.refuse_strangers(program, known)?;
    let dims = tensors.dims(&args.source, program)?;
    if let Some(seed) = args.random {
        tensors.draw_missing(program, &dims, seed)?;
    }
    let missing = tensors.missing(program);
    match missing.is_empty() {
        true => Ok((tensors.arguments(program, &dims, known)?, program.updated(&dims)?)),
        false => Err(lacking(&missing, args.inputs.is_some())),
    }
}

/// The refusal of a run without values for these inputs. A file that lacks them is a wrong input, none at all a wrong use.
fn lacking(names: &[&str], file: bool) -> Failure {
    let which = match names.len() {
        1 => format!("input {} is missing", first_few(names)),
        count => format!("{count} inputs are missing: {}", first_few(names)),
    };
    let message =
        format!("{which}; give --inputs IN.safetensors or --random SEED, or both to draw what the file lacks");
    if file { driver::Error::Argument(message).into() } else { Failure::tool(message) }
}

fn first_few(names: &[&str]) -> String {
    let shown: Vec<String> = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
    let more = match names.len() - shown.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    shown.join(", ") + &more
}

/// What is told of a run.
struct Told<'a> {
    results: &'a [Value],
    /// Positions and names of the inputs that the program updates.
    updated: &'a [(usize, String)],
    /// Of all runs but the first, which compiles; sorted.
    times: &'a [Duration],
    /// Whether the results are in a file.
    saved: bool,
    /// Whether what is updated is.
    kept: bool,
}

impl Told<'_> {
    fn median_and_least(&self) -> Option<[Duration; 2]> {
        Some([*self.times.get(self.times.len() / 2)?, *self.times.first()?])
    }

    fn text(&self) -> String {
        let mut lines = vec![];
        if let Some([median, least]) = self.median_and_least() {
            let runs = if self.times.len() == 1 { "run" } else { "runs" };
            let count = self.times.len();
            lines.push(format!("{count} {runs} after the first: median {median:.1?}, least {least:.1?}\n"));
        }
        if !self.saved {
            let what = |value: &Value| match value {
                Value::Tensor(t) => format!("{}{:?}", t.dtype, t.shape.as_slice()),
                Value::Argument(n) => format!("input {n}, as it is"),
                Value::Result(n) => format!("out.{n} again"),
                Value::Int(n) => n.to_string(),
                Value::Float(x) => x.to_string(),
                Value::Bool(b) => b.to_string(),
                Value::None => "none".to_owned(),
            };
            lines.extend(self.results.iter().enumerate().map(|(i, value)| format!("out.{i}: {}\n", what(value))));
        }
        lines.extend(self.updated_inputs());
        lines.concat()
    }

    /// The first few names of the inputs that are updated.
    fn updated_inputs(&self) -> Option<String> {
        let names = self.updated_names();
        (!names.is_empty() && !self.kept).then(|| format!("updated: {}; --updated writes them\n", first_few(&names)))
    }

    fn updated_names(&self) -> Vec<&str> {
        self.updated.iter().map(|(_, name)| name.as_str()).collect()
    }

    fn data(&self) -> Json {
        let what = |value: &Value| match value {
            Value::Tensor(t) => json!({ "dtype": t.dtype.to_string(), "shape": t.shape.as_slice() }),
            Value::Argument(n) => json!({ "input": n }),
            Value::Result(n) => json!({ "result": n }),
            Value::Int(n) => json!({ "value": n }),
            Value::Float(x) => json!({ "value": x }),
            Value::Bool(b) => json!({ "value": b }),
            Value::None => json!({ "value": null }),
        };
        let times = self.median_and_least().map(|[median, least]| {
            json!({ "runs": self.times.len(), "median_seconds": median.as_secs_f64(), "least_seconds": least.as_secs_f64() })
        });
        let updated = self.updated_names();
        json!({ "results": self.results.iter().map(what).collect::<Vec<_>>(), "updated": updated, "times": times })
    }
}
