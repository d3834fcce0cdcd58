//! Inputs: their types, their names, the symbols in their shapes.

use super::{Binding, Importer, InputMeta, InputValue, Scope, known};
use crate::alias::TensorId;
use crate::error::{Error, Result};
use crate::graph::InputKind;
use crate::invalid;
use crate::literal::Number;
use crate::symbol::Expr;
use crate::trace::Trace;
use crate::trace::schema::{Argument, InputSpec, Range, SymBool, SymBoolArgument, SymInt, SymIntArgument, TensorMeta};
use crate::types::TensorType;
use std::collections::BTreeMap;
use std::sync::Arc;

/// An input while importing.
pub(super) struct BoundInput {
    pub(super) meta: InputMeta,
    pub(super) tensor: Option<TensorId>,
}

impl<'t> Importer<'t> {
    pub(super) fn inputs(&self, scope: &mut Scope<'t>) -> Result<Vec<BoundInput>> {
        let specs = &self.trace.signature.input_specs;
        let inputs = &scope.graph.inputs;
        inputs.iter().enumerate().map(|(i, arg)| self.input(scope, arg, specs.get(i))).collect()
    }

    fn input(&self, scope: &mut Scope<'t>, arg: &'t Argument, spec: Option<&'t InputSpec>) -> Result<BoundInput> {
        let (kind, target) = match spec {
            Some(InputSpec::Parameter { parameter_name, .. }) => (InputKind::Parameter, Some(parameter_name)),
            Some(InputSpec::Buffer { buffer_name, .. }) => (InputKind::Buffer, Some(buffer_name)),
            Some(InputSpec::TensorConstant { tensor_constant_name: n, .. }) => (InputKind::Constant, Some(n)),
            Some(InputSpec::CustomObj { arg }) => {
                let message = format!("input `{}` is a {}, not a tensor", arg.name, arg.class_fqn);
                return Err(Error::unsupported(message));
            }
            Some(InputSpec::Token { arg }) => {
                return Err(Error::unsupported(format!("input `{}` is an effect token", arg.name)));
            }
            Some(InputSpec::ConstantInput { name, value }) => return self.constant_input(scope, name, value),
            Some(InputSpec::UserInput { .. }) | None => (InputKind::User, None),
        };
        let bound = |name: &str, value, tensor| {
            let meta = InputMeta { name: name.to_owned(), kind: kind.clone(), target: target.cloned(), value };
            Ok(BoundInput { meta, tensor })
        };
        match arg {
            Argument::AsTensor(t) => {
                let (value, id) = self.tensor_input(scope, &t.name, kind.clone(), target)?;
                bound(&t.name, value, Some(id))
            }
            Argument::AsSymInt(SymIntArgument::AsName(name)) | Argument::AsSymBool(SymBoolArgument::AsName(name)) => {
                let (number, text) = self.symbol_input(scope, name)?;
                scope.names.insert(name, number);
                bound(name, InputValue::Symbol(text), None)
            }
            literal if literal_binding(literal).is_some() => bound("", InputValue::Constant, None),
            other => Err(Error::unsupported(format!("inputs of kind {} are not supported", other.variant()))),
        }
    }

    pub(super) fn tensor_input(
        &self,
        scope: &mut Scope<'t>,
        name: &'t str,
        kind: InputKind,
        target: Option<&String>,
    ) -> Result<(InputValue, TensorId)> {
        let named = |e: Error| {
            let named = Error::new(e.kind(), format!("input `{name}`: {}", e.message()));
            e.help().map_or(named.clone(), |help| named.with_help(help))
        };
        let Some(meta) = scope.graph.tensor_values.get(name) else { invalid!("the trace gives no type for `{name}`") };
        let (dtype, layout) = self.layout_of(name, meta).map_err(named)?;
        self.depend_on(meta)?;
        let ty = TensorType { dtype, shape: layout.sizes.clone() };
        let position = self.b.input_count();
        let value = self.b.input(target.map_or(name, String::as_str), kind, ty.clone());
        let id = self.aliases.fresh(&self.b, value, layout)?;
        scope.names.insert(name, Binding::Tensor(id));
        Ok((InputValue::Tensor { position, ty }, id))
    }

    fn symbol_input(&self, scope: &Scope<'t>, name: &'t str) -> Result<(Binding, Arc<str>)> {
        let recorded = match (scope.graph.sym_int_values.get(name), scope.graph.sym_bool_values.get(name)) {
            (Some(number), _) => Recorded::from(number),
            (_, Some(truth)) => Recorded::from(truth),
            _ => invalid!("the trace gives no value for input `{name}`"),
        };
        Ok(match recorded {
            Recorded::Expr(text) => (Binding::Number(self.symbolic(text)?), text.into()),
            Recorded::Number(n) => (Binding::Number(known(n)), n.as_i64().to_string().into()),
        })
    }

    fn constant_input(&self, scope: &mut Scope<'t>, name: &'t str, value: &Argument) -> Result<BoundInput> {
        let Some(binding) = literal_binding(value) else {
            invalid!("constant input `{name}` is {}", value.variant());
        };
        scope.names.insert(name, binding);
        let meta =
            InputMeta { name: name.to_owned(), kind: InputKind::User, target: None, value: InputValue::Constant };
        Ok(BoundInput { meta, tensor: None })
    }

    /// Every bound symbol lies in its range.
    pub(super) fn check_ranges(&self) -> Result<()> {
        for (symbol, range) in &self.trace.range_constraints {
            let Some(value) = self.context.symbols.get(symbol) else { continue };
            if range.min_val.is_some_and(|min| value < min) || range.max_val.is_some_and(|max| value > max) {
                let place = place_of(self.trace, symbol).map(|p| format!(" ({p})")).unwrap_or_default();
                invalid!("`{symbol}`{place} is {value}, outside the range {} it was exported for", range_text(range));
            }
        }
        Ok(())
    }
}

/// A literal as a value; `None` if it is no literal.
pub(super) fn literal_binding(value: &Argument) -> Option<Binding> {
    Some(match value {
        Argument::AsNone(_) => Binding::None,
        Argument::AsInt(i) => Binding::Number(known(Number::Int(*i))),
        Argument::AsFloat(x) => Binding::Number(known(Number::Float(x.0))),
        Argument::AsBool(b) => Binding::Number(known(Number::Bool(*b))),
        Argument::AsComplex(c) => Binding::Number(known(Number::Complex(c.real.0, c.imag.0))),
        Argument::AsString(s) => Binding::Str(s.as_str().into()),
        _ => return None,
    })
}

/// `2..=64`, with an open end where unbounded.
pub(super) fn range_text(range: &Range) -> String {
    let text = |v: Option<i64>| v.map(|v| v.to_string()).unwrap_or_default();
    format!("{}..={}", text(range.min_val), text(range.max_val)).trim_end_matches('=').to_owned()
}

/// The first input dimension that is this symbol.
fn place_of(trace: &Trace, symbol: &str) -> Option<String> {
    tensor_inputs(trace).find_map(|(name, meta)| {
        let is_symbol = |s: &SymInt| match s {
            SymInt::AsExpr(e) => {
                matches!(Expr::parse(&e.expr_str), Ok(Expr::Symbol(s)) if *s == *symbol)
            }
            SymInt::AsInt(_) => false,
        };
        meta.sizes.iter().position(is_symbol).map(|dim| format!("dimension {dim} of `{name}`"))
    })
}

fn tensor_inputs(trace: &Trace) -> impl Iterator<Item = (&str, &TensorMeta)> {
    trace.graph.inputs.iter().filter_map(|i| match i {
        Argument::AsTensor(t) => Some((t.name.as_str(), trace.graph.tensor_values.get(&t.name)?)),
        _ => None,
    })
}

/// What is given for an input of the trace.
#[derive(Clone, Debug)]
pub enum InputType<'a> {
    /// A tensor of these extents.
    Shape(&'a [usize]),
    /// A number.
    Int(i64),
    /// Anything else, of which nothing follows.
    Other,
}

/// What the trace records for a number.
#[derive(Clone, Copy)]
enum Recorded<'t> {
    Number(Number),
    Expr(&'t str),
}

impl<'t> From<&'t SymInt> for Recorded<'t> {
    fn from(i: &'t SymInt) -> Recorded<'t> {
        match i {
            SymInt::AsInt(i) => Recorded::Number(Number::Int(*i)),
            SymInt::AsExpr(e) => Recorded::Expr(&e.expr_str),
        }
    }
}

impl<'t> From<&'t SymBool> for Recorded<'t> {
    fn from(b: &'t SymBool) -> Recorded<'t> {
        match b {
            SymBool::AsBool(b) => Recorded::Number(Number::Bool(*b)),
            SymBool::AsExpr(e) => Recorded::Expr(&e.expr_str),
        }
    }
}

/// The values of the symbols in `trace` that follow from its inputs, one entry each. Forms `a * symbol + b` are solved, and
/// truth values `symbol != 0`, whose symbols stand for nothing else; the rest is compared.
///
/// # Errors
/// `Invalid`, naming the input, if an extent contradicts the trace or a range.
pub fn bind(trace: &Trace, inputs: &[InputType<'_>]) -> Result<BTreeMap<String, i64>> {
    let mut dims = BTreeMap::new();
    let mut rest: Vec<(String, Recorded<'_>, i64)> = vec![];
    for (arg, given) in trace.graph.inputs.iter().zip(inputs) {
        match (arg, given) {
            (Argument::AsTensor(t), InputType::Shape(shape)) => {
                let Some(meta) = trace.graph.tensor_values.get(&t.name) else { continue };
                if meta.sizes.len() != shape.len() {
                    invalid!("input `{}` has {} dimensions, not {}", t.name, shape.len(), meta.sizes.len());
                }
                for (i, (size, &extent)) in meta.sizes.iter().zip(*shape).enumerate() {
                    rest.push((format!("dimension {i} of input `{}`", t.name), size.into(), extent as i64));
                }
            }
            (Argument::AsSymInt(SymIntArgument::AsName(name)), InputType::Int(value)) => {
                if let Some(size) = trace.graph.sym_int_values.get(name) {
                    rest.push((format!("input `{name}`"), size.into(), *value));
                }
            }
            (Argument::AsSymBool(SymBoolArgument::AsName(name)), InputType::Int(value)) => {
                if let Some(truth) = trace.graph.sym_bool_values.get(name) {
                    rest.push((format!("input `{name}`"), truth.into(), *value));
                }
            }
            _ => {}
        }
    }
    let mut open = vec![];
    for (what, size, value) in rest {
        match size {
            Recorded::Number(n) if n.as_i64() == value => {}
            Recorded::Number(n) => invalid!("{what} is {value}, but the program was exported for {}", n.as_i64()),
            Recorded::Expr(text) => {
                let expr = Expr::parse(text)?;
                if let Some((symbol, solved)) = expr.solve(value).or_else(|| Some((expr.flag()?, value))) {
                    let known = *dims.entry(symbol.to_string()).or_insert(solved);
                    check_range(trace, &what, &symbol, known)?;
                }
                open.push((what, expr, value));
            }
        }
    }
    for (what, expr, value) in open {
        let unbound = expr.free().iter().any(|s| !dims.contains_key(&**s));
        let computed = expr.evaluate(&|s| dims.get(s).copied());
        match computed {
            Ok(Number::Int(i)) if i == value => {}
            Ok(Number::Bool(b)) if i64::from(b) == value => {}
            Err(_) if unbound => {}
            Ok(Number::Int(i)) => invalid!("{what} is {value}, but `{expr}` is {i} by the other inputs"),
            _ => invalid!("{what} is {value}, which is not `{expr}`"),
        }
    }
    Ok(dims)
}

fn check_range(trace: &Trace, what: &str, symbol: &str, value: i64) -> Result<()> {
    let Some(range) = trace.range_constraints.get(symbol) else { return Ok(()) };
    let inside = range.min_val.is_none_or(|min| value >= min) && range.max_val.is_none_or(|max| value <= max);
    match inside {
        true => Ok(()),
        false => {
            invalid!("{what} makes `{symbol}` {value}, outside the range {} it was exported for", range_text(range))
        }
    }
}
