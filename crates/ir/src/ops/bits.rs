//! What is read from the bits of floats: with integers only, since processors may take subnormal numbers for 0.

use super::expr::{Expr, formula};
use super::reduce::Over;
use super::{Call, OpDef, Outs, err, many, ok, one};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::literal::Number;
use crate::op::Reducer;
use crate::ops::support::not_implemented;
use crate::{DType, ensure, no_index};

pub(super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::frexp.Tensor(Tensor self) -> (Tensor mantissa, Tensor exponent)",
        frexp,
        &[
            ok("f32[3,4]"),
            ok("f32[12]{0,-0.0,nan,inf,-inf,1,-3,1e-40,-6e-45,0.1,1.1754944e-38,3.4e38}"),
            ok("f64[9]{0,nan,-inf,1,-3,1e-310,5e-324,1e300,2.2250738585072014e-308}"),
            ok("bf16[9]{0,nan,inf,1,-3,1e-40,1e-38,-0.1,3e38}"),
            ok("f16[8]{-0.0,nan,-inf,1,6e-8,-4e-5,0.1,65504}"),
            ok("f32[0]"),
            ok("f32[]"),
            err("i64[2]", "torch.frexp() only supports floating-point dtypes"),
            err("c64[2]", "torch.frexp() only supports floating-point dtypes"),
        ],
    )
    .variants(&["frexp.Tensor_out"]),
    OpDef::new(
        "aten::hash_tensor(Tensor self, int[1] dim=[], *, bool keepdim=False, int mode=0) -> Tensor",
        hash_tensor,
        &[
            ok("f32[2,3,4]"),
            ok("f32[2,3,4], [0,2]"),
            ok("f32[2,3,4], [-1], keepdim=true"),
            ok("f32[9,1]{0,-0.0,nan,inf,-inf,1e-40,-6e-45,1,-3}, [1]"),
            ok("f64[9,1]{0,-0.0,nan,inf,-inf,1e-40,5e-324,1,-3}, [1]"),
            ok("bf16[6,1]{-0.0,nan,-inf,1e-40,0.1,-3}, [1]"),
            ok("f16[6,1]{-0.0,nan,-inf,6e-8,0.1,-3}, [1]"),
            ok("i64[3,5], [0]"),
            ok("i8[9]"),
            ok("u8[9]"),
            ok("bool[5]"),
            ok("f32[]"),
            ok("f32[2,0], [0]"),
            err("f32[0]", "hash_tensor: Expected reduction dim to be specified for input.numel() == 0."),
            err("f32[2,0], [1]", "hash_tensor: Expected reduction dim 1 to have non-zero size."),
            err("f32[2], mode=1", "Unknown hash_tensor mode: 1"),
            err("c64[2]", "\"xor_sum_cpu\" not implemented for 'ComplexFloat'"),
            err("u16[2]", "\"xor_sum_cpu\" not implemented for 'UInt16'"),
        ],
    )
    .variants(&["hash_tensor.out"]),
];

/// How a float lies in its bits: sign, exponent and fraction, from the highest to the lowest.
#[derive(Clone, Copy)]
struct Format {
    bits: DType,
    fraction: i64,
    exponent: i64,
}

impl Format {
    fn of(dtype: DType) -> Option<Format> {
        match dtype {
            DType::BF16 => Some(Format { bits: DType::U16, fraction: 7, exponent: 8 }),
            DType::F16 => Some(Format { bits: DType::U16, fraction: 10, exponent: 5 }),
            DType::F32 => Some(Format { bits: DType::U32, fraction: 23, exponent: 8 }),
            DType::F64 => Some(Format { bits: DType::U64, fraction: 52, exponent: 11 }),
            _ => None,
        }
    }

    /// The exponent of 1.
    fn bias(self) -> i64 {
        mask(self.exponent - 1)
    }
}

/// The lowest `n` bits.
fn mask(n: i64) -> i64 {
    i64::MAX >> (63 - n)
}

/// A float taken apart. That of a subnormal number is what it would be with room for more exponents.
struct Parts<'e> {
    bits: Expr<'e>,
    /// 0 or 1.
    sign: Expr<'e>,
    /// As `i32`: less than 1 for subnormal numbers.
    exponent: Expr<'e>,
    fraction: Expr<'e>,
    is_zero: Expr<'e>,
    /// An infinity or NaN.
    is_special: Expr<'e>,
}

impl<'e> Parts<'e> {
    fn of(x: Expr<'e>, format: Format) -> Parts<'e> {
        let bits = x.bitcast(format.bits);
        let sign = bits.shift_right_logical(Number::Int(format.fraction + format.exponent));
        let size = bits & Number::Int(mask(format.fraction + format.exponent));
        let exponent = size.shift_right_logical(Number::Int(format.fraction));
        let is_subnormal = exponent.equals(0.0);
        // By so much the leading bit of a subnormal number is lower than that of others, which is not written.
        let missing = size.count_leading_zeros() - Number::Int(format.exponent);
        let fraction = is_subnormal.select(size.shift_left(missing), size) & Number::Int(mask(format.fraction));
        let is_special = exponent.equals(Number::Int(mask(format.exponent)));
        let exponent = is_subnormal.select(1.0 - missing.convert(DType::I32), exponent.convert(DType::I32));
        Parts { bits, sign, exponent, fraction, is_zero: size.equals(0.0), is_special }
    }

    /// The bits of a number of this sign and fraction.
    fn with_exponent(&self, exponent: Expr<'e>, format: Format) -> Expr<'e> {
        let sign = self.sign.shift_left(Number::Int(format.fraction + format.exponent));
        sign | exponent.shift_left(Number::Int(format.fraction)) | self.fraction
    }
}

/// A mantissa in 0.5..1 and the power of two it is multiplied with.
fn frexp(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let v = c.tensor(b, "self")?;
    let dtype = b.dtype(v);
    let Some(format) = Format::of(dtype) else { crate::invalid!("torch.frexp() only supports floating-point dtypes") };
    let half = format.bias() - 1;
    let mantissa = formula(b, [v], |[x]| {
        let parts = Parts::of(x, format);
        let mantissa = parts.with_exponent(parts.bits.constant(Number::Int(half)), format);
        (parts.is_zero | parts.is_special).select(parts.bits, mantissa).bitcast(dtype)
    })?;
    let exponent = formula(b, [v], |[x]| {
        let parts = Parts::of(x, format);
        (parts.is_zero | parts.is_special)
            .select(parts.exponent.constant(Number::Int(0)), parts.exponent - Number::Int(half))
    })?;
    many([mantissa, exponent])
}

/// The exclusive or of all elements' bits: those of floats as `f64`, those of integers as `i64`.
fn hash_tensor(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (dims, mode) = (c.ints("dim")?, c.int("mode")?);
    ensure!(mode == 0, "Unknown hash_tensor mode: {mode}");
    let over = Over::of_self(c, b, &dims, c.flag("keepdim")?)?;
    let shape = b.shape(over.v);
    let nothing = dims.is_empty() && shape.contains(&0);
    ensure!(
        !nothing,
        "hash_tensor: Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' argument."
    );
    if let Some(d) = over.dims.iter().find(|&&d| shape[d] == 0) {
        no_index!("hash_tensor: Expected reduction dim {d} to have non-zero size.");
    }
    one(over.with(wide_bits(b, over.v)?).reduce(b, Reducer::Xor)?)
}

/// The bits of each element as `f64` or `i64`, as `u64`.
fn wide_bits(b: &Builder, v: ValueId) -> Result<ValueId> {
    let dtype = b.dtype(v);
    match (Format::of(dtype), dtype) {
        (Some(from), _) => formula(b, [v], |[x]| double_bits(x, from)),
        (None, DType::Bool | DType::U8 | DType::I8 | DType::I16 | DType::I32 | DType::I64) => {
            b.bitcast_convert(b.convert(v, DType::I64)?, DType::U64)
        }
        _ => not_implemented("xor_sum_cpu", dtype),
    }
}

/// The bits of `x` as a `f64`, which holds it exactly.
fn double_bits<'e>(x: Expr<'e>, from: Format) -> Expr<'e> {
    let double = Format { bits: DType::U64, fraction: 52, exponent: 11 };
    if from.bits == double.bits {
        return x.bitcast(double.bits);
    }
    let narrow = Parts::of(x, from);
    let wide = |part: Expr<'e>| part.convert(double.bits);
    let fraction = wide(narrow.fraction).shift_left(Number::Int(double.fraction - from.fraction));
    let parts = Parts { sign: wide(narrow.sign), fraction, ..narrow };
    let exponent = wide(narrow.exponent + Number::Int(double.bias() - from.bias()));
    let exponent = narrow.is_special.select(exponent.constant(Number::Int(mask(double.exponent))), exponent);
    parts.with_exponent(narrow.is_zero.select(exponent.constant(Number::Int(0)), exponent), double)
}
