"""What PyTorch takes a registered accelerator to have, and this one has not (docs/decisions/0020)."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import fx

# Those with collectives in PyTorch itself, which it would find if there were no "tpu".
_OTHERS = ("cuda", "xpu", "mps")


def settle() -> None:
    """Compiles what is on the device, also where Inductor is asked to; leaves collectives as they are without it."""
    wrapper = torch._TorchCompileInductorWrapper
    wrapper.__call__ = _unless_on_device(wrapper.__call__)  # type: ignore[method-assign]
    if torch.distributed.is_available():
        config = torch.distributed.distributed_c10d.BackendConfig
        config.__init__ = _of_another_device(config.__init__)  # type: ignore[method-assign]


def _unless_on_device(inductor: Any) -> Any:
    @functools.wraps(inductor)
    def compiled(self: Any, model_: fx.GraphModule, inputs_: Any, **patches: Any) -> Any:
        if not _is_on_device(model_, inputs_):
            return inductor(self, model_, inputs_, **patches)
        from torchtpu.backend import torchtpu

        return torchtpu(model_, inputs_)

    return compiled


def _is_on_device(graph: fx.GraphModule, inputs: Any) -> bool:
    values = [*inputs, *(node.meta.get("example_value") for node in graph.graph.nodes)]
    return any(isinstance(value, torch.Tensor) and value.device.type == "tpu" for value in values)


def _of_another_device(init: Any) -> Any:
    @functools.wraps(init)
    def configured(self: Any, backend: Any) -> None:
        c10d = torch.distributed.Backend
        accelerator = torch.accelerator.current_accelerator()
        if backend == c10d.UNDEFINED and accelerator is not None and accelerator.type == "tpu":
            device = next((name for name in _OTHERS if getattr(torch, name).is_available()), "cpu")
            backend = f"{device}:{c10d.default_device_backend_map[device]}"
        init(self, backend)

    return configured
