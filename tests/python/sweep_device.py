"""Runs PyTorch's whole op database on the device and the CPU, pair by pair, in a process that may die.

    python tests/python/sweep_device_ops.py LOG [--only WORD] [--again]

Each pair's verdict is a line of LOG (JSON). A sweep that was stopped goes on where it was: pairs that LOG has are left
out, but with --again those that were not right. TORCHTPU_SHARD=i/n takes every n-th pair. It fails if less than 98% of
the pairs are right, or a process died.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

WANTED = 0.98
# Pairs that one process runs: its executables are never let go of.
MOST_PAIRS = 150
SECONDS_PER_PAIR = 120


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("log", type=Path)
    parser.add_argument("--only", help="pairs whose names hold this")
    parser.add_argument("--again", action="store_true", help="run those again that were not right")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        work(args.log, args.only)
        return 0
    if args.again:
        keep = [v for v in verdicts(args.log).values() if v["status"] == "right" or (args.only or "") not in v["pair"]]
        args.log.write_text("".join(json.dumps(v) + "\n" for v in keep))
    while (status := worker(args.log, args.only)) != 0:
        mark_crash(args.log, status)
    return report(args.log)


def worker(log: Path, only: str | None) -> int:
    """Runs a process until it has nothing left to do or dies; gives how it ended."""
    command = [sys.executable, __file__, str(log), "--work", *(["--only", only] if only else [])]
    while True:
        before = len(verdicts(log))
        status = subprocess.run(command, check=False).returncode
        if status != 0 or len(verdicts(log)) == before:
            return status


def work(log: Path, only: str | None) -> None:
    import opdb
    import torch

    torch.set_num_threads(2)
    index, count = map(int, os.environ.get("TORCHTPU_SHARD", "0/1").split("/"))
    done = verdicts(log)
    todo = [p for p in opdb.pairs()[index::count] if p.name not in done and (only or "") in p.name]
    signal.signal(signal.SIGALRM, give_up)
    with log.open("a", buffering=1) as file:
        for pair in todo[:MOST_PAIRS]:
            file.write(json.dumps({"pair": pair.name, "status": "started"}) + "\n")
            file.write(json.dumps(verdict(pair)) + "\n")


def give_up(*_: object) -> None:
    raise TimeoutError(f"takes more than {SECONDS_PER_PAIR} s")


def verdict(pair: Any) -> dict[str, Any]:
    import opdb
    from torchtpu import device as tpu

    before, start = tpu.fallbacks(), time.time()
    result: dict[str, Any] = {"pair": pair.name, "status": "right"}
    signal.alarm(SECONDS_PER_PAIR)
    try:
        opdb.check(pair)
    except opdb.Disagreement as error:
        result |= {"status": "wrong", "why": why(error)}
    except Exception as error:
        result |= {"status": "refused", "why": f"{type(error).__name__}: {why(error)}"}
    finally:
        signal.alarm(0)
    on_host = {op for (op, line), n in tpu.fallbacks().items() if n != before.get((op, line))}
    return result | {"seconds": round(time.time() - start, 2), "host": sorted(on_host)}


def why(error: Exception) -> str:
    return "\n".join([str(error)[:800], *(note[:300] for note in getattr(error, "__notes__", []))])


def verdicts(log: Path) -> dict[str, dict[str, Any]]:
    """The last word on each pair."""
    lines = log.read_text().splitlines() if log.exists() else []
    return {v["pair"]: v for v in map(json.loads, lines)}


def mark_crash(log: Path, status: int) -> None:
    open_pairs = [name for name, v in verdicts(log).items() if v["status"] == "started"]
    if not open_pairs:
        raise SystemExit(f"the worker ended with {status} before its first pair")
    with log.open("a") as file:
        for name in open_pairs:
            file.write(json.dumps({"pair": name, "status": "crashed", "why": f"exit status {status}"}) + "\n")


def report(log: Path) -> int:
    every = verdicts(log).values()
    right = sum(v["status"] == "right" for v in every)
    crashed = [v["pair"] for v in every if v["status"] == "crashed"]
    on_host = sum(bool(v.get("host")) for v in every)
    print(f"{right} of {len(every)} pairs are right ({right / max(len(every), 1):.2%}); {on_host} ran ops on the host")
    for v in every:
        if v["status"] != "right":
            print(f"  {v['status']:8} {v['pair']}: {v['why'].splitlines()[0]}")
    return 0 if every and right >= WANTED * len(every) and not crashed else 1


if __name__ == "__main__":
    sys.exit(main())
