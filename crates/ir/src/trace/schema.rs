//! The part of torch's export schema (`torch/_export/serde/schema.py`, version 8) that a program needs.
//!
//! A union is an object with exactly one key, which is how serde reads an enum.

use rustc_hash::FxHashMap;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::marker::PhantomData;

/// A version of the schema.
#[derive(Clone, Copy, Debug, Deserialize)]
#[allow(missing_docs)]
pub struct Version {
    pub major: i64,
    #[serde(default)]
    pub minor: i64,
}

/// Bounds of a symbol; `None` is unbounded.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[allow(missing_docs)]
pub struct Range {
    pub min_val: Option<i64>,
    pub max_val: Option<i64>,
}

/// A graph with its signature.
#[derive(Debug, Deserialize)]
#[allow(missing_docs)]
pub struct GraphModule {
    pub graph: Graph,
    pub signature: Option<Signature>,
}

/// Nodes in topological order, with the types of all values.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
#[allow(missing_docs)]
pub struct Graph {
    pub inputs: Vec<Argument>,
    pub outputs: Vec<Argument>,
    pub nodes: Vec<Node>,
    pub tensor_values: Named<TensorMeta>,
    pub sym_int_values: Named<SymInt>,
    pub sym_bool_values: Named<SymBool>,
    pub sym_float_values: Named<SymFloat>,
}

/// One call.
#[derive(Debug, Deserialize)]
#[allow(missing_docs)]
pub struct Node {
    pub target: String,
    pub inputs: Vec<NamedArgument>,
    pub outputs: Vec<Argument>,
    #[serde(default)]
    pub metadata: Metadata,
    #[serde(default)]
    pub name: Option<String>,
}

/// Where a node came from.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
#[allow(missing_docs)]
pub struct Metadata {
    pub stack_trace: Option<String>,
    pub nn_module_stack: Option<String>,
}

/// An argument under its schema name; without a name it is positional.
#[derive(Debug, Deserialize)]
#[allow(missing_docs)]
pub struct NamedArgument {
    #[serde(default)]
    pub name: String,
    pub arg: Argument,
}

/// A reference to a tensor value.
#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs)]
pub struct TensorName {
    pub name: String,
}

/// What a call takes or gives.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Argument {
    AsNone(bool),
    AsTensor(TensorName),
    AsTensors(Vec<TensorName>),
    AsInt(i64),
    AsInts(Vec<i64>),
    AsFloat(Float),
    AsFloats(Vec<Float>),
    AsString(String),
    AsStrings(Vec<String>),
    AsBool(bool),
    AsBools(Vec<bool>),
    AsSymInt(SymIntArgument),
    AsSymInts(Vec<SymIntArgument>),
    AsSymFloat(SymFloatArgument),
    AsSymFloats(Vec<SymFloatArgument>),
    AsSymBool(SymBoolArgument),
    AsSymBools(Vec<SymBoolArgument>),
    AsScalarType(i64),
    AsMemoryFormat(i64),
    AsLayout(i64),
    AsDevice(Device),
    AsOptionalTensor(OptionalTensor),
    AsOptionalTensors(Vec<OptionalTensor>),
    AsNestedTensors(Vec<Vec<TensorName>>),
    AsComplex(Complex),
    AsGraph(Box<GraphArgument>),
    AsOperator(String),
    AsCustomObj(CustomObject),
    AsIntLists(Vec<Vec<i64>>),
    AsFloatLists(Vec<Vec<Float>>),
    AsStringToArgument(Box<Named<Argument>>),
}

/// A tensor or nothing.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum OptionalTensor {
    AsTensor(TensorName),
    AsNone(bool),
}

macro_rules! symbolic_arguments {
    ($($(#[$doc:meta])* $name:ident { $($variant:ident($ty:ty)),+ })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[allow(missing_docs)]
        pub enum $name {
            AsName(String),
            $($variant($ty)),+
        }
    )*};
}
symbolic_arguments! {
    /// An integer, or the name of a symbolic one.
    SymIntArgument { AsInt(i64) }
    /// A float, or the name of a symbolic one. Lists of floats may hold integers.
    SymFloatArgument { AsFloat(Float), AsInt(i64) }
    /// A truth value, or the name of a symbolic one.
    SymBoolArgument { AsBool(bool) }
}

macro_rules! symbolic_values {
    ($($(#[$doc:meta])* $name:ident { $variant:ident($ty:ty) })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[allow(missing_docs)]
        pub enum $name {
            AsExpr(SymExpr),
            $variant($ty),
        }
    )*};
}
symbolic_values! {
    /// An integer, perhaps symbolic.
    SymInt { AsInt(i64) }
    /// A float, perhaps symbolic.
    SymFloat { AsFloat(Float) }
    /// A truth value, perhaps symbolic.
    SymBool { AsBool(bool) }
}

/// An expression over symbols; see [`crate::symbol::Expr`].
#[derive(Debug, Deserialize)]
#[allow(missing_docs)]
pub struct SymExpr {
    pub expr_str: String,
}

/// A device; the index does not matter here.
#[derive(Debug, Deserialize)]
#[allow(missing_docs)]
pub struct Device {
    #[serde(rename = "type")]
    pub kind: String,
}

/// A complex number.
#[derive(Clone, Copy, Debug, Deserialize)]
#[allow(missing_docs)]
pub struct Complex {
    pub real: Float,
    pub imag: Float,
}

/// A graph that a higher-order op takes.
#[derive(Debug, Deserialize)]
#[allow(missing_docs)]
pub struct GraphArgument {
    #[serde(default)]
    pub name: String,
    pub graph: Graph,
}

/// A TorchScript object; never supported, but named in the message.
#[derive(Debug, Deserialize)]
#[serde(default)]
#[derive(Default)]
#[allow(missing_docs)]
pub struct CustomObject {
    pub name: String,
    pub class_fqn: String,
}

/// The type of a tensor value. `dtype` and `layout` are [codes](super::codes).
#[derive(Debug, Deserialize)]
#[allow(missing_docs)]
pub struct TensorMeta {
    pub dtype: i64,
    pub sizes: Vec<SymInt>,
    #[serde(default)]
    pub strides: Vec<SymInt>,
    #[serde(default)]
    pub storage_offset: Option<SymInt>,
    #[serde(default)]
    pub layout: Option<i64>,
}

/// What the inputs and outputs of the graph stand for, by position.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
#[allow(missing_docs)]
pub struct Signature {
    pub input_specs: Vec<InputSpec>,
    pub output_specs: Vec<OutputSpec>,
}

/// What an input stands for.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum InputSpec {
    Parameter { arg: TensorName, parameter_name: String },
    Buffer { arg: TensorName, buffer_name: String },
    TensorConstant { arg: TensorName, tensor_constant_name: String },
    UserInput { arg: Argument },
    ConstantInput { name: String, value: Argument },
    CustomObj { arg: CustomObject },
    Token { arg: TensorName },
}

/// What an output stands for.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum OutputSpec {
    UserOutput { arg: Argument },
    LossOutput { arg: TensorName },
    BufferMutation { arg: TensorName, buffer_name: String },
    ParameterMutation { arg: TensorName, parameter_name: String },
    UserInputMutation { arg: TensorName, user_input_name: String },
    GradientToParameter { arg: TensorName, parameter_name: String },
    GradientToUserInput { arg: TensorName, user_input_name: String },
    Token { arg: TensorName },
}

/// Values by name. A name that stands twice is an error.
#[derive(Debug)]
pub struct Named<T>(pub FxHashMap<String, T>);

impl<T> Default for Named<T> {
    fn default() -> Named<T> {
        Named(FxHashMap::default())
    }
}

impl<T> Named<T> {
    /// The value called `name`.
    pub fn get(&self, name: &str) -> Option<&T> {
        self.0.get(name)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Named<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Named<T>, D::Error> {
        struct Entries<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Entries<T> {
            type Value = Named<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Named<T>, A::Error> {
                let mut entries = FxHashMap::default();
                while let Some((name, value)) = map.next_entry::<String, T>()? {
                    if entries.contains_key(&name) {
                        return Err(A::Error::custom(format!("`{name}` stands twice")));
                    }
                    entries.insert(name, value);
                }
                Ok(Named(entries))
            }
        }
        d.deserialize_map(Entries(PhantomData))
    }
}

/// A float; infinities and NaN are spelled `"Infinity"`, `"-Infinity"`, `"NaN"`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Float(pub f64);

impl<'de> Deserialize<'de> for Float {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Float, D::Error> {
        struct Number;
        impl Visitor<'_> for Number {
            type Value = Float;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, \"Infinity\", \"-Infinity\" or \"NaN\"")
            }
            fn visit_f64<E>(self, x: f64) -> Result<Float, E> {
                Ok(Float(x))
            }
            fn visit_i64<E>(self, x: i64) -> Result<Float, E> {
                Ok(Float(x as f64))
            }
            fn visit_u64<E>(self, x: u64) -> Result<Float, E> {
                Ok(Float(x as f64))
            }
            fn visit_str<E: serde::de::Error>(self, s: &str) -> Result<Float, E> {
                match s {
                    "Infinity" => Ok(Float(f64::INFINITY)),
                    "-Infinity" => Ok(Float(f64::NEG_INFINITY)),
                    "NaN" => Ok(Float(f64::NAN)),
                    other => Err(E::custom(format!("`{other}` is no number"))),
                }
            }
        }
        d.deserialize_any(Number)
    }
}

impl Argument {
    /// The names of all values in it, subgraphs not entered.
    pub fn for_each_name<'a>(&'a self, f: &mut dyn FnMut(&'a str)) {
        match self {
            Argument::AsTensor(t) => f(&t.name),
            Argument::AsTensors(ts) => ts.iter().for_each(|t| f(&t.name)),
            Argument::AsNestedTensors(lists) => lists.iter().flatten().for_each(|t| f(&t.name)),
            Argument::AsOptionalTensor(OptionalTensor::AsTensor(t)) => f(&t.name),
            Argument::AsOptionalTensors(ts) => ts.iter().for_each(|t| {
                if let OptionalTensor::AsTensor(t) = t {
                    f(&t.name);
                }
            }),
            Argument::AsSymInt(SymIntArgument::AsName(n))
            | Argument::AsSymFloat(SymFloatArgument::AsName(n))
            | Argument::AsSymBool(SymBoolArgument::AsName(n)) => f(n),
            Argument::AsSymInts(list) => list.iter().for_each(|a| {
                if let SymIntArgument::AsName(n) = a {
                    f(n);
                }
            }),
            Argument::AsSymFloats(list) => list.iter().for_each(|a| {
                if let SymFloatArgument::AsName(n) = a {
                    f(n);
                }
            }),
            Argument::AsSymBools(list) => list.iter().for_each(|a| {
                if let SymBoolArgument::AsName(n) = a {
                    f(n);
                }
            }),
            Argument::AsStringToArgument(map) => map.0.values().for_each(|a| a.for_each_name(f)),
            _ => {}
        }
    }

    /// Its key in the schema's union.
    pub fn variant(&self) -> &'static str {
        match self {
            Argument::AsNone(_) => "as_none",
            Argument::AsTensor(_) => "as_tensor",
            Argument::AsTensors(_) => "as_tensors",
            Argument::AsInt(_) => "as_int",
            Argument::AsInts(_) => "as_ints",
            Argument::AsFloat(_) => "as_float",
            Argument::AsFloats(_) => "as_floats",
            Argument::AsString(_) => "as_string",
            Argument::AsStrings(_) => "as_strings",
            Argument::AsBool(_) => "as_bool",
            Argument::AsBools(_) => "as_bools",
            Argument::AsSymInt(_) => "as_sym_int",
            Argument::AsSymInts(_) => "as_sym_ints",
            Argument::AsSymFloat(_) => "as_sym_float",
            Argument::AsSymFloats(_) => "as_sym_floats",
            Argument::AsSymBool(_) => "as_sym_bool",
            Argument::AsSymBools(_) => "as_sym_bools",
            Argument::AsScalarType(_) => "as_scalar_type",
            Argument::AsMemoryFormat(_) => "as_memory_format",
            Argument::AsLayout(_) => "as_layout",
            Argument::AsDevice(_) => "as_device",
            Argument::AsOptionalTensor(_) => "as_optional_tensor",
            Argument::AsOptionalTensors(_) => "as_optional_tensors",
            Argument::AsNestedTensors(_) => "as_nested_tensors",
            Argument::AsComplex(_) => "as_complex",
            Argument::AsGraph(_) => "as_graph",
            Argument::AsOperator(_) => "as_operator",
            Argument::AsCustomObj(_) => "as_custom_obj",
            Argument::AsIntLists(_) => "as_int_lists",
            Argument::AsFloatLists(_) => "as_float_lists",
            Argument::AsStringToArgument(_) => "as_string_to_argument",
        }
    }
}

impl Node {
    /// The op without the prefix `torch.ops.`: `aten.addmm.default`.
    pub fn op(&self) -> &str {
        self.target.strip_prefix("torch.ops.").unwrap_or(&self.target)
    }
}
