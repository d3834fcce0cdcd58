//! Compiling for TPUs that are not there, and reporting on it.

use crate::errors::{self, raise};
use aot::{Launcher, Pool};
use driver::{Options, Partitioning, Program};
use ir::sharding::{Mesh, Rule, Rules, Spec};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use report::Report;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;
use target::Target;

/// Reports on a trace, one a target, each as JSON. `worker` is a command that calls [`aot_worker`] with two more
/// arguments, libtpu's path and a folder.
#[pyfunction]
#[pyo3(signature = (trace, *, name, targets, slices, dims, mesh, shard, precision, worker, libtpu, timeout))]
#[allow(clippy::too_many_arguments)] // keywords all
fn check_program(
    py: Python<'_>,
    trace: &[u8],
    name: &str,
    targets: Vec<String>,
    slices: Option<NonZeroU32>,
    dims: BTreeMap<String, i64>,
    mesh: Vec<(String, usize)>,
    shard: Vec<(String, Spec)>,
    precision: &str,
    worker: Vec<OsString>,
    libtpu: PathBuf,
    timeout: f64,
) -> PyResult<Vec<String>> {
    let value_error = |error: &dyn std::fmt::Display| PyValueError::new_err(error.to_string());
    let parse = |text: &String| text.parse::<Target>().map_err(|error| value_error(&error));
    let targets = targets.iter().map(parse).collect::<PyResult<Vec<_>>>()?;
    // Seconds that no duration holds are no limit.
    let limit = Duration::try_from_secs_f64(timeout).unwrap_or(Duration::MAX);
    let Some((program, arguments)) = worker.split_first() else {
        return Err(PyValueError::new_err("`worker` is an empty command"));
    };
    let launcher = Launcher { program: program.into(), arguments: arguments.to_vec() };
    let options = Options { precision: errors::precision(precision)?, ..Options::default() };
    let trace = trace.to_vec();
    let reports = py.detach(|| {
        let program = Program::from_bytes(trace, options)?;
        let rules = Rules(shard.into_iter().map(|(pattern, spec)| Rule { pattern, spec }).collect());
        let by = match mesh.is_empty() {
            true => None,
            false => Some(Partitioning { mesh: Mesh::new(mesh)?, rules }),
        };
        let pool = Pool::new(launcher, libtpu, limit);
        targets
            .iter()
            .map(|target| program.check(name, &dims, by.as_ref(), target, slices, &pool))
            .collect::<driver::Result<Vec<_>>>()
    });
    // An interrupt ends the worker as well, which is then not the error to tell.
    py.check_signals()?;
    let json = |report: &Report| serde_json::to_string(report).map_err(|error| value_error(&error));
    reports.map_err(raise)?.iter().map(json).collect()
}

/// Whether `pattern`, of rules for [`check_program`], matches the whole of `name`.
#[pyfunction]
fn pattern_matches(pattern: &str, name: &str) -> bool {
    ir::sharding::matches(pattern, name)
}

/// The symbols of a trace, each with what it says of itself: the dimension of an input that it is.
#[pyfunction]
fn symbols(py: Python<'_>, trace: &[u8]) -> PyResult<BTreeMap<String, String>> {
    let trace = trace.to_vec();
    let program = py.detach(|| Program::from_bytes(trace, Options::default())).map_err(raise)?;
    Ok(program.symbols().into_iter().map(|symbol| (symbol.clone(), program.placed(&symbol))).collect())
}

/// A report in its JSON form, as text.
#[pyfunction]
fn report_text(json: &str) -> PyResult<String> {
    Ok(report::text(&read(json)?, report::COLUMNS))
}

/// A report in its JSON form, as a page.
#[pyfunction]
fn report_html(json: &str) -> PyResult<String> {
    Ok(report::html(&[read(json)?]))
}

fn read(json: &str) -> PyResult<Report> {
    serde_json::from_str(json).map_err(|error| PyValueError::new_err(format!("it is no report: {error}")))
}

/// Compiles what a parent process asks for on standard input, with the libtpu at `path`, until it closes, and
/// removes `folder` then.
#[pyfunction]
fn aot_worker(path: PathBuf, folder: PathBuf) -> PyResult<()> {
    Ok(aot::serve(&path, &folder)?)
}

pub(crate) fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(check_program, m)?)?;
    m.add_function(wrap_pyfunction!(pattern_matches, m)?)?;
    m.add_function(wrap_pyfunction!(symbols, m)?)?;
    m.add_function(wrap_pyfunction!(report_text, m)?)?;
    m.add_function(wrap_pyfunction!(report_html, m)?)?;
    m.add_function(wrap_pyfunction!(aot_worker, m)?)
}
