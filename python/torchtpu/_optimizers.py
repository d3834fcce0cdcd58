"""An optimizer's step within a program.

Optimizers read numbers out of tensors, which nobody can while a program is traced. So what they read stays a tensor
without dimensions, and what they compute with it is computed with tensors, as their ``capturable`` variants do.
"""

from __future__ import annotations

import builtins
import contextlib
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import torch
from torch import Tensor, fx
from torch.overrides import TorchFunctionMode

from torchtpu._errors import Error
from torchtpu._lines import DATA_DEPENDENT, place_in

# Ops that scale their second argument by a number, and what they call it.
_FACTORS = {"add": "alpha", "sub": "alpha", "addcmul": "value", "addcdiv": "value"}


def update(optimizer: torch.optim.Optimizer) -> None:
    """One step, without the hooks around it, which record profiles and switch gradients.

    Raises:
        Error: it calls the loss again, or decides by numbers that it reads out of tensors.
    """
    name, step = type(optimizer).__name__, inspect.unwrap(type(optimizer).step)
    closure = inspect.signature(step).parameters.get("closure")
    if closure and closure.default is inspect.Parameter.empty:
        raise Error(
            f"{name} computes the loss again within its step (`closure`), as often as the data says: capture the step "
            "with another optimizer, or without one, and update with the gradients that it then returns"
        )
    code = step.__code__
    fx.traceback.set_stack_trace([f'  File "{code.co_filename}", line {code.co_firstlineno}, in step\n'])
    try:
        with _numbers_as_tensors(step.__module__):
            step(optimizer)
    except DATA_DEPENDENT as error:
        raise Error(
            f"{name}{place_in(error)} branches on the data of a tensor, which one program cannot: capture the step "
            "with another optimizer, or without one, and update with the gradients that it then returns"
        ) from None


@contextlib.contextmanager
def _numbers_as_tensors(module: str) -> Iterator[None]:
    """Within: the code in ``module`` reads tensors where it reads numbers, and computes with them alike."""
    scope = sys.modules[module]
    with (
        mock.patch.object(scope, "max", _bound(builtins.max, "min"), create=True),
        mock.patch.object(scope, "min", _bound(builtins.min, "max"), create=True),
        _NumbersAsTensors(),
    ):
        yield


def _bound(of_numbers: Callable[..., Any], side: str) -> Callable[..., Any]:
    """The builtin ``max`` or ``min``, which compares, of a tensor and a number too."""

    def bound(*args: Any, **kwargs: Any) -> Any:
        tensors = [arg for arg in args if isinstance(arg, Tensor)]
        if len(args) != 2 or not tensors:
            return of_numbers(*args, **kwargs)
        first, second = args if args[0] is tensors[0] else reversed(args)
        return first.clamp(**{side: second})

    return bound


class _NumbersAsTensors(TorchFunctionMode):
    def __torch_function__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func is Tensor.item:
            return _number(args[0])
        factor = _FACTORS.get(getattr(func, "__name__", "").rstrip("_"), "")
        if isinstance(kwargs.get(factor), Tensor):
            first, second, *rest = args
            args = (first, second * kwargs.pop(factor), *rest)
        return func(*args, **kwargs)


def _number(tensor: Tensor) -> Tensor:
    """What ``item`` reads, which is more exact than a narrow float's type."""
    number = tensor.reshape(())
    return number.float() if number.is_floating_point() and number.itemsize < 4 else number
