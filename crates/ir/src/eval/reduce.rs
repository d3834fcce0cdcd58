//! Reductions, over dimensions and over windows, and sorting. Sums of floats are kept in `f64` and rounded once.

use super::element::{C, Domain, coordinates, in_domain, indices, int_range, moved, numbers, of_width, stored, wrap};
use super::window::{Tap, WindowDim, all_taps, offsets};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::literal::Literal;
use crate::op::{Binary, Reducer, Scan, SortedPart, Window};
use crate::types::TensorType;
use ndarray::{ArrayD, Axis, IxDyn};
use std::cmp::Ordering;

/// What reducers need beyond sums and products.
pub(super) trait Ordered: Domain {
    /// The greater one, or NaN if either is.
    fn greater(self, other: Self) -> Self;
    /// The lesser one, or NaN if either is.
    fn lesser(self, other: Self) -> Self;
    /// Bits combined.
    fn bits(self, other: Self, op: Binary) -> Self;
    /// Order in which NaN is greatest and `-0` equals `0`.
    fn order(self, other: Self) -> Ordering;
    /// Whether this is NaN.
    fn is_nan(self) -> bool;
    /// Least and greatest value of `dtype`.
    fn range(dtype: DType) -> (Self, Self);
}

impl Ordered for i128 {
    fn greater(self, other: i128) -> i128 {
        self.max(other)
    }
    fn lesser(self, other: i128) -> i128 {
        self.min(other)
    }
    fn bits(self, other: i128, op: Binary) -> i128 {
        match op {
            Binary::And => self & other,
            Binary::Or => self | other,
            _ => self ^ other,
        }
    }
    fn order(self, other: i128) -> Ordering {
        self.cmp(&other)
    }
    fn is_nan(self) -> bool {
        false
    }
    fn range(dtype: DType) -> (i128, i128) {
        int_range(dtype)
    }
}

impl Ordered for f64 {
    fn greater(self, other: f64) -> f64 {
        super::elementwise::float_binary(Binary::Maximum, self, other).unwrap_or(f64::NAN)
    }
    fn lesser(self, other: f64) -> f64 {
        super::elementwise::float_binary(Binary::Minimum, self, other).unwrap_or(f64::NAN)
    }
    fn bits(self, _: f64, _: Binary) -> f64 {
        self // inference lets only integers and bool here
    }
    fn order(self, other: f64) -> Ordering {
        self.partial_cmp(&other).unwrap_or_else(|| self.is_nan().cmp(&other.is_nan()))
    }
    fn is_nan(self) -> bool {
        f64::is_nan(self)
    }
    fn range(dtype: DType) -> (f64, f64) {
        // The one type without an infinity.
        let most = if dtype == DType::F8E4M3FN { 448.0 } else { f64::INFINITY };
        (-most, most)
    }
}

/// Complex numbers have sums and products only; inference lets no other reducer here.
impl Ordered for C {
    fn greater(self, _: C) -> C {
        self
    }
    fn lesser(self, _: C) -> C {
        self
    }
    fn bits(self, _: C, _: Binary) -> C {
        self
    }
    fn order(self, _: C) -> Ordering {
        Ordering::Equal
    }
    fn is_nan(self) -> bool {
        self.re.is_nan() || self.im.is_nan()
    }
    fn range(_: DType) -> (C, C) {
        (C::ZERO, C::ZERO)
    }
}

/// Two elements combined, not yet rounded.
pub(super) fn combine<T: Ordered>(reducer: Reducer, x: T, y: T) -> T {
    match reducer {
        Reducer::Add => x.plus(y),
        Reducer::Multiply => x.times(y),
        Reducer::Maximum | Reducer::ArgMax => x.greater(y),
        Reducer::Minimum | Reducer::ArgMin => x.lesser(y),
        Reducer::And => x.bits(y, Binary::And),
        Reducer::Or => x.bits(y, Binary::Or),
        Reducer::Xor => x.bits(y, Binary::Xor),
    }
}

fn identity<T: Ordered>(reducer: Reducer, dtype: DType) -> T {
    let (least, greatest) = T::range(dtype);
    match reducer {
        Reducer::Add | Reducer::Or | Reducer::Xor => T::ZERO,
        Reducer::Multiply => T::ONE,
        Reducer::Maximum | Reducer::ArgMax => least,
        Reducer::Minimum | Reducer::ArgMin => greatest,
        Reducer::And => {
            // All ones: -1, wrapped by the type when stored.
            let mut bytes = vec![];
            wrap(-1, dtype).put(dtype, &mut bytes);
            T::get(&bytes, dtype)
        }
    }
}

/// The pair that `arg_max` or `arg_min` keeps.
fn combine_arg<T: Ordered>(reducer: Reducer, x: (T, i128), y: (T, i128)) -> (T, i128) {
    let order = match (x.0.is_nan(), y.0.is_nan()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        _ if reducer == Reducer::ArgMax => x.0.order(y.0),
        _ => y.0.order(x.0),
    };
    match order {
        Ordering::Greater => x,
        Ordering::Less => y,
        Ordering::Equal => {
            if x.1 <= y.1 {
                x
            } else {
                y
            }
        }
    }
}

/// For each element of a result the operand's elements that go into it, by row-major position.
type Groups<'a> = dyn Fn(&[usize], &mut dyn FnMut(usize)) + 'a;

/// Reduces each group; one operand, or values and indices. `shape` is the result's.
fn reduce_groups(reducer: Reducer, args: &[&Literal], shape: &[usize], groups: &Groups<'_>) -> Result<Vec<Literal>> {
    let dtype = args[0].ty.dtype;
    in_domain!(dtype, T => {
        let values = numbers::<T>(args[0])?.into_raw_vec_and_offset().0;
        let start = identity::<T>(reducer, dtype);
        if !reducer.is_arg() {
            let result = ArrayD::from_shape_fn(IxDyn(shape), |position| {
                let mut sum = start;
                groups(coordinates(&position), &mut |i| sum = combine(reducer, sum, values[i]));
                sum
            });
            return Ok(vec![stored(result.view(), dtype)]);
        }
        let index_dtype = args[1].ty.dtype;
        let places = indices(args[1])?.into_raw_vec_and_offset().0;
        let start = (start, int_range(index_dtype).1);
        let result = ArrayD::from_shape_fn(IxDyn(shape), |position| {
            let mut best = start;
            groups(coordinates(&position), &mut |i| best = combine_arg(reducer, best, (values[i], places[i])));
            best
        });
        Ok(vec![stored(result.mapv(|b| b.0).view(), dtype), stored(result.mapv(|b| b.1).view(), index_dtype)])
    })
}

/// Row-major steps.
pub(super) fn steps(shape: &[usize]) -> Vec<usize> {
    crate::alias::Layout::contiguous(crate::types::Shape::from_slice(shape)).strides.to_vec()
}

/// Reduces `dims` away.
pub(super) fn reduce(reducer: Reducer, args: &[&Literal], dims: &[usize]) -> Result<Vec<Literal>> {
    let operand = &args[0].ty.shape;
    let kept: Vec<usize> = (0..operand.len()).filter(|d| !dims.contains(d)).collect();
    let shape: Vec<usize> = kept.iter().map(|&d| operand[d]).collect();
    let step = steps(operand);
    let mut sorted = dims.to_vec();
    sorted.sort_unstable();
    let inner: Vec<usize> = sorted.iter().map(|&d| operand[d]).collect();
    let offsets: Vec<usize> = ndarray::indices(IxDyn(&inner))
        .into_iter()
        .map(|p| sorted.iter().enumerate().map(|(i, &d)| p[i] * step[d]).sum())
        .collect();
    reduce_groups(reducer, args, &shape, &|position, f| {
        let base: usize = kept.iter().zip(position).map(|(&d, p)| p * step[d]).sum();
        offsets.iter().for_each(|o| f(base + o));
    })
}

/// The taps of every dimension of `window` over an operand.
fn taps_of(window: &Window, operand: &[usize], results: &[usize]) -> Vec<Vec<Vec<Tap>>> {
    let dims: Vec<WindowDim> = (0..operand.len()).map(|d| WindowDim::of(window, d)).collect();
    all_taps(&dims, operand, results)
}

/// Reduces each window; `shape` is the result's.
pub(super) fn reduce_window(
    reducer: Reducer,
    args: &[&Literal],
    window: &Window,
    shape: &[usize],
) -> Result<Vec<Literal>> {
    let operand = &args[0].ty.shape;
    if let ([a], Some(scan)) = (args, Scan::of(reducer, window, operand)) {
        return scanned(a, scan).map(|all| vec![all]);
    }
    let (taps, step) = (taps_of(window, operand, shape), steps(operand));
    reduce_groups(reducer, args, shape, &|position, f| {
        let here: Vec<&[Tap]> = position.iter().zip(&taps).map(|(&p, taps)| &taps[p][..]).collect();
        offsets(&here, &step, &step).into_iter().for_each(|(_, i)| f(i));
    })
}

/// Each element reduced with those on one side of it: what windows that reach so far give, in one pass.
fn scanned(a: &Literal, scan: Scan) -> Result<Literal> {
    let dtype = a.ty.dtype;
    in_domain!(dtype, T => {
        let mut values = numbers::<T>(a)?;
        for mut lane in values.lanes_mut(Axis(scan.dim)) {
            if scan.backwards {
                lane.invert_axis(Axis(0));
            }
            let mut sum = identity::<T>(scan.reducer, dtype);
            for value in &mut lane {
                sum = combine(scan.reducer, sum, *value);
                *value = sum;
            }
        }
        Ok(stored(values.view(), dtype))
    })
}

/// Adds each element of `source` at the place of its window's maximum.
pub(super) fn select_and_scatter(a: &Literal, source: &Literal, window: &Window) -> Result<Literal> {
    let (taps, step) = (taps_of(window, &a.ty.shape, &source.ty.shape), steps(&a.ty.shape));
    in_domain!(a.ty.dtype, T => {
        let values = numbers::<T>(a)?.into_raw_vec_and_offset().0;
        let mut sums = vec![T::ZERO; values.len()];
        for (position, &value) in numbers::<T>(source)?.indexed_iter() {
            let here: Vec<&[Tap]> = (0..step.len()).map(|d| &taps[d][position[d]][..]).collect();
            let mut best: Option<usize> = None;
            for (_, i) in offsets(&here, &step, &step) {
                let above = |b: usize| values[i].is_nan() || values[i].order(values[b]) == Ordering::Greater;
                let better = best.is_none_or(above);
                best = if better { Some(i) } else { best };
            }
            if let Some(b) = best {
                sums[b] = sums[b].plus(value);
            }
        }
        Ok(stored(super::element::shaped(&a.ty.shape, sums)?.view(), a.ty.dtype))
    })
}

/// Sorts all operands along `dim` by the first; always stable.
pub(super) fn sort(args: &[&Literal], dim: usize, descending: bool, nan_first: bool) -> Result<Vec<Literal>> {
    let order = in_domain!(args[0].ty.dtype, T => sorted_positions(numbers::<T>(args[0])?, dim, descending, nan_first));
    args.iter().map(|a| of_width!(a.ty.dtype, N => rearranged::<N>(a, dim, &order))).collect()
}

/// What is wanted of a sort.
pub(super) fn sorted_part(args: &[&Literal], part: &SortedPart) -> Result<Vec<Literal>> {
    let shape = &args[0].ty.shape;
    let places = part.places.map(|dtype| super::elementwise::iota(dtype, shape, part.dim)).transpose()?;
    let (keys, others) = (args[..1].iter().copied(), args[1..].iter().copied());
    let all: Vec<&Literal> = keys.chain(&places).chain(others).collect();
    let (mut start, mut limit, stride) = (vec![0; shape.len()], shape.to_vec(), vec![1; shape.len()]);
    (start[part.dim], limit[part.dim]) = (part.start, part.limit);
    let sorted = sort(&all, part.dim, part.descending, part.nan_first)?;
    sorted.iter().map(|whole| super::shape::slice(whole, &start, &limit, &stride)).collect()
}

/// The `k` greatest of each row of an `f32` matrix in total order, and their columns.
pub(super) fn top_k(a: &Literal, k: usize) -> Result<Vec<Literal>> {
    let bits = super::element::words::<4>(a)?;
    let (mut values, mut columns) = (vec![], vec![]);
    for row in bits.lanes(Axis(1)) {
        let mut order: Vec<usize> = (0..row.len()).collect();
        order.sort_by(|&i, &j| f32::from_le_bytes(row[j]).total_cmp(&f32::from_le_bytes(row[i])));
        values.extend(order[..k].iter().flat_map(|&i| row[i]));
        columns.extend(order[..k].iter().flat_map(|&i| (i as i32).to_le_bytes()));
    }
    let of = |dtype, bytes| {
        let ty = TensorType::new(dtype, [a.ty.shape[0], k]);
        Literal::dense(ty, bytes).ok_or_else(|| Error::internal("a selection lost elements"))
    };
    Ok(vec![of(DType::F32, values)?, of(DType::I32, columns)?])
}

/// For each place the position along `dim` of the element that goes there.
fn sorted_positions<T: Ordered>(keys: ArrayD<T>, dim: usize, descending: bool, nan_first: bool) -> ArrayD<usize> {
    let mut order = ArrayD::zeros(keys.raw_dim());
    for (lane, mut out) in keys.lanes(Axis(dim)).into_iter().zip(order.lanes_mut(Axis(dim))) {
        let mut positions: Vec<usize> = (0..lane.len()).collect();
        positions.sort_by(|&i, &j| {
            let rising = lane[i].order(lane[j]);
            match (descending, nan_first) {
                (true, _) => rising.reverse(),
                (false, true) => lane[j].is_nan().cmp(&lane[i].is_nan()).then(rising),
                (false, false) => rising,
            }
        });
        out.iter_mut().zip(positions).for_each(|(o, p)| *o = p);
    }
    order
}

fn rearranged<const N: usize>(a: &Literal, dim: usize, order: &ArrayD<usize>) -> Result<Literal> {
    let from = super::element::words::<N>(a)?;
    let mut to = from.clone();
    let lanes = from.lanes(Axis(dim)).into_iter().zip(order.lanes(Axis(dim)));
    for ((lane, order), mut out) in lanes.zip(to.lanes_mut(Axis(dim))) {
        out.iter_mut().zip(order).for_each(|(o, &p)| *o = lane[p]);
    }
    if to.len() != from.len() {
        return Err(Error::internal("sorting lost elements"));
    }
    Ok(moved(to.view(), a.ty.dtype))
}
