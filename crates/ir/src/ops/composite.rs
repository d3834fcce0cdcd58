//! Ops that PyTorch makes of other ops, where a trace keeps them whole: calls of those others, as PyTorch's C++ makes them.

pub(super) mod differences;
pub(super) mod fft;
pub(super) mod linalg;
pub(super) mod losses;
pub(super) mod norms;
pub(super) mod numeric;
pub(super) mod products;
pub(super) mod signal;

use super::bounded::Bounded;
use super::call::{Arg, Call, Outs, Scalar, TensorArg};
use super::{Rule, find, parse_default};
use crate::alias::Layout;
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::graph::ValueId;
use crate::literal::Number;
use crate::types::Shape;

/// Where an expansion calls other ops.
#[derive(Clone, Copy)]
pub(super) struct Torch<'t> {
    pub(super) c: &'t Call<'t>,
    pub(super) b: &'t Builder,
}

/// An argument of such a call.
#[derive(Clone, Debug)]
pub(super) enum Given {
    None,
    Tensor(ValueId),
    Tensors(Vec<ValueId>),
    Number(Scalar),
    Numbers(Vec<Scalar>),
    Str(String),
    DType(DType),
}

/// A call of an op of `aten`, by its overload and its first arguments: its first result.
macro_rules! call {
    ($t:expr, $name:literal $(, $arg:expr)* $(,)?) => {
        $t.first(concat!("aten::", $name), &[$($crate::ops::composite::Given::from($arg)),*])
    };
}

/// Likewise, all of its results.
macro_rules! call_all {
    ($t:expr, $name:literal $(, $arg:expr)* $(,)?) => {
        $t.all(concat!("aten::", $name), &[$($crate::ops::composite::Given::from($arg)),*])
    };
}

/// An op with one result, made of calls.
macro_rules! composite {
    ($schema:expr, |$t:ident| $value:expr, $samples:expr) => {
        OpDef::new(
            concat!("aten::", $schema),
            |c, b| {
                let $t = $crate::ops::composite::Torch::new(c, b);
                $crate::ops::one($value?)
            },
            $samples,
        )
    };
    ($schema:expr, $f:path, $samples:expr) => {
        composite!($schema, |t| $f(t), $samples)
    };
}

/// An op that is another one, given the same arguments.
macro_rules! renamed {
    ($schema:expr, $other:literal, $samples:expr) => {
        OpDef::new(
            concat!("aten::", $schema),
            |c, b| $crate::ops::composite::Torch::new(c, b).renamed(concat!("aten::", $other)),
            $samples,
        )
    };
}

pub(super) use {call, call_all, composite, renamed};

macro_rules! given {
    ($($ty:ty: |$x:ident| $given:expr;)*) => {
        $(impl From<$ty> for Given {
            fn from($x: $ty) -> Given {
                $given
            }
        })*
    };
}

given! {
    ValueId: |v| Given::Tensor(v);
    Vec<ValueId>: |vs| Given::Tensors(vs);
    &[ValueId]: |vs| Given::Tensors(vs.to_vec());
    Scalar: |s| Given::Number(s);
    Vec<Scalar>: |s| Given::Numbers(s);
    Number: |n| Given::Number(Scalar::Known(n));
    i32: |n| Number::Int(n.into()).into();
    i64: |n| Number::Int(n).into();
    usize: |n| Number::Int(n as i64).into();
    f64: |n| Number::Float(n).into();
    bool: |n| Number::Bool(n).into();
    &str: |s| Given::Str(s.to_owned());
    DType: |d| Given::DType(d);
    &[i64]: |ns| Given::Numbers(ns.iter().map(|&n| Scalar::Known(Number::Int(n))).collect());
    &Vec<i64>: |ns| ns[..].into();
    &[usize]: |ns| ns.iter().map(|&n| n as i64).collect::<Vec<_>>()[..].into();
    Shape: |ns| ns[..].into();
}

impl<T: Into<Given>, const N: usize> From<[T; N]> for Given
where
    Vec<T>: Into<Given>,
{
    fn from(list: [T; N]) -> Given {
        Vec::from(list).into()
    }
}

impl<T: Into<Given>> From<Option<T>> for Given {
    fn from(given: Option<T>) -> Given {
        given.map_or(Given::None, T::into)
    }
}

given! {
    Vec<i64>: |ns| ns[..].into();
}

/// A value as the argument of a call: its elements one after the other.
struct Value {
    v: ValueId,
    shape: Shape,
    dtype: DType,
}

impl TensorArg for Value {
    fn read(&self, _: &Builder) -> Result<ValueId> {
        Ok(self.v)
    }
    fn layout(&self) -> Layout {
        Layout::contiguous(self.shape.clone())
    }
    fn dtype(&self) -> DType {
        self.dtype
    }
}

impl<'t> Torch<'t> {
    pub(super) fn new(c: &'t Call<'t>, b: &'t Builder) -> Torch<'t> {
        Torch { c, b }
    }

    /// The results of the op of this name, given its first arguments.
    pub(super) fn all(self, name: &str, given: &[Given]) -> Result<Vec<ValueId>> {
        self.outs(name, given)?.into_iter().collect::<Option<_>>().ok_or_else(|| lost(name, "an undefined result"))
    }

    pub(super) fn first(self, name: &str, given: &[Given]) -> Result<ValueId> {
        self.outs(name, given)?.first().copied().flatten().ok_or_else(|| lost(name, "no result"))
    }

    fn outs(self, name: &str, given: &[Given]) -> Result<Outs> {
        let value = |&v: &ValueId| Value { v, shape: self.b.shape(v), dtype: self.b.dtype(v) };
        let values: Vec<Vec<Value>> = given
            .iter()
            .map(|g| match g {
                Given::Tensor(v) => vec![value(v)],
                Given::Tensors(vs) => vs.iter().map(value).collect(),
                _ => vec![],
            })
            .collect();
        let args = given.iter().zip(&values).map(|(given, values)| argument(given, values));
        self.run(name, args.collect::<Option<_>>().ok_or_else(|| lost(name, "a tensor without a value"))?)
    }

    /// The results of the op of this name for the arguments of this call: as many as this op has.
    pub(super) fn renamed(self, name: &str) -> Result<Outs> {
        let mut outs = self.run(name, self.c.args.clone())?;
        outs.truncate(self.c.schema.returns.len());
        Ok(outs)
    }

    /// [`renamed`](Torch::renamed), but for one number.
    pub(super) fn renamed_with(self, name: &str, argument: &str, number: Number) -> Result<Outs> {
        let mut args = self.c.args.clone();
        let place = self.c.schema.position(argument).ok_or_else(|| lost(name, argument))?;
        args[place] = Arg::Scalar(Scalar::Known(number));
        self.run(name, args)
    }

    /// Arguments behind the given ones are what they are by default.
    fn run(self, name: &str, mut args: Vec<Arg<'_>>) -> Result<Outs> {
        let entry = match name.contains('.') {
            true => find(name),
            false => find(&format!("{name}.default")),
        };
        let entry = entry.ok_or_else(|| lost(name, "no lowering"))?;
        for param in entry.schema.args.iter().skip(args.len()) {
            args.push(parse_default(param)?);
        }
        let call = Call { schema: entry.schema, args, context: self.c.context, recorded: vec![] };
        match entry.def.rule {
            Rule::Expand(expand) | Rule::View(_, Some(expand)) => expand(&call, self.b),
            Rule::Bounded(expand) => match expand(&call, self.b)? {
                Bounded::Results { padded, cuts, .. } if cuts.is_empty() => Ok(padded),
                _ => Err(Error::unsupported(format!("the extents of {name} are data"))),
            },
            Rule::View(_, None) | Rule::Number(_) => Err(lost(name, "no expansion")),
        }
    }
}

fn argument<'v>(given: &Given, values: &'v [Value]) -> Option<Arg<'v>> {
    Some(match given {
        Given::None => Arg::None,
        Given::Tensor(_) => Arg::Tensor(values.first()?),
        Given::Tensors(_) => Arg::Tensors(values.iter().map(|v| Some(v as &dyn TensorArg)).collect()),
        Given::Number(n) => Arg::Scalar(n.clone()),
        Given::Numbers(ns) => Arg::Scalars(ns.clone()),
        Given::Str(s) => Arg::Str(s.as_str().into()),
        Given::DType(d) => Arg::DType(*d),
    })
}

fn lost(name: &str, what: &str) -> Error {
    Error::internal(format!("a composite op calls {name}: {what}"))
}
