"""The few first of long rows, which are selected and not sorted (`crates/fuse/src/formulate/selected.rs`).

The samples of the op tables are too small for it. Eager PyTorch leaves open which of equal elements come first; a
stable sort does not, and is what is compared with.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

Few = Callable[[Tensor], tuple[Tensor, Tensor]]

DTYPES = [
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float64,
    torch.int8,
    torch.uint8,
    torch.int32,
    torch.int64,
]
ROWS = {"a row": (3000,), "rows": (5, 300), "columns": (300, 5), "planes": (2, 40, 9)}


def _keys(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Numbers of which many are equal; zeros of both signs, NaN and infinities among the floats."""
    keys = torch.randint(-40, 40, shape, generator=torch.Generator().manual_seed(len(shape)))
    if not dtype.is_floating_point:
        return keys.to(dtype)
    kinds = torch.tensor([0.0, -0.0, float("nan"), float("inf"), float("-inf"), -float("nan")], dtype=dtype)
    return torch.where(keys < 34, (keys / 8).to(dtype), kinds[(keys - 34).clamp(min=0)])


def _first(keys: Tensor, dim: int, descending: bool, count: slice) -> tuple[Tensor, Tensor]:
    values, places = keys.sort(dim=dim, descending=descending, stable=True)
    at = tuple(count if d == dim % keys.ndim else slice(None) for d in range(keys.ndim))
    return values[at], places[at]


@pytest.mark.parametrize("how", ["strict", "compiled"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("rows", ROWS)
def test_the_first_of_long_rows(rows: str, dtype: torch.dtype, how: str) -> None:
    keys = _keys(ROWS[rows], dtype)
    dim = 0 if rows == "columns" else min(1, keys.ndim - 1)

    def run(few: Few) -> tuple[Tensor, Tensor]:
        if how == "compiled":
            return torch.compile(few, backend="torchtpu")(keys)
        values, places = few(keys.to("tpu"))
        return values.cpu(), places.cpu()

    def check(few: Few, want: tuple[Tensor, Tensor]) -> None:
        torch.testing.assert_close(run(few), want, rtol=0.0, atol=0.0, equal_nan=True)

    some, third = slice(1, 4, 2), slice(2, 3)
    check(lambda x: x.topk(4, dim), _first(keys, dim, True, slice(0, 4)))
    check(lambda x: x.topk(4, dim, largest=False), _first(keys, dim, False, slice(0, 4)))
    check(lambda x: _first(x, dim, True, some), _first(keys, dim, True, some))
    check(lambda x: x.kthvalue(3, dim, keepdim=True), _first(keys, dim, False, third))
