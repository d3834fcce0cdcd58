"""Compile times and peak memory of the models of PATH on TPUs that are not there: docs/tpu-targets.md.

    python benches/aot.py [--models a,b] [--targets v5e:1x1,...] [--dtypes bf16] [--log FILE] [--page FILE]

For each model its inference and a whole training step (forward, backward, AdamW), in bf16 and f32, in its published
configuration; nothing is allocated but the model and its inputs. Each result is a line of the log, which is kept beside
the page: all of it takes hours, so a run goes on where the last one was, on whatever machine. --again starts anew. What
fails is told, and is left to the next run.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torchtpu

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/python"))
import zoo

TARGETS = ("v4:1x1x1", "v5e:1x1", "v5p:1x1x1", "v6e:1x1", "tpu7x:1x1x1")
DTYPES = {"bf16": torch.bfloat16, "f32": torch.float32}
KINDS = ("inference", "training")
GIB = 1 << 30
TIMEOUT = 7200.0  # seconds for a cell: four times what users wait, since a sweep shares its machine with other work


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(zoo.ZOO))
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--log", type=Path, default=Path("docs/tpu-targets.jsonl"))
    parser.add_argument("--again", action="store_true", help="forget what was measured before")
    parser.add_argument("--page", type=Path)
    args = parser.parse_args()
    if args.again:
        args.log.unlink(missing_ok=True)
    done = read(args.log)
    for model in args.models.split(","):
        for kind in KINDS:
            for dtype in args.dtypes.split(","):
                targets = [t for t in args.targets.split(",") if (model, kind, dtype, t) not in done]
                for result in run(model, kind, dtype, targets):
                    print(summary(result), flush=True)
                    with args.log.open("a") as file:
                        file.write(json.dumps(result) + "\n")
    chosen = itertools.product(args.models.split(","), KINDS, args.dtypes.split(","), args.targets.split(","))
    results = read(args.log)
    if args.page:
        args.page.write_text(page(list(results.values())))
    return 0 if all(cell in results and results[cell]["runs"] for cell in chosen) else 1


def read(log: Path) -> dict[tuple[str, ...], dict[str, Any]]:
    lines = log.read_text().splitlines() if log.exists() else []
    results = map(json.loads, lines)
    return {(r["model"], r["kind"], r["dtype"], r["target"]): r for r in results}


def run(model: str, kind: str, dtype: str, targets: list[str]) -> Any:
    if not targets:
        return
    trace = capture(zoo.ZOO[model], kind, DTYPES[dtype])
    for target in targets:
        start = time.perf_counter()
        try:
            report = torchtpu.check(trace, target=target, timeout=TIMEOUT)
        except torchtpu.Error as error:  # of this cell alone, such as the compiler's time running out
            print(f"{model} {kind} {dtype} {target}: {error}", file=sys.stderr, flush=True)
            continue
        memory, cost = report.data["memory"] or {}, report.data["cost"] or {}
        yield {
            "model": model,
            "kind": kind,
            "dtype": dtype,
            "target": target,
            "runs": report.runs,
            "summary": report.summary,
            "seconds": time.perf_counter() - start,
            "ops": trace.num_nodes,
            "peak": memory.get("peak", 0),
            "attributed": 1 - memory["unattributed"] / max(memory["peak"], 1) if memory else 0,
            "compiler_peak": memory.get("compiler_peak", 0),
            "fragmentation": memory["unattributed"] - memory["reserved"] if memory else 0,
            "roofline": cost.get("seconds", 0),
            "flops": cost.get("flops", 0),
        }


def capture(entry: zoo.Entry, kind: str, dtype: torch.dtype) -> torchtpu.Trace:
    cast = lambda t: t.to(dtype) if t.is_floating_point() else t  # noqa: E731
    model = entry.build("full").to(dtype)
    batch = entry.data("full")
    batch = zoo.Batch({name: cast(t) for name, t in batch.inputs.items()}, batch.targets)
    with torch._dynamo.config.patch(**dict(entry.dynamo)):
        if kind == "inference":
            model.eval().requires_grad_(False)
            return torchtpu.capture(model, **batch.inputs)
        optimizer = torch.optim.AdamW(model.parameters())
        step = torchtpu.capture_step(
            Loss(entry, model), {**batch.inputs, "targets": batch.targets}, optimizer=optimizer
        )
        return step.trace


class Loss(torch.nn.Module):
    """A model with its loss, as `capture_step` wants it: an output with a `loss`."""

    def __init__(self, entry: zoo.Entry, model: torch.nn.Module) -> None:
        super().__init__()
        self.entry = entry
        self.model = model

    def forward(self, targets: torch.Tensor, **inputs: torch.Tensor) -> Any:
        loss = self.entry.loss(self.model, zoo.Batch(inputs, targets))
        return type("Output", (), {"loss": loss})


def summary(result: dict[str, Any]) -> str:
    name = f"{result['model']:13} {result['kind']:9} {result['dtype']:4} {result['target']:12}"
    return f"{name} {result['seconds']:6.1f} s  {result['peak'] / GIB:6.2f} GiB  {result['summary']}"


def page(results: list[dict[str, Any]]) -> str:
    targets = sorted({r["target"] for r in results}, key=lambda t: TARGETS.index(t) if t in TARGETS else 99)
    order = {name: i for i, name in enumerate([*zoo.ZOO, *KINDS, *DTYPES])}
    rows: dict[tuple[str, str, str], dict[str, dict[str, Any]]] = {}
    for result in sorted(results, key=lambda r: [order[r[column]] for column in ("model", "kind", "dtype")]):
        rows.setdefault((result["model"], result["kind"], result["dtype"]), {})[result["target"]] = result
    lines = [
        "# Models on TPUs that are not there",
        "",
        "Made by `make bench-aot`: each model of tests/python/zoo.py in its published configuration, inference and one",
        "whole training step (forward, backward, AdamW), compiled by libtpu on a machine without a TPU. A cell: peak",
        "HBM in GiB, our roofline's time (no measurement), seconds from trace to report.",
        *shares(results),
        "Seconds are of a machine that did other work besides; [tpu-targets.jsonl](tpu-targets.jsonl) has all figures.",
        "",
        "| model | | | ops | " + " | ".join(targets) + " |",
        "|---|---|---|---:|" + "---:|" * len(targets),
    ]
    for (model, kind, dtype), cells in rows.items():
        ops = next(iter(cells.values()))["ops"]
        texts = [cell(cells[t]) if t in cells else "" for t in targets]
        lines.append(f"| {model} | {kind} | {dtype} | {ops} | " + " | ".join(texts) + " |")
    return "\n".join(lines) + "\n"


def shares(results: list[dict[str, Any]]) -> list[str]:
    """How much of the peaks values hold: of libtpu's own, and of the HBM that it takes, which has gaps."""
    known = [r for r in results if r["runs"] and r.get("compiler_peak")]
    if not known:
        return []
    of_compiler = min(min(1, r["attributed"] * r["peak"] / r["compiler_peak"]) for r in known)
    of_taken = min(known, key=lambda r: r["attributed"])
    name = f"{of_taken['model']}, {of_taken['kind']}, {of_taken['dtype']}, {of_taken['target']}"
    return [
        f"Values with a line or a name hold at least {of_compiler:.1%} of libtpu's own peak, which counts no gaps; of",
        f"the HBM that it takes, at least {of_taken['attributed']:.1%} ({name}); the rest is shown as fragmentation.",
    ]


def cell(result: dict[str, Any]) -> str:
    if not result["runs"]:
        return "no: " + result["summary"]
    return f"{result['peak'] / GIB:.2f}, {result['roofline'] * 1e3:.2f} ms, {result['seconds']:.0f} s"


if __name__ == "__main__":
    sys.exit(main())
