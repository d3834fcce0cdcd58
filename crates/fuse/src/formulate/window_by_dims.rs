//! Sliding windows reduced along one dimension after the other, by slices that are combined element by element.
//!
//! XLA's CPU walks through each window element by element, all dimensions at once: 4 ns an element of a window.
//!
//! Milliseconds, forward, on 2 cores of a Zen 4, of maxima of 8x64x56x56:
//!
//! | window, stride | f32: at once | by dimensions | eager | bf16: at once | by dimensions | eager |
//! |----------------|-------------:|--------------:|------:|--------------:|--------------:|------:|
//! | 3x3, 1         | 14.2         | 1.2           | 20    | 25            | 1.8           | 21    |
//! | 3x3, 2         | 4.6          | 0.75          | 6.4   | 6.9           | 1.5           | 6.9   |
//! | 5x5, 1         | 65           | 1.9           | 45    | 108           | 4.0           | 50    |
//! | 5x5, 3         | 7.3          | 1.3           | 6.3   |               | 1.3           | 6.4   |
//! | 7x7, 7         | 3.5          | 0.65          | 1.4   |               | 0.7           | 1.6   |
//! | 13x13, 1       | 563          | 7.5           | 147   | 802           | 11            | 154   |
//!
//! Without what keeps one dimension's slices from being computed again for each of the next, 5x5 takes 28 ms, and 13x13 324. Sums of
//! 3x3 by 1 went from 3.1 to 1.5 ms, and average pooling 5x5 by 3, with its gradient, from 12.3 to 4.7 (eager 2.9 to 5).
//!
//! Extremes with their places, for a gradient, are found likewise where the host takes calls, and then whose place it is: a choice per
//! element, without a branch. Of `f32`, milliseconds: 3x3 by 1 51, now 3.2 (eager 20); 3x3 by 2 11.9, now 2.2 (6.4); 5x5 by 1
//! 114, now 3.3 (44); 3x3 by 2 of 8x64x112x112 80, now 29 (25), half of which are first touches of memory.

use super::rebuild::Rebuild;
use super::{Rewrite, Rule, Windowing};
use crate::Class;
use ir::op::{Reducer, Window};
use ir::{
    Binary, Builder, Comparison, DType, Dims, InputKind, Literal, Number, Op, OutputKind, Result, Shape, ValueId,
};

pub(super) const EXTREMES: Rule = Rule {
    name: "window-extremes-by-dimensions",
    class: Class::Exact,
    alone: true,
    why: "XLA's CPU walks through each window element by element",
    rewrite: Rewrite::Windows(|to, site| by_dims(to, site, &[Reducer::Maximum, Reducer::Minimum])),
};

pub(super) const SUMS: Rule = Rule {
    name: "window-sums-by-dimensions",
    class: Class::Reassociating,
    alone: true,
    why: "XLA's CPU walks through each window element by element",
    rewrite: Rewrite::Windows(|to, site| by_dims(to, site, &[Reducer::Add])),
};

pub(super) const PLACES: Rule = Rule {
    name: "window-places-by-dimensions",
    class: Class::Reassociating, // of zeros of both signs the first was taken, now it is 0
    alone: true,
    why: "XLA's CPU walks through each window element by element, with a branch for each",
    rewrite: Rewrite::Windows(places_by_dims),
};

/// Elements of the smallest result that is worth it.
const SMALLEST: usize = 1024;
/// Slices that are combined at once.
const AT_ONCE: usize = 8;
/// The longest windows: beyond, they are scans as a rule, which XLA knows.
const LONGEST: usize = AT_ONCE * AT_ONCE;

fn by_dims(to: &mut Rebuild, site: &Windowing<'_>, reducers: &[Reducer]) -> Result<Option<ValueId>> {
    let (ty, w) = (to.ty(site.input)?.clone(), site.window);
    let long = if site.reducer == Reducer::Add { 2 * AT_ONCE } else { LONGEST };
    let fits = reducers.contains(&site.reducer)
        && ty.dtype != DType::Bool
        && w.size.iter().all(|&size| size <= long)
        && w.size.iter().product::<usize>() > 1;
    if !fits {
        return Ok(None);
    }
    let b = Builder::new("windows");
    let input = b.input("x", InputKind::User, ty);
    let mut x = padded(&b, input, site.reducer.identity(b.dtype(input)), w)?;
    if !has_windows(&b.shape(x), w) {
        return Ok(None);
    }
    for (i, d) in dims(w).enumerate() {
        // XLA would compute the slices of one dimension again for each of the next.
        x = if i > 0 && site.with_host { b.push(Op::HostBarrier, &[x], vec![])? } else { x };
        x = along(&b, x, d, site)?;
    }
    if b.shape(x).iter().product::<usize>() < SMALLEST {
        return Ok(None);
    }
    b.output("y", OutputKind::User, x);
    to.splice(&b.finish(), &[site.input]).map(Some)
}

/// Extremes first, and then the least place of what equals them. Only where the host takes calls: without a barrier XLA would
/// find the extremes again for every place.
fn places_by_dims(to: &mut Rebuild, site: &Windowing<'_>) -> Result<Option<ValueId>> {
    let (ty, w) = (to.ty(site.input)?.clone(), site.window);
    let (Some(places), true) = (site.places, w.size.iter().all(|&size| size <= LONGEST)) else { return Ok(None) };
    if !site.with_host || ty.dtype == DType::Bool || w.size.iter().product::<usize>() == 1 {
        return Ok(None);
    }
    let b = Builder::new("windows");
    let inputs = [(ty, "x"), (to.ty(places)?.clone(), "i")].map(|(ty, name)| b.input(name, InputKind::User, ty));
    // Once: what XLA computes again in another loop may round otherwise, and then equals no extreme.
    let is_there = to.is_input(site.input);
    let once = if is_there { inputs[0] } else { b.push(Op::HostBarrier, &inputs[..1], vec![])? };
    let x = padded(&b, once, site.reducer.identity(b.dtype(once)), w)?;
    let i = padded(&b, inputs[1], Reducer::Minimum.identity(b.dtype(inputs[1])), w)?;
    if !has_windows(&b.shape(x), w) {
        return Ok(None);
    }
    let both = dims(w).try_fold([x, i], |both, d| along_with_places(&b, both, d, site))?;
    if b.shape(both[0]).iter().product::<usize>() < SMALLEST {
        return Ok(None);
    }
    b.output("y", OutputKind::User, b.push(Op::OptimizationBarrier, &both, vec![])?);
    to.splice(&b.finish(), &[site.input, places]).map(Some)
}

/// Along which dimensions there is something to do.
fn dims(w: &Window) -> impl Iterator<Item = usize> {
    (0..w.size.len()).filter(|&d| w.size[d] > 1 || w.strides[d] > 1)
}

/// Whether there is any window over what has `shape`.
fn has_windows(shape: &Shape, w: &Window) -> bool {
    !shape.contains(&0) && (0..shape.len()).all(|d| span(w, d) <= shape[d])
}

/// `x` with `neutral`, which changes no result, around it and between its elements.
fn padded(b: &Builder, x: ValueId, neutral: Literal, w: &Window) -> Result<ValueId> {
    if w.padding.iter().all(|&p| p == (0, 0)) && w.base_dilation.iter().all(|&d| d == 1) {
        return Ok(x);
    }
    let neutral = b.constant(neutral)?;
    let (low, high): (Vec<i64>, Vec<i64>) = w.padding.iter().copied().unzip();
    let interior: Vec<usize> = w.base_dilation.iter().map(|&d| d - 1).collect();
    b.pad(x, neutral, &low, &high, &interior)
}

/// From the first element of a window along `d` to its last.
fn span(w: &Window, d: usize) -> usize {
    (w.size[d] - 1) * w.dilation[d] + 1
}

/// Reduces the windows along `d`.
fn along(b: &Builder, x: ValueId, d: usize, site: &Windowing<'_>) -> Result<ValueId> {
    let w = site.window;
    let (size, dilation) = (w.size[d], w.dilation[d]);
    if size <= AT_ONCE || site.reducer == Reducer::Add {
        return combined(b, x, site.reducer, &Slices::of(&b.shape(x), w, d, every(1, size, dilation)));
    }
    let parts = combined(b, x, site.reducer, &Slices::of_parts(&b.shape(x), w, d))?;
    let parts = if site.with_host { b.push(Op::HostBarrier, &[parts], vec![])? } else { parts };
    combined(b, parts, site.reducer, &Slices::of(&b.shape(x), w, d, covering(size, dilation)))
}

/// Reduces the windows of elements and their places along `d`.
fn along_with_places(b: &Builder, both: [ValueId; 2], d: usize, site: &Windowing<'_>) -> Result<[ValueId; 2]> {
    let w = site.window;
    let (size, dilation, shape) = (w.size[d], w.dilation[d], b.shape(both[0]));
    if size <= AT_ONCE {
        return with_places(b, both, site.reducer, &Slices::of(&shape, w, d, every(1, size, dilation)));
    }
    let parts = with_places(b, both, site.reducer, &Slices::of_parts(&shape, w, d))?;
    with_places(b, parts, site.reducer, &Slices::of(&shape, w, d, covering(size, dilation)))
}

/// Every `step`-th element of `size`, `dilation` apart.
fn every(step: usize, size: usize, dilation: usize) -> Dims {
    (0..size).step_by(step).map(|i| i * dilation).collect()
}

/// Where windows of `AT_ONCE` start that cover one of `size`.
fn covering(size: usize, dilation: usize) -> Dims {
    let mut starts = every(AT_ONCE, size - AT_ONCE, dilation);
    starts.push((size - AT_ONCE) * dilation);
    starts
}

/// For each of `count` places along `d`, `stride` apart, the elements at `starts` from there on.
struct Slices {
    d: usize,
    starts: Dims,
    count: usize,
    stride: usize,
}

impl Slices {
    /// Of the windows along `d` of what has `shape`.
    fn of(shape: &Shape, w: &Window, d: usize, starts: Dims) -> Slices {
        let stride = w.strides[d];
        Slices { d, starts, count: (shape[d] - span(w, d)) / stride + 1, stride }
    }

    /// Of windows of `AT_ONCE` at every place.
    fn of_parts(shape: &Shape, w: &Window, d: usize) -> Slices {
        let dilation = w.dilation[d];
        Slices { d, starts: every(1, AT_ONCE, dilation), count: shape[d] - (AT_ONCE - 1) * dilation, stride: 1 }
    }

    fn take(&self, b: &Builder, x: ValueId) -> impl Iterator<Item = Result<ValueId>> {
        let length = (self.count - 1) * self.stride + 1;
        self.starts.iter().map(move |&start| b.slice_dim(x, self.d, start, start + length, self.stride))
    }
}

/// The slices of `x`, combined.
fn combined(b: &Builder, x: ValueId, reducer: Reducer, slices: &Slices) -> Result<ValueId> {
    let mut taken = slices.take(b, x);
    let first = taken.next().unwrap_or(Ok(x))?;
    taken.try_fold(first, |so_far, next| match reducer {
        Reducer::Maximum | Reducer::ArgMax => b.maximum(so_far, next?),
        Reducer::Minimum | Reducer::ArgMin => b.minimum(so_far, next?),
        _ => b.add(so_far, next?),
    })
}

/// The extremes among the slices of `x`, and the least of the places of what equals them, NaN's too.
fn with_places(b: &Builder, [x, i]: [ValueId; 2], reducer: Reducer, slices: &Slices) -> Result<[ValueId; 2]> {
    let extremes = combined(b, x, reducer, slices)?;
    let extremes = b.push(Op::HostBarrier, &[extremes], vec![])?;
    let far = b.full(Number::greatest(b.dtype(i)), b.dtype(i), &b.shape(extremes))?;
    let places = slices.take(b, x).zip(slices.take(b, i)).try_fold(far, |so_far, (x, i)| {
        let (x, i) = (x?, i?);
        let mut is_one = b.compare(Comparison::Eq, x, extremes)?;
        if b.dtype(x).is_float() {
            is_one = b.binary(Binary::Or, is_one, b.compare(Comparison::Ne, x, x)?)?;
        }
        b.minimum(so_far, b.select(is_one, i, far)?)
    })?;
    Ok([extremes, b.push(Op::HostBarrier, &[places], vec![])?])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formulate::testing::{Random, formulated_for};
    use crate::rules::tests::same;
    use crate::{Change, Platform};
    use ir::{Graph, TensorType, eval};

    /// Windows over what has `shape`; with places, counted backwards every other time, for reducers that find some.
    fn graph(reducer: Reducer, dtype: DType, shape: &[usize], window: &Window) -> Graph {
        let b = Builder::new("windows");
        let x = b.input("x", InputKind::User, TensorType::new(dtype, shape.iter().copied()));
        let op = Op::ReduceWindow { reducer, window: window.clone() };
        if !reducer.is_arg() {
            b.output("y", OutputKind::User, b.push(op, &[x], vec![]).unwrap());
            return b.finish();
        }
        let count = shape.iter().product::<usize>();
        let places = b.reshape(b.iota(DType::I32, &[count], 0).unwrap(), shape).unwrap();
        let places = if count.is_multiple_of(2) { b.unary(ir::Unary::Negate, places).unwrap() } else { places };
        let both = b.push(op, &[x, places], vec![]).unwrap();
        b.output("y", OutputKind::User, b.element(both, 0).unwrap());
        b.output("i", OutputKind::User, b.element(both, 1).unwrap());
        b.finish()
    }

    /// Whether `before` is said otherwise, after a look whether that means the same.
    fn is_rewritten(before: &Graph, platform: Platform, class: Class, random: &mut Random) -> bool {
        let (after, changes) = formulated_for(platform, before, Class::Reassociating, None);
        let inputs = random.inputs(before, class == Class::Exact || before.outputs.len() == 2);
        let (wanted, given) = (eval(before, &inputs).unwrap(), eval(&after, &inputs).unwrap());
        for (wanted, given) in wanted.iter().zip(&given) {
            let verdict = same(wanted, given, class);
            assert!(verdict.is_ok(), "{verdict:?}: {before:?}");
        }
        let ours = |change: &Change| [EXTREMES.name, SUMS.name, PLACES.name].contains(&change.rule);
        let windows = after.nodes().iter().any(|node| matches!(node.op, Op::ReduceWindow { .. }));
        assert_eq!(changes.iter().any(ours), !windows);
        !windows
    }

    #[test]
    fn random_windows_mean_the_same() {
        let mut r = Random(11);
        let mut rewritten = 0;
        for _ in 0..300 {
            let dtype = r.one_of(&[DType::F32, DType::F64, DType::BF16, DType::F16, DType::I32, DType::U8, DType::I64]);
            let found = [Reducer::ArgMax, Reducer::ArgMin];
            let reducer = r.one_of(&[Reducer::Maximum, Reducer::Minimum, Reducer::Add, found[0], found[1]]);
            let rank = r.within(1, 4);
            let mut shape: Vec<usize> = (0..rank).map(|_| r.within(2, 9)).collect();
            shape[0] = r.within(400, 1600) / shape[1..].iter().product::<usize>().min(200);
            let mut w = Window::trivial(rank);
            for d in r.below(rank)..rank {
                let long = if r.below(4) == 0 { 12 } else { 4 };
                w.size[d] = r.within(1, long);
                w.strides[d] = r.within(1, 3);
                w.dilation[d] = r.within(1, 2);
                w.base_dilation[d] = r.within(1, 2);
                let most = span(&w, d);
                w.padding[d] = (r.below(most) as i64 + most as i64 / 2, r.below(most) as i64 - 1);
            }
            let (class, exact) = (Class::Reassociating, Class::Exact);
            // What is found with its place may be another zero.
            let inexact = reducer == Reducer::Add || reducer.is_arg();
            let class = if inexact && dtype.is_float() { class } else { exact };
            let platform = r.one_of(&[Platform::Cpu, Platform::CpuWithBlas]);
            rewritten += usize::from(is_rewritten(&graph(reducer, dtype, &shape, &w), platform, class, &mut r));
        }
        assert!(rewritten > 50, "{rewritten} of 300");
    }

    #[test]
    fn what_places_are_compared_with_is_computed_once() {
        for is_computed in [false, true] {
            let b = Builder::new("windows");
            let input = b.input("x", InputKind::User, TensorType::new(DType::F32, [20, 60]));
            let x = if is_computed { b.unary(ir::Unary::Tanh, input).unwrap() } else { input };
            let mut window = Window::trivial(2);
            (window.size[1], window.padding[1]) = (3, (2, 0));
            let op = Op::ReduceWindow { reducer: Reducer::ArgMax, window };
            let both = b.push(op, &[x, b.iota(DType::I32, &[20, 60], 1).unwrap()], vec![]).unwrap();
            b.output("i", OutputKind::User, b.element(both, 1).unwrap());
            let (after, _) = formulated_for(Platform::CpuWithBlas, &b.finish(), Class::Reassociating, None);
            let tanh = |v: &ValueId| matches!(after.node(*v).op, Op::Unary(ir::Unary::Tanh) | Op::HostUnary(_));
            let readers: Vec<&Op> =
                after.nodes().iter().filter(|n| n.operands.iter().any(tanh)).map(|n| &n.op).collect();
            let once = readers.iter().all(|op| matches!(op, Op::HostBarrier));
            assert!(once && readers.len() == usize::from(is_computed), "{readers:?}");
        }
    }

    #[test]
    fn scans_small_results_and_other_platforms_stay() {
        let mut r = Random(2);
        let window = |size: usize, before: i64| {
            let mut w = Window::trivial(2);
            (w.size[1], w.padding[1]) = (size, (before, 0));
            w
        };
        let mut check = |platform, rows: usize, columns: usize, size: usize, before: i64| {
            let graph = graph(Reducer::Maximum, DType::F32, &[rows, columns], &window(size, before));
            is_rewritten(&graph, platform, Class::Exact, &mut r)
        };
        assert!(check(Platform::Cpu, 20, 60, 3, 2), "windows of three");
        assert!(check(Platform::Cpu, 20, 64, 64, 63), "the longest");
        assert!(!check(Platform::Cpu, 20, 65, 65, 64), "a scan");
        assert!(!check(Platform::Cpu, 20, 40, 3, 2), "few results");
        assert!(!check(Platform::Cpu, 2000, 2, 3, 0), "no window");
        assert!(!check(Platform::Tpu, 20, 60, 3, 2), "a TPU");
        let with_places = graph(Reducer::ArgMax, DType::F32, &[20, 60], &window(3, 2));
        assert!(
            is_rewritten(&with_places, Platform::CpuWithBlas, Class::Reassociating, &mut r),
            "places, with barriers"
        );
        assert!(!is_rewritten(&with_places, Platform::Cpu, Class::Reassociating, &mut r), "places, without");
    }
}
