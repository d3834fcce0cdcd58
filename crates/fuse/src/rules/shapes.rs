//! What rules about extents and dimension numbers share.

use crate::language::{Head, Kind};
use crate::rule::Edit;
use egg::Id;
use ir::reshape::groups;
use ir::{Dims, Op, Shape};

/// The permutation that `?name` names.
pub(super) fn permutation(e: &Edit<'_>, name: &str) -> Option<Dims> {
    match &*e.op(name)? {
        Op::Transpose { permutation } => Some(permutation.clone()),
        _ => None,
    }
}

/// The extents and dimension numbers of the broadcast that `?name` names.
pub(super) fn broadcast(e: &Edit<'_>, name: &str) -> Option<(Shape, Dims)> {
    match &*e.op(name)? {
        Op::BroadcastInDim { shape, dims } => Some((shape.clone(), dims.clone())),
        _ => None,
    }
}

/// The permutation that undoes `p`.
pub(super) fn inverse(p: &[usize]) -> Dims {
    let mut undone: Dims = p.iter().copied().collect();
    p.iter().enumerate().for_each(|(i, &d)| undone[d] = i);
    undone
}

/// `items` in the order that a transpose by `p` gives them.
pub(super) fn permuted<T: Copy>(items: &[T], p: &[usize]) -> smallvec::SmallVec<[T; 6]>
where
    [T; 6]: smallvec::Array<Item = T>,
{
    p.iter().map(|&d| items[d]).collect()
}

/// Whether `dims` rise.
pub(super) fn rise(dims: &[usize]) -> bool {
    dims.windows(2).all(|w| w[0] < w[1])
}

/// How many of `dims` lie before `d`.
pub(super) fn below(dims: &[usize], d: usize) -> usize {
    dims.iter().filter(|&&k| k < d).count()
}

/// The dimensions below `rank` that are in none of the lists.
pub(super) fn others(rank: usize, taken: &[&[usize]]) -> Dims {
    (0..rank).filter(|d| !taken.iter().any(|t| t.contains(d))).collect()
}

/// A broadcast of `operand`, of extents `small`, to `from` along `dims`, as it has to be made so that it has the extents
/// `to` of a reshape: the operand's extents and the dimension numbers.
pub(crate) fn reshaped_broadcast(
    small: &[usize],
    dims: &[usize],
    from: &[usize],
    to: &[usize],
) -> Option<(Shape, Dims)> {
    let (mut shape, mut along) = (Shape::new(), Dims::new());
    for (left, right) in groups(from, to)? {
        let extent = |d: usize| dims.iter().position(|&k| k == d).map_or(1, |k| small[k]);
        if left.clone().all(|d| extent(d) == from[d]) {
            right.for_each(|d| {
                shape.push(to[d]);
                along.push(d);
            });
        } else if !left.clone().all(|d| extent(d) == 1) {
            return None;
        }
    }
    Some((shape, along))
}

/// What gives `y` when it is transposed by `p`, if no element has to be moved for it.
pub(super) fn untransposed(e: &mut Edit<'_>, y: Id, p: &[usize]) -> Option<Id> {
    let shape = permuted(&e.shape(y)?, &inverse(p));
    if let Some(element) = e.splat(y) {
        return splat(e, &element, &shape);
    }
    if let Some((x, _)) =
        operand(e, y, Kind::Transpose, |op| matches!(op, Op::Transpose { permutation } if permutation[..] == *p))
    {
        return Some(x);
    }
    let (small, op) = operand(e, y, Kind::BroadcastInDim, |_| true)?;
    let Op::BroadcastInDim { dims, .. } = op else { return None };
    let dims = permuted(p, &dims);
    if rise(&dims) { e.broadcast_in_dim(small, &shape, &dims) } else { None }
}

/// What gives `y` when it is reshaped from `from`, if no element has to be moved for it.
pub(super) fn unreshaped(e: &mut Edit<'_>, y: Id, from: &[usize]) -> Option<Id> {
    if let Some(element) = e.splat(y) {
        return splat(e, &element, &from.into());
    }
    let nodes: Vec<Id> = e.nodes(y, Head::With(Kind::Reshape)).map(|n| n.children[0]).collect();
    if let Some(x) = nodes.into_iter().find(|&x| e.shape(x).is_some_and(|s| s[..] == *from)) {
        return Some(x);
    }
    let (small, op) = operand(e, y, Kind::BroadcastInDim, |_| true)?;
    let Op::BroadcastInDim { dims, shape } = op else { return None };
    let (of, along) = reshaped_broadcast(&e.shape(small)?, &dims, &shape, from)?;
    let small = e.reshape(small, &of)?;
    e.broadcast_in_dim(small, from, &along)
}

/// A constant with one element everywhere, as the importer makes it: a 0-d one, broadcast.
pub(super) fn splat(e: &mut Edit<'_>, element: &ir::Literal, shape: &Shape) -> Option<Id> {
    let scalar = e.filled(element, &Shape::new())?;
    e.broadcast_in_dim(scalar, shape, &[])
}

/// The first operand of an e-node of this kind that makes `y`, and its op, if that is as wanted.
pub(super) fn operand(e: &Edit<'_>, y: Id, kind: Kind, wanted: impl Fn(&Op) -> bool) -> Option<(Id, Op)> {
    e.nodes(y, Head::With(kind)).find_map(|n| {
        let op = e.attributes(*n.children.last()?)?;
        wanted(&op).then(|| (n.children[0], (*op).clone()))
    })
}
