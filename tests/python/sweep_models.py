"""Runs the architectures through torch.compile, in processes that may die, and writes down how near they are to eager.

    python tests/python/sweep_models.py RECORDS [NAME ...] [--again] [--backend aot_eager]

Each model's record is a line of RECORDS (JSON); models that have one are left out, but with --again those that were
not right. TORCHTPU_SHARD=i/n takes every n-th model. `scripts/models_page.py` makes docs/models.md of the records.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import sweep_log

# Models that one process runs: importing the libraries takes as long as a small model.
MOST_MODELS = 10
SECONDS_PER_PROCESS = 3600
BEGUN = "begun"

Record = dict[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("records", type=Path)
    parser.add_argument("names", nargs="*", help="models to run; all if none is named")
    parser.add_argument("--again", action="store_true", help="run those again that were not right")
    parser.add_argument("--backend", default="torchtpu")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        work(args)
        return 0
    if args.again:
        again = [record for record in read(args.records).values() if not record["right"]]
        forget(args.records, {record["name"] for record in again if record["name"] in (args.names or todo([]))})
    while missing := [name for name in todo(args.names) if name not in read(args.records)]:
        run(args, missing[:MOST_MODELS])
    return report(read(args.records))


def todo(names: list[str]) -> list[str]:
    from architectures import ARCHITECTURES

    if unknown := set(names) - ARCHITECTURES.keys():
        raise SystemExit(f"no such model: {', '.join(sorted(unknown))}")
    return names or sweep_log.shard(list(ARCHITECTURES))


def run(args: argparse.Namespace, names: list[str]) -> None:
    """Runs a process over some models. It writes down which one it begins with, in case that kills it."""
    command = [sys.executable, __file__, args.records, *names, "--backend", args.backend, "--work"]
    try:
        status = f"exit status {subprocess.run(command, check=False, timeout=SECONDS_PER_PROCESS).returncode}"
    except subprocess.TimeoutExpired:
        status = f"takes more than {SECONDS_PER_PROCESS} s"
    begun = [record["name"] for record in read(args.records).values() if record.get("failure") == BEGUN]
    if not begun and not any(name in read(args.records) for name in names):
        raise SystemExit(f"the process ended with {status} before its first model")
    for name in begun:
        add(args.records, {"name": name, "right": False, "failure": f"killed the process: {status}"})


def work(args: argparse.Namespace) -> None:
    os.environ["TORCHTPU_FALLBACK"] = "error"
    import torch

    torch.set_num_threads(1)
    from architectures import ARCHITECTURES
    from architectures.agreement import examine

    for name in args.names:
        add(args.records, {"name": name, "right": False, "failure": BEGUN})
        start, used = time.time(), time.process_time()
        record = examine(ARCHITECTURES[name], args.backend)
        add(args.records, record)
        seconds = f"{time.time() - start:.1f} s, {time.process_time() - used:.1f} s of processor time"
        print("right" if record["right"] else f"WRONG ({reason(record)})", name, seconds, flush=True)


def add(records: Path, record: Record) -> None:
    with records.open("a") as file:
        file.write(sweep_log.line(record))


def forget(records: Path, names: set[str]) -> None:
    sweep_log.write(records, [record for name, record in read(records).items() if name not in names])


def read(records: Path) -> dict[str, Record]:
    """The last word on each model."""
    return sweep_log.read(records, "name")


def report(records: dict[str, Record]) -> int:
    wrong = [record for record in records.values() if not record["right"]]
    print(f"{len(records) - len(wrong)} of {len(records)} models are right")
    for record in wrong:
        print(f"  {record['name']}: {reason(record)}")
    return 1 if wrong else 0


def reason(record: Record) -> str:
    if failure := record.get("failure"):
        return str(failure).splitlines()[0]
    parts = [
        f"{part}: {record[part]['failure'].splitlines()[0]}"
        for part in ("inference", "training")
        if record[part].get("failure")
    ]
    return "; ".join(parts + [f"on the host: {', '.join(record['host'])}"] * bool(record["host"]))


if __name__ == "__main__":
    sys.exit(main())
