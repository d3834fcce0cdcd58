"""What an entry of the list is, and how one is run."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

Inputs = dict[str, Any]
# For models with sizes and numbers that are data: Dynamo then leaves what gives them in the graph.
DATA: Mapping[str, Any] = {"capture_dynamic_output_shape_ops": True, "capture_scalar_outputs": True}
Infer = Callable[[nn.Module, Inputs], Any]


def call(model: nn.Module, inputs: Inputs) -> Any:
    return model(**inputs)


def training_loss(model: nn.Module, inputs: Inputs) -> Tensor:
    """The loss that the class computes from labels or targets, else the distance of its outputs from a fixed wave."""
    outputs = model(**inputs)
    loss = getattr(outputs, "loss", None)
    if isinstance(loss, Tensor):
        return loss
    values = [value for value in tensors(outputs) if value.is_floating_point() and value.requires_grad]
    if all(value.dim() == 0 for value in values):  # the losses of a detector
        return torch.stack(values).sum()
    return torch.stack([_distance_from_a_wave(value) for value in values]).sum()


def _distance_from_a_wave(value: Tensor) -> Tensor:
    wave = torch.arange(value.numel(), dtype=value.dtype, device=value.device).cos().view(value.shape)
    return (value - wave).square().mean()


def tensors(outputs: Any) -> list[Tensor]:
    """The tensors of a structure, which may hold Hugging Face's caches and dataclasses."""
    return list(_tensors(outputs))


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _tensors(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)
    elif hasattr(value, "__dict__") and not isinstance(value, (type, nn.Module)):
        yield from _tensors({name: item for name, item in vars(value).items() if not name.startswith("_")})


@dataclass(frozen=True)
class Architecture:
    """One model of a library, in a small configuration with random weights.

    `make()` gives the module. `inputs()` are the arguments of `forward` for inference, and `labels()` what training
    has on top, or instead. `infer` runs the model in evaluation mode; `loss` gives the scalar that training lowers.
    `dynamo` holds the settings of `torch._dynamo.config` under which Dynamo traces the class at all, or in fewer
    graphs.
    """

    name: str
    library: str
    kind: str
    make: Callable[[], nn.Module]
    inputs: Callable[[], Inputs]
    labels: Callable[[], Inputs] = dict
    infer: Infer = call
    loss: Callable[[nn.Module, Inputs], Tensor] = training_loss
    dynamo: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0

    def build(self, dtype: torch.dtype = torch.float32) -> nn.Module:
        """A model with the same weights each time, without dropout."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            model = self.make()
            enliven(model)
        without_dropout(model)
        return model.to(dtype)

    def batch(self, dtype: torch.dtype = torch.float32, *, training: bool = False) -> Inputs:
        """The same inputs each time."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed + 1)
            inputs = self.inputs()
            if training:
                inputs |= self.labels()
        return pytree.tree_map_only(Tensor, lambda t: t.to(dtype) if t.is_floating_point() else t, inputs)


def without_dropout(model: nn.Module) -> None:
    """Sets every probability of dropping something to nought, in modules and in configurations."""
    holders = [*model.modules(), *(m.config for m in model.modules() if hasattr(m, "config"))]
    for holder in holders:
        for name, value in vars(holder).items():
            if isinstance(value, float) and (
                "drop" in name or (name == "p" and isinstance(holder, nn.modules.dropout._DropoutNd))
            ):
                setattr(holder, name, 0.0)


@torch.no_grad()
def enliven(model: nn.Module) -> None:
    """Draws weights anew that begin as nought, or so small that a layer would hide behind tolerances."""
    for name, p in model.named_parameters():
        if p.dim() > 1:
            usual = (p.numel() / len(p)) ** -0.5 if p.numel() else 0.0
            if p.std() < usual / 2:
                p.normal_(std=usual)
        elif p.abs().max() < 0.1 and not name.endswith("bias"):
            p.fill_(0.5)


# --- makers ----------------------------------------------------------------------------------------------------------


def images(side: int, rows: int = 2, name: str = "x", channels: int = 3) -> Callable[[], Inputs]:
    return lambda: {name: torch.randn(rows, channels, side, side)}


def library_class(library: str, name: str) -> Any:
    return getattr(importlib.import_module(library), name)
