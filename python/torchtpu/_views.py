"""Results that are views, of sizes or places that are symbols.

A graph is functional: a result that the user sees as a view of an input comes out as a tensor of its own, and
AOTAutograd makes the view anew, by the size, strides and offset of what came out. So that has to lie as the view would,
although nobody reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch._functorch._aot_autograd.schemas import OutputType
from torch._guards import TracingContext

aten = torch.ops.aten

_REMADE = (
    OutputType.alias_of_input,
    OutputType.alias_of_intermediate,
    OutputType.alias_of_intermediate_save_as_output,
    OutputType.alias_of_intermediate_base_is_user_output,
)


def remade_outputs() -> frozenset[int]:
    """The positions, among the outputs of the forward graph being compiled, of those that AOTAutograd makes anew."""
    context = TracingContext.try_get()
    metadata = context.fw_metadata if context else None
    if metadata is None:
        return frozenset()
    first = len(metadata.tokens) + metadata.num_mutated_inp_runtime_indices
    return frozenset(first + i for i, info in enumerate(metadata.output_info) if info.output_type in _REMADE)


def add_places(gm: fx.GraphModule, remade: frozenset[int]) -> list[int]:
    """Adds offset and strides of those of the outputs ``remade`` that have symbols in them to the outputs.

    Gives their positions; the last outputs are then an offset and the strides of each.
    """
    output = next(iter(reversed(gm.graph.nodes)))
    outputs = list(output.args[0])
    positions = [i for i in sorted(remade) if _is_symbolic(outputs[i])]
    for i in positions:
        node, value = outputs[i], outputs[i].meta["val"]
        with gm.graph.inserting_after(node):
            offset = gm.graph.call_function(aten.sym_storage_offset.default, (node,))
            strides = [gm.graph.call_function(aten.sym_stride.int, (node, d)) for d in range(value.dim())]
        for number, known in zip((offset, *strides), (value.storage_offset(), *value.stride()), strict=True):
            number.meta.update(node.meta, val=known)
        outputs += [offset, *strides]
    if positions:
        output.args = (tuple(outputs),)
        gm.recompile()
    return positions


def _is_symbolic(node: Any) -> bool:
    if not isinstance(node, fx.Node) or not isinstance(value := node.meta.get("val"), torch.Tensor):
        return False
    return any(isinstance(n, torch.SymInt) for n in (value.storage_offset(), *value.shape, *value.stride()))


def with_places(
    call: Callable[[list[Any]], Sequence[Any]], positions: list[int]
) -> Callable[[list[Any]], Sequence[Any]]:
    """``call``, whose last results say how those at ``positions`` are to lie."""

    def run(args: list[Any]) -> Sequence[Any]:
        outputs = list(call(args))
        ranks = [outputs[i].dim() for i in positions]
        at = len(outputs) - sum(ranks) - len(ranks)
        rest = at
        for i, rank in zip(positions, ranks, strict=True):
            outputs[i] = _lying(outputs[i], outputs[at], outputs[at + 1 : at + 1 + rank])
            at += 1 + rank
        return outputs[:rest]

    return run


def _lying(t: torch.Tensor, offset: int, strides: Sequence[int]) -> torch.Tensor:
    """A tensor like ``t`` at this place in a storage of its own, whatever is in it."""
    extent = 1 + sum((n - 1) * step for n, step in zip(t.shape, strides, strict=True)) if t.numel() else 0
    return torch.empty(offset + extent, dtype=t.dtype, device=t.device).as_strided(t.shape, strides, offset)
