//! The notation of samples, and how it is fitted to a schema.

use crate::alias::{Layout, Strides};
use crate::dtype::DType;
use crate::error::Result;
use crate::literal::Number;
use crate::ops::defaults::{memory_format, quoted};
use crate::ops::schema::{ParamType, Schema, split_top};
use crate::ops::{MemoryFormat, Param};
use crate::types::TensorType;
use crate::{ensure, invalid};

/// An argument of a sample.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // the notation says it
pub enum SampleArg {
    None,
    Tensor(SampleTensor),
    Number(Number),
    Str(String),
    DType(DType),
    MemoryFormat(MemoryFormat),
    Device(String),
    Strided,
    List(Vec<SampleArg>),
}

/// A tensor of a sample.
#[derive(Clone, Debug, PartialEq)]
pub struct SampleTensor {
    /// Element type and extents.
    pub ty: TensorType,
    /// Where its elements lie.
    pub layout: Layout,
    /// What its elements are.
    pub values: Values,
}

/// What the elements of a sample tensor are.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Anything ordinary for the element type.
    Any,
    /// From the first up to, not including, the second.
    Range(f64, f64),
    /// These in turn.
    Listed(Vec<Number>),
}

/// The arguments of a sample in the schema's order; `None` for one that was left out and has a default.
///
/// # Errors
/// `Invalid` if `text` is not in the notation or does not fit `schema`.
pub fn bind(schema: &Schema, text: &str) -> Result<Vec<Option<SampleArg>>> {
    let mut bound: Vec<Option<SampleArg>> = vec![None; schema.args.len()];
    let mut positional = schema.args.iter().filter(|p| !p.keyword_only);
    for part in split_top(text) {
        let (param, value) = match keyword(part.trim()) {
            Some((name, value)) => (schema.args.iter().find(|p| p.name == name), value),
            None => (positional.next(), part.trim()),
        };
        let Some(param) = param else { invalid!("`{part}` stands for no argument of {}", schema.name) };
        let slot = schema.position(&param.name).unwrap_or(0);
        ensure!(bound[slot].is_none(), "argument `{}` is given twice", param.name);
        bound[slot] = Some(fit(param, param.parts(), value_of(value)?)?);
    }
    let missing = schema.args.iter().zip(&bound).find(|(p, b)| b.is_none() && p.default.is_none());
    ensure!(missing.is_none(), "argument `{}` is missing", missing.map_or("", |(p, _)| &p.name));
    Ok(bound)
}

fn keyword(text: &str) -> Option<(&str, &str)> {
    let (name, value) = text.split_once('=')?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.chars().all(is_name).then(|| (name, value.trim()))
}

/// `value` as the type wants it: whole numbers become floats, one number fills a fixed-length list.
fn fit(param: &Param, ty: ParamType<'_>, value: SampleArg) -> Result<SampleArg> {
    let none_allowed = ty.optional || ty.base == "Generator";
    match (ty.list, value) {
        (_, SampleArg::None) if none_allowed => Ok(SampleArg::None),
        (Some(_), SampleArg::List(items)) => {
            // The length in a schema only says what one number stands for.
            let element = ParamType { list: None, optional: ty.optional_elements, ..ty };
            items.into_iter().map(|i| fit(param, element, i)).collect::<Result<_>>().map(SampleArg::List)
        }
        (Some(Some(len)), single) => {
            let single = fit(param, ParamType { list: None, ..ty }, single)?;
            Ok(SampleArg::List(vec![single; len]))
        }
        (None, value) if !matches!(value, SampleArg::List(_)) => fit_single(param, ty.base, value),
        (_, value) => invalid!("argument `{}` is `{}`, not {value:?}", param.name, param.ty),
    }
}

fn fit_single(param: &Param, base: &str, value: SampleArg) -> Result<SampleArg> {
    use SampleArg as A;
    Ok(match (base, value) {
        ("float", A::Number(Number::Int(i))) => A::Number(Number::Float(i as f64)),
        ("int" | "SymInt", v @ A::Number(Number::Int(_)))
        | ("float", v @ A::Number(Number::Float(_)))
        | ("bool", v @ A::Number(Number::Bool(_)))
        | ("Scalar", v @ A::Number(_))
        | ("Tensor", v @ A::Tensor(_))
        | ("str", v @ A::Str(_))
        | ("ScalarType", v @ A::DType(_))
        | ("Device", v @ A::Device(_))
        | ("Layout", v @ A::Strided)
        | ("MemoryFormat", v @ A::MemoryFormat(_)) => v,
        (_, v) => invalid!("argument `{}` is `{}`, not {v:?}", param.name, param.ty),
    })
}

fn value_of(text: &str) -> Result<SampleArg> {
    let text = text.trim();
    if let Some(inner) = between(text, '[', ']') {
        return split_top(inner).into_iter().map(value_of).collect::<Result<_>>().map(SampleArg::List);
    }
    let word = match text {
        "none" => Some(SampleArg::None),
        "strided" => Some(SampleArg::Strided),
        _ => None,
    };
    let found = word
        .or_else(|| number(text).map(SampleArg::Number))
        .or_else(|| quoted(text).map(|s| SampleArg::Str(s.to_owned())))
        .or_else(|| memory_format(text).map(SampleArg::MemoryFormat))
        .or_else(|| text.parse().ok().map(SampleArg::DType))
        .or_else(|| text.strip_prefix("device(")?.strip_suffix(')').map(|d| SampleArg::Device(d.to_owned())));
    match found {
        Some(value) => Ok(value),
        None => tensor(text).map(SampleArg::Tensor),
    }
}

fn between(text: &str, open: char, close: char) -> Option<&str> {
    text.strip_prefix(open)?.strip_suffix(close)
}

fn number(text: &str) -> Option<Number> {
    match text {
        "true" => return Some(Number::Bool(true)),
        "false" => return Some(Number::Bool(false)),
        "inf" | "-inf" | "nan" => return text.parse().ok().map(Number::Float),
        _ => {}
    }
    if !text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c)) {
        return None;
    }
    if let Some(imaginary) = text.strip_suffix('j') {
        let split = imaginary.rfind(['+', '-']).filter(|&i| i > 0 && !imaginary[..i].ends_with('e'));
        let (re, im) = imaginary.split_at(split.unwrap_or(0));
        let re = if re.is_empty() { 0.0 } else { re.parse().ok()? };
        return Some(Number::Complex(re, im.parse().ok()?));
    }
    let whole = text.parse().ok().map(Number::Int);
    whole.or_else(|| text.parse().ok().map(Number::Float))
}

/// `f32[2,3]:[1,2]{0..5}`, strides and values optional.
fn tensor(text: &str) -> Result<SampleTensor> {
    let Some((dtype, rest)) = text.split_once('[') else { invalid!("`{text}` is no argument of a sample") };
    let Ok(dtype) = dtype.parse::<DType>() else { invalid!("`{text}` does not start with an element type") };
    let (sizes, rest) = extents(text, rest)?;
    let (layout, rest) = match rest.strip_prefix(":[") {
        None => (Layout::contiguous(sizes.clone()), rest),
        Some(strides) => {
            let (strides, rest) = extents(text, strides)?;
            ensure!(strides.len() == sizes.len(), "`{text}` has {} strides", strides.len());
            (Layout { sizes: sizes.clone(), strides, offset: 0 }, rest)
        }
    };
    Ok(SampleTensor { ty: TensorType { dtype, shape: sizes }, layout, values: values(text, rest)? })
}

fn extents<'a>(text: &str, rest: &'a str) -> Result<(Strides, &'a str)> {
    let Some((inner, rest)) = rest.split_once(']') else { invalid!("`{text}` lacks a bracket") };
    let extents: std::result::Result<Strides, _> = split_top(inner).iter().map(|d| d.trim().parse::<usize>()).collect();
    match extents {
        Ok(extents) => Ok((extents, rest)),
        Err(_) => invalid!("`{inner}` is no list of extents, in `{text}`"),
    }
}

fn values(text: &str, rest: &str) -> Result<Values> {
    if rest.is_empty() {
        return Ok(Values::Any);
    }
    let parsed = between(rest, '{', '}').and_then(|inner| match inner.split_once("..") {
        Some((low, high)) => Some(Values::Range(low.parse().ok()?, high.parse().ok()?)),
        None => split_top(inner).iter().map(|n| number(n.trim())).collect::<Option<_>>().map(Values::Listed),
    });
    match parsed {
        Some(Values::Range(low, high)) if low >= high => invalid!("the range of `{text}` is empty"),
        Some(Values::Listed(list)) if list.is_empty() => invalid!("`{text}` lists no values"),
        Some(values) => Ok(values),
        None => invalid!("`{rest}` says no values, in `{text}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(schema: &str, text: &str) -> Result<Vec<Option<SampleArg>>> {
        bind(&Schema::parse(&format!("aten::f({schema}) -> Tensor"))?, text)
    }

    fn only(schema: &str, text: &str) -> SampleArg {
        bound(schema, text).unwrap().remove(0).unwrap()
    }

    #[test]
    fn numbers_take_the_type_the_schema_wants() {
        let number = |schema, text| match only(schema, text) {
            SampleArg::Number(n) => n,
            other => panic!("{other:?}"),
        };
        assert_eq!(number("float p", "1"), Number::Float(1.0));
        assert_eq!(number("Scalar p", "1"), Number::Int(1));
        assert_eq!(number("Scalar p", "-1e-5"), Number::Float(-1e-5));
        assert_eq!(number("Scalar p", "-inf"), Number::Float(f64::NEG_INFINITY));
        assert_eq!(number("Scalar p", "1e-2+2j"), Number::Complex(0.01, 2.0));
        assert_eq!(number("Scalar p", "-2.5j"), Number::Complex(0.0, -2.5));
        assert!(bound("int dim", "1.5").is_err());
        assert!(bound("bool b", "1").is_err());
    }

    #[test]
    fn lists_and_options() {
        let two = SampleArg::List(vec![SampleArg::Number(Number::Int(3)); 2]);
        assert_eq!(only("int[2] stride", "3"), two);
        assert_eq!(only("int[2] stride", "[3, 3]"), two);
        assert!(matches!(only("int[2] stride", "[3, 3, 3]"), SampleArg::List(l) if l.len() == 3));
        assert_eq!(only("int[1]? dim", "none"), SampleArg::None);
        assert!(bound("int[1] dim", "none").is_err());
        let SampleArg::List(items) = only("Tensor?[] indices", "[none, i64[3]{0..4}]") else { panic!() };
        assert!(matches!(&items[..], [SampleArg::None, SampleArg::Tensor(_)]));
    }

    #[test]
    fn tensors_have_strides_and_values() {
        let SampleArg::Tensor(t) = only("Tensor x", "f16[2,3]:[1,2]{-1..1}") else { panic!() };
        assert_eq!(t.ty.to_string(), "f16[2,3]");
        assert_eq!(t.layout.strides[..], [1, 2]);
        assert_eq!(t.values, Values::Range(-1.0, 1.0));
        let SampleArg::Tensor(t) = only("Tensor x", "f32[]{nan, 2}") else { panic!() };
        assert!(matches!(&t.values, Values::Listed(l) if l.len() == 2));
    }

    #[test]
    fn keywords_and_words() {
        let schema = "Tensor a, *, ScalarType? dtype=None, Device? device=None, str mode='x', MemoryFormat? f=None";
        let args = bound(schema, "f32[2], dtype=f16, device=device(cpu), f=channels_last, mode='none'").unwrap();
        assert_eq!(args[1], Some(SampleArg::DType(DType::F16)));
        assert_eq!(args[2], Some(SampleArg::Device("cpu".into())));
        assert_eq!(args[3], Some(SampleArg::Str("none".into())));
        assert_eq!(args[4], Some(SampleArg::MemoryFormat(MemoryFormat::ChannelsLast)));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for (text, message) in [
            ("", "argument `a` is missing"),
            ("f32[2], f32[2]", "stands for no argument"),
            ("f32[2], a=f32[2]", "given twice"),
            ("f32[2", "lacks a bracket"),
            ("f33[2]", "does not start with an element type"),
            ("f32[x]", "no list of extents"),
            ("f32[2]{5..1}", "is empty"),
            ("f32[2]{a}", "says no values"),
        ] {
            let error = bound("Tensor a", text).unwrap_err();
            assert!(error.message().contains(message), "{text}: {error}");
        }
    }
}
