//! Rules of the themes layout, transpose and reshape.

use super::{all_picked, picks};

#[test]
fn transposes_meet() {
    let unary = ["f32[64,256] = input", "f32[256,64] = transpose(permutation:[1,0]) %0"];
    all_picked(
        "transpose",
        &[
            (
                "transpose-of-ones",
                &["f32[8,1,256] = input", "f32[1,8,256] = transpose(permutation:[1,0,2]) %0", "f32[1,8,256] = tanh %1"],
                &["reshape f32[1,8,256]", "tanh f32[1,8,256]"],
            ),
            (
                "unary-of-transpose",
                &[unary[0], unary[1], "f32[256,64] = tanh %1", "f32[64,256] = transpose(permutation:[1,0]) %2"],
                &["tanh f32[64,256]"],
            ),
            (
                "convert-of-transpose",
                &[
                    unary[0],
                    unary[1],
                    "f64[256,64] = convert(dtype:f64) %1",
                    "f64[64,256] = transpose(permutation:[1,0]) %2",
                ],
                &["convert f64[64,256]"],
            ),
            (
                "binary-of-transposes",
                &[
                    unary[0],
                    "f32[64,256] = input",
                    "f32[256,64] = transpose(permutation:[1,0]) %0",
                    "f32[256,64] = transpose(permutation:[1,0]) %1",
                    "f32[256,64] = add %2, %3",
                ],
                &["add f32[64,256]", "transpose f32[256,64]"],
            ),
            (
                "binary-of-transpose-and-broadcast",
                &[
                    unary[0],
                    unary[1],
                    "f32[64] = input",
                    "f32[256,64] = broadcast_in_dim(shape:[256,64],dims:[1]) %2",
                    "f32[256,64] = add %1, %3",
                    "f32[64,256] = transpose(permutation:[1,0]) %4",
                ],
                &["broadcast_in_dim f32[64,256]", "add f32[64,256]"],
            ),
            (
                "binary-of-broadcast-and-transpose",
                &[
                    unary[0],
                    unary[1],
                    "f32[] = constant 0.5",
                    "f32[256,64] = broadcast_in_dim(shape:[256,64],dims:[]) %2",
                    "f32[256,64] = subtract %3, %1",
                    "f32[64,256] = transpose(permutation:[1,0]) %4",
                ],
                &["broadcast_in_dim f32[64,256]", "subtract f32[64,256]"],
            ),
            (
                "select-of-transposes",
                &[
                    unary[0],
                    unary[1],
                    "bool[64] = input",
                    "bool[256,64] = broadcast_in_dim(shape:[256,64],dims:[1]) %2",
                    "f32[] = constant -inf",
                    "f32[256,64] = broadcast_in_dim(shape:[256,64],dims:[]) %4",
                    "f32[256,64] = select %3, %1, %5",
                    "f32[64,256] = transpose(permutation:[1,0]) %6",
                ],
                &["broadcast_in_dim bool[64,256]", "broadcast_in_dim f32[64,256]", "select f32[64,256]"],
            ),
            (
                "select-of-other-transpose",
                &[
                    unary[0],
                    unary[1],
                    "bool[64] = input",
                    "bool[256,64] = broadcast_in_dim(shape:[256,64],dims:[1]) %2",
                    "f32[] = constant 0.0",
                    "f32[256,64] = broadcast_in_dim(shape:[256,64],dims:[]) %4",
                    "f32[256,64] = select %3, %5, %1",
                    "f32[64,256] = transpose(permutation:[1,0]) %6",
                ],
                &["broadcast_in_dim bool[64,256]", "broadcast_in_dim f32[64,256]", "select f32[64,256]"],
            ),
            (
                "reduce-of-transpose",
                &[unary[0], unary[1], "f32[64] = reduce(reducer:add,dims:[0]) %1"],
                &["reduce f32[64]"],
            ),
            (
                "reduce-of-reordering-transpose",
                &[unary[0], unary[1], "f32[] = reduce(reducer:add,dims:[0,1]) %1"],
                &["reduce f32[]"],
            ),
            (
                "transpose-of-broadcast",
                &[
                    "f32[64] = input",
                    "f32[256,64] = input",
                    "f32[64,256] = broadcast_in_dim(shape:[64,256],dims:[0]) %0",
                    "f32[256,64] = transpose(permutation:[1,0]) %2",
                    "f32[256,64] = add %1, %3",
                ],
                &["broadcast_in_dim f32[256,64]", "add f32[256,64]"],
            ),
            (
                "concatenate-of-transposes",
                &[
                    unary[0],
                    unary[1],
                    "f32[32,256] = input",
                    "f32[256,32] = transpose(permutation:[1,0]) %2",
                    "f32[256,96] = concatenate(dim:1) %1, %3",
                    "f32[256,96] = tanh %4",
                ],
                &["concatenate f32[96,256]", "transpose f32[256,96]", "tanh f32[256,96]"],
            ),
            (
                "slice-of-transpose",
                &[unary[0], unary[1], "f32[16,64] = slice(start:[0,0],limit:[16,64],stride:[1,1]) %1"],
                &["slice f32[64,16]", "transpose f32[16,64]"],
            ),
            (
                "pad-of-transpose",
                &[
                    unary[0],
                    unary[1],
                    "f32[] = constant 0.0",
                    "f32[258,64] = pad(low:[1,0],high:[1,0],interior:[0,0]) %1, %2",
                    "f32[64,258] = transpose(permutation:[1,0]) %3",
                ],
                &["pad f32[64,258]"],
            ),
            (
                "reverse-of-transpose",
                &[
                    unary[0],
                    unary[1],
                    "f32[256,64] = reverse(dims:[0]) %1",
                    "f32[64,256] = transpose(permutation:[1,0]) %2",
                ],
                &["reverse f32[64,256]"],
            ),
            (
                "reduce-window-of-transpose",
                &[
                    "f32[2,16,16,8] = input",
                    "f32[2,8,16,16] = transpose(permutation:[0,3,1,2]) %0",
                    "f32[2,8,8,8] = reduce_window(reducer:maximum,window:(size:[1,1,2,2],strides:[1,1,2,2],\
                     padding:[(0,0),(0,0),(0,0),(0,0)],base_dilation:[1,1,1,1],dilation:[1,1,1,1])) %1",
                    "f32[2,8,8,8] = transpose(permutation:[0,2,3,1]) %2",
                ],
                &["reduce_window f32[2,8,8,8]"],
            ),
        ],
        &["identity-transpose"],
    );
    picks(
        None,
        &[unary[0], "f32[64,256] = transpose(permutation:[0,1]) %0", "f32[64,256] = tanh %1"],
        &["tanh f32[64,256]"],
    );
}

#[test]
fn reshapes_meet() {
    let (x, flat) = ("f32[8,16,64] = input", "f32[128,64] = reshape(shape:[128,64]) %0");
    all_picked(
        "reshape",
        &[
            (
                "unary-of-reshape",
                &[x, flat, "f32[128,64] = tanh %1", "f32[8,16,64] = reshape(shape:[8,16,64]) %2"],
                &["tanh f32[8,16,64]"],
            ),
            (
                "binary-of-reshapes",
                &[
                    x,
                    flat,
                    x,
                    "f32[128,64] = reshape(shape:[128,64]) %2",
                    "f32[128,64] = multiply %1, %3",
                    "f32[8,16,64] = reshape(shape:[8,16,64]) %4",
                ],
                &["multiply f32[8,16,64]"],
            ),
            (
                "binary-of-reshape-and-broadcast",
                &[
                    x,
                    flat,
                    "f32[64] = input",
                    "f32[128,64] = broadcast_in_dim(shape:[128,64],dims:[1]) %2",
                    "f32[128,64] = add %1, %3",
                    "f32[8,16,64] = reshape(shape:[8,16,64]) %4",
                ],
                &["broadcast_in_dim f32[8,16,64]", "add f32[8,16,64]"],
            ),
            (
                "binary-of-broadcast-and-reshape",
                &[
                    x,
                    flat,
                    "f32[] = constant 1.5",
                    "f32[128,64] = broadcast_in_dim(shape:[128,64],dims:[]) %2",
                    "f32[128,64] = subtract %3, %1",
                    "f32[8,16,64] = reshape(shape:[8,16,64]) %4",
                ],
                &["broadcast_in_dim f32[8,16,64]", "subtract f32[8,16,64]"],
            ),
            (
                "select-of-reshapes",
                &[
                    x,
                    flat,
                    "bool[8,16] = input",
                    "bool[8,16,64] = broadcast_in_dim(shape:[8,16,64],dims:[0,1]) %2",
                    "bool[128,64] = reshape(shape:[128,64]) %3",
                    "f32[] = constant 0.0",
                    "f32[128,64] = broadcast_in_dim(shape:[128,64],dims:[]) %5",
                    "f32[128,64] = select %4, %1, %6",
                    "f32[8,16,64] = reshape(shape:[8,16,64]) %7",
                ],
                &["broadcast_in_dim bool[8,16,64]", "broadcast_in_dim f32[8,16,64]", "select f32[8,16,64]"],
            ),
            (
                "select-of-other-reshape",
                &[
                    x,
                    flat,
                    "bool[64] = input",
                    "bool[128,64] = broadcast_in_dim(shape:[128,64],dims:[1]) %2",
                    "f32[] = constant 0.0",
                    "f32[128,64] = broadcast_in_dim(shape:[128,64],dims:[]) %4",
                    "f32[128,64] = select %3, %5, %1",
                    "f32[8,16,64] = reshape(shape:[8,16,64]) %6",
                ],
                &["broadcast_in_dim bool[8,16,64]", "broadcast_in_dim f32[8,16,64]", "select f32[8,16,64]"],
            ),
            ("reduce-of-reshape", &[x, flat, "f32[64] = reduce(reducer:add,dims:[0]) %1"], &["reduce f32[64]"]),
            (
                "transpose-of-reshape",
                &[
                    "f32[2,4,16,8] = input",
                    "f32[2,4,8,16] = transpose(permutation:[0,1,3,2]) %0",
                    "f32[8,8,16] = reshape(shape:[8,8,16]) %1",
                    "f32[8,16,8] = transpose(permutation:[0,2,1]) %2",
                ],
                &["reshape f32[8,16,8]"],
            ),
            (
                "reshape-of-broadcast",
                &[
                    "f32[8,16] = input",
                    "f32[8,16,64] = broadcast_in_dim(shape:[8,16,64],dims:[0,1]) %0",
                    "f32[128,64] = reshape(shape:[128,64]) %1",
                    "f32[128,64] = tanh %2",
                ],
                &["reshape f32[128]", "tanh f32[128]", "broadcast_in_dim f32[128,64]"],
            ),
            (
                "broadcast-of-reshape",
                &[
                    "f32[8,16] = input",
                    "f32[8,16,1] = reshape(shape:[8,16,1]) %0",
                    "f32[8,16,64] = broadcast_in_dim(shape:[8,16,64],dims:[0,1,2]) %1",
                ],
                &["broadcast_in_dim f32[8,16,64]"],
            ),
        ],
        &["identity-reshape"],
    );
    picks(None, &[x, "f32[8,16,64] = reshape(shape:[8,16,64]) %0", "f32[8,16,64] = tanh %1"], &["tanh f32[8,16,64]"]);
}

#[test]
fn broadcasts_come_late() {
    let (x, wide) = ("f32[64] = input", "f32[256,64] = broadcast_in_dim(shape:[256,64],dims:[1]) %0");
    let scalar = ["f32[] = constant 1e-5", "f32[256,64] = broadcast_in_dim(shape:[256,64],dims:[]) %2"];
    all_picked(
        "layout",
        &[
            (
                "transpose-of-transpose",
                &[
                    "f32[4,8,64] = input",
                    "f32[8,4,64] = transpose(permutation:[1,0,2]) %0",
                    "f32[8,64,4] = transpose(permutation:[0,2,1]) %1",
                ],
                &["transpose f32[8,64,4]"],
            ),
            (
                "reshape-of-reshape",
                &[
                    "f32[4,8,64] = input",
                    "f32[32,64] = reshape(shape:[32,64]) %0",
                    "f32[2048] = reshape(shape:[2048]) %1",
                ],
                &["reshape f32[2048]"],
            ),
            (
                "broadcast-of-broadcast",
                &[x, wide, "f32[4,256,64] = broadcast_in_dim(shape:[4,256,64],dims:[1,2]) %1"],
                &["broadcast_in_dim f32[4,256,64]"],
            ),
            (
                "unary-of-broadcast",
                &[x, wide, "f32[256,64] = rsqrt %1"],
                &["rsqrt f32[64]", "broadcast_in_dim f32[256,64]"],
            ),
            (
                "binary-of-broadcasts",
                &[
                    x,
                    wide,
                    x,
                    "f32[256,64] = broadcast_in_dim(shape:[256,64],dims:[1]) %2",
                    "f32[256,64] = multiply %1, %3",
                ],
                &["multiply f32[64]", "broadcast_in_dim f32[256,64]"],
            ),
            (
                "binary-of-broadcast-and-splat",
                &[x, wide, scalar[0], scalar[1], "f32[256,64] = add %1, %3"],
                &["broadcast_in_dim f32[64]", "add f32[64]", "broadcast_in_dim f32[256,64]"],
            ),
            (
                "binary-of-splat-and-broadcast",
                &[x, wide, scalar[0], scalar[1], "f32[256,64] = divide %3, %1"],
                &["broadcast_in_dim f32[64]", "divide f32[64]", "broadcast_in_dim f32[256,64]"],
            ),
            (
                "reverse-of-reverse",
                &["f32[8,64] = input", "f32[8,64] = reverse(dims:[0,1]) %0", "f32[8,64] = reverse(dims:[1]) %1"],
                &["reverse f32[8,64]"],
            ),
        ],
        &["identity-broadcast", "identity-reverse"],
    );
    picks(None, &["f32[8,1] = input", "f32[8,1] = reverse(dims:[1]) %0", "f32[8,1] = tanh %1"], &["tanh f32[8,1]"]);
    let same = "f32[8,64] = broadcast_in_dim(shape:[8,64],dims:[0,1]) %0";
    picks(None, &["f32[8,64] = input", same, "f32[8,64] = tanh %1"], &["tanh f32[8,64]"]);
}
