//! Convolutions, forward and backward.
//!
//! All of them are one core op: a transposed convolution dilates its input and flips its kernel, the gradient of the
//! input is a transposed convolution, and the gradient of the kernel convolves the input with the gradient, batch and
//! features exchanged. 8- and 16-bit floats accumulate in `f32`; the bias is added there.

mod attributes;
mod core;

use self::attributes::{Attributes, same_padding};
use super::support::in_accumulator;
use super::{Call, Manner, OpDef, Outs, Strides, err, ok, one};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::types::{Dims, Shape};
use crate::{DType, Reducer, ensure, invalid};

pub(super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor",
        general,
        &[
            ok("f32[2,3,7,6], f32[4,3,3,2], f32[4], [1,1], [0,0], [1,1], false, [0,0], 1"),
            ok("f32[2,4,7,6], f32[6,2,3,2], f32[6], [2,1], [1,0], [1,2], false, [0,0], 2"),
            ok("f32[2,4,7,6], f32[4,1,3,3], none, [1], [1], [1], false, [0], 4"),
            ok("bf16[2,3,7,6], bf16[4,3,3,2], bf16[4], [2,2], [1,1], [1,1], false, [0,0], 1"),
            ok("i64[1,2,5,5], i64[3,2,3,3], i64[3], [1,1], [0,0], [1,1], false, [0,0], 1"),
            ok("f32[2,3,9], f32[4,3,3], f32[4], [2], [2], [2], false, [0], 1"),
            ok("f64[1,2,4,5,6], f64[3,2,2,3,2], f64[3], [1,2,1], [1,0,1], [1,1,2], false, [0,0,0], 1"),
            ok("f32[2,3,5,4], f32[3,4,3,2], f32[4], [1,1], [0,0], [1,1], true, [0,0], 1"),
            ok("f32[2,4,5,4], f32[4,3,3,2], f32[6], [2,3], [1,2], [2,1], true, [1,2], 2"),
            ok("f32[2,4,5], f32[4,1,3], none, [2], [1], [1], true, [1], 4"),
            ok("f32[1,2,3,3,3], f32[2,3,2,2,3], f32[3], [2,1,2], [0,1,1], [1,2,1], true, [1,0,1], 1"),
            ok("f32[0,3,5,5], f32[4,3,3,3], f32[4], [1,1], [0,0], [1,1], false, [0,0], 1"),
            ok("f32[2,0,5,5], f32[4,0,3,3], none, [1,1], [0,0], [1,1], false, [0,0], 1"),
            ok("f32[0,3,5,5], f32[3,4,3,3], none, [1,1], [0,0], [1,1], true, [0,0], 1"),
            err(
                "f32[1,2,5,5], f32[4,3,3,3], none, [1,1], [0,0], [1,1], false, [0,0], 1",
                "expected input[1, 2, 5, 5] to have 3 channels, but got 2 channels instead",
            ),
            err(
                "f32[1,3,2,2], f32[4,3,3,3], none, [1,1], [0,0], [1,1], false, [0,0], 1",
                "Calculated padded input size per channel: (2 x 2). Kernel size: (3 x 3). Kernel size can't be greater than actual input size",
            ),
            err(
                "f32[3,5,5], f32[4,3,3,3], none, [1,1], [0,0], [1,1], false, [0,0], 1",
                "Expected 4-dimensional input for 4-dimensional weight [4, 3, 3, 3], but got 3-dimensional input of size [3, 5, 5] instead",
            ),
            err("f32[1,3,5,5], f32[4,3,3,3], none, [0,1], [0,0], [1,1], false, [0,0], 1", "non-positive stride is not supported"),
            err("f32[1,3,5,5], f32[4,3,3,3], none, [1,1], [-1,0], [1,1], false, [0,0], 1", "negative padding is not supported"),
            err("f32[1,3,5,5], f32[4,3,3,3], none, [1,1], [0,0], [0,1], false, [0,0], 1", "dilation should be greater than zero"),
            err(
                "f32[1,3,5,5], f32[4,3,3,3], none, [1,1,1], [0,0], [1,1], false, [0,0], 1",
                "expected stride to be a single integer value or a list of 2 values to match the convolution dimensions, but got stride=[1, 1, 1]",
            ),
            err(
                "f32[1,3,5,5], f32[4,3,3,3], f32[3], [1,1], [0,0], [1,1], false, [0,0], 1",
                "expected bias to be 1-dimensional with 4 elements, but got bias of size [3] instead",
            ),
            err("f32[1,3,5,5], f64[4,3,3,3], none, [1,1], [0,0], [1,1], false, [0,0], 1", "expected scalar type Float but found Double"),
            err("f32[1,4,5,5], f32[3,2,3,3], none, [1,1], [0,0], [1,1], false, [0,0], 2", "expected weight to be divisible by 2 at dimension 0"),
            err(
                "f32[1,2,5,5], f32[3,4,3,3], none, [1,1], [0,0], [1,1], true, [0,0], 1",
                "Given transposed=1, weight of size [3, 4, 3, 3], expected input[1, 2, 5, 5] to have 3 channels",
            ),
            err("f32[1,3,5,5], f32[3,4,3,3], none, [1,1], [0,0], [1,1], true, [1,1], 1", "output padding must be smaller than either stride or dilation"),
            err("f32[1,3,1,1], f32[3,4,1,1], none, [1,1], [1,1], [1,1], true, [0,0], 1", "Calculated output size per channel: (-1 x -1). Output size is too small"),
            err("f32[2,3,0,5], f32[4,3,1,1], none, [1,1], [1,1], [1,1], false, [0,0], 1", "Only zero batch or zero channel inputs are supported"),
        ],
    )
    .variants(&["convolution.out"])
    .laid_out(Strides::Convolved)
    .called(Manner::Convolution),
    OpDef::new(
        "aten::convolution_overrideable(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor",
        general,
        // PyTorch has no CPU kernel to compare with.
        &[err("f32[1,2,5,5], f32[4,3,3,3], none, [1,1], [0,0], [1,1], false, [0,0], 1", "to have 3 channels, but got 2")],
    )
    .variants(&["convolution_overrideable.out"]),
    OpDef::new(
        "aten::_convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups, bool benchmark, bool deterministic, bool cudnn_enabled, bool allow_tf32) -> Tensor",
        general,
        &[ok("f32[2,3,7,6], f32[4,3,3,2], f32[4], [1,1], [0,0], [1,1], false, [0,0], 1, false, false, true, true")],
    )
    .variants(&["_convolution.out"]),
    OpDef::new(
        "aten::conv1d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], SymInt[1] padding=[0], SymInt[1] dilation=[1], SymInt groups=1) -> Tensor",
        |c, b| plain(c, b, "conv1d", 1),
        &[
            ok("f32[2,3,7], f32[4,3,3], f32[4], stride=2, padding=1"),
            ok("f32[4,7], f32[4,2,3], groups=2, dilation=2"),
            err("f32[5], f32[4,3,3]", "Expected 2D (unbatched) or 3D (batched) input to conv1d, but got input of size: [5]"),
        ],
    ),
    OpDef::new(
        "aten::conv1d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], str padding=\"valid\", SymInt[1] dilation=[1], SymInt groups=1) -> Tensor",
        |c, b| padded(c, b, "conv1d", 1),
        &[ok("f32[2,3,7], f32[4,3,4], f32[4], padding='same', dilation=3"), ok("f32[3,7], f32[4,3,3], stride=2")],
    ),
    OpDef::new(
        "aten::conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], SymInt[2] padding=[0, 0], SymInt[2] dilation=[1, 1], SymInt groups=1) -> Tensor",
        |c, b| plain(c, b, "conv2d", 2),
        &[
            ok("f32[2,3,7,6], f32[4,3,3,3], f32[4]"),
            ok("f32[3,7,6], f32[4,3,3,3], f32[4], stride=[2,1], padding=1"),
            ok("f16[2,4,7,6], f16[4,1,3,3], groups=4, padding=1"),
            err("f32[5,5], f32[4,3,3,3]", "Expected 3D (unbatched) or 4D (batched) input to conv2d, but got input of size: [5, 5]"),
            err("f32[2,5,5], f32[4,3,3,3]", "expected input[1, 2, 5, 5] to have 3 channels, but got 2 channels instead"),
        ],
    ),
    OpDef::new(
        "aten::conv2d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], str padding=\"valid\", SymInt[2] dilation=[1, 1], SymInt groups=1) -> Tensor",
        |c, b| padded(c, b, "conv2d", 2),
        &[
            ok("f32[2,3,7,6], f32[4,3,3,2], f32[4], padding='same'"),
            ok("f32[2,3,7,6], f32[4,3,3,2], stride=2, padding='valid'"),
            err("f32[1,3,5,5], f32[4,3,3,3], none, [2,2], 'same'", "padding='same' is not supported for strided convolutions"),
            err("f32[1,3,5,5], f32[4,3,3,3], none, [1,1], 'full'", "Invalid padding string: 'full'"),
        ],
    ),
    OpDef::new(
        "aten::conv3d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1], SymInt[3] padding=[0, 0, 0], SymInt[3] dilation=[1, 1, 1], SymInt groups=1) -> Tensor",
        |c, b| plain(c, b, "conv3d", 3),
        &[ok("f32[2,3,4,5,6], f32[4,3,2,3,2], f32[4], padding=[1,0,1]"), ok("f32[3,4,5,6], f32[4,3,2,3,2]")],
    ),
    OpDef::new(
        "aten::conv3d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1], str padding=\"valid\", SymInt[3] dilation=[1, 1, 1], SymInt groups=1) -> Tensor",
        |c, b| padded(c, b, "conv3d", 3),
        &[ok("f32[2,3,4,5,6], f32[4,3,2,3,2], f32[4], padding='same'")],
    ),
    OpDef::new(
        "aten::conv_transpose1d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], SymInt[1] padding=[0], SymInt[1] output_padding=[0], SymInt groups=1, SymInt[1] dilation=[1]) -> Tensor",
        |c, b| transposed(c, b, "conv_transpose1d", 1),
        &[
            ok("f32[2,3,5], f32[3,4,3], f32[4], stride=2, padding=1, output_padding=1"),
            ok("f32[4,5], f32[4,3,3], groups=2"),
        ],
    ),
    OpDef::new(
        "aten::conv_transpose2d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], SymInt[2] padding=[0, 0], SymInt[2] output_padding=[0, 0], SymInt groups=1, SymInt[2] dilation=[1, 1]) -> Tensor",
        |c, b| transposed(c, b, "conv_transpose2d", 2),
        &[
            ok("f32[2,3,5,4], f32[3,4,3,3], f32[4], stride=[2,1], padding=1, dilation=2"),
            ok("f32[3,5,4], f32[3,4,3,3]"),
            err("f32[5,5], f32[3,4,3,3]", "Expected 3D (unbatched) or 4D (batched) input to conv_transpose2d"),
        ],
    ),
    OpDef::new(
        "aten::conv_transpose3d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1], SymInt[3] padding=[0, 0, 0], SymInt[3] output_padding=[0, 0, 0], SymInt groups=1, SymInt[3] dilation=[1, 1, 1]) -> Tensor",
        |c, b| transposed(c, b, "conv_transpose3d", 3),
        &[ok("f32[1,2,3,4,3], f32[2,3,2,2,2], f32[3], stride=[1,2,1]")],
    ),
    OpDef::new(
        "aten::conv_tbc(Tensor self, Tensor weight, Tensor bias, int pad=0) -> Tensor",
        conv_tbc,
        &[ok("f32[5,2,3], f32[3,3,4], f32[4], 1"), ok("f32[5,2,3], f32[2,3,4], f32[4]")],
    )
    .variants(&["conv_tbc.out"]),
    OpDef::new(
        "aten::convolution_backward(Tensor grad_output, Tensor input, Tensor weight, SymInt[]? bias_sizes, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
        backward,
        &[
            ok("f32[2,4,5,5], f32[2,3,7,6], f32[4,3,3,2], [4], [1,1], [0,0], [1,1], false, [0,0], 1, [true,true,true]"),
            ok("f32[2,6,4,4], f32[2,4,7,6], f32[6,2,3,2], [6], [2,1], [1,0], [1,2], false, [0,0], 2, [true,true,true]"),
            ok("f32[2,4,7,6], f32[2,4,7,6], f32[4,1,3,3], [4], [1,1], [1,1], [1,1], false, [0,0], 4, [true,true,true]"),
            ok("f32[2,4,3], f32[2,3,8], f32[4,3,3], [4], [3], [2], [2], false, [0], 1, [true,true,false]"),
            ok("f64[1,3,5,2,5], f64[1,2,4,5,6], f64[3,2,2,3,2], none, [1,2,1], [1,0,1], [1,1,3], false, [0,0,0], 1, [true,true,true]"),
            ok("bf16[2,4,4,3], bf16[2,3,7,6], bf16[4,3,3,2], [4], [2,2], [1,0], [1,1], false, [0,0], 1, [true,true,true]"),
            ok("f32[2,6,11,11], f32[2,4,5,4], f32[4,3,3,2], [6], [2,3], [1,1], [2,2], true, [0,1], 2, [true,true,true]"),
            ok("f32[2,4,10], f32[2,4,5], f32[4,1,3], [4], [2], [1], [1], true, [1], 4, [true,true,true]"),
            ok("f32[1,3,4,3,4], f32[1,2,3,3,3], f32[2,3,2,1,2], [3], [1,1,1], [0,0,0], [1,1,1], true, [0,0,0], 1, [true,true,true]"),
            ok("f32[2,4,5,5], f32[2,3,7,6], f32[4,3,3,2], [4], [1,1], [0,0], [1,1], false, [0,0], 1, [false,true,false]"),
            ok("f32[0,4,3,3], f32[0,3,5,5], f32[4,3,3,3], [4], [1,1], [0,0], [1,1], false, [0,0], 1, [true,true,true]"),
            err("f32[1,4,2,3], f32[1,3,5,5], f32[4,3,3,3], [4], [1,1], [0,0], [1,1], false, [0,0], 1, [true,true,true]", "the gradient is"),
        ],
    )
    .variants(&["convolution_backward.out"]),
    OpDef::new(
        "aten::convolution_backward_overrideable(Tensor grad_output, Tensor input, Tensor weight, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups, bool[3] output_mask) -> (Tensor grad_input, Tensor grad_weight, Tensor grad_bias)",
        backward,
        // PyTorch has no CPU kernel to compare with.
        &[err("f32[1,4,2,3], f32[1,3,5,5], f32[4,3,3,3], [1,1], [0,0], [1,1], false, [0,0], 1, [true,true,true]", "the gradient is")],
    )
    .variants(&["convolution_backward_overrideable.out"]),
];

fn general(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (input, weight) = (c.tensor(b, "input")?, c.tensor(b, "weight")?);
    let attributes = Attributes::read(c, b.rank(weight).saturating_sub(2))?;
    one(convolve(c, b, input, weight, c.optional_tensor(b, "bias")?, &attributes)?)
}

/// The convolution with its bias, in the input's type.
fn convolve(
    c: &Call<'_>,
    b: &Builder,
    input: ValueId,
    weight: ValueId,
    bias: Option<ValueId>,
    a: &Attributes,
) -> Result<ValueId> {
    a.check(b, input, weight, bias)?;
    let dtype = b.dtype(input);
    let product = core::forward(c, b, input, weight, a)?;
    let Some(bias) = bias else { return rounded(b, product, dtype) };
    let bias = b.convert(b.convert(bias, dtype)?, b.dtype(product))?;
    let shape = b.shape(product);
    let bias = if shape[1] == 0 { b.full(crate::Number::Int(0), b.dtype(product), &[0])? } else { bias };
    rounded(b, b.add(product, b.broadcast_in_dim(bias, &shape, &[1])?)?, dtype)
}

/// What a convolution computed, in the type of its operands and no wider: unlike a product's, its result goes through memory
/// more often than not, there to be laid out anew. With the whole `f32`, MobileNetV3's training step in `bf16` moved 285 MiB of
/// a v5e's HBM, and 247 without.
fn rounded(b: &Builder, v: ValueId, dtype: DType) -> Result<ValueId> {
    b.cast(v, dtype)
}

/// `f` on the input with a batch dimension, which goes away again if the input had none.
fn batched(
    b: &Builder,
    input: ValueId,
    op: &str,
    n: usize,
    f: impl FnOnce(ValueId) -> Result<ValueId>,
) -> Result<Outs> {
    let shape = b.shape(input);
    if shape.len() == n + 2 {
        return one(f(input)?);
    }
    ensure!(
        shape.len() == n + 1,
        "Expected {}D (unbatched) or {}D (batched) input to {op}, but got input of size: {shape:?}",
        n + 1,
        n + 2
    );
    let result = f(super::support::unsqueeze(b, input, &[0])?)?;
    one(b.reshape(result, &b.shape(result)[1..])?)
}

fn plain(c: &Call<'_>, b: &Builder, op: &str, n: usize) -> Result<Outs> {
    let (weight, bias) = (c.tensor(b, "weight")?, c.optional_tensor(b, "bias")?);
    let attributes = Attributes::plain(c, b.rank(weight).saturating_sub(2), Some("padding"))?;
    batched(b, c.tensor(b, "input")?, op, n, |input| convolve(c, b, input, weight, bias, &attributes))
}

fn padded(c: &Call<'_>, b: &Builder, op: &str, n: usize) -> Result<Outs> {
    let (weight, bias) = (c.tensor(b, "weight")?, c.optional_tensor(b, "bias")?);
    let mut attributes = Attributes::plain(c, b.rank(weight).saturating_sub(2), None)?;
    match c.string("padding")? {
        Some("valid") => {}
        Some("same") => attributes.padding = same_padding(&attributes, &b.shape(weight))?,
        other => invalid!("Invalid padding string: '{}'", other.unwrap_or_default()),
    }
    batched(b, c.tensor(b, "input")?, op, n, |input| convolve(c, b, input, weight, bias, &attributes))
}

fn transposed(c: &Call<'_>, b: &Builder, op: &str, n: usize) -> Result<Outs> {
    let (weight, bias) = (c.tensor(b, "weight")?, c.optional_tensor(b, "bias")?);
    let attributes = Attributes::transposed(c, b.rank(weight).saturating_sub(2))?;
    batched(b, c.tensor(b, "input")?, op, n, |input| convolve(c, b, input, weight, bias, &attributes))
}

/// Time, batch, channels; the kernel is `[width, in, out]`.
fn conv_tbc(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (x, w) = (c.tensor(b, "self")?, c.tensor(b, "weight")?);
    ensure!(b.rank(x) == 3, "Input must have 3 dims: time, batch, in_channel");
    ensure!(b.rank(w) == 3, "Weight tensor must have 3 dims: kernel_width, in_channels, out_channels.");
    let (x, w) = (b.transpose(x, &[1, 2, 0])?, b.transpose(w, &[2, 1, 0])?);
    let attributes = Attributes::simple(c.int("pad")?);
    let y = convolve(c, b, x, w, Some(c.tensor(b, "bias")?), &attributes)?;
    one(b.transpose(y, &[2, 0, 1])?)
}

fn backward(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let [grad, input, weight] = ["grad_output", "input", "weight"].map(|n| c.tensor(b, n));
    let (grad, input, weight) = (grad?, input?, weight?);
    let attributes = Attributes::read(c, b.rank(weight).saturating_sub(2))?;
    attributes.check(b, input, weight, None)?;
    let expected = attributes.output_shape(&b.shape(input), &b.shape(weight))?;
    let shape = b.shape(grad);
    ensure!(shape == expected, "the gradient is {shape:?}, but the convolution's result {expected:?}");
    let mask = c.flags("output_mask")?;
    let wanted = |i: usize| mask.get(i).copied().unwrap_or(false);
    let dtype = b.dtype(input);
    let when = |i: usize, f: &dyn Fn() -> Result<ValueId>| -> Result<Option<ValueId>> {
        if wanted(i) { Ok(Some(rounded(b, f()?, dtype)?)) } else { Ok(None) }
    };
    let others: Dims = (0..shape.len()).filter(|&d| d != 1).collect();
    Ok(vec![
        when(0, &|| core::input_gradient(c, b, grad, weight, &b.shape(input), &attributes))?,
        when(1, &|| core::weight_gradient(c, b, grad, input, &b.shape(weight), &attributes))?,
        when(2, &|| in_accumulator(b, grad, |g| b.reduce(g, Reducer::Add, &others)))?,
    ])
}

/// Extents behind batch and features.
fn spatial(shape: &[usize]) -> Shape {
    shape.iter().skip(2).copied().collect()
}
