//! The sides of a matrix product.

use super::Product;
use super::rebuild::Rebuild;
use ir::{Binary, Dims, Result, Shape, TensorType, ValueId};

/// One side of a product: an operand, and which of its dimensions are what.
#[derive(Clone)]
pub(super) struct Side {
    pub(super) value: ValueId,
    pub(super) batch: Dims,
    pub(super) contract: Dims,
    /// How the operand is still to be transposed, if it is.
    pub(super) turn: Option<Dims>,
}

impl Side {
    pub(super) fn new(value: ValueId, batch: &Dims, contract: &Dims) -> Side {
        Side { value, batch: batch.clone(), contract: contract.clone(), turn: None }
    }

    /// The same without the transpose before it, if that does not order its free dimensions.
    pub(super) fn as_it_lies(&self, to: &Rebuild) -> Side {
        let Some((value, permutation)) = to.as_transpose(self.value) else { return self.clone() };
        let gone = |i: &usize| self.batch.contains(i) || self.contract.contains(i);
        let free = (0..permutation.len()).filter(|i| !gone(i)).map(|i| permutation[i]);
        let through = |dims: &Dims| dims.iter().map(|&i| permutation[i]).collect();
        match free.is_sorted() {
            true => Side::new(value, &through(&self.batch), &through(&self.contract)),
            false => self.clone(),
        }
    }

    /// The same with a scale before the transpose that it follows, which [`Self::as_it_lies`] can leave out then.
    pub(super) fn scaled_first(&self, to: &mut Rebuild) -> Result<Side> {
        let Some((scaled, scale)) = to.as_scaled(self.value) else { return Ok(self.clone()) };
        let Some((value, permutation)) = to.as_transpose(scaled) else { return Ok(self.clone()) };
        let permutation = permutation.clone();
        let scale = to.broadcast(scale, to.shape(value)?)?;
        let value = to.binary(Binary::Multiply, value, scale)?;
        Ok(Side { value: to.transpose(value, permutation)?, ..self.clone() })
    }

    /// The same with its batch dimensions first, then the free ones, and those that are contracted last, in an `order` of them.
    pub(super) fn in_order(&self, to: &Rebuild, order: &Dims) -> Result<Side> {
        let gone = |i: &usize| self.batch.contains(i) || self.contract.contains(i);
        let (batches, rank) = (self.batch.len(), to.ty(self.value)?.rank());
        let free = (0..rank).filter(|i| !gone(i));
        let last = order.iter().map(|&i| self.contract[i]);
        let turn: Dims = self.batch.iter().copied().chain(free).chain(last).collect();
        let mut contract = self.contract.clone();
        order.iter().enumerate().for_each(|(at, &i)| contract[i] = rank - order.len() + at);
        Ok(Side { value: self.value, batch: (0..batches).collect(), contract, turn: Some(turn) })
    }

    /// The operand's type, transposed.
    pub(super) fn ty(&self, to: &Rebuild) -> Result<TensorType> {
        let ty = to.ty(self.value)?;
        Ok(match &self.turn {
            Some(turn) => TensorType { dtype: ty.dtype, shape: turn.iter().map(|&d| ty.shape[d]).collect::<Shape>() },
            None => ty.clone(),
        })
    }

    /// The operand, transposed.
    pub(super) fn made(&self, to: &mut Rebuild) -> Result<ValueId> {
        match &self.turn {
            Some(turn) => to.transpose(self.value, turn.clone()),
            None => Ok(self.value),
        }
    }
}

impl Product<'_> {
    /// Its operands.
    pub(super) fn sides(&self) -> (Side, Side) {
        let d = self.attributes;
        (Side::new(self.lhs, &d.lhs_batch, &d.lhs_contract), Side::new(self.rhs, &d.rhs_batch, &d.rhs_contract))
    }
}
