"""What our own optimizer is worth, pattern by pattern, and what it takes.

    python benches/fuse.py patterns [--only NAME] [--rounds N] [--page docs/optimizer.md]
    python benches/fuse.py tpu [--only NAME] [--target v5e:1x1] [--page docs/optimizer.md]
    python benches/fuse.py counts [--only NAME]
    python benches/fuse.py scale [--page docs/optimizer.md]

Patterns are the graphs of testdata/patterns: `patterns` runs each on the CPU plugin as it stands and optimized, in
turn in one process; `tpu` has libtpu compile both for the target, and compares flops, bytes and the roofline of what
it makes of them. Models are in `benches/fuse_models.py`, but for `counts`: how many
rewrites of each class are made in each model, all classes allowed. `scale` is what the optimizer itself takes: on
generated graphs of up to 20,000 ops, and on GPT-2 small's training step, which the plugin compiles, too. The tables
are Markdown; `--page` puts those of `patterns`, `tpu` and `scale` into a page, between their marks.
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
# The tool beside this Python, unless another is named.
TPUTC = os.environ.get("TPUTC", str(Path(sys.executable).parent / "tputc"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("patterns", "tpu", "counts", "scale"))
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--target", default="v5e:1x1")
    parser.add_argument("--page", type=Path, help="where the table goes, between its marks")
    parser.add_argument("--only", default="", help="patterns or models whose names hold this")
    args = parser.parse_args()
    if args.page and args.only:
        parser.error("a page's table holds all of them: leave out --only or --page")
    {"patterns": patterns, "tpu": on_tpu, "counts": counts, "scale": scale}[args.what](args)


def files(only: str) -> list[str]:
    return sorted(str(f) for f in PATTERNS.glob("*.txt") if only in f.stem)


def patterns(args: argparse.Namespace) -> None:
    command = ["cargo", "run", "-q", "--release", "-p", "torchtpu-driver", "--example", "patterns", "--"]
    table = ["| pattern | CPU, optimized / plain | 95% | rules |", "|---|---:|---|---|"]
    ratios = []
    for file in files(args.only):
        measured = lines([*command, str(args.rounds), file])[0]
        middle, low, high = ratio(measured["after"], measured["before"])
        ratios.append(middle)
        rules = ", ".join(sorted(set(measured["rules"])))
        table.append(f"| {measured['pattern']} | {middle:.2f} | {low:.2f}..{high:.2f} | {rules} |")
    if ratios:
        table += ["", f"Geometric mean on the CPU: {math.exp(statistics.fmean(map(math.log, ratios))):.2f}"]
    print("\n".join(table))
    if args.page:
        between_marks(args.page, "cpu-patterns", table)


def on_tpu(args: argparse.Namespace) -> None:
    found = tpu_costs(args.target, files(args.only))
    table = [
        f"| pattern, {args.target} | GFLOP | HBM MiB | roofline µs | rules |",
        "|---|---:|---:|---:|---|",
        *(f"| {one['name']} | {' | '.join(pairs(one))} | {', '.join(one['rules'])} |" for one in found),
        "",
        verdict(found),
    ]
    print("\n".join(table))
    if args.page:
        between_marks(args.page, "tpu-patterns", table)


def tpu_costs(target: str, programs: list[str]) -> list[dict[str, Any]]:
    """What libtpu makes of graphs in the text form, as they stand and optimized."""
    command = ["cargo", "run", "-q", "-p", "torchtpu-driver", "--example", "tpu_costs", "--"]
    return lines([*command, TPUTC, target, *programs])


def lines(command: list[str]) -> list[dict[str, Any]]:
    """What a command prints: a line of JSON each. It finds the plugins of this environment, active or not."""
    env = {**os.environ, "VIRTUAL_ENV": sys.prefix}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=ROOT, env=env)
    return [json.loads(line) for line in done.stdout.splitlines()]


MEASURES = {"flops": (1e9, "flops"), "hbm_bytes": (1 << 20, "bytes"), "seconds": (1e-6, "time")}


def pairs(one: dict[str, Any]) -> list[str]:
    """Before and after, or the number alone where nothing changed."""
    texts = []
    for measure, (unit, _) in MEASURES.items():
        before, after = (f"{one[side][measure] / unit:.3g}" for side in ("before", "after"))
        texts.append(before if before == after else f"{before} → {after}")
    return texts


def verdict(found: list[dict[str, Any]]) -> str:
    """Where optimizing made libtpu's own program worse, by more than a thousandth."""
    worse = [
        f"{one['name']} ({name} x{one['after'][measure] / max(one['before'][measure], 1e-12):.2f})"
        for one in found
        for measure, (_, name) in MEASURES.items()
        if one["after"][measure] > 1.001 * one["before"][measure]
    ]
    changed = sum(bool(one["rules"]) for one in found)
    return f"{changed} of {len(found)} patterns change. Worse than plain: {', '.join(worse) or 'none'}."


def between_marks(page: Path, name: str, text: list[str]) -> None:
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    before, rest = page.read_text().split(begin)
    _, after = rest.split(end)
    page.write_text("\n".join([before + begin, *text, end + after]))


def ratio(ours: list[float], theirs: list[float]) -> tuple[float, float, float]:
    """The median of the ratio of pairs, and its 95% bootstrap interval."""
    pairs = torch.tensor(ours) / torch.tensor(theirs)
    picks = torch.randint(len(pairs), (RESAMPLES, len(pairs)), generator=torch.Generator().manual_seed(0))
    medians = pairs[picks].median(dim=1).values
    low, high = medians.quantile(torch.tensor([0.025, 0.975])).tolist()
    return pairs.median().item(), low, high


CLASSES = ("exact", "reassociating", "precision-changing")


def counts(args: argparse.Namespace) -> None:
    import aot

    print(f"| model | mode | {' | '.join(CLASSES)} |")
    print("|---|---|---:|---:|---:|")
    for name in (name for name in aot.zoo.ZOO if args.only in name):
        for mode in aot.KINDS:
            trace = aot.capture(aot.zoo.ZOO[name], mode, torch.float32).to_bytes()
            command = [TPUTC, "fuse", "-", "--numerics", "fast", "--format", "json"]
            done = subprocess.run(command, input=trace, stdout=subprocess.PIPE)
            made = json.loads(done.stdout)["counts"] if done.returncode == 0 else {}
            print(f"| {name} | {mode} | {' | '.join(str(made.get(kind, '')) for kind in CLASSES)} |", flush=True)


NODES = (2_500, 5_000, 10_000, 20_000)


def scale(args: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder, "gpt2.json")
        trace.write_bytes(gpt2_step())
        runs = [*([str(nodes)] for nodes in NODES), [str(trace), "compile"]]
        command = ["cargo", "run", "-q", "--release", "-p", "torchtpu-driver", "--example", "scale", "--"]
        found = [lines([*command, *run])[0] for run in runs]
    table = [
        "| graph | ops | rules ms | regions ms | us an op | peak MiB | of a compile |",
        "|---|---:|---:|---:|---:|---:|---:|",
        *map(scale_row, found),
    ]
    print("\n".join(table))
    if args.page:
        between_marks(args.page, "scale", table)


def gpt2_step() -> bytes:
    """GPT-2 small's training step as a trace: forward, backward and AdamW."""
    import aot

    return aot.capture(aot.zoo.ZOO["gpt2"], "training", torch.float32).to_bytes()


def scale_row(one: dict[str, Any]) -> str:
    name = "generated" if one["program"].isdigit() else "GPT-2 small, training step"
    ours = one["rules_s"] + one["regions_s"]
    share = f"{ours / (one['import_s'] + ours + one['compile_s']):.1%}" if one["compile_s"] else ""
    times = f"{one['rules_s'] * 1e3:.0f} | {one['regions_s'] * 1e3:.0f} | {ours / one['nodes'] * 1e6:.0f}"
    return f"| {name} | {one['nodes']:,} | {times} | {one['peak_bytes'] / (1 << 20):.0f} | {share} |"


if __name__ == "__main__":
    main()
