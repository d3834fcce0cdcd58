//! Outputs: results of the call, and the next values of what it writes.

use super::inputs::{BoundInput, literal_binding};
use super::{Binding, Importer, InputValue, OutputMeta, OutputTensor, Scope};
use crate::alias::{Layout, TensorId};
use crate::error::{Error, Result};
use crate::graph::OutputKind;
use crate::invalid;
use crate::trace::schema::{
    Argument, OptionalTensor, OutputSpec, SymBoolArgument, SymFloatArgument, SymIntArgument, TensorName,
};
use crate::types::Dims;

impl<'t> Importer<'t> {
    pub(super) fn outputs(&self, scope: &Scope<'t>, inputs: &[BoundInput]) -> Result<Vec<OutputMeta>> {
        let specs = &self.trace.signature.output_specs;
        let mut given = Given { results: vec![], count: 0, mutated: vec![false; inputs.len()] };
        for (i, arg) in scope.graph.outputs.iter().enumerate() {
            let target = match specs.get(i) {
                Some(OutputSpec::BufferMutation { buffer_name: n, .. })
                | Some(OutputSpec::ParameterMutation { parameter_name: n, .. }) => {
                    find(inputs, n, |i| i.meta.target.as_deref())?
                }
                Some(OutputSpec::UserInputMutation { user_input_name: n, .. }) => {
                    find(inputs, n, |i| Some(i.meta.name.as_str()))?
                }
                Some(OutputSpec::Token { arg }) => {
                    return Err(Error::unsupported(format!("output `{}` is an effect token", arg.name)));
                }
                _ => {
                    self.result(scope, inputs, arg, &mut given)?;
                    continue;
                }
            };
            let Argument::AsTensor(t) = arg else { invalid!("a mutation is given as {}", arg.variant()) };
            let Some(value) = self.optional_tensor(scope, &t.name)? else {
                invalid!("`{}` is written to an input, but is no tensor", t.name);
            };
            self.mutation(inputs, target, value, &mut given)?;
        }
        for (i, input) in inputs.iter().enumerate() {
            let Some(t) = input.tensor.filter(|&t| !given.mutated[i] && self.aliases.writes(t) > 0) else { continue };
            self.mutation(inputs, i, t, &mut given)?;
        }
        Ok(given.results)
    }

    /// `value` becomes the next value of the input numbered `target`.
    fn mutation(&self, inputs: &[BoundInput], target: usize, value: TensorId, given: &mut Given) -> Result<()> {
        let meta = &inputs[target].meta;
        let InputValue::Tensor { position, ty } = &meta.value else {
            invalid!("`{}` is written, but is no tensor", meta.name);
        };
        let value = self.aliases.read(&self.b, value)?;
        let next = self.b.ty(value)?;
        if next != *ty {
            invalid!("the next value of `{}` is {next}, but the input is {ty}", meta.name);
        }
        self.b.output(meta.name.clone(), OutputKind::Mutation(*position), value);
        given.mutated[target] = true;
        given.count += 1;
        Ok(())
    }

    fn result(&self, scope: &Scope<'t>, inputs: &[BoundInput], arg: &'t Argument, given: &mut Given) -> Result<()> {
        let number = |name: &str| Ok(OutputMeta::Number(self.number(scope, name)?));
        let meta = match arg {
            Argument::AsTensor(t) | Argument::AsOptionalTensor(OptionalTensor::AsTensor(t)) => {
                self.tensor(scope, inputs, t, given)
            }
            Argument::AsTensors(ts) => {
                for t in ts {
                    let meta = self.tensor(scope, inputs, t, given)?;
                    given.results.push(meta);
                }
                return Ok(());
            }
            Argument::AsOptionalTensor(OptionalTensor::AsNone(_)) => Ok(OutputMeta::None),
            Argument::AsSymInt(SymIntArgument::AsName(n))
            | Argument::AsSymFloat(SymFloatArgument::AsName(n))
            | Argument::AsSymBool(SymBoolArgument::AsName(n)) => number(n),
            Argument::AsSymInt(a) => self.sym_int(scope, a).map(OutputMeta::Number),
            Argument::AsSymFloat(a) => self.sym_float(scope, a).map(OutputMeta::Number),
            Argument::AsSymBool(a) => self.sym_bool(scope, a).map(OutputMeta::Number),
            other => match literal_binding(other) {
                Some(binding) => Ok(literal(binding)),
                None => Err(Error::unsupported(format!("outputs of kind {} are not supported", other.variant()))),
            },
        }?;
        given.results.push(meta);
        Ok(())
    }

    /// A tensor result, in the order of its storage.
    fn tensor(
        &self,
        scope: &Scope<'t>,
        inputs: &[BoundInput],
        name: &'t TensorName,
        given: &mut Given,
    ) -> Result<OutputMeta> {
        let id = match scope.names.get(name.name.as_str()) {
            Some(Binding::Tensor(t)) => *t,
            Some(other) => return Ok(literal(other.clone())),
            None => invalid!("the graph gives `{}`, which nothing defines", name.name),
        };
        let (_, recorded) = self.tensor_meta(scope, &name.name)?;
        let shape = self.aliases.shape(id);
        let same = recorded.sizes == shape;
        let order: Dims = match recorded.dense_order().filter(|_| same) {
            Some(order) => order,
            None => (0..shape.len()).collect(),
        };
        let value = self.b.transpose(self.aliases.read(&self.b, id)?, &order)?;
        self.b.output(name.name.clone(), OutputKind::User, value);
        let position = given.count;
        given.count += 1;
        let cell = self.aliases.cell(id);
        let alias = inputs.iter().find_map(|i| match (&i.meta.value, i.tensor) {
            (InputValue::Tensor { position, .. }, Some(t)) if self.aliases.cell(t) == cell => Some(*position),
            _ => None,
        });
        let strides = Layout::dense(&shape, &order).strides;
        Ok(OutputMeta::Tensor(OutputTensor { position, strides, shape, alias, storage: cell }))
    }
}

/// What has been handed out so far.
struct Given {
    results: Vec<OutputMeta>,
    /// Outputs of the graph.
    count: usize,
    /// Per input.
    mutated: Vec<bool>,
}

fn find<'a>(inputs: &'a [BoundInput], name: &str, key: impl Fn(&'a BoundInput) -> Option<&'a str>) -> Result<usize> {
    match inputs.iter().position(|i| key(i) == Some(name)) {
        Some(i) => Ok(i),
        None => invalid!("the trace writes `{name}`, which is no input"),
    }
}

fn literal(binding: Binding) -> OutputMeta {
    match binding {
        Binding::Number(s) => OutputMeta::Number(s),
        Binding::Str(s) => OutputMeta::Str(s),
        Binding::None | Binding::Tensor(_) => OutputMeta::None,
    }
}
