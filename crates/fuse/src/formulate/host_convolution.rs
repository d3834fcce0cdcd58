//! Convolutions and their gradients by the host's BLAS, where one is offered: what lies under windows is copied into columns, a
//! cache's worth at a time, and multiplied by the kernel as it lies.
//!
//! They take images as PyTorch has them, batch before features before space, so a net of them needs no transposes, and comes
//! before the [layout](super::layout). Most nets with depthwise convolutions are laid out first
//! ([`as_they_lie`](mod@super::as_they_lie)): all of mobilenet_v3 took 42 ms, and 24 with features last, where the 1x1
//! convolutions are [products](super::pointwise), too.
//!
//! 16-bit floats are widened for it. Groups that are too small for a product each are left to [loops](super::depthwise), and to
//! those of [their kernels' gradients](super::depthwise_kernel), unless their kernels are too large for that: of 31x31 on
//! 2x128x28x28, depthwise, XLA takes 450 ms, and the host 50.
//!
//! On two cores with AVX-512, the convolution, the gradient of its input, and that of its kernel:
//!
//! | f32, ms                                | XLA, features last | by the host        | PyTorch            |
//! |----------------------------------------|--------------------|--------------------|--------------------|
//! | 7x7 by stride 2 on 8x3x224x224 to 64     | 34.7, 68.0, 27.3   | 14.4, 13.9, 15.1   | 25.7, 51.2, 10.8   |
//! | 3x3 on 8x64x56x56                       | 10.8, 13.3, 14.9   | 9.3, 10.2, 11.9    | 8.3, 10.4, 9.5     |
//! | 1x1 on 8x64x56x56 to 256                | 18.9, 11.7, 29.2   | 3.8, 3.8, 4.3      | 20.9, 4.7, 4.7     |
//! | 1x1 by stride 2 on 8x256x56x56 to 512    | 26.1, 33.3, 24.3   | 8.7, 9.8, 9.5      | 8.9, 42.7, 9.9     |
//! | 3x3 by stride 2 on 8x128x56x56           | 18.5, 21.8, 14.9   | 11.4, 11.4, 11.7   | 8.5, 11.7, 9.7     |
//! | 3x3 on 8x512x7x7                        | 20.6, 19.4, 17.7   | 9.5, 9.6, 8.3      | 7.2, 7.9, 9.8      |

use super::rebuild::Rebuild;
use super::{Rewrite, Rule, Site, depthwise, depthwise_kernel};
use crate::Class;
use hostcall::Computes;
use ir::op::Convolution;
use ir::{Dims, Op, Result, TensorType, ValueId};

pub(super) const RULE: Rule = Rule {
    name: "convolution-by-the-host",
    class: Class::Reassociating,
    alone: true,
    why: "the host multiplies faster than XLA's CPU convolves, and takes images with features before space",
    rewrite: Rewrite::Convolution(rewrite),
};

/// Multiplications from which a convolution is worth a call.
const LEAST: usize = 1 << 13;

fn rewrite(to: &mut Rebuild, site: &Site<'_>) -> Result<Option<ValueId>> {
    let c = site.attributes;
    let (x, kernel) = (to.ty(site.input)?, to.ty(site.kernel)?);
    if depthwise::takes(c, x, kernel) || depthwise_kernel::takes(c, x, kernel) {
        return Ok(None);
    }
    // The host knows no 16-bit floats; XLA would widen them, too.
    let wide = x.dtype.accumulator();
    let widened = |t: &TensorType| TensorType::new(wide, t.shape.iter().copied());
    let (x, kernel) = (widened(x), widened(kernel));
    let out = if c.out.accumulator() == wide { wide } else { c.out };
    let it = Convolution { host: true, out, ..c.clone() };
    // Gradients of inputs come with the kernel reversed before.
    let turned = Convolution { reversed: !it.reversed, ..it.clone() };
    let Some((it, windows, turn)) = [(it, false), (turned, true)]
        .into_iter()
        .find_map(|(it, turn)| it.windows(&x, &kernel).map(|windows| (it, windows, turn)))
    else {
        return Ok(None);
    };
    // A product takes both operands as they lie.
    let one_window = windows.computes == Computes::Map && windows.windows() == 1 && windows.groups == 1;
    if one_window || windows.work() < LEAST {
        return Ok(None);
    }
    let kernel = if turn { reversed(to, site.kernel, &it.kernel_spatial)? } else { site.kernel };
    let (x, kernel) = (to.convert(site.input, wide)?, to.convert(kernel, wide)?);
    let y = to.push(Op::Convolution(it), &[x, kernel])?;
    to.convert(y, c.out).map(Some)
}

/// `a` with the order of `dims` reversed: as it was, if that is what was done to it.
fn reversed(to: &mut Rebuild, a: ValueId, dims: &Dims) -> Result<ValueId> {
    let shape = to.shape(a)?;
    let long = |dims: &Dims| -> Dims {
        let mut dims: Dims = dims.iter().copied().filter(|&d| shape[d] > 1).collect();
        dims.sort_unstable();
        dims
    };
    let wanted = long(dims);
    match to.as_reverse(a) {
        _ if wanted.is_empty() => Ok(a),
        Some((of, dims)) if long(dims) == wanted => Ok(of),
        _ => to.push(Op::Reverse { dims: wanted }, &[a]),
    }
}
