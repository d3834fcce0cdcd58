//! What XLA and PyTorch leave to convention, op by op. Sizes and the aten table's samples are checked against PyTorch
//! (tests/python/test_samples.py) and the CPU plugin (crates/lower) at large.

use super::*;
use crate::text;

/// Enough for the tests' own loops, and soon used up by an endless one.
const LIMITS: Limits = Limits { iterations: 1000, bytes: 1 << 20 };

/// The last value of `nodes`, lines of the text format numbered from 0 on.
fn value(nodes: &[&str]) -> Result<Literal> {
    let lines: Vec<String> = nodes.iter().enumerate().map(|(i, n)| format!("%{i}: {n}\n")).collect();
    let graph = format!("graph @g {{\n{}return %{} \"y\"\n}}", lines.concat(), nodes.len() - 1);
    let graph = text::parse(&graph).unwrap_or_else(|e| panic!("{e}"));
    eval_within(&graph, &[], LIMITS).map(|mut outputs| outputs.remove(0))
}

/// Asserts that the last of `nodes` is the constant that `want` spells, to the bit.
#[track_caller]
fn gives(nodes: &[&str], want: &str) {
    let (got, want) = (value(nodes).unwrap(), value(&[want]).unwrap());
    let bytes = |l: &Literal| (l.ty.clone(), l.dense_bytes());
    assert_eq!(bytes(&got), bytes(&want), "\n got {}\nwant {}", spelled(&got), spelled(&want));
}

fn spelled(l: &Literal) -> String {
    let b = crate::Builder::new("g");
    let v = b.constant(l.clone()).unwrap();
    b.output("y", crate::OutputKind::User, v);
    text::print(&b.finish()).lines().nth(1).unwrap_or_default().to_owned()
}

#[test]
fn integers_wrap_and_divide_as_xla() {
    let (a, b) = ("i8[6] = constant [127, -128, 7, -7, 5, -128]", "i8[6] = constant [1, -1, 2, 2, 0, 0]");
    let op = |op: &str, want: &str| gives(&[a, b, &format!("i8[6] = {op} %0, %1")], want);
    op("add", "i8[6] = constant [-128, 127, 9, -5, 5, -128]");
    op("multiply", "i8[6] = constant [127, -128, 14, -14, 0, 0]");
    op("divide", "i8[6] = constant [127, -128, 3, -3, -1, -1]");
    op("remainder", "i8[6] = constant [0, 0, 1, -1, 5, -128]");
    gives(&["u8[1] = constant [9]", "u8[1] = constant [0]", "u8[1] = divide %0, %1"], "u8[1] = constant [255]");
}

#[test]
fn integer_powers() {
    let (a, b) = ("i32[7] = constant [3, -2, 0, 2, 1, -1, -1]", "i32[7] = constant [4, 3, 0, -1, -5, -3, -2]");
    gives(&[a, b, "i32[7] = power %0, %1"], "i32[7] = constant [81, -8, 1, 0, 1, -1, 1]");
}

#[test]
fn shifts_beyond_the_width() {
    let (a, b) = ("i8[4] = constant [-128, -128, 5, -1]", "i8[4] = constant [7, 8, 100, -1]");
    let op = |op: &str, want: &str| gives(&[a, b, &format!("i8[4] = {op} %0, %1")], want);
    op("shift_left", "i8[4] = constant [0, 0, 0, 0]");
    op("shift_right_logical", "i8[4] = constant [1, 0, 0, 0]");
    op("shift_right_arithmetic", "i8[4] = constant [-1, -1, 0, -1]");
    gives(
        &["u8[2] = constant [128, 128]", "u8[2] = constant [1, 9]", "u8[2] = shift_right_arithmetic %0, %1"],
        "u8[2] = constant [192, 255]",
    );
}

#[test]
fn bits_are_counted_within_the_type() {
    let a = "i16[3] = constant [-1, 0, 256]";
    gives(&[a, "i16[3] = popcnt %0"], "i16[3] = constant [16, 0, 1]");
    gives(&[a, "i16[3] = count_leading_zeros %0"], "i16[3] = constant [0, 16, 7]");
    gives(&["bool[2] = constant [true, false]", "bool[2] = not %0"], "bool[2] = constant [false, true]");
}

#[test]
fn extremes_and_signs_of_floats() {
    let (a, b) = ("f32[4] = constant [0x7fc00000, 1.0, -0.0, 0.0]", "f32[4] = constant [1.0, 0x7fc00000, 0.0, -0.0]");
    gives(&[a, b, "f32[4] = maximum %0, %1"], "f32[4] = constant [0x7fc00000, 0x7fc00000, 0.0, 0.0]");
    gives(&[a, b, "f32[4] = minimum %0, %1"], "f32[4] = constant [0x7fc00000, 0x7fc00000, -0.0, -0.0]");
    gives(&[a, b, "bool[4] = compare_ne %0, %1"], "bool[4] = constant [true, true, false, false]");
    gives(&[a, b, "bool[4] = compare_ge %0, %1"], "bool[4] = constant [false, false, true, true]");
    gives(&[a, "f32[4] = sign %0"], "f32[4] = constant [0x7fc00000, 1.0, -0.0, 0.0]");
}

#[test]
fn rounding_goes_to_the_nearest_even() {
    gives(
        &["f64[4] = constant [0.5, 1.5, -2.5, 2.4]", "f64[4] = round_nearest_even %0"],
        "f64[4] = constant [0.0, 2.0, -2.0, 2.0]",
    );
    // 2^24 + 1 lies between two floats; by way of f64 2^60 + 2^36 + 1 would round twice.
    let ints = "i64[2] = constant [16777217, 1152921573326323713]";
    gives(&[ints, "f32[2] = convert(dtype:f32) %0"], "f32[2] = constant [16777216.0, 1.1529217e18]");
    gives(
        &["f32[2] = constant [1.00390625, 1.01171875]", "bf16[2] = convert(dtype:bf16) %0"],
        "bf16[2] = constant [1.0, 1.015625]",
    );
}

#[test]
fn conversions_saturate() {
    let a = "f32[6] = constant [0x7fc00000, inf, -inf, 300.7, -1.9, 0.5]";
    gives(&[a, "i8[6] = convert(dtype:i8) %0"], "i8[6] = constant [0, 127, -128, 127, -1, 0]");
    gives(&[a, "u8[6] = convert(dtype:u8) %0"], "u8[6] = constant [0, 255, 0, 255, 0, 0]");
    gives(&[a, "bool[6] = convert(dtype:bool) %0"], "bool[6] = constant [true, true, true, true, true, true]");
    gives(
        &["f32[2] = constant [1e9, 448.0]", "f8e4m3fn[2] = convert(dtype:f8e4m3fn) %0"],
        "f8e4m3fn[2] = constant [448.0, 448.0]",
    );
    gives(&["i32[2] = constant [257, -1]", "u8[2] = convert(dtype:u8) %0"], "u8[2] = constant [1, 255]");
    gives(&["c64[] = constant (0.0, 2.0)", "bool[] = convert(dtype:bool) %0"], "bool[] = constant true");
}

#[test]
fn neighbours_in_every_float_type() {
    for (dtype, up) in [("f64", "5e-324"), ("f32", "1e-45"), ("f16", "5.9604645e-8"), ("f8e5m2", "1.5258789e-5")] {
        let nodes = [format!("{dtype}[] = constant -0.0"), format!("{dtype}[] = constant 1.0")];
        gives(
            &[&nodes[0], &nodes[1], &format!("{dtype}[] = next_after %0, %1")],
            &format!("{dtype}[] = constant {up}"),
        );
    }
    let from = "bf16[3] = constant [1.0, 1.0, -1.0]";
    let to = "bf16[3] = constant [2.0, 0.0, 0.0]";
    gives(&[from, to, "bf16[3] = next_after %0, %1"], "bf16[3] = constant [1.0078125, 0.99609375, -0.99609375]");
}

#[test]
fn starts_are_clamped() {
    let a = "i32[4] = constant [1, 2, 3, 4]";
    gives(&[a, "i64[] = constant 9", "i32[2] = dynamic_slice(sizes:[2]) %0, %1"], "i32[2] = constant [3, 4]");
    gives(
        &[a, "i32[2] = constant [8, 9]", "i64[] = constant -5", "i32[4] = dynamic_update_slice %0, %1, %2"],
        "i32[4] = constant [8, 9, 3, 4]",
    );
}

const ROWS: &str = "i32[3,2] = constant [1, 2, 3, 4, 5, 6]";

#[test]
fn gather_clamps() {
    let g = "gather(offset_dims:[1],collapsed_slice_dims:[0],operand_batching_dims:[],\
             start_indices_batching_dims:[],start_index_map:[0],index_vector_dim:1,slice_sizes:[1,2])";
    gives(
        &[ROWS, "i64[3,1] = constant [2, -1, 7]", &format!("i32[3,2] = {g} %0, %1")],
        "i32[3,2] = constant [5, 6, 1, 2, 5, 6]",
    );
}

#[test]
fn gather_along_batching_dimensions() {
    let g = "gather(offset_dims:[],collapsed_slice_dims:[1],operand_batching_dims:[0],\
             start_indices_batching_dims:[0],start_index_map:[1],index_vector_dim:2,slice_sizes:[1,1])";
    gives(
        &[ROWS, "i64[3,1,1] = constant [1, 0, 1]", &format!("i32[3,1] = {g} %0, %1")],
        "i32[3,1] = constant [2, 3, 6]",
    );
}

#[test]
fn scatter_skips_what_does_not_fit() {
    let s = |combiner: &str| {
        format!(
            "i32[3,2] = scatter(combiner:{combiner},update_window_dims:[1],inserted_window_dims:[0],\
             input_batching_dims:[],scatter_indices_batching_dims:[],scatter_dims_to_operand_dims:[0],\
             index_vector_dim:1,unique_indices:false) %0, %1, %2"
        )
    };
    let (at, updates) = ("i64[4,1] = constant [0, 3, 0, -1]", "i32[4,2] = constant [10, 20, 7, 7, 30, 40, 7, 7]");
    gives(&[ROWS, at, updates, &s("add")], "i32[3,2] = constant [41, 62, 3, 4, 5, 6]");
    gives(&[ROWS, at, updates, &s("set")], "i32[3,2] = constant [30, 40, 3, 4, 5, 6]");
    gives(&[ROWS, at, updates, &s("maximum")], "i32[3,2] = constant [30, 40, 3, 4, 5, 6]");
}

#[test]
fn padding_crops_and_spreads() {
    let pad = |low: &str, high: &str, interior: &str, n: usize| {
        format!("i32[{n}] = pad(low:[{low}],high:[{high}],interior:[{interior}]) %0, %1")
    };
    let nodes = ["i32[3] = constant [1, 2, 3]", "i32[] = constant 0"];
    let case = |pad: &str, want: &str| gives(&[nodes[0], nodes[1], pad], want);
    case(&pad("1", "2", "1", 8), "i32[8] = constant [0, 1, 0, 2, 0, 3, 0, 0]");
    case(&pad("-1", "1", "1", 5), "i32[5] = constant [0, 2, 0, 3, 0]");
    case(&pad("-3", "-1", "2", 3), "i32[3] = constant [2, 0, 0]");
    case(&pad("-5", "-2", "3", 2), "i32[2] = constant [0, 0]");
    case(&pad("4", "-6", "0", 1), "i32[1] = constant [0]");
    case(&pad("-9", "8", "0", 2), "i32[2] = constant [0, 0]");
}

#[test]
fn empty_reductions_give_the_identity() {
    let reduce = |dtype: &str, reducer: &str, want: &str| {
        let nodes = [format!("{dtype}[0] = constant []"), format!("{dtype}[] = reduce(reducer:{reducer},dims:[0]) %0")];
        gives(&[&nodes[0], &nodes[1]], &format!("{dtype}[] = constant {want}"));
    };
    reduce("f32", "maximum", "-inf");
    reduce("f8e4m3fn", "maximum", "-448.0");
    reduce("i8", "minimum", "127");
    reduce("u16", "and", "65535");
    reduce("i16", "and", "-1");
    reduce("bool", "and", "true");
    reduce("bool", "maximum", "false");
    reduce("c64", "multiply", "(1.0, 0.0)");
}

#[test]
fn arg_reducers_prefer_nan_and_small_indices() {
    let values = "f32[2,4] = constant [1.0, 3.0, 3.0, 2.0, 5.0, 0x7fc00000, 9.0, 0x7fc00000]";
    let index = "i32[2,4] = iota(dtype:i32,shape:[2,4],dim:1)";
    for (reducer, want) in [("arg_max", "[1, 1]"), ("arg_min", "[0, 1]")] {
        let reduce = format!("(f32[2], i32[2]) = reduce(reducer:{reducer},dims:[1]) %0, %1");
        let project = "i32[2] = get_tuple_element(index:1) %2";
        gives(&[values, index, &reduce, project], &format!("i32[2] = constant {want}"));
    }
}

#[test]
fn windows_with_every_attribute() {
    let window = |size: &str, strides: &str, padding: &str, base: &str, dilation: &str| {
        format!(
            "window:(size:[{size}],strides:[{strides}],padding:[{padding}],base_dilation:[{base}],dilation:[{dilation}])"
        )
    };
    let a = "i32[4] = constant [1, 2, 3, 4]";
    let sum = |n: usize, w: &str| format!("i32[{n}] = reduce_window(reducer:add,{w}) %0");
    gives(&[a, &sum(4, &window("2", "1", "(1,0)", "1", "1"))], "i32[4] = constant [1, 3, 5, 7]");
    gives(&[a, &sum(2, &window("2", "2", "(0,0)", "1", "1"))], "i32[2] = constant [3, 7]");
    gives(&[a, &sum(2, &window("2", "1", "(0,0)", "1", "2"))], "i32[2] = constant [4, 6]");
    gives(&[a, &sum(6, &window("2", "1", "(0,0)", "2", "1"))], "i32[6] = constant [1, 2, 2, 3, 3, 4]");
    gives(&[a, &sum(3, &window("1", "1", "(-1,0)", "1", "1"))], "i32[3] = constant [2, 3, 4]");
}

#[test]
fn select_and_scatter_takes_the_first_maximum() {
    let a = "f32[6] = constant [3.0, 3.0, 1.0, 0x7fc00000, 9.0, 0.0]";
    let w = "window:(size:[2],strides:[2],padding:[(0,0)],base_dilation:[1],dilation:[1])";
    gives(
        &[a, "f32[3] = constant [1.0, 10.0, 100.0]", &format!("f32[6] = select_and_scatter({w}) %0, %1")],
        "f32[6] = constant [1.0, 0.0, 0.0, 10.0, 100.0, 0.0]",
    );
}

#[test]
fn sorting_is_stable_and_puts_nan_last() {
    let keys = "f32[5] = constant [2.0, 0x7fc00000, -0.0, 0.0, -inf]";
    let places = "i32[5] = iota(dtype:i32,shape:[5],dim:0)";
    for (descending, want) in [("false", "[4, 2, 3, 0, 1]"), ("true", "[1, 0, 2, 3, 4]")] {
        let sort = format!("(f32[5], i32[5]) = sort(dim:0,descending:{descending},stable:true) %0, %1");
        let project = "i32[5] = get_tuple_element(index:1) %2";
        gives(&[keys, places, &sort, project], &format!("i32[5] = constant {want}"));
    }
}

#[test]
fn contractions_accumulate_wide() {
    let dot = "dot_general(lhs_batch:[],rhs_batch:[],lhs_contract:[0],rhs_contract:[0],precision:highest,out:i32)";
    let a = "i8[2] = constant [127, 127]";
    gives(&[a, &format!("i32[] = {dot} %0, %0")], "i32[] = constant 32258");
    let dot = dot.replace("i32", "f16");
    let a = "f16[3] = constant [2048.0, 1.0, 1.0]";
    gives(&[a, "f16[3] = constant 1.0", &format!("f16[] = {dot} %0, %1")], "f16[] = constant 2050.0");
}

#[test]
fn convolution_groups() {
    let conv = |features: usize, batches: usize| {
        format!(
            "convolution(strides:[1],padding:[(0,0)],lhs_dilation:[1],rhs_dilation:[1],input_batch:0,input_feature:1,\
             input_spatial:[2],kernel_input_feature:1,kernel_output_feature:0,kernel_spatial:[2],output_batch:0,\
             output_feature:1,output_spatial:[2],feature_group_count:{features},batch_group_count:{batches},\
             precision:highest,out:i32) %0, %1"
        )
    };
    let x = "i32[2,2,2] = constant [1, 2, 3, 4, 5, 6, 7, 8]";
    let nodes = [x, "i32[2,1,1] = constant [10, 100]", &format!("i32[2,2,2] = {}", conv(2, 1))];
    gives(&nodes, "i32[2,2,2] = constant [10, 20, 300, 400, 50, 60, 700, 800]");
    let nodes = [x, "i32[2,2,1] = constant [1, 10, 100, 1000]", &format!("i32[1,2,2] = {}", conv(1, 2))];
    gives(&nodes, "i32[1,2,2] = constant [31, 42, 7500, 8600]");
}

/// Bits that XLA's CPU plugin drew from this state (jaxlib 0.10.2).
#[test]
fn random_bits_are_xlas() {
    let state = "u64[2] = constant [0x123456789abcdef, 0xfffffffffffffffe]";
    let draw = |ty: &str, shape: &str, bits: &str, counter: &str| {
        let node = format!("(u64[2], {ty}[{shape}]) = rng_bit_generator(dtype:{ty},shape:[{shape}]) %0");
        let project = format!("{ty}[{shape}] = get_tuple_element(index:1) %1");
        gives(&[state, &node, &project], &format!("{ty}[{shape}] = constant {bits}"));
        let next = format!("u64[2] = constant [0x123456789abcdef, {counter}]");
        gives(&[state, &node, "u64[2] = get_tuple_element(index:0) %1"], &next);
    };
    draw("u32", "", "0xb0f4215b", "0xffffffffffffffff");
    draw("u32", "3", "[0xb0f4215b, 0xe19a60b4, 0x0b3d7494]", "0");
    let rows = "[0xb0f4215b, 0xb3d7494, 0xaaa4d889, 0xe19a60b4, 0xacf8c4dc, 0x6b35c4f4]";
    draw("u32", "2,3", rows, "1");
    let wide = "[0xb0f4215b, 0xe19a60b4, 0xb3d7494, 0xacf8c4dc, 0xaaa4d889, 0x75a52907, 0xd3dd8613, 0x35d0e5f1, \
                0x8ed17fe4, 0x7c2f19d8, 0xde79bbbd, 0x1713fd18, 0xb09d029e, 0x7d84f441, 0x6ca3e732]";
    draw("u32", "3,5", wide, "7");
    draw("u32", "0,3", "[]", "0xfffffffffffffffe");
    draw("u64", "3", "[0xe19a60b4b0f4215b, 0xacf8c4dc0b3d7494, 0x6b35c4f4aaa4d889]", "1");
}

#[test]
fn loops_end_or_are_stopped() {
    let counting = |until: i64| {
        let graph = |name: &str, node: &str| {
            format!(
                "graph @{name} {{ %0: i64[] = input 0 \"i\" user\n %1: i64[] = constant {until}\n {node}\n return %2 \"y\" }}"
            )
        };
        let cond = graph("cond", "%2: bool[] = compare_lt %0, %1");
        let one = graph("body", "%2: i64[] = subtract %0, %1").replace(&format!("constant {until}"), "constant -1");
        let node = format!("(i64[]) = while %0 {{ {cond} {one} }}");
        value(&["i64[] = constant 0", &node, "i64[] = get_tuple_element(index:0) %1"])
    };
    assert_eq!(counting(1000).unwrap(), Literal::i64s(&[1000]).with_shape(Default::default()).unwrap());
    let stopped = counting(i64::MAX);
    assert!(stopped.unwrap_err().message().contains("longer than the evaluator's limit"));
}

#[test]
fn branches_take_one_side() {
    let branch = |name: &str, op: &str| {
        format!("graph @{name} {{ %0: f32[] = input 0 \"x\" user\n %1: f32[] = {op} %0\n return %1 \"y\" }}")
    };
    for (pred, want) in [("true", "-4.0"), ("false", "2.0")] {
        let node = format!("(f32[]) = if %0, %1 {{ {} {} }}", branch("then", "negate"), branch("else", "sqrt"));
        let pred = format!("bool[] = constant {pred}");
        let nodes = [&pred, "f32[] = constant 4.0", &node, "f32[] = get_tuple_element(index:0) %2"];
        gives(&nodes, &format!("f32[] = constant {want}"));
    }
}

#[test]
fn inputs_must_fit_and_sizes_are_bounded() {
    let graph = text::parse("graph @g { %0: f32[2] = input 0 \"x\" user\n return %0 \"y\" }").unwrap();
    assert_eq!(eval(&graph, &[]).unwrap_err().message(), "@g takes 1 inputs, got 0");
    let wrong = eval(&graph, &[Literal::i64s(&[1, 2])]).unwrap_err();
    assert_eq!(wrong.message(), "input 0 is i64[2], not f32[2]");
    let huge = value(&["f32[] = constant 1.0", "f32[99999999999] = broadcast_in_dim(shape:[99999999999],dims:[]) %0"]);
    assert!(huge.unwrap().is_splat());
    let huge = value(&["i8[99999999999] = iota(dtype:i8,shape:[99999999999],dim:0)"]).unwrap_err();
    assert!(huge.message().contains("exceeds the limit"), "{huge}");
}

/// What evaluating `op` of `n` floats is said to take.
fn work_of(n: usize, op: impl Fn(&crate::Builder, crate::ValueId) -> Result<crate::ValueId>) -> Option<u64> {
    let b = crate::Builder::new("g");
    let x = b.input("x", crate::InputKind::User, TensorType::new(crate::DType::F32, [n]));
    b.output("y", crate::OutputKind::User, op(&b, x).unwrap());
    work(&b.finish())
}

#[test]
fn work_grows_with_elements_and_rounds() {
    let double = |b: &crate::Builder, x| b.add(x, x);
    let (few, many) = (work_of(1000, double).unwrap(), work_of(4000, double).unwrap());
    assert!((3 * few..5 * few).contains(&many), "{few} {many}");
    let repeated = |count| {
        let again = move |b: &crate::Builder, x| {
            let step = |b: &crate::Builder, _, v: &[crate::ValueId]| Ok(vec![b.add(v[0], v[0])?]);
            Ok(crate::ops::loops::repeat(b, count, &[x], step)?[0])
        };
        work_of(1000, again).unwrap()
    };
    assert!((8 * repeated(1)..11 * repeated(1)).contains(&repeated(10)), "{} {}", repeated(1), repeated(10));
    assert!(work_of(8, |b, x| b.unary(crate::op::Unary::Digamma, x)).is_none());
    // Lengths without small factors take longer.
    let spectrum = |n| work_of(n, |b, x| b.fft(x, crate::op::FftKind::Rfft, &[n])).unwrap();
    assert!(20 * spectrum(1024) < spectrum(1021) && spectrum(1021) > 1_000_000, "{}", spectrum(1021));
    // A scan is one pass, windows that are as long but lie otherwise are not.
    let (last, n) =
        (|n| crate::op::Scan { reducer: crate::op::Reducer::Add, dim: 0, backwards: false }.window(&[n]), 1000);
    let windows = |window: crate::op::Window| {
        work_of(n, |b, x| b.reduce_window(x, crate::op::Reducer::Add, window.clone())).unwrap()
    };
    let mut middle = last(n);
    middle.padding[0] = (500, 499);
    assert!(100 * windows(last(n)) < windows(middle));
}
