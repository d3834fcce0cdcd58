//! Traces: programs of aten ops in PyTorch's own export schema, as JSON or in a `.pt2` archive.
//!
//! [`read`] takes what `torch.export.save` writes and what the torch.compile backend dumps: the same `graph_module`, with
//! or without the frame around it. What it returns is checked: every name is defined once and before its use, and no
//! union holds an unknown variant. Unknown fields are ignored, so that newer minor versions of the schema can be read.
//! Weights stay in the file until asked for ([`Weights`]).

mod archive;
mod check;
pub mod codes;
mod fault;
mod locate;
pub mod schema;
#[cfg(test)]
mod tests;
mod tokens;
mod weights;

pub use locate::Locator;
pub use weights::{Weight, Weights};

use crate::error::{Error, Result};
use crate::{ensure, invalid};
use schema::{Graph, GraphModule, Range, Signature, Version};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

/// The major version of torch's export schema that is understood.
pub const SCHEMA_MAJOR: i64 = 8;
/// Bytes of JSON beyond which a file is refused.
const MAX_JSON: u64 = 1 << 30;

/// A program as PyTorch recorded it.
#[derive(Debug)]
pub struct Trace {
    /// Its ops.
    pub graph: Graph,
    /// What inputs and outputs stand for; empty lists if the trace does not say.
    pub signature: Signature,
    /// Bounds of symbols.
    pub range_constraints: BTreeMap<String, Range>,
    /// Parameters, buffers and constants; `None` if the trace has come without.
    pub weights: Option<Weights>,
}

/// The top level of a file: an exported program, or its graph module alone.
#[derive(Deserialize)]
struct File {
    graph_module: Option<GraphModule>,
    graph: Option<Graph>,
    signature: Option<Signature>,
    #[serde(default)]
    range_constraints: BTreeMap<String, Range>,
    schema_version: Option<Version>,
}

/// Reads a trace from a `.pt2` archive or a JSON file.
///
/// # Errors
/// `Invalid`, naming the file and, where one is to blame, the node with its Python line.
pub fn read(path: &Path) -> Result<Trace> {
    let name = path.display();
    let open = |e: std::io::Error| Error::invalid(format!("cannot read {name}: {e}"));
    let mut file = std::fs::File::open(path).map_err(open)?;
    let mut magic = [0; 2];
    let is_archive = file.read_exact(&mut magic).is_ok() && &magic == b"PK";
    if is_archive {
        return from_archive(archive::Source::file(file).map_err(open)?);
    }
    let size = file.metadata().map_err(open)?.len();
    ensure!(size <= MAX_JSON, "{name} is {size} bytes long; a trace has at most {MAX_JSON}");
    from_json(&std::fs::read(path).map_err(open)?)
}

/// Reads a trace from the bytes of a `.pt2` archive or a JSON file.
///
/// # Errors
/// As [`read`].
pub fn read_bytes(bytes: Vec<u8>) -> Result<Trace> {
    if bytes.starts_with(b"PK") { from_archive(archive::Source::bytes(bytes)) } else { from_json(&bytes) }
}

fn from_archive(source: archive::Source) -> Result<Trace> {
    let (json, weights) = weights::open(source, MAX_JSON)?;
    let mut trace = from_json(&json)?;
    trace.weights = Some(weights);
    Ok(trace)
}

fn from_json(json: &[u8]) -> Result<Trace> {
    let file: File = match serde_json::from_slice(json) {
        Ok(file) => file,
        Err(e) => return Err(fault::explain(json, &e)),
    };
    check_version(file.schema_version)?;
    let (mut graph, signature) = match (file.graph_module, file.graph) {
        (Some(module), _) => (module.graph, module.signature),
        (None, Some(graph)) => (graph, file.signature),
        (None, None) => invalid!("this JSON holds no trace: it has neither `graph_module` nor `graph`"),
    };
    let mut signature = signature.unwrap_or_default();
    tokens::take_out(&mut graph, &mut signature);
    check::graph(&graph)?;
    check::signature(&graph, &signature)?;
    Ok(Trace { graph, signature, range_constraints: file.range_constraints, weights: None })
}

fn check_version(version: Option<Version>) -> Result<()> {
    match version {
        Some(v) if v.major != SCHEMA_MAJOR => Err(Error::invalid(format!(
            "the trace is written in version {}.{} of torch's export schema; version {SCHEMA_MAJOR} is understood",
            v.major, v.minor
        ))
        .with_help("export the model again with the PyTorch release that this build supports")),
        _ => Ok(()),
    }
}

impl Trace {
    /// A trace of a graph alone, as tests build them. Names are checked.
    ///
    /// # Errors
    /// As [`read`].
    pub fn new(mut graph: Graph, mut signature: Signature) -> Result<Trace> {
        tokens::take_out(&mut graph, &mut signature);
        check::graph(&graph)?;
        check::signature(&graph, &signature)?;
        Ok(Trace { graph, signature, range_constraints: BTreeMap::new(), weights: None })
    }
}
