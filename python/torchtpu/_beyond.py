"""``as_strided`` of an input that reads by places in a storage that the compiled program is not given.

It is given the elements of a view, not what lies around them, nor where the view begins. So the call takes such a part,
which is a view as well, and passes it in as an input of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from torchtpu._errors import UnsupportedOp
from torchtpu._lines import line_of, place_of

aten = torch.ops.aten

# What `as_strided` takes; an `At` stands for the argument at that position.
Part = tuple[Any, ...]


@dataclass(frozen=True)
class At:
    """The position of an argument."""

    position: int


def take_parts(gm: fx.GraphModule) -> list[Part]:
    """Makes inputs, behind the others, of such parts.

    Raises:
        UnsupportedOp: Sizes or places of a part are computed in the graph.
    """
    inputs = [node for node in gm.graph.nodes if node.op == "placeholder"]
    given: dict[fx.Node, Any] = {node: At(i) for i, node in enumerate(inputs)}
    parts: list[Part] = []
    for source in inputs:
        for node in [n for n in source.users if n.target is aten.as_strided.default]:
            value, computed = source.meta.get("val"), set(node.all_input_nodes) - given.keys()
            if not isinstance(value, torch.Tensor) or _reads_elements(value, *node.args[1:]):
                continue
            if not computed:
                part: Any = fx.node.map_arg(node.args, lambda n: given[n])
                parts.append(part)
                _make_input(gm, node)
            elif _may_begin_late(value):
                raise _computed(node, computed)
    if parts:
        gm.recompile()
    return parts


def _computed(node: fx.Node, computed: set[fx.Node]) -> UnsupportedOp:
    names = ", ".join(sorted(n.name for n in computed))
    line, place = line_of(node), place_of(node)
    error = UnsupportedOp(
        f"aten.as_strided.default{place} reads the storage of an input at places that the graph computes ({names}), "
        "and a compiled graph is given the view alone. Compute them outside the compiled function, or index the tensor."
    )
    error.op = "aten.as_strided.default"
    if line:
        error.file, error.line = line
    return error


def _may_begin_late(value: torch.Tensor) -> bool:
    offset: Any = value.storage_offset()
    return not isinstance(offset, int) or offset != 0


def _reads_elements(value: torch.Tensor, size: Sequence[Any], stride: Sequence[Any], offset: Any = None) -> bool:
    """Whether ``value`` is known to begin where its storage does, and to have all the elements that are read."""
    start, own = offset or 0, value.stride()
    if _may_begin_late(value) or not all(isinstance(n, int) for n in (start, *value.shape, *own, *size, *stride)):
        return False
    return _end(start, size, stride) <= _end(0, value.shape, own)


def _end(start: int, size: Sequence[int], stride: Sequence[int]) -> int:
    return start + 1 + sum((n - 1) * step for n, step in zip(size, stride, strict=True)) if 0 not in size else start


def _make_input(gm: fx.GraphModule, node: fx.Node) -> None:
    last = next(n for n in reversed(gm.graph.nodes) if n.op == "placeholder")
    with gm.graph.inserting_after(last):
        part = gm.graph.placeholder(node.name)
    part.meta.update(node.meta)
    node.replace_all_uses_with(part)
    gm.graph.erase_node(node)


def with_parts(
    call: Callable[[list[Any]], Sequence[Any]], parts: Sequence[Part]
) -> Callable[[list[Any]], Sequence[Any]]:
    """``call``, given those parts of its arguments behind them."""

    def run(args: list[Any]) -> Sequence[Any]:
        known = tuple(args)
        args.extend([torch.as_strided(*fx.node.map_aggregate(part, lambda n: _value(n, known))) for part in parts])
        return call(args)

    return run


def _value(argument: Any, args: Sequence[Any]) -> Any:
    return args[argument.position] if isinstance(argument, At) else argument
