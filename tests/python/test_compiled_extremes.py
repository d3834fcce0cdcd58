"""Extremes of what is computed: gradients go to the elements that equal them, so both must be the same numbers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

COMPUTED: dict[str, Callable[[Tensor], Tensor]] = {
    "logarithms": torch.log10,
    "sums of products": lambda x: x * 1.37 + x * x * 0.2,
    "products": lambda x: (x @ x.mT) * 1.3 + 0.7,
}
EXTREMES: dict[str, Callable[[Tensor], Tensor]] = {
    "amax": lambda y: y.amax(),
    "amax of rows": lambda y: y.amax(-1, keepdim=True),
    "amin of columns": lambda y: y.amin(0, keepdim=True),
    "aminmax": lambda y: torch.aminmax(y, dim=-1, keepdim=True)[1],
    "norm": lambda y: torch.linalg.vector_norm(y, float("inf"), -1, keepdim=True),
}


@pytest.mark.parametrize("extreme", EXTREMES)
@pytest.mark.parametrize("computed", COMPUTED)
def test_gradients_find_the_extreme(computed: str, extreme: str) -> None:
    def loss(x: Tensor) -> Tensor:
        y = COMPUTED[computed](x)
        return torch.maximum(y, EXTREMES[extreme](y) - 0.5).sum()

    compiled = torch.compile(loss, backend="torchtpu")
    for seed in range(4):
        torch.manual_seed(seed)
        x = (torch.rand(20, 40) + 0.1).requires_grad_()
        theirs, ours = (torch.autograd.grad(f(x), x)[0] for f in (loss, compiled))
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("shape", [(20, 40), (64, 512)])
@pytest.mark.parametrize("extreme", EXTREMES)
@pytest.mark.parametrize("computed", COMPUTED)
def test_what_is_computed_equals_its_extreme(computed: str, extreme: str, shape: tuple[int, int]) -> None:
    def found(x: Tensor) -> Tensor:
        y = COMPUTED[computed](x)
        return (y == EXTREMES[extreme](y)).sum()

    torch.manual_seed(0)
    x = torch.rand(shape) + 0.1
    assert torch.compile(found, backend="torchtpu")(x) == found(x)


@pytest.mark.parametrize("shape", [(64, 512), (96, 300), (128, 512), (33, 700), (256, 257)])
def test_columns_of_what_is_computed(shape: tuple[int, int]) -> None:
    def columns(x: Tensor) -> tuple[Tensor, ...]:
        y = torch.nn.functional.gelu(x)
        return y.sum(0), y.amin(0), (x * x).sum(0), (x - 0.3).abs().amax(0)

    torch.manual_seed(0)
    x = torch.rand(shape) + 0.1
    torch.testing.assert_close(torch.compile(columns, backend="torchtpu")(x), columns(x))
