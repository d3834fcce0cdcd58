"""What our own optimizer is worth: pattern by pattern, and model by model.

    python benches/fuse.py patterns [--rounds N] [--target v5e:1x1]
    python benches/fuse.py models [--models a,b] [--rounds N] [--seconds S]

Patterns are the graphs of testdata/patterns. Each is run on the CPU plugin as it stands and optimized, in turn in one
process; both are compiled by libtpu for the target, and the optimized HLO's flops and bytes compared. Models are
`benches/models.py` with the optimizer and without, beside eager. The tables are Markdown.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[1]
PATTERNS = ROOT / "testdata" / "patterns"
RESAMPLES = 2000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("patterns", "models"))
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--target", default="v5e:1x1")
    parser.add_argument("--only", default="", help="patterns or models whose names hold this")
    parser.add_argument("--seconds", type=float, default=60.0, help="cap on the rounds of one model and mode")
    args = parser.parse_args()
    if args.what == "patterns":
        patterns(args)
    else:
        models(args)


def patterns(args: argparse.Namespace) -> None:
    files = sorted(str(f) for f in PATTERNS.glob("*.txt") if args.only in f.stem)
    cargo = ["cargo", "run", "-q", "--release", "-p", "torchtpu-driver", "--example", "patterns", "--"]
    print("| pattern | CPU, optimized / plain | 95% | flops, v5e | bytes, v5e | rules |")
    print("|---|---:|---|---:|---:|---|")
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        for file in files:
            command = [*cargo, str(args.rounds), folder, file]
            measured = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=ROOT).stdout)
            name = measured["pattern"]
            plain, ours = (cost(Path(folder) / f"{name}.{side}.mlir", args.target) for side in ("before", "tpu"))
            middle, low, high = ratio(measured["after"], measured["before"])
            ratios.append(middle)
            of = [f"{b / a:.2f}" if a else "-" for a, b in zip(plain, ours, strict=True)]
            rules = ", ".join(sorted(set(measured["rules"])))
            print(f"| {name} | {middle:.2f} | {low:.2f}..{high:.2f} | {of[0]} | {of[1]} | {rules} |", flush=True)
    if ratios:
        print(f"\nGeometric mean on the CPU: {math.exp(statistics.fmean(map(math.log, ratios))):.2f}")


def cost(program: Path, target: str) -> tuple[float, float]:
    """Flops and bytes to and from HBM of what libtpu makes of a program."""
    tputc = os.environ.get("TPUTC", str(Path(sys.executable).parent / "tputc"))
    command = [tputc, "check", str(program), "--target", target, "--format", "json"]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE)
    if done.returncode == 2:
        raise SystemExit(f"{program.name} cannot be checked for {target}")
    found = json.loads(done.stdout)["cost"] or {"flops": 0.0, "hbm_bytes": 0.0}
    return found["flops"], found["hbm_bytes"]


def ratio(ours: list[float], theirs: list[float]) -> tuple[float, float, float]:
    """The median of the ratio of pairs, and its 95% bootstrap interval."""
    pairs = torch.tensor(ours) / torch.tensor(theirs)
    picks = torch.randint(len(pairs), (RESAMPLES, len(pairs)), generator=torch.Generator().manual_seed(0))
    medians = pairs[picks].median(dim=1).values
    low, high = medians.quantile(torch.tensor([0.025, 0.975])).tolist()
    return pairs.median().item(), low, high


def models(args: argparse.Namespace) -> None:
    import models as bench

    print("| model | mode | plain / eager | optimized / eager | optimized / plain |")
    print("|---|---|---:|---:|---:|")
    for name in (name for name in bench.ZOO if args.only in name):
        for mode in bench.MODES:
            backends = ("eager", bench.PLAIN, "torchtpu")
            rows = bench.measure(bench.ZOO[name], "full", mode, args.rounds, args.seconds, backends)
            print(f"| {name} | {mode} | {' | '.join(columns(rows))} |", flush=True)


def columns(rows: list[Any]) -> list[str]:
    of = {row.backend: row for row in rows}
    plain, ours = of["plain"], of["torchtpu"]
    if failure := plain.failure or ours.failure:
        return ["", "", failure.splitlines()[0]]
    texts = [f"{r.of_eager[0]:.2f} ({r.of_eager[1]:.2f}..{r.of_eager[2]:.2f})" for r in (plain, ours)]
    return [*texts, f"{ours.median[0] / plain.median[0]:.2f}"]


if __name__ == "__main__":
    main()
