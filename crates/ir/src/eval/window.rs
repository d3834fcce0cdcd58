//! Sliding windows: which elements of a dimension each window covers.

use crate::op::Window;

/// One dimension of a window.
#[derive(Clone, Copy)]
pub(super) struct WindowDim {
    pub(super) size: usize,
    pub(super) stride: usize,
    pub(super) low: i64,
    pub(super) base_dilation: usize,
    pub(super) dilation: usize,
}

/// An element of a window that lies on an element of the operand: its place in the window, the operand's index.
pub(super) type Tap = (usize, usize);

impl WindowDim {
    pub(super) fn of(w: &Window, d: usize) -> WindowDim {
        WindowDim {
            size: w.size[d],
            stride: w.strides[d],
            low: w.padding[d].0,
            base_dilation: w.base_dilation[d],
            dilation: w.dilation[d],
        }
    }

    /// The taps of the window at result position `o` over `extent` elements, in order. Takes time in the smaller of
    /// the window's size and `extent`, so that a large window over padding costs nothing.
    pub(super) fn taps(self, o: usize, extent: usize) -> Vec<Tap> {
        let start = o as i128 * self.stride as i128 - i128::from(self.low);
        let (base, dilation) = (self.base_dilation as i128, self.dilation as i128);
        if self.size <= extent {
            let index = |k: usize| {
                let position = start + k as i128 * dilation;
                let inside = position >= 0 && position % base == 0 && position / base < extent as i128;
                inside.then(|| (k, (position / base) as usize))
            };
            return (0..self.size).filter_map(index).collect();
        }
        let place = |i: usize| {
            let offset = i as i128 * base - start;
            let inside = offset >= 0 && offset % dilation == 0 && offset / dilation < self.size as i128;
            inside.then(|| ((offset / dilation) as usize, i))
        };
        (0..extent).filter_map(place).collect()
    }
}

/// For each dimension and each result position the taps.
pub(super) fn all_taps(dims: &[WindowDim], extents: &[usize], results: &[usize]) -> Vec<Vec<Vec<Tap>>> {
    let one = |d: usize| (0..results[d]).map(|o| dims[d].taps(o, extents[d])).collect();
    (0..dims.len()).map(one).collect()
}

/// For each combination of one tap a dimension, the last dimension fastest, how far along that is in the window and in the operand,
/// whose dimensions take the steps `of_window` and `of_operand`.
pub(super) fn offsets(dims: &[&[Tap]], of_window: &[usize], of_operand: &[usize]) -> Vec<Tap> {
    dims.iter().zip(of_window).zip(of_operand).fold(vec![(0, 0)], |before, ((taps, window), operand)| {
        let moved = |&(place, index): &Tap| taps.iter().map(move |(p, i)| (place + p * window, index + i * operand));
        before.iter().flat_map(moved).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_of_finding_taps_agree() {
        for (size, low, base_dilation, dilation) in [(3, 1, 1, 1), (2, -1, 2, 1), (4, 5, 3, 2), (1, 0, 1, 7)] {
            let w = WindowDim { size, stride: 2, low, base_dilation, dilation };
            for o in 0..6 {
                let few = w.taps(o, 3);
                let many: Vec<Tap> = w.taps(o, 100).into_iter().filter(|&(_, i)| i < 3).collect();
                assert_eq!(few, many);
            }
        }
    }

    #[test]
    fn a_huge_window_is_cheap() {
        let w = WindowDim { size: usize::MAX >> 1, stride: 1, low: i64::MAX >> 1, base_dilation: 1, dilation: 1 };
        assert_eq!(w.taps(0, 4).len(), 4);
    }
}
