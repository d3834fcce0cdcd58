"""Recurrent networks as loops over time, layer by layer.

PyTorch takes ``torch.lstm``, ``torch.gru`` and ``torch.rnn_*`` apart before any backend sees them, time step by time
step: programs as long as the sequence, whose backward adds up a gradient of the weights for every step. Here a layer's
input meets its weights in one product for all steps, a loop carries the state, and one product after the backward loop
is the gradient of the recurrent weights.

The layers are gone through here, too. In 2.15 PyTorch's function for that, ``_rnn_helper`` of
``torch/_decomp/decompositions.py``, sets the dropout of every layer to zero: the condition that should spare the last
layer is the wrong way round. Called for one layer at a time, it has no dropout to lose.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx
from torch._higher_order_ops.scan import scan_op

from torchtpu._cells import CELLS, Cell

_LAST = ("has_biases", "num_layers", "dropout", "train", "bidirectional", "batch_first")


def in_loops(gm: fx.GraphModule) -> None:
    """Makes every recurrent network in a Dynamo graph run layer by layer, with the dropout in plain sight."""
    changed = False
    for node in gm.graph.nodes:
        if node.op == "call_function" and node.target in CELLS:
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
        if packed or not _traced_plainly(x):
            given = states[0] if isinstance(hidden, Tensor) else states
            x, *ends = op(x, *before, given, own, biases, 1, 0.0, train, bidirectional, *after)
        else:
            x, *ends = _layer(CELLS[op], x, states, own, biases, *after)
        last.append(ends)
        if i < layers - 1:
            x = torch.dropout(x, p, train)
    return x, *(torch.cat(ends) for ends in zip(*last))


def _states(hidden: Tensor | Sequence[Tensor]) -> Sequence[Tensor]:
    return [hidden] if isinstance(hidden, Tensor) else hidden


def _traced_plainly(x: Tensor) -> bool:
    """Whether neither autocast, which has rules of its own for each op, nor a transform of `torch.func` is at work."""
    return not torch.is_autocast_enabled(x.device.type) and torch._C._functorch.peek_interpreter_stack() is None


def _layer(
    cell: Cell, x: Tensor, states: Sequence[Tensor], params: Sequence[Tensor], biases: bool, batch_first: bool
) -> list[Tensor]:
    """The outputs of a layer of one or two directions, and the states it ends with."""
    x = x.transpose(0, 1) if batch_first else x
    directions = states[0].shape[0]
    width = len(params) // directions
    outputs, last = [], []
    for i in range(directions):
        w_ih, w_hh, *rest = params[i * width : (i + 1) * width]
        b_ih, b_hh = rest[:2] if biases else (None, None)
        w_hr = rest[-1] if len(rest) > 2 * biases else None
        inputs = F.linear(x, w_ih, b_ih)
        out, *ends = _over_time(cell, inputs.flip(0) if i else inputs, [s[i] for s in states], w_hh, b_hh, w_hr)
        outputs.append(out.flip(0) if i else out)
        last.append(ends)
    out = torch.cat(outputs, -1)
    return [out.transpose(0, 1) if batch_first else out, *(torch.stack(ends) for ends in zip(*last))]


def _over_time(
    cell: Cell, inputs: Tensor, states: Sequence[Tensor], w_hh: Tensor, b_hh: Tensor | None, w_hr: Tensor | None
) -> tuple[Tensor, ...]:
    """Hidden states `[time, batch, width]`, and the states after the last step."""
    leaves = (inputs, *states, w_hh, b_hh, w_hr)
    if torch.is_grad_enabled() and any(leaf is not None and leaf.requires_grad for leaf in leaves):
        results: tuple[Tensor, ...] = _Recurrence.apply(cell, len(states), inputs, *states, w_hh, b_hh, w_hr)
        return results
    *last, outputs = _run(cell, inputs, states, w_hh, b_hh, w_hr, keeps=False)
    return outputs, *last


def _run(
    cell: Cell,
    inputs: Tensor,
    states: Sequence[Tensor],
    w_hh: Tensor,
    b_hh: Tensor | None,
    w_hr: Tensor | None,
    keeps: bool,
) -> Sequence[Tensor]:
    """The last states and the hidden state of every step; if it ``keeps`` them the others, and what the cell keeps."""
    count = len(states)

    def step(*given: Tensor) -> tuple[Tensor, ...]:
        before, x, weights = given[:count], given[count], _named(given[count + 1 :], b_hh, w_hr)
        after, kept = cell.step(x, F.linear(before[0], weights[0], weights[1]), before)
        if weights[2] is not None:
            after = F.linear(after[0], weights[2]), *after[1:]
        # What is carried and what is stacked may not be one tensor.
        return *after, *(value.clone() for value in ((*after, *kept) if keeps else after[:1]))

    results: Sequence[Tensor] = scan_op(step, list(states), [inputs], _present(w_hh, b_hh, w_hr))
    return results


class _Recurrence(torch.autograd.Function):
    """The loop over time with its gradients."""

    @staticmethod
    def forward(ctx: Any, cell: Cell, count: int, inputs: Tensor, *rest: Tensor | None) -> tuple[Tensor, ...]:
        states: Any = rest[:count]
        w_hh, b_hh, w_hr = rest[count:]
        assert w_hh is not None
        with torch._C._AutoDispatchBelowAutograd():
            results = _run(cell, inputs, states, w_hh, b_hh, w_hr, keeps=True)
        last, stacks = results[:count], results[count:]
        ctx.cell, ctx.count = cell, count
        ctx.save_for_backward(inputs, *states, w_hh, b_hh, w_hr, *stacks)
        return stacks[0], *last

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        cell, count = ctx.cell, ctx.count
        inputs, *rest = ctx.saved_tensors
        states, (w_hh, b_hh, w_hr, *stacks) = rest[:count], rest[count:]
        after, kept = stacks[:count], stacks[count:]
        before = [torch.cat((first.unsqueeze(0), rows[:-1])) for first, rows in zip(states, after, strict=True)]
        factors = cell.factors(inputs, before, after, kept)
        with torch._C._AutoDispatchBelowAutograd():
            d_states, d_inputs, d_gates, d_hidden = _run_back(cell, grads, factors, w_hh, w_hr)
        d_w_hh = _over_steps(d_gates, before[0])
        d_b_hh = None if b_hh is None else d_gates.sum((0, 1))
        d_w_hr = None if d_hidden is None else _over_steps(d_hidden, cell.hidden(after, kept))
        return None, None, d_inputs, *d_states, d_w_hh, d_b_hh, d_w_hr


def _run_back(
    cell: Cell, grads: Sequence[Tensor], factors: Sequence[Tensor], w_hh: Tensor, w_hr: Tensor | None
) -> tuple[Sequence[Tensor], Tensor, Tensor, Tensor | None]:
    """Gradients of the first states; of every step's input, of its gates, and of its hidden state if that is projected.

    ``grads`` are those of the outputs and of the last states.
    """
    d_outputs, *d_last = grads
    count, rows = len(d_last), [x.flip(0) for x in (d_outputs, *factors)]

    def step(*given: Tensor) -> tuple[Tensor, ...]:
        d_next, (d_out, *by), weights = given[:count], given[count : count + len(rows)], given[count + len(rows) :]
        d_hidden = d_next[0] + d_out
        d_own = d_hidden if w_hr is None else torch.mm(d_hidden, weights[1])
        d_input, d_gates, d_before = cell.step_back((d_own, *d_next[1:]), by)
        d_first = torch.mm(d_gates, weights[0])
        d_first = d_first if d_before[0] is None else d_first + d_before[0]
        stacked = _present(d_input, None if d_gates is d_input else d_gates, None if w_hr is None else d_hidden)
        return d_first, *_present(*d_before[1:]), *(value.clone() for value in stacked)

    results = scan_op(step, d_last, rows, _present(w_hh, w_hr))
    d_inputs, *more = (x.flip(0) for x in results[count:])
    d_hidden = None if w_hr is None else more.pop()
    return results[:count], d_inputs, more[0] if more else d_inputs, d_hidden


def _over_steps(grads: Tensor, values: Tensor) -> Tensor:
    """The gradient of a weight that ``values`` meet at each step."""
    return torch.mm(grads.flatten(0, 1).t(), values.flatten(0, 1))


def _present(*values: Tensor | None) -> tuple[Tensor, ...]:
    return tuple(value for value in values if value is not None)


def _named(given: Sequence[Tensor], b_hh: Tensor | None, w_hr: Tensor | None) -> tuple[Any, Any, Any]:
    """Recurrent weights, their bias and the projection, as a step is given those that there are."""
    left = list(given)
    return left.pop(0), None if b_hh is None else left.pop(0), None if w_hr is None else left.pop(0)
