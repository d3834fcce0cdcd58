//! Average pooling.

use super::expr::formula;
use super::pool::Pool;
use super::{Call, OpDef, Outs, err, ok, one};
use crate::builder::Builder;
use crate::error::{Error, Result};
use crate::graph::ValueId;
use crate::literal::Literal;
use crate::types::{Dims, Shape, TensorType};
use crate::{DType, Number, Reducer, ensure};

pub(super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::avg_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], bool ceil_mode=False, bool count_include_pad=True) -> Tensor",
        forward::<1>,
        &[
            ok("f32[2,3,8], 3"),
            ok("f32[3,8], 3, 2, 1, true, false"),
            err("f32[6], 2", "Expected 2 to 3 dimensions, but got 1-dimensional tensor for argument #1 'self' (while checking arguments for avg_pool1d)"),
        ],
    )
    .variants(&["avg_pool1d.out"]),
    OpDef::new(
        "aten::avg_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor",
        forward::<2>,
        &[
            ok("f32[2,3,7,6], [2,3]"),
            ok("f32[2,3,7,6], 3, [2,1], 1, true, false"),
            ok("f32[2,3,7,6], 3, 2, 1, true, true"),
            ok("bf16[3,6,6], 3, 2, 1, false, true, 5"),
            ok("i64[3,6,6], 2"),
            ok("f32[0,3,6,6], 2"),
            err("f32[2,3,6,6], 2, 1, 0, false, true, 0", "divisor must be not zero"),
            err("f32[2,3,6,6], 2, 1, 2", "pad should be at most half of effective kernel size"),
            err("f32[2,3,1,6], 2", "Given input size: (3x1x6). Calculated output size: (3x0x3). Output size is too small"),
            err("bool[2,3,6,6], 2", "\"avg_pool2d\" not implemented for 'Bool'"),
        ],
    )
    .variants(&["avg_pool2d.out"]),
    OpDef::new(
        "aten::avg_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor",
        forward::<3>,
        &[ok("f32[2,3,4,6,5], 2"), ok("f32[3,5,6,5], [2,3,2], [2,1,2], 1, true, false")],
    )
    .variants(&["avg_pool3d.out"]),
    OpDef::new(
        "aten::avg_pool2d_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] stride, int[2] padding, bool ceil_mode, bool count_include_pad, int? divisor_override) -> Tensor",
        backward::<2>,
        &[
            ok("f32[2,3,3,2], f32[2,3,7,6], [2,3], [], 0, false, true, none"),
            ok("f32[2,3,4,6], f32[2,3,7,6], 3, [2,1], 1, true, false, none"),
            ok("f32[2,3,4,4], f32[2,3,7,6], 3, 2, 1, true, true, none"),
            ok("bf16[3,3,3], bf16[3,6,6], 2, 2, 0, false, true, 5"),
            ok("f32[2,3,3,4], f32[2,3,5,7], 2, 2, [1,0], true, true, none"),
            ok("f32[2,3,3,2], f32[2,3,8,6], [2,3], [3,4], [1,1], false, false, none"),
            ok("f32[2,3,3,5], f32[2,3,8,7], [2,3], [3,1], 0, true, true, none"),
            err("f32[2,3,3,2], f32[2,3,6,6], 2, [], 0, false, true, none", "the gradient is"),
        ],
    )
    .variants(&["avg_pool2d_backward.grad_input"]),
    OpDef::new(
        "aten::avg_pool3d_backward(Tensor grad_output, Tensor self, int[3] kernel_size, int[3] stride, int[3] padding, bool ceil_mode, bool count_include_pad, int? divisor_override) -> Tensor",
        backward::<3>,
        &[ok("f32[2,3,2,3,2], f32[2,3,4,6,5], 2, [], 0, false, true, none")],
    )
    .variants(&["avg_pool3d_backward.grad_input"]),
];

/// The windows over `x`, and how many there are.
fn read<const N: usize>(c: &Call<'_>, b: &Builder, x: ValueId) -> Result<(Pool, Vec<usize>)> {
    let (shape, dtype) = (b.shape(x), b.dtype(x));
    let op = format!("avg_pool{N}d");
    let pool = Pool::read(c, &op, N, false)?;
    if N == 1 {
        let n = shape.len();
        ensure!(
            n == 2 || n == 3,
            "Expected 2 to 3 dimensions, but got {n}-dimensional tensor for argument #1 'self' (while checking arguments for avg_pool1d)"
        );
    }
    ensure!(
        shape.len() == N + 1 || shape.len() == N + 2,
        "non-empty {}D or {}D (batch mode) tensor expected for input",
        N + 1,
        N + 2
    );
    if !(dtype.is_float() || dtype == DType::I64) {
        return super::support::not_implemented(&op, dtype);
    }
    let outs = pool.outputs(&shape, &shape[shape.len() - N..])?;
    Ok((pool, outs))
}

/// The number each window's sum is divided by, in every element of `shape`.
fn divisors(c: &Call<'_>, b: &Builder, pool: &Pool, ins: &[usize], shape: &[usize], dtype: DType) -> Result<ValueId> {
    let given = if c.has("divisor_override") { c.optional_int("divisor_override")? } else { None };
    if let Some(divisor) = given {
        ensure!(divisor != 0, "divisor must be not zero");
        return b.full(Number::Int(divisor), dtype, shape);
    }
    let include = c.flag("count_include_pad")?;
    let first = shape.len() - ins.len();
    let mut product = b.full(Number::Int(1), dtype, shape)?;
    for (i, &extent) in ins.iter().enumerate() {
        let counts: Vec<i64> =
            (0..shape[first + i] as i64).map(|o| count(pool, i, extent as i64, o, include)).collect();
        let bytes: Vec<u8> = counts.iter().flat_map(|&n| Number::Int(n).to_bytes(dtype)).collect();
        let literal = Literal::dense(TensorType::new(dtype, [counts.len()]), bytes);
        let counts =
            b.constant(literal.ok_or_else(|| Error::internal("a constant's elements do not fill its shape"))?)?;
        product = b.multiply(product, b.broadcast_in_dim(counts, shape, &[first + i])?)?;
    }
    Ok(product)
}

/// The elements of dimension `i` that window `out` averages.
fn count(pool: &Pool, i: usize, extent: i64, out: i64, include_padding: bool) -> i64 {
    let start = out * pool.stride[i] - pool.padding[i];
    let end = (start + pool.kernel[i]).min(extent + pool.padding[i]);
    if include_padding { end - start } else { end.min(extent) - start.max(0) }
}

fn forward<const N: usize>(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let x = c.tensor(b, "self")?;
    let (pool, outs) = read::<N>(c, b, x)?;
    let (dtype, shape) = (b.dtype(x), b.shape(x));
    let wide = dtype.accumulator();
    let sums = b.reduce_window(b.convert(x, wide)?, Reducer::Add, pool.window(&shape, &outs))?;
    let divisors = divisors(c, b, &pool, &shape[shape.len() - N..], &b.shape(sums), wide)?;
    one(b.convert(b.divide(sums, divisors)?, dtype)?)
}

/// Each window's share of the gradient, summed over the windows that hold an element: a pooling of the gradient with
/// its elements moved a stride apart.
fn backward<const N: usize>(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (x, grad) = (c.tensor(b, "self")?, c.tensor(b, "grad_output")?);
    let (pool, outs) = read::<N>(c, b, x)?;
    let (dtype, shape) = (b.dtype(grad), b.shape(x));
    let first = shape.len() - N;
    let expected: Shape = shape[..first].iter().chain(&outs).copied().collect();
    ensure!(b.shape(grad) == expected, "the gradient is {:?}, but the result {expected:?}", b.shape(grad));
    let wide = dtype.accumulator();
    let divisors = divisors(c, b, &pool, &shape[first..], &expected, wide)?;
    let shares = formula(b, [b.convert(grad, wide)?, divisors], |[g, d]| g / d)?;
    let mut window = crate::op::Window::trivial(shape.len());
    let apart = |i: usize| pool.stride[i] >= pool.kernel[i];
    for i in (0..N).filter(|&i| !apart(i)) {
        let (kernel, stride) = (pool.kernel[i], pool.stride[i]);
        let low = kernel - 1 - pool.padding[i];
        let high = shape[first + i] as i64 + kernel - 1 - low - ((outs[i] as i64 - 1) * stride + 1);
        window.size[first + i] = kernel as usize;
        window.base_dilation[first + i] = stride as usize;
        window.padding[first + i] = (low, high);
    }
    let all_apart = (0..N).all(apart);
    let mut sums = if all_apart { shares } else { b.reduce_window(shares, Reducer::Add, window)? };
    for i in (0..N).filter(|&i| apart(i)) {
        sums = spread(b, sums, first + i, shape[first + i], [pool.kernel[i], pool.stride[i], pool.padding[i]])?;
    }
    one(b.convert(sums, dtype)?)
}

/// Each share along `dim` in all places of its window, where windows do not overlap: nothing is added up.
fn spread(b: &Builder, shares: ValueId, dim: usize, extent: usize, window: [i64; 3]) -> Result<ValueId> {
    let [kernel, stride, padding] = window;
    let mut shape = b.shape(shares);
    let count = shape[dim];
    shape.insert(dim + 1, kernel as usize);
    let dims: Dims = (0..shape.len()).filter(|&d| d != dim + 1).collect();
    let windows = b.broadcast_in_dim(shares, &shape, &dims)?;
    let zero = b.scalar(Number::Int(0), b.dtype(shares))?;
    let pad = |v: ValueId, at: usize, low: i64, high: i64| {
        let only = |n: i64| -> Vec<i64> { (0..b.rank(v)).map(|d| if d == at { n } else { 0 }).collect() };
        b.pad(v, zero, &only(low), &only(high), &vec![0; b.rank(v)])
    };
    let windows = pad(windows, dim + 1, 0, stride - kernel)?;
    shape.remove(dim + 1);
    shape[dim] = count * stride as usize;
    let places = b.reshape(windows, &shape)?;
    // What of the last windows, and of the first, lies outside is cut off; what no window reaches gets nothing.
    pad(places, dim, -padding, extent as i64 + padding - shape[dim] as i64)
}
