//! How each op is computed on operands whose dimensions are held in another order.

use super::asks;
use super::forms::{Forms, Made, Order, identity, is_identity, place, places};
use ir::op::{Convolution, DotGeneral, SignedDims, Window};
use ir::{DType, Dims, Node, Op, Operands, Reducer, Result, Type, ValueId};

/// What becomes of `node`; a convolution that asks for features last gets them if it is `chosen`.
pub(super) fn node(forms: &mut Forms<'_>, node: &Node, chosen: bool) -> Result<Made> {
    match &node.op {
        Op::Constant(_) | Op::Iota { .. } | Op::BroadcastInDim { .. } => Ok(Made::Free),
        Op::Convolution(c) if chosen && asks(node).is_some() => features_last(forms, node, c),
        Op::Convolution(c) if c.host => forms.keep(node),
        Op::Convolution(c) => convolution(forms, node, c),
        Op::DotGeneral(d) => dot_general(forms, node, d),
        Op::Transpose { permutation } => transpose(forms, node, permutation),
        Op::GetTupleElement { .. } => element(forms, node),
        Op::Reduce { reducer, dims } => reduce(forms, node, *reducer, dims),
        Op::Unary(_) | Op::Binary(_) | Op::Compare(_) | Op::Select | Op::Convert { .. } => {
            let order = common_order(forms, node);
            carried(forms, node, order, node.op.clone())
        }
        op => {
            let order = common_order(forms, node);
            match reordered(op, &order)? {
                Some(op) if operands_take(node, &order, forms) => carried(forms, node, order, op),
                _ => forms.keep(node),
            }
        }
    }
}

/// The order in which the operands of `node`, which share their dimensions, are best taken: the first that is another than
/// their own.
fn common_order(forms: &Forms<'_>, node: &Node) -> Order {
    let held = node.operands.iter().filter_map(|&v| forms.order(v)).find(|o| !is_identity(o));
    let rank = node.operands.first().map_or(0, |&v| forms.rank(v));
    held.filter(|o| o.len() == rank).cloned().unwrap_or_else(|| identity(rank))
}

/// Whether every operand of `node` has the dimensions that `order` speaks of, but for the value that a pad fills in.
fn operands_take(node: &Node, order: &Order, forms: &Forms<'_>) -> bool {
    let shared = if matches!(node.op, Op::Pad { .. }) { &node.operands[..1] } else { &node.operands[..] };
    shared.iter().all(|&v| forms.rank(v) == order.len())
}

/// `op` on the operands in `order`, which is that of the result too.
fn carried(forms: &mut Forms<'_>, node: &Node, order: Order, op: Op) -> Result<Made> {
    let take = |&v: &ValueId| if forms.rank(v) == order.len() { forms.get(v, &order) } else { forms.plain(v) };
    let operands = node.operands.iter().map(take).collect::<Result<Operands>>()?;
    let value = forms.at(node.loc, |to| to.push(op, &operands))?;
    Ok(Made::Held(order, value))
}

/// `op`, of one result whose dimensions are its operands', with its attributes in `order`; `None` if it stays.
fn reordered(op: &Op, order: &Order) -> Result<Option<Op>> {
    let pick = |dims: &Dims| -> Dims { order.iter().map(|&d| dims[d]).collect() };
    let pick_signed = |dims: &SignedDims| -> SignedDims { order.iter().map(|&d| dims[d]).collect() };
    Ok(Some(match op {
        Op::Slice { start, limit, stride } => {
            Op::Slice { start: pick(start), limit: pick(limit), stride: pick(stride) }
        }
        Op::Pad { low, high, interior } => {
            Op::Pad { low: pick_signed(low), high: pick_signed(high), interior: pick(interior) }
        }
        Op::Reverse { dims } => Op::Reverse { dims: places(order, dims)? },
        Op::Concatenate { dim } => Op::Concatenate { dim: place(order, *dim)? },
        Op::ReduceWindow { reducer, window } if sums_alike(order, long(window)) => {
            Op::ReduceWindow { reducer: *reducer, window: windows(window, order) }
        }
        Op::SelectAndScatter { window } if sums_alike(order, long(window)) => {
            Op::SelectAndScatter { window: windows(window, order) }
        }
        _ => return Ok(None),
    }))
}

fn windows(w: &Window, order: &Order) -> Window {
    let pick = |dims: &Dims| -> Dims { order.iter().map(|&d| dims[d]).collect() };
    Window {
        size: pick(&w.size),
        strides: pick(&w.strides),
        padding: order.iter().map(|&d| w.padding[d]).collect(),
        base_dilation: pick(&w.base_dilation),
        dilation: pick(&w.dilation),
    }
}

/// Dimensions in which a window holds more than one element.
fn long(w: &Window) -> Dims {
    (0..w.size.len()).filter(|&d| w.size[d] != 1).collect()
}

/// Whether `dims`, which rise, follow each other in `order` as they did, so that sums over them run alike.
fn sums_alike(order: &Order, dims: Dims) -> bool {
    let held: Dims = order.iter().copied().filter(|d| dims.contains(d)).collect();
    held == dims
}

fn features_last(forms: &mut Forms<'_>, node: &Node, c: &Convolution) -> Result<Made> {
    let [input, kernel] = node.operands[..] else { return forms.keep(node) };
    let order = |batch: usize, space: &Dims, feature: usize| -> Order {
        [batch].into_iter().chain(space.iter().copied()).chain([feature]).collect()
    };
    let input = forms.get(input, &order(c.input_batch, &c.input_spatial, c.input_feature))?;
    let (held, kernel) = forms.as_held(kernel)?;
    let result = order(c.output_batch, &c.output_spatial, c.output_feature);
    let n = c.input_spatial.len();
    let space: Dims = (1..=n).collect();
    let op = Op::Convolution(Convolution {
        input_batch: 0,
        input_feature: n + 1,
        input_spatial: space.clone(),
        output_batch: 0,
        output_feature: n + 1,
        output_spatial: space,
        ..kernel_numbers(c, &held)?
    });
    let value = forms.at(node.loc, |to| to.push(op, &[input, kernel]))?;
    Ok(Made::Held(result, value))
}

/// A convolution that takes its operands as they come, and gives its result as it did.
fn convolution(forms: &mut Forms<'_>, node: &Node, c: &Convolution) -> Result<Made> {
    let [input, kernel] = node.operands[..] else { return forms.keep(node) };
    let ((order, input), (held, kernel)) = (forms.as_held(input)?, forms.as_held(kernel)?);
    let op = Op::Convolution(Convolution {
        input_batch: place(&order, c.input_batch)?,
        input_feature: place(&order, c.input_feature)?,
        input_spatial: places(&order, &c.input_spatial)?,
        ..kernel_numbers(c, &held)?
    });
    let value = forms.at(node.loc, |to| to.push(op, &[input, kernel]))?;
    Ok(Made::Held(identity(c.input_spatial.len() + 2), value))
}

/// `c` with a kernel held in `order`.
fn kernel_numbers(c: &Convolution, order: &Order) -> Result<Convolution> {
    Ok(Convolution {
        kernel_input_feature: place(order, c.kernel_input_feature)?,
        kernel_output_feature: place(order, c.kernel_output_feature)?,
        kernel_spatial: places(order, &c.kernel_spatial)?,
        ..c.clone()
    })
}

/// Takes its operands as they come: the result's free dimensions follow in the order in which they are held.
fn dot_general(forms: &mut Forms<'_>, node: &Node, d: &DotGeneral) -> Result<Made> {
    let [lhs, rhs] = node.operands[..] else { return forms.keep(node) };
    let ((l_order, l), (r_order, r)) = (forms.as_held(lhs)?, forms.as_held(rhs)?);
    let op = Op::DotGeneral(DotGeneral {
        lhs_batch: places(&l_order, &d.lhs_batch)?,
        lhs_contract: places(&l_order, &d.lhs_contract)?,
        rhs_batch: places(&r_order, &d.rhs_batch)?,
        rhs_contract: places(&r_order, &d.rhs_contract)?,
        ..d.clone()
    });
    let value = forms.at(node.loc, |to| to.push(op, &[l, r]))?;
    let batches = d.lhs_batch.len();
    let gone = |batch: &Dims, contract: &Dims| -> Dims { batch.iter().chain(contract).copied().collect() };
    let lhs_free = without(&l_order, &gone(&d.lhs_batch, &d.lhs_contract));
    let rhs_free = without(&r_order, &gone(&d.rhs_batch, &d.rhs_contract));
    let first_rhs = batches + lhs_free.len();
    let order = identity(batches).into_iter();
    let order = order.chain(lhs_free.iter().map(|&i| batches + i)).chain(rhs_free.iter().map(|&i| first_rhs + i));
    Ok(Made::Held(order.collect(), value))
}

/// `order` without the dimensions that are `gone`, as an order of those that are left.
fn without(order: &Order, gone: &[usize]) -> Order {
    let left = |d: usize| d - gone.iter().filter(|&&g| g < d).count();
    order.iter().filter(|d| !gone.contains(d)).map(|&d| left(d)).collect()
}

/// Its operand, held in another order; the elements move only when somebody asks for it.
fn transpose(forms: &mut Forms<'_>, node: &Node, permutation: &Dims) -> Result<Made> {
    let [operand] = node.operands[..] else { return forms.keep(node) };
    let (held, value) = forms.as_held(operand)?;
    Ok(Made::Held(places(permutation, &held)?, value))
}

/// A part of a tuple is held as the tuple is.
fn element(forms: &mut Forms<'_>, node: &Node) -> Result<Made> {
    let [tuple] = node.operands[..] else { return forms.keep(node) };
    let (order, tuple) = forms.as_held(tuple)?;
    let value = forms.at(node.loc, |to| to.push(node.op.clone(), &[tuple]))?;
    let rank = node.ty.tensor().map_or(0, |t| t.rank());
    Ok(Made::Held(if order.len() == rank { order } else { identity(rank) }, value))
}

fn reduce(forms: &mut Forms<'_>, node: &Node, reducer: Reducer, dims: &Dims) -> Result<Made> {
    let order = common_order(forms, node);
    let mut rising = dims.clone();
    rising.sort_unstable();
    let exact = matches!(reducer, Reducer::Add | Reducer::Multiply) && sums_round(&node.ty);
    if exact && !sums_alike(&order, rising) {
        return forms.keep(node);
    }
    let op = Op::Reduce { reducer, dims: places(&order, dims)? };
    let left = without(&order, dims);
    match carried(forms, node, order, op)? {
        Made::Held(_, value) => Ok(Made::Held(left, value)),
        Made::Free => Ok(Made::Free),
    }
}

fn sums_round(ty: &Type) -> bool {
    ty.tensor().is_some_and(|t| t.dtype.is_float() || t.dtype.is_complex() || t.dtype == DType::Bool)
}
