"""Fused mode with nothing left to time: each region is compiled, and waited for, the first time it comes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torchtpu import device

# Bits of TpuMode, csrc/abi.h.
_FUSED, _DETERMINISTIC, _AT_ONCE = 4, 8, 16


@contextmanager
def fused_at_once() -> Iterator[None]:
    """Runs this thread's eager ops so."""
    shim = device._shim()
    before = shim.mode()
    shim.set_mode(_FUSED | _DETERMINISTIC | _AT_ONCE, False)
    try:
        yield
    finally:
        shim.set_mode(before, False)
