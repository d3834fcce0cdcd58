//! Formulas in ordinary notation: `formula(b, [x], |[x]| x * 0.5 * ((x * FRAC_1_SQRT_2).erf() + 1.0))`.
//!
//! Operands have one type and shape; a number stands for a constant of that type. The first error stops the formula.

use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::graph::ValueId;
use crate::literal::Number;
use crate::op::{Binary, Comparison, Unary};
use std::cell::RefCell;
use std::ops;

struct Scope<'b> {
    b: &'b Builder,
    error: RefCell<Option<Error>>,
}

/// A value inside a [`formula`].
#[derive(Clone, Copy)]
pub struct Expr<'e> {
    scope: &'e Scope<'e>,
    v: ValueId,
}

/// What may stand beside an [`Expr`]: another one, or a number.
pub trait Term<'e> {
    /// As an expression of the type of `like`.
    fn beside(self, like: Expr<'e>) -> Expr<'e>;
}

impl<'e> Term<'e> for Expr<'e> {
    fn beside(self, _: Expr<'e>) -> Expr<'e> {
        self
    }
}

impl<'e> Term<'e> for Number {
    fn beside(self, like: Expr<'e>) -> Expr<'e> {
        like.push(like.scope.b.full_like(like.v, self))
    }
}

impl<'e> Term<'e> for f64 {
    fn beside(self, like: Expr<'e>) -> Expr<'e> {
        Number::Float(self).beside(like)
    }
}

/// The value of `f` on `operands`, computed in their own type.
pub fn formula<const N: usize>(
    b: &Builder,
    operands: [ValueId; N],
    f: impl for<'e> FnOnce([Expr<'e>; N]) -> Expr<'e>,
) -> Result<ValueId> {
    let scope = Scope { b, error: RefCell::default() };
    let v = f(operands.map(|v| Expr { scope: &scope, v })).v;
    match scope.error.into_inner() {
        Some(error) => Err(error),
        None => Ok(v),
    }
}

/// The value of `f` on `operands` of one type, computed in their accumulation type (`f32` for 8- and 16-bit floats) and
/// rounded once. A result of another kind, such as `bool`, keeps its own type.
pub fn wide_formula<const N: usize>(
    b: &Builder,
    operands: [ValueId; N],
    f: impl for<'e> FnOnce([Expr<'e>; N]) -> Expr<'e>,
) -> Result<ValueId> {
    let Some(&first) = operands.first() else { return Err(Error::internal("a formula without operands")) };
    let dtype = b.dtype(first);
    let mut wide = operands;
    for v in &mut wide {
        *v = b.convert(*v, dtype.accumulator())?;
    }
    let v = formula(b, wide, f)?;
    if b.dtype(v) == dtype.accumulator() { b.convert(v, dtype) } else { Ok(v) }
}

macro_rules! unary_methods {
    ($($name:ident: $op:ident),* $(,)?) => {
        /// Core ops of one operand.
        #[allow(missing_docs)]
        impl<'e> Expr<'e> {
            $(pub fn $name(self) -> Expr<'e> { self.unary(Unary::$op) })*
        }
    };
}

unary_methods! {
    abs: Abs, acos: Acos, acosh: Acosh, asin: Asin, asinh: Asinh, atanh: Atanh, bessel_i1e: BesselI1e, ceil: Ceil,
    cos: Cosine, cosh: Cosh, count_leading_zeros: CountLeadingZeros, digamma: Digamma, erf: Erf, erf_inv: ErfInv, erfc: Erfc, exp: Exponential,
    exp_m1: ExponentialMinusOne, floor: Floor, imag: Imag, is_finite: IsFinite, lgamma: Lgamma, ln: Log,
    ln_1p: LogPlusOne, logistic: Logistic, real: Real, round_nearest_even: RoundNearestEven, rsqrt: Rsqrt, sign: Sign,
    sin: Sine, sinh: Sinh, sqrt: Sqrt, tan: Tan, tanh: Tanh,
}

macro_rules! binary_methods {
    ($($name:ident: $op:ident),* $(,)?) => {
        /// Core ops of two operands.
        #[allow(missing_docs)]
        impl<'e> Expr<'e> {
            $(pub fn $name(self, other: impl Term<'e>) -> Expr<'e> { self.binary(Binary::$op, other.beside(self)) })*
        }
    };
}

binary_methods! {
    atan2: Atan2, complex: Complex, fmod: Remainder, max: Maximum, min: Minimum, pow: Power,
    shift_left: ShiftLeft, shift_right_logical: ShiftRightLogical, zeta: Zeta,
}

macro_rules! comparison_methods {
    ($($name:ident: $op:ident),* $(,)?) => {
        /// Comparisons, to `bool`.
        #[allow(missing_docs)]
        impl<'e> Expr<'e> {
            $(pub fn $name(self, other: impl Term<'e>) -> Expr<'e> {
                let other = other.beside(self);
                self.push(self.scope.b.compare(Comparison::$op, self.v, other.v))
            })*
        }
    };
}

comparison_methods! { equals: Eq, differs: Ne, less: Lt, at_most: Le, greater: Gt, at_least: Ge }

impl<'e> Expr<'e> {
    /// A value of the builder that `beside` belongs to.
    pub fn of(v: ValueId, beside: Expr<'e>) -> Expr<'e> {
        Expr { scope: beside.scope, v }
    }
    fn push(self, v: Result<ValueId>) -> Expr<'e> {
        let fail = |error| {
            self.scope.error.borrow_mut().get_or_insert(error);
            self.v
        };
        Expr { scope: self.scope, v: v.unwrap_or_else(fail) }
    }
    /// A core op of one operand.
    pub fn unary(self, op: Unary) -> Expr<'e> {
        self.push(self.scope.b.unary(op, self.v))
    }
    /// A core op of two operands.
    pub fn binary(self, op: Binary, other: Expr<'e>) -> Expr<'e> {
        self.push(self.scope.b.binary(op, self.v, other.v))
    }
    /// `number` in this value's type and shape.
    pub fn constant(self, number: impl Term<'e>) -> Expr<'e> {
        number.beside(self)
    }
    /// Its element type.
    pub fn dtype(self) -> DType {
        self.scope.b.dtype(self.v)
    }
    /// Converted to `dtype`.
    pub fn convert(self, dtype: DType) -> Expr<'e> {
        self.push(self.scope.b.convert(self.v, dtype))
    }
    /// `on_true` where this `bool` holds, else `on_false`.
    pub fn select(self, on_true: Expr<'e>, on_false: impl Term<'e>) -> Expr<'e> {
        let on_false = on_false.beside(on_true);
        self.push(self.scope.b.select(self.v, on_true.v, on_false.v))
    }
    /// Whether it is NaN, in any part.
    pub fn is_nan(self) -> Expr<'e> {
        self.differs(self)
    }
    /// Whether it is an infinity.
    pub fn is_inf(self) -> Expr<'e> {
        self.abs().equals(f64::INFINITY)
    }
    /// Whether the sign bit of this float is set.
    pub fn sign_bit(self) -> Expr<'e> {
        let bits = match self.dtype().size() {
            2 => DType::I16,
            4 => DType::I32,
            8 => DType::I64,
            _ => DType::I8,
        };
        let is_set = self.bitcast(bits).less(0.0);
        // LLVM before 23 takes the highest bit of an integer that it has made bf16 for 0 (llvm/llvm-project#189129).
        if self.dtype() == DType::BF16 { is_set | self.less(0.0) } else { is_set }
    }
    /// Its bits as `dtype`, of the same size.
    pub fn bitcast(self, dtype: DType) -> Expr<'e> {
        self.push(self.scope.b.bitcast_convert(self.v, dtype))
    }
    /// Its magnitude with the sign of `other`.
    pub fn copysign(self, other: Expr<'e>) -> Expr<'e> {
        other.sign_bit().select(-self.abs(), self.abs())
    }
    /// Rounded towards zero.
    pub fn trunc(self) -> Expr<'e> {
        self.less(0.0).select(self.ceil(), self.floor())
    }
}

impl<'e> ops::Neg for Expr<'e> {
    type Output = Expr<'e>;
    fn neg(self) -> Expr<'e> {
        self.unary(Unary::Negate)
    }
}

macro_rules! operators {
    ($($trait:ident $method:ident $op:ident),* $(,)?) => {$(
        impl<'e, T: Term<'e>> ops::$trait<T> for Expr<'e> {
            type Output = Expr<'e>;
            fn $method(self, other: T) -> Expr<'e> {
                self.binary(Binary::$op, other.beside(self))
            }
        }
        impl<'e> ops::$trait<Expr<'e>> for f64 {
            type Output = Expr<'e>;
            fn $method(self, other: Expr<'e>) -> Expr<'e> {
                self.beside(other).binary(Binary::$op, other)
            }
        }
    )*};
}

operators! {
    Add add Add, Sub sub Subtract, Mul mul Multiply, Div div Divide, BitAnd bitand And, BitOr bitor Or,
    BitXor bitxor Xor,
}
impl<'e> ops::Not for Expr<'e> {
    type Output = Expr<'e>;
    fn not(self) -> Expr<'e> {
        self.unary(Unary::Not)
    }
}
