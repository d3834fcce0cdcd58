"""Finds PJRT plugins among the installed packages."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import warnings
from importlib.metadata import entry_points
from pathlib import Path

from torchtpu import _native
from torchtpu._errors import Error

_chosen: list[str] = []


def _offer_blas() -> None:
    """Says who multiplies for programs on CPUs: PyTorch's MKL, if it has one, or what ``TORCHTPU_CPU_BLAS`` names."""
    named = os.environ.get("TORCHTPU_CPU_BLAS")
    if named:
        _native.use_blas(named, named=True)
    torch = importlib.util.find_spec("torch")
    if named is None and torch and torch.origin:
        _native.use_blas(str(Path(torch.origin).parent / "lib" / "libtorch_cpu.so"), named=False)


_offer_blas()


def set_plugin(plugin: str) -> None:
    """Chooses the plugin that programs run on from here on: ``"cpu"``, ``"tpu"``, or the path of a PJRT library.

    Call it before the first compile; programs compiled earlier stay where they are.

    Raises:
        Error: there is no such plugin, or it cannot be loaded.
    """
    path = find(plugin)
    _native.load_plugin(path)
    _chosen[:] = [path]


def current(plugin: str | os.PathLike[str] | None = None) -> str:
    """The library to load: ``plugin``, or what :func:`set_plugin` chose, or ``TORCHTPU_PLUGIN``, or the CPU's."""
    _warn_of_cache()
    if plugin is None and _chosen:
        return _chosen[0]
    return find(os.fspath(plugin or os.environ.get("TORCHTPU_PLUGIN") or "cpu"))


@functools.cache
def _warn_of_cache() -> None:
    if fault := _native.cache_fault():
        folder, why = fault
        warnings.warn(
            f"nothing that is compiled can be kept for other processes: {folder}: {why}. TORCHTPU_CACHE_DIR names "
            "another folder; empty, it keeps nothing, and this warning away",
            stacklevel=3,
        )


@functools.cache
def find(plugin: str) -> str:
    """The path of a plugin's library."""
    if plugin == "tpu":
        return libtpu()
    if plugin == "cpu":
        return _xla_cpu()
    if not Path(plugin).is_file():
        raise Error(f"no PJRT plugin {plugin!r}: it is neither 'cpu' nor 'tpu' nor a file")
    return str(Path(plugin).resolve())


def libtpu() -> str:
    """The path of the installed libtpu."""
    spec = importlib.util.find_spec("libtpu")
    for folder in spec.submodule_search_locations or [] if spec else []:
        if (library := Path(folder, "libtpu.so")).is_file():
            return str(library)
    raise Error("the TPU plugin is not installed; `pip install libtpu` brings it (under Google's licence)")


def _xla_cpu() -> str:
    for entry in entry_points(group="xla_plugins"):
        if "cpu" not in entry.name:
            continue
        folder = Path(importlib.import_module(entry.value).__file__ or "").parent
        if libraries := sorted(folder.glob("*.so")):
            return str(libraries[0])
    raise Error("the CPU plugin is not installed; `pip install xla-cpu-pjrt==0.0.1` brings it")
