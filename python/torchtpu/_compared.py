"""What is compared for equality, which the backward pass must not compute anew.

The gradient of a greatest element goes to those that equal it. PyTorch's partitioner has the backward pass compute
cheap elements again rather than keep them; in another program they may round otherwise, and none would be equal.
"""

from __future__ import annotations

import math
import operator

import torch
from torch import Tensor, fx
from torch.utils.checkpoint import CheckpointPolicy

from torchtpu._recompute import root

aten = torch.ops.aten

_EQUALITIES = (aten.eq.Tensor, aten.ne.Tensor, aten.eq.Scalar, aten.ne.Scalar)


def keep_compared(joint: fx.GraphModule) -> None:
    """Marks floats that a graph of forward and backward compares for equality: the backward gets the forward's own."""
    for target in _EQUALITIES:
        for node in joint.graph.find_nodes(op="call_function", target=target):
            left, right = node.args
            # Of itself it is a test for NaN, of an infinity one for that: roundings change neither.
            if left is right or (isinstance(right, (int, float)) and math.isinf(right)):
                continue
            for operand in node.all_input_nodes:
                if _is_float(operand):
                    _keep(root(operand))


def _keep(node: fx.Node) -> None:
    if node.target is operator.getitem:
        node = node.args[0]  # type: ignore[assignment]
    if node.op == "call_function":
        node.meta.setdefault("recompute", CheckpointPolicy.MUST_SAVE)


def _is_float(node: fx.Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, Tensor) and (value.is_floating_point() or value.is_complex())
