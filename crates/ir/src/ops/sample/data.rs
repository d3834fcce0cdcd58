//! Data for the tensors of samples: the same on every machine and in every run.

use super::parse::{SampleArg, SampleTensor, Values};
use crate::alias::Layout;
use crate::dtype::{Category, DType};
use crate::literal::{Literal, Number};
use crate::types::TensorType;
use rustc_hash::FxHashMap;

/// Values that hide where a formula forgot them.
const SPECIAL: [f64; 6] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0, 1.0];

/// Data for each tensor of `args` in order: row-major in the tensor's own extents, whatever its strides. Without a
/// range floats fall into -3..3, signed integers into -8..8, unsigned ones into 0..16, with zeros among the
/// real ones. With `special`, real floats without a range or list of values hold NaN, infinities and `-0` too.
pub fn literals(args: &[Option<SampleArg>], seed: u64, special: bool) -> Vec<Literal> {
    let tensors = super::call::tensors(args);
    let data = |(i, t): (usize, &&SampleTensor)| literal(t, seed.wrapping_add(i as u64), special);
    tensors.iter().enumerate().map(data).collect()
}

/// What `view` shows of the storage in which `of` lays out `data`; `None` if it looks at a place that holds nothing.
pub fn view(of: &Layout, data: &Literal, view: &Layout) -> Option<Literal> {
    let size = data.ty.dtype.size();
    let bytes = data.dense_bytes();
    let elements: FxHashMap<usize, &[u8]> = places(of).zip(bytes.chunks(size)).collect();
    let shown = places(view).map(|place| elements.get(&place).copied());
    let bytes: Vec<u8> = shown.collect::<Option<Vec<&[u8]>>>()?.concat();
    let ty = TensorType { dtype: data.ty.dtype, shape: view.sizes.clone() };
    Some(Literal { ty, bytes: bytes.into() })
}

/// Positions in the storage, in row-major order of the elements.
fn places(layout: &Layout) -> impl Iterator<Item = usize> {
    let n: usize = layout.sizes.iter().product();
    (0..n).map(|linear| {
        let (mut rest, mut place) = (linear, layout.offset);
        for (size, stride) in layout.sizes.iter().zip(&layout.strides).rev() {
            place += rest % size * stride;
            rest /= size;
        }
        place
    })
}

fn literal(t: &SampleTensor, seed: u64, special: bool) -> Literal {
    let mut random = SplitMix(seed);
    let numbers = (0..t.ty.numel()).map(|i| number(t, i, &mut random, special).to_bytes(t.ty.dtype));
    let bytes: Vec<u8> = numbers.flatten().collect();
    Literal { ty: t.ty.clone(), bytes: bytes.into() }
}

fn number(t: &SampleTensor, i: usize, random: &mut SplitMix, special: bool) -> Number {
    let dtype = t.ty.dtype;
    match &t.values {
        Values::Listed(list) => list[i % list.len()],
        Values::Range(low, high) => between(*low, *high, dtype, random),
        Values::Any if dtype == DType::Bool => Number::Bool(random.bits() & 1 == 1),
        Values::Any if dtype.is_unsigned() => between(0.0, 16.0, dtype, random),
        Values::Any if dtype.is_int() => between(-8.0, 8.0, dtype, random),
        // A complex zero or infinity is an argument about conventions.
        Values::Any if dtype.is_complex() => between(-3.0, 3.0, dtype, random),
        Values::Any => ordinary(dtype, random, special),
    }
}

fn ordinary(dtype: DType, random: &mut SplitMix, special: bool) -> Number {
    match random.bits() % 16 {
        0 => Number::Float(0.0),
        1..=4 if special => Number::Float(SPECIAL[(random.bits() % 6) as usize]),
        _ => between(-3.0, 3.0, dtype, random),
    }
}

fn between(low: f64, high: f64, dtype: DType, random: &mut SplitMix) -> Number {
    let at = |u: f64| low + u * (high - low);
    match dtype.category() {
        Category::Bool | Category::Int => Number::Int(at(random.unit()).floor() as i64),
        Category::Float => Number::Float(at(random.unit())),
        Category::Complex => Number::Complex(at(random.unit()), at(random.unit())),
    }
}

/// Steele, Lea and Flood's SplitMix64: a small generator, the same on every host. Holds the seed.
pub struct SplitMix(pub u64);

impl SplitMix {
    /// The next 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// In 0..1.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::Schema;

    fn data(text: &str, special: bool) -> Literal {
        let schema = Schema::parse("aten::f(Tensor x) -> Tensor").unwrap();
        literals(&super::super::bind(&schema, text).unwrap(), 7, special).remove(0)
    }

    #[test]
    fn integers_stay_in_their_range() {
        let l = data("i64[100]{-2..3}", false);
        let values: Vec<i64> = l.bytes.chunks(8).map(|c| i64::from_le_bytes(c.try_into().unwrap())).collect();
        let seen: std::collections::BTreeSet<_> = values.into_iter().collect();
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [-2, -1, 0, 1, 2]);
    }

    #[test]
    fn special_values_come_when_asked_for() {
        let floats = |l: &Literal| -> Vec<f32> {
            l.bytes.chunks(4).map(|c| f32::from_le_bytes(c.try_into().unwrap())).collect()
        };
        assert!(floats(&data("f32[200]", false)).iter().all(|x| x.is_finite()));
        let special = floats(&data("f32[200]", true));
        assert!(special.iter().any(|x| x.is_nan()) && special.iter().any(|x| x.is_infinite()));
        assert_eq!(floats(&data("f32[3]{1,2}", true)), [1.0, 2.0, 1.0]);
    }

    #[test]
    fn views_look_into_the_storage() {
        let rows = data("i64[2,3]{0,1,2,3,4,5}", false);
        let of = Layout::contiguous(rows.ty.shape.clone());
        let shown = |sizes: &[usize], strides: &[usize], offset| {
            view(&of, &rows, &Layout { sizes: sizes.into(), strides: strides.into(), offset })
        };
        assert_eq!(shown(&[3], &[1], 3).unwrap().bytes[..], Literal::i64s(&[3, 4, 5]).bytes[..]);
        assert_eq!(shown(&[2, 2], &[0, 3], 1).unwrap().bytes[..], Literal::i64s(&[1, 4, 1, 4]).bytes[..]);
        assert_eq!(shown(&[2], &[6], 0), None);
    }

    #[test]
    fn data_is_the_same_every_time() {
        assert_eq!(data("bf16[9]", false), data("bf16[9]", false));
    }
}
