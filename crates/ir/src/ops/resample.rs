//! Weighted sums of chosen positions along one dimension: what adaptive pooling and resizing are made of.
//!
//! Which positions, and with which weights, is known while tracing. A position that is not chosen is never multiplied:
//! NaN and infinities reach exactly the results that PyTorch lets them reach.

use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::graph::ValueId;
use crate::literal::{Literal, Number};
use crate::op::Gather;
use crate::types::{Dims, Shape, TensorType};
use crate::{Reducer, ensure};

/// For every position of the result, the source positions it reads and their weights.
pub(super) type Taps = Vec<Vec<(usize, f64)>>;

/// The taps of the adjoint: what each of `extent` source positions gives to.
pub(super) fn adjoint(taps: &Taps, extent: usize) -> Taps {
    let mut back: Taps = vec![vec![]; extent];
    for (out, row) in taps.iter().enumerate() {
        for &(source, weight) in row {
            back[source].push((out, weight));
        }
    }
    back
}

/// A constant of `shape` from its elements.
fn constant(b: &Builder, dtype: DType, shape: &[usize], numbers: impl Iterator<Item = Number>) -> Result<ValueId> {
    let bytes: Vec<u8> = numbers.flat_map(|n| n.to_bytes(dtype)).collect();
    let literal = Literal::dense(TensorType::new(dtype, shape.iter().copied()), bytes);
    b.constant(literal.ok_or_else(|| Error::internal("a constant's elements do not fill its shape"))?)
}

/// Elements `indices` of dimension `dim`.
pub(super) fn take(b: &Builder, v: ValueId, dim: usize, indices: &[usize]) -> Result<ValueId> {
    let mut shape = b.shape(v);
    let run = indices.windows(2).all(|w| w[1] == w[0] + 1);
    if let (true, Some(&first)) = (run, indices.first()) {
        return b.slice_dim(v, dim, first, first + indices.len(), 1);
    }
    shape[dim] = 1;
    let gather = Gather {
        offset_dims: (0..shape.len()).filter(|&d| d != dim).collect(),
        collapsed_slice_dims: [dim].into_iter().collect(),
        start_index_map: [dim].into_iter().collect(),
        index_vector_dim: 1,
        slice_sizes: shape,
        ..Gather::default()
    };
    let at = constant(b, DType::I64, &[indices.len(), 1], indices.iter().map(|&i| Number::Int(i as i64)))?;
    b.gather(v, at, gather)
}

/// Dimension `dim` split in two: one row per result position, holding the elements it reads; `fill` where a row is
/// shorter than the longest.
pub(super) fn rows(b: &Builder, v: ValueId, dim: usize, positions: &[Vec<usize>], fill: Number) -> Result<ValueId> {
    let longest = positions.iter().map(Vec::len).max().unwrap_or(0);
    let mut shape = b.shape(v);
    ensure!(dim < shape.len(), "dimension {dim} of a {}-d tensor", shape.len());
    shape[dim] = positions.len();
    shape.insert(dim + 1, longest);
    if shape.contains(&0) {
        return b.full(fill, b.dtype(v), &shape);
    }
    let padded = |row: &Vec<usize>| -> Vec<usize> { (0..longest).map(|i| row.get(i).copied().unwrap_or(0)).collect() };
    let indices: Vec<usize> = positions.iter().flat_map(padded).collect();
    let taken = b.reshape(take(b, v, dim, &indices)?, &shape)?;
    if positions.iter().all(|row| row.len() == longest) {
        return Ok(taken);
    }
    let present = positions.iter().flat_map(|row| (0..longest).map(move |i| Number::Bool(i < row.len())));
    let present = constant(b, DType::Bool, &[positions.len(), longest], present)?;
    let present = b.broadcast_in_dim(present, &shape, &[dim, dim + 1])?;
    b.select(present, taken, b.full_like(taken, fill)?)
}

/// The weighted sums along `dim`; `v` is of its accumulation type.
pub(super) fn resample(b: &Builder, v: ValueId, dim: usize, taps: &Taps) -> Result<ValueId> {
    let extent = b.shape(v)[dim];
    if let Some(repeats) = repeats(taps, extent) {
        return repeat(b, v, dim, repeats);
    }
    if let Some(regular) = Regular::of(taps, extent, if b.dtype(v) == DType::F64 { 1e-13 } else { 1e-6 }) {
        return regular.sums(b, v, dim, taps);
    }
    let positions: Vec<Vec<usize>> = taps.iter().map(|row| row.iter().map(|t| t.0).collect()).collect();
    let rows = rows(b, v, dim, &positions, Number::Float(0.0))?;
    let longest = b.shape(rows)[dim + 1];
    let plain = taps.iter().flatten().all(|t| t.1 == 1.0);
    let weighted = match plain || longest == 0 {
        true => rows,
        false => {
            let weight = |row: &Vec<(usize, f64)>, i: usize| Number::Float(row.get(i).map_or(0.0, |t| t.1));
            let weights = taps.iter().flat_map(|row| (0..longest).map(move |i| weight(row, i)));
            let weights = constant(b, b.dtype(v), &[taps.len(), longest], weights)?;
            b.multiply(rows, b.broadcast_in_dim(weights, &b.shape(rows), &[dim, dim + 1])?)?
        }
    };
    b.reduce(weighted, Reducer::Add, &[dim + 1])
}

/// Taps that repeat: each group of so many results reads as the one before does, so many elements further on, but for the groups
/// at either end. Slices, weighted and added, take a fraction of what gathered elements take: 8x16x56x56, twice as large, bicubic,
/// with its gradient, XLA's CPU 3.1 ms for 49 (eager 22), a v5e 93 us at the least for 677.
struct Regular {
    /// Results and sources of a group.
    results: usize,
    sources: usize,
    /// The first group that is like the others, and the one behind the last.
    first: usize,
    end: usize,
}

impl Regular {
    /// Slices of a group, at most.
    const MOST: usize = 24;
    /// Results at either end, at most, which are computed one by one.
    const MOST_ENDS: usize = 16;

    /// `None` unless most groups are alike, up to `slack` in weights.
    fn of(taps: &Taps, extent: usize, slack: f64) -> Option<Regular> {
        if taps.is_empty() || extent == 0 {
            return None;
        }
        let groups = gcd(taps.len(), extent);
        let (results, sources) = (taps.len() / groups, extent / groups);
        let middle = groups / 2;
        let like = |group: usize| {
            let rows = (0..results).map(|r| (&taps[group * results + r], &taps[middle * results + r]));
            rows.into_iter().all(|(row, model)| {
                let further = |source: usize, model: usize| source + middle * sources == model + group * sources;
                row.len() == model.len()
                    && row.iter().zip(model).all(|(a, b)| further(a.0, b.0) && (a.1 - b.1).abs() <= slack)
            })
        };
        let first = (0..middle).rev().take_while(|&g| like(g)).last().unwrap_or(middle);
        let end = (middle..groups).take_while(|&g| like(g)).last()? + 1;
        let model = &taps[middle * results..][..results];
        let slices: usize = model.iter().map(Vec::len).sum();
        let ends = (groups - (end - first)) * results;
        let fits = slices <= Self::MOST && ends <= Self::MOST_ENDS && end - first >= 2;
        (fits && model.iter().all(|row| !row.is_empty())).then_some(Regular { results, sources, first, end })
    }

    /// The weighted sums along `dim`.
    fn sums(&self, b: &Builder, v: ValueId, dim: usize, taps: &Taps) -> Result<ValueId> {
        let one = |row: &Vec<(usize, f64)>| weighted(b, row, |source| b.slice_dim(v, dim, source, source + 1, 1));
        let count = self.end - self.first;
        let inner = |row: &Vec<(usize, f64)>| {
            weighted(b, row, |start| b.slice_dim(v, dim, start, start + (count - 1) * self.sources + 1, self.sources))
        };
        let (low, high) = (self.first * self.results, self.end * self.results);
        let group = taps[low..low + self.results].iter().map(inner).collect::<Result<Vec<_>>>()?;
        let mut parts = taps[..low].iter().map(one).collect::<Result<Vec<_>>>()?;
        parts.push(interleaved(b, &group, dim)?);
        for row in &taps[high..] {
            parts.push(one(row)?);
        }
        b.concatenate(&parts, dim)
    }
}

/// What `slice` gives for each tap, weighted and added; zero where there is none.
fn weighted(b: &Builder, row: &[(usize, f64)], slice: impl Fn(usize) -> Result<ValueId>) -> Result<ValueId> {
    let weighted = |&(source, weight): &(usize, f64)| {
        let taken = slice(source)?;
        if weight == 1.0 { Ok(taken) } else { b.multiply(taken, b.full_like(taken, Number::Float(weight))?) }
    };
    let mut terms = row.iter().map(weighted);
    let Some(first) = terms.next() else {
        let like = slice(0)?;
        return b.full_like(like, Number::Int(0));
    };
    terms.try_fold(first?, |sum, term| b.add(sum, term?))
}

/// The `values`' elements along `dim` in turns.
fn interleaved(b: &Builder, values: &[ValueId], dim: usize) -> Result<ValueId> {
    let mut shape = b.shape(values[0]);
    let mut apart = shape.clone();
    shape[dim] *= values.len();
    apart.insert(dim + 1, 1);
    let apart = values.iter().map(|&v| b.reshape(v, &apart)).collect::<Result<Vec<_>>>()?;
    b.reshape(b.concatenate(&apart, dim + 1)?, &shape)
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// How often each source position is repeated, if that is all the taps do.
fn repeats(taps: &Taps, extent: usize) -> Option<usize> {
    let times = (extent > 0 && taps.len().is_multiple_of(extent)).then(|| taps.len() / extent)?;
    let plain = taps.iter().enumerate().all(|(i, row)| row[..] == [(i / times.max(1), 1.0)]);
    (times > 0 && plain).then_some(times)
}

fn repeat(b: &Builder, v: ValueId, dim: usize, times: usize) -> Result<ValueId> {
    let mut wide: Shape = b.shape(v);
    let mut joined = wide.clone();
    joined[dim] *= times;
    wide.insert(dim + 1, times);
    let dims: Dims = (0..wide.len()).filter(|&d| d != dim + 1).collect();
    b.reshape(b.broadcast_in_dim(v, &wide, &dims)?, &joined)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{InputKind, OutputKind};
    use crate::{Op, eval};

    /// Weights between neighbours, as resizing from `extent` to `out` has them.
    fn linear(extent: usize, out: usize) -> Taps {
        let last = extent - 1;
        let taps = |o: usize| {
            let at = ((o as f64 + 0.5) * extent as f64 / out as f64 - 0.5).max(0.0);
            let low = (at as usize).min(last);
            vec![(low, 1.0 - (at - low as f64)), ((low + 1).min(last), at - low as f64)]
        };
        (0..out).map(taps).collect()
    }

    /// Whether the sums are made of slices, after a look whether they are what the taps say.
    fn is_sliced(taps: &Taps, extent: usize) -> bool {
        let b = Builder::new("resample");
        let ty = TensorType::new(DType::F64, [2, extent, 3]);
        let x = b.input("x", InputKind::User, ty.clone());
        b.output("y", OutputKind::User, resample(&b, x, 1, taps).unwrap());
        let numbers: Vec<f64> = (0..6 * extent).map(|i| ((i * 37) % 101) as f64 / 7.0 - 5.0).collect();
        let bytes: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
        let graph = b.finish();
        let given = eval(&graph, &[Literal::dense(ty, bytes).unwrap()]).unwrap().remove(0);
        let given: Vec<f64> = given.bytes.chunks(8).map(|x| f64::from_le_bytes(x.try_into().unwrap())).collect();
        for (at, given) in given.iter().enumerate() {
            let (row, column) = (at / 3 % taps.len(), at % 3 + at / 3 / taps.len() * 3 * extent);
            let wanted: f64 = taps[row].iter().map(|&(source, w)| w * numbers[column + source * 3]).sum();
            assert!((given - wanted).abs() < 1e-9, "{at}: {given} is {wanted}");
        }
        !graph.nodes().iter().any(|node| matches!(node.op, Op::Gather(_)))
    }

    #[test]
    fn sums_are_what_the_taps_say() {
        for (extent, out) in [(16, 32), (16, 8), (15, 10), (10, 15), (12, 36), (9, 9)] {
            let taps = linear(extent, out);
            assert!(is_sliced(&taps, extent), "{extent} to {out}");
            assert!(is_sliced(&adjoint(&taps, extent), out), "the gradient of {extent} to {out}");
        }
        for (extent, out) in [(16, 17), (7, 5), (3, 6), (1, 4), (5, 1), (64, 1)] {
            is_sliced(&linear(extent, out), extent);
            is_sliced(&adjoint(&linear(extent, out), extent), out);
        }
        assert!(!is_sliced(&linear(37, 36), 37), "nothing repeats");
        let one_apart = |at: usize, changed: (usize, f64)| {
            let mut taps = linear(60, 120);
            taps[at][0] = changed;
            is_sliced(&taps, 60)
        };
        assert!(one_apart(3, (9, 0.75)), "at the end");
        assert!(!one_apart(60, (7, 0.75)), "in the middle");
        let none: Taps = (0..8).map(|i| if i % 2 == 0 { vec![] } else { vec![(i, 2.0)] }).collect();
        is_sliced(&none, 8);
        is_sliced(&vec![], 8);
    }
}
