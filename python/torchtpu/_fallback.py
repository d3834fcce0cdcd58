"""What becomes of ops that have no lowering."""

from __future__ import annotations

import os

from torchtpu._errors import Error

CHOICES = ("cpu", "error")


def by_default() -> str:
    """What ``TORCHTPU_FALLBACK`` says: ``"cpu"``, also where it says nothing, or ``"error"``.

    Raises:
        Error: it says something else.
    """
    said = os.environ.get("TORCHTPU_FALLBACK") or "cpu"
    if said not in CHOICES:
        raise Error(f"TORCHTPU_FALLBACK is {said!r}; it must be one of {', '.join(map(repr, CHOICES))}")
    return said
