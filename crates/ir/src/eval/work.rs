//! What an evaluation takes, without running it.

use crate::graph::{Graph, Node, ValueId};
use crate::op::{Binary, Comparison, Op, Scan, Unary};
use crate::types::TensorType;

/// Nanoseconds, about, on a processor of the 2020s: measured with tensors of some thousand `f32`. That they are the same on every
/// host matters more than that they are right.
mod nanoseconds {
    pub(super) const NODE: u64 = 1000;
    pub(super) const MOVED: u64 = 3;
    pub(super) const COMPUTED: u64 = 12;
    pub(super) const FUNCTION: u64 = 40;
    pub(super) const PRODUCT: u64 = 2;
    pub(super) const DRAWN: u64 = 30;
    /// An element of a window, which is looked for by its position.
    pub(super) const SLID: u64 = 40;
    /// An element of a Fourier transform, and a part that it is made of.
    pub(super) const TURNED: u64 = 40;
    /// An element in each of the passes of sorting.
    pub(super) const ORDERED: u64 = 15;
    /// The start of a gather's or a scatter's window.
    pub(super) const BEGUN: u64 = 200;
}

/// About how many nanoseconds evaluating `graph` takes, from its types alone; `None` where these do not tell, as of loops that no
/// constant ends, or where there are ops that the evaluator is far too slow for, or knows less of the edges of than programs do:
/// functions of complex numbers at their cuts, the gamma function's relatives at poles.
pub fn work(graph: &Graph) -> Option<u64> {
    graph.nodes().iter().try_fold(0u64, |sum, node| {
        let operands = node.operands.iter().map(|&v| graph.tensor_type(v));
        Some(sum.saturating_add(of_node(node, &operands.collect::<Vec<_>>())?))
    })
}

fn of_node(node: &Node, operands: &[Option<&TensorType>]) -> Option<u64> {
    use nanoseconds::*;
    let results = node.ty.tensors();
    let first = results.first()?;
    let elements = |t: &TensorType| t.numel() as u64;
    let (made, read) =
        (results.iter().map(elements).sum::<u64>(), operands.iter().flatten().map(|t| elements(t)).sum::<u64>());
    let all = made.saturating_add(read);
    let operand = |i: usize| operands.get(i).copied().flatten();
    let product = |sizes: &[usize]| sizes.iter().fold(1u64, |product, &n| product.saturating_mul(n as u64));
    let work = match &node.op {
        Op::Input { .. } | Op::Constant(_) | Op::GetTupleElement { .. } | Op::OptimizationBarrier => 0,
        Op::Reshape { .. } | Op::BitcastConvert { .. } => 0,
        Op::BroadcastInDim { .. } | Op::Transpose { .. } | Op::Slice { .. } | Op::DynamicSlice { .. } => {
            MOVED.saturating_mul(all)
        }
        Op::DynamicUpdateSlice | Op::Concatenate { .. } | Op::Pad { .. } | Op::Reverse { .. } => {
            MOVED.saturating_mul(all)
        }
        Op::Unary(u) if first.dtype.is_complex() && *u != Unary::Negate => return None,
        Op::Unary(u) if !is_function(*u) => COMPUTED.saturating_mul(made),
        Op::Binary(b) if !matches!(b, Binary::Power | Binary::Atan2 | Binary::Zeta | Binary::NextAfter) => {
            COMPUTED.saturating_mul(made)
        }
        Op::Binary(_) if first.dtype.is_complex() => return None,
        Op::Unary(Unary::Digamma | Unary::Lgamma) | Op::Binary(Binary::Zeta) => return None,
        Op::Unary(_) | Op::Binary(_) => FUNCTION.saturating_mul(made),
        Op::Iota { .. } | Op::Compare(_) | Op::Select | Op::Convert { .. } => COMPUTED.saturating_mul(made),
        Op::Reduce { .. } => COMPUTED.saturating_mul(all),
        Op::RngBitGenerator { .. } => DRAWN.saturating_mul(made),
        Op::Sort { .. } => ORDERED.saturating_mul(read.saturating_mul(u64::from(read.max(2).ilog2()))),
        Op::Gather(g) => {
            BEGUN.saturating_mul(made / product(&g.slice_sizes).max(1)).saturating_add(MOVED.saturating_mul(all))
        }
        Op::Scatter(s) => {
            let updates = operand(2)?;
            let window: Vec<usize> = s.update_window_dims.iter().map(|&d| updates.shape[d]).collect();
            let begun = elements(updates) / product(&window).max(1);
            BEGUN.saturating_mul(begun).saturating_add(COMPUTED.saturating_mul(all))
        }
        Op::DotGeneral(d) => {
            let lhs = operand(0)?;
            let summed: Vec<usize> = d.lhs_contract.iter().map(|&i| lhs.shape[i]).collect();
            PRODUCT.saturating_mul(made.saturating_mul(product(&summed))).saturating_add(MOVED.saturating_mul(all))
        }
        Op::Convolution(c) => {
            let kernel = operand(1)?;
            let features = kernel.shape[c.kernel_output_feature].max(1) as u64;
            SLID.saturating_mul(elements(first).saturating_mul(elements(kernel) / features))
        }
        Op::ReduceWindow { reducer, window } if Scan::of(*reducer, window, &operand(0)?.shape).is_some() => {
            COMPUTED.saturating_mul(all)
        }
        Op::ReduceWindow { window, .. } => {
            // A window reaches no further than the operand.
            let extents = operand(0)?.shape.iter().zip(&window.size).map(|(&n, &size)| n.min(size));
            SLID.saturating_mul(elements(first).saturating_mul(product(&extents.collect::<Vec<_>>())))
        }
        Op::SelectAndScatter { window } => {
            SLID.saturating_mul(elements(operand(1)?).saturating_mul(product(&window.size)))
        }
        Op::Fft { lengths, .. } => {
            let parts: u64 = lengths.iter().map(|&n| sum_of_primes(n)).sum();
            TURNED.saturating_mul(made.max(read).saturating_mul(parts))
        }
        Op::If => node.bodies.iter().map(|body| work(body)).collect::<Option<Vec<u64>>>()?.into_iter().max()?,
        Op::While => {
            let [condition, body] = &node.bodies[..] else { return None };
            let round = work(condition)?.saturating_add(work(body)?);
            rounds(condition, body)?.saturating_mul(round)
        }
        _ => return None,
    };
    Some(work.saturating_add(NODE))
}

/// Of the factors of `n`.
fn sum_of_primes(n: usize) -> u64 {
    let (mut rest, mut sum, mut p) = (n, 0, 2);
    while p * p <= rest {
        if rest.is_multiple_of(p) {
            (rest, sum) = (rest / p, sum + p as u64);
        } else {
            p += 1;
        }
    }
    sum + rest as u64
}

/// Rounds at most of a loop that its first value counts from 0.
fn rounds(condition: &Graph, body: &Graph) -> Option<u64> {
    let is_counter = |graph: &Graph, v| matches!(graph.node(v).op, Op::Input { index: 0 });
    let next = body.node(body.outputs.first()?.value);
    let [counter, step] = next.operands[..] else { return None };
    let counts = next.op == Op::Binary(Binary::Add) && is_counter(body, counter) && integer(body, step)? == 1;
    let limit = |node: &Node| match (&node.op, &node.operands[..]) {
        (Op::Compare(Comparison::Lt), &[counter, limit]) if is_counter(condition, counter) => integer(condition, limit),
        _ => None,
    };
    let most = condition.nodes().iter().filter_map(limit).min()?;
    if counts { u64::try_from(most).ok() } else { None }
}

fn integer(graph: &Graph, v: ValueId) -> Option<i64> {
    if let Op::Constant(number) = &graph.node(v).op { number.integer() } else { None }
}

/// Whether it is computed by a routine of the mathematical library rather than by the processor.
fn is_function(u: Unary) -> bool {
    use Unary::*;
    !matches!(
        u,
        Abs | Ceil
            | CountLeadingZeros
            | Floor
            | Imag
            | IsFinite
            | Negate
            | Not
            | Popcnt
            | Real
            | RoundNearestEven
            | Sign
            | Sqrt
    )
}
