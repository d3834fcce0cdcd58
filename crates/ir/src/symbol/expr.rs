//! Expressions over symbols.

use crate::error::Result;
use crate::literal::Number;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// A number or truth value computed from symbols.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// A literal.
    Number(Number),
    /// A symbol.
    Symbol(Arc<str>),
    /// A function of expressions.
    Call(Func, Vec<Expr>),
}

macro_rules! functions {
    ($($name:ident),* $(,)?) => {
        /// What an expression computes, by SymPy's and PyTorch's names.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs)]
        pub enum Func { $($name),* }

        impl Func {
            /// The function of this name.
            pub fn named(name: &str) -> Option<Func> {
                match name {
                    $(stringify!($name) => Some(Func::$name),)*
                    _ => alias(name),
                }
            }
            /// Its name, as [`Expr::parse`] reads it.
            pub fn name(self) -> &'static str {
                match self {
                    $(Func::$name => stringify!($name)),*
                }
            }
        }
    };
}

functions!(
    Add,
    Mul,
    Pow,
    Max,
    Min,
    Abs,
    Rational,
    FloorDiv,
    CeilDiv,
    CleanDiv,
    Mod,
    PythonMod,
    ModularIndexing,
    Where,
    Piecewise,
    ExprCondPair,
    PowByNatural,
    FloatPow,
    FloatTrueDiv,
    IntTrueDiv,
    LShift,
    RShift,
    ToFloat,
    TruncToInt,
    TruncToFloat,
    FloorToInt,
    CeilToInt,
    RoundToInt,
    RoundDecimal,
    Identity,
    Sqrt,
    Exp,
    Log,
    Log2,
    Sin,
    Cos,
    Tan,
    Sinh,
    Cosh,
    Tanh,
    Asin,
    Acos,
    Atan,
    Asinh,
    BitAnd,
    BitOr,
    BitXor,
    GreaterThan,
    LessThan,
    StrictGreaterThan,
    StrictLessThan,
    Equality,
    Unequality,
    And,
    Or,
    Not,
);

/// Other spellings.
fn alias(name: &str) -> Option<Func> {
    Some(match name {
        "floor" => Func::FloorToInt,
        "ceiling" => Func::CeilToInt,
        "trunc" => Func::TruncToInt,
        "Eq" => Func::Equality,
        "Ne" => Func::Unequality,
        "Ge" => Func::GreaterThan,
        "Le" => Func::LessThan,
        "Gt" => Func::StrictGreaterThan,
        "Lt" => Func::StrictLessThan,
        "BitwiseFn_bitwise_and" => Func::BitAnd,
        "BitwiseFn_bitwise_or" => Func::BitOr,
        "BitwiseFn_bitwise_xor" => Func::BitXor,
        "Tuple" => Func::ExprCondPair,
        other => return of_a_float(other.strip_prefix("OpaqueUnaryFn_").unwrap_or(other)),
    })
}

/// Python's functions of one float, as `math` names them.
fn of_a_float(name: &str) -> Option<Func> {
    Some(match name {
        "sqrt" => Func::Sqrt,
        "exp" => Func::Exp,
        "log" => Func::Log,
        "log2" => Func::Log2,
        "sin" => Func::Sin,
        "cos" => Func::Cos,
        "tan" => Func::Tan,
        "sinh" => Func::Sinh,
        "cosh" => Func::Cosh,
        "tanh" => Func::Tanh,
        "asin" => Func::Asin,
        "acos" => Func::Acos,
        "atan" => Func::Atan,
        "asinh" => Func::Asinh,
        _ => return None,
    })
}

impl Expr {
    /// An integer.
    pub fn int(i: i64) -> Expr {
        Expr::Number(Number::Int(i))
    }

    /// Reads SymPy's `str` (`2*s0 + 1`, `s0//2`) or `srepr` (`Add(Mul(Integer(2), Symbol('s0')), Integer(1))`).
    ///
    /// # Errors
    /// `Invalid`, with the expression.
    pub fn parse(text: &str) -> Result<Expr> {
        super::parse::parse(text)
    }

    /// The value where `symbol` gives each symbol's.
    ///
    /// # Errors
    /// `Invalid` for an unknown symbol, overflow, a division by zero or an operand of the wrong kind.
    pub fn evaluate(&self, symbol: &dyn Fn(&str) -> Option<i64>) -> Result<Number> {
        super::evaluate::evaluate(self, symbol)
    }

    /// The symbols in it, sorted.
    pub fn free(&self) -> Arc<[Arc<str>]> {
        let mut found = BTreeSet::new();
        self.collect(&mut found);
        found.into_iter().collect()
    }

    fn collect(&self, found: &mut BTreeSet<Arc<str>>) {
        match self {
            Expr::Number(_) => {}
            Expr::Symbol(s) => {
                found.insert(s.clone());
            }
            Expr::Call(_, args) => args.iter().for_each(|a| a.collect(found)),
        }
    }

    /// The symbol and its value for which this equals `value`, if it is `a * symbol + b`. `None` for other forms, or if no
    /// integer does.
    pub fn solve(&self, value: i64) -> Option<(Arc<str>, i64)> {
        let (symbol, factor, rest) = self.linear()?;
        let symbol = symbol.filter(|_| factor != 0)?;
        let scaled = value.checked_sub(rest)?;
        (scaled % factor == 0).then(|| (symbol, scaled / factor))
    }

    /// The symbol that stands for this truth value, which is whether it is not 0.
    pub fn flag(&self) -> Option<Arc<str>> {
        let Expr::Call(Func::Unequality, sides) = self else { return None };
        match &sides[..] {
            [Expr::Symbol(s), Expr::Number(Number::Int(0))] => Some(s.clone()),
            _ => None,
        }
    }

    /// (symbol, factor, constant) of a linear form.
    fn linear(&self) -> Option<(Option<Arc<str>>, i64, i64)> {
        match self {
            Expr::Number(Number::Int(i)) => Some((None, 0, *i)),
            Expr::Number(_) => None,
            Expr::Symbol(s) => Some((Some(s.clone()), 1, 0)),
            Expr::Call(Func::Add, args) => args.iter().try_fold((None, 0i64, 0i64), |(symbol, factor, rest), arg| {
                let (s, f, r) = arg.linear()?;
                let one = match (symbol, s) {
                    (Some(a), Some(b)) if a != b => return None,
                    (a, b) => a.or(b),
                };
                Some((one, factor.checked_add(f)?, rest.checked_add(r)?))
            }),
            Expr::Call(Func::Mul, args) => args.iter().try_fold((None, 0i64, 1i64), |(symbol, factor, rest), arg| {
                let (s, f, r) = arg.linear()?;
                match (&symbol, &s) {
                    (Some(_), Some(_)) => None,
                    (Some(_), None) => Some((symbol, factor.checked_mul(r)?, rest.checked_mul(r)?)),
                    (None, _) => Some((s, f.checked_mul(rest)?, r.checked_mul(rest)?)),
                }
            }),
            Expr::Call(Func::Identity, args) => args.first()?.linear(),
            Expr::Call(..) => None,
        }
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expr::Number(Number::Bool(b)) => write!(f, "{b}"),
            Expr::Number(Number::Int(i)) => write!(f, "{i}"),
            Expr::Number(Number::Float(x) | Number::Complex(x, _)) => write!(f, "Float('{x:?}')"),
            Expr::Symbol(s) => f.write_str(s),
            Expr::Call(func, args) => {
                write!(f, "{}(", func.name())?;
                for (i, arg) in args.iter().enumerate() {
                    let comma = if i == 0 { "" } else { ", " };
                    write!(f, "{comma}{arg}")?;
                }
                f.write_str(")")
            }
        }
    }
}
