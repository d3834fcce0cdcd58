"""Same input, same bytes: in other processes, with other seeds of Python's hashes, with other numbers of threads.

`TORCHTPU_SAME_RUNS` says how many processes; `make test-all` asks for 50.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

RUNS = int(os.environ.get("TORCHTPU_SAME_RUNS", "2"))
THREADS = (1, 2, 4)


def digests(run: int) -> dict[str, str]:
    env = {**os.environ, "PYTHONHASHSEED": str(run), "OMP_NUM_THREADS": str(THREADS[run % 3])}
    command = [sys.executable, str(Path(__file__).with_name("same_bytes.py")), str(THREADS[run % 3])]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_every_process_makes_the_same_bytes() -> None:
    with ThreadPoolExecutor(2) as pool:
        first, *others = pool.map(digests, range(RUNS))
    assert len(set(first.values())) == 8, "two models, each as a trace and at three stages"
    for run, found in enumerate(others, 1):
        assert found == first, f"run {run} differs"
