//! What must hold of a call's numbers that decide nothing else of its program.

use super::{Call, Scalar};
use crate::error::Result;
use crate::literal::Number;
use crate::symbol::Sym;
use crate::{DType, ensure};
use smallvec::SmallVec;
use std::sync::Arc;

/// Of numbers, some of them symbolic: whoever runs a program again has to ask whether it holds for the numbers then.
#[derive(Clone)]
pub struct Condition {
    /// The numbers.
    pub of: Vec<Scalar>,
    holds: Arc<Predicate>,
}

type Predicate = dyn Fn(&[Number]) -> bool + Send + Sync;

impl Condition {
    /// Whether it holds for the numbers that `value` gives for symbolic ones, which it gets with their places among all.
    pub fn holds(&self, value: impl Fn(usize, &Sym) -> Number) -> bool {
        let number = |(place, s): (usize, &Scalar)| match s {
            Scalar::Known(n) => *n,
            Scalar::Symbolic(sym) => value(place, sym),
        };
        (self.holds)(&self.of.iter().enumerate().map(number).collect::<SmallVec<[Number; 2]>>())
    }
}

impl std::fmt::Debug for Condition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Condition").field("of", &self.of).finish_non_exhaustive()
    }
}

impl Call<'_> {
    /// Whether the numbers are as `holds` says. If they are, an eager program stands for such numbers only, without depending
    /// on them; a program of a trace stands for whatever comes after these.
    pub fn require(&self, of: &[&Scalar], holds: impl Fn(&[Number]) -> bool + Send + Sync + 'static) -> bool {
        let of: Vec<Scalar> = of.iter().map(|&s| s.clone()).collect();
        let condition = Condition { of, holds: Arc::new(holds) };
        let now = condition.holds(|_, sym| sym.value);
        if now && self.context.relaying && condition.of.iter().any(|s| matches!(s, Scalar::Symbolic(_))) {
            self.context.conditions.borrow_mut().push(condition);
        }
        now
    }

    /// As [`Call::require`] of one real number.
    pub fn requires(&self, of: &Scalar, holds: impl Fn(f64) -> bool + Send + Sync + 'static) -> bool {
        self.require(&[of], move |n| holds(n[0].as_f64()))
    }

    /// The number, if it is literal; a symbolic one only if `decides` says that a program for it is worth having, and where
    /// whoever runs programs again asks for conditions.
    pub fn decisive(&self, of: &Scalar, decides: impl Fn(f64) -> bool + Send + Sync + 'static) -> Option<Number> {
        match of {
            Scalar::Known(n) => Some(*n),
            Scalar::Symbolic(_) if !self.context.relaying || self.requires(of, move |n| !decides(n)) => None,
            Scalar::Symbolic(_) => Some(self.number(of)),
        }
    }

    /// Refuses what PyTorch's `Scalar::to` does: a number out of the range of `dtype`.
    pub fn require_fit(&self, number: &Scalar, dtype: DType) -> Result<()> {
        ensure!(
            self.require(&[number], move |n| fits(n[0], dtype)),
            "value cannot be converted to type {} without overflow",
            c_name(dtype)
        );
        Ok(())
    }
}

/// Whether a conversion to `dtype` keeps a number in range, as c10's `overflows` has it: infinities fit floats, everything
/// fits `bool`, and negative integers wrap in unsigned types.
fn fits(number: Number, dtype: DType) -> bool {
    if dtype == DType::Bool {
        return true;
    }
    match number {
        Number::Bool(_) => true,
        Number::Complex(re, im) if dtype.is_complex() => real_fits(re, dtype) && real_fits(im, dtype),
        Number::Complex(re, im) => im == 0.0 && real_fits(re, dtype),
        Number::Int(n) => match dtype.int_range() {
            Some((0, greatest)) => i128::from(n).abs() <= greatest,
            Some((least, greatest)) => (least..=greatest).contains(&i128::from(n)),
            None => real_fits(n as f64, dtype),
        },
        number => real_fits(number.as_f64(), dtype),
    }
}

fn real_fits(x: f64, dtype: DType) -> bool {
    if let Some((least, greatest)) = dtype.int_range() {
        return (least as f64..=greatest as f64).contains(&x);
    }
    let largest = dtype.largest();
    !x.is_finite() || (-largest..=largest).contains(&x)
}

/// The element type in the words of C++.
fn c_name(dtype: DType) -> &'static str {
    match dtype {
        DType::U8 => "uint8_t",
        DType::I8 => "int8_t",
        DType::I16 => "int16_t",
        DType::I64 => "int64_t",
        DType::U16 => "uint16_t",
        DType::U32 => "uint32_t",
        DType::U64 => "uint64_t",
        other => super::support::cpp_type(other),
    }
}

#[cfg(test)]
mod tests {
    use super::fits;
    use crate::DType::*;
    use crate::Number::{Complex, Float, Int};

    #[test]
    fn numbers_fit_as_in_pytorch() {
        for (number, dtype, fit) in [
            (Int(300), U8, false),
            (Int(-3), U8, true),
            (Int(-300), U8, false),
            (Int(-128), I8, true),
            (Int(-129), I8, false),
            (Int(i64::MAX), I64, true),
            (Int(i64::MIN), I64, true),
            (Int(-1), U64, true),
            (Int(5), Bool, true),
            (Float(1.5), U8, true),
            (Float(-1.5), U8, false),
            (Float(f64::NAN), I32, false),
            (Float(f64::INFINITY), I32, false),
            (Float(1e30), I64, false),
            (Float(1e6), F16, false),
            (Float(65504.0), F16, true),
            (Float(f64::INFINITY), F16, true),
            (Float(f64::NAN), F16, true),
            (Float(3.4e38), BF16, false),
            (Float(f64::from(f32::MIN)), F32, true),
            (Float(1e300), F32, false),
            (Float(1e300), F64, true),
            (Float(1e300), C64, false),
            (Float(1000.0), F8E4M3FN, false),
            (Complex(1.0, 2.0), F32, false),
            (Complex(1.0, 0.0), F32, true),
            (Complex(1e300, 0.0), C64, false),
            (Complex(1.0, 1.0), Bool, true),
        ] {
            assert_eq!(fits(number, dtype), fit, "{number:?} as {dtype:?}");
        }
    }
}
