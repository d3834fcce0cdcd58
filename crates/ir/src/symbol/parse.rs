//! A parser for SymPy's notations: calls, and infix operators with Python's precedences.

use super::expr::{Expr, Func};
use crate::error::{Error, Result};
use crate::literal::Number;

/// Nesting beyond which an expression is refused.
const MAX_DEPTH: usize = 64;
/// Operators beyond which an expression is refused, of those whose chains nest, such as `a // b // c`.
const MAX_NESTING: usize = 1024;
/// Length in bytes beyond which an expression is refused.
const MAX_LENGTH: usize = 1 << 16;

pub(super) fn parse(text: &str) -> Result<Expr> {
    let fault = |what: &str| Error::invalid(format!("bad expression `{}`: {what}", shorten(text)));
    if text.len() > MAX_LENGTH {
        return Err(fault("it is too long"));
    }
    let mut p = Parser { text, at: 0, depth: 0, nesting: 0 };
    let expr = p.binary(0).map_err(|what| fault(&what))?;
    p.space();
    if p.at < text.len() { Err(fault(&format!("unexpected text at byte {}", p.at))) } else { Ok(expr) }
}

fn shorten(text: &str) -> String {
    if text.chars().count() <= 80 { text.to_owned() } else { text.chars().take(80).chain("...".chars()).collect() }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    /// Operators met whose chains nest.
    nesting: usize,
}

type Parsed<T = Expr> = std::result::Result<T, String>;

/// Binary operators by rising precedence; those of one row bind alike. Longer spellings stand first.
const OPERATORS: [&[&str]; 6] =
    [&["|"], &["&"], &["==", "!=", "<=", ">=", "<", ">"], &["+", "-"], &["*", "//", "/", "%"], &["**"]];
const POWER: usize = 5;

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn space(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn eat(&mut self, token: &str) -> bool {
        self.space();
        let found = self.rest().starts_with(token);
        self.at += if found { token.len() } else { 0 };
        found
    }

    fn expect(&mut self, token: &str) -> Parsed<()> {
        if self.eat(token) { Ok(()) } else { Err(format!("`{token}` expected at byte {}", self.at)) }
    }

    fn operator(&mut self, level: usize) -> Option<&'static str> {
        self.space();
        let rest = self.rest();
        let found = OPERATORS[level].iter().find(|op| rest.starts_with(**op))?;
        // `*` is not the start of `**`.
        if *found == "*" && rest.starts_with("**") {
            return None;
        }
        self.at += found.len();
        Some(found)
    }

    fn binary(&mut self, level: usize) -> Parsed {
        self.depth += 1;
        if self.depth > MAX_DEPTH * OPERATORS.len() {
            return Err("it is nested too deeply".to_owned());
        }
        let result = self.binary_inner(level);
        self.depth -= 1;
        result
    }

    fn binary_inner(&mut self, level: usize) -> Parsed {
        if level == POWER {
            let base = self.unary()?;
            return match self.operator(POWER) {
                // Binds to the right, and tighter than a sign before it only on its left.
                Some(_) => Ok(Expr::Call(Func::Pow, vec![base, self.binary(POWER)?])),
                None => Ok(base),
            };
        }
        if level == POWER - 1 && self.eat("-") {
            let operand = self.binary(POWER)?;
            return self.chain(level, negate(operand));
        }
        let first = self.binary(level + 1)?;
        self.chain(level, first)
    }

    fn chain(&mut self, level: usize, first: Expr) -> Parsed {
        let mut left = first;
        while let Some(op) = self.operator(level) {
            let right = if level + 1 == POWER { self.signed_power()? } else { self.binary(level + 1)? };
            left = self.apply(op, left, right)?;
        }
        Ok(left)
    }

    /// `left op right`, where `left` may have come by the same operator.
    fn apply(&mut self, op: &str, left: Expr, right: Expr) -> Parsed {
        let func = match op {
            "+" => return Ok(joined(Func::Add, left, right)),
            "-" => return Ok(joined(Func::Add, left, negate(right))),
            "*" => return Ok(joined(Func::Mul, left, right)),
            "&" => return Ok(joined(Func::And, left, right)),
            "|" => return Ok(joined(Func::Or, left, right)),
            "//" => Func::FloorDiv,
            "/" => Func::Rational,
            "%" => Func::PythonMod,
            "==" => Func::Equality,
            "!=" => Func::Unequality,
            "<=" => Func::LessThan,
            ">=" => Func::GreaterThan,
            "<" => Func::StrictLessThan,
            _ => Func::StrictGreaterThan,
        };
        self.nesting += 1;
        let is_deep = self.nesting > MAX_NESTING;
        if is_deep { Err("it is nested too deeply".to_owned()) } else { Ok(Expr::Call(func, vec![left, right])) }
    }

    fn signed_power(&mut self) -> Parsed {
        if self.eat("-") { Ok(negate(self.binary(POWER)?)) } else { self.binary(POWER) }
    }

    fn unary(&mut self) -> Parsed {
        if self.eat("~") {
            return Ok(Expr::Call(Func::Not, vec![self.binary(POWER)?]));
        }
        if self.eat("-") {
            return Ok(negate(self.binary(POWER)?));
        }
        self.primary()
    }

    fn primary(&mut self) -> Parsed {
        self.space();
        match self.rest().chars().next() {
            Some('(') => self.parenthesised(),
            Some(c) if c.is_ascii_digit() || c == '.' => self.number(),
            Some(c) if c.is_alphabetic() || c == '_' => self.named(),
            Some(c) => Err(format!("unexpected `{c}` at byte {}", self.at)),
            None => Err("it ends too early".to_owned()),
        }
    }

    /// A group, or the pair of a piecewise function.
    fn parenthesised(&mut self) -> Parsed {
        self.expect("(")?;
        let mut parts = self.arguments(")")?;
        match parts.len() {
            1 => Ok(parts.remove(0)),
            _ => Ok(Expr::Call(Func::ExprCondPair, parts)),
        }
    }

    /// Arguments up to `close`; keyword arguments (assumptions, precisions) are skipped.
    fn arguments(&mut self, close: &str) -> Parsed<Vec<Expr>> {
        let mut args = vec![];
        while !self.eat(close) {
            if !self.keyword() {
                args.push(self.binary(0)?);
            }
            if !self.eat(",") {
                self.expect(close)?;
                break;
            }
        }
        Ok(args)
    }

    /// Skips `name=word`.
    fn keyword(&mut self) -> bool {
        self.space();
        let rest = self.rest();
        let name = word(rest);
        let Some(value) = rest[name.len()..].strip_prefix('=').filter(|v| !v.starts_with('=')) else { return false };
        if name.is_empty() {
            return false;
        }
        self.at += name.len() + 1 + word(value).len();
        true
    }

    fn number(&mut self) -> Parsed {
        let rest = self.rest();
        let digits = |from: usize| rest[from..].bytes().take_while(u8::is_ascii_digit).count();
        let mut end = digits(0);
        let whole = end;
        if rest[end..].starts_with('.') {
            end += 1 + digits(end + 1);
        }
        if rest[end..].starts_with(['e', 'E']) {
            let sign = usize::from(rest[end + 1..].starts_with(['+', '-']));
            let exponent = digits(end + 1 + sign);
            end += if exponent > 0 { 1 + sign + exponent } else { 0 };
        }
        self.at += end;
        let text = &rest[..end];
        let number = if end == whole {
            text.parse().map(Number::Int).map_err(|_| format!("{text} does not fit 64 bits"))?
        } else {
            text.parse().map(Number::Float).map_err(|_| format!("`{text}` is no number"))?
        };
        Ok(Expr::Number(number))
    }

    /// A symbol, a constant, or a call.
    fn named(&mut self) -> Parsed {
        let name = word(self.rest());
        self.at += name.len();
        if !self.eat("(") {
            return Ok(match name {
                "true" | "True" => Expr::Number(Number::Bool(true)),
                "false" | "False" => Expr::Number(Number::Bool(false)),
                "oo" | "int_oo" => Expr::int(i64::MAX),
                _ => Expr::Symbol(name.into()),
            });
        }
        match name {
            "Symbol" | "Dummy" => {
                let symbol = self.quoted()?;
                self.arguments_after_first()?;
                Ok(Expr::Symbol(symbol.into()))
            }
            "Float" => {
                let text = self.quoted()?;
                self.arguments_after_first()?;
                text.parse().map(|x| Expr::Number(Number::Float(x))).map_err(|_| format!("`{text}` is no number"))
            }
            "Integer" => match &self.arguments(")")?[..] {
                [Expr::Number(n)] => Ok(Expr::Number(*n)),
                [negated] => Ok(negated.clone()),
                _ => Err("Integer takes one number".to_owned()),
            },
            _ => match Func::named(name) {
                Some(func) => Ok(Expr::Call(func, self.arguments(")")?)),
                None => Err(format!("unknown function `{name}`")),
            },
        }
    }

    fn quoted(&mut self) -> Parsed<&'a str> {
        self.space();
        let quote = self.rest().chars().next().filter(|c| matches!(c, '\'' | '"'));
        let Some(quote) = quote else { return Err(format!("a quoted name expected at byte {}", self.at)) };
        let inner = &self.rest()[1..];
        let Some(end) = inner.find(quote) else { return Err("a quote is not closed".to_owned()) };
        self.at += end + 2;
        Ok(&inner[..end])
    }

    fn arguments_after_first(&mut self) -> Parsed<()> {
        if self.eat(",") { self.arguments(")").map(|_| ()) } else { self.expect(")") }
    }
}

/// The identifier at the start of `text`.
fn word(text: &str) -> &str {
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len());
    &text[..end]
}

fn negate(e: Expr) -> Expr {
    match e {
        Expr::Number(Number::Int(i)) => Expr::int(i.wrapping_neg()),
        Expr::Number(Number::Float(x)) => Expr::Number(Number::Float(-x)),
        other => Expr::Call(Func::Mul, vec![Expr::int(-1), other]),
    }
}

/// One call for a whole chain, which does not nest then.
fn joined(func: Func, left: Expr, right: Expr) -> Expr {
    match left {
        Expr::Call(own, mut args) if own == func => {
            args.push(right);
            Expr::Call(func, args)
        }
        left => Expr::Call(func, vec![left, right]),
    }
}
