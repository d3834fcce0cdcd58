//! Whether a net with depthwise convolutions is better off with its images as they lie, features before space.
//!
//! Laid out with features last, depthwise convolutions as [products](super::depthwise) fill vectors whatever the image's width, and
//! pointwise ones are one product for all images. But a place then reads the whole kernel, which for many features is more than
//! what is nearest to a core holds, and the other convolutions, which the host takes with features before space only, are XLA's.
//! Inference at batch 2 on two cores with AVX-512, in ms:
//!
//! | model               | as they lie | features last |                                                           |
//! |---------------------|-------------|---------------|-----------------------------------------------------------|
//! | convmixer_768_32    | 515         | 890           | kernels of 7x7x768, 150 KB                                 |
//! | wav2vec2-conformer  | 37          | 55            | seven strided convolutions, and two small depthwise ones   |
//! | xception41          | 167 to 192  | 173 to 199    | pointwise on 16x16 and more: no difference                 |
//! | efficientnet_b0     | 32          | 24            | pointwise on 14x14 and 7x7: a small product an image        |
//! | rexnet_100          | 26          | 22            | likewise                                                  |

use super::depthwise;
use crate::measure::{bytes, convolution, dot, numel, types};
use ir::op::Convolution;
use ir::{Graph, Node, Op};

/// Bytes of a depthwise kernel that are near enough to be read for each place.
const NEAR: u64 = 48 << 10;
/// Multiply-adds of a product that those of a depthwise convolution whose kernel is further away lose.
const FAR: u64 = 8;
/// Places of an image from which a product of its own loses nothing.
const PLACES: u64 = 256;
/// Of so many multiply-adds of a convolution by XLA, one is lost.
const BY_XLA: u64 = 2;
/// And of so many of products that are none of convolutions, which want features last.
const PRODUCTS: u64 = 10;

/// Whether `graph`, for a host that takes convolutions, loses less as it lies.
pub(super) fn is_better(graph: &Graph) -> bool {
    let sum = |loss: fn(&Graph, &Node) -> u64| {
        graph.nodes().iter().map(|node| loss(graph, node)).fold(0, u64::saturating_add)
    };
    !graph.nodes().iter().any(|node| depthwise::is_depthwise(node, graph)) || sum(features_last) > sum(as_it_lies)
}

/// What `node` loses with features last.
fn features_last(graph: &Graph, node: &Node) -> u64 {
    let Op::Convolution(c) = &node.op else { return 0 };
    let (work, kernel) = (work(graph, node, c), graph.ty(node.operands[1]));
    match kind(graph, node, c) {
        Kind::Depthwise if bytes(kernel) > NEAR => work.saturating_mul(FAR),
        Kind::Windowed => work / BY_XLA,
        _ => 0,
    }
}

/// What `node` loses with features before space.
fn as_it_lies(graph: &Graph, node: &Node) -> u64 {
    match &node.op {
        Op::Convolution(c) if kind(graph, node, c) == Kind::Pointwise => {
            let places =
                c.output_spatial.iter().map(|&d| node.ty.tensor().map_or(1, |t| t.shape[d] as u64)).product::<u64>();
            (work(graph, node, c) / places.max(1)).saturating_mul(PLACES.saturating_sub(places))
        }
        Op::DotGeneral(d) => dot(d, &types(graph, node), numel(&node.ty)) / PRODUCTS,
        _ => 0,
    }
}

#[derive(PartialEq)]
enum Kind {
    Depthwise,
    Pointwise,
    Windowed,
    Grouped,
}

fn kind(graph: &Graph, node: &Node, c: &Convolution) -> Kind {
    let one = |d: &usize| graph.tensor_type(node.operands[1]).is_some_and(|t| t.shape[*d] == 1);
    match c.feature_group_count.max(c.batch_group_count) {
        _ if depthwise::is_depthwise(node, graph) => Kind::Depthwise,
        1 if c.kernel_spatial.iter().all(one) => Kind::Pointwise,
        1 => Kind::Windowed,
        _ => Kind::Grouped,
    }
}

fn work(graph: &Graph, node: &Node, c: &Convolution) -> u64 {
    convolution(c, &types(graph, node), numel(&node.ty))
}

#[cfg(test)]
mod tests {
    use super::super::testing::plain;
    use super::is_better;
    use ir::{Builder, DType, InputKind, OutputKind, TensorType};

    /// A depthwise convolution by windows of so many, and two others by windows of `window`, on images of `size`.
    fn is_better_for(features: usize, depthwise: usize, window: usize, size: usize) -> bool {
        let b = Builder::new("net");
        let x = b.input("x", InputKind::User, TensorType::new(DType::F32, [2, features, size, size]));
        let y = plain(&b, x, features, window, 1, 1);
        let y = plain(&b, y, features, depthwise, 1, features);
        b.output("y", OutputKind::User, plain(&b, y, features, window, 1, 1));
        is_better(&b.finish())
    }

    #[test]
    fn large_kernels_lie_better_and_pointwise_ones_on_small_images_do_not() {
        assert!(is_better_for(768, 7, 1, 32));
        assert!(is_better_for(64, 3, 3, 14));
        assert!(!is_better_for(64, 3, 1, 14));
        assert!(!is_better_for(768, 7, 1, 7));
        // Neither loses: as it was.
        assert!(!is_better_for(64, 3, 1, 32));
    }
}
