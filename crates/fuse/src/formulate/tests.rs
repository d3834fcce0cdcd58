use super::testing::*;
use super::*;
use crate::Options;
use ir::{Binary, Builder, DType, InputKind, Number, OutputKind, TensorType, Unary, ValueId};

pub(super) const ROUNDS: u64 = 300;

pub(super) fn rules(changes: &[crate::Change]) -> Vec<&'static str> {
    changes.iter().map(|c| c.rule).collect()
}

#[test]
fn random_convolutions_keep_their_bits() {
    let (mut groups, mut products) = (0, 0);
    for seed in 0..ROUNDS {
        let mut r = Random(seed);
        let kind =
            r.one_of(&[Groups::None, Groups::Features(2), Groups::Features(3), Groups::Batch(2), Groups::OneWindow]);
        let graph = convolution(&mut r, kind);
        let (after, changes) = formulated(&graph, Class::Exact, None);
        groups += usize::from(rules(&changes).contains(&"groups-apart"));
        products += usize::from(rules(&changes).contains(&"single-window-as-product"));
        assert_same_bits(&graph, &after, &r.inputs(&graph, true));
    }
    assert!(groups > 100 && products > 30, "{groups} {products}");
}

#[test]
fn random_depthwise_convolutions_stay_within_rounding() {
    let mut made = 0;
    for seed in 0..ROUNDS {
        let mut r = Random(seed);
        let graph = convolution(&mut r, Groups::Depthwise);
        let (after, changes) = formulated(&graph, Class::Reassociating, None);
        made += usize::from(rules(&changes) == ["depthwise-as-products"]);
        assert_close(&graph, &after, &r.inputs(&graph, false));
    }
    assert!(made > 100, "{made}");
}

#[test]
fn random_gradients_of_depthwise_kernels_stay_within_rounding() {
    let mut made = 0;
    for seed in 0..ROUNDS {
        let mut r = Random(seed);
        let graph = convolution(&mut r, Groups::DepthwiseKernel);
        let (after, changes) = formulated(&graph, Class::Reassociating, None);
        made += usize::from(rules(&changes) == ["depthwise-kernel-by-taps"]);
        assert_close(&graph, &after, &r.inputs(&graph, false));
    }
    // A quarter of the windows run backwards, which the rule leaves.
    assert!(made > 150, "{made}");
}

#[test]
fn random_reductions_keep_their_bits() {
    let mut made = 0;
    for seed in 0..ROUNDS {
        let mut r = Random(seed);
        let graph = reduction(&mut r);
        let (after, changes) = formulated(&graph, Class::Exact, None);
        made += usize::from(rules(&changes) == ["neighbouring-dimensions-joined"]);
        assert_same_bits(&graph, &after, &r.inputs(&graph, seed % 2 == 0));
    }
    assert!(made > 30, "{made}");
}

#[test]
fn random_sorts_keep_their_bits() {
    let made = sorts_keep_bits(0..ROUNDS, "sort-of-packed-keys", sort);
    assert!(made > 60, "{made}");
}

#[test]
fn random_sums_of_rows_stay_within_rounding() {
    let mut made = 0;
    for seed in 0..ROUNDS / 2 {
        let mut r = Random(seed);
        let graph = rows(&mut r, ir::Reducer::Add);
        let (after, changes) = formulated(&graph, Class::Reassociating, None);
        made += usize::from(rules(&changes) == ["row-sum-in-parts"]);
        assert_close(&graph, &after, &r.inputs(&graph, false));
    }
    assert!(made > 40, "{made}");
}

/// Sums of rows of what takes so many ops.
fn sums_behind(ops: usize) -> Graph {
    let b = Builder::new("sums");
    let x = b.input("x", InputKind::User, TensorType::new(DType::F32, [64, 128]));
    let deep = (0..ops).try_fold(x, |x, _| b.unary(Unary::Tanh, x)).unwrap();
    b.output("y", OutputKind::User, b.reduce(deep, ir::Reducer::Add, &[1]).unwrap());
    b.finish()
}

#[test]
fn rows_of_what_takes_many_ops_are_summed_as_they_stand() {
    let made = |ops: usize| rules(&formulated(&sums_behind(ops), Class::Reassociating, None).1);
    assert_eq!(made(8), ["row-sum-in-parts"]);
    assert!(made(9).is_empty());
}

#[test]
fn rows_of_what_is_computed_once_are_summed_in_parts() {
    let b = Builder::new("once");
    let x = b.input("x", InputKind::User, TensorType::new(DType::F32, [8, 8, 128]));
    let deep = (0..9).try_fold(x, |x, _| b.unary(Unary::Tanh, x)).unwrap();
    b.output("sums", OutputKind::User, b.reduce(deep, Reducer::Add, &[0, 2]).unwrap());
    b.output("y", OutputKind::User, b.unary(Unary::Abs, deep).unwrap());
    let changes = formulated_for(Platform::CpuWithBlas, &b.finish(), Class::Reassociating, None).1;
    assert_eq!(rules(&changes), ["computed-once", "row-sum-in-parts"]);
}

#[test]
fn an_op_alone_is_not_reassociated_by_what_is_around_it() {
    let alone = |graph: &Graph| super::alone(graph, Class::Reassociating, Platform::Cpu).unwrap();
    let print = ir::text::print;
    let sum = sums_behind(0);
    assert_eq!(print(&alone(&sum)), print(&sum));
    let depthwise = chain(1, 1);
    assert_ne!(print(&alone(&depthwise)), print(&depthwise));
}

#[test]
fn random_products_keep_their_bits() {
    let mut made = 0;
    for seed in 0..ROUNDS {
        let mut r = Random(seed);
        let graph = product(&mut r);
        let (after, changes) = formulated(&graph, Class::Exact, None);
        made += usize::from(rules(&changes) == ["product-in-packed-order"]);
        assert_same_bits(&graph, &after, &r.inputs(&graph, false));
    }
    assert!(made > 20, "{made}");
}

#[test]
fn random_products_of_the_host_keep_their_bits() {
    let (mut made, mut taken_as_they_lie) = (0, 0);
    for seed in 0..ROUNDS {
        let mut r = Random(seed);
        let graph = if seed % 3 == 0 { product(&mut r) } else { batched_product(&mut r) };
        let (after, changes) = formulated_for(Platform::CpuWithBlas, &graph, Class::Exact, None);
        let by_host = rules(&changes) == ["product-by-the-host"];
        made += usize::from(by_host);
        let turns = |g: &Graph| g.nodes().iter().filter(|n| matches!(n.op, Op::Transpose { .. })).count();
        taken_as_they_lie += usize::from(by_host && turns(&after) < turns(&graph));
        assert_same_bits(&graph, &after, &r.inputs(&graph, false));
        let (elsewhere, _) = formulated(&graph, Class::Exact, None);
        assert!(elsewhere.nodes().iter().all(|n| !matches!(&n.op, Op::DotGeneral(d) if d.host)));
    }
    assert!(made > 50 && taken_as_they_lie > 20, "{made} {taken_as_they_lie}");
}

#[test]
fn an_operand_that_blas_cannot_read_is_put_in_order() {
    // Heads of attention, joined by the product after it: between them and their elements lie the places.
    let b = Builder::new("joined_heads");
    at(&b, 7);
    let x = b.input("x", InputKind::User, TensorType::new(DType::F32, [2, 3, 5, 8]));
    let w = b.input("w", InputKind::Parameter, TensorType::new(DType::F32, [40, 3, 8]));
    b.output("y", OutputKind::User, dot(&b, x, w, &[1, 3], &[1, 2]));
    b.output("z", OutputKind::User, dot(&b, w, x, &[2, 1], &[3, 1]));
    let graph = b.finish();
    let (after, changes) = formulated_for(Platform::CpuWithBlas, &graph, Class::Exact, None);
    assert_eq!(rules(&changes), ["product-by-the-host"; 2]);
    assert_eq!(transposes(&after), 2);
    assert_same_bits(&graph, &after, &Random(1).inputs(&graph, true));
}

#[test]
fn random_pointwise_convolutions_stay_within_rounding() {
    let mut made = 0;
    for seed in 0..ROUNDS {
        let mut r = Random(seed);
        let graph = pointwise(&mut r);
        let (after, changes) = formulated_for(Platform::CpuWithBlas, &graph, Class::Reassociating, None);
        made += usize::from(rules(&changes).contains(&"pointwise-as-product"));
        assert_close(&graph, &after, &r.inputs(&graph, false));
    }
    assert!(made > 60, "{made}");
}

/// What takes `ops` elementwise ops, and is read by so many sums and so many other ops.
fn read_apart(ops: usize, sums: usize, outputs: usize) -> Graph {
    of_ops_read_apart(&vec![Unary::Negate; ops], sums, outputs)
}

fn of_ops_read_apart(ops: &[Unary], sums: usize, outputs: usize) -> Graph {
    let b = Builder::new("apart");
    at(&b, 3);
    let x = b.input("x", InputKind::User, TensorType::new(DType::F32, [4, 8]));
    let deep = ops.iter().try_fold(x, |x, &op| b.unary(op, x)).unwrap();
    for i in 0..sums {
        b.output(format!("sum{i}"), OutputKind::User, b.reduce(deep, Reducer::Add, &[i]).unwrap());
    }
    for i in 0..outputs {
        b.output(format!("y{i}"), OutputKind::User, b.unary([Unary::Abs, Unary::Negate][i], deep).unwrap());
    }
    b.finish()
}

#[test]
fn what_several_loops_read_is_computed_once() {
    let barriers = |platform, graph: &Graph| {
        let (after, changes) = formulated_for(platform, graph, Class::Exact, None);
        assert_same_bits(graph, &after, &Random(1).inputs(graph, true));
        let made = after.nodes().iter().filter(|n| matches!(n.op, Op::HostBarrier)).count();
        assert_eq!(made, rules(&changes).iter().filter(|&&r| r == "computed-once").count());
        made
    };
    let with_blas = |graph: &Graph| barriers(Platform::CpuWithBlas, graph);
    assert_eq!(with_blas(&read_apart(16, 1, 1)), 1);
    assert_eq!(with_blas(&read_apart(16, 2, 0)), 1);
    assert_eq!(with_blas(&read_apart(15, 1, 1)), 0, "few ops");
    assert_eq!(with_blas(&of_ops_read_apart(&[Unary::Exponential, Unary::Negate, Unary::Tanh], 1, 1)), 1, "dear ones");
    assert_eq!(with_blas(&of_ops_read_apart(&[Unary::Exponential], 1, 1)), 0);
    assert_eq!(with_blas(&read_apart(16, 1, 0)), 0, "one reader");
    assert_eq!(with_blas(&read_apart(16, 0, 2)), 0, "both may be one loop");
    assert_eq!(barriers(Platform::Cpu, &read_apart(16, 1, 1)), 0, "there is nobody to ask");
}

#[test]
fn random_convolutions_of_the_host_stay_within_rounding() {
    let (mut made, mut widened) = ([0; 3], 0);
    for seed in 0..2 * ROUNDS {
        let mut r = Random(seed);
        let graph = of_images(&mut r);
        let (after, changes) = formulated_for(Platform::CpuWithBlas, &graph, Class::Reassociating, None);
        for node in after.nodes() {
            let Op::Convolution(c) = &node.op else { continue };
            let [x, k] = node.operands[..] else { unreachable!() };
            let Some(windows) = c.windows(after.tensor_type(x).unwrap(), after.tensor_type(k).unwrap()) else {
                continue;
            };
            made[windows.computes as usize] += usize::from(c.host);
        }
        let reverses = |g: &Graph| g.nodes().iter().any(|n| matches!(n.op, Op::Reverse { .. }));
        let by_host = rules(&changes).contains(&"convolution-by-the-host");
        let narrow = graph.nodes()[0].ty.tensor().is_some_and(|t| t.dtype.size() == 2);
        widened += usize::from(by_host && narrow);
        assert!(!(by_host && reverses(&graph) && reverses(&after)), "kernels are taken as they lie");
        assert_close(&graph, &after, &r.inputs(&graph, false));
        let (elsewhere, _) = formulated(&graph, Class::Reassociating, None);
        assert!(elsewhere.nodes().iter().all(|n| !matches!(&n.op, Op::Convolution(c) if c.host)));
    }
    assert!(made.iter().all(|&made| made > 20) && widened > 20, "{made:?} {widened}");
}

#[test]
fn random_maxima_keep_their_bits() {
    let mut made = 0;
    for seed in 0..ROUNDS {
        let mut r = Random(seed);
        let graph = rows(&mut r, ir::Reducer::Maximum);
        let (after, changes) = formulated(&graph, Class::Exact, None);
        made += usize::from(rules(&changes) == ["row-maximum-in-parts"]);
        assert_same_bits(&graph, &after, &r.inputs(&graph, seed % 2 == 0));
    }
    assert!(made > 30, "{made}");
}

#[test]
fn products_are_turned_where_that_packs_less() {
    // `[m, k]` by `[n, k]`, and `[k, m]` by `[k, n]`: the measured ones.
    for (m, k, n, rows, turned) in [
        (64, 1024, 1024, true, true),
        (64, 512, 128, true, true),
        (256, 768, 3072, true, true),
        (128, 768, 50257, true, true),
        (394, 768, 3072, true, true),
        (512, 512, 2048, true, false),
        (512, 512, 512, true, false),
        (2048, 512, 256, true, false),
        (1, 1024, 1024, true, false),
        (1024, 1024, 64, false, true),
        (768, 64, 768, false, false),
    ] {
        let b = Builder::new("product");
        let (lhs, rhs) = if rows { ([m, k], [n, k]) } else { ([k, m], [k, n]) };
        let operand = |name: &str, shape| b.input(name, InputKind::User, TensorType::new(DType::F32, shape));
        let d = usize::from(rows);
        let product = dot(&b, operand("x", lhs), operand("w", rhs), &[d], &[d]);
        b.output("y", OutputKind::User, product);
        // The same with a second operand that lies otherwise, and a transpose before it: where it was packed badly, it is not.
        let other = b.transpose(operand("v", [rhs[1], rhs[0]]), &[1, 0]).unwrap();
        b.output("z", OutputKind::User, dot(&b, operand("u", lhs), other, &[d], &[d]));
        let changes = formulated(&b.finish(), Class::Exact, None).1;
        assert_eq!(changes.len(), usize::from(turned) + usize::from(turned && !rows), "{m} {k} {n} {rows}");
    }
}

#[test]
fn random_nets_keep_their_bits() {
    let mut made = 0;
    for seed in 0..ROUNDS {
        let mut r = Random(seed);
        let graph = net(&mut r);
        let (after, changes) = formulated(&graph, Class::Exact, None);
        made += usize::from(!changes.is_empty());
        assert_same_bits(&graph, &after, &r.inputs(&graph, seed.is_multiple_of(2)));
    }
    assert!(made > 100, "{made}");
}

#[test]
fn same_net_same_program() {
    let graph = net(&mut Random(3));
    let print = || ir::text::print(&formulated(&graph, Class::Reassociating, None).0);
    assert_eq!(print(), print());
}

/// `conv, tanh, conv, tanh, ...` on four features, every `depthwise`-th depthwise; a line each.
fn chain(length: u32, depthwise: u32) -> Graph {
    let b = Builder::new("chain");
    let x = b.input("x", InputKind::User, TensorType::new(DType::F32, [1, 4, 3, 3]));
    let grown = (1..=length).try_fold(x, |x, line| {
        at(&b, line);
        let groups = if line.is_multiple_of(depthwise) { 4 } else { 1 };
        b.unary(Unary::Tanh, plain(&b, x, 4, 3, 1, groups))
    });
    b.output("y", OutputKind::User, grown.unwrap());
    b.finish()
}

fn transposes(graph: &Graph) -> usize {
    graph.nodes().iter().filter(|n| matches!(n.op, Op::Transpose { .. })).count()
}

#[test]
fn a_chain_is_transposed_at_its_borders_only() {
    let graph = chain(5, 99);
    let (after, changes) = formulated(&graph, Class::Exact, None);
    assert_eq!(rules(&changes), ["features-last"; 5]);
    assert_eq!(transposes(&after), 2);
}

#[test]
fn one_convolution_alone_stays() {
    let graph = chain(1, 99);
    let (after, changes) = formulated(&graph, Class::Reassociating, None);
    assert_eq!(changes, []);
    assert_eq!(ir::text::print(&after), ir::text::print(&graph));
}

#[test]
fn the_limit_and_the_class_are_kept() {
    let graph = chain(6, 3);
    let all = formulated(&graph, Class::Reassociating, None).1;
    assert_eq!(all.len(), 6);
    for limit in 0..=6 {
        let (after, changes) = formulated(&graph, Class::Reassociating, Some(limit));
        assert_eq!(changes, all[..limit]);
        assert_close(&graph, &after, &Random(1).inputs(&graph, false));
    }
    let exact = formulated(&graph, Class::Exact, None).1;
    assert!(exact.iter().all(|c| c.class == Class::Exact) && exact.len() == 6, "{exact:?}");
}

#[test]
fn a_tpu_lays_out_itself() {
    let graph = chain(5, 2);
    let mut changes = Changes::new(Options { platform: Platform::Tpu, ..Options::default() });
    let after = formulate(&graph, &mut changes).unwrap();
    assert_eq!(ir::text::print(&after), ir::text::print(&graph));
    assert_eq!(changes.into_vec(), []);
}

#[test]
fn nodes_keep_their_lines() {
    let graph = chain(6, 3);
    let (after, changes) = formulated(&graph, Class::Reassociating, None);
    let line = |v: LocId| after.locs.get(v).line;
    let computing = after.nodes().iter().filter(|n| matches!(n.op, Op::Convolution(_) | Op::Unary(_) | Op::Binary(_)));
    let mut lines: Vec<u32> = computing.map(|n| line(n.loc)).collect();
    lines.dedup();
    assert_eq!(lines, [1, 2, 3, 4, 5, 6]);
    let mut changed: Vec<u32> = changes.iter().flat_map(|c| &c.locs).map(|&l| line(l)).collect();
    changed.sort_unstable();
    assert_eq!(changed, [1, 2, 3, 4, 5, 6]);
}

#[test]
fn bodies_are_formulated_and_blamed_on_the_node_that_holds_them() {
    let b = Builder::new("outer");
    let pred = b.input("p", InputKind::User, TensorType::new(DType::Bool, []));
    let body = chain(3, 99);
    let operands: Vec<ValueId> =
        body.input_types().map(|t| b.input("x", InputKind::User, t.tensor().unwrap().clone())).collect();
    at(&b, 40);
    let results = b.if_then_else(pred, &operands, body, chain(3, 99)).unwrap();
    b.output("y", OutputKind::User, results[0]);
    let graph = b.finish();
    let (after, changes) = formulated(&graph, Class::Reassociating, None);
    assert_eq!(changes.len(), 6);
    assert!(changes.iter().flat_map(|c| &c.locs).all(|&l| after.locs.get(l).line == 40));
    let mut inputs = Random(5).inputs(&graph, false);
    for taken in [0, 1] {
        inputs[0].bytes = vec![taken].into();
        assert_close(&graph, &after, &inputs);
    }
}

#[test]
fn a_longer_program_gets_no_more_ops_a_convolution() {
    let made = |length: u32| formulated(&chain(length, 4), Class::Reassociating, None).0.nodes().len();
    let (short, long) = (made(200), made(2000));
    assert!(long <= short * 10, "{short} {long}");
}

#[test]
fn sums_over_features_and_space_run_as_they_did() {
    let b = Builder::new("sums");
    let x = b.input("x", InputKind::User, TensorType::new(DType::F64, [2, 4, 4, 4]));
    let grown = (0..4).try_fold(x, |x, _| b.unary(Unary::Tanh, plain(&b, x, 4, 3, 1, 1))).unwrap();
    b.output("y", OutputKind::User, b.reduce(grown, ir::Reducer::Add, &[1, 2, 3]).unwrap());
    let graph = b.finish();
    let (after, changes) = formulated(&graph, Class::Exact, None);
    assert_eq!(changes.len(), 4);
    (0..10).for_each(|seed| assert_same_bits(&graph, &after, &Random(seed).inputs(&graph, false)));
}

/// `x` times `y`, matrix by matrix.
fn by_heads(b: &Builder, x: ValueId, y: ValueId) -> ValueId {
    batched_dot(b, [x, y], [&[0, 1]; 2], [&[3], &[2]])
}

#[test]
fn a_scaled_operand_is_taken_as_it_lies() {
    // Queries by heads, scaled after they were transposed, as the optimizer leaves them.
    let b = Builder::new("scaled_queries");
    at(&b, 7);
    let of = |name: &str| b.input(name, InputKind::User, TensorType::new(DType::F32, [2, 9, 8, 8]));
    let turned = b.transpose(of("x"), &[0, 2, 1, 3]).expect("four dimensions");
    let scale = b.full_like(turned, Number::Float(0.35)).expect("a splat");
    let scaled = b.multiply(turned, scale).expect("alike");
    let keys = b.transpose(of("y"), &[0, 2, 3, 1]).expect("four dimensions");
    b.output("scores", OutputKind::User, by_heads(&b, scaled, keys));
    let graph = b.finish();
    let (after, changes) = formulated_for(Platform::CpuWithBlas, &graph, Class::Exact, None);
    assert_eq!(rules(&changes), ["product-by-the-host"]);
    assert_eq!((transposes(&graph), transposes(&after)), (2, 0));
    assert_same_bits(&graph, &after, &Random(1).inputs(&graph, true));
}

#[test]
fn a_mask_that_several_products_repeat_is_added_by_loops() {
    let b = Builder::new("masked_twice");
    at(&b, 7);
    let input = |name: &str, shape: &[usize]| {
        b.input(name, InputKind::User, TensorType::new(DType::F32, shape.iter().copied()))
    };
    let mask = input("mask", &[2, 1, 9, 9]);
    let repeated = b.broadcast_in_dim(mask, &[2, 8, 9, 9], &[0, 1, 2, 3]).expect("one head for all");
    let whole = input("whole", &[2, 8, 9, 9]);
    for (name, addend) in [("repeated", repeated), ("again", repeated), ("whole", whole)] {
        let scores = by_heads(&b, input(name, &[2, 8, 9, 8]), input(name, &[2, 8, 8, 9]));
        b.output(name, OutputKind::User, b.add(scores, addend).expect("alike"));
    }
    assert_eq!(finishes(&with_host(&b.finish(), Class::Exact)), [[false, false, true, false]], "of the whole one");
}

/// What is done to each result in the host's own calls: scale, bias, addend, relu.
fn finishes(graph: &Graph) -> Vec<[bool; 4]> {
    let of = |op: &Op| match op {
        Op::Finished(f) => Some([f.scale, f.bias, f.addend, f.relu]),
        _ => None,
    };
    graph.nodes().iter().filter_map(|n| of(&n.op)).collect()
}

/// `graph` where the host takes calls, which computes the same.
fn with_host(graph: &Graph, most: Class) -> Graph {
    let (after, changes) = formulated_for(Platform::CpuWithBlas, graph, most, None);
    let told = rules(&changes).iter().filter(|r| r.ends_with("ed-by-the-host")).count();
    assert_eq!(told, finishes(&after).len());
    match most {
        Class::Exact => assert_same_bits(graph, &after, &Random(1).inputs(graph, true)),
        _ => assert_close(graph, &after, &Random(1).inputs(graph, false)),
    }
    assert_eq!(finishes(&formulated(graph, most, None).0), [[false; 4]; 0], "there is nobody to ask");
    after
}

#[test]
fn what_is_done_to_results_is_done_in_the_call() {
    let mut made = [0; 4];
    for seed in 0..2 * ROUNDS {
        let graph = Finishing::random(&mut Random(seed));
        let after = with_host(&graph, if seed % 2 == 0 { Class::Exact } else { Class::Reassociating });
        for finish in finishes(&after) {
            made.iter_mut().zip(finish).for_each(|(made, done)| *made += usize::from(done));
        }
    }
    assert!(made.iter().all(|&made| made > 20), "{made:?}");
}

#[test]
fn a_result_is_finished_as_far_as_it_can_be() {
    for convolves in [false, true] {
        let done = |most, f: &dyn Fn(&Finishing)| {
            let it = Finishing::new(convolves, DType::F32);
            f(&it);
            finishes(&with_host(&it.graph(), most))
        };
        // A convolution is no exact product.
        let most = if convolves { Class::Reassociating } else { Class::Exact };
        let done_to = |f: &dyn Fn(&Finishing)| done(most, f);
        let (bias, all) = ([false, true, false, false], [false, true, true, true]);
        assert_eq!(done_to(&|it| it.output(it.relu(it.added(it.biased(it.start(false)), None)))), [all]);
        for in_a_loop in [|it: &Finishing, v| it.biased(it.relu(v)), |it: &Finishing, v| it.tanh(it.biased(v))] {
            assert_eq!(
                done_to(&|it| it.output(in_a_loop(it, it.start(false)))),
                [[false; 4]; 0],
                "a loop is left anyway"
            );
        }
        let both = |it: &Finishing| {
            let other = it.biased(it.start(false));
            it.output(it.relu(it.added(it.biased(it.start(false)), Some(other))));
        };
        assert_eq!(done_to(&both), [bias, all], "a sum of two");
        let read_twice = |it: &Finishing| {
            let biased = it.biased(it.start(false));
            it.output(biased);
            it.output(it.relu(biased));
        };
        assert_eq!(done_to(&read_twice), [bias]);
        let scaled = |it: &Finishing| it.output(it.biased(it.start(true)));
        assert!(convolves || done_to(&scaled) == [bias], "a scaled sum is another");
        assert_eq!(done(Class::Reassociating, &scaled), [[true, true, false, false]]);
    }
    let reshaped = Finishing::new(false, DType::F64);
    reshaped.output(reshaped.added(reshaped.reshaped(reshaped.biased(reshaped.start(false))), None));
    assert_eq!(finishes(&with_host(&reshaped.graph(), Class::Exact)), [[false, true, true, false]]);
}

#[test]
fn positions_that_nobody_reads_are_left_out() {
    let graph = |windows: bool, reads: bool| {
        let b = Builder::new("pool");
        at(&b, 7);
        let x = b.input("x", InputKind::User, TensorType::new(DType::F32, [2, 3, 9, 8]));
        let positions = b.iota(DType::I64, &[2, 3, 9, 8], 2).unwrap();
        let mut window = ir::op::Window::trivial(4);
        window.size[2..].copy_from_slice(&[3, 2]);
        window.strides[2..].copy_from_slice(&[2, 2]);
        window.padding[2..].copy_from_slice(&[(1, 1), (0, 1)]);
        let op = match windows {
            true => Op::ReduceWindow { reducer: Reducer::ArgMax, window },
            false => Op::Reduce { reducer: Reducer::ArgMax, dims: [2, 3].into_iter().collect() },
        };
        let both = b.push(op, &[x, positions], vec![]).unwrap();
        let (values, positions) = (b.element(both, 0).unwrap(), b.element(both, 1).unwrap());
        b.output("y", OutputKind::User, values);
        if reads {
            b.output("i", OutputKind::User, positions);
        }
        b.finish()
    };
    for (platform, windows) in [Platform::Cpu, Platform::CpuWithBlas].into_iter().flat_map(|p| [(p, false), (p, true)])
    {
        for special in [false, true] {
            let (after, changes) = formulated_for(platform, &graph(windows, false), Class::Reassociating, None);
            assert!(rules(&changes).contains(&"unread-positions"), "{changes:?}");
            assert!(
                after
                    .nodes()
                    .iter()
                    .all(|n| !matches!(n.op, Op::Iota { .. } | Op::Reduce { reducer: Reducer::ArgMax, .. }))
            );
            let inputs = Random(1).inputs(&graph(windows, false), special);
            let [before, after] = [&graph(windows, false), &after].map(|g| ir::eval(g, &inputs).unwrap());
            assert!(crate::rules::tests::same(&before[0], &after[0], Class::Exact).is_ok());
        }
        let (_, changes) = formulated_for(platform, &graph(windows, true), Class::Reassociating, None);
        assert!(!rules(&changes).contains(&"unread-positions"));
        let (_, changes) = formulated_for(platform, &graph(windows, false), Class::Exact, None);
        assert!(!rules(&changes).contains(&"unread-positions"), "zeros have signs");
    }
}

/// A step of gradient descent on layers of `size` by `size`. `late`: gradients of weights come before those of what they
/// multiply.
fn descent(layers: usize, size: usize, late: bool) -> Graph {
    let b = Builder::new("descent");
    let ty = TensorType::new(DType::F32, [size, size]);
    let input = |name: String| b.input(name, InputKind::User, ty.clone());
    let weights: Vec<ValueId> = (0..layers).map(|i| input(format!("w{i}"))).collect();
    let mut kept = vec![input("x".to_owned())];
    for &w in &weights {
        kept.push(b.unary(Unary::Tanh, dot(&b, kept[kept.len() - 1], w, &[1], &[1])).unwrap());
    }
    let mut back = kept[layers];
    for (i, &w) in weights.iter().enumerate().rev() {
        let of_weight = || dot(&b, back, kept[i], &[0], &[0]);
        let early = (!late).then(of_weight);
        let next = (i > 0).then(|| b.unary(Unary::Tanh, dot(&b, back, w, &[1], &[0])).unwrap());
        let gradient = early.unwrap_or_else(of_weight);
        b.output(format!("w{i}"), OutputKind::Mutation(i), b.binary(Binary::Subtract, w, gradient).unwrap());
        b.output(format!("g{i}"), OutputKind::User, gradient);
        back = next.unwrap_or(back);
    }
    b.finish()
}

#[test]
fn weights_are_read_before_they_are_overwritten() {
    let ordered = |platform, graph: &Graph| {
        let (after, changes) = formulated_for(platform, graph, Class::Exact, None);
        assert_same_bits(graph, &after, &Random(1).inputs(graph, false));
        let read_late = after.outputs.iter().filter(|o| match o.kind {
            OutputKind::Mutation(input) => {
                let behind = behind(&after, o.value);
                let reads = |n: &Node| n.operands.contains(&after.inputs[input].value);
                !(0..after.nodes().len()).all(|i| behind[i] || !reads(after.node(ValueId::new(i))))
            }
            OutputKind::User => false,
        });
        let waited = after.nodes().iter().filter(|n| matches!(n.op, Op::HostBarrier)).map(|n| n.operands.len() - 1);
        assert!(waited.eq(rules(&changes).iter().map(|_| 1)), "for one gradient each, and not for the product itself");
        let again = formulated_for(platform, &after, Class::Exact, None).1;
        assert!(!rules(&again).contains(&"read-before-overwritten"), "once is enough");
        (read_late.count(), rules(&changes).iter().filter(|&&r| r == "read-before-overwritten").count())
    };
    for late in [false, true] {
        assert_eq!(ordered(Platform::CpuWithBlas, &descent(3, 16, late)), (0, 2));
        assert_eq!(ordered(Platform::CpuWithBlas, &descent(1, 16, late)), (0, 0), "only the gradient reads it");
        assert_eq!(ordered(Platform::CpuWithBlas, &descent(3, 15, late)), (2, 0), "too small");
        assert_eq!(ordered(Platform::Cpu, &descent(3, 16, late)), (2, 0), "there is nobody to ask");
    }
}

#[test]
fn of_two_gradients_that_read_what_the_other_overwrites_one_waits() {
    let b = Builder::new("low rank");
    let ty = TensorType::new(DType::F32, [16, 16]);
    let [up, down, back] = ["up", "down", "back"].map(|name| b.input(name, InputKind::User, ty.clone()));
    let gradients = [dot(&b, back, down, &[1], &[1]), dot(&b, up, back, &[0], &[0])];
    for (i, (weight, gradient)) in [up, down].into_iter().zip(gradients).enumerate() {
        b.output(format!("w{i}"), OutputKind::Mutation(i), b.binary(Binary::Subtract, weight, gradient).unwrap());
    }
    let graph = b.finish();
    let (after, changes) = formulated_for(Platform::CpuWithBlas, &graph, Class::Exact, None);
    assert_same_bits(&graph, &after, &Random(1).inputs(&graph, false));
    assert_eq!(rules(&changes).iter().filter(|&&rule| rule == "read-before-overwritten").count(), 1);
}

/// By node, whether `v` is computed of it.
pub(super) fn behind(graph: &Graph, v: ValueId) -> Vec<bool> {
    let mut behind = vec![false; graph.nodes().len()];
    let mut open = vec![v];
    while let Some(v) = open.pop() {
        if !std::mem::replace(&mut behind[v.index()], true) {
            open.extend(&graph.node(v).operands);
        }
    }
    behind
}
