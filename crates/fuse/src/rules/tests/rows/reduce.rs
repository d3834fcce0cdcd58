//! Rows of the theme `reduce`.

use super::Row;

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
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
    ("extreme-of-transpose", &[
        "in f32[64,512]",
        "f32[512,64] = transpose(permutation:[1,0]) %0",
        "f32[64] = reduce(reducer:maximum,dims:[0]) %1",
    ], &[
        "in f32[64,512]",
        "f32[64] = reduce(reducer:maximum,dims:[1]) %0",
    ]),
    ("sum-of-repeated-times", &[
        "in f32[64,512]",
        "in f32[64]",
        "f32[64,512] = broadcast_in_dim(shape:[64,512],dims:[0]) %1",
        "f32[64,512] = multiply %2, %0",
        "f32[64] = reduce(reducer:add,dims:[1]) %3",
    ], &[
        "in f32[64,512]",
        "in f32[64]",
        "f32[64] = reduce(reducer:add,dims:[1]) %0",
        "f32[64] = multiply %2, %1",
    ]),
    ("sum-over-repeated", &[
        "in f32[64,512]",
        "in f32[64]",
        "f32[64,512] = broadcast_in_dim(shape:[64,512],dims:[0]) %1",
        "f32[64,512] = divide %0, %2",
        "f32[64] = reduce(reducer:add,dims:[1]) %3",
    ], &[
        "in f32[64,512]",
        "in f32[64]",
        "f32[64] = reduce(reducer:add,dims:[1]) %0",
        "f32[64] = divide %2, %1",
    ]),
    ("extreme-of-constant", &[
        "in f32[64]",
        "f32[64,512] = constant 3.0",
        "f32[64] = reduce(reducer:maximum,dims:[1]) %1",
        "f32[64] = add %0, %2",
    ], &[
        "in f32[64]",
        "f32[64] = constant 3.0",
        "f32[64] = add %0, %1",
    ]),
    ("minimum-of-bounded", &[
        "in f32[64,512]",
        "f32[64,512] = constant 0.0",
        "f32[64,512] = minimum %0, %1",
        "f32[64] = reduce(reducer:minimum,dims:[1]) %2",
    ], &[
        "in f32[64,512]",
        "f32[64] = reduce(reducer:minimum,dims:[1]) %0",
        "f32[64] = constant 0.0",
        "f32[64] = minimum %1, %2",
    ]),
    ("sum-window-of-one", &[
        "in f32[64,512]",
        "f32[64,512] = reduce_window(reducer:add,window:(size:[1,1],strides:[1,1],padding:[(0,0),(0,0)],base_dilation:[1,1],dilation:[1,1])) %0",
    ], &[
        "in f32[64,512]",
    ]),
    ("window-of-one", &[
        "in f32[64,512]",
        "f32[64,512] = reduce_window(reducer:maximum,window:(size:[1,1],strides:[1,1],padding:[(0,0),(0,0)],base_dilation:[1,1],dilation:[1,1])) %0",
    ], &[
        "in f32[64,512]",
    ]),
    ("sum-window-of-reversed", &[
        "in f32[64,512]",
        "f32[64,512] = reverse(dims:[1]) %0",
        "f32[64,512] = reduce_window(reducer:add,window:(size:[1,512],strides:[1,1],padding:[(0,0),(511,0)],base_dilation:[1,1],dilation:[1,1])) %1",
        "f32[64,512] = reverse(dims:[1]) %2",
    ], &[
        "in f32[64,512]",
        "f32[64,512] = reduce_window(reducer:add,window:(size:[1,512],strides:[1,1],padding:[(0,0),(0,511)],base_dilation:[1,1],dilation:[1,1])) %0",
    ]),
    ("window-of-reversed", &[
        "in f32[64,512]",
        "f32[64,512] = reverse(dims:[1]) %0",
        "f32[64,512] = reduce_window(reducer:maximum,window:(size:[1,512],strides:[1,1],padding:[(0,0),(511,0)],base_dilation:[1,1],dilation:[1,1])) %1",
        "f32[64,512] = reverse(dims:[1]) %2",
    ], &[
        "in f32[64,512]",
        "f32[64,512] = reduce_window(reducer:maximum,window:(size:[1,512],strides:[1,1],padding:[(0,0),(0,511)],base_dilation:[1,1],dilation:[1,1])) %0",
    ]),
];
