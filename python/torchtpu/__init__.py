"""PyTorch on TPUs: ``torch.compile(model, backend="torchtpu")`` and ``device="tpu"``.

The compiler is Rust (``torchtpu._native``); this package captures graphs, hands them over, and passes tensors without
copying them. Importing it is optional: PyTorch finds the backend and the device through entry points. Because ``import
torch`` itself imports this package, nothing here pulls in torch.compile before it is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from torchtpu._errors import CompileError, Error, ExecutionError, UnsupportedOp
from torchtpu._native import __version__

if TYPE_CHECKING:
    from torchtpu._capture import Trace, capture, lower
    from torchtpu._check import Report, check
    from torchtpu._fused import EagerCut, EagerRegion, EagerReport, explain_eager
    from torchtpu._plugins import set_plugin
    from torchtpu._stats import stats
    from torchtpu._step import Step, capture_step
    from torchtpu.device import eager_mode

__all__ = [
    "CompileError",
    "EagerCut",
    "EagerRegion",
    "EagerReport",
    "Error",
    "ExecutionError",
    "Report",
    "Step",
    "Trace",
    "UnsupportedOp",
    "__version__",
    "capture",
    "capture_step",
    "check",
    "eager_mode",
    "explain_eager",
    "lower",
    "set_plugin",
    "stats",
]

_LATER = {
    "EagerCut": "torchtpu._fused",
    "EagerRegion": "torchtpu._fused",
    "EagerReport": "torchtpu._fused",
    "Report": "torchtpu._check",
    "Step": "torchtpu._step",
    "Trace": "torchtpu._capture",
    "capture": "torchtpu._capture",
    "capture_step": "torchtpu._step",
    "check": "torchtpu._check",
    "eager_mode": "torchtpu.device",
    "explain_eager": "torchtpu._fused",
    "lower": "torchtpu._capture",
    "set_plugin": "torchtpu._plugins",
    "stats": "torchtpu._stats",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'torchtpu' has no attribute {name!r}")
    return getattr(importlib.import_module(_LATER[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})


def _autoload() -> None:
    """What PyTorch calls at the end of ``import torch``."""
    from torchtpu import device

    # Where the device's module is what imports PyTorch, it goes on from here, and registers itself at its end.
    if hasattr(device, "register"):
        device.register()
    else:
        device.__dict__["_to_be_registered"] = True
