"""PyTorch's own databases of modules and optimizers, on the device and on the CPU.

A case is a module or an optimizer with an element type: right if all its samples give on the device what they give on
the CPU, by the tolerances of PyTorch's suite. What is left out, or compared less, is in `device_exclusions`.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from device_exclusions import (
    ERRATIC_OPTIMIZERS,
    EXCLUDED_MODULES,
    EXCLUDED_OPTIMIZERS,
    RANDOM_MODULES,
    STATELESS_OPTIMIZERS,
)
from torch import Tensor, nn
from torch.testing._internal.common_modules import ModuleInfo, module_db
from torch.testing._internal.common_optimizers import OptimizerInfo, optim_db
from torch.utils import _pytree as pytree

DTYPES = (torch.float32, torch.float64)
# What PyTorch's suite allows between a device and the CPU.
TOLERANCE = {
    torch.float32: {"rtol": 1e-3, "atol": 1e-3, "equal_nan": True},
    torch.float64: {"rtol": 1e-7, "atol": 1e-7, "equal_nan": True},
}
# Samples of a module that are run in each mode, spread evenly over those there are.
MOST_SAMPLES = 4
STEPS = 3


@dataclass(frozen=True)
class Case:
    """A module or an optimizer, and the element type."""

    name: str
    run: Callable[[], None]


def cases() -> list[Case]:
    """All cases, those of modules first."""
    modules = (m for m in module_db if m.name not in EXCLUDED_MODULES)
    made = [Case(f"{m.name}-{short(d)}", _bind(check_module, m, d)) for m in modules for d in DTYPES if d in m.dtypes]
    optimizers = (o for o in optim_db if o.optim_cls.__name__ not in EXCLUDED_OPTIMIZERS)
    return made + [
        Case(f"optim.{o.optim_cls.__name__}-{short(d)}", _bind(check_optimizer, o, d))
        for o in optimizers
        for d in DTYPES
    ]


def _bind(check: Callable[[Any, torch.dtype], None], info: Any, dtype: torch.dtype) -> Callable[[], None]:
    def run() -> None:
        torch.manual_seed(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            check(info, dtype)

    return run


def short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def to_tpu(value: Any) -> Any:
    return pytree.tree_map_only(Tensor, lambda t: t.detach().to("tpu").requires_grad_(t.requires_grad), value)


def to_cpu(value: Any) -> Any:
    return pytree.tree_map_only(Tensor, lambda t: t.detach().cpu(), value)


# --- modules ----------------------------------------------------------------------------------------------------------


def check_module(info: ModuleInfo, dtype: torch.dtype) -> None:
    """Forward and backward, in training and in evaluation mode."""
    for training in (True, False):
        for sample in samples(info, dtype, training):
            made, given = sample.constructor_input, sample.forward_input
            module = info.module_cls(*made.args, **made.kwargs)
            module = module.to(dtype) if has_float_parameters(module) else module
            module.train(training)
            if info.is_lazy:  # parameters are drawn when the first input comes
                run_module(module, (given.args, given.kwargs))
            compare_module(info, module, (given.args, given.kwargs), dtype)


def samples(info: ModuleInfo, dtype: torch.dtype, training: bool) -> Iterator[Any]:
    every = info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=True, training=training)
    every = [s for s in every if s.forward_input is not None]
    count = min(len(every), MOST_SAMPLES)
    return (every[i * (len(every) - 1) // max(count - 1, 1)] for i in range(count))


def has_float_parameters(module: nn.Module) -> bool:
    return any(p.is_floating_point() for p in [*module.parameters(), *module.buffers()])


def compare_module(info: ModuleInfo, module: nn.Module, given: Any, dtype: torch.dtype) -> None:
    moved = copy.deepcopy(module).to("tpu")
    wanted, got = run_module(module, given), run_module(moved, to_tpu(given))
    assert_on_device(moved)
    if info.name in RANDOM_MODULES and module.training:
        wanted, got = shapes(wanted), shapes(got)
    torch.testing.assert_close(got, wanted, **TOLERANCE[dtype])


def run_module(module: nn.Module, given: Any) -> Any:
    """Outputs, the gradients of all leaves, and the buffers afterwards."""
    given = pytree.tree_map_only(Tensor, lambda t: t.detach().clone().requires_grad_(t.requires_grad), given)
    args, kwargs = given
    outputs = module(*args, **kwargs)
    leaves = [t for t in pytree.tree_leaves((given, list(module.parameters()))) if isinstance(t, Tensor)]
    leaves = [t for t in leaves if t.requires_grad]
    floats = [t for t in pytree.tree_leaves(outputs) if isinstance(t, Tensor) and t.requires_grad]
    gradients = torch.autograd.grad([loss(t) for t in floats], leaves, allow_unused=True) if floats and leaves else ()
    return to_cpu([outputs, list(gradients), dict(module.named_buffers())])


def loss(output: Tensor) -> Tensor:
    """A number that every element counts in differently."""
    weights = torch.linspace(-1, 1, output.numel(), dtype=torch.float64, device="cpu").reshape(output.shape)
    return (output * weights.to(output.device, output.real.dtype)).sum().abs()


def shapes(value: Any) -> Any:
    return pytree.tree_map_only(Tensor, lambda t: torch.tensor(t.shape), value)


def assert_on_device(module: nn.Module) -> None:
    for name, value in [*module.named_parameters(), *module.named_buffers()]:
        assert value.device.type == "tpu", f"{name} is on {value.device}"


# --- optimizers -------------------------------------------------------------------------------------------------------


def check_optimizer(info: OptimizerInfo, dtype: torch.dtype) -> None:
    """A few steps with every set of arguments, one parameter at a time and all at once."""
    for sample in info.optim_inputs_func(device="cpu"):
        for foreach in (False, True) if "foreach" in info.supported_impls else (None,):
            if foreach and sample.kwargs.get("differentiable"):
                continue
            kwargs = {**sample.kwargs, **({} if foreach is None else {"foreach": foreach})}
            wanted, got = (run_optimizer(info, dtype, kwargs, device) for device in ("cpu", "tpu"))
            try:
                torch.testing.assert_close(got, wanted, **TOLERANCE[dtype])
            except AssertionError as error:
                if info.optim_cls.__name__ not in ERRATIC_OPTIMIZERS or not is_erratic(info, dtype, kwargs, wanted):
                    raise AssertionError(f"{kwargs}\n{error}") from None


def is_erratic(info: OptimizerInfo, dtype: torch.dtype, kwargs: dict[str, Any], wanted: Any) -> bool:
    """Whether the CPU itself ends elsewhere if it starts one rounding away."""
    nudged = run_optimizer(info, dtype, kwargs, "cpu", nudge=1 + torch.finfo(dtype).eps)
    try:
        torch.testing.assert_close(nudged, wanted, **TOLERANCE[dtype])
    except AssertionError:
        return True
    return False


def run_optimizer(
    info: OptimizerInfo, dtype: torch.dtype, kwargs: dict[str, Any], device: str, nudge: float = 1.0
) -> Any:
    """The parameters and the optimizer's state after some steps."""
    generator = torch.Generator().manual_seed(1)
    make = lambda *size: (torch.randn(*size, generator=generator, dtype=dtype) * nudge).to(device)  # noqa: E731
    weights = [nn.Parameter(make(3, 4)), nn.Parameter(make(3))]
    data = make(5, 4)
    kwargs = pytree.tree_map_only(Tensor, lambda t: t.to(device) if kwargs.get("capturable") else t, kwargs)
    groups = [weights[0]] if info.optim_cls.__name__ == "Muon" else weights
    optimizer = info.optim_cls(groups, **kwargs)

    def closure() -> Tensor:
        optimizer.zero_grad()
        # Convex, its slopes bounded: what is maximised or overshoots does not run away with the last bit.
        value = (1 + (data @ weights[0].t() + weights[1]).square()).sqrt().sum()
        value.backward()
        return value

    for _ in range(STEPS):
        if info.step_requires_closure:
            optimizer.step(closure)
        else:
            closure()
            optimizer.step()
    state = None if info.optim_cls.__name__ in STATELESS_OPTIMIZERS else optimizer.state_dict()["state"]
    return to_cpu([[w.detach() for w in weights], state])
