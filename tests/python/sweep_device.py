"""Runs one of PyTorch's databases on the device and the CPU, case by case, in a process that may die.

    python tests/python/sweep_device.py ops | compiled | suites | behaviours LOG [--only WORD] [--again]

Each case's verdict is a line of LOG (JSON). A sweep that was stopped goes on where it was: cases that LOG has are left
out, but with --again those that were not right. TORCHTPU_SHARD=i/n takes every n-th case. It fails if too few of the
cases are right, or a process died.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import device_exclusions
import sweep_log

# The share of the cases that has to be right. Of the ops some execute nothing, such as `contiguous`, and do not count.
WANTED = {"ops": 0.97, "compiled": 0.97, "suites": 0.97, "behaviours": 0.97}
# Cases that one process runs: its executables are never let go of.
MOST_CASES = 150
SECONDS_PER_CASE = 120


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suite", choices=WANTED)
    parser.add_argument("log", type=Path)
    parser.add_argument("--only", help="cases whose names hold this")
    parser.add_argument("--again", action="store_true", help="run those again that were not right")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        work(args)
        return 0
    if args.again:
        keep = [v for v in verdicts(args.log).values() if v["status"] == "right" or (args.only or "") not in v["case"]]
        sweep_log.write(args.log, keep)
    while (status := worker(args)) != 0:
        mark_crash(args.log, status)
    return report(args)


def worker(args: argparse.Namespace) -> int:
    """Runs a process until it has nothing left to do or dies; gives how it ended."""
    only = ["--only", args.only] if args.only else []
    command = [sys.executable, __file__, args.suite, str(args.log), "--work", *only]
    while True:
        before = len(verdicts(args.log))
        status = subprocess.run(command, check=False).returncode
        if status != 0 or len(verdicts(args.log)) == before:
            return status


def cases(suite: str) -> list[Any]:
    """All cases: each has a name and can be run."""
    match suite:
        case "ops":
            import opdb

            return opdb.pairs()
        case "compiled":
            import opdb

            return opdb.pairs(compiled=True)
        case "suites":
            import suites

            return suites.cases()
        case _:
            import behaviours

            return behaviours.cases()


def work(args: argparse.Namespace) -> None:
    import torch

    if args.suite in ("ops", "compiled"):
        os.environ["TORCHTPU_FALLBACK"] = "error"
    torch.set_num_threads(2)
    done = verdicts(args.log)
    todo = [c for c in sweep_log.shard(cases(args.suite)) if c.name not in done and (args.only or "") in c.name]
    signal.signal(signal.SIGALRM, give_up)
    with args.log.open("a", buffering=1) as file:
        for case in todo[:MOST_CASES]:
            file.write(sweep_log.line({"case": case.name, "status": "started"}))
            file.write(sweep_log.line(verdict(case)))


def give_up(*_: object) -> None:
    raise TimeoutError(f"takes more than {SECONDS_PER_CASE} s")


def verdict(case: Any) -> dict[str, Any]:
    import opdb
    from torchtpu import device as tpu

    before, ran, passed, made, start = tpu.fallbacks(), executions(), passed_on(), opdb.Made.storages, time.time()
    result: dict[str, Any] = {"case": case.name, "status": "right"}
    signal.alarm(SECONDS_PER_CASE)
    try:
        case.run()
    except AssertionError as error:
        result |= {"status": "wrong", "why": why(error)}
    except Exception as error:
        result |= {"status": "refused", "why": f"{type(error).__name__}: {why(error)}"}
    finally:
        signal.alarm(0)
    on_host = {op for (op, line), n in tpu.fallbacks().items() if n != before.get((op, line))}
    made = opdb.Made.storages - made
    if isinstance(case, opdb.Pair) and result["status"] == "right" and executions() == ran and made == 0:
        result |= {"status": "unexecuted", "why": "nothing was executed for it"}
    result["idle"] = 0 < executions() - ran == passed_on() - passed
    result["empty"] = made > 0 and executions() == ran
    return result | {"seconds": round(time.time() - start, 2), "host": sorted(on_host)}


def executions() -> int:
    """How many compiled graphs and eager ops were executed so far."""
    import torchtpu

    stats = torchtpu.stats()
    return int(stats["executions"] + stats["eager"]["executions"] + stats["eager"]["shared"])


def passed_on() -> int:
    """How many of them took no program, since their results are their inputs, as those of `clone` are until a write."""
    import torchtpu

    stats = torchtpu.stats()
    return int(stats["shared"] + stats["eager"]["shared"])


def why(error: Exception) -> str:
    return "\n".join([str(error)[:800], *(note[:300] for note in getattr(error, "__notes__", []))])


def verdicts(log: Path) -> dict[str, dict[str, Any]]:
    """The last word on each case."""
    return sweep_log.read(log, "case")


def mark_crash(log: Path, status: int) -> None:
    unfinished = [name for name, v in verdicts(log).items() if v["status"] == "started"]
    if not unfinished:
        raise SystemExit(f"the worker ended with {status} before its first case")
    with log.open("a") as file:
        for name in unfinished:
            file.write(sweep_log.line({"case": name, "status": "crashed", "why": f"exit status {status}"}))


def report(args: argparse.Namespace) -> int:
    every = verdicts(args.log).values()
    right = sum(v["status"] == "right" for v in every)
    crashed = [v["case"] for v in every if v["status"] == "crashed"]
    unlisted = [v["case"] for v in every if v["status"] != "right" and v["case"] not in listed(args.suite)]
    on_host = sum(bool(v.get("host")) for v in every)
    print(f"{right} of {len(every)} cases are right ({right / max(len(every), 1):.2%}); {on_host} ran ops on the host")
    if idle := [v["case"] for v in every if v["status"] == "right" and v.get("idle")]:
        print(f"{len(idle)} of these only hand on their inputs, which takes no program: {', '.join(idle)}")
    if empty := [v["case"] for v in every if v["status"] == "right" and v.get("empty")]:
        print(f"{len(empty)} of these only make storages: {', '.join(empty)}")
    for v in every:
        if v["status"] != "right":
            print(f"  {v['status']:8} {v['case']}: {v['why'].splitlines()[0]}")
    if unlisted:
        print(f"not in device_exclusions.py, with a reason: {', '.join(unlisted)}")
    return 0 if every and right >= WANTED[args.suite] * len(every) and not crashed and not unlisted else 1


def listed(suite: str) -> set[str]:
    """The cases of which it is known why they are not right."""
    known: dict[str, dict[str, str]] = {
        "ops": device_exclusions.KNOWN_FAILURES | device_exclusions.UNEXECUTED,
        "compiled": device_exclusions.KNOWN_COMPILED_FAILURES | device_exclusions.UNEXECUTED_COMPILED,
        "suites": {},
        "behaviours": device_exclusions.KNOWN_MISBEHAVIOURS,
    }
    return set(known[suite])


if __name__ == "__main__":
    sys.exit(main())
