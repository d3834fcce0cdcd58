//! Rules of the theme convolution.

use super::all_picked;

/// Batch, features and two dimensions of images, as PyTorch lays them out.
const CONVOLUTION: &str = "convolution(strides:[1,1],padding:[(1,1),(1,1)],lhs_dilation:[1,1],rhs_dilation:[1,1],\
    input_batch:0,input_feature:1,input_spatial:[2,3],kernel_input_feature:1,kernel_output_feature:0,\
    kernel_spatial:[2,3],output_batch:0,output_feature:1,output_spatial:[2,3],feature_group_count:1,\
    batch_group_count:1,precision:highest,out:f32)";

#[test]
fn convolutions_take_in_what_is_around() {
    let of = |ty: &str, x: usize, k: usize| format!("{ty} = {CONVOLUTION} %{x}, %{k}");
    let (x, k, channels) = ("f32[4,16,32,32] = input", "f32[64,16,3,3] = input", "f32[64] = input");
    let made = of("f32[4,64,32,32]", 0, 1);
    let wide = |v: usize| format!("f32[4,64,32,32] = broadcast_in_dim(shape:[4,64,32,32],dims:[1]) %{v}");
    let folded = ["broadcast_in_dim f32[64,16,3,3]", "multiply f32[64,16,3,3]", "convolution f32[4,64,32,32]"];
    let shifted = |shift: &[&'static str], last: &'static str| -> Vec<&'static str> {
        folded.iter().copied().chain(shift.iter().copied()).chain(["broadcast_in_dim f32[4,64,32,32]", last]).collect()
    };
    all_picked(
        "convolution",
        &[
            (
                "convolution-of-transposed-input",
                &[
                    "f32[4,32,32,16] = input",
                    k,
                    "f32[4,16,32,32] = transpose(permutation:[0,3,1,2]) %0",
                    &of("f32[4,64,32,32]", 2, 1),
                ],
                &["convolution f32[4,64,32,32]"],
            ),
            (
                "convolution-of-transposed-kernel",
                &[
                    x,
                    "f32[3,3,16,64] = input",
                    "f32[64,16,3,3] = transpose(permutation:[3,2,0,1]) %1",
                    &of("f32[4,64,32,32]", 0, 2),
                ],
                &["convolution f32[4,64,32,32]"],
            ),
            (
                "transpose-of-convolution",
                &[x, k, &made, "f32[4,32,32,64] = transpose(permutation:[0,2,3,1]) %2"],
                &["convolution f32[4,32,32,64]"],
            ),
            (
                "convolution-of-padded",
                &[
                    x,
                    k,
                    "f32[] = constant 0.0",
                    "f32[4,16,36,36] = pad(low:[0,0,2,2],high:[0,0,2,2],interior:[0,0,0,0]) %0, %2",
                    &of("f32[4,64,36,36]", 3, 1),
                ],
                &["convolution f32[4,64,36,36]"],
            ),
            ("scaled-convolution", &[x, k, channels, &wide(2), &made, "f32[4,64,32,32] = multiply %4, %3"], &folded),
            (
                "product-of-difference-by-channel",
                &[
                    x,
                    k,
                    channels,
                    channels,
                    &wide(2),
                    &wide(3),
                    &made,
                    "f32[4,64,32,32] = subtract %6, %4",
                    "f32[4,64,32,32] = multiply %7, %5",
                ],
                &shifted(&["multiply f32[64]"], "subtract f32[4,64,32,32]"),
            ),
            (
                "product-of-sum-by-channel",
                &[
                    x,
                    k,
                    channels,
                    channels,
                    &wide(2),
                    &wide(3),
                    &made,
                    "f32[4,64,32,32] = add %6, %4",
                    "f32[4,64,32,32] = multiply %7, %5",
                ],
                &shifted(&["multiply f32[64]"], "add f32[4,64,32,32]"),
            ),
            (
                "products-by-channel",
                &[
                    x,
                    channels,
                    channels,
                    "f32[4,64,32,32] = input",
                    &wide(1),
                    &wide(2),
                    "f32[4,64,32,32] = multiply %3, %4",
                    "f32[4,64,32,32] = multiply %6, %5",
                ],
                &["multiply f32[64]", "broadcast_in_dim f32[4,64,32,32]", "multiply f32[4,64,32,32]"],
            ),
            (
                "shifts-by-channel",
                &[
                    x,
                    channels,
                    channels,
                    "f32[4,64,32,32] = input",
                    &wide(1),
                    &wide(2),
                    "f32[4,64,32,32] = subtract %3, %4",
                    "f32[4,64,32,32] = add %6, %5",
                ],
                &["subtract f32[64]", "broadcast_in_dim f32[4,64,32,32]", "add f32[4,64,32,32]"],
            ),
            (
                "sums-by-channel",
                &[
                    x,
                    channels,
                    channels,
                    "f32[4,64,32,32] = input",
                    &wide(1),
                    &wide(2),
                    "f32[4,64,32,32] = add %3, %4",
                    "f32[4,64,32,32] = add %6, %5",
                ],
                &["add f32[64]", "broadcast_in_dim f32[4,64,32,32]", "add f32[4,64,32,32]"],
            ),
        ],
        &[],
    );
}
