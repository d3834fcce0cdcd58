"""Resizing, kept whole while programs are traced.

PyTorch's tracer has Python kernels for ``interpolate``'s ops, which index the sources of every result: a gather, and a
scatter for its gradient. Our lowering knows which they are, and takes slices. So the tracer is not to find those
kernels, unless sizes are symbols: those, the ops' own kernels would fix.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch._C import DispatchKey

from torchtpu import _native

_KEYS = (DispatchKey.Autograd, DispatchKey.CompositeImplicitAutograd)


@contextlib.contextmanager
def resizing_whole(inputs: Sequence[Any] = ()) -> Iterator[None]:
    """Keeps ``interpolate``'s ops in what is traced of ``inputs``. PyTorch lets one thread trace at a time."""
    ops = [] if any(map(_is_symbolic, inputs)) else _resizing_ops()
    kept = [dict(op.py_kernels) for op in ops]
    for op in ops:
        for key in _KEYS:
            op.py_kernels.pop(key, None)
        op._dispatch_cache.clear()
    try:
        yield
    finally:
        for op, kernels in zip(ops, kept, strict=True):
            op.py_kernels.update(kernels)
            op._dispatch_cache.clear()


def _is_symbolic(value: Any) -> bool:
    sizes = value.shape if isinstance(value, torch.Tensor) else [value]
    return any(isinstance(size, torch.SymInt) for size in sizes)


@functools.cache
def _resizing_ops() -> list[Any]:
    names = (name.removeprefix("aten::").split(".") for name in _native.op_names() if "upsample_" in name)
    return [getattr(getattr(torch.ops.aten, packet), overload) for packet, overload in names]
