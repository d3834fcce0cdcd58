//! Rows of the theme `select`.

use super::Row;

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
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
    ("select-same", &[
        "in bool[8]",
        "in f32[8]",
        "f32[8] = select %0, %1, %1",
    ], &[
        "in bool[8]",
        "in f32[8]",
    ]),
    ("select-not", &[
        "in bool[8]",
        "in f32[8]",
        "in f32[8]",
        "bool[8] = not %0",
        "f32[8] = select %3, %1, %2",
    ], &[
        "in bool[8]",
        "in f32[8]",
        "in f32[8]",
        "f32[8] = select %0, %2, %1",
    ]),
    ("select-decided", &[
        "bool[8] = constant true",
        "in f32[8]",
        "in f32[8]",
        "f32[8] = select %0, %1, %2",
        "f32[8] = subtract %2, %3",
    ], &[
        "in f32[8]",
        "in f32[8]",
        "f32[8] = subtract %1, %0",
    ]),
    ("select-false-true", &[
        "in bool[8]",
        "bool[8] = constant true",
        "bool[8] = constant false",
        "bool[8] = select %0, %2, %1",
    ], &[
        "in bool[8]",
        "bool[8] = not %0",
    ]),
    ("select-of-select-on-false", &[
        "in bool[8]",
        "in f32[8]",
        "in f32[8]",
        "in f32[8]",
        "f32[8] = select %0, %1, %2",
        "f32[8] = select %0, %3, %4",
    ], &[
        "in bool[8]",
        "in f32[8]",
        "in f32[8]",
        "in f32[8]",
        "f32[8] = select %0, %3, %2",
    ]),
    ("masks-joined-by-and", &[
        "in f32[8]",
        "in bool[8]",
        "in bool[8]",
        "f32[8] = constant -inf",
        "f32[8] = select %1, %0, %3",
        "f32[8] = select %2, %4, %3",
    ], &[
        "in f32[8]",
        "in bool[8]",
        "in bool[8]",
        "bool[8] = and %2, %1",
        "f32[8] = constant -inf",
        "f32[8] = select %3, %0, %4",
    ]),
    ("and-of-same", &[
        "in bool[8]",
        "bool[8] = and %0, %0",
    ], &[
        "in bool[8]",
    ]),
    ("or-of-same", &[
        "in bool[8]",
        "bool[8] = or %0, %0",
    ], &[
        "in bool[8]",
    ]),
    ("and-with-negation", &[
        "in bool[8]",
        "bool[8] = not %0",
        "bool[8] = and %0, %1",
    ], &[
        "in bool[8]",
        "bool[8] = constant false",
    ]),
    ("and-of-negation", &[
        "in bool[8]",
        "bool[8] = not %0",
        "bool[8] = and %1, %0",
    ], &[
        "in bool[8]",
        "bool[8] = constant false",
    ]),
    ("or-with-negation", &[
        "in bool[8]",
        "bool[8] = not %0",
        "bool[8] = or %0, %1",
    ], &[
        "in bool[8]",
        "bool[8] = constant true",
    ]),
    ("or-of-negation", &[
        "in bool[8]",
        "bool[8] = not %0",
        "bool[8] = or %1, %0",
    ], &[
        "in bool[8]",
        "bool[8] = constant true",
    ]),
    ("or-absorbs", &[
        "in bool[8]",
        "in bool[8]",
        "bool[8] = and %0, %1",
        "bool[8] = or %0, %2",
        "bool[8] = xor %3, %1",
    ], &[
        "in bool[8]",
        "in bool[8]",
        "bool[8] = xor %0, %1",
    ]),
    ("or-of-nots", &[
        "in bool[8]",
        "in bool[8]",
        "bool[8] = not %0",
        "bool[8] = not %1",
        "bool[8] = or %2, %3",
    ], &[
        "in bool[8]",
        "in bool[8]",
        "bool[8] = and %0, %1",
        "bool[8] = not %2",
    ]),
    ("not-of-ne", &[
        "in f32[8]",
        "in f32[8]",
        "bool[8] = compare_ne %0, %1",
        "bool[8] = not %2",
    ], &[
        "in f32[8]",
        "in f32[8]",
        "bool[8] = compare_eq %0, %1",
    ]),
    ("not-of-ge", &[
        "in i32[8]",
        "in i32[8]",
        "bool[8] = compare_ge %0, %1",
        "bool[8] = not %2",
    ], &[
        "in i32[8]",
        "in i32[8]",
        "bool[8] = compare_lt %0, %1",
    ]),
    ("not-of-le", &[
        "in i32[8]",
        "in i32[8]",
        "bool[8] = compare_le %0, %1",
        "bool[8] = not %2",
    ], &[
        "in i32[8]",
        "in i32[8]",
        "bool[8] = compare_gt %0, %1",
    ]),
    ("not-of-gt", &[
        "in i32[8]",
        "in i32[8]",
        "bool[8] = compare_gt %0, %1",
        "bool[8] = not %2",
    ], &[
        "in i32[8]",
        "in i32[8]",
        "bool[8] = compare_le %0, %1",
    ]),
    ("ne-of-choice", &[
        "in bool[8]",
        "f32[8] = constant 0.0",
        "f32[8] = constant 1.0",
        "f32[8] = select %0, %2, %1",
        "bool[8] = compare_ne %3, %1",
    ], &[
        "in bool[8]",
    ]),
    ("eq-decided", &[
        "i64[512] = iota(dtype:i64,shape:[512],dim:0)",
        "i64[512] = constant 600",
        "bool[512] = compare_eq %0, %1",
    ], &[
        "bool[512] = constant false",
    ]),
    ("ne-decided", &[
        "i64[512] = iota(dtype:i64,shape:[512],dim:0)",
        "i64[512] = constant 600",
        "bool[512] = compare_ne %0, %1",
    ], &[
        "bool[512] = constant true",
    ]),
    ("ge-decided", &[
        "i64[512] = iota(dtype:i64,shape:[512],dim:0)",
        "i64[512] = constant 600",
        "bool[512] = compare_ge %0, %1",
    ], &[
        "bool[512] = constant false",
    ]),
    ("le-decided", &[
        "i64[512] = iota(dtype:i64,shape:[512],dim:0)",
        "i64[512] = constant 600",
        "bool[512] = compare_le %0, %1",
    ], &[
        "bool[512] = constant true",
    ]),
    ("gt-decided", &[
        "i64[512] = iota(dtype:i64,shape:[512],dim:0)",
        "i64[512] = constant 600",
        "bool[512] = compare_gt %0, %1",
    ], &[
        "bool[512] = constant false",
    ]),
    ("eq-of-difference", &[
        "i32[64,64] = iota(dtype:i32,shape:[64,64],dim:0)",
        "i32[64,64] = iota(dtype:i32,shape:[64,64],dim:1)",
        "i32[64,64] = subtract %0, %1",
        "i32[64,64] = constant 0",
        "bool[64,64] = compare_eq %2, %3",
    ], &[
        "i32[64,64] = iota(dtype:i32,shape:[64,64],dim:0)",
        "i32[64,64] = iota(dtype:i32,shape:[64,64],dim:1)",
        "bool[64,64] = compare_eq %0, %1",
    ]),
    ("ne-of-difference", &[
        "i32[64,64] = iota(dtype:i32,shape:[64,64],dim:0)",
        "i32[64,64] = iota(dtype:i32,shape:[64,64],dim:1)",
        "i32[64,64] = subtract %0, %1",
        "i32[64,64] = constant 0",
        "bool[64,64] = compare_ne %2, %3",
    ], &[
        "i32[64,64] = iota(dtype:i32,shape:[64,64],dim:0)",
        "i32[64,64] = iota(dtype:i32,shape:[64,64],dim:1)",
        "bool[64,64] = compare_ne %0, %1",
    ]),
    ("lt-of-difference", &[
        "i32[64,64] = iota(dtype:i32,shape:[64,64],dim:0)",
        "i32[64,64] = iota(dtype:i32,shape:[64,64],dim:1)",
        "i32[64,64] = subtract %0, %1",
        "i32[64,64] = constant 0",
        "bool[64,64] = compare_lt %2, %3",
    ], &[
        "i32[64,64] = iota(dtype:i32,shape:[64,64],dim:0)",
        "i32[64,64] = iota(dtype:i32,shape:[64,64],dim:1)",
        "bool[64,64] = compare_lt %0, %1",
    ]),
    ("le-of-difference", &[
        "i32[64,64] = iota(dtype:i32,shape:[64,64],dim:0)",
        "i32[64,64] = iota(dtype:i32,shape:[64,64],dim:1)",
        "i32[64,64] = subtract %0, %1",
        "i32[64,64] = constant 0",
        "bool[64,64] = compare_le %2, %3",
    ], &[
        "i32[64,64] = iota(dtype:i32,shape:[64,64],dim:0)",
        "i32[64,64] = iota(dtype:i32,shape:[64,64],dim:1)",
        "bool[64,64] = compare_le %0, %1",
    ]),
    ("gt-of-difference", &[
        "i32[64,64] = iota(dtype:i32,shape:[64,64],dim:0)",
        "i32[64,64] = iota(dtype:i32,shape:[64,64],dim:1)",
        "i32[64,64] = subtract %0, %1",
        "i32[64,64] = constant 0",
        "bool[64,64] = compare_gt %2, %3",
    ], &[
        "i32[64,64] = iota(dtype:i32,shape:[64,64],dim:0)",
        "i32[64,64] = iota(dtype:i32,shape:[64,64],dim:1)",
        "bool[64,64] = compare_gt %0, %1",
    ]),
    ("minimum-decided", &[
        "i64[512] = iota(dtype:i64,shape:[512],dim:0)",
        "i64[512] = constant 600",
        "i64[512] = minimum %0, %1",
    ], &[
        "i64[512] = iota(dtype:i64,shape:[512],dim:0)",
    ]),
    ("quotient-decided", &[
        "i64[512] = iota(dtype:i64,shape:[512],dim:0)",
        "i64[512] = constant 600",
        "i64[512] = divide %0, %1",
    ], &[
        "i64[512] = constant 0",
    ]),
    ("masks-joined-by-and-not", &[
        "in f32[8]",
        "in bool[8]",
        "in bool[8]",
        "in f32[8]",
        "f32[8] = select %1, %3, %0",
        "f32[8] = select %2, %0, %4",
    ], &[
        "in f32[8]",
        "in bool[8]",
        "in bool[8]",
        "in f32[8]",
        "bool[8] = not %1",
        "bool[8] = or %2, %4",
        "f32[8] = select %5, %0, %3",
    ]),
];
