//! Matrix products by the host's BLAS, where one is offered.
//!
//! XLA's CPU multiplies with Eigen, which packs some operands badly ([`super::product_order`]) and takes twice MKL's time where
//! there are few rows. PyTorch's library has MKL in it. A transpose before a product costs a copy, so operands are taken as they
//! lie wherever BLAS can read them so.

use super::rebuild::Rebuild;
use super::{Product, Rewrite, Rule};
use crate::Class;
use ir::op::DotGeneral;
use ir::{DType, Dims, Op, Precision, Result, ValueId};

pub(super) const RULE: Rule = Rule {
    name: "product-by-the-host",
    class: Class::Exact,
    alone: true,
    why: "MKL multiplies faster than XLA's CPU, and reads operands however they lie",
    rewrite: Rewrite::Product(rewrite),
};

/// Multiplications from which a product is worth a call.
const LEAST: usize = 1 << 13;
/// The same of each product of a batch: BLAS is called for each.
const LEAST_EACH: usize = 1 << 9;

/// One side of a product.
#[derive(Clone)]
pub(super) struct Side {
    pub(super) value: ValueId,
    pub(super) batch: Dims,
    pub(super) contract: Dims,
}

fn rewrite(to: &mut Rebuild, site: &Product<'_>) -> Result<Option<ValueId>> {
    let d = site.attributes;
    let lhs = Side { value: site.lhs, batch: d.lhs_batch.clone(), contract: d.lhs_contract.clone() };
    let rhs = Side { value: site.rhs, batch: d.rhs_batch.clone(), contract: d.rhs_contract.clone() };
    product(to, &lhs, &rhs, d.precision, d.out)
}

/// The product of both sides by the host, if BLAS takes it and it is worth it.
pub(super) fn product(
    to: &mut Rebuild,
    lhs: &Side,
    rhs: &Side,
    precision: Precision,
    out: DType,
) -> Result<Option<ValueId>> {
    let (l, r) = (as_it_lies(to, lhs), as_it_lies(to, rhs));
    for (l, r) in [(&l, &r), (&l, rhs), (lhs, &r), (lhs, rhs)] {
        let dims = DotGeneral {
            lhs_batch: l.batch.clone(),
            lhs_contract: l.contract.clone(),
            rhs_batch: r.batch.clone(),
            rhs_contract: r.contract.clone(),
            precision,
            out,
            host: true,
        };
        let Some(product) = dims.strided(to.ty(l.value)?, to.ty(r.value)?) else { continue };
        let each = product.m.saturating_mul(product.n).saturating_mul(product.k);
        let worth_it = each >= LEAST_EACH && each.saturating_mul(product.count()) >= LEAST;
        return if worth_it { to.push(Op::DotGeneral(dims), &[l.value, r.value]).map(Some) } else { Ok(None) };
    }
    Ok(None)
}

/// `side` without the transpose before it, if that does not order its free dimensions.
fn as_it_lies(to: &Rebuild, side: &Side) -> Side {
    let Some((value, permutation)) = to.as_transpose(side.value) else { return side.clone() };
    let gone = |i: &usize| side.batch.contains(i) || side.contract.contains(i);
    let free = (0..permutation.len()).filter(|i| !gone(i)).map(|i| permutation[i]);
    let through = |dims: &Dims| dims.iter().map(|&i| permutation[i]).collect();
    match free.is_sorted() {
        true => Side { value, batch: through(&side.batch), contract: through(&side.contract) },
        false => side.clone(),
    }
}
