"""Sorts and selections large enough that the host is asked for them, against PyTorch on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torchtpu
from test_products import needs_mkl
from test_scans import assert_same_gradient, both
from torch import Tensor

FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
TYPES = [*FLOATS, torch.int64, torch.int32, torch.int16, torch.uint8, torch.bool]
# Equals keep their order, so that places are the same everywhere.
CASES: dict[str, Callable[[Tensor, int], Any]] = {
    "sort": lambda x, d: torch.sort(x, stable=True, dim=d),
    "falling": lambda x, d: torch.sort(x, stable=True, dim=d, descending=True),
    "argsort": lambda x, d: torch.argsort(x, stable=True, dim=d),
    "msort": lambda x, _: torch.msort(x),
    "first": lambda x, d: torch.sort(x, stable=True, dim=d)[0].narrow(d, 0, 3),
    "last": lambda x, d: torch.sort(x, stable=True, dim=d)[1].narrow(d, x.shape[d] - 2, 2),
    "every other": lambda x, d: torch.sort(x, stable=True, dim=d)[0].movedim(d, 0)[3:9:2].float(),
}


def keys(dtype: torch.dtype) -> Tensor:
    x = torch.randn(19, 41, 3, generator=torch.Generator().manual_seed(4)) * 20
    x = x.round() if dtype.is_floating_point else x.abs()
    if dtype.is_floating_point:
        x[4, 5], x[3, 6:9], x[7, :, 1], x[8, 9, 2] = float("inf"), float("nan"), -0.0, -float("inf")
    return x.to(dtype)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_values(name: str, dtype: torch.dtype) -> None:
    x = keys(dtype)
    for dim in range(3):
        expected = CASES[name](x, dim)
        for found in both(lambda x, dim=dim: CASES[name](x, dim), x):
            torch.testing.assert_close(found, expected, equal_nan=True, check_device=False, rtol=0, atol=0)


VALUES: dict[str, Callable[[Tensor], Any]] = {
    "topk": lambda x: x.topk(5, 1)[0],
    "least": lambda x: x.topk(3, 1, largest=False)[0],
    "kthvalue": lambda x: x.kthvalue(7, 1)[0],
    "median": lambda x: x.median(1)[0],
    "median of all": lambda x: x.median(),
    "nanmedian": lambda x: x.nanmedian(1)[0],
    "mode": lambda x: x.mode(1)[0],
    "unique": lambda x: x.flatten()[: x.numel() // 2].nan_to_num().unique(),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.int32], ids=str)
@pytest.mark.parametrize("name", VALUES)
def test_selected_values(name: str, dtype: torch.dtype) -> None:
    x = keys(dtype)
    expected = VALUES[name](x)
    for found in both(VALUES[name], x):
        torch.testing.assert_close(found, expected, equal_nan=True, check_device=False, rtol=0, atol=0)


@pytest.mark.parametrize("name", ["kthvalue", "median", "nanmedian"])
def test_selected_places_hold_the_values(name: str) -> None:
    x = keys(torch.float32)

    def select(x: Tensor) -> Any:
        return x.kthvalue(7, 1) if name == "kthvalue" else getattr(x, name)(1)

    for values, places in both(select, x):
        taken = x.gather(1, places.cpu().unsqueeze(1)).squeeze(1)
        torch.testing.assert_close(taken, values.cpu(), equal_nan=True, rtol=0, atol=0)


def test_the_median_is_the_first_nan() -> None:
    x = torch.randn(8, 200)
    x[2, 150], x[2, 17], x[5, 0], x[7] = float("nan"), float("nan"), float("nan"), float("nan")
    for _, places in both(lambda x: x.median(1), x):
        assert [int(places[i]) for i in (2, 5, 7)] == [17, 0, 0]


@pytest.mark.parametrize("mode", ["sort", "topk", "median", "kthvalue", "quantile"])
def test_gradients(mode: str) -> None:
    x = torch.randn(20, 60, generator=torch.Generator().manual_seed(5))
    of: dict[str, Callable[[Tensor], Tensor]] = {
        "sort": lambda x: x.sort(1)[0],
        "topk": lambda x: x.topk(5, 1)[0],
        "median": lambda x: x.median(1)[0],
        "kthvalue": lambda x: x.kthvalue(9, 1)[0],
        "quantile": lambda x: x.quantile(0.3, 1),
    }

    assert_same_gradient(of[mode], x)


@needs_mkl
def test_the_host_is_asked_for_what_is_read() -> None:
    def selections(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        return x.median(1)[0], x.topk(3, 1)[1], y.sort(1)[0], y.argmin(1)

    x, y = torch.randn(32, 64), torch.randn(32, 64)
    text = torchtpu.lower(selections, x, y, stage="stablehlo")
    assert "stablehlo.sort" not in text
    # Rising, falling, or rising from NaN; with places or not; lanes; and the first and last position of each.
    for numbers in (
        "0, 0, 32, 64, 1, 31, 32",
        "1, 1, 32, 64, 1, 0, 3",
        "0, 0, 32, 64, 1, 0, 64",
        "2, 1, 32, 64, 1, 0, 1",
    ):
        assert f"array<i64: {numbers}>" in text, numbers
