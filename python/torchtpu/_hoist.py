"""Constants within the graphs of higher-order ops: a body sees its operands only, so they become operands."""

from __future__ import annotations

import itertools
import operator
from typing import Any

import torch
from torch import fx


def hoist(gm: fx.GraphModule) -> None:
    """Makes every tensor that a graph within ``gm`` holds an operand of the op that the graph is given to."""
    changed = False
    for node in list(gm.graph.nodes):
        if not isinstance(node.target, torch._ops.HigherOrderOperator):
            continue
        graphs = [graph for source in node.all_input_nodes if (graph := _graph(gm, source))]
        for graph in graphs:
            hoist(graph)
        for graph in graphs:
            for held in [n for n in graph.graph.nodes if n.op == "get_attr" and _graph(graph, n) is None]:
                changed = True
                value = operator.attrgetter(str(held.target))(graph)
                _append(node, _held(gm, node, value))
                for other in graphs:
                    given = _placeholder(other, held.name, value)
                    if other is graph:
                        held.replace_all_uses_with(given)
                graph.graph.erase_node(held)
        for graph in graphs:
            graph.recompile()
    if changed:
        gm.recompile()


def _graph(gm: fx.GraphModule, node: fx.Node) -> fx.GraphModule | None:
    value = operator.attrgetter(str(node.target))(gm) if node.op == "get_attr" else None
    return value if isinstance(value, fx.GraphModule) else None


def _held(gm: fx.GraphModule, node: fx.Node, value: torch.Tensor) -> fx.Node:
    name = next(name for i in itertools.count() if not hasattr(gm, name := f"{node.name}_constant_{i}"))
    gm.register_buffer(name, value, persistent=False)
    with gm.graph.inserting_before(node):
        held = gm.graph.get_attr(name)
    held.meta["val"] = value
    return held


def _placeholder(gm: fx.GraphModule, name: str, value: torch.Tensor) -> fx.Node:
    """A further operand, behind the others."""
    last = gm.graph.find_nodes(op="placeholder")[-1:]
    with gm.graph.inserting_after(last[0]) if last else gm.graph.inserting_before():
        given = gm.graph.placeholder(f"{name}_given")
    given.meta["val"] = value
    return given


def _append(node: fx.Node, operand: fx.Node) -> None:
    """The operands of a graph are the last argument, a list, or else the last arguments."""
    *before, last = node.args
    rest: Any = (*last, operand) if isinstance(last, (tuple, list)) else (last, operand)
    node.args = (*before, rest) if isinstance(last, (tuple, list)) else (*before, *rest)
