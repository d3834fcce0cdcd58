"""What our optimizer is worth in every model: those of PATH in full size, and the architectures of docs/models.md.

    python benches/fuse_models.py cpu|tpu|page [--only NAME] [--kind path|ops] [--again]

`cpu` times steps on the CPU plugin, with the optimizer and without, in turn in one process (f32); of the models of PATH
also those of eager PyTorch, and a training step ends with AdamW, else with SGD. `tpu` has libtpu
compile both for a v5e and compares what its programs move through HBM: the models of PATH in bf16, with AdamW in a
training step; architectures in f32, the programs that `torch.compile` makes of them added up. Every result is a line of
the log, which is kept beside the page: all of it takes hours, so a run goes on where the last one was. `page` writes
the table. Each model runs in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import aot  # also puts the tests' folder into the path
import models as bench
import sweep_log
import torch
from architectures import ARCHITECTURES
from architectures.agreement import infer, train
from architectures.core import Architecture
from fuse import TPUTC, between_marks
from turns import geometric_mean, ratio

LOG = Path("docs/optimizer-models.jsonl")
PAGE = Path("docs/optimizer.md")
TARGET = "v5e:1x1"
BACKENDS = (bench.PLAIN, "torchtpu")
NOISE = 1.02
TIMEOUT = 7200

Result = dict[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("cpu", "tpu", "page", "one"))
    parser.add_argument("--only", default="", help="models whose names hold this; with `one` the name")
    parser.add_argument("--kind", choices=("path", "ops"), help="default: both")
    parser.add_argument("--on", choices=("cpu", "tpu"), help=argparse.SUPPRESS)
    parser.add_argument("--mode", choices=bench.MODES, help="default: both")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=200.0, help="cap on the rounds of one model and mode")
    parser.add_argument("--again", action="store_true", help="measure again what the log has")
    args = parser.parse_args()
    if args.what == "page":
        between_marks(PAGE, "models", page(read()))
        return 0
    if args.what == "one":
        measure = {"cpu": on_cpu, "tpu": on_tpu}[args.on]
        found = {"model": args.only, "mode": args.mode, "on": args.on, **measure(args.only, args.mode, args)}
        with LOG.open("a") as log:
            log.write(sweep_log.line({"cell": cell(args.only, args.mode, args.on), **found}))
        return 0
    done = {} if args.again else read()
    failed = [
        name
        for name in names(args.kind)
        for mode in ([args.mode] if args.mode else bench.MODES)
        if args.only in name and cell(name, mode, args.what) not in done and not run(name, mode, args)
    ]
    print(f"failed: {', '.join(failed)}" if failed else "all there")
    return 1 if failed else 0


def names(kind: str | None) -> list[str]:
    return [*(bench.ZOO if kind != "ops" else []), *(ARCHITECTURES if kind != "path" else [])]


def cell(name: str, mode: str, on: str) -> str:
    return f"{name} {mode} {on}"


def read() -> dict[Any, Result]:
    return sweep_log.read(LOG, "cell")


def run(name: str, mode: str, args: argparse.Namespace) -> bool:
    """One model in a process of its own, whose caches are empty."""
    command = [sys.executable, __file__, "one", "--only", name, "--mode", mode, "--on", args.what]
    command += ["--rounds", str(args.rounds), "--seconds", str(args.seconds)]
    environment = {**os.environ, "TORCHTPU_CACHE_DIR": "", "PYTHONHASHSEED": "0"}
    done = subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        print(cell(name, mode, args.what), "failed:", (done.stderr.strip().splitlines() or ["?"])[-1][:200], flush=True)
    return done.returncode == 0


# --- on the CPU ------------------------------------------------------------------------------------------------------


def on_cpu(name: str, mode: str, args: argparse.Namespace) -> Result:
    """Seconds of each timed step, in microseconds."""
    entry = bench.ZOO.get(name) or ARCHITECTURES[name]
    with torch._dynamo.config.patch(**dict(entry.dynamo)):
        backends = ("eager", *BACKENDS) if name in bench.ZOO else BACKENDS
        variants = [bench.Variant(backend, step(name, mode, backend)) for backend in backends]
        for variant in variants:
            for _ in range(1 + bench.WARM_UP):
                variant.step()
        bench.interleave(variants, args.rounds, args.seconds)
    times = {variant.backend: [round(t * 1e6, 1) for t in variant.times] for variant in variants}
    told = (f"{spread(times['torchtpu'], times[other])} of {other}" for other in times if other != "torchtpu")
    print(f"{name} {mode}: {', '.join(told)}, {len(times['torchtpu'])} rounds", flush=True)
    return {"times": times}


def spread(times: list[float], reference: list[float]) -> str:
    """The ratio of medians and its interval."""
    return "{:.2f} ({:.2f}..{:.2f})".format(*ratio(times, reference))


def step(name: str, mode: str, backend: str) -> Callable[[], Any]:
    if name in bench.ZOO:
        return bench.make_step(bench.ZOO[name], "full", mode, backend)
    return architecture_step(ARCHITECTURES[name], mode, backend)


def architecture_step(entry: Architecture, mode: str, backend: str) -> Callable[[], Any]:
    model, inputs = entry.build(), entry.batch(training=mode == "training")
    if mode == "inference":
        model.eval()
        forward = bench.compiled(entry.infer, backend)

        def infer_step() -> Any:
            with torch.no_grad():
                return forward(model, inputs)

        return infer_step
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)  # a step again and again must not run away
    loss_of, update = bench.compiled(entry.loss, backend), bench.compiled(optimizer.step, backend)

    def train_step() -> Any:
        optimizer.zero_grad()
        loss = loss_of(model, inputs)
        loss.backward()
        update()
        return loss.detach()

    return train_step


# --- on a TPU that is not there --------------------------------------------------------------------------------------


def on_tpu(name: str, mode: str, args: argparse.Namespace) -> Result:
    """HBM bytes and flops of libtpu's programs, without the optimizer and with it, added up."""
    with tempfile.TemporaryDirectory() as folder:
        traces = list(dict.fromkeys(programs(name, mode, Path(folder))))
        found = [both(trace, Path(folder)) for trace in traces]
    costs = [one for one in found if one]
    total = {side: {m: sum(c[side][m] for c in costs) for m in ("hbm_bytes", "flops")} for side in BACKENDS}
    of_plain = total["torchtpu"]["hbm_bytes"] / max(total[bench.PLAIN]["hbm_bytes"], 1)
    left_out = len(found) - len(costs)
    print(f"{name} {mode}: {of_plain:.4f} of plain's bytes, {len(costs)} programs, {left_out} left out", flush=True)
    return {"programs": len(costs), "left_out": left_out, **total}


def programs(name: str, mode: str, folder: Path) -> Iterator[bytes]:
    """The traces of a model. Of an architecture, those that `torch.compile` dumps while it runs once."""
    if name in bench.ZOO:
        yield aot.capture(bench.ZOO[name], mode, torch.bfloat16).to_bytes()
        return
    entry = ARCHITECTURES[name]
    os.environ["TORCHTPU_DUMP"] = str(folder)
    with torch._dynamo.config.patch(**dict(entry.dynamo)):
        (infer if mode == "inference" else train)(
            entry, torch.float32, lambda fn: torch.compile(fn, backend="torchtpu")
        )
    for file in sorted(folder.glob("*/trace.json")):
        yield file.read_bytes()


def both(trace: bytes, folder: Path) -> dict[str, Result] | None:
    """What libtpu's program costs, of one program as it is and optimized; one compile where those are the same.

    None where the program's sizes are not known before it runs: what `torch.compile` makes of what lies behind the
    choice of a detector's boxes.
    """
    file = folder / "program.json"
    file.write_bytes(trace)
    plain, ours = ([*flags, file] for flags in (["--no-optimize"], []))
    known = subprocess.run([TPUTC, "lower", *plain, "--target", TARGET], capture_output=True, timeout=TIMEOUT)
    if known.returncode and re.search(rb"depends on the data|has no value", known.stderr):
        return None
    known.check_returncode()
    first = cost(plain)
    return {
        bench.PLAIN: first,
        "torchtpu": first if known.stdout == tputc("lower", *ours, "--target", TARGET) else cost(ours),
    }


def cost(source: list[Any]) -> Result:
    (report,) = json.loads(tputc("check", *source, "--target", TARGET, "--format", "json", "--quiet"))
    return {measure: report["cost"][measure] for measure in ("hbm_bytes", "flops")}


def tputc(*arguments: Any) -> bytes:
    return subprocess.run([TPUTC, *arguments], check=True, stdout=subprocess.PIPE, timeout=TIMEOUT).stdout


# --- the page --------------------------------------------------------------------------------------------------------


def page(results: dict[Any, Result]) -> list[str]:
    table = [
        "| model | mode | CPU ms | optimized / plain | optimized / eager | v5e HBM MiB | optimized / plain |",
        "|---|---|---:|---|---|---:|---:|",
    ]
    for name in names(None):
        for mode in bench.MODES:
            timed, moved = (results.get(cell(name, mode, on)) for on in ("cpu", "tpu"))
            if timed or moved:
                table.append(f"| {name} | {mode} | {' | '.join([*of_times(timed), *of_bytes(moved)])} |")
    return [*table, "", *(summary(results, kind, mode) for kind in ("path", "ops") for mode in bench.MODES)]


def of_times(timed: Result | None) -> list[str]:
    if not timed:
        return ["", "", ""]
    times = timed["times"]
    ours, plain, eager = (times.get(backend) for backend in ("torchtpu", bench.PLAIN, "eager"))
    mark = " **worse**" if ratio(ours, plain)[1] > NOISE else ""
    of_eager = spread(ours, eager) if eager else ""
    return [f"{bench.median(torch.tensor(ours)) / 1e3:.3g}", spread(ours, plain) + mark, of_eager]


def of_bytes(moved: Result | None) -> list[str]:
    if not moved:
        return ["", ""]
    plain, ours = (moved[side]["hbm_bytes"] for side in BACKENDS)
    mark = " **worse**" if ours > NOISE * plain else ""
    return [f"{ours / (1 << 20):.4g}", f"{ours / max(plain, 1):.3f}{mark}"]


def summary(results: dict[Any, Result], kind: str, mode: str) -> str:
    """Geometric means. PATH's have the LSTM beside them, not among them: they are twelve models."""
    of = lambda on: [r for n in names(kind) if n != "lstm" and (r := results.get(cell(n, mode, on)))]  # noqa: E731
    moved = [r["torchtpu"]["hbm_bytes"] / r[bench.PLAIN]["hbm_bytes"] for r in of("tpu") if r[bench.PLAIN]["hbm_bytes"]]
    told = [f"bytes {mean(moved):.3f} of plain's ({len(moved)} models)"] if moved else []
    for other in (bench.PLAIN, "eager"):
        timed = [(r["times"]["torchtpu"], r["times"][other]) for r in of("cpu") if other in r["times"]]
        if timed:
            told.append("time {:.3f} ({:.3f}..{:.3f})".format(*geometric_mean(timed)) + f" of {other}'s ({len(timed)})")
    what = "PATH without the LSTM" if kind == "path" else "Architectures"
    return f"{what}, {mode}, geometric means: {', '.join(told) or 'nothing measured'}.\n"


def mean(ratios: Iterable[float]) -> float:
    logs = [math.log(r) for r in ratios]
    return math.exp(sum(logs) / len(logs))


if __name__ == "__main__":
    sys.exit(main())
