//! Rules of the themes contract and matmul.

use super::{all_picked, picks, picks_on, program};
use crate::{Options, Platform, optimize};

/// A plain product, or one with a batch dimension first, of these two values.
fn dot(ty: &str, numbers: [&str; 4], x: usize, y: usize) -> String {
    let [lb, rb, lc, rc] = numbers;
    format!(
        "{ty} = dot_general(lhs_batch:[{lb}],rhs_batch:[{rb}],lhs_contract:[{lc}],rhs_contract:[{rc}],\
         precision:highest,out:f32) %{x}, %{y}"
    )
}

const PLAIN: [&str; 4] = ["", "", "1", "0"];

#[test]
fn operands_are_read_as_they_lie() {
    let w = "f32[256,512] = input";
    let flat = ["f32[8,64,256] = input", "f32[512,256] = reshape(shape:[512,256]) %0", w];
    let grouped = ["f32[2,8,64,32] = input", "f32[2,2,64,32] = input"];
    let repeated = "f32[2,2,4,64,32] = broadcast_in_dim(shape:[2,2,4,64,32],dims:[0,1,3,4]) %1";
    let joined = "f32[2,8,64,32] = reshape(shape:[2,8,64,32]) %2";
    let batched = "f32[8,64,256] = broadcast_in_dim(shape:[8,64,256],dims:[1,2]) %0";
    let free = "f32[64,512,256] = broadcast_in_dim(shape:[64,512,256],dims:[0,2]) %0";
    let rows = "f32[512,256] = broadcast_in_dim(shape:[512,256],dims:[0]) %0";
    all_picked(
        "contract",
        &[
            (
                "dot-of-reshaped-lhs",
                &[
                    flat[0],
                    flat[1],
                    w,
                    &dot("f32[512,512]", PLAIN, 1, 2),
                    "f32[8,64,512] = reshape(shape:[8,64,512]) %3",
                ],
                &["dot_general f32[8,64,512]"],
            ),
            (
                "dot-of-reshaped-rhs",
                &[grouped[0], grouped[1], repeated, joined, &dot("f32[2,8,64,64]", ["0,1", "0,1", "3", "3"], 0, 3)],
                &["reshape f32[2,2,4,64,32]", "dot_general f32[2,2,4,64,64]", "reshape f32[2,8,64,64]"],
            ),
            (
                "dot-of-lhs-broadcast-along-free",
                &["f32[64,256] = input", free, w, &dot("f32[64,512,512]", ["", "", "2", "0"], 1, 2)],
                &["dot_general f32[64,512]", "broadcast_in_dim f32[64,512,512]"],
            ),
            (
                "dot-of-rhs-broadcast-along-free",
                &[
                    "f32[64,256] = input",
                    free,
                    "f32[512,256] = input",
                    &dot("f32[512,64,512]", ["", "", "1", "2"], 2, 1),
                ],
                &["dot_general f32[512,64]", "broadcast_in_dim f32[512,64,512]"],
            ),
            (
                "dot-of-rhs-broadcast-along-batch",
                &[
                    "f32[64,256] = input",
                    batched,
                    "f32[8,32,256] = input",
                    &dot("f32[8,32,64]", ["0", "0", "2", "2"], 2, 1),
                ],
                &["dot_general f32[8,32,64]"],
            ),
            (
                "dot-of-lhs-broadcast-along-batch",
                &[
                    "f32[64,256] = input",
                    batched,
                    "f32[8,2,256] = input",
                    &dot("f32[8,64,2]", ["0", "0", "2", "2"], 1, 2),
                ],
                &["dot_general f32[64,8,2]", "transpose f32[8,64,2]"],
            ),
            (
                "dot-of-lhs-broadcast-along-contracted",
                &["f32[512] = input", rows, "f32[256,64] = input", &dot("f32[512,64]", PLAIN, 1, 2)],
                &[
                    "broadcast_in_dim f32[512,64]",
                    "reduce f32[64]",
                    "broadcast_in_dim f32[512,64]",
                    "multiply f32[512,64]",
                ],
            ),
            (
                "dot-of-rhs-broadcast-along-contracted",
                &["f32[512] = input", rows, "f32[64,256] = input", &dot("f32[64,512]", ["", "", "1", "1"], 2, 1)],
                &[
                    "reduce f32[64]",
                    "broadcast_in_dim f32[64,512]",
                    "broadcast_in_dim f32[64,512]",
                    "multiply f32[64,512]",
                ],
            ),
        ],
        &[],
    );
}

#[test]
fn products_are_merged_and_scales_moved() {
    let (x, w) = ("f32[4096,256] = input", "f32[256,128] = input");
    let scale = ["f32[] = constant 0.125", "f32[4096,256] = broadcast_in_dim(shape:[4096,256],dims:[]) %2"];
    let small = dot("f32[4096,128]", PLAIN, 4, 1);
    let norm = "f32[4096,256] = broadcast_in_dim(shape:[4096,256],dims:[1]) %2";
    let sums = "f32[4096,256] = broadcast_in_dim(shape:[4096,256],dims:[0]) %2";
    let turned = dot("f32[128,4096]", ["", "", "0", "1"], 1, 4);
    let tall = ["f32[512,16] = input", "f32[16,512] = input"];
    let wide = "f32[512,512] = broadcast_in_dim(shape:[512,512],dims:[]) %3";
    let wide_dot = dot("f32[512,512]", PLAIN, 0, 1);
    let terms = [tall[0], tall[1], tall[0], tall[1]];
    all_picked(
        "matmul",
        &[
            (
                "dot-of-transposed-lhs",
                &[
                    x,
                    "f32[256,4096] = transpose(permutation:[1,0]) %0",
                    w,
                    &dot("f32[4096,128]", ["", "", "0", "0"], 1, 2),
                ],
                &["dot_general f32[4096,128]"],
            ),
            (
                "dot-of-transposed-rhs",
                &[
                    x,
                    "f32[128,256] = input",
                    "f32[256,128] = transpose(permutation:[1,0]) %1",
                    &dot("f32[4096,128]", PLAIN, 0, 2),
                ],
                &["dot_general f32[4096,128]"],
            ),
            (
                "transpose-of-dot",
                &[x, w, &dot("f32[4096,128]", PLAIN, 0, 1), "f32[128,4096] = transpose(permutation:[1,0]) %2"],
                &["dot_general f32[128,4096]"],
            ),
            (
                "sum-of-dots",
                &[
                    terms[0],
                    terms[1],
                    terms[2],
                    terms[3],
                    &wide_dot,
                    &dot("f32[512,512]", PLAIN, 2, 3),
                    "f32[512,512] = add %4, %5",
                ],
                &["concatenate f32[512,32]", "concatenate f32[32,512]", "dot_general f32[512,512]"],
            ),
            (
                "longer-sum-of-dots",
                &[
                    terms[0],
                    terms[1],
                    terms[2],
                    terms[3],
                    "f32[512,512] = input",
                    &wide_dot,
                    "f32[512,512] = add %4, %5",
                    &dot("f32[512,512]", PLAIN, 2, 3),
                    "f32[512,512] = add %6, %7",
                ],
                &["concatenate f32[512,32]", "concatenate f32[32,512]", "dot_general f32[512,512]", "add f32[512,512]"],
            ),
            (
                "dot-of-dot-lhs",
                &[tall[0], tall[1], "f32[512,8] = input", &wide_dot, &dot("f32[512,8]", PLAIN, 3, 2)],
                &["dot_general f32[16,8]", "dot_general f32[512,8]"],
            ),
            (
                "dot-of-dot-rhs",
                &[
                    "f32[8,512] = input",
                    tall[0],
                    tall[1],
                    &dot("f32[512,512]", PLAIN, 1, 2),
                    &dot("f32[8,512]", PLAIN, 0, 3),
                ],
                &["dot_general f32[8,16]", "dot_general f32[8,512]"],
            ),
            (
                "dot-of-columns",
                &["f32[512,1] = input", "f32[1,512] = input", &wide_dot],
                &["broadcast_in_dim f32[512,512]", "broadcast_in_dim f32[512,512]", "multiply f32[512,512]"],
            ),
            (
                "dot-of-scaled-lhs",
                &[x, w, scale[0], scale[1], "f32[4096,256] = multiply %0, %3", &dot("f32[4096,128]", PLAIN, 4, 1)],
                &["broadcast_in_dim f32[256,128]", "multiply f32[256,128]", "dot_general f32[4096,128]"],
            ),
            (
                "dot-of-lhs-that-scales",
                &[x, w, "f32[256] = input", norm, "f32[4096,256] = multiply %3, %0", &small],
                &["broadcast_in_dim f32[256,128]", "multiply f32[256,128]", "dot_general f32[4096,128]"],
            ),
            (
                "dot-of-scaled-rhs",
                &[x, w, "f32[256] = input", norm, "f32[4096,256] = multiply %0, %3", &turned],
                &["broadcast_in_dim f32[256,128]", "multiply f32[256,128]", "dot_general f32[128,4096]"],
            ),
            (
                "dot-of-rhs-that-scales",
                &[x, w, scale[0], scale[1], "f32[4096,256] = multiply %3, %0", &turned],
                &["broadcast_in_dim f32[256,128]", "multiply f32[256,128]", "dot_general f32[128,4096]"],
            ),
            (
                "dot-of-divided-lhs",
                &[x, w, "f32[4096] = input", sums, "f32[4096,256] = divide %0, %3", &small],
                &["dot_general f32[4096,128]", "broadcast_in_dim f32[4096,128]", "divide f32[4096,128]"],
            ),
            (
                "dot-of-divided-rhs",
                &[x, w, "f32[4096] = input", sums, "f32[4096,256] = divide %0, %3", &turned],
                &["dot_general f32[128,4096]", "broadcast_in_dim f32[128,4096]", "divide f32[128,4096]"],
            ),
            (
                "scaled-dot",
                &[tall[0], tall[1], &wide_dot, scale[0], wide, "f32[512,512] = multiply %2, %4"],
                &["broadcast_in_dim f32[512,16]", "multiply f32[512,16]", "dot_general f32[512,512]"],
            ),
            (
                "dot-that-is-scaled",
                &[tall[0], tall[1], &wide_dot, scale[0], wide, "f32[512,512] = multiply %4, %2"],
                &["broadcast_in_dim f32[512,16]", "multiply f32[512,16]", "dot_general f32[512,512]"],
            ),
        ],
        &["dots-of-one-lhs", "dots-of-one-rhs"],
    );
}

#[test]
fn grouped_queries_read_each_key_once() {
    // What `scaled_dot_product_attention` with `enable_gqa` makes of its keys.
    let lines = [
        "f32[1,8,64,32] = input",
        "f32[1,2,64,32] = input",
        "f32[1,2,4,64,32] = broadcast_in_dim(shape:[1,2,4,64,32],dims:[0,1,3,4]) %1",
        "f32[1,8,64,32] = reshape(shape:[1,8,64,32]) %2",
        &dot("f32[1,8,64,64]", ["0,1", "0,1", "3", "3"], 0, 3),
    ];
    let graph = ir::text::parse(&program(&lines)).expect("a program");
    let (made, _) = optimize(&graph, Options::default()).expect("a program");
    let text = ir::text::canonical(&made);
    assert!(!text.contains("f32[1,2,4,64,32] = broadcast_in_dim"), "{text}");
    assert!(text.contains("f32[1,2,4,64,64] = dot_general"), "{text}");
}

#[test]
fn products_of_one_operand_are_one_on_a_tpu() {
    let (x, w) = ("f32[4096,256] = input", "f32[256,128] = input");
    let (plain, turned) = (dot("f32[4096,128]", PLAIN, 0, 1), dot("f32[128,4096]", ["", "", "0", "1"], 0, 2));
    let (plain_too, turned_too) = (plain.replace("%1", "%2"), turned.replace("%0", "%1"));
    let both = "return %3 \"q\", %4 \"k\"";
    let joined = "concatenate f32[256,256]";
    let (of, made) = ("slice f32[4096,128]", "dot_general f32[4096,256]");
    picks_on(Platform::Tpu, Some("dots-of-one-lhs"), &[x, w, w, &plain, &plain_too, both], &[joined, made, of, of]);
    let (of, made) = ("slice f32[128,4096]", "dot_general f32[256,4096]");
    picks_on(Platform::Tpu, Some("dots-of-one-rhs"), &[w, w, x, &turned, &turned_too, both], &[joined, made, of, of]);
    // XLA's CPU backend copies the slices: two products take less.
    picks(None, &[x, w, w, &plain, &plain_too, both], &["dot_general f32[4096,128]", "dot_general f32[4096,128]"]);
}
