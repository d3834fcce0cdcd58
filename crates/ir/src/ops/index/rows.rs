//! Indices that are the same along whole dimensions: `index.unsqueeze(-1).expand(-1, d)`.
//!
//! PyTorch's `gather` and `scatter` want an index for each element. Where all elements of a row have the same, the row is
//! read or written at once: XLA's CPU scatters by a loop over the indices, and a TPU reads rows many times faster than their
//! elements.

use crate::builder::Builder;
use crate::error::Result;
use crate::graph::{Node, ValueId};
use crate::op::Op;
use crate::reshape::groups;
use crate::types::{Dims, Type};

/// How many ops are looked at behind an index. What is behind more of them counts as different everywhere.
const OPS_LOOKED_AT: usize = 32;

/// `index` without the dimensions along which it is the same, but `dim`; and those dimensions, rising.
pub(super) fn without_repeats(b: &Builder, index: ValueId, dim: usize) -> Result<(ValueId, Dims)> {
    let (shape, same) = (b.shape(index), same_along(b, index, &mut OPS_LOOKED_AT.clone()));
    let repeated: Dims = (0..shape.len()).filter(|&d| d != dim && same[d]).collect();
    let mut limit = shape.clone();
    repeated.iter().for_each(|&d| limit[d] = 1);
    let (zeros, ones): (Dims, Dims) = shape.iter().map(|_| (0, 1)).unzip();
    let first = b.slice(index, &zeros, &limit, &ones)?;
    let kept: Dims = (0..shape.len()).filter(|d| !repeated.contains(d)).map(|d| shape[d]).collect();
    Ok((b.reshape(first, &kept)?, repeated))
}

/// Per dimension of `v` whether its elements are known to be the same along it.
fn same_along(b: &Builder, v: ValueId, looks: &mut usize) -> Vec<bool> {
    let mut same: Vec<bool> = b.shape(v).iter().map(|&extent| extent == 1).collect();
    let Some(left) = looks.checked_sub(1) else { return same };
    *looks = left;
    let node = b.graph().node(v).clone();
    for (same, behind) in same.iter_mut().zip(by_op(b, &node, looks)) {
        *same |= behind;
    }
    same
}

/// What a node's op and operands say of its result's dimensions.
fn by_op(b: &Builder, node: &Node, looks: &mut usize) -> Vec<bool> {
    let Type::Tensor(ty) = &node.ty else { return vec![] };
    let mut operand = |i: usize| same_along(b, node.operands[i], looks);
    match &node.op {
        Op::Constant(literal) => vec![literal.is_splat(); ty.rank()],
        Op::Iota { dim, .. } => (0..ty.rank()).map(|d| d != *dim).collect(),
        Op::BroadcastInDim { dims, .. } => {
            let of = operand(0);
            (0..ty.rank()).map(|d| dims.iter().position(|&to| to == d).is_none_or(|from| of[from])).collect()
        }
        Op::Transpose { permutation } => {
            let of = operand(0);
            permutation.iter().map(|&from| of[from]).collect()
        }
        Op::Reshape { .. } => reshaped(&b.shape(node.operands[0]), &operand(0), &ty.shape),
        Op::Slice { .. } | Op::Convert { .. } | Op::Unary(_) => operand(0),
        Op::Binary(_) | Op::Compare(_) | Op::Select => {
            let of: Vec<Vec<bool>> = (0..node.operands.len()).map(operand).collect();
            (0..ty.rank()).map(|d| of.iter().all(|of| of[d])).collect()
        }
        _ => vec![],
    }
}

/// The dimensions of a reshape's result: the same where all that they are made of are.
fn reshaped(from: &[usize], same: &[bool], to: &[usize]) -> Vec<bool> {
    let Some(groups) = groups(from, to) else { return vec![] };
    groups.into_iter().flat_map(|(left, right)| vec![same[left].iter().all(|&same| same); right.len()]).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{put_along, take_along};
    use super::*;
    use crate::DType;
    use crate::eval::eval;
    use crate::graph::{Graph, InputKind, OutputKind};
    use crate::literal::{Literal, Number};
    use crate::op::{Binary, Combiner};
    use crate::types::{Shape, TensorType};
    use proptest::prelude::*;

    fn input(b: &Builder, dtype: DType, shape: &[usize]) -> ValueId {
        b.input("x", InputKind::User, TensorType::new(dtype, shape.iter().copied()))
    }

    fn kept(index: impl Fn(&Builder) -> Result<ValueId>, dim: usize) -> (Shape, Dims) {
        let b = Builder::new("g");
        let index = index(&b).unwrap();
        let (index, repeated) = without_repeats(&b, index, dim).unwrap();
        (b.shape(index), repeated)
    }

    #[test]
    fn repeats_are_found_behind_what_keeps_them() {
        let expanded = |b: &Builder| b.broadcast_in_dim(input(b, DType::I64, &[2, 3, 1]), &[2, 3, 4], &[0, 1, 2]);
        assert_eq!(kept(expanded, 1), (Shape::from_slice(&[2, 3]), Dims::from_slice(&[2])));
        let wrapped = |b: &Builder| {
            let index = b.convert(expanded(b)?, DType::I32)?;
            b.add(index, b.full_like(index, Number::Int(4))?)
        };
        assert_eq!(kept(wrapped, 1).1[..], [2]);
        assert_eq!(kept(|b| b.transpose(expanded(b)?, &[2, 0, 1]), 2).1[..], [0]);
        assert_eq!(kept(|b| b.reshape(expanded(b)?, &[6, 2, 2]), 0).1[..], [1, 2]);
        assert_eq!(kept(|b| b.iota(DType::I64, &[2, 3, 4], 1), 1).1[..], [0, 2]);
    }

    #[test]
    fn what_differs_is_kept() {
        let expanded = |b: &Builder| b.broadcast_in_dim(input(b, DType::I64, &[2, 3]), &[2, 3, 4], &[0, 1]);
        let plus_counter = |b: &Builder| b.binary(Binary::Add, expanded(b)?, b.iota(DType::I64, &[2, 3, 4], 2)?);
        assert_eq!(kept(plus_counter, 1), (Shape::from_slice(&[2, 3, 4]), Dims::new()));
        assert_eq!(kept(|b| b.reshape(expanded(b)?, &[2, 12]), 0).1, Dims::new());
        // The dimension that is written along stays, the same or not.
        assert_eq!(kept(expanded, 2).0[..], [2, 3, 4]);
    }

    #[test]
    fn a_long_way_back_is_not_gone() {
        let chain = |b: &Builder| -> Result<ValueId> {
            let index = b.broadcast_in_dim(input(b, DType::I64, &[3]), &[3, 4], &[0])?;
            (0..OPS_LOOKED_AT).try_fold(index, |index, _| b.binary(Binary::Maximum, index, index))
        };
        assert_eq!(kept(chain, 0).1, Dims::new());
    }

    /// Extents of `v`, of the index, whether the index is the same along each, and the dimension.
    #[derive(Clone, Debug)]
    struct Case {
        shape: Vec<usize>,
        at: Vec<usize>,
        repeated: Vec<bool>,
        dim: usize,
    }

    fn cases() -> impl Strategy<Value = Case> {
        (1..5usize).prop_flat_map(|rank| {
            let extents = prop::collection::vec((1..4usize, 0..3usize, any::<bool>()), rank);
            (extents, 0..rank, 1..4usize).prop_map(|(extents, dim, count)| {
                let shape: Vec<usize> = extents.iter().map(|&(at, more, _)| at + more).collect();
                let mut at: Vec<usize> = extents.iter().map(|&(at, ..)| at).collect();
                at[dim] = count;
                let repeated = extents.iter().enumerate().map(|(d, &(.., same))| same && d != dim).collect();
                Case { shape, at, repeated, dim }
            })
        })
    }

    impl Case {
        fn index(&self) -> Vec<usize> {
            self.at.iter().zip(&self.repeated).map(|(&n, &repeated)| if repeated { 1 } else { n }).collect()
        }

        /// What is read, added up and set, by an index that is broadcast in the program, or behind a barrier.
        fn results(&self, hidden: bool, inputs: &[Literal]) -> Vec<Literal> {
            let b = Builder::new("g");
            let v = input(&b, DType::I32, &self.shape);
            let small = input(&b, DType::I64, &self.index());
            let updates = input(&b, DType::I32, &self.at);
            let all: Vec<usize> = (0..self.at.len()).collect();
            let index = b.broadcast_in_dim(small, &self.at, &all).unwrap();
            let index = if hidden { b.push(Op::OptimizationBarrier, &[index], vec![]).unwrap() } else { index };
            let put = |combiner| put_along(&b, v, self.dim, index, updates, combiner).unwrap();
            let results = [take_along(&b, v, self.dim, index).unwrap(), put(Combiner::Add), put(Combiner::Set)];
            results.into_iter().for_each(|v| b.output("y", OutputKind::User, v));
            let graph: Graph = b.finish();
            crate::verify(&graph).unwrap();
            eval(&graph, inputs).unwrap()
        }
    }

    fn counting(shape: &[usize], from: i32) -> Literal {
        let bytes: Vec<u8> = (from..).take(shape.iter().product()).flat_map(i32::to_le_bytes).collect();
        Literal::dense(TensorType::new(DType::I32, shape.iter().copied()), bytes).unwrap()
    }

    proptest! {
        #[test]
        fn rows_are_what_their_elements_are(case in cases(), seed in any::<u64>()) {
            let small = case.index();
            // From beyond one end to beyond the other, the same ones more than once.
            let places = (0..small.iter().product::<usize>() as u64)
                .map(|i| (seed.rotate_left((7 * i % 64) as u32) % (case.shape[case.dim] as u64 + 2)) as i64 - 1);
            let bytes: Vec<u8> = places.flat_map(i64::to_le_bytes).collect();
            let index = Literal::dense(TensorType::new(DType::I64, small.iter().copied()), bytes).unwrap();
            let inputs = [counting(&case.shape, 100), index, counting(&case.at, 1)];
            prop_assert_eq!(case.results(false, &inputs), case.results(true, &inputs));
        }
    }
}
