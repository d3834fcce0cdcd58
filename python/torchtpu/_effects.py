"""What a graph checks or says besides computing: assertions, failed factorisations, printing.

Plugins have no way to fail or to print. So a compiled part gives the values in question as further results, and the op
itself runs on them on the host, behind the call and in the program's order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch._higher_order_ops.effects import with_effects
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
    tokens = {node.args[0] for node in gm.graph.nodes if node.target is with_effects}
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


def _take(gm: fx.GraphModule, node: fx.Node) -> Effect | None:
    args: Any = node.args
    if node.target is with_effects:
        token, op, *rest = args
        if op is not print_op and (not isinstance(op, torch._ops.OpOverload) or op._schema.returns):
            return None
        for user in list(node.users):  # of the token behind it and the nothing that it gives, only the first is used
            user.replace_all_uses_with(token)
            gm.graph.erase_node(user)
        effect = Effect(op, tuple(rest), dict(node.kwargs))
    elif node.target in (aten._assert_async.default, aten._assert_async.msg):
        effect = Effect(node.target, args, dict(node.kwargs))
    elif node.target is aten._functional_assert_async.msg:
        node.replace_all_uses_with(args[2])
        effect = Effect(aten._assert_async.msg, args[:2], {})
    else:
        return None
    gm.graph.erase_node(node)
    return effect


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
