"""The ``torch.compile`` backend.

Dynamo captures, AOTAutograd makes the graph functional and splits it into forward and backward, and each part goes
through :func:`torchtpu.trace.walk` to the native compiler. A part is cut at ops that have no lowering, or give as much
as the data says: see :mod:`torchtpu._parts`.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._guards import TracingContext
from torch.utils import _pytree as pytree

from torchtpu import _fallback, _native, _plugins
from torchtpu._beyond import take_parts, with_parts
from torchtpu._compared import keep_compared
from torchtpu._effects import take_effects, with_effects_behind
from torchtpu._errors import DataDependentOp, Error, UnsupportedOp
from torchtpu._higher_order import decompose
from torchtpu._hoist import hoist
from torchtpu._overlaps import overlapping_write
from torchtpu._parts import cut, keep_tensors
from torchtpu._pools import pool_again
from torchtpu._random import draw_again
from torchtpu._resizing import resizing_whole
from torchtpu._set_data import take_assignments, with_assignments
from torchtpu._stats import record_shared
from torchtpu._views import add_places, add_temporaries, remade_outputs, user_outputs, with_places, with_views
from torchtpu.recurrent import in_loops
from torchtpu.trace import UnsupportedValue, compound_inputs, walk

log = logging.getLogger("torchtpu")

Compiled = Callable[[list[Any]], Sequence[Any]]

# What sizes that depend on data are taken for when a graph is checked before its first call.
UNKNOWN_SIZE = 4


@dataclass(frozen=True)
class Options:
    """What ``torch.compile(..., options={...})`` takes.

    Attributes:
        optimize: run our own optimizer before the plugin's; without it, ``numerics`` is ``"exact"``.
        fallback: ``"cpu"`` runs ops that have no lowering on the host, ``"error"`` refuses them. The default is the
            environment's ``TORCHTPU_FALLBACK``, else ``"cpu"``.
        numerics: ``"exact"`` rounds to bf16 and f16 wherever PyTorch does, and lets the optimizer make exact rewrites
            only. ``"reassociate"`` keeps what is between two ops in f32, which errs less (casts in the program and
            outputs are rounded all the same), and lets sums be made in another order, which may make NaN of an
            infinity or the other way round, or overflow near the type's greatest number. ``"fast"`` lets roundings of
            narrow types go, and products with reciprocals stand for quotients. What XLA simplifies by itself, none of
            them keeps it from: ``(x + a) - a`` is ``x`` to it (docs/optimizer.md).
        plugin: name or path of the PJRT plugin; the process's default if ``None``.
    """

    optimize: bool = True
    fallback: str = ""
    numerics: str = "reassociate"
    plugin: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        if self.fallback == "":
            object.__setattr__(self, "fallback", _fallback.by_default())
        _one_of("fallback", self.fallback, _fallback.CHOICES)
        _one_of("numerics", self.numerics, ("exact", "reassociate", "fast"))
        _one_of("optimize", self.optimize, (True, False))
        if not isinstance(self.plugin, (str, os.PathLike, type(None))):
            raise Error(f"option 'plugin' is {self.plugin!r}; it must be 'cpu', 'tpu', a path or None")

    @staticmethod
    def parse(options: dict[str, Any] | None) -> Options:
        options = options or {}
        known = [field.name for field in fields(Options)]
        if unknown := sorted(set(options) - set(known)):
            raise Error(f"unknown option {unknown[0]!r} for backend 'torchtpu'; it takes {', '.join(known)}")
        return Options(**options)


def _one_of(name: str, value: Any, allowed: tuple[Any, ...]) -> None:
    # A 0 equals `False`, and is no answer all the same.
    if not any(isinstance(value, type(one)) and value == one for one in allowed):
        raise Error(f"option {name!r} is {value!r}; it must be one of {', '.join(map(repr, allowed))}")


def torchtpu(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: dict[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """Compiles a Dynamo graph: the function behind ``backend="torchtpu"``."""
    if mode not in (None, "default"):
        log.warning("torchtpu has no compile modes; mode=%r is ignored", mode)
    parsed = Options.parse(options)
    if error := overlapping_write(gm):
        return _refuser(error)
    in_loops(gm)
    forward = functools.partial(
        compile_graph, options=parsed, static=_static_inputs, remade=remade_outputs, user=user_outputs
    )
    backend = aot_autograd(
        fw_compiler=forward,
        bw_compiler=functools.partial(compile_graph, options=parsed),
        inference_compiler=forward,
        partition_fn=functools.partial(_partition, parsed),
        decompositions=decompositions() | {torch.ops.aten.transpose.int: _permuted},
        keep_inference_input_mutations=True,
    )
    with without_onednn(), resizing_whole(example_inputs):
        return backend(gm, example_inputs)


def _partition(options: Options, joint: fx.GraphModule, inputs: Sequence[Any], **sizes: Any) -> Any:
    """Splits a graph into forward and backward."""
    if options.optimize and options.numerics != "exact" and _is_for_tpu(options):
        pool_again(joint)
    keep_compared(joint)
    return min_cut_rematerialization_partition(joint, inputs, **sizes)


def _is_for_tpu(options: Options) -> bool:
    try:
        return not _native.is_on_cpu(_plugins.current(options.plugin))
    except Error:  # the first call tells
        return False


@contextlib.contextmanager
def without_onednn() -> Iterator[None]:
    """With oneDNN on, tracing on the CPU picks fused kernels of its own, such as ``mkldnn_rnn_layer``, over ops."""
    # `torch.backends.mkldnn.flags` would do, but warns of settings it has no need to touch.
    enabled = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(enabled)


@functools.cache
def decompositions() -> dict[Any, Callable[..., Any]]:
    """PyTorch's decompositions of every op that the native op table does not lower itself."""
    lowered = set(_native.op_names())
    table = torch._decomp.core_aten_decompositions()
    table.update(torch._decomp.get_decompositions(list(torch._decomp.decomposition_table)))
    return {op: fn for op, fn in table.items() if _qualified(op) not in lowered}


def _permuted(x: torch.Tensor, dim0: int, dim1: int) -> torch.Tensor:
    """A transpose as PyTorch's partitioner knows a view: made again, not kept for the backward beside its base."""
    dims = list(range(x.dim()))
    if dims:
        dims[dim0], dims[dim1] = dims[dim1], dims[dim0]
    return x.permute(dims)


def _qualified(op: Any) -> str:
    return f"{op.namespace}::{op.__name__}" if isinstance(op, torch._ops.OpOverload) else str(op)


def compile_graph(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Options,
    static: Callable[[], frozenset[int]] = frozenset,
    remade: Callable[[fx.GraphModule], frozenset[int]] = lambda _: frozenset(),
    user: Callable[[], Sequence[int]] = tuple,
) -> Compiled:
    """Compiles a functional aten graph into a boxed callable.

    An error is raised by the first call rather than here: Dynamo would wrap it, and hide its type and its line.
    """
    decompose(gm, decompositions())
    hoist(gm)
    draw_again(gm)
    keep_tensors(gm)
    again, results = remade(gm), _results(gm)
    shared = add_temporaries(gm, user())
    views = add_places(gm, again)
    assignments, assigned = take_assignments(gm)
    effects, needed = take_effects(gm)
    try:
        parts = take_parts(gm)
        call = _compile(gm, static(), options)
    except Error as error:
        return _boxed(_raiser(error))
    if effects:
        call = with_effects_behind(call, effects, needed)
    if assignments:
        call = with_assignments(call, assignments, assigned)
    if views:
        call = with_places(call, views)
    if shared:
        call = with_views(call, shared, results)
    return _boxed(with_parts(call, parts) if parts else call)


def _results(gm: fx.GraphModule) -> int:
    return len(next(iter(reversed(gm.graph.nodes))).args[0])


def _static_inputs() -> frozenset[int]:
    """Positions of the parameters among the inputs of the forward graph being compiled."""
    context = TracingContext.try_get()
    metadata = context.fw_metadata if context else None
    return frozenset(metadata.static_input_indices or ()) if metadata else frozenset()


def _refuser(error: Error) -> Callable[..., Any]:
    def refuse(*args: Any) -> Any:
        raise error

    return refuse


def _raiser(error: Error) -> Compiled:
    def fail(args: list[Any]) -> Sequence[Any]:
        args.clear()
        raise error

    return fail


def _boxed(call: Compiled) -> Compiled:
    call._boxed_call = True  # type: ignore[attr-defined]
    return call


def _compile(gm: fx.GraphModule, static: frozenset[int], options: Options) -> Compiled:
    if not any(node.op == "call_function" for node in gm.graph.nodes) and not _lifts(gm):
        return _boxed(_passing_on(gm))
    start = time.perf_counter()
    try:
        walked = walk(gm, static)
    except UnsupportedValue as error:
        raise UnsupportedOp(f"the graph cannot be traced: {error}") from None
    trace = walked.to_bytes()
    graph = walked.program["graph_module"]["graph"]
    inputs, ops, seconds = len(graph["inputs"]), len(graph["nodes"]), time.perf_counter() - start
    log.debug("graph of %d ops, %d inputs: %d bytes of trace in %.3f s", ops, inputs, len(trace), seconds)
    program = _native.Program(
        trace,
        plugin=_plugins.current(options.plugin),
        precision=precision(),
        default_dtype="f64" if torch.get_default_dtype() == torch.float64 else "f32",
        optimize=options.optimize,
        numerics=options.numerics,
        dump=os.environ.get("TORCHTPU_DUMP") or None,
        on_compile=functools.partial(_log_compile, ops),
    )
    if unsupported := program.unsupported():
        if options.fallback == "error":
            raise _unsupported_op(unsupported[0])
        return _cut(gm, unsupported, options)
    hints, known = _hints(gm)
    try:
        program.check(hints)
    except UnsupportedOp as error:
        if not _may_cut(error, options):
            raise
        return _cut(gm, [error], options)
    except Error:
        if known:  # else the sizes that were made up may be what is wrong: the call will tell
            raise
    index = _device_index(gm)
    program.prepare(index or 0)
    run = program if index is None else _on_device(program, gm, index)
    lazy, ragged = _lazy_inputs(gm), _ragged_sizes(gm)
    constants = list(walked.constants.values())

    def call(args: list[Any]) -> Sequence[Any]:
        written = []
        sizes = {i: args[i] for i in ragged if not isinstance(args[i], int)}
        for i in sizes:
            args[i] = UNKNOWN_SIZE  # as it was checked: nothing is computed of it
        for i, mutated in lazy:
            value = args[i].resolve_conj().resolve_neg()
            if mutated:
                written.append((args[i], value))
            args[i] = value
        args.extend(constants)
        outputs = run(args)
        if sizes:
            outputs = list(outputs)
            for i, size in sizes.items():
                for place in ragged[i]:
                    outputs[place] = size
        for tensor, value in written:
            tensor.copy_(value)
        args.clear()
        return outputs

    return _boxed(call) if known else _cut_by_need(gm, _boxed(call), options)


def _passing_on(gm: fx.GraphModule) -> Compiled:
    """Runs a graph without ops."""

    def call(args: list[Any]) -> Sequence[Any]:
        record_shared()
        results: Sequence[Any] = gm.forward(*args)
        return results

    return call


def _cut(gm: fx.GraphModule, errors: Sequence[_native.Unsupported | UnsupportedOp], options: Options) -> Compiled:
    to_host = options.fallback == "cpu"
    return _boxed(cut(gm, errors, lambda part: _compile(part, frozenset(), options), to_host=to_host))


def _may_cut(error: UnsupportedOp, options: Options) -> bool:
    return error.node is not None and (options.fallback == "cpu" or isinstance(error, DataDependentOp))


def _cut_by_need(gm: fx.GraphModule, whole: Compiled, options: Options) -> Compiled:
    """``whole``, until a call says where ``gm`` has to be cut: sizes that were made up may not have got so far."""
    run, cutting = whole, threading.Lock()

    def call(args: list[Any]) -> Sequence[Any]:
        nonlocal run
        if run is whole:
            given = list(args)
            try:
                return whole(args)
            except UnsupportedOp as error:
                if not _may_cut(error, options):
                    raise
                with cutting:
                    if run is whole:
                        run = _cut(gm, [error], options)
            args[:] = given
        return run(args)

    return _boxed(call)


def _device_index(gm: fx.GraphModule) -> int | None:
    """Which ``tpu`` device the graph is for; ``None`` if all its tensors are on the CPU."""
    values = pytree.tree_leaves([node.meta.get("val") for node in gm.graph.nodes])
    found = {v.device for v in values if isinstance(v, torch.Tensor) and v.device.type == "tpu"}
    indices = {d.index if d.index is not None else torch.tpu.current_device() for d in found}
    if len(indices) > 1:
        names = ", ".join(f"tpu:{i}" for i in sorted(indices))
        raise UnsupportedOp(f"one graph uses several devices ({names}); compile the parts by device")
    return next(iter(indices), None)


def _on_device(program: _native.Program, gm: fx.GraphModule, index: int) -> Compiled:
    """Runs ``program`` on tensors of ``tpu:index``; results that the graph has on the CPU are brought there."""
    from torchtpu import _build

    wrap = _build.load().wrap
    outputs = next(node for node in gm.graph.nodes if node.op == "output").args[0]
    if isinstance(outputs, fx.Node):
        outputs = [outputs]  # a part of a graph, cut around ops that run on the host
    values = [node.meta.get("val") if isinstance(node, fx.Node) else None for node in outputs]
    to_host = [i for i, v in enumerate(values) if isinstance(v, torch.Tensor) and v.device.type == "cpu"]

    def run(args: list[Any]) -> Sequence[Any]:
        results = program.call_on_device(args, index, wrap)
        for i in to_host:
            results[i] = results[i].cpu()
        return results

    return run


def _log_compile(traced: int, report: dict[str, Any]) -> None:
    """Says what became of a graph of ``traced`` aten ops: at once, or when the first call brings its sizes."""
    log.info("graph of %d ops %s in %.3f s", traced, report["origin"], report["lowering"] + report["plugin"])
    log.debug(
        "sizes %(sizes)s: %(core_ops)d core ops, %(inputs)d inputs, %(outputs)d outputs, %(bytes)d bytes of StableHLO; "
        "lowered in %(lowering).3f s, plugin %(plugin).3f s",
        report,
    )


def _hints(gm: fx.GraphModule) -> tuple[dict[str, int], bool]:
    """A value for each symbol in the inputs: what it was at capture, or else one made up; and whether none was."""
    symbols: dict[str, int] = {
        str(name): UNKNOWN_SIZE for made in compound_inputs(gm).values() for name in made.free_symbols
    }
    known = not symbols
    for node in gm.graph.nodes:
        if node.op != "placeholder":
            break
        value = node.meta.get("val")
        sizes = value.shape if isinstance(value, torch.Tensor) else [value]
        for size in sizes:
            if isinstance(size, torch.SymInt):
                shapes: Any = size.node.shape_env
                seen, free = shapes.backed_var_to_val, size.node.expr.free_symbols
                # Rows of a nested tensor that differ in length have a symbol without a number for that.
                numbers = {s: seen[s] for s in free if s in seen and getattr(seen[s], "is_Integer", True)}
                symbols.update((str(s), int(numbers.get(s, UNKNOWN_SIZE))) for s in free)
                known = known and len(numbers) == len(free)
    return symbols, known


def _lifts(gm: fx.GraphModule) -> bool:
    return any(node.op == "get_attr" for node in gm.graph.nodes)


def precision() -> str:
    """The precision of ``f32`` contractions that the user asked PyTorch for, in StableHLO's words."""
    return {"highest": "highest", "high": "high", "medium": "default"}[torch.get_float32_matmul_precision()]


def draw_seed() -> int:
    """A fresh 63-bit key for one execution of a program that draws random numbers. Follows ``torch.manual_seed``."""
    return int(torch.randint(0, 2**63 - 1, (), dtype=torch.int64, device="cpu"))


def _lazy_inputs(gm: fx.GraphModule) -> list[tuple[int, bool]]:
    """Inputs whose memory holds the conjugate or the negative of what they stand for, and whether they are written.

    Dynamo guards on that.
    """
    inputs = [node for node in gm.graph.nodes if node.op == "placeholder"]
    lazy = [(i, n) for i, n in enumerate(inputs) if isinstance(v := n.meta.get("val"), torch.Tensor) and _is_lazy(v)]
    return [
        (i, any(user.target is torch.ops.aten.copy_.default and user.args[0] is n for user in n.users)) for i, n in lazy
    ]


def _ragged_sizes(gm: fx.GraphModule) -> dict[int, list[int]]:
    """Inputs that are sizes, and the results that they are: that of a nested tensor's rows of different lengths is no
    number, and comes as it is and goes back."""
    inputs = [node for node in gm.graph.nodes if node.op == "placeholder"]
    (results,) = next(iter(reversed(gm.graph.nodes))).args
    results = results if isinstance(results, (tuple, list)) else [results]
    sizes = {n: i for i, n in enumerate(inputs) if isinstance(n.meta.get("val"), torch.SymInt)}
    return {i: [place for place, result in enumerate(results) if result is n] for n, i in sizes.items()}


def _is_lazy(value: torch.Tensor) -> bool:
    return value.is_conj() or value.is_neg()


def _unsupported_op(op: _native.Unsupported) -> UnsupportedOp:
    place = f" ({op.file}:{op.line})" if op.file else ""
    error = UnsupportedOp(
        f"{op.op}{place} has no lowering: {op.reason}. Rewrite the line, leave it out of the compiled part with "
        'torch.compiler.disable, or allow it to run on the host with options={"fallback": "cpu"}.'
    )
    error.op, error.file, error.line = op.op, op.file, op.line
    return error
