"""Ops of torchvision, which is loaded after the device: which boxes to keep, and averages over regions."""

from __future__ import annotations

import pytest
import torch
import torchtpu
from torch import Tensor

ops = pytest.importorskip("torchvision.ops", reason="the ops are torchvision's")

BOXES = torch.tensor([[0.0, 0, 4, 4], [1, 0, 5, 4], [6, 6, 9, 9], [0, 0, 4, 5]])
SCORES = torch.tensor([0.1, 0.9, 0.5, 0.3])
REGIONS = torch.tensor([[0.0, 1, 2, 9, 8], [1, -2.5, 0.5, 3, 14]])


@pytest.fixture(autouse=True)
def _no_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHTPU_FALLBACK", "error")


def align(pictures: Tensor, regions: Tensor) -> Tensor:
    return ops.roi_align(pictures, regions, (2, 3), 0.5, aligned=True)


def with_gradient(fn: object, device: str = "cpu") -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    pictures = torch.randn(2, 3, 6, 7).to(device).requires_grad_()
    out = fn(pictures, REGIONS.to(device))  # type: ignore[operator]
    out.cos().sum().backward()
    assert pictures.grad is not None
    return out.detach().cpu(), pictures.grad.cpu()


def test_boxes_are_kept_on_the_device() -> None:
    kept = ops.nms(BOXES.to("tpu"), SCORES.to("tpu"), 0.5)
    assert kept.is_tpu
    assert torch.equal(kept.cpu(), ops.nms(BOXES, SCORES, 0.5))


def test_regions_are_averaged_on_the_device() -> None:
    torch.testing.assert_close(with_gradient(align, "tpu"), with_gradient(align))


def test_boxes_are_kept_in_a_graph() -> None:
    def keep(boxes: Tensor, scores: Tensor) -> Tensor:
        return boxes[ops.nms(boxes * 2, scores, 0.5)] + 1

    before = torchtpu.stats()["reads"].get("torchvision.nms.default", {})
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        ours = torch.compile(keep, backend="torchtpu", fullgraph=True)(BOXES, SCORES)
    assert torch.equal(ours, keep(BOXES, SCORES))
    assert torchtpu.stats()["reads"]["torchvision.nms.default"] != before


def test_regions_are_averaged_in_a_graph() -> None:
    compiled = torch.compile(align, backend="torchtpu", fullgraph=True)
    torch.testing.assert_close(with_gradient(compiled), with_gradient(align))


def test_an_op_of_another_library_without_a_rule_is_refused() -> None:
    with pytest.raises(RuntimeError, match=r"torchvision.*roi_pool"):
        ops.roi_pool(torch.randn(1, 2, 4, 4, device="tpu"), REGIONS[:1].to("tpu"), 2)
