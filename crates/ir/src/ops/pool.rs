//! Max pooling, and the windows that all pooling shares.

use super::index::index_dtype;
use super::{Call, OpDef, Outs, err, many, ok, one};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::op::{Combiner, Scatter, Unary, Window};
use crate::types::Shape;
use crate::{Comparison, DType, Number, Op, Reducer, ensure, invalid};

pub(super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::max_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], int[1] dilation=[1], bool ceil_mode=False) -> Tensor",
        maxima::<1>,
        &[
            ok("f32[2,3,8], [3]"),
            ok("f32[3,8], 3, 2, 1, 2"),
            ok("bf16[2,3,8], [3], [2], [1], [1], true"),
            ok("f32[0,3,6], 2"),
            err("f32[6], 2", "max_pool1d: Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size for input, but got:[6]"),
        ],
    ),
    OpDef::new(
        "aten::max_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool ceil_mode=False) -> Tensor",
        maxima::<2>,
        &[
            ok("f32[2,3,7,6], [2,3]"),
            ok("f32[2,3,7,6], 3, [2,1], 1, [1,2], true"),
            ok("f32[3,7,6]{nan,1,2,-inf}, 2"),
            ok("i64[2,3,6,6], 2"),
            err("f32[6,6], 2", "non-empty 3D or 4D (batch mode) tensor expected for input"),
        ],
    ),
    OpDef::new(
        "aten::max_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] dilation=1, bool ceil_mode=False) -> Tensor",
        maxima::<3>,
        &[ok("f32[2,3,4,6,5], 2"), ok("f32[3,5,6,5], [2,3,2], [2,1,2], 1, 1, true")],
    ),
    OpDef::new(
        "aten::max_pool1d_with_indices(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], int[1] dilation=[1], bool ceil_mode=False) -> (Tensor, Tensor)",
        maxima_with_indices::<1>,
        &[ok("f32[2,3,8], [3]"), ok("f32[3,8], 3, 2, 1, 2, true")],
    ),
    OpDef::new(
        "aten::max_pool2d_with_indices(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)",
        maxima_with_indices::<2>,
        &[
            ok("f32[2,3,7,6], [2,3]"),
            ok("f32[2,3,7,6], 3, [2,1], 1, [1,2], true"),
            ok("f32[1,1,4,4]{1,1,0,-inf}, 2"),
            ok("f32[1,1,4,4]{-inf}, 2, 2, 1"),
            ok("bf16[2,3,6,6], 3, 2, 1"),
            ok("i64[2,3,6,6], 2"),
            ok("f32[0,3,6,6], 2"),
            err("f32[2,3,6,6], [2,2,2]", "max_pool2d: kernel_size must either be a single int, or a tuple of two ints"),
            err("f32[2,3,6,6], [2,2], [1,1,1]", "max_pool2d: stride must either be omitted, a single int, or a tuple of two ints"),
            err("f32[2,3,6,6], 2, 1, 2", "pad should be at most half of effective kernel size, but got pad=2, kernel_size=2 and dilation=1"),
            err("f32[2,3,6,6], 2, 1, [-1,0]", "pad must be non-negative, but got pad: -1"),
            err("f32[2,3,6,6], 2, [0,1]", "stride should not be zero"),
            err("f32[2,3,6,6], 2, 1, 0, [0,1]", "dilation should be greater than zero"),
            err("f32[2,3,6,6], [0,2], 1", "kernel size should be greater than zero"),
            err("f32[2,3,1,6], 2", "Given input size: (3x1x6). Calculated output size: (3x0x3). Output size is too small"),
            err("f32[2,0,6,6], 2", "Expected 3D or 4D (batch mode) tensor with optional 0 dim batch size for input, but got:[2, 0, 6, 6]"),
            err("bool[2,3,6,6], 2", "\"max_pool2d\" not implemented for 'Bool'"),
        ],
    )
    .variants(&["max_pool2d_with_indices.out"]),
    OpDef::new(
        "aten::max_pool3d_with_indices(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)",
        maxima_with_indices::<3>,
        &[
            ok("f32[2,3,4,6,5], 2"),
            ok("f32[3,5,6,5], [2,3,2], [2,1,2], 1, 1, true"),
            err("f32[4,6,6], 2", "non-empty 4D or 5D (batch mode) tensor expected for input"),
        ],
    )
    .variants(&["max_pool3d_with_indices.out"]),
    OpDef::new(
        "aten::max_pool2d_with_indices_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] stride, int[2] padding, int[2] dilation, bool ceil_mode, Tensor indices) -> Tensor",
        backward::<2>,
        &[
            ok("f32[2,3,3,3], f32[2,3,6,6], 2, [], 0, 1, false, i64[2,3,3,3]{0..36}"),
            ok("bf16[3,3,3], bf16[3,6,6], 2, [], 0, 1, false, i64[3,3,3]{0..36}"),
            ok("f32[0,3,3,3], f32[0,3,6,6], 2, [], 0, 1, false, i64[0,3,3,3]"),
            err("f32[3,3,3], bf16[3,6,6], 2, [], 0, 1, false, i64[3,3,3]{0..36}", "expected dtype c10::BFloat16 for `gradOutput` but got dtype float"),
        ],
    )
    .variants(&["max_pool2d_with_indices_backward.grad_input"]),
    OpDef::new(
        "aten::max_pool3d_with_indices_backward(Tensor grad_output, Tensor self, int[3] kernel_size, int[3] stride, int[3] padding, int[3] dilation, bool ceil_mode, Tensor indices) -> Tensor",
        backward::<3>,
        &[ok("f32[2,3,2,3,3], f32[2,3,4,6,6], 2, [], 0, 1, false, i64[2,3,2,3,3]{0..144}")],
    )
    .variants(&["max_pool3d_with_indices_backward.grad_input"]),
];

/// Pooling windows over the last dimensions of an input.
pub(super) struct Pool {
    pub(super) kernel: Vec<i64>,
    pub(super) stride: Vec<i64>,
    pub(super) padding: Vec<i64>,
    pub(super) dilation: Vec<i64>,
    pub(super) ceil_mode: bool,
}

/// The numbers `name`, one per pooled dimension; a single one stands for all.
fn per_dimension(c: &Call<'_>, op: &str, name: &str, n: usize, form: &str) -> Result<Vec<i64>> {
    let given = c.ints(name)?;
    match given[..] {
        [only] => Ok(vec![only; n]),
        _ if given.len() == n => Ok(given),
        _ => invalid!(
            "{op}: {name} must {form}a single int, or a tuple of {} ints",
            ["", "one", "two", "three"][n.min(3)]
        ),
    }
}

impl Pool {
    /// The windows of a call of `op`, over `n` dimensions.
    pub(super) fn read(c: &Call<'_>, op: &str, n: usize, dilated: bool) -> Result<Pool> {
        let kernel = per_dimension(c, op, "kernel_size", n, "either be ")?;
        let stride = match c.ints("stride")?.is_empty() {
            true => kernel.clone(),
            false => per_dimension(c, op, "stride", n, "either be omitted, ")?,
        };
        let padding = per_dimension(c, op, "padding", n, "either be ")?;
        let dilation = if dilated { per_dimension(c, op, "dilation", n, "be either ")? } else { vec![1; n] };
        Ok(Pool { kernel, stride, padding, dilation, ceil_mode: c.flag("ceil_mode")? })
    }

    fn reach(&self, i: usize) -> i64 {
        self.dilation[i].saturating_mul(self.kernel[i] - 1).saturating_add(1)
    }

    /// The number of windows over each of the `ins`.
    ///
    /// # Errors
    /// In PyTorch's words, if the attributes make no sense for the input of `shape`.
    pub(super) fn outputs(&self, shape: &[usize], ins: &[usize]) -> Result<Vec<usize>> {
        let list = |names: &str, v: &[i64]| {
            let axes = &["T", "H", "W"][3 - v.len().min(3)..];
            axes.iter().zip(v).map(|(a, x)| format!("{}: {x}", names.replace('*', a))).collect::<Vec<_>>().join(" ")
        };
        ensure!(self.stride.iter().all(|&s| s != 0), "stride should not be zero");
        let positive = |v: &[i64]| v.iter().all(|&x| x > 0);
        ensure!(
            positive(&self.kernel),
            "kernel size should be greater than zero, but got {}",
            list("k*", &self.kernel)
        );
        ensure!(positive(&self.stride), "stride should be greater than zero, but got {}", list("d*", &self.stride));
        ensure!(
            positive(&self.dilation),
            "dilation should be greater than zero, but got {}",
            list("dilation*", &self.dilation)
        );
        let mut outs = vec![];
        for (i, &extent) in ins.iter().enumerate() {
            let (pad, kernel, dilation, stride) = (self.padding[i], self.kernel[i], self.dilation[i], self.stride[i]);
            ensure!(pad >= 0, "pad must be non-negative, but got pad: {pad}");
            ensure!(
                pad <= self.reach(i) / 2,
                "pad should be at most half of effective kernel size, but got pad={pad}, kernel_size={kernel} and dilation={dilation}"
            );
            let extent = extent as i64;
            let slack = if self.ceil_mode { stride - 1 } else { 0 };
            let mut out = (extent + 2 * pad - self.reach(i) + slack).div_euclid(stride) + 1;
            // The last window starts inside the input or its left padding.
            if self.ceil_mode && (out - 1) * stride >= extent + pad {
                out -= 1;
            }
            outs.push(out);
        }
        if outs.iter().any(|&o| o < 1) {
            let features = shape[shape.len() - ins.len() - 1];
            let size = |v: Vec<String>| format!("({features}x{})", v.join("x"));
            invalid!(
                "Given input size: {}. Calculated output size: {}. Output size is too small",
                size(ins.iter().map(usize::to_string).collect()),
                size(outs.iter().map(i64::to_string).collect())
            );
        }
        Ok(outs.into_iter().map(|o| o as usize).collect())
    }

    /// The windows as a core op's attribute, for an input of `shape`.
    pub(super) fn window(&self, shape: &[usize], outs: &[usize]) -> Window {
        let first = shape.len() - outs.len();
        let mut window = Window::trivial(shape.len());
        for (i, &out) in outs.iter().enumerate() {
            let needed = (out as i64 - 1) * self.stride[i] + self.reach(i) - shape[first + i] as i64 - self.padding[i];
            window.size[first + i] = self.kernel[i] as usize;
            window.strides[first + i] = self.stride[i] as usize;
            window.dilation[first + i] = self.dilation[i] as usize;
            // What is over on the right is left out of every window.
            window.padding[first + i] = (self.padding[i], needed.max(0));
        }
        window
    }
}

fn check_input(shape: &[usize], n: usize, op: &str) -> Result<()> {
    let rank = shape.len();
    let (low, high) = (n + 1, n + 2);
    let empty = shape.iter().skip(if rank == high { 1 } else { 0 }).any(|&d| d == 0);
    if n == 1 {
        ensure!(
            (rank == low || rank == high) && !empty,
            "{op}: Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size for input, but got:{shape:?}"
        );
        return Ok(());
    }
    ensure!(rank == low || rank == high, "non-empty {low}D or {high}D (batch mode) tensor expected for input");
    ensure!(
        !empty,
        "Expected {low}D or {high}D (batch mode) tensor with optional 0 dim batch size for input, but got:{shape:?}"
    );
    Ok(())
}

/// The input, its windows, and how many there are.
fn read<const N: usize>(c: &Call<'_>, b: &Builder) -> Result<(ValueId, Pool, Vec<usize>)> {
    let x = c.tensor(b, "self")?;
    let shape = b.shape(x);
    let op = format!("max_pool{N}d");
    let pool = Pool::read(c, &op, N, true)?;
    check_input(&shape, N, &op)?;
    let dtype = b.dtype(x);
    if dtype == DType::Bool || dtype.is_complex() {
        return super::support::not_implemented(&op, dtype);
    }
    let outs = pool.outputs(&shape, &shape[shape.len() - N..])?;
    Ok((x, pool, outs))
}

fn maxima<const N: usize>(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (x, pool, outs) = read::<N>(c, b)?;
    one(b.reduce_window(x, Reducer::Maximum, pool.window(&b.shape(x), &outs))?)
}

fn maxima_with_indices<const N: usize>(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (x, pool, outs) = read::<N>(c, b)?;
    let window = pool.window(&b.shape(x), &outs);
    many(found(b, x, window, N)?)
}

/// Maxima of windows over the last `n` dimensions of `x` with their positions in the flattened plane, as `i64`: the first of
/// equals, but the last NaN.
///
/// # Errors
/// `Invalid` if the window does not fit.
pub fn found(b: &Builder, x: ValueId, window: Window, n: usize) -> Result<[ValueId; 2]> {
    let places = nans_backwards(b, x, positions(b, &b.shape(x), n)?)?;
    let both = b.push(Op::ReduceWindow { reducer: Reducer::ArgMax, window }, &[x, places], vec![])?;
    Ok([b.element(both, 0)?, as_positions(b, b.element(both, 1)?, b.dtype(x))?])
}

/// Where each element of `shape` is in the plane of its last `n` dimensions.
pub(super) fn positions(b: &Builder, shape: &[usize], n: usize) -> Result<ValueId> {
    let plane = &shape[shape.len() - n..];
    let elements: usize = plane.iter().product();
    let positions = b.reshape(b.iota(index_dtype(elements), &[elements], 0)?, plane)?;
    super::support::broadcast_to(b, positions, shape)
}

/// `positions`, those of NaN counted from -1 downwards: of several NaN that a reduction finds, PyTorch has the last.
pub(super) fn nans_backwards(b: &Builder, x: ValueId, positions: ValueId) -> Result<ValueId> {
    if !b.dtype(x).is_float() {
        return Ok(positions);
    }
    let is_nan = b.compare(Comparison::Ne, x, x)?;
    b.select(is_nan, b.unary(Unary::Not, positions)?, positions)
}

/// What [`nans_backwards`] gave for elements of type `of`, as indices.
pub(super) fn as_positions(b: &Builder, places: ValueId, of: DType) -> Result<ValueId> {
    if !of.is_float() {
        return b.convert(places, DType::I64);
    }
    let is_nan = b.compare(Comparison::Lt, places, super::support::like(b, places, 0.0)?)?;
    b.convert(b.select(is_nan, b.unary(Unary::Not, places)?, places)?, DType::I64)
}

fn backward<const N: usize>(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (x, _, _) = read::<N>(c, b)?;
    let (grad, indices) = (c.tensor(b, "grad_output")?, c.tensor(b, "indices")?);
    let [d, e] = [b.dtype(x), b.dtype(grad)];
    let [s, t] = [d, e].map(super::support::cpp_type);
    ensure!(d == e, "expected dtype {s} for `gradOutput` but got dtype {t}");
    ensure!(b.shape(grad) == b.shape(indices), "grad_output and indices differ in shape");
    one(scatter_planes(b, grad, indices, &b.shape(x), N)?)
}

/// Each element of `grad` added to zeros of `shape` at its index in the plane of the last `n` dimensions.
pub fn scatter_planes(b: &Builder, grad: ValueId, indices: ValueId, shape: &[usize], n: usize) -> Result<ValueId> {
    let (dtype, wide) = (b.dtype(grad), b.dtype(grad).accumulator());
    let planes: usize = shape[..shape.len() - n].iter().product();
    let plane: usize = shape[shape.len() - n..].iter().product();
    let lead = &b.shape(grad)[..];
    ensure!(
        lead.len() == shape.len() && lead[..shape.len() - n] == shape[..shape.len() - n],
        "grad_output does not fit"
    );
    let places: usize = lead[shape.len() - n..].iter().product();
    let zeros = b.full(Number::Int(0), wide, &[planes, plane])?;
    let updates = b.reshape(b.convert(grad, wide)?, &[planes, places])?;
    let indices = b.reshape(indices, &[planes, places, 1])?;
    let sums = b.scatter(zeros, indices, updates, sums_in_planes())?;
    b.convert(b.reshape(sums, shape)?, dtype)
}

/// How the gradient of a pool is scattered: `[planes, places]` updates at `[planes, places, 1]` indices, into `[planes, plane]`.
pub fn sums_in_planes() -> Scatter {
    Scatter {
        combiner: Combiner::Add,
        update_window_dims: Shape::new(),
        inserted_window_dims: [1].into_iter().collect(),
        input_batching_dims: [0].into_iter().collect(),
        scatter_indices_batching_dims: [0].into_iter().collect(),
        scatter_dims_to_operand_dims: [1].into_iter().collect(),
        index_vector_dim: 2,
        unique_indices: false,
    }
}
