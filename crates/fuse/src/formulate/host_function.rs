//! Functions that XLA's CPU calls for each element, left to the host, which computes them in vectors.
//!
//! 512x512, compiled, on 2 cores of a Zen 4, in us: XLA, the host, and eager PyTorch.
//!
//! |             | f32: XLA | host | eager | f64: XLA | host | eager |
//! |-------------|---------:|-----:|------:|---------:|-----:|------:|
//! | sine        | 1364     | 129  | 217   | 1362     | 342  | 446   |
//! | acos        | 2809     | 209  | 271   | 2484     | 465  | 684   |
//! | atan2       | 3268     | 297  | 241   | 2695     | 571  | 510   |
//! | log(1 + x)  | 633      | 190  | 118   | 671      | 480  | 284   |
//! | power 1.7   | 1197     | 431  | 387   | 1526     | 832  | 767   |
//! | remainder   | 2045     | 216  | 230   | 1997     | 368  | 400   |
//! | lgamma      | 1644     | 1039 | 886   | 3780     | 2807 | 2301  |
//!
//! 4,096 elements take as long either way where one function is the whole program, 20 us, and `sin(30x + 1) * x + cos(x)` 14 to 20
//! instead of 30 to 35.

use super::rebuild::Rebuild;
use crate::measure::numel;
use crate::{Change, Changes, Class, Head};
use ir::{Binary, DType, Graph, LocId, Node, Op, Result, Unary, ValueId};

/// Name, class and reason.
pub(super) const TOLD: (&str, Class, &str) =
    ("function-by-the-host", Class::Exact, "XLA's CPU calls sines, remainders and their like for each element");

/// Elements from which it is worth a call, and loops of their own for what comes before and after.
const FEWEST: u64 = 1 << 12;

/// `graph`, for a platform where the host takes calls, with the functions that it is faster at left to it.
pub(super) fn left_to_the_host(graph: &Graph, changes: &mut Changes, within: Option<LocId>) -> Result<Graph> {
    let mut to = Rebuild::of(graph);
    for node in graph.nodes() {
        let Some(op) = hosted(graph, node).filter(|_| changes.allows(TOLD.1)) else {
            to.keep(node);
            continue;
        };
        to.set_loc(node.loc);
        let start = to.len();
        let operands = operands(&to, node).into_iter().map(|v| to.convert(v, op.computes_in));
        let operands = operands.collect::<Result<Vec<ValueId>>>()?;
        let computed = to.push(op.call, &operands)?;
        let value = to.convert(computed, op.gives)?;
        let (locs, after) = (vec![within.unwrap_or(node.loc)], to.heads_from(start));
        changes.push(Change { rule: TOLD.0, class: TOLD.1, locs, before: Head::of(&node.op), after });
        to.stand_for(value);
    }
    Ok(to.finish(graph))
}

/// The operands of `node`, of two the one that is filled with a number as that number.
fn operands(to: &Rebuild, node: &Node) -> Vec<ValueId> {
    let mut operands: Vec<ValueId> = node.operands.iter().map(|&v| to.place(v)).collect();
    let number = |v: ValueId| to.as_broadcast(v).filter(|(_, dims)| dims.is_empty()).map(|(number, _)| number);
    if let [first, second] = &mut operands[..] {
        match (number(*first), number(*second)) {
            (_, Some(number)) => *second = number,
            (Some(number), None) => *first = number,
            (None, None) => {}
        }
    }
    operands
}

/// A call of the host.
struct Hosted {
    call: Op,
    computes_in: DType,
    gives: DType,
}

/// What becomes of `node`, if the host is faster at it.
fn hosted(graph: &Graph, node: &Node) -> Option<Hosted> {
    let gives = node.ty.tensor()?.dtype;
    let computes_in = match gives {
        DType::F32 | DType::F64 => gives,
        // As XLA does.
        DType::BF16 | DType::F16 => DType::F32,
        _ => return None,
    };
    let call = match node.op {
        // XLA has vectors for this one.
        Op::Unary(Unary::Erf) if computes_in == DType::F32 => return None,
        Op::Unary(u) if u.hosted().is_some() => Op::HostUnary(u),
        Op::Binary(b) if b.hosted().is_some() => Op::HostBinary(b),
        _ => return None,
    };
    let numbers: Vec<Option<f64>> = node.operands.iter().map(|&v| number(graph, v)).collect();
    let is_known = match (&node.op, &numbers[..]) {
        // What XLA takes for products and roots, and the powers of a number, which it computes as fast.
        (Op::Binary(Binary::Power), [base, exponent]) => {
            base.is_some() || exponent.is_some_and(|e| (2.0 * e).fract() == 0.0)
        }
        _ => numbers.iter().all(Option::is_some),
    };
    (!is_known && numel(&node.ty) >= FEWEST).then_some(Hosted { call, computes_in, gives })
}

/// The number that `value` is filled with.
fn number(graph: &Graph, mut value: ValueId) -> Option<f64> {
    loop {
        let node = graph.node(value);
        match &node.op {
            Op::Constant(literal) => return literal.float(),
            Op::BroadcastInDim { .. } | Op::Reshape { .. } | Op::Convert { .. } => value = *node.operands.first()?,
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Platform;
    use crate::formulate::testing::{Random, formulated_for};
    use ir::{Builder, InputKind, Number, OutputKind, TensorType, eval};

    /// A graph of `op` on inputs of `dtype`, and one with a number for its last operand.
    fn graph(op: &Op, dtype: DType, elements: usize, last: Option<f64>) -> Graph {
        let b = Builder::new("function");
        let ty = TensorType::new(dtype, [2, elements / 2]);
        let mut operands = vec![b.input("x", InputKind::User, ty.clone())];
        if matches!(op, Op::Binary(_)) {
            operands.push(match last {
                Some(number) => b.full(Number::Float(number), dtype, &ty.shape).unwrap(),
                None => b.input("y", InputKind::User, ty),
            });
        }
        let value = b.push(op.clone(), &operands, vec![]).unwrap();
        b.output("value", OutputKind::User, value);
        b.finish()
    }

    fn asks(platform: Platform, graph: &Graph) -> bool {
        let (after, changes) = formulated_for(platform, graph, Class::Exact, None);
        let calls = after.nodes().iter().any(|node| matches!(node.op, Op::HostUnary(_) | Op::HostBinary(_)));
        assert_eq!(changes.iter().any(|change| change.rule == TOLD.0), calls);
        calls
    }

    #[test]
    fn large_functions_are_the_hosts_and_mean_the_same() {
        let mut random = Random(5);
        let ops = [Unary::Sine, Unary::Acos, Unary::LogPlusOne, Unary::Lgamma].map(Op::Unary);
        let ops = ops.into_iter().chain([Binary::Atan2, Binary::Power, Binary::Remainder].map(Op::Binary));
        for op in ops {
            for dtype in [DType::F32, DType::F64, DType::BF16, DType::F16] {
                let before = graph(&op, dtype, 4096, None);
                let (after, _) = formulated_for(Platform::CpuWithBlas, &before, Class::Exact, None);
                let inputs = random.inputs(&before, true);
                let (expected, given) = (eval(&before, &inputs).unwrap(), eval(&after, &inputs).unwrap());
                assert!(expected[0].bytes == given[0].bytes, "{op:?} of {dtype:?}");
                assert!(asks(Platform::CpuWithBlas, &before), "{op:?} of {dtype:?}");
                assert!(!asks(Platform::Cpu, &before) && !asks(Platform::Tpu, &before), "{op:?} of {dtype:?}");
                assert!(!asks(Platform::CpuWithBlas, &graph(&op, dtype, 4094, None)), "few {op:?} of {dtype:?}");
            }
        }
        assert!(!asks(Platform::CpuWithBlas, &graph(&Op::Unary(Unary::Erf), DType::F32, 4096, None)));
        assert!(asks(Platform::CpuWithBlas, &graph(&Op::Unary(Unary::Erf), DType::F64, 4096, None)));
    }

    #[test]
    fn powers_that_xla_multiplies_stay_its_own() {
        let power = Op::Binary(Binary::Power);
        for (exponent, asked) in [(2.0, false), (0.5, false), (-1.0, false), (1.7, true), (f64::NAN, true)] {
            let graph = graph(&power, DType::F32, 4096, Some(exponent));
            assert_eq!(asks(Platform::CpuWithBlas, &graph), asked, "{exponent}");
        }
        let atan = graph(&Op::Binary(Binary::Atan2), DType::F32, 4096, Some(1.0));
        let (after, _) = formulated_for(Platform::CpuWithBlas, &atan, Class::Exact, None);
        let call = after.nodes().iter().find(|node| matches!(node.op, Op::HostBinary(_))).unwrap();
        assert_eq!(after.tensor_type(call.operands[1]).unwrap().rank(), 0, "a number for all");
        let inputs = Random(7).inputs(&atan, true);
        assert!(eval(&atan, &inputs).unwrap()[0].bytes == eval(&after, &inputs).unwrap()[0].bytes);
    }
}
