//! Convolutions and their gradients, as products of a matrix and of [columns](super::columns).

use std::ops::Range;
use std::slice;

use hostcall::{Columns, Computes, Convolution, Strides, Task};

use super::blas::{Blas, Element, Matrix, Operands, Out};
use super::columns::Taps;
use super::finishing::Features;
use super::scratch::with_scratch;

/// A convolution whose tensors are in memory.
pub(super) struct Call<'a, T> {
    pub(super) blas: &'a Blas,
    pub(super) of: &'a Convolution,
    pub(super) operands: Operands<T>,
}

/// One group's part of a task.
struct Part<'a> {
    group: usize,
    channels: &'a Range<usize>,
    features: &'a Range<usize>,
}

impl<T: Element> Call<'_, T> {
    /// Computes a part of the result.
    ///
    /// # Safety
    /// The convolution [fits](Convolution::fits) the operands' memory, `task` is one of its tasks, and nobody else computes it.
    pub(super) unsafe fn run(&self, task: &Task) {
        let (chunks, images) = (self.of.chunks(task), &task.columns.images);
        for group in task.groups.clone() {
            let part = Part { group, channels: &task.channels, features: &task.features };
            // SAFETY: forwarded to the caller.
            unsafe {
                match self.of.computes {
                    Computes::Map => chunks.iter().for_each(|chunk| self.map(&part, chunk)),
                    Computes::Image if self.of.is_pointwise() => images.clone().for_each(|i| self.gather(&part, i)),
                    Computes::Image => {
                        images.clone().for_each(|i| self.channels_mut(&part, i).fill(T::ZERO));
                        chunks.iter().for_each(|chunk| self.image(&part, chunk));
                    }
                    Computes::Kernel => {
                        chunks.iter().enumerate().for_each(|(i, chunk)| self.kernel(&part, chunk, i > 0));
                    }
                }
            }
        }
    }

    /// Windows of the map.
    unsafe fn map(&self, part: &Part<'_>, chunk: &Columns) {
        let [features, columns, rows] = self.extents(part, chunk);
        let several = chunk.images.len() > 1;
        let sizes =
            [if self.in_place(chunk) { 0 } else { rows * columns }, if several { features * columns } else { 0 }];
        with_scratch(sizes, |[read, made]| {
            // SAFETY: the operands hold what the convolution says, and scratch memory what was asked for.
            unsafe {
                let kernel = self.operands.rhs.add((part.group * self.of.features + part.features.start) * rows);
                let kernel = Matrix { at: kernel, strides: in_rows(rows) };
                let first = self.map_at(part, chunk.images.start, chunk.windows.start);
                let out = match several {
                    true => Out { at: made.as_mut_ptr(), row: columns, add: false },
                    false => Out { at: self.operands.out.add(first), row: self.of.windows(), add: false },
                };
                let read = self.columns(part, chunk, read);
                self.blas.multiply([features, columns, rows], kernel, read, out);
                self.each_feature(part, chunk, |feature, map, here| {
                    let Operands { out, finish, .. } = self.operands;
                    let len = here.len();
                    if several {
                        slice::from_raw_parts_mut(out.add(map), len).copy_from_slice(&made[here]);
                    }
                    finish.apply(out, map, len, Features::All(feature));
                });
            }
        });
    }

    /// Adds to the image what its windows pass back.
    unsafe fn image(&self, part: &Part<'_>, chunk: &Columns) {
        let [features, columns, rows] = self.extents(part, chunk);
        let map = if chunk.images.len() > 1 { features * columns } else { 0 };
        with_scratch([rows * columns, map], |[made, map]| {
            let taps = Taps::new(self.of, &chunk.windows);
            // SAFETY: as above.
            unsafe {
                let out = Out { at: made.as_mut_ptr(), row: columns, add: false };
                let map = self.map_matrix(part, chunk, map);
                self.blas.multiply([rows, columns, features], self.turned_kernel(part), map, out);
                for (i, image) in chunk.images.clone().enumerate() {
                    let channels = self.channels_mut(part, image).chunks_exact_mut(taps.plane());
                    for (channel, made) in channels.zip(made.chunks_mut(self.of.taps() * columns)) {
                        taps.add(&mut made[i * taps.windows()..], columns, channel);
                    }
                }
            }
        });
    }

    /// The channels of an image whose windows have one element each.
    unsafe fn gather(&self, part: &Part<'_>, image: usize) {
        let chunk = Columns { images: image..image + 1, windows: 0..self.of.windows() };
        let [features, columns, rows] = self.extents(part, &chunk);
        // SAFETY: as above.
        unsafe {
            let out = Out { at: self.channels_mut(part, image).as_mut_ptr(), row: columns, add: false };
            let map = self.map_matrix(part, &chunk, &mut []);
            self.blas.multiply([rows, columns, features], self.turned_kernel(part), map, out);
        }
    }

    /// Adds to the kernel what some windows have for it, or begins with it.
    unsafe fn kernel(&self, part: &Part<'_>, chunk: &Columns, add: bool) {
        let [features, columns, rows] = self.extents(part, chunk);
        let map = if chunk.images.len() > 1 { features * columns } else { 0 };
        with_scratch([if self.in_place(chunk) { 0 } else { rows * columns }, map], |[read, map]| {
            let Convolution { channels, features: all, .. } = *self.of;
            let row = channels * self.of.taps();
            let at = (part.group * all + part.features.start) * row + part.channels.start * self.of.taps();
            // SAFETY: as above.
            unsafe {
                let map = self.map_matrix(part, chunk, map);
                let read = self.columns(part, chunk, read).turned();
                let out = Out { at: self.operands.out.add(at), row, add };
                self.blas.multiply([features, rows, columns], map, read, out);
            }
        });
    }

    /// Features, columns, and rows of columns.
    fn extents(&self, part: &Part<'_>, chunk: &Columns) -> [usize; 3] {
        [part.features.len(), chunk.len(), part.channels.len() * self.of.taps()]
    }

    /// Whether columns can be read as the image lies.
    fn in_place(&self, chunk: &Columns) -> bool {
        self.of.is_pointwise() && chunk.images.len() == 1
    }

    /// The columns of `chunk`: a row a channel and a tap.
    unsafe fn columns(&self, part: &Part<'_>, chunk: &Columns, read: &mut [T]) -> Matrix<T> {
        let (plane, count) = (self.of.plane(), chunk.len());
        if self.in_place(chunk) {
            let at = self.image_at(part, chunk.images.start) + chunk.windows.start;
            // SAFETY: as above.
            return Matrix { at: unsafe { self.operands.lhs.add(at) }, strides: in_rows(plane) };
        }
        let taps = Taps::new(self.of, &chunk.windows);
        for (i, image) in chunk.images.clone().enumerate() {
            // SAFETY: as above.
            let channels = unsafe {
                let at = self.operands.lhs.add(self.image_at(part, image));
                slice::from_raw_parts(at, part.channels.len() * plane)
            };
            for (channel, to) in channels.chunks_exact(plane).zip(read.chunks_mut(self.of.taps() * count)) {
                taps.read(channel, &mut to[i * taps.windows()..], count);
            }
        }
        Matrix { at: read.as_ptr(), strides: in_rows(count) }
    }

    /// A row a feature of `chunk`'s windows: the map is an operand, the first for an image and the second for a kernel.
    unsafe fn map_matrix(&self, part: &Part<'_>, chunk: &Columns, read: &mut [T]) -> Matrix<T> {
        let map = if self.of.computes == Computes::Image { self.operands.lhs } else { self.operands.rhs };
        if chunk.images.len() == 1 {
            let at = self.map_at(part, chunk.images.start, chunk.windows.start);
            // SAFETY: as above.
            return Matrix { at: unsafe { map.add(at) }, strides: in_rows(self.of.windows()) };
        }
        self.each_feature(part, chunk, |_, at, here| {
            // SAFETY: as above.
            let from = unsafe { slice::from_raw_parts(map.add(at), here.len()) };
            read[here].copy_from_slice(from);
        });
        Matrix { at: read.as_ptr(), strides: in_rows(chunk.len()) }
    }

    /// A row a channel and a tap, a column a feature.
    unsafe fn turned_kernel(&self, part: &Part<'_>) -> Matrix<T> {
        let Convolution { groups, channels, .. } = *self.of;
        let at = (part.group * channels + part.channels.start) * self.of.taps();
        // SAFETY: as above.
        let at = unsafe { self.operands.rhs.add(at) };
        Matrix { at, strides: in_rows(groups * channels * self.of.taps()) }.turned()
    }

    /// Calls `f` with each feature, where `chunk`'s windows of it are in the map for each image, and where in a matrix of them.
    fn each_feature(&self, part: &Part<'_>, chunk: &Columns, mut f: impl FnMut(usize, usize, Range<usize>)) {
        let (windows, count) = (chunk.windows.len(), chunk.len());
        for (i, image) in chunk.images.clone().enumerate() {
            let first = self.map_at(part, image, chunk.windows.start);
            for feature in 0..part.features.len() {
                let here = feature * count + i * windows;
                let number = part.group * self.of.features + part.features.start + feature;
                f(number, first + feature * self.of.windows(), here..here + windows);
            }
        }
    }

    /// Where a window of the part's first feature is in the map.
    fn map_at(&self, part: &Part<'_>, image: usize, window: usize) -> usize {
        let Convolution { groups, features, .. } = *self.of;
        ((image * groups + part.group) * features + part.features.start) * self.of.windows() + window
    }

    /// Where the part's first channel is in the image.
    fn image_at(&self, part: &Part<'_>, image: usize) -> usize {
        let Convolution { groups, channels, .. } = *self.of;
        ((image * groups + part.group) * channels + part.channels.start) * self.of.plane()
    }

    /// The part's channels of an image that is the result.
    #[allow(clippy::mut_from_ref)] // of memory behind a pointer, which a task has for itself
    unsafe fn channels_mut(&self, part: &Part<'_>, image: usize) -> &mut [T] {
        let len = part.channels.len() * self.of.plane();
        // SAFETY: as above.
        unsafe { slice::from_raw_parts_mut(self.operands.out.add(self.image_at(part, image)), len) }
    }
}

/// Rows so many elements apart.
fn in_rows(row: usize) -> Strides {
    Strides { row, column: 1 }
}
