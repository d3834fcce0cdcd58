//! Defaults of schema arguments.

use super::call::{Arg, MemoryFormat, Scalar};
use super::schema::{Param, split_top};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::literal::Number;

/// What `param` is when the call leaves it out.
///
/// # Errors
/// `Invalid` if it has no default; `Internal` if the default is spelled in a way the table does not use.
pub fn parse_default(param: &Param) -> Result<Arg<'static>> {
    let Some(text) = param.default.as_deref() else {
        return Err(Error::invalid(format!("argument `{}` is missing", param.name)));
    };
    let parts = param.parts();
    let parsed = match parts.list {
        _ if text == "None" => Some(Arg::None),
        Some(len) => list(parts.base, text, len),
        None => single(parts.base, text),
    };
    let unknown = || Error::internal(format!("default `{text}` of `{} {}` is not understood", param.ty, param.name));
    parsed.ok_or_else(unknown)
}

fn list(base: &str, text: &str, len: Option<usize>) -> Option<Arg<'static>> {
    let Some(inner) = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')) else {
        // One number stands for each of a fixed-length list.
        return Some(Arg::Scalars(vec![Scalar::Known(number(base, text)?); len?]));
    };
    let items: Option<Vec<Scalar>> = split_top(inner).iter().map(|t| number(base, t).map(Scalar::Known)).collect();
    let items = items?;
    Some(if base == "Tensor" { Arg::Tensors(vec![]) } else { Arg::Scalars(items) })
}

fn single(base: &str, text: &str) -> Option<Arg<'static>> {
    match base {
        "int" | "SymInt" | "float" | "bool" | "Scalar" => number(base, text).map(|n| Arg::Scalar(Scalar::Known(n))),
        "str" => Some(Arg::Str(quoted(text)?.into())),
        "ScalarType" => dtype(text).map(Arg::DType),
        "MemoryFormat" => memory_format(text).map(Arg::MemoryFormat),
        "Layout" => (text == "strided").then_some(Arg::Strided),
        "Device" => Some(Arg::Device(quoted(text).unwrap_or(text).into())),
        _ => None,
    }
}

fn number(base: &str, text: &str) -> Option<Number> {
    let text = text.trim();
    match text {
        "True" | "true" => return Some(Number::Bool(true)),
        "False" | "false" => return Some(Number::Bool(false)),
        "Mean" => return Some(Number::Int(1)), // at::Reduction::Mean
        "Sum" => return Some(Number::Int(2)),
        _ => {}
    }
    match text.parse::<i64>() {
        Ok(i) if base != "float" => Some(Number::Int(i)),
        _ => text.parse().ok().map(Number::Float),
    }
}

/// The text between a pair of equal quotes.
pub(super) fn quoted(text: &str) -> Option<&str> {
    let inside = |q| text.strip_prefix(q).and_then(|t: &str| t.strip_suffix(q));
    inside('\'').or_else(|| inside('"'))
}

/// PyTorch's memory formats by their Python names.
pub(super) fn memory_format(text: &str) -> Option<MemoryFormat> {
    match text {
        "contiguous_format" => Some(MemoryFormat::Contiguous),
        "preserve_format" => Some(MemoryFormat::Preserve),
        "channels_last" => Some(MemoryFormat::ChannelsLast),
        "channels_last_3d" => Some(MemoryFormat::ChannelsLast3d),
        _ => None,
    }
}

fn dtype(text: &str) -> Option<DType> {
    match text {
        "long" => Some(DType::I64),
        "int" => Some(DType::I32),
        "float" => Some(DType::F32),
        "double" => Some(DType::F64),
        "bool" => Some(DType::Bool),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::Schema;

    fn default_of(declaration: &str) -> Result<Arg<'static>> {
        let schema = Schema::parse(&format!("aten::f({declaration}) -> Tensor"))?;
        parse_default(&schema.args[0])
    }

    #[test]
    fn every_spelling_of_the_schemas() {
        let numbers = |text: &str| match default_of(text) {
            Ok(Arg::Scalar(Scalar::Known(n))) => vec![n],
            Ok(Arg::Scalars(s)) => s.iter().filter_map(Scalar::known).collect(),
            _ => panic!("{text} gives no numbers"),
        };
        assert_eq!(numbers("int dim=-1"), [Number::Int(-1)]);
        assert_eq!(numbers("float p=1"), [Number::Float(1.0)]);
        assert_eq!(numbers("float eps=1e-05"), [Number::Float(1e-5)]);
        assert_eq!(numbers("Scalar alpha=1"), [Number::Int(1)]);
        assert_eq!(numbers("Scalar lower=0.125"), [Number::Float(0.125)]);
        assert_eq!(numbers("bool keepdim=False"), [Number::Bool(false)]);
        assert_eq!(numbers("int reduction=Mean"), [Number::Int(1)]);
        assert_eq!(numbers("SymInt[2] stride=1"), [Number::Int(1); 2]);
        assert_eq!(numbers("int[2] dims=[0,1]"), [Number::Int(0), Number::Int(1)]);
        assert_eq!(numbers("int[] dims=[]"), []);
        assert!(matches!(default_of("Tensor? weight=None"), Ok(Arg::None)));
        assert!(matches!(default_of("ScalarType dtype=long"), Ok(Arg::DType(DType::I64))));
        let format = default_of("MemoryFormat f=contiguous_format");
        assert!(matches!(format, Ok(Arg::MemoryFormat(MemoryFormat::Contiguous))));
        for mode in ["str mode='mean'", "str mode=\"mean\""] {
            assert!(matches!(default_of(mode), Ok(Arg::Str(s)) if &*s == "mean"));
        }
    }

    #[test]
    fn a_missing_argument_is_named() {
        let error = default_of("Tensor self").err().expect("no default");
        assert_eq!(error.message(), "argument `self` is missing");
    }
}
