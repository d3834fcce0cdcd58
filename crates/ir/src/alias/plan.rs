//! From two layouts to the steps between them.
//!
//! A cell's storage is a mixed-radix number: each dimension of its dense layout is a digit. Every dimension of a view
//! counts in one digit, or in several neighbouring digits taken together. So the digits are grouped until no view
//! dimension carries from one group into the next; then each group is sliced on its own, and split where several view
//! dimensions share it. Layouts in which elements interleave or overlap have no such form and become a gather.

use super::{Layout, Strides};
use crate::error::{Error, Result};
use crate::types::{Dims, Shape};
use smallvec::SmallVec;

/// One reversible operation on a value. Shapes are those before the step.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// No elements: nothing is read, nothing is written.
    Empty {
        from: Shape,
        shape: Shape,
    },
    Transpose(Dims),
    Reshape {
        from: Shape,
        to: Shape,
    },
    Slice {
        from: Shape,
        start: Dims,
        limit: Dims,
        stride: Dims,
    },
    /// Grows dimensions at their end by elements that nobody reads.
    Extend {
        from: Shape,
        by: Dims,
    },
    Broadcast {
        shape: Shape,
        dims: Dims,
    },
    /// Picks places of a flat storage.
    Gather(Layout),
}

/// A dimension of the view that moves through the storage.
#[derive(Clone, Copy, Debug)]
struct Moving {
    size: usize,
    stride: usize,
    /// Its number in the view.
    dim: usize,
}

/// A digit of the storage's address, or several neighbouring ones: `extent` values, `step` places apart.
#[derive(Clone, Debug)]
struct Digit {
    extent: usize,
    step: usize,
    /// Dimensions of the cell, outermost first.
    dims: Dims,
    moving: SmallVec<[Moving; 2]>,
}

/// A dimension of the value on its way. `strides` of `moving` count in elements of this axis.
#[derive(Clone, Debug)]
struct Axis {
    extent: usize,
    start: usize,
    moving: SmallVec<[Moving; 2]>,
}

/// The steps that lead from a value in `cell`'s logical shape to the value of `view`. `cell` is dense from offset 0,
/// `view` lies inside it.
pub(super) fn plan(cell: &Layout, view: &Layout) -> Result<Vec<Step>> {
    if view.sizes.contains(&0) {
        return Ok(vec![Step::Empty { from: cell.sizes.clone(), shape: view.sizes.clone() }]);
    }
    if cell.same_places(view) {
        return Ok(vec![]);
    }
    let mut steps = Steps { shape: cell.sizes.clone(), steps: vec![] };
    let moving = moving(view);
    match digits(cell, &moving, view.offset)? {
        Some(digits) => {
            let axes = gather_digits(&mut steps, cell, digits, view.offset)?;
            let order = isolate(&mut steps, axes);
            finish(&mut steps, view, &order);
        }
        None => {
            physical(&mut steps, cell)?;
            let places = steps.shape.iter().product();
            steps.reshape(Shape::from_slice(&[places]));
            steps.steps.push(Step::Gather(view.clone()));
        }
    }
    Ok(steps.steps)
}

/// Places beyond which layouts that are not nested are not looked through one by one.
const MAX_PLACES: usize = 1 << 22;

/// Whether several elements of `view` share a place. Layouts that are not nested and very large count as if some did.
pub(super) fn overlaps(view: &Layout) -> bool {
    if view.sizes.contains(&0) {
        return false;
    }
    if view.sizes.iter().zip(&view.strides).any(|(&n, &s)| n > 1 && s == 0) {
        return true;
    }
    let moving = moving(view);
    if nested(&moving) {
        return false;
    }
    let end = view.end().unwrap_or(0).saturating_sub(view.offset);
    if end > MAX_PLACES {
        return true;
    }
    let mut taken = vec![false; end];
    let mut places = vec![0usize];
    for m in &moving {
        places = places.iter().flat_map(|&p| (0..m.size).map(move |i| p + i * m.stride)).collect();
        if places.len() > end {
            return true;
        }
    }
    places.into_iter().any(|p| std::mem::replace(&mut taken[p], true))
}

/// The dimensions of `view` that move, largest step first.
fn moving(view: &Layout) -> SmallVec<[Moving; 6]> {
    let all = view.sizes.iter().zip(&view.strides).enumerate();
    let mut moving: SmallVec<[Moving; 6]> = all
        .filter(|(_, (size, stride))| **size > 1 && **stride > 0)
        .map(|(dim, (&size, &stride))| Moving { size, stride, dim })
        .collect();
    moving.sort_by_key(|m| std::cmp::Reverse(m.stride));
    moving
}

/// Whether each dimension steps over all that the later ones reach.
fn nested(moving: &[Moving]) -> bool {
    (0..moving.len()).all(|j| reach(&moving[j + 1..]) < moving[j].stride)
}

/// Distance from the first to the last element.
fn reach(moving: &[Moving]) -> usize {
    moving.iter().map(|m| (m.size - 1) * m.stride).sum()
}

/// The cell's digits, innermost first, merged so that every moving dimension stays inside one. `None` if the
/// dimensions in a digit are not nested.
fn digits(cell: &Layout, moving: &[Moving], offset: usize) -> Result<Option<Vec<Digit>>> {
    let order = cell.dense_order().ok_or_else(not_dense)?;
    let mut step = 1;
    let mut single = vec![];
    for &dim in order.iter().rev().filter(|&&d| cell.sizes[d] != 1) {
        let extent = cell.sizes[dim];
        single.push(Digit { extent, step, dims: Dims::from_slice(&[dim]), moving: SmallVec::new() });
        step *= extent;
    }
    for &m in moving {
        let home = single.iter_mut().rev().find(|d| m.stride % d.step == 0);
        home.ok_or_else(outside)?.moving.push(m);
    }
    let mut merged: Vec<Digit> = vec![];
    let mut rest = single.into_iter();
    while let Some(mut digit) = rest.next() {
        while offset / digit.step % digit.extent + reach(&digit.moving) / digit.step >= digit.extent {
            let outer = rest.next().ok_or_else(outside)?;
            digit.extent *= outer.extent;
            digit.dims.insert_many(0, outer.dims);
            digit.moving.insert_many(0, outer.moving);
        }
        digit.moving.sort_by_key(|m| std::cmp::Reverse(m.stride));
        if !nested(&digit.moving) {
            return Ok(None);
        }
        merged.push(digit);
    }
    Ok(Some(merged))
}

fn not_dense() -> Error {
    Error::internal("a cell's layout is not dense")
}

fn outside() -> Error {
    Error::internal("a view leaves its cell")
}

/// Brings the value into one axis per digit, in the cell's order of dimensions if that order allows it.
fn gather_digits(steps: &mut Steps, cell: &Layout, mut digits: Vec<Digit>, offset: usize) -> Result<Vec<Axis>> {
    digits.reverse();
    let solid = |d: &usize| cell.sizes[*d] != 1;
    let follows = |w: &[usize]| w[0] < w[1] && !(w[0] + 1..w[1]).any(|d| solid(&d));
    if digits.iter().all(|d| d.dims.windows(2).all(follows)) {
        digits.sort_by_key(|d| d.dims[0]);
    } else {
        physical(steps, cell)?;
    }
    steps.reshape(digits.iter().map(|d| d.extent).collect());
    let axes = digits.into_iter().map(|d| {
        let moving = d.moving.iter().map(|m| Moving { stride: m.stride / d.step, ..*m }).collect();
        Axis { extent: d.extent, start: offset / d.step % d.extent, moving }
    });
    Ok(axes.collect())
}

/// Brings the cell's value into the order of the storage.
fn physical(steps: &mut Steps, cell: &Layout) -> Result<()> {
    let order = cell.dense_order().ok_or_else(not_dense)?;
    steps.transpose(order);
    Ok(())
}

/// Slices and splits axes until each moving dimension has one of its own, and the rest are gone. Gives the view's
/// dimension of each axis.
fn isolate(steps: &mut Steps, mut axes: Vec<Axis>) -> Dims {
    loop {
        cut(steps, &mut axes);
        axes = axes.into_iter().flat_map(split).collect();
        steps.reshape(axes.iter().map(|a| a.extent).collect());
        if axes.iter().all(Axis::done) {
            return axes.iter().filter_map(|a| a.moving.first()).map(|m| m.dim).collect();
        }
    }
}

impl Axis {
    /// Its elements are those of its one moving dimension.
    fn done(&self) -> bool {
        matches!(self.moving[..], [m] if self.start == 0 && m.stride == 1 && m.size == self.extent)
    }

    /// Where to cut: (start, limit, step), perhaps beyond the end, such that what remains splits evenly.
    fn cut(&self) -> (usize, usize, usize) {
        match self.moving[..] {
            [] => (self.start, self.start + 1, 1),
            [m] => (self.start, self.start + (m.size - 1) * m.stride + 1, m.stride),
            [m, ..] => {
                let length = m.size * m.stride;
                let start = self.block_start(m.stride, length);
                (start, start + length, 1)
            }
        }
    }

    /// The start of a run of `length` that holds all elements, each block of `block` holding one round of the inner
    /// dimensions: the block boundary below the first element if it will do, else the last start that fits.
    fn block_start(&self, block: usize, length: usize) -> usize {
        let slack = block - 1 - reach(&self.moving[1..]);
        let aligned = self.start - self.start % block;
        if self.start - aligned <= slack && aligned + length <= self.extent {
            return aligned;
        }
        let latest = self.extent.saturating_sub(length).min(self.start);
        if length <= self.extent && self.start - latest <= slack { latest } else { self.start }
    }
}

/// Cuts every axis down to what its moving dimensions need.
fn cut(steps: &mut Steps, axes: &mut [Axis]) {
    let cuts: SmallVec<[(usize, usize, usize); 6]> = axes.iter().map(Axis::cut).collect();
    let by: Dims = axes.iter().zip(&cuts).map(|(a, c)| c.1.saturating_sub(a.extent)).collect();
    if by.iter().any(|&n| n > 0) {
        steps.extend(by);
    }
    steps.slice(&cuts);
    for (axis, &(start, limit, stride)) in axes.iter_mut().zip(&cuts) {
        axis.start -= start;
        axis.extent = (limit - start).div_ceil(stride);
        if let [m] = &mut axis.moving[..] {
            m.stride = 1;
        }
    }
}

/// The axis as one axis per moving dimension, as far as that goes without another cut.
fn split(mut axis: Axis) -> SmallVec<[Axis; 4]> {
    let mut parts = SmallVec::new();
    while let [outer, inner @ ..] = &axis.moving[..] {
        let outer = *outer;
        let even = axis.extent == outer.size * outer.stride && axis.start + reach(inner) < outer.stride;
        if inner.is_empty() || !even {
            break;
        }
        axis.moving.remove(0);
        axis.extent = outer.stride;
        let one = Moving { stride: 1, ..outer };
        parts.push(Axis { extent: outer.size, start: 0, moving: SmallVec::from_slice(&[one]) });
    }
    let gone = axis.moving.is_empty() && axis.extent == 1;
    if !gone {
        parts.push(axis);
    }
    parts
}

/// Puts the axes in the view's order and adds the dimensions that do not move.
fn finish(steps: &mut Steps, view: &Layout, order: &[usize]) {
    let mut permutation: Dims = (0..order.len()).collect();
    permutation.sort_by_key(|&axis| order[axis]);
    let dims: Dims = permutation.iter().map(|&axis| order[axis]).collect();
    steps.transpose(permutation);
    let repeats = view.sizes.iter().zip(&view.strides).any(|(&n, &s)| n > 1 && s == 0);
    if repeats {
        steps.steps.push(Step::Broadcast { shape: view.sizes.clone(), dims });
    } else {
        steps.reshape(view.sizes.clone());
    }
}

/// Steps so far and the shape they lead to. Leaves out what changes nothing.
struct Steps {
    shape: Shape,
    steps: Vec<Step>,
}

impl Steps {
    fn reshape(&mut self, to: Shape) {
        let mut from = self.shape.clone();
        if let Some(Step::Reshape { from: earlier, .. }) = self.steps.last() {
            from = earlier.clone();
            self.steps.pop();
        }
        if from != to {
            self.steps.push(Step::Reshape { from, to: to.clone() });
        }
        self.shape = to;
    }

    fn transpose(&mut self, permutation: Dims) {
        if permutation.iter().enumerate().all(|(i, &d)| i == d) {
            return;
        }
        self.shape = permutation.iter().map(|&d| self.shape[d]).collect();
        self.steps.push(Step::Transpose(permutation));
    }

    fn extend(&mut self, by: Dims) {
        let from = self.shape.clone();
        self.shape = from.iter().zip(&by).map(|(n, b)| n + b).collect();
        self.steps.push(Step::Extend { from, by });
    }

    /// By (start, limit, step).
    fn slice(&mut self, cuts: &[(usize, usize, usize)]) {
        if cuts.iter().zip(&self.shape).all(|(&(start, limit, step), &n)| start == 0 && limit == n && step == 1) {
            return;
        }
        let from = self.shape.clone();
        self.shape = cuts.iter().map(|&(start, limit, step)| (limit - start).div_ceil(step)).collect();
        let pick = |f: fn(&(usize, usize, usize)) -> usize| -> Dims { cuts.iter().map(f).collect() };
        self.steps.push(Step::Slice { from, start: pick(|c| c.0), limit: pick(|c| c.1), stride: pick(|c| c.2) });
    }
}

/// The place of every dimension's first step: what a gather multiplies its counters with.
pub(super) fn steps_of(view: &Layout) -> impl Iterator<Item = (usize, usize)> + '_ {
    let strides: &Strides = &view.strides;
    strides.iter().copied().enumerate().filter(|&(d, s)| view.sizes[d] > 1 && s > 0)
}
