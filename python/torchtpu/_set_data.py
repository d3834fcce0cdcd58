"""`tensor.data = value` in a graph: behind the call, its input is a tensor of the value's memory.

Nothing is computed or copied for that, and no compiled program could do it: a program knows values, not tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

set_data = torch.ops.aten.shallow_copy_data_.default


@dataclass(frozen=True)
class Assignment:
    """The position of the input whose data is set, and that of the value, among the inputs or among the results."""

    target: int
    value: int
    to_input: bool


def take_assignments(gm: fx.GraphModule) -> tuple[list[Assignment], int]:
    """Takes the assignments out of ``gm``. Gives them, and how many results ``gm`` has more for them now."""
    inputs = {node: i for i, node in enumerate(gm.graph.find_nodes(op="placeholder"))}
    nodes = [n for n in gm.graph.find_nodes(op="call_function", target=set_data) if n.args[0] in inputs]
    if not nodes:
        return [], 0
    output: Any = gm.graph.output_node()
    results = list(output.args[0])
    before, taken = len(results), []
    for node in nodes:
        target, value = node.args
        if value not in inputs and value not in results:
            results.append(value)
        places = inputs if value in inputs else {result: i for i, result in enumerate(results)}
        taken.append(Assignment(inputs[target], places[value], value in inputs))
        gm.graph.erase_node(node)
    output.args = (tuple(results),)
    gm.recompile()
    return taken, len(results) - before


def with_assignments(
    call: Callable[[list[Any]], Sequence[Any]], assignments: list[Assignment], more: int
) -> Callable[[list[Any]], Sequence[Any]]:
    """``call``, of which the last ``more`` results are for ``assignments``, and then these."""

    def run(args: list[Any]) -> Sequence[Any]:
        inputs = list(args)
        outputs = call(args)
        for a in assignments:
            set_data(inputs[a.target], (inputs if a.to_input else outputs)[a.value])
        return outputs[: len(outputs) - more]

    return run
