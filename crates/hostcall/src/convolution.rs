//! Convolutions and their gradients as matrix products: the elements under a window are a column.

use crate::share::{cut, parts, size, sizes};
use std::ops::Range;

/// Columns that are multiplied at once, at least: fewer are not worth packing the other operand.
const LEAST_COLUMNS: usize = 512;

/// Rows of a product, at least: as above, for the gradients of kernels.
const LEAST_ROWS: usize = 128;

/// Elements of columns that are kept at once where more of them are not needed for that: half of a core's cache.
const MOST_ELEMENTS: usize = 1 << 18;

/// A dimension that windows slide along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Axis {
    /// Elements of the image.
    pub image: usize,
    /// Elements of the map: windows.
    pub map: usize,
    /// Elements of the kernel: taps.
    pub taps: usize,
    /// Elements of the image from a window to the next.
    pub stride: usize,
    /// Elements of the image from a tap to the next.
    pub dilation: usize,
    /// Zeros before the image; negative where windows begin inside it.
    pub low: i64,
}

/// Which of the three tensors is computed of the other two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Computes {
    /// Of image and kernel: a convolution.
    Map,
    /// Of map and kernel: the gradient of a convolution's input, or a transposed convolution.
    Image,
    /// Of image and map: the gradient of its kernel.
    Kernel,
}

/// A relation of three tensors, which lie in rows:
///
/// - the image, `[images, groups * channels, ...]`;
/// - the map, `[images, groups * features, ...]`;
/// - the kernel, `[groups * features, channels, ...]`, or `[features, groups * channels, ...]` for [`Computes::Image`].
///
/// Where window `o` has tap `t` over element `o * stride + t * dilation - low` of the image, the map has the sum of
/// the image's elements times the kernel's there, over the channels of its group; both others have the adjoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Convolution {
    /// What is computed.
    pub computes: Computes,
    /// How many images.
    pub images: usize,
    /// Groups that know nothing of each other.
    pub groups: usize,
    /// Channels of the image in a group.
    pub channels: usize,
    /// Features of the map in a group.
    pub features: usize,
    /// The dimensions, at least one, the slowest first.
    pub axes: Vec<Axis>,
}

/// Windows of some images: columns, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Columns {
    /// Which images.
    pub images: Range<usize>,
    /// Which windows of each, counted over all axes.
    pub windows: Range<usize>,
}

/// A part of the result that is computed at once, or of its sum, if columns are missing of a kernel's. What names no elements
/// of the result is summed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// Which groups.
    pub groups: Range<usize>,
    /// Channels of each.
    pub channels: Range<usize>,
    /// Features of each.
    pub features: Range<usize>,
    /// And places.
    pub columns: Columns,
}

impl Columns {
    /// How many.
    pub fn len(&self) -> usize {
        self.images.len() * self.windows.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Convolution {
    /// What programs call: `stablehlo.custom_call @torchtpu.convolution`, of the two tensors that are not computed, in the
    /// order in which [`Computes`] names them.
    pub const TARGET: &str = "torchtpu.convolution";

    /// As [`Convolution::decode`] reads it.
    pub fn encode(&self) -> Vec<i64> {
        let computes = match self.computes {
            Computes::Map => 0,
            Computes::Image => 1,
            Computes::Kernel => 2,
        };
        let own = [self.images, self.groups, self.channels, self.features].map(|x| x as i64);
        let axis = |a: &Axis| {
            let [image, map, taps, stride, dilation] = [a.image, a.map, a.taps, a.stride, a.dilation].map(|x| x as i64);
            [image, map, taps, stride, dilation, a.low]
        };
        [computes].into_iter().chain(own).chain(self.axes.iter().flat_map(axis)).collect()
    }

    /// What [`Convolution::encode`] wrote; `None` if it did not write this.
    pub fn decode(numbers: &[i64]) -> Option<Convolution> {
        let (&[computes, own @ ..], axes) = numbers.split_first_chunk::<5>()?;
        let [images, groups, channels, features] = sizes(&own)?;
        let computes = match computes {
            0 => Computes::Map,
            1 => Computes::Image,
            2 => Computes::Kernel,
            _ => return None,
        };
        let (axes, rest) = axes.as_chunks::<6>();
        let axis = |&[own @ .., low]: &[i64; 6]| {
            let [image, map, taps, stride, dilation] = sizes(&own)?;
            Some(Axis { image, map, taps, stride, dilation, low })
        };
        let axes = axes.iter().map(axis).collect::<Option<Vec<_>>>()?;
        let convolution = Convolution { computes, images, groups, channels, features, axes };
        (rest.is_empty() && !convolution.axes.is_empty()).then_some(convolution)
    }

    /// Elements of each channel of an image.
    pub fn plane(&self) -> usize {
        self.axes.iter().map(|a| a.image).product()
    }

    /// Windows of an image.
    pub fn windows(&self) -> usize {
        self.axes.iter().map(|a| a.map).product()
    }

    /// Elements of a kernel for one channel.
    pub fn taps(&self) -> usize {
        self.axes.iter().map(|a| a.taps).product()
    }

    /// Elements of the image.
    pub fn image_len(&self) -> Option<usize> {
        self.len(&[self.images, self.groups, self.channels], |a| a.image)
    }

    /// Elements of the map.
    pub fn map_len(&self) -> Option<usize> {
        self.len(&[self.images, self.groups, self.features], |a| a.map)
    }

    /// Elements of the kernel.
    pub fn kernel_len(&self) -> Option<usize> {
        self.len(&[self.groups, self.features, self.channels], |a| a.taps)
    }

    fn len(&self, first: &[usize], extent: fn(&Axis) -> usize) -> Option<usize> {
        size(first.iter().copied().chain(self.axes.iter().map(extent)))
    }

    /// Whether operands of `lhs` and `rhs` elements and a result of `out` are exactly those of this, none of them empty, and
    /// its numbers are such that places and sizes of matrices fit the integers they are counted in.
    pub fn fits(&self, lhs: usize, rhs: usize, out: usize) -> bool {
        let Some((image, map, kernel)) =
            self.image_len().and_then(|image| Some((image, self.map_len()?, self.kernel_len()?)))
        else {
            return false;
        };
        let wanted = match self.computes {
            Computes::Map => (image, kernel, map),
            Computes::Image => (map, kernel, image),
            Computes::Kernel => (image, map, kernel),
        };
        // Any of these bounds all matrices, whose sides are among their factors.
        let small = [image, map, kernel].iter().all(|&len| (1..1 << 31).contains(&len));
        let axis = |a: &Axis| {
            let within = |x: usize| (1..1 << 31).contains(&x);
            let reach = [a.map.saturating_mul(a.stride), a.taps.saturating_mul(a.dilation)];
            reach.into_iter().all(within) && a.low.unsigned_abs() < 1 << 31
        };
        wanted == (lhs, rhs, out) && small && self.axes.iter().all(axis)
    }

    /// Whether the columns of an image are its channels as they lie.
    pub fn is_pointwise(&self) -> bool {
        self.axes.iter().all(|a| a.taps == 1 && a.stride == 1 && a.low == 0 && a.image == a.map)
    }

    /// Multiplications.
    pub fn work(&self) -> usize {
        let windows = [self.images, self.groups, self.channels, self.features];
        windows.into_iter().chain([self.windows(), self.taps()]).fold(1, usize::saturating_mul)
    }

    /// The result in parts that `threads` may take.
    pub fn tasks(&self, threads: usize) -> Vec<Task> {
        let mut parts = parts(self.work(), threads);
        let columns = Columns { images: 0..self.images, windows: 0..self.windows() };
        if self.computes != Computes::Kernel && columns.len() < LEAST_COLUMNS * parts {
            parts = parts.min(threads);
        }
        let whole = Task { groups: 0..self.groups, channels: 0..self.channels, features: 0..self.features, columns };
        if self.groups >= parts {
            return cut(self.groups, parts, 1).map(|groups| Task { groups, ..whole.clone() }).collect();
        }
        if self.is_better_summed_in(parts) {
            return self.columns_of(&whole, parts);
        }
        let each = parts.div_ceil(self.groups);
        (0..self.groups).flat_map(|g| self.cut(&Task { groups: g..g + 1, ..whole.clone() }, each)).collect()
    }

    /// Whether `task` is a part of a sum, over all of the result.
    pub fn is_part_of_sum(&self, task: &Task) -> bool {
        self.computes == Computes::Kernel && task.columns.len() < self.images * self.windows()
    }

    /// Whether a kernel of few channels is the sum of many columns.
    fn is_better_summed_in(&self, parts: usize) -> bool {
        let (rows, columns) = (self.groups * self.channels * self.taps(), self.images * self.windows());
        self.computes == Computes::Kernel && rows < LEAST_ROWS * parts && columns >= LEAST_ROWS * parts
    }

    /// `task`, which is all of a group, in about `parts`.
    fn cut(&self, task: &Task, parts: usize) -> Vec<Task> {
        let of_image = |i: usize| Task {
            columns: Columns { images: i..i + 1, windows: task.columns.windows.clone() },
            ..task.clone()
        };
        let channels = |task: &Task, parts| -> Vec<Task> {
            cut(task.channels.len(), parts, 1).map(|channels| Task { channels, ..task.clone() }).collect()
        };
        let features = |task: &Task, parts| -> Vec<Task> {
            cut(task.features.len(), parts, 16).map(|features| Task { features, ..task.clone() }).collect()
        };
        match self.computes {
            Computes::Kernel if self.channels >= parts => channels(task, parts),
            Computes::Kernel => features(task, parts),
            Computes::Map if self.images >= parts || self.windows() >= self.features => self.columns_of(task, parts),
            Computes::Image if self.images >= parts => self.columns_of(task, parts),
            computes => {
                let of_one = if computes == Computes::Image { channels } else { features };
                (0..self.images).flat_map(|i| of_one(&of_image(i), parts.div_ceil(self.images))).collect()
            }
        }
    }

    /// `task`, which has all columns, in about `parts`.
    fn columns_of(&self, task: &Task, parts: usize) -> Vec<Task> {
        let part = |columns| Task { columns, ..task.clone() };
        if self.images >= parts {
            let windows = || task.columns.windows.clone();
            return cut(self.images, parts, 1).map(|images| part(Columns { images, windows: windows() })).collect();
        }
        let more = parts.div_ceil(self.images);
        let of = |i: usize| cut(self.windows(), more, 16).map(move |windows| Columns { images: i..i + 1, windows });
        (0..self.images).flat_map(of).map(part).collect()
    }

    /// The columns of `task` in parts to be multiplied at once: of one image some windows, or of several all.
    pub fn chunks(&self, task: &Task) -> Vec<Columns> {
        let Columns { images, windows } = task.columns.clone();
        let rows = (task.channels.len() * self.taps()).max(1);
        let wanted = (MOST_ELEMENTS / rows).max(LEAST_COLUMNS);
        let together = (wanted / windows.len().max(1)).clamp(1, images.len().max(1));
        if together > 1 {
            let several = cut(images.len(), images.len().div_ceil(together), 1);
            return several
                .map(|i| Columns { images: images.start + i.start..images.start + i.end, windows: windows.clone() })
                .collect();
        }
        let some: Vec<Range<usize>> = cut(windows.len(), windows.len().div_ceil(wanted), 16).collect();
        let of = |i: usize| {
            let within = |w: &Range<usize>| windows.start + w.start..windows.start + w.end;
            some.iter().map(move |w| Columns { images: i..i + 1, windows: within(w) }).collect::<Vec<_>>()
        };
        images.flat_map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn convolution(computes: Computes, [images, groups, channels, features]: [usize; 4], side: usize) -> Convolution {
        let axis = Axis { image: side, map: side, taps: 3, stride: 1, dilation: 1, low: 1 };
        Convolution { computes, images, groups, channels, features, axes: vec![axis; 2] }
    }

    fn some() -> impl Iterator<Item = (Convolution, usize)> {
        let sizes = [
            ([1, 1, 1, 1], 1, 1),
            ([8, 1, 64, 64], 14, 2),
            ([1, 1, 512, 512], 7, 4),
            ([3, 1, 3, 64], 40, 2),
            ([2, 32, 4, 4], 28, 8),
            ([5, 2, 16, 100], 9, 16),
        ];
        let all = [Computes::Map, Computes::Image, Computes::Kernel];
        all.into_iter().flat_map(move |computes| {
            sizes.into_iter().map(move |(sizes, side, threads)| (convolution(computes, sizes, side), threads))
        })
    }

    #[test]
    fn numbers_come_back() {
        for (mut it, _) in some() {
            it.axes[0] = Axis { image: 9, map: 3, taps: 2, stride: 3, dilation: 2, low: -1 };
            let numbers = it.encode();
            assert_eq!(Convolution::decode(&numbers), Some(it));
            assert_eq!(Convolution::decode(&numbers[..numbers.len() - 1]), None);
            assert_eq!(Convolution::decode(&numbers[..5]), None, "no axes");
            assert_eq!(Convolution::decode(&numbers[..4]), None);
        }
        let mut numbers = convolution(Computes::Map, [1, 1, 1, 1], 1).encode();
        numbers[0] = 3;
        assert_eq!(Convolution::decode(&numbers), None);
        (numbers[0], numbers[1]) = (0, -1);
        assert_eq!(Convolution::decode(&numbers), None);
    }

    #[test]
    fn operands_must_have_the_sizes() {
        let it = convolution(Computes::Image, [2, 1, 3, 4], 5);
        let (image, map, kernel) = (150, 200, 108);
        assert!(it.fits(map, kernel, image));
        for (lhs, rhs, out) in [(map + 1, kernel, image), (map, kernel - 1, image), (map, kernel, image + 1)] {
            assert!(!it.fits(lhs, rhs, out), "{lhs} {rhs} {out}");
        }
        assert!(!it.fits(image, kernel, map), "the order is another");
        let with = |change: fn(&mut Axis)| {
            let mut it = it.clone();
            change(&mut it.axes[0]);
            it
        };
        assert!(!with(|a| a.stride = 0).fits(map, kernel, image));
        assert!(!with(|a| a.dilation = 1 << 40).fits(map, kernel, image));
        assert!(!with(|a| a.low = i64::MIN).fits(map, kernel, image));
        assert!(!with(|a| a.map = usize::MAX).fits(map, kernel, image));
        assert!(!with(|a| a.image = 0).fits(map, kernel, 0));
    }

    #[test]
    fn tasks_cover_the_result_once() {
        for (it, threads) in some() {
            let tasks = it.tasks(threads);
            let (images, windows) = (it.images, it.windows());
            // Where the result has no such dimension, a task has all of it.
            let (extents, all) = match it.computes {
                Computes::Map => ([it.features, images, 1, windows], it.map_len()),
                Computes::Image => ([it.channels, images, 1, 1], it.image_len().map(|len| len / it.plane())),
                Computes::Kernel => {
                    let taps = it.taps();
                    ([it.channels, it.features, images, windows], it.kernel_len().map(|n| n / taps * images * windows))
                }
            };
            let mut seen = vec![0; it.groups * extents.iter().product::<usize>()];
            for task in &tasks {
                let (c, f) = (task.channels.clone(), task.features.clone());
                let Columns { images, windows, .. } = task.columns.clone();
                let [x, y, z, w] = match it.computes {
                    Computes::Map => [f, images, 0..1, windows],
                    Computes::Image => [c, images, 0..1, 0..1],
                    Computes::Kernel => [c, f, images, windows],
                };
                for (group, x) in task.groups.clone().flat_map(|group| x.clone().map(move |x| (group, x))) {
                    for (y, z) in y.clone().flat_map(|y| z.clone().map(move |z| (y, z))) {
                        let row = ((group * extents[0] + x) * extents[1] + y) * extents[2] + z;
                        seen[row * extents[3]..][w.clone()].iter_mut().for_each(|times| *times += 1);
                    }
                }
            }
            assert_eq!(Some(seen.len()), all, "{it:?}");
            let sums = tasks.iter().filter(|task| it.is_part_of_sum(task)).count();
            assert!(sums == 0 || sums == tasks.len(), "{it:?}");
            assert!(seen.iter().all(|&times| times == 1), "{it:?}");
            assert!(tasks.len() <= 4 * threads.max(it.images), "{} tasks of {it:?}", tasks.len());
        }
        let small = convolution(Computes::Map, [1, 1, 4, 4], 4);
        assert_eq!(small.tasks(8).len(), 1, "too small to share");
        assert!(convolution(Computes::Map, [1, 1, 256, 256], 14).tasks(2).len() > 1);
    }

    #[test]
    fn chunks_cover_a_task_once() {
        for (it, threads) in some() {
            for task in it.tasks(threads) {
                let chunks = it.chunks(&task);
                let places = |c: &Columns| {
                    let windows = c.windows.clone();
                    c.images.clone().flat_map(move |i| windows.clone().map(move |w| (i, w))).collect::<Vec<_>>()
                };
                let mut seen: Vec<_> = chunks.iter().flat_map(places).collect();
                seen.sort_unstable();
                assert_eq!(seen, places(&task.columns));
                let whole = |c: &Columns| c.images.len() == 1 || c.windows == task.columns.windows;
                assert!(chunks.iter().all(whole), "{chunks:?}");
            }
        }
    }
}
