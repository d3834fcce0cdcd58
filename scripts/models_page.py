"""Prints docs/models.md: the architectures that were compiled, and how near each is to eager PyTorch.

    python tests/python/sweep_models.py target/models.jsonl
    python scripts/models_page.py target/models.jsonl

It depends on the records alone, and leaves out what differs from one run to the next: order and seconds.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from typing import Any

Record = dict[str, Any]
LIBRARIES = ("timm", "torchvision", "transformers", "diffusers")
HEAD = """# Models

Architectures of other libraries through `torch.compile(backend="torchtpu")`, with `TORCHTPU_FALLBACK=error`: real
classes, small configurations, random weights. {right} of {all} agree with eager PyTorch. The 13 models of the
[zoo](../tests/python/zoo.py), which are tested in more ways, are not among them. Generated; do not edit.

`python tests/python/sweep_models.py target/models.jsonl` runs all of them (a quarter of an hour) and leaves out those
that the file has already; `make docs` makes this page of the file.

Of each, inference and one training step are compiled and compared with eager PyTorch on the CPU, in f32: outputs, and
caches where there are any; the loss, every gradient, and every parameter and buffer after a compiled step of SGD.

- **graphs**: what Dynamo made of inference, and of forward and loss in training. More than one where Dynamo breaks
  graphs; the reasons are below.
- **programs**: executables for inference, forward, backward and the optimizer together.
- **error**: the largest over all values, as a share of what is allowed. That is the tolerance of `torch.testing`; with
  an asterisk, where eager PyTorch errs too much itself for that, twice the distance of eager f32 from eager f64.
"""


def main() -> None:
    lines = Path(sys.argv[1]).read_text().splitlines()
    records = list({record["name"]: record for record in map(json.loads, lines)}.values())
    print(page(sorted(records, key=lambda record: record["name"])))


def page(records: list[Record]) -> str:
    right = sum(record["right"] for record in records)
    lines = [HEAD.format(right=right, all=len(records)), *kinds(records)]
    for library in LIBRARIES:
        of_it = [record for record in records if record.get("library") == library]
        lines += ["", f"## {library} {version(library).split('+')[0]}", ""]
        lines += ["| model | class | kind | parameters | inference | error | training | error | graphs | programs |"]
        lines += ["|---|---|---|--:|---|--:|---|--:|--:|--:|", *map(row, of_it)]
    if wrong := [record for record in records if not record["right"]]:
        lines += ["", "## What does not agree", "", *(f"- {record['name']}: {reason(record)}" for record in wrong)]
    return "\n".join([*lines, *breaks(records), *reads(records)])


def kinds(records: list[Record]) -> list[str]:
    counts = Counter(record.get("kind", "?") for record in records if record["right"])
    return ["| kind | agree |", "|---|--:|", *(f"| {kind} | {count} |" for kind, count in sorted(counts.items()))]


def row(record: Record) -> str:
    parts = [record["inference"], record["training"]]
    cells = [record["name"], f"`{record['class']}`", record["kind"], f"{record['parameters']:,}"]
    for part in parts:
        cells += ["no" if part.get("failure") else "yes", error(part)]
    cells += [" + ".join(str(part["graphs"]) for part in parts), str(record["programs"])]
    return f"| {' | '.join(cells)} |"


def error(part: Record) -> str:
    """In one digit: the next one differs from processor to processor."""
    if "error" not in part:
        return ""
    star = "*" if part["judged"] == "f64" else ""
    return ("<0.01" if part["error"] < 0.01 else f"{part['error']:.1g}") + star


def reason(record: Record) -> str:
    failures = [record.get("failure"), *(record.get(part, {}).get("failure") for part in ("inference", "training"))]
    return "; ".join(str(failure).splitlines()[0] for failure in failures if failure)


def breaks(records: list[Record]) -> list[str]:
    found = {}
    for record in records:
        whys = {why for part in ("inference", "training") for why in record.get(part, {}).get("why", [])}
        if whys:
            found[record["name"]] = sorted(whys)
    if not found:
        return []
    return ["", "## Where Dynamo breaks graphs", "", *(f"- {name}: {'; '.join(whys)}" for name, whys in found.items())]


def reads(records: list[Record]) -> list[str]:
    found = {record["name"]: record["reads"] for record in records if record.get("reads")}
    if not found:
        return []
    listed = [f"- {name}: {', '.join(f'`{op}`' for op in ops)}" for name, ops in found.items()]
    return [
        "",
        "## What is waited for",
        "",
        "Sizes and numbers that are data, read in the middle of a graph.",
        "",
        *listed,
    ]


if __name__ == "__main__":
    main()
