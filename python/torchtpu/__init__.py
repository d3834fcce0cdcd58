"""PyTorch on TPUs: ``torch.compile(model, backend="torchtpu")``.

The compiler is Rust (``torchtpu._native``); this package captures graphs, hands them over, and passes tensors without
copying them. Importing it is optional: PyTorch finds the backend through its entry point.
"""

from torchtpu._errors import CompileError, Error, ExecutionError, UnsupportedOp
from torchtpu._native import __version__
from torchtpu._plugins import set_plugin
from torchtpu.backend import stats
from torchtpu.capture import Trace, capture, lower

__all__ = [
    "CompileError",
    "Error",
    "ExecutionError",
    "Trace",
    "UnsupportedOp",
    "__version__",
    "capture",
    "lower",
    "set_plugin",
    "stats",
]
