"""Max pooling in training on a TPU, where its backward pass pools again.

Autograd keeps the positions that the forward pass found, and scatters to them, which a TPU is slow at. In a graph that
pools itself, the compiler selects instead (`pool_gradient.rs`), and finds no positions at all. So the backward graph
gets the pool too, of an input that autograd keeps anyway.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx
from torch.utils.checkpoint import CheckpointPolicy

aten = torch.ops.aten

_BACKWARD = {
    aten.max_pool2d_with_indices.default: aten.max_pool2d_with_indices_backward.default,
    aten.max_pool3d_with_indices.default: aten.max_pool3d_with_indices_backward.default,
}


def pool_again(joint: fx.GraphModule) -> None:
    """Marks the pools of a graph of forward and backward whose positions nothing but their own gradients read."""
    for pool, backward in _BACKWARD.items():
        for node in joint.graph.find_nodes(op="call_function", target=pool):
            found = [user for user in node.users if _is_second(user)]
            readers = [reader for positions in found for reader in positions.users]
            if readers and not _has_gaps(node) and all(_is_gradient(node, reader, backward) for reader in readers):
                for again in (node, *found):
                    again.meta.setdefault("recompute", CheckpointPolicy.MUST_RECOMPUTE)


def _is_second(node: fx.Node) -> bool:
    return node.target is operator.getitem and bool(node.args[1] == 1)


def _is_gradient(pool: fx.Node, reader: fx.Node, backward: Any) -> bool:
    return reader.target is backward and reader.args[1] is pool.args[0]


def _has_gaps(pool: fx.Node) -> bool:
    """Whether windows are dilated: a TPU selects from none of those."""
    dilation = pool.args[4] if len(pool.args) > 4 else 1
    return any(d != 1 for d in (dilation if isinstance(dilation, (list, tuple)) else [dilation]))
