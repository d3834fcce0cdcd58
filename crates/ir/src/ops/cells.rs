//! Single steps of recurrent networks. Gates and states are computed in the accumulation type.

use super::expr::formula;
use super::matmul::linear;
use super::support::torch_name;
use super::{Call, OpDef, Outs, err, many, ok, one};
use crate::builder::Builder;
use crate::error::{Error, Result};
use crate::graph::ValueId;
use crate::{Reducer, ensure};

pub(super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::lstm_cell(Tensor input, Tensor[] hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> (Tensor, Tensor)",
        |c, b| {
            let hx = c.tensors(b, "hx")?;
            ensure!(hx.len() == 2, "lstm_cell expects two hidden states");
            let next = cell(c, b, Kind::Lstm, hx[0], Some(hx[1]))?;
            many([Some(next.hidden), next.cell].into_iter().flatten())
        },
        &[
            ok("f32[2,3], [f32[2,4], f32[2,4]], f32[16,3], f32[16,4], f32[16], f32[16]"),
            ok("f32[2,3], [f32[2,4], f32[2,4]], f32[16,3], f32[16,4]"),
            err("f32[2,3], [f32[2,4]], f32[16,3], f32[16,4]", "lstm_cell expects two hidden states"),
        ],
    ),
    OpDef::new(
        "aten::gru_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> Tensor",
        |c, b| one(cell(c, b, Kind::Gru, c.tensor(b, "hx")?, None)?.hidden),
        &[
            ok("f32[2,3], f32[2,4], f32[12,3], f32[12,4], f32[12], f32[12]"),
            ok("f32[2,3], f32[2,4], f32[12,3], f32[12,4]"),
        ],
    ),
    OpDef::new(
        "aten::rnn_tanh_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> Tensor",
        |c, b| one(cell(c, b, Kind::Tanh, c.tensor(b, "hx")?, None)?.hidden),
        &[ok("f32[2,3], f32[2,4], f32[4,3], f32[4,4], f32[4], f32[4]")],
    ),
    OpDef::new(
        "aten::rnn_relu_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> Tensor",
        |c, b| one(cell(c, b, Kind::Relu, c.tensor(b, "hx")?, None)?.hidden),
        &[ok("f32[2,3], f32[2,4], f32[4,3], f32[4,4], f32[4], f32[4]")],
    ),
    OpDef::new(
        "aten::_thnn_fused_lstm_cell(Tensor input_gates, Tensor hidden_gates, Tensor cx, Tensor? input_bias=None, Tensor? hidden_bias=None) -> (Tensor, Tensor, Tensor)",
        fused_lstm,
        // PyTorch has no CPU kernel to compare with.
        &[err("f32[2,15], f32[2,16], f32[2,4]", "differ in shape")],
    )
    .variants(&["_thnn_fused_lstm_cell.out"]),
    OpDef::new(
        "aten::_thnn_fused_lstm_cell_backward_impl(Tensor? grad_hy, Tensor? grad_cy, Tensor cx, Tensor cy, Tensor workspace, bool has_bias) -> (Tensor, Tensor, Tensor)",
        |c, b| {
            let (gates, cell, bias) = fused_lstm_backward(c, b)?;
            Ok(vec![Some(gates), Some(cell), bias])
        },
        &[err("f32[2,4], none, f32[2,4], f32[2,4], f32[2,15], true", "the workspace")],
    )
    .variants(&["_thnn_fused_lstm_cell_backward_impl.out"]),
    OpDef::new(
        "aten::_thnn_fused_lstm_cell_backward(Tensor? grad_hy, Tensor? grad_cy, Tensor cx, Tensor cy, Tensor workspace, bool has_bias) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
        |c, b| {
            let (gates, cell, bias) = fused_lstm_backward(c, b)?;
            Ok(vec![Some(gates), Some(gates), Some(cell), bias, bias])
        },
        &[err("f32[2,4], none, f32[2,4], f32[2,4], f32[2,15], true", "the workspace")],
    ),
    OpDef::new(
        "aten::_thnn_fused_gru_cell(Tensor input_gates, Tensor hidden_gates, Tensor hx, Tensor? input_bias=None, Tensor? hidden_bias=None) -> (Tensor, Tensor)",
        fused_gru,
        // PyTorch has no CPU kernel to compare with.
        &[err("f32[2,11], f32[2,12], f32[2,4]", "differ in shape")],
    )
    .variants(&["_thnn_fused_gru_cell.out"]),
    OpDef::new(
        "aten::_thnn_fused_gru_cell_backward(Tensor grad_hy, Tensor workspace, bool has_bias) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
        fused_gru_backward,
        &[err("f32[2,4], f32[2,19], true", "the workspace")],
    )
    .variants(&["_thnn_fused_gru_cell_backward.out"]),
];

/// A kind of recurrent cell.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Kind {
    Lstm,
    Gru,
    Tanh,
    Relu,
}

impl Kind {
    /// Gates per hidden unit.
    pub(super) fn gates(self) -> usize {
        match self {
            Kind::Lstm => 4,
            Kind::Gru => 3,
            Kind::Tanh | Kind::Relu => 1,
        }
    }
}

/// What a step hands on.
#[derive(Clone, Copy)]
pub(super) struct State {
    pub(super) hidden: ValueId,
    /// Only an LSTM has one.
    pub(super) cell: Option<ValueId>,
}

/// Columns `i * width..(i + 1) * width`.
fn gate(b: &Builder, gates: ValueId, i: usize, width: usize) -> Result<ValueId> {
    b.slice_dim(gates, 1, i * width, (i + 1) * width, 1)
}

/// The next state from what input and hidden state contribute to the gates, all in the accumulation type.
pub(super) fn step(b: &Builder, kind: Kind, input: ValueId, hidden: ValueId, state: State) -> Result<State> {
    let width = b.shape(input)[1] / kind.gates();
    let sum = |i| b.add(gate(b, input, i, width)?, gate(b, hidden, i, width)?);
    let only = |hidden| Ok(State { hidden, cell: None });
    match kind {
        Kind::Tanh => only(formula(b, [sum(0)?], |[x]| x.tanh())?),
        Kind::Relu => only(formula(b, [sum(0)?], |[x]| x.max(0.0))?),
        Kind::Gru => {
            let inner = [gate(b, input, 2, width)?, gate(b, hidden, 2, width)?];
            let operands = [sum(0)?, sum(1)?, inner[0], inner[1], state.hidden];
            only(formula(b, operands, |[r, z, x, y, h]| {
                let n = (x + r.logistic() * y).tanh();
                (h - n) * z.logistic() + n
            })?)
        }
        Kind::Lstm => {
            let cell = state.cell.ok_or_else(|| Error::internal("an LSTM without a cell state"))?;
            let operands = [sum(0)?, sum(1)?, sum(2)?, cell];
            let cell = formula(b, operands, |[i, f, g, c]| f.logistic() * c + i.logistic() * g.tanh())?;
            let hidden = formula(b, [sum(3)?, cell], |[o, c]| o.logistic() * c.tanh())?;
            Ok(State { hidden, cell: Some(cell) })
        }
    }
}

/// One step of a cell whose weights are the call's arguments; the next state has the input's type.
fn cell(c: &Call<'_>, b: &Builder, kind: Kind, hidden: ValueId, cell: Option<ValueId>) -> Result<State> {
    let (x, w, v) = (c.tensor(b, "input")?, c.tensor(b, "w_ih")?, c.tensor(b, "w_hh")?);
    let (s, t) = (b.shape(x), b.shape(hidden));
    ensure!(s.len() == 2 && t.len() == 2, "input and hidden state of a cell must be 2-D, got {s:?} and {t:?}");
    ensure!(s[0] == t[0], "Input batch size {} doesn't match hidden batch size {}", s[0], t[0]);
    let rows = b.shape(w).first().copied();
    let gates = kind.gates() * t[1];
    ensure!(rows == Some(gates), "w_ih must have {gates} rows, got {:?}", b.shape(w));
    let input = linear(c, b, x, w, c.optional_tensor(b, "b_ih")?)?;
    let recurrent = linear(c, b, hidden, v, c.optional_tensor(b, "b_hh")?)?;
    let wide = |v| b.convert(v, b.dtype(input));
    let state = State { hidden: wide(hidden)?, cell: cell.map(wide).transpose()? };
    let next = step(b, kind, input, recurrent, state)?;
    let narrow = |v| b.convert(v, b.dtype(x));
    Ok(State { hidden: narrow(next.hidden)?, cell: next.cell.map(narrow).transpose()? })
}

/// Next hidden state, next cell state, and the activated gates for the backward pass.
fn fused_lstm(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (x, h, cx) = (c.tensor(b, "input_gates")?, c.tensor(b, "hidden_gates")?, c.tensor(b, "cx")?);
    let (s, t, u) = (b.shape(x), b.shape(h), b.shape(cx));
    ensure!(s == t, "input_gates {s:?} and hidden_gates {t:?} differ in shape");
    let fits = s.len() == 2 && u.len() == 2 && s[0] == u[0] && s[1] == 4 * u[1];
    ensure!(fits, "gates of shape {s:?} do not fit a cell state of shape {u:?}");
    let (dtype, wide) = (b.dtype(x), b.dtype(x).accumulator());
    let mut sum = b.add(b.convert(x, wide)?, b.convert(h, wide)?)?;
    for name in ["input_bias", "hidden_bias"] {
        let Some(bias) = c.optional_tensor(b, name)? else { continue };
        sum = b.add(sum, b.broadcast_in_dim(b.convert(bias, wide)?, &s, &[1])?)?;
    }
    let part = |i| gate(b, sum, i, u[1]);
    let logistic = |v| formula(b, [v], |[v]| v.logistic());
    let (i, f, o) = (logistic(part(0)?)?, logistic(part(1)?)?, logistic(part(3)?)?);
    let g = formula(b, [part(2)?], |[v]| v.tanh())?;
    let cy = formula(b, [i, f, g, b.convert(cx, wide)?], |[i, f, g, c]| f * c + i * g)?;
    let hy = formula(b, [o, cy], |[o, c]| o * c.tanh())?;
    let narrow = |v| b.convert(v, dtype);
    many([narrow(hy)?, narrow(cy)?, narrow(b.concatenate(&[i, f, g, o], 1)?)?])
}

/// Next hidden state, and for the backward pass the gates, the hidden state and what it adds to the new one.
fn fused_gru(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (x, h, hx) = (c.tensor(b, "input_gates")?, c.tensor(b, "hidden_gates")?, c.tensor(b, "hx")?);
    let (s, t, u) = (b.shape(x), b.shape(h), b.shape(hx));
    ensure!(s == t, "input_gates {s:?} and hidden_gates {t:?} differ in shape");
    let fits = s.len() == 2 && u.len() == 2 && s[0] == u[0] && s[1] == 3 * u[1];
    ensure!(fits, "gates of shape {s:?} do not fit a hidden state of shape {u:?}");
    let (dtype, wide) = (b.dtype(x), b.dtype(x).accumulator());
    let biased = |gates, name| match c.optional_tensor(b, name)? {
        Some(bias) => b.add(b.convert(gates, wide)?, b.broadcast_in_dim(b.convert(bias, wide)?, &s, &[1])?),
        None => b.convert(gates, wide),
    };
    let (x, h, hx) = (biased(x, "input_bias")?, biased(h, "hidden_bias")?, b.convert(hx, wide)?);
    let logistic = |i| formula(b, [gate(b, x, i, u[1])?, gate(b, h, i, u[1])?], |[x, h]| (x + h).logistic());
    let (r, z, inner) = (logistic(0)?, logistic(1)?, gate(b, h, 2, u[1])?);
    let n = formula(b, [gate(b, x, 2, u[1])?, r, inner], |[x, r, h]| (x + r * h).tanh())?;
    let hy = formula(b, [hx, n, z], |[h, n, z]| (h - n) * z + n)?;
    many([b.convert(hy, dtype)?, b.convert(b.concatenate(&[r, z, n, hx, inner], 1)?, dtype)?])
}

/// Gradients of the input's and the hidden state's gates, of the hidden state and, where there were any, of the biases.
fn fused_gru_backward(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (grad, workspace) = (c.tensor(b, "grad_hy")?, c.tensor(b, "workspace")?);
    let (s, t) = (b.shape(grad), b.shape(workspace));
    let fits = s.len() == 2 && t.len() == 2 && t[0] == s[0] && t[1] == 5 * s[1];
    ensure!(fits, "the workspace of shape {t:?} does not fit a gradient of shape {s:?}");
    let (dtype, wide) = (b.dtype(workspace), b.dtype(workspace).accumulator());
    let (grad, workspace) = (b.convert(grad, wide)?, b.convert(workspace, wide)?);
    let part = |i| gate(b, workspace, i, s[1]);
    let (r, z, n, hx, inner) = (part(0)?, part(1)?, part(2)?, part(3)?, part(4)?);
    let grad_n = formula(b, [grad, z, n], |[g, z, n]| g * (1.0 - z) * (1.0 - n * n))?;
    let grad_r = formula(b, [grad_n, inner, r], |[g, h, r]| g * h * (1.0 - r) * r)?;
    let grad_z = formula(b, [grad, hx, n, z], |[g, h, n, z]| g * (h - n) * (1.0 - z) * z)?;
    let input = b.concatenate(&[grad_r, grad_z, grad_n], 1)?;
    let hidden = b.concatenate(&[grad_r, grad_z, b.multiply(grad_n, r)?], 1)?;
    let narrow = |v| b.convert(v, dtype);
    let bias = |gates| match c.flag("has_bias")? {
        true => narrow(b.reduce(gates, Reducer::Add, &[0])?).map(Some),
        false => Ok(None),
    };
    let state = narrow(b.multiply(grad, z)?)?;
    Ok(vec![Some(narrow(input)?), Some(narrow(hidden)?), Some(state), bias(input)?, bias(hidden)?])
}

/// Gradients of the gates, of the cell state and, where there was one, of a bias.
fn fused_lstm_backward(c: &Call<'_>, b: &Builder) -> Result<(ValueId, ValueId, Option<ValueId>)> {
    let (cx, cy, workspace) = (c.tensor(b, "cx")?, c.tensor(b, "cy")?, c.tensor(b, "workspace")?);
    let (s, t) = (b.shape(cx), b.shape(workspace));
    let fits = s.len() == 2 && t.len() == 2 && t[0] == s[0] && t[1] == 4 * s[1];
    ensure!(fits, "the workspace of shape {t:?} does not fit a cell state of shape {s:?}");
    let (dtype, wide) = (b.dtype(workspace), b.dtype(workspace).accumulator());
    let [p, q] = [b.dtype(cx), b.dtype(cy)];
    ensure!(p == q, "cx and cy must have the same dtype, but got {} and {}", torch_name(p), torch_name(q));
    let (cx, cy) = (b.convert(cx, wide)?, b.convert(cy, wide)?);
    let gates = b.convert(workspace, wide)?;
    let part = |i| gate(b, gates, i, s[1]);
    let grad = |name| match c.optional_tensor(b, name)? {
        Some(g) => b.convert(g, wide),
        None => super::support::like(b, cx, 0.0),
    };
    let (gh, gc) = (grad("grad_hy")?, grad("grad_cy")?);
    let (i, f, g, o) = (part(0)?, part(1)?, part(2)?, part(3)?);
    let inner = formula(b, [gh, gc, o, cy], |[gh, gc, o, c]| {
        let t = c.tanh();
        gh * o * (1.0 - t * t) + gc
    })?;
    let grad_i = formula(b, [inner, i, g], |[d, i, g]| d * g * (1.0 - i) * i)?;
    let grad_f = formula(b, [inner, f, cx], |[d, f, c]| d * c * (1.0 - f) * f)?;
    let grad_g = formula(b, [inner, i, g], |[d, i, g]| d * i * (1.0 - g * g))?;
    let grad_o = formula(b, [gh, o, cy], |[gh, o, c]| gh * c.tanh() * (1.0 - o) * o)?;
    let gates = b.concatenate(&[grad_i, grad_f, grad_g, grad_o], 1)?;
    let cell = b.convert(b.multiply(inner, f)?, dtype)?;
    let bias = match c.flag("has_bias")? {
        true => Some(b.convert(b.reduce(gates, Reducer::Add, &[0])?, dtype)?),
        false => None,
    };
    Ok((b.convert(gates, dtype)?, cell, bias))
}
