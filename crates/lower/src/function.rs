//! Elementwise functions: one StableHLO or CHLO op each, unless plugins have no such op for the type or it gives
//! something else than the core op means. Those are expanded here.

use crate::constant::{filled, zeros};
use crate::scope::{Instruction, Scope, V, internal};
use ir::{Binary, Comparison, DType, Number, Result, TensorType, Unary};
use smallvec::smallvec;

/// How much longer the error function of `f32` is made at its ends: 2^-22.
const STRETCH: f64 = 1.0 / (1 << 22) as f64;

impl<'c> Scope<'_, 'c> {
    /// `u` of `x`, which is a `ty`.
    pub(crate) fn unary(&self, u: Unary, x: V<'c>, ty: &TensorType, result: &TensorType) -> Result<V<'c>> {
        match u {
            // StableHLO has these two for signed integers only.
            Unary::Abs if ty.dtype.is_unsigned() => Ok(x),
            // XLA takes what `abs` gives for not negative, which the least integer stays.
            Unary::Abs if ty.dtype.is_int() => {
                let opposite = self.elementwise("stablehlo.negate", &[x], ty)?;
                self.elementwise("stablehlo.maximum", &[x, opposite], ty)
            }
            Unary::Sign if ty.dtype.is_unsigned() => {
                self.elementwise("stablehlo.minimum", &[x, self.full(Number::Int(1), ty)?], ty)
            }
            Unary::Erf if ty.dtype == DType::F32 => self.erf(x, ty),
            _ if is_f8(ty.dtype) && unary_name(u).starts_with("chlo.") => {
                self.in_f32(ty, &[x], |wide, x| self.elementwise(unary_name(u), x, wide))
            }
            _ => self.elementwise(unary_name(u), &[x], result),
        }
    }

    /// `b` of `x` and `y`, which are both a `ty`.
    pub(crate) fn binary(&self, b: Binary, x: V<'c>, y: V<'c>, ty: &TensorType, result: &TensorType) -> Result<V<'c>> {
        let narrow = ty.dtype.size() < DType::F32.size();
        match b {
            // XLA takes squares for not negative, also of integers, which wrap; a barrier hides that it is one.
            Binary::Multiply if ty.dtype.is_int() && x == y => {
                let hidden = self.elementwise("stablehlo.optimization_barrier", &[y], ty)?;
                self.elementwise("stablehlo.multiply", &[x, hidden], ty)
            }
            Binary::Power if ty.dtype.is_int() => self.int_power(x, y, ty),
            Binary::Zeta if narrow => self.in_f32(ty, &[x, y], |wide, x| self.zeta(x[0], x[1], wide)),
            Binary::Zeta => self.zeta(x, y, ty),
            _ => self.elementwise(binary_name(b), &[x, y], result),
        }
    }

    /// `x`, a `ty`, as `f8e4m3fn`, the type `result`. What lies beyond becomes its largest number, as in PyTorch; XLA makes it NaN,
    /// and now and then -0.
    pub(crate) fn saturated(&self, x: V<'c>, ty: &TensorType, result: &TensorType) -> Result<V<'c>> {
        let wide = TensorType { dtype: DType::F32, shape: ty.shape.clone() };
        let x = self.elementwise("stablehlo.convert", &[x], &wide)?;
        let most = result.dtype.largest();
        let [low, high] = [-most, most].map(|end| self.full(Number::Float(end), &wide));
        let within = self.elementwise("stablehlo.clamp", &[low?, x, high?], &wide)?;
        self.elementwise("stablehlo.convert", &[within], result)
    }

    /// The error function of `x`, `f32`. XLA's stops at 1 - 3 * 2^-24, by which GELU of -1000 would be -0.0001: so it is stretched
    /// by [`STRETCH`] towards its ends, and cut there. No predicate, which a TPU would keep for the backward pass.
    fn erf(&self, x: V<'c>, ty: &TensorType) -> Result<V<'c>> {
        let full = |x| self.full(Number::Float(x), ty);
        let y = self.elementwise("chlo.erf", &[x], ty)?;
        let excess = self.elementwise(
            "stablehlo.multiply",
            &[self.elementwise("stablehlo.multiply", &[y, y], ty)?, full(STRETCH)?],
            ty,
        )?;
        let stretch = self.elementwise("stablehlo.add", &[excess, full(1.0)?], ty)?;
        let y = self.elementwise("stablehlo.multiply", &[y, stretch], ty)?;
        self.elementwise("stablehlo.clamp", &[full(-1.0)?, y, full(1.0)?], ty)
    }

    /// The product of `x`, a `ty`, and `mask` as 1 and 0. XLA would make a product by such a conversion zero wherever `mask` is
    /// false, where it should be NaN for NaN and infinities, and -0 for what is negative.
    pub(crate) fn masked(&self, x: V<'c>, mask: V<'c>, ty: &TensorType) -> Result<V<'c>> {
        let nothing = self.elementwise("stablehlo.multiply", &[x, self.constant(&zeros(ty))?], ty)?;
        self.elementwise("stablehlo.select", &[mask, x, nothing], ty)
    }

    /// `f` of `args`, all converted from `ty` to `f32` and back.
    fn in_f32(
        &self,
        ty: &TensorType,
        args: &[V<'c>],
        f: impl FnOnce(&TensorType, &[V<'c>]) -> Result<V<'c>>,
    ) -> Result<V<'c>> {
        let wide = TensorType { dtype: DType::F32, shape: ty.shape.clone() };
        let widened = args.iter().map(|&a| self.elementwise("stablehlo.convert", &[a], &wide));
        let computed = f(&wide, &widened.collect::<Result<Vec<_>>>()?)?;
        self.elementwise("stablehlo.convert", &[computed], ty)
    }

    /// Hurwitz's zeta. Plugins give NaN at some of its poles, the integers `q <= 0`, and infinity at some `s < 1`.
    fn zeta(&self, s: V<'c>, q: V<'c>, ty: &TensorType) -> Result<V<'c>> {
        let within = self.zeta_between_poles(s, q, ty)?;
        let whole = self.compare(Comparison::Eq, ty, q, self.elementwise("stablehlo.floor", &[q], ty)?)?;
        let reflected = self.compare(Comparison::Le, ty, q, self.constant(&zeros(ty))?)?;
        let pole = self.elementwise("stablehlo.and", &[whole, reflected], &pred(ty))?;
        let infinity = self.full(Number::Float(f64::INFINITY), ty)?;
        let defined = self.elementwise("stablehlo.select", &[pole, infinity, within], ty)?;
        let below = self.compare(Comparison::Lt, ty, s, self.full(Number::Int(1), ty)?)?;
        let nan = self.full(Number::Float(f64::NAN), ty)?;
        self.elementwise("stablehlo.select", &[below, nan, defined], ty)
    }

    /// CHLO's sums nine terms before it estimates the rest, which is too few where `q` is far below 0. There, for whole
    /// `s`, the terms with a negative base are seen from the other side of 0.
    fn zeta_between_poles(&self, s: V<'c>, q: V<'c>, ty: &TensorType) -> Result<V<'c>> {
        let (zero, one) = (self.constant(&zeros(ty))?, self.full(Number::Int(1), ty)?);
        let apply = |op: &'static str, args: &[V<'c>]| self.elementwise(op, args, ty);
        let below = self.compare(Comparison::Lt, ty, q, zero)?;
        let rest = apply("stablehlo.subtract", &[q, apply("stablehlo.floor", &[q])?])?;
        let base = apply("stablehlo.select", &[below, rest, q])?;
        let above = self.zeta_of_positive(s, base, ty)?;
        // Not `1 - rest`: of a `q` close to 0 that has lost all its digits.
        let reflected = apply("stablehlo.subtract", &[apply("stablehlo.ceil", &[q])?, q])?;
        let first = apply("stablehlo.select", &[below, reflected, one])?;
        let last = apply("stablehlo.select", &[below, apply("stablehlo.subtract", &[one, q])?, one])?;
        let (first, last) = (self.zeta_of_positive(s, first, ty)?, self.zeta_of_positive(s, last, ty)?);
        let terms = apply("stablehlo.subtract", &[first, last])?;
        let parity = apply("stablehlo.remainder", &[s, self.full(Number::Int(2), ty)?])?;
        let even = self.compare(Comparison::Eq, ty, parity, zero)?;
        let signed = apply("stablehlo.select", &[even, terms, apply("stablehlo.negate", &[terms])?])?;
        let whole = self.compare(Comparison::Eq, ty, s, apply("stablehlo.floor", &[s])?)?;
        let nan = self.full(Number::Float(f64::NAN), ty)?;
        let both = apply("stablehlo.select", &[whole, apply("stablehlo.add", &[above, signed])?, nan])?;
        let pole = self.compare(Comparison::Eq, ty, s, one)?; // infinite on both sides of 0
        let both = apply("stablehlo.select", &[pole, above, both])?;
        apply("stablehlo.select", &[below, both, above])
    }

    /// Of `q > 0`. From some `s` on, where CHLO's is NaN, its first term is all that is left.
    fn zeta_of_positive(&self, s: V<'c>, q: V<'c>, ty: &TensorType) -> Result<V<'c>> {
        let apply = |op: &'static str, args: &[V<'c>]| self.elementwise(op, args, ty);
        let many = self.compare(Comparison::Gt, ty, s, self.full(Number::Int(1000), ty)?)?;
        let first = apply("stablehlo.power", &[q, apply("stablehlo.negate", &[s])?])?;
        apply("stablehlo.select", &[many, first, apply("chlo.zeta", &[s, q])?])
    }

    /// Wraps; a negative exponent leaves 0, but for the bases 1 and -1. By repeated squaring: plugins look at the low
    /// six bits of an exponent only.
    fn int_power(&self, x: V<'c>, y: V<'c>, ty: &TensorType) -> Result<V<'c>> {
        let one = self.full(Number::Int(1), ty)?;
        if ty.dtype.is_unsigned() {
            return self.squared_up(x, y, one, ty);
        }
        let power = self.squared_up(x, self.elementwise("stablehlo.abs", &[y], ty)?, one, ty)?;
        let zero = self.constant(&zeros(ty))?;
        let is_unit = |base| self.compare(Comparison::Eq, ty, x, base);
        let minus_one = self.full(Number::Int(-1), ty)?;
        let unit = self.elementwise("stablehlo.or", &[is_unit(one)?, is_unit(minus_one)?], &pred(ty))?;
        let negative = self.compare(Comparison::Lt, ty, y, zero)?;
        let fraction = self.elementwise("stablehlo.select", &[unit, power, zero], ty)?;
        self.elementwise("stablehlo.select", &[negative, fraction, power], ty)
    }

    /// `x` to the power of `y`, whose bits are taken as unsigned: as many rounds as the greatest exponent has bits.
    fn squared_up(&self, x: V<'c>, y: V<'c>, one: V<'c>, ty: &TensorType) -> Result<V<'c>> {
        let carried = [self.session.tensor(ty)?; 3];
        let any_left = self.region(&carried, |scope, args| {
            let [_, _, rest] = args else { return Err(internal("a power carries three values")) };
            let left = scope.compare(Comparison::Ne, ty, *rest, scope.constant(&zeros(ty))?)?;
            Ok(smallvec![scope.any(left, ty)?])
        })?;
        let round = self.region(&carried, |scope, args| {
            let [power, square, rest] = args else { return Err(internal("a power carries three values")) };
            let one = scope.full(Number::Int(1), ty)?;
            let bit = scope.elementwise("stablehlo.and", &[*rest, one], ty)?;
            let odd = scope.compare(Comparison::Eq, ty, bit, one)?;
            let product = scope.elementwise("stablehlo.multiply", &[*power, *square], ty)?;
            Ok(smallvec![
                scope.elementwise("stablehlo.select", &[odd, product, *power], ty)?,
                scope.elementwise("stablehlo.multiply", &[*square, *square], ty)?,
                scope.elementwise("stablehlo.shift_right_logical", &[*rest, one], ty)?,
            ])
        })?;
        let i = Instruction::new("stablehlo.while").operands(&[one, x, y]).region(any_left).region(round);
        let op = self.push(i, &carried)?;
        Ok(op.result(0).map_err(internal)?.into())
    }

    /// Whether any element of `x`, which has the extents of `ty`, holds: `bool[]`.
    fn any(&self, x: V<'c>, ty: &TensorType) -> Result<V<'c>> {
        let scalar = TensorType::new(DType::Bool, []);
        let or = self.scalar_region(&[DType::Bool; 2], |body, args| {
            Ok(smallvec![body.elementwise("stablehlo.or", args, &scalar)?])
        })?;
        let dims: Vec<usize> = (0..ty.rank()).collect();
        let i = Instruction::new("stablehlo.reduce")
            .operands(&[x, self.constant(&zeros(&scalar))?])
            .with("dimensions", self.session.indices(&dims)?)
            .region(or);
        self.single(i, &scalar)
    }

    fn full(&self, number: Number, ty: &TensorType) -> Result<V<'c>> {
        self.constant(&filled(number, ty))
    }
}

fn is_f8(dtype: DType) -> bool {
    matches!(dtype, DType::F8E4M3FN | DType::F8E5M2)
}

fn pred(ty: &TensorType) -> TensorType {
    TensorType { dtype: DType::Bool, shape: ty.shape.clone() }
}

fn unary_name(u: Unary) -> &'static str {
    match u {
        Unary::Abs => "stablehlo.abs",
        Unary::Acos => "chlo.acos",
        Unary::Acosh => "chlo.acosh",
        Unary::Asin => "chlo.asin",
        Unary::Asinh => "chlo.asinh",
        Unary::Atanh => "chlo.atanh",
        Unary::BesselI1e => "chlo.bessel_i1e",
        Unary::Cbrt => "stablehlo.cbrt",
        Unary::Ceil => "stablehlo.ceil",
        Unary::Cosh => "chlo.cosh",
        Unary::Cosine => "stablehlo.cosine",
        Unary::CountLeadingZeros => "stablehlo.count_leading_zeros",
        Unary::Digamma => "chlo.digamma",
        Unary::Erf => "chlo.erf",
        Unary::ErfInv => "chlo.erf_inv",
        Unary::Erfc => "chlo.erfc",
        Unary::Exponential => "stablehlo.exponential",
        Unary::ExponentialMinusOne => "stablehlo.exponential_minus_one",
        Unary::Floor => "stablehlo.floor",
        Unary::Imag => "stablehlo.imag",
        Unary::IsFinite => "stablehlo.is_finite",
        Unary::Lgamma => "chlo.lgamma",
        Unary::Log => "stablehlo.log",
        Unary::LogPlusOne => "stablehlo.log_plus_one",
        Unary::Logistic => "stablehlo.logistic",
        Unary::Negate => "stablehlo.negate",
        Unary::Not => "stablehlo.not",
        Unary::Popcnt => "stablehlo.popcnt",
        Unary::Real => "stablehlo.real",
        Unary::RoundNearestEven => "stablehlo.round_nearest_even",
        Unary::Rsqrt => "stablehlo.rsqrt",
        Unary::Sign => "stablehlo.sign",
        Unary::Sine => "stablehlo.sine",
        Unary::Sinh => "chlo.sinh",
        Unary::Sqrt => "stablehlo.sqrt",
        Unary::Tan => "stablehlo.tan",
        Unary::Tanh => "stablehlo.tanh",
    }
}

fn binary_name(b: Binary) -> &'static str {
    match b {
        Binary::Add => "stablehlo.add",
        Binary::And => "stablehlo.and",
        Binary::Atan2 => "stablehlo.atan2",
        Binary::Complex => "stablehlo.complex",
        Binary::Divide => "stablehlo.divide",
        Binary::Maximum => "stablehlo.maximum",
        Binary::Minimum => "stablehlo.minimum",
        Binary::Multiply => "stablehlo.multiply",
        Binary::NextAfter => "chlo.next_after",
        Binary::Or => "stablehlo.or",
        Binary::Power => "stablehlo.power",
        Binary::Remainder => "stablehlo.remainder",
        Binary::ShiftLeft => "stablehlo.shift_left",
        Binary::ShiftRightArithmetic => "stablehlo.shift_right_arithmetic",
        Binary::ShiftRightLogical => "stablehlo.shift_right_logical",
        Binary::Subtract => "stablehlo.subtract",
        Binary::Xor => "stablehlo.xor",
        Binary::Zeta => "chlo.zeta",
    }
}
