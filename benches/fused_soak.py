"""Fused mode's first step, its memory, and what is left behind by many steps, beside strict mode's.

    python benches/fused_soak.py first --rounds 5      # seconds of a process's first step, and of the slowest later
    python benches/fused_soak.py memory --steps 1000   # bytes at peak: of tensors and running programs (over all, and
                                                       # over the second half of the steps), and of the process
    python benches/fused_soak.py growth --steps 20000  # bytes and programs over the steps, fused mode alone

Each run is a process of its own, which keeps nothing on disk; modes take turns. Steps are those of steps.py.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

MODES = ("strict", "fused")
# Looks at memory in a run: enough to tell growth from a start.
LOOKS = 10


def resident() -> int:
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def work(chosen: str, model: str, mode: str, steps: int) -> dict[str, Any]:
    """Runs steps of `model`, here."""
    import torch
    import torchtpu
    from fused import wait_for_programs
    from steps import SETS

    torch.manual_seed(0)
    step = SETS[chosen][model](mode)
    seconds, looks, peaks = [], [], []
    with torchtpu.eager_mode(mode):
        for i in range(steps):
            start = time.perf_counter()
            step()
            torch.tpu.synchronize()  # type: ignore[attr-defined]
            seconds.append(time.perf_counter() - start)
            if i + 1 in (steps // 2, steps):
                peaks.append(torch.tpu.max_memory_allocated())  # type: ignore[attr-defined]
                wait_for_programs()
                torch.tpu.reset_peak_memory_stats()  # type: ignore[attr-defined]
            if (i + 1) % max(1, steps // LOOKS) == 0:
                looks.append({"resident": resident(), "programs": programs(torchtpu.stats())})
    return {
        "first": seconds[0],
        "later": max(seconds[1:], default=0.0),
        "device": max(peaks),
        "half": peaks[-1],
        "process": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "looks": looks,
    }


def programs(stats: dict[str, Any]) -> dict[str, int]:
    """How many entries the device's caches have had."""
    eager = stats["eager"]
    regions = eager["regions"]
    of = {"compiles": stats["compiles"], "traced": eager["traced"]}
    return {**of, "regions": regions["met"], "compiled": regions["compiled"]}


def elsewhere(chosen: str, model: str, mode: str, steps: int) -> dict[str, Any]:
    """The same in a process that finds nothing compiled."""
    options = [f"--set={chosen}", f"--models={model}", f"--mode={mode}", f"--steps={steps}"]
    command = [sys.executable, __file__, "work", *options]
    environment = {**os.environ, "TORCHTPU_CACHE_DIR": ""}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{model} in {mode} mode: {done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def first(chosen: str, models: list[str], rounds: int) -> None:
    """Prints seconds of first and of slowest later steps."""
    print(f"{'s':<14}{'first step: strict':>20}{'fused':>8}{'ratio':>7}{'slowest of 11 later: strict':>30}{'fused':>8}")
    for model in models:
        runs = [{mode: elsewhere(chosen, model, mode, 12) for mode in MODES} for _ in range(rounds)]
        of = {m: {k: statistics.median(r[m][k] for r in runs) for k in ("first", "later")} for m in MODES}
        strict, fused = (of[m] for m in MODES)
        ratio = statistics.median(r["fused"]["first"] / r["strict"]["first"] for r in runs)
        print(f"{model:<14}{strict['first']:20.2f}{fused['first']:8.2f}{ratio:7.2f}", end="")
        print(f"{strict['later']:30.3f}{fused['later']:8.3f}", flush=True)


def memory(chosen: str, models: list[str], steps: int) -> None:
    """Prints megabytes at peak."""
    measures = ("device", "half", "process")
    print(f"{'MB at peak':<14}", *(f"{what + ': strict':>18}{'fused':>9}{'ratio':>7}" for what in measures))
    for model in models:
        strict, fused = (elsewhere(chosen, model, mode, steps) for mode in MODES)
        pairs = ((strict[what], fused[what]) for what in measures)
        print(f"{model:<14}", *(f"{a / 1e6:18.2f}{b / 1e6:9.2f}{b / a:7.3f}" for a, b in pairs), flush=True)


def growth(chosen: str, models: list[str], steps: int) -> None:
    """Prints megabytes and cache entries over the steps."""
    for model in models:
        looks = elsewhere(chosen, model, "fused", steps)["looks"]
        print(f"{model}, every {steps // LOOKS} steps:", *(f"{look['resident'] / 1e6:.0f} MB" for look in looks))
        print("  ", *(look["programs"] for look in looks), sep="\n   ", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["first", "memory", "growth", "work"])
    parser.add_argument("--set", choices=["small", "large"], default="small")
    parser.add_argument("--models", help="separated by commas; all by default")
    parser.add_argument("--mode", choices=MODES, default="fused")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    from steps import SETS

    models = args.models.split(",") if args.models else list(SETS[args.set])
    if unknown := [model for model in models if model not in SETS[args.set]]:
        parser.error(f"the {args.set} set has no {', '.join(unknown)}; it has {', '.join(SETS[args.set])}")
    if args.steps < 1 or args.rounds < 1:
        parser.error("--steps and --rounds are at least 1")
    match args.what:
        case "work":
            print(json.dumps(work(args.set, models[0], args.mode, args.steps)))
        case "first":
            first(args.set, models, args.rounds)
        case "memory":
            memory(args.set, models, args.steps)
        case _:
            growth(args.set, models, args.steps)


if __name__ == "__main__":
    main()
