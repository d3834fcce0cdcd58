"""What can go wrong, as a user sees it."""

from __future__ import annotations

import re


class Error(RuntimeError):
    """Any error of TorchTPU. The message says what to do about it.

    Attributes:
        op: the aten op that was being treated, such as ``aten::nonzero.default``, or ``None``.
        reason: what is wrong, without the place.
        node: the name of its node in the captured graph, or ``None``.
        file: the user's Python file, or ``None`` where it is not known.
        line: the line in it, or ``None``.
    """

    op: str | None = None
    reason: str | None = None
    node: str | None = None
    file: str | None = None
    line: int | None = None

    def __init__(self, message: str = "") -> None:
        # The native half spells its advice for the command line.
        super().__init__(re.sub(r"`--dim (\w+)=(\d+)`", r'`dims={"\1": \2}`', message))


class UnsupportedOp(Error):
    """The program is fine, but an op in it has no lowering, and falling back to the host was forbidden."""


class DataDependentOp(UnsupportedOp):
    """What an op gives, or the extents of its results, is data: it cannot be inside of a compiled part."""


class CompileError(Error):
    """The program was rejected: by our checks, or by the plugin's compiler."""


class NoSuchIndex(CompileError, IndexError):
    """A dimension or place that a tensor does not have: PyTorch raises an ``IndexError``."""


class WrongType(CompileError, TypeError):
    """An element type that makes no sense there: PyTorch raises a ``TypeError``."""


class NoKernel(CompileError, NotImplementedError):
    """An element type that PyTorch has no kernel for either: it raises a ``NotImplementedError``."""


class ExecutionError(Error):
    """A compiled program could not be run: wrong arguments, or the plugin failed."""
