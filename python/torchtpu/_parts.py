"""A graph cut into parts: compiled ones, and between them ops that cannot be inside of one.

Ops without a lowering run on the host. Ops that give as much as the data says run on the device, each by itself, and
wait for their sizes; numbers that are data are read. All are counted by line, and runs on the host warned of once.
"""

from __future__ import annotations

import copy
import logging
import operator
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch._subclasses import FakeTensor
from torch.fx.passes.split_module import split_module
from torch.utils import _pytree as pytree

from torchtpu import _native
from torchtpu._errors import DataDependentOp, UnsupportedOp
from torchtpu._lines import line_of
from torchtpu._stats import record_fallback, record_read

aten, prims = torch.ops.aten, torch.ops.prims

log = logging.getLogger("torchtpu")

Compiled = Callable[[list[Any]], Sequence[Any]]


@dataclass(frozen=True)
class Apart:
    """An op that runs between compiled parts, and why."""

    op: str
    place: str
    reason: str
    on_host: bool

    @staticmethod
    def of(error: _native.Unsupported | UnsupportedOp) -> Apart:
        place = f"{error.file}:{error.line}" if error.file else "unknown place"
        reason = error.reason or "it has no lowering"
        return Apart(error.op or "", place, reason, on_host=not isinstance(error, DataDependentOp))

    def record(self) -> None:
        """Counts a run of it."""
        if not self.on_host:
            record_read(self.op, self.place)
            return
        log.debug("%s (%s) runs on the host: %s", self.op, self.place, self.reason)
        if record_fallback(self.op, self.place):
            warnings.warn(
                f"{self.op} ({self.place}) runs on the host between compiled parts: {self.reason}. "
                'Set options={"fallback": "error"} or TORCHTPU_FALLBACK=error to refuse it.',
                stacklevel=2,
            )


def cut(
    gm: fx.GraphModule,
    errors: Sequence[_native.Unsupported | UnsupportedOp],
    compile_part: Callable[[fx.GraphModule], Compiled],
    *,
    to_host: bool = True,
) -> Compiled:
    """Cuts ``gm`` at the nodes that ``errors`` are about, and compiles what lies between.

    What takes a float of the data as a number runs on the host, too; without ``to_host`` it is refused.

    Raises:
        UnsupportedOp: there is such an op, and no ``to_host``.
    """
    apart = {error.node: Apart.of(error) for error in errors if error.node}
    takers = _takers_of_floats(gm, apart)
    for op in () if to_host else takers.values():
        raise UnsupportedOp(f"{op.op} ({op.place}) would have to run on the host: {op.reason}")
    apart |= _reckoned_with(gm, apart) | takers
    for op in apart.values():
        how = "run on the host" if op.on_host else "be waited for"
        log.info("cut at %s (%s), which will %s: %s", op.op, op.place, how, op.reason)
    _gather_arithmetic(gm, apart)
    parts, ops = _number(gm, apart)
    split: Any = split_module(gm, gm, lambda node: parts[node], keep_original_order=True)
    for name, child in split.named_children():
        # split_module renames nodes, but numbers its modules as we numbered the parts.
        between = ops.get(int(name.removeprefix("submod_")))
        setattr(split, name, _Between(child, between) if between else _Part(child, compile_part))

    def call(args: list[Any]) -> Sequence[Any]:
        results = split.forward(*args)
        # A part that is cut itself has its only result bare.
        return results if isinstance(results, (tuple, list)) else (results,)

    return call


def keep_tensors(gm: fx.GraphModule) -> None:
    """A tensor made of a number that was read from a tensor is that tensor: nothing needs to be read for it."""
    found = False
    for node in gm.graph.nodes:
        number = node.args[0] if node.target is aten.scalar_tensor.default else None
        if isinstance(number, fx.Node) and number.target is aten._local_scalar_dense.default:
            source: Any = number.args[0]
            dtype = node.meta["val"].dtype
            if source.meta["val"].device != node.meta["val"].device:
                continue
            found = True
            node.target, node.args, node.kwargs = prims.convert_element_type.default, (source, dtype), {}
            if source.meta["val"].dim():
                with gm.graph.inserting_after(node):
                    shaped = gm.graph.call_function(aten.view.default, (node, []))
                shaped.meta.update(node.meta)
                node.replace_all_uses_with(shaped, delete_user_cb=lambda user, kept=shaped: user is not kept)
                node.meta["val"] = source.meta["val"].to(dtype)
    if found:
        gm.graph.eliminate_dead_code()
        gm.recompile()


def _number(gm: fx.GraphModule, apart: dict[str, Apart]) -> tuple[dict[fx.Node, int], dict[int, list[Apart]]]:
    """The part that each node is in, and the ops of those parts that are not compiled."""
    parts: dict[fx.Node, int] = {}
    ops: dict[int, list[Apart]] = {}
    part, before = 0, None
    for node in gm.graph.nodes:
        source: Any = node
        while source.target is operator.getitem:  # stays with what it takes apart
            source = source.args[0]
        op = apart.get(source.name)
        # None in a compiled part. What is reckoned of a number right behind its reading is reckoned there.
        here = False if before is False and _is_arithmetic(node) else op and op.on_host
        part += here != before
        parts[node], before = part, here
        if node.name in apart:
            ops.setdefault(part, []).append(apart[node.name])
    return parts, ops


def _reckoned_with(gm: fx.GraphModule, apart: dict[str, Apart]) -> dict[str, Apart]:
    """Other numbers that are read and reckoned with: what is reckoned of two is reckoned where both are there."""
    if all(op.on_host for op in apart.values()):
        return {}
    reads = gm.graph.find_nodes(op="call_function", target=aten._local_scalar_dense.default)
    reckoned = [node for node in reads if node.name not in apart and any(map(_is_arithmetic, node.users))]
    return {node.name: _apart(node, "it gives a number", on_host=False) for node in reckoned}


def _takers_of_floats(gm: fx.GraphModule, apart: dict[str, Apart]) -> dict[str, Apart]:
    """Ops that would need a float of the data as a number, which no compiled part can give them."""
    found: dict[str, Apart] = {}
    for node in gm.graph.nodes:
        if node.name in apart and node.meta.get(_FLOAT):
            takers = (user for user in node.users if user.op == "call_function" and not _is_arithmetic(user))
            why = "it takes a float that only the data tells"
            found |= {user.name: _apart(user, why, on_host=True) for user in takers}
    return found


def _apart(node: fx.Node, reason: str, *, on_host: bool) -> Apart:
    line = line_of(node)
    return Apart(str(node.target), f"{line[0]}:{line[1]}" if line else "unknown place", reason, on_host)


def _gather_arithmetic(gm: fx.GraphModule, apart: dict[str, Apart]) -> None:
    """Moves what is reckoned of floats that are read up to where the last of them is read."""
    read = {node for node in gm.graph.nodes if node.name in apart and _is_number(node)}
    for node in list(gm.graph.nodes):
        if node in read or not _is_arithmetic(node) or read.isdisjoint(node.all_input_nodes):
            continue
        if not any(isinstance(n.meta.get("val"), torch.SymFloat) for n in (node, *node.all_input_nodes)):
            continue
        read.add(node)
        max(node.all_input_nodes).append(node)  # nodes are ordered as they stand


def _is_arithmetic(node: fx.Node) -> bool:
    """Whether it takes and gives nothing but numbers, checks some, or makes a tensor of one for the host."""
    if node.op != "call_function" or not all(_is_number(source) for source in node.all_input_nodes):
        return False
    target = node.target
    if target is aten.scalar_tensor.default:
        return bool(node.all_input_nodes) and node.meta["val"].device.type == "cpu"
    return not target._schema.returns if isinstance(target, torch._ops.OpOverload) else _is_number(node)


def _is_number(node: fx.Node) -> bool:
    return isinstance(node.meta.get("val"), (*torch.types.py_sym_types, int, float))


class _Part(torch.nn.Module):
    def __init__(self, body: fx.GraphModule, compile_part: Callable[[fx.GraphModule], Compiled]) -> None:
        super().__init__()
        self.floats = _floats_as_tensors(body)
        self.call = compile_part(body)

    def forward(self, *args: Any) -> Any:
        given = list(args)
        for i in self.floats:
            given[i] = torch.tensor(given[i], dtype=torch.float64, device="cpu")
        outputs = self.call(given)
        return outputs[0] if len(outputs) == 1 else outputs


# Marks what reads an input that stands for a float.
_FLOAT = "torchtpu_float"


def _floats_as_tensors(body: fx.GraphModule) -> list[int]:
    """Makes inputs that are floats, which are data, into tensors that are read. Gives their positions."""
    inputs = [node for node in body.graph.nodes if node.op == "placeholder"]
    floats = [i for i, node in enumerate(inputs) if isinstance(node.meta.get("val"), torch.SymFloat)]
    for i in floats:
        number, users = inputs[i].meta["val"], list(inputs[i].users)
        with body.graph.inserting_after(inputs[-1]):
            read = body.graph.call_function(aten._local_scalar_dense.default, (inputs[i],))
        read.meta |= {"val": number, _FLOAT: True}
        if users:
            read.meta["stack_trace"] = users[0].meta.get("stack_trace")
        inputs[i].replace_all_uses_with(read, delete_user_cb=lambda user, kept=read: user is not kept)
        with _fake_mode(body):
            inputs[i].meta["val"] = torch.empty((), dtype=torch.float64, device="cpu")
    if floats:
        keep_tensors(body)
        body.recompile()
    return floats


def _fake_mode(gm: fx.GraphModule) -> Any:
    values = (node.meta.get("val") for node in gm.graph.nodes)
    return next(v.fake_mode for v in values if isinstance(v, FakeTensor))


class _Between(torch.nn.Module):
    def __init__(self, body: fx.GraphModule, ops: list[Apart]) -> None:
        super().__init__()
        self.body = body
        self.ops = ops
        results = next(node for node in body.graph.nodes if node.op == "output").args
        values = [node.meta.get("val") for node in pytree.tree_leaves(results) if isinstance(node, fx.Node)]
        makes_tensors = any(isinstance(value, torch.Tensor) for value in values)
        self.on_device = makes_tensors and not ops[0].on_host and not _names_tpu(body)
        if self.on_device:
            _make_on_device(body)

    def forward(self, *args: Any) -> Any:
        for op in self.ops:
            op.record()
        if not self.on_device:
            return self.body(*args)
        results = self.body(*pytree.tree_map_only(torch.Tensor, lambda t: t.to("tpu"), args))
        return pytree.tree_map_only(torch.Tensor, lambda t: t.cpu(), results)


def _names_tpu(gm: fx.GraphModule) -> bool:
    values = pytree.tree_leaves([node.meta.get("val") for node in gm.graph.nodes])
    return any(isinstance(value, torch.Tensor) and value.device.type == "tpu" for value in values)


def _make_on_device(gm: fx.GraphModule) -> None:
    """Has what ``gm``, and the branches and loops in it, make on the CPU made on the device, where its inputs go."""
    for name, child in gm.named_children():
        if isinstance(child, fx.GraphModule):
            own = copy.deepcopy(child)  # a compiled part may have it, too
            _make_on_device(own)
            setattr(gm, name, own)
    for node in gm.graph.nodes:
        if node.kwargs.get("device") == torch.device("cpu"):
            node.update_kwarg("device", torch.device("tpu"))
    gm.recompile()
