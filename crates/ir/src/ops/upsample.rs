//! Resizing of images, one dimension after the other.
//!
//! Each resized dimension is a weighted sum of source positions known while tracing (see `resample`); the gradient is
//! the adjoint of that sum. What is read, and with which weight, is in [`positions`].

mod positions;

use self::positions::Mode;
use super::resample::{adjoint, resample};
use super::support::not_implemented;
use super::{Call, OpDef, Outs, err, ok, one};
use crate::builder::Builder;
use crate::error::Result;
use crate::types::Shape;
use crate::{DType, ensure, invalid};

pub(super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::upsample_nearest1d(Tensor self, SymInt[1] output_size, float? scales=None) -> Tensor",
        |c, b| to_size::<1>(c, b, Mode::Nearest),
        &[ok("f32[2,3,5], [8]"), ok("f32[2,3,5], [10]"), ok("f32[2,3,5], [3]"), ok("bf16[2,3,5]{1..2}, [8]")],
    ).variants(&["upsample_nearest1d.out"]),
    OpDef::new(
        "aten::upsample_nearest1d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor",
        |c, b| by_factors::<1>(c, b, Mode::Nearest),
        &[ok("f32[2,3,5], none, [1.7]"), ok("f32[2,3,5], [10], none"), err("f32[2,3,5], none, none", "Must specify exactly one of output_size and scale_factors")],
    ),
    OpDef::new(
        "aten::upsample_nearest1d_backward(Tensor grad_output, SymInt[1] output_size, SymInt[3] input_size, float? scales=None) -> Tensor",
        |c, b| backward::<1>(c, b, Mode::Nearest),
        &[ok("f32[2,3,8], [8], [2,3,5]"), ok("f32[2,3,10], [10], [2,3,5]"), ok("f32[2,3,3], [3], [2,3,5]")],
    ).variants(&["upsample_nearest1d_backward.grad_input"]),
    OpDef::new(
        "aten::upsample_nearest2d(Tensor self, SymInt[2] output_size, float? scales_h=None, float? scales_w=None) -> Tensor",
        |c, b| to_size::<2>(c, b, Mode::Nearest),
        &[ok("f32[2,3,4,5], [8,10]"), ok("f32[2,3,4,5], [7,3]"), ok("f32[2,3,4,5], [4,9]"), ok("bf16[2,3,4,5]{1..2}, [8,10]"), ok("u8[2,3,4,5], [8,7]"), ok("f32[2,3,4,5], [6,11], 1.7, 2.3"), ok("f64[0,3,4,5], [6,11]"), err("f32[3,4,5], [8,10]", "It is expected input_size equals to 4, but got size 3"), err("f32[2,3,4,5], [8]", "It is expected output_size equals to 2, but got size 1"), err("f32[2,3,4,5], [0,8]", "Input and output sizes should be greater than 0, but got input (H: 4, W: 5) output (H: 0, W: 8)")],
    ).variants(&["upsample_nearest2d.out"]),
    OpDef::new(
        "aten::upsample_nearest2d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor",
        |c, b| by_factors::<2>(c, b, Mode::Nearest),
        &[ok("f32[2,3,4,5], none, [1.7, 2.3]"), ok("f32[2,3,4,5], [7,3], none"), err("f32[2,3,4,5], none, none", "Must specify exactly one of output_size and scale_factors")],
    ).variants(&["upsample_nearest2d.vec_out"]),
    OpDef::new(
        "aten::upsample_nearest2d_backward(Tensor grad_output, SymInt[2] output_size, SymInt[4] input_size, float? scales_h=None, float? scales_w=None) -> Tensor",
        |c, b| backward::<2>(c, b, Mode::Nearest),
        &[ok("f32[2,3,8,10], [8,10], [2,3,4,5]"), ok("f32[2,3,7,3], [7,3], [2,3,4,5]"), ok("f32[2,3,4,9], [4,9], [2,3,4,5]"), err("f32[2,3,8,9], [8,10], [2,3,4,5]", "Expected grad_output to have the same shape as output; output.size(3) = 10 but got grad_output.size(3) = 9")],
    ).variants(&["upsample_nearest2d_backward.grad_input"]),
    OpDef::new(
        "aten::upsample_nearest3d(Tensor self, SymInt[3] output_size, float? scales_d=None, float? scales_h=None, float? scales_w=None) -> Tensor",
        |c, b| to_size::<3>(c, b, Mode::Nearest),
        &[ok("f32[1,2,3,4,5], [6,8,10]"), ok("f32[1,2,3,4,5], [5,3,4]"), ok("f32[1,2,3,4,5], [3,4,7]"), ok("bf16[1,2,3,4,5]{1..2}, [6,8,10]")],
    ).variants(&["upsample_nearest3d.out"]),
    OpDef::new(
        "aten::upsample_nearest3d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor",
        |c, b| by_factors::<3>(c, b, Mode::Nearest),
        &[ok("f32[1,2,3,4,5], none, [1.5, 2.0, 1.3]"), ok("f32[1,2,3,4,5], [5,3,4], none"), err("f32[1,2,3,4,5], none, none", "Must specify exactly one of output_size and scale_factors")],
    ),
    OpDef::new(
        "aten::upsample_nearest3d_backward(Tensor grad_output, SymInt[3] output_size, SymInt[5] input_size, float? scales_d=None, float? scales_h=None, float? scales_w=None) -> Tensor",
        |c, b| backward::<3>(c, b, Mode::Nearest),
        &[ok("f32[1,2,6,8,10], [6,8,10], [1,2,3,4,5]"), ok("f32[1,2,5,3,4], [5,3,4], [1,2,3,4,5]"), ok("f32[1,2,3,4,7], [3,4,7], [1,2,3,4,5]")],
    ).variants(&["upsample_nearest3d_backward.grad_input"]),
    OpDef::new(
        "aten::_upsample_nearest_exact1d(Tensor self, SymInt[1] output_size, float? scales=None) -> Tensor",
        |c, b| to_size::<1>(c, b, Mode::NearestExact),
        &[ok("f32[2,3,5], [8]"), ok("f32[2,3,5], [10]"), ok("f32[2,3,5], [3]"), ok("bf16[2,3,5]{1..2}, [8]")],
    ).variants(&["_upsample_nearest_exact1d.out"]),
    OpDef::new(
        "aten::_upsample_nearest_exact1d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor",
        |c, b| by_factors::<1>(c, b, Mode::NearestExact),
        &[ok("f32[2,3,5], none, [1.7]"), ok("f32[2,3,5], [10], none"), err("f32[2,3,5], none, none", "Must specify exactly one of output_size and scale_factors")],
    ),
    OpDef::new(
        "aten::_upsample_nearest_exact1d_backward(Tensor grad_output, SymInt[1] output_size, SymInt[3] input_size, float? scales=None) -> Tensor",
        |c, b| backward::<1>(c, b, Mode::NearestExact),
        &[ok("f32[2,3,8], [8], [2,3,5]"), ok("f32[2,3,10], [10], [2,3,5]"), ok("f32[2,3,3], [3], [2,3,5]")],
    ).variants(&["_upsample_nearest_exact1d_backward.grad_input"]),
    OpDef::new(
        "aten::_upsample_nearest_exact2d(Tensor self, SymInt[2] output_size, float? scales_h=None, float? scales_w=None) -> Tensor",
        |c, b| to_size::<2>(c, b, Mode::NearestExact),
        &[ok("f32[2,3,4,5], [8,10]"), ok("f32[2,3,4,5], [7,3]"), ok("f32[2,3,4,5], [4,9]"), ok("bf16[2,3,4,5]{1..2}, [8,10]"), ok("u8[2,3,4,5], [8,7]"), ok("f32[2,3,4,5], [6,11], 1.7, 2.3"), ok("f64[0,3,4,5], [6,11]"), err("f32[3,4,5], [8,10]", "It is expected input_size equals to 4, but got size 3"), err("f32[2,3,4,5], [8]", "It is expected output_size equals to 2, but got size 1"), err("f32[2,3,4,5], [0,8]", "Input and output sizes should be greater than 0, but got input (H: 4, W: 5) output (H: 0, W: 8)")],
    ).variants(&["_upsample_nearest_exact2d.out"]),
    OpDef::new(
        "aten::_upsample_nearest_exact2d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor",
        |c, b| by_factors::<2>(c, b, Mode::NearestExact),
        &[ok("f32[2,3,4,5], none, [1.7, 2.3]"), ok("f32[2,3,4,5], [7,3], none"), err("f32[2,3,4,5], none, none", "Must specify exactly one of output_size and scale_factors")],
    ),
    OpDef::new(
        "aten::_upsample_nearest_exact2d_backward(Tensor grad_output, SymInt[2] output_size, SymInt[4] input_size, float? scales_h=None, float? scales_w=None) -> Tensor",
        |c, b| backward::<2>(c, b, Mode::NearestExact),
        &[ok("f32[2,3,8,10], [8,10], [2,3,4,5]"), ok("f32[2,3,7,3], [7,3], [2,3,4,5]"), ok("f32[2,3,4,9], [4,9], [2,3,4,5]"), err("f32[2,3,8,9], [8,10], [2,3,4,5]", "Expected grad_output to have the same shape as output; output.size(3) = 10 but got grad_output.size(3) = 9")],
    ).variants(&["_upsample_nearest_exact2d_backward.grad_input"]),
    OpDef::new(
        "aten::_upsample_nearest_exact3d(Tensor self, SymInt[3] output_size, float? scales_d=None, float? scales_h=None, float? scales_w=None) -> Tensor",
        |c, b| to_size::<3>(c, b, Mode::NearestExact),
        &[ok("f32[1,2,3,4,5], [6,8,10]"), ok("f32[1,2,3,4,5], [5,3,4]"), ok("f32[1,2,3,4,5], [3,4,7]"), ok("bf16[1,2,3,4,5]{1..2}, [6,8,10]")],
    ).variants(&["_upsample_nearest_exact3d.out"]),
    OpDef::new(
        "aten::_upsample_nearest_exact3d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor",
        |c, b| by_factors::<3>(c, b, Mode::NearestExact),
        &[ok("f32[1,2,3,4,5], none, [1.5, 2.0, 1.3]"), ok("f32[1,2,3,4,5], [5,3,4], none"), err("f32[1,2,3,4,5], none, none", "Must specify exactly one of output_size and scale_factors")],
    ),
    OpDef::new(
        "aten::_upsample_nearest_exact3d_backward(Tensor grad_output, SymInt[3] output_size, SymInt[5] input_size, float? scales_d=None, float? scales_h=None, float? scales_w=None) -> Tensor",
        |c, b| backward::<3>(c, b, Mode::NearestExact),
        &[ok("f32[1,2,6,8,10], [6,8,10], [1,2,3,4,5]"), ok("f32[1,2,5,3,4], [5,3,4], [1,2,3,4,5]"), ok("f32[1,2,3,4,7], [3,4,7], [1,2,3,4,5]")],
    ).variants(&["_upsample_nearest_exact3d_backward.grad_input"]),
    OpDef::new(
        "aten::upsample_linear1d(Tensor self, SymInt[1] output_size, bool align_corners, float? scales=None) -> Tensor",
        |c, b| to_size::<1>(c, b, Mode::Linear),
        &[ok("f32[2,3,5], [8], false"), ok("f32[2,3,5], [8], true"), ok("f32[2,3,5], [10], false"), ok("f32[2,3,5], [10], true"), ok("f32[2,3,5], [3], false"), ok("f32[2,3,5], [3], true"), ok("bf16[2,3,5]{1..2}, [8], false")],
    ).variants(&["upsample_linear1d.out"]),
    OpDef::new(
        "aten::upsample_linear1d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor",
        |c, b| by_factors::<1>(c, b, Mode::Linear),
        &[ok("f32[2,3,5], none, false, [1.7]"), ok("f32[2,3,5], [10], false, none"), err("f32[2,3,5], none, false, none", "Must specify exactly one of output_size and scale_factors")],
    ),
    OpDef::new(
        "aten::upsample_linear1d_backward(Tensor grad_output, SymInt[1] output_size, SymInt[3] input_size, bool align_corners, float? scales=None) -> Tensor",
        |c, b| backward::<1>(c, b, Mode::Linear),
        &[ok("f32[2,3,8], [8], [2,3,5], false"), ok("f32[2,3,8], [8], [2,3,5], true"), ok("f32[2,3,10], [10], [2,3,5], false"), ok("f32[2,3,10], [10], [2,3,5], true"), ok("f32[2,3,3], [3], [2,3,5], false"), ok("f32[2,3,3], [3], [2,3,5], true")],
    ).variants(&["upsample_linear1d_backward.grad_input"]),
    OpDef::new(
        "aten::upsample_bilinear2d(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor",
        |c, b| to_size::<2>(c, b, Mode::Linear),
        &[ok("f32[2,3,4,5], [8,10], false"), ok("f32[2,3,4,5], [8,10], true"), ok("f32[2,3,4,5], [7,3], false"), ok("f32[2,3,4,5], [7,3], true"), ok("f32[2,3,4,5], [4,9], false"), ok("f32[2,3,4,5], [4,9], true"), ok("bf16[2,3,4,5]{1..2}, [8,10], false"), ok("f32[2,3,4,5], [6,11], false, 1.7, 2.3"), ok("f64[0,3,4,5], [6,11], false"), err("f32[3,4,5], [8,10], false", "It is expected input_size equals to 4, but got size 3"), err("f32[2,3,4,5], [8], false", "It is expected output_size equals to 2, but got size 1"), err("f32[2,3,4,5], [0,8], false", "Input and output sizes should be greater than 0, but got input (H: 4, W: 5) output (H: 0, W: 8)")],
    ).variants(&["upsample_bilinear2d.out"]),
    OpDef::new(
        "aten::upsample_bilinear2d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor",
        |c, b| by_factors::<2>(c, b, Mode::Linear),
        &[ok("f32[2,3,4,5], none, false, [1.7, 2.3]"), ok("f32[2,3,4,5], [7,3], false, none"), err("f32[2,3,4,5], none, false, none", "Must specify exactly one of output_size and scale_factors")],
    ).variants(&["upsample_bilinear2d.vec_out"]),
    OpDef::new(
        "aten::upsample_bilinear2d_backward(Tensor grad_output, SymInt[2] output_size, SymInt[4] input_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor",
        |c, b| backward::<2>(c, b, Mode::Linear),
        &[ok("f32[2,3,8,10], [8,10], [2,3,4,5], false"), ok("f32[2,3,8,10], [8,10], [2,3,4,5], true"), ok("f32[2,3,7,3], [7,3], [2,3,4,5], false"), ok("f32[2,3,7,3], [7,3], [2,3,4,5], true"), ok("f32[2,3,4,9], [4,9], [2,3,4,5], false"), ok("f32[2,3,4,9], [4,9], [2,3,4,5], true"), err("f32[2,3,8,9], [8,10], [2,3,4,5], false", "Expected grad_output to have the same shape as output; output.size(3) = 10 but got grad_output.size(3) = 9")],
    ).variants(&["upsample_bilinear2d_backward.grad_input"]),
    OpDef::new(
        "aten::upsample_trilinear3d(Tensor self, SymInt[3] output_size, bool align_corners, float? scales_d=None, float? scales_h=None, float? scales_w=None) -> Tensor",
        |c, b| to_size::<3>(c, b, Mode::Linear),
        &[ok("f32[1,2,3,4,5], [6,8,10], false"), ok("f32[1,2,3,4,5], [6,8,10], true"), ok("f32[1,2,3,4,5], [5,3,4], false"), ok("f32[1,2,3,4,5], [5,3,4], true"), ok("f32[1,2,3,4,5], [3,4,7], false"), ok("f32[1,2,3,4,5], [3,4,7], true"), ok("bf16[1,2,3,4,5]{1..2}, [6,8,10], false")],
    ).variants(&["upsample_trilinear3d.out"]),
    OpDef::new(
        "aten::upsample_trilinear3d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor",
        |c, b| by_factors::<3>(c, b, Mode::Linear),
        &[ok("f32[1,2,3,4,5], none, false, [1.5, 2.0, 1.3]"), ok("f32[1,2,3,4,5], [5,3,4], false, none"), err("f32[1,2,3,4,5], none, false, none", "Must specify exactly one of output_size and scale_factors")],
    ),
    OpDef::new(
        "aten::upsample_trilinear3d_backward(Tensor grad_output, SymInt[3] output_size, SymInt[5] input_size, bool align_corners, float? scales_d=None, float? scales_h=None, float? scales_w=None) -> Tensor",
        |c, b| backward::<3>(c, b, Mode::Linear),
        &[ok("f32[1,2,6,8,10], [6,8,10], [1,2,3,4,5], false"), ok("f32[1,2,6,8,10], [6,8,10], [1,2,3,4,5], true"), ok("f32[1,2,5,3,4], [5,3,4], [1,2,3,4,5], false"), ok("f32[1,2,5,3,4], [5,3,4], [1,2,3,4,5], true"), ok("f32[1,2,3,4,7], [3,4,7], [1,2,3,4,5], false"), ok("f32[1,2,3,4,7], [3,4,7], [1,2,3,4,5], true")],
    ).variants(&["upsample_trilinear3d_backward.grad_input"]),
    OpDef::new(
        "aten::upsample_bicubic2d(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor",
        |c, b| to_size::<2>(c, b, Mode::Cubic),
        &[ok("f32[2,3,4,5], [8,10], false"), ok("f32[2,3,4,5], [8,10], true"), ok("f32[2,3,4,5], [7,3], false"), ok("f32[2,3,4,5], [7,3], true"), ok("f32[2,3,4,5], [4,9], false"), ok("f32[2,3,4,5], [4,9], true"), ok("f32[2,3,4,5], [6,11], false, 1.7, 2.3"), ok("f64[0,3,4,5], [6,11], false"), err("f32[3,4,5], [8,10], false", "It is expected input_size equals to 4, but got size 3"), err("f32[2,3,4,5], [8], false", "It is expected output_size equals to 2, but got size 1"), err("f32[2,3,4,5], [0,8], false", "Input and output sizes should be greater than 0, but got input (H: 4, W: 5) output (H: 0, W: 8)")],
    ).variants(&["upsample_bicubic2d.out"]),
    OpDef::new(
        "aten::upsample_bicubic2d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor",
        |c, b| by_factors::<2>(c, b, Mode::Cubic),
        &[ok("f32[2,3,4,5], none, false, [1.7, 2.3]"), ok("f32[2,3,4,5], [7,3], false, none"), err("f32[2,3,4,5], none, false, none", "Must specify exactly one of output_size and scale_factors")],
    ),
    OpDef::new(
        "aten::upsample_bicubic2d_backward(Tensor grad_output, SymInt[2] output_size, SymInt[4] input_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor",
        |c, b| backward::<2>(c, b, Mode::Cubic),
        &[ok("f32[2,3,8,10], [8,10], [2,3,4,5], false"), ok("f32[2,3,8,10], [8,10], [2,3,4,5], true"), ok("f32[2,3,7,3], [7,3], [2,3,4,5], false"), ok("f32[2,3,7,3], [7,3], [2,3,4,5], true"), ok("f32[2,3,4,9], [4,9], [2,3,4,5], false"), ok("f32[2,3,4,9], [4,9], [2,3,4,5], true"), err("f32[2,3,8,9], [8,10], [2,3,4,5], false", "Expected grad_output to have the same shape as output; output.size(3) = 10 but got grad_output.size(3) = 9")],
    ).variants(&["upsample_bicubic2d_backward.grad_input"]),
    OpDef::new(
        "aten::_upsample_bilinear2d_aa(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor",
        |c, b| to_size::<2>(c, b, Mode::SmoothLinear),
        &[ok("f32[2,3,4,5], [8,10], false"), ok("f32[2,3,4,5], [8,10], true"), ok("f32[2,3,14,15], [5,3], false"), ok("f32[2,3,14,15], [5,4], true"), ok("f32[2,3,4,5], [4,9], false"), ok("f64[2,3,24,5], [7,2], false"), ok("f32[2,3,4,5], [6,11], false, 1.7, 2.3"), err("f32[3,4,5], [8,10], false", "It is expected input_size equals to 4, but got size 3"), err("f32[2,3,4,5], [0,8], false", "Input and output sizes should be greater than 0, but got input (H: 4, W: 5) output (H: 0, W: 8)")],
    ).variants(&["_upsample_bilinear2d_aa.out"]),
    OpDef::new(
        "aten::_upsample_bilinear2d_aa.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor",
        |c, b| by_factors::<2>(c, b, Mode::SmoothLinear),
        &[ok("f32[2,3,14,15], none, false, [0.4, 0.6]"), ok("f32[2,3,4,5], [7,3], false, none"), err("f32[2,3,4,5], none, false, none", "Must specify exactly one of output_size and scale_factors")],
    ),
    OpDef::new(
        "aten::_upsample_bilinear2d_aa_backward(Tensor grad_output, SymInt[2] output_size, SymInt[4] input_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor",
        |c, b| backward::<2>(c, b, Mode::SmoothLinear),
        &[ok("f32[2,3,8,10], [8,10], [2,3,4,5], false"), ok("f32[2,3,4,3], [4,3], [2,3,11,7], true"), ok("f32[2,3,4,3], [4,3], [2,3,11,7], false"), err("f32[2,3,8,9], [8,10], [2,3,4,5], false", "Expected grad_output to have the same shape as output; output.size(3) = 10 but got grad_output.size(3) = 9")],
    ).variants(&["_upsample_bilinear2d_aa_backward.grad_input"]),
    OpDef::new(
        "aten::_upsample_bicubic2d_aa(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor",
        |c, b| to_size::<2>(c, b, Mode::SmoothCubic),
        &[ok("f32[2,3,4,5], [8,10], false"), ok("f32[2,3,4,5], [8,10], true"), ok("f32[2,3,14,15], [5,3], false"), ok("f32[2,3,14,15], [5,4], true"), ok("f32[2,3,4,5], [4,9], false"), ok("f64[2,3,24,5], [7,2], false"), ok("f32[2,3,4,5], [6,11], false, 1.7, 2.3"), err("f32[3,4,5], [8,10], false", "It is expected input_size equals to 4, but got size 3"), err("f32[2,3,4,5], [0,8], false", "Input and output sizes should be greater than 0, but got input (H: 4, W: 5) output (H: 0, W: 8)")],
    ).variants(&["_upsample_bicubic2d_aa.out"]),
    OpDef::new(
        "aten::_upsample_bicubic2d_aa.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor",
        |c, b| by_factors::<2>(c, b, Mode::SmoothCubic),
        &[ok("f32[2,3,14,15], none, false, [0.4, 0.6]"), ok("f32[2,3,4,5], [7,3], false, none"), err("f32[2,3,4,5], none, false, none", "Must specify exactly one of output_size and scale_factors")],
    ),
    OpDef::new(
        "aten::_upsample_bicubic2d_aa_backward(Tensor grad_output, SymInt[2] output_size, SymInt[4] input_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor",
        |c, b| backward::<2>(c, b, Mode::SmoothCubic),
        &[ok("f32[2,3,8,10], [8,10], [2,3,4,5], false"), ok("f32[2,3,4,3], [4,3], [2,3,11,7], true"), ok("f32[2,3,4,3], [4,3], [2,3,11,7], false"), err("f32[2,3,8,9], [8,10], [2,3,4,5], false", "Expected grad_output to have the same shape as output; output.size(3) = 10 but got grad_output.size(3) = 9")],
    ).variants(&["_upsample_bicubic2d_aa_backward.grad_input"]),
    OpDef::new(
        "aten::_upsample_lanczos2d_aa(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor",
        |c, b| to_size::<2>(c, b, Mode::SmoothLanczos),
        &[ok("f32[2,3,4,5], [8,10], false"), ok("f32[2,3,4,5], [8,10], true"), ok("f32[2,3,14,15], [5,3], false"), ok("f32[2,3,14,15], [5,4], true"), ok("f32[2,3,4,5], [4,9], false"), ok("f64[2,3,24,5], [7,2], false"), ok("f32[2,3,4,5], [6,11], false, 1.7, 2.3"), err("f32[3,4,5], [8,10], false", "It is expected input_size equals to 4, but got size 3"), err("f32[2,3,4,5], [0,8], false", "Input and output sizes should be greater than 0, but got input (H: 4, W: 5) output (H: 0, W: 8)")],
    ).variants(&["_upsample_lanczos2d_aa.out"]),
    OpDef::new(
        "aten::_upsample_lanczos2d_aa.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor",
        |c, b| by_factors::<2>(c, b, Mode::SmoothLanczos),
        &[ok("f32[2,3,14,15], none, false, [0.4, 0.6]"), ok("f32[2,3,4,5], [7,3], false, none"), err("f32[2,3,4,5], none, false, none", "Must specify exactly one of output_size and scale_factors")],
    ),
    OpDef::new(
        "aten::_upsample_lanczos2d_aa_backward(Tensor grad_output, SymInt[2] output_size, SymInt[4] input_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor",
        |c, b| backward::<2>(c, b, Mode::SmoothLanczos),
        &[ok("f32[2,3,8,10], [8,10], [2,3,4,5], false"), ok("f32[2,3,4,3], [4,3], [2,3,11,7], true"), ok("f32[2,3,4,3], [4,3], [2,3,11,7], false"), err("f32[2,3,8,9], [8,10], [2,3,4,5], false", "Expected grad_output to have the same shape as output; output.size(3) = 10 but got grad_output.size(3) = 9")],
    ).variants(&["_upsample_lanczos2d_aa_backward.grad_input"]),
];

/// The scale arguments of `N` dimensions, outermost first.
fn scales<const N: usize>(c: &Call<'_>) -> Result<Vec<Option<f64>>> {
    let names = if N == 1 { &["scales"][..] } else { &["scales_d", "scales_h", "scales_w"][3 - N..] };
    names.iter().map(|name| c.optional_float(name)).collect()
}

/// Whether corners are aligned, where the mode has the choice.
fn align_corners(c: &Call<'_>, mode: Mode) -> Result<bool> {
    Ok(mode.interpolates() && c.flag("align_corners")?)
}

/// # Errors
/// In PyTorch's words, if sizes are missing or empty.
fn check<const N: usize>(input: &[usize], outs: &[usize]) -> Result<()> {
    ensure!(outs.len() == N, "It is expected output_size equals to {N}, but got size {}", outs.len());
    let rank = input.len();
    ensure!(rank == N + 2, "It is expected input_size equals to {}, but got size {rank}", N + 2);
    let ins = &input[2..];
    if ins.contains(&0) || outs.contains(&0) {
        let axes = &["D", "H", "W"][3 - N..];
        let list =
            |sizes: &[usize]| axes.iter().zip(sizes).map(|(a, s)| format!("{a}: {s}")).collect::<Vec<_>>().join(", ");
        invalid!(
            "Input and output sizes should be greater than 0, but got input ({}) output ({})",
            list(ins),
            list(outs)
        );
    }
    let whole = input[1] != 0;
    ensure!(whole, "Non-empty {rank}D data tensor expected but got a tensor with sizes {input:?}");
    Ok(())
}

fn sizes(c: &Call<'_>, name: &str) -> Result<Vec<usize>> {
    Ok(c.sizes(name)?.to_vec())
}

fn to_size<const N: usize>(c: &Call<'_>, b: &Builder, mode: Mode) -> Result<Outs> {
    resize::<N>(c, b, mode, "self", &sizes(c, "output_size")?, &scales::<N>(c)?)
}

fn by_factors<const N: usize>(c: &Call<'_>, b: &Builder, mode: Mode) -> Result<Outs> {
    let (given, factors) = (c.has("output_size"), c.has("scale_factors"));
    ensure!(given != factors, "Must specify exactly one of output_size and scale_factors");
    if given {
        return resize::<N>(c, b, mode, "input", &sizes(c, "output_size")?, &[None; N]);
    }
    let shape = b.shape(c.tensor(b, "input")?);
    let factors: Vec<f64> = c.scalars("scale_factors")?.iter().map(|s| c.number(s).as_f64()).collect();
    ensure!(factors.len() == N, "Expected {N} scale factors, got {}", factors.len());
    ensure!(shape.len() == N + 2, "It is expected input_size equals to {}, but got size {}", N + 2, shape.len());
    let outs: Vec<usize> = shape[2..].iter().zip(&factors).map(|(&d, f)| (d as f64 * f) as usize).collect();
    resize::<N>(c, b, mode, "input", &outs, &factors.iter().copied().map(Some).collect::<Vec<_>>())
}

fn resize<const N: usize>(
    c: &Call<'_>,
    b: &Builder,
    mode: Mode,
    input: &str,
    outs: &[usize],
    scales: &[Option<f64>],
) -> Result<Outs> {
    let x = c.tensor(b, input)?;
    let (shape, dtype) = (b.shape(x), b.dtype(x));
    check::<N>(&shape, outs)?;
    if dtype == DType::U8 && mode.interpolates() {
        crate::unsupported!("resizing of bytes by interpolation");
    }
    if !(dtype.is_float() || dtype == DType::U8) {
        return not_implemented("upsample", dtype);
    }
    let align = align_corners(c, mode)?;
    let mut v = b.convert(x, dtype.accumulator())?;
    for (i, &out) in outs.iter().enumerate() {
        let single = b.dtype(v) != DType::F64;
        v = resample(b, v, i + 2, &mode.taps(shape[i + 2], out, align, scales[i], single))?;
    }
    one(b.convert(v, dtype)?)
}

fn backward<const N: usize>(c: &Call<'_>, b: &Builder, mode: Mode) -> Result<Outs> {
    let (grad, shape, outs) = (c.tensor(b, "grad_output")?, c.sizes("input_size")?, sizes(c, "output_size")?);
    check::<N>(&shape, &outs)?;
    let expected: Shape = shape[..2].iter().chain(&outs).copied().collect();
    let given = b.shape(grad);
    for (i, (&e, &g)) in expected.iter().zip(&given).enumerate() {
        ensure!(
            e == g,
            "Expected grad_output to have the same shape as output; output.size({i}) = {e} but got grad_output.size({i}) = {g}"
        );
    }
    ensure!(given.len() == expected.len(), "Expected grad_output to be a tensor of dimension {}", expected.len());
    let (align, scales, dtype) = (align_corners(c, mode)?, scales::<N>(c)?, b.dtype(grad));
    let mut v = b.convert(grad, dtype.accumulator())?;
    for (i, &out) in outs.iter().enumerate() {
        let (extent, single) = (shape[i + 2], b.dtype(v) != DType::F64);
        v = resample(b, v, i + 2, &adjoint(&mode.taps(extent, out, align, scales[i], single), extent))?;
    }
    one(b.convert(v, dtype)?)
}
