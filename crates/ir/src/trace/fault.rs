//! Finds what is to blame in a file that does not read: only used once something is wrong, so it may take its time.

use super::check;
use super::schema::{Argument, InputSpec, Metadata, Node, OutputSpec, SymInt, TensorMeta, Version};
use crate::error::Error;
use serde::Deserialize;
use serde_json::Value;

/// The error to report for `error`, which reading `json` gave.
pub(super) fn explain(json: &[u8], error: &serde_json::Error) -> Error {
    let Ok(file) = serde_json::from_slice::<Value>(json) else {
        return no_trace(json, error);
    };
    let version = file.get("schema_version").and_then(|v| Version::deserialize(v).ok());
    if let Err(e) = super::check_version(version) {
        return e;
    }
    let module = file.get("graph_module").unwrap_or(&file);
    blame(module).unwrap_or_else(|| Error::invalid(format!("the trace does not follow torch's export schema: {error}")))
}

/// Of what is not JSON.
fn no_trace(bytes: &[u8], error: &serde_json::Error) -> Error {
    const HELP: &str = "a trace is what `torch.export.save` writes (.pt2), or the JSON in it";
    match std::str::from_utf8(bytes) {
        Ok(_) => Error::invalid(format!("bad JSON: {error}")).with_help(HELP),
        Err(_) => Error::invalid("neither an archive nor JSON").with_help(format!(
            "{HELP}; of what `tputc compile` writes, the trace is not a part: a TPU host finds it in the folder of --cache"
        )),
    }
}

fn blame(module: &Value) -> Option<Error> {
    let graph = module.get("graph")?;
    bad_node(graph).or_else(|| bad_value(graph)).or_else(|| bad_spec(module.get("signature")?))
}

fn bad_node(graph: &Value) -> Option<Error> {
    for (i, value) in graph.get("nodes")?.as_array()?.iter().enumerate() {
        let Err(e) = Node::deserialize(value) else { continue };
        if let Some(inner) = inner_graphs(value).find_map(bad_node) {
            return Some(inner);
        }
        let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        let name = text("name").map(|n| format!(" `{n}`")).unwrap_or_default();
        let metadata = value.get("metadata").and_then(|m| Metadata::deserialize(m).ok()).unwrap_or_default();
        let target = text("target").unwrap_or_default();
        let node = Node { target, inputs: vec![], outputs: vec![], metadata, name: None };
        return Some(check::at(&node, Error::invalid(format!("node {i}{name} does not follow the schema: {e}"))));
    }
    None
}

fn inner_graphs(node: &Value) -> impl Iterator<Item = &Value> {
    let inputs = node.get("inputs").and_then(Value::as_array);
    inputs.into_iter().flatten().filter_map(|i| i.get("arg")?.get("as_graph")?.get("graph"))
}

fn bad_value(graph: &Value) -> Option<Error> {
    let fault = |what: &str, name: &str, e: serde_json::Error| {
        Error::invalid(format!("{what} `{name}` does not follow the schema: {e}"))
    };
    for (name, meta) in graph.get("tensor_values").and_then(Value::as_object).into_iter().flatten() {
        if let Err(e) = TensorMeta::deserialize(meta) {
            return Some(fault("the type of", name, e));
        }
    }
    for (name, value) in graph.get("sym_int_values").and_then(Value::as_object).into_iter().flatten() {
        if let Err(e) = SymInt::deserialize(value) {
            return Some(fault("the value of", name, e));
        }
    }
    for what in ["inputs", "outputs"] {
        for (i, value) in graph.get(what).and_then(Value::as_array).into_iter().flatten().enumerate() {
            if let Err(e) = Argument::deserialize(value) {
                return Some(Error::invalid(format!("{what}[{i}] does not follow the schema: {e}")));
            }
        }
    }
    None
}

fn bad_spec(signature: &Value) -> Option<Error> {
    let specs = |key: &str| signature.get(key).and_then(Value::as_array).into_iter().flatten().enumerate();
    let inputs = specs("input_specs").map(|(i, v)| ("input_specs", i, InputSpec::deserialize(v).err()));
    let outputs = specs("output_specs").map(|(i, v)| ("output_specs", i, OutputSpec::deserialize(v).err()));
    let (what, i, e) = inputs.chain(outputs).find_map(|(what, i, e)| e.map(|e| (what, i, e)))?;
    Some(Error::invalid(format!("signature.{what}[{i}] does not follow the schema: {e}")))
}
