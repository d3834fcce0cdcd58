//! Programs on several devices.

use crate::dlpack::Exchange;
use crate::errors::{self, raise};
use crate::{draw_seed, objects, session_with};
use driver::{DimValues, Loaded, Options, Partitioning, Program as Traced};
use ir::sharding::{Mesh, Rule, Rules, Sharding, Spec};
use pyo3::prelude::*;
use pyo3::types::PyList;

/// A traced program that runs on a mesh of virtual CPU devices. It has no symbolic sizes.
#[pyclass(module = "torchtpu._native", frozen)]
pub(crate) struct Partitioned {
    loaded: Loaded,
}

#[pymethods]
impl Partitioned {
    #[new]
    #[pyo3(signature = (trace, *, plugin, mesh, shard, precision = "highest"))]
    fn new(
        py: Python<'_>,
        trace: &[u8],
        plugin: String,
        mesh: Vec<(String, usize)>,
        shard: Vec<(String, Spec)>,
        precision: &str,
    ) -> PyResult<Partitioned> {
        let options = Options { precision: errors::precision(precision)?, ..Options::from_env() };
        let trace = trace.to_vec();
        let rules = Rules(shard.into_iter().map(|(pattern, spec)| Rule { pattern, spec }).collect());
        let partitioned = py.detach(|| {
            let by = Partitioning { mesh: Mesh::new(mesh)?, rules };
            Traced::from_bytes(trace, options)?.partitioned(&DimValues::new(), &by)
        });
        let partitioned = partitioned.map_err(raise)?;
        let session = session_with(plugin, Some(partitioned.partition().mesh().num_devices()))?;
        Ok(Partitioned { loaded: py.detach(|| partitioned.compile(session)).map_err(raise)? })
    }

    /// Bytes of arguments that one device holds.
    #[getter]
    fn argument_bytes(&self) -> usize {
        self.loaded.program().argument_bytes()
    }

    /// The inputs' names and shardings, as they are written.
    fn inputs(&self) -> Vec<(String, String)> {
        let program = self.loaded.program();
        let shown = |s: &Sharding| s.on(program.partition().mesh()).to_string();
        let inputs = program.graph().inputs.iter().zip(program.partition().inputs());
        inputs.map(|(input, sharding)| (input.name.clone(), shown(sharding))).collect()
    }

    /// The program of one device as the plugin's optimizer left it.
    fn hlo(&self, py: Python<'_>) -> PyResult<String> {
        let text = py.detach(|| self.loaded.executable().optimized_program().and_then(|p| p.to_text()));
        text.map_err(|e| raise(driver::Error::Compile(e)))
    }

    /// StableHLO with its Shardy marks.
    fn stablehlo(&self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| self.loaded.program().stablehlo()).map_err(raise)
    }

    /// Runs the program on whole `args`: tensors on the CPU and numbers, in the order of the trace's inputs.
    fn __call__<'py>(&self, py: Python<'py>, args: &Bound<'py, PyList>) -> PyResult<Bound<'py, PyList>> {
        let exchange = Exchange::get(py)?;
        let arguments = args.iter().map(|a| exchange.argument(&a)).collect::<PyResult<Vec<_>>>()?;
        let results = py.detach(|| self.loaded.run(&arguments, &mut draw_seed)).map_err(raise)?;
        objects(exchange, args, results)
    }
}
