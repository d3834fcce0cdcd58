"""Tells whether a program would run on a TPU, and what it would cost, on a machine that has none."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, overload

from torchtpu import _native, _plugins
from torchtpu._capture import Trace, capture, save_beside, sizes_of
from torchtpu._sharding import Mesh, Shard, native_mesh, native_shard
from torchtpu.backend import precision

_Rules = list[tuple[str, list[list[str]]]]

# Where a program is checked if nothing is said.
DEFAULT_TARGET = "v5e:1x1"

# What a worker runs: only the compiled module, so that it starts in no time. Its arguments: that module, libtpu, and
# a folder.
_WORKER = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("_native", sys.argv[1])
native = importlib.util.module_from_spec(spec)
spec.loader.exec_module(native)
native.aot_worker(sys.argv[2], sys.argv[3])
"""


class Report:
    """What became of a program on one target.

    Printed, it is the report for a terminal. :attr:`data` is all of it, as in docs/report-schema.md: bytes, flops and
    seconds are plain numbers in those units, for one device and one run.
    """

    def __init__(self, text: str, backward: Report | None = None) -> None:
        self._json = text
        self.data: dict[str, Any] = json.loads(text)
        #: The report on the backward graph, if the program has one.
        self.backward = backward

    @property
    def runs(self) -> bool:
        """Whether the program, and its backward, compile as one and fit."""
        return bool(self.data["verdict"]["runs"]) and (self.backward is None or self.backward.runs)

    @property
    def summary(self) -> str:
        """The verdict in a sentence."""
        return str(self.data["verdict"]["summary"])

    @property
    def findings(self) -> list[dict[str, Any]]:
        """Unlowered ops, sizes that are data or change, types that a TPU lacks units for: each with its source line."""
        return list(self.data["findings"])

    @property
    def peak_hbm(self) -> int | None:
        """Bytes of HBM in use at the worst moment; ``None`` if the compiler did not get that far."""
        return self.data["memory"] and int(self.data["memory"]["peak"])

    @property
    def holders(self) -> list[dict[str, Any]]:
        """Who holds the memory at the worst moment, most first."""
        return list(self.data["memory"]["holders"]) if self.data["memory"] else []

    @property
    def flops(self) -> float | None:
        """Multiplications and additions."""
        return self.data["cost"] and float(self.data["cost"]["flops"])

    @property
    def hbm_bytes(self) -> float | None:
        """Bytes to and from HBM."""
        return self.data["cost"] and float(self.data["cost"]["hbm_bytes"])

    @property
    def seconds(self) -> float | None:
        """The time of our roofline: no measurement."""
        return self.data["cost"] and float(self.data["cost"]["seconds"])

    @property
    def slices(self) -> dict[str, Any] | None:
        """The plan for several slices: bytes, seconds and efficiency, computed on paper, with all that it assumes.
        ``None`` if it was not asked for, or if the program does not run on one."""
        return self.data.get("slices")

    def text(self) -> str:
        """The report for a terminal."""
        text = _native.report_text(self._json)
        return text if self.backward is None else f"{text}\nBackward:\n{self.backward.text()}"

    def html(self) -> str:
        """The report as a page that needs nothing else."""
        return _native.report_html(self._json)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes ``path``: a page if it ends in ``.html``, JSON if in ``.json``, else text."""
        path = Path(path)
        form = {".html": self.html, ".json": lambda: self._json + "\n"}.get(path.suffix, self.text)
        path.write_text(form())
        if path.suffix in (".html", ".json"):
            save_beside(path, self.backward)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<torchtpu.Report: {self.summary}>"


@overload
def check(
    fn_or_trace: Any,
    *args: Any,
    target: str | None = ...,
    slices: int | None = ...,
    mesh: Mesh | None = ...,
    shard: Shard | None = ...,
    timeout: float = ...,
    dims: Mapping[str, int] | None = ...,
    **kwargs: Any,
) -> Report: ...


@overload
def check(
    fn_or_trace: Any,
    *args: Any,
    target: Sequence[str],
    slices: int | None = ...,
    mesh: Mesh | None = ...,
    shard: Shard | None = ...,
    timeout: float = ...,
    dims: Mapping[str, int] | None = ...,
    **kwargs: Any,
) -> list[Report]: ...


def check(
    fn_or_trace: Any,
    *args: Any,
    target: str | Sequence[str] | None = None,
    slices: int | None = None,
    mesh: Mesh | None = None,
    shard: Shard | None = None,
    timeout: float = 1800.0,
    dims: Mapping[str, int] | None = None,
    **kwargs: Any,
) -> Report | list[Report]:
    """Compiles a program for a TPU that is not there, and tells what became of it.

    Args:
        fn_or_trace: a function or module to :func:`capture` with ``args`` and ``kwargs``, which runs it once, or a
            :class:`Trace`.
        target: a slice such as ``"v5e:2x2"`` or ``"v5p:2x2x1"``; or several, for a report each. ``"v5e:1x1"`` if none
            is given.
        slices: also plan so many such slices that train together, each on a batch of its own: :attr:`Report.slices`.
        mesh: sizes of named axes, such as ``{"data": 4, "model": 2}``, along which the slice's devices are arranged.
            Without one the program is for one device.
        shard: what is split by what: patterns over the names of inputs (parameters by their qualified names), each
            with an axis, a tuple of axes or ``None`` per dimension, such as ``{"*.q_proj.weight": ("model", None)}``.
            The first that matches decides; what none matches is whole on every device. The backward's inputs are called
            as the forward's where they are these, else ``tangents_1`` and so on: each of the two goes by the patterns
            that decide something in it. ``output.0`` and so on are the forward's results.
        timeout: seconds that the compiler may take for a target; ``math.inf`` for as long as it takes.
        dims: sizes of symbolic dimensions, by symbol.

    Raises:
        Error: there is no libtpu, or it crashed, or took too long.
        TypeError: ``shard`` without ``mesh``, or ``slices`` without ``target``; or an argument of another type.
        ValueError: ``target`` is no TPU slice, ``slices`` is less than 1, ``timeout`` is no time, or ``dims`` names a
            symbol that the program does not have.
        CompileError: ``shard`` does not fit the program or ``mesh``.
    """
    _refuse_unmapped("mesh", mesh, "names of axes with sizes, such as {'data': 4}")
    _refuse_unmapped("shard", shard, "patterns with an entry per dimension, such as {'*.weight': ('data', None)}")
    if shard and not mesh:
        raise TypeError("shard without a mesh: give mesh, such as {'data': 4}")
    if slices is not None and target is None:
        raise TypeError("slices without a target: give the slice, such as target='v5p:16x16x16'")
    if slices is not None and slices < 1:
        raise ValueError(f"slices is {slices}: plan at least one")
    targets = _targets(target)
    if not timeout > 0:
        raise ValueError(f"timeout is {timeout}: give seconds, more than 0, or math.inf for no limit")
    axes, rules = native_mesh(mesh or {}), native_shard(shard or {})
    trace = fn_or_trace if isinstance(fn_or_trace, Trace) else capture(fn_or_trace, *args, **kwargs)
    name = "trace" if isinstance(fn_or_trace, Trace) else getattr(fn_or_trace, "__name__", type(fn_or_trace).__name__)
    options = {"slices": slices, "mesh": axes, "timeout": timeout, "dims": sizes_of(trace, dims)}
    of_forward, of_backward = _apportioned(rules, trace)
    forward = _reports(trace, name, targets, shard=of_forward, **options)
    if trace.backward is not None:
        backward = _reports(trace.backward, f"{name}, backward", targets, shard=of_backward, **options)
        for report, second in zip(forward, backward, strict=True):
            report.backward = second
    return forward[0] if target is None or isinstance(target, str) else forward


def _targets(target: str | Sequence[str] | None) -> list[str]:
    if target is None:
        return [DEFAULT_TARGET]
    if isinstance(target, str):
        return [target]
    if not isinstance(target, Sequence) or not target or not all(isinstance(name, str) for name in target):
        raise TypeError(f"target is {target!r}: give a slice such as 'v5e:2x2', or a list of such")
    return list(target)


def _refuse_unmapped(name: str, value: Any, wanted: str) -> None:
    if value is not None and not isinstance(value, Mapping):
        raise TypeError(f"{name} is a {type(value).__name__}: give a dictionary of {wanted}")


def _apportioned(rules: _Rules, trace: Trace) -> tuple[_Rules, _Rules]:
    """The rules for the forward and for the backward: those that decide something there. A rule that decides nothing
    in either is left to the forward, which refuses it."""
    if trace.backward is None:
        return rules, []
    here, there = _deciding(rules, trace), _deciding(rules, trace.backward)
    results = {pattern for pattern, _ in rules if pattern.startswith(_RESULT)}
    of_forward = [rule for rule in rules if rule[0] in here | results or rule[0] not in there]
    return of_forward, [rule for rule in rules if rule[0] in there]


# How the patterns of results begin. They match no input.
_RESULT = "output."


def _deciding(rules: _Rules, trace: Trace) -> set[str]:
    """The patterns that are the first to match an input that can be split."""
    patterns = [pattern for pattern, _ in rules if not pattern.startswith(_RESULT)]
    first = (next((p for p in patterns if _native.pattern_matches(p, name)), None) for name in _splittable(trace))
    return {pattern for pattern in first if pattern is not None}


def _splittable(trace: Trace) -> list[str]:
    """The names of the inputs that have dimensions."""
    module = trace.program["graph_module"]
    tensors = module["graph"]["tensor_values"]
    found = []
    for spec in module["signature"]["input_specs"]:
        ((kind, what),) = spec.items()
        tensor = what.get("arg", {}).get("as_tensor") if kind == "user_input" else what.get("arg")
        if kind in ("user_input", "parameter", "buffer") and tensor and tensors[tensor["name"]]["sizes"]:
            found.append(what.get(f"{kind}_name", tensor["name"]))
    return found


def _reports(trace: Trace, name: str, targets: list[str], **options: Any) -> list[Report]:
    worker = [sys.executable, "-I", "-c", _WORKER, str(_native.__file__)]
    reports = _native.check_program(
        trace.to_bytes(),
        name=name,
        targets=targets,
        precision=precision(),
        worker=worker,
        libtpu=_plugins.libtpu(),
        **options,
    )
    return [Report(report) for report in reports]
