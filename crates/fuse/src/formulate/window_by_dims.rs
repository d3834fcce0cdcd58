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

use super::rebuild::Rebuild;
use super::{Rewrite, Rule, Windowing};
use crate::Class;
use ir::op::{Reducer, Window};
use ir::{Builder, DType, Dims, InputKind, Op, OutputKind, Result, ValueId};

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
    let mut x = padded(&b, input, site.reducer, w)?;
    let shape = b.shape(x);
    if shape.contains(&0) || (0..shape.len()).any(|d| span(w, d) > shape[d]) {
        return Ok(None); // no window at all
    }
    let dims = (0..w.size.len()).filter(|&d| w.size[d] > 1 || w.strides[d] > 1);
    for (i, d) in dims.enumerate() {
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

/// `x` with what is around it and between its elements, which changes no result.
fn padded(b: &Builder, x: ValueId, reducer: Reducer, w: &Window) -> Result<ValueId> {
    if w.padding.iter().all(|&p| p == (0, 0)) && w.base_dilation.iter().all(|&d| d == 1) {
        return Ok(x);
    }
    let neutral = b.constant(reducer.identity(b.dtype(x)))?;
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
    let (size, stride, dilation) = (w.size[d], w.strides[d], w.dilation[d]);
    let count = (b.shape(x)[d] - span(w, d)) / stride + 1;
    if size <= AT_ONCE || site.reducer == Reducer::Add {
        return combined(b, x, d, site.reducer, &(0..size).map(|i| i * dilation).collect::<Dims>(), [count, stride]);
    }
    // Windows of so many at every place, and as many of those as cover one of `size`.
    let places = b.shape(x)[d] - (AT_ONCE - 1) * dilation;
    let parts = combined(b, x, d, site.reducer, &(0..AT_ONCE).map(|i| i * dilation).collect::<Dims>(), [places, 1])?;
    let parts = if site.with_host { b.push(Op::HostBarrier, &[parts], vec![])? } else { parts };
    let starts = (0..size - AT_ONCE).step_by(AT_ONCE).chain([size - AT_ONCE]).map(|i| i * dilation).collect::<Dims>();
    combined(b, parts, d, site.reducer, &starts, [count, stride])
}

/// For each of `count` places along `d`, `stride` apart, the elements at `starts` from there on, combined.
fn combined(
    b: &Builder,
    x: ValueId,
    d: usize,
    reducer: Reducer,
    starts: &[usize],
    [count, stride]: [usize; 2],
) -> Result<ValueId> {
    let slice = |start: usize| b.slice_dim(x, d, start, start + (count - 1) * stride + 1, stride);
    let mut slices = starts.iter().map(|&start| slice(start));
    let first = slices.next().unwrap_or(Ok(x))?;
    slices.try_fold(first, |so_far, next| match reducer {
        Reducer::Maximum => b.maximum(so_far, next?),
        Reducer::Minimum => b.minimum(so_far, next?),
        _ => b.add(so_far, next?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formulate::testing::{Random, formulated_for};
    use crate::rules::tests::same;
    use crate::{Change, Platform};
    use ir::{Graph, TensorType, eval};

    fn graph(reducer: Reducer, dtype: DType, shape: &[usize], window: &Window) -> Graph {
        let b = Builder::new("windows");
        let x = b.input("x", InputKind::User, TensorType::new(dtype, shape.iter().copied()));
        b.output("y", OutputKind::User, b.reduce_window(x, reducer, window.clone()).unwrap());
        b.finish()
    }

    /// Whether `before` is said otherwise, after a look whether that means the same.
    fn is_rewritten(before: &Graph, platform: Platform, class: Class, random: &mut Random) -> bool {
        let (after, changes) = formulated_for(platform, before, Class::Reassociating, None);
        let inputs = random.inputs(before, class == Class::Exact);
        let (wanted, given) = (eval(before, &inputs).unwrap(), eval(&after, &inputs).unwrap());
        let verdict = same(&wanted[0], &given[0], class);
        assert!(verdict.is_ok(), "{verdict:?}: {before:?}");
        let ours = |change: &Change| [EXTREMES.name, SUMS.name].contains(&change.rule);
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
            let reducer = r.one_of(&[Reducer::Maximum, Reducer::Minimum, Reducer::Add]);
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
            let class = if reducer == Reducer::Add && dtype.is_float() { class } else { exact };
            let platform = r.one_of(&[Platform::Cpu, Platform::CpuWithBlas]);
            rewritten += usize::from(is_rewritten(&graph(reducer, dtype, &shape, &w), platform, class, &mut r));
        }
        assert!(rewritten > 50, "{rewritten} of 300");
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
    }
}
