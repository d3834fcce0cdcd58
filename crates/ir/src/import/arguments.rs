//! From a node's arguments to those of a call.

use super::{Binding, Importer, Scope, known, survey};
use crate::alias::{AliasArg, Layout, Lazy, TensorId};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::graph::ValueId;
use crate::invalid;
use crate::literal::Number;
use crate::ops::{Arg, Entry, Scalar, TensorArg, Variant, parse_default};
use crate::trace::codes;
use crate::trace::schema::{Argument, Node, OptionalTensor};
use smallvec::SmallVec;

/// Arguments by their place in the schema.
pub(super) struct Assigned<'t> {
    pub(super) entry: Entry,
    pub(super) slots: SmallVec<[Option<&'t Argument>; 12]>,
    /// The tensors that an `out=` overload writes.
    pub(super) outs: Vec<&'t Argument>,
}

/// An argument whose tensors are not borrowed yet.
pub(super) enum Owned {
    Tensor(TensorId),
    Tensors(Vec<Option<TensorId>>),
    Plain(Arg<'static>),
}

/// A tensor argument, cast where autocast says so.
pub(super) struct Operand<'a> {
    arg: AliasArg<'a>,
    cast: Option<DType>,
}

impl TensorArg for Operand<'_> {
    fn read(&self, b: &Builder) -> Result<ValueId> {
        let value = self.arg.read(b)?;
        b.convert(value, self.dtype())
    }
    fn layout(&self) -> Layout {
        self.arg.layout()
    }
    fn dtype(&self) -> DType {
        let dtype = self.arg.dtype();
        self.cast.filter(|_| dtype.is_float()).unwrap_or(dtype)
    }
    fn lazy(&self) -> Lazy {
        self.arg.lazy()
    }
}

/// Puts the arguments of `node` in the order of the schema.
pub(super) fn assign<'t>(node: &'t Node, entry: Entry) -> Result<Assigned<'t>> {
    let params = &entry.schema.args;
    let mut assigned = Assigned { entry, slots: params.iter().map(|_| None).collect(), outs: vec![] };
    for (i, input) in node.inputs.iter().enumerate() {
        let named = entry.schema.position(&input.name);
        let slot = match named {
            Some(slot) => slot,
            None if input.name.is_empty() && i < params.len() => i,
            // Some functional overloads call it otherwise: `dropout(Tensor input, ...)`, `dropout_(Tensor(a!) self, ...)`.
            None if entry.variant == Variant::InPlace && input.name == "self" && !params.is_empty() => 0,
            None if entry.variant == Variant::Out => {
                assigned.outs.push(&input.arg);
                continue;
            }
            None => invalid!("argument `{}` is not one of {}", input.name, entry.schema.name),
        };
        if assigned.slots[slot].replace(&input.arg).is_some() {
            invalid!("argument `{}` is given twice", params[slot].name);
        }
    }
    Ok(assigned)
}

/// The overload for numbers, where numbers stand in the place of tensors: `add.Scalar` for `add.Tensor`.
pub(super) fn for_numbers(node: &Node, assigned: &Assigned<'_>) -> Option<Entry> {
    let params = assigned.entry.schema.args.iter().zip(&assigned.slots);
    let mut wrapped = params.filter(|(p, a)| p.parts().base == "Tensor" && a.is_some_and(is_number));
    wrapped.next()?;
    let name = survey::qualified(&node.target)?.replace(".Tensor", ".Scalar");
    let entry = crate::ops::find(&name)?;
    let fits = node.inputs.iter().all(|i| entry.schema.position(&i.name).is_some());
    fits.then_some(entry)
}

fn is_number(a: &Argument) -> bool {
    matches!(
        a,
        Argument::AsInt(_)
            | Argument::AsFloat(_)
            | Argument::AsBool(_)
            | Argument::AsComplex(_)
            | Argument::AsSymInt(_)
            | Argument::AsSymFloat(_)
            | Argument::AsSymBool(_)
    )
}

impl<'t> Importer<'t> {
    /// All arguments of a call, defaults included.
    pub(super) fn owned(&self, scope: &Scope<'t>, assigned: &Assigned<'t>) -> Result<SmallVec<[Owned; 12]>> {
        let params = || assigned.entry.schema.args.iter().zip(&assigned.slots);
        let one = |(param, slot): (_, &Option<&Argument>)| match slot {
            None => Ok(Owned::Plain(parse_default(param)?)),
            Some(arg) => self.argument(scope, arg),
        };
        let mut all: SmallVec<[Owned; 12]> = params().map(one).collect::<Result<_>>()?;
        let alone = !all.iter().any(|owned| matches!(owned, Owned::Tensor(_) | Owned::Tensors(_)));
        for (owned, (param, slot)) in all.iter_mut().zip(params()) {
            let parts = param.parts();
            let wraps = parts.base == "Tensor" && parts.list.is_none() && !assigned.entry.def.takes_numbers;
            if let (Owned::Plain(Arg::Scalar(s)), true) = (&*owned, wraps && slot.is_some()) {
                *owned = self.wrapped(s, alone)?;
            }
        }
        Ok(all)
    }

    /// A number in the place of a tensor, as a 0-d tensor: in promotion it counts less than tensors with dimensions. `alone`, where there
    /// are no tensors, it has the type that Python has for such numbers.
    fn wrapped(&self, s: &Scalar, alone: bool) -> Result<Owned> {
        let dtype = match (s.dtype(), alone) {
            (DType::F32, true) => DType::F64,
            (DType::C64, true) => DType::C128,
            (DType::F32, false) => self.context.default_dtype.unwrap_or(DType::F32),
            (other, _) => other,
        };
        let value = match s {
            Scalar::Known(n) => self.b.scalar(*n, dtype)?,
            Scalar::Symbolic(_) => self.b.scalar(self.consult(s), dtype)?,
        };
        self.aliases.fresh_contiguous(&self.b, value).map(Owned::Tensor)
    }

    fn argument(&self, scope: &Scope<'t>, arg: &Argument) -> Result<Owned> {
        let scalar = |s: Scalar| Ok(Owned::Plain(Arg::Scalar(s)));
        let number = |n: Number| scalar(known(n));
        let scalars = |list: Result<Vec<Scalar>>| Ok(Owned::Plain(Arg::Scalars(list?)));
        match arg {
            Argument::AsNone(_) => Ok(Owned::Plain(Arg::None)),
            Argument::AsTensor(t) => self.named(scope, &t.name),
            Argument::AsOptionalTensor(OptionalTensor::AsTensor(t)) => self.named(scope, &t.name),
            Argument::AsOptionalTensor(OptionalTensor::AsNone(_)) => Ok(Owned::Plain(Arg::None)),
            Argument::AsTensors(ts) => {
                ts.iter().map(|t| self.optional_tensor(scope, &t.name)).collect::<Result<_>>().map(Owned::Tensors)
            }
            Argument::AsOptionalTensors(ts) => {
                let one = |t: &OptionalTensor| match t {
                    OptionalTensor::AsTensor(t) => self.optional_tensor(scope, &t.name),
                    OptionalTensor::AsNone(_) => Ok(None),
                };
                ts.iter().map(one).collect::<Result<_>>().map(Owned::Tensors)
            }
            Argument::AsInt(i) => number(Number::Int(*i)),
            Argument::AsFloat(x) => number(Number::Float(x.0)),
            Argument::AsBool(b) => number(Number::Bool(*b)),
            Argument::AsComplex(c) => number(Number::Complex(c.real.0, c.imag.0)),
            Argument::AsSymInt(a) => scalar(self.sym_int(scope, a)?),
            Argument::AsSymFloat(a) => scalar(self.sym_float(scope, a)?),
            Argument::AsSymBool(a) => scalar(self.sym_bool(scope, a)?),
            Argument::AsInts(list) => scalars(list.iter().map(|i| Ok(known(Number::Int(*i)))).collect()),
            Argument::AsFloats(list) => scalars(list.iter().map(|x| Ok(known(Number::Float(x.0)))).collect()),
            Argument::AsBools(list) => scalars(list.iter().map(|b| Ok(known(Number::Bool(*b)))).collect()),
            Argument::AsSymInts(list) => scalars(list.iter().map(|a| self.sym_int(scope, a)).collect()),
            Argument::AsSymFloats(list) => scalars(list.iter().map(|a| self.sym_float(scope, a)).collect()),
            Argument::AsSymBools(list) => scalars(list.iter().map(|a| self.sym_bool(scope, a)).collect()),
            Argument::AsString(s) => Ok(Owned::Plain(Arg::Str(s.as_str().into()))),
            Argument::AsDevice(d) => Ok(Owned::Plain(Arg::Device(d.kind.as_str().into()))),
            Argument::AsScalarType(code) => Ok(Owned::Plain(Arg::DType(codes::dtype(*code)?))),
            Argument::AsMemoryFormat(code) => Ok(Owned::Plain(Arg::MemoryFormat(codes::memory_format(*code)?))),
            Argument::AsLayout(code) => codes::layout(*code).map(|()| Owned::Plain(Arg::Strided)),
            other => Err(Error::unsupported(format!("arguments of kind {} are not supported", other.variant()))),
        }
    }

    fn named(&self, scope: &Scope<'t>, name: &str) -> Result<Owned> {
        Ok(match scope.names.get(name) {
            Some(Binding::Tensor(t)) => Owned::Tensor(*t),
            Some(Binding::Number(s)) => Owned::Plain(Arg::Scalar(s.clone())),
            Some(Binding::Str(s)) => Owned::Plain(Arg::Str(s.clone())),
            Some(Binding::None) => Owned::Plain(Arg::None),
            None => invalid!("value `{name}` is used, but nothing defines it"),
        })
    }

    pub(super) fn optional_tensor(&self, scope: &Scope<'t>, name: &str) -> Result<Option<TensorId>> {
        match self.named(scope, name)? {
            Owned::Tensor(t) => Ok(Some(t)),
            Owned::Plain(Arg::None) => Ok(None),
            _ => invalid!("`{name}` is used as a tensor, but is none"),
        }
    }

    /// The tensors of `owned`, in order.
    pub(super) fn operands(&self, owned: &[Owned], cast: Option<DType>) -> Vec<Operand<'_>> {
        let ids = owned.iter().flat_map(|o| -> SmallVec<[TensorId; 1]> {
            match o {
                Owned::Tensor(t) => SmallVec::from_slice(&[*t]),
                Owned::Tensors(ts) => ts.iter().copied().flatten().collect(),
                Owned::Plain(_) => SmallVec::new(),
            }
        });
        ids.map(|t| Operand { arg: self.aliases.arg(t), cast }).collect()
    }
}

/// The arguments, with their tensors taken from `operands`.
pub(super) fn args<'a>(owned: &[Owned], operands: &'a [Operand<'a>]) -> Vec<Arg<'a>> {
    let mut tensors = operands.iter().map(|o| o as &dyn TensorArg);
    owned
        .iter()
        .map(|o| match o {
            Owned::Tensor(_) => tensors.next().map_or(Arg::None, Arg::Tensor),
            Owned::Tensors(ts) => Arg::Tensors(ts.iter().map(|t| t.and_then(|_| tensors.next())).collect()),
            Owned::Plain(arg) => arg.clone(),
        })
        .collect()
}
