//! Calls whose tensors are in the plugin already: arguments are buffers, and so are results, which may still be computed.

use crate::error::{Error, Result};
use crate::host::{HostTensor, Strides};
use crate::program::DimValues;
use crate::variant::{Output, Plan, SeedSource, Source, Variant, number};
use ir::{DType, Number, Shape};
use runtime::{Buffer, Event, ExecuteOptions};
use std::borrow::Borrow;
use std::sync::Arc;

/// An argument of such a call.
pub enum Placed<B> {
    /// A tensor of this shape, row-major in it.
    Tensor(B, Shape),
    /// A tensor in host memory: small ones, such as step counters.
    Host(HostTensor),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// Nothing: an input that is `None`.
    None,
}

/// What such a call gives.
pub struct Launched {
    /// The results, in the trace's order.
    pub results: Vec<ResidentValue>,
    /// Next values of arguments, by their positions.
    pub mutations: Vec<(usize, Buffer)>,
    /// Ready when the execution is over, or has failed.
    pub done: Arc<Event>,
    /// Bytes that the program takes while it runs, besides arguments and results.
    pub temporaries: u64,
}

/// A result of such a call.
pub enum ResidentValue {
    /// A new tensor: a buffer that is row-major in the order of falling strides, seen through shape and strides.
    Tensor {
        /// The value.
        buffer: Buffer,
        /// Element type.
        dtype: DType,
        /// Extents, as the user sees them.
        shape: Shape,
        /// Steps in elements.
        strides: Strides,
    },
    /// The argument at this position itself.
    Argument(usize),
    /// The same tensor as the result at this earlier position.
    Result(usize),
    /// A number.
    Number(Number),
    /// Nothing.
    None,
}

/// A buffer that the executable reads: the caller's, or one made for this call.
enum Feed<'a> {
    Given(&'a Buffer),
    Made(Buffer),
}

impl Borrow<Buffer> for Feed<'_> {
    fn borrow(&self) -> &Buffer {
        match self {
            Feed::Given(buffer) => buffer,
            Feed::Made(buffer) => buffer,
        }
    }
}

impl Variant {
    /// Starts it. `release` is told of each argument that the executable may take over, and says whether it may.
    pub(crate) fn launch<B: Borrow<Buffer>>(
        &self,
        arguments: &[Placed<B>],
        dims: &DimValues,
        release: &mut dyn FnMut(usize) -> bool,
        seed: SeedSource<'_>,
    ) -> Result<Launched> {
        let mut feeds = Vec::with_capacity(self.inputs.len());
        let mut kept = vec![];
        for (i, input) in self.inputs.iter().enumerate() {
            feeds.push(match &input.source {
                Source::Argument(n) => match arguments.get(*n) {
                    Some(Placed::Tensor(buffer, _)) => {
                        if input.donated && !release(*n) {
                            kept.push(i);
                        }
                        Feed::Given(buffer.borrow())
                    }
                    Some(Placed::Host(tensor)) => Feed::Made(self.upload(input, &tensor.dense_bytes())?),
                    _ => return Err(Error::Argument(format!("argument {n} (`{}`) must be a tensor", input.name))),
                },
                Source::Symbol(expr) => Feed::Made(self.upload(input, &number(expr, dims)?.to_bytes(input.ty.dtype))?),
                Source::Rng => Feed::Made(self.upload(input, &seed()?.map(u64::to_le_bytes).concat())?),
            });
        }
        let options = ExecuteOptions { non_donatable: &kept, ..ExecuteOptions::default() };
        let execution = self.executable.execute(&feeds, &options).map_err(Error::Execute)?;
        let mut outputs: Vec<Option<ResidentValue>> = vec![];
        let mut mutations = vec![];
        for (buffer, output) in execution.outputs.into_iter().zip(&self.outputs) {
            outputs.push(match output {
                Output::Result { shape, strides, dtype } => {
                    let (shape, strides) = (shape.clone(), strides.clone());
                    Some(ResidentValue::Tensor { buffer, dtype: *dtype, shape, strides })
                }
                Output::Mutation(argument) => {
                    mutations.push((*argument, buffer));
                    None
                }
            });
        }
        let results = self.results.iter().map(|plan| value(plan, &mut outputs, dims)).collect::<Result<_>>()?;
        Ok(Launched { results, mutations, done: execution.done, temporaries: self.executable.temporaries() })
    }
}

fn value(plan: &Plan, outputs: &mut [Option<ResidentValue>], dims: &DimValues) -> Result<ResidentValue> {
    Ok(match plan {
        Plan::Output(n) => outputs[*n].take().unwrap_or(ResidentValue::None),
        Plan::Argument(n) => ResidentValue::Argument(*n),
        Plan::Result(n) => ResidentValue::Result(*n),
        Plan::Number(number) => ResidentValue::Number(*number),
        Plan::Symbolic(expr) => ResidentValue::Number(number(expr, dims)?),
        Plan::None => ResidentValue::None,
    })
}

impl HostTensor {
    /// Overwrites its elements with those of `buffer`, when it is ready.
    ///
    /// # Errors
    /// When the computation of `buffer` failed, or it has another size.
    pub fn overwrite(&self, buffer: &Buffer) -> Result<()> {
        crate::host::write_back(&buffer.to_host().map_err(Error::Execute)?, self)
    }
}
