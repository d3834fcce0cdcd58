//! Recurrent networks over whole sequences.
//!
//! What the input contributes to the gates is one product over all time steps; a loop over time carries the state and
//! adds what the state contributes.

use super::attention::kept;
use super::cells::{Kind, State, step};
use super::expr::formula;
use super::loops::{fewer_than, put_row, row};
use super::matmul::{contract, linear};
use super::support::{self, torch_name};
use super::{Call, OpDef, Outs, err, ok};
use crate::builder::Builder;
use crate::error::{Error, Result};
use crate::graph::{Graph, InputKind, OutputKind, ValueId};
use crate::{DType, Number, ensure};

pub(super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::lstm.input(Tensor input, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor, Tensor)",
        |c, b| {
            let hx = c.tensors(b, "hx")?;
            ensure!(hx.len() == 2, "lstm expects two hidden states");
            run(c, b, Kind::Lstm, hx[0], Some(hx[1]))
        },
        &[
            ok(
                "f32[5,2,3], [f32[1,2,4], f32[1,2,4]], [f32[16,3], f32[16,4], f32[16], f32[16]], true, 1, 0.0, false, false, false",
            ),
            ok(
                "f32[2,5,3], [f32[2,2,4], f32[2,2,4]], [f32[16,3], f32[16,4], f32[16,4], f32[16,4]], false, 2, 0.5, false, false, true",
            ),
            ok(
                "f32[5,2,3], [f32[2,2,4], f32[2,2,4]], [f32[16,3], f32[16,4], f32[16], f32[16], f32[16,3], f32[16,4], f32[16], f32[16]], true, 1, 0.0, false, true, false",
            ),
            ok(
                "f32[5,2,3], [f32[1,2,2], f32[1,2,4]], [f32[16,3], f32[16,2], f32[16], f32[16], f32[2,4]], true, 1, 0.0, false, false, false",
            ),
            ok("f32[1,0,3], [f32[1,0,4], f32[1,0,4]], [f32[16,3], f32[16,4]], false, 1, 0.0, false, false, false"),
            err(
                "f32[5,2,3], [f32[1,2,4]], [f32[16,3], f32[16,4]], false, 1, 0.0, false, false, false",
                "lstm expects two hidden states",
            ),
            err(
                "f32[0,2,3], [f32[1,2,4], f32[1,2,4]], [f32[16,3], f32[16,4]], false, 1, 0.0, false, false, false",
                "Expected sequence length to be larger than 0 in RNN",
            ),
        ],
    ),
    OpDef::new(
        "aten::gru.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)",
        |c, b| run(c, b, Kind::Gru, c.tensor(b, "hx")?, None),
        &[
            ok("f32[5,2,3], f32[1,2,4], [f32[12,3], f32[12,4], f32[12], f32[12]], true, 1, 0.0, false, false, false"),
            ok(
                "f32[2,5,3], f32[4,2,4], [f32[12,3], f32[12,4], f32[12,3], f32[12,4], f32[12,8], f32[12,4], f32[12,8], f32[12,4]], false, 2, 0.0, true, true, true",
            ),
        ],
    ),
    OpDef::new(
        "aten::rnn_tanh.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)",
        |c, b| run(c, b, Kind::Tanh, c.tensor(b, "hx")?, None),
        &[ok("f32[5,2,3], f32[1,2,4], [f32[4,3], f32[4,4], f32[4], f32[4]], true, 1, 0.0, false, false, false")],
    ),
    OpDef::new(
        "aten::rnn_relu.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)",
        |c, b| run(c, b, Kind::Relu, c.tensor(b, "hx")?, None),
        &[ok("f32[5,2,3], f32[2,2,4], [f32[4,3], f32[4,4], f32[4,3], f32[4,4]], false, 1, 0.0, false, true, false")],
    ),
];

/// The weights of one direction of one layer.
struct Weights {
    input: ValueId,
    recurrent: ValueId,
    input_bias: Option<ValueId>,
    recurrent_bias: Option<ValueId>,
    /// From the cell's output to the hidden state, where the two differ in width.
    projection: Option<ValueId>,
}

/// The parameters of all layers and directions, in order.
fn weights(c: &Call<'_>, b: &Builder, count: usize, projected: bool) -> Result<Vec<Weights>> {
    let biased = c.flag("has_biases")?;
    let each = 2 + if biased { 2 } else { 0 } + usize::from(projected);
    let params = c.tensors(b, "params")?;
    ensure!(
        params.len() == count * each,
        "got an incorrect number of RNN parameters: {}, not {}",
        params.len(),
        count * each
    );
    let one = |p: &[ValueId]| Weights {
        input: p[0],
        recurrent: p[1],
        input_bias: biased.then(|| p[2]),
        recurrent_bias: biased.then(|| p[3]),
        projection: projected.then(|| p[each - 1]),
    };
    Ok(params.chunks(each).map(one).collect())
}

fn check(b: &Builder, x: ValueId, states: &[Option<ValueId>], layers: usize) -> Result<()> {
    let s = b.shape(x);
    ensure!(s.len() == 3, "RNN input must have 3 dimensions, got {}", s.len());
    ensure!(s[0] > 0, "Expected sequence length to be larger than 0 in RNN");
    for &v in states.iter().flatten() {
        let [p, q] = [b.dtype(x), b.dtype(v)];
        ensure!(
            p == q,
            "Input and hidden tensors are not the same dtype, found input tensor with {} and hidden tensor with {}",
            torch_name(p),
            torch_name(q)
        );
        let t = b.shape(v);
        let fits = t.len() == 3 && t[0] == layers && t[1] == s[1];
        ensure!(fits, "Expected hidden size [{layers}, {}, *], got {t:?}", s[1]);
    }
    Ok(())
}

fn run(c: &Call<'_>, b: &Builder, kind: Kind, hidden: ValueId, cell: Option<ValueId>) -> Result<Outs> {
    let batch_first = c.flag("batch_first")?;
    let swapped = |v| if batch_first { b.transpose(v, &[1, 0, 2]) } else { Ok(v) };
    let input = c.tensor(b, "input")?;
    ensure!(b.rank(input) == 3, "RNN input must have 3 dimensions, got {}", b.rank(input));
    let mut x = swapped(input)?;
    let layers = usize::try_from(c.int("num_layers")?).unwrap_or(0);
    let directions = if c.flag("bidirectional")? { 2 } else { 1 };
    check(b, x, &[Some(hidden), cell], layers * directions)?;
    let width = |v| b.shape(v)[2];
    let projected = cell.is_some_and(|cell| width(cell) != width(hidden));
    let weights = weights(c, b, layers * directions, projected)?;
    let dropout = if c.flag("train")? { c.float("dropout")? } else { 0.0 };
    let mut last: Vec<State> = vec![];
    for (i, layer) in weights.chunks(directions).enumerate() {
        if i > 0 && dropout > 0.0 {
            x = dropped(b, x, dropout)?;
        }
        let mut outputs = vec![];
        for (j, w) in layer.iter().enumerate() {
            let at = |v| initial(b, v, i * directions + j);
            let state = State { hidden: at(hidden)?, cell: cell.map(at).transpose()? };
            let (output, state) = direction(c, b, kind, x, w, state, j == 1)?;
            outputs.push(output);
            last.push(state);
        }
        x = b.concatenate(&outputs, 2)?;
    }
    let dtype = b.dtype(input);
    let stacked = |states: Vec<ValueId>| -> Result<ValueId> {
        let rows: Result<Vec<ValueId>> =
            states.into_iter().map(|v| support::unsqueeze(b, b.convert(v, dtype)?, &[0])).collect();
        b.concatenate(&rows?, 0)
    };
    let mut outs = vec![Some(swapped(x)?), Some(stacked(last.iter().map(|s| s.hidden).collect())?)];
    if cell.is_some() {
        outs.push(Some(stacked(last.iter().filter_map(|s| s.cell).collect())?));
    }
    Ok(outs)
}

/// State `index` in the accumulation type.
fn initial(b: &Builder, states: ValueId, index: usize) -> Result<ValueId> {
    let shape = b.shape(states);
    let own = b.reshape(b.slice_dim(states, 0, index, index + 1, 1)?, &shape[1..])?;
    b.convert(own, b.dtype(states).accumulator())
}

fn dropped(b: &Builder, x: ValueId, p: f64) -> Result<ValueId> {
    let keep = kept(b, p, &b.shape(x))?;
    let scale = if p < 1.0 { (1.0 - p).recip() } else { 0.0 };
    let scaled = formula(b, [x], |[x]| x * scale)?;
    b.select(keep, scaled, support::like(b, x, 0.0)?)
}

/// One direction of one layer: all outputs `[time, batch, width]` in the input's type, and the last state.
fn direction(
    c: &Call<'_>,
    b: &Builder,
    kind: Kind,
    x: ValueId,
    w: &Weights,
    state: State,
    reverse: bool,
) -> Result<(ValueId, State)> {
    let dtype = b.dtype(x);
    let gates = linear(c, b, x, w.input, w.input_bias)?;
    let (s, h) = (b.shape(gates), b.shape(state.hidden));
    let outputs = b.full(Number::Int(0), dtype, &[s[0], h[0], h[1]])?;
    let counter = b.scalar(Number::Int(0), DType::I64)?;
    let fixed = [Some(gates), Some(w.recurrent), w.recurrent_bias, w.projection];
    let fixed: Vec<ValueId> = fixed.into_iter().flatten().collect();
    let carried: Vec<ValueId> = [counter, outputs, state.hidden].into_iter().chain(state.cell).chain(fixed).collect();
    let body = body(c, b, kind, &carried, w, reverse)?;
    let cond = fewer_than(b, &carried, s[0])?;
    let results = b.while_loop(&carried, cond, body)?;
    let cell = state.cell.and_then(|_| results.get(3).copied());
    Ok((results[1], State { hidden: results[2], cell }))
}

/// The carried values as inputs of a body's graph.
fn inputs(outer: &Builder, inner: &Builder, carried: &[ValueId]) -> Result<Vec<ValueId>> {
    let input = |(i, &v): (usize, &ValueId)| Ok(inner.input(format!("arg{i}"), InputKind::User, outer.ty(v)?));
    carried.iter().enumerate().map(input).collect()
}

/// One time step. Carries counter, outputs, hidden state, cell state if any, then what does not change.
fn body(c: &Call<'_>, outer: &Builder, kind: Kind, carried: &[ValueId], w: &Weights, reverse: bool) -> Result<Graph> {
    let own = Builder::new("time_step");
    let b = &own;
    let values = inputs(outer, b, carried)?;
    let mut rest = values.iter().copied();
    let mut next = || rest.next().ok_or_else(|| Error::internal("a loop carries too little"));
    let (counter, outputs, hidden) = (next()?, next()?, next()?);
    let cell = if kind == Kind::Lstm { Some(next()?) } else { None };
    let (gates, recurrent) = (next()?, next()?);
    let bias = if w.recurrent_bias.is_some() { Some(next()?) } else { None };
    let projection = if w.projection.is_some() { Some(next()?) } else { None };

    let (s, dtype) = (b.shape(gates), b.dtype(outputs));
    let time = match reverse {
        true => b.subtract(b.scalar(Number::Int(s[0] as i64 - 1), DType::I64)?, counter)?,
        false => counter,
    };
    let input = row(b, gates, time)?;
    let contribution = linear(c, b, b.convert(hidden, dtype)?, recurrent, bias)?;
    let mut state = step(b, kind, input, contribution, State { hidden, cell })?;
    if let Some(p) = projection {
        state.hidden = contract(c, b, b.convert(state.hidden, dtype)?, p, &[], &[(1, 1)])?;
    }
    let outputs = put_row(b, outputs, b.convert(state.hidden, dtype)?, time)?;
    let counter = b.add(counter, b.scalar(Number::Int(1), DType::I64)?)?;
    let changed = [counter, outputs, state.hidden].into_iter().chain(state.cell);
    let unchanged = values.iter().copied().skip(if cell.is_some() { 4 } else { 3 });
    for (i, v) in changed.chain(unchanged).enumerate() {
        b.output(format!("out{i}"), OutputKind::User, v);
    }
    Ok(own.finish())
}
