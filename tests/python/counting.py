"""How many programs were made."""

from __future__ import annotations

import time

import torchtpu

# A program takes seconds at most; what takes longer than this never ends.
PATIENCE = 120.0


def programs() -> int:
    """Programs made or found on disk so far, once no region of fused mode, of any test, is still being compiled."""
    deadline = time.monotonic() + PATIENCE
    while torchtpu.stats()["eager"]["regions"]["compiling"]:
        assert time.monotonic() < deadline, "a region is still being compiled"
        time.sleep(0.001)
    stats = torchtpu.stats()
    return int(stats["compiles"]) + int(stats["disk_hits"])
