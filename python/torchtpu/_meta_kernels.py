"""PyTorch's meta kernels in Python, which say what an eager call gives that the device sees for the first time.

PyTorch 2.15 imports ``torch._dynamo`` on the first call of one, which takes a second, to keep Dynamo from tracing it.
Until somebody else has imported it, nothing can trace.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

from torch._compile import _disable_dynamo
from torch._decomp import global_decomposition_table

# Where PyTorch keeps what `torch._dynamo.disable` made of a function.
_DISABLED = "__dynamo_disable"
_GUARD = _disable_dynamo(lambda: None).__code__


def wait_for_dynamo() -> None:
    """Lets meta kernels run as they are until ``torch._dynamo`` is imported, and from then on as PyTorch has them."""
    if "torch._dynamo" in sys.modules:
        return
    for guard, kernel in list(_guards()):
        if getattr(kernel, _DISABLED, None) is None:
            setattr(kernel, _DISABLED, _undisturbed(guard, kernel))


def _guards() -> Iterator[tuple[Callable[..., Any], Callable[..., Any]]]:
    """Functions that keep Dynamo from those that they call, each with that one: all that meta kernels are made of."""
    found: set[int] = set()
    rest: list[Any] = [kernel for table in global_decomposition_table.values() for kernel in table.values()]
    while rest:
        function = rest.pop()
        if id(function) in found or not isinstance(function, FunctionType):
            continue
        found.add(id(function))
        try:
            inner = {
                name: cell.cell_contents
                for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ())
            }
        except ValueError:
            continue  # it is not made yet
        if function.__code__ is _GUARD and isinstance(inner.get("fn"), FunctionType):
            yield function, inner["fn"]
        rest.extend(inner.values())


def _undisturbed(guard: Callable[..., Any], kernel: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        if "torch._dynamo" not in sys.modules:
            return kernel(*args, **kwargs)
        if getattr(kernel, _DISABLED, None) is call:
            delattr(kernel, _DISABLED)
        return guard(*args, **kwargs)

    return call
