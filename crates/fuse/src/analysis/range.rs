//! Bounds of integers: what narrower types hold, and which comparisons are decided.

use super::{EGraph, attributes};
use crate::language::{Head, Kind, Node};
use egg::Id;
use ir::op::{Binary, Comparison, Reducer, Unary};
use ir::{DType, Literal, Op, TensorType, Type};

/// Least and greatest value that an element may have.
pub(crate) type Range = (i128, i128);

/// The values of an integer type; `None` for floats.
pub(crate) fn range_of(dtype: DType) -> Option<Range> {
    if dtype == DType::Bool { Some((0, 1)) } else { dtype.int_range() }
}

/// What two descriptions of one value say together.
pub(super) fn both(a: Option<Range>, b: Option<Range>) -> Option<Range> {
    match (a, b) {
        (Some(a), Some(b)) => Some((a.0.max(b.0), a.1.min(b.1))),
        (known, None) | (None, known) => known,
    }
}

/// The bounds of what `node` computes, at least those of its type.
pub(super) fn of(egraph: &EGraph, node: &Node, ty: &Type, splat: Option<&Literal>) -> Option<Range> {
    let ty = ty.tensor()?;
    let all = range_of(ty.dtype)?;
    if let Some(value) = splat.and_then(|l| integers(l)?.first().copied()) {
        return Some((value, value));
    }
    // What might wrap may be anything.
    Some(computed(egraph, node, ty).filter(|r| r.0 >= all.0 && r.1 <= all.1).unwrap_or(all))
}

fn computed(egraph: &EGraph, node: &Node, ty: &TensorType) -> Option<Range> {
    let operand = |i: usize| egraph[*node.operands().get(i)?].data.range;
    let kind = match node.head {
        Head::Unary(u) => return unary(u, operand(0)?),
        Head::Binary(b) => return binary(b, operand(0)?, operand(1)?),
        Head::Select => return Some(hull(operand(1)?, operand(2)?)),
        Head::DynamicUpdateSlice => return Some(hull(operand(0)?, operand(1)?)),
        Head::With(kind) => kind,
        Head::Compare(_) | Head::Attributes(_) => return None,
    };
    match kind {
        Kind::BroadcastInDim | Kind::Reshape | Kind::Transpose | Kind::Slice | Kind::Reverse => operand(0),
        Kind::DynamicSlice | Kind::Gather => operand(0),
        Kind::Convert if ty.dtype != DType::Bool => operand(0),
        Kind::Pad => Some(hull(operand(0)?, operand(1)?)),
        Kind::Concatenate => {
            let parts: Option<Vec<Range>> = node.operands().iter().map(|&id: &Id| egraph[id].data.range).collect();
            parts?.into_iter().reduce(hull)
        }
        _ => match &*attributes(egraph, *node.children.last()?)?.0 {
            Op::Iota { shape, dim, .. } => Some((0, shape[*dim].saturating_sub(1) as i128)),
            Op::Constant(l) => {
                let values = integers(l)?;
                Some((*values.iter().min()?, *values.iter().max()?))
            }
            // The greatest of no elements is the type's least value.
            Op::Reduce { reducer: Reducer::Maximum | Reducer::Minimum, .. } => {
                let from = egraph[*node.operands().first()?].data.ty.tensor()?;
                if from.numel() == 0 { None } else { operand(0) }
            }
            _ => None,
        },
    }
}

fn hull(a: Range, b: Range) -> Range {
    (a.0.min(b.0), a.1.max(b.1))
}

fn unary(u: Unary, a: Range) -> Option<Range> {
    match u {
        Unary::Negate => Some((-a.1, -a.0)),
        Unary::Abs if a.0 >= 0 => Some(a),
        Unary::Abs => Some((0, a.1.max(-a.0))),
        Unary::Sign => Some((a.0.signum(), a.1.signum())),
        _ => None,
    }
}

fn binary(b: Binary, x: Range, y: Range) -> Option<Range> {
    match b {
        Binary::Add => Some((x.0 + y.0, x.1 + y.1)),
        Binary::Subtract => Some((x.0 - y.1, x.1 - y.0)),
        Binary::Multiply => {
            let corner = |p: i128, q: i128| p.checked_mul(q);
            let all = [corner(x.0, y.0)?, corner(x.0, y.1)?, corner(x.1, y.0)?, corner(x.1, y.1)?];
            Some((*all.iter().min()?, *all.iter().max()?))
        }
        Binary::Maximum => Some((x.0.max(y.0), x.1.max(y.1))),
        Binary::Minimum => Some((x.0.min(y.0), x.1.min(y.1))),
        // Of positive divisors the quotient is nearer to zero, and the remainder has the dividend's sign.
        Binary::Divide if y.0 > 0 => Some(((x.0 / y.0).min(x.0 / y.1), (x.1 / y.0).max(x.1 / y.1))),
        Binary::Remainder if y.0 > 0 => Some((x.0.clamp(1 - y.1, 0), x.1.clamp(0, y.1 - 1))),
        Binary::And if x.0 >= 0 && y.0 >= 0 => Some((0, x.1.min(y.1))),
        _ => None,
    }
}

/// Whether a comparison of elements within these bounds holds, if they decide it.
pub(crate) fn decides(c: Comparison, x: Range, y: Range) -> Option<bool> {
    let (less, no_greater) = (x.1 < y.0, x.1 <= y.0);
    let (greater, no_less) = (x.0 > y.1, x.0 >= y.1);
    let (holds, fails) = match c {
        Comparison::Eq => (no_greater && no_less, less || greater),
        Comparison::Ne => (less || greater, no_greater && no_less),
        Comparison::Lt => (less, no_less),
        Comparison::Le => (no_greater, greater),
        Comparison::Gt => (greater, no_greater),
        Comparison::Ge => (no_less, less),
    };
    (holds != fails).then_some(holds)
}

/// The elements of an integer or `bool` literal, of a splat one.
pub(crate) fn integers(l: &Literal) -> Option<Vec<i128>> {
    let (least, most) = range_of(l.ty.dtype)?;
    let value = |bytes: &[u8]| {
        let bits = bytes.iter().rev().fold(0i128, |n, &b| n << 8 | i128::from(b));
        if bits > most { bits - (most - least + 1) } else { bits }
    };
    Some(l.bytes.chunks_exact(l.ty.dtype.size()).map(value).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::encode;

    fn range(nodes: &[&str]) -> Option<Range> {
        let lines: Vec<String> = nodes.iter().enumerate().map(|(i, n)| format!("  %{i}: {n}\n")).collect();
        let last = nodes.len() - 1;
        let graph = ir::text::parse(&format!("graph @g {{\n{}  return %{last} \"y\"\n}}", lines.concat())).unwrap();
        let (egraph, ids) = encode(&graph, crate::change::Platform::Cpu);
        egraph[ids[last]].data.range
    }

    #[test]
    fn bounds_follow_arithmetic() {
        let x = r#"i64[4] = input 0 "x" user"#;
        assert_eq!(range(&[x]), range_of(DType::I64));
        assert_eq!(range(&["i64[3] = constant [4, -7, 2]"]), Some((-7, 4)));
        assert_eq!(
            range(&["i32[9] = iota(dtype:i32,shape:[9],dim:0)", "i64[9] = convert(dtype:i64) %0"]),
            Some((0, 8))
        );
        assert_eq!(range(&[x, "i64[4] = constant 6", "i64[4] = remainder %0, %1"]), Some((-5, 5)));
        assert_eq!(range(&[x, "i64[4] = constant 6", "i64[4] = minimum %0, %1"]).unwrap().1, 6);
        assert_eq!(range(&[x, "i64[4] = constant 1", "i64[4] = add %0, %1"]), range_of(DType::I64));
        let iota = "i64[9] = iota(dtype:i64,shape:[9],dim:0)";
        assert_eq!(range(&[iota, "i64[9] = constant -3", "i64[9] = multiply %0, %1"]), Some((-24, 0)));
        assert_eq!(range(&[iota, "i64[9] = constant 3", "i64[9] = divide %0, %1"]), Some((0, 2)));
        assert_eq!(range(&[iota, "i64[9] = negate %0"]), Some((-8, 0)));
    }
}
