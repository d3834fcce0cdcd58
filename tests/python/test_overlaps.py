"""Compiled writes to expanded tensors, which PyTorch's eager kernels refuse."""

from __future__ import annotations

import operator
from collections.abc import Callable

import pytest
import torch
import torchtpu
from torch import Tensor

# Dynamo itself refuses `out=` and `copy_`.
EXPANDED: dict[str, Callable[[Tensor], object]] = {
    "in place": lambda x: x.expand(2, 3, 4).add_(1),
    "an operator": lambda x: operator.iadd(x[:, :1].expand(3, 4), x),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", EXPANDED)
def test_a_write_to_an_expanded_tensor_is_refused(name: str, dynamic: bool) -> None:
    message = "more than one element of the written-to tensor"
    with pytest.raises(RuntimeError, match=message):
        EXPANDED[name](torch.randn(3, 4))
    with pytest.raises(torchtpu.CompileError, match=message) as refused:
        torch.compile(EXPANDED[name], backend="torchtpu", dynamic=dynamic)(torch.randn(3, 4))
    assert refused.value.file == __file__


def test_an_expanded_tensor_can_be_read_and_changed_in_shape() -> None:
    def read(x: Tensor) -> Tensor:
        y = x.expand(2, 3, 4)
        return y.unsqueeze_(0) * 2 + x.add_(1)

    x = torch.randn(3, 4)
    torch.testing.assert_close(torch.compile(read, backend="torchtpu")(x.clone()), read(x.clone()))
