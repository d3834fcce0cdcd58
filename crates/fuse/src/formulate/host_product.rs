//! Matrix products by the host's BLAS, where one is offered.
//!
//! XLA's CPU multiplies with Eigen, which packs some operands badly ([`super::product_order`]) and takes twice MKL's time where
//! there are few rows. PyTorch's library has MKL in it. A transpose before a product costs a copy, so operands are taken as they
//! lie wherever BLAS can read them so, and put in order where it cannot.

use super::rebuild::Rebuild;
use super::side::Side;
use super::{Product, Rewrite, Rule};
use crate::Class;
use ir::op::DotGeneral;
use ir::{DType, Dims, Op, Precision, Result, ValueId};

pub(super) const RULE: Rule = Rule {
    name: "product-by-the-host",
    class: Class::Exact,
    alone: true,
    why: "the host multiplies faster than XLA's CPU, and reads operands however they lie",
    rewrite: Rewrite::Product(rewrite),
};

/// Multiplications from which a product is worth a call.
const LEAST: usize = 1 << 13;
/// The same of each product of a batch: BLAS is called for each.
const LEAST_EACH: usize = 1 << 9;

fn rewrite(to: &mut Rebuild, site: &Product<'_>) -> Result<Option<ValueId>> {
    let d = site.attributes;
    let (lhs, rhs) = site.sides();
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
    let numbers = |l: &Side, r: &Side| DotGeneral {
        lhs_batch: l.batch.clone(),
        lhs_contract: l.contract.clone(),
        rhs_batch: r.batch.clone(),
        rhs_contract: r.contract.clone(),
        precision,
        out,
        host: true,
    };
    let (l, r) = (lhs.scaled_first(to)?.as_it_lies(to), rhs.scaled_first(to)?.as_it_lies(to));
    let as_they_lie = [(&l, &r), (&l, rhs), (lhs, &r), (lhs, rhs)].map(|(l, r)| (l.clone(), r.clone()));
    // Else one is put in order first, which XLA would do too, or both: what is contracted as it is in the other operand.
    let (like_lhs, like_rhs) = (order(&l.contract), order(&r.contract));
    let (own, other) = (l.in_order(to, &like_rhs)?, r.in_order(to, &like_lhs)?);
    let both = (own.clone(), r.in_order(to, &like_rhs)?);
    for (l, r) in as_they_lie.into_iter().chain([(own, r), (l, other), both]) {
        let dims = numbers(&l, &r);
        let Some(product) = dims.strided(&l.ty(to)?, &r.ty(to)?) else { continue };
        let each = product.m.saturating_mul(product.n).saturating_mul(product.k);
        if each < LEAST_EACH || each.saturating_mul(product.count()) < LEAST {
            return Ok(None);
        }
        let operands = [l.made(to)?, r.made(to)?];
        return to.push(Op::DotGeneral(dims), &operands).map(Some);
    }
    Ok(None)
}

/// The places of `dims` as they rise.
fn order(dims: &Dims) -> Dims {
    let mut order: Dims = (0..dims.len()).collect();
    order.sort_by_key(|&i| dims[i]);
    order
}
