"""Random numbers that a backward pass draws once more: a checkpoint keeps the generator's state, not what was drawn.

PyTorch wraps such ops in higher-order ones that keep and set the state of its own generators. Here they are bare again,
between ops that give and set the state of the program.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import Tensor, fx
from torch._guards import detect_fake_mode
from torch._prims.rng_prims import run_and_save_rng_state, run_with_rng_state


def state() -> Tensor:
    """The state that the next draw of the program starts from."""
    raise NotImplementedError("the state of a program's generator is known only inside of the program")


def resume(saved: Tensor) -> None:
    """Lets the next draw of the program start from ``saved``."""
    raise NotImplementedError("the state of a program's generator is known only inside of the program")


fx.node.has_side_effect(resume)


def draw_again(gm: fx.GraphModule) -> None:
    """Takes the wrappers of random ops off in ``gm``."""
    found = [node for node in gm.graph.nodes if node.target in (run_and_save_rng_state, run_with_rng_state)]
    for node in found:
        with gm.graph.inserting_before(node):
            if node.target is run_and_save_rng_state:
                _saved(gm.graph, node)
            else:
                _repeated(gm.graph, node)
        gm.graph.erase_node(node)
    if found:
        gm.graph.lint()
        gm.recompile()


def _saved(graph: fx.Graph, node: fx.Node) -> None:
    """The op gives the state before it, and what was drawn."""
    op, *args = node.args
    before = graph.call_function(state)
    drawn = _call(graph, op, tuple(args), node.kwargs)
    before.meta["val"] = _state_like(drawn)
    for user in list(node.users):
        assert user.target is operator.getitem
        if user.args[1] == 1 and (trace := user.meta.get("stack_trace")):
            drawn.meta["stack_trace"] = trace
        user.replace_all_uses_with(drawn if user.args[1] == 1 else before)
        graph.erase_node(user)


def _repeated(graph: fx.Graph, node: fx.Node) -> None:
    saved, op, *args = node.args
    assert isinstance(saved, fx.Node)
    before = graph.call_function(state)
    graph.call_function(resume, (saved,))
    drawn = _call(graph, op, tuple(args), node.kwargs)
    graph.call_function(resume, (before,))
    before.meta["val"] = saved.meta["val"] = _state_like(drawn)
    node.replace_all_uses_with(drawn)


def _call(graph: fx.Graph, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> fx.Node:
    drawn = graph.call_function(op, args, kwargs)
    fake_args, fake_kwargs = fx.node.map_arg((args, kwargs), lambda source: source.meta["val"])
    fake_mode = detect_fake_mode()
    assert fake_mode is not None
    with fake_mode:
        drawn.meta["val"] = op(*fake_args, **fake_kwargs)
    return drawn


def _state_like(drawn: fx.Node) -> Tensor:
    value = drawn.meta["val"]
    first: Tensor = value[0] if isinstance(value, (tuple, list)) else value
    return first.new_empty(2, dtype=torch.uint64)
