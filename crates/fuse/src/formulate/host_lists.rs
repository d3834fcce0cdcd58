//! What is computed of many small tensors, each place by itself, left to the host in one call for all of them: what an optimizer does
//! to a model's parameters.
//!
//! XLA's CPU writes a loop for each tensor of another length, and runs one after the other. Milliseconds of 142 tensors of 2,000 elements
//! each, strict, on 2 cores of a Xeon with AVX-512 (two pairs of processes in turns; the machine is noisy):
//!
//! |                                 | loops      | host       |
//! |---------------------------------|------------|------------|
//! | `_foreach_mul_`                 | 0.69, 0.62 | 0.33, 0.32 |
//! | `_foreach_lerp_`                | 1.27, 1.07 | 1.52, 1.52 |
//! | `_foreach_addcmul_`             | 1.14, 0.96 | 0.54, 0.48 |
//! | `_foreach_sqrt`                 | 1.18, 1.06 | 0.45, 0.46 |
//! | `_foreach_div_`, a number each  | 0.82, 0.69 | 0.68, 0.68 |
//! | `_foreach_add_`                 | 0.79, 0.66 | 0.34, 0.34 |
//! | `_foreach_addcdiv_`, likewise   | 1.64, 1.42 | 0.87, 0.88 |
//! | these and `mul_` again          | 8.2, 7.1   | 5.1, 5.1   |
//!
//! All of these of 4,000 elements took 4.2 and 4.4, and 5.9 and 4.4 by the host; of 20,000 6.9 and 7.8, and 9.2 and 8.4 (an earlier build).

use super::host_rows::{Asked, Calling, is_exact, told};
use crate::measure::{ops_on_memory, readers, unshaped};
use crate::{Changes, Class};
use ir::{DType, Graph, Input, LocId, Node, Op, Operands, OutputKind, Result, TensorType, Type, ValueId};
use rustc_hash::{FxHashMap, FxHashSet};

/// Name, class and reason.
pub(super) const TOLD: (&str, Class, &str) =
    ("lists-by-the-host", Class::Exact, "XLA's CPU writes a loop for each tensor, and runs one after the other");

/// Tensors from which it is worth a call.
const FEWEST: usize = 4;

/// The most elements of each. Steps of an optimizer over larger tensors take longer than by XLA's loops.
const MOST: usize = 1 << 11;

/// `graph`, for a platform where the host takes calls, with what is computed place by place of many tensors left to it.
pub(super) fn left_to_the_host(graph: &Graph, changes: &mut Changes, within: Option<LocId>) -> Result<Graph> {
    if graph.outputs.len() < FEWEST || !changes.allows_alone(TOLD.1) {
        return Ok(graph.clone());
    }
    let (found, mut lists) = (Found::of(graph), vec![]);
    for dtype in [DType::F32, DType::F64] {
        if let Some(list) = changes.allows_alone(TOLD.1).then(|| List::of(&found, dtype)).flatten() {
            changes.push(told(TOLD, graph, &list.nodes, list.nodes[0], within));
            lists.push(list);
        }
    }
    if lists.is_empty() { Ok(graph.clone()) } else { rebuilt(graph, lists) }
}

/// `graph` with a call for each list behind all else: nothing but reshapes reads what they give.
fn rebuilt(graph: &Graph, lists: Vec<List>) -> Result<Graph> {
    let own: FxHashSet<usize> = lists.iter().flat_map(|list| list.nodes.iter().copied()).collect();
    let (mut to, mut late) = (Calling::of(graph), vec![]);
    for i in (0..graph.nodes().len()).filter(|i| !own.contains(i)) {
        if to.has_operands(i) {
            to.keep(i)?;
        } else {
            late.push(i);
        }
    }
    for list in lists {
        to.call(list.nodes[0], list.asked.to, &list.asked.given, &list.gives)?;
    }
    late.into_iter().try_for_each(|i| to.keep(i))?;
    to.finish()
}

/// Ops that the host may compute, of one tensor each, with all that they have to do with.
struct Found<'g> {
    graph: &'g Graph,
    readers: Vec<Vec<usize>>,
    /// The outputs that a value is, by itself or in another shape.
    outputs: Vec<Vec<usize>>,
    /// Nodes, in order, of which each reads another or is read by one.
    parts: Vec<Vec<usize>>,
}

impl<'g> Found<'g> {
    fn of(graph: &'g Graph) -> Found<'g> {
        let count = graph.nodes().len();
        let readers = readers(graph);
        let mut outputs = vec![vec![]; count];
        for (i, output) in graph.outputs.iter().enumerate() {
            outputs[unshaped(graph, output.value).index()].push(i);
        }
        let computed: Vec<bool> = graph.nodes().iter().map(|node| is_computed(graph, node)).collect();
        let parts = ir::parts::parts(graph, |i| computed[i].then_some(()));
        Found { graph, readers, outputs, parts }
    }

    /// Whether nothing else reads the value of `node`, which is one of `nodes`; what is given of it may have another shape.
    fn is_read_here(&self, node: usize, nodes: &[usize]) -> bool {
        self.readers[node].iter().all(|&reader| nodes.binary_search(&reader).is_ok() || self.is_another_shape(reader))
    }

    /// Whether a node is a reshape that nothing reads, or only such.
    fn is_another_shape(&self, node: usize) -> bool {
        let is_reshape = matches!(self.graph.nodes()[node].op, Op::Reshape { .. });
        is_reshape && self.readers[node].iter().all(|&reader| self.is_another_shape(reader))
    }

    /// Whether `v` is in memory until all else is done: what is needed no longer than for a list would wait for the last tensor of it.
    fn is_kept(&self, v: ValueId) -> bool {
        let of = unshaped(self.graph, v);
        matches!(self.graph.node(of).op, Op::Input { .. })
            || !self.outputs[of.index()].is_empty() && is_made(self.graph, of)
    }

    /// The input whose next value `value` is, if it is one's.
    fn mutated(&self, value: usize) -> Option<ValueId> {
        let mutated = |&output: &usize| self.graph.outputs[output].kind.mutated();
        let input = self.outputs[value].iter().find_map(mutated)?;
        Some(self.graph.inputs[input].value)
    }
}

/// Whether `v` is written to memory by what makes it, whoever reads it.
fn is_made(graph: &Graph, v: ValueId) -> bool {
    let is_spread = matches!(graph.node(v).op, Op::BroadcastInDim { .. } | Op::Iota { .. } | Op::Constant(_));
    !is_spread && ops_on_memory(graph, v, 0).is_some()
}

/// Whether `node` is elementwise and the host has it, as XLA would compute it.
fn is_computed(graph: &Graph, node: &Node) -> bool {
    let is_float = |ty: &TensorType| matches!(ty.dtype, DType::F32 | DType::F64);
    let fits = |ty: &TensorType| is_float(ty) || ty.dtype == DType::Bool;
    let (Some(ty), Some(first)) = (node.ty.tensor(), node.operands.first().and_then(|&v| graph.tensor_type(v))) else {
        return false;
    };
    let is_hosted = match &node.op {
        Op::Unary(u) => is_float(ty) && ir::rows::of_one(*u).is_some_and(is_exact),
        Op::Binary(b) => ir::rows::of_two(*b, ty.dtype == DType::Bool).is_some(),
        Op::Compare(_) => is_float(first),
        Op::Select => true,
        _ => false,
    };
    is_hosted
        && fits(ty)
        && (1..=MOST).contains(&ty.numel())
        && node.operands.iter().all(|&v| graph.tensor_type(v).is_some_and(fits))
}

/// What is asked for in one call.
struct List {
    nodes: Vec<usize>,
    asked: Asked,
    /// The nodes whose values the body gives.
    gives: Vec<usize>,
}

impl List {
    /// All of one type, if there are enough of them.
    fn of(found: &Found<'_>, dtype: DType) -> Option<List> {
        let mut parts: Vec<List> = found.parts.iter().filter_map(|nodes| List::of_part(found, nodes, dtype)).collect();
        if parts.len() < FEWEST {
            return None;
        }
        // What several are given is nobody's to overwrite.
        let mut times: FxHashMap<ValueId, usize> = FxHashMap::default();
        let values = parts.iter().flat_map(|part| &part.asked.given);
        values.for_each(|&v| *times.entry(unshaped(found.graph, v)).or_default() += 1);
        let mut all = List { nodes: vec![], asked: Asked::named("list"), gives: vec![] };
        parts.iter_mut().for_each(|part| part.join(&mut all, |v| times[&unshaped(found.graph, v)] == 1));
        all.nodes.sort_unstable();
        Some(all)
    }

    /// What is computed of one tensor, if all of it is in memory, nothing else reads what is made, and the host computes it.
    fn of_part(found: &Found<'_>, nodes: &[usize], dtype: DType) -> Option<List> {
        let graph = found.graph;
        let gives: Vec<usize> = nodes.iter().copied().filter(|&node| !found.outputs[node].is_empty()).collect();
        let whole = graph.nodes()[*gives.first()?].ty.tensor().filter(|ty| ty.dtype == dtype)?;
        nodes.iter().all(|&node| found.is_read_here(node, nodes)).then_some(())?;
        let mut body = Body { found, graph, whole, to: Asked::named("list"), values: FxHashMap::default() };
        for &node in nodes {
            body.copy(node)?;
        }
        for &node in &gives {
            let overwritten = found.mutated(node).and_then(|input| body.input_of(input));
            let kind = overwritten.map_or(OutputKind::User, OutputKind::Mutation);
            body.to.give(kind, body.values[&node]);
        }
        ir::rows::hosted(&body.to.to)?;
        Some(List { nodes: nodes.to_vec(), asked: body.to, gives })
    }

    /// Appends it to `all`. Its outputs take the memory of what is `only` given to it.
    fn join(&mut self, all: &mut List, only: impl Fn(ValueId) -> bool) {
        let (to, own) = (&mut all.asked, &mut self.asked);
        let (inputs, nodes) = (to.given.len(), to.to.nodes().len());
        let at = |v: ValueId| ValueId::new(nodes + v.index());
        for node in own.to.nodes() {
            let mut node = node.clone();
            node.operands.iter_mut().for_each(|v| *v = at(*v));
            if let Op::Input { index } = &mut node.op {
                *index += inputs;
            }
            to.to.push(node);
        }
        for (i, input) in own.to.inputs.iter().enumerate() {
            let name = format!("given{}", inputs + i);
            to.to.inputs.push(Input { name, value: at(input.value), ..input.clone() });
        }
        for output in &own.to.outputs {
            let kind = match output.kind {
                OutputKind::Mutation(input) if only(own.given[input]) => OutputKind::Mutation(inputs + input),
                _ => OutputKind::User,
            };
            to.give(kind, at(output.value));
        }
        to.given.append(&mut own.given);
        all.nodes.append(&mut self.nodes);
        all.gives.append(&mut self.gives);
    }
}

/// What is computed of one tensor, being built.
struct Body<'g> {
    found: &'g Found<'g>,
    graph: &'g Graph,
    whole: &'g TensorType,
    to: Asked,
    values: FxHashMap<usize, ValueId>,
}

/// The most ops on numbers, one of another, that are computed with each tensor.
const MOST_OF_NUMBERS: usize = 4;

impl Body<'_> {
    fn copy(&mut self, node: usize) -> Option<()> {
        let of = &self.graph.nodes()[node];
        let operands = of.operands.iter().map(|&v| self.value(v)).collect::<Option<Operands>>()?;
        let made = self.to.again(of, &operands);
        self.values.insert(node, made);
        Some(())
    }

    /// What stands for `v`: a number, which is made anew or spread over the tensor, or a tensor in memory.
    fn value(&mut self, v: ValueId) -> Option<ValueId> {
        if let Some(&known) = self.values.get(&v.index()) {
            return Some(known);
        }
        let node = self.graph.node(v);
        let made = match &node.op {
            Op::Constant(literal) if literal.is_splat() => self.to.again(node, &[]),
            Op::BroadcastInDim { .. } => {
                let of = node.operands[0];
                (self.graph.tensor_type(of)?.numel() == 1).then_some(())?;
                let of = self.number(of, MOST_OF_NUMBERS);
                self.to.again(node, &[of])
            }
            _ => {
                let is_alike = self.graph.tensor_type(v)?.shape == self.whole.shape;
                match is_alike && self.found.is_kept(v) {
                    true => self.to.input(self.graph, v),
                    false if is_alike && self.whole.rank() == 0 => self.number(v, MOST_OF_NUMBERS),
                    false => return None,
                }
            }
        };
        self.values.insert(v.index(), made);
        Some(made)
    }

    /// What stands for the number `v`: it is computed here if that takes few ops, as XLA would write a loop for each of them.
    fn number(&mut self, v: ValueId, most: usize) -> ValueId {
        if let Some(&known) = self.values.get(&v.index()) {
            return known;
        }
        let node = self.graph.node(v);
        let own = |ty: &TensorType| ty.dtype == self.whole.dtype || ty.dtype == DType::Bool;
        let is_computed = || {
            let types = node.operands.iter().map(|&v| self.graph.tensor_type(v)).chain([node.ty.tensor()]);
            most > 0 && is_computed(self.graph, node) && types.into_iter().all(|ty| ty.is_some_and(own))
        };
        let made = match &node.op {
            Op::Constant(literal) if literal.is_splat() => self.to.again(node, &[]),
            Op::Reshape { .. } => {
                let of = self.number(node.operands[0], most);
                self.to.again(node, &[of])
            }
            _ if is_computed() => {
                let operands: Operands = node.operands.iter().map(|&v| self.number(v, most - 1)).collect();
                self.to.again(node, &operands)
            }
            _ => self.packed(v).unwrap_or_else(|| self.to.input(self.graph, v)),
        };
        self.values.insert(v.index(), made);
        made
    }

    /// The number `v`, if it is one of several that are given together, maybe as floats of 64 bits.
    fn packed(&mut self, v: ValueId) -> Option<ValueId> {
        let (node, dtype) = (self.graph.node(v), self.whole.dtype);
        let (convert, slice) = match node.op == (Op::Convert { dtype }) {
            true => (Some(node), unshaped(self.graph, node.operands[0])),
            false => (None, v),
        };
        let node = self.graph.node(slice);
        let Op::Slice { .. } = node.op else { return None };
        let (of, ty) = (node.operands[0], node.ty.tensor()?);
        let fits = self.graph.tensor_type(of)?.rank() == 1 && (ty.dtype == dtype || ty.dtype == DType::F64);
        (fits && matches!(self.graph.node(of).op, Op::Input { .. })).then_some(())?;
        let all = self.to.input(self.graph, of);
        let mut number = self.to.again(node, &[all]);
        if let Some(node) = convert {
            let ty = Type::Tensor(TensorType { dtype, ..ty.clone() });
            number = self.to.again(&Node { ty, ..node.clone() }, &[number]);
        }
        let node = self.graph.node(v);
        let op = Op::Reshape { shape: self.graph.tensor_type(v)?.shape.clone() };
        Some(self.to.again(&Node { op, ..node.clone() }, &[number]))
    }

    /// Which of its inputs is given the graph's `input`, which nothing else reads, and has the tensor's type.
    fn input_of(&self, input: ValueId) -> Option<usize> {
        let is_it = |&v: &ValueId| unshaped(self.graph, v) == input && self.graph.tensor_type(v) == Some(self.whole);
        let index = self.to.given.iter().position(is_it)?;
        let (given, readers) = (self.to.given[index], |v: ValueId| &self.found.readers[v.index()]);
        let is_only_read_here = readers(given).iter().all(|reader| self.values.contains_key(reader))
            && (given == input || readers(input).len() == 1);
        (is_only_read_here && self.found.outputs[input.index()].is_empty()).then_some(index)
    }
}

#[cfg(test)]
mod tests;
