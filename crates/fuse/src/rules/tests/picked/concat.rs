//! Rules of the theme concat.

use super::{all_picked, picks};

#[test]
fn what_is_cut_or_joined_is_read_in_place() {
    let (x, y) = ("f32[64,256] = input", "f32[64,128] = input");
    let joined = "f32[64,384] = concatenate(dim:1) %0, %1";
    let zero = "f32[] = constant 0.0";
    let padded = "f32[64,260] = pad(low:[0,2],high:[0,2],interior:[0,0]) %0, %1";
    let (index, update) = ("i32[] = input", "f32[64,1] = input");
    let updated = "f32[64,256] = dynamic_update_slice %0, %2, %1, %1";
    all_picked(
        "concat",
        &[
            (
                "slice-of-slice",
                &[
                    x,
                    "f32[64,128] = slice(start:[0,0],limit:[64,256],stride:[1,2]) %0",
                    "f32[64,32] = slice(start:[0,96],limit:[64,128],stride:[1,1]) %1",
                ],
                &["slice f32[64,32]"],
            ),
            (
                "slice-of-concatenate",
                &[x, y, joined, "f32[64,100] = slice(start:[0,270],limit:[64,370],stride:[1,1]) %2"],
                &["slice f32[64,100]"],
            ),
            (
                "concatenate-of-slices",
                &[
                    x,
                    "f32[64,64] = slice(start:[0,32],limit:[64,96],stride:[1,1]) %0",
                    "f32[64,32] = slice(start:[0,96],limit:[64,128],stride:[1,1]) %0",
                    "f32[64,96] = concatenate(dim:1) %1, %2",
                ],
                &["slice f32[64,96]"],
            ),
            (
                "concatenate-of-concatenates",
                &[x, y, joined, "f32[64,640] = concatenate(dim:1) %0, %2"],
                &["concatenate f32[64,640]"],
            ),
            (
                "pad-of-pad",
                &[x, zero, padded, "f32[66,260] = pad(low:[1,0],high:[1,0],interior:[0,0]) %2, %1"],
                &["pad f32[66,260]"],
            ),
            (
                "slice-of-pad",
                &[x, zero, padded, "f32[64,258] = slice(start:[0,0],limit:[64,258],stride:[1,1]) %2"],
                &["pad f32[64,258]"],
            ),
            (
                "slice-of-broadcast",
                &[
                    "f32[256] = input",
                    "f32[64,256] = broadcast_in_dim(shape:[64,256],dims:[1]) %0",
                    "f32[64,32] = slice(start:[0,0],limit:[64,32],stride:[1,1]) %1",
                ],
                &["slice f32[32]", "broadcast_in_dim f32[64,32]"],
            ),
            (
                "slice-of-reshape",
                &[
                    x,
                    y,
                    y,
                    "f32[64,512] = concatenate(dim:1) %0, %1, %2",
                    "f32[64,4,128] = reshape(shape:[64,4,128]) %3",
                    "f32[64,1,128] = slice(start:[0,2,0],limit:[64,3,128],stride:[1,1,1]) %4",
                ],
                &["reshape f32[64,1,128]"],
            ),
            (
                "slice-of-unary",
                &[x, "f32[64,256] = tanh %0", "f32[64,16] = slice(start:[0,0],limit:[64,16],stride:[1,1]) %1"],
                &["slice f32[64,16]", "tanh f32[64,16]"],
            ),
            (
                "slice-of-binary",
                &[x, x, "f32[64,256] = add %0, %1", "f32[1,256] = slice(start:[63,0],limit:[64,256],stride:[1,1]) %2"],
                &["slice f32[1,256]", "slice f32[1,256]", "add f32[1,256]"],
            ),
            (
                "slice-of-select",
                &[
                    "bool[64,256] = input",
                    x,
                    x,
                    "f32[64,256] = select %0, %1, %2",
                    "f32[1,256] = slice(start:[63,0],limit:[64,256],stride:[1,1]) %3",
                ],
                &["slice bool[1,256]", "slice f32[1,256]", "slice f32[1,256]", "select f32[1,256]"],
            ),
            (
                "slice-of-convert",
                &[
                    x,
                    "f64[64,256] = convert(dtype:f64) %0",
                    "f64[1,256] = slice(start:[63,0],limit:[64,256],stride:[1,1]) %1",
                ],
                &["slice f32[1,256]", "convert f64[1,256]"],
            ),
            (
                "slice-of-reduce",
                &[x, "f32[64] = reduce(reducer:add,dims:[1]) %0", "f32[8] = slice(start:[0],limit:[8],stride:[1]) %1"],
                &["slice f32[8,256]", "reduce f32[8]"],
            ),
            (
                "slice-of-dot",
                &[
                    x,
                    "f32[256,512] = input",
                    "f32[64,512] = dot_general(lhs_batch:[],rhs_batch:[],lhs_contract:[1],rhs_contract:[0],\
                     precision:highest,out:f32) %0, %1",
                    "f32[1,512] = slice(start:[63,0],limit:[64,512],stride:[1,1]) %2",
                ],
                &["slice f32[1,256]", "dot_general f32[1,512]"],
            ),
            (
                "update-of-updated",
                &[x, index, update, updated, update, "f32[64,256] = dynamic_update_slice %3, %4, %1, %1"],
                &["dynamic_update_slice f32[64,256]"],
            ),
            (
                "dynamic-slice-at-constants",
                &[x, "i32[] = constant 3", "f32[1,256] = dynamic_slice(sizes:[1,256]) %0, %1, %1"],
                &["slice f32[1,256]"],
            ),
        ],
        &[
            "identity-slice",
            "concatenate-of-one",
            "pad-that-crops",
            "concatenate-with-nothing",
            "identity-pad",
            "slice-of-updated",
            "update-of-all",
        ],
    );
    let tanh: &[&str] = &["tanh f32[64,256]"];
    let all = "f32[64,256] = slice(start:[0,0],limit:[64,256],stride:[1,1]) %0";
    picks(None, &[x, all, "f32[64,256] = tanh %1"], tanh);
    picks(None, &[x, "f32[64,256] = concatenate(dim:0) %0", "f32[64,256] = tanh %1"], tanh);
    let joined = "f32[64,256] = concatenate(dim:1) %0, %1";
    picks(None, &[x, "f32[64,0] = input", joined, "f32[64,256] = tanh %2"], tanh);
    let joined = "f32[64,384] = concatenate(dim:1) %0, %1";
    let crop = "f32[64,100] = pad(low:[0,-270],high:[0,-14],interior:[0,0]) %2, %3";
    picks(Some("slice-of-concatenate"), &[x, y, joined, zero, crop], &["slice f32[64,100]"]);
    let same = "f32[64,256] = pad(low:[0,0],high:[0,0],interior:[0,0]) %0, %1";
    picks(None, &[x, zero, same, "f32[64,256] = tanh %2"], tanh);
    let read = "f32[64,1] = dynamic_slice(sizes:[64,1]) %3, %1, %1";
    picks(None, &[x, index, update, updated, read, "f32[64,1] = tanh %4"], &["tanh f32[64,1]"]);
    let over = "f32[64,256] = dynamic_update_slice %0, %2, %1, %1";
    picks(None, &[x, index, x, over, "f32[64,256] = tanh %3"], tanh);
}
