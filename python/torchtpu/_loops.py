"""Loops and branches that carry or give numbers, and loops whose every turn is kept.

Compiled bodies work on tensors. So a number that a turn changes becomes an integer tensor without dimensions, and where
the graph goes on with it as a number, it is read. Loops that keep their turns, for their gradients, are gone through
twice: once to count the turns, which decides how much is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, fx
from torch._higher_order_ops.cond import cond_op
from torch._higher_order_ops.scan import scan_op
from torch._higher_order_ops.while_loop import while_loop_op
from torch.fx import traceback
from torch.utils import _pytree as pytree

aten = torch.ops.aten
NUMBERS = (int, torch.SymInt)


class NotTraced(Exception):
    """An op stays as it is; the native compiler says whether it can do anything with it."""


def gives_numbers(node: fx.Node) -> bool:
    """Whether ``node`` is a loop or a branch with results that are numbers."""
    if node.target not in (while_loop_op, cond_op):
        return False
    value = node.meta["val"]
    return any(isinstance(part, NUMBERS) for part in (value if isinstance(value, (tuple, list)) else [value]))


def while_loop(cond: Any, body: Any, carried: Sequence[Any], additional: Sequence[Any]) -> Any:
    """A loop that carries tensors in the place of numbers."""
    like = _device(carried, additional)
    return while_loop_op(_on_tensors(cond, like), _on_tensors(body, like), _tensors(carried, like), tuple(additional))


def cond(pred: Any, then: Any, otherwise: Any, operands: Sequence[Any]) -> Any:
    """A branch that gives tensors in the place of numbers."""
    like = _device([pred], operands)
    return cond_op(pred, _on_tensors(then, like), _on_tensors(otherwise, like), tuple(operands))


def count_turns(cond: Any, body: Any, carried: Sequence[Tensor], additional: Sequence[Any]) -> Tensor:
    """The number of turns."""

    def more(_count: Tensor, *rest: Any) -> Any:
        return cond(*rest)

    def turn(count: Tensor, *rest: Any) -> Any:
        return count + 1, *body(*rest)

    first: Any = (torch.zeros((), dtype=torch.int64, device=carried[0].device), *carried)
    count: Tensor = while_loop_op(more, turn, first, tuple(additional))[0]
    return count


def stack_turns(turns: int, count: Tensor, body: Any, carried: Sequence[Tensor], additional: Sequence[Any]) -> Any:
    """What each of ``turns`` turns gives; without any, which ``count`` tells, what they were to start from."""

    def step(*given: Any) -> tuple[Tensor, ...]:
        before, (_, any_turn, *rest) = given[: len(carried)], given[len(carried) :]
        after = [torch.where(any_turn, new, old) for new, old in zip(body(*before, *rest), before, strict=True)]
        return *after, *(value.clone() for value in after)

    rows = torch.zeros(turns, dtype=torch.bool, device=carried[0].device)
    return scan_op(step, list(carried), [rows], (count > 0, *additional))[len(carried) :]


def take_turns(gm: fx.GraphModule, node: fx.Node) -> list[fx.Node]:
    """Puts the two passes of a loop that keeps its turns in the place of ``node``."""
    _, body, carried, additional = node.args
    recorded = node.meta["val"][0]
    with gm.graph.inserting_before(node):
        count = gm.graph.call_function(count_turns, node.args)
        count.meta = {**node.meta, "val": recorded.new_empty((), dtype=torch.int64)}
        longer = gm.graph.call_function(aten.clamp_min.default, (count, 1))
        longer.meta = dict(count.meta)
        turns = gm.graph.call_function(aten._local_scalar_dense.default, (longer,))
        turns.meta = {**node.meta, "val": recorded.shape[0]}
        stacks = gm.graph.call_function(stack_turns, (turns, count, body, carried, additional))
        stacks.meta = dict(node.meta)
    node.replace_all_uses_with(stacks)
    gm.graph.erase_node(node)
    return [count, stacks]


def _device(*values: Any) -> torch.device:
    tensors = [leaf for leaf in pytree.tree_leaves(values) if isinstance(leaf, Tensor)]
    return tensors[0].device if tensors else torch.device("cpu")


def _tensors(values: Any, device: torch.device) -> Any:
    """``values`` with a tensor for each number."""

    def tensor(value: Any) -> Any:
        if not isinstance(value, (*NUMBERS, torch.SymBool)):
            return value
        dtype = torch.bool if isinstance(value, (bool, torch.SymBool)) else torch.int64
        return torch.full((), value, dtype=dtype, device=device)

    return pytree.tree_map(tensor, values)


def _on_tensors(gm: fx.GraphModule, device: torch.device) -> Callable[..., Any]:
    def run(*args: Any) -> Any:
        results = _tensors(_OnTensors(gm).run(*args), device)
        return tuple(results) if isinstance(results, list) else results

    return run


class _OnTensors(fx.Interpreter):
    """Runs a graph with tensors in the place of some numbers."""

    def run_node(self, n: fx.Node) -> Any:
        if n.op != "call_function":
            return super().run_node(n)
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        taken = any(
            isinstance(source.meta.get("val"), (*NUMBERS, torch.SymBool)) and isinstance(self.env[source], Tensor)
            for source in n.all_input_nodes
        )
        if not taken:
            return super().run_node(n)
        recorded = n.meta.get("val")
        with traceback.set_current_meta(n):
            try:
                result = _call(n.target, recorded, args, kwargs)
            except (RuntimeError, TypeError, NotImplementedError, ValueError) as error:
                raise NotTraced from error
        # A number counts less than a tensor in promotion.
        return result.to(recorded.dtype) if isinstance(recorded, Tensor) else result


def _call(target: Any, recorded: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``target`` on tensors in the place of numbers. What it gave on numbers was ``recorded``."""
    if target is aten._assert_scalar.default:
        return None  # nothing within a loop can fail
    if target in (aten.slice.Tensor, aten.select.int):
        return _rows(recorded, target is aten.select.int, *args)
    if target is aten.full.default:
        return args[1].expand(args[0]).clone()
    if target is aten.scalar_tensor.default:
        return args[0]
    if isinstance(target, torch._ops.OpOverload) and target._overloadname == "Scalar":
        target = target.overloadpacket.Tensor
    return _SYMBOLIC.get(target, target)(*args, **kwargs)


def _rows(recorded: Tensor, one: bool, x: Tensor, dim: int, start: Any, end: Any = None, step: int = 1) -> Tensor:
    length: Any = 1 if one else recorded.shape[dim]
    if isinstance(length, torch.SymInt) and length.node.expr.is_number:
        length = int(length.node.expr)
    if not isinstance(start, Tensor) or not isinstance(length, int):
        raise NotImplementedError("the length of the slice changes")
    first = torch.where(start < 0, start + x.shape[dim], start)
    rows = x.index_select(dim, first + step * torch.arange(length, device=x.device))
    return rows.squeeze(dim) if one else rows


_SYMBOLIC: dict[Any, Callable[..., Any]] = {
    torch.sym_ite: torch.where,
    torch.sym_not: torch.logical_not,
    torch.sym_max: lambda a, b: torch.maximum(*torch.broadcast_tensors(*map(torch.as_tensor, (a, b)))),
    torch.sym_min: lambda a, b: torch.minimum(*torch.broadcast_tensors(*map(torch.as_tensor, (a, b)))),
    torch.sym_float: lambda a: a.to(torch.float64),
}
