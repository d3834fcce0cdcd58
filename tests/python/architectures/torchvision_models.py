"""Models of torchvision: classifiers, detectors, segmentation, optical flow and video."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from architectures.core import DATA, Architecture, Inputs, images, library_class


def vision(
    name: str, kind: str, inputs: Callable[[], Inputs], labels: Callable[[], Inputs] = dict, **arguments: Any
) -> Architecture:
    """The model that torchvision's function `name` makes."""

    def make() -> nn.Module:
        module, _, function = f"torchvision.models.{name}".rpartition(".")
        return library_class(module, function)(weights=None, **arguments)

    return Architecture(name.rpartition(".")[2], "torchvision", kind, make, inputs, labels)


def classifier(name: str, side: int = 64, rows: int = 4, **arguments: Any) -> Architecture:
    return vision(name, "convolution", images(side, rows), num_classes=10, **arguments)


# --- detectors -------------------------------------------------------------------------------------------------------


def detector(name: str, make: Callable[[], nn.Module], kind: str = "detection") -> Architecture:
    return Architecture(name, "torchvision", kind, make, _pictures, _boxes, dynamo=DATA)


def _pictures() -> Inputs:
    return {"images": [torch.rand(3, 64, 64), torch.rand(3, 48, 64)]}


def _boxes() -> Inputs:
    boxes = torch.tensor([[4.0, 5.0, 30.0, 40.0], [20.0, 8.0, 60.0, 44.0]])
    target = {"boxes": boxes, "labels": torch.tensor([1, 2])}
    target["masks"] = (torch.rand(2, 64, 64) > 0.5).to(torch.uint8)
    target["keypoints"] = torch.cat([boxes[:, None, :2] + 3, torch.ones(2, 1, 1)], dim=2)
    other = {**target, "masks": target["masks"][:, :48]}
    return {"targets": [target, other]}


SIZES: dict[str, Any] = {"min_size": 64, "max_size": 64}
FEW: dict[str, Any] = {
    "rpn_pre_nms_top_n_train": 40,
    "rpn_pre_nms_top_n_test": 40,
    "rpn_post_nms_top_n_train": 12,
    "rpn_post_nms_top_n_test": 12,
    "rpn_batch_size_per_image": 100_000,  # all are taken, so that chance decides nothing
    "box_batch_size_per_image": 100_000,
    "box_detections_per_img": 8,
}


def _backbone(channels: int = 16) -> nn.Module:
    """A small body with one feature map."""
    from torchvision.models import squeezenet1_1

    body = squeezenet1_1().features[:6]
    body.append(nn.Conv2d(128, channels, 1))
    body.out_channels = channels
    return body


def _anchors() -> nn.Module:
    return library_class("torchvision.models.detection.rpn", "AnchorGenerator")(((8, 16, 32),), ((0.5, 1.0, 2.0),))


def _pool(size: int) -> nn.Module:
    return library_class("torchvision.ops", "MultiScaleRoIAlign")(["0"], size, 2)


def _faster_rcnn() -> nn.Module:
    model = library_class("torchvision.models.detection", "FasterRCNN")
    return model(_backbone(), 4, rpn_anchor_generator=_anchors(), box_roi_pool=_pool(3), **SIZES, **FEW)


def _mask_rcnn() -> nn.Module:
    from torchvision.models.detection.mask_rcnn import MaskRCNN, MaskRCNNHeads, MaskRCNNPredictor

    return MaskRCNN(
        _backbone(),
        rpn_anchor_generator=_anchors(),
        box_roi_pool=_pool(3),
        mask_roi_pool=_pool(6),
        mask_head=MaskRCNNHeads(16, (16, 16), 1),
        mask_predictor=MaskRCNNPredictor(16, 16, 4),
        box_predictor=library_class("torchvision.models.detection.faster_rcnn", "FastRCNNPredictor")(1024, 4),
        **SIZES,
        **FEW,
    )


def _keypoint_rcnn() -> nn.Module:
    from torchvision.models.detection.keypoint_rcnn import KeypointRCNN, KeypointRCNNHeads

    return KeypointRCNN(
        _backbone(),
        rpn_anchor_generator=_anchors(),
        box_roi_pool=_pool(3),
        keypoint_roi_pool=_pool(6),
        keypoint_head=KeypointRCNNHeads(16, (16, 16)),
        keypoint_predictor=library_class("torchvision.models.detection.keypoint_rcnn", "KeypointRCNNPredictor")(16, 1),
        box_predictor=library_class("torchvision.models.detection.faster_rcnn", "FastRCNNPredictor")(1024, 4),
        **SIZES,
        **FEW,
    )


def _retinanet() -> nn.Module:
    model = library_class("torchvision.models.detection", "RetinaNet")
    return model(
        _backbone(), 4, anchor_generator=_anchors(), score_thresh=0.0, topk_candidates=20, detections_per_img=8, **SIZES
    )


def _fcos() -> nn.Module:
    model = library_class("torchvision.models.detection", "FCOS")
    anchors = library_class("torchvision.models.detection.rpn", "AnchorGenerator")(((8,),), ((1.0,),))
    return model(
        _backbone(32), 4, anchor_generator=anchors, score_thresh=0.0, topk_candidates=20, detections_per_img=8, **SIZES
    )


# --- segmentation, flow, video ---------------------------------------------------------------------------------------


def _resnet_features() -> nn.Module:
    from torchvision.models._utils import IntermediateLayerGetter
    from torchvision.models.resnet import Bottleneck, ResNet

    body = ResNet(Bottleneck, [1, 1, 1, 1], width_per_group=8, replace_stride_with_dilation=[False, True, True])
    return IntermediateLayerGetter(body, {"layer4": "out"})


def _deeplab() -> nn.Module:
    from torchvision.models.segmentation.deeplabv3 import DeepLabHead, DeepLabV3

    return DeepLabV3(_resnet_features(), DeepLabHead(2048, 5, (2, 4)))


def _raft() -> nn.Module:
    from torchvision.models.optical_flow.raft import _raft

    return _raft(
        weights=None,
        progress=False,
        feature_encoder_layers=(8, 8, 16, 24, 32),
        feature_encoder_block=library_class("torchvision.models.optical_flow.raft", "BottleneckBlock"),
        feature_encoder_norm_layer=nn.InstanceNorm2d,
        context_encoder_layers=(8, 8, 16, 24, 40),
        context_encoder_block=library_class("torchvision.models.optical_flow.raft", "BottleneckBlock"),
        context_encoder_norm_layer=None,
        corr_block_num_levels=2,
        corr_block_radius=2,
        motion_encoder_corr_layers=(16,),
        motion_encoder_flow_layers=(16, 8),
        motion_encoder_out_channels=20,
        recurrent_block_hidden_state_size=24,
        recurrent_block_kernel_size=(3,),
        recurrent_block_padding=(1,),
        flow_head_hidden_size=16,
        use_mask_predictor=False,
    )


def _frames() -> Inputs:
    return {
        "image1": torch.rand(1, 3, 128, 128) * 2 - 1,
        "image2": torch.rand(1, 3, 128, 128) * 2 - 1,
        "num_flow_updates": 2,
    }


def _r3d() -> nn.Module:
    from torchvision.models.video.resnet import BasicBlock, BasicStem, Conv3DSimple, VideoResNet

    return VideoResNet(BasicBlock, [Conv3DSimple] * 4, [1, 1, 1, 1], BasicStem, num_classes=10)


def _mvit() -> nn.Module:
    from torchvision.models.video.mvit import MSBlockConfig, MViT

    def block(heads: int, fan_in: int, fan_out: int, kv: int, q: int) -> Any:
        return MSBlockConfig(heads, fan_in, fan_out, [3, 3, 3], [3, 3, 3], [1, kv, kv], [1, q, q])

    return MViT(
        (32, 32),
        4,
        [block(1, 16, 16, 2, 1), block(2, 16, 32, 1, 2)],
        residual_pool=True,
        residual_with_cls_embed=False,
        rel_pos_embed=True,
        proj_after_attn=True,
        num_classes=10,
    )


def _clip(frames: int, side: int, rows: int = 2) -> Callable[[], Inputs]:
    return lambda: {"x": torch.randn(rows, 3, frames, side, side)}


ENTRIES = [
    classifier("squeezenet1_1"),
    classifier("shufflenet_v2_x0_5"),
    detector("fasterrcnn", _faster_rcnn),
    # Dynamo itself fails where the sizes of masks, which are data, stay in the graph.
    replace(detector("maskrcnn", _mask_rcnn, "instance segmentation"), dynamo={}),
    detector("keypointrcnn", _keypoint_rcnn, "keypoint detection"),
    detector("retinanet", _retinanet),
    detector("fcos", _fcos),
    Architecture("deeplabv3_resnet", "torchvision", "segmentation", _deeplab, images(32)),
    Architecture("raft", "torchvision", "optical flow", _raft, _frames),
    Architecture("r3d", "torchvision", "video", _r3d, _clip(4, 32)),
    Architecture("mvit", "torchvision", "video", _mvit, _clip(4, 32)),
]
