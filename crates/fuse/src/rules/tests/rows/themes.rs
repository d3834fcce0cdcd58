//! The rows.

use super::Row;

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    ("multiply-by-one", &[
        "in f32[8]",
        "f32[8] = constant 1.0",
        "f32[8] = multiply %0, %1",
    ], &[
        "in f32[8]",
    ]),
    ("add-negative-zero", &[
        "in f32[8]",
        "f32[8] = constant -0.0",
        "f32[8] = add %0, %1",
    ], &[
        "in f32[8]",
    ]),
    ("add-zero", &[
        "in f32[8]",
        "f32[8] = constant 0.0",
        "f32[8] = add %0, %1",
    ], &[
        "in f32[8]",
    ]),
    ("multiply-integer-by-zero", &[
        "in i64[8]",
        "i64[8] = constant 0",
        "i64[8] = multiply %0, %1",
    ], &[
        "in i64[8]",
        "i64[8] = constant 0",
    ]),
    ("add-negated", &[
        "in f32[8]",
        "in f32[8]",
        "f32[8] = negate %1",
        "f32[8] = add %0, %2",
    ], &[
        "in f32[8]",
        "in f32[8]",
        "f32[8] = subtract %0, %1",
    ]),
    ("negated-plus", &[
        "in f32[8]",
        "in f32[8]",
        "f32[8] = negate %0",
        "f32[8] = add %2, %1",
    ], &[
        "in f32[8]",
        "in f32[8]",
        "f32[8] = subtract %1, %0",
    ]),
    ("product-of-negated", &[
        "in f32[8]",
        "in f32[8]",
        "f32[8] = negate %0",
        "f32[8] = negate %1",
        "f32[8] = multiply %2, %3",
    ], &[
        "in f32[8]",
        "in f32[8]",
        "f32[8] = multiply %0, %1",
    ]),
    ("quotient-of-negated", &[
        "in f32[8]",
        "in f32[8]",
        "f32[8] = negate %0",
        "f32[8] = negate %1",
        "f32[8] = divide %2, %3",
    ], &[
        "in f32[8]",
        "in f32[8]",
        "f32[8] = divide %0, %1",
    ]),
    ("negated-times-constant", &[
        "in f32[8]",
        "f32[8] = constant 3.0",
        "f32[8] = negate %0",
        "f32[8] = multiply %2, %1",
    ], &[
        "in f32[8]",
        "f32[8] = constant -3.0",
        "f32[8] = multiply %0, %1",
    ]),
    ("negate-of-product-with-constant", &[
        "in f32[8]",
        "f32[8] = constant 3.0",
        "f32[8] = multiply %0, %1",
        "f32[8] = negate %2",
    ], &[
        "in f32[8]",
        "f32[8] = constant -3.0",
        "f32[8] = multiply %0, %1",
    ]),
    ("negated-over-constant", &[
        "in f32[8]",
        "f32[8] = constant inf",
        "f32[8] = negate %0",
        "f32[8] = divide %2, %1",
    ], &[
        "in f32[8]",
        "f32[8] = constant -inf",
        "f32[8] = divide %0, %1",
    ]),
    ("multiply-by-minus-one", &[
        "in f32[8]",
        "f32[8] = constant -1.0",
        "f32[8] = multiply %0, %1",
    ], &[
        "in f32[8]",
        "f32[8] = negate %0",
    ]),
    ("negate-of-difference", &[
        "in f32[8]",
        "in f32[8]",
        "f32[8] = subtract %0, %1",
        "f32[8] = negate %2",
    ], &[
        "in f32[8]",
        "in f32[8]",
        "f32[8] = subtract %1, %0",
    ]),
    ("zero-minus", &[
        "in f32[8]",
        "f32[8] = constant 0.0",
        "f32[8] = subtract %1, %0",
    ], &[
        "in f32[8]",
        "f32[8] = negate %0",
    ]),
    ("abs-of-negated", &[
        "in f32[8]",
        "f32[8] = negate %0",
        "f32[8] = abs %1",
    ], &[
        "in f32[8]",
        "f32[8] = abs %0",
    ]),
    ("square-of-abs", &[
        "in f32[8]",
        "f32[8] = abs %0",
        "f32[8] = multiply %1, %1",
    ], &[
        "in f32[8]",
        "f32[8] = multiply %0, %0",
    ]),
    ("maximum-again", &[
        "in f32[8]",
        "in f32[8]",
        "f32[8] = maximum %0, %1",
        "f32[8] = maximum %2, %1",
    ], &[
        "in f32[8]",
        "in f32[8]",
        "f32[8] = maximum %0, %1",
    ]),
    ("maximum-with-constants", &[
        "in f32[8]",
        "f32[8] = constant 0.0",
        "f32[8] = constant 0.5",
        "f32[8] = maximum %0, %1",
        "f32[8] = maximum %3, %2",
    ], &[
        "in f32[8]",
        "f32[8] = constant 0.5",
        "f32[8] = maximum %0, %1",
    ]),
    ("maximum-with-limit", &[
        "in f32[8]",
        "f32[8] = constant -inf",
        "f32[8] = maximum %0, %1",
    ], &[
        "in f32[8]",
    ]),
    ("clamp-of-clamp-below", &[
        "in f32[8]",
        "f32[8] = constant 0.0",
        "f32[8] = constant 6.0",
        "f32[8] = maximum %0, %1",
        "f32[8] = minimum %3, %2",
        "f32[8] = maximum %4, %1",
    ], &[
        "in f32[8]",
        "f32[8] = constant 0.0",
        "f32[8] = maximum %0, %1",
        "f32[8] = constant 6.0",
        "f32[8] = minimum %2, %3",
    ]),
    ("and-all-ones", &[
        "in bool[8]",
        "bool[8] = constant true",
        "bool[8] = and %0, %1",
    ], &[
        "in bool[8]",
    ]),
    ("power-of-constant", &[
        "in f32[8]",
        "f32[8] = constant 3.0",
        "f32[8] = power %0, %1",
    ], &[
        "in f32[8]",
        "f32[8] = multiply %0, %0",
        "f32[8] = multiply %1, %0",
    ]),
    ("power-of-one", &[
        "in f32[8]",
        "f32[8] = constant 1.0",
        "f32[8] = power %0, %1",
    ], &[
        "in f32[8]",
    ]),
    ("divide-by-power-of-two", &[
        "in f32[8]",
        "f32[8] = constant 8.0",
        "f32[8] = divide %0, %1",
    ], &[
        "in f32[8]",
        "f32[8] = constant 0.125",
        "f32[8] = multiply %0, %1",
    ]),
    ("divide-by-constant", &[
        "in f32[8]",
        "f32[8] = constant 10.0",
        "f32[8] = divide %0, %1",
    ], &[
        "in f32[8]",
        "f32[8] = constant 0.1",
        "f32[8] = multiply %0, %1",
    ]),
    ("divide-by-broadcast", &[
        "in f32[64,512]",
        "in f32[64]",
        "f32[64,512] = broadcast_in_dim(shape:[64,512],dims:[0]) %1",
        "f32[64,512] = divide %0, %2",
    ], &[
        "in f32[64,512]",
        "in f32[64]",
        "f32[64] = constant 1.0",
        "f32[64] = divide %2, %1",
        "f32[64,512] = broadcast_in_dim(shape:[64,512],dims:[0]) %3",
        "f32[64,512] = multiply %0, %4",
    ]),
    ("divide-by-root", &[
        "in f32[8]",
        "in f32[8]",
        "f32[8] = sqrt %1",
        "f32[8] = divide %0, %2",
    ], &[
        "in f32[8]",
        "in f32[8]",
        "f32[8] = rsqrt %1",
        "f32[8] = multiply %0, %2",
    ]),
    ("constant-factors-gathered", &[
        "in f32[8]",
        "f32[8] = constant 3.0",
        "f32[8] = constant 0.1",
        "f32[8] = multiply %0, %1",
        "f32[8] = multiply %3, %2",
    ], &[
        "in f32[8]",
        "f32[8] = constant 0.3",
        "f32[8] = multiply %0, %1",
    ]),
    ("integer-summands-gathered", &[
        "in i64[8]",
        "i64[8] = constant 3",
        "i64[8] = constant 5",
        "i64[8] = add %0, %1",
        "i64[8] = add %3, %2",
    ], &[
        "in i64[8]",
        "i64[8] = constant 8",
        "i64[8] = add %0, %1",
    ]),
    ("common-factor", &[
        "in f32[8]",
        "in f32[8]",
        "in f32[8]",
        "f32[8] = multiply %0, %2",
        "f32[8] = multiply %1, %2",
        "f32[8] = add %3, %4",
    ], &[
        "in f32[8]",
        "in f32[8]",
        "in f32[8]",
        "f32[8] = add %0, %1",
        "f32[8] = multiply %3, %2",
    ]),
    ("product-of-exponentials", &[
        "in f32[8]",
        "in f32[8]",
        "f32[8] = exponential %0",
        "f32[8] = exponential %1",
        "f32[8] = multiply %2, %3",
    ], &[
        "in f32[8]",
        "in f32[8]",
        "f32[8] = add %0, %1",
        "f32[8] = exponential %2",
    ]),
    ("log-of-quotient-of-exponential", &[
        "in f32[64,512]",
        "f32[64,512] = exponential %0",
        "f32[64] = reduce(reducer:add,dims:[1]) %1",
        "f32[64,512] = broadcast_in_dim(shape:[64,512],dims:[0]) %2",
        "f32[64,512] = divide %1, %3",
        "f32[64,512] = log %4",
    ], &[
        "in f32[64,512]",
        "f32[64,512] = exponential %0",
        "f32[64] = reduce(reducer:add,dims:[1]) %1",
        "f32[64] = log %2",
        "f32[64,512] = broadcast_in_dim(shape:[64,512],dims:[0]) %3",
        "f32[64,512] = subtract %0, %4",
    ]),
    ("logistic", &[
        "in f32[8]",
        "f32[8] = negate %0",
        "f32[8] = exponential %1",
        "f32[8] = constant 1.0",
        "f32[8] = add %3, %2",
        "f32[8] = divide %3, %4",
    ], &[
        "in f32[8]",
        "f32[8] = logistic %0",
    ]),
    ("times-logistic", &[
        "in f32[8]",
        "f32[8] = negate %0",
        "f32[8] = exponential %1",
        "f32[8] = constant 1.0",
        "f32[8] = add %3, %2",
        "f32[8] = divide %0, %4",
    ], &[
        "in f32[8]",
        "f32[8] = logistic %0",
        "f32[8] = multiply %0, %1",
    ]),
    ("integer-quotient-by-power-of-two", &[
        "i64[512] = iota(dtype:i64,shape:[512],dim:0)",
        "i64[512] = constant 8",
        "i64[512] = divide %0, %1",
    ], &[
        "i64[512] = iota(dtype:i64,shape:[512],dim:0)",
        "i64[512] = constant 3",
        "i64[512] = shift_right_logical %0, %1",
    ]),
    ("integer-remainder-by-power-of-two", &[
        "i64[512] = iota(dtype:i64,shape:[512],dim:0)",
        "i64[512] = constant 8",
        "i64[512] = remainder %0, %1",
    ], &[
        "i64[512] = iota(dtype:i64,shape:[512],dim:0)",
        "i64[512] = constant 7",
        "i64[512] = and %0, %1",
    ]),
    ("select-true-false", &[
        "in bool[8]",
        "bool[8] = constant true",
        "bool[8] = constant false",
        "bool[8] = select %0, %1, %2",
    ], &[
        "in bool[8]",
    ]),
    ("select-of-select-on-true", &[
        "in bool[8]",
        "in f32[8]",
        "in f32[8]",
        "in f32[8]",
        "f32[8] = select %0, %1, %2",
        "f32[8] = select %0, %4, %3",
    ], &[
        "in bool[8]",
        "in f32[8]",
        "in f32[8]",
        "in f32[8]",
        "f32[8] = select %0, %1, %3",
    ]),
    ("masks-joined-by-or", &[
        "in f32[8]",
        "in bool[8]",
        "in bool[8]",
        "f32[8] = constant -inf",
        "f32[8] = select %1, %3, %0",
        "f32[8] = select %2, %3, %4",
    ], &[
        "in f32[8]",
        "in bool[8]",
        "in bool[8]",
        "bool[8] = or %2, %1",
        "f32[8] = constant -inf",
        "f32[8] = select %3, %4, %0",
    ]),
    ("additive-mask", &[
        "in f32[8]",
        "in bool[8]",
        "f32[8] = constant 0.0",
        "f32[8] = constant -inf",
        "f32[8] = select %1, %2, %3",
        "f32[8] = add %0, %4",
    ], &[
        "in f32[8]",
        "in bool[8]",
        "f32[8] = constant -inf",
        "f32[8] = select %1, %0, %2",
    ]),
    ("broadcast-additive-mask", &[
        "in f32[4,64,64]",
        "in bool[64,64]",
        "f32[64,64] = constant 0.0",
        "f32[64,64] = constant -inf",
        "f32[64,64] = select %1, %2, %3",
        "f32[4,64,64] = broadcast_in_dim(shape:[4,64,64],dims:[1,2]) %4",
        "f32[4,64,64] = add %0, %5",
    ], &[
        "in f32[4,64,64]",
        "in bool[64,64]",
        "bool[4,64,64] = broadcast_in_dim(shape:[4,64,64],dims:[1,2]) %1",
        "f32[4,64,64] = constant -inf",
        "f32[4,64,64] = select %2, %0, %3",
    ]),
    ("and-absorbs", &[
        "in bool[8]",
        "in bool[8]",
        "bool[8] = or %0, %1",
        "bool[8] = and %0, %2",
        "bool[8] = xor %3, %1",
    ], &[
        "in bool[8]",
        "in bool[8]",
        "bool[8] = xor %0, %1",
    ]),
    ("and-of-nots", &[
        "in bool[8]",
        "in bool[8]",
        "bool[8] = not %0",
        "bool[8] = not %1",
        "bool[8] = and %2, %3",
    ], &[
        "in bool[8]",
        "in bool[8]",
        "bool[8] = or %0, %1",
        "bool[8] = not %2",
    ]),
    ("not-of-eq", &[
        "in f32[8]",
        "in f32[8]",
        "bool[8] = compare_eq %0, %1",
        "bool[8] = not %2",
    ], &[
        "in f32[8]",
        "in f32[8]",
        "bool[8] = compare_ne %0, %1",
    ]),
    ("not-of-lt", &[
        "in i32[8]",
        "in i32[8]",
        "bool[8] = compare_lt %0, %1",
        "bool[8] = not %2",
    ], &[
        "in i32[8]",
        "in i32[8]",
        "bool[8] = compare_ge %0, %1",
    ]),
    ("eq-of-choice", &[
        "in bool[8]",
        "f32[8] = constant 0.0",
        "f32[8] = constant 1.0",
        "f32[8] = select %0, %2, %1",
        "bool[8] = compare_eq %3, %1",
    ], &[
        "in bool[8]",
        "bool[8] = not %0",
    ]),
    ("lt-decided", &[
        "i64[512] = iota(dtype:i64,shape:[512],dim:0)",
        "i64[512] = constant 0",
        "bool[512] = compare_lt %0, %1",
    ], &[
        "bool[512] = constant false",
    ]),
    ("ge-of-difference", &[
        "i32[64,64] = iota(dtype:i32,shape:[64,64],dim:0)",
        "i32[64,64] = iota(dtype:i32,shape:[64,64],dim:1)",
        "i32[64,64] = subtract %0, %1",
        "i32[64,64] = constant 0",
        "bool[64,64] = compare_ge %2, %3",
    ], &[
        "i32[64,64] = iota(dtype:i32,shape:[64,64],dim:0)",
        "i32[64,64] = iota(dtype:i32,shape:[64,64],dim:1)",
        "bool[64,64] = compare_ge %0, %1",
    ]),
    ("maximum-decided", &[
        "i64[512] = iota(dtype:i64,shape:[512],dim:0)",
        "i64[512] = constant 0",
        "i64[512] = maximum %0, %1",
    ], &[
        "i64[512] = iota(dtype:i64,shape:[512],dim:0)",
    ]),
    ("remainder-decided", &[
        "i64[512] = iota(dtype:i64,shape:[512],dim:0)",
        "i64[512] = constant 600",
        "i64[512] = remainder %0, %1",
    ], &[
        "i64[512] = iota(dtype:i64,shape:[512],dim:0)",
    ]),
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
    ("sum-of-broadcast", &[
        "in f32[64]",
        "f32[64,512] = broadcast_in_dim(shape:[64,512],dims:[0]) %0",
        "f32[64] = reduce(reducer:add,dims:[1]) %1",
    ], &[
        "in f32[64]",
        "f32[64] = constant 512.0",
        "f32[64] = multiply %0, %1",
    ]),
    ("extreme-of-broadcast", &[
        "in f32[64]",
        "f32[64,512] = broadcast_in_dim(shape:[64,512],dims:[0]) %0",
        "f32[64] = reduce(reducer:maximum,dims:[1]) %1",
    ], &[
        "in f32[64]",
    ]),
    ("sum-of-sums", &[
        "in f32[8,64,64]",
        "f32[8,64] = reduce(reducer:add,dims:[2]) %0",
        "f32[8] = reduce(reducer:add,dims:[1]) %1",
    ], &[
        "in f32[8,64,64]",
        "f32[8] = reduce(reducer:add,dims:[1,2]) %0",
    ]),
    ("extreme-of-extremes", &[
        "in f32[8,64,64]",
        "f32[8,64] = reduce(reducer:maximum,dims:[2]) %0",
        "f32[8] = reduce(reducer:maximum,dims:[1]) %1",
    ], &[
        "in f32[8,64,64]",
        "f32[8] = reduce(reducer:maximum,dims:[1,2]) %0",
    ]),
    ("sum-of-transpose", &[
        "in f32[64,512]",
        "f32[512,64] = transpose(permutation:[1,0]) %0",
        "f32[64] = reduce(reducer:add,dims:[0]) %1",
    ], &[
        "in f32[64,512]",
        "f32[64] = reduce(reducer:add,dims:[1]) %0",
    ]),
    ("reduction-of-reshape", &[
        "in f32[64,8,64]",
        "f32[64,512] = reshape(shape:[64,512]) %0",
        "f32[64] = reduce(reducer:add,dims:[1]) %1",
    ], &[
        "in f32[64,8,64]",
        "f32[64] = reduce(reducer:add,dims:[1,2]) %0",
    ]),
    ("sum-times-constant", &[
        "in f32[64,512]",
        "f32[64,512] = constant 3.0",
        "f32[64,512] = multiply %0, %1",
        "f32[64] = reduce(reducer:add,dims:[1]) %2",
    ], &[
        "in f32[64,512]",
        "f32[64] = reduce(reducer:add,dims:[1]) %0",
        "f32[64] = constant 3.0",
        "f32[64] = multiply %1, %2",
    ]),
    ("sum-times-repeated", &[
        "in f32[64,512]",
        "in f32[64]",
        "f32[64,512] = broadcast_in_dim(shape:[64,512],dims:[0]) %1",
        "f32[64,512] = multiply %0, %2",
        "f32[64] = reduce(reducer:add,dims:[1]) %3",
    ], &[
        "in f32[64,512]",
        "in f32[64]",
        "f32[64] = reduce(reducer:add,dims:[1]) %0",
        "f32[64] = multiply %2, %1",
    ]),
    ("sum-of-negated", &[
        "in f32[64,512]",
        "f32[64,512] = negate %0",
        "f32[64] = reduce(reducer:add,dims:[1]) %1",
    ], &[
        "in f32[64,512]",
        "f32[64] = reduce(reducer:add,dims:[1]) %0",
        "f32[64] = negate %1",
    ]),
    ("extreme-of-negated", &[
        "in f32[64,512]",
        "f32[64,512] = negate %0",
        "f32[64] = reduce(reducer:maximum,dims:[1]) %1",
    ], &[
        "in f32[64,512]",
        "f32[64] = reduce(reducer:minimum,dims:[1]) %0",
        "f32[64] = negate %1",
    ]),
    ("sum-of-one", &[
        "in f32[64,1]",
        "f32[64] = reduce(reducer:add,dims:[1]) %0",
    ], &[
        "in f32[64,1]",
        "f32[64] = reshape(shape:[64]) %0",
    ]),
    ("reduction-of-one", &[
        "in f32[64,1]",
        "f32[64] = reduce(reducer:maximum,dims:[1]) %0",
    ], &[
        "in f32[64,1]",
        "f32[64] = reshape(shape:[64]) %0",
    ]),
    ("sum-of-constant", &[
        "in f32[64]",
        "f32[64,512] = constant 3.0",
        "f32[64] = reduce(reducer:add,dims:[1]) %1",
        "f32[64] = add %0, %2",
    ], &[
        "in f32[64]",
        "f32[64] = constant 1536.0",
        "f32[64] = add %0, %1",
    ]),
    ("extreme-of-widened", &[
        "in bf16[64,512]",
        "f32[64,512] = convert(dtype:f32) %0",
        "f32[64] = reduce(reducer:maximum,dims:[1]) %1",
    ], &[
        "in bf16[64,512]",
        "bf16[64] = reduce(reducer:maximum,dims:[1]) %0",
        "f32[64] = convert(dtype:f32) %1",
    ]),
    ("maximum-of-bounded", &[
        "in f32[64,512]",
        "f32[64,512] = constant 0.0",
        "f32[64,512] = maximum %0, %1",
        "f32[64] = reduce(reducer:maximum,dims:[1]) %2",
    ], &[
        "in f32[64,512]",
        "f32[64] = reduce(reducer:maximum,dims:[1]) %0",
        "f32[64] = constant 0.0",
        "f32[64] = maximum %1, %2",
    ]),
    ("window-of-everything", &[
        "in f32[8,16,7,7]",
        "f32[8,16,1,1] = reduce_window(reducer:add,window:(size:[1,1,7,7],strides:[1,1,1,1],padding:[(0,0),(0,0),(0,0),(0,0)],base_dilation:[1,1,1,1],dilation:[1,1,1,1])) %0",
    ], &[
        "in f32[8,16,7,7]",
        "f32[8,16] = reduce(reducer:add,dims:[2,3]) %0",
        "f32[8,16,1,1] = reshape(shape:[8,16,1,1]) %1",
    ]),
    ("max-window-of-bounded", &[
        "in f32[8,16,8,8]",
        "f32[8,16,8,8] = constant 0.0",
        "f32[8,16,8,8] = maximum %0, %1",
        "f32[8,16,4,4] = reduce_window(reducer:maximum,window:(size:[1,1,2,2],strides:[1,1,2,2],padding:[(0,0),(0,0),(0,0),(0,0)],base_dilation:[1,1,1,1],dilation:[1,1,1,1])) %2",
    ], &[
        "in f32[8,16,8,8]",
        "f32[8,16,4,4] = reduce_window(reducer:maximum,window:(size:[1,1,2,2],strides:[1,1,2,2],padding:[(0,0),(0,0),(0,0),(0,0)],base_dilation:[1,1,1,1],dilation:[1,1,1,1])) %0",
        "f32[8,16,4,4] = constant 0.0",
        "f32[8,16,4,4] = maximum %1, %2",
    ]),
    ("pick-of-reshaped-difference", &[
        "in f32[64,1000]",
        "in i64[64,1,1]",
        "f32[64] = reduce(reducer:maximum,dims:[1]) %0",
        "f32[64,1000] = broadcast_in_dim(shape:[64,1000],dims:[0]) %2",
        "f32[64,1000] = subtract %0, %3",
        "f32[64,1000] = exponential %4",
        "f32[64] = reduce(reducer:add,dims:[1]) %5",
        "f32[64] = log %6",
        "f32[64,1000] = broadcast_in_dim(shape:[64,1000],dims:[0]) %7",
        "f32[64,1000] = subtract %4, %8",
        "f32[64,1000,1] = reshape(shape:[64,1000,1]) %9",
        "f32[64,1] = gather(offset_dims:[],collapsed_slice_dims:[1],operand_batching_dims:[0,2],start_indices_batching_dims:[0,1],start_index_map:[1],index_vector_dim:2,slice_sizes:[1,1,1]) %10, %1",
    ], &[
        "in f32[64,1000]",
        "in i64[64,1,1]",
        "f32[64,1000,1] = reshape(shape:[64,1000,1]) %0",
        "f32[64,1] = gather(offset_dims:[],collapsed_slice_dims:[1],operand_batching_dims:[0,2],start_indices_batching_dims:[0,1],start_index_map:[1],index_vector_dim:2,slice_sizes:[1,1,1]) %2, %1",
        "f32[64] = reduce(reducer:maximum,dims:[1]) %0",
        "f32[64,1] = broadcast_in_dim(shape:[64,1],dims:[0]) %4",
        "f32[64,1] = subtract %3, %5",
        "f32[64,1000] = broadcast_in_dim(shape:[64,1000],dims:[0]) %4",
        "f32[64,1000] = subtract %0, %7",
        "f32[64,1000] = exponential %8",
        "f32[64] = reduce(reducer:add,dims:[1]) %9",
        "f32[64] = log %10",
        "f32[64,1] = broadcast_in_dim(shape:[64,1],dims:[0]) %11",
        "f32[64,1] = subtract %6, %12",
    ]),
    ("gather-with-constant-index", &[
        "in f32[1000,64]",
        "i64[8] = constant 5",
        "f32[8,64] = gather(offset_dims:[1],collapsed_slice_dims:[0],operand_batching_dims:[],start_indices_batching_dims:[],start_index_map:[0],index_vector_dim:1,slice_sizes:[1,64]) %0, %1",
    ], &[
        "in f32[1000,64]",
        "f32[1,64] = slice(start:[5,0],limit:[6,64],stride:[1,1]) %0",
        "f32[64] = reshape(shape:[64]) %1",
        "f32[8,64] = broadcast_in_dim(shape:[8,64],dims:[1]) %2",
    ]),
    ("gather-of-counted", &[
        "in f32[1000,64]",
        "i64[512] = iota(dtype:i64,shape:[512],dim:0)",
        "i64[1,512] = reshape(shape:[1,512]) %1",
        "f32[1,512,64] = gather(offset_dims:[2],collapsed_slice_dims:[0],operand_batching_dims:[],start_indices_batching_dims:[],start_index_map:[0],index_vector_dim:2,slice_sizes:[1,64]) %0, %2",
    ], &[
        "in f32[1000,64]",
        "f32[512,64] = slice(start:[0,0],limit:[512,64],stride:[1,1]) %0",
        "f32[1,512,64] = broadcast_in_dim(shape:[1,512,64],dims:[1,2]) %1",
    ]),
    ("gather-of-limited-above", &[
        "in f32[1000,64]",
        "in i32[8]",
        "i32[8] = constant 999",
        "i32[8] = minimum %1, %2",
        "f32[8,64] = gather(offset_dims:[1],collapsed_slice_dims:[0],operand_batching_dims:[],start_indices_batching_dims:[],start_index_map:[0],index_vector_dim:1,slice_sizes:[1,64]) %0, %3",
    ], &[
        "in f32[1000,64]",
        "in i32[8]",
        "f32[8,64] = gather(offset_dims:[1],collapsed_slice_dims:[0],operand_batching_dims:[],start_indices_batching_dims:[],start_index_map:[0],index_vector_dim:1,slice_sizes:[1,64]) %0, %1",
    ]),
    ("one-hot-product", &[
        "in i32[256]",
        "in f32[1000,64]",
        "i32[256,1000] = broadcast_in_dim(shape:[256,1000],dims:[0]) %0",
        "i32[256,1000] = iota(dtype:i32,shape:[256,1000],dim:1)",
        "bool[256,1000] = compare_eq %2, %3",
        "f32[256,1000] = convert(dtype:f32) %4",
        "f32[256,64] = dot_general(lhs_batch:[],rhs_batch:[],lhs_contract:[1],rhs_contract:[0],precision:highest,out:f32) %5, %1",
    ], &[
        "in i32[256]",
        "in f32[1000,64]",
        "i32[256] = constant 0",
        "bool[256] = compare_ge %0, %2",
        "i32[256] = constant 1000",
        "bool[256] = compare_lt %0, %4",
        "bool[256] = and %3, %5",
        "bool[256,64] = broadcast_in_dim(shape:[256,64],dims:[0]) %6",
        "f32[256,64] = gather(offset_dims:[1],collapsed_slice_dims:[0],operand_batching_dims:[],start_indices_batching_dims:[],start_index_map:[0],index_vector_dim:1,slice_sizes:[1,64]) %1, %0",
        "f32[256,64] = constant 0.0",
        "f32[256,64] = select %7, %8, %9",
    ]),
    ("reshaped-one-hot-product", &[
        "in i64[4,50,1]",
        "in f32[100,32]",
        "i64[4,50,100] = broadcast_in_dim(shape:[4,50,100],dims:[0,1,2]) %0",
        "i64[100] = iota(dtype:i64,shape:[100],dim:0)",
        "i64[4,50,100] = broadcast_in_dim(shape:[4,50,100],dims:[2]) %3",
        "bool[4,50,100] = compare_eq %2, %4",
        "i64[4,50,100] = convert(dtype:i64) %5",
        "f32[4,50,100] = convert(dtype:f32) %6",
        "f32[200,100] = reshape(shape:[200,100]) %7",
        "f32[200,32] = dot_general(lhs_batch:[],rhs_batch:[],lhs_contract:[1],rhs_contract:[0],precision:highest,out:f32) %8, %1",
    ], &[
        "in i64[4,50,1]",
        "in f32[100,32]",
        "i64[200] = reshape(shape:[200]) %0",
        "i64[200] = constant 0",
        "bool[200] = compare_ge %2, %3",
        "i64[200] = constant 100",
        "bool[200] = compare_lt %2, %5",
        "bool[200] = and %4, %6",
        "bool[200,32] = broadcast_in_dim(shape:[200,32],dims:[0]) %7",
        "f32[200,32] = gather(offset_dims:[1],collapsed_slice_dims:[0],operand_batching_dims:[],start_indices_batching_dims:[],start_index_map:[0],index_vector_dim:1,slice_sizes:[1,32]) %1, %2",
        "f32[200,32] = constant 0.0",
        "f32[200,32] = select %8, %9, %10",
    ]),
    ("exponential-of-log-softmax", &[
        "in bf16[64,512]",
        "bf16[64,512] = exponential %0",
        "bf16[64] = reduce(reducer:add,dims:[1]) %1",
        "bf16[64] = log %2",
        "bf16[64,512] = broadcast_in_dim(shape:[64,512],dims:[0]) %3",
        "bf16[64,512] = subtract %0, %4",
        "bf16[64,512] = exponential %5",
    ], &[
        "in bf16[64,512]",
        "bf16[64,512] = exponential %0",
        "bf16[64] = reduce(reducer:add,dims:[1]) %1",
        "bf16[64,512] = broadcast_in_dim(shape:[64,512],dims:[0]) %2",
        "bf16[64,512] = divide %1, %3",
    ]),
];
