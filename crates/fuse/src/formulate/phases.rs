//! Every n-th row of what is transposed, as one phase of n.
//!
//! A TPU has the last dimension but one, the rows, in eights of sublanes. Where every second one of 8 rows is taken and the
//! result goes with others into a fusion that has other rows, libtpu 0.0.51 aborts (`fusion_emitter.cc`: *Cannot find a valid
//! window*), and with it the process. Gradients of associative scans, and so of Mamba, are full of that; of 2, 4, 7, 13, 16, 24 or
//! 64 rows they compile. Barriers do not help; split into groups, of which one phase is read, 8 rows compile, too. Others stay,
//! which libtpu reads faster as they are:
//!
//! | `f32`, v5e                                      | strided           | in phases         |
//! |-------------------------------------------------|-------------------|-------------------|
//! | `x[:, ::2] * 2` of 8x2048x512                   | 32.0 MiB, 43.4 us | 48.0 MiB, 65.7 us |
//! | four strided parts of 4x56x56x96, layer norm    | 10.7 MiB, 23.3 us | 10.7 MiB, 32.7 us |

use super::rebuild::{Range, Rebuild};
use crate::measure::{SUBLANES, is_elementwise};
use crate::{Change, Changes, Class, Head};
use ir::op::SignedDims;
use ir::{Dims, Graph, LocId, Op, Result, Shape, ValueId};

/// Name, class and reason.
pub(super) const TOLD: (&str, Class, &str) = (
    "rows-in-phases",
    Class::Exact,
    "libtpu aborts on every second one of 8 rows that are transposed, not on one phase of two",
);

/// `graph`, for a TPU, without strided slices of rows that are transposed.
pub(super) fn phased(graph: &Graph, changes: &mut Changes, within: Option<LocId>) -> Result<Graph> {
    let turned = turned(graph);
    let mut to = Rebuild::of(graph);
    for (node, &turned) in graph.nodes().iter().zip(&turned) {
        let (Op::Slice { start, limit, stride }, true) = (&node.op, turned && changes.allows(TOLD.1)) else {
            to.keep(node);
            continue;
        };
        let made = to.len();
        to.set_loc(node.loc);
        let Some(value) = phase(&mut to, node.operands[0], [start, limit, stride])? else {
            to.keep(node);
            continue;
        };
        let (locs, before) = (vec![within.unwrap_or(node.loc)], Head::of(&node.op));
        changes.push(Change { rule: TOLD.0, class: TOLD.1, locs, before, after: to.heads_from(made) });
        to.stand_for(value);
    }
    Ok(to.finish(graph))
}

/// By node, whether what is computed of it element by element, or parts of that, have their rows elsewhere in the end.
fn turned(graph: &Graph) -> Vec<bool> {
    let mut found = vec![false; graph.nodes().len()];
    for (i, node) in graph.nodes().iter().enumerate().rev() {
        let reads = match &node.op {
            Op::Transpose { permutation } => found[i] || rows(permutation.len()).is_some_and(|d| permutation[d] != d),
            Op::Slice { .. } | Op::Pad { .. } | Op::Concatenate { .. } => found[i],
            op => is_elementwise(op) && found[i],
        };
        node.operands.iter().for_each(|v| found[v.index()] |= reads);
    }
    found
}

/// The dimension of the rows.
fn rows(rank: usize) -> Option<usize> {
    rank.checked_sub(2)
}

/// The slice of `v`, an old value, as a phase of its rows; `None` where it takes neighbours, one row, or of many.
fn phase(to: &mut Rebuild, v: ValueId, [start, limit, stride]: [&Dims; 3]) -> Result<Option<ValueId>> {
    let v = to.place(v);
    let Some(rows) = rows(start.len()) else { return Ok(None) };
    let every = stride[rows];
    let count = limit[rows].saturating_sub(start[rows]).div_ceil(every);
    if every == 1 || count < 2 {
        return Ok(None);
    }
    let (first, phase) = (start[rows] / every * every, start[rows] % every);
    let there = to.shape(v)?[rows];
    if there > SUBLANES {
        return Ok(None);
    }
    let (end, missing) = (there.min(first + count * every), (first + count * every).saturating_sub(there));
    let ranges: Vec<(usize, Range)> = (0..start.len())
        .map(|d| match d == rows {
            true => (d, Range { start: first, limit: end, stride: 1 }),
            false => (d, Range { start: start[d], limit: limit[d], stride: stride[d] }),
        })
        .collect();
    let whole = to.slice(v, &ranges)?;
    let high: SignedDims = (0..start.len()).map(|d| if d == rows { missing as i64 } else { 0 }).collect();
    let none = || start.iter().map(|_| 0);
    let whole = to.pad(whole, none().collect(), high, none().map(|n| n as usize).collect())?;
    let mut shape = to.shape(whole)?;
    shape[rows] = count;
    let mut groups: Shape = shape.clone();
    groups.insert(rows + 1, every);
    let groups = to.reshape(whole, groups)?;
    let one = to.slice(groups, &[(rows + 1, Range::part(phase, 1))])?;
    to.reshape(one, shape).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Platform;
    use crate::formulate::testing::{Random, formulated_for, keeps_bits_on_a_tpu};
    use ir::{Builder, DType, InputKind, OutputKind, TensorType, Unary};

    /// A slice, strided in all dimensions by chance, of which something is computed, transposed.
    fn slices(r: &mut Random) -> Graph {
        let b = Builder::new("slices");
        let extents = [r.within(1, 3), r.within(3, 9), r.within(1, 4)];
        let x = b.input("x", InputKind::User, TensorType::new(DType::F32, extents));
        let (start, stride) = (extents.map(|e| r.below(e.min(3))), extents.map(|_| r.within(1, 3)));
        let limit = [0, 1, 2].map(|d| r.within(extents[d].div_ceil(2).max(start[d] + 1), extents[d]));
        let other = b.slice(x, &start, &limit, &stride).unwrap();
        let v = b.add(b.unary(Unary::Abs, other).unwrap(), other).unwrap();
        let permutation = r.one_of(&[[0, 1, 2], [1, 0, 2], [0, 2, 1], [2, 1, 0], [1, 2, 0]]);
        b.output("y", OutputKind::User, b.transpose(v, &permutation).unwrap());
        b.finish()
    }

    #[test]
    fn random_slices_keep_their_bits() {
        keeps_bits_on_a_tpu(slices, 50);
    }

    /// Whether a slice of `[4, rows, 16]` stays strided, on this platform, if its result is so transposed.
    fn stays(rows: usize, stride: usize, permutation: [usize; 3], platform: Platform) -> bool {
        let b = Builder::new("g");
        let x = b.input("x", InputKind::User, TensorType::new(DType::F32, [4, rows, 16]));
        let v = b.slice(x, &[0, 1, 0], &[4, rows, 16], &[1, stride, 1]).unwrap();
        let v = b.unary(Unary::Negate, v).unwrap();
        b.output("y", OutputKind::User, b.transpose(v, &permutation).unwrap());
        formulated_for(platform, &b.finish(), Class::Exact, None).1.is_empty()
    }

    #[test]
    fn only_rows_that_are_transposed_go_in_phases() {
        assert!(!stays(8, 2, [1, 0, 2], Platform::Tpu));
        assert!(stays(8, 2, [0, 1, 2], Platform::Tpu), "its rows stay rows");
        assert!(stays(8, 1, [1, 0, 2], Platform::Tpu), "they are neighbours");
        assert!(stays(8, 7, [1, 0, 2], Platform::Tpu), "it is one row");
        assert!(stays(64, 2, [1, 0, 2], Platform::Tpu), "they are many");
        assert!(stays(8, 2, [1, 0, 2], Platform::Cpu));
    }
}
