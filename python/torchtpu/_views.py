"""Results that are views.

A graph is functional: what it gives are tensors of their own. A result that the user sees as a view of an input
AOTAutograd makes anew, by the size, strides and offset of what came out: so that has to lie as the view would, although
nobody reads it. Results that see the same memory, a temporary and a part of it, are ours to make: the graph gives the
temporary, and they are made of it. So are views of an input that come out inside a tensor subclass, such as a nested
tensor's values: AOTAutograd makes the subclass of them.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch._functorch import config
from torch._functorch._aot_autograd.descriptors import SubclassGetAttrAOTOutput
from torch._functorch._aot_autograd.schemas import OutputType
from torch._guards import TracingContext
from torch.utils import _pytree as pytree

aten = torch.ops.aten

_REMADE = (
    OutputType.alias_of_input,
    OutputType.alias_of_intermediate,
    OutputType.alias_of_intermediate_save_as_output,
    OutputType.alias_of_intermediate_base_is_user_output,
)


def _metadata() -> Any:
    """What AOTAutograd knows of the forward graph being compiled, if there is one."""
    context = TracingContext.try_get()
    return context.fw_metadata if context else None


def remade_outputs(gm: fx.GraphModule, kinds: Container[OutputType] = _REMADE) -> frozenset[int]:
    """The positions, among the outputs of the forward graph being compiled, of those that AOTAutograd makes anew."""
    metadata = _metadata()
    if metadata is None:
        return frozenset()
    first = len(metadata.tokens) + metadata.num_mutated_inp_runtime_indices
    found = {first + i for i, info in enumerate(metadata.output_info) if info.output_type in kinds}
    return frozenset(found - _inside_subclasses(gm))


def _inside_subclasses(gm: fx.GraphModule) -> set[int]:
    """The positions of the outputs that tensor subclasses are made of."""
    descriptions = next(iter(reversed(gm.graph.nodes))).meta.get("desc") or ()
    return {i for i, output in enumerate(descriptions) if isinstance(output, SubclassGetAttrAOTOutput)}


@dataclass(frozen=True)
class View:
    """A result that is a view of a tensor that came out, too."""

    result: int
    of: int
    """Positions among the outputs."""
    dtype: torch.dtype
    conjugate: bool
    negative: bool
    numbers: tuple[int | None, ...]
    """The offset of that tensor, and the offset, sizes and strides of the view, all as the graph has them: an input may
    begin elsewhere when it runs. Those that are not known come out, in order, behind the last tensor."""

    def made_of(self, temporary: torch.Tensor, numbers: Sequence[int]) -> torch.Tensor:
        """The result, by all its numbers, of a tensor that is dense or has its type already."""
        start, offset, *layout = numbers
        sizes, strides = layout[: len(layout) // 2], layout[len(layout) // 2 :]
        if temporary.dtype != self.dtype:
            # Flat first: a view as another type wants neighbours in the last dimension.
            temporary = temporary.as_strided((temporary.numel(),), (1,)).view(self.dtype)
        result = temporary.as_strided(sizes, strides, temporary.storage_offset() + offset - start)
        result = torch._conj(result) if self.conjugate else result
        return torch._neg_view(result) if self.negative else result


def user_outputs() -> range:
    """The positions, among the outputs of the forward graph being compiled, of those that the user gets."""
    metadata = _metadata()
    if metadata is None:
        return range(0)
    first = len(metadata.tokens) + metadata.num_mutated_inp_runtime_indices
    return range(first, first + len(metadata.output_info))


def add_temporaries(gm: fx.GraphModule, among: Sequence[int]) -> list[View]:
    """Lets ``gm`` give what several of its outputs ``among`` are views of, or an input, instead of them.

    Those that AOTAutograd makes anew of one another, too: it makes them of what is given for the other.
    """
    of_inputs = remade_outputs(gm, (OutputType.alias_of_input,))
    output = next(iter(reversed(gm.graph.nodes)))
    outputs = list(output.args[0])
    views: list[View] = []
    unknown: list[fx.Node] = []
    for temporary, positions in _overlapping(outputs, among, _inside_subclasses(gm)).items():
        ours = [i for i in positions if i not in of_inputs and outputs[i] is not temporary]
        # Not what is kept for the gradients, which nobody may write.
        given = range(among[0], among[-1] + 1 + _metadata().num_intermediate_bases)
        of = next((i for i in given if outputs[i] is temporary), len(outputs))
        if ours and of == len(outputs):
            outputs.append(temporary)
        for i in ours:
            numbers = [_offset(temporary), *_layout(outputs[i])]
            value = outputs[i].meta["val"]
            flags = (value.is_conj(), value.is_neg())
            views.append(View(i, of, value.dtype, *flags, tuple(known for known, *_ in numbers)))
            unknown += [_number(gm, *how) for known, *how in numbers if known is None]
            outputs[i] = None
    if views:
        output.args = ((*outputs, *unknown),)
        gm.recompile()
    return views


def _overlapping(outputs: Sequence[Any], among: Iterable[int], inside: Container[int]) -> dict[fx.Node, list[int]]:
    """By temporary, the positions of different outputs that may share elements of it; by input, of those ``inside``."""
    found: dict[fx.Node, list[int]] = {}
    for i in among:
        if isinstance(node := outputs[i], fx.Node) and isinstance(node.meta.get("val"), torch.Tensor):
            origin = _origin(node)
            if (origin.op == "call_function" and _is_dense(origin.meta["val"])) or (
                i in inside and _is_seen_as_it_is(origin, node)
            ):
                found.setdefault(origin, []).append(i)
    return {t: at for t, at in found.items() if t.op == "placeholder" or len({outputs[i] for i in at}) > 1}


def _is_seen_as_it_is(origin: fx.Node, node: fx.Node) -> bool:
    """Whether ``node`` shows elements of an input, of its type: sizes, strides and an offset then say which."""
    seen, value = origin.meta.get("val"), node.meta["val"]
    if origin.op != "placeholder" or not isinstance(seen, torch.Tensor):
        return False
    return seen.dtype == value.dtype and not any(t.is_conj() or t.is_neg() for t in (seen, value))


def _origin(node: fx.Node) -> fx.Node:
    """What ``node`` is a view of, or itself."""
    storage = node.meta["val"].untyped_storage()._cdata
    found = node
    while node.args and isinstance(before := node.args[0], fx.Node):
        values = pytree.tree_leaves(before.meta.get("val"))
        if not any(isinstance(v, torch.Tensor) and v.untyped_storage()._cdata == storage for v in values):
            break
        node = before
        if isinstance(node.meta["val"], torch.Tensor):  # else an op of several results, views or not
            found = node
    return found


def _is_dense(value: Any) -> bool:
    """Whether a tensor fills its storage, in an order of its dimensions."""
    if not isinstance(value, torch.Tensor) or value.is_conj() or value.is_neg():
        return False
    plain = isinstance(offset := value.storage_offset(), int) and offset == 0
    return plain and torch._prims_common.is_non_overlapping_and_dense_or_false(value)


def _layout(node: fx.Node) -> list[tuple[Any, ...]]:
    """Offset, sizes and strides of ``node``."""
    value = node.meta["val"]
    sizes = [_told(n, node, aten.sym_size.int, d) for d, n in enumerate(value.shape)]
    strides = [_told(n, node, aten.sym_stride.int, d) for d, n in enumerate(value.stride())]
    return [_offset(node), *sizes, *strides]


def _offset(node: fx.Node) -> tuple[Any, ...]:
    return _told(node.meta["val"].storage_offset(), node, aten.sym_storage_offset.default)


def _told(number: Any, *how: Any) -> tuple[Any, ...]:
    """A number, or ``None``; the node and the op that tell it, and the op's arguments; and the number."""
    return (number if isinstance(number, int) else None, *how, number)


def _number(gm: fx.GraphModule, of: fx.Node, op: Any, *args: Any) -> fx.Node:
    """A node with what ``op`` tells of a node; the last argument is its value."""
    *dim, value = args
    with gm.graph.inserting_before(next(iter(reversed(gm.graph.nodes)))):
        made = gm.graph.call_function(op, (of, *dim))
    made.meta.update(of.meta, val=value)
    return made


def with_views(
    call: Callable[[list[Any]], Sequence[Any]], views: Sequence[View], results: int
) -> Callable[[list[Any]], Sequence[Any]]:
    """``call``, of whose outputs the first ``results`` are the user's, with ``views`` among them."""
    unknown = sum(number is None for view in views for number in view.numbers)
    differentiable = _is_differentiable()

    def run(args: list[Any]) -> Sequence[Any]:
        outputs = list(call(args))
        given = iter(outputs[len(outputs) - unknown :])
        for view in views:
            numbers = [next(given) if number is None else number for number in view.numbers]
            result = view.made_of(outputs[view.of], numbers)
            # As a view, autograd would take it for one of what becomes a result with a gradient.
            outputs[view.result] = result.detach() if differentiable else result
        return outputs[:results]

    return run


def _is_differentiable() -> bool:
    """Whether the forward graph being compiled has results that have gradients."""
    metadata = _metadata()
    return metadata is not None and any(info.requires_grad for info in metadata.output_info)


@dataclass(frozen=True)
class Place:
    """How a result that AOTAutograd makes anew has to lie for that."""

    result: int
    """Its position among the outputs."""
    numbers: tuple[int | None, ...]
    """The offset of what it is a view of, its own, and its strides. Those that are not known come out, in order, behind
    the last tensor."""


def add_places(gm: fx.GraphModule, remade: frozenset[int]) -> list[Place]:
    """Says where those of the outputs ``remade`` lie that are not made by the views that the user has called."""
    output = next(iter(reversed(gm.graph.nodes)))
    outputs = list(output.args[0])
    places: list[Place] = []
    unknown: list[fx.Node] = []
    for i in sorted(remade - _replayed()):
        if not isinstance(node := outputs[i], fx.Node) or not isinstance(value := node.meta.get("val"), torch.Tensor):
            continue
        strides = [_told(n, node, aten.sym_stride.int, d) for d, n in enumerate(value.stride())]
        numbers = [_offset(_origin(node)), _offset(node), *strides]
        places.append(Place(i, tuple(known for known, *_ in numbers)))
        unknown += [_number(gm, *how) for known, *how in numbers if known is None]
    if unknown:
        output.args = ((*outputs, *unknown),)
        gm.recompile()
    return places


def _replayed() -> frozenset[int]:
    """The positions of outputs of the forward graph being compiled that AOTAutograd makes by their views, called again.

    It does not where a symbol was among the arguments of one, even if the graph has fixed that since.
    """
    metadata = _metadata()
    if metadata is None or not config.view_replay_for_aliased_outputs:
        return frozenset()
    views = {i: info.view_meta_sequence for i, info in zip(user_outputs(), metadata.output_info, strict=True)}
    known = {i: made.sequence for i, made in views.items() if made is not None}
    return frozenset(i for i, sequence in known.items() if not any(view.has_symbolic_inputs for view in sequence))


def with_places(
    call: Callable[[list[Any]], Sequence[Any]], places: list[Place]
) -> Callable[[list[Any]], Sequence[Any]]:
    """``call``, whose last results say what is not known of ``places``."""
    unknown = sum(number is None for place in places for number in place.numbers)

    def run(args: list[Any]) -> Sequence[Any]:
        outputs = list(call(args))
        rest = len(outputs) - unknown
        given = iter(outputs[rest:])
        for place in places:
            start, offset, *strides = [next(given) if number is None else number for number in place.numbers]
            outputs[place.result] = _lying(outputs[place.result], offset - start, strides)
        return outputs[:rest]

    return run


def _lying(t: torch.Tensor, offset: int, strides: Sequence[int]) -> torch.Tensor:
    """A tensor like ``t`` in a storage of its own, whatever is in it.

    ``offset`` counts from where that begins which it is a view of: AOTAutograd adds the latter's own, as the storages
    differ.
    """
    if offset < 0:
        message = "as_strided by numbers that change: what it sees begins before its input; pass dynamic=False"
        raise NotImplementedError(message)
    extent = 1 + sum((n - 1) * step for n, step in zip(t.shape, strides, strict=True)) if t.numel() else 0
    return torch.empty(offset + extent, dtype=t.dtype, device=t.device).as_strided(t.shape, strides, offset)
