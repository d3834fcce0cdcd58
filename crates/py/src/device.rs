//! The eager device's side of the module: joining the shim, and what `torch.tpu` asks.

use crate::session;
use driver::Runner;
use eager::{Core, Operand, Produced, RegionReport, abi};
use ir::import::InputType;
use pyo3::exceptions::{PyIndexError, PyNotImplementedError, PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::Arc;

/// The device's core, on the plugin that Python has chosen.
fn make() -> eager::Result<Arc<Core>> {
    let plugin = Python::attach(|py| -> PyResult<String> {
        py.import("torchtpu._plugins")?.getattr("current")?.call0()?.extract()
    });
    let new = |plugin| {
        let core = Core::new(session(plugin)?).map_err(raise)?;
        core.set_seeds(abi::seeds);
        Ok(core)
    };
    let message = |e: PyErr| Python::attach(|py| e.value(py).to_string());
    plugin.and_then(new).map_err(|e| eager::Error { kind: eager::Kind::Runtime, message: message(e) })
}

fn raise(error: eager::Error) -> PyErr {
    match error.kind {
        eager::Kind::Runtime => PyRuntimeError::new_err(error.message),
        eager::Kind::NotImplemented | eager::Kind::NoKernel => PyNotImplementedError::new_err(error.message),
        eager::Kind::Type => PyTypeError::new_err(error.message),
        eager::Kind::Index => PyIndexError::new_err(error.message),
        eager::Kind::OutOfMemory => Python::attach(|py| out_of_memory(py, &error.message).unwrap_or_else(|e| e)),
    }
}

fn out_of_memory(py: Python<'_>, message: &str) -> PyResult<PyErr> {
    let class = py.import("torch")?.getattr("OutOfMemoryError")?;
    Ok(PyErr::from_value(class.call1((message,))?))
}

fn core() -> PyResult<&'static Arc<Core>> {
    abi::core().map_err(raise)
}

/// Starts a compiled program.
pub(crate) fn call(runner: &Runner, index: usize, operands: Vec<Operand>) -> PyResult<Vec<Produced>> {
    core()?.call(runner, index, operands, 0).map_err(raise)
}

/// What the sizes of a program follow from.
pub(crate) fn given(operand: &Operand) -> InputType<'_> {
    match operand {
        Operand::Tensor { ty, .. } => InputType::Shape(&ty.layout.sizes),
        Operand::Host(tensor) => InputType::Shape(&tensor.shape),
        Operand::Int(n) => InputType::Int(*n),
        Operand::Float(_) | Operand::None => InputType::Other,
    }
}

/// The address of the table that the C++ shim calls.
#[pyfunction]
fn device_table() -> usize {
    abi::provide(make);
    std::ptr::from_ref(&abi::TABLE) as usize
}

/// Joins the shim whose table lies at `address`.
#[pyfunction]
#[allow(unsafe_code)]
fn device_join(address: usize) -> PyResult<()> {
    // SAFETY: `torchtpu._shim.load` gave the address of its static table.
    unsafe { abi::join(address as *const abi::Shim) }.map_err(raise)
}

/// How many devices there are; makes the client if there is none yet.
#[pyfunction]
fn device_count(py: Python<'_>) -> PyResult<usize> {
    py.detach(|| core().map(|c| c.device_count()))
}

/// Waits for all that was started on a device.
#[pyfunction]
fn device_synchronize(py: Python<'_>, index: usize) -> PyResult<()> {
    let wait = || abi::core_if_made().map_or(Ok(()), |_| abi::core()?.synchronize(index));
    py.detach(wait).map_err(raise)
}

/// Whether this process has used a device.
#[pyfunction]
fn device_in_use() -> bool {
    abi::core_if_made().is_some() && !abi::forked()
}

/// Starts all calls that are in line, and ends what compiles, so that no thread of the device's is at work when the process ends.
#[pyfunction]
fn device_drain(py: Python<'_>) {
    if let Some(core) = abi::core_if_made().filter(|_| !abi::forked()) {
        py.detach(|| {
            core.drain();
            core.close();
        });
    }
}

/// Whether the devices belong to another process, of which this one is a fork.
#[pyfunction]
fn device_forked() -> bool {
    abi::forked()
}

/// A device as the plugin describes it: its kind, and the bytes of memory it has and has free (those of the machine for its
/// own processor, else 0 if the plugin does not say).
#[pyfunction]
fn device_properties(index: usize) -> PyResult<(String, u64, u64)> {
    let devices = core()?.session().client().devices();
    let device =
        devices.get(index).ok_or_else(|| PyRuntimeError::new_err(format!("there is no device tpu:{index}")))?;
    let (total, free) = core()?.capacity(index).map_err(raise)?;
    Ok((device.kind().to_owned(), total, free))
}

/// Waits until the programs of all calls so far are compiled.
pub(crate) fn wait_for_programs() {
    if let Some(core) = abi::core_if_made().filter(|_| !abi::forked()) {
        core.wait_for_programs();
    }
}

/// Counters of the device, and `(op, "file:line", calls, traced, sizes read)` for each op and line.
#[pyfunction]
fn device_stats(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let core = abi::core_if_made().filter(|_| !abi::forked());
    let (stats, ops) = py.detach(|| core.map(|core| (core.stats(), core.stats_by_op())).unwrap_or_default());
    let counts = PyDict::new(py);
    let ops = ops.into_iter().map(|(op, line, counts)| (op, line, counts.calls, counts.traced, counts.sizes_read));
    counts.set_item("by_op", ops.collect::<Vec<_>>())?;
    let told = py.detach(|| core.map(|core| core.region_counts()).unwrap_or_default());
    let regions = PyDict::new(py);
    regions.set_item("recorded", told.recorded)?;
    regions.set_item("met", told.met)?;
    regions.set_item("compiled", told.compiled)?;
    regions.set_item("compiling", told.compiling)?;
    regions.set_item("runs", told.runs)?;
    regions.set_item("cuts", told.cuts)?;
    counts.set_item("regions", regions)?;
    counts.set_item("executions", stats.executions)?;
    counts.set_item("shared", stats.shared)?;
    counts.set_item("traced", stats.traced)?;
    counts.set_item("interpreted", stats.interpreted)?;
    counts.set_item("sizes_read", stats.sizes_read)?;
    counts.set_item("storages", stats.storages)?;
    Ok(counts)
}

/// What fused mode did so far; the counters of `Explanation` and its lists of regions and cuts.
#[pyfunction]
fn device_regions(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let core = abi::core_if_made().filter(|_| !abi::forked());
    let told = py.detach(|| core.map(|core| core.explanation()).unwrap_or_default());
    let counts = PyDict::new(py);
    counts.set_item("recorded", told.recorded)?;
    counts.set_item("met", told.met)?;
    counts.set_item("sequence", told.sequence)?;
    let regions = told.regions.into_iter().map(|r| region(py, r)).collect::<PyResult<Vec<_>>>()?;
    counts.set_item("regions", regions)?;
    counts
        .set_item("cuts", told.cuts.into_iter().map(|c| (c.why, c.line, c.count, c.read_back)).collect::<Vec<_>>())?;
    Ok(counts)
}

fn region(py: Python<'_>, report: RegionReport) -> PyResult<Bound<'_, PyDict>> {
    let told = PyDict::new(py);
    told.set_item("number", report.number)?;
    told.set_item("name", report.name)?;
    told.set_item("calls", report.calls)?;
    told.set_item("occurrences", report.occurrences)?;
    told.set_item("runs", report.runs)?;
    told.set_item("state", report.state)?;
    told.set_item("compile_seconds", report.seconds)?;
    told.set_item("lines", report.lines)?;
    told.set_item("instead_of", report.instead_of)?;
    Ok(told)
}

pub(crate) fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(device_table, m)?)?;
    m.add_function(wrap_pyfunction!(device_join, m)?)?;
    m.add_function(wrap_pyfunction!(device_count, m)?)?;
    m.add_function(wrap_pyfunction!(device_synchronize, m)?)?;
    m.add_function(wrap_pyfunction!(device_drain, m)?)?;
    m.add_function(wrap_pyfunction!(device_forked, m)?)?;
    m.add_function(wrap_pyfunction!(device_in_use, m)?)?;
    m.add_function(wrap_pyfunction!(device_properties, m)?)?;
    m.add_function(wrap_pyfunction!(device_regions, m)?)?;
    m.add_function(wrap_pyfunction!(device_stats, m)?)
}
