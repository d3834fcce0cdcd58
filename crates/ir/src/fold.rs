//! Constant folding: what depends on constants only is computed now, by the reference evaluator.

use crate::error::{Error, Result};
use crate::eval::{Value, eval_node};
use crate::graph::{Graph, Input, Node, Operands, Output, ValueId};
use crate::literal::Literal;
use crate::loc::LocId;
use crate::op::Op;
use crate::types::{TensorType, Type};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Elements of the largest tensors that are folded, unless the caller says otherwise.
pub const DEFAULT_LIMIT: usize = 1024;

/// `graph` with every node computed whose operands are constants, as long as neither they nor the result hold more
/// than `limit` elements; in bodies too. Loops, branches and random draws stay. Takes linear time.
///
/// # Errors
/// `Internal` if `graph` does not verify.
pub fn fold(graph: &Graph, limit: usize) -> Result<Graph> {
    let mut to = Graph::new(graph.name.clone());
    to.locs = graph.locs.clone();
    let (constants, bodies) = (FxHashMap::default(), FxHashMap::default());
    let mut folding = Folding { from: graph, limit, to, states: vec![], constants, bodies };
    for node in graph.nodes() {
        let state = folding.node(node)?;
        folding.states.push(state);
    }
    folding.finish()
}

struct Folding<'a> {
    from: &'a Graph,
    limit: usize,
    to: Graph,
    states: Vec<State>,
    constants: FxHashMap<Literal, ValueId>,
    bodies: FxHashMap<*const Graph, Arc<Graph>>,
}

/// What became of a node.
enum State {
    Kept(ValueId),
    Known(Value, LocId),
}

impl Folding<'_> {
    fn node(&mut self, node: &Node) -> Result<State> {
        if let Some(value) = self.computed(node) {
            return Ok(State::Known(value, node.loc));
        }
        let operands = node.operands.iter().map(|&v| self.place(v)).collect::<Result<Operands>>()?;
        let bodies = node.bodies.iter().map(|b| self.body(b)).collect::<Result<_>>()?;
        Ok(State::Kept(self.to.push(Node { operands, bodies, ..node.clone() })))
    }

    /// The node's value, if it can be had now. One that cannot be evaluated is left to whoever runs the program.
    fn computed(&self, node: &Node) -> Option<Value> {
        let known = |v: &ValueId| match &self.states[v.index()] {
            State::Known(value, _) => Some(value),
            State::Kept(_) => None,
        };
        let operands: Vec<&Value> = node.operands.iter().map(known).collect::<Option<_>>()?;
        if let Op::Constant(l) = &node.op {
            return Some(Value::Tensor(l.clone()));
        }
        let effect = matches!(node.op, Op::Input { .. } | Op::RngBitGenerator { .. });
        let small = self.small(&node.ty) && node.operands.iter().all(|&v| self.small(self.from.ty(v)));
        if effect || !small || !node.bodies.is_empty() {
            return None;
        }
        eval_node(node, &operands).ok()
    }

    fn small(&self, ty: &Type) -> bool {
        let fits = |t: &TensorType| t.numel() <= self.limit;
        match ty {
            Type::Tensor(t) => fits(t),
            Type::Tuple(ts) => ts.iter().all(fits),
        }
    }

    /// Where `v` stands in the new graph: a known value becomes a constant on its first use.
    fn place(&mut self, v: ValueId) -> Result<ValueId> {
        let (literal, loc) = match &self.states[v.index()] {
            State::Kept(v) => return Ok(*v),
            State::Known(Value::Tensor(l), loc) => (l.clone(), *loc),
            // Only projections take tuples, and a projection of a known tuple is known.
            State::Known(Value::Tuple(_), _) => return Err(Error::internal(format!("{v} is a tuple"))),
        };
        if let Some(&known) = self.constants.get(&literal) {
            return Ok(known);
        }
        let (op, ty) = (Op::Constant(literal.clone()), literal.ty.clone().into());
        let place = self.to.push(Node { op, operands: Operands::new(), bodies: vec![], ty, loc });
        self.constants.insert(literal, place);
        Ok(place)
    }

    fn body(&mut self, body: &Arc<Graph>) -> Result<Arc<Graph>> {
        if let Some(known) = self.bodies.get(&Arc::as_ptr(body)) {
            return Ok(known.clone());
        }
        let folded = Arc::new(fold(body, self.limit)?);
        self.bodies.insert(Arc::as_ptr(body), folded.clone());
        Ok(folded)
    }

    fn finish(mut self) -> Result<Graph> {
        let from = self.from;
        for output in &from.outputs {
            let value = self.place(output.value)?;
            self.to.outputs.push(Output { value, ..output.clone() });
        }
        for input in &from.inputs {
            let value = self.place(input.value)?;
            self.to.inputs.push(Input { value, ..input.clone() });
        }
        Ok(self.to.without_dead_nodes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::{parse, print};
    use insta::assert_snapshot;

    fn folded(text: &str) -> String {
        let graph = fold(&parse(text).unwrap(), 4).unwrap();
        crate::verify(&graph).unwrap();
        print(&graph)
    }

    #[test]
    fn constants_meet_and_are_shared() {
        assert_snapshot!(folded(
            r#"graph @g {
              %0: f32[4] = input 0 "x" user
              %1: f32[] = constant 2.0
              %2: f32[] = add %1, %1
              %3: f32[] = constant 4.0
              %4: f32[4] = broadcast_in_dim(shape:[4],dims:[]) %2
              %5: f32[4] = broadcast_in_dim(shape:[4],dims:[]) %3
              %6: f32[4] = multiply %0, %4
              %7: f32[4] = add %6, %5
              return %7 "y"
            }"#
        ), @r#"
        graph @g {
          %0: f32[4] = input 0 "x" user
          %1: f32[4] = constant 4.0
          %2: f32[4] = multiply %0, %1
          %3: f32[4] = add %2, %1
          return %3 "y"
        }
        "#);
    }

    #[test]
    fn tuples_are_projected_and_large_values_left_alone() {
        assert_snapshot!(folded(
            r#"graph @g {
              %0: i64[3] = constant [3, 1, 2]
              %1: i64[3] = iota(dtype:i64,shape:[3],dim:0)
              %2: (i64[3], i64[3]) = sort(dim:0,descending:false,stable:true) %0, %1
              %3: i64[3] = get_tuple_element(index:1) %2
              %4: i64[5] = iota(dtype:i64,shape:[5],dim:0)
              %5: i64[] = reduce(reducer:add,dims:[0]) %4
              return %3 "order", %5 "sum"
            }"#
        ), @r#"
        graph @g {
          %0: i64[5] = iota(dtype:i64,shape:[5],dim:0)
          %1: i64[] = reduce(reducer:add,dims:[0]) %0
          %2: i64[3] = constant [1, 2, 0]
          return %2 "order", %1 "sum"
        }
        "#);
    }

    /// On every sample of the op table, to the bit.
    #[test]
    fn folding_changes_no_result() {
        use crate::ops::{Variant, find, names, sample};
        let works = |s: &&sample::Sample| s.error.is_none();
        for (name, entry) in names().into_iter().filter_map(|n| Some((n, find(n)?))) {
            let once = entry.variant == Variant::Functional;
            for s in entry.def.samples.iter().filter(works).filter(|_| once) {
                let Ok(args) = sample::bind(entry.schema, s.args) else { continue };
                let Ok(expansion) = sample::expand(&entry, &args) else { continue };
                let mut inputs = sample::data::literals(&args, 1, true);
                let state = TensorType::new(crate::DType::U64, [2]);
                inputs.extend(
                    (inputs.len() < expansion.graph.inputs.len())
                        .then(|| Literal { ty: state, bytes: Literal::i64s(&[5, 7]).bytes }),
                );
                let folded = fold(&expansion.graph, DEFAULT_LIMIT).unwrap();
                let bits = |g: &Graph| -> Vec<(TensorType, Vec<u8>)> {
                    let outputs = crate::eval(g, &inputs).unwrap_or_else(|e| panic!("{name}({}): {e}", s.args));
                    outputs.iter().map(|l| (l.ty.clone(), l.dense_bytes())).collect()
                };
                assert!(bits(&folded) == bits(&expansion.graph), "{name}({})", s.args);
            }
        }
    }

    #[test]
    fn random_draws_stay_and_bodies_are_folded() {
        assert_snapshot!(folded(
            r#"graph @g {
              %0: u64[2] = constant [1, 2]
              %1: (u64[2], u32[]) = rng_bit_generator(dtype:u32,shape:[]) %0
              %2: u32[] = get_tuple_element(index:1) %1
              %3: bool[] = input 0 "p" user
              %4: (u32[]) = if %3, %2 {
                graph @then {
                  %0: u32[] = input 0 "x" user
                  %1: u32[] = constant 7
                  %2: u32[] = negate %1
                  return %2 "a"
                }
                graph @else {
                  %0: u32[] = input 0 "x" user
                  return %0 "b"
                }
              }
              %5: u32[] = get_tuple_element(index:0) %4
              return %5 "y"
            }"#
        ), @r#"
        graph @g {
          %0: u64[2] = constant [1, 2]
          %1: (u64[2], u32[]) = rng_bit_generator(dtype:u32,shape:[]) %0
          %2: u32[] = get_tuple_element(index:1) %1
          %3: bool[] = input 0 "p" user
          %4: (u32[]) = if %3, %2 {
            graph @then {
              %0: u32[] = input 0 "x" user
              %1: u32[] = constant 4294967289
              return %1 "a"
            }
            graph @else {
              %0: u32[] = input 0 "x" user
              return %0 "b"
            }
          }
          %5: u32[] = get_tuple_element(index:0) %4
          return %5 "y"
        }
        "#);
    }
}
