//! The programs of testdata/patterns: each holds a pattern that a rule is there for, and the rule is picked.

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
        let text = std::fs::read_to_string(folder.join(format!("{name}.txt"))).expect("a file");
        let graph = ir::text::parse(&text).expect("a program");
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

#[test]
fn softmax_stays_as_compilers_of_tpus_know_it() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/patterns/softmax_division.txt");
    let graph = ir::text::parse(&std::fs::read_to_string(file).expect("a file")).expect("a program");
    let divided = |platform: Platform| {
        let (made, _) = optimize(&graph, Options { platform, ..Options::default() }).expect("a program");
        let divide =
            made.nodes().iter().find(|node| node.op == ir::Op::Binary(ir::op::Binary::Divide)).expect("a quotient");
        divide.ty.tensor().expect("a tensor").numel()
    };
    assert_eq!((divided(Platform::Tpu), divided(Platform::Cpu)), (8 * 512 * 512, 8 * 512 * 64));
}
