//! The elements of an image under its windows, a row a tap and a column a window.

use std::ops::Range;

use hostcall::{Axis, Convolution};

use super::blas::{Element, Out};
use super::turn::turn;

/// Windows outside the image between two runs of windows within it, up to which both are copied as one and the zeros written
/// over what came along: rows of small images are not worth a copy each.
const SHORT: usize = 8;

/// Windows whose elements lie evenly spaced.
struct Run {
    windows: Range<usize>,
    /// Where the first has its element.
    from: usize,
}

/// Lines of windows side by side, each of which has all its taps of the last axis side by side: the columns of a line are the
/// transpose of what lies under it.
struct Patches {
    /// Where each line is in a channel, for one tap of the outer axes after the other; `None` outside of it.
    lines: Vec<Option<usize>>,
    /// Lines of each tap.
    count: usize,
    /// Windows of a line.
    windows: usize,
    /// Taps of a window.
    taps: usize,
}

impl Patches {
    /// Calls `f` with where each line is in a channel, and where its first tap's is in columns whose rows are `row` apart.
    fn each(&self, row: usize, mut f: impl FnMut(Option<usize>, usize)) {
        for (tap, lines) in self.lines.chunks(self.count).enumerate() {
            let first = tap * self.taps * row;
            lines.iter().enumerate().for_each(|(i, &line)| f(line, first + i * self.windows));
        }
    }

    /// The places of a line's taps in columns, the first of which is at `first`.
    fn rows(&self, first: usize, row: usize) -> impl Iterator<Item = Range<usize>> {
        (0..self.taps).map(move |tap| first + tap * row..first + tap * row + self.windows)
    }

    /// As [`Taps::read`].
    fn read<T: Element>(&self, channel: &[T], columns: &mut [T], row: usize) {
        self.each(row, |line, first| {
            let Some(line) = line else {
                return self.rows(first, row).for_each(|place| columns[place].fill(T::ZERO));
            };
            let from = &channel[line..line + self.windows * self.taps];
            let to = &mut columns[first..first + (self.taps - 1) * row + self.windows];
            let to = Out { at: to.as_mut_ptr(), row, add: false };
            // SAFETY: both slices end where the last of the elements is.
            unsafe { turn([self.windows, self.taps], from.as_ptr(), self.taps, to) };
        });
    }

    /// As [`Taps::add`].
    fn add<T: Element>(&self, columns: &mut [T], row: usize, channel: &mut [T]) {
        self.each(row, |line, first| {
            let Some(line) = line else {
                return self.rows(first, row).for_each(|place| columns[place].fill(T::ZERO));
            };
            let from = &columns[first..first + (self.taps - 1) * row + self.windows];
            let to = &mut channel[line..line + self.windows * self.taps];
            let to = Out { at: to.as_mut_ptr(), row: self.taps, add: true };
            // SAFETY: as above.
            unsafe { turn([self.taps, self.windows], from.as_ptr(), row, to) };
        });
    }
}

/// What some windows of each image have under all taps.
pub(super) struct Taps {
    /// Instead of runs and zeros, where windows are such.
    patches: Option<Patches>,
    /// Those of all taps, one tap after the other.
    runs: Vec<Run>,
    /// Windows that have zeros there, some of them within runs.
    zeros: Vec<Range<usize>>,
    /// By tap, where its runs and its zeros end.
    ends: Vec<(usize, usize)>,
    /// How far apart the elements of a run are.
    step: usize,
    plane: usize,
    windows: usize,
}

impl Taps {
    /// Of `windows`, counted over all axes of `of`, which [fits](Convolution::fits).
    pub(super) fn new(of: &Convolution, windows: &Range<usize>) -> Taps {
        let mut built = Taps {
            patches: None,
            runs: vec![],
            zeros: vec![],
            ends: Vec::with_capacity(of.taps()),
            step: of.axes.last().map_or(1, |axis| axis.stride),
            plane: of.plane(),
            windows: windows.len(),
        };
        let Some((last, outer)) = of.axes.split_last() else { return built };
        if windows.is_empty() || of.taps() == 0 {
            return built;
        }
        let lines = windows.start / last.map..windows.end.div_ceil(last.map);
        if lies_in_patches(last) && lines.len() * last.map == windows.len() {
            let outer_taps = 0..of.taps() / last.taps;
            let each = |tap| lines.clone().map(move |line| Some(line_of(outer, tap, line)? * last.image));
            let (count, lines) = (lines.len(), outer_taps.flat_map(each).collect());
            built.patches = Some(Patches { lines, count, windows: last.map, taps: last.taps });
            return built;
        }
        let mut under = vec![];
        for tap in 0..of.taps() / last.taps {
            under.clear();
            under.extend(lines.clone().map(|line| line_of(outer, tap, line)));
            (0..last.taps).for_each(|tap| built.tap(last, tap, &under, windows));
        }
        built
    }

    /// Writes the columns of a channel of an image, whose rows are `row` elements apart.
    pub(super) fn read<T: Element>(&self, channel: &[T], columns: &mut [T], row: usize) {
        if let Some(patches) = &self.patches {
            return patches.read(channel, columns, row);
        }
        for ((runs, zeros), to) in self.by_tap().zip(columns.chunks_mut(row)) {
            for run in runs {
                let to = &mut to[run.windows.clone()];
                match self.step {
                    1 => to.copy_from_slice(&channel[run.from..run.from + to.len()]),
                    step => to.iter_mut().zip(channel[run.from..].chunks(step)).for_each(|(to, from)| *to = from[0]),
                }
            }
            zeros.iter().for_each(|zeros| to[zeros.clone()].fill(T::ZERO));
        }
    }

    /// Adds columns to the elements of a channel that they were read of. What windows have outside the image becomes zero.
    pub(super) fn add<T: Element>(&self, columns: &mut [T], row: usize, channel: &mut [T]) {
        if let Some(patches) = &self.patches {
            return patches.add(columns, row, channel);
        }
        for ((runs, zeros), from) in self.by_tap().zip(columns.chunks_mut(row)) {
            zeros.iter().for_each(|zeros| from[zeros.clone()].fill(T::ZERO));
            for run in runs {
                let from = &from[run.windows.clone()];
                match self.step {
                    1 => {
                        let to = &mut channel[run.from..run.from + from.len()];
                        to.iter_mut().zip(from).for_each(|(to, &from)| *to += from);
                    }
                    step => {
                        let to = channel[run.from..].chunks_mut(step);
                        to.zip(from).for_each(|(to, &from)| to[0] += from);
                    }
                }
            }
        }
    }

    /// Runs and zeros of each tap.
    fn by_tap(&self) -> impl Iterator<Item = (&[Run], &[Range<usize>])> {
        let starts = std::iter::once((0, 0)).chain(self.ends.iter().copied());
        let between =
            |(start, end): ((usize, usize), &(usize, usize))| (&self.runs[start.0..end.0], &self.zeros[start.1..end.1]);
        starts.zip(&self.ends).map(between)
    }

    /// Appends what `windows` have under the `tap`-th of the last axis, where `under` are the lines of the image under
    /// theirs of the map.
    fn tap(&mut self, last: &Axis, tap: usize, under: &[Option<usize>], windows: &Range<usize>) {
        let (runs, zeros) = (self.runs.len(), self.zeros.len());
        let within = inside(last, tap);
        let mut start = windows.start;
        for line in under {
            let first = start % last.map;
            let end = last.map.min(first + windows.end - start);
            let at = start - windows.start;
            match line {
                Some(line) => {
                    let clip = |o: usize| o.clamp(first, end);
                    let (low, high) = (clip(within.start), clip(within.end));
                    self.zero(zeros, at..at + low - first);
                    if low < high {
                        let from = line * last.image + element(last, tap, low);
                        self.run(runs, at + low - first..at + high - first, from, last.stride);
                    }
                    self.zero(zeros, at + high - first..at + end - first);
                }
                None => self.zero(zeros, at..at + end - first),
            }
            start += end - first;
        }
        self.ends.push((self.runs.len(), self.zeros.len()));
    }

    /// Appends zeros to those of a tap, which begin at `own`.
    fn zero(&mut self, own: usize, windows: Range<usize>) {
        match self.zeros[own..].last_mut() {
            _ if windows.is_empty() => {}
            Some(last) if last.end == windows.start => last.end = windows.end,
            _ => self.zeros.push(windows),
        }
    }

    /// Appends a run to those of a tap, which begin at `own`.
    fn run(&mut self, own: usize, windows: Range<usize>, from: usize, step: usize) {
        if let Some(last) = self.runs[own..].last_mut() {
            let near = windows.start - last.windows.end <= SHORT;
            if near && last.from + (windows.start - last.windows.start) * step == from {
                last.windows.end = windows.end;
                return;
            }
        }
        self.runs.push(Run { windows, from });
    }

    /// Elements of a channel.
    pub(super) fn plane(&self) -> usize {
        self.plane
    }

    /// How many windows an image has here.
    pub(super) fn windows(&self) -> usize {
        self.windows
    }
}

/// Whether all windows along an axis lie within the image, side by side, and leave out nothing between their taps.
fn lies_in_patches(axis: &Axis) -> bool {
    let side_by_side = axis.stride > 1 && axis.stride == axis.taps && axis.dilation == 1;
    side_by_side && axis.low == 0 && axis.map * axis.stride <= axis.image
}

/// The windows along an axis that have `tap` within the image. It may be empty, and begin anywhere.
fn inside(axis: &Axis, tap: usize) -> Range<usize> {
    let before = axis.low - (tap * axis.dilation) as i64;
    let stride = axis.stride as i64;
    // The first window at or after the first element, and the first after the last.
    let first = |element: i64| (element + stride - 1).div_euclid(stride).clamp(0, axis.map as i64) as usize;
    first(before)..first(before + axis.image as i64)
}

/// The element of the image that a window has under `tap`, which is within it.
fn element(axis: &Axis, tap: usize, window: usize) -> usize {
    ((window * axis.stride + tap * axis.dilation) as i64 - axis.low) as usize
}

/// The line of the image under the `line`-th of the map, both counted over `axes`; `None` outside of it.
fn line_of(axes: &[Axis], mut tap: usize, mut line: usize) -> Option<usize> {
    let (mut sum, mut size) = (0, 1);
    for axis in axes.iter().rev() {
        let (window, own) = (line % axis.map, tap % axis.taps);
        if !inside(axis, own).contains(&window) {
            return None;
        }
        sum += element(axis, own, window) * size;
        (size, line, tap) = (size * axis.image, line / axis.map, tap / axis.taps);
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostcall::Computes;

    fn all_axes() -> Vec<Vec<Axis>> {
        let axis = |image, map, taps, stride, dilation, low| Axis { image, map, taps, stride, dilation, low };
        vec![
            vec![axis(7, 7, 3, 1, 1, 1)],
            vec![axis(7, 9, 3, 1, 1, 2), axis(5, 5, 3, 1, 1, 1)],
            vec![axis(7, 4, 3, 2, 1, 1), axis(30, 15, 3, 2, 1, 1)],
            vec![axis(9, 3, 2, 1, 3, -2), axis(6, 2, 3, 3, 2, 1)],
            vec![axis(3, 3, 3, 1, 1, 1), axis(4, 4, 3, 1, 1, 1), axis(5, 5, 3, 1, 1, 1)],
            vec![axis(2, 9, 4, 1, 1, 6), axis(20, 40, 1, 1, 1, 10)],
            vec![axis(4, 2, 1, 2, 1, 0), axis(4, 2, 1, 2, 1, 0)],
            vec![axis(16, 2, 8, 8, 1, 0), axis(81, 10, 8, 8, 1, 0)],
            vec![axis(9, 4, 3, 3, 1, 2), axis(9, 3, 3, 3, 1, 0)],
        ]
    }

    /// By the definition: the element under each tap of each window.
    fn places(axes: &[Axis]) -> Vec<Vec<Option<usize>>> {
        let mut places = vec![vec![Some(0)]];
        for a in axes {
            let here = |tap: usize, window: usize| {
                let at = (window * a.stride + tap * a.dilation) as i64 - a.low;
                usize::try_from(at).ok().filter(|&at| at < a.image)
            };
            let row = |row: &Vec<Option<usize>>, tap| {
                let of = |&outer: &Option<usize>| (0..a.map).map(move |w| Some(outer? * a.image + here(tap, w)?));
                row.iter().flat_map(of).collect::<Vec<_>>()
            };
            places = places.iter().flat_map(|r| (0..a.taps).map(|tap| row(r, tap)).collect::<Vec<_>>()).collect();
        }
        places
    }

    #[test]
    fn columns_are_what_is_under_windows() {
        for axes in all_axes() {
            let of = Convolution { computes: Computes::Map, images: 1, groups: 1, channels: 1, features: 1, axes };
            let places = places(&of.axes);
            let channel: Vec<f32> = (1..=of.plane()).map(|i| i as f32).collect();
            let all = of.windows();
            for windows in [0..all, 0..all / 2, all / 3..all, all / 2..all / 2 + 1] {
                let (taps, row) = (Taps::new(&of, &windows), windows.len() + 2);
                let mut columns = vec![f32::NAN; row * of.taps()];
                taps.read(&channel, &mut columns, row);
                for (place, column) in places.iter().zip(columns.chunks(row)) {
                    let wanted = place[windows.clone()].iter().map(|p| p.map_or(0.0, |p| channel[p]));
                    assert!(wanted.eq(column[..windows.len()].iter().copied()), "{of:?} {windows:?}");
                    assert!(column[windows.len()..].iter().all(|x| x.is_nan()), "written beyond the row");
                }
            }
        }
    }

    #[test]
    fn columns_are_added_where_they_were_read() {
        for axes in all_axes() {
            let of = Convolution { computes: Computes::Image, images: 1, groups: 1, channels: 1, features: 1, axes };
            let places = places(&of.axes);
            let (taps, row) = (Taps::new(&of, &(0..of.windows())), of.windows());
            let mut columns: Vec<f32> = (0..row * of.taps()).map(|i| (i % 13) as f32).collect();
            let mut wanted = vec![1.0; of.plane()];
            for (place, column) in places.iter().zip(columns.chunks(row)) {
                place.iter().zip(column).for_each(|(p, x)| p.iter().for_each(|&p| wanted[p] += x));
            }
            let mut channel = vec![1.0; of.plane()];
            taps.add(&mut columns, row, &mut channel);
            assert_eq!(channel, wanted, "{of:?}");
        }
    }
}
