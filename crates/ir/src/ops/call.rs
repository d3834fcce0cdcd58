//! One aten call as an expansion sees it: arguments by their schema names, of the types it asks for.

use super::Condition;
use super::schema::Schema;
use super::support::Operand;
use crate::alias::{Layout, Lazy};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::graph::ValueId;
use crate::literal::Number;
use crate::op::Precision;
use crate::symbol::{Sym, Symbols};
use crate::types::Shape;
use crate::{ensure, invalid};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A number as an argument: known now, or only when the program runs.
#[derive(Clone, Debug)]
pub enum Scalar {
    /// A literal of the trace.
    Known(Number),
    /// Depends on symbols; becomes a hidden input unless its value is asked for.
    Symbolic(Sym),
}

impl Scalar {
    /// The number, if it is a literal.
    pub fn known(&self) -> Option<Number> {
        match self {
            Scalar::Known(n) => Some(*n),
            Scalar::Symbolic(_) => None,
        }
    }
    /// The number of this call, for messages: see [`Call::require`].
    pub fn now(&self) -> Number {
        match self {
            Scalar::Known(n) => *n,
            Scalar::Symbolic(s) => s.value,
        }
    }
    /// The kind of number, for promotion.
    pub fn dtype(&self) -> DType {
        match self {
            Scalar::Known(n) => n.dtype(),
            Scalar::Symbolic(s) => s.value.dtype(),
        }
    }
    /// A literal zero.
    pub fn is_zero(&self) -> bool {
        self.known().is_some_and(Number::is_zero)
    }
    /// A literal one.
    pub fn is_one(&self) -> bool {
        self.known().is_some_and(Number::is_one)
    }
}

/// PyTorch's memory formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum MemoryFormat {
    Contiguous,
    ChannelsLast,
    ChannelsLast3d,
    Preserve,
}

/// A tensor argument: read when asked for, so that an op which only looks at its layout costs nothing.
pub trait TensorArg {
    /// Its value now.
    fn read(&self, b: &Builder) -> Result<ValueId>;
    /// Where it lies in its storage.
    fn layout(&self) -> Layout;
    /// Its element type.
    fn dtype(&self) -> DType;
    /// Whether PyTorch holds the conjugate or the negative of it in its storage.
    fn lazy(&self) -> Lazy {
        Lazy::default()
    }
}

/// An argument of a call.
#[derive(Clone)]
pub enum Arg<'a> {
    /// `None`, or an optional argument that was left out.
    None,
    /// `Tensor`.
    Tensor(&'a dyn TensorArg),
    /// `Tensor[]` and `Tensor?[]`.
    Tensors(Vec<Option<&'a dyn TensorArg>>),
    /// `int`, `SymInt`, `float`, `bool`, `Scalar`.
    Scalar(Scalar),
    /// `int[]`, `SymInt[]`, `float[]`, `bool[]`, `Scalar[]`.
    Scalars(Vec<Scalar>),
    /// `str`.
    Str(Arc<str>),
    /// `ScalarType`.
    DType(DType),
    /// `Device`.
    Device(Arc<str>),
    /// `Layout`: dense.
    Strided,
    /// `MemoryFormat`.
    MemoryFormat(MemoryFormat),
}

/// What holds for the whole program and what its calls share.
#[derive(Default)]
pub struct Context {
    /// Bindings of symbols.
    pub symbols: Symbols,
    /// Precision of `f32` contractions.
    pub precision: Precision,
    /// What integers promote to in float ops; `None` stands for `f32`.
    pub default_dtype: Option<DType>,
    /// A bound of the results' extents, where the op asked for one: see [`Bounded::Bound`](super::Bounded::Bound).
    pub bound: Option<i64>,
    /// Whether integers of a call may come in through hidden inputs, so that calls that differ in them share a program.
    pub relaying: bool,
    /// Whether the program can have no hidden inputs: the value of a symbolic number then decides it.
    pub closed: bool,
    /// What must hold of numbers that decide nothing else.
    pub conditions: RefCell<Vec<Condition>>,
    /// Hidden inputs made so far for symbolic numbers, by expression.
    pub symbol_inputs: RefCell<BTreeMap<Arc<str>, ValueId>>,
}

/// An aten call: schema, arguments in the schema's order, context.
pub struct Call<'a> {
    /// The op's signature.
    pub schema: &'a Schema,
    /// One per schema argument.
    pub args: Vec<Arg<'a>>,
    /// The program's.
    pub context: &'a Context,
    /// What a trace records as the extents of the results, where there is one: PyTorch shapes some helper results by device.
    pub recorded: Vec<Option<Shape>>,
}

/// The results of a call, in the order of the schema's returns (a `Tensor[]` is spelled out). `None` is an undefined
/// tensor, as `convolution_backward` gives for a gradient nobody wants.
pub type Outs = Vec<Option<ValueId>>;

/// One tensor as the result.
pub fn one(v: ValueId) -> Result<Outs> {
    Ok(vec![Some(v)])
}

/// Several tensors as the result.
pub fn many(vs: impl IntoIterator<Item = ValueId>) -> Result<Outs> {
    Ok(vs.into_iter().map(Some).collect())
}

impl<'a> Call<'a> {
    fn arg(&self, name: &str) -> Result<&Arg<'a>> {
        let arg = self.schema.position(name).and_then(|i| self.args.get(i));
        arg.ok_or_else(|| Error::internal(format!("{} has no argument `{name}`", self.schema.name)))
    }

    fn wrong<T>(&self, name: &str, wanted: &str) -> Result<T> {
        invalid!("argument `{name}` of {} must be {wanted}", self.schema.name)
    }

    /// The op's name without its namespace and overload, as PyTorch's messages call it.
    pub fn name(&self) -> &str {
        let name = self.schema.name.split("::").last().unwrap_or_default();
        name.split('.').next().unwrap_or(name)
    }

    /// Whether result `i`, which the CPU's kernel leaves empty, is not so where the program was traced.
    pub fn is_recorded_full(&self, i: usize) -> bool {
        self.recorded.get(i).and_then(Option::as_ref).is_some_and(|shape| !shape.contains(&0))
    }

    /// Whether `name` was given and is not `None`.
    pub fn has(&self, name: &str) -> bool {
        self.arg(name).is_ok_and(|a| !matches!(a, Arg::None))
    }

    /// The value of tensor `name`.
    pub fn tensor(&self, b: &Builder, name: &str) -> Result<ValueId> {
        match self.optional_tensor(b, name)? {
            Some(v) => Ok(v),
            None => self.wrong(name, "a tensor"),
        }
    }
    /// The value of tensor `name`, unless it is `None`.
    pub fn optional_tensor(&self, b: &Builder, name: &str) -> Result<Option<ValueId>> {
        match self.arg(name)? {
            Arg::Tensor(t) => t.read(b).map(Some),
            Arg::None => Ok(None),
            _ => self.wrong(name, "a tensor"),
        }
    }
    /// The tensor or number `name`.
    pub fn operand(&self, b: &Builder, name: &str) -> Result<Operand> {
        match self.arg(name)? {
            Arg::Tensor(t) => t.read(b).map(Operand::Tensor),
            Arg::Scalar(s) => Ok(Operand::Scalar(s.clone())),
            _ => self.wrong(name, "a tensor or a number"),
        }
    }
    /// The values of a list of tensors, none of them `None`.
    pub fn tensors(&self, b: &Builder, name: &str) -> Result<Vec<ValueId>> {
        match self.optional_tensors(b, name)?.into_iter().collect() {
            Some(vs) => Ok(vs),
            None => self.wrong(name, "a list of tensors without None"),
        }
    }
    /// The values of a list of tensors.
    pub fn optional_tensors(&self, b: &Builder, name: &str) -> Result<Vec<Option<ValueId>>> {
        match self.arg(name)? {
            Arg::Tensors(ts) => ts.iter().map(|t| t.map(|t| t.read(b)).transpose()).collect(),
            Arg::Scalars(s) if s.is_empty() => Ok(vec![]),
            _ => self.wrong(name, "a list of tensors"),
        }
    }
    /// The layout of tensor `name`, without reading it.
    pub fn layout(&self, name: &str) -> Result<Layout> {
        match self.arg(name)? {
            Arg::Tensor(t) => Ok(t.layout()),
            _ => self.wrong(name, "a tensor"),
        }
    }
    /// The element type of tensor `name`, without reading it.
    pub fn dtype_of(&self, name: &str) -> Result<DType> {
        match self.arg(name)? {
            Arg::Tensor(t) => Ok(t.dtype()),
            _ => self.wrong(name, "a tensor"),
        }
    }

    /// Whether PyTorch holds the conjugate or the negative of tensor `name` in its storage.
    pub fn lazy(&self, name: &str) -> Result<Lazy> {
        match self.arg(name)? {
            Arg::Tensor(t) => Ok(t.lazy()),
            _ => self.wrong(name, "a tensor"),
        }
    }

    /// The number `name`, perhaps symbolic.
    pub fn scalar(&self, name: &str) -> Result<Scalar> {
        match self.optional_scalar(name)? {
            Some(s) => Ok(s),
            None => self.wrong(name, "a number"),
        }
    }
    /// The number `name`, perhaps symbolic, unless it is `None`.
    pub fn optional_scalar(&self, name: &str) -> Result<Option<Scalar>> {
        match self.arg(name)? {
            Arg::Scalar(s) => Ok(Some(s.clone())),
            Arg::None => Ok(None),
            _ => self.wrong(name, "a number"),
        }
    }
    /// A list of numbers; a single number is a list of one.
    pub fn scalars(&self, name: &str) -> Result<Vec<Scalar>> {
        match self.arg(name)? {
            Arg::Scalars(s) => Ok(s.clone()),
            Arg::Scalar(s) => Ok(vec![s.clone()]),
            _ => self.wrong(name, "a list of numbers"),
        }
    }
    /// The number behind `s`; if it is symbolic, the program depends on it from here on.
    pub fn number(&self, s: &Scalar) -> Number {
        match s {
            Scalar::Known(n) => *n,
            Scalar::Symbolic(s) => self.context.symbols.consult(s),
        }
    }
    /// The integer `name`. Decides the program if symbolic.
    pub fn int(&self, name: &str) -> Result<i64> {
        self.scalar(name).map(|s| self.number(&s).as_i64())
    }
    /// The integer `name`, unless it is `None`.
    pub fn optional_int(&self, name: &str) -> Result<Option<i64>> {
        Ok(self.optional_scalar(name)?.map(|s| self.number(&s).as_i64()))
    }
    /// The number `name` as `f64`. Decides the program if symbolic.
    pub fn float(&self, name: &str) -> Result<f64> {
        self.scalar(name).map(|s| self.number(&s).as_f64())
    }
    /// The number `name` as `f64`, unless it is `None`.
    pub fn optional_float(&self, name: &str) -> Result<Option<f64>> {
        Ok(self.optional_scalar(name)?.map(|s| self.number(&s).as_f64()))
    }
    /// The flag `name`; `None` counts as false.
    pub fn flag(&self, name: &str) -> Result<bool> {
        Ok(self.optional_scalar(name)?.is_some_and(|s| !self.number(&s).is_zero()))
    }
    /// The integers `name`; a single one is a list of one. Decide the program if symbolic.
    pub fn ints(&self, name: &str) -> Result<Vec<i64>> {
        Ok(self.scalars(name)?.iter().map(|s| self.number(s).as_i64()).collect())
    }
    /// The integers `name`, unless it is `None`.
    pub fn optional_ints(&self, name: &str) -> Result<Option<Vec<i64>>> {
        if self.has(name) { self.ints(name).map(Some) } else { Ok(None) }
    }
    /// The extents `name`, none negative.
    pub fn sizes(&self, name: &str) -> Result<Shape> {
        let sizes = self.ints(name)?;
        let negative = sizes.iter().any(|&s| s < 0);
        ensure!(!negative, "Trying to create tensor with negative dimension: {sizes:?}");
        Ok(sizes.into_iter().map(|s| s as usize).collect())
    }
    /// The flags `name`.
    pub fn flags(&self, name: &str) -> Result<Vec<bool>> {
        Ok(self.scalars(name)?.iter().map(|s| !self.number(s).is_zero()).collect())
    }
    /// The string `name`, unless it is `None`.
    pub fn string(&self, name: &str) -> Result<Option<&str>> {
        match self.arg(name)? {
            Arg::Str(s) => Ok(Some(s)),
            Arg::None => Ok(None),
            _ => self.wrong(name, "a string"),
        }
    }
    /// The element type `name`, unless it is `None`.
    pub fn optional_dtype(&self, name: &str) -> Result<Option<DType>> {
        match self.arg(name)? {
            Arg::DType(d) => Ok(Some(*d)),
            Arg::None => Ok(None),
            _ => self.wrong(name, "a dtype"),
        }
    }
    /// The memory format `name`, unless it is `None`.
    pub fn memory_format(&self, name: &str) -> Result<Option<MemoryFormat>> {
        match self.arg(name)? {
            Arg::MemoryFormat(m) => Ok(Some(*m)),
            Arg::None => Ok(None),
            _ => self.wrong(name, "a memory format"),
        }
    }

    /// What integers become in ops that are defined on floats only.
    pub fn default_dtype(&self) -> DType {
        self.context.default_dtype.unwrap_or(DType::F32)
    }
    /// The bound of the results' extents that the rule asked for, once it is known: what it computed, or more. Of a
    /// negative one, which says that the call is wrong, just that.
    pub fn bound(&self) -> Option<i64> {
        self.context.bound
    }
    /// An integer of the call as `i64[]`, which decides nothing where the context relays.
    pub fn relayed(&self, b: &Builder, n: i64) -> Result<ValueId> {
        match usize::try_from(n) {
            Ok(n) if self.context.relaying => Ok(b.position_input(n)),
            _ => b.scalar(Number::Int(n), DType::I64),
        }
    }
    /// Precision for `f32` contractions.
    pub fn precision(&self) -> Precision {
        self.context.precision
    }

    /// `s` as a 0-d tensor of `dtype`; see [`Context::scalar_value`].
    pub fn scalar_value(&self, b: &Builder, s: &Scalar, dtype: DType) -> Result<ValueId> {
        self.context.scalar_value(b, s, dtype)
    }
}

impl Context {
    /// `s` as a 0-d tensor of `dtype`. A symbolic number becomes a hidden input, so that its value decides nothing.
    pub fn scalar_value(&self, b: &Builder, s: &Scalar, dtype: DType) -> Result<ValueId> {
        let sym = match s {
            Scalar::Known(n) => return b.scalar(*n, dtype),
            Scalar::Symbolic(sym) if self.closed => return b.scalar(self.symbols.consult(sym), dtype),
            Scalar::Symbolic(sym) => sym,
        };
        let mut inputs = self.symbol_inputs.borrow_mut();
        let input = *inputs.entry(sym.expr.clone()).or_insert_with(|| b.symbol_input(sym));
        b.convert(input, dtype)
    }
}
