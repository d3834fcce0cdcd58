//! Loops over elements, as the compiler makes vectors of them.

use hostcall::{Combines, OfOne, OfTwo};

use crate::ffi::combining::Number;
use crate::ffi::scratch::Plain;

/// Lanes that a row is added up in, whatever the vectors of the processor: sums are the same on all, and four vectors of eight need
/// not wait for each other.
pub(super) const LANES: usize = 32;

/// What is given for some elements.
#[derive(Clone, Copy)]
pub(super) enum Given<'a, T> {
    /// One for each.
    Row(&'a [T]),
    /// One for all.
    One(T),
    /// For each what stands where the result goes.
    Own,
}

/// A type that rows are computed in.
pub(crate) trait Real: Number + Plain + PartialOrd + Send {
    fn of(number: f64) -> Self;
    fn truth(holds: bool) -> Self;
    fn minus(self, other: Self) -> Self;
    fn over(self, other: Self) -> Self;
    fn abs(self) -> Self;
    fn sqrt(self) -> Self;
    fn log(self) -> Self;
    /// To the last place or the one before. `FUSED`: products are added in one instruction.
    fn exp<const FUSED: bool>(self) -> Self;
    /// Up to five units in the last place off.
    fn erf<const FUSED: bool>(self) -> Self;
    /// Likewise.
    fn tanh<const FUSED: bool>(self) -> Self;
}

macro_rules! real {
    ($T:ident, $exp:ident, $erf:ident, $tanh:ident) => {
        impl Real for $T {
            #[inline(always)]
            fn of(number: f64) -> $T {
                number as $T
            }
            #[inline(always)]
            fn truth(holds: bool) -> $T {
                if holds { 1.0 } else { 0.0 }
            }
            #[inline(always)]
            fn minus(self, other: $T) -> $T {
                self - other
            }
            #[inline(always)]
            fn over(self, other: $T) -> $T {
                self / other
            }
            #[inline(always)]
            fn abs(self) -> $T {
                self.abs()
            }
            #[inline(always)]
            fn sqrt(self) -> $T {
                self.sqrt()
            }
            #[inline(always)]
            fn log(self) -> $T {
                self.ln()
            }
            #[inline(always)]
            fn exp<const FUSED: bool>(self) -> $T {
                $exp::<FUSED>(self)
            }
            #[inline(always)]
            fn erf<const FUSED: bool>(self) -> $T {
                $erf::<FUSED>(self)
            }
            #[inline(always)]
            fn tanh<const FUSED: bool>(self) -> $T {
                $tanh::<FUSED>(self)
            }
        }
    };
}

real!(f32, exp_f32, erf_f32, tanh_f32);
real!(f64, exp_f64, erf_f64, tanh_f64);

fn exp_f64<const FUSED: bool>(x: f64) -> f64 {
    x.exp()
}

fn erf_f64<const FUSED: bool>(x: f64) -> f64 {
    libm::erf(x)
}

fn tanh_f64<const FUSED: bool>(x: f64) -> f64 {
    x.tanh()
}

/// `a * b + c`.
#[inline(always)]
fn madd<const FUSED: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FUSED { a.mul_add(b, c) } else { a * b + c }
}

/// The sum of the powers of `x`, the highest first.
#[inline(always)]
fn powers<const FUSED: bool, const N: usize>(x: f32, of: [f32; N]) -> f32 {
    of.into_iter().reduce(|sum, next| madd::<FUSED>(sum, x, next)).unwrap_or(0.0)
}

/// `x * p(x^2) / q(x^2)`, whose coefficients are least squares of equal ripples: 2.8e-8 of the result off, and with rounding up to
/// five units in the last place. Beyond the bound it is one.
#[inline(always)]
fn erf_f32<const FUSED: bool>(x: f32) -> f32 {
    const P: [f32; 5] =
        [2.303_815_6e-4, 3.581_196_8e-3, 5.149_878e-2, 1.897_207_5e-1, std::f32::consts::FRAC_2_SQRT_PI];
    const Q: [f32; 7] =
        [-1.122_083_2e-7, 2.315_938_4e-5, 1.053_826_9e-3, 1.442_675_8e-2, 1.128_003_9e-1, 5.014_680_7e-1, 1.0];
    saturating::<FUSED, _, _>(x, 3.92, P, Q)
}

/// The same, 1e-9 of the result off.
#[inline(always)]
fn tanh_f32<const FUSED: bool>(x: f32) -> f32 {
    const P: [f32; 5] = [5.076_244_6e-8, 3.158_912_7e-5, 4.008_512e-3, 1.378_536_7e-1, 1.0];
    const Q: [f32; 6] = [7.374_479e-10, 1.617_490_4e-6, 4.207_412_8e-4, 2.773_752_3e-2, 4.711_87e-1, 1.0];
    saturating::<FUSED, _, _>(x, 9.02, P, Q)
}

/// `x * p(x^2) / q(x^2)`, which is none beyond one, for an `x` that is none beyond `bound`.
#[inline(always)]
fn saturating<const FUSED: bool, const P: usize, const Q: usize>(x: f32, bound: f32, p: [f32; P], q: [f32; Q]) -> f32 {
    let within = |x: f32, bound: f32| {
        let x = if x < bound { x } else { bound };
        if x > -bound { x } else { -bound }
    };
    let near = within(x, bound);
    let square = near * near;
    let result = within(near * powers::<FUSED, _>(square, p) / powers::<FUSED, _>(square, q), 1.0);
    if x.is_nan() { x } else { result }
}

/// `2^n * e^r` with a whole `n` and a small `r`, whose powers are summed to the seventh, which is 5e-9 of the result short.
#[inline(always)]
fn exp_f32<const FUSED: bool>(x: f32) -> f32 {
    /// Added to a number it leaves the nearest integer in the last bits, and taken off again that integer.
    const TO_WHOLE: f32 = 12_582_912.0;
    /// `ln(2)` in two parts, of which the first has few bits: times an integer it is exact.
    const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];
    /// Beyond these the result is none but nought or infinity.
    const BOUNDS: [f32; 2] = [-104.0, 89.0];
    let clamped = if x > BOUNDS[0] { x } else { BOUNDS[0] };
    let clamped = if clamped < BOUNDS[1] { clamped } else { BOUNDS[1] };
    let shifted = madd::<FUSED>(clamped, std::f32::consts::LOG2_E, TO_WHOLE);
    let whole = shifted - TO_WHOLE;
    let r = madd::<FUSED>(whole, -LN_2[1], madd::<FUSED>(whole, -LN_2[0], clamped));
    let mut sum = 1.0 / 5040.0;
    for inverse in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        sum = madd::<FUSED>(sum, r, inverse);
    }
    // Two factors, as one may be too small or too large for a float.
    let n = shifted.to_bits().wrapping_sub(TO_WHOLE.to_bits()) as i32;
    let half = n >> 1;
    let power = |n: i32| f32::from_bits(((n + 127) << 23) as u32);
    let result = sum * power(half) * power(n - half);
    if x.is_nan() { x } else { result }
}

/// `out` of one operand.
macro_rules! of_one {
    ($out:ident, $a:ident, |$x:ident| $made:expr) => {
        match $a {
            Given::Row(a) => {
                for (out, &$x) in $out.iter_mut().zip(a) {
                    *out = $made;
                }
            }
            Given::One($x) => $out.fill($made),
            Given::Own => {
                for out in $out.iter_mut() {
                    *out = {
                        let $x = *out;
                        $made
                    };
                }
            }
        }
    };
}

/// `out` of two.
macro_rules! of_two {
    ($out:ident, $a:ident, $b:ident, |$x:ident, $y:ident| $made:expr) => {
        match ($a, $b) {
            (Given::Row(a), Given::Row(b)) => {
                for ((out, &$x), &$y) in $out.iter_mut().zip(a).zip(b) {
                    *out = $made;
                }
            }
            (Given::Row(a), Given::One($y)) => {
                for (out, &$x) in $out.iter_mut().zip(a) {
                    *out = $made;
                }
            }
            (Given::One($x), Given::Row(b)) => {
                for (out, &$y) in $out.iter_mut().zip(b) {
                    *out = $made;
                }
            }
            (Given::One($x), Given::One($y)) => $out.fill($made),
            (Given::Own, Given::Row(b)) => {
                for (out, &$y) in $out.iter_mut().zip(b) {
                    *out = {
                        let $x = *out;
                        $made
                    };
                }
            }
            (Given::Row(a), Given::Own) => {
                for (out, &$x) in $out.iter_mut().zip(a) {
                    *out = {
                        let $y = *out;
                        $made
                    };
                }
            }
            (Given::Own, Given::One($y)) => {
                for out in $out.iter_mut() {
                    *out = {
                        let $x = *out;
                        $made
                    };
                }
            }
            (Given::One($x), Given::Own) => {
                for out in $out.iter_mut() {
                    *out = {
                        let $y = *out;
                        $made
                    };
                }
            }
            (Given::Own, Given::Own) => {
                for out in $out.iter_mut() {
                    *out = {
                        let ($x, $y) = (*out, *out);
                        $made
                    };
                }
            }
        }
    };
}

/// `lanes` with the elements of `row` in turn.
macro_rules! by_turns {
    ($lanes:ident, $row:ident, |$kept:ident, $x:ident| $made:expr) => {{
        let (turns, rest) = $row.as_chunks::<LANES>();
        let mut own = *$lanes;
        for turn in turns {
            for ($kept, &$x) in own.iter_mut().zip(turn) {
                *$kept = $made;
            }
        }
        for ($kept, &$x) in own.iter_mut().zip(rest) {
            *$kept = $made;
        }
        *$lanes = own;
    }};
}

/// `out` of a function of each element. In the widest vectors that the processor has, where that takes less: functions do, what waits for
/// memory does not. They give what narrower ones do.
#[inline(always)]
pub(super) fn each<T: Real, const FUSED: bool>(of: OfOne, out: &mut [T], a: Given<'_, T>) {
    #[cfg(target_arch = "x86_64")]
    if FUSED && !matches!(of, OfOne::Abs | OfOne::Negate) && is_x86_feature_detected!("avx512f") {
        // SAFETY: the processor has them.
        return unsafe { in_widest_vectors(of, out, a) };
    }
    one::<T, FUSED>(of, out, a);
}

/// # Safety
/// On a processor with these features.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx2,fma")]
unsafe fn in_widest_vectors<T: Real>(of: OfOne, out: &mut [T], a: Given<'_, T>) {
    one::<T, true>(of, out, a);
}

#[inline(always)]
pub(super) fn one<T: Real, const FUSED: bool>(of: OfOne, out: &mut [T], a: Given<'_, T>) {
    let unit = T::of(1.0);
    match of {
        OfOne::Abs => of_one!(out, a, |x| x.abs()),
        OfOne::Exponential => of_one!(out, a, |x| x.exp::<FUSED>()),
        OfOne::Log => of_one!(out, a, |x| x.log()),
        OfOne::Logistic => of_one!(out, a, |x| unit.over(unit.sum(T::of(-1.0).product(x).exp::<FUSED>()))),
        OfOne::Negate => of_one!(out, a, |x| T::of(-1.0).product(x)),
        OfOne::Rsqrt => of_one!(out, a, |x| unit.over(x.sqrt())),
        OfOne::Sqrt => of_one!(out, a, |x| x.sqrt()),
        OfOne::Erf => of_one!(out, a, |x| x.erf::<FUSED>()),
        OfOne::Tanh => of_one!(out, a, |x| x.tanh::<FUSED>()),
    }
}

#[inline(always)]
pub(super) fn two<T: Real>(of: OfTwo, out: &mut [T], a: Given<'_, T>, b: Given<'_, T>) {
    match of {
        OfTwo::Add => of_two!(out, a, b, |x, y| x.sum(y)),
        OfTwo::Divide => of_two!(out, a, b, |x, y| x.over(y)),
        OfTwo::Equal => of_two!(out, a, b, |x, y| T::truth(x == y)),
        OfTwo::Greater => of_two!(out, a, b, |x, y| T::truth(x > y)),
        OfTwo::GreaterEqual => of_two!(out, a, b, |x, y| T::truth(x >= y)),
        OfTwo::Less => of_two!(out, a, b, |x, y| T::truth(x < y)),
        OfTwo::LessEqual => of_two!(out, a, b, |x, y| T::truth(x <= y)),
        OfTwo::Maximum => of_two!(out, a, b, |x, y| x.greater(y)),
        OfTwo::Minimum => of_two!(out, a, b, |x, y| x.lesser(y)),
        OfTwo::Multiply => of_two!(out, a, b, |x, y| x.product(y)),
        OfTwo::NotEqual => of_two!(out, a, b, |x, y| T::truth(x != y)),
        OfTwo::Subtract => of_two!(out, a, b, |x, y| x.minus(y)),
    }
}

/// `a` where `p` is not nought, else `b`.
#[inline(always)]
pub(super) fn select<T: Real>(out: &mut [T], p: Given<'_, T>, a: Given<'_, T>, b: Given<'_, T>) {
    let nought = T::of(0.0);
    match (p, a, b) {
        (Given::One(p), a, b) => {
            let chosen = if p != nought { a } else { b };
            of_one!(out, chosen, |x| x);
        }
        (Given::Row(p), Given::Row(a), Given::Row(b)) => {
            for (((out, &p), &x), &y) in out.iter_mut().zip(p).zip(a).zip(b) {
                *out = if p != nought { x } else { y };
            }
        }
        (p, a, Given::One(y)) => of_two!(out, p, a, |p, x| if p != nought { x } else { y }),
        (p, Given::One(x), b) => of_two!(out, p, b, |p, y| if p != nought { x } else { y }),
        // Whoever chooses writes late.
        (Given::Own, ..) | (_, Given::Own, _) | (.., Given::Own) => {}
    }
}

/// Truth values as numbers.
#[inline(always)]
pub(super) fn truths<T: Real>(out: &mut [T], truths: &[u8]) {
    for (out, &truth) in out.iter_mut().zip(truths) {
        *out = T::truth(truth != 0);
    }
}

/// Combines elements with those of `lanes`, by turns.
#[inline(always)]
pub(super) fn combine<T: Real>(of: Combines, lanes: &mut [T; LANES], given: Given<'_, T>, count: usize) {
    let Given::Row(row) = given else {
        let Given::One(same) = given else { return };
        // As the row would be.
        for at in 0..count {
            lanes[at % LANES] = pair(of, lanes[at % LANES], same);
        }
        return;
    };
    match of {
        Combines::Sum => by_turns!(lanes, row, |kept, x| kept.sum(x)),
        Combines::Product => by_turns!(lanes, row, |kept, x| kept.product(x)),
        Combines::Greatest => by_turns!(lanes, row, |kept, x| kept.greater(x)),
        Combines::Least => by_turns!(lanes, row, |kept, x| kept.lesser(x)),
    }
}

/// Combines each element with its own of `all`.
#[inline(always)]
pub(super) fn join<T: Real>(of: Combines, all: &mut [T], given: Given<'_, T>) {
    match given {
        Given::Row(row) => each_with(of, all, row.iter().copied()),
        Given::One(same) => each_with(of, all, std::iter::repeat(same)),
        Given::Own => {} // nothing is combined where its operand is overwritten
    }
}

#[inline(always)]
fn each_with<T: Real>(of: Combines, all: &mut [T], given: impl Iterator<Item = T>) {
    let pairs = all.iter_mut().zip(given);
    match of {
        Combines::Sum => pairs.for_each(|(own, x)| *own = own.sum(x)),
        Combines::Product => pairs.for_each(|(own, x)| *own = own.product(x)),
        Combines::Greatest => pairs.for_each(|(own, x)| *own = own.greater(x)),
        Combines::Least => pairs.for_each(|(own, x)| *own = own.lesser(x)),
    }
}

/// Combines each element with its own of `all`, of rows that begin so many elements after each other.
#[inline(always)]
pub(super) fn join_rows<T: Real>(of: Combines, all: &mut [T], rows: &[T], apart: usize) {
    match of {
        Combines::Sum => down(all, rows, apart, T::sum),
        Combines::Product => down(all, rows, apart, T::product),
        Combines::Greatest => down(all, rows, apart, T::greater),
        Combines::Least => down(all, rows, apart, T::lesser),
    }
}

/// Some columns at once, which stay in registers.
#[inline(always)]
fn down<T: Real>(all: &mut [T], rows: &[T], apart: usize, pair: impl Fn(T, T) -> T) {
    let (turns, rest) = all.as_chunks_mut::<LANES>();
    let from_rest = turns.len() * LANES;
    for (turn, all) in turns.iter_mut().enumerate() {
        let mut own = *all;
        for row in rows[turn * LANES..].chunks(apart) {
            for (own, &x) in own.iter_mut().zip(&row[..LANES]) {
                *own = pair(*own, x);
            }
        }
        *all = own;
    }
    if rest.is_empty() {
        return;
    }
    for row in rows[from_rest..].chunks(apart) {
        for (own, &x) in rest.iter_mut().zip(row) {
            *own = pair(*own, x);
        }
    }
}

/// What all lanes make.
#[inline(always)]
pub(super) fn combined<T: Real>(of: Combines, mut lanes: [T; LANES]) -> T {
    let mut half = LANES / 2;
    while half > 0 {
        for lane in 0..half {
            lanes[lane] = pair(of, lanes[lane], lanes[lane + half]);
        }
        half /= 2;
    }
    lanes[0]
}

#[inline(always)]
pub(super) fn pair<T: Real>(of: Combines, one: T, other: T) -> T {
    match of {
        Combines::Sum => one.sum(other),
        Combines::Product => one.product(other),
        Combines::Greatest => one.greater(other),
        Combines::Least => one.lesser(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The most that `f` is off, of all floats that so many bits tell, in units of half of the last place to all of it.
    fn most_off(f: impl Fn(f32) -> f32, exact: impl Fn(f64) -> f64) -> f64 {
        let floats = (0..=u32::MAX >> 11).map(|bits| f32::from_bits(bits << 11)).filter(|x| x.is_finite());
        let off = floats.map(|x| {
            let want = exact(f64::from(x));
            let unit = f64::from((want.abs() as f32).max(f32::MIN_POSITIVE)) * f64::from(f32::EPSILON) / 2.0;
            (f64::from(f(x)) - want).abs() / unit
        });
        off.fold(0.0, f64::max)
    }

    #[test]
    fn functions_are_right_to_the_last_places() {
        let most = [
            most_off(exp_f32::<true>, f64::exp),
            most_off(exp_f32::<false>, f64::exp),
            most_off(erf_f32::<true>, libm::erf),
            most_off(erf_f32::<false>, libm::erf),
            most_off(tanh_f32::<true>, f64::tanh),
            most_off(tanh_f32::<false>, f64::tanh),
        ];
        let bounds = [2.0, 2.0, 12.0, 12.0, 12.0, 12.0];
        assert!(most.iter().zip(bounds).all(|(&off, bound)| off < bound), "{most:?}");
        let all = [exp_f32::<true>, erf_f32::<true>, tanh_f32::<true>];
        assert!(all.iter().all(|f| f(f32::NAN).is_nan()));
        assert_eq!(all.map(|f| f(f32::INFINITY)), [f32::INFINITY, 1.0, 1.0]);
        assert_eq!(all.map(|f| f(f32::NEG_INFINITY)), [0.0, -1.0, -1.0]);
        assert_eq!(all.map(|f| f(-0.0).to_bits()), [1.0f32, -0.0, -0.0].map(f32::to_bits));
    }
}
