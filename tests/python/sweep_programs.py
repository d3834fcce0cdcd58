"""Random programs in the reference evaluator, on the CPU plugin and in PyTorch: where they disagree.

    python tests/python/sweep_programs.py LOG [--programs 0:10000] [--again] [--shrink]

The programs are numbered by their seeds. Each one's verdict is a line of LOG (JSON); a sweep that was stopped goes on
where it was; with --again, also those are run again that disagreed or have become other programs. TORCHTPU_SHARD=i/n
takes every n-th program. With --shrink, those that disagree are made small. It fails if any disagrees, or a process
died. What it says at the end: which ops the programs hold, and which they cannot.
"""

from __future__ import annotations

import argparse
import collections
import hashlib
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import sweep_log

# Programs that one process runs: its executables are never let go of.
MOST_PROGRAMS = 250


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log", type=Path)
    parser.add_argument("--programs", default="0:10000", help="seeds, from the first up to, not including, the second")
    parser.add_argument("--again", action="store_true", help="run those again that disagreed or have changed")
    parser.add_argument("--shrink", action="store_true", help="make programs that disagree small")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        work(args)
        return 0
    if args.again:
        keep = [v for v in verdicts(args.log).values() if v["status"] == "agree" and v["sum"] == check_sum(v["seed"])]
        sweep_log.write(args.log, keep)
    while remaining(args):
        command = [sys.executable, __file__, str(args.log), "--programs", args.programs, "--work"]
        status = subprocess.run([*command, *(["--shrink"] if args.shrink else [])], check=False).returncode
        if status != 0:
            mark_crash(args.log, status)
        progress(args)
    return report(args)


def seeds(args: argparse.Namespace) -> list[int]:
    first, last = map(int, args.programs.split(":"))
    return sweep_log.shard(list(range(first, last)))


def verdicts(log: Path) -> dict[int, dict[str, Any]]:
    """The last word on each program."""
    return sweep_log.read(log, "seed")


def remaining(args: argparse.Namespace) -> list[int]:
    done = {seed for seed, v in verdicts(args.log).items() if v["status"] != "started"}
    return [seed for seed in seeds(args) if seed not in done]


def work(args: argparse.Namespace) -> None:
    import torch
    from three_ways import Evaluator

    os.environ["TORCHTPU_CACHE_DIR"] = ""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    evaluator = Evaluator()
    with args.log.open("a", buffering=1) as file:
        for seed in remaining(args)[:MOST_PROGRAMS]:
            file.write(sweep_log.line({"seed": seed, "status": "started"}))
            file.write(sweep_log.line(verdict(seed, evaluator, args.shrink)))
    evaluator.close()


def verdict(seed: int, evaluator: Any, shrink: bool) -> dict[str, Any]:
    from programs import Rejected, Step, text
    from random_programs import Generator
    from three_ways import Minimiser, complaints

    start = time.time()
    generator = Generator(seed)
    program = generator.make()
    ops = [node.op.name() for node in program.nodes if isinstance(node, Step)]
    result: dict[str, Any] = {"seed": seed, "status": "agree", "ops": ops}
    result["sum"] = hashlib.sha256(text(program).encode()).hexdigest()[:16]
    try:
        found = complaints(program, evaluator)
    except Rejected as error:
        return result | {"status": "unsteady", "why": [str(error)], "program": text(program)}
    if found.exact_only:
        result["exact_only"] = True
    if found:
        result |= {"status": "disagree", "why": [str(c) for c in found]}
        small = Minimiser(evaluator, found[0]).smallest(program) if shrink else program
        result |= {"program": text(small), "small": [str(c) for c in complaints(small, evaluator)]}
    return result | {"seconds": round(time.time() - start, 2)}


def check_sum(seed: int) -> str:
    """What tells a program from others."""
    import torch
    from programs import text
    from random_programs import Generator

    torch.set_num_threads(1)
    return hashlib.sha256(text(Generator(seed).make()).encode()).hexdigest()[:16]


def mark_crash(log: Path, status: int) -> None:
    unfinished = [seed for seed, v in verdicts(log).items() if v["status"] == "started"]
    if not unfinished:
        raise SystemExit(f"the worker ended with {status} before its first program")
    with log.open("a") as file:
        for seed in unfinished:
            file.write(sweep_log.line({"seed": seed, "status": "crashed", "why": [f"exit status {status}"]}))


def progress(args: argparse.Namespace) -> None:
    wanted = set(seeds(args))
    done = [v for seed, v in verdicts(args.log).items() if seed in wanted]
    bad = sum(v["status"] != "agree" for v in done)
    print(
        f"{len(done)} of {len(wanted)} programs, {bad} wrong, {sum(v.get('seconds', 0) for v in done):.0f} s",
        flush=True,
    )


def report(args: argparse.Namespace) -> int:
    from random_programs import table

    wanted = set(seeds(args))
    done = {seed: v for seed, v in verdicts(args.log).items() if seed in wanted}
    bad = {seed: v for seed, v in done.items() if v["status"] != "agree"}
    for seed, v in sorted(bad.items()):
        print(f"program {seed} {v['status']}: {'; '.join(v['why'][:3])[:600]}\n{v.get('program', '')}")
    placed = collections.Counter(op for v in done.values() for op in v.get("ops", []))
    ops = table()
    left_out = collections.Counter(op.left_out for op in ops if op.left_out)
    never = [op.name for op in ops if not op.left_out and not any(placed[o.name()] for o in op.overloads)]
    steps, longest = sum(placed.values()), max(len(v.get("ops", [])) for v in done.values())
    exact_only = sum(v.get("exact_only", False) for v in done.values())
    print(f"{len(done)} programs, {len(bad)} wrong; {steps} steps, at most {longest}")
    print(f"{exact_only} of them hold infinities and are right in exact numerics only")
    print(f"{len(ops) - sum(left_out.values()) - len(never)} of {len(ops)} ops placed ({len(placed)} overloads)")
    print("left out: " + "; ".join(f"{n}: {reason}" for reason, n in left_out.most_common()))
    print(f"never placed: {', '.join(never) or 'none'}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
