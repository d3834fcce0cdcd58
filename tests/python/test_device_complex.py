"""Complex numbers: functions at their cuts, on the axes and at infinity, and what is drawn."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

SIDES = [0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 2.0, -2.0, torch.inf, -torch.inf]


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
@pytest.mark.parametrize("name", ["acos", "acosh", "asin", "asinh", "atan", "atanh", "log", "log2", "log10", "sqrt"])
def test_complex_functions_know_the_sides_of_their_cuts(name: str, dtype: torch.dtype) -> None:
    real, imag = torch.cartesian_prod(*[torch.tensor(SIDES, dtype=dtype.to_real())] * 2).unbind(1)
    x, function = torch.complex(real, imag), getattr(torch, name)
    compiled = torch.compile(function, backend="torchtpu", fullgraph=True)
    for got in (function(x.to("tpu")).cpu(), compiled(x)):
        torch.testing.assert_close(torch.view_as_real(got), torch.view_as_real(function(x)), equal_nan=True)


@pytest.mark.parametrize("name", ["cos", "cosh", "exp", "sin", "sinh", "tan", "tanh"])
def test_complex_functions_keep_to_the_axes(name: str) -> None:
    parts = torch.tensor([0.0, -0.0, 1.0, -2.0, 1e30, torch.inf, -torch.inf, torch.nan])
    pairs = torch.cartesian_prod(parts, parts)
    # Where both parts are infinite or NaN only `exp` says which of its results are.
    known = pairs if name == "exp" else pairs[pairs.isfinite().any(1)]
    x, function = torch.complex(*known.unbind(1)), getattr(torch, name)
    compiled = torch.compile(function, backend="torchtpu", fullgraph=True)
    for got in (function(x.to("tpu")).cpu(), compiled(x)):
        torch.testing.assert_close(torch.view_as_real(got), torch.view_as_real(function(x)), equal_nan=True)


def test_powers_of_two_are_finite_where_the_parts_are() -> None:
    x = torch.complex(torch.tensor([-torch.inf, torch.inf, 0.0, 3.0]), torch.tensor([1.0, 0.0, -0.0, 2.0]))
    torch.testing.assert_close(torch.exp2(x.to("tpu")).cpu(), torch.exp2(x))


def test_complex_normal_numbers() -> None:
    torch.manual_seed(0)
    mean = torch.full((20_000,), 1 + 2j, device="tpu")
    draws = {
        "randn": torch.randn(20_000, dtype=torch.complex64, device="tpu").cpu(),
        "normal_": torch.empty(20_000, dtype=torch.complex64, device="tpu").normal_().cpu(),
        "normal": torch.normal(mean, torch.ones(20_000, device="tpu")).cpu() - (1 + 2j),
    }
    for name, drawn in draws.items():
        parts = torch.view_as_real(drawn)
        moments = (parts.mean(0), parts.var(0), (drawn.real * drawn.imag).mean())
        expected = (torch.zeros(2), torch.full((2,), 0.5), torch.zeros(()))
        torch.testing.assert_close(moments, expected, rtol=0.05, atol=0.03, msg=name)  # of 20,000 draws


NUMBERS: dict[str, Callable[[Tensor], Tensor]] = {
    "times": lambda x: torch.view_as_real(x * 1j),
    "into": lambda x: torch.view_as_real((2 - 1j) * x),
    "over": lambda x: torch.view_as_real(x / 1j),
    "phase": lambda x: torch.exp(1j * x).real,
    "to a power": lambda x: ((x.abs() + 1) ** (1 + 2j)).real,
    "from": lambda x: torch.view_as_real((1 - 2j) - x * 3),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64, torch.complex128], ids=str)
@pytest.mark.parametrize("name", NUMBERS)
def test_gradients_through_python_numbers(name: str, dtype: torch.dtype) -> None:
    """The backward graph has `_conj` of a Python number, which is wider than what it meets."""
    f = NUMBERS[name]
    compiled = torch.compile(f, backend="torchtpu", dynamic=False)
    for shape in ((4,), ()):
        x = torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(1)).requires_grad_()
        expected = torch.autograd.grad(f(x).sum(), x)
        torch.testing.assert_close(torch.autograd.grad(compiled(x).sum(), x), expected)
