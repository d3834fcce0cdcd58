"""The log of a sweep: a line of JSON for each case, the last one of a case counts; and which cases are this shard's."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

Case = TypeVar("Case")
Entry = dict[str, Any]


def read(log: Path, key: str) -> dict[Any, Entry]:
    """The last word on each case, which an entry names under `key`."""
    lines = log.read_text().splitlines() if log.exists() else []
    return {entry[key]: entry for entry in map(json.loads, lines)}


def write(log: Path, entries: Iterable[Entry]) -> None:
    """Makes these all that there is."""
    log.write_text("".join(map(line, entries)))


def line(entry: Entry) -> str:
    return json.dumps(entry) + "\n"


def shard(cases: list[Case]) -> list[Case]:
    """Every n-th case from the i-th on, for TORCHTPU_SHARD=i/n."""
    index, count = map(int, os.environ.get("TORCHTPU_SHARD", "0/1").split("/"))
    return cases[index::count]
