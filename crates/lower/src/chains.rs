//! Chains of numbers that XLA would gather into one that is none.
//!
//! XLA takes `x * a * b` for `x * (a * b)`, and does so where `a * b` overflows or vanishes: 0 becomes NaN, and what was finite
//! infinite. There, what the first number made goes behind a barrier before it meets the second.

use ir::{Binary, DType, Graph, Node, Op, ValueId};

/// What a node does to an operand with a constant.
#[derive(Clone, Copy)]
enum Step {
    Times(f64),
    Plus(f64),
}

/// For each node of `graph` which operand of it is to be hidden, if one is.
pub(crate) fn hidden(graph: &Graph) -> Vec<Option<usize>> {
    let mut numbers: Vec<Option<f64>> = Vec::with_capacity(graph.nodes().len());
    let mut steps: Vec<Option<Step>> = Vec::with_capacity(graph.nodes().len());
    let mut hidden = Vec::with_capacity(graph.nodes().len());
    for node in graph.nodes() {
        numbers.push(number(node, &numbers));
        let Some((of, step)) = step(node, &numbers) else {
            hidden.push(None);
            steps.push(None);
            continue;
        };
        let both = gather(step, steps[node.operands[of].index()], dtype(node));
        hidden.push(both.is_none().then_some(of));
        steps.push(Some(both.unwrap_or(step)));
    }
    hidden
}

/// The number that a node is filled with.
fn number(node: &Node, numbers: &[Option<f64>]) -> Option<f64> {
    match &node.op {
        Op::Constant(literal) => literal.float(),
        Op::BroadcastInDim { .. } | Op::Reshape { .. } | Op::Convert { .. } => numbers[node.operands.first()?.index()],
        _ => None,
    }
}

/// The operand that a node does something to with a constant, and what.
fn step(node: &Node, numbers: &[Option<f64>]) -> Option<(usize, Step)> {
    let Op::Binary(op) = node.op else { return None };
    if !dtype(node).is_float() {
        return None;
    }
    let of = |v: ValueId| numbers[v.index()];
    let (left, right) = (of(node.operands[0]), of(node.operands[1]));
    match (op, left, right) {
        (Binary::Multiply, _, Some(n)) => Some((0, Step::Times(n))),
        (Binary::Multiply, Some(n), _) => Some((1, Step::Times(n))),
        (Binary::Divide, _, Some(n)) => Some((0, Step::Times(1.0 / n))),
        (Binary::Add, _, Some(n)) => Some((0, Step::Plus(n))),
        (Binary::Add, Some(n), _) => Some((1, Step::Plus(n))),
        (Binary::Subtract, _, Some(n)) => Some((0, Step::Plus(-n))),
        _ => None,
    }
}

/// `step` and the one `before` it as one; `None` if each is a number and both together are not.
fn gather(step: Step, before: Option<Step>, dtype: DType) -> Option<Step> {
    let (both, each_is) = match (step, before) {
        (Step::Times(a), Some(Step::Times(b))) => (Step::Times(a * b), dtype.is_normal(a) && dtype.is_normal(b)),
        (Step::Plus(a), Some(Step::Plus(b))) => (Step::Plus(a + b), a.is_finite() && b.is_finite()),
        _ => return Some(step),
    };
    let is = match both {
        Step::Times(n) => dtype.is_normal(n),
        Step::Plus(n) => n.abs() <= dtype.largest(),
    };
    (is || !each_is).then_some(both)
}

fn dtype(node: &Node) -> DType {
    node.ty.tensor().map_or(DType::Bool, |t| t.dtype)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ir::{Builder, InputKind, Literal, Number, OutputKind, TensorType};

    /// The steps whose operand is hidden where `x` meets `numbers` by `ops`, one after the other.
    fn hidden_in(dtype: DType, steps: &[(Binary, f64)]) -> Vec<usize> {
        let b = Builder::new("chain");
        let x = b.input("x", InputKind::User, TensorType::new(dtype, [3]));
        let y = steps.iter().fold(x, |x, &(op, n)| {
            let number = b.constant(Literal::splat(Number::Float(n), dtype, [])).expect("a number");
            let number = b.broadcast_in_dim(number, &[3], &[]).expect("fits");
            b.push(Op::Binary(op), &[x, number], vec![]).expect("alike")
        });
        b.output("y", OutputKind::User, y);
        let graph = b.finish();
        let hidden = hidden(&graph);
        let chained = hidden.iter().zip(graph.nodes()).filter(|(_, node)| matches!(node.op, Op::Binary(_)));
        chained.enumerate().filter(|(_, (of, _))| of.is_some()).map(|(i, _)| i).collect()
    }

    #[test]
    fn numbers_that_overflow_or_vanish_together_are_kept_apart() {
        use Binary::{Add, Divide, Multiply, Subtract};
        for (dtype, steps, wanted) in [
            (DType::F32, &[(Multiply, 1e20), (Multiply, 1e20)][..], &[1][..]),
            (DType::F32, &[(Multiply, 1e20), (Multiply, 1e10), (Multiply, 1e10), (Multiply, 1e10)], &[2]),
            (DType::F32, &[(Multiply, 1e-30), (Multiply, 1e-30)], &[1]),
            (DType::F32, &[(Divide, 1e-20), (Multiply, 1e20)], &[1]),
            (DType::F32, &[(Add, 3e38), (Add, 3e38)], &[1]),
            (DType::F32, &[(Subtract, 3e38), (Add, -3e38)], &[1]),
            (DType::F16, &[(Multiply, 1e3), (Multiply, 1e3)], &[1]),
            (DType::F64, &[(Multiply, 1e200), (Multiply, 1e200)], &[1]),
            (DType::F64, &[(Multiply, 1e20), (Multiply, 1e20)], &[]),
            (DType::F32, &[(Multiply, 3.0), (Divide, 7.0), (Add, 1.0), (Subtract, 2.0)], &[]),
            (DType::F32, &[(Multiply, 1e20), (Add, 1.0), (Multiply, 1e20)], &[]),
            (DType::F32, &[(Multiply, 0.0), (Multiply, 1e20)], &[]),
            (DType::F32, &[(Add, f64::NEG_INFINITY), (Add, 1.0)], &[]),
        ] {
            assert_eq!(hidden_in(dtype, steps), wanted, "{dtype:?} {steps:?}");
        }
    }
}
