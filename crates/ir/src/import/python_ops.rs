//! Python's arithmetic on symbolic numbers, by the names that traces give it.

use crate::symbol::{Expr, Func};

/// The function behind a target that is no tensor op.
pub(super) fn find(target: &str) -> Option<PythonOp> {
    OPS.iter().find(|(name, _)| *name == target).map(|(_, op)| *op)
}

/// How operands become an expression.
#[derive(Clone, Copy)]
pub(super) enum PythonOp {
    Call(Func),
    Negate,
    Subtract,
    Positive,
    /// To an integer, or to so many decimals.
    Round,
}

impl PythonOp {
    pub(super) fn apply(self, mut args: Vec<Expr>) -> Expr {
        match self {
            PythonOp::Call(func) => Expr::Call(func, args),
            PythonOp::Positive => Expr::Call(Func::Identity, args),
            PythonOp::Round => Expr::Call(if args.len() > 1 { Func::RoundDecimal } else { Func::RoundToInt }, args),
            PythonOp::Negate => {
                args.insert(0, Expr::int(-1));
                Expr::Call(Func::Mul, args)
            }
            PythonOp::Subtract => {
                let last = args.pop().map(|b| Expr::Call(Func::Mul, vec![Expr::int(-1), b]));
                args.extend(last);
                Expr::Call(Func::Add, args)
            }
        }
    }
}

const OPS: &[(&str, PythonOp)] = &[
    ("_operator.add", PythonOp::Call(Func::Add)),
    ("_operator.sub", PythonOp::Subtract),
    ("_operator.mul", PythonOp::Call(Func::Mul)),
    ("_operator.truediv", PythonOp::Call(Func::IntTrueDiv)),
    ("_operator.floordiv", PythonOp::Call(Func::FloorDiv)),
    ("_operator.mod", PythonOp::Call(Func::PythonMod)),
    ("_operator.pow", PythonOp::Call(Func::Pow)),
    ("_operator.neg", PythonOp::Negate),
    ("_operator.pos", PythonOp::Positive),
    ("_operator.eq", PythonOp::Call(Func::Equality)),
    ("_operator.ne", PythonOp::Call(Func::Unequality)),
    ("_operator.le", PythonOp::Call(Func::LessThan)),
    ("_operator.ge", PythonOp::Call(Func::GreaterThan)),
    ("_operator.lt", PythonOp::Call(Func::StrictLessThan)),
    ("_operator.gt", PythonOp::Call(Func::StrictGreaterThan)),
    ("_operator.and_", PythonOp::Call(Func::BitAnd)),
    ("_operator.or_", PythonOp::Call(Func::BitOr)),
    ("_operator.xor", PythonOp::Call(Func::BitXor)),
    ("_operator.abs", PythonOp::Call(Func::Abs)),
    ("builtins.abs", PythonOp::Call(Func::Abs)),
    ("builtins.round", PythonOp::Round),
    ("_operator.lshift", PythonOp::Call(Func::LShift)),
    ("_operator.rshift", PythonOp::Call(Func::RShift)),
    ("math.trunc", PythonOp::Call(Func::TruncToInt)),
    ("math.floor", PythonOp::Call(Func::FloorToInt)),
    ("math.ceil", PythonOp::Call(Func::CeilToInt)),
    ("math.sqrt", PythonOp::Call(Func::Sqrt)),
    ("math.exp", PythonOp::Call(Func::Exp)),
    ("math.log", PythonOp::Call(Func::Log)),
    ("math.log2", PythonOp::Call(Func::Log2)),
    ("math.sin", PythonOp::Call(Func::Sin)),
    ("math.cos", PythonOp::Call(Func::Cos)),
    ("math.tan", PythonOp::Call(Func::Tan)),
    ("math.sinh", PythonOp::Call(Func::Sinh)),
    ("math.cosh", PythonOp::Call(Func::Cosh)),
    ("math.tanh", PythonOp::Call(Func::Tanh)),
    ("math.asin", PythonOp::Call(Func::Asin)),
    ("math.acos", PythonOp::Call(Func::Acos)),
    ("math.atan", PythonOp::Call(Func::Atan)),
    ("math.asinh", PythonOp::Call(Func::Asinh)),
    ("torch.sym_int", PythonOp::Call(Func::TruncToInt)),
    ("torch.sym_float", PythonOp::Call(Func::ToFloat)),
    ("torch.sym_not", PythonOp::Call(Func::Not)),
    ("torch.sym_max", PythonOp::Call(Func::Max)),
    ("torch.sym_min", PythonOp::Call(Func::Min)),
    ("torch.sym_sum", PythonOp::Call(Func::Add)),
    ("torch.sym_ite", PythonOp::Call(Func::Where)),
    ("torch.sym_sqrt", PythonOp::Call(Func::Sqrt)),
    ("torch._sym_sqrt", PythonOp::Call(Func::Sqrt)),
    ("torch._sym_exp", PythonOp::Call(Func::Exp)),
    ("torch._sym_log", PythonOp::Call(Func::Log)),
    ("torch._sym_log2", PythonOp::Call(Func::Log2)),
    ("torch._sym_sin", PythonOp::Call(Func::Sin)),
    ("torch._sym_cos", PythonOp::Call(Func::Cos)),
    ("torch._sym_tan", PythonOp::Call(Func::Tan)),
    ("torch._sym_sinh", PythonOp::Call(Func::Sinh)),
    ("torch._sym_cosh", PythonOp::Call(Func::Cosh)),
    ("torch._sym_tanh", PythonOp::Call(Func::Tanh)),
    ("torch._sym_asin", PythonOp::Call(Func::Asin)),
    ("torch._sym_acos", PythonOp::Call(Func::Acos)),
    ("torch._sym_atan", PythonOp::Call(Func::Atan)),
    ("torch._sym_asinh", PythonOp::Call(Func::Asinh)),
];

#[cfg(test)]
mod tests {
    use super::find;
    use crate::Number;
    use crate::symbol::Expr;

    #[test]
    fn integers_are_combined_bit_by_bit() {
        for (op, want) in [("_operator.and_", 4), ("_operator.or_", 14), ("_operator.xor", 10)] {
            let made = find(op).map(|op| op.apply(vec![Expr::int(6), Expr::int(12)]));
            let value = made.map(|made| made.evaluate(&|_| None).ok());
            assert_eq!(value, Some(Some(Number::Int(want))), "{op}");
        }
    }
}
