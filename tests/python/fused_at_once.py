"""Fused mode with nothing left to time: each region is compiled, and waited for, the first time it comes.

As a plugin, `pytest -p fused_at_once`, it makes that the mode of tests that choose none.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torchtpu import device

# Bits of TpuMode, csrc/abi.h.
_FUSED, _DETERMINISTIC, _AT_ONCE = 4, 8, 16
_BITS = _FUSED | _DETERMINISTIC | _AT_ONCE


def pytest_configure() -> None:
    """Called for plugins only."""
    device._shim().set_mode(_BITS, True)


@contextmanager
def fused_at_once() -> Iterator[None]:
    """Runs this thread's eager ops so."""
    shim = device._shim()
    before = shim.mode()
    shim.set_mode(_BITS, False)
    try:
        yield
    finally:
        shim.set_mode(before, False)
