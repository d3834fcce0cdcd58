"""Ops of torchvision, which is loaded after the device: boxes to keep, what lies in regions, deformed convolutions."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest
import torch
import torchtpu
from torch import Tensor

ops = pytest.importorskip("torchvision.ops", reason="the ops are torchvision's")

BOXES = torch.tensor([[0.0, 0, 4, 4], [1, 0, 5, 4], [6, 6, 9, 9], [0, 0, 4, 5]])
SCORES = torch.tensor([0.1, 0.9, 0.5, 0.3])
REGIONS = torch.tensor([[0.0, 1, 2, 9, 8], [1, -2.5, 0.5, 3, 14]])
MODES = ["strict", "fused", "debug"]

Op = Callable[..., Tensor]


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
    boxes = torch.tensor([[1.0, 1, 2, 2, 30]], device="tpu")
    with pytest.raises(RuntimeError, match=r"torchvision.*box_iou_rotated"):
        torch.ops.torchvision.box_iou_rotated(boxes, boxes)


@pytest.mark.parametrize("mode", MODES)
def test_of_no_boxes_none_are_kept(mode: str) -> None:
    with torchtpu.eager_mode(mode):
        kept = ops.nms(torch.empty(0, 4, device="tpu"), torch.empty(0, device="tpu"), 0.5)
    assert kept.is_tpu
    assert kept.dtype == torch.int64
    assert kept.shape == (0,)
    with (
        torchtpu.eager_mode(mode),
        pytest.raises(RuntimeError, match="boxes should have 4 elements in dimension 1, got 3"),
    ):
        ops.nms(torch.empty(0, 3, device="tpu"), torch.empty(0, device="tpu"), 0.5)


@pytest.mark.parametrize("device", ["cpu", "tpu"])
def test_of_no_boxes_none_are_kept_between_graphs(device: str) -> None:
    """In one graph torchvision lets no fewer than two be kept, with any backend."""

    def keep(boxes: Tensor, scores: Tensor) -> Tensor:
        return boxes[ops.nms(boxes * 2, scores, 0.5)] + 1

    compiled = torch.compile(keep, backend="torchtpu")
    kept = compiled(torch.empty(0, 4, device=device), torch.empty(0, device=device))
    assert kept.shape == (0, 4)


def pool(pictures: Tensor, regions: Tensor) -> Tensor:
    return ops.roi_pool(pictures, regions, (2, 3), 0.5)


def align_apart(pictures: Tensor, regions: Tensor) -> Tensor:
    return ops.ps_roi_align(pictures, regions, (2, 2), 0.5)


def pool_apart(pictures: Tensor, regions: Tensor) -> Tensor:
    return ops.ps_roi_pool(pictures, regions, (2, 2), 0.5)


def deform(pictures: Tensor, offset: Tensor, weight: Tensor, bias: Tensor, mask: Tensor) -> Tensor:
    return ops.deform_conv2d(pictures, offset, weight, bias, stride=(1, 2), padding=(1, 0), dilation=(1, 2), mask=mask)


def deform_plainly(pictures: Tensor, offset: Tensor, weight: Tensor) -> Tensor:
    return ops.deform_conv2d(pictures, offset, weight, stride=(1, 2), padding=(1, 0), dilation=(1, 2))


def arguments(op: Op, regions: Tensor = REGIONS, batch: int = 2) -> list[Tensor]:
    """Two groups of the product, and four of the offsets."""
    torch.manual_seed(0)
    pictures = torch.randn(batch, 8, 6, 7)
    if op not in (deform, deform_plainly):
        return [pictures, regions]
    offset, weight, bias = torch.randn(batch, 48, 6, 3) * 2, torch.randn(6, 4, 3, 2), torch.randn(6)
    return [pictures, offset, weight] + ([bias, torch.rand(batch, 24, 6, 3)] if op is deform else [])


def with_gradients(op: Op, given: list[Tensor], device: str = "cpu") -> list[Tensor]:
    """The result, and the gradients of all but regions."""
    moved = [t.detach().to(device).requires_grad_(t.shape[1:] != (5,)) for t in given]
    out = op(*moved)
    out.to(torch.promote_types(out.dtype, torch.float32)).cos().sum().backward()
    return [out.detach().cpu()] + [t.grad.cpu() for t in moved if t.grad is not None]


OPS = [align, pool, align_apart, pool_apart, deform, deform_plainly]
DTYPES = [torch.float32, torch.float64]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", OPS)
def test_ops_agree_with_the_cpu(op: Op, dtype: torch.dtype, mode: str) -> None:
    given = [t.to(dtype) for t in arguments(op)]
    with torchtpu.eager_mode(mode):
        ours = with_gradients(op, given, "tpu")
    torch.testing.assert_close(ours, with_gradients(op, given))


@pytest.mark.parametrize("op", OPS)
def test_nothing_gives_nothing(op: Op) -> None:
    given = arguments(op, torch.empty(0, 5), batch=0)
    torch.testing.assert_close(with_gradients(op, given, "tpu"), with_gradients(op, given))


@pytest.mark.parametrize("op", OPS)
def test_ops_agree_in_a_graph(op: Op) -> None:
    given = arguments(op)
    compiled = torch.compile(op, backend="torchtpu", fullgraph=True)
    torch.testing.assert_close(with_gradients(compiled, given), with_gradients(op, given))


@pytest.mark.parametrize("op", [torch.ops.torchvision.roi_pool, torch.ops.torchvision.ps_roi_pool])
def test_places_agree_with_the_cpu(op: Op) -> None:
    pictures, regions = arguments(pool)
    ours = op(pictures.to("tpu"), regions.to("tpu"), 0.5, 2, 2)[1]
    theirs = op(pictures, regions, 0.5, 2, 2)[1]
    assert ours.dtype == theirs.dtype
    assert torch.equal(ours.cpu(), theirs)


@pytest.mark.parametrize("compiling", [False, True])
@pytest.mark.parametrize("op", OPS)
def test_under_autocast_ops_compute_in_single_precision(op: Op, compiling: bool) -> None:
    given = arguments(op)
    # The types differ, as those of what ran in lower precision and of boxes do.
    given[0] = given[0].bfloat16()
    ran = torch.compile(op, backend="torchtpu", fullgraph=True) if compiling else op

    def under_autocast(*given: Tensor) -> Tensor:
        with torch.autocast("tpu", dtype=torch.bfloat16):
            return ran(*given)

    ours = with_gradients(under_autocast, given, "tpu")
    assert ours[0].dtype == torch.bfloat16
    exact = with_gradients(lambda first, *rest: op(first.float(), *rest).bfloat16(), given)
    torch.testing.assert_close(ours, exact)


@pytest.mark.parametrize("compiling", [False, True])
def test_boxes_of_lower_precision_are_kept_under_autocast(compiling: bool) -> None:
    def keep(boxes: Tensor, scores: Tensor) -> Tensor:
        with torch.autocast("tpu", dtype=torch.bfloat16):
            return ops.nms(boxes, scores, 0.5)

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        ran = torch.compile(keep, backend="torchtpu", fullgraph=True) if compiling else keep
        kept = ran(BOXES.to("tpu", torch.bfloat16), SCORES.to("tpu"))
    assert torch.equal(kept.cpu(), ops.nms(BOXES, SCORES, 0.5))


def test_autocast_reaches_ops_that_are_there_before_the_device() -> None:
    lines = [
        "import torch, torchvision, torchtpu",
        "torchtpu._autoload()",
        "x, boxes = torch.ones(1, 1, 4, 4, device='tpu').bfloat16(), torch.tensor([[0.0, 0, 0, 2, 2]]).to('tpu')",
        "with torch.autocast('tpu', torch.bfloat16): print(torchvision.ops.roi_align(x, boxes, 1).dtype)",
    ]
    environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    command = [sys.executable, "-c", "\n".join(lines)]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout.strip() == "torch.bfloat16"


@pytest.mark.parametrize("cells", [3, 5, 6, 7])
def test_regions_are_divided_as_a_quotient_is_rounded(cells: int) -> None:
    """A cell's length times its number is a whole pixel or just beyond it, as the last bit has it."""
    torch.manual_seed(0)
    pictures = torch.randn(1, cells * cells, 40, 40)
    regions = torch.tensor([[0.0, 0, 0, n, n] for n in range(1, 38)])
    for pool in (ops.roi_align, ops.roi_pool, ops.ps_roi_align, ops.ps_roi_pool):

        def run(pictures: Tensor, regions: Tensor, pool: Op = pool) -> Tensor:
            return pool(pictures, regions, cells)

        expected = run(pictures, regions)
        torch.testing.assert_close(run(pictures.to("tpu"), regions.to("tpu")).cpu(), expected)
        torch.testing.assert_close(torch.compile(run, backend="torchtpu")(pictures, regions), expected)
