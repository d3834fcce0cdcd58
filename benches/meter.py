"""Where the time of compiles and calls goes: TorchTPU's own code, the plugin, or PyTorch around them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torchtpu
from torchtpu import backend


@dataclass
class Meter:
    """Seconds inside our backend. `compiles` and `calls` hold the plugin's time too; the properties take it out."""

    compiles: float = 0.0
    calls: float = 0.0
    plugin_compiles: float = 0.0
    plugin_calls: float = 0.0

    @property
    def our_compiles(self) -> float:
        return self.compiles - self.plugin_compiles

    @property
    def our_calls(self) -> float:
        return self.calls - self.plugin_calls

    def timed(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def run(args: list[Any]) -> Any:
            start = time.perf_counter()
            try:
                return call(args)
            finally:
                self.calls += time.perf_counter() - start

        run._boxed_call = True  # type: ignore[attr-defined]
        return run


@contextmanager
def metered_compiles(meter: Meter) -> Iterator[Meter]:
    """What the backend compiles inside is metered, then and whenever it is called."""
    compile_graph, decompositions = backend.compile_graph, backend.decompositions

    def timed_compile(*args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        call = compile_graph(*args, **kwargs)
        meter.compiles += time.perf_counter() - start
        return meter.timed(call)

    def timed_decompositions() -> Any:
        start = time.perf_counter()
        table = decompositions()
        meter.compiles += time.perf_counter() - start
        return table

    backend.compile_graph, backend.decompositions = timed_compile, timed_decompositions  # type: ignore[assignment]
    try:
        yield meter
    finally:
        backend.compile_graph, backend.decompositions = compile_graph, decompositions


@contextmanager
def metered_plugin(meter: Meter) -> Iterator[None]:
    """The plugin's time inside, from `torchtpu.stats()`; every program that runs counts."""
    before = torchtpu.stats()
    yield
    after = torchtpu.stats()
    meter.plugin_compiles += after["compile_seconds"] - before["compile_seconds"]
    meter.plugin_calls += after["execute_seconds"] - before["execute_seconds"]
