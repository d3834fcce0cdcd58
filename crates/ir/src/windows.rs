//! Convolutions as relations of images, maps and kernels that lie as PyTorch's do, which is how the host takes them.

use crate::dtype::DType;
use crate::op::Convolution;
use crate::types::TensorType;
use hostcall::{Axis, Computes};

impl Convolution {
    /// What it is to the host, if the host has it: of `f32` or `f64`, not empty, batch before features before space, in one of
    /// the forms that a convolution and its gradients take (`ops::convolution`), the input's gradient by a kernel that is
    /// [`reversed`](Convolution::reversed) here and not before.
    pub fn windows(&self, x: &TensorType, kernel: &TensorType) -> Option<hostcall::Convolution> {
        let known = matches!(x.dtype, DType::F32 | DType::F64) && self.out == x.dtype;
        let space = |dims: &[usize]| dims.iter().copied().eq(2..x.rank());
        let in_order = [&self.input_spatial, &self.kernel_spatial, &self.output_spatial].into_iter().all(|d| space(d));
        if !known || !in_order || x.rank() < 3 || kernel.rank() != x.rank() {
            return None;
        }
        let it = match self.numbers() {
            [[0, 1], [1, 0], [0, 1]] if !self.reversed && self.batch_group_count == 1 => self.of_map(x, kernel),
            [[0, 1], [0, 1], [0, 1]] if self.reversed && self.batch_group_count == 1 => self.of_image(x, kernel),
            [[1, 0], [0, 1], [1, 0]] if !self.reversed && self.feature_group_count == 1 => self.of_kernel(x, kernel),
            _ => None,
        }?;
        let out = match it.computes {
            Computes::Map => it.map_len(),
            Computes::Image => it.image_len(),
            Computes::Kernel => it.kernel_len(),
        }?;
        it.fits(x.numel(), kernel.numel(), out).then_some(it)
    }

    /// Where batch and features are in the input, input and output features in the kernel, batch and features in the result.
    fn numbers(&self) -> [[usize; 2]; 3] {
        [
            [self.input_batch, self.input_feature],
            [self.kernel_input_feature, self.kernel_output_feature],
            [self.output_batch, self.output_feature],
        ]
    }

    fn of_map(&self, image: &TensorType, kernel: &TensorType) -> Option<hostcall::Convolution> {
        let axis = |i: usize| {
            let (stride, dilation, low) = (self.strides[i], self.rhs_dilation[i], self.padding[i].0);
            let (image, taps) = (image.shape[i + 2], kernel.shape[i + 2]);
            let map = self.result(i, image, taps)?;
            (self.lhs_dilation[i] == 1).then_some(Axis { image, map, taps, stride, dilation, low })
        };
        let groups = self.feature_group_count;
        Some(hostcall::Convolution {
            computes: Computes::Map,
            images: image.shape[0],
            groups,
            channels: kernel.shape[1],
            features: kernel.shape[0].checked_div(groups)?,
            axes: (0..self.strides.len()).map(axis).collect::<Option<_>>()?,
        })
    }

    /// Windows of the map's elements, with the strides between them, over the image.
    fn of_image(&self, map: &TensorType, kernel: &TensorType) -> Option<hostcall::Convolution> {
        let axis = |i: usize| {
            let (stride, dilation) = (self.lhs_dilation[i], self.rhs_dilation[i]);
            let (map, taps) = (map.shape[i + 2], kernel.shape[i + 2]);
            let image = self.result(i, map, taps)?;
            let reach = i64::try_from(taps.checked_sub(1)?.checked_mul(dilation)?).ok()?;
            let low = reach.checked_sub(self.padding[i].0)?;
            (self.strides[i] == 1).then_some(Axis { image, map, taps, stride, dilation, low })
        };
        let groups = self.feature_group_count;
        Some(hostcall::Convolution {
            computes: Computes::Image,
            images: map.shape[0],
            groups,
            channels: kernel.shape[1].checked_div(groups)?,
            features: kernel.shape[0],
            axes: (0..self.strides.len()).map(axis).collect::<Option<_>>()?,
        })
    }

    /// The map slides over the image by the kernel's dilation.
    fn of_kernel(&self, image: &TensorType, map: &TensorType) -> Option<hostcall::Convolution> {
        let axis = |i: usize| {
            let (stride, dilation, low) = (self.rhs_dilation[i], self.strides[i], self.padding[i].0);
            let (image, map) = (image.shape[i + 2], map.shape[i + 2]);
            let taps = self.result(i, image, map)?;
            (self.lhs_dilation[i] == 1).then_some(Axis { image, map, taps, stride, dilation, low })
        };
        let groups = self.batch_group_count;
        Some(hostcall::Convolution {
            computes: Computes::Kernel,
            images: image.shape[0],
            groups,
            channels: image.shape[1].checked_div(groups)?,
            features: map.shape[1].checked_div(groups)?,
            axes: (0..self.strides.len()).map(axis).collect::<Option<_>>()?,
        })
    }

    /// Elements of the result along a dimension in space; `None` for none.
    fn result(&self, i: usize, input: usize, window: usize) -> Option<usize> {
        let dilated = |x: usize, by: usize| Some((x.checked_sub(1)? as i128) * by as i128 + 1);
        let (low, high) = self.padding[i];
        let padded = dilated(input, self.lhs_dilation[i])? + i128::from(low) + i128::from(high);
        let left = padded - dilated(window, self.rhs_dilation[i])?;
        usize::try_from(left).ok().map(|left| left / self.strides[i].max(1) + 1)
    }
}
