use super::{Machine, Region, regions};
use ir::{Graph, Op, ValueId};

mod optimum;
pub(super) mod random;

/// About a v5e.
pub(crate) const TPU: Machine = Machine {
    bandwidth: 819_000_000_000,
    products: 98_500_000_000_000,
    is_tpu: true,
    arithmetic: 6_144_000_000_000,
    transcendentals: 1_536_000_000_000,
    on_chip: 128 << 20,
    start: 1_200_000,
};

fn parse(text: &str) -> Graph {
    ir::text::parse(text).unwrap_or_else(|e| panic!("{e}"))
}

/// By node: the region that it is a member of.
fn region_of(graph: &Graph, found: &[Region]) -> Vec<Option<usize>> {
    let mut of = vec![None; graph.nodes().len()];
    for (i, region) in found.iter().enumerate() {
        for v in &region.members {
            assert_eq!(of[v.index()].replace(i), None, "{v} is a member twice");
        }
    }
    of
}

/// What must hold for any graph.
pub(super) fn check(graph: &Graph, found: &[Region]) {
    let of = region_of(graph, found);
    for (i, node) in graph.nodes().iter().enumerate() {
        let is_given = matches!(node.op, Op::Input { .. } | Op::Constant(_));
        assert_eq!(of[i].is_none(), is_given, "%{i} in\n{}", ir::text::print(graph));
    }
    // What a region reads was written before: it can run when its turn comes, so no two wait for each other.
    let mut written = vec![false; graph.nodes().len()];
    for region in found {
        for (v, _) in &region.inputs {
            assert!(
                of[v.index()].is_none() || written[v.index()],
                "{v} is read too early in\n{}",
                ir::text::print(graph)
            );
        }
        region.outputs.iter().for_each(|v| written[v.index()] = true);
        region.remade.iter().for_each(|v| assert!(of[v.index()].is_some_and(|r| r < found.len())));
        operands_are_there(graph, region);
    }
    let is_out = |v: ValueId| of[v.index()].is_none() || written[v.index()];
    assert!(graph.outputs.iter().all(|o| is_out(o.value)), "an output is not written");
}

/// Every operand of what a region computes is computed there too, or read.
fn operands_are_there(graph: &Graph, region: &Region) {
    let has = |v: &ValueId| region.members.contains(v) || region.remade.contains(v);
    let reads = |v: &ValueId| region.inputs.iter().any(|(i, _)| i == v);
    for v in region.members.iter().chain(&region.remade) {
        for operand in &graph.node(*v).operands {
            let node = graph.node(*operand);
            let is_element = matches!(node.op, Op::GetTupleElement { .. }) && reads(&node.operands[0]);
            let is_splat = matches!(&node.op, Op::Constant(l) if l.is_splat());
            assert!(
                has(operand) || reads(operand) || is_element || is_splat,
                "{operand} in {region:?}\n{}",
                ir::text::print(graph)
            );
        }
    }
}

const SOFTMAX: &str = "graph @softmax {
  %0: f32[1024,512] = input 0 \"x\" user
  %1: f32[1024] = reduce(reducer:maximum,dims:[1]) %0
  %2: f32[1024,512] = broadcast_in_dim(shape:[1024,512],dims:[0]) %1
  %3: f32[1024,512] = subtract %0, %2
  %4: f32[1024,512] = exponential %3
  %5: f32[1024] = reduce(reducer:add,dims:[1]) %4
  %6: f32[1024,512] = broadcast_in_dim(shape:[1024,512],dims:[0]) %5
  %7: f32[1024,512] = divide %4, %6
  return %7 \"y\"
}";

#[test]
fn a_softmax_is_one_region() {
    let graph = parse(SOFTMAX);
    let found = regions(&graph, &TPU);
    check(&graph, &found);
    let [softmax] = &found[..] else { panic!("{found:?}") };
    let size = 1024 * 512 * 4;
    assert_eq!((softmax.read, softmax.written), (2 * size, size), "as libtpu does: the maximum reads it in HBM");
    assert!(softmax.kept >= 2 * size, "{softmax:?}");
    assert_eq!((&softmax.name[..], softmax.bound), ("softmax", "memory"));
    assert_eq!(softmax.picoseconds, 3 * size * 1_000_000 / 819_000 + TPU.start);
}

#[test]
fn passes_over_what_another_region_made_read_it_once() {
    let later = (0..8).rev().fold(SOFTMAX.to_owned(), |text, i| text.replace(&format!("%{i}"), &format!("%{}", i + 1)));
    let sorted = "%0: f32[1024,512] = input 0 \"x\" user
  %1: f32[1024,512] = sort(dim:1,descending:false,stable:true) %0";
    let from_sort = later.replace("%1: f32[1024,512] = input 0 \"x\" user", sorted);
    let found = regions(&parse(&from_sort), &TPU);
    let [_, softmax] = &found[..] else { panic!("{found:?}") };
    let size = 1024 * 512 * 4;
    assert_eq!((softmax.read, softmax.written), (size, size));
}

#[test]
fn a_cpu_keeps_what_it_reads_and_pads_nothing() {
    let small = SOFTMAX.replace("1024,512", "96,56").replace("[1024]", "[96]");
    let [softmax] = &regions(&parse(&small), &Machine::CPU)[..] else { panic!("one region") };
    assert_eq!((softmax.read, softmax.written), (96 * 56 * 4, 96 * 56 * 4));
}

#[test]
fn padding_is_moved_too() {
    let graph = parse(
        "graph @padded {
  %0: f32[4,32,56,56] = input 0 \"x\" user
  %1: f32[4,32,56,56] = exponential %0
  return %1 \"y\"
}",
    );
    let [exp] = &regions(&graph, &TPU)[..] else { panic!("one region") };
    let size = 4 * 32 * 56 * 128 * 4;
    assert_eq!((exp.read, exp.written), (size, size));
}

/// A table of zeros, 16 rows of which are set or added to.
fn scattered(combiner: &str) -> (u64, u64) {
    let numbers = "update_window_dims:[1],inserted_window_dims:[0],input_batching_dims:[],scatter_indices_batching_dims:[],\
                   scatter_dims_to_operand_dims:[0],index_vector_dim:1,unique_indices:true";
    let graph = parse(&format!(
        "graph @g {{
  %0: i32[16] = input 0 \"rows\" user
  %1: f32[16,128] = input 1 \"updates\" user
  %2: f32[] = constant 0.0
  %3: f32[4096,128] = broadcast_in_dim(shape:[4096,128],dims:[]) %2
  %4: f32[4096,128] = scatter(combiner:{combiner},{numbers}) %3, %0, %1
  return %4 \"y\"
}}"
    ));
    let found = regions(&graph, &TPU);
    let [zeros, scatter] = &found[..] else { panic!("{found:?}") };
    assert_eq!((zeros.read, zeros.written), (0, 4096 * 128 * 4));
    (scatter.read, scatter.written)
}

#[test]
fn rows_that_are_replaced_are_not_read() {
    let (rows, indices) = (16 * 128 * 4, 512);
    assert_eq!(scattered("set"), (rows + indices, rows));
    assert_eq!(scattered("add"), (2 * rows + indices, rows));
}

#[test]
fn a_softmax_that_does_not_fit_is_several() {
    let graph = parse(&SOFTMAX.replace("1024,512", "131072,512").replace("[1024]", "[131072]"));
    let found = regions(&graph, &TPU);
    check(&graph, &found);
    assert!(found.len() > 1, "{found:?}");
}

#[test]
fn a_norm_goes_with_the_product_that_reads_it() {
    let text = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../testdata/patterns/norm_weight_folding.txt"
    ));
    let graph = parse(&text.unwrap());
    let found = regions(&graph, &TPU);
    check(&graph, &found);
    let [norm] = &found[..] else { panic!("{found:?}") };
    assert_eq!(norm.name, "rmsnorm+matmul");
    assert_eq!(norm.read, (2 * 8192 * 256 + 256 + 32 * 256) * 4, "two passes read x in HBM");
    assert_eq!(norm.written, 8192 * 32 * 4);
}

#[test]
fn what_runs_alone_is_alone() {
    let graph = parse(
        "graph @sorted {
  %0: f32[64,512] = input 0 \"x\" user
  %1: f32[64,512] = negate %0
  %2: f32[64,512] = sort(dim:1,descending:false,stable:true) %1
  %3: f32[64,512] = exponential %2
  return %3 \"y\"
}",
    );
    let found = regions(&graph, &TPU);
    check(&graph, &found);
    assert_eq!(
        found.iter().map(|r| (&r.name[..], r.members.len())).collect::<Vec<_>>(),
        [("neg", 1), ("sort", 1), ("exp", 1)]
    );
    assert!(found[0].borders[0].why.starts_with("one of them runs by itself"), "{:?}", found[0]);
}

#[test]
fn what_takes_a_few_elements_reads_no_more() {
    let graph = parse(
        "graph @taken {
  %0: f32[512,8192] = input 0 \"x\" user
  %1: i64[512,1,1] = input 1 \"i\" user
  %2: f32[512,8192,1] = reshape(shape:[512,8192,1]) %0
  %3: f32[512,1] = gather(offset_dims:[],collapsed_slice_dims:[1],operand_batching_dims:[0,2],start_indices_batching_dims:[0,1],start_index_map:[1],index_vector_dim:2,slice_sizes:[1,1,1]) %2, %1
  return %3 \"y\"
}",
    );
    let [gather] = &regions(&graph, &TPU)[..] else { panic!("one region") };
    assert_eq!((gather.read, gather.written), (512 * 4 + 512 * 8, 512 * 4));
}

#[test]
fn positions_among_which_pooling_picks_are_not_read() {
    let graph = parse(
        "graph @pooled {
  %0: f32[16,8,128] = input 0 \"x\" user
  %1: i64[128] = iota(dtype:i64,shape:[128],dim:0)
  %2: i64[16,8,128] = broadcast_in_dim(shape:[16,8,128],dims:[2]) %1
  %3: (f32[16,8,64], i64[16,8,64]) = reduce_window(reducer:arg_max,window:(size:[1,1,2],strides:[1,1,2],padding:[(0,0),(0,0),(0,0)],base_dilation:[1,1,1],dilation:[1,1,1])) %0, %2
  %4: f32[16,8,64] = get_tuple_element(index:0) %3
  return %4 \"y\"
}",
    );
    let found = regions(&graph, &TPU);
    check(&graph, &found);
    let [pool] = &found[..] else { panic!("{found:?}") };
    assert_eq!(pool.read, 16 * 8 * 128 * 4);
    assert_eq!(regions(&graph, &Machine::CPU).len(), 2);
}

#[test]
fn products_are_apart_and_take_what_follows() {
    let graph = parse(
        "graph @mlp {
  %0: f32[256,512] = input 0 \"x\" user
  %1: f32[512,512] = input 1 \"v\" parameter
  %2: f32[512,512] = input 2 \"w\" parameter
  %3: f32[512] = input 3 \"b\" parameter
  %4: f32[256,512] = dot_general(lhs_batch:[],rhs_batch:[],lhs_contract:[1],rhs_contract:[0],precision:highest,out:f32) %0, %1
  %5: f32[256,512] = broadcast_in_dim(shape:[256,512],dims:[1]) %3
  %6: f32[256,512] = add %4, %5
  %7: f32[256,512] = tanh %6
  %8: f32[256,512] = dot_general(lhs_batch:[],rhs_batch:[],lhs_contract:[1],rhs_contract:[0],precision:highest,out:f32) %7, %2
  %9: f32[256,512] = add %8, %0
  return %9 \"y\"
}",
    );
    let found = regions(&graph, &TPU);
    check(&graph, &found);
    let members: Vec<Vec<usize>> = found.iter().map(|r| r.members.iter().map(|v| v.index()).collect()).collect();
    assert_eq!(members, [vec![4, 5, 6, 7], vec![8, 9]]);
    assert_eq!(found.iter().map(|r| &r.name[..]).collect::<Vec<_>>(), ["matmul+bias+tanh", "matmul+add"]);
    let [border] = &found[0].borders[..] else { panic!("{found:?}") };
    assert_eq!((border.region, &border.why[..]), (1, "a region has one product"));
}

#[test]
fn updates_of_parameters_do_not_hang_together_by_a_number() {
    let graph = parse(
        "graph @sgd {
  %0: f32[512,512] = input 0 \"v\" parameter
  %1: f32[512,512] = input 1 \"w\" parameter
  %2: f32[512,512] = input 2 \"dv\" user
  %3: f32[512,512] = input 3 \"dw\" user
  %4: f32[] = input 4 \"rate\" user
  %5: f32[] = negate %4
  %6: f32[512,512] = broadcast_in_dim(shape:[512,512],dims:[]) %5
  %7: f32[512,512] = multiply %2, %6
  %8: f32[512,512] = add %0, %7
  %9: f32[512,512] = multiply %3, %6
  %10: f32[512,512] = add %1, %9
  return %8 \"v\" mutates 0, %10 \"w\" mutates 1
}",
    );
    let found = regions(&graph, &TPU);
    check(&graph, &found);
    let with = |v: usize| found.iter().position(|r| r.members.contains(&ValueId::new(v)));
    assert_ne!(with(8), with(10));
    assert_eq!((with(7), with(9)), (with(8), with(10)));
}

/// One parameter's step, as PyTorch's decomposition of AdamW writes it.
const ADAMW: &str = "graph @adamw {
  %0: f32[512,512] = input 0 \"p\" parameter
  %1: f32[512,512] = input 1 \"g\" user
  %2: f32[512,512] = input 2 \"m\" user
  %3: f32[512,512] = input 3 \"v\" user
  %4: f32[] = constant 0.999
  %5: f32[512,512] = broadcast_in_dim(shape:[512,512],dims:[]) %4
  %6: f32[512,512] = multiply %0, %5
  %7: f32[] = constant 0.9
  %8: f32[512,512] = broadcast_in_dim(shape:[512,512],dims:[]) %7
  %9: f32[512,512] = multiply %2, %8
  %10: f32[] = constant 0.1
  %11: f32[512,512] = broadcast_in_dim(shape:[512,512],dims:[]) %10
  %12: f32[512,512] = multiply %1, %11
  %13: f32[512,512] = add %9, %12
  %14: f32[512,512] = multiply %3, %5
  %15: f32[512,512] = multiply %1, %1
  %16: f32[512,512] = multiply %15, %11
  %17: f32[512,512] = add %14, %16
  %18: f32[512,512] = sqrt %17
  %19: f32[512,512] = add %18, %11
  %20: f32[512,512] = divide %13, %19
  %21: f32[512,512] = subtract %6, %20
  return %21 \"p\" mutates 0, %13 \"m\" mutates 2, %17 \"v\" mutates 3
}";

#[test]
fn a_step_of_adamw_is_one_region() {
    let graph = parse(ADAMW);
    let found = regions(&graph, &TPU);
    check(&graph, &found);
    let [step] = &found[..] else { panic!("{found:?}") };
    let size = 512 * 512 * 4;
    assert_eq!((&step.name[..], step.read, step.written), ("adamw_update", 4 * size, 3 * size));
    let plain = ADAMW.replace("multiply %0, %5", "add %0, %5");
    assert_eq!(regions(&parse(&plain), &TPU)[0].name, "adam_update");
}

#[test]
fn names_say_what_a_region_does() {
    let shape = "f32[64,256]";
    let body = |lines: &[&str], last: usize| {
        let lines: Vec<String> =
            lines.iter().enumerate().map(|(i, l)| format!("  %{}: {shape} = {l}\n", i + 4)).collect();
        let text = format!(
            "graph @g {{
  %0: {shape} = input 0 \"x\" user
  %1: f32[256] = input 1 \"b\" parameter
  %2: {shape} = broadcast_in_dim(shape:[64,256],dims:[1]) %1
  %3: f32[] = constant 0.5
{}  return %{last} \"y\"\n}}",
            lines.concat()
        );
        let found = regions(&parse(&text).without_dead_nodes(), &TPU);
        found.iter().map(|r| r.name.clone()).collect::<Vec<_>>().join(" | ")
    };
    let half = "broadcast_in_dim(shape:[64,256],dims:[]) %3";
    assert_eq!(
        body(&["add %0, %2", half, "multiply %4, %5", "erf %4", "add %7, %5", "multiply %6, %8"], 9),
        "bias+gelu"
    );
    assert_eq!(body(&["logistic %0", "multiply %0, %4"], 5), "silu");
    assert_eq!(body(&["logistic %0", "add %4, %0"], 5), "sigmoid+add");
    assert_eq!(body(&[half, "maximum %0, %4"], 5), "relu");
    assert_eq!(body(&["subtract %0, %2", "multiply %4, %0"], 5), "sub+mul");
}

#[test]
fn twenty_thousand_ops_take_no_more_than_their_share() {
    let asked = |layers: usize| {
        let graph = random::layers(layers);
        let found = regions(&graph, &TPU);
        check_order_only(&graph, &found);
        (graph.nodes().len(), found.len())
    };
    let (small, large) = (asked(50), asked(1000));
    assert!(large.0 > 20_000, "{large:?}");
    assert_eq!(large.1 - small.1, 950 * (small.1 / 50), "as many regions a layer as in a small program");
}

/// That each op is in one region: what [`check`] says, for programs of any size.
fn check_order_only(graph: &Graph, found: &[Region]) {
    let of = region_of(graph, found);
    assert!(
        graph.nodes().iter().zip(&of).all(|(n, r)| r.is_none() == matches!(n.op, Op::Input { .. } | Op::Constant(_)))
    );
}

#[test]
fn what_is_given_out_twice_is_written_twice() {
    let text = "graph @g {
  %0: f32[512,1024] = input 0 \"x\" user
  %1: f32[512,1024] = tanh %0
  return %1 \"y\", %1 \"last\"
}";
    for (machine, name) in [(TPU, "a TPU"), (Machine::CPU, "a CPU")] {
        let found = regions(&parse(text), &machine);
        assert_eq!(found.iter().map(|r| r.written).collect::<Vec<_>>(), [2 * 512 * 1024 * 4], "{name}");
    }
}

#[test]
fn a_stable_sort_writes_positions_on_a_tpu() {
    let written = |stable: bool, machine: Machine| {
        let text = format!(
            "graph @g {{
  %0: bf16[512,1024] = input 0 \"x\" user
  %1: bf16[512,1024] = sort(dim:1,descending:false,stable:{stable}) %0
  return %1 \"y\"
}}"
        );
        regions(&parse(&text), &machine).iter().map(|r| r.written).sum::<u64>()
    };
    assert_eq!(written(true, TPU), 512 * 1024 * (2 + 4));
    assert_eq!(written(false, TPU), 512 * 1024 * 2);
    assert_eq!(written(true, Machine::CPU), 512 * 1024 * 2);
}

#[test]
fn a_slice_of_what_is_made_needs_it_in_memory_on_a_tpu() {
    let text = "graph @g {
  %0: f32[64,1024] = input 0 \"x\" user
  %1: f32[64,1024] = add %0, %0
  %2: f32[64,1024] = maximum %0, %1
  %3: f32[64,512] = slice(start:[0,0],limit:[64,512],stride:[1,1]) %2
  %4: f32[64,1024] = concatenate(dim:1) %3, %3
  %5: f32[64,1024] = maximum %4, %0
  return %5 \"last\"
}";
    let read = |machine: Machine| regions(&parse(text), &machine).iter().map(|r| r.read).sum::<u64>();
    assert_eq!((read(TPU), read(Machine::CPU)), (2 * 64 * 1024 * 4, 64 * 1024 * 4));
}
