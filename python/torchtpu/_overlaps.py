"""Writes to expanded tensors, of which PyTorch refuses those that its eager kernels cannot order.

A functional graph no longer shows them: each element would be written as if it had a place of its own, and the last one
would stay. So the graph that Dynamo captured is asked.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx
from torch.fx.experimental.symbolic_shapes import statically_known_true

from torchtpu._errors import CompileError
from torchtpu._lines import line_of, place_of

_IN_PLACE = {
    *(operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ifloordiv, operator.imod),
    *(operator.ipow, operator.iand, operator.ior, operator.ixor, operator.ilshift, operator.irshift),
}
# Methods that write the same to each place however often, or no elements at all: PyTorch lets them.
_HARMLESS = {
    *("fill_", "fill_diagonal_", "index_fill_", "index_put_", "masked_fill_", "tril_", "triu_", "zero_"),
    *("as_strided_", "detach_", "requires_grad_", "resize_", "resize_as_", "set_", "share_memory_", "squeeze_"),
    *("swapaxes_", "swapdims_", "t_", "transpose_", "unsqueeze_", "conj_physical_", "rename_"),
}


def overlapping_write(gm: fx.GraphModule) -> CompileError | None:
    """The error for the first write to a tensor that has several elements in one place."""
    for node in gm.graph.nodes:
        if any(_is_expanded(target) for target in _written(node)):
            return _refusal(node)
    return None


def _written(node: fx.Node) -> list[Any]:
    name = node.target if node.op == "call_method" else ""
    in_place = isinstance(name, str) and name.endswith("_") and not name.endswith("__") and name not in _HARMLESS
    return list(node.args[:1]) if in_place or node.target in _IN_PLACE else []


def _is_expanded(target: Any) -> bool:
    value = target.meta.get("example_value") if isinstance(target, fx.Node) else None
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
        return False
    return any(
        statically_known_true(stride == 0) and statically_known_true(size > 1)
        for size, stride in zip(value.shape, value.stride(), strict=True)
    )


def _refusal(node: fx.Node) -> CompileError:
    line, place = line_of(node), place_of(node)
    error = CompileError(
        "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
        f"Please clone() the tensor before performing the operation.{place}"
    )
    if line:
        error.file, error.line = line
    return error
