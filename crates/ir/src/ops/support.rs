//! What expansions share: PyTorch's promotion and broadcasting, dimension numbers, wide accumulation.

use super::call::{Call, Scalar};
use super::expr::{Expr, formula};
use crate::builder::Builder;
use crate::dtype::{Category, DType};
use crate::error::{Error, Result};
use crate::graph::ValueId;
use crate::literal::Number;
use crate::op::Binary;
use crate::types::{Dims, Shape};
use crate::{ensure, invalid, no_kernel};

/// An operand of an elementwise op.
#[derive(Clone, Debug)]
pub enum Operand {
    /// A tensor.
    Tensor(ValueId),
    /// A Python number.
    Scalar(Scalar),
}

impl From<ValueId> for Operand {
    fn from(v: ValueId) -> Operand {
        Operand::Tensor(v)
    }
}
impl From<Scalar> for Operand {
    fn from(s: Scalar) -> Operand {
        Operand::Scalar(s)
    }
}

/// The common type of two element types, `torch.promote_types`.
///
/// # Errors
/// In PyTorch's words, of the pairs that it has no common type for: 8-bit floats with anything else, and the wider
/// unsigned integers with anything but floats.
pub fn promote_types(a: DType, b: DType) -> Result<DType> {
    use DType::*;
    if a == b {
        return Ok(a);
    }
    let alone = |group: &str| format!("Promotion for {group} is not supported, attempted to promote");
    let either = |is: fn(DType) -> bool| is(a) || is(b);
    let names = (torch_name(a), torch_name(b));
    ensure!(!either(DType::is_float8), "{} {} and {}", alone("Float8 Types"), names.0, names.1);
    let to_float = a.is_float() || b.is_float();
    ensure!(
        to_float || !either(DType::is_wide_unsigned),
        "{} {} and {}",
        alone("uint16, uint32, uint64 types"),
        names.0,
        names.1
    );
    let (low, high) = if a.category() <= b.category() { (a, b) } else { (b, a) };
    Ok(match (low.category(), high.category()) {
        (Category::Float, Category::Complex) => {
            if low == F64 || high == C128 {
                C128
            } else {
                C64
            }
        }
        (l, h) if l < h => high,
        (Category::Int, _) => promote_ints(a, b),
        (Category::Float, _) => match (a, b) {
            (BF16, F16) | (F16, BF16) => F32,
            _ => wider(a, b),
        },
        _ => C128,
    })
}

fn wider(a: DType, b: DType) -> DType {
    if a.size() >= b.size() { a } else { b }
}

/// Of two integer types, of which `u8` alone may be unsigned.
fn promote_ints(a: DType, b: DType) -> DType {
    match (a, b) {
        (DType::U8, DType::I8) | (DType::I8, DType::U8) => DType::I16,
        _ => wider(a, b),
    }
}

/// [`promote_types`] of all of `dtypes`, from the first on; `None` where there are none.
///
/// # Errors
/// As [`promote_types`].
pub fn promote_all(dtypes: impl IntoIterator<Item = DType>) -> Result<Option<DType>> {
    let join = |common: Option<DType>, next| Ok(Some(common.map_or(Ok(next), |c| promote_types(c, next))?));
    dtypes.into_iter().try_fold(None, join)
}

/// `torch.result_type`: among operands of the highest category, tensors with dimensions decide, then 0-d tensors, then
/// Python numbers.
///
/// # Errors
/// As [`promote_types`].
pub fn result_type(call: &Call<'_>, b: &Builder, operands: &[Operand]) -> Result<DType> {
    let mut levels: [Option<DType>; 3] = [None; 3];
    for operand in operands {
        let (level, dtype) = match operand {
            Operand::Tensor(v) => (usize::from(b.rank(*v) == 0), b.dtype(*v)),
            Operand::Scalar(s) => (2, number_type(call, s.dtype())),
        };
        levels[level] = promote_all(levels[level].into_iter().chain([dtype]))?;
    }
    let mut result: Option<DType> = None;
    for higher in levels.into_iter().rev().flatten() {
        result = Some(result.map_or(Ok(higher), |lower| outranking(higher, lower))?);
    }
    Ok(result.unwrap_or(DType::F32))
}

/// The type of an operand that outranks one of `lower`, whose category counts if it is above.
fn outranking(higher: DType, lower: DType) -> Result<DType> {
    if higher.category() >= lower.category() {
        return Ok(higher);
    }
    if higher.is_float() {
        ensure!(!higher.is_float8(), "Unknown Complex ScalarType for {}", torch_name(higher));
        // A complex number beside real floats takes their width.
        return promote_types(higher, DType::C64);
    }
    // Of these alone PyTorch asks for a common type, which there may be none of.
    if higher == DType::Bool || lower.is_float() { promote_types(higher, lower) } else { Ok(lower) }
}

/// The type that a Python number of the kind of `dtype` counts as.
pub fn number_type(call: &Call<'_>, dtype: DType) -> DType {
    match (dtype.category(), call.default_dtype()) {
        (Category::Float, default) => default,
        (Category::Complex, DType::F64) => DType::C128,
        _ => dtype,
    }
}

/// `dtype`, or the default float where it is an integer or `bool`: the result of `sqrt`, true division and the like.
pub fn to_float(call: &Call<'_>, dtype: DType) -> DType {
    if dtype.category() < Category::Float { call.default_dtype() } else { dtype }
}

/// The shape that all of `shapes` broadcast to.
///
/// # Errors
/// In PyTorch's words, if two of them differ where neither is 1.
pub fn broadcast_shapes<'a>(shapes: impl IntoIterator<Item = &'a Shape>) -> Result<Shape> {
    let mut out = Shape::new();
    for shape in shapes {
        while out.len() < shape.len() {
            out.insert(0, 1);
        }
        let skip = out.len() - shape.len();
        for (i, &d) in shape.iter().enumerate() {
            let o = &mut out[skip + i];
            let fits = *o == d || *o == 1 || d == 1;
            ensure!(
                fits,
                "The size of tensor a ({o}) must match the size of tensor b ({d}) at non-singleton dimension {}",
                skip + i
            );
            if *o == 1 {
                *o = d;
            }
        }
    }
    Ok(out)
}

/// `v` broadcast to `shape` by PyTorch's rule: trailing dimensions align.
pub fn broadcast_to(b: &Builder, v: ValueId, shape: &[usize]) -> Result<ValueId> {
    let from = b.shape(v);
    ensure!(from.len() <= shape.len(), "cannot broadcast {from:?} to {shape:?}");
    let dims: Dims = (shape.len() - from.len()..shape.len()).collect();
    b.broadcast_in_dim(v, shape, &dims)
}

/// The shape that the tensors among `operands` broadcast to.
pub fn common_shape(b: &Builder, operands: &[Operand]) -> Result<Shape> {
    let shape_of = |o: &Operand| match o {
        Operand::Tensor(v) => Some(b.shape(*v)),
        Operand::Scalar(_) => None,
    };
    let shapes: Vec<Shape> = operands.iter().filter_map(shape_of).collect();
    broadcast_shapes(&shapes)
}

/// All operands as `dtype`, broadcast to their common shape.
pub fn align(call: &Call<'_>, b: &Builder, operands: &[Operand], dtype: DType) -> Result<Vec<ValueId>> {
    let shape = common_shape(b, operands)?;
    let aligned = operands.iter().map(|o| {
        let v = match o {
            Operand::Tensor(v) => b.convert(*v, dtype)?,
            Operand::Scalar(s) => call.scalar_value(b, s, dtype)?,
        };
        broadcast_to(b, v, &shape)
    });
    aligned.collect()
}

/// Both operands promoted and broadcast, with the type they were promoted to.
pub fn pair(
    call: &Call<'_>,
    b: &Builder,
    x: impl Into<Operand>,
    y: impl Into<Operand>,
) -> Result<(ValueId, ValueId, DType)> {
    let operands = [x.into(), y.into()];
    let dtype = result_type(call, b, &operands)?;
    let aligned = align(call, b, &operands, dtype)?;
    Ok((aligned[0], aligned[1], dtype))
}

/// [`elementwise`] for kernels that see Python numbers and 0-d tensors rounded to `dtype`: all of the CPU's but those of products,
/// quotients and parameters.
pub fn elementwise_rounded<const N: usize>(
    call: &Call<'_>,
    b: &Builder,
    operands: [Operand; N],
    dtype: DType,
    f: impl for<'e> FnOnce([Expr<'e>; N]) -> Expr<'e>,
) -> Result<ValueId> {
    elementwise(call, b, numbers_rounded(call, b, operands, dtype)?, dtype, f)
}

/// `operands`, Python numbers and 0-d tensors rounded to `dtype`.
pub fn numbers_rounded<const N: usize>(
    call: &Call<'_>,
    b: &Builder,
    mut operands: [Operand; N],
    dtype: DType,
) -> Result<[Operand; N]> {
    for operand in &mut operands {
        *operand = match operand {
            Operand::Tensor(v) if b.rank(*v) == 0 => b.convert(*v, dtype)?.into(),
            Operand::Tensor(v) => (*v).into(),
            Operand::Scalar(s) => call.scalar_value(b, s, dtype)?.into(),
        };
    }
    Ok(operands)
}

/// `f` on `operands` taken to `dtype` and broadcast, computed in the accumulation type of `dtype` and rounded once. Python
/// numbers and 0-d tensors reach that type unrounded, as in PyTorch's kernels for 16-bit floats.
pub fn elementwise<const N: usize>(
    call: &Call<'_>,
    b: &Builder,
    operands: [Operand; N],
    dtype: DType,
    f: impl for<'e> FnOnce([Expr<'e>; N]) -> Expr<'e>,
) -> Result<ValueId> {
    let shape = common_shape(b, &operands)?;
    let wide = dtype.accumulator();
    let mut values = [ValueId::new(0); N];
    for (value, operand) in values.iter_mut().zip(&operands) {
        let v = match operand {
            Operand::Tensor(v) if b.rank(*v) == 0 => b.convert(*v, wide)?,
            Operand::Tensor(v) => b.convert(b.convert(*v, dtype)?, wide)?,
            Operand::Scalar(s) => call.scalar_value(b, s, wide)?,
        };
        *value = broadcast_to(b, v, &shape)?;
    }
    let v = formula(b, values, f)?;
    if b.dtype(v) == wide { b.convert(v, dtype) } else { Ok(v) }
}

/// [`elementwise`] for one core op that rounds once in any type: it stays in `dtype` where every operand is exact there,
/// unless the next op may see it unrounded.
pub fn elementwise_once(
    call: &Call<'_>,
    b: &Builder,
    operands: [Operand; 2],
    dtype: DType,
    op: Binary,
) -> Result<ValueId> {
    let exact = |o: &Operand| match o {
        Operand::Tensor(v) => b.rank(*v) > 0 || b.dtype(*v) == dtype || dtype.accumulator() == dtype,
        Operand::Scalar(s) => s.known().is_some_and(|n| is_exact(n, dtype)),
    };
    let keep_wide = b.excess_precision() && dtype.accumulator() != dtype;
    if !keep_wide && operands.iter().all(exact) {
        let aligned = align(call, b, &operands, dtype)?;
        return b.binary(op, aligned[0], aligned[1]);
    }
    elementwise(call, b, operands, dtype, |[x, y]| x.binary(op, y))
}

/// Whether `dtype` has no wider accumulation type, or holds `number` exactly.
fn is_exact(number: Number, dtype: DType) -> bool {
    let f = number.as_f64();
    match dtype {
        DType::BF16 => half::bf16::from_f64(f).to_f64() == f,
        DType::F16 => half::f16::from_f64(f).to_f64() == f,
        other => other.accumulator() == other,
    }
}

/// PyTorch's refusal of an element type.
pub fn not_implemented<T>(what: &str, dtype: DType) -> Result<T> {
    no_kernel!("\"{what}\" not implemented for '{}'", torch_name(dtype))
}

/// What PyTorch's messages call an element type.
pub fn torch_name(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "Bool",
        DType::I8 => "Char",
        DType::I16 => "Short",
        DType::I32 => "Int",
        DType::I64 => "Long",
        DType::U8 => "Byte",
        DType::U16 => "UInt16",
        DType::U32 => "UInt32",
        DType::U64 => "UInt64",
        DType::F8E4M3FN => "Float8_e4m3fn",
        DType::F8E5M2 => "Float8_e5m2",
        DType::BF16 => "BFloat16",
        DType::F16 => "Half",
        DType::F32 => "Float",
        DType::F64 => "Double",
        DType::C64 => "ComplexFloat",
        DType::C128 => "ComplexDouble",
    }
}

/// `f` on `v` in its accumulation type (`f32` for 8- and 16-bit floats), converted back.
pub fn in_accumulator(b: &Builder, v: ValueId, f: impl FnOnce(ValueId) -> Result<ValueId>) -> Result<ValueId> {
    let dtype = b.dtype(v);
    let wide = f(b.convert(v, dtype.accumulator())?)?;
    // Results of another kind (`bool`, the real part) keep their own type.
    if b.dtype(wide) == dtype.accumulator() { b.convert(wide, dtype) } else { Ok(wide) }
}

/// Dimension `dim`, counted from the end if negative, of a `rank`-d tensor. A 0-d tensor counts as 1-d.
///
/// # Errors
/// In PyTorch's words.
pub fn dim(dim: i64, rank: usize) -> Result<usize> {
    let n = rank.max(1) as i64;
    let in_range = (-n..n).contains(&dim);
    if !in_range {
        let message = format!("Dimension out of range (expected to be in range of [{}, {}], but got {dim})", -n, n - 1);
        return Err(Error::index(message));
    }
    Ok(if dim < 0 { dim + n } else { dim } as usize)
}

/// Distinct dimensions, each as [`dim`] takes it; all of them for an empty list. Sorted. None for a 0-d tensor.
pub fn dims_or_all(dims: &[i64], rank: usize) -> Result<Dims> {
    if dims.is_empty() { Ok((0..rank).collect()) } else { distinct_dims(dims, rank) }
}

/// Distinct dimensions, each as [`dim`] takes it. Sorted. A 0-d tensor has none to give.
pub fn distinct_dims(dims: &[i64], rank: usize) -> Result<Dims> {
    let mut out: Dims = dims.iter().map(|&d| dim(d, rank)).collect::<Result<_>>()?;
    out.sort_unstable();
    if let Some(w) = out.windows(2).find(|w| w[0] == w[1]) {
        invalid!("dim {} appears multiple times in the list of dims", w[0]);
    }
    out.truncate(if rank == 0 { 0 } else { out.len() });
    Ok(out)
}

/// `v` with extent-1 dimensions put back at `dims` (sorted, counted in the result).
pub fn unsqueeze(b: &Builder, v: ValueId, dims: &[usize]) -> Result<ValueId> {
    let mut shape = b.shape(v);
    for &d in dims {
        ensure!(d <= shape.len(), "cannot insert dimension {d} into {shape:?}");
        shape.insert(d, 1);
    }
    b.reshape(v, &shape)
}

/// `number` in the type and shape of `like`.
pub fn like(b: &Builder, like: ValueId, number: f64) -> Result<ValueId> {
    b.full_like(like, Number::Float(number))
}

/// PyTorch's C++ name of an element type, as some of its messages spell it: `float`, `c10::BFloat16`, `long int`.
pub fn cpp_type(dtype: DType) -> &'static str {
    use DType::*;
    match dtype {
        Bool => "bool",
        I8 => "signed char",
        I16 => "short int",
        I32 => "int",
        I64 => "long int",
        U8 => "unsigned char",
        U16 => "short unsigned int",
        U32 => "unsigned int",
        U64 => "long unsigned int",
        F8E4M3FN => "c10::Float8_e4m3fn",
        F8E5M2 => "c10::Float8_e5m2",
        BF16 => "c10::BFloat16",
        F16 => "c10::Half",
        F32 => "float",
        F64 => "double",
        C64 => "c10::complex<float>",
        C128 => "c10::complex<double>",
    }
}

/// `v` expanded to `shape` as `Tensor.expand` does: dimensions of extent 1 repeat, new ones stand in front.
///
/// # Errors
/// In PyTorch's words.
pub fn expand_to(b: &Builder, v: ValueId, shape: &[usize]) -> Result<ValueId> {
    let from = b.shape(v);
    ensure!(
        from.len() <= shape.len(),
        "expand(torch.{}Tensor{{{from:?}}}, size={shape:?}): the number of sizes provided ({}) must be greater or equal to the number of dimensions in the tensor ({})",
        torch_name(b.dtype(v)),
        shape.len(),
        from.len()
    );
    let skip = shape.len() - from.len();
    for (i, &d) in from.iter().enumerate() {
        let target = shape[skip + i];
        ensure!(
            d == target || d == 1,
            "The expanded size of the tensor ({target}) must match the existing size ({d}) at non-singleton dimension {}.  Target sizes: {shape:?}.  Tensor sizes: {from:?}",
            skip + i
        );
    }
    broadcast_to(b, v, shape)
}

/// `number` as a 0-d `v`'s element type, broadcast to `v`'s shape; see [`Call::scalar_value`].
pub fn scalar_like(call: &Call<'_>, b: &Builder, number: &Scalar, v: ValueId) -> Result<ValueId> {
    let t = b.ty(v)?;
    broadcast_to(b, call.scalar_value(b, number, t.dtype)?, &t.shape)
}
