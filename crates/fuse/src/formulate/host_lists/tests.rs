use super::*;
use crate::formulate::testing::{Random, assert_same_bits, calls_of_rows, formulated_for};
use crate::{Options, Platform, formulate};
use ir::{Binary, Builder, Comparison, InputKind, Number, Unary};

/// Of a model's parameters, one of which is a number.
const SHAPES: [&[usize]; 6] = [&[40, 20], &[20], &[3, 4, 5], &[], &[1, 1], &[2000]];

fn given(b: &Builder, shape: &[usize], dtype: DType) -> ValueId {
    b.input(format!("x{}", b.input_count()), InputKind::User, TensorType::new(dtype, shape.iter().copied()))
}

fn number(b: &Builder, x: ValueId, number: f64) -> ValueId {
    b.full(Number::Float(number), b.dtype(x), &b.shape(x)).unwrap()
}

/// What becomes of `graph`, whose values stay what they are.
fn formulated(graph: &Graph) -> Graph {
    let (after, changes) = formulated_for(Platform::CpuWithBlas, graph, Class::Exact, None);
    assert_same_bits(graph, &after, &Random(1).inputs(graph, true));
    assert_eq!(changes.iter().filter(|change| change.rule == TOLD.0).count(), calls_of_rows(&after).len());
    after
}

/// `x` and its average, moved by what is given for it; the next values of both.
fn step(b: &Builder, shape: &[usize], rate: ValueId) {
    let at = b.input_count();
    let [x, average, grad] = [(); 3].map(|()| given(b, shape, DType::F32));
    let next = b.add(b.multiply(average, number(b, x, 0.9)).unwrap(), b.multiply(grad, number(b, x, 0.1)).unwrap());
    let next = next.unwrap();
    let size = b.add(b.unary(Unary::Sqrt, b.unary(Unary::Abs, next).unwrap()).unwrap(), number(b, x, 1e-8)).unwrap();
    let moved = b.multiply(b.divide(next, size).unwrap(), b.broadcast_in_dim(rate, shape, &[]).unwrap()).unwrap();
    b.output(format!("average{at}"), OutputKind::Mutation(at + 1), next);
    b.output(format!("x{at}"), OutputKind::Mutation(at), b.subtract(x, moved).unwrap());
}

/// The `i`-th of `rates`, as eager calls give numbers, or what is left of one.
fn rate(b: &Builder, rates: ValueId, i: usize) -> ValueId {
    let rate = b.reshape(b.convert(b.slice_dim(rates, 0, i, i + 1, 1).unwrap(), DType::F32).unwrap(), &[]).unwrap();
    if i.is_multiple_of(2) { rate } else { b.subtract(number(b, rate, 1.0), rate).unwrap() }
}

#[test]
fn numbers_that_lie_together_are_given_together() {
    let b = Builder::new("rates");
    let rates = given(&b, &[SHAPES.len()], DType::F64);
    (0..SHAPES.len()).for_each(|i| step(&b, SHAPES[i], rate(&b, rates, i)));
    let after = formulated(&b.finish());
    let [body] = calls_of_rows(&after)[..] else { panic!("{}", ir::text::print(&after)) };
    let places: Vec<(usize, usize)> = ir::rows::hosted(body)
        .unwrap()
        .iter()
        .map(|rows| rows.operands.iter().find(|o| o.of > 1).map(|o| (o.place, o.of)).unwrap())
        .collect();
    assert_eq!(places, (0..SHAPES.len()).map(|i| (i, SHAPES.len())).collect::<Vec<_>>());
    let left: Vec<&Op> = after
        .nodes()
        .iter()
        .map(|node| &node.op)
        .filter(|op| !matches!(op, Op::Input { .. } | Op::GetTupleElement { .. }))
        .collect();
    assert_eq!(left.len(), 1, "numbers become floats of 32 bits there: {}", ir::text::print(&after));
}

#[test]
fn a_tensor_as_long_as_there_are_numbers_is_none_of_them() {
    let b = Builder::new("rates");
    let rates = given(&b, &[4], DType::F32);
    for i in 0..4 {
        let x = given(&b, &[4], DType::F32);
        let own = b.reshape(b.slice_dim(rates, 0, i, i + 1, 1).unwrap(), &[]).unwrap();
        let spread = b.broadcast_in_dim(own, &[4], &[]).unwrap();
        let both = b.multiply(b.add(x, rates).unwrap(), spread).unwrap();
        b.output(format!("y{i}"), OutputKind::Mutation(1 + i), both);
    }
    assert_eq!(calls_of_rows(&formulated(&b.finish())).len(), 1);
}

fn steps(shapes: &[&[usize]]) -> Graph {
    let b = Builder::new("steps");
    let rate = given(&b, &[], DType::F32);
    shapes.iter().for_each(|shape| step(&b, shape, rate));
    b.finish()
}

/// Which inputs of the call are overwritten, in the order of its outputs.
fn overwritten(body: &Graph) -> Vec<Option<usize>> {
    body.outputs.iter().map(|output| output.kind.mutated()).collect()
}

#[test]
fn an_optimizers_step_is_one_call_in_the_memory_of_the_parameters() {
    let after = formulated(&steps(&SHAPES));
    let [body] = calls_of_rows(&after)[..] else { panic!("{}", ir::text::print(&after)) };
    let left = after.nodes().iter().filter(|node| crate::measure::is_elementwise(&node.op)).count();
    assert_eq!((body.inputs.len(), left), (4 * SHAPES.len(), 0), "{}", ir::text::print(&after));
    assert!(overwritten(body).iter().all(Option::is_some), "{}", ir::text::print(body));
    assert_eq!(ir::rows::hosted(body).map(|all| all.len()), Some(SHAPES.len()));
    let elsewhere = formulated_for(Platform::Cpu, &steps(&SHAPES), Class::Exact, None).0;
    assert_eq!(calls_of_rows(&elsewhere).len(), 0, "there is nobody to ask");
}

#[test]
fn an_op_by_itself_is_the_hosts_too_if_it_takes_so_many() {
    for (count, asked) in [(3, 0), (4, 1)] {
        let alone = formulate::alone(&steps(&SHAPES[..count]), Class::Reassociating, Platform::CpuWithBlas).unwrap();
        assert_eq!(calls_of_rows(&alone).len(), asked);
    }
}

/// A list of products with tensors that `of` makes of the given ones, in `f32`.
fn products(of: impl Fn(&Builder, ValueId) -> ValueId) -> Graph {
    let b = Builder::new("products");
    for (i, n) in (10..15).enumerate() {
        let (x, y) = (given(&b, &[n, n], DType::F32), of(&b, given(&b, &[n, n], DType::F32)));
        b.output(format!("y{i}"), OutputKind::Mutation(2 * i), b.multiply(x, y).unwrap());
    }
    b.finish()
}

#[test]
fn what_is_not_in_memory_is_left_to_loops() {
    let count = |of: &dyn Fn(&Builder, ValueId) -> ValueId| calls_of_rows(&formulated(&products(of))).len();
    assert_eq!(count(&|_, y| y), 1);
    assert_eq!(count(&|b, y| b.transpose(y, &[1, 0]).unwrap()), 0);
    assert_eq!(count(&|b, y| b.unary(Unary::Sine, y).unwrap()), 0);
    assert_eq!(count(&|b, y| b.convert(b.convert(y, DType::BF16).unwrap(), DType::F32).unwrap()), 0);
    let of_rows = |b: &Builder, y: ValueId| {
        let shape = b.shape(y);
        let row = b.reshape(b.slice_dim(y, 0, 0, 1, 1).unwrap(), &shape[..1]).unwrap();
        b.broadcast_in_dim(row, &shape, &[1]).unwrap()
    };
    assert_eq!(count(&of_rows), 0);
}

#[test]
fn what_is_needed_no_longer_does_not_wait_for_a_list() {
    let product = |is_output: bool| {
        let b = Builder::new("products");
        for i in 0..4 {
            let (x, y) = (given(&b, &[6, 6], DType::F32), given(&b, &[6, 6], DType::F32));
            let sums = b.reduce(y, ir::Reducer::Maximum, &[0]).unwrap();
            let sums =
                b.reduce(b.broadcast_in_dim(sums, &[6, 6, 6], &[2]).unwrap(), ir::Reducer::Maximum, &[1]).unwrap();
            b.output(format!("y{i}"), OutputKind::Mutation(2 * i), b.subtract(x, sums).unwrap());
            if is_output {
                b.output(format!("z{i}"), OutputKind::User, sums);
            }
        }
        calls_of_rows(&formulated(&b.finish())).len()
    };
    assert_eq!((product(true), product(false)), (1, 0));
}

#[test]
fn what_others_read_is_left_to_them() {
    let b = Builder::new("read");
    let whole = given(&b, &[30], DType::F32);
    let mut sum = whole;
    for i in 0..5 {
        let x = b.multiply(given(&b, &[30], DType::F32), whole).unwrap();
        b.output(format!("y{i}"), OutputKind::User, x);
        sum = b.add(sum, b.unary(Unary::Sine, x).unwrap()).unwrap();
    }
    b.output("sum", OutputKind::User, sum);
    assert_eq!(calls_of_rows(&formulated(&b.finish())).len(), 0);
}

#[test]
fn other_shapes_of_it_are_given_too() {
    let b = Builder::new("shapes");
    for i in 0..4 {
        let x = given(&b, &[6, 5], DType::F64);
        let flat = b.reshape(x, &[30]).unwrap();
        let twice = b.add(flat, flat).unwrap();
        b.output(format!("y{i}"), OutputKind::Mutation(i), b.reshape(twice, &[6, 5]).unwrap());
    }
    let after = formulated(&b.finish());
    let [body] = calls_of_rows(&after)[..] else { panic!("{}", ir::text::print(&after)) };
    assert_eq!(overwritten(body), [0, 1, 2, 3].map(Some));
}

#[test]
fn what_several_read_is_nobodys_to_overwrite() {
    let b = Builder::new("shared");
    let shared = given(&b, &[9], DType::F32);
    let of = |i: usize| given(&b, &[9 - i], DType::F32);
    let xs = [0, 0, 2, 3, 4].map(of);
    let twice = |x: ValueId| b.add(x, x).unwrap();
    // Of the first another is computed as well; the third is an output itself, and the fourth negated elsewhere.
    b.output("y0", OutputKind::Mutation(1), twice(xs[0]));
    b.output("y1", OutputKind::Mutation(2), b.multiply(xs[1], shared).unwrap());
    b.output("y2", OutputKind::Mutation(3), twice(xs[2]));
    b.output("y3", OutputKind::Mutation(4), twice(xs[3]));
    b.output("y4", OutputKind::Mutation(5), twice(xs[4]));
    b.output("y5", OutputKind::User, b.subtract(xs[0], shared).unwrap());
    b.output("y6", OutputKind::User, xs[2]);
    b.output("y7", OutputKind::User, b.unary(Unary::Sine, xs[3]).unwrap());
    let after = formulated(&b.finish());
    let [body] = calls_of_rows(&after)[..] else { panic!("{}", ir::text::print(&after)) };
    let kept: Vec<bool> = overwritten(body).iter().map(Option::is_none).collect();
    assert_eq!(kept, [true, false, true, true, false, true], "{}", ir::text::print(body));
}

#[test]
fn types_have_a_call_each_and_others_none() {
    let b = Builder::new("types");
    for dtype in [DType::F32, DType::F64, DType::BF16, DType::I32] {
        for n in 1..6 {
            let x = given(&b, &[n], dtype);
            b.output(format!("{dtype}{n}"), OutputKind::User, b.add(x, x).unwrap());
        }
    }
    for n in 0..6 {
        for shape in [[n, 0], [MOST / 2 + 1, 2]] {
            let x = given(&b, &shape, DType::F32);
            b.output(format!("{shape:?}{n}"), OutputKind::User, b.add(x, x).unwrap());
        }
    }
    let after = formulated(&b.finish());
    let outputs: Vec<usize> = calls_of_rows(&after).iter().map(|body| body.outputs.len()).collect();
    assert_eq!(outputs, [5, 5], "{}", ir::text::print(&after));
}

#[test]
fn the_limit_counts_calls() {
    let b = Builder::new("limited");
    for dtype in [DType::F32, DType::F64] {
        for n in 1..6 {
            let x = given(&b, &[n], dtype);
            b.output(format!("{dtype}{n}"), OutputKind::User, b.add(x, x).unwrap());
        }
    }
    let graph = b.finish();
    for limit in 0..=2 {
        let options = Options { limit: Some(limit), ..Options::new(Class::Exact, Platform::CpuWithBlas) };
        let after = left_to_the_host(&graph, &mut Changes::new(options), None).unwrap();
        assert_eq!(calls_of_rows(&after).len(), limit);
    }
}

/// Random ops on tensors of many shapes, of which some are overwritten.
fn random(r: &mut Random) -> Graph {
    let b = Builder::new("random");
    let scalar = given(&b, &[], DType::F32);
    let mut made = vec![];
    for _ in 0..r.within(4, 9) {
        let shape = r.one_of(&SHAPES);
        let first = b.input_count();
        let mut values = [(); 3].map(|()| given(&b, shape, DType::F32)).to_vec();
        let read = |r: &mut Random, values: &[ValueId]| values[r.below(values.len())];
        for _ in 0..r.within(1, 6) {
            let (x, y) = (read(r, &values), read(r, &values));
            values.push(match r.below(8) {
                0 => b.unary(r.one_of(&[Unary::Abs, Unary::Negate, Unary::Sqrt]), x).unwrap(),
                1 => b.multiply(x, b.broadcast_in_dim(scalar, shape, &[]).unwrap()).unwrap(),
                2 => b.divide(x, y).unwrap(),
                3 => b.select(b.compare(Comparison::Lt, x, y).unwrap(), y, number(&b, x, 0.5)).unwrap(),
                4 => b.binary(r.one_of(&[Binary::Minimum, Binary::Maximum]), x, y).unwrap(),
                5 => b.subtract(x, y).unwrap(),
                6 if r.below(4) == 0 => b.unary(Unary::Sine, x).unwrap(),
                _ => b.add(x, y).unwrap(),
            });
        }
        made.push((first + r.below(3), values[values.len() - 1]));
        if r.below(2) == 0 {
            made.push((usize::MAX, values[3]));
        }
    }
    for (i, (input, value)) in made.into_iter().enumerate() {
        let kind = if input == usize::MAX { OutputKind::User } else { OutputKind::Mutation(input) };
        b.output(format!("y{i}"), kind, value);
    }
    b.finish()
}

#[test]
fn random_lists_keep_their_bits() {
    let called: usize = (0..60).map(|seed| calls_of_rows(&formulated(&random(&mut Random(seed)))).len()).sum();
    assert!(called > 30, "{called}");
}
