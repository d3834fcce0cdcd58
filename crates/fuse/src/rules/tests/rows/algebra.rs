//! Rows of the theme `algebra`.

use super::Row;

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    ("binary-of-constants", &[
        "in f32[8]",
        "f32[8] = constant 2.0",
        "f32[8] = constant 3.0",
        "f32[8] = multiply %1, %2",
        "f32[8] = maximum %0, %3",
    ], &[
        "in f32[8]",
        "f32[8] = constant 6.0",
        "f32[8] = maximum %0, %1",
    ]),
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
    ("divide-by-one", &[
        "in f32[8]",
        "f32[8] = constant 1.0",
        "f32[8] = divide %0, %1",
    ], &[
        "in f32[8]",
    ]),
    ("subtract-zero", &[
        "in f32[8]",
        "f32[8] = constant 0.0",
        "f32[8] = subtract %0, %1",
    ], &[
        "in f32[8]",
    ]),
    ("negate-twice", &[
        "in f32[8]",
        "f32[8] = negate %0",
        "f32[8] = negate %1",
    ], &[
        "in f32[8]",
    ]),
    ("not-twice", &[
        "in bool[8]",
        "bool[8] = not %0",
        "bool[8] = not %1",
    ], &[
        "in bool[8]",
    ]),
    ("subtract-negated", &[
        "in f32[8]",
        "in f32[8]",
        "f32[8] = negate %1",
        "f32[8] = subtract %0, %2",
    ], &[
        "in f32[8]",
        "in f32[8]",
        "f32[8] = add %0, %1",
    ]),
    ("abs-of-abs", &[
        "in f32[8]",
        "f32[8] = abs %0",
        "f32[8] = abs %1",
    ], &[
        "in f32[8]",
        "f32[8] = abs %0",
    ]),
    ("maximum-of-same", &[
        "in f32[8]",
        "f32[8] = maximum %0, %0",
    ], &[
        "in f32[8]",
    ]),
    ("minimum-of-same", &[
        "in f32[8]",
        "f32[8] = minimum %0, %0",
    ], &[
        "in f32[8]",
    ]),
    ("minimum-again", &[
        "in f32[8]",
        "in f32[8]",
        "f32[8] = minimum %0, %1",
        "f32[8] = minimum %2, %1",
    ], &[
        "in f32[8]",
        "in f32[8]",
        "f32[8] = minimum %0, %1",
    ]),
    ("minimum-with-constants", &[
        "in f32[8]",
        "f32[8] = constant 0.0",
        "f32[8] = constant 0.5",
        "f32[8] = minimum %0, %1",
        "f32[8] = minimum %3, %2",
    ], &[
        "in f32[8]",
        "f32[8] = constant 0.0",
        "f32[8] = minimum %0, %1",
    ]),
    ("minimum-with-limit", &[
        "in f32[8]",
        "f32[8] = constant inf",
        "f32[8] = minimum %0, %1",
    ], &[
        "in f32[8]",
    ]),
    ("and-zero", &[
        "in bool[8]",
        "bool[8] = constant false",
        "bool[8] = and %0, %1",
    ], &[
        "in bool[8]",
        "bool[8] = constant false",
    ]),
    ("or-zero", &[
        "in bool[8]",
        "bool[8] = constant false",
        "bool[8] = or %0, %1",
    ], &[
        "in bool[8]",
    ]),
    ("or-all-ones", &[
        "in bool[8]",
        "bool[8] = constant true",
        "bool[8] = or %0, %1",
    ], &[
        "in bool[8]",
        "bool[8] = constant true",
    ]),
];
