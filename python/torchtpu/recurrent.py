"""Dropout between the layers of a recurrent network.

PyTorch takes ``torch.lstm``, ``torch.gru`` and ``torch.rnn_*`` apart before any backend sees them. In 2.15 its function
for that, ``_rnn_helper`` of ``torch/_decomp/decompositions.py``, sets the dropout of every layer to zero: the condition
that should spare the last layer is the wrong way round. Called for one layer at a time, it has no dropout to lose.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, fx

_OPS = frozenset((torch.lstm, torch.gru, torch.rnn_tanh, torch.rnn_relu))
_LAST = ("has_biases", "num_layers", "dropout", "train", "bidirectional", "batch_first")


def keep_dropout(gm: fx.GraphModule) -> None:
    """Makes every recurrent network in a Dynamo graph run layer by layer, with the dropout in plain sight."""
    changed = False
    for node in gm.graph.nodes:
        if node.op == "call_function" and node.target in _OPS:
            node.target = functools.partial(layer_by_layer, node.target)
            changed = True
    if changed:
        gm.recompile()


def layer_by_layer(op: Callable[..., Any], x: Tensor, *args: Any, **kwargs: Any) -> Any:
    """``op(x, *args, **kwargs)``. Packed sequences have their batch sizes in front of the arguments that all have."""
    args += tuple(kwargs[name] for name in _LAST if name in kwargs)
    packed = isinstance(args[0], Tensor) and isinstance(args[2], Sequence)
    before, (hidden, params, biases, layers, p, train, bidirectional, *after) = args[:packed], args[packed:]
    directions = 2 if bidirectional else 1
    width = len(params) // layers
    last: list[Sequence[Tensor]] = []
    for i in range(layers):
        own = params[i * width : (i + 1) * width]
        states = [h[i * directions : (i + 1) * directions] for h in _states(hidden)]
        given = states[0] if isinstance(hidden, Tensor) else states
        x, *ends = op(x, *before, given, own, biases, 1, 0.0, train, bidirectional, *after)
        last.append(ends)
        if i < layers - 1:
            x = torch.dropout(x, p, train)
    return x, *(torch.cat(ends) for ends in zip(*last))


def _states(hidden: Tensor | Sequence[Tensor]) -> Sequence[Tensor]:
    return [hidden] if isinstance(hidden, Tensor) else hidden
