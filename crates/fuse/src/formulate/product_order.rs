//! Matrix products in the order in which XLA's CPU packs their operands well.
//!
//! It copies blocks of both operands to where they are multiplied. Along the dimension that is contracted, a first operand
//! wants its elements side by side and a second one far apart; of the other kind, packing takes many times as long, most of all
//! where rows are a power of two apart. `x @ w.T`, which is every linear layer, has a second operand of the wrong kind:
//!
//! | f32, processor ms, `[m, k] x [n, k]`  | `x @ w.T` | `(w @ x.T).T` |
//! |---------------------------------------|-----------|---------------|
//! | 8x256 by 1024x256                      | 0.82      | 0.34          |
//! | 64x1024 by 1024x1024                   | 4.8       | 1.6           |
//! | 64x1000 by 1024x1000                   | 2.0       | 1.7           |
//! | 16x2048 by 2048x2048                   | 12.6      | 2.4           |
//! | 128x2048 by 2048x2048                  | 37.8      | 10.3          |
//! | 128x768 by 3072x768                    | 9.6       | 5.8           |
//! | 256x1024 by 4096x1024                  | 50.4      | 18.3          |
//! | 512x3072 by 768x3072                   | 20.9      | 19.2          |
//! | 512x512 by 512x512                     | 2.4       | 3.2           |
//! | 2048x512 by 256x512                    | 5.0       | 9.9           |
//! | `[k, m] x [k, n]`, 1024x1024 by 1024x64 | 4.0       | 1.6           |
//!
//! and on the clock, on two cores of a machine with AVX-512 and as many threads:
//!
//! | f32, ms, `[m, k] x [n, k]`             | `x @ w.T` | `(w @ x.T).T` |
//! |---------------------------------------|-----------|---------------|
//! | 128x768 by 50257x768                   | 303       | 72            |
//! | 512x512 by 32128x512                   | 182       | 140           |
//! | 394x768 by 3072x768                    | 16.8      | 7.9           |
//! | 394x768 by 768x768                     | 2.7       | 2.5           |
//! | 512x512 by 2048x512                    | 7.7       | 8.0           |
//! | 2048x512 by 256x512                    | 2.3       | 6.7           |
//!
//! The former with a bias and a `tanh` after each. XLA turns the product back unless something stands before the transpose.

use super::rebuild::Rebuild;
use super::side::Side;
use super::{Product, Rewrite, Rule};
use crate::Class;
use ir::op::DotGeneral;
use ir::{DType, Dims, Op, Result, TensorType, ValueId};

pub(super) const RULE: Rule = Rule {
    name: "product-in-packed-order",
    class: Class::Exact,
    alone: true,
    why: "XLA's CPU packs a second operand that is contracted along its rows slowly",
    rewrite: Rewrite::Product(rewrite),
};

/// What it costs to transpose four elements of the result, in elements that are packed badly.
const TRANSPOSED: usize = 3;

fn rewrite(to: &mut Rebuild, site: &Product<'_>) -> Result<Option<ValueId>> {
    let d = site.attributes;
    if !d.lhs_batch.is_empty() {
        return Ok(None);
    }
    // XLA takes a matrix as it lies, whatever transposes stand before it.
    let as_it_lies = |side: Side| match to.ty(side.value).is_ok_and(|t| t.rank() == 2) {
        true => side.as_it_lies(to),
        false => side,
    };
    let (lhs, rhs) = site.sides();
    let (lhs, rhs) = (as_it_lies(lhs), as_it_lies(rhs));
    let d = DotGeneral { lhs_contract: lhs.contract, rhs_contract: rhs.contract, ..d.clone() };
    let (left, right) = (lhs.value, rhs.value);
    let (lhs, rhs) = (to.ty(left)?.clone(), to.ty(right)?.clone());
    let packed = matches!(lhs.dtype, DType::F32 | DType::F64) && d.out == lhs.dtype;
    let contracted = d.lhs_contract.iter().map(|&i| lhs.shape[i]).product::<usize>();
    if !packed || contracted == 0 || lhs.numel() == 0 || rhs.numel() == 0 {
        return Ok(None);
    }
    let (rows, columns) = (lhs.numel() / contracted, rhs.numel() / contracted);
    if rows == 1 || columns == 1 {
        return Ok(None); // a product with a vector, which is not packed
    }
    let (own, turned) = (badly_packed(&lhs, &rhs, &d), badly_packed(&rhs, &lhs, &swapped(&d)));
    let transposed = rows.saturating_mul(columns).saturating_mul(TRANSPOSED) / 4;
    if own <= turned.saturating_add(transposed) {
        return Ok(None);
    }
    let product = to.push(Op::DotGeneral(swapped(&d)), &[right, left])?;
    let product = to.push(Op::OptimizationBarrier, &[product])?;
    let (left, right) = (lhs.rank() - d.lhs_contract.len(), rhs.rank() - d.rhs_contract.len());
    to.transpose(product, (right..right + left).chain(0..right).collect()).map(Some)
}

fn swapped(d: &DotGeneral) -> DotGeneral {
    DotGeneral { lhs_contract: d.rhs_contract.clone(), rhs_contract: d.lhs_contract.clone(), ..d.clone() }
}

/// How many elements a product of two matrices packs badly.
fn badly_packed(lhs: &TensorType, rhs: &TensorType, d: &DotGeneral) -> usize {
    let first = if ends_with(lhs.rank(), &d.lhs_contract) { 0 } else { lhs.numel() };
    let second = if ends_with(rhs.rank(), &d.rhs_contract) { rhs.numel() } else { 0 };
    first + second
}

/// Whether `contract` are the last dimensions.
fn ends_with(rank: usize, contract: &Dims) -> bool {
    contract.iter().all(|&i| i + contract.len() >= rank)
}
