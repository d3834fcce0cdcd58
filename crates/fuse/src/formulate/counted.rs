//! Elements at places that are counted, as slices.
//!
//! A view whose elements overlap, such as windows of a signal (`unfold`, `as_strided`), is a gather of single elements, at places
//! that are computed of counters. A TPU's compiler sees no windows in that: it moves element by element, with all places as a
//! constant of the program. Where a dimension steps over fewer elements than those inside it reach, there are as many shifted
//! slices as it takes, side by side. XLA's CPU computes the places as it goes and reads neighbours, which is faster than joining.
//!
//! | `f32`, v5e, as libtpu 0.0.51 compiles it   | gathered                            | sliced                       |
//! |---------------------------------------------|-------------------------------------|------------------------------|
//! | means of 9 neighbours in 16x80000           | 635 MiB, 3.2 ms, program of 79 MiB  | 9.8 MiB, 13.7 us, 0.3 MiB    |
//! | 400 every 160 of 16x80000, squared, added   | 5.0 MiB, 18.2 us, program of 3.6 MiB| 4.9 MiB, 17.2 us, 1.5 MiB    |

use super::rebuild::{Range, Rebuild};
use crate::{Change, Changes, Class, Head};
use ir::op::{Gather, SignedDims};
use ir::{Binary, Dims, Graph, LocId, Node, Op, Result, Shape, ValueId};

/// Name, class and reason.
pub(super) const TOLD: (&str, Class, &str) =
    ("counted-as-slices", Class::Exact, "a TPU gathers element by element, and slices at the speed of its memory");

/// Slices that are put side by side at most. Windows that are mostly others' elements take more.
const MOST_SLICES: usize = 64;
/// Nodes looked at to tell places.
const MOST_NODES: usize = 64;

/// `graph`, for a TPU, without gathers of single elements from places that are counted.
pub(super) fn as_slices(graph: &Graph, changes: &mut Changes, within: Option<LocId>) -> Result<Graph> {
    let mut to = Rebuild::of(graph);
    for node in graph.nodes() {
        let Some(view) = counted(graph, node).filter(|_| changes.allows(TOLD.1)) else {
            to.keep(node);
            continue;
        };
        let made = to.len();
        to.set_loc(node.loc);
        let value = sliced(&mut to, node.operands[0], &view)?;
        let (locs, before) = (vec![within.unwrap_or(node.loc)], Head::of(&node.op));
        changes.push(Change { rule: TOLD.0, class: TOLD.1, locs, before, after: to.heads_from(made) });
        to.stand_for(value);
    }
    Ok(to.finish(graph))
}

/// Places in a flat tensor.
struct View {
    offset: usize,
    sizes: Shape,
    strides: Dims,
}

impl View {
    /// Its dimensions that move, the largest step first, and of those the longest: (number, extent, step).
    fn moving(&self) -> Vec<(usize, usize, usize)> {
        let all = (0..self.sizes.len()).map(|d| (d, self.sizes[d], self.strides[d]));
        let mut moving: Vec<_> = all.filter(|&(_, size, stride)| size > 1 && stride > 0).collect();
        moving.sort_by_key(|&(_, size, stride)| std::cmp::Reverse((stride, size)));
        moving
    }
}

/// How many elements lie from the first to the last one of these dimensions.
fn width(moving: &[(usize, usize, usize)]) -> usize {
    1 + moving.iter().map(|&(_, size, stride)| (size - 1) * stride).sum::<usize>()
}

/// The places that `node` gathers from, if it takes single elements of a flat tensor, and they are counted.
fn counted(graph: &Graph, node: &Node) -> Option<View> {
    let Op::Gather(Gather { slice_sizes, collapsed_slice_dims, index_vector_dim, .. }) = &node.op else { return None };
    let &[x, indices] = &node.operands[..] else { return None };
    let (x, at) = (graph.tensor_type(x)?, graph.tensor_type(indices)?);
    let single = slice_sizes[..] == [1] && collapsed_slice_dims[..] == [0] && *index_vector_dim == at.rank();
    let (offset, strides) = single.then(|| places(graph, indices, &mut 0))??;
    let whole = |n: i64| usize::try_from(n).ok();
    let strides = strides.iter().map(|&s| whole(s)).collect::<Option<Dims>>()?;
    let view = View { offset: whole(offset)?, sizes: at.shape.clone(), strides };
    let moving = view.moving();
    let slices: usize = (0..moving.len()).map(|i| width(&moving[i + 1..]).div_ceil(moving[i].2)).sum();
    let fits = !view.sizes.contains(&0) && view.offset + width(&moving) <= x.shape[0];
    (fits && slices <= MOST_SLICES + moving.len()).then_some(view)
}

/// The number at the first place of `v`, and by how much it grows along each dimension, if it is so.
fn places(graph: &Graph, v: ValueId, looked: &mut usize) -> Option<(i64, Vec<i64>)> {
    *looked += 1;
    let (node, ty) = (graph.node(v), graph.tensor_type(v)?);
    if *looked > MOST_NODES || !ty.dtype.is_int() {
        return None;
    }
    let still = || vec![0; ty.rank()];
    let mut of = |i: usize| places(graph, node.operands[i], looked);
    match &node.op {
        Op::Constant(literal) => Some((literal.integer()?, still())),
        Op::Iota { dim, .. } => {
            let mut steps = still();
            steps[*dim] = 1;
            Some((0, steps))
        }
        Op::Convert { .. } => of(0),
        Op::BroadcastInDim { dims, .. } => {
            let (first, inner) = of(0)?;
            let from = graph.tensor_type(node.operands[0])?;
            let mut steps = still();
            dims.iter()
                .zip(inner)
                .enumerate()
                .filter(|(i, _)| from.shape[*i] > 1)
                .for_each(|(_, (&d, s))| steps[d] = s);
            Some((first, steps))
        }
        Op::Binary(Binary::Add) => {
            let ((a, s), (b, t)) = (of(0)?, of(1)?);
            let steps = s.iter().zip(&t).map(|(s, t)| s.checked_add(*t)).collect::<Option<_>>()?;
            Some((a.checked_add(b)?, steps))
        }
        Op::Binary(Binary::Multiply) => {
            let (x, y) = (of(0)?, of(1)?);
            let is_still = |x: &(i64, Vec<i64>)| x.1.iter().all(|&s| s == 0);
            let ((first, steps), (by, _)) = if is_still(&y) { (x, y) } else { (y, is_still(&x).then_some(x)?) };
            let steps = steps.iter().map(|s| s.checked_mul(by)).collect::<Option<_>>()?;
            Some((first.checked_mul(by)?, steps))
        }
        _ => None,
    }
}

/// The elements of the flat `x`, an old value, that `view` sees.
fn sliced(to: &mut Rebuild, x: ValueId, view: &View) -> Result<ValueId> {
    let moving = view.moving();
    let (mut value, mut offset) = (to.place(x), view.offset);
    // One dimension after the other gets an axis of its own. What is inside it is the last axis, until that has its turn.
    for (i, &(_, count, step)) in moving.iter().enumerate() {
        let inside = width(&moving[i + 1..]);
        value = blocks(to, value, offset, [count, step, inside])?;
        offset = 0;
    }
    let mut shape = to.shape(value)?;
    let last = shape.len() - 1;
    value = to.slice(value, &[(last, Range { start: offset, limit: offset + 1, stride: 1 })])?;
    shape.pop();
    value = to.reshape(value, shape)?;
    let mut order: Dims = (0..moving.len()).collect();
    order.sort_by_key(|&i| moving[i].0);
    let dims: Dims = order.iter().map(|&i| moving[i].0).collect();
    value = to.transpose(value, order)?;
    if to.shape(value)? == view.sizes {
        return Ok(value);
    }
    to.push(Op::BroadcastInDim { shape: view.sizes.clone(), dims }, &[value])
}

/// `value`, its last axis as `count` blocks of `inside` elements, each `step` elements after the one before.
fn blocks(to: &mut Rebuild, value: ValueId, offset: usize, [count, step, inside]: [usize; 3]) -> Result<ValueId> {
    let mut shape = to.shape(value)?;
    let last = shape.len() - 1;
    if inside == 1 {
        let value = to.slice(value, &[(last, Range::strided(offset, count, step))])?;
        shape[last] = count;
        shape.push(1);
        return to.reshape(value, shape);
    }
    let slices = inside.div_ceil(step);
    let missing = (offset + (slices - 1 + count) * step).saturating_sub(shape[last]);
    let high: SignedDims = (0..=last).map(|d| if d == last { missing as i64 } else { 0 }).collect();
    let none = || (0..=last).map(|_| 0);
    let value = to.pad(value, none().collect(), high, none().map(|n| n as usize).collect())?;
    shape[last] = count;
    shape.push(step);
    let mut parts = vec![];
    for j in 0..slices {
        let start = offset + j * step;
        let part = to.slice(value, &[(last, Range { start, limit: start + count * step, stride: 1 })])?;
        parts.push(to.reshape(part, shape.clone())?);
    }
    let joined = match parts[..] {
        [one] => one,
        _ => to.push(Op::Concatenate { dim: last + 1 }, &parts)?,
    };
    to.slice(joined, &[(last + 1, Range { start: 0, limit: inside, stride: 1 })])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Platform;
    use crate::formulate::testing::{Random, formulated_for, keeps_bits_on_a_tpu};
    use ir::alias::{Aliases, Layout};
    use ir::{Builder, DType, InputKind, OutputKind, TensorType};

    /// A view of a flat tensor of `n`, as eager and traced programs read it.
    fn viewed(n: usize, layout: Layout) -> Graph {
        let b = Builder::new("viewed");
        let x = b.input("x", InputKind::User, TensorType::new(DType::F32, [n]));
        let aliases = Aliases::default();
        let base = aliases.fresh_contiguous(&b, x).unwrap();
        let view = aliases.view(base, layout).unwrap();
        b.output("y", OutputKind::User, aliases.read(&b, view).unwrap());
        b.finish()
    }

    fn layout(sizes: &[usize], strides: &[usize], offset: usize) -> Layout {
        Layout { sizes: Shape::from_slice(sizes), strides: strides.iter().copied().collect(), offset }
    }

    fn random(r: &mut Random) -> Graph {
        let rank = r.within(1, 4);
        let sizes: Vec<usize> = (0..rank).map(|_| r.within(1, 4)).collect();
        let strides: Vec<usize> = (0..rank).map(|_| r.below(6)).collect();
        let reach: usize = sizes.iter().zip(&strides).map(|(n, s)| (n - 1) * s).sum();
        let offset = r.below(4);
        let n = offset + reach + 1 + r.below(4);
        viewed(n, layout(&sizes, &strides, offset))
    }

    #[test]
    fn random_views_keep_their_bits() {
        keeps_bits_on_a_tpu(random, 150);
    }

    fn rules(graph: &Graph, platform: Platform) -> Vec<&'static str> {
        formulated_for(platform, graph, Class::Exact, None).1.iter().map(|c| c.rule).collect()
    }

    #[test]
    fn windows_become_slices_on_a_tpu() {
        let windows = viewed(100, layout(&[20, 16], &[4, 1], 2));
        assert_eq!(rules(&windows, Platform::Tpu), [TOLD.0]);
        assert!(rules(&windows, Platform::CpuWithBlas).is_empty());
        let many = viewed(1000, layout(&[500, 200], &[1, 1], 0));
        assert!(rules(&many, Platform::Tpu).is_empty(), "200 slices");
    }
}
