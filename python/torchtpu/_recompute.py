"""Activation checkpointing in a program that holds forward and backward.

``torch.utils.checkpoint`` drops what a region computes, and has autograd's hooks compute it again; a traced program
knows neither. So the region's ops are marked while the forward pass is traced, and what the backward pass needs of them
is computed again in front of it, from the region's inputs. These come through :func:`barrier`: else the program's equal
parts would be merged, and all would be kept.

Random numbers are kept, so that they are the same, and so is what is written to. Policies of selective checkpointing
are not looked at: everything else in a region is computed again.
"""

from __future__ import annotations

import contextlib
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from torch import Tensor, fx
from torch.fx.traceback import annotate
from torch.utils import checkpoint

from torchtpu._errors import Error

# In the annotations of forward nodes: the region that they are in, 0 for none. Other nodes have none.
_REGION = "torchtpu_region"

# What PyTorch runs around a region, by the names of its versions.
_GENERATORS = [
    name
    for name in ("_checkpoint_without_reentrant_generator_impl", "_checkpoint_without_reentrant_generator")
    if hasattr(checkpoint, name)
]


def barrier(value: Tensor, after: Tensor) -> Tensor:
    """``value``, but not before there is ``after``."""
    raise NotImplementedError("a barrier stands in programs only")


@contextlib.contextmanager
def marking() -> Iterator[None]:
    """Marks ops by the checkpointed region that traces them."""
    numbers = itertools.count(1)

    def region(*_: Any, **__: Any) -> Iterator[None]:
        with annotate({_REGION: next(numbers)}):
            yield

    def reentrant(*_: Any) -> None:
        raise Error("checkpoint(..., use_reentrant=True) hides its region from tracing: give use_reentrant=False")

    with contextlib.ExitStack() as patches:
        for name in _GENERATORS:
            patches.enter_context(mock.patch.object(checkpoint, name, region))
        patches.enter_context(mock.patch.object(checkpoint.CheckpointFunction, "apply", reentrant))
        patches.enter_context(fx.traceback.preserve_node_meta())
        yield


def mark_forward(graph: fx.Graph) -> None:
    """Marks all nodes of a forward graph, so that what is traced from them is known for forward."""
    for node in graph.nodes:
        node.meta["custom"] = {_REGION: 0} | node.meta.get("custom", {})


def recompute(gm: fx.GraphModule) -> None:
    """Has the backward part of ``gm`` compute again what it needs of checkpointed regions."""
    nodes = list(gm.graph.nodes)
    regions: dict[int, list[fx.Node]] = defaultdict(list)
    for node in nodes:
        if number := _region(node):
            regions[number].append(node)
    if not regions:
        return
    order = {node: position for position, node in enumerate(nodes)}
    late = [node for node in nodes if _is_late(node)]
    written = {root(node) for forward in nodes if _region(forward) is not None for node in _written(forward)}
    for region in regions.values():
        _Region(gm.graph, region, order).compute_again(late, written)
    gm.graph.lint()
    gm.recompile()


class _Region:
    def __init__(self, graph: fx.Graph, nodes: list[fx.Node], order: dict[fx.Node, int]) -> None:
        self.graph = graph
        self.order = order
        inside = set(nodes)
        #: What may be computed again, in order.
        self.nodes = [n for n in nodes if _is_repeatable(n) and all(u in inside or _is_late(u) for u in n.users)]

    def compute_again(self, late: list[fx.Node], written: set[fx.Node]) -> None:
        again = self._needed()
        users = {user for node in again for user in node.users if _is_late(user)}
        inputs = {source for node in again for source in node.all_input_nodes}
        # What is overwritten in the meantime would come out differently.
        if not users or any(root(node) in written for node in inputs | set(again)):
            return
        first = min(users, key=self.order.__getitem__)
        before = (n for n in late if self.order[n] < self.order[first] and _is_tensor(n))
        if (after := max(before, key=self.order.__getitem__, default=None)) is None:
            return
        with self.graph.inserting_before(first):
            copies = self._copies(again, after)
        for user in users:
            user.args = fx.map_arg(user.args, lambda node: copies.get(node, node))
            user.kwargs = fx.map_arg(user.kwargs, lambda node: copies.get(node, node))

    def _needed(self) -> list[fx.Node]:
        """What the backward part uses, and what that is computed from, in order."""
        candidates = set(self.nodes)
        needed: set[fx.Node] = set()
        pending = [node for node in self.nodes if any(map(_is_late, node.users))]
        while pending:
            node = pending.pop()
            if node not in needed:
                needed.add(node)
                pending.extend(source for source in node.all_input_nodes if source in candidates)
        return [node for node in self.nodes if node in needed]

    def _copies(self, again: list[fx.Node], after: fx.Node) -> dict[fx.Node, fx.Node]:
        copies: dict[fx.Node, fx.Node] = {}
        inputs: dict[fx.Node, fx.Node] = {}

        def source(node: fx.Node) -> fx.Node:
            if node in copies or not _is_tensor(node):
                return copies.get(node, node)
            if node not in inputs:
                inputs[node] = self.graph.call_function(barrier, (node, after))
                inputs[node].meta = _meta(node)
            return inputs[node]

        for node in again:
            copy = self.graph.node_copy(node, source)
            copy.meta = _meta(node)
            copies[node] = copy
        return copies


def _meta(node: fx.Node) -> dict[str, Any]:
    """What is known of a node, but for its region."""
    return {key: value for key, value in node.meta.items() if key != "custom"}


def _region(node: fx.Node) -> int | None:
    number: int | None = node.meta.get("custom", {}).get(_REGION)
    return number


def _is_late(node: fx.Node) -> bool:
    """Whether the node comes after the forward part."""
    return node.op == "call_function" and _region(node) is None


def _is_tensor(node: fx.Node) -> bool:
    return isinstance(node.meta.get("val"), Tensor)


def _is_repeatable(node: fx.Node) -> bool:
    """Whether the node gives the same again, and does nothing else."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return not isinstance(target, torch._ops.HigherOrderOperator)
    return not target._schema.is_mutable and torch.Tag.nondeterministic_seeded not in target.tags


def _written(node: fx.Node) -> list[fx.Node]:
    """The tensors that an op writes to."""
    return _aliased(node, lambda alias: alias.is_write)


def root(node: fx.Node) -> fx.Node:
    """What a view is of; any other value is its own."""
    while viewed := _aliased(node, lambda alias: True):
        node = viewed[0]
    return node


def _aliased(node: fx.Node, wanted: Callable[[Any], bool]) -> list[fx.Node]:
    """Arguments that the op's schema says are aliased in a way that is wanted."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return []
    given = zip(node.target._schema.arguments, node.args)
    named = ((a, node.kwargs[a.name]) for a in node.target._schema.arguments if a.name in node.kwargs)
    pairs = [*given, *named]
    return [value for a, value in pairs if isinstance(value, fx.Node) and a.alias_info and wanted(a.alias_info)]
