//! Convolutions with features last, and everything between them in that order.
//!
//! XLA's CPU computes convolutions with features last (`[b, 0, 1, f]`) and transposes the operands and the result of all others,
//! each time. Kernels may stay as they are: out, in, space costs no more than space, in, out.
//!
//! | f32, ms                             | features second | features last |
//! |-------------------------------------|-----------------|---------------|
//! | 3x3 on 8x64x56x56                    | 26              | 17            |
//! | 1x1 on 8x256x56x56 to 64             | 31              | 11            |
//! | 1x1 by stride 2 on 8x256x56x56 to 512 | 51              | 16            |
//! | 7x7 by stride 2 on 8x3x224x224 to 64  | 103             | 27            |
//! | 1x1, the input's gradient            | 97              | 10            |
//! | 3x3 by stride 2, the input's gradient | 55              | 40            |
//!
//! The gradient of a kernel takes its operands as they come.
//!
//! One walk forward: a convolution asks for its input with features last and gives its result so; what follows is
//! computed in the order in which its operands are held, as far as the op can be ([`carry`]); the rest, and the outputs, gets
//! a transpose back, once a value ([`forms`]). The result is taken if its transposes move fewer bytes, those that XLA
//! puts around convolutions counted in. In processor time, with depthwise convolutions as products in both: mobilenet_v3 took 110 ms
//! before and 61 ms after, its forward in training, all of whose activations are outputs, 232 and 145 ms. XLA itself
//! keeps resnet50's convolutions together at inference (324 and 312 ms).

mod carry;
mod forms;

use self::forms::Forms;
use crate::measure::uses;
use crate::{Change, Changes, Class, Head};
use ir::op::Convolution;
use ir::{Dims, Graph, LocId, Node, Op, Result, TensorType};

/// Name, class and reason.
pub(super) const TOLD: (&str, Class, &str) =
    ("features-last", Class::Exact, "XLA's CPU transposes the operands and results of other convolutions, each time");

/// `graph`, laid out as the [module](self) says.
pub(super) fn layout(graph: &Graph, changes: &mut Changes, within: Option<LocId>) -> Result<Graph> {
    let mut chosen: Vec<bool> = graph.nodes().iter().map(|n| asks(n).is_some()).collect();
    if !chosen.contains(&true) || !changes.allows(Class::Exact) {
        return Ok(graph.clone());
    }
    let whole = laid_out(graph, &chosen)?;
    if bytes_moved(&whole) >= bytes_moved(graph) {
        return Ok(graph.clone());
    }
    let mut cut = false;
    for (node, chosen) in graph.nodes().iter().zip(&mut chosen).filter(|(_, chosen)| **chosen) {
        *chosen = changes.allows(Class::Exact);
        cut |= !*chosen;
        if *chosen {
            let (locs, convolution) = (vec![within.unwrap_or(node.loc)], Head::of(&node.op));
            changes.push(Change { rule: TOLD.0, class: TOLD.1, locs, before: convolution, after: vec![convolution] });
        }
    }
    if cut { laid_out(graph, &chosen) } else { Ok(whole) }
}

/// The attributes of a convolution that wants its features last and does not have them there: one whose batch comes first. The
/// gradient of a kernel runs over the batch as over features, and stays.
fn asks(node: &Node) -> Option<&Convolution> {
    let Op::Convolution(c) = &node.op else { return None };
    if c.host {
        return None;
    }
    let last = |batch: usize, feature: usize| batch == 0 && feature == c.input_spatial.len() + 1;
    let done = last(c.input_batch, c.input_feature) && last(c.output_batch, c.output_feature);
    (c.input_batch == 0 && c.output_batch == 0 && !done && !c.input_spatial.is_empty()).then_some(c)
}

fn laid_out(graph: &Graph, chosen: &[bool]) -> Result<Graph> {
    let mut forms = Forms::new(graph);
    for (node, &chosen) in graph.nodes().iter().zip(chosen) {
        let made = carry::node(&mut forms, node, chosen)?;
        forms.push(made);
    }
    forms.finish()
}

/// Bytes that transposes move: those in the graph, and those that XLA puts around convolutions. XLA fuses a transpose into
/// each of its uses, which then reads far apart, so each use counts.
fn bytes_moved(graph: &Graph) -> usize {
    let uses = uses(graph);
    let size = |t: Option<&TensorType>| t.map_or(0, TensorType::size_in_bytes);
    let cost = |(node, &uses): (&Node, &usize)| match (&node.op, node.operands.first()) {
        (Op::Transpose { permutation }, Some(&a)) if moves(permutation, graph.tensor_type(a)) => {
            size(node.ty.tensor()).saturating_mul(uses)
        }
        (Op::Convolution(_), Some(&a)) if asks(node).is_some() => {
            size(graph.tensor_type(a)).saturating_add(size(node.ty.tensor()).saturating_mul(uses))
        }
        _ => 0,
    };
    graph.nodes().iter().zip(&uses).map(cost).fold(0, usize::saturating_add)
}

/// Whether a transpose changes the order of elements: dimensions of extent 1 may go anywhere.
fn moves(permutation: &Dims, ty: Option<&TensorType>) -> bool {
    let Some(ty) = ty else { return false };
    let long: Dims = permutation.iter().copied().filter(|&d| ty.shape[d] != 1).collect();
    long.windows(2).any(|w| w[0] > w[1])
}
