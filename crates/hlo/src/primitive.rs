//! Element types by their numbers in `xla.PrimitiveType`.

/// A tuple of shapes.
pub const TUPLE: i32 = 13;
/// What orders effects, and holds nothing.
pub const TOKEN: i32 = 17;

/// Number, name in HLO text, width in bits.
const TYPES: [(i32, &str, u32); 29] = [
    (1, "pred", 8),
    (2, "s8", 8),
    (3, "s16", 16),
    (4, "s32", 32),
    (5, "s64", 64),
    (6, "u8", 8),
    (7, "u16", 16),
    (8, "u32", 32),
    (9, "u64", 64),
    (10, "f16", 16),
    (11, "f32", 32),
    (12, "f64", 64),
    (15, "c64", 64),
    (16, "bf16", 16),
    (17, "token", 0),
    (18, "c128", 128),
    (19, "f8e5m2", 8),
    (20, "f8e4m3fn", 8),
    (21, "s4", 4),
    (22, "u4", 4),
    (23, "f8e4m3b11fnuz", 8),
    (24, "f8e5m2fnuz", 8),
    (25, "f8e4m3fnuz", 8),
    (26, "s2", 2),
    (27, "u2", 2),
    (28, "f8e4m3", 8),
    (29, "f8e3m4", 8),
    (32, "f4e2m1fn", 4),
    (33, "f8e8m0fnu", 8),
];

/// The name that HLO text uses, such as `bf16`; `None` for tuples and for types that are not known here.
pub fn name(number: i32) -> Option<&'static str> {
    TYPES.iter().find(|ty| ty.0 == number).map(|ty| ty.1)
}

/// Width of one element in bits; 0 for tokens, tuples and types that are not known here.
pub fn bits(number: i32) -> u32 {
    TYPES.iter().find(|ty| ty.0 == number).map_or(0, |ty| ty.2)
}
