//! Functions of each element.

use crate::share::{cut, parts, sizes};
use std::ops::Range;

/// What an element takes, in multiplications.
const WORK: usize = 32;

/// Elements that parts begin at multiples of: vectors of any type.
const STEP: usize = 16;

/// A function of one operand, or of two, of which one may be a 0-d tensor, a number for all elements of the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // as `ir` names them
pub enum Function {
    Acos,
    Asin,
    Atanh,
    Cosine,
    Erf,
    Lgamma,
    LogPlusOne,
    Sine,
    Tan,
    Atan2,
    Power,
    /// Sign of the dividend.
    Remainder,
}

impl Function {
    /// What programs call: `stablehlo.custom_call @torchtpu.function(x)`, or of `(x, y)`.
    pub const TARGET: &str = "torchtpu.function";

    /// All of them, by their number.
    pub const ALL: [Function; 12] = [
        Function::Acos,
        Function::Asin,
        Function::Atanh,
        Function::Cosine,
        Function::Erf,
        Function::Lgamma,
        Function::LogPlusOne,
        Function::Sine,
        Function::Tan,
        Function::Atan2,
        Function::Power,
        Function::Remainder,
    ];

    /// How many operands it takes.
    pub fn operands(self) -> usize {
        match self {
            Function::Atan2 | Function::Power | Function::Remainder => 2,
            _ => 1,
        }
    }

    /// As [`Function::decode`] reads it.
    pub fn encode(self) -> Vec<i64> {
        vec![self as i64]
    }

    /// What [`Function::encode`] wrote; `None` if it did not write this.
    pub fn decode(numbers: &[i64]) -> Option<Function> {
        let [number] = sizes(numbers.as_array()?)?;
        Function::ALL.get(number).copied()
    }

    /// `elements` in parts that `threads` may take.
    pub fn parts(elements: usize, threads: usize) -> impl Iterator<Item = Range<usize>> {
        cut(elements, parts(elements.saturating_mul(WORK), threads), STEP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for function in Function::ALL {
            assert_eq!(Function::decode(&function.encode()), Some(function));
        }
        for wrong in [&[][..], &[-1], &[Function::ALL.len() as i64], &[0, 0]] {
            assert_eq!(Function::decode(wrong), None);
        }
    }

    #[test]
    fn parts_cover_all_once() {
        for (elements, threads) in [(0, 2), (1, 8), (100_000, 2), (1 << 20, 4), (12_345_678, 64)] {
            let parts: Vec<Range<usize>> = Function::parts(elements, threads).collect();
            let ends = parts.iter().try_fold(0, |at, part| (part.start == at).then_some(part.end));
            assert_eq!(ends, Some(elements));
            assert!(parts.len() <= 2 * threads);
        }
    }
}
