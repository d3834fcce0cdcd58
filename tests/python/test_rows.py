"""Reductions of rows and what is around them, which the host computes in one pass, against PyTorch on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from test_products import needs_mkl
from torch import Tensor

ROWS: dict[str, Callable[[Tensor], Tensor]] = {
    "sum": lambda x: x.sum(-1),
    "sum of all": lambda x: x.sum(),
    "mean, kept": lambda x: x.mean(-1, keepdim=True) * x,
    "amax": lambda x: x.amax(-1),
    "amin": lambda x: x.amin((-2, -1)),
    "norm": lambda x: x.norm(dim=-1),
    "normalized": lambda x: F.normalize(x, dim=-1),
    "variance": lambda x: x.var(-1),
    "softmax": lambda x: x.softmax(-1),
    "masked softmax": lambda x: x.masked_fill(x > 1, float("-inf")).softmax(-1),
    "log_softmax": lambda x: x.log_softmax(-1),
    "logsumexp": lambda x: x.logsumexp(-1),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:], x[0, 0].detach(), x[0, 1].detach()),
    "layer_norm of two": lambda x: F.layer_norm(x, x.shape[-2:]),
    "rms_norm": lambda x: F.rms_norm(x, x.shape[-1:], x[0, 0].detach()),
    "group_norm": lambda x: F.group_norm(x.transpose(0, 1), 1),
    "silu of a softmax": lambda x: F.silu(x.softmax(-1) * 4 - x.mean(-1, keepdim=True)),
    "cross_entropy": lambda x: F.cross_entropy(x.flatten(0, 1), torch.arange(x.shape[0] * x.shape[1]).to(x.device) % 7),
    "cosine": lambda x: F.cosine_similarity(x, x.flip(0), -1),
}
SHAPES = [(2, 4, 20), (6, 8, 129), (2, 2, 3000), (1, 2, 70_000)]


def data(shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(dtype)


def step(f: Callable[[Tensor], Tensor], x: Tensor) -> tuple[Tensor, Tensor]:
    """The values, and the gradient of a sum in which each weighs something else."""
    x = x.detach().requires_grad_()
    y = f(x)
    (y * torch.linspace(-1, 1, y.numel(), device=x.device, dtype=x.dtype).view_as(y)).sum().backward()
    assert x.grad is not None
    return y.detach(), x.grad


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ROWS)
def test_values_and_gradients(name: str, dtype: torch.dtype) -> None:
    for shape in SHAPES:
        x = data(shape, dtype)
        expected = step(ROWS[name], x)
        compiled = torch.compile(ROWS[name], backend="torchtpu", dynamic=False)
        for found in (step(compiled, x), step(ROWS[name], x.to("tpu"))):
            torch.testing.assert_close(found, expected, check_device=False)


@pytest.mark.parametrize("name", ["sum", "amax", "softmax", "log_softmax", "logsumexp", "layer_norm", "norm"])
def test_nan_and_infinities(name: str) -> None:
    x = data((4, 8, 64))
    x[0, 2, 3], x[1, 3, 4], x[2, 4, 5], x[2, 4, 6] = float("nan"), float("inf"), float("-inf"), float("inf")
    x[3, 5] = float("-inf")
    expected = ROWS[name](x)
    for found in (torch.compile(ROWS[name], backend="torchtpu", dynamic=False)(x), ROWS[name](x.to("tpu"))):
        torch.testing.assert_close(found, expected, equal_nan=True, check_device=False)


@pytest.mark.parametrize("shape", [(0, 4, 64), (4, 0, 64), (4, 64, 0)])
def test_nothing_to_reduce(shape: tuple[int, ...]) -> None:
    x = data(shape)
    for f in (ROWS["sum"], ROWS["softmax"]):
        torch.testing.assert_close(torch.compile(f, backend="torchtpu", dynamic=False)(x), f(x))
        torch.testing.assert_close(f(x.to("tpu")).cpu(), f(x))


def test_strided_inputs() -> None:
    x = data((64, 8, 20))
    for view in (x.transpose(0, 2), x[:, ::2], x.expand(64, 8, 20)[3:], x.flip(1)):
        expected = view.softmax(-1)
        f = torch.compile(lambda x: x.softmax(-1), backend="torchtpu", dynamic=False)
        torch.testing.assert_close(f(view), expected)
        torch.testing.assert_close(view.to("tpu").softmax(-1).cpu(), expected)


@needs_mkl
def test_a_layer_norm_is_one_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHTPU_DUMP", str(tmp_path))
    monkeypatch.setenv("TORCHTPU_CACHE_DIR", "")
    x, w = data((8, 16, 64)), data((64,))
    f = torch.compile(lambda x, w: F.layer_norm(x, (64,), w, w), backend="torchtpu", dynamic=False)
    with torch.no_grad():
        torch.testing.assert_close(f(x, w), F.layer_norm(x, (64,), w, w))
    (program,) = tmp_path.rglob("hlo.txt")
    text = program.read_text()
    assert text.count("torchtpu.rows") == 1
    assert "reduce(" not in text and "fusion(" not in text, text
