//! Gradients of max pooling by a selection from its input, for a TPU.
//!
//! PyTorch's gradient is scattered to the positions that the forward pass found. A TPU's compiler sorts those first, and then adds
//! element by element; of windows it selects the greatest again, several vectors at once, which is what JAX asks it for. Positions
//! are then needed by nobody ([`super::unread_positions`]).
//!
//! Of 8x64x112x112 `f32` by 3x3 at stride 2, forward and backward, v5e, as libtpu 0.0.51 compiles it: 836 MFLOP and 252 MiB with
//! positions, among them a sort of 1.6 million numbers; 27 MFLOP and 109 MiB with a selection. It compiles in 1.5 s, not 10.4.

use super::rebuild::Rebuild;
use crate::{Change, Changes, Class, Head};
use ir::fold::{DEFAULT_LIMIT, fold};
use ir::op::Window;
use ir::{Builder, DType, Graph, InputKind, LocId, Node, Op, OutputKind, Reducer, Result, TensorType, ValueId};

/// Name, class and reason. Where windows overlap, gradients are added in another order.
pub(super) const TOLD: (&str, Class, &str) = (
    "pool-gradient-by-selection",
    Class::Reassociating,
    "a TPU sorts what it scatters, and finds the greatest of a window again at the speed of its memory",
);

/// Nodes from the indices of a scatter to the windows that found them.
const MOST_STEPS: usize = 8;

/// `graph`, as it is imported, with selections for scatters to the greatest elements of windows.
pub(super) fn selected(graph: &Graph, changes: &mut Changes, within: Option<LocId>) -> Result<Graph> {
    let mut to = Rebuild::of(graph);
    for node in graph.nodes() {
        let Some(pool) = scattered(graph, node).filter(|_| changes.allows(TOLD.1)) else {
            to.keep(node);
            continue;
        };
        let made = to.len();
        to.set_loc(node.loc);
        let (x, gradient) = (to.place(pool.x), to.place(node.operands[2]));
        let dtype = to.ty(gradient)?.dtype;
        let windows = graph.tensor_type(pool.positions).map(|t| t.shape.clone()).unwrap_or_default();
        let operands = [to.convert(x, dtype)?, to.reshape(gradient, windows)?];
        let sums = to.push(Op::SelectAndScatter { window: pool.window }, &operands)?;
        let planes = node.ty.tensor().map(|t| t.shape.clone()).unwrap_or_default();
        let value = to.reshape(sums, planes)?;
        let (locs, before) = (vec![within.unwrap_or(node.loc)], Head::of(&node.op));
        changes.push(Change { rule: TOLD.0, class: TOLD.1, locs, before, after: to.heads_from(made) });
        to.stand_for(value);
    }
    Ok(to.finish(graph))
}

/// Whether `node` may be what [`selected`] looks for.
pub(super) fn may_be(node: &Node) -> bool {
    matches!(&node.op, Op::Scatter(scatter) if *scatter == ir::ops::pool::sums_in_planes())
}

/// Windows over `x` whose greatest elements are at `positions` in their planes.
struct Pool {
    x: ValueId,
    window: Window,
    positions: ValueId,
}

/// The pool whose greatest elements `node` adds something to zeros at.
fn scattered(graph: &Graph, node: &Node) -> Option<Pool> {
    let (true, &[zeros, indices, gradient]) = (may_be(node), &node.operands[..]) else { return None };
    let float = matches!(graph.tensor_type(gradient)?.dtype, DType::F32 | DType::F64);
    if !float || !is_zero(graph, zeros) || !matches!(graph.node(indices).op, Op::Reshape { .. }) {
        return None;
    }
    let positions = graph.node(indices).operands[0];
    let (x, window) = windows(graph, positions)?;
    let (ty, plane) = (graph.tensor_type(x)?, graph.tensor_type(zeros)?.shape[1]);
    let still = window.dilation.iter().chain(&window.base_dilation).all(|&d| d == 1);
    if !still || ty.shape.contains(&0) || !ty.dtype.is_float() {
        return None;
    }
    let is_found = |n: usize| found(graph, positions, (x, ty), &window, n).unwrap_or(false);
    let of_plane = |n: &usize| ty.shape[ty.rank() - n..].iter().product::<usize>() == plane;
    (1..=ty.rank()).filter(of_plane).any(is_found).then_some(Pool { x, window, positions })
}

/// The windows that `positions` may have been found by, and what they look at.
fn windows(graph: &Graph, positions: ValueId) -> Option<(ValueId, Window)> {
    let mut v = positions;
    for _ in 0..MOST_STEPS {
        let node = graph.node(v);
        v = match &node.op {
            Op::ReduceWindow { reducer: Reducer::ArgMax, window } => return Some((node.operands[0], window.clone())),
            Op::Convert { .. } | Op::GetTupleElement { index: 1 } => node.operands[0],
            Op::Select => node.operands[2],
            _ => return None,
        };
    }
    None
}

/// Whether `positions` is what pooling finds in `x`, in planes of `n` dimensions.
fn found(
    graph: &Graph,
    positions: ValueId,
    (x, ty): (ValueId, &TensorType),
    window: &Window,
    n: usize,
) -> Result<bool> {
    let b = Builder::new("pool");
    let input = b.input("x", InputKind::User, ty.clone());
    let [_, found] = ir::ops::pool::found(&b, input, window.clone(), n)?;
    b.output("positions", OutputKind::User, found);
    // An imported program's constants are folded.
    let said = b.finish();
    let is_said = |pool: &Graph| pool.outputs.iter().all(|found| says(graph, positions, pool, found.value, x));
    Ok(is_said(&said) || is_said(&fold(&said, DEFAULT_LIMIT)?))
}

/// Whether `v` says what `wanted` says in `of`, whose input is `x`.
fn says(graph: &Graph, v: ValueId, of: &Graph, wanted: ValueId, x: ValueId) -> bool {
    let (node, wanted) = (graph.node(v), of.node(wanted));
    if matches!(wanted.op, Op::Input { .. }) {
        return v == x;
    }
    let alike = node.op == wanted.op && node.operands.len() == wanted.operands.len();
    alike && node.operands.iter().zip(&wanted.operands).all(|(&v, &wanted)| says(graph, v, of, wanted, x))
}

/// Whether every element of `v` is zero.
fn is_zero(graph: &Graph, v: ValueId) -> bool {
    let node = graph.node(v);
    match &node.op {
        Op::BroadcastInDim { .. } => is_zero(graph, node.operands[0]),
        Op::Constant(literal) => literal.float() == Some(0.0),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Platform;
    use crate::formulate::testing::{Random, formulated_for};
    use crate::rules::tests::same;
    use ir::eval;

    /// A pool of `x`, and its gradient at the positions that a pool of `x`, or of something else, finds.
    fn pool(r: &mut Random, dtype: DType, of_another: bool) -> Graph {
        let (n, rank) = (r.within(1, 3), 4);
        let shape: Vec<usize> = (0..rank).map(|_| r.within(2, 6)).collect();
        let mut window = Window::trivial(rank);
        for (d, extent) in shape.iter().enumerate().skip(rank - n) {
            window.size[d] = r.within(1, (*extent).min(3));
            window.strides[d] = r.within(1, 3);
            window.padding[d] = (r.below(window.size[d].div_ceil(2)) as i64, r.below(window.size[d]) as i64);
        }
        let b = Builder::new("pool");
        let x = b.input("x", InputKind::User, TensorType::new(dtype, shape.iter().copied()));
        let [values, positions] = ir::ops::pool::found(&b, x, window.clone(), n).unwrap();
        b.output("y", OutputKind::User, values);
        let other = b.multiply(x, x).unwrap();
        let positions = if of_another { ir::ops::pool::found(&b, other, window, n).unwrap()[1] } else { positions };
        let gradient = b.input("g", InputKind::User, TensorType::new(dtype, b.shape(values)));
        b.output("gx", OutputKind::User, ir::ops::pool::scatter_planes(&b, gradient, positions, &shape, n).unwrap());
        if of_another {
            b.output("x2", OutputKind::User, other);
        }
        b.finish()
    }

    #[test]
    fn random_pools_mean_the_same() {
        let mut r = Random(5);
        for case in 0..200 {
            let dtype = r.one_of(&[DType::F32, DType::BF16, DType::F16]);
            let before = pool(&mut r, dtype, case % 2 == 1);
            let before = if case % 3 == 0 { before } else { fold(&before, DEFAULT_LIMIT).unwrap() };
            let (after, changes) = formulated_for(Platform::Tpu, &before, Class::Reassociating, None);
            let scatters = after.nodes().iter().filter(|n| matches!(n.op, Op::Scatter(_))).count();
            let pairs = after.nodes().iter().filter(|n| n.ty.tensor().is_none()).count();
            assert_eq!((scatters, pairs), (0, 0), "{before:?}");
            assert!(changes.iter().any(|change| change.rule == TOLD.0));
            let inputs = r.inputs(&before, case % 4 > 1);
            let (wanted, given) = (eval(&before, &inputs).unwrap(), eval(&after, &inputs).unwrap());
            for (wanted, given) in wanted.iter().zip(&given) {
                let verdict = same(wanted, given, Class::Reassociating);
                assert!(verdict.is_ok(), "{verdict:?}: {before:?}");
            }
        }
    }

    #[test]
    fn other_positions_are_scattered_to() {
        let mut r = Random(7);
        type Positions<'a> = &'a dyn Fn(&Builder, [ValueId; 2], &Window) -> ValueId;
        let mut scatters = |positions: Positions<'_>, dilation: usize| {
            let b = Builder::new("pool");
            let x = b.input("x", InputKind::User, TensorType::new(DType::F32, [2, 3, 8, 8]));
            let mut window = Window::trivial(4);
            (window.size[3], window.strides[3], window.dilation[3]) = (2, 2, dilation);
            let [values, found] = ir::ops::pool::found(&b, x, window.clone(), 2).unwrap();
            let positions = positions(&b, [x, found], &window);
            let sums = ir::ops::pool::scatter_planes(&b, values, positions, &[2, 3, 8, 8], 2).unwrap();
            b.output("gx", OutputKind::User, sums);
            let before = b.finish();
            let (after, _) = formulated_for(Platform::Tpu, &before, Class::Reassociating, None);
            let inputs = r.inputs(&before, false);
            let verdict = [&before, &after].map(|graph| eval(graph, &inputs).unwrap());
            assert!(same(&verdict[0][0], &verdict[1][0], Class::Reassociating).is_ok());
            after.nodes().iter().any(|n| matches!(n.op, Op::Scatter(_)))
        };
        assert!(!scatters(&|_, [_, found], _| found, 1), "the pool's own");
        assert!(scatters(&|_, [_, found], _| found, 2), "windows with gaps");
        let half = |b: &Builder, v| b.divide(v, b.full_like(v, ir::Number::Int(2)).unwrap()).unwrap();
        assert!(scatters(&|b, [_, found], _| half(b, found), 1), "computed of positions");
        assert!(scatters(&|b, [_, found], _| b.reverse(found, &[3]).unwrap(), 1), "out of order");
        let columns = |b: &Builder, [x, _]: [ValueId; 2], window: &Window| {
            let op = Op::ReduceWindow { reducer: Reducer::ArgMax, window: window.clone() };
            let both = b.push(op, &[x, b.iota(DType::I32, &b.shape(x), 3).unwrap()], vec![]).unwrap();
            b.convert(b.element(both, 1).unwrap(), DType::I64).unwrap()
        };
        assert!(scatters(&columns, 1), "other places of the same elements");
    }
}
