"""What fused mode did with eager ops, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torchtpu import _native

_MOST_SHOWN = 10


@dataclass(frozen=True)
class EagerRegion:
    """Ops that were recorded between two cuts, and run together.

    Attributes:
        number: of this region, in the order that regions were first met.
        name: the first and the last line, as ``function:line to function:line``.
        ops: how many eager ops it bundles.
        occurrences: how often it came.
        runs: how often it ran as one program. The others ran op by op.
        state: ``"seen"``, ``"compiling"``, ``"compiled"``, or why it could not be compiled.
        compile_seconds: what optimizing and compiling it took, beside the program.
        lines: the lines with the most ops, as ``("file:line", ops)``.
        instead_of: what made it a new region where one was known that began alike; empty if none did.
    """

    number: int
    name: str
    ops: int
    occurrences: int
    runs: int
    state: str
    compile_seconds: float
    lines: tuple[tuple[str, int], ...]
    instead_of: str


@dataclass(frozen=True)
class EagerCut:
    """Why regions ended.

    Attributes:
        why: the cause.
        line: the line that asked; empty if that is not known.
        count: how often.
        read_back: bytes that went through memory there, all times together: what the ops behind read of what those
            before had made. Without the cut they could be fused.
    """

    why: str
    line: str
    count: int
    read_back: int


@dataclass(frozen=True)
class EagerReport:
    """What fused mode did so far.

    Attributes:
        recorded: how many ops were recorded.
        regions: those that are remembered, those with the most ops times occurrences first.
        cuts: by cause and line, the most frequent first.
        sequence: a hash of the regions in the order they came, the same for every process that runs the same script.
    """

    recorded: int
    regions: tuple[EagerRegion, ...]
    cuts: tuple[EagerCut, ...]
    sequence: int

    def __str__(self) -> str:
        runs = sum(region.ops * region.runs for region in self.regions)
        share = f"{runs / self.recorded:.0%}" if self.recorded else "none"
        lines = [f"{self.recorded} eager ops were recorded; {share} of them ran within programs of several ops."]
        if self.regions:
            lines += ["", f"{'ops':>6} {'came':>7} {'as one':>7}  region"]
        for region in self.regions[:_MOST_SHOWN]:
            lines.append(
                f"{region.ops:6} {region.occurrences:7} {region.runs:7}  {region.number}: {region.name}, {region.state}"
            )
            lines += [f"{'':24}{ops} ops at {line or 'no line of yours'}" for line, ops in region.lines[:3]]
            if region.instead_of:
                lines.append(f"{'':24}{region.instead_of}")
        if len(self.regions) > _MOST_SHOWN:
            lines.append(f"{'':24}and {len(self.regions) - _MOST_SHOWN} more regions")
        if self.cuts:
            lines += ["", f"{'cuts':>6}  cause"]
        lines += [_cut(cut) for cut in self.cuts[:_MOST_SHOWN]]
        return "\n".join(lines)


def _cut(cut: EagerCut) -> str:
    place = f", at {cut.line}" if cut.line else ""
    bytes = cut.read_back / cut.count
    size = f"{bytes / 1e6:.1f} MB" if bytes >= 1e5 else f"{bytes / 1e3:.1f} kB"
    back = f"; {size} each time is read back behind it" if cut.read_back else ""
    return f"{cut.count:6}  {cut.why}{place}{back}"


def explain_eager() -> EagerReport:
    """What fused mode (:func:`torchtpu.eager_mode`) did with eager ops so far.

    The regions it found and how they ran, where it had to cut and which lines asked for that, and what kept known
    regions from being found again. Print it, or look into it.
    """
    told = _native.device_regions()
    return EagerReport(
        recorded=told["recorded"],
        regions=tuple(_region(region) for region in told["regions"]),
        cuts=tuple(EagerCut(*cut) for cut in told["cuts"]),
        sequence=told["sequence"],
    )


def _region(told: dict[str, Any]) -> EagerRegion:
    return EagerRegion(
        number=told["number"],
        name=told["name"],
        ops=told["calls"],
        occurrences=told["occurrences"],
        runs=told["runs"],
        state=told["state"],
        compile_seconds=told["compile_seconds"],
        lines=tuple(told["lines"]),
        instead_of=_difference(told["instead_of"]),
    )


def _difference(told: tuple[int, str, str] | None) -> str:
    if told is None:
        return ""
    number, op, line = told
    if op == "end":
        return f"ends where region {number} goes on"
    if not op:
        return f"has the ops of region {number}, but other results of them are still held"
    return f"began as region {number}, which has another op, shape or operand where this has {op} at {line or '?'}"
