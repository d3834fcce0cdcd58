"""The user's line that something comes from."""

from __future__ import annotations

import os
import traceback
from pathlib import Path

import torch
from torch import fx
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from torch.fx.graph import _parse_stack_trace

# What PyTorch raises when an op is traced that gives data, or as much as the data says.
DATA_DEPENDENT = (DataDependentOutputException, DynamicOutputShapeException)

_NOT_THE_USERS = tuple(f"{Path(package).parent}{os.sep}" for package in (torch.__file__, __file__))


def line_of(node: fx.Node) -> tuple[str, int] | None:
    """Its file and line, if they are known."""
    frame = _parse_stack_trace(node.meta.get("stack_trace") or "")
    return (frame.file, int(frame.lineno)) if frame else None


def line_in(error: BaseException) -> tuple[str, int] | None:
    """The file and line outside of PyTorch and of this package that last led to it."""
    frames = reversed(traceback.extract_tb(error.__traceback__))
    return next(((f.filename, f.lineno or 0) for f in frames if not f.filename.startswith(_NOT_THE_USERS)), None)


def place_of(node: fx.Node) -> str:
    """The same as ``" (file.py:3)"``; empty if it is not known."""
    return _place(line_of(node))


def place_in(error: BaseException) -> str:
    return _place(line_in(error))


def _place(line: tuple[str, int] | None) -> str:
    return f" ({line[0]}:{line[1]})" if line else ""
