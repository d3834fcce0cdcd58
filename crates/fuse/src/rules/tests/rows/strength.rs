//! Rows of the theme `strength`.

use super::Row;

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
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
    ("integer-factors-gathered", &[
        "in i64[8]",
        "i64[8] = constant 3",
        "i64[8] = constant 5",
        "i64[8] = multiply %0, %1",
        "i64[8] = multiply %3, %2",
    ], &[
        "in i64[8]",
        "i64[8] = constant 15",
        "i64[8] = multiply %0, %1",
    ]),
    ("constant-summands-gathered", &[
        "in f32[8]",
        "f32[8] = constant 3.0",
        "f32[8] = constant 0.5",
        "f32[8] = add %0, %1",
        "f32[8] = add %3, %2",
    ], &[
        "in f32[8]",
        "f32[8] = constant 3.5",
        "f32[8] = add %0, %1",
    ]),
    ("quotient-of-exponentials", &[
        "in f32[8]",
        "in f32[8]",
        "f32[8] = exponential %0",
        "f32[8] = exponential %1",
        "f32[8] = divide %2, %3",
    ], &[
        "in f32[8]",
        "in f32[8]",
        "f32[8] = subtract %0, %1",
        "f32[8] = exponential %2",
    ]),
    ("log-of-exponential", &[
        "in f32[8]",
        "f32[8] = exponential %0",
        "f32[8] = log %1",
    ], &[
        "in f32[8]",
    ]),
];
