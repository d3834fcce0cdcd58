"""``as_strided`` of an input that reads by places in a storage that the compiled program is not given.

It is given the elements of a view, not what lies around them, nor where the view begins. So the call takes such a part,
which is a view as well, and passes it in as an input of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

aten = torch.ops.aten

# The position of the input, and what `as_strided` takes behind it.
Part = tuple[int, tuple[Any, ...]]


def take_parts(gm: fx.GraphModule) -> list[Part]:
    """Makes inputs, behind the others, of such parts."""
    inputs = [node for node in gm.graph.nodes if node.op == "placeholder"]
    parts: list[Part] = []
    for i, source in enumerate(inputs):
        for node in list(source.users):
            if node.target is aten.as_strided.default and _reads_storage(source.meta.get("val"), *node.args[1:]):
                parts.append((i, node.args[1:]))
                _make_input(gm, node)
    if parts:
        gm.recompile()
    return parts


def _reads_storage(value: Any, size: Sequence[Any], stride: Sequence[Any], offset: Any = None) -> bool:
    """Whether the elements are found by where ``value`` begins, or lie behind it. Symbols are left to the compiler."""
    if not isinstance(value, torch.Tensor):
        return False
    first: Any = value.storage_offset()
    start: Any = first if offset is None else offset
    numbers = (first, start, *value.shape, *value.stride(), *size, *stride)
    if not all(isinstance(n, int) for n in numbers):
        return False
    return bool(first or _end(start, size, stride) > _end(first, value.shape, value.stride()))


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
        args.extend([torch.as_strided(args[i], *where) for i, where in parts])
        return call(args)

    return run
