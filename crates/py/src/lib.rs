//! The Python face: converts and calls, nothing else. `python/torchtpu/_native.pyi` describes what is seen from there.

mod ahead;
mod device;
mod dlpack;
mod errors;
mod partitioned;

use dlpack::Exchange;
use driver::{CompileReport, DiskCache, Observer, Options, Origin, Program as Traced, Runner, Session, Stage, Value};
use eager::Produced;
use errors::raise;
use ir::Number;
use pyo3::exceptions::{PyNotImplementedError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// A plugin, and how many virtual devices it is asked for, if that was said.
type SessionKey = (String, Option<usize>);

/// Each is made once, when a program first asks for it.
static SESSIONS: Mutex<Option<HashMap<SessionKey, Arc<Session>>>> = Mutex::new(None);

/// The process that first asked for a session: plugins' threads are in no fork of it.
static OWNER: OnceLock<u32> = OnceLock::new();

fn is_fork() -> bool {
    OWNER.get().is_some_and(|&owner| owner != std::process::id())
}

/// The library whose BLAS programs on the CPU multiply with, and whether the user named it.
static BLAS: OnceLock<(PathBuf, bool)> = OnceLock::new();

/// Lets programs on the CPU multiply with the BLAS in the library at `path`. For sessions that are still to be made; the first
/// library stays. That it holds none is an error where the user `named` it.
#[pyfunction]
fn use_blas(path: PathBuf, named: bool) {
    let _ = BLAS.set((path, named));
}

/// The folder of the cache on disk, and why nothing can be stored there, if nothing can.
#[pyfunction]
fn cache_fault() -> Option<(PathBuf, String)> {
    let cache = DiskCache::from_env()?;
    let fault = cache.fault()?;
    Some((cache.folder().to_owned(), fault.to_string()))
}

fn session(plugin: String) -> PyResult<Arc<Session>> {
    session_with(plugin, None)
}

/// The session with this many virtual CPU devices.
fn session_with(plugin: String, devices: Option<usize>) -> PyResult<Arc<Session>> {
    made_session(plugin, devices).map_err(raise)
}

/// Needs no Python: whoever has the interpreter's lock may be waiting for that of the sessions.
fn made_session(plugin: String, devices: Option<usize>) -> driver::Result<Arc<Session>> {
    OWNER.get_or_init(std::process::id);
    // Asked before there is a lock to wait for: a thread that is not in the fork may have had it.
    if is_fork() {
        return Err(driver::Error::Forked);
    }
    let mut sessions = SESSIONS.lock().unwrap_or_else(PoisonError::into_inner);
    let sessions = sessions.get_or_insert_default();
    let key = (plugin, devices);
    if let Some(known) = sessions.get(&key) {
        return Ok(known.clone());
    }
    let (spec, disk) = (Some(&*key.0), DiskCache::from_env());
    let mut new = match devices {
        None => Session::fitting_the_host(spec, disk)?,
        Some(count) => Session::with_cpu_devices(spec, count, disk)?,
    };
    if let Some((library, named)) = BLAS.get()
        && let Err(error) = new.offer_products(library)
        && *named
    {
        return Err(error);
    }
    let new = Arc::new(new);
    sessions.insert(key, new.clone());
    Ok(new)
}

/// A traced program. Calling it compiles it for the sizes of the arguments, unless that was done before, and runs it.
#[pyclass(module = "torchtpu._native", frozen)]
struct Program {
    runner: Runner,
}

/// An op of a program that has no lowering.
#[pyclass(module = "torchtpu._native", frozen, get_all)]
struct Unsupported {
    node: String,
    op: String,
    reason: String,
    file: Option<String>,
    line: Option<u32>,
}

#[pymethods]
impl Program {
    #[new]
    #[allow(clippy::too_many_arguments)] // keywords, on the other side
    #[pyo3(signature = (
        trace, *, plugin, precision = "highest", default_dtype = "f32", optimize = true, numerics = "reassociate", dump = None,
        on_compile = None
    ))]
    fn new(
        py: Python<'_>,
        trace: &[u8],
        plugin: String,
        precision: &str,
        default_dtype: &str,
        optimize: bool,
        numerics: &str,
        dump: Option<PathBuf>,
        on_compile: Option<Py<PyAny>>,
    ) -> PyResult<Program> {
        let default_dtype = default_dtype.parse().map_err(PyValueError::new_err)?;
        let precision = errors::precision(precision)?;
        let numerics = numerics.parse().map_err(PyValueError::new_err)?;
        let default_dtype = Some(default_dtype);
        let options = Options { precision, default_dtype, optimize, numerics, limit: None, dump };
        let trace = trace.to_vec();
        let make = || Ok(Runner::new(Arc::new(Traced::from_bytes(trace, options)?), made_session(plugin, None)?));
        let runner = py.detach(make).map_err(raise)?;
        Ok(Program {
            runner: match on_compile {
                Some(callable) => runner.observed(observer(callable)),
                None => runner,
            },
        })
    }

    /// Number of traced ops.
    #[getter]
    fn num_nodes(&self) -> usize {
        self.runner.program().num_nodes()
    }

    /// Ops without a lowering, in program order; empty if the program can be compiled.
    fn unsupported(&self) -> Vec<Unsupported> {
        let known = |s: String| (!s.is_empty()).then_some(s);
        let convert = |u: driver::Unsupported| Unsupported {
            line: (u.loc.line > 0).then_some(u.loc.line),
            file: known(u.loc.file.to_string()),
            node: u.node,
            op: u.op,
            reason: u.reason,
        };
        self.runner.program().unsupported().into_iter().map(convert).collect()
    }

    /// Imports the program for these sizes without compiling it: what cannot be lowered comes up here.
    fn check(&self, py: Python<'_>, dims: BTreeMap<String, i64>) -> PyResult<()> {
        py.detach(|| self.runner.program().import(&dims).map(drop)).map_err(raise)
    }

    /// Compiles now for `device`, if the sizes are known; a symbolic program waits for its first call.
    #[pyo3(signature = (device = 0))]
    fn prepare(&self, py: Python<'_>, device: usize) -> PyResult<()> {
        py.detach(|| self.runner.prepare(device)).map_err(raise)
    }

    /// The program's text at `stage`, with symbolic sizes fixed by `dims`.
    #[pyo3(signature = (stage, dims = None))]
    fn text(&self, py: Python<'_>, stage: &str, dims: Option<BTreeMap<String, i64>>) -> PyResult<String> {
        let wrong = |error: driver::Error| PyValueError::new_err(error.to_string());
        let stage: Stage = stage.parse().map_err(wrong)?;
        let (program, session) = (self.runner.program(), self.runner.session());
        py.detach(|| program.text(stage, &dims.unwrap_or_default(), Some(session))).map_err(raise)
    }

    /// Runs the program on `args`: tensors on the CPU and numbers, in the order of the trace's inputs.
    fn __call__<'py>(&self, py: Python<'py>, args: &Bound<'py, PyList>) -> PyResult<Bound<'py, PyList>> {
        let exchange = Exchange::get(py)?;
        let arguments = args.iter().map(|a| exchange.argument(&a)).collect::<PyResult<Vec<_>>>()?;
        let results = py.detach(|| self.runner.run(&arguments, &mut draw_seed)).map_err(raise)?;
        objects(exchange, args, results)
    }

    /// Starts the program on device `tpu:index`, on tensors of that device and numbers; returns while it computes. `wrap`
    /// makes a tensor of a new storage.
    fn call_on_device<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyList>,
        index: usize,
        wrap: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyList>> {
        let exchange = Exchange::get(py)?;
        let operands = args.iter().map(|a| exchange.operand(&a)).collect::<PyResult<Vec<_>>>()?;
        let results = py.detach(|| device::call(&self.runner, index, operands));
        let results = results.map_err(|error| match error.is_instance_of::<PyNotImplementedError>(py) {
            true => self.refusal(exchange, args).unwrap_or(error),
            false => error,
        })?;
        let objects = PyList::empty(py);
        for result in results {
            let object = match result {
                Produced::Tensor { cell, address, nbytes, dtype, shape, strides } => {
                    let (shape, strides) = (PyTuple::new(py, &shape[..])?, PyTuple::new(py, &strides[..])?);
                    wrap.call1((cell, address, nbytes, dtype, shape, strides, index))?
                }
                Produced::Argument(i) => args.get_item(i)?,
                Produced::Result(i) => objects.get_item(i)?,
                Produced::Number(Number::Bool(b)) => b.into_pyobject(py)?.to_owned().into_any(),
                Produced::Number(Number::Int(n)) => n.into_pyobject(py)?.into_any(),
                Produced::Number(Number::Float(x) | Number::Complex(x, _)) => x.into_pyobject(py)?.into_any(),
                Produced::None => py.None().into_bound(py),
            };
            objects.append(object)?;
        }
        Ok(objects)
    }
}

impl Program {
    /// Why the program has no lowering for `args`: with the op and the line, of which the device's core says nothing.
    fn refusal(&self, exchange: &Exchange, args: &Bound<'_, PyList>) -> Option<PyErr> {
        let operands = args.iter().map(|a| exchange.operand(&a)).collect::<PyResult<Vec<_>>>().ok()?;
        self.runner.refusal(&operands.iter().map(device::given).collect::<Vec<_>>()).map(raise)
    }
}

/// What a program called on `args` returns to Python.
fn objects<'py>(exchange: &Exchange, args: &Bound<'py, PyList>, results: Vec<Value>) -> PyResult<Bound<'py, PyList>> {
    let py = args.py();
    let objects = PyList::empty(py);
    for value in results {
        let object = match value {
            Value::Tensor(t) => exchange.object(py, t)?,
            Value::Argument(i) => args.get_item(i)?,
            Value::Result(i) => objects.get_item(i)?,
            Value::Int(n) => n.into_pyobject(py)?.into_any(),
            Value::Float(x) => x.into_pyobject(py)?.into_any(),
            Value::Bool(b) => b.into_pyobject(py)?.to_owned().into_any(),
            Value::None => py.None().into_bound(py),
        };
        objects.append(object)?;
    }
    Ok(objects)
}

/// Hands reports of compiles to a Python callable, as a dictionary. What it raises is reported, and stops nothing.
fn observer(callable: Py<PyAny>) -> Observer {
    Box::new(move |report| {
        Python::attach(|py| {
            let told = report_dict(py, report).and_then(|dict| callable.call1(py, (dict,)));
            if let Err(error) = told {
                error.write_unraisable(py, None);
            }
        });
    })
}

fn report_dict<'py>(py: Python<'py>, report: &CompileReport) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let sizes: BTreeMap<&str, i64> = report.sizes.iter().map(|(name, size)| (&**name, *size)).collect();
    let origin = match report.origin {
        Origin::Compiled => "compiled",
        Origin::Memory => "found in memory",
        Origin::Disk => "found on disk",
    };
    dict.set_item("sizes", sizes)?;
    dict.set_item("core_ops", report.core_ops)?;
    dict.set_item("inputs", report.inputs)?;
    dict.set_item("outputs", report.outputs)?;
    dict.set_item("bytes", report.bytes)?;
    dict.set_item("origin", origin)?;
    dict.set_item("lowering", report.lowering.as_secs_f64())?;
    dict.set_item("plugin", report.plugin.as_secs_f64())?;
    Ok(dict)
}

/// Key and counter for one execution, from PyTorch's default generator: `torch.manual_seed` reproduces them.
fn draw_seed() -> driver::Result<[u64; 2]> {
    let draw = |py: Python<'_>| py.import("torchtpu.backend")?.getattr("draw_seed")?.call0()?.extract::<u64>();
    let key = Python::attach(draw).map_err(|e| driver::Error::Argument(format!("cannot draw a random seed: {e}")))?;
    Ok([key, 0])
}

/// Loads `plugin` now, so that a missing or broken one is reported here rather than in the first compile.
#[pyfunction]
fn load_plugin(py: Python<'_>, plugin: String) -> PyResult<()> {
    py.detach(|| session(plugin).map(drop))
}

/// Whether programs run on the host's processor with `plugin`, which is loaded.
#[pyfunction]
fn is_on_cpu(py: Python<'_>, plugin: String) -> PyResult<bool> {
    py.detach(|| Ok(session(plugin)?.is_on_cpu()))
}

/// Counters of all sessions, summed.
#[pyfunction]
fn stats(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let (all, offered) = py.detach(|| {
        device::wait_for_programs();
        let sessions = match is_fork() {
            true => SESSIONS.try_lock().ok(),
            false => Some(SESSIONS.lock().unwrap_or_else(PoisonError::into_inner)),
        };
        let all: Vec<Arc<Session>> = sessions.iter().flat_map(|s| s.iter()).flat_map(|s| s.values()).cloned().collect();
        (all.iter().map(|s| s.stats()).collect::<Vec<_>>(), all.iter().any(|s| s.offers_products()))
    });
    let sum = |f: fn(&driver::Stats) -> u64| all.iter().map(f).sum::<u64>();
    let counts = PyDict::new(py);
    counts.set_item("compiles", sum(|s| s.compiles))?;
    counts.set_item("cache_hits", sum(|s| s.cache_hits))?;
    counts.set_item("disk_hits", sum(|s| s.disk_hits))?;
    counts.set_item("executions", sum(|s| s.executions))?;
    counts.set_item("execute_seconds", all.iter().map(|s| s.execute_time.as_secs_f64()).sum::<f64>())?;
    counts.set_item("blas", BLAS.get().filter(|_| offered).map(|(library, _)| library.to_string_lossy()))?;
    let pool = runtime::memory_pool();
    counts.set_item("memory_pool", BTreeMap::from([("lent", pool.lent), ("kept", pool.kept)]))?;
    counts.set_item("compile_seconds", all.iter().map(|s| s.compile_time.as_secs_f64()).sum::<f64>())?;
    Ok(counts)
}

/// Gives the system the memory that the CPU plugin keeps for its next call.
#[pyfunction]
fn give_back_memory(py: Python<'_>) {
    py.detach(runtime::give_back_memory);
}

/// Names of all overloads in the op table, such as `aten::add.Tensor`.
#[pyfunction]
fn op_names() -> Vec<&'static str> {
    ir::ops::names()
}

#[pymodule]
fn _native(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    m.add_class::<Program>()?;
    m.add_class::<Unsupported>()?;
    m.add_class::<partitioned::Partitioned>()?;
    m.add_function(wrap_pyfunction!(load_plugin, m)?)?;
    m.add_function(wrap_pyfunction!(is_on_cpu, m)?)?;
    m.add_function(wrap_pyfunction!(use_blas, m)?)?;
    m.add_function(wrap_pyfunction!(cache_fault, m)?)?;
    m.add_function(wrap_pyfunction!(stats, m)?)?;
    m.add_function(wrap_pyfunction!(give_back_memory, m)?)?;
    m.add_function(wrap_pyfunction!(op_names, m)?)?;
    ahead::add(m)?;
    device::add(m)
}
