//! Imports traces and runs them in the reference evaluator. `tests/python/three_ways.py` compares with PyTorch.
//!
//! Reads JSON lines `{"trace": text, "exact": bool, "inputs": [tensor]}`, and answers each with a line
//! `{"outputs": [tensor], "mutated": {input: tensor}}`, or `{"error": text, "kind": text}`.

mod json;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use json::literal;
use serde_json::{Value, json};
use std::io::{BufRead, Write, stdin, stdout};
use std::panic::{AssertUnwindSafe, catch_unwind};
use torchtpu_ir::alias::Layout;
use torchtpu_ir::import::{ImportOptions, Imported, InputValue, OutputMeta, import};
use torchtpu_ir::ops::sample::data;
use torchtpu_ir::{Error, Literal, OutputKind, Result, TensorType, eval, trace, verify};

fn main() -> std::io::Result<()> {
    for line in stdin().lock().lines() {
        let line = line?;
        let answer = catch_unwind(AssertUnwindSafe(|| answer(&line)));
        let answer = answer.unwrap_or_else(|_| Err(Error::internal("panicked")));
        let answer = answer.unwrap_or_else(|e| json!({ "error": e.to_string(), "kind": format!("{:?}", e.kind()) }));
        writeln!(stdout(), "{answer}")?;
        stdout().flush()?;
    }
    Ok(())
}

fn answer(line: &str) -> Result<Value> {
    let request: Value = serde_json::from_str(line).map_err(|e| Error::invalid(e.to_string()))?;
    let text = request["trace"].as_str().unwrap_or_default();
    let trace = trace::read_bytes(text.as_bytes().to_vec())?;
    let exact = request["exact"].as_bool().unwrap_or_default();
    let imported = import(&trace, &ImportOptions { excess_precision: !exact, ..ImportOptions::default() })?;
    verify(&imported.graph)?;
    let given = request["inputs"].as_array().map(Vec::as_slice).unwrap_or_default();
    let given = given.iter().map(tensor).collect::<Option<Vec<Literal>>>();
    let given = given.ok_or_else(|| Error::invalid("an input is no tensor"))?;
    let values = eval(&imported.graph, &given)?;
    let outputs = imported.outputs.iter().map(|o| output(o, &values)).collect::<Result<Vec<Value>>>()?;
    Ok(json!({ "outputs": outputs, "mutated": mutated(&imported, &values) }))
}

fn tensor(spec: &Value) -> Option<Literal> {
    let dtype = spec["dtype"].as_str()?.parse().ok()?;
    let shape = spec["shape"].as_array()?.iter().map(|d| Some(d.as_u64()? as usize)).collect::<Option<Vec<_>>>()?;
    Literal::dense(TensorType::new(dtype, shape), BASE64_STANDARD.decode(spec["data"].as_str()?).ok()?)
}

/// A result in its logical shape.
fn output(meta: &OutputMeta, values: &[Literal]) -> Result<Value> {
    let OutputMeta::Tensor(t) = meta else { return Ok(Value::Null) };
    let value = &values[t.position];
    let seen = Layout { sizes: t.shape.clone(), strides: t.strides.clone(), offset: 0 };
    let seen = data::view(&Layout::contiguous(value.ty.shape.clone()), value, &seen);
    seen.as_ref().map(literal).ok_or_else(|| Error::internal("an output looks outside of its value"))
}

/// The next values of inputs, by their positions in the trace.
fn mutated(imported: &Imported, values: &[Literal]) -> Value {
    let mut next = json!({});
    for (output, value) in imported.graph.outputs.iter().zip(values) {
        let OutputKind::Mutation(of) = output.kind else { continue };
        let is_it = |i: &torchtpu_ir::import::InputMeta| matches!(i.value, InputValue::Tensor { position, .. } if position == of);
        if let Some(input) = imported.inputs.iter().position(is_it) {
            next[input.to_string()] = literal(value);
        }
    }
    next
}
