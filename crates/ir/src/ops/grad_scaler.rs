//! What `torch.amp.GradScaler` does to gradients and to its scale.

use super::expr::{formula, wide_formula};
use super::support::broadcast_to;
use super::{Call, OpDef, Outs, Sample, ok};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::literal::Number;
use crate::op::Reducer;

pub(super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::_amp_foreach_non_finite_check_and_unscale(Tensor[] self, Tensor found_inf, Tensor inv_scale) -> (Tensor[] self_out, Tensor found_inf_out)",
        unscale,
        UNSCALE,
    ),
    OpDef::new(
        "aten::_amp_foreach_non_finite_check_and_unscale_(Tensor(a!)[] self, Tensor(b!) found_inf, Tensor inv_scale) -> ()",
        unscale,
        UNSCALE,
    ),
    OpDef::new(
        "aten::_amp_update_scale(Tensor self, Tensor growth_tracker, Tensor found_inf, float scale_growth_factor, float scale_backoff_factor, int growth_interval) -> (Tensor, Tensor growth_tracker_out)",
        |c, b| update_scale(c, b).map(|[scale, tracker]| vec![Some(scale), Some(tracker)]),
        UPDATE,
    ),
    OpDef::new(
        "aten::_amp_update_scale_(Tensor(a!) self, Tensor(b!) growth_tracker, Tensor found_inf, float scale_growth_factor, float scale_backoff_factor, int growth_interval) -> Tensor(a!)",
        |c, b| update_scale(c, b).map(|[scale, tracker]| vec![Some(scale), Some(scale), Some(tracker)]),
        UPDATE,
    ),
];

const UNSCALE: &[Sample] = &[
    ok("[f32[2,3], f32[]], f32[1]{0}, f32[1]{0.5}"),
    ok("[f32[3]{1,inf,2}, f32[2]], f32[]{0}, f32[]{0.5}"),
    ok("[f16[3]{1,nan,2}], f32[1]{0}, f32[1]{0.125}"),
    ok("[f32[3]{1,2,3}], f32[1]{1}, f32[1]{1}"),
];
const UPDATE: &[Sample] = &[
    ok("f32[]{64}, i32[]{3}, f32[]{0}, 2.0, 0.5, 10"),
    ok("f32[]{64}, i32[]{9}, f32[]{0}, 2.0, 0.5, 10"),
    ok("f32[1]{64}, i32[1]{3}, f32[1]{1}, 2.0, 0.5, 10"),
    ok("f32[]{3e38}, i32[]{9}, f32[]{0}, 2.0, 0.5, 10"),
];

/// Gradients times `inv_scale`, and 1 in `found_inf` if any of them was not finite.
fn unscale(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (mut found, scale) = (c.tensor(b, "found_inf")?, b.reshape(c.tensor(b, "inv_scale")?, &[])?);
    let shape = b.shape(found);
    let mut outs: Outs = vec![];
    for gradient in c.tensors(b, "self")? {
        let infinite = any_infinite(b, gradient, b.dtype(found))?;
        found = b.maximum(found, broadcast_to(b, infinite, &shape)?)?;
        let wide = b.dtype(gradient).accumulator();
        let factor = broadcast_to(b, b.convert(scale, wide)?, &b.shape(gradient))?;
        let scaled = b.multiply(b.convert(gradient, wide)?, factor)?;
        outs.push(Some(b.convert(scaled, b.dtype(gradient))?));
    }
    outs.push(Some(found));
    Ok(outs)
}

fn any_infinite(b: &Builder, v: ValueId, dtype: crate::DType) -> Result<ValueId> {
    let flags = wide_formula(b, [v], |[x]| !x.is_finite())?;
    let dims: Vec<usize> = (0..b.rank(v)).collect();
    b.reduce(b.convert(flags, dtype)?, Reducer::Maximum, &dims)
}

/// The scale backs off where an infinity was found, and grows after `growth_interval` steps without one, unless it
/// would become infinite. Gives the scale and the number of steps since it changed.
fn update_scale(c: &Call<'_>, b: &Builder) -> Result<[ValueId; 2]> {
    let (scale, tracker) = (c.tensor(b, "self")?, c.tensor(b, "growth_tracker")?);
    let (shape, dtype) = (b.shape(scale), b.dtype(scale));
    let number = |name| broadcast_to(b, c.scalar_value(b, &c.scalar(name)?, dtype)?, &shape);
    let (growth, backoff) = (number("scale_growth_factor")?, number("scale_backoff_factor")?);
    let found = formula(b, [b.reshape(c.tensor(b, "found_inf")?, &shape)?], |[found]| found.differs(0.0))?;
    let steps = formula(b, [b.reshape(tracker, &shape)?], |[steps]| steps + 1.0)?;
    let interval = c.scalar_value(b, &c.scalar("growth_interval")?, b.dtype(steps))?;
    let due = formula(b, [steps, broadcast_to(b, interval, &shape)?], |[steps, interval]| steps.equals(interval))?;
    let grown = formula(b, [scale, growth], |[scale, growth]| {
        let grown = scale * growth;
        grown.is_finite().select(grown, scale)
    })?;
    let next = b.select(found, b.multiply(scale, backoff)?, b.select(due, grown, scale)?)?;
    let zero = b.full_like(steps, Number::Int(0))?;
    let restart = b.binary(crate::Binary::Or, found, due)?;
    let steps = b.select(restart, zero, steps)?;
    Ok([next, b.reshape(steps, &b.shape(tracker))?])
}
