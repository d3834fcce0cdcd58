"""Forked processes: the plugin's threads stay with the parent, and compiling would wait for them forever."""

from __future__ import annotations

import os

from torchtpu._errors import Error

_state = {"used": False, "forked": False}


def about_to_compile() -> None:
    """Notes that this process has the plugin's threads.

    Raises:
        Error: it is a fork of one that had them.
    """
    if _state["forked"]:
        raise Error(
            "torchtpu cannot compile in a forked process whose parent has used it: the plugin's threads are not here. "
            'Start workers with the "spawn" or "forkserver" context, such as '
            'DataLoader(..., multiprocessing_context="spawn")'
        )
    _state["used"] = True


def _in_child() -> None:
    _state["forked"] = _state["used"]


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_in_child)
