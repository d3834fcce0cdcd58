//! The eager device's side of the module: joining the shim, and what `torch.tpu` asks.

use crate::session;
use driver::Runner;
use eager::{Core, Operand, Produced, abi};
use pyo3::exceptions::PyRuntimeError;
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
        Ok(Arc::new(core))
    };
    plugin.and_then(new).map_err(|e: PyErr| eager::Error { kind: eager::Kind::Runtime, message: e.to_string() })
}

fn raise(error: eager::Error) -> PyErr {
    PyRuntimeError::new_err(error.message)
}

fn core() -> PyResult<&'static Arc<Core>> {
    abi::core().map_err(raise)
}

/// Starts a compiled program.
pub(crate) fn call(runner: &Runner, index: usize, operands: Vec<Operand>) -> PyResult<Vec<Produced>> {
    core()?.call(runner, index, operands, 0).map_err(raise)
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
    py.detach(|| abi::core_if_made().map_or(Ok(()), |core| core.synchronize(index)).map_err(raise))
}

/// Whether each op waits for its execution.
#[pyfunction]
fn device_set_debug(debug: bool) -> PyResult<()> {
    core()?.set_debug(debug);
    Ok(())
}

/// Bytes in use on a device and the most there were, and the number of values made.
#[pyfunction]
fn device_memory(index: usize) -> (u64, u64, u64) {
    let memory = abi::core_if_made().map(|core| core.memory(index)).unwrap_or_default();
    (memory.allocated, memory.peak, memory.allocations)
}

/// Forgets the most memory that a device has used.
#[pyfunction]
fn device_reset_peak(index: usize) {
    if let Some(core) = abi::core_if_made() {
        core.reset_peak(index);
    }
}

/// A device as the plugin describes it: its kind, and the bytes of memory it has and has free (0 if it does not say).
#[pyfunction]
fn device_properties(index: usize) -> PyResult<(String, u64, u64)> {
    let devices = core()?.session().client().devices();
    let device =
        devices.get(index).ok_or_else(|| PyRuntimeError::new_err(format!("there is no device tpu:{index}")))?;
    let stats = device.memory_stats().ok();
    let total = stats.as_ref().and_then(|s| s.bytes_limit).unwrap_or(0).max(0) as u64;
    let used = stats.map_or(0, |s| s.bytes_in_use).max(0) as u64;
    Ok((device.kind().to_owned(), total, total.saturating_sub(used)))
}

/// Counters of the device.
#[pyfunction]
fn device_stats(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let stats = abi::core_if_made().map(|core| core.stats()).unwrap_or_default();
    let counts = PyDict::new(py);
    counts.set_item("executions", stats.executions)?;
    counts.set_item("shared", stats.shared)?;
    counts.set_item("traced", stats.traced)?;
    Ok(counts)
}

pub(crate) fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(device_table, m)?)?;
    m.add_function(wrap_pyfunction!(device_join, m)?)?;
    m.add_function(wrap_pyfunction!(device_count, m)?)?;
    m.add_function(wrap_pyfunction!(device_synchronize, m)?)?;
    m.add_function(wrap_pyfunction!(device_set_debug, m)?)?;
    m.add_function(wrap_pyfunction!(device_memory, m)?)?;
    m.add_function(wrap_pyfunction!(device_reset_peak, m)?)?;
    m.add_function(wrap_pyfunction!(device_properties, m)?)?;
    m.add_function(wrap_pyfunction!(device_stats, m)?)
}
