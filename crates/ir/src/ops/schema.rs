//! Operator schemas in PyTorch's own notation, `aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor`.

use crate::error::{Error, Result};

/// An operator's signature.
#[derive(Clone, Debug, PartialEq)]
pub struct Schema {
    /// Namespace and name with overload, `aten::add.Tensor`; an empty overload is spelled `default`.
    pub name: String,
    /// Arguments, in order.
    pub args: Vec<Param>,
    /// Types of the results, such as `Tensor` or `Tensor[]`.
    pub returns: Vec<String>,
}

/// One argument of a schema.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// Its name.
    pub name: String,
    /// Its type without alias marks, such as `Tensor?` or `int[2]`.
    pub ty: String,
    /// The default, as spelled; `None` if it must be given.
    pub default: Option<String>,
    /// Stands behind `*`.
    pub keyword_only: bool,
    /// Marked as written, `Tensor(a!)`.
    pub written: bool,
}

/// A parameter's type taken apart: `int[2]?` is an optional list of two `int`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParamType<'a> {
    /// The element's type, such as `Tensor` or `SymInt`.
    pub base: &'a str,
    /// Whether it is a list, and then its fixed length if the schema gives one.
    pub list: Option<Option<usize>>,
    /// Whether `None` may stand for all of it.
    pub optional: bool,
    /// Whether `None` may stand for an element, `Tensor?[]`.
    pub optional_elements: bool,
}

impl Param {
    /// The type taken apart.
    pub fn parts(&self) -> ParamType<'_> {
        let (rest, optional) = strip(&self.ty, '?');
        let Some((base, len)) = rest.strip_suffix(']').and_then(|r| r.rsplit_once('[')) else {
            return ParamType { base: rest, list: None, optional, optional_elements: false };
        };
        let (base, optional_elements) = strip(base, '?');
        ParamType { base, list: Some(len.parse().ok()), optional, optional_elements }
    }
}

fn strip(text: &str, mark: char) -> (&str, bool) {
    text.strip_suffix(mark).map_or((text, false), |rest| (rest, true))
}

impl Schema {
    /// Parses `text`.
    ///
    /// # Errors
    /// `Internal`: schemas are ours, so a bad one is a bug.
    pub fn parse(text: &str) -> Result<Schema> {
        let bad = || Error::internal(format!("bad schema `{text}`"));
        let (head, rest) = text.split_once('(').ok_or_else(bad)?;
        let (args, returns) = rest.rsplit_once(") -> ").ok_or_else(bad)?;
        let base = head.split_once("::").map_or(head, |(_, n)| n);
        let name = if base.contains('.') { head.to_owned() } else { format!("{head}.default") };
        let mut keyword_only = false;
        let mut params = vec![];
        for part in split_top(args) {
            match part.trim() {
                "" => {}
                "*" => keyword_only = true,
                arg => params.push(param(arg, keyword_only).ok_or_else(bad)?),
            }
        }
        let returns = returns.trim();
        let inner = returns.strip_prefix('(').and_then(|r| r.strip_suffix(')')).unwrap_or(returns);
        let returns = split_top(inner).iter().filter_map(|r| type_of(r.trim())).collect();
        Ok(Schema { name, args: params, returns })
    }

    /// Position of the argument called `name`.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.args.iter().position(|a| a.name == name)
    }
}

/// Splits at commas that stand in no brackets and no quotes.
pub(crate) fn split_top(text: &str) -> Vec<&str> {
    let (mut depth, mut from, mut parts, mut quoted) = (0i32, 0, vec![], false);
    for (i, c) in text.char_indices() {
        match c {
            '\'' => quoted = !quoted,
            _ if quoted => {}
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[from..i]);
                from = i + 1;
            }
            _ => {}
        }
    }
    if !text[from..].trim().is_empty() {
        parts.push(&text[from..]);
    }
    parts
}

fn param(text: &str, keyword_only: bool) -> Option<Param> {
    let (decl, default) = match text.split_once('=') {
        Some((d, v)) => (d.trim(), Some(v.trim().to_owned())),
        None => (text, None),
    };
    let (ty, name) = decl.rsplit_once(' ')?;
    let written = ty.contains('!');
    Some(Param { name: name.to_owned(), ty: type_of(ty)?, default, keyword_only, written })
}

/// The type without a result's name and without alias marks such as `(a!)`.
fn type_of(text: &str) -> Option<String> {
    let mut ty = text.split_whitespace().next()?.to_owned();
    while let Some(open) = ty.find('(') {
        let close = ty[open..].find(')')? + open;
        ty.replace_range(open..=close, "");
    }
    Some(ty)
}
