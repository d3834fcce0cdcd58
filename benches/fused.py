"""Fused eager beside strict, the CPU's eager and torch.compile, interleaved in one run: training steps and small loops.

    python benches/fused.py --set small --rounds 30

Every variant is warmed until its programs are compiled; then each round times one step of each, with the wait for the
device, behind some that are not timed (turns.py); with `--in-a-row N`, N steps with one wait. Reported are medians in
milliseconds a step and the ratios of medians, with a 95% bootstrap interval over rounds, and fused's first step beside
strict's, which comes first and fills the caches. What is in each set is fixed in steps.py.

PyTorch/XLA's modes stand beside them with `--variants ...,xla-lazy,xla-eager --xla-python PYTHON`, a Python that has
torch and torch_xla; each runs in a process of its own, which stands still between its turns.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import math
import os
import signal
import statistics
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torchtpu
from steps import SETS
from torchtpu import _native
from turns import geometric_mean, ratio, until_rested

# Steps before anything is timed: a region's program is used from its fourth occurrence on, and an optimizer's first
# steps are not like its later ones.
WARM_UP = 9
VARIANTS = ("strict", "fused", "cpu", "compiled")


@dataclass
class Variant:
    """One way to run a step, and what was measured of it, in seconds."""

    name: str
    step: Callable[[], Any]
    in_a_row: int = 1
    first: float = 0.0
    times: list[float] = field(default_factory=list)

    def time(self) -> float:
        mode = self.name if self.name == "fused" else "strict"
        with torchtpu.eager_mode(mode), contextlib.nullcontext() if self.name != "compiled" else _recurrent():
            start = time.perf_counter()
            for _ in range(self.in_a_row):
                result = self.step()  # held, or there would be nothing to compute
            if self.name != "cpu":
                torch.tpu.synchronize()  # type: ignore[attr-defined]
            seconds = (time.perf_counter() - start) / self.in_a_row
            del result
            return seconds

    def close(self) -> None:
        pass

    def warm_up(self) -> None:
        self.first = self.time()
        for _ in range(WARM_UP):
            self.time()
            if self.name == "fused":
                wait_for_programs()


class Elsewhere:
    """As :class:`Variant`, in a process of its own."""

    def __init__(self, name: str, python: str, chosen: str, case: str) -> None:
        self.times: list[float] = []
        worker = Path(__file__).with_name("xla_worker.py")
        errors = subprocess.DEVNULL
        command = [python, str(worker), chosen, case, name]
        # Not what this environment has: another PyTorch would find it.
        env = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
        self.process = subprocess.Popen(
            command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        )
        assert self.process.stdout
        if self.process.stdout.readline() != "ready\n":
            raise RuntimeError(f"{' '.join(command)} did not start")
        self.process.send_signal(signal.SIGSTOP)

    def time(self) -> float:
        assert self.process.stdin
        assert self.process.stdout
        if self.process.poll() is not None:
            return math.nan
        self.process.send_signal(signal.SIGCONT)
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write("step\n")
            self.process.stdin.flush()
        said = self.process.stdout.readline()
        if said:
            self.process.send_signal(signal.SIGSTOP)
        else:
            self.process.wait()  # it has failed
        return float(said) if said else math.nan

    def warm_up(self) -> None:
        for _ in range(1 + WARM_UP):
            self.time()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def _recurrent() -> Any:
    return torch._dynamo.config.patch(allow_rnn=True)


def wait_for_programs() -> None:
    while any(region["state"] == "compiling" for region in _native.device_regions()["regions"]):
        time.sleep(0.05)


def measure(
    chosen: str, name: str, variants: list[str], rounds: int, in_a_row: int, xla_python: str
) -> dict[str, list[float]]:
    """Prints a line; gives the seconds of each variant's steps."""
    torch._dynamo.reset()
    running: dict[str, Any] = {}
    for variant in variants:
        elsewhere = variant.startswith("xla")
        make = SETS[chosen][name]
        running[variant] = (
            Elsewhere(variant, xla_python, chosen, name) if elsewhere else Variant(variant, make(variant), in_a_row)
        )
    for one in running.values():
        one.warm_up()
    # Else each step's garbage collection would go through what the other variants and the compiler made, too.
    gc.collect()
    gc.freeze()
    for _ in range(rounds):
        for one in running.values():
            until_rested(one.time)
            one.times.append(one.time())
    gc.unfreeze()
    for one in running.values():
        one.close()
    ours = running["fused"].times
    cells = [f"{name:32}", f"{statistics.median(ours) * 1e3:9.2f}"]
    for variant in variants:
        if variant == "fused":
            continue
        middle, low, high = ratio(running[variant].times, ours)
        span = "failed" if math.isnan(middle) else f"{low:.2f}..{high:.2f}"
        cells.append(f"{middle:8.2f} {span:>13}")
    cells.append(f"{running['fused'].first / running['strict'].first:8.2f}")
    print("".join(cells), flush=True)
    return {variant: one.times for variant, one in running.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--set", default="small,loops", help=f"of {', '.join(SETS)}")
    parser.add_argument("--only", default="", help="part of the name of what to run")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--in-a-row", type=int, default=1, help="steps before the wait (PyTorch/XLA: one)")
    parser.add_argument("--variants", default=",".join(VARIANTS))
    parser.add_argument("--xla-python", default="", help="a Python with torch and torch_xla")
    options = parser.parse_args()
    variants = options.variants.split(",")
    for chosen in options.set.split(","):
        headings = "".join(f"{f'{v}/fused':>22}" for v in variants if v != "fused")
        print(f"{chosen:32}{'fused ms':>9}{headings}{'first':>8}")
        cases = [name for name in SETS[chosen] if options.only in name]
        times = [
            measure(chosen, name, variants, options.rounds, options.in_a_row, options.xla_python) for name in cases
        ]
        middle, low, high = geometric_mean([(of["strict"], of["fused"]) for of in times])
        print(f"{'geometric mean of strict/fused':32}{middle:.2f} ({low:.2f}..{high:.2f})")


if __name__ == "__main__":
    main()
