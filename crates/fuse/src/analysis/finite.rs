//! Which floats are numbers, in exact arithmetic on finite numbers: what rules that may reassociate take for granted.

use super::{EGraph, attributes};
use crate::language::{Head, Kind, Node};
use ir::op::{Binary, Reducer, Unary};
use ir::{DType, Literal, Number, Op, Type};

/// Whether every element that `node` computes is a number if all operands of products are. An input may hold infinities:
/// masks do. Narrow floats overflow early, so nothing is said of `f16`.
pub(super) fn of(egraph: &EGraph, node: &Node, ty: &Type, splat: Option<&Literal>) -> bool {
    let Some(ty) = ty.tensor() else { return false };
    if !ty.dtype.is_float() {
        return !ty.dtype.is_complex();
    }
    if let Some(element) = splat {
        return is_finite(element);
    }
    ty.dtype != DType::F16 && computed(egraph, node)
}

fn is_finite(element: &Literal) -> bool {
    super::computed(&Op::Unary(Unary::IsFinite), &[element]).is_some_and(|bit| bit.bytes[..] != [0])
}

fn computed(egraph: &EGraph, node: &Node) -> bool {
    let all = || node.operands().iter().all(|&id| egraph[id].data.finite);
    match node.head {
        Head::Unary(Unary::Abs | Unary::Negate | Unary::Tanh | Unary::Logistic | Unary::Erf) => all(),
        Head::Binary(Binary::Add | Binary::Subtract | Binary::Multiply | Binary::Maximum | Binary::Minimum) => all(),
        Head::Binary(Binary::Divide) => all() && divisor_is_not_zero(egraph, node),
        Head::Select | Head::DynamicUpdateSlice => all(),
        Head::With(Kind::DotGeneral | Kind::Convolution) => true,
        Head::With(Kind::Convert | Kind::BroadcastInDim | Kind::Reshape | Kind::Transpose) => all(),
        Head::With(Kind::Slice | Kind::Reverse | Kind::Concatenate) => all(),
        Head::With(Kind::Reduce) => all() && reduces_some(egraph, node),
        _ => false,
    }
}

fn divisor_is_not_zero(egraph: &EGraph, node: &Node) -> bool {
    let divisor = egraph[node.children[1]].data.splat.as_ref();
    divisor.is_some_and(|d| [0.0, -0.0].iter().all(|&zero| !super::is_number(d, Number::Float(zero))))
}

/// The greatest of no elements is minus infinity.
fn reduces_some(egraph: &EGraph, node: &Node) -> bool {
    let op = node.children.last().and_then(|&id| attributes(egraph, id));
    let (Some((op, _)), Some(from)) = (op, egraph[node.children[0]].data.ty.tensor()) else { return false };
    match &**op {
        Op::Reduce { reducer: Reducer::Add, .. } => true,
        Op::Reduce { reducer: Reducer::Maximum | Reducer::Minimum, dims } => dims.iter().all(|&d| from.shape[d] > 0),
        _ => false,
    }
}
