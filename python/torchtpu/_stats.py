"""What was compiled, executed, and run on the host, since the process started."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

from torchtpu import _native

_lock = threading.Lock()
_fallbacks: dict[str, Counter[str]] = {}
_reads: dict[str, Counter[str]] = {}
_shared = 0


def record_fallback(op: str, place: str) -> bool:
    """Counts one run of ``op`` on the host; whether it is the first at ``place``, a ``file:line``."""
    with _lock:
        counts = _fallbacks.setdefault(op, Counter())
        counts[place] += 1
        return counts[place] == 1


def record_read(op: str, place: str) -> None:
    """Counts one wait of a compiled graph for what ``op`` gives, or how much, at ``place``, a ``file:line``."""
    with _lock:
        _reads.setdefault(op, Counter())[place] += 1


def record_shared() -> None:
    """Counts one execution of a compiled graph that has nothing to compute: its results are its inputs."""
    global _shared
    with _lock:
        _shared += 1


def stats() -> dict[str, Any]:
    """Counts since the process started.

    Returns:
        ``compiles``, ``cache_hits`` (in memory), ``disk_hits`` and ``executions`` as integers, ``compile_seconds`` and
        ``execute_seconds`` (what the plugin took for them) as floats, all of them of compiled graphs and of eager ops
        together where both have one; ``blas``, the library that multiplies for programs on the CPU, None where XLA does
        or none was asked for yet; ``memory_pool``, what the CPU plugin holds of the process's memory, in bytes:
        ``lent``, in use, and ``kept`` for its next call; ``fallbacks`` as ``{op: {"file:line": times}}``, empty if
        nothing ran on the host; ``reads`` in the same form, the waits of compiled graphs for numbers and sizes that are
        data;
        ``shared``, those of the executions that were of graphs whose results are their inputs, and reached no device;
        and ``eager``, which is about eager ops on ``"tpu"`` alone: ``executions``, ``shared`` (calls that needed no
        execution), ``traced`` (calls not seen before), ``interpreted`` (executions without a program: of calls whose
        sizes never come again, where compiling takes longer), ``sizes_read`` (times that a call waited for the size of
        its result, which is data), ``storages`` (storages made, for results and by ``empty``), ``cache_hits`` (calls
        seen before), ``regions`` (of fused mode: ops ``recorded``, different regions ``met``, those ``compiled`` and
        those ``compiling`` in the background now, ``runs`` as one program, and ``cuts``;
        :func:`torchtpu.explain_eager` says more), and ``ops`` as
        ``{op: {"file:line": {"calls": times, "traced": times, "sizes_read": times}}}``.
    """
    with _lock:
        fallbacks = {op: dict(lines) for op, lines in _fallbacks.items()}
        reads = {op: dict(lines) for op, lines in _reads.items()}
        shared = _shared
    counts = _native.stats()
    counts["executions"] += shared
    return {**counts, "fallbacks": fallbacks, "reads": reads, "shared": shared, "eager": _eager()}


def _eager() -> dict[str, Any]:
    counts = _native.device_stats()
    ops: dict[str, dict[str, dict[str, int]]] = {}
    calls = 0
    for op, line, times, traced, sizes_read in counts.pop("by_op"):
        ops.setdefault(op, {})[line or "?"] = {"calls": times, "traced": traced, "sizes_read": sizes_read}
        calls += times
    return {**counts, "cache_hits": max(calls - counts["traced"], 0), "ops": ops}
