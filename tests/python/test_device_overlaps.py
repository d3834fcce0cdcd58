"""Eager writes to elements that share places, and over what is read: refused or done as the CPU does."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor


def test_expanded_tensors_are_not_written() -> None:
    x = torch.zeros(3, 1, device="tpu").expand(3, 4)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor refers to a single memory"):
        x.add_(1)


def test_outputs_that_overlap_are_refused() -> None:
    out = torch.zeros(3, device="tpu")
    with pytest.raises(ValueError, match="must not overlap"):
        torch.aminmax(torch.ones(2, 3, device="tpu"), dim=0, out=(out, out))


OVER_THEMSELVES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "index_add_": lambda x, i: x.index_add_(0, i, x),
    "index_copy_": lambda x, i: x.index_copy_(0, i, x),
    "index_put_": lambda x, i: x.index_put_((i,), x),
    "index_select": lambda x, i: torch.index_select(x, 0, i, out=x),
    "put_": lambda x, i: x.put_(torch.arange(9, device=x.device).view(3, 3), x),
    "scatter_": lambda x, i: x.scatter_(0, i.expand(3, 3), x),
    "scatter_add_": lambda x, i: x.scatter_add_(0, i.expand(3, 3), x),
    "take": lambda x, i: torch.take(x, i.expand(3, 3), out=x),
    "addcmul_": lambda x, i: x.addcmul_(x, x),
    "cumsum": lambda x, i: torch.cumsum(x, 0, out=x),
    "where": lambda x, i: torch.where(x > 0, x, -x, out=x),
}


@pytest.mark.parametrize("name", OVER_THEMSELVES)
def test_tensors_are_written_over_themselves_where_the_cpu_does(name: str) -> None:
    call = OVER_THEMSELVES[name]

    def written(device: str) -> Tensor | str:
        try:
            return call(torch.arange(-4.0, 5.0, device=device).view(3, 3), torch.arange(3, device=device)).cpu()
        except RuntimeError as error:
            return str(error).split("\n")[0]

    want, got = written("cpu"), written("tpu")
    if isinstance(want, str):
        assert got == want
    else:
        torch.testing.assert_close(got, want)


def test_expanded_tensors_are_filled() -> None:
    x = torch.arange(6.0, device="tpu").reshape(3, 2)
    filled = x[:, :1].expand(3, 4)
    assert filled.fill_(7.0) is filled
    assert x.tolist() == [[7, 1], [7, 3], [7, 5]]
    x[:2, 1:].expand(2, 4).zero_()
    assert x.tolist() == [[7, 0], [7, 0], [7, 5]]
