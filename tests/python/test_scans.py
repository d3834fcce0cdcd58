"""Running sums, products and extremes, and scatters in batches, against PyTorch on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torchtpu
from test_products import needs_mkl
from torch import Tensor

SCANS: dict[str, Callable[..., Any]] = {
    "cumsum": torch.cumsum,
    "cumprod": torch.cumprod,
    "cummax": torch.cummax,
    "cummin": torch.cummin,
    "logcumsumexp": torch.logcumsumexp,
}


def both(f: Callable[..., Any], *inputs: Tensor) -> tuple[Any, Any]:
    """What `f` gives compiled and on the device."""
    return torch.compile(f, backend="torchtpu", dynamic=False)(*inputs), f(*[x.to("tpu") for x in inputs])


def assert_same_gradient(values: Callable[[Tensor], Tensor], x: Tensor) -> None:
    """Compiled and on the device: the values, and the gradient of a sum in which each weighs something else."""

    def step(x: Tensor) -> tuple[Tensor, Tensor]:
        x = x.detach().requires_grad_()
        y = values(x)
        (y * torch.arange(y.numel(), device=x.device).view_as(y)).sum().backward()
        assert x.grad is not None
        return y.detach(), x.grad

    expected = step(x)
    for found in (step(x.to("tpu")), torch.compile(step, backend="torchtpu", dynamic=False)(x)):
        torch.testing.assert_close(found, expected, check_device=False)


FLOATS = [torch.float32, torch.float64, torch.bfloat16]
TYPES = [*FLOATS, torch.int32, torch.int64, torch.bool]
CASES = [(name, dtype) for name in SCANS for dtype in (FLOATS if name == "logcumsumexp" else TYPES)]


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_values(name: str, dtype: torch.dtype) -> None:
    x = (torch.randn(33, 17, 3, generator=torch.Generator().manual_seed(1)) * 2).to(dtype)
    if dtype.is_floating_point and name != "cumprod":
        x[5, 3], x[6, 4] = float("inf"), float("nan")
    for dim in range(3):
        expected = SCANS[name](x, dim)
        for found in both(lambda x, dim=dim: SCANS[name](x, dim), x):
            torch.testing.assert_close(found, expected, equal_nan=True, check_device=False)


@pytest.mark.parametrize("name", SCANS)
def test_gradients(name: str) -> None:
    x = torch.rand(40, 50, generator=torch.Generator().manual_seed(2)) + 0.5

    def values(x: Tensor) -> Tensor:
        values = SCANS[name](x, 1)
        return values if isinstance(values, Tensor) else values[0]

    assert_same_gradient(values, x)


@needs_mkl
@pytest.mark.parametrize("shape", [(1 << 17,), (3, 1 << 16), (1 << 16, 3)])
def test_long_sums_are_pytorchs_to_the_last_bit(shape: tuple[int, ...]) -> None:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(3))
    dim = shape.index(max(shape))
    for found in both(lambda x: x.cumsum(dim), x):
        assert torch.equal(found.cpu(), x.cumsum(dim))


def scatters(x: Tensor, index: Tensor, updates: Tensor, dim: int) -> list[Tensor]:
    """What does not hang on the order of updates, or on which of several is last."""
    order = index.argsort(dim=dim, stable=True)
    return [
        x.scatter_add(dim, index, updates),
        x.scatter(dim, order, updates),
        x.scatter_reduce(dim, index, updates, "amax"),
        x.scatter_reduce(dim, index, updates, "amin", include_self=False),
        x.scatter_reduce(dim, index, updates, "prod"),
    ]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_scatters_in_batches(dim: int, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(dim)
    x, updates = (torch.randn(12, 12, 12, generator=generator).mul(2).to(dtype) for _ in range(2))
    index = torch.randint(0, 12, (12, 12, 12), generator=generator)
    expected = scatters(x, index, updates, dim)
    for found in both(lambda *xs: scatters(*xs, dim), x, index, updates):
        torch.testing.assert_close(found, expected, check_device=False)


@needs_mkl
def test_the_host_is_asked_for_both() -> None:
    def sums_from_the_end(x: Tensor, index: Tensor) -> Tensor:
        return x.flip(-1).cumsum(-1).flip(-1) + torch.zeros_like(x).scatter_add(1, index, x)

    x, index = torch.randn(32, 64), torch.randint(0, 64, (32, 64))
    text = torchtpu.lower(sums_from_the_end, x, index, stage="stablehlo")
    assert text.count("torchtpu.scan") == text.count("torchtpu.scatter") == 1
    assert "stablehlo.reverse" not in text, "it is the gradient of a running sum, which goes the other way"
