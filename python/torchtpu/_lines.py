"""The user's line that a node of a captured graph comes from."""

from __future__ import annotations

from torch import fx
from torch.fx.graph import _parse_stack_trace


def line_of(node: fx.Node) -> tuple[str, int] | None:
    """Its file and line, if they are known."""
    frame = _parse_stack_trace(node.meta.get("stack_trace") or "")
    return (frame.file, int(frame.lineno)) if frame else None


def place_of(node: fx.Node) -> str:
    """The same as ``" (file.py:3)"``; empty if it is not known."""
    line = line_of(node)
    return f" ({line[0]}:{line[1]})" if line else ""
