//! Whole optimizer steps over lists of parameters: as results, and in place.

use super::expr::{Expr, formula};
use super::support::{Operand, broadcast_to};
use super::{Call, OpDef, Outs, Sample, Scalar, ok};
use crate::builder::Builder;
use crate::error::{Error, Result};
use crate::graph::ValueId;
use crate::literal::Number;
use crate::{DType, ensure};

pub(super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::_fused_adam(Tensor[] self, Tensor[] grads, Tensor[] exp_avgs, Tensor[] exp_avg_sqs, Tensor[] max_exp_avg_sqs, Tensor[] state_steps, *, float lr, float beta1, float beta2, float weight_decay, float eps, bool amsgrad, bool maximize, Tensor? grad_scale=None, Tensor? found_inf=None) -> (Tensor[] self_out, Tensor[] grads_out, Tensor[] exp_avgs_out, Tensor[] exp_avg_sqs_out, Tensor[] max_exp_avg_sqs_out)",
        |c, b| adam(c, b, false),
        ADAM,
    ),
    OpDef::new(
        "aten::_fused_adam_(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] exp_avgs, Tensor(d!)[] exp_avg_sqs, Tensor(e!)[] max_exp_avg_sqs, Tensor[] state_steps, *, float lr, float beta1, float beta2, float weight_decay, float eps, bool amsgrad, bool maximize, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()",
        |c, b| adam(c, b, false),
        ADAM,
    ),
    OpDef::new(
        "aten::_fused_adam.tensor_lr(Tensor[] self, Tensor[] grads, Tensor[] exp_avgs, Tensor[] exp_avg_sqs, Tensor[] max_exp_avg_sqs, Tensor[] state_steps, *, Tensor lr, float beta1, float beta2, float weight_decay, float eps, bool amsgrad, bool maximize, Tensor? grad_scale=None, Tensor? found_inf=None) -> (Tensor[] self_out, Tensor[] grads_out, Tensor[] exp_avgs_out, Tensor[] exp_avg_sqs_out, Tensor[] max_exp_avg_sqs_out)",
        |c, b| adam(c, b, false),
        ADAM_TENSOR,
    ),
    OpDef::new(
        "aten::_fused_adam_.tensor_lr(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] exp_avgs, Tensor(d!)[] exp_avg_sqs, Tensor(e!)[] max_exp_avg_sqs, Tensor[] state_steps, *, Tensor lr, float beta1, float beta2, float weight_decay, float eps, bool amsgrad, bool maximize, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()",
        |c, b| adam(c, b, false),
        ADAM_TENSOR,
    ),
    OpDef::new(
        "aten::_fused_adamw(Tensor[] self, Tensor[] grads, Tensor[] exp_avgs, Tensor[] exp_avg_sqs, Tensor[] max_exp_avg_sqs, Tensor[] state_steps, *, float lr, float beta1, float beta2, float weight_decay, float eps, bool amsgrad, bool maximize, Tensor? grad_scale=None, Tensor? found_inf=None) -> (Tensor[] self_out, Tensor[] grads_out, Tensor[] exp_avgs_out, Tensor[] exp_avg_sqs_out, Tensor[] max_exp_avg_sqs_out)",
        |c, b| adam(c, b, true),
        ADAM,
    ),
    OpDef::new(
        "aten::_fused_adamw_(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] exp_avgs, Tensor(d!)[] exp_avg_sqs, Tensor(e!)[] max_exp_avg_sqs, Tensor[] state_steps, *, float lr, float beta1, float beta2, float weight_decay, float eps, bool amsgrad, bool maximize, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()",
        |c, b| adam(c, b, true),
        ADAM,
    ),
    OpDef::new(
        "aten::_fused_adamw.tensor_lr(Tensor[] self, Tensor[] grads, Tensor[] exp_avgs, Tensor[] exp_avg_sqs, Tensor[] max_exp_avg_sqs, Tensor[] state_steps, *, Tensor lr, float beta1, float beta2, float weight_decay, float eps, bool amsgrad, bool maximize, Tensor? grad_scale=None, Tensor? found_inf=None) -> (Tensor[] self_out, Tensor[] grads_out, Tensor[] exp_avgs_out, Tensor[] exp_avg_sqs_out, Tensor[] max_exp_avg_sqs_out)",
        |c, b| adam(c, b, true),
        ADAM_TENSOR,
    ),
    OpDef::new(
        "aten::_fused_adamw_.tensor_lr(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] exp_avgs, Tensor(d!)[] exp_avg_sqs, Tensor(e!)[] max_exp_avg_sqs, Tensor[] state_steps, *, Tensor lr, float beta1, float beta2, float weight_decay, float eps, bool amsgrad, bool maximize, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()",
        |c, b| adam(c, b, true),
        ADAM_TENSOR,
    ),
    OpDef::new(
        "aten::_fused_sgd(Tensor[] self, Tensor[] grads, Tensor[] momentum_buffer_list, *, float weight_decay, float momentum, float lr, float dampening, bool nesterov, bool maximize, bool is_first_step, Tensor? grad_scale=None, Tensor? found_inf=None) -> (Tensor[] self_out, Tensor[] grads_out, Tensor[] momentum_buffer_list_out)",
        sgd,
        SGD,
    ),
    OpDef::new(
        "aten::_fused_sgd_(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] momentum_buffer_list, *, float weight_decay, float momentum, float lr, float dampening, bool nesterov, bool maximize, bool is_first_step, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()",
        sgd,
        SGD,
    ),
    OpDef::new(
        "aten::_fused_sgd.tensor_lr(Tensor[] self, Tensor[] grads, Tensor[] momentum_buffer_list, *, float weight_decay, float momentum, Tensor lr, float dampening, bool nesterov, bool maximize, bool is_first_step, Tensor? grad_scale=None, Tensor? found_inf=None) -> (Tensor[] self_out, Tensor[] grads_out, Tensor[] momentum_buffer_list_out)",
        sgd,
        SGD_TENSOR,
    ),
    OpDef::new(
        "aten::_fused_sgd_.tensor_lr(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] momentum_buffer_list, *, float weight_decay, float momentum, Tensor lr, float dampening, bool nesterov, bool maximize, bool is_first_step, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()",
        sgd,
        SGD_TENSOR,
    ),
    OpDef::new(
        "aten::_fused_adagrad(Tensor[] self, Tensor[] grads, Tensor[] state_sums, Tensor[] state_steps, *, float lr, float lr_decay, float weight_decay, float eps, bool maximize, Tensor? grad_scale=None, Tensor? found_inf=None) -> (Tensor[] self_out, Tensor[] grads_out, Tensor[] state_sums_out, Tensor[] state_steps_out)",
        adagrad,
        ADAGRAD,
    ),
    OpDef::new(
        "aten::_fused_adagrad_(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] state_sums, Tensor(d!)[] state_steps, *, float lr, float lr_decay, float weight_decay, float eps, bool maximize, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()",
        adagrad,
        ADAGRAD,
    ),
    OpDef::new(
        "aten::_fused_adagrad.tensor_lr(Tensor[] self, Tensor[] grads, Tensor[] state_sums, Tensor[] state_steps, *, Tensor lr, float lr_decay, float weight_decay, float eps, bool maximize, Tensor? grad_scale=None, Tensor? found_inf=None) -> (Tensor[] self_out, Tensor[] grads_out, Tensor[] state_sums_out)",
        adagrad,
        ADAGRAD_TENSOR,
    ),
    OpDef::new(
        "aten::_fused_adagrad_.tensor_lr(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] state_sums, Tensor[] state_steps, *, Tensor lr, float lr_decay, float weight_decay, float eps, bool maximize, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()",
        adagrad,
        ADAGRAD_TENSOR,
    ),
];

const ADAM: &[Sample] = &[
    ok(
        "[f32[2,3], f32[4]], [f32[2,3], f32[4]], [f32[2,3], f32[4]], [f32[2,3]{0..1}, f32[4]{0..1}], [], [f32[]{1}, f32[]{5}], lr=0.1, beta1=0.9, beta2=0.999, weight_decay=0, eps=1e-8, amsgrad=false, maximize=false",
    ),
    ok(
        "[f32[9]], [f32[9]], [f32[9]], [f32[9]{0..1}], [f32[9]{0..1}], [f32[]{3}], lr=0.1, beta1=0.9, beta2=0.99, weight_decay=0.1, eps=1e-8, amsgrad=true, maximize=true",
    ),
    ok(
        "[f64[9]], [f64[9]], [f64[9]], [f64[9]{0..1}], [], [f32[]{3}], lr=0.1, beta1=0.9, beta2=0.99, weight_decay=0.1, eps=1e-8, amsgrad=false, maximize=false, grad_scale=f32[]{2}, found_inf=f32[]{0}",
    ),
    ok(
        "[f32[9]], [f32[9]], [f32[9]], [f32[9]{0..1}], [], [f32[]{3}], lr=0.1, beta1=0.9, beta2=0.99, weight_decay=0.1, eps=1e-8, amsgrad=false, maximize=false, grad_scale=f32[]{2}, found_inf=f32[]{1}",
    ),
];
const ADAM_TENSOR: &[Sample] = &[ok(
    "[f32[9]], [f32[9]], [f32[9]], [f32[9]{0..1}], [], [f32[]{3}], lr=f32[]{0.1}, beta1=0.9, beta2=0.99, weight_decay=0.1, eps=1e-8, amsgrad=false, maximize=false",
)];
const SGD: &[Sample] = &[
    ok(
        "[f32[2,3], f32[4]], [f32[2,3], f32[4]], [], weight_decay=0, momentum=0, lr=0.1, dampening=0, nesterov=false, maximize=false, is_first_step=false",
    ),
    ok(
        "[f32[9]], [f32[9]], [f32[9]], weight_decay=0.1, momentum=0.9, lr=0.1, dampening=0.1, nesterov=false, maximize=true, is_first_step=false",
    ),
    ok(
        "[f32[9]], [f32[9]], [f32[9]], weight_decay=0.1, momentum=0.9, lr=0.1, dampening=0, nesterov=true, maximize=false, is_first_step=false",
    ),
    ok(
        "[f32[9]], [f32[9]], [f32[9]{0}], weight_decay=0, momentum=0.9, lr=0.1, dampening=0.5, nesterov=false, maximize=false, is_first_step=true",
    ),
    ok(
        "[f32[9]], [f32[9]], [f32[9]], weight_decay=0, momentum=0.9, lr=0.1, dampening=0, nesterov=false, maximize=false, is_first_step=false, grad_scale=f32[]{2}, found_inf=f32[]{0}",
    ),
];
const SGD_TENSOR: &[Sample] = &[ok(
    "[f32[9]], [f32[9]], [f32[9]], weight_decay=0, momentum=0.9, lr=f32[]{0.1}, dampening=0, nesterov=false, maximize=false, is_first_step=false",
)];
const ADAGRAD: &[Sample] = &[
    ok(
        "[f32[9], f32[2,2]], [f32[9], f32[2,2]], [f32[9]{0..1}, f32[2,2]{0..1}], [f32[]{1}, f32[]{3}], lr=0.1, lr_decay=0.01, weight_decay=0, eps=1e-10, maximize=false",
    ),
    ok(
        "[f32[9]], [f32[9]], [f32[9]{0..1}], [f32[]{2}], lr=0.1, lr_decay=0, weight_decay=0.1, eps=1e-10, maximize=true",
    ),
];
const ADAGRAD_TENSOR: &[Sample] = &[ok(
    "[f32[9]], [f32[9]], [f32[9]{0..1}], [f32[]{2}], lr=f32[]{0.1}, lr_decay=0.01, weight_decay=0, eps=1e-10, maximize=false",
)];

/// The step of one parameter.
struct Step<'a, 'c> {
    c: &'a Call<'c>,
    b: &'a Builder,
    /// Its tensor in each list, in the parameter's accumulation type; `None` where a list is empty.
    row: Vec<Option<ValueId>>,
}

/// Runs `f` for each parameter: it gives the next value of its tensor in each of the first lists. Results come list by
/// list.
fn for_each_parameter(
    c: &Call<'_>,
    b: &Builder,
    lists: &[&str],
    f: impl Fn(&Step<'_, '_>) -> Result<Vec<Option<ValueId>>>,
) -> Result<Outs> {
    let columns = lists.iter().map(|name| c.tensors(b, name)).collect::<Result<Vec<_>>>()?;
    let count = columns.first().map_or(0, Vec::len);
    ensure!(count > 0, "Tensor list must have at least one tensor.");
    let fit = columns.iter().all(|column| column.is_empty() || column.len() == count);
    ensure!(fit, "Tensor lists must have the same number of tensors");
    let mut results: Vec<Outs> = vec![];
    for i in 0..count {
        let olds: Vec<Option<ValueId>> = columns.iter().map(|column| column.get(i).copied()).collect();
        let wide = b.dtype(columns[0][i]).accumulator();
        let row = olds.iter().map(|v| v.map(|v| b.convert(v, wide)).transpose()).collect::<Result<_>>()?;
        let news = f(&Step { c, b, row })?;
        results.resize_with(news.len(), Vec::new);
        for (list, (old, new)) in results.iter_mut().zip(olds.into_iter().zip(news)) {
            if let (Some(old), Some(new)) = (old, new) {
                list.push(Some(unless_found_inf(c, b, old, new)?));
            }
        }
    }
    Ok(results.into_iter().flatten().collect())
}

/// `new` in the type of `old`; `old` if the gradient scaler found an infinity.
fn unless_found_inf(c: &Call<'_>, b: &Builder, old: ValueId, new: ValueId) -> Result<ValueId> {
    let new = b.convert(new, b.dtype(old))?;
    let Some(found) = c.optional_tensor(b, "found_inf")? else { return Ok(new) };
    let found = formula(b, [b.reshape(found, &[])?], |[found]| found.equals(1.0))?;
    b.select(broadcast_to(b, found, &b.shape(old))?, old, new)
}

impl Step<'_, '_> {
    fn tensor(&self, list: usize) -> Result<ValueId> {
        let missing = || Error::invalid("an optimizer's list of state is empty");
        self.row.get(list).copied().flatten().ok_or_else(missing)
    }

    /// `v` in the parameter's type and shape.
    fn spread(&self, v: ValueId) -> Result<ValueId> {
        let like = self.b.ty(self.tensor(0)?)?;
        broadcast_to(self.b, self.b.convert(self.b.reshape(v, &[])?, like.dtype)?, &like.shape)
    }

    /// The number or 0-d tensor `name`.
    fn number(&self, name: &str) -> Result<ValueId> {
        self.map_number(name, |x| x, |x| x)
    }

    /// A function of the number `name`, computed in double precision.
    fn map_number(
        &self,
        name: &str,
        known: impl Fn(f64) -> f64,
        unknown: impl for<'e> Fn(Expr<'e>) -> Expr<'e>,
    ) -> Result<ValueId> {
        let (c, b) = (self.c, self.b);
        match c.operand(b, name)? {
            Operand::Tensor(v) => self.spread(formula(b, [v], |[x]| unknown(x))?),
            Operand::Scalar(Scalar::Known(n)) => self.spread(b.scalar(Number::Float(known(n.as_f64())), DType::F64)?),
            Operand::Scalar(symbolic) => {
                let v = c.scalar_value(b, &symbolic, DType::F64)?;
                self.spread(formula(b, [v], |[x]| unknown(x))?)
            }
        }
    }

    /// `1 - beta ** step`, exact for `beta` near one.
    fn bias_correction(&self, beta: &str, step: ValueId) -> Result<ValueId> {
        let log = self.map_number(beta, f64::ln, |x| x.ln())?;
        formula(self.b, [log, self.spread(step)?], |[log, step]| -(log * step).exp_m1())
    }

    /// The gradient without the scaler's factor, and then as the step takes it.
    fn gradient(&self) -> Result<(ValueId, ValueId)> {
        let mut unscaled = self.tensor(1)?;
        if let Some(scale) = self.c.optional_tensor(self.b, "grad_scale")? {
            unscaled = self.b.divide(unscaled, self.spread(scale)?)?;
        }
        let signed = if self.c.flag("maximize")? { self.b.negate(unscaled)? } else { unscaled };
        Ok((unscaled, signed))
    }

    /// `gradient + weight_decay * parameter`.
    fn decayed(&self, gradient: ValueId) -> Result<ValueId> {
        if self.c.scalar("weight_decay")?.is_zero() {
            return Ok(gradient);
        }
        let decay = self.number("weight_decay")?;
        formula(self.b, [gradient, self.tensor(0)?, decay], |[g, p, decay]| g + p * decay)
    }
}

/// Adam, or AdamW if the decay of weights is decoupled from the gradient.
fn adam(c: &Call<'_>, b: &Builder, decoupled: bool) -> Result<Outs> {
    let lists = ["self", "grads", "exp_avgs", "exp_avg_sqs", "max_exp_avg_sqs", "state_steps"];
    let amsgrad = c.flag("amsgrad")?;
    for_each_parameter(c, b, &lists, |s| {
        let (unscaled, mut g) = s.gradient()?;
        let mut p = s.tensor(0)?;
        let lr = s.number("lr")?;
        if decoupled {
            p = formula(b, [p, lr, s.number("weight_decay")?], |[p, lr, decay]| p * (1.0 - lr * decay))?;
        } else {
            g = s.decayed(g)?;
        }
        let weight = s.map_number("beta1", |x| 1.0 - x, |x| 1.0 - x)?;
        let mean = formula(b, [s.tensor(2)?, g, weight], |[m, g, weight]| m + (g - m) * weight)?;
        let weight = s.map_number("beta2", |x| 1.0 - x, |x| 1.0 - x)?;
        let kept = s.number("beta2")?;
        let square = formula(b, [s.tensor(3)?, g, weight, kept], |[v, g, weight, kept]| v * kept + g * g * weight)?;
        let greatest = if amsgrad { Some(b.maximum(s.tensor(4)?, square)?) } else { s.row[4] };
        let spread = if amsgrad { greatest.unwrap_or(square) } else { square };
        let step = s.tensor(5)?;
        let (first, second) = (s.bias_correction("beta1", step)?, s.bias_correction("beta2", step)?);
        let operands = [p, mean, spread, lr, first, second, s.number("eps")?];
        let p = formula(b, operands, |[p, m, v, lr, first, second, eps]| {
            p - lr / first * m / (v.sqrt() / second.sqrt() + eps)
        })?;
        Ok(vec![Some(p), Some(unscaled), Some(mean), Some(square), greatest])
    })
}

fn sgd(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let lists = ["self", "grads", "momentum_buffer_list"];
    let (first, nesterov) = (c.flag("is_first_step")?, c.flag("nesterov")?);
    for_each_parameter(c, b, &lists, |s| {
        let (unscaled, g) = s.gradient()?;
        let mut g = s.decayed(g)?;
        let mut buffer = None;
        if s.row[2].is_some() {
            let momentum = s.number("momentum")?;
            let kept = s.map_number("dampening", |x| 1.0 - x, |x| 1.0 - x)?;
            let operands = [s.tensor(2)?, g, momentum, kept];
            let next = if first { g } else { formula(b, operands, |[v, g, momentum, kept]| v * momentum + g * kept)? };
            g = if nesterov { formula(b, [g, next, momentum], |[g, v, momentum]| g + v * momentum)? } else { next };
            buffer = Some(next);
        }
        let p = formula(b, [s.tensor(0)?, g, s.number("lr")?], |[p, g, lr]| p - lr * g)?;
        Ok(vec![Some(p), Some(unscaled), buffer])
    })
}

fn adagrad(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let lists = ["self", "grads", "state_sums", "state_steps"];
    let steps_too = c.schema.returns.len() == 4 || c.schema.args.iter().any(|a| a.written && a.name == "state_steps");
    for_each_parameter(c, b, &lists, |s| {
        let (unscaled, g) = s.gradient()?;
        let g = s.decayed(g)?;
        let sum = formula(b, [s.tensor(2)?, g], |[sum, g]| sum + g * g)?;
        let step = s.tensor(3)?;
        let operands =
            [s.tensor(0)?, g, sum, s.spread(step)?, s.number("lr")?, s.number("lr_decay")?, s.number("eps")?];
        let p = formula(b, operands, |[p, g, sum, step, lr, decay, eps]| {
            p - lr / ((step - 1.0) * decay + 1.0) * g / (sum.sqrt() + eps)
        })?;
        let mut news = vec![Some(p), Some(unscaled), Some(sum)];
        news.extend(steps_too.then_some(Some(step)));
        Ok(news)
    })
}
