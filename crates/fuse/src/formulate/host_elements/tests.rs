use super::*;
use crate::formulate::testing::{Random, assert_close, assert_same_bits, calls_of_rows, dot, formulated_for};
use crate::{Change, Platform, formulate};
use ir::{Builder, InputKind, Number, OutputKind, TensorType, Unary};

const WIDTH: usize = 32;

fn given(b: &Builder, shape: &[usize]) -> ValueId {
    let ty = TensorType::new(DType::F32, shape.iter().copied());
    b.input(format!("x{}", b.input_count()), InputKind::User, ty)
}

fn times_weight(b: &Builder, x: ValueId) -> ValueId {
    dot(b, x, given(b, &[WIDTH, WIDTH]), &[1], &[0])
}

/// `f(x + bias) * x`, with a number for each feature.
fn activated(b: &Builder, f: Unary, x: ValueId) -> ValueId {
    let bias = b.broadcast_in_dim(given(b, &[WIDTH]), &[WIDTH; 2], &[1]).unwrap();
    let half = b.full(Number::Float(0.5), DType::F32, &[WIDTH; 2]).unwrap();
    let shifted = b.add(x, bias).unwrap();
    b.multiply(b.multiply(b.unary(f, shifted).unwrap(), half).unwrap(), shifted).unwrap()
}

fn graph(build: impl FnOnce(&Builder) -> Vec<ValueId>) -> Graph {
    let b = Builder::new("elements");
    for (i, v) in build(&b).into_iter().enumerate() {
        b.output(format!("y{i}"), OutputKind::User, v);
    }
    b.finish()
}

/// What becomes of `graph`, whose values stay what they are but for rounding, and how many calls for elements are in it.
fn formulated(graph: &Graph) -> (Graph, usize) {
    let (after, changes) = formulated_for(Platform::CpuWithBlas, graph, Class::Reassociating, None);
    assert_close(graph, &after, &Random(1).inputs(graph, false));
    let is_ours = |change: &&Change| change.rule == TOLD.0;
    let calls = changes.iter().filter(is_ours).count();
    assert_eq!(calls_of_rows(&after).len(), calls);
    (after, calls)
}

fn elementwise(graph: &Graph) -> usize {
    graph.nodes().iter().filter(|node| crate::measure::is_elementwise(&node.op)).count()
}

#[test]
fn an_activation_between_products_is_one_call() {
    for f in [Unary::Erf, Unary::Tanh, Unary::Logistic, Unary::Exponential] {
        let graph = graph(|b| {
            let x = times_weight(b, given(b, &[WIDTH; 2]));
            vec![times_weight(b, activated(b, f, x))]
        });
        let (after, calls) = formulated(&graph);
        assert_eq!((calls, elementwise(&after)), (1, 0), "{}", ir::text::print(&after));
        let body = calls_of_rows(&after)[0];
        assert_eq!((body.inputs.len(), body.outputs.len()), (2, 1), "{}", ir::text::print(body));
        let (exact, _) = formulated_for(Platform::CpuWithBlas, &graph, Class::Exact, None);
        assert_eq!(calls_of_rows(&exact).len(), 0, "functions may not round otherwise");
        assert_same_bits(&graph, &exact, &Random(2).inputs(&graph, true));
        let alone = formulate::alone(&graph, Class::Reassociating, Platform::CpuWithBlas).unwrap();
        assert_eq!(calls_of_rows(&alone).len(), 0, "an eager op does not hang on those around it");
    }
}

#[test]
fn calls_do_not_wait_for_each_other() {
    // What is of the second product, and of what is before it, is a call of its own.
    let graph = graph(|b| {
        let before = activated(b, Unary::Erf, times_weight(b, given(b, &[WIDTH; 2])));
        let after = activated(b, Unary::Tanh, times_weight(b, before));
        vec![times_weight(b, b.multiply(before, after).unwrap())]
    });
    let (after, calls) = formulated(&graph);
    assert_eq!((calls, elementwise(&after)), (2, 0), "{}", ir::text::print(&after));
}

#[test]
fn what_others_read_as_they_go_stays_theirs() {
    // Loops and parts of tensors: to write it for them would be more than they do.
    let late = |b: &Builder, v| times_weight(b, b.reverse(v, &[0]).unwrap());
    let early = |b: &Builder| times_weight(b, b.transpose(given(b, &[WIDTH; 2]), &[1, 0]).unwrap());
    let (_, calls) = formulated(&graph(|b| vec![late(b, activated(b, Unary::Erf, early(b)))]));
    assert_eq!(calls, 0);
    let doubled = |b: &Builder| activated(b, Unary::Erf, b.reverse(given(b, &[WIDTH; 2]), &[0]).unwrap());
    let (_, calls) = formulated(&graph(|b| vec![times_weight(b, doubled(b))]));
    assert_eq!(calls, 0);
    // But for what is in memory for another reader anyway.
    let (after, calls) = formulated(&graph(|b| {
        let x = activated(b, Unary::Erf, times_weight(b, given(b, &[WIDTH; 2])));
        vec![times_weight(b, x), late(b, x)]
    }));
    assert_eq!((calls, elementwise(&after)), (1, 0), "{}", ir::text::print(&after));
}

#[test]
fn what_is_no_function_or_small_is_left_to_loops() {
    let (_, calls) = formulated(&graph(|b| {
        let x = times_weight(b, given(b, &[WIDTH; 2]));
        vec![times_weight(b, activated(b, Unary::Abs, x))]
    }));
    assert_eq!(calls, 0);
    let (_, calls) = formulated(&graph(|b| vec![b.unary(Unary::Tanh, given(b, &[FEWEST - 1])).unwrap()]));
    assert_eq!(calls, 0);
    let (_, calls) = formulated(&graph(|b| vec![b.unary(Unary::Tanh, given(b, &[FEWEST])).unwrap()]));
    assert_eq!(calls, 1);
}

#[test]
fn reshapes_in_between_are_made_late() {
    let graph = graph(|b| {
        let x = times_weight(b, given(b, &[WIDTH; 2]));
        let half = |v| b.multiply(v, b.full(Number::Float(0.5), DType::F32, &b.shape(v)).unwrap()).unwrap();
        let [cube, shifted] = [b.multiply(x, x).unwrap(), half(x)].map(|v| b.reshape(v, &[4, 8, WIDTH]).unwrap());
        let smooth = b.multiply(shifted, b.unary(Unary::Tanh, half(cube)).unwrap()).unwrap();
        vec![times_weight(b, b.reshape(smooth, &[WIDTH; 2]).unwrap())]
    });
    let (after, calls) = formulated(&graph);
    assert_eq!((calls, elementwise(&after)), (1, 0), "{}", ir::text::print(&after));
}

/// Products, what is computed place by place, and what moves places, of each other at random.
fn random(r: &mut Random) -> Graph {
    let builder = Builder::new("random");
    let b = &builder;
    let mut values = vec![given(b, &[WIDTH; 2])];
    for _ in 0..r.within(4, 16) {
        let [x, y] = [(); 2].map(|()| values[r.below(values.len())]);
        let bias = || b.broadcast_in_dim(given(b, &[WIDTH]), &[WIDTH; 2], &[1]).unwrap();
        let small = |v| b.multiply(v, b.full(Number::Float(0.125), DType::F32, &b.shape(v)).unwrap()).unwrap();
        values.push(match r.below(10) {
            0 | 1 => small(times_weight(b, x)),
            2..=4 => b.unary(r.one_of(&[Unary::Erf, Unary::Tanh, Unary::Logistic, Unary::Abs]), x).unwrap(),
            5 => small(b.add(x, y).unwrap()),
            6 => small(b.multiply(x, y).unwrap()),
            7 => b.add(x, bias()).unwrap(),
            8 => b.reverse(x, &[r.below(2)]).unwrap(),
            _ => {
                let apart = b.unary(Unary::Tanh, b.reshape(x, &[4, 8, WIDTH]).unwrap()).unwrap();
                b.reshape(small(apart), &[WIDTH; 2]).unwrap()
            }
        });
    }
    for i in 0..r.within(1, 3) {
        b.output(format!("y{i}"), OutputKind::User, values[values.len() - 1 - r.below(values.len())]);
    }
    builder.finish()
}

#[test]
fn random_graphs_stay_what_they_are_but_for_rounding() {
    let calls: usize = (0..500).map(|seed| formulated(&random(&mut Random(seed))).1).sum();
    assert!(calls > 250, "{calls}");
}
