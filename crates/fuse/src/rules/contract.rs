//! Contractions of reshaped and broadcast operands.

use super::shapes::others;
use crate::change::Class::{Exact, Reassociating};
use crate::rule::{Edit, Right, Rule};
use egg::Id;
use ir::op::{DotGeneral, Reducer};
use ir::reshape::groups;
use ir::{DType, Dims, Op, Shape};

pub(super) static RULES: &[Rule] = &[
    Rule {
        name: "dot-of-reshaped-lhs",
        class: Exact,
        why: "a contraction runs over as many dimensions as there are; the reshape meets others behind it",
        left: "(dot_general (reshape ?o ?r) ?other ?d)",
        right: Right::Build(
            "(reshape (dot_general ..)), where ?r makes one dimension of several, or of free ones others",
            |e| reshaped(e, true),
        ),
    },
    Rule {
        name: "dot-of-reshaped-rhs",
        class: Exact,
        why: "a contraction runs over as many dimensions as there are; the reshape meets others behind it",
        left: "(dot_general ?other (reshape ?o ?r) ?d)",
        right: Right::Build(
            "(reshape (dot_general ..)), where ?r makes one dimension of several, or of free ones others",
            |e| reshaped(e, false),
        ),
    },
    Rule {
        name: "dot-of-lhs-broadcast-along-free",
        class: Exact,
        why: "a smaller product, broadcast",
        left: "(dot_general (broadcast_in_dim ?o ?b) ?other ?d)",
        right: Right::Build(
            "(broadcast_in_dim (dot_general ..)), without the free dimensions that are broadcast",
            |e| broadcast_operand(e, true, Role::Free),
        ),
    },
    Rule {
        name: "dot-of-lhs-broadcast-along-batch",
        class: Exact,
        why: "what every batch shares is one operand: grouped queries are rows of one product",
        left: "(dot_general (broadcast_in_dim ?o ?b) ?other ?d)",
        right: Right::Build(
            "(transpose (dot_general ..)), with the batch dimensions that are broadcast as free ones of ?other",
            |e| broadcast_operand(e, true, Role::Batch),
        ),
    },
    Rule {
        name: "dot-of-lhs-broadcast-along-contracted",
        class: Reassociating,
        why: "a sum instead of products with the same number",
        left: "(dot_general (broadcast_in_dim ?o ?b) ?other ?d)",
        right: Right::Build(
            "(dot_general .. (reduce ?other)), without the contracted dimensions that are broadcast",
            |e| broadcast_operand(e, true, Role::Contracted),
        ),
    },
    Rule {
        name: "dot-of-rhs-broadcast-along-free",
        class: Exact,
        why: "a smaller product, broadcast",
        left: "(dot_general ?other (broadcast_in_dim ?o ?b) ?d)",
        right: Right::Build(
            "(broadcast_in_dim (dot_general ..)), without the free dimensions that are broadcast",
            |e| broadcast_operand(e, false, Role::Free),
        ),
    },
    Rule {
        name: "dot-of-rhs-broadcast-along-batch",
        class: Exact,
        why: "what every batch shares is one operand: grouped queries are rows of one product",
        left: "(dot_general ?other (broadcast_in_dim ?o ?b) ?d)",
        right: Right::Build(
            "(transpose (dot_general ..)), with the batch dimensions that are broadcast as free ones of ?other",
            |e| broadcast_operand(e, false, Role::Batch),
        ),
    },
    Rule {
        name: "dot-of-rhs-broadcast-along-contracted",
        class: Reassociating,
        why: "a sum instead of products with the same number",
        left: "(dot_general ?other (broadcast_in_dim ?o ?b) ?d)",
        right: Right::Build(
            "(dot_general .. (reduce ?other)), without the contracted dimensions that are broadcast",
            |e| broadcast_operand(e, false, Role::Contracted),
        ),
    },
];

/// What a contraction does with a dimension of an operand; batch and contracted ones by their position in the lists.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Batch,
    Contracted,
    Free,
}

/// A contraction seen from one of its operands.
pub(super) struct Seen {
    pub(super) lhs: bool,
    pub(super) own_batch: Dims,
    pub(super) own_contract: Dims,
    pub(super) other_batch: Dims,
    pub(super) other_contract: Dims,
    of: DotGeneral,
}

impl Seen {
    /// The contraction that `?d` names, from the left or the right.
    pub(super) fn new(e: &Edit<'_>, lhs: bool) -> Option<Seen> {
        let Op::DotGeneral(d) = &*e.op("d")? else { return None };
        let (own, other) = ((&d.lhs_batch, &d.lhs_contract), (&d.rhs_batch, &d.rhs_contract));
        let (own, other) = if lhs { (own, other) } else { (other, own) };
        let (own_batch, own_contract) = (own.0.clone(), own.1.clone());
        let (other_batch, other_contract) = (other.0.clone(), other.1.clone());
        Some(Seen { lhs, own_batch, own_contract, other_batch, other_contract, of: d.clone() })
    }
    /// Free dimensions of the operand, of so many.
    pub(super) fn own_free(&self, rank: usize) -> Dims {
        others(rank, &[&self.own_batch, &self.own_contract])
    }
    /// Free dimensions of the other one.
    pub(super) fn other_free(&self, rank: usize) -> Dims {
        others(rank, &[&self.other_batch, &self.other_contract])
    }
    fn role(&self, d: usize) -> Role {
        match () {
            () if self.own_batch.contains(&d) => Role::Batch,
            () if self.own_contract.contains(&d) => Role::Contracted,
            () => Role::Free,
        }
    }
    /// Whether a product may be computed in another order: not where a narrow exponent could overflow on the way.
    pub(super) fn reorders(&self, e: &Edit<'_>, own: Id) -> bool {
        let dtype = e.dtype(own);
        dtype == Some(self.of.out) && matches!(self.of.out, DType::F32 | DType::F64 | DType::BF16)
    }
    /// Adds the contraction of `own` and `other` with the numbers that stand here now.
    pub(super) fn push(&self, e: &mut Edit<'_>, own: Id, other: Id) -> Option<Id> {
        let mut d = self.of.clone();
        let own_dims = (self.own_batch.clone(), self.own_contract.clone());
        let other_dims = (self.other_batch.clone(), self.other_contract.clone());
        let (lhs, rhs) = if self.lhs { (own_dims, other_dims) } else { (other_dims, own_dims) };
        (d.lhs_batch, d.lhs_contract, d.rhs_batch, d.rhs_contract) = (lhs.0, lhs.1, rhs.0, rhs.1);
        if self.lhs { e.dot_general(own, other, d) } else { e.dot_general(other, own, d) }
    }
}

/// The contraction of what is under the reshape of one operand. Each dimension that it made is replaced, on both sides, by
/// those that it was made of.
fn reshaped(e: &mut Edit<'_>, lhs: bool) -> Option<Id> {
    let (mut seen, o, other) = (Seen::new(e, lhs)?, e.var("o"), e.var("other"));
    let (from, to, beside) = (e.shape(o)?, e.shape_of("r")?, e.shape(other)?);
    if from == to {
        return None;
    }
    let runs = groups(&from, &to)?;
    let free = |d: usize| seen.role(d) == Role::Free;
    if !runs.iter().all(|(_, right)| right.len() == 1 || right.clone().all(free)) {
        return None;
    }
    let under = |d: &usize| runs.iter().find(|(_, right)| right.contains(d)).map(|(left, _)| left.clone());
    let (mut shape, mut batch, mut contract) = (Shape::new(), vec![Dims::new(); seen.own_batch.len()], vec![]);
    contract.resize(seen.own_contract.len(), Dims::new());
    for (d, &n) in beside.iter().enumerate() {
        let (b, c) = (seen.other_batch.iter().position(|&k| k == d), seen.other_contract.iter().position(|&k| k == d));
        let (list, own) = match (b, c) {
            (Some(k), _) => (&mut batch[k], seen.own_batch[k]),
            (_, Some(k)) => (&mut contract[k], seen.own_contract[k]),
            _ => {
                shape.push(n);
                continue;
            }
        };
        for left in under(&own)? {
            list.push(shape.len());
            shape.push(from[left]);
        }
    }
    let own = |dims: &Dims| -> Option<Vec<_>> { dims.iter().map(under).collect() };
    let (own_batch, own_contract) = (own(&seen.own_batch)?, own(&seen.own_contract)?);
    seen.own_batch = own_batch.into_iter().flatten().collect();
    seen.own_contract = own_contract.into_iter().flatten().collect();
    seen.other_batch = batch.into_iter().flatten().collect();
    seen.other_contract = contract.into_iter().flatten().collect();
    let other = e.reshape(other, &shape)?;
    let (made, shape) = (seen.push(e, o, other)?, e.shape(e.root())?);
    e.reshape(made, &shape)
}

/// The contraction without those dimensions of one operand that are broadcast and have this role.
fn broadcast_operand(e: &mut Edit<'_>, lhs: bool, role: Role) -> Option<Id> {
    let (seen, other) = (Seen::new(e, lhs)?, e.var("other"));
    let (full, dims) = super::shapes::broadcast(e, "b")?;
    let small = e.shape(e.var("o"))?;
    let varies = |d: usize| dims.iter().position(|&k| k == d).is_some_and(|i| small[i] == full[d]);
    let gone: Dims = (0..full.len()).filter(|&d| !varies(d) && seen.role(d) == role).collect();
    if gone.is_empty() || full.contains(&0) {
        return None;
    }
    let own = without(e, &gone)?;
    match role {
        Role::Free => free_gone(e, seen, own, other, &gone, full.len()),
        Role::Batch => batch_gone(e, seen, own, other, &gone),
        Role::Contracted => contracted_gone(e, seen, own, other, &gone),
    }
}

/// The broadcast of the left side without some of the dimensions along which it is one.
fn without(e: &mut Edit<'_>, gone: &[usize]) -> Option<Id> {
    let (full, dims) = super::shapes::broadcast(e, "b")?;
    let small = e.shape(e.var("o"))?;
    let kept: Dims = (0..dims.len()).filter(|&i| !gone.contains(&dims[i])).collect();
    let shape: Shape = kept.iter().map(|&i| small[i]).collect();
    let along: Dims = kept.iter().map(|&i| less(gone, dims[i])).collect();
    let o = e.reshape(e.var("o"), &shape)?;
    let to: Shape = (0..full.len()).filter(|d| !gone.contains(d)).map(|d| full[d]).collect();
    e.broadcast_in_dim(o, &to, &along)
}

/// The number of a dimension once others are gone.
fn less(gone: &[usize], d: usize) -> usize {
    d - super::shapes::below(gone, d)
}

fn renumber(dims: &mut Dims, gone: &[usize]) {
    dims.iter_mut().for_each(|d| *d = less(gone, *d));
}

fn free_gone(e: &mut Edit<'_>, mut seen: Seen, own: Id, other: Id, gone: &[usize], rank: usize) -> Option<Id> {
    let (batch, before) = (seen.own_batch.len(), seen.other_free(e.shape(other)?.len()).len());
    let first = if seen.lhs { batch } else { batch + before };
    let absent: Dims =
        seen.own_free(rank).iter().enumerate().filter(|(_, d)| gone.contains(d)).map(|(i, _)| first + i).collect();
    renumber(&mut seen.own_batch, gone);
    renumber(&mut seen.own_contract, gone);
    let (made, shape) = (seen.push(e, own, other)?, e.shape(e.root())?);
    e.broadcast_in_dim(made, &shape, &others(shape.len(), &[&absent]))
}

fn batch_gone(e: &mut Edit<'_>, mut seen: Seen, own: Id, other: Id, gone: &[usize]) -> Option<Id> {
    // The dimensions of the result, named by the operand they come from and their number in it.
    let rank = e.shape(other)?.len();
    let own_rank = e.shape(own)?.len() + gone.len();
    let order = |seen: &Seen, own_free: Dims| -> Vec<(bool, usize)> {
        let batch = seen.other_batch.iter().map(|&d| (false, d));
        let own = own_free.iter().map(|&d| (true, d)).collect::<Vec<_>>();
        let other = seen.other_free(rank).iter().map(|&d| (false, d)).collect::<Vec<_>>();
        let (first, second) = if seen.lhs { (own, other) } else { (other, own) };
        batch.chain(first).chain(second).collect()
    };
    let before = order(&seen, seen.own_free(own_rank));
    let own_free = seen.own_free(own_rank);
    let kept: Vec<usize> = (0..seen.own_batch.len()).filter(|&k| !gone.contains(&seen.own_batch[k])).collect();
    seen.own_batch = kept.iter().map(|&k| seen.own_batch[k]).collect();
    seen.other_batch = kept.iter().map(|&k| seen.other_batch[k]).collect();
    let after = order(&seen, own_free);
    renumber(&mut seen.own_batch, gone);
    renumber(&mut seen.own_contract, gone);
    let made = seen.push(e, own, other)?;
    let permutation: Option<Dims> = before.iter().map(|d| after.iter().position(|a| a == d)).collect();
    e.transpose(made, &permutation?)
}

fn contracted_gone(e: &mut Edit<'_>, mut seen: Seen, own: Id, other: Id, gone: &[usize]) -> Option<Id> {
    if !seen.reorders(e, own) || e.is_infinite(own) || e.is_infinite(other) {
        return None;
    }
    let kept: Vec<usize> = (0..seen.own_contract.len()).filter(|&k| !gone.contains(&seen.own_contract[k])).collect();
    let dropped = (0..seen.own_contract.len()).filter(|k| !kept.contains(k));
    let mut summed: Dims = dropped.map(|k| seen.other_contract[k]).collect();
    summed.sort_unstable();
    seen.own_contract = kept.iter().map(|&k| seen.own_contract[k]).collect();
    seen.other_contract = kept.iter().map(|&k| seen.other_contract[k]).collect();
    renumber(&mut seen.own_batch, gone);
    renumber(&mut seen.own_contract, gone);
    renumber(&mut seen.other_batch, &summed);
    renumber(&mut seen.other_contract, &summed);
    let other = e.reduce(other, Reducer::Add, summed)?;
    seen.push(e, own, other)
}
