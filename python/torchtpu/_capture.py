"""Looks at what a function becomes, without running it compiled."""

from __future__ import annotations

import functools
import inspect
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, SupportsIndex

import torch
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.exc import Unsupported, UserError
from torch._functorch.partitioners import default_partition

from torchtpu import _native, _plugins
from torchtpu._effects import drop_effects
from torchtpu._errors import Error
from torchtpu._higher_order import decompose
from torchtpu._hoist import hoist
from torchtpu._pools import pool_again
from torchtpu._random import draw_again
from torchtpu._resizing import resizing_whole
from torchtpu.backend import decompositions, precision
from torchtpu.recurrent import in_loops
from torchtpu.trace import walk


class Trace:
    """A captured program of aten ops, in the schema of ``torch.export``: what ``tputc`` reads.

    A function that needs gradients has two graphs; :attr:`backward` is then the trace of the second.
    """

    def __init__(self, program: dict[str, Any], backward: Trace | None = None) -> None:
        self.program = program
        self.backward = backward

    @property
    def num_nodes(self) -> int:
        """Number of aten calls, backward not counted."""
        return len(self.program["graph_module"]["graph"]["nodes"])

    def to_bytes(self) -> bytes:
        """The program as JSON."""
        return json.dumps(self.program, allow_nan=False, separators=(",", ":")).encode()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes ``path``, and the backward graph, if there is one, beside it as ``NAME.backward.json``; one that an
        earlier trace has left there is removed."""
        path = Path(path)
        path.write_bytes(self.to_bytes())
        save_beside(path, self.backward)

    def __repr__(self) -> str:
        return f"<torchtpu.Trace of {self.num_nodes} nodes{', with backward' if self.backward else ''}>"


def save_beside(path: Path, backward: Any | None) -> None:
    """Saves what is of the backward graph beside ``path``, where nothing stands if there is none."""
    beside = path.with_suffix(".backward" + path.suffix)
    if backward:
        backward.save(beside)
    elif ".backward" not in path.suffixes[:-1]:  # it has no backward of its own
        beside.unlink(missing_ok=True)


def capture(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Trace:
    """Traces ``fn(*args, **kwargs)`` as ``torch.compile`` would; nothing is compiled for the device.

    ``fn`` runs once, eagerly, on the arguments: what it updates, such as statistics of a batch norm or the state of a
    generator, is updated. If its result needs gradients, its backward is traced too. What ``fn`` checks or prints
    besides computing is not in the trace. Dynamo starts anew for it: functions that were compiled before are traced
    again when they are called next, and their programs found in memory.

    The inputs are called as the user calls them: parameters and buffers by their qualified names, arguments as ``fn``
    or its ``forward`` does. So are those of the backward that are the forward's.

    Raises:
        Error: Dynamo breaks ``fn`` into several graphs; the message is Dynamo's own, which says where.
        TypeError: ``fn`` is no function or module.
    """
    if not callable(fn):
        raise TypeError(
            f"expected a function or module, with its arguments after it, or a torchtpu.Trace: got {_told(fn)}"
        )
    forward: list[Trace] = []
    backward: list[Trace] = []
    names: list[str] = []
    called: dict[str, str] = {}

    def record(into: list[Trace], gm: fx.GraphModule, _inputs: Sequence[Any]) -> Any:
        graph = fx.Graph()
        graph.output(graph.graph_copy(gm.graph, {}))
        traced = fx.GraphModule(gm, graph)  # the other one is run, by PyTorch
        drop_effects(traced)
        if into is forward:
            called.update(_called(traced, names))
        _rename_inputs(traced, called)  # the backward calls what the forward hands on as the forward's graph did
        decompose(traced, decompositions())
        hoist(traced)
        draw_again(traced)
        into.append(Trace(walk(traced).program))
        call = gm.forward

        def run(args: list[Any]) -> Any:
            return call(*args)

        run._boxed_call = True  # type: ignore[attr-defined]
        return run

    by_signature = _by_signature(fn, args, kwargs)
    aot = aot_autograd(
        fw_compiler=functools.partial(record, forward),
        bw_compiler=functools.partial(record, backward),
        inference_compiler=functools.partial(record, forward),
        partition_fn=_partition,
        decompositions=decompositions(),
        keep_inference_input_mutations=True,
    )

    def backend(gm: fx.GraphModule, inputs: Sequence[Any]) -> Any:
        in_loops(gm)
        names[:] = _input_names(gm, by_signature)
        with resizing_whole(inputs):
            return aot(gm, inputs)

    torch._dynamo.reset()
    try:
        result = torch.compile(fn, backend=backend, fullgraph=True)(*args, **kwargs)
    except (Unsupported, UserError) as error:
        raise Error(str(error)) from error
    if not forward:
        raise Error("nothing was captured: the function calls no op on tensors")
    if not backward:
        _trace_backward(result)
    forward[0].backward = backward[0] if backward else None
    return forward[0]


def _partition(joint: fx.GraphModule, inputs: Sequence[Any], **sizes: Any) -> Any:
    pool_again(joint)  # what is captured is compiled for a TPU as a rule
    return default_partition(joint, inputs, **sizes)


def _told(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


def _input_names(gm: fx.GraphModule, by_signature: Mapping[str, str]) -> list[str]:
    """What a user calls the inputs of Dynamo's graph: ``layers.0.weight`` for a parameter, ``x`` for an argument."""
    placeholders = gm.graph.find_nodes(op="placeholder")
    sources = [source.name if (source := getattr(node, "_dynamo_source", None)) else "" for node in placeholders]
    held = {_readable(source) for source in sources if _HELD.match(source)}

    def name(node: fx.Node, source: str) -> str:
        if _HELD.match(source):
            return _readable(source)
        name = _in_signature(_readable(source), by_signature)
        # An argument that is called as a tensor of the module is goes by Dynamo's name.
        return node.name if not name or name in held else name

    return [name(node, source) for node, source in zip(placeholders, sources, strict=True)]


# Where Dynamo finds the captured module, as `capture` and as a method call it.
_HELD = re.compile(r"L\['(?:fn|self)'\]")


def _readable(source: str) -> str:
    """``L['self']._modules['layers']._modules['0']._parameters['weight']`` as ``layers.0.weight``."""
    path = re.sub(r"^[LG](?=\[)", "", source)
    path = re.sub(r"\._(?:modules|parameters|buffers)(?=\[)", "", path)
    path = re.sub(r"\[['\"]?(.*?)['\"]?\]", r".\1", path).lstrip(".")
    # The captured module, as `capture` and as a method call it.
    return re.sub(r"^(?:fn|self)\.(?:__self__\.)?", "", path)


def _by_signature(fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, str]:
    """What ``fn`` calls the arguments that Dynamo counts: of a function that is not the user's, such as ``forward`` of
    a module of PyTorch's own, it sees a call with ``*args`` and ``**kwargs``."""
    try:
        parameters = inspect.signature(fn.forward if isinstance(fn, torch.nn.Module) else fn).parameters
    except (TypeError, ValueError):  # written in C
        return {}
    if not {"args", "kwargs"}.isdisjoint(parameters):
        return {}  # these may be the function's own
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    named = [name for name, parameter in parameters.items() if parameter.kind in kinds]
    rest = [name for name, parameter in parameters.items() if parameter.kind is inspect.Parameter.VAR_POSITIONAL]
    counted = [*named, *(f"{name}.{i}" for name in rest for i in range(len(args)))]
    by_position = {f"args.{i}": name for i, name in enumerate(counted[: len(args)])}
    return by_position | {f"kwargs.{name}": name for name in kwargs}


def _in_signature(name: str, by_signature: Mapping[str, str]) -> str:
    """``args.0.mask`` as ``batch.mask``, if ``args.0`` is called ``batch``."""
    first, second, *rest = [*name.split(".", 2), ""]
    found = by_signature.get(f"{first}.{second}")
    return name if found is None else ".".join(part for part in (found, *rest) if part)


def _called(gm: fx.GraphModule, names: list[str]) -> dict[str, str]:
    """What the user calls the inputs of a forward graph, by their names in it. AOTAutograd keeps their order, and may
    leave out some; then nothing says which. Nor does a name that two have."""
    placeholders = gm.graph.find_nodes(op="placeholder")
    if len(placeholders) != len(names):
        return {}
    times = Counter(names)
    return {node.name: name for node, name in zip(placeholders, names, strict=True) if times[name] == 1}


def _rename_inputs(gm: fx.GraphModule, called: Mapping[str, str]) -> None:
    """Calls the inputs as ``called`` says. What else has, or would get, such a name gives way."""
    named = {node: called[node.name] for node in gm.graph.find_nodes(op="placeholder") if node.name in called}
    namespace, taken = gm.graph._graph_namespace, set(named.values())
    for name in taken:
        namespace.create_name(name, None)
    for node in gm.graph.nodes:
        if node.name in taken:
            node.name = namespace.create_name(node.name, None)
    for node, name in named.items():
        node.name = name


def _trace_backward(result: Any) -> None:
    """AOTAutograd compiles the backward graph when it is first run."""
    leaves = torch.utils._pytree.tree_leaves(result)
    wanted = [t for t in leaves if isinstance(t, torch.Tensor) and t.requires_grad]
    if wanted:
        sources = [t.sum() if not t.is_complex() else t.abs().sum() for t in wanted]
        inputs = _leaf_inputs(sources)
        torch.autograd.grad(sources, inputs, allow_unused=True, retain_graph=False)


def _leaf_inputs(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """The leaves that ``tensors`` were computed from: their gradients are asked for and thrown away."""
    leaves: list[torch.Tensor] = []
    seen: set[Any] = set()
    stack = [t.grad_fn for t in tensors]
    while stack:
        node = stack.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if (variable := getattr(node, "variable", None)) is not None:
            leaves.append(variable)
        stack.extend(parent for parent, _ in node.next_functions)
    return leaves


def lower(
    fn_or_trace: Any, *args: Any, stage: str = "stablehlo", dims: Mapping[str, int] | None = None, **kwargs: Any
) -> str:
    """The text of a stage of the compile.

    Args:
        fn_or_trace: a function to :func:`capture` with ``args`` and ``kwargs``, which runs it once, or a
            :class:`Trace`.
        stage: ``"core"``, our own graph; ``"fused"``, the same after our own optimizer; ``"stablehlo"``, what the
            plugin gets; ``"hlo"``, what the plugin's optimizer made of it.
        dims: sizes of symbolic dimensions, by symbol.

    Raises:
        UnsupportedOp: an op has no lowering.
        CompileError: the program was rejected.
        ValueError: ``dims`` names a symbol that the program does not have, or ``stage`` is none of these.
    """
    trace = fn_or_trace if isinstance(fn_or_trace, Trace) else capture(fn_or_trace, *args, **kwargs)
    sizes = sizes_of(trace, dims)
    program = _native.Program(trace.to_bytes(), plugin=_plugins.current(), precision=precision())
    return program.text(stage, sizes)


def sizes_of(trace: Trace, dims: Mapping[str, int] | None) -> dict[str, int]:
    """``dims``, of symbols that the trace or its backward has.

    Raises:
        TypeError: ``dims`` is no dictionary of whole numbers.
        ValueError: there is no such symbol.
    """
    if not dims:
        return {}
    if not isinstance(dims, Mapping) or not all(isinstance(size, SupportsIndex) for size in dims.values()):
        raise TypeError(f"dims is {dims!r}: give a dictionary of symbols with sizes, such as {{'s33': 8}}")
    traces = [part for part in (trace.backward, trace) if part is not None]
    placed = {symbol: told for part in traces for symbol, told in _native.symbols(part.to_bytes()).items()}
    for symbol, size in dims.items():
        if symbol not in placed:
            told = ", ".join(placed[known] for known in sorted(placed)) or "all its sizes are fixed"
            raise ValueError(f"dims={{{symbol!r}: {size!r}}}: the program has no symbol {symbol!r}: {told}")
    return dict(dims)
