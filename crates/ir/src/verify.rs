//! Checks a graph from anywhere: a file, a rewrite, a test.

use crate::error::{Error, Result};
use crate::graph::{Graph, Input, Node, Output, OutputKind, ValueId};
use crate::infer::{addressable, infer};
use crate::op::Op;
use crate::types::Type;
use crate::{ensure, invalid};
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

/// Checks that operands stand before their users, that every type is the one inference gives, that inputs and outputs
/// agree with the nodes, and that a mutation gives back the type it takes; in bodies too. Takes linear time.
///
/// # Errors
/// `Invalid` or what inference says, with the place of the node in the user's program.
pub fn verify(graph: &Graph) -> Result<()> {
    // A body is checked before the node that holds it: inference looks into it.
    bodies_first(graph).into_iter().try_for_each(verify_alone)
}

/// `graph` and all bodies in it, each once, inner ones first.
fn bodies_first(graph: &Graph) -> Vec<&Graph> {
    let (mut order, mut open, mut seen) = (vec![], vec![(graph, false)], FxHashSet::default());
    while let Some((g, done)) = open.pop() {
        if done {
            order.push(g);
        } else if seen.insert(std::ptr::from_ref(g)) {
            open.push((g, true));
            open.extend(g.nodes().iter().flat_map(|n| &n.bodies).map(|b| (&**b, false)));
        }
    }
    order
}

fn verify_alone(graph: &Graph) -> Result<()> {
    for (i, node) in graph.nodes().iter().enumerate() {
        let place = |e: Error| {
            let loc = graph.locs.get(node.loc);
            e.at(&loc.op, loc)
        };
        verify_node(graph, i, node).map_err(place)?;
    }
    for (i, input) in graph.inputs.iter().enumerate() {
        verify_input(graph, i, input)?;
    }
    let mut written = vec![false; graph.inputs.len()];
    graph.outputs.iter().try_for_each(|o| verify_output(graph, o, &mut written))
}

fn verify_node(graph: &Graph, index: usize, node: &Node) -> Result<()> {
    let this = ValueId::new(index);
    let mut types: SmallVec<[&Type; 4]> = SmallVec::new();
    for v in &node.operands {
        ensure!(v.index() < index, "{this} uses {v}, which does not stand before it");
        types.push(graph.ty(*v));
    }
    if let Op::Input { index } = node.op {
        let listed = graph.inputs.get(index).is_some_and(|i| i.value == this);
        ensure!(listed, "{this} is not input {index} of @{}", graph.name);
        let bare = node.operands.is_empty() && node.bodies.is_empty();
        ensure!(bare, "{this} is an input with operands");
        let Type::Tensor(t) = &node.ty else { invalid!("{this} is an input but no tensor") };
        return addressable(t);
    }
    let ty = infer(&node.op, &types, &node.bodies)?;
    ensure!(ty == node.ty, "{this} is declared {}, but the op gives {ty}", node.ty);
    Ok(())
}

fn verify_input(graph: &Graph, index: usize, input: &Input) -> Result<()> {
    let op = graph.nodes().get(input.value.index()).map(|n| &n.op);
    let ok = matches!(op, Some(Op::Input { index: i }) if *i == index);
    ensure!(ok, "input {index} of @{}, `{}`, has no node of its own", graph.name, input.name);
    Ok(())
}

fn verify_output(graph: &Graph, output: &Output, written: &mut [bool]) -> Result<()> {
    let Some(node) = graph.nodes().get(output.value.index()) else {
        invalid!("output `{}` of @{} is {}, which is not computed", output.name, graph.name, output.value)
    };
    ensure!(node.ty.tensor().is_some(), "output `{}` of @{} is a tuple", output.name, graph.name);
    let OutputKind::Mutation(target) = output.kind else { return Ok(()) };
    let Some(input) = graph.inputs.get(target) else {
        invalid!("output `{}` mutates input {target}, which does not exist", output.name)
    };
    let before = graph.ty(input.value);
    ensure!(*before == node.ty, "output `{}` is {}, but the input it mutates is {before}", output.name, node.ty);
    ensure!(!std::mem::replace(&mut written[target], true), "two outputs mutate input {target}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::Builder;
    use crate::graph::InputKind;
    use crate::types::TensorType;
    use crate::{DType, LocId, Unary};

    fn relu() -> Graph {
        let b = Builder::new("g");
        let x = b.input("x", InputKind::User, TensorType::new(DType::F32, [2]));
        let y = b.unary(Unary::Tanh, x).unwrap();
        b.output("y", OutputKind::Mutation(0), y);
        b.finish()
    }

    fn complaint(change: impl FnOnce(&mut Graph)) -> String {
        let mut g = relu();
        verify(&g).unwrap();
        change(&mut g);
        verify(&g).unwrap_err().message().to_owned()
    }

    fn tanh(operand: usize, ty: TensorType) -> Node {
        let operands = [ValueId::new(operand)].into_iter().collect();
        Node { op: Op::Unary(Unary::Tanh), operands, bodies: vec![], ty: ty.into(), loc: LocId::UNKNOWN }
    }

    #[test]
    fn operands_come_first() {
        let said = complaint(|g| {
            g.push(tanh(2, TensorType::new(DType::F32, [2])));
        });
        assert_eq!(said, "%2 uses %2, which does not stand before it");
    }

    #[test]
    fn types_are_inferred_again() {
        let said = complaint(|g| {
            g.push(tanh(1, TensorType::new(DType::F32, [3])));
        });
        assert_eq!(said, "%2 is declared f32[3], but the op gives f32[2]");
    }

    #[test]
    fn inputs_and_outputs_agree_with_nodes() {
        assert_eq!(complaint(|g| g.inputs.clear()), "%0 is not input 0 of @g");
        let second = |g: &mut Graph| g.inputs.push(g.inputs[0].clone());
        assert_eq!(complaint(second), "input 1 of @g, `x`, has no node of its own");
        let lost = |g: &mut Graph| g.outputs[0].value = ValueId::new(9);
        assert_eq!(complaint(lost), "output `y` of @g is %9, which is not computed");
        let stray = |g: &mut Graph| g.outputs[0].kind = OutputKind::Mutation(4);
        assert_eq!(complaint(stray), "output `y` mutates input 4, which does not exist");
        let twice = |g: &mut Graph| g.outputs.push(g.outputs[0].clone());
        assert_eq!(complaint(twice), "two outputs mutate input 0");
    }
}
