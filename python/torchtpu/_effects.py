"""What a graph checks or says besides computing: assertions, failed factorisations, printing.

Plugins have no way to fail or to print. So a compiled part gives the values in question as further results, and the op
itself runs on them on the host, behind the call and in the program's order. A program that is captured to be looked at,
or to be compiled ahead of time, goes without them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch._higher_order_ops.effects import has_effects, with_effects
from torch._higher_order_ops.print import print as print_op
from torch.utils import _pytree as pytree

aten = torch.ops.aten


@dataclass
class Effect:
    """An op without results, and its arguments: nodes of the graph for tensors."""

    op: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def run(self, values: dict[fx.Node, Any]) -> None:
        args, kwargs = fx.node.map_arg((self.args, self.kwargs), lambda node: values[node])
        self.op(*args, **kwargs)


def take_effects(gm: fx.GraphModule) -> tuple[list[Effect], list[fx.Node]]:
    """Takes the effects out of ``gm``. Gives them, and the nodes whose values are now its last results."""
    tokens = _tokens(gm)
    effects = [effect for node in list(gm.graph.nodes) if (effect := _take(gm, node))]
    nodes = [n for e in effects for n in pytree.tree_leaves((e.args, e.kwargs)) if isinstance(n, fx.Node)]
    needed = list(dict.fromkeys(nodes))
    if effects:
        output = next(iter(reversed(gm.graph.nodes)))
        # AOTAutograd passes `None` for a token, and drops what comes back for it.
        kept = (None if node in tokens else node for node in output.args[0])
        output.args = ((*kept, *needed),)
        for node in tokens:
            if node.op == "placeholder" and not node.users:
                node.meta["val"] = None
        gm.graph.lint()
        gm.recompile()
    return effects, needed


def drop_effects(gm: fx.GraphModule) -> None:
    """Takes the effects out of ``gm``, and the inputs and results that kept them in order."""
    for child in gm.children():
        if isinstance(child, fx.GraphModule) and not _tokens(child):  # which are operands of the op around it
            drop_effects(child)
    tokens = _tokens(gm)
    dropped = [effect for node in list(gm.graph.nodes) if (effect := _take(gm, node))]
    if not dropped:
        return
    if tokens:
        output = next(iter(reversed(gm.graph.nodes)))
        output.args = (tuple(node for node in output.args[0] if node not in tokens),)
    for node in tokens:
        if node.op == "placeholder" and not node.users:
            gm.graph.erase_node(node)
    gm.graph.lint()
    gm.recompile()


def _tokens(gm: fx.GraphModule) -> set[Any]:
    return {node.args[0] for node in gm.graph.nodes if node.target is with_effects}


def _take(gm: fx.GraphModule, node: fx.Node) -> Effect | None:
    target: Any = node.target
    args: Any = node.args
    if target is with_effects:
        token, op, *rest = args
        if not _gives_nothing(op):
            return None
        for user in list(node.users):  # of the token behind it and the nothing that it gives, only the first is used
            user.replace_all_uses_with(token)
            gm.graph.erase_node(user)
        effect = Effect(op, tuple(rest), dict(node.kwargs))
    elif target in (aten._assert_async.default, aten._assert_async.msg):
        effect = Effect(target, args, dict(node.kwargs))
    elif target is aten._functional_assert_async.msg:
        node.replace_all_uses_with(args[2])
        effect = Effect(aten._assert_async.msg, args[:2], {})
    elif _gives_nothing(target) and has_effects(target):  # where AOTAutograd puts no tokens in
        effect = Effect(target, args, dict(node.kwargs))
    else:
        return None
    gm.graph.erase_node(node)
    return effect


def _gives_nothing(op: Any) -> bool:
    return op is print_op or (isinstance(op, torch._ops.OpOverload) and not op._schema.returns)


def with_effects_behind(
    call: Callable[[list[Any]], Sequence[Any]], effects: list[Effect], nodes: list[fx.Node]
) -> Callable[[list[Any]], Sequence[Any]]:
    """``call``, whose last results are the values of ``nodes``, and then ``effects``."""

    def run(args: list[Any]) -> Sequence[Any]:
        outputs = call(args)
        first = len(outputs) - len(nodes)
        values = [v.cpu() if isinstance(v, torch.Tensor) else v for v in outputs[first:]]
        for effect in effects:
            effect.run(dict(zip(nodes, values, strict=True)))
        return outputs[:first]

    return run
