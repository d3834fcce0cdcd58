//! The programs of testdata/patterns: each holds a pattern that a rule is there for, and the rule is picked.

use ir::{Builder, DType, Graph, InputKind, Loc, Op, OutputKind, TensorType, ValueId};
use std::path::Path;
use torchtpu_fuse::{Options, Platform, optimize};

/// Programs, and rules that have to be among those that are picked.
const PATTERNS: [(&str, &[&str]); 19] = [
    ("adapter", &["dot-of-dot-rhs"]),
    ("chain", &["dot-of-dot-lhs"]),
    ("concat_slice_pad", &["slice-of-unary"]),
    (
        "conv_bn",
        &["products-by-channel", "product-of-difference-by-channel", "shifts-by-channel", "scaled-convolution"],
    ),
    ("convert_chain", &["convert-of-convert"]),
    ("gate_up_merge", &["dots-of-one-lhs"]),
    ("gqa", &["dot-of-reshaped-rhs", "dot-of-rhs-broadcast-along-batch"]),
    ("gradients_merge", &["sum-of-dots"]),
    ("last_token", &["slice-of-dot"]),
    ("layouts", &["transpose-of-convolution"]),
    ("log_softmax_nll", &["pick-of-reshaped-difference"]),
    ("mask_algebra", &["select-same", "broadcast-additive-mask"]),
    ("norm_weight_folding", &["dot-of-scaled-lhs"]),
    ("qkv_merge", &["dots-of-one-lhs"]),
    ("reduction_of_broadcast", &["sum-times-constant"]),
    ("repeat_kv", &["dot-of-transposed-rhs", "dot-of-rhs-broadcast-along-batch"]),
    ("scale_folding", &["scaled-dot"]),
    ("softmax_division", &["dot-of-divided-lhs"]),
    ("transposes_around_dot", &["dot-of-transposed-rhs"]),
];

#[test]
fn each_pattern_is_optimized() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/patterns");
    let mut names: Vec<String> = std::fs::read_dir(&folder)
        .expect("the folder")
        .map(|f| f.expect("a file").path().file_stem().expect("a name").to_string_lossy().into_owned())
        .collect();
    names.sort_unstable();
    assert_eq!(names, PATTERNS.map(|(name, _)| name));
    for (name, expected) in PATTERNS {
        let graph = pattern(name);
        // Slices of a product are copies on the CPU, and larger free dimensions gain nothing there.
        let for_tpu = ["qkv_merge", "gate_up_merge", "gqa", "repeat_kv"].contains(&name);
        let platform = if for_tpu { Platform::Tpu } else { Platform::Cpu };
        let options = Options { platform, ..Options::default() };
        let (made, changes) = optimize(&graph, options).expect("a program");
        ir::verify(&made).expect("well-typed");
        let rules: Vec<&str> = changes.iter().map(|c| c.rule).collect();
        assert!(expected.iter().all(|r| rules.contains(r)), "{name}: {rules:?}\n{}", ir::text::canonical(&made));
    }
}

/// In a branch of a program a pattern becomes what it becomes outside, and is told where the branch is.
#[test]
fn patterns_in_bodies_are_optimized_too() {
    for (name, _) in PATTERNS {
        let graph = pattern(name);
        let (alone, told) = optimize(&graph, Options::default()).expect("a program");
        let b = Builder::new("outer");
        let chosen = b.input("chosen", InputKind::User, TensorType::new(DType::Bool, []));
        let operands: Vec<ValueId> =
            graph.input_types().map(|t| b.input("x", InputKind::User, t.tensor().expect("a tensor").clone())).collect();
        b.set_loc(&Loc { file: "branch.py".into(), line: 7, ..Loc::default() });
        let results = b.if_then_else(chosen, &operands, graph.clone(), graph.clone()).expect("a branch");
        results.iter().for_each(|&r| b.output("y", OutputKind::User, r));
        let (made, changes) = optimize(&b.finish(), Options::default()).expect("a program");
        ir::verify(&made).expect("well-typed");
        let branch = made.nodes().iter().find(|n| n.op == Op::If).expect("the branch");
        for body in &branch.bodies {
            assert_eq!(ir::text::canonical(body), ir::text::canonical(&alone), "{name}");
        }
        assert_eq!(changes.len(), 2 * told.len(), "{name}");
        assert!(changes.iter().flat_map(|c| &c.locs).all(|&l| made.locs.get(l).line == 7), "{name}");
    }
}

fn pattern(name: &str) -> Graph {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../testdata/patterns/{name}.txt"));
    ir::text::parse(&std::fs::read_to_string(file).expect("a file")).expect("a program")
}

#[test]
fn softmax_stays_as_compilers_of_tpus_know_it() {
    let graph = pattern("softmax_division");
    let divided = |platform: Platform| {
        let (made, _) = optimize(&graph, Options { platform, ..Options::default() }).expect("a program");
        let divide =
            made.nodes().iter().find(|node| node.op == Op::Binary(ir::op::Binary::Divide)).expect("a quotient");
        divide.ty.tensor().expect("a tensor").numel()
    };
    assert_eq!((divided(Platform::Tpu), divided(Platform::Cpu)), (8 * 512 * 512, 8 * 512 * 64));
}
