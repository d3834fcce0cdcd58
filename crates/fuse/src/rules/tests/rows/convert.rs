//! Rows of the theme `convert`.

use super::Row;

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    ("convert-of-convert", &[
        "in bool[8]",
        "i64[8] = convert(dtype:i64) %0",
        "f32[8] = convert(dtype:f32) %1",
    ], &[
        "in bool[8]",
        "f32[8] = convert(dtype:f32) %0",
    ]),
    ("narrow-there-and-back", &[
        "in f32[8]",
        "bf16[8] = convert(dtype:bf16) %0",
        "f32[8] = convert(dtype:f32) %1",
    ], &[
        "in f32[8]",
    ]),
    ("convert-of-constant", &[
        "in f32[8]",
        "bf16[8] = constant 3.0",
        "f32[8] = convert(dtype:f32) %1",
        "f32[8] = add %0, %2",
    ], &[
        "in f32[8]",
        "f32[8] = constant 3.0",
        "f32[8] = add %0, %1",
    ]),
    ("convert-of-iota", &[
        "i64[512] = iota(dtype:i64,shape:[512],dim:0)",
        "f32[512] = convert(dtype:f32) %0",
    ], &[
        "f32[512] = iota(dtype:f32,shape:[512],dim:0)",
    ]),
    ("convert-of-broadcast", &[
        "in bf16[64]",
        "bf16[64,512] = broadcast_in_dim(shape:[64,512],dims:[0]) %0",
        "f32[64,512] = convert(dtype:f32) %1",
    ], &[
        "in bf16[64]",
        "f32[64] = convert(dtype:f32) %0",
        "f32[64,512] = broadcast_in_dim(shape:[64,512],dims:[0]) %1",
    ]),
    ("narrow-before-transpose", &[
        "in f32[64,512]",
        "f32[512,64] = transpose(permutation:[1,0]) %0",
        "bf16[512,64] = convert(dtype:bf16) %1",
    ], &[
        "in f32[64,512]",
        "bf16[64,512] = convert(dtype:bf16) %0",
        "bf16[512,64] = transpose(permutation:[1,0]) %1",
    ]),
    ("transpose-before-widening", &[
        "in bf16[64,512]",
        "f32[64,512] = convert(dtype:f32) %0",
        "f32[512,64] = transpose(permutation:[1,0]) %1",
    ], &[
        "in bf16[64,512]",
        "bf16[512,64] = transpose(permutation:[1,0]) %0",
        "f32[512,64] = convert(dtype:f32) %1",
    ]),
    ("slice-before-convert", &[
        "in f32[64,512]",
        "bf16[64,512] = convert(dtype:bf16) %0",
        "bf16[4,512] = slice(start:[0,0],limit:[4,512],stride:[1,1]) %1",
    ], &[
        "in f32[64,512]",
        "f32[4,512] = slice(start:[0,0],limit:[4,512],stride:[1,1]) %0",
        "bf16[4,512] = convert(dtype:bf16) %1",
    ]),
    ("gather-before-convert", &[
        "in f32[1000,64]",
        "in i32[8]",
        "bf16[1000,64] = convert(dtype:bf16) %0",
        "bf16[8,64] = gather(offset_dims:[1],collapsed_slice_dims:[0],operand_batching_dims:[],start_indices_batching_dims:[],start_index_map:[0],index_vector_dim:1,slice_sizes:[1,64]) %2, %1",
    ], &[
        "in f32[1000,64]",
        "in i32[8]",
        "f32[8,64] = gather(offset_dims:[1],collapsed_slice_dims:[0],operand_batching_dims:[],start_indices_batching_dims:[],start_index_map:[0],index_vector_dim:1,slice_sizes:[1,64]) %0, %1",
        "bf16[8,64] = convert(dtype:bf16) %2",
    ]),
    ("convert-of-true-false", &[
        "in bool[8]",
        "f32[8] = constant 1.0",
        "f32[8] = constant 0.0",
        "f32[8] = select %0, %1, %2",
    ], &[
        "in bool[8]",
        "f32[8] = convert(dtype:f32) %0",
    ]),
    ("ne-of-converted-predicate", &[
        "in bool[8]",
        "f32[8] = convert(dtype:f32) %0",
        "f32[8] = constant 0.0",
        "bool[8] = compare_ne %1, %2",
    ], &[
        "in bool[8]",
    ]),
    ("lt-of-widened", &[
        "in i8[8]",
        "i64[8] = convert(dtype:i64) %0",
        "i64[8] = constant 5",
        "bool[8] = compare_lt %1, %2",
    ], &[
        "in i8[8]",
        "i8[8] = constant 5",
        "bool[8] = compare_lt %0, %1",
    ]),
    ("le-in-32-bits", &[
        "i64[64,64] = iota(dtype:i64,shape:[64,64],dim:0)",
        "i64[64,64] = iota(dtype:i64,shape:[64,64],dim:1)",
        "bool[64,64] = compare_le %1, %0",
    ], &[
        "i32[64,64] = iota(dtype:i32,shape:[64,64],dim:1)",
        "i32[64,64] = iota(dtype:i32,shape:[64,64],dim:0)",
        "bool[64,64] = compare_le %0, %1",
    ]),
    ("gather-with-narrow-indices", &[
        "in f32[1000,64]",
        "in i16[8]",
        "i64[8] = convert(dtype:i64) %1",
        "f32[8,64] = gather(offset_dims:[1],collapsed_slice_dims:[0],operand_batching_dims:[],start_indices_batching_dims:[],start_index_map:[0],index_vector_dim:1,slice_sizes:[1,64]) %0, %2",
    ], &[
        "in f32[1000,64]",
        "in i16[8]",
        "i32[8] = convert(dtype:i32) %1",
        "f32[8,64] = gather(offset_dims:[1],collapsed_slice_dims:[0],operand_batching_dims:[],start_indices_batching_dims:[],start_index_map:[0],index_vector_dim:1,slice_sizes:[1,64]) %0, %2",
    ]),
    ("convert-of-reshape", &[
        "in i8[8,8]",
        "i32[8,8] = convert(dtype:i32) %0",
        "i32[64] = reshape(shape:[64]) %1",
        "f32[64] = convert(dtype:f32) %2",
    ], &[
        "in i8[8,8]",
        "f32[8,8] = convert(dtype:f32) %0",
        "f32[64] = reshape(shape:[64]) %1",
    ]),
    ("convert-of-choice-of-constants", &[
        "in bool[8]",
        "f32[8] = constant 3.0",
        "f32[8] = constant -inf",
        "f32[8] = select %0, %1, %2",
        "bf16[8] = convert(dtype:bf16) %3",
    ], &[
        "in bool[8]",
        "bf16[8] = constant 3.0",
        "bf16[8] = constant -inf",
        "bf16[8] = select %0, %1, %2",
    ]),
    ("eq-of-converted-predicate", &[
        "in bool[8]",
        "f32[8] = convert(dtype:f32) %0",
        "f32[8] = constant 0.0",
        "bool[8] = compare_eq %1, %2",
    ], &[
        "in bool[8]",
        "bool[8] = not %0",
    ]),
    ("eq-of-widened", &[
        "in i8[8]",
        "i64[8] = convert(dtype:i64) %0",
        "i64[8] = constant 5",
        "bool[8] = compare_eq %1, %2",
    ], &[
        "in i8[8]",
        "i8[8] = constant 5",
        "bool[8] = compare_eq %0, %1",
    ]),
    ("ne-of-widened", &[
        "in i8[8]",
        "i64[8] = convert(dtype:i64) %0",
        "i64[8] = constant 5",
        "bool[8] = compare_ne %1, %2",
    ], &[
        "in i8[8]",
        "i8[8] = constant 5",
        "bool[8] = compare_ne %0, %1",
    ]),
    ("le-of-widened", &[
        "in i8[8]",
        "i64[8] = convert(dtype:i64) %0",
        "i64[8] = constant 5",
        "bool[8] = compare_le %1, %2",
    ], &[
        "in i8[8]",
        "i8[8] = constant 5",
        "bool[8] = compare_le %0, %1",
    ]),
    ("gt-of-widened", &[
        "in i8[8]",
        "i64[8] = convert(dtype:i64) %0",
        "i64[8] = constant 5",
        "bool[8] = compare_gt %1, %2",
    ], &[
        "in i8[8]",
        "i8[8] = constant 5",
        "bool[8] = compare_gt %0, %1",
    ]),
    ("ge-of-widened", &[
        "in i8[8]",
        "i64[8] = convert(dtype:i64) %0",
        "i64[8] = constant 5",
        "bool[8] = compare_ge %1, %2",
    ], &[
        "in i8[8]",
        "i8[8] = constant 5",
        "bool[8] = compare_ge %0, %1",
    ]),
    ("eq-in-32-bits", &[
        "i64[64,64] = iota(dtype:i64,shape:[64,64],dim:0)",
        "i64[64,64] = iota(dtype:i64,shape:[64,64],dim:1)",
        "bool[64,64] = compare_eq %1, %0",
    ], &[
        "i32[64,64] = iota(dtype:i32,shape:[64,64],dim:1)",
        "i32[64,64] = iota(dtype:i32,shape:[64,64],dim:0)",
        "bool[64,64] = compare_eq %0, %1",
    ]),
    ("ne-in-32-bits", &[
        "i64[64,64] = iota(dtype:i64,shape:[64,64],dim:0)",
        "i64[64,64] = iota(dtype:i64,shape:[64,64],dim:1)",
        "bool[64,64] = compare_ne %1, %0",
    ], &[
        "i32[64,64] = iota(dtype:i32,shape:[64,64],dim:1)",
        "i32[64,64] = iota(dtype:i32,shape:[64,64],dim:0)",
        "bool[64,64] = compare_ne %0, %1",
    ]),
    ("lt-in-32-bits", &[
        "i64[64,64] = iota(dtype:i64,shape:[64,64],dim:0)",
        "i64[64,64] = iota(dtype:i64,shape:[64,64],dim:1)",
        "bool[64,64] = compare_lt %1, %0",
    ], &[
        "i32[64,64] = iota(dtype:i32,shape:[64,64],dim:1)",
        "i32[64,64] = iota(dtype:i32,shape:[64,64],dim:0)",
        "bool[64,64] = compare_lt %0, %1",
    ]),
    ("gt-in-32-bits", &[
        "i64[64,64] = iota(dtype:i64,shape:[64,64],dim:0)",
        "i64[64,64] = iota(dtype:i64,shape:[64,64],dim:1)",
        "bool[64,64] = compare_gt %1, %0",
    ], &[
        "i32[64,64] = iota(dtype:i32,shape:[64,64],dim:1)",
        "i32[64,64] = iota(dtype:i32,shape:[64,64],dim:0)",
        "bool[64,64] = compare_gt %0, %1",
    ]),
    ("ge-in-32-bits", &[
        "i64[64,64] = iota(dtype:i64,shape:[64,64],dim:0)",
        "i64[64,64] = iota(dtype:i64,shape:[64,64],dim:1)",
        "bool[64,64] = compare_ge %1, %0",
    ], &[
        "i32[64,64] = iota(dtype:i32,shape:[64,64],dim:1)",
        "i32[64,64] = iota(dtype:i32,shape:[64,64],dim:0)",
        "bool[64,64] = compare_ge %0, %1",
    ]),
    ("narrow-sum", &[
        "i64[64,64] = iota(dtype:i64,shape:[64,64],dim:0)",
        "i64[64,64] = iota(dtype:i64,shape:[64,64],dim:1)",
        "i64[64,64] = add %0, %1",
        "i32[64,64] = convert(dtype:i32) %2",
    ], &[
        "i32[64,64] = iota(dtype:i32,shape:[64,64],dim:0)",
        "i32[64,64] = iota(dtype:i32,shape:[64,64],dim:1)",
        "i32[64,64] = add %0, %1",
    ]),
    ("narrow-difference", &[
        "i64[64,64] = iota(dtype:i64,shape:[64,64],dim:0)",
        "i64[64,64] = iota(dtype:i64,shape:[64,64],dim:1)",
        "i64[64,64] = subtract %0, %1",
        "i32[64,64] = convert(dtype:i32) %2",
    ], &[
        "i32[64,64] = iota(dtype:i32,shape:[64,64],dim:0)",
        "i32[64,64] = iota(dtype:i32,shape:[64,64],dim:1)",
        "i32[64,64] = subtract %0, %1",
    ]),
    ("narrow-product", &[
        "i64[64,64] = iota(dtype:i64,shape:[64,64],dim:0)",
        "i64[64,64] = iota(dtype:i64,shape:[64,64],dim:1)",
        "i64[64,64] = multiply %0, %1",
        "i32[64,64] = convert(dtype:i32) %2",
    ], &[
        "i32[64,64] = iota(dtype:i32,shape:[64,64],dim:0)",
        "i32[64,64] = iota(dtype:i32,shape:[64,64],dim:1)",
        "i32[64,64] = multiply %0, %1",
    ]),
];
