"""``interpolate``, compiled for the most part: values and gradients against PyTorch on the CPU, and what it becomes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torchtpu
from test_export_models import tputc
from torch import Tensor
from torch.nn import functional

SIZES: list[dict[str, Any]] = [
    {"scale_factor": 2},
    {"scale_factor": 3},
    {"scale_factor": 0.5},
    {"scale_factor": 1.5, "recompute_scale_factor": True},
    {"scale_factor": 2.3},
    {"size": 23},
    {"size": 1},
]
MODES: list[tuple[int, dict[str, Any]]] = [
    (1, {"mode": "linear"}),
    (1, {"mode": "nearest"}),
    (2, {"mode": "bilinear"}),
    (2, {"mode": "bilinear", "align_corners": True}),
    (2, {"mode": "bilinear", "antialias": True}),
    (2, {"mode": "bicubic"}),
    (2, {"mode": "bicubic", "align_corners": True}),
    (2, {"mode": "nearest-exact"}),
    (3, {"mode": "trilinear"}),
    (3, {"mode": "nearest"}),
    (2, {"mode": "area"}),
]


def both(x: Tensor, how: dict[str, Any]) -> tuple[Tensor, Tensor]:
    y = functional.interpolate(x, **how)
    return y, torch.autograd.grad((y * torch.linspace(-1, 1, y.numel()).view_as(y).to(y)).sum(), x)[0]


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize(("n", "mode"), MODES, ids=str)
def test_values_and_gradients(n: int, mode: dict[str, Any], size: dict[str, Any]) -> None:
    torch._dynamo.reset()
    x = torch.randn(2, 3, *[16, 12, 7][:n], requires_grad=True)
    resize = torch.compile(lambda x: functional.interpolate(x, **size, **mode), backend="torchtpu", dynamic=False)
    y = resize(x)
    expected, slope = both(x, size | mode)
    torch.testing.assert_close(y, expected)
    weights = torch.linspace(-1, 1, y.numel()).view_as(y)
    torch.testing.assert_close(torch.autograd.grad((y * weights).sum(), x)[0], slope)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_other_types_and_what_is_not_finite(dtype: torch.dtype) -> None:
    """A place that no result reads spoils none: NaN goes no further than PyTorch's."""
    torch._dynamo.reset()
    x = torch.randn(2, 3, 11, 20).to(dtype)
    x[0, 0, 5, 7], x[1, 2, 0, 0], x[1, 1, 10, 19] = torch.nan, torch.inf, -torch.inf
    for how in ({"scale_factor": 2, "mode": "bicubic"}, {"scale_factor": 0.5, "mode": "bilinear"}):

        def resize(x: Tensor, how: dict[str, Any] = how) -> Tensor:
            return functional.interpolate(x, **how)  # type: ignore[arg-type]

        compiled = torch.compile(resize, backend="torchtpu", dynamic=False)
        torch.testing.assert_close(compiled(x), resize(x), equal_nan=True)
        torch.testing.assert_close(resize(x.to("tpu")).cpu(), resize(x), equal_nan=True)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_a_regular_size_gathers_and_scatters_nothing(tmp_path: Path, mode: str) -> None:
    x = torch.randn(2, 3, 16, 16, requires_grad=True)
    torchtpu.capture(lambda x: functional.interpolate(x, scale_factor=2, mode=mode), x).save(tmp_path / "up.json")
    for name in ("up.json", "up.backward.json"):
        program = tputc("lower", tmp_path / name, "--stage", "core")
        assert "slice(" in program and "gather(" not in program and "scatter(" not in program


def test_sizes_that_are_symbols_stay_symbols() -> None:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    resize = torch.compile(
        lambda x: functional.interpolate(x, scale_factor=2, mode="bilinear").square(), backend="torchtpu", dynamic=True
    )
    for height in (5, 9, 14):
        x = torch.randn(2, 3, height, 8, requires_grad=True)
        torch.testing.assert_close(resize(x), functional.interpolate(x, scale_factor=2, mode="bilinear").square())
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


def test_others_find_pytorchs_kernels_again() -> None:
    key = torch._C.DispatchKey.Autograd
    torch.compile(lambda x: functional.interpolate(x, scale_factor=2), backend="torchtpu")(torch.randn(1, 1, 4, 4))
    assert key in torch.ops.aten.upsample_bilinear2d.default.py_kernels
    assert key in torch.ops.aten.upsample_nearest2d.vec.py_kernels


def test_an_empty_batch_is_interpolated_by_eager_calls() -> None:
    # PyTorch's meta kernel trips over itself there.
    ours, theirs = (functional.interpolate(torch.zeros(0, 3, 4, 4, device=d), scale_factor=2) for d in ("tpu", "cpu"))
    assert ours.shape == theirs.shape and ours.device.type == "tpu"
