"""Step times of real models: eager, inductor and torchtpu side by side, interleaved in one run.

    python benches/models.py --models gpt2,resnet50 --rounds 50

Each round times one call of every variant, so that whatever else the machine does falls on all of them alike. Reported
are medians and the ratio of medians to eager, each with a 95% bootstrap interval over rounds; the first call (capture
and compile, with whatever caches the environment gives); how far the outputs are from eager's; the median processor
time of a call, over all threads; and for torchtpu our own share of a call, median and least: the time inside our code,
outside of Dynamo, AOTAutograd and the plugin. What `torchtpu.stats()` counted while the rounds ran follows, per call.

On a machine that does other work too, times on the clock say little: threads wait for each other's turn. Compare the
processor times of `--threads 1` there.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
import torchtpu
from torch import Tensor, nn
from torch.utils import _pytree as pytree

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "python"))
from meter import Meter, metered_compiles, metered_plugin
from turns import geometric_mean, ratio, until_rested
from zoo import ZOO, Batch, Entry, Size

WARM_UP = 3
MODES = ("inference", "training")
BACKENDS = ("eager", "inductor", "torchtpu")
# Torchtpu without its own optimizer.
PLAIN = "plain"


@dataclass
class Variant:
    """One backend's way to run one step, and what was measured of it. Times are seconds."""

    backend: str
    step: Callable[[], Any]
    first_call: float = 0.0
    error: float = 0.0
    times: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    ours: list[float] = field(default_factory=list)
    meter: Meter = field(default_factory=Meter)
    failure: str = ""
    calls: int = 0


@dataclass(frozen=True)
class Row:
    """One line of the report. Seconds; `of_eager` is this backend / eager; both with the bounds of their intervals."""

    model: str
    mode: str
    backend: str
    rounds: int
    median: tuple[float, float, float]
    processor: float
    ours: float
    ours_least: float
    of_eager: tuple[float, float, float]
    first_call: float
    error: float
    failure: str
    stats_per_call: dict[str, float]
    times: list[float]


# --- one step --------------------------------------------------------------------------------------------------------


def make_step(entry: Entry, size: Size, mode: str, backend: str) -> Callable[[], Any]:
    """A function that runs one step and returns outputs (inference) or the loss (training)."""
    model, batch = entry.build(size), entry.batch(size)
    if mode == "inference":
        return _inference_step(compiled(model.eval(), backend), batch)
    return _training_step(entry, model, batch, backend)


def compiled(fn: Any, backend: str) -> Any:
    if backend == "eager":
        return fn
    if backend == PLAIN:
        return torch.compile(fn, backend="torchtpu", options={"optimize": False})
    return torch.compile(fn, backend=backend)


def _inference_step(forward: Callable[..., Any], batch: Batch) -> Callable[[], Any]:
    def step() -> Any:
        with torch.no_grad():
            return forward(**batch.inputs)

    return step


def _training_step(entry: Entry, model: nn.Module, batch: Batch, backend: str) -> Callable[[], Tensor]:
    """Forward, backward and an AdamW update; loss and update are compiled."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    loss_of, update = compiled(entry.loss, backend), compiled(optimizer.step, backend)

    def step() -> Tensor:
        optimizer.zero_grad()
        loss: Tensor = loss_of(model, batch)
        loss.backward()
        update()
        return loss.detach()

    return step


# --- measuring -------------------------------------------------------------------------------------------------------


def measure(
    entry: Entry, size: Size, mode: str, rounds: int, seconds: float, backends: Sequence[str] = BACKENDS
) -> list[Row]:
    """These backends over one model and mode. At most about `seconds` of timed rounds, first calls not counted."""
    torch._dynamo.reset()
    with torch._dynamo.config.patch(**entry.dynamo):
        variants = [_prepare(entry, size, mode, backend) for backend in backends]
        running = [variant for variant in variants if not variant.failure]
        before = _stats()
        interleave(running, rounds, seconds)
        counted = _difference(before, _stats())
    return list(_rows(entry.name, mode, variants, counted))


def _prepare(entry: Entry, size: Size, mode: str, backend: str) -> Variant:
    """Compiles, warms up, and compares the first result with eager's. A backend that fails is reported, not fatal."""
    variant = Variant(backend, make_step(entry, size, mode, backend))
    try:
        with metered_compiles(variant.meter):
            start = time.perf_counter()
            result = variant.step()
            variant.first_call = time.perf_counter() - start
        if backend != "eager":
            variant.error = _relative_error(result, make_step(entry, size, mode, "eager")())
        for _ in range(WARM_UP):
            variant.step()
    except Exception as error:
        variant.failure = f"{type(error).__name__}: {error}".splitlines()[0][:160]
    return variant


def interleave(variants: list[Variant], rounds: int, seconds: float) -> None:
    """One timed call of each in turn; the order rotates. Others, not timed, go before it until the threads of the last
    backend rest: OpenMP's spin on after a call, which slows small models down, and caches hold its data."""
    deadline = time.perf_counter() + seconds
    gc.collect()
    for turn in range(rounds):
        if time.perf_counter() > deadline:
            return
        for place in range(len(variants)):
            variant = variants[(turn + place) % len(variants)]
            variant.calls += until_rested(variant.step)
            ours = variant.meter.our_calls
            with metered_plugin(variant.meter):
                start, processor = time.perf_counter(), time.process_time()
                variant.step()
                variant.times.append(time.perf_counter() - start)
                variant.processor.append(time.process_time() - processor)
            variant.ours.append(variant.meter.our_calls - ours)
            variant.calls += 1


def _relative_error(ours: Any, expected: Any) -> float:
    """Largest difference over largest value, over all floating-point outputs."""
    pairs = zip(pytree.tree_leaves(ours), pytree.tree_leaves(expected), strict=True)
    errors = [_largest(a - b) / max(_largest(b), 1e-30) for a, b in pairs if isinstance(b, Tensor)]
    return max(errors, default=0.0)


def _largest(value: Tensor) -> float:
    return value.abs().max().item() if value.numel() else 0.0


# --- reporting -------------------------------------------------------------------------------------------------------


def _rows(model: str, mode: str, variants: list[Variant], counted: Mapping[str, float]) -> Iterator[Row]:
    reference = next(variant for variant in variants if variant.backend == "eager")
    for variant in variants:
        calls = max(variant.calls, 1)
        ours = variant.backend == "torchtpu"
        yield Row(
            model=model,
            mode=mode,
            backend=variant.backend,
            rounds=len(variant.times),
            median=ratio(variant.times, [1.0] * len(variant.times)),
            processor=median(torch.tensor(variant.processor)),
            ours=median(torch.tensor(variant.ours)) if ours else float("nan"),
            ours_least=min(variant.ours, default=float("nan")) if ours else float("nan"),
            of_eager=ratio(variant.times, reference.times),
            first_call=variant.first_call,
            error=variant.error,
            failure=variant.failure,
            stats_per_call={key: value / calls for key, value in counted.items()} if ours else {},
            times=variant.times,
        )


def median(values: Tensor) -> float:
    return values.double().quantile(0.5).item() if values.numel() else float("nan")


def _stats() -> dict[str, float]:
    """Every number in `torchtpu.stats()`, by its dotted path."""
    return dict(_numbers(torchtpu.stats(), ""))


def _numbers(value: object, path: str) -> Iterator[tuple[str, float]]:
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _numbers(part, f"{path}.{key}" if path else str(key))
    elif isinstance(value, (int, float)):
        yield path, float(value)


def _difference(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    changes = {key: value - before.get(key, 0.0) for key, value in after.items()}
    return {key: change for key, change in changes.items() if change}


def show(rows: list[Row]) -> None:
    print(f"{rows[0].model} {rows[0].mode}, {rows[0].rounds} rounds, load average {os.getloadavg()[0]:.1f}")
    for row in rows:
        print(f"  {row.backend:9s} {_measured(row)}")
        for key, value in row.stats_per_call.items():
            print(f"  {'':9s} {key} {value:.6g} per call")
    print(flush=True)


def show_means(report: list[Row], modes: Sequence[str]) -> None:
    """The geometric mean over models of each backend's ratio to eager, by mode."""
    for mode, backend in itertools.product(modes, sorted({row.backend for row in report} - {"eager"})):
        of = {(row.model, row.backend): row.times for row in report if row.mode == mode}
        models = [model for model, name in of if name == backend and of[model, name]]
        mean, low, high = geometric_mean([(of[model, backend], of[model, "eager"]) for model in models])
        told = f"{backend} takes {mean:.3f} of eager [{low:.3f}, {high:.3f}]"
        print(f"{mode}: {told}, geometric mean of {', '.join(models)}")


def _measured(row: Row) -> str:
    if row.failure:
        return f"failed: {row.failure}"
    median, low, high = (value * 1e3 for value in row.median)
    text = f"{median:9.3f} ms [{low:.3f}, {high:.3f}]   processor {row.processor * 1e3:.3f} ms"
    text += f"   first call {row.first_call:6.2f} s"
    if row.backend == "eager":
        return text
    ratio, low, high = row.of_eager
    text += f"   {ratio:5.2f} of eager [{low:.2f}, {high:.2f}]   error {row.error:.1e}"
    if row.backend == "torchtpu":
        text += f"   ours {row.ours * 1e6:.0f} us, least {row.ours_least * 1e6:.0f}"
    return text


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(ZOO), help="comma-separated; all: %(default)s")
    parser.add_argument(
        "--backends",
        default=",".join(BACKENDS),
        help=f"default: %(default)s; {PLAIN} is torchtpu without its own optimizer",
    )
    parser.add_argument("--modes", default=",".join(MODES), help="default: %(default)s")
    parser.add_argument("--small", action="store_true", help="the sizes of the tests")
    parser.add_argument("--rounds", type=int, default=50, help="default: %(default)s")
    parser.add_argument("--seconds", type=float, default=60.0, help="cap on the rounds of one model and mode")
    parser.add_argument("--threads", type=int, help="of PyTorch's kernels; default: as many as processors")
    parser.add_argument("--json", type=Path, help="also write the rows here")
    options = parser.parse_args()
    options.models = options.models.split(",")
    options.modes = options.modes.split(",")
    options.backends = options.backends.split(",")
    unknown = (set(options.models) - set(ZOO)) | (set(options.modes) - set(MODES))
    unknown |= set(options.backends) - {*BACKENDS, PLAIN}
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    if "eager" not in options.backends:
        parser.error("what is measured is compared with eager: name it, too")
    return options


def main() -> None:
    options = arguments()
    if options.threads:
        torch.set_num_threads(options.threads)
    size: Size = "small" if options.small else "full"
    report: list[Row] = []
    for name in options.models:
        for mode in options.modes:
            rows = measure(ZOO[name], size, mode, options.rounds, options.seconds, options.backends)
            show(rows)
            report += rows
            if options.json:
                options.json.write_text(json.dumps([asdict(row) for row in report], indent=1) + "\n")
    show_means(report, options.modes)


if __name__ == "__main__":
    main()
