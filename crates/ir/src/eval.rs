//! What a graph means: a reference evaluator, to be right rather than fast.
//!
//! Constants are folded and every other stage is checked with it, and eager calls whose sizes never come again are computed with
//! it where compiling them would take longer. It takes time linear in the graph and in the work its
//! ops stand for, and no more memory than [`Limits`] allow.

mod complex;
mod contract;
mod element;
mod elementwise;
mod fourier;
mod index;
mod random;
mod reduce;
mod shape;
mod special;
mod window;
mod work;

pub use work::work;

use crate::error::{Error, Result};
use crate::graph::{Graph, Node};
use crate::literal::{Literal, Number};
use crate::op::{Binary, Finished, Op};
use crate::types::{Dims, TensorType, Type};
use crate::{ensure, invalid};

/// How much an evaluation may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Rounds of all loops together.
    pub iterations: u64,
    /// Bytes of one value.
    pub bytes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { iterations: 1 << 20, bytes: 1 << 30 }
    }
}

/// A node's value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// One tensor.
    Tensor(Literal),
    /// The results of a multi-result op.
    Tuple(Vec<Literal>),
}

/// The outputs of `graph`, which [verifies](crate::verify()), for `inputs`, one an input.
///
/// # Errors
/// `Invalid` if `inputs` are not of the graph's types or a default of [`Limits`] is exceeded.
pub fn eval(graph: &Graph, inputs: &[Literal]) -> Result<Vec<Literal>> {
    eval_within(graph, inputs, Limits::default())
}

/// As [`eval`], within `limits`.
///
/// # Errors
/// As [`eval`].
pub fn eval_within(graph: &Graph, inputs: &[Literal], limits: Limits) -> Result<Vec<Literal>> {
    Evaluation { limits }.run(graph, inputs)
}

/// The value of one node without bodies. Of `input` it has none.
///
/// # Errors
/// `Internal` if the node does not verify.
pub fn eval_node(node: &Node, operands: &[&Value]) -> Result<Value> {
    Evaluation { limits: Limits { iterations: 0, ..Limits::default() } }.node(node, operands)
}

struct Evaluation {
    limits: Limits,
}

impl Evaluation {
    fn run(&mut self, graph: &Graph, inputs: &[Literal]) -> Result<Vec<Literal>> {
        ensure!(
            inputs.len() == graph.inputs.len(),
            "@{} takes {} inputs, got {}",
            graph.name,
            graph.inputs.len(),
            inputs.len()
        );
        let last_use = last_uses(graph);
        let mut values: Vec<Option<Value>> = vec![None; graph.nodes().len()];
        for (i, node) in graph.nodes().iter().enumerate() {
            let place = |e: Error| {
                let loc = graph.locs.get(node.loc);
                e.at(&loc.op, loc)
            };
            let value = match node.op {
                Op::Input { index } => input(node, inputs.get(index), index)?,
                _ => {
                    let value = |v: &crate::ValueId| values[v.index()].as_ref().ok_or_else(lost);
                    let operands = node.operands.iter().map(value).collect::<Result<Vec<_>>>()?;
                    self.node(node, &operands).map_err(place)?
                }
            };
            values[i] = (last_use[i] > i).then_some(value);
            for v in node.operands.iter().filter(|v| last_use[v.index()] == i) {
                values[v.index()] = None;
            }
        }
        let outputs = graph.outputs.iter().map(|o| match &values[o.value.index()] {
            Some(Value::Tensor(l)) => Ok(l.clone()),
            _ => Err(lost()),
        });
        outputs.collect()
    }

    fn node(&mut self, node: &Node, operands: &[&Value]) -> Result<Value> {
        let parts = node.ty.tensors();
        let large = parts.iter().find(|t| t.size_in_bytes() > self.limits.bytes && !is_splat_op(&node.op, operands));
        ensure!(large.is_none(), "a value of type {} exceeds the limit of {} bytes", node.ty, self.limits.bytes);
        if let (Op::GetTupleElement { index }, [Value::Tuple(parts)]) = (&node.op, operands) {
            return parts.get(*index).cloned().map(Value::Tensor).ok_or_else(lost);
        }
        let tensor = |v: &&'_ Value| match v {
            Value::Tensor(l) => Some(l.clone()),
            Value::Tuple(_) => None,
        };
        let args: Vec<Literal> = operands.iter().map(tensor).collect::<Option<_>>().ok_or_else(lost)?;
        let results = match node.op {
            Op::While => self.while_loop(node, args)?,
            Op::If => self.branch(node, args)?,
            Op::Lapack { .. } | Op::Grouped { .. } | Op::Routine(_) | Op::HostRows => {
                self.run(node.bodies.first().ok_or_else(lost)?, &args)?
            }
            _ => tensors(node, &args)?,
        };
        let types = results.iter().map(|r| &r.ty);
        ensure_internal(types.eq(parts), || format!("{:?} gave other types than {}", node.op, node.ty))?;
        match (&node.ty, <[Literal; 1]>::try_from(results)) {
            (Type::Tensor(_), Ok([one])) => Ok(Value::Tensor(one)),
            (Type::Tuple(_), Ok([one])) => Ok(Value::Tuple(vec![one])),
            (_, Err(many)) => Ok(Value::Tuple(many)),
        }
    }

    fn while_loop(&mut self, node: &Node, mut carried: Vec<Literal>) -> Result<Vec<Literal>> {
        let [cond, body] = &node.bodies[..] else { return Err(lost()) };
        while truth(self.run(cond, &carried)?.first())? {
            let Some(rest) = self.limits.iterations.checked_sub(1) else {
                invalid!("a loop runs longer than the evaluator's limit")
            };
            self.limits.iterations = rest;
            carried = self.run(body, &carried)?;
        }
        Ok(carried)
    }

    fn branch(&mut self, node: &Node, mut args: Vec<Literal>) -> Result<Vec<Literal>> {
        let [then, otherwise] = &node.bodies[..] else { return Err(lost()) };
        let rest = args.split_off(1.min(args.len()));
        let chosen = if truth(args.first())? { then } else { otherwise };
        self.run(chosen, &rest)
    }
}

fn lost() -> Error {
    Error::internal("an operand has no value: the graph does not verify")
}

fn ensure_internal(holds: bool, message: impl FnOnce() -> String) -> Result<()> {
    if holds { Ok(()) } else { Err(Error::internal(message())) }
}

/// Ops that stay one element, whatever the extents.
fn is_splat_op(op: &Op, operands: &[&Value]) -> bool {
    let splat = |v: &&Value| matches!(v, Value::Tensor(l) if l.is_splat());
    match op {
        Op::Constant(l) => l.is_splat(),
        Op::BroadcastInDim { .. } | Op::Reshape { .. } => operands.iter().all(splat),
        _ => false,
    }
}

/// For each node the last one that uses it; beyond all for outputs.
fn last_uses(graph: &Graph) -> Vec<usize> {
    let mut last = vec![0; graph.nodes().len()];
    for (i, node) in graph.nodes().iter().enumerate() {
        node.operands.iter().for_each(|v| last[v.index()] = i);
    }
    graph.outputs.iter().for_each(|o| last[o.value.index()] = usize::MAX);
    last
}

fn input(node: &Node, given: Option<&Literal>, index: usize) -> Result<Value> {
    let Some(given) = given else { return Err(lost()) };
    let fits = node.ty.tensor() == Some(&given.ty);
    ensure!(fits, "input {index} is {}, not {}", given.ty, node.ty);
    Ok(Value::Tensor(given.clone()))
}

fn truth(pred: Option<&Literal>) -> Result<bool> {
    pred.and_then(|p| p.bytes.first()).map(|&b| b != 0).ok_or_else(lost)
}

/// The results of an op on tensors.
fn tensors(node: &Node, args: &[Literal]) -> Result<Vec<Literal>> {
    let out = match &node.ty {
        Type::Tensor(t) => t,
        Type::Tuple(ts) => ts.first().ok_or_else(lost)?,
    };
    let all: Vec<&Literal> = args.iter().collect();
    match (&node.op, &all[..]) {
        (Op::Reduce { reducer, dims }, _) => reduce::reduce(*reducer, &all, dims),
        (Op::ReduceWindow { reducer, window }, _) => reduce::reduce_window(*reducer, &all, window, &out.shape),
        (Op::HostScan(s), _) => reduce::reduce_window(s.reducer, &all, &s.window(&out.shape), &out.shape),
        (Op::Sort { dim, descending, .. }, _) => reduce::sort(&all, *dim, *descending, false),
        (Op::HostSort(part), _) => reduce::sorted_part(&all, part),
        (Op::Fft { kind, lengths }, [a]) => Ok(vec![fourier::fft(a, *kind, lengths, out.dtype)?]),
        (&Op::TopK { k }, [a]) => reduce::top_k(a, k),
        (Op::OptimizationBarrier, _) => Ok(args.to_vec()),
        (Op::HostBarrier, [value, ..]) => Ok(vec![(*value).clone()]),
        (Op::RngBitGenerator { dtype, shape }, [state]) => random::rng_bit_generator(state, *dtype, shape),
        (op, all) => tensor(op, all, out).map(|t| vec![t]),
    }
}

/// The one result, of type `out`, of an op on tensors.
fn tensor(op: &Op, args: &[&Literal], out: &TensorType) -> Result<Literal> {
    let start = |indices: &[&Literal]| indices.iter().map(|l| scalar_index(l)).collect::<Result<Vec<i128>>>();
    match (op, args) {
        (Op::Constant(l), []) => Ok(l.clone()),
        (Op::Iota { dtype, shape, dim }, []) => elementwise::iota(*dtype, shape, *dim),
        (Op::Unary(u) | Op::HostUnary(u), [a]) => elementwise::unary(*u, a, out.dtype),
        (Op::Binary(b), [x, y]) => elementwise::binary(*b, x, y, out.dtype),
        (Op::HostBinary(b), [x, y]) => {
            let whole = |l: &Literal| match l.ty.rank() {
                0 => shape::broadcast_in_dim(l, &out.shape, &Dims::new()),
                _ => Ok(l.clone()),
            };
            elementwise::binary(*b, &whole(x)?, &whole(y)?, out.dtype)
        }
        (Op::Compare(c), [x, y]) => elementwise::compare(*c, x, y),
        (Op::Select, [p, t, f]) => elementwise::select(p, t, f),
        (Op::Convert { dtype }, [a]) => elementwise::convert(a, *dtype),
        (Op::BitcastConvert { .. } | Op::Reshape { .. }, [a]) => {
            Ok(Literal { ty: out.clone(), bytes: a.bytes.clone() })
        }
        (Op::BroadcastInDim { shape, dims }, [a]) => shape::broadcast_in_dim(a, shape, dims),
        (Op::Transpose { permutation }, [a]) => shape::transpose(a, permutation),
        (Op::Slice { start, limit, stride }, [a]) => shape::slice(a, start, limit, stride),
        (Op::DynamicSlice { sizes }, [a, starts @ ..]) => shape::dynamic_slice(a, &start(starts)?, sizes),
        (Op::DynamicUpdateSlice, [a, u, starts @ ..]) => shape::dynamic_update_slice(a, u, &start(starts)?),
        (Op::Concatenate { dim }, parts @ [_, ..]) => shape::concatenate(parts, *dim),
        (Op::Pad { low, interior, .. }, [a, value]) => shape::pad(a, value, low, interior, &out.shape),
        (Op::Reverse { dims }, [a]) => shape::reverse(a, dims),
        (Op::Gather(g), [a, i]) => index::gather(g, a, i, &out.shape),
        (Op::Scatter(s) | Op::HostScatter(s), [a, i, u]) => index::scatter(s, a, i, u),
        (Op::DotGeneral(d), [l, r]) => contract::dot_general(d, l, r, &out.shape),
        (Op::Convolution(c), [x, k]) => contract::convolution(c, x, k, &out.shape),
        (Op::Finished(f), [x, y, added @ ..]) => finished(f, x, y, added, out),
        (Op::SelectAndScatter { window }, [a, source]) => reduce::select_and_scatter(a, source, window),
        _ => Err(Error::internal(format!("{op:?} on {} operands", args.len()))),
    }
}

fn finished(f: &Finished, x: &Literal, y: &Literal, added: &[&Literal], out: &TensorType) -> Result<Literal> {
    let mut value = tensor(&f.of, &[x, y], out)?;
    let mut added = added.iter();
    let mut next = || added.next().ok_or_else(lost);
    let all = |a: &Literal, dims: &Dims| shape::broadcast_in_dim(a, &out.shape, dims);
    let features: Dims = f.features(out.rank(), y.ty.rank()).collect();
    for (_, op) in [(f.scale, Binary::Multiply), (f.bias, Binary::Add)].into_iter().filter(|step| step.0) {
        value = elementwise::binary(op, &value, &all(next()?, &features)?, out.dtype)?;
    }
    if f.addend {
        value = elementwise::binary(Binary::Add, &value, next()?, out.dtype)?;
    }
    if f.relu {
        let zero = all(&Literal::splat(Number::Int(0), out.dtype, []), &Dims::new())?;
        value = elementwise::binary(Binary::Maximum, &value, &zero, out.dtype)?;
    }
    Ok(value)
}

fn scalar_index(l: &Literal) -> Result<i128> {
    element::indices(l)?.first().copied().ok_or_else(lost)
}

#[cfg(test)]
mod tests;
