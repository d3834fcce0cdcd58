use super::*;
use crate::formulate::host_elements;
use crate::formulate::testing::{Random, assert_close, assert_same_bits, calls_of_rows, formulated_for};
use crate::{Change, Options, Platform, formulate};
use ir::{Binary, Builder, DType, InputKind, Number, OutputKind, Reducer, TensorType, Unary};

const WHOLE: [usize; 3] = [8, 8, 256];

fn given(b: &Builder, shape: &[usize]) -> ValueId {
    let ty = TensorType::new(DType::F32, shape.iter().copied());
    b.input(format!("x{}", b.input_count()), InputKind::User, ty)
}

fn spread(b: &Builder, numbers: ValueId) -> ValueId {
    b.broadcast_in_dim(numbers, &WHOLE, &[0, 1]).unwrap()
}

fn reduced(b: &Builder, x: ValueId, reducer: Reducer) -> ValueId {
    b.reduce(x, reducer, &[2]).unwrap()
}

fn scaled(b: &Builder, x: ValueId, by: f64) -> ValueId {
    let number = b.full(Number::Float(by), b.dtype(x), &b.shape(x)).unwrap();
    b.multiply(x, number).unwrap()
}

fn softmax(b: &Builder, x: ValueId) -> ValueId {
    let far = b.subtract(x, spread(b, reduced(b, x, Reducer::Maximum))).unwrap();
    let all = b.unary(Unary::Exponential, far).unwrap();
    b.divide(all, spread(b, reduced(b, all, Reducer::Add))).unwrap()
}

fn layer_norm(b: &Builder, x: ValueId) -> ValueId {
    let mean = |v: ValueId| scaled(b, reduced(b, v, Reducer::Add), 1.0 / 256.0);
    let far = b.subtract(x, spread(b, mean(x))).unwrap();
    let variance = mean(b.multiply(far, far).unwrap());
    let off = b.full(Number::Float(1e-5), DType::F32, &WHOLE[..2]).unwrap();
    let scale = b.unary(Unary::Rsqrt, b.add(variance, off).unwrap()).unwrap();
    let normal = b.multiply(far, spread(b, scale)).unwrap();
    let [weight, bias] = [(); 2].map(|()| b.broadcast_in_dim(given(b, &WHOLE[2..]), &WHOLE, &[2]).unwrap());
    b.add(b.multiply(normal, weight).unwrap(), bias).unwrap()
}

fn graph(build: impl FnOnce(&Builder) -> Vec<ValueId>) -> Graph {
    let b = Builder::new("rows");
    for (i, v) in build(&b).into_iter().enumerate() {
        b.output(format!("y{i}"), OutputKind::User, v);
    }
    b.finish()
}

/// What becomes of `graph`, whose values stay what they are but for rounding.
fn formulated(graph: &Graph) -> Graph {
    let (after, changes) = formulated_for(Platform::CpuWithBlas, graph, Class::Reassociating, None);
    assert_close(graph, &after, &Random(1).inputs(graph, false));
    let is_call = |change: &&Change| [TOLD.0, host_elements::TOLD.0].contains(&change.rule);
    assert_eq!(changes.iter().filter(is_call).count(), calls_of_rows(&after).len());
    after
}

#[test]
fn a_softmax_and_what_is_around_it_is_one_call() {
    let graph = graph(|b| {
        let scores = scaled(b, given(b, &WHOLE), 0.125);
        let mask = b.input("mask", InputKind::User, TensorType::new(DType::Bool, [8, 1, 256]));
        let mask = b.broadcast_in_dim(mask, &WHOLE, &[0, 1, 2]).unwrap();
        let never = b.full(Number::Float(-1e9), DType::F32, &WHOLE).unwrap();
        let weights = softmax(b, b.select(mask, scores, never).unwrap());
        let dropped = b.multiply(weights, given(b, &WHOLE)).unwrap();
        vec![b.unary(Unary::ExponentialMinusOne, dropped).unwrap()]
    });
    let after = formulated(&graph);
    let [body] = calls_of_rows(&after)[..] else { panic!("{}", ir::text::print(&after)) };
    assert_eq!(body.outputs.len(), 1, "{}", ir::text::print(body));
    let left = after.nodes().iter().filter(|node| crate::measure::is_elementwise(&node.op)).count();
    assert_eq!(left, 1, "{}", ir::text::print(&after));
    let (elsewhere, _) = formulated_for(Platform::Cpu, &graph, Class::Reassociating, None);
    assert_eq!(calls_of_rows(&elsewhere).len(), 0, "there is nobody to ask");
    let (exact, _) = formulated_for(Platform::CpuWithBlas, &graph, Class::Exact, None);
    assert_eq!(calls_of_rows(&exact).len(), 0, "sums may not be reordered");
    assert_same_bits(&graph, &exact, &Random(2).inputs(&graph, true));
}

#[test]
fn a_layer_norm_is_one_call_that_also_gives_what_others_read() {
    let graph = graph(|b| {
        let x = b.add(given(b, &WHOLE), given(b, &WHOLE)).unwrap();
        let normal = layer_norm(b, x);
        vec![b.add(b.unary(Unary::ExponentialMinusOne, normal).unwrap(), x).unwrap()]
    });
    let after = formulated(&graph);
    let [body] = calls_of_rows(&after)[..] else { panic!("{}", ir::text::print(&after)) };
    assert_eq!((body.inputs.len(), body.outputs.len()), (4, 2), "{}", ir::text::print(body));
}

#[test]
fn gradients_that_reduce_the_same_rows_are_one_call() {
    let graph = graph(|b| {
        let [grad, x, scale] = [&WHOLE[..], &WHOLE, &WHOLE[..2]].map(|shape| given(b, shape));
        let normal = b.multiply(x, spread(b, scale)).unwrap();
        let first = scaled(b, reduced(b, grad, Reducer::Add), 1.0 / 256.0);
        let second = scaled(b, reduced(b, b.multiply(grad, normal).unwrap(), Reducer::Add), 1.0 / 256.0);
        let off = b.add(spread(b, first), b.multiply(normal, spread(b, second)).unwrap()).unwrap();
        vec![b.multiply(b.subtract(grad, off).unwrap(), spread(b, scale)).unwrap()]
    });
    assert_eq!(calls_of_rows(&formulated(&graph)).len(), 1);
}

#[test]
fn what_a_gradient_sums_of_all_rows_is_of_the_same_call() {
    let graph = graph(|b| {
        let [grad, x] = [(); 2].map(|()| given(b, &WHOLE));
        let weight = b.broadcast_in_dim(given(b, &WHOLE[2..]), &WHOLE, &[2]).unwrap();
        let weighted = b.multiply(grad, weight).unwrap();
        let mean = scaled(b, reduced(b, b.multiply(weighted, x).unwrap(), Reducer::Add), 1.0 / 256.0);
        let of_input = b.subtract(weighted, spread(b, mean)).unwrap();
        let of_weight = b.reduce(b.multiply(grad, x).unwrap(), Reducer::Add, &[0, 1]).unwrap();
        vec![of_input, of_weight, b.reduce(grad, Reducer::Add, &[0, 1]).unwrap()]
    });
    let after = formulated(&graph);
    let [body] = calls_of_rows(&after)[..] else { panic!("{}", ir::text::print(&after)) };
    assert_eq!((body.inputs.len(), body.outputs.len()), (3, 3), "{}", ir::text::print(body));
    assert!(!after.nodes().iter().any(|node| matches!(node.op, Op::Reduce { .. } | Op::Binary(_))));
}

#[test]
fn what_is_of_all_rows_is_not_read_before_the_last() {
    // As many rows as columns: a number of each column is not taken for one of each row.
    let square = [256, 256];
    let graph = graph(|b| {
        let x = given(b, &square);
        let sums = |v| scaled(b, b.reduce(v, Reducer::Add, &[0]).unwrap(), 1.0 / 256.0);
        let far = b.subtract(x, b.broadcast_in_dim(sums(x), &square, &[1]).unwrap()).unwrap();
        // Others compute the difference again rather than read it.
        vec![sums(b.multiply(far, far).unwrap()), b.unary(Unary::ExponentialMinusOne, far).unwrap()]
    });
    let after = formulated(&graph);
    let outputs: Vec<usize> = calls_of_rows(&after).iter().map(|body| body.outputs.len()).collect();
    assert_eq!(outputs, [1, 1], "{}", ir::text::print(&after));
}

#[test]
fn channels_of_images_are_reduced_row_by_row_first() {
    let images = [4, 8, 6, 6];
    let graph = graph(|b| vec![b.reduce(given(b, &images), Reducer::Add, &[0, 2, 3]).unwrap()]);
    let after = formulated(&graph);
    let [body] = calls_of_rows(&after)[..] else { panic!("{}", ir::text::print(&after)) };
    assert_eq!(body.outputs[0].value.index(), 1, "a sum of rows and no more: {}", ir::text::print(body));
    let left = after.nodes().iter().filter(|node| matches!(node.op, Op::Reduce { .. })).count();
    assert_eq!(left, 1, "{}", ir::text::print(&after));
}

#[test]
fn sums_of_parts_of_a_tensor_are_left_to_loops() {
    let parts = |b: &Builder| {
        let x = given(b, &[8, 8, 264]);
        let parts: Vec<ValueId> = (0..8).map(|i| b.slice_dim(x, 2, i, i + 256, 1).unwrap()).collect();
        parts.into_iter().reduce(|sum, part| b.add(sum, part).unwrap()).unwrap()
    };
    let after = formulated(&graph(|b| vec![layer_norm(b, parts(b))]));
    let [body] = calls_of_rows(&after)[..] else { panic!("{}", ir::text::print(&after)) };
    assert_eq!(body.inputs.len(), 3, "the sum, and what it is scaled by: {}", ir::text::print(body));
    let product =
        |b: &Builder| b.multiply(given(b, &WHOLE), b.slice_dim(given(b, &[8, 8, 264]), 2, 8, 264, 1).unwrap());
    let after = formulated(&graph(|b| vec![reduced(b, product(b).unwrap(), Reducer::Add)]));
    let inputs: Vec<usize> = calls_of_rows(&after).iter().map(|body| body.inputs.len()).collect();
    assert_eq!(inputs, [1], "{}", ir::text::print(&after));
}

#[test]
fn what_others_compute_again_waits_for_nothing_of_theirs() {
    let graph = graph(|b| {
        let x = given(b, &WHOLE);
        let far = b.subtract(x, spread(b, given(b, &WHOLE[..2]))).unwrap();
        let sums = reduced(b, b.multiply(far, far).unwrap(), Reducer::Add);
        let late = b.unary(Unary::ExponentialMinusOne, given(b, &WHOLE[2..])).unwrap();
        let scaled = b.multiply(far, b.broadcast_in_dim(late, &WHOLE, &[2]).unwrap()).unwrap();
        vec![sums, b.unary(Unary::ExponentialMinusOne, scaled).unwrap()]
    });
    let after = formulated(&graph);
    let [body] = calls_of_rows(&after)[..] else { panic!("{}", ir::text::print(&after)) };
    assert_eq!((body.inputs.len(), body.outputs.len()), (2, 1), "{}", ir::text::print(body));
}

#[test]
fn what_is_compared_with_its_extremes_is_computed_once() {
    let program = |reducer| {
        graph(|b| {
            let x = scaled(b, scaled(b, given(b, &WHOLE), 1.37), 0.3);
            let far = b.unary(Unary::Sine, b.subtract(x, spread(b, reduced(b, x, reducer))).unwrap()).unwrap();
            vec![far, b.unary(Unary::Cosine, x).unwrap()]
        })
    };
    let whole_results = |reducer| {
        let after = formulated(&program(reducer));
        let types = calls_of_rows(&after)[0].output_types().filter_map(ir::Type::tensor).map(|ty| ty.rank() == 3);
        types.filter(|&is_whole| is_whole).count()
    };
    // What is far from it, and, of the extreme, what it was taken of.
    assert_eq!([Reducer::Add, Reducer::Maximum, Reducer::Minimum].map(whole_results), [1, 2, 2]);
}

#[test]
fn what_is_read_by_way_of_others_is_not_computed_with_it() {
    let graph = graph(|b| {
        let x = given(b, &WHOLE);
        let far = b.subtract(x, spread(b, reduced(b, x, Reducer::Maximum))).unwrap();
        let elsewhere = b.reverse(far, &[2]).unwrap();
        let both = b.multiply(far, elsewhere).unwrap();
        vec![reduced(b, both, Reducer::Add)]
    });
    let after = formulated(&graph);
    assert_eq!(calls_of_rows(&after).len(), 2, "{}", ir::text::print(&after));
}

/// A graph of random ops, on rows and others.
fn random(r: &mut Random) -> Graph {
    graph(|b| {
        let mut whole = vec![given(b, &WHOLE), given(b, &WHOLE)];
        let mut numbers = vec![given(b, &WHOLE[..2])];
        for _ in 0..r.within(4, 24) {
            let (x, y) = (whole[r.below(whole.len())], whole[r.below(whole.len())]);
            let (n, m) = (numbers[r.below(numbers.len())], numbers[r.below(numbers.len())]);
            match r.below(15) {
                0 => whole.push(scaled(b, b.add(x, y).unwrap(), 0.5)),
                1 => whole.push(b.multiply(b.unary(Unary::ExponentialMinusOne, x).unwrap(), y).unwrap()),
                2 | 3 => whole.push(scaled(b, b.subtract(x, spread(b, n)).unwrap(), 0.5)),
                4 => whole.push(b.unary(Unary::Logistic, x).unwrap()),
                5 => whole.push(b.reverse(x, &[r.below(3)]).unwrap()),
                6 => whole.push(b.maximum(x, y).unwrap()),
                7 => whole.push(b.multiply(b.unary(Unary::Logistic, x).unwrap(), spread(b, n)).unwrap()),
                8 | 9 => numbers.push(scaled(b, reduced(b, x, Reducer::Add), 1.0 / 256.0)),
                10 => numbers.push(reduced(b, x, r.one_of(&[Reducer::Maximum, Reducer::Minimum]))),
                11 => numbers.push(b.binary(r.one_of(&[Binary::Minimum, Binary::Maximum]), n, m).unwrap()),
                12 => {
                    let column = b.reshape(n, &[8, 8, 1]).unwrap();
                    let column = b.unary(Unary::Logistic, column).unwrap();
                    whole.push(b.broadcast_in_dim(column, &WHOLE, &[0, 1, 2]).unwrap());
                }
                13 => {
                    let sums = scaled(b, b.reduce(x, Reducer::Add, &[0, 1]).unwrap(), 1.0 / 64.0);
                    whole.push(b.subtract(y, b.broadcast_in_dim(sums, &WHOLE, &[2]).unwrap()).unwrap());
                }
                _ => {
                    let sums = b.reduce(x, Reducer::Add, &[0]).unwrap();
                    whole.push(b.broadcast_in_dim(scaled(b, sums, 0.125), &WHOLE, &[1, 2]).unwrap());
                }
            }
        }
        let last = [whole[whole.len() - 1], numbers[numbers.len() - 1]];
        let more = (0..r.below(3)).map(|_| whole[r.below(whole.len())]).collect::<Vec<_>>();
        last.into_iter().chain(more).collect()
    })
}

#[test]
fn random_graphs_stay_what_they_are_but_for_rounding() {
    let mut called = 0;
    for seed in 0..40 {
        let graph = random(&mut Random(seed));
        called += calls_of_rows(&formulated(&graph)).len();
    }
    assert!(called > 40, "{called}");
}

#[test]
fn an_eager_op_gives_the_same_in_a_larger_program() {
    // A function may round otherwise than XLA's own: it is not computed with the rows then.
    let graph = graph(|b| vec![softmax(b, given(b, &WHOLE))]);
    let alone = formulate::alone(&graph, Class::Reassociating, Platform::CpuWithBlas).unwrap();
    assert_eq!(calls_of_rows(&alone).len(), 2, "{}", ir::text::print(&alone));
    let is_function = |node: &Node| matches!(node.op, Op::Unary(Unary::Exponential));
    assert!(calls_of_rows(&alone).iter().all(|body| !body.nodes().iter().any(is_function)));
    assert_close(&graph, &alone, &Random(1).inputs(&graph, false));
}

#[test]
fn small_tensors_and_short_rows_stay() {
    let of = |shape: &[usize], dims: &[usize], dtype: DType, reducer: Reducer| {
        let b = Builder::new("small");
        let x = b.input("x", InputKind::User, TensorType::new(dtype, shape.iter().copied()));
        b.output("y", OutputKind::User, b.reduce(x, reducer, dims).unwrap());
        let (after, _) = formulated_for(Platform::CpuWithBlas, &b.finish(), Class::Reassociating, None);
        calls_of_rows(&after).len()
    };
    let (large, last) = (&[4, 64][..], &[1][..]);
    assert_eq!(of(large, last, DType::F32, Reducer::Add), 1);
    assert_eq!(of(large, last, DType::F64, Reducer::Minimum), 1);
    assert_eq!(of(&[4, 63], last, DType::F32, Reducer::Add), 0);
    assert_eq!(of(&[4096, 8], last, DType::F32, Reducer::Add), 0);
    assert_eq!(of(large, &[0], DType::F32, Reducer::Add), 0, "few rows");
    assert_eq!(of(&[16, 16], &[0], DType::F32, Reducer::Add), 1);
    assert_eq!(of(&[4096, 8], &[0], DType::F32, Reducer::Add), 0);
    assert_eq!(of(&[8, 64, 8], &[1], DType::F32, Reducer::Add), 0, "neither first nor last");
    assert_eq!(of(&[8, 64, 3, 5], &[0, 2, 3], DType::F32, Reducer::Add), 0);
    assert_eq!(of(large, last, DType::BF16, Reducer::Add), 0);
    assert_eq!(of(large, last, DType::I32, Reducer::Add), 0);
}

#[test]
fn the_limit_counts_calls() {
    let graph = graph(|b| {
        let x = given(b, &WHOLE);
        let y = b.reverse(softmax(b, x), &[2]).unwrap();
        vec![softmax(b, y)]
    });
    for limit in 0..=2 {
        let options = Options { limit: Some(limit), ..Options::new(Class::Reassociating, Platform::CpuWithBlas) };
        let mut changes = Changes::new(options);
        let after = left_to_the_host(&graph, &mut changes, None).unwrap();
        assert_eq!(calls_of_rows(&after).len(), limit);
    }
}

#[test]
fn a_call_is_named_after_what_it_computes() {
    let machine = crate::regions::Machine { ..crate::regions::tests::TPU };
    let named = |graph: &Graph| {
        let found = crate::regions::regions(&formulated(graph), &machine);
        found.into_iter().map(|region| region.name).collect::<Vec<_>>()
    };
    assert_eq!(named(&graph(|b| vec![softmax(b, given(b, &WHOLE))])), ["softmax"]);
    assert_eq!(named(&graph(|b| vec![layer_norm(b, given(b, &WHOLE))])), ["layernorm"]);
    assert_eq!(named(&graph(|b| vec![reduced(b, given(b, &WHOLE), Reducer::Add)])), ["sum"]);
}
