//! Contractions as products of strided matrices, which is how BLAS takes them.

use crate::dtype::DType;
use crate::op::DotGeneral;
use crate::types::TensorType;
use hostcall::{Batch, Product, Strides};

/// How many elements apart the neighbours along a dimension of so many are.
#[derive(Clone, Copy)]
struct Dim {
    size: usize,
    stride: usize,
}

impl DotGeneral {
    /// The products that it is of operands that lie in rows, where BLAS can read them as they lie: of `f32` or `f64`, not
    /// empty, contracted and free dimensions each evenly spaced.
    pub fn strided(&self, lhs: &TensorType, rhs: &TensorType) -> Option<Product> {
        let known = matches!(lhs.dtype, DType::F32 | DType::F64) && self.out == lhs.dtype;
        if !known || lhs.numel() == 0 || rhs.numel() == 0 {
            return None;
        }
        let (l, r) = (dims(lhs), dims(rhs));
        // Both operands' contracted dimensions in one order: that in which they lie.
        let mut contract: Vec<(usize, usize)> = pairs(&self.lhs_contract, &self.rhs_contract).collect();
        contract.sort_unstable();
        let k = (merged(contract.iter().map(|&(i, _)| l[i]))?, merged(contract.iter().map(|&(_, j)| r[j]))?);
        let free = |dims: &[Dim], batch: &[usize], contract: &[usize]| {
            merged((0..dims.len()).filter(|i| !batch.contains(i) && !contract.contains(i)).map(|i| dims[i]))
        };
        let m = free(&l, &self.lhs_batch, &self.lhs_contract)?;
        let n = free(&r, &self.rhs_batch, &self.rhs_contract)?;
        let batch = pairs(&self.lhs_batch, &self.rhs_batch).filter(|&(i, _)| l[i].size > 1);
        let batch = batch.map(|(i, j)| Batch { size: l[i].size, lhs: l[i].stride, rhs: r[j].stride }).collect();
        let (row, column) = strides(m, k.0);
        let (rhs_row, rhs_column) = strides(k.1, n);
        let (lhs_strides, rhs_strides) = (Strides { row, column }, Strides { row: rhs_row, column: rhs_column });
        let it = Product { m: m.size, n: n.size, k: k.0.size, lhs: lhs_strides, rhs: rhs_strides, batch };
        it.fits(lhs.numel(), rhs.numel(), it.result_len()?).then_some(it)
    }
}

fn pairs<'a>(lhs: &'a [usize], rhs: &'a [usize]) -> impl Iterator<Item = (usize, usize)> + 'a {
    lhs.iter().copied().zip(rhs.iter().copied())
}

fn dims(ty: &TensorType) -> Vec<Dim> {
    let mut dims: Vec<Dim> = vec![];
    let mut stride = 1;
    for &size in ty.shape.iter().rev() {
        dims.push(Dim { size, stride });
        stride *= size;
    }
    dims.reverse();
    dims
}

/// Several dimensions as one, the slowest first; `None` if they are not evenly spaced.
fn merged(dims: impl Iterator<Item = Dim>) -> Option<Dim> {
    let mut merged = Dim { size: 1, stride: 1 };
    for dim in dims.filter(|dim| dim.size > 1) {
        if merged.size > 1 && merged.stride != dim.size * dim.stride {
            return None;
        }
        merged = Dim { size: merged.size * dim.size, stride: dim.stride };
    }
    Some(merged)
}

/// The strides of a matrix. Along a dimension of one element any will do: such that BLAS takes it.
fn strides(rows: Dim, columns: Dim) -> (usize, usize) {
    match (rows, columns) {
        (_, Dim { size: 1, .. }) => (rows.stride.max(1), 1),
        (Dim { size: 1, .. }, Dim { stride: 1, size }) => (size, 1),
        (Dim { size: 1, .. }, _) => (1, columns.stride),
        _ => (rows.stride, columns.stride),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::{Value, eval_node};
    use crate::op::{Op, Precision};
    use crate::{Dims, Literal, LocId, Node, infer};
    use smallvec::smallvec;

    fn dot(batch: [Dims; 2], contract: [Dims; 2]) -> DotGeneral {
        let ([lhs_batch, rhs_batch], [lhs_contract, rhs_contract]) = (batch, contract);
        let (precision, out) = (Precision::default(), DType::F32);
        DotGeneral { lhs_batch, rhs_batch, lhs_contract, rhs_contract, precision, out, host: false }
    }

    /// Small numbers other than zero, whose sums of products are exact.
    fn numbers(ty: &TensorType) -> Vec<f32> {
        (0..ty.numel()).map(|i| ((i * 7 + 3) % 10) as f32 - 4.5).collect()
    }

    /// `it` by the definition.
    fn multiplied(it: &Product, lhs: &[f32], rhs: &[f32]) -> Vec<f32> {
        let mut out = vec![];
        for index in 0..it.count() {
            let (l, r) = it.offsets(index);
            for (i, j) in (0..it.m).flat_map(|i| (0..it.n).map(move |j| (i, j))) {
                let at = |k| (l + i * it.lhs.row + k * it.lhs.column, r + k * it.rhs.row + j * it.rhs.column);
                out.push((0..it.k).map(at).map(|(l, r)| lhs[l] * rhs[r]).sum());
            }
        }
        out
    }

    /// `d` as a product, which gives what the evaluator does.
    fn agrees(d: &DotGeneral, lhs: &[usize], rhs: &[usize]) -> Option<Product> {
        let tys = [lhs, rhs].map(|shape| TensorType::new(DType::F32, shape.iter().copied()));
        let it = d.strided(&tys[0], &tys[1])?;
        let data = tys.each_ref().map(numbers);
        let literal = |i: usize| {
            let bytes: Vec<u8> = data[i].iter().flat_map(|x| x.to_le_bytes()).collect();
            Value::Tensor(Literal::dense(tys[i].clone(), bytes).expect("as many"))
        };
        let op = Op::DotGeneral(d.clone());
        let ty = infer(&op, &[&tys[0].clone().into(), &tys[1].clone().into()], &[]).expect("fits");
        let node = Node { op, operands: smallvec![], ty, loc: LocId::default(), bodies: vec![] };
        let Value::Tensor(out) = eval_node(&node, &[&literal(0), &literal(1)]).expect("evaluates") else {
            panic!("a tuple")
        };
        let bytes: Vec<u8> = multiplied(&it, &data[0], &data[1]).iter().flat_map(|x| x.to_le_bytes()).collect();
        assert_eq!(out.dense_bytes(), bytes, "{d:?} {lhs:?} {rhs:?}");
        Some(it)
    }

    #[test]
    fn matrices_are_read_as_they_lie() {
        for (lhs, l) in [([3, 4], 1), ([4, 3], 0)] {
            for (rhs, r) in [([4, 5], 0), ([5, 4], 1)] {
                let d = dot([smallvec![], smallvec![]], [smallvec![l], smallvec![r]]);
                assert!(agrees(&d, &lhs, &rhs).is_some(), "{d:?}");
            }
        }
    }

    #[test]
    fn every_order_of_dimensions_is_right_or_refused() {
        let orders: Vec<[usize; 4]> = (0..256)
            .map(|i| [i % 4, i / 4 % 4, i / 16 % 4, i / 64])
            .filter(|o| (0..4).all(|d| o.contains(&d)))
            .collect();
        let mut taken = 0;
        for sizes in [[2, 3, 4, 5], [1, 3, 4, 5], [2, 1, 4, 5], [2, 3, 1, 5], [2, 3, 4, 1], [1, 1, 1, 5], [1, 1, 4, 1]]
        {
            for (left, right) in orders.iter().flat_map(|l| orders.iter().map(move |r| (l, r))) {
                // Two batch dimensions, one that is contracted and a free one, anywhere in either operand.
                let at = |order: &[usize; 4], dim: usize| order.iter().position(|&d| d == dim).expect("a permutation");
                let d = dot(
                    [smallvec![at(left, 0), at(left, 1)], smallvec![at(right, 0), at(right, 1)]],
                    [smallvec![at(left, 2)], smallvec![at(right, 2)]],
                );
                taken += usize::from(agrees(&d, &left.map(|d| sizes[d]), &right.map(|d| sizes[d])).is_some());
            }
        }
        assert!(taken > 1500, "{taken}");
    }

    #[test]
    fn several_dimensions_are_one_if_they_are_evenly_spaced() {
        // A weight's gradient: batch and length are contracted.
        let d = dot([smallvec![], smallvec![]], [smallvec![0, 1], smallvec![0, 1]]);
        assert_eq!(agrees(&d, &[2, 3, 5], &[2, 3, 7]).map(|it| (it.m, it.n, it.k)), Some((5, 7, 6)));
        let swapped = dot([smallvec![], smallvec![]], [smallvec![1, 0], smallvec![1, 0]]);
        assert!(agrees(&swapped, &[2, 3, 5], &[2, 3, 7]).is_some());
        let crossed = dot([smallvec![], smallvec![]], [smallvec![0, 1], smallvec![1, 0]]);
        assert_eq!(agrees(&crossed, &[2, 3, 5], &[3, 2, 7]), None);
        let apart = dot([smallvec![], smallvec![]], [smallvec![0, 2], smallvec![0, 1]]);
        assert_eq!(agrees(&apart, &[2, 5, 3], &[2, 3, 7]), None);
        // An output layer: batch and length are free.
        let free = dot([smallvec![], smallvec![]], [smallvec![2], smallvec![1]]);
        assert_eq!(agrees(&free, &[2, 3, 5], &[7, 5]).map(|it| (it.m, it.n, it.k)), Some((6, 7, 5)));
    }

    #[test]
    fn other_types_and_nothing_are_refused() {
        let d = dot([smallvec![], smallvec![]], [smallvec![1], smallvec![0]]);
        let of = |dtype, m| d.strided(&TensorType::new(dtype, [m, 4]), &TensorType::new(dtype, [4, 5]));
        assert!(of(DType::F32, 3).is_some());
        assert_eq!(of(DType::F32, 0), None);
        assert_eq!(of(DType::BF16, 3), None);
        let wider = DotGeneral { out: DType::F64, ..d.clone() };
        assert_eq!(wider.strided(&TensorType::new(DType::F32, [3, 4]), &TensorType::new(DType::F32, [4, 5])), None);
    }
}
