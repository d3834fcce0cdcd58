//! Two numbers combined, as scans and scatters do.

use hostcall::Combines;

/// A type of numbers.
pub(super) trait Number: Copy + Sync + 'static {
    /// What changes nothing it is combined with.
    fn neutral(of: Combines) -> Self;
    /// Integers wrap.
    fn sum(self, other: Self) -> Self;
    /// Likewise.
    fn product(self, other: Self) -> Self;
    /// NaN, if either is. Of two zeros, the positive one.
    fn greater(self, other: Self) -> Self;
    /// NaN, if either is. Of two zeros, the negative one.
    fn lesser(self, other: Self) -> Self;
}

macro_rules! floats {
    ($T:ident) => {
        impl Number for $T {
            fn neutral(of: Combines) -> $T {
                match of {
                    Combines::Sum => 0.0,
                    Combines::Product => 1.0,
                    Combines::Greatest => $T::NEG_INFINITY,
                    Combines::Least => $T::INFINITY,
                }
            }
            #[inline(always)]
            fn sum(self, other: $T) -> $T {
                self + other
            }
            #[inline(always)]
            fn product(self, other: $T) -> $T {
                self * other
            }
            // Choices without branches, which vectors take. Equal numbers have the same bits, but for zeros.
            #[inline(always)]
            fn greater(self, other: $T) -> $T {
                let same = $T::from_bits(self.to_bits() & other.to_bits());
                let greater = if other > self || other.is_nan() { other } else { self };
                if self == other { same } else { greater }
            }
            #[inline(always)]
            fn lesser(self, other: $T) -> $T {
                let same = $T::from_bits(self.to_bits() | other.to_bits());
                let lesser = if other < self || other.is_nan() { other } else { self };
                if self == other { same } else { lesser }
            }
        }
    };
}

macro_rules! integers {
    ($T:ident) => {
        impl Number for $T {
            fn neutral(of: Combines) -> $T {
                match of {
                    Combines::Sum => 0,
                    Combines::Product => 1,
                    Combines::Greatest => $T::MIN,
                    Combines::Least => $T::MAX,
                }
            }
            #[inline(always)]
            fn sum(self, other: $T) -> $T {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn product(self, other: $T) -> $T {
                self.wrapping_mul(other)
            }
            #[inline(always)]
            fn greater(self, other: $T) -> $T {
                self.max(other)
            }
            #[inline(always)]
            fn lesser(self, other: $T) -> $T {
                self.min(other)
            }
        }
    };
}

floats!(f32);
floats!(f64);
integers!(i32);
integers!(i64);
