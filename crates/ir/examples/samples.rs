//! Prints the samples of the op table as JSON lines: the call, its tensors' data, and the results as the evaluator
//! computes them. `tests/python/test_samples.py` makes the same calls in PyTorch and compares.
//!
//! Usage: `samples [--special] [OP]`; `--special` mixes NaN, infinities and `-0` into floats.

mod json;

use json::literal;
use serde_json::{Value, json};
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use torchtpu_ir::ops::sample::{
    Expansion, Results, Sample, SampleArg, SampleTensor, Values, bind, data, expand_for, extent,
};
use torchtpu_ir::ops::{Entry, MemoryFormat, Rule, all, find};
use torchtpu_ir::{Builder, DType, Error, InputKind, Literal, Number, OutputKind, eval};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let special = arguments.iter().any(|a| a == "--special");
    let only = arguments.iter().find(|a| !a.starts_with("--"));
    for def in all() {
        let Ok(schema) = torchtpu_ir::ops::Schema::parse(def.schema) else { continue };
        let Some(entry) = find(&schema.name).filter(|_| only.is_none_or(|o| *o == schema.name)) else { continue };
        for sample in def.samples {
            println!("{}", described(&entry, sample, special));
        }
    }
}

/// The sample as JSON. What goes wrong stands under `failure`.
fn described(entry: &Entry, sample: &Sample, special: bool) -> Value {
    let mut line = json!({ "op": entry.schema.name, "schema": entry.def.schema, "text": sample.args });
    line["variants"] = entry.def.variants.into();
    line["bounded"] = matches!(entry.def.rule, Rule::Bounded(_)).into();
    // How many results there are before the next values of written arguments; a list counts as one.
    line["returns"] = entry.schema.returns.len().into();
    line["written"] = entry.schema.args.iter().filter(|a| a.written).map(|a| a.name.as_str()).collect();
    let args = match bind(entry.schema, sample.args) {
        Ok(args) => args,
        Err(e) => return with(line, "failure", e.to_string().into()),
    };
    let tensors = data::literals(&args, seed(&entry.schema.name, sample.args), special);
    let mut given = tensors.iter();
    let arg = |(param, arg): (_, &Option<SampleArg>)| named(param, arg.as_ref()?, &mut given);
    line["args"] = entry.schema.args.iter().zip(&args).filter_map(arg).collect();
    let outcome = catch_unwind(AssertUnwindSafe(|| results(entry, &args, &tensors)));
    let outcome = outcome.unwrap_or_else(|_| Err(Error::internal("panicked")));
    match (outcome, sample.error) {
        (Ok(results), None) => with(line, "results", results),
        (Err(e), Some(_)) => with(line, "error", format!("{:?}", e.kind()).into()),
        (Err(e), None) => with(line, "failure", e.to_string().into()),
        (Ok(_), Some(_)) => with(line, "failure", "works, but should fail".into()),
    }
}

fn with(mut line: Value, key: &str, value: Value) -> Value {
    line[key] = value;
    line
}

/// The same for the same call, in every run.
fn seed(name: &str, args: &str) -> u64 {
    let mut hasher = rustc_hash::FxHasher::default();
    (name, args).hash(&mut hasher);
    hasher.finish()
}

fn results(entry: &Entry, args: &[Option<SampleArg>], tensors: &[Literal]) -> Result<Value, Error> {
    let Expansion { graph, results } = expand_for(entry, args, tensors)?;
    let draws = graph.inputs.iter().any(|i| i.kind == InputKind::RngState);
    match results {
        Results::Number(n) => Ok(json!({ "number": number(n) })),
        Results::Views(layouts) => {
            let first = args.iter().flatten().find_map(first_tensor).zip(tensors.first());
            let (tensor, data) = first.ok_or_else(|| Error::internal("a view of no tensor"))?;
            let shown = layouts.iter().map(|l| {
                let seen = data::view(&tensor.layout, data, l).ok_or_else(|| Error::internal("looks outside"))?;
                let strides: &[usize] = &l.strides;
                Ok(with(with(literal(&seen), "strides", strides.into()), "offset", l.offset.into()))
            });
            Ok(json!({ "tensors": shown.collect::<Result<Vec<Value>, Error>>()? }))
        }
        Results::Bound => Err(Error::internal("a bound was asked for again")),
        Results::Outputs(_) | Results::Padded(..) => {
            let (present, cuts) = match results {
                Results::Padded(present, cuts) => (present, cuts),
                Results::Outputs(present) => (present, vec![]),
                _ => (vec![], vec![]),
            };
            let state = Literal::i64s(&[0x5eed, 0]).bytes;
            let state = Literal { ty: torchtpu_ir::TensorType::new(DType::U64, [2]), bytes: state };
            let inputs: Vec<Literal> = tensors.iter().cloned().chain(draws.then_some(state)).collect();
            let mut values = eval(&graph, &inputs)?;
            let counts = values.split_off(values.len() - cuts.len());
            let mut values = values.into_iter();
            let mut tensors: Vec<_> = present.iter().map(|&there| if there { values.next() } else { None }).collect();
            for ((result, dim), count) in cuts.into_iter().zip(&counts) {
                if let Some(Some(tensor)) = tensors.get_mut(result) {
                    *tensor = cut(tensor, dim, count)?;
                }
            }
            let shown = |t: &Option<Literal>| t.as_ref().map_or(Value::Null, literal);
            Ok(json!({ "tensors": tensors.iter().map(shown).collect::<Vec<_>>(), "random": draws }))
        }
    }
}

/// The first `count` elements of `padded` along `dim`.
fn cut(padded: &Literal, dim: usize, count: &Literal) -> Result<Literal, Error> {
    let count = (extent(count)? as usize).min(padded.ty.shape[dim]);
    let b = Builder::new("cut");
    let v = b.input("padded", InputKind::User, padded.ty.clone());
    b.output("cut", OutputKind::User, b.slice_dim(v, dim, 0, count, 1)?);
    eval(&b.finish(), std::slice::from_ref(padded))?.pop().ok_or_else(|| Error::internal("no output"))
}

fn first_tensor(arg: &SampleArg) -> Option<&SampleTensor> {
    match arg {
        SampleArg::Tensor(t) => Some(t),
        SampleArg::List(items) => items.iter().find_map(first_tensor),
        _ => None,
    }
}

fn named<'a>(
    param: &torchtpu_ir::ops::Param,
    arg: &SampleArg,
    given: &mut impl Iterator<Item = &'a Literal>,
) -> Option<Value> {
    Some(json!({ "name": param.name, "keyword": param.keyword_only, "value": value(arg, given) }))
}

/// One key says the kind.
fn value<'a>(arg: &SampleArg, given: &mut impl Iterator<Item = &'a Literal>) -> Value {
    match arg {
        SampleArg::None => Value::Null,
        SampleArg::Tensor(t) => {
            let strides: &[usize] = &t.layout.strides;
            let data = given.next().map_or(Value::Null, literal);
            // Whether the op takes any values of the type.
            let data = with(data, "any", (t.values == Values::Any).into());
            json!({ "tensor": with(data, "strides", strides.into()) })
        }
        SampleArg::Number(n) => number(*n),
        SampleArg::Str(s) => json!({ "str": s }),
        SampleArg::DType(d) => json!({ "dtype": d.name() }),
        SampleArg::MemoryFormat(m) => json!({ "memory_format": match m {
            MemoryFormat::Contiguous => "contiguous_format",
            MemoryFormat::ChannelsLast => "channels_last",
            MemoryFormat::ChannelsLast3d => "channels_last_3d",
            MemoryFormat::Preserve => "preserve_format",
        }}),
        SampleArg::Device(d) => json!({ "device": d }),
        SampleArg::Strided => json!({ "layout": "strided" }),
        SampleArg::List(items) => json!({ "list": items.iter().map(|i| value(i, given)).collect::<Vec<_>>() }),
    }
}

/// Floats as text: JSON has no infinity.
fn number(n: Number) -> Value {
    match n {
        Number::Bool(b) => json!({ "bool": b }),
        Number::Int(i) => json!({ "int": i }),
        Number::Float(f) => json!({ "float": f.to_string() }),
        Number::Complex(re, im) => json!({ "complex": [re.to_string(), im.to_string()] }),
    }
}
